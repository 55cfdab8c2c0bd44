"""What it means: the figures that every decision is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rheostat.model.observation import Nodes

__all__ = ["Assessment", "QueryLoad", "StageLoad"]


class QueryLoad(NamedTuple):
    """The figures of one query of several; each as in :class:`Assessment`, there over all of them."""

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


class StageLoad(NamedTuple):
    """One stage of the last batch.

    Attributes:
        tasks: how many slots it can keep busy.
        share: of the batch's task time, in [0, 1].
        demand: task seconds that it needs a second at the present arrival rate, in slots; None: unknown.
    """

    tasks: int
    share: float
    demand: float | None = None


@dataclass(frozen=True, slots=True)
class Assessment:
    """What the observations mean, summed over the queries of the application.

    Attributes:
        executors: registered executors.
        requested: number asked for last.
        slots_per_executor: cores each.
        arrival_rate: records/s reaching the sources, from latest offsets, over the rate window.
        arrival_rates: the same by topic, sorted by topic, where a query reads several of them; else empty.
        processed_rate: records/s committed, batch end to batch end, over the rate window but not beyond the last change
            of the number of executors: what another number of them did says nothing of this one.
        waiting, in_flight: records not yet planned; planned but not committed.
        backlog: latest − committed = waiting + in_flight.
        backlog_excess: max(0, backlog − arrival rate × (trigger + batch time)), where the batch time counts up to τ and
            the trigger is no shorter than it; see ``rheostat.analyze.query.healthy_backlog``.
        backlog_exact: False where a source's offsets are not a count.
        lag_s: age of the oldest uncommitted record, the largest over partitions.
        drain_s: time to clear the backlog at the present rates; infinite is None with ``draining`` False.
        draining: whether more is processed than arrives; None where unknown.
        batch_s: duration of the last batch, or of the running one if that is already longer.
        trigger_s: the longest trigger interval of the queries.
        period_s: τ = max(trigger, objective lag / 2).
        last_batch_s: duration of the last finished batch, the longest over the queries.
        last_batch_id: its number, summed over the queries; another one tells that a batch has finished.
        last_batch_records: its records, of a single query; overcounts when tasks are retried.
        occupancy: batch_s ÷ τ, the largest over the queries, each with its own τ.
        pressure: share of the rate window, but not beyond the last change of the number of executors, in which batches
            run back to back with a backlog that executors would clear, in [0, 1]; the largest over the queries. See
            ``rheostat.analyze.overload``.
        throughput: under pressure, records/s committed by batches that began at the present number, batch end to batch
            end over the rate window; None before two of them, and without pressure.
        busy_ratio: share of slot time in tasks, over the rate window, in [0, 1].
        running: whether a batch is being worked on in at least one query.
        active_tasks: tasks running at the reading, over all executors.
        idle_s: for each executor without a task, seconds (to a tenth) since it had one, the longest first, at most 32
            of them. What runs between two readings is noticed by the count of finished tasks.
        batches: finished batches seen since the number of executors last changed or the query was started again,
            without the batch that was in flight then.
        capped: whether the last batch was as large as the batch cap allows.
        failed_tasks: tasks that failed within the failure window.
        partitions: partitions over all sources, the useful upper bound of tasks of a read stage.
        metrics_age_s: age of the oldest section that a decision needs.
        missing: names of needed figures that are unknown, sorted.
        invalid: names of figures that were impossible (NaN, negative), sorted.
        queries: number of active queries.
        by_query: the figures of each query, where there are several; else empty.
        nodes: as they were observed; None: not known.
        sink: why the sink is sick, in words; None: it is healthy, or nobody knows. See ``rheostat.analyze.sink``.
        slow: executors, or a node with all of its executors, that are slower than the others, for people. See
            ``rheostat.analyze.outliers``.
        slow_executors: their ids.
        slow_on: the node of each of these, in their order, ``elsewhere`` for one that is on none of them; empty where
            nodes are not known.
        slow_nodes: nodes whose executors are all slow, or were when it last had some, sorted; where nodes are known.
        slow_factor: how many times as long as with the others the tasks of the slowest take.
        skew: share of the largest partition ÷ that of an even one, the largest over the queries; None: not known.
        useful_executors: those that the largest stages keep busy, where the stages of a batch are known.
        stages: of the last batch, where it has several and they are known; else empty.
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
    by_query: tuple[QueryLoad, ...] = ()
    nodes: Nodes | None = None
    sink: str | None = None
    slow: tuple[str, ...] = ()
    slow_executors: tuple[str, ...] = ()
    slow_on: tuple[str, ...] = ()
    slow_nodes: tuple[str, ...] = ()
    slow_factor: float | None = None
    skew: float | None = None
    useful_executors: int | None = None
    stages: tuple[StageLoad, ...] = ()
