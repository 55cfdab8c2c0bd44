"""Rises of the load at regular times: found, awaited, and not imagined."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from tests.policies.test_rheostat import known_cost, policy, sample

from rheostat.learn.arrivals import Level, Rhythm, Rise, follow_level, follow_rhythm
from rheostat.learn.start_up import StartUp
from rheostat.model import ReasonCode
from rheostat.policies.rheostat import RheostatState

SAMPLE_S = 15.0
HOUR = 3600.0


def follow(rate_at: Callable[[float], float], until_s: float, begin_s: float = 0.0) -> tuple[Level, Rhythm]:
    """``rate_at``: mean rate of the sample that ends then."""
    level, found = Level(), Rhythm()
    for place in range(1, round((until_s - begin_s) / SAMPLE_S) + 1):
        at = begin_s + place * SAMPLE_S
        before = level
        level = follow_level(before, at, rate_at(at), max(rate_at(at), rate_at(at - SAMPLE_S)), SAMPLE_S)
        found = follow_rhythm(found, before, level, at, SAMPLE_S)
    return level, found


def hourly(at: float) -> float:
    """1000/s, and 5000/s for ten minutes from each half hour on; the sample in which it rises holds half of it."""
    into = (at - HOUR / 2) % HOUR
    return 3000.0 if into == 0 else 5000.0 if into <= 600 else 1000.0


def test_the_next_of_regular_rises_is_known_after_four():
    _, found = follow(hourly, 3.5 * HOUR - SAMPLE_S)
    assert found.next_rise(3.4 * HOUR, SAMPLE_S, 900.0) is None
    _, found = follow(hourly, 4.3 * HOUR)
    rise = found.next_rise(4.3 * HOUR, SAMPLE_S, 900.0)
    assert rise is not None
    assert rise.at == pytest.approx(4.5 * HOUR, abs=2 * SAMPLE_S)
    assert rise.rate == pytest.approx(5000.0, rel=0.05)


def test_rises_from_nothing_are_rises():
    _, found = follow(lambda at: 0.0 if hourly(at) < 2000 else hourly(at), 5.3 * HOUR)
    rise = found.next_rise(5.3 * HOUR, SAMPLE_S, 900.0)
    assert rise is not None
    assert rise.at == pytest.approx(5.5 * HOUR, abs=2 * SAMPLE_S)


def test_bursts_that_are_over_within_a_minute_are_not_awaited():
    level, found = follow(lambda at: 5000.0 if (at - HOUR / 2) % HOUR <= 30.0 else 1000.0, 4.4 * HOUR)
    rise = found.next_rise(4.4 * HOUR, SAMPLE_S, 900.0)
    assert rise is not None
    assert rise.rate <= 1.05 * level.rate


def test_rises_that_follow_one_another_closely_are_not_awaited():
    _, found = follow(lambda at: 5000.0 if at % 300.0 <= 120.0 else 1000.0, 2 * HOUR)
    assert found.next_rise(2 * HOUR + 280.0, SAMPLE_S, 60.0) is not None
    assert found.next_rise(2 * HOUR + 280.0, SAMPLE_S, 100.0) is None


def test_a_rise_that_does_not_come_is_awaited_no_longer():
    _, found = follow(hourly, 4.3 * HOUR)
    assert found.next_rise(4.5 * HOUR + 3 * SAMPLE_S, SAMPLE_S, 900.0) is None


def test_bursts_without_memory_are_hardly_ever_regular():
    draws, rises, at, awaited, count = random.Random(1), list[Rise](), 0.0, 0, 2000
    for _ in range(count):
        at += draws.expovariate(1 / 900.0) + draws.expovariate(1 / 300.0)
        rises = [*rises, Rise(at, 5000.0)][-4:]
        found = Rhythm(tuple(rises))
        awaited += any(found.next_rise(at + later, SAMPLE_S, 100.0) for later in range(60, 6000, 60))
    assert awaited <= count / 200


@pytest.mark.parametrize("spread", [0.05, 0.2])
def test_noise_does_not_rise(spread):
    draws = random.Random(1)
    rates = [1000.0 * math.exp(draws.gauss(0.0, spread)) for _ in range(1000)]
    _, found = follow(lambda at: rates[round(at / SAMPLE_S) - 1], 14_000.0)
    assert found.next_rise(14_000.0, SAMPLE_S, 900.0) is None


def test_a_slow_wave_has_no_rises():
    _, found = follow(lambda at: 1000.0 * math.exp(math.sin(math.tau * at / HOUR)), 6 * HOUR)
    assert len(found.rises) <= 1


# ------------------------------------------------------------------------------------------------- decisions


def targets_at(rates: Sequence[float], start_up: StartUp, due_s: float) -> list[tuple[int, ReasonCode]]:
    """Decisions at three executors, when a rise to 4000/s is due in ``due_s`` after the last sample."""
    last = SAMPLE_S * len(rates) + due_s + SAMPLE_S
    rises = tuple(Rise(last - HOUR * back, 4000.0) for back in (4, 3, 2, 1))
    state, found = RheostatState(cost=known_cost(), start_up=start_up, rhythm=Rhythm(rises)), []
    for place, rate in enumerate(rates):
        answer, state = policy().recommend(sample(SAMPLE_S * (place + 1), rate, 3), state)
        found.append((answer.target or 0, answer.reason.code))
    return found


SLOW = StartUp(mean=math.log(180.0), variance=0.01, weight=40.0, seen=40)
QUICK = StartUp(mean=math.log(2.0), variance=0.01, weight=40.0, seen=40)
CALM = [900.0] * 30


def test_slow_executors_are_asked_for_before_the_rise():
    last = targets_at(CALM, SLOW, 180.0)[-1]
    assert last[0] >= 10
    assert last[1] is ReasonCode.FORECAST


def test_no_earlier_than_they_take_to_start():
    assert max(target for target, _ in targets_at(CALM, SLOW, 300.0)) == 3


def test_quick_executors_that_come_in_time_are_not_asked_for_in_advance():
    quick = replace(QUICK, mean=math.log(0.5))
    assert max(target for target, _ in targets_at(CALM, quick, 5.0)) == 3
