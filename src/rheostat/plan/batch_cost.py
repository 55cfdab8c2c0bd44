"""What a batch costs, so that what executors carry shows before they are saturated [ours].

A batch of R records on n executors takes::

    b = f + R ÷ u          f = a0 + a1 ÷ n: planning, commit, starting tasks;  u: records/s beyond that

a0, a1 and v = 1 ÷ (u ÷ n) are fitted to the batches so far by least squares, older ones fading. With f known, a batch
of any length shows u of its number of executors, whatever waves its tasks run in, and so the capacity at the period
τ::

    C(n) = u · (τ − f) ÷ τ

By how much f may be too large is taken off: two standard errors, of what the fit leaves unexplained. So where batches
are all alike, or scatter, f is small and a batch shows a lower bound. The longer the batch the less depends on f, and
at τ nothing does: a saturated batch is a measurement, as in S5.
"""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["BatchCosts", "capacity_shown", "fixed_s", "watched"]

_FADE = 0.998
"""Weight of the past at each batch: those of the last two hours, at one each 15 s, are most of it."""
_FEWEST = 12.0
"""Batches, by their weights, before the fit is believed."""
_SPREAD = 1e-3
"""Variance ÷ mean² of R ÷ n, or of 1 ÷ n, below which its coefficient cannot be told: 3 % of variation."""
_MOST_FIXED = 0.7
_DOUBT = 2.0
"""Standard errors that are taken off the fixed part: with too little of it a batch shows too little, never too much."""


class BatchCosts(NamedTuple):
    """Sums over the batches, each term weighted by age: of b on 1, 1 ÷ n and R ÷ n, and the moments of these.

    Attributes:
        last: the batch that was counted last.
    """

    last: int | None = None
    weight: float = 0.0
    inverse: float = 0.0
    share: float = 0.0
    inverse2: float = 0.0
    cross: float = 0.0
    share2: float = 0.0
    batch: float = 0.0
    inverse_batch: float = 0.0
    share_batch: float = 0.0
    batch2: float = 0.0


def watched(costs: BatchCosts, number: int, executors: int, records: float, batch_s: float) -> BatchCosts:
    """The sums with one more batch."""
    inverse, share = 1 / executors, records / executors
    return BatchCosts(
        last=number,
        weight=_FADE * costs.weight + 1,
        inverse=_FADE * costs.inverse + inverse,
        share=_FADE * costs.share + share,
        inverse2=_FADE * costs.inverse2 + inverse * inverse,
        cross=_FADE * costs.cross + inverse * share,
        share2=_FADE * costs.share2 + share * share,
        batch=_FADE * costs.batch + batch_s,
        inverse_batch=_FADE * costs.inverse_batch + inverse * batch_s,
        share_batch=_FADE * costs.share_batch + share * batch_s,
        batch2=_FADE * costs.batch2 + batch_s * batch_s,
    )


def fixed_s(costs: BatchCosts, executors: int) -> float | None:
    """The fixed part f on so many executors, s; None while it cannot be told: then a batch shows a lower bound.

    >>> costs = BatchCosts()
    >>> for number in range(24):
    ...     n, records = 1 + number % 3, 1000.0 * (1 + number % 7)
    ...     costs = watched(costs, number, n, records, 0.5 + 3 / n + records / (500 * n))
    >>> round(fixed_s(costs, 3), 3), round(fixed_s(costs, 1), 3)
    (1.5, 3.5)
    """
    w = costs.weight
    if w < _FEWEST:
        return None
    x, z, y = costs.inverse / w, costs.share / w, costs.batch / w
    xx, xz, zz = costs.inverse2 / w - x * x, costs.cross / w - x * z, costs.share2 / w - z * z
    xy, zy = costs.inverse_batch / w - x * y, costs.share_batch / w - z * y
    if zz <= _SPREAD * z * z:
        return None
    bend = xx - xz * xz / zz
    per_inverse = max(0.0, (xy - xz * zy / zz) / bend) if bend > _SPREAD * x * x else 0.0
    per_share = (zy - per_inverse * xz) / zz
    left = max(0.0, costs.batch2 / w - y * y - per_inverse * xy - per_share * zy) * w / (w - 3)
    doubt = _DOUBT * math.sqrt(left / w * (1 + z * z / zz))
    return max(0.0, y - per_inverse * x - per_share * z + per_inverse / executors - doubt)


def capacity_shown(records: float, batch_s: float, fixed: float, period_s: float) -> float:
    """C of the executors that worked on a batch, records/s.

    >>> capacity_shown(records=4000.0, batch_s=5.0, fixed=1.0, period_s=20.0)
    950.0
    """
    fixed = min(fixed, _MOST_FIXED * min(batch_s, period_s))
    return records / (batch_s - fixed) * (period_s - fixed) / period_s
