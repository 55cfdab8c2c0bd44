"""Synthetic loads, and the small language in which they are written.

::

    shape    = part { "+" part }                    one after the other
    part     = name ":" rates [ "@" seconds ] { "," option "=" number }
    rates    = rate | rate ".." rate                records/s, from .. to

    constant:500@60                                 the same rate all the time
    ramp:200..1400@40                               a straight line
    step:200..1400@60,steps=4                       equal steps up or down (2 steps unless said)
    sine:200..1400@600,period=120                   a wave that begins in its trough (one period unless said)
    gaussian:200..1400@120,at=60,width=15           a bell; width is its standard deviation (a sixth of the time)
    spike:200..1400@120,at=60,width=10              a burst of that width, beginning at ``at`` (a tenth of the time)
    pulses:200..1400@600,on=30,off=90               high for 30 s, low for 90 s, and so on (a tenth of the time each)
    daily:200..1400@172800                          days, lowest at 4:00, highest at 19:00
    weekly:200..1400@1209600,weekend=0.5            weeks of such days
    trips:174@17280,speed=10,copies=3               taxi trips of two days, ten times as fast, three records of each
    bursts:200..1400@600,on=20,off=60,seed=3        high for 20 s on average, low for 60 s (Markov-modulated)
    spikes:200..1400@600,every=60,width=5           spikes of random height at random moments
    drift:200..1400@600,wander=0.2                  from one rate to the other on a random way
    shift:200..1400@600,every=120                   another level now and then
    outage:200..1400@600,at=100,width=60            nothing for a minute, then what was held back at 1400/s

``at`` is the middle unless said. In a single part ``@seconds`` may be given apart (``--seconds``). A bare name takes
its rate apart too (``--rate R``): a constant R, a ramp from 0 to R, any other from R/5 to R. Chance comes from the
option ``seed`` of the part, or from the seed that is given apart (``--seed``), then another for each part.
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
from rheostat.load.trips import TripPlan
from rheostat.load.trips import trip_levels as _levels

# What a kind of shape is made of: its rates, its options with their limits and defaults, and how it is built.


MOST_CHANGES = 10_000
"""How often a part may change on average: more of it would be noise, and no memory would hold it."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a shape, read: rates (records/s), seconds, options with their defaults, and its own chance."""

    low: float
    high: float
    seconds: float
    options: Mapping[str, float]
    random: Random


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a kind.

    Attributes:
        allowed: what it may be, in words.
        fits: whether a number suits a part of so many seconds.
        usual: its default, in words.
        default: its default for a part of so many seconds; None if it is left open.
    """

    allowed: str
    fits: Callable[[float, float], bool]
    usual: str
    default: Callable[[float], float] | None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of shape.

    Attributes:
        summary: what it is, in one line.
        build: the curve of a part.
        one_rate: takes one rate instead of two.
        low_share: the first rate of a bare name, as a share of the rate given apart.
        options: by name, in the order in which they are explained.
    """

    summary: str
    build: Callable[[Part], RateCurve]
    one_rate: bool = False
    low_share: float = 0.2
    options: Mapping[str, Option] = field(default_factory=dict)


SEED = Option("a whole number ≥ 0", lambda value, _: value >= 0 and value == int(value), "the load's seed", None)
"""Decides every chance of the part. With a seed of its own a part is the same wherever it stands."""

AT = Option(
    "a number of seconds from 0 to the end of the part",
    lambda value, seconds: 0 <= value <= seconds,
    "the middle",
    lambda seconds: seconds / 2,
)
"""When something happens."""


def seconds_option(usual: str, default: Callable[[float], float]) -> Option:
    """A length of time."""
    return Option("a number of seconds > 0", lambda value, _: value > 0, usual, default)


def mean_time(usual: str, default: Callable[[float], float]) -> Option:
    """A time after which something comes again; a part has room for :data:`MOST_CHANGES` of them."""
    return Option(
        f"a number of seconds > 0, at least a {MOST_CHANGES}th of the part",
        lambda value, seconds: value > 0 and value * MOST_CHANGES >= seconds,
        usual,
        default,
    )


def share_option(usual: float) -> Option:
    """A number from 0 to 1."""
    return Option("a number from 0 to 1", lambda value, _: 0 <= value <= 1, f"{usual:g}", lambda _: usual)


def levels(steps: Iterable[tuple[float, float]], seconds: float) -> Pieces:
    """Levels (seconds it lasts, records/s) one after the other, until the time is over; the last one holds."""
    points: list[tuple[float, float]] = []
    begin, rate = 0.0, 0.0
    for lasts, rate in steps:
        end = min(begin + lasts, seconds)
        points += [(begin, rate), (end, rate)]
        begin = end
        if begin >= seconds:
            break
    return Pieces([*points, (seconds, rate)] if begin < seconds else points)


# The daily cycle of taxi trips in a city, and the shape ``trips`` that follows it (S2, section V).


def _trips(part: Part) -> Pieces:
    speed, copies = part.options["speed"], int(part.options["copies"])
    return _levels(TripPlan(part.high / speed / copies, part.seconds, speed, copies), part.random)


_SPEED = Option("a number > 0 and ≤ 1000000", lambda value, _: 0 < value <= 1e6, "1", lambda _: 1.0)
_COPIES = Option(
    "a whole number from 1 to 1000", lambda value, _: 1 <= value <= 1_000 and value == int(value), "1", lambda _: 1.0
)

TRIPS: dict[str, Kind] = {
    "trips": Kind(
        "taxi trips of two working days from midnight, `speed` times as fast, `copies` records of each; the rate is "
        "the mean of the two days",
        _trips,
        one_rate=True,
        options={"speed": _SPEED, "copies": _COPIES, "seed": SEED},
    )
}
"""By name."""


# Shapes without chance: constant, step, ramp, sine, gaussian, spike, pulses.


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


# Shapes that follow the clock: daily and weekly.


_PROFILE = ((0, 0.0), (2, 0.1), (5, 0.75), (8, 0.8), (11, 0.75), (15, 1.0), (18, 0.75), (20, 0.45))
"""Hours since four in the morning, and the share of the height then; between them straight lines."""

_TROUGH_H = 4
_SATURDAY = 5


def _daily(part: Part) -> RateCurve:
    return _days(part, part.options["period"], lambda _: 1.0)


def _weekly(part: Part) -> RateCurve:
    weekend = part.options["weekend"]
    return _days(part, part.options["period"] / 7, lambda day: weekend if day % 7 >= _SATURDAY else 1.0)


def _days(part: Part, day_s: float, height: Callable[[int], float]) -> RateCurve:
    """Days from the one before the first on, of which only the small hours are left, to the end of the part."""
    hour, points = day_s / 24, []
    for day in takewhile(lambda day: day * day_s < part.seconds + 2 * day_s, count(-1)):
        rise = (part.high - part.low) * height(day) * max(0.0, part.random.gauss(1.0, part.options["vary"]))
        points += [(((day + 1) * 24 + hours) * hour, part.low + rise * share) for hours, share in _PROFILE]
    begin = (24 - _TROUGH_H) * hour
    return Pieces(points).between(begin, begin + part.seconds)


def _options(period: str, period_s: float, more: Mapping[str, Option]) -> dict[str, Option]:
    return {"period": mean_time(period, lambda _: period_s), **more, "vary": share_option(0.1), "seed": SEED}


CYCLES: dict[str, Kind] = {
    "daily": Kind(
        "days of `period` seconds, lowest at 4:00, highest at 19:00; their heights vary",
        _daily,
        options=_options("86400", 86_400.0, {}),
    ),
    "weekly": Kind(
        "weeks of `period` seconds, of such days; Saturday and Sunday reach `weekend` of the height",
        _weekly,
        options=_options("604800", 604_800.0, {"weekend": share_option(0.6)}),
    ),
}
"""By name."""


# Shapes of chance: bursts, spikes, drift, shift, outage. Equal seeds give equal loads.


def _bursts(part: Part) -> RateCurve:
    """The intensity of a Markov-modulated Poisson process with two states, which begins in the low one.

    The time in a state is exponential with mean ``off`` (low) or ``on`` (high). What is offered is the intensity
    itself; the Poisson noise on top of it is 1/√n of n records, which vanishes at the rates of a stream.
    """

    def states() -> Iterator[tuple[float, float]]:
        for mean, rate in cycle(((part.options["off"], part.low), (part.options["on"], part.high))):
            yield part.random.expovariate(1 / mean), rate

    return levels(states(), part.seconds)


def _spikes(part: Part) -> RateCurve:
    """After exponential pauses of mean ``every`` a spike, by half to the whole of ``high − low`` above the low rate."""

    def steps() -> Iterator[tuple[float, float]]:
        while True:
            yield part.random.expovariate(1 / part.options["every"]), part.low
            yield part.options["width"], part.low + (part.high - part.low) * part.random.uniform(0.5, 1.0)

    return levels(steps(), part.seconds)


def _shift(part: Part) -> RateCurve:
    """Levels between the two rates, each for an exponential time of mean ``every``."""

    def steps() -> Iterator[tuple[float, float]]:
        while True:
            yield part.random.expovariate(1 / part.options["every"]), part.random.uniform(part.low, part.high)

    return levels(steps(), part.seconds)


def _drift(part: Part) -> RateCurve:
    """From the first rate to the last one along a Brownian bridge, never below 0.

    ``B(t) = W(t) − t/T · W(T)`` has the standard deviation √T/2 in the middle; it is scaled so that this is ``wander``
    times the larger rate. A point every hundredth of the time.
    """
    steps, unit = 100, 2 * part.options["wander"] * max(part.low, part.high) / 100**0.5
    walk = list(accumulate((part.random.gauss(0.0, unit) for _ in range(steps)), initial=0.0))
    bridge = [value - walk[-1] * index / steps for index, value in enumerate(walk)]
    line = [part.low + (part.high - part.low) * index / steps for index in range(steps + 1)]
    rates = [max(0.0, level + off) for level, off in zip(line, bridge, strict=True)]
    return Pieces([(part.seconds * index / steps, rate) for index, rate in enumerate(rates)])


def _outage(part: Part) -> RateCurve:
    """Nothing for ``width`` seconds; then what was held back comes as well, at the second rate until it is made up.

    With R the first rate and C the second this takes ``R · width / (C − R)`` seconds; with C ≤ R it is lost.
    """
    width = min(part.options["width"], part.seconds)
    drawn = part.random.uniform(0.0, part.seconds - width)
    at, faster = part.options.get("at", drawn), part.high - part.low
    catching_up = part.low * width / faster if faster > 0 else 0.0
    steps = [(at, part.low), (width, 0.0), (catching_up, part.high), (part.seconds, part.low)]
    return levels([step for step in steps if step[0] > 0], part.seconds)


_DRAWN = Option(AT.allowed, AT.fits, "drawn from the seed", None)


CHANCE: dict[str, Kind] = {
    "bursts": Kind(
        "Markov-modulated: the low rate for `off` seconds on average, then the high one for `on`, and so on",
        _bursts,
        options={
            "on": mean_time("a thirtieth of the time", lambda seconds: seconds / 30),
            "off": mean_time("a tenth of the time", lambda seconds: seconds / 10),
            "seed": SEED,
        },
    ),
    "spikes": Kind(
        "spikes of half to full height, after pauses of `every` seconds on average",
        _spikes,
        options={
            "every": mean_time("a tenth of the time", lambda seconds: seconds / 10),
            "width": seconds_option("a hundredth of the time", lambda seconds: seconds / 100),
            "seed": SEED,
        },
    ),
    "drift": Kind(
        "wanders from the first rate to the last; `wander` is the usual distance from the straight line half-way, "
        "as a share of the larger rate",
        _drift,
        options={"wander": share_option(0.1), "seed": SEED},
    ),
    "shift": Kind(
        "another level between the two rates after `every` seconds on average",
        _shift,
        options={"every": mean_time("a sixth of the time", lambda seconds: seconds / 6), "seed": SEED},
    ),
    "outage": Kind(
        "the first rate; nothing for `width` seconds; what was held back comes at the second rate",
        _outage,
        options={
            "at": _DRAWN,
            "width": seconds_option("a tenth of the time", lambda seconds: seconds / 10),
            "seed": SEED,
        },
    ),
}
"""By name."""


GRAMMAR = "NAME:RATE[..RATE][@SECONDS][,OPTION=NUMBER]{+…}, as ramp:200..1400@40+constant:1400@50"
"""The language in one line, for messages and help."""

KINDS: dict[str, Kind] = {**PLAIN, **CYCLES, **TRIPS, **CHANCE}
"""Every shape, by name."""

SHAPES = tuple(KINDS)
"""Names of the shapes."""

_MOST_SECONDS = 1e8
"""How long a part may last: three years; of days and trips more would be held in no memory."""


def parse_shape(text: str, *, rate: float | None = None, seconds: float | None = None, seed: int = 0) -> RateCurve:
    """The curve that a text in the language above describes.

    Args:
        text: the shape.
        rate: records/s for a bare name.
        seconds: duration for a single part that does not say its own.
        seed: of the parts with chance that do not say their own.

    Raises:
        InputError: with every fault of every part.

    >>> parse_shape("ramp:200..1400@40+constant:1400@50").cumulative(90)
    102000.0
    """
    curve, faults = read_shape(text, rate, seconds, seed)
    if curve is None:
        raise InputError(faults)
    return curve


def read_shape(
    text: str, rate: float | None, seconds: float | None, seed: int = 0
) -> tuple[RateCurve | None, list[Fault]]:
    """As :func:`parse_shape`, but with the faults as a list, to be reported with others. No curve if there is one."""
    parts = _readers(text, rate, seconds, seed)
    curves = [curve for part in parts if (curve := part.curve()) is not None]
    faults = [fault for part in parts for fault in part.faults]
    if faults:
        return None, faults
    return (curves[0] if len(curves) == 1 else Sequel(curves)), []


def asks_apart(text: str) -> tuple[bool, bool]:
    """Whether a shape takes its rate, and its seconds, from what is given apart.

    >>> asks_apart("ramp+constant:5@60"), asks_apart("ramp:1..5"), asks_apart("ramp:1..5@60")
    ((True, False), (False, True), (False, False))
    """
    heads = [part.partition(",")[0] for part in _parts(text)]
    return any(":" not in head for head in heads), len(heads) == 1 and "@" not in heads[0]


def _parts(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"\+(?=\s*[A-Za-z_])", text.strip())]


def remarks_on(text: str, rate: float | None = None, seconds: float | None = None) -> list[str]:
    """What is right about a shape and yet may not be meant: a part that is shorter than its period.

    >>> remarks_on("daily:1..5@3600")[0]
    'daily:1..5@3600: only 3600 s of its period of 86400 s (0.042); its lowest and its highest rate need not be in it'
    """
    parts = _readers(text, rate, seconds, 0)
    return [remark for part in parts if part.curve() is not None for remark in part.remarks]


def _readers(text: str, rate: float | None, seconds: float | None, seed: int) -> list[_PartReader]:
    texts = _parts(text)
    single = len(texts) == 1
    alone = seconds if single else None
    return [_PartReader(part, rate, alone, f"{seed} part {index}", single) for index, part in enumerate(texts)]


class _PartReader:
    """Reads one part, and gathers what is wrong with it and what may not be meant."""

    def __init__(self, text: str, rate: float | None, seconds: float | None, seed: str, single: bool) -> None:
        self.faults: list[Fault] = []
        self.remarks: list[str] = []
        self._text, self._rate, self._seconds, self._seed, self._single = text, rate, seconds, seed, single

    def curve(self) -> RateCurve | None:
        """The curve, or None if there are faults."""
        head, *options = self._text.split(",")
        head, _, seconds_text = head.partition("@")
        name, colon, rates_text = (piece.strip() for piece in head.partition(":"))
        kind = KINDS.get(name.lower())
        if kind is None:
            self._fault(", ".join(SHAPES), f"there is no shape {name!r}" + did_you_mean(name.lower(), SHAPES))
            return None
        seconds = self._duration(seconds_text.strip())
        low, high = self._rates(kind, rates_text) if colon else self._bare(kind)
        read = self._options(kind, options, seconds)
        seed = f"{read['seed']:.0f}" if "seed" in read else self._seed
        random = Random(f"{name.lower()} {seed}")
        period_s = read.get("period", seconds)
        if seconds < period_s:
            share = f"{seconds:g} s of its period of {period_s:g} s ({seconds / period_s:.2g})"
            self.remarks.append(f"{self._text}: only {share}; its lowest and its highest rate need not be in it")
        return None if self.faults else kind.build(Part(low, high, seconds, read, random))

    def _fault(self, allowed: str, message: str, field_name: str = "shape") -> None:
        self.faults.append(Fault(field_name, self._text, allowed, message))

    def _duration(self, text: str) -> float:
        if not text and self._seconds is not None:
            text = str(self._seconds)
        if not text:
            apart = ", or --seconds" if self._single else ""
            self._fault(f"@SECONDS{apart}, > 0", f"say how long it lasts, as in ramp:200..1400@40{apart}")
            return 1.0
        seconds = _number(text)
        if seconds is None or not 0 < seconds <= _MOST_SECONDS:
            self._fault(f"a number > 0 and ≤ {_MOST_SECONDS:g} after @", f"{text!r} is no number of seconds")
            return 1.0
        return seconds

    def _bare(self, kind: Kind) -> tuple[float, float]:
        if self._rate is None:
            self._fault("a number ≥ 0", "a shape without rates of its own needs a rate (records/s)", "rate")
            return 0.0, 0.0
        return kind.low_share * self._rate, self._rate

    def _rates(self, kind: Kind, text: str) -> tuple[float, float]:
        rates = [_number(piece) for piece in text.split("..")]
        wanted = 1 if kind.one_rate else 2
        if len(rates) != wanted or any(rate is None or rate < 0 for rate in rates):
            allowed = "RATE, a number ≥ 0" if kind.one_rate else "RATE..RATE, numbers ≥ 0"
            self._fault(allowed, f"{text!r} does not give its rates (records/s)")
            return 0.0, 0.0
        return rates[0] or 0.0, rates[-1] or 0.0

    def _options(self, kind: Kind, texts: list[str], seconds: float) -> dict[str, float]:
        known = kind.options
        values = {name: option.default(seconds) for name, option in known.items() if option.default is not None}
        for text in texts:
            name, _, value_text = (piece.strip() for piece in text.partition("="))
            value = _number(value_text)
            if name not in known:
                message = f"there is no option {name!r} here{did_you_mean(name, known)}"
                self._fault(", ".join(known) or "none", message)
            elif value is None or not known[name].fits(value, seconds):
                self._fault(known[name].allowed, f"{value_text!r} does not suit the option {name!r}")
            else:
                values[name] = value
        return values


def _number(text: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
