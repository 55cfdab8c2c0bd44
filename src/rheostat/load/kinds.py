"""What a kind of shape is made of: its rates, its options with their limits and defaults, and how it is built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from rheostat.load.curves import Pieces, RateCurve

__all__ = ["AT", "SEED", "Kind", "Option", "Part", "levels", "mean_time", "seconds_option", "share_option"]

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
