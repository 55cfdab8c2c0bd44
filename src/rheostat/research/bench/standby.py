"""``rheostat bench standby``: what a Worker in hot standby saves, from a decision to an executor that works.

Rescales by one with and without it, in turn, in one run on a real cluster whose Workers a node server starts and stops.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path

import numpy as np

from rheostat.execute.node_client import NodeClient, NodeState, StandbyOptions
from rheostat.execute.workers import SparkJob, WorkersActuator
from rheostat.lab.lab import Lab, LabSpec
from rheostat.load.kafka_sink import ensure_topic
from rheostat.node.options import StartedNode
from rheostat.ports import Actuator
from rheostat.research.bench.harness import (
    TOPIC,
    Bench,
    Driver,
    Metric,
    Watch,
    abba,
    load_note,
    metric,
    until,
    unwatched,
)
from rheostat.research.bench.rescale import (
    EXECUTOR_MB,
    Job,
    Plan,
    Play,
    Rescale,
    job_of,
    main,
    producing,
    read_rescales,
)

_MODULE = "rheostat.research.bench.standby"
_PARTITIONS, _WORKERS = 12, 3
_SESSION_S, _LONGEST_S = 120.0, 1200.0


@dataclass(frozen=True, slots=True)
class StandbyPlan:
    """What is run: so many pairs of rescales by one, one with a standby Worker and one without."""

    pairs: int = 8
    rescale: Plan = field(default_factory=Plan)

    @property
    def standby(self) -> tuple[int, ...]:
        """Workers in standby at each rescale, in the order ABBA."""
        return tuple(int(with_) for with_ in abba(self.pairs))


def run_standby(watch: Watch = unwatched) -> Bench:
    """Eight rescales with a standby Worker and eight without."""
    return run_plan(StandbyPlan(), watch)


def run_plan(plan: StandbyPlan, watch: Watch = unwatched) -> Bench:
    """Run a plan; everything that it starts ends with it.

    Raises:
        PartFailedError: a part died; with its name and the end of its log.
        RheostatError: a rescale did not end as it should.
    """
    load = os.getloadavg()
    with (
        tempfile.TemporaryDirectory(prefix="rheostat-bench-") as scratch,
        Lab(LabSpec(workers=0), say=lambda sentence: watch(0, 0, sentence)) as lab,
    ):
        ensure_topic(lab.broker.bootstrap, TOPIC, _PARTITIONS, create=True)
        size = ("--cores", "1", "--memory", str(EXECUTOR_MB))
        node = StartedNode.start(lab, Path(scratch) / "node", n_max=_WORKERS, options=size)
        job = _job(plan, job_of(plan.rescale, lab, Path(scratch)), node)
        driver = Driver.start(lab, _MODULE, job.to_json(), Path(scratch) / "driver", watch)
        driver.wait_asked(_SESSION_S)
        with closing(node.client()) as client:
            client.create(1)
        with producing(lab.broker.bootstrap, plan.rescale.rate):
            result = driver.result(_LONGEST_S)
        node.part.stop()
    rescales = read_rescales(result, plan.rescale.before_s)
    return Bench("standby", figures(rescales, plan.standby), (*_NOTES, load_note(load)))


def _job(plan: StandbyPlan, job: Job, node: StartedNode) -> StandbyJob:
    values = {each.name: getattr(job, each.name) for each in fields(Job)}
    return StandbyJob(**{**values, "steps": (1,) * len(plan.standby)}, node=node.address, standby=plan.standby)


def figures(rescales: Sequence[Rescale], standby: Sequence[int]) -> list[Metric]:
    """With and without, and their ratio; each pair of neighbours is one measurement of it."""
    with_ = [one for one, there in zip(rescales, standby, strict=True) if there]
    without = [one for one, there in zip(rescales, standby, strict=True) if not there]
    ratios = [one.working_s / other.working_s for one, other in zip(with_, without, strict=True)]
    ratio = metric("with ÷ without, median; judged by the upper end", ratios, "×")
    judged = None if ratio.ci95 is None else ratio.ci95[1]
    saved = [other.working_s - one.working_s for one, other in zip(with_, without, strict=True)]
    return [
        *_of("with a Worker in standby", with_),
        *_of("without one", without),
        metric("saved by the standby Worker, median", saved, "s"),
        Metric(ratio.name, ratio.value, ratio.unit, ratio.n, ratio.ci95, 1.0, np.inf if judged is None else judged),
    ]


def _of(name: str, ones: Sequence[Rescale]) -> list[Metric]:
    working = [one.working_s for one in ones]
    redone = [count for one in ones for count in (one.redone_up, one.redone_down) if count is not None]
    return [
        metric(f"{name}: decision to working, median", working, "s"),
        Metric(f"{name}: decision to working, max", max(working, default=None), "s", len(working)),
        metric(f"{name}: decision to registered, median", [one.registered_s for one in ones], "s"),
        Metric(f"{name}: redone tasks, up and down", float(sum(redone)), "tasks", len(redone)),
    ]


_NOTES = (
    "Spark standalone and Kafka on this machine; the pipeline click_fraud, from 1 executor of 1 core to 2 and back, in "
    "the order ABBA: with one idle Worker that is registered when the decision is made, and with none. The actuator "
    "`workers` moves both layers; a node server starts and stops the Workers, each of one core at its own address.",
    "Without a standby Worker the decision starts a Worker and then an executor on it. With one it starts the "
    "executor, and once that is registered the Worker that takes the place in standby.",
    "Working: the new executor was seen to have begun a task; looked at every 0.05 s.",
)


# The driver of ``rheostat bench standby``: rescales with a Worker in hot standby, and without, in turn.


_TIMEOUT_S = 90.0


@dataclass(frozen=True, slots=True)
class StandbyJob(Job):
    """What the driver is told.

    Attributes:
        node: address of the node server.
        standby: Workers in standby when each rescale begins, and kept through it.
    """

    node: str = ""
    standby: Sequence[int] = ()


class StandbyPlay(Play):
    """Each rescale begins with its standby, and moves both layers."""

    @cached_property
    def _actuators(self) -> dict[int, Actuator]:
        """One for each number of Workers in standby."""
        job = SparkJob(self._levers, self._jvm)
        return {
            backup: WorkersActuator(self._live, job, [self._node()], StandbyOptions(backup, every_s=_TIMEOUT_S))
            for backup in set(self._told.standby)
        }

    def actuator(self, number: int) -> Actuator:
        """Of both layers."""
        return self._actuators[self._told.standby[number]]

    def prepare(self, number: int) -> None:
        """As many idle Workers as the rescale is to begin with, all of them registered, and none on its way out."""
        wanted = self._told.standby[number]
        with closing(self._node()) as node:
            until(lambda: _stands(node.state(), 1, None), "one used Worker", _TIMEOUT_S)
            seen = node.state()
            if seen.idle < wanted:
                node.create(wanted - seen.idle)
            elif seen.idle > wanted:
                node.remove(seen.used, wanted)
            until(lambda: _stands(node.state(), 1, wanted), f"{wanted} Workers in standby", _TIMEOUT_S)

    @property
    def _told(self) -> StandbyJob:
        assert isinstance(self._job, StandbyJob)  # noqa: S101
        return self._job

    def _node(self) -> NodeClient:
        return NodeClient(self._told.node, None, timeout_s=10.0)


def _stands(seen: NodeState, used: int, idle: int | None) -> bool:
    """Whether so many Workers are used and idle, and no other one is there."""
    there = seen.n_max - seen.free
    return len(seen.used) == used and (idle is None or (len(seen.names) == there == used + idle))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], StandbyPlay, StandbyJob))
