"""What the tests of scaling share: applications, loads, waiting, and what must hold of every journal."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rheostat.errors import InputError
from rheostat.host.java import kafka_connector_jars
from rheostat.host.processes import Launch, Part, module_environment
from rheostat.host.spark_daemons import WorkerSize
from rheostat.journal.records import DecisionRecord, OutcomeRecord, Record, SessionRecord
from rheostat.journal.store import read_journal
from rheostat.lab.lab import Lab
from rheostat.load.curves import constant
from rheostat.load.kafka_sink import KafkaSink
from rheostat.load.payload import IdChecksum, Payloads, PayloadSpec
from rheostat.load.producer import LoadResult, OpenLoopProducer, RunClock
from rheostat.model import Action, Decision, Outcome, ReasonCode

TIMEOUT_S = 90.0
EXECUTOR_MB = 512
DRIVER = Path(__file__).with_name("support_driver.py")
MAX_AGE_CYCLES = 2.0


def until(condition: Callable[[], object], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Wait for a condition; fail if it does not come."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s for: {what}"
        time.sleep(0.1)


def lives(lab: Lab, condition: Callable[[], object], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Wait for a condition while every part of the lab lives."""

    def holds() -> object:
        lab.check()
        return condition()

    until(holds, what, timeout_s)


@contextmanager
def worker(lab: Lab, cores: int) -> Iterator[str]:
    """A Worker with room for that many executors of one slot."""
    name = lab.cluster.add_worker(WorkerSize(cores=cores, memory_mb=cores * EXECUTOR_MB))
    try:
        yield name
    finally:
        if name in lab.cluster.workers:
            lab.cluster.remove_worker(name)


@dataclass(frozen=True)
class Job:
    """What ``support_driver.py`` is told.

    Attributes:
        order: file that names what is spoilt.
    """

    conf: Mapping[str, str]
    pipeline: Mapping[str, Any]
    settings: Mapping[str, Any]
    order: str


class Journal:
    """A journal that another process writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._size = -1
        self._records: tuple[Record, ...] = ()

    def records(self) -> tuple[Record, ...]:
        size = sum(file.stat().st_size for file in self.folder.glob("*.jsonl"))
        if size and size != self._size:
            try:
                self._records, self._size = tuple(read_journal(self.folder)), size
            except InputError:
                return self._records
        return self._records

    def cycles(self, after: float = 0.0) -> list[DecisionRecord]:
        return [each for each in self.records() if isinstance(each, DecisionRecord) and each.at > after]

    def decisions(self, after: float = 0.0) -> list[Decision]:
        return [cycle.decision for cycle in self.cycles(after)]

    def codes(self, after: float = 0.0) -> list[ReasonCode]:
        return [decision.reason.code for decision in self.decisions(after)]

    def outcomes(self, after: float = 0.0) -> list[Outcome]:
        return [each.outcome for each in self.records() if isinstance(each, OutcomeRecord) and each.at > after]

    def answered(self) -> bool:
        """Whether it is known what became of the last change."""
        acted = changes(self.decisions())
        return not acted or acted[-1].decision_id in {outcome.decision_id for outcome in self.outcomes()}

    def notes(self) -> list[str]:
        return [each.note for each in self.records() if isinstance(each, SessionRecord) and each.note]

    def until(self, condition: Callable[[], object], what: str, timeout_s: float = TIMEOUT_S) -> None:
        """Wait for a condition; if it does not come, fail with what was decided last."""
        try:
            until(condition, what, timeout_s)
        except AssertionError as late:
            texts = [decision.reason.text for decision in self.decisions()[-5:]]
            texts += [outcome.reason.text for outcome in self.outcomes()[-2:]]
            raise AssertionError("\n".join([str(late), *texts])) from None

    def executors(self) -> int | None:
        """Registered executors when last seen."""
        last = self.cycles()[-1:]
        return last[0].assessment.executors if last and last[0].assessment is not None else None

    def backlog(self) -> int | None:
        last = self.cycles()[-1:]
        return last[0].assessment.backlog if last and last[0].assessment is not None else None

    def committed(self) -> bool:
        """Whether a batch with records was seen to end."""
        seen = [query for cycle in self.cycles() if cycle.observation for query in cycle.observation.queries]
        return any(query.batch is not None and query.batch.records for query in seen)


@dataclass
class App:
    """The click-fraud pipeline under the autoscaler, as a part of the lab."""

    lab: Lab
    folder: Path
    topic: str
    job: Job
    part: Part | None = None
    journal: Journal = field(init=False)

    def __post_init__(self) -> None:
        self.journal = Journal(self.folder / "journal")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Started, and asking for its least number; Workers come after that, as Spark would take all their slots."""
        before = set(self.lab.running())
        self.start()
        try:
            self.until(self.journal.decisions, "the autoscaler to attach")
            yield
        finally:
            self.stop()
            until(lambda: set(self.lab.running()) <= before | self._daemons(), "its processes to be gone")

    def start(self) -> None:
        path = self.folder / "job.json"
        path.write_text(json.dumps(asdict(self.job)))
        environment = module_environment() | self.lab.cluster.driver_environment()
        launch = Launch([sys.executable, str(DRIVER), str(path)], environment, self.folder)
        self.part = self.lab.run_part(f"driver-{self.topic}", launch)

    def until(self, condition: Callable[[], object], what: str, timeout_s: float = TIMEOUT_S) -> None:
        """Wait while every part of the lab lives."""
        try:
            lives(self.lab, condition, what, timeout_s)
        except AssertionError as error:
            error.add_note("\n".join(f"{decision}" for decision in self.journal.decisions()[-12:]))
            error.add_note(self._part().log_tail(30))
            raise

    def spoil(self, order: str) -> None:
        """Change what the controller sees from its next look on; ``""``: nothing."""
        path = Path(self.job.order)
        (path.parent / "next").write_text(order)
        (path.parent / "next").rename(path)

    def kill(self) -> None:
        """SIGKILL to Python and JVM."""
        part = self._part()
        part.expect_end()
        part.signal(signal.SIGKILL)
        until(lambda: not part.alive(), "the driver to be gone")

    def stop(self) -> None:
        """End it, and whatever is left below it, in any case; it may have ended."""
        if self.part is not None:
            self.part.stop()

    def end(self) -> None:
        """End it between two batches: Python is told, as its JVM must still work."""
        part = self._part()
        os.kill(part.pid, signal.SIGTERM)
        part.wait_exit(TIMEOUT_S)

    def log(self) -> str:
        return self._part().log.read_text(errors="replace")

    def _daemons(self) -> set[int]:
        """Broker, master and Workers: a broker may have been started again meanwhile."""
        return {part.pid for part in self.lab.parts if part is not self.part}

    def _part(self) -> Part:
        assert self.part is not None
        return self.part


def make_app(lab: Lab, folder: Path, topic: str, executors: tuple[int, int]) -> App:
    """An application of one slot an executor, 200 records/s each, upon a new topic of six partitions.

    Warm-up and back-off last longer than the policy needs to propose a change, so that each time it is seen to be held.
    """
    lab.broker.create_topic(topic, 6)
    pipeline = {
        "source": "kafka",
        "bootstrap": lab.broker.bootstrap,
        "topic": topic,
        "checkpoint": str(folder / "checkpoint"),
        "out": str(folder / "out"),
        "trigger_s": 1.0,
        "cap": 1200,
        "lookup_ms": 5.0,
    }
    settings = {
        "profile": "demo",
        "sample_s": 1.0,
        "objective": "lag < 8s",
        "executors": list(executors),
        "guard": {"warm_up_batches": 8, "no_room_backoff_s": 30.0},
        "journal": str(folder / "journal"),
    }
    conf = lab.cluster.driver_conf(executor_memory_mb=EXECUTOR_MB, jars=kafka_connector_jars())
    job = Job(conf | {"spark.ui.enabled": "false"}, pipeline, settings, str(folder / "order"))
    return App(lab, folder, topic, job)


class Load:
    """Records into a topic, at a rate that can be changed. Counts what the broker acknowledged."""

    def __init__(self, lab: Lab, topic: str) -> None:
        self._bootstrap, self._topic = lab.broker.bootstrap, topic
        self._next_id = 0
        self._thread: threading.Thread | None = None
        self._clock = RunClock()
        self._results: list[LoadResult] = []

    def rate(self, records_per_s: float) -> None:
        """Go on at this rate."""
        self._stop()
        self._clock = RunClock()
        sink, payloads = KafkaSink(self._bootstrap, self._topic), Payloads(PayloadSpec(seed=3), self._next_id)
        producer = OpenLoopProducer(sink, payloads, self._clock)

        def work() -> None:
            self._results.append(producer.run(constant(records_per_s, 3600.0)))

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def end(self) -> IdChecksum:
        """Stop; the checksum of all that was acknowledged, which is all that was sent."""
        self._stop()
        assert all(result.whole for result in self._results), self._results
        checksum = IdChecksum()
        for result in self._results:
            checksum = checksum.merge(result.checksum)
        return checksum

    def _stop(self) -> None:
        if self._thread is not None:
            self._clock.stop.set()
            self._thread.join(30.0)
            assert not self._thread.is_alive()
            self._thread = None
            self._next_id = self._results[-1].next_id


def changes(decisions: Iterable[Decision]) -> list[Decision]:
    return [decision for decision in decisions if decision.acts]


def assert_never_down_on_unknown(records: Sequence[Record]) -> None:
    """No decrease while an input is missing, impossible or older than two cycles, or while there is excess backlog."""
    sample_s = 0.0
    for record in records:
        if isinstance(record, SessionRecord):
            sample_s = float(record.header.settings["sample_s"])
        if not isinstance(record, DecisionRecord) or record.decision.action is not Action.DOWN:
            continue
        seen = record.assessment
        assert seen is not None, record.decision
        assert (seen.missing, seen.invalid, seen.backlog_excess) == ((), (), 0), record.decision
        assert seen.metrics_age_s is not None, record.decision
        assert seen.metrics_age_s <= MAX_AGE_CYCLES * sample_s, record.decision


def assert_every_change_has_its_reason(records: Sequence[Record]) -> None:
    """Every change in the journal says why, and what became of it unless a later one took its place."""
    acted = changes(record.decision for record in records if isinstance(record, DecisionRecord))
    outcomes = [record.outcome for record in records if isinstance(record, OutcomeRecord)]
    answered = {outcome.decision_id for outcome in outcomes}
    assert all(decision.reason.text for decision in acted)
    assert all(outcome.reason.text for outcome in outcomes)
    superseded = {decision.decision_id for decision in acted[:-1]}
    assert {decision.decision_id for decision in acted} <= answered | superseded
