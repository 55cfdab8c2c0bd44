"""What is known of topics from a broker's metadata, which a test gives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError

from rheostat.errors import UnavailableError
from rheostat.spark.kafka_admin import Subscription, TopicPartition
from rheostat.spark.kafka_topics import KafkaTopics

LEADERLESS = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
UNKNOWN = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
A0 = TopicPartition("a", 0)


class Client:
    """A client whose metadata a test gives: the number of partitions of a topic, or its error."""

    def __init__(self, **topics: Any) -> None:
        self.topics = topics

    def list_topics(self, timeout: float) -> Any:
        assert timeout > 0
        described = {
            name: SimpleNamespace(partitions={}, error=about)
            if isinstance(about, KafkaError)
            else SimpleNamespace(partitions=dict.fromkeys(range(about)), error=None)
            for name, about in self.topics.items()
        }
        return SimpleNamespace(topics=described)


def topics_of(client: Client) -> KafkaTopics:
    topics = KafkaTopics({})
    topics._client = client  # type: ignore[assignment]
    return topics


@pytest.mark.parametrize(
    "wanted",
    [Subscription(topics=("a", "b")), Subscription(pattern="a|b"), Subscription(assigned=(A0,))],
)
def test_a_topic_whose_partitions_are_not_known_for_now_has_not_lost_them(wanted: Subscription):
    client = Client(a=LEADERLESS, b=1)
    topics = topics_of(client)
    with pytest.raises(UnavailableError, match=r"the partitions of a: .*LEADER_NOT_AVAILABLE"):
        topics.partitions(wanted)
    client.topics["a"] = 2
    assert A0 in topics.partitions(wanted), "the next question asks anew"


def test_the_error_of_a_topic_that_is_not_read_does_no_harm():
    topics = topics_of(Client(a=1, c=LEADERLESS))
    assert topics.partitions(Subscription(topics=("a",))) == (A0,)
    assert topics.partitions(Subscription(pattern="[ab]")) == (A0,)


def test_a_topic_that_does_not_exist_has_no_partitions():
    topics = topics_of(Client(a=1, b=UNKNOWN))
    assert topics.partitions(Subscription(topics=("a", "b"))) == (A0,)
    assert topics.partitions(Subscription(assigned=(A0, TopicPartition("b", 0)))) == (A0,)


def test_a_pattern_leaves_out_internal_topics():
    assert topics_of(Client(a=1, __consumer_offsets=4)).partitions(Subscription(pattern=".*")) == (A0,)
