"""MST = α·n^β − γ·ND: what points tell, and what they do not. Values by hand from α = 60, β = 0.9, γ = 0.2 (S2)."""

import doctest
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

import rheostat.learn.throughput
from rheostat.errors import InputError
from rheostat.learn.throughput import FitOptions, MstModel, Point, Saturated, add_measurement, fit


def points(*configurations, alpha=60.0, beta=0.9, gamma=0.2):
    """Exact measurements at (n, ND)."""
    return [Point(n, nd, alpha * n**beta - gamma * nd) for n, nd in configurations]


def parameters(model):
    return model.alpha, model.beta, model.gamma


def test_examples():
    assert doctest.testmod(rheostat.learn.throughput).failed == 0


def test_a_far_node_can_lower_it():
    model = fit(points((1, 0), (2, 20), (3, 300)))
    assert parameters(model) == pytest.approx((60.0, 0.9, 0.2), rel=1e-4)
    assert model.mst(2, 20.0) == pytest.approx(108.0, abs=0.05)
    assert model.mst(3, 300.0) == pytest.approx(101.3, abs=0.05)
    assert model.defaulted == ()


@pytest.mark.parametrize(
    ("configurations", "expected", "defaulted"),
    [
        pytest.param(
            [(6, 0)],
            (50.16, 1.0, 0.0),
            ("β = 1: 1 configuration, too few for it", "γ = 0: 1 configuration, too few for it"),
            id="one: equation (2)",
        ),
        pytest.param(
            [(3, 0), (3, 50)],
            (53.76, 1.0, 0.2),
            ("β = 1: all configurations have the same number of executors",),
            id="two at equal n: equation (3)",
        ),
        pytest.param(
            [(3, 10), (3, 50), (3, 100)],
            (53.76, 1.0, 0.2),
            ("β = 1: all configurations have the same number of executors",),
            id="three at equal n: β cannot be told",
        ),
        pytest.param(
            [(2, 0), (4, 0), (8, 0)],
            (60.0, 0.9, 0.0),
            ("γ = 0: no distances",),
            id="no distances: γ cannot be told",
        ),
    ],
)
def test_what_cannot_be_told_keeps_its_default(configurations, expected, defaulted):
    model = fit(points(*configurations))
    assert parameters(model) == pytest.approx(expected, rel=1e-3)
    assert model.defaulted == defaulted
    assert model.points == len(configurations)


@pytest.mark.parametrize("configurations", [[(2, 20), (4, 40)], [(2, 10), (4, 20), (6, 30)]], ids=["two", "three"])
def test_distance_in_proportion_to_executors_is_singular(configurations):
    """With β = 1, α·n − γ·c·n is one parameter: γ stays 0, and what is measured is fitted all the same."""
    model = fit(points(*configurations))
    assert (model.gamma, model.defaulted) == (0.0, ("γ = 0: distance is in proportion to executors",))
    for point in points(*configurations):
        assert model.mst(point.executors, point.distance_ms) == pytest.approx(point.throughput, rel=0.005)


def test_one_distance_above_zero_is_badly_conditioned():
    configurations = [(2, 20), (4, 20), (8, 20)]
    model = fit(points(*configurations))
    assert model.defaulted == ("γ = 0: all configurations have the same distance",)
    assert fit(points(*configurations), FitOptions(worst_condition=1e6)).gamma == pytest.approx(0.2, rel=0.01)


def test_two_configurations_are_equation_3_where_distances_differ():
    """α·2 − γ·20 = 108, α·4 − γ·50 = 203 → α = 70, γ = 1.6."""
    model = fit([Point(2, 20, 108.0), Point(4, 50, 200.0)])
    assert parameters(model) == pytest.approx((70.0, 1.0, 1.6))
    assert model.defaulted == ("β = 1: 2 configurations, too few for all three",)


def test_three_points_that_do_not_determine_both_get_the_one_that_fits():
    """Measured by others: β alone would say 194, 129 and 323."""
    measured = [Point(3, 245.0, 205.0), Point(2, 249.0, 108.0), Point(5, 123.0, 430.0)]
    model = fit(measured)
    assert [round(model.mst(each.executors, each.distance_ms)) for each in measured] == [204, 108, 431]
    assert (model.beta, round(model.gamma, 2)) == (1.0, 0.32)


def test_s2_fits_no_beta_to_two_configurations():
    two = points((2, 0), (8, 0))
    assert fit(two).beta == pytest.approx(0.9, rel=1e-3)
    assert fit(two, FitOptions(beta_from=3)).beta == 1.0


def test_the_bounds_hold():
    faster = fit([Point(1, 0, 100.0), Point(2, 0, 300.0), Point(4, 0, 900.0)])
    assert faster.beta == 1.0
    assert faster.defaulted == ("β = 1: the best fit is at its bound", "γ = 0: no distances")
    better_afar = fit([Point(2, 0, 100.0), Point(4, 200, 180.0), Point(8, 10, 300.0)])
    assert better_afar.gamma == 0.0
    assert better_afar.defaulted == ("γ = 0: the best fit is at its bound",)


def test_only_alpha():
    model = fit(points((1, 0), (2, 20), (3, 300)), FitOptions(alpha_only=True))
    assert (model.beta, model.gamma, model.defaulted) == (1.0, 0.0, ("β = 1: by choice", "γ = 0: by choice"))


def test_points_weigh_as_much_as_their_measurements():
    """Relative least squares of α by hand: 3 × 100 and 1 × 90 → α = Σ c·x/y ÷ Σ c·(x/y)²."""
    model = fit([Point(1, 0, 100.0, count=3), Point(1, 500, 90.0)], FitOptions(alpha_only=True))
    assert model.alpha == pytest.approx((3 / 100 + 1 / 90) / (3 / 100**2 + 1 / 90**2))
    assert model.alpha == pytest.approx(97.09, abs=0.01)


# ----------------------------------------------------------------------------------------------- uncertainty


def test_one_measurement_is_as_uncertain_as_one_is_taken_to_be():
    """Four of 5 % before it: √(4 · 0.05² ÷ 4) = 5 % of α."""
    model = fit([Point(2, 0, 200.0)])
    assert model.error == pytest.approx(0.05)
    assert [variance for row in model.covariance for variance in row] == pytest.approx([25.0, *[0.0] * 8])
    assert model.standard_error(4) == pytest.approx(20.0)
    assert model.interval(4) == pytest.approx((360.0, 440.0))


def test_more_measurements_make_it_surer_and_scatter_less_sure():
    once = fit(points((1, 0), (2, 20), (4, 150)))
    often = fit([replace(point, count=20) for point in points((1, 0), (2, 20), (4, 150))])
    wild = fit([replace(point, count=20, scatter=4.0) for point in points((1, 0), (2, 20), (4, 150))])
    assert often.standard_error(3, 20) < once.standard_error(3, 20) < wild.standard_error(3, 20)
    assert once.standard_error(12, 300) > once.standard_error(3, 20), "far from the points it is less sure"


# ------------------------------------------------------------------------------------------------ measurements


def test_a_configuration_is_one_point():
    """Mean of 100 and 110, relative scatter (110 − 100)·(110 − 105) ÷ 105²."""
    known = add_measurement((), Saturated(1.0, 2, 20.0, 100.0))
    known = add_measurement(known, Saturated(2.0, 2, 21.5, 110.0))
    assert known == (Point(2, 20.75, 105.0, 2, 10 * 5 / 105**2, 2.0),)
    assert [point.executors for point in add_measurement(known, Saturated(3.0, 2, 40.0, 90.0))] == [2, 2]
    assert [point.executors for point in add_measurement(known, Saturated(3.0, 1, 20.0, 60.0))] == [1, 2]


def test_a_mean_forgets_at_the_pace_of_its_greatest_weight():
    known = add_measurement((), Saturated(0.0, 2, 0.0, 100.0), FitOptions(most_weight=4))
    for at in range(1, 40):
        known = add_measurement(known, Saturated(at, 2, 0.0, 200.0), FitOptions(most_weight=4))
    assert known[0].count == 4
    assert known[0].throughput == pytest.approx(200.0, rel=1e-3)


def test_the_oldest_configuration_goes_first():
    options = FitOptions(most_points=3)
    known: tuple[Point, ...] = ()
    for at, n in enumerate([5, 1, 3, 1, 4]):
        known = add_measurement(known, Saturated(at, n, 0.0, 10.0 * n), options)
    assert [point.executors for point in known] == [1, 3, 4]


def test_every_fault_of_a_measurement_is_named():
    with pytest.raises(InputError) as caught:
        add_measurement((), Saturated(0.0, 0, -1.0, float("nan")))
    assert [fault.field for fault in caught.value.faults] == ["executors", "distance_ms", "throughput"]
    with pytest.raises(InputError, match="at least one"):
        fit([])


# -------------------------------------------------------------------------------------------------- properties

measured = st.builds(
    Point,
    executors=st.integers(1, 30),
    distance_ms=st.sampled_from([0.0, 5.0, 20.0, 150.0, 300.0]),
    throughput=st.floats(1.0, 1e6),
    count=st.integers(1, 20),
)
several = st.lists(measured, min_size=1, max_size=8, unique_by=lambda point: (point.executors, point.distance_ms))


@given(several)
def test_it_is_bounded_monotone_at_equal_distance_and_finite(rows):
    model = fit(rows)
    assert model.alpha > 0
    assert 0 < model.beta <= 1
    assert model.gamma >= 0
    for distance in (0.0, 300.0):
        values = [model.mst(n, distance) for n in range(31)]
        assert values == sorted(values)
        low, high = model.interval(7, distance)
        assert 0 <= low <= model.mst(7, distance) <= high < float("inf")
    needs = model.needed(123.0, 20.0)
    assert model.mst(needs, 20.0) == pytest.approx(123.0, rel=1e-6)


@given(several, st.sampled_from([1 / 64, 1024.0]))
def test_it_scales_with_the_records(rows, factor):
    once, again = fit(rows), fit([replace(row, throughput=row.throughput * factor) for row in rows])
    assert (again.alpha, again.beta, again.gamma) == (once.alpha * factor, once.beta, once.gamma * factor)


def test_json_and_back():
    adapter = TypeAdapter(tuple[MstModel, tuple[Point, ...]])
    state = (fit(points((1, 0), (2, 20), (3, 300))), tuple(points((1, 0), (2, 20))))
    assert adapter.validate_json(adapter.dump_json(state)) == state
