"""Reads pieces of Kafka's partitions in a Python worker of Spark, as Arrow batches.

Needs confluent-kafka, pyarrow and numpy. Consumers are kept in the worker from one batch to the next, so that only
the first one connects and logs in. Memory is bounded by the queue of a consumer, however much waits in Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rheostat.config.shedding import WHOLE
from rheostat.errors import RheostatError, UnavailableError
from rheostat.model import Threshold
from rheostat.spark.kafka_consumer import Connections, make_consumer
from rheostat.spark.kafka_offsets import Piece
from rheostat.spark.keep import ABOVE, DRAW, IDENTITY, draws, keep_mask, limits_of, seed_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from confluent_kafka import Consumer, Message
    from numpy.typing import NDArray

_MOST_RECORDS, _MOST_BYTES = 8192, 4 * 2**20
"""Of an Arrow batch; bytes as far as the size of the last record tells."""
_FIRST_RECORDS = 256
_POLL_S = 0.2
_ASK_AGAIN, _ASK_AGAIN_S = 3, 0.5
"""How often, and how soon, a broker is asked again whether a partition is gone: it may not know of a new one yet."""
_ASK_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How records are read.

    Attributes:
        client: settings of librdkafka.
        group: of the consumer; nothing is committed to it.
        fails_on_loss: whether records that are gone fail the task; otherwise they are skipped.
        has_headers: whether there is a column of headers.
        timeout_s: how long to wait for the next record.
        edge: at which the reader drops; None: at none.
        limited_edges: whose limits stand in the column ``rheostat``; without any there is no such column.
        keep: share × 10⁶ that each edge keeps.
        valued: edges that drop by value, whose thresholds stand in that column.
        above: those that are known.
    """

    client: tuple[tuple[str, str], ...]
    group: str
    fails_on_loss: bool = True
    has_headers: bool = False
    timeout_s: float = 120.0
    edge: str | None = None
    limited_edges: tuple[str, ...] = ()
    keep: Mapping[str, int] = field(default_factory=dict)
    valued: tuple[str, ...] = ()
    above: Mapping[str, Threshold] = field(default_factory=dict)


def read_piece(piece: Piece, settings: ReadSettings) -> Iterator[pa.RecordBatch]:
    """The records of a piece that the edge keeps, in order.

    Raises:
        RheostatError: records are gone, and that is a failure.
        UnavailableError: Kafka did not answer in time.
    """
    columns = _Columns(piece, settings)
    for messages in _consume(piece, settings):
        yield from columns.build(messages)


# Consuming


class _Kept(NamedTuple):
    consumer: Consumer
    connections: Connections


_CONSUMERS: dict[tuple[Any, ...], _Kept] = {}
"""Those of this worker process, by their settings."""


def _kept(settings: ReadSettings) -> _Kept:
    key = (settings.client, settings.group)
    if key not in _CONSUMERS:
        connections = Connections()
        _CONSUMERS[key] = _Kept(make_consumer(dict(settings.client), settings.group, connections), connections)
    return _CONSUMERS[key]


def _drop_consumer(settings: ReadSettings) -> None:
    kept = _CONSUMERS.pop((settings.client, settings.group), None)
    if kept is not None:
        kept.consumer.close()


def _consume(piece: Piece, settings: ReadSettings) -> Iterator[list[Message]]:
    """The records of a piece, many at a time. Its end is seen by a later record, or by the end of the partition."""
    from confluent_kafka import TopicPartition

    kept = _kept(settings)
    try:
        kept.consumer.assign([TopicPartition(piece.topic, piece.partition, piece.start)])
        yield from _consume_assigned(kept, piece, settings)
    except BaseException:
        _drop_consumer(settings)
        raise
    kept.consumer.unassign()


def _consume_assigned(kept: _Kept, piece: Piece, settings: ReadSettings) -> Iterator[list[Message]]:
    consumer, connections = kept
    position, deadline, many = piece.start, time.monotonic() + settings.timeout_s, _FIRST_RECORDS
    while position < piece.end:
        found = consumer.consume(min(many, piece.end - position), _POLL_S)
        connections.require_accepted(f"reading {_name(piece)}")
        events = [message for message in found if message.error() is not None]
        records = [message for message in found if message.error() is None] if events else found
        reached = max([position, *(_read_event(event, piece, position, settings) for event in events)])
        if events:
            connections.trouble = str(events[-1].error())
        if records:
            reached = max(reached, _offset(records[-1]) + 1)
            many = min(_MOST_RECORDS, _MOST_BYTES // max(1, len(records[-1])) + 1)
            yield [message for message in records if _offset(message) < piece.end] if reached > piece.end else records
        if reached > position:
            position, deadline = reached, time.monotonic() + settings.timeout_s
            connections.has_answer, connections.trouble = True, ""
        elif time.monotonic() > deadline:
            awaited = f"{_name(piece)}: no record of {position} to {piece.end - 1} in {settings.timeout_s:g} s"
            raise UnavailableError(f"{awaited} ({connections.trouble})" if connections.trouble else awaited)


def _read_event(message: Message, piece: Piece, position: int, settings: ReadSettings) -> int:
    """Up to where an event says that there is no further record; 0: it says nothing, as what passes by itself."""
    from confluent_kafka import KafkaError

    error: Any = message.error()
    if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (the only name it has)
        return _offset(message)
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):  # noqa: SLF001
        return _skip_lost(piece, position, settings)
    gone = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001
    if error.code() in gone:
        return _skip_gone(piece, position, settings)
    ends = (KafkaError._AUTHENTICATION, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._BAD_MSG)  # noqa: SLF001
    if error.fatal() or error.code() in (*ends, KafkaError._BAD_COMPRESSION):  # noqa: SLF001
        message_text = f"{_name(piece)}: {error.str()}"
        raise RheostatError(message_text)
    return 0


def _skip_gone(piece: Piece, position: int, settings: ReadSettings) -> int:
    """The end of a piece whose partition is gone, or a failure; 0: it is there, only the consumer did not know it."""
    from confluent_kafka import TopicPartition

    consumer = _kept(settings).consumer
    for _ in range(_ASK_AGAIN):
        if not _is_gone(piece, consumer):
            consumer.assign([TopicPartition(piece.topic, piece.partition, position)])
            return 0
        time.sleep(_ASK_AGAIN_S)
    if settings.fails_on_loss:
        raise _lost(piece, "the partition is gone")
    return piece.end


def _is_gone(piece: Piece, consumer: Consumer) -> bool:
    """Whether a broker says so."""
    from confluent_kafka import KafkaError, KafkaException

    try:
        about = consumer.list_topics(piece.topic, timeout=_ASK_TIMEOUT_S).topics[piece.topic]
    except KafkaException:
        return False
    if about.error is not None:
        return bool(about.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART)
    return piece.partition not in about.partitions


def _skip_lost(piece: Piece, position: int, settings: ReadSettings) -> int:
    """Where the records of the piece go on that are still there, or a failure."""
    from confluent_kafka import KafkaException, TopicPartition

    consumer, at = _kept(settings).consumer, TopicPartition(piece.topic, piece.partition)
    try:
        earliest, _ = consumer.get_watermark_offsets(at, timeout=_ASK_TIMEOUT_S)
    except KafkaException as error:
        raise _lost(piece, f"the oldest record that is left is not known: {error}") from error
    if settings.fails_on_loss:
        raise _lost(piece, f"the oldest record that is left is {earliest}")
    if position < earliest < piece.end:
        consumer.assign([TopicPartition(piece.topic, piece.partition, earliest)])
        return int(earliest)
    return piece.end


def _lost(piece: Piece, why: str) -> RheostatError:
    message = (
        f"records {piece.start} to {piece.end - 1} of {_name(piece)} are lost: {why}; "
        "with failOnDataLoss=false the query goes on without them"
    )
    return RheostatError(message)


def _name(piece: Piece) -> str:
    return f"{piece.topic}-{piece.partition}"


def _offset(message: Message) -> int:
    offset: Any = message.offset()
    return int(offset)


# Arrow


class _Columns:
    """Builds the columns of Spark's Kafka source."""

    def __init__(self, piece: Piece, settings: ReadSettings) -> None:
        self._piece, self._settings = piece, settings
        self._share = WHOLE if settings.edge is None else settings.keep.get(settings.edge, WHOLE)
        self._limits = limits_of(settings.limited_edges, settings.keep, settings.above)

    def build(self, messages: Sequence[Message]) -> Iterator[pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa

        offsets = np.array([message.offset() for message in messages], dtype=np.int64)
        kept, offsets = self._keep(messages, offsets)
        if not kept:
            return
        rows = len(kept)
        times = [message.timestamp() for message in kept]
        columns: dict[str, Any] = {
            "key": pa.array([message.key() for message in kept], type=pa.binary()),
            "value": pa.array([message.value() for message in kept], type=pa.binary()),
            "topic": pa.repeat(pa.scalar(self._piece.topic), rows),
            "partition": pa.repeat(pa.scalar(self._piece.partition, type=pa.int32()), rows),
            "offset": pa.array(offsets),
            "timestamp": pa.array([1000 * at_ms for _, at_ms in times], type=pa.timestamp("us", tz="UTC")),
            "timestampType": pa.array([kind - 1 for kind, _ in times], type=pa.int32()),
        }
        if self._settings.has_headers:
            columns["headers"] = pa.array([_headers(message) for message in kept], type=_headers_type())
        if self._limits:
            columns[IDENTITY] = self._identity(offsets)
        yield pa.RecordBatch.from_pydict(columns)

    def _identity(self, offsets: NDArray[np.int64]) -> pa.StructArray:
        """What :mod:`rheostat.spark.shedding` knows records by: a draw of their own, and the limits of the edges."""
        import numpy as np
        import pyarrow as pa

        drawn = draws(self._seed(""), offsets).view(np.int64)
        limits = {edge: pa.scalar(limit, type=pa.int64()) for edge, limit in self._limits.items()}
        for edge in self._settings.valued:
            threshold = self._settings.above.get(edge)
            limits[f"{edge}{ABOVE}"] = pa.scalar(None if threshold is None else threshold.value, type=pa.float64())
        repeated = [pa.repeat(limit, len(offsets)) for limit in limits.values()]
        return pa.StructArray.from_arrays([pa.array(drawn), *repeated], names=[DRAW, *limits])

    def _seed(self, edge: str) -> int:
        return seed_of(edge, self._piece.topic, self._piece.partition)

    def _keep(
        self, messages: Sequence[Message], offsets: NDArray[np.int64]
    ) -> tuple[Sequence[Message], NDArray[np.int64]]:
        """Those that the edge keeps; nothing is built of the others."""
        if self._share >= WHOLE:
            return messages, offsets
        mask = keep_mask(self._seed(self._settings.edge or ""), offsets, self._share)
        return [message for message, is_kept in zip(messages, mask, strict=True) if is_kept], offsets[mask]


def _headers(message: Message) -> list[dict[str, Any]] | None:
    headers: Any = message.headers()
    return [{"key": key, "value": value} for key, value in headers] if headers else None


def _headers_type() -> pa.DataType:
    import pyarrow as pa

    return pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
