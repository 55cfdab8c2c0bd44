"""Turn an observation and the state of earlier ones into an assessment: rates, backlog, lag, occupancy. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rheostat.analyze.batches import (
    DRIVEN,
    QueryFigures,
    count_spread,
    describe_failures,
    driver_part,
    executors_part,
    is_driver_bound,
    read_query,
)
from rheostat.analyze.executors import (
    ClusterFigures,
    busy_during,
    describe_garbage,
    machine_names,
    read_cluster,
    watch_executors,
    watch_slots,
)
from rheostat.analyze.offsets import OffsetFigures
from rheostat.analyze.processors import read_processors
from rheostat.analyze.state import (
    AnalysisSettings,
    AnalysisState,
    ClusterHistory,
    Counters,
    Garbage,
    Machines,
    PresentRuns,
    QueryHistory,
    known_fields,
    largest,
    total,
)
from rheostat.config.models import ELSEWHERE
from rheostat.model import (
    Assessment,
    Batch,
    EdgeLoad,
    Observation,
    QueryLoad,
    QueryReading,
    StageLoad,
    StageWork,
    Unmeasured,
    add_counts,
)
from rheostat.text import percent, records

if TYPE_CHECKING:
    from rheostat.config.models import Settings


def analysis_settings(settings: Settings) -> AnalysisSettings:
    """The part of a job's settings that the analysis uses."""
    return AnalysisSettings(
        objective_lag_s=settings.parsed_objective.lag_s,
        rate_window_s=settings.rate_window_s,
        failure_window_s=settings.guard.failure_window_s,
    )


_OF_QUERY = ("arrival_rate", "backlog", "backlog_excess", "batch_s", "lag_s")
NEEDED = tuple(sorted([*_OF_QUERY, "executors"]))
"""Figures that every decision needs. The processed rate, the busy ratio and the split of the backlog are not among
them: in overload they may stay unknown for minutes, and an increase must not wait then."""

_OF_BATCH = ("planning_s", "add_batch_s", "commit_s", "work_s", "state_rows", "dropped_late")
_UNREAD = (*_OF_BATCH, "reread_s", "reread_least_s", "reread_records")
"""Figures of batches that nothing else checks."""

IN_USE = 0.5
"""Slots that are busy for a smaller share of the time idle: then one long batch says nothing of the executors."""

_ROUNDING = 1e-9


def analyze(
    observation: Observation, state: AnalysisState, settings: AnalysisSettings
) -> tuple[Assessment, AnalysisState]:
    """Assess an observation.

    Rates, backlogs and their excess are summed over the queries that have not failed. Lag, batch time, trigger, period
    and occupancy are the largest of those that are not idle, finished batches the fewest. A sum with an unknown term is
    unknown. Impossible figures (NaN, infinite, negative) count as unknown and are named in ``invalid``.

    Where some queries are measured, those that lack a needed figure are left out and named in ``unmeasured``.

    ``metrics_age_s`` is the age of the oldest *reading* among offsets, running batch and executors. The last finished
    batch does not count: in overload that event is old, however fresh the reading.

    ``observation.at`` comes from the loop's own clock and is trusted.
    """
    at, invalid, impossible = observation.at, set[str](), set[str]()
    cluster, cluster_history = read_cluster(observation.cluster, state.cluster, settings, invalid)
    past = {history.query_id: history for history in state.queries}
    readings = [query for query in observation.queries if query.failed_because is None]
    figures, histories, faults = list[QueryFigures](), list[QueryHistory](), list[Unmeasured | None]()
    slots_idle = cluster.busy_ratio is None or cluster.busy_ratio < IN_USE
    for query in readings:
        before, own = past.pop(query.query_id, None), set[str]()
        known_fields(query.batch, "batch", _UNREAD, own)
        each, history = read_query(
            query, before, at, settings, executors_changed=cluster.changed, slots_idle=slots_idle, invalid=own
        )
        since = None if before is None else before.unmeasured_since
        fault = _find_fault(query, each, own, at if since is None else since, describe_failures(history.runs))
        figures.append(each)
        histories.append(replace(history, unmeasured_since=None if fault is None else fault.since))
        faults.append(fault)
        impossible |= own
    offsets = [history.offsets for history in histories]
    machines = watch_executors(state.machines, cluster_history, observation.cluster, offsets, settings.rate_window_s)
    kept = _keep_gone(past.values(), at, settings.rate_window_s)
    failing = _name_failing(observation, histories or kept)
    cluster_history = watch_slots(cluster_history, readings)
    recent = [each for each in kept if at - each.seen_at <= settings.rate_window_s]
    runs = follow_present_runs(state, (*histories, *recent), at) if readings else state.runs
    state = AnalysisState(queries=(*histories, *kept), cluster=cluster_history, machines=machines, runs=runs)
    measured = [number for number, fault in enumerate(faults) if fault is None]
    if not measured or len(measured) == len(faults):
        assessment = _assess(observation, readings, figures, cluster, state, invalid | impossible)
        never = tuple([fault for fault in faults if fault is not None and fault.source is not None])
        return replace(assessment, unmeasured=never, failing=failing) if never or failing else assessment, state
    readings_kept, figures_kept = [readings[number] for number in measured], [figures[number] for number in measured]
    return replace(
        _assess(observation, readings_kept, figures_kept, cluster, state, invalid),
        queries=len(readings),
        by_query=tuple(map(_load_of, readings_kept, figures_kept)),
        unmeasured=tuple([fault for fault in faults if fault is not None]),
        failing=failing,
    ), state


_KEPT_S = 600.0
"""How long the runs of an absent query are remembered, s: supervisors wait up to five minutes before a restart."""


def _keep_gone(histories: Iterable[QueryHistory], at: float, window_s: float) -> list[QueryHistory]:
    """The histories of queries that are not there, to be continued if they return; of later ones only their runs."""
    kept = list[QueryHistory]()
    for each in histories:
        if 0 <= at - each.seen_at <= window_s:
            kept.append(each)
        elif 0 <= at - each.seen_at <= _KEPT_S:
            kept.append(QueryHistory(query_id=each.query_id, run_id=each.run_id, seen_at=each.seen_at, runs=each.runs))
    return kept


def _name_failing(observation: Observation, histories: Sequence[QueryHistory]) -> tuple[str, ...]:
    """The queries that fail and start again, as text; where none is active, those that have failed."""
    names = {each.query_id: each.name or each.query_id for each in observation.queries}
    hows = [(each.query_id, describe_failures(each.runs)) for each in histories]
    found = {query_id: how for query_id, how in hows if how is not None}
    if all(each.failed_because is not None for each in observation.queries):
        ended = {each.query_id: f"has failed ({each.failed_because})" for each in observation.queries}
        found = ended | found
    return tuple([f"the query {names.get(query_id, query_id)} {how}" for query_id, how in found.items()])


_LASTED_S = 600.0
"""A run that ends earlier may be one of a query that fails and starts again, again and again: no new code each time."""


def follow_present_runs(state: AnalysisState, queries: Sequence[QueryHistory], at: float) -> PresentRuns:
    """The runs with this look, and since when figures count: since they began.

    A run that follows a short one counts only once it has lasted itself: then nothing is doubted each minute.
    """
    past, ids = state.runs, tuple(sorted([(each.query_id, each.run_id) for each in queries]))
    known = past.ids or tuple(sorted([(each.query_id, each.run_id) for each in state.queries]))
    lasted = past.at is None or at - past.at >= _LASTED_S
    if ids == known or not known:
        return PresentRuns(ids, past.at, past.at if lasted else past.since)
    return PresentRuns(ids, at, at if lasted else past.since)


def _find_fault(
    query: QueryReading, figures: QueryFigures, impossible: set[str], since: float, fails: str | None
) -> Unmeasured | None:
    """Why a query is not measured; None: it is."""
    lacks = tuple(sorted(impossible) or _find_unknown(figures))
    if not lacks and fails is None:
        return None
    return Unmeasured(query.name or query.query_id, since, lacks, query.uncountable, fails)


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
    return Assessment(
        at=observation.at,
        executors=cluster.executors,
        requested=cluster.requested,
        slots_per_executor=cluster.slots_per_executor,
        cores_per_executor=cluster.cores_per_executor,
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
        ended_tasks=cluster.ended_tasks,
        lost_executors=cluster.lost_executors,
        partitions=query.partitions,
        metrics_age_s=_age(observation.at, (cluster.at, query.oldest)),
        missing=_find_missing(query, cluster),
        invalid=tuple(sorted(invalid)),
        queries=len(figures),
        idle=query.idle,
        by_query=tuple(map(_load_of, readings, figures)) if len(figures) > 1 else (),
        nodes=observation.nodes,
        wait_s=query.wait_s,
        running_share=query.running_share,
        run_since=state.runs.since,
        waited_s=offsets.waited_s,
        arrived=offsets.arrived,
        running_since=query.running_since,
        batch_cap=query.batch_cap,
        ended=query.ended,
        edge_loads=tuple(map(_edge_load_of, *_with_edges(readings, figures))),
        processors=read_processors(observation, readings, figures),
        spread=count_spread((offsets.arrival_rate or 0.0) * (query.last_batch_s or 0.0)),
        **_read_limits(observation, readings, figures, cluster, state),
        **_read_slow(state.machines, observation),
        **_read_garbage(state.cluster.garbage, observation),
    )


def _read_limits(
    observation: Observation,
    readings: Sequence[QueryReading],
    figures: Sequence[QueryFigures],
    cluster: ClusterFigures,
    state: AnalysisState,
) -> dict[str, Any]:
    """Fields of the assessment about what else than the number of executors may limit the job."""
    (tasks, stages), slots = _read_stages(readings, figures), cluster.slots_per_executor
    return {
        "sink": None if cluster.at is None else read_sink(readings, figures, state.cluster),
        "skew": state.machines.skew,
        "hot": state.machines.hot,
        "behind": next((each.offsets.behind for each in figures if each.offsets.behind is not None), None),
        "excluded": cluster.excluded,
        "excluded_on": _nodes_of(cluster.excluded, observation),
        "tasks": tasks,
        "useful_executors": -(-tasks // slots) if tasks and slots else None,
        "stages": stages,
        "work_s": largest(None if each.batch is None else executors_part(each.batch) for each in readings),
        "straggler_s": straggler_part(readings[0].batch, cluster) if len(readings) == 1 else None,
        "driver": read_driver(readings, figures),
        **_read_reread(readings),
        "driver_s": largest(
            None if reading.batch is None else driver_part(reading.batch)
            for reading, query in zip(readings, figures, strict=True)
            if not query.idle
        ),
    }


def _find_missing(query: QueryFigures, cluster: ClusterFigures) -> tuple[str, ...]:
    return tuple(sorted([*_find_unknown(query), *(["executors"] if cluster.executors is None else [])]))


def _find_unknown(query: QueryFigures) -> list[str]:
    offsets = query.offsets
    needed = (offsets.arrival_rate, offsets.backlog, query.backlog_excess, query.batch_s, offsets.lag_s)
    return [name for name, value in zip(_OF_QUERY, needed, strict=True) if value is None]


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
    offsets, working = [each.offsets for each in queries], [each for each in queries if not each.idle] or queries
    return QueryFigures(
        offsets=OffsetFigures(
            waiting=total(o.waiting for o in offsets),
            in_flight=total(o.in_flight for o in offsets),
            backlog=total(o.backlog for o in offsets),
            arrival_rate=total(o.arrival_rate for o in offsets),
            lag_s=largest(o.lag_s for o in offsets),
            waited_s=largest(o.waited_s for o in offsets),
            arrived=total(o.arrived for o in offsets),
            exact=all(o.exact for o in offsets),
        ),
        last_batch_s=largest(q.last_batch_s for q in working),
        last_batch_id=total(q.last_batch_id or 0 if q.idle else q.last_batch_id for q in queries),
        **_of_the_only_one(working),
        running=_any_true([q.running for q in queries]),
        processed_rate=total(q.processed_rate for q in queries),
        backlog_excess=total(q.backlog_excess for q in queries),
        batch_s=largest(q.batch_s for q in working),
        trigger_s=largest(q.trigger_s for q in working),
        period_s=largest(q.period_s for q in working),
        occupancy=largest(q.occupancy for q in working),
        batches=min((q.batches for q in working), default=0),
        capped=_any_true([q.capped for q in queries]),
        partitions=total(q.partitions for q in working),
        oldest=min((q.oldest for q in queries if q.oldest is not None), default=None),
        pressure=largest(q.pressure for q in queries),
        throughput=total(q.throughput for q in queries),
        idle=bool(queries) and all(q.idle for q in queries),
        wait_s=largest(q.wait_s for q in queries),
        running_share=largest(q.running_share for q in working),
    )


def _of_the_only_one(working: Sequence[QueryFigures]) -> dict[str, Any]:
    """Figures of batches, where only one query is not idle."""
    if len(working) != 1:
        return {"last_batch_records": None}
    names = ("last_batch_records", "running_since", "batch_cap", "ended")
    return {name: getattr(working[0], name) for name in names}


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
        idle=query.idle,
        running_share=query.running_share,
    )


def _with_edges(
    readings: Sequence[QueryReading], figures: Sequence[QueryFigures]
) -> tuple[list[QueryReading], list[QueryFigures]]:
    """The queries whose last batch had edges at which records may be dropped."""
    pairs = zip(readings, figures, strict=True)
    found = [(reading, each) for reading, each in pairs if reading.batch is not None and reading.batch.edges]
    return [reading for reading, _ in found], [each for _, each in found]


def _edge_load_of(reading: QueryReading, query: QueryFigures) -> EdgeLoad:
    lag_s = query.offsets.lag_s
    return EdgeLoad(
        query_id=reading.query_id,
        edges=add_counts(edge for batch in query.ended for edge in batch.edges),
        busy_s=sum([batch.duration_s for batch in query.ended]),
        arrival_rate=query.offsets.arrival_rate,
        backlog_excess=query.backlog_excess,
        late_s=None if lag_s is None else max(0.0, lag_s - (query.trigger_s or 0.0)),
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
    if not (machines.slow or machines.nodes or machines.slower) or observation.cluster is None:
        return {}
    places = observation.cluster.roster.places
    slow = tuple([name for name in machines.slow if name in places])
    nodes = () if observation.nodes is None else {node.name for node in observation.nodes.nodes}
    return {
        "slow": machine_names(slow, places),
        "slow_executors": slow,
        "slow_on": _nodes_of(slow, observation),
        "slow_nodes": tuple([name for name, _ in machines.nodes if name in nodes]),
        "slow_factor": machines.factor if slow else None,
        "slower": tuple([name for name in machines.slower if name in places]),
    }


def _read_garbage(garbage: Garbage, observation: Observation) -> dict[str, Any]:
    """Fields of the assessment about garbage collection, where it takes much."""
    there = () if observation.cluster is None else observation.cluster.roster.ids
    text = describe_garbage(garbage, there)
    return {} if text is None else {"gc": text, "gc_share": garbage.whole}


def _nodes_of(executors: Sequence[str], observation: Observation) -> tuple[str, ...]:
    """The node of each, ``elsewhere`` for no known node; empty where nodes are unknown."""
    if not executors or observation.cluster is None or observation.nodes is None or not observation.nodes.nodes:
        return ()
    places, nodes = observation.cluster.roster.places, {node.name for node in observation.nodes.nodes}
    return tuple([places[name] if places.get(name) in nodes else ELSEWHERE for name in executors])


# Stages of a batch: the slots that each needs, and how many the largest keeps busy.

COUNTS = 0.05
"""A stage with a smaller share of the batch's task time is ignored."""

_FULL = 10
"""Records for each task that reads from which on no task was missing for lack of records."""


def _read_stages(
    readings: Sequence[QueryReading], queries: Sequence[QueryFigures]
) -> tuple[int | None, tuple[StageLoad, ...]]:
    """Slots that the stages of the last batches keep busy, None where a query's are unknown; and the stages.

    Queries use slots side by side.
    """
    stages, useful = list[StageLoad](), list[int | None]()
    for reading, query in zip(readings, queries, strict=True):
        batch = reading.batch
        loads = () if batch is None else stage_loads(batch.stages, query.last_batch_records, query.offsets.arrival_rate)
        known_ones = batch is not None and batch.stages and query.partitions
        useful.append(useful_tasks(loads, _reading_tasks(reading, query)) if known_ones else None)
        stages += loads
    return total(useful), tuple(stages)


class ReadingTasks(NamedTuple):
    """Tasks that read.

    Attributes:
        least: of a batch in which no partition is without records, as far as the options of the sources tell.
        growing: of one that takes all that waits, where the size of a task is limited.
        full: whether the last batch was large enough to show them all.
        sources: of the query; where they are joined, each is read by a stage of its own, beside the others.
    """

    least: int
    growing: int = 0
    full: bool = False
    sources: int = 1


def _reading_tasks(query: QueryReading, figures: QueryFigures) -> ReadingTasks:
    """Kafka's options minPartitions and maxRecordsPerPartition make more tasks than there are partitions."""
    options = [{key.lower(): value for key, value in source.options.items()} for source in query.sources]
    least, size = (
        [int(each[name]) if each.get(name, "").isdecimal() else 0 for each in options]
        for name in ("minpartitions", "maxrecordsperpartition")
    )
    records = 0 if query.batch is None else query.batch.records or 0
    taken = min([figures.offsets.backlog or 0, *(each.batch_cap for each in query.sources if each.batch_cap)])
    read = [max(split, source.partitions or 0) for split, source in zip(least, query.sources, strict=True)]
    most, largest_task = max(sum(read), figures.partitions or 0), min(filter(None, size), default=0)
    growing = math.ceil(taken / largest_task) if largest_task else 0
    return ReadingTasks(most, growing, records >= _FULL * most, len(query.sources))


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
            for tasks, busy_s, _ in stages
        ]
    )


def useful_tasks(stages: Sequence[StageLoad], reading: ReadingTasks) -> int:
    """Slots that the largest stage keeps busy. A small batch had fewer tasks than a larger one will have.

    >>> seen = [StageLoad(4, 0.75), StageLoad(16, 0.25), StageLoad(900, 0.0)]
    >>> useful_tasks(seen, ReadingTasks(8)), useful_tasks(seen[:1], ReadingTasks(8))
    (16, 8)
    >>> useful_tasks(seen[:1], ReadingTasks(8, full=True)), useful_tasks(seen[:1], ReadingTasks(8, 40, full=True))
    (4, 40)
    >>> useful_tasks(seen, ReadingTasks(24, full=True, sources=2))
    20
    """
    counted = [stage.tasks for stage in stages if stage.share >= COUNTS]
    beside = min(sum(counted), reading.least) if reading.sources > 1 else 0
    return max([beside if counted and reading.full else reading.least, reading.growing, *counted])


def straggler_part(batch: Batch | None, cluster: ClusterFigures) -> float | None:
    """Time in which free slots wait for stragglers, s, at the least; None: unknown.

    Tasks on s slots take no longer than all of them together ÷ s and the longest one (Graham, 1966). So what they took
    beyond the first part is of single tasks, or of slots that the driver leaves free. No further slot shortens that.

    >>> batch = Batch(0.0, 1, 12.0, work_s=10.0, stages=(StageWork(8, 17.0),))
    >>> straggler_part(batch, ClusterFigures(executors=4, slots_per_executor=2))
    7.875
    """
    slots = (cluster.executors or 0) * (cluster.slots_per_executor or 0)
    if batch is None or batch.work_s is None or not batch.stages or not slots:
        return None
    return max(0.0, batch.work_s - math.fsum([stage.busy_s for stage in batch.stages]) / slots)


# A sick sink delays batches after their tasks, where executors cannot help.

MOST = 0.5
"""Share of the batch above which the sink's part is its largest."""

_LATE = 0.4

BUSY = 2 / 3
"""Slots that are busy for a greater share of the time contradict a sick sink: tasks that take less than half of each
batch take less than this share from the start of a batch to any moment of the next one, f + f of 1 + f."""


def read_sink(readings: Sequence[QueryReading], figures: Sequence[QueryFigures], cluster: ClusterHistory) -> str | None:
    """Why the sink is sick, from the first query that it delays; None: healthy. ``cluster``: with this reading."""
    for reading, query in zip(readings, figures, strict=True):
        if _is_late(query):
            why = _late_finished_batch(reading, cluster) or _late_running_batch(reading, cluster.counters)
            if why is not None:
                return why
    return None


def read_driver(readings: Sequence[QueryReading], figures: Sequence[QueryFigures]) -> str | None:
    """Which part of the driver delays the batches; None: none does, or executors would help another query."""
    late = [reading.batch for reading, query in zip(readings, figures, strict=True) if _is_late(query)]
    batches = [batch for batch in late if batch is not None and is_driver_bound(batch)]
    if not batches or len(batches) < len(late):
        return None
    batch, listing = batches[0], ""
    planning_s, commit_s, listing_s = batch.planning_s or 0.0, batch.commit_s or 0.0, batch.listing_s
    if listing_s is not None and listing_s > MOST * planning_s:
        listing = f" ({listing_s:.1f} s of that to list what is new)"
    parts = f"{planning_s:.1f} s of them to plan it{listing} and {commit_s:.1f} s to commit"
    return f"the last batch took {batch.duration_s:.1f} s, {parts}"


REREAD = 0.25
"""Share of the task time from which on it is worth a word that each batch reads other data than its input."""


_LITTLE = 0.1


def _read_reread(readings: Sequence[QueryReading]) -> dict[str, Any]:
    """Fields of the assessment about data that each batch reads anew, of the query where it takes the largest share."""
    shares = [
        (_reread_share(each.batch, each.trigger_s or 0.0), number)
        for number, each in enumerate(readings)
        if each.batch is not None
    ]
    share, number = max(shares, default=(0.0, 0))
    if share <= REREAD:
        return {}
    query = readings[number]
    batch: Any = query.batch
    text = (
        f"each batch of the query {query.name or query.query_id} reads {records(batch.reread_records)} of other data "
        f"than its input anew, which takes {percent(share)} of the task time"
    )
    bound = len(readings) == 1 and batch.reread_least_s > DRIVEN * batch.duration_s
    return {"reread": text, "reread_share": share, "reread_bound": bound}


def _reread_share(batch: Batch, trigger_s: float) -> float:
    """Of the task time; 0 where not even a tenth of one slot is busy with it."""
    whole_s, reread_s = math.fsum([stage.busy_s for stage in batch.stages]), batch.reread_s or 0.0
    little = not batch.reread_records or reread_s <= _LITTLE * max(trigger_s, batch.duration_s)
    return 0.0 if little or whole_s <= 0 else reread_s / whole_s


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


def _late_finished_batch(query: QueryReading, cluster: ClusterHistory) -> str | None:
    batch = query.batch
    part_s = None if batch is None else sink_part(batch)
    if batch is None or part_s is None or part_s <= MOST * batch.duration_s:
        return None
    if batch.duration_s < (query.trigger_s or 0.0) or (busy_during(query.query_id, batch, cluster) or 0.0) > BUSY:
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
