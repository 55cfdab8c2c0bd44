"""Training, and its two questions: which degree, and is the result stable? S1 Algorithms 3 and 4, corrected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import NamedTuple

import numpy as np

from rheostat.errors import Fault, InputError
from rheostat.learn.blocks import Blocks
from rheostat.learn.model import SlowModel
from rheostat.learn.outliers import contradicted
from rheostat.learn.polynomial import Array, Basis, Polynomial, columns, orthonormal
from rheostat.learn.samples import Sample, in_order
from rheostat.learn.surface import spans
from rheostat.learn.topics import record_costs

__all__ = ["Refits", "Trained", "TrainingOptions", "resampled", "stability", "train"]

Points = Sequence[tuple[Sequence[float], int]]
"""Workload of each topic, and executors."""

_LEAST_ROWS = 20
_LEAST_BLOCKS = 5
_ROWS_A_COLUMN = 2
_WORTH = 0.98
"""Costs of topics are kept if they leave less than this share of the error on blocks left out."""


@dataclass(frozen=True)
class TrainingOptions:
    """How it is trained.

    Attributes:
        degrees: of the polynomial, to choose from.
        resamples: k, of the stability check.
        block: rows in a block of neighbours; shorter where there are not five of them.
        folds: of the cross-validation.
        stability_limit: λ: the mean standard deviation of refits, a share of slow records, up to which a model is
            stable. 0.03 is the largest at which at most one model in twenty that passes errs much more than the best
            one on blocks left out (``rheostat bench train``).
        objective: the share of slow records at which the objective is violated.
        seed: of the resamples.
        outliers: whether outliers are looked for and left out.
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
    """What came out.

    Attributes:
        model: to predict with.
        degree: of its polynomial: that with the least error.
        cv_errors: (degree, root mean square error of blocked cross-validation) of each degree that was tried; one
            with more monomials than half of the rows is not.
        left_out: the rows, counted by time, that were taken for outliers.
        rows: different samples that were given.
    """

    model: SlowModel
    degree: int
    cv_errors: tuple[tuple[int, float], ...]
    left_out: tuple[int, ...]
    rows: int

    @property
    def outliers(self) -> int:
        """How many rows were left out."""
        return len(self.left_out)


def train(samples: Sequence[Sample], w_max: float | None, options: TrainingOptions | None = None) -> Trained:
    """Learn the share of slow records from samples. The same samples, in any order, give the same model.

    Args:
        samples: workloads, executors and shares of slow records.
        w_max: records/s that one executor carries; None: not known.
        options: how; None: the defaults.

    Raises:
        InputError: fewer than 20 different samples, or values that cannot be.
    """
    options = options or TrainingOptions()
    if w_max is not None and not (isfinite(w_max) and w_max > 0):
        raise InputError([Fault("w_max", str(w_max), "a positive, finite rate, or none", "it is out of range")])
    rows = in_order(samples, _LEAST_ROWS)
    left_out = contradicted(rows, options.objective) if options.outliers else ()
    kept = _without(rows, left_out)
    alike = _searched(kept, (1.0,) * len(kept[0].workload), options)
    apart = _searched(kept, record_costs(kept), options) if len(alike.costs) > 1 else alike
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


class _Searched(NamedTuple):
    costs: tuple[float, ...]
    points: Array
    cv_errors: tuple[tuple[int, float], ...]
    polynomial: Polynomial

    @property
    def error(self) -> float:
        return min(error for _, error in self.cv_errors)


def _searched(rows: Sequence[Sample], costs: tuple[float, ...], options: TrainingOptions) -> _Searched:
    """The best degree with these costs, fitted to all rows."""
    points, slow = _arrays(rows, costs)
    degrees = _possible(options.degrees, len(rows))
    basis, values = orthonormal(points, max(degrees))
    blocks = Blocks.of(values, slow, _block(options, len(rows)))
    errors = blocks.errors(values, slow, [columns(2, degree) for degree in degrees], options.folds)
    degree = min(zip(errors, degrees, strict=True))[1]
    weights = np.einsum("rc,r->c", values[:, : columns(2, degree)], slow)
    return _Searched(costs, points, tuple(zip(degrees, errors, strict=True)), basis.polynomial(degree, weights))


class Refits(NamedTuple):
    """Models of resampled blocks, to be asked how far they are apart.

    Attributes:
        basis, weights: the polynomials, (k, columns).
        costs: of a record of each topic.
        numbers: of executors that were seen.
    """

    basis: Basis
    weights: Array
    costs: tuple[float, ...]
    numbers: frozenset[int]

    def deviation(self, points: Points) -> float:
        """Their standard deviation at each point, then its mean; at least 0, a share of slow records.

        Points at numbers of executors that were never seen do not count: the polynomial is not asked there. 0 without
        a point that counts.
        """
        asked = [Sample(0.0, tuple(workload), n, 0.0) for workload, n in points if n in self.numbers]
        if not asked:
            return 0.0
        apart = self.weights - self.weights.mean(axis=0)
        spread = np.einsum("ki,kj->ij", apart, apart) / len(apart)
        at_points = self.basis.at(_arrays(asked, self.costs)[0], self.basis.degree)
        variances = np.einsum("pi,pi->p", np.einsum("pi,ij->pj", at_points, spread), at_points)
        return float(np.sqrt(np.maximum(variances, 0.0)).mean())


def resampled(samples: Sequence[Sample], trained: Trained, options: TrainingOptions | None = None) -> Refits:
    """Make the model again from resamples of blocks, with the costs and the outliers of the training.

    The degree is chosen again for each resample, by the blocks that it left out [ours]. With the degree of the training
    for all of them, what decides is which degree the noise has chosen: where the load has only risen, a model of
    degree 1 passes and one of degree 4 does not, made of samples that are alike.

    Args:
        samples: those that were trained on.
        trained: what came out.
        options: those of the training.

    Raises:
        InputError: the samples are not those that were trained on, or cannot be.
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
    blocks = Blocks.of(values, slow, _block(options, len(kept)))
    sizes = [columns(2, degree) for degree in degrees]
    weights = blocks.refits(options.resamples, options.seed, sizes, columns(2, trained.degree))
    return Refits(basis, weights, model.costs, frozenset(span.executors for span in model.seen))


def stability(
    samples: Sequence[Sample], trained: Trained, points: Points, options: TrainingOptions | None = None
) -> float:
    """How far apart models of resampled blocks are at some points (workload of each topic, executors).

    See :func:`resampled` and :meth:`Refits.deviation`.

    Raises:
        InputError: the samples are not those that were trained on, or cannot be.
    """
    return resampled(samples, trained, options).deviation(points)


def _without(rows: Sequence[Sample], left_out: Sequence[int]) -> list[Sample]:
    out = set(left_out)
    return [sample for row, sample in enumerate(rows) if row not in out]


def _arrays(rows: Sequence[Sample], costs: Sequence[float]) -> tuple[Array, Array]:
    """(rows, 2): load and executors; (rows,): slow."""
    loads = np.array([sample.workload for sample in rows]) @ np.asarray(costs)
    executors = np.array([float(sample.executors) for sample in rows])
    return np.column_stack([loads, executors]), np.array([sample.slow for sample in rows])


def _possible(degrees: Sequence[int], rows: int) -> tuple[int, ...]:
    """Those with at least two rows for each monomial; the lowest always."""
    ordered = sorted(set(degrees))
    return tuple(d for d in ordered if d == ordered[0] or _ROWS_A_COLUMN * columns(2, d) <= rows)


def _block(options: TrainingOptions, rows: int) -> int:
    return max(1, min(options.block, rows // _LEAST_BLOCKS))
