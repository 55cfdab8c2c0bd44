"""How a pipeline runs: its settings, session, source and query, and its options as a program.

SIGTERM and SIGINT, sent to the Python process, end a pipeline at the next boundary between two batches.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_type_hints

from rheostat.errors import Fault, InputError, RheostatError
from rheostat.pipelines.sink import make_writer
from rheostat.spark.kafka_options import FORMAT
from rheostat.spark.keep import IDENTITY
from rheostat.spark.shedding import Shedding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from rheostat.config.shedding import SheddingGraph


# Settings

_NEEDS: Mapping[str, tuple[str, ...]] = {
    "kafka": ("bootstrap", "topic"),
    FORMAT: ("bootstrap", "topic"),
    "log": ("log",),
}

_LARGEST_ERROR = 0.39
"""The largest error that Spark's approximate distinct count accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """Settings of every pipeline. All faults are reported at once.

    Attributes:
        source: ``"kafka"`` (Spark's own Kafka source) or ``"log"`` (the embedded log).
        checkpoint: folder of the query's checkpoint. It belongs to one source: another source needs another folder.
        out: folder of the sink, see :mod:`rheostat.pipelines.sink`.
        bootstrap, topic: broker addresses and topic, for Kafka.
        log: folder of the log, for the embedded log.
        starting: where a query without a checkpoint begins. ``earliest``: no record produced before is missed.
        cap: most records in one batch (``maxOffsetsPerTrigger``). Without a cap an overloaded query reads the whole
            backlog in one ever longer batch, and nothing is committed or measured until it ends.
        trigger_s: seconds between the starts of two batches. 2: about 4 × the fixed cost of a batch.
        lookup_ms: wait of each record for its look-up, in ms. 0: none. 2: one slot carries 500 records/s at most.
        fetch_wait_ms: how long the Kafka consumer's fetch waits for further records (``fetch.max.wait.ms``); None:
            Kafka's default, 500. Spark asks for the ends of the log on the same connection after each read, so at low
            rates every reading task waits until that fetch has ended.
        query_name: as listeners and the web UI show it.
        source_options: further options of the source.
    """

    source: str
    checkpoint: str
    out: str
    bootstrap: str | None = None
    topic: str | None = None
    log: str | None = None
    starting: str = "earliest"
    cap: int | None = 4000
    trigger_s: float = 2.0
    lookup_ms: float = 2.0
    fetch_wait_ms: int | None = None
    query_name: str = "pipeline"
    source_options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if faults := self._faults():
            raise InputError(faults)

    def _faults(self) -> list[Fault]:
        needed = (*_NEEDS.get(self.source, ()), "checkpoint", "out")
        missing = [name for name in needed if not getattr(self, name)]
        folders_differ = not self.checkpoint or self.checkpoint != self.out
        start_message = "where a query without a checkpoint begins"
        out_message = "the checkpoint and the output need a folder each"
        return [
            *(Fault(name, "nothing", "a text that is not empty", f"{name} is needed") for name in missing),
            *self._check("source", self.source in _NEEDS, ", ".join(_NEEDS), "where records come from"),
            *self._check("starting", self.starting in ("earliest", "latest"), "earliest, latest", start_message),
            *self._check("out", folders_differ, "another folder than checkpoint", out_message),
            *self._check_count("cap", "the most records in one batch", optional=True),
            *self._check_count("fetch_wait_ms", "how long a fetch waits for further records", optional=True),
            *self._check_time("trigger_s", 0),
            *self._check_time("lookup_ms", 0),
        ]

    def _check(self, name: str, valid: bool, allowed: str, message: str) -> list[Fault]:
        return [] if valid else [Fault(name, repr(getattr(self, name)), allowed, message)]

    def _check_count(self, name: str, message: str, *, optional: bool = False) -> list[Fault]:
        value = getattr(self, name)
        is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        allowed = "an integer ≥ 1" + (", or none" if optional else "")
        return self._check(name, is_count or (optional and value is None), allowed, message)

    def _check_time(self, name: str, least: float) -> list[Fault]:
        return self._check(name, _at_least(getattr(self, name), least), f"a number ≥ {least}", "a length of time")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClickFraudSettings(PipelineSettings):
    """Settings of the click-fraud pipeline.

    Attributes:
        shuffle_partitions: tasks of the aggregation, and partitions of its state: fixed for the life of a checkpoint.
            2: the look-up is what needs the executors, and each partition adds about 50 ms to every batch.
        distinct_error: relative standard deviation of the approximate distinct counts. 0.1: the state of a key is then
            some 100 bytes; 0.05, Spark's default, takes four times that and a tenth more time for a batch.
        lateness_s: how long after the newest event time a record may still come (watermark). 600: longer than any pause
            or backlog that a run survives, so that none is dropped; longer keeps more windows in the state.
        window_s: length of the event-time windows, seconds. 60 in the published experiment.
    """

    shuffle_partitions: int = 2
    distinct_error: float = 0.1
    lateness_s: float = 600.0
    window_s: float = 60.0
    query_name: str = "click_fraud"

    def _faults(self) -> list[Fault]:
        error_fits = _at_least(self.distinct_error, 0.01) and self.distinct_error <= _LARGEST_ERROR
        error_message = "the relative standard deviation of distinct counts"
        return [
            *super(ClickFraudSettings, self)._faults(),
            *self._check_count("shuffle_partitions", "the number of tasks of the aggregation"),
            *self._check("distinct_error", error_fits, f"a number from 0.01 to {_LARGEST_ERROR}", error_message),
            *self._check_time("lateness_s", 0),
            *self._check_time("window_s", 1),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxiSettings(PipelineSettings):
    """Settings of the taxi pipeline.

    Its work is a few multiplications for each record: without a wait one slot carries tens of thousands of records/s.
    In S2 a replica, a small computer, carried some 55: ``lookup_ms`` 18.
    """

    lookup_ms: float = 0.0
    query_name: str = "taxi_attractions"


@dataclass(frozen=True, slots=True, kw_only=True)
class SheddingSettings(PipelineSettings):
    """Settings of a pipeline with edges at which records may be dropped [S3].

    Attributes:
        orders: the file with what each edge keeps (:mod:`rheostat.spark.orders`); None: there are no edges. Needs the
            source ``rheostat-kafka``.
        work_us: processor time that Python uses for each record, µs.
    """

    orders: str | None = None
    work_us: float = 0.0
    lookup_ms: float = 0.0

    def _faults(self) -> list[Fault]:
        fits = self.orders is None or self.source == FORMAT
        return [
            *super(SheddingSettings, self)._faults(),
            *self._check("orders", fits, f"none, or source {FORMAT}", "other sources take no orders"),
            *self._check_time("work_us", 0),
        ]

    def _check_share(self, name: str) -> list[Fault]:
        value = getattr(self, name)
        return self._check(name, _at_least(value, 0) and value <= 1, "a number from 0 to 1", "a share of the records")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxiDrivesSettings(SheddingSettings):
    """Settings of the pipeline taxi drives.

    Attributes:
        topic, log: what the names of the two begin with: ``drives`` is ``drives-1`` and ``drives-2``.
        cap: of each of them.
        light_us: processor time of the light sink for each record, µs; ``work_us`` and ``lookup_ms`` are those of the
            heavy one.
        priority_1, priority_2: of the light sink and the heavy one, integers.
        accuracy_1, accuracy_2: their minimum accuracies, 0 to 1. 0.4 and 0.6, as in S3's first scenario.
        shuffle_partitions: tasks of each aggregation, fixed for the life of a checkpoint. 2, as in S3.
        lateness_s, window_s: as of click fraud.
    """

    light_us: float = 0.0
    priority_1: int = 0
    priority_2: int = 0
    accuracy_1: float = 0.4
    accuracy_2: float = 0.6
    shuffle_partitions: int = 2
    lateness_s: float = 600.0
    window_s: float = 60.0
    query_name: str = "taxi_drives"

    def _faults(self) -> list[Fault]:
        return [
            *super(TaxiDrivesSettings, self)._faults(),
            *self._check_time("light_us", 0),
            *self._check_share("accuracy_1"),
            *self._check_share("accuracy_2"),
            *self._check_count("shuffle_partitions", "the number of tasks of each aggregation"),
            *self._check_time("lateness_s", 0),
            *self._check_time("window_s", 1),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnnSettings(SheddingSettings):
    """Settings of the pipeline of nearest neighbours.

    Attributes:
        k: number of neighbours of each record, at most ``references``.
        references: number of points among which they are sought. They are what a record costs without ``work_us``.
        seed: of these points.
        priority, accuracy: of the sink: an integer, and the minimum accuracy, 0 to 1.
    """

    k: int = 10
    references: int = 1000
    seed: int = 0
    priority: int = 0
    accuracy: float = 0.0
    query_name: str = "knn"

    def _faults(self) -> list[Fault]:
        counts = [*self._check_count("k", "the number of neighbours"), *self._check_count("references", "their number")]
        fits = bool(counts) or self.k <= self.references
        return [
            *super(KnnSettings, self)._faults(),
            *counts,
            *self._check("k", fits, f"≤ references ({self.references})", "there are fewer points than neighbours"),
            *self._check("seed", _at_least(self.seed, 0), "an integer ≥ 0", "the seed of the points"),
            *self._check_share("accuracy"),
        ]


def _at_least(value: Any, least: float) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= least


# Sessions and queries

UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_STREAMING = "org.apache.spark.sql.execution.streaming"


def base_conf() -> dict[str, str]:
    """Session settings that make short batches cheap on a small machine.

    Spark's default checkpoint manager starts helper processes for each file on a local disk, which costs more than the
    batch itself; the one set here does not, and is correct for one driver at a time. Over TCP each exchange with a
    Python worker waits some 40 ms for an acknowledgement; over sockets of the file system (Spark 4.1) it does not.
    """
    return {
        UNIX_SOCKETS: "true",
        "spark.driver.extraJavaOptions": _QUICK_JVM,
        "spark.executor.extraJavaOptions": _QUICK_JVM,
        "spark.sql.streaming.checkpointFileManagerClass": (
            f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.compression.codec": "uncompressed",
    }


@contextlib.contextmanager
def open_session(name: str, master: str, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session whose workers run this Python, stopped on leaving."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master(master).appName(name).config(map=dict(conf)).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def read_stream(
    settings: PipelineSettings, spark: SparkSession, source_options: Mapping[str, str] | None = None
) -> DataFrame:
    """A stream of the source with the column ``value``, and ``rheostat`` if its options name edges."""
    options: dict[str, Any] = {"startingOffsets": settings.starting}
    if settings.cap is not None:
        options["maxOffsetsPerTrigger"] = settings.cap
    if settings.source == "log":
        from rheostat.spark import log_source

        log_source.register(spark)
        return spark.readStream.format(log_source.FORMAT).options(path=settings.log, **options).load().select("value")
    options |= {"kafka.bootstrap.servers": settings.bootstrap, "subscribe": settings.topic}
    if settings.fetch_wait_ms is not None:
        options["kafka.fetch.max.wait.ms"] = settings.fetch_wait_ms
    if settings.source == FORMAT:
        from rheostat.spark import kafka_source

        kafka_source.register(spark)
    records = spark.readStream.format(settings.source).options(
        **options, **settings.source_options, **(source_options or {})
    )
    rows = records.load()
    identity = [IDENTITY] if IDENTITY in rows.columns else []
    return rows.selectExpr("CAST(value AS STRING) AS value", *identity)


def start_query(settings: PipelineSettings, rows: DataFrame) -> StreamingQuery:
    """Start a query that writes these rows, and return at once.

    Raises:
        RheostatError: Spark refuses it: no connector for Kafka, no log in the folder, a checkpoint of another query.
    """
    with _refusals_told(settings.query_name):
        return (
            rows.writeStream.queryName(settings.query_name)
            .outputMode("update")
            .option("checkpointLocation", settings.checkpoint)
            .trigger(processingTime=f"{round(settings.trigger_s * 1000)} milliseconds")
            .foreachBatch(make_writer(settings.out))
            .start()
        )


@contextlib.contextmanager
def _refusals_told(name: str) -> Iterator[None]:
    """What Spark refuses, from reading the source on, becomes a RheostatError."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        message = f"{name} cannot start: {error}"
        raise RheostatError(message) from error


def finish(query: StreamingQuery, timeout_s: float = 120.0) -> None:
    """Stop a query between two batches: in the gap before a trigger, or right after the running batch is committed.

    After ``timeout_s`` the running batch is aborted; a restart repeats it.

    Raises:
        RheostatError: the query had failed.
    """
    last, deadline = _last_batch(query), time.monotonic() + timeout_s
    while query.isActive and query.status["isTriggerActive"] and _last_batch(query) == last:
        if time.monotonic() >= deadline:
            break
        time.sleep(0.05)
    failure = query.exception()
    query.stop()
    if failure is not None:
        raise RheostatError(str(failure)) from failure


def _last_batch(query: StreamingQuery) -> int | None:
    progress = query.lastProgress
    return None if progress is None else int(progress["batchId"])


S = TypeVar("S", bound=PipelineSettings)


@dataclass(frozen=True)
class Program(Generic[S]):
    """What runs as a program: its settings, its session and its queries.

    Attributes:
        name: of its module.
        conf: of its session.
        add_options: adds the options of its own settings to a parser; None: ``--name``, of its type, for each.
    """

    name: str
    description: str
    settings: type[S]
    conf: Callable[[S], dict[str, str]]
    add_options: Callable[[argparse.ArgumentParser], object] | None = field(default=None, kw_only=True)

    def start_all(self, settings: S, spark: SparkSession) -> list[StreamingQuery]:
        """Start the queries and return at once; see :func:`start_query`."""
        raise NotImplementedError

    def run(
        self,
        settings: S,
        spark: SparkSession,
        on_session: Callable[[SparkSession], object] | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        """Run the queries until one ends or ``stop`` is set; then finish at a boundary between two batches.

        ``on_session`` is called with the session, which is left open, before the queries start.

        Raises:
            RheostatError: a query failed.
        """
        if on_session is not None:
            on_session(spark)
        stop = stop or threading.Event()
        with contextlib.ExitStack() as ends:
            queries = self.start_all(settings, spark)
            for query in queries:
                ends.callback(finish, query)
            while all(query.isActive for query in queries) and not stop.wait(0.2):
                pass

    def session(
        self, settings: S, master: str, jars: Sequence[str], conf: Mapping[str, str]
    ) -> contextlib.AbstractContextManager[SparkSession]:
        """A session for the pipeline, stopped on leaving. ``conf`` overrides the pipeline's own."""
        everything = {"spark.jars": ",".join(jars), **self.conf(settings), **conf}
        return open_session(settings.query_name, master, everything)

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run as a program until SIGTERM or SIGINT. 0: after a signal, 1: the query failed, 2: the input was wrong."""
        options = self.parser().parse_args(argv)
        stop = threading.Event()
        try:
            settings = self.read_settings(options)
            with self.session(settings, options.master, options.jars, dict(options.conf)) as spark:
                for number in (signal.SIGTERM, signal.SIGINT):
                    signal.signal(number, lambda *_: stop.set())
                self.run(settings, spark, stop=stop)
        except RheostatError as error:
            sys.stderr.write(f"{error}\n")
            return error.exit_code
        return 0

    def read_settings(self, options: argparse.Namespace) -> S:
        """The settings in the options of the program. Raises InputError with every wrong one."""
        given = {each.name: getattr(options, each.name) for each in fields(self.settings)}
        return self.settings(**{**given, "source_options": dict(options.source_options)})

    def parser(self) -> argparse.ArgumentParser:
        """One option for each setting, and those of the session."""
        parser = argparse.ArgumentParser(prog=f"python -m rheostat.pipelines.{self.name}", description=self.description)
        defaults = {each.name: each.default for each in fields(self.settings) if each.default is not MISSING}
        parser.set_defaults(**defaults)
        add = parser.add_argument
        add("--master", required=True, help="the cluster, as Spark names it: spark://HOST:PORT or local[2]")
        add("--source", required=True, help="kafka, rheostat-kafka or log")
        add("--bootstrap", help="broker addresses, but for log")
        add("--topic", help="topic, but for log")
        add("--log", help="folder of the embedded log, for log")
        add("--checkpoint", default="", help="folder of the query's checkpoint")
        add("--out", default="", help="folder of the results")
        add("--starting", help="earliest or latest: where to begin without a checkpoint (default: %(default)s)")
        add("--cap", type=_parse_cap, help="most records in one batch, or none (default: %(default)s)")
        add("--trigger", type=parse_seconds, dest="trigger_s", help="time between batches (default: %(default)s s)")
        add("--lookup-ms", type=float, help="wait of each record, in milliseconds (default: %(default)s)")
        add("--fetch-wait-ms", type=int, help="longest wait for further records in Kafka, in ms (default: Kafka's)")
        add("--query-name", help="name of the query (default: %(default)s)")
        more: dict[str, Any] = {"action": "append", "type": _parse_pair, "default": []}
        add("--source-option", dest="source_options", help="KEY=VALUE for the source; may be repeated", **more)
        add("--jars", type=_parse_list, default=[], help="jar files for the session, comma-separated")
        add("--conf", help="KEY=VALUE for the session; may be repeated", **more)
        if self.add_options is None:
            _add_own_options(parser, self.settings)
        else:
            self.add_options(parser)
        return parser


@dataclass(frozen=True)
class Pipeline(Program[S]):
    """A pipeline of one query.

    Attributes:
        build: maps a stream with the column ``value`` to the rows of the sink.
    """

    build: Callable[[S, DataFrame], DataFrame]

    def start(self, settings: S, spark: SparkSession) -> StreamingQuery:
        """Start the query and return at once; see :func:`start_query`."""
        with _refusals_told(settings.query_name):
            rows = self.build(settings, read_stream(settings, spark))
        return start_query(settings, rows)

    def start_all(self, settings: S, spark: SparkSession) -> list[StreamingQuery]:
        return [self.start(settings, spark)]


D = TypeVar("D", bound=SheddingSettings)


@dataclass(frozen=True)
class SheddingPipeline(Program[D]):
    """A pipeline with a query for each of its sinks, which has the sink's name.

    Attributes:
        graph: where records may be dropped.
        build: the rows of each sink, by its name; without a :class:`Shedding` nothing is dropped.
    """

    graph: Callable[[D], SheddingGraph]
    build: Callable[[D, SparkSession, Shedding | None], Mapping[str, DataFrame]]

    def start_all(self, settings: D, spark: SparkSession, shedding: Shedding | None = None) -> list[StreamingQuery]:
        """Start a query for each sink; ``checkpoint`` and ``out`` are the folders of a folder for each.

        Args:
            settings: those of the pipeline.
            spark: a session, in which other pipelines may run too.
            shedding: of a graph that contains this pipeline's (:func:`~rheostat.config.shedding.join_graphs`), with the
                file of its orders. None: :attr:`graph` with ``settings.orders``.

        Raises:
            InputError: an edge of the pipeline is not in the graph, or the source takes no orders.
            RheostatError: see :func:`start_query`.
        """
        if shedding is None and settings.orders is not None:
            shedding = Shedding(self.graph(settings), Path(settings.orders))
        if shedding is not None and settings.source != FORMAT:
            message = "records are dropped by orders, which other sources do not take"
            raise InputError([Fault("source", settings.source, FORMAT, message)])
        with _refusals_told(settings.query_name):
            built = self.build(settings, spark, shedding)
        queries = []
        for sink, rows in built.items():
            checkpoint, out = f"{settings.checkpoint}/{sink}", f"{settings.out}/{sink}"
            queries.append(start_query(replace(settings, query_name=sink, checkpoint=checkpoint, out=out), rows))
        return queries


def _add_own_options(parser: argparse.ArgumentParser, settings: type[PipelineSettings]) -> None:
    """An option for each setting that not every pipeline has; one without a default is required."""
    types, common = get_type_hints(settings), {each.name for each in fields(PipelineSettings)}
    for each in fields(settings):
        if each.name not in common:
            needed = each.default is MISSING
            text = f"setting of this pipeline ({'required' if needed else 'default: %(default)s'})"
            option, read = f"--{each.name.replace('_', '-')}", _make_reader(types[each.name])
            parser.add_argument(option, type=read, required=needed, help=text)


def _make_reader(hint: Any) -> Callable[[str], Any]:
    from pydantic import TypeAdapter

    def setting(text: str) -> Any:  # argparse says "invalid setting value: 'x'"
        return TypeAdapter(hint).validate_python(text)

    return setting


_DURATION = re.compile(r"\s*(?P<value>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|min|m)?\s*")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, None: 1.0}


def parse_seconds(text: str) -> float:
    """A duration in seconds; the unit is ms, s, m or min (default: s). Raises ValueError if it is none.

    >>> parse_seconds("500ms"), parse_seconds("2s"), parse_seconds("3")
    (0.5, 2.0, 3.0)
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        message = f"not a duration: {text!r}"
        raise ValueError(message)
    return float(match["value"]) * _UNITS[match["unit"]]


def _parse_list(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _parse_cap(text: str) -> int | None:
    return None if text == "none" else int(text)


def _parse_pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        message = f"not KEY=VALUE: {text!r}"
        raise ValueError(message)
    return key, value
