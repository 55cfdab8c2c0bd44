"""``rheostat bench rescale`` and ``bench standby``: from a decision to a working executor, on a real cluster.

Rescale goes from one executor up and back, again and again. Standby goes up by one with and without a Worker in hot
standby, in turn, on Workers that a node server starts and stops. This module is also the program of their driver.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rheostat.errors import RheostatError
from rheostat.execute.live import LiveExecutors
from rheostat.execute.node_client import NodeClient, NodeState, StandbyOptions
from rheostat.execute.workers import SparkJob, WorkersActuator
from rheostat.host.java import kafka_connector_jars
from rheostat.host.spark_daemons import WorkerSize
from rheostat.lab.lab import Lab, LabSpec
from rheostat.load.curves import constant
from rheostat.load.kafka_sink import KafkaSink, ensure_topic
from rheostat.load.payload import Payloads
from rheostat.load.producer import OpenLoopProducer, RunClock
from rheostat.loop.clock import SystemClock
from rheostat.model import Action, Decision, Outcome, Reason, ReasonCode, Recommendation
from rheostat.node.options import StartedNode
from rheostat.observe.parse import parse_executors, parse_progress
from rheostat.pipelines import click_fraud, running
from rheostat.pipelines.running import ClickFraudSettings
from rheostat.ports import Actuator
from rheostat.research.bench.harness import (
    ASKED,
    TOPIC,
    Bench,
    Driver,
    Metric,
    Watch,
    abba,
    batches_done,
    ignore_progress,
    lab_and_folder,
    load_note,
    metric,
    run_driver,
    session,
    until,
    write_json,
)
from rheostat.spark.jvm import DriverJvm
from rheostat.spark.levers import SparkLevers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_PARTITIONS, _EXECUTOR_MB = 12, 512
_SESSION_S, _LONGEST_S, _STANDBY_LONGEST_S = 120.0, 900.0, 1200.0
_STANDBY_WORKERS = 3
_WINDOW_S = 2.0
_TARGETS: Mapping[int, tuple[float | None, float]] = {1: (3.5, 5.0), 3: (None, 10.0)}
"""Of decision to working by the number of executors added: median and maximum, s."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What ``bench rescale`` runs.

    ``steps``: by how many executors each rescale goes up from one, and down again. ``cap``: records of a batch.
    ``rate``: records/s offered; more than are processed, so that all batches are of one size. ``before_s``: calm before
    each decision to go up. ``warm_up``: batches before the first.
    """

    steps: Sequence[int] = (1, 1, 1, 3, 1, 1, 3, 1, 1, 3, 1)
    cap: int = 450
    rate: float = 300.0
    trigger_s: float = 2.0
    lookup_ms: float = 2.0
    before_s: float = 4.0
    warm_up: int = 8


def run_rescale(watch: Watch = ignore_progress, plan: Plan = Plan()) -> Bench:
    """Eight times one executor more, three times three more; everything that is started for it ends with it.

    Raises:
        PartFailedError: a part died; with its name and the end of its log.
        RheostatError: a rescale did not end as it should.
    """
    load, most = os.getloadavg(), 1 + max(plan.steps)
    with _lab(WorkerSize(cores=most, memory_mb=most * _EXECUTOR_MB), watch) as (lab, scratch):
        driver = Driver.start(lab, __name__, _job(plan, lab, scratch), scratch / "driver", watch)
        driver.wait_for(ASKED, _SESSION_S)
        lab.cluster.add_worker()
        with _producing(lab.broker.bootstrap, plan.rate):
            result = driver.result(_LONGEST_S)
    return Bench("rescale", figures(read_rescales(result, plan.before_s)), (*_notes(plan, result), load_note(load)))


def run_standby(watch: Watch = ignore_progress, pairs: int = 8, plan: Plan = Plan()) -> Bench:
    """Pairs of rescales by one, one with a standby Worker and one without; raises as :func:`run_rescale`."""
    load, standby = os.getloadavg(), [int(idle) for idle in abba(pairs)]
    rescale = replace(plan, steps=(1,) * len(standby))
    with _lab(WorkerSize(), watch) as (lab, scratch):
        size = ("--cores", "1", "--memory", str(_EXECUTOR_MB))
        node = StartedNode.start(lab, scratch / "node", n_max=_STANDBY_WORKERS, options=size)
        job = {**_job(rescale, lab, scratch), "node": node.address, "standby": standby}
        driver = Driver.start(lab, __name__, job, scratch / "driver", watch)
        driver.wait_for(ASKED, _SESSION_S)
        with closing(node.client()) as client:
            client.create(1)
        with _producing(lab.broker.bootstrap, rescale.rate):
            result = driver.result(_STANDBY_LONGEST_S)
        node.part.stop()
    rescales = read_rescales(result, rescale.before_s)
    return Bench("standby", standby_figures(rescales, standby), (*_STANDBY_NOTES, load_note(load)))


@contextmanager
def _lab(size: WorkerSize, watch: Watch) -> Iterator[tuple[Lab, Path]]:
    """A lab without Workers, with the topic, and a temporary folder."""
    with lab_and_folder(LabSpec(workers=0, size=size), watch) as (lab, scratch):
        ensure_topic(lab.broker.bootstrap, TOPIC, _PARTITIONS, create=True)
        yield lab, scratch


@contextmanager
def _producing(bootstrap: str, rate: float) -> Iterator[None]:
    """A constant load, in a thread, until the end of the block."""
    clock = RunClock()
    producer = OpenLoopProducer(KafkaSink(bootstrap, TOPIC), Payloads(), clock)
    thread = threading.Thread(
        target=lambda: producer.run(constant(rate, _LONGEST_S)), name="rheostat-load", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        clock.stop.set()
        thread.join(30.0)


# -------------------------------------------------------------------------------------------------------- figures


@dataclass(frozen=True, slots=True)
class Rescale:
    """One rescale up, and down again; None: unknown.

    Attributes:
        registered_s, working_s, first_s: from the decision until each new executor was registered, had begun a task,
            had ended one.
        dip: lowest share of the usual rate of finished tasks until they worked.
        calm_dip: the same in the calm before: the noise.
        cold: the batch in which they began to work ÷ a later one.
        pause_s: longest time without a finished task, until the end of that batch.
        redone_up, redone_down: tasks.
        gone_s: from the decision to go down until the driver counted as many as requested.
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


def read_rescales(result: Mapping[str, Any], before_s: float) -> list[Rescale]:
    """The rescales from the driver's result. Raises RheostatError: a rescale did not end as it should."""
    samples = [Sample(at, {name: Count(*each) for name, each in counts.items()}) for at, counts in result["samples"]]
    batches = [(began, took) for began, took, _ in result["batches"]]
    return [_rescale(one, samples, batches, before_s) for one in result["rescales"]]


def _rescale(
    one: Mapping[str, Any], samples: Sequence[Sample], batches: Sequence[tuple[float, float]], before_s: float
) -> Rescale:
    up, down, decided_at = one["up"], one["down"], one["decided_at"]
    near = [sample for sample in samples if decided_at - before_s - 1 <= sample.at <= one["down_at"]]
    working_at = find_first_start((sample for sample in near if sample.at >= decided_at), one["new"])
    if up["status"] != "applied" or working_at is None or len(one["new"]) != one["step"]:
        message = f"going up by {one['step']} did not work: {up['text']}"
        raise RheostatError(message)
    first_at = find_first_end(near, one["new"])
    done, cold = count_finished(near), cold_batch(batches, working_at, one["down_at"])
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
    """The figures of ``bench rescale``: of each size of step, up and down."""
    metrics: list[Metric] = []
    for step, (median, greatest) in _TARGETS.items():
        ones = [one for one in rescales if one.step == step]
        metrics += [
            metric(f"+{step}: decision to working, median", _values(ones, "working_s"), "s", target=median),
            _max(f"+{step}: decision to working, max", _values(ones, "working_s"), greatest),
            metric(f"+{step}: decision to registered, median", _values(ones, "registered_s"), "s"),
            metric(f"+{step}: decision to first task done, median", _values(ones, "first_s"), "s"),
            metric(f"+{step}: lowest share of the task rate, median", _values(ones, "dip"), "of before"),
            metric(f"+{step}: the same in the calm before, median", _values(ones, "calm_dip"), "of before"),
            metric(f"+{step}: cold batch ÷ warm batch, median", _values(ones, "cold"), "×"),
            _max(f"+{step}: longest time without a finished task, max", _values(ones, "pause_s")),
            _redone(f"+{step} and −{step}: redone tasks, all told", ones),
            metric(f"−{step}: decision to gone, median", _values(ones, "gone_s"), "s"),
            _max(f"−{step}: decision to gone, max", _values(ones, "gone_s")),
        ]
    return metrics


def standby_figures(rescales: Sequence[Rescale], standby: Sequence[int]) -> list[Metric]:
    """The figures of ``bench standby``: with, without, and their ratio; each pair of neighbours measures it once."""
    with_, without = ([one for one, n in zip(rescales, standby, strict=True) if bool(n) is on] for on in (True, False))
    pairs = [(one.working_s, other.working_s) for one, other in zip(with_, without, strict=True)]
    ratio = metric("with ÷ without, median; judged by the upper end", [one / other for one, other in pairs], "×")
    metrics: list[Metric] = []
    for name, ones in (("with a Worker in standby", with_), ("without one", without)):
        metrics += [
            metric(f"{name}: decision to working, median", _values(ones, "working_s"), "s"),
            _max(f"{name}: decision to working, max", _values(ones, "working_s")),
            metric(f"{name}: decision to registered, median", _values(ones, "registered_s"), "s"),
            _redone(f"{name}: redone tasks, up and down", ones),
        ]
    return [
        *metrics,
        metric("saved by the standby Worker, median", [other - one for one, other in pairs], "s"),
        replace(ratio, target=1.0, judged=math.inf if ratio.ci95 is None else ratio.ci95[1]),
    ]


def _values(ones: Sequence[Rescale], name: str) -> list[float]:
    return [value for one in ones if (value := getattr(one, name)) is not None]


def _redone(name: str, ones: Sequence[Rescale]) -> Metric:
    counts = _values(ones, "redone_up") + _values(ones, "redone_down")
    return Metric(name, float(sum(counts)), "tasks", len(counts))


def _max(name: str, values: Sequence[float], target: float | None = None) -> Metric:
    return Metric(name, max(values, default=None), "s", len(values), target=target)


def _notes(plan: Plan, result: Mapping[str, Any]) -> tuple[str, ...]:
    methods = Counter(one["down"]["method"] for one in result["rescales"])
    sizes = [records for _, _, records in result["batches"]]
    took = float(np.median([seconds for _, seconds, _ in result["batches"]]))
    removed = ", ".join(f"{method} {count} times" for method, count in sorted(methods.items()))
    return (
        "Spark standalone and Kafka on this machine; the pipeline click_fraud, from 1 executor of 1 core up and back. "
        f"Trigger {plan.trigger_s:g} s, {_PARTITIONS} partitions, look-up {plan.lookup_ms:g} ms a record, "
        f"median batch {np.median(sizes):.0f} records in {took:.2f} s; more is offered than processed.",
        "Working: each new executor had begun a task; sampled every 0.05 s.",
        f"Share of the task rate: the lowest window of {_WINDOW_S:g} s until working ÷ the {plan.before_s:g} s before. "
        "Cold batch: the one in which the new executors began to work; the time without a finished task is measured "
        "until its end.",
        f"Removed by: {removed}. Gone: the driver no longer counts it; its process ends within 5 s.",
    )


_STANDBY_NOTES = (
    "Spark standalone and Kafka on this machine; the pipeline click_fraud, from 1 executor of 1 core to 2 and back, in "
    "the order ABBA with and without an idle Worker in standby. The actuator `workers` changes both layers; a node "
    "server starts and stops the Workers.",
    "Without a standby Worker the decision starts a Worker and then an executor on it. With one it starts the "
    "executor, and then the Worker that replaces the one in standby.",
    "Working: the new executor had begun a task; sampled every 0.05 s.",
)

# ----------------------------------------------------------------------------------------------------- the driver

_TIMEOUT_S = 90.0
_SAMPLE_S = 0.05
_SETTLED = 2


def _job(plan: Plan, lab: Lab, scratch: Path) -> dict[str, Any]:
    """The driver's task: the plan, the configuration of the session, and the pipeline.

    That of ``bench standby`` has ``node`` too, the address of the node server, and ``standby``: the Workers in standby
    when each rescale begins, and kept through it.
    """
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
    cluster = lab.cluster.driver_conf(executor_memory_mb=_EXECUTOR_MB, jars=kafka_connector_jars())
    ours = {
        "spark.ui.enabled": "false",
        "spark.ui.liveUpdate.period": "0",
        "spark.sql.streaming.numRecentProgressUpdates": "2000",
    }
    conf = click_fraud.spark_conf(pipeline) | cluster | ours
    return {"plan": asdict(plan), "conf": conf, "pipeline": asdict(pipeline)}


class _Sampler:
    """Samples the executors, on a thread of its own."""

    def __init__(self, jvm: DriverJvm) -> None:
        self.samples: list[Sample] = []
        self._jvm = jvm
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rheostat-sampler", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_SAMPLE_S):
            executors = parse_executors(self._jvm.executors())
            counts = {one.executor_id: Count(one.active_tasks, one.finished_tasks) for one in executors}
            self.samples.append(Sample(time.time(), counts))


class _Rescaling:
    """The rescales, one after the other."""

    def __init__(self, job: Mapping[str, Any], spark: SparkSession, live: LiveExecutors, watch: Watch) -> None:
        self._plan, self._watch = Plan(**job["plan"]), watch
        self._levers, self._jvm = SparkLevers(spark), DriverJvm(spark)
        self._sampler = _Sampler(self._jvm)
        self._decisions = 0
        self._calm_since = time.time()
        self._node: str | None = job.get("node")
        self._standby: Sequence[int] = job.get("standby", ())
        self._actuators: Sequence[Actuator] = [live] * len(self._plan.steps)
        if self._node is not None:
            spark_job, nodes = SparkJob(self._levers, self._jvm), [_client(self._node)]
            by_standby = {
                idle: WorkersActuator(live, spark_job, nodes, StandbyOptions(idle, every_s=_TIMEOUT_S))
                for idle in set(self._standby)
            }
            self._actuators = [by_standby[idle] for idle in self._standby]

    def run(self, query: StreamingQuery) -> dict[str, Any]:
        try:
            until(lambda: batches_done(query) >= self._plan.warm_up, "warming up", _TIMEOUT_S)
            self._calm_since = time.time()
            rescales = [self._rescale(query, number) for number in range(len(self._plan.steps))]
        finally:
            self._sampler.close()
        parsed = [parse_progress(progress.json).batch for progress in query.recentProgress]
        batches = [(b.at - b.duration_s, b.duration_s, b.records or 0) for b in parsed if b is not None]
        return {"rescales": rescales, "samples": self._sampler.samples, "batches": batches}

    def _rescale(self, query: StreamingQuery, number: int) -> dict[str, Any]:
        step, actuator = self._plan.steps[number], self._actuators[number]
        self._watch(number, len(self._plan.steps), f"rescales; now {step} more, and back")
        if self._node is not None:
            _prepare_standby(self._node, self._standby[number])
        until(lambda: time.time() > self._calm_since + self._plan.before_s, "calm", _TIMEOUT_S)
        old, stage = set(self._levers.registered()), self._levers.oldest_stage()
        decided_at = time.time()
        up = self._change(actuator, 1 + step)
        new = sorted(set(self._levers.registered()) - old)
        since, samples = max(0, len(self._sampler.samples) - 1000), self._sampler.samples
        until(lambda: find_first_start(samples[since:], new) is not None, "a task on each new executor", _TIMEOUT_S)
        reached = batches_done(query) + 1 + _SETTLED
        until(lambda: batches_done(query) >= reached, "batches at the new number", _TIMEOUT_S)
        redone, down_at = self._levers.redone_tasks(stage), time.time()
        down = self._change(actuator, 1)
        self._calm_since = down.at
        return {
            "step": step,
            "new": new,
            "decided_at": decided_at,
            "down_at": down_at,
            "up": _outcome_json(up, redone),
            "down": _outcome_json(down, down.redone_tasks),
        }

    def _change(self, actuator: Actuator, target: int) -> Outcome:
        self._decisions += 1
        now = len(self._levers.registered())
        reason = Reason(ReasonCode.FIXED, "a benchmark")
        action, answer = Action.UP if target > now else Action.DOWN, Recommendation(target, reason)
        actuator.apply(Decision(time.time(), self._decisions, action, now, target, reason, answer))
        outcomes: list[Outcome] = []

        def poll() -> bool:
            outcome = actuator.poll(time.time())
            outcomes.extend([] if outcome is None else [outcome])
            return bool(outcomes)

        until(poll, f"{target} executors", _TIMEOUT_S)
        return outcomes[0]


def _outcome_json(outcome: Outcome, redone: int | None) -> dict[str, Any]:
    return {
        "status": outcome.status.value,
        "took_s": outcome.took_s,
        "method": outcome.method,
        "redone_tasks": redone,
        "text": outcome.reason.text,
    }


def _client(node: str) -> NodeClient:
    return NodeClient(node, None, timeout_s=10.0)


def _prepare_standby(address: str, idle: int) -> None:
    """Bring about this many idle Workers, all registered, and none on its way out."""

    def has_workers(state: NodeState, wanted: int | None) -> bool:
        there = state.n_max - state.free
        return len(state.used) == 1 and (wanted is None or (len(state.names) == there == 1 + wanted))

    with closing(_client(address)) as node:
        until(lambda: has_workers(node.state(), None), "one used Worker", _TIMEOUT_S)
        state = node.state()
        if state.idle < idle:
            node.create(idle - state.idle)
        elif state.idle > idle:
            node.remove(state.used, idle)
        until(lambda: has_workers(node.state(), idle), f"{idle} Workers in standby", _TIMEOUT_S)


def _drive(job: Mapping[str, Any], folder: Path, watch: Watch) -> dict[str, Any]:
    watch(0, 0, "warming up")
    with session(job["conf"], "rheostat-bench-rescale") as spark:
        live = LiveExecutors(SparkLevers(spark), SystemClock())
        live.ensure(1)
        write_json(folder / ASKED, 1)
        query = click_fraud.start(ClickFraudSettings(**job["pipeline"]), spark)
        result = _Rescaling(job, spark, live, watch).run(query)
        live.close()
        running.finish(query)
    return result


# -------------------------------------------------------------------- what samples of the executors show of a rescale


class Count(NamedTuple):
    """Tasks of one executor: running now, and ended (finished or failed) since its start."""

    active: int
    ended: int


class Sample(NamedTuple):
    """The registered executors at one time (epoch seconds)."""

    at: float
    executors: Mapping[str, Count]


class Cold(NamedTuple):
    """The first batch at a new number: when it ended, and its duration ÷ the median of those after it."""

    ended_at: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Finished:
    """Tasks ended so far, as a step function of time. ``times`` ascends; ``totals`` never falls."""

    times: Sequence[float]
    totals: Sequence[int]

    def at(self, when: float) -> int:
        """The total at a time; before the first sample that of the first."""
        return self.totals[max(0, bisect_right(self.times, when) - 1)]

    def rate(self, begin: float, end: float) -> float:
        """Tasks/s."""
        return (self.at(end) - self.at(begin)) / (end - begin)


def find_first_start(samples: Iterable[Sample], executors: Iterable[str]) -> float | None:
    """When the last of these executors was first sampled with a task, running or ended; None: one never was."""
    return _first_time(samples, executors, lambda count: count.active + count.ended > 0)


def find_first_end(samples: Iterable[Sample], executors: Iterable[str]) -> float | None:
    """When the last of these executors was first sampled with an ended task; None: one never was."""
    return _first_time(samples, executors, lambda count: count.ended > 0)


def _first_time(samples: Iterable[Sample], executors: Iterable[str], holds: Callable[[Count], bool]) -> float | None:
    waiting = set(executors)
    for sample in samples:
        waiting -= {name for name, count in sample.executors.items() if holds(count)}
        if not waiting:
            return sample.at
    return None


def count_finished(samples: Sequence[Sample]) -> Finished:
    """Tasks ended since the first sample, of all executors, also of those that are gone."""
    known: dict[str, int] = {}
    total, totals = 0, []
    for number, sample in enumerate(samples):
        for name, count in sample.executors.items():
            before = known.get(name, count.ended if number == 0 else 0)
            total += max(0, count.ended - before)
            known[name] = count.ended
        totals.append(total)
    return Finished([sample.at for sample in samples], totals)


def lowest_share(done: Finished, begin: float, end: float, *, window_s: float, before_s: float) -> float | None:
    """The lowest rate of any window within [begin, end] ÷ the rate of the ``before_s`` seconds before ``begin``.

    A stretch shorter than a window counts as one window. None if nothing ended before.
    """
    usual = done.rate(begin - before_s, begin)
    if usual <= 0:
        return None
    last = max(begin, end - window_s)
    starts = [begin + _SAMPLE_S * step for step in range(math.floor((last - begin) / _SAMPLE_S) + 1)]
    return min(done.rate(start, start + window_s) for start in starts) / usual


def longest_pause(done: Finished, begin: float, end: float) -> float:
    """The longest time within [begin, end] in which no task ended."""
    rises = zip(done.times[1:], pairwise(done.totals), strict=False)
    ended = [at for at, (before, total) in rises if total > before and begin <= at <= end]
    return max(later - earlier for earlier, later in pairwise([begin, *ended, end]))


def cold_batch(batches: Iterable[tuple[float, float]], working: float, until: float) -> Cold | None:
    """The batch in which the new executors began to work, beside those after it.

    ``batches``: when each began, and how long it took. ``working``: when all new executors had begun a task. ``until``:
    when the number was changed again.
    """
    after = [(began, took) for began, took in batches if began + took > working and began + took <= until]
    if len(after) < 2:
        return None
    (began, took), *warm = after
    return Cold(began + took, took / statistics.median(seconds for _, seconds in warm))


if __name__ == "__main__":
    sys.exit(run_driver(Path(sys.argv[1]), _drive))
