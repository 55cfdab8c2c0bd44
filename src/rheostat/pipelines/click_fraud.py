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

Every output row carries the number of its records and sums over their ids, for the verification in
:mod:`rheostat.pipelines.sink`. Invalid records are left out and counted as ``malformed`` in the ``observedMetrics`` of
the progress events; records later than the watermark as ``numRowsDroppedByWatermark``.

As a program: ``python -m rheostat.pipelines.click_fraud --help``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from rheostat.load.payload import splitmix64_array
from rheostat.pipelines.running import ClickFraudSettings, Pipeline, TaxiDrivesSettings, base_conf, parse_seconds

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame


# The stage in Python, in which each record waits for its look-up

Stage = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]
"""A function for ``mapInArrow``."""

HALVES = ("id_low", "id_high", "mixed_low", "mixed_high")
"""Columns that the stage adds: id = id_high · 2³² + id_low (id_high is signed), and likewise for its
:func:`~rheostat.load.payload.splitmix64_array`."""


def split_halves(ids: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.int64]]:
    """The columns :data:`HALVES` of these ids."""
    import numpy as np

    mix = splitmix64_array(ids)
    return {
        "id_low": ids & 0xFFFFFFFF,
        "id_high": ids >> 32,
        "mixed_low": (mix & np.uint64(0xFFFFFFFF)).view(np.int64),
        "mixed_high": (mix >> np.uint64(32)).view(np.int64),
    }


def make_wait(lookup_ms: float, work_us: float = 0.0) -> Stage:
    """A stage that waits ``lookup_ms`` for each record, and uses ``work_us`` of processor time for it."""

    def wait(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.num_rows * lookup_ms / 1000)
            until = time.thread_time() + batch.num_rows * work_us / 1e6
            while time.thread_time() < until:
                pass
            yield batch

    return wait


def make_lookup(lookup_ms: float, work_us: float = 0.0) -> Stage:
    """:func:`make_wait`, and ``id`` is replaced by :data:`HALVES`."""

    def look_up(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(_replace_id, make_wait(lookup_ms, work_us)(batches))

    return look_up


def _replace_id(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    added = split_halves(batch.column("id").to_numpy())
    others = {name: batch.column(name) for name in batch.schema.names if name != "id"}
    return pa.RecordBatch.from_pydict(others | {name: pa.array(column) for name, column in added.items()})


# The query

_JSON = "id LONG, ip STRING, userID STRING, timestamp DOUBLE, eventType STRING"
_LOOKED_UP = "ip STRING, userID STRING, at TIMESTAMP, click INT, " + ", ".join(f"{name} LONG" for name in HALVES)


def spark_conf(settings: ClickFraudSettings | TaxiDrivesSettings) -> dict[str, str]:
    """Session settings for short batches with state.

    RocksDB holds the state, so that its partitions can be changed later; with the changelog a batch uploads only its
    changes. (Measured, two executors on two cores: no slower than Spark's default provider within the spread of the
    runs.) Batches without records are not run: in update mode they would only clean up, which the next batch with
    records does as well.
    """
    return base_conf() | {
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }


def build(settings: ClickFraudSettings, records: DataFrame) -> DataFrame:
    """The pipeline from a stream with the column ``value`` to its output rows.

    Columns: kind (``ip`` or ``user``), key, window_start, window_end, others (approximate number of different user ids
    or ips), clicks, displays, click_through_rate (null without a display), records, and the sums of :data:`HALVES`.
    """
    from pyspark.sql import functions as F  # noqa: N812

    records.sparkSession.conf.set("spark.sql.shuffle.partitions", settings.shuffle_partitions)
    keyed = (
        _parse(records)
        .mapInArrow(make_lookup(settings.lookup_ms), _LOOKED_UP)
        .select(
            F.explode(F.array(_keyed("ip", "ip", "userID"), _keyed("user", "userID", "ip"))).alias("row"),
            "at",
            "click",
            *HALVES,
        )
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


def _parse(records: DataFrame) -> DataFrame:
    """Records with all their fields; the others are counted, and left out."""
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


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--shuffle-partitions", type=int, help="tasks of the aggregation (default: %(default)s)")
    add("--distinct-error", type=float, help="relative error of the distinct counts (default: %(default)s)")
    add("--lateness", type=parse_seconds, dest="lateness_s", help="watermark (default: %(default)s s)")
    add("--window", type=parse_seconds, dest="window_s", help="length of the windows (default: %(default)s s)")


PIPELINE = Pipeline(
    "click_fraud", "Count click fraud.", ClickFraudSettings, conf=spark_conf, build=build, add_options=_add_options
)
start, run, session, main = PIPELINE.start, PIPELINE.run, PIPELINE.session, PIPELINE.main

if __name__ == "__main__":
    sys.exit(main())
