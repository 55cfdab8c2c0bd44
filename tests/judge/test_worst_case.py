"""The search for the load that defeats a policy."""

import math
from itertools import pairwise

import pytest

from rheostat.errors import InputError
from rheostat.judge.worst_case import worst_case
from rheostat.load.shapes import parse_shape

STEP = 10


def hold_regret(curve):
    """What a policy pays that keeps the largest load of the last 300 s supplied, ÷ what was needed."""
    ends = [curve.cumulative(t) for t in range(0, round(curve.duration) + STEP, STEP)]
    loads = [(after - before) / STEP for before, after in pairwise(ends)]
    supply = [max(loads[max(0, index - 30) : index + 1]) for index in range(len(loads))]
    return sum(supply) / sum(loads)


def search(evaluate=hold_regret, seed=1, tries=60, **more):
    return worst_case(evaluate, seconds=3600, low=100, high=1000, seed=seed, tries=tries, **more)


def test_the_search_finds_the_period_of_the_policy_s_delay():
    """One step of 10 s in every 310 s at 1000/s, the others at 100/s, is the worst there is: 1000 ÷ 129 = 7.75.

    A level gives 1, one spike in the whole hour ((30·100 + 31·1000 + 299·100) ÷ (359·100 + 1000)) 1.7.
    """
    assert search(tries=200).value > 5


@pytest.mark.parametrize("seed", [1, 2])
def test_the_text_reproduces_the_load_exactly(seed):
    worst = search(seed=seed)
    again = parse_shape(worst.shape).pieces()
    assert again.points == worst.curve.points
    assert hold_regret(again) == worst.value


def test_the_same_seed_finds_the_same_load_and_another_another():
    one, same, other = search(seed=3), search(seed=3), search(seed=4)
    assert (one.shape, one.value, one.tried) == (same.shape, same.value, same.tried)
    assert one.shape != other.shape


def test_every_load_has_the_given_duration_and_keeps_within_the_rates():
    seen = []

    def evaluate(curve):
        seen.append(curve)
        return -hold_regret(curve)

    assert search(evaluate, tries=150).tried == 150
    assert len(seen) == 150
    assert {curve.duration for curve in seen} == {3600}
    rates = [rate for curve in seen for _, rate in curve.points]
    assert (min(rates), max(rates)) == (pytest.approx(100), pytest.approx(1000))


def test_the_first_loads_are_known_to_be_hard():
    seen = []

    def evaluate(curve):
        seen.append(curve.points)
        return 0.0

    search(evaluate, tries=2)
    step, spike = seen
    assert step == [(0, 100), (1800, 100), (1800, 1000), (3600, 1000)]
    assert [rate for _, rate in spike] == [100, 100, 1000, 1000, 100, 100]


def test_more_tries_never_find_less():
    values = []

    def evaluate(curve):
        values.append(hold_regret(curve))
        return values[-1]

    worst = search(evaluate, tries=120)
    assert (worst.tried, len(values)) == (120, 120)
    assert worst.value == max(values)
    assert search(tries=60).value == max(values[:60])


def test_a_short_load_with_odd_numbers_can_be_searched():
    worst = worst_case(lambda c: c.rate(0), seconds=60.5, low=0, high=1 / 3, seed=1, tries=100)
    assert worst.curve.duration == 60.5
    assert worst.value == pytest.approx(1 / 3)


def test_all_numbers_out_of_range_are_named():
    with pytest.raises(InputError) as caught:
        worst_case(hold_regret, seconds=59, low=-1, high=-1, seed=1, tries=0)
    assert [(fault.field, fault.allowed) for fault in caught.value.faults] == [
        ("seconds", "a number ≥ 60"),
        ("low", "a number ≥ 0"),
        ("high", "a number > -1"),
        ("tries", "a whole number ≥ 1"),
    ]


def test_a_value_that_is_no_number_is_an_error():
    with pytest.raises(ValueError, match="is NaN"):
        search(lambda _: math.nan)
