"""``rheostat bench rescale``: from a decision to an executor that works, on a real cluster with a query under load."""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rheostat.errors import RheostatError
from rheostat.execute.live import LiveExecutors
from rheostat.host.java import kafka_connector_jars
from rheostat.host.spark_daemons import WorkerSize
from rheostat.lab.lab import Lab, LabSpec
from rheostat.load.curves import constant
from rheostat.load.kafka_sink import KafkaSink, ensure_topic
from rheostat.load.payload import Payloads
from rheostat.load.producer import OpenLoopProducer, RunClock
from rheostat.loop.clock import SystemClock
from rheostat.model import Action, Decision, Outcome, Reason, ReasonCode, Recommendation
from rheostat.observe.parse import parse_executors, parse_progress
from rheostat.pipelines import click_fraud, running
from rheostat.pipelines.running import ClickFraudSettings
from rheostat.ports import Actuator
from rheostat.research.bench.harness import (
    ASKED,
    RESULT,
    TOPIC,
    Bench,
    Driver,
    Metric,
    Watch,
    batches_done,
    load_note,
    metric,
    progress_in,
    session,
    tell,
    until,
    unwatched,
)
from rheostat.spark.jvm import DriverJvm
from rheostat.spark.levers import SparkLevers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_MODULE = "rheostat.research.bench.rescale"
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


def run_rescale(watch: Watch = unwatched) -> Bench:
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


# The driver of ``rheostat bench rescale``: a query under load whose executors go up and down again and again.


_TIMEOUT_S = 90.0
_SETTLED = 2


@dataclass(frozen=True, slots=True)
class Job:
    """What the driver is told.

    Attributes:
        conf: the session's configuration.
        pipeline: fields of :class:`~rheostat.pipelines.running.ClickFraudSettings`.
        steps: by how many executors each rescale goes up from one, and down again.
        sample_s: between two looks at the executors.
        before_s: calm before each decision to go up.
        warm_up: batches before the first.
    """

    conf: Mapping[str, str]
    pipeline: Mapping[str, Any]
    steps: Sequence[int]
    sample_s: float = 0.05
    before_s: float = 4.0
    warm_up: int = 8

    def to_json(self) -> dict[str, Any]:
        """As a JSON value."""
        return asdict(self)


class _Sampler:
    """Looks at the executors all the time, on a thread of its own."""

    def __init__(self, jvm: DriverJvm, every_s: float) -> None:
        self.samples: list[Sample] = []
        self._jvm, self._every_s = jvm, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rheostat-sampler", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            seen = parse_executors(self._jvm.executors())
            counts = {one.executor_id: Count(one.active_tasks, one.finished_tasks) for one in seen}
            self.samples.append(Sample(time.time(), counts))


class Play:
    """The rescales, one after the other. What changes the executors, and what comes before each, may be another's."""

    def __init__(
        self, job: Job, spark: SparkSession, live: LiveExecutors, watch: Callable[[int, int, str], None]
    ) -> None:
        self._job, self._live, self._watch = job, live, watch
        self._levers, self._jvm = SparkLevers(spark), DriverJvm(spark)
        self._sampler = _Sampler(self._jvm, job.sample_s)
        self._decisions = 0
        self._calm_since = time.time()

    def actuator(self, number: int) -> Actuator:  # noqa: ARG002 - others differ from one rescale to the next
        """What changes the executors in the rescale of that number."""
        return self._live

    def prepare(self, number: int) -> None:
        """Bring about what a rescale begins with."""

    def run(self, query: StreamingQuery) -> dict[str, Any]:
        """All of them; what was seen."""
        try:
            until(lambda: batches_done(query) >= self._job.warm_up, "warming up", _TIMEOUT_S)
            self._calm_since = time.time()
            rescales = [self._up_and_down(query, number) for number in range(len(self._job.steps))]
        finally:
            self._sampler.close()
        batches = [found for found in map(_batch, query.recentProgress) if found is not None]
        samples = [_plain(sample) for sample in self._sampler.samples]
        return {"rescales": rescales, "samples": samples, "batches": batches}

    def _up_and_down(self, query: StreamingQuery, number: int) -> dict[str, Any]:
        step = self._job.steps[number]
        self._watch(number, len(self._job.steps), f"rescales; now {step} more, and back")
        self.prepare(number)
        actuator = self.actuator(number)
        until(lambda: time.time() > self._calm_since + self._job.before_s, "calm", _TIMEOUT_S)
        old, stage = set(self._levers.registered()), self._levers.oldest_stage()
        decided_at = time.time()
        up = self._change(actuator, 1 + step)
        new = tuple(set(self._levers.registered()) - old)
        since = len(self._sampler.samples)
        until(lambda: self._worked(new, max(0, since - 1000)), "a task on each new executor", _TIMEOUT_S)
        reached = batches_done(query) + 1 + _SETTLED
        until(lambda: batches_done(query) >= reached, "batches at the new number", _TIMEOUT_S)
        redone, down_at = self._levers.redone_tasks(stage), time.time()
        down = self._change(actuator, 1)
        self._calm_since = down.at
        return {
            "step": step,
            "new": sorted(new),
            "decided_at": decided_at,
            "down_at": down_at,
            "up": _told(up, redone),
            "down": _told(down, down.redone_tasks),
        }

    def _worked(self, executors: Sequence[str], since: int) -> bool:
        return begun(self._sampler.samples[since:], executors) is not None

    def _change(self, actuator: Actuator, target: int) -> Outcome:
        self._decisions += 1
        now = len(self._levers.registered())
        reason = Reason(ReasonCode.FIXED, "a benchmark")
        action = Action.UP if target > now else Action.DOWN
        actuator.apply(
            Decision(time.time(), self._decisions, action, now, target, reason, Recommendation(target, reason))
        )
        found: list[Outcome] = []

        def ended() -> bool:
            outcome = actuator.poll(time.time())
            found.extend([] if outcome is None else [outcome])
            return bool(found)

        until(ended, f"{target} executors", _TIMEOUT_S)
        return found[0]


def _plain(sample: Sample) -> list[Any]:
    return [sample.at, {name: [count.active, count.ended] for name, count in sample.executors.items()}]


def _batch(progress: Any) -> tuple[float, float, int] | None:
    """When a batch began, how long it took, its records."""
    batch = parse_progress(progress.json).batch
    return None if batch is None else (batch.at - batch.duration_s, batch.duration_s, batch.records or 0)


def _told(outcome: Outcome, redone: int | None) -> dict[str, Any]:
    return {
        "status": outcome.status.value,
        "took_s": outcome.took_s,
        "method": outcome.method,
        "redone_tasks": redone,
        "text": outcome.reason.text,
    }


def main(argv: Sequence[str], play: type[Play] = Play, read: type[Job] = Job) -> int:
    """Run the job in a folder; the exit code is that of the error, 0 without one."""
    folder = Path(argv[0])
    job = read(**json.loads((folder / "job.json").read_text(encoding="utf-8")))
    watch = progress_in(folder)
    try:
        watch(0, 0, "warming up")
        with session(job.conf, "rheostat-bench-rescale") as spark:
            live = LiveExecutors(SparkLevers(spark), SystemClock())
            live.ensure(1)
            tell(folder / ASKED, 1)
            query = click_fraud.start(ClickFraudSettings(**job.pipeline), spark)
            result = play(job, spark, live, watch).run(query)
            live.close()
            running.finish(query)
    except RheostatError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    tell(folder / RESULT, result)
    return 0


# What samples of an application's executors tell of a rescale. Pure.


_STEP_S = 0.05


@dataclass(frozen=True, slots=True)
class Count:
    """Tasks of one executor: running now, and ended (finished or failed) since its start."""

    active: int
    ended: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The registered executors at one time (epoch seconds)."""

    at: float
    executors: Mapping[str, Count]


@dataclass(frozen=True, slots=True)
class Cold:
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


def begun(samples: Iterable[Sample], executors: Iterable[str]) -> float | None:
    """When the last of these executors was first seen with a task, running or ended; None: one never was."""
    return _seen(samples, executors, lambda count: count.active + count.ended > 0)


def ended(samples: Iterable[Sample], executors: Iterable[str]) -> float | None:
    """When the last of these executors was first seen to have ended a task; None: one never was."""
    return _seen(samples, executors, lambda count: count.ended > 0)


def _seen(samples: Iterable[Sample], executors: Iterable[str], holds: Callable[[Count], bool]) -> float | None:
    waiting = set(executors)
    for sample in samples:
        waiting -= {name for name, count in sample.executors.items() if holds(count)}
        if not waiting:
            return sample.at
    return None


def finished(samples: Sequence[Sample]) -> Finished:
    """Tasks ended since the first sample. Executors that come bring theirs; those that go take none away."""
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

    A stretch that is shorter than a window is taken as one window. None where nothing ended before.
    """
    usual = done.rate(begin - before_s, begin)
    if usual <= 0:
        return None
    last = max(begin, end - window_s)
    starts = [begin + _STEP_S * step for step in range(math.floor((last - begin) / _STEP_S) + 1)]
    return min(done.rate(start, start + window_s) for start in starts) / usual


def longest_pause(done: Finished, begin: float, end: float) -> float:
    """The longest time within [begin, end] in which no task ended."""
    steps = [begin]
    for at, total, before in zip(done.times[1:], done.totals[1:], done.totals, strict=False):
        if total > before and begin <= at <= end:
            steps.append(at)
    return max(later - earlier for earlier, later in zip(steps, [*steps[1:], end], strict=True))


def cold_batch(batches: Iterable[tuple[float, float]], working: float, until: float) -> Cold | None:
    """The batch in which the new executors began to work, beside those after it.

    Args:
        batches: (when it began, how long it took), in order.
        working: when all new executors had begun a task.
        until: when the number was changed again.
    """
    after = [(began, took) for began, took in batches if began + took > working and began + took <= until]
    if len(after) < 2:
        return None
    (began, took), *warm = after
    return Cold(began + took, took / statistics.median(seconds for _, seconds in warm))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
