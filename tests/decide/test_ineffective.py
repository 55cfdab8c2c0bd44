"""Increases on trial: what they promised, what they brought, and what limits the job where that was nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.policies.samples import Fixed, decision_settings, outcome, seen

from rheostat.config.models import GuardSettings
from rheostat.decide.decide import decide, learn
from rheostat.decide.effectiveness import (
    Cause,
    Trial,
    Useless,
    find_cause,
    find_way_back,
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
    assert verdict() == Useless(2, 4, 1100.0, 820.0, 1600.0, 800.0, Cause.BROKER, back=2)


def test_a_backlog_with_which_the_number_before_would_catch_up_too_is_no_merit():
    assert isinstance(verdict(draining=True, arrival_rate=799.0), Useless)


@pytest.mark.parametrize(
    ("most", "useless"),
    [
        pytest.param(20, True, id="1.07 times as much, and 1.26 times on 20 executors"),
        pytest.param(400, False, id="1.69 times on 400"),
        pytest.param(None, True, id="no greatest number"),
    ],
)
def test_a_small_gain_that_leads_to_what_arrives_is_not_useless_yet(most, useless):
    """800/s on two executors, 856/s on four, 1300/s arrive."""
    trial: Any = TRIAL
    for number in range(4, 8):
        if isinstance(trial, Trial):
            trial = judge_trial(
                trial, limited(1000.0 + 20 * number, number, 856.0, arrival_rate=1300.0), 0.3, 600.0, most
            )
    assert isinstance(trial, Useless) == useless


def test_the_way_back_goes_to_the_number_that_helped():
    """1 → 20 brought twice as much: two executors do that."""
    found: Any = Trial(before=1, after=20, at=1000.0, rate=800.0)
    for number in (2, 3):
        found = judge_trial(found, limited(1000.0 + 20 * number, number, 1600.0, executors=20), 0.3, 600.0)
    assert isinstance(found, Useless)
    assert (found.before, found.after, found.back, found.helped) == (1, 20, 2, 2)


def test_single_steps_from_a_large_number_are_judged_together():
    """5 → 6 promises a fifth, less than noise: neither kept nor broken; 5 → 7 is judged, against five."""
    trial: Any = Trial(before=5, after=6, at=1000.0, rate=800.0)
    for number in range(4, 10):
        trial = judge_trial(trial, limited(1000.0 + 20 * number, number, 810.0, executors=6), 0.3, 600.0)
    assert isinstance(trial, Trial)
    assert trial.rate == 800.0
    trial = trial._replace(after=7, at=1200.0, batches=0)
    found = judge_trial(trial, limited(1300.0, 4, 810.0, executors=7), 0.3, 600.0)
    assert isinstance(found, Useless)
    assert (found.before, found.after, found.helped) == (5, 7, 5)


def test_numbers_that_grow_from_batch_to_batch_are_judged_by_those_on_which_batches_began():
    """1 → 4 → 5 → 6, one more in each batch of 100 s: none settles, and two batches that began on 4 show no more."""
    trial: Any = Trial(before=1, after=4, at=1000.0, rate=800.0)
    for number, batch_id in ((4, 10), (5, 11), (6, 12), (7, 13)):
        assert isinstance(trial, Trial)
        trial = trial._replace(after=number, at=1000.0 + 100 * (batch_id - 10), batches=0)
        figures = {"executors": number, "last_batch_id": batch_id, "last_batch_s": 100.0, "last_batch_records": 85_000}
        trial = judge_trial(trial, limited(1090.0 + 100 * (batch_id - 10), 0, 5000.0, **figures), 0.3, 600.0)
    assert isinstance(trial, Useless)
    assert (trial.before, trial.after, trial.helped, trial.rate) == (1, 5, 1, 850.0)


@pytest.mark.parametrize("elsewhere", ["sink", "driver"])
def test_where_the_sink_or_the_driver_delays_the_batches_more_records_are_no_merit(elsewhere):
    """4 executors, tasks of 3 s in a batch of 30 s: one executor needs 12 s, which is less than half of it."""
    changes: dict[str, Any] = {
        "last_batch_s": 30.0,
        "work_s": 3.0,
        elsewhere: "slow",
        "backlog_excess": 0.0,
        "draining": True,
    }
    trial: Any = Trial(before=1, after=4, at=1000.0, rate=0.0)
    for number in (2, 3):
        trial = judge_trial(trial, limited(1000.0 + 30 * number, number, **changes), 0.3, 600.0)
    assert isinstance(trial, Useless)
    assert (trial.helped, trial.cause.name) == (1, elsewhere.upper())


@pytest.mark.parametrize(
    ("driver_s", "back"),
    [
        pytest.param(20.0, 3, id="20 s of 30 s: tasks may take a quarter of the batch"),
        pytest.param(12.0, 2, id="12 s of 30 s: half of it"),
        pytest.param(35.0, 2, id="35 s of 30 s: no number keeps that"),
    ],
)
def test_the_way_back_leaves_what_the_drivers_part_asks_for(driver_s, back):
    """Tasks of 6 s in a batch of 26 s, on three executors."""
    late = limited(executors=3, driver="slow", last_batch_s=26.0, work_s=6.0, driver_s=driver_s, period_s=30.0)
    assert find_way_back(late, Trial(1, 3, 0.0, 800.0)) == back


def test_one_long_batch_of_a_busy_job_is_warm():
    result = judge_trial(TRIAL, limited(1300.0, 1, last_batch_s=240.0), 0.3, 600.0)
    assert isinstance(result, Trial)
    assert result.samples == 1


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
        pytest.param({"draining": True, "arrival_rate": 801.0}, id="the job catches up as it did not before"),
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
    trial = TRIAL._replace(after=3)
    first = judge_trial(trial, limited(1100.0, 4, 820.0, executors=3), 0.3, 600.0)
    assert first == trial._replace(best=820.0, warm=(820.0,), samples=1, batches=4, first=(3, 820.0))
    assert isinstance(first, Trial)
    assert judge_trial(first, limited(1110.0, 4, 850.0, executors=3), 0.3, 600.0) == first
    second = judge_trial(first, limited(1120.0, 5, 810.0, executors=3), 0.3, 600.0)
    assert second == first._replace(warm=(820.0, 810.0), samples=2, batches=5)


def test_four_warm_batches_count_where_the_window_reaches_back_to_cold_ones():
    warm: dict[str, Any] = {"last_batch_s": 14.0, "last_batch_records": 14 * 1400}
    trial: Trial | Useless | None = TRIAL
    for number in range(4, 8):
        assert isinstance(trial, Trial)
        trial = judge_trial(trial, limited(1000.0 + 20 * number, number, 820.0, **warm), 0.6, 600.0)
    assert trial is None


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
        pytest.param(
            {"busy_ratio": 0.2, "straggler_s": 9.0, "last_batch_s": 14.0}, Cause.STRAGGLER, id="slots wait for one task"
        ),
        pytest.param(
            {"busy_ratio": 0.6, "straggler_s": 6.0, "last_batch_s": 14.0},
            Cause.BROKER,
            id="for less than half of the batch",
        ),
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
        pytest.param(5, 6, 800.0, True, id="a fifth more: with those that follow"),
        pytest.param(2, 4, None, True, id="an unknown rate: a sick sink says something all the same"),
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
        pytest.param({"batch_s": 5.0, "capped": True}, 1640.0, id="full batches, half of the time"),
        pytest.param({"work_s": 7.0}, 1640.0, id="the driver takes half of the batch"),
        pytest.param({"batch_s": 6.0}, None, id="batches wait for their trigger"),
        pytest.param({"backlog_excess": 0.0}, None, id="nothing is left over"),
        pytest.param({"batches": 1}, None, id="the first batches"),
        pytest.param({"invalid": ("lag_s",)}, None, id="something is impossible"),
    ],
)
def test_a_rate_at_the_limit(changes, rate):
    assert limited_rate(limited(**changes)) == rate


USELESS = Useless(2, 4, 1000.0, 820.0, 1600.0, 800.0, Cause.BROKER)
UNDONE = USELESS._replace(undone=True, at=1100.0)
BACK = UNDONE._replace(measured=True)
GUARD = GuardSettings()


@pytest.mark.parametrize(
    ("changes", "number", "expected"),
    [
        pytest.param({"at": 1599.0, "batches": 0}, 4, USELESS, id="remembered, to be undone"),
        pytest.param(
            {"at": 1711.0, "batches": 0}, 4, USELESS, id="executors go between batches, of which eight may pass"
        ),
        pytest.param({"at": 1712.0, "batches": 0}, 4, UNDONE._replace(at=1712.0), id="never undone in its time"),
        pytest.param({"at": 87_999.0, "batches": 0}, 4, UNDONE._replace(at=87_999.0), id="known for a day longer"),
        pytest.param({"at": 88_000.0, "batches": 0}, 4, None, id="then forgotten"),
        pytest.param({"executors": 2, "batches": 1}, 2, UNDONE, id="undone"),
        pytest.param({"backlog_excess": 0.0, "batches": 1}, 4, UNDONE, id="needs no undoing now"),
        pytest.param(
            {"backlog_excess": 0.0, "batches": 1, "occupancy": 1.2}, 4, USELESS, id="batches longer than they may be"
        ),
    ],
)
def test_what_is_remembered(changes, number, expected):
    assert update_useless(USELESS, limited(**changes), number, GUARD) == expected


@pytest.mark.parametrize(
    ("known", "changes", "forgotten"),
    [
        pytest.param(BACK, {"executors": 2, "processed": 985.0}, True, id="the limit has risen"),
        pytest.param(BACK, {"executors": 2, "processed": 983.0}, False, id="by a fifth"),
        pytest.param(UNDONE, {"executors": 2, "processed": 985.0}, False, id="the rate before was a lower bound"),
        pytest.param(UNDONE, {"executors": 2, "processed": 639.0}, True, id="they were of use after all"),
        pytest.param(UNDONE, {"executors": 3, "processed": 957.0}, True, id="one more helps now"),
        pytest.param(UNDONE, {"executors": 3, "processed": 950.0}, False, id="one more does not help"),
        pytest.param(USELESS, {"processed": 500.0}, False, id="it has not been taken back yet"),
    ],
)
def test_four_batches_that_say_that_the_limit_has_changed(known, changes, forgotten):
    useless: Useless | None = known
    for number in range(4, 8):
        assert useless is not None
        useless = update_useless(useless, limited(1100.0, number, **changes), changes.get("executors", 4), GUARD)
    assert (useless is None) == forgotten


def test_the_rate_after_the_way_back_is_the_one_that_counts():
    again = update_useless(UNDONE, limited(1200.0, 4, 1300.0, executors=2), 2, GUARD)
    assert again is not None
    assert (again.before_rate, again.measured) == (1300.0, True)


@pytest.mark.parametrize(
    ("cause", "changes", "kept"),
    [
        pytest.param(Cause.SINK, {"sink": "slow"}, True, id="the sink is still sick"),
        pytest.param(Cause.SINK, {}, False, id="the sink is healthy again"),
        pytest.param(
            Cause.STRAGGLER,
            {"straggler_s": 4.0, "last_batch_s": 14.0},
            True,
            id="free slots wait for 29 % of the batch",
        ),
        pytest.param(Cause.STRAGGLER, {"straggler_s": 3.0, "last_batch_s": 14.0}, False, id="for 21 % of it"),
        pytest.param(Cause.STRAGGLER, {}, True, id="nobody knows how long"),
        pytest.param(Cause.CAPPED, {"capped": True}, True, id="batches are still full"),
        pytest.param(Cause.CAPPED, {"capped": False}, False, id="batches are not full any more"),
        pytest.param(Cause.CAPPED, {"capped": None}, True, id="unknown"),
    ],
)
def test_a_cause_that_is_gone(cause, changes, kept):
    known = USELESS._replace(cause=cause)
    assert (update_useless(known, limited(**changes), 4, GUARD) is not None) == kept


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        pytest.param({"work_s": 15.1}, False, id="tasks take three quarters of a batch"),
        pytest.param({"work_s": 14.9}, True, id="less"),
        pytest.param({"work_s": 15.1, "busy_ratio": 0.4}, True, id="and slots idle meanwhile"),
        pytest.param({"work_s": 15.1, "executors": 4}, True, id="on more executors"),
        pytest.param({"work_s": 15.1, "driver": "slow"}, True, id="the driver delays them"),
    ],
)
def test_the_drivers_part_is_not_the_limit_any_more_when_the_load_has_risen(changes, kept):
    known = USELESS._replace(cause=Cause.DRIVER, undone=True)
    figures = {"executors": 2, "last_batch_s": 20.0, **changes}
    assert (update_useless(known, limited(**figures), 2, GUARD) is not None) == kept


def test_a_sink_that_is_healthy_with_fewer_executors_may_be_sick_with_more():
    known = USELESS._replace(cause=Cause.SINK, undone=True)
    assert update_useless(known, limited(executors=2), 2, GUARD) is not None


def test_an_increase_that_brings_nothing_is_undone_and_tried_again_ever_later():
    """From the decision to the memory: up, warm batches, down again; after ten minutes one more, after twenty again."""
    plans, at, number, batches = decision_settings(Fixed(4), largest_step_down=1, cooldown_down_s=60.0), 1000.0, 2, 9
    state, done = plans.initial(), list[tuple[float, Action, int, ReasonCode]]()
    for _ in range(150):
        decision, state = decide(limited(at, batches, executors=number, failed_tasks=0), state, plans)
        if decision.acts and decision.target is not None:
            done.append((at, decision.action, decision.target, decision.reason.code))
            applied = outcome(OutcomeStatus.APPLIED, decision.target, number, decision.target)
            applied = replace(applied, at=at + 5, decision_id=decision.decision_id, took_s=5.0)
            state, number, batches = learn(applied, state, plans), decision.target, -1
        at, batches = at + 15, batches + 1
    assert [(at, target, code) for at, _, target, code in done] == [
        (1000.0, 4, ReasonCode.FIXED),
        (1135.0, 2, ReasonCode.INEFFECTIVE),
        (1750.0, 3, ReasonCode.INEFFECTIVE),
        (1885.0, 2, ReasonCode.INEFFECTIVE),
        (3100.0, 3, ReasonCode.INEFFECTIVE),
        (3235.0, 2, ReasonCode.INEFFECTIVE),
    ]


def test_increases_that_follow_one_another_are_judged_together():
    """1 → 3 → 7: what 7 brings is compared with what 1 did."""
    plans, state = decision_settings(Fixed(3)), decision_settings(Fixed(3)).initial()
    for at, before, target in ((1000.0, 1, 3), (1030.0, 3, 7)):
        policy: Any = Fixed(target)
        decision, state = decide(limited(at, 4, 150.0, executors=before), state, replace(plans, policy=policy))
        end = outcome(OutcomeStatus.APPLIED, target, before, target)
        state = learn(replace(end, at=at + 5, decision_id=decision.decision_id), state, plans)
    assert state.guard.trial == Trial(1, 7, 1035.0, 150.0, best=150.0, warm=(150.0,), samples=1, first=(3, 150.0))


def test_an_old_state_loads():
    adapter = decision_settings(Fixed(4)).state_adapter
    old = b'{"policy": 1, "guard": {"started_at": 1.0, "changed_at": 2.0, "pending": {"decision_id": 1, "at": 2.0,'
    old += b' "before": 3, "target": 4}}, "next_id": 2}'
    loaded = adapter.validate_json(old)
    assert loaded.guard.useless is None
    assert loaded.guard.pending == Pending(1, 2.0, 3, 4, rate=None)
    full = State(1, GuardState(trial=TRIAL, useless=USELESS), 2)
    assert adapter.validate_json(adapter.dump_json(full)) == full
