"""``threshold``: one executor more above a busy ratio, one less below another.

The rule that the threshold algorithms of S2 (THR-NLUnaware, THR-NLAware) and most hand-made autoscalers have::

    busy ratio > 0.90  →  n + 1
    busy ratio < 0.50  →  n − 1

The busy ratio is the share of slot time in tasks over the rate window; S2 has the CPU of its one-slot replicas.

Source: S2, section V (CPU > 90 % adds a replica, < 50 % removes one; monitoring each minute). Where nodes are known,
``threshold`` takes any (THR-NLUnaware), ``threshold-near`` the nearest and gives up the farthest (THR-NLAware). On
micro-batches the limits of the preset ``tuned``, at every sample, cost less [ours]: a batch has a part in which no task
runs, so 90 % are seen late or never.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Self

from pydantic import BaseModel, Field, model_validator

from rheostat.config.models import FrozenModel, reject
from rheostat.decide.placement import Placing
from rheostat.decide.policy import PolicyContext, in_force
from rheostat.errors import Fault
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.text import percent, seconds

_ROUNDING_S = 1e-6


class ThresholdOptions(FrozenModel):
    """Options of ``threshold``, with the values of S2."""

    up_above: float = Field(0.90, gt=0, lt=1, description="Busy ratio above which one executor is added (S2).")
    down_below: float = Field(0.50, ge=0, lt=1, description="Busy ratio below which one executor is removed (S2).")
    check_every_s: float | None = Field(
        60.0, gt=0, le=3600, description="Time between two looks at the ratio, s (S2: each minute); null: each sample."
    )

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.down_below >= self.up_above:
            message = "the ratio below which one is removed must be less than that above which one is added"
            raise reject([Fault("down_below", f"{self.down_below:g}", f"< up_above ({self.up_above:g})", message)])
        return self


TUNED: Mapping[str, object] = MappingProxyType({"up_above": 0.85, "down_below": 0.65, "check_every_s": None})


@dataclass(frozen=True, slots=True)
class ThresholdState:
    """When the ratio was looked at last; None: not yet."""

    checked_at: float | None = None


class ThresholdPolicy:
    """One up, one down."""

    name: ClassVar[str] = "threshold"
    self_managed_steps: ClassVar[frozenset[str]] = frozenset()
    placing: ClassVar[Placing] = Placing.ANY
    state_type: type[ThresholdState] = ThresholdState
    options_type: ClassVar[type[BaseModel]] = ThresholdOptions
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = MappingProxyType(
        {"default": TUNED, "tuned": TUNED, "faithful": {}}
    )

    def __init__(self, options: ThresholdOptions, context: PolicyContext) -> None:
        self.options = options
        self.context = context

    def initial(self) -> ThresholdState:
        """The ratio was not looked at."""
        return ThresholdState()

    def recommend(self, assessment: Assessment, state: ThresholdState) -> tuple[Recommendation, ThresholdState]:
        """One more, one less or the same; no opinion where the busy ratio is unknown."""
        current, busy = in_force(assessment), assessment.busy_ratio
        if assessment.missing or assessment.invalid or not current or busy is None:
            names = assessment.missing or assessment.invalid or ("busy_ratio",)
            reason = Reason(ReasonCode.METRICS_MISSING, f"nothing is proposed without: {', '.join(names)}")
            return Recommendation(None, reason), state
        figures: dict[str, float | None] = {"busy_ratio": busy, "executors": float(current)}
        waits = self._waits(assessment.at, state)
        if waits > 0:
            text = f"slots are {percent(busy)} busy; the next check is in {seconds(waits)}: {current} stays"
            return Recommendation(current, Reason(ReasonCode.STEADY, text, figures)), state
        target, code, text = self._compare(busy, current)
        return Recommendation(target, Reason(code, text, figures)), ThresholdState(assessment.at)

    def capacity(self, executors: int, state: ThresholdState) -> float | None:  # noqa: ARG002
        """No model."""
        return None

    def _waits(self, at: float, state: ThresholdState) -> float:
        """Seconds until the next look, 0 or less where it is due."""
        if self.options.check_every_s is None or state.checked_at is None:
            return 0.0
        left = state.checked_at + self.options.check_every_s - at
        return 0.0 if left <= _ROUNDING_S else left

    def _compare(self, busy: float, current: int) -> tuple[int, ReasonCode, str]:
        up, down, used = self.options.up_above, self.options.down_below, f"slots are {percent(busy)} busy"
        if busy > up:
            return current + 1, ReasonCode.UNDERSIZED, f"{used} > {percent(up)}: {current} → {current + 1}"
        if busy < down and current > 1:
            return current - 1, ReasonCode.OVERSIZED, f"{used} < {percent(down)}: {current} → {current - 1}"
        return current, ReasonCode.STEADY, f"{used}, limits {percent(down)} and {percent(up)}: {current} stays"


class ThresholdNearPolicy(ThresholdPolicy):
    """The same, with the nearest node first and the farthest given up first: THR-NLAware of S2."""

    name: ClassVar[str] = "threshold-near"
    placing: ClassVar[Placing] = Placing.NEAREST
