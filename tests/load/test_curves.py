"""Rates and integrals of every curve, as literal values and as properties."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.load.curves import Cut, Pieces, Scaled, Sequel, add_curves, constant, staircase
from rheostat.load.shapes import KINDS, parse_shape

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
SEEDS = st.integers(0, 9)
SIMPLE = st.one_of(
    st.builds(constant, RATES, SECONDS),
    st.builds(lambda a, b, s: Pieces([(0, a), (s, b)]), RATES, RATES, SECONDS),
    st.builds(staircase, st.lists(st.tuples(SECONDS, RATES), min_size=1, max_size=5)),
    st.builds(
        lambda name, a, b, s: parse_shape(f"{name}:{a:f}..{b:f}@{s:f}"),
        st.sampled_from([name for name, kind in KINDS.items() if not kind.one_rate]),
        RATES,
        RATES,
        SECONDS,
    ),
    st.builds(lambda rate, s, seed: parse_shape(f"trips:{rate:f}@{s:f},speed=9,seed={seed}"), RATES, SECONDS, SEEDS),
)
CURVES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.builds(Sequel, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda curves: add_curves([c.pieces() for c in curves]), st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda c, t, r: Scaled(c, time_scale=t, rate_scale=r), inner, st.floats(0.1, 10), st.floats(0.1, 10)),
        st.builds(lambda c, share: Cut(c, share * c.duration), inner, st.floats(0.1, 1)),
    ),
    max_leaves=4,
)
SHARES = st.floats(0, 1)


@given(CURVES, SHARES, SHARES)
def test_the_integral_never_decreases(curve, one, other):
    early, late = sorted((one * curve.duration, other * curve.duration))
    assert curve.rate(early) >= 0
    assert curve.cumulative(late) >= curve.cumulative(early) - 1e-6


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
    both = add_curves([constant(100, 10), constant(50, 20)])
    assert (both.duration, both.rate(5), both.rate(15), both.cumulative(20)) == (20, 150, 50, 2_000)


def test_a_cut_ends_the_load():
    cut = Cut(constant(100, 10), 4)
    assert (cut.duration, cut.rate(4), cut.cumulative(9)) == (4, 0, 400)


def test_points_that_go_back_are_refused():
    with pytest.raises(ValueError, match="never go back"):
        Pieces([(0, 1), (2, 1), (1, 1)])


@pytest.mark.parametrize(
    ("count", "second"),
    [
        (-1, 0),
        (0, 0),
        (125, 5),
        (500, 10),
        (500.001, 20 + 0.001 / 50),
        (750, 25),
        (900, 28),
        (1275, 35),
        (1400, 40),
        (1400.1, math.inf),
    ],
    ids=[
        "less than nothing", "nothing", "on a rise", "at the end of a rise", "after a time without load", "on a level",
        "at the end of a level, before a pause", "on a fall", "all of it", "more than there is",
    ],
)  # fmt: skip
def test_a_count_is_reached_at(count, second):
    """0 → 100/s in 10 s: 500; nothing for 10 s; 50/s for 8 s: 900; 100 → 0 in 10 s, from second 30: 500 more."""
    curve = Pieces([(0, 0), (10, 100), (10, 0), (20, 0), (20, 50), (28, 50), (28, 0), (30, 0), (30, 100), (40, 0)])
    assert curve.when(count) == pytest.approx(second)


@given(CURVES, SHARES)
def test_when_is_the_inverse_of_the_integral(curve, share):
    pieces = curve.pieces()
    total = pieces.cumulative(pieces.duration)
    count = share * total
    assert pieces.cumulative(pieces.when(count)) == pytest.approx(count, abs=1e-6 * total + 1e-9)


@given(SIMPLE, SHARES)
def test_pieces_offer_what_the_curve_offers(curve, share):
    pieces = curve.pieces()
    t, span = share * curve.duration, max(rate for _, rate in pieces.points)
    assert pieces.duration == pytest.approx(curve.duration)
    assert pieces.cumulative(t) == pytest.approx(curve.cumulative(t), abs=2e-4 * span * curve.duration + 1e-9)


@pytest.mark.parametrize(
    "text",
    ["sine:200..1400@600,period=60", "gaussian:200..1400@1000,at=300,width=50", "gaussian:200..1400@60,at=0,width=90"],
)
def test_waves_and_bells_are_lines_to_within_a_five_thousandth(text):
    curve = parse_shape(text)
    lines = curve.pieces()
    seconds = [curve.duration * index / 4321 for index in range(4321)]
    assert max(abs(lines.rate(t) - curve.rate(t)) for t in seconds) < 1200 / 5000


def test_curves_of_lines_become_the_same_lines():
    stairs = staircase([(5, 100), (5, 300)])
    assert Sequel([stairs, constant(7, 2)]).pieces().points == [
        (0, 100), (5, 100), (5, 300), (10, 300), (10, 7), (12, 7),
    ]  # fmt: skip
    assert add_curves([stairs, Pieces([(0, 0), (20, 20)])]).points == [
        (0, 100), (5, 105), (5, 305), (10, 310), (10, 10), (20, 20),
    ]  # fmt: skip
    assert Scaled(stairs, time_scale=2, rate_scale=0.5).pieces().points == [(0, 50), (10, 50), (10, 150), (20, 150)]
    assert Cut(stairs, 7).pieces().points == [(0, 100), (5, 100), (5, 300), (7, 300)]


def test_a_window_of_a_curve_starts_at_nothing():
    ramp = Pieces([(0, 0), (10, 100), (10, 50), (20, 50)])
    assert ramp.between(5, 15).points == [(0, 50), (5, 100), (5, 50), (10, 50)]
    assert ramp.between(10, 20).points == [(0, 50), (10, 50)]
    assert ramp.between(0, 10).points == [(0, 0), (10, 100)]


def test_the_rate_just_before_a_jump_is_the_old_one():
    stairs = staircase([(5, 100), (5, 300)])
    assert [stairs.before(t) for t in (-1, 0, 3, 5, 10, 11)] == [0, 0, 100, 100, 300, 0]
