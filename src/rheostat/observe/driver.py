"""Observation from inside the driver, by polling its JVM once a cycle.

Nothing is registered with Spark and nothing is called back, so nothing of ours can break a query; queries started
before and after are seen alike. Latest offsets come from the sources themselves, committed and planned ones from the
query's own memory, so the backlog is current also while a batch runs for minutes and no progress event comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from rheostat.errors import UnavailableError
from rheostat.model import JUMPS, NO_MEASURE, Batch, Cluster, Gap, Observation, Offsets, PartitionOffsets, QueryReading
from rheostat.observe.parse import (
    LOG_PROVIDER,
    MOST_STAGES,
    Latest,
    Progress,
    is_uncountable,
    merged,
    new_partitions,
    not_a_count,
    parse_executors,
    parse_progress,
    partition_map,
    partition_offsets,
    running_batch,
    skip_deleted,
    source_info,
    tell_apart,
    with_stages,
)
from rheostat.observe.wall import WallTimes
from rheostat.spark.jvm import DriverJvm, Position, QueryHandle, QueryPlan, Run, SourceLeaf, option_of
from rheostat.spark.kafka_admin import KafkaView, Place
from rheostat.spark.kafka_options import FORMAT
from rheostat.spark.kafka_topics import TopicsView
from rheostat.spark.log_files import latest_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_T = TypeVar("_T")
_UNREADABLE = (UnavailableError, ValueError, KeyError)
"""Raised for what cannot be read, or is not understood: it becomes a gap."""


class DriverSource:
    """The application of this driver (:class:`~rheostat.ports.Source`).

    Args:
        spark: a classic session.
        queries: the queries, or their names or ids; None: all of the application, whichever session started them.
        requested: returns the number of executors requested last, if any.
        limit_s: an observation that has lasted so long asks no further broker. It may last one answer longer.
        timeout_s: how long a broker may take for an answer.
        by_executor: whether to read what each executor did of the stages of batches.

    Raises:
        RefusedError: a Spark Connect session.
        UnavailableError: the JVM of the session does not answer.
    """

    def __init__(
        self,
        spark: SparkSession,
        queries: Iterable[str | StreamingQuery] | None = None,
        *,
        requested: Callable[[], int | None] = lambda: None,
        limit_s: float = 5.0,
        timeout_s: float = 2.0,
        by_executor: bool = False,
    ) -> None:
        self.jvm = DriverJvm(spark)
        self._by_executor = by_executor
        self._requested = requested
        self._limit_s = limit_s
        self._timeout_s = timeout_s
        self._queries = _Queries(self.jvm, queries)
        self._readers: dict[_Identity, _Reader] = {}
        self._batches: dict[str, Batch] = {}
        self._times = WallTimes()

    def observe(self, at: float) -> Observation:
        """Read once. What could not be read is a gap, with the reason; nothing is raised for it.

        The ``at`` of a section is when it was read: later than this ``at`` by what the observation took until then.
        """
        snapshot = _Snapshot(at, self._limit_s)
        self._times.begin(at)
        gaps: list[Gap] = []
        try:
            active = self._queries.poll(gaps)
            self._close_readers(but={_identity(leaf) for query in active for leaf in query.plan.leaves})
        except _UNREADABLE as error:
            return Observation(at, gaps=(Gap("queries", str(error)), Gap("cluster", str(error))))
        readings = [self._read_query(query, snapshot, gaps) for query in active]
        runs = {reading.run_id for reading in readings}
        self._batches = {run_id: batch for run_id, batch in self._batches.items() if run_id in runs}
        cluster = _try_read(gaps, None, "cluster", lambda: self._read_cluster(snapshot))
        return Observation(at, (*readings, *self._queries.failed()), cluster, tuple(gaps))

    def plans(self) -> tuple[QueryPlan, ...]:
        """Triggers and sources of the active queries; raises UnavailableError if the JVM does not answer."""
        return tuple(query.plan for query in self._queries.poll([]))

    def close(self) -> None:
        """Close the connections to brokers. Another observation would open them again."""
        with suppress(UnavailableError):
            self._close_readers(but=())

    def _read_cluster(self, snapshot: _Snapshot) -> Cluster:
        executors = parse_executors(self.jvm.executors(), partial(self._times.place, of="executor"))
        return Cluster.of(snapshot.now, executors, self._requested())

    def _read_query(self, query: _Query, snapshot: _Snapshot, gaps: list[Gap]) -> QueryReading:
        plan, handle = query.plan, query.handle
        try_read = partial(_try_read, gaps, plan.run.query_id)
        progress = try_read("batch", lambda: _read_progress(handle, self._times))
        position = try_read("running", lambda: _read_position(handle))
        offsets = try_read("offsets", lambda: self._read_offsets(plan, position, progress, snapshot)) or ()
        sources = (source_info(leaf.provider, leaf.options, read) for leaf, read in zip_longest(plan.leaves, offsets))
        batch, ended = self._read_batches(handle, plan.run.run_id, None if progress is None else progress.batch)
        return QueryReading(
            query_id=plan.run.query_id,
            run_id=plan.run.run_id,
            name=plan.name,
            trigger_s=plan.trigger.interval_s,
            sources=tuple(sources),
            offsets=merged(offsets),
            batch=batch,
            running=None if position is None else running_batch(position, snapshot.now, self._times.place),
            uncountable=find_uncountable(plan, position, progress),
            failed_before=self._queries.failed_before(plan.run),
            ended=ended,
        )

    def _read_batches(
        self, handle: QueryHandle, run_id: str, last: Batch | None
    ) -> tuple[Batch | None, tuple[Batch, ...]]:
        """The last batch, and those between it and the last one of the look before.

        Each with what its stages did, if Spark tells. They are read once, when the batch is new.
        """
        known = self._batches.get(run_id)
        if last is None:
            return None, ()
        if known is not None and known.batch_id == last.batch_id:
            return known, ()
        batches = [last]
        with suppress(*_UNREADABLE):
            if known is not None and known.batch_id + 1 < last.batch_id:
                events = [parse_progress(text).batch for text in handle.earlier_progress(known.batch_id, last.batch_id)]
                batches = [*(self._times.place_batch(each) for each in events if each is not None), last]
        with suppress(*_UNREADABLE):
            newest, others = (self.jvm.stages(MOST_STAGES), self.jvm.jobs(MOST_STAGES)), self._queries.runs - {run_id}
            by_executor = self.jvm.stage_executors if self._by_executor else None
            batches = [with_stages(each, run_id, *newest, others, by_executor) for each in batches]
        self._batches[run_id] = batches[-1]
        return batches[-1], tuple(batches[:-1])

    def _read_offsets(
        self, plan: QueryPlan, position: Position | None, progress: Progress | None, snapshot: _Snapshot
    ) -> tuple[Offsets, ...]:
        """The offsets of each source. All or none: the backlog of some sources would pass for that of all."""
        if plan.trigger.kind in NO_MEASURE:
            message = f"the query {NO_MEASURE[plan.trigger.kind]}: it is not measured"
            raise UnavailableError(message)
        if position is None:
            message = "the latest offsets were not asked for, because those of the query itself are not known"
            raise UnavailableError(message)
        if len(position.committed) != len(plan.leaves):
            message = f"the plan has {len(plan.leaves)} sources, the offsets are those of {len(position.committed)}"
            raise UnavailableError(message)
        found = []
        for number, leaf in enumerate(plan.leaves):
            reader = self._reader(leaf)
            latest = _reported_latest(leaf, number, progress) if reader is None else reader.latest(snapshot)
            planned, committed = position.planned[number], position.committed[number]
            new = new_partitions(latest.offsets, committed)
            earliest = {} if reader is None else reader.earliest(latest, new, snapshot)
            partitions = partition_offsets(latest.offsets, planned, committed, earliest)
            because = not_a_count(partitions) if reader is None else reader.inexact_because(partitions)
            found.append(Offsets.of(latest.at, skip_deleted(partitions, earliest), because is None, because))
        return tell_apart(found)

    def _reader(self, leaf: SourceLeaf) -> _Reader | None:
        """One for each source, however many queries read it; None if only progress events report its latest offsets."""
        identity = _identity(leaf)
        if identity not in self._readers:
            if leaf.provider == FORMAT:
                self._readers[identity] = _KafkaReader(TopicsView(leaf.options, self._timeout_s))
            elif leaf.provider == "kafka":
                self._readers[identity] = _KafkaReader(KafkaView(self.jvm.gateway, leaf.options, self._timeout_s))
            elif leaf.provider == LOG_PROVIDER:
                folder = _local_path(option_of(leaf.options, "path"))
                self._readers[identity] = _Reader(lambda _: latest_offsets(folder))
        return self._readers.get(identity)

    def _close_readers(self, but: Collection[_Identity]) -> None:
        for identity in set(self._readers).difference(but):
            self._readers.pop(identity).close()


def _try_read(gaps: list[Gap], query_id: str | None, section: str, read: Callable[[], _T]) -> _T | None:
    try:
        return read()
    except _UNREADABLE as error:
        gaps.append(Gap(section, str(error), query_id))
        return None


_parse = lru_cache(maxsize=32)(parse_progress)
"""The last event is asked for at each look, and what a large batch kept takes a while to count."""


def _read_progress(handle: QueryHandle, times: WallTimes) -> Progress:
    text = handle.progress()
    if text is None:
        raise UnavailableError("no batch of this run has ended yet")
    progress = _parse(text)
    batch = None if progress.batch is None else times.place_batch(progress.batch)
    return replace(progress, batch=batch, planned_at=times.place(progress.planned_at))


def _read_position(handle: QueryHandle) -> Position:
    position = handle.position()
    if position is None:
        raise UnavailableError("the query is starting and does not know its offsets yet")
    return position


def find_uncountable(plan: QueryPlan, position: Position | None = None, progress: Progress | None = None) -> str | None:
    """The trigger that is never measured, or the first source of which it can never be known how many records wait."""
    if plan.trigger.kind in NO_MEASURE:
        return plan.trigger.kind
    columns = [] if position is None else [position.planned, position.committed]
    columns += [] if progress is None else [progress.latest]
    for number, leaf in enumerate(plan.leaves):
        if is_uncountable(leaf.provider, [column[number] for column in columns if number < len(column)]):
            return leaf.provider
    return None


def _reported_latest(leaf: SourceLeaf, number: int, progress: Progress | None) -> Latest:
    """The latest offsets that the last progress event reports; as old as the planning of its batch."""
    if progress is not None and number < len(progress.latest):
        offsets = partition_map(progress.latest[number])
        if offsets is not None:
            return Latest(progress.planned_at, offsets)
    message = f"the source {leaf.provider!r} does not tell how many records wait in it"
    raise UnavailableError(message)


class _Snapshot:
    """One observation: when it began, on the loop's clock, and how long it may last."""

    def __init__(self, at: float, limit_s: float) -> None:
        self.at = at
        self._limit_s = limit_s
        self._began = time.monotonic()

    @property
    def now(self) -> float:
        """The present time on the loop's clock."""
        return self.at + (time.monotonic() - self._began)

    def require_time(self, doing: str) -> None:
        """Raise UnavailableError if this observation has lasted too long to wait for others."""
        if self.now - self.at >= self._limit_s:
            message = f"{doing}: not tried, because this observation has taken {self.now - self.at:.1f} s already"
            raise UnavailableError(message)


# Readers of the latest offsets: Kafka by the client of the source, or the files of the embedded log


_CHECK_EVERY_S = 60.0
_WHERE = ("subscribe", "subscribepattern", "assign", "path")
_Identity = tuple[str, frozenset[tuple[str, str]]]


class _Reader:
    """The latest offsets of one source, read once in a snapshot however many queries share it."""

    def __init__(self, read: Callable[[_Snapshot], Mapping[Place, int]]) -> None:
        self._read = read
        self._snapshot: _Snapshot | None = None
        self._found: Latest | UnavailableError | None = None

    def latest(self, snapshot: _Snapshot) -> Latest:
        if self._found is None or self._snapshot is not snapshot:
            self._snapshot = snapshot
            try:
                offsets = self._read(snapshot)
                self._found = Latest(snapshot.now, offsets)
            except UnavailableError as error:
                self._found = error
        if isinstance(self._found, UnavailableError):
            raise self._found
        return self._found

    def earliest(self, latest: Latest, new: Collection[Place], snapshot: _Snapshot) -> Mapping[Place, int]:  # noqa: ARG002
        """The offsets of the oldest records that can still be read; of the embedded log nothing is deleted."""
        return dict.fromkeys(latest.offsets, 0)

    def inexact_because(self, partitions: tuple[PartitionOffsets, ...]) -> str | None:
        """Why differences of these offsets are not a count of records; None: they are, as far as is known."""
        return not_a_count(partitions)

    def close(self) -> None:
        """Close connections."""


class _KafkaReader(_Reader):
    """Kafka. Earliest offsets and compaction are read once a minute."""

    def __init__(self, view: KafkaView | TopicsView) -> None:
        super().__init__(self._read_latest)
        self._view = view
        self._checked_at = float("-inf")
        self._earliest: Mapping[Place, int] = {}
        self._compacted: frozenset[str] = frozenset()

    def earliest(self, latest: Latest, new: Collection[Place], snapshot: _Snapshot) -> Mapping[Place, int]:  # noqa: ARG002
        if snapshot.at - self._checked_at >= _CHECK_EVERY_S or not self._earliest.keys() >= set(new):
            snapshot.require_time("asking Kafka for the earliest offsets")
            self._checked_at = snapshot.at
            self._earliest, self._compacted = self._view.check()
        return self._earliest

    def inexact_because(self, partitions: tuple[PartitionOffsets, ...]) -> str | None:
        because = not_a_count(partitions, self._earliest, self._compacted)
        return "transactions" if because not in JUMPS and self._view.subscription.read_committed else because

    def close(self) -> None:
        self._view.close()

    def _read_latest(self, snapshot: _Snapshot) -> Mapping[Place, int]:
        snapshot.require_time("asking Kafka for the latest offsets")
        return self._view.latest()


def _identity(leaf: SourceLeaf) -> _Identity:
    options = ((key.lower(), value) for key, value in leaf.options.items())
    return leaf.provider, frozenset((key, value) for key, value in options if key in _WHERE or key.startswith("kafka."))


def _local_path(path: str | None) -> Path:
    if not path:
        raise ValueError("a log source without a path")
    return Path(urlsplit(path).path if path.startswith("file:") else path)


# Which queries run, and which have failed


_MAX_FAILURES = 20


@dataclass(frozen=True, slots=True)
class _Query:
    """An active run, with what does not change while it runs."""

    handle: QueryHandle
    plan: QueryPlan


class _Queries:
    """The wanted queries of an application: active ones, and failed ones that were not started again since."""

    def __init__(self, jvm: DriverJvm, queries: Iterable[str | StreamingQuery] | None) -> None:
        self._jvm = jvm
        names = None if queries is None else (each if isinstance(each, str) else str(each.id) for each in queries)
        self._wanted = None if names is None else frozenset(names)
        self._known: dict[Run, _Query] = {}
        self._failed: dict[str, QueryReading] = {}
        self._failed_before: dict[Run, str] = {}

    def poll(self, gaps: list[Gap]) -> tuple[_Query, ...]:
        """The wanted runs that are active now. Adds a gap for each run of which nothing can be read."""
        if self._jvm.stopped():
            raise UnavailableError("Spark has been stopped")
        active = self._jvm.runs()
        for run in set(self._known) - set(active):
            self._forget(self._known.pop(run), gaps)
        for run in active:
            failed = self._failed.pop(run.query_id, None)
            if failed is not None and failed.failed_because is not None:
                self._failed_before[run] = failed.failed_because
        self._failed_before = {run: because for run, because in self._failed_before.items() if run in active}
        found = (self._find(run, gaps) for run in active)
        return tuple(query for query in found if query is not None and self._is_wanted(query.plan))

    @property
    def runs(self) -> frozenset[str]:
        """Ids of the runs of all queries, also of those that are not wanted."""
        return frozenset(run.run_id for run in self._known)

    def failed(self) -> tuple[QueryReading, ...]:
        return tuple(self._failed.values())

    def failed_before(self, run: Run) -> str | None:
        """The exception that ended the run before this one, if it was seen."""
        return self._failed_before.get(run)

    def _find(self, run: Run, gaps: list[Gap]) -> _Query | None:
        if run not in self._known:
            try:
                handle = self._jvm.query(run)
                if handle is None:
                    return None
                self._known[run] = _Query(handle, handle.plan())
            except _UNREADABLE as error:
                gaps.append(Gap("queries", str(error), run.query_id))
                return None
        return self._known[run]

    def _forget(self, query: _Query, gaps: list[Gap]) -> None:
        plan = query.plan
        if not self._is_wanted(plan):
            return
        try:
            because = query.handle.failure()
        except _UNREADABLE as error:
            gaps.append(Gap("queries", str(error), plan.run.query_id))
            return
        if because is not None:
            self._failed[plan.run.query_id] = QueryReading(
                query_id=plan.run.query_id,
                run_id=plan.run.run_id,
                name=plan.name,
                trigger_s=plan.trigger.interval_s,
                sources=tuple(source_info(leaf.provider, leaf.options) for leaf in plan.leaves),
                failed_because=because,
            )
            while len(self._failed) > _MAX_FAILURES:
                self._failed.pop(next(iter(self._failed)))

    def _is_wanted(self, plan: QueryPlan) -> bool:
        return self._wanted is None or not self._wanted.isdisjoint({plan.name, plan.run.query_id})
