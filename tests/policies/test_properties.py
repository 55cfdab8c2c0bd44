"""What holds for all figures and states."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.policies.samples import HEALTHY, reactive

from rheostat.config.models import GuardSettings
from rheostat.decide.decide import DecisionSettings, decide
from rheostat.decide.state import GuardState, Pending, State
from rheostat.model import Action, Assessment, Bounds, Objective
from rheostat.policies.capacity import Figure, Learned
from rheostat.policies.reactive import ReactiveState

AT = 1000.0


def maybe(strategy):
    return st.none() | strategy


rates = st.floats(0.0, 1e6, allow_subnormal=False)
executors = st.integers(1, 40)
ages = st.floats(0.0, 500.0)
past = maybe(st.floats(0.0, AT))


@st.composite
def assessments(draw) -> Assessment:
    """Complete and fresh ones; what a policy can do without may be unknown."""
    return replace(
        HEALTHY,
        at=AT,
        executors=draw(executors),
        requested=draw(maybe(executors)),
        arrival_rate=draw(rates),
        processed_rate=draw(maybe(rates)),
        backlog=draw(st.integers(0, 10**6)) * 8,
        backlog_excess=draw(st.just(0.0) | st.floats(0.0, 1e8, allow_subnormal=False)),
        batch_s=draw(st.floats(0.01, 300.0)),
        last_batch_s=draw(maybe(st.floats(0.01, 300.0))),
        trigger_s=draw(st.sampled_from([0.0, 2.0, 10.0])),
        occupancy=draw(maybe(st.floats(0.0, 20.0))),
        busy_ratio=draw(maybe(st.floats(0.0, 1.0))),
        batches=draw(st.integers(0, 6)),
        capped=draw(maybe(st.booleans())),
        failed_tasks=draw(maybe(st.integers(0, 2))),
        partitions=draw(maybe(st.integers(1, 50))),
        metrics_age_s=draw(st.floats(0.0, 30.0)),
    )


@st.composite
def learned(draw) -> Learned:
    """What may have been learned, also figures that a later one would contradict."""
    w_max = draw(maybe(st.floats(1.0, 1e5)))
    numbers = sorted(draw(st.sets(executors, max_size=4)))
    figures = tuple(Figure(n, draw(st.floats(1.0, 1e6)), draw(st.integers(0, 9)), draw(past) or 0.0) for n in numbers)
    recent = tuple(draw(st.lists(st.floats(1.0, 1e5), max_size=3)))
    return Learned(w_max, 0 if w_max is None else 3, figures, recent)


@st.composite
def policy_states(draw) -> ReactiveState:
    at = draw(st.floats(AT - 40, AT))
    number = draw(maybe(executors))
    return ReactiveState(draw(learned()), draw(st.integers(0, 10)), number, draw(st.floats(0.0, AT)), at)


@st.composite
def plan_states(draw) -> State:
    pending = draw(maybe(st.builds(Pending, st.just(3), ages.map(lambda a: AT - a), executors, executors)))
    guard = GuardState(draw(past), draw(past), draw(past), draw(maybe(ages.map(lambda a: AT - 250 + a))), 60.0, pending)
    return State(draw(policy_states()), guard, 4)


@st.composite
def guards(draw) -> GuardSettings:
    steps = maybe(st.integers(1, 6))
    return GuardSettings(
        hold_both=draw(st.booleans()),
        hold_s=draw(maybe(st.floats(0.0, 300.0))),
        warm_up_batches=draw(st.integers(0, 3)),
        largest_step_up=draw(steps),
        largest_step_down=draw(steps),
        cooldown_up_s=draw(st.sampled_from([0.0, 60.0])),
        cooldown_down_s=draw(st.sampled_from([0.0, 60.0])),
    )


presets = st.sampled_from([reactive("default"), reactive("faithful"), reactive("demo"), reactive(memory=None)])
STATES = DecisionSettings(reactive(), Bounds(1, 1), GuardSettings(), Objective(30.0), 15.0).state_adapter
bounds = st.tuples(executors, executors).map(lambda pair: Bounds(min(pair), max(pair)))
planners = st.builds(DecisionSettings, presets, bounds, guards(), st.just(Objective(30.0)), st.just(15.0))


def decision_of(assessment: Assessment, state: State, plans: DecisionSettings) -> Any:
    """The decision, whose numbers are known here."""
    return decide(assessment, state, plans)[0]


def in_force(assessment: Assessment, state: State, plans: DecisionSettings) -> int:
    pending = state.guard.pending
    if pending is not None and assessment.at - pending.at < plans.guard.hold_fallback_s:
        return pending.target
    return max(assessment.requested or 0, assessment.executors or 0)


@given(planners, assessments(), plan_states())
def test_a_decision_is_within_the_bounds_and_repeatable_and_its_state_survives_json(plans, seen, state):
    decision: Any
    decision, after = decide(seen, state, plans)
    assert not decision.acts or plans.bounds.clamp(decision.target) == decision.target
    assert decision.current == in_force(seen, state, plans)
    assert (decision.action is Action.UP) == (decision.target > decision.current)
    assert (decision.action is Action.DOWN) == (decision.target < decision.current)
    assert decision.reason.text
    assert decide(seen, state, plans) == (decision, after)
    assert STATES.validate_json(STATES.dump_json(after)) == after


@given(
    planners,
    assessments(),
    plan_states(),
    st.sampled_from(
        [
            {"missing": ("lag_s",)},
            {"invalid": ("batch.at",)},
            {"arrival_rate": None, "missing": ("arrival_rate",)},
            {"metrics_age_s": 30.1},
            {"metrics_age_s": None},
            {"queries": 0},
        ]
    ),
)
def test_never_fewer_while_something_is_unknown_impossible_or_stale(plans, seen, state, worse):
    decision, _ = decide(replace(seen, **worse), state, plans)
    assert decision.action is not Action.DOWN
    assert decision.action is Action.HOLD or decision.target == plans.bounds.minimum


@given(planners, assessments(), plan_states(), st.floats(1e-6, 1e9))
def test_never_fewer_while_there_is_an_excess_unless_the_bounds_force_it(plans, seen, state, excess):
    decision = decision_of(replace(seen, backlog_excess=excess), state, plans)
    assert decision.action is not Action.DOWN or decision.current > decision.target == plans.bounds.maximum


@given(
    presets,
    assessments(),
    policy_states(),
    st.sampled_from(["processed_rate", "occupancy", "capped", "partitions"]),
)
def test_a_figure_is_not_taken_for_small_because_it_is_unknown(policy, seen, state, name):
    """What holds or grows with it does not shrink without it, from one and the same state."""
    number = in_force_of(seen)
    blank: dict[str, Any] = {name: None}
    first, _ = policy.recommend(seen, state)
    second, _ = policy.recommend(replace(seen, **blank), state)
    assert first.target < number or second.target >= number


def in_force_of(assessment: Assessment) -> int:
    return assessment.requested or assessment.executors or 0


@given(learned(), executors, st.floats(1e-3, 1e6))
def test_enough_is_the_least_that_carries_a_rate(learned, number, rate):
    least = learned.enough(rate)
    assume(least is not None and least < 1_000_000)  # where it ends
    assert learned.carried(least) >= rate * (1 - 1e-6)
    assert number >= least or learned.carried(number) < rate * (1 + 1e-6)


@given(learned(), st.floats(0.0, 1e6), st.floats(1.0, 100.0))
def test_enough_never_falls_with_the_rate(learned, rate, factor):
    assume(learned.figures)
    assert learned.enough(rate * factor) >= learned.enough(rate)


def scaled(assessment: Assessment, k: float) -> Assessment:
    assert assessment.arrival_rate is not None
    assert assessment.backlog_excess is not None
    processed = None if assessment.processed_rate is None else assessment.processed_rate * k
    assert assessment.backlog is not None
    return replace(
        assessment,
        arrival_rate=assessment.arrival_rate * k,
        processed_rate=processed,
        backlog=round(assessment.backlog * k),
        backlog_excess=assessment.backlog_excess * k,
    )


def scaled_learned(state: State, k: float) -> State:
    learned = state.policy.learned
    by_k = replace(
        learned,
        w_max=None if learned.w_max is None else learned.w_max * k,
        figures=tuple(replace(figure, rate=figure.rate * k) for figure in learned.figures),
        recent=tuple(rate * k for rate in learned.recent),
    )
    return replace(state, policy=replace(state.policy, learned=by_k))


@given(planners, assessments(), plan_states(), st.sampled_from([0.125, 0.5, 2.0, 64.0]))
def test_scaling_all_rates_changes_nothing(plans, seen, state, k):
    """Powers of two, so that rounding cannot change anything either."""
    first, _ = decide(seen, state, plans)
    second, _ = decide(scaled(seen, k), scaled_learned(state, k), plans)
    assert (second.target, second.reason.code) == (first.target, first.reason.code)


@settings(max_examples=6 * settings().max_examples)
@given(presets, assessments(), policy_states(), st.floats(1.0, 20.0), st.floats(1.0, 20.0))
def test_more_load_is_never_fewer_executors(policy, seen, state, more_arrival, more_excess):
    """Arrival grows by a factor, what is left over by at least the same."""
    more = replace(
        seen,
        arrival_rate=seen.arrival_rate * more_arrival,
        backlog_excess=seen.backlog_excess * more_arrival * more_excess,
    )
    first, _ = policy.recommend(seen, state)
    second, _ = policy.recommend(more, state)
    assume(first.target is not None)
    assert second.target >= first.target


@given(planners, assessments(), plan_states(), st.floats(1.0, 20.0))
def test_more_load_is_never_fewer_executors_whatever_the_guards_say(plans, seen, state, factor):
    more = replace(seen, arrival_rate=seen.arrival_rate * factor, backlog_excess=seen.backlog_excess * factor)
    assert decision_of(more, state, plans).target >= decision_of(seen, state, plans).target


@pytest.mark.parametrize("preset", ["default", "faithful"])
@given(st.lists(assessments(), min_size=1, max_size=12))
def test_a_whole_sequence_stays_within_the_bounds_and_ids_ascend(preset, sequence):
    plans = DecisionSettings(reactive(preset), Bounds(2, 9), GuardSettings(), Objective(30.0), 15.0)
    state, number = plans.initial(), 3
    for step, seen in enumerate(sequence):
        decision, state = decide(replace(seen, at=AT + 15 * step, executors=number, requested=None), state, plans)
        assert decision.decision_id == step + 1
        assert decision.target is not None
        assert 2 <= decision.target <= 9
        number = decision.target
