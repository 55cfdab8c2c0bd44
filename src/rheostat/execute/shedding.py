"""Writes which share of the records is to be kept to the file that the sources read their orders from."""

from __future__ import annotations

from pathlib import Path

from rheostat.errors import ActuationError
from rheostat.model import SheddingPlan
from rheostat.spark.orders import Orders, now_ms, write_orders

_LEAST_VALID_S = 60.0
_VALID_SAMPLES = 4


class KeepOrders:
    """Renews the orders of one file with each decision; they end by themselves when nobody renews them.

    A file is written only once there is something to drop, and everything is kept again at the end.
    """

    def __init__(self, path: Path, sample_s: float) -> None:
        self._path = path
        self._valid_ms = round(1000 * max(_LEAST_VALID_S, _VALID_SAMPLES * sample_s))
        self._is_written = False
        self._number = 0

    def order(self, plan: SheddingPlan | None) -> None:
        """Keep what the plan says from the next batch on.

        Raises:
            ActuationError: the file cannot be written.
        """
        keep, above = ({}, {}) if plan is None else (plan.keep, plan.above)
        if not keep and not self._is_written:
            return
        now = now_ms()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._number = max(self._number + 1, now)  # also where the clock was set back
            until_ms = now + self._valid_ms
            write_orders(self._path, Orders(number=self._number, until_ms=until_ms, keep=keep, above=above))
        except OSError as error:
            message = f"the orders of the sources cannot be written: {error}"
            raise ActuationError(message) from error
        self._is_written = bool(keep)

    def close(self) -> None:
        """Keep everything again."""
        self.order(None)
