"""Shapes without chance: constant, step, ramp, sine, gaussian, spike, pulses."""

from __future__ import annotations

from rheostat.load.curves import Pieces, RateCurve, constant
from rheostat.load.kinds import AT, Kind, Option, Part, levels, mean_time, seconds_option
from rheostat.load.waves import Gaussian, Sine

__all__ = ["PLAIN"]

_STEPS = Option(
    "a whole number from 2 to 10000",
    lambda value, _: value == int(value) and 2 <= value <= 10_000,
    "2",
    lambda _: 2.0,
)

_SLOPE = Option("a number of seconds ≥ 0", lambda value, _: value >= 0, "0", lambda _: 0.0)


def _step(part: Part) -> RateCurve:
    steps = int(part.options["steps"])
    rises = [part.low + (part.high - part.low) * index / (steps - 1) for index in range(steps)]
    return levels([(part.seconds / steps, rate) for rate in rises], part.seconds)


def _spike(part: Part) -> RateCurve:
    at, width = part.options["at"], part.options["width"]
    steps = [(at, part.low), (width, part.high), (part.seconds, part.low)]
    return levels([step for step in steps if step[0] > 0], part.seconds)


def _pulses(part: Part) -> RateCurve:
    rise, on, fall, off = (part.options[name] for name in ("rise", "on", "fall", "off"))
    points, begin = [(0.0, part.low)], part.options["at"]
    while begin < part.seconds:
        top, end = begin + rise, begin + rise + on + fall
        points += [(begin, part.low), (top, part.high), (top + on, part.high), (end, part.low)]
        begin = end + off
    return Pieces([*points, (begin, part.low)]).between(0.0, part.seconds)


PLAIN: dict[str, Kind] = {
    "constant": Kind(
        "the same rate all the time",
        lambda part: constant(part.high, part.seconds),
        one_rate=True,
    ),
    "step": Kind("equal steps up or down", _step, options={"steps": _STEPS}),
    "ramp": Kind(
        "a straight line",
        lambda part: Pieces([(0, part.low), (part.seconds, part.high)]),
        low_share=0.0,
    ),
    "sine": Kind(
        "a wave that begins in its trough",
        lambda part: Sine(part.low, part.high, part.seconds, part.options["period"]),
        options={"period": mean_time("one period", lambda seconds: seconds)},
    ),
    "gaussian": Kind(
        "a bell; `width` is its standard deviation",
        lambda part: Gaussian(part.low, part.high, part.seconds, part.options["at"], part.options["width"]),
        options={"at": AT, "width": seconds_option("a sixth of the time", lambda seconds: seconds / 6)},
    ),
    "spike": Kind(
        "a burst of that width, beginning at `at`",
        _spike,
        options={"at": AT, "width": seconds_option("a tenth of the time", lambda seconds: seconds / 10)},
    ),
    "pulses": Kind(
        "again and again from `at`: up within `rise`, high for `on`, down within `fall`, low for `off`",
        _pulses,
        options={
            "at": Option(AT.allowed, AT.fits, "the beginning", lambda _: 0.0),
            "rise": _SLOPE,
            "on": mean_time("a tenth of the time", lambda seconds: seconds / 10),
            "fall": _SLOPE,
            "off": mean_time("a tenth of the time", lambda seconds: seconds / 10),
        },
    ),
}
"""By name."""
