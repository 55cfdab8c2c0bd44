"""The guard steps, pure functions of the target so far and of what there is to see; and what they remember.

Each returns None where it has nothing to say, or the target that it wants instead and why. Their order and their
settings stand in :mod:`rheostat.plan.guard`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rheostat.config import GuardSettings
from rheostat.model import Assessment, Bounds, Code, Reason
from rheostat.plan.words import count, executors, seconds

__all__ = [
    "Change",
    "Context",
    "GuardState",
    "Pending",
    "bounds",
    "catching_up",
    "cooldown_down",
    "cooldown_up",
    "hold",
    "hold_all",
    "invalid",
    "largest_step",
    "last_check",
    "missing",
    "no_query",
    "no_room",
    "rescale_running",
    "stale",
    "task_failures",
    "useful",
    "warm_up",
]


@dataclass(frozen=True, slots=True)
class Pending:
    """A decision whose outcome is not known yet."""

    decision_id: int
    at: float
    before: int
    target: int


@dataclass(frozen=True, slots=True)
class GuardState:
    """What the steps remember.

    Attributes:
        started_at: first decision.
        changed_at: the last change of the number of executors by us.
        down_blocked_at: the last change, or failed attempt to go down; the cooldown of decreases counts from here.
        no_room_until: no increases before; None: none was refused since the last one granted.
        backoff_s: length of that back-off.
        pending: the change that is being executed.
    """

    started_at: float | None = None
    changed_at: float | None = None
    down_blocked_at: float | None = None
    no_room_until: float | None = None
    backoff_s: float | None = None
    pending: Pending | None = None


class Context(NamedTuple):
    """What the steps may look at.

    Attributes:
        current: the number in force.
        recommended: what the policy proposed.
        sample_s: time between two assessments.
    """

    seen: Assessment
    current: int
    recommended: int | None
    bounds: Bounds
    settings: GuardSettings
    sample_s: float
    state: GuardState


@dataclass(frozen=True, slots=True)
class Change:
    """What a step wants instead, and why."""

    target: int
    reason: Reason


def _move(current: int, target: int) -> str:
    return f"{current} stays" if current == target else f"{current} → {target}"


def _stay(context: Context, code: Code, text: str, **figures: float | None) -> Change:
    """Hold the number in force."""
    return Change(context.current, Reason(code, f"{text}: {context.current} stays", figures))


# ------------------------------------------------------------------------------------- before the policy


def no_query(_target: int, context: Context) -> Change | None:
    """Hold where nothing streams."""
    if context.seen.queries > 0:
        return None
    return _stay(context, Code.NO_QUERY, "no streaming query is active")


def missing(_target: int, context: Context) -> Change | None:
    """Hold where a needed figure is unknown."""
    if not context.seen.missing:
        return None
    return _stay(context, Code.METRICS_MISSING, f"unknown: {', '.join(context.seen.missing)}")


def invalid(_target: int, context: Context) -> Change | None:
    """Hold where a figure is impossible."""
    if not context.seen.invalid:
        return None
    return _stay(context, Code.METRICS_INVALID, f"impossible figures: {', '.join(context.seen.invalid)}")


def stale(_target: int, context: Context) -> Change | None:
    """Hold on figures of the past. An increase that they justified was made when they were fresh."""
    age, limit = context.seen.metrics_age_s, context.settings.max_age_cycles * context.sample_s
    if age is None:
        return _stay(context, Code.METRICS_MISSING, "the age of the metrics is unknown")
    if age <= limit:
        return None
    text = f"the metrics are {seconds(age)} old, at most {seconds(limit)} are allowed"
    return _stay(context, Code.METRICS_STALE, text, metrics_age_s=age, limit_s=limit)


def hold_all(_target: int, context: Context) -> Change | None:
    """With ``hold_both``: no change at all in the hold, as in S1."""
    return _holding(context) if context.settings.hold_both else None


def task_failures(target: int, context: Context) -> Change | None:
    """No decrease after recent task failures."""
    failed, window = context.seen.failed_tasks, context.settings.failure_window_s
    if target >= context.current or not failed or window == 0:
        return None
    text = f"{failed} tasks failed within {seconds(window)}"
    return _stay(context, Code.TASK_FAILURES, text, failed_tasks=float(failed), window_s=window)


def warm_up(target: int, context: Context) -> Change | None:
    """No decrease before the first batches, or the first seconds."""
    if target >= context.current:
        return None
    at, wanted, limit = context.seen.at, context.settings.warm_up_batches, context.settings.warm_up_s
    if context.seen.batches < wanted:
        text = f"{context.seen.batches} of {wanted} batches have finished at this number"
        return _stay(context, Code.WARMING_UP, text, batches=float(context.seen.batches), wanted=float(wanted))
    ran = at - (at if context.state.started_at is None else context.state.started_at)
    if ran >= limit:
        return None
    return _stay(context, Code.WARMING_UP, f"warming up for {seconds(ran)} of {seconds(limit)}", ran_s=ran)


def hold(target: int, context: Context) -> Change | None:
    """No decrease in the hold after a change."""
    return _holding(context) if target < context.current else None


def _holding(context: Context) -> Change | None:
    """Whether the last change is too young to be judged."""
    if context.state.changed_at is None:
        return None
    settings, batches = context.settings, context.seen.batches
    since = context.seen.at - context.state.changed_at
    limit = settings.hold_fallback_s if settings.hold_s is None else settings.hold_s
    if since >= limit or (settings.hold_s is None and batches >= settings.hold_batches):
        return None
    waits = f", {batches} of {settings.hold_batches} batches finished since" if settings.hold_s is None else ""
    text = f"the number changed {seconds(since)} ago{waits}; hold for at most {seconds(limit)}"
    return _stay(context, Code.HOLD_AFTER_RESCALE, text, since_s=since, limit_s=limit)


def rescale_running(target: int, context: Context) -> Change | None:
    """No decrease while a change is executed; with ``hold_both`` no increase either."""
    pending = context.state.pending
    if pending is None or target == context.current:
        return None
    if target > context.current and not context.settings.hold_both:
        return None
    since = context.seen.at - pending.at
    text = f"{pending.before} → {pending.target} has been under way for {seconds(since)}"
    return _stay(context, Code.RESCALE_RUNNING, text, since_s=since)


# -------------------------------------------------------------------------------------- after the policy


def largest_step(target: int, context: Context) -> Change | None:
    """No more at a time than allowed."""
    going_up = target > context.current
    step = context.settings.largest_step_up if going_up else context.settings.largest_step_down
    if step is None or abs(target - context.current) <= step:
        return None
    allowed = context.current + (step if going_up else -step)
    text = f"at most {step} at a time: {_move(context.current, allowed)} instead of {target}"
    return Change(allowed, Reason(Code.LARGEST_STEP, text, {"wanted": float(target)}))


def catching_up(target: int, context: Context) -> Change | None:
    """No decrease while there is more backlog than a healthy job has, or nobody knows."""
    if target >= context.current or not context.settings.catching_up:
        return None
    excess = context.seen.backlog_excess
    if excess == 0:
        return None
    text = f"catching up: the backlog exceeds a healthy one by {count(excess)} records"
    return _stay(context, Code.CATCHING_UP, text, backlog_excess=excess)


def cooldown_up(target: int, context: Context) -> Change | None:
    """No increase too soon after a change."""
    if target <= context.current:
        return None
    return _cooling(context, Code.COOLDOWN_UP, context.state.changed_at, context.settings.cooldown_up_s)


def cooldown_down(target: int, context: Context) -> Change | None:
    """No decrease too soon after a change or a failed attempt."""
    if target >= context.current:
        return None
    return _cooling(context, Code.COOLDOWN_DOWN, context.state.down_blocked_at, context.settings.cooldown_down_s)


def _cooling(context: Context, code: Code, start: float | None, limit: float) -> Change | None:
    if start is None or context.seen.at - start >= limit:
        return None
    since = context.seen.at - start
    text = f"the last change was {seconds(since)} ago, the cooldown is {seconds(limit)}"
    return _stay(context, code, text, since_s=since, limit_s=limit)


def no_room(target: int, context: Context) -> Change | None:
    """No increase for a while after one that was not granted."""
    return _refused(context) if target > context.current else None


def _refused(context: Context) -> Change | None:
    until = context.state.no_room_until
    if until is None or context.seen.at >= until:
        return None
    left = until - context.seen.at
    return _stay(context, Code.NO_ROOM, f"the last increase was not granted, the next try is in {seconds(left)}")


def useful(target: int, context: Context) -> Change | None:
    """No increase beyond one slot for each partition; never a decrease."""
    partitions, slots = context.seen.partitions, context.seen.slots_per_executor
    if target <= context.current or not partitions or not slots:
        return None
    useful = -(-partitions // slots)
    allowed = max(context.current, min(target, useful))
    if allowed == target:
        return None
    text = (
        f"{partitions} partitions keep at most {executors(useful)} of {slots} slots reading: "
        f"{_move(context.current, allowed)} instead of {target}"
    )
    return Change(allowed, Reason(Code.USELESS_EXECUTORS, text, {"useful": float(useful), "wanted": float(target)}))


def bounds(target: int, context: Context) -> Change | None:
    """Into the bounds: up also without metrics, unless there was no room; down only on known metrics."""
    allowed = context.bounds.clamp(target)
    if allowed == target:
        return None
    if allowed > context.current and _refused(context) is not None:
        return None
    if allowed < context.current and _unknown(context):
        return None
    limit, code = ("most", Code.AT_MAX) if allowed < target else ("least", Code.AT_MIN)
    text = f"at {limit} {executors(allowed)} allowed: {_move(context.current, allowed)} instead of {target}"
    return Change(allowed, Reason(code, text, {"wanted": float(target)}))


def _unknown(context: Context) -> bool:
    gates = (no_query, missing, invalid, stale)
    return any(gate(context.current, context) is not None for gate in gates)


def last_check(target: int, context: Context) -> Change | None:
    """Within the bounds, and no step has turned the direction of the policy, else hold."""
    current = context.current
    if target == current:
        return None
    turned = context.recommended is not None and (context.recommended - current) * (target - current) < 0
    within = context.bounds.clamp(target) == target
    forced = context.bounds.clamp(current) != current
    if within and (forced or not turned):
        return None
    return _stay(context, Code.LAST_CHECK, f"{current} → {target} contradicts the bounds or the policy")
