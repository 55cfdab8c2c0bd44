"""How long executors take to start, learned from looks at their number."""

from __future__ import annotations

import doctest

import pytest

from rheostat.learn import start_up
from rheostat.learn.start_up import StartUp, follow_start_up


def test_examples_in_docstrings():
    assert doctest.testmod(start_up).failed == 0


def watch(looks: list[tuple[float, int, int]]) -> StartUp:
    """After looks at (time, registered executors, current target)."""
    state, last_at = StartUp(), looks[0][0]
    for at, registered, target in looks:
        state = follow_start_up(state, at, last_at, registered, target)
        last_at = at
    return state


def test_the_first_to_come_is_the_first_that_was_asked_for():
    state = watch([(0.0, 3, 3), (15.0, 3, 5), (30.0, 4, 6), (45.0, 6, 6)])
    assert state.seen == 3
    assert state.open == ()


def test_the_median_goes_to_what_is_seen():
    looks = [(0.0, 1, 1)]
    for round_ in range(30):
        at, n = looks[-1][0], 1 + round_
        looks += [
            (at + 15, n, n + 1),
            (at + 30, n, n + 1),
            (at + 45, n, n + 1),
            (at + 60, n, n + 1),
            (at + 75, n + 1, n + 1),
        ]
    state = watch(looks)
    assert state.median_s == pytest.approx(67.5, rel=0.15)
    assert state.late_s < 2.0 * state.median_s


def test_executors_that_do_not_come_are_waited_for_longer():
    state = watch([(0.0, 2, 2), (15.0, 2, 6), (60.0, 2, 6), (120.0, 2, 6)])
    assert (state.waited_s, len(state.open)) == (120.0, 4)
    assert state.median_s == pytest.approx(132.0)
    assert state.late_s == pytest.approx(180.0)


def test_requests_that_are_taken_back_are_not_waited_for():
    assert watch([(0.0, 2, 2), (15.0, 2, 6), (30.0, 2, 3)]).open == (0.0,)
    assert watch([(0.0, 2, 2), (15.0, 2, 6), (30.0, 2, 2)]).open == ()


def test_executors_under_way_come_their_age_earlier():
    state = StartUp(open=(90.0,), variance=0.0)
    assert state.under_way(100.0)[0] == pytest.approx((5.0, 1))
    assert state.under_way(300.0)[0][0] > 0


def test_a_group_comes_one_after_another():
    times = [at for at, _ in StartUp().arrivals(10, after_s=15.0)]
    assert len(times) == 5
    assert times == sorted(times)
    assert times[0] > 15.0
