"""The load as ``rheostat`` sees it: the curve of arrivals, its level and jumps, and the error of a forecast."""

from __future__ import annotations

import doctest
import math
import random
import statistics

import pytest

from rheostat.learn import arrivals
from rheostat.learn.arrivals import Curve, Level, extend_curve, follow_level

SAMPLE_S = 15.0


def test_examples_in_docstrings():
    assert doctest.testmod(arrivals).failed == 0


def follow(rates: list[float], level: Level | None = None) -> Level:
    """The level after samples of these rates; the window's mean is that of the last four."""
    level = level or Level()
    for place, rate in enumerate(rates):
        window = rates[max(0, place - 3) : place + 1]
        level = follow_level(level, SAMPLE_S * (level.count + 1), rate, sum(window) / len(window), SAMPLE_S)
    return level


def noisy(mean: float, count: int, spread: float, seed: int = 1) -> list[float]:
    draws = random.Random(seed)
    return [mean * math.exp(draws.gauss(0.0, spread)) for _ in range(count)]


def test_time_that_runs_backwards_begins_a_new_curve():
    assert extend_curve(Curve((0.0, 15.0), (0.0, 9.0)), 15.0, 1.0) == Curve((15.0,), (0.0,))


def test_the_curve_goes_on_beyond_its_ends():
    curve = Curve((0.0, 10.0), (0.0, 100.0))
    assert (curve.time_of(-50.0), curve.time_of(150.0)) == (-5.0, 15.0)


def test_a_step_is_found_within_one_sample():
    level = follow([*noisy(1000.0, 40, 0.05), 3000.0])
    assert level.calm == 0
    assert len(level.jumps) == 1
    assert level.rate == pytest.approx(3000.0)


def test_the_sample_after_a_step_corrects_a_bin_that_held_only_part_of_it():
    level = follow([*noisy(1000.0, 40, 0.05), 2000.0, 3000.0])
    assert level.rate == pytest.approx(3000.0, rel=0.05)
    assert len(level.jumps) == 1


@pytest.mark.parametrize("spread", [0.02, 0.1, 0.2])
def test_noise_is_no_step(spread):
    level = follow(noisy(1000.0, 300, spread))
    assert len(level.jumps) <= 2
    assert level.rate == pytest.approx(1000.0, rel=spread)


def test_noise_is_told_from_a_walk():
    draws, walk, rate = random.Random(2), [], 1000.0
    for _ in range(400):
        rate *= math.exp(draws.gauss(0.0, 0.05))
        walk.append(rate)
    wanders, stays = follow(walk), follow(noisy(1000.0, 400, 0.05))
    assert stays.noise > 5 * stays.walk
    assert wanders.walk > 2 * wanders.noise


def levels_of(rates: list[float]) -> list[float]:
    """The levels of a load that is sampled every 2 s, once the noise is known."""
    level, found = Level(), list[float]()
    for place, rate in enumerate(rates):
        level = follow_level(level, 2.0 * place, rate, 1000.0, 2.0)
        found.append(level.rate)
    return found[len(found) // 2 :]


def test_what_comes_and_goes_within_seconds_is_noise_though_samples_have_it_in_common():
    draws, excess, rates = random.Random(4), 0.0, list[float]()
    for _ in range(2000):
        excess = 0.4 * excess + draws.gauss(0.0, 0.2)
        rates.append(1000.0 * math.exp(excess))
    assert statistics.pstdev(levels_of(rates)) < 100.0 < 200.0 < statistics.pstdev(rates)


def test_a_ramp_is_followed_from_the_first_samples_on_however_short_they_are():
    rates, level, worst = [50.0] * 6 + [50.0 + 10.0 * step for step in range(50)], Level(), 0.0
    for number, rate in enumerate(rates):
        level = follow_level(level, 2.0 * number, rate, rate, 2.0)
        if number >= 12:
            worst = max(worst, abs(level.rate / rate - 1))
    assert worst < 0.12
    assert level.block == 8


def test_a_sample_of_few_records_is_no_fall_of_a_noisy_load():
    rates = noisy(1000.0, 300, 0.3)
    assert follow([*rates, 200.0]).calm > 0
    assert follow([*rates, 5000.0]).calm == 0
    assert follow([*noisy(1000.0, 300, 0.1), 200.0]).calm == 0


def test_blocks_of_many_samples_hide_no_step():
    levels = levels_of([*noisy(1000.0, 300, 0.1), *noisy(4000.0, 300, 0.1, seed=2)])
    assert min(levels[1:9]) > 3500.0


def test_the_error_of_a_forecast_grows_with_the_horizon_only_where_the_load_wanders():
    draws, walk, rate = random.Random(3), [], 1000.0
    for _ in range(400):
        rate *= math.exp(draws.gauss(0.0, 0.04))
        walk.append(rate)
    wanders, stays = follow(walk), follow(noisy(1000.0, 400, 0.1))
    assert wanders.deviation(16) > 1.5 * wanders.deviation(2)
    assert stays.deviation(16) < stays.deviation(2)
    assert stays.deviation(2) == pytest.approx(0.08, rel=0.5)


def test_a_constant_load_is_forecast_without_error():
    assert follow([1000.0] * 400).deviation(16) < 0.01


def test_jumps_are_counted_once_and_tell_how_long_a_load_lasts():
    level = follow(([1000.0] * 20 + [3000.0] * 20) * 3)
    last_at = SAMPLE_S * level.count
    assert level.between_jumps_s(last_at) == pytest.approx(20 * SAMPLE_S)
    quiet_s = 3600.0
    assert level.between_jumps_s(last_at + quiet_s) == pytest.approx((100 * SAMPLE_S + quiet_s) / 5, rel=0.05)


def test_the_error_is_measured_over_minutes_however_short_the_samples():
    level = Level()
    for place, rate in enumerate(noisy(1000.0, 200, 0.1)):
        level = follow_level(level, 2.0 * place, rate, 1000.0, 2.0)
    assert 120.0 <= level.longest * 2.0 <= 240.0
    assert len(level.levels) == level.longest


def test_a_load_that_ends_is_zero_and_begins_anew():
    quiet = follow([1000.0] * 10 + [0.0] * 4)
    assert (quiet.rate, quiet.log_rate) == (0.0, None)
    assert follow([500.0], quiet).rate == pytest.approx(500.0)


def test_a_sample_without_records_in_a_window_with_some_is_a_low_one():
    level = follow([2.0, 0.0, 1.0, 3.0, 0.0, 2.0, 1.0, 0.0, 2.0])
    assert 0.3 < level.rate < 3.0
