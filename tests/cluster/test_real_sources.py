"""Sources as real ones are, on a real Kafka: first offsets that are gone, transactions, two caps, a minimum."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from pyspark.sql import DataFrame
from tests.cluster import test_observe as observing
from tests.cluster.test_observe import TIMEOUT_S, Gate, KafkaStreams, Watcher, only, stands, streaming

from rheostat.analyze.assess import analyze
from rheostat.analyze.state import AnalysisSettings, AnalysisState
from rheostat.lab.broker import quiet_client
from rheostat.lab.lab import Lab
from rheostat.model import Assessment, Observation, PartitionOffsets
from rheostat.observe.driver import DriverSource

pytestmark = pytest.mark.cluster

lab, spark, watcher, kafka_stream = observing.lab, observing.spark, observing.watcher, observing.kafka_stream


class Turns:
    """A batch function that reads its rows twice, and ends as many batches as it is told."""

    def __init__(self) -> None:
        self._left = threading.Semaphore(0)
        self.open = threading.Event()

    def __call__(self, rows: DataFrame, batch_id: int) -> None:  # noqa: ARG002 (Spark's)
        rows.count()
        rows.count()
        while not self.open.is_set() and not self._left.acquire(timeout=0.05):
            pass

    def let(self, batches: int) -> None:
        self._left.release(batches)


@pytest.fixture
def send(lab: Lab) -> Iterator[Callable[..., None]]:
    """Send records to the first partition of a topic; ``transaction``: each in one of its own."""
    producer = Producer({"bootstrap.servers": lab.broker.bootstrap})
    careful = Producer({"bootstrap.servers": lab.broker.bootstrap, "transactional.id": "real-sources"})

    def sent(topic: str, records: int, *, transactions: bool = False) -> None:
        if not transactions:
            for _ in range(records):
                producer.produce(topic, b"x", partition=0)
            assert producer.flush(TIMEOUT_S) == 0
            return
        careful.init_transactions(TIMEOUT_S)
        for _ in range(records):
            careful.begin_transaction()
            careful.produce(topic, b"y", partition=0)
            careful.commit_transaction(TIMEOUT_S)

    yield sent
    producer.flush(1)


def delete_first(lab: Lab, topic: str, until: int) -> None:
    admin = quiet_client(lab.broker.bootstrap)
    wanted = TopicPartition(topic, 0, until)
    assert admin.delete_records([wanted])[wanted].result(TIMEOUT_S).low_watermark == until


def assess(*looks: Observation) -> Assessment:
    """The assessment of the last of these looks; their window is longer than a busy machine takes from the first."""
    state, seen = AnalysisState(), Assessment(0.0)
    for look in looks:
        seen, state = analyze(look, state, AnalysisSettings(60.0, rate_window_s=3600.0))
    return seen


def test_a_new_topic_counts_from_its_earliest_offset(
    lab: Lab, kafka_stream: KafkaStreams, watcher: Watcher, send: Callable[..., None], tmp_path: Path
) -> None:
    gate, old, late = Gate(), kafka_stream.name("late-a"), kafka_stream.name("late-b")
    lab.broker.create_topic(old, 1)
    send(old, 5)
    stream = kafka_stream(subscribePattern=kafka_stream.name("late-."), failOnDataLoss="false")
    with streaming(stream, gate, tmp_path / "late"):
        before = watcher.until(lambda seen: stands(seen) == (5, 5, 0), "the batch in flight")
        lab.broker.create_topic(late, 1)
        send(late, 500)
        delete_first(lab, late, 450)
        new = watcher.until(lambda seen: only(seen).sources[0].partitions == 2, "the new topic")
        gate.open.set()
        watcher.until(lambda seen: stands(seen) == (5, 5, 5) and _second(seen).committed == 500, "all committed")
        ended = watcher.until(lambda seen: (batch := only(seen).batch) is not None and batch.records == 50, "the event")

    assert _second(new) == PartitionOffsets(late, 0, latest=500, planned=450, committed=450)
    assert only(new).sources[0].topics == (old, late)
    assert assess(before, new).backlog == 5 + 50
    seen = assess(before, new, ended)
    assert (seen.backlog, seen.processed_rate, seen.last_batch_records) == (0, None, None)


def _second(seen: Observation) -> PartitionOffsets:
    offsets = only(seen).offsets
    assert offsets is not None
    return offsets.partitions[1]


def test_records_that_are_deleted_before_they_are_read_do_not_wait(
    lab: Lab, kafka_stream: KafkaStreams, watcher: Watcher, send: Callable[..., None], tmp_path: Path
) -> None:
    gate, short = Gate(), kafka_stream.name("short")
    lab.broker.create_topic(short, 1)
    send(short, 100)
    stream = kafka_stream(subscribe=short, maxOffsetsPerTrigger=20, failOnDataLoss="false")
    with streaming(stream, gate, tmp_path / "short"):
        watcher.until(lambda seen: stands(seen) == (100, 20, 0), "the first batch in flight")
        delete_first(lab, short, 80)
        later = DriverSource(kafka_stream.spark)
        seen = later.observe(watcher.look().at)
        later.close()

    assert stands(seen) == (100, 80, 80)
    offsets = only(seen).offsets
    assert offsets is not None
    assert (offsets.exact, offsets.inexact_because) == (False, "retention")


def test_a_cap_is_filled_by_offsets_of_its_own_source(
    lab: Lab, kafka_stream: KafkaStreams, watcher: Watcher, send: Callable[..., None], tmp_path: Path
) -> None:
    """Topic ``paid``: 20 transactions of a record, so 40 offsets, ten to a batch; the other is far from its cap."""
    turns, paid, unpaid = Turns(), kafka_stream.name("paid"), kafka_stream.name("unpaid")
    for name in (paid, unpaid):
        lab.broker.create_topic(name, 1)
    send(paid, 20, transactions=True)
    send(unpaid, 3)
    stream = kafka_stream(subscribe=paid, maxOffsetsPerTrigger=10)
    both = stream.unionAll(kafka_stream(subscribe=unpaid, maxOffsetsPerTrigger=1000))
    with streaming(both, turns, tmp_path / "caps"):  # type: ignore[arg-type] # it is called and opened as a gate is
        watcher.until(lambda seen: stands(seen) == (40, 10, 0), "the first batch in flight")
        turns.let(2)
        seen = watcher.until(
            lambda seen: stands(seen) == (40, 30, 20) and getattr(only(seen).batch, "batch_id", None) == 1,
            "the third batch in flight",
        )

    reading = only(seen)
    assert [(source.topics, source.batch_cap) for source in reading.sources] == [((paid,), 10), ((unpaid,), 1000)]
    assert reading.batch is not None
    assert (reading.batch.offsets, reading.batch.records) == ((10, 0), 10)  # five records that two actions read
    assert assess(seen).capped is True


def test_a_query_that_waits_for_its_minimum_is_not_behind(
    lab: Lab, kafka_stream: KafkaStreams, watcher: Watcher, send: Callable[..., None], tmp_path: Path
) -> None:
    gate, slow = Gate(), kafka_stream.name("slow")
    gate.open.set()
    lab.broker.create_topic(slow, 1)
    send(slow, 5)
    stream = kafka_stream(subscribe=slow, minOffsetsPerTrigger=100)
    with streaming(stream, gate, tmp_path / "slow"):
        first = watcher.until(lambda seen: stands(seen) == (5, 5, 5) and only(seen).batch, "the first batch")
        send(slow, 90)
        waiting = [watcher.look() for _ in range(3)]
        send(slow, 10)
        watcher.until(lambda seen: stands(seen) == (105, 105, 105), "the batch of the minimum")

    (source,) = only(first).sources
    assert (source.min_offsets, source.max_delay_s) == (100, 900.0)
    assert [stands(seen) for seen in waiting] == [(95, 5, 5)] * 3
    seen = assess(first, *waiting)
    assert (seen.backlog, seen.backlog_excess, seen.running) == (90, 0.0, False)
