"""The going rate and the values beside it, in cases that can be reckoned by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rheostat.learn.batch_cost import BatchCost, Costs
from rheostat.policies.prices import CHANGE, GoingRate, Load, Terms

TAU, START_UP_S, COLD_S = 30.0, 15.0, 4.0
KEPT_S = 120.0


def prices(rate: float, *, ramp: float = 0.0, ramp_s: float = 0.0, **changes: Any) -> GoingRate:
    """One executor carries 400 records/s, whatever the batch, and nothing is uncertain."""
    model = BatchCost(stages=((0, 0.0, 0.0025),), ratios=tuple((n, 1.0) for n in range(1, 40)))
    terms = Terms(
        **{"period_s": TAU, "trigger_s": 10.0, "sample_s": 15.0, "start_up_s": START_UP_S, "weight": 10.0, **changes}
    )
    return GoingRate(Costs(model), Load(rate, 0.0, 0.0, ramp=ramp, ramp_s=ramp_s), terms)


def test_the_number_that_just_carries_the_load_is_the_going_rate():
    found = prices(1599.0)
    assert found.first == 4
    # 80 s at three until the buffer is used up, an hour at four: two changes, half-used buffers, a cold start-up
    lasts_s = 1599 * 20 / 399
    assert found.cost == pytest.approx(
        (3 * lasts_s + 4 * 3600 + START_UP_S + COLD_S + 2 * CHANGE + 60) / (lasts_s + 3600)
    )


def test_a_load_a_little_above_a_number_is_carried_by_it_for_a_while():
    # four fall behind by 8 records/s, and the buffer of 20 s of records lasts 600 s, the longest that is reckoned with
    found = prices(1608.0)
    assert (found.first, found.low) == (5, 4)
    assert found.lasts_s(4, 10.0) == 600.0
    assert found.lasts_s(4, 25.0) == pytest.approx(600.0)
    assert found.lasts_s(3, 10.0) == pytest.approx(1608 * 20 / 408, rel=0.01)


def test_a_buffer_that_is_used_up_lasts_no_longer():
    assert prices(1608.0).lasts_s(3, TAU) == 0.0


def test_a_high_number_is_kept_until_batches_are_short_and_two_minutes_at_least():
    assert prices(1599.0).kept_s(8) == KEPT_S + START_UP_S
    assert prices(1599.0).kept_s(3) == 3600.0


def test_the_low_number_of_the_best_cycle_has_the_value_of_its_cycle():
    found = prices(1650.0)
    low, high = found.low, found.high
    value = found.low_value(low, found.steady_s(low))
    cycle = (low - found.cost) * found.lasts_s(low, found.steady_s(low)) + (high - found.cost) * found.kept_s(high)
    assert value == pytest.approx(cycle + (high - low) * (START_UP_S + COLD_S) + 180.0, abs=1e-6)
    assert value == pytest.approx(0.0, abs=1e-6)


def test_more_than_is_needed_costs_what_it_is_beyond_the_going_rate():
    found = prices(1599.0)
    assert found.high_value(9) - found.high_value(8) == pytest.approx(KEPT_S + START_UP_S)
    assert found.low_value(5, 10.0) - found.low_value(4, 10.0) == pytest.approx(
        600.0 - (START_UP_S + COLD_S) * (found.high > 4)
    )


def test_draining_takes_the_surplus_of_the_long_batch():
    # batches of 20 s hold 10 s of records more than those of the trigger; eight work them off at 1600/s
    assert prices(1600.0).drain_s(8, 20.0) == pytest.approx(10.0)
    assert prices(1600.0).drain_s(3, 20.0) == math.inf


def test_while_the_load_rises_a_lower_number_must_last_for_two_minutes():
    # five carry the load for 50 s, four for none; then the buffer of 20 s, 32 000 records, is used up
    steady, rising = prices(1599.0), prices(1599.0, ramp=8.0, ramp_s=240.0)
    assert rising.lasts_s(5, 10.0) > 120.0 > rising.lasts_s(4, 10.0) > steady.lasts_s(3, 10.0)
    assert [number for number in (3, 4, 5) if rising.is_kept(number, 10.0)] == [5]
    assert [number for number in (3, 4, 5) if steady.is_kept(number, 10.0)] == [3, 4, 5]


def test_waves_make_numbers_useless():
    model = BatchCost(stages=((12, 0.0, 0.0025),), ratios=tuple((n, 1.0) for n in range(1, 20)))
    terms = Terms(TAU, 10.0, 15.0, START_UP_S, 10.0)
    found = GoingRate(Costs(model), Load(1700.0, 0.0, 0.0), terms)
    assert list(found.numbers_from(1, 14)) == [1, 2, 3, 4, 6, 12]
    assert found.first == 6


def test_a_number_beyond_what_any_carries_is_the_least_of_the_best():
    model = BatchCost(stages=((12, 0.0, 0.0025),), ratios=tuple((n, 1.0) for n in range(1, 20)))
    found = GoingRate(Costs(model), Load(1e6, 0.0, 0.0), Terms(TAU, 10.0, 15.0, START_UP_S, 10.0))
    assert found.first == 12


@pytest.mark.parametrize("rate", [0.0, 1e-6])
def test_no_load_needs_one_executor(rate):
    found = prices(rate)
    assert (found.first, found.low) == (1, 1)
    assert math.isfinite(found.cost)


def test_no_more_than_is_allowed():
    assert prices(4000.0, most=6).first == 6
