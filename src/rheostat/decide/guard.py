"""The guard pipeline: one ordered tuple of pure steps shapes what any policy proposes.

A step sees the target so far and the context. It returns None where it has nothing to say, or the target it wants
instead and why. Decisions start from the number *in force*: the target of a change that is being executed, else the
number that was asked for last, but no less than the registered executors.

The table of the steps, with the reasons for their order, is docs/guard.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from rheostat.decide.effectiveness import Cost, in_words, lag_after, required_rate
from rheostat.decide.partitions import in_waves, spread_evenly, waves
from rheostat.decide.placement import Choice, full, place
from rheostat.decide.policy import cap_limits
from rheostat.decide.state import Change, Context, Proposal, Replacing, move, stay
from rheostat.model import Assessment, GuardNote, Placement, Reason, ReasonCode
from rheostat.text import batches as of_batches
from rheostat.text import carry, count, executors, per_second, percent, records, seconds, several

# Guard steps on changes: of the job (failures, warm-up), and of the number of executors, made or still to come.


def hold_all(_target: int, context: Context) -> Change | None:
    """With ``hold_both``: no change at all in the hold, as in S1."""
    return _holding(context) if context.settings.hold_both else None


def task_failures(_target: int, context: Context) -> Change | None:
    """No decrease after recent task failures."""
    failed, window = context.assessment.failed_tasks, context.settings.failure_window_s
    if not failed or window == 0:
        return None
    text = f"{several(failed, 'task')} failed within {seconds(window)}"
    return stay(context, ReasonCode.TASK_FAILURES, text, failed_tasks=float(failed), window_s=window)


def warm_up(_target: int, context: Context) -> Change | None:
    """No decrease before the first batches, or the first seconds."""
    at, wanted, limit = context.assessment.at, context.settings.warm_up_batches, context.settings.warm_up_s
    batches = _batches(context)
    if batches < wanted:
        text = f"{batches} of {of_batches(wanted)} finished at this number"
        return stay(context, ReasonCode.WARMING_UP, text, batches=float(batches), wanted=float(wanted))
    ran = at - (at if context.state.started_at is None else context.state.started_at)
    if ran >= limit:
        return None
    return stay(context, ReasonCode.WARMING_UP, f"warming up for {seconds(ran)} of {seconds(limit)}", ran_s=ran)


def hold(_target: int, context: Context) -> Change | None:
    """No decrease in the hold after a change."""
    return _holding(context)


def _holding(context: Context) -> Change | None:
    """Whether the last change is too young to be judged."""
    if context.state.changed_at is None:
        return None
    settings, batches = context.settings, _batches(context)
    since = context.assessment.at - context.state.changed_at
    limit = settings.hold_fallback_s if settings.hold_s is None else settings.hold_s
    if since >= limit or (settings.hold_s is None and batches >= settings.hold_batches):
        return None
    waits = f", {batches} of {of_batches(settings.hold_batches)} finished since" if settings.hold_s is None else ""
    text = f"the number changed {seconds(since)} ago{waits}; hold for at most {seconds(limit)}"
    return stay(context, ReasonCode.HOLD_AFTER_RESCALE, text, since_s=since, limit_s=limit)


def _batches(context: Context) -> int:
    """Batches that are known to have finished at the number in force; figures of before its change know of none."""
    return 0 if context.state.outdates(context.assessment) else context.assessment.batches


def rescale_running(_target: int, context: Context) -> Change | None:
    """No decrease while a change is executed."""
    pending = context.state.pending
    if pending is None:
        return None
    since = context.assessment.at - pending.at
    text = f"{pending.before} → {pending.target} has been under way for {seconds(since)}"
    return stay(context, ReasonCode.RESCALE_RUNNING, text, since_s=since)


def ineffective(_target: int, context: Context) -> Change | None:
    """No increase while one that brought nothing is remembered."""
    useless = context.state.useless
    if useless is None:
        return None
    left = context.settings.ineffective_s - (context.assessment.at - useless.at)
    text = (
        f"{useless.before} → {useless.after} brought {per_second(useless.rate)} of {per_second(useless.promised)}, "
        f"the limit is elsewhere ({useless.cause}); the next try is in {seconds(left)}"
    )
    return stay(context, ReasonCode.INEFFECTIVE, text, promised=useless.promised, rate=useless.rate)


def rescale_cost(target: int, context: Context) -> Change | None:
    """What a change itself adds to the lag: more executors at once, or better no change now."""
    current, state = context.current, context.state
    cost = state.cost_up if target > current else state.cost_down
    if cost is None or context.settings.rescale_catch_up_lags is None:
        return None
    arriving, processed, backlog = (
        context.assessment.arrival_rate,
        context.assessment.processed_rate,
        context.assessment.backlog,
    )
    if not arriving or processed is None or backlog is None or context.objective_s is None:
        return None
    lag = lag_after(backlog, arriving, processed, cost.delay_s, cost.blocked_s)
    threshold = arriving * context.objective_s
    if target < current:
        return _too_dear(context, cost, lag, threshold)
    if backlog <= threshold:
        caught_up = _caught_up(context, cost, processed - arriving)
        if caught_up is not None or lag <= threshold:
            return caught_up
    catch_up_s = context.settings.rescale_catch_up_lags * context.objective_s
    return _enough(target, context, cost, required_rate(arriving, lag, threshold, catch_up_s))


def _too_dear(context: Context, cost: Cost, lag: float, threshold: float) -> Change | None:
    """A decrease that would itself break the objective waits."""
    if lag <= threshold:
        return None
    text = f"{in_words(cost)}, {records(lag)} would wait then, {count(threshold)} may"
    return stay(context, ReasonCode.RESCALE_COST, text, lag=lag, threshold=threshold)


def _caught_up(context: Context, cost: Cost, gain: float) -> Change | None:
    """An increase is not made where the job, still inside its objective, will have caught up before it works."""
    excess, takes = context.assessment.backlog_excess, cost.delay_s + cost.blocked_s
    if not excess or gain <= 0 or excess / gain > takes:
        return None
    text = f"caught up in {seconds(excess / gain)}, before a change works ({in_words(cost)})"
    return stay(context, ReasonCode.RESCALE_COST, text, caught_up_s=excess / gain, takes_s=takes)


def _enough(target: int, context: Context, cost: Cost, rate: float) -> Change | None:
    """So many that they also work off what the change adds, at most twice the number wanted."""
    capacity, numbers = context.capacity, range(target, min(2 * target, context.bounds.maximum) + 1)
    if capacity is None or len(numbers) < 2 or capacity(target) is None:
        return None
    enough = numbers[min(bisect_left(numbers, rate, key=lambda n: capacity(n) or 0.0), len(numbers) - 1)]
    if enough == target:
        return None
    text = (
        f"{in_words(cost)}; to catch up {per_second(rate)} are needed, which {carry(enough)}: "
        f"{move(context.current, enough)} instead of {target}"
    )
    return Change(enough, Reason(ReasonCode.RESCALE_COST, text, {"required": rate, "wanted": float(target)}))


# The guard steps on the sink and on slow machines, and the words for these.


def sick_sink(target: int, context: Context) -> Change | None:
    """No increase while batches wait for their sink, but advice."""
    why = context.assessment.sink
    if why is None or not context.settings.sick_sink:
        return None
    text = f"the sink is sick: {why}; no executor helps against that, look at what the query writes to"
    return stay(context, ReasonCode.SICK_SINK, text, wanted=float(target))


def leaving_first(assessment: Assessment, replacing: Replacing | None) -> tuple[str, ...]:
    """The slow executors in the order in which they go in a decrease: the one that has been replaced before the others.

    >>> leaving_first(Assessment(0.0, slow_executors=("3", "7")), Replacing("7", 4))
    ('7', '3')
    """
    slow = assessment.slow_executors
    if replacing is None or replacing.executor not in slow:
        return slow
    return (replacing.executor, *(each for each in slow if each != replacing.executor))


def with_slow(reason: Reason, assessment: Assessment) -> Reason:
    """The reason of a decision, with the slow executors or nodes named in it.

    >>> with_slow(Reason(ReasonCode.STEADY, "all is well"), Assessment(0.0, slow=("node b",), slow_factor=3.04)).text
    'all is well; slow: node b (3.0 × the task time of the others)'
    """
    if not assessment.slow:
        return reason
    factor = "" if assessment.slow_factor is None else f" ({assessment.slow_factor:.1f} × the task time of the others)"
    figures = {**reason.figures, "slow_factor": assessment.slow_factor}
    return Reason(reason.code, f"{reason.text}; slow: {', '.join(assessment.slow)}{factor}", figures)


# Guard steps on what is known: nothing is decided on figures that are missing, impossible or old.


def no_query(_target: int, context: Context) -> Change | None:
    """Hold where nothing streams."""
    if context.assessment.queries > 0:
        return None
    return stay(context, ReasonCode.NO_QUERY, "no streaming query is active")


def missing(_target: int, context: Context) -> Change | None:
    """Hold where a needed figure is unknown."""
    if not context.assessment.missing:
        return None
    return stay(context, ReasonCode.METRICS_MISSING, f"unknown: {', '.join(context.assessment.missing)}")


def invalid(_target: int, context: Context) -> Change | None:
    """Hold where a figure is impossible."""
    if not context.assessment.invalid:
        return None
    return stay(context, ReasonCode.METRICS_INVALID, f"impossible figures: {', '.join(context.assessment.invalid)}")


def stale(_target: int, context: Context) -> Change | None:
    """Hold on figures of the past. An increase that they justified was made when they were fresh."""
    settings = context.settings
    age, limit = context.assessment.metrics_age_s, settings.metrics_delay_s + settings.max_age_cycles * context.sample_s
    if age is None:
        return stay(context, ReasonCode.METRICS_MISSING, "the age of the metrics is unknown")
    if age <= limit:
        return None
    text = f"the metrics are {seconds(age)} old, at most {seconds(limit)} are allowed"
    return stay(context, ReasonCode.METRICS_STALE, text, metrics_age_s=age, limit_s=limit)


def unknown(context: Context) -> bool:
    """Whether the metrics are missing, impossible or old."""
    return any(step.apply(context.current, context) is not None for step in STEPS if step.blind)


# Guard steps on the size itself: tolerance, alignment, what is of use, how much at a time, and the limits.


def batch_cap(_target: int, context: Context) -> Change | None:
    """No increase while the batch cap limits the rate, not the executors."""
    if not context.settings.batch_cap or not cap_limits(context.assessment):
        return None
    text = "batches are full and end before their trigger, so the batch cap limits the rate; raise maxOffsetsPerTrigger"
    return stay(
        context, ReasonCode.BATCH_CAP, text, batch_s=context.assessment.batch_s, trigger_s=context.assessment.trigger_s
    )


def tolerance(target: int, context: Context) -> Change | None:
    """No change so small that it is not worth one."""
    share = abs(target - context.current) / max(1, context.current)
    if share > context.settings.tolerance:
        return None
    text = f"{context.current} → {target} is within the tolerance of {percent(context.settings.tolerance)}"
    return stay(context, ReasonCode.WITHIN_TOLERANCE, text, share=share)


def alignment(target: int, context: Context) -> Change | None:
    """To a number that partitions or waves of tasks fit on, on the same side of the number in force."""
    mode = context.settings.align_to
    if mode == "nothing":
        return None
    groups = context.settings.state_partitions if mode == "state" else context.assessment.partitions
    slots = context.assessment.slots_per_executor
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
    return Change(allowed, Reason(ReasonCode.ALIGNED, text, {"wanted": float(target)}))


def useful(target: int, context: Context) -> Change | None:
    """No increase beyond one slot for each task of the largest stage; never a decrease."""
    partitions, slots = context.assessment.partitions, context.assessment.slots_per_executor
    most = context.assessment.useful_executors
    if most is None:
        if not partitions or not slots:
            return None
        most = waves(partitions, slots)
    allowed = max(context.current, min(target, most))
    if allowed == target:
        return None
    keep = several(partitions or 0, "partition keeps", "partitions keep")
    what = "the largest stage keeps" if context.assessment.useful_executors else keep
    text = (
        f"{what} at most {executors(most)} of {several(slots, 'slot') if slots else 'unknown slots'} busy: "
        f"{move(context.current, allowed)} instead of {target}"
    )
    return Change(allowed, Reason(ReasonCode.USELESS_EXECUTORS, text, {"useful": float(most), "wanted": float(target)}))


def least_by_partitions(target: int, context: Context) -> Change | None:
    """No decrease to where a slot has more partitions than it may; never an increase."""
    most, partitions, slots = (
        context.settings.most_partitions,
        context.assessment.partitions,
        context.assessment.slots_per_executor,
    )
    if most is None:
        return None
    if not partitions or not slots:
        return stay(context, ReasonCode.PARTITIONS_PER_SLOT, "how many partitions a slot would have is unknown")
    least = math.ceil(partitions / (most * slots))
    allowed = min(context.current, max(target, least))
    if allowed == target:
        return None
    text = (
        f"{several(partitions, 'partition needs', 'partitions need')} {executors(least)} for at most {most:g} a slot: "
        f"{move(context.current, allowed)} instead of {target}"
    )
    return Change(
        allowed, Reason(ReasonCode.PARTITIONS_PER_SLOT, text, {"least": float(least), "wanted": float(target)})
    )


def largest_step(target: int, context: Context) -> Change | None:
    """No more at a time than allowed."""
    going_up = target > context.current
    step = context.settings.largest_step_up if going_up else context.settings.largest_step_down
    if step is None or abs(target - context.current) <= step:
        return None
    allowed = context.current + (step if going_up else -step)
    text = f"at most {step} at a time: {move(context.current, allowed)} instead of {target}"
    return Change(allowed, Reason(ReasonCode.LARGEST_STEP, text, {"wanted": float(target)}))


def bounds(target: int, context: Context) -> Change | None:
    """Into the bounds: up also without metrics, unless there was no room; down only on known metrics."""
    allowed = context.bounds.clamp(target)
    if allowed == target:
        return None
    if allowed > context.current and refused(context) is not None:
        return None
    if allowed < context.current and unknown(context):
        return None
    limit, code = ("most", ReasonCode.AT_MAX) if allowed < target else ("least", ReasonCode.AT_MIN)
    text = f"at {limit} {executors(allowed)} allowed: {move(context.current, allowed)} instead of {target}"
    return Change(allowed, Reason(code, text, {"wanted": float(target)}))


def quota(target: int, context: Context) -> Change | None:
    """No increase beyond so many cores; never a decrease. An executor whose cores are unknown counts as one."""
    cores = context.settings.quota_cores
    if cores is None:
        return None
    slots = context.assessment.slots_per_executor or 1
    allowed = max(context.current, min(target, cores // slots))
    if allowed == target:
        return None
    room = f"{several(cores, 'core is', 'cores are')} {executors(cores // slots)}"
    text = f"{room}: {move(context.current, allowed)} instead of {target}"
    return Change(allowed, Reason(ReasonCode.QUOTA, text, {"wanted": float(target)}))


def last_check(target: int, context: Context) -> Change | None:
    """Within the bounds, and no step has turned the direction of the proposal, else hold."""
    current = context.current
    proposed = context.recommended if context.proposed is None else context.proposed
    turned = (proposed - current) * (target - current) < 0
    within = context.bounds.clamp(target) == target
    forced = context.bounds.clamp(current) != current
    if within and (forced or not turned):
        return None
    return stay(context, ReasonCode.LAST_CHECK, f"{current} → {target} contradicts the bounds or the policy")


# Guard steps on when: holds, cooldowns, back-off, and times in which nothing is given back.


_COOLING = "the last change was {since} ago, the cooldown is {limit}"


def scale_down_hold(target: int, context: Context) -> Change | None:
    """A decrease goes no lower than the most that was proposed within the window."""
    window = context.settings.scale_down_hold_s
    if window == 0:
        return None
    begin = context.assessment.at - window
    most = max([each.target for each in context.state.proposed if each.at > begin], default=target)
    allowed = min(context.current, max(target, most))
    if allowed == target:
        return None
    text = (
        f"{several(most, 'executor was', 'executors were')} proposed within {seconds(window)}: "
        f"{move(context.current, allowed)} instead of {target}"
    )
    return Change(allowed, Reason(ReasonCode.SCALE_DOWN_HOLD, text, {"most": float(most), "wanted": float(target)}))


def cooldown_up(_target: int, context: Context) -> Change | None:
    """No increase too soon after a change."""
    return _since(context, ReasonCode.COOLDOWN_UP, context.state.changed_at, context.settings.cooldown_up_s, _COOLING)


def cooldown_down(_target: int, context: Context) -> Change | None:
    """No decrease too soon after a change or a failed attempt."""
    began, limit = context.state.down_blocked_at, context.settings.cooldown_down_s
    return _since(context, ReasonCode.COOLDOWN_DOWN, began, limit, _COOLING)


def _since(context: Context, code: ReasonCode, began: float | None, limit_s: float, words: str) -> Change | None:
    """The hold for so long from a moment on, None: there is none; ``words`` has places for {since} and {limit}."""
    if began is None or context.assessment.at - began >= limit_s:
        return None
    since_s = context.assessment.at - began
    text = words.format(since=seconds(since_s), limit=seconds(limit_s))
    return stay(context, code, text, since_s=since_s, limit_s=limit_s)


def round_trip(_target: int, context: Context) -> Change | None:
    """No decrease too soon after an increase."""
    limit = context.settings.round_trip_cooldowns * context.settings.cooldown_down_s
    words = "the last increase was {since} ago, it stands for {limit}"
    return _since(context, ReasonCode.ROUND_TRIP, context.state.raised_at, limit, words)


def catching_up(_target: int, context: Context) -> Change | None:
    """No decrease while there is more backlog than a healthy job has, or nobody knows."""
    if not context.settings.catching_up:
        return None
    excess = context.assessment.backlog_excess
    if excess == 0:
        return None
    text = f"catching up: the backlog exceeds a healthy one by {records(excess)}"
    return stay(context, ReasonCode.CATCHING_UP, text, backlog_excess=excess)


def failover(_target: int, context: Context) -> Change | None:
    """No decrease while a region's traffic is away, nor while it comes back."""
    if context.settings.failover:
        return stay(context, ReasonCode.FAILOVER, "the traffic of a region is away until the switch is off again")
    words = "the failover ended {since} ago, its traffic has {limit} to come back"
    return _since(context, ReasonCode.FAILOVER, context.state.failover_at, context.settings.failover_return_s, words)


def no_room(_target: int, context: Context) -> Change | None:
    """No increase for a while after one that was not granted."""
    return refused(context)


def refused(context: Context) -> Change | None:
    """The hold of the back-off; None: there is none."""
    until = context.state.no_room_until
    if until is None or context.assessment.at >= until:
        return None
    left = until - context.assessment.at
    return stay(context, ReasonCode.NO_ROOM, f"the last increase was not granted, the next try is in {seconds(left)}")


# Where executors come and go.


def placement(target: int, context: Context) -> Change | None:
    """The nodes, where they are known. An increase for which too few are free becomes a smaller one, or a hold.

    Where executors in force are neither there nor on their way, and there is room for no more than these, as many of
    them as there is room for are asked for again.
    """
    assessment, current = context.assessment, context.current
    nodes = assessment.nodes
    if nodes is None or (target == current and not context.asks_again):
        return None
    choice = _choice(target, context)
    placed, text = place(nodes, nodes.in_use, target, choice)
    room = len(placed.use)
    if target <= current or room >= target:
        return Change(target, None, f"; {text}" if placed.add or placed.leave else "", placement=placed)
    there = max(assessment.executors or 0, len(nodes.in_use))
    if room > current:
        return Change(room, Reason(ReasonCode.NO_FREE_NODE, f"{current} → {target}: {text}"), placement=placed)
    if room > there and context.state.pending is None and not context.state.outdates(assessment):
        again = f"{there} of {executors(current)} registered: asked for again; {text}"
        reason = Reason(ReasonCode.REPLACING_LOST, f"{current} → {target}, but {again}")
        return Change(room, reason, current=there, placement=placed)
    why = full(nodes, target - room, never_slow=choice.never_slow)
    return Change(current, Reason(ReasonCode.NO_FREE_NODE, f"{current} → {target}: {why}"))


def _choice(target: int, context: Context) -> Choice:
    assessment = context.assessment
    leaving = leaving_first(assessment, context.state.replacing) if target < context.current else ()
    on = dict(zip(assessment.slow_executors, assessment.slow_on, strict=False))
    return Choice(
        placing=context.placing,
        seed=context.seed,
        slow=frozenset(assessment.slow_nodes),
        first=tuple(on[executor] for executor in leaving if executor in on),
        never_slow=context.avoids_slow_nodes,
    )


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
        gate: the sample must not count for the policy while this step holds, and it is asked about holds too.
        blind: while it holds, the metrics are not known.
        on_hold: asked about holds too, though it is no gate.
        self_manageable: whether a policy may declare that it does this itself.
    """

    name: str
    direction: Direction
    codes: tuple[ReasonCode, ...]
    settings: tuple[str, ...]
    apply: Shaper
    gate: bool = False
    blind: bool = False
    on_hold: bool = False
    self_manageable: bool = False

    def concerns(self, target: int, current: int) -> bool:
        """Whether the step is asked about such a target."""
        if target == current:
            return self.gate or self.on_hold
        return self.direction in (Direction.BOTH, Direction.BLOCKS_UP if target > current else Direction.BLOCKS_DOWN)


def closed_gate(context: Context) -> Reason | None:
    """Why this sample must not count for the policy, and no change may start; None: it counts."""
    for step in STEPS:
        change = step.apply(context.current, context) if step.gate else None
        if change is not None:
            return change.reason
    return None


@dataclass(frozen=True, slots=True)
class Shaped:
    """A proposal after the steps: the change, its reason, and every step that changed the target."""

    current: int
    target: int
    reason: Reason
    notes: tuple[GuardNote, ...]
    placement: Placement | None = None


def shape(proposal: Proposal, context: Context, skips: frozenset[str], notes: tuple[GuardNote, ...] = ()) -> Shaped:
    """Send a proposal through the pipeline. Of the gates, the first closed one is the reason; the others are not asked.

    Args:
        proposal: what is wanted.
        context: what the steps look at.
        skips: names of steps that do not apply.
        notes: of what has changed the target before.
    """
    current = context.current if proposal.current is None else proposal.current
    context = replace(context, current=current, proposed=proposal.target)
    target, reason, placement, closed = proposal.target, proposal.reason, None, False
    for step in STEPS:
        if step.name in skips or (step.gate and closed) or not step.concerns(target, context.current):
            continue
        change = step.apply(target, context)
        if change is None:
            continue
        reason = change.reason or replace(reason, text=f"{reason.text}{change.remark}")
        if change.target != target:
            notes = (*notes, GuardNote(step.name, target, change.target, reason))
        current = current if change.current is None else change.current
        target, placement, closed = change.target, change.placement, closed or step.gate
    return Shaped(current, target, reason, notes, placement)


STEPS: tuple[Step, ...] = (
    Step("no_query", _BOTH, (ReasonCode.NO_QUERY,), (), no_query, gate=True, blind=True),
    Step("metrics_invalid", _BOTH, (ReasonCode.METRICS_INVALID,), (), invalid, gate=True, blind=True),
    Step("metrics_missing", _BOTH, (ReasonCode.METRICS_MISSING,), (), missing, gate=True, blind=True),
    Step(
        "metrics_stale",
        _BOTH,
        (ReasonCode.METRICS_STALE, ReasonCode.METRICS_MISSING),
        ("max_age_cycles", "metrics_delay_s"),
        stale,
        gate=True,
        blind=True,
    ),
    Step("hold_all", _BOTH, (ReasonCode.HOLD_AFTER_RESCALE,), ("hold_both", *_HOLD), hold_all, gate=True),
    Step(
        "task_failures", _DOWN, (ReasonCode.TASK_FAILURES,), ("failure_window_s",), task_failures, self_manageable=True
    ),
    Step("warm_up", _DOWN, (ReasonCode.WARMING_UP,), ("warm_up_batches", "warm_up_s"), warm_up, self_manageable=True),
    Step("hold", _DOWN, (ReasonCode.HOLD_AFTER_RESCALE,), _HOLD, hold, self_manageable=True),
    Step("rescale_running", _DOWN, (ReasonCode.RESCALE_RUNNING,), ("hold_fallback_s",), rescale_running),
    Step("rescale_cost", _BOTH, (ReasonCode.RESCALE_COST,), ("rescale_catch_up_lags",), rescale_cost),
    Step("batch_cap", _UP, (ReasonCode.BATCH_CAP,), ("batch_cap",), batch_cap, self_manageable=True),
    Step("sick_sink", _UP, (ReasonCode.SICK_SINK,), ("sick_sink",), sick_sink, self_manageable=True),
    Step("ineffective", _UP, (ReasonCode.INEFFECTIVE,), _INEFFECTIVE, ineffective),
    Step("tolerance", _BOTH, (ReasonCode.WITHIN_TOLERANCE,), ("tolerance",), tolerance, self_manageable=True),
    Step(
        "alignment",
        _BOTH,
        (ReasonCode.ALIGNED,),
        ("align_to", "align_most", "state_partitions"),
        alignment,
        self_manageable=True,
    ),
    Step("useful_executors", _UP, (ReasonCode.USELESS_EXECUTORS,), (), useful, self_manageable=True),
    Step("least_by_partitions", _DOWN, (ReasonCode.PARTITIONS_PER_SLOT,), ("most_partitions",), least_by_partitions),
    Step(
        "largest_step",
        _BOTH,
        (ReasonCode.LARGEST_STEP,),
        ("largest_step_up", "largest_step_down"),
        largest_step,
        self_manageable=True,
    ),
    Step(
        "scale_down_hold",
        _DOWN,
        (ReasonCode.SCALE_DOWN_HOLD,),
        ("scale_down_hold_s",),
        scale_down_hold,
        self_manageable=True,
    ),
    Step("cooldown_up", _UP, (ReasonCode.COOLDOWN_UP,), ("cooldown_up_s",), cooldown_up, self_manageable=True),
    Step(
        "cooldown_down", _DOWN, (ReasonCode.COOLDOWN_DOWN,), ("cooldown_down_s",), cooldown_down, self_manageable=True
    ),
    Step("round_trip", _DOWN, (ReasonCode.ROUND_TRIP,), ("round_trip_cooldowns", "cooldown_down_s"), round_trip),
    Step("catching_up", _DOWN, (ReasonCode.CATCHING_UP,), ("catching_up",), catching_up),
    Step("failover", _DOWN, (ReasonCode.FAILOVER,), ("failover", "failover_return_s"), failover),
    Step("no_room", _UP, (ReasonCode.NO_ROOM,), ("no_room_backoff_s", "no_room_backoff_max_s"), no_room),
    Step("bounds", _BOTH, (ReasonCode.AT_MIN, ReasonCode.AT_MAX), (), bounds, on_hold=True),
    Step("quota", _UP, (ReasonCode.QUOTA,), ("quota_cores",), quota),
    Step("last_check", _BOTH, (ReasonCode.LAST_CHECK,), (), last_check),
    Step("placement", _BOTH, (ReasonCode.NO_FREE_NODE, ReasonCode.REPLACING_LOST), (), placement, on_hold=True),
)
"""The pipeline, in order."""
