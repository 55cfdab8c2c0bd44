"""The share of time in which a job does useful work, for policies that need a *true processing rate*."""

from __future__ import annotations

from typing import Literal

from rheostat.model import Assessment

__all__ = ["Measure", "busy_share"]

Measure = Literal["tasks", "batches"]


def busy_share(seen: Assessment, measure: Measure) -> float | None:
    """Busy time ÷ time, in [0, 1]; None where it is unknown.

    ``tasks``
        the share of slot time in tasks, over the rate window: what an engine that processes record by record calls
        busy. A micro-batch job does not reach 1: while the driver plans and commits, or a last wave is thin, slots
        are free that no record could use.
    ``batches``
        batch ÷ max(trigger, batch), of the last batch: the share of time in which a batch is worked on. 1 is where
        the next batch cannot start in time.

    >>> seen = Assessment(at=0.0, busy_ratio=0.5, batch_s=6.0, trigger_s=10.0)
    >>> busy_share(seen, "tasks"), busy_share(seen, "batches")
    (0.5, 0.6)
    """
    if measure == "tasks":
        return seen.busy_ratio
    if not seen.batch_s:
        return None
    return seen.batch_s / max(seen.trigger_s or 0.0, seen.batch_s)
