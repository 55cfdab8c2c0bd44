"""Pre-decision and decision of ``router``: whether, and which way. S5."""

from __future__ import annotations

from dataclasses import replace

from rheostat.analyze.regression import Point, line
from rheostat.model import Code
from rheostat.plan import router_table as tables
from rheostat.plan.capacity import cap_limits
from rheostat.plan.router_load import is_outlier, up_to_now
from rheostat.plan.router_turn import RouterState, Turn
from rheostat.plan.slow_records import expected_wait
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
    wanted = turn.rules.settle_batches
    if seen.batches < wanted:
        return Code.WARMING_UP, f"{seen.batches} of {batches(wanted)} finished at this number"
    return None


def decide(turn: Turn) -> Turn:
    """Up, down or stay; and the row that the sample is worth."""
    if turn.unsettled is not None and turn.rules.options.unsettled == "hold":
        code, text = turn.unsettled
        return turn.staying(code, f"{text}: no decision")
    saturation, state = _saturation(turn), turn.state
    if turn.may_record:
        table = _recorded(turn, saturated=saturation is not None)
        state = RouterState(state.load, table, state.sizes, state.decided_at, state.streak, state.recovery)
    fit = up_to_now(state.load, turn.rules.spikes) if turn.rules.timely else state.load.fit
    turn = turn.expecting(state, fit or line((Point(turn.own_at, turn.rate),)), "down")
    why = saturation or _eager(turn)
    if why is None:
        return _fewer(turn)
    if turn.seen.sink is not None:
        return turn.staying(Code.SICK_SINK, f"{why}, but executors do not help a sick sink: {turn.seen.sink}")
    if saturation is not None and cap_limits(turn.seen):
        text = "the batch cap limits the rate, not the executors; raise maxOffsetsPerTrigger"
        return turn.staying(Code.USELESS_EXECUTORS, f"{why}, but {text}")
    return turn.moving("up", Code.UNDERSIZED if saturation is None else Code.SLA_VIOLATED, why)


def _recorded(turn: Turn, *, saturated: bool) -> tables.Table:
    """The table with the row of this sample, keyed by the size at the metric's own time."""
    rules, table, sample = turn.rules, turn.state.table, turn.seen
    if turn.size_then != sample.executors or turn.own_at != sample.at:
        sample = replace(sample, at=turn.own_at, executors=turn.size_then)
    if rules.learned:
        return tables.learned(table, sample, rules.memory, rules.record_change, saturated=saturated)
    if _lag(turn) is None or _utilization(turn) is None:
        return table
    return tables.saturated(table, sample, rules.record_change)


# ------------------------------------------------------------------------------------------------------ up


def _saturation(turn: Turn) -> str | None:
    """Significant lag, or utilization above the safe threshold, in words; None: neither."""
    return _lag(turn) or _utilization(turn)


def _lag(turn: Turn) -> str | None:
    """Significant lag, where it is beyond a healthy one or grows, in words."""
    seen, limit = turn.seen, turn.rules.significant_s
    wait = expected_wait(seen)
    if wait is None or wait < limit or not (seen.backlog_excess or (seen.processed_rate or 0.0) < turn.rate):
        return None
    return f"{several(seen.backlog or 0, 'record needs', 'records need')} {seconds(wait)} ≥ {seconds(limit)}"


def _utilization(turn: Turn) -> str | None:
    seen, limit = turn.seen, turn.rules.safe_utilization
    used = seen.occupancy if turn.rules.by_batches else seen.busy_ratio
    if used is None or used < limit or turn.rate <= 0:
        return None
    return f"utilization {percent(used)} ≥ {percent(limit)}"


def _eager(turn: Turn) -> str | None:
    """A predicted rate beyond what the table has for the present size, in words."""
    carried = turn.state.table.rows.carried(turn.n) if turn.rules.eager else None
    if carried is None:
        return None
    predicted, limit = turn.fit.at(turn.horizon_at), turn.rules.eager_utilization * carried
    if predicted <= limit and (turn.rate <= limit or _rides_out(turn, carried)):
        return None
    expected = max(predicted, turn.rate)
    within = seconds(turn.horizon_at - turn.seen.at)
    return f"{per_second(expected)} are expected within {within}, {carry(turn.n)} {per_second(carried)}"


def _rides_out(turn: Turn, carried: float) -> bool:
    """Whether the present rate is a spike, and there is time to see whether it stays.

    That is so if the lag would not be significant even if it stayed: until the outliers are enough to reset the
    baseline and an increase is done, counted from the time of the figures, the wait grows by rate ÷ carried − 1 each
    second.
    """
    rules, load, wait = turn.rules, turn.state.load, expected_wait(turn.seen)
    options, present = rules.options, Point(turn.own_at - rules.half_window_s, turn.rate)
    if not options.ride_out or wait is None or not (load.outliers or is_outlier(load.fit, present, rules.spikes)):
        return False
    buckets = options.outliers_to_reset - len(load.outliers)
    takes_s = buckets * options.bucket_s + turn.horizon_at - turn.own_at
    return wait + max(0.0, turn.rate / carried - 1) * takes_s < rules.significant_s


# ---------------------------------------------------------------------------------------------------- down


def _fewer(turn: Turn) -> Turn:
    """Down, where there is no lag and no anticipated increase."""
    if turn.unsettled is not None:
        code, text = turn.unsettled
        return turn.staying(code, f"{text}: no decrease")
    if turn.seen.backlog_excess:
        return turn.staying(Code.CATCHING_UP, f"{records(turn.seen.backlog_excess)} left to catch up")
    rise = _anticipated(turn) if turn.rules.any_rise else None
    if rise is not None:
        return turn.staying(Code.FORECAST, f"{per_second(rise)} more are expected: no decrease")
    return turn


def _anticipated(turn: Turn) -> float | None:
    """By how much the rate is expected to rise, if that is more than σ, records/s; None: it is not."""
    fit = turn.fit
    rise = fit.at(turn.horizon_at) - fit.at(turn.own_at)
    return rise if rise > max(fit.deviation, turn.rules.options.sigma_floor * turn.rate) else None
