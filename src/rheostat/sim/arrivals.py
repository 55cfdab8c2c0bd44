"""Arrivals in each partition, from a rate curve and the partitions' shares.

Of A(t) records offered until t, partition k has received ``floor(x_k(t))`` with ``x_k(t) = k ÷ p + ∫ share_k dA``. With
equal shares they sum to floor(A(t)) at every t. Counts never fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from rheostat.load.curves import Pieces

_EPSILON = 1e-6
"""Records: accuracy of the integral of a curve; a record that is due within it has arrived."""


@dataclass(frozen=True, slots=True)
class _Epoch:
    """Shares that hold from ``start`` on. ``offered``: A(start); ``base``: x_k(start)."""

    start: float
    offered: float
    shares: tuple[float, ...]
    base: tuple[float, ...]
    equal: bool


Positions = tuple[int, ...]
"""Records of each partition, in order."""


class Arrivals:
    """Arrivals of a run. Immutable.

    Args:
        load: records/s over time.
        changes: ``(second, share of each partition)``, the first at second 0, ascending.
    """

    def __init__(self, load: Pieces, changes: Sequence[tuple[float, tuple[float, ...]]]) -> None:
        self._load = load
        self._total = load.cumulative(load.duration)
        count = len(changes[0][1])
        base = tuple(k / count for k in range(count))
        self._epochs: list[_Epoch] = []
        for start, shares in changes:
            offered = load.cumulative(start)
            if self._epochs:
                base = tuple(self._positions(self._epochs[-1], offered))
            first = not self._epochs
            equal = first and max(shares) - min(shares) < 1e-12
            self._epochs.append(_Epoch(start, offered, shares, base, equal))
        self._last = self._epochs[-1]

    @property
    def end(self) -> float:
        return self._load.duration

    def rate(self, at: float) -> float:
        """Records/s that arrive at a time, over all partitions."""
        return self._load.rate(at)

    def latest(self, at: float) -> Positions:
        """Records that have arrived in each partition by ``at``."""
        offered = self._load.cumulative(at)
        epoch = self._epoch(at)
        if not epoch.equal:
            return tuple(int(position + _EPSILON) for position in self._positions(epoch, offered))
        count = len(epoch.shares)
        each, rest = divmod(int(offered + _EPSILON), count)
        return (each,) * (count - rest) + (each + 1,) * rest

    def oldest(self, committed: Positions) -> float:
        """Arrival time of the first record beyond ``committed``; infinite if there is none."""
        if self._last.equal:
            offered: float = _next_record(committed)
        else:
            offered = min(self._offered(k, done + 1) for k, done in enumerate(committed))
        if offered > self._total + _EPSILON:
            return inf
        return self._load.when(min(offered, self._total))

    def _epoch(self, at: float) -> _Epoch:
        return next((epoch for epoch in reversed(self._epochs) if epoch.start <= at), self._epochs[0])

    @staticmethod
    def _positions(epoch: _Epoch, offered: float) -> list[float]:
        since = offered - epoch.offered
        return [base + share * since for base, share in zip(epoch.base, epoch.shares, strict=True)]

    def _offered(self, partition: int, record: int) -> float:
        """Records offered by the time a partition receives its ``record``-th; infinite if it never does."""
        found = inf
        for epoch in reversed(self._epochs):
            share = epoch.shares[partition]
            if share > 0:
                found = max(epoch.offered, epoch.offered + (record - epoch.base[partition]) / share)
            if epoch.base[partition] + _EPSILON < record:
                return found
            found = epoch.offered
        return found


def _next_record(committed: Sequence[int]) -> int:
    """Number of the first record beyond ``committed``: min (p·(c_k + 1) − k); the last partition comes first.

    >>> _next_record([2, 2, 3]), _next_record([1, 2, 1])
    (8, 4)
    """
    count, least = len(committed), min(committed)
    last = next(k for k in reversed(range(count)) if committed[k] == least)
    return count * (least + 1) - last
