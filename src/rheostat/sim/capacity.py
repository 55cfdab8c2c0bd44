"""Capacity, demand and price of a job, from its job file: the reference for scores and the optimum.

*Capacity* C(n): the largest rate r such that a warm batch of r·τ records ends within τ = max(trigger, L ÷ 2). Where the
batch cap is smaller than that batch, batches of the cap follow one another: C(n) = cap ÷ max(trigger, time of the cap's
batch), if it ends within τ. *Long-batch rate*: the rate of ever longer batches, in which the fixed part vanishes;
equal to C(n) where the cap binds. Neither has to ascend: one executor more than divides the tasks may not shorten
a wave, and with an exponent below 1 it lengthens it.

Assumed: warm, equal, undisturbed executors, the load spread as in the job file, no events. In a job with nodes the
executors are on the first node and those nearest to it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from rheostat.sim.jobfile import JobFile, RecordModel
from rheostat.sim.micro_batch import batch_work, crowd
from rheostat.sim.tasks import makespan

_RELATIVE = 1e-12
_HUGE = 1e15


def batch_s(job: JobFile, records: float, executors: int) -> float:
    """Time of a warm batch, s: planning + stages + commit, no shorter than the sink allows."""
    even = job.partition_shares is None and job.partition_skew == 0
    sizes = [job.shares[0] * records] * job.partitions if even else [share * records for share in job.shares]
    slots = executors * job.executor.slots
    work = math.fsum(makespan(each, slots) for each in batch_work(job, sizes, slots)) if records > 0 else 0.0
    if job.sink.records_per_s is not None:
        work = max(work, records * crowd(job, executors) / job.sink.records_per_s)
    return job.driver.planning_s + work + job.driver.commit_s + job.state.commit_s


def capacity(job: JobFile, executors: int) -> float:
    """C(n), records/s."""
    if executors < 1:
        return 0.0
    if job.record is not None and job.model == "record":
        nodes = job.nodes  # taken nearest first, so that the demand is the same for all policies
        distance_ms = None if nodes is None else nodes.distance_ms(nodes.nearest(executors))
        return record_capacity(job.record, executors, distance_ms)
    most = _HUGE if job.batch_cap is None else float(job.batch_cap)
    period_s = job.period_s
    fits = _find_largest(lambda records: batch_s(job, records, executors) - period_s, most)
    if fits >= most:
        return most / max(job.trigger_s, batch_s(job, most, executors))
    return fits / period_s


def long_batch_rate(job: JobFile, executors: int) -> float:
    """Records/s of ever longer batches; never less than C(n)."""
    if executors < 1:
        return 0.0
    if job.model == "record":
        return capacity(job, executors)
    most = _HUGE if job.batch_cap is None else float(job.batch_cap)
    rate = most / max(job.trigger_s, batch_s(job, most, executors))
    return max(rate, capacity_curve(job)[executors])


@lru_cache(maxsize=64)
def capacity_curve(job: JobFile) -> tuple[float, ...]:
    """C(0) … C(n_max), records/s; C(0) = 0."""
    return tuple(capacity(job, executors) for executors in range(job.n_max + 1))


def best_curve(job: JobFile) -> tuple[float, ...]:
    """Upper bound for any placement: C(0) … C(n_max) at the least possible ND, records/s."""
    nodes, record = job.nodes, job.record
    if nodes is None or record is None or job.model != "record":
        return capacity_curve(job)
    return tuple(record_capacity(record, n, nodes.least_ms(n)) for n in range(job.n_max + 1))


def demand(job: JobFile, rate: float) -> int:
    """The smallest n ≥ n_min with C(n) ≥ ``rate``; n_max if there is none."""
    curve = capacity_curve(job)
    enough = (n for n in range(job.n_min, job.n_max + 1) if curve[n] >= rate * (1 - _RELATIVE))
    return next(enough, job.n_max)


def record_capacity(model: RecordModel, executors: int, distance_ms: float | None = None) -> float:
    """C(n, ND) of a record-at-a-time job, records/s, at least 0.

    ``distance_ms``: ND, the greatest round trip between the nodes in use; None: that of the model. A table ignores it.

    >>> record_capacity(RecordModel(alpha=60.0, beta=0.9, gamma=0.2, round_trip_ms=20.0), 1)
    60.0
    >>> round(record_capacity(RecordModel(alpha=60.0, beta=0.9, gamma=0.2, round_trip_ms=20.0), 2), 1)
    108.0
    >>> record_capacity(RecordModel(table=((2, 100.0), (4, 160.0))), 3)
    130.0
    """
    if executors < 1:
        return 0.0
    if model.table is not None:
        return _interpolate(model.table, executors)
    if executors == 1:
        distance_ms = 0.0
    elif distance_ms is None:
        distance_ms = model.round_trip_ms
    return max(0.0, model.alpha * math.pow(executors, model.beta) - model.gamma * distance_ms)


def _interpolate(table: tuple[tuple[int, float], ...], executors: int) -> float:
    after = bisect_left(table, executors, key=lambda entry: entry[0])
    if after == 0 or after == len(table):
        number, rate = table[min(after, len(table) - 1)]
        return rate * executors / number
    (low, slow), (high, fast) = table[after - 1], table[after]
    return slow + (fast - slow) * (executors - low) / (high - low)


def _find_largest(excess: Callable[[float], float], most: float) -> float:
    """The largest x in [0, most] at which an ascending function is at most 0, to 12 digits; 0 if there is none.

    The next x is where a straight line through the last two points crosses 0: time over records is made of few straight
    pieces. It lies beyond the point itself once that is near, so that the interval closes; where it does not halve in
    two steps, its middle is taken.
    """
    low, high = 0.0, most
    before, at = (high, excess(high)), (low, excess(low))
    if before[1] <= 0 or at[1] > 0:
        return most if before[1] <= 0 else low
    widths = [math.inf, math.inf]
    while (near := _RELATIVE * high) < high - low and high > _RELATIVE:
        rise = at[1] - before[1]
        guess = at[0] - at[1] * (at[0] - before[0]) / rise if rise else low
        guess = max(guess, at[0] + near / 2) if at[0] == low else min(guess, at[0] - near / 2)
        if not low < guess < high or high - low > widths[-2] / 2:
            guess = (low + high) / 2
        widths.append(high - low)
        before, at = at, (guess, excess(guess))
        low, high = (low, guess) if at[1] > 0 else (guess, high)
    return low


# Price of a run: executors, changes of their number, and time over the objective.

SECONDS_PER_CHANGE = 60.0
"""Price of a change in executor-seconds: a cold batch, a reload of state. Without it the cheapest policy would
oscillate."""


@dataclass(frozen=True, slots=True)
class CostParts:
    """Cost components of a run, which can be priced at any weight.

    Executors are paid from their request until they are gone; changes are those of the requested number; violation
    hours are hours in which the lag exceeded the objective.
    """

    executor_hours: float
    changes: int
    violation_hours: float

    def cost(self, weight: float) -> float:
        """Total in executor-hours; an hour over the objective costs ``weight`` executor-hours.

        >>> CostParts(executor_hours=10.0, changes=6, violation_hours=0.5).cost(4.0)
        12.1
        """
        return total_cost(self.executor_hours, self.changes, self.violation_hours, weight)


def total_cost(executor_hours: float, changes: int, violation_hours: float, weight: float) -> float:
    """``executor-hours + 60 s ÷ 3600 × changes + weight × violation-hours``, in executor-hours."""
    return executor_hours + SECONDS_PER_CHANGE / 3600 * changes + weight * violation_hours


def violation_weight(job: JobFile, peak: float) -> int:
    """w, the smallest n whose C(n) carries the peak, records/s: an hour over the objective costs as much as safety."""
    return demand(job, peak)
