"""The guard on sick sinks and slow executors, and what the decision_settings says of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.policies.samples import Fixed, decision_settings, outcome, seen

from rheostat.config.models import GuardSettings
from rheostat.decide.decide import check_gates, choose, decide, learn
from rheostat.decide.guard import Context
from rheostat.decide.state import GuardState, Pending, Replacing
from rheostat.model import Action, Bounds, OutcomeStatus, Reason, ReasonCode, Recommendation

AT = 1000.0
NEUTRAL = {"warm_up_batches": 0, "hold_s": 0.0, "largest_step_down": None, "cooldown_down_s": 0.0}
SICK = "the last batch took 20.0 s, 15.0 s of them after its tasks"
SLOW: dict[str, Any] = {"slow": ("executor 7 on b",), "slow_executors": ("7",), "slow_factor": 3.04, "executors": 5}


def shaped(target: int, *, state=None, skip=frozenset(), fewer_do=False, figures: dict[str, Any], **guard: Any):
    settings, remembered = GuardSettings(**{**NEUTRAL, **guard}), GuardState(**(state or {}))
    context = Context(
        assessment=seen(AT, **figures),
        current=5,
        recommendation=Recommendation(target, Reason(ReasonCode.FIXED, "as told")),
        bounds=Bounds(1, 20),
        settings=settings,
        sample_s=15.0,
        state=remembered,
        fewer_do=fewer_do,
    )
    _, chosen = choose(check_gates(context), skip)
    return chosen.target, chosen.reason.code


@pytest.mark.parametrize(
    ("target", "given", "result", "code"),
    [
        pytest.param(8, {"figures": {"sink": SICK}}, 5, ReasonCode.SICK_SINK, id="not up"),
        pytest.param(2, {"figures": {"sink": SICK}}, 2, ReasonCode.FIXED, id="down"),
        pytest.param(5, {"figures": {"sink": SICK}}, 5, ReasonCode.FIXED, id="nothing to be stopped"),
        pytest.param(8, {"figures": {"sink": None}}, 8, ReasonCode.FIXED, id="healthy or unknown: up"),
        pytest.param(8, {"figures": {"sink": SICK}, "sick_sink": False}, 8, ReasonCode.FIXED, id="not looked at"),
        pytest.param(
            8,
            {"figures": {"sink": SICK}, "skip": frozenset({"sick_sink"})},
            8,
            ReasonCode.FIXED,
            id="brought by the policy",
        ),
    ],
)
def test_a_sick_sink(target, given, result, code):
    assert shaped(target, **given) == (result, code)


def test_the_advice():
    decision, _ = decide(
        seen(AT, executors=5, sink=SICK), decision_settings(Fixed(8)).initial(), decision_settings(Fixed(8))
    )
    assert decision.reason.text == (
        f"the sink is sick: {SICK}; no executor helps against that, look at what the query writes to: 5 stays"
    )
    assert (decision.reason.figures, decision.action) == ({"wanted": 8.0}, Action.HOLD)


ALLOWED = {"figures": SLOW, "replace_slow": True}
WAITING = {"replacing": Replacing("7", 4)}


@pytest.mark.parametrize(
    ("target", "given", "result", "code"),
    [
        pytest.param(5, {"figures": SLOW}, 5, ReasonCode.FIXED, id="not allowed"),
        pytest.param(5, ALLOWED, 6, ReasonCode.SLOW_EXECUTOR, id="one more first"),
        pytest.param(8, ALLOWED, 8, ReasonCode.FIXED, id="the policy goes up: first that"),
        pytest.param(3, ALLOWED, 3, ReasonCode.FIXED, id="the policy goes down: the slow one goes anyway"),
        pytest.param(
            5, {**ALLOWED, "fewer_do": True}, 5, ReasonCode.FIXED, id="the policy is on its way down: none comes"
        ),
        pytest.param(
            5, {**ALLOWED, "figures": {**SLOW, "executors": 4}}, 5, ReasonCode.FIXED, id="one is missing: none comes"
        ),
        pytest.param(5, {**ALLOWED, "state": WAITING}, 4, ReasonCode.SLOW_EXECUTOR, id="then the slow one goes"),
        pytest.param(
            5,
            {**ALLOWED, "state": WAITING, "fewer_do": True},
            4,
            ReasonCode.SLOW_EXECUTOR,
            id="on the way down it goes too",
        ),
        pytest.param(
            5,
            {**ALLOWED, "state": WAITING, "figures": {**SLOW, "executors": 4}},
            5,
            ReasonCode.FIXED,
            id="the one that comes is not there yet",
        ),
        pytest.param(
            5,
            {**ALLOWED, "state": WAITING, "figures": {**SLOW, "backlog_excess": 9.0}},
            5,
            ReasonCode.CATCHING_UP,
            id="not while catching up",
        ),
        pytest.param(
            5, {**ALLOWED, "state": {"pending": Pending(1, AT, 5, 5)}}, 5, ReasonCode.FIXED, id="a change is under way"
        ),
        pytest.param(
            5,
            {**ALLOWED, "figures": {**SLOW, "missing": ("lag_s",)}},
            5,
            ReasonCode.METRICS_MISSING,
            id="something is unknown",
        ),
        pytest.param(
            5,
            {**ALLOWED, "hold_both": True, "hold_s": 60.0, "state": {"changed_at": AT - 10}},
            5,
            ReasonCode.HOLD_AFTER_RESCALE,
            id="no change at all in the hold",
        ),
    ],
)
def test_replacing_a_slow_executor(target, given, result, code):
    assert shaped(target, **given) == (result, code)


class Saying(Fixed):
    """Holds, with a code of its own."""

    def __init__(self, code: ReasonCode) -> None:
        super().__init__(5)
        self.code = code

    def recommend(self, seen, state):
        told, state = super().recommend(seen, state)
        return Recommendation(told.target, Reason(self.code, "as told")), state


@pytest.mark.parametrize(
    ("code", "target"),
    [
        (ReasonCode.SURPLUS_COUNTING, 5),
        (ReasonCode.STABILIZING, 5),
        (ReasonCode.COOLDOWN_DOWN, 5),
        (ReasonCode.STEADY, 6),
        (ReasonCode.CAPACITY_UNKNOWN, 6),
    ],
)
def test_none_comes_while_the_policy_finds_the_number_too_large(code, target):
    plans = decision_settings(Saying(code), replace_slow=True)
    decision, state = decide(seen(AT, **SLOW), plans.initial(), plans)
    assert (decision.target, state.guard.replacing is None) == (target, target == 5)


def test_one_comes_and_the_slow_one_goes():
    plans = decision_settings(Fixed(None), replace_slow=True, round_trip_cooldowns=0.0)
    come, state = decide(seen(AT, **SLOW), plans.initial(), plans)
    assert (come.target, come.first, come.reason.code) == (6, (), ReasonCode.SLOW_EXECUTOR)
    assert come.reason.text == (
        "one more comes in the place of executor 7: 5 → 6; slow: executor 7 on b (3.0 × the task time of the others)"
    )
    assert state.guard.replacing == Replacing("7", 5)
    state = learn(outcome(OutcomeStatus.APPLIED, 6, 5, 6), state, plans)
    go, state = decide(seen(AT + 15, **{**SLOW, "executors": 6}, requested=6), state, plans)
    assert (go.target, go.first, go.reason.code) == (5, ("7",), ReasonCode.SLOW_EXECUTOR)
    state = learn(outcome(OutcomeStatus.APPLIED, 5, 6, 5, decision_id=2), state, plans)
    rest, state = decide(seen(AT + 30, executors=5, requested=5), state, plans)
    assert (rest.action, state.guard.replacing) == (Action.HOLD, None)


def test_the_effect_of_a_replacement_is_not_judged():
    """At its limit: batches back to back, and records left over. An increase by the policy promises something then."""
    limited = {"executors": 2, "batch_s": 12.0, "backlog_excess": 90.0, "processed_rate": 500.0}
    for target, code, rate in ((None, ReasonCode.SLOW_EXECUTOR, None), (3, ReasonCode.FIXED, 500.0)):
        plans = decision_settings(Fixed(target), replace_slow=True)
        come, state = decide(seen(AT, **{**SLOW, **limited}), plans.initial(), plans)
        assert (come.target, come.reason.code) == (3, code)
        assert state.guard.pending is not None
        assert (state.guard.pending.rate, state.guard.trial) == (rate, None)
        state = learn(outcome(OutcomeStatus.APPLIED, 3, 2, 3), state, plans)
        assert (state.guard.trial is None) == (rate is None)


def test_a_replacement_ends_the_trial_of_the_increase_before_it():
    limited = {"batch_s": 12.0, "backlog_excess": 90.0, "processed_rate": 500.0}
    plans = decision_settings(Fixed(3), replace_slow=True)
    _, state = decide(seen(AT, executors=2, **limited), plans.initial(), plans)
    state = learn(outcome(OutcomeStatus.APPLIED, 3, 2, 3), state, plans)
    assert state.guard.trial is not None
    assert (state.guard.trial.before, state.guard.trial.after) == (2, 3)
    come, state = decide(seen(AT + 15, **{**SLOW, **limited, "executors": 3}, requested=3), state, plans)
    assert (come.target, come.reason.code) == (4, ReasonCode.SLOW_EXECUTOR)
    state = learn(outcome(OutcomeStatus.APPLIED, 4, 3, 4, decision_id=2), state, plans)
    assert state.guard.trial is None


def test_nobody_goes_if_nobody_came():
    plans = decision_settings(Fixed(None), replace_slow=True, no_room_backoff_s=60.0)
    _, state = decide(seen(AT, **SLOW), plans.initial(), plans)
    state = learn(outcome(OutcomeStatus.NO_ROOM, 6, 5, 5), state, plans)
    later, state = decide(seen(AT + 15, **SLOW, requested=5), state, plans)
    assert (later.target, later.reason.code, state.guard.replacing) == (5, ReasonCode.NO_ROOM, None)


def test_in_any_decrease_the_slow_one_goes_first():
    plans = decision_settings(Fixed(3))
    assert decide(seen(AT, **SLOW), plans.initial(), plans)[0].first == ("7",)


def test_a_hold_names_the_slow_one_too():
    plans = decision_settings(Fixed(5))
    decision, _ = decide(seen(AT, **SLOW), plans.initial(), plans)
    assert decision.reason.text == "as told; slow: executor 7 on b (3.0 × the task time of the others)"
    assert decision.reason.figures == {"slow_factor": 3.04}
