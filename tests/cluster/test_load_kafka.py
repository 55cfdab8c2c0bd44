"""The producer against a real broker, also one that goes away."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.cluster.support import until
from tests.load.test_load_command import call

from rheostat.errors import InputError
from rheostat.lab.lab import Lab
from rheostat.load.curves import constant
from rheostat.load.kafka_sink import KafkaSink, ensure_topic
from rheostat.load.payload import IdChecksum, Payloads
from rheostat.load.producer import LoadResult, OpenLoopProducer, ProducerSettings, RunClock, partition_of
from rheostat.load.shapes import parse_shape

pytestmark = pytest.mark.cluster

PARTITIONS = 4


@pytest.fixture
def lab(field: Lab) -> Lab:
    """Only its broker is used."""
    return field


@pytest.fixture
def topic(lab: Lab, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", ".").replace("]", "").replace(" ", "-")
    assert ensure_topic(lab.broker.bootstrap, name, PARTITIONS, create=True) == PARTITIONS
    return str(name)


def end_of(consumer: Consumer, place: TopicPartition) -> int:
    """The latest offset; a broker that has just been started again may not lead its partitions yet."""
    found: list[int] = []

    def told() -> bool:
        with suppress(KafkaException):
            found.append(consumer.get_watermark_offsets(place, timeout=10)[1])
        return bool(found)

    until(told, f"the latest offset of {place}")
    return found[0]


def stored(lab: Lab, topic: str) -> list[tuple[int, str, int]]:
    """``(id, key, partition)`` of every record in a topic."""
    found: list[tuple[int, str, int]] = []
    consumer = Consumer({"bootstrap.servers": lab.broker.bootstrap, "group.id": "check", "log_level": 0})
    try:
        places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
        expected = sum(end_of(consumer, place) for place in places)
        consumer.assign(places)
        while len(found) < expected:
            for message in consumer.consume(1000, timeout=10):
                assert message.error() is None
                key, value, partition = message.key(), message.value(), message.partition()
                assert key is not None
                assert value is not None
                assert partition is not None
                found.append((json.loads(value)["id"], key.decode(), partition))
    finally:
        consumer.close()
    return found


class Running:
    """A producer in a thread of its own, which the test can wait for."""

    def __init__(self, lab: Lab, topic: str, text: str, settings: ProducerSettings | None = None) -> None:
        self.clock = RunClock()
        self._reached: dict[int, threading.Event] = {}
        self._result: list[LoadResult] = []
        sink = KafkaSink(lab.broker.bootstrap, topic)
        producer = OpenLoopProducer(sink, Payloads(), self.clock, settings, watch=lambda seen: self._see(seen.sent))
        self._thread = threading.Thread(target=lambda: self._result.append(producer.run(parse_shape(text))))

    def wait_for(self, sent: int) -> None:
        assert self._reached.setdefault(sent, threading.Event()).wait(60)

    def result(self) -> LoadResult:
        self._thread.join(90)
        return self._result[0]

    def _see(self, sent: int) -> None:
        for number, event in list(self._reached.items()):
            if sent >= number:
                event.set()

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.clock.stop.set()
        self._thread.join(90)


@contextmanager
def frozen(lab: Lab) -> Iterator[None]:
    lab.broker.pause()
    yield
    lab.broker.resume()


@contextmanager
def stopped(lab: Lab) -> Iterator[None]:
    lab.broker.stop()
    yield
    lab.broker.start()


def test_all_records_arrive_once_and_on_the_partition_of_their_key(lab, topic):
    with Running(lab, topic, "ramp:0..4000@2+constant:4000@1") as run:
        result = run.result()
    records = stored(lab, topic)
    assert result.whole
    assert sorted(record_id for record_id, _, _ in records) == list(range(8_000))
    assert result.checksum == IdChecksum().add_many(range(8_000))
    assert all(partition == partition_of(key, PARTITIONS) for _, key, partition in records)


@pytest.mark.parametrize("away", [stopped, frozen])
def test_a_broker_that_is_away_for_ten_seconds_loses_and_doubles_nothing(lab, topic, away):
    with Running(lab, topic, "constant:1000@13") as run:
        run.wait_for(2_000)
        with away(lab):
            threading.Event().wait(10)
        result = run.result()
    assert (result.records, result.in_doubt, result.error, result.stopped) == (13_000, 0, None, False)
    assert sorted(record_id for record_id, _, _ in stored(lab, topic)) == list(range(13_000))
    assert result.checksum == IdChecksum().add_many(range(13_000))


def test_a_stop_while_the_broker_is_away_reports_what_is_in_doubt(lab, topic):
    with Running(lab, topic, "constant:1000@60", ProducerSettings(stop_flush_s=1.0)) as run:
        run.wait_for(2_000)
        with stopped(lab):
            run.wait_for(4_000)
            run.clock.stop.set()
            result = run.result()
    ids = [record_id for record_id, _, _ in stored(lab, topic)]
    assert result.stopped
    assert not result.whole
    assert result.in_doubt >= 1_000
    assert result.records + result.in_doubt == result.next_id
    assert len(ids) == len(set(ids))
    assert result.records <= len(ids) <= result.next_id


def test_a_missing_topic_is_a_fault(lab):
    with pytest.raises(InputError) as caught:
        ensure_topic(lab.broker.bootstrap, "nowhere")
    (fault,) = caught.value.faults
    assert (fault.field, fault.given) == ("--topic", "nowhere")
    with pytest.raises(InputError, match="no such topic"):
        ensure_topic(lab.broker.bootstrap, "nowhere")


def test_a_topic_with_another_number_of_partitions_is_a_fault(lab, topic):
    assert ensure_topic(lab.broker.bootstrap, topic, None, create=True) == PARTITIONS
    with pytest.raises(InputError) as caught:
        ensure_topic(lab.broker.bootstrap, topic, 7, create=True)
    (fault,) = caught.value.faults
    assert (fault.field, fault.given, fault.allowed) == ("--partitions", "7", "4")


def test_fifty_thousand_records_a_second_are_offered_in_time(lab, topic):
    sink = KafkaSink(lab.broker.bootstrap, topic)
    result = OpenLoopProducer(sink, Payloads()).run(constant(50_000, 3))
    assert result.records == 150_000
    assert result.lateness.behind_at_end_s < 1.0


def test_a_scenario_names_every_topic_that_is_missing_and_creates_none(lab: Lab, tmp_path: Path) -> None:
    load = {"rates": [{"at_s": 0, "rate": 1}]}
    application = {"name": "a", "stop_s": 1, "topics": {"missing-1": load, "missing-2": load}}
    (tmp_path / "scenario.json").write_text(json.dumps({"applications": [application]}))
    with pytest.raises(InputError) as caught:
        call("--scenario", tmp_path / "scenario.json", "--bootstrap", lab.broker.bootstrap)
    assert [(fault.field, fault.given) for fault in caught.value.faults] == [
        (f"applications.0.topics.{name}", name) for name in ("missing-1", "missing-2")
    ]
    with pytest.raises(InputError, match="the broker has no such topic"):
        ensure_topic(lab.broker.bootstrap, "missing-1")
