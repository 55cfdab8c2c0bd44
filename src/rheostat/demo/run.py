"""One demo run: start the parts, play the load, wait for the drain, count what came out, score."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rheostat import __version__
from rheostat.checksum import IdChecksum
from rheostat.demo.driver import Job
from rheostat.demo.ground import EXECUTOR_MB
from rheostat.demo.plan import DemoPlan
from rheostat.demo.watch import JournalWatch
from rheostat.errors import RheostatError, UnavailableError
from rheostat.journal import Record
from rheostat.lab.jars import kafka_connector_jars
from rheostat.lab.lab import Lab, LabSpec
from rheostat.lab.process import Launch, Part, module_command, module_environment
from rheostat.load.clock import RunClock
from rheostat.load.producer import LoadProgress, LoadResult, Producer
from rheostat.load.sinks import Sink
from rheostat.pipelines.sink import RecordTotals, SinkTotals
from rheostat.report.score import Counts, RunFacts, samples_of, score

__all__ = ["DemoRun", "Progress", "run_demo"]

TOPIC = "records"
_SESSION_S, _FIRST_BATCH_S, _STOP_S = 120.0, 120.0, 150.0
_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is, for the live table.

    Attributes:
        phase: ``"starting"``, ``"warm-up"``, ``"rise"``, ``"plateau"``, ``"fall"``, ``"drain"``, ``"closing"``.
        second: of the load's curve; None before it.
        rate: records/s offered now; None while nothing is produced.
        sent: records handed over.
    """

    phase: str
    second: float | None
    rate: float | None
    sent: int


@dataclass(frozen=True, slots=True)
class DemoRun:
    """A run that ended well.

    Attributes:
        score: in the shape of ``rheostat.score/1``, with ``executors_max`` and ``executors_final``.
        records: its journal.
        load: what the producer delivered.
        sink: what got through.
        drained: whether the last record was committed in time.
    """

    plan: DemoPlan
    score: Mapping[str, Any]
    records: tuple[Record, ...]
    load: LoadResult
    sink: SinkTotals | RecordTotals
    drained: bool


def run_demo(plan: DemoPlan, folder: Path, say: Callable[[str], None], show: Callable[[Progress], None]) -> DemoRun:
    """Run a plan; everything that it starts ends with it.

    Args:
        plan: what to run.
        folder: gets ``journal/``.
        say: told what happens, in sentences.
        show: told where the run is, several times a second, from this thread.

    Raises:
        PartFailedError: a part died; with its name and the end of its log.
        RheostatError: records could not be delivered, or a step took too long.
    """
    kafka = plan.source == "kafka"
    connector = kafka_connector_jars(say) if kafka else []
    with Lab(LabSpec(broker=kafka, workers=0), say=say) as lab:
        return _Stage(plan, folder, lab, show).play(connector, say)


class _Stage:
    """The parts of a run while it lasts."""

    def __init__(self, plan: DemoPlan, folder: Path, lab: Lab, show: Callable[[Progress], None]) -> None:
        self._plan, self._folder, self._lab, self._show = plan, folder, lab, show
        self._scratch = lab.scratch("demo")
        self._ground = plan.ground(lab, self._scratch)
        self._watch = JournalWatch(folder / "journal")
        self._progress = LoadProgress(None, 0.0, 0, 0.0)
        self._go = threading.Event()
        self._clock = RunClock()
        self._driver: Part | None = None

    def play(self, connector: list[Path], say: Callable[[str], None]) -> DemoRun:
        sink = self._sink()
        self._ground.start()
        say("Starting the driver: a Spark session, the pipeline, the autoscaler")
        self._driver = self._start_driver(connector)
        self._wait("starting", self._watch.attached, _SESSION_S, "the autoscaler did not attach")
        self._ground.open()
        self._wait("starting", self._watch.querying, _SESSION_S, "the query did not start")
        say(f"The load begins with {self._plan.base_rate:g} records/s until the first batch is committed")
        with self._producing(sink) as results:
            self._wait("warm-up", self._warm, _FIRST_BATCH_S, "no batch was committed")
            self._go.set()
            self._wait(None, lambda: bool(results), self._plan.seconds + _FIRST_BATCH_S, "the load did not end")
        load = _delivered(results)
        drained = self._drain()
        self._close_driver()
        return self._result(load, drained)

    def _sink(self) -> Sink:
        if self._plan.source == "kafka":
            from rheostat.load.kafka_sink import KafkaSink, ensure_topic

            ensure_topic(self._lab.broker.bootstrap, TOPIC, self._plan.partitions, create=True)
            return KafkaSink(self._lab.broker.bootstrap, TOPIC)
        from rheostat.load.log_writer import LogSink, LogWriter

        return LogSink(LogWriter(self._scratch / "log", self._plan.partitions), roll_s=0.25)

    def _start_driver(self, connector: list[Path]) -> Part:
        cluster = self._lab.cluster
        bootstrap = self._lab.broker.bootstrap if self._plan.source == "kafka" else None
        conf = cluster.driver_conf(executor_memory_mb=EXECUTOR_MB, jars=connector)
        pipeline = asdict(self._plan.pipeline(self._scratch, bootstrap, TOPIC if bootstrap else None))
        settings = {**self._plan.settings(self._folder), **self._ground.settings()}
        job = Job(self._plan.program, conf | {"spark.ui.enabled": "false"}, pipeline, settings)
        path = job.write(self._scratch / "job.json")
        command = module_command("rheostat.demo.driver", str(path))
        environment = module_environment() | cluster.driver_environment()
        return self._lab.run_part("driver", Launch(command, environment, self._scratch))

    @contextmanager
    def _producing(self, sink: Sink) -> Iterator[list[LoadResult | BaseException]]:
        """The producer in a thread; its result, or what ended it, is put into the list."""
        results: list[LoadResult | BaseException] = []

        def produce() -> None:
            try:
                producer = Producer(sink, self._plan.payloads(), self._clock, watch=self._note)
                results.append(producer.run(self._plan.curve(), self._go, self._plan.base_rate))
            except BaseException as error:
                results.append(error)

        thread = threading.Thread(target=produce, name="rheostat-load", daemon=True)
        thread.start()
        try:
            yield results
        finally:
            self._clock.stop.set()
            thread.join(_STOP_S)

    def _warm(self) -> bool:
        """Whether the phases may begin."""
        return self._watch.committed() and self._watch.ran(time.time()) >= self._plan.begin_s

    def _note(self, progress: LoadProgress) -> None:
        self._progress = progress

    def _wait(self, phase: str | None, until: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Until the condition holds, while every part lives."""
        if not self._holds(phase, until, timeout_s):
            message = f"{what} within {timeout_s:.0f} s"
            raise UnavailableError(message) if self._driver is None else self._driver.failure(message)

    def _holds(self, phase: str | None, until: Callable[[], bool], timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not until():
            self._lab.check()
            seen = self._progress
            name = phase or self._plan.phase(seen.t)
            self._show(Progress(name, seen.t, seen.rate if seen.sent else None, seen.sent))
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _drain(self) -> bool:
        """Wait until all that was produced is committed."""
        self._progress = LoadProgress(self._plan.seconds, 0.0, self._progress.sent, 0.0)
        ended = time.time()
        return self._holds("drain", lambda: self._watch.drained_since(ended), self._plan.drain_s)

    def _close_driver(self) -> None:
        """End the driver between two batches. Only the Python process is told: its JVM must still work."""
        if self._driver is not None:
            self._show(Progress("closing", self._progress.t, None, self._progress.sent))
            os.kill(self._driver.pid, signal.SIGTERM)
            self._driver.wait_exit(_STOP_S)

    def _result(self, load: LoadResult, drained: bool) -> DemoRun:
        records = self._watch.records()
        sink = self._plan.counted(self._scratch / "out")
        facts = RunFacts(
            version=__version__,
            engine="spark",
            policy=self._plan.policy,
            objective_s=self._plan.objective_s,
            n_max=self._plan.executors[1],
            job=self._plan.program,
            trace="demo",
            seed=self._plan.seed,
        )
        counted = score(facts, list(samples_of(records)), counts=_counts(load.checksum, sink.checksum))
        return DemoRun(self._plan, counted, records, load, sink, drained)


def _delivered(results: list[LoadResult | BaseException]) -> LoadResult:
    result = results[0]
    if isinstance(result, BaseException):
        raise result
    if not result.whole:
        message = f"{result.failed} records were not taken, {result.in_doubt} are in doubt: {result.error}"
        raise RheostatError(message)
    return result


def _counts(given: IdChecksum, got: IdChecksum | None) -> Counts:
    """Records in and out. Where the counts agree and the checksums do not, neither loss nor doubling is known."""
    if got is None:
        return Counts(records_in=given.count, agrees=False)
    known = got == given or got.count != given.count
    lost = max(0, given.count - got.count) if known else None
    doubled = max(0, got.count - given.count) if known else None
    return Counts(given.count, got.count, lost, doubled, 0, agrees=got == given)
