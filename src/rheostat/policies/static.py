"""``static``: a fixed number of executors, the baseline of every comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from rheostat.config.models import FrozenModel
from rheostat.decide.policy import current_target
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.policies.capacity import BuiltInPolicy


class StaticOptions(FrozenModel):
    """Options of ``static``."""

    executors: int | None = Field(
        None, ge=1, le=100_000, description="The number of executors; null: whatever number is in force stays."
    )


@dataclass(frozen=True, slots=True)
class StaticState:
    """Nothing is remembered."""


class StaticPolicy(BuiltInPolicy[StaticOptions, StaticState]):
    """A fixed number, whatever the load; guard and bounds apply as to every policy."""

    name: ClassVar[str] = "static"

    def recommend(self, assessment: Assessment, state: StaticState) -> tuple[Recommendation, StaticState]:
        """The fixed number; no proposal where the current target is unknown and no number is set."""
        current = current_target(assessment)
        if assessment.missing or assessment.invalid or current is None:
            reason = Reason(ReasonCode.METRICS_MISSING, "no proposal without metrics")
            return Recommendation(None, reason), state
        target = current if self.options.executors is None else self.options.executors
        text = f"the number is fixed: {current} → {target}" if target != current else f"the number is fixed at {target}"
        return Recommendation(target, Reason(ReasonCode.FIXED, text, {"executors": float(target)})), state
