"""Least-squares lines and parabolas (S5, Predict Workload), the forecast of a load (S1), and a change detector (S1).

Lines and parabolas are fits in polynomials that are orthogonal over the points::

    y(x) = c0 + c1 · p1(x) + c2 · p2(x)        p1 = x − x̄        p2 = p1² − α · p1 − β

so that the line is the parabola without its last term, and the leverage of a time is h(x) = 1/n + p1²/Σp1² + p2²/Σp2².
The errors of S5 have the deviation σ = √(Σe²/n), around 0. A prediction interval is that of a new observation: ± z ·
√(Σe² ÷ (n − terms)) · √(1 + h(x)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

_FEWEST_FOR_A_TROUGH = 6
_BEND = 4.0
"""Least F of a significant bend: about the 95 % point for one term against ten or more points."""
_LEVEL = 1e-9
"""Σp2² ÷ (Σp1²)² up to which the points do not determine a bend."""


class Point(NamedTuple):
    """A value at a time, s."""

    at: float
    value: float


class Fit(NamedTuple):
    """A fitted line or parabola.

    Attributes:
        points: number of points, ≥ 1, the first and last at these times, s.
        middle: x̄, their mean time, s.
        c0, c1, c2: coefficients of the orthogonal terms; c2 is 0 for a line.
        alpha, beta: of p2.
        spread1, spread2: Σp1² and Σp2²; 0 without the term.
        error: Σe², of the residuals.
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

    def half_width(self, time: float, deviations: float = 1.96) -> float:
        """Half of the prediction interval at a time; infinite where there are too few points for an error.

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
        """∫ max(0, y) from ``start`` to ``end``: what arrives, if no rate is below 0.

        >>> line([Point(0, 1000.0), Point(60, 1000.0)]).integral(100, 700)
        600000.0
        >>> line([Point(0, 10.0), Point(10, 0.0)]).integral(5, 25)
        12.5
        """
        cuts = [start, *(root for root in self._roots() if start < root < end), end]
        return math.fsum(self._signed(low, high) for low, high in pairwise(cuts) if self.at((low + high) / 2) > 0)

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
        # The sum of two numbers of one sign, so that a slight bend (a near 0) costs no digits.
        q = -(b + math.copysign(math.sqrt(inside), b)) / 2
        return sorted((self.middle + q / a, self.middle + c / q))


def line(points: Sequence[Point]) -> Fit:
    """The least-squares line; level through one point, or several at the same time."""
    n = len(points)
    middle, c0 = math.fsum(point.at for point in points) / n, math.fsum(point.value for point in points) / n
    xs, rest = [point.at - middle for point in points], [point.value - c0 for point in points]
    spread1 = _products(xs, xs)
    c1 = _products(xs, rest) / spread1 if spread1 > 0 else 0.0
    left = [y - c1 * x for x, y in zip(xs, rest, strict=True)]
    return Fit(
        points=n,
        middle=middle,
        first=points[0].at,
        last=points[-1].at,
        c0=c0,
        c1=c1,
        spread1=spread1,
        error=_products(left, left),
    )


def parabola(points: Sequence[Point]) -> Fit:
    """The least-squares parabola; a line where there are fewer than three times."""
    straight = line(points)
    if straight.spread1 == 0:
        return straight
    xs = [point.at - straight.middle for point in points]
    alpha, beta = math.fsum(x**3 for x in xs) / straight.spread1, straight.spread1 / straight.points
    bends = [x * x - alpha * x - beta for x in xs]
    spread2 = _products(bends, bends)
    if spread2 <= _LEVEL * straight.spread1**2:
        return straight
    rest = [point.value - straight.c0 - straight.c1 * x for x, point in zip(xs, points, strict=True)]
    c2 = _products(bends, rest) / spread2
    left = [y - c2 * bend for bend, y in zip(bends, rest, strict=True)]
    return straight._replace(c2=c2, alpha=alpha, beta=beta, spread2=spread2, error=_products(left, left))


def trough_or_line(points: Sequence[Point]) -> Fit:
    """The parabola, where the series goes through a trough; else the line.

    A trough is a parabola that opens upwards, turns within the points, and is significant:
    F = (Σe² of the line − Σe²) ÷ (Σe² ÷ (n − 3)) ≥ 4; and since the lowest point the series has risen by more than σ,
    which it has not after a step down. Fewer than six points have none.
    """
    bent = parabola(points)
    if bent.points < _FEWEST_FOR_A_TROUGH or bent.c2 <= 0:
        return line(points)
    turn = bent.middle + (bent.alpha - bent.c1 / bent.c2) / 2
    explained = bent.c2 * bent.c2 * bent.spread2
    shows = bent.first <= turn <= bent.last and explained >= _BEND * bent.error / (bent.points - 3)
    has_risen = points[-1].value - min([point.value for point in points]) > bent.deviation
    return bent if shows and has_risen else line(points)


def _products(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


# -------------------------------------------------------------------------- forecast of a load: S1, Workload Predictor

Rates = tuple[float, ...]
"""Records/s of each topic, in a fixed order."""

_MOST = 240
"""Most points of a series: two samples nearer than back ÷ 240 are one too many for a line."""


class LoadPoint(NamedTuple):
    """The measured arrival rates at a time."""

    at: float
    rates: Rates


def add_point(series: tuple[LoadPoint, ...], point: LoadPoint, back_s: float) -> tuple[LoadPoint, ...]:
    """The series with one more point, and without what is older than ``back_s``.

    Time that runs backwards, or another number of topics, restarts it. A point nearer to the last but one than
    ``back_s`` ÷ 240 replaces the last, so that the series is bounded at any sample period.

    >>> series = (LoadPoint(0.0, (1.0,)), LoadPoint(400.0, (2.0,)))
    >>> [each.at for each in add_point(series, LoadPoint(700.0, (3.0,)), 600.0)]
    [400.0, 700.0]
    """
    if series and (point.at <= series[-1].at or len(point.rates) != len(series[-1].rates)):
        return (point,)
    if len(series) > 1 and point.at - series[-2].at < back_s / _MOST:
        return (*series[:-1], point)
    return (*(each for each in series if each.at >= point.at - back_s), point)


def ahead(horizon_s: float, step_s: float) -> tuple[float, ...]:
    """The times of a forecast, s ahead: step, 2 × step, … up to the horizon, which the last one meets or passes.

    >>> ahead(20.0, 5.0), ahead(12.0, 5.0)
    ((5.0, 10.0, 15.0, 20.0), (5.0, 10.0, 15.0))
    """
    return tuple(step_s * number for number in range(1, max(1, math.ceil(horizon_s / step_s - 1e-9)) + 1))


def forecast(series: Sequence[LoadPoint], times: Sequence[float], late_s: float = 0.0) -> tuple[Rates, ...]:
    """The rates so many seconds after the last point, one tuple for each of ``times``; none without a point.

    With one point, or all at the same time, the rates stay as they are. ``late_s`` is the age of a rate at its point:
    half the window that it is the mean of [ours].

    >>> forecast([LoadPoint(0.0, (100.0,)), LoadPoint(10.0, (110.0,))], [10.0])
    ((120.0,),)
    >>> forecast([LoadPoint(0.0, (30.0,)), LoadPoint(10.0, (10.0,))], [10.0])
    ((0.0,),)
    """
    if not series:
        return ()
    offsets = [point.at - series[-1].at for point in series]
    middle = math.fsum(offsets) / len(offsets)
    centered = [offset - middle for offset in offsets]
    spread = _products(centered, centered)
    lines = []  # mean and slope of each topic
    for rates in zip(*(point.rates for point in series), strict=True):
        slope = _products(centered, rates) / spread if spread > 0 else 0.0
        lines.append((math.fsum(rates) / len(rates) if spread > 0 else rates[-1], slope))
    return tuple(tuple(max(0.0, mean + slope * (time + late_s - middle)) for mean, slope in lines) for time in times)


# -------------------------------------------- change detector: a score of residuals, for abrupt and for gradual change

_CLIP = 2.0
_CHANGED = 1.0


@dataclass(frozen=True, slots=True)
class DetectorState:
    """The state of a detector.

    Attributes:
        recent: the last residuals, at most ``in_a_row``.
        total: g, the cumulative sum.
        misses: residuals in a row that belong to the forecast and not to the model.
    """

    recent: tuple[float, ...] = ()
    total: float = 0.0
    misses: int = 0


@dataclass(frozen=True, slots=True)
class Worsening:
    """The score after one residual; gradual if it comes from the cumulative sum and not from the residuals."""

    score: float
    gradual: bool

    @property
    def changed(self) -> bool:
        return self.score >= _CHANGED


@dataclass(frozen=True, slots=True)
class Detector:
    """The settings of a detector.

    Attributes:
        limit: least residual that is too high, > 0.
        in_a_row: too high residuals in a row that are a change point.
        allowance: residual of a good model; None: no detection of gradual change.
        patience: cumulative sum that is a change point, in limits.
    """

    limit: float = 0.08
    in_a_row: int = 1
    allowance: float | None = 0.02
    patience: float = 5.0

    def watch(self, residual: float, state: DetectorState) -> tuple[Worsening, DetectorState]:
        """The score with one more residual; one below 0 speaks against a gradual change.

        >>> detector, state = Detector(), DetectorState()
        >>> worsening, state = detector.watch(0.04, state)
        >>> worsening.score, round(state.total, 3)
        (0.5, 0.02)
        """
        recent = (*state.recent, residual)[-self.in_a_row :]
        abrupt = min(recent) / self.limit if len(recent) == self.in_a_row else 0.0
        total = state.total
        if self.allowance is not None:
            total = max(0.0, total + min(residual, _CLIP * self.limit) - self.allowance)
        slow = total / (self.patience * self.limit)
        return Worsening(max(abrupt, slow), gradual=slow > abrupt), DetectorState(recent, total, state.misses)

    def forecast_missed(self, residual: float, of_model: float) -> bool:
        """Whether a residual is high only because the forecast was wrong.

        Both are absolute: measured − predicted for the forecast workload, and for the measured workload (``of_model``).

        >>> Detector().forecast_missed(0.2, 0.01), Detector().forecast_missed(0.2, 0.19)
        (True, False)
        """
        return residual > self.limit >= of_model
