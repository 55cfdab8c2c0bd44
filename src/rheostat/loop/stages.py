"""The pure middle of a cycle: from an assessment to a decision, the planner's or the loop's own.

The loop decides by itself only where the planner holds: at the start, after a restart, and when executors that were
there are gone. None of its decisions lowers the number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rheostat.loop.memory import Memory, OwnState
from rheostat.model import (
    Action,
    Assessment,
    Bounds,
    Code,
    Decision,
    Outcome,
    OutcomeStatus,
    Reason,
    Recommendation,
)
from rheostat.plan import Pending, Planner, PlanState
from rheostat.plan.words import executors

__all__ = ["Rules", "decide", "failed", "learn", "not_executed"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What the loop's own decisions are made by.

    Attributes:
        bounds: of the executors; None: nothing is ever asked for.
        active: whether decisions go to the actuator (not watching).
        executes: whether that one changes anything (no dry run).
        grace_s: how long executors may be missing: the cluster manager replaces them by itself.
        again_s: least time between two requests for lost ones.
    """

    bounds: Bounds | None
    active: bool
    executes: bool
    grace_s: float
    again_s: float

    @classmethod
    def of(cls, bounds: Bounds | None, mode: str, sample_s: float) -> Rules:
        """The rules for a job."""
        return cls(
            bounds=bounds,
            active=mode != "watch",
            executes=mode == "act",
            grace_s=max(30.0, 2 * sample_s),
            again_s=max(60.0, 4 * sample_s),
        )


def decide(seen: Assessment, memory: Memory, planner: Planner, rules: Rules) -> tuple[Decision, Memory]:
    """The planner's decision, or the loop's own where the planner holds.

    Args:
        seen: the assessment.
        memory: with the state of the analysis after it, all else as it was before.
        planner: the planner.
        rules: of the loop's own decisions.
    """
    decision, plan = planner.plan(seen, memory.plan)
    own = _followed(seen, memory.own)
    active = rules.active and not own.paused
    if active and rules.bounds is not None and seen.executors is not None:
        asked = _opening(seen, own, rules.bounds) or _lost(seen, own, plan, rules)
        if asked is not None and _gives_way(decision, asked[0]):
            decision, plan = _instead(decision, plan, seen, planner, *asked)
        own = replace(own, opened=True)
        if decision.reason.code is Code.REPLACING_LOST:
            own = replace(own, replaced_at=seen.at)
    if rules.executes and not own.paused and decision.acts:
        own = replace(own, target=decision.target)
    return decision, replace(memory, plan=plan, own=own)


def learn(outcome: Outcome, memory: Memory, planner: Planner) -> Memory:
    """What an outcome teaches: also that a number was there, if only between two looks."""
    plan = planner.learn(outcome, memory.plan)
    if outcome.status is not OutcomeStatus.APPLIED:
        return replace(memory, plan=plan)
    return replace(memory, plan=plan, own=replace(memory.own, reached=outcome.target))


def failed(at: float, text: str, current: int | None, memory: Memory) -> tuple[Decision, Memory]:
    """The hold of a cycle that did not come to a decision."""
    reason = Reason(Code.CYCLE_FAILED, text)
    number = memory.plan.next_id
    decision = Decision(
        at=at,
        decision_id=number,
        action=Action.HOLD,
        current=current,
        target=current,
        reason=reason,
        recommendation=Recommendation(target=None, reason=reason),
    )
    return decision, replace(memory, plan=replace(memory.plan, next_id=number + 1))


def not_executed(decision: Decision, code: Code) -> Outcome:
    """The outcome of a decision that is only recorded, because the loop watches or is paused."""
    words = "paused" if code is Code.PAUSED else "watching only"
    reason = Reason(code, f"{words}: {_number(decision.current)} → {decision.target} was not asked for")
    status = OutcomeStatus.HELD if code is Code.PAUSED else OutcomeStatus.RECORDED
    return Outcome(
        at=decision.at,
        decision_id=decision.decision_id,
        status=status,
        reason=reason,
        target=decision.target or 0,
        before=decision.current,
        after=decision.current,
        took_s=0.0,
    )


def _followed(seen: Assessment, own: OwnState) -> OwnState:
    """Whether the number that was asked for is there, has been there, or is missing, and since when."""
    if seen.executors is None or seen.requested is None:
        return own
    if seen.executors >= seen.requested:
        return replace(own, reached=seen.requested, missing_since=None)
    return own if own.missing_since is not None else replace(own, missing_since=seen.at)


def _opening(seen: Assessment, own: OwnState, bounds: Bounds) -> tuple[int, Reason] | None:
    """The number to start from: the last target before a restart, or the present number, so that it is held."""
    if own.opened or seen.executors is None:
        return None
    before = own.restored
    if before is not None and before > seen.executors and bounds.clamp(before) == before:
        text = f"{executors(before)} asked for before the restart, {seen.executors} registered: asked for again"
        return before, Reason(Code.RESTORED, text, {"restored": float(before)})
    target = bounds.clamp(seen.executors)
    if seen.requested is not None or target < seen.executors:
        return None
    return target, Reason(Code.START, f"start: {executors(target)} asked for, {seen.executors} registered")


def _lost(seen: Assessment, own: OwnState, plan: PlanState[Any], rules: Rules) -> tuple[int, Reason] | None:
    """Ask again for executors that were there and are gone."""
    if seen.requested is None or own.missing_since is None or own.reached != seen.requested:
        return None
    gone_s = seen.at - own.missing_since
    recently = own.replaced_at is not None and seen.at - own.replaced_at < rules.again_s
    if plan.guard.pending is not None or gone_s < rules.grace_s or recently:
        return None
    text = f"{seen.executors} of {executors(seen.requested)} registered for {gone_s:.0f} s: asked for again"
    return seen.requested, Reason(Code.REPLACING_LOST, text, {"missing_s": gone_s})


def _gives_way(decision: Decision, asked: int) -> bool:
    """Whether the planner's decision is a hold, or an increase that asks for no more."""
    return decision.action is Action.HOLD or (decision.action is Action.UP and (decision.target or 0) <= asked)


def _instead(
    hold: Decision, plan: PlanState[Any], seen: Assessment, planner: Planner, target: int, reason: Reason
) -> tuple[Decision, PlanState[Any]]:
    """The loop's own decision in place of the planner's, and the plan's memory of it."""
    before = seen.executors or 0
    decision = replace(hold, action=Action.UP, current=before, target=target, reason=reason, notes=(), placement=None)
    decision = planner.placed(decision, seen)
    if not decision.acts:
        return decision, plan
    pending = Pending(decision.decision_id, decision.at, before, decision.target or target)
    return decision, replace(plan, guard=replace(plan.guard, pending=pending))


def _number(value: int | None) -> str:
    return "an unknown number" if value is None else str(value)
