"""Slots and work of a batch on a real Spark: tasks of two CPUs, minPartitions, and foreachBatch that names its jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from tests.cluster.support import worker
from tests.observe import contract

from rheostat.analyze.assess import analyze
from rheostat.analyze.state import AnalysisSettings, AnalysisState
from rheostat.host.java import kafka_connector_jars
from rheostat.lab.lab import Lab
from rheostat.model import Assessment, Batch
from rheostat.observe.driver import DriverSource
from rheostat.pipelines.click_fraud import session
from rheostat.pipelines.running import ClickFraudSettings

pytestmark = pytest.mark.cluster

TIMEOUT_S = 60.0
TOPIC, PARTITIONS, TASKS, RECORDS = "slots", 2, 6, 600
SETTINGS = AnalysisSettings(objective_lag_s=30.0)


@pytest.fixture(scope="module")
def lab(field: Lab) -> Iterator[Lab]:
    field.broker.create_topic(TOPIC, PARTITIONS)
    producer = Producer({"bootstrap.servers": field.broker.bootstrap})
    for number in range(RECORDS):
        producer.produce(TOPIC, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0
    with worker(field, cores=4):
        yield field


@pytest.fixture(scope="module")
def spark(lab: Lab) -> Iterator[SparkSession]:
    settings = ClickFraudSettings(source="log", log="-", checkpoint="c", out="o")
    conf = {"spark.ui.port": "0", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "3"}
    conf |= {"spark.executor.memory": "512m", "spark.executor.cores": "4", "spark.task.cpus": "2"}
    with session(settings, lab.cluster.url, [str(jar) for jar in kafka_connector_jars()], conf) as made:
        made.sparkContext.setLogLevel("OFF")
        yield made


@contextmanager
def one_batch(
    spark: SparkSession, lab: Lab, write: Callable[[DataFrame, int], None], checkpoint: Path
) -> Iterator[tuple[Batch, Assessment]]:
    """The first batch of a query that reads the topic in more tasks than partitions, and what is made of it."""
    options = {"kafka.bootstrap.servers": lab.broker.bootstrap, "subscribe": TOPIC, "startingOffsets": "earliest"}
    stream = spark.readStream.format("kafka").options(**options, minPartitions=str(TASKS)).load()
    writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    query, source = writer.start(), DriverSource(spark, timeout_s=2.0)
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            seen = contract.looks(source, time.time())
            if seen.queries and (batch := seen.queries[0].batch) is not None and seen.cluster is not None:
                break
            assert time.monotonic() < deadline, f"waited for a batch; last seen: {seen}"
            time.sleep(0.1)
        yield batch, analyze(seen, AnalysisState(), SETTINGS)[0]
    finally:
        query.stop()
        contract.closes(source)


def count_twice(rows: DataFrame) -> None:
    rows.count()
    rows.groupBy("partition").count().collect()


def test_tasks_of_two_cpus_and_more_tasks_than_partitions(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    """Six tasks on executors of four cores and two CPUs a task: three executors are of use."""

    def write(rows: DataFrame, _: int) -> None:
        rows.count()

    with one_batch(spark, lab, write, tmp_path) as (batch, assessment):
        assert batch.records == RECORDS
        assert batch.stages[0].tasks == TASKS
        assert (assessment.partitions, assessment.tasks) == (PARTITIONS, TASKS)
        assert (assessment.slots_per_executor, assessment.cores_per_executor) == (2, 4)
        assert assessment.useful_executors == 3


def test_a_foreach_batch_that_describes_its_jobs(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    def write(rows: DataFrame, _: int) -> None:
        rows.sparkSession.sparkContext.setJobDescription("nightly merge")
        count_twice(rows)

    with one_batch(spark, lab, write, tmp_path) as (batch, assessment):
        assert batch.work_s is not None
        assert [stage.tasks for stage in batch.stages].count(TASKS) == 2
        assert assessment.tasks == TASKS


def test_two_actions_in_threads_are_unknown_work_and_no_sick_sink(
    spark: SparkSession, lab: Lab, tmp_path: Path
) -> None:
    """The job of the batch itself is seen: it must not pass for all of the work."""

    def write(rows: DataFrame, _: int) -> None:
        rows.limit(1).count()
        threads = [Thread(target=count_twice, args=(rows,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with one_batch(spark, lab, write, tmp_path) as (batch, assessment):
        assert (batch.work_s, batch.stages) == (None, ())
        assert (assessment.tasks, assessment.sink) == (None, None)
