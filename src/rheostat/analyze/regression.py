"""Straight lines and parabolas through a series, with what they leave unexplained. S5, Predict Workload.

Both are least-squares fits in polynomials that are orthogonal over the points::

    y(x) = c0 + c1 · p1(x) + c2 · p2(x)        p1 = x − x̄        p2 = p1² − α · p1 − β

so that the line is the parabola without its last term, the share of each term is known by itself, and the leverage of
a place is h(x) = 1/n + p1²/Σp1² + p2²/Σp2². The errors of S5 have the deviation σ = √(Σe²/n), around 0. A prediction
interval is that of a new observation: ± z · √(Σe² ÷ (n − terms)) · √(1 + h(x)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from operator import mul
from typing import NamedTuple

__all__ = ["Fit", "Point", "line", "parabola", "trough"]

_FEWEST_FOR_A_TROUGH = 6
_BEND = 4.0
"""F from which on a bend is no chance: about the 95 % point for one term against ten or more points."""


class Point(NamedTuple):
    """What was measured at a time, s."""

    at: float
    value: float


class Fit(NamedTuple):
    """A fitted line or parabola.

    Attributes:
        points: how many it was fitted to, ≥ 1.
        middle: x̄, their mean time, s.
        first, last: the times of the first and the last.
        c0, c1, c2: coefficients of the orthogonal terms; c2 is 0 for a line.
        alpha, beta: of p2.
        spread1, spread2: Σp1² and Σp2²; 0 where the term is not there.
        error: Σe², of what is left.
    """

    points: int
    middle: float
    first: float
    last: float
    c0: float
    c1: float = 0.0
    c2: float = 0.0
    alpha: float = 0.0
    beta: float = 0.0
    spread1: float = 0.0
    spread2: float = 0.0
    error: float = 0.0

    @property
    def deviation(self) -> float:
        """σ = √(Σe²/n), around 0.

        >>> points = [Point(x, 10 + 2 * x + e) for x, e in enumerate((1, -1, 0, 0, -1, 1))]
        >>> round(line(points).deviation ** 2, 4), round(3 * line(points).deviation, 2)
        (0.6667, 2.45)
        """
        return math.sqrt(self.error / self.points)

    def at(self, time: float) -> float:
        """The value at a time; it may lie below 0.

        >>> line([Point(0, 1.0), Point(1, 3.0), Point(2, 5.0)]).at(10)
        21.0
        """
        x = time - self.middle
        return self.c0 + self.c1 * x + self.c2 * (x * x - self.alpha * x - self.beta)

    def slope(self, time: float) -> float:
        """The derivative at a time, 1/s."""
        return self.c1 + self.c2 * (2 * (time - self.middle) - self.alpha)

    @property
    def vertex(self) -> float | None:
        """Where a parabola turns; None for a line."""
        return None if self.c2 == 0 else self.middle + (self.alpha - self.c1 / self.c2) / 2

    def half_width(self, time: float, deviations: float = 1.96) -> float:
        """Half of the prediction interval at a time; infinite where no error can be told from so few points.

        >>> points = [Point(x, 10 + 2 * x + e) for x, e in enumerate((1, -1, 0, 0, -1, 1))]
        >>> round(line(points).half_width(6, deviations=1.0), 4)
        1.3663
        """
        terms = 1 + (self.spread1 > 0) + (self.spread2 > 0)
        if self.points <= terms:
            return math.inf
        x = time - self.middle
        leverage = 1 / self.points
        if self.spread1 > 0:
            leverage += x * x / self.spread1
        if self.spread2 > 0:
            leverage += (x * x - self.alpha * x - self.beta) ** 2 / self.spread2
        return deviations * math.sqrt(self.error / (self.points - terms) * (1 + leverage))

    def integral(self, start: float, end: float) -> float:
        """∫ max(0, y) from ``start`` to ``end``: what will have come, if no rate is below 0.

        >>> line([Point(0, 1000.0), Point(60, 1000.0)]).integral(100, 700)
        600000.0
        >>> line([Point(0, 10.0), Point(10, 0.0)]).integral(5, 25)
        12.5
        """
        cuts = [start, *(root for root in self._roots() if start < root < end), end]
        return sum(self._signed(low, high) for low, high in pairwise(cuts) if self.at((low + high) / 2) > 0)

    def _signed(self, start: float, end: float) -> float:
        """∫ y, exact for a parabola by Simpson's rule."""
        return (end - start) / 6 * (self.at(start) + 4 * self.at((start + end) / 2) + self.at(end))

    def _roots(self) -> list[float]:
        a, b = self.c2, self.c1 - self.c2 * self.alpha
        c = self.c0 - self.c2 * self.beta
        if a == 0:
            return [] if b == 0 else [self.middle - c / b]
        inside = b * b - 4 * a * c
        if inside <= 0:
            return []
        root = math.sqrt(inside)
        return sorted((self.middle + (-b - root) / (2 * a), self.middle + (-b + root) / (2 * a)))


def line(points: Sequence[Point]) -> Fit:
    """The least-squares line; through one point, or several at the same time, it is level."""
    return _fit(points, 1)


def parabola(points: Sequence[Point]) -> Fit:
    """The least-squares parabola; a line where fewer than three times are there."""
    return _fit(points, 2)


def trough(points: Sequence[Point]) -> Fit | None:
    """The parabola, where the series goes through a trough; else None.

    A trough is a parabola that opens upwards, turns within the points, and explains more than chance does: of what the
    line leaves unexplained it takes so much that F = (Σe² of the line − Σe²) ÷ (Σe² ÷ (n − 3)) ≥ 4. Fewer than six
    points show none.
    """
    if len(points) < _FEWEST_FOR_A_TROUGH:
        return None
    fit = _fit(points, 2)
    turn = fit.vertex
    if turn is None or fit.c2 <= 0 or not fit.first <= turn <= fit.last:
        return None
    explained = fit.c2 * fit.c2 * fit.spread2
    return fit if explained >= _BEND * fit.error / (fit.points - 3) else None


def _fit(points: Sequence[Point], degree: int) -> Fit:
    n = len(points)
    times, values = zip(*points, strict=True)
    middle, c0 = sum(times) / n, sum(values) / n
    xs = [time - middle for time in times]
    rest = [value - c0 for value in values]
    fit = Fit(n, middle, times[0], times[-1], c0)
    spread1 = sum(map(mul, xs, xs))
    if spread1 > 0:
        c1 = sum(map(mul, xs, rest)) / spread1
        rest = [y - c1 * x for x, y in zip(xs, rest, strict=True)]
        fit = fit._replace(c1=c1, spread1=spread1)
        if degree > 1:
            fit, rest = _bent(fit, xs, rest)
    return fit._replace(error=sum(map(mul, rest, rest)))


def _bent(fit: Fit, xs: Sequence[float], rest: list[float]) -> tuple[Fit, list[float]]:
    """The fit with its second term, and what is left then."""
    alpha, beta = sum([x**3 for x in xs]) / fit.spread1, fit.spread1 / fit.points
    bends = [x * x - alpha * x - beta for x in xs]
    spread2 = sum(map(mul, bends, bends))
    if spread2 <= 1e-9 * fit.spread1**2:
        return fit, rest
    c2 = sum(map(mul, bends, rest)) / spread2
    left = [y - c2 * bend for bend, y in zip(bends, rest, strict=True)]
    return fit._replace(c2=c2, alpha=alpha, beta=beta, spread2=spread2), left
