from dataclasses import replace
from typing import Any

import pytest
from tests.policies.options import documented
from tests.policies.samples import seen

from rheostat.config.models import GuardSettings
from rheostat.decide.decide import STEPS, DecisionSettings, decide
from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.errors import InputError
from rheostat.model import Action, Bounds, Decision, Objective, ReasonCode
from rheostat.policies.schedule import OPEN_LOOP, SchedulePolicy, ScheduleState
from rheostat.testing.policies import check_policy

CONTEXT = PolicyContext(Objective(30.0), 15.0)
TABLE = [[0, 3], [30, 6], [60.0, 2]]


def schedule(steps: Any = TABLE) -> SchedulePolicy:
    policy = load_policy("schedule", {"steps": steps}, CONTEXT)
    assert isinstance(policy, SchedulePolicy)
    return policy


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        pytest.param(0.0, 3, id="the first step"),
        pytest.param(29.9, 3, id="just before the second step"),
        pytest.param(30.0, 6, id="at the second step"),
        pytest.param(59.9999999, 2, id="rounding does not cost a sample"),
        pytest.param(1e6, 2, id="the last step lasts"),
    ],
)
def test_the_timetable_has(second, expected):
    proposal, _ = schedule().recommend(seen(1000.0 + second, executors=4), ScheduleState(1000.0))
    assert (proposal.target, proposal.reason.code) == (expected, ReasonCode.FIXED)


@pytest.mark.parametrize("steps", [[], [[20, 7]]], ids=["no timetable", "before its first step"])
def test_the_number_in_force_stays(steps):
    policy = schedule(steps)
    proposal, _ = policy.recommend(seen(executors=4, requested=5), policy.initial())
    assert (proposal.target, proposal.reason.code) == (5, ReasonCode.FIXED)


def test_the_clock_starts_with_the_first_decision_even_a_blind_one():
    policy = schedule()
    blind, state = policy.recommend(seen(1000.0, missing=("lag_s",)), policy.initial())
    proposal, state = policy.recommend(seen(1030.0), state)
    assert (blind.target, blind.reason.code) == (None, ReasonCode.METRICS_MISSING)
    assert (proposal.target, state) == (6, ScheduleState(1000.0))


def test_the_sentence_says_which_step():
    proposal, _ = schedule().recommend(seen(1045.0, executors=4), ScheduleState(1000.0))
    assert proposal.reason.text == "second 45: the timetable has 6 executors from second 30 on: 4 → 6"


def decisions(guard: GuardSettings, **changes: Any) -> list[Decision]:
    """Through the decision_settings, each 15 s for 75 s; no outcome is ever told, so each change stays under way."""
    decision_settings = DecisionSettings(schedule(), Bounds(1, 20), guard, Objective(30.0), 15.0)
    state, number, made = decision_settings.initial(), 3, list[Decision]()
    for step in range(6):
        sample = replace(seen(1000.0 + 15 * step, executors=number, batches=0, partitions=2), **changes)
        decision, state = decide(sample, state, decision_settings)
        number = decision.target or number
        made.append(decision)
    return made


TROUBLE = {"backlog_excess": 9000.0, "failed_tasks": 3, "metrics_age_s": 200.0}


def test_open_loop_nothing_delays_it():
    """Cold, failing, behind, with old figures, more executors than partitions, a step of 4, a change under way."""
    made = decisions(GuardSettings(**OPEN_LOOP), **TROUBLE)
    assert [d.target for d in made] == [3, 3, 6, 6, 2, 2]


def test_with_the_default_guards_a_backlog_delays_the_way_down():
    made = decisions(GuardSettings(), backlog_excess=9000.0)
    assert [d.target for d in made] == [3, 3, 6, 6, 6, 6]
    assert {d.action for d in made[4:]} == {Action.HOLD}


@pytest.mark.parametrize(
    ("steps", "fields"),
    [
        pytest.param([[0, 3], [30, 0], [-1, 2]], {"steps.1", "steps.2"}, id="each bad pair is named"),
        pytest.param([[0, 3], [30, 4], [30, 2]], {"steps"}, id="seconds that do not ascend"),
        pytest.param([[0, 2.5]], {"steps.0"}, id="half an executor"),
        pytest.param("0:3", {"steps"}, id="text"),
    ],
)
def test_a_wrong_timetable_is_refused(steps, fields):
    with pytest.raises(InputError) as caught:
        schedule(steps)
    assert {fault.field for fault in caught.value.faults} == {f"policy_options.{field}" for field in fields}


def test_it_conforms():
    check_policy(lambda: schedule([[0, 3], [300, 6], [900, 2]]))


def test_the_page_has_its_options():
    assert documented("schedule") == [["steps", "[]"]]


def test_it_brings_every_step_that_a_policy_may_bring():
    assert SchedulePolicy.self_managed_steps == {step.name for step in STEPS if step.self_manageable}
