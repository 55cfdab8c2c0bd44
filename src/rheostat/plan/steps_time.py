"""Guard steps on when: holds, cooldowns, back-off, and times in which nothing is given back."""

from __future__ import annotations

from rheostat.model import Code, Reason
from rheostat.plan.steps import Change, Context, move, stay, undoing
from rheostat.plan.words import records, seconds, several

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

_COOLING = "the last change was {since} ago, the cooldown is {limit}"


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
        f"{several(most, 'executor was', 'executors were')} proposed within {seconds(window)}: "
        f"{move(context.current, allowed)} instead of {target}"
    )
    return Change(allowed, Reason(Code.SCALE_DOWN_HOLD, text, {"most": float(most), "wanted": float(target)}))


def cooldown_up(target: int, context: Context) -> Change | None:
    """No increase too soon after a change."""
    if target <= context.current:
        return None
    return _since(context, Code.COOLDOWN_UP, context.state.changed_at, context.settings.cooldown_up_s, _COOLING)


def cooldown_down(target: int, context: Context) -> Change | None:
    """No decrease too soon after a change or a failed attempt."""
    if target >= context.current:
        return None
    began, limit = context.state.down_blocked_at, context.settings.cooldown_down_s
    return _since(context, Code.COOLDOWN_DOWN, began, limit, _COOLING)


def _since(context: Context, code: Code, began: float | None, limit_s: float, words: str) -> Change | None:
    """The hold for so long from a moment on, None: there is none; ``words`` has places for {since} and {limit}."""
    if began is None or context.seen.at - began >= limit_s:
        return None
    since_s = context.seen.at - began
    text = words.format(since=seconds(since_s), limit=seconds(limit_s))
    return stay(context, code, text, since_s=since_s, limit_s=limit_s)


def round_trip(target: int, context: Context) -> Change | None:
    """No decrease too soon after an increase."""
    if target >= context.current:
        return None
    limit = context.settings.round_trip_cooldowns * context.settings.cooldown_down_s
    words = "the last increase was {since} ago, it stands for {limit}"
    return _since(context, Code.ROUND_TRIP, context.state.raised_at, limit, words)


def catching_up(target: int, context: Context) -> Change | None:
    """No decrease while there is more backlog than a healthy job has, or nobody knows."""
    if target >= context.current or not context.settings.catching_up or undoing(target, context):
        return None
    excess = context.seen.backlog_excess
    if excess == 0:
        return None
    text = f"catching up: the backlog exceeds a healthy one by {records(excess)}"
    return stay(context, Code.CATCHING_UP, text, backlog_excess=excess)


def failover(target: int, context: Context) -> Change | None:
    """No decrease while a region's traffic is away, nor while it comes back."""
    if target >= context.current:
        return None
    if context.settings.failover:
        return stay(context, Code.FAILOVER, "the traffic of a region is away until the switch is off again")
    words = "the failover ended {since} ago, its traffic has {limit} to come back"
    return _since(context, Code.FAILOVER, context.state.failover_at, context.settings.failover_return_s, words)


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
