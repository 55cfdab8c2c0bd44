"""The application Taxi Drives of S3's evaluation, in PySpark: two topics, their union, a light sink and a heavy one.

::

    drives-1 > parse-1 ──┐           ┌── sink-1  trips and mean miles, by the cell in which they begin
                         ├── union ──┤
    drives-2 > parse-2 ──┘           └── sink-2  trips and mean miles/h, by the cell in which they end; costs more

Input: the JSON records of :mod:`rheostat.load.trips`; their ``id`` is different in both topics. Cells are a hundredth
of a degree. Both sinks count in event-time windows. Each has a query with its own read and its own offsets. Records are
dropped before the work of a sink.

The document names the operators, not what they compute: that is ours. Rows are those of
:func:`rheostat.pipelines.sink.verify`: kind (the sink), key (the cell), window_start, window_end, records, mean, and
the sums of :data:`~rheostat.pipelines.click_fraud.HALVES`. Trips without id, timestamp or a pickup on earth are left
out, and counted as ``malformed`` in the ``observedMetrics`` of the progress events.

As a program: ``python -m rheostat.pipelines.taxi_drives --help``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from rheostat.config.shedding import SheddingGraph, Sink, declare_shedding
from rheostat.pipelines.click_fraud import HALVES, make_lookup, spark_conf
from rheostat.pipelines.running import SheddingPipeline, TaxiDrivesSettings, read_stream
from rheostat.pipelines.taxi_attractions import parse_trips

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from rheostat.spark.shedding import Shedding

_LOOKED_UP = "at TIMESTAMP, key STRING, value DOUBLE, " + ", ".join(f"{name} LONG" for name in HALVES)


def declare(settings: TaxiDrivesSettings) -> SheddingGraph:
    """Where records may be dropped."""
    return declare_shedding(
        [
            Sink("sink-1", settings.priority_1, settings.accuracy_1),
            Sink("sink-2", settings.priority_2, settings.accuracy_2),
        ],
        {"drives-1": ["parse-1"], "drives-2": ["parse-2"]},
        {"parse-1": ["union"], "parse-2": ["union"], "union": ["sink-1", "sink-2"]},
    )


def build(settings: TaxiDrivesSettings, spark: SparkSession, shedding: Shedding | None) -> Mapping[str, DataFrame]:
    """The rows of ``sink-1`` and ``sink-2``."""
    from pyspark.sql import functions as F  # noqa: N812

    spark.conf.set("spark.sql.shuffle.partitions", settings.shuffle_partitions)
    miles_per_hour = F.try_divide(F.col("distance") * 3600, F.col("dropoff") - F.col("pickup"))
    light = _read_union(settings, spark, shedding, "sink-1").select("id", "at", _cell("pickup"), F.col("distance"))
    heavy = _read_union(settings, spark, shedding, "sink-2").select("id", "at", _cell("dropoff"), miles_per_hour)
    return {
        "sink-1": _count_cells(settings, light, "sink-1", 0.0, settings.light_us),
        "sink-2": _count_cells(settings, heavy, "sink-2", settings.lookup_ms, settings.work_us),
    }


def _read_union(settings: TaxiDrivesSettings, spark: SparkSession, shedding: Shedding | None, sink: str) -> DataFrame:
    """The trips of both topics that the edges up to a sink keep."""
    from pyspark.sql import functions as F  # noqa: N812

    inputs = []
    for number in (1, 2):
        source, task = f"drives-{number}", f"parse-{number}"
        own = replace(settings, topic=f"{settings.topic}-{number}", log=f"{settings.log}-{number}")
        options = None if shedding is None else shedding.source_options(source, task)
        trips = parse_trips(read_stream(own, spark, options), f"records-{number}", ("id", "timestamp"))
        trips = trips.withColumn("at", F.timestamp_millis((F.col("timestamp") * 1000).cast("long")))
        inputs.append(trips if shedding is None else shedding.shed(trips, task, "union"))
    if shedding is None:
        return inputs[0].unionByName(inputs[1])
    return shedding.shed(shedding.unite(inputs), "union", sink)


def _cell(place: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    hundredths = (F.floor(F.col(f"{place}_{axis}") * 100) for axis in ("longitude", "latitude"))
    return F.concat_ws(",", *(each.cast("string") for each in hundredths))


def _count_cells(
    settings: TaxiDrivesSettings, trips: DataFrame, sink: str, lookup_ms: float, work_us: float
) -> DataFrame:
    """Aggregate trips of the columns id, at, key and value, after the work that each of them costs."""
    from pyspark.sql import functions as F  # noqa: N812

    window = F.window("at", f"{settings.window_s} seconds").alias("window")
    sums = (F.sum(name).alias(name) for name in HALVES)
    return (
        trips.toDF("id", "at", "key", "value")
        .mapInArrow(make_lookup(lookup_ms, work_us), _LOOKED_UP)
        .withWatermark("at", f"{settings.lateness_s} seconds")
        .groupBy("key", window)
        .agg(F.count(F.lit(1)).alias("records"), F.avg("value").alias("mean"), *sums)
        .withColumns({"kind": F.lit(sink), "window_start": F.col("window.start"), "window_end": F.col("window.end")})
        .drop("window")
    )


PIPELINE = SheddingPipeline(
    "taxi_drives", "Count taxi trips in two sinks.", TaxiDrivesSettings, spark_conf, graph=declare, build=build
)
start_all, run, session, main = PIPELINE.start_all, PIPELINE.run, PIPELINE.session, PIPELINE.main

if __name__ == "__main__":
    sys.exit(main())
