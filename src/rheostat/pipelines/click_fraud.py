"""The click-fraud pipeline of the published experiment (S1, 5.1), in PySpark.

Input: JSON records ``{"id", "ip", "userID", "timestamp", "eventType": "display" | "click"}``, from Kafka through
Spark's own source, or from the embedded log. Output, in event-time windows of 60 s: user ids per ip, ips per user id,
and the click-through rate (clicks ÷ displays) of each user.

**One query, not three.** Each record becomes two keyed rows, one of kind ``ip`` and one of kind ``user`` (the
click-through rate has the same key as ips per user, so it is a column of that row), and one stateful aggregation
counts over (kind, key, window). Three queries would read the topic three times, each with offsets of its own; with
one, the **backlog is latest − committed of this one query**, and a batch is committed for all outputs or for none.

**Distinct counts are approximate** (HyperLogLog++, relative standard deviation ``distinct_error``): Spark refuses
exact distinct counts on streams, and a set per key has no bound. Small counts come out nearly exact.

Counting what gets through: every output row carries the number of its records and sums over their ids, see
:mod:`rheostat.pipelines.sink`. Records that are not understood are left out and counted: ``malformed`` among the
``observedMetrics`` of the progress events. Records later than the watermark show there as
``numRowsDroppedByWatermark``.

As a program: ``python -m rheostat.pipelines.click_fraud --help``. SIGTERM and SIGINT, sent to the Python process,
end it at the next boundary between two batches.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from rheostat.errors import RheostatError
from rheostat.pipelines.lookup import HALVES, looked_up
from rheostat.pipelines.settings import ClickFraudSettings, parse_seconds
from rheostat.pipelines.sink import writer

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = [
    "ClickFraudSettings",
    "build",
    "finish",
    "main",
    "parser",
    "run",
    "session",
    "settings_of",
    "spark_conf",
    "start",
]

_JSON = "id LONG, ip STRING, userID STRING, timestamp DOUBLE, eventType STRING"
_LOOKED_UP = "ip STRING, userID STRING, at TIMESTAMP, click INT, " + ", ".join(f"{name} LONG" for name in HALVES)
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_POLL_S = 0.05


def spark_conf(settings: ClickFraudSettings) -> dict[str, str]:
    """Session settings that make short batches cheap on a small machine.

    Spark's usual checkpoint manager starts helper processes for each file on a local disk, which costs more than the
    batch itself; the one named here does not, and is right for one driver at a time. RocksDB keeps the state, so that
    its partitions can be changed later; with the changelog a batch uploads only what it changed. (Measured, two
    executors on two cores: no slower than Spark's default provider within the spread of the runs.) Batches without
    records are not run: in update mode they would only tidy up, which the next batch with records does as well.
    """
    streaming = "org.apache.spark.sql.execution.streaming"
    return {
        "spark.driver.extraJavaOptions": _QUICK_JVM,
        "spark.executor.extraJavaOptions": _QUICK_JVM,
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.streaming.checkpointFileManagerClass": (
            f"{streaming}.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": f"{streaming}.state.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.compression.codec": "uncompressed",
    }


def build(settings: ClickFraudSettings, records: DataFrame) -> DataFrame:
    """The pipeline from a stream with the column ``value`` to its output rows.

    Columns: kind (``ip`` or ``user``), key, window_start, window_end, others (about how many different user ids or
    ips), clicks, displays, click_through_rate (null without a display), records, and the sums of
    :data:`~rheostat.pipelines.lookup.HALVES`.
    """
    from pyspark.sql import functions as F  # noqa: N812

    understood = _understood(records)
    waited = understood.mapInArrow(looked_up(settings.lookup_ms), _LOOKED_UP)
    keyed = waited.select(
        F.explode(F.array(_keyed("ip", "ip", "userID"), _keyed("user", "userID", "ip"))).alias("row"),
        "at",
        "click",
        *HALVES,
    )
    window = F.window("at", f"{settings.window_s} seconds").alias("window")
    counted = (
        keyed.withWatermark("at", f"{settings.lateness_s} seconds")
        .groupBy(F.col("row.kind").alias("kind"), F.col("row.key").alias("key"), window)
        .agg(
            F.approx_count_distinct("row.other", settings.distinct_error).alias("others"),
            F.sum("click").alias("clicks"),
            F.count(F.lit(1)).alias("records"),
            *(F.sum(name).alias(name) for name in HALVES),
        )
    )
    return _output(counted)


def _understood(records: DataFrame) -> DataFrame:
    """Records that have all their fields; the others are counted, and left out."""
    from pyspark.sql import functions as F  # noqa: N812

    parsed = records.select(F.from_json("value", _JSON).alias("r")).select(
        "r.id",
        "r.ip",
        "r.userID",
        F.col("r.timestamp").try_cast("timestamp").alias("at"),
        F.when(F.col("r.eventType") == "click", 1).when(F.col("r.eventType") == "display", 0).alias("click"),
    )
    whole = ~(F.isnull("id") | F.isnull("ip") | F.isnull("userID") | F.isnull("at") | F.isnull("click"))
    observed = parsed.observe("records", F.count(F.lit(1)).alias("records"), F.count_if(~whole).alias("malformed"))
    return observed.filter(whole)


def _keyed(kind: str, key: str, other: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.struct(F.lit(kind).alias("kind"), F.col(key).alias("key"), F.col(other).alias("other"))


def _output(counted: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    displays = F.col("records") - F.col("clicks")
    return counted.select(
        "kind",
        "key",
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        "others",
        "clicks",
        displays.alias("displays"),
        F.try_divide("clicks", displays).alias("click_through_rate"),
        "records",
        *HALVES,
    )


def start(settings: ClickFraudSettings, spark: SparkSession) -> StreamingQuery:
    """Start the query and return at once.

    Raises:
        RheostatError: Spark refuses it: no connector for Kafka, no log in the folder, a checkpoint of another query.
    """
    from pyspark.errors import PySparkException

    spark.conf.set("spark.sql.shuffle.partitions", settings.shuffle_partitions)
    try:
        return (
            build(settings, _records(settings, spark))
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


def _records(settings: ClickFraudSettings, spark: SparkSession) -> DataFrame:
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


def run(
    settings: ClickFraudSettings,
    spark: SparkSession,
    on_session: Callable[[SparkSession], object] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Run the query until it ends or ``stop`` is set; then finish at a boundary between two batches.

    Args:
        settings: what to run.
        spark: the session, which is left open.
        on_session: called with the session before the query starts.
        stop: set by whoever wants the end.

    Raises:
        RheostatError: the query failed.
    """
    if on_session is not None:
        on_session(spark)
    stop = stop or threading.Event()
    query = start(settings, spark)
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
def session(
    settings: ClickFraudSettings, master: str, jars: Sequence[str], conf: dict[str, str]
) -> Iterator[SparkSession]:
    """A session for the pipeline; ended on leaving. ``conf`` has the last word over :func:`spark_conf`."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(settings.query_name)
    for key, value in {**spark_conf(settings), "spark.jars": ",".join(jars), **conf}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the pipeline as a program.

    Returns:
        0 when it was asked to end, 1 when the query failed, 2 when the input was wrong.
    """
    options = parser().parse_args(argv)
    stop = threading.Event()
    try:
        settings = settings_of(options)
        with session(settings, options.master, options.jars, dict(options.conf)) as spark:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: stop.set())
            run(settings, spark, stop=stop)
    except RheostatError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def settings_of(options: argparse.Namespace) -> ClickFraudSettings:
    """The settings that the options of the program ask for.

    Raises:
        InputError: every setting that is wrong.
    """
    return ClickFraudSettings(**{field.name: getattr(options, field.name) for field in fields(ClickFraudSettings)})


def parser() -> argparse.ArgumentParser:
    """The options of the program: one for each setting, and those of the session."""
    made = argparse.ArgumentParser(prog="python -m rheostat.pipelines.click_fraud", description="Count click fraud.")
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
    add("--lookup-ms", type=float, default=2.0, help="wait of each record, in milliseconds (default: 2)")
    add("--fetch-wait-ms", type=int, help="longest wait for further records in Kafka, in ms (default: the consumer's)")
    add("--shuffle-partitions", type=int, default=2, help="tasks of the aggregation (default: 2)")
    add("--distinct-error", type=float, default=0.1, help="relative error of the distinct counts (default: 0.1)")
    add("--lateness", type=parse_seconds, dest="lateness_s", default=600.0, help="watermark (default: 10min)")
    add("--window", type=parse_seconds, dest="window_s", default=60.0, help="length of the windows (default: 60s)")
    add("--query-name", default="click_fraud", help="name of the query (default: click_fraud)")
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


if __name__ == "__main__":
    sys.exit(main())
