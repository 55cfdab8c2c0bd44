"""The source ``rheostat-kafka`` beside Spark's own, on a real Kafka: equal rows, and orders that hold for a batch."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # it forgot to export them
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.cluster.kafka_support import (
    FORMATS,
    Collector,
    delete_topic,
    kafka_session,
    make_topic,
    offsets_of,
    options,
    order,
    read,
    send,
)
from tests.cluster.support import TIMEOUT_S, until

from rheostat.config.shedding import Sink, declare_shedding
from rheostat.errors import InputError
from rheostat.lab.broker import quiet_client
from rheostat.lab.lab import Lab
from rheostat.observe.driver import DriverSource
from rheostat.spark.kafka_offsets import plan_of
from rheostat.spark.kafka_topics import KafkaTopics
from rheostat.spark.keep import is_kept, seed_of
from rheostat.spark.shedding import Shedding

pytestmark = pytest.mark.cluster

_NUMBERS = count()


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    every_trigger = {"spark.sql.streaming.noDataProgressEventInterval": "100"}  # ms: each one is seen
    with kafka_session("kafka-source", **every_trigger) as session:
        yield session


@pytest.fixture
def topic(field: Lab) -> str:
    """A new topic of three partitions."""
    return make_topic(field, f"source-{next(_NUMBERS)}", 3)


Start = Callable[..., tuple[StreamingQuery, Collector]]


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[Start]:
    """Start a query on our source; ``once``: with all that is there."""
    started: list[StreamingQuery] = []

    def run(given: dict[str, Any], *, once: bool = False, name: str = "checkpoint") -> tuple[StreamingQuery, Collector]:
        sink = Collector()
        rows = spark.readStream.format("rheostat-kafka").options(**given).load()
        writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / name))
        query = (
            writer.trigger(availableNow=True) if once else writer.trigger(processingTime="100 milliseconds")
        ).start()
        started.append(query)
        if once:
            query.awaitTermination(int(TIMEOUT_S))
        return query, sink

    yield run
    for query in started:
        query.stop()


class TestRowsEqualThoseOfSpark:
    def test_a_batch_query(self, spark: SparkSession, field: Lab, topic: str) -> None:
        send(field, topic, 500)
        for more in ({}, {"includeHeaders": "true"}, {"minPartitions": "7"}, {"maxRecordsPerPartition": "50"}):
            theirs, ours = (read(spark, name, options(field, topic, **more)) for name in FORMATS)
            assert len(ours) == 500
            assert ours == theirs

    def test_columns_and_their_types(self, spark: SparkSession, field: Lab, topic: str) -> None:
        given = options(field, topic, includeHeaders="true")
        theirs, ours = (spark.read.format(name).options(**given).load().dtypes for name in FORMATS)
        assert ours == theirs

    def test_where_reading_begins_and_ends(self, spark: SparkSession, field: Lab, topic: str) -> None:
        send(field, topic, 90)
        middle_ms = int(time.time() * 1000) + 1
        until(lambda: time.time() * 1000 > middle_ms + 1, "a later millisecond")
        send(field, topic, 60, first=90)
        by_partition = {topic: {"0": 3, "1": -2, "2": 7}}
        ends = {topic: {"0": 10, "1": -1, "2": 8}}
        times = {topic: {"0": middle_ms, "1": 0, "2": middle_ms}}
        for more in (
            {"startingOffsets": "earliest", "endingOffsets": "latest"},
            {"startingOffsets": json.dumps(by_partition), "endingOffsets": json.dumps(ends)},
            {"startingTimestamp": str(middle_ms)},
            {"endingTimestamp": str(middle_ms)},
            {"startingOffsetsByTimestamp": json.dumps(times)},
            {"startingTimestamp": str(middle_ms + 10**7), "startingOffsetsByTimestampStrategy": "latest"},
        ):
            theirs, ours = (read(spark, name, options(field, topic, **more)) for name in FORMATS)
            assert ours == theirs, more

    def test_a_subscription_by_pattern_and_by_partition(self, spark: SparkSession, field: Lab) -> None:
        names = [make_topic(field, f"many-{next(_NUMBERS)}", 2) for _ in range(2)]
        for number, name in enumerate(names):
            send(field, name, 40, first=100 * number, partitions=2)
        for key, value in (("subscribePattern", "many-.*"), ("assign", json.dumps({names[0]: [1]}))):
            given = {"kafka.bootstrap.servers": field.broker.bootstrap, key: value}
            theirs, ours = (read(spark, name, given) for name in FORMATS)
            assert ours
            assert ours == theirs

    def test_transactions(self, spark: SparkSession, field: Lab, topic: str) -> None:
        producer = Producer({"bootstrap.servers": field.broker.bootstrap, "transactional.id": f"t-{topic}"})
        producer.init_transactions(TIMEOUT_S)
        for number in range(12):
            producer.begin_transaction()
            producer.produce(topic, str(number).encode(), partition=number % 3)
            if number % 4 == 3:
                producer.abort_transaction(TIMEOUT_S)
            else:
                producer.commit_transaction(TIMEOUT_S)
        for level in ("read_committed", "read_uncommitted"):
            given = options(field, topic, **{"kafka.isolation.level": level})
            theirs, ours = (read(spark, name, given) for name in FORMATS)
            assert ours == theirs
        assert (
            len(read(spark, "rheostat-kafka", options(field, topic, **{"kafka.isolation.level": "read_committed"})))
            == 9
        )


class TestStreams:
    def test_all_that_is_there_is_read_once_in_batches_of_at_most_the_cap(
        self, field: Lab, topic: str, start: Start
    ) -> None:
        send(field, topic, 500)
        given = options(field, topic, startingOffsets="earliest", maxOffsetsPerTrigger=120)
        _, sink = start(given, once=True)
        assert sink.numbers() == list(range(500))
        assert max(len(batch) for batch in sink.batches.values()) <= 120
        send(field, topic, 30, first=500)
        _, sink = start(given, once=True)
        assert sink.numbers() == list(range(500, 530)), "it goes on where the checkpoint ends"

    def test_by_default_it_begins_at_the_end(self, field: Lab, topic: str, start: Start) -> None:
        send(field, topic, 30)
        query, sink = start(options(field, topic))
        until(lambda: query.lastProgress is not None, "the first trigger")
        send(field, topic, 30, first=30)
        until(lambda: len(sink.rows) >= 30, "the new records")
        assert sink.numbers() == list(range(30, 60))

    def test_partitions_that_are_added_are_read_from_their_first_record(
        self, field: Lab, topic: str, start: Start
    ) -> None:
        send(field, topic, 30)
        _, sink = start(options(field, topic, startingOffsets="earliest"))
        until(lambda: len(sink.rows) == 30, "the first records")
        admin = quiet_client(field.broker.bootstrap)
        admin.create_partitions([NewPartitions(topic, 4)])[topic].result(TIMEOUT_S)
        send(field, topic, 40, first=30, partitions=4)
        until(lambda: len(sink.rows) == 70, "records of the new partition")
        assert sink.numbers() == list(range(70))

    def test_records_that_expired_fail_the_query_or_are_skipped(self, field: Lab, topic: str, start: Start) -> None:
        send(field, topic, 60)
        given = options(field, topic, startingOffsets=json.dumps({topic: {"0": 0, "1": 0, "2": 0}}))
        wanted = TopicPartition(topic, 0, 12)
        admin = quiet_client(field.broker.bootstrap)
        admin.delete_records([wanted])[wanted].result(TIMEOUT_S)
        query, _ = start(given, name="strict")
        with pytest.raises(StreamingQueryException, match="failOnDataLoss=false"):
            query.awaitTermination(int(TIMEOUT_S))
        _, sink = start({**given, "failOnDataLoss": "false"}, once=True, name="lenient")
        assert sink.numbers() == [number for number in range(60) if number % 3 or number >= 36]

    def test_a_broker_that_is_away_is_waited_for(self, field: Lab, topic: str, start: Start) -> None:
        """No record is lost, doubled or out of order within its partition."""
        send(field, topic, 300)
        query, sink = start(options(field, topic, startingOffsets="earliest", maxOffsetsPerTrigger=10))
        until(lambda: len(sink.rows) >= 30, "some batches")
        field.broker.pause()
        try:
            before = len(sink.batches)
            began = time.monotonic()
            until(lambda: time.monotonic() - began > 25.0, "two questions without an answer")
            assert len(sink.batches) <= before + 1
            assert query.isActive
        finally:
            field.broker.resume()
        until(lambda: len(sink.rows) >= 300, "all records")
        assert sink.numbers() == list(range(300))
        assert sink.in_order()

    def test_a_broker_that_is_started_again_is_waited_for(self, field: Lab, topic: str, start: Start) -> None:
        send(field, topic, 300)
        query, sink = start(options(field, topic, startingOffsets="earliest", maxOffsetsPerTrigger=10))
        until(lambda: len(sink.rows) >= 30, "some batches")
        field.broker.stop()
        field.broker.start()
        send(field, topic, 30, first=300)
        until(lambda: len(sink.rows) >= 330, "all records")
        assert query.isActive
        assert sink.numbers() == list(range(330))
        assert sink.in_order()

    def test_a_minimum_is_waited_for(self, field: Lab, topic: str, start: Start) -> None:
        send(field, topic, 3)
        given = options(field, topic, startingOffsets="earliest", minOffsetsPerTrigger=50, maxTriggerDelay="1h")
        _, sink = start(given)
        until(lambda: len(sink.rows) == 3, "the first batch, which waits for nothing")
        send(field, topic, 20, first=3)
        send(field, topic, 40, first=23)
        until(lambda: len(sink.rows) == 63, "a batch of enough")
        assert min(len(batch) for number, batch in sink.batches.items() if number) >= 50


class TestTopics:
    """What becomes of topics, and of what the source reads of them."""

    def test_partitions_without_records(self, spark: SparkSession, field: Lab, topic: str, start: Start) -> None:
        given = options(field, topic, startingOffsets="earliest")
        assert read(spark, "rheostat-kafka", given) == read(spark, "kafka", given) == []
        send(field, topic, 30, partitions=1)
        theirs, ours = (read(spark, name, given) for name in FORMATS)
        assert len(ours) == 30
        assert ours == theirs
        _, sink = start(given, once=True)
        assert sink.numbers() == list(range(30))

    def test_compaction(self, spark: SparkSession, field: Lab, start: Start) -> None:
        """Each record that is left is read once and in order, also where a task has only records that are gone."""
        topic = make_topic(field, f"compacted-{next(_NUMBERS)}", 2, **COMPACTED)
        left = overwrite(field, topic)
        given = options(field, topic, startingOffsets="earliest")
        until(lambda: [int(row.value) for row in read(spark, "kafka", given)] == left, "the log to be compacted")
        for more in (
            {},
            {"minPartitions": "9"},
            {"startingOffsets": json.dumps({topic: {"0": 1, "1": 7}})},
            {"endingOffsets": json.dumps({topic: {"0": 8, "1": 11}})},
        ):
            theirs, ours = (read(spark, name, given | more) for name in FORMATS)
            assert ours == theirs, more
        _, sink = start(given | {"maxOffsetsPerTrigger": 3, "minPartitions": 4}, once=True)
        assert sink.numbers() == sorted(left)
        assert sink.in_order()

    def test_records_expired_by_retention(self, field: Lab, topic: str, start: Start) -> None:
        send(field, topic, 30)
        given = options(field, topic, startingOffsets="earliest")
        start(given, once=True)
        send(field, topic, 30, first=30)
        expire(field, topic, up_to=20)
        send(field, topic, 30, first=60)
        query, _ = start(given)
        with pytest.raises(StreamingQueryException, match="the oldest record that is left is 20"):
            query.awaitTermination(int(TIMEOUT_S))
        _, sink = start(given | {"failOnDataLoss": "false"}, once=True)
        assert sink.numbers() == list(range(60, 90))

    def test_transactions_are_read_when_they_are_committed(self, field: Lab, topic: str, start: Start) -> None:
        given = options(field, topic, startingOffsets="earliest")
        query, sink = start(given | {"kafka.isolation.level": "read_committed"})
        producer = Producer({"bootstrap.servers": field.broker.bootstrap, "transactional.id": f"t-{topic}"})
        producer.init_transactions(TIMEOUT_S)
        expected: list[int] = []
        for first, commits in ((0, True), (20, False), (40, True), (60, False)):
            producer.begin_transaction()
            for number in range(first, first + 10):
                producer.produce(topic, str(number).encode(), partition=number % 3)
            assert producer.flush(TIMEOUT_S) == 0
            send(field, topic, 10, first=first + 10)  # behind those that are not committed
            before = query.lastProgress
            until(lambda before=before: query.lastProgress != before, "a trigger")  # type: ignore[misc]
            assert sink.numbers() == expected, "nothing beyond a transaction that is open"
            (producer.commit_transaction if commits else producer.abort_transaction)(TIMEOUT_S)
            expected.extend(range(first if commits else first + 10, first + 20))
            until(lambda: len(sink.rows) >= len(expected), "what is committed")
        assert sink.numbers() == expected
        assert sink.in_order()

    def test_a_topic_that_vanishes(self, field: Lab, start: Start) -> None:
        stays, goes = (make_topic(field, f"vanish-{next(_NUMBERS)}", 2) for _ in range(2))
        for topic in (stays, goes):
            send(field, topic, 20, partitions=2)
        given = options(field, f"{stays},{goes}", startingOffsets="earliest")
        named, sink = start(given, name="named")
        pattern = {"kafka.bootstrap.servers": field.broker.bootstrap, "subscribePattern": f"{stays}|{goes}"}
        found, other = start(pattern | {"startingOffsets": "earliest"}, name="pattern")
        lenient, rest = start(given | {"failOnDataLoss": "false"}, name="lenient")
        until(lambda: all(len(each.rows) == 40 for each in (sink, other, rest)), "all records")
        delete_topic(field, goes)
        for query, message in ((named, f"Kafka has no {goes}"), (found, f"records of {goes}-0, {goes}-1 are lost")):
            with pytest.raises(StreamingQueryException, match=message):
                query.awaitTermination(int(TIMEOUT_S))
        send(field, stays, 20, first=20, partitions=2)
        until(lambda: len(rest.rows) == 60, "records of the topic that is left")
        assert lenient.isActive
        assert sorted(int(row.value) for row in rest.rows if row.topic == stays) == list(range(40))
        assert rest.in_order()

    def test_a_topic_that_is_made_anew(self, field: Lab, topic: str, start: Start) -> None:
        send(field, topic, 60)
        given = options(field, topic, startingOffsets="earliest")
        start(given, once=True, name="strict")
        lenient, sink = start(given | {"failOnDataLoss": "false"}, name="lenient")
        until(lambda: len(sink.rows) == 60, "all records")
        delete_topic(field, topic)
        make_topic(field, topic, 3)
        send(field, topic, 12, first=60)
        query, _ = start(given, name="strict")
        with pytest.raises(StreamingQueryException, match="made anew"):
            query.awaitTermination(int(TIMEOUT_S))
        until(lambda: len(sink.rows) >= 72, "the records of the new topic")
        send(field, topic, 12, first=72)
        until(lambda: len(sink.rows) >= 84, "the next ones")
        assert lenient.isActive
        assert sink.numbers() == list(range(84))


COMPACTED = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}


def overwrite(lab: Lab, topic: str) -> list[int]:
    """Records in two partitions, most of them overwritten by later ones; the numbers of those that are not, in order.

    Each partition ends with a record of its own, as what is written last is never compacted.
    """
    producer, numbers, last = Producer({"bootstrap.servers": lab.broker.bootstrap}), count(), dict[str, int]()
    for keys in (range(20), range(0, 20, 2), range(0, 20, 3), range(5, 9), (20, 21)):
        for key in keys:
            last[str(key)] = next(numbers)
            producer.produce(topic, str(last[str(key)]).encode(), str(key).encode(), partition=key % 2)
        assert producer.flush(TIMEOUT_S) == 0
        sent_ms = time.time() * 1000
        until(lambda sent_ms=sent_ms: time.time() * 1000 > sent_ms + 2, "a later segment")  # type: ignore[misc]
    return [last[key] for key in sorted(last, key=lambda key: (int(key) % 2, last[key]))]


def expire(lab: Lab, topic: str, up_to: int) -> None:
    """Let all records of a topic expire, and wait until those up to an offset are gone."""
    admin = quiet_client(lab.broker.bootstrap)
    topics = KafkaTopics({"bootstrap.servers": lab.broker.bootstrap}, timeout_s=TIMEOUT_S)
    places = [(topic, partition) for partition in range(3)]

    def keep_for(retention_ms: int) -> None:
        entry = ConfigEntry("retention.ms", str(retention_ms), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)

    keep_for(1)
    until(lambda: set(topics.earliest(places).values()) == {up_to}, "the records to be gone")
    keep_for(3_600_000)


class TestOrders:
    def test_tasks_records_and_shares_change_from_one_batch_to_the_next(
        self, field: Lab, topic: str, start: Start, tmp_path: Path
    ) -> None:
        path = tmp_path / "orders.json"
        order(path, 1, read_tasks=5, records=100)
        given = options(field, topic, startingOffsets="earliest", orders=str(path), edge="in>out")
        _, sink = start(given)
        send(field, topic, 300)
        until(lambda: len(sink.rows) == 300, "all records")
        assert max(len(batch) for batch in sink.batches.values()) <= 100
        order(path, 2, keep={"in>out": 400_000})
        send(field, topic, 600, first=300)
        kept = [number for number in range(900) if number < 300 or keeps(topic, number, "in>out", 400_000)]
        until(lambda: len(sink.rows) >= len(kept), "the share that is kept")
        assert sink.numbers() == kept
        last = offsets_of(tmp_path / "checkpoint", max(sink.batches))
        assert plan_of(last).keep == {"in>out": 400_000}

    def test_no_batch_begins_while_paused(self, field: Lab, topic: str, start: Start, tmp_path: Path) -> None:
        path = tmp_path / "orders.json"
        order(path, 1, paused=True)
        query, sink = start(options(field, topic, startingOffsets="earliest", orders=str(path)))
        send(field, topic, 30)
        until(lambda: query.lastProgress is not None, "a trigger")
        assert sink.rows == []
        order(path, 2)
        until(lambda: len(sink.rows) == 30, "all records once it goes on")

    def test_a_batch_that_is_run_again_keeps_the_same_records(
        self, field: Lab, topic: str, start: Start, tmp_path: Path
    ) -> None:
        path, checkpoint = tmp_path / "orders.json", tmp_path / "checkpoint"
        order(path, 1, keep={"in>out": 500_000}, read_tasks=3)
        send(field, topic, 900)
        given = options(field, topic, startingOffsets="earliest", orders=str(path), edge="in>out")
        _, sink = start(given, once=True)
        (checkpoint / "commits" / "0").unlink()
        (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
        order(path, 2, keep={"in>out": 1_000}, read_tasks=1)
        _, again = start(given, once=True)
        assert again.numbers() == sink.numbers()
        assert 0 < len(again.rows) < 900


class TestObserved:
    def test_the_backlog_is_exact_and_current_while_the_source_is_paused(
        self, spark: SparkSession, field: Lab, topic: str, start: Start, tmp_path: Path
    ) -> None:
        path = tmp_path / "orders.json"
        query, sink = start(
            options(field, topic, startingOffsets="earliest", orders=str(path), maxOffsetsPerTrigger=70)
        )
        send(field, topic, 60)
        until(lambda: len(sink.rows) == 60, "a batch")
        order(path, 1, paused=True, keep={})
        send(field, topic, 33, first=60)
        source = DriverSource(spark, [query])
        try:

            def waiting() -> int | None:
                (reading,) = source.observe(1.0).queries
                offsets = reading.offsets
                if offsets is None or not offsets.exact:
                    return None
                return sum(
                    (end or 0) - (done or 0) for end, done in zip(offsets.latest, offsets.committed, strict=True)
                )

            until(lambda: waiting() == 33, "the records that wait")
            (reading,) = source.observe(2.0).queries
        finally:
            source.close()
        (info,) = reading.sources
        assert (info.kind, info.name, info.partitions, info.batch_cap) == ("rheostat-kafka", topic, 3, 70)
        assert reading.uncountable is None
        reported = json.loads(query.lastProgress["sources"][0]["latestOffset"]) if query.lastProgress else {}
        assert set(reported) <= {topic}


def keeps(topic: str, number: int, edge: str, share: int) -> bool:
    return is_kept(seed_of(edge, topic, number % 3), number // 3, share)


class TestEdges:
    def test_later_edges_keep_their_share_of_what_comes_and_weights_make_up_for_it(
        self, spark: SparkSession, field: Lab, topic: str, tmp_path: Path
    ) -> None:
        send(field, topic, 9000)
        graph = declare_shedding([Sink("a"), Sink("b")], {"in": ["parse"]}, {"parse": ["a", "b"]})
        shedding, path, found = Shedding(graph), tmp_path / "orders.json", dict[str, tuple[int, float]]()
        order(path, 1, keep={"in>parse": 800_000, "parse>a": 1_000_000, "parse>b": 500_000})
        given = options(field, topic, startingOffsets="earliest", orders=str(path))
        rows = shedding.read(spark, "in", given)

        def measure(batch: DataFrame, _: int) -> None:
            for end in ("a", "b"):
                kept = shedding.shed(batch, "parse", end)
                weights = kept.select(shedding.weight(("in", "parse"), ("parse", end)).alias("weight"))
                numbers = [row.weight for row in weights.collect()]
                found[end] = len(numbers), sum(numbers)

        query = rows.writeStream.foreachBatch(measure).trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / "edges")).start().awaitTermination(int(TIMEOUT_S))
        source = sum(keeps(topic, number, "in>parse", 800_000) for number in range(9000))
        assert found["a"][0] == source
        assert abs(found["b"][0] - 0.5 * source) < 4.9 * (0.25 * source) ** 0.5
        assert found["a"][1] == pytest.approx(9000, rel=0.03)
        assert found["b"][1] == pytest.approx(9000, rel=0.06)

    def test_both_inputs_of_a_join_keep_the_same_keys(self, spark: SparkSession, field: Lab, topic: str) -> None:
        send(field, topic, 3000)
        graph = declare_shedding(
            [Sink("out")],
            {"left": ["join"], "right": ["join"]},
            {"join": ["out"]},
            by_key=[("left", "join"), ("right", "join")],
        )
        shedding = Shedding(graph)
        limits = {"left>join": 0, "right>join": 0}  # half, as a signed limit
        inputs = []
        for name in ("left", "right"):
            rows = spark.range(3000).selectExpr(
                "id", f"named_struct('draw', id, '{name}>join', {limits[f'{name}>join']}L) AS rheostat"
            )
            inputs.append(shedding.shed(rows, name, "join", by=["id"]).select("id"))
        left, right = inputs
        joined = left.join(right, "id").count()
        assert joined == left.count() == right.count()
        assert abs(joined - 1500) < 150

    def test_rows_that_are_no_records_any_more_are_refused(self, spark: SparkSession) -> None:
        shedding = Shedding(declare_shedding([Sink("out")], {"in": ["sum"]}, {"sum": ["out"]}, by_key=[("sum", "out")]))
        with pytest.raises(InputError, match="no longer records of the source") as caught:
            shedding.shed(spark.range(3), "sum", "out", by=["user"])
        assert [fault.field for fault in caught.value.faults] == ["by", "rows"]


@pytest.mark.parametrize("way", ["read", "readStream"])
def test_bad_options_are_named_all_at_once_when_loading(spark: SparkSession, way: str) -> None:
    wrong = {"subscribe": "x", "assign": "{}", "maxOffsetsPerTrigger": "0", "kafka.sasl.login.class": "x"}
    with pytest.raises(PySparkException) as caught:
        getattr(spark, way).format("rheostat-kafka").options(**wrong).load()
    for word in ("bootstrap", "subscribe", "maxOffsetsPerTrigger", "kafka.sasl.login.class"):
        assert word in str(caught.value)
