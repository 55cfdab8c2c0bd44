"""What the controller of Stream Economics is fed with: processor time by node, and by query and executor [S3].

In a micro-batch nothing inside a query can lag behind the rest of it, so a query is one task: it reads from outside
sources, behind the shedders of their edges. Its part on one executor is an instance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rheostat.analyze.batches import QueryFigures, list_ended
from rheostat.analyze.state import total
from rheostat.config.shedding import parse_edge
from rheostat.model import (
    CpuUse,
    EdgeCount,
    Observation,
    Offsets,
    Processors,
    QueryReading,
    QueryTask,
    SourceLoad,
    TaskInstance,
    add_counts,
)


def read_processors(
    observation: Observation, readings: Sequence[QueryReading], figures: Sequence[QueryFigures]
) -> Processors | None:
    """The queries with edges that are measured, as tasks; None where no processor time is known.

    What an executor uses is divided among all queries by the time of their tasks on it: what the others use is none of
    a task's. A query of which no rate, and an executor of which no processor time is known, is left out.
    """
    cpu = observation.cpu
    if cpu is None:
        return None
    times = {each.query_id: task_times(each, observation.at) for each in observation.queries}
    tasks, instances = list[QueryTask](), list[TaskInstance]()
    for reading, query in zip(readings, figures, strict=True):
        arriving, span_s = query.offsets.arrival_rate, _span(reading, observation.at)
        edges = add_counts(edge for batch in list_ended(reading, None) for edge in batch.edges)
        if not edges or arriving is None or span_s <= 0:
            continue
        first = _source_edges(edges)
        offered = sum([edge.offered for edge in first])
        kept = sum([edge.kept for edge in first]) / offered if offered else 1.0
        name = reading.name or reading.query_id
        shares = _shares(first).items()
        waits = query.backlog_excess
        loads = [SourceLoad(each, arriving * share, waits and waits * share) for each, share in shares]
        tasks.append(QueryTask(name, tuple(loads), _ends(edges)))
        in_rate = kept * sum(_offered(first).values()) / span_s
        instances += _instances(name, reading.query_id, in_rate, times, observation)
    return Processors(cpu.nodes, tuple(tasks), tuple(instances))


def _instances(
    task: str, query_id: str, in_rate: float, times: Mapping[str, Mapping[str, float]], observation: Observation
) -> list[TaskInstance]:
    """The instances of a task, that with the most processor time first.

    Spark gives a task of a batch to whichever executor is free, so an executor that read less does not lag behind: all
    have the same share of the rate, and the accuracy by the least one [3.5] is that of the query. The processor time by
    the least one [3.7] is then the largest: no node is promised too much.
    """
    cpu, cluster = observation.cpu or CpuUse(()), observation.cluster
    slots = {} if cluster is None else dict(zip(cluster.roster.ids, cluster.roster.task_slots, strict=True))
    used = [
        (each.busy * times[query_id][each.executor_id] / whole, each)
        for each in cpu.executors
        if times[query_id].get(each.executor_id)
        and (whole := math.fsum([mine.get(each.executor_id, 0.0) for mine in times.values()]))
    ]
    return [
        TaskInstance(task, each.node, in_rate / len(used), cores, each.executor_id, slots.get(each.executor_id, 1))
        for cores, each in sorted(used, reverse=True)
    ]


def task_times(query: QueryReading, at: float) -> dict[str, float]:
    """Seconds of tasks in a second, on each executor, by the last batches of a query.

    A batch stands for the time until the next one may begin; where none has begun, for the time until now.

    >>> from rheostat.model import Batch, ExecutorWork, StageWork
    >>> stages = (StageWork(2, 6.0, (ExecutorWork("0", 4.0, 90), ExecutorWork("1", 2.0, 10))),)
    >>> query = QueryReading("q", "r", None, 10.0, batch=Batch(100.0, 1, 5.0, stages=stages))
    >>> task_times(query, 101.0), task_times(query, 115.0)
    ({'0': 0.4, '1': 0.2}, {'0': 0.2, '1': 0.1})
    """
    span_s, found = _span(query, at), dict[str, float]()
    for work in (each for batch in list_ended(query, None) for stage in batch.stages for each in stage.by_executor):
        found[work.executor_id] = found.get(work.executor_id, 0.0) + work.busy_s
    return {executor: busy_s / span_s for executor, busy_s in found.items()} if span_s > 0 else {}


def _span(query: QueryReading, at: float) -> float:
    """The time that the last batches stand for, s; 0 without batches."""
    batches = list_ended(query, None)
    span_s = math.fsum([max(batch.duration_s, query.trigger_s or 0.0) for batch in batches])
    if batches and not (query.running is not None and query.running.active):
        span_s = max(span_s, at - (batches[0].at - batches[0].duration_s))
    return span_s


def _source_edges(edges: Sequence[EdgeCount]) -> list[EdgeCount]:
    ends = {parse_edge(edge.edge).end for edge in edges}
    return [edge for edge in edges if parse_edge(edge.edge).start not in ends]


def _ends(edges: Sequence[EdgeCount]) -> tuple[str, ...]:
    """The sinks, or the last tasks, that the counted edges lead to."""
    starts = {parse_edge(edge.edge).start for edge in edges}
    return tuple(sorted({parse_edge(edge.edge).end for edge in edges} - starts))


def _shares(edges: Sequence[EdgeCount]) -> dict[str, float]:
    """Of each source in what a query reads."""
    offered = _offered(edges)
    whole = sum(offered.values())
    return {source: n / whole if whole else 1 / len(offered) for source, n in sorted(offered.items())}


def _offered(edges: Sequence[EdgeCount]) -> dict[str, int]:
    """Records of each source, by what came to its edges; each of them sees all of it."""
    offered: dict[str, int] = {}
    for each in edges:
        source = parse_edge(each.edge).start
        offered[source] = max(offered.get(source, 0), each.offered)
    return offered


# Input rates as a consumer estimates them [S3, 4.6], which knows its own rate and its largest lag, not the offsets.


def estimate_partition_rate(consumed_rate: float, assigned: int, lag_change: float, took_s: float) -> float:
    """Records/s that arrive in one partition: consumed_rate/assigned + Δlag_max/Δt.

    >>> estimate_partition_rate(consumed_rate=90.0, assigned=3, lag_change=50.0, took_s=5.0)
    40.0
    """
    return consumed_rate / assigned + lag_change / took_s


def estimate_instance_rate(consumed_rate: float, assigned: int, lag_change: float, took_s: float) -> float:
    """Records/s that arrive in all partitions of an instance: consumed_rate + assigned·Δlag_max/Δt.

    >>> estimate_instance_rate(consumed_rate=90.0, assigned=3, lag_change=50.0, took_s=5.0)
    120.0
    """
    return assigned * estimate_partition_rate(consumed_rate, assigned, lag_change, took_s)


def estimate_error(before: Offsets, now: Offsets) -> float | None:
    """Relative error of the estimate for all partitions of a query, against what has arrived by the latest offsets.

    None: nothing has arrived, an offset is unknown, or these are other partitions.

    >>> before = Offsets(0.0, ("t", "t"), (0, 1), latest=(10, 10), planned=(10, 10), committed=(10, 10))
    >>> estimate_error(before, Offsets(5.0, ("t", "t"), (0, 1), (60, 20), (30, 20), (30, 20)))
    0.5
    """
    took_s, past, present = now.at - before.at, _counts(before), _counts(now)
    if (before.topics, before.numbers) != (now.topics, now.numbers) or took_s <= 0 or past is None or present is None:
        return None
    arrived, consumed, lag_change = (n - m for n, m in zip(present, past, strict=True))
    if arrived <= 0:
        return None
    estimate = estimate_instance_rate(consumed / took_s, len(now.numbers), lag_change, took_s)
    return estimate * took_s / arrived - 1


def _counts(offsets: Offsets) -> tuple[int, int, int] | None:
    """All that has arrived, all that is committed, and the largest lag of a partition; None: not all is known."""
    ends, done = total(offsets.latest), total(offsets.committed)
    lags = [(each.latest or 0) - (each.committed or 0) for each in offsets.partitions]
    return None if ends is None or done is None else (ends, done, max(lags, default=0))
