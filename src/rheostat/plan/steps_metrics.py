"""Guard steps on what is known: nothing is decided on figures that are missing, impossible or old."""

from __future__ import annotations

from rheostat.model import Code
from rheostat.plan.steps import Change, Context, stay
from rheostat.plan.words import seconds

__all__ = ["invalid", "missing", "no_query", "stale", "unknown"]


def no_query(_target: int, context: Context) -> Change | None:
    """Hold where nothing streams."""
    if context.seen.queries > 0:
        return None
    return stay(context, Code.NO_QUERY, "no streaming query is active")


def missing(_target: int, context: Context) -> Change | None:
    """Hold where a needed figure is unknown."""
    if not context.seen.missing:
        return None
    return stay(context, Code.METRICS_MISSING, f"unknown: {', '.join(context.seen.missing)}")


def invalid(_target: int, context: Context) -> Change | None:
    """Hold where a figure is impossible."""
    if not context.seen.invalid:
        return None
    return stay(context, Code.METRICS_INVALID, f"impossible figures: {', '.join(context.seen.invalid)}")


def stale(_target: int, context: Context) -> Change | None:
    """Hold on figures of the past. An increase that they justified was made when they were fresh."""
    settings = context.settings
    age, limit = context.seen.metrics_age_s, settings.metrics_delay_s + settings.max_age_cycles * context.sample_s
    if age is None:
        return stay(context, Code.METRICS_MISSING, "the age of the metrics is unknown")
    if age <= limit:
        return None
    text = f"the metrics are {seconds(age)} old, at most {seconds(limit)} are allowed"
    return stay(context, Code.METRICS_STALE, text, metrics_age_s=age, limit_s=limit)


def unknown(context: Context) -> bool:
    """Whether one of them holds."""
    return any(step(context.current, context) is not None for step in (no_query, missing, invalid, stale))
