"""What samples of an application's executors tell of a rescale. Pure.

A sample is what the driver's status store said at one time: of each executor the tasks that it runs, has finished and
has failed.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = [
    "Cold",
    "Count",
    "Finished",
    "Sample",
    "begun",
    "cold_batch",
    "ended",
    "finished",
    "longest_pause",
    "lowest_share",
]

_STEP_S = 0.05


@dataclass(frozen=True, slots=True)
class Count:
    """Tasks of one executor: running now, and ended (finished or failed) since its start."""

    active: int
    ended: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The registered executors at one time (epoch seconds)."""

    at: float
    executors: Mapping[str, Count]


@dataclass(frozen=True, slots=True)
class Cold:
    """The first batch at a new number: when it ended, and its duration ÷ the median of those after it."""

    ended_at: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Finished:
    """Tasks ended so far, as a step function of time. ``times`` ascends; ``totals`` never falls."""

    times: Sequence[float]
    totals: Sequence[int]

    def at(self, when: float) -> int:
        """The total at a time; before the first sample that of the first."""
        return self.totals[max(0, bisect_right(self.times, when) - 1)]

    def rate(self, begin: float, end: float) -> float:
        """Tasks/s."""
        return (self.at(end) - self.at(begin)) / (end - begin)


def begun(samples: Iterable[Sample], executors: Iterable[str]) -> float | None:
    """When the last of these executors was first seen with a task, running or ended; None: one never was."""
    return _seen(samples, executors, lambda count: count.active + count.ended > 0)


def ended(samples: Iterable[Sample], executors: Iterable[str]) -> float | None:
    """When the last of these executors was first seen to have ended a task; None: one never was."""
    return _seen(samples, executors, lambda count: count.ended > 0)


def _seen(samples: Iterable[Sample], executors: Iterable[str], holds: Callable[[Count], bool]) -> float | None:
    waiting = set(executors)
    for sample in samples:
        waiting -= {name for name, count in sample.executors.items() if holds(count)}
        if not waiting:
            return sample.at
    return None


def finished(samples: Sequence[Sample]) -> Finished:
    """Tasks ended since the first sample. Executors that come bring theirs; those that go take none away."""
    known: dict[str, int] = {}
    total, totals = 0, []
    for number, sample in enumerate(samples):
        for name, count in sample.executors.items():
            before = known.get(name, count.ended if number == 0 else 0)
            total += max(0, count.ended - before)
            known[name] = count.ended
        totals.append(total)
    return Finished([sample.at for sample in samples], totals)


def lowest_share(done: Finished, begin: float, end: float, *, window_s: float, before_s: float) -> float | None:
    """The lowest rate of any window within [begin, end] ÷ the rate of the ``before_s`` seconds before ``begin``.

    A stretch that is shorter than a window is taken as one window. None where nothing ended before.
    """
    usual = done.rate(begin - before_s, begin)
    if usual <= 0:
        return None
    last = max(begin, end - window_s)
    starts = [begin + _STEP_S * step for step in range(math.floor((last - begin) / _STEP_S) + 1)]
    return min(done.rate(start, start + window_s) for start in starts) / usual


def longest_pause(done: Finished, begin: float, end: float) -> float:
    """The longest time within [begin, end] in which no task ended."""
    steps = [begin]
    for at, total, before in zip(done.times[1:], done.totals[1:], done.totals, strict=False):
        if total > before and begin <= at <= end:
            steps.append(at)
    return max(later - earlier for earlier, later in zip(steps, [*steps[1:], end], strict=True))


def cold_batch(batches: Iterable[tuple[float, float]], working: float, until: float) -> Cold | None:
    """The batch in which the new executors began to work, beside those after it.

    Args:
        batches: (when it began, how long it took), in order.
        working: when all new executors had begun a task.
        until: when the number was changed again.
    """
    after = [(began, took) for began, took in batches if began + took > working and began + took <= until]
    if len(after) < 2:
        return None
    (began, took), *warm = after
    return Cold(began + took, took / statistics.median(seconds for _, seconds in warm))
