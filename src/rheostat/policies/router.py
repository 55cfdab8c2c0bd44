"""``router``: a chain of small rules, short-term prediction and a performance table. S5, the router autoscaler.

Each decision passes through :data:`CHAIN`, a tuple of pure stages from one :class:`Turn` to the next:

1. **collect**: the arrival rate goes into its time bucket, without spikes. Figures count for their own time, which
   lies the delay of the metrics in the past.
2. **pre-decision**: while figures do not belong to the current target, no rows are collected and there is no decrease;
   with ``unsettled="hold"`` there is no decision at all.
3. **decide**: *up* if and only if the sink is healthy and there is significant lag, or utilization above the safe
   threshold, or, with ``eager``, a predicted rate beyond the table's for the current target. *Down* if and only if
   there is no lag and no anticipated increase. Rows are written here (:mod:`rheostat.policies.router_table`).
4. **size**: the target rate, the look-up in the table, then the target utilization; a decrease must also carry the
   upper end of the prediction interval.
5. **post-decision**: cooldowns, largest step, largest size, limits by partitions. The guard then shapes the result.

*Lag* is the time in which the job would process all that is buffered, at the speed of its batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field

from rheostat.decide.policy import PolicyContext, cap_limits, has_finished, tasks_fail
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.policies import router_table as tables
from rheostat.policies.capacity import (
    BuiltInPolicy,
    PolicyOptions,
    Recovery,
    Spike,
    batch_speed,
    count_surplus,
    due_in_s,
    expected_wait,
    find_miss,
    follow_recovery,
    follow_spike,
    is_at_limit,
    may_miss,
    propose_nothing,
    rescale_s,
    spike_rate,
    valid_target,
)
from rheostat.policies.router_table import Table
from rheostat.policies.trend import Fit, Point, line, trough_or_line
from rheostat.text import batches, carry, executors, per_second, percent, records, seconds, several

_LEAST_POINTS = 4
"""Points of a baseline from which on outliers are found: a line through three has one error left to judge by."""
_NO_CHANGE = Reason(ReasonCode.STEADY, "no reason for a change")
_KEPT_SIZES = 32
"""Changes of the target that are remembered: at one each 15 s, those of eight minutes."""


class RouterOptions(PolicyOptions):
    """Options of ``router``, with the defaults of the preset ``default``."""

    metrics_delay_s: float = Field(0.0, ge=0, le=3600)
    """Least age of the metrics when they arrive, s; the age that they report counts if it is more (S5: 120)."""
    decide_every_s: float | None = Field(None, gt=0, le=3600)
    """Time between two decisions, s; null: each sample (S5: 60 s)."""
    bucket_s: float = Field(60.0, gt=0, le=3600)
    """Length of the time buckets of the load, s (S5: 1 minute)."""
    window_s: float = Field(600.0, gt=0, le=86_400)
    """N: how far back the regression looks, s (S5 gives none)."""
    horizon_s: float = Field(30.0, ge=0, le=3600)
    """X: how far ahead the forecast looks, s; at least as long as a change takes (S5 gives none)."""
    deviations: float = Field(3.0, gt=0, le=100)
    """A rate that differs from the fit by more than so many σ is an outlier (S5: 3)."""
    sigma_floor: float = Field(0.05, ge=0, le=10)
    """Least σ, as a share of the predicted rate."""
    outliers_to_reset: int = Field(3, ge=1, le=1000)
    """Outliers in a row that reset the baseline (S5 gives none)."""
    significant_wait: float = Field(0.85, gt=0, le=100)
    """Lag is significant from this on: time to process the backlog ÷ the objective's lag."""
    utilization: Literal["occupancy", "busy"] = "occupancy"
    """Measure of utilization: batch time ÷ τ, or the share of slot time in tasks (S5: CPU)."""
    safe_utilization: float = Field(1.0, gt=0, le=100)
    """Utilization from which on executors are added (S5 gives none)."""
    eager: bool = True
    """Whether executors are added before there is lag, by regression and table (S5: future work)."""
    eager_utilization: float = Field(1.05, gt=0, le=10, json_schema_extra={"only_with": ["eager", "true"]})
    """Predicted rate ÷ the table's rate, from which on executors are added before there is lag."""
    ride_out: bool = Field(default=False, json_schema_extra={"only_with": ["eager", "true"]})
    """Whether eager waits to see if a spike stays, where the objective leaves the time for that."""
    rows: Literal["learned", "saturated", "both"] = "learned"
    """What makes a row: each batch (learned), the processed rate at every reason to go up (saturated, S5), or only if
    both lag and utilization are one (both, another slide of S5)."""
    memory: int | None = Field(10, ge=1, le=10_000, json_schema_extra={"only_with": ["rows", "learned"]})
    """Most measurements that count in a learned row; null: all of them."""
    version: str = Field("", max_length=100)
    """Version of the job; when it changes, the rows of the old version are put aside."""
    record_change: float = Field(1.5, gt=1, le=1000)
    """Factor by which the cost of a record must change before its rows are put aside."""
    catch_up_lags: float = Field(2.0, gt=0, le=10_000)
    """Catch-up time, in lags of the objective (S5 gives none)."""
    buffered: Literal["excess", "all"] = "excess"
    """What is to be caught up: the backlog beyond a healthy one, or all of it (S5)."""
    pause_up_s: float = Field(0.0, ge=0, le=3600)
    """How long an increase stops processing, s (S5: < 1 minute)."""
    pause_down_s: float = Field(0.0, ge=0, le=3600)
    """How long a decrease stops processing, s (S5: 1 to 3 minutes)."""
    utilization_up: float = Field(1.0, gt=0, le=1)
    """Share of the table's rate to be used after an increase (S5: 0.6)."""
    utilization_down: float = Field(1.0, gt=0, le=1)
    """Share of the table's rate to be used after a decrease (S5: 0.6)."""
    interval: float | None = Field(1.0, ge=0, le=100)
    """Half of the prediction interval that a decrease must carry, in deviations; null: not checked (S5)."""
    anticipation: Literal["needed", "any"] = "needed"
    """The increase that prevents a decrease: one that fewer executors do not carry, or any beyond σ (S5 gives none)."""
    samples_to_shrink: int = Field(4, ge=1, le=10_000)
    """Decisions in a row that must ask for fewer executors (S5: 1)."""
    settle_batches: int = Field(2, ge=0, le=1000)
    """Batches that must finish after a change before the new number is judged."""
    unsettled: Literal["rise", "hold"] = "rise"
    """After task failures or a change: increases only, or no decision at all (S5)."""
    least_partitions: float | None = Field(None, gt=0, le=10_000)
    """Least partitions for each slot, which limits the largest size; null: the guard's limit."""
    most_partitions: float | None = Field(None, gt=0, le=10_000)
    """Most partitions for each slot, which limits the smallest size; null: no limit."""
    cooldown_up_s: float = Field(0.0, ge=0, le=86_400)
    """Least time from a change to the next increase, s."""
    cooldown_down_s: float = Field(60.0, ge=0, le=86_400)
    """Least time from a change to the next decrease, s."""
    largest_step_up: int | None = Field(50, ge=1, le=100_000)
    """Largest increase at a time (S5: 50)."""
    largest_step_down: int | None = Field(None, ge=1, le=100_000)
    """Largest decrease at a time (S5: none)."""
    largest_size: int | None = Field(None, ge=1, le=100_000)
    """Largest number of executors; null: the bounds alone."""


FAITHFUL: Mapping[str, object] = {
    "metrics_delay_s": 120.0,
    "decide_every_s": 60.0,
    "window_s": 900.0,
    "horizon_s": 600.0,
    "significant_wait": 1.0,
    "utilization": "busy",
    "safe_utilization": 0.8,
    "eager": False,
    "rows": "saturated",
    "memory": None,
    "buffered": "all",
    "pause_up_s": 60.0,
    "pause_down_s": 180.0,
    "utilization_up": 0.6,
    "utilization_down": 0.6,
    "interval": None,
    "anticipation": "any",
    "samples_to_shrink": 1,
    "settle_batches": 1,
    "unsettled": "hold",
    "least_partitions": 1.0,
    "cooldown_up_s": 300.0,
    "cooldown_down_s": 900.0,
}


# ------------------------------------------------------------------------------------------------- the load


class Bucket(NamedTuple):
    """A time bucket: its number, how many samples it has, and the sums of their times and rates."""

    number: int
    samples: int
    time: float
    rate: float

    @property
    def point(self) -> Point:
        return Point(self.time / self.samples, self.rate / self.samples)


@dataclass(frozen=True, slots=True)
class Load:
    """The load: time buckets, and a baseline without spikes.

    Attributes:
        bucket: the one that is being filled.
        baseline: complete buckets without outliers, oldest first.
        outliers: the complete buckets since, all of them outliers.
        fit: of the baseline; None: no bucket is complete yet.
    """

    bucket: Bucket | None = None
    baseline: tuple[Point, ...] = ()
    outliers: tuple[Point, ...] = ()
    fit: Fit | None = None
    resets: int = 0


def is_outlier(fit: Fit | None, point: Point, options: RouterOptions) -> bool:
    """Whether a point lies beyond 3 σ of the fit to the points before it; False after fewer than four.

    >>> fit = line([Point(x, 10 + 2 * x + e) for x, e in enumerate((1, -1, 0, 0, -1, 1))])
    >>> options = RouterOptions.model_validate({"sigma_floor": 0.01})
    >>> is_outlier(fit, Point(6, 22 + 2.44), options), is_outlier(fit, Point(6, 22 + 2.46), options)
    (False, True)
    """
    if fit is None or fit.points < _LEAST_POINTS:
        return False
    expected = fit.at(point.at)
    deviation = max(fit.deviation, options.sigma_floor * abs(expected))
    return abs(point.value - expected) > options.deviations * deviation


def add_rate(load: Load, at: float, rate: float, options: RouterOptions) -> Load:
    """The load with one more rate, the mean around a time. Time that runs backwards starts anew."""
    number, bucket = int(at // options.bucket_s), load.bucket
    first = Bucket(number, 1, at, rate)
    if bucket is None or number < bucket.number:
        return Load(first, resets=load.resets)
    if number == bucket.number:
        return replace(load, bucket=Bucket(number, bucket.samples + 1, bucket.time + at, bucket.rate + rate))
    point, resets = bucket.point, load.resets
    if not is_outlier(load.fit, point, options):
        baseline = (*(each for each in load.baseline if each.at >= at - options.window_s), point)
    else:
        baseline = (*load.outliers, point)
        if len(baseline) < options.outliers_to_reset:
            return replace(load, bucket=first, outliers=baseline)
        baseline, resets = _without_step(baseline, options), resets + 1
    return Load(first, baseline, fit=trough_or_line(baseline), resets=resets)


def _without_step(outliers: tuple[Point, ...], options: RouterOptions) -> tuple[Point, ...]:
    """The new baseline without the bucket into which the step fell, which would make a slope of it."""
    if len(outliers) <= 2:
        return outliers
    least_step = options.deviations * options.sigma_floor * abs(outliers[1].value)
    return outliers[1:] if abs(outliers[1].value - outliers[0].value) > least_step else outliers


def fit_up_to_now(load: Load, options: RouterOptions) -> Fit | None:
    """The fit with the bucket that is being filled, unless a spike may be going on."""
    if load.bucket is None or not load.baseline or load.outliers or is_outlier(load.fit, load.bucket.point, options):
        return load.fit
    return trough_or_line((*load.baseline, load.bucket.point))


# ------------------------------------------------------------------------------------------- the stages


@dataclass(frozen=True, slots=True)
class RouterState:
    """What is remembered: ``sizes`` are (since when, current target), ``streak`` decisions in a row for fewer."""

    load: Load = field(default_factory=Load)
    table: Table = field(default_factory=Table)
    sizes: tuple[tuple[float, int], ...] = ()
    decided_at: float | None = None
    streak: int = 0
    recovery: Recovery = field(default_factory=Recovery)
    spike: Spike | None = None
    low_since: float = 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One decision on its way through the stages.

    Attributes:
        n: the current target.
        own_at: the time at which the figures were true.
        size_then: the target all through the window of the figures; None: there were several.
        unsettled: why there may be no decrease and no row; None: there may.
        expected: fit of the load; None: no bucket is complete yet.
    """

    assessment: Assessment
    n: int
    options: RouterOptions
    context: PolicyContext
    state: RouterState
    own_at: float
    target: int
    size_then: int | None = None
    unsettled: Reason | None = None
    expected: Fit | None = None
    move: Literal["up", "down", "stay"] = "stay"
    reason: Reason = _NO_CHANGE

    @property
    def rate(self) -> float:
        return self.assessment.arrival_rate or 0.0

    @property
    def middle_at(self) -> float:
        """The middle of the time that the arrival rate is the mean of."""
        return self.own_at - self.context.rate_window_s / 2

    @property
    def fit(self) -> Fit:
        """Fit of the load; before the first complete bucket the load stays as it is."""
        return self.expected or line((Point(self.own_at, self.rate),))

    @property
    def horizon_at(self) -> float:
        """t3, X from now; X is no shorter than the longest of the last increases took.

        The measured duration contains the delay of the figures, which does not count.
        """
        took_s = rescale_s(self.state.recovery) - (self.assessment.at - self.own_at)
        return self.assessment.at + max(self.options.horizon_s, took_s)

    @property
    def catch_up_s(self) -> float:
        return self.options.catch_up_lags * self.context.objective.lag_s

    @property
    def significant_s(self) -> float:
        return self.options.significant_wait * self.context.objective.lag_s

    def propose(self, target: int, code: ReasonCode, text: str, **figures: float | None) -> Turn:
        known = {"arrival_rate": self.assessment.arrival_rate, "executors": float(self.n)}
        return replace(self, target=target, reason=Reason(code, text, {**known, **figures}))

    def stay(self, code: ReasonCode, text: str, **figures: float | None) -> Turn:
        return replace(self, move="stay").propose(self.n, code, text, **figures)


def collect(turn: Turn) -> Turn:
    """Add the rate to its bucket, and the current target to the sizes."""
    options, state = turn.options, turn.state
    sizes = state.sizes
    if not sizes or sizes[-1][1] != turn.n:
        sizes = (*sizes, (turn.assessment.at, turn.n))[-_KEPT_SIZES:]
    table = tables.for_version(state.table, options.version)
    state = replace(
        state,
        load=add_rate(state.load, turn.middle_at, turn.rate, options),
        table=table if options.rows == "saturated" else tables.for_run(table, turn.assessment),
        sizes=sizes,
        recovery=follow_recovery(turn.assessment, turn.n, state.recovery, math.inf),
    )
    window_s = turn.context.rate_window_s if options.rows == "saturated" else 0.0
    return replace(turn, state=state, size_then=size_at(sizes, turn.own_at, window_s))


def size_at(sizes: tuple[tuple[float, int], ...], own_at: float, window_s: float) -> int | None:
    """The target that was in force from the start of the window until ``own_at``; None: there were several.

    The first known one counts as having been there before.

    >>> sizes = ((0.0, 4), (300.0, 6))
    >>> size_at(sizes, 320.0, 60.0), size_at(sizes, 360.0, 60.0), size_at(sizes, 299.0, 60.0)
    (None, 6, 4)
    """
    changes = [(since, size) for since, size in sizes[1:] if since <= own_at]
    if not changes:
        return sizes[0][1]
    since, size = changes[-1]
    return size if since <= own_at - window_s else None


def pre_decision(turn: Turn) -> Turn:
    """Find out whether rows may be collected, and a decrease made."""
    assessment, sizes, least = turn.assessment, turn.state.sizes, turn.options.settle_batches
    if tasks_fail(assessment) and turn.options.unsettled == "hold":
        code, text = ReasonCode.TASK_FAILURES, f"{several(assessment.failed_tasks or 0, 'task')} failed recently"
    elif assessment.executors != turn.n:
        code, text = ReasonCode.WARMING_UP, f"{assessment.executors} of {executors(turn.n)} registered"
    elif len(sizes) > 1 and turn.own_at < sizes[-1][0]:
        age_s = seconds(assessment.at - turn.own_at)
        code, text = ReasonCode.WARMING_UP, f"the figures are {age_s} old, from before the last change"
    elif not has_finished(assessment, least):
        code, text = ReasonCode.WARMING_UP, f"{assessment.batches} of {batches(least)} finished at this number"
    else:
        return turn
    return replace(turn, unsettled=Reason(code, text))


def decide(turn: Turn) -> Turn:
    """Choose up, down or stay; and write the row of the sample."""
    spike = follow_spike(turn.assessment, turn.state.spike, turn.catch_up_s)
    turn = replace(turn, state=replace(turn.state, spike=spike))
    if turn.unsettled is not None and turn.options.unsettled == "hold":
        return turn.stay(turn.unsettled.code, f"{turn.unsettled.text}: no decision")
    load, sink = turn.state.load, turn.assessment.sink
    every_sample = turn.options.decide_every_s is None
    turn = replace(turn, expected=fit_up_to_now(load, turn.options) if every_sample else load.fit)
    lag, utilization = _find_lag(turn), _find_high_utilization(turn)
    saturation = lag or utilization
    # A sick sink or a slow executor slows batches down, whatever other executors can do.
    disturbed = sink is not None or bool(turn.assessment.slow_executors)
    disturbed = disturbed or (turn.options.rows != "learned" and tasks_fail(turn.assessment))
    if turn.unsettled is None and turn.size_then is not None and not disturbed:
        turn = _write_row(turn, has_lag=lag is not None, is_used=utilization is not None)
    # Where the load has fallen, what it was before keeps executors, and asks for none.
    rising = replace(turn, expected=None) if every_sample and _has_fallen(turn) else turn
    why = saturation or _find_expected_overload(rising)
    if why is None:
        return _try_decrease(turn)
    if sink is not None:
        return turn.stay(ReasonCode.SICK_SINK, f"{why}, but executors do not help a sick sink: {sink}")
    if saturation is not None and cap_limits(turn.assessment):
        text = "the batch cap limits the rate, not the executors; raise maxOffsetsPerTrigger"
        return turn.stay(ReasonCode.USELESS_EXECUTORS, f"{why}, but {text}")
    code = ReasonCode.UNDERSIZED if saturation is None else ReasonCode.SLA_VIOLATED
    return replace(rising, move="up").propose(turn.target, code, why)


def _has_fallen(turn: Turn) -> bool:
    """Whether the present rate is an outlier below the baseline."""
    fit, present = turn.state.load.fit, Point(turn.middle_at, turn.rate)
    return fit is not None and is_outlier(fit, present, turn.options) and present.value < fit.at(present.at)


def _write_row(turn: Turn, *, has_lag: bool, is_used: bool) -> Turn:
    """The turn with the row of this sample, for the size at the metric's own time."""
    options, table = turn.options, turn.state.table
    sample = replace(turn.assessment, at=turn.own_at, executors=turn.size_then)
    if options.rows == "learned":
        saturated = has_lag or is_used
        table = tables.learn_batch(table, sample, options.memory, options.record_change, saturated=saturated)
    elif (has_lag and is_used) or (options.rows == "saturated" and (has_lag or is_used)):
        table = tables.write_saturated(table, sample, options.record_change)
    return replace(turn, state=replace(turn.state, table=table))


def _find_lag(turn: Turn) -> str | None:
    """Significant lag, where it is beyond a healthy one or grows, in words."""
    wait, assessment, limit = expected_wait(turn.assessment), turn.assessment, turn.significant_s
    done = assessment.processed_rate if assessment.last_batch_records is None else batch_speed(assessment)
    grows = (done or 0.0) < turn.rate
    if wait is None or wait < limit or not (assessment.backlog_excess or grows):
        return find_miss(assessment, turn.context.objective.lag_s) if turn.options.buffered == "excess" else None
    return f"{several(assessment.backlog or 0, 'record needs', 'records need')} {seconds(wait)} ≥ {seconds(limit)}"


def _find_high_utilization(turn: Turn) -> str | None:
    by_batches, limit = turn.options.utilization == "occupancy", turn.options.safe_utilization
    used = turn.assessment.occupancy if by_batches else turn.assessment.busy_ratio
    if used is None or used < limit or turn.rate <= 0:
        return None
    if by_batches and not is_at_limit(turn.assessment, turn.context.objective.lag_s, turn.catch_up_s):
        return None
    return f"utilization {percent(used)} ≥ {percent(limit)}"


def _find_expected_overload(turn: Turn) -> str | None:
    """A predicted rate beyond the table's for the current target, in words."""
    carried = turn.state.table.rows.trusted.limit(turn.n) if turn.options.eager else None
    if carried is None:
        return None
    predicted, limit = turn.fit.at(turn.horizon_at), turn.options.eager_utilization * carried
    expected = max(predicted, turn.rate)
    if expected <= limit or (predicted <= limit and _can_wait_out(turn, carried)):
        return None
    within = seconds(turn.horizon_at - turn.assessment.at)
    return f"{per_second(expected)} are expected within {within}, {carry(turn.n)} {per_second(carried)}"


def _can_wait_out(turn: Turn, carried: float) -> bool:
    """Whether the present rate is a spike, and there is time to see whether it stays.

    That is so if the lag would not be significant even if the rate stayed: until the outliers reset the baseline and
    an increase is done, counted from the time of the figures, the wait grows by rate ÷ carried − 1 each second. Where
    batches are too short to show a speed, the backlog waits as the table says.
    """
    options, load, backlog = turn.options, turn.state.load, turn.assessment.backlog
    is_spike = load.outliers or is_outlier(load.fit, Point(turn.middle_at, turn.rate), options)
    if not options.ride_out or backlog is None or not is_spike:
        return False
    wait = expected_wait(turn.assessment)
    wait = backlog / carried if wait is None else wait
    buckets = options.outliers_to_reset - len(load.outliers)
    takes_s = buckets * options.bucket_s + turn.horizon_at - turn.own_at
    return wait + max(0.0, turn.rate / carried - 1) * takes_s < turn.significant_s


def _try_decrease(turn: Turn) -> Turn:
    """Down, where there is no lag and no anticipated increase."""
    if turn.unsettled is not None:
        return turn.stay(turn.unsettled.code, f"{turn.unsettled.text}: no decrease")
    excess, lag_s = turn.assessment.backlog_excess, turn.context.objective.lag_s
    if excess and (turn.options.buffered == "all" or may_miss(turn.assessment, lag_s, turn.catch_up_s)):
        return turn.stay(ReasonCode.CATCHING_UP, f"{records(excess)} left to catch up")
    fit = turn.fit
    rise = fit.at(turn.horizon_at) - fit.at(turn.own_at)
    if turn.options.anticipation == "any" and rise > max(fit.deviation, turn.options.sigma_floor * turn.rate):
        return turn.stay(ReasonCode.FORECAST, f"{per_second(rise)} more are expected: no decrease")
    return replace(turn, move="down")


def size(turn: Turn) -> Turn:
    if turn.move == "stay":
        return turn
    return _size_up(turn) if turn.move == "up" else _size_down(turn)


class Times(NamedTuple):
    """The durations in a target rate, s.

    Attributes:
        horizon_s: how far ahead t3 lies.
        pause_s: how long the change stops processing.
        reach_s: how far ahead the fit is believed; later the load stays as it is then.
    """

    catch_up_s: float
    horizon_s: float
    pause_s: float = 0.0
    reach_s: float = math.inf


def target_rate(fit: Fit, now: float, buffered: float, times: Times) -> float:
    """The rate to be processed, records/s: max(recovery rate, r(t3)).

    E = ∫ r dt from now to the catch-up deadline + what is buffered; recovery rate = E ÷ catch-up time. The deadline
    lies a pause and the catch-up time ahead: what arrives in the pause must be processed too.

    >>> level = line([Point(0, 1000.0), Point(60, 1000.0)])
    >>> round(target_rate(level, 60.0, 200_000, Times(catch_up_s=600, horizon_s=600, pause_s=180)))
    1633
    """
    until_s = times.pause_s + times.catch_up_s
    reach_s = min(until_s, times.reach_s)
    level = fit.at(now + min(times.horizon_s, times.reach_s))
    late = max(0.0, fit.at(now + reach_s)) * (until_s - reach_s)
    events = fit.integral(now, now + reach_s) + late + buffered
    return max(events / times.catch_up_s, level, 0.0)


def _target_rate(turn: Turn, buffered: float, pause_s: float) -> float:
    """At least the present rate, which complete buckets may not show yet."""
    reach_s = max(turn.fit.last - turn.fit.first, turn.options.horizon_s)
    times = Times(turn.catch_up_s, turn.horizon_at - turn.assessment.at, pause_s, reach_s)
    return max(target_rate(turn.fit, turn.assessment.at, buffered, times), turn.rate)


def _size_up(turn: Turn) -> Turn:
    """At least n + 1; but no more than the rates need while the job is not settled, or catches up in time anyway."""
    options, assessment, why = turn.options, turn.assessment, turn.reason
    is_settled = turn.unsettled is None
    excess, gain = assessment.backlog_excess or 0.0, (assessment.processed_rate or 0.0) - turn.rate
    is_patient = not is_settled or (gain > 0 and excess <= gain * turn.catch_up_s)
    buffered = float((assessment.backlog if options.buffered == "all" else assessment.backlog_excess) or 0)
    rate = _target_rate(turn, 0.0 if is_patient else buffered, options.pause_up_s)
    rows = turn.state.table.rows_for_increase()
    needed = rows.enough_above(rate, turn.n) if options.rows == "learned" else rows.enough(rate)
    if needed is None:
        target = turn.n + 1 if is_settled else turn.n
        text = f"{why.text}; no row in the table: {turn.n} → {target}"
        return turn.propose(target, why.code, text, target_rate=rate)
    needed = tables.make_room(rows, needed, rate, options.utilization_up)
    text = f"{why.text}; {per_second(rate)} need {executors(needed)}"
    target = max(needed, turn.n if is_patient else turn.n + 1)
    if target > turn.n:
        return turn.propose(target, why.code, f"{text}: {turn.n} → {target}", target_rate=rate)
    if turn.unsettled is not None:
        return turn.stay(turn.unsettled.code, f"{text}; {turn.unsettled.text}", target_rate=rate)
    text = f"{text}, and it catches up within {seconds(turn.catch_up_s)}"
    return turn.stay(ReasonCode.CATCHING_UP, text, target_rate=rate)


def _size_down(turn: Turn) -> Turn:
    """As many as needed; below the first row at most down to half of it, since the capacity there is a guess."""
    options, rows, fit = turn.options, turn.state.table.rows.trusted, turn.fit
    upper = 0.0
    if options.interval is not None:
        upper = fit.at(turn.horizon_at) + fit.half_width(turn.horizon_at, options.interval)
    if math.isinf(upper):
        return turn.stay(ReasonCode.FORECAST, "too few buckets yet to predict how far the load may rise")
    rate = max(_target_rate(turn, 0.0, options.pause_down_s), upper)
    if options.rows == "learned":
        rate = max(rate, spike_rate(turn.state.spike, turn.context.objective.lag_s, turn.assessment.trigger_s))
    needed = rows.enough(rate)
    if needed is None and not turn.assessment.idle:
        return turn.stay(ReasonCode.CAPACITY_UNKNOWN, "no row in the table yet")
    known = 1 if needed is None else tables.make_room(rows, needed, rate, options.utilization_down)
    least = (min(turn.n, rows.figures[0].executors) if rows.figures else turn.n) // 2
    target = max(1, known, least)
    text = f"up to {per_second(rate)} need {executors(target)} at {percent(options.utilization_down)}"
    if target >= turn.n:
        return turn.stay(ReasonCode.STEADY, f"{text}, the target is {turn.n}", target_rate=rate)
    return turn.propose(target, ReasonCode.OVERSIZED, f"{text}: {turn.n} → {target}", target_rate=rate)


def post_decision(turn: Turn) -> Turn:
    """Apply the count of decreases and the limits."""
    state, required = turn.state, turn.options.samples_to_shrink
    streak, since, is_complete = 0, 0.0, True
    if turn.target < turn.n:
        streak, since, is_complete = count_surplus(state.streak, state.low_since, turn.assessment, required)
    turn = replace(turn, state=replace(state, decided_at=turn.assessment.at, streak=streak, low_since=since))
    if not is_complete:
        text = f"{turn.reason.text}; {streak} of {required} in a row: {turn.n} stays"
        return turn.stay(ReasonCode.SURPLUS_COUNTING, text)
    since_s = turn.assessment.at - state.sizes[-1][0] if len(state.sizes) > 1 else math.inf
    target, why = apply_limits(turn.assessment, turn.n, turn.target, since_s, turn.options)
    return turn if why is None else turn.propose(target, why.code, f"{turn.reason.text}; {why.text}")


def apply_limits(
    assessment: Assessment, n: int, target: int, since_s: float, options: RouterOptions
) -> tuple[int, Reason | None]:
    """The target within the limits, and why it is another one; None: it is not.

    In order: cooldown, largest step, largest size, limits by partitions. The last ones never turn the direction: a
    decrease ends at n at the least, an increase at n at the most. ``since_s`` is the time since the target became n.
    """
    if target == n:
        return n, None
    up = target > n
    cooldown_s = options.cooldown_up_s if up else options.cooldown_down_s
    if since_s < cooldown_s:
        text = f"the last change was {seconds(since_s)} ago, the cooldown is {seconds(cooldown_s)}: {n} stays"
        return n, Reason(ReasonCode.COOLDOWN_UP if up else ReasonCode.COOLDOWN_DOWN, text)
    step = options.largest_step_up if up else options.largest_step_down
    stepped = target if step is None else max(n - step, min(n + step, target))
    limits = (options.largest_size, size_by_partitions(assessment, options.least_partitions))
    most = min((limit for limit in limits if limit is not None), default=math.inf)
    limited = int(min(max(stepped, size_by_partitions(assessment, options.most_partitions) or 1), most))
    limited = max(n, limited) if up else min(n, limited)
    if limited != stepped:
        text = f"partitions or the largest size allow {executors(limited)} instead of {stepped}"
        return limited, Reason(ReasonCode.AT_MAX if limited < stepped else ReasonCode.AT_MIN, text)
    if stepped != target:
        text = f"at most {abs(stepped - n)} at a time: {stepped} instead of {target}"
        return stepped, Reason(ReasonCode.LARGEST_STEP, text)
    return target, None


def size_by_partitions(assessment: Assessment, partitions_a_slot: float | None) -> int | None:
    """The size at which each slot has so many partitions, if they are spread evenly; None: no limit, or unknown.

    >>> size_by_partitions(Assessment(0.0, partitions=97, slots_per_executor=2), 10.0)
    5
    """
    if partitions_a_slot is None or not assessment.partitions or not assessment.slots_per_executor:
        return None
    return max(1, math.ceil(assessment.partitions / (partitions_a_slot * assessment.slots_per_executor)))


CHAIN: tuple[Callable[[Turn], Turn], ...] = (collect, pre_decision, decide, size, post_decision)
"""The stages, in order."""


class RouterPolicy(BuiltInPolicy[RouterOptions, RouterState]):
    """The chain as a policy. See the module's description."""

    name: ClassVar[str] = "router"
    self_managed_steps = frozenset({"warm_up", "hold", "sick_sink", "largest_step", "cooldown_up", "cooldown_down"})
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {"default": {}, "faithful": FAITHFUL}

    def recommend(self, assessment: Assessment, state: RouterState) -> tuple[Recommendation, RouterState]:
        """Pass the sample through the chain; where no decision is due, through its first stage."""
        n = valid_target(assessment)
        if n is None or assessment.arrival_rate is None or assessment.backlog_excess is None:
            return propose_nothing(assessment, "arrival_rate or backlog_excess"), replace(state, streak=0)
        own_at = assessment.at - max(assessment.metrics_age_s or 0.0, self.options.metrics_delay_s)
        turn = Turn(
            assessment=assessment, n=n, options=self.options, context=self.context, state=state, own_at=own_at, target=n
        )
        every_s = self.options.decide_every_s
        if due_in_s(assessment.at, state.decided_at, every_s, self.context.sample_s / 2):
            turn = collect(turn).stay(ReasonCode.STEADY, f"a decision each {seconds(every_s or 0.0)}")
        else:
            for stage in CHAIN:
                turn = stage(turn)
        return Recommendation(turn.target, turn.reason), turn.state

    def capacity(self, executors: int, state: RouterState) -> float | None:
        return state.table.rows.best.carried(executors)
