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
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field

from rheostat.config.fields import FrozenModel
from rheostat.model import Code
from rheostat.plan.words import executors, seconds

__all__ = ["DOWN", "UP", "Asked", "Behavior", "BehaviorState", "Pace", "Rules", "Shaped", "allowed", "stabilized"]

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
    code: Code | None = None
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
            return Shaped(limit, Code.LARGEST_STEP, text), after
        return Shaped(calm, *self._why(desired, calm, current)), after

    def _why(self, desired: int, calm: int, current: int) -> tuple[Code | None, str]:
        if calm == desired:
            return None, ""
        rules, word = (self.down, "no fewer") if desired < current else (self.up, "no more")
        return (
            Code.STABILIZING,
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
