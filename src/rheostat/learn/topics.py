"""What a record of each topic costs, relative to the mean record: with it the topics' rates become one load.

The work of a query is Σ costs · workload, so the share of slow records is a function of that load and of the executors.
The costs are those with which a polynomial of both explains the samples best (variable projection: G. H. Golub,
V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose variables separate",
1973). A polynomial of all rates would be the other way. It predicts no better (``rheostat bench train`` shows it), has
164 monomials of degree 8 instead of 44 with two topics already, and no table makes it monotone in each rate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rheostat.learn.polynomial import Array, orthonormal
from rheostat.learn.samples import Sample

__all__ = ["record_costs"]

_DEGREE = 2
_FURTHEST = 5.0
"""The costs of two topics are looked for up to e⁵ = 148 × apart from that of the largest one."""


def record_costs(rows: Sequence[Sample]) -> tuple[float, ...]:
    """Costs of a record of each topic; the mean over all records of the rows is 1.

    All 1 where there is nothing to tell them apart by. A topic without records has cost 1.
    """
    rates = np.array([row.workload for row in rows])
    volume = rates.sum(axis=0)
    present = np.flatnonzero(volume)
    costs = np.ones(rates.shape[1])
    if present.size > 1 and any(row.slow for row in rows):
        executors, slow = np.array([float(row.executors) for row in rows]), np.array([row.slow for row in rows])
        costs[present] = _apart(rates[:, present], executors, slow)
        costs *= volume.sum() / (costs @ volume)
        costs[volume == 0] = 1.0
    return tuple(costs.tolist())


def _apart(rates: Array, executors: Array, slow: Array) -> Array:
    from scipy.optimize import least_squares  # type: ignore[import-untyped]

    largest = int(np.argmax(rates.sum(axis=0)))

    def costs(logarithms: Array) -> Array:
        return np.exp(np.insert(logarithms, largest, 0.0))

    def unexplained(logarithms: Array) -> Array:
        _, basis = orthonormal(np.column_stack([rates @ costs(logarithms), executors]), _DEGREE)
        return slow - basis @ (basis.T @ slow)

    start = np.zeros(rates.shape[1] - 1)
    return costs(least_squares(unexplained, start, bounds=(-_FURTHEST, _FURTHEST), x_scale=1.0).x)
