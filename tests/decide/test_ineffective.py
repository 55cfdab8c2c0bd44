"""Increases on trial: what they promised, what they brought, and what limits the job where that was nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.policies.samples import Fixed, decision_settings, outcome, seen

from rheostat.decide.decide import decide, learn
from rheostat.decide.effectiveness import (
    Cause,
    Trial,
    Useless,
    find_cause,
    judge_trial,
    limited_rate,
    start_trial,
    update_useless,
)
from rheostat.decide.state import GuardState, Pending, State
from rheostat.model import Action, Assessment, OutcomeStatus, ReasonCode, StageLoad

TRIAL = Trial(before=2, after=4, at=1000.0, rate=800.0)
"""It promised 1600/s; 30 % of the promise are 1040/s."""


def limited(at: float = 1100.0, batches: int = 4, processed: float = 820.0, **changes: Any) -> Assessment:
    """A job on four executors that falls further behind, batches back to back, slots in use."""
    figures = {"executors": 4, "arrival_rate": 1500.0, "backlog_excess": 9000.0, "batch_s": 14.0, "busy_ratio": 0.9}
    return seen(at, **{**figures, "processed_rate": processed, "batches": batches, "draining": False, **changes})


def verdict(**changes: Any) -> Trial | Useless | None:
    """After four warm batches."""
    result: Trial | Useless | None = TRIAL
    for number in range(4, 8):
        if isinstance(result, Trial):
            result = judge_trial(result, limited(1000.0 + 20 * number, number, **changes), 0.3, 600.0)
    return result


def test_no_more_than_before_is_useless():
    assert verdict() == Useless(2, 4, 1140.0, 820.0, 1600.0, 800.0, Cause.BROKER)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"processed": 1040.0}, id="the share of the promise that was asked for"),
        pytest.param({"backlog_excess": 0.0}, id="nothing is left over"),
        pytest.param({"partitions": 7, "slots_per_executor": 1, "processed": 1041.0}, id="more than asked for"),
    ],
)
def test_an_increase_that_did_what_it_was_for_ends_the_trial(changes):
    assert verdict(**changes) is None


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"draining": True}, id="the job catches up"),
        pytest.param({"draining": None}, id="whether it catches up is unknown"),
        pytest.param({"processed": None}, id="the rate is unknown"),
        pytest.param({"executors": 3}, id="not all have come"),
        pytest.param({"missing": ("lag_s",)}, id="something is missing"),
        pytest.param({"batch_s": 6.0}, id="batches wait for their trigger, and are not full"),
    ],
)
def test_what_does_not_count_leaves_the_trial_as_it_is(changes):
    assert verdict(**changes) == TRIAL


def test_the_best_batch_counts_and_a_batch_counts_once():
    first = judge_trial(TRIAL, limited(1100.0, 4, 900.0), 0.3, 600.0)
    assert first == TRIAL._replace(best=900.0, samples=1, batches=4)
    assert isinstance(first, Trial)
    assert judge_trial(first, limited(1110.0, 4, 950.0), 0.3, 600.0) == first
    assert judge_trial(first, limited(1120.0, 5, 850.0), 0.3, 600.0) == first._replace(samples=2, batches=5)


def test_a_trial_that_takes_too_long_says_nothing():
    assert judge_trial(TRIAL, limited(1601.0), 0.3, 600.0) is None


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        pytest.param({"capped": True, "batch_s": 6.0}, Cause.CAPPED, id="full batches that end before the trigger"),
        pytest.param({"sink": "it takes 90 % of the batch"}, Cause.SINK, id="the sink is sick"),
        pytest.param(
            {"partitions": 2, "skew": 2.0, "stages": (StageLoad(64, 1.0),)}, Cause.BROKER, id="two partitions, 64 tasks"
        ),
        pytest.param({"useful_executors": 2}, Cause.PARALLELISM, id="two executors are enough for the largest stage"),
        pytest.param({"skew": 15.0}, Cause.PARTITION, id="one of 30 partitions has half of the records"),
        pytest.param({"partitions": 3, "skew": 1.0}, Cause.BROKER, id="3 partitions: two waves on 2, one on 4"),
        pytest.param({"pressure": 0.0}, Cause.DRIVER, id="the driver's part is the bottleneck"),
        pytest.param({"busy_ratio": 0.2}, Cause.DRIVER, id="slots idle while batches run back to back"),
        pytest.param({"pressure": 1.0}, Cause.BROKER, id="busy, and no faster together"),
        pytest.param({"busy_ratio": None}, None, id="nobody knows"),
    ],
)
def test_the_cause(changes, cause):
    assert find_cause(limited(**changes), TRIAL) is cause


def test_waves_explain_an_increase_that_brought_nothing():
    """8 partitions: two waves on 4 to 7 slots."""
    assert find_cause(limited(partitions=8), Trial(4, 7, 0.0, 800.0)) is None


@pytest.mark.parametrize(
    ("before", "after", "rate", "trial"),
    [
        pytest.param(4, 5, 800.0, True, id="a quarter more: 17.5 % would be missing"),
        pytest.param(5, 6, 800.0, False, id="a fifth more: 14 % could be noise"),
        pytest.param(2, 4, None, False, id="the number before was not at its limit"),
        pytest.param(4, 2, 800.0, False, id="a decrease"),
    ],
)
def test_what_is_put_on_trial(before, after, rate, trial):
    assert (start_trial(before, after, 0.0, rate, 0.3) is not None) == trial
    assert start_trial(before, after, 0.0, rate, None) is None


@pytest.mark.parametrize(
    ("changes", "rate"),
    [
        pytest.param({}, 820.0, id="back to back with records left over"),
        pytest.param({"batch_s": 6.0, "capped": True}, 820.0, id="full batches"),
        pytest.param({"batch_s": 6.0}, None, id="batches wait for their trigger"),
        pytest.param({"backlog_excess": 0.0}, None, id="nothing is left over"),
        pytest.param({"batches": 1}, None, id="the first batches"),
        pytest.param({"invalid": ("lag_s",)}, None, id="something is impossible"),
    ],
)
def test_a_rate_at_the_limit(changes, rate):
    assert limited_rate(limited(**changes)) == rate


USELESS = Useless(2, 4, 1000.0, 820.0, 1600.0, 800.0, Cause.BROKER)


@pytest.mark.parametrize(
    ("changes", "number", "expected"),
    [
        pytest.param({"at": 1599.0}, 4, USELESS, id="remembered, to be undone"),
        pytest.param({"at": 1600.0}, 4, None, id="forgotten after ten minutes"),
        pytest.param({"at": 1100.0, "executors": 2}, 2, USELESS._replace(undone=True), id="undone"),
        pytest.param(
            {"at": 1100.0, "backlog_excess": 0.0}, 4, USELESS._replace(undone=True), id="needs no undoing now"
        ),
        pytest.param({"at": 1100.0, "processed": 985.0}, 4, None, id="the limit has risen"),
        pytest.param({"at": 1100.0, "executors": 2, "processed": 639.0}, 2, None, id="they were of use after all"),
        pytest.param({"at": 1100.0, "processed": 639.0, "batches": 3}, 4, USELESS, id="after a cold batch"),
    ],
)
def test_what_is_remembered(changes, number, expected):
    assert update_useless(USELESS, limited(**changes), number, 600.0) == expected


@pytest.mark.parametrize(
    ("cause", "changes", "kept"),
    [
        pytest.param(Cause.SINK, {"sink": "slow"}, True, id="the sink is still sick"),
        pytest.param(Cause.SINK, {}, False, id="the sink is healthy again"),
        pytest.param(Cause.CAPPED, {"capped": True}, True, id="batches are still full"),
        pytest.param(Cause.CAPPED, {"capped": False}, False, id="batches are not full any more"),
        pytest.param(Cause.CAPPED, {"capped": None}, True, id="unknown"),
    ],
)
def test_a_cause_that_is_gone(cause, changes, kept):
    known = USELESS._replace(cause=cause)
    assert (update_useless(known, limited(**changes), 4, 600.0) is not None) == kept


def test_an_increase_that_brings_nothing_is_undone_once_and_none_follows():
    """From the decision to the memory: up, four warm batches, down again, and then no further increase."""
    plans, at, number, batches = decision_settings(Fixed(4), largest_step_down=1, cooldown_down_s=60.0), 1000.0, 2, 9
    state, done = plans.initial(), list[tuple[float, Action, int, ReasonCode]]()
    for _ in range(60):
        decision, state = decide(limited(at, batches, executors=number, failed_tasks=0), state, plans)
        if decision.acts and decision.target is not None:
            done.append((at, decision.action, decision.target, decision.reason.code))
            applied = outcome(OutcomeStatus.APPLIED, decision.target, number, decision.target)
            applied = replace(applied, at=at + 5, decision_id=decision.decision_id, took_s=5.0)
            state, number, batches = learn(applied, state, plans), decision.target, -1
        at, batches = at + 15, batches + 1
    assert done[:2] == [(1000.0, Action.UP, 4, ReasonCode.FIXED), (1135.0, Action.DOWN, 2, ReasonCode.INEFFECTIVE)]
    assert done[2][:3] == (1720.0, Action.UP, 4), "ten minutes after it was found at 1120 s"


def test_increases_that_follow_one_another_are_judged_together():
    """1 → 3 → 7: what 7 brings is compared with what 1 did."""
    plans, state = decision_settings(Fixed(3)), decision_settings(Fixed(3)).initial()
    for at, before, target in ((1000.0, 1, 3), (1030.0, 3, 7)):
        policy: Any = Fixed(target)
        decision, state = decide(limited(at, 4, 150.0, executors=before), state, replace(plans, policy=policy))
        end = outcome(OutcomeStatus.APPLIED, target, before, target)
        state = learn(replace(end, at=at + 5, decision_id=decision.decision_id), state, plans)
    assert state.guard.trial == Trial(1, 7, 1035.0, 150.0)


def test_an_old_state_loads():
    adapter = decision_settings(Fixed(4)).state_adapter
    old = b'{"policy": 1, "guard": {"started_at": 1.0, "changed_at": 2.0, "pending": {"decision_id": 1, "at": 2.0,'
    old += b' "before": 3, "target": 4}}, "next_id": 2}'
    loaded = adapter.validate_json(old)
    assert loaded.guard.useless is None
    assert loaded.guard.pending == Pending(1, 2.0, 3, 4, rate=None)
    full = State(1, GuardState(trial=TRIAL, useless=USELESS), 2)
    assert adapter.validate_json(adapter.dump_json(full)) == full
