"""How a pipeline runs: its session, its source, its query, its end, and its options as a program.

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
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

from rheostat.errors import Fault, InputError, RheostatError
from rheostat.pipelines.sink import writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


# Settings of the pipelines.


_DURATION = re.compile(r"\s*(?P<value>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|min|m)?\s*")
_LARGEST_ERROR = 0.39
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, None: 1.0}


def parse_seconds(text: str) -> float:
    """A duration in seconds; the unit is ms, s, m or min, and s if there is none.

    Raises:
        ValueError: the text is not a duration.

    >>> parse_seconds("500ms"), parse_seconds("2s"), parse_seconds("3")
    (0.5, 2.0, 3.0)
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        message = f"not a duration: {text!r}"
        raise ValueError(message)
    return float(match["value"]) * _UNITS[match["unit"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """What every pipeline is told: where records come from, where results go, when a batch begins.

    Attributes:
        source: ``"kafka"`` (Spark's own Kafka source) or ``"log"`` (the embedded log).
        checkpoint: folder of the query's checkpoint. It belongs to one source: begin a new one to change it.
        out: folder of the sink, see :mod:`rheostat.pipelines.sink`.
        bootstrap, topic: broker addresses and topic, for Kafka.
        log: folder of the log, for the embedded log.
        starting: where a query without a checkpoint begins. ``earliest``: nothing that was produced before is missed.
        cap: most records in one batch (``maxOffsetsPerTrigger``). Without a cap an overloaded query swallows all that
            waits in one ever longer batch, and nothing is committed or measured until it ends.
        trigger_s: seconds between the starts of two batches. 2: about 4 × the fixed cost of a batch.
        lookup_ms: wait of each record for its look-up, in ms. 0: none. 2: one slot carries 500 records/s at most.
        fetch_wait_ms: how long the Kafka consumer's fetch waits for further records (``fetch.max.wait.ms``); None:
            Kafka's default, 500. Spark asks for the ends of the log on the same connection after each read, so where
            records come slowly every reading task waits until that fetch has ended.
        query_name: name of the query, as listeners and the web UI show it.
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

    def __post_init__(self) -> None:
        faults = [*self._source_faults(), *self._number_faults(), *self._time_faults()]
        if faults:
            raise InputError(faults)

    def _source_faults(self) -> list[Fault]:
        needs = {"kafka": ("bootstrap", "topic"), "log": ("log",)}
        faults = [
            _missing(name) for name in (*needs.get(self.source, ()), "checkpoint", "out") if not getattr(self, name)
        ]
        if self.source not in needs:
            faults.append(Fault("source", repr(self.source), "kafka, log", "where records come from"))
        if self.starting not in ("earliest", "latest"):
            message = "where a query without a checkpoint begins"
            faults.append(Fault("starting", repr(self.starting), "earliest, latest", message))
        if self.checkpoint and self.checkpoint == self.out:
            message = "the checkpoint and the output need a folder each"
            faults.append(Fault("out", repr(self.out), "another folder than checkpoint", message))
        return faults

    def _number_faults(self) -> list[Fault]:
        faults = []
        if self.cap is not None and not _is_count(self.cap):
            faults.append(Fault("cap", repr(self.cap), "an integer ≥ 1, or none", "the most records in one batch"))
        if self.fetch_wait_ms is not None and not _is_count(self.fetch_wait_ms):
            message = "how long a fetch waits for further records"
            faults.append(Fault("fetch_wait_ms", repr(self.fetch_wait_ms), "an integer ≥ 1, or none", message))
        return faults

    def _time_faults(self) -> list[Fault]:
        return [
            Fault(name, repr(getattr(self, name)), f"a number ≥ {bound}", "a length of time")
            for name, bound in self._shortest().items()
            if not _at_least(getattr(self, name), bound)
        ]

    def _shortest(self) -> dict[str, float]:
        """Lengths of time, and the least of each."""
        return {"trigger_s": 0, "lookup_ms": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClickFraudSettings(PipelineSettings):
    """What the click-fraud pipeline is told. All faults are reported at once.

    Attributes:
        shuffle_partitions: tasks of the aggregation, and partitions of its state: fixed for the life of a checkpoint.
            2: it is the look-up that needs the executors, and each partition adds about 50 ms to every batch.
        distinct_error: relative standard deviation of the approximate distinct counts. 0.1: the state of a key is then
            some 100 bytes; 0.05, Spark's own default, takes four times that and a tenth more time for a batch.
        lateness_s: how long after the newest event time a record may still come (watermark). 600: longer than any pause
            or backlog that is survived, so that none is dropped; longer keeps more windows in the state.
        window_s: length of the event-time windows, seconds. 60 in the published experiment.
    """

    shuffle_partitions: int = 2
    distinct_error: float = 0.1
    lateness_s: float = 600.0
    window_s: float = 60.0
    query_name: str = "click_fraud"

    def _number_faults(self) -> list[Fault]:
        faults = super(ClickFraudSettings, self)._number_faults()
        if not _is_count(self.shuffle_partitions):
            message = "the number of tasks of the aggregation"
            faults.append(Fault("shuffle_partitions", repr(self.shuffle_partitions), "an integer ≥ 1", message))
        if not (_at_least(self.distinct_error, 0.01) and self.distinct_error <= _LARGEST_ERROR):
            allowed = f"a number from 0.01 to {_LARGEST_ERROR}"
            message = "the relative standard deviation of distinct counts"
            faults.append(Fault("distinct_error", repr(self.distinct_error), allowed, message))
        return faults

    def _shortest(self) -> dict[str, float]:
        return {**super(ClickFraudSettings, self)._shortest(), "lateness_s": 0, "window_s": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxiSettings(PipelineSettings):
    """What the taxi pipeline is told. All faults are reported at once.

    Its work is a few multiplications for each record: without a wait one slot carries tens of thousands of records/s.
    In S2 a replica, a small computer, carried some 55: ``lookup_ms`` 18.
    """

    lookup_ms: float = 0.0
    query_name: str = "taxi_attractions"


def _missing(name: str) -> Fault:
    return Fault(name, "nothing", "a text that is not empty", f"{name} is needed")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _at_least(value: Any, least: float) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= least


S = TypeVar("S", bound=PipelineSettings)

_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_STREAMING = "org.apache.spark.sql.execution.streaming"
_POLL_S = 0.05


def base_conf() -> dict[str, str]:
    """Session settings that make short batches cheap on a small machine.

    Spark's usual checkpoint manager starts helper processes for each file on a local disk, which costs more than the
    batch itself; the one named here does not, and is right for one driver at a time.
    """
    return {
        "spark.driver.extraJavaOptions": _QUICK_JVM,
        "spark.executor.extraJavaOptions": _QUICK_JVM,
        "spark.sql.streaming.checkpointFileManagerClass": (
            f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.compression.codec": "uncompressed",
    }


def start_query(
    settings: PipelineSettings, spark: SparkSession, build: Callable[[DataFrame], DataFrame]
) -> StreamingQuery:
    """Start the query and return at once.

    Args:
        settings: what to run.
        spark: the session.
        build: from a stream with the column ``value`` to the rows of the sink.

    Raises:
        RheostatError: Spark refuses it: no connector for Kafka, no log in the folder, a checkpoint of another query.
    """
    from pyspark.errors import PySparkException

    try:
        return (
            build(_records(settings, spark))
            .writeStream.queryName(settings.query_name)
            .outputMode("update")
            .option("checkpointLocation", settings.checkpoint)
            .trigger(processingTime=f"{round(settings.trigger_s * 1000)} milliseconds")
            .foreachBatch(writer(settings.out))
            .start()
        )
    except PySparkException as error:
        message = f"{settings.query_name} cannot start: {error}"
        raise RheostatError(message) from error


def _records(settings: PipelineSettings, spark: SparkSession) -> DataFrame:
    options: dict[str, Any] = {"startingOffsets": settings.starting}
    if settings.cap is not None:
        options["maxOffsetsPerTrigger"] = settings.cap
    if settings.source == "log":
        from rheostat.spark.log_source import FORMAT, register

        register(spark)
        return spark.readStream.format(FORMAT).options(path=settings.log, **options).load().select("value")
    options |= {"kafka.bootstrap.servers": settings.bootstrap, "subscribe": settings.topic}
    if settings.fetch_wait_ms is not None:
        options["kafka.fetch.max.wait.ms"] = settings.fetch_wait_ms
    return spark.readStream.format("kafka").options(**options).load().selectExpr("CAST(value AS STRING) AS value")


def run_query(
    start: Callable[[SparkSession], StreamingQuery],
    spark: SparkSession,
    on_session: Callable[[SparkSession], object] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Run a query until it ends or ``stop`` is set; then finish at a boundary between two batches.

    Args:
        start: starts the query.
        spark: the session, which is left open.
        on_session: called with the session before the query starts.
        stop: set by whoever wants the end.

    Raises:
        RheostatError: the query failed.
    """
    if on_session is not None:
        on_session(spark)
    stop = stop or threading.Event()
    query = start(spark)
    while query.isActive and not stop.wait(0.2):
        pass
    finish(query)


def finish(query: StreamingQuery, timeout_s: float = 120.0) -> None:
    """Stop a query between two batches: in the gap before a trigger, or right after the running batch is committed.

    Nothing is then left half done. After ``timeout_s`` the running batch is given up; a restart repeats it.

    Raises:
        RheostatError: the query had failed.
    """
    last, deadline = _last_batch(query), time.monotonic() + timeout_s
    while query.isActive and _in_batch(query) and _last_batch(query) == last and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    failure = query.exception()
    query.stop()
    if failure is not None:
        raise RheostatError(str(failure)) from failure


def _in_batch(query: StreamingQuery) -> bool:
    return bool(query.status["isTriggerActive"])


def _last_batch(query: StreamingQuery) -> int | None:
    progress = query.lastProgress
    return None if progress is None else int(progress["batchId"])


@contextlib.contextmanager
def session_of(name: str, master: str, jars: Sequence[str], conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session for a pipeline; ended on leaving."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {"spark.jars": ",".join(jars), **conf}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def program(
    options: argparse.Namespace,
    read: Callable[[argparse.Namespace], S],
    session: Callable[[S, str, Sequence[str], dict[str, str]], contextlib.AbstractContextManager[SparkSession]],
    run: Callable[[S, SparkSession, threading.Event], None],
) -> int:
    """Run a pipeline as a program.

    Args:
        options: of :func:`base_parser`.
        read: the settings that they ask for.
        session: opens the session.
        run: runs the query until the event is set.

    Returns:
        0 when it was asked to end, 1 when the query failed, 2 when the input was wrong.
    """
    stop = threading.Event()
    try:
        settings = read(options)
        with session(settings, options.master, options.jars, dict(options.conf)) as spark:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: stop.set())
            run(settings, spark, stop)
    except RheostatError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def settings_from(options: argparse.Namespace, kind: type[S]) -> S:
    """The settings that the options of a program ask for.

    Raises:
        InputError: every setting that is wrong.
    """
    return kind(**{field.name: getattr(options, field.name) for field in fields(kind)})


def base_parser(name: str, description: str, lookup_ms: float) -> argparse.ArgumentParser:
    """The options that every pipeline has: one for each of its settings, and those of the session.

    Args:
        name: of the module, and of the query unless said.
        description: what the pipeline does.
        lookup_ms: wait of each record unless said.
    """
    made = argparse.ArgumentParser(prog=f"python -m rheostat.pipelines.{name}", description=description)
    add = made.add_argument
    add("--master", required=True, help="the cluster, as Spark names it: spark://HOST:PORT or local[2]")
    add("--source", required=True, help="kafka or log")
    add("--bootstrap", help="broker addresses, for kafka")
    add("--topic", help="topic, for kafka")
    add("--log", help="folder of the embedded log, for log")
    add("--checkpoint", default="", help="folder of the query's checkpoint")
    add("--out", default="", help="folder that the results go to")
    add("--starting", default="earliest", help="earliest or latest: where to begin without a checkpoint")
    add("--cap", type=_cap, default=4000, help="most records in one batch, or none (default: 4000)")
    add("--trigger", type=parse_seconds, dest="trigger_s", default=2.0, help="time between batches (default: 2s)")
    wait = f"wait of each record, in milliseconds (default: {lookup_ms:g})"
    add("--lookup-ms", type=float, default=lookup_ms, help=wait)
    add("--fetch-wait-ms", type=int, help="longest wait for further records in Kafka, in ms (default: the consumer's)")
    add("--query-name", default=name, help=f"name of the query (default: {name})")
    add("--jars", type=_list, default=[], help="jar files for the session, comma-separated")
    add("--conf", action="append", type=_pair, default=[], help="KEY=VALUE for the session; may be repeated")
    return made


def _list(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _cap(text: str) -> int | None:
    return None if text == "none" else int(text)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        message = f"not KEY=VALUE: {text!r}"
        raise ValueError(message)
    return key, value
