"""The maximum sustainable throughput of n executors: MST = α·n^β − γ·ND. S2, section IV.C, equations (1) to (3).

The model is fitted to points. A point is the mean of the measurements of one *configuration*, a number of executors at
a distance. A measurement counts if the job was saturated and not reconfigured; the caller ensures that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rheostat.errors import Fault, InputError

Array = npt.NDArray[np.float64]

_SIGMAS = 2.0
_NOISE, _PRIOR = 0.05, 4.0
"""Prior relative standard deviation of a measurement, and the measurements that it weighs."""
_SAME_MS, _SAME_SHARE = 2.0, 0.1
"""Distances that differ by no more than the greater of both are the same configuration."""
_BETA, _GAMMA = 1, 2
"""Places in (α, β, γ)."""
_GRID = 33
_ROUNDS = 5
_LEAST_BETA = 1 / _GRID
_BOUND = 1e-6
_RANK = 1e-9
_BOUNDED = "the best fit is at its bound"


class Saturated(NamedTuple):
    """A measurement of the job at its limit.

    Attributes:
        at: seconds.
        executors: that processed it; a share of them where several queries run on the same ones.
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
        count: measurements that weigh in it.
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
    """Options of the fit.

    Attributes:
        most_points: configurations that are kept; the oldest is dropped first.
        most_weight: most measurements that a point weighs; the mean forgets at this pace.
        alpha_only: MST = α·n whatever the points (MDL-NLUnaware of S2, section V).
        beta_from: configurations from which on β is fitted; S2 has 3, and fewer where distances do not matter.
        worst_condition: greatest condition number of a fit.
    """

    most_points: int = 24
    most_weight: int = 20
    alpha_only: bool = False
    beta_from: int = 2
    worst_condition: float = 30.0


DEFAULT = FitOptions()


# ------------------------------------------------------------------------------------------------------ measurements


def configuration(points: Sequence[Point], measured: Saturated) -> Point | None:
    """The point of a measurement's configuration; None: it is a new one."""
    for point in points:
        fewest, longest = min(point.executors, measured.executors), max(point.distance_ms, measured.distance_ms)
        same_number = abs(point.executors - measured.executors) <= 0.05 * fewest
        near = max(_SAME_MS, _SAME_SHARE * longest)
        if same_number and abs(point.distance_ms - measured.distance_ms) <= near:
            return point
    return None


def add_measurement(points: Sequence[Point], measured: Saturated, options: FitOptions = DEFAULT) -> tuple[Point, ...]:
    """The points with one more measurement, by n and ND.

    Raises:
        InputError: the measurement is impossible, with every fault.
    """
    faults = _find_faults(measured)
    if faults:
        raise InputError(faults)
    old = configuration(points, measured)
    kept = [point for point in points if point is not old]
    if old is not None:
        new = _join(old, measured, options)
    else:
        new = Point(measured.executors, measured.distance_ms, measured.throughput, at=measured.at)
        if len(kept) >= options.most_points:
            kept.remove(min(kept, key=lambda point: point.at))
    return tuple(sorted([*kept, new], key=lambda point: (point.executors, point.distance_ms)))


def _find_faults(measured: Saturated) -> list[Fault]:
    allowed = {"at": "finite", "executors": "> 0", "distance_ms": "≥ 0", "throughput": "> 0"}
    return [
        Fault(name, str(value), allowed[name], "a measurement of a saturated job cannot have it")
        for name, value in measured._asdict().items()
        if not math.isfinite(value) or (allowed[name] == "> 0" and value <= 0) or (allowed[name] == "≥ 0" and value < 0)
    ]


def _join(old: Point, measured: Saturated, options: FitOptions) -> Point:
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


# --------------------------------------------------------------------------------------------------------- the model


@dataclass(frozen=True, slots=True)
class MstModel:
    """MST = α·n^β − γ·ND, with its error.

    Attributes:
        points: number of configurations.
        error: relative standard deviation of a measurement around the model.
        defaulted: the parameters that keep their default or lie on their bound, each with the reason.
        covariance: of (α, β, γ); zeros for those that were not fitted.
        farthest_ms: greatest ND for which γ says something, a longer one counts as this; None: every one.
    """

    alpha: float
    beta: float = 1.0
    gamma: float = 0.0
    points: int = 1
    error: float = 0.0
    defaulted: tuple[str, ...] = ()
    covariance: tuple[tuple[float, float, float], ...] = ((0.0,) * 3,) * 3
    farthest_ms: float | None = None

    def mst(self, executors: float, distance_ms: float = 0.0) -> float:
        """Records/s that so many executors sustain, at least 0; at equal distance never less with more executors.

        >>> model = MstModel(alpha=60.0, beta=0.9, gamma=0.2)
        >>> round(model.mst(2, 20.0), 1), round(model.mst(3, 300.0), 1)
        (108.0, 101.3)
        """
        if executors <= 0:
            return 0.0
        return max(0.0, self.alpha * math.pow(executors, self.beta) - self._loss(distance_ms))

    def needed(self, throughput: float, distance_ms: float = 0.0) -> float:
        """The least n, a real number ≥ 0, with MST(n, ND) ≥ throughput.

        >>> MstModel(alpha=100.0).needed(233.0)
        2.33
        """
        rate = throughput + self._loss(distance_ms)
        return math.pow(rate / self.alpha, 1 / self.beta) if rate > 0 else 0.0

    def _loss(self, distance_ms: float) -> float:
        return self.gamma * (distance_ms if self.farthest_ms is None else min(distance_ms, self.farthest_ms))

    def standard_error(self, executors: float, distance_ms: float = 0.0) -> float:
        """Of MST(n, ND), records/s, from the parameters that were fitted."""
        if executors <= 0:
            return 0.0
        power = math.pow(executors, self.beta)
        by = (power, self.alpha * power * math.log(executors), -distance_ms)
        pairs = zip(by, self.covariance, strict=True)
        variance = sum(a * b * c for a, row in pairs for b, c in zip(by, row, strict=True))
        return math.sqrt(max(0.0, variance))

    def interval(self, executors: float, distance_ms: float = 0.0) -> tuple[float, float]:
        """MST ± two standard errors, records/s, at least 0."""
        mst, width = self.mst(executors, distance_ms), _SIGMAS * self.standard_error(executors, distance_ms)
        return max(0.0, mst - width), mst + width


def fit(points: Sequence[Point], options: FitOptions = DEFAULT) -> MstModel:
    """Fit the model to one or more points. Raises InputError: there is no point, or one of them is impossible."""
    means = [Saturated(each.at, each.executors, each.distance_ms, each.throughput) for each in points]
    faults = [fault for mean in means for fault in _find_faults(mean)]
    if not points:
        faults.append(Fault("points", "none", "at least one", "nothing can be fitted to no measurement"))
    if faults:
        raise InputError(faults)
    fits = (
        [model for places in forms if (model := _fit_parameters(points, places, options)) is not None]
        for forms in _list_forms(len(points), options)
    )
    return min(next(models for models in fits if models), key=lambda model: model.error)


def _list_forms(count: int, options: FitOptions) -> list[list[tuple[int, ...]]]:
    """Places in (α, β, γ) to fit, in the order to try; of those of one length, the one with the least error counts.

    Equations (1), (3), (2), and β without γ.
    """
    if count == 1 or options.alpha_only:
        return [[(0,)]]
    three: list[tuple[int, ...]] = [(0, _BETA, _GAMMA)] if count >= 3 else []
    two: list[tuple[int, ...]] = [(0, _GAMMA), (0, _BETA)] if count >= options.beta_from else [(0, _GAMMA)]
    return [three, two, [(0,)]]


class _Data(NamedTuple):
    """The points as columns: n, ND, throughput, weight (measurements ÷ throughput²)."""

    n: Array
    distance: Array
    rate: Array
    weight: Array


def _fit_parameters(points: Sequence[Point], places: tuple[int, ...], options: FitOptions) -> MstModel | None:
    """The least-squares fit of the parameters at these places; None where the points do not determine them."""
    rows = [(each.executors, each.distance_ms, each.throughput, float(each.count)) for each in points]
    n, distance, rate, count = np.array(rows).T
    data = _Data(n, distance, rate, count / (rate * rate))
    beta = _search_beta(data, gamma=_GAMMA in places) if _BETA in places else 1.0
    alpha, gamma, squares = (float(each[0]) for each in _solve_linear(data, np.array([beta]), gamma=_GAMMA in places))
    power = n**beta
    derivatives = np.stack([power, alpha * power * np.log(n), -distance], axis=1) * np.sqrt(data.weight)[:, None]
    lengths = np.linalg.norm(derivatives, axis=0)
    scaled = derivatives / np.where(lengths > 0, lengths, 1.0)
    if _condition_number(scaled[:, places]) > options.worst_condition:
        return None
    at_bound = ((_BETA, beta >= 1 - _BOUND), (_GAMMA, gamma <= 0))
    bound = [place for place, is_at_bound in at_bound if is_at_bound and place in places]
    free = [place for place in places if place not in bound]
    variance = _PRIOR * _NOISE**2 + squares + sum(point.scatter for point in points)
    variance /= _PRIOR + sum(point.count for point in points) - len(free)
    covariance = np.zeros((3, 3))
    inverse = np.linalg.inv(scaled[:, free].T @ scaled[:, free])
    covariance[np.ix_(free, free)] = variance * inverse / np.outer(lengths[free], lengths[free])
    defaulted = [
        f"{name} = {value:g}: {_BOUNDED if place in bound else _explain_default(place, points, options)}"
        for place, name, value in ((_BETA, "β", beta), (_GAMMA, "γ", gamma))
        if place not in free
    ]
    return MstModel(
        alpha=alpha,
        beta=beta,
        gamma=gamma,
        points=len(points),
        error=math.sqrt(variance),
        defaulted=tuple(defaulted),
        covariance=tuple((row[0], row[1], row[2]) for row in covariance.tolist()),
    )


def _search_beta(data: _Data, *, gamma: bool) -> float:
    """β in (0, 1] with the least squares: a grid over all of it, then finer ones around the best."""
    low, high, best = _LEAST_BETA, 1.0, 1.0
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _GRID)
        squares = _solve_linear(data, grid, gamma=gamma)[2]
        best, step = float(grid[np.argmin(squares)]), float(grid[1] - grid[0])
        low, high = max(_LEAST_BETA, best - step), min(1.0, best + step)
    return best


def _solve_linear(data: _Data, betas: Array, *, gamma: bool) -> tuple[Array, Array, Array]:
    """α, γ ≥ 0 and the weighted squares for each β, in closed form."""
    power = data.n[None, :] ** betas[:, None]
    weight, distance, rate = data.weight[None, :], data.distance[None, :], data.rate[None, :]
    aa, ay = (weight * power * power).sum(axis=1), (weight * power * rate).sum(axis=1)
    gammas = np.zeros_like(aa)
    if gamma:
        ag, gg = (weight * power * distance).sum(axis=1), (weight * distance * distance).sum(axis=1)
        gy = (weight * distance * rate).sum(axis=1)
        determinant = aa * gg - ag * ag
        sound = determinant > _RANK * aa * gg
        gammas = np.where(sound, (ag * ay - aa * gy) / np.where(sound, determinant, 1.0), 0.0)
        gammas = np.maximum(gammas, 0.0)
        ay = ay + gammas * ag
    alphas = ay / aa
    off = rate - alphas[:, None] * power + gammas[:, None] * distance
    return alphas, gammas, (weight * off * off).sum(axis=1)


def _condition_number(columns: Array) -> float:
    """Greatest ÷ least singular value; infinite below full rank."""
    if columns.shape[0] < columns.shape[1]:
        return math.inf
    values = np.linalg.svd(columns, compute_uv=False)
    return math.inf if values[-1] <= _RANK * values[0] else float(values[0] / values[-1])


def _explain_default(place: int, points: Sequence[Point], options: FitOptions) -> str:
    distances = {point.distance_ms for point in points}
    ratios = [point.distance_ms / point.executors for point in points]
    if options.alpha_only:
        return "by choice"
    if len(points) == 1:
        return "1 configuration, too few for it"
    if place == _BETA and len({point.executors for point in points}) == 1:
        return "all configurations have the same number of executors"
    if place == _BETA and len(points) < max(3, options.beta_from):
        return f"{len(points)} configurations, too few for all three"
    if place == _GAMMA and distances == {0.0}:
        return "no distances"
    if place == _GAMMA and len(distances) == 1:
        return "all configurations have the same distance"
    if place == _GAMMA and max(ratios) - min(ratios) <= 1e-6 * max(ratios):
        return "distance is in proportion to executors"
    return "the configurations do not determine it well enough"
