"""The lag of a run over time, exactly: between two commits it grows by a second each second, at a commit it falls.

A span is a stretch in which the lag grows from ``low`` to ``low + length`` seconds; it spends equal times at every lag
between. Where nothing is uncommitted the lag is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rheostat.sim.history import History

__all__ = ["Lag"]

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag from one time to another.

    Attributes:
        seconds: how long that is; > 0.
        low, length: of each span, s.
    """

    seconds: float
    low: NDArray[np.float64]
    length: NDArray[np.float64]

    @classmethod
    def of(cls, history: History, start: float, end: float) -> Lag:
        """Between ``start`` and ``end`` of a run; start < end."""
        spans = np.array(list(history.lag_spans(start, end))).reshape(-1, 3)
        return cls(end - start, spans[:, 2], spans[:, 1] - spans[:, 0])

    @property
    def greatest(self) -> float:
        """The greatest lag, s: the one just before a commit."""
        return float(np.max(self.low + self.length, initial=0.0))

    def seconds_over(self, limit: float) -> float:
        """Time in which the lag exceeds ``limit`` ≥ 0, s."""
        return float(np.clip(self.low + self.length - np.maximum(self.low, limit), 0.0, None).sum())

    def quantile(self, share: float) -> float:
        """The smallest lag that is not exceeded for ``share`` of the time, s; 0 < share ≤ 1.

        ``F(v) = time at 0 + Σ over spans of min(length, max(0, v − low))`` is a line between any two ends of spans.
        """
        wanted = share * self.seconds
        passed = self.seconds - float(self.length.sum())
        if passed >= wanted * (1 - _ROUNDING):
            return 0.0
        edges = np.concatenate([self.low, self.low + self.length])
        bends = np.concatenate([np.ones_like(self.low), -np.ones_like(self.low)])
        order = np.argsort(edges, kind="stable")
        edges, slopes = edges[order], np.cumsum(bends[order])
        times = passed + np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(edges))])
        after = min(int(np.searchsorted(times, wanted)), len(times) - 1)
        if times[after] <= wanted or after == 0:
            return float(edges[after])
        return float(edges[after - 1] + (wanted - times[after - 1]) / slopes[after - 1])
