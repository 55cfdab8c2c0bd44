"""What the executors say: how many there are, how busy they are, how many tasks have failed.

``busy_s`` grows only when a task ends, so over a window it is right while tasks are short, and reads nothing and then
too much when they are long. Sampling the active tasks has no such error, but a few samples are a coarse mean. So:
ended task time ÷ slot time while the mean task is at most a quarter of the window, or nothing ran at all; else the
mean share of active slots.

Executors come and go. A reading counts what an executor did since the reading before; a new one whose start is known
to lie in between counts from its start, one whose past is unknown counts from the next reading on, and one that has
vanished takes its last counts with it: they are left out above and below the line. A lost executor is not a failed
task.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter, le
from typing import Any, NamedTuple

from rheostat.analyze.checks import all_sound, known, total
from rheostat.analyze.state import AnalysisSettings, ClusterHistory, Counters, Interval
from rheostat.model import Cluster

__all__ = ["ClusterFigures", "read_cluster"]

SHORT_TASK = 0.25
"""Share of the window up to which the mean task is short enough to count time by the ends of tasks."""

MOST_IDLE = 32
"""Idle executors that are told one by one: an assessment is part of every journal record."""


_TOLD = ("active_tasks", "failed_tasks", "finished_tasks", "busy_s")

_at = attrgetter("at")


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """The executors; None where unknown. ``changed``: their number is another than at the last known reading."""

    at: float | None = None
    executors: int | None = None
    requested: int | None = None
    slots_per_executor: int | None = None
    busy_ratio: float | None = None
    active_tasks: int | None = None
    idle_s: tuple[float, ...] | None = None
    failed_tasks: int | None = None
    changed: bool = False


class _Readings(NamedTuple):
    """What the executors told, a column each; None where unknown or impossible."""

    ids: tuple[str, ...] = ()
    cores: tuple[int | None, ...] = ()
    active: tuple[int | None, ...] = ()
    failed: tuple[int | None, ...] = ()
    finished: tuple[int | None, ...] = ()
    busy_s: tuple[float | None, ...] = ()
    added_at: tuple[float | None, ...] = ()


_Past = tuple[float | None, int | None, int | None, float | None]
"""What one executor had come to at the reading before: its ``busy_s``, tasks finished and failed, and idle since."""

_NEW: _Past = (0.0, 0, 0, None)

_NOTHING: tuple[float | None, int | None, int | None] = (0.0, 0, 0)
"""Task seconds, tasks ended and failed of nobody."""


def read_cluster(
    cluster: Cluster | None, past: ClusterHistory, settings: AnalysisSettings, invalid: set[str]
) -> tuple[ClusterFigures, ClusterHistory]:
    """The figures of this reading, and the history with it. Without a reading the history stays as it is."""
    at = known(cluster.at, "cluster.at", invalid) if cluster is not None else None
    if cluster is None or at is None:
        return ClusterFigures(), past
    slots: int | None
    active: int | None
    requested, count = known(cluster.requested, "cluster.requested", invalid), len(cluster.roster.ids)
    history = _usual(cluster, past, at, settings)
    if history is not None:
        slots = cluster.roster.slots_per_executor
        active = sum(cluster.active_tasks)
    else:
        readings = _read(cluster, invalid)
        history = _remembered(readings, at, past, settings)
        slots = _slots(readings.cores)
        active = total(readings.active) if count else 0
    intervals = history.intervals
    figures = ClusterFigures(
        at,
        count,
        requested,
        slots,
        _busy_ratio(_after(at - settings.rate_window_s, intervals)),
        active,
        _idle(history.counters.idle_since, at),
        _failed(intervals, at - settings.failure_window_s),
        past.executors != count,
    )
    return figures, history


def _read(cluster: Cluster, invalid: set[str]) -> _Readings:
    if not cluster.ids:
        return _Readings()
    roster = cluster.roster
    cores, added_at = roster.cores, roster.added_at
    if roster.slots is None:  # one of them is unknown or impossible
        cores, added_at = _checked(cores, "cores", invalid), _checked(added_at, "added_at", invalid)
    told = cluster.active_tasks, cluster.failed_tasks, cluster.finished_tasks, cluster.busy_s
    columns = [_checked(column, name, invalid) for name, column in zip(_TOLD, told, strict=True)]
    return _Readings._make((roster.ids, cores, *columns, added_at))


def _checked(column: tuple[Any, ...], name: str, invalid: set[str]) -> tuple[Any, ...]:
    """A column with None for what is impossible."""
    return column if all_sound(column) else tuple([known(value, f"executor.{name}", invalid) for value in column])


def _slots(cores: Sequence[int | None]) -> int | None:
    """Cores of each executor; of the smallest where they differ."""
    return None if None in cores else min(cores, default=None)  # type: ignore[type-var] # there is no None in it


def _remembered(readings: _Readings, at: float, past: ClusterHistory, settings: AnalysisSettings) -> ClusterHistory:
    """The history with this reading; begun anew where time ran backwards."""
    before = past.at
    if before is not None and at == before:
        return past
    if before is None or at < before:
        return ClusterHistory(at, len(readings.ids), _counters(readings, _pasts(past.counters), at))
    pasts = _pasts(past.counters)
    intervals = _appended(past.intervals, _interval(readings, at, before, pasts), settings)
    return ClusterHistory(at, len(readings.ids), _counters(readings, pasts, at), intervals)


def _usual(cluster: Cluster, past: ClusterHistory, at: float, settings: AnalysisSettings) -> ClusterHistory | None:
    """The same in a few passes, where the same executors tell all, nothing is impossible and nothing ran backwards.

    What was known before is finite and not negative; so is what is no less and has a finite sum.
    """
    then, before, slots, ids = past.counters, past.at, cluster.roster.slots, cluster.roster.ids
    if slots is None or before is None or at <= before or not ids or ids != then.ids:
        return None
    try:
        running = sum(cluster.active_tasks)
        if min(cluster.active_tasks) < 0 or not running < inf:
            return None
        ended = _growth(then.finished, cluster.finished_tasks)
        lost = _growth(then.failed, cluster.failed_tasks)
        grown_s = _growth(then.busy_s, cluster.busy_s)
    except TypeError:  # a figure is not known
        return None
    if ended is None or lost is None or grown_s is None:
        return None
    span_s = at - before
    interval = Interval._make((at, span_s, slots * span_s, grown_s, running * span_s, ended, lost))
    idle_since = _idle_all(cluster, then, at)
    counters = Counters._make((ids, cluster.busy_s, cluster.finished_tasks, cluster.failed_tasks, idle_since))
    return ClusterHistory(at, len(ids), counters, _appended(past.intervals, interval, settings))


def _growth(then: Sequence[Any], now: Sequence[Any]) -> Any:
    """How much a column has grown, all in all; None where one has fallen or is infinite."""
    together = sum(now)
    if then == now:
        return together - together
    return together - sum(then) if all(map(le, then, now)) and together < inf else None


def _idle_all(cluster: Cluster, past: Counters, at: float) -> tuple[float | None, ...]:
    """Since when each has no task, of executors whose past is known."""
    if 0 not in cluster.active_tasks:
        return (None,) * len(cluster.active_tasks)
    columns = zip(cluster.active_tasks, cluster.finished_tasks, past.finished, past.idle_since, strict=True)
    return tuple(
        [
            None if running else since if since is not None and done == before else at
            for running, done, before, since in columns
        ]
    )


def _pasts(counters: Counters) -> dict[str, _Past]:
    columns = zip(counters.busy_s, counters.finished, counters.failed, counters.idle_since, strict=True)
    return dict(zip(counters.ids, columns, strict=True))


def _counters(readings: _Readings, pasts: Mapping[str, _Past], at: float) -> Counters:
    columns = zip(readings.ids, readings.active, readings.finished, readings.added_at, strict=True)
    idle_since = [
        None if running else _idle_since(running, done, added_at, pasts.get(name), at)
        for name, running, done, added_at in columns
    ]
    return Counters(readings.ids, readings.busy_s, readings.finished, readings.failed, tuple(idle_since))


def _interval(readings: _Readings, at: float, before: float, pasts: Mapping[str, _Past]) -> Interval:
    """What those did whose past is known and none of whose counters fell; a sum with an unknown in it is unknown."""
    slot_s = active_s = 0.0
    busy_s, ended, lost = _NOTHING
    for name, cores, active, failed, finished, busy, added_at in zip(*readings, strict=True):
        past, since = pasts.get(name), before
        if past is None and added_at is not None and added_at >= before:
            past, since = _NEW, min(at, added_at)
        if past is None or cores is None or active is None:
            continue
        busy_then, finished_then, failed_then, _ = past
        grown_s = None if busy is None or busy_then is None else busy - busy_then
        more = None if finished is None or finished_then is None else finished - finished_then
        failures = None if failed is None or failed_then is None else failed - failed_then
        if (grown_s is not None and grown_s < 0) or (more is not None and more < 0) or (failures or 0) < 0:
            continue
        slot_s += cores * (at - since)
        active_s += active * (at - since)
        busy_s = None if busy_s is None or grown_s is None else busy_s + grown_s
        ended = None if ended is None or more is None else ended + more
        lost = None if lost is None or failures is None else lost + failures
    return Interval._make((at, at - before, slot_s, busy_s, active_s, ended, lost))


def _appended(past: tuple[Interval, ...], new: Interval, settings: AnalysisSettings) -> tuple[Interval, ...]:
    """The intervals that the horizon reaches, and the new one; short ones are joined so that they stay few enough."""
    horizon_s = max(settings.rate_window_s, settings.failure_window_s)
    kept = _after(new.at - horizon_s, past)
    if kept and kept[-1].span_s < horizon_s / (settings.max_samples - 2):
        return (*kept[:-1], _both(kept[-1], new))
    return (*kept, new)


def _after(since: float, intervals: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """Those that end after it; they are in order, and most often it is all of them, or all but the first."""
    if not intervals or intervals[0].at > since:
        return intervals
    if len(intervals) > 1 and intervals[1].at > since:
        return intervals[1:]
    return intervals[bisect_right(intervals, since, key=_at) :]


def _both(first: Interval, second: Interval) -> Interval:
    return Interval(
        at=second.at,
        span_s=first.span_s + second.span_s,
        slot_s=first.slot_s + second.slot_s,
        busy_s=total([first.busy_s, second.busy_s]),
        active_s=first.active_s + second.active_s,
        finished=total([first.finished, second.finished]),
        failed=total([first.failed, second.failed]),
    )


def _idle_since(
    running: int | None, finished: int | None, added_at: float | None, past: _Past | None, at: float
) -> float | None:
    """Since when it has no task, as far as was seen; None: it has one, or nobody knows.

    One that has just come and never finished a task has been idle since its start.
    """
    if running != 0 or finished is None:
        return None
    if past is None:
        return added_at if finished == 0 and added_at is not None else at
    _, finished_then, _, since = past
    return since if since is not None and finished_then == finished else at


def _idle(idle_since: Sequence[float | None], at: float) -> tuple[float, ...]:
    if idle_since and idle_since.count(idle_since[0]) == len(idle_since):  # most often: all, or none
        since = idle_since[0]
        return () if since is None else (round(max(0.0, at - since), 1),) * min(len(idle_since), MOST_IDLE)
    idle_s = {since: round(max(0.0, at - since), 1) for since in set(idle_since) if since is not None}
    return tuple(sorted([idle_s[since] for since in idle_since if since is not None], reverse=True)[:MOST_IDLE])


def _busy_ratio(window: Sequence[Interval]) -> float | None:
    """Share of slot time in tasks, in [0, 1]; see the module for the two ways of measuring it."""
    if not window:
        return None
    span_s = slot_s = ended_s = active_s = 0.0
    tasks, told = 0, True
    for _, each_s, slots_s, busy_s, in_use_s, finished, _ in window:
        span_s += each_s
        slot_s += slots_s
        active_s += in_use_s
        if busy_s is None or finished is None:
            told = False
        else:
            ended_s += busy_s
            tasks += finished
    if slot_s <= 0:
        return None
    short = tasks > 0 and ended_s <= SHORT_TASK * span_s * tasks
    idle = tasks == 0 and active_s == 0
    return min(1.0, (ended_s if told and (short or idle) else active_s) / slot_s)


def _failed(intervals: tuple[Interval, ...], since: float) -> int | None:
    """Tasks that failed after ``since``; None before the second reading."""
    if not intervals:
        return None
    lost = 0
    for each in _after(since, intervals):
        if each.failed is None:
            return None
        lost += each.failed
    return lost
