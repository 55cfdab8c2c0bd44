"""Failed tasks as a share, and changes that are answered by failures."""

from dataclasses import replace
from itertools import pairwise

import pytest
from tests.policies.samples import Fixed, decision_settings, outcome, seen

from rheostat.decide.decide import decide, learn
from rheostat.decide.failures import ANSWER_S, Refused, Watch, stand, start_watch, watch_again
from rheostat.decide.state import GuardState, State
from rheostat.model import Bounds, OutcomeStatus, ReasonCode

AT = 1000.0


@pytest.mark.parametrize(
    ("figures", "guard", "holds"),
    [
        pytest.param({"failed_tasks": 1, "ended_tasks": 8}, {}, False, id="one of eight: a task is tried again"),
        pytest.param({"failed_tasks": 2, "ended_tasks": 41}, {}, False, id="less than a twentieth"),
        pytest.param({"failed_tasks": 2, "ended_tasks": 40}, {}, True, id="a twentieth"),
        pytest.param({"failed_tasks": 1}, {}, True, id="of an unknown number"),
        pytest.param(
            {"failed_tasks": 9, "ended_tasks": 40}, {"failing_since": AT - 599.0}, True, id="for nine windows"
        ),
        pytest.param({"failed_tasks": 9, "ended_tasks": 40}, {"failing_since": AT - 600.0}, False, id="for ten"),
        pytest.param(
            {"failed_tasks": 9, "ended_tasks": 40},
            {"refused_up": Refused(2, 5, 2, AT - 60.0, 600.0, "9 tasks failed", undone=True)},
            False,
            id="because of too many executors",
        ),
    ],
)
def test_when_failed_tasks_hold_a_decrease(figures, guard, holds):
    settings = decision_settings(Fixed(2))
    decision, _ = decide(seen(executors=3, **figures), State(0, GuardState(**guard)), settings)
    assert (decision.reason.code is ReasonCode.TASK_FAILURES) is holds


# A change, and what answers it


class Story:
    """Decisions 30 s apart of a policy that always wants the same; every change is made at once."""

    def __init__(self, executors, wants, **guard):
        self.executors, self.at = executors, AT
        self.settings = decision_settings(Fixed(wants), cooldown_down_s=0.0, largest_step_down=None, **guard)
        self.state = self.settings.initial()

    def sees(self, **figures):
        given = {"executors": self.executors, "requested": self.executors, "ended_tasks": 100, "failed_tasks": 0}
        decision, self.state = decide(seen(self.at, **{**given, **figures}), self.state, self.settings)
        if decision.acts and decision.target is not None:
            number, target = decision.decision_id, decision.target
            end = outcome(OutcomeStatus.APPLIED, target, decision.current, target, at=self.at, decision_id=number)
            self.state = learn(end, self.state, self.settings)
            self.executors = decision.target
        self.at += 30.0
        return decision

    def rests(self, seconds):
        self.at += seconds


def test_a_decrease_after_which_an_executor_dies_is_taken_back_and_not_made_again():
    story = Story(6, 4)
    assert story.sees().target == 4
    assert story.sees(lost_executors=1).target == 4, "one death is chance"
    back = story.sees(lost_executors=1)
    assert (back.target, back.reason.code) == (6, ReasonCode.FAILED_BEFORE)
    assert (
        back.reason.text
        == "6 → 4 was answered by failures (executors died again and again), not again for 600 s: 4 → 6"
    )
    held = story.sees()
    assert (held.target, held.reason.code) == (6, ReasonCode.FAILED_BEFORE)
    assert "the next try is in" in held.reason.text


def test_after_the_back_off_half_of_it_is_tried_and_each_answer_doubles_the_next():
    story, tries = Story(6, 2), []
    for _ in range(4):
        while story.sees().target == 6:
            assert story.at < AT + 40_000.0
        tries.append((story.executors, story.at))
        while story.executors != 6:
            story.sees(lost_executors=2)
    assert [target for target, _ in tries] == [2, 4, 5, 5]
    waits = [later - at for (_, at), (_, later) in pairwise(tries)]
    assert [wait // 600.0 for wait in waits] == [1.0, 2.0, 4.0]


def test_a_decrease_that_stands_makes_the_next_one_free():
    refused = Refused(6, 2, 6, AT, 600.0, "2 executors died", undone=True)
    assert stand(refused, Watch(6, 4, 6, AT + 600.0)) == refused._replace(before=4)
    assert stand(refused, Watch(4, 2, 4, AT + 600.0)) is None
    assert stand(refused, Watch(7, 6, 7, AT + 600.0)) == refused


def test_failures_that_go_on_lead_back_to_where_the_changes_began():
    story = Story(6, 5)
    story.sees()
    story.settings = decision_settings(Fixed(4), cooldown_down_s=0.0, largest_step_down=None)
    assert story.sees().target == 4
    story.sees(lost_executors=1)
    assert story.sees(lost_executors=1).target == 5
    assert story.sees(lost_executors=1).target == 6


def test_an_increase_that_makes_tasks_fail_is_taken_back_once_they_are_all_of_after_it():
    story = Story(6, 12)
    assert story.sees().target == 12
    assert story.sees(failed_tasks=20).target == 12, "some of these may be of before"
    back = story.sees(failed_tasks=30)
    assert (back.target, back.reason.code) == (6, ReasonCode.FAILED_BEFORE)
    assert "30 % of the tasks failed" in back.reason.text
    assert story.sees().reason.code is ReasonCode.FAILED_BEFORE


@pytest.mark.parametrize(
    ("stood_s", "target"),
    [
        pytest.param(300.0, 4, id="4 stood well: the increase is the cause"),
        pytest.param(60.0, 8, id="4 was too short: the first decrease is"),
    ],
)
def test_an_increase_after_a_decrease_that_stood_is_what_failures_answer(stood_s, target):
    story = Story(8, 4)
    assert story.sees().target == 4
    story.rests(stood_s)
    story.settings = decision_settings(Fixed(6), cooldown_down_s=0.0)
    assert story.sees().target == 6
    story.rests(30.0)
    assert story.sees(failed_tasks=30).target == target


def test_what_an_increase_is_taken_back_to_is_watched_no_longer_than_an_increase():
    """4 → 6 → 8, and tasks fail: back to 6, which has five minutes to show that they fail there too."""
    refused = Refused(6, 8, 4, AT, 600.0, "9 tasks failed")
    assert watch_again(refused, AT) == Watch(4, 6, 4, AT, window_s=300.0, deaths=1)


def test_executors_that_died_as_often_before_are_no_answer():
    story = Story(6, 6)
    story.sees(lost_executors=1)
    story.rests(60.0)
    story.settings = decision_settings(Fixed(4), cooldown_down_s=0.0, largest_step_down=None)
    assert story.sees().target == 4
    for _ in range(6):
        story.rests(60.0)
        assert story.sees(lost_executors=1).target == 4


@pytest.mark.parametrize(("lost", "target"), [(2, 90), (3, 100)])
def test_of_many_executors_a_twentieth_must_die(lost, target):
    story = Story(100, 90)
    story.settings = replace(story.settings, bounds=Bounds(1, 100))
    story.sees()
    story.sees(lost_executors=2)
    assert story.sees(lost_executors=lost).target == target


@pytest.mark.parametrize(
    ("executors", "wants", "before", "after"),
    [
        pytest.param(6, 12, {"failed_tasks": 30}, {"failed_tasks": 30}, id="tasks failed before the increase too"),
        pytest.param(6, 12, {}, {"lost_executors": 1}, id="an executor dies after an increase"),
        pytest.param(6, 12, {}, {"failed_tasks": 3}, id="few tasks fail"),
    ],
)
def test_what_is_no_answer(executors, wants, before, after):
    story = Story(executors, wants)
    story.sees(**before)
    for _ in range(6):
        assert story.sees(**after).target == wants


def test_after_a_short_quiet_time_the_answer_must_come_as_soon():
    """Executors that die now and then, as on spot machines, are not the answer to what was done in between."""
    assert start_watch(6, 5, AT, None, failing=False, lost_at=None).window_s == ANSWER_S
    assert start_watch(6, 5, AT, None, failing=False, lost_at=AT - 90.0).window_s == 90.0


def test_policies_that_want_more_than_before_go_on():
    story = Story(6, 5)
    story.sees()
    story.settings = decision_settings(Fixed(9), cooldown_down_s=0.0)
    decision = story.sees(lost_executors=1)
    assert (decision.target, decision.reason.code) == (9, ReasonCode.FIXED)
