"""From a fitted polynomial to a table that is sane everywhere: non-decreasing in the load, non-increasing in executors.

Where samples lie, the table is the monotone function with the least greatest distance from the polynomial: half of
the largest value at easier points (less load, more executors) plus half of the smallest value at harder ones
(V. A. Ubhaya, "Isotone optimization I", 1974). From there it bounds what may be assumed where no samples lie: no less
than at any easier point, no more than at any harder one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from math import inf
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from rheostat.learn.polynomial import Array, Polynomial

__all__ = ["Seen", "Surface", "spans", "surface"]

_GAP = 0.2
"""A range of loads without a sample ends a span if it is wider than this share of the largest load at that number."""
_KNOTS = 512
"""About so many loads are looked at; between them the table is linear."""


class Seen(NamedTuple):
    """A range of loads that was sampled without a wide gap, at one number of executors."""

    executors: int
    low: float
    high: float


def spans(loads: Sequence[float], executors: Sequence[int]) -> tuple[Seen, ...]:
    """The ranges that samples cover, by number of executors, then by load.

    >>> spans([100.0, 110.0, 900.0, 50.0], [2, 2, 2, 1])
    (Seen(executors=1, low=50.0, high=50.0), Seen(executors=2, low=100.0, high=110.0), Seen(executors=2, low=900.0, \
high=900.0))
    """
    found: list[Seen] = []
    for number, pairs in groupby(sorted(zip(executors, loads, strict=True)), key=itemgetter(0)):
        ordered = [load for _, load in pairs]
        wide = _GAP * ordered[-1]
        starts = [0, *(place for place in range(1, len(ordered)) if ordered[place] - ordered[place - 1] > wide)]
        found += (Seen(number, ordered[a], ordered[b - 1]) for a, b in pairwise([*starts, len(ordered)]))
    return tuple(found)


class Surface(NamedTuple):
    """What is known of f at some loads (knots) and numbers of executors.

    Attributes:
        knots: loads, ascending, the first is 0.
        numbers: of executors that were seen, ascending.
        least: for each number, at each knot: f there is at least this.
        most: the same, at most; infinite where nothing bounds it.
        sound: for each number: the largest load at which f is below the objective for it or for fewer.
    """

    knots: list[float]
    numbers: list[int]
    least: list[list[float]]
    most: list[list[float]]
    sound: list[float]

    def bounds(self, load: float, executors: int) -> tuple[float, float]:
        """At least and at most; both non-decreasing in the load and non-increasing in executors."""
        harder = bisect_left(self.numbers, executors)
        easier = bisect_right(self.numbers, executors) - 1
        least = self._at(self.least[harder], load) if harder < len(self.numbers) else 0.0
        most = self._at(self.most[easier], load, beyond=inf) if easier >= 0 else inf
        return least, most

    def sound_load(self, executors: int) -> float:
        """The largest load that as many executors, or fewer, were seen to carry within the objective; 0: none."""
        easier = bisect_right(self.numbers, executors) - 1
        return self.sound[easier] if easier >= 0 else 0.0

    def _at(self, row: Sequence[float], load: float, beyond: float | None = None) -> float:
        after = bisect_left(self.knots, load)
        if after == len(self.knots):
            return row[-1] if beyond is None else beyond
        right = self.knots[after]
        if right == load or after == 0 or row[after] == row[after - 1]:
            return row[after]
        share = (load - self.knots[after - 1]) / (right - self.knots[after - 1])
        return min(row[after], row[after - 1] + share * (row[after] - row[after - 1]))


def surface(polynomial: Polynomial, seen: Sequence[Seen], top: float, objective: float) -> Surface:
    """The table of a polynomial of (load, executors).

    Args:
        polynomial: what was fitted.
        seen: where samples lie; not empty.
        top: the polynomial is cut off above it, and below 0.
        objective: shares of slow records below it are within the objective.
    """
    knots = _knots(seen)
    numbers = sorted({span.executors for span in seen})
    sampled = np.full((len(numbers), knots.size), np.nan)
    for span in seen:
        first, last = np.searchsorted(knots, [span.low, span.high])
        points = np.column_stack([knots[first : last + 1], np.full(last + 1 - first, float(span.executors))])
        sampled[numbers.index(span.executors), first : last + 1] = np.clip(polynomial.values(points), 0.0, top)
    monotone = (_highest_of_easier(sampled) + _lowest_of_harder(sampled)) / 2
    monotone[np.isnan(sampled)] = np.nan
    sound = np.where(monotone < objective, knots, 0.0).max(axis=1)
    return Surface(
        knots=knots.tolist(),
        numbers=numbers,
        least=np.maximum(_highest_of_easier(monotone), 0.0).tolist(),
        most=_lowest_of_harder(monotone).tolist(),
        sound=np.maximum.accumulate(sound).tolist(),
    )


def _knots(seen: Iterable[Seen]) -> Array:
    found = list(seen)
    each = max(5, _KNOTS // len(found))
    return np.unique(np.concatenate([[0.0], *(np.linspace(span.low, span.high, each) for span in found)]))


def _highest_of_easier(table: Array) -> Array:
    """For each cell the highest value at no more load and no fewer executors; −inf where there is none."""
    known = np.where(np.isnan(table), -np.inf, table)
    by_load = np.maximum.accumulate(known, axis=1)
    return np.maximum.accumulate(by_load[::-1], axis=0)[::-1]


def _lowest_of_harder(table: Array) -> Array:
    """For each cell the lowest value at no less load and no more executors; inf where there is none."""
    known = np.where(np.isnan(table), np.inf, table)
    by_load = np.minimum.accumulate(known[:, ::-1], axis=1)[:, ::-1]
    return np.minimum.accumulate(by_load, axis=0)
