"""What takes time in vain, as a real Spark tells it: a query that fails, garbage collection, data read anew."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.cluster.slowed import session
from tests.cluster.support import Load, until, worker

from rheostat.analyze.assess import analyze
from rheostat.analyze.state import AnalysisSettings, AnalysisState
from rheostat.host.java import kafka_connector_jars
from rheostat.lab.lab import Lab
from rheostat.model import Assessment, Observation
from rheostat.observe.driver import DriverSource

pytestmark = pytest.mark.cluster

ROWS = 300_000
"""Of the table: far more than a batch has."""


@pytest.fixture(scope="module")
def spark(field: Lab) -> Iterator[SparkSession]:
    conf = {"spark.ui.port": "0", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2"}
    with session(field, "causes", conf, kafka_connector_jars()) as made:
        yield made


class Watcher:
    """Looks at the application, twice a second."""

    def __init__(self, spark: SparkSession) -> None:
        self._source, self._state = DriverSource(spark), AnalysisState()
        self.observation = Observation(0.0)

    def look(self) -> Assessment:
        time.sleep(0.5)
        settings = AnalysisSettings(objective_lag_s=10.0, rate_window_s=5.0)
        self.observation = self._source.observe(time.time())
        assessment, self._state = analyze(self.observation, self._state, settings)
        return assessment

    def close(self) -> None:
        self._source.close()


@pytest.fixture
def watcher(spark: SparkSession) -> Iterator[Watcher]:
    made = Watcher(spark)
    yield made
    made.close()


def kafka(spark: SparkSession, lab: Lab, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": lab.broker.bootstrap, "startingOffsets": "earliest", "subscribe": topic}
    return spark.readStream.format("kafka").options(**options).option("maxOffsetsPerTrigger", 1000).load()


def refuse(_: DataFrame, batch_id: int) -> None:
    """Fail, but not before the run was looked at."""
    time.sleep(3.0)
    raise ValueError(f"boom in {batch_id}")


def test_a_query_that_fails_and_is_started_again_is_named(
    spark: SparkSession, field: Lab, watcher: Watcher, tmp_path: Path
) -> None:
    field.broker.create_topic("poisoned", 2)
    load = Load(field, "poisoned")
    load.rate(50)
    seen = list[Assessment]()

    def note(assessment: Assessment) -> bool:
        seen.append(assessment)
        return False

    with worker(field, cores=1):
        for _ in range(4):
            stream = kafka(spark, field, "poisoned").writeStream.queryName("orders").foreachBatch(refuse)
            query = stream.option("checkpointLocation", str(tmp_path / "cp")).trigger(processingTime="1 second").start()
            until(lambda: not note(watcher.look()) and not query.isActive, "the failure")  # noqa: B023
            with suppress(StreamingQueryException):
                query.awaitTermination(1)
        last = watcher.look()
    load.end()
    (text,) = last.failing
    assert re.match(r"the query orders has failed [23] times in a row, in one of its first 5 batches \(", text), text
    assert "ValueError: boom in 0" in text
    assert seen[0].failing == ()
    assert last.queries == 0


def test_a_table_that_each_batch_reads_anew_is_named_and_garbage_collection_is_part_of_the_task_time(
    spark: SparkSession, field: Lab, watcher: Watcher, tmp_path: Path
) -> None:
    field.broker.create_topic("joined", 2)
    load = Load(field, "joined")
    with worker(field, cores=1):
        spark.range(ROWS).selectExpr("cast(id as string) as key", "uuid() as value").write.parquet(str(tmp_path / "t"))
        table = spark.read.parquet(str(tmp_path / "t"))
        load.rate(50)
        stream = kafka(spark, field, "joined").selectExpr("cast(key as string) as key").join(table, "key")
        sink = (
            stream.writeStream.queryName("enriched").format("noop").option("checkpointLocation", str(tmp_path / "cp"))
        )
        query = sink.trigger(processingTime="1 second").start()
        try:
            until(lambda: watcher.look().reread is not None, "the table to be named")
            cluster = watcher.observation.cluster
            last = watcher.look()
        finally:
            query.stop()
    load.end()
    assert last.reread is not None
    assert f"each batch of the query enriched reads {ROWS:,}".replace(",", " ") in last.reread
    assert last.reread_share is not None
    assert 0.25 < last.reread_share <= 1
    assert cluster is not None
    (gc_s,), (busy_s,) = cluster.gc_s, cluster.busy_s
    assert gc_s is not None
    assert busy_s is not None
    assert 0 < gc_s < busy_s
