"""The ``behavior`` of a HorizontalPodAutoscaler: stabilization windows and scaling policies, for ``hpa`` and ``keda``.

What the metrics ask for passes two steps, for each direction with its own rules:

**Stabilization.** The number goes up to no more than the least, and down to no less than the greatest number that was
asked for within the direction's window. The number in force at the first look counts as asked for then.

**Scaling policies.** Each allows so many executors, or so many percent, more or fewer than there were at the start of
its period; ``select`` takes the policy that allows the largest (``max``) or the smallest change (``min``). What was
changed within the period is known from the numbers in force, as they were at each look.

Defaults, where an object of Kubernetes says nothing: up without stabilization, 100 % or 4 in 15 s, whichever is more;
down 300 s of stabilization, 100 % in 15 s.

Source: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#configurable-scaling-behavior;
kubernetes/kubernetes, pkg/controller/podautoscaler/horizontal.go (``stabilizeRecommendationWithBehaviors``,
``calculateScaleUpLimitWithScalingRules``, ``calculateScaleDownLimitWithBehaviors``) and
pkg/apis/autoscaling/v2/defaults.go.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from rheostat.config.fields import FrozenModel
from rheostat.model import Code
from rheostat.plan.words import executors, seconds

__all__ = ["DOWN", "UP", "Asked", "Behavior", "BehaviorState", "Pace", "Rules", "Shaped", "allowed", "stabilized"]

_ROUNDING = 1e-9
_STABILIZING = Code.STABILIZING


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
    """What the two steps remember. Each log is in order of time.

    Attributes:
        highs: numbers asked for within the window of decreases, without those that a later one reaches: they fall, so
            the first is the greatest.
        lows: numbers asked for within the window of increases, without those that a later one undercuts: they rise, so
            the first is the least.
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
    code: Code | None = None
    text: str = ""


class Behavior:
    """The rules of both directions. Immutable."""

    def __init__(self, up: Rules = UP, down: Rules = DOWN) -> None:
        self._up, self._down = up, down
        self._up_s, self._down_s = up.stabilization_s, down.stabilization_s
        self._longest_s = max([pace.period_s for rules in (up, down) for pace in rules.policies])
        self._no_more = f"because of what was asked for within {seconds(self._up_s)}"
        self._no_fewer = f"because of what was asked for within {seconds(self._down_s)}"

    def looked(self, at: float, current: int, state: BehaviorState) -> BehaviorState:
        """The state with the number in force as it is now found. To be told of every look that counts."""
        before, changes = state.executors, state.changes
        if before is None:
            first = (Asked(at, current),)
            return BehaviorState(first, first, (), current, at)
        if current != before:
            changes = (*changes, Asked(state.at, current - before))
        if changes:
            changes = _within(changes, at, self._longest_s)
        return BehaviorState(state.highs, state.lows, changes, current, at)

    def shape(self, desired: int, at: float, current: int, state: BehaviorState) -> tuple[Shaped, BehaviorState]:
        """The number to go to where the metrics ask for ``desired``; and the state with that remembered."""
        highs, lows = _within(state.highs, at, self._down_s), state.lows
        if lows:
            lows = _within(lows, at, self._up_s) if self._up_s else ()
        calm, asked = stabilized(desired, current, highs, lows), Asked(at, desired)
        if highs and highs[-1].executors <= desired:
            highs = tuple([each for each in highs if each.executors > desired])
        if lows and lows[-1].executors >= desired:
            lows = tuple([each for each in lows if each.executors < desired])
        after = BehaviorState((*highs, asked), (*lows, asked), state.changes, state.executors, state.at)
        if calm != current:
            limit = allowed(calm, current, state.changes, at, self._up if calm > current else self._down)
            if limit != calm:
                text = f"no more than to {executors(limit)} at this pace"
                return Shaped(limit, Code.LARGEST_STEP, text), after
        if calm == desired:
            return Shaped(calm), after
        fewer = desired < current
        text = f"no fewer than {calm} {self._no_fewer}" if fewer else f"no more than {calm} {self._no_more}"
        return Shaped(calm, _STABILIZING, text), after


def stabilized(desired: int, current: int, highs: Sequence[Asked], lows: Sequence[Asked]) -> int:
    """Between the least of what was asked for in the window up and the greatest in the window down, each the first.

    >>> stabilized(3, 9, (Asked(0.0, 5), Asked(60.0, 4)), ())
    5
    """
    least = lows[0].executors if lows and lows[0].executors < desired else desired
    most = highs[0].executors if highs and highs[0].executors > desired else desired
    if current < least:
        return least
    return min(current, most)


def allowed(wanted: int, current: int, changes: tuple[Asked, ...], at: float, rules: Rules) -> int:
    """As far towards ``wanted`` as the scaling policies allow, but never away from it.

    >>> allowed(50, 10, (), 0.0, UP), allowed(1, 10, (), 0.0, DOWN)
    (20, 1)
    """
    if wanted == current or rules.select == "disabled":
        return current
    up = wanted > current
    reach = _most if up else _least
    limits = [reach(_start(pace, current, changes, at), pace) for pace in rules.policies]
    limit = max(limits) if up == (rules.select == "max") else min(limits)
    return min(wanted, max(current, limit)) if up else max(wanted, min(current, limit))


def _start(pace: Pace, current: int, changes: tuple[Asked, ...], at: float) -> int:
    """The number at the start of the period."""
    return current - sum([each.executors for each in _within(changes, at, pace.period_s)]) if changes else current


def _most(start: int, pace: Pace) -> int:
    if pace.by == "executors":
        return start + pace.value
    return math.ceil(start * (1 + pace.value / 100) - _ROUNDING)


def _least(start: int, pace: Pace) -> int:
    if pace.by == "executors":
        return start - pace.value
    return math.floor(start * (1 - pace.value / 100) + _ROUNDING)


def _within(log: tuple[Asked, ...], now: float, window_s: float) -> tuple[Asked, ...]:
    """What of a log in order of time is in the window: mostly all of it, or nothing."""
    begin = now - window_s
    if not log or log[0].at > begin:
        return log
    if log[-1].at <= begin:
        return ()
    return tuple([each for each in log if each.at > begin])
