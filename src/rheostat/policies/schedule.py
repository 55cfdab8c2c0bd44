"""``schedule``: a timetable of executors, whatever the load.

It runs a plan open loop (the clairvoyant optimum's, to compare the bound with what can be reached) and takes real runs
through known sizes (to calibrate the simulator). The clock of the timetable starts with the first decision, even
without metrics.

The policy manages all guard steps that a policy may. The other steps can delay it: unknown or stale metrics, a running
change, a recent increase, a backlog, a back-off. :data:`OPEN_LOOP` are the guard settings that leave only the first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from pydantic import Field, field_validator

from rheostat.config.models import FrozenModel, reject
from rheostat.decide.policy import current_target
from rheostat.errors import Fault
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.policies.capacity import BuiltInPolicy
from rheostat.text import executors

OPEN_LOOP: Mapping[str, Any] = {
    "catching_up": False,
    "hold_both": False,
    "hold_fallback_s": 0.0,
    "ineffective_share": None,
    "rescale_catch_up_lags": None,
    "max_age_cycles": 1000.0,
    "no_room_backoff_s": 0.0,
    "no_room_backoff_max_s": 0.0,
    "most_round_trips": None,
}
"""Guard settings under which the timetable is followed exactly once there are metrics."""

_ROUNDING_S = 1e-6

Second = Annotated[float, Field(ge=0)]
Number = Annotated[int, Field(ge=1, le=100_000)]


class ScheduleOptions(FrozenModel):
    """Options of ``schedule``."""

    steps: tuple[tuple[Second, Number], ...] = Field(
        (), description="The timetable, [[second since the first decision, executors], …], seconds ascending."
    )

    @field_validator("steps", mode="before")
    @classmethod
    def _tuples(cls, given: object) -> object:
        """Settings files have lists."""
        if not isinstance(given, list | tuple):
            return given
        return tuple(tuple(step) if isinstance(step, list) else step for step in given)

    @field_validator("steps")
    @classmethod
    def _ascending(cls, steps: tuple[tuple[float, int], ...]) -> tuple[tuple[float, int], ...]:
        wrong = [f"{later:g} after {earlier:g}" for (earlier, _), (later, _) in pairwise(steps) if later <= earlier]
        if wrong:
            raise reject([Fault("", ", ".join(wrong), "seconds ascending", "the seconds must ascend")])
        return steps


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """Time of the first decision."""

    started_at: float | None = None


class SchedulePolicy(BuiltInPolicy[ScheduleOptions, ScheduleState]):
    """Follows the timetable. Before its first step, and without one, the target stays."""

    name: ClassVar[str] = "schedule"
    self_managed_steps = frozenset(
        {
            "task_failures",
            "warm_up",
            "hold",
            "batch_cap",
            "sick_sink",
            "driver_bound",
            "tolerance",
            "alignment",
            "useful_executors",
        }
        | {"largest_step", "scale_down_hold", "cooldown_up", "cooldown_down", "round_trip"}
    )

    def recommend(self, assessment: Assessment, state: ScheduleState) -> tuple[Recommendation, ScheduleState]:
        """The timetable's number for now; no proposal without metrics, but its clock runs on."""
        started_at = assessment.at if state.started_at is None else state.started_at
        state, ran = ScheduleState(started_at), assessment.at - started_at
        current = current_target(assessment)
        if assessment.missing or assessment.invalid or current is None:
            text = "no proposal without metrics; the timetable's clock runs on"
            return Recommendation(None, Reason(ReasonCode.METRICS_MISSING, text)), state
        target, text = current, f"second {ran:g} is before the timetable: {current} stays"
        position = bisect_right(self.options.steps, ran + _ROUNDING_S, key=lambda step: step[0])
        if position:
            second, target = self.options.steps[position - 1]
            move = f"{current} → {target}" if target != current else f"the target is {target}"
            text = f"second {ran:g}: the timetable has {executors(target)} from second {second:g} on: {move}"
        reason = Reason(ReasonCode.FIXED, text, {"executors": float(target), "second": ran})
        return Recommendation(target, reason), state
