"""What a policy is told of its last recommendation: what the guard made of it, and how changes ended."""

from dataclasses import replace
from typing import Any

from tests.policies.samples import Fixed, decision_settings, outcome, seen

from rheostat.config.models import Settings
from rheostat.decide.decide import decide, learn
from rheostat.loop.build import build_decision_settings
from rheostat.model import Answer, Assessment, Bounds, OutcomeStatus


class Listens(Fixed):
    """Keeps what it was shown, for the test alone."""

    def __init__(self, target: int | None) -> None:
        super().__init__(target)
        self.shown: list[Assessment] = []

    def recommend(self, assessment, state):
        self.shown.append(assessment)
        return super().recommend(assessment, state)


def test_the_first_time_there_is_no_answer_but_the_bounds():
    policy = Listens(5)
    settings = decision_settings(policy, (2, 9))
    decide(seen(executors=3), settings.initial(), settings)
    assert (policy.shown[0].bounds, policy.shown[0].answer) == (Bounds(2, 9), None)
    assert policy.shown[0].requested == 3


def test_what_the_steps_made_of_a_recommendation_and_the_outcomes_since():
    policy = Listens(8)
    settings = decision_settings(policy, (1, 6), largest_step_up=1)
    _, state = decide(seen(1000.0, executors=3), settings.initial(), settings)
    assert state.answer == Answer(recommended=8, target=4, steps=("largest_step",))
    done = outcome(OutcomeStatus.APPLIED, 4, 3, 4)
    state = learn(done, state, settings)
    again = settings.state_from_json(settings.state_to_json(state))
    assert again.answer == state.answer
    _, later = decide(seen(1015.0, executors=4), state, replace(settings, bounds=Bounds(1, 4)))
    assert policy.shown[1].answer == Answer(8, 4, ("largest_step",), (done,))
    assert policy.shown[1].bounds == Bounds(1, 4)
    assert later.answer == Answer(8, 4, ("largest_step", "bounds"))


def test_a_state_of_before_has_no_answer():
    settings = decision_settings(Fixed(1))
    data = settings.state_to_json(settings.initial())
    del data["answer"]
    assert settings.state_from_json(data) == settings.initial()


def test_decreases_that_follow_an_increase_are_counted_for_an_hour():
    settings = decision_settings(Fixed(1))
    state = settings.initial()
    for number, (at, before, after) in enumerate([(0, 2, 4), (10, 4, 3), (20, 3, 2), (30, 2, 4), (3700, 4, 2)]):
        done = outcome(OutcomeStatus.APPLIED, after, before, after, at=float(at), decision_id=number)
        state = learn(done, state, settings)
        if at == 20:
            assert state.guard.round_trips == (10.0,)
    assert state.guard.round_trips == (3700.0,)


def test_a_policy_is_built_with_the_settings_of_the_guard():
    given = {"objective": "lag < 30s", "executors": (1, 9), "policy": "static", "guard": {"cooldown_down_s": 7}}
    built = build_decision_settings(Settings.model_validate(given))
    policy: Any = built.policy
    assert policy.context.guard == built.guard
    assert built.guard.cooldown_down_s == 7
