"""How far ``rheostat`` believes a growth of the load that is predicted, and the trend."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.policies.test_rheostat import known_cost, policy, sample

from rheostat.learn.arrivals import Growth, Level, Trust, find_trend, follow_level, follow_trust, is_falling
from rheostat.learn.start_up import StartUp
from rheostat.policies.rheostat import RheostatState

SAMPLE_S = 15.0
NOTHING = Growth()


def follow(rates: Sequence[float]) -> tuple[Level, Trust]:
    level, trust = Level(), Trust()
    for place, rate in enumerate(rates):
        window = rates[max(0, place - 3) : place + 1]
        level = follow_level(level, SAMPLE_S * (place + 1), rate, sum(window) / len(window), SAMPLE_S)
        trust = follow_trust(trust, level, find_trend(level))
    return level, trust


def rising(count: int, slope: float, spread: float = 0.0, seed: int = 1) -> list[float]:
    draws = random.Random(seed)
    return [1000.0 * math.exp(slope * place + draws.gauss(0.0, spread)) for place in range(count)]


def day(spread: float, hours: float = 12.0) -> list[float]:
    draws, count = random.Random(4), int(hours * 240)
    return [1000.0 * math.exp(math.sin(math.tau * i / 1440) + draws.gauss(0.0, spread)) for i in range(count)]


@pytest.mark.parametrize("slope", [0.005, -0.005])
def test_a_steady_growth_is_believed_once_it_has_come_true(slope):
    level, trust = follow(rising(80, slope))
    growth = trust.growth(level, 14)
    assert growth.log == pytest.approx(14 * slope, rel=0.1)
    assert growth.explained > 0.5


def test_nothing_is_believed_before_it_has_been_seen_to_come_true():
    level, trust = follow(rising(16, 0.005))
    assert find_trend(level) == pytest.approx(0.005, rel=0.01)
    assert trust.growth(level, 14) == NOTHING


def test_a_fall_beyond_noise_is_seen_before_falls_have_come_true():
    level, trust = follow([*rising(60, 0.0, 0.02), *[1000.0 * math.exp(-0.03 * place) for place in range(8)]])
    assert trust.growth(level, 16) == NOTHING
    assert is_falling(level, find_trend(level))


@pytest.mark.parametrize("spread", [0.05, 0.2])
def test_a_dip_of_a_noisy_load_is_no_fall(spread):
    for seed in range(20):
        level, _ = follow(rising(120, 0.0, spread, seed))
        assert not is_falling(level, find_trend(level))


def test_the_trend_of_a_wave_explains_most_of_what_the_level_misses():
    level, trust = follow(day(0.005))
    assert trust.growth(level, 14).explained > 0.6


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("spread", [0.02, 0.1, 0.2])
def test_noise_has_no_trend(spread, seed):
    believed = [follow(rising(count, 0.0, spread, seed)) for count in (60, 120, 240, 480)]
    assert [trust.growth(level, 14).log for level, trust in believed] == [0.0] * 4


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_walk_has_no_trend(seed):
    draws, rates, rate = random.Random(seed), list[float](), 1000.0
    for _ in range(480):
        rate *= math.exp(draws.gauss(0.0, 0.03))
        rates.append(rate)
    level, trust = follow(rates)
    assert trust.growth(level, 14).log == 0.0


def test_steps_between_constant_rates_have_no_trend():
    rates = [rate for rate in (1000.0, 4000.0, 800.0, 5000.0) for _ in range(60)]
    level, trust = follow(rates)
    assert trust.growth(level, 14) == NOTHING
    assert trust.squares == pytest.approx((0.0,) * 4, abs=1e-6)


def test_an_idle_load_has_no_trend():
    level, trust = follow([*rising(60, 0.01), *[0.0] * 8])
    assert (find_trend(level), trust.growth(level, 14)) == (0.0, NOTHING)


def test_what_is_predicted_far_ahead_has_bounds():
    level, trust = follow(rising(120, 0.04))
    assert trust.growth(level, 1000).log <= 0.5


def first_increase(rates: Sequence[float], n: int, *, with_trend: bool) -> int:
    """The sample at which more executors are asked for, which take three minutes to start."""
    slow = StartUp(mean=math.log(180.0), variance=0.01, weight=40.0, seen=40)
    state = RheostatState(cost=known_cost(), start_up=slow)
    for place, rate in enumerate(rates):
        answer, state = policy().recommend(sample(SAMPLE_S * (place + 1), rate, n), state)
        if (answer.target or 0) > n:
            return place
        state = state if with_trend else replace(state, trend=Trust())
    return len(rates)


def test_executors_that_start_slowly_are_asked_for_earlier_while_the_load_grows_steadily():
    rates = rising(180, 0.004)
    assert first_increase(rates, 5, with_trend=True) <= first_increase(rates, 5, with_trend=False) - 5


def test_a_load_that_does_not_grow_is_decided_as_without_a_trend():
    rates = rising(180, 0.0, 0.05)
    assert first_increase(rates, 5, with_trend=True) == first_increase(rates, 5, with_trend=False)
