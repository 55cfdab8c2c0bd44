"""A Kafka source that takes orders: format ``rheostat-kafka``.

::

    register(spark)
    spark.readStream.format("rheostat-kafka").option("kafka.bootstrap.servers", "broker:9092").option(
        "subscribe", "clicks"
    ).load()

Options, columns and meanings are those of Spark's own Kafka source (:mod:`rheostat.spark.kafka_options`). Orders of a
controller (:mod:`rheostat.spark.orders`) change, from one batch to the next, in how many tasks a batch is read, how
large it is, whether one begins at all, and which share of the records the first edge keeps. They are part of the offset
at which the batch ends, so a batch that runs again reads and keeps the same records.

Spark 4.2 or later. Executors need this package with its extras ``spark`` and ``kafka``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from rheostat.errors import Fault, InputError, RheostatError, UnavailableError
from rheostat.spark.kafka_admin import Place, TopicPartition
from rheostat.spark.kafka_offsets import (
    BatchPlan,
    Piece,
    Positions,
    admit_records,
    offset_to_json,
    pieces_between,
    plan_of,
    positions_of,
    share_tasks,
)
from rheostat.spark.kafka_options import EARLIEST, FORMAT, LATEST, Bound, KafkaOptions, parse_kafka_options
from rheostat.spark.kafka_reader import ReadSettings, read_piece
from rheostat.spark.kafka_topics import KafkaTopics
from rheostat.spark.keep import ABOVE, DRAW, IDENTITY
from rheostat.spark.orders import Orders, OrdersFile, now_ms

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, timestampType INT"
_HEADERS = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
_TIMEOUT_S = 10.0
_LOOK_S = 0.1
_ASK_AGAIN, _ASK_AGAIN_S = 3, 0.5
"""How often, and how soon, Kafka is asked again whether a partition has fewer records than before: a new leader may
know of fewer for a moment."""

_LOG = logging.getLogger(__name__)


def register(spark: SparkSession) -> None:
    """Make ``rheostat-kafka`` known to a session. May be called more than once."""
    spark.dataSource.register(KafkaSource)


class KafkaSource(DataSource):
    """The data source; Spark makes one for each ``load()`` and pickles it to where it plans and reads."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        """The columns. Called at ``load()``, so faults in options are reported here.

        Raises:
            InputError: what is wrong for a stream and for a batch query alike.
        """
        options = self._parse_for_either()
        limits = "".join(f", `{edge}`: LONG" for edge in options.limited_edges)
        limits += "".join(f", `{edge}{ABOVE}`: DOUBLE" for edge in options.valued)
        identity = f", {IDENTITY} STRUCT<{DRAW}: LONG{limits}>" if limits else ""
        return _SCHEMA + (_HEADERS if options.has_headers else "") + identity

    def _parse_for_either(self) -> KafkaOptions:
        """Nobody knows yet whether a stream or a batch query is meant."""
        options = {**self.options}
        try:
            return parse_kafka_options(options, streaming=True)
        except InputError as for_stream:
            try:
                return parse_kafka_options(options, streaming=False)
            except InputError as for_batch:
                common = [fault for fault in for_stream.faults if fault in for_batch.faults]
                raise InputError(common or for_stream.faults) from None

    def streamReader(self, schema: StructType) -> KafkaStreamReader:  # noqa: ARG002, N802 (Spark's)
        return KafkaStreamReader(parse_kafka_options({**self.options}, streaming=True))

    def reader(self, schema: StructType) -> KafkaBatchReader:  # noqa: ARG002
        return KafkaBatchReader(parse_kafka_options({**self.options}, streaming=False))


@dataclass(frozen=True)
class KafkaInputPartition(InputPartition):
    """What one task reads."""

    pieces: tuple[Piece, ...]
    settings: ReadSettings


def _read(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, KafkaInputPartition):
        message = f"not a partition of {FORMAT}: {partition!r}"
        raise TypeError(message)
    for piece in partition.pieces:
        yield from read_piece(piece, partition.settings)


def _plan_tasks(options: KafkaOptions, pieces: list[Piece], plan: BatchPlan) -> list[InputPartition]:
    settings = ReadSettings(
        client=tuple(sorted(options.client.items())),
        group=options.client.get("group.id", options.group_prefix),
        fails_on_loss=options.fails_on_loss,
        has_headers=options.has_headers,
        timeout_s=options.poll_timeout_s,
        edge=options.edge,
        limited_edges=options.limited_edges,
        keep=plan.keep,
        valued=options.valued,
        above=plan.above,
    )
    tasks = plan.read_tasks or (None if options.least_tasks is None else max(options.least_tasks, len(pieces)))
    shared = share_tasks(pieces, tasks, options.most_task_records)
    return [KafkaInputPartition(task, settings) for task in shared or [()]]  # Spark makes a task of its own of none


class KafkaBatchReader(DataSourceReader):
    """Reads once, from ``startingOffsets`` to ``endingOffsets``."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        places = Places(self._options)
        begin, end = places.resolve(self._options.starting), places.resolve(self._options.ending)
        pieces = [Piece(*at, begin[at], end[at]) for at in sorted(begin) if end[at] > begin[at]]
        return _plan_tasks(self._options, pieces, BatchPlan())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in one long-lived process beside the driver, and reads them in the executors."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self.places: Places | None = None
        self._initial: Positions | None = None
        self._end: Positions | None = None
        self._began_at = float("-inf")
        self._away_since: float | None = None
        self._orders = None if options.orders is None else OrdersFile(Path(options.orders))

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's)
        """The start of a query without a checkpoint: the same however often Spark asks."""
        if self._initial is None:
            found = self._kafka.resolve(self._options.starting)
            ends = {} if self._end is None else self._end
            self._initial = {at: min(offset, ends.get(at, offset)) for at, offset in found.items()}
        return offset_to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's)
        return ReadAllAvailable() if self._options.cap is None else ReadMaxRows(self._options.cap)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's)
        """The end of the next batch, with what holds for it; ``start`` itself if there is to be none.

        There is none while Kafka does not answer, for as long as a task would wait for a record.
        """
        if self._is_paused():
            return start
        orders = None if self._orders is None else self._orders.read(now_ms())
        known = positions_of(start)
        try:
            latest = self._kafka.latest() if self._end is None else self._end
            begin = self._kafka.follow(known, latest)
        except UnavailableError as error:
            self._wait_for_kafka(error)
            return start
        self._away_since = None
        waiting = sum(max(0, latest[at] - begin[at]) for at in latest)
        if not waiting or self._waits_for_more(waiting):
            return start
        self._began_at = time.monotonic()
        cap = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if orders is not None and orders.records is not None:
            cap = orders.records
        end = admit_records(begin, latest, cap)
        is_first = known == self._initial  # the checkpoint does not keep where the first batch begins
        new = {at: begin[at] for at in begin if is_first or known.get(at) != begin[at]}
        return offset_to_json(end, _plan(new, orders, self._options.edge))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 (Spark's)
        """The end of the topics, for ``latestOffset`` in progress events; None: Kafka does not answer."""
        try:
            return offset_to_json(self._kafka.latest())
        except UnavailableError:
            return None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's)
        """Ignore what is appended from now on."""
        while self._end is None:
            try:
                self._end = self._kafka.latest()
            except UnavailableError as error:
                self._wait_for_kafka(error)
        self._away_since = None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of the batch between two offsets: the same whenever it is run."""
        return _plan_tasks(self._options, pieces_between(start, end), plan_of(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)

    def stop(self) -> None:
        if self.places is not None:
            self.places.close()

    def _is_paused(self) -> bool:
        """Whether no batch may begin. A query that reads what is there waits: without a batch it would end."""
        while self._orders is not None and self._orders.is_paused(now_ms()):
            if self._end is None:
                return True
            time.sleep(_LOOK_S)
        return False

    def _wait_for_kafka(self, error: UnavailableError) -> None:
        """Say once that Kafka does not answer; raise the error if it has not for too long."""
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
            _LOG.warning("no batch begins while Kafka does not answer: %s", error)
        if now - self._away_since > self._options.poll_timeout_s:
            raise error

    def _waits_for_more(self, waiting: int) -> bool:
        least = self._options.least
        if least is None or self._end is not None or waiting >= least:
            return False
        return time.monotonic() - self._began_at < self._options.longest_wait_s

    @property
    def _kafka(self) -> Places:
        if self.places is None:  # not in __init__: the reader is pickled to the executors
            self.places = Places(self._options)
        return self.places


def _plan(begin: Positions, orders: Orders | None, edge: str | None) -> BatchPlan:
    if orders is None:
        return BatchPlan(begin, edge=edge)
    return BatchPlan(begin, orders.read_tasks or 0, orders.keep, orders.number, edge, orders.above)


class Places:
    """Positions in the topics of a subscription, as Kafka tells them now."""

    def __init__(self, options: KafkaOptions, topics: KafkaTopics | None = None) -> None:
        self._options = options
        committed = options.subscription.read_committed
        self._topics = topics or KafkaTopics(options.client, read_committed=committed, timeout_s=_TIMEOUT_S)

    def close(self) -> None:
        self._topics.close()

    def latest(self) -> dict[Place, int]:
        return self._topics.latest(self._partitions())

    def resolve(self, bound: Bound) -> dict[Place, int]:
        """Where a bound is in each partition.

        Raises:
            InputError: it names other partitions than those that are read, or no record is as late.
        """
        partitions = self._partitions()
        if bound.kind == "earliest":
            return self._topics.earliest(partitions)
        if bound.kind == "latest":
            return self._topics.latest(partitions)
        if bound.kind == "timestamp":
            return self._resolve_times(dict.fromkeys(partitions, bound.timestamp or 0), bound)
        if set(bound.values) != set(partitions):
            raise InputError([_other_partitions(bound, partitions)])
        if bound.kind == "timestamps":
            return self._resolve_times(bound.values, bound)
        named = dict(bound.values)
        named |= self._topics.earliest(at for at, offset in bound.values.items() if offset == EARLIEST)
        named |= self._topics.latest(at for at, offset in bound.values.items() if offset == LATEST)
        return named

    def follow(self, known: Positions, latest: Positions) -> dict[Place, int]:
        """Where the next batch begins: where the last one ended; at the first record of what is new or made anew.

        Raises:
            RheostatError: partitions are gone, or were made anew, and that is a failure.
        """
        gone, anew = _lost_places(known, latest)
        for _ in range(_ASK_AGAIN if gone or anew else 0):
            time.sleep(_ASK_AGAIN_S)
            self._topics.forget()
            gone, anew = _lost_places(known, self.latest())
            if not (gone or anew):
                raise UnavailableError("Kafka told of fewer records than there are")  # the next question will tell
        if self._options.fails_on_loss and (gone or anew):
            names = ", ".join(f"{topic}-{partition}" for topic, partition in (*gone, *anew))
            message = (
                f"records of {names} are lost: the partitions are gone, or were made anew; "
                "with failOnDataLoss=false the query goes on without them"
            )
            raise RheostatError(message)
        begins = self._topics.earliest([at for at in latest if at not in known or at in anew])
        return {at: begins.get(at, known.get(at, 0)) for at in latest}

    def _resolve_times(self, times_ms: Mapping[Place, int], bound: Bound) -> dict[Place, int]:
        found = self._topics.find_times(times_ms)
        none = [at for at, offset in found.items() if offset < 0]
        if none and not bound.else_latest:
            names = ", ".join(f"{topic}-{partition} at {times_ms[topic, partition]}" for topic, partition in none)
            message = "there is no record as late; with startingOffsetsByTimestampStrategy=latest it begins at the end"
            raise InputError([Fault("startingTimestamp", names, "a time with a record after it", message)])
        return found | self._topics.latest(none)

    def _partitions(self) -> tuple[TopicPartition, ...]:
        """Those that are read.

        Raises:
            RheostatError: a topic, or a partition, that was named does not exist.
        """
        wanted = self._options.subscription
        found = self._topics.partitions(wanted)
        missing = set(wanted.topics) - {topic for topic, _ in found} or set(wanted.assigned) - set(found)
        if missing and self._options.fails_on_loss:
            message = f"Kafka has no {', '.join(str(each) for each in sorted(missing, key=str))}"
            raise RheostatError(message)
        return found


def _lost_places(known: Positions, latest: Positions) -> tuple[list[Place], list[Place]]:
    """The partitions that are gone, and those that have fewer records than were read."""
    gone = sorted(set(known) - set(latest))
    return gone, sorted(at for at, offset in latest.items() if offset < known.get(at, 0))


def _other_partitions(bound: Bound, partitions: tuple[TopicPartition, ...]) -> Fault:
    names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(bound.values))
    allowed = ", ".join(f"{topic}-{partition}" for topic, partition in partitions)
    return Fault("startingOffsets", names, allowed, "an offset is needed for each partition that is read, and no other")
