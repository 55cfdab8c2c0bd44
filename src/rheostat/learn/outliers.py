"""Outliers: rows that the others contradict. They are found by what must hold for any job, not by a fitted curve.

* *A stall* (a pause of the machine, of a broker): slow records where almost all samples with no less load on no more
  executors had fewer. A violation at the limit of the capacity is never one: nothing beyond it went well.
* *A wrong rate*: a workload that is more than three times that of the samples before and after it, or less than a
  third, for one sample; rates are means over a window, they cannot do that. Where it happens often, it is the load.

A residual from a fitted curve does not tell a stall from what must be learned: where most shares are 0, each violation
is far out (``rheostat bench train`` shows it).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rheostat.learn.polynomial import Array
from rheostat.learn.samples import Sample

__all__ = ["contradicted"]

Flags = npt.NDArray[np.bool_]

_WITNESSES = 10
"""So many samples at least must speak against a row."""
_AGREED = 0.9
"""And such a share of those that are harder."""
_JUMP = 3.0
_STEADY = 1.5
"""The samples before and after a wrong rate differ by no more than this factor."""
_RARE = 0.05
"""Wrong rates are at most this share of the rows."""
_CHUNK = 512


def contradicted(rows: Sequence[Sample], objective: float) -> tuple[int, ...]:
    """The rows to leave out, ascending.

    Args:
        rows: by time.
        objective: share of slow records that is a violation; shares differ if more than half of it is between them.
    """
    loads = np.array([row.workload for row in rows])
    executors = np.array([row.executors for row in rows])
    slow = np.array([row.slow for row in rows])
    out = _wrong_rates(loads.sum(axis=1))
    right = np.flatnonzero(~out)
    out[right] = _stalls(loads[right], executors[right], slow[right], objective / 2)
    return tuple(np.flatnonzero(out).tolist())


def _wrong_rates(load: Array) -> Flags:
    out = np.zeros(load.size, dtype=np.bool_)
    before, at, after = load[:-2], load[1:-1], load[2:]
    low, high = np.minimum(before, after), np.maximum(before, after)
    out[1:-1] = (high <= _STEADY * low) & ((at > _JUMP * high) | (_JUMP * at < low))
    return out if out.sum() <= _RARE * out.size else np.zeros_like(out)


def _stalls(loads: Array, executors: npt.NDArray[np.int64], slow: Array, margin: float) -> Flags:
    found = [np.zeros(0, dtype=np.bool_)]
    suspects = np.flatnonzero(slow > margin)
    for part in (suspects[first : first + _CHUNK] for first in range(0, suspects.size, _CHUNK)):
        harder = (loads >= loads[part, None]).all(axis=2) & (executors <= executors[part, None])
        against = (harder & (slow < slow[part, None] - margin)).sum(axis=1)
        found.append((against >= _WITNESSES) & (against >= _AGREED * (harder.sum(axis=1) - 1)))
    out = np.zeros(slow.size, dtype=np.bool_)
    out[suspects] = np.concatenate(found)
    return out
