"""A figure with its interval, and whether it was measured at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Estimate", "median_interval", "median_of", "not_told", "told"]

_RESAMPLES = 500

Interval = tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure of the job file.

    Attributes:
        key: dotted, as in the file.
        value: what stands in the file.
        interval: 95 %; None: none.
        n: measurements behind it.
        told: whether the runs tell it; False: it is the default, or 0 where the file has none.
        why: how it was found, or why not.
    """

    key: str
    value: float
    unit: str
    interval: tuple[float, float] | None
    n: int
    told: bool
    why: str

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        interval = None if self.interval is None else list(self.interval)
        figures = {"key": self.key, "value": self.value, "unit": self.unit, "interval": interval, "n": self.n}
        return {**figures, "identified": self.told, "why": self.why}


def told(key: str, value: float, unit: str, n: int, why: str, *, interval: Interval = None) -> Estimate:
    """A figure that the runs tell."""
    return Estimate(key, value, unit, interval, n, told=True, why=why)


def not_told(key: str, value: float, unit: str, n: int, why: str, *, interval: Interval = None) -> Estimate:
    """A default, and why it had to be taken."""
    return Estimate(key, value, unit, interval, n, told=False, why=why)


def median_of(key: str, samples: Sequence[float], unit: str, why: str) -> Estimate:
    """The median of at least one sample."""
    value = float(np.median(samples))
    return told(key, value, unit, len(samples), why, interval=median_interval(samples))


def median_interval(samples: Sequence[float]) -> Interval:
    """The 95 % percentile interval of the median, by seeded resampling; None under three samples."""
    if len(samples) < 3:
        return None
    random = np.random.default_rng(1)
    found = np.median(random.choice(np.array(samples), (_RESAMPLES, len(samples))), axis=1)
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)
