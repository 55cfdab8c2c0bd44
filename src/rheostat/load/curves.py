"""Rate curves: the offered load as a function of time, with its exact integral.

Rates are in records/s, times in seconds from 0 to the curve's duration. Outside of that range the rate is 0 and the
integral constant. The integral is in closed form, so the time at which record k is due does not depend on how often a
producer looks.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol

MOST_RECORDS = 2.0**62
"""Largest number of records of a load: ids are 64-bit numbers, and the first id may be this large too."""


class RateCurve(Protocol):
    """An offered load. Immutable."""

    @property
    def duration(self) -> float:
        """Seconds, > 0."""
        ...

    def rate(self, t: float) -> float:
        """Records/s at ``t`` seconds, ≥ 0; continuous from the right; 0 outside [0, duration)."""
        ...

    def cumulative(self, t: float) -> float:
        """Records offered in [0, t]: the integral of the rate. Never decreases; 0 before 0, constant after the end."""
        ...

    def pieces(self) -> Pieces:
        """The same load in straight lines: exact for straight lines and jumps, else within 0.02 % of its span."""
        ...


class Pieces:
    """Straight lines between points ``(second, records/s)``; two points at one second are a jump.

    ``cumulative(t) = Σ (t[i+1] − t[i]) · (r[i] + r[i+1]) / 2`` over whole pieces, plus the trapezium up to t.

    >>> ramp = Pieces([(0, 0), (10, 100)])
    >>> ramp.rate(5), ramp.cumulative(5), ramp.cumulative(10)
    (50.0, 125.0, 500.0)
    """

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        if points[0][0] != 0 or any(right[0] < left[0] for left, right in pairwise(points)):
            message = "points must begin at second 0 and never go back"
            raise ValueError(message)
        self._times = [float(second) for second, _ in points]
        self._rates = [float(rate) for _, rate in points]
        areas = [(right[0] - left[0]) * (left[1] + right[1]) / 2 for left, right in pairwise(points)]
        self._sums = list(accumulate(areas, initial=0.0))
        self.duration = self._times[-1]

    @property
    def points(self) -> list[tuple[float, float]]:
        return list(zip(self._times, self._rates, strict=True))

    def rate(self, t: float) -> float:
        return self._interpolate(bisect_right(self._times, t) - 1, t) if 0 <= t < self.duration else 0.0

    def cumulative(self, t: float) -> float:
        if t <= 0:
            return 0.0
        if t >= self.duration:
            return self._sums[-1]
        index = bisect_right(self._times, t) - 1
        mean = (self._rates[index] + self._interpolate(index, t)) / 2
        return self._sums[index] + (t - self._times[index]) * mean

    def when(self, count: float) -> float:
        """The first second by which ``count`` records were offered; infinite if the load has fewer.

        The inverse of :meth:`cumulative`. Where a piece begins at r records/s and bends by a records/s², and n records
        of it are asked for, ``r·x + a·x²/2 = n`` gives ``x = 2n / (r + √(r² + 2an))``.

        >>> ramp = Pieces([(0, 0), (10, 100)])
        >>> ramp.when(125), ramp.when(500), ramp.when(501)
        (5.0, 10.0, inf)
        """
        if count <= 0:
            return 0.0
        if count > self._sums[-1]:
            return math.inf
        index = bisect_left(self._sums, count) - 1
        begin, end, rate = self._times[index], self._times[index + 1], self._rates[index]
        bend, records = (self._rates[index + 1] - rate) / (end - begin), count - self._sums[index]
        root = math.sqrt(max(0.0, rate * rate + 2 * bend * records))
        return min(end, begin + 2 * records / (rate + root))

    def before(self, t: float) -> float:
        """Records/s just before ``t``: the limit from the left. 0 up to second 0 and after the end."""
        return self._interpolate(bisect_left(self._times, t) - 1, t) if 0 < t <= self.duration else 0.0

    def between(self, begin: float, end: float) -> Pieces:
        """The part from ``begin`` to ``end``, as a load that starts at second 0; 0 ≤ begin < end ≤ duration."""
        first, last = bisect_right(self._times, begin), bisect_left(self._times, end)
        inside = zip(self._times[first:last], self._rates[first:last], strict=True)
        middle = [(second - begin, rate) for second, rate in inside]
        return Pieces([(0.0, self.rate(begin)), *middle, (end - begin, self.before(end))])

    def pieces(self) -> Pieces:
        return self

    def _interpolate(self, index: int, t: float) -> float:
        begin, end = self._times[index], self._times[index + 1]
        share = (t - begin) / (end - begin)
        return self._rates[index] + share * (self._rates[index + 1] - self._rates[index])


def constant(rate: float, seconds: float) -> Pieces:
    return Pieces([(0, rate), (seconds, rate)])


def staircase(steps: Sequence[tuple[float, float]]) -> Pieces:
    """Levels one after the other, each ``(duration in seconds, records/s)``.

    >>> stairs = staircase([(10, 100), (20, 50)])
    >>> stairs.rate(9.9), stairs.rate(10), stairs.cumulative(30)
    (100.0, 50.0, 2000.0)
    """
    edges = accumulate((seconds for seconds, _ in steps), initial=0.0)
    return levels(list(edges), [rate for _, rate in steps])


def levels(edges: Sequence[float], rates: Sequence[float]) -> Pieces:
    """A level (records/s) between each edge (second) and the next."""
    return Pieces([(t, rate) for ends, rate in zip(pairwise(edges), rates, strict=True) for t in ends])


# Curves made of others


def add_curves(curves: Sequence[Pieces]) -> Pieces:
    """Straight lines at the same time, added; as long as the longest."""
    times = sorted({t for curve in curves for t, _ in curve.points})
    ends = [(t, sum(curve.before(t) for curve in curves)) for t in times[1:]]
    begins = [(t, sum(curve.rate(t) for curve in curves)) for t in times[:-1]]
    return Pieces([point for line in zip(begins, ends, strict=True) for point in line])


class Sequel:
    """Curves one after the other."""

    def __init__(self, curves: Sequence[RateCurve]) -> None:
        self._curves = tuple(curves)
        self._begins = list(accumulate((curve.duration for curve in curves), initial=0.0))
        self._sums = list(accumulate((curve.cumulative(curve.duration) for curve in curves), initial=0.0))
        self.duration = self._begins[-1]

    def rate(self, t: float) -> float:
        if not 0 <= t < self.duration:
            return 0.0
        index = bisect_right(self._begins, t) - 1
        return self._curves[index].rate(t - self._begins[index])

    def cumulative(self, t: float) -> float:
        if t <= 0:
            return 0.0
        if t >= self.duration:
            return self._sums[-1]
        index = bisect_right(self._begins, t) - 1
        inside = self._sums[index] + self._curves[index].cumulative(t - self._begins[index])
        return min(inside, self._sums[index + 1])

    def pieces(self) -> Pieces:
        curves = zip(self._begins, self._curves, strict=False)
        return Pieces([(begin + t, rate) for begin, curve in curves for t, rate in curve.pieces().points])


class Scaled:
    """A curve stretched in time and in height: ``rate(t) = rate_scale · curve.rate(t / time_scale)``.

    A time scale of 0.1 plays ten times faster at the same rates, so that a tenth of the records is offered.

    >>> half = Scaled(constant(100, 60), time_scale=0.1, rate_scale=2)
    >>> half.duration, half.rate(1), half.cumulative(6)
    (6.0, 200.0, 1200.0)
    """

    def __init__(self, curve: RateCurve, *, time_scale: float = 1.0, rate_scale: float = 1.0) -> None:
        self._curve = curve
        self._time, self._rate = time_scale, rate_scale
        self.duration = curve.duration * time_scale

    def rate(self, t: float) -> float:
        return self._rate * self._curve.rate(t / self._time)

    def cumulative(self, t: float) -> float:
        return self._rate * self._time * self._curve.cumulative(t / self._time)

    def pieces(self) -> Pieces:
        return Pieces([(t * self._time, rate * self._rate) for t, rate in self._curve.pieces().points])


class Cut:
    """The first ``seconds`` of a curve."""

    def __init__(self, curve: RateCurve, seconds: float) -> None:
        self._curve = curve
        self.duration = min(seconds, curve.duration)

    def rate(self, t: float) -> float:
        return self._curve.rate(t) if t < self.duration else 0.0

    def cumulative(self, t: float) -> float:
        return self._curve.cumulative(min(t, self.duration))

    def pieces(self) -> Pieces:
        return self._curve.pieces().between(0.0, self.duration)


# Smooth curves


@dataclass(frozen=True, slots=True)
class Sine:
    """A wave between two rates, from its trough.

    ``rate(t) = mid − amplitude · cos(2πt / period)`` and
    ``cumulative(t) = mid · t − amplitude · period / 2π · sin(2πt / period)``,
    with ``mid = (low + high) / 2`` and ``amplitude = (high − low) / 2``.
    """

    low: float
    high: float
    duration: float
    period: float

    def rate(self, t: float) -> float:
        return self._level(t) if 0 <= t < self.duration else 0.0

    def cumulative(self, t: float) -> float:
        t = min(max(t, 0.0), self.duration)
        wave = self.period / (2 * math.pi) * math.sin(2 * math.pi * t / self.period)
        return (self.low + self.high) / 2 * t - (self.high - self.low) / 2 * wave

    def pieces(self) -> Pieces:
        """At least 256 lines to a period: each within (2π/256)² / 8 = 0.0075 % of the amplitude."""
        return _draw_lines(self._level, 0.0, self.duration, self.duration, self.period / 256)

    def _level(self, t: float) -> float:
        return (self.low + self.high) / 2 - (self.high - self.low) / 2 * math.cos(2 * math.pi * t / self.period)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """A bell upon a base rate: ``rate(t) = base + (peak − base) · exp(−(t − at)² / (2 · width²))``."""

    base: float
    peak: float
    duration: float
    at: float
    width: float

    def rate(self, t: float) -> float:
        return self._level(t) if 0 <= t < self.duration else 0.0

    def cumulative(self, t: float) -> float:
        t = min(max(t, 0.0), self.duration)
        scale = self.width * math.sqrt(2)
        bell = self.width * math.sqrt(math.pi / 2) * (math.erf((t - self.at) / scale) - math.erf(-self.at / scale))
        return self.base * t + (self.peak - self.base) * bell

    def pieces(self) -> Pieces:
        """32 lines to a width, up to six widths away: each within (1/32)² / 8 = 0.012 % of the bell's height."""
        begin, end = max(0.0, self.at - 6 * self.width), min(self.duration, self.at + 6 * self.width)
        return _draw_lines(self._level, begin, end, self.duration, self.width / 32)

    def _level(self, t: float) -> float:
        return self.base + (self.peak - self.base) * math.exp(-(((t - self.at) / self.width) ** 2) / 2)


def _draw_lines(level: Callable[[float], float], begin: float, end: float, duration: float, step: float) -> Pieces:
    """Lines no longer than ``step`` from ``begin`` to ``end``, and one line on either side."""
    number = max(1, math.ceil((end - begin) / step))
    inner = (begin + (end - begin) * index / number for index in range(number))
    times = dict.fromkeys([0.0, *inner, end, duration])
    return Pieces([(t, level(t)) for t in times])
