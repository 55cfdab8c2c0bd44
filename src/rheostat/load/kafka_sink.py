"""Records into Kafka: idempotent, acknowledged by all replicas. Needs confluent-kafka; the only file here that does.

A broker that is away for a while loses and duplicates nothing: librdkafka keeps the records and retries for five
minutes, and the broker drops records that it already has.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from rheostat.errors import Fault, InputError, UnavailableError
from rheostat.load.payload import Records
from rheostat.load.producer import Receipt

_ANSWER_S = 8.0
_CREATE_S = 20.0
_PRODUCER = {
    "acks": "all",
    "enable.idempotence": True,
    "delivery.timeout.ms": 300_000,
    "linger.ms": 10,
    "partitioner": "consistent_random",
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 262_144,
    "reconnect.backoff.max.ms": 1_000,
}
_PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}  # noqa: SLF001 (public, but so named)


def ensure_topic(bootstrap: str, topic: str, partitions: int | None = None, *, create: bool = False) -> int:
    """Check that a topic exists, or create it; returns its number of partitions.

    ``partitions``: the number that it must have or is created with. None: any number; 8 for a new topic.

    Raises:
        UnavailableError: no broker answers, in ten seconds at most.
        InputError: no such topic, or it has another number of partitions.
    """
    admin = AdminClient(_client_options(bootstrap))
    try:
        topics = admin.list_topics(timeout=_ANSWER_S).topics  # all: asking for one creates it, if the broker does that
    except KafkaException as error:
        message = (
            f"no Kafka broker answered at {bootstrap} within {_ANSWER_S:.0f} s: start one (rheostat lab up), "
            f"or give the right --bootstrap ({error.args[0].str()})"
        )
        raise UnavailableError(message) from error
    if topic in topics:
        own = len(topics[topic].partitions)
        if partitions not in (None, own):
            message = f"the topic {topic} exists already, with another number of partitions"
            raise InputError([Fault("--partitions", str(partitions), str(own), message)])
        return own
    if not create:
        message = "the broker has no such topic: create it, or give --create and --partitions"
        raise InputError([Fault("--topic", topic, "a topic of the broker", message)])
    new = NewTopic(topic, partitions or 8, 1)
    try:
        admin.create_topics([new], operation_timeout=_CREATE_S)[topic].result(_CREATE_S)
    except (KafkaException, TimeoutError) as error:
        message = f"the topic {topic} could not be created: {error}"
        raise UnavailableError(message) from error
    return partitions or 8


class KafkaSink:
    """A :class:`~rheostat.load.producer.Sink` into a topic that exists (:func:`ensure_topic`).

    ``options``: of librdkafka besides ours, such as security settings.
    """

    def __init__(self, bootstrap: str, topic: str, options: Mapping[str, Any] | None = None) -> None:
        self._topic = topic
        self._acknowledged: list[int] = []
        self._size = self._failed = 0
        self._error: str | None = None
        self._finished = False
        try:
            self._producer = Producer({**_client_options(bootstrap), **_PRODUCER, **(options or {})})
        except (KafkaException, ValueError) as error:
            raise InputError([Fault("options", str(options), "options of librdkafka", str(error))]) from error

    def send(self, records: Records) -> int:
        for index, value in enumerate(records.values):
            on_delivery = partial(self._settle, records.first_id + index, len(value.encode()))
            key = None if records.keys is None else records.keys[index]
            try:
                self._producer.produce(self._topic, value, key, on_delivery=on_delivery)
            except BufferError:
                self._producer.poll(0.02)
                return index
            except KafkaException as error:
                self._error = self._error or f"Kafka takes no records for {self._topic}: {error}"
                return index
        return len(records)

    def collect(self) -> Receipt:
        self._producer.poll(0)
        receipt = Receipt(self._acknowledged, self._size, self._failed, self._error)
        self._acknowledged, self._size, self._failed, self._error = [], 0, 0, None
        return receipt

    def finish(self, timeout_s: float) -> Receipt:
        """Records that are not acknowledged in time are dropped from the queue, and stay in doubt."""
        if not self._finished:
            self._finished = True
            if self._producer.flush(timeout_s) > 0:
                self._producer.purge()
                self._producer.flush(1.0)
        return self.collect()

    def _settle(self, record_id: int, size: int, error: KafkaError | None, _: Any) -> None:
        if error is None:
            self._acknowledged.append(record_id)
            self._size += size
        elif error.code() not in _PURGED:
            self._failed += 1
            self._error = self._error or error.str()


def _client_options(bootstrap: str) -> dict[str, Any]:
    """Client options. librdkafka's log lines are dropped, since everything that matters is reported as an error."""
    log = logging.getLogger("rheostat.load.librdkafka")
    log.addHandler(logging.NullHandler())
    log.propagate = False
    return {"bootstrap.servers": bootstrap, "log_level": 0, "logger": log, "error_cb": lambda _: None}
