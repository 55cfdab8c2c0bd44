"""How a pipeline runs: its session, its source, its query, its end, and its options as a program.

SIGTERM and SIGINT, sent to the Python process, end a pipeline at the next boundary between two batches.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from rheostat.errors import RheostatError
from rheostat.pipelines.settings import PipelineSettings, parse_seconds
from rheostat.pipelines.sink import writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["base_conf", "base_parser", "finish", "program", "run_query", "session_of", "settings_from", "start_query"]

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
