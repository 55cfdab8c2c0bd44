"""Executors: their number, busy ratio, idle times and failed tasks; slow executors and nodes.

**Busy ratio.** ``busy_s`` grows only when a task ends: over a window it is right while tasks are short, and wrong when
they are long. Samples of active tasks do not have this error, but few samples make a coarse mean. So the ratio is ended
task time ÷ slot time while the mean task takes at most a quarter of the window, or while nothing runs; otherwise it is
the mean share of active slots.

**Changing executors.** A reading counts what an executor did since the last reading. A new executor counts from its
start if that lies in between, and from the next reading on if its past is unknown. The last counts of a lost executor
are left out, above and below the fraction line. A lost executor is not a failed task.

**Excluded executors** get no task, after failures on them or on their host: they are as good as lost, and no capacity.
One that is excluded from stages alone is so again in the next batch: it counts as excluded for a rate window.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median
from typing import Any, NamedTuple

from rheostat.analyze.state import (
    AnalysisSettings,
    ClusterHistory,
    Counters,
    Garbage,
    Interval,
    Machines,
    Number,
    OffsetHistory,
    SlotsInUse,
    Slowness,
    known,
    known_column,
    largest,
    total,
)
from rheostat.model import Batch, Cluster, QueryReading, Roster
from rheostat.text import first_few, percent

SHORT_TASK = 0.25
"""Tasks are short if their mean time is at most this share of the window."""

LOST_SHARE = 0.25
"""Batches count as those of a number of executors while no greater share of them is lost. Without it, a job whose
executors are lost now and then would never finish the batches that a decrease waits for."""

MOST_IDLE = 32
"""Idle executors that are listed: an assessment is part of every journal record."""


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """Figures of the executors that get tasks; None: unknown.

    Attributes:
        excluded: ids of the others.
        changed: whether their number has changed, but for some that are lost and come back.
    """

    at: float | None = None
    executors: int | None = None
    requested: int | None = None
    slots_per_executor: int | None = None
    cores_per_executor: int | None = None
    busy_ratio: float | None = None
    active_tasks: int | None = None
    idle_s: tuple[float, ...] | None = None
    failed_tasks: int | None = None
    excluded: tuple[str, ...] = ()
    ended_tasks: int | None = None
    lost_executors: int = 0
    changed: bool = False


class _Reading(NamedTuple):
    """One executor now, as in :class:`Executor`; None where a figure is unknown or impossible."""

    executor_id: str
    slots: int | None
    active: int | None
    added_at: float | None
    busy_s: float | None
    finished: int | None
    failed: int | None


class _Counts(NamedTuple):
    """The counters of one executor at the reading before."""

    busy_s: float | None
    finished: int | None
    failed: int | None
    idle_since: float | None


def read_cluster(
    cluster: Cluster | None, past: ClusterHistory, settings: AnalysisSettings, invalid: set[str]
) -> tuple[ClusterFigures, ClusterHistory]:
    """Figures of this reading, and the history with it. Without a reading the history is unchanged."""
    at = known(cluster.at, "cluster.at", invalid) if cluster is not None else None
    if cluster is None or at is None:
        return ClusterFigures(), past
    excluded = _remember_excluded(cluster, at, past.excluded, settings.rate_window_s)
    readings = [each for each in _read_executors(cluster, invalid) if each.executor_id not in excluded]
    history = past if at == past.at else _remember(readings, at, past, settings)
    garbage = watch_garbage(past.garbage, cluster, at, settings.rate_window_s, invalid)
    requested = known(cluster.requested, "cluster.requested", invalid)
    changed = _has_changed(len(readings), past.counted, requested)
    counted = len(readings) if changed else past.counted
    history = replace(history, excluded=tuple(excluded.items()), garbage=garbage, counted=counted)
    slots = [each.slots for each in readings if each.slots is not None]
    figures = ClusterFigures(
        at=at,
        executors=len(readings),
        requested=requested,
        slots_per_executor=min(slots, default=None) if len(slots) == len(readings) else None,
        cores_per_executor=min(cluster.roster.cores, default=None) if cluster.roster.slots else None,
        busy_ratio=_busy_ratio(_ending_after(at - settings.rate_window_s, history.intervals)),
        active_tasks=total([0, *(each.active for each in readings)]),
        idle_s=_idle_times(history.counters.idle_since, at),
        failed_tasks=_count_failed(history.intervals, at - settings.failure_window_s),
        excluded=tuple(excluded),
        ended_tasks=_count_ended(history.intervals, at - settings.failure_window_s),
        lost_executors=0 if requested is None else _count_lost(past.counters.ids, cluster.roster.ids, requested),
        changed=changed,
    )
    return figures, history


def _has_changed(there: int, before: int | None, requested: int | None) -> bool:
    """Whether the number is another one. While up to a quarter of those asked for are lost, it is the one before.

    >>> [_has_changed(there, 8, 8) for there in (9, 8, 6, 5)], _has_changed(6, 8, 6)
    ([True, False, False, True], True)
    """
    if before is None or requested is None:
        return there != before
    return there > before or there < (1 - LOST_SHARE) * before or (there < before and there == requested)


def _remember_excluded(
    cluster: Cluster, at: float, past: Iterable[tuple[str, float]], window_s: float
) -> dict[str, float]:
    """When the excluded executors among the registered ones were last seen to be excluded."""
    seen = {each: then for each, then in past if 0 <= at - then < window_s} | dict.fromkeys(cluster.excluded, at)
    return {each: seen[each] for each in cluster.roster.ids if each in seen} if seen else {}


def _read_executors(cluster: Cluster, invalid: set[str]) -> list[_Reading]:
    columns = (
        cluster.roster.ids,
        known_column(cluster.roster.task_slots, "executor.cores", invalid),
        known_column(cluster.active_tasks, "executor.active_tasks", invalid),
        known_column(cluster.roster.added_at, "executor.added_at", invalid),
        known_column(cluster.busy_s, "executor.busy_s", invalid),
        known_column(cluster.finished_tasks, "executor.finished_tasks", invalid),
        known_column(cluster.failed_tasks, "executor.failed_tasks", invalid),
    )
    return [_Reading(*row) for row in zip(*columns, strict=True)]


def _counts_by_id(counters: Counters) -> dict[str, _Counts]:
    ids, *columns = counters
    return dict(zip(ids, map(_Counts, *columns), strict=True))


def _remember(now: Sequence[_Reading], at: float, past: ClusterHistory, settings: AnalysisSettings) -> ClusterHistory:
    """The history with this reading. It starts again when time runs backwards."""
    before = _counts_by_id(past.counters)
    intervals: tuple[Interval, ...] = ()
    busy_s, slot_s = past.busy_s, past.slot_s
    if past.at is not None and at > past.at:
        new = _interval(now, at, past.at, before)
        intervals = _append(past.intervals, new, settings)
        busy_s, slot_s = busy_s + (new.active_s if new.busy_s is None else new.busy_s), slot_s + new.slot_s
    counters = Counters(
        ids=tuple([each.executor_id for each in now]),
        busy_s=tuple([each.busy_s for each in now]),
        finished=tuple([each.finished for each in now]),
        failed=tuple([each.failed for each in now]),
        idle_since=tuple([_idle_since(each, before.get(each.executor_id), at) for each in now]),
    )
    return replace(
        past,
        at=at,
        executors=len(now),
        counters=counters,
        intervals=intervals,
        busy_s=busy_s,
        slot_s=slot_s,
    )


def watch_slots(history: ClusterHistory, queries: Iterable[QueryReading]) -> ClusterHistory:
    """The history with how busy the slots were while each query's last batch ran."""
    past = {each.query_id: each for each in history.batches}
    batches = list[SlotsInUse]()
    for query in queries:
        before, batch = past.get(query.query_id), query.batch
        if batch is not None and history.at is not None and (before is None or before.batch_id != batch.batch_id):
            now = SlotsInUse(query.query_id, batch.batch_id, history.at, history.busy_s, history.slot_s)
            batches.append(now._replace(share=_share_in_use(before, now, batch.at - batch.duration_s)))
        elif before is not None:
            batches.append(before)
    return replace(history, batches=tuple(batches))


def _share_in_use(before: SlotsInUse | None, now: SlotsInUse, begin: float) -> float | None:
    """Busy ÷ slot time since ``begin``, when a batch began; the slots had nothing to do between two batches."""
    if before is None or now.slot_s <= before.slot_s:
        return None
    idle = (begin - before.at) / (now.at - before.at) if begin > before.at else 0.0
    return (now.busy_s - before.busy_s) / ((now.slot_s - before.slot_s) * (1 - idle)) if idle < 1 else None


def _interval(now: Sequence[_Reading], at: float, begin: float, past: Mapping[str, _Counts]) -> Interval:
    """Work of the executors whose past is known and whose counters did not fall."""
    counted: list[tuple[_Counts, _Reading]] = []
    slot_s = active_s = 0.0
    for after in now:
        before, since = past.get(after.executor_id), begin
        if before is None and after.added_at is not None and after.added_at >= begin:
            before, since = _Counts(0.0, 0, 0, None), min(at, after.added_at)
        if before is None or after.slots is None or after.active is None or _has_fallen(before, after):
            continue
        counted.append((before, after))
        slot_s += after.slots * (at - since)
        active_s += after.active * (at - since)
    return Interval(
        at=at,
        span_s=at - begin,
        slot_s=slot_s,
        busy_s=_growth([(before.busy_s, after.busy_s) for before, after in counted]),
        active_s=active_s,
        finished=_growth([(before.finished, after.finished) for before, after in counted]),
        failed=_growth([(before.failed, after.failed) for before, after in counted]),
    )


def _has_fallen(before: _Counts, after: _Reading) -> bool:
    return (
        _is_less(after.busy_s, before.busy_s)
        or _is_less(after.finished, before.finished)
        or _is_less(after.failed, before.failed)
    )


def _is_less(now: float | None, then: float | None) -> bool:
    return now is not None and then is not None and now < then


def _growth(pairs: Sequence[tuple[Number | None, Number | None]]) -> Number | None:
    """Sum of the growth of counters, given as (before, after); None: unknown."""
    if not pairs:
        return 0
    before, after = total([before for before, _ in pairs]), total([after for _, after in pairs])
    return None if before is None or after is None else after - before


def _append(past: tuple[Interval, ...], new: Interval, settings: AnalysisSettings) -> tuple[Interval, ...]:
    """Append an interval and drop those before the horizon; short ones are merged to limit their number."""
    horizon_s = max(settings.rate_window_s, settings.failure_window_s)
    kept = _ending_after(new.at - horizon_s, past)
    if kept and kept[-1].span_s < horizon_s / (settings.max_samples - 2):
        return (*kept[:-1], _merge(kept[-1], new))
    return (*kept, new)


def _ending_after(since: float, intervals: Sequence[Interval]) -> tuple[Interval, ...]:
    return tuple([each for each in intervals if each.at > since])


def _merge(first: Interval, second: Interval) -> Interval:
    return Interval(
        at=second.at,
        span_s=first.span_s + second.span_s,
        slot_s=first.slot_s + second.slot_s,
        busy_s=total([first.busy_s, second.busy_s]),
        active_s=first.active_s + second.active_s,
        finished=total([first.finished, second.finished]),
        failed=total([first.failed, second.failed]),
    )


def _idle_since(now: _Reading, before: _Counts | None, at: float) -> float | None:
    """Since when an executor has no task, as far as was seen; None: it has one, or this is unknown.

    One that has just come and never finished a task has been idle since its start.
    """
    if now.active != 0 or now.finished is None:
        return None
    if before is None:
        return now.added_at if now.finished == 0 and now.added_at is not None else at
    return before.idle_since if before.idle_since is not None and before.finished == now.finished else at


def _idle_times(idle_since: Sequence[float | None], at: float) -> tuple[float, ...]:
    idle_s = [round(max(0.0, at - since), 1) for since in idle_since if since is not None]
    return tuple(sorted(idle_s, reverse=True)[:MOST_IDLE])


def busy_during(query_id: str, batch: Batch, history: ClusterHistory) -> float | None:
    """Share of slot time in tasks while a query's last batch ran, as far as is remembered; None: unknown."""
    shares = [each.share for each in history.batches if (each.query_id, each.batch_id) == (query_id, batch.batch_id)]
    if shares and shares[0] is not None:
        return shares[0]
    return _busy_ratio(_ending_after(batch.at - batch.duration_s, history.intervals))


def _busy_ratio(window: Sequence[Interval]) -> float | None:
    """Share of slot time in tasks, in [0, 1]; see the module's docstring."""
    slot_s, active_s = math.fsum(each.slot_s for each in window), math.fsum(each.active_s for each in window)
    ended_s, tasks = total([each.busy_s for each in window]), total([each.finished for each in window])
    if slot_s <= 0:
        return None
    if ended_s is None or tasks is None:
        return min(1.0, active_s / slot_s)
    short = tasks > 0 and ended_s <= SHORT_TASK * math.fsum(each.span_s for each in window) * tasks
    idle = tasks == 0 and active_s == 0
    return min(1.0, (ended_s if short or idle else active_s) / slot_s)


def _count_failed(intervals: Sequence[Interval], since: float) -> int | None:
    """Tasks that failed after ``since``; None before the second reading."""
    return total([0, *(each.failed for each in _ending_after(since, intervals))]) if intervals else None


def _count_ended(intervals: Sequence[Interval], since: float) -> int | None:
    return total([each.finished for each in _ending_after(since, intervals)])


def _count_lost(before: Sequence[str], now: Sequence[str], requested: int) -> int:
    """Executors that are gone, but for those that had to go for the number that is asked for.

    >>> _count_lost(["1", "2", "3"], ["2", "4"], 3), _count_lost(["1", "2", "3"], ["2", "4"], 2)
    (2, 1)
    """
    return max(0, len(set(before).difference(now)) - max(0, len(before) - requested))


# Garbage collection, in windows.

MUCH_GC = 0.1
"""Share of the task time from which on Spark's own pages show garbage collection in red."""

_LEAST_WORK = 0.1
"""An executor that works for a smaller share of the window loses little by it."""


def watch_garbage(past: Garbage, cluster: Cluster, at: float, window_s: float, invalid: set[str]) -> Garbage:
    """Update it when a window ends; one in which no task ended does not, while tasks run.

    An executor that had ended no task when the window began is cold: loading code makes garbage, too.
    """
    if past.at is not None and cluster.gc_s and 0 <= at - past.at < window_s:
        return past
    columns = known_column(cluster.busy_s, "executor.busy_s", invalid), known_column(cluster.gc_s, "gc_s", invalid)
    rows = zip(cluster.roster.ids, *columns, strict=True) if cluster.gc_s else ()
    now = tuple([(name, busy_s, gc_s) for name, busy_s, gc_s in rows if busy_s is not None and gc_s is not None])
    if past.at is None or at < past.at or not now:
        return Garbage(at if now else None, now)
    before = {name: (busy_s, gc_s) for name, busy_s, gc_s in past.counters if busy_s > 0}
    grown = {name: (busy_s - before[name][0], gc_s - before[name][1]) for name, busy_s, gc_s in now if name in before}
    if any(cluster.active_tasks) and not any(worked_s for worked_s, _ in grown.values()):
        return past
    judged = {name: each for name, each in grown.items() if each[0] >= _LEAST_WORK * (at - past.at)}
    shares = {name: min(1.0, lost_s / worked_s) for name, (worked_s, lost_s) in judged.items()}
    worked_s, lost_s = (math.fsum(each) for each in zip(*grown.values(), strict=True)) if grown else (0.0, 0.0)
    much = tuple([(name, share) for name, share in shares.items() if share > MUCH_GC])
    return Garbage(at, now, much, min(1.0, lost_s / worked_s) if much else 0.0)


def describe_garbage(garbage: Garbage, executors: Collection[str]) -> str | None:
    """How much of the task time garbage collection takes, and where; None: little.

    >>> describe_garbage(Garbage(shares=(("1", 0.31), ("2", 0.4))), ["1", "2", "3"])
    'garbage collection takes 31 to 40 % of the task time on the executors 1, 2'
    >>> describe_garbage(Garbage(shares=(("1", 0.31), ("2", 0.31))), ["1", "2"])
    'garbage collection takes 31 % of the task time on all 2 executors'
    """
    shares = {name: share for name, share in garbage.shares if name in executors}
    if not shares:
        return None
    least, most = percent(min(shares.values())), percent(max(shares.values()))
    part = most if least == most else f"{least.removesuffix(' %')} to {most}"
    some = f"the executor{'s' if len(shares) > 1 else ''} {first_few(list(shares))}"
    where = f"all {len(shares)} executors" if len(executors) == len(shares) > 1 else some
    return f"garbage collection takes {part} of the task time on {where}"


# Slow executors and slow nodes, as opposed to partitions that are loaded unevenly.

SLOW = 2.0
"""Task time ÷ that of the others from which an executor is slow. Spark's limit for one slow task was 1.5 times the
median until 3.5 and is 3 since 4.0 (``spark.speculation.multiplier``); a mean of several tasks is steadier."""

EXPLAINED = 1.5
"""An executor is slow only beyond this many times what the load of the partitions explains."""

COLD_S = 60.0
"""An executor that is older is not cold, however few tasks have ended on it."""

REMEMBERED_S = 600.0
"""How long an unused node counts as slow: as long as an ineffective increase is remembered. Then it is tried again,
which costs one change."""

STEADY_S = 1200.0
"""An executor that has been as slow for so long is on a slower machine, not sick: what it does is what it can do."""

AS_SLOW = 1.5
"""Up to so many times the factor an executor is as slow as before, or as another one."""

_LEAST_TASKS = 2
_LEAST_RECORDS = 10


def partition_skew(history: OffsetHistory) -> float | None:
    """Share of the largest partition of a query ÷ an even share; None: unknown, or fewer than 10 records each.

    Of the records that arrived lately or of those that wait, whichever is more uneven.
    """
    return max([max(sizes) * len(sizes) / sum(sizes) for sizes in _sizes(history)], default=None)


def find_hot_partition(histories: Iterable[OffsetHistory]) -> str | None:
    """The partition with the greatest part of a query's records, as text; None: none has much more than the others."""
    hottest, text = 0.0, None
    for history in histories:
        for sizes in _sizes(history):
            most, whole = max(sizes), sum(sizes)
            skew, row = most * len(sizes) / whole, sizes.index(most)
            if skew >= max(EXPLAINED, hottest):
                name = f"partition {history.numbers[row]} of {history.topics[row]}"
                hottest, text = skew, f"{name}, {percent(most / whole)} of the records"
    return text


def partition_heat(history: OffsetHistory) -> float:
    """The largest partition ÷ the median one, likewise; infinite where the median one is empty."""
    heats = [max(sizes) / middle if (middle := median(sizes)) > 0 else inf for sizes in _sizes(history)]
    return max(heats, default=1.0)


def _sizes(history: OffsetHistory) -> list[list[int]]:
    """Records of each partition: those that arrived lately, and those that wait, where they are enough."""
    if not history.complete or len(history.rows) < 2:
        return []
    last: tuple[Any, ...] = history.rows[-1]
    below = history.rows[0], history.committed
    columns = [[end - start for end, start in zip(last, first, strict=True)] for first in below]
    return [sizes for sizes in columns if sum(sizes) >= _LEAST_RECORDS * len(sizes)]


def task_times(then: Counters, now: Counters, span_s: float) -> dict[str, float]:
    """Mean task time of each executor that was there at both ends of a window of ``span_s`` seconds, where known.

    Empty if no task ended on any of them.

    >>> then = Counters(("1", "2"), (10.0, 10.0), (5, 5), (0, 0), (None, None))
    >>> task_times(then, Counters(("1", "2"), (22.0, 10.0), (11, 5), (0, 0), (None, None)), 60.0)
    {'1': 2.0, '2': 60.0}
    """
    before, times, unended = _counts_by_id(then), dict[str, float](), dict[str, float]()
    for name, after in _counts_by_id(now).items():
        past = before.get(name)
        if past is None or after.busy_s is None or after.finished is None:
            continue
        if past.busy_s is None or past.finished is None:
            continue
        ended = after.finished - past.finished
        if ended >= _LEAST_TASKS:
            times[name] = (after.busy_s - past.busy_s) / ended
        elif ended == 0 and after.idle_since is None and past.idle_since is None:
            unended[name] = span_s
    return times | unended if times else {}


def slow_factors(times: Mapping[str, float], hosts: Mapping[str, str], limit: float) -> dict[str, float]:
    """Executors whose tasks take at least ``limit`` times as long as the others', with that factor.

    >>> slow_factors({"1": 3.0, "2": 1.0, "3": 1.2}, {}, 2.0)
    {'1': 2.727272727272727}
    >>> slow_factors({"1": 3.0, "2": 3.0, "3": 1.0, "4": 1.0}, {"1": "a", "2": "a", "3": "b", "4": "b"}, 2.0)
    {'1': 3.0, '2': 3.0}
    """
    if len(times) < 2 or max(times.values()) < limit * min(times.values()):
        return {}
    factors: dict[str, float] = {}
    alone = [([name], [other for other in times if other != name]) for name in times]
    for members, others in [*alone, *_nodes(times, hosts)]:
        usual_s = median([times[name] for name in others])
        if all(0 < limit * usual_s <= times[name] for name in members):
            factors |= {name: times[name] / usual_s for name in members}
    return factors


def _nodes(names: Iterable[str], hosts: Mapping[str, str]) -> Iterable[tuple[list[str], list[str]]]:
    """For each node with several executors: those on it and those elsewhere, if there are any elsewhere."""
    on: dict[str, list[str]] = {}
    for name in names:
        on.setdefault(hosts.get(name, name), []).append(name)
    for host, members in on.items():
        if len(members) > 1 and len(on) > 1:
            yield members, [name for other, found in on.items() if other != host for name in found]


def watch_executors(
    past: Machines, history: ClusterHistory, cluster: Cluster | None, offsets: Sequence[OffsetHistory], window_s: float
) -> Machines:
    """Update slow executors and nodes, when a window ends, with the ``offsets`` of all queries."""
    at, counters = history.at, history.counters
    if cluster is None or at is None:
        return past
    if past.at is None or at < past.at:
        return Machines(at=at, counters=counters)
    if at - past.at < window_s:
        return past
    skew = largest([partition_skew(each) for each in offsets])
    machines = past._replace(
        at=at,
        counters=counters,
        skew=past.skew if skew is None else skew,
        hot=past.hot if skew is None else find_hot_partition(offsets),
        nodes=tuple([(place, then) for place, then in past.nodes if 0 <= at - then < REMEMBERED_S]),
        found=_forget_slow(past.found, at),
    )
    slots = dict(zip(cluster.roster.ids, cluster.roster.task_slots, strict=True))
    if 0 < sum(len(each.topics) for each in offsets) < sum(slots[each] or 1 for each in counters.ids):
        # those without a partition have other tasks
        return machines._replace(suspects=(), slow=(), slower=(), factor=None)
    times = task_times(past.counters, counters, at - past.at)
    cold = _cold_executors(past.counters, cluster.roster, past.at)
    warm = {name: task_s for name, task_s in times.items() if name not in cold}
    if skew is None or len(warm) < 2:
        return machines
    return _find_slow(machines, at, warm, cluster, max([partition_heat(each) for each in offsets]))


def _cold_executors(then: Counters, roster: Roster, at: float) -> set[str]:
    """The executors that were cold at the start of a window: young, with fewer ended tasks than slots.

    An executor of unknown slots is not cold; of one with unknown age only the tasks count.

    >>> then = Counters(("1", "2"), (3.0, 0.0), (2, 0), (0, 0), (None, None))
    >>> roster = Roster(("1", "2", "3"), ("a", "a", "a"), (2, 2, 2), (0.0, 0.0, None), (None, None, None))
    >>> sorted(_cold_executors(then, roster, 10.0)), sorted(_cold_executors(then, roster, 60.0))
    (['2', '3'], ['3'])
    """
    ended = dict(zip(then.ids, then.finished, strict=True))
    return {
        name
        for name, slots, added_at in zip(roster.ids, roster.task_slots, roster.added_at, strict=True)
        if (ended.get(name) or 0) < (slots or 0)  # a source may not know them
        and (added_at is None or at < added_at + COLD_S)
    }


def _find_slow(machines: Machines, at: float, times: Mapping[str, float], cluster: Cluster, heat: float) -> Machines:
    """Slow executors of the window that just ended, from mean task times."""
    hosts = cluster.roster.places
    factors = slow_factors(times, hosts, max(SLOW, EXPLAINED * heat))
    kept = [name for name in (*machines.slow, *machines.slower) if name in hosts and name not in times]
    all_slow = [name for name in factors if name in machines.suspects] + kept
    found = _follow_slow(machines.found, all_slow, factors, cluster.roster, at)
    steady = {each.name for each in found if at - each.since >= STEADY_S}
    slow = tuple([name for name in all_slow if name not in steady])
    factor = max([factors[name] for name in slow if name in factors], default=machines.factor if slow else None)
    fast = {hosts[name] for name in times if name in hosts and name not in factors}
    before = {place: then for place, then in machines.nodes if place not in fast}
    now = dict.fromkeys(_slow_nodes(all_slow, hosts), at)
    return machines._replace(
        suspects=(*factors, *kept),
        slow=slow,
        factor=factor,
        nodes=tuple(sorted((before | now).items())),
        slower=tuple([name for name in all_slow if name in steady]),
        found=found,
    )


def _forget_slow(found: Sequence[Slowness], at: float) -> tuple[Slowness, ...]:
    """Those that were found slow lately. That there are slower machines stays known, without a name."""
    steady = [each for each in found if at - each.since >= STEADY_S]
    kind = [each._replace(name="") for each in steady[-1:] if at - each.last >= REMEMBERED_S]
    return (*kind, *[each for each in found if 0 <= at - each.last < REMEMBERED_S])


def _follow_slow(
    past: Sequence[Slowness], slow: Iterable[str], factors: Mapping[str, float], roster: Roster, at: float
) -> tuple[Slowness, ...]:
    """Since when each is slow; one that came after others were, and is no slower than they, is so from the start.

    >>> roster = Roster(("1", "2", "3"), added_at=(0.0, 1900.0, None))
    >>> now = _follow_slow([Slowness("1", 900.0, 2.5, 1940.0)], ["1", "2", "3"], {"1": 2.4, "2": 2.6}, roster, 2000.0)
    >>> [(each.name, each.since) for each in now]
    [('1', 900.0), ('2', 800.0), ('3', 2000.0)]
    """
    known, registered = {each.name: each for each in past}, dict(zip(roster.ids, roster.added_at, strict=True))
    worst = max([each.factor for each in past], default=0.0)
    first = max(min([each.since for each in past], default=at), at - REMEMBERED_S)
    for name in slow:
        before, added_at = known.get(name), registered[name]
        factor = factors.get(name, 0.0 if before is None else before.factor)
        if before is not None and factor <= AS_SLOW * before.factor:
            known[name] = before._replace(last=at)
            continue
        as_others = before is None and added_at is not None and added_at >= first and factor <= AS_SLOW * worst
        known[name] = Slowness(name, at - STEADY_S if as_others else at, factor, at)
    return tuple(known.values())


def _slow_nodes(slow: Collection[str], hosts: Mapping[str, str]) -> set[str]:
    """The nodes whose executors are all slow.

    >>> _slow_nodes(["1", "2"], {"1": "a", "2": "b", "3": "b"})
    {'a'}
    """
    return {hosts[name] for name in slow if name in hosts} - {
        place for name, place in hosts.items() if name not in slow
    }


def machine_names(slow: Sequence[str], hosts: Mapping[str, str]) -> tuple[str, ...]:
    """Names of slow executors for display: a node instead of all its executors, where it has several.

    >>> machine_names(["1", "2"], {"1": "a", "2": "a", "3": "b"}), machine_names(["3"], {"1": "a", "2": "a", "3": "b"})
    (('node a',), ('executor 3 on b',))
    """
    nodes = {hosts[members[0]]: members for members, _ in _nodes(hosts, hosts) if all(name in slow for name in members)}
    whole = {name for members in nodes.values() for name in members}
    single = [f"executor {name} on {hosts[name]}" for name in slow if name in hosts and name not in whole]
    return (*(f"node {host}" for host in nodes), *single)
