"""Latest offsets from outside the driver, by confluent-kafka."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rheostat.errors import UnavailableError

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

__all__ = ["KafkaOffsets"]

_PARTITIONS_EVERY_S = 10.0


class KafkaOffsets:
    """The latest offsets of topics.

    Args:
        settings: of librdkafka (``bootstrap.servers``, ``security.protocol``, …).
        read_committed: whether the query reads only records of committed transactions.
        timeout_s: how long the brokers may take for an answer.
    """

    def __init__(self, settings: Mapping[str, str], *, read_committed: bool = False, timeout_s: float = 2.0) -> None:
        self.read_committed = read_committed
        self._settings: dict[str, str | int | float | bool] = dict(settings)
        self._timeout_s = timeout_s
        self._client: AdminClient | None = None
        self._partitions: dict[str, int] = {}
        self._partitions_at = float("-inf")

    def latest(self, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        """The offset that the next record of each partition will get, by (topic, partition).

        Raises:
            UnavailableError: a topic does not exist, or the brokers do not answer in time.
        """
        return self._listed(sorted(set(topics)), earliest=False)

    def earliest(self, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        """The offset of the oldest record that is still there; raises as :meth:`latest`."""
        return self._listed(sorted(set(topics)), earliest=True)

    def close(self) -> None:
        """Let go of the client."""
        self._client = None

    def _listed(self, topics: list[str], *, earliest: bool) -> dict[tuple[str, int], int]:
        from confluent_kafka import IsolationLevel, KafkaException
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined] # it forgot to export it

        specs: Any = OffsetSpec
        level = IsolationLevel.READ_COMMITTED if self.read_committed else IsolationLevel.READ_UNCOMMITTED
        spec = specs.earliest() if earliest else specs.latest()
        try:
            asked = dict.fromkeys(self._all(topics), spec)
            if not asked:
                return {}
            futures = self._admin().list_offsets(asked, isolation_level=level, request_timeout=self._timeout_s)
            found = {at: future.result(self._timeout_s + 1.0).offset for at, future in futures.items()}
        except (KafkaException, TimeoutError) as error:
            self._partitions_at = float("-inf")
            message = f"asking Kafka for the offsets of {', '.join(topics)}: {error}"
            raise UnavailableError(message) from error
        return {(at.topic, at.partition): offset for at, offset in sorted(found.items(), key=lambda item: item[0])}

    def _all(self, topics: list[str]) -> list[TopicPartition]:
        from confluent_kafka import TopicPartition

        if time.monotonic() - self._partitions_at >= _PARTITIONS_EVERY_S or not set(topics) <= set(self._partitions):
            described = self._admin().list_topics(timeout=self._timeout_s).topics
            self._partitions = {name: len(about.partitions) for name, about in described.items()}
            self._partitions_at = time.monotonic()
        missing = [topic for topic in topics if topic not in self._partitions]
        if missing:
            message = f"Kafka has no topic {', '.join(missing)}"
            raise UnavailableError(message)
        return [TopicPartition(topic, number) for topic in topics for number in range(self._partitions[topic])]

    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        if self._client is None:
            self._client = AdminClient(self._settings, logger=_quiet())
        return self._client


def _quiet() -> logging.Logger:
    """A logger that says nothing of refused connections: the gaps of the observation tell of them."""
    logger = logging.Logger("rheostat.observe.kafka", logging.CRITICAL)
    logger.addHandler(logging.NullHandler())
    return logger
