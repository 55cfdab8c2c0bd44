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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement, groupby, pairwise
from math import comb, inf, isfinite
from operator import itemgetter
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from rheostat.errors import Fault, InputError

Array = npt.NDArray[np.float64]
Points = Sequence[tuple[Sequence[float], int]]
"""Workload of each topic, and executors."""
CvErrors = tuple[tuple[int, float], ...]

# More is an error of the measurement: records/s of a topic, backlog ÷ records of an interval, executors.
_MOST_WORKLOAD, _MOST_SLOW, _MOST_EXECUTORS = 1e15, 1e9, 1_000_000
_LEAST_ROWS = 20


class Sample(NamedTuple):
    """One sample of a job.

    Attributes:
        at: seconds.
        workload: records/s of each topic, always in the same order; one entry: their sum.
        slow: share of slow records, at least 0; above 1 when the backlog is more than one interval brings.
    """

    at: float
    workload: tuple[float, ...]
    executors: int
    slow: float


def _check_samples(samples: Sequence[Sample]) -> list[Sample]:
    """The different samples by time.

    Raises:
        InputError: an impossible value, workloads of unequal length, fewer than 20 different samples. Each fault is
            reported once, with the first row that has it and the number of such rows.
    """
    topics = len(samples[0].workload) if samples else 0
    wrong: dict[tuple[str, str], list[tuple[int, object]]] = {}
    for row, sample in enumerate(samples):
        for name, allowed, value in _find_wrong_values(sample, topics):
            wrong.setdefault((name, allowed), []).append((row, value))
    faults = [
        Fault(f"samples[{rows[0][0]}].{name}", str(rows[0][1]), allowed, f"impossible value; rows like it: {len(rows)}")
        for (name, allowed), rows in wrong.items()
    ]
    distinct = set(samples)
    if not faults and len(distinct) < _LEAST_ROWS:
        message = "there is too little to learn from; collect more samples"
        faults.append(Fault("samples", str(len(distinct)), f">= {_LEAST_ROWS} different ones", message))
    if faults:
        raise InputError(faults)
    return sorted(distinct)


def _find_wrong_values(sample: Sample, topics: int) -> Iterator[tuple[str, str, object]]:
    if not isfinite(sample.at):
        yield "at", "a finite number of seconds", sample.at
    if not 0 < len(sample.workload) == topics:
        yield "workload", f"as many topics as in row 0 ({topics}), at least one", sample.workload
    rate = next((rate for rate in sample.workload if not 0 <= rate <= _MOST_WORKLOAD), None)
    if rate is not None:
        yield "workload", f"0 … {_MOST_WORKLOAD:g} records/s", rate
    if type(sample.executors) is not int or not 1 <= sample.executors <= _MOST_EXECUTORS:
        yield "executors", f"a whole number, 1 … {_MOST_EXECUTORS}", sample.executors
    if not 0 <= sample.slow <= _MOST_SLOW:
        yield "slow", f"0 … {_MOST_SLOW:g}", sample.slow


# -------------------------------------------------------------------------------------- training: degree and stability

_LEAST_BLOCKS = 5
_RANGE = "it is out of range"
_ROWS_A_COLUMN = 2
_WORTH = 0.98
"""Costs of topics are used if they leave less than this share of the error on blocks left out."""


@dataclass(frozen=True)
class TrainingOptions:
    """Options of the training.

    Attributes:
        resamples: k, of the stability check.
        block: rows in a block of neighbours; fewer where there would not be five blocks.
        stability_limit: λ: the mean standard deviation of refits, a share of slow records, up to which a model is
            stable. 0.03 is the largest at which at most one model in twenty that passes errs much more than the best
            one on blocks left out (``rheostat bench train``).
        objective: the share of slow records at which the objective is violated.
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
            ("degrees", bool(self.degrees) and all(1 <= d <= 12 for d in self.degrees), "1 … 12"),
            ("resamples", self.resamples >= 2, ">= 2"),
            ("block", self.block >= 1, ">= 1"),
            ("folds", self.folds >= 2, ">= 2"),
            ("stability_limit", self.stability_limit > 0, "> 0"),
            ("objective", 0 < self.objective < inf, "> 0"),
            ("seed", self.seed >= 0, ">= 0"),
        )
        out_of_range = [(name, allowed) for name, is_valid, allowed in checks if not is_valid]
        if out_of_range:
            raise InputError([Fault(name, str(getattr(self, name)), allowed, _RANGE) for name, allowed in out_of_range])


DEFAULT = TrainingOptions()


@dataclass(frozen=True)
class Trained:
    """A model, and how it was chosen.

    Attributes:
        degree: of its polynomial: that with the least error.
        cv_errors: (degree, root mean square error on blocks left out) of each degree that was tried.
        left_out: the outliers, numbered by time.
        rows: distinct samples.
    """

    model: SlowModel
    degree: int
    cv_errors: CvErrors
    left_out: tuple[int, ...]
    rows: int

    @property
    def outliers(self) -> int:
        return len(self.left_out)


def train(samples: Sequence[Sample], w_max: float | None, options: TrainingOptions = DEFAULT) -> Trained:
    """Train a model on at least 20 different samples. The same samples, in any order, give the same model.

    ``w_max`` is what one executor carries, records/s; None: not known.

    Raises:
        InputError: too few samples, or impossible values.
    """
    if w_max is not None and not 0 < w_max < inf:
        raise InputError([Fault("w_max", str(w_max), "a positive, finite rate, or none", _RANGE)])
    rows = _check_samples(samples)
    left_out = find_outliers(rows, options.objective) if options.outliers else ()
    kept = _without(rows, left_out)
    topics = len(kept[0].workload)
    model, cv_errors = _fit_best_degree(kept, (1.0,) * topics, w_max, options)
    if topics > 1:
        other, other_errors = _fit_best_degree(kept, record_costs(kept), w_max, options)
        if min(error for _, error in other_errors) < _WORTH * min(error for _, error in cv_errors):
            model, cv_errors = other, other_errors
    return Trained(model, model.polynomial.degree, cv_errors, left_out, len(rows))


def _fit_best_degree(
    rows: Sequence[Sample], costs: tuple[float, ...], w_max: float | None, options: TrainingOptions
) -> tuple[SlowModel, CvErrors]:
    """The degree with the least error on blocks left out, fitted to all rows.

    Degrees with more monomials than half of the rows are not tried, but for the lowest.
    """
    first, *higher = sorted(set(options.degrees))
    degrees = [first, *(degree for degree in higher if _ROWS_A_COLUMN * columns(2, degree) <= len(rows))]
    points, slow = _arrays(rows, costs)
    basis, values = orthonormal(points, degrees[-1])
    blocks = Blocks.of(values, slow, _block_length(options, len(rows)))
    errors = blocks.errors(values, slow, [columns(2, degree) for degree in degrees], options.folds)
    degree = min(zip(errors, degrees, strict=True))[1]
    model = SlowModel(
        polynomial=basis.polynomial(degree, np.einsum("rc,r->c", values[:, : columns(2, degree)], slow)),
        costs=costs,
        seen=spans(points[:, 0].tolist(), [sample.executors for sample in rows]),
        w_max=w_max,
        top=max(sample.slow for sample in rows),
        objective=options.objective,
    )
    return model, tuple(zip(degrees, errors, strict=True))


class Refits(NamedTuple):
    """Polynomials of resampled blocks: their weights in the basis, (k, columns)."""

    basis: Basis
    weights: Array
    costs: tuple[float, ...]
    numbers: frozenset[int]

    def deviation(self, points: Points) -> float:
        """Their standard deviation at each point, then its mean, a share of slow records.

        Points at numbers of executors without samples do not count: the model does not use the polynomial there.
        """
        counted = [Sample(0.0, tuple(workload), n, 0.0) for workload, n in points if n in self.numbers]
        if not counted:
            return 0.0
        at_points = self.basis.at(_arrays(counted, self.costs)[0], self.basis.degree)
        return float((at_points @ self.weights.T).std(axis=1).mean())


def refit_resamples(samples: Sequence[Sample], trained: Trained, options: TrainingOptions = DEFAULT) -> Refits:
    """Refit the model to resamples of blocks, with the costs and the outliers of the training.

    The degree is chosen again for each resample, by the blocks that it left out [ours]: with that of the training for
    all of them, the result depends on the degree that the noise has chosen.

    Raises:
        InputError: the samples are not those of the training, or impossible.
    """
    rows = _check_samples(samples)
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


def stability(samples: Sequence[Sample], trained: Trained, points: Points, options: TrainingOptions = DEFAULT) -> float:
    """Mean standard deviation of refits at some points, a share of slow records."""
    return refit_resamples(samples, trained, options).deviation(points)


def _without(rows: Sequence[Sample], left_out: Sequence[int]) -> list[Sample]:
    out = set(left_out)
    return [sample for row, sample in enumerate(rows) if row not in out]


def _arrays(rows: Sequence[Sample], costs: Sequence[float]) -> tuple[Array, Array]:
    """(rows, 2): load and executors; (rows,): slow."""
    loads = np.array([sample.workload for sample in rows]) @ np.asarray(costs)
    executors = np.array([float(sample.executors) for sample in rows])
    return np.column_stack([loads, executors]), np.array([sample.slow for sample in rows])


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
        seen: ranges of loads with samples; one number of executors may have several.
        w_max: records/s that one executor carries; None: not known.
        top: the largest share among the samples.
        objective: the share at which the objective is violated; the load n·w_max reaches it.
    """

    polynomial: Polynomial
    costs: tuple[float, ...]
    seen: tuple[LoadRange, ...]
    w_max: float | None
    top: float
    objective: float

    def predict(self, workload: Sequence[float], executors: int) -> float:
        """Share of slow records, in [0, 1e9]: non-decreasing in each workload, non-increasing in executors.

        Where samples lie: the polynomial, made monotone. Elsewhere: 0 up to 90 % of the capacity, the objective at the
        capacity, and on along this line; within what easier and harder points that were seen allow. The capacity is
        n·w_max, or the load that was seen to be carried by as many executors or fewer, if that is more.

        Raises:
            ValueError: another number of topics, a workload that is negative or not finite, no executor.
        """
        if len(workload) != len(self.costs) or not all(isfinite(w) and w >= 0 for w in workload) or executors < 1:
            message = f"no prediction for workload {tuple(workload)} on {executors} executors"
            raise ValueError(message)
        load = float(sum(cost * w for cost, w in zip(self.costs, workload, strict=True)))
        capacity = max(executors * (self.w_max or 0.0), self._surface.sound_load(executors))
        if load <= _CARRIED * capacity:
            assumed = 0.0
        elif load >= CEILING * capacity:
            assumed = CEILING
        else:
            assumed = self.objective * (load / capacity - _CARRIED) / (1 - _CARRIED)
        least, most = self._surface.bounds(load, executors)
        return min(max(assumed, least), most, CEILING)

    def most(self, workload: Sequence[float], executors: int) -> float:
        """What samples at least as hard allow, those of this point included; infinite where there are none."""
        load = float(sum(cost * w for cost, w in zip(self.costs, workload, strict=True)))
        return self._surface.bounds(load, executors)[1]

    @cached_property
    def _surface(self) -> Surface:
        return surface(self.polynomial, self.seen, self.top, self.objective)


# ---------------------------------------------------------------------------------- the monotone table of a polynomial

_GAP = 0.2
"""A range of loads without a sample ends a span if it is wider than this share of the largest load at that number."""
_KNOTS = 512
"""Approximate number of loads in the table; between them it is linear."""


class LoadRange(NamedTuple):
    """A range of loads without a wide gap between samples, at one number of executors."""

    executors: int
    low: float
    high: float


def spans(loads: Sequence[float], executors: Sequence[int]) -> tuple[LoadRange, ...]:
    """The ranges of loads that samples cover, by number of executors, then by load.

    >>> spans([100.0, 110.0, 50.0], [2, 2, 1])
    (LoadRange(executors=1, low=50.0, high=50.0), LoadRange(executors=2, low=100.0, high=110.0))
    """
    ranges: list[LoadRange] = []
    for number, pairs in groupby(sorted(zip(executors, loads, strict=True)), key=itemgetter(0)):
        ordered = [load for _, load in pairs]
        wide = _GAP * ordered[-1]
        starts = [0, *(place for place in range(1, len(ordered)) if ordered[place] - ordered[place - 1] > wide)]
        ranges += (LoadRange(number, ordered[a], ordered[b - 1]) for a, b in pairwise([*starts, len(ordered)]))
    return tuple(ranges)


class Surface(NamedTuple):
    """Bounds of f at some loads (knots, the first is 0), for the numbers of executors in the samples, ascending.

    Attributes:
        most: upper bounds; infinite where there is none.
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
        least = self._at(self.least[harder], load, self.least[harder][-1]) if harder < len(self.numbers) else 0.0
        most = self._at(self.most[easier], load, inf) if easier >= 0 else inf
        return least, most

    def sound_load(self, executors: int) -> float:
        """The largest load that as many executors, or fewer, have carried within the objective; 0: none."""
        easier = bisect_right(self.numbers, executors) - 1
        return self.sound[easier] if easier >= 0 else 0.0

    def _at(self, row: Sequence[float], load: float, beyond: float) -> float:
        after = bisect_left(self.knots, load)
        if after == len(self.knots):
            return beyond
        right = self.knots[after]
        if right == load or row[after] == row[after - 1]:
            return row[after]
        share = (load - self.knots[after - 1]) / (right - self.knots[after - 1])
        return min(row[after], row[after - 1] + share * (row[after] - row[after - 1]))


def surface(polynomial: Polynomial, seen: Sequence[LoadRange], top: float, objective: float) -> Surface:
    """The table of a polynomial of (load, executors) on its ranges with samples, cut off below 0 and above ``top``."""
    of_each = max(5, _KNOTS // len(seen))
    knots = np.unique(np.concatenate([[0.0], *(np.linspace(span.low, span.high, of_each) for span in seen)]))
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


def _highest_of_easier(table: Array) -> Array:
    """For each cell the highest value at no more load and no fewer executors; −inf where there is none."""
    by_load = np.maximum.accumulate(np.where(np.isnan(table), -inf, table), axis=1)
    return np.maximum.accumulate(by_load[::-1], axis=0)[::-1]


def _lowest_of_harder(table: Array) -> Array:
    """For each cell the lowest value at no less load and no more executors; inf where there is none."""
    return -_highest_of_easier(-table[::-1, ::-1])[::-1, ::-1]


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


def monomials(points: Array, degree: int) -> Array:
    """All monomials of up to that total degree, the lower degrees first: (rows, variables) → (rows, columns).

    Of two variables: 1, x, y, x², xy, y² and so on.
    """
    rows, variables = points.shape
    made: dict[tuple[int, ...], Array] = {(): np.ones(rows)}
    for total in range(1, degree + 1):
        for factors in combinations_with_replacement(range(variables), total):
            made[factors] = made[factors[:-1]] * points[:, factors[-1]]
    return np.column_stack(list(made.values()))


@dataclass(frozen=True)
class Polynomial:
    """A polynomial of standardized variables, z = (x − center) ÷ scale: coefficients of :func:`monomials`.

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
    """Polynomials that are orthonormal on some points: monomials @ mixing.

    The mixing is upper triangular. The column of a monomial that those before it determine on the points is 0.
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
    raw = monomials((points - centers) / scales, degree).T
    size, rows = raw.shape
    vectors = np.hstack([raw, np.eye(size)])  # values on the points, then the shares of the monomials in them
    for place, vector in enumerate(vectors):
        length = np.linalg.norm(vector[:rows])
        for _ in range(2):
            shares = np.einsum("cr,r->c", vectors[:place, :rows], vector[:rows])
            vector -= np.einsum("c,cr->r", shares, vectors[:place])
        left = np.linalg.norm(vector[:rows])
        if left > _DEPENDENT * length:
            vector /= left
        else:
            vector[:] = 0.0
    mixing, values = np.ascontiguousarray(vectors[:, rows:].T), np.ascontiguousarray(vectors[:, :rows].T)
    return Basis(degree, centers, scales, mixing), values


def solve(grams: Array, products: Array) -> Array:
    """Least squares from Gram matrices, in batches: (…, columns, columns) and (…, columns) → (…, columns)."""
    diagonal = _RIDGE * np.eye(grams.shape[-1])
    return np.asarray(np.linalg.solve(grams + diagonal, products[..., None])[..., 0], dtype=np.float64)


# ---------------------------------------------------------------------- least squares over blocks of neighbouring rows


class Blocks(NamedTuple):
    """Sums over blocks of rows: (blocks, columns, columns) and (blocks, columns); and the first row of each."""

    starts: tuple[int, ...]
    grams: Array
    products: Array

    @classmethod
    def of(cls, basis: Array, slow: Array, length: int) -> Blocks:
        """Of rows in the order of time, (rows, columns) and (rows,), in blocks of about ``length`` rows."""
        count = max(1, round(slow.size / length))
        starts = [block * slow.size // count for block in range(count)]
        parts = [(basis[a:b], slow[a:b]) for a, b in pairwise([*starts, slow.size])]
        return cls(tuple(starts), np.array([q.T @ q for q, _ in parts]), np.array([q.T @ y for q, y in parts]))

    def errors(self, basis: Array, slow: Array, sizes: Sequence[int], folds: int) -> list[float]:
        """Root mean square error of blocked cross-validation for the first ``size`` columns, each size.

        Block b is left out in fold b mod folds, so that each fold has blocks from all of the time.
        """
        fold_of = np.arange(len(self.starts)) % min(folds, len(self.starts))
        outside = (fold_of != np.unique(fold_of)[:, None]).astype(np.float64)
        grams, products = np.tensordot(outside, self.grams, 1), outside @ self.products
        fold_of_row = np.repeat(fold_of, np.diff([*self.starts, slow.size]))
        errors = []
        for size in sizes:
            weights = solve(grams[:, :size, :size], products[:, :size])
            predicted = np.einsum("rc,rc->r", basis[:, :size], weights[fold_of_row])
            errors.append(float(np.sqrt(np.mean((predicted - slow) ** 2))))
        return errors

    def refits(self, times: int, seed: int, sizes: Sequence[int], usual: int) -> Array:
        """Fits to resamples of the blocks, each of as many blocks, drawn with replacement.

        Each has that of the numbers of columns (``sizes``) with the least error on the blocks that its resample left
        out, about a third of them; ``usual`` where it left out none. So the choice is repeated, not only the fit.

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
            squares = np.einsum("kj,kj->k", np.einsum("ki,kij->kj", weights, others[:, :size, :size]), weights)
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


def _find_wrong_rates(load: Array) -> npt.NDArray[np.bool_]:
    out = np.zeros(load.size, dtype=np.bool_)
    before, at, after = load[:-2], load[1:-1], load[2:]
    low, high = np.minimum(before, after), np.maximum(before, after)
    out[1:-1] = (high <= _STEADY * low) & ((at > _JUMP * high) | (_JUMP * at < low))
    return out if out.sum() <= _RARE * out.size else np.zeros_like(out)


def _find_stalls(loads: Array, executors: npt.NDArray[np.int64], slow: Array, margin: float) -> npt.NDArray[np.bool_]:
    out = np.zeros(slow.size, dtype=np.bool_)
    suspects = np.flatnonzero(slow > margin)
    for part in np.array_split(suspects, suspects.size // _CHUNK + 1):
        harder = (loads >= loads[part, None]).all(axis=2) & (executors <= executors[part, None])
        against = (harder & (slow < slow[part, None] - margin)).sum(axis=1)
        out[part] = (against >= _WITNESSES) & (against >= _AGREED * (harder.sum(axis=1) - 1))
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
