"""The proposers: pure functions that may start a change. None: no change is wanted.

Their order is :data:`rheostat.decide.decide.PROPOSERS`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rheostat.decide.guard import Context, move
from rheostat.model import Reason, ReasonCode
from rheostat.text import executors, per_second


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that a proposer wants.

    Attributes:
        current: the number that the change starts from; None: the current target.
    """

    target: int
    reason: Reason
    current: int | None = None


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
    recently = replaced_at is not None and assessment.at - replaced_at < max(60.0, 4 * context.sample_s)
    if context.state.pending is not None or gone_s < max(30.0, 2 * context.sample_s) or recently:
        return None
    text = f"{registered} of {executors(requested)} registered for {gone_s:.0f} s: asked for again"
    return Proposal(requested, Reason(ReasonCode.REPLACING_LOST, text, {"missing_s": gone_s}), registered)


def undo(context: Context) -> Proposal | None:
    """Take an increase back that brought nothing, once, unless the policy wants fewer still."""
    useless, current = context.state.useless, context.current
    if useless is None or useless.undone or current != useless.after or context.gate is not None:
        return None
    if context.recommended < useless.before:
        return None
    text = (
        f"{useless.before} → {useless.after} promised {per_second(useless.promised)} and brought "
        f"{per_second(useless.rate)} ({useless.cause}): {move(current, useless.before)}"
    )
    figures = {"promised": useless.promised, "rate": useless.rate}
    return Proposal(useless.before, Reason(ReasonCode.INEFFECTIVE, text, figures))


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
