"""The taxi pipeline of S2's experiment, in PySpark: for each trip the nearest of three attractions.

Input: the JSON records of :mod:`rheostat.load.trips`, from Kafka through Spark's own source, or from the embedded
log. Output: each record with the columns ``attraction`` (the nearest to its pickup) and ``attraction_distance``.

**Euclidean in degrees**, as in the document: √(Δlongitude² + Δlatitude²). A degree of longitude counts like one of
latitude, though in New York it is a quarter shorter. The document does not name its three attractions; these are ours.
At equal distances the first by name is taken.

The query has no state and no exchange: a batch is one stage, with a task for each partition of the source. The
distances are column expressions; only a wait (``lookup_ms``) goes through Python.

Each record is written once, with its id, for :func:`~rheostat.pipelines.sink.verify_records`. Records without an id, or
whose pickup is not on earth, are left out and counted as ``malformed`` in the ``observedMetrics`` of the progress
events. Other invalid fields become null.

As a program: ``python -m rheostat.pipelines.taxi_attractions --help``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rheostat.pipelines.click_fraud import make_wait
from rheostat.pipelines.running import Pipeline, TaxiSettings, base_conf

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_JSON = (
    "id LONG, trip LONG, copy INT, pickup LONG, dropoff LONG, pickup_longitude DOUBLE, pickup_latitude DOUBLE, "
    "dropoff_longitude DOUBLE, dropoff_latitude DOUBLE, passengers INT, distance DOUBLE, timestamp DOUBLE"
)


class Attraction(NamedTuple):
    """A place, in degrees."""

    name: str
    longitude: float
    latitude: float


ATTRACTIONS = (
    Attraction("Central Park", -73.9654, 40.7829),
    Attraction("Statue of Liberty", -74.0445, 40.6892),
    Attraction("Times Square", -73.9855, 40.7580),
)


def squared_distance(longitude: Any, latitude: Any, place: Attraction) -> Any:
    """Δlongitude² + Δlatitude², for numbers and for columns alike.

    >>> round(squared_distance(-73.9855 + 0.003, 40.7580 - 0.004, ATTRACTIONS[2]) ** 0.5, 9)
    0.005
    """
    east, north = longitude - place.longitude, latitude - place.latitude
    return east * east + north * north


def build(settings: TaxiSettings, records: DataFrame) -> DataFrame:
    """The pipeline from a stream with the column ``value`` to its output: each record with the nearest attraction."""
    from pyspark.sql import functions as F  # noqa: N812

    nearest = F.array_min(F.array(*(_candidate(place) for place in ATTRACTIONS)))
    rows = (
        parse_trips(records.select("value"))
        .withColumn("nearest", nearest)
        .withColumn("attraction", F.col("nearest.name"))
        .withColumn("attraction_distance", F.sqrt("nearest.squared"))
        .drop("nearest")
    )
    return rows.mapInArrow(make_wait(settings.lookup_ms), rows.schema) if settings.lookup_ms else rows


def _candidate(place: Attraction) -> Column:
    """An attraction with its squared distance first, so that the smallest candidate is the nearest attraction."""
    from pyspark.sql import functions as F  # noqa: N812

    squared = squared_distance(F.col("pickup_longitude"), F.col("pickup_latitude"), place)
    return F.struct(squared.alias("squared"), F.lit(place.name).alias("name"))


def parse_trips(records: DataFrame, name: str = "records", needed: Sequence[str] = ("id",)) -> DataFrame:
    """Trips with the fields that are needed and a pickup on earth; the others are counted as ``name``, and left out."""
    from pyspark.sql import functions as F  # noqa: N812

    others = [column for column in records.columns if column != "value"]
    parsed = records.select(F.from_json("value", _JSON).alias("r"), *others).select("r.*", *others)
    whole = F.col("pickup_longitude").between(-180, 180) & F.col("pickup_latitude").between(-90, 90)
    for field in needed:
        whole = F.isnotnull(field) & whole
    whole = F.coalesce(whole, F.lit(False))  # noqa: FBT003 (a column of it)
    observed = parsed.observe(name, F.count(F.lit(1)).alias("records"), F.count_if(~whole).alias("malformed"))
    return observed.filter(whole)


PIPELINE = Pipeline(
    "taxi_attractions",
    "Find the attraction nearest to each taxi trip.",
    TaxiSettings,
    conf=lambda _: base_conf(),
    build=build,
)
start, run, session, main = PIPELINE.start, PIPELINE.run, PIPELINE.session, PIPELINE.main

if __name__ == "__main__":
    sys.exit(main())
