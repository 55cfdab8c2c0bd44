"""What ``rheostat`` still knows when the driver has been restarted, and what it does not mistake for knowledge."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from pydantic import TypeAdapter
from tests.policies.test_rheostat import NOW, SAMPLE_S, STEADY, policy, sample, watch

from rheostat.learn.start_up import StartUp
from rheostat.model import Batch as Ended
from rheostat.model import ReasonCode
from rheostat.policies.rheostat import RheostatState

PAUSE_S = 7200.0
BACK = NOW + PAUSE_S
SLOW = StartUp(mean=math.log(90.0), variance=0.04, weight=20.0, seen=20, registered=5)


def restarted(state: RheostatState) -> RheostatState:
    """Saved and loaded, as in the file of the controller."""
    adapter = TypeAdapter(RheostatState)
    return adapter.validate_json(adapter.dump_json(state))


def before() -> RheostatState:
    """A known job at five executors, while three more are under way."""
    _, state = policy().recommend(sample(NOW, 1500.0, 8, executors=5), replace(watch(STEADY, 5), start_up=SLOW))
    assert len(state.start_up.open) == 3
    return state


def test_the_state_is_the_same_after_it_was_saved():
    assert restarted(before()) == before()


@pytest.mark.parametrize("pause_s", [120.0, PAUSE_S, 30 * 86_400.0])
def test_executors_that_came_while_nobody_looked_are_no_start_ups(pause_s):
    state = restarted(before())
    for place, registered in enumerate((1, 1, 8)):
        at = NOW + pause_s + 45.0 * place
        _, state = policy().recommend(sample(at, 1500.0, 8, executors=registered), state)
    assert state.start_up.median_s == pytest.approx(90.0, rel=0.1)
    assert state.start_up.seen == 27
    assert not state.start_up.open


def test_the_start_up_of_the_last_run_says_when_to_ask():
    """A rise that the buffer carries until executors have started in 15 s, but not in 90 s."""
    rises = {"arrived": 39_000, "waiting": 15_000, "backlog": 30_000}
    targets = []
    for start_up in (before().start_up, StartUp()):
        state = restarted(replace(before(), start_up=start_up))
        for place in range(8):
            _, state = policy().recommend(sample(BACK + SAMPLE_S * place, 1500.0, 5), state)
        answer, _ = policy().recommend(sample(BACK + SAMPLE_S * 8, (3 * 1500 + 2600) / 4, 5, **rises), state)
        targets.append(answer.target or 0)
    assert targets[0] > targets[1] == 5


def test_the_load_after_a_pause_is_no_jump_and_not_what_it_was():
    state = restarted(before())
    for place in range(3):
        _, state = policy().recommend(sample(BACK + SAMPLE_S * place, 600.0, 5), state)
    assert state.level.rate == pytest.approx(600.0, rel=0.02)


def test_what_is_known_of_the_load_beside_its_level_stays():
    state = restarted(before())
    _, resumed = policy().recommend(sample(BACK, 1500.0, 5), state)
    assert (resumed.level.errors, resumed.level.spread, resumed.level.jumps, resumed.weight) == (
        state.level.errors,
        state.level.spread,
        state.level.jumps,
        state.weight,
    )


def test_one_sample_that_is_late_is_no_pause():
    _, state = policy().recommend(sample(NOW + 2 * SAMPLE_S, 1500.0, 8, executors=5, arrived=45_000), before())
    assert len(state.start_up.open) == 3
    assert state.level.calm > 20


def test_the_batches_of_the_last_run_price_the_first_decision_and_the_first_batch_of_the_new_one_replaces_them():
    state = restarted(before())
    changes = {"run_since": BACK, "batches": 0, "waiting": 60_000, "backlog": 80_000, "lag_s": 30.0}
    answer, state = policy().recommend(sample(BACK, 4500.0, 3, **changes), state)
    assert state.cost.is_cold
    assert answer.reason.code is ReasonCode.UNDERSIZED
    assert "only a first batch is known, so no more than twice as many" in answer.reason.text
    assert answer.target == 6
    again = sample(BACK + 2.0, 4500.0, 3, requested=6, **changes)
    answer, _ = policy().recommend(again, state)
    assert (answer.target, answer.reason.code) == (6, ReasonCode.STABILIZING)
    twice_as_slow = Ended(BACK + 20.0, 0, 21.0, planning_s=0.1, commit_s=0.1, offsets=(12_000,), stages=())
    ended = sample(BACK + 30.0, 1500.0, 3, run_since=BACK, batches=1, ended=(twice_as_slow,))
    _, state = policy().recommend(ended, state)
    assert len(state.cost.seen) == 1
    assert state.cost.is_cold
