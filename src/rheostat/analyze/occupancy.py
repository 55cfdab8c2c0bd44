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

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from operator import attrgetter, le
from typing import Any, NamedTuple

from rheostat.analyze.checks import Number, known, total
from rheostat.analyze.state import AnalysisSettings, ClusterHistory, Counters, Interval
from rheostat.model import Cluster

__all__ = ["ClusterFigures", "read_cluster"]

SHORT_TASK = 0.25
"""Share of the window up to which the mean task is short enough to count time by the ends of tasks."""

MOST_IDLE = 32
"""Idle executors that are told one by one: an assessment is part of every journal record."""


_NAMES = ("cores", "active_tasks", "failed_tasks", "finished_tasks", "busy_s", "added_at")
_columns = attrgetter("roster.cores", *_NAMES[1:-1], "roster.added_at")
_pasts_of = attrgetter("failed", "finished", "busy_s")
_counters_of = attrgetter("failed_tasks", "finished_tasks", "busy_s")
_sum: Any = sum
"""Of columns in which nothing is unknown, which their types do not tell."""


class ClusterFigures(NamedTuple):
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
    """What the executors told, a column each; None where unknown or impossible.

    Attributes:
        sums: of ``cores``, ``failed``, ``finished``, ``busy_s`` and ``active``; None where something is unknown.
        grown: they are those of the reading before, all is known of both, and no counter has run backwards.
    """

    ids: tuple[str, ...] = ()
    cores: tuple[int | None, ...] = ()
    active: tuple[int | None, ...] = ()
    failed: tuple[int | None, ...] = ()
    finished: tuple[int | None, ...] = ()
    busy_s: tuple[float | None, ...] = ()
    added_at: tuple[float | None, ...] = ()
    sums: tuple[Any, ...] = (0,) * 5
    grown: bool = False


class _Past(NamedTuple):
    """What one executor had come to at the reading before."""

    busy_s: float | None
    finished: int | None
    failed: int | None
    idle_since: float | None


class _Work(NamedTuple):
    """What one executor did in an interval."""

    slot_s: float
    busy_s: float | None
    active_s: float
    finished: int | None
    failed: int | None


def read_cluster(
    cluster: Cluster | None, past: ClusterHistory, settings: AnalysisSettings, invalid: set[str]
) -> tuple[ClusterFigures, ClusterHistory]:
    """The figures of this reading, and the history with it. Without a reading the history stays as it is."""
    at = known(cluster.at, "cluster.at", invalid) if cluster is not None else None
    if cluster is None or at is None:
        return ClusterFigures(), past
    readings = _read(cluster, past.counters, invalid)
    count = len(readings.ids)
    history = _remembered(readings, at, past, settings)
    figures = ClusterFigures(
        at,
        count,
        known(cluster.requested, "cluster.requested", invalid),
        cluster.roster.slots_per_executor if readings.grown else _slots(readings.cores),
        _busy_ratio([each for each in history.intervals if each.at > at - settings.rate_window_s]),
        readings.sums[-1],
        _idle(history.counters.idle_since, at),
        _failed(history.intervals, at - settings.failure_window_s),
        past.executors != count,
    )
    return figures, history


def _read(cluster: Cluster, past: Counters, invalid: set[str]) -> _Readings:
    if not cluster.ids:
        return _Readings()
    columns: tuple[tuple[Any, ...], ...] = _columns(cluster)
    grown, sums = False, None
    try:
        grown = cluster.ids == past.ids and _grown_since(past, cluster)
        sums = _sums(cluster, grown=grown)
    except TypeError:
        pass  # something is unknown
    if sums is not None:
        return _Readings._make((cluster.ids, *columns, sums, grown))
    checked = [
        tuple([known(value, f"executor.{name}", invalid) for value in column])
        for name, column in zip(_NAMES, columns, strict=True)
    ]
    cores, active, *counters, _ = checked
    return _Readings._make((cluster.ids, *checked, tuple(map(total, (cores, *counters, active))), False))


def _grown_since(past: Counters, cluster: Cluster) -> bool:
    """Whether no counter of the same executors is less than it was, so that none is negative.

    Raises:
        TypeError: one of them was not known, and is now.
    """
    told: Iterable[tuple[Any, Any]] = zip(_pasts_of(past), _counters_of(cluster), strict=True)
    return all(then == now or all(map(le, then, now)) for then, now in told)


def _sums(cluster: Cluster, *, grown: bool) -> tuple[Any, ...] | None:
    """The sum of each column; None where a figure is NaN, infinite or negative, as a counter that has grown cannot be.

    Raises:
        TypeError: a figure is unknown.
    """
    slots, columns = cluster.roster.slots, (*_counters_of(cluster), cluster.active_tasks)
    sums = tuple(map(sum, columns))
    least = min(cluster.active_tasks) if grown else min(map(min, columns))
    return (slots, *sums) if slots is not None and least >= 0 and sum(sums) < inf else None


def _slots(cores: Sequence[int | None]) -> int | None:
    """Cores of each executor; of the smallest where they differ."""
    try:
        return min(cores, default=None)  # type: ignore[type-var] # a None is caught
    except TypeError:
        return None


def _remembered(readings: _Readings, at: float, past: ClusterHistory, settings: AnalysisSettings) -> ClusterHistory:
    """The history with this reading; begun anew where time ran backwards."""
    before = past.at
    if before is not None and at == before:
        return past
    if before is None or at < before:
        return ClusterHistory(at, len(readings.ids), _counters(readings, _pasts(past.counters), at))
    if readings.grown:
        interval, counters = _usual(readings, past.counters, at, before)
    else:
        pasts = _pasts(past.counters)
        interval, counters = _interval(readings, at, before, pasts), _counters(readings, pasts, at)
    horizon_s = max(settings.rate_window_s, settings.failure_window_s)
    intervals = _appended(past.intervals, interval, horizon_s, settings.max_samples)
    return ClusterHistory(at, len(readings.ids), counters, intervals)


def _usual(readings: _Readings, past: Counters, at: float, before: float) -> tuple[Interval, Counters]:
    """The interval and the counters in a few passes, where the same executors tell all and nothing ran backwards."""
    ids, _, active, failed, finished, busy_s, _, (slots, lost, ended, done_s, running), _ = readings
    lost_then, ended_then, done_then_s = map(_sum, _pasts_of(past))
    span_s = at - before
    figures = slots * span_s, done_s - done_then_s, running * span_s, ended - ended_then, lost - lost_then
    idle_since: tuple[float | None, ...] = (None,) * len(ids)
    if 0 in active:
        columns = zip(active, finished, past.finished, past.idle_since, strict=True)
        idle_since = tuple([_still_idle(running, done, then, since, at) for running, done, then, since in columns])
    return Interval(at, span_s, *figures), Counters(ids, busy_s, finished, failed, idle_since)


def _pasts(counters: Counters) -> dict[str, _Past]:
    columns = zip(counters.busy_s, counters.finished, counters.failed, counters.idle_since, strict=True)
    return dict(zip(counters.ids, map(_Past._make, columns), strict=True))


def _counters(readings: _Readings, pasts: Mapping[str, _Past], at: float) -> Counters:
    idle_since = [
        _idle_since(running, done, added_at, pasts.get(name), at)
        for name, running, done, added_at in zip(
            readings.ids, readings.active, readings.finished, readings.added_at, strict=True
        )
    ]
    return Counters(readings.ids, readings.busy_s, readings.finished, readings.failed, tuple(idle_since))


def _interval(readings: _Readings, at: float, before: float, pasts: Mapping[str, _Past]) -> Interval:
    span_s = at - before
    done = [_work(each, pasts.get(each[0]), at, before) for each in zip(*readings[:7], strict=True)]
    work = [each for each in done if each is not None]
    if not work:
        return Interval(at, span_s, 0.0, 0.0, 0.0, 0, 0)
    slot_s, busy_s, active_s, finished, failed = zip(*work, strict=True)
    return Interval(at, span_s, sum(slot_s), total(busy_s), sum(active_s), total(finished), total(failed))


def _work(reading: tuple[Any, ...], past: _Past | None, at: float, before: float) -> _Work | None:
    """What an executor did since ``before``; None where its past is not known."""
    _, cores, active, failed, finished, busy_s, added_at = reading
    if past is None:
        if added_at is None or added_at < before:
            return None
        past, before = _Past(0.0, 0, 0, None), min(at, added_at)
    grown_s, ended, lost = _grown(busy_s, past.busy_s), _grown(finished, past.finished), _grown(failed, past.failed)
    if cores is None or active is None:
        return None
    if (grown_s or 0.0) < 0 or (ended or 0) < 0 or (lost or 0) < 0:
        return None
    span_s = at - before
    return _Work(cores * span_s, grown_s, active * span_s, ended, lost)


def _grown(now: Number | None, before: Number | None) -> Number | None:
    return None if now is None or before is None else now - before


def _appended(past: tuple[Interval, ...], new: Interval, horizon_s: float, most: int) -> tuple[Interval, ...]:
    """The intervals that the horizon reaches, and the new one; short ones are joined so that ``most`` suffice."""
    kept = tuple(each for each in past if each.at > new.at - horizon_s)
    if kept and kept[-1].span_s < horizon_s / (most - 2):
        return (*kept[:-1], _both(kept[-1], new))
    return (*kept, new)


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
    return _still_idle(running, finished, past.finished, past.idle_since, at)


def _still_idle(running: Any, finished: Any, before: int | None, since: float | None, at: float) -> float | None:
    """The same for one whose past is known."""
    if running:
        return None
    return since if since is not None and before == finished else at


def _idle(idle_since: Sequence[float | None], at: float) -> tuple[float, ...]:
    idle_s = {since: round(max(0.0, at - since), 1) for since in set(idle_since) if since is not None}
    return tuple(sorted([idle_s[since] for since in idle_since if since is not None], reverse=True)[:MOST_IDLE])


def _busy_ratio(window: list[Interval]) -> float | None:
    """Share of slot time in tasks, in [0, 1]; see the module for the two ways of measuring it."""
    if not window:
        return None
    columns: Iterable[tuple[Any, ...]] = zip(*window, strict=True)
    _, spans_s, slots_s, ended, active, tasks, _ = columns
    ended_s, finished = total(ended), total(tasks)
    slot_s, active_s = float(sum(slots_s)), float(sum(active))
    if slot_s <= 0:
        return None
    longest_s = SHORT_TASK * sum(spans_s)
    short = ended_s is not None and finished is not None and finished > 0 and ended_s <= longest_s * finished
    idle = ended_s is not None and finished == 0 and active_s == 0
    busy_s = ended_s if ended_s is not None and (short or idle) else active_s
    return min(1.0, busy_s / slot_s)


def _failed(intervals: tuple[Interval, ...], since: float) -> int | None:
    """Tasks that failed after ``since``; None before the second reading."""
    return total([0, *(each.failed for each in intervals if each.at > since)]) if intervals else None
