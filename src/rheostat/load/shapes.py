"""Synthetic loads, and the small language in which they are written.

::

    shape    = part { "+" part }                    one after the other
    part     = name ":" rates [ "@" seconds ] { "," option "=" number }
    rates    = rate | rate ".." rate                records/s, from .. to

    ramp:200..1400@40+constant:1400@50              a straight line up, then a level
    spike:200..1400@120,at=60,width=10              a burst of ten seconds
    bursts:200..1400@600,on=20,off=60,seed=3        high for 20 s on average, low for 60 s

:data:`KINDS` has every name with its options. A single part may take its seconds from ``--seconds``. A bare name takes
its rate from ``--rate R``: a constant R, a ramp from 0 to R, any other shape from R/5 to R. Random shapes are seeded by
their option ``seed``, or else by ``--seed`` and the number of the part.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, count, cycle, takewhile
from random import Random

from rheostat.errors import Fault, InputError, did_you_mean
from rheostat.load.curves import Gaussian, Pieces, RateCurve, Sequel, Sine, constant
from rheostat.load.trips import TripPlan, trip_curve

GRAMMAR = "NAME:RATE[..RATE][@SECONDS][,OPTION=NUMBER]{+…}, as ramp:200..1400@40+constant:1400@50"
"""The language in one line, for messages and help."""

_MAX_PART_SECONDS = 1e8
"""Three years; the points of longer days and trips would not fit into memory."""

_MAX_CHANGES = 10_000
"""Average number of changes in a part; more of them would be noise and would not fit into memory."""


# Reading a shape


def parse_shape(text: str, *, rate: float | None = None, seconds: float | None = None, seed: int = 0) -> RateCurve:
    """Parse a shape. ``rate`` (records/s) is for a bare name, ``seconds`` for a single part without its own.

    Raises:
        InputError: with every fault of every part.

    >>> parse_shape("ramp:200..1400@40+constant:1400@50").cumulative(90)
    102000.0
    """
    curves, _ = _read_parts(text, rate, seconds, seed)
    return curves[0] if len(curves) == 1 else Sequel(curves)


def asks_apart(text: str) -> tuple[bool, bool]:
    """Whether a shape needs ``--rate``, and whether it needs ``--seconds``.

    >>> asks_apart("ramp+constant:5@60"), asks_apart("ramp:1..5"), asks_apart("ramp:1..5@60")
    ((True, False), (False, True), (False, False))
    """
    heads = [part.partition(",")[0] for part in _split_parts(text)]
    return any(":" not in head for head in heads), len(heads) == 1 and "@" not in heads[0]


def remarks_on(text: str, rate: float | None = None, seconds: float | None = None) -> list[str]:
    """Warnings about a valid shape that may not be meant: a part that is shorter than its period.

    >>> remarks_on("daily:1..5@3600")[0]
    'daily:1..5@3600 covers only 3600 s of its period of 86400 s (0.042), perhaps without its lowest and highest rate'
    """
    return _read_parts(text, rate, seconds, seed=0)[1]


def _split_parts(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"\+(?=\s*[A-Za-z_])", text.strip())]


def _read_parts(text: str, rate: float | None, seconds: float | None, seed: int) -> tuple[list[RateCurve], list[str]]:
    """The curve of each part, and remarks on all of them."""
    texts = _split_parts(text)
    reader = _Reader(rate, seconds, single=len(texts) == 1)
    curves = [reader.read_part(part, f"{seed} part {index}") for index, part in enumerate(texts)]
    if reader.faults:
        raise InputError(reader.faults)
    return [curve for curve in curves if curve is not None], reader.remarks


class _Reader:
    """Reads the parts of a shape and collects all their faults and remarks."""

    def __init__(self, rate: float | None, seconds: float | None, *, single: bool) -> None:
        self.faults: list[Fault] = []
        self.remarks: list[str] = []
        self._rate, self._seconds, self._single = rate, seconds if single else None, single
        self._text = ""

    def read_part(self, text: str, seed: str) -> RateCurve | None:
        self._text, before = text, len(self.faults)
        head, *option_texts = text.split(",")
        head, _, seconds_text = head.partition("@")
        name, colon, rates_text = (piece.strip() for piece in head.partition(":"))
        kind = KINDS.get(name.lower())
        if kind is None:
            self._add_fault(", ".join(SHAPES), f"there is no shape {name!r}" + did_you_mean(name.lower(), SHAPES))
            return None
        seconds = self._read_seconds(seconds_text.strip())
        low, high = self._read_rates(kind, rates_text if colon else None)
        options = self._read_options(kind, option_texts, seconds)
        if len(self.faults) > before:
            return None
        period_s = options.get("period", seconds)
        if seconds < period_s:
            share = f"{seconds:g} s of its period of {period_s:g} s ({seconds / period_s:.2g})"
            self.remarks.append(f"{text} covers only {share}, perhaps without its lowest and highest rate")
        seed = f"{options['seed']:.0f}" if "seed" in options else seed
        return kind.build(Part(low, high, seconds, options, Random(f"{name.lower()} {seed}")))

    def _add_fault(self, allowed: str, message: str, field_name: str = "shape") -> None:
        self.faults.append(Fault(field_name, self._text, allowed, message))

    def _read_seconds(self, text: str) -> float:
        if not text and self._seconds is None:
            apart = ", or --seconds" if self._single else ""
            self._add_fault(f"@SECONDS{apart}, > 0", f"give its duration, as in ramp:200..1400@40{apart}")
            return 1.0
        text = text or str(self._seconds)
        seconds = _parse_number(text)
        if seconds is None or not 0 < seconds <= _MAX_PART_SECONDS:
            self._add_fault(f"a number > 0 and ≤ {_MAX_PART_SECONDS:g} after @", f"{text!r} is not a number of seconds")
            return 1.0
        return seconds

    def _read_rates(self, kind: Kind, text: str | None) -> tuple[float, float]:
        if text is None and self._rate is not None:
            return kind.low_share * self._rate, self._rate
        if text is None:
            self._add_fault("a number ≥ 0", "a shape without rates of its own needs a rate (records/s)", "rate")
            return 0.0, 0.0
        rates = [_parse_number(piece) for piece in text.split("..")]
        if len(rates) != (1 if kind.one_rate else 2) or any(rate is None or rate < 0 for rate in rates):
            allowed = "RATE, a number ≥ 0" if kind.one_rate else "RATE..RATE, numbers ≥ 0"
            self._add_fault(allowed, f"{text!r} does not give its rates (records/s)")
            return 0.0, 0.0
        return rates[0] or 0.0, rates[-1] or 0.0

    def _read_options(self, kind: Kind, texts: list[str], seconds: float) -> dict[str, float]:
        known = kind.options
        values = {name: option.default(seconds) for name, option in known.items() if option.default is not None}
        for text in texts:
            name, _, value_text = (piece.strip() for piece in text.partition("="))
            value = _parse_number(value_text)
            if name not in known:
                message = f"there is no option {name!r} here" + did_you_mean(name, known)
                self._add_fault(", ".join(known) or "none", message)
            elif value is None or not known[name].fits(value, seconds):
                self._add_fault(known[name].allowed, f"{value_text!r} is not allowed for the option {name!r}")
            else:
                values[name] = value
        return values


def _parse_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


# What a kind of shape consists of


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a shape: rates in records/s, the values of all options, and its own random generator."""

    low: float
    high: float
    seconds: float
    options: Mapping[str, float]
    random: Random


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a kind: allowed values and default, each in words and as a function.

    ``fits`` gets the value and the seconds of the part, ``default`` the seconds; None: left to the builder.
    """

    allowed: str
    fits: Callable[[float, float], bool]
    usual: str
    default: Callable[[float], float] | None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of shape; ``low_share``: the first rate of a bare name, as a share of the given rate."""

    summary: str
    build: Callable[[Part], RateCurve]
    one_rate: bool = False
    low_share: float = 0.2
    options: Mapping[str, Option] = field(default_factory=dict)


def _share_of_time(words: str, parts: int) -> tuple[str, Callable[[float], float]]:
    return f"{words} of the time", lambda seconds: seconds / parts


_SIXTH, _TENTH = _share_of_time("a sixth", 6), _share_of_time("a tenth", 10)
_THIRTIETH, _HUNDREDTH = _share_of_time("a thirtieth", 30), _share_of_time("a hundredth", 100)


def _width(usual: str, default: Callable[[float], float]) -> Option:
    return Option("a number of seconds > 0", lambda value, _: value > 0, usual, default)


def _interval(usual: str, default: Callable[[float], float]) -> Option:
    """A time after which something comes again; a part has room for :data:`_MAX_CHANGES` of them."""
    allowed = f"a number of seconds > 0, at least a {_MAX_CHANGES}th of the part"
    return Option(allowed, lambda value, seconds: value > 0 and value * _MAX_CHANGES >= seconds, usual, default)


def _number(allowed: str, usual: float, fits: Callable[[float], bool]) -> Option:
    return Option(allowed, lambda value, _: fits(value), f"{usual:g}", lambda _: usual)


def _share(usual: float) -> Option:
    return _number("a number from 0 to 1", usual, lambda value: 0 <= value <= 1)


def _whole(low: int, high: int, usual: int) -> Option:
    allowed = f"a whole number from {low} to {high}"
    return _number(allowed, usual, lambda value: value == int(value) and low <= value <= high)


def _at(usual: str, default: Callable[[float], float] | None) -> Option:
    allowed = "a number of seconds from 0 to the end of the part"
    return Option(allowed, lambda value, seconds: 0 <= value <= seconds, usual, default)


_MIDDLE = _at("the middle", lambda seconds: seconds / 2)
_SPEED = _number("a number > 0 and ≤ 1000000", 1, lambda value: 0 < value <= 1e6)
_SLOPE = _number("a number of seconds ≥ 0", 0, lambda value: value >= 0)
_SEED = Option("a whole number ≥ 0", lambda value, _: value >= 0 and value == int(value), "the load's seed", None)
"""A part with a seed of its own is the same wherever it stands."""


# Kinds made of levels

Level = tuple[float, float]
"""Duration in seconds, and records/s."""


def _levels(draw: Callable[[Part], Iterable[Level]]) -> Callable[[Part], Pieces]:
    """A builder that plays levels until the time is over; empty ones are left out, the last one holds."""

    def build(part: Part) -> Pieces:
        points: list[tuple[float, float]] = []
        begin, rate = 0.0, 0.0
        for lasts, rate in draw(part):
            if lasts <= 0:
                continue
            end = min(begin + lasts, part.seconds)
            points += [(begin, rate), (end, rate)]
            begin = end
            if begin >= part.seconds:
                break
        return Pieces([*points, (part.seconds, rate)] if begin < part.seconds else points)

    return build


def _step(part: Part) -> Iterator[Level]:
    steps = int(part.options["steps"])
    for index in range(steps):
        yield part.seconds / steps, part.low + (part.high - part.low) * index / (steps - 1)


def _spike(part: Part) -> list[Level]:
    return [(part.options["at"], part.low), (part.options["width"], part.high), (part.seconds, part.low)]


def _bursts(part: Part) -> Iterator[Level]:
    """The intensity of a Markov-modulated Poisson process with two states, which begins in the low one.

    The time in a state is exponential with mean ``off`` (low) or ``on`` (high). The load is the intensity itself; the
    Poisson noise on top of it is 1/√n of n records, which vanishes at the rates of a stream.
    """
    for mean, rate in cycle(((part.options["off"], part.low), (part.options["on"], part.high))):
        yield part.random.expovariate(1 / mean), rate


def _spikes(part: Part) -> Iterator[Level]:
    """After exponential pauses of mean ``every`` a spike, by half to the whole of ``high − low`` above the low rate."""
    while True:
        yield part.random.expovariate(1 / part.options["every"]), part.low
        yield part.options["width"], part.low + (part.high - part.low) * part.random.uniform(0.5, 1.0)


def _shift(part: Part) -> Iterator[Level]:
    """Levels between the two rates, each for an exponential time of mean ``every``."""
    while True:
        yield part.random.expovariate(1 / part.options["every"]), part.random.uniform(part.low, part.high)


def _outage(part: Part) -> list[Level]:
    """Nothing for ``width`` seconds; then the second rate until the records held back are made up.

    With R the first rate and C the second this takes ``R · width / (C − R)`` seconds; with C ≤ R they are lost.
    """
    width = min(part.options["width"], part.seconds)
    drawn = part.random.uniform(0.0, part.seconds - width)
    at, surplus = part.options.get("at", drawn), part.high - part.low
    catch_up_s = part.low * width / surplus if surplus > 0 else 0.0
    return [(at, part.low), (width, 0.0), (catch_up_s, part.high), (part.seconds, part.low)]


_FEW, _MOST_STEPS = 100.0, 86_400


def _poisson(part: Part) -> Iterator[Level]:
    """A Poisson number of records in each step: of a second, or longer in a part of more than a day.

    Beyond a hundred a step it is drawn from the normal distribution, which is as good there.
    """
    step_s = max(1.0, part.seconds / _MOST_STEPS)
    mean = part.high * step_s
    while True:
        records = max(0, round(part.random.gauss(mean, math.sqrt(mean))))
        if mean <= _FEW:
            gaps = accumulate(part.random.expovariate(1.0) for _ in count())
            records = sum(1 for _ in takewhile(lambda at: at < mean, gaps))
        yield step_s, records / step_s


# Other kinds


def _build_pulses(part: Part) -> RateCurve:
    rise, on, fall, off = (part.options[name] for name in ("rise", "on", "fall", "off"))
    points, begin = [(0.0, part.low)], part.options["at"]
    while begin < part.seconds:
        top, end = begin + rise, begin + rise + on + fall
        points += [(begin, part.low), (top, part.high), (top + on, part.high), (end, part.low)]
        begin = end + off
    return Pieces([*points, (begin, part.low)]).between(0.0, part.seconds)


_TROUGH_H, _SATURDAY = 4, 5
_DAY_PROFILE = ((0, 0.0), (2, 0.1), (5, 0.75), (8, 0.8), (11, 0.75), (15, 1.0), (18, 0.75), (20, 0.45))
"""Hours since the trough, and the share of the height then; straight lines between them."""


def _build_days(part: Part) -> RateCurve:
    """Days, or weeks of them with the option ``weekend``. Begins a day early, whose last hours reach past midnight."""
    weekly = "weekend" in part.options
    day_s = part.options["period"] / 7 if weekly else part.options["period"]
    hour, points = day_s / 24, []
    for day in takewhile(lambda day: day * day_s < part.seconds + 2 * day_s, count(-1)):
        height = part.options["weekend"] if weekly and day % 7 >= _SATURDAY else 1.0
        rise = (part.high - part.low) * height * max(0.0, part.random.gauss(1.0, part.options["vary"]))
        points += [(((day + 1) * 24 + hours) * hour, part.low + rise * share) for hours, share in _DAY_PROFILE]
    begin = (24 - _TROUGH_H) * hour
    return Pieces(points).between(begin, begin + part.seconds)


def _build_trips(part: Part) -> RateCurve:
    speed, copies = part.options["speed"], int(part.options["copies"])
    return trip_curve(TripPlan(part.high / speed / copies, part.seconds, speed, copies), part.random)


def _build_drift(part: Part) -> RateCurve:
    """From the first rate to the last one along a Brownian bridge, never below 0.

    ``B(t) = W(t) − t/T · W(T)`` has the standard deviation √T/2 in the middle; it is scaled so that this is ``wander``
    times the larger rate. A point every hundredth of the time.
    """
    steps, unit = 100, 2 * part.options["wander"] * max(part.low, part.high) / 100**0.5
    walk = list(accumulate((part.random.gauss(0.0, unit) for _ in range(steps)), initial=0.0))
    bridge = [value - walk[-1] * index / steps for index, value in enumerate(walk)]
    line = [part.low + (part.high - part.low) * index / steps for index in range(steps + 1)]
    rates = [max(0.0, level + offset) for level, offset in zip(line, bridge, strict=True)]
    return Pieces([(part.seconds * index / steps, rate) for index, rate in enumerate(rates)])


_DAY: Mapping[str, Option] = {"vary": _share(0.1), "seed": _SEED}

KINDS: dict[str, Kind] = {
    "constant": Kind("the same rate all the time", lambda part: constant(part.high, part.seconds), one_rate=True),
    "step": Kind("equal steps up or down", _levels(_step), options={"steps": _whole(2, 10_000, usual=2)}),
    "ramp": Kind("a straight line", lambda part: Pieces([(0, part.low), (part.seconds, part.high)]), low_share=0.0),
    "sine": Kind(
        "a wave that begins in its trough",
        lambda part: Sine(part.low, part.high, part.seconds, part.options["period"]),
        options={"period": _interval("one period", lambda seconds: seconds)},
    ),
    "gaussian": Kind(
        "a bell; `width` is its standard deviation",
        lambda part: Gaussian(part.low, part.high, part.seconds, part.options["at"], part.options["width"]),
        options={"at": _MIDDLE, "width": _width(*_SIXTH)},
    ),
    "spike": Kind(
        "a burst of that width, beginning at `at`", _levels(_spike), options={"at": _MIDDLE, "width": _width(*_TENTH)}
    ),
    "pulses": Kind(
        "again and again from `at`: up within `rise`, high for `on`, down within `fall`, low for `off`",
        _build_pulses,
        options={
            "at": _at("the beginning", lambda _: 0.0),
            "rise": _SLOPE,
            "on": _interval(*_TENTH),
            "fall": _SLOPE,
            "off": _interval(*_TENTH),
        },
    ),
    "daily": Kind(
        "days of `period` seconds, lowest at 4:00, highest at 19:00; their heights vary",
        _build_days,
        options={"period": _interval("86400", lambda _: 86_400.0), **_DAY},
    ),
    "weekly": Kind(
        "weeks of `period` seconds, of such days; Saturday and Sunday reach `weekend` of the height",
        _build_days,
        options={"period": _interval("604800", lambda _: 604_800.0), "weekend": _share(0.6), **_DAY},
    ),
    "trips": Kind(
        "taxi trips of two working days from midnight, `speed` times as fast, `copies` records of each; the rate is "
        "the mean of the two days",
        _build_trips,
        one_rate=True,
        options={"speed": _SPEED, "copies": _whole(1, 1000, usual=1), "seed": _SEED},
    ),
    "bursts": Kind(
        "Markov-modulated: the low rate for `off` seconds on average, then the high one for `on`, and so on",
        _levels(_bursts),
        options={"on": _interval(*_THIRTIETH), "off": _interval(*_TENTH), "seed": _SEED},
    ),
    "poisson": Kind(
        "records that come by themselves: a Poisson number of them in each second",
        _levels(_poisson),
        one_rate=True,
        options={"seed": _SEED},
    ),
    "spikes": Kind(
        "spikes of half to full height, after pauses of `every` seconds on average",
        _levels(_spikes),
        options={"every": _interval(*_TENTH), "width": _width(*_HUNDREDTH), "seed": _SEED},
    ),
    "drift": Kind(
        "wanders from the first rate to the last; `wander` is the usual distance from the straight line half-way, "
        "as a share of the larger rate",
        _build_drift,
        options={"wander": _share(0.1), "seed": _SEED},
    ),
    "shift": Kind(
        "another level between the two rates after `every` seconds on average",
        _levels(_shift),
        options={"every": _interval(*_SIXTH), "seed": _SEED},
    ),
    "outage": Kind(
        "the first rate; nothing for `width` seconds; what was held back comes at the second rate",
        _levels(_outage),
        options={"at": _at("drawn from the seed", None), "width": _width(*_TENTH), "seed": _SEED},
    ),
}
"""Every shape, by name."""

SHAPES = tuple(KINDS)
