"""What is done to a load before it is played."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.errors import InputError
from rheostat.load.curves import Pieces, Sequel, constant, staircase
from rheostat.load.files import Trace
from rheostat.load.prepare import peak_mean, prepare
from rheostat.load.shapes import parse_shape

DAYS = Trace([100.0] * 47 + [900.0] + [100.0] * 48, bin_s=1800.0)
"""Two days of half hours, with one that is nine times as high."""


@pytest.mark.parametrize(
    ("text", "peak"),
    [
        ("constant:500@60", 500),
        ("constant:500@10", 500),
        ("spike:100..400@120,at=60,width=60", 400),
        ("spike:100..400@120,at=60,width=10", 200),
        ("ramp:0..600@60+ramp:600..0@60", 525),
        ("ramp:0..600@60+ramp:600..0@30", 500),
        ("ramp:0..600@60", 450),
        ("constant:90@20+constant:30@20", 70),
    ],
    ids=[
        "a level", "a load shorter than the window", "a long spike", "a third of the window high",
        "15 s on either side: 450 .. 600", "20 s before, 10 s after: 400 .. 600", "the last 30 s", "20 of 30 s",
    ],
)  # fmt: skip
def test_the_peak_is_the_largest_mean_over_half_a_minute(text, peak):
    assert peak_mean(parse_shape(text)) == pytest.approx(peak)


LEVELS = st.lists(st.tuples(st.floats(1, 40), st.floats(0, 1000)), min_size=1, max_size=8)


@given(LEVELS, st.floats(0, 1))
def test_no_window_has_more_than_the_peak(levels, share):
    curve = staircase(levels)
    window = min(30.0, curve.duration)
    begin = share * (curve.duration - window)
    mean = (curve.cumulative(begin + window) - curve.cumulative(begin)) / window
    assert mean <= peak_mean(curve) * (1 + 1e-9) + 1e-6


def test_rates_are_scaled_to_the_peak_that_is_wanted():
    done = prepare(parse_shape("ramp:0..600@60+ramp:600..0@60"), name="hill", seed=1, peak_rate=1050.0)
    assert (done.peak, done.scale, done.cut, done.noise_cv, done.bin_s) == (1050, 2, None, 0, None)
    assert done.curve.points == [(0, 0), (60, 1200), (60, 1200), (120, 0)]
    assert done.said == ("rates × 2: the largest mean over 30 s is 1050 records/s",)


def test_without_a_wanted_peak_rates_stay():
    done = prepare(constant(500, 60), name="level", seed=1, peak_rate=None)
    assert (done.scale, done.peak, done.curve.points) == (1, 500, [(0, 500), (60, 500)])


def test_a_long_load_is_cut_to_the_window_around_its_peak():
    """The highest half minute is at 85 500 s, in the middle of its half hour; six hours around it."""
    done = prepare(DAYS, name="days", seed=1, peak_rate=None, longest_s=21_600, noise_cv=0)
    assert done.cut == (74_700.0, 96_300.0)
    assert done.curve.duration == 21_600
    assert done.curve.cumulative(21_600) == pytest.approx(1800 * (12 * 100 + 800))
    assert done.said[0] == "cut to 74700 .. 96300 s of 172800 s, around the peak"


@pytest.mark.parametrize(
    ("rates", "cut"),
    [([9, 1, 1, 1, 1, 1], (0, 200)), ([1, 1, 1, 1, 1, 9], (400, 600))],
    ids=["at the beginning", "at the end"],
)
def test_a_peak_near_an_end_is_as_near_to_the_middle_as_can_be(rates, cut):
    done = prepare(staircase([(100, rate) for rate in rates]), name="x", seed=1, peak_rate=None, longest_s=200)
    assert done.cut == cut


def test_wide_bins_become_steps_with_the_mean_of_their_line():
    """Two bins of 20 s, 100 and 300/s: level, then 10/s each second between the middles, then level."""
    done = prepare(Trace([100.0, 300.0], bin_s=20.0), name="x", seed=1, peak_rate=None, noise_cv=0)
    levels = [rate for _, rate in done.curve.points[::2]]
    assert levels == pytest.approx([100, 100, 125, 175, 225, 275, 300, 300])
    assert [t for t, _ in done.curve.points[::2]] == [0, 5, 10, 15, 20, 25, 30, 35]


def test_a_last_step_may_be_shorter():
    done = prepare(Trace([100.0], bin_s=12.0), name="x", seed=1, peak_rate=None, noise_cv=0)
    assert done.curve.points == [(0, 100), (5, 100), (5, 100), (10, 100), (10, 100), (12, 100)]


def test_noise_has_the_mean_and_the_variation_that_were_asked_for():
    """Of 17 280 steps the mean is known to 0.15 %, the standard deviation to 0.6 % (one standard error)."""
    done = prepare(Trace([1000.0] * 48, bin_s=1800.0), name="flat", seed=1, peak_rate=None, noise_cv=0.2)
    levels = [rate for _, rate in done.curve.points[::2]]
    assert len(levels) == 17_280
    mean = sum(levels) / 17_280
    assert mean == pytest.approx(1000, rel=0.005)
    assert (sum((level - mean) ** 2 for level in levels) / 17_280) ** 0.5 == pytest.approx(200, rel=0.02)
    assert done.noise_cv == 0.2
    assert done.said[0] == "bins of 1800 s put onto steps of 5 s, noise 20% (seed 1)"


def test_the_peak_that_is_wanted_is_that_of_the_noisy_load():
    done = prepare(DAYS, name="days", seed=3, peak_rate=1000.0)
    assert peak_mean(done.curve) == pytest.approx(1000)


@pytest.mark.parametrize("bin_s", [1.0, 5.0])
def test_fine_bins_keep_their_own_noise(bin_s):
    trace = Trace([1.0, 7.0, 3.0] * 20, bin_s=bin_s)
    done = prepare(trace, name="x", seed=1, peak_rate=None)
    assert (done.curve.points, done.noise_cv, done.bin_s) == (trace.points, 0, bin_s)


def test_a_load_that_is_to_be_always_noisy_is():
    fine = prepare(Trace([100.0] * 600, bin_s=1.0), name="x", seed=1, peak_rate=None, noise_cv=0.2, always_noisy=True)
    shape = prepare(constant(100, 600), name="x", seed=1, peak_rate=None, noise_cv=0.2, always_noisy=True)
    assert [(each.said[0], each.noise_cv) for each in (fine, shape)] == [
        ("bins of 1 s put onto steps of 5 s, noise 20% (seed 1)", 0.2),
        ("the shape put onto steps of 5 s, noise 20% (seed 1)", 0.2),
    ]
    levels = [rate for _, rate in shape.curve.points[::2]]
    assert len(levels) == 120
    assert min(levels) < 80 < 120 < max(levels)


def test_the_width_of_the_bins_may_be_given():
    done = prepare(Sequel([constant(100, 60), constant(200, 60)]), name="x", seed=1, peak_rate=None, bin_s=60.0)
    assert (len(done.curve.points), done.noise_cv, done.bin_s) == (48, 0.1, 60)


def test_seed_and_name_decide_the_noise():
    def played(seed, name):
        return prepare(DAYS, name=name, seed=seed, peak_rate=None, longest_s=3_600).curve.points

    assert played(1, "a") == played(1, "a")
    assert played(1, "a") != played(2, "a")
    assert played(1, "a") != played(1, "b")


def test_what_offers_nothing_is_refused():
    with pytest.raises(InputError, match="it offers nothing at all"):
        prepare(Pieces([(0, 0), (60, 0)]), name="empty", seed=1, peak_rate=100.0)


def test_all_numbers_out_of_range_are_named():
    with pytest.raises(InputError) as caught:
        prepare(constant(1, 1), name="x", seed=1, peak_rate=0.0, noise_cv=-1.0, bin_s=0.0, longest_s=-1, step_s=0.0)
    assert [(fault.field, fault.allowed) for fault in caught.value.faults] == [
        ("peak_rate", "a number > 0"),
        ("noise_cv", "a number ≥ 0"),
        ("bin_s", "a number > 0"),
        ("longest_s", "a number > 0"),
        ("step_s", "a number > 0"),
    ]
