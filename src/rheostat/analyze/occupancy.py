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

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rheostat.analyze.checks import Number, known, total
from rheostat.analyze.state import AnalysisSettings, ClusterHistory, Counters, Interval
from rheostat.model import Cluster, Executor

__all__ = ["ClusterFigures", "read_cluster"]

SHORT_TASK = 0.25
"""Share of the window up to which the mean task is short enough to count time by the ends of tasks."""

MOST_IDLE = 32
"""Idle executors that are told one by one: an assessment is part of every journal record."""


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


class _Reading(NamedTuple):
    """What one executor told; None where unknown or impossible."""

    executor_id: str
    cores: int | None
    active: int | None
    failed: int | None
    finished: int | None
    busy_s: float | None
    added_at: float | None


class _Past(NamedTuple):
    """What one executor had come to at the reading before."""

    busy_s: float | None = 0.0
    finished: int | None = 0
    failed: int | None = 0
    idle_since: float | None = None


def read_cluster(
    cluster: Cluster | None, past: ClusterHistory, settings: AnalysisSettings, invalid: set[str]
) -> tuple[ClusterFigures, ClusterHistory]:
    """The figures of this reading, and the history with it. Without a reading the history stays as it is."""
    at = known(cluster.at, "cluster.at", invalid) if cluster is not None else None
    if cluster is None or at is None:
        return ClusterFigures(), past
    readings = [_checked(executor, invalid) for executor in cluster.executors]
    history = _remembered(readings, at, past, settings)
    figures = ClusterFigures(
        at=at,
        executors=len(readings),
        requested=known(cluster.requested, "cluster.requested", invalid),
        slots_per_executor=_slots(readings),
        busy_ratio=_busy_ratio(_after(at - settings.rate_window_s, history.intervals)),
        active_tasks=total([0, *(each.active for each in readings)]),
        idle_s=_idle(history.counters.idle_since, at),
        failed_tasks=_failed(history.intervals, at - settings.failure_window_s),
        changed=past.executors != len(readings),
    )
    return figures, history


def _checked(executor: Executor, invalid: set[str]) -> _Reading:
    return _Reading(
        executor_id=executor.executor_id,
        cores=known(executor.cores, "executor.cores", invalid),
        active=known(executor.active_tasks, "executor.active_tasks", invalid),
        failed=known(executor.failed_tasks, "executor.failed_tasks", invalid),
        finished=known(executor.finished_tasks, "executor.finished_tasks", invalid),
        busy_s=known(executor.busy_s, "executor.busy_s", invalid),
        added_at=known(executor.added_at, "executor.added_at", invalid),
    )


def _slots(readings: Sequence[_Reading]) -> int | None:
    """Cores of each executor; of the smallest where they differ."""
    cores = [each.cores for each in readings if each.cores is not None]
    return min(cores) if cores and len(cores) == len(readings) else None


def _remembered(
    readings: Sequence[_Reading], at: float, past: ClusterHistory, settings: AnalysisSettings
) -> ClusterHistory:
    """The history with this reading; begun anew where time ran backwards."""
    if at == past.at:
        return past
    pasts = _pasts(past.counters)
    intervals: tuple[Interval, ...] = ()
    if past.at is not None and at > past.at:
        intervals = _appended(past.intervals, _interval(readings, at, past.at, pasts), settings)
    counters = Counters(
        ids=tuple([each.executor_id for each in readings]),
        busy_s=tuple([each.busy_s for each in readings]),
        finished=tuple([each.finished for each in readings]),
        failed=tuple([each.failed for each in readings]),
        idle_since=tuple([_idle_since(each, pasts.get(each.executor_id), at) for each in readings]),
    )
    return ClusterHistory(at=at, executors=len(readings), counters=counters, intervals=intervals)


def _pasts(counters: Counters) -> dict[str, _Past]:
    columns = zip(*counters, strict=True)
    return {
        executor_id: _Past(busy_s=busy_s, finished=finished, failed=failed, idle_since=idle_since)
        for executor_id, busy_s, finished, failed, idle_since in columns
    }


def _interval(readings: Sequence[_Reading], at: float, before: float, pasts: Mapping[str, _Past]) -> Interval:
    """What those did whose past is known and none of whose counters fell; a sum with an unknown in it is unknown."""
    counted: list[tuple[_Reading, _Past]] = []
    slot_s = active_s = 0.0
    for each in readings:
        past, since = pasts.get(each.executor_id), before
        if past is None and each.added_at is not None and each.added_at >= before:
            past, since = _Past(), min(at, each.added_at)
        if past is None or each.cores is None or each.active is None or _fell(each, past):
            continue
        counted.append((each, past))
        slot_s += each.cores * (at - since)
        active_s += each.active * (at - since)
    return Interval(
        at=at,
        span_s=at - before,
        slot_s=slot_s,
        busy_s=_growth([(past.busy_s, now.busy_s) for now, past in counted]),
        active_s=active_s,
        finished=_growth([(past.finished, now.finished) for now, past in counted]),
        failed=_growth([(past.failed, now.failed) for now, past in counted]),
    )


def _fell(now: _Reading, past: _Past) -> bool:
    pairs = (past.busy_s, now.busy_s), (past.finished, now.finished), (past.failed, now.failed)
    return any(before is not None and after is not None and after < before for before, after in pairs)


def _growth(pairs: Sequence[tuple[Number | None, Number | None]]) -> Number | None:
    """By how much counters have grown together, from (before, after) of each."""
    if not pairs:
        return 0
    before, after = total([before for before, _ in pairs]), total([after for _, after in pairs])
    return None if before is None or after is None else after - before


def _appended(past: tuple[Interval, ...], new: Interval, settings: AnalysisSettings) -> tuple[Interval, ...]:
    """The intervals that the horizon reaches, and the new one; short ones are joined so that they stay few enough."""
    horizon_s = max(settings.rate_window_s, settings.failure_window_s)
    kept = _after(new.at - horizon_s, past)
    if kept and kept[-1].span_s < horizon_s / (settings.max_samples - 2):
        return (*kept[:-1], _both(kept[-1], new))
    return (*kept, new)


def _after(since: float, intervals: Sequence[Interval]) -> tuple[Interval, ...]:
    """Those that end after it."""
    return tuple([each for each in intervals if each.at > since])


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


def _idle_since(reading: _Reading, past: _Past | None, at: float) -> float | None:
    """Since when it has no task, as far as was seen; None: it has one, or nobody knows.

    One that has just come and never finished a task has been idle since its start.
    """
    if reading.active != 0 or reading.finished is None:
        return None
    if past is None:
        return reading.added_at if reading.finished == 0 and reading.added_at is not None else at
    return past.idle_since if past.idle_since is not None and past.finished == reading.finished else at


def _idle(idle_since: Sequence[float | None], at: float) -> tuple[float, ...]:
    idle_s = [round(max(0.0, at - since), 1) for since in idle_since if since is not None]
    return tuple(sorted(idle_s, reverse=True)[:MOST_IDLE])


def _busy_ratio(window: Sequence[Interval]) -> float | None:
    """Share of slot time in tasks, in [0, 1]; see the module for the two ways of measuring it."""
    slot_s, active_s = math.fsum(each.slot_s for each in window), math.fsum(each.active_s for each in window)
    ended_s, tasks = total([each.busy_s for each in window]), total([each.finished for each in window])
    if slot_s <= 0:
        return None
    if ended_s is None or tasks is None:
        return min(1.0, active_s / slot_s)
    short = tasks > 0 and ended_s <= SHORT_TASK * math.fsum(each.span_s for each in window) * tasks
    idle = tasks == 0 and active_s == 0
    return min(1.0, (ended_s if short or idle else active_s) / slot_s)


def _failed(intervals: Sequence[Interval], since: float) -> int | None:
    """Tasks that failed after ``since``; None before the second reading."""
    return total([0, *(each.failed for each in _after(since, intervals))]) if intervals else None
