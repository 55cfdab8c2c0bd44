from itertools import pairwise

import pytest
from hypothesis import given as over
from hypothesis import strategies as st
from pydantic import ValidationError

from rheostat.model import ReasonCode
from rheostat.policies.hpa import DOWN, UP, Asked, Behavior, BehaviorState, Pace, Rules, Shaped, limit_pace

ANY = (Pace(by="executors", value=10_000, period_s=60.0),)
BOTH = ((2, 60.0, "executors"), (50, 60.0, "percent"))


def rules(*paces: tuple[int, float, str], select: str = "max", window_s: float = 0.0) -> Rules:
    each = [Pace.model_validate({"value": value, "period_s": period, "by": by}) for value, period, by in paces]
    return Rules.model_validate({"stabilization_s": window_s, "select": select, "policies": each})


def spread(*changes: int, over_s: float = 120.0) -> tuple[Asked, ...]:
    """Changes in the middle of equal parts of the time before 0."""
    part = over_s / len(changes)
    return tuple(Asked(-(over_s - part * (place + 0.5)), change) for place, change in enumerate(changes))


def percent(value: int, period_s: float = 60.0) -> tuple[int, float, str]:
    return value, period_s, "percent"


def pods(value: int, period_s: float = 60.0) -> tuple[int, float, str]:
    return value, period_s, "executors"


@pytest.mark.parametrize(
    ("current", "wanted", "given", "before", "expected"),
    [
        pytest.param(3, 1000, rules(percent(1)), (), 4, id="scaleUpLimit < maxReplicas with user policies"),
        pytest.param(10, 50, UP, (), 20, id="scaleUp with default behavior"),
        pytest.param(10, 500, rules(pods(100), percent(100)), (), 110, id="pods policy larger than percent policy"),
        pytest.param(10, 500, rules(pods(2), percent(100)), (), 20, id="percent policy larger than pods policy"),
        pytest.param(10, 50, rules(pods(100)), (), 50, id="large pod policy"),
        pytest.param(10, 50, rules(pods(30)), (), 40, id="scaleUp with pod policy limitation"),
        pytest.param(10, 50, rules(percent(200)), (), 30, id="scaleUp with percent policy limitation"),
        pytest.param(100, 500, rules(pods(5, 120)), spread(1, 5, 9), 100, id="a lot of recent scale up events"),
        pytest.param(100, 500, rules(pods(150, 120)), spread(1, 5, 9), 235, id="pod policy and scale up events"),
        pytest.param(100, 500, rules(percent(200, 120)), spread(1, 5, 9), 255, id="percent policy and scale up events"),
        pytest.param(100, 200, rules(pods(1000)), spread(8, 12, 9, 11), 200, id="outdated events for up"),
        pytest.param(100, 2, rules(pods(20), percent(1)), (), 80, id="pod policy larger than percent, down"),
        pytest.param(100, 2, rules(pods(2), percent(1)), (), 98, id="scaleDown with small pod policy"),
        pytest.param(10, 2, rules(pods(5)), (), 5, id="scaleDown with pod policy limitation"),
        pytest.param(10, 5, rules(percent(50)), (), 5, id="scaleDown with percent policy limitation"),
        pytest.param(10, 5, DOWN, spread(-1, -5, -9), 5, id="scaleDown with default policy and previous events"),
        pytest.param(100, 2, rules(pods(5, 120)), spread(-1, -5, -9), 100, id="pod policy and scale down events"),
        pytest.param(100, 0, rules(percent(50, 120)), spread(-2, -4, -6), 56, id="percent and scale down events"),
        pytest.param(100, 0, rules(percent(10, 120)), spread(-10, -10, -10), 100, id="events prevent scale down"),
        pytest.param(10, 5, rules(percent(1000, 120)), spread(-10, -10, -10), 5, id="events still allow scale down"),
        pytest.param(1, 9, rules(*((2, 60.0, "executors"), (50, 60.0, "percent")), select="min"), (), 2, id="min, up"),
        pytest.param(5, 1, rules(*BOTH, select="min"), (), 3, id="min, down"),
    ],
)
def test_scaling_policies_of_kubernetes(current, wanted, given, before, expected):
    """The tables of the controller's own tests, bounds aside.

    kubernetes/kubernetes, pkg/controller/podautoscaler/horizontal_test.go: TestScalingWithRules,
    TestCalculateScaleUpLimitWithScalingRules, TestCalculateScaleDownLimitWithBehaviors.
    """
    assert limit_pace(wanted, current, before, 0.0, given) == expected


@pytest.mark.parametrize("wanted", [1, 9], ids=["down", "up"])
def test_disabled_is_no_change(wanted):
    assert limit_pace(wanted, 5, (), 0.0, rules(pods(100), select="disabled")) == 5


@pytest.mark.parametrize(
    ("minutes_ago", "current", "desired", "up_s", "down_s", "expected"),
    [
        pytest.param([], 100, 5, 0, 0, 5, id="empty recommendations for scaling down"),
        pytest.param([(2, 4), (1, 5)], 100, 3, 0, 180, 5, id="simple scale down stabilization"),
        pytest.param([(2, 4), (1, 5)], 1, 7, 300, 0, 4, id="simple scale up stabilization"),
        pytest.param([(2, 1), (1, 2)], 100, 3, 300, 0, 3, id="no scale down stabilization"),
        pytest.param([(2, 4), (1, 5)], 1, 3, 0, 300, 3, id="no scale up stabilization"),
        pytest.param([(10, 10), (9, 9)], 100, 3, 0, 0, 3, id="old recommendations, down"),
        pytest.param([(10, 10), (9, 9)], 1, 100, 0, 0, 100, id="old recommendations, up"),
        pytest.param([(10, 10), (9, 9), (2, 5), (1, 4)], 100, 3, 0, 180, 5, id="some are obsolete, down"),
        pytest.param([(100, 10), (3, 9), (2, 5), (1, 6)], 1, 100, 300, 0, 5, id="some are obsolete, up"),
    ],
)
def test_stabilization_of_kubernetes(minutes_ago, current, desired, up_s, down_s, expected):
    """The table of the controller's own test; the first look is long past.

    kubernetes/kubernetes, pkg/controller/podautoscaler/horizontal_test.go: TestNormalizeDesiredReplicasWithBehavior.
    """
    behavior = Behavior(Rules(stabilization_s=up_s, policies=ANY), Rules(stabilization_s=down_s, policies=ANY))
    state = behavior.observe(-1e6, current, BehaviorState())
    for minutes, asked in minutes_ago:
        _, state = behavior.shape(asked, -60.0 * minutes, current, state)
    shaped, _ = behavior.shape(desired, 0.0, current, state)
    assert shaped.target == expected


def ask(behavior: Behavior, wanted: list[int], start: int) -> tuple[list[int], list[ReasonCode | None], BehaviorState]:
    """Asked each 15 s; what comes out is in force at the next look."""
    state, number, targets, codes = BehaviorState(), start, list[int](), list[ReasonCode | None]()
    for place, desired in enumerate(wanted):
        state = behavior.observe(15.0 * place, number, state)
        shaped, state = behavior.shape(desired, 15.0 * place, number, state)
        number = shaped.target
        targets.append(number)
        codes.append(shaped.code)
    return targets, codes, state


def test_down_waits_for_300_s_after_the_first_look():
    targets, codes, _ = ask(Behavior(), [2] * 22, start=5)
    assert targets == [5] * 20 + [2] * 2
    assert codes == [ReasonCode.STABILIZING] * 20 + [None] * 2


def test_down_goes_to_the_most_asked_for_within_the_window():
    targets, _, _ = ask(Behavior(), [6, 4, *[2] * 22], start=6)
    assert targets == [6] * 20 + [4, *[2] * 3]


def test_up_doubles_or_adds_four_each_15_s():
    targets, codes, _ = ask(Behavior(), [40] * 5, start=1)
    assert targets == [5, 10, 20, 40, 40]
    assert codes == [ReasonCode.LARGEST_STEP] * 3 + [None] * 2


def test_a_longer_period_counts_what_was_added_before():
    slow = Behavior(up=rules(pods(3, 60.0)))
    targets, _, _ = ask(slow, [20] * 9, start=1)
    assert targets == [4, 4, 4, 4, 7, 7, 7, 7, 10]


def test_a_change_that_somebody_else_made_counts_too():
    slow = Behavior(up=rules(pods(3, 60.0)))
    state = slow.observe(15.0, 4, slow.observe(0.0, 1, BehaviorState()))
    assert slow.shape(9, 15.0, 4, state)[0].target == 4
    assert state.changes == (Asked(0.0, 3),)


def test_without_a_window_nothing_that_was_asked_for_holds_an_increase_back():
    """Not even after a clock that ran backwards, by which it was asked for in what is now the future."""
    calm = Behavior(up=rules(pods(9, 15.0)))
    _, state = calm.shape(2, 60.0, 2, calm.observe(60.0, 2, BehaviorState()))
    assert calm.shape(5, 30.0, 2, calm.observe(30.0, 2, state))[0] == Shaped(5)


def test_what_is_remembered_stays_small():
    """Only what a later recommendation has not overtaken: at most as many as there are different numbers."""
    _, _, state = ask(Behavior(), [3, 5, 2, 4, 4, 1, 3, 3], start=5)
    assert [each.executors for each in state.highs] == [5, 4, 3]
    assert all(later.at > earlier.at for earlier, later in pairwise(state.highs))


@over(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), min_size=1, max_size=30), st.integers(1, 9))
def test_of_all_that_was_asked_for_within_the_windows_the_least_and_the_greatest_count(asks, current):
    """What is left out of the logs makes no difference: it is compared with logs from which nothing is."""
    behavior = Behavior(Rules(stabilization_s=45.0, policies=ANY), Rules(stabilization_s=60.0, policies=ANY))
    state, at, asked = behavior.observe(0.0, current, BehaviorState()), 0.0, [(0.0, current)]
    for passed, desired in asks:
        at += passed
        shaped, state = behavior.shape(desired, at, current, state)
        least = min([desired, *(number for when, number in asked if when > at - 45)])
        most = max([desired, *(number for when, number in asked if when > at - 60)])
        asked.append((at, desired))
        assert shaped.target == min(max(current, least), most)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"stabilization_s": 0.0, "policies": []}, id="no policy"),
        pytest.param({"stabilization_s": -1.0, "policies": ANY}, id="a negative window"),
        pytest.param({"stabilization_s": 0.0, "select": "median", "policies": ANY}, id="an unknown selection"),
        pytest.param({"stabilization_s": 0.0, "policies": [{"by": "pods", "value": 1, "period_s": 1.0}]}, id="pods"),
    ],
)
def test_what_is_refused(given):
    with pytest.raises(ValidationError):
        Rules.model_validate(given)


def test_lists_of_a_settings_file_are_read():
    given = {"stabilization_s": 60, "policies": [{"by": "percent", "value": 10, "period_s": 30}]}
    assert Rules.model_validate(given).policies == (Pace(by="percent", value=10, period_s=30.0),)
