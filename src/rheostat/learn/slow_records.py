"""Slow records as a function of load and executors: f(workload, n). S1 Algorithms 3 and 4, corrected.

A polynomial of (load, executors) is fitted to samples by least squares; the load is the sum of the topics' rates, each
weighted by the cost of its records. From the polynomial a table is made that is monotone everywhere: non-decreasing in
the load, non-increasing in executors. Where samples lie, the table is the monotone function with the least greatest
distance from the polynomial: half of the largest value at easier points (less load, more executors) plus half of the
smallest value at harder ones (V. A. Ubhaya, "Isotone optimization I", 1974). From there it bounds the values where no
samples lie: no less than at any easier point, no more than at any harder one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement, groupby, pairwise
from math import comb, inf, isfinite
from operator import itemgetter
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from rheostat.errors import Fault, InputError

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Points = Sequence[tuple[Sequence[float], int]]
"""Workload of each topic, and executors."""


# ---------------------------------------------------------------------------------------------------------------- rows

MOST_WORKLOAD = 1e15
"""Records/s of a topic; more is an error of the measurement."""
MOST_SLOW = 1e9
"""Backlog ÷ records of an interval; more is an error of the measurement."""
MOST_EXECUTORS = 1_000_000


class Sample(NamedTuple):
    """One sample of a job.

    Attributes:
        at: seconds.
        workload: records/s of each topic, always in the same order; one entry: their sum.
        executors: at least 1.
        slow: share of slow records, at least 0; above 1 when the backlog is more than one interval brings.
    """

    at: float
    workload: tuple[float, ...]
    executors: int
    slow: float


def in_order(samples: Sequence[Sample], least: int) -> list[Sample]:
    """The samples by time; duplicates count once.

    Raises:
        InputError: an impossible value, workloads of unequal length, fewer than ``least`` different samples. Each
            fault is reported once, with the first row that has it and the number of such rows.
    """
    faults = [fault for fault in _value_faults(samples) if fault is not None]
    if faults:
        raise InputError(faults)
    rows = sorted(set(samples))
    if len(rows) < least:
        message = "there is too little to learn from; collect more samples"
        raise InputError([Fault("samples", str(len(rows)), f">= {least} different ones", message)])
    return rows


def _value_faults(samples: Sequence[Sample]) -> Iterator[Fault | None]:
    topics = len(samples[0].workload) if samples else 0
    endless = [(row, s.at) for row, s in enumerate(samples) if not isfinite(s.at)]
    yield _fault("at", "a finite number of seconds", endless)
    unequal = [(row, s.workload) for row, s in enumerate(samples) if not s.workload or len(s.workload) != topics]
    yield _fault("workload", f"as many topics as in row 0 ({topics}), at least one", unequal)
    loads = [(row, w) for row, s in enumerate(samples) for w in s.workload if not 0 <= w <= MOST_WORKLOAD]
    yield _fault("workload", f"0 … {MOST_WORKLOAD:g} records/s", loads)
    numbers = [(row, s.executors) for row, s in enumerate(samples) if not _is_number_of_executors(s.executors)]
    yield _fault("executors", f"a whole number, 1 … {MOST_EXECUTORS}", numbers)
    shares = [(row, s.slow) for row, s in enumerate(samples) if not 0 <= s.slow <= MOST_SLOW]
    yield _fault("slow", f"0 … {MOST_SLOW:g}", shares)


def _is_number_of_executors(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MOST_EXECUTORS


def _fault(name: str, allowed: str, wrong: Sequence[tuple[int, object]]) -> Fault | None:
    if not wrong:
        return None
    row, given = wrong[0]
    rows = len({number for number, _ in wrong})
    return Fault(f"samples[{row}].{name}", str(given), allowed, f"impossible value; rows like it: {rows}")


# -------------------------------------------------------------------------------------- training: degree and stability

_LEAST_ROWS = 20
_LEAST_BLOCKS = 5
_ROWS_A_COLUMN = 2
_WORTH = 0.98
"""Costs of topics are used if they leave less than this share of the error on blocks left out."""


@dataclass(frozen=True)
class TrainingOptions:
    """Options of the training.

    Attributes:
        degrees: candidates for that of the polynomial.
        resamples: k, of the stability check.
        block: rows in a block of neighbours; fewer where there would not be five blocks.
        folds: of the cross-validation.
        stability_limit: λ: the mean standard deviation of refits, a share of slow records, up to which a model is
            stable. 0.03 is the largest at which at most one model in twenty that passes errs much more than the best
            one on blocks left out (``rheostat bench train``).
        objective: the share of slow records at which the objective is violated.
        seed: of the resamples.
        outliers: whether outliers are left out.
    """

    degrees: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8)
    resamples: int = 250
    block: int = 30
    folds: int = 5
    stability_limit: float = 0.03
    objective: float = 0.1
    seed: int = 0
    outliers: bool = True

    def __post_init__(self) -> None:
        checks = (
            ("degrees", self.degrees, bool(self.degrees) and all(1 <= d <= 12 for d in self.degrees), "1 … 12"),
            ("resamples", self.resamples, self.resamples >= 2, ">= 2"),
            ("block", self.block, self.block >= 1, ">= 1"),
            ("folds", self.folds, self.folds >= 2, ">= 2"),
            ("stability_limit", self.stability_limit, self.stability_limit > 0, "> 0"),
            ("objective", self.objective, 0 < self.objective < inf, "> 0"),
            ("seed", self.seed, self.seed >= 0, ">= 0"),
        )
        wrong = "it is out of range"
        faults = [Fault(name, str(given), allowed, wrong) for name, given, ok, allowed in checks if not ok]
        if faults:
            raise InputError(faults)


@dataclass(frozen=True)
class Trained:
    """A model, and how it was chosen.

    Attributes:
        degree: of its polynomial: that with the least error.
        cv_errors: (degree, root mean square error of blocked cross-validation) of each degree that was tried; degrees
            with more monomials than half of the rows are not.
        left_out: the outliers, numbered by time.
        rows: distinct samples.
    """

    model: SlowModel
    degree: int
    cv_errors: tuple[tuple[int, float], ...]
    left_out: tuple[int, ...]
    rows: int

    @property
    def outliers(self) -> int:
        """Number of rows left out."""
        return len(self.left_out)


def train(samples: Sequence[Sample], w_max: float | None, options: TrainingOptions | None = None) -> Trained:
    """Train a model on samples. The same samples, in any order, give the same model.

    Args:
        samples: workloads, executors and shares of slow records.
        w_max: records/s that one executor carries; None: not known.
        options: None: the defaults.

    Raises:
        InputError: fewer than 20 distinct samples, or impossible values.
    """
    options = options or TrainingOptions()
    if w_max is not None and not (isfinite(w_max) and w_max > 0):
        raise InputError([Fault("w_max", str(w_max), "a positive, finite rate, or none", "it is out of range")])
    rows = in_order(samples, _LEAST_ROWS)
    left_out = find_outliers(rows, options.objective) if options.outliers else ()
    kept = _without(rows, left_out)
    alike = _search(kept, (1.0,) * len(kept[0].workload), options)
    apart = _search(kept, record_costs(kept), options) if len(alike.costs) > 1 else alike
    best = apart if apart.error < _WORTH * alike.error else alike
    model = SlowModel(
        polynomial=best.polynomial,
        costs=best.costs,
        seen=spans(best.points[:, 0].tolist(), [sample.executors for sample in kept]),
        w_max=w_max,
        top=max(sample.slow for sample in kept),
        objective=options.objective,
    )
    return Trained(model, best.polynomial.degree, best.cv_errors, left_out, len(rows))


class _Fit(NamedTuple):
    costs: tuple[float, ...]
    points: Array
    cv_errors: tuple[tuple[int, float], ...]
    polynomial: Polynomial

    @property
    def error(self) -> float:
        return min(error for _, error in self.cv_errors)


def _search(rows: Sequence[Sample], costs: tuple[float, ...], options: TrainingOptions) -> _Fit:
    """The best degree with these costs, fitted to all rows."""
    points, slow = _arrays(rows, costs)
    degrees = _choose_degrees(options.degrees, len(rows))
    basis, values = orthonormal(points, max(degrees))
    blocks = Blocks.of(values, slow, _block_length(options, len(rows)))
    errors = blocks.errors(values, slow, [columns(2, degree) for degree in degrees], options.folds)
    degree = min(zip(errors, degrees, strict=True))[1]
    weights = np.einsum("rc,r->c", values[:, : columns(2, degree)], slow)
    return _Fit(costs, points, tuple(zip(degrees, errors, strict=True)), basis.polynomial(degree, weights))


class Refits(NamedTuple):
    """Models of resampled blocks.

    Attributes:
        basis, weights: the polynomials, (k, columns).
        costs: of a record of each topic.
        numbers: of executors in the samples.
    """

    basis: Basis
    weights: Array
    costs: tuple[float, ...]
    numbers: frozenset[int]

    def deviation(self, points: Points) -> float:
        """Their standard deviation at each point, then its mean; at least 0, a share of slow records.

        Points at numbers of executors without samples do not count, since the model does not use the polynomial
        there. 0 without a point that counts.
        """
        asked = [Sample(0.0, tuple(workload), n, 0.0) for workload, n in points if n in self.numbers]
        if not asked:
            return 0.0
        apart = self.weights - self.weights.mean(axis=0)
        spread = np.einsum("ki,kj->ij", apart, apart) / len(apart)
        at_points = self.basis.at(_arrays(asked, self.costs)[0], self.basis.degree)
        variances = np.einsum("pi,pi->p", np.einsum("pi,ij->pj", at_points, spread), at_points)
        return float(np.sqrt(np.maximum(variances, 0.0)).mean())


def refit_resamples(samples: Sequence[Sample], trained: Trained, options: TrainingOptions | None = None) -> Refits:
    """Refit the model to resamples of blocks, with the costs and the outliers of the training.

    The degree is chosen again for each resample, by the blocks that it left out [ours]. With the degree of the training
    for all of them, the result depends on the degree that the noise has chosen: where the load has only risen, a model
    of degree 1 passes and one of degree 4 does not, trained on similar samples.

    Args:
        samples: those that were trained on.
        trained: the result of the training.
        options: those of the training.

    Raises:
        InputError: the samples are not those of the training, or impossible.
    """
    options = options or TrainingOptions()
    rows = in_order(samples, _LEAST_ROWS)
    if len(rows) != trained.rows:
        allowed = f"the {trained.rows} that were trained on"
        raise InputError([Fault("samples", str(len(rows)), allowed, "give the samples of the training")])
    model, kept = trained.model, _without(rows, trained.left_out)
    points, slow = _arrays(kept, model.costs)
    degrees = [degree for degree, _ in trained.cv_errors]
    basis, values = orthonormal(points, max(degrees))
    blocks = Blocks.of(values, slow, _block_length(options, len(kept)))
    sizes = [columns(2, degree) for degree in degrees]
    weights = blocks.refits(options.resamples, options.seed, sizes, columns(2, trained.degree))
    return Refits(basis, weights, model.costs, frozenset(span.executors for span in model.seen))


def stability(
    samples: Sequence[Sample], trained: Trained, points: Points, options: TrainingOptions | None = None
) -> float:
    """Mean standard deviation of refits at some points: :func:`refit_resamples` and :meth:`Refits.deviation`.

    Raises:
        InputError: the samples are not those of the training, or impossible.
    """
    return refit_resamples(samples, trained, options).deviation(points)


def _without(rows: Sequence[Sample], left_out: Sequence[int]) -> list[Sample]:
    out = set(left_out)
    return [sample for row, sample in enumerate(rows) if row not in out]


def _arrays(rows: Sequence[Sample], costs: Sequence[float]) -> tuple[Array, Array]:
    """(rows, 2): load and executors; (rows,): slow."""
    loads = np.array([sample.workload for sample in rows]) @ np.asarray(costs)
    executors = np.array([float(sample.executors) for sample in rows])
    return np.column_stack([loads, executors]), np.array([sample.slow for sample in rows])


def _choose_degrees(degrees: Sequence[int], rows: int) -> tuple[int, ...]:
    """The degrees with at least two rows for each monomial; the lowest always."""
    ordered = sorted(set(degrees))
    return tuple(d for d in ordered if d == ordered[0] or _ROWS_A_COLUMN * columns(2, d) <= rows)


def _block_length(options: TrainingOptions, rows: int) -> int:
    return max(1, min(options.block, rows // _LEAST_BLOCKS))


# ------------------------------------------------------------------------------------------- the model: f(workload, n)

CEILING = 1e9
"""No share of slow records is predicted above this."""
_CARRIED = 0.9
"""Up to this share of the capacity nothing is slow (the thesis' guard in Algorithm 2)."""


@dataclass(frozen=True)
class SlowModel:
    """The model of slow records of a job.

    Attributes:
        polynomial: of (load, executors), where load = Σ costs · workload.
        costs: of a record of each topic, relative to the mean record of the samples; one topic: (1.0,).
        seen: (executors, lowest load, highest load) of the samples; one number may have several such ranges.
        w_max: records/s that one executor carries; None: not known.
        top: the largest share among the samples.
        objective: the share at which the objective is violated; the load n·w_max reaches it.
    """

    polynomial: Polynomial
    costs: tuple[float, ...]
    seen: tuple[Seen, ...]
    w_max: float | None
    top: float
    objective: float

    def predict(self, workload: Sequence[float], executors: int) -> float:
        """Share of slow records, in [0, 1e9]: non-decreasing in each workload, non-increasing in executors.

        Where samples lie: the polynomial, made monotone. Elsewhere: 0 up to 90 % of the capacity, the objective at the
        capacity, and on along this line; within what easier and harder points that were seen allow. The capacity is
        n·w_max, or the load that was seen to be carried by as many executors or fewer, if that is more.

        Args:
            workload: records/s of each topic, as many as were learned from, at least 0.
            executors: at least 1.

        Raises:
            ValueError: another number of topics, a workload that is negative or not finite, no executor.
        """
        if len(workload) != len(self.costs) or not all(isfinite(w) and w >= 0 for w in workload) or executors < 1:
            message = f"no prediction for workload {tuple(workload)} on {executors} executors"
            raise ValueError(message)
        load = float(sum(cost * w for cost, w in zip(self.costs, workload, strict=True)))
        least, most = self._surface.bounds(load, executors)
        return min(max(self._assumed(load, executors), least), most, CEILING)

    def _assumed(self, load: float, executors: int) -> float:
        capacity = max(executors * (self.w_max or 0.0), self._surface.sound_load(executors))
        if load <= _CARRIED * capacity:
            return 0.0
        if load >= CEILING * capacity:
            return CEILING
        return self.objective * (load / capacity - _CARRIED) / (1 - _CARRIED)

    @cached_property
    def _surface(self) -> Surface:
        return surface(self.polynomial, self.seen, self.top, self.objective)


# ---------------------------------------------------------------------------------- the monotone table of a polynomial

_GAP = 0.2
"""A range of loads without a sample ends a span if it is wider than this share of the largest load at that number."""
_KNOTS = 512
"""Approximate number of loads in the table; between them it is linear."""


class Seen(NamedTuple):
    """A range of loads without a wide gap between samples, at one number of executors."""

    executors: int
    low: float
    high: float


def spans(loads: Sequence[float], executors: Sequence[int]) -> tuple[Seen, ...]:
    """The ranges of loads that samples cover, by number of executors, then by load.

    >>> spans([100.0, 110.0, 900.0, 50.0], [2, 2, 2, 1])
    (Seen(executors=1, low=50.0, high=50.0), Seen(executors=2, low=100.0, high=110.0), Seen(executors=2, low=900.0, \
high=900.0))
    """
    found: list[Seen] = []
    for number, pairs in groupby(sorted(zip(executors, loads, strict=True)), key=itemgetter(0)):
        ordered = [load for _, load in pairs]
        wide = _GAP * ordered[-1]
        starts = [0, *(place for place in range(1, len(ordered)) if ordered[place] - ordered[place - 1] > wide)]
        found += (Seen(number, ordered[a], ordered[b - 1]) for a, b in pairwise([*starts, len(ordered)]))
    return tuple(found)


class Surface(NamedTuple):
    """Bounds of f at some loads (knots) and numbers of executors.

    Attributes:
        knots: loads, ascending, the first is 0.
        numbers: of executors in the samples, ascending.
        least: lower bound of f for each number, at each knot.
        most: upper bound; infinite where there is none.
        sound: for each number: the largest load at which f is below the objective for it or for fewer.
    """

    knots: list[float]
    numbers: list[int]
    least: list[list[float]]
    most: list[list[float]]
    sound: list[float]

    def bounds(self, load: float, executors: int) -> tuple[float, float]:
        """Lower and upper bound of f; both non-decreasing in the load and non-increasing in executors."""
        harder = bisect_left(self.numbers, executors)
        easier = bisect_right(self.numbers, executors) - 1
        least = self._at(self.least[harder], load) if harder < len(self.numbers) else 0.0
        most = self._at(self.most[easier], load, beyond=inf) if easier >= 0 else inf
        return least, most

    def sound_load(self, executors: int) -> float:
        """The largest load that as many executors, or fewer, have carried within the objective; 0: none."""
        easier = bisect_right(self.numbers, executors) - 1
        return self.sound[easier] if easier >= 0 else 0.0

    def _at(self, row: Sequence[float], load: float, beyond: float | None = None) -> float:
        after = bisect_left(self.knots, load)
        if after == len(self.knots):
            return row[-1] if beyond is None else beyond
        right = self.knots[after]
        if right == load or after == 0 or row[after] == row[after - 1]:
            return row[after]
        share = (load - self.knots[after - 1]) / (right - self.knots[after - 1])
        return min(row[after], row[after - 1] + share * (row[after] - row[after - 1]))


def surface(polynomial: Polynomial, seen: Sequence[Seen], top: float, objective: float) -> Surface:
    """The table of a polynomial.

    Args:
        polynomial: of (load, executors).
        seen: ranges with samples; not empty.
        top: the polynomial is cut off above it, and below 0.
        objective: shares of slow records below it are within the objective.
    """
    knots = _knots(seen)
    numbers = sorted({span.executors for span in seen})
    sampled = np.full((len(numbers), knots.size), np.nan)
    for span in seen:
        first, last = np.searchsorted(knots, [span.low, span.high])
        points = np.column_stack([knots[first : last + 1], np.full(last + 1 - first, float(span.executors))])
        sampled[numbers.index(span.executors), first : last + 1] = np.clip(polynomial.values(points), 0.0, top)
    monotone = (_highest_of_easier(sampled) + _lowest_of_harder(sampled)) / 2
    monotone[np.isnan(sampled)] = np.nan
    sound = np.where(monotone < objective, knots, 0.0).max(axis=1)
    return Surface(
        knots=knots.tolist(),
        numbers=numbers,
        least=np.maximum(_highest_of_easier(monotone), 0.0).tolist(),
        most=_lowest_of_harder(monotone).tolist(),
        sound=np.maximum.accumulate(sound).tolist(),
    )


def _knots(seen: Iterable[Seen]) -> Array:
    found = list(seen)
    each = max(5, _KNOTS // len(found))
    return np.unique(np.concatenate([[0.0], *(np.linspace(span.low, span.high, each) for span in found)]))


def _highest_of_easier(table: Array) -> Array:
    """For each cell the highest value at no more load and no fewer executors; −inf where there is none."""
    known = np.where(np.isnan(table), -np.inf, table)
    by_load = np.maximum.accumulate(known, axis=1)
    return np.maximum.accumulate(by_load[::-1], axis=0)[::-1]


def _lowest_of_harder(table: Array) -> Array:
    """For each cell the lowest value at no less load and no more executors; inf where there is none."""
    known = np.where(np.isnan(table), np.inf, table)
    by_load = np.minimum.accumulate(known[:, ::-1], axis=1)[:, ::-1]
    return np.minimum.accumulate(by_load, axis=0)


# ------------------------------------------------------------------- polynomials of several variables, by Gram–Schmidt

_DEPENDENT = 1e-7
"""A monomial of which less than this share is independent of the ones before it is left out."""
_RIDGE = 1e-9
"""Added to the diagonal of Gram matrices, of which the largest entry is 1: undetermined weights become 0."""


def columns(variables: int, degree: int) -> int:
    """Number of monomials of up to that total degree.

    >>> columns(2, 1), columns(2, 8)
    (3, 45)
    """
    return comb(variables + degree, degree)


@lru_cache(maxsize=64)
def _factors(variables: int, degree: int) -> tuple[tuple[int, ...], ...]:
    """The monomials as the variables they multiply, by total degree: (), (0,), (1,), (0, 0), (0, 1), (1, 1) and on."""
    return tuple(
        factors for total in range(degree + 1) for factors in combinations_with_replacement(range(variables), total)
    )


def monomials(points: Array, degree: int) -> Array:
    """All monomials of up to that total degree.

    Args:
        points: (rows, variables), standardized.
        degree: the total degree.

    Returns:
        (rows, columns), the lower degrees first.
    """
    rows, variables = points.shape
    made: dict[tuple[int, ...], Array] = {(): np.ones(rows)}
    for factors in _factors(variables, degree)[1:]:
        made[factors] = made[factors[:-1]] * points[:, factors[-1]]
    return np.column_stack(list(made.values()))


@dataclass(frozen=True)
class Polynomial:
    """A polynomial of standardized variables: all monomials up to a total degree, the lower degrees first.

    Attributes:
        degree: the total degree, 1 or more.
        centers: of each variable; subtracted first.
        scales: of each variable, positive; divided by after that.
        coefficients: of the monomials 1, z_1, …, z_V, z_1², z_1·z_2, …

    >>> line = Polynomial(degree=1, centers=(10.0,), scales=(5.0,), coefficients=(1.0, 2.0))
    >>> line.values([[10.0], [15.0]]).tolist()
    [1.0, 3.0]
    """

    degree: int
    centers: tuple[float, ...]
    scales: tuple[float, ...]
    coefficients: tuple[float, ...]

    def values(self, points: Array | Sequence[Sequence[float]]) -> Array:
        """The values at points, (rows, variables) → (rows,)."""
        standardized = (np.asarray(points, dtype=np.float64) - self.centers) / self.scales
        return cast("Array", monomials(standardized, self.degree) @ np.asarray(self.coefficients))


class Basis(NamedTuple):
    """Polynomials that are orthonormal on some points.

    Attributes:
        mixing: (columns, columns), upper triangular: monomials @ mixing is the basis. The column of a monomial that
            those before it determine on the points is 0, and so is that of the basis.
    """

    degree: int
    centers: Array
    scales: Array
    mixing: Array

    def at(self, points: Array, degree: int) -> Array:
        """The polynomials of up to a degree at other points, (rows, columns of that degree)."""
        size = columns(points.shape[1], degree)
        raw = monomials((points - self.centers) / self.scales, degree)
        return cast("Array", np.einsum("rm,mc->rc", raw, self.mixing[:size, :size]))

    def polynomial(self, degree: int, weights: Array) -> Polynomial:
        """The sum of the first polynomials of the basis, as many as that degree has, each with its weight."""
        coefficients = self.mixing[: weights.size, : weights.size] @ weights
        return Polynomial(
            degree, tuple(self.centers.tolist()), tuple(self.scales.tolist()), tuple(coefficients.tolist())
        )


def orthonormal(points: Array, degree: int) -> tuple[Basis, Array]:
    """A basis, and its values on the points it was made for.

    Gram–Schmidt, twice for each column. L. Giraud, J. Langou, M. Rozložník, "The loss of orthogonality in the
    Gram-Schmidt orthogonalization process", 2005: twice is enough.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    centers, half = low / 2 + high / 2, high / 2 - low / 2
    scales = np.where(half > 0, half, 1.0)
    raw = np.ascontiguousarray(monomials((points - centers) / scales, degree).T)
    basis, mixing = np.zeros_like(raw), np.eye(raw.shape[0])
    for column, rest in enumerate(raw):
        length = np.linalg.norm(rest)
        for _ in range(2):
            shares = np.einsum("cr,r->c", basis[:column], rest)
            rest -= np.einsum("c,cr->r", shares, basis[:column])
            mixing[column] -= np.einsum("c,cm->m", shares, mixing[:column])
        left = np.linalg.norm(rest)
        if left > _DEPENDENT * length:
            basis[column], mixing[column] = rest / left, mixing[column] / left
        else:
            mixing[column] = 0.0
    return Basis(degree, centers, scales, np.ascontiguousarray(mixing.T)), np.ascontiguousarray(basis.T)


def solve(grams: Array, products: Array) -> Array:
    """Least squares from Gram matrices, in batches: (…, columns, columns) and (…, columns) → (…, columns)."""
    diagonal = _RIDGE * np.eye(grams.shape[-1])
    return np.asarray(np.linalg.solve(grams + diagonal, products[..., None])[..., 0], dtype=np.float64)


# ---------------------------------------------------------------------- least squares over blocks of neighbouring rows

_IN_TWO = ["einsum_path", (0, 1), (0, 1)]
"""(w·G)·w: the matrices first by one of the vectors."""


class Blocks(NamedTuple):
    """Sums over blocks of rows.

    Attributes:
        starts: the first row of each block; the last one ends with the rows.
        grams: (blocks, columns, columns).
        products: (blocks, columns).
    """

    starts: tuple[int, ...]
    grams: Array
    products: Array

    @classmethod
    def of(cls, basis: Array, slow: Array, length: int) -> Blocks:
        """Of rows in the order of time, (rows, columns) and (rows,), in blocks of about ``length`` rows."""
        count = max(1, round(slow.size / length))
        starts = [block * slow.size // count for block in range(count)]
        parts = [(basis[a:b], slow[a:b]) for a, b in zip(starts, [*starts[1:], slow.size], strict=True)]
        return cls(tuple(starts), np.array([q.T @ q for q, _ in parts]), np.array([q.T @ y for q, y in parts]))

    def errors(self, basis: Array, slow: Array, sizes: Sequence[int], folds: int) -> tuple[float, ...]:
        """Root mean square error of blocked cross-validation for the first ``size`` columns, each size.

        Block b is left out in fold b mod folds, so that each fold has blocks from all of the time.
        """
        fold_of = np.arange(len(self.starts)) % min(folds, len(self.starts))
        outside = (fold_of != np.unique(fold_of)[:, None]).astype(np.float64)
        grams, products = np.tensordot(outside, self.grams, 1), outside @ self.products
        lengths = np.diff([*self.starts, slow.size])
        fold_of_row = np.repeat(fold_of, lengths)
        found = []
        for size in sizes:
            weights = solve(grams[:, :size, :size], products[:, :size])
            predicted = np.einsum("rc,rc->r", basis[:, :size], weights[fold_of_row])
            found.append(float(np.sqrt(np.mean((predicted - slow) ** 2))))
        return tuple(found)

    def refits(self, times: int, seed: int, sizes: Sequence[int], usual: int) -> Array:
        """Fits to resamples of the blocks, each of as many blocks, drawn with replacement.

        Each has the number of columns with the least error on the blocks that its resample left out, about a third of
        them. So the choice is repeated, not only the fit.

        Args:
            times: number of resamples.
            seed: of the draws.
            sizes: numbers of columns to choose from.
            usual: the number where a resample left out nothing.

        Returns:
            (times, largest size): the weights of each fit; 0 in the columns that it does not have.
        """
        count = len(self.starts)
        drawn = np.random.default_rng(seed).multinomial(count, [1 / count] * count, size=times).astype(np.float64)
        left_out = (drawn == 0).astype(np.float64)
        grams, products = self._sums(drawn, max(sizes))
        others, their_products = self._sums(left_out, max(sizes))
        fits = np.zeros((len(sizes), times, max(sizes)))
        errors = np.empty((len(sizes), times))
        for place, size in enumerate(sizes):
            weights = solve(grams[:, :size, :size], products[:, :size])
            fits[place, :, :size] = weights
            squares = np.einsum("ki,kij,kj->k", weights, others[:, :size, :size], weights, optimize=_IN_TWO)
            errors[place] = squares - 2 * np.einsum("ki,ki->k", weights, their_products[:, :size])
        chosen = np.where(left_out.any(axis=1), errors.argmin(axis=0), sizes.index(usual))
        return fits[chosen, np.arange(times)]

    def _sums(self, weights: Array, size: int) -> tuple[Array, Array]:
        """Gram matrices and products of weighted blocks: (sums, blocks) → (sums, size, size), (sums, size)."""
        grams = np.einsum("kb,bij->kij", weights, self.grams[:, :size, :size])
        return grams, np.einsum("kb,bi->ki", weights, self.products[:, :size])


# --------------------------------------------------------------------------- outliers: rows that the others contradict

_WITNESSES = 10
"""Least number of samples that contradict an outlier."""
_AGREED = 0.9
"""Least share of the harder samples that contradict it."""
_JUMP = 3.0
_STEADY = 1.5
"""The samples before and after a wrong rate differ by no more than this factor."""
_RARE = 0.05
"""Wrong rates are at most this share of the rows."""
_CHUNK = 512


def find_outliers(rows: Sequence[Sample], objective: float) -> tuple[int, ...]:
    """The rows that others contradict, ascending. No fitted curve is used, only what must hold for any job.

    Args:
        rows: by time.
        objective: share of slow records that is a violation; shares differ if more than half of it is between them.
    """
    loads = np.array([row.workload for row in rows])
    executors = np.array([row.executors for row in rows])
    slow = np.array([row.slow for row in rows])
    out = _find_wrong_rates(loads.sum(axis=1))
    right = np.flatnonzero(~out)
    out[right] = _find_stalls(loads[right], executors[right], slow[right], objective / 2)
    return tuple(np.flatnonzero(out).tolist())


def _find_wrong_rates(load: Array) -> Flags:
    out = np.zeros(load.size, dtype=np.bool_)
    before, at, after = load[:-2], load[1:-1], load[2:]
    low, high = np.minimum(before, after), np.maximum(before, after)
    out[1:-1] = (high <= _STEADY * low) & ((at > _JUMP * high) | (_JUMP * at < low))
    return out if out.sum() <= _RARE * out.size else np.zeros_like(out)


def _find_stalls(loads: Array, executors: npt.NDArray[np.int64], slow: Array, margin: float) -> Flags:
    found = [np.zeros(0, dtype=np.bool_)]
    suspects = np.flatnonzero(slow > margin)
    for part in (suspects[first : first + _CHUNK] for first in range(0, suspects.size, _CHUNK)):
        harder = (loads >= loads[part, None]).all(axis=2) & (executors <= executors[part, None])
        against = (harder & (slow < slow[part, None] - margin)).sum(axis=1)
        found.append((against >= _WITNESSES) & (against >= _AGREED * (harder.sum(axis=1) - 1)))
    out = np.zeros(slow.size, dtype=np.bool_)
    out[suspects] = np.concatenate(found)
    return out


# -------------------------------------------------------- costs of a record of each topic, relative to the mean record

_DEGREE = 2
_FURTHEST = 5.0
"""Costs are searched up to e⁵ = 148 times and down to 1 ÷ 148 of that of the largest topic."""


def record_costs(rows: Sequence[Sample]) -> tuple[float, ...]:
    """Costs of a record of each topic; the mean over all records of the rows is 1.

    All 1 where the samples do not distinguish them. A topic without records has cost 1.
    """
    rates = np.array([row.workload for row in rows])
    volume = rates.sum(axis=0)
    present = np.flatnonzero(volume)
    costs = np.ones(rates.shape[1])
    if present.size > 1 and any(row.slow for row in rows):
        executors, slow = np.array([float(row.executors) for row in rows]), np.array([row.slow for row in rows])
        costs[present] = _fit_costs(rates[:, present], executors, slow)
        costs *= volume.sum() / (costs @ volume)
        costs[volume == 0] = 1.0
    return tuple(costs.tolist())


def _fit_costs(rates: Array, executors: Array, slow: Array) -> Array:
    from scipy.optimize import least_squares  # type: ignore[import-untyped]

    largest = int(np.argmax(rates.sum(axis=0)))

    def costs(logarithms: Array) -> Array:
        return np.exp(np.insert(logarithms, largest, 0.0))

    def unexplained(logarithms: Array) -> Array:
        _, basis = orthonormal(np.column_stack([rates @ costs(logarithms), executors]), _DEGREE)
        return slow - basis @ (basis.T @ slow)

    start = np.zeros(rates.shape[1] - 1)
    return costs(least_squares(unexplained, start, bounds=(-_FURTHEST, _FURTHEST), x_scale=1.0).x)
