"""``rheostat bench rescale``: from a decision to an executor that works, on a real cluster with a query under load."""

from __future__ import annotations

import os
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rheostat.bench.measure import Bench, Metric, Watch, metric, unwatched
from rheostat.bench.rescale_driver import Job
from rheostat.bench.samples import (
    Count,
    Sample,
    begun,
    cold_batch,
    ended,
    finished,
    longest_pause,
    lowest_share,
)
from rheostat.bench.stage import TOPIC, Driver, load_note
from rheostat.errors import RheostatError
from rheostat.lab.daemons import WorkerSize
from rheostat.lab.jars import kafka_connector_jars
from rheostat.lab.lab import Lab, LabSpec
from rheostat.load.clock import RunClock
from rheostat.load.curves import constant
from rheostat.load.kafka_sink import KafkaSink, ensure_topic
from rheostat.load.payload import Payloads
from rheostat.load.producer import Producer
from rheostat.pipelines import click_fraud
from rheostat.pipelines.settings import ClickFraudSettings

__all__ = ["EXECUTOR_MB", "Plan", "Rescale", "figures", "job_of", "producing", "read_rescales", "run", "run_plan"]

_MODULE = "rheostat.bench.rescale_driver"
_PARTITIONS, EXECUTOR_MB = 12, 512
_SESSION_S, _LONGEST_S = 120.0, 900.0
_WINDOW_S = 2.0
_TARGETS: Mapping[int, tuple[float | None, float]] = {1: (3.5, 5.0), 3: (None, 10.0)}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run.

    Attributes:
        steps: by how many executors each rescale goes up from one, and down again.
        cap: records of a batch.
        rate: records/s offered; more than are processed, so that all batches are of one size.
    """

    steps: Sequence[int] = (1, 1, 1, 3, 1, 1, 3, 1, 1, 3, 1)
    cap: int = 450
    rate: float = 300.0
    trigger_s: float = 2.0
    lookup_ms: float = 2.0
    before_s: float = 4.0
    warm_up: int = 8


@dataclass(frozen=True, slots=True)
class Rescale:
    """One rescale up, and down again.

    Attributes:
        registered_s: from the decision until all new executors were registered.
        working_s: until each of them had begun a task.
        first_s: until each of them had ended one.
        dip: lowest share of the usual rate of finished tasks until they worked; None: not known.
        calm_dip: the same in the calm before: what is noise.
        cold: the batch in which they began to work ÷ a later one.
        pause_s: longest time without a finished task, until the end of that batch.
        redone_up, redone_down: tasks.
        gone_s: from the decision to go down until the driver counted as many as asked for.
        method: how they were removed.
    """

    step: int
    registered_s: float
    working_s: float
    first_s: float | None
    dip: float | None
    calm_dip: float | None
    cold: float | None
    pause_s: float
    redone_up: int | None
    redone_down: int | None
    gone_s: float
    method: str


def run(watch: Watch = unwatched) -> Bench:
    """Eight times one executor more, three times three more."""
    return run_plan(Plan(), watch)


def run_plan(plan: Plan, watch: Watch = unwatched) -> Bench:
    """Run a plan; everything that it starts ends with it.

    Raises:
        PartFailedError: a part died; with its name and the end of its log.
        RheostatError: a rescale did not end as it should.
    """
    load = os.getloadavg()
    size = WorkerSize(cores=1 + max(plan.steps), memory_mb=(1 + max(plan.steps)) * EXECUTOR_MB)
    with (
        tempfile.TemporaryDirectory(prefix="rheostat-bench-") as scratch,
        Lab(LabSpec(workers=0, size=size), say=lambda sentence: watch(0, 0, sentence)) as lab,
    ):
        ensure_topic(lab.broker.bootstrap, TOPIC, _PARTITIONS, create=True)
        job = job_of(plan, lab, Path(scratch))
        driver = Driver.start(lab, _MODULE, job.to_json(), Path(scratch) / "driver", watch)
        driver.wait_asked(_SESSION_S)
        lab.cluster.add_worker()
        with producing(lab.broker.bootstrap, plan.rate):
            result = driver.result(_LONGEST_S)
    return Bench("rescale", figures(read_rescales(result, plan.before_s)), (*_notes(plan, result), load_note(load)))


def job_of(plan: Plan, lab: Lab, scratch: Path) -> Job:
    """What the driver is told."""
    pipeline = ClickFraudSettings(
        source="kafka",
        checkpoint=str(scratch / "checkpoint"),
        out=str(scratch / "out"),
        bootstrap=lab.broker.bootstrap,
        topic=TOPIC,
        cap=plan.cap,
        trigger_s=plan.trigger_s,
        lookup_ms=plan.lookup_ms,
    )
    cluster = lab.cluster.driver_conf(executor_memory_mb=EXECUTOR_MB, jars=kafka_connector_jars())
    ours = {
        "spark.ui.enabled": "false",
        "spark.ui.liveUpdate.period": "0",
        "spark.sql.streaming.numRecentProgressUpdates": "2000",
    }
    conf = click_fraud.spark_conf(pipeline) | cluster | ours
    return Job(conf, asdict(pipeline), tuple(plan.steps), before_s=plan.before_s, warm_up=plan.warm_up)


@contextmanager
def producing(bootstrap: str, rate: float) -> Iterator[None]:
    """A constant load, in a thread, until the end of the block."""
    clock = RunClock()
    producer = Producer(KafkaSink(bootstrap, TOPIC), Payloads(), clock)
    thread = threading.Thread(
        target=lambda: producer.run(constant(rate, _LONGEST_S)), name="rheostat-load", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        clock.stop.set()
        thread.join(30.0)


def read_rescales(result: Mapping[str, Any], before_s: float) -> list[Rescale]:
    """What the driver wrote, worked out.

    Raises:
        RheostatError: a rescale did not end as it should.
    """
    samples = [
        Sample(at, {name: Count(*counts) for name, counts in executors.items()}) for at, executors in result["samples"]
    ]
    batches = [(began, took) for began, took, _ in result["batches"]]
    return [_rescale(one, samples, batches, before_s) for one in result["rescales"]]


def _rescale(
    one: Mapping[str, Any], samples: Sequence[Sample], batches: Sequence[tuple[float, float]], before_s: float
) -> Rescale:
    up, down, decided_at = one["up"], one["down"], one["decided_at"]
    near = [sample for sample in samples if decided_at - before_s - 1 <= sample.at <= one["down_at"]]
    working_at = begun((sample for sample in near if sample.at >= decided_at), one["new"])
    if up["status"] != "applied" or working_at is None or len(one["new"]) != one["step"]:
        message = f"going up by {one['step']} did not work: {up['text']}"
        raise RheostatError(message)
    first_at = ended(near, one["new"])
    done, cold = finished(near), cold_batch(batches, working_at, one["down_at"])
    half = before_s / 2
    return Rescale(
        step=one["step"],
        registered_s=up["took_s"],
        working_s=working_at - decided_at,
        first_s=None if first_at is None else first_at - decided_at,
        dip=lowest_share(done, decided_at, working_at, window_s=_WINDOW_S, before_s=before_s),
        calm_dip=lowest_share(done, decided_at - half, decided_at, window_s=min(_WINDOW_S, half), before_s=half),
        cold=None if cold is None else cold.ratio,
        pause_s=longest_pause(done, decided_at, working_at if cold is None else cold.ended_at),
        redone_up=up["redone_tasks"],
        redone_down=down["redone_tasks"],
        gone_s=down["took_s"],
        method=down["method"],
    )


def figures(rescales: Sequence[Rescale]) -> list[Metric]:
    """The figures of each size of step, and those of going down by one."""
    found: list[Metric] = []
    for step, (median, greatest) in _TARGETS.items():
        found += _of_step(step, [one for one in rescales if one.step == step], median, greatest)
    return found


def _of_step(step: int, ones: Sequence[Rescale], median: float | None, greatest: float) -> list[Metric]:
    working = [one.working_s for one in ones]
    redone = [count for one in ones for count in (one.redone_up, one.redone_down) if count is not None]
    return [
        metric(f"+{step}: decision to working, median", working, "s", target=median),
        _most(f"+{step}: decision to working, max", working, "s", greatest),
        metric(f"+{step}: decision to registered, median", [one.registered_s for one in ones], "s"),
        metric(f"+{step}: decision to first task done, median", _known(one.first_s for one in ones), "s"),
        metric(f"+{step}: lowest share of the task rate, median", _known(one.dip for one in ones), "of before"),
        metric(f"+{step}: the same in the calm before, median", _known(one.calm_dip for one in ones), "of before"),
        metric(f"+{step}: cold batch ÷ warm batch, median", _known(one.cold for one in ones), "×"),
        _most(f"+{step}: longest time without a finished task, max", [one.pause_s for one in ones], "s"),
        Metric(f"+{step} and −{step}: redone tasks, all told", float(sum(redone)), "tasks", len(redone)),
        metric(f"−{step}: decision to gone, median", [one.gone_s for one in ones], "s"),
        _most(f"−{step}: decision to gone, max", [one.gone_s for one in ones], "s"),
    ]


def _known(values: Any) -> list[float]:
    return [value for value in values if value is not None]


def _most(name: str, values: Sequence[float], unit: str, target: float | None = None) -> Metric:
    return Metric(name, max(values, default=None), unit, len(values), target=target)


def _notes(plan: Plan, result: Mapping[str, Any]) -> tuple[str, ...]:
    methods = Counter(one["down"]["method"] for one in result["rescales"])
    sizes = [records for _, _, records in result["batches"]]
    took = float(np.median([seconds for _, seconds, _ in result["batches"]]))
    removed = ", ".join(f"{method} {count} times" for method, count in sorted(methods.items()))
    return (
        "Spark standalone and Kafka on this machine; the pipeline click_fraud, from 1 executor of 1 core up and back. "
        f"Trigger {plan.trigger_s:g} s, {_PARTITIONS} partitions, look-up {plan.lookup_ms:g} ms a record, "
        f"median batch {np.median(sizes):.0f} records in {took:.2f} s; more is offered than processed.",
        "Working: the new executor (of three, the last one) was seen to have begun a task; looked at every 0.05 s.",
        f"Share of the task rate: the lowest window of {_WINDOW_S:g} s from the decision until working ÷ the "
        f"{plan.before_s:g} s before. Cold batch: the one in which the new executors began to work; the "
        "time without a finished task is looked at until its end.",
        f"Removed by: {removed}. Gone: the driver no longer counts it; its process ends within 5 s.",
    )
