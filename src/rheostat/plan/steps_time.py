"""Guard steps on when: holds, cooldowns, back-off, and times in which nothing is given back."""

from __future__ import annotations

from rheostat.model import Code, Reason
from rheostat.plan.steps import Change, Context, move, stay, undoing
from rheostat.plan.words import count, executors, seconds

__all__ = [
    "catching_up",
    "cooldown_down",
    "cooldown_up",
    "failover",
    "no_room",
    "refused",
    "round_trip",
    "scale_down_hold",
]


def scale_down_hold(target: int, context: Context) -> Change | None:
    """A decrease goes no lower than the most that was proposed within the window."""
    window = context.settings.scale_down_hold_s
    if window == 0 or target >= context.current or undoing(target, context):
        return None
    begin = context.seen.at - window
    most = max([each.target for each in context.state.proposed if each.at > begin], default=target)
    allowed = min(context.current, max(target, most))
    if allowed == target:
        return None
    text = (
        f"{executors(most)} were proposed within {seconds(window)}: "
        f"{move(context.current, allowed)} instead of {target}"
    )
    return Change(allowed, Reason(Code.SCALE_DOWN_HOLD, text, {"most": float(most), "wanted": float(target)}))


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
    return stay(context, code, text, since_s=since, limit_s=limit)


def round_trip(target: int, context: Context) -> Change | None:
    """No decrease too soon after an increase."""
    raised, settings = context.state.raised_at, context.settings
    if target >= context.current or raised is None:
        return None
    limit = settings.round_trip_cooldowns * settings.cooldown_down_s
    if context.seen.at - raised >= limit:
        return None
    since = context.seen.at - raised
    text = f"the last increase was {seconds(since)} ago, it stands for {seconds(limit)}"
    return stay(context, Code.ROUND_TRIP, text, since_s=since, limit_s=limit)


def catching_up(target: int, context: Context) -> Change | None:
    """No decrease while there is more backlog than a healthy job has, or nobody knows."""
    if target >= context.current or not context.settings.catching_up or undoing(target, context):
        return None
    excess = context.seen.backlog_excess
    if excess == 0:
        return None
    text = f"catching up: the backlog exceeds a healthy one by {count(excess)} records"
    return stay(context, Code.CATCHING_UP, text, backlog_excess=excess)


def failover(target: int, context: Context) -> Change | None:
    """No decrease while a region's traffic is away, nor while it comes back."""
    if target >= context.current:
        return None
    if context.settings.failover:
        return stay(context, Code.FAILOVER, "the traffic of a region is away until the switch is off again")
    ended, limit = context.state.failover_at, context.settings.failover_return_s
    if ended is None or context.seen.at - ended >= limit:
        return None
    since = context.seen.at - ended
    text = f"the failover ended {seconds(since)} ago, its traffic has {seconds(limit)} to come back"
    return stay(context, Code.FAILOVER, text, since_s=since, limit_s=limit)


def no_room(target: int, context: Context) -> Change | None:
    """No increase for a while after one that was not granted."""
    return refused(context) if target > context.current else None


def refused(context: Context) -> Change | None:
    """The hold of the back-off; None: there is none."""
    until = context.state.no_room_until
    if until is None or context.seen.at >= until:
        return None
    left = until - context.seen.at
    return stay(context, Code.NO_ROOM, f"the last increase was not granted, the next try is in {seconds(left)}")
