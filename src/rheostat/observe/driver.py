"""Observation from inside the driver, through its own JVM, by looking once a cycle.

Nothing is registered with Spark and nothing is called back, so nothing of ours can break a query; queries started
before and after are seen alike. Latest offsets come from the sources themselves, committed and planned ones from the
query's own memory, so the backlog is current also while a batch runs for minutes and no progress event comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import starmap, zip_longest
from typing import TYPE_CHECKING, TypeVar

from rheostat.errors import UnavailableError
from rheostat.jvm.reading import DriverJvm, Position, QueryHandle, QueryPlan, SourceLeaf
from rheostat.model import Batch, Cluster, Gap, Observation, Offsets, QueryReading, RunningBatch, SourceInfo
from rheostat.observe.executors import parse_executors
from rheostat.observe.offsets import Latest, merged, not_a_count, partition_map, partition_offsets
from rheostat.observe.progress import Progress, parse_progress
from rheostat.observe.readers import Look, Readers
from rheostat.observe.sources import source_info
from rheostat.observe.stages import MOST_STAGES, with_stages
from rheostat.observe.watching import NOT_SEEN, Watched, Watching

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["DriverSource"]

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
        look = Look(at, self._limit_s)
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

    def _cluster(self, look: Look) -> Cluster:
        executors = parse_executors(self.jvm.executors())
        return Cluster.of(look.now, executors, self._requested())

    def _query(self, watched: Watched, look: Look, gaps: list[Gap]) -> QueryReading:
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
        self, plan: QueryPlan, position: Position | None, progress: Progress | None, look: Look
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
        self, leaf: SourceLeaf, number: int, position: Position, progress: Progress | None, look: Look
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
