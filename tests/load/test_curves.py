"""Rates and integrals of every curve, as literal values and as properties."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rheostat.load.curves import Cut, Pieces, Scaled, Sequel, Together, constant, staircase
from rheostat.load.shapes import parse_shape

TABLE = [
    ("constant:500@60", 0, 500, 0),
    ("constant:500@60", 30, 500, 15_000),
    ("constant:500@60", 60, 0, 30_000),
    ("ramp:200..1400@40", 0, 200, 0),
    ("ramp:200..1400@40", 10, 500, 3_500),
    ("ramp:200..1400@40", 40, 0, 32_000),
    ("step:200..1400@60", 29.9, 200, 5_980),
    ("step:200..1400@60", 30, 1_400, 6_000),
    ("step:200..1400@60", 60, 0, 48_000),
    ("step:100..400@40,steps=4", 25, 300, 4_500),
    ("sine:200..1400@120", 0, 200, 0),
    ("sine:200..1400@120", 30, 800, 12_540.8441),
    ("sine:200..1400@120", 60, 1_400, 48_000),
    ("sine:200..1400@120,period=60", 60, 200, 48_000),
    ("gaussian:200..1400@120,at=60,width=10", 60, 1_400, 27_039.7696),
    ("gaussian:200..1400@120,at=60,width=10", 70, 927.8368, 39_307.2623),
    ("gaussian:200..1400@120,at=60,width=10", 120, 0, 54_079.5391),
    ("spike:200..1400@120,at=60,width=10", 59.9, 200, 11_980),
    ("spike:200..1400@120,at=60,width=10", 65, 1_400, 19_000),
    ("spike:200..1400@120,at=60,width=10", 70, 200, 26_000),
    ("spike:200..1400@120", 61, 1_400, 13_400),
    ("spike:200..1400@20,at=15,width=10", 18, 1_400, 7_200),
    ("spike:200..1400@20,at=0,width=5", 0, 1_400, 0),
    ("ramp:200..1400@40+constant:1400@50+ramp:1400..200@60", 90, 1_400, 102_000),
    ("ramp:200..1400@40+constant:1400@50+ramp:1400..200@60", 120, 800, 135_000),
    ("ramp:200..1400@40+constant:1400@50+ramp:1400..200@60", 150, 0, 150_000),
]


@pytest.mark.parametrize(("text", "t", "rate", "cumulative"), TABLE, ids=[f"{row[0]} at {row[1]}" for row in TABLE])
def test_shapes_have_these_rates_and_integrals(text, t, rate, cumulative):
    curve = parse_shape(text)
    assert curve.rate(t) == pytest.approx(rate, abs=1e-3)
    assert curve.cumulative(t) == pytest.approx(cumulative, abs=1e-3)


@pytest.mark.parametrize("text", sorted({row[0] for row in TABLE}))
def test_nothing_is_offered_outside(text):
    curve = parse_shape(text)
    assert curve.rate(-1) == curve.cumulative(-1) == 0
    assert curve.rate(curve.duration) == curve.rate(1e9) == 0
    assert curve.cumulative(1e9) == curve.cumulative(curve.duration)


RATES = st.floats(0, 5_000)
SECONDS = st.floats(0.5, 500)
SIMPLE = st.one_of(
    st.builds(constant, RATES, SECONDS),
    st.builds(lambda a, b, s: Pieces([(0, a), (s, b)]), RATES, RATES, SECONDS),
    st.builds(staircase, st.lists(st.tuples(SECONDS, RATES), min_size=1, max_size=5)),
    st.builds(
        lambda name, a, b, s: parse_shape(f"{name}:{a:f}..{b:f}@{s:f}"),
        st.sampled_from(["sine", "gaussian", "spike", "step", "ramp"]),
        RATES,
        RATES,
        SECONDS,
    ),
)
CURVES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.builds(Sequel, st.lists(inner, min_size=1, max_size=3)),
        st.builds(Together, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda c, t, r: Scaled(c, time_scale=t, rate_scale=r), inner, st.floats(0.1, 10), st.floats(0.1, 10)),
        st.builds(lambda c, share: Cut(c, share * c.duration), inner, st.floats(0.1, 1)),
    ),
    max_leaves=4,
)
SHARES = st.floats(0, 1)


@settings(deadline=None)
@given(CURVES, SHARES, SHARES)
def test_the_integral_never_decreases(curve, one, other):
    early, late = sorted((one * curve.duration, other * curve.duration))
    assert curve.rate(early) >= 0
    assert curve.cumulative(late) >= curve.cumulative(early) - 1e-6


@settings(deadline=None)
@given(CURVES, SHARES)
def test_the_integral_grows_by_the_rate(curve, share):
    """Riemann sums over 200 intervals bound the increase, but for the jumps: at most one rate span an interval."""
    width = curve.duration / 400
    start = share * (curve.duration - 20 * width)
    steps = [start + width * index / 10 for index in range(201)]
    area = sum((curve.rate(t) + curve.rate(t + width / 10)) / 2 * width / 10 for t in steps[:-1])
    spans = sum(abs(curve.rate(t + width / 10) - curve.rate(t)) for t in steps[:-1])
    grown = curve.cumulative(steps[-1]) - curve.cumulative(start)
    assert grown == pytest.approx(area, abs=spans * width / 10 + 1e-3 * area + 1e-6)


def test_a_scaled_curve_offers_scaled_time_times_scaled_rate():
    played = Scaled(Pieces([(0, 0), (60, 120)]), time_scale=0.5, rate_scale=3)
    assert (played.duration, played.rate(15), played.cumulative(30)) == (30, 180, 5_400)


def test_agents_add_up_and_the_shorter_one_ends():
    both = Together([constant(100, 10), constant(50, 20)])
    assert (both.duration, both.rate(5), both.rate(15), both.cumulative(20)) == (20, 150, 50, 2_000)


def test_a_cut_ends_the_load():
    cut = Cut(constant(100, 10), 4)
    assert (cut.duration, cut.rate(4), cut.cumulative(9)) == (4, 0, 400)


def test_points_that_go_back_are_refused():
    with pytest.raises(ValueError, match="never go back"):
        Pieces([(0, 1), (2, 1), (1, 1)])
