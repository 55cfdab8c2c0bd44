"""``threshold``: one executor more above a busy ratio, one less below another.

The rule that the threshold algorithms of S2 (THR-NLUnaware, THR-NLAware) and most hand-made autoscalers have::

    busy ratio > 0.90  →  n + 1
    busy ratio < 0.50  →  n − 1

The busy ratio is the share of slot time in tasks over the rate window; S2 has the CPU of its one-slot replicas.

Source: S2, section V (CPU > 90 % adds a replica, < 50 % removes one; monitoring each minute). Where nodes are known,
``threshold`` takes any (THR-NLUnaware), ``threshold-near`` adds the nearest and removes the farthest (THR-NLAware). On
micro-batches the limits of the preset ``tuned``, at every sample, cost less [ours]: a batch has a part in which no task
runs, so 90 % are reached late or never.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from pydantic import Field, model_validator

from rheostat.config.models import FrozenModel, reject
from rheostat.decide.placement import Placing
from rheostat.errors import Fault
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.policies.capacity import BuiltInPolicy, due_in_s, propose_nothing, valid_target
from rheostat.text import percent, seconds


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


TUNED: Mapping[str, object] = {"up_above": 0.85, "down_below": 0.65, "check_every_s": None}


@dataclass(frozen=True, slots=True)
class ThresholdState:
    """Time of the last check."""

    checked_at: float | None = None


class ThresholdPolicy(BuiltInPolicy[ThresholdOptions, ThresholdState]):
    """One up, one down."""

    name: ClassVar[str] = "threshold"
    placing: ClassVar[Placing] = Placing.ANY
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {"default": TUNED, "tuned": TUNED, "faithful": {}}

    def recommend(self, assessment: Assessment, state: ThresholdState) -> tuple[Recommendation, ThresholdState]:
        current, busy, options = valid_target(assessment), assessment.busy_ratio, self.options
        if current is None or busy is None:
            return propose_nothing(assessment, "busy_ratio"), state
        used, low, high = f"slots are {percent(busy)} busy", percent(options.down_below), percent(options.up_above)
        target, code = current, ReasonCode.STEADY
        wait_s = due_in_s(assessment.at, state.checked_at, options.check_every_s)
        if wait_s:
            text = f"{used}; the next check is in {seconds(wait_s)}: {current} stays"
        elif busy > options.up_above:
            target, code, text = current + 1, ReasonCode.UNDERSIZED, f"{used} > {high}: {current} → {current + 1}"
        elif busy < options.down_below and current > 1:
            target, code, text = current - 1, ReasonCode.OVERSIZED, f"{used} < {low}: {current} → {current - 1}"
        else:
            text = f"{used}, limits {low} and {high}: {current} stays"
        reason = Reason(code, text, {"busy_ratio": busy, "executors": float(current)})
        return Recommendation(target, reason), state if wait_s else ThresholdState(assessment.at)


class ThresholdNearPolicy(ThresholdPolicy):
    """The same, with the nearest node first and the farthest given up first: THR-NLAware of S2."""

    name: ClassVar[str] = "threshold-near"
    placing: ClassVar[Placing] = Placing.NEAREST
