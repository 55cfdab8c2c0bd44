"""Partitions and offsets of topics, by confluent-kafka, for processes without a JVM of their own."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rheostat.errors import UnavailableError
from rheostat.spark.kafka_admin import Place, Subscription, TopicPartition, subscription
from rheostat.spark.kafka_client import client_settings
from rheostat.spark.kafka_consumer import Connections

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_PARTITIONS_EVERY_S = 10.0
_CONNECT_S, _LOOK_S = 3.0, 0.05
_INTERNAL = ("__consumer_offsets", "__transaction_state")


class KafkaTopics:
    """What brokers tell about topics.

    All methods raise UnavailableError if they do not answer in time; RheostatError if they refuse login or certificate
    at the first question.

    Args:
        settings: of librdkafka (``bootstrap.servers``, ``security.protocol``, …).
        read_committed: whether only records of committed transactions are read.
        timeout_s: how long the brokers may take for an answer.
    """

    def __init__(self, settings: Mapping[str, str], *, read_committed: bool = False, timeout_s: float = 2.0) -> None:
        self.read_committed = read_committed
        self._settings: dict[str, str | int | float | bool] = dict(settings)
        self._timeout_s = timeout_s
        self._client: AdminClient | None = None
        self._counts: dict[str, int] = {}
        self._troubled: dict[str, str] = {}
        self._counted_at = float("-inf")
        self._connections = Connections()

    def partitions(self, wanted: Subscription) -> tuple[TopicPartition, ...]:
        """The partitions that a subscription reads, sorted; new ones are seen within ten seconds.

        Of topics that do not exist there are none. Of one whose partitions are not known for now nothing is said:
        UnavailableError.
        """
        counts = self._count(wanted.topics)
        for topic, error in self._troubled.items():
            if _is_wanted(topic, wanted):
                self.forget()
                message = f"asking Kafka for the partitions of {topic}: {error}"
                raise UnavailableError(message)
        if wanted.assigned:
            return tuple(at for at in wanted.assigned if at.partition < counts.get(at.topic, 0))
        topics = [topic for topic in counts if _is_wanted(topic, wanted)]
        return tuple(sorted(TopicPartition(topic, number) for topic in topics for number in range(counts[topic])))

    def earliest(self, partitions: Iterable[Place]) -> dict[Place, int]:
        """The offset of the oldest record that is still there."""
        return self._list(dict.fromkeys(partitions, _specs().earliest()))

    def latest(self, partitions: Iterable[Place]) -> dict[Place, int]:
        """The offset that the next record will get; with ``read_committed``, the last stable one."""
        return self._list(dict.fromkeys(partitions, _specs().latest()))

    def find_times(self, times_ms: Mapping[Place, int]) -> dict[Place, int]:
        """The offset of the first record that is at least as late; −1 where there is none."""
        return self._list({at: _specs().for_timestamp(time_ms) for at, time_ms in times_ms.items()})

    def compacted(self, topics: Iterable[str]) -> frozenset[str]:
        """Those that are compacted; none if the cluster hides the settings of topics."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined] # as OffsetSpec

        asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in sorted(topics)]
        try:
            futures = self._admin().describe_configs(asked, request_timeout=self._timeout_s) if asked else {}
            policies = {about.name: future.result(self._timeout_s + 1.0) for about, future in futures.items()}
        except (KafkaException, TimeoutError):
            return frozenset()
        return frozenset(topic for topic, found in policies.items() if "compact" in str(found["cleanup.policy"].value))

    def close(self) -> None:
        self._client = None

    def forget(self) -> None:
        """Ask for the partitions anew at the next question."""
        self._counted_at = float("-inf")

    def _list(self, specs: Mapping[Place, Any]) -> dict[Place, int]:
        from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaException
        from confluent_kafka import TopicPartition as At

        if not specs:
            return {}
        level = IsolationLevel.READ_COMMITTED if self.read_committed else IsolationLevel.READ_UNCOMMITTED
        asked = {At(topic, partition): spec for (topic, partition), spec in specs.items()}
        try:
            futures = self._admin().list_offsets(asked, isolation_level=level, request_timeout=self._timeout_s)
            found = {at: future.result(self._timeout_s + 1.0).offset for at, future in futures.items()}
        except (KafkaException, TimeoutError) as error:
            self.forget()
            doing = f"asking Kafka for the offsets of {', '.join(sorted({topic for topic, _ in specs}))}"
            raise self._failure(doing, error) from error
        unknown = sorted(f"{at.topic}-{at.partition}" for at, offset in found.items() if offset == OFFSET_INVALID)
        if unknown:
            message = f"asking Kafka for the offsets of {', '.join(unknown)}: there was no answer"
            raise UnavailableError(message)
        return dict(sorted(((at.topic, at.partition), int(offset)) for at, offset in found.items()))

    def _count(self, needed: Iterable[str]) -> Mapping[str, int]:
        """Partitions of each topic."""
        from confluent_kafka import KafkaException

        if time.monotonic() - self._counted_at >= _PARTITIONS_EVERY_S or not set(needed) <= set(self._counts):
            try:
                described = self._admin().list_topics(timeout=self._timeout_s).topics
            except KafkaException as error:
                raise self._failure("asking Kafka for its topics", error) from error
            self._connections.has_answer = True
            self._counts = {name: len(about.partitions) for name, about in described.items() if about.error is None}
            self._troubled = {name: str(about.error) for name, about in described.items() if not _is_known(about)}
            self._counted_at = time.monotonic()
        return self._counts

    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        if self._client is None:
            quiet = logging.Logger("rheostat.spark.kafka_topics", logging.CRITICAL)  # refused connections become errors
            quiet.addHandler(logging.NullHandler())
            self._connections = Connections()
            settings: dict[str, Any] = {**self._settings, "error_cb": self._connections.note}
            client = AdminClient(settings, logger=quiet)
            self._connect(client)
            self._client = client
        return self._client

    def _connect(self, client: AdminClient) -> None:
        """Look whether login or certificate are refused, which a question would only tell when its time is over."""
        answer = client.describe_cluster(request_timeout=min(_CONNECT_S, self._timeout_s))
        while not answer.done():
            client.poll(_LOOK_S)
            self._connections.require_accepted("connecting to Kafka")

    def _failure(self, doing: str, error: Exception) -> UnavailableError:
        """With what the client has said of its connections."""
        self._admin().poll(0.0)
        self._connections.require_accepted(doing)
        trouble, self._connections.trouble = self._connections.trouble, ""
        return UnavailableError(f"{doing}: {error} ({trouble})" if trouble else f"{doing}: {error}")


class TopicsView:
    """The offsets of one subscription, with the interface of :class:`~rheostat.spark.kafka_admin.KafkaView`.

    ``options``: those of the source ``rheostat-kafka``.
    """

    def __init__(self, options: Mapping[str, str], timeout_s: float = 2.0) -> None:
        self.subscription = subscription(options)
        committed = self.subscription.read_committed
        self._topics = KafkaTopics(client_settings(options), read_committed=committed, timeout_s=timeout_s)

    def latest(self) -> Mapping[Place, int]:
        """The offset that the next record of each partition will get; with read_committed, the last stable one."""
        return self._topics.latest(self._partitions())

    def check(self) -> tuple[Mapping[Place, int], frozenset[str]]:
        """Earliest offsets and compacted topics: none if the cluster hides the settings of topics."""
        partitions = self._partitions()
        return self._topics.earliest(partitions), self._topics.compacted({at.topic for at in partitions})

    def close(self) -> None:
        self._topics.close()

    def _partitions(self) -> tuple[TopicPartition, ...]:
        return self._topics.partitions(self.subscription)


def _is_wanted(topic: str, wanted: Subscription) -> bool:
    if wanted.pattern is not None:
        return topic not in _INTERNAL and re.fullmatch(wanted.pattern, topic) is not None
    return topic in wanted.topics or any(topic == at.topic for at in wanted.assigned)


def _is_known(about: Any) -> bool:
    """Whether it is known which partitions a topic has; one that does not exist has none."""
    from confluent_kafka import KafkaError

    return about.error is None or about.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def _specs() -> Any:
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined] # it forgot to export it

    return OffsetSpec
