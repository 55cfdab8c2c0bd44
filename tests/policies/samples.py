"""A healthy sample, changed by keyword; and planners and policies built as users build them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rheostat.config.models import GuardSettings
from rheostat.decide.decide import DecisionSettings
from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.model import Assessment, Bounds, Objective, Outcome, OutcomeStatus, Reason, ReasonCode, Recommendation
from rheostat.policies.reactive import ReactivePolicy

HEALTHY = Assessment(
    at=1000.0,
    executors=3,
    slots_per_executor=1,
    arrival_rate=600.0,
    processed_rate=600.0,
    backlog=9000,
    backlog_excess=0.0,
    lag_s=10.0,
    batch_s=6.0,
    trigger_s=10.0,
    period_s=15.0,
    occupancy=0.4,
    busy_ratio=0.6,
    batches=9,
    capped=False,
    failed_tasks=0,
    partitions=30,
    metrics_age_s=0.5,
    queries=1,
)
OVERLOAD = replace(
    HEALTHY,
    arrival_rate=5000.0,
    processed_rate=1000.0,
    backlog=69_000,
    backlog_excess=60_000.0,
    batch_s=14.0,
    busy_ratio=1.0,
)


def seen(at: float = 1000.0, **changes: Any) -> Assessment:
    """A sample; an excess is part of its backlog."""
    excess = round(changes.get("backlog_excess") or 0.0)
    return replace(HEALTHY, **{"at": at, "backlog": (HEALTHY.backlog or 0) + excess, **changes})


def reactive(preset: str = "default", sample_s: float = 15.0, **options: Any) -> ReactivePolicy:
    policy = load_policy("reactive", options, PolicyContext(Objective(30.0), sample_s, preset))
    assert isinstance(policy, ReactivePolicy)
    return policy


class Fixed:
    """Proposes whatever it was built with, on every sample, even where it should not."""

    name = "fixed"
    state_type: Any = int
    capacity_each: float | None = None

    def __init__(self, target: int | None, self_managed_steps: frozenset[str] = frozenset()) -> None:
        self.target = target
        self.self_managed_steps = self_managed_steps

    def initial(self) -> int:
        return 0

    def recommend(self, assessment: Assessment, state: int) -> tuple[Recommendation, int]:
        return Recommendation(self.target, Reason(ReasonCode.FIXED, "as told")), state + (not assessment.missing)

    def capacity(self, executors: int, state: int) -> float | None:  # noqa: ARG002
        return None if self.capacity_each is None else executors * self.capacity_each


def decision_settings(policy: Any, bounds: tuple[int, int] = (1, 20), **guard: Any) -> DecisionSettings:
    """All guards neutral but those that cannot be switched off, and those that are set."""
    neutral = {"warm_up_batches": 0, "hold_s": 0.0, "largest_step_down": None, "cooldown_down_s": 0.0}
    return DecisionSettings(policy, Bounds(*bounds), GuardSettings(**{**neutral, **guard}), Objective(30.0), 15.0)


def outcome(status: OutcomeStatus, target: int, before: int | None, after: int | None, **changes: Any) -> Outcome:
    end = Outcome(1004.0, 1, status, Reason(ReasonCode.APPLIED, "as told"), target, before, after)
    return replace(end, **changes)
