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

``at`` is the middle unless said. In a single part ``@seconds`` may be given apart (``--seconds``). A bare name takes
its rate apart too (``--rate R``): a constant R, a ramp from 0 to R, any other from R/5 to R.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rheostat.errors import Fault, InputError
from rheostat.load.curves import Pieces, RateCurve, Sequel, constant, staircase

__all__ = ["GRAMMAR", "SHAPES", "Gaussian", "Sine", "parse_shape", "read_shape"]

GRAMMAR = "NAME:RATE[..RATE][@SECONDS][,OPTION=NUMBER]{+…}, as ramp:200..1400@40+constant:1400@50"
"""The language in one line, for messages and help."""

_LOW_SHARE = 0.2
_ROOT_2 = math.sqrt(2)


@dataclass(frozen=True, slots=True)
class Sine:
    """A wave between two rates, from its trough.

    ``rate(t) = mid − amplitude · cos(2πt / period)`` and
    ``cumulative(t) = mid · t − amplitude · period / 2π · sin(2πt / period)``,
    with ``mid = (low + high) / 2`` and ``amplitude = (high − low) / 2``.
    """

    low: float
    high: float
    duration: float
    period: float

    def rate(self, t: float) -> float:
        """Records/s at ``t``."""
        if not 0 <= t < self.duration:
            return 0.0
        return (self.low + self.high) / 2 - (self.high - self.low) / 2 * math.cos(2 * math.pi * t / self.period)

    def cumulative(self, t: float) -> float:
        """Records offered in [0, t]."""
        t = min(max(t, 0.0), self.duration)
        wave = self.period / (2 * math.pi) * math.sin(2 * math.pi * t / self.period)
        return (self.low + self.high) / 2 * t - (self.high - self.low) / 2 * wave


@dataclass(frozen=True, slots=True)
class Gaussian:
    """A bell upon a base rate.

    ``rate(t) = base + (peak − base) · exp(−(t − at)² / (2 · width²))``; its integral by the error function.
    """

    base: float
    peak: float
    duration: float
    at: float
    width: float

    def rate(self, t: float) -> float:
        """Records/s at ``t``."""
        if not 0 <= t < self.duration:
            return 0.0
        return self.base + (self.peak - self.base) * math.exp(-(((t - self.at) / self.width) ** 2) / 2)

    def cumulative(self, t: float) -> float:
        """Records offered in [0, t]."""
        t = min(max(t, 0.0), self.duration)
        scale = self.width * _ROOT_2
        bell = self.width * math.sqrt(math.pi / 2) * (math.erf((t - self.at) / scale) - math.erf(-self.at / scale))
        return self.base * t + (self.peak - self.base) * bell


@dataclass(frozen=True, slots=True)
class _Part:
    """One part, read: rates, seconds and options (with the defaults filled in)."""

    low: float
    high: float
    seconds: float
    options: Mapping[str, float]


def _step(part: _Part) -> RateCurve:
    steps = int(part.options["steps"])
    rises = [part.low + (part.high - part.low) * index / (steps - 1) for index in range(steps)]
    return staircase([(part.seconds / steps, rate) for rate in rises])


def _spike(part: _Part) -> RateCurve:
    at, width = part.options["at"], part.options["width"]
    after = max(0.0, part.seconds - at - width)
    levels = [(at, part.low), (min(width, part.seconds - at), part.high), (after, part.low)]
    return staircase([level for level in levels if level[0] > 0])


@dataclass(frozen=True, slots=True)
class _Shape:
    """A kind of shape: how many rates it takes, its options with their defaults (by seconds), how it is built."""

    build: Callable[[_Part], RateCurve]
    one_rate: bool = False
    low_share: float = _LOW_SHARE
    options: Mapping[str, Callable[[float], float]] = field(default_factory=dict)


def _half(seconds: float) -> float:
    return seconds / 2


_KINDS: dict[str, _Shape] = {
    "constant": _Shape(lambda part: constant(part.high, part.seconds), one_rate=True),
    "step": _Shape(_step, options={"steps": lambda _: 2.0}),
    "ramp": _Shape(lambda part: Pieces([(0, part.low), (part.seconds, part.high)]), low_share=0.0),
    "sine": _Shape(
        lambda part: Sine(part.low, part.high, part.seconds, part.options["period"]),
        options={"period": lambda seconds: seconds},
    ),
    "gaussian": _Shape(
        lambda part: Gaussian(part.low, part.high, part.seconds, part.options["at"], part.options["width"]),
        options={"at": _half, "width": lambda seconds: seconds / 6},
    ),
    "spike": _Shape(_spike, options={"at": _half, "width": lambda seconds: seconds / 10}),
}

SHAPES = tuple(_KINDS)
"""Names of the shapes."""


def parse_shape(text: str, *, rate: float | None = None, seconds: float | None = None) -> RateCurve:
    """The curve that a text in the language above describes.

    Args:
        text: the shape.
        rate: records/s for a bare name.
        seconds: duration for a single part that does not say its own.

    Raises:
        InputError: with every fault of every part.

    >>> parse_shape("ramp:200..1400@40+constant:1400@50").cumulative(90)
    102000.0
    """
    curve, faults = read_shape(text, rate, seconds)
    if curve is None:
        raise InputError(faults)
    return curve


def read_shape(text: str, rate: float | None, seconds: float | None) -> tuple[RateCurve | None, list[Fault]]:
    """As :func:`parse_shape`, but with the faults as a list, to be reported with others. No curve if there is one."""
    texts = re.split(r"\+(?=\s*[A-Za-z_])", text.strip())
    parts = [_PartReader(part.strip(), rate, seconds if len(texts) == 1 else None) for part in texts]
    curves = [curve for part in parts if (curve := part.curve()) is not None]
    faults = [fault for part in parts for fault in part.faults]
    if faults:
        return None, faults
    return (curves[0] if len(curves) == 1 else Sequel(curves)), []


class _PartReader:
    """Reads one part, and gathers what is wrong with it."""

    def __init__(self, text: str, rate: float | None, seconds: float | None) -> None:
        self.faults: list[Fault] = []
        self._text, self._rate, self._seconds = text, rate, seconds

    def curve(self) -> RateCurve | None:
        """The curve, or None if there are faults."""
        head, *options = self._text.split(",")
        head, _, seconds_text = head.partition("@")
        name, colon, rates_text = (piece.strip() for piece in head.partition(":"))
        kind = _KINDS.get(name.lower())
        if kind is None:
            self._fault(", ".join(SHAPES), _unknown(name))
            return None
        seconds = self._duration(seconds_text.strip())
        low, high = self._rates(kind, rates_text) if colon else self._bare(kind)
        read = self._options(kind, options, seconds)
        return None if self.faults else kind.build(_Part(low, high, seconds, read))

    def _fault(self, allowed: str, message: str, field_name: str = "shape") -> None:
        self.faults.append(Fault(field_name, self._text, allowed, message))

    def _duration(self, text: str) -> float:
        if not text and self._seconds is not None:
            return self._seconds
        if not text:
            self._fault("@SECONDS, > 0", "say how long it lasts, as in ramp:200..1400@40")
            return 1.0
        seconds = _number(text)
        if seconds is None or seconds <= 0:
            self._fault("a number > 0 after @", f"{text!r} is no number of seconds")
            return 1.0
        return seconds

    def _bare(self, kind: _Shape) -> tuple[float, float]:
        if self._rate is None:
            self._fault("a number ≥ 0", "a shape without rates of its own needs a rate (records/s)", "rate")
            return 0.0, 0.0
        return kind.low_share * self._rate, self._rate

    def _rates(self, kind: _Shape, text: str) -> tuple[float, float]:
        rates = [_number(piece) for piece in text.split("..")]
        wanted = 1 if kind.one_rate else 2
        if len(rates) != wanted or any(rate is None or rate < 0 for rate in rates):
            allowed = "RATE, a number ≥ 0" if kind.one_rate else "RATE..RATE, numbers ≥ 0"
            self._fault(allowed, f"{text!r} does not give its rates (records/s)")
            return 0.0, 0.0
        return rates[0] or 0.0, rates[-1] or 0.0

    def _options(self, kind: _Shape, texts: list[str], seconds: float) -> dict[str, float]:
        values = {name: default(seconds) for name, default in kind.options.items()}
        for text in texts:
            name, _, value_text = (piece.strip() for piece in text.partition("="))
            value = _number(value_text)
            if name not in values:
                self._fault(", ".join(values) or "none", f"there is no option {name!r} here")
            elif value is None or not _fits(name, value, seconds):
                self._fault(_ALLOWED[name], f"{value_text!r} does not suit the option {name!r}")
            else:
                values[name] = value
        return values


_ALLOWED = {
    "steps": "a whole number from 2 to 10000",
    "period": "a number of seconds > 0",
    "width": "a number of seconds > 0",
    "at": "a number of seconds from 0 to the end of the part",
}


def _fits(name: str, value: float, seconds: float) -> bool:
    if name == "steps":
        return value == int(value) and 2 <= value <= 10_000
    return 0 <= value <= seconds if name == "at" else value > 0


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name.lower(), SHAPES, n=1)
    return f"there is no shape {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")


def _number(text: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
