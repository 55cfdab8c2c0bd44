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

As a program: ``python -m rheostat.pipelines.taxi_attractions --help``. SIGTERM and SIGINT, sent to the Python process,
end it at the next boundary between two batches.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rheostat.pipelines.click_fraud import make_wait
from rheostat.pipelines.running import (
    TaxiSettings,
    base_conf,
    make_parser,
    open_session,
    run_program,
    run_query,
    start_query,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


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
    found = (
        _parse(records)
        .withColumn("nearest", nearest)
        .withColumn("attraction", F.col("nearest.name"))
        .withColumn("attraction_distance", F.sqrt("nearest.squared"))
        .drop("nearest")
    )
    return found.mapInArrow(make_wait(settings.lookup_ms), found.schema) if settings.lookup_ms else found


def _candidate(place: Attraction) -> Column:
    """An attraction with its squared distance first, so that the smallest candidate is the nearest attraction."""
    from pyspark.sql import functions as F  # noqa: N812

    squared = squared_distance(F.col("pickup_longitude"), F.col("pickup_latitude"), place)
    return F.struct(squared.alias("squared"), F.lit(place.name).alias("name"))


def _parse(records: DataFrame) -> DataFrame:
    """Records with an id and a pickup on earth; the others are counted, and left out."""
    from pyspark.sql import functions as F  # noqa: N812

    parsed = records.select(F.from_json("value", _JSON).alias("r")).select("r.*")
    on_earth = F.col("pickup_longitude").between(-180, 180) & F.col("pickup_latitude").between(-90, 90)
    whole = F.coalesce(F.isnotnull("id") & on_earth, F.lit(False))  # noqa: FBT003 (a column of it)
    observed = parsed.observe("records", F.count(F.lit(1)).alias("records"), F.count_if(~whole).alias("malformed"))
    return observed.filter(whole)


def start(settings: TaxiSettings, spark: SparkSession) -> StreamingQuery:
    """Start the query and return at once, as :func:`~rheostat.pipelines.running.start_query`."""
    return start_query(settings, spark, partial(build, settings))


def run(
    settings: TaxiSettings,
    spark: SparkSession,
    on_session: Callable[[SparkSession], object] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Run the query until it ends or ``stop`` is set, as :func:`~rheostat.pipelines.running.run_query`."""
    run_query(partial(start, settings), spark, on_session, stop)


def session(
    settings: TaxiSettings, master: str, jars: Sequence[str], conf: dict[str, str]
) -> AbstractContextManager[SparkSession]:
    """A session for the pipeline, stopped on leaving. ``conf`` overrides the defaults."""
    return open_session(settings.query_name, master, jars, base_conf() | conf)


def parser() -> argparse.ArgumentParser:
    return make_parser("taxi_attractions", "Find the attraction nearest to each taxi trip.", TaxiSettings)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the pipeline as a program; returns the exit code of :func:`~rheostat.pipelines.running.run_program`."""
    return run_program(parser().parse_args(argv), TaxiSettings, session, start)


if __name__ == "__main__":
    sys.exit(main())
