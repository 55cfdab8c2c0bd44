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
from typing import NamedTuple

__all__ = ["Fit", "Point", "line", "parabola", "trough", "trough_or_line"]

_FEWEST_FOR_A_TROUGH = 6
_BEND = 4.0
"""F from which on a bend is no chance: about the 95 % point for one term against ten or more points."""

_LEVEL = 1e-9
"""Σp2² ÷ (Σp1²)² up to which the points do not tell a bend."""

_SURE = 1.001
"""A bound that is passed by this factor is so whatever rounding does."""


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
        points, middle, _, _, _, _, _, alpha, beta, spread1, spread2, error = self
        terms = 1 + (spread1 > 0) + (spread2 > 0)
        if points <= terms:
            return math.inf
        x = time - middle
        leverage = 1 / points
        if spread1 > 0:
            leverage += x * x / spread1
        if spread2 > 0:
            leverage += (x * x - alpha * x - beta) ** 2 / spread2
        return deviations * math.sqrt(error / (points - terms) * (1 + leverage))

    def integral(self, start: float, end: float) -> float:
        """∫ max(0, y) from ``start`` to ``end``: what will have come, if no rate is below 0.

        >>> line([Point(0, 1000.0), Point(60, 1000.0)]).integral(100, 700)
        600000.0
        >>> line([Point(0, 10.0), Point(10, 0.0)]).integral(5, 25)
        12.5
        """
        _, middle, _, _, c0, c1, c2, _, _, _, _, _ = self
        if c2 == 0 and not (c1 and start < middle - c0 / c1 < end):  # a line that does not cross 0: the usual case
            low, high = c0 + c1 * (start - middle), c0 + c1 * (end - middle)
            value = c0 + c1 * ((start + end) / 2 - middle)
            return (end - start) / 6 * (low + 4 * value + high) if value > 0 else 0.0
        cuts = [start, *(root for root in self._roots() if start < root < end), end]
        return sum([self._signed(low, high) for low, high in pairwise(cuts) if self.at((low + high) / 2) > 0], 0.0)

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
    n = len(points)
    times, values = zip(*points, strict=True)
    middle, c0 = sum(times) / n, sum(values) / n
    spread1 = cross = error = 0.0
    for time, value in points:
        x = time - middle
        spread1 += x * x
        cross += x * (value - c0)
    c1 = cross / spread1 if spread1 > 0 else 0.0
    for time, value in points:
        rest = value - c0 - c1 * (time - middle)
        error += rest * rest
    return Fit(n, middle, times[0], times[-1], c0, c1, 0.0, 0.0, 0.0, spread1, 0.0, error)


def parabola(points: Sequence[Point]) -> Fit:
    """The least-squares parabola; a line where fewer than three times are there."""
    straight = line(points)
    bend = _bend(straight, points)
    return straight if bend is None else _bent(straight, bend, points)


def trough(points: Sequence[Point]) -> Fit | None:
    """The parabola, where the series goes through a trough; else None.

    A trough is a parabola that opens upwards, turns within the points, and explains more than chance does: of what the
    line leaves unexplained it takes so much that F = (Σe² of the line − Σe²) ÷ (Σe² ÷ (n − 3)) ≥ 4. Fewer than six
    points show none.
    """
    fit = trough_or_line(points)
    return fit if fit.c2 > 0 else None


def trough_or_line(points: Sequence[Point]) -> Fit:
    """The parabola, where the series goes through a trough (:func:`trough`); else the line.

    What a parabola takes is computed only as far as one may turn within the points.
    """
    straight, n = line(points), len(points)
    if n < _FEWEST_FOR_A_TROUGH or _steep(straight, points[n // 2].at):
        return straight
    bend = _bend(straight, points)
    if bend is None:
        return straight
    c2, alpha, _, spread2 = bend
    if c2 <= 0 or not straight.first <= straight.middle + (alpha - straight.c1 / c2) / 2 <= straight.last:
        return straight
    explained = c2 * c2 * spread2
    if _SURE * explained < _BEND * (straight.error - explained) / (n - 3):
        return straight
    fit = _bent(straight, bend, points)
    return fit if explained >= _BEND * fit.error / (n - 3) else straight


_Bend = tuple[float, float, float, float]
"""The second term: c2, α, β and Σp2²."""


def _bend(straight: Fit, points: Sequence[Point]) -> _Bend | None:
    """The term that is missing in the line; None where the points do not tell it."""
    n, middle, _, _, c0, c1, _, _, _, spread1, _, _ = straight
    if spread1 <= 0:
        return None
    alpha, beta = sum([(time - middle) ** 3 for time, _ in points]) / spread1, spread1 / n
    spread2 = bent = 0.0
    for time, value in points:
        x = time - middle
        p2 = x * x - alpha * x - beta
        spread2 += p2 * p2
        bent += p2 * (value - c0 - c1 * x)
    return (bent / spread2, alpha, beta, spread2) if spread2 > _LEVEL * spread1**2 else None


def _bent(straight: Fit, bend: _Bend, points: Sequence[Point]) -> Fit:
    """The line with its second term."""
    n, middle, first, last, c0, c1, _, _, _, spread1, _, _ = straight
    c2, alpha, beta, spread2 = bend
    error = 0.0
    for time, value in points:
        x = time - middle
        left = value - c0 - c1 * x - c2 * (x * x - alpha * x - beta)
        error += left * left
    return Fit(n, middle, first, last, c0, c1, c2, alpha, beta, spread1, spread2, error)


def _steep(straight: Fit, between: float) -> bool:
    """Whether the line is so steep, beside what it leaves, that no parabola through the points turns within them.

    From x̄ a parabola turns at (α − c1 ÷ c2) / 2. As α is not beyond the ends, that lies within them only if |c1| ÷ c2
    is no more than the far end − 2 · the near one: *reach*. By Cauchy and Schwarz c2² · Σp2² is no more than the Σe² of
    the line. And Σp2² is no less than what x² with any line leaves at three of the points, l, r and h = l + r apart:
    l² r² h² ÷ (l² + r² + h²). So none turns within the points where c1² l² r² h² > reach² (l² + r² + h²) Σe².

    Args:
        straight: the line through points in order of time.
        between: the time of one of them, near the middle one.
    """
    _, middle, first, last, _, c1, _, _, _, _, _, error = straight
    left, right, whole = between - first, last - between, last - first
    reach = whole + (middle - first if c1 > 0 else last - middle)
    slope = c1 * left * right * whole
    return slope * slope > _SURE * reach * reach * (left * left + right * right + whole * whole) * error
