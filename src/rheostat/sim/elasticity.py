"""Elasticity metrics of the SPEC Research Group: how closely the supply of executors followed the demand.

N. Herbst et al., "Ready for Rain? A View from SPEC Research on the Future of Cloud Metrics" (SPEC RG, 2016), in the
form that S2 (ICCCN 2021) uses: in executors and seconds, not divided by the demand. With s(t) the supply, d(t) the
demand and T the seconds measured:

* accuracy_O = (1/T) ∫ max(s − d, 0) dt: executors too many, on average;
* accuracy_U = (1/T) ∫ max(d − s, 0) dt: executors too few, on average;
* timeshare_O, timeshare_U: share of the time in which s > d, and d > s.

So accuracy_O − accuracy_U is the mean of s less the mean of d.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import accumulate, pairwise

from rheostat.load.curves import Pieces

__all__ = ["Elasticity", "Steps", "changes", "demand_steps", "elasticity", "integral"]

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
    for seconds, has, needs in _together(supply, demand, start, end):
        over += seconds * max(has - needs, 0.0)
        under += seconds * max(needs - has, 0.0)
        time_over += seconds * (has > needs)
        time_under += seconds * (needs > has)
    total = end - start
    return Elasticity(over / total, under / total, time_over / total, time_under / total)


def integral(steps: Steps, start: float, end: float) -> float:
    """∫ of a step function from ``start`` to ``end``.

    >>> integral([(0, 1), (100, 4), (400, 2)], 50, 500)
    1450
    """
    return math.fsum(seconds * has for seconds, has, _ in _together(steps, [(start, 0.0)], start, end))


def changes(steps: Steps, start: float, end: float) -> int:
    """How often the value changes after ``start`` (or at it, from another value) and before ``end``.

    >>> changes([(0, 1), (0, 3), (60, 3), (90, 2)], 0, 200)
    2
    """
    pairs = pairwise(steps)
    return sum(before != after for (_, before), (at, after) in pairs if start <= at < end)


def demand_steps(load: Pieces, curve: Sequence[float], n_min: int, n_max: int) -> list[tuple[float, float]]:
    """d(t), exactly: the fewest executors whose capacity carries the arrival rate, the most where none do.

    Args:
        load: records/s; between its points the rate is a straight line.
        curve: C(0) … C(n_max), records/s.
        n_min: least number.
        n_max: greatest number.
    """
    carried = list(accumulate(curve[n_min : n_max + 1], max))
    steps: list[tuple[float, float]] = []
    for at, rate in _levels(load, carried):
        number = float(n_min + min(bisect_left(carried, rate * (1 - _ROUNDING)), n_max - n_min))
        if not steps or steps[-1][1] != number:
            steps.append((at, number))
    return steps


def _levels(load: Pieces, levels: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Where the rate crosses a level, with a rate that holds from there to the next crossing (its middle)."""
    for (begin, first), (end, last) in pairwise(load.points):
        if begin == end:
            continue
        crossed = sorted((level - first) / (last - first) for level in set(levels)) if first != last else []
        shares = [0.0, *(share for share in crossed if 0 < share < 1), 1.0]
        for share, after in pairwise(shares):
            yield begin + share * (end - begin), first + (share + after) / 2 * (last - first)


def _together(first: Steps, second: Steps, start: float, end: float) -> Iterator[tuple[float, float, float]]:
    """``(seconds, value, value)`` of two step functions, wherever one of them changes."""
    values = [_value_at(first, start), _value_at(second, start)]
    marked = (
        [(at, which, value) for at, value in steps if start < at < end] for which, steps in ((0, first), (1, second))
    )
    before = start
    for at, which, value in merge(*marked):
        yield at - before, values[0], values[1]
        values[which], before = value, at
    yield end - before, values[0], values[1]


def _value_at(steps: Steps, at: float) -> float:
    value = steps[0][1]
    for when, value_then in steps:
        if when > at:
            break
        value = value_then
    return value
