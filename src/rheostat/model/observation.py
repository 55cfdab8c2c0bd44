"""What was seen: the sections of an observation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = [
    "Batch",
    "Cluster",
    "Executor",
    "Gap",
    "NodeReading",
    "Nodes",
    "Observation",
    "Offsets",
    "PartitionOffsets",
    "QueryReading",
    "Roster",
    "RoundTrip",
    "RunningBatch",
    "SourceInfo",
    "StageWork",
]


class PartitionOffsets(NamedTuple):
    """Positions in one partition of a source, in records from the partition's start.

    ``committed <= planned <= latest`` for a healthy source. Records between ``committed`` and ``planned`` are
    *in flight*; those between ``planned`` and ``latest`` are *waiting*.
    """

    topic: str
    partition: int
    latest: int | None
    planned: int | None
    committed: int | None


@dataclass(frozen=True, slots=True)
class Offsets:
    """Where a query stands in its sources: a column for each figure, with one entry for each partition.

    Attributes:
        at: when the latest offsets were read.
        topics, numbers: of the partitions, which are sorted by them.
        latest, planned, committed: their positions, as in :class:`PartitionOffsets`.
        exact: False where the differences are not a count of records.
        inexact_because: why not (``"transactions"``, ``"compaction"``, ``"retention"``, ``"topic recreated"``).
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
        """The same from a row for each partition, sorted by (topic, partition)."""
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
        """The rows, sorted by (topic, partition).

        >>> Offsets(0.0, ("t", "t"), (0, 1), (9, 7), (8, 7), (5, 7)).partitions[1].latest
        7
        """
        rows = zip(self.topics, self.numbers, self.latest, self.planned, self.committed, strict=True)
        return tuple([PartitionOffsets(*row) for row in rows])


class StageWork(NamedTuple):
    """What one stage of a batch did: its tasks, and their run time together, s."""

    tasks: int
    busy_s: float


@dataclass(frozen=True, slots=True)
class Batch:
    """The last finished micro-batch, as its progress event tells.

    Attributes:
        at: when the batch ended.
        batch_id: Spark's number of the batch.
        duration_s: the whole trigger execution.
        planning_s: latest offsets, get batch, query planning and write-ahead log.
        add_batch_s: the jobs of the batch, with the sink.
        commit_s: commit of the offsets.
        records: ``numInputRows``; overcounts when tasks are retried.
        state_rows: rows in the state stores after the batch.
        dropped_late: rows dropped by the watermark in this batch.
        work_s: time in which stages of it ran; None: not known.
        stages: in their order, where the batch has several and they are known; else empty.
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


@dataclass(frozen=True, slots=True)
class RunningBatch:
    """Whether a batch is being worked on right now. ``since`` is when this was first seen of it."""

    at: float
    active: bool
    batch_id: int | None = None
    since: float | None = None


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """One source of a query, from its plan. ``options`` never holds secrets.

    Attributes:
        kind: ``"kafka"``, ``"log"`` or the provider's name.
        name: topics or path, for people.
        partitions: number of partitions, where it is known.
        batch_cap: ``maxOffsetsPerTrigger`` or what limits a batch's records in this source; None: no limit.
    """

    kind: str
    name: str
    partitions: int | None = None
    batch_cap: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryReading:
    """What was seen of one streaming query.

    Attributes:
        query_id: stable over restarts from the same checkpoint.
        run_id: changes with every start.
        trigger_s: processing-time interval of the trigger; 0: as soon as possible.
        failed_because: the exception that ended the query, if it failed.
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


class Executor(NamedTuple):
    """One registered executor.

    Attributes:
        executor_id: Spark's id.
        cores: its task slots.
        active_tasks: tasks running at the time of the reading.
        failed_tasks: tasks failed since it started.
        finished_tasks: tasks completed or failed since it started.
        busy_s: task seconds since it started; grows when a task *ends*.
        added_at: when it registered.
        node: the node that it is on, where that is known and has another name than its host.
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


@dataclass(frozen=True, slots=True)
class Roster:
    """Which executors there are: a column for each figure that never changes while an executor lives.

    Attributes:
        ids, hosts, cores, added_at: of each executor, as in :class:`Executor`.
        nodes: the node that it is on, where that is known and has another name than its host.
    """

    ids: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    cores: tuple[int, ...] = ()
    added_at: tuple[float | None, ...] = ()
    nodes: tuple[str | None, ...] = ()

    @property
    def places(self) -> Mapping[str, str]:
        """By id the name of each executor's node; its host where no node is known."""
        rows = zip(self.ids, self.nodes, self.hosts, strict=True)
        return {executor_id: node or host for executor_id, node, host in rows}


@dataclass(frozen=True, slots=True)
class Cluster:
    """The registered executors of the application, without those that are being removed.

    A column for each figure, with one entry for each executor.

    Attributes:
        at: when they were read.
        roster: which they are.
        active_tasks, failed_tasks, finished_tasks, busy_s: what each is doing, and what it has come to, as in
            :class:`Executor`.
        requested: the number asked for last; None: nobody has asked yet.
    """

    at: float
    roster: Roster = Roster()
    active_tasks: tuple[int, ...] = ()
    failed_tasks: tuple[int, ...] = ()
    finished_tasks: tuple[int, ...] = ()
    busy_s: tuple[float | None, ...] = ()
    requested: int | None = None

    @classmethod
    def of(cls, at: float, executors: Iterable[Executor], requested: int | None = None) -> Cluster:
        """The same from a row for each executor."""
        ids, hosts, cores, active, failed, finished, busy_s, added_at, nodes = _columns(Executor, executors)
        return cls(
            at=at,
            roster=Roster(ids=ids, hosts=hosts, cores=cores, added_at=added_at, nodes=nodes),
            active_tasks=active,
            failed_tasks=failed,
            finished_tasks=finished,
            busy_s=busy_s,
            requested=requested,
        )

    @property
    def executors(self) -> tuple[Executor, ...]:
        """The rows.

        >>> Cluster.of(0.0, [Executor("1", "a", 1, 0), Executor("2", "b", 1, 1)]).executors[1].host
        'b'
        """
        who, told = self.roster, (self.active_tasks, self.failed_tasks, self.finished_tasks, self.busy_s)
        rows = zip(who.ids, who.hosts, who.cores, *told, who.added_at, who.nodes, strict=True)
        return tuple([Executor(*row) for row in rows])

    @property
    def ids(self) -> tuple[str, ...]:
        """Of each executor, as in :class:`Executor`."""
        return self.roster.ids


def _columns(row: Any, rows: Iterable[tuple[Any, ...]]) -> Any:
    """The columns of rows of a kind of named tuple; as many where there are no rows."""
    return tuple(zip(*rows, strict=True)) or ((),) * len(row._fields)


class NodeReading(NamedTuple):
    """One node that is there.

    Attributes:
        name: as the executors on it give their host.
        used: executors of this application on it, also those that are being started there.
        free: further ones that it could host now; 0: it is full.
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
    """The nodes that executors can be on.

    Attributes:
        at: when they were read.
        nodes: those that are there, sorted by name. One that has vanished is not among them.
        round_trips: sorted; what is not listed is not known.
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


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that could not be observed this cycle, and why.

    Attributes:
        section: ``"offsets"``, ``"batch"``, ``"running"``, ``"cluster"``, ``"nodes"`` or ``"queries"``.
        query_id: None where it concerns the application.
    """

    section: str
    why: str
    query_id: str | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen of an application in one cycle. ``nodes`` None: nodes play no part, or are not known."""

    at: float
    queries: tuple[QueryReading, ...] = ()
    cluster: Cluster | None = None
    gaps: tuple[Gap, ...] = ()
    nodes: Nodes | None = None
