"""``router``: a chain of small rules, short-term prediction and a performance table. S5, the router autoscaler.

Each decision goes through :data:`CHAIN`, a tuple of pure stages from one :class:`Turn` to
the next:

1. **collect**: the arrival rate into its time bucket, spikes aside; which size was
   in force when. Figures count for their own time, which is the delay of the metrics ago.
2. **pre-decision**: after task failures, while executors are on their way, before ``settle_batches`` batches have
   finished at the number in force, and while figures are still of the time before the change: no rows are collected,
   and there is no decrease; with ``unsettled="hold"`` no decision at all.
3. **decide**: *up* iff the sink is healthy and there is significant lag, or utilization above the safe threshold, or,
   with ``eager``, a predicted rate beyond what the table has for the present size. *Down* iff there is no lag and no
   anticipated increase. A sick sink is told (``SICK_SINK``): executors would not help it. Rows are written here
   (:mod:`rheostat.policies.router_table`).
4. **size**: the target rate, the literal look-up in the table, then, as a step of
   its own, the utilization that is aimed at. The same for both directions; a decrease must also carry the upper end
   of the prediction interval.
5. **post-decision**: cooldowns, largest step, largest size, limits by partitions. A region failover is a switch of the
   guard pipeline, which shapes what comes out here as it does for every policy.

*Lag* is the time in which the job would process all that is buffered, at the speed of its batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar, Literal, NamedTuple

from pydantic import BaseModel, Field

from rheostat.config.models import FrozenModel
from rheostat.decide.policy import PolicyContext, cap_limits, in_force
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.policies import router_table as tables
from rheostat.policies.capacity import Recovery, expected_wait, followed, rescale_s
from rheostat.policies.router_table import Table, look_up, roomy
from rheostat.policies.trend import Fit, Point, line, trough_or_line
from rheostat.text import batches, carry, executors, per_second, percent, records, seconds, several

# Pre-decision and decision of ``router``: whether, and which way. S5.


def pre_decision(turn: Turn) -> Turn:
    """Whether a decrease may be made, and rows collected."""
    found = _unsettled(turn)
    return turn if found is None else replace(turn, unsettled=found)


def _unsettled(turn: Turn) -> tuple[ReasonCode, str] | None:
    seen, sizes = turn.assessment, turn.state.sizes
    if seen.failed_tasks:
        return ReasonCode.TASK_FAILURES, f"{several(seen.failed_tasks, 'task')} failed of late"
    if seen.executors != turn.n:
        return ReasonCode.WARMING_UP, f"{seen.executors} of {executors(turn.n)} registered"
    if len(sizes) > 1 and turn.own_at < sizes[-1][0]:
        return ReasonCode.WARMING_UP, f"the figures are {seconds(seen.at - turn.own_at)} old, of before the last change"
    if seen.batches < turn.options.settle_batches:
        wanted = turn.options.settle_batches
        return ReasonCode.WARMING_UP, f"{seen.batches} of {batches(wanted)} finished at this number"
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
    if turn.assessment.sink is not None:
        return turn.staying(
            ReasonCode.SICK_SINK, f"{why}, but executors do not help a sick sink: {turn.assessment.sink}"
        )
    if saturation is not None and cap_limits(turn.assessment):
        text = "the batch cap limits the rate, not the executors; raise maxOffsetsPerTrigger"
        return turn.staying(ReasonCode.USELESS_EXECUTORS, f"{why}, but {text}")
    return replace(turn, move="up").why(ReasonCode.UNDERSIZED if saturation is None else ReasonCode.SLA_VIOLATED, why)


def _recorded(turn: Turn, *, saturated: bool) -> Turn:
    """The turn with the row of this sample, keyed by the size at the metric's own time."""
    options, table, sample = turn.options, turn.state.table, turn.assessment
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
    wait, seen = expected_wait(turn.assessment), turn.assessment
    limit = turn.options.significant_wait * turn.context.objective.lag_s
    if wait is None or wait < limit or not (seen.backlog_excess or (seen.processed_rate or 0.0) < turn.rate):
        return None
    return f"{several(seen.backlog or 0, 'record needs', 'records need')} {seconds(wait)} ≥ {seconds(limit)}"


def _utilization(turn: Turn) -> str | None:
    by_batches = turn.options.utilization == "occupancy"
    used, limit = turn.assessment.occupancy if by_batches else turn.assessment.busy_ratio, turn.options.safe_utilization
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
    within = seconds(turn.horizon_at - turn.assessment.at)
    return f"{per_second(expected)} are expected within {within}, {carry(turn.n)} {per_second(carried)}"


def _rides_out(turn: Turn, carried: float) -> bool:
    """Whether the present rate is a spike, and there is time to see whether it stays.

    That is so if the lag would not be significant even if it stayed: until the outliers are enough to reset the
    baseline and an increase is done, counted from the time of the figures, the wait grows by rate ÷ carried − 1 each
    second.
    """
    options, load, wait = turn.options, turn.state.load, expected_wait(turn.assessment)
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
    if turn.assessment.backlog_excess:
        return turn.staying(ReasonCode.CATCHING_UP, f"{records(turn.assessment.backlog_excess)} left to catch up")
    rise = _anticipated(turn) if turn.options.anticipation == "any" else None
    if rise is not None:
        return turn.staying(ReasonCode.FORECAST, f"{per_second(rise)} more are expected: no decrease")
    return replace(turn, move="down")


def _anticipated(turn: Turn) -> float | None:
    """By how much the rate is expected to rise, if that is more than σ, records/s; None: it is not."""
    fit = turn.fit
    rise = fit.at(turn.horizon_at) - fit.at(turn.own_at)
    return rise if rise > max(fit.deviation, turn.options.sigma_floor * turn.rate) else None


# Options of ``router``: ours by default, and what the talk says or implies (S5).


class RouterOptions(FrozenModel):
    """Options of ``router``, with the defaults of the preset ``default``."""

    metrics_delay_s: float = Field(
        0.0,
        ge=0,
        le=3600,
        description="How old figures are at least when they are seen, s; more if they say so (S5: 120).",
    )
    decide_every_s: float | None = Field(
        None, gt=0, le=3600, description="Time between two decisions, s; null: each sample (S5: 60 s)."
    )
    bucket_s: float = Field(
        60.0, gt=0, le=3600, description="Length of the time buckets of the load, s (S5: 1 minute)."
    )
    window_s: float = Field(
        600.0, gt=0, le=86_400, description="N: how far back the regression looks, s (S5 gives none)."
    )
    horizon_s: float = Field(
        30.0,
        ge=0,
        le=3600,
        description="X: how far ahead it looks, at least as far as a change takes, s (S5 gives none).",
    )
    deviations: float = Field(3.0, gt=0, le=100, description="Errors of so many σ are outliers (S5: 3).")
    sigma_floor: float = Field(0.05, ge=0, le=10, description="Least σ, as a share of the predicted rate.")
    outliers_to_reset: int = Field(
        3, ge=1, le=1000, description="Outliers in a row that reset the baseline (S5 gives none)."
    )
    significant_wait: float = Field(
        0.85, gt=0, le=100, description="Time to process the backlog ÷ the objective's lag that is significant lag."
    )
    utilization: Literal["occupancy", "busy"] = Field(
        "occupancy", description="What utilization is: batch time ÷ τ, or the share of slot time in tasks (S5: CPU)."
    )
    safe_utilization: float = Field(
        1.0, gt=0, le=100, description="Utilization from which on it scales up (S5 gives none)."
    )
    eager: bool = Field(
        default=True, description="Whether it scales up before any lag, by regression and table (S5: future work)."
    )
    eager_utilization: float = Field(
        1.05,
        gt=0,
        le=10,
        description="Predicted rate ÷ the table's, from which on that is so.",
        json_schema_extra={"only_with": ["eager", "true"]},
    )
    ride_out: bool = Field(
        default=False,
        description="Whether a spike is waited for with that, where the objective leaves the time to see if it stays.",
        json_schema_extra={"only_with": ["eager", "true"]},
    )
    rows: Literal["learned", "saturated"] = Field(
        "learned",
        description="saturated: a row is what was processed when saturated (S5); learned: what each batch shows.",
    )
    memory: int | None = Field(
        10,
        ge=1,
        le=10_000,
        description="Measurements that a learned row weighs at most; null: all of them.",
        json_schema_extra={"only_with": ["rows", "learned"]},
    )
    version: str = Field(
        "", max_length=100, description="Version of the job; rows of another one are put aside when it changes."
    )
    record_change: float = Field(
        1.5, gt=1, le=1000, description="Factor of the cost of a record beyond which rows are of another record size."
    )
    catch_up_lags: float = Field(
        2.0, gt=0, le=10_000, description="Catch-up time, in lags of the objective (S5 gives none)."
    )
    buffered: Literal["excess", "all"] = Field(
        "excess", description="What is to be caught up: the backlog beyond a healthy one, or all of it (S5)."
    )
    pause_up_s: float = Field(
        0.0, ge=0, le=3600, description="How long an increase stops processing, s (S5: < 1 minute)."
    )
    pause_down_s: float = Field(0.0, ge=0, le=3600, description="How long a decrease does, s (S5: 1 to 3 minutes).")
    utilization_up: float = Field(
        1.0, gt=0, le=1, description="Share of the table's rate to be used after an increase (S5: 0.6)."
    )
    utilization_down: float = Field(
        1.0, gt=0, le=1, description="Share of the table's rate to be used after a decrease (S5: 0.6)."
    )
    interval: float | None = Field(
        1.0,
        ge=0,
        le=100,
        description="Half of the prediction interval, in deviations, that a decrease must carry; null: not asked (S5).",
    )
    anticipation: Literal["needed", "any"] = Field(
        "needed",
        description="The anticipated increase that forbids a decrease: one that fewer executors do not carry, "
        "or any beyond σ (S5 gives none).",
    )
    samples_to_shrink: int = Field(4, ge=1, le=10_000, description="Decisions in a row that ask for fewer (S5: 1).")
    settle_batches: int = Field(2, ge=0, le=1000, description="Batches at a new number before it is judged.")
    unsettled: Literal["rise", "hold"] = Field(
        "rise", description="After failures or a change: increases only, or no decision at all (S5)."
    )
    least_partitions: float | None = Field(
        None,
        gt=0,
        le=10_000,
        description="Least partitions for each slot, so the largest size; null: the guard's limit.",
    )
    most_partitions: float | None = Field(
        None, gt=0, le=10_000, description="Most partitions for each slot, so the smallest size; null: no limit."
    )
    cooldown_up_s: float = Field(0.0, ge=0, le=86_400, description="Least time from a change to the next increase, s.")
    cooldown_down_s: float = Field(
        60.0, ge=0, le=86_400, description="Least time from a change to the next decrease, s."
    )
    largest_step_up: int | None = Field(50, ge=1, le=100_000, description="Largest increase at a time (S5: 50).")
    largest_step_down: int | None = Field(None, ge=1, le=100_000, description="Largest decrease at a time (S5: none).")
    largest_size: int | None = Field(None, ge=1, le=100_000, description="Largest size; null: the bounds alone.")

    @property
    def spikes(self) -> Spikes:
        """How outliers are told."""
        return Spikes(self.deviations, self.sigma_floor, self.outliers_to_reset)


FAITHFUL: Mapping[str, object] = MappingProxyType(
    {
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
)


# The load as the router sees it: time buckets, a baseline without spikes, and what is predicted from it. S5.


_FEWEST = 4
"""Points of a baseline from which on an outlier can be told: a line through three has one error left to judge by."""


class Bucket(NamedTuple):
    """The samples of one time bucket: which, how many, and the sums of their times and rates."""

    number: int
    samples: int
    time: float
    rate: float

    @property
    def point(self) -> Point:
        """The means."""
        return Point(self.time / self.samples, self.rate / self.samples)


@dataclass(frozen=True, slots=True)
class Load:
    """What is remembered of the load.

    Attributes:
        bucket: the one that is being filled; None: none yet.
        baseline: complete buckets without outliers, oldest first.
        outliers: complete buckets in a row, up to the last one, that lie beyond 3 σ.
        fit: what the baseline follows; None: no bucket is complete yet.
        resets: how often the baseline was reset.
    """

    bucket: Bucket | None = None
    baseline: tuple[Point, ...] = ()
    outliers: tuple[Point, ...] = ()
    fit: Fit | None = None
    resets: int = 0


class Spikes(NamedTuple):
    """How outliers are told.

    Attributes:
        deviations: errors of so many σ are outliers (S5: 3).
        floor: σ is no less than this share of the predicted rate: a steady load leaves no error at all.
        reset: so many outliers in a row reset the baseline.
    """

    deviations: float
    floor: float
    reset: int


def is_outlier(fit: Fit | None, point: Point, spikes: Spikes) -> bool:
    """Whether a point lies beyond 3 σ of what the points before it follow; never after fewer than four.

    >>> from rheostat.policies.trend import line
    >>> fit = line([Point(x, 10 + 2 * x + e) for x, e in enumerate((1, -1, 0, 0, -1, 1))])
    >>> spikes = Spikes(deviations=3.0, floor=0.01, reset=3)
    >>> is_outlier(fit, Point(6, 22 + 2.44), spikes), is_outlier(fit, Point(6, 22 + 2.46), spikes)
    (False, True)
    """
    if fit is None or fit.points < _FEWEST:
        return False
    expected = fit.at(point.at)
    deviation = max(fit.deviation, spikes.floor * abs(expected))
    return abs(point.value - expected) > spikes.deviations * deviation


def collected(load: Load, at: float, rate: float, spans: tuple[float, float], spikes: Spikes) -> Load:
    """The load with one more sample.

    Args:
        load: as the sample before left it.
        at: the middle of the time that the rate is the mean of, s. Time that runs backwards starts anew.
        rate: records/s.
        spans: length of a bucket, and how far back the baseline reaches, s.
        spikes: how outliers are told.
    """
    bucket_s, window_s = spans
    number, bucket = int(at // bucket_s), load.bucket
    if bucket is None or number < bucket.number:
        return Load(Bucket(number, 1, at, rate), resets=load.resets)
    if number == bucket.number:
        return replace(load, bucket=Bucket(number, bucket.samples + 1, bucket.time + at, bucket.rate + rate))
    return _complete(load, bucket.point, Bucket(number, 1, at, rate), at - window_s, spikes)


def _complete(load: Load, point: Point, bucket: Bucket, oldest: float, spikes: Spikes) -> Load:
    """The load with a complete bucket: in the baseline, or aside, or in place of the baseline."""
    if not is_outlier(load.fit, point, spikes):
        kept = [each for each in load.baseline if each.at >= oldest]
        return _fitted(bucket, (*kept, point), load.resets)
    outliers = (*load.outliers, point)
    if len(outliers) < spikes.reset:
        return replace(load, bucket=bucket, outliers=outliers)
    return _fitted(bucket, outliers, load.resets + 1)


def _fitted(bucket: Bucket, baseline: tuple[Point, ...], resets: int) -> Load:
    return Load(bucket, baseline, fit=trough_or_line(baseline), resets=resets)


def up_to_now(load: Load, spikes: Spikes) -> Fit | None:
    """What the baseline follows together with the bucket that is being filled, unless a spike may be going on."""
    if load.bucket is None or not load.baseline or load.outliers or is_outlier(load.fit, load.bucket.point, spikes):
        return load.fit
    return trough_or_line((*load.baseline, load.bucket.point))


# What passes from stage to stage of ``router``, and what it remembers from sample to sample.


_NOTHING = Reason(ReasonCode.STEADY, "nothing speaks for a change")


@dataclass(frozen=True, slots=True)
class RouterState:
    """What is remembered.

    Attributes:
        load: buckets, baseline, outliers.
        table: the performance table.
        sizes: (since when, number in force), oldest first; the last ones.
        decided_at: the last decision.
        streak: decisions in a row that asked for fewer.
        recovery: how long increases take.
    """

    load: Load = field(default_factory=Load)
    table: Table = field(default_factory=Table)
    sizes: tuple[tuple[float, int], ...] = ()
    decided_at: float | None = None
    streak: int = 0
    recovery: Recovery = field(default_factory=Recovery)


@dataclass(frozen=True, slots=True)
class Turn:
    """One decision on its way through the stages.

    Attributes:
        assessment: a complete sample.
        n: the number in force.
        options, context: the policy's.
        state: what is remembered.
        own_at: the time at which the figures were true.
        target: how many are wanted so far.
        size_then: the size in force all through the window of the figures; None: there were several.
        unsettled: why there may be no decrease and no row; None: nothing speaks against them.
        expected: what the load follows; None: no bucket is complete yet.
        move: which way it decided.
        reason: why.
    """

    assessment: Assessment
    n: int
    options: RouterOptions
    context: PolicyContext
    state: RouterState
    own_at: float
    target: int
    size_then: int | None = None
    unsettled: tuple[ReasonCode, str] | None = None
    expected: Fit | None = None
    move: Literal["up", "down", "stay"] = "stay"
    reason: Reason = _NOTHING

    @property
    def rate(self) -> float:
        """The arrival rate, records/s."""
        return self.assessment.arrival_rate or 0.0

    @property
    def fit(self) -> Fit:
        """What the load is expected to follow; before the first complete bucket it stays as it is."""
        return self.expected or line((Point(self.own_at, self.rate),))

    @property
    def horizon_at(self) -> float:
        """t3, X from now; X is no shorter than the longest of the last increases took.

        How long they took was seen with the delay of the figures, which is not a part of it.
        """
        took_s = rescale_s(self.state.recovery) - (self.assessment.at - self.own_at)
        return self.assessment.at + max(self.options.horizon_s, took_s)

    @property
    def catch_up_s(self) -> float:
        """The catch-up time, s."""
        return self.options.catch_up_lags * self.context.objective.lag_s

    @property
    def may_record(self) -> bool:
        """Whether the sample may become a row: a sick sink slows batches down, whatever executors can do."""
        return self.unsettled is None and self.size_then is not None and self.assessment.sink is None

    def why(self, code: ReasonCode, text: str, **figures: float | None) -> Turn:
        """The same with another reason."""
        known = {"arrival_rate": self.assessment.arrival_rate, "executors": float(self.n)}
        return replace(self, reason=Reason(code, text, {**known, **figures}))

    def staying(self, code: ReasonCode, text: str, **figures: float | None) -> Turn:
        """The same with the number in force, and why."""
        return replace(self, move="stay", target=self.n).why(code, text, **figures)

    def remembering(self, table: Table) -> Turn:
        """The same with another table."""
        return replace(self, state=replace(self.state, table=table))


_KEPT_SIZES = 32
"""Changes of the number that are remembered: at one each 15 s, those of eight minutes."""


# ------------------------------------------------------------------------------------------------ 1 collect


def collect(turn: Turn) -> Turn:
    """The sample into its bucket, and the size in force into their history."""
    options, state, window_s = turn.options, turn.state, turn.context.rate_window_s
    middle = turn.own_at - window_s / 2
    sizes = state.sizes
    if not sizes or sizes[-1][1] != turn.n:
        sizes = (*sizes, (turn.assessment.at, turn.n))[-_KEPT_SIZES:]
    state = replace(
        state,
        load=collected(state.load, middle, turn.rate, (options.bucket_s, options.window_s), options.spikes),
        table=tables.current(state.table, options.version),
        sizes=sizes,
        recovery=followed(turn.assessment, turn.n, state.recovery, math.inf),
    )
    counted_s = window_s if options.rows == "saturated" else 0.0
    return replace(turn, state=state, size_then=size_at(sizes, turn.own_at, counted_s))


def size_at(sizes: tuple[tuple[float, int], ...], own_at: float, window_s: float) -> int | None:
    """The size that was in force from the begin of the window until ``own_at``; None: there were several.

    The first one that is known counts as having been there before.

    >>> sizes = ((0.0, 4), (300.0, 6))
    >>> size_at(sizes, 320.0, 60.0), size_at(sizes, 360.0, 60.0), size_at(sizes, 299.0, 60.0)
    (None, 6, 4)
    """
    place = len(sizes) - 1
    while place > 0 and sizes[place][0] > own_at:
        place -= 1
    since, size = sizes[place]
    return size if place == 0 or since <= own_at - window_s else None


# --------------------------------------------------------------------------------------------------- 4 size


def size(turn: Turn) -> Turn:
    """How many the target rate needs, by the table."""
    if turn.move == "stay":
        return turn
    return _larger(turn) if turn.move == "up" else _smaller(turn)


def _target_rate(turn: Turn, buffered: float) -> float:
    """What must be processed, records/s; the present rate too, which complete buckets may not show yet."""
    options = turn.options
    pause_s = options.pause_up_s if turn.move == "up" else options.pause_down_s
    times = Times(turn.catch_up_s, turn.horizon_at - turn.assessment.at, pause_s)
    return max(target_rate(turn.fit, turn.assessment.at, buffered, times), turn.rate)


def _larger(turn: Turn) -> Turn:
    """At least n + 1; but no more than the rates need while the job is not settled, or catches up in time anyway."""
    settled = turn.unsettled is None
    patient = not settled or _catches_up(turn)
    rate = _target_rate(turn, 0.0 if patient else _buffered(turn))
    rows = turn.state.table.for_increase()
    found, text = look_up(rows, rate), turn.reason.text
    if found is None:
        target = turn.n + 1 if settled else turn.n
        text = f"{text}; no row in the table: {turn.n} → {target}"
        return replace(turn, target=target).why(turn.reason.code, text, target_rate=rate)
    target = roomy(rows, found, rate, turn.options.utilization_up)
    text = f"{text}; {per_second(rate)} need {executors(target)}"
    target = max(target, turn.n if patient else turn.n + 1)
    if target == turn.n:
        return turn.staying(*_waiting(turn, text), target_rate=rate)
    return replace(turn, target=target).why(turn.reason.code, f"{text}: {turn.n} → {target}", target_rate=rate)


def _waiting(turn: Turn, text: str) -> tuple[ReasonCode, str]:
    if turn.unsettled is not None:
        code, why = turn.unsettled
        return code, f"{text}; {why}"
    return ReasonCode.CATCHING_UP, f"{text}, and it catches up within {seconds(turn.catch_up_s)}"


def _buffered(turn: Turn) -> float:
    """Records to be caught up: all of them, or what is beyond a healthy backlog."""
    seen = turn.assessment
    return float((seen.backlog if turn.options.buffered == "all" else seen.backlog_excess) or 0)


def _catches_up(turn: Turn) -> bool:
    """Whether the excess will be gone within the catch-up time at the present rates."""
    gain = (turn.assessment.processed_rate or 0.0) - turn.rate
    return gain > 0 and (turn.assessment.backlog_excess or 0.0) <= gain * turn.catch_up_s


def _smaller(turn: Turn) -> Turn:
    """What is enough; below the first row only one executor at a time, as what so few carry is a guess."""
    rows, share, upper = turn.state.table.rows, turn.options.utilization_down, _upper(turn)
    if math.isinf(upper):
        return turn.staying(ReasonCode.FORECAST, "too few buckets yet to tell how far the load may rise")
    rate = max(_target_rate(turn, 0.0), upper)
    found = look_up(rows, rate)
    if found is None:
        return turn.staying(ReasonCode.CAPACITY_UNKNOWN, "no row in the table yet")
    target = max(roomy(rows, found, rate, share), rows.figures[0].executors - 1)
    text = f"up to {per_second(rate)} need {executors(target)} at {percent(share)}"
    if target >= turn.n:
        return turn.staying(ReasonCode.STEADY, f"{text}, {turn.n} in force", target_rate=rate)
    return replace(turn, target=target).why(ReasonCode.OVERSIZED, f"{text}: {turn.n} → {target}", target_rate=rate)


def _upper(turn: Turn) -> float:
    """The upper end of the prediction interval at t3, records/s; infinite where it cannot be told."""
    deviations, fit = turn.options.interval, turn.fit
    return 0.0 if deviations is None else fit.at(turn.horizon_at) + fit.half_width(turn.horizon_at, deviations)


# ------------------------------------------------------------------------------------------ 5 post-decision


def post_decision(turn: Turn) -> Turn:
    """What the limits leave of it."""
    state, wanted = turn.state, turn.options.samples_to_shrink
    streak = min(state.streak + 1, wanted) if turn.target < turn.n else 0
    turn = replace(turn, state=replace(state, decided_at=turn.assessment.at, streak=streak))
    if turn.target < turn.n and streak < wanted:
        text = f"{turn.reason.text}; {streak} of {wanted} in a row: {turn.n} stays"
        return turn.staying(ReasonCode.SURPLUS_COUNTING, text)
    since_s = turn.assessment.at - state.sizes[-1][0] if len(state.sizes) > 1 else math.inf
    target, why = shaped(turn.assessment, turn.n, turn.target, since_s, turn.options)
    if why is None:
        return turn
    return replace(turn, target=target).why(why.code, f"{turn.reason.text}; {why.text}")


Stage = Callable[[Turn], Turn]

CHAIN: tuple[Stage, ...] = (collect, pre_decision, decide, size, post_decision)
"""The stages, in order."""


class RouterPolicy:
    """The chain as a policy. See the module's description."""

    name: ClassVar[str] = "router"
    self_managed_steps: ClassVar[frozenset[str]] = frozenset(
        {"task_failures", "warm_up", "hold", "sick_sink", "largest_step", "cooldown_up", "cooldown_down"}
    )
    state_type: type[RouterState] = RouterState
    options_type: ClassVar[type[BaseModel]] = RouterOptions
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = MappingProxyType({"default": {}, "faithful": FAITHFUL})

    def __init__(self, options: RouterOptions, context: PolicyContext) -> None:
        self.options = options
        self.context = context

    def initial(self) -> RouterState:
        """Nothing was seen."""
        return RouterState()

    def recommend(self, assessment: Assessment, state: RouterState) -> tuple[Recommendation, RouterState]:
        """Propose by the chain."""
        n = in_force(assessment)
        if (
            assessment.missing
            or assessment.invalid
            or not n
            or assessment.arrival_rate is None
            or assessment.backlog_excess is None
        ):
            unknown = assessment.missing or assessment.invalid or ("arrival_rate or backlog_excess",)
            reason = Reason(ReasonCode.METRICS_MISSING, f"this sample does not count without: {', '.join(unknown)}")
            return Recommendation(None, reason), replace(state, streak=0)
        age_s = max(assessment.metrics_age_s or 0.0, self.options.metrics_delay_s)
        turn = Turn(
            assessment=assessment,
            n=n,
            options=self.options,
            context=self.context,
            state=state,
            own_at=assessment.at - age_s,
            target=n,
        )
        if not self._due(assessment, state):
            text = f"a decision each {seconds(self.options.decide_every_s or 0.0)}"
            turn = collect(turn).why(ReasonCode.STEADY, text)
            return Recommendation(n, turn.reason), turn.state
        for stage in CHAIN:
            turn = stage(turn)
        return Recommendation(turn.target, turn.reason), turn.state

    def capacity(self, executors: int, state: RouterState) -> float | None:
        """What the table says."""
        return state.table.rows.carried(executors)

    def _due(self, assessment: Assessment, state: RouterState) -> bool:
        """Whether it is time for a decision; half a sample period early is not too early."""
        every, last = self.options.decide_every_s, state.decided_at
        return every is None or last is None or assessment.at - last >= every - self.context.sample_s / 2


# How large the cluster of ``router`` is to be: target rate, and what the post-decision leaves of a size. S5.


class Times(NamedTuple):
    """The spans of a size, s: catch-up time; how far ahead t3 lies; how long the change stops processing."""

    catch_up_s: float
    horizon_s: float
    pause_s: float = 0.0


def target_rate(fit: Fit, now: float, buffered: float, times: Times) -> float:
    """What must be processed, records/s: max(recovery rate, r(t3)).

    E = ∫ r dt from now to the catch-up deadline + what is buffered; recovery = E ÷ catch-up time. The deadline lies a
    pause and the catch-up time ahead: what arrives in the pause must be worked off too.

    >>> from rheostat.policies.trend import Point, line
    >>> level = line([Point(0, 1000.0), Point(60, 1000.0)])
    >>> round(target_rate(level, 60.0, 200_000, Times(catch_up_s=600, horizon_s=600, pause_s=180)))
    1633
    """
    events = fit.integral(now, now + times.pause_s + times.catch_up_s) + buffered
    return max(events / times.catch_up_s, fit.at(now + times.horizon_s), 0.0)


def least_size(assessment: Assessment, most_partitions: float | None) -> int:
    """The smallest size by partitions: so that no slot has more than ``most_partitions`` of them, if they are even.

    >>> least_size(Assessment(0.0, partitions=97, slots_per_executor=2), most_partitions=10.0)
    5
    """
    if most_partitions is None or not assessment.partitions or not assessment.slots_per_executor:
        return 1
    return max(1, math.ceil(assessment.partitions / (most_partitions * assessment.slots_per_executor)))


def most_size(assessment: Assessment, least_partitions: float | None) -> int | None:
    """The largest size by partitions: so that each slot has ``least_partitions`` of them; None: no limit.

    >>> most_size(Assessment(0.0, partitions=31, slots_per_executor=2), least_partitions=1.0)
    16
    """
    if least_partitions is None or not assessment.partitions or not assessment.slots_per_executor:
        return None
    return max(1, math.ceil(assessment.partitions / (least_partitions * assessment.slots_per_executor)))


def shaped(
    assessment: Assessment, n: int, target: int, since_s: float, options: RouterOptions
) -> tuple[int, Reason | None]:
    """The post-decision: what is left of a target, and why it is another one; None: it stays as it was.

    In order: cooldown, largest step, largest size, limits by partitions. The last ones never turn the
    direction: a decrease ends at n at the least, an increase at n at the most.

    Args:
        assessment: the sample.
        n: the number in force.
        target: what is proposed.
        since_s: since the number in force is that, s; infinite: it never changed.
        options: the policy's.
    """
    if target == n:
        return n, None
    blocked = _blocked(n, target, since_s, options)
    if blocked is not None:
        return n, blocked
    stepped = _stepped(n, target, options)
    limited = _limited(assessment, n, stepped, options)
    if limited != stepped:
        text = f"partitions or the largest size leave {executors(limited)} of {stepped}"
        return limited, Reason(ReasonCode.AT_MAX if limited < stepped else ReasonCode.AT_MIN, text)
    if stepped != target:
        return stepped, Reason(
            ReasonCode.LARGEST_STEP, f"at most {abs(stepped - n)} at a time: {stepped} instead of {target}"
        )
    return target, None


def _blocked(n: int, target: int, since_s: float, options: RouterOptions) -> Reason | None:
    """Why there may be no change at all."""
    up = target > n
    limit = options.cooldown_up_s if up else options.cooldown_down_s
    if since_s >= limit:
        return None
    text = f"the last change was {seconds(since_s)} ago, the cooldown is {seconds(limit)}: {n} stays"
    return Reason(ReasonCode.COOLDOWN_UP if up else ReasonCode.COOLDOWN_DOWN, text)


def _stepped(n: int, target: int, options: RouterOptions) -> int:
    step = options.largest_step_up if target > n else options.largest_step_down
    return target if step is None else max(n - step, min(n + step, target))


def _limited(assessment: Assessment, n: int, target: int, options: RouterOptions) -> int:
    limits = (options.largest_size, most_size(assessment, options.least_partitions))
    most = min((limit for limit in limits if limit is not None), default=math.inf)
    limited = int(min(max(target, least_size(assessment, options.most_partitions)), most))
    return max(n, limited) if target > n else min(n, limited)
