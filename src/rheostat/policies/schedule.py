"""A timetable: so many executors from such a second on, whatever the load.

It runs a plan open loop (the clairvoyant optimum's, to see how far the bound is from what can be reached) and steers
real runs through known sizes (to calibrate the simulator). The clock of the timetable starts with the first decision,
also where that one had no figures to look at.

The timetable goes before all guard steps that a policy may bring. What remains can delay it: unknown or stale figures,
a change under way, an increase just before, a backlog, a back-off. :data:`OPEN_LOOP` are the guard settings that leave
only the first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, Field, field_validator

from rheostat.config.models import FrozenModel, reject
from rheostat.decide.policy import PolicyContext, in_force
from rheostat.errors import Fault
from rheostat.model import Assessment, Reason, ReasonCode, Recommendation
from rheostat.text import executors

OPEN_LOOP: Mapping[str, Any] = MappingProxyType(
    {
        "catching_up": False,
        "hold_both": False,
        "hold_fallback_s": 0.0,
        "ineffective_share": None,
        "rescale_catch_up_lags": None,
        "max_age_cycles": 1000.0,
        "no_room_backoff_s": 0.0,
        "no_room_backoff_max_s": 0.0,
        "round_trip_cooldowns": 0.0,
    }
)
"""Guard settings under which a timetable is followed to the sample once there are figures."""

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
        """Lists, as settings files have them, are as good as tuples."""
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
    """When the first decision was made; None: not yet."""

    started_at: float | None = None


class SchedulePolicy:
    """Follows the timetable. Before its first step, and without one, the number in force stays."""

    name: ClassVar[str] = "schedule"
    self_managed_steps: ClassVar[frozenset[str]] = frozenset(
        {
            "task_failures",
            "warm_up",
            "hold",
            "batch_cap",
            "sick_sink",
            "tolerance",
            "alignment",
            "useful_executors",
            "largest_step",
            "scale_down_hold",
            "cooldown_up",
            "cooldown_down",
        }
    )
    state_type: type[ScheduleState] = ScheduleState
    options_type: ClassVar[type[BaseModel]] = ScheduleOptions
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {}

    def __init__(self, options: ScheduleOptions, context: PolicyContext) -> None:
        self.options = options
        self.context = context
        self._seconds = [second for second, _ in options.steps]

    def initial(self) -> ScheduleState:
        """The clock has not started."""
        return ScheduleState()

    def recommend(self, assessment: Assessment, state: ScheduleState) -> tuple[Recommendation, ScheduleState]:
        """What the timetable has for now; no opinion without figures, but its clock runs on."""
        if state.started_at is None:
            state = ScheduleState(assessment.at)
        current = in_force(assessment)
        if assessment.missing or assessment.invalid or current is None:
            reason = Reason(
                ReasonCode.METRICS_MISSING, "nothing is proposed without metrics; the timetable's clock runs on"
            )
            return Recommendation(None, reason), state
        ran = assessment.at - (state.started_at or 0.0)
        target, text = self._at(ran, current)
        return Recommendation(
            target, Reason(ReasonCode.FIXED, text, {"executors": float(target), "second": ran})
        ), state

    def capacity(self, executors: int, state: ScheduleState) -> float | None:  # noqa: ARG002
        """No model."""
        return None

    def _at(self, ran: float, current: int) -> tuple[int, str]:
        """The number for this second, and the sentence."""
        position = bisect_right(self._seconds, ran + _ROUNDING_S) - 1
        if position < 0:
            return current, f"second {ran:g} is before the timetable: {current} stays"
        second, target = self.options.steps[position]
        move = f"{current} → {target}" if target != current else f"{target} in force"
        return target, f"second {ran:g}: the timetable has {executors(target)} from second {second:g} on: {move}"
