"""Pre-decision and decision of ``router``: whether, and which way. S5."""

from __future__ import annotations

from dataclasses import replace

from rheostat.analyze.regression import Point
from rheostat.model import Code
from rheostat.plan import router_table as tables
from rheostat.plan.capacity import cap_limits, expected_wait
from rheostat.plan.router_load import is_outlier, up_to_now
from rheostat.plan.router_turn import Turn
from rheostat.plan.words import batches, carry, executors, per_second, percent, records, seconds, several

__all__ = ["decide", "pre_decision"]


def pre_decision(turn: Turn) -> Turn:
    """Whether a decrease may be made, and rows collected."""
    found = _unsettled(turn)
    return turn if found is None else replace(turn, unsettled=found)


def _unsettled(turn: Turn) -> tuple[Code, str] | None:
    seen, sizes = turn.seen, turn.state.sizes
    if seen.failed_tasks:
        return Code.TASK_FAILURES, f"{several(seen.failed_tasks, 'task')} failed of late"
    if seen.executors != turn.n:
        return Code.WARMING_UP, f"{seen.executors} of {executors(turn.n)} registered"
    if len(sizes) > 1 and turn.own_at < sizes[-1][0]:
        return Code.WARMING_UP, f"the figures are {seconds(seen.at - turn.own_at)} old, of before the last change"
    if seen.batches < turn.options.settle_batches:
        wanted = turn.options.settle_batches
        return Code.WARMING_UP, f"{seen.batches} of {batches(wanted)} finished at this number"
    return None


def decide(turn: Turn) -> Turn:
    """Up, down or stay; and the row that the sample is worth."""
    if turn.unsettled is not None and turn.options.unsettled == "hold":
        code, text = turn.unsettled
        return turn.staying(code, f"{text}: no decision")
    saturation, load = _saturation(turn), turn.state.load
    fresh = turn.options.decide_every_s is None
    turn = replace(turn, expected=up_to_now(load, turn.options.spikes) if fresh else load.fit)
    if turn.may_record:
        turn = _recorded(turn, saturated=saturation is not None)
    why = saturation or _eager(turn)
    if why is None:
        return _fewer(turn)
    if turn.seen.sink is not None:
        return turn.staying(Code.SICK_SINK, f"{why}, but executors do not help a sick sink: {turn.seen.sink}")
    if saturation is not None and cap_limits(turn.seen):
        text = "the batch cap limits the rate, not the executors; raise maxOffsetsPerTrigger"
        return turn.staying(Code.USELESS_EXECUTORS, f"{why}, but {text}")
    return replace(turn, move="up").why(Code.UNDERSIZED if saturation is None else Code.SLA_VIOLATED, why)


def _recorded(turn: Turn, *, saturated: bool) -> Turn:
    """The turn with the row of this sample, keyed by the size at the metric's own time."""
    options, table, sample = turn.options, turn.state.table, turn.seen
    if turn.size_then != sample.executors or turn.own_at != sample.at:
        sample = replace(sample, at=turn.own_at, executors=turn.size_then)
    if options.rows == "learned":
        change = options.record_change
        return turn.remembering(tables.learned(table, sample, options.memory, change, saturated=saturated))
    if _lag(turn) is None or _utilization(turn) is None:
        return turn
    return turn.remembering(tables.saturated(table, sample, options.record_change))


# ------------------------------------------------------------------------------------------------------ up


def _saturation(turn: Turn) -> str | None:
    """Significant lag, or utilization above the safe threshold, in words; None: neither."""
    return _lag(turn) or _utilization(turn)


def _lag(turn: Turn) -> str | None:
    """Significant lag, where it is beyond a healthy one or grows, in words."""
    wait, seen = expected_wait(turn.seen), turn.seen
    limit = turn.options.significant_wait * turn.context.objective.lag_s
    if wait is None or wait < limit or not (seen.backlog_excess or (seen.processed_rate or 0.0) < turn.rate):
        return None
    return f"{several(seen.backlog or 0, 'record needs', 'records need')} {seconds(wait)} ≥ {seconds(limit)}"


def _utilization(turn: Turn) -> str | None:
    by_batches = turn.options.utilization == "occupancy"
    used, limit = turn.seen.occupancy if by_batches else turn.seen.busy_ratio, turn.options.safe_utilization
    if used is None or used < limit or turn.rate <= 0:
        return None
    return f"utilization {percent(used)} ≥ {percent(limit)}"


def _eager(turn: Turn) -> str | None:
    """A predicted rate beyond what the table has for the present size, in words."""
    carried = turn.state.table.rows.carried(turn.n) if turn.options.eager else None
    if carried is None:
        return None
    predicted, limit = turn.fit.at(turn.horizon_at), turn.options.eager_utilization * carried
    expected = max(predicted, turn.rate)
    if expected <= limit or (predicted <= limit and _rides_out(turn, carried)):
        return None
    within = seconds(turn.horizon_at - turn.seen.at)
    return f"{per_second(expected)} are expected within {within}, {carry(turn.n)} {per_second(carried)}"


def _rides_out(turn: Turn, carried: float) -> bool:
    """Whether the present rate is a spike, and there is time to see whether it stays.

    That is so if the lag would not be significant even if it stayed: until the outliers are enough to reset the
    baseline and an increase is done, counted from the time of the figures, the wait grows by rate ÷ carried − 1 each
    second.
    """
    options, load, wait = turn.options, turn.state.load, expected_wait(turn.seen)
    present = Point(turn.own_at - turn.context.rate_window_s / 2, turn.rate)
    if not options.ride_out or wait is None or not (load.outliers or is_outlier(load.fit, present, options.spikes)):
        return False
    buckets = options.outliers_to_reset - len(load.outliers)
    takes_s = buckets * options.bucket_s + turn.horizon_at - turn.own_at
    limit = options.significant_wait * turn.context.objective.lag_s
    return wait + max(0.0, turn.rate / carried - 1) * takes_s < limit


# ---------------------------------------------------------------------------------------------------- down


def _fewer(turn: Turn) -> Turn:
    """Down, where there is no lag and no anticipated increase."""
    if turn.unsettled is not None:
        code, text = turn.unsettled
        return turn.staying(code, f"{text}: no decrease")
    if turn.seen.backlog_excess:
        return turn.staying(Code.CATCHING_UP, f"{records(turn.seen.backlog_excess)} left to catch up")
    rise = _anticipated(turn) if turn.options.anticipation == "any" else None
    if rise is not None:
        return turn.staying(Code.FORECAST, f"{per_second(rise)} more are expected: no decrease")
    return replace(turn, move="down")


def _anticipated(turn: Turn) -> float | None:
    """By how much the rate is expected to rise, if that is more than σ, records/s; None: it is not."""
    fit = turn.fit
    rise = fit.at(turn.horizon_at) - fit.at(turn.own_at)
    return rise if rise > max(fit.deviation, turn.options.sigma_floor * turn.rate) else None
