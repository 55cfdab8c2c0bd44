"""Exact history of a simulated run, its lag and its elasticity. Scores are computed from it, never from samples."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from rheostat.load.curves import Pieces

StepSeries = list[tuple[float, int]]
"""Change points ``(second, value)``, ascending; a value holds until the next one."""


@dataclass(slots=True)
class History:
    """All times are seconds from the start of the load.

    Attributes:
        paid: executors paid for, each from its request until it is gone.
        ready: executors able to run tasks.
        target: requested executors.
        commits: ``(at, committed records, lag just before, lag just after)``, starting with ``(0, 0, 0, 0)``, one for
            each batch. Lag: the age of the oldest uncommitted record; 0 if there is none.
        oldest: for each commit, the arrival time of the oldest record that it left uncommitted. In the future if
            nothing was left: the lag stays 0 until then. Infinite if no more records arrive.
        batches: ``(start, end, records, executors at the start)``, where they are kept.
        records_in, records_out: arrived; committed.
        records_lost, records_duplicated, records_shed: always 0 in a simulation.
    """

    paid: StepSeries = field(default_factory=list)
    ready: StepSeries = field(default_factory=list)
    target: StepSeries = field(default_factory=list)
    commits: list[tuple[float, int, float, float]] = field(default_factory=list)
    oldest: list[float] = field(default_factory=list)
    batches: list[tuple[float, float, int, int]] = field(default_factory=list)
    records_in: int = 0
    records_out: int = 0
    records_lost: int = 0
    records_duplicated: int = 0
    records_shed: int = 0

    def commit(self, at: float, records_out: int, oldest: float) -> None:
        """Note a commit; ``records_out``: of the whole run; ``oldest``: as in the attribute."""
        before = at - self.oldest[-1] if self.oldest else 0.0
        self.records_out = records_out
        self.commits.append((at, records_out, before, max(0.0, at - oldest)))
        self.oldest.append(oldest)

    def lag_at(self, at: float) -> float:
        """The lag, s; at a commit, just after it."""
        number = bisect_right(self.commits, at, key=lambda commit: commit[0]) - 1
        return max(0.0, at - self.oldest[number]) if number >= 0 else 0.0

    def lag_spans(self, start: float, end: float) -> Iterator[tuple[float, float, float]]:
        """The lag from ``start`` to ``end`` as ``(from, to, lag at from)``; within a span it grows by 1 s each second.

        There are no spans where nothing is uncommitted.
        """
        ends = [*(commit[0] for commit in self.commits[1:]), math.inf]
        for commit, since, next_commit in zip(self.commits, self.oldest, ends, strict=True):
            begin, until = max(commit[0], start, since), min(next_commit, end)
            if begin < until:
                yield begin, until, begin - since


def append_step(steps: StepSeries, at: float, value: int) -> None:
    """Append a value that holds from ``at`` on; replaces one of the same time."""
    if steps and steps[-1][0] == at:
        steps.pop()
    if not steps or steps[-1][1] != value:
        steps.append((at, value))


# Lag: between two commits it grows by 1 s each second, at a commit it falls.


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag from one time to another.

    Attributes:
        seconds: duration; > 0.
        low, length: lag at the start of each span, and the length of the span, s.
    """

    seconds: float
    low: NDArray[np.float64]
    length: NDArray[np.float64]

    @classmethod
    def of(cls, history: History, start: float, end: float) -> Lag:
        """From ``start`` to ``end`` of a run; start < end."""
        spans = np.array(list(history.lag_spans(start, end))).reshape(-1, 3)
        return cls(end - start, spans[:, 2], spans[:, 1] - spans[:, 0])

    @property
    def greatest(self) -> float:
        """The greatest lag, s."""
        return float(np.max(self.low + self.length, initial=0.0))

    def seconds_over(self, limit: float) -> float:
        """Time in which the lag exceeds ``limit`` ≥ 0, s."""
        return float(np.clip(self.low + self.length - np.maximum(self.low, limit), 0.0, None).sum())

    def quantile(self, share: float) -> float:
        """The smallest lag that is not exceeded for ``share`` of the time, s; 0 < share ≤ 1.

        ``F(v) = time at 0 + Σ over spans of min(length, max(0, v − low))`` is a line between any two ends of spans.
        """
        wanted = share * self.seconds
        passed = self.seconds - float(self.length.sum())
        if passed >= wanted * (1 - _ROUNDING):
            return 0.0
        edges = np.concatenate([self.low, self.low + self.length])
        bends = np.concatenate([np.ones_like(self.low), -np.ones_like(self.low)])
        order = np.argsort(edges, kind="stable")
        edges, slopes = edges[order], np.cumsum(bends[order])
        times = passed + np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(edges))])
        after = min(int(np.searchsorted(times, wanted)), len(times) - 1)
        if times[after] <= wanted or after == 0:
            return float(edges[after])
        return float(edges[after - 1] + (wanted - times[after - 1]) / slopes[after - 1])


# Elasticity metrics of the SPEC Research Group: how closely supply followed demand.


Steps = Sequence[tuple[float, float]]
"""A step function: change points ``(second, value)``, ascending; each value holds until the next one."""

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Elasticity:
    """The four metrics: accuracies in executors, ≥ 0; time shares in [0, 1]."""

    accuracy_o: float
    accuracy_u: float
    timeshare_o: float
    timeshare_u: float


def elasticity(supply: Steps, demand: Steps, start: float, end: float) -> Elasticity:
    """The metrics from ``start`` to ``end``; start < end. Before its first point a step function has its first value.

    >>> elasticity([(0, 3), (60, 1)], [(0, 2)], 0, 90)
    Elasticity(accuracy_o=0.6666666666666666, accuracy_u=0.3333333333333333, timeshare_o=0.6666666666666666, \
timeshare_u=0.3333333333333333)
    """
    over = under = time_over = time_under = 0.0
    for seconds, has, needs in _merge_steps(supply, demand, start, end):
        over += seconds * max(has - needs, 0.0)
        under += seconds * max(needs - has, 0.0)
        time_over += seconds * (has > needs)
        time_under += seconds * (needs > has)
    total = end - start
    return Elasticity(over / total, under / total, time_over / total, time_under / total)


def integral(steps: Steps, start: float, end: float) -> float:
    """∫ of a step function from ``start`` to ``end``.

    >>> integral([(0, 1), (100, 4), (400, 2)], 50, 500)
    1450.0
    """
    return math.fsum(seconds * has for seconds, has, _ in _merge_steps(steps, [(start, 0.0)], start, end))


def changes(steps: Steps, start: float, end: float) -> int:
    """How often the value changes after ``start`` (or at it, from another value) and before ``end``.

    >>> changes([(0, 1), (0, 3), (60, 3), (90, 2)], 0, 200)
    2
    """
    pairs = pairwise(steps)
    return sum(before != after for (_, before), (at, after) in pairs if start <= at < end)


def demand_steps(load: Pieces, curve: Sequence[float], n_min: int, n_max: int) -> list[tuple[float, float]]:
    """d(t), exactly: the fewest executors whose capacity carries the arrival rate, the most where none do.

    ``curve``: C(0) … C(n_max), records/s. Between the points of the load the rate is a straight line.
    """
    carried = list(accumulate(curve[n_min : n_max + 1], max))
    steps: list[tuple[float, float]] = []
    for at, rate in _rates_between_levels(load, carried):
        number = float(n_min + min(bisect_left(carried, rate * (1 - _ROUNDING)), n_max - n_min))
        if not steps or steps[-1][1] != number:
            steps.append((at, number))
    return steps


def _rates_between_levels(load: Pieces, levels: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Times at which the rate crosses a level, with the mean rate until the next crossing."""
    for (begin, first), (end, last) in pairwise(load.points):
        if begin == end:
            continue
        crossed = sorted((level - first) / (last - first) for level in set(levels)) if first != last else []
        shares = [0.0, *(share for share in crossed if 0 < share < 1), 1.0]
        for share, after in pairwise(shares):
            yield begin + share * (end - begin), first + (share + after) / 2 * (last - first)


def _merge_steps(first: Steps, second: Steps, start: float, end: float) -> Iterator[tuple[float, float, float]]:
    """``(seconds, value, value)`` of two step functions, between their changes."""
    values = [_value_at(first, start), _value_at(second, start)]
    both = enumerate((first, second))
    changes_of = ([(at, which, value) for at, value in steps if start < at < end] for which, steps in both)
    before = start
    for at, which, value in merge(*changes_of):
        yield at - before, values[0], values[1]
        values[which], before = value, at
    yield end - before, values[0], values[1]


def _value_at(steps: Steps, at: float) -> float:
    """The value at a time; before the first point, the first value."""
    return steps[max(0, bisect_right(steps, at, key=lambda step: step[0]) - 1)][1]
