"""Observation from inside the driver, through its own JVM, by looking once a cycle.

Nothing is registered with Spark and nothing is called back, so nothing of ours can break a query; queries started
before and after are seen alike. Latest offsets come from the sources themselves, committed and planned ones from the
query's own memory, so the backlog is current also while a batch runs for minutes and no progress event comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import starmap, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit

from rheostat.errors import UnavailableError
from rheostat.model import (
    Batch,
    Cluster,
    Gap,
    Observation,
    Offsets,
    PartitionOffsets,
    QueryReading,
    RunningBatch,
    SourceInfo,
)
from rheostat.observe.parse import (
    LOG_PROVIDER,
    MOST_STAGES,
    Latest,
    Progress,
    merged,
    not_a_count,
    option,
    parse_executors,
    parse_progress,
    partition_map,
    partition_offsets,
    source_info,
    with_stages,
)
from rheostat.spark import log_files as log_folder
from rheostat.spark.jvm import DriverJvm, Position, QueryHandle, QueryPlan, Run, SourceLeaf
from rheostat.spark.kafka_admin import KafkaView

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_T = TypeVar("_T")


class DriverSource:
    """The application of this driver.

    Args:
        spark: a classic session.
        queries: names or ids of the queries to look at, or the queries themselves; None: all of the application,
            whichever session started them.
        requested: tells the number of executors asked for last, if anybody asked.
        limit_s: a look that has lasted so long asks no further broker. It may last one answer longer.
        timeout_s: how long a broker may take for an answer.

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
    ) -> None:
        self.jvm = DriverJvm(spark)
        self._requested = requested
        self._limit_s = limit_s
        self._watching = Watching(self.jvm, queries)
        self._readers = Readers(self.jvm.gateway, timeout_s)
        self._batches: dict[str, Batch] = {}

    def observe(self, at: float) -> Observation:
        """Look once. What could not be seen is a gap, with the reason; nothing is raised for it.

        The ``at`` of a section is when it was read: later than this ``at`` by what the look took until then.
        """
        look = Snapshot(at, self._limit_s)
        gaps: list[Gap] = []
        try:
            active = self._watching.look(gaps)
            self._readers.keep(leaf for watched in active for leaf in watched.plan.leaves)
        except NOT_SEEN as error:
            return Observation(at, gaps=(Gap("queries", str(error)), Gap("cluster", str(error))))
        queries = [self._query(watched, look, gaps) for watched in active]
        self._batches = {query.run_id: query.batch for query in queries if query.batch is not None}
        cluster = _tried(gaps, None, "cluster", lambda: self._cluster(look))
        return Observation(at, (*queries, *self._watching.failed()), cluster, tuple(gaps))

    def plans(self) -> tuple[QueryPlan, ...]:
        """Triggers and sources of the queries that are active now, for whoever must refuse some.

        Raises:
            UnavailableError: Spark has been stopped, or its JVM does not answer.
        """
        return tuple(watched.plan for watched in self._watching.look([]))

    def close(self) -> None:
        """Close the connections to brokers. Another look would open them again."""
        with suppress(UnavailableError):
            self._readers.keep(())

    def _cluster(self, look: Snapshot) -> Cluster:
        executors = parse_executors(self.jvm.executors())
        return Cluster.of(look.now, executors, self._requested())

    def _query(self, watched: Watched, look: Snapshot, gaps: list[Gap]) -> QueryReading:
        plan, query_id = watched.plan, watched.plan.run.query_id
        noting = partial(_tried, gaps, query_id)
        progress = noting("batch", lambda: _last_progress(watched.handle))
        position = noting("running", lambda: _position(watched.handle))
        offsets = noting("offsets", lambda: self._offsets(plan, position, progress, look)) or ()
        counts = [len(found.topics) for found in offsets]
        return QueryReading(
            query_id=query_id,
            run_id=plan.run.run_id,
            name=plan.name,
            trigger_s=plan.trigger.interval_s,
            sources=tuple(starmap(_info, zip_longest(plan.leaves, counts))),
            offsets=merged(offsets),
            batch=None if progress is None or progress.batch is None else self._batch(plan.run.run_id, progress.batch),
            running=None if position is None else _running(position, look.now),
        )

    def _batch(self, run_id: str, batch: Batch) -> Batch:
        """With what its stages did, asked for once, when it is new; without, where Spark does not say."""
        before = self._batches.get(run_id)
        if before is None or before.batch_id != batch.batch_id:
            with suppress(*NOT_SEEN):
                batch = with_stages(batch, run_id, self.jvm.stages(MOST_STAGES))
            self._batches[run_id] = before = batch
        return before

    def _offsets(
        self, plan: QueryPlan, position: Position | None, progress: Progress | None, look: Snapshot
    ) -> tuple[Offsets, ...]:
        """The offsets of each source. All or none: the backlog of some sources would pass for that of all."""
        if position is None:
            message = "the latest offsets were not asked for, because those of the query itself are not known"
            raise UnavailableError(message)
        if len(position.committed) != len(plan.leaves):
            message = f"the plan has {len(plan.leaves)} sources, the offsets are those of {len(position.committed)}"
            raise UnavailableError(message)
        return tuple(self._source(plan.leaves[n], n, position, progress, look) for n in range(len(plan.leaves)))

    def _source(
        self, leaf: SourceLeaf, number: int, position: Position, progress: Progress | None, look: Snapshot
    ) -> Offsets:
        reader = self._readers.of(leaf)
        latest = _reported(leaf, number, progress) if reader is None else reader.latest(look)
        found = partition_offsets(latest.offsets, position.planned[number], position.committed[number])
        because = not_a_count(found, {}, frozenset()) if reader is None else reader.inexact_because(found, look)
        return Offsets.of(latest.at, found, because is None, because)


def _tried(gaps: list[Gap], query_id: str | None, section: str, see: Callable[[], _T]) -> _T | None:
    """What ``see`` gives; None, and a gap, for what could not be seen."""
    try:
        return see()
    except NOT_SEEN as error:
        gaps.append(Gap(section, str(error), query_id))
        return None


def _info(leaf: SourceLeaf, partitions: int | None) -> SourceInfo:
    return source_info(leaf.provider, leaf.options, partitions)


def _last_progress(handle: QueryHandle) -> Progress:
    text = handle.progress()
    if text is None:
        message = "no batch of this run has ended yet"
        raise UnavailableError(message)
    return parse_progress(text)


def _position(handle: QueryHandle) -> Position:
    position = handle.position()
    if position is None:
        message = "the query is starting and does not know its offsets yet"
        raise UnavailableError(message)
    return position


def _running(position: Position, at: float) -> RunningBatch:
    return RunningBatch(at, position.running, position.batch_id if position.running else None, position.started_s)


def _reported(leaf: SourceLeaf, number: int, progress: Progress | None) -> Latest:
    """The latest offsets that the last progress event reports; as old as the planning of its batch."""
    said = progress.sources[number].latest if progress is not None and number < len(progress.sources) else None
    offsets = partition_map(said)
    if progress is None or offsets is None:
        message = f"the source {leaf.provider!r} does not tell how many records wait in it"
        raise UnavailableError(message)
    return Latest(progress.planned_at, offsets)


# Who tells the latest offsets of a source: Kafka through the driver's JVM, or the files of the embedded log.


_CHECK_EVERY_S = 60.0
_WHERE = ("subscribe", "subscribepattern", "assign", "path")
_Key = tuple[str, int]
_Identity = tuple[str, frozenset[tuple[str, str]]]


class Snapshot:
    """One cycle: when it began, on the loop's clock, how long it has lasted, and how long it may.

    Attributes:
        at: the time that the loop gave.
    """

    def __init__(self, at: float, limit_s: float) -> None:
        self.at = at
        self._limit_s = limit_s
        self._began = time.monotonic()

    @property
    def now(self) -> float:
        """The present time on the loop's clock."""
        return self.at + (time.monotonic() - self._began)

    def require_time(self, doing: str) -> None:
        """Raise UnavailableError if this look has lasted too long to begin something that waits for others."""
        if self.now - self.at >= self._limit_s:
            message = f"{doing}: not tried, because this look has taken {self.now - self.at:.1f} s already"
            raise UnavailableError(message)


class Reader(Protocol):
    """Tells the latest offsets of one source. Both methods raise UnavailableError."""

    def latest(self, look: Snapshot) -> Latest:
        """The latest offsets; asked for once in a look, however many queries share the source."""
        ...

    def inexact_because(self, partitions: tuple[PartitionOffsets, ...], look: Snapshot) -> str | None:
        """Why the differences of these offsets are not a count of records; None: they are, for all that is known."""
        ...

    def close(self) -> None:
        """Give back connections."""
        ...


class _Once:
    """Remembers what was found, or how it failed, until the next look."""

    def __init__(self, ask: Callable[[Snapshot], Mapping[_Key, int]]) -> None:
        self._ask = ask
        self._look: Snapshot | None = None
        self._found: Latest | UnavailableError | None = None

    def __call__(self, look: Snapshot) -> Latest:
        if self._found is None or self._look is not look:
            self._look, self._found = look, self._answer(look)
        if isinstance(self._found, UnavailableError):
            raise self._found
        return self._found

    def _answer(self, look: Snapshot) -> Latest | UnavailableError:
        try:
            offsets = self._ask(look)
        except UnavailableError as error:
            return error
        return Latest(look.now, offsets)


class _KafkaReader:
    """Kafka, through Spark's own client. Earliest offsets and compaction are looked at once a minute."""

    def __init__(self, view: KafkaView) -> None:
        self._view = view
        self._once = _Once(self._ask)
        self._checked_at = float("-inf")
        self._earliest: Mapping[_Key, int] = {}
        self._compacted: frozenset[str] = frozenset()

    def latest(self, look: Snapshot) -> Latest:
        return self._once(look)

    def inexact_because(self, partitions: tuple[PartitionOffsets, ...], look: Snapshot) -> str | None:
        if look.at - self._checked_at >= _CHECK_EVERY_S:
            look.require_time("asking Kafka for the earliest offsets")
            self._checked_at = look.at
            check = self._view.check()
            self._earliest, self._compacted = check.earliest, check.compacted
        if self._view.subscription.read_committed:
            return "transactions"
        return not_a_count(partitions, self._earliest, self._compacted)

    def close(self) -> None:
        self._view.close()

    def _ask(self, look: Snapshot) -> Mapping[_Key, int]:
        look.require_time("asking Kafka for the latest offsets")
        return self._view.latest()


class _LogReader:
    """The embedded log: the names of its files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._once = _Once(lambda _: log_folder.latest_offsets(self._folder))

    def latest(self, look: Snapshot) -> Latest:
        return self._once(look)

    def inexact_because(self, partitions: tuple[PartitionOffsets, ...], look: Snapshot) -> str | None:  # noqa: ARG002
        return not_a_count(partitions, {}, frozenset())

    def close(self) -> None:
        """Nothing is held."""


class Readers:
    """The readers in use, one for each source however many queries read it."""

    def __init__(self, gateway: Any, timeout_s: float) -> None:
        self._gateway = gateway
        self._timeout_s = timeout_s
        self._readers: dict[_Identity, Reader] = {}

    def of(self, leaf: SourceLeaf) -> Reader | None:
        """The reader of a source; None for one whose latest offsets only its progress events tell.

        Raises:
            ValueError: the options of the source are not understood.
        """
        identity = _identity(leaf)
        if identity not in self._readers:
            reader = self._made(leaf)
            if reader is None:
                return None
            self._readers[identity] = reader
        return self._readers[identity]

    def keep(self, leaves: Iterable[SourceLeaf]) -> None:
        """Close the readers of all other sources."""
        for identity in set(self._readers) - set(map(_identity, leaves)):
            self._readers.pop(identity).close()

    def _made(self, leaf: SourceLeaf) -> Reader | None:
        if leaf.provider == "kafka":
            return _KafkaReader(KafkaView(self._gateway, leaf.options, self._timeout_s))
        if leaf.provider == LOG_PROVIDER:
            return _LogReader(_local_path(option(leaf.options, "path")))
        return None


def _identity(leaf: SourceLeaf) -> _Identity:
    options = ((key.lower(), value) for key, value in leaf.options.items())
    where = frozenset((key, value) for key, value in options if key in _WHERE or key.startswith("kafka."))
    return leaf.provider, where


def _local_path(path: str | None) -> Path:
    if not path:
        message = "a log source without a path"
        raise ValueError(message)
    return Path(urlsplit(path).path if path.startswith("file:") else path)


# Which queries run, which have failed: taken up and let go of as they come and go.


NOT_SEEN = (UnavailableError, ValueError, KeyError)
"""What the parts of a look raise for that which could not be seen, or not understood."""

_FAILURES_KEPT = 20


@dataclass(frozen=True, slots=True)
class Watched:
    """A run that was seen active, with what does not change while it runs."""

    handle: QueryHandle
    plan: QueryPlan


class Watching:
    """The runs of an application's queries.

    Args:
        queries: names or ids of those wanted, or the queries themselves; None: all.
    """

    def __init__(self, jvm: DriverJvm, queries: Iterable[str | StreamingQuery] | None) -> None:
        self._jvm = jvm
        self._wanted = None if queries is None else frozenset(map(_name_or_id, queries))
        self._known: dict[Run, Watched] = {}
        self._failed: dict[str, QueryReading] = {}

    def look(self, gaps: list[Gap]) -> tuple[Watched, ...]:
        """The wanted runs that are active now. Adds a gap for each run of which nothing can be told.

        Raises:
            UnavailableError: Spark has been stopped, or its JVM does not answer.
            ValueError: the answer is not understood.
        """
        if self._jvm.stopped():
            message = "Spark has been stopped"
            raise UnavailableError(message)
        active = self._jvm.runs()
        for run in set(self._known) - set(active):
            self._let_go(self._known.pop(run), gaps)
        for run in active:
            self._failed.pop(run.query_id, None)
        found = (self._take_up(run, gaps) for run in active)
        return tuple(watched for watched in found if watched is not None and self._is_wanted(watched.plan))

    def failed(self) -> tuple[QueryReading, ...]:
        """The wanted queries that have failed and were not started again since."""
        return tuple(self._failed.values())

    def _take_up(self, run: Run, gaps: list[Gap]) -> Watched | None:
        if run not in self._known:
            try:
                handle = self._jvm.query(run)
                if handle is None:
                    return None
                self._known[run] = Watched(handle, handle.plan())
            except NOT_SEEN as error:
                gaps.append(Gap("queries", str(error), run.query_id))
                return None
        return self._known[run]

    def _let_go(self, watched: Watched, gaps: list[Gap]) -> None:
        if not self._is_wanted(watched.plan):
            return
        try:
            because = watched.handle.failure()
        except NOT_SEEN as error:
            gaps.append(Gap("queries", str(error), watched.plan.run.query_id))
            return
        if because is not None:
            self._failed[watched.plan.run.query_id] = _failed_reading(watched.plan, because)
            while len(self._failed) > _FAILURES_KEPT:
                self._failed.pop(next(iter(self._failed)))

    def _is_wanted(self, plan: QueryPlan) -> bool:
        return self._wanted is None or not self._wanted.isdisjoint({plan.name, plan.run.query_id})


def _name_or_id(query: str | StreamingQuery) -> str:
    return query if isinstance(query, str) else str(query.id)


def _failed_reading(plan: QueryPlan, because: str) -> QueryReading:
    return QueryReading(
        query_id=plan.run.query_id,
        run_id=plan.run.run_id,
        name=plan.name,
        trigger_s=plan.trigger.interval_s,
        sources=tuple(source_info(leaf.provider, leaf.options) for leaf in plan.leaves),
        failed_because=because,
    )
