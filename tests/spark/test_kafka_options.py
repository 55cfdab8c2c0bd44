"""Options of the Kafka source: those of Spark's own, all faults at once."""

from __future__ import annotations

import doctest

import pytest

from rheostat.errors import InputError
from rheostat.spark import kafka_options
from rheostat.spark.kafka_admin import TopicPartition
from rheostat.spark.kafka_options import Bound, KafkaOptions, parse_kafka_options

BROKER = {"kafka.bootstrap.servers": "broker:9092"}
CLICKS = {**BROKER, "subscribe": "clicks"}


def parse(*, streaming: bool = True, **options: str) -> KafkaOptions:
    return parse_kafka_options({**CLICKS, **options}, streaming=streaming)


def fields(options: dict[str, str], *, streaming: bool = True) -> list[str]:
    with pytest.raises(InputError) as caught:
        parse_kafka_options(options, streaming=streaming)
    return sorted(fault.field for fault in caught.value.faults)


def test_examples_in_docstrings():
    assert doctest.testmod(kafka_options).failed == 0


def test_defaults_are_those_of_spark():
    options = parse()
    assert options.subscription.topics == ("clicks",)
    assert options.starting == Bound("latest")
    assert parse(streaming=False).starting == Bound("earliest")
    assert (options.cap, options.least, options.longest_wait_s, options.fails_on_loss) == (None, None, 900.0, True)
    assert not options.has_headers


def test_names_are_not_case_sensitive():
    options = parse(
        maxoffsetspertrigger="500", MINOFFSETSPERTRIGGER="20", maxTriggerDelay="90s", FailOnDataLoss="FALSE"
    )
    assert (options.cap, options.least, options.longest_wait_s, options.fails_on_loss) == (500, 20, 90.0, False)


@pytest.mark.parametrize(
    ("name", "text", "topics"),
    [
        ("subscribe", "b, a,,b", {"topics": ("a", "b")}),
        ("subscribePattern", "click.*", {"pattern": "click.*"}),
        ("assign", '{"a": [1, 0]}', {"assigned": (TopicPartition("a", 0), TopicPartition("a", 1))}),
    ],
)
def test_what_is_read_can_be_said_in_three_ways(name, text, topics):
    found = parse_kafka_options({**BROKER, name: text}, streaming=True).subscription
    assert {key: getattr(found, key) for key in topics} == topics


def test_read_committed_belongs_to_the_subscription():
    given = {**CLICKS, "kafka.isolation.level": "read_committed"}
    assert parse_kafka_options(given, streaming=True).subscription.read_committed


def test_of_the_ways_to_say_where_to_begin_the_timestamp_of_all_counts_first():
    offsets, times = '{"clicks": {"0": 5, "1": -2}}', '{"clicks": {"0": 1000}}'
    assert parse(startingOffsets="Earliest").starting == Bound("earliest")
    by_offset = parse(startingOffsets=offsets).starting
    assert by_offset == Bound("offsets", {TopicPartition("clicks", 0): 5, TopicPartition("clicks", 1): -2})
    by_time = parse(startingOffsets=offsets, startingOffsetsByTimestamp=times).starting
    assert by_time == Bound("timestamps", {TopicPartition("clicks", 0): 1000})
    everywhere = parse(
        startingOffsetsByTimestamp=times, startingTimestamp="9", startingOffsetsByTimestampStrategy="latest"
    ).starting
    assert everywhere == Bound("timestamp", timestamp=9, else_latest=True)


def test_a_batch_query_has_an_end():
    assert parse(streaming=False).ending == Bound("latest")
    assert parse(streaming=False, endingTimestamp="7").ending == Bound("timestamp", timestamp=7, else_latest=True)
    assert fields({**CLICKS, "endingOffsets": "latest"}) == ["endingOffsets"]
    assert fields({**CLICKS, "endingOffsets": "earliest"}, streaming=False) == ["endingOffsets"]
    assert fields({**CLICKS, "endingOffsets": '{"clicks": {"0": -2}}'}, streaming=False) == ["endingOffsets"]
    assert fields({**CLICKS, "startingOffsets": "latest"}, streaming=False) == ["startingOffsets"]


def test_all_faults_are_found_at_once():
    wrong = {
        "assign": "{}",
        "failOnDataLoss": "no",
        "includeHeaders": "1",
        "kafka.nonsense": "1",
        "maxOffsetsPerTrigger": "0",
        "maxTriggerDelay": "soon",
        "minPartition": "3",
        "minPartitions": "three",
        "startingOffsets": "now",
        "startingOffsetsByTimestamp": '{"clicks": {"0": "x"}}',
        "startingOffsetsByTimestampStrategy": "guess",
    }
    unknown = {"kafka.nonsense": "kafka", "minPartition": "options"}
    assert fields(wrong) == sorted({*(unknown.get(name, name) for name in wrong), "kafka.bootstrap.servers"})


def test_exactly_one_subscription_is_needed():
    assert fields(BROKER) == ["subscribe"]
    assert fields({**CLICKS, "subscribePattern": "c.*"}) == ["subscribe"]
    assert fields({**BROKER, "subscribePattern": "("}) == ["subscribePattern"]
    assert fields({**BROKER, "subscribe": " , "}) == ["subscribe"]


def test_a_batch_cannot_be_smaller_and_larger():
    assert fields({**CLICKS, "minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "9"}) == ["minOffsetsPerTrigger"]


def test_an_unknown_option_names_the_closest_one():
    with pytest.raises(InputError, match="did you mean 'maxOffsetsPerTrigger'"):
        parse(maxOffsetPerTrigger="5")
