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

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from rheostat.errors import Fault, InputError, RheostatError
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
from rheostat.spark.orders import Orders, OrdersFile

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, timestampType INT"
_HEADERS = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
_TIMEOUT_S = 10.0


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
        try:
            parse_kafka_options({**self.options}, streaming=True)
        except InputError:
            parse_kafka_options({**self.options}, streaming=False)
        has_headers = str(self.options.get("includeHeaders", "false")).strip().lower() == "true"
        edge, edges = (self.options.get(name, "") for name in ("edge", "edges"))
        names = [name.strip() for name in (edge, *edges.split(",")) if name.strip()]
        limits = "".join(f", `{name}`: LONG" for name in names)
        identity = f", rheostat STRUCT<draw: LONG{limits}>" if names else ""
        return _SCHEMA + (_HEADERS if has_headers else "") + identity

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


def _read_settings(options: KafkaOptions, keep: Mapping[str, int]) -> ReadSettings:
    return ReadSettings(
        client=tuple(sorted(options.client.items())),
        group=options.client.get("group.id", options.group_prefix),
        fails_on_loss=options.fails_on_loss,
        has_headers=options.has_headers,
        timeout_s=options.poll_timeout_s,
        edge=options.edge or "",
        edges=options.edges,
        keep=keep,
    )


class KafkaBatchReader(DataSourceReader):
    """Reads once, from ``startingOffsets`` to ``endingOffsets``."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        places = Places(self._options)
        begin, end = places.resolve(self._options.starting), places.resolve(self._options.ending)
        pieces = [Piece(*at, begin[at], end[at]) for at in sorted(begin) if end[at] > begin[at]]
        settings = _read_settings(self._options, {})
        shared = share_tasks(pieces, _at_least(self._options.least_tasks, pieces), self._options.most_task_records)
        found: list[InputPartition] = [KafkaInputPartition(task, settings) for task in shared]
        return found or [KafkaInputPartition((), settings)]  # Spark makes one of its own of none

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in one long-lived process beside the driver, and reads them in the executors."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self.places: Places | None = None
        self._end: Positions | None = None
        self._began_at = float("-inf")
        self._orders = None if options.orders is None else OrdersFile(Path(options.orders))

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's)
        """The start of a query without a checkpoint."""
        return offset_to_json(self._kafka.resolve(self._options.starting))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's)
        return ReadAllAvailable() if self._options.cap is None else ReadMaxRows(self._options.cap)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's)
        """The end of the next batch, with what holds for it; ``start`` itself if there is to be none."""
        orders = None if self._orders is None else self._orders.read(int(time.time() * 1000))
        if orders is not None and orders.paused:
            return start
        latest = self._kafka.latest() if self._end is None else self._end
        begin = self._kafka.follow(positions_of(start), latest)
        waiting = sum(max(0, latest[at] - begin[at]) for at in latest)
        if not waiting or self._waits_for_more(waiting):
            return start
        self._began_at = time.monotonic()
        cap = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if orders is not None and orders.records is not None:
            cap = orders.records
        end = admit_records(begin, latest, cap)
        known = positions_of(start)
        new = {at: begin[at] for at in begin if known.get(at) != begin[at]}
        return offset_to_json(end, _plan(new, orders))

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's)
        """The end of the topics, for ``latestOffset`` in progress events."""
        return offset_to_json(self._kafka.latest())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's)
        """Ignore what is appended from now on."""
        self._end = self._kafka.latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of the batch between two offsets: the same whenever it is run."""
        pieces, plan = pieces_between(start, end), plan_of(end)
        tasks = plan.read_tasks or _at_least(self._options.least_tasks, pieces)
        settings = _read_settings(self._options, plan.keep)
        shared = share_tasks(pieces, tasks, self._options.most_task_records)
        return [KafkaInputPartition(task, settings) for task in shared]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)

    def stop(self) -> None:
        if self.places is not None:
            self.places.close()

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


def _at_least(tasks: int | None, pieces: list[Piece]) -> int | None:
    return None if tasks is None else max(tasks, len(pieces))


def _plan(begin: Positions, orders: Orders | None) -> BatchPlan:
    if orders is None:
        return BatchPlan(begin)
    return BatchPlan(begin, orders.read_tasks or 0, orders.keep, orders.number)


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
        gone = sorted(set(known) - set(latest))
        anew = sorted(at for at, offset in latest.items() if offset < known.get(at, 0))
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


def _other_partitions(bound: Bound, partitions: tuple[TopicPartition, ...]) -> Fault:
    names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(bound.values))
    allowed = ", ".join(f"{topic}-{partition}" for topic, partition in partitions)
    return Fault("startingOffsets", names, allowed, "an offset is needed for each partition that is read, and no other")
