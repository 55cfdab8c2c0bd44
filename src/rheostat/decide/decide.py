"""One decision: ask the policy, shape its answer, say why; and what the outcome of a decision teaches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter

from rheostat.config.models import GuardSettings
from rheostat.decide.effectiveness import Cold, Useless, begun, judged, limited_rate, measured, still_useless, watched
from rheostat.decide.guard import FEWER_DO, STEPS, closed_gate, leaving, shape, with_slow
from rheostat.decide.placement import Choice, Placing, full, place
from rheostat.decide.policy import Policy, in_force
from rheostat.decide.state import Context, GuardState, Memory, OwnState, Pending, PlanState, Proposal, Replacing
from rheostat.errors import Fault, InputError
from rheostat.model import (
    Action,
    Assessment,
    Bounds,
    Decision,
    GuardNote,
    Nodes,
    Objective,
    Outcome,
    OutcomeStatus,
    Placement,
    Projection,
    Reason,
    ReasonCode,
    Recommendation,
)
from rheostat.text import executors

_NOT_COUNTED = {
    ReasonCode.NO_QUERY: "active query",
    ReasonCode.METRICS_STALE: "fresh metrics",
    ReasonCode.HOLD_AFTER_RESCALE: "settled job",
}
_REFUSED = frozenset({OutcomeStatus.NO_ROOM, OutcomeStatus.FAILED})
_DONE = frozenset({OutcomeStatus.APPLIED, OutcomeStatus.PARTIAL, OutcomeStatus.RECORDED})


@dataclass(frozen=True)
class Planner:
    """Turns assessments into decisions. Settings only; the state goes in and comes out.

    Give every outcome to :meth:`learn`, also ``RECORDED`` ones of a dry run. A decision without an outcome counts as
    being executed for ``hold_fallback_s`` seconds, no longer.

    Attributes:
        sample_s: time between two assessments, s; the age of metrics is measured in it.
        seed: of what is random in the plan: nodes that are taken at random. None: 0.

    Raises:
        InputError: the policy claims to bring guard steps that no policy may bring.
    """

    policy: Policy[Any]
    bounds: Bounds
    guard: GuardSettings
    objective: Objective
    sample_s: float
    seed: int | None = None

    def __post_init__(self) -> None:
        allowed = tuple(step.name for step in STEPS if step.self_manageable)
        wrong = sorted(self.policy.self_managed_steps.difference(allowed))
        if wrong:
            message = f"the policy {self.policy.name} claims guard steps that it may not bring"
            raise InputError([Fault("policy.self_managed_steps", ", ".join(wrong), " | ".join(allowed), message)])

    @cached_property
    def state_adapter(self) -> TypeAdapter[PlanState[Any]]:
        """Turns the state into JSON and back, with the policy's own state typed."""
        state: Any = PlanState
        return TypeAdapter(state[self.policy.state_type])

    def initial(self) -> PlanState[Any]:
        """The state before anything was seen."""
        return PlanState(self.policy.initial())

    def plan(self, assessment: Assessment, state: PlanState[Any]) -> tuple[Decision, PlanState[Any]]:
        """Decide. A hold is a decision too."""
        guard = found(assessment, state.guard, self.guard)
        current = _in_force(assessment, guard)
        if current is None:
            return self._blind(assessment, replace(state, guard=guard))
        context = self._context(assessment, current, guard)
        proposed, policy = self._ask(context, state.policy)
        guard = proposing(assessment.at, proposed.target, guard, self.guard)
        context = replace(
            context,
            recommended=proposed.target,
            state=guard,
            capacity=lambda number: self.policy.capacity(number, policy),
            fewer_do=proposed.reason.code in FEWER_DO,
        )
        target, reason, notes = shape(proposed, context, self.policy.self_managed_steps)
        decision = Decision(
            at=assessment.at,
            decision_id=state.next_id,
            action=_action(current, target),
            current=current,
            target=target,
            reason=reason,
            recommendation=proposed,
            notes=notes,
            projections=self._projections(current, assessment.arrival_rate, policy),
            first=leaving(assessment, guard.replacing) if target < current else (),
        )
        decision = self.placed(decision, assessment, lost=guard.pending is None and not guard.outdates(assessment))
        decision = replace(decision, reason=with_slow(decision.reason, assessment))
        return decision, PlanState(policy, decided(decision, assessment, guard), state.next_id + 1)

    def placed(self, decision: Decision, assessment: Assessment, *, lost: bool = False) -> Decision:
        """The last step: where executors come and go, if the decision acts and nodes are known.

        The sentence of the placement is added to the reason. An increase for which too few nodes are free becomes a
        smaller one, or a hold, with a note of the step ``placement``; so does one that is to replace a slow executor
        where slow nodes alone are free. A policy chooses how nodes are taken by its attribute ``placing``; without one
        the nearest are. What ``first`` names goes first.

        Args:
            decision: without a placement.
            assessment: the sample.
            lost: whether executors in force that are not there are not on their way either. An increase beyond the
                number in force for which there is no room asks for them again then, as far as there is room.
        """
        target, nodes = decision.target, assessment.nodes
        if nodes is None or target is None or not decision.acts:
            return decision
        placement, text = place(nodes, nodes.in_use, target, self._choice(decision, assessment))
        if target > (decision.current or 0) and len(placement.use) < target:
            return _scarce(decision, assessment, nodes, placement, text, lost=lost)
        if not (placement.add or placement.leave):
            return replace(decision, placement=placement)
        reason = replace(decision.reason, text=f"{decision.reason.text}; {text}")
        return replace(decision, reason=reason, placement=placement)

    def learn(self, outcome: Outcome, state: PlanState[Any]) -> PlanState[Any]:
        """What an outcome teaches.

        APPLIED, PARTIAL, RECORDED: the hold and the cooldowns start at ``outcome.at``, and an increase ends the
        back-off. NO_ROOM, and FAILED on the way up: no increases for ``no_room_backoff_s``, doubled each time in a
        row. FAILED on the way down: the cooldown of decreases starts. HELD (nothing was idle): nothing, so the next
        proposal is tried at once. What was granted in part is a change, whatever the status.
        """
        guard = state.guard
        pending = guard.pending if guard.pending and guard.pending.decision_id == outcome.decision_id else None
        before = outcome.before if outcome.before is not None else pending.before if pending else outcome.target
        if pending is not None:
            guard = replace(guard, pending=None)
        return replace(state, guard=self._taught(outcome, before, pending, guard))

    # ------------------------------------------------------------------------------------------------ plan

    def _choice(self, decision: Decision, assessment: Assessment) -> Choice:
        """How the policy takes nodes, and which are slow."""
        placing: Placing = getattr(self.policy, "placing", Placing.NEAREST)
        on = dict(zip(assessment.slow_executors, assessment.slow_on, strict=False))
        return Choice(
            placing=placing,
            seed=((self.seed or 0) << 32) + decision.decision_id,
            slow=frozenset(assessment.slow_nodes),
            first=tuple(on[executor] for executor in decision.first if executor in on),
            never_slow=decision.reason.code is ReasonCode.SLOW_EXECUTOR,
        )

    def _blind(self, assessment: Assessment, state: PlanState[Any]) -> tuple[Decision, PlanState[Any]]:
        """The number in force is unknown: hold, and nothing counts."""
        missing = assessment.missing or ("executors",)
        proposed, policy = self.policy.recommend(replace(assessment, missing=missing), state.policy)
        code, text = (
            ReasonCode.METRICS_MISSING,
            f"unknown: {', '.join(missing)}: the number of executors is left as it is",
        )
        hold = Decision(
            at=assessment.at,
            decision_id=state.next_id,
            action=Action.HOLD,
            current=None,
            target=None,
            reason=Reason(code, text),
            recommendation=replace(proposed, target=None),
        )
        return hold, replace(state, policy=policy, next_id=state.next_id + 1)

    def _context(self, assessment: Assessment, current: int, guard: GuardState) -> Context:
        """What the guard steps look at, before the policy has answered."""
        return Context(
            assessment=assessment,
            current=current,
            recommended=None,
            bounds=self.bounds,
            settings=self.guard,
            sample_s=self.sample_s,
            state=guard,
            objective_s=self.objective.lag_s,
        )

    def _ask(self, context: Context, policy_state: Any) -> tuple[Recommendation, Any]:
        """The policy's answer. A sample that must not count is given to it as one with something missing."""
        seen, why = context.assessment, closed_gate(context)
        told = seen if seen.requested == context.current else replace(seen, requested=context.current)
        if why is not None and not (seen.missing or seen.invalid):
            told = replace(told, missing=(_NOT_COUNTED.get(why.code, "metrics age"),))
        return self.policy.recommend(told, policy_state)

    def _projections(self, current: int, arrival: float | None, policy_state: Any) -> tuple[Projection, ...]:
        numbers = range(max(1, current - 1), current + 2)
        return tuple(_projection(number, arrival, self.policy.capacity(number, policy_state)) for number in numbers)

    # ----------------------------------------------------------------------------------------------- learn

    def _taught(self, outcome: Outcome, before: int, pending: Pending | None, guard: GuardState) -> GuardState:
        status, at = outcome.status, outcome.at
        after = outcome.target if status is OutcomeStatus.RECORDED or outcome.after is None else outcome.after
        done, refused = status in _DONE, status in _REFUSED
        if done or (outcome.after is not None and outcome.after != before):
            guard = changed(outcome, before, after, pending, guard, self.guard)
        if done and after > before:
            return replace(guard, no_room_until=None, backoff_s=None)
        if status is OutcomeStatus.NO_ROOM or (refused and outcome.target > before):
            return self._backed_off(at, guard)
        return replace(guard, down_blocked_at=at) if refused else guard

    def _backed_off(self, at: float, guard: GuardState) -> GuardState:
        first, most = self.guard.no_room_backoff_s, self.guard.no_room_backoff_max_s
        backoff = first if guard.backoff_s is None else min(most, 2 * guard.backoff_s)
        return replace(guard, no_room_until=at + backoff, backoff_s=backoff)


def _scarce(
    decision: Decision, assessment: Assessment, nodes: Nodes, placement: Placement, text: str, *, lost: bool
) -> Decision:
    """An increase for which too few nodes are free: a smaller one, what was lost asked for again, or a hold."""
    current, target, room = decision.current or 0, decision.target or 0, len(placement.use)
    there = max(assessment.executors or 0, len(nodes.in_use))
    move = f"{current} → {target}"
    if room > current:
        after, why = room, Reason(ReasonCode.NO_FREE_NODE, f"{move}: {text}")
    elif lost and room > there:
        again = f"{move}, but {there} of {executors(current)} registered: asked for again; {text}"
        current, after, why = there, room, Reason(ReasonCode.REPLACING_LOST, again)
    else:
        never_slow = decision.reason.code is ReasonCode.SLOW_EXECUTOR
        words = full(nodes, target - room, never_slow=never_slow)
        after, why = current, Reason(ReasonCode.NO_FREE_NODE, f"{move}: {words}")
    notes = (*decision.notes, GuardNote("placement", target, after, why))
    action = _action(current, after)
    where = None if action is Action.HOLD else placement
    return replace(decision, action=action, current=current, target=after, reason=why, notes=notes, placement=where)


def _in_force(assessment: Assessment, guard: GuardState) -> int | None:
    """The target of the change that is being executed, else what was asked for last; but no less than what is there.

    Figures of before the last change tell an older number: then it is the one that the change has led to.

    More than was asked for is there where a cluster had granted it before anybody asked: those executors are in use,
    cost money, and are to be given back one by one as others are.
    """
    if guard.pending is not None:
        return guard.pending.target
    if guard.changed_to is not None and guard.outdates(assessment):
        return guard.changed_to
    asked = in_force(assessment)
    return None if asked is None else max(asked, assessment.executors or 0)


def _action(current: int, target: int) -> Action:
    if target == current:
        return Action.HOLD
    return Action.UP if target > current else Action.DOWN


def _projection(executors: int, arrival: float | None, capacity: float | None) -> Projection:
    utilization = None if arrival is None or not capacity else arrival / capacity
    return Projection(executors, capacity, utilization)


# What the guard steps remember, from one decision and outcome to the next. Pure functions of the state.


MOST_PROPOSALS = 32

_IN_PLACE = frozenset({ReasonCode.SLOW_EXECUTOR, ReasonCode.REPLACING_LOST})
"""What comes in the place of others promises nothing."""


def found(assessment: Assessment, guard: GuardState, settings: GuardSettings) -> GuardState:
    """The state as this assessment finds it: started, and without a change that nobody answered for."""
    pending = guard.pending
    if pending is not None and assessment.at - pending.at >= settings.hold_fallback_s:
        guard = _unanswered(pending, guard)
    if guard.started_at is None:
        guard = replace(guard, started_at=assessment.at)
    if settings.failover:
        guard = replace(guard, failover_at=assessment.at)
    guard = _judged(assessment, _watched(assessment, guard), settings)
    if guard.replacing is not None and guard.pending is None and _replaced(guard.replacing, assessment):
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


def _replaced(replacing: Replacing, assessment: Assessment) -> bool:
    """Whether it is gone or as fast as the others, or nobody came in its place."""
    there = max(assessment.requested or 0, assessment.executors or 0)
    return replacing.executor not in assessment.slow_executors or there <= replacing.before


def _watched(assessment: Assessment, guard: GuardState) -> GuardState:
    """What the first batches after a change add to its cost."""
    if guard.cold is None:
        return guard
    up = guard.cold.up
    cold, cost = watched(guard.cold, guard.cost_up if up else guard.cost_down, assessment)
    return replace(guard, cold=cold, cost_up=cost) if up else replace(guard, cold=cold, cost_down=cost)


def _judged(assessment: Assessment, guard: GuardState, settings: GuardSettings) -> GuardState:
    """A trial goes on or ends; a useless increase stays known or is forgotten."""
    trial, useless, share = guard.trial, guard.useless, settings.ineffective_share
    if share is None:
        return replace(guard, trial=None, useless=None)
    if useless is not None and guard.pending is None and assessment.executors is not None:
        useless = still_useless(
            useless, assessment, max(assessment.requested or 0, assessment.executors), settings.ineffective_s
        )
    if trial is not None:
        verdict = judged(trial, assessment, share, settings.ineffective_s)
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


def decided(decision: Decision, assessment: Assessment, guard: GuardState) -> GuardState:
    """The state after a decision: what is executed is pending."""
    if not decision.acts or decision.current is None or decision.target is None:
        return guard
    up, code = decision.target > decision.current, decision.reason.code
    rate = limited_rate(assessment) if up and code not in _IN_PLACE else None
    pending = Pending(
        decision_id=decision.decision_id,
        at=decision.at,
        before=decision.current,
        target=decision.target,
        rate=rate,
    )
    if up and code is ReasonCode.SLOW_EXECUTOR:
        guard = replace(guard, replacing=Replacing(assessment.slow_executors[0], decision.current))
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


# The pure middle of a cycle: from an assessment to a decision, the planner's or the loop's own.


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


def decide(assessment: Assessment, memory: Memory, planner: Planner, rules: Rules) -> tuple[Decision, Memory]:
    """The planner's decision, or the loop's own where the planner holds.

    Args:
        assessment: the assessment.
        memory: with the state of the analysis after it, all else as it was before.
        planner: the planner.
        rules: of the loop's own decisions.
    """
    decision, plan = planner.plan(assessment, memory.plan)
    own = _followed(assessment, memory.own)
    active = rules.active and not own.paused
    if active and rules.bounds is not None and assessment.executors is not None:
        asked = _opening(assessment, own, rules.bounds) or _lost(assessment, own, plan, rules)
        if asked is not None and _gives_way(decision, asked[0]):
            decision, plan = _instead(decision, plan, assessment, planner, *asked)
        own = replace(own, opened=True)
        if decision.reason.code is ReasonCode.REPLACING_LOST:
            own = replace(own, replaced_at=assessment.at)
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
    reason = Reason(ReasonCode.CYCLE_FAILED, text)
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


def not_executed(decision: Decision, code: ReasonCode) -> Outcome:
    """The outcome of a decision that is only recorded, because the loop watches or is paused."""
    words = "paused" if code is ReasonCode.PAUSED else "watching only"
    reason = Reason(code, f"{words}: {_number(decision.current)} → {decision.target} was not asked for")
    status = OutcomeStatus.HELD if code is ReasonCode.PAUSED else OutcomeStatus.RECORDED
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


def _followed(assessment: Assessment, own: OwnState) -> OwnState:
    """Whether the number that was asked for is there, has been there, or is missing, and since when."""
    if assessment.executors is None or assessment.requested is None:
        return own
    if assessment.executors >= assessment.requested:
        return replace(own, reached=assessment.requested, missing_since=None)
    return own if own.missing_since is not None else replace(own, missing_since=assessment.at)


def _opening(assessment: Assessment, own: OwnState, bounds: Bounds) -> tuple[int, Reason] | None:
    """The number to start from: the last target before a restart, or the present number, so that it is held."""
    if own.opened or assessment.executors is None:
        return None
    before = own.restored
    if before is not None and before > assessment.executors and bounds.clamp(before) == before:
        text = f"{executors(before)} asked for before the restart, {assessment.executors} registered: asked for again"
        return before, Reason(ReasonCode.RESTORED, text, {"restored": float(before)})
    target = bounds.clamp(assessment.executors)
    if assessment.requested is not None or target < assessment.executors:
        return None
    return target, Reason(ReasonCode.START, f"start: {executors(target)} asked for, {assessment.executors} registered")


def _lost(assessment: Assessment, own: OwnState, plan: PlanState[Any], rules: Rules) -> tuple[int, Reason] | None:
    """Ask again for executors that were there and are gone."""
    if assessment.requested is None or own.missing_since is None or own.reached != assessment.requested:
        return None
    gone_s = assessment.at - own.missing_since
    recently = own.replaced_at is not None and assessment.at - own.replaced_at < rules.again_s
    if plan.guard.pending is not None or gone_s < rules.grace_s or recently:
        return None
    text = f"{assessment.executors} of {executors(assessment.requested)} registered for {gone_s:.0f} s: asked for again"
    return assessment.requested, Reason(ReasonCode.REPLACING_LOST, text, {"missing_s": gone_s})


def _gives_way(decision: Decision, asked: int) -> bool:
    """Whether the planner's decision is a hold, or an increase that asks for no more."""
    return decision.action is Action.HOLD or (decision.action is Action.UP and (decision.target or 0) <= asked)


def _instead(
    hold: Decision, plan: PlanState[Any], assessment: Assessment, planner: Planner, target: int, reason: Reason
) -> tuple[Decision, PlanState[Any]]:
    """The loop's own decision in place of the planner's, and the plan's memory of it."""
    before = assessment.executors or 0
    decision = replace(hold, action=Action.UP, current=before, target=target, reason=reason, notes=(), placement=None)
    decision = planner.placed(decision, assessment)
    if not decision.acts:
        return decision, plan
    pending = Pending(decision.decision_id, decision.at, before, decision.target or target)
    return decision, replace(plan, guard=replace(plan.guard, pending=pending))


def _number(value: int | None) -> str:
    return "an unknown number" if value is None else str(value)
