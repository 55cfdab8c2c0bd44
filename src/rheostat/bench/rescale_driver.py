"""The driver of ``rheostat bench rescale``: a query under load whose executors go up and down again and again.

``python -m rheostat.bench.rescale_driver FOLDER``; what is in FOLDER/job.json: see :class:`Job`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheostat.bench.inside import ASKED, RESULT, batches_done, progress_in, session, tell, until
from rheostat.bench.samples import Count, Sample, begun
from rheostat.errors import RheostatError
from rheostat.execute.executors import LiveExecutors
from rheostat.jvm.levers import SparkLevers
from rheostat.jvm.reading import DriverJvm
from rheostat.loop import SystemClock
from rheostat.model import Action, Code, Decision, Outcome, Reason, Recommendation
from rheostat.observe.executors import parse_executors
from rheostat.observe.progress import parse_progress
from rheostat.pipelines import click_fraud
from rheostat.pipelines.settings import ClickFraudSettings
from rheostat.ports import Actuator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Job", "Play", "main"]

_TIMEOUT_S = 90.0
_SETTLED = 2


@dataclass(frozen=True, slots=True)
class Job:
    """What the driver is told.

    Attributes:
        conf: the session's configuration.
        pipeline: fields of :class:`~rheostat.pipelines.settings.ClickFraudSettings`.
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
        reason = Reason(Code.FIXED, "a benchmark")
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
            click_fraud.finish(query)
    except RheostatError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    tell(folder / RESULT, result)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
