"""What samples of an application's executors tell of a rescale. Pure.

A sample is what the driver's status store said at one time: of each executor the tasks that it runs, has finished and
has failed.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Count", "Sample", "begun", "cold_ratio", "finished", "longest_pause", "lowest_share"]

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
    waiting = set(executors)
    for sample in samples:
        waiting -= {name for name, count in sample.executors.items() if count.active or count.ended}
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


def cold_ratio(batches: Iterable[tuple[float, float]], since: float, until: float) -> float | None:
    """The first batch that began after ``since`` ÷ the median of the later ones that ended before ``until``.

    Args:
        batches: (when it began, how long it took), in order.
        since: when all new executors worked.
        until: when the number was changed again.
    """
    took = [seconds for began, seconds in batches if began >= since and began + seconds <= until]
    if len(took) < 2:
        return None
    warm = sorted(took[1:])
    return took[0] / ((warm[len(warm) // 2] + warm[(len(warm) - 1) // 2]) / 2)
