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

import difflib
import math
import re
from collections.abc import Iterable
from random import Random

from rheostat.errors import Fault, InputError
from rheostat.load.chance import CHANCE
from rheostat.load.curves import RateCurve, Sequel
from rheostat.load.cycles import CYCLES
from rheostat.load.kinds import Kind, Part
from rheostat.load.plain import PLAIN
from rheostat.load.trips import TRIPS

__all__ = ["GRAMMAR", "KINDS", "SHAPES", "asks_apart", "parse_shape", "read_shape", "remarks_on"]

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
            self._fault(", ".join(SHAPES), f"there is no shape {name!r}" + _hint(name.lower(), SHAPES))
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
                self._fault(", ".join(known) or "none", f"there is no option {name!r} here" + _hint(name, known))
            elif value is None or not known[name].fits(value, seconds):
                self._fault(known[name].allowed, f"{value_text!r} does not suit the option {name!r}")
            else:
                values[name] = value
        return values


def _hint(given: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(given, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _number(text: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
