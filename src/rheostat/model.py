"""Every value of the loop: observation, assessment, decision, outcome, objective. All are frozen."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import compress
from typing import Any, NamedTuple

from rheostat.errors import Fault, InputError

# Observation: what a source read in one cycle.

JUMPS = ("retention", "topic recreated")
"""Reasons of :class:`Offsets` for which positions pass over records that are never processed."""


class PartitionOffsets(NamedTuple):
    """Positions in one partition of a source, in records from its start: ``committed <= planned <= latest``."""

    topic: str
    partition: int
    latest: int | None
    planned: int | None
    committed: int | None


@dataclass(frozen=True, slots=True)
class Offsets:
    """Positions of a query in its sources: columns with one entry for each partition, sorted by topic and number.

    Attributes:
        at: when the latest offsets were read.
        exact: False where differences of offsets are not a count of records.
        inexact_because: ``"transactions"``, ``"compaction"``, ``"retention"`` or ``"topic recreated"``.
    """

    at: float
    topics: tuple[str, ...]
    numbers: tuple[int, ...]
    latest: tuple[int | None, ...]
    planned: tuple[int | None, ...]
    committed: tuple[int | None, ...]
    exact: bool = True
    inexact_because: str | None = None

    @classmethod
    def of(
        cls,
        at: float,
        partitions: Iterable[PartitionOffsets],
        exact: bool = True,
        inexact_because: str | None = None,
    ) -> Offsets:
        """Build the columns from rows that are sorted by (topic, partition)."""
        topics, numbers, latest, planned, committed = _columns(PartitionOffsets, partitions)
        return cls(
            at=at,
            topics=topics,
            numbers=numbers,
            latest=latest,
            planned=planned,
            committed=committed,
            exact=exact,
            inexact_because=inexact_because,
        )

    @property
    def partitions(self) -> tuple[PartitionOffsets, ...]:
        """The columns as rows.

        >>> Offsets(0.0, ("t", "t"), (0, 1), (9, 7), (8, 7), (5, 7)).partitions[1].latest
        7
        """
        rows = zip(self.topics, self.numbers, self.latest, self.planned, self.committed, strict=True)
        return tuple([PartitionOffsets(*row) for row in rows])


class ExecutorWork(NamedTuple):
    """What an executor did of a stage: the time that its tasks were there, and the records that they read."""

    executor_id: str
    busy_s: float
    records: int


class StageWork(NamedTuple):
    """One stage of a batch: number of tasks and the sum of their run times.

    ``by_executor`` is empty where it is not asked for.
    """

    tasks: int
    busy_s: float
    by_executor: tuple[ExecutorWork, ...] = ()


class EdgeCount(NamedTuple):
    """An edge of the shedding graph in a batch: the records that came to it, and those that it kept.

    Attributes:
        edge: ``start>end``.
        keep: non-drop probability d × 10⁶ that was ordered.
        values: at equal distances, quantiles of the values of the offered records, the least and the greatest among
            them; empty: the edge does not drop by value.
    """

    edge: str
    keep: int
    offered: int
    kept: int
    values: tuple[float, ...] = ()


def add_counts(counts: Iterable[EdgeCount]) -> tuple[EdgeCount, ...]:
    """One count for each edge, sorted; the order and the values of the last one stand.

    >>> add_counts([EdgeCount("a>b", 1_000_000, 8, 8), EdgeCount("a>b", 500_000, 8, 5)])
    (EdgeCount(edge='a>b', keep=500000, offered=16, kept=13, values=()),)
    """
    found: dict[str, EdgeCount] = {}
    for each in counts:
        before = found.get(each.edge, EdgeCount(each.edge, each.keep, 0, 0))
        offered, kept = before.offered + each.offered, before.kept + each.kept
        found[each.edge] = each._replace(offered=offered, kept=kept, values=each.values or before.values)
    return tuple([found[edge] for edge in sorted(found)])


_COPIES = 2
"""Copies of a task, itself included, that may read the records of a batch again."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The last finished micro-batch, from its progress event.

    Attributes:
        at: when it ended.
        duration_s: the whole trigger execution.
        planning_s: latest offsets, get batch, query planning and write-ahead log.
        add_batch_s: the jobs of the batch, including the sink.
        commit_s: commit of the offsets.
        records: ``numInputRows``; overcounts when tasks are retried or rows are read by several actions.
        dropped_late: rows dropped by the watermark.
        work_s: time in which stages of the batch ran.
        listing_s: latest offsets, or listing of files; part of the planning.
        stages: in order; empty where they are unknown.
        offsets: how far it went in each source, in the order of the plan, with offsets that are no records; None where
            its start is unknown. Empty: not told.
        reread_s: task time of the stages that read more than twice the records of the batch: other data than its input.
            None: unknown, as are the two below.
        reread_least_s: the mean task time of the longest of them, which no number of slots shortens.
        reread_records: records that they read.
        edges: where records may be dropped, as far as they are counted; sorted by name.
    """

    at: float
    batch_id: int
    duration_s: float
    planning_s: float | None = None
    add_batch_s: float | None = None
    commit_s: float | None = None
    records: int | None = None
    state_rows: int | None = None
    dropped_late: int | None = None
    work_s: float | None = None
    stages: tuple[StageWork, ...] = ()
    offsets: tuple[int | None, ...] = ()
    listing_s: float | None = None
    reread_s: float | None = None
    reread_least_s: float | None = None
    reread_records: int | None = None
    edges: tuple[EdgeCount, ...] = ()

    def with_reads(self, read: Sequence[int | None]) -> Batch:
        """The batch with what its stages read anew, from the records that each has ``read``.

        No stage reads more records of the sources than the batch has, nor more parts of a batch that is kept, but for
        copies of its tasks (speculation, retries): what reads more than twice as many reads other data. A smaller table
        costs little beside the batch.
        """
        if self.records is None or None in read or len(read) != len(self.stages):
            return self
        most = _COPIES * self.records
        found = [(work, n) for work, n in zip(self.stages, read, strict=True) if n is not None and n > most]
        return replace(
            self,
            reread_s=sum([work.busy_s for work, _ in found]),
            reread_least_s=max([work.busy_s / max(1, work.tasks) for work, _ in found], default=0.0),
            reread_records=sum([n for _, n in found]),
        )


@dataclass(frozen=True, slots=True)
class RunningBatch:
    """Whether a batch is running. ``since``: when it was first observed."""

    at: float
    active: bool
    batch_id: int | None = None
    since: float | None = None


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """One source of a query, from its plan. ``options`` never holds secrets.

    Attributes:
        kind: ``"kafka"``, ``"log"`` or the provider's name.
        name: topics or path, for display.
        batch_cap: most records of a batch from this source (``maxOffsetsPerTrigger``); None: no limit.
        topics: as the offsets of the query name them; empty: unknown.
        min_offsets: fewer are not read (``minOffsetsPerTrigger``) before ``max_delay_s`` have passed since the last
            batch (``maxTriggerDelay``); None: it never waits.
    """

    kind: str
    name: str
    partitions: int | None = None
    batch_cap: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    min_offsets: int | None = None
    max_delay_s: float | None = None


@dataclass(frozen=True, slots=True)
class QueryReading:
    """One streaming query.

    Attributes:
        query_id: stable across restarts from the same checkpoint.
        run_id: changes with every start.
        trigger_s: processing-time interval of the trigger; 0: as soon as possible.
        failed_because: the exception that ended the query.
        uncountable: a source of which it can never be known how many records wait, or the trigger of a query that is
            never measured, by its kind; None: neither.
        failed_before: the exception that ended the run before this one; None: it ended in order, or unknown.
        ended: batches of this run that ended before ``batch``, oldest first, as far as they are known; at most 32, and
            without those of the observation before, where the source remembers that.
    """

    query_id: str
    run_id: str
    name: str | None
    trigger_s: float | None
    sources: tuple[SourceInfo, ...] = ()
    offsets: Offsets | None = None
    batch: Batch | None = None
    running: RunningBatch | None = None
    failed_because: str | None = None
    uncountable: str | None = None
    failed_before: str | None = None
    ended: tuple[Batch, ...] = ()


class Executor(NamedTuple):
    """One registered executor.

    Attributes:
        finished_tasks: completed or failed since it started.
        busy_s: task seconds since it started; grows when a task *ends*.
        added_at: when it registered.
        node: its node, where that is known and is not named like the host.
        slots: tasks that it runs at a time; None: one on each core.
        excluded: whether Spark gives it no task, after failures on it or on its host.
        gc_s: of ``busy_s``, in garbage collection.
    """

    executor_id: str
    host: str
    cores: int
    active_tasks: int
    failed_tasks: int = 0
    finished_tasks: int = 0
    busy_s: float | None = None
    added_at: float | None = None
    node: str | None = None
    slots: int | None = None
    excluded: bool = False
    gc_s: float | None = None


@dataclass(frozen=True, slots=True)
class Roster:
    """The figures of executors that never change while they live: columns, as in :class:`Executor`.

    Attributes:
        slots: empty where every executor has one for each core.
    """

    ids: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    cores: tuple[int, ...] = ()
    added_at: tuple[float | None, ...] = ()
    nodes: tuple[str | None, ...] = ()
    slots: tuple[int | None, ...] = ()

    @property
    def task_slots(self) -> tuple[int, ...]:
        """Tasks that each executor runs at a time.

        >>> Roster(("1", "2"), ("a", "b"), (4, 4), slots=(1, None)).task_slots
        (1, 4)
        """
        if not self.slots:
            return self.cores
        return tuple([cores if slots is None else slots for cores, slots in zip(self.cores, self.slots, strict=True)])

    @property
    def places(self) -> Mapping[str, str]:
        """Node of each executor by its id; the host where the node is unknown."""
        rows = zip(self.ids, self.nodes, self.hosts, strict=True)
        return {executor_id: node or host for executor_id, node, host in rows}


@dataclass(frozen=True, slots=True)
class Cluster:
    """The registered executors of the application, without those that are being removed: columns, as in `Executor`.

    Attributes:
        requested: the number that was requested last; None: no request yet.
        excluded: ids of those that get no task, oldest first.
        gc_s: empty where it is not told.
    """

    at: float
    roster: Roster = Roster()
    active_tasks: tuple[int, ...] = ()
    failed_tasks: tuple[int, ...] = ()
    finished_tasks: tuple[int, ...] = ()
    busy_s: tuple[float | None, ...] = ()
    requested: int | None = None
    excluded: tuple[str, ...] = ()
    gc_s: tuple[float | None, ...] = ()

    @classmethod
    def of(cls, at: float, executors: Iterable[Executor], requested: int | None = None) -> Cluster:
        columns = _columns(Executor, executors)
        ids, hosts, cores, active, failed, finished, busy_s, added_at, nodes, slots, excluded, gc_s = columns
        slots = () if all(each is None for each in slots) else slots
        return cls(
            at=at,
            roster=Roster(ids=ids, hosts=hosts, cores=cores, added_at=added_at, nodes=nodes, slots=slots),
            active_tasks=active,
            failed_tasks=failed,
            finished_tasks=finished,
            busy_s=busy_s,
            requested=requested,
            excluded=tuple(compress(ids, excluded)),
            gc_s=() if all(each is None for each in gc_s) else gc_s,
        )

    @property
    def executors(self) -> tuple[Executor, ...]:
        """The columns as rows.

        >>> Cluster.of(0.0, [Executor("1", "a", 1, 0), Executor("2", "b", 1, 1)]).executors[1].host
        'b'
        """
        fixed, counters = self.roster, (self.active_tasks, self.failed_tasks, self.finished_tasks, self.busy_s)
        slots = fixed.slots or (None,) * len(fixed.ids)
        excluded, gc_s = [each in self.excluded for each in fixed.ids], self.gc_s or (None,) * len(fixed.ids)
        columns = (fixed.ids, fixed.hosts, fixed.cores, *counters, fixed.added_at, fixed.nodes, slots, excluded, gc_s)
        return tuple([Executor(*row) for row in zip(*columns, strict=True)])


def _columns(row: Any, rows: Iterable[tuple[Any, ...]]) -> Any:
    """Rows of a named tuple as columns; without rows, one empty column for each field."""
    return tuple(zip(*rows, strict=True)) or ((),) * len(row._fields)


class NodeReading(NamedTuple):
    """One available node.

    Attributes:
        name: as executors on it report their host.
        used: executors of this application on it, including those that are starting.
        free: how many more it could host now.
    """

    name: str
    used: int
    free: int


class RoundTrip(NamedTuple):
    """The network round trip between two nodes, ``a < b``, ms."""

    a: str
    b: str
    ms: float


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that can host executors.

    Attributes:
        nodes: the available ones, sorted by name.
        round_trips: sorted; a pair that is not listed is unknown.
    """

    at: float
    nodes: tuple[NodeReading, ...]
    round_trips: tuple[RoundTrip, ...] = ()

    @property
    def in_use(self) -> tuple[str, ...]:
        """The node of each executor, sorted.

        >>> Nodes(0.0, (NodeReading("a", 2, 0), NodeReading("b", 1, 3))).in_use
        ('a', 'a', 'b')
        """
        return tuple([node.name for node in self.nodes for _ in range(node.used)])


class NodeCpu(NamedTuple):
    """A node: the CPUs that executors on it may use, and how many of them were busy, with whatever.

    ``speed``: what one of them does in a second, relative to those of other nodes.
    """

    name: str
    cores: int
    busy: float
    speed: float = 1.0


class ExecutorCpu(NamedTuple):
    """An executor: its node, and how many cores it and its Python workers used."""

    executor_id: str
    node: str
    busy: float


@dataclass(frozen=True, slots=True)
class CpuUse:
    """Processor time between two answers of node servers, in cores: means since the look before.

    Attributes:
        nodes: those of which it is known, sorted by name.
        executors: of this application, those of which it is known, by node.
    """

    nodes: tuple[NodeCpu, ...]
    executors: tuple[ExecutorCpu, ...] = ()


@dataclass(frozen=True, slots=True)
class Gap:
    """A section that could not be observed in this cycle, and why.

    Attributes:
        section: ``"offsets"``, ``"batch"``, ``"running"``, ``"cluster"``, ``"nodes"``, ``"cpu"`` or ``"queries"``.
        query_id: None for a section of the application.
    """

    section: str
    why: str
    query_id: str | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """An application, observed in one cycle. ``nodes`` and ``cpu`` are None where they are not used or unknown."""

    at: float
    queries: tuple[QueryReading, ...] = ()
    cluster: Cluster | None = None
    gaps: tuple[Gap, ...] = ()
    nodes: Nodes | None = None
    cpu: CpuUse | None = None


# Assessment: the figures that decisions are based on.


class QueryLoad(NamedTuple):
    """Figures of one query, as in :class:`Assessment`."""

    query_id: str
    arrival_rate: float | None = None
    processed_rate: float | None = None
    backlog_excess: float | None = None
    batch_s: float | None = None
    trigger_s: float | None = None
    period_s: float | None = None
    pressure: float | None = None
    throughput: float | None = None
    batches: int = 0
    capped: bool | None = None
    idle: bool = False
    running_share: float | None = None


NO_MEASURE = {
    "continuous": "has no batches, and its tasks never end",
    "real-time": "has no batches to measure",
    "available-now": "ends by itself when it has caught up",
    "once": "ends by itself after one batch",
}
"""Triggers of queries that are never measured, by their kind, and why."""


class Unmeasured(NamedTuple):
    """A query that is left out of the figures, because some of its own are unknown.

    Attributes:
        query: its name, or its id where it has none.
        since: since when it has been so.
        lacks: names of the figures that are unknown or impossible.
        source: the source of which it can never be known how many records wait, or the trigger (``NO_MEASURE``); None:
            the figures may come.
        fails: how it fails and starts again, as text; None: it does not.
    """

    query: str
    since: float
    lacks: tuple[str, ...] = ()
    source: str | None = None
    fails: str | None = None

    @property
    def why(self) -> str:
        """In words.

        >>> Unmeasured("orders", 0.0, ("backlog",), "rate").why
        "how many records wait in the source 'rate' of the query orders cannot be known, as it can for Kafka"
        >>> Unmeasured("orders", 0.0, ("backlog", "lag_s")).why
        'backlog, lag_s of the query orders'
        """
        if self.fails is not None:
            return f"what the query {self.query} needs, as it {self.fails}"
        if self.source is None:
            return f"{', '.join(self.lacks)} of the query {self.query}"
        if self.source in NO_MEASURE:
            return f"the query {self.query} {NO_MEASURE[self.source]}"
        waits = f"how many records wait in the source {self.source!r} of the query {self.query}"
        return f"{waits} cannot be known, as it can for Kafka"


class EdgeLoad(NamedTuple):
    """A query with edges at which records may be dropped.

    Attributes:
        edges: in the batches that have ended since the look before, added up.
        busy_s: duration of those batches.
        late_s: its lag beyond the trigger that every record may have to wait for.
    """

    query_id: str
    edges: tuple[EdgeCount, ...]
    busy_s: float
    arrival_rate: float | None
    backlog_excess: float | None
    late_s: float | None


class SourceLoad(NamedTuple):
    """An outside source of a query: records/s that arrive, before any shedder, and what waits beyond the healthy."""

    source: str
    arrival_rate: float
    backlog_excess: float | None


class QueryTask(NamedTuple):
    """A query with edges, as one task of Stream Economics.

    Attributes:
        name: of the query, or its id where it has none.
        sources: that it reads.
        sinks: that it serves, as far as its edges are counted.
    """

    name: str
    sources: tuple[SourceLoad, ...]
    sinks: tuple[str, ...]


class TaskInstance(NamedTuple):
    """A task on one executor.

    Attributes:
        in_rate: records/s that it takes in, behind the shedders of the sources.
        cpu: cores that it uses, Python workers included.
        slots: tasks that run at a time on the executor: the most cores that it can use.
    """

    task: str
    node: str
    in_rate: float
    cpu: float
    executor_id: str
    slots: int = 1


@dataclass(frozen=True, slots=True)
class Processors:
    """Who uses how much of the processors. What is busy on a node beyond its instances is the use of others."""

    nodes: tuple[NodeCpu, ...]
    tasks: tuple[QueryTask, ...]
    instances: tuple[TaskInstance, ...]


class StageLoad(NamedTuple):
    """One stage of the last batch.

    Attributes:
        tasks: how many slots it can keep busy.
        share: of the batch's task time, in [0, 1].
        demand: slots that it needs at the present arrival rate (task seconds per second).
    """

    tasks: int
    share: float
    demand: float | None = None


@dataclass(frozen=True, slots=True)
class Assessment:
    """Figures of an application, over its active queries. None: unknown.

    Attributes:
        executors: registered executors that get tasks.
        requested: the number that was requested last.
        slots_per_executor: tasks that each runs at a time; of the smallest where they differ.
        cores_per_executor: where a task takes several; None: one slot for each core.
        arrival_rate: records/s reaching the sources, from latest offsets, over the rate window.
        arrival_rates: the same by topic, sorted, where a query reads several topics; else empty.
        processed_rate: records/s committed, batch end to batch end, over the rate window but not beyond the last change
            of the number of executors.
        waiting, in_flight: records not yet planned; planned but not committed.
        backlog: latest − committed = waiting + in_flight.
        backlog_excess: records beyond :func:`rheostat.analyze.batches.healthy_backlog` and what counts vary by; ≥ 0.
        backlog_exact: False where a source's offsets are not a count.
        lag_s: age of the oldest uncommitted record, the largest over partitions.
        drain_s: time to clear the backlog at the present rates; None where it does not drain.
        draining: whether more is processed than arrives.
        batch_s: duration of the last batch, or of the running one if that is already longer.
        trigger_s: the longest trigger interval; the time that sources wait for records, where that is longer.
        period_s: τ = max(trigger, objective lag / 2), or what the wait of the sources leaves of the objective.
        wait_s: how long sources wait for records at the present rate, up to a trigger, the longest; 0: they do not.
        last_batch_s, last_batch_records: of the last finished batch; records as offsets count them, None where that is
            no measure of its work.
        last_batch_id: its id, summed over the queries: it changes when a batch has finished.
        occupancy: batch_s ÷ τ, the largest over the queries, each with its own τ; without what the driver takes, where
            that is most of the batch. While slots idle, a batch of τ or more counts only if another one was as long.
        pressure: backpressure in [0, 1]: share of the rate window, but not beyond the last change of the number of
            executors, in which batches run back to back with a backlog that executors would clear.
        throughput: under backpressure, records/s committed by batches that began at the present number, over the rate
            window; None before two of them.
        busy_ratio: share of slot time in tasks, over the rate window, in [0, 1].
        idle_s: for each executor without a task, seconds (to a tenth) since it had one, the longest first, at most 32.
        batches: finished batches since the number of executors changed or the query was restarted, without the batch
            that was running then.
        capped: whether the last batch was as large as the cap of a source allows, and more waits in that source.
        failed_tasks: within the failure window.
        ended_tasks: within the failure window, successfully or not.
        lost_executors: that were gone at this reading and had not been asked to go.
        partitions: over all sources.
        metrics_age_s: age of the oldest section that a decision needs.
        missing: names of needed figures that are unknown, sorted.
        invalid: names of figures that were impossible (NaN, negative), sorted.
        queries: number of active queries.
        idle: nothing arrives, nothing waits and no batch has run for a while: none will, before input comes.
        by_query: figures of each measured query, where there are several queries; else empty.
        unmeasured: queries that are left out beside measured ones; and those that can never be measured.
        sink: why the sink is sick, as text; None: healthy or unknown.
        slow: slow executors and nodes, as text.
        slow_executors: ids of slow executors.
        slow_on: their nodes, in the same order, ``elsewhere`` for no known node; empty where nodes are unknown.
        slow_nodes: nodes whose executors are all slow, or were when it last had some, sorted; where nodes are known.
        slow_factor: task time on the slowest executor ÷ task time on the others.
        slower: ids of executors that have been as slow for so long that it is their machine: not in ``slow``.
        skew: share of the largest partition ÷ an even share, the largest over the queries.
        hot: the largest partition with its share, as text; None: none has much more than an even share, or unknown.
        behind: the partition that has missed the objective, as text, where all others are well; else None.
        excluded: ids of registered executors that get no task, or got none within the rate window, oldest first.
        excluded_on: their nodes, as ``slow_on``.
        tasks: slots that the largest stages of the last batches keep busy; None before a batch of each query was seen.
        useful_executors: executors that have so many slots.
        stages: of the last batches, where they are known; else empty.
        work_s: part of the last batch that executors can shorten, in which its tasks ran; the largest over the queries.
        straggler_s: part of it that no further executor can shorten, as free slots wait for single tasks, at the least;
            None: several queries, or unknown.
        driver: why the driver delays the batches, as text; None: it does not, or unknown.
        running_share: share of the time that the processed rate is the mean of, in which batches ran; the largest over
            the queries.
        failing: the queries that fail and start again, and how, as text.
        gc: how much of the task time garbage collection takes on which executors, as text; None: little, or unknown.
        gc_share: of the task time on all executors, where it is much on some.
        reread: how much of the task time goes to data that each batch reads anew, as text; None: little, or unknown.
        reread_share: that share.
        reread_bound: whether reading it takes so much of the batch that more executors cannot shorten this much.
        run_since: since when the queries have been these runs of themselves; what was learned before is of other runs,
            maybe of other code. None: since the first look.
        waited_s: the least time that the oldest uncommitted record has waited, counted from the look that first saw it
            if it came alone; None: as the lag.
        spread: by how many records the last batch may differ by chance from what arrives in its time.
        driver_s: part of the last batch in which the driver plans and commits it, however many executors there are; the
            largest over the queries that are not idle.
        arrived: records that have arrived since the look before; of a new partition, since its first look.
        running_since: when the running batch began, or was first seen; None: several queries have input, none runs, or
            unknown.
        batch_cap: most records of a batch; None: several queries have input, or no limit.
        ended: every batch that has ended since the look before, oldest first, with the task time of its stages; empty
            where several queries have input.
        edge_loads: the queries with edges of the shedding graph.
        processors: who uses how much of them; None: not known.
        bounds: the fewest and the most executors allowed, as the policy is told.
        answer: what became of the policy's last recommendation, as the policy is told; None: there was none.
    """

    at: float
    executors: int | None = None
    requested: int | None = None
    slots_per_executor: int | None = None
    arrival_rate: float | None = None
    arrival_rates: tuple[tuple[str, float], ...] = ()
    processed_rate: float | None = None
    waiting: int | None = None
    in_flight: int | None = None
    backlog: int | None = None
    backlog_excess: float | None = None
    backlog_exact: bool = True
    lag_s: float | None = None
    drain_s: float | None = None
    draining: bool | None = None
    batch_s: float | None = None
    trigger_s: float | None = None
    period_s: float | None = None
    last_batch_s: float | None = None
    last_batch_id: int | None = None
    last_batch_records: int | None = None
    occupancy: float | None = None
    pressure: float | None = None
    throughput: float | None = None
    busy_ratio: float | None = None
    running: bool | None = None
    active_tasks: int | None = None
    idle_s: tuple[float, ...] | None = None
    batches: int = 0
    capped: bool | None = None
    failed_tasks: int | None = None
    partitions: int | None = None
    metrics_age_s: float | None = None
    missing: tuple[str, ...] = ()
    invalid: tuple[str, ...] = ()
    queries: int = 0
    idle: bool = False
    by_query: tuple[QueryLoad, ...] = ()
    unmeasured: tuple[Unmeasured, ...] = ()
    nodes: Nodes | None = None
    sink: str | None = None
    slow: tuple[str, ...] = ()
    slow_executors: tuple[str, ...] = ()
    slow_on: tuple[str, ...] = ()
    slow_nodes: tuple[str, ...] = ()
    slow_factor: float | None = None
    skew: float | None = None
    behind: str | None = None
    useful_executors: int | None = None
    stages: tuple[StageLoad, ...] = ()
    tasks: int | None = None
    cores_per_executor: int | None = None
    wait_s: float | None = None
    excluded: tuple[str, ...] = ()
    excluded_on: tuple[str, ...] = ()
    ended_tasks: int | None = None
    lost_executors: int = 0
    work_s: float | None = None
    straggler_s: float | None = None
    driver: str | None = None
    running_share: float | None = None
    failing: tuple[str, ...] = ()
    gc: str | None = None
    gc_share: float | None = None
    reread: str | None = None
    reread_share: float | None = None
    reread_bound: bool = False
    run_since: float | None = None
    slower: tuple[str, ...] = ()
    waited_s: float | None = None
    spread: float = 0.0
    hot: str | None = None
    driver_s: float | None = None
    arrived: int | None = None
    running_since: float | None = None
    batch_cap: int | None = None
    ended: tuple[Batch, ...] = ()
    bounds: Bounds | None = None
    answer: Answer | None = None
    edge_loads: tuple[EdgeLoad, ...] = ()
    processors: Processors | None = None

    @property
    def edges(self) -> tuple[EdgeCount, ...]:
        """Counts of the shedding graph in the batches that have ended since the look before, over all queries."""
        return add_counts(edge for load in self.edge_loads for edge in load.edges)


# Decision: the target, its reasons, and the outcome.


class ReasonCode(StrEnum):
    """Stable reason codes of policies, of the guard, and of the loop and actuators (three groups).

    A code is never renamed: journals and dashboards depend on it.
    """

    FIXED = "FIXED"
    SLA_VIOLATED = "SLA_VIOLATED"
    UNDERSIZED = "UNDERSIZED"
    OVERSIZED = "OVERSIZED"
    PROBE_DOWN = "PROBE_DOWN"
    SURPLUS_COUNTING = "SURPLUS_COUNTING"
    STEADY = "STEADY"
    STABILIZING = "STABILIZING"
    CAPACITY_UNKNOWN = "CAPACITY_UNKNOWN"
    FORECAST = "FORECAST"
    CHANGE_POINT = "CHANGE_POINT"
    SICK_SINK = "SICK_SINK"
    DRIVER_BOUND = "DRIVER_BOUND"
    SLOW_EXECUTOR = "SLOW_EXECUTOR"
    NODE_OVERLOADED = "NODE_OVERLOADED"

    NO_QUERY = "NO_QUERY"
    METRICS_MISSING = "METRICS_MISSING"
    METRICS_INVALID = "METRICS_INVALID"
    METRICS_STALE = "METRICS_STALE"
    QUERY_UNMEASURED = "QUERY_UNMEASURED"
    QUERY_FAILS = "QUERY_FAILS"
    DATA_REREAD = "DATA_REREAD"
    OBJECTIVE_TOO_SHORT = "OBJECTIVE_TOO_SHORT"
    RESCALE_RUNNING = "RESCALE_RUNNING"
    TASK_FAILURES = "TASK_FAILURES"
    WARMING_UP = "WARMING_UP"
    HOLD_AFTER_RESCALE = "HOLD_AFTER_RESCALE"
    LARGEST_STEP = "LARGEST_STEP"
    COOLDOWN_UP = "COOLDOWN_UP"
    COOLDOWN_DOWN = "COOLDOWN_DOWN"
    FAILOVER = "FAILOVER"
    SCALE_DOWN_HOLD = "SCALE_DOWN_HOLD"
    ROUND_TRIP = "ROUND_TRIP"
    WITHIN_TOLERANCE = "WITHIN_TOLERANCE"
    ALIGNED = "ALIGNED"
    PARTITIONS_PER_SLOT = "PARTITIONS_PER_SLOT"
    RESCALE_COST = "RESCALE_COST"
    INEFFECTIVE = "INEFFECTIVE"
    FAILED_BEFORE = "FAILED_BEFORE"
    EXCLUDED_AGAIN = "EXCLUDED_AGAIN"
    BATCH_CAP = "BATCH_CAP"
    QUOTA = "QUOTA"
    CATCHING_UP = "CATCHING_UP"
    USELESS_EXECUTORS = "USELESS_EXECUTORS"
    NO_ROOM = "NO_ROOM"
    AT_MAX = "AT_MAX"
    AT_MIN = "AT_MIN"
    LAST_CHECK = "LAST_CHECK"
    NO_FREE_NODE = "NO_FREE_NODE"
    SHEDDING = "SHEDDING"

    START = "START"
    RESTORED = "RESTORED"
    REPLACING_LOST = "REPLACING_LOST"
    PAUSED = "PAUSED"
    WATCH_ONLY = "WATCH_ONLY"
    DRY_RUN = "DRY_RUN"
    APPLIED = "APPLIED"
    NOTHING_IDLE = "NOTHING_IDLE"
    REQUEST_REJECTED = "REQUEST_REJECTED"
    CYCLE_FAILED = "CYCLE_FAILED"


@dataclass(frozen=True, slots=True)
class Reason:
    """A stable code, a sentence with the figures, and the figures."""

    code: ReasonCode
    text: str
    figures: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Number of executors that a policy proposes; None: no opinion (hold)."""

    target: int | None
    reason: Reason


@dataclass(frozen=True, slots=True)
class GuardNote:
    """A guard step that changed the target, with the target before and after it."""

    step: str
    before: int
    after: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Projection:
    """Estimate for a number of executors at the present arrival rate; None without a capacity model.

    Attributes:
        capacity: records/s.
        utilization: arrival rate ÷ capacity.
    """

    executors: int
    capacity: float | None = None
    utilization: float | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """Nodes of executors. A node with several executors is listed several times.

    Attributes:
        use: the node of each executor after the change, sorted.
        add: nodes of executors to start, in that order.
        leave: nodes of executors to remove, in that order.
        slow: slow nodes, sorted; standbys and replacements for a full node use them last.
    """

    use: tuple[str, ...]
    add: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()


class Action(StrEnum):
    """Effect of a decision on the number of executors."""

    HOLD = "hold"
    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class SinkAccuracy:
    """Share of the offered records that reach a sink.

    Attributes:
        minimum: promised.
        wanted: from the next batch on.
        measured: in the batches that have ended since the look before; None: not counted.
        reached: the accuracy that this is, where a sink's is not the share of the records.
    """

    sink: str
    minimum: float
    wanted: float
    measured: float | None = None
    reached: float | None = None


class Threshold(NamedTuple):
    """Where an edge drops by value: greater values are kept, smaller ones are not.

    Attributes:
        tied: share × 10⁶ of the records of just this value that is kept.
    """

    value: float
    tied: int


@dataclass(frozen=True, slots=True)
class SheddingPlan:
    """Which share of the records is kept, and why.

    Attributes:
        sinks: the greatest priority first.
        keep: non-drop probability d × 10⁶ of each edge; an edge that is not named keeps everything.
        above: of edges that drop by value, as far as values are known; until then they drop at random.
    """

    sinks: tuple[SinkAccuracy, ...]
    keep: Mapping[str, int]
    reason: Reason
    above: Mapping[str, Threshold] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of one cycle. A hold is a decision too.

    Attributes:
        decision_id: unique within a journal, ascending.
        current: the target before this decision; None: unknown.
        target: executors wanted; equals ``current`` for a hold.
        reason: of the last step that determined the target.
        notes: every guard step that changed the target, in order.
        projections: for n − 1, n, n + 1.
        placement: None for a hold, or where nodes are unknown.
        first: ids of executors to remove before any other, in this order; with a placement, from the nodes it leaves.
            In an increase: those in whose place others come.
        shedding: None: no shedding is declared.
    """

    at: float
    decision_id: int
    action: Action
    current: int | None
    target: int | None
    reason: Reason
    recommendation: Recommendation
    notes: tuple[GuardNote, ...] = ()
    projections: tuple[Projection, ...] = ()
    placement: Placement | None = None
    first: tuple[str, ...] = ()
    shedding: SheddingPlan | None = None

    @property
    def acts(self) -> bool:
        """Whether the decision changes the number of executors."""
        return self.action is not Action.HOLD

    @property
    def why(self) -> str:
        """What the policy wanted and why, then each guard step that changed it; without such steps, the reason alone.

        >>> notes = (GuardNote("largest_step", 3, 17, Reason(ReasonCode.LARGEST_STEP, "at most 1 at a time")),)
        >>> wanted = Recommendation(3, Reason(ReasonCode.OVERSIZED, "3 carry 900/s"))
        >>> Decision(0.0, 7, Action.DOWN, 18, 17, notes[0].reason, wanted, notes).why
        'the policy wanted 3: 3 carry 900/s; the guard largest_step made it 17: at most 1 at a time'
        """
        if not self.notes:
            return self.reason.text
        target, last = self.recommendation.target, self.notes[-1].reason.text
        wanted = "the policy had no opinion" if target is None else f"the policy wanted {target}"
        parts = [f"{wanted}: {self.recommendation.reason.text}"]
        parts += [f"the guard {note.step} made it {note.after}: {note.reason.text}" for note in self.notes]
        return "; ".join(parts) + self.reason.text.removeprefix(last)


class OutcomeStatus(StrEnum):
    """Result of executing a decision."""

    APPLIED = "applied"
    PARTIAL = "partial"
    NO_ROOM = "no_room"
    HELD = "held"
    FAILED = "failed"
    RECORDED = "recorded"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a decision was executed.

    Attributes:
        at: when the execution ended.
        before, after: registered executors.
        method: ``"request"``, ``"gap"``, ``"idle"``, ``"forced"``, ``"restart"``, ``"dry-run"``, ``"none"``.
        redone_tasks: tasks that ran again because of it.
        waited_s: time spent waiting for a safe moment.
        took_s: from the decision until it was confirmed.
    """

    at: float
    decision_id: int
    status: OutcomeStatus
    reason: Reason
    target: int
    before: int | None = None
    after: int | None = None
    method: str = "none"
    redone_tasks: int | None = None
    waited_s: float | None = None
    took_s: float | None = None


class Answer(NamedTuple):
    """What became of a recommendation.

    Attributes:
        recommended: the number; None: no opinion.
        target: the number that was decided on; None: the current one is unknown.
        steps: names of the proposers and guard steps that made it another, in order.
        outcomes: of changes, as they have become known since, oldest first.
    """

    recommended: int | None = None
    target: int | None = None
    steps: tuple[str, ...] = ()
    outcomes: tuple[Outcome, ...] = ()


# Objective: the bounds of the executors and the limit of the lag.


@dataclass(frozen=True, slots=True)
class Bounds:
    """Smallest and largest number of executors, both inclusive."""

    minimum: int
    maximum: int

    def __post_init__(self) -> None:
        faults = []
        if self.minimum < 1:
            faults.append(Fault("executors", str(self.minimum), "an integer ≥ 1", "the least number of executors"))
        if self.maximum < self.minimum:
            given = f"({self.minimum}, {self.maximum})"
            faults.append(Fault("executors", given, "minimum ≤ maximum", "the greatest number is under the least"))
        if faults:
            raise InputError(faults)

    def clamp(self, executors: int) -> int:
        """The nearest number within the bounds.

        >>> Bounds(2, 5).clamp(9)
        5
        """
        return max(self.minimum, min(self.maximum, executors))


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_OBJECTIVE = re.compile(
    r"\s*lag\s*<\s*(?P<value>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|min|m|h|d)(?:\s+for\s+(?P<percent>\d+(?:\.\d+)?)\s*%)?\s*"
)


@dataclass(frozen=True, slots=True)
class Objective:
    """Lag stays under ``lag_s`` seconds for ``percent`` percent of the time.

    >>> Objective.parse("lag < 2 min for 95%"), Objective.parse("lag < 1d").lag_s
    (Objective(lag_s=120.0, percent=95.0), 86400.0)
    """

    lag_s: float
    percent: float = 99.0

    @classmethod
    def parse(cls, text: object) -> Objective:
        """Parse ``lag < DURATION [for PERCENT%]``; DURATION is a number with ms, s, m, min, h or d.

        Raises:
            InputError: the text is not understood, the duration is 0 or the percentage is not in (0, 100].
        """
        match = _OBJECTIVE.fullmatch(text) if isinstance(text, str) else None
        allowed = "'lag < DURATION [for PERCENT%]' with DURATION > 0 and PERCENT in (0, 100], as in 'lag < 30s for 99%'"
        if match is None:
            raise InputError([Fault("objective", repr(text), allowed, "the objective is not understood")])
        lag_s = float(match["value"]) * _UNITS[match["unit"]]
        percent = float(match["percent"] or 99.0)
        if not (0 < lag_s < math.inf and 0 < percent <= 100):
            raise InputError([Fault("objective", repr(text), allowed, "a figure of the objective is out of range")])
        return cls(lag_s, percent)

    def __str__(self) -> str:
        return f"lag < {self.lag_s:g} s for {self.percent:g}%"
