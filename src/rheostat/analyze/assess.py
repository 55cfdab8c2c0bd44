"""Turn an observation and the state of earlier ones into an assessment: rates, backlog, lag, occupancy. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rheostat.analyze.batches import QueryFigures, read_query
from rheostat.analyze.executors import ClusterFigures, machine_names, read_cluster, watch_executors
from rheostat.analyze.offsets import OffsetFigures
from rheostat.analyze.state import (
    AnalysisSettings,
    AnalysisState,
    Counters,
    Machines,
    QueryHistory,
    known_fields,
    largest,
    total,
)
from rheostat.config.models import ELSEWHERE
from rheostat.model import Assessment, Batch, Observation, QueryLoad, QueryReading, StageLoad, StageWork

if TYPE_CHECKING:
    from rheostat.config.models import Settings


def analysis_settings(settings: Settings) -> AnalysisSettings:
    """The part of a job's settings that the analysis uses."""
    return AnalysisSettings(
        objective_lag_s=settings.parsed_objective.lag_s,
        rate_window_s=settings.rate_window_s,
        failure_window_s=settings.guard.failure_window_s,
    )


NEEDED = ("arrival_rate", "backlog", "backlog_excess", "batch_s", "executors", "lag_s")
"""Figures that every decision needs. The processed rate, the busy ratio and the split of the backlog are not among
them: in overload they may stay unknown for minutes, and an increase must not wait then."""

_UNREAD = ("planning_s", "add_batch_s", "commit_s", "work_s", "state_rows", "dropped_late")
"""Figures of batches that nothing else checks."""

_ROUNDING = 1e-9


def analyze(
    observation: Observation, state: AnalysisState, settings: AnalysisSettings
) -> tuple[Assessment, AnalysisState]:
    """Assess an observation.

    Rates, backlogs and their excess are summed over the queries that have not failed. Lag, batch time, trigger, period
    and occupancy are the largest of them, finished batches the fewest. A sum with an unknown term is unknown.
    Impossible figures (NaN, infinite, negative) count as unknown and are named in ``invalid``.

    ``metrics_age_s`` is the age of the oldest *reading* among offsets, running batch and executors. The last finished
    batch does not count: in overload that event is old, however fresh the reading.

    ``observation.at`` comes from the loop's own clock and is trusted.
    """
    at, invalid = observation.at, set[str]()
    for query in observation.queries:
        known_fields(query.batch, "batch", _UNREAD, invalid)
    cluster, cluster_history = read_cluster(observation.cluster, state.cluster, settings, invalid)
    past = {history.query_id: history for history in state.queries}
    readings = [query for query in observation.queries if query.failed_because is None]
    figures, histories = list[QueryFigures](), list[QueryHistory]()
    for query in readings:
        before = past.pop(query.query_id, None)
        each, history = read_query(query, before, at, settings, executors_changed=cluster.changed, invalid=invalid)
        figures.append(each)
        histories.append(history)
    offsets = [history.offsets for history in histories]
    machines = watch_executors(state.machines, cluster_history, observation.cluster, offsets, settings.rate_window_s)
    # A query that returns within the rate window continues its history.
    kept = [each for each in past.values() if 0 <= at - each.seen_at <= settings.rate_window_s]
    state = AnalysisState(queries=(*histories, *kept), cluster=cluster_history, machines=machines)
    return _assess(observation, readings, figures, cluster, state, invalid), state


def _assess(
    observation: Observation,
    readings: Sequence[QueryReading],
    figures: Sequence[QueryFigures],
    cluster: ClusterFigures,
    state: AnalysisState,
    invalid: set[str],
) -> Assessment:
    query = figures[0] if len(figures) == 1 else _combine(figures)
    offsets = query.offsets
    draining, drain_s = _drain_time(offsets.backlog, offsets.arrival_rate, query.processed_rate)
    useful_executors, stages = _read_stages(readings, figures, cluster.slots_per_executor)
    return Assessment(
        at=observation.at,
        executors=cluster.executors,
        requested=cluster.requested,
        slots_per_executor=cluster.slots_per_executor,
        arrival_rate=offsets.arrival_rate,
        arrival_rates=_by_topic([each.offsets for each in figures]),
        processed_rate=query.processed_rate,
        waiting=offsets.waiting,
        in_flight=offsets.in_flight,
        backlog=offsets.backlog,
        backlog_excess=query.backlog_excess,
        backlog_exact=offsets.exact,
        lag_s=offsets.lag_s,
        drain_s=drain_s,
        draining=draining,
        batch_s=query.batch_s,
        trigger_s=query.trigger_s,
        period_s=query.period_s,
        last_batch_s=query.last_batch_s,
        last_batch_id=query.last_batch_id,
        last_batch_records=query.last_batch_records,
        occupancy=query.occupancy,
        pressure=query.pressure,
        throughput=query.throughput,
        busy_ratio=cluster.busy_ratio,
        running=query.running,
        active_tasks=cluster.active_tasks,
        idle_s=cluster.idle_s,
        batches=query.batches,
        capped=query.capped,
        failed_tasks=cluster.failed_tasks,
        partitions=query.partitions,
        metrics_age_s=_age(observation.at, (cluster.at, query.oldest)),
        missing=_find_missing(query, cluster),
        invalid=tuple(sorted(invalid)),
        queries=len(figures),
        by_query=tuple(map(_load_of, readings, figures)) if len(figures) > 1 else (),
        nodes=observation.nodes,
        sink=None if cluster.at is None else read_sink(readings, figures, state.cluster.counters),
        skew=state.machines.skew,
        behind=next((each.offsets.behind for each in figures if each.offsets.behind is not None), None),
        useful_executors=useful_executors,
        stages=stages,
        **_read_slow(state.machines, observation),
    )


def _find_missing(query: QueryFigures, cluster: ClusterFigures) -> tuple[str, ...]:
    offsets = query.offsets
    needed = (
        offsets.arrival_rate,
        offsets.backlog,
        query.backlog_excess,
        query.batch_s,
        cluster.executors,
        offsets.lag_s,
    )
    return tuple([name for name, value in zip(NEEDED, needed, strict=True) if value is None])


def _by_topic(offsets: Sequence[OffsetFigures]) -> tuple[tuple[str, float], ...]:
    """Arrival rates by topic, summed over the queries, where a query reads several topics; else empty."""
    if not any(len(each.by_topic) > 1 for each in offsets) or not all(each.by_topic for each in offsets):
        return ()
    rates: dict[str, float] = {}
    for topic, rate in (pair for each in offsets for pair in each.by_topic):
        rates[topic] = rates.get(topic, 0.0) + rate
    return tuple(sorted(rates.items()))


def _combine(queries: Sequence[QueryFigures]) -> QueryFigures:
    """Combine the figures of several queries, or of none."""
    offsets = [each.offsets for each in queries]
    return QueryFigures(
        offsets=OffsetFigures(
            waiting=total(o.waiting for o in offsets),
            in_flight=total(o.in_flight for o in offsets),
            backlog=total(o.backlog for o in offsets),
            arrival_rate=total(o.arrival_rate for o in offsets),
            lag_s=largest(o.lag_s for o in offsets),
            exact=all(o.exact for o in offsets),
        ),
        last_batch_s=largest(q.last_batch_s for q in queries),
        last_batch_id=total(q.last_batch_id for q in queries),
        last_batch_records=None,
        running=_any_true([q.running for q in queries]),
        processed_rate=total(q.processed_rate for q in queries),
        backlog_excess=total(q.backlog_excess for q in queries),
        batch_s=largest(q.batch_s for q in queries),
        trigger_s=largest(q.trigger_s for q in queries),
        period_s=largest(q.period_s for q in queries),
        occupancy=largest(q.occupancy for q in queries),
        batches=min((q.batches for q in queries), default=0),
        capped=_any_true([q.capped for q in queries]),
        partitions=total(q.partitions for q in queries),
        oldest=min((q.oldest for q in queries if q.oldest is not None), default=None),
        pressure=largest(q.pressure for q in queries),
        throughput=total(q.throughput for q in queries),
    )


def _load_of(reading: QueryReading, query: QueryFigures) -> QueryLoad:
    return QueryLoad(
        query_id=reading.query_id,
        arrival_rate=query.offsets.arrival_rate,
        processed_rate=query.processed_rate,
        backlog_excess=query.backlog_excess,
        batch_s=query.batch_s,
        trigger_s=query.trigger_s,
        period_s=query.period_s,
        pressure=query.pressure,
        throughput=query.throughput,
        batches=query.batches,
        capped=query.capped,
    )


def _drain_time(
    backlog: int | None, arrival_rate: float | None, processed_rate: float | None
) -> tuple[bool | None, float | None]:
    """Whether more is processed than arrives, and backlog ÷ (processed − arriving); 0 for an empty backlog.

    Rates that differ only by rounding are equal: then the backlog does not drain.
    """
    if arrival_rate is None or processed_rate is None:
        return None, 0.0 if backlog == 0 else None
    draining = processed_rate > arrival_rate * (1 + _ROUNDING)
    if backlog == 0:
        return draining, 0.0
    return draining, backlog / (processed_rate - arrival_rate) if backlog is not None and draining else None


def _any_true(values: Sequence[bool | None]) -> bool | None:
    """True if one is true; else None if one is unknown or there is none."""
    if True in values:
        return True
    return None if None in values or not values else False


def _age(now: float, times: Iterable[float | None]) -> float | None:
    """Age of the oldest known time; a reading made just after ``now`` has age 0."""
    oldest = min([at for at in times if at is not None], default=None)
    return None if oldest is None else max(0.0, now - oldest)


def _read_slow(machines: Machines, observation: Observation) -> dict[str, Any]:
    """Fields of the assessment about slow executors and nodes, where there are any."""
    if not (machines.slow or machines.nodes) or observation.cluster is None:
        return {}
    places = observation.cluster.roster.places
    slow = tuple([name for name in machines.slow if name in places])
    nodes = () if observation.nodes is None else {node.name for node in observation.nodes.nodes}
    return {
        "slow": machine_names(slow, places),
        "slow_executors": slow,
        "slow_on": tuple([places[name] if places[name] in nodes else ELSEWHERE for name in slow]) if nodes else (),
        "slow_nodes": tuple([name for name, _ in machines.nodes if name in nodes]),
        "slow_factor": machines.factor if slow else None,
    }


# Stages of a batch: the slots that each needs, and how many executors the largest keeps busy.

COUNTS = 0.05
"""A stage with a smaller share of the batch's task time is ignored."""


def _read_stages(
    readings: Sequence[QueryReading], queries: Sequence[QueryFigures], slots: int | None
) -> tuple[int | None, tuple[StageLoad, ...]]:
    """Executors that the stages of the last batches keep busy, and the stages, where a batch has several.

    Queries use slots side by side.
    """
    if not any(reading.batch is not None and reading.batch.stages for reading in readings):
        return None, ()
    stages, useful = list[StageLoad](), 0
    for reading, query in zip(readings, queries, strict=True):
        batch = reading.batch
        loads = () if batch is None else stage_loads(batch.stages, batch.records, query.offsets.arrival_rate)
        useful += useful_tasks(loads, query.partitions or 0)
        stages += loads
    partitions = total([query.partitions for query in queries])
    return -(-useful // slots) if slots and partitions else None, tuple(stages)


def stage_loads(stages: Sequence[StageWork], records: int | None, arrival_rate: float | None) -> tuple[StageLoad, ...]:
    """The load of each stage of a batch of so many records; empty where its tasks took no time.

    >>> stage_loads([StageWork(4, 6.0), StageWork(16, 2.0)], 1000, 500.0)
    (StageLoad(tasks=4, share=0.75, demand=3.0), StageLoad(tasks=16, share=0.25, demand=1.0))
    """
    whole_s = math.fsum([stage.busy_s for stage in stages])
    if whole_s <= 0:
        return ()
    batches_per_s = arrival_rate / records if arrival_rate is not None and records else None
    return tuple(
        [
            StageLoad(tasks, busy_s / whole_s, None if batches_per_s is None else busy_s * batches_per_s)
            for tasks, busy_s in stages
        ]
    )


def useful_tasks(stages: Sequence[StageLoad], partitions: int) -> int:
    """Slots that the largest stage keeps busy.

    >>> useful_tasks([StageLoad(4, 0.75), StageLoad(16, 0.25)], 8), useful_tasks([StageLoad(900, 0.04)], 8)
    (16, 8)
    """
    return max([partitions, *[stage.tasks for stage in stages if stage.share >= COUNTS]])


# A sick sink delays batches after their tasks, where executors cannot help.

MOST = 0.5
"""Share of the batch above which the sink's part is its largest."""

_LATE = 0.5


def read_sink(readings: Sequence[QueryReading], figures: Sequence[QueryFigures], counters: Counters) -> str | None:
    """Why the sink is sick, from the first query that it delays; None: healthy. ``counters``: of this reading."""
    for reading, query in zip(readings, figures, strict=True):
        if _is_late(query):
            why = _late_finished_batch(reading.batch) or _late_running_batch(reading, counters)
            if why is not None:
                return why
    return None


def sink_part(batch: Batch) -> float | None:
    """Seconds of a finished batch after its tasks; None: unknown.

    >>> sink_part(Batch(0.0, 1, 20.0, planning_s=0.5, add_batch_s=19.0, commit_s=0.5, work_s=4.5))
    15.0
    """
    if batch.planning_s is None or batch.work_s is None:
        return None
    return max(0.0, batch.duration_s - batch.planning_s - batch.work_s)


def _is_late(query: QueryFigures) -> bool:
    batch_s, trigger_s, period_s = query.batch_s, query.trigger_s, query.period_s
    if batch_s is None or trigger_s is None or period_s is None:
        return False
    return batch_s >= trigger_s and ((query.backlog_excess or 0.0) > 0 or batch_s >= _LATE * period_s)


def _late_finished_batch(batch: Batch | None) -> str | None:
    part_s = None if batch is None else sink_part(batch)
    if batch is None or part_s is None or part_s <= MOST * batch.duration_s:
        return None
    committed = "" if batch.commit_s is None else f", {batch.commit_s:.1f} s of them to commit"
    return f"the last batch took {batch.duration_s:.1f} s, {part_s:.1f} s of them after its tasks{committed}"


def _late_running_batch(query: QueryReading, counters: Counters) -> str | None:
    running, ended = query.running, largest(counters.idle_since)
    if running is None or not running.active or running.since is None or ended is None:
        return None
    age_s, idle_s = running.at - running.since, running.at - max(ended, running.since)
    planning_s = 0.0 if query.batch is None else query.batch.planning_s or 0.0
    if ended <= running.since + planning_s or idle_s <= MOST * age_s:
        return None
    return f"the batch has been running for {age_s:.1f} s, for {idle_s:.1f} s without a task"
