"""``hpa``: the HorizontalPodAutoscaler of Kubernetes, with executors as its pods.

For each metric, with n the current target::

    desired = ⌈ready × value ÷ target⌉          n where |1 − value ÷ target| ≤ tolerance

The largest wins. Unknown metrics are left out, unless the known ones ask for fewer; where all are unknown, nothing
changes. Then the *behavior* is applied: stabilization and scaling policies.

``value`` is a mean over the ready executors, those that are registered. Executors that are not registered yet are
pending pods: they do not count, but on the way up they count as idle. A pod without metrics counts as idle on the way
up and as fully used on the way down; where either correction would turn the direction, nothing changes. Here a
registered executor always has metrics.

The metric ``lag_change`` is S4's: it scales up only, above a threshold of the lag, and leaves scaling down to
``utilization``. S4 measures the utilization of tasks without a source; in Spark reading is part of the first stage's
tasks, so all tasks count. Without slots the utilization is unknown, never 0.

Source: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details;
kubernetes/kubernetes, pkg/controller/podautoscaler/replica_calculator.go (``GetResourceReplicas``,
``GetExternalMetricReplicas``, ``GetExternalPerPodMetricReplicas``) and horizontal.go (``computeReplicasForMetrics``);
S4, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from rheostat.config.models import FrozenModel, reject
from rheostat.decide.policy import PolicyContext
from rheostat.errors import Fault
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.policies.capacity import ROUNDING, BuiltInPolicy, PolicyOptions, propose_nothing, valid_target
from rheostat.policies.trend import Point, line
from rheostat.text import count, executors, percent, seconds

Lags = tuple[tuple[float, float], ...]
"""``(s, records)``, ascending."""

_DERIVED_S, _MOST_LAGS = 60.0, 64


# ---------------------------------------------- the behavior: stabilization and scaling policies, also for ``keda``


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
    """A number of executors at a time: one that was asked for, or a difference of the current target."""

    at: float
    executors: int


@dataclass(frozen=True, slots=True)
class BehaviorState:
    """What the behavior remembers.

    Attributes:
        highs: numbers asked for within the window of decreases, without those that a later one reaches.
        lows: numbers asked for within the window of increases, without those that a later one undercuts.
        changes: differences of the current target, within the longest period.
        executors, at: the current target, and the time, of the last sample.
    """

    highs: tuple[Asked, ...] = ()
    lows: tuple[Asked, ...] = ()
    changes: tuple[Asked, ...] = ()
    executors: int | None = None
    at: float = 0.0


class Shaped(NamedTuple):
    """The number after the behavior; code and text of the step that changed it, if one did."""

    target: int
    code: ReasonCode | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Behavior:
    """The rules of both directions."""

    up: Rules = UP
    down: Rules = DOWN

    def observe(self, at: float, current: int, state: BehaviorState) -> BehaviorState:
        """The state with the current target; to be called with every complete sample."""
        if state.executors is None:
            first = (Asked(at, current),)
            return BehaviorState(highs=first, lows=first, executors=current, at=at)
        changed = (Asked(state.at, current - state.executors),) if current != state.executors else ()
        longest = max(pace.period_s for rules in (self.up, self.down) for pace in rules.policies)
        return replace(state, changes=_within((*state.changes, *changed), at, longest), executors=current, at=at)

    def shape(self, desired: int, at: float, current: int, state: BehaviorState) -> tuple[Shaped, BehaviorState]:
        highs = _within(state.highs, at, self.down.stabilization_s)
        lows = _within(state.lows, at, self.up.stabilization_s) if self.up.stabilization_s else ()
        calm = stabilize(desired, current, highs, lows)
        after = replace(
            state,
            highs=(*(each for each in highs if each.executors > desired), Asked(at, desired)),
            lows=(*(each for each in lows if each.executors < desired), Asked(at, desired)),
        )
        limit = limit_pace(calm, current, state.changes, at, self.up if calm > current else self.down)
        if limit != calm:
            return Shaped(limit, ReasonCode.LARGEST_STEP, f"at most {executors(limit)} at this pace"), after
        if calm == desired:
            return Shaped(calm), after
        rules, word = (self.down, "no fewer") if desired < current else (self.up, "no more")
        text = f"{word} than {calm} because of what was asked for within {seconds(rules.stabilization_s)}"
        return Shaped(calm, ReasonCode.STABILIZING, text), after


def stabilize(desired: int, current: int, highs: Iterable[Asked], lows: Iterable[Asked]) -> int:
    """Between the least number asked for in the window up and the greatest in the window down.

    >>> stabilize(3, 9, (Asked(0.0, 4), Asked(60.0, 5)), ())
    5
    """
    least = min([desired, *(each.executors for each in lows)])
    most = max([desired, *(each.executors for each in highs)])
    return min(max(current, least), most)


def limit_pace(wanted: int, current: int, changes: Iterable[Asked], at: float, rules: Rules) -> int:
    """As far towards ``wanted`` as the scaling policies allow, but never away from it.

    >>> limit_pace(50, 10, (), 0.0, UP), limit_pace(1, 10, (), 0.0, DOWN)
    (20, 1)
    """
    if wanted == current or rules.select == "disabled":
        return current
    log, up = tuple(changes), wanted > current
    limits = []
    for pace in rules.policies:
        start = current - sum(each.executors for each in _within(log, at, pace.period_s))
        if pace.by == "executors":
            limits.append(start + pace.value if up else start - pace.value)
        elif up:
            limits.append(math.ceil(start * (1 + pace.value / 100) - ROUNDING))
        else:
            limits.append(math.floor(start * (1 - pace.value / 100) + ROUNDING))
    limit = max(limits) if up == (rules.select == "max") else min(limits)
    return min(wanted, max(current, limit)) if up else max(wanted, min(current, limit))


def _within(log: tuple[Asked, ...], now: float, window_s: float) -> tuple[Asked, ...]:
    return tuple(each for each in log if each.at > now - window_s)


# ------------------------------------------------------------------------------------ from a metric to executors


@dataclass(frozen=True, slots=True)
class Pods:
    """The current target; executors whose metrics count; those not there yet; those there, but without metrics."""

    current: int
    ready: int
    pending: int = 0
    missing: int = 0


def size_by_utilization(value: float, target: float, pods: Pods, tolerance: float) -> int:
    """Executors for a mean share of each one's resources (metric type Resource).

    >>> size_by_utilization(0.5, 0.3, Pods(3, 3), 0.1), size_by_utilization(0.6, 0.3, Pods(3, 2, pending=1), 0.1)
    (5, 4)
    """
    ratio = value / target
    idle = pods.pending if ratio > 1 else 0
    if not idle and not pods.missing:
        return pods.current if _is_small(ratio, tolerance) else _round_up(ratio * pods.ready)
    absent = pods.missing if ratio != 1 else 0
    used = pods.ready * value + (absent * max(1.0, target) if ratio < 1 else 0.0)
    counted = pods.ready + absent + idle
    corrected = used / counted / target
    turned = (ratio - 1) * (corrected - 1) < 0
    if turned or _is_small(corrected, tolerance):
        return pods.current
    desired = _round_up(corrected * counted)
    return pods.current if (corrected - 1) * (desired - pods.current) < 0 else desired


def size_by_value(value: float, target: float, pods: Pods, tolerance: float) -> int:
    """Executors for a figure of the whole job that shrinks with their number (Object or External, target Value).

    >>> size_by_value(20.0, 15.0, Pods(3, 3), 0.1)
    4
    """
    ratio = value / target
    return pods.current if _is_small(ratio, tolerance) else _round_up(ratio * pods.ready)


def size_by_average(total: float, target: float, pods: Pods, tolerance: float) -> int:
    """Executors for a total, of which ``target`` is for each (External, target AverageValue).

    >>> size_by_average(8600.0, 2150.0, Pods(3, 3), 0.1)
    4
    """
    return pods.current if _is_small(total / (target * pods.current), tolerance) else _round_up(total / target)


def _is_small(ratio: float, tolerance: float) -> bool:
    return abs(1 - ratio) <= tolerance + ROUNDING


def _round_up(number: float) -> int:
    return math.ceil(number - ROUNDING)


# ------------------------------------------------------------- the relative change of the lag: S4, section 4.1


def fit_slope(samples: Sequence[tuple[float, float]]) -> float | None:
    """The slope of the least-squares line through ``(s, value)``, per second; None before two times.

    >>> fit_slope([(0.0, 100.0), (15.0, 130.0), (30.0, 160.0)])
    2.0
    """
    fit = line([Point(at, value) for at, value in samples]) if len(samples) > 1 else None
    return None if fit is None or fit.spread1 == 0 else fit.c1


def relative_change(per_second: float, consumed: float, overshoot: float = 1.0) -> float | None:
    """R of equation 3, with m the overshoot; None where nothing is consumed. Change and consumption in records/s.

    >>> relative_change(50.0, 100.0), relative_change(50.0, 100.0, overshoot=1.2), relative_change(50.0, 0.0)
    (1.5, 1.6, None)
    """
    return 1 + overshoot * per_second / consumed if consumed > 0 else None


def gate_by_lag(relative: float, lag: float, threshold: float) -> float | None:
    """Equation 4: negative below the threshold, so that another metric is the largest; None at it.

    >>> gate_by_lag(1.5, 900.0, 1000.0), gate_by_lag(1.5, 1100.0, 1000.0), gate_by_lag(1.5, 1000.0, 1000.0)
    (-1.5, 1.5, None)
    """
    if lag == threshold:
        return None
    return relative if lag > threshold else -relative


# ------------------------------------------------------------------------------------------------ the policy


MetricName = Literal["utilization", "occupancy", "lag_change"]


class HpaOptions(PolicyOptions):
    """Options of ``hpa``, with the defaults of Kubernetes."""

    metrics: dict[MetricName, Annotated[float, Field(gt=0, le=10)]] = Field(
        {"utilization": 0.8},
        min_length=1,
        description="Metric → target. utilization: busy share of the slots; occupancy: batch time ÷ τ; lag_change: "
        "1 + change of the lag ÷ records consumed, above lag_threshold (S4).",
    )
    lag_threshold: float | None = Field(
        None, ge=0, json_schema_extra={"only_with": ["metrics", "lag_change"], "unit": "records"}
    )
    """Lag up to which lag_change has no say; null: what a healthy job has."""
    overshoot: float = Field(1.0, ge=1, le=10, json_schema_extra={"only_with": ["metrics", "lag_change"]})
    """Factor of the change in lag_change: above 1 more is asked for than arrives (S4)."""
    tolerance: float = Field(0.1, ge=0, lt=1)
    """No change while value ÷ target is this close to 1."""
    scale_up: Rules = UP
    """Behavior on the way up."""
    scale_down: Rules = DOWN
    """Behavior on the way down."""

    @model_validator(mode="after")
    def _down(self) -> Self:
        if set(self.metrics) == {"lag_change"}:
            message = "lag_change never scales down: another metric must be named beside it"
            raise reject([Fault("metrics", "lag_change alone", "utilization or occupancy beside it", message)])
        return self


S4: Mapping[str, object] = {"metrics": {"lag_change": 1.0, "utilization": 0.8}}


@dataclass(frozen=True, slots=True)
class HpaState:
    """State of the behavior, and the lags of the last minute."""

    behavior: BehaviorState = field(default_factory=BehaviorState)
    lags: Lags = ()


@dataclass(frozen=True, slots=True)
class Proposal:
    """The number that one metric asks for, and why; executors None: it is unknown."""

    executors: int | None
    text: str
    figures: Mapping[str, float | None]


class HpaPolicy(BuiltInPolicy[HpaOptions, HpaState]):
    """The controller. See the module's description."""

    name: ClassVar[str] = "hpa"
    self_managed_steps = frozenset(
        {"warm_up", "hold", "tolerance", "scale_down_hold", "largest_step", "cooldown_up", "cooldown_down"}
    )
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {"default": {}, "faithful": {}, "s4": S4}

    def __init__(self, options: HpaOptions, context: PolicyContext) -> None:
        super().__init__(options, context)
        self.behavior = Behavior(options.scale_up, options.scale_down)

    def recommend(self, assessment: Assessment, state: HpaState) -> tuple[Recommendation, HpaState]:
        pods = group_pods(assessment)
        if pods is None:
            return propose_nothing(assessment, "executors"), state
        lags = state.lags
        if "lag_change" in self.options.metrics and assessment.backlog is not None:
            kept = [each for each in lags if assessment.at - _DERIVED_S - ROUNDING <= each[0] < assessment.at]
            lags = (*kept[-_MOST_LAGS:], (assessment.at, float(assessment.backlog)))
        proposals = [self._size(name, assessment, pods, lags) for name in self.options.metrics]
        proposal = choose_largest([each for each in proposals if each is not None], pods.current)
        observed = self.behavior.observe(assessment.at, pods.current, state.behavior)
        recommendation, after = recommend_shaped(proposal, self.behavior, assessment.at, pods.current, observed)
        return recommendation, HpaState(after, lags)

    def _size(self, name: MetricName, assessment: Assessment, pods: Pods, lags: Lags) -> Proposal | None:
        """The number that a metric asks for; None: it abstains."""
        if name == "lag_change":
            return self._size_by_lag_change(assessment, pods, lags)
        used = name == "utilization"
        value, size = (assessment.busy_ratio, size_by_utilization) if used else (assessment.occupancy, size_by_value)
        if value is None:
            return Proposal(None, f"{name} unknown", {name: None})
        target = self.options.metrics[name]
        desired = size(value, target, pods, self.options.tolerance)
        text = f"{name} {percent(value)} at a target of {percent(target)} asks for {executors(desired)}"
        return Proposal(desired, text, {name: value, "target": target})

    def _size_by_lag_change(self, assessment: Assessment, pods: Pods, lags: Lags) -> Proposal | None:
        """Executors that keep the lag as it is, while it is above the threshold; otherwise it abstains."""
        lag, excess, change = assessment.backlog, assessment.backlog_excess, fit_slope(lags)
        if lag is None or excess is None or change is None or assessment.processed_rate is None:
            return Proposal(None, "the change of the lag is unknown", {"lag_change": None})
        relative = relative_change(change, assessment.processed_rate, self.options.overshoot)
        if relative is None:
            return Proposal(None, "nothing is consumed, so the lag has no relative change", {"lag_change": None})
        threshold = lag - excess if self.options.lag_threshold is None else self.options.lag_threshold
        value = gate_by_lag(relative, float(lag), threshold)
        if value is None or lag < threshold:
            return None
        target = self.options.metrics["lag_change"]
        desired = size_by_value(value, target, pods, self.options.tolerance)
        lag_text = f"a lag of {count(lag)}, above {count(threshold)}"
        text = f"{lag_text}, of relative change {value:.2f} asks for {executors(desired)}"
        return Proposal(desired, text, {"lag_change": value, "target": target, "lag": float(lag)})


def group_pods(assessment: Assessment) -> Pods | None:
    """The executors as pods; None where the sample does not count or their number is unknown.

    Registered ones beyond the current target are leaving and do not count.
    """
    current, there = valid_target(assessment), assessment.executors
    if current is None or there is None:
        return None
    ready = min(current, there)
    return Pods(current, ready, pending=current - ready)


def choose_largest(proposals: Sequence[Proposal], current: int) -> Proposal:
    """The largest proposal; unknown where none is known, or some are unknown and the others ask for fewer."""
    known = [(each.executors, each) for each in proposals if each.executors is not None]
    unknown = [each for each in proposals if each.executors is None]
    if not known:
        return unknown[0]
    most, winner = max(known, key=lambda pair: pair[0])
    if unknown and most < current:
        return Proposal(None, f"{unknown[0].text}, and {winner.text}", winner.figures)
    return winner


def recommend_shaped(
    proposal: Proposal, behavior: Behavior, at: float, current: int, state: BehaviorState
) -> tuple[Recommendation, BehaviorState]:
    figures = {**proposal.figures, "executors": float(current)}
    if proposal.executors is None:
        reason = Reason(ReasonCode.METRICS_MISSING, f"no proposal: {proposal.text}", figures)
        return Recommendation(None, reason), state
    shaped, after = behavior.shape(proposal.executors, at, current, state)
    target = max(1, shaped.target)
    if target == current:
        code, move = shaped.code or ReasonCode.STEADY, f"{current} stays"
    else:
        code, move = ReasonCode.UNDERSIZED if target > current else ReasonCode.OVERSIZED, f"{current} → {target}"
    text = f"{proposal.text}{'; ' if shaped.text else ''}{shaped.text}: {move}"
    return Recommendation(target, Reason(code, text, figures)), after
