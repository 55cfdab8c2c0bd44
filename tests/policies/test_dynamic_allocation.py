"""What Spark's manager would ask for: its own tables, and batches worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.policies import options as page
from tests.policies.samples import decision_settings, seen

from rheostat.decide.decide import decide
from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.model import Action, Objective, ReasonCode
from rheostat.policies.dynamic_allocation import (
    DynamicAllocationPolicy,
    DynamicAllocationState,
    grow,
    rounds_passed,
    useful_executors,
    waiting_s,
)


def policy(preset: str = "faithful", **options: Any) -> DynamicAllocationPolicy:
    built = load_policy("dynamic-allocation", options, PolicyContext(Objective(30.0), 15.0, preset))
    assert isinstance(built, DynamicAllocationPolicy)
    return built


def sample(at: float = 1000.0, **changes: Any):
    """Three executors of one slot, 24 tasks, the batch 7 of 12 s has ended: 8 waves, tasks waited for 10.5 s."""
    figures: dict[str, Any] = {"partitions": 24, "batch_s": 12.0, "last_batch_s": 12.0, "last_batch_id": 7}
    return seen(at, **{**figures, "running": False, "active_tasks": 0, "idle_s": (), **changes})


# ------------------------------------------------------------------------------------ the source's tables


@pytest.mark.parametrize(
    ("start", "most", "targets"),
    [
        pytest.param(1, 10, [2, 4, 8, 10, 10], id="add executors"),
        pytest.param(0, 5, [1, 3, 5, 5], id="add executors capped by num pending tasks"),
        pytest.param(15, 1000, [16], id="avoid ramp up when target < running executors"),
        pytest.param(0, 20, [1, 1 + 2, 1 + 2 + 4], id="mock polling loop add behavior"),
        pytest.param(7, 20, [7 + 1, 7 + 1 + 2, 7 + 1 + 2 + 4, 20], id="mock polling loop, backlogged again"),
    ],
)
def test_rounds_double_until_the_tasks_have_their_slots(start, most, targets):
    """apache/spark, core/src/test/scala/org/apache/spark/ExecutorAllocationManagerSuite.scala, tests of these names."""
    assert [grow(start, 1, rounds, most)[0] for rounds in range(1, len(targets) + 1)] == targets


@pytest.mark.parametrize(
    ("cores", "ratio", "expected"),
    [(1, 0.5, 10), (1, 1 / 3, 7), (2, 1 / 3, 4), (1, 0.385, 8), (1, 1.0, 20), (4, 1 / 3, 2)],
)
def test_the_allocation_ratio(cores, ratio, expected):
    """The same suite, "executionAllocationRatio is correctly handled": 20 tasks; the bounds 3, 15 are the guard's."""
    assert useful_executors(20, cores, ratio) == expected


def test_the_number_that_a_limited_round_leaves_for_the_next():
    """The same suite, "add executors": numExecutorsToAdd after each round."""
    assert [grow(1, 1, rounds, 10)[1] for rounds in range(5)] == [1, 2, 4, 8, 1]


@pytest.mark.parametrize(
    ("idle_s", "expected"),
    [
        pytest.param((30.0, 30.0, 30.0), 3, id="idle threshold not reached yet"),
        pytest.param((90.0, 90.0, 90.0), 1, id="idle threshold exceeded, one remains"),
        pytest.param((90.0, 10.0), 2, id="only the expired one"),
    ],
)
def test_idle_executors_are_given_back(idle_s, expected):
    """The same suite, "mock polling loop remove behavior": three executors, at least one."""
    proposal, _ = policy().recommend(sample(idle_s=idle_s, batch_s=0.5, last_batch_s=0.5), DynamicAllocationState(7))
    assert proposal.target == expected


# ------------------------------------------------------------------------------------------------ by hand


@pytest.mark.parametrize(
    ("batch_s", "tasks", "slots", "expected"),
    [
        pytest.param(12.0, 24, 3, 10.5, id="8 waves of 1.5 s, the last one does not wait"),
        pytest.param(12.0, 24, 24, 0.0, id="a slot for each"),
        pytest.param(12.0, 24, 30, 0.0, id="more slots than tasks"),
        pytest.param(12.0, 25, 24, 6.0, id="one task more than slots"),
    ],
)
def test_how_long_tasks_of_a_batch_wait(batch_s, tasks, slots, expected):
    assert waiting_s(batch_s, tasks, slots) == expected


@pytest.mark.parametrize(
    ("waited_s", "rounds"), [(0.0, 0), (4.9, 0), (5.0, 1), (6.9, 1), (7.0, 2), (8.999999999999, 3), (65.0, 31)]
)
def test_rounds_pass_by_the_clock(waited_s, rounds):
    assert rounds_passed(waited_s, first_s=5.0, next_s=2.0) == rounds


@pytest.mark.parametrize(
    ("changes", "options", "expected"),
    [
        pytest.param({}, {}, 24, id="10 rounds: 4, 6, 10, 18, 24"),
        pytest.param({}, {"backlog_timeout_s": 9.0}, 4, id="one round"),
        pytest.param({}, {"backlog_timeout_s": 9.0, "sustained_timeout_s": 1.0}, 6, id="two rounds: 4, 6"),
        pytest.param({}, {"backlog_timeout_s": 11.0}, 3, id="no round"),
        pytest.param({}, {"allocation_ratio": 0.5}, 12, id="half the slots"),
        pytest.param({}, {"tasks": 200}, 200, id="shuffle tasks, 67 waves, 11 rounds"),
        pytest.param({"slots_per_executor": 4}, {}, 6, id="four slots each: 2 waves, 6 s, up to 24 ÷ 4"),
        pytest.param({"active_tasks": 30, "running": True}, {}, 30, id="more tasks run than there are partitions"),
        pytest.param({"requested": 9, "executors": 3}, {"backlog_timeout_s": 9.0}, 9, id="less than is on its way"),
        pytest.param({"requested": 5, "executors": 3}, {"backlog_timeout_s": 4.0}, 6, id="from the registered: 4, 6"),
        pytest.param({"partitions": 3}, {}, 3, id="a slot for each task"),
    ],
)
def test_more_while_tasks_wait(changes, options, expected):
    given = policy(**options)
    proposal, _ = given.recommend(sample(**changes), given.initial())
    assert proposal.target == expected


def test_a_batch_counts_once():
    given = policy(backlog_timeout_s=9.0)
    first, state = given.recommend(sample(), given.initial())
    again, state = given.recommend(sample(1015.0, requested=3), state)
    other, _ = given.recommend(sample(1030.0, last_batch_id=8), state)
    assert (first.target, again.target, other.target) == (4, 3, 4)


def test_a_batch_in_flight_goes_on_where_it_was():
    """After 16 s of it tasks have waited for 14 s, 2 rounds of 7 s: 4, 6. After 32 s, 3 + 3 more: 10 and so on."""
    given = policy(backlog_timeout_s=7.0, tasks=24)
    flight = {"running": True, "active_tasks": 3}
    first, state = given.recommend(sample(batch_s=16.0, **flight), given.initial())
    assert (first.target, state) == (6, DynamicAllocationState(7, 2, 4))
    # 6 executors of one slot by now: 4 waves; of 32 s tasks waited for 24 s, the third round adds 4
    then, state = given.recommend(sample(1015.0, executors=6, requested=6, batch_s=32.0, **flight), state)
    assert (then.target, state) == (10, DynamicAllocationState(7, 3, 8))
    # it has ended after 40 s; 10 executors, 3 waves, 26.7 s, no fourth round
    ended, state = given.recommend(
        sample(1030.0, executors=10, batch_s=40.0, last_batch_s=40.0, last_batch_id=8), state
    )
    assert (ended.target, state) == (10, DynamicAllocationState(8, 0, 1))


def test_a_new_batch_begins_anew_from_the_registered_ones():
    given = policy(backlog_timeout_s=9.0)
    proposal, _ = given.recommend(sample(last_batch_id=9), DynamicAllocationState(7, 5, 16))
    assert proposal.target == 4


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"running": True, "active_tasks": 4}, 4, id="batch in flight: a slot for each of its 4 tasks"),
        pytest.param({"running": False}, 1, id="between two batches there are no tasks: long triggers lose executors"),
        pytest.param({"running": None}, 4, id="unknown: as if one were in flight"),
    ],
)
def test_no_fewer_than_the_tasks_of_now_need(changes, expected):
    given = policy(tasks=4)
    crowd = sample(executors=6, idle_s=(80.0,) * 6, batch_s=2.0, last_batch_s=2.0, **changes)
    proposal, _ = given.recommend(crowd, given.initial())
    assert (proposal.target, proposal.reason.code) == (expected, ReasonCode.OVERSIZED)


def test_tuned_waits_for_a_trigger_and_two():
    """Trigger 10 s: 10.5 s of waiting are one round. Trigger 90 s: 100 s without a task are between two triggers."""
    given = policy("tuned")
    up, _ = given.recommend(sample(), given.initial())
    kept, _ = given.recommend(sample(trigger_s=90.0, idle_s=(100.0,), batch_s=2.0), DynamicAllocationState(7))
    gone, _ = given.recommend(sample(trigger_s=90.0, idle_s=(180.0,), batch_s=2.0), DynamicAllocationState(7))
    assert (up.target, kept.target, gone.target) == (4, 3, 2)


@pytest.mark.parametrize("changes", [{"missing": ("lag_s",)}, {"partitions": None}, {"executors": 0}])
def test_no_opinion_where_the_tasks_are_unknown(changes):
    given = policy()
    proposal, state = given.recommend(sample(**changes), DynamicAllocationState(6, 4, 16))
    assert (proposal.target, proposal.reason.code) == (None, ReasonCode.METRICS_MISSING)
    assert state == DynamicAllocationState(7)


def test_through_the_guard_all_expired_ones_go_at_once():
    plans = decision_settings(policy(), largest_step_down=1, cooldown_down_s=300.0)
    decision, _ = decide(sample(executors=6, idle_s=(80.0,) * 5, batch_s=0.5, last_batch_s=0.5), plans.initial(), plans)
    assert (decision.action, decision.target) == (Action.DOWN, 1)


def test_the_sentence():
    given = policy()
    proposal, _ = given.recommend(sample(), given.initial())
    assert proposal.reason.text == (
        "24 tasks on 3 executors wait for 10 s of a batch of 12 s, 1.0 s are allowed: 3 → 24"
    )


def test_the_page_has_its_options():
    assert page.documented("dynamic-allocation") == page.expected(DynamicAllocationPolicy, "tuned")
