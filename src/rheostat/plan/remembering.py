"""What the guard steps remember, from one decision and outcome to the next. Pure functions of the state."""

from __future__ import annotations

from dataclasses import replace

from rheostat.config import GuardSettings
from rheostat.model import Assessment, Code, Decision, Outcome, OutcomeStatus
from rheostat.plan.ineffective import Useless, begun, judged, limited_rate, still_useless
from rheostat.plan.rescale_cost import Cold, measured, watched
from rheostat.plan.steps import GuardState, Pending, Proposal, Replacing

__all__ = ["MOST_PROPOSALS", "changed", "decided", "found", "proposing"]

MOST_PROPOSALS = 32

_IN_PLACE = frozenset({Code.SLOW_EXECUTOR, Code.REPLACING_LOST})
"""What comes in the place of others promises nothing."""


def found(seen: Assessment, guard: GuardState, settings: GuardSettings) -> GuardState:
    """The state as this assessment finds it: started, and without a change that nobody answered for."""
    pending = guard.pending
    if pending is not None and seen.at - pending.at >= settings.hold_fallback_s:
        guard = _unanswered(pending, guard)
    if guard.started_at is None:
        guard = replace(guard, started_at=seen.at)
    if settings.failover:
        guard = replace(guard, failover_at=seen.at)
    guard = _judged(seen, _watched(seen, guard), settings)
    if guard.replacing is not None and guard.pending is None and _replaced(guard.replacing, seen):
        guard = replace(guard, replacing=None)
    return guard


def _unanswered(pending: Pending, guard: GuardState) -> GuardState:
    """The state without a change whose outcome did not come; an increase may have been made all the same."""
    if pending.target <= pending.before:
        return replace(guard, pending=None, changed_to=None)
    return replace(
        guard,
        pending=None,
        raised_at=_later(pending.at, guard.raised_at),
        down_blocked_at=_later(pending.at, guard.down_blocked_at),
    )


def _later(at: float, other: float | None) -> float:
    return at if other is None else max(at, other)


def _replaced(replacing: Replacing, seen: Assessment) -> bool:
    """Whether it is gone or as fast as the others, or nobody came in its place."""
    there = max(seen.requested or 0, seen.executors or 0)
    return replacing.executor not in seen.slow_executors or there <= replacing.before


def _watched(seen: Assessment, guard: GuardState) -> GuardState:
    """What the first batches after a change add to its cost."""
    if guard.cold is None:
        return guard
    up = guard.cold.up
    cold, cost = watched(guard.cold, guard.cost_up if up else guard.cost_down, seen)
    return replace(guard, cold=cold, cost_up=cost) if up else replace(guard, cold=cold, cost_down=cost)


def _judged(seen: Assessment, guard: GuardState, settings: GuardSettings) -> GuardState:
    """A trial goes on or ends; a useless increase stays known or is forgotten."""
    trial, useless, share = guard.trial, guard.useless, settings.ineffective_share
    if share is None:
        return replace(guard, trial=None, useless=None)
    if useless is not None and guard.pending is None and seen.executors is not None:
        useless = still_useless(useless, seen, max(seen.requested or 0, seen.executors), settings.ineffective_s)
    if trial is not None:
        verdict = judged(trial, seen, share, settings.ineffective_s)
        trial = None if isinstance(verdict, Useless) else verdict
        useless = verdict if isinstance(verdict, Useless) else useless
    return replace(guard, trial=trial, useless=useless)


def proposing(at: float, target: int | None, guard: GuardState, settings: GuardSettings) -> GuardState:
    """The state with one more proposal, if the window of decreases is looked at.

    Of the proposals only those are kept that a later one does not surpass, the oldest and greatest first. Where there
    are too many, the second and the third become one, with the greater number and the later time.
    """
    if settings.scale_down_hold_s == 0:
        return replace(guard, proposed=())
    if target is None:
        return guard
    begin = at - settings.scale_down_hold_s
    kept = tuple(each for each in guard.proposed if each.at > begin and each.target > target)
    if len(kept) == MOST_PROPOSALS:
        kept = (kept[0], Proposal(kept[2].at, kept[1].target), *kept[3:])
    return replace(guard, proposed=(*kept, Proposal(at, target)))


def decided(decision: Decision, seen: Assessment, guard: GuardState) -> GuardState:
    """The state after a decision: what is executed is pending."""
    if not decision.acts or decision.current is None or decision.target is None:
        return guard
    up, code = decision.target > decision.current, decision.reason.code
    rate = limited_rate(seen) if up and code not in _IN_PLACE else None
    pending = Pending(
        decision_id=decision.decision_id,
        at=decision.at,
        before=decision.current,
        target=decision.target,
        rate=rate,
    )
    if up and code is Code.SLOW_EXECUTOR:
        guard = replace(guard, replacing=Replacing(seen.slow_executors[0], decision.current))
    return replace(guard, pending=pending)


def changed(
    outcome: Outcome, before: int, after: int, pending: Pending | None, guard: GuardState, settings: GuardSettings
) -> GuardState:
    """The state after the number has changed from ``before`` to ``after``, or might have (``RECORDED``)."""
    at, up, trial = outcome.at, after > before, guard.trial
    raised = up and (guard.changed_to is None or after > guard.changed_to)
    guard = replace(guard, changed_at=at, down_blocked_at=at, raised_at=at if raised else guard.raised_at, trial=None)
    if outcome.status is OutcomeStatus.RECORDED:
        return replace(guard, changed_to=None)
    guard = replace(guard, changed_to=after)
    if after == before:
        return guard
    useless = guard.useless
    if useless is not None and after <= useless.before:
        guard = replace(guard, useless=useless._replace(undone=True))
    if settings.rescale_catch_up_lags is not None:
        cost = measured(guard.cost_up if up else guard.cost_down, outcome)
        cold = None if cost is None else Cold(up)
        guard = replace(guard, cost_up=cost, cold=cold) if up else replace(guard, cost_down=cost, cold=cold)
    if up and guard.replacing is not None and guard.replacing.before == before:
        return guard
    if up and trial is not None and trial.after == before:
        return replace(guard, trial=begun(trial.before, after, at, trial.rate, settings.ineffective_share))
    if up and pending is not None and pending.before == before:
        return replace(guard, trial=begun(before, after, at, pending.rate, settings.ineffective_share))
    return guard
