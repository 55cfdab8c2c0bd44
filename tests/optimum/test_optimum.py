"""The optimum against an independent search: every plan of a tiny problem, each run as a fluid in very small steps."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rheostat.load.curves import staircase
from rheostat.optimum.dynamic_program import (
    Grid,
    Kept,
    Problem,
    drop_useless_numbers,
    follow_plan,
    search_forwards,
    trace_plan,
)
from rheostat.optimum.optimum import optimum, timetable

STEPS = 4
FINE = 300
NOTHING = (0.0, 0.0, 0.0, 0.0)


def tiny(levels, **given):
    """Three executors at most, decisions each 10 s, L 20 s."""
    settled = {
        "load": staircase([(10.0, float(level)) for level in levels]),
        "objective_s": 20.0,
        "step_s": 10.0,
        "n_min": 1,
        "n_max": 3,
        "start": 1,
        "capacity": (0.0, 90.0, 180.0, 270.0),
        "long_rate": (0.0, 100.0, 200.0, 300.0),
        "carried": NOTHING,
        "slack": NOTHING,
        "weight": 3.0,
        "change_s": 12.0,
    }
    return Problem(**{**settled, **given})


def cheapest(problem):
    """The least cost of all plans of at most so many steps, executor-seconds: simulated, not calculated.

    All plans at once. In each tiny step executors process at the long-batch rate if what arrived L ago is not yet
    processed, else at the capacity, and never what has not arrived.
    """
    plans = np.array(list(product(range(problem.n_min, problem.n_max + 1), repeat=STEPS)))
    load, dt = problem.load, problem.step_s / FINE
    rate, late, slack, carried = (
        np.array(each) for each in (problem.capacity, problem.long_rate, problem.slack, problem.carried)
    )
    done, cost, ended = np.zeros(len(plans)), np.zeros(len(plans)), np.full(len(plans), np.inf)
    waits_s = problem.start_up_s // problem.step_s * problem.step_s
    times = np.arange(STEPS * FINE + 1) * dt
    arrived = [load.cumulative(t) for t in times]
    aged = [load.cumulative(t - problem.objective_s) - 1e-9 for t in times]
    before = np.full(len(plans), problem.start)
    for step, now in enumerate(plans.T):
        cost += problem.change_s * (now != before) + waits_s * np.maximum(0, now - before)
        done = np.minimum(done + np.abs(carried[now] - carried[before]), arrived[step * FINE])
        before = now
        for fine in range(step * FINE, (step + 1) * FINE):
            over = done + slack[now] < aged[fine]
            done = np.minimum(done + dt * np.where(over, late[now], rate[now]), arrived[fine + 1])
            cost += dt * (now + problem.weight * over)
            if times[fine + 1] >= load.duration - 1e-9:
                ended = np.where(arrived[-1] - done <= slack[now] + 1e-9, np.minimum(ended, cost), ended)
    return ended.min()


@pytest.mark.parametrize(
    ("levels", "given", "cost_s"),
    [
        pytest.param((80, 80), {}, 20.0, id="one executor carries it: 2 steps of 10 s"),
        pytest.param((90, 0, 0), {}, 30.0, id="no fewer than the least, until the load is over"),
        pytest.param((180, 0, 0), {}, 30.0, id="what waits less than L may wait"),
        pytest.param((270, 270), {"start": 3}, 60.0, id="three all the time, and nothing left at the end"),
        pytest.param((270, 270), {}, 72.0, id="a change costs 12 executor-seconds"),
        pytest.param((270, 270), {"start_up_s": 10.0}, 82.0, id="and each one added 10: two for 30 s are cheaper"),
        pytest.param((270, 270), {"start_up_s": 9.0}, 72.0, id="a start-up within a decision interval is not charged"),
        pytest.param((270, 270), {"free_changes": 1}, 60.0, id="a change that a fault makes is free"),
    ],
)
def test_costs_by_hand(levels, given, cost_s):
    found = optimum(tiny(levels, **given))
    assert found.cost * 3600 == pytest.approx(cost_s)
    assert found.error_bound <= 1e-3 * found.cost


def test_a_fault_may_take_the_last_executor_away():
    """With a least number of 0, states that cannot be reached must not multiply 0 executors by an infinite time."""
    found = optimum(tiny((80, 80), n_min=0))
    assert found.cost * 3600 == pytest.approx(20.0)
    assert found.plan == (1, 1)


def test_executors_that_add_no_speed_are_not_looked_at():
    """From 3 on nothing grows: the search has 3 at most, or as many as are there at the start."""
    flat = {
        "n_max": 5,
        "capacity": (0.0, 90.0, 180.0, 270.0, 270.0, 270.0),
        "long_rate": (0.0, 100.0, 200.0, 300.0, 300.0, 300.0),
        "carried": (0.0,) * 6,
        "slack": (0.0,) * 6,
    }
    levels = (50, 200, 260, 90)
    found, same = drop_useless_numbers(tiny(levels, **flat)), tiny(levels)
    assert (found.n_max, found.capacity, found.slack) == (3, same.capacity, same.slack)
    assert optimum(tiny(levels, **flat)) == optimum(tiny(levels))
    assert drop_useless_numbers(tiny(levels, **flat, start=4)).n_max == 4
    assert drop_useless_numbers(tiny(levels)).n_max == 3
    late = {**flat, "slack": (0.0, 0.0, 0.0, 0.0, 0.0, 7.0)}
    assert drop_useless_numbers(tiny(levels, **late)).n_max == 5


def test_a_plan_by_hand():
    found = optimum(tiny((80, 80, 260, 260, 80)))
    # 80 + 80 + 90 + 90 each for 10 s; of 4200 records left, 800 of them still to come, three do 2700 and 1500
    assert found.plan == (1, 1, 1, 1, 3, 3)
    assert found.parts.changes == 1
    assert found.violation_hours == 0.0
    assert found.executor_hours * 3600 == pytest.approx(40 + 30 + 3 * 1500 / 270)
    assert found.cost * 3600 == pytest.approx(40 + 30 + 3 * 1500 / 270 + 12)
    assert timetable(found) == [(0.0, 1), (40.0, 3)]
    assert timetable(found, lead_s=15.0) == [(0.0, 1), (20.0, 3)]


def test_frontiers_that_were_not_kept_are_made_again():
    levels = [40 + 37 * (number * number % 7) for number in range(60)]
    grid = Grid(tiny(levels, start_up_s=10.0), 1.0)
    kept, ending = search_forwards(grid)
    few, other = search_forwards(grid, Kept(most=20_000))
    assert other == ending
    assert (kept.apart, few.apart) == (1, 4)
    plan = trace_plan(grid, few, ending)
    assert plan == trace_plan(grid, kept, ending)
    assert follow_plan(grid, plan, ending)[1] == pytest.approx(ending.cost_s, rel=1e-3)


def test_levels_are_refined_until_the_cost_is_known_to_a_thousandth():
    load = staircase([(20.0, 60.0 + 180.0 * (number % 3 == 0)) for number in range(90)])
    found = optimum(tiny((1,), load=load, change_s=13.7))
    assert 0.0 <= found.error_bound <= 1e-3 * found.cost
    fluid = found.executor_hours + 13.7 / 3600 * found.changes + 3.0 * found.violation_hours
    assert fluid == pytest.approx(found.cost + found.error_bound)


@settings(max_examples=20)
@given(
    levels=st.lists(st.integers(0, 260), min_size=1, max_size=3),
    start=st.integers(1, 3),
    weight=st.sampled_from([1.0, 3.0, 8.0]),
    given=st.sampled_from(
        [
            {},
            {"start_up_s": 10.0},
            {"slack": (0.0, 100.0, 200.0, 300.0), "carried": (0.0, 50.0, 100.0, 150.0)},
            {"capacity": (0.0, 100.0, 200.0, 300.0)},
            {"objective_s": 10.0},
            {"objective_s": 5.0},
            {"capacity": (0.0, 90.0, 90.0, 200.0)},
        ]
    ),
)
def test_no_plan_of_a_tiny_problem_is_cheaper_and_one_is_as_cheap(levels, start, weight, given):
    problem = tiny(levels, start=start, weight=weight, **given)
    found, least_s = optimum(problem), cheapest(problem)
    rough_s = 3 * (problem.weight + problem.n_max) * problem.step_s / FINE
    if len(found.plan) <= STEPS:
        assert found.cost * 3600 <= least_s + rough_s
        assert (found.cost + found.error_bound) * 3600 >= least_s - rough_s


def test_numbers_that_are_searched_in_groups_cost_no_more_and_the_error_bound_says_how_much_less(monkeypatch):
    curve = tuple(100.0 * n for n in range(61))
    levels = [800.0, 2000.0, 5500.0, 3000.0, 900.0, 400.0]
    problem = tiny(levels, n_max=60, capacity=curve, long_rate=curve, carried=(0.0,) * 61, slack=(0.0,) * 61)
    exact = optimum(problem)
    monkeypatch.setattr("rheostat.optimum.dynamic_program._MOST_ROWS", 10)
    monkeypatch.setattr("rheostat.optimum.dynamic_program._GROUP", 0.1)

    coarse = optimum(problem)

    assert exact.cost * 0.85 < coarse.cost < exact.cost
    assert exact.cost <= coarse.cost + coarse.error_bound <= 1.15 * exact.cost
