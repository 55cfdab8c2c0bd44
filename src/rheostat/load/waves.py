"""Loads that are no straight lines: waves and bells, each with its integral in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from rheostat.load.curves import Pieces

__all__ = ["Gaussian", "Sine"]

_ROOT_2 = math.sqrt(2)


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
        """Records/s at ``t``."""
        if not 0 <= t < self.duration:
            return 0.0
        return self._level(t)

    def cumulative(self, t: float) -> float:
        """Records offered in [0, t]."""
        t = min(max(t, 0.0), self.duration)
        wave = self.period / (2 * math.pi) * math.sin(2 * math.pi * t / self.period)
        return (self.low + self.high) / 2 * t - (self.high - self.low) / 2 * wave

    def pieces(self) -> Pieces:
        """256 lines or a few more to a period: each within (2π/256)² / 8 = 0.0075 % of the amplitude."""
        return _lines(self._level, 0.0, self.duration, self.duration, self.period / 256)

    def _level(self, t: float) -> float:
        return (self.low + self.high) / 2 - (self.high - self.low) / 2 * math.cos(2 * math.pi * t / self.period)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """A bell upon a base rate.

    ``rate(t) = base + (peak − base) · exp(−(t − at)² / (2 · width²))``; its integral by the error function.
    """

    base: float
    peak: float
    duration: float
    at: float
    width: float

    def rate(self, t: float) -> float:
        """Records/s at ``t``."""
        if not 0 <= t < self.duration:
            return 0.0
        return self._level(t)

    def cumulative(self, t: float) -> float:
        """Records offered in [0, t]."""
        t = min(max(t, 0.0), self.duration)
        scale = self.width * _ROOT_2
        bell = self.width * math.sqrt(math.pi / 2) * (math.erf((t - self.at) / scale) - math.erf(-self.at / scale))
        return self.base * t + (self.peak - self.base) * bell

    def pieces(self) -> Pieces:
        """32 lines to a width, up to six widths away: each within (1/32)² / 8 = 0.012 % of the bell's height."""
        begin, end = max(0.0, self.at - 6 * self.width), min(self.duration, self.at + 6 * self.width)
        return _lines(self._level, begin, end, self.duration, self.width / 32)

    def _level(self, t: float) -> float:
        return self.base + (self.peak - self.base) * math.exp(-(((t - self.at) / self.width) ** 2) / 2)


def _lines(level: Callable[[float], float], begin: float, end: float, duration: float, step: float) -> Pieces:
    """Lines no longer than ``step`` from ``begin`` to ``end``, and one on either side of that."""
    number = max(1, math.ceil((end - begin) / step))
    inner = (begin + (end - begin) * index / number for index in range(number))
    times = dict.fromkeys([0.0, *inner, end, duration])
    return Pieces([(t, level(t)) for t in times])
