"""One demo run: start the parts, play the load, wait for the drain, count what came out, score."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import Console
from rich.live import Live
from rich.table import Table

from rheostat import __version__
from rheostat.attachment import Attachment, attach
from rheostat.config.models import pairs_of, split_policy
from rheostat.config.reference import profile_ratios
from rheostat.demo import sizing
from rheostat.errors import Fault, InputError, RheostatError, attempt
from rheostat.host.java import kafka_connector_jars
from rheostat.host.processes import Launch, Part, module_command, module_environment
from rheostat.host.spark_daemons import WorkerSize, free_ports
from rheostat.journal.records import DecisionRecord, Record
from rheostat.journal.store import read_journal
from rheostat.lab.lab import Lab, LabSpec
from rheostat.load.curves import RateCurve
from rheostat.load.payload import IdChecksum, Payloads, PayloadSpec, RecordMaker
from rheostat.load.producer import LoadProgress, LoadResult, OpenLoopProducer, RunClock, Sink
from rheostat.load.shapes import parse_shape
from rheostat.model import Objective, Observation
from rheostat.pipelines import click_fraud, taxi_attractions
from rheostat.pipelines.running import ClickFraudSettings, Pipeline, PipelineSettings
from rheostat.pipelines.sink import RecordTotals, SinkTotals, verify
from rheostat.report.html import Page, write_report
from rheostat.report.score import Counts, RunFacts, Series, count_edges, samples_of, score
from rheostat.spark.kafka_options import FORMAT
from rheostat.text import executors, several

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = ("kafka", FORMAT, "log")
PIPELINES: Mapping[str, Pipeline[Any]] = {each.name: each for each in (click_fraud.PIPELINE, taxi_attractions.PIPELINE)}

_MOST: Mapping[str, float] = {"base_rate": 1e6, "peak_rate": 1e6, "partitions": 1000}
"""Largest values that one machine can be asked for."""

_PEAK_RATE, _PLATEAU_S = 500.0, 30.0
"""Peak rate that is assumed until the machine has been measured, records/s, and the plateau of a load sized to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """Everything that configures a demo run. All faults are reported at once.

    Attributes:
        executors: bounds; each executor has one slot.
        policy: ``NAME`` or ``NAME:PRESET``.
        seed: of keys and payloads.
        base_rate, peak_rate: records/s before and after the rise. A peak rate of None is sized to the machine.
        rise_s, plateau_s, fall_s, calm_s: durations of the phases, from the end of the warm-up on.
        measures: whether the machine is measured in the warm-up, and rates and rise are sized to it; not with a shape.
            The autoscaler is paused until then, and the score begins then.
        lookup_ms: wait of each record for its local look-up, so that capacity grows with executors even on few cores.
        fetch_wait_ms: longest wait of a task for more records from Kafka. The consumer's default of 500 ms is too
            long for a small batch.
        cap: most records in a batch.
        partitions: of the topic or log. 12 is divisible by 1, 2, 3, 4 and 6 executors.
        drain_s: longest wait after the load until the last record is committed.
        begin_s: least time from the autoscaler's first decision to the first phase.
        shape: a load instead of the three phases, as for ``rheostat load --shape``.
        waits_until_warm: whether the load begins after warm batches, and the autoscaler is paused until then, also
            where the machine is not measured.
        policy_options: override those of the policy's preset.
    """

    program: ClassVar[str] = "click_fraud"
    """Name of the pipeline in :data:`PIPELINES`."""

    source: str = "kafka"
    objective: str = "lag < 20s"
    executors: tuple[int, int] = (1, 6)
    policy: str = "reactive"
    seed: int = 7
    base_rate: float = 50.0
    peak_rate: float | None = None
    rise_s: float = 40.0
    plateau_s: float = 50.0
    fall_s: float = 60.0
    calm_s: float = 20.0
    lookup_ms: float = 4.0
    fetch_wait_ms: int = 20
    trigger_s: float = 2.0
    cap: int = 2400
    partitions: int = 12
    drain_s: float = 120.0
    begin_s: float = 0.0
    shape: str | None = None
    measures: bool = True
    waits_until_warm: bool = False
    policy_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if faults := self._faults():
            raise InputError(faults)

    @property
    def seconds(self) -> float:
        return self.curve().duration

    @property
    def objective_s(self) -> float:
        return Objective.parse(self.objective).lag_s

    def curve(self) -> RateCurve:
        """The load: rise, plateau and fall, or the given shape."""
        if self.shape is not None:
            return parse_shape(self.shape)
        low, high = self.base_rate, _PEAK_RATE if self.peak_rate is None else self.peak_rate
        return parse_shape(
            f"ramp:{low}..{high}@{self.rise_s}+constant:{high}@{self.plateau_s}+ramp:{high}..{low}@{self.fall_s}"
            f"+constant:{low}@{self.calm_s}"
        )

    def phase(self, second: float | None) -> str:
        """Name of the phase at a second of the curve; None is before it."""
        if second is None:
            return "warm-up"
        if self.shape is not None:
            return "load" if second < self.seconds else "drain"
        phases = ("rise", self.rise_s), ("plateau", self.plateau_s), ("fall", self.fall_s), ("calm", self.calm_s)
        ends = zip(accumulate(seconds for _, seconds in phases), phases, strict=True)
        return next((name for end, (name, _) in ends if second < end), "drain")

    def sized(self, machine: sizing.Machine) -> DemoPlan:
        """The plan with the load of this machine; a peak rate that was given is kept."""
        sizes = sizing.size_load(
            machine,
            base_rate=self.base_rate,
            bounds=self.executors,
            objective_s=self.objective_s,
            lookup_s=self.lookup_ms / 1000,
            cap=self.cap,
            peak_rate=self.peak_rate,
        )
        return replace(
            self,
            base_rate=sizes.base_rate,
            peak_rate=sizes.peak_rate,
            rise_s=sizes.rise_s,
            plateau_s=_PLATEAU_S,
            measures=False,
        )

    def static(self, executors: int) -> DemoPlan:
        """The same run with a fixed number of executors."""
        return replace(self, executors=(executors, executors), policy="static")

    def settings(self, folder: Path) -> Mapping[str, Any]:
        """Settings of the autoscaler, with the demo profile."""
        fixed = {"executors": self.executors[0]} if split_policy(self.policy)[0] == "static" else {}
        sized = self.shape is None
        cautious = sizing.REACTIVE_OPTIONS if sized and self.policy == "reactive" else {}
        options = {**cautious, **fixed, **self.policy_options}
        return {
            "profile": "demo",
            **({"guard": sizing.start_limits(sizing.read_load())} if sized else {}),
            "objective": self.objective,
            "executors": list(self.executors),
            "policy": self.policy,
            "journal": str(folder / "journal"),
            **({"policy_options": options} if options else {}),
        }

    def session_conf(self) -> Mapping[str, str]:
        """Settings of the Spark session beside those of the demo."""
        return {}

    def payloads(self) -> RecordMaker:
        """Makes the records, warm-up first."""
        return Payloads(PayloadSpec(seed=self.seed))

    def ground(self, lab: Lab, folder: Path) -> Ground:  # noqa: ARG002
        """Where the executors run; its data goes into ``folder``."""
        return TwoWorkers(lab, self.executors[1])

    def counted(self, out: Path) -> SinkTotals | RecordTotals:
        """What the sink holds."""
        return verify(out)

    @property
    def has_broker(self) -> bool:
        return self.source != "log"

    def pipeline(self, folder: Path, bootstrap: str | None, topic: str | None) -> PipelineSettings:
        """Settings of the pipeline, reading from Kafka if ``bootstrap`` is given, else from the log in ``folder``.

        The state has one partition, which stays where it is: no executor that is still cold opens it.
        """
        return ClickFraudSettings(**self.common(folder, bootstrap, topic), shuffle_partitions=1)

    def common(self, folder: Path, bootstrap: str | None, topic: str | None) -> dict[str, Any]:
        """Settings common to all pipelines."""
        return {
            "source": self.source,
            "bootstrap": bootstrap,
            "topic": topic,
            **{name: str(folder / name) for name in ("log", "checkpoint", "out")},
            **{name: getattr(self, name) for name in ("cap", "trigger_s", "lookup_ms", "fetch_wait_ms")},
        }

    def notes(self) -> tuple[str, ...]:
        """What a reader of the figures has to know."""
        top = 1000 / self.lookup_ms if self.lookup_ms else math.inf
        load = (
            f"The load is sized to what one executor carries on this machine. Its phases of {self.rise_s:g}, "
            f"{self.plateau_s:g}, {self.fall_s:g}, {self.calm_s:g} s and all figures but the records count from the "
            "end of the warm-up, in which that is measured."
        )
        if self.shape is not None:
            load = f"The seconds of the load {self.shape} count from the first committed batch."
        return (
            f"Each record waits {self.lookup_ms:g} ms for a local look-up, so an executor of one slot handles at most "
            f"{top:g} records/s and capacity grows with executors even on a machine with few cores. The wait is "
            "simulated; broker, cluster, executors, pipeline and records are real.",
            f"A batch is capped at {self.cap} records (maxOffsetsPerTrigger): without a cap an overloaded query "
            "reads its whole backlog in one long batch, and nothing can be measured until it ends.",
            load,
            "The policy runs with the demo profile, made for runs of minutes; the table compares it with the published "
            "constants.",
            "Executor-hours count from the request of an executor until it has ended. The static run is computed, peak "
            "× duration, unless labelled as run.",
            "Lag is the age of the oldest record that is not committed. Records commit only at the end of a batch, so "
            "even an idle job's lag swings up to about two batches.",
        )

    def _faults(self) -> list[Fault]:
        least, most = self.executors
        faults = []
        if self.source not in SOURCES:
            faults.append(Fault("source", repr(self.source), ", ".join(SOURCES), "unknown source"))
        if not 1 <= least <= most:
            faults.append(Fault("executors", f"{least},{most}", "1 ≤ least ≤ greatest", "invalid bounds"))
        if most > self.partitions:
            message = "there are more executors than partitions"
            faults.append(Fault("partitions", str(self.partitions), f"≥ {most}, the greatest number", message))
        objective = attempt(Objective.parse, None, faults, self.objective)
        if objective is not None and objective.lag_s < 2 * self.trigger_s:
            allowed = f"at least two triggers, {2 * self.trigger_s:g} s"
            faults.append(Fault("objective", self.objective, allowed, "the objective is shorter than two batches"))
        for name in (
            "base_rate",
            "peak_rate",
            "rise_s",
            "plateau_s",
            "fall_s",
            "calm_s",
            "trigger_s",
            "cap",
            "partitions",
        ):
            value, largest = getattr(self, name), _MOST.get(name, math.inf)
            if value is not None and not (math.isfinite(value) and 0 < value <= largest):
                allowed = "a number > 0" + (f" and ≤ {largest:.0f}" if name in _MOST else "")
                faults.append(Fault(name, repr(value), allowed, "it is out of range"))
        if self.peak_rate is not None and self.peak_rate < self.base_rate:
            allowed = f"≥ base_rate, {self.base_rate:g}"
            faults.append(Fault("peak_rate", f"{self.peak_rate:g}", allowed, "the peak rate is below the base rate"))
        if self.seed < 0:
            faults.append(Fault("seed", str(self.seed), "an integer ≥ 0", "the seed is negative"))
        return faults


TOPIC = "records"
_PAUSE, _RESUME = signal.SIGUSR1, signal.SIGUSR2
"""To the driver: its autoscaler only records its decisions, or acts again."""

_COLD_STARTS = {
    "spark.locality.wait": "2s",
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "3s",
}
"""No batch waits for an executor that is still cold, on a busy machine for half a minute and more. The batch in flight
is left to the executors that it was planned for; later, a task that takes so long is run on a warm one too."""

_SESSION_S, _WARM_UP_S, _STOP_S = 120.0, 240.0, 150.0
_LATE_S = 120.0
"""Longest time that the producer may be late with the whole load."""
_EMPTY_BATCH_S = 60.0
"""Longest wait for a first batch without records. It starts the executor, so that no record waits for that."""

_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run, for the live table.

    Attributes:
        phase: ``"starting"``, ``"warm-up"``, ``"rise"``, ``"plateau"``, ``"fall"``, ``"calm"``, ``"drain"``,
            ``"closing"``.
        second: of the load's curve; None before it.
        rate: records/s offered now; None while nothing is produced.
        sent: records sent.
        seconds: duration of the load.
    """

    phase: str
    second: float | None
    rate: float | None
    sent: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DemoRun:
    """A completed run.

    Attributes:
        score: in the shape of ``rheostat.score/1``, with ``executors_max`` and ``executors_final``.
        plan: as it was played, sized to the machine.
        records: its journal.
        drained: whether the last record was committed in time.
        busy: a sentence if other work was busy with the machine.
    """

    plan: DemoPlan
    score: Mapping[str, Any]
    records: tuple[Record, ...]
    load: LoadResult
    sink: SinkTotals | RecordTotals
    drained: bool
    busy: str | None = None


def run_demo(plan: DemoPlan, folder: Path, say: Callable[[str], None], show: Callable[[Progress], None]) -> DemoRun:
    """Run a plan; every part that it starts ends with it. ``folder`` gets the journal, ``journal/``.

    ``say`` receives messages; ``show`` the progress, several times a second, from this thread.

    Raises:
        PartFailedError: a part died.
        RheostatError: records could not be delivered, or a step took too long.
    """
    connector = kafka_connector_jars(say) if plan.source == "kafka" else []
    with Lab(LabSpec(broker=plan.has_broker, workers=0), say=say) as lab:
        return _Stage(plan, folder, lab, show).play(connector, say)


class _Stage:
    """The parts of a run while it lasts."""

    _driver: Part

    def __init__(self, plan: DemoPlan, folder: Path, lab: Lab, show: Callable[[Progress], None]) -> None:
        self._plan, self._folder, self._lab, self._show = plan, folder, lab, show
        self._scratch = lab.scratch("demo")
        self._ground = plan.ground(lab, self._scratch)
        self._watch = JournalWatch(folder / "journal")
        self._progress = LoadProgress(None, 0.0, 0, 0.0)
        self._go = threading.Event()
        self._clock = RunClock()
        self._machine: sizing.Machine | None = None
        self._was_warm = False
        self._loads = [sizing.read_load()]

    def play(self, connector: list[Path], say: Callable[[str], None]) -> DemoRun:
        sink = self._sink()
        self._ground.start()
        say("Starting the driver: a Spark session, the pipeline, the autoscaler")
        self._driver = self._start_driver(connector)
        self._require("starting", lambda: bool(self._watch.cycles()), _SESSION_S, "the autoscaler did not attach")
        opened_at = time.time()
        self._ground.open()
        self._require("starting", self._watch.querying, _SESSION_S, "the query did not start")
        self._was_warm = paused = self._waits_until_warm
        if paused:
            os.kill(self._driver.pid, _PAUSE)
            self._wait("starting", lambda: bool(sizing.finished_batches(self._watch.observations())), _EMPTY_BATCH_S)
        say(f"The warm-up begins with {self._plan.base_rate:g} records/s")
        with self._producing(sink) as producing:
            self._require("warm-up", self._warm, _WARM_UP_S, "the first batches were not committed")
            if self._measures:
                self._size(opened_at, say)
            if paused:
                os.kill(self._driver.pid, _RESUME)
            self._go.set()
            self._require(None, producing.done, self._plan.seconds + _LATE_S, "the load did not end")
        load = producing.result()
        if not load.whole:
            message = f"{load.failed} records failed, {load.in_doubt} are unconfirmed: {load.error}"
            raise RheostatError(message)
        self._progress = LoadProgress(self._plan.seconds, 0.0, self._progress.sent, 0.0)
        ended = time.time()
        drained = self._wait("drain", lambda: self._watch.drained_since(ended), self._plan.drain_s)
        self._close_driver()
        return self._result(load, drained)

    def _sink(self) -> Sink:
        if self._plan.has_broker:
            from rheostat.load.kafka_sink import KafkaSink, ensure_topic

            ensure_topic(self._lab.broker.bootstrap, TOPIC, self._plan.partitions, create=True)
            return KafkaSink(self._lab.broker.bootstrap, TOPIC)
        from rheostat.load.log_writer import LogSink, LogWriter

        return LogSink(LogWriter(self._scratch / "log", self._plan.partitions), roll_s=0.25)

    def _start_driver(self, connector: list[Path]) -> Part:
        cluster = self._lab.cluster
        bootstrap = self._lab.broker.bootstrap if self._plan.has_broker else None
        conf = cluster.driver_conf(executor_memory_mb=EXECUTOR_MB, jars=connector)
        job = {
            "program": self._plan.program,
            "conf": conf | _COLD_STARTS | {"spark.ui.enabled": "false"} | dict(self._plan.session_conf()),
            "pipeline": asdict(self._plan.pipeline(self._scratch, bootstrap, TOPIC if bootstrap else None)),
            "settings": {**self._plan.settings(self._folder), **self._ground.settings()},
        }
        path = self._scratch / "job.json"
        path.write_text(json.dumps(job), encoding="utf-8")
        command = module_command("rheostat.demo.run", str(path))
        environment = module_environment() | cluster.driver_environment()
        return self._lab.run_part("driver", Launch(command, environment, self._scratch))

    @contextmanager
    def _producing(self, sink: Sink) -> Iterator[Future[LoadResult]]:
        """Run the producer in a thread."""
        results: Future[LoadResult] = Future()

        def produce() -> None:
            try:
                producer = OpenLoopProducer(sink, self._plan.payloads(), self._clock, watch=self._note)
                results.set_result(producer.run(lambda: self._plan.curve(), self._go, self._plan.base_rate))
            except BaseException as error:
                results.set_exception(error)

        thread = threading.Thread(target=produce, name="rheostat-load", daemon=True)
        thread.start()
        try:
            yield results
        finally:
            self._clock.stop.set()
            thread.join(_STOP_S)

    @property
    def _measures(self) -> bool:
        return self._plan.measures and self._plan.shape is None

    @property
    def _waits_until_warm(self) -> bool:
        return self._measures or self._plan.waits_until_warm

    def _warm(self) -> bool:
        if self._waits_until_warm:
            return sizing.is_measured(self._watch.observations())
        return self._watch.committed() and self._watch.ran(time.time()) >= self._plan.begin_s

    def _size(self, opened_at: float, say: Callable[[str], None]) -> None:
        """Measure the machine, and size the load to it."""
        lookup_s = self._plan.lookup_ms / 1000
        self._machine = sizing.measure(self._watch.observations(), opened_at, lookup_s, self._loads[0])
        self._plan = plan = self._plan.sized(self._machine)
        say(
            f"Measured: a cold start takes {self._machine.cold_s:.0f} s, a batch {self._machine.fixed_s:.1f} s and its "
            f"look-ups. The load rises from {plan.base_rate:g} to {plan.peak_rate:g} records/s in {plan.rise_s:g} s"
        )

    def _note(self, progress: LoadProgress) -> None:
        self._progress = progress

    def _require(self, phase: str | None, until: Callable[[], bool], timeout_s: float, what: str) -> None:
        if not self._wait(phase, until, timeout_s):
            message = f"{what} within {timeout_s:.0f} s"
            raise self._driver.failure(message)

    def _wait(self, phase: str | None, until: Callable[[], bool], timeout_s: float) -> bool:
        """Show the progress until the condition holds; False after the timeout. ``phase`` None: as the load is."""
        deadline = time.monotonic() + timeout_s
        while not until():
            self._lab.check()
            load = self._progress
            rate = load.rate if load.sent else None
            self._show(Progress(phase or self._plan.phase(load.t), load.t, rate, load.sent, self._plan.seconds))
            self._loads.append(sizing.read_load())
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _close_driver(self) -> None:
        """End the driver between two batches. Only its Python process gets the signal: its JVM must still work."""
        self._show(Progress("closing", self._progress.t, None, self._progress.sent, self._plan.seconds))
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
        shed = sum(each.offered - each.kept for each in count_edges(records))
        counted = score(
            facts,
            samples_of(records),
            window=None if not self._was_warm or load.go_at is None else (load.go_at, records[-1].at),
            counts=_counts(load.checksum, sink.checksum, shed),
        )
        busy = None
        if self._machine is not None:
            most = max((load for load in self._loads if load is not None), default=None)
            busy = sizing.explain_busy(self._machine, most, self._plan.objective_s)
        return DemoRun(self._plan, counted, records, load, sink, drained, busy)


def _counts(given: IdChecksum, got: IdChecksum | None, shed: int) -> Counts:
    """Records in and out. If counts agree and checksums differ, the number of lost and doubled records is unknown.

    Where records were dropped, only counts can be compared.
    """
    if got is None:
        return Counts(records_in=given.count, agrees=False)
    due = given.count - shed
    agrees = got == given if not shed else got.count == due
    known = agrees or got.count != due
    lost = max(0, due - got.count) if known else None
    doubled = max(0, got.count - due) if known else None
    return Counts(given.count, got.count, lost, doubled, shed, agrees=agrees)


# Where executors run: one Worker with room for all, or node servers that start and stop Workers

EXECUTOR_MB = 512
"""Heap of each executor."""

_PING_S, _GRACE_S = 1.0, 20.0

RoundTrips = Mapping[str, Mapping[str, float]]
"""Node → node → ms, as in ``workers.round_trips_ms``."""


class Ground:
    """Where executors run. One thread calls ``start``, ``settings`` and ``open``, in this order."""

    def start(self) -> None:
        """Start before the driver, without Workers: an application takes every core that it finds."""

    def settings(self) -> Mapping[str, Any]:
        """Settings of the autoscaler; none where only executors are scaled."""
        return {}

    def open(self) -> None:
        """Make room for executors, after the autoscaler has requested its least number."""


class TwoWorkers(Ground):
    """Two Workers that share a number of slots, under two names of this machine.

    Spark runs a slow task again only on another host.
    """

    def __init__(self, lab: Lab, slots: int) -> None:
        self._lab = lab
        self._slots = {"127.0.0.1": slots - slots // 2, "localhost": slots // 2}

    def open(self) -> None:
        for host, slots in self._slots.items():
            if slots:
                self._lab.cluster.add_worker(WorkerSize(cores=slots, memory_mb=slots * EXECUTOR_MB), host)


class NodeServers(Ground):
    """A node server for each name, with room for one Worker of one slot; the k-th node is at 127.0.k.1.

    Distance is simulated: a server delays its answers to the pings of another node. Executors are not slowed. The
    autoscaler starts the Workers itself, and measures the round trips unless they are in its settings. ``names`` are in
    order of preference among equally near ones; ``round_trips`` has each pair once.
    """

    def __init__(
        self, lab: Lab, folder: Path, names: Sequence[str], round_trips: RoundTrips, *, measured: bool
    ) -> None:
        self._lab, self._folder = lab, folder
        self._round_trips, self._measured = round_trips, measured
        ports = free_ports(len(names))
        self._places = {name: (f"127.0.{k}.1", ports[k - 1]) for k, name in enumerate(names, 1)}
        self._urls = {name: f"http://{host}:{port}" for name, (host, port) in self._places.items()}

    def start(self) -> None:
        """Start all servers and wait until they answer."""
        from rheostat.node.options import StartedNode

        for name in self._places:
            StartedNode.start(self._lab, self._folder / name, n_max=1, options=self.options(name))

    def settings(self) -> Mapping[str, Any]:
        """The workers actuator with the nodes and their round trips."""
        nodes = [f"{name}={url}" for name, url in self._urls.items()]
        trips: Any = "measured" if self._measured else {a: dict(row) for a, row in self._round_trips.items()}
        return {"actuator": "workers", "workers": {"nodes": nodes, "backup": 1, "round_trips_ms": trips}}

    def options(self, name: str) -> list[str]:
        """Options of ``rheostat node`` for one node. In each pair the later node in the list delays its answers."""
        (host, port), order = self._places[name], list(self._places)
        peers = ",".join(f"{peer}={url}" for peer, url in self._urls.items())
        options = ["--name", name, "--host", host, "--port", str(port), "--address", host, "--peer", peers]
        options += ["--cores", "1", "--memory", str(EXECUTOR_MB), "--json"]
        options += ["--ping-every", f"{_PING_S:g}", "--grace", f"{_GRACE_S:g}"]
        for pair, ms in pairs_of(self._round_trips).items():
            caller, server = sorted(pair, key=order.index)
            options += ["--delay", f"{caller}={ms:g}"] if server == name else []
        return options


# The journal of a running demo


class JournalWatch:
    """Reads the journal of another process again as it grows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._size = -1
        self._records: tuple[Record, ...] = ()

    def records(self) -> tuple[Record, ...]:
        size = sum(file.stat().st_size for file in self._folder.glob("*.jsonl")) if self._folder.is_dir() else 0
        if size and size != self._size:
            with suppress(InputError):  # a line that is being written
                self._records = tuple(read_journal(self._folder))
                self._size = size
        return self._records

    def cycles(self) -> list[DecisionRecord]:
        return [record for record in self.records() if isinstance(record, DecisionRecord)]

    def observations(self) -> list[Observation]:
        return [cycle.observation for cycle in self.cycles() if cycle.observation is not None]

    def ran(self, now: float) -> float:
        """Seconds since the first decision; 0 before it."""
        first = next(iter(self.cycles()), None)
        return 0.0 if first is None else now - first.at

    def querying(self) -> bool:
        """Whether a query was observed."""
        return any(cycle.observation is not None and cycle.observation.queries for cycle in self.cycles()[-3:])

    def committed(self) -> bool:
        """Whether a batch with records has finished."""
        queries = [query for observation in self.observations() for query in observation.queries]
        return any(query.batch is not None and query.batch.records for query in queries)

    def drained_since(self, at: float) -> bool:
        """Whether the backlog was 0 after ``at``."""
        assessments = [cycle.assessment for cycle in self.cycles() if cycle.at > at]
        return any(assessment is not None and assessment.backlog == 0 for assessment in assessments)


# The driver process: a session with the autoscaler attached, and the pipeline


def main(argv: list[str]) -> int:
    """Run the job in the file ``argv[0]`` until SIGTERM; returns the exit code."""
    job = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    attached: list[Attachment] = []

    def set_paused(number: int, _: object) -> None:
        for attachment in attached:
            if number == _PAUSE:
                attachment.pause()
            else:
                attachment.resume()

    for number in (_PAUSE, _RESUME):
        signal.signal(number, set_paused)

    def on_session(spark: SparkSession) -> None:
        attached.append(attach(spark, config=job["settings"]))

    program = PIPELINES[job["program"]]
    try:
        pipeline = program.settings(**job["pipeline"])
        with program.session(pipeline, job["conf"]["spark.master"], [], job["conf"]) as spark:
            try:
                program.run(pipeline, spark, on_session=on_session, stop=stop)
            finally:
                for attachment in attached:
                    attachment.stop()
    except RheostatError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))


# What the demo shows: a table while it runs, and a report


def result(run: DemoRun, baseline: DemoRun | None) -> dict[str, Any]:
    """The score, with that of the static run if it was run."""
    return {**run.score, "baseline": dict(baseline.score) if baseline is not None else None}


def verdict(run: DemoRun, baseline: DemoRun | None) -> str:
    """One sentence on savings and violations, and one on a machine that was busy."""
    got = run.score
    static = baseline.score["executor_hours"] if baseline is not None else got["static_executor_hours"]
    kind = "run" if baseline is not None else "computed"
    used = got["executor_hours"]
    saved = f"{1 - used / static:.0%}" if used is not None and static else "an unknown share"
    most = got["executors_max"] or 0
    size, use = several(most, "static executor"), "uses" if most == 1 else "use"
    records_in, records_out = (
        "an unknown number of" if number is None else f"{number:,}"
        for number in (got["records_in"], got["records_out"])
    )
    return (
        f"{records_in} records went in and {records_out} came out; Rheostat used "
        f"{_seconds(used)} executor-seconds where {size} ({kind}) {use} "
        f"{_seconds(static)}: {saved} saved; lag was over the objective of {got['objective_s']:g} s for "
        f"{_share(got['violation_share'])} of the time (p95 {_figure(got['lag_p95_s'])} s, at most "
        f"{_figure(got['lag_max_s'])} s)." + (f" {run.busy}" if run.busy else "")
    )


def ratio_rows() -> list[list[str]]:
    """The demo profile and the published constants, header first."""
    rows = [["setting", "demo", "published", "ratio"]]
    for ratio in profile_ratios("demo"):
        ours = ratio.note if ratio.ours is None else f"{ratio.ours:g} {ratio.unit}".strip()
        published = "none" if ratio.published is None else f"{ratio.published:g} {ratio.unit}".strip()
        shown = "–" if ratio.ratio is None else f"{ratio.ratio:.2f}"
        rows.append([f"{ratio.meaning} ({ratio.key})", ours, published, shown])
    return rows


def write_page(run: DemoRun, baseline: DemoRun | None, path: Path) -> Path:
    late = run.load.lateness.max_s
    lateness = "none was late" if late is None else f"the latest record was sent {late:.2f} s after it was due"
    page = Page(
        title=f"Rheostat demo: {run.plan.policy} on {run.plan.source}",
        verdict=verdict(run, baseline),
        notes=[*run.plan.notes(), f"The load: {several(run.load.records, 'record')} acknowledged, {lateness}."],
        score=run.score,
        tables={
            "The demo profile and the constants of the thesis behind reactive (Chania 2020)": ratio_rows(),
            "Compared with a static run at the peak size": _static_rows(
                run.score, baseline.score if baseline else None
            ),
        },
    )
    return write_report(path, page, Series(run.records), run.plan.objective_s)


def _static_rows(got: Mapping[str, Any], static: Mapping[str, Any] | None) -> list[list[str]]:
    def figures(score: Mapping[str, Any]) -> list[str]:
        lags = (_figure(score["lag_p95_s"]), _figure(score["lag_max_s"]), _share(score["violation_share"]))
        return [_seconds(score["executor_hours"]), *lags]

    most = executors((static or got)["executors_max"] or 0)
    if static is None:
        name, cells = "computed: peak × duration", [_seconds(got["static_executor_hours"]), *["not run"] * 3]
    else:
        name, cells = "run", figures(static)
    header = ["", "executor-seconds", "lag p95, s", "lag max, s", "over the objective"]
    return [header, ["Rheostat", *figures(got)], [f"static, {most} ({name})", *cells]]


def _seconds(hours: float | None) -> str:
    return "unknown" if hours is None else f"{hours * 3600:,.0f}"


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f}"


def _share(value: float | None) -> str:
    return "an unknown share" if value is None else f"{value:.1%}"


# Live table


_PLAIN_EVERY_S = 5.0


class LiveTable:
    """Shows a running demo as a table; without a terminal, as a line every five seconds."""

    def __init__(self, plan: DemoPlan, folder: Path, console: Console) -> None:
        self._plan, self._console = plan, console
        self._watch = JournalWatch(folder / "journal")
        self._live: Live | None = None
        self._shown_at = 0.0

    @contextmanager
    def open(self) -> Iterator[LiveTable]:
        """Show the table until the block ends."""
        if not self._console.is_terminal:
            yield self
            return
        with Live(console=self._console, auto_refresh=False, transient=False) as live:
            self._live = live
            yield self

    def say(self, text: str) -> None:
        self._console.print(text, markup=False)

    def show(self, progress: Progress) -> None:
        cycles = self._watch.cycles()
        last = cycles[-1] if cycles else None
        rows = self._rows(progress, last)
        if self._live is not None:
            acted = next((cycle for cycle in reversed(cycles) if cycle.decision.acts), None)
            table = Table(show_header=False, title="Rheostat demo", min_width=90, expand=False)
            table.add_column(style="bold", no_wrap=True)
            table.add_column()
            for row in [*rows, ("decision", _decision(last)), ("last change", _decision(acted))]:
                table.add_row(*row)
            self._live.update(table, refresh=True)
        elif time.monotonic() - self._shown_at >= _PLAIN_EVERY_S:
            self._shown_at = time.monotonic()
            why = f" · {last.decision.why}" if last else ""
            self.say(" · ".join(f"{name} {value}" for name, value in rows) + why)

    def _rows(self, progress: Progress, last: DecisionRecord | None) -> list[tuple[str, str]]:
        assessment = last.assessment if last else None
        second = "" if progress.second is None else f" {progress.second:.0f} of {progress.seconds:.0f} s"
        lag = _row(assessment.lag_s if assessment else None, "s", 1)
        executors = "–" if assessment is None or assessment.executors is None else str(assessment.executors)
        wanted = last.decision.target if last else None
        arrow = f" → {wanted}" if wanted is not None and str(wanted) != executors else ""
        return [
            ("phase", progress.phase + second),
            ("offered", _row(progress.rate, "/s")),
            ("arriving", _row(assessment.arrival_rate if assessment else None, "/s")),
            ("processed", _row(assessment.processed_rate if assessment else None, "/s")),
            ("backlog", _row(assessment.backlog if assessment else None, "")),
            ("lag", f"{lag} (objective < {self._plan.objective_s:g} s)"),
            ("executors", f"{executors}{arrow} (bounds {self._plan.executors[0]}–{self._plan.executors[1]})"),
        ]


def _decision(cycle: DecisionRecord | None) -> str:
    if cycle is None:
        return "none yet"
    decided = cycle.decision
    return f"{decided.action.upper()} {decided.reason.code}: {decided.why}".replace("[", r"\[")


def _row(value: float | None, unit: str, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}{unit and ' ' * (unit[0] != '/')}{unit}"
