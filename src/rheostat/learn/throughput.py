"""The maximum sustainable throughput of n executors: MST = α·n^β − γ·ND. S2, section IV.C, equations (1) to (3).

The model is fitted to points. A point is the mean of the measurements of one *configuration*, a number of executors at
a distance. A measurement counts if the job was saturated and not reconfigured; the caller ensures that. At most
``most_points`` are kept, the oldest is dropped first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rheostat.errors import Fault, InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


class Saturated(NamedTuple):
    """A measurement of the job at its limit.

    Attributes:
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
        most_points: configurations that are kept.
        most_weight: most measurements that a point weighs; the mean forgets at this pace.
        alpha_only: MST = α·n whatever the points (MDL-NLUnaware of S2, section V).
        beta_from: configurations from which on β is fitted; S2 has 3, and fewer where distances do not matter.
        worst_condition: greatest condition number of a fit.
        noise: prior relative standard deviation of a measurement.
        prior: measurements that the prior weighs.
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
    """The point of a measurement's configuration; None: it is a new one."""
    return next((point for point in points if _is_same(point, measured, options)), None)


def add_measurement(points: Sequence[Point], measured: Saturated, options: FitOptions = DEFAULT) -> tuple[Point, ...]:
    """The points with one more measurement, by n and ND.

    Raises:
        InputError: the measurement is impossible, with every fault.
    """
    faults = _faults(measured)
    if faults:
        raise InputError(faults)
    old = configuration(points, measured, options)
    new = Point(measured.executors, measured.distance_ms, measured.throughput, at=measured.at)
    kept = [point for point in points if point is not old]
    if old is not None:
        new = _join(old, measured, options)
    elif len(kept) >= options.most_points:
        kept.remove(min(kept, key=lambda point: point.at))
    return tuple(sorted([*kept, new], key=lambda point: (point.executors, point.distance_ms)))


def point_faults(points: Sequence[Point]) -> list[Fault]:
    """Faults of impossible points; no point at all is one."""
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


def _is_same(point: Point, measured: Saturated, options: FitOptions) -> bool:
    apart = abs(point.distance_ms - measured.distance_ms)
    close = max(options.same_ms, options.same_share * max(point.distance_ms, measured.distance_ms))
    alike = abs(point.executors - measured.executors) <= 0.05 * min(point.executors, measured.executors)
    return alike and apart <= close


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


# ----------------------------------------------------------------------------------------------------------- the model

_BETA, _GAMMA = 1.0, 0.0
_SIGMAS = 2.0
_GRID = 33
_ROUNDS = 5
_STEP = 1 / _GRID
_BOUND = 1e-6
_RANK = 1e-9
_BOUNDED = "the best fit is at its bound"


@dataclass(frozen=True, slots=True)
class MstModel:
    """MST = α·n^β − γ·ND, with its error.

    Attributes:
        points: number of configurations.
        error: relative standard deviation of a measurement around the model.
        defaulted: the parameters that keep their default or lie on their bound, each with the reason.
        covariance: of (α, β, γ); zeros for those that were not fitted.
    """

    alpha: float
    beta: float = _BETA
    gamma: float = _GAMMA
    points: int = 1
    error: float = 0.0
    defaulted: tuple[str, ...] = ()
    covariance: tuple[tuple[float, float, float], ...] = ((0.0,) * 3,) * 3

    def mst(self, executors: float, distance_ms: float = 0.0) -> float:
        """Records/s that so many executors sustain, at least 0; at equal distance never less with more executors.

        >>> model = MstModel(alpha=60.0, beta=0.9, gamma=0.2)
        >>> round(model.mst(2, 20.0), 1), round(model.mst(3, 300.0), 1)
        (108.0, 101.3)
        """
        if executors <= 0:
            return 0.0
        return max(0.0, self.alpha * math.pow(executors, self.beta) - self.gamma * distance_ms)

    def needed(self, throughput: float, distance_ms: float = 0.0) -> float:
        """The least n, a real number ≥ 0, with MST(n, ND) ≥ throughput.

        >>> MstModel(alpha=100.0).needed(233.0)
        2.33
        """
        rate = throughput + self.gamma * distance_ms
        return math.pow(rate / self.alpha, 1 / self.beta) if rate > 0 else 0.0

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
        mst, wide = self.mst(executors, distance_ms), _SIGMAS * self.standard_error(executors, distance_ms)
        return max(0.0, mst - wide), mst + wide

    def standard_errors(self) -> tuple[float | None, float | None, float | None]:
        """Of α, β and γ; None for what was not fitted."""
        own = (self.covariance[place][place] for place in range(3))
        errors = [math.sqrt(each) if each > 0 else None for each in own]
        return errors[0], errors[1], errors[2]


def fit(points: Sequence[Point], options: FitOptions = DEFAULT) -> MstModel:
    """The model of one or more points.

    Raises:
        InputError: there is no point, or one of them is impossible.
    """
    faults = point_faults(points)
    if faults:
        raise InputError(faults)
    data = _Data.of(points)
    fitted = (_fit_form(data, form, options) for form in _list_forms(points, options))
    return _model(next(each for each in fitted if each is not None), data, points, options)


# ----------------------------------------------------------------------------------------------------- fit


class _Form(NamedTuple):
    """The parameters that are fitted beside α."""

    beta: bool
    gamma: bool


class _Data(NamedTuple):
    """The points as columns: n, ND, throughput, weight (measurements ÷ throughput²)."""

    n: Array
    distance: Array
    rate: Array
    weight: Array

    @classmethod
    def of(cls, points: Sequence[Point]) -> _Data:
        import numpy as np

        columns = [(each.executors, each.distance_ms, each.throughput, float(each.count)) for each in points]
        n, distance, rate, count = (np.array(column) for column in zip(*columns, strict=True))
        return cls(n, distance, rate, count / (rate * rate))


class _Fitted(NamedTuple):
    """The parameters.

    Attributes:
        free: places in (α, β, γ) of those that were fitted.
        bound: of those that are at a bound.
        inverse: (JᵀWJ)⁻¹ of the free ones.
    """

    alpha: float
    beta: float
    gamma: float
    free: tuple[int, ...]
    bound: frozenset[int]
    inverse: Array


def _list_forms(points: Sequence[Point], options: FitOptions) -> list[_Form]:
    """The forms to try, in order: equations (1), (3), (2), and β without γ where distances do not matter."""
    many = len(points)
    if many == 1 or options.alpha_only:
        return [_Form(beta=False, gamma=False)]
    forms = [_Form(beta=True, gamma=True)] if many >= 3 else [_Form(beta=False, gamma=True)]
    if many >= options.beta_from:
        forms.append(_Form(beta=True, gamma=False))
    return [*forms, _Form(beta=False, gamma=True), _Form(beta=False, gamma=False)]


def _fit_form(data: _Data, form: _Form, options: FitOptions) -> _Fitted | None:
    """The least-squares fit of this form; None where the points do not determine its parameters."""
    import numpy as np

    beta = _search_beta(data, form) if form.beta else _BETA
    alpha, gamma, _ = (float(each[0]) for each in _solve_linear(data, np.array([beta]), gamma=form.gamma))
    power = data.n**beta
    columns = np.stack([power, alpha * power * np.log(data.n), -data.distance], axis=1)
    wanted = [0, *([1] if form.beta else []), *([2] if form.gamma else [])]
    if _condition_number(columns[:, wanted], data) > options.worst_condition:
        return None
    at_bound = ([1] if beta >= 1 - _BOUND else []) + ([2] if gamma <= 0 else [])
    bound = frozenset(at_bound) & frozenset(wanted)
    free = tuple(each for each in wanted if each not in bound)
    scaled, lengths = _scale(columns[:, list(free)], data)
    inverse = np.linalg.inv(scaled.T @ scaled) / np.outer(lengths, lengths)
    return _Fitted(alpha, beta, gamma, free, bound, inverse)


def _search_beta(data: _Data, form: _Form) -> float:
    """β in (0, 1] with the least squares: a grid over all of it, then finer ones around the best."""
    import numpy as np

    low, high, best = _STEP, 1.0, 1.0
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _GRID)
        squares = _solve_linear(data, grid, gamma=form.gamma)[2]
        best, step = float(grid[np.argmin(squares)]), float(grid[1] - grid[0])
        low, high = max(_STEP, best - step), min(1.0, best + step)
    return best


def _solve_linear(data: _Data, betas: Array, *, gamma: bool) -> tuple[Array, Array, Array]:
    """α, γ ≥ 0 and the weighted squares for each β, in closed form."""
    import numpy as np

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


def _scale(columns: Array, data: _Data) -> tuple[Array, Array]:
    """The weighted derivatives, each column at unit length, and the lengths."""
    import numpy as np

    weighted = columns * np.sqrt(data.weight)[:, None]
    lengths = np.sqrt((weighted * weighted).sum(axis=0))
    return weighted / np.where(lengths > 0, lengths, 1.0), lengths


def _condition_number(columns: Array, data: _Data) -> float:
    """Greatest ÷ least singular value of the scaled derivatives; infinite below full rank."""
    import numpy as np

    if columns.shape[0] < columns.shape[1]:
        return math.inf
    values = np.linalg.svd(_scale(columns, data)[0], compute_uv=False)
    return math.inf if values[-1] <= _RANK * values[0] else float(values[0] / values[-1])


# --------------------------------------------------------------------------------------------------- model


def _model(best: _Fitted, data: _Data, points: Sequence[Point], options: FitOptions) -> MstModel:
    off = (data.rate - best.alpha * data.n**best.beta + best.gamma * data.distance) ** 2
    between = float((data.weight * off).sum())
    within = sum(point.scatter for point in points)
    left = sum(point.count for point in points) - len(best.free)
    variance = (options.prior * options.noise**2 + between + within) / (options.prior + left)
    covariance = [[0.0] * 3 for _ in range(3)]
    for row, first in enumerate(best.free):
        for column, second in enumerate(best.free):
            covariance[first][second] = variance * float(best.inverse[row, column])
    return MstModel(
        alpha=best.alpha,
        beta=best.beta,
        gamma=best.gamma,
        points=len(points),
        error=math.sqrt(variance),
        defaulted=_explain_defaults(best, points, options),
        covariance=tuple((row[0], row[1], row[2]) for row in covariance),
    )


def _explain_defaults(best: _Fitted, points: Sequence[Point], options: FitOptions) -> tuple[str, ...]:
    reasons = []
    if 1 not in best.free:
        reasons.append(f"β = {best.beta:g}: {_BOUNDED if 1 in best.bound else _explain_beta(points, options)}")
    if 2 not in best.free:
        reasons.append(f"γ = {best.gamma:g}: {_BOUNDED if 2 in best.bound else _explain_gamma(points, options)}")
    return tuple(reasons)


def _explain_beta(points: Sequence[Point], options: FitOptions) -> str:
    if options.alpha_only:
        return "by choice"
    if len(points) == 1:
        return "1 configuration, too few for it"
    if len({point.executors for point in points}) == 1:
        return "all configurations have the same number of executors"
    if len(points) < max(3, options.beta_from):
        return f"{len(points)} configurations, too few for all three"
    return "the configurations tell it too badly"


def _explain_gamma(points: Sequence[Point], options: FitOptions) -> str:
    if options.alpha_only:
        return "by choice"
    distances = {point.distance_ms for point in points}
    if len(points) == 1:
        return "1 configuration, too few for it"
    if distances == {0.0}:
        return "no distances"
    if len(distances) == 1:
        return "all configurations have the same distance"
    shares = [point.distance_ms / point.executors for point in points]
    if max(shares) - min(shares) <= 1e-6 * max(shares):
        return "distance is in proportion to executors"
    return "the configurations tell it too badly"
