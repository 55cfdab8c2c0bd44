"""Polynomials of several variables, fitted by least squares through Gram matrices.

Variables are standardized: the middle of their range goes to 0, its ends to −1 and 1. The monomials of a matrix of
points are then made orthonormal on these points, degree by degree. In that basis the Gram matrix of all points is the
identity, that of a part of them (a fold, a resample) stays well conditioned, and the basis of a lower degree is the
first columns of that of a higher one: one matrix serves all degrees.

Larger products are sums by ``einsum`` and not by BLAS: its threads wait for each other, for long where all cores are
busy, as a driver's are, and gain nothing at these sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from math import comb
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Basis", "Polynomial", "columns", "monomials", "orthonormal", "solve"]

Array = npt.NDArray[np.float64]

_DEPENDENT = 1e-7
"""A monomial of which less than this is left beside the ones before it tells nothing on these points."""
_RIDGE = 1e-9
"""Added to the diagonal of Gram matrices, of which the largest entry is 1: what no row tells is taken as 0."""


def columns(variables: int, degree: int) -> int:
    """How many monomials of up to that total degree there are.

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
        scales: of each variable, positive; divided by then.
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
