"""Guard steps on changes: of the job (failures, warm-up), and of the number of executors, made or still to come."""

from __future__ import annotations

from bisect import bisect_left

from rheostat.model import Code, Reason
from rheostat.plan.rescale_cost import Cost, in_words, lag_after, required_rate
from rheostat.plan.steps import Change, Context, move, stay, undoing
from rheostat.plan.steps_metrics import unknown
from rheostat.plan.words import batches as of_batches
from rheostat.plan.words import carry, count, per_second, records, seconds, several

__all__ = ["hold", "hold_all", "ineffective", "rescale_cost", "rescale_running", "task_failures", "undo", "warm_up"]


def hold_all(_target: int, context: Context) -> Change | None:
    """With ``hold_both``: no change at all in the hold, as in S1."""
    return _holding(context) if context.settings.hold_both else None


def undo(target: int, context: Context) -> Change | None:
    """Take an increase back that brought nothing, once. The steps after it may make it wait."""
    useless = context.state.useless
    if useless is None or not undoing(useless.before, context) or target < useless.before or unknown(context):
        return None
    text = (
        f"{useless.before} → {useless.after} promised {per_second(useless.promised)} and brought "
        f"{per_second(useless.rate)} ({useless.cause}): {move(context.current, useless.before)}"
    )
    figures = {"promised": useless.promised, "rate": useless.rate}
    return Change(useless.before, Reason(Code.INEFFECTIVE, text, figures))


def task_failures(target: int, context: Context) -> Change | None:
    """No decrease after recent task failures."""
    failed, window = context.seen.failed_tasks, context.settings.failure_window_s
    if target >= context.current or not failed or window == 0:
        return None
    text = f"{several(failed, 'task')} failed within {seconds(window)}"
    return stay(context, Code.TASK_FAILURES, text, failed_tasks=float(failed), window_s=window)


def warm_up(target: int, context: Context) -> Change | None:
    """No decrease before the first batches, or the first seconds."""
    if target >= context.current:
        return None
    at, wanted, limit = context.seen.at, context.settings.warm_up_batches, context.settings.warm_up_s
    batches = _batches(context)
    if batches < wanted:
        text = f"{batches} of {of_batches(wanted)} finished at this number"
        return stay(context, Code.WARMING_UP, text, batches=float(batches), wanted=float(wanted))
    ran = at - (at if context.state.started_at is None else context.state.started_at)
    if ran >= limit:
        return None
    return stay(context, Code.WARMING_UP, f"warming up for {seconds(ran)} of {seconds(limit)}", ran_s=ran)


def hold(target: int, context: Context) -> Change | None:
    """No decrease in the hold after a change."""
    return _holding(context) if target < context.current else None


def _holding(context: Context) -> Change | None:
    """Whether the last change is too young to be judged."""
    if context.state.changed_at is None:
        return None
    settings, batches = context.settings, _batches(context)
    since = context.seen.at - context.state.changed_at
    limit = settings.hold_fallback_s if settings.hold_s is None else settings.hold_s
    if since >= limit or (settings.hold_s is None and batches >= settings.hold_batches):
        return None
    waits = f", {batches} of {of_batches(settings.hold_batches)} finished since" if settings.hold_s is None else ""
    text = f"the number changed {seconds(since)} ago{waits}; hold for at most {seconds(limit)}"
    return stay(context, Code.HOLD_AFTER_RESCALE, text, since_s=since, limit_s=limit)


def _batches(context: Context) -> int:
    """Batches that are known to have finished at the number in force; figures of before its change know of none."""
    return 0 if context.state.outdates(context.seen) else context.seen.batches


def rescale_running(target: int, context: Context) -> Change | None:
    """No decrease while a change is executed; with ``hold_both`` no increase either."""
    pending = context.state.pending
    if pending is None or target == context.current:
        return None
    if target > context.current and not context.settings.hold_both:
        return None
    since = context.seen.at - pending.at
    text = f"{pending.before} → {pending.target} has been under way for {seconds(since)}"
    return stay(context, Code.RESCALE_RUNNING, text, since_s=since)


def ineffective(target: int, context: Context) -> Change | None:
    """No increase while one that brought nothing is remembered."""
    useless = context.state.useless
    if useless is None or target <= context.current:
        return None
    left = context.settings.ineffective_s - (context.seen.at - useless.at)
    text = (
        f"{useless.before} → {useless.after} brought {per_second(useless.rate)} of {per_second(useless.promised)}, "
        f"the limit is elsewhere ({useless.cause}); the next try is in {seconds(left)}"
    )
    return stay(context, Code.INEFFECTIVE, text, promised=useless.promised, rate=useless.rate)


def rescale_cost(target: int, context: Context) -> Change | None:
    """What a change itself adds to the lag: more executors at once, or better no change now."""
    current, state = context.current, context.state
    cost = state.cost_up if target > current else state.cost_down
    if cost is None or target == current or context.settings.rescale_catch_up_lags is None or undoing(target, context):
        return None
    arriving, processed, backlog = context.seen.arrival_rate, context.seen.processed_rate, context.seen.backlog
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
    return stay(context, Code.RESCALE_COST, text, lag=lag, threshold=threshold)


def _caught_up(context: Context, cost: Cost, gain: float) -> Change | None:
    """An increase is not made where the job, still inside its objective, will have caught up before it works."""
    excess, takes = context.seen.backlog_excess, cost.delay_s + cost.blocked_s
    if not excess or gain <= 0 or excess / gain > takes:
        return None
    text = f"caught up in {seconds(excess / gain)}, before a change works ({in_words(cost)})"
    return stay(context, Code.RESCALE_COST, text, caught_up_s=excess / gain, takes_s=takes)


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
    return Change(enough, Reason(Code.RESCALE_COST, text, {"required": rate, "wanted": float(target)}))
