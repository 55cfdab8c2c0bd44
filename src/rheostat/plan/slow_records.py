"""How late records are: the share of slow ones, and the wait of the next one. See :mod:`rheostat.plan.reactive`."""

from __future__ import annotations

import math

from rheostat.model import Assessment

__all__ = ["expected_wait", "slow_records"]


def slow_records(excess: float, arrival_rate: float, interval_s: float) -> float:
    """Late records as a share of those that arrive in T: excess ÷ (arrival rate × T).

    >>> slow_records(300, 200, 15), slow_records(0, 0, 15), slow_records(1, 0, 15)
    (0.1, 0.0, inf)
    """
    if excess <= 0:
        return 0.0
    arrived = arrival_rate * interval_s
    return excess / arrived if arrived > 0 else math.inf


def expected_wait(seen: Assessment) -> float | None:
    """How long the backlog takes at the speed of the last batches, s; None where that is unknown.

    >>> expected_wait(Assessment(at=0.0, backlog=3000, processed_rate=200.0, batch_s=1.0, trigger_s=2.0))
    7.5
    """
    if seen.backlog is None or not seen.processed_rate or not seen.batch_s:
        return None
    speed = seen.processed_rate * max(seen.trigger_s or 0.0, seen.batch_s) / seen.batch_s
    return seen.backlog / speed
