"""Least squares over blocks of neighbouring rows: what is left out, or drawn again, is a block, never a single row.

Rows that are neighbours in time are not independent: a row that is left out is all but known from the ones beside it.
All that a fit needs from a block is its Gram matrix Σ q·qᵀ and its products Σ y·q; sums of those are fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rheostat.learn.polynomial import Array, solve

__all__ = ["Blocks"]

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

        Each has as many columns as do best on the blocks that its resample left out: about a third of them. So it is
        the choice that is made again, not only the fit.

        Args:
            times: how many.
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
