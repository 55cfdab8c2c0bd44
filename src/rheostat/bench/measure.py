"""What benchmarks share: figures with their uncertainty and target, and what machine they were taken on."""

from __future__ import annotations

import math
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["SCHEMA", "Bench", "Metric", "Watch", "bootstrap_interval", "machine", "metric", "unwatched"]

Watch = Callable[[int, int, str], None]
"""Told how far a benchmark is: how many, of how many (0: not known), and what it does."""


def unwatched(_done: int, _total: int, _words: str) -> None:
    """A :data:`Watch` that looks away."""


SCHEMA = "rheostat.bench/1"
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure.

    Attributes:
        value: None where it was not measured, or not resolved.
        n: measurements behind it.
        ci95: 95 % interval of the value, by bootstrap; None without one.
        target: the greatest value that is good enough; None: only reported.
        judged: what is held against the target; the value, unless an end of the interval is meant.
    """

    name: str
    value: float | None
    unit: str
    n: int
    ci95: tuple[float, float] | None = None
    target: float | None = None
    judged: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        held = self.value if self.judged is None else self.judged
        return held is not None and math.isfinite(held) and held <= self.target

    def to_json(self) -> dict[str, Any]:
        """In the shape of ``rheostat.bench/1``."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "n": self.n,
            "ci95": None if self.ci95 is None else list(self.ci95),
            "target": self.target,
            "met": self.met,
        }


@dataclass(frozen=True, slots=True)
class Bench:
    """A benchmark's result. ``notes`` say what was done and what must be known to judge it."""

    name: str
    metrics: Sequence[Metric]
    notes: Sequence[str] = field(default_factory=tuple)

    def to_json(self) -> dict[str, Any]:
        """In the shape of ``rheostat.bench/1``."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "machine": machine(),
            "metrics": [metric.to_json() for metric in self.metrics],
            "notes": list(self.notes),
        }


def metric(
    name: str,
    samples: Sequence[float],
    unit: str,
    statistic: Callable[[npt.NDArray[np.float64]], float] = lambda values: float(np.median(values)),
    target: float | None = None,
) -> Metric:
    """A statistic of measurements with its interval; not measured without any."""
    values = np.asarray(samples, dtype=np.float64)
    if not values.size:
        return Metric(name, None, unit, 0, target=target)
    return Metric(name, statistic(values), unit, int(values.size), bootstrap_interval(values, statistic), target)


def bootstrap_interval(
    values: npt.NDArray[np.float64], statistic: Callable[[npt.NDArray[np.float64]], float]
) -> tuple[float, float] | None:
    """The 95 % percentile interval of a statistic, seeded; None under three values."""
    if values.size < 3:
        return None
    random = np.random.default_rng(1)
    found = [statistic(random.choice(values, values.size)) for _ in range(_RESAMPLES)]
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)


def machine() -> str:
    """The machine in a line: processor, cores, memory, system, Python."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    python = ".".join(map(str, sys.version_info[:3]))
    return f"{_processor()}, {os.cpu_count()} cores, {pages:.0f} GiB, {platform.system()}, Python {python}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
