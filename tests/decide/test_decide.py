from dataclasses import replace
from typing import Any

import pytest
from tests.policies.samples import OVERLOAD, Fixed, decision_settings, outcome, reactive, seen

from rheostat.config.models import GuardSettings
from rheostat.decide.decide import DecisionSettings, decide, learn
from rheostat.decide.failures import Watch
from rheostat.decide.state import GuardState, PastRecommendation, Pending, RequestState, State
from rheostat.errors import InputError, JournalError
from rheostat.model import Action, Answer, Bounds, Objective, OutcomeStatus, Projection, ReasonCode


def test_a_decision_tells_everything():
    policy = Fixed(5)
    policy.capacity_each = 200.0
    decision, state = decide(seen(executors=3), decision_settings(policy).initial(), decision_settings(policy))
    assert (decision.action, decision.current, decision.target, decision.decision_id) == (Action.UP, 3, 5, 1)
    assert decision.reason.code is ReasonCode.FIXED
    assert decision.projections == (
        Projection(2, 400.0, 1.5),
        Projection(3, 600.0, 1.0),
        Projection(4, 800.0, 0.75),
    )
    pending = Pending(1, 1000.0, 3, 5, rate=1000.0, settled=3)
    answer = Answer(recommended=5, target=5)
    assert state == State(1, GuardState(started_at=1000.0, pending=pending), 2, at=1000.0, answer=answer)


def test_without_a_model_projections_are_unknown_and_start_at_one():
    decision, _ = decide(seen(executors=1), decision_settings(Fixed(1)).initial(), decision_settings(Fixed(1)))
    assert decision.projections == (Projection(1), Projection(2))


def test_the_current_target_is_the_number_asked_for():
    settings = decision_settings(Fixed(4))
    decision, _ = decide(seen(executors=3, requested=4), settings.initial(), settings)
    assert (decision.action, decision.current) == (Action.HOLD, 4)


def test_more_executors_than_were_asked_for_are_given_back_one_by_one():
    decision, _ = decide(
        seen(executors=3, requested=1),
        decision_settings(Fixed(1)).initial(),
        decision_settings(Fixed(1), largest_step_down=1),
    )
    assert (decision.action, decision.current, decision.target) == (Action.DOWN, 3, 2)


class TestFiguresThatAreTwoMinutesOld:
    """3 → 5 was decided at 1000 s and done at 1004 s."""

    def changed(self, status: OutcomeStatus = OutcomeStatus.APPLIED):
        plans = decision_settings(Fixed(5), metrics_delay_s=120.0, cooldown_down_s=0.0)
        _, state = decide(seen(executors=3), plans.initial(), plans)
        return plans, learn(outcome(status, 5, 3, 5), state, plans)

    def old(self, at: float, executors: int):
        return seen(at, executors=executors, requested=executors, metrics_age_s=120.0)

    def test_do_not_bring_the_number_before_the_change_back(self):
        plans, state = self.changed()
        decision, _ = decide(self.old(1120.0, 3), state, plans)
        assert (decision.action, decision.current, decision.target) == (Action.HOLD, 5, 5)

    def test_count_again_once_they_are_of_after_it(self):
        plans, state = self.changed()
        assert decide(self.old(1124.0, 4), state, plans)[0].current == 4

    def test_are_what_there_is_in_a_dry_run(self):
        plans, state = self.changed(OutcomeStatus.RECORDED)
        assert decide(self.old(1120.0, 3), state, plans)[0].current == 3

    def test_know_of_no_batch_at_the_new_number(self):
        plans, state = self.changed()
        plans = replace(plans, policy=Fixed(4), guard=plans.guard.model_copy(update={"hold_s": None}))
        decision, _ = decide(self.old(1120.0, 3), state, plans)
        assert (decision.target, decision.reason.code) == (5, ReasonCode.HOLD_AFTER_RESCALE)
        assert decide(self.old(1130.0, 5), state, plans)[0].target == 4

    @pytest.mark.parametrize(("age_s", "target"), [(150.0, 5), (151.0, 3)])
    def test_are_stale_two_sample_periods_after_their_known_delay(self, age_s, target):
        plans = decision_settings(Fixed(5), metrics_delay_s=120.0)
        decision, _ = decide(seen(executors=3, metrics_age_s=age_s), plans.initial(), plans)
        assert decision.target == target
        assert (decision.reason.code is ReasonCode.METRICS_STALE) == (target == 3)


class TestAChangeUnderWay:
    def start_change(self, target: int = 5, **guard: Any):
        plans = decision_settings(Fixed(target), **guard)
        _, state = decide(seen(executors=3), plans.initial(), plans)
        return plans, state

    def test_is_not_decided_again(self):
        plans, state = self.start_change()
        decision, _ = decide(seen(1015.0, executors=3), state, plans)
        assert (decision.action, decision.current, decision.target) == (Action.HOLD, 5, 5)

    def test_can_be_surpassed(self):
        plans, state = self.start_change()
        decision, after = decide(seen(1015.0, executors=3), state, replace(plans, policy=Fixed(7)))
        assert (decision.current, decision.target) == (5, 7)
        assert after.guard.pending == Pending(2, 1015.0, 5, 7, rate=1000.0, settled=3)

    def test_cannot_be_turned_down(self):
        plans, state = self.start_change()
        decision, _ = decide(seen(1015.0, executors=3), state, replace(plans, policy=Fixed(4)))
        assert (decision.target, decision.reason.code) == (5, ReasonCode.RESCALE_RUNNING)

    def test_does_not_count_for_ever(self):
        plans, state = self.start_change(hold_fallback_s=100.0)
        decision, _ = decide(seen(1100.0, executors=3), state, plans)
        assert (decision.current, decision.target) == (3, 5)

    def test_without_an_outcome_an_increase_counts_from_its_decision(self):
        plans, state = self.start_change(hold_fallback_s=100.0, cooldown_down_s=60.0)
        down = replace(plans, policy=Fixed(4))
        held, state = decide(seen(1100.0, executors=5), state, down)
        made, _ = decide(seen(1120.0, executors=5), state, down)
        assert (held.target, held.reason.code) == (5, ReasonCode.ROUND_TRIP)
        assert (made.target, made.reason.code) == (4, ReasonCode.FIXED)

    def test_without_an_outcome_it_does_not_count_before_an_increase_that_was_made_later(self):
        plans, state = self.start_change(hold_fallback_s=100.0)
        _, state = decide(seen(1015.0, executors=3), state, replace(plans, policy=Fixed(7)))
        late = outcome(OutcomeStatus.APPLIED, 5, 3, 5, at=1050.0)
        _, state = decide(seen(1115.0, executors=5), learn(late, state, plans), plans)
        assert (state.guard.pending, state.guard.raised_at) == (None, 1050.0)

    def test_survives_the_outcome_of_an_earlier_one(self):
        plans, state = self.start_change()
        late = outcome(OutcomeStatus.HELD, 2, 3, 3, decision_id=0)
        assert learn(late, state, plans).guard.pending == state.guard.pending


@pytest.mark.parametrize(
    ("end", "learned"),
    [
        pytest.param(
            outcome(OutcomeStatus.APPLIED, 5, 3, 5),
            {
                "changed_at": 1004.0,
                "changed_to": 5,
                "down_blocked_at": 1004.0,
                "raised_at": 1004.0,
                "watch": Watch(3, 5, 3, 1004.0, 300.0),
            },
            id="granted: hold and cooldowns start, the back-off is over",
        ),
        pytest.param(
            outcome(OutcomeStatus.PARTIAL, 5, 3, 4),
            {
                "changed_at": 1004.0,
                "changed_to": 4,
                "down_blocked_at": 1004.0,
                "raised_at": 1004.0,
                "watch": Watch(3, 4, 3, 1004.0, 300.0),
            },
            id="granted in part: the same",
        ),
        pytest.param(
            outcome(OutcomeStatus.RECORDED, 5, 3, 3),
            {"changed_at": 1004.0, "down_blocked_at": 1004.0, "raised_at": 1004.0},
            id="dry run: as if granted",
        ),
        pytest.param(
            outcome(OutcomeStatus.APPLIED, 2, 3, 2),
            {
                "changed_at": 1004.0,
                "changed_to": 2,
                "down_blocked_at": 1004.0,
                "no_room_until": 990.0,
                "backoff_s": 60.0,
                "watch": Watch(3, 2, 3, 1004.0),
            },
            id="fewer: a later refusal still doubles the back-off",
        ),
        pytest.param(
            outcome(OutcomeStatus.NO_ROOM, 5, 3, 3),
            {"no_room_until": 1124.0, "backoff_s": 120.0},
            id="no room: the back-off doubles, no cooldown",
        ),
        pytest.param(
            outcome(OutcomeStatus.NO_ROOM, 5, 3, 4),
            {
                "changed_at": 1004.0,
                "changed_to": 4,
                "down_blocked_at": 1004.0,
                "raised_at": 1004.0,
                "no_room_until": 1124.0,
                "backoff_s": 120.0,
                "watch": Watch(3, 4, 3, 1004.0, 300.0),
            },
            id="no room for all: what came is a change",
        ),
        pytest.param(
            outcome(OutcomeStatus.NO_ROOM, 5, None, None, decision_id=7),
            {"no_room_until": 1124.0, "backoff_s": 120.0, "pending": Pending(1, 1000.0, 3, 5)},
            id="no room, of another decision",
        ),
        pytest.param(
            outcome(OutcomeStatus.FAILED, 5, 3, None),
            {"no_room_until": 1124.0, "backoff_s": 120.0},
            id="failed on the way up: as no room",
        ),
        pytest.param(
            outcome(OutcomeStatus.FAILED, 2, 3, None),
            {"down_blocked_at": 1004.0, "no_room_until": 990.0, "backoff_s": 60.0},
            id="failed on the way down: cooldown of decreases",
        ),
        pytest.param(
            outcome(OutcomeStatus.HELD, 2, 3, 3),
            {"no_room_until": 990.0, "backoff_s": 60.0},
            id="nothing idle",
        ),
    ],
)
def test_what_an_outcome_teaches(end, learned):
    before = GuardState(no_room_until=990.0, backoff_s=60.0, pending=Pending(1, 1000.0, 3, 5))
    assert learn(end, State(0, before), decision_settings(Fixed(3))).guard == GuardState(**learned)


def test_the_back_off_doubles_up_to_its_limit_and_starts_again_after_a_grant():
    plans, state, lengths = decision_settings(Fixed(5)), State(0), []
    for _ in range(6):
        state = learn(outcome(OutcomeStatus.NO_ROOM, 5, 3, 3), state, plans)
        lengths.append(state.guard.backoff_s)
    assert lengths == [60.0, 120.0, 240.0, 480.0, 600.0, 600.0]
    state = learn(outcome(OutcomeStatus.APPLIED, 4, 3, 4), state, plans)
    assert learn(outcome(OutcomeStatus.NO_ROOM, 5, 3, 3), state, plans).guard.backoff_s == 60.0


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        pytest.param({}, 1, id="a good sample"),
        pytest.param({"failed_tasks": 3, "batches": 0}, 1, id="a sample in a time without decreases"),
        pytest.param({"missing": ("lag_s",)}, 0, id="something missing"),
        pytest.param({"metrics_age_s": 31.0}, 0, id="stale"),
        pytest.param({"metrics_age_s": None}, 0, id="of unknown age"),
        pytest.param({"queries": 0}, 0, id="no query"),
        pytest.param({"executors": None, "missing": ("executors",)}, 0, id="number of executors unknown"),
    ],
)
def test_what_the_policy_is_told_does_not_count(changes, counts):
    plans = decision_settings(Fixed(3))
    _, state = decide(seen(**changes), plans.initial(), plans)
    assert state.policy == counts


def test_in_a_hold_of_both_no_sample_counts():
    plans = decision_settings(Fixed(9), hold_s=240.0, hold_both=True)
    state = State(0, GuardState(started_at=0.0, changed_at=900.0))
    decision, after = decide(seen(), state, plans)
    assert (decision.reason.code, after.policy) == (ReasonCode.HOLD_AFTER_RESCALE, 0)


def test_an_unknown_number_of_executors_is_left_alone():
    plans = decision_settings(Fixed(9))
    decision, state = decide(seen(executors=None, missing=("executors",)), plans.initial(), plans)
    assert (decision.action, decision.current, decision.target) == (Action.HOLD, None, None)
    assert (decision.reason.code, state.next_id) == (ReasonCode.METRICS_MISSING, 2)


def test_a_policy_can_do_a_step_itself():
    down = seen(executors=5)
    decision, _ = decide(down, State(0), decision_settings(Fixed(2), largest_step_down=1))
    assert decision.target == 4
    decision, _ = decide(down, State(0), decision_settings(Fixed(2, frozenset({"largest_step"})), largest_step_down=1))
    assert decision.target == 2


def test_no_policy_can_do_the_steps_itself_that_keep_it_safe():
    with pytest.raises(InputError) as caught:
        decision_settings(Fixed(2, frozenset({"metrics_missing", "bounds", "hold", "most_round_trips"})))
    assert caught.value.faults[0].given == "bounds, metrics_missing, most_round_trips"


def test_the_state_survives_json():
    plans = DecisionSettings(reactive(), Bounds(1, 9), GuardSettings(), Objective(30.0), 15.0)
    _, state = decide(replace(OVERLOAD, executors=1), plans.initial(), plans)
    _, state = decide(replace(OVERLOAD, at=1015.0, executors=1), state, plans)
    state = learn(outcome(OutcomeStatus.NO_ROOM, 5, 1, 1), state, plans)
    assert plans.state_adapter.validate_json(plans.state_adapter.dump_json(state)) == state
    assert plans.state_adapter.validate_python(plans.state_adapter.dump_python(state, mode="json")) == state


def test_the_window_of_proposals_is_bounded_and_holds_the_greatest():
    """40 falling proposals, 15 s apart: 32 are kept, among them the first, which stands for ten minutes."""
    policy = Fixed(60)
    plans = decision_settings(policy, (1, 100), scale_down_hold_s=600.0)
    state = plans.initial()
    for number in range(40):
        policy.target = 60 - number
        decision, state = decide(seen(1000.0 + 15 * number, executors=60), state, plans)
        assert decision.action is Action.HOLD
    assert len(state.guard.proposed) == 32
    assert state.guard.proposed[0] == PastRecommendation(1000.0, 60)
    decision, _ = decide(seen(1600.0, executors=60), state, plans)
    assert decision.target == state.guard.proposed[1].target < 60
    assert decision.reason.code is ReasonCode.SCALE_DOWN_HOLD


def test_a_switch_that_is_off_leaves_no_proposals_behind():
    policy = Fixed(3)
    state = replace(decision_settings(policy).initial(), guard=GuardState(proposed=(PastRecommendation(990.0, 9),)))
    _, after = decide(seen(executors=3), state, decision_settings(policy))
    assert after.guard.proposed == ()


# ------------------------------------------------------------------------------------------- states of version 0.1


def parts(**changes: Any) -> dict[str, Any]:
    """The three parts that version 0.1 wrote, with changes."""
    return {"plan": {"policy": 3, "guard": {"started_at": 5.0}, "next_id": 9}, "analysis": {}, "own": {}, **changes}


@pytest.mark.parametrize(
    ("data", "state"),
    [
        pytest.param(parts(), State(3, GuardState(started_at=5.0), 9), id="whole"),
        pytest.param(parts(plan={"policy": 3}), State(3), id="defaults"),
        pytest.param(parts(own={"target": 4}), State(3, GuardState(5.0), 9, RequestState(target=4)), id="requests"),
    ],
)
def test_a_state_of_version_0_1_is_read(data, state):
    assert decision_settings(Fixed(2)).state_from_json(data) == state


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(parts(plan=None), "plan is not a mapping", id="null"),
        pytest.param(parts(plan=[1]), "plan is not a mapping", id="a list"),
        pytest.param(parts(plan="policy"), "plan is not a mapping", id="text"),
        pytest.param(parts(plan={}), "policy: this key is required", id="no policy"),
        pytest.param({"plan": {"policy": 3}}, "analysis, own: this key is required", id="no other parts"),
        pytest.param({}, "policy, guard, next_id, requests, analysis: this key is required", id="empty"),
        pytest.param(parts(analysis=5), "analysis: input should hold keys with values (given: 5)", id="a number"),
        pytest.param(
            parts(plan={"policy": "x", "guard": {"backoff_s": "y"}, "next_id": "z"}, own=7),
            "policy: input should be a valid integer (given: 'x'); "
            "guard.backoff_s: input should be a valid number (given: 'y'); "
            "next_id: input should be a valid integer (given: 'z'); and 1 more",
            id="everything",
        ),
    ],
)
def test_a_damaged_state_is_refused_in_one_line(data, reason):
    with pytest.raises(JournalError) as caught:
        decision_settings(Fixed(2)).state_from_json(data)
    assert str(caught.value) == f"the state does not fit this version or the policy fixed: {reason}"
