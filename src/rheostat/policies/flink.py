"""``flink``: the rules of the Flink Kubernetes operator's autoscaler, for the job as a whole.

Source: apache/flink-kubernetes-operator, flink-autoscaler, and its page
https://nightlies.apache.org/flink/flink-kubernetes-operator-docs-main/docs/custom-resource/autoscaler/. Flink sizes
each vertex; a micro-batch job is one, its parallelism the executors::

    true processing rate = processed ÷ busy share, or the processed rate of a catch-up if it is lower by more than 15 %
    target capacity      = arrival ÷ target utilization + excess ÷ catch-up + arrival × restart ÷ catch-up
    executors            = ⌈n × target capacity ÷ true processing rate⌉, not below 0.4 n, aligned to the partitions

Rates and busy share are means over the metric window. Flink's lag (pending records) is the backlog's *excess* here: a
micro-batch job always has a backlog.

**When.** After a change no sample counts during the stabilization, and there is no decision until a full metric window
has passed since. Nothing changes between the utilization boundaries, nor downwards while the excess is more than
``backlog_threshold_s`` of processing. A decrease is held back for ``scale_down_interval_s``, and then goes to the
highest number recommended in that time. With ``effectiveness_detection``, an increase is blocked after one that brought
less than a tenth of the expected rate.

The source rounds capacities to whole records, this does not: a rule must not depend on the unit of a rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from rheostat.config.models import FrozenModel
from rheostat.decide.partitions import Alignment, align
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.policies.capacity import (
    ROUNDING,
    BuiltInPolicy,
    Measure,
    busy_share,
    propose_nothing,
    round_up,
    valid_target,
)
from rheostat.text import carry, finite, per_second, seconds

_SAMPLES = 60
_DOWNS = 64
_HISTORY_S = 86_400.0
"""Scalings older than this do not count (history.max.age)."""

TUNED: Mapping[str, object] = {
    "utilization_target": 0.8,
    "utilization_max": 0.9,
    "utilization_min": 0.7,
    "catch_up_s": 60.0,
    "restart_time_s": 10.0,
    "stabilization_s": 15.0,
    "metric_window_s": 30.0,
    "scale_down_interval_s": 180.0,
    "backlog_threshold_s": 30.0,
    "observed_lag_threshold_s": 15.0,
    "effectiveness_detection": True,
    "alignment": "off",
}


def _seconds(default: float, description: str) -> Any:
    return Field(default, ge=0, le=604_800, description=description)


class FlinkOptions(FrozenModel):
    """Options of ``flink``, with the defaults of the operator: the preset ``faithful``."""

    useful_time: Measure = Field(
        "tasks", description="What counts as busy. tasks: slots in tasks; batches: time in which a batch is worked on."
    )
    utilization_target: float = Field(0.7, gt=0, le=1, description="Utilization aimed at.")
    utilization_max: float = Field(1.0, gt=0, le=10, description="Nothing is added below this utilization.")
    utilization_min: float = Field(0.4, ge=0, le=1, description="Nothing is taken away above this utilization.")
    catch_up_s: float = _seconds(1800.0, "Time to work off a backlog; 0: backlogs are not looked at.")
    restart_time_s: float = _seconds(300.0, "Time without processing that a change costs.")
    stabilization_s: float = _seconds(300.0, "Time after a change in which nothing is looked at.")
    metric_window_s: float = Field(900.0, gt=0, le=604_800, description="Time over which rates are averaged.")
    scale_down_interval_s: float = _seconds(3600.0, "A decrease is held back for this long; then the maximum counts.")
    backlog_threshold_s: float = _seconds(300.0, "No decrease with an excess of more than this time of processing.")
    max_scale_down_factor: float = Field(0.6, ge=0, le=1, description="Largest share taken away at a time.")
    max_scale_up_factor: float = Field(100_000.0, gt=0, le=1e9, description="Largest share added at a time.")
    observed_lag_threshold_s: float = _seconds(30.0, "Excess, in time of processing, from which on a rate is observed.")
    observed_switch: float = Field(0.15, ge=0, le=100, description="Share by which busy time may exceed the observed.")
    observed_least: int = Field(2, ge=1, le=60, description="Observed rates that are needed.")
    effectiveness_detection: bool = Field(default=False, description="Whether useless increases stop further ones.")
    effectiveness_threshold: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Share of the promised rate that is useful.",
        json_schema_extra={"only_with": ["effectiveness_detection", "true"]},
    )
    alignment: Alignment | Literal["off"] = Field(
        "evenly-spread",
        description="How the number is aligned to partitions: evenly-spread, maximize-utilisation, off.",
    )
    key_groups: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Partitions of the state to be aligned to; null: those of the sources.",
        json_schema_extra={"only_with": ["alignment", "not off"]},
    )


# ------------------------------------------------------------------------------------ the operator's figures


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of the metric window: arrival rate, processed rate (records/s) and busy share; None: unknown.

    ``observed`` is the processed rate while the job catches up, as a true processing rate; None: it does not.
    """

    at: float
    arrival: float
    processed: float | None
    busy: float | None
    observed: float | None


@dataclass(frozen=True, slots=True)
class Scaling:
    """A scaling; ``rate`` and ``expected`` are true processing rates before and after it, records/s."""

    at: float
    before: int
    after: int
    rate: float
    expected: float


@dataclass(frozen=True, slots=True)
class Down:
    """A decrease that is held back: when, to how many, and whether the utilization was out of its boundaries."""

    at: float
    target: int
    outside: bool


def add_sample(samples: tuple[Sample, ...], new: Sample, window_s: float) -> tuple[Sample, ...]:
    """The window with one more sample, without those that are too old; at most about 60 are kept."""
    kept = tuple(each for each in samples if each.at >= new.at - window_s)
    if kept and new.at - kept[-1].at < window_s / _SAMPLES:
        return kept
    return (*kept, new)


def averages(samples: Sequence[Sample]) -> tuple[float, float | None, float | None]:
    """Means of arrival, processed and busy; the last two over the samples in which both are known."""
    arrival = math.fsum(each.arrival for each in samples) / len(samples)
    both = [(each.processed, each.busy) for each in samples if each.processed is not None and each.busy is not None]
    return arrival, _mean(processed for processed, _ in both), _mean(busy for _, busy in both)


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return math.fsum(found) / len(found) if found else None


def true_rate(
    processed: float | None, busy: float | None, observed: Sequence[float], switch: float, least: int
) -> float | None:
    """Records/s while busy: processed ÷ busy, or the mean of the observed rates if that one is beyond it by ``switch``.

    The observed rates count from ``least`` of them on. Infinite where nothing is processed or busy; None: unknown.

    >>> true_rate(35.0, 0.1, (200.0, 400.0), switch=0.2, least=2)
    350.0
    >>> true_rate(35.0, 0.1, (200.0, 400.0), switch=0.1, least=2)
    300.0
    """
    by_busy: float | None = None
    if processed == 0 or busy == 0:
        by_busy = math.inf
    elif processed is not None and busy is not None:
        by_busy = processed / busy
    mean = _mean(observed) if len(observed) >= least else None
    if mean is not None and (by_busy is None or by_busy > mean * (1 + switch)):
        return mean
    return by_busy


def target_capacity(
    arrival: float, excess: float, utilization: float, catch_up_s: float, restart_s: float = 0.0
) -> float:
    """Records/s needed: arrival ÷ utilization + excess ÷ catch-up + arrival × restart ÷ catch-up.

    A catch-up duration of 0 leaves out the last two; a utilization of 0 needs without bound.

    >>> target_capacity(700.0, 21_000.0, utilization=0.7, catch_up_s=60.0, restart_s=30.0)
    1700.0
    """
    if utilization <= 0:
        return math.inf
    catching_up = 0.0 if catch_up_s <= 0 else (excess + arrival * restart_s) / catch_up_s
    return arrival / min(1.0, utilization) + catching_up


def thresholds(
    arrival: float, excess: float, utilization: tuple[float, float] | None, catch_up_s: float, restart_s: float
) -> tuple[float, float]:
    """True processing rates between which nothing changes: more is needed below the first, less above the second.

    ``utilization``: its boundaries, lower and upper; None: 0 and 1, while a large backlog is processed.
    """
    lower, upper = utilization or (0.0, 1.0)
    below = target_capacity(arrival, excess, upper, catch_up_s)
    return below, target_capacity(arrival, excess, lower, catch_up_s, restart_s)


def is_ineffective(last: Scaling | None, current: int, rate: float, threshold: float) -> bool:
    """Whether the last increase, to ``current``, brought less than this share of the expected gain."""
    if last is None or last.after <= last.before or last.after != current:
        return False
    return rate - last.rate < threshold * (last.expected - last.rate)


def add_decrease(downs: tuple[Down, ...], new: Down, interval_s: float) -> tuple[Down, ...]:
    """The decreases of the interval that can still be its maximum, which is the first: targets fall."""
    kept = [each for each in downs if each.at >= new.at - interval_s and each.target > new.target]
    if len(kept) >= _DOWNS:
        kept[-2:] = [Down(kept[-1].at, kept[-2].target, kept[-2].outside)]
    return (*kept, new)


# ------------------------------------------------------------------------------------------------ the policy


@dataclass(frozen=True, slots=True)
class FlinkState:
    """What is remembered from sample to sample.

    Attributes:
        executors: the current target, and the registered executors, at the last sample.
        since: when they were first seen like that.
        at: time of the last sample.
        stable_at: the first sample after the stabilization.
        samples: the metric window.
        down_since, downs: since when a decrease has been held back, and those of :func:`add_decrease`.
        proposed, last: the change proposed last, and the one done last.
        rate: true processing rate of one executor, records/s.
        run: the runs of the queries that all this is of, by the time when they began; None: the first ones.
    """

    executors: tuple[int, int] | None = None
    since: float | None = None
    at: float | None = None
    stable_at: float | None = None
    samples: tuple[Sample, ...] = ()
    down_since: float | None = None
    downs: tuple[Down, ...] = ()
    proposed: Scaling | None = None
    last: Scaling | None = None
    rate: float | None = None
    run: float | None = None


_Proposal = tuple[Recommendation, FlinkState]


@dataclass(frozen=True, slots=True)
class _Plan:
    """The number that the load needs, by which factor, the true rate, and whether it is outside the boundaries."""

    now: int
    target: int
    factor: float
    rate: float
    outside: bool
    text: str


class FlinkPolicy(BuiltInPolicy[FlinkOptions, FlinkState]):
    """Keeps the utilization near a target. See the module's description."""

    name: ClassVar[str] = "flink"
    self_managed_steps = frozenset(
        {"warm_up", "hold", "tolerance", "scale_down_hold", "alignment", "largest_step", "cooldown_up", "cooldown_down"}
    )
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {"default": TUNED, "tuned": TUNED, "faithful": {}}

    def recommend(self, assessment: Assessment, state: FlinkState) -> _Proposal:
        n = valid_target(assessment)
        if n is None or not assessment.executors or assessment.arrival_rate is None:
            return propose_nothing(assessment, "executors"), state
        state = self._follow(assessment, n, state)
        stable_in = self.options.stabilization_s - (assessment.at - (state.since or assessment.at))
        if stable_in > ROUNDING:
            return _hold(n, ReasonCode.STABILIZING, f"{seconds(stable_in)} of stabilization are left"), state
        state = self._add_sample(assessment, state)
        full_in = self.options.metric_window_s - (assessment.at - (state.stable_at or assessment.at))
        if full_in > ROUNDING:
            return _hold(n, ReasonCode.STABILIZING, f"the metric window is full in {seconds(full_in)}"), state
        plan = self._plan(assessment, state)
        if plan is None:
            text = "no true processing rate without processed records"
            return _hold(n, ReasonCode.CAPACITY_UNKNOWN, text), state
        each = finite(plan.rate / plan.now)
        state = replace(state, rate=state.rate if each is None else each)
        if plan.target < plan.now:
            return self._decrease(assessment, n, plan, state)
        state = replace(state, down_since=None, downs=())
        if plan.target == plan.now:
            return _hold(n, ReasonCode.STEADY, plan.text), state
        return self._increase(assessment, n, plan, state)

    def capacity(self, executors: int, state: FlinkState) -> float | None:
        """Of n executors: n × the true processing rate of one, at the last full window."""
        return None if state.rate is None else executors * state.rate

    # --------------------------------------------------------------------------------------------- window

    def _follow(self, assessment: Assessment, n: int, state: FlinkState) -> FlinkState:
        """The state with this sample's target. Another one, another run, or a long silence restarts everything."""
        now, before, run = (n, assessment.executors or n), state.executors, assessment.run_since
        if run != state.run:
            return FlinkState(now, assessment.at, assessment.at, rate=state.rate, run=run)
        silence_s = max(self.options.metric_window_s, 2 * self.context.sample_s)
        if now == before and state.at is not None and assessment.at - state.at <= silence_s:
            return replace(state, at=assessment.at)
        last, proposed = state.last, state.proposed
        if before is not None and before[0] != n:
            last, proposed = _complete(n, proposed), None
        return FlinkState(now, assessment.at, assessment.at, proposed=proposed, last=last, rate=state.rate, run=run)

    def _add_sample(self, assessment: Assessment, state: FlinkState) -> FlinkState:
        processed, excess = assessment.processed_rate, assessment.backlog_excess or 0.0
        # While the job catches up, the processed rate is all that it can do.
        catching_up = processed and excess >= self.options.observed_lag_threshold_s * processed
        sample = Sample(
            at=assessment.at,
            arrival=assessment.arrival_rate or 0.0,
            processed=processed,
            busy=busy_share(assessment, self.options.useful_time),
            observed=processed if catching_up else None,
        )
        samples = add_sample(state.samples, sample, self.options.metric_window_s)
        return replace(state, samples=samples, stable_at=assessment.at if state.stable_at is None else state.stable_at)

    # ------------------------------------------------------------------------------------------- decision

    def _plan(self, assessment: Assessment, state: FlinkState) -> _Plan | None:
        options, now, excess = self.options, assessment.executors or 1, assessment.backlog_excess or 0.0
        arrival, processed, busy = averages(state.samples)
        observed = [each.observed for each in state.samples if each.observed is not None]
        rate = true_rate(processed, busy, observed, options.observed_switch, options.observed_least)
        if rate is None:
            return None
        needed = target_capacity(
            arrival, excess, options.utilization_target, options.catch_up_s, options.restart_time_s
        )
        factor = max(1 - options.max_scale_down_factor, min(needed / rate, 1 + options.max_scale_up_factor))
        target, partitions = round_up(factor * now), options.key_groups or assessment.partitions
        if options.alignment != "off" and partitions:
            target = align(now, target, -(-partitions // (assessment.slots_per_executor or 1)), options.alignment)
        catching_up = processed is not None and excess > options.backlog_threshold_s * processed
        boundaries = None if catching_up else (options.utilization_min, options.utilization_max)
        below, above = thresholds(arrival, excess, boundaries, options.catch_up_s, options.restart_time_s)
        text = (
            f"{carry(now)} {per_second(finite(rate))} while busy, {per_second(needed)} are needed, "
            f"{per_second(below)} to {per_second(finite(above))} would do"
        )
        return _Plan(now, target, factor, rate, rate < below or rate > above, text)

    def _increase(self, assessment: Assessment, n: int, plan: _Plan, state: FlinkState) -> _Proposal:
        recent = state.last if state.last is not None and assessment.at - state.last.at <= _HISTORY_S else None
        threshold = self.options.effectiveness_threshold
        if self.options.effectiveness_detection and is_ineffective(recent, plan.now, plan.rate, threshold):
            text = f"{plan.text}; the last increase brought less than {threshold:.0%} of the expected rate"
            return _hold(n, ReasonCode.USELESS_EXECUTORS, text), state
        if not plan.outside:
            return _hold(n, ReasonCode.STEADY, plan.text), state
        scaling = Scaling(assessment.at, plan.now, plan.target, rate=plan.rate, expected=plan.rate * plan.factor)
        return _change(n, plan.target, plan.text), replace(state, proposed=scaling)

    def _decrease(self, assessment: Assessment, n: int, plan: _Plan, state: FlinkState) -> _Proposal:
        """Hold a decrease back for the interval, then propose its maximum."""
        interval_s = self.options.scale_down_interval_s
        since = assessment.at if state.down_since is None else state.down_since
        downs = add_decrease(state.downs, Down(assessment.at, plan.target, plan.outside), interval_s)
        state = replace(state, down_since=since, downs=downs)
        waited_s = assessment.at - since
        if waited_s < interval_s - ROUNDING:
            text = f"{plan.text}; down to {plan.target} is held back for {seconds(interval_s - waited_s)}"
            return _hold(n, ReasonCode.SURPLUS_COUNTING, text), state
        if not downs[0].outside:
            return _hold(n, ReasonCode.STEADY, plan.text), state
        scaling = Scaling(assessment.at, plan.now, downs[0].target, rate=0.0, expected=0.0)
        return _change(n, downs[0].target, plan.text), replace(state, proposed=scaling)


def _complete(n: int, proposed: Scaling | None) -> Scaling | None:
    """The change that led to this target; one that the guard has lessened promises its part of the rate."""
    if proposed is None or (proposed.after - proposed.before) * (n - proposed.before) <= 0:
        return None
    return replace(proposed, after=n, expected=min(proposed.expected, proposed.rate * n / proposed.before))


def _hold(n: int, code: ReasonCode, text: str) -> Recommendation:
    return Recommendation(n, Reason(code, f"{text}: {n} stays", {"executors": float(n)}))


def _change(n: int, target: int, text: str) -> Recommendation:
    code = ReasonCode.STEADY if target == n else ReasonCode.UNDERSIZED if target > n else ReasonCode.OVERSIZED
    return Recommendation(target, Reason(code, f"{text}: {n} → {target}", {"executors": float(n)}))
