"""Lines, parabolas, troughs, intervals and integrals, against figures worked out by hand."""

import doctest
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import rheostat.policies.trend as regression
from rheostat.policies.trend import Point, line, parabola, trough_or_line

VECTOR = [Point(x, 10.0 + 2 * x + e) for x, e in enumerate((1, -1, 0, 0, -1, 1))]
"""SOURCES S5: the errors of the talk's baseline, around a line."""


def series(*values: float) -> list[Point]:
    return [Point(60.0 * place, value) for place, value in enumerate(values)]


def test_examples_in_docstrings():
    assert doctest.testmod(regression).failed == 0


def test_the_vector_of_the_talk():
    fit = line(VECTOR)
    assert fit.at(6) == pytest.approx(22.0)
    assert fit.deviation**2 == pytest.approx(4 / 6)
    assert round(3 * fit.deviation, 2) == 2.45


def test_a_parabola_by_hand():
    """y = (x − 2)² + 5 at x = 0 … 5."""
    fit = parabola([Point(x, (x - 2.0) ** 2 + 5) for x in range(6)])
    assert [fit.at(1), fit.at(2), fit.at(3), fit.at(8)] == pytest.approx([6.0, 5.0, 6.0, 41.0])
    assert fit.error == pytest.approx(0.0, abs=1e-18)
    assert fit.integral(2, 5) == pytest.approx(9 + 15)


def test_what_lies_below_zero_does_not_come():
    """y = (x − 1)(x − 3): below 0 from 1 to 3; ∫ from 0 to 1 and from 3 to 4 is 4/3 each."""
    fit = parabola([Point(x, (x - 1.0) * (x - 3.0)) for x in range(6)])
    assert fit.integral(0, 4) == pytest.approx(8 / 3)
    assert line(series(-5.0, -5.0)).integral(0, 100) == 0.0


@pytest.mark.parametrize(
    ("points", "found"),
    [
        pytest.param(series(9, 4, 1, 0, 1, 4, 9), True, id="down and up again"),
        pytest.param(series(16, 9, 4, 1, 0, 1, 4), True, id="it has just turned"),
        pytest.param(series(0, 4, 7, 8, 7, 4, 0), False, id="a crest is none"),
        pytest.param(series(49, 36, 25, 16, 9, 4, 1), False, id="it turns only beyond the last point"),
        pytest.param(series(1, 2, 3, 4, 5, 6, 7), False, id="a line is none"),
        pytest.param(series(1000, 80, 80, 80, 80, 80, 80), False, id="a step down is none"),
        pytest.param(series(1000, 90, 70, 75, 80, 85, 80), False, id="nor is one with noise"),
        pytest.param(series(9, 4, 1, 4, 9), False, id="five points are too few"),
        pytest.param(series(5.3, 4.8, 5.1, 4.9, 5.2, 4.7, 5.2), False, id="noise is none: F = 0.5"),
    ],
)
def test_how_a_trough_is_told(points, found):
    assert trough_or_line(points) == (parabola(points) if found else line(points))


def test_the_prediction_interval_by_hand():
    """Σe² = 4 over 6 − 2; at 6 the leverage is 1/6 + 3.5²/17.5."""
    assert line(VECTOR).half_width(6, deviations=2.0) == pytest.approx(2 * math.sqrt(1 + 1 / 6 + 0.7))
    assert line(VECTOR[:2]).half_width(6) == math.inf


@pytest.mark.parametrize("fitted", [line, parabola])
def test_one_point_stays_as_it_is(fitted):
    fit = fitted([Point(100.0, 7.0)])
    assert (fit.at(0), fit.at(1e6), fit.deviation) == (7.0, 7.0, 0.0)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=15), st.floats(0, 600), st.floats(0, 600))
@example([91.0, 91.0, 0.0, 0.0], 91.0, 240.0)
def test_integrals_are_additive_and_never_negative(values, first, second):
    fit = parabola(series(*values))
    low, high = sorted((first, second))
    parts = fit.integral(0, low) + fit.integral(low, high)
    assert parts == pytest.approx(fit.integral(0, high), rel=1e-6, abs=1e-3)
    assert min(fit.integral(0, low), fit.integral(low, high)) >= 0


@given(st.lists(st.floats(0, 1e6), min_size=6, max_size=15))
def test_a_parabola_leaves_no_more_than_a_line(values):
    points = series(*values)
    assert parabola(points).error <= line(points).error * (1 + 1e-9) + 1e-9
