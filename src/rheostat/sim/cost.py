"""What a run costs: executors, changes of their number, and time over the objective."""

from __future__ import annotations

from dataclasses import dataclass

from rheostat.sim.capacity import capacity_curve, demand
from rheostat.sim.jobfile import JobFile

__all__ = ["SECONDS_PER_CHANGE", "CostParts", "total_cost", "violation_weight"]

SECONDS_PER_CHANGE = 60.0
"""Executor-seconds that a change of the number costs: a cold batch, a reload of state. Without a price on changes the
cheapest policy would be one that oscillates."""


@dataclass(frozen=True, slots=True)
class CostParts:
    """What a run used, so that it can be priced at any weight without running again.

    Attributes:
        executor_hours: paid for, from each executor's request until it is gone; ≥ 0.
        changes: how often the number asked for changed; ≥ 0.
        violation_hours: hours in which the lag was over the objective; ≥ 0.
    """

    executor_hours: float
    changes: int
    violation_hours: float

    def cost(self, weight: float) -> float:
        """Executor-hours, all told, with an hour over the objective at ``weight`` executor-hours.

        >>> CostParts(executor_hours=10.0, changes=6, violation_hours=0.5).cost(4.0)
        12.1
        """
        return total_cost(self.executor_hours, self.changes, self.violation_hours, weight)


def total_cost(executor_hours: float, changes: int, violation_hours: float, weight: float) -> float:
    """``executor-hours + 60 s ÷ 3600 × changes + weight × violation-hours``, in executor-hours."""
    return executor_hours + SECONDS_PER_CHANGE / 3600 * changes + weight * violation_hours


def violation_weight(job: JobFile, peak: float) -> int:
    """w, the smallest n whose C(n) carries the peak (records/s).

    An hour over the objective costs what it takes to be safe. Fixed for a job and a load, whatever a policy does.
    """
    return demand(job, peak, capacity_curve(job))
