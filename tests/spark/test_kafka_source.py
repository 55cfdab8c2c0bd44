"""How the Kafka source plans its batches, on positions that stand in for Kafka's."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from rheostat.errors import InputError, RheostatError, UnavailableError
from rheostat.spark.kafka_admin import Place
from rheostat.spark.kafka_offsets import BATCH_KEY, plan_of, positions_of
from rheostat.spark.kafka_options import Bound, parse_kafka_options
from rheostat.spark.kafka_source import KafkaStreamReader, Places
from rheostat.spark.orders import Orders, write_orders

A0: Place = ("a", 0)
A1: Place = ("a", 1)
ALL = ReadAllAvailable()


class Topics:
    """What brokers tell, as a test has it."""

    def __init__(self, latest: dict[Place, int], earliest: dict[Place, int] | None = None) -> None:
        self.ends, self.begins = latest, earliest or dict.fromkeys(latest, 0)
        self.times: dict[Place, int] = {}
        self.away = 0
        self.after: dict[Place, int] = {}

    def partitions(self, _: object) -> tuple[Any, ...]:
        return tuple(sorted(self.ends))

    def latest(self, partitions: Any) -> dict[Place, int]:
        if self.away:
            self.away -= 1
            raise UnavailableError("no answer")
        return {at: self.ends[at] for at in partitions}

    def earliest(self, partitions: Any) -> dict[Place, int]:
        return {at: self.begins[at] for at in partitions}

    def find_times(self, times_ms: dict[Place, int]) -> dict[Place, int]:
        return {at: self.times.get(at, -1) for at in times_ms}

    def close(self) -> None:
        pass

    def forget(self) -> None:
        self.ends |= self.after


@pytest.fixture(autouse=True)
def _no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rheostat.spark.kafka_source._ASK_AGAIN_S", 0.0)


def reader_of(topics: Topics, **options: str) -> KafkaStreamReader:
    given = {"kafka.bootstrap.servers": "b:1", "subscribePattern": ".*", **options}
    parsed = parse_kafka_options(given, streaming=True)
    reader = KafkaStreamReader(parsed)
    reader.places = Places(parsed, topics)  # type: ignore[arg-type]
    return reader


def order(path: Path, number: int, **more: Any) -> None:
    write_orders(path, Orders(number=number, until_ms=int(time.time() * 1000) + 60_000, **more))


def test_a_reader_is_pickled_to_where_it_reads():
    parsed = parse_kafka_options({"kafka.bootstrap.servers": "b:1", "subscribe": "a"}, streaming=True)
    copied = pickle.loads(pickle.dumps(KafkaStreamReader(parsed)))  # noqa: S301 (our own)
    assert copied.places is None


def test_without_new_records_the_offset_stays_the_same_whatever_orders_were_given():
    reader = reader_of(Topics({A0: 5}))
    start = {"a": {"0": 5}, BATCH_KEY: {"number": 3, "keep": {}, "read_tasks": 0}}
    assert reader.latestOffset(start, ALL) == start


def test_a_batch_ends_at_the_cap_or_at_what_was_ordered(tmp_path: Path):
    path = tmp_path / "orders.json"
    reader = reader_of(Topics({A0: 500, A1: 500}), orders=str(path))
    start = {"a": {"0": 0, "1": 0}}
    assert sum(positions_of(reader.latestOffset(start, ReadMaxRows(100))).values()) == 100
    order(path, 1, records=40, read_tasks=3, keep={"x>y": 7})
    end = reader.latestOffset(start, ReadMaxRows(100))
    assert sum(positions_of(end).values()) == 40
    assert (plan_of(end).number, plan_of(end).keep) == (1, {"x>y": 7})
    assert len(reader.partitions(start, end)) == 3


def test_a_pause_holds_until_it_is_lifted(tmp_path: Path):
    path = tmp_path / "orders.json"
    reader, start = reader_of(Topics({A0: 500}), orders=str(path)), {"a": {"0": 0}}
    order(path, 1, paused=True)
    assert reader.latestOffset(start, ALL) == start
    order(path, 2)
    assert positions_of(reader.latestOffset(start, ALL)) == {A0: 500}


def test_a_new_partition_begins_at_its_first_record_also_when_the_batch_is_run_again():
    topics = Topics({A0: 5, A1: 9}, {A0: 0, A1: 2})
    reader, start = reader_of(topics), {"a": {"0": 5}}
    end = reader.latestOffset(start, ALL)
    topics.begins[A1] = 4
    (task,) = reader.partitions(start, end)
    assert [tuple(piece) for piece in task.pieces] == [("a", 1, 2, 9)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("now", [{A0: 3}, {A1: 3}])
def test_partitions_that_are_gone_or_made_anew_are_a_loss(now: dict[Place, int]):
    start = {"a": {"0": 8}}
    with pytest.raises(RheostatError, match="failOnDataLoss=false"):
        reader_of(Topics(now)).latestOffset(start, ALL)
    lenient = reader_of(Topics(now), failOnDataLoss="false")
    end = lenient.latestOffset(start, ALL)
    assert positions_of(end) == now
    (task,) = lenient.partitions(start, end)
    assert task.pieces[0].start == 0  # type: ignore[attr-defined]


def test_a_leader_that_knows_of_fewer_records_for_a_moment_is_no_loss():
    topics = Topics({A0: 3})
    topics.after = {A0: 9}
    reader, start = reader_of(topics), {"a": {"0": 8}}
    assert reader.latestOffset(start, ALL) == start
    assert positions_of(reader.latestOffset(start, ALL)) == {A0: 9}


def test_the_first_batch_begins_where_it_did_also_when_it_is_run_again_by_another_driver():
    topics = Topics({A0: 100})
    reader = reader_of(topics)
    start = reader.initialOffset()
    topics.ends[A0] = 150
    assert reader.initialOffset() == start
    end = reader.latestOffset(start, ALL)
    again = reader_of(Topics({A0: 200}))
    (task,) = again.partitions(again.initialOffset(), end)
    assert [tuple(piece) for piece in task.pieces] == [("a", 0, 100, 150)]  # type: ignore[attr-defined]


def test_a_query_that_reads_what_is_there_does_not_begin_after_it():
    topics = Topics({A0: 100})
    reader = reader_of(topics)
    reader.prepareForTriggerAvailableNow()
    topics.ends[A0] = 150
    start = reader.initialOffset()
    assert positions_of(start) == {A0: 100}
    assert reader.latestOffset(start, ALL) == start


def test_a_minimum_is_waited_for_after_the_first_batch():
    topics = Topics({A0: 3})
    reader, start = reader_of(topics, minOffsetsPerTrigger="10", maxTriggerDelay="1h"), {"a": {"0": 0}}
    first = reader.latestOffset(start, ALL)
    assert positions_of(first) == {A0: 3}
    topics.ends[A0] = 8
    assert reader.latestOffset(first, ALL) == first
    topics.ends[A0] = 13
    assert positions_of(reader.latestOffset(first, ALL)) == {A0: 13}


def test_what_comes_after_the_start_is_not_for_a_query_that_reads_what_is_there():
    topics = Topics({A0: 3})
    reader = reader_of(topics, minOffsetsPerTrigger="10")
    reader.prepareForTriggerAvailableNow()
    topics.ends[A0] = 8
    end = reader.latestOffset({"a": {"0": 0}}, ALL)
    assert positions_of(end) == {A0: 3}
    assert reader.latestOffset(end, ALL) == end
    assert positions_of(reader.reportLatestOffset() or {}) == {A0: 8}


def test_no_batch_begins_while_kafka_does_not_answer(caplog: pytest.LogCaptureFixture):
    topics = Topics({A0: 3})
    reader, start, topics.away = reader_of(topics), {"a": {"0": 0}}, 4
    assert [reader.latestOffset(start, ALL) for _ in range(3)] == [start] * 3
    assert caplog.text.count("no batch begins while Kafka does not answer") == 1
    assert reader.reportLatestOffset() is None
    assert positions_of(reader.latestOffset(start, ALL)) == {A0: 3}
    topics.away = 2
    reader.prepareForTriggerAvailableNow()
    assert positions_of(reader.latestOffset(start, ALL)) == {A0: 3}


def test_kafka_is_not_waited_for_without_end():
    topics = Topics({A0: 3})
    topics.away = 10**9
    reader = reader_of(topics, **{"kafkaConsumer.pollTimeoutMs": "1"})
    reader.latestOffset({"a": {"0": 0}}, ALL)
    time.sleep(0.01)
    with pytest.raises(UnavailableError):
        reader.latestOffset({"a": {"0": 0}}, ALL)


def places_of(topics: Topics, **options: str) -> Places:
    given = {"kafka.bootstrap.servers": "b:1", "subscribePattern": ".*", **options}
    return Places(parse_kafka_options(given, streaming=True), topics)  # type: ignore[arg-type]


def test_where_reading_begins():
    topics = Topics({A0: 50, A1: 60}, {A0: 5, A1: 6})
    topics.times = {A0: 20}
    places = places_of(topics)
    assert places.resolve(Bound("earliest")) == {A0: 5, A1: 6}
    assert places.resolve(Bound("latest")) == {A0: 50, A1: 60}
    assert places.resolve(Bound("offsets", {A0: -2, A1: 17})) == {A0: 5, A1: 17}
    assert places.resolve(Bound("timestamp", timestamp=9, else_latest=True)) == {A0: 20, A1: 60}
    with pytest.raises(InputError, match="there is no record as late"):
        places.resolve(Bound("timestamps", {A0: 9, A1: 9}))
    with pytest.raises(InputError, match="an offset is needed for each partition"):
        places.resolve(Bound("offsets", {A0: 1}))


def test_a_topic_that_was_named_must_exist():
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": "a,none"}
    parsed = parse_kafka_options(given, streaming=True)
    with pytest.raises(RheostatError, match="Kafka has no none"):
        Places(parsed, Topics({A0: 1})).latest()  # type: ignore[arg-type]
