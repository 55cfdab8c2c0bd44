"""Measurements of a job at its limit, and the points that a model of its throughput is fitted to (S2, section IV.C).

A measurement counts if it was saturated and no reconfiguration lies in it; who measures sees to that. Those of one
*configuration*, so many executors at such a distance, make one point. At most ``most_points`` are kept, the oldest
goes first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rheostat.errors import Fault, InputError

__all__ = ["DEFAULT", "FitOptions", "Point", "Saturated", "added", "configuration", "point_faults"]


class Saturated(NamedTuple):
    """A measurement of the job at its limit.

    Attributes:
        executors: how many processed it; a share of them where several queries run on the same ones.
        distance_ms: ND, the greatest round trip among their nodes, ms.
        throughput: records/s.
    """

    at: float
    executors: float
    distance_ms: float
    throughput: float


@dataclass(frozen=True, slots=True)
class Point:
    """The measurements of one configuration.

    Attributes:
        throughput: their mean, records/s, in which the past weighs at most ``most_weight`` measurements.
        count: how many weigh in it.
        scatter: sum of their squared relative deviations from the mean.
        at: time of the newest.
    """

    executors: float
    distance_ms: float
    throughput: float
    count: int = 1
    scatter: float = 0.0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class FitOptions:
    """How the model is fitted.

    Attributes:
        most_points: configurations that are kept.
        most_weight: measurements that a point counts for at most; the mean forgets at this pace.
        alpha_only: MST = α·n whatever the points (MDL-NLUnaware of S2, section V).
        beta_from: configurations from which on β is fitted; S2 has 3, and less where no distance says anything.
        worst_condition: greatest condition number of what is fitted.
        noise: relative standard deviation of one measurement, before anything is known of it.
        prior: measurements that this counts for.
        same_ms, same_share: distances that differ by no more than the greater of both are the same configuration.
    """

    most_points: int = 24
    most_weight: int = 20
    alpha_only: bool = False
    beta_from: int = 2
    worst_condition: float = 30.0
    noise: float = 0.05
    prior: float = 4.0
    same_ms: float = 2.0
    same_share: float = 0.1


DEFAULT = FitOptions()


def configuration(points: Sequence[Point], measured: Saturated, options: FitOptions = DEFAULT) -> Point | None:
    """The point whose configuration a measurement belongs to; None: it is a new one."""
    return next((point for point in points if _same(point, measured, options)), None)


def added(points: Sequence[Point], measured: Saturated, options: FitOptions = DEFAULT) -> tuple[Point, ...]:
    """The points with one more measurement, by n and ND.

    Raises:
        InputError: the measurement is impossible: every fault of it.
    """
    faults = _faults(measured)
    if faults:
        raise InputError(faults)
    old = configuration(points, measured, options)
    new = Point(measured.executors, measured.distance_ms, measured.throughput, at=measured.at)
    kept = [point for point in points if point is not old]
    if old is not None:
        new = _joined(old, measured, options)
    elif len(kept) >= options.most_points:
        kept.remove(min(kept, key=lambda point: point.at))
    return tuple(sorted([*kept, new], key=lambda point: (point.executors, point.distance_ms)))


def point_faults(points: Sequence[Point]) -> list[Fault]:
    """What of the points is impossible, and that there are none."""
    if not points:
        return [Fault("points", "none", "at least one", "nothing can be fitted to no measurement")]
    means = [Saturated(point.at, point.executors, point.distance_ms, point.throughput) for point in points]
    return [fault for mean in means for fault in _faults(mean)]


def _faults(measured: Saturated) -> list[Fault]:
    least = {"executors": 0.0, "throughput": 0.0}
    faults = []
    for name, value in measured._asdict().items():
        if not math.isfinite(value) or (name != "at" and value < 0) or value <= least.get(name, -math.inf):
            allowed = "finite" if name == "at" else "> 0" if name in least else "≥ 0"
            faults.append(Fault(name, str(value), allowed, "a measurement of a saturated job cannot have it"))
    return faults


def _same(point: Point, measured: Saturated, options: FitOptions) -> bool:
    apart = abs(point.distance_ms - measured.distance_ms)
    close = max(options.same_ms, options.same_share * max(point.distance_ms, measured.distance_ms))
    alike = abs(point.executors - measured.executors) <= 0.05 * min(point.executors, measured.executors)
    return alike and apart <= close


def _joined(old: Point, measured: Saturated, options: FitOptions) -> Point:
    """The running mean and scatter (B. P. Welford, 1962), in which the past weighs no more than allowed."""
    keeps = min(1.0, (options.most_weight - 1) / old.count)
    before = old.count * keeps
    share = 1 / (before + 1)
    mean = old.throughput + share * (measured.throughput - old.throughput)
    off = (measured.throughput - old.throughput) * (measured.throughput - mean) / (mean * mean)
    return Point(
        executors=old.executors + share * (measured.executors - old.executors),
        distance_ms=old.distance_ms + share * (measured.distance_ms - old.distance_ms),
        throughput=mean,
        count=round(before) + 1,
        scatter=old.scatter * keeps + off,
        at=max(old.at, measured.at),
    )
