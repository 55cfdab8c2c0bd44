"""Latest offsets by Spark's own Kafka client in the driver's JVM, with the security settings of the query itself."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from rheostat.errors import UnavailableError
from rheostat.spark.jvm import translate_errors

_T = TypeVar("_T")

_PARTITIONS_EVERY_S = 10.0
_NOT_FOR_ADMIN = frozenset(
    {"kafka.isolation.level", "kafka.key.deserializer", "kafka.value.deserializer", "kafka.group.id"}
    | {"kafka.auto.offset.reset", "kafka.enable.auto.commit", "kafka.interceptor.classes"}
)
_LISTED = re.compile(r"([\w.-]+)-(\d+)=ListOffsetsResultInfo\(offset=(-?\d+), ")
_DESCRIBED = re.compile(r"\(name=(?P<topic>[\w.-]+), internal=|\(partition=(?P<value>\d+), ")
_CLEANUP = re.compile(r"type=TOPIC, name='(?P<topic>[\w.-]+)'|name=cleanup\.policy, value=(?P<value>[\w,]*), ")


Place = tuple[str, int]
"""A partition of a topic, where it is a key."""


class TopicPartition(NamedTuple):
    """One partition of a Kafka topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a Kafka source reads: one of topics, pattern and assigned is given.

    Attributes:
        pattern: topics whose whole name matches (Java's regular expressions).
        read_committed: whether only records of committed transactions are read.
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()
    read_committed: bool = False


def subscription(options: Mapping[str, str]) -> Subscription:
    """What the options of a Kafka source ask for; their names are not case-sensitive.

    Raises:
        ValueError: none of subscribe, subscribePattern and assign is there.
    """
    given = {key.lower(): value for key, value in options.items()}
    committed = given.get("kafka.isolation.level", "").strip().lower() == "read_committed"
    if "subscribe" in given:
        names = (name.strip() for name in given["subscribe"].split(","))
        return Subscription(topics=tuple(sorted({name for name in names if name})), read_committed=committed)
    if "subscribepattern" in given:
        return Subscription(pattern=given["subscribepattern"].strip(), read_committed=committed)
    if "assign" in given:
        pairs = [(topic, number) for topic, numbers in json.loads(given["assign"]).items() for number in numbers]
        assigned = tuple(sorted(TopicPartition(topic, int(number)) for topic, number in pairs))
        return Subscription(assigned=assigned, read_committed=committed)
    message = "a Kafka source without subscribe, subscribePattern or assign"
    raise ValueError(message)


def admin_properties(options: Mapping[str, str], timeout_s: float) -> dict[str, str]:
    """Properties of an admin client that gives up after ``timeout_s``, from the ``kafka.`` options of a source."""
    ours = {
        key[len("kafka.") :]: value
        for key, value in options.items()
        if key.lower().startswith("kafka.") and key.lower() not in _NOT_FOR_ADMIN
    }
    limit = str(int(timeout_s * 1000))
    return ours | {
        "client.id": "rheostat",
        "request.timeout.ms": limit,
        "default.api.timeout.ms": limit,
        "reconnect.backoff.ms": "200",
        "reconnect.backoff.max.ms": "5000",
        "retries": "2",
    }


class KafkaView:
    """The offsets of one subscription. Its methods raise UnavailableError when Kafka does not answer understandably.

    The client is made at the first question and kept. A question takes at most ``timeout_s`` to be answered by a
    broker, twice that in the cycle in which the partitions are asked for as well; every ten seconds.
    """

    def __init__(self, jvm: Any, options: Mapping[str, str], timeout_s: float = 2.0) -> None:
        self.subscription = subscription(options)
        self._jvm = jvm
        self._properties = admin_properties(options, timeout_s)
        self._timeout_s = timeout_s
        self._client: Any = None
        self._list_options: Any = None
        self._millis: Any = None
        self._partitions: tuple[TopicPartition, ...] = ()
        self._partitions_at = float("-inf")
        self._latest_query: Any = None
        self._matches: dict[str, bool] = {}

    def latest(self) -> Mapping[tuple[str, int], int]:
        """The offset that the next record of each partition will get; with read_committed, the last stable one."""
        return self._ask("asking Kafka for the latest offsets", lambda: self._list_offsets(self._latest_query))

    def check(self) -> tuple[Mapping[tuple[str, int], int], frozenset[str]]:
        """Earliest offsets and compacted topics: none if the cluster hides the settings of topics."""
        return self._ask("asking Kafka for the earliest offsets", self._check)

    def close(self) -> None:
        """Close the client, without waiting for what it may still be asking."""
        client, self._client = self._client, None
        self._latest_query = None
        if client is not None:
            with translate_errors("closing the Kafka client"):
                client.close(self._jvm.java.time.Duration.ofMillis(0))

    def _ask(self, doing: str, ask: Callable[[], _T]) -> _T:
        """The answer. Partitions may be gone since they were listed: then they are listed anew, and asked for again."""
        began, listed_at = time.monotonic(), self._partitions_at
        try:
            with translate_errors(doing):
                self._refresh_partitions()
                return ask()
        except (UnavailableError, ValueError) as error:
            old = self._partitions_at == listed_at > float("-inf")
            self._partitions_at = float("-inf")
            if old and time.monotonic() - began < self._timeout_s:
                return self._ask(doing, ask)
            if isinstance(error, UnavailableError):
                raise
            message = f"{doing}: {error}"
            raise UnavailableError(message) from error

    def _check(self) -> tuple[Mapping[tuple[str, int], int], frozenset[str]]:
        earliest = self._query(self._jvm.org.apache.kafka.clients.admin.OffsetSpec.earliest())
        return self._list_offsets(earliest), self._compacted()

    def _list_offsets(self, query: Any) -> Mapping[tuple[str, int], int]:
        if not self._partitions:
            return {}
        text = self._got(self._admin().listOffsets(query, self._list_options).all()).toString()
        return listed_offsets(text, len(self._partitions))

    def _refresh_partitions(self) -> None:
        now = time.monotonic()
        if now - self._partitions_at < _PARTITIONS_EVERY_S:
            return
        found = self.subscription.assigned or self._described()
        if found != self._partitions or self._latest_query is None:
            self._partitions = found
            self._latest_query = self._query(self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest())
        self._partitions_at = now

    def _described(self) -> tuple[TopicPartition, ...]:
        topics = self.subscription.topics
        if self.subscription.pattern is not None:
            names = topics_listed(str(self._got(self._admin().listTopics().names()).toString()))
            topics = tuple(name for name in names if self._wanted(name))
        if not topics:
            return ()
        described = self._admin().describeTopics(self._jvm_list(topics)).allTopicNames()
        return topic_partitions(str(self._got(described).toString()))

    def _wanted(self, topic: str) -> bool:
        if topic not in self._matches:
            self._matches[topic] = bool(self._jvm.java.util.regex.Pattern.matches(self.subscription.pattern, topic))
        return self._matches[topic]

    def _compacted(self) -> frozenset[str]:
        config = self._jvm.org.apache.kafka.common.config.ConfigResource
        kind = config.Type.valueOf("TOPIC")
        topics = sorted({topic for topic, _ in self._partitions})
        resources = self._jvm_list([config(kind, topic) for topic in topics])
        try:
            with translate_errors("reading the settings of the topics"):
                text = str(self._got(self._admin().describeConfigs(resources).all()).toString())
        except UnavailableError:
            return frozenset()
        return frozenset(topic for topic, policy in cleanup_policies(text).items() if "compact" in policy)

    def _query(self, spec: Any) -> Any:
        query = self._jvm.java.util.HashMap()
        for topic, partition in self._partitions:
            query.put(self._jvm.org.apache.kafka.common.TopicPartition(topic, partition), spec)
        return query

    def _jvm_list(self, values: Any) -> Any:
        made = self._jvm.java.util.ArrayList()
        for value in values:
            made.add(value)
        return made

    def _got(self, future: Any) -> Any:
        return future.get(int(self._timeout_s * 1000) + 500, self._millis)

    def _admin(self) -> Any:
        if self._client is None:
            properties = self._jvm.java.util.Properties()
            for key, value in self._properties.items():
                properties.setProperty(key, value)
            kafka = self._jvm.org.apache.kafka
            level = "READ_COMMITTED" if self.subscription.read_committed else "READ_UNCOMMITTED"
            self._list_options = kafka.clients.admin.ListOffsetsOptions(kafka.common.IsolationLevel.valueOf(level))
            self._millis = self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS
            self._client = kafka.clients.admin.Admin.create(properties)
        return self._client


# The client's answers as text: one round trip, where many objects would take one for each value


def listed_offsets(text: str, expected: int) -> Mapping[tuple[str, int], int]:
    """The answer of Kafka's admin client to ``listOffsets``, which must be about ``expected`` partitions."""
    offsets = {(topic, int(number)): int(offset) for topic, number, offset in _LISTED.findall(text)}
    if len(offsets) != expected:
        message = f"offsets of {expected} partitions were asked for, {len(offsets)} were understood: {text[:200]}"
        raise ValueError(message)
    return offsets


def topic_partitions(text: str) -> tuple[TopicPartition, ...]:
    """The partitions in the answer to ``describeTopics``, sorted."""
    return tuple(sorted(TopicPartition(topic, int(number)) for topic, number in _by_topic(_DESCRIBED, text)))


def topics_listed(text: str) -> tuple[str, ...]:
    """The names in the text of a set of topics, sorted."""
    return tuple(sorted(name for name in text.strip("[]").split(", ") if name))


def cleanup_policies(text: str) -> Mapping[str, str]:
    """``cleanup.policy`` of each topic in the answer to ``describeConfigs``."""
    return dict(_by_topic(_CLEANUP, text))


def _by_topic(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, str]]:
    topic: str | None = None
    for match in pattern.finditer(text):
        if match["topic"] is not None:
            topic = match["topic"]
        elif topic is not None:
            yield topic, match["value"]
