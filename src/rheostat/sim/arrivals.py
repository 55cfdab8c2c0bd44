"""Which record arrives when, in which partition: a rate curve, shared out.

Of A(t) records offered until t, partition k has received ``floor(x_k(t))`` with ``x_k(t) = k ÷ p + ∫ share_k dA``. With
equal shares they sum to floor(A(t)) at every t. Each count only ever grows, and a look changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from rheostat.load.curves import Pieces

__all__ = ["Arrivals", "Positions"]

_EPSILON = 1e-6
"""Records: the integral of a curve is right to this, and a record that is due by it has arrived."""


@dataclass(frozen=True, slots=True)
class _Epoch:
    """From ``start`` on these shares hold. ``offered``: A(start); ``base``: x_k(start)."""

    start: float
    offered: float
    shares: tuple[float, ...]
    base: tuple[float, ...]
    equal: bool


@dataclass(frozen=True, slots=True)
class Positions:
    """How far the partitions have come.

    Attributes:
        total: records in all of them.
        partitions: how many there are.
        uneven: records of each, in order; None: ``total`` is spread evenly, the last ones have one more where it is no
            multiple. So it is wherever shares are equal and no cap has ended a batch before.
    """

    total: int
    partitions: int
    uneven: tuple[int, ...] | None = None

    @classmethod
    def of(cls, each: Sequence[int]) -> Positions:
        """These."""
        return cls(sum(each), len(each), tuple(each))

    def each(self) -> tuple[int, ...]:
        """Records of each partition.

        >>> Positions(7, 3).each()
        (2, 2, 3)
        """
        if self.uneven is not None:
            return self.uneven
        count = self.partitions
        each, rest = self.total // count, self.total % count
        return (each,) * (count - rest) + (each + 1,) * rest


class Arrivals:
    """The arrivals of a run. Immutable.

    Args:
        load: records/s over time.
        changes: ``(second, share of each partition)``, the first at second 0, ascending.
    """

    def __init__(self, load: Pieces, changes: Sequence[tuple[float, tuple[float, ...]]]) -> None:
        self._load = load
        self.end = load.duration
        """When the load is over."""
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

    def rate(self, at: float) -> float:
        """Records/s that arrive now, in all partitions."""
        return self._load.rate(at)

    def latest(self, at: float) -> Positions:
        """Records that have arrived by ``at``."""
        offered = self._load.cumulative(at)
        epoch = self._last if at >= self._last.start else self._epoch(at)
        if epoch.equal:
            return Positions(int(offered + _EPSILON), len(epoch.shares))
        return Positions.of([int(position + _EPSILON) for position in self._positions(epoch, offered)])

    def oldest(self, committed: Positions) -> float:
        """When the first record arrives, or arrived, of those beyond ``committed``; infinite if there is none."""
        offered: float
        if not self._last.equal:
            offered = min(self._offered(k, done + 1) for k, done in enumerate(committed.each()))
        elif committed.uneven is None:
            offered = committed.total + 1
        else:
            offered = _next_of_equals(committed.uneven)
        if offered <= self._total:
            return self._load.when(offered)
        return inf if offered > self._total + _EPSILON else self._load.when(self._total)

    def _epoch(self, at: float) -> _Epoch:
        return next(epoch for epoch in reversed(self._epochs) if epoch.start <= at) if at >= 0 else self._epochs[0]

    @staticmethod
    def _positions(epoch: _Epoch, offered: float) -> list[float]:
        since = offered - epoch.offered
        return [base + share * since for base, share in zip(epoch.base, epoch.shares, strict=True)]

    def _offered(self, partition: int, record: int) -> float:
        """How many records have been offered when partition k receives its ``record``-th; infinite if it never does."""
        found = inf
        for epoch in reversed(self._epochs):
            share = epoch.shares[partition]
            if share > 0:
                found = max(epoch.offered, epoch.offered + (record - epoch.base[partition]) / share)
            if epoch.base[partition] + _EPSILON < record:
                return found
            found = epoch.offered
        return found


def _next_of_equals(committed: Sequence[int]) -> int:
    """Which record is the first beyond ``committed``, min (p·(c_k + 1) − k): the last partition has its turn first.

    >>> _next_of_equals([2, 2, 3]), _next_of_equals([1, 2, 1])
    (8, 4)
    """
    count, least = len(committed), min(committed)
    last = next(k for k in reversed(range(count)) if committed[k] == least)
    return count * (least + 1) - last
