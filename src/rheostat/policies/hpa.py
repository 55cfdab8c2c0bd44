"""``hpa``: what the HorizontalPodAutoscaler of Kubernetes would do with executors as its pods.

For each metric, with n executors in force::

    desired = ⌈ready × value ÷ target⌉          n where |1 − value ÷ target| ≤ tolerance

The largest wins. Where some metrics are unknown the others decide, unless they ask for fewer; where all are, nothing
changes. Then the *behavior*: stabilization and scaling policies.

``value`` is a mean over the ready executors, those that are registered. Executors in force that are not registered yet
are pending pods: they do not count, but on the way up they count as idle. A pod without metrics counts as idle on the
way up and as fully used on the way down; where either correction would turn the direction, nothing changes. Here a
registered executor always has metrics.

The metric ``lag_change`` is S4's: it scales up only, above a threshold of the lag,
and leaves scaling down to ``utilization``. S4's utilization is that of the tasks without a source, as Flink's source
tasks say nothing; in Spark reading is part of the first stage's tasks, which are busy while they work and do not exist
while they do not, so all tasks count. Without slots there is no share of them: unknown, never 0.

Source: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details;
kubernetes/kubernetes, pkg/controller/podautoscaler/replica_calculator.go (``GetResourceReplicas``,
``GetExternalMetricReplicas``, ``GetExternalPerPodMetricReplicas``) and horizontal.go (``computeReplicasForMetrics``);
S4, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, Field, model_validator

from rheostat.config.models import FrozenModel, reject
from rheostat.decide.policy import PolicyContext, in_force
from rheostat.errors import Fault
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.policies.trend import Point, line
from rheostat.text import count, executors, percent, seconds

# The ``behavior`` of a HorizontalPodAutoscaler: stabilization windows and scaling policies, for ``hpa`` and ``keda``.


_ROUNDING = 1e-9


class Pace(FrozenModel):
    """A scaling policy: how much may change within a period."""

    by: Literal["executors", "percent"] = Field(description="What the value counts (Kubernetes: Pods, Percent).")
    value: int = Field(gt=0, le=100_000, description="Largest change within the period.")
    period_s: float = Field(gt=0, le=1800, description="The period, s.")


class Rules(FrozenModel):
    """How to scale in one direction."""

    stabilization_s: float = Field(
        ge=0, le=3600, description="Window of recommendations of which the most cautious is taken, s."
    )
    select: Literal["max", "min", "disabled"] = Field(
        default="max", description="Which policy holds where there are several; disabled: no change in this direction."
    )
    policies: tuple[Pace, ...] = Field(strict=False, min_length=1, description="The scaling policies.")


UP = Rules(
    stabilization_s=0.0,
    policies=(Pace(by="percent", value=100, period_s=15.0), Pace(by="executors", value=4, period_s=15.0)),
)
"""Kubernetes' defaults for scaling up."""

DOWN = Rules(stabilization_s=300.0, policies=(Pace(by="percent", value=100, period_s=15.0),))
"""Kubernetes' defaults for scaling down."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A number of executors at a time: what was asked for, or by how much the number in force changed."""

    at: float
    executors: int


@dataclass(frozen=True, slots=True)
class BehaviorState:
    """What the two steps remember.

    Attributes:
        highs: numbers asked for within the window of decreases, without those that a later one reaches.
        lows: numbers asked for within the window of increases, without those that a later one undercuts.
        changes: by how much the number in force changed, within the longest period.
        executors: the number in force at the last look; None: there was none yet.
        at: when that was.
    """

    highs: tuple[Asked, ...] = ()
    lows: tuple[Asked, ...] = ()
    changes: tuple[Asked, ...] = ()
    executors: int | None = None
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Shaped:
    """What the two steps make of a number; the code and the words of the one that determined it, if one did."""

    target: int
    code: ReasonCode | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Behavior:
    """The rules of both directions."""

    up: Rules = UP
    down: Rules = DOWN

    def looked(self, at: float, current: int, state: BehaviorState) -> BehaviorState:
        """The state with the number in force as it is now found. To be told of every look that counts."""
        if state.executors is None:
            first = (Asked(at, current),)
            return BehaviorState(highs=first, lows=first, executors=current, at=at)
        changes = state.changes
        if current != state.executors:
            changes = (*changes, Asked(state.at, current - state.executors))
        longest = max(pace.period_s for rules in (self.up, self.down) for pace in rules.policies)
        return replace(state, changes=_within(changes, at, longest), executors=current, at=at)

    def shape(self, desired: int, at: float, current: int, state: BehaviorState) -> tuple[Shaped, BehaviorState]:
        """The number to go to where the metrics ask for ``desired``; and the state with that remembered."""
        highs = _within(state.highs, at, self.down.stabilization_s)
        lows = _within(state.lows, at, self.up.stabilization_s) if self.up.stabilization_s else ()
        calm = stabilized(desired, current, highs, lows)
        after = replace(
            state,
            highs=(*(each for each in highs if each.executors > desired), Asked(at, desired)),
            lows=(*(each for each in lows if each.executors < desired), Asked(at, desired)),
        )
        limit = allowed(calm, current, state.changes, at, self.up if calm > current else self.down)
        if limit != calm:
            text = f"no more than to {executors(limit)} at this pace"
            return Shaped(limit, ReasonCode.LARGEST_STEP, text), after
        return Shaped(calm, *self._why(desired, calm, current)), after

    def _why(self, desired: int, calm: int, current: int) -> tuple[ReasonCode | None, str]:
        if calm == desired:
            return None, ""
        rules, word = (self.down, "no fewer") if desired < current else (self.up, "no more")
        return (
            ReasonCode.STABILIZING,
            f"{word} than {calm} because of what was asked for within {seconds(rules.stabilization_s)}",
        )


def stabilized(desired: int, current: int, highs: Iterable[Asked], lows: Iterable[Asked]) -> int:
    """Between the least of what was asked for in the window up and the greatest in the window down.

    >>> stabilized(3, 9, (Asked(0.0, 4), Asked(60.0, 5)), ())
    5
    """
    least = min([desired, *(each.executors for each in lows)])
    most = max([desired, *(each.executors for each in highs)])
    return min(max(current, least), most)


def allowed(wanted: int, current: int, changes: Iterable[Asked], at: float, rules: Rules) -> int:
    """As far towards ``wanted`` as the scaling policies allow, but never away from it.

    >>> allowed(50, 10, (), 0.0, UP), allowed(1, 10, (), 0.0, DOWN)
    (20, 1)
    """
    if wanted == current or rules.select == "disabled":
        return current
    changes = tuple(changes)
    starts = [
        (pace, current - sum(each.executors for each in _within(changes, at, pace.period_s))) for pace in rules.policies
    ]
    if wanted > current:
        most = [_most(start, pace) for pace, start in starts]
        limit = max(most) if rules.select == "max" else min(most)
        return min(wanted, max(current, limit))
    least = [_least(start, pace) for pace, start in starts]
    limit = min(least) if rules.select == "max" else max(least)
    return max(wanted, min(current, limit))


def _most(start: int, pace: Pace) -> int:
    if pace.by == "executors":
        return start + pace.value
    return math.ceil(start * (1 + pace.value / 100) - _ROUNDING)


def _least(start: int, pace: Pace) -> int:
    if pace.by == "executors":
        return start - pace.value
    return math.floor(start * (1 - pace.value / 100) + _ROUNDING)


def _within(log: tuple[Asked, ...], now: float, window_s: float) -> tuple[Asked, ...]:
    return tuple(each for each in log if each.at > now - window_s)


_DERIVED_S, _MOST_LAGS = 60.0, 64


@dataclass(frozen=True, slots=True)
class Pods:
    """The executors, grouped as the controller groups pods.

    Attributes:
        current: the number in force.
        ready: those whose metrics count.
        pending: in force, but not there yet.
        missing: there, but without metrics.
    """

    current: int
    ready: int
    pending: int = 0
    missing: int = 0


def by_utilization(value: float, target: float, pods: Pods, tolerance: float) -> int:
    """Executors for a mean share of what each has (metric type Resource).

    >>> by_utilization(0.5, 0.3, Pods(3, 3), 0.1), by_utilization(0.6, 0.3, Pods(3, 2, pending=1), 0.1)
    (5, 4)
    """
    ratio = value / target
    idle = pods.pending if ratio > 1 else 0
    if not idle and not pods.missing:
        return pods.current if _small(ratio, tolerance) else _ceil(ratio * pods.ready)
    absent = pods.missing if ratio != 1 else 0
    used = pods.ready * value + (absent * max(1.0, target) if ratio < 1 else 0.0)
    counted = pods.ready + absent + idle
    corrected = used / counted / target
    turned = (ratio - 1) * (corrected - 1) < 0
    if turned or _small(corrected, tolerance):
        return pods.current
    desired = _ceil(corrected * counted)
    return pods.current if (corrected - 1) * (desired - pods.current) < 0 else desired


def by_value(value: float, target: float, pods: Pods, tolerance: float) -> int:
    """Executors for a figure of the whole job that shrinks with their number (Object or External, target Value).

    >>> by_value(20.0, 15.0, Pods(3, 3), 0.1)
    4
    """
    ratio = value / target
    return pods.current if _small(ratio, tolerance) else _ceil(ratio * pods.ready)


def by_average(total: float, target: float, pods: Pods, tolerance: float) -> int:
    """Executors for a total of which each is to have so much (External, target AverageValue).

    >>> by_average(8600.0, 2150.0, Pods(3, 3), 0.1)
    4
    """
    ratio = total / (target * pods.current)
    return pods.current if _small(ratio, tolerance) else _ceil(total / target)


def _small(ratio: float, tolerance: float) -> bool:
    return abs(1 - ratio) <= tolerance + _ROUNDING


def _ceil(number: float) -> int:
    return math.ceil(number - _ROUNDING)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric to scale on.

    Attributes:
        read: its value; None: unknown.
        rule: how a value becomes a number of executors.
        say: a value, for people.
    """

    read: Callable[[Assessment], float | None]
    rule: Callable[[float, float, Pods, float], int]
    say: Callable[[float | None], str]


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        "utilization": Metric(lambda seen: seen.busy_ratio, by_utilization, percent),
        "occupancy": Metric(lambda seen: seen.occupancy, by_value, percent),
    }
)
"""Metrics of one look. utilization: busy share of the slots; occupancy: batch time ÷ τ."""

MetricName = Literal["utilization", "occupancy", "lag_change"]


class HpaOptions(FrozenModel):
    """Options of ``hpa``, with the defaults of Kubernetes."""

    metrics: dict[MetricName, Annotated[float, Field(gt=0, le=10)]] = Field(
        {"utilization": 0.8},
        min_length=1,
        description="Metric → target. utilization: busy share of the slots; occupancy: batch time ÷ τ; lag_change: "
        "1 + change of the lag ÷ records consumed, above lag_threshold (S4).",
    )
    lag_threshold: float | None = Field(
        None,
        ge=0,
        description="Lag up to which lag_change has no say; null: what a healthy job has.",
        json_schema_extra={"only_with": ["metrics", "lag_change"], "unit": "records"},
    )
    overshoot: float = Field(
        1.0,
        ge=1,
        le=10,
        description="Factor of the change in lag_change: above 1 more is asked for than arrives (S4).",
        json_schema_extra={"only_with": ["metrics", "lag_change"]},
    )
    tolerance: float = Field(0.1, ge=0, lt=1, description="No change while value ÷ target is this close to 1.")
    scale_up: Rules = Field(UP, description="Behavior on the way up.")
    scale_down: Rules = Field(DOWN, description="Behavior on the way down.")

    @model_validator(mode="after")
    def _down(self) -> Self:
        if set(self.metrics) == {"lag_change"}:
            message = "lag_change never scales down: another metric must be named beside it"
            raise reject([Fault("metrics", "lag_change alone", "utilization or occupancy beside it", message)])
        return self


S4: Mapping[str, object] = MappingProxyType({"metrics": {"lag_change": 1.0, "utilization": 0.8}})


@dataclass(frozen=True, slots=True)
class HpaState:
    """What is remembered: what the behavior needs, and the lags ``(s, records)`` of the last minute."""

    behavior: BehaviorState = field(default_factory=BehaviorState)
    lags: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one metric asks for, and in words why; executors None: it is unknown."""

    executors: int | None
    text: str
    figures: Mapping[str, float | None]


class HpaPolicy:
    """The controller. See the module's description."""

    name: ClassVar[str] = "hpa"
    self_managed_steps: ClassVar[frozenset[str]] = frozenset(
        {
            "warm_up",
            "hold",
            "tolerance",
            "scale_down_hold",
            "largest_step",
            "cooldown_up",
            "cooldown_down",
        }
    )
    state_type: type[HpaState] = HpaState
    options_type: ClassVar[type[BaseModel]] = HpaOptions
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {"default": {}, "faithful": {}, "s4": S4}

    def __init__(self, options: HpaOptions, context: PolicyContext) -> None:
        self.options = options
        self.context = context
        self.behavior = Behavior(options.scale_up, options.scale_down)

    def initial(self) -> HpaState:
        """Nothing was asked for yet."""
        return HpaState()

    def recommend(self, assessment: Assessment, state: HpaState) -> tuple[Recommendation, HpaState]:
        """What the metrics ask for, shaped by the behavior; no opinion without them."""
        pods = group(assessment)
        if pods is None:
            return Recommendation(None, unknown(assessment, "executors")), state
        known = self.behavior.looked(assessment.at, pods.current, state.behavior)
        state = self._heard(assessment, state)
        asked = [self._ask(name, assessment, pods, state) for name in self.options.metrics]
        proposed = largest([each for each in asked if each is not None], pods.current)
        answered, after = answer(proposed, self.behavior, assessment.at, pods.current, known)
        return answered, HpaState(after, state.lags)

    def capacity(self, executors: int, state: HpaState) -> float | None:  # noqa: ARG002
        """No model."""
        return None

    def _heard(self, assessment: Assessment, state: HpaState) -> HpaState:
        """The state with this look's lag, if anybody asks for its change."""
        if "lag_change" not in self.options.metrics or assessment.backlog is None:
            return state
        kept = [each for each in state.lags if assessment.at - _DERIVED_S - _ROUNDING <= each[0] < assessment.at]
        return replace(state, lags=(*kept[-_MOST_LAGS:], (assessment.at, float(assessment.backlog))))

    def _ask(self, name: MetricName, assessment: Assessment, pods: Pods, state: HpaState) -> Proposal | None:
        """What a metric asks for; None: it abstains."""
        if name == "lag_change":
            return self._lag_change(assessment, pods, state.lags)
        metric, target = METRICS[name], self.options.metrics[name]
        value = metric.read(assessment)
        if value is None:
            return Proposal(None, f"{name} unknown", {name: None})
        desired = metric.rule(value, target, pods, self.options.tolerance)
        text = f"{name} {metric.say(value)} at a target of {metric.say(target)} asks for {executors(desired)}"
        return Proposal(desired, text, {name: value, "target": target})

    def _lag_change(self, assessment: Assessment, pods: Pods, lags: tuple[tuple[float, float], ...]) -> Proposal | None:
        """Executors that keep the lag as it is, while it is above the threshold; below it and at it no opinion."""
        lag, excess, change = assessment.backlog, assessment.backlog_excess, slope(lags)
        if lag is None or excess is None or change is None or assessment.processed_rate is None:
            return Proposal(None, "the change of the lag is unknown", {"lag_change": None})
        relative = relative_change(change, assessment.processed_rate, self.options.overshoot)
        if relative is None:
            return Proposal(None, "nothing is consumed, so the lag has no relative change", {"lag_change": None})
        threshold = lag - excess if self.options.lag_threshold is None else self.options.lag_threshold
        value = gated(relative, float(lag), threshold)
        if value is None or lag < threshold:
            return None
        target = self.options.metrics["lag_change"]
        desired = by_value(value, target, pods, self.options.tolerance)
        above = f"a lag of {count(lag)}, above {count(threshold)}"
        text = f"{above}, of relative change {value:.2f} asks for {executors(desired)}"
        return Proposal(desired, text, {"lag_change": value, "target": target, "lag": float(lag)})


def group(assessment: Assessment) -> Pods | None:
    """The executors as pods; None where this sample does not count or their number is unknown.

    Registered ones beyond the number in force are on their way out and do not count.
    """
    current, there = in_force(assessment), assessment.executors
    if assessment.missing or assessment.invalid or not current or there is None:
        return None
    ready = min(current, there)
    return Pods(current, ready, pending=current - ready)


def unknown(assessment: Assessment, needed: str) -> Reason:
    """Why there is no opinion on this sample."""
    names = assessment.missing or assessment.invalid or (needed,)
    return Reason(ReasonCode.METRICS_MISSING, f"nothing is proposed without: {', '.join(names)}")


def largest(proposals: Iterable[Proposal], current: int) -> Proposal:
    """What asks for most; unknown where none is known, or some are unknown and the rest ask for fewer."""
    each = list(proposals)
    known = [(one.executors, one) for one in each if one.executors is not None]
    lacking = [one for one in each if one.executors is None]
    if not known:
        return lacking[0]
    most, winner = max(known, key=lambda pair: pair[0])
    if lacking and most < current:
        return Proposal(None, f"{lacking[0].text}, and {winner.text}", winner.figures)
    return winner


def answer(
    proposal: Proposal, behavior: Behavior, at: float, current: int, state: BehaviorState
) -> tuple[Recommendation, BehaviorState]:
    """What is asked for, shaped by the behavior, with the reason."""
    figures = {**proposal.figures, "executors": float(current)}
    if proposal.executors is None:
        return Recommendation(
            None, Reason(ReasonCode.METRICS_MISSING, f"nothing is proposed: {proposal.text}", figures)
        ), state
    shaped, after = behavior.shape(proposal.executors, at, current, state)
    target = max(1, shaped.target)
    code = (
        ReasonCode.STEADY if target == current else ReasonCode.UNDERSIZED if target > current else ReasonCode.OVERSIZED
    )
    if target == current and shaped.code is not None:
        code = shaped.code
    move = f"{current} stays" if target == current else f"{current} → {target}"
    text = f"{proposal.text}{'; ' if shaped.text else ''}{shaped.text}: {move}"
    return Recommendation(target, Reason(code, text, figures)), after


# The relative change of the lag (S4, section 4.1): what an autoscaler that knows one number may scale up on.


def slope(samples: Sequence[tuple[float, float]]) -> float | None:
    """The slope of the straight line through ``(s, value)`` with the least squares, per second; None before two.

    >>> slope([(0.0, 100.0), (15.0, 130.0), (30.0, 160.0)])
    2.0
    """
    fit = line([Point(at, value) for at, value in samples]) if len(samples) > 1 else None
    return None if fit is None or fit.spread1 == 0 else fit.c1


def relative_change(per_second: float, consumed: float, overshoot: float = 1.0) -> float | None:
    """R of equation 3; None where nothing is consumed.

    Args:
        per_second: change of the total lag, records/s.
        consumed: records/s.
        overshoot: m, a multiplier of the change.

    >>> relative_change(50.0, 100.0), relative_change(50.0, 100.0, overshoot=1.2), relative_change(50.0, 0.0)
    (1.5, 1.6, None)
    """
    return 1 + overshoot * per_second / consumed if consumed > 0 else None


def gated(relative: float, lag: float, threshold: float) -> float | None:
    """Equation 4: negative below the threshold, so that the largest of several metrics is another; None at it.

    >>> gated(1.5, 900.0, 1000.0), gated(1.5, 1100.0, 1000.0), gated(1.5, 1000.0, 1000.0)
    (-1.5, 1.5, None)
    """
    if lag == threshold:
        return None
    return relative if lag > threshold else -relative
