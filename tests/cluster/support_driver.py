"""A driver for tests: the click-fraud pipeline with the autoscaler, whose view of the world can be spoilt from outside.

``support_driver.py JOB.json``; for what is in the file see :class:`support.Job`. SIGTERM ends it between two batches.
"""

from __future__ import annotations

import json
import math
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from rheostat.attachment import Attachment, attach
from rheostat.model import Gap, Observation, QueryReading
from rheostat.observe.driver import DriverSource
from rheostat.pipelines import click_fraud
from rheostat.pipelines.running import ClickFraudSettings

OLD_S = 60.0


def each_query(change: Callable[[QueryReading], QueryReading]) -> Callable[[Observation], Observation]:
    return lambda seen: replace(seen, queries=tuple(change(query) for query in seen.queries))


def without_offsets(seen: Observation) -> Observation:
    gaps = tuple(Gap("offsets", "taken away by the test", query.query_id) for query in seen.queries)
    return replace(each_query(lambda query: replace(query, offsets=None))(seen), gaps=seen.gaps + gaps)


def without_executors(seen: Observation) -> Observation:
    return replace(seen, cluster=None, gaps=(*seen.gaps, Gap("cluster", "taken away by the test")))


def aged(query: QueryReading) -> QueryReading:
    offsets = query.offsets
    return query if offsets is None else replace(query, offsets=replace(offsets, at=offsets.at - OLD_S))


def not_a_number(query: QueryReading) -> QueryReading:
    batch = query.batch
    return query if batch is None else replace(query, batch=replace(batch, planning_s=math.nan, duration_s=math.nan))


def dead(_: Observation) -> Observation:
    sys.exit("the thread is killed by the test")


SPOILT: Mapping[str, Callable[[Observation], Observation]] = {
    "no offsets": without_offsets,
    "no executors": without_executors,
    "old offsets": each_query(aged),
    "NaN": each_query(not_a_number),
    "thread killed": dead,
}


class SpoiltSource:
    """The real source; what it sees is changed in the way that a file names. A kill happens once."""

    def __init__(self, source: DriverSource, order: Path) -> None:
        self._source, self._order = source, order

    def observe(self, at: float) -> Observation:
        seen = self._source.observe(at)
        order = self._order.read_text() if self._order.exists() else ""
        if order == "thread killed":
            self._order.unlink()
        return SPOILT[order](seen) if order else seen

    def close(self) -> None:
        self._source.close()


def main(path: str) -> None:
    job: dict[str, Any] = json.loads(Path(path).read_text())
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    attached: list[Attachment] = []

    def on_session(spark: SparkSession) -> None:
        source = SpoiltSource(DriverSource(spark, timeout_s=1.0), Path(job["order"]))
        attached.append(attach(spark, sources=[source], config=job["settings"]))

    pipeline = ClickFraudSettings(**job["pipeline"])
    with click_fraud.session(pipeline, job["conf"]["spark.master"], [], job["conf"]) as spark:
        try:
            click_fraud.run(pipeline, spark, on_session=on_session, stop=stop)
        finally:
            for attachment in attached:
                attachment.stop()


if __name__ == "__main__":
    main(sys.argv[1])
