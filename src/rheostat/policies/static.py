"""A fixed number of executors: what every other policy is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pydantic import BaseModel, Field

from rheostat.config.models import FrozenModel
from rheostat.decide.policy import PolicyContext, in_force
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation


class StaticOptions(FrozenModel):
    """Options of ``static``."""

    executors: int | None = Field(
        None, ge=1, le=100_000, description="The number of executors; null: whatever number is in force stays."
    )


@dataclass(frozen=True, slots=True)
class StaticState:
    """Nothing is remembered."""


class StaticPolicy:
    """Always the same number, whatever the load. The guards and the bounds shape it as they do all others."""

    name: ClassVar[str] = "static"
    self_managed_steps: ClassVar[frozenset[str]] = frozenset()
    state_type: type[StaticState] = StaticState
    options_type: ClassVar[type[BaseModel]] = StaticOptions
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {}

    def __init__(self, options: StaticOptions, context: PolicyContext) -> None:
        self.options = options
        self.context = context

    def initial(self) -> StaticState:
        """Nothing is remembered."""
        return StaticState()

    def recommend(self, assessment: Assessment, state: StaticState) -> tuple[Recommendation, StaticState]:
        """The fixed number; no opinion where the number in force is unknown and none was set."""
        current = in_force(assessment)
        if assessment.missing or assessment.invalid or current is None:
            reason = Reason(ReasonCode.METRICS_MISSING, "nothing is proposed without metrics")
            return Recommendation(None, reason), state
        target = current if self.options.executors is None else self.options.executors
        text = f"the number is fixed: {current} → {target}" if target != current else f"the number is fixed at {target}"
        return Recommendation(target, Reason(ReasonCode.FIXED, text, {"executors": float(target)})), state

    def capacity(self, executors: int, state: StaticState) -> float | None:  # noqa: ARG002
        """No model."""
        return None
