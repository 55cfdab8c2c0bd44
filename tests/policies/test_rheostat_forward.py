"""Batches played forward, against batches reckoned by hand: one executor takes 1 s and 2 ms a record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rheostat.learn.arrivals import Curve
from rheostat.learn.batch_cost import BatchCost, Cold, Costs
from rheostat.policies.prices import Forecast, Outlook, Position, play

CURVE = Curve((-100.0, 0.0), (0.0, 30_000.0))
"""300 records/s until now, which is second 0."""


def costs(cap: int | None = None, ratios: tuple[tuple[int, float], ...] = ((1, 1.0), (2, 1.0), (4, 1.0))) -> Costs:
    return Costs(BatchCost(stages=((0, 0.0, 0.002),), driver_s=1.0, cap=cap, ratios=ratios))


def position(**changes: Any) -> Position:
    now = {"executors": 1, "in_flight": 0, "waiting": 3000, "started_s": -10.0, "oldest_s": -10.0, "trigger_s": 10.0}
    return Position(**{**now, "limit_s": 20.0, "curve": CURVE, "at": 0.0, **changes})


def test_a_batch_that_is_due_begins_now_and_takes_what_waits():
    # 3000 records: 7 s, until 7; the next one begins at 10 with 3000 more, until 17, and its oldest record is of 0
    assert play(position(), costs(), Forecast(300.0), (), 9.0) == Outlook(0.0, 17.0, 1)
    assert play(position(), costs(), Forecast(300.0), (), 11.0) == Outlook(0.0, 17.0, 1)


def test_time_over_the_limit_is_counted_from_the_end_before():
    # with 12 s allowed: the first lag passes it at 2, until 7; the second one at 12, until 17
    assert play(position(limit_s=12.0), costs(), Forecast(300.0), (), 11.0).over_s == pytest.approx(10.0)


def test_batches_that_are_longer_than_the_trigger_follow_one_another():
    # 0..13 with 6000 records, whose oldest is of -20; then 13..21.8 with the 3900 of 0..13
    late = position(waiting=6000, started_s=-20.0, oldest_s=-20.0, limit_s=30.0)
    seen = play(late, costs(), Forecast(300.0), (), 12.5)
    assert seen == pytest.approx(Outlook(3.0, 33.0, 1))
    assert play(late, costs(), Forecast(300.0), (), 13.0).lag_s == pytest.approx(21.8)


def test_the_running_batch_ends_first():
    # it began at -4 with 3000 records of -14 .. -4, ends at 3; the next one has 300 × 10 of -4 .. 6
    runs = position(in_flight=3000, waiting=1200, started_s=-4.0, oldest_s=-14.0)
    assert play(runs, costs(), Forecast(300.0), (), 5.0) == pytest.approx(Outlook(0.0, 17.0, 1))
    assert play(runs, costs(), Forecast(300.0), (), 6.0).lag_s == pytest.approx(17.0)


def test_a_full_batch_leaves_the_rest_for_the_next_one():
    # 2000 of 6000 records: 5 s; trigger 10, so the next 2000 begin at 10, and their oldest is of -13.3
    capped = position(waiting=6000, started_s=-20.0, oldest_s=-20.0)
    assert play(capped, costs(cap=2000), Forecast(300.0), (), 10.0).lag_s == pytest.approx(15.0 + 40 / 3)


def test_an_executor_that_joins_works_on_the_rest_of_the_batch():
    # 10 s are left when it joins at 3: half of that, and 4 s for its cold task
    late = position(waiting=6000, started_s=-20.0, oldest_s=-20.0, limit_s=25.0)
    seen = play(late, costs(), Forecast(300.0), ((3.0, 1),), 0.0)
    assert seen == pytest.approx(Outlook(7.0, 32.0, 2))


def test_executors_that_join_one_batch_together_make_it_longer_than_one_does():
    # 10 s are left when they join at 3: half of that with one more, a quarter with three
    late = position(waiting=6000, started_s=-20.0, oldest_s=-20.0)
    model = BatchCost(stages=((0, 0.0, 0.002),), driver_s=1.0, ratios=((1, 1.0), (2, 1.0), (4, 1.0)))
    model = replace(model, colds=(Cold(1, 2.0), Cold(3, 8.0)) * 4)
    first_s, other_s, _ = model.cold()
    assert 1.0 < first_s < 4.0 < first_s + 2 * other_s
    one, three = (play(late, Costs(model), Forecast(300.0), ((3.0, count),), 0.0).lag_s for count in (1, 3))
    assert (one, three) == pytest.approx((28.0 + first_s, 25.5 + first_s + 2 * other_s))


def test_batches_are_longer_while_executors_warm_up():
    # it joined 5 s ago: 10 s of work are in their middle when it has been there for 10 s, which makes it 0.6 as fresh
    warming = Costs(BatchCost(stages=((0, 0.0, 0.002),), warm_up=0.5, ratios=((1, 1.0),)))
    fresh, warm = (position(waiting=5000, started_s=-20.0, joined_s=joined_s) for joined_s in (-5.0, None))
    assert play(warm, warming, Forecast(0.0), (), 0.0).lag_s == pytest.approx(10.0 - warm.oldest_s)
    assert play(fresh, warming, Forecast(0.0), (), 0.0).lag_s == pytest.approx(13.0 - fresh.oldest_s)


def test_a_batch_that_is_overdue_lasts_on_for_half_as_long_as_it_has_been():
    # one executor, 2000 records in 5 s: it began 11 s ago, and is 6 s overdue
    overdue = position(in_flight=2000, waiting=0, started_s=-11.0, oldest_s=-12.0)
    assert play(overdue, costs(), Forecast(0.0), (), 0.0).lag_s == pytest.approx(15.0)


def test_those_that_join_between_two_batches_work_from_the_next_one_on():
    assert play(position(), costs(), Forecast(300.0), ((8.0, 3),), 10.0) == pytest.approx(Outlook(0.0, 16.5, 4))


def test_executors_leave_between_two_batches():
    leaves = position(executors=2)
    assert play(leaves, costs(), Forecast(300.0), ((2.0, -1),), 9.0) == pytest.approx(Outlook(0.0, 14.0, 1))
    assert play(leaves, costs(), Forecast(300.0), ((2.0, -1),), 10.0).lag_s == pytest.approx(17.0)


def test_nothing_arrives_and_nothing_waits():
    assert play(position(waiting=0), costs(), Forecast(0.0), (), 100.0) == Outlook(0.0, 0.0, 1)
