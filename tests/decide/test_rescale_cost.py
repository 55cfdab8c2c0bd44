"""S4: what a change adds to the lag, the rate that makes it good, and what is measured of changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.policies.samples import Fixed, decision_settings, outcome, seen

from rheostat.config.models import GuardSettings
from rheostat.decide.decide import decide, learn
from rheostat.decide.effectiveness import Cold, Cost, lag_after, required_rate, update_cold, update_cost
from rheostat.decide.guard import Context, rescale_cost
from rheostat.decide.state import GuardState
from rheostat.model import Assessment, Bounds, OutcomeStatus, ReasonCode

RESTART = Cost(3, 30.0, 60.0, 0.0)


@pytest.mark.parametrize(
    ("lag", "arriving", "processed", "delay_s", "blocked_s", "expected"),
    [
        pytest.param(0, 1000, 800, 30, 0, 6000, id="the delay: 200/s too little for 30 s"),
        pytest.param(0, 1000, 800, 0, 60, 60_000, id="the pause: all that arrives"),
        pytest.param(100_000, 1000, 800, 30, 60, 166_000, id="both on top of the lag"),
        pytest.param(1000, 1000, 1200, 30, 0, 0, id="caught up in the delay: never under nothing"),
        pytest.param(1000, 1000, 1200, 30, 10, 10_000, id="caught up, and then the pause"),
    ],
)
def test_the_lag_after_a_change(lag, arriving, processed, delay_s, blocked_s, expected):
    assert lag_after(lag, arriving, processed, delay_s, blocked_s) == expected


@pytest.mark.parametrize(
    ("lag", "threshold", "catch_up_s", "expected"),
    [
        pytest.param(166_000, 30_000, 170, 1800.0, id="136 000 in 170 s on top of 1000/s"),
        pytest.param(30_000, 30_000, 170, 1000.0, id="at the threshold"),
        pytest.param(10_000, 30_000, 170, 1000.0, id="under the threshold never less than arrives"),
    ],
)
def test_the_required_rate(lag, threshold, catch_up_s, expected):
    assert required_rate(1000, lag, threshold, catch_up_s) == expected


def asked(target: int, cost: Cost | None = RESTART, bounds=(1, 20), lags=2.0, changed_at=990.0, **changes: Any):
    """Five executors of 250/s each under 1000/s, objective 60 s: 60 000 records may wait; caught up within 120 s."""
    settings = GuardSettings(rescale_catch_up_lags=lags)
    figures = {
        "arrival_rate": 1000.0,
        "processed_rate": 800.0,
        "backlog": 100_000,
        "backlog_excess": 90_000.0,
        **changes,
    }
    state = GuardState(cost_up=cost, cost_down=cost, changed_at=changed_at)
    context = Context(
        seen(1000.0, **figures), 5, None, Bounds(*bounds), settings, 15.0, state, 60.0, lambda n: 250.0 * n
    )
    change = rescale_cost(target, context)
    return None if change is None or change.reason is None else (change.target, change.reason.text)


def test_an_increase_makes_good_what_it_adds():
    """lag₁ = 166 000, required 1000 + 106 000 ÷ 120 = 1883/s: 8 × 250/s."""
    assert asked(6) == (
        8,
        "a change takes 30.0 s to come, then 60.0 s of work; to catch up 1 883/s are needed, which 8 executors carry: "
        "5 → 8 instead of 6",
    )


@pytest.mark.parametrize(
    ("target", "changes", "expected"),
    [
        pytest.param(9, {}, None, id="enough are wanted anyway"),
        pytest.param(6, {"bounds": (1, 7)}, 7, id="no more than the bounds allow"),
        pytest.param(6, {"backlog": 500_000}, 12, id="at most twice the number wanted"),
        pytest.param(6, {"cost": None}, None, id="not measured yet"),
        pytest.param(6, {"lags": None}, None, id="not looked at"),
        pytest.param(6, {"backlog": None}, None, id="backlog unknown"),
        pytest.param(6, {"processed_rate": None}, None, id="processed rate unknown"),
        pytest.param(6, {"cost": Cost(3, 4.0, 0.0, 2.0), "backlog": 10_000}, None, id="a cheap change"),
        pytest.param(
            6,
            {"processed_rate": 1200.0, "backlog": 60_000, "backlog_excess": 18_000.0},
            5,
            id="caught up in 90 s, as soon as it works",
        ),
        pytest.param(
            6,
            {"processed_rate": 1200.0, "backlog": 60_001, "backlog_excess": 18_000.0},
            None,
            id="beyond the objective it does not wait",
        ),
        pytest.param(
            6, {"processed_rate": 1200.0, "backlog_excess": 18_001.0, "backlog": 20_000}, None, id="caught up later"
        ),
        pytest.param(4, {"backlog": 0}, 5, id="6000 of the delay and 60 000 of the pause would wait: 60 000 may"),
        pytest.param(4, {"backlog": 0, "changed_at": -200.0}, None, id="a decrease does not wait for ever"),
        pytest.param(4, {"backlog": 0, "processed_rate": 1000.0}, None, id="60 000 would wait: not over the threshold"),
        pytest.param(
            4, {"backlog": 0, "cost": Cost(1, 30.0, 60.0, 0.5), "processed_rate": 1000.0}, 5, id="a cold batch"
        ),
        pytest.param(4, {"backlog": 90_000, "arrival_rate": 0.0}, None, id="nothing arrives"),
    ],
)
def test_the_size_and_the_choice_to_wait(target, changes, expected):
    found = asked(target, **changes)
    assert (None if found is None else found[0]) == expected


def end(took_s: float | None, waited_s: float | None = None, method: str = "request"):
    return outcome(OutcomeStatus.APPLIED, 5, 3, 5, took_s=took_s, waited_s=waited_s, method=method)


def test_what_an_outcome_measures():
    assert update_cost(None, end(4.0)) == Cost(1, 4.0, 0.0, None), "executors that join make no pause"
    assert update_cost(None, end(70.0, 10.0, "restart")) == Cost(1, 10.0, 60.0, None), (
        "waited for a safe moment, then down"
    )
    assert update_cost(Cost(1, 4.0, 0.0, 2.0), end(8.0)) == Cost(2, 6.0, 0.0, 2.0)
    assert update_cost(Cost(8, 4.0, 0.0), end(12.0)) == Cost(8, 5.0, 0.0), "the last eight or so"
    assert update_cost(RESTART, end(None)) == RESTART


def batch(number: int, duration_s: float) -> Assessment:
    return seen(batches=number, last_batch_s=duration_s)


def test_the_first_batch_is_compared_with_the_third():
    cold, cost = update_cold(Cold(up=True), Cost(1, 4.0, 0.0), batch(0, 6.0))
    assert cold == Cold(up=True)
    cold, cost = update_cold(Cold(up=True), cost, batch(1, 9.5))
    assert cold == Cold(up=True, first_s=9.5)
    assert update_cold(Cold(up=True, first_s=9.5), cost, batch(2, 7.0)) == (Cold(up=True, first_s=9.5), cost)
    assert update_cold(Cold(up=True, first_s=9.5), cost, batch(3, 6.0)) == (None, Cost(1, 4.0, 0.0, 3.5))
    assert update_cold(Cold(up=True, first_s=9.5), Cost(2, 4.0, 0.0, 1.5), batch(3, 6.0)) == (
        None,
        Cost(2, 4.0, 0.0, 2.5),
    )
    assert update_cold(Cold(up=True, first_s=5.0), cost, batch(3, 6.0)) == (None, Cost(1, 4.0, 0.0, 0.0)), (
        "never less than nothing"
    )


def test_a_first_batch_that_was_not_seen_says_nothing():
    assert update_cold(Cold(up=True), Cost(1, 4.0, 0.0), batch(2, 6.0)) == (None, Cost(1, 4.0, 0.0))


def test_increases_and_decreases_are_measured_apart():
    plans = decision_settings(Fixed(5))
    _, state = decide(seen(executors=3), plans.initial(), plans)
    state = learn(end(4.0), state, plans)
    assert (state.guard.cost_up, state.guard.cost_down, state.guard.cold) == (Cost(1, 4.0, 0.0), None, Cold(up=True))
    for at, number, duration_s in ((1015.0, 1, 9.0), (1030.0, 3, 6.0)):
        _, state = decide(seen(at, executors=5, batches=number, last_batch_s=duration_s), state, plans)
    assert (state.guard.cost_up, state.guard.cold) == (Cost(1, 4.0, 0.0, 3.0), None)
    state = learn(replace(end(8.0), before=5, after=4, target=4), state, plans)
    assert state.guard.cost_down == Cost(1, 8.0, 0.0)


def test_the_planner_gives_the_objective_and_the_capacity():
    """Objective 30 s: lag₁ 166 000, 30 000 may wait, 60 s to catch up: 1000 + 136 000 ÷ 60 = 3267/s."""
    policy = Fixed(6)
    policy.capacity_each = 300.0
    plans = decision_settings(policy)
    state = replace(plans.initial(), guard=GuardState(cost_up=RESTART))
    figures = {"arrival_rate": 1000.0, "processed_rate": 800.0, "backlog": 100_000, "backlog_excess": 90_000.0}
    decision, _ = decide(seen(executors=5, **figures), state, plans)
    assert (decision.target, decision.reason.code) == (11, ReasonCode.RESCALE_COST)
