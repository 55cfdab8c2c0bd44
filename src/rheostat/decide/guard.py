"""Pure functions of the decision: guard steps, which may stop or lessen a change, and proposers, which may start one.

A step takes the target so far and the context. It returns None where it has nothing to say, or the target that it wants
instead and why. A proposer returns None where it wants no change. Their order is :data:`rheostat.decide.decide.STEPS`
and :data:`rheostat.decide.decide.PROPOSERS`; docs/guard.md is the table with the reasons.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rheostat.analyze.assess import COUNTS, IN_USE
from rheostat.config.models import GuardSettings
from rheostat.decide.effectiveness import Cause, Cost, Useless, describe_cost, lag_after, required_rate, try_again
from rheostat.decide.failures import describe as describe_refused
from rheostat.decide.partitions import in_waves, spread_evenly, tasks_of_batch, waves
from rheostat.decide.placement import Choice, Placing, no_room_text, place
from rheostat.decide.policy import cap_limits, is_warm, tasks_fail
from rheostat.decide.shedding import SheddingState
from rheostat.decide.state import AN_HOUR_S, GuardState, Replacing, RequestState
from rheostat.model import Assessment, Bounds, NodeReading, Nodes, Placement, Reason, ReasonCode, Recommendation
from rheostat.text import batches as of_batches
from rheostat.text import carry, count, executors, first_few, per_second, percent, records, seconds, several


@dataclass(frozen=True, slots=True)
class Context:
    """What proposers and steps may look at.

    Attributes:
        current: the current target, from which the change starts.
        recommendation: of the policy; None: it has not been asked yet.
        sample_s: time between two assessments.
        objective_s: lag that is to hold; None: unknown.
        capacity: records/s that so many executors carry, by the policy's model; it returns None without one.
        fewer_do: whether the policy says that fewer are enough and waits before it recommends them.
        gate: why no change may start on this sample, and it must not count; None: it counts.
        blind: whether the metrics are missing, impossible or old.
        active: whether decisions go to the actuator.
        proposed: the target of the proposal that the steps shape.
        avoids_slow_nodes: whether this proposal never takes a slow node.
        left_node: the node from which an executor moves.
        asks_again: whether this proposal asks for a number even where it stays.
        placing, seed: how nodes are taken.
        shedding: what is known of the records that are dropped.
        rate_window_s: over which rates are measured.
    """

    assessment: Assessment
    current: int
    recommendation: Recommendation | None
    bounds: Bounds
    settings: GuardSettings
    sample_s: float
    state: GuardState
    objective_s: float | None = None
    capacity: Callable[[int], float | None] | None = None
    fewer_do: bool = False
    requests: RequestState = field(default_factory=RequestState)
    gate: Reason | None = None
    blind: bool = False
    active: bool = False
    proposed: int | None = None
    avoids_slow_nodes: bool = False
    left_node: str | None = None
    asks_again: bool = False
    placing: Placing = Placing.NEAREST
    seed: int = 0
    shedding: SheddingState = field(default_factory=SheddingState)
    rate_window_s: float = 60.0

    @property
    def recommended(self) -> int:
        """The policy's number; the current target where it has no opinion."""
        target = None if self.recommendation is None else self.recommendation.target
        return self.current if target is None else target


@dataclass(frozen=True, slots=True)
class Change:
    """What a step wants instead, and why.

    Attributes:
        reason: None: the reason so far stands.
        remark: added to the text of that reason.
        current: the number that the change then starts from; None: as before.
        placement: where executors come and go; None: unknown.
    """

    target: int
    reason: Reason | None
    remark: str = ""
    current: int | None = None
    placement: Placement | None = None


def move(current: int, target: int) -> str:
    """The change in words.

    >>> move(3, 5), move(3, 3)
    ('3 → 5', '3 stays')
    """
    return f"{current} stays" if current == target else f"{current} → {target}"


def stay(context: Context, code: ReasonCode, text: str, **figures: float | None) -> Change:
    return Change(context.current, Reason(code, f"{text}: {context.current} stays", figures))


def _limit(context: Context, target: int, allowed: int, code: ReasonCode, text: str, **figures: float) -> Change | None:
    """The number that is allowed instead of the target, if it is another one."""
    if allowed == target:
        return None
    text = f"{text}: {move(context.current, allowed)} instead of {target}"
    return Change(allowed, Reason(code, text, {**figures, "wanted": float(target)}))


# Steps on what is known: nothing is decided on figures that are missing, impossible or old.


def no_query(_target: int, context: Context) -> Change | None:
    if context.assessment.queries > 0:
        return None
    return stay(context, ReasonCode.NO_QUERY, "no streaming query is active")


def metrics_invalid(_target: int, context: Context) -> Change | None:
    if not context.assessment.invalid:
        return None
    return stay(context, ReasonCode.METRICS_INVALID, f"impossible figures: {', '.join(context.assessment.invalid)}")


def metrics_missing(_target: int, context: Context) -> Change | None:
    if not context.assessment.missing:
        return None
    never = "".join(f"; {each.why}" for each in context.assessment.unmeasured)
    return stay(context, ReasonCode.METRICS_MISSING, f"unknown: {', '.join(context.assessment.missing)}{never}")


def metrics_stale(_target: int, context: Context) -> Change | None:
    """Hold on figures of the past. An increase that they justified was made when they were fresh."""
    settings, age = context.settings, context.assessment.metrics_age_s
    limit = settings.metrics_delay_s + settings.max_age_cycles * context.sample_s
    if age is None:
        return stay(context, ReasonCode.METRICS_MISSING, "the age of the metrics is unknown")
    if age <= limit:
        return None
    text = f"the metrics are {seconds(age)} old, at most {seconds(limit)} are allowed"
    return stay(context, ReasonCode.METRICS_STALE, text, metrics_age_s=age, limit_s=limit)


# Steps on the job and on changes under way.


def hold_all(_target: int, context: Context) -> Change | None:
    """With ``hold_both``: no change at all in the hold, as in S1."""
    return hold(_target, context) if context.settings.hold_both else None


def sheds(_target: int, context: Context) -> Change | None:
    """No change on figures of batches that dropped records: they took less time than all records would have."""
    at, shed_at = context.assessment.at, context.shedding.shed_at
    if shed_at is None or at - shed_at > context.rate_window_s:
        return None
    text = "records are dropped" if at == shed_at else f"records were dropped until {seconds(at - shed_at)} ago"
    return stay(context, ReasonCode.SHEDDING, f"{text}, so what the executors carry does not show")


def task_failures(_target: int, context: Context) -> Change | None:
    """No decrease while a share of the tasks fails, which fewer executors could make worse.

    Not where they fail because of too many executors, nor after ten windows: then this number does not keep them from
    failing.
    """
    assessment, state, window = context.assessment, context.state, context.settings.failure_window_s
    failed, ended, since, up = assessment.failed_tasks, assessment.ended_tasks, state.failing_since, state.refused_up
    if not failed or window == 0 or not tasks_fail(assessment):
        return None
    if (up is not None and context.current > up.before) or assessment.at - (since or assessment.at) >= 10 * window:
        return None
    of = f" of {count(ended)}" if ended else ""
    text = f"{several(failed, 'task')}{of} failed within {seconds(window)}"
    return stay(context, ReasonCode.TASK_FAILURES, text, failed_tasks=float(failed), window_s=window)


def warm_up(_target: int, context: Context) -> Change | None:
    """No decrease before the first batches, or the first seconds."""
    at, wanted, limit = context.assessment.at, context.settings.warm_up_batches, context.settings.warm_up_s
    batches = _count_batches(context)
    if batches < wanted and not _is_idle(context):
        text = f"{batches} of {of_batches(wanted)} finished at this number"
        return stay(context, ReasonCode.WARMING_UP, text, batches=float(batches), wanted=float(wanted))
    ran = at - (at if context.state.started_at is None else context.state.started_at)
    if ran >= limit:
        return None
    return stay(context, ReasonCode.WARMING_UP, f"warming up for {seconds(ran)} of {seconds(limit)}", ran_s=ran)


def hold(_target: int, context: Context) -> Change | None:
    """No decrease in the hold: while the last change is too young to be judged."""
    if context.state.changed_at is None:
        return None
    settings, batches = context.settings, _count_batches(context)
    since = context.assessment.at - context.state.changed_at
    limit = settings.hold_fallback_s if settings.hold_s is None else settings.hold_s
    enough = batches >= settings.hold_batches or _is_idle(context)
    if since >= limit or (settings.hold_s is None and enough):
        return None
    waits = f", {batches} of {of_batches(settings.hold_batches)} finished since" if settings.hold_s is None else ""
    text = f"the number changed {seconds(since)} ago{waits}; hold for at most {seconds(limit)}"
    return stay(context, ReasonCode.HOLD_AFTER_RESCALE, text, since_s=since, limit_s=limit)


def _count_batches(context: Context) -> int:
    """Batches that are known to have finished at the current target; figures of before its change know of none."""
    return 0 if context.state.outdates(context.assessment) else context.assessment.batches


def _is_idle(context: Context) -> bool:
    """Whether the current target has no batch to wait for."""
    return context.assessment.idle and not context.state.outdates(context.assessment)


def rescale_running(_target: int, context: Context) -> Change | None:
    pending = context.state.pending
    if pending is None:
        return None
    since = context.assessment.at - pending.at
    text = f"{pending.before} → {pending.target} has been under way for {seconds(since)}"
    return stay(context, ReasonCode.RESCALE_RUNNING, text, since_s=since)


def rescale_cost(target: int, context: Context) -> Change | None:
    """What a change itself adds to the lag: more executors at once, or better no change now."""
    assessment, state, current = context.assessment, context.state, context.current
    cost = state.cost_up if target > current else state.cost_down
    if cost is None or context.settings.rescale_catch_up_lags is None:
        return None
    arriving, processed, backlog = assessment.arrival_rate, assessment.processed_rate, assessment.backlog
    if not arriving or processed is None or backlog is None or context.objective_s is None:
        return None
    lag = lag_after(backlog, arriving, processed, cost.delay_s, cost.blocked_s)
    threshold = arriving * context.objective_s
    if target < current:
        return _too_dear(context, cost, lag, threshold)
    if backlog <= threshold:
        change = _soon_caught_up(context, cost, processed - arriving)
        if change is not None or lag <= threshold:
            return change
    catch_up_s = context.settings.rescale_catch_up_lags * context.objective_s
    return _enough_to_catch_up(target, context, cost, required_rate(arriving, lag, threshold, catch_up_s))


_DEAR_S = 1200.0
"""For so long a decrease waits because of what changes took: only another change can show that it is less now."""


def _too_dear(context: Context, cost: Cost, lag: float, threshold: float) -> Change | None:
    """A decrease that would itself break the objective waits, but not for ever."""
    measured_at = context.state.changed_at
    if lag <= threshold or (measured_at is not None and context.assessment.at - measured_at >= _DEAR_S):
        return None
    text = f"{describe_cost(cost)}, {records(lag)} would wait then, {count(threshold)} may"
    return stay(context, ReasonCode.RESCALE_COST, text, lag=lag, threshold=threshold)


def _soon_caught_up(context: Context, cost: Cost, gain: float) -> Change | None:
    """An increase is not made where the job, still inside its objective, will have caught up before it works."""
    excess, takes = context.assessment.backlog_excess, cost.delay_s + cost.blocked_s
    if not excess or gain <= 0 or excess / gain > takes:
        return None
    text = f"caught up in {seconds(excess / gain)}, before a change works ({describe_cost(cost)})"
    return stay(context, ReasonCode.RESCALE_COST, text, caught_up_s=excess / gain, takes_s=takes)


def _enough_to_catch_up(target: int, context: Context, cost: Cost, rate: float) -> Change | None:
    """So many that they also work off what the change adds, at most twice the number wanted."""
    capacity, numbers = context.capacity, range(target, min(2 * target, context.bounds.maximum) + 1)
    if capacity is None or len(numbers) < 2 or capacity(target) is None:
        return None
    enough = numbers[min(bisect_left(numbers, rate, key=lambda n: capacity(n) or 0.0), len(numbers) - 1)]
    text = f"{describe_cost(cost)}; to catch up {per_second(rate)} are needed, which {carry(enough)}"
    return _limit(context, target, enough, ReasonCode.RESCALE_COST, text, required=rate)


def batch_cap(_target: int, context: Context) -> Change | None:
    """No increase while the batch cap limits the rate, not the executors."""
    assessment = context.assessment
    if not context.settings.batch_cap or not cap_limits(assessment):
        return None
    text = "batches are full and end before their trigger, so the batch cap limits the rate; raise maxOffsetsPerTrigger"
    batch_s, trigger_s = assessment.batch_s, assessment.trigger_s
    return stay(context, ReasonCode.BATCH_CAP, text, batch_s=batch_s, trigger_s=trigger_s)


def sick_sink(target: int, context: Context) -> Change | None:
    """No increase while batches wait for their sink, but advice."""
    why = context.assessment.sink
    if why is None or not context.settings.sick_sink:
        return None
    text = f"the sink is sick: {why}; no executor helps against that, look at what the query writes to"
    return stay(context, ReasonCode.SICK_SINK, text, wanted=float(target))


def driver_bound(target: int, context: Context) -> Change | None:
    """No increase while the driver delays the batches, but advice."""
    why = context.assessment.driver
    if why is None or not context.settings.sick_sink:
        return None
    text = (
        f"the driver delays the batches: {why}; no executor helps against that, look at what it does beside its tasks"
    )
    return stay(context, ReasonCode.DRIVER_BOUND, text, wanted=float(target))


def data_reread(target: int, context: Context) -> Change | None:
    """No increase while most of the batch passes with reading data anew, in too few tasks for more slots."""
    assessment = context.assessment
    if assessment.reread is None or not assessment.reread_bound:
        return None
    text = f"{assessment.reread}: its tasks have a slot each, so more executors do not help; {_CACHE_IT}"
    return stay(context, ReasonCode.DATA_REREAD, text, wanted=float(target), reread_share=assessment.reread_share)


_CACHE_IT = "cache it, or read less of it"


_OUT_OF_MEMORY = re.compile(r"ExecutorLost|OutOfMemory|heap space|code 137|code 143|killed by", re.IGNORECASE)


def query_fails(target: int, context: Context) -> Change | None:
    """No increase, but the cause, while every query fails and starts again: it repeats its batches, on any number.

    Where executors run out of memory, more of them have less each: then it is only named.
    """
    assessment = context.assessment
    if not assessment.failing or len(assessment.failing) < assessment.queries:
        return None
    if any(_OUT_OF_MEMORY.search(each) for each in assessment.failing):
        return None
    text = f"{assessment.failing[0]}; no executor helps against that"
    return stay(context, ReasonCode.QUERY_FAILS, text, wanted=float(target))


def objective_too_short(target: int, context: Context) -> Change | None:
    """No increase, but advice, while the sources themselves wait for longer than the lag may be."""
    assessment, limit_s = context.assessment, context.objective_s
    wait_s = assessment.wait_s
    if context.gate is not None or wait_s is None or limit_s is None or wait_s < limit_s:
        return None
    if target > context.current and assessment.backlog_excess:
        return None
    text = (
        f"the source waits {wait_s:.0f} s for records (minOffsetsPerTrigger, maxTriggerDelay): "
        f"no number of executors keeps lag < {limit_s:g} s"
    )
    return stay(context, ReasonCode.OBJECTIVE_TOO_SHORT, text, wait_s=wait_s)


def ineffective(target: int, context: Context) -> Change | None:
    """No increase after one that brought nothing; when its time is over, a small one is tried first."""
    useless, trial, share = context.state.useless, context.state.trial, context.settings.ineffective_share
    if useless is None or share is None:
        return None
    brought = f"{useless.before} → {useless.after} brought {per_second(useless.rate)} of {per_second(useless.promised)}"
    figures = {"promised": useless.promised, "rate": useless.rate}
    left = useless.wait_s(context.assessment.at, context.settings)
    if left > 0:
        text = (
            f"{brought}, the limit is elsewhere ({_name_cause(useless, context)}); the next try is in {seconds(left)}"
        )
        return stay(context, ReasonCode.INEFFECTIVE, text, **figures)
    if context.state.pending is not None or (trial is not None and context.current > useless.helped):
        return stay(context, ReasonCode.INEFFECTIVE, f"{brought}; whether more help now is being tried", **figures)
    most = min(target, max(context.current + 1, try_again(context.current, share)))
    return _limit(context, target, most, ReasonCode.INEFFECTIVE, f"{brought}; a small increase is tried", **figures)


def _name_cause(useless: Useless, context: Context) -> str:
    """The cause in words; one partition is named, and for it and for stragglers it is said what to do."""
    hot = context.assessment.hot
    if useless.cause is Cause.STRAGGLER:
        return f"{useless.cause}: {FIND_STRAGGLER}"
    return f"{useless.cause}: {hot}; {SPREAD_KEYS}" if useless.cause is Cause.PARTITION and hot else useless.cause.value


def failed_before(target: int, context: Context) -> Change | None:
    """No change like one that was answered by failures, until its back-off is over; then half of it at first."""
    up, at, current = target > context.current, context.assessment.at, context.current
    refused = context.state.refused_up if up else context.state.refused_down
    if refused is None:
        return None
    waits, text = at < refused.until, describe_refused(refused)
    limit = refused.before if waits else refused.halfway
    allowed = max(current, min(target, limit)) if up else min(current, max(target, limit))
    text = f"{text}, the next try is in {seconds(refused.until - at)}" if waits else f"{text}, {limit} is tried first"
    return _limit(context, target, allowed, ReasonCode.FAILED_BEFORE, text, backoff_s=refused.backoff_s)


def excluded_again(target: int, context: Context) -> Change | None:
    """No decrease that counts on all executors, where some are excluded again after excluded ones were replaced.

    So many stay that the target works when as large a share is excluded; where it works now, the excluded ones may go.
    """
    working, there = context.requests.working, context.assessment.executors or 0
    if working is None:
        return None
    most = there if context.assessment.excluded and target <= there else context.current
    allowed = max(target, min(most, math.ceil(target / working[0]) if working[0] else most))
    text = f"executors were excluded again after others had been replaced, at times only {percent(working[0])} work"
    return _limit(context, target, allowed, ReasonCode.EXCLUDED_AGAIN, text, working=working[0])


# Steps on the size: tolerance, alignment, what is of use, and how much at a time.


SPREAD_KEYS = "spread its keys, or set minPartitions so that several tasks read it"
"""Advice where one partition limits the job."""
FIND_STRAGGLER = "look in Spark's page of the stage for the longest task: a slow partition, or records of high cost"
"""Advice where single tasks limit the job."""


def tolerance(target: int, context: Context) -> Change | None:
    """No change so small that it is not worth one."""
    share = abs(target - context.current) / max(1, context.current)
    if share > context.settings.tolerance:
        return None
    text = f"{context.current} → {target} is within the tolerance of {percent(context.settings.tolerance)}"
    return stay(context, ReasonCode.WITHIN_TOLERANCE, text, share=share)


def alignment(target: int, context: Context) -> Change | None:
    """To a number that partitions or waves of tasks fit on, on the same side of the current target."""
    settings, slots = context.settings, context.assessment.slots_per_executor
    mode = settings.align_to
    if mode == "nothing" or target < 1:
        return None
    groups = settings.state_partitions if mode == "state" else tasks_of_batch(context.assessment)
    if not groups or not slots:
        return None
    most = min(int(target * (1 + settings.align_most)), max(target, context.bounds.maximum))
    fit = in_waves if mode == "waves" else spread_evenly
    allowed = fit(context.current, target, groups, slots, most)
    partition = "partition" if groups == context.assessment.partitions else "task"
    spread = several(groups, "state partition" if mode == "state" else partition)
    text = f"{spread} on {several(allowed * slots, 'slot')} are at most {waves(groups, allowed * slots)} on one"
    return _limit(context, target, allowed, ReasonCode.ALIGNED, text)


def useful_executors(target: int, context: Context) -> Change | None:
    """No increase beyond one slot for each task of the largest stage that was seen; never a decrease."""
    assessment, most = context.assessment, context.assessment.useful_executors
    if assessment.behind is not None and target > context.current and _reading_limits(assessment):
        lag = seconds(assessment.lag_s or 0.0)
        text = (
            f"{assessment.behind} is {lag} behind and the others are not: one task reads it, more executors do not help"
        )
        return stay(context, ReasonCode.USELESS_EXECUTORS, f"{text}; {SPREAD_KEYS}")
    change = _stragglers_limit(target, context)
    if most is None or change is not None:
        return change
    of_slots = several(assessment.slots_per_executor, "slot") if assessment.slots_per_executor else "unknown slots"
    tasks = "the largest stage keeps"
    if assessment.tasks is not None:
        tasks = several(assessment.tasks, "task keeps", "tasks keep")
    text = f"{tasks} at most {executors(most)} of {of_slots} busy"
    allowed = max(context.current, min(target, most))
    return _limit(context, target, allowed, ReasonCode.USELESS_EXECUTORS, text, useful=float(most))


def _stragglers_limit(target: int, context: Context) -> Change | None:
    """No increase while single tasks alone take so long that no number of executors carries what arrives."""
    assessment = context.assessment
    straggler_s, batch_s, period_s = assessment.straggler_s, assessment.last_batch_s, assessment.period_s
    done, arriving = assessment.last_batch_records, assessment.arrival_rate
    if target <= context.current or not (straggler_s and batch_s and period_s and done and arriving):
        return None
    if assessment.slow_executors or not is_warm(assessment) or batch_s < period_s:
        return None
    most = done / straggler_s * max(0.0, 1 - (assessment.driver_s or 0.0) / period_s)
    if arriving < most:
        return None
    text = (
        f"for {seconds(straggler_s)} of a batch of {seconds(batch_s)} free slots wait for single tasks, so no number "
        f"of executors carries more than {per_second(most)} of {per_second(arriving)}; {FIND_STRAGGLER}"
    )
    return stay(context, ReasonCode.USELESS_EXECUTORS, text, straggler_s=straggler_s, most=most)


def _reading_limits(assessment: Assessment) -> bool:
    """Whether only tasks that read may limit the job: no stage has more tasks, no other query uses the slots."""
    most, crowded = assessment.partitions or 0, assessment.queries > 1 and (assessment.busy_ratio or 0.0) >= IN_USE
    return not crowded and not any(stage.tasks > most for stage in assessment.stages if stage.share >= COUNTS)


def least_by_partitions(target: int, context: Context) -> Change | None:
    """No decrease to where a slot has more partitions than it may; never an increase."""
    most, partitions = context.settings.most_partitions, context.assessment.partitions
    slots = context.assessment.slots_per_executor
    if most is None:
        return None
    if not partitions or not slots:
        return stay(context, ReasonCode.PARTITIONS_PER_SLOT, "how many partitions a slot would have is unknown")
    least = math.ceil(partitions / (most * slots))
    needs = several(partitions, "partition needs", "partitions need")
    text = f"{needs} {executors(least)} for at most {most:g} a slot"
    allowed = min(context.current, max(target, least))
    return _limit(context, target, allowed, ReasonCode.PARTITIONS_PER_SLOT, text, least=float(least))


_MOST_IN_USE = 0.8


def unmeasured_queries(target: int, context: Context) -> Change | None:
    """No decrease while a query beside the measured ones may soon be known; then none below the slots in use."""
    assessment, wait_s = context.assessment, context.settings.hold_fallback_s
    brief = [each for each in assessment.unmeasured if each.source is None and assessment.at - each.since < wait_s]
    if not assessment.unmeasured:
        return None
    busy, there = assessment.busy_ratio, assessment.executors
    if brief or busy is None or there is None:
        text = f"unknown: {(brief or assessment.unmeasured)[0].why}"
        return stay(context, ReasonCode.QUERY_UNMEASURED, text)
    least = max(1, math.ceil(busy * there / _MOST_IN_USE))
    text = f"{assessment.unmeasured[0].why}; {percent(busy)} of the slots are in use, which need {executors(least)}"
    allowed = min(context.current, max(target, least))
    return _limit(context, target, allowed, ReasonCode.QUERY_UNMEASURED, text, least=float(least))


LARGEST_SHARE = 3
"""A decrease by a third is never too large a step: one at a time, the way down from 500 would take six hours."""


def largest_step(target: int, context: Context) -> Change | None:
    current, up = context.current, target > context.current
    step = context.settings.largest_step_up if up else context.settings.largest_step_down
    if step is not None and not up:
        step = max(step, current // LARGEST_SHARE)
    if step is None or abs(target - current) <= step:
        return None
    allowed = current + (step if up else -step)
    return _limit(context, target, allowed, ReasonCode.LARGEST_STEP, f"at most {step} at a time")


# Steps on when: cooldowns, back-off, and times in which nothing is given back.

_COOLING = "the last change was {since} ago, the cooldown is {limit}"


def scale_down_hold(target: int, context: Context) -> Change | None:
    """A decrease goes no lower than the most that was recommended within the window."""
    window = context.settings.scale_down_hold_s
    if window == 0:
        return None
    begin = context.assessment.at - window
    most = max([each.target for each in context.state.proposed if each.at > begin], default=target)
    text = f"{several(most, 'executor was', 'executors were')} proposed within {seconds(window)}"
    allowed = min(context.current, max(target, most))
    return _limit(context, target, allowed, ReasonCode.SCALE_DOWN_HOLD, text, most=float(most))


def cooldown_up(_target: int, context: Context) -> Change | None:
    """No increase too soon after a change; an increase under way counts from its request on."""
    began, pending = context.state.changed_at, context.state.pending
    if pending is not None and pending.target > pending.before:
        began = pending.at if began is None else max(began, pending.at)
    return _wait(context, ReasonCode.COOLDOWN_UP, began, context.settings.cooldown_up_s, _COOLING)


def cooldown_down(_target: int, context: Context) -> Change | None:
    """No decrease too soon after a change or a failed attempt."""
    began, limit = context.state.down_blocked_at, context.settings.cooldown_down_s
    return _wait(context, ReasonCode.COOLDOWN_DOWN, began, limit, _COOLING)


def round_trip(_target: int, context: Context) -> Change | None:
    """No decrease too soon after an increase."""
    limit = context.settings.round_trip_cooldowns * context.settings.cooldown_down_s
    words = "the last increase was {since} ago, it stands for {limit}"
    return _wait(context, ReasonCode.ROUND_TRIP, context.state.raised_at, limit, words)


def most_round_trips(_target: int, context: Context) -> Change | None:
    """No decrease after too many within an hour that followed an increase, whatever the policy reckons."""
    most = context.settings.most_round_trips
    recent = [at for at in context.state.round_trips if context.assessment.at - at < AN_HOUR_S]
    if most is None or len(recent) < most:
        return None
    text = f"the number has gone up and down again {len(recent)} times within an hour, {most} times are allowed"
    return stay(context, ReasonCode.ROUND_TRIP, text, round_trips=float(len(recent)))


def _wait(context: Context, code: ReasonCode, began: float | None, limit_s: float, words: str) -> Change | None:
    """The hold for so long from a moment on, None: there is none; ``words`` has places for {since} and {limit}."""
    if began is None or context.assessment.at - began >= limit_s:
        return None
    since_s = context.assessment.at - began
    text = words.format(since=seconds(since_s), limit=seconds(limit_s))
    return stay(context, code, text, since_s=since_s, limit_s=limit_s)


def catching_up(_target: int, context: Context) -> Change | None:
    """No decrease while there is more backlog than a healthy job has, or nobody knows."""
    excess = context.assessment.backlog_excess
    if not context.settings.catching_up or excess == 0:
        return None
    text = f"catching up: the backlog exceeds a healthy one by {records(excess)}"
    return stay(context, ReasonCode.CATCHING_UP, text, backlog_excess=excess)


def failover(_target: int, context: Context) -> Change | None:
    """No decrease while a region's traffic is away, nor while it comes back."""
    if context.settings.failover:
        return stay(context, ReasonCode.FAILOVER, "the traffic of a region is away until the switch is off again")
    words = "the failover ended {since} ago, its traffic has {limit} to come back"
    return _wait(context, ReasonCode.FAILOVER, context.state.failover_at, context.settings.failover_return_s, words)


def no_room(_target: int, context: Context) -> Change | None:
    until = context.state.no_room_until
    if until is None or context.assessment.at >= until:
        return None
    left = until - context.assessment.at
    return stay(
        context, ReasonCode.NO_ROOM, f"the last increase was not granted so far, the next try is in {seconds(left)}"
    )


# The limits, and the nodes.


def bounds(target: int, context: Context) -> Change | None:
    """Into the bounds: up also without metrics, unless there was no room; down only on known metrics."""
    allowed = context.bounds.clamp(target)
    if allowed == target:
        return None
    if allowed > context.current and no_room(target, context) is not None:
        return None
    if allowed < context.current and context.blind:
        return None
    limit, code = ("most", ReasonCode.AT_MAX) if allowed < target else ("least", ReasonCode.AT_MIN)
    return _limit(context, target, allowed, code, f"at {limit} {executors(allowed)} allowed")


def quota(target: int, context: Context) -> Change | None:
    """No increase beyond so many cores; never a decrease. An executor whose cores are unknown counts by its slots."""
    cores = context.settings.quota_cores
    if cores is None:
        return None
    most = cores // (context.assessment.cores_per_executor or context.assessment.slots_per_executor or 1)
    text = f"{several(cores, 'core is', 'cores are')} {executors(most)}"
    return _limit(context, target, max(context.current, min(target, most)), ReasonCode.QUOTA, text)


def last_check(target: int, context: Context) -> Change | None:
    """Within the bounds, and no step has turned the direction of the proposal, else hold."""
    current = context.current
    proposed = context.recommended if context.proposed is None else context.proposed
    turned = (proposed - current) * (target - current) < 0
    forced = context.bounds.clamp(current) != current
    if context.bounds.clamp(target) == target and (forced or not turned):
        return None
    return stay(context, ReasonCode.LAST_CHECK, f"{current} → {target} contradicts the bounds or the policy")


def placement(target: int, context: Context) -> Change | None:
    """The nodes, where they are known. An increase for which too few are free becomes a smaller one, or a hold.

    Where executors of the current target are neither there nor on their way, and there is room for no more than these,
    as many of them as there is room for are asked for again.
    """
    assessment, current, nodes = context.assessment, context.current, context.assessment.nodes
    if nodes is None or (target == current and not context.asks_again):
        return None
    choice = _choose_nodes(target, context)
    if target >= current and assessment.excluded_on:
        nodes = _free_excluded(nodes, assessment.excluded_on)
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
    why = no_room_text(nodes, target - room, never_slow=choice.never_slow)
    return Change(current, Reason(ReasonCode.NO_FREE_NODE, f"{current} → {target}: {why}"))


def _free_excluded(nodes: Nodes, excluded_on: Sequence[str]) -> Nodes:
    """The nodes without the executors that leave in an increase, so that others have their places."""
    rows = [(node, min(node.used, excluded_on.count(node.name))) for node in nodes.nodes]
    return replace(nodes, nodes=tuple([NodeReading(each.name, each.used - n, each.free + n) for each, n in rows]))


def _choose_nodes(target: int, context: Context) -> Choice:
    assessment = context.assessment
    leaving = leaving_first(assessment, context.state.replacing) if target < context.current else ()
    left = () if context.left_node is None else (context.left_node,)
    on = dict(zip(assessment.slow_executors, assessment.slow_on, strict=False))
    on |= dict(zip(assessment.excluded, assessment.excluded_on, strict=False))
    return Choice(
        placing=context.placing,
        seed=context.seed,
        slow=frozenset([*assessment.slow_nodes, *assessment.excluded_on, *left]),
        first=(*left, *(on[executor] for executor in leaving if executor in on)),
        never_slow=context.avoids_slow_nodes,
    )


def leaving_first(assessment: Assessment, replacing: Replacing | None) -> tuple[str, ...]:
    """The executors that go first in a decrease: excluded ones, the slow one that has been replaced, other slow ones.

    >>> leaving_first(Assessment(0.0, slow_executors=("3", "7")), Replacing("7", 4))
    ('7', '3')
    """
    slow = [each for each in (*assessment.slow_executors, *assessment.slower) if each not in assessment.excluded]
    replaced = [] if replacing is None or replacing.executor not in slow else [replacing.executor]
    return (*assessment.excluded, *replaced, *(each for each in slow if each not in replaced))


def name_causes(reason: Reason, assessment: Assessment) -> Reason:
    """The reason of a decision, with what costs time appended: failures, garbage collection, data read anew.

    >>> name_causes(Reason(ReasonCode.STEADY, "all is well"), Assessment(0.0, failing=("the query b has failed",))).text
    'all is well; the query b has failed'
    """
    causes = [each for each in assessment.failing if each not in reason.text]
    if tasks_fail(assessment) and "failed" not in reason.text:
        causes.append(f"{several(assessment.failed_tasks or 0, 'task')} failed lately")
    if assessment.lost_executors and "died" not in reason.text:
        causes.append(f"{several(assessment.lost_executors, 'executor')} died")
    figures = reason.figures
    if assessment.gc is not None:
        causes.append(f"{assessment.gc}: give each more memory, or fewer slots")
        figures = {**figures, "gc_share": assessment.gc_share}
    if assessment.reread is not None and assessment.reread not in reason.text:
        causes.append(f"{assessment.reread}: {_CACHE_IT}")
        figures = {**figures, "reread_share": assessment.reread_share}
    reason = replace(reason, text="; ".join([reason.text, *causes]), figures=figures) if causes else reason
    return name_slow(reason, assessment)


def name_slow(reason: Reason, assessment: Assessment) -> Reason:
    """The reason of a decision, with the slow executors or nodes named in it.

    >>> name_slow(Reason(ReasonCode.STEADY, "all is well"), Assessment(0.0, slow=("node b",), slow_factor=3.04)).text
    'all is well; slow: node b (3.0 × the task time of the others)'
    """
    if not assessment.slow:
        return reason
    factor = "" if assessment.slow_factor is None else f" ({assessment.slow_factor:.1f} × the task time of the others)"
    figures = {**reason.figures, "slow_factor": assessment.slow_factor}
    return Reason(reason.code, f"{reason.text}; slow: {', '.join(assessment.slow)}{factor}", figures)


# The proposers

_MOST_DOUBLED = 5
"""How often the wait doubles before excluded executors are replaced once more: to 32 minutes."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that a proposer wants.

    Attributes:
        current: the number that the change starts from; None: the current target.
        node: from which an executor moves.
    """

    target: int
    reason: Reason
    current: int | None = None
    node: str | None = None


def start(context: Context) -> Proposal | None:
    """The number to start from: the last target before a restart, or the registered number, so that it is held."""
    registered, requests = context.assessment.executors, context.requests
    if requests.opened or not context.active or registered is None:
        return None
    before = requests.restored
    if before is not None and before > registered and context.bounds.clamp(before) == before:
        text = f"{executors(before)} asked for before the restart, {registered} registered: asked for again"
        return Proposal(before, Reason(ReasonCode.RESTORED, text, {"restored": float(before)}), registered)
    target = context.bounds.clamp(registered)
    if context.assessment.requested is not None or target < registered:
        return None
    reason = Reason(ReasonCode.START, f"start: {executors(target)} asked for, {registered} registered")
    return Proposal(target, reason, registered)


def replace_lost(context: Context) -> Proposal | None:
    """Ask again for executors that were there and are gone, when the cluster manager has had time to replace them."""
    assessment, requests = context.assessment, context.requests
    requested, registered = assessment.requested, assessment.executors
    if not context.active or requested is None or requests.missing_since is None or requests.reached != requested:
        return None
    gone_s, replaced_at = assessment.at - requests.missing_since, requests.replaced_at
    patience_s = max(60.0, 4 * context.sample_s) * 2 ** min(requests.excluded, _MOST_DOUBLED)
    recently = replaced_at is not None and assessment.at - replaced_at < patience_s
    if context.state.pending is not None or gone_s < max(30.0, 2 * context.sample_s) or recently:
        return None
    text = f"{registered} of {executors(requested)} registered for {gone_s:.0f} s: asked for again"
    if assessment.excluded:
        text = (
            f"for {gone_s:.0f} s only {registered} of {executors(requested)} could work, Spark has excluded "
            f"{first_few(assessment.excluded)} after failures: others are asked for in their place"
        )
    return Proposal(requested, Reason(ReasonCode.REPLACING_LOST, text, {"missing_s": gone_s}), registered)


def take_back(context: Context) -> Proposal | None:
    """Back to the number before a change that was answered by failures, once."""
    state, current = context.state, context.current
    for refused in (state.refused_down, state.refused_up):
        if refused is None or refused.undone or current != refused.after or context.gate is not None:
            continue
        if not refused.up and context.recommended >= refused.before:
            continue
        text = (
            f"{describe_refused(refused)}, not again for {seconds(refused.backoff_s)}: {move(current, refused.before)}"
        )
        reason = Reason(ReasonCode.FAILED_BEFORE, text, {"backoff_s": refused.backoff_s})
        return Proposal(refused.before, reason)
    return None


def undo(context: Context) -> Proposal | None:
    """Take an increase back that brought nothing, once, unless the policy wants fewer still."""
    useless, current = context.state.useless, context.current
    if useless is None or useless.undone or current <= useless.helped or context.gate is not None:
        return None
    if context.recommended < useless.helped:
        return None
    text = (
        f"{useless.before} → {useless.after} promised {per_second(useless.promised)} and brought "
        f"{per_second(useless.rate)} ({_name_cause(useless, context)}): {move(current, useless.helped)}"
    )
    figures = {"promised": useless.promised, "rate": useless.rate}
    return Proposal(useless.helped, Reason(ReasonCode.INEFFECTIVE, text, figures))


def withdraw(context: Context) -> Proposal | None:
    """Lower a request that was not granted in time and stands, once the policy wants no more than what is there."""
    asked, current, state = context.requests.given_up, context.current, context.state
    if asked is None or asked != context.assessment.requested or asked <= current or context.recommended != current:
        return None
    if context.gate is not None or state.pending is not None or context.assessment.backlog_excess != 0:
        return None
    if no_room(asked, context) is not None or context.bounds.clamp(current) != current:
        return None
    text = (
        f"{executors(asked)} asked for did not come, no more than {current} are needed any more: {move(asked, current)}"
    )
    return Proposal(current, Reason(ReasonCode.NO_ROOM, text), asked)


def move_executor(context: Context) -> Proposal | None:
    """From a node that lacks processor time for what was promised to one that has it: one executor leaves, one comes.

    It leaves first [S3, Algorithm 3.3]: as records are dropped, there may be no more executors. Meanwhile nothing else
    changes their number, not even the least that is allowed.
    """
    moving, current = context.state.moving, context.current
    if moving is not None:
        most = min(moving.before, context.bounds.maximum)
        comes = moving.gone and context.state.pending is None and current < most
        text = f"one comes elsewhere: {move(current, most)}" if comes else "one comes elsewhere after it"
        reason = Reason(ReasonCode.NODE_OVERLOADED, f"an executor leaves {moving.node}, {text}")
        return Proposal(most if comes else current, reason, node=moving.node)
    if context.shedding.move is None or not _may_move(context, context.shedding.move[1]):
        return None
    left, to = context.shedding.move
    text = f"{left} has not the time for what was promised, {to} has: {move(current, current - 1)} first"
    return Proposal(current - 1, Reason(ReasonCode.NODE_OVERLOADED, text), node=left)


def _may_move(context: Context, to: str) -> bool:
    """Whether an executor can come on a node, all are there, and the last change is so old that they are warm [4.7]."""
    assessment, current, changed_at = context.assessment, context.current, context.state.changed_at
    has_room = any(node.name == to and node.free > 0 for node in assessment.nodes.nodes) if assessment.nodes else False
    settled = changed_at is None or assessment.at - changed_at >= context.settings.hold_fallback_s
    ready = context.active and context.state.pending is None and not context.blind
    return has_room and settled and ready and assessment.executors == current >= _LEAST_TO_MOVE


_LEAST_TO_MOVE = 2
"""Executors: with one, nothing would run meanwhile."""


def add_for_shed(context: Context) -> Proposal | None:
    """While records are dropped and more executors are allowed: as many as all of them need."""
    share, current = context.shedding.share, context.current
    there = context.shedding.executors or current
    target = context.bounds.clamp(math.ceil(there / share)) if share > 0 else context.bounds.maximum
    if share >= 1.0 or context.blind or context.state.pending is not None or target <= current:
        return None
    text = f"{percent(share)} of the records are kept: {move(current, target)} keep all of them"
    return Proposal(target, Reason(ReasonCode.SHEDDING, text, {"share": share}))


def replace_slow(context: Context) -> Proposal | None:
    """Where nothing else is to be done: one more executor in the place of a slow one, then that one goes.

    None comes while fewer are enough: the slow one is the first that leaves with the decrease.
    """
    slow, current, replacing = context.assessment.slow_executors, context.current, context.state.replacing
    if not slow or not context.settings.replace_slow or context.recommended != current:
        return None
    if context.state.pending is not None or context.gate is not None:
        return None
    if (context.assessment.executors or 0) < current or (replacing is None and context.fewer_do):
        return None
    if replacing is None:
        text = f"one more comes in the place of executor {slow[0]}: {move(current, current + 1)}"
        return Proposal(current + 1, Reason(ReasonCode.SLOW_EXECUTOR, text))
    text = f"executor {replacing.executor} has been replaced and goes: {move(current, current - 1)}"
    return Proposal(current - 1, Reason(ReasonCode.SLOW_EXECUTOR, text))


def follow_policy(context: Context) -> Proposal | None:
    recommendation = context.recommendation
    return None if recommendation is None else Proposal(context.recommended, recommendation.reason)
