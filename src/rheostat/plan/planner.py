"""One decision: ask the policy, shape its answer, say why; and what the outcome of a decision teaches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from rheostat.config import GuardSettings
from rheostat.errors import Fault, InputError
from rheostat.model import (
    Action,
    Assessment,
    Bounds,
    Code,
    Decision,
    GuardNote,
    Nodes,
    Objective,
    Outcome,
    OutcomeStatus,
    Placement,
    Projection,
    Reason,
    Recommendation,
)
from rheostat.plan.guard import STEPS, shape, spoilt
from rheostat.plan.placement import Choice, Placing, full, place
from rheostat.plan.policy import Policy, in_force
from rheostat.plan.remembering import changed, decided, found, proposing
from rheostat.plan.steps import Context, GuardState, Pending
from rheostat.plan.steps_health import FEWER_DO, leaving, with_slow
from rheostat.plan.words import executors

__all__ = ["PlanState", "Planner"]

S = TypeVar("S")

_NOT_COUNTED = {
    Code.NO_QUERY: "active query",
    Code.METRICS_STALE: "fresh metrics",
    Code.HOLD_AFTER_RESCALE: "settled job",
}
_REFUSED = frozenset({OutcomeStatus.NO_ROOM, OutcomeStatus.FAILED})
_DONE = frozenset({OutcomeStatus.APPLIED, OutcomeStatus.PARTIAL, OutcomeStatus.RECORDED})


@dataclass(frozen=True, slots=True)
class PlanState(Generic[S]):
    """What is remembered from one decision to the next. JSON by :attr:`Planner.state_adapter`.

    Attributes:
        policy: the policy's own state.
        guard: the guard pipeline's.
        next_id: number of the next decision.
    """

    policy: S
    guard: GuardState = field(default_factory=GuardState)
    next_id: int = 1


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
        allowed = tuple(step.name for step in STEPS if step.may_be_brought)
        wrong = sorted(self.policy.brings.difference(allowed))
        if wrong:
            message = f"the policy {self.policy.name} claims guard steps that it may not bring"
            raise InputError([Fault("policy.brings", ", ".join(wrong), " | ".join(allowed), message)])

    @cached_property
    def state_adapter(self) -> TypeAdapter[PlanState[Any]]:
        """Turns the state into JSON and back, with the policy's own state typed."""
        state: Any = PlanState
        return TypeAdapter(state[self.policy.state_type])

    def initial(self) -> PlanState[Any]:
        """The state before anything was seen."""
        return PlanState(self.policy.initial())

    def plan(self, seen: Assessment, state: PlanState[Any]) -> tuple[Decision, PlanState[Any]]:
        """Decide. A hold is a decision too."""
        guard = found(seen, state.guard, self.guard)
        current = _in_force(seen, guard)
        if current is None:
            return self._blind(seen, replace(state, guard=guard))
        context = self._context(seen, current, guard)
        proposed, policy = self._ask(context, state.policy)
        guard = proposing(seen.at, proposed.target, guard, self.guard)
        context = replace(
            context,
            recommended=proposed.target,
            state=guard,
            capacity=lambda number: self.policy.capacity(number, policy),
            fewer_do=proposed.reason.code in FEWER_DO,
        )
        target, reason, notes = shape(proposed, context, self.policy.brings)
        decision = Decision(
            at=seen.at,
            decision_id=state.next_id,
            action=_action(current, target),
            current=current,
            target=target,
            reason=reason,
            recommendation=proposed,
            notes=notes,
            projections=self._projections(current, seen.arrival_rate, policy),
            first=leaving(seen, guard.replacing) if target < current else (),
        )
        decision = self.placed(decision, seen, lost=guard.pending is None and not guard.outdates(seen))
        decision = replace(decision, reason=with_slow(decision.reason, seen))
        return decision, PlanState(policy, decided(decision, seen, guard), state.next_id + 1)

    def placed(self, decision: Decision, seen: Assessment, *, lost: bool = False) -> Decision:
        """The last step: where executors come and go, if the decision acts and nodes are known.

        The sentence of the placement is added to the reason. An increase for which too few nodes are free becomes a
        smaller one, or a hold, with a note of the step ``placement``; so does one that is to replace a slow executor
        where slow nodes alone are free. A policy chooses how nodes are taken by its attribute ``placing``; without one
        the nearest are. What ``first`` names goes first.

        Args:
            decision: without a placement.
            seen: the sample.
            lost: whether executors in force that are not there are not on their way either. An increase beyond the
                number in force for which there is no room asks for them again then, as far as there is room.
        """
        target, nodes = decision.target, seen.nodes
        if nodes is None or target is None or not decision.acts:
            return decision
        placement, text = place(nodes, nodes.in_use, target, self._choice(decision, seen))
        if target > (decision.current or 0) and len(placement.use) < target:
            return _scarce(decision, seen, nodes, placement, text, lost=lost)
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

    def _choice(self, decision: Decision, seen: Assessment) -> Choice:
        """How the policy takes nodes, and which are slow."""
        placing: Placing = getattr(self.policy, "placing", Placing.NEAREST)
        on = dict(zip(seen.slow_executors, seen.slow_on, strict=False))
        return Choice(
            placing=placing,
            seed=((self.seed or 0) << 32) + decision.decision_id,
            slow=frozenset(seen.slow_nodes),
            first=tuple(on[executor] for executor in decision.first if executor in on),
            never_slow=decision.reason.code is Code.SLOW_EXECUTOR,
        )

    def _blind(self, seen: Assessment, state: PlanState[Any]) -> tuple[Decision, PlanState[Any]]:
        """The number in force is unknown: hold, and nothing counts."""
        missing = seen.missing or ("executors",)
        proposed, policy = self.policy.recommend(replace(seen, missing=missing), state.policy)
        code, text = Code.METRICS_MISSING, f"unknown: {', '.join(missing)}: the number of executors is left as it is"
        hold = Decision(
            at=seen.at,
            decision_id=state.next_id,
            action=Action.HOLD,
            current=None,
            target=None,
            reason=Reason(code, text),
            recommendation=replace(proposed, target=None),
        )
        return hold, replace(state, policy=policy, next_id=state.next_id + 1)

    def _context(self, seen: Assessment, current: int, guard: GuardState) -> Context:
        """What the guard steps look at, before the policy has answered."""
        return Context(
            seen=seen,
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
        seen, why = context.seen, spoilt(context)
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
    decision: Decision, seen: Assessment, nodes: Nodes, placement: Placement, text: str, *, lost: bool
) -> Decision:
    """An increase for which too few nodes are free: a smaller one, what was lost asked for again, or a hold."""
    current, target, room = decision.current or 0, decision.target or 0, len(placement.use)
    there = max(seen.executors or 0, len(nodes.in_use))
    move = f"{current} → {target}"
    if room > current:
        after, why = room, Reason(Code.NO_FREE_NODE, f"{move}: {text}")
    elif lost and room > there:
        again = f"{move}, but {there} of {executors(current)} registered: asked for again; {text}"
        current, after, why = there, room, Reason(Code.REPLACING_LOST, again)
    else:
        never_slow = decision.reason.code is Code.SLOW_EXECUTOR
        words = full(nodes, target - room, never_slow=never_slow)
        after, why = current, Reason(Code.NO_FREE_NODE, f"{move}: {words}")
    notes = (*decision.notes, GuardNote("placement", target, after, why))
    action = _action(current, after)
    where = None if action is Action.HOLD else placement
    return replace(decision, action=action, current=current, target=after, reason=why, notes=notes, placement=where)


def _in_force(seen: Assessment, guard: GuardState) -> int | None:
    """The target of the change that is being executed, else what was asked for last; but no less than what is there.

    Figures of before the last change tell an older number: then it is the one that the change has led to.

    More than was asked for is there where a cluster had granted it before anybody asked: those executors are in use,
    cost money, and are to be given back one by one as others are.
    """
    if guard.pending is not None:
        return guard.pending.target
    if guard.changed_to is not None and guard.outdates(seen):
        return guard.changed_to
    asked = in_force(seen)
    return None if asked is None else max(asked, seen.executors or 0)


def _action(current: int, target: int) -> Action:
    if target == current:
        return Action.HOLD
    return Action.UP if target > current else Action.DOWN


def _projection(executors: int, arrival: float | None, capacity: float | None) -> Projection:
    utilization = None if arrival is None or not capacity else arrival / capacity
    return Projection(executors, capacity, utilization)
