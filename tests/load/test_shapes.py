"""The language of shapes, and what it says to a mistake."""

import pytest

from rheostat.errors import InputError
from rheostat.load.curves import Pieces
from rheostat.load.shapes import KINDS, SHAPES, parse_shape

PLAIN = "constant, step, ramp, sine, gaussian, spike, pulses"
NAMES = f"{PLAIN}, daily, weekly, trips, bursts, poisson, spikes, drift, shift, outage"

PERIOD = "a number of seconds > 0, at least a 10000th of the part"


@pytest.mark.parametrize(
    ("name", "begin", "top"),
    [
        ("constant", 1000, 1000),
        ("ramp", 0, 500),
        ("step", 200, 1000),
        ("sine", 200, 1000),
        ("gaussian", 208.89, 1000),
        ("spike", 200, 1000),
    ],
)
def test_a_bare_name_takes_rate_and_time_from_outside(name, begin, top):
    curve = parse_shape(name, rate=1000, seconds=60)
    assert curve.duration == 60
    assert curve.rate(0) == pytest.approx(begin, abs=0.01)
    assert curve.rate(30) == pytest.approx(top)


def test_every_shape_has_a_bare_form():
    assert [parse_shape(name, rate=10, seconds=6).duration for name in SHAPES] == [6.0] * 16


def test_spaces_and_capitals_are_forgiven():
    curve = parse_shape(" Ramp : 0 .. 10 @ 4 + constant:1e+1@2 ")
    assert (curve.duration, curve.cumulative(6)) == (6, 40)


@pytest.mark.parametrize(
    ("text", "field", "allowed", "message"),
    [
        ("gausian:1..2@3", "shape", NAMES, "did you mean 'gaussian'?"),
        ("zigzag", "shape", NAMES, "there is no shape 'zigzag'"),
        ("", "shape", NAMES, "there is no shape ''"),
        ("ramp:1..2", "shape", "@SECONDS, or --seconds, > 0", "as in ramp:200..1400@40, or --seconds"),
        ("ramp:1..2+constant:1@5", "shape", "@SECONDS, > 0", "give its duration, as in ramp:200..1400@40"),
        ("ramp:1..2@0", "shape", "a number > 0 and ≤ 1e+08 after @", "'0' is not a number of seconds"),
        ("ramp:1@5", "shape", "RATE..RATE, numbers ≥ 0", "'1' does not give its rates"),
        ("ramp:-1..2@5", "shape", "RATE..RATE, numbers ≥ 0", "'-1..2' does not give its rates"),
        ("constant:nan@5", "shape", "RATE, a number ≥ 0", "'nan' does not give its rates"),
        ("constant@5", "rate", "a number ≥ 0", "needs a rate"),
        ("sine:1..2@5,width=1", "shape", "period", "no option 'width' here"),
        ("constant:1@5,at=1", "shape", "none", "no option 'at' here"),
        ("step:1..2@5,steps=1", "shape", "a whole number from 2 to 10000", "is not allowed for the option 'steps'"),
        ("sine:1..2@5,period=0.0004", "shape", PERIOD, "is not allowed for the option 'period'"),
        ("bursts:1..2@5,of=1", "shape", "on, off, seed", "there is no option 'of' here; did you mean 'off'?"),
        ("bursts:1..2@5,seed=1.5", "shape", "a whole number ≥ 0", "'1.5' is not allowed for the option 'seed'"),
        ("bursts:1..2@5,on=0.0001", "shape", PERIOD, "is not allowed for the option 'on'"),
        ("weekly:1..2@5,weekend=2", "shape", "a number from 0 to 1", "is not allowed for the option 'weekend'"),
        ("outage:1..2@5,at=6", "shape", "a number of seconds from 0 to the end of the part", "option 'at'"),
        ("spike:1..2@5,at=6", "shape", "a number of seconds from 0 to the end of the part", "option 'at'"),
    ],
)
def test_a_mistake_is_reported(text, field, allowed, message):
    with pytest.raises(InputError) as caught:
        parse_shape(text)
    (fault,) = caught.value.faults
    assert (fault.field, fault.allowed) == (field, allowed)
    assert message in fault.message


def test_the_mistakes_of_all_parts_come_together():
    with pytest.raises(InputError) as caught:
        parse_shape("rmap:1..2@3 + constant:x@-4 + ramp:1..2", seconds=60)
    assert [fault.given for fault in caught.value.faults] == [
        "rmap:1..2@3",
        "constant:x@-4",
        "constant:x@-4",
        "ramp:1..2",
    ]


def points(text, **apart):
    curve = parse_shape(text, **apart)
    assert isinstance(curve, Pieces)
    return [(round(t, 2), round(rate, 2)) for t, rate in curve.points]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pulses:1..9@20,on=5,off=10", [(0, 9), (5, 9), (5, 1), (15, 1), (15, 9), (20, 9)]),
        ("pulses:1..9@20,at=4,on=6,off=20", [(0, 1), (4, 1), (4, 9), (10, 9), (10, 1), (20, 1)]),
        ("pulses:1..9@20,rise=4,on=2,fall=8,off=4", [(0, 1), (4, 9), (6, 9), (14, 1), (18, 1), (20, 5)]),
    ],
    ids=["from the beginning, cut while high", "once, later", "with slopes, cut while rising"],
)
def test_pulses_come_again_and_again(text, expected):
    seen = dict.fromkeys(points(text))
    assert list(seen) == expected


DAY = [(4, 100), (6, 110), (9, 175), (12, 180), (15, 175), (19, 200), (22, 175)]


def test_a_day_is_lowest_at_four_and_highest_at_seven_in_the_evening():
    """With a day of 24 s an hour is a second; the trough is the low rate, the peak the high one."""
    after = [(hour + 24, rate) for hour, rate in DAY]
    midnight = (24, 145)
    assert points("daily:100..200@48,period=24,vary=0") == [(0, 145), *DAY, midnight, *after, (48, 145)]


def test_a_week_begins_on_a_monday_after_a_sunday():
    week = parse_shape("weekly:100..200@168,period=168,weekend=0.5,vary=0")
    assert [week.rate(24 * day + 19) for day in range(7)] == pytest.approx([200] * 5 + [150] * 2)
    assert week.rate(0) == pytest.approx(100 + 0.45 * 50)


def test_each_day_has_its_own_height_but_the_same_trough():
    curve = parse_shape("daily:100..200@24000,period=24,vary=0.1,seed=1")
    heights = [curve.rate(24 * day + 19) - 100 for day in range(1000)]
    assert sum(heights) / 1000 == pytest.approx(100, abs=1)
    assert (sum((height - 100) ** 2 for height in heights) / 1000) ** 0.5 == pytest.approx(10, abs=1)
    assert [curve.rate(24 * day + 4) for day in range(1000)] == pytest.approx([100] * 1000)


def lengths(text):
    """Seconds of each level, by its rate; without the last level, which the end of the part cuts."""
    stairs = points(text)
    levels = [(right[0] - left[0], left[1]) for left, right in zip(stairs[::2], stairs[1::2], strict=True)]
    return {rate: [lasts for lasts, of in levels[:-1] if of == rate] for rate in {rate for _, rate in levels}}


def test_bursts_stay_in_their_two_states_for_exponential_times():
    """The standard deviation of an exponential time is its mean; 1000 of them tell it to 4.5 % (one error)."""
    states = lengths("bursts:100..900@80000,on=20,off=60,seed=7")
    assert set(states) == {100, 900}
    for rate, mean in ((100, 60), (900, 20)):
        times = states[rate]
        assert sum(times) / len(times) == pytest.approx(mean, rel=0.1)
        assert (sum((t - mean) ** 2 for t in times) / len(times)) ** 0.5 == pytest.approx(mean, rel=0.15)


def test_bursts_begin_low():
    assert [parse_shape("bursts:100..900@50", seed=seed).rate(0) for seed in range(5)] == [100] * 5


def test_spikes_are_of_one_width_and_of_half_to_full_height():
    levels = lengths("spikes:100..900@100000,every=95,width=5,seed=2")
    pauses = levels.pop(100)
    assert sum(pauses) / len(pauses) == pytest.approx(95, rel=0.1)
    assert all(lasts == pytest.approx(5, abs=0.011) for spike in levels.values() for lasts in spike)
    assert 500 <= min(levels) < 510
    assert 890 < max(levels) <= 900


def test_shifts_are_levels_between_the_rates():
    levels = lengths("shift:100..900@100000,every=100,seed=2")
    times = [lasts for level in levels.values() for lasts in level]
    assert sum(times) / len(times) == pytest.approx(100, rel=0.1)
    assert (100 <= min(levels) < 110, 890 < max(levels) <= 900) == (True, True)


def test_a_drift_keeps_its_ends_and_wanders_between():
    """Half-way the standard deviation is ``wander`` times the larger rate: 0.1 · 1000 = 100, around 800."""
    drifts = [parse_shape("drift:600..1000@100", seed=seed).pieces().points for seed in range(400)]
    assert {(drift[0], drift[-1]) for drift in drifts} == {((0, 600), (100, 1000))}
    halfway = [drift[50][1] - 800 for drift in drifts]
    assert sum(halfway) / 400 == pytest.approx(0, abs=15)
    assert (sum(off * off for off in halfway) / 400) ** 0.5 == pytest.approx(100, rel=0.1)


def test_a_drift_never_offers_less_than_nothing():
    rates = [rate for _, rate in parse_shape("drift:0..1000@100,wander=1,seed=1").pieces().points]
    assert min(rates) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "outage:200..1400@600,at=100,width=60",
            [(0, 200), (100, 200), (100, 0), (160, 0), (160, 1400), (170, 1400), (170, 200), (600, 200)],
        ),
        ("outage:200..200@100,at=0,width=60", [(0, 0), (60, 0), (60, 200), (100, 200)]),
        ("outage:200..300@100,at=90,width=60", [(0, 200), (90, 200), (90, 0), (100, 0)]),
    ],
    ids=["12000 records held back come within 10 s", "lost where the second rate is no higher", "cut by the end"],
)
def test_an_outage_holds_back_what_comes_later(text, expected):
    assert points(text) == expected


def test_an_outage_comes_when_the_seed_says_and_fits_in():
    begins = [parse_shape("outage:200..1400@100,width=40", seed=seed).pieces().points[1][0] for seed in range(200)]
    assert (0 <= min(begins) < 2, 58 < max(begins) <= 60) == (True, True)


CHANCE = ["daily", "weekly", "trips", "bursts", "spikes", "drift", "shift", "outage"]


@pytest.mark.parametrize("name", CHANCE)
def test_a_seed_decides_everything(name):
    text = f"{name}:{'900' if KINDS[name].one_rate else '100..900'}@2000000"
    one, same, other = (parse_shape(text, seed=seed).pieces().points for seed in (5, 5, 6))
    assert one == same
    assert one != other
    assert (
        parse_shape(f"{text},seed=5", seed=1).pieces().points == parse_shape(f"{text},seed=5", seed=2).pieces().points
    )


@pytest.mark.parametrize(
    "part", ["bursts:1..9@80,on=2,off=6", "spikes:1..9@80,every=5,width=1", "shift:1..9@80,every=9"]
)
def test_parts_differ_unless_they_have_a_seed(part):
    both = parse_shape(f"{part} + {part}", seed=3).pieces()
    assert both.between(0, 80).points != both.between(80, 160).points
    same = parse_shape(f"{part},seed=3 + {part},seed=3").pieces()
    assert [rate for _, rate in same.between(0, 80).points] == [rate for _, rate in same.between(80, 160).points]


@pytest.mark.parametrize(
    "text", ["bursts:1..9@{},on=2,off=6", "spikes:1..9@{},every=5,width=1", "shift:1..9@{},every=9"]
)
def test_a_longer_part_begins_as_the_shorter_one(text):
    short, long = (parse_shape(text.format(seconds), seed=3).pieces() for seconds in (50, 80))
    assert long.between(0, 50).points == short.points


def test_the_page_names_every_shape_with_its_options_and_what_they_are(request):
    page = (request.config.rootpath / "docs" / "loads.md").read_text(encoding="utf-8")
    for name, kind in KINDS.items():
        rates = "`RATE`" if kind.one_rate else "`RATE..RATE`"
        options = "; ".join(f"`{key}` ({option.usual})" for key, option in kind.options.items())
        assert f"| `{name}` | {rates} | {options} | {kind.summary} |" in page
