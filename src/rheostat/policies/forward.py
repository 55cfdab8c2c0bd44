"""Playing the next batches forward: for how long the lag will be over its limit, if nothing, or something, is done.

A batch begins when the one before it has ended, and no earlier than a trigger interval after that began. It takes what
waits, up to the cap, and lasts F(n) + G(n)·R (:mod:`rheostat.learn.batch_cost`). The lag rises with time until the
batch ends, and then falls to the age of its youngest record. So the time over the limit is exact for each batch.

Executors that join within a batch work on the rest of it; their first tasks are cold, which makes the batch longer by
what was measured. Those after the first full one are longer, too, while executors warm up. Executors leave between two
batches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from rheostat.learn.arrivals import Curve
from rheostat.learn.batch_cost import Costs

_MOST_BATCHES = 60
_OVERDUE = 0.5

Joins = Sequence[tuple[float, int]]
"""When executors join, s from now, ascending, and how many each time; fewer than 0 leave."""


class Forecast(NamedTuple):
    """What arrives from now on: ``rate`` records/s, growing by ``ramp`` records/s² for ``ramp_s`` seconds.

    >>> rises = Forecast(100.0, 2.0, 10.0)
    >>> rises.total(10.0), rises.total(20.0), rises.last_rate
    (1100.0, 2300.0, 120.0)
    >>> [round(rises.time_of(records), 6) for records in (1100.0, 2300.0)]
    [10.0, 20.0]
    """

    rate: float
    ramp: float = 0.0
    ramp_s: float = 0.0

    @property
    def last_rate(self) -> float:
        return self.rate + self.ramp * self.ramp_s

    def total(self, after_s: float) -> float:
        """Records that have arrived then; fewer than 0 before now."""
        risen_s = min(max(after_s, 0.0), self.ramp_s)
        return self.rate * after_s + self.ramp * risen_s * (after_s - risen_s / 2)

    def time_of(self, records: float) -> float:
        """When so many have arrived, s from now."""
        if not self.ramp or records <= 0:
            return records / self.rate if self.rate > 0 else math.inf
        in_ramp = self.total(self.ramp_s)
        if records > in_ramp:
            return self.ramp_s + (records - in_ramp) / self.last_rate
        return (math.sqrt(self.rate * self.rate + 2 * self.ramp * records) - self.rate) / self.ramp


class Position(NamedTuple):
    """Where the job stands now, which is second 0.

    Attributes:
        executors: registered, less those that are leaving.
        in_flight, waiting: records of the running batch, and not yet planned.
        started_s: when the last batch began, ≤ 0.
        oldest_s: when the oldest uncommitted record arrived, ≤ 0.
        cold_s: what executors that have joined add to the running batch, or to the next one.
        joined_s: when the last ones joined, ≤ 0; None: long ago.
        first_is_over: whether a batch has ended that began with them.
        limit_s: lag beyond which the objective is missed.
        curve, at: the arrivals so far, and what time on it is now.
    """

    executors: int
    in_flight: float
    waiting: float
    started_s: float
    oldest_s: float
    trigger_s: float
    limit_s: float
    curve: Curve
    at: float
    cold_s: float = 0.0
    joined_s: float | None = None
    first_is_over: bool = True


class Outlook(NamedTuple):
    """What is to come: seconds over the limit; the greatest lag of the last batch, and the executors then."""

    over_s: float
    lag_s: float
    executors: int


def play(position: Position, costs: Costs, load: Forecast, joins: Joins, horizon_s: float) -> Outlook:
    """Play batches until one begins after the horizon, with this load.

    10 s of records are 2 s of work for one executor, and those of a batch wait for the trigger before it:

    >>> from rheostat.learn.batch_cost import BatchCost
    >>> model = BatchCost(stages=((1, 0.0, 0.002),))
    >>> start = Position(1, 0, 1000, -10.0, -10.0, 10.0, 11.0, Curve((0.0, 10.0), (0.0, 1000.0)), 10.0)
    >>> play(start, Costs(model), Forecast(100.0), (), 25.0)
    Outlook(over_s=3.0, lag_s=12.0, executors=1)
    """
    curve, limit_s, trigger_s, cap = position.curve, position.limit_s, position.trigger_s, costs.cap or math.inf
    executors, planned, oldest_s, begun_s = position.executors, -position.waiting, position.oldest_s, position.started_s
    upcoming, over_s, last_s, lag_s, joined = list(reversed(joins)), 0.0, 0.0, 0.0, 0
    records, begin_s, cold_s = position.in_flight, position.started_s, position.cold_s
    joined_s, is_later = -math.inf if position.joined_s is None else position.joined_s, position.first_is_over
    for _ in range(_MOST_BATCHES):
        if records <= 0:
            begin_s = max(last_s, begun_s + trigger_s)
            if begin_s > horizon_s:
                break
            while upcoming and upcoming[-1][0] <= begin_s:
                at_s, count = upcoming.pop()
                executors, joined = executors + count, joined + max(0, count)
                joined_s, is_later = (at_s, False) if count > 0 else (joined_s, is_later)
            records = min(load.total(begin_s) - planned, cap)
            if records <= 0:
                break
            planned, begun_s = planned + records, begin_s
        fixed_s, record_s = costs.batch(executors)
        work_s = fixed_s + record_s * records
        if is_later:
            work_s *= costs.slower(begin_s + work_s / 2 - joined_s)
        is_later = is_later or joined_s <= begin_s
        end_s, cold_s = begin_s + work_s + cold_s + costs.cold_s(joined), 0.0
        if end_s < 0:  # it is overdue, and lasts on for half as long as it has been so far
            end_s *= -_OVERDUE
        while upcoming and upcoming[-1][0] < end_s:
            at_s, count = upcoming.pop()
            _, faster_s = costs.batch(executors + count)
            end_s = at_s + (end_s - at_s) * min(1.0, faster_s / record_s)
            if count > 0:  # cold tasks of one batch run side by side
                joined_s, is_later = at_s, False
                end_s += costs.cold_s(joined + count) - costs.cold_s(joined)
                joined += count
            executors, record_s = executors + count, faster_s
        joined = 0
        over_s += max(0.0, end_s - max(last_s, oldest_s + limit_s))
        lag_s, last_s, records = end_s - oldest_s, end_s, 0.0
        oldest_s = load.time_of(planned) if planned >= 0 else curve.time_of(curve.total + planned) - position.at
    return Outlook(over_s, lag_s, executors)
