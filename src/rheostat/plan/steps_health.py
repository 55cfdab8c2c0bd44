"""The guard steps on the sink and on slow machines, and the words for these."""

from __future__ import annotations

from rheostat.model import Assessment, Code, Reason
from rheostat.plan.steps import Change, Context, Replacing, move, stay
from rheostat.plan.steps_change import hold_all
from rheostat.plan.steps_metrics import unknown

__all__ = ["FEWER_DO", "leaving", "replace_slow", "sick_sink", "with_slow"]

FEWER_DO = frozenset({Code.SURPLUS_COUNTING, Code.STABILIZING, Code.COOLDOWN_DOWN})
"""Codes of policies that hold a number which they find too large: they count, or wait for a window or a cooldown to
end."""


def sick_sink(target: int, context: Context) -> Change | None:
    """No increase while batches wait for their sink, but advice."""
    why = context.seen.sink
    if target <= context.current or why is None or not context.settings.sick_sink:
        return None
    text = f"the sink is sick: {why}; no executor helps against that, look at what the query writes to"
    return stay(context, Code.SICK_SINK, text, wanted=float(target))


def replace_slow(target: int, context: Context) -> Change | None:
    """Where nothing else is to be done: one more executor in the place of a slow one, then that one goes.

    None comes while fewer are enough: the slow one is the first that leaves with the decrease.
    """
    slow, current, replacing = context.seen.slow_executors, context.current, context.state.replacing
    if target != current or not slow or not context.settings.replace_slow or context.state.pending is not None:
        return None
    if unknown(context) or hold_all(target, context) is not None:
        return None
    if (context.seen.executors or 0) < current or (replacing is None and context.fewer_do):
        return None
    if replacing is None:
        text = f"one more comes in the place of executor {slow[0]}: {move(current, current + 1)}"
        return Change(current + 1, Reason(Code.SLOW_EXECUTOR, text))
    text = f"executor {replacing.executor} has been replaced and goes: {move(current, current - 1)}"
    return Change(current - 1, Reason(Code.SLOW_EXECUTOR, text))


def leaving(seen: Assessment, replacing: Replacing | None) -> tuple[str, ...]:
    """The slow executors in the order in which they go in a decrease: the one that has been replaced before the others.

    >>> leaving(Assessment(0.0, slow_executors=("3", "7")), Replacing("7", 4))
    ('7', '3')
    """
    slow = seen.slow_executors
    if replacing is None or replacing.executor not in slow:
        return slow
    return (replacing.executor, *(each for each in slow if each != replacing.executor))


def with_slow(reason: Reason, seen: Assessment) -> Reason:
    """The reason of a decision, with the slow executors or nodes named in it.

    >>> with_slow(Reason(Code.STEADY, "all is well"), Assessment(0.0, slow=("node b",), slow_factor=3.04)).text
    'all is well; slow: node b (3.0 × the task time of the others)'
    """
    if not seen.slow:
        return reason
    factor = "" if seen.slow_factor is None else f" ({seen.slow_factor:.1f} × the task time of the others)"
    figures = {**reason.figures, "slow_factor": seen.slow_factor}
    return Reason(reason.code, f"{reason.text}; slow: {', '.join(seen.slow)}{factor}", figures)
