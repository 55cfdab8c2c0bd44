"""The guard pipeline: one ordered tuple of pure steps shapes what any policy proposes.

A step sees the target so far and the context. It returns None where it has nothing to say, or the target it wants
instead and why. Decisions start from the number *in force*: the target of a change that is being executed, else the
number that was asked for last, but no less than the registered executors.

The table of the steps, with the reasons for their order, is docs/guard.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from rheostat.model import Code, GuardNote, Reason, Recommendation
from rheostat.plan import steps
from rheostat.plan.steps import Change, Context

__all__ = ["STEPS", "Direction", "Step", "shape", "spoilt"]


class Direction(StrEnum):
    """Which changes a step can stop or lessen."""

    BLOCKS_DOWN = "down"
    BLOCKS_UP = "up"
    BOTH = "both"


_HOLDING = (Direction.BOTH,)
_RISING = (Direction.BOTH, Direction.BLOCKS_UP)
_FALLING = (Direction.BOTH, Direction.BLOCKS_DOWN)

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


def spoilt(context: Context) -> Reason | None:
    """Why this sample must not count for the policy; None: it counts."""
    for step in _SPOILING:
        change = step.apply(context.current, context)
        if change is not None:
            return change.reason
    return None


def shape(
    proposed: Recommendation, context: Context, skip: frozenset[str]
) -> tuple[int, Reason, tuple[GuardNote, ...]]:
    """Run the pipeline: the target, the reason that determined it, and every step that changed it."""
    target = context.current if proposed.target is None else proposed.target
    reason, notes, gated = proposed.reason, list[GuardNote](), False
    for step in _without(skip):
        if step.direction not in _concerned(target, context.current) or (step.spoils and gated):
            continue
        change = step.apply(target, context)
        if change is None:
            continue
        gated = gated or step.spoils
        if change.target != target:
            notes.append(GuardNote(step.name, target, change.target, change.reason))
        target, reason = change.target, change.reason
    return target, reason, tuple(notes)


def _concerned(target: int, current: int) -> tuple[Direction, ...]:
    """The directions whose steps have anything to say of this target."""
    if target == current:
        return _HOLDING
    return _RISING if target > current else _FALLING


def _without(skip: frozenset[str]) -> Iterable[Step]:
    return STEPS if not skip else (step for step in STEPS if step.name not in skip)


STEPS: tuple[Step, ...] = (
    Step("no_query", Direction.BOTH, (Code.NO_QUERY,), (), steps.no_query, spoils=True),
    Step("metrics_invalid", Direction.BOTH, (Code.METRICS_INVALID,), (), steps.invalid, spoils=True),
    Step("metrics_missing", Direction.BOTH, (Code.METRICS_MISSING,), (), steps.missing, spoils=True),
    Step(
        "metrics_stale",
        Direction.BOTH,
        (Code.METRICS_STALE, Code.METRICS_MISSING),
        ("max_age_cycles",),
        steps.stale,
        spoils=True,
    ),
    Step(
        "hold_all",
        Direction.BOTH,
        (Code.HOLD_AFTER_RESCALE,),
        ("hold_both", "hold_s", "hold_batches", "hold_fallback_s"),
        steps.hold_all,
        spoils=True,
    ),
    Step(
        "task_failures",
        Direction.BLOCKS_DOWN,
        (Code.TASK_FAILURES,),
        ("failure_window_s",),
        steps.task_failures,
        may_be_brought=True,
    ),
    Step(
        "warm_up",
        Direction.BLOCKS_DOWN,
        (Code.WARMING_UP,),
        ("warm_up_batches", "warm_up_s"),
        steps.warm_up,
        may_be_brought=True,
    ),
    Step(
        "hold",
        Direction.BLOCKS_DOWN,
        (Code.HOLD_AFTER_RESCALE,),
        ("hold_s", "hold_batches", "hold_fallback_s"),
        steps.hold,
        may_be_brought=True,
    ),
    Step(
        "rescale_running",
        Direction.BLOCKS_DOWN,
        (Code.RESCALE_RUNNING,),
        ("hold_both", "hold_fallback_s"),
        steps.rescale_running,
    ),
    Step(
        "largest_step",
        Direction.BOTH,
        (Code.LARGEST_STEP,),
        ("largest_step_up", "largest_step_down"),
        steps.largest_step,
        may_be_brought=True,
    ),
    Step("catching_up", Direction.BLOCKS_DOWN, (Code.CATCHING_UP,), ("catching_up",), steps.catching_up),
    Step(
        "cooldown_up",
        Direction.BLOCKS_UP,
        (Code.COOLDOWN_UP,),
        ("cooldown_up_s",),
        steps.cooldown_up,
        may_be_brought=True,
    ),
    Step(
        "cooldown_down",
        Direction.BLOCKS_DOWN,
        (Code.COOLDOWN_DOWN,),
        ("cooldown_down_s",),
        steps.cooldown_down,
        may_be_brought=True,
    ),
    Step(
        "no_room", Direction.BLOCKS_UP, (Code.NO_ROOM,), ("no_room_backoff_s", "no_room_backoff_max_s"), steps.no_room
    ),
    Step("useful_executors", Direction.BLOCKS_UP, (Code.USELESS_EXECUTORS,), (), steps.useful, may_be_brought=True),
    Step("bounds", Direction.BOTH, (Code.AT_MIN, Code.AT_MAX), (), steps.bounds),
    Step("last_check", Direction.BOTH, (Code.LAST_CHECK,), (), steps.last_check),
)
"""The pipeline, in order."""

_SPOILING = tuple(step for step in STEPS if step.spoils)
