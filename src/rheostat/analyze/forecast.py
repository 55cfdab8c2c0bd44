"""The workload of the next minute: a straight line through the last ten. S1, Workload Predictor.

A line is fitted to the arrival rates of the last ``back_s`` seconds and read every ``step_s`` seconds ahead, from one
step ahead up to the horizon. Rates below 0 are 0. Several topics have a line each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Point", "Rates", "ahead", "extended", "forecast"]

Rates = tuple[float, ...]
"""Records/s of each topic, in a fixed order."""

_MOST = 240
"""Points that a series has at most: two samples nearer than back ÷ 240 are one too many for a line."""


class Point(NamedTuple):
    """The arrival rates that were measured at a time."""

    at: float
    rates: Rates


def extended(series: tuple[Point, ...], point: Point, back_s: float) -> tuple[Point, ...]:
    """The series with one more point, and without what is older than ``back_s``.

    Time that runs backwards, or another number of topics, starts it anew. A point nearer to the last but one than
    ``back_s`` ÷ 240 takes the place of the last, so that the series is bounded however often one looks.

    >>> series = (Point(0.0, (1.0,)), Point(400.0, (2.0,)))
    >>> [each.at for each in extended(series, Point(700.0, (3.0,)), 600.0)]
    [400.0, 700.0]
    """
    if series and (point.at <= series[-1].at or len(point.rates) != len(series[-1].rates)):
        return (point,)
    if len(series) > 1 and point.at - series[-2].at < back_s / _MOST:
        return (*series[:-1], point)
    first = next((place for place, each in enumerate(series) if each.at >= point.at - back_s), len(series))
    return (*series[first:], point)


def ahead(horizon_s: float, step_s: float) -> tuple[float, ...]:
    """Seconds ahead that are looked at: step, 2 × step, … up to the horizon, which is met or passed by the last.

    >>> ahead(20.0, 5.0), ahead(12.0, 5.0)
    ((5.0, 10.0, 15.0, 20.0), (5.0, 10.0, 15.0))
    """
    return tuple(step_s * number for number in range(1, max(1, math.ceil(horizon_s / step_s - 1e-9)) + 1))


def forecast(series: Sequence[Point], times: Sequence[float], late_s: float = 0.0) -> tuple[Rates, ...]:
    """The rates so many seconds after the last point, one tuple for each of ``times``; none without a point.

    With one point, or all at the same time, the rates stay as they are.

    Args:
        series: what was measured, by ascending time.
        times: seconds after the last point.
        late_s: how much older than its point a rate is: half the window that it is the mean of [ours].

    >>> forecast([Point(0.0, (100.0,)), Point(10.0, (110.0,))], [10.0])
    ((120.0,),)
    >>> forecast([Point(0.0, (30.0,)), Point(10.0, (10.0,))], [10.0])
    ((0.0,),)
    """
    if not series:
        return ()
    now = series[-1].at
    offsets = [point.at - now for point in series]
    middle = math.fsum(offsets) / len(offsets)
    away = [offset - middle for offset in offsets]
    spread = math.fsum(each * each for each in away)
    lines = [_line(away, column, spread) for column in zip(*(point.rates for point in series), strict=True)]
    return tuple(tuple(max(0.0, mean + slope * (time + late_s - middle)) for mean, slope in lines) for time in times)


def _line(away: Sequence[float], rates: Sequence[float], spread: float) -> tuple[float, float]:
    """Mean and slope of the least-squares line; ``away``: times from their middle, ``spread``: Σ of their squares."""
    if spread == 0:
        return rates[-1], 0.0
    return math.fsum(rates) / len(rates), math.fsum(x * rate for x, rate in zip(away, rates, strict=True)) / spread
