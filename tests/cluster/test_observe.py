"""What is seen from inside a real driver, and from outside, with a real Kafka and real executors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.cluster.support import worker
from tests.observe import contract

from rheostat.attachment import query_refusals
from rheostat.errors import RefusedError
from rheostat.host.java import kafka_connector_jars
from rheostat.lab.broker import quiet_client
from rheostat.lab.lab import Lab
from rheostat.load.log_writer import LogWriter
from rheostat.model import Observation, PartitionOffsets, QueryReading
from rheostat.observe.driver import DriverSource
from rheostat.observe.rest import OutsideQuery, RestSource
from rheostat.pipelines.click_fraud import session
from rheostat.pipelines.running import ClickFraudSettings
from rheostat.spark.jvm import DriverJvm, session_facts
from rheostat.spark.kafka_options import FORMAT
from rheostat.spark.kafka_source import register as register_kafka
from rheostat.spark.kafka_topics import KafkaTopics
from rheostat.spark.levers import SparkLevers
from rheostat.spark.log_source import register

pytestmark = pytest.mark.cluster

TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def lab(field: Lab) -> Iterator[Lab]:
    with worker(field, cores=1):
        yield field


@pytest.fixture(scope="module")
def spark(lab: Lab) -> Iterator[SparkSession]:
    settings = ClickFraudSettings(source="log", log="-", checkpoint="c", out="o")
    conf = {"spark.ui.port": "0", "spark.ui.showConsoleProgress": "false", "spark.cores.max": "1"}
    conf |= {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
    with session(settings, lab.cluster.url, [str(jar) for jar in kafka_connector_jars()], conf) as made:
        made.sparkContext.setLogLevel("OFF")
        register(made)
        yield made


class Gate:
    """A batch function that holds each batch until it is let through."""

    def __init__(self) -> None:
        self.open = threading.Event()

    def __call__(self, rows: DataFrame, batch_id: int) -> None:  # noqa: ARG002 (Spark's)
        rows.count()
        self.open.wait(TIMEOUT_S)


class Watcher:
    """A source that is asked until it says what is waited for. ``told``: ids of the batches, as they were told."""

    def __init__(self, source: DriverSource) -> None:
        self.source = source
        self.told: list[int] = []

    def look(self) -> Observation:
        seen = contract.looks(self.source, time.time())
        for query in seen.queries:
            ids = [batch.batch_id for batch in (*query.ended, *([] if query.batch is None else [query.batch]))]
            self.told += [number for number in ids if number not in self.told[-1:]]
        return seen

    def until(self, condition: Callable[[Observation], object], what: str) -> Observation:
        deadline = time.monotonic() + TIMEOUT_S
        while not condition(seen := self.look()):
            assert time.monotonic() < deadline, f"waited for: {what}; last seen: {seen}"
            time.sleep(0.05)
        return seen


@pytest.fixture
def watcher(spark: SparkSession) -> Iterator[Watcher]:
    source = DriverSource(spark, timeout_s=1.0)
    yield Watcher(source)
    contract.closes(source)


@contextmanager
def streaming(
    stream: DataFrame, gate: Gate, checkpoint: Path, *, ends: bool = False, **options: str
) -> Iterator[StreamingQuery]:
    """The stream into a gate, as a query that is stopped at the end, or ``ends`` by itself."""
    writer = stream.writeStream.foreachBatch(gate).options(checkpointLocation=str(checkpoint), **options)
    writer = writer.queryName(checkpoint.name)
    query = (writer.trigger(availableNow=True) if ends else writer.trigger(processingTime="0 seconds")).start()
    try:
        yield query
    finally:
        gate.open.set()
        query.stop()


def append(log: Path, records: int) -> None:
    with LogWriter(log, 1) as writer:
        writer.append(0, ["x"] * records, time.time())


def log_stream(spark: SparkSession, log: Path) -> DataFrame:
    options = {"path": str(log), "startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"}
    return spark.readStream.format("rheostat_log").options(**options).load()


def only(seen: Observation) -> QueryReading:
    assert len(seen.queries) == 1, seen
    return seen.queries[0]


def first(seen: Observation) -> PartitionOffsets | None:
    """The first partition of the only query, or None."""
    offsets = seen.queries[0].offsets if seen.queries else None
    return offsets.partitions[0] if offsets is not None and offsets.partitions else None


def stands(seen: Observation) -> tuple[int | None, int | None, int | None] | None:
    """Latest, planned, committed of the first partition."""
    found = first(seen)
    return None if found is None else (found.latest, found.planned, found.committed)


def test_in_overload_the_backlog_is_current_although_no_batch_ends(
    spark: SparkSession, watcher: Watcher, tmp_path: Path
) -> None:
    log, gate = tmp_path / "log", Gate()
    append(log, 250)
    with streaming(log_stream(spark, log), gate, tmp_path / "overload"):
        watcher.until(lambda seen: stands(seen) == (250, 100, 0), "the first batch in flight")
        for latest in (1250, 2250):
            append(log, 1000)
            seen = watcher.look()
            assert stands(seen) == (latest, 100, 0)
            reading = only(seen)
            assert reading.batch is None
            assert reading.running is not None
            assert (reading.running.active, reading.running.batch_id) == (True, 0)
            assert reading.running.since is not None
            assert 0 <= seen.at - reading.running.since < TIMEOUT_S

        gate.open.set()
        watcher.until(lambda seen: stands(seen) == (2250, 2250, 2250), "everything committed")
        seen = watcher.until(lambda _: watcher.told[-1:] == [22], "the last batch")

        assert watcher.told == list(range(23)), "each batch once, those between two looks too"

    reading = only(seen)
    assert reading.batch is not None
    assert reading.batch.records is not None
    assert 0 < reading.batch.records <= 100
    assert reading.batch.offsets == (reading.batch.records,)
    assert reading.batch.at <= seen.at + 1
    assert reading.trigger_s == 0
    assert [(found.kind, found.partitions, found.batch_cap) for found in reading.sources] == [("log", 1, 100)]


def test_committed_is_right_after_a_restart_from_a_checkpoint_before_any_progress(
    spark: SparkSession, watcher: Watcher, tmp_path: Path
) -> None:
    log, checkpoint, gate = tmp_path / "log", tmp_path / "restart", Gate()
    gate.open.set()
    append(log, 100)
    with streaming(log_stream(spark, log), gate, checkpoint):
        watcher.until(lambda seen: stands(seen) == (100, 100, 100), "the first batch committed")
        gate.open.clear()
        append(log, 100)
        before = only(watcher.until(lambda seen: stands(seen) == (200, 200, 100), "the second in flight"))

    append(log, 50)
    gate.open.clear()
    with streaming(log_stream(spark, log), gate, checkpoint):
        seen = watcher.until(lambda seen: stands(seen) == (250, 200, 100), "the second in flight again")

    after = only(seen)
    assert after.batch is None
    assert (after.query_id == before.query_id, after.run_id == before.run_id) == (True, False)


def test_a_failed_query_says_why_until_it_is_started_again_and_one_that_ended_vanishes(
    spark: SparkSession, watcher: Watcher, tmp_path: Path
) -> None:
    log, checkpoint, gate = tmp_path / "log", tmp_path / "failing", Gate()
    append(log, 10)

    def fails(rows: DataFrame, batch_id: int) -> None:
        gate(rows, batch_id)
        message = "boom"
        raise ValueError(message)

    writer = log_stream(spark, log).writeStream.option("checkpointLocation", str(checkpoint))
    query = writer.foreachBatch(fails).start()
    watcher.until(lambda seen: stands(seen) == (10, 10, 0), "the batch in flight")
    gate.open.set()
    seen = watcher.until(lambda seen: seen.queries and seen.queries[0].failed_because, "the failure")
    assert not query.isActive
    assert str(only(seen).failed_because).endswith("ValueError: boom")

    with streaming(log_stream(spark, log), gate, checkpoint):
        watcher.until(lambda seen: stands(seen) == (10, 10, 10), "the query started again")
        assert only(watcher.look()).failed_because is None
    watcher.until(lambda seen: not seen.queries, "no query")


def test_sources_whose_records_cannot_be_counted_are_a_gap(
    spark: SparkSession, watcher: Watcher, tmp_path: Path
) -> None:
    gate = Gate()
    gate.open.set()
    with streaming(spark.readStream.format("rate").load(), gate, tmp_path / "rate"):
        seen = watcher.until(lambda seen: seen.queries and seen.queries[0].batch is not None, "a batch")

    assert only(seen).offsets is None
    assert only(seen).uncountable == "rate"
    assert [gap.why for gap in seen.gaps] == ["the source 'rate' does not tell how many records wait in it"]


def test_a_query_that_ends_by_itself_is_told_by_its_trigger(
    spark: SparkSession, watcher: Watcher, tmp_path: Path
) -> None:
    gate, log = Gate(), tmp_path / "log"
    append(log, 10)
    with streaming(log_stream(spark, log), gate, tmp_path / "ends", ends=True):
        seen = watcher.until(lambda seen: seen.queries and seen.queries[0].running is not None, "the batch in flight")
        assert (only(seen).uncountable, only(seen).offsets) == ("available-now", None)
        assert [gap.why for gap in seen.gaps if gap.section == "offsets"] == [
            "the query ends by itself when it has caught up: it is not measured"
        ]
        (fault,) = query_refusals(watcher.source.plans(), seen, 20.0)
        assert fault.field == "queries.ends.trigger"


def test_only_wanted_queries_are_seen_and_those_of_other_sessions_are(spark: SparkSession, tmp_path: Path) -> None:
    gate = Gate()
    gate.open.set()
    one, other = (each.readStream.format("rate").load() for each in (spark, spark.newSession()))
    with streaming(one, gate, tmp_path / "one") as query, streaming(other, gate, tmp_path / "other"):
        names = {
            wanted and str(wanted[0]): sorted(str(plan.name) for plan in DriverSource(spark, wanted).plans())
            for wanted in (None, ["other"], [query])
        }
    assert list(names.values()) == [["one", "other"], ["other"], ["one"]]


@dataclass(frozen=True)
class KafkaStreams:
    """Streams of Kafka, from Spark's own source or from ours."""

    spark: SparkSession
    lab: Lab
    form: str

    def __call__(self, **options: Any) -> DataFrame:
        known = {"kafka.bootstrap.servers": self.lab.broker.bootstrap, "startingOffsets": "earliest"}
        return self.spark.readStream.format(self.form).options(**(known | options)).load()

    def name(self, topic: str) -> str:
        """The name of a topic for this source alone."""
        return f"{topic}-of-{self.form}"


@pytest.fixture(params=["kafka", FORMAT])
def kafka_stream(request: pytest.FixtureRequest, spark: SparkSession, lab: Lab) -> KafkaStreams:
    register_kafka(spark)
    return KafkaStreams(spark, lab, request.param)


@pytest.fixture
def topic(lab: Lab, kafka_stream: KafkaStreams, request: pytest.FixtureRequest) -> Iterator[Callable[[int], None]]:
    """A topic with two partitions, and what fills its first one."""
    name = kafka_stream.name(request.node.originalname[:60])
    lab.broker.create_topic(name, 2)
    producer = Producer({"bootstrap.servers": lab.broker.bootstrap})

    def send(records: int) -> None:
        for _ in range(records):
            producer.produce(name, b"x", partition=0)
        assert producer.flush(TIMEOUT_S) == 0

    send.name = name  # type: ignore[attr-defined]
    yield send
    producer.flush(1)


def test_kafka_in_overload_from_inside_and_outside(
    spark: SparkSession, lab: Lab, kafka_stream: KafkaStreams, watcher: Watcher, topic: Any, tmp_path: Path
) -> None:
    gate = Gate()
    topic(50)
    stream = kafka_stream(subscribe=topic.name, maxOffsetsPerTrigger=20, **{"kafka.ssl.key.password": "hush"})
    outside = RestSource(
        str(spark.sparkContext.uiWebUrl),
        timeout_s=TIMEOUT_S,
        queries=[OutsideQuery(tmp_path / "kafka", kafka=KafkaTopics({"bootstrap.servers": lab.broker.bootstrap}))],
    )
    with streaming(stream, gate, tmp_path / "kafka"):
        watcher.until(lambda seen: stands(seen) == (50, 20, 0), "the first batch in flight")
        topic(30)
        inside = watcher.look()
        from_outside = contract.looks(outside, time.time())
    contract.closes(outside)

    assert stands(inside) == stands(from_outside) == (80, 20, 0)
    assert only(inside).offsets == _dated(only(from_outside), only(inside))
    (source,) = only(inside).sources
    assert (source.kind, source.name, source.partitions, source.batch_cap) == (kafka_stream.form, topic.name, 2, 20)
    assert "hush" not in repr(inside)
    assert [_of(inside), _of(inside)] == [_of(from_outside), [("0", 1)]]


def _dated(reading: QueryReading, like: QueryReading) -> object:
    assert reading.offsets is not None
    assert like.offsets is not None
    return replace(reading.offsets, at=like.offsets.at, exact=True, inexact_because=None)


def _of(seen: Observation) -> list[tuple[str, int]]:
    assert seen.cluster is not None
    return [(found.executor_id, found.cores) for found in seen.cluster.executors]


def test_a_broker_that_is_silent_is_a_gap_soon_and_seen_again_when_it_answers(
    lab: Lab, kafka_stream: KafkaStreams, watcher: Watcher, topic: Any, tmp_path: Path
) -> None:
    gate = Gate()
    topic(5)
    with streaming(kafka_stream(subscribe=topic.name), gate, tmp_path / "silent"):
        watcher.until(lambda seen: stands(seen) == (5, 5, 0), "the batch in flight")
        lab.broker.pause()
        try:
            began = time.monotonic()
            seen = watcher.look()
            took = time.monotonic() - began
        finally:
            lab.broker.resume()
        assert took < 3.0
        assert only(seen).offsets is None
        assert only(seen).running is not None
        assert [(gap.section, "asking Kafka" in gap.why) for gap in seen.gaps if gap.section != "batch"] == [
            ("offsets", True)
        ]
        assert seen.cluster is not None
        watcher.until(lambda seen: stands(seen) == (5, 5, 0), "the broker's answer")


def test_new_partitions_of_a_pattern_are_seen_with_nothing_committed(
    spark: SparkSession, lab: Lab, kafka_stream: KafkaStreams, topic: Any, tmp_path: Path
) -> None:
    gate = Gate()
    topic(5)
    with streaming(kafka_stream(subscribePattern=topic.name + ".*"), gate, tmp_path / "pattern"):
        watcher = Watcher(DriverSource(spark))
        watcher.until(lambda seen: stands(seen) == (5, 5, 0), "the batch in flight")
        admin = quiet_client(lab.broker.bootstrap)
        admin.create_partitions([NewPartitions(topic.name, 3)])[topic.name].result(TIMEOUT_S)
        seen = watcher.until(lambda seen: (only(seen).sources[0].partitions or 0) == 3, "the third partition")
        watcher.source.close()

    offsets = only(seen).offsets
    assert offsets is not None
    assert offsets.partitions[2] == PartitionOffsets(topic.name, 2, latest=0, planned=0, committed=0)
    assert offsets.exact


def test_offsets_under_transactions_are_not_called_exact(
    lab: Lab, kafka_stream: KafkaStreams, watcher: Watcher, topic: Any, tmp_path: Path
) -> None:
    gate = Gate()
    topic(5)
    stream = kafka_stream(subscribe=topic.name, **{"kafka.isolation.level": "read_committed"})
    producer = Producer({"bootstrap.servers": lab.broker.bootstrap, "transactional.id": topic.name})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    with streaming(stream, gate, tmp_path / "transactions"):
        watcher.until(lambda seen: stands(seen) == (5, 5, 0), "the batch in flight")
        producer.produce(topic.name, b"y", partition=0)
        producer.flush(TIMEOUT_S)
        open_yet = watcher.look()
        producer.commit_transaction(TIMEOUT_S)
        seen = watcher.until(lambda seen: stands(seen) == (7, 5, 0), "the record and the mark of the transaction")

    assert stands(open_yet) == (5, 5, 0)
    offsets = only(seen).offsets
    assert offsets is not None
    assert (offsets.exact, offsets.inexact_because) == (False, "transactions")


def test_the_facts_of_a_session_and_the_refusal_of_one_without_a_jvm(spark: SparkSession, lab: Lab) -> None:
    facts = session_facts(spark)
    assert (facts.connect, facts.master, facts.deploy) == (False, lab.cluster.url, "standalone")
    assert (facts.dynamic_allocation, facts.cores_max, facts.executor_cores) == (False, 1, 1)
    assert facts.spark_version == spark.version

    class SparkConnect:
        __module__ = "pyspark.sql.connect.session"

    connect: Any = SparkConnect()
    assert session_facts(connect).connect
    with pytest.raises(RefusedError, match="Spark Connect"):
        DriverJvm(connect)


def test_an_executor_that_is_being_removed_is_no_longer_seen(spark: SparkSession) -> None:
    """The last test of this file: the session has no executors afterwards."""
    levers = SparkLevers(spark)
    watcher = Watcher(DriverSource(spark, requested=lambda: 0))
    watcher.until(lambda seen: _of(seen) == [("0", 1)] and levers.idle(), "an idle executor")

    levers.request_total(0)
    assert levers.kill_idle(["0"]) == ("0",)

    seen = watcher.look()
    assert levers.listed() == ("0",)
    assert _of(seen) == []
    assert seen.cluster is not None
    assert seen.cluster.requested == 0
