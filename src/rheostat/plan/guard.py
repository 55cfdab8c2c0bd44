"""The guard pipeline: one ordered tuple of pure steps shapes what any policy proposes.

A step sees the target so far and the context. It returns None where it has nothing to say, or the target it wants
instead and why. Decisions start from the number *in force*: the target of a change that is being executed, else the
number that was asked for last, but no less than the registered executors.

The table of the steps, with the reasons for their order, is docs/guard.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from rheostat.model import Code, GuardNote, Reason, Recommendation
from rheostat.plan import steps_change as change
from rheostat.plan import steps_health as health
from rheostat.plan import steps_metrics as metrics
from rheostat.plan import steps_size as size
from rheostat.plan import steps_time as timing
from rheostat.plan.steps import Change, Context

__all__ = ["STEPS", "Direction", "Step", "shape", "spoilt"]


class Direction(StrEnum):
    """Which changes a step can stop or lessen."""

    BLOCKS_DOWN = "down"
    BLOCKS_UP = "up"
    BOTH = "both"


_BOTH, _UP, _DOWN = Direction.BOTH, Direction.BLOCKS_UP, Direction.BLOCKS_DOWN
_HOLD = ("hold_s", "hold_batches", "hold_fallback_s")
_INEFFECTIVE = ("ineffective_share", "ineffective_s")

Shaper = Callable[[int, Context], Change | None]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the pipeline.

    Attributes:
        codes: of the reasons that it gives.
        settings: fields of ``GuardSettings`` that it reads.
        apply: the step itself, pure.
        spoils: the sample must not count for the policy while this step holds.
        may_be_brought: whether a policy may declare that it does this itself.
    """

    name: str
    direction: Direction
    codes: tuple[Code, ...]
    settings: tuple[str, ...]
    apply: Shaper
    spoils: bool = False
    may_be_brought: bool = False

    def concerns(self, target: int, current: int) -> bool:
        """Whether such a target is of its direction."""
        if self.direction is Direction.BOTH:
            return True
        return target > current if self.direction is Direction.BLOCKS_UP else target < current


def spoilt(context: Context) -> Reason | None:
    """Why this sample must not count for the policy; None: it counts."""
    for step in STEPS:
        held = step.apply(context.current, context) if step.spoils else None
        if held is not None:
            return held.reason
    return None


def shape(
    proposed: Recommendation, context: Context, skip: frozenset[str]
) -> tuple[int, Reason, tuple[GuardNote, ...]]:
    """Run the pipeline: the target, the reason that determined it, and every step that changed it.

    Of the steps that spoil a sample the first one that holds is the reason; the others are not asked.

    Args:
        proposed: by the policy.
        context: what the steps look at.
        skip: names of steps that the policy brings itself.
    """
    target = context.current if proposed.target is None else proposed.target
    reason, spoiled, notes = proposed.reason, False, list[GuardNote]()
    for step in STEPS:
        if step.name in skip or (step.spoils and spoiled) or not step.concerns(target, context.current):
            continue
        instead = step.apply(target, context)
        if instead is None:
            continue
        if instead.target != target:
            notes.append(GuardNote(step.name, target, instead.target, instead.reason))
        target, reason, spoiled = instead.target, instead.reason, spoiled or step.spoils
    return target, reason, tuple(notes)


STEPS: tuple[Step, ...] = (
    Step("no_query", _BOTH, (Code.NO_QUERY,), (), metrics.no_query, spoils=True),
    Step("metrics_invalid", _BOTH, (Code.METRICS_INVALID,), (), metrics.invalid, spoils=True),
    Step("metrics_missing", _BOTH, (Code.METRICS_MISSING,), (), metrics.missing, spoils=True),
    Step(
        "metrics_stale",
        _BOTH,
        (Code.METRICS_STALE, Code.METRICS_MISSING),
        ("max_age_cycles", "metrics_delay_s"),
        metrics.stale,
        spoils=True,
    ),
    Step("hold_all", _BOTH, (Code.HOLD_AFTER_RESCALE,), ("hold_both", *_HOLD), change.hold_all, spoils=True),
    Step("undo", _BOTH, (Code.INEFFECTIVE,), _INEFFECTIVE, change.undo),
    Step("replace_slow", _BOTH, (Code.SLOW_EXECUTOR,), ("replace_slow",), health.replace_slow),
    Step(
        "task_failures", _DOWN, (Code.TASK_FAILURES,), ("failure_window_s",), change.task_failures, may_be_brought=True
    ),
    Step("warm_up", _DOWN, (Code.WARMING_UP,), ("warm_up_batches", "warm_up_s"), change.warm_up, may_be_brought=True),
    Step("hold", _DOWN, (Code.HOLD_AFTER_RESCALE,), _HOLD, change.hold, may_be_brought=True),
    Step("rescale_running", _DOWN, (Code.RESCALE_RUNNING,), ("hold_both", "hold_fallback_s"), change.rescale_running),
    Step("rescale_cost", _BOTH, (Code.RESCALE_COST,), ("rescale_catch_up_lags",), change.rescale_cost),
    Step("batch_cap", _UP, (Code.BATCH_CAP,), ("batch_cap",), size.batch_cap, may_be_brought=True),
    Step("sick_sink", _UP, (Code.SICK_SINK,), ("sick_sink",), health.sick_sink, may_be_brought=True),
    Step("ineffective", _UP, (Code.INEFFECTIVE,), _INEFFECTIVE, change.ineffective),
    Step("tolerance", _BOTH, (Code.WITHIN_TOLERANCE,), ("tolerance",), size.tolerance, may_be_brought=True),
    Step(
        "alignment",
        _BOTH,
        (Code.ALIGNED,),
        ("align_to", "align_most", "state_partitions"),
        size.alignment,
        may_be_brought=True,
    ),
    Step("useful_executors", _UP, (Code.USELESS_EXECUTORS,), (), size.useful, may_be_brought=True),
    Step("least_by_partitions", _DOWN, (Code.PARTITIONS_PER_SLOT,), ("most_partitions",), size.least_by_partitions),
    Step(
        "largest_step",
        _BOTH,
        (Code.LARGEST_STEP,),
        ("largest_step_up", "largest_step_down"),
        size.largest_step,
        may_be_brought=True,
    ),
    Step(
        "scale_down_hold",
        _DOWN,
        (Code.SCALE_DOWN_HOLD,),
        ("scale_down_hold_s",),
        timing.scale_down_hold,
        may_be_brought=True,
    ),
    Step("cooldown_up", _UP, (Code.COOLDOWN_UP,), ("cooldown_up_s",), timing.cooldown_up, may_be_brought=True),
    Step(
        "cooldown_down", _DOWN, (Code.COOLDOWN_DOWN,), ("cooldown_down_s",), timing.cooldown_down, may_be_brought=True
    ),
    Step("round_trip", _DOWN, (Code.ROUND_TRIP,), ("round_trip_cooldowns", "cooldown_down_s"), timing.round_trip),
    Step("catching_up", _DOWN, (Code.CATCHING_UP,), ("catching_up",), timing.catching_up),
    Step("failover", _DOWN, (Code.FAILOVER,), ("failover", "failover_return_s"), timing.failover),
    Step("no_room", _UP, (Code.NO_ROOM,), ("no_room_backoff_s", "no_room_backoff_max_s"), timing.no_room),
    Step("bounds", _BOTH, (Code.AT_MIN, Code.AT_MAX), (), size.bounds),
    Step("quota", _UP, (Code.QUOTA,), ("quota_cores",), size.quota),
    Step("last_check", _BOTH, (Code.LAST_CHECK,), (), size.last_check),
)
"""The pipeline, in order."""
