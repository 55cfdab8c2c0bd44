"""THE decision: :func:`decide` is the only place that sets the target, and :func:`learn` takes in what became of it.

Two ordered tuples stand side by side: what is in :data:`PROPOSERS` may start a change, what is in :data:`STEPS` may
stop or lessen it. docs/guard.md describes both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache, cached_property
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rheostat.config.faults import describe
from rheostat.config.models import GuardSettings, Mode
from rheostat.config.shedding import SheddingGraph
from rheostat.decide import guard
from rheostat.decide.accuracy import Measure, measures_of
from rheostat.decide.effectiveness import settled_rate
from rheostat.decide.guard import Change, Context, Proposal, leaving_first, name_causes
from rheostat.decide.placement import Placing
from rheostat.decide.policy import Policy, current_target
from rheostat.decide.shedding import WARM, SheddingState, plan_shedding
from rheostat.decide.state import (
    AN_HOUR_S,
    GuardState,
    Moving,
    Pending,
    Replacing,
    RequestState,
    State,
    compare_with_request,
    learn_outcome,
    note_late_grant,
    observe,
    remember_recommendation,
)
from rheostat.errors import Fault, InputError, JournalError
from rheostat.model import (
    Action,
    Answer,
    Assessment,
    Bounds,
    Decision,
    GuardNote,
    Objective,
    Outcome,
    OutcomeStatus,
    Placement,
    Projection,
    Reason,
    ReasonCode,
    Recommendation,
    SheddingPlan,
)


def decide(assessment: Assessment, state: State[Any], settings: DecisionSettings) -> tuple[Decision, State[Any]]:
    """Decide how many executors there are to be. A hold is a decision too.

    The policy recommends a number. The first proposer in :data:`PROPOSERS` that wants a change decides what is
    proposed, and the steps shape it, but for those that it skips.

    Give every outcome to :func:`learn`, also ``RECORDED`` ones of a dry run. A decision without an outcome counts as
    being executed for ``hold_fallback_s`` seconds, no longer.
    """
    remembered = observe(assessment, state.guard, settings.guard, settings.bounds.maximum)
    requests = compare_with_request(assessment, state.requests)
    remembered = note_late_grant(assessment, remembered, state.requests, requests)
    current = _find_current(assessment, remembered, requests)
    if current is None:
        return _decide_blind(assessment, replace(state, guard=remembered, requests=requests), settings)
    context = Context(
        assessment=assessment,
        current=current,
        recommendation=None,
        bounds=settings.bounds,
        settings=settings.guard,
        sample_s=settings.sample_s,
        state=remembered,
        objective_s=settings.objective.lag_s,
        requests=requests,
        active=settings.mode != "watch" and not requests.paused and assessment.executors is not None,
        placing=getattr(settings.policy, "placing", Placing.NEAREST),
        seed=((settings.seed or 0) << 32) + state.next_id,
        shedding=state.shedding,
        rate_window_s=settings.rate_window_s,
    )
    recommendation, context, policy = _ask_policy(check_gates(context), state, settings)
    proposer, shaped = choose(context, settings.policy.self_managed_steps)
    plan, shedding = _plan_shedding(shaped, context, settings)
    decision = Decision(
        at=assessment.at,
        decision_id=state.next_id,
        action=_action(proposer, shaped),
        current=shaped.current,
        target=shaped.target,
        reason=name_causes(shaped.reason, assessment),
        recommendation=recommendation,
        notes=shaped.notes,
        projections=_projections(context),
        first=_find_first(assessment, remembered, shaped),
        placement=shaped.placement,
        shedding=plan,
    )
    return decision, State(
        policy=policy,
        guard=_remember_decision(decision, proposer, context),
        next_id=state.next_id + 1,
        requests=_remember_request(decision, context, settings.mode),
        analysis=state.analysis,
        at=assessment.at,
        answer=Answer(recommendation.target, decision.target, tuple([note.step for note in decision.notes])),
        shedding=shedding,
    )


def learn(outcome: Outcome, state: State[Any], settings: DecisionSettings) -> State[Any]:
    """What an outcome teaches; see :func:`~rheostat.decide.state.learn_outcome`."""
    requests = state.requests
    if outcome.status is OutcomeStatus.APPLIED:
        requests = replace(requests, reached=outcome.target)
    if outcome.status in (OutcomeStatus.APPLIED, OutcomeStatus.NO_ROOM, OutcomeStatus.PARTIAL):
        in_vain = outcome.reason.code is ReasonCode.NO_ROOM
        requests = replace(requests, given_up=outcome.target if in_vain else None)
    answer = state.answer or Answer()
    return replace(
        state,
        guard=learn_outcome(outcome, state.guard, settings.guard),
        requests=requests,
        answer=answer._replace(outcomes=(*answer.outcomes, outcome)),
    )


# What may start a change, and what may stop or lessen it.


@dataclass(frozen=True, slots=True)
class Proposer:
    """What may start a change. Its name is that of its function.

    Attributes:
        propose: a pure function; None: no change is wanted.
        codes: of the reasons that it gives; empty: whatever the policy says.
        settings: fields of ``GuardSettings`` that it reads.
        skips: names of steps that do not apply to it.
        asks_again: it asks for executors that were asked for before, from the registered ones on, also where the
            number stays. A decrease, or an increase to a greater number, is made in its place.
        promises: an increase is expected to raise the processed rate, so its effect is judged.
        avoids_slow_nodes: it never takes a slow node.
    """

    propose: Callable[[Context], Proposal | None]
    codes: tuple[ReasonCode, ...] = ()
    settings: tuple[str, ...] = ()
    skips: frozenset[str] = frozenset()
    asks_again: bool = False
    promises: bool = False
    avoids_slow_nodes: bool = False

    @property
    def name(self) -> str:
        return self.propose.__name__


class Direction(StrEnum):
    """Which changes a step can stop or lessen."""

    BLOCKS_DOWN = "down"
    BLOCKS_UP = "up"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the guard pipeline. Its name is that of its function.

    Attributes:
        apply: the step itself, pure.
        codes: of the reasons that it gives.
        settings: fields of ``GuardSettings`` that it reads.
        gate: the sample must not count for the policy while this step holds, and it is asked about holds too.
        blind: while it holds, the metrics are not known.
        on_hold: asked about holds too, though it is no gate.
        self_manageable: whether a policy may declare that it does this itself.
    """

    apply: Callable[[int, Context], Change | None]
    direction: Direction
    codes: tuple[ReasonCode, ...]
    settings: tuple[str, ...] = ()
    gate: bool = False
    blind: bool = False
    on_hold: bool = False
    self_manageable: bool = False

    @property
    def name(self) -> str:
        return self.apply.__name__

    def concerns(self, target: int, current: int) -> bool:
        """Whether the step is asked about such a target."""
        if target == current:
            return self.gate or self.on_hold
        return self.direction is not (Direction.BLOCKS_DOWN if target > current else Direction.BLOCKS_UP)


_BOTH, _UP, _DOWN = Direction.BOTH, Direction.BLOCKS_UP, Direction.BLOCKS_DOWN
_C = ReasonCode
_HOLD = ("hold_s", "hold_batches", "hold_fallback_s")
_STALE = ("max_age_cycles", "metrics_delay_s")
_INEFFECTIVE = ("ineffective_share", "ineffective_s", "ineffective_max_s")
_ALIGN = ("align_to", "align_most", "state_partitions")
_ROUND_TRIP = ("round_trip_cooldowns", "cooldown_down_s")
_LARGEST = ("largest_step_up", "largest_step_down")
_NO_ROOM = ("no_room_patience_s", "no_room_patience_max_s", "no_room_backoff_s", "no_room_backoff_max_s")

STEPS: tuple[Step, ...] = (
    Step(guard.no_query, _BOTH, (_C.NO_QUERY,), gate=True, blind=True),
    Step(guard.metrics_invalid, _BOTH, (_C.METRICS_INVALID,), gate=True, blind=True),
    Step(guard.metrics_missing, _BOTH, (_C.METRICS_MISSING,), gate=True, blind=True),
    Step(guard.metrics_stale, _BOTH, (_C.METRICS_STALE, _C.METRICS_MISSING), _STALE, gate=True, blind=True),
    Step(guard.sheds, _BOTH, (_C.SHEDDING,), gate=True),
    Step(guard.hold_all, _BOTH, (_C.HOLD_AFTER_RESCALE,), ("hold_both", *_HOLD), gate=True),
    Step(guard.task_failures, _DOWN, (_C.TASK_FAILURES,), ("failure_window_s",), self_manageable=True),
    Step(guard.warm_up, _DOWN, (_C.WARMING_UP,), ("warm_up_batches", "warm_up_s"), self_manageable=True),
    Step(guard.hold, _DOWN, (_C.HOLD_AFTER_RESCALE,), _HOLD, self_manageable=True),
    Step(guard.rescale_running, _DOWN, (_C.RESCALE_RUNNING,), ("hold_fallback_s",)),
    Step(guard.rescale_cost, _BOTH, (_C.RESCALE_COST,), ("rescale_catch_up_lags",)),
    Step(guard.batch_cap, _UP, (_C.BATCH_CAP,), ("batch_cap",), self_manageable=True),
    Step(guard.sick_sink, _UP, (_C.SICK_SINK,), ("sick_sink",), self_manageable=True),
    Step(guard.driver_bound, _UP, (_C.DRIVER_BOUND,), ("sick_sink",), self_manageable=True),
    Step(guard.data_reread, _UP, (_C.DATA_REREAD,)),
    Step(guard.query_fails, _UP, (_C.QUERY_FAILS,), on_hold=True),
    Step(guard.objective_too_short, _UP, (_C.OBJECTIVE_TOO_SHORT,), on_hold=True),
    Step(guard.ineffective, _UP, (_C.INEFFECTIVE,), _INEFFECTIVE),
    Step(guard.failed_before, _BOTH, (_C.FAILED_BEFORE,)),
    Step(guard.excluded_again, _DOWN, (_C.EXCLUDED_AGAIN,)),
    Step(guard.tolerance, _BOTH, (_C.WITHIN_TOLERANCE,), ("tolerance",), self_manageable=True),
    Step(guard.alignment, _BOTH, (_C.ALIGNED,), _ALIGN, self_manageable=True),
    Step(guard.useful_executors, _UP, (_C.USELESS_EXECUTORS,), self_manageable=True),
    Step(guard.least_by_partitions, _DOWN, (_C.PARTITIONS_PER_SLOT,), ("most_partitions",)),
    Step(guard.unmeasured_queries, _DOWN, (_C.QUERY_UNMEASURED,), ("hold_fallback_s",)),
    Step(guard.largest_step, _BOTH, (_C.LARGEST_STEP,), _LARGEST, self_manageable=True),
    Step(guard.scale_down_hold, _DOWN, (_C.SCALE_DOWN_HOLD,), ("scale_down_hold_s",), self_manageable=True),
    Step(guard.cooldown_up, _UP, (_C.COOLDOWN_UP,), ("cooldown_up_s",), self_manageable=True),
    Step(guard.cooldown_down, _DOWN, (_C.COOLDOWN_DOWN,), ("cooldown_down_s",), self_manageable=True),
    Step(guard.round_trip, _DOWN, (_C.ROUND_TRIP,), _ROUND_TRIP, self_manageable=True),
    Step(guard.most_round_trips, _DOWN, (_C.ROUND_TRIP,), ("most_round_trips",)),
    Step(guard.catching_up, _DOWN, (_C.CATCHING_UP,), ("catching_up",)),
    Step(guard.failover, _DOWN, (_C.FAILOVER,), ("failover", "failover_return_s")),
    Step(guard.no_room, _UP, (_C.NO_ROOM,), _NO_ROOM),
    Step(guard.bounds, _BOTH, (_C.AT_MIN, _C.AT_MAX), on_hold=True),
    Step(guard.quota, _UP, (_C.QUOTA,), ("quota_cores",)),
    Step(guard.last_check, _BOTH, (_C.LAST_CHECK,)),
    Step(guard.placement, _BOTH, (_C.NO_FREE_NODE, _C.REPLACING_LOST), on_hold=True),
)
"""What may stop or lessen a change, in order."""

_ALL_BUT_PLACEMENT = frozenset(step.name for step in STEPS) - {"placement"}
_ON_COST_AND_SIZE = frozenset(
    ["rescale_cost", "tolerance", "alignment", "least_by_partitions", "largest_step", "scale_down_hold", "catching_up"]
)

_TAKEN_BACK = frozenset(step.name for step in STEPS if not step.gate) - frozenset(
    ["rescale_running", "failover", "no_room", "bounds", "quota", "last_check", "placement"]
)
"""What does not hold up the way back from a number where executors die or tasks fail."""

PROPOSERS: tuple[Proposer, ...] = (
    Proposer(guard.start, (_C.START, _C.RESTORED), skips=_ALL_BUT_PLACEMENT, asks_again=True),
    Proposer(guard.replace_lost, (_C.REPLACING_LOST,), skips=_ALL_BUT_PLACEMENT, asks_again=True),
    Proposer(guard.take_back, (_C.FAILED_BEFORE,), ("failure_window_s",), skips=_TAKEN_BACK),
    Proposer(guard.undo, (_C.INEFFECTIVE,), _INEFFECTIVE, skips=_ON_COST_AND_SIZE),
    Proposer(guard.withdraw, (_C.NO_ROOM,), skips=_ALL_BUT_PLACEMENT),
    Proposer(guard.move_executor, (_C.NODE_OVERLOADED,), ("hold_fallback_s",), skips=_ALL_BUT_PLACEMENT - {"quota"}),
    Proposer(guard.add_for_shed, (_C.SHEDDING,), skips=frozenset(["sheds"])),
    Proposer(guard.replace_slow, (_C.SLOW_EXECUTOR,), ("replace_slow",), avoids_slow_nodes=True),
    Proposer(guard.follow_policy, promises=True),
)
"""What may start a change, in order: each goes before those behind it."""


# The parts of a decision.

_NOT_COUNTED = {
    ReasonCode.NO_QUERY: "active query",
    ReasonCode.METRICS_STALE: "fresh metrics",
    ReasonCode.HOLD_AFTER_RESCALE: "settled job",
}
_FEWER_DO = frozenset({ReasonCode.SURPLUS_COUNTING, ReasonCode.STABILIZING, ReasonCode.COOLDOWN_DOWN})
"""Codes of policies that hold a number which they find too large, until a count, a window or a cooldown has ended."""


@dataclass(frozen=True, slots=True)
class Shaped:
    """A proposal after the steps: the change, its reason, and every step that changed the target."""

    current: int
    target: int
    reason: Reason
    notes: tuple[GuardNote, ...]
    placement: Placement | None = None


def check_gates(context: Context) -> Context:
    """The context with the reason of the first closed gate, and whether the metrics are unknown."""
    changes = [(step, step.apply(context.current, context)) for step in STEPS if step.gate]
    closed = [(step, change) for step, change in changes if change is not None]
    if not closed:
        return context
    return replace(context, gate=closed[0][1].reason, blind=any(step.blind for step, _ in closed))


def _ask_policy(context: Context, state: State[Any], settings: DecisionSettings) -> tuple[Recommendation, Context, Any]:
    """The recommendation, and the context with it. A sample that must not count is shown as one that is incomplete."""
    assessment, gate, policy = context.assessment, context.gate, settings.policy
    missing = assessment.missing
    if gate is not None and not (missing or assessment.invalid):
        missing = (_NOT_COUNTED.get(gate.code, "metrics age"),)
    shown = replace(assessment, requested=context.current, missing=missing, bounds=settings.bounds, answer=state.answer)
    recommendation, after = policy.recommend(shown, state.policy)
    context = replace(
        context,
        recommendation=recommendation,
        state=remember_recommendation(shown.at, recommendation.target, context.state, settings.guard),
        capacity=lambda number: policy.capacity(number, after),
        fewer_do=recommendation.reason.code in _FEWER_DO,
    )
    return recommendation, context, after


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
        chosen = proposer, _shape(proposal, proposer, context, self_managed)
    if chosen is None:
        message = "the policy proposes nothing: it is asked before"
        raise ValueError(message)
    return chosen


def _gives_way(shaped: Shaped, target: int) -> bool:
    return shaped.target == shaped.current or shaped.current < shaped.target <= target


def _shape(proposal: Proposal, proposer: Proposer, context: Context, self_managed: frozenset[str]) -> Shaped:
    """Send a proposal through the steps. Of the gates, the first closed one is the reason."""
    current = begin = context.current if proposal.current is None else proposal.current
    target, reason, placement, skips = proposal.target, proposal.reason, None, proposer.skips | self_managed
    gates_pass, notes = context.gate is None, tuple[GuardNote, ...]()
    if not proposer.asks_again and target != context.recommended:
        notes = (GuardNote(proposer.name, context.recommended, target, reason),)
    context = replace(
        context,
        current=begin,
        proposed=target,
        avoids_slow_nodes=proposer.avoids_slow_nodes,
        left_node=proposal.node,
        asks_again=proposer.asks_again,
    )
    for step in STEPS:
        if not step.concerns(target, begin) or step.name in skips or (step.gate and gates_pass):
            continue
        change = step.apply(target, context)
        if change is None:
            continue
        reason = change.reason or replace(reason, text=f"{reason.text}{change.remark}")
        if change.target != target:
            notes = (*notes, GuardNote(step.name, target, change.target, reason))
        current = current if change.current is None else change.current
        target, placement, gates_pass = change.target, change.placement, gates_pass or step.gate
    return Shaped(current, target, reason, notes, placement)


def _find_current(assessment: Assessment, remembered: GuardState, requests: RequestState) -> int | None:
    """The target of the change that is being executed, else what was asked for last; but no less than what is there.

    Figures of before the last change show an older number: then it is the one that the change has led to.

    What did not come in time still stands as a request, but decisions start from what has been there.

    More than was asked for is there where a cluster had granted it before anybody asked: those executors are in use,
    cost money, and are to be given back one by one as others are.
    """
    if remembered.pending is not None:
        return remembered.pending.target
    if remembered.changed_to is not None and remembered.outdates(assessment):
        return remembered.changed_to
    asked = current_target(assessment)
    if requests.given_up is not None and requests.given_up == asked and assessment.executors is not None:
        asked = min(asked, requests.reached or 0)
    return None if asked is None else max(asked, assessment.executors or 0)


def _find_first(assessment: Assessment, remembered: GuardState, shaped: Shaped) -> tuple[str, ...]:
    """The executors that leave first; in an increase those that get no task, in whose place others come."""
    if shaped.target < shaped.current:
        return leaving_first(assessment, remembered.replacing)
    return assessment.excluded if shaped.target > shaped.current else ()


def _action(proposer: Proposer, shaped: Shaped) -> Action:
    if shaped.target == shaped.current:
        return Action.UP if proposer.asks_again and not shaped.notes else Action.HOLD
    return Action.UP if shaped.target > shaped.current else Action.DOWN


def _plan_shedding(
    shaped: Shaped, context: Context, settings: DecisionSettings
) -> tuple[SheddingPlan | None, SheddingState]:
    """What is kept of the records: all, while there are more executors to have, and none of them is on its way."""
    if settings.shedding is None:
        return None, SheddingState(shed_at=context.shedding.shed_at)
    assessment, refused_until = context.assessment, context.state.no_room_until
    no_room = refused_until is not None and assessment.at < refused_until
    most = shaped.target >= context.bounds.maximum or shaped.reason.code is ReasonCode.QUOTA
    there = assessment.executors or 0
    at_most = most and there >= shaped.target
    starting = there < shaped.target or context.state.moving is not None
    helps = assessment.sink is None and assessment.driver is None
    return plan_shedding(
        assessment,
        context.shedding,
        settings.shedding,
        objective_s=settings.objective.lag_s,
        may_begin=(at_most or no_room or starting) and helps and assessment.batches >= WARM,
        acts=context.active,
        measures=settings.measures,
    )


def _projections(context: Context) -> tuple[Projection, ...]:
    """Capacity and utilization of one executor less, the current target, and one more."""
    arrival, projections = context.assessment.arrival_rate, list[Projection]()
    for number in range(max(1, context.current - 1), context.current + 2):
        capacity = context.capacity(number) if context.capacity else None
        projections.append(
            Projection(number, capacity, arrival / capacity if capacity and arrival is not None else None)
        )
    return tuple(projections)


def _remember_decision(decision: Decision, proposer: Proposer, context: Context) -> GuardState:
    """The state after a decision: what is executed is pending."""
    remembered, assessment = context.state, context.assessment
    if not decision.acts or decision.current is None or decision.target is None:
        return remembered
    up = decision.target > decision.current
    pending = Pending(
        decision_id=decision.decision_id,
        at=decision.at,
        before=decision.current,
        target=decision.target,
    )
    if up and proposer.promises and decision.current == context.current:
        pending = _promise(pending, remembered, assessment)
    replacing = remembered.replacing
    if up and proposer.propose is guard.replace_slow:
        replacing = Replacing(assessment.slow_executors[0], decision.current)
    moving, node = remembered.moving, context.shedding.move
    if not up and proposer.propose is guard.move_executor and node is not None:
        nodes = context.assessment.nodes
        used = 0 if nodes is None else nodes.in_use.count(node[0])
        moving = Moving(node[0], decision.current, decision.at, used)
    return replace(remembered, pending=pending, replacing=replacing, moving=moving)


def _promise(pending: Pending, remembered: GuardState, assessment: Assessment) -> Pending:
    """The change with the last settled number and its rate: those of a change under way or on trial, or its own."""
    under_way, trial = remembered.pending, remembered.trial
    if under_way is not None and under_way.target == pending.before:
        return replace(pending, rate=under_way.rate, settled=under_way.settled)
    rate = settled_rate(assessment) if assessment.executors == pending.before else None
    if trial is not None and trial.before < pending.before and (trial.rate or rate is None):
        return replace(pending, rate=trial.rate, settled=trial.before)
    return replace(pending, rate=rate, settled=pending.before)


def _remember_request(decision: Decision, context: Context, mode: Mode) -> RequestState:
    requests = context.requests
    if context.active:
        again = decision.reason.code is ReasonCode.REPLACING_LOST
        in_place = decision.first if decision.action is Action.UP else ()
        if again or in_place:
            soon = decision.at - (requests.replaced_at or -AN_HOUR_S) < AN_HOUR_S
            count = requests.excluded if soon else 0
            count = max(1, count) if in_place and not again else count + bool(in_place)
            requests = replace(requests, replaced_at=decision.at, excluded=count)
        requests = replace(requests, opened=True)
    if mode == "act" and not requests.paused and decision.acts:
        requests = replace(requests, target=decision.target)
    return requests


# Holds without a proposal.


def _decide_blind(assessment: Assessment, state: State[Any], settings: DecisionSettings) -> tuple[Decision, State[Any]]:
    """Hold, and let nothing count: the current target is unknown."""
    missing = assessment.missing or ("executors",)
    recommendation, policy = settings.policy.recommend(replace(assessment, missing=missing), state.policy)
    text = f"unknown: {', '.join(missing)}: the number of executors is left as it is"
    reason = Reason(ReasonCode.METRICS_MISSING, text)
    hold = _hold(assessment.at, state.next_id, None, reason, replace(recommendation, target=None))
    return hold, replace(state, policy=policy, next_id=state.next_id + 1, at=assessment.at)


def hold_failed_cycle(at: float, text: str, current: int | None, state: State[Any]) -> tuple[Decision, State[Any]]:
    """The hold of a cycle that did not come to a decision."""
    reason = Reason(ReasonCode.CYCLE_FAILED, text)
    hold = _hold(at, state.next_id, current, reason, Recommendation(target=None, reason=reason))
    return hold, replace(state, next_id=state.next_id + 1, at=at)


def _hold(at: float, decision_id: int, current: int | None, reason: Reason, recommendation: Recommendation) -> Decision:
    return Decision(
        at=at,
        decision_id=decision_id,
        action=Action.HOLD,
        current=current,
        target=current,
        reason=reason,
        recommendation=recommendation,
    )


# What decisions depend on.


@cache
def _state_adapter(policy_state: Hashable) -> TypeAdapter[State[Any]]:
    state: Any = State
    return TypeAdapter(state[policy_state])


@dataclass(frozen=True)
class DecisionSettings:
    """What decisions depend on beside assessment and state.

    Attributes:
        sample_s: time between two assessments, s; the age of metrics is measured in it.
        seed: of nodes that are taken at random. None: 0.
        mode: with ``watch``, only the policy and the guard start changes: nothing was asked for that could be lost.
        rate_window_s: over which rates are measured.
        shedding: where records may be dropped; None: nowhere.

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
    rate_window_s: float = 60.0
    shedding: SheddingGraph | None = None

    @cached_property
    def measures(self) -> Mapping[str, Measure] | None:
        """Of the accuracy of each sink; None: all are shares of the records."""
        if self.shedding is None or all(sink.measure == "records" for sink in self.shedding.sinks.values()):
            return None
        return measures_of(self.shedding)

    def __post_init__(self) -> None:
        allowed = tuple(step.name for step in STEPS if step.self_manageable)
        wrong = sorted(self.policy.self_managed_steps.difference(allowed))
        if wrong:
            message = f"the policy {self.policy.name} claims guard steps that it may not do itself"
            raise InputError([Fault("policy.self_managed_steps", ", ".join(wrong), " | ".join(allowed), message)])
        if self.shedding is not None:
            measures_of(self.shedding)

    @property
    def state_adapter(self) -> TypeAdapter[State[Any]]:
        """Turns the state into JSON and back, with the policy's own state typed."""
        state_type: Any = self.policy.state_type
        return _state_adapter(state_type)

    def initial(self) -> State[Any]:
        return State(self.policy.initial())

    def state_to_json(self, state: State[Any]) -> dict[str, Any]:
        data: dict[str, Any] = self.state_adapter.dump_python(state, mode="json")
        return data

    def state_from_json(self, data: Mapping[str, Any]) -> State[Any]:
        """The inverse of :meth:`state_to_json`; also reads the three parts that version 0.1 wrote.

        Raises:
            JournalError: it belongs to another version or another policy, or is damaged.
        """
        try:
            return self.state_adapter.validate_python(_read_parts(data))
        except (TypeError, ValueError) as error:
            reason = describe(error) if isinstance(error, ValidationError) else str(error)
            message = f"the state does not fit this version or the policy {self.policy.name}: {reason}"
            raise JournalError(message) from error


def _read_parts(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the state. Version 0.1 kept some of them in ``plan``, where only the policy's was required."""
    if "plan" not in data:
        names = [each.name for each in fields(State)]
        _require(data, [name for name in names if name not in ("at", "answer", "shedding")])
        return {name: data[name] for name in names if name in data}
    _require(data, ["analysis", "own"])
    plan = data["plan"]
    if not isinstance(plan, Mapping):
        message = "plan is not a mapping"
        raise TypeError(message)
    kept = {name: plan[name] for name in ("policy", "guard", "next_id") if name in plan}
    return {**kept, "analysis": data["analysis"], "requests": data["own"]}


def _require(data: Mapping[str, Any], names: Iterable[str]) -> None:
    missing = [name for name in names if name not in data]
    if missing:
        message = f"{', '.join(missing)}: this key is required"
        raise ValueError(message)
