"""When each record is due: the inverse of a rate curve's integral. Open loop: nobody's pace but the curve's counts."""

from __future__ import annotations

import math

from rheostat.load.curves import RateCurve

__all__ = ["Schedule"]

_ROUNDING = 1e-6
_HALVINGS = 60


class Schedule:
    """Record k (from 0) is due at the first moment t with ``cumulative(t) ≥ k + 1``.

    A millionth of a record is forgiven, so that 0.1 records/s for 30 s is three records whatever the rounding.

    >>> from rheostat.load.curves import constant
    >>> schedule = Schedule(constant(100, 10))
    >>> schedule.total, schedule.due(0.995), round(schedule.due_at(99), 6)
    (1000, 99, 1.0)
    """

    def __init__(self, curve: RateCurve) -> None:
        self.curve = curve
        self.duration = curve.duration
        self.total = self._records(curve.duration)

    def due(self, t: float) -> int:
        """How many records are due by ``t`` seconds: those with numbers below this."""
        return min(self._records(t), self.total)

    def due_at(self, record: int) -> float:
        """Seconds at which a record is due.

        Raises:
            IndexError: the curve has no such record.
        """
        if not 0 <= record < self.total:
            message = f"record {record} of {self.total}"
            raise IndexError(message)
        low, high = 0.0, self.duration
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self._records(middle) > record:
                high = middle
            else:
                low = middle
            if high - low < 1e-6:
                break
        return high

    def _records(self, t: float) -> int:
        return math.floor(self.curve.cumulative(t) + _ROUNDING)
