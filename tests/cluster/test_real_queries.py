"""Several queries of one application, on a real Kafka and Spark: one is busy, others are idle or cannot be measured."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.cluster.slowed import session
from tests.cluster.support import Journal, Load, until, worker

import rheostat
from rheostat.analyze.assess import analyze
from rheostat.analyze.state import AnalysisSettings, AnalysisState
from rheostat.errors import RefusedError
from rheostat.host.java import kafka_connector_jars
from rheostat.lab.lab import Lab
from rheostat.model import Action, Assessment
from rheostat.observe.driver import DriverSource

pytestmark = pytest.mark.cluster

SLEEP = "java_method('java.lang.Thread', 'sleep', 5L)"
"""Five milliseconds of a slot for each record."""
SETTINGS = {"profile": "demo", "sample_s": 1.0}


@pytest.fixture(scope="module")
def spark(field: Lab) -> Iterator[SparkSession]:
    conf = {"spark.ui.port": "0", "spark.ui.showConsoleProgress": "false", "spark.locality.wait": "200ms"}
    with session(field, "queries", conf, kafka_connector_jars()) as made:
        yield made


def kafka(spark: SparkSession, lab: Lab, **options: str) -> DataFrame:
    known = {"kafka.bootstrap.servers": lab.broker.bootstrap, "startingOffsets": "earliest", "failOnDataLoss": "false"}
    return spark.readStream.format("kafka").options(**known, **options).load()


@contextmanager
def streaming(stream: DataFrame, folder: Path, name: str) -> Iterator[StreamingQuery]:
    sink = stream.writeStream.format("noop").queryName(name).option("checkpointLocation", str(folder / name))
    query = sink.trigger(processingTime="2 seconds").start()
    try:
        yield query
    finally:
        query.stop()


def last(journal: Journal) -> Assessment:
    cycles = journal.cycles()
    assert cycles
    assert cycles[-1].assessment is not None
    return cycles[-1].assessment


def asked_for(journal: Journal) -> int | None:
    """The executors that the last executed decision asked for."""
    return next((each.target for each in reversed(journal.decisions()) if each.acts), None)


def test_a_busy_query_is_scaled_up_and_down_beside_one_on_an_empty_topic_and_one_that_cannot_be_measured(
    spark: SparkSession, field: Lab, tmp_path: Path
) -> None:
    field.broker.create_topic("busy", 4)
    field.broker.create_topic("empty", 2)
    journal, load = Journal(tmp_path / "journal"), Load(field, "busy")
    with ExitStack() as stack:
        stack.enter_context(worker(field, cores=2))
        attachment = rheostat.attach(
            spark, objective="lag < 10s", executors=(1, 2), journal=journal.folder, config=SETTINGS
        )
        stack.enter_context(attachment)
        busy = kafka(spark, field, subscribe="busy", maxOffsetsPerTrigger="1200").selectExpr(SLEEP)
        stack.enter_context(streaming(busy, tmp_path, "busy"))
        stack.enter_context(streaming(kafka(spark, field, subscribe="empty"), tmp_path, "empty"))
        stack.enter_context(streaming(spark.readStream.format("rate").load(), tmp_path, "ticks"))
        journal.until(lambda: last(journal).queries == 3 and not last(journal).missing, "figures of the three")
        journal.until(lambda: asked_for(journal) == 1 and journal.executors() == 1, "one executor at the start")
        load.rate(260)
        journal.until(lambda: asked_for(journal) == 2 and journal.executors() == 2, "a second one for the busy query")
        load.end()
        journal.until(lambda: asked_for(journal) == 1 and journal.executors() == 1, "one executor without input")
        journal.until(lambda: last(journal).idle, "the measured queries to be known as idle")

    seen = [cycle.assessment for cycle in journal.cycles() if cycle.assessment is not None and cycle.assessment.queries]
    assert {(each.query, each.source) for each in seen[-1].unmeasured} == {("ticks", "rate")}
    acted = [decision.action for decision in journal.decisions() if decision.acts]
    assert acted.count(Action.DOWN) >= 1
    up = next(each.at for each in journal.decisions() if each.action is Action.UP and each.target == 2 and each.acts)
    known = [each for each in seen if each.at >= up]
    assert not [each.missing for each in known if each.missing]


def test_an_application_whose_only_query_cannot_be_measured_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with streaming(spark.readStream.format("rate").load(), tmp_path, "alone"), pytest.raises(RefusedError) as caught:
        rheostat.attach(spark, objective="lag < 10s", executors=(1, 2))

    (fault,) = caught.value.faults
    assert (fault.field, fault.given) == ("queries.alone.source", "rate")


def test_topics_that_come_and_go_under_a_pattern_leave_the_figures_known(
    spark: SparkSession, field: Lab, tmp_path: Path
) -> None:
    field.broker.create_topic("come-1", 1)
    admin = AdminClient({"bootstrap.servers": field.broker.bootstrap})
    source, state = DriverSource(spark), AnalysisState()
    seen = list[Assessment]()

    def look() -> Assessment:
        nonlocal state
        time.sleep(0.5)
        settings = AnalysisSettings(objective_lag_s=10.0, rate_window_s=5.0)
        assessment, state = analyze(source.observe(time.time()), state, settings)
        seen.append(assessment)
        return assessment

    options = {"subscribePattern": "come-.*", "kafka.metadata.max.age.ms": "1000"}
    with worker(field, cores=1), streaming(kafka(spark, field, **options), tmp_path, "pattern"):
        until(lambda: look().partitions == 1 and not look().missing, "the first topic")
        began = len(seen)
        field.broker.create_topic("come-2", 2)
        until(lambda: look().partitions == 3, "the second topic")
        admin.delete_topics(["come-1"])["come-1"].result(10.0)
        until(lambda: look().partitions == 2, "the first topic to be gone")
        until(lambda: look().idle, "the query to be idle")
    source.close()
    assert [each.missing or each.invalid for each in seen[began:] if each.missing or each.invalid] == []
