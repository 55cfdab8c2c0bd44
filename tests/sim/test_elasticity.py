from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.load.curves import Pieces, constant, staircase
from rheostat.sim.history import Elasticity, changes, demand_steps, elasticity, integral

CURVE = (0.0, 100.0, 200.0, 300.0)


@pytest.mark.parametrize(
    ("supply", "demand", "expected"),
    [
        pytest.param([(0, 2)], [(0, 2)], Elasticity(0, 0, 0, 0), id="supply is demand"),
        pytest.param([(0, 3)], [(0, 1)], Elasticity(2, 0, 1, 0), id="two too many all the time"),
        pytest.param(
            [(0, 1), (30, 4)], [(0, 2)], Elasticity(1.4, 0.3, 0.7, 0.3), id="one short for 30 of 100 s, then two"
        ),
        pytest.param([(0, 2)], [(0, 4), (50, 1)], Elasticity(0.5, 1.0, 0.5, 0.5), id="the demand falls"),
        pytest.param(
            [(-50, 9), (-10, 3)], [(0, 3), (100, 8)], Elasticity(0, 0, 0, 0), id="what was before and comes after"
        ),
    ],
)
def test_metrics_by_hand(supply, demand, expected):
    got = elasticity(supply, demand, 0.0, 100.0)
    assert (got.accuracy_o, got.accuracy_u) == pytest.approx((expected.accuracy_o, expected.accuracy_u))
    assert (got.timeshare_o, got.timeshare_u) == pytest.approx((expected.timeshare_o, expected.timeshare_u))


steps = st.lists(st.tuples(st.floats(0, 200), st.integers(0, 20)), min_size=1, max_size=12).map(
    lambda points: sorted(points, key=lambda point: point[0])
)


@given(supply=steps, demand=steps, start=st.floats(0, 50), lasts=st.floats(1, 200))
def test_over_less_under_is_mean_supply_less_mean_demand(supply, demand, start, lasts):
    got, end = elasticity(supply, demand, start, start + lasts), start + lasts
    means = (integral(supply, start, end) - integral(demand, start, end)) / (end - start)
    assert got.accuracy_o - got.accuracy_u == pytest.approx(means, abs=1e-9)
    assert 0 <= got.timeshare_o + got.timeshare_u <= 1 + 1e-9


def test_executor_seconds_of_a_rise_and_a_fall():
    assert integral([(0, 1), (100, 4), (400, 2)], 0, 500) == 100 + 1200 + 200
    assert integral([(0, 1), (100, 4), (400, 2)], 200, 300) == 400


@pytest.mark.parametrize(
    ("target", "count"),
    [
        pytest.param([(0, 2)], 0, id="none"),
        pytest.param([(0, 2), (0, 5), (30, 4)], 2, id="the first decision may be at the start"),
        pytest.param([(0, 2), (100, 5)], 0, id="after the end"),
    ],
)
def test_changes_are_counted(target, count):
    assert changes(target, 0.0, 100.0) == count


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        pytest.param(constant(150, 60), [(0, 2)], id="between two capacities"),
        pytest.param(constant(200, 60), [(0, 2)], id="exactly a capacity"),
        pytest.param(constant(999, 60), [(0, 3)], id="more than any carries"),
        pytest.param(constant(0, 60), [(0, 1)], id="nothing, but one is the least"),
        pytest.param(staircase([(10, 50), (10, 250), (10, 260)]), [(0, 1), (10, 3)], id="a jump"),
        pytest.param(
            Pieces([(0, 0), (30, 300), (60, 0)]), [(0, 1), (10, 2), (20, 3), (40, 2), (50, 1)], id="a triangle"
        ),
    ],
)
def test_demand_is_exact(load, expected):
    got = demand_steps(load, CURVE, 1, 3)
    assert [value for _, value in got] == [value for _, value in expected]
    assert [at for at, _ in got] == pytest.approx([at for at, _ in expected])


def test_more_executors_that_carry_less_are_no_demand():
    assert demand_steps(constant(150, 10), (0.0, 100.0, 90.0, 200.0), 1, 3) == [(0.0, 3.0)]
