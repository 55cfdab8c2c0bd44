"""THE decision: the policy, whatever else may start a change, and the guard, in one function.

:func:`decide` is the only place that sets the target. Two ordered tuples stand side by side in it: :data:`PROPOSERS`
may start a change, :data:`~rheostat.decide.guard.STEPS` may stop or lessen it. :func:`learn` takes in the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rheostat.config.models import GuardSettings, Mode
from rheostat.decide.effectiveness import Cold, Useless, begun, judged, limited_rate, measured, still_useless, watched
from rheostat.decide.guard import STEPS, Shaped, closed_gate, leaving_first, shape, with_slow
from rheostat.decide.placement import Placing
from rheostat.decide.policy import Policy, in_force
from rheostat.decide.state import (
    Context,
    GuardState,
    PastRecommendation,
    Pending,
    Proposal,
    Replacing,
    RequestState,
    State,
    move,
)
from rheostat.errors import Fault, InputError, JournalError
from rheostat.model import (
    Action,
    Assessment,
    Bounds,
    Decision,
    GuardNote,
    Objective,
    Outcome,
    OutcomeStatus,
    Projection,
    Reason,
    ReasonCode,
    Recommendation,
)
from rheostat.text import executors, per_second

_NOT_COUNTED = {
    ReasonCode.NO_QUERY: "active query",
    ReasonCode.METRICS_STALE: "fresh metrics",
    ReasonCode.HOLD_AFTER_RESCALE: "settled job",
}
_REFUSED = frozenset({OutcomeStatus.NO_ROOM, OutcomeStatus.FAILED})
_DONE = frozenset({OutcomeStatus.APPLIED, OutcomeStatus.PARTIAL, OutcomeStatus.RECORDED})
_FEWER_DO = frozenset({ReasonCode.SURPLUS_COUNTING, ReasonCode.STABILIZING, ReasonCode.COOLDOWN_DOWN})
"""Codes of policies that hold a number which they find too large, until a count, a window or a cooldown has ended."""
_MOST_RECOMMENDATIONS = 32


@dataclass(frozen=True)
class DecisionSettings:
    """What decisions depend on beside assessment and state.

    Attributes:
        sample_s: time between two assessments, s; the age of metrics is measured in it.
        seed: of nodes that are taken at random. None: 0.
        mode: with ``watch``, only the policy and the guard start changes: nothing was asked for that could be lost.

    Raises:
        InputError: the policy claims guard steps that no policy may do itself.
    """

    policy: Policy[Any]
    bounds: Bounds
    guard: GuardSettings
    objective: Objective
    sample_s: float
    seed: int | None = None
    mode: Mode = "watch"

    def __post_init__(self) -> None:
        allowed = tuple(step.name for step in STEPS if step.self_manageable)
        wrong = sorted(self.policy.self_managed_steps.difference(allowed))
        if wrong:
            message = f"the policy {self.policy.name} claims guard steps that it may not do itself"
            raise InputError([Fault("policy.self_managed_steps", ", ".join(wrong), " | ".join(allowed), message)])

    @cached_property
    def state_adapter(self) -> TypeAdapter[State[Any]]:
        """Turns the state into JSON and back, with the policy's own state typed."""
        state: Any = State
        return TypeAdapter(state[self.policy.state_type])

    def initial(self) -> State[Any]:
        """The state before anything was seen."""
        return State(self.policy.initial())

    def state_to_json(self, state: State[Any]) -> dict[str, Any]:
        """The state as JSON."""
        data: dict[str, Any] = self.state_adapter.dump_python(state, mode="json")
        return data

    def state_from_json(self, data: Mapping[str, Any]) -> State[Any]:
        """The inverse of :meth:`state_to_json`; also reads the three parts that version 0.1 wrote.

        Raises:
            JournalError: it belongs to another version or another policy.
        """
        try:
            if "plan" in data:
                data = {**data["plan"], "analysis": data["analysis"], "requests": data["own"]}
            return self.state_adapter.validate_python({each.name: data[each.name] for each in fields(State)})
        except (KeyError, ValidationError) as error:
            message = f"the state does not fit this version or the policy {self.policy.name}: {error}"
            raise JournalError(message) from error


def decide(assessment: Assessment, state: State[Any], settings: DecisionSettings) -> tuple[Decision, State[Any]]:
    """Decide how many executors there are to be. A hold is a decision too.

    Each proposer looks at the policy's recommendation; the first one in :data:`PROPOSERS` that wants a change has the
    last word. The steps shape what it wants, but for those that it skips.

    Give every outcome to :func:`learn`, also ``RECORDED`` ones of a dry run. A decision without an outcome counts as
    being executed for ``hold_fallback_s`` seconds, no longer.
    """
    guard = observe(assessment, state.guard, settings.guard)
    requests = _compare_with_request(assessment, state.requests)
    current = _number_in_force(assessment, guard)
    if current is None:
        return _decide_blind(assessment, replace(state, guard=guard, requests=requests), settings)
    context = Context(
        assessment=assessment,
        current=current,
        recommendation=None,
        bounds=settings.bounds,
        settings=settings.guard,
        sample_s=settings.sample_s,
        state=guard,
        objective_s=settings.objective.lag_s,
        requests=requests,
        active=settings.mode != "watch" and not requests.paused and assessment.executors is not None,
        placing=getattr(settings.policy, "placing", Placing.NEAREST),
        seed=((settings.seed or 0) << 32) + state.next_id,
    )
    context = replace(context, gate=closed_gate(context))
    recommendation, context, policy = _ask_policy(context, state.policy, settings)
    proposer, shaped = choose(context, settings.policy.self_managed_steps)
    decision = Decision(
        at=assessment.at,
        decision_id=state.next_id,
        action=_action(proposer, shaped),
        current=shaped.current,
        target=shaped.target,
        reason=with_slow(shaped.reason, assessment),
        recommendation=recommendation,
        notes=shaped.notes,
        projections=_projections(context),
        first=leaving_first(assessment, guard.replacing) if shaped.target < shaped.current else (),
        placement=shaped.placement,
    )
    return decision, State(
        policy=policy,
        guard=_remember(decision, proposer, context),
        next_id=state.next_id + 1,
        requests=_remember_request(decision, context, settings.mode),
        analysis=state.analysis,
    )


# What may start a change.


@dataclass(frozen=True, slots=True)
class Proposer:
    """What may start a change.

    Attributes:
        codes: of the reasons that it gives; empty: whatever the policy says.
        settings: fields of ``GuardSettings`` that it reads.
        propose: a pure function; None: no change is wanted.
        skips: names of steps that do not apply to it.
        asks_again: it asks for executors that were asked for before, from the registered ones on, also where the
            number stays. A decrease, or an increase to a greater number, is made in its place.
        promises: an increase is expected to raise the processed rate, so its effect is judged.
        avoids_slow_nodes: it never takes a slow node.
    """

    name: str
    codes: tuple[ReasonCode, ...]
    settings: tuple[str, ...]
    propose: Callable[[Context], Proposal | None]
    skips: frozenset[str] = frozenset()
    asks_again: bool = False
    promises: bool = False
    avoids_slow_nodes: bool = False


def choose(context: Context, self_managed: frozenset[str] = frozenset()) -> tuple[Proposer, Shaped]:
    """The proposal that is decided on, shaped by the steps.

    Args:
        context: with the policy's recommendation.
        self_managed: names of steps that the policy does itself; they are skipped for every proposer.
    """
    chosen: tuple[Proposer, Shaped] | None = None
    for proposer in reversed(PROPOSERS):
        proposal = proposer.propose(context)
        if proposal is None or (proposer.asks_again and chosen and not _gives_way(chosen[1], proposal.target)):
            continue
        notes: tuple[GuardNote, ...] = ()
        if not proposer.asks_again and proposal.target != context.recommended:
            notes = (GuardNote(proposer.name, context.recommended, proposal.target, proposal.reason),)
        own = replace(context, avoids_slow_nodes=proposer.avoids_slow_nodes, asks_again=proposer.asks_again)
        chosen = proposer, shape(proposal, own, proposer.skips | self_managed, notes)
    if chosen is None:
        message = "the policy proposes nothing: it is asked before"
        raise ValueError(message)
    return chosen


def _gives_way(shaped: Shaped, target: int) -> bool:
    return shaped.target == shaped.current or shaped.current < shaped.target <= target


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
    """What the policy recommends."""
    recommendation = context.recommendation
    return None if recommendation is None else Proposal(context.recommended, recommendation.reason)


_ALL_BUT_PLACEMENT = frozenset(step.name for step in STEPS) - {"placement"}
_NOT_FOR_AN_UNDO = frozenset(
    {
        "rescale_cost",
        "tolerance",
        "alignment",
        "least_by_partitions",
        "largest_step",
        "scale_down_hold",
        "catching_up",
    }
)
_LOST, _SLOW = (ReasonCode.REPLACING_LOST,), (ReasonCode.SLOW_EXECUTOR,)

PROPOSERS: tuple[Proposer, ...] = (
    Proposer("start", (ReasonCode.START, ReasonCode.RESTORED), (), start, skips=_ALL_BUT_PLACEMENT, asks_again=True),
    Proposer("replace_lost", _LOST, (), replace_lost, skips=_ALL_BUT_PLACEMENT, asks_again=True),
    Proposer("undo", (ReasonCode.INEFFECTIVE,), ("ineffective_share", "ineffective_s"), undo, skips=_NOT_FOR_AN_UNDO),
    Proposer("replace_slow", _SLOW, ("replace_slow",), replace_slow, avoids_slow_nodes=True),
    Proposer("policy", (), (), follow_policy, promises=True),
)
"""What may start a change, in order: each goes before those behind it."""


# The parts of a decision.


def _ask_policy(context: Context, policy_state: Any, settings: DecisionSettings) -> tuple[Recommendation, Context, Any]:
    """The recommendation, and the context with it. A sample that must not count is shown as one that is incomplete."""
    shown, gate, policy = context.assessment, context.gate, settings.policy
    if shown.requested != context.current:
        shown = replace(shown, requested=context.current)
    if gate is not None and not (shown.missing or shown.invalid):
        shown = replace(shown, missing=(_NOT_COUNTED.get(gate.code, "metrics age"),))
    recommendation, after = policy.recommend(shown, policy_state)
    context = replace(
        context,
        recommendation=recommendation,
        state=_remember_recommendation(context.assessment.at, recommendation.target, context.state, settings.guard),
        capacity=lambda number: policy.capacity(number, after),
        fewer_do=recommendation.reason.code in _FEWER_DO,
    )
    return recommendation, context, after


def _decide_blind(assessment: Assessment, state: State[Any], settings: DecisionSettings) -> tuple[Decision, State[Any]]:
    """Hold, and let nothing count: the number in force is unknown."""
    missing = assessment.missing or ("executors",)
    recommendation, policy = settings.policy.recommend(replace(assessment, missing=missing), state.policy)
    text = f"unknown: {', '.join(missing)}: the number of executors is left as it is"
    hold = Decision(
        at=assessment.at,
        decision_id=state.next_id,
        action=Action.HOLD,
        current=None,
        target=None,
        reason=Reason(ReasonCode.METRICS_MISSING, text),
        recommendation=replace(recommendation, target=None),
    )
    return hold, replace(state, policy=policy, next_id=state.next_id + 1)


def hold_failed_cycle(at: float, text: str, current: int | None, state: State[Any]) -> tuple[Decision, State[Any]]:
    """The hold of a cycle that did not come to a decision."""
    reason = Reason(ReasonCode.CYCLE_FAILED, text)
    decision = Decision(
        at=at,
        decision_id=state.next_id,
        action=Action.HOLD,
        current=current,
        target=current,
        reason=reason,
        recommendation=Recommendation(target=None, reason=reason),
    )
    return decision, replace(state, next_id=state.next_id + 1)


def _number_in_force(assessment: Assessment, guard: GuardState) -> int | None:
    """The target of the change that is being executed, else what was asked for last; but no less than what is there.

    Figures of before the last change show an older number: then it is the one that the change has led to.

    More than was asked for is there where a cluster had granted it before anybody asked: those executors are in use,
    cost money, and are to be given back one by one as others are.
    """
    if guard.pending is not None:
        return guard.pending.target
    if guard.changed_to is not None and guard.outdates(assessment):
        return guard.changed_to
    asked = in_force(assessment)
    return None if asked is None else max(asked, assessment.executors or 0)


def _action(proposer: Proposer, shaped: Shaped) -> Action:
    if shaped.target == shaped.current:
        return Action.UP if proposer.asks_again and not shaped.notes else Action.HOLD
    return Action.UP if shaped.target > shaped.current else Action.DOWN


def _projections(context: Context) -> tuple[Projection, ...]:
    """Capacity and utilization of one executor less, the number in force, and one more."""
    arrival, current, projections = context.assessment.arrival_rate, context.current, list[Projection]()
    for number in range(max(1, current - 1), current + 2):
        capacity = context.capacity(number) if context.capacity else None
        utilization = None if arrival is None or not capacity else arrival / capacity
        projections.append(Projection(number, capacity, utilization))
    return tuple(projections)


# What is remembered. Pure functions of the state.


def learn(outcome: Outcome, state: State[Any], settings: DecisionSettings) -> State[Any]:
    """What an outcome teaches.

    APPLIED, PARTIAL, RECORDED: the hold and the cooldowns start at ``outcome.at``, and an increase ends the
    back-off. NO_ROOM, and FAILED on the way up: no increases for ``no_room_backoff_s``, doubled each time in a
    row. FAILED on the way down: the cooldown of decreases starts. HELD (nothing was idle): nothing, so the next
    proposal is tried at once. What was granted in part is a change, whatever the status.
    """
    guard, status = state.guard, outcome.status
    if status is OutcomeStatus.APPLIED:
        state = replace(state, requests=replace(state.requests, reached=outcome.target))
    pending = guard.pending if guard.pending and guard.pending.decision_id == outcome.decision_id else None
    before = outcome.before if outcome.before is not None else pending.before if pending else outcome.target
    after = outcome.target if status is OutcomeStatus.RECORDED or outcome.after is None else outcome.after
    if pending is not None:
        guard = replace(guard, pending=None)
    if status in _DONE or (outcome.after is not None and outcome.after != before):
        guard = _remember_change(outcome, before, after, pending, guard, settings.guard)
    if status in _DONE and after > before:
        guard = replace(guard, no_room_until=None, backoff_s=None)
    elif status is OutcomeStatus.NO_ROOM or (status in _REFUSED and outcome.target > before):
        guard = _back_off(outcome.at, guard, settings.guard)
    elif status in _REFUSED:
        guard = replace(guard, down_blocked_at=outcome.at)
    return replace(state, guard=guard)


def _back_off(at: float, guard: GuardState, settings: GuardSettings) -> GuardState:
    first, most = settings.no_room_backoff_s, settings.no_room_backoff_max_s
    backoff = first if guard.backoff_s is None else min(most, 2 * guard.backoff_s)
    return replace(guard, no_room_until=at + backoff, backoff_s=backoff)


def observe(assessment: Assessment, guard: GuardState, settings: GuardSettings) -> GuardState:
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


def _remember_recommendation(at: float, target: int | None, guard: GuardState, settings: GuardSettings) -> GuardState:
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
    if len(kept) == _MOST_RECOMMENDATIONS:
        kept = (kept[0], PastRecommendation(kept[2].at, kept[1].target), *kept[3:])
    return replace(guard, proposed=(*kept, PastRecommendation(at, target)))


def _remember(decision: Decision, proposer: Proposer, context: Context) -> GuardState:
    """The state after a decision: what is executed is pending."""
    guard, assessment = context.state, context.assessment
    if not decision.acts or decision.current is None or decision.target is None:
        return guard
    up = decision.target > decision.current
    judges = up and proposer.promises and decision.current == context.current
    pending = Pending(
        decision_id=decision.decision_id,
        at=decision.at,
        before=decision.current,
        target=decision.target,
        rate=limited_rate(assessment) if judges else None,
    )
    if up and proposer.name == "replace_slow":
        guard = replace(guard, replacing=Replacing(assessment.slow_executors[0], decision.current))
    return replace(guard, pending=pending)


def _compare_with_request(assessment: Assessment, requests: RequestState) -> RequestState:
    """Whether the number that was asked for is there, has been there, or is missing, and since when."""
    if assessment.executors is None or assessment.requested is None:
        return requests
    if assessment.executors >= assessment.requested:
        return replace(requests, reached=assessment.requested, missing_since=None)
    return requests if requests.missing_since is not None else replace(requests, missing_since=assessment.at)


def _remember_request(decision: Decision, context: Context, mode: Mode) -> RequestState:
    requests = context.requests
    if context.active:
        again = decision.reason.code is ReasonCode.REPLACING_LOST
        replaced_at = decision.at if again else requests.replaced_at
        requests = replace(requests, opened=True, replaced_at=replaced_at)
    if mode == "act" and not requests.paused and decision.acts:
        requests = replace(requests, target=decision.target)
    return requests


def _remember_change(
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
