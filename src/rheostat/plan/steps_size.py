"""Guard steps on the size itself: tolerance, alignment, what is of use, how much at a time, and the limits."""

from __future__ import annotations

import math

from rheostat.model import Code, Reason
from rheostat.plan.alignment import in_waves, spread_evenly, waves
from rheostat.plan.capacity import cap_limits
from rheostat.plan.steps import Change, Context, move, stay, undoing
from rheostat.plan.steps_metrics import unknown
from rheostat.plan.steps_time import refused
from rheostat.plan.words import executors, percent, several

__all__ = [
    "alignment",
    "batch_cap",
    "bounds",
    "largest_step",
    "last_check",
    "least_by_partitions",
    "quota",
    "tolerance",
    "useful",
]


def batch_cap(target: int, context: Context) -> Change | None:
    """No increase while the batch cap limits the rate, not the executors."""
    if target <= context.current or not context.settings.batch_cap or not cap_limits(context.seen):
        return None
    text = "batches are full and end before their trigger, so the batch cap limits the rate; raise maxOffsetsPerTrigger"
    return stay(context, Code.BATCH_CAP, text, batch_s=context.seen.batch_s, trigger_s=context.seen.trigger_s)


def tolerance(target: int, context: Context) -> Change | None:
    """No change so small that it is not worth one."""
    share = abs(target - context.current) / max(1, context.current)
    if target == context.current or share > context.settings.tolerance or undoing(target, context):
        return None
    text = f"{context.current} → {target} is within the tolerance of {percent(context.settings.tolerance)}"
    return stay(context, Code.WITHIN_TOLERANCE, text, share=share)


def alignment(target: int, context: Context) -> Change | None:
    """To a number that partitions or waves of tasks fit on, on the same side of the number in force."""
    mode = context.settings.align_to
    if mode == "nothing" or target == context.current or undoing(target, context):
        return None
    groups = context.settings.state_partitions if mode == "state" else context.seen.partitions
    slots = context.seen.slots_per_executor
    if not groups or not slots:
        return None
    most = min(int(target * (1 + context.settings.align_most)), max(target, context.bounds.maximum))
    fit = in_waves if mode == "waves" else spread_evenly
    allowed = fit(context.current, target, groups, slots, most)
    if allowed == target:
        return None
    what = "state partition" if mode == "state" else "partition"
    text = (
        f"{several(groups, what)} on {several(allowed * slots, 'slot')} are at most "
        f"{waves(groups, allowed * slots)} on one: {move(context.current, allowed)} instead of {target}"
    )
    return Change(allowed, Reason(Code.ALIGNED, text, {"wanted": float(target)}))


def useful(target: int, context: Context) -> Change | None:
    """No increase beyond one slot for each task of the largest stage; never a decrease."""
    if target <= context.current:
        return None
    partitions, slots = context.seen.partitions, context.seen.slots_per_executor
    most = context.seen.useful_executors
    if most is None:
        if not partitions or not slots:
            return None
        most = waves(partitions, slots)
    allowed = max(context.current, min(target, most))
    if allowed == target:
        return None
    keep = several(partitions or 0, "partition keeps", "partitions keep")
    what = "the largest stage keeps" if context.seen.useful_executors else keep
    text = (
        f"{what} at most {executors(most)} of {several(slots, 'slot') if slots else 'unknown slots'} busy: "
        f"{move(context.current, allowed)} instead of {target}"
    )
    return Change(allowed, Reason(Code.USELESS_EXECUTORS, text, {"useful": float(most), "wanted": float(target)}))


def least_by_partitions(target: int, context: Context) -> Change | None:
    """No decrease to where a slot has more partitions than it may; never an increase."""
    most, partitions, slots = context.settings.most_partitions, context.seen.partitions, context.seen.slots_per_executor
    if most is None or target >= context.current or undoing(target, context):
        return None
    if not partitions or not slots:
        return stay(context, Code.PARTITIONS_PER_SLOT, "how many partitions a slot would have is unknown")
    least = math.ceil(partitions / (most * slots))
    allowed = min(context.current, max(target, least))
    if allowed == target:
        return None
    text = (
        f"{several(partitions, 'partition needs', 'partitions need')} {executors(least)} for at most {most:g} a slot: "
        f"{move(context.current, allowed)} instead of {target}"
    )
    return Change(allowed, Reason(Code.PARTITIONS_PER_SLOT, text, {"least": float(least), "wanted": float(target)}))


def largest_step(target: int, context: Context) -> Change | None:
    """No more at a time than allowed."""
    going_up = target > context.current
    step = context.settings.largest_step_up if going_up else context.settings.largest_step_down
    if step is None or abs(target - context.current) <= step or undoing(target, context):
        return None
    allowed = context.current + (step if going_up else -step)
    text = f"at most {step} at a time: {move(context.current, allowed)} instead of {target}"
    return Change(allowed, Reason(Code.LARGEST_STEP, text, {"wanted": float(target)}))


def bounds(target: int, context: Context) -> Change | None:
    """Into the bounds: up also without metrics, unless there was no room; down only on known metrics."""
    allowed = context.bounds.clamp(target)
    if allowed == target:
        return None
    if allowed > context.current and refused(context) is not None:
        return None
    if allowed < context.current and unknown(context):
        return None
    limit, code = ("most", Code.AT_MAX) if allowed < target else ("least", Code.AT_MIN)
    text = f"at {limit} {executors(allowed)} allowed: {move(context.current, allowed)} instead of {target}"
    return Change(allowed, Reason(code, text, {"wanted": float(target)}))


def quota(target: int, context: Context) -> Change | None:
    """No increase beyond so many cores; never a decrease. An executor whose cores are unknown counts as one."""
    cores = context.settings.quota_cores
    if cores is None or target <= context.current:
        return None
    slots = context.seen.slots_per_executor or 1
    allowed = max(context.current, min(target, cores // slots))
    if allowed == target:
        return None
    room = f"{several(cores, 'core is', 'cores are')} {executors(cores // slots)}"
    text = f"{room}: {move(context.current, allowed)} instead of {target}"
    return Change(allowed, Reason(Code.QUOTA, text, {"wanted": float(target)}))


def last_check(target: int, context: Context) -> Change | None:
    """Within the bounds, and no step has turned the direction of the policy, else hold. An undo may turn it."""
    current = context.current
    if target == current:
        return None
    turned = context.recommended is not None and (context.recommended - current) * (target - current) < 0
    within = context.bounds.clamp(target) == target
    forced = context.bounds.clamp(current) != current
    if within and (forced or not turned or undoing(target, context)):
        return None
    return stay(context, Code.LAST_CHECK, f"{current} → {target} contradicts the bounds or the policy")
