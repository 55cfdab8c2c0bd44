"""The language of shapes, and what it says to a mistake."""

import pytest

from rheostat.errors import InputError
from rheostat.load.shapes import SHAPES, parse_shape


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
    assert [parse_shape(name, rate=10, seconds=6).duration for name in SHAPES] == [6.0] * 6


def test_spaces_and_capitals_are_forgiven():
    curve = parse_shape(" Ramp : 0 .. 10 @ 4 + constant:1e+1@2 ")
    assert (curve.duration, curve.cumulative(6)) == (6, 40)


@pytest.mark.parametrize(
    ("text", "field", "allowed", "message"),
    [
        ("gausian:1..2@3", "shape", "constant, step, ramp, sine, gaussian, spike", "did you mean 'gaussian'?"),
        ("zigzag", "shape", "constant, step, ramp, sine, gaussian, spike", "there is no shape 'zigzag'"),
        ("", "shape", "constant, step, ramp, sine, gaussian, spike", "there is no shape ''"),
        ("ramp:1..2", "shape", "@SECONDS, > 0", "say how long it lasts"),
        ("ramp:1..2@0", "shape", "a number > 0 after @", "'0' is no number of seconds"),
        ("ramp:1@5", "shape", "RATE..RATE, numbers ≥ 0", "'1' does not give its rates"),
        ("ramp:-1..2@5", "shape", "RATE..RATE, numbers ≥ 0", "'-1..2' does not give its rates"),
        ("constant:nan@5", "shape", "RATE, a number ≥ 0", "'nan' does not give its rates"),
        ("constant@5", "rate", "a number ≥ 0", "needs a rate"),
        ("sine:1..2@5,width=1", "shape", "period", "no option 'width' here"),
        ("constant:1@5,at=1", "shape", "none", "no option 'at' here"),
        ("step:1..2@5,steps=1", "shape", "a whole number from 2 to 10000", "does not suit the option 'steps'"),
        ("spike:1..2@5,at=6", "shape", "a number of seconds from 0 to the end of the part", "option 'at'"),
    ],
)
def test_a_mistake_is_named(text, field, allowed, message):
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
