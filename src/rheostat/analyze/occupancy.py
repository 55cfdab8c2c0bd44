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

from dataclasses import dataclass
from math import inf
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


class _Work(NamedTuple):
    """What one executor did in an interval."""

    slot_s: float
    active_s: float
    busy_s: float | None
    finished: int | None
    failed: int | None


class _Reading(NamedTuple):
    executor_id: str
    busy_s: float | None
    finished: int | None
    failed: int | None
    cores: int | None
    active: int | None
    added_at: float | None


def read_cluster(
    cluster: Cluster | None, past: ClusterHistory, settings: AnalysisSettings, invalid: set[str]
) -> tuple[ClusterFigures, ClusterHistory]:
    """The figures of this reading, and the history with it. Without a reading the history stays as it is."""
    at = known(cluster.at, "cluster.at", invalid) if cluster is not None else None
    if cluster is None or at is None:
        return ClusterFigures(), past
    readings = [_read(executor, invalid) for executor in cluster.executors]
    history = _remembered(readings, at, past, settings)
    figures = ClusterFigures(
        at=at,
        executors=len(readings),
        requested=known(cluster.requested, "cluster.requested", invalid),
        slots_per_executor=_slots(readings),
        busy_ratio=_busy_ratio([each for each in history.intervals if each.at > at - settings.rate_window_s]),
        active_tasks=total(each.active for each in readings) if readings else 0,
        idle_s=_idle(history.counters, at),
        failed_tasks=_failed(history.intervals, at - settings.failure_window_s),
        changed=past.executors != len(readings),
    )
    return figures, history


def _read(executor: Executor, invalid: set[str]) -> _Reading:
    usual = _read_usual(executor)
    if usual is not None:
        return usual
    return _Reading(
        executor.executor_id,
        known(executor.busy_s, "executor.busy_s", invalid),
        known(executor.finished_tasks, "executor.finished_tasks", invalid),
        known(executor.failed_tasks, "executor.failed_tasks", invalid),
        cores=known(executor.cores, "executor.cores", invalid),
        active=known(executor.active_tasks, "executor.active_tasks", invalid),
        added_at=known(executor.added_at, "executor.added_at", invalid),
    )


def _read_usual(executor: Executor) -> _Reading | None:
    """What :func:`_read` gives where all is known and possible; None where it is not."""
    busy_s, finished, failed = executor.busy_s, executor.finished_tasks, executor.failed_tasks
    cores, active, added_at = executor.cores, executor.active_tasks, executor.added_at
    if busy_s is None or added_at is None or not (0 <= busy_s < inf and 0 <= added_at < inf):
        return None
    if not (0 <= finished < inf and 0 <= failed < inf and 0 <= cores < inf and 0 <= active < inf):
        return None
    return _Reading(executor.executor_id, busy_s, finished, failed, cores, active, added_at)


def _slots(readings: list[_Reading]) -> int | None:
    """Cores of each executor; of the smallest where they differ."""
    cores = [each.cores for each in readings]
    present = [each for each in cores if each is not None]
    return min(present) if present and len(present) == len(cores) else None


def _remembered(
    readings: list[_Reading], at: float, past: ClusterHistory, settings: AnalysisSettings
) -> ClusterHistory:
    """The history with this reading; begun anew where time ran backwards."""
    if past.at is not None and at == past.at:
        return past
    known_ones = {each.executor_id: each for each in past.counters}
    counters = tuple(
        Counters(
            each.executor_id,
            each.busy_s,
            each.finished,
            each.failed,
            _idle_since(each, known_ones.get(each.executor_id), at),
        )
        for each in readings
    )
    if past.at is None or at < past.at:
        return ClusterHistory(at, len(readings), counters)
    interval = _interval(readings, at, past.at, known_ones)
    horizon_s = max(settings.rate_window_s, settings.failure_window_s)
    intervals = _appended(past.intervals, interval, horizon_s, settings.max_samples)
    return ClusterHistory(at, len(readings), counters, intervals)


def _interval(readings: list[_Reading], at: float, before: float, known_ones: dict[str, Counters]) -> Interval:
    span_s = at - before
    done = [_work(each, known_ones.get(each.executor_id), at, before) for each in readings]
    work = [each for each in done if each is not None]
    if not work:
        return Interval(at, span_s, 0.0, 0.0, 0.0, 0, 0)
    slot_s, active_s, busy_s, finished, failed = zip(*work, strict=True)
    return Interval(at, span_s, sum(slot_s), total(busy_s), sum(active_s), total(finished), total(failed))


def _work(reading: _Reading, past: Counters | None, at: float, before: float) -> _Work | None:
    """What an executor did since ``before``; None where its past is not known."""
    if past is None:
        if reading.added_at is None or reading.added_at < before:
            return None
        past, before = Counters(reading.executor_id, 0.0, 0, 0), min(at, reading.added_at)
    busy_s = _grown(reading.busy_s, past.busy_s)
    finished, failed = _grown(reading.finished, past.finished), _grown(reading.failed, past.failed)
    if reading.cores is None or reading.active is None:
        return None
    if (busy_s or 0.0) < 0 or (finished or 0) < 0 or (failed or 0) < 0:
        return None
    span_s = at - before
    return _Work(reading.cores * span_s, reading.active * span_s, busy_s, finished, failed)


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


def _idle_since(reading: _Reading, past: Counters | None, at: float) -> float | None:
    """Since when it has no task, as far as was seen; None: it has one, or nobody knows.

    One that has just come and never finished a task has been idle since its start.
    """
    finished = reading.finished
    if reading.active != 0 or finished is None:
        return None
    if past is None:
        return reading.added_at if finished == 0 and reading.added_at is not None else at
    return past.idle_since if past.idle_since is not None and past.finished == finished else at


def _idle(counters: tuple[Counters, ...], at: float) -> tuple[float, ...]:
    since = (each.idle_since for each in counters if each.idle_since is not None)
    return tuple(sorted((round(max(0.0, at - each), 1) for each in since), reverse=True))[:MOST_IDLE]


def _busy_ratio(window: list[Interval]) -> float | None:
    """Share of slot time in tasks, in [0, 1]; see the module for the two ways of measuring it."""
    slot_s = sum(each.slot_s for each in window)
    if slot_s <= 0:
        return None
    ended_s, active_s = total(each.busy_s for each in window), sum(each.active_s for each in window)
    finished = total(each.finished for each in window)
    longest_s = SHORT_TASK * sum(each.span_s for each in window)
    short = ended_s is not None and finished is not None and finished > 0 and ended_s <= longest_s * finished
    idle = ended_s is not None and finished == 0 and active_s == 0
    busy_s = ended_s if ended_s is not None and (short or idle) else active_s
    return min(1.0, busy_s / slot_s)


def _failed(intervals: tuple[Interval, ...], since: float) -> int | None:
    """Tasks that failed after ``since``; None before the second reading."""
    return total([0, *(each.failed for each in intervals if each.at > since)]) if intervals else None
