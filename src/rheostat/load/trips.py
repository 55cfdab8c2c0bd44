"""The daily cycle of taxi trips in a city, and the shape ``trips`` that follows it (S2, section V).

Two working days from midnight, over and over. The heights are those of a Wednesday and a Thursday in New York (medians
of the data set nyc_taxi of the Numenta Anomaly Benchmark); when they change is taken from S2's experiment, which plays
two such days in 288 minutes: strong rises at minutes 30 and 180, strong falls at 120 and 270, small dips at 100 and
220.

How many trips begin within a minute of the city is a Poisson variable, from the seed. The shape and the generator
(:mod:`rheostat.load.trip_maker`) draw the same numbers, so that a simulator plays what a cluster would get.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from rheostat.load.curves import Pieces
from rheostat.load.kinds import SEED, Kind, Option, Part

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["DAYS_S", "MILLION_RATE", "TRIPS", "TripPlan", "chance", "draw_counts", "experiment_curve", "trip_curve"]

DAYS_S = 172_800.0
"""The cycle: two days of the city, in its seconds."""

MILLION_RATE = 1_000_000 / DAYS_S
"""Trips/s of the city where two days have a million, as S2's data set has."""

_PROFILE = (
    *((0, 0.78), (6, 0.45), (15, 0.21), (24, 0.15), (30, 0.15), (42, 0.97), (48, 1.27), (60, 1.11), (72, 1.17)),
    *((90, 1.17), (100, 0.90), (108, 1.42), (114, 1.56), (120, 1.56), (132, 0.95), (144, 0.78), (150, 0.54)),
    *((162, 0.21), (168, 0.16), (180, 0.16), (192, 0.97), (198, 1.29), (207, 1.12), (214, 1.16), (220, 0.95)),
    *((228, 1.17), (240, 1.20), (252, 1.42), (258, 1.58), (270, 1.58), (282, 0.95), (288, 0.78)),
)
"""Minutes of S2's experiment, ten minutes of the city each, and the height then; straight lines between them."""

_TEN_MINUTES_S = 600.0
_MINUTE_S = 60.0
_MOST_BINS = 50_000
"""So many minutes are 34 days; in a longer load the numbers are drawn for longer times, and memory stays bounded."""

_LARGE = 1e12
"""An expected number from which on chance cannot be seen."""


@dataclass(frozen=True, slots=True)
class TripPlan:
    """A load of trips, with the city's seconds and the seconds in which they are played.

    Attributes:
        rate: mean trips/s of the city over the two days.
        seconds: how long it is played, > 0.
        speed: seconds of the city in one that is played, > 0.
        copies: records of each trip, ≥ 1.
        seed: decides every chance.
    """

    rate: float = MILLION_RATE
    seconds: float = DAYS_S
    speed: float = 1.0
    copies: int = 1
    seed: int = 0


class Counts(NamedTuple):
    """Trips by bin: ``edges`` (one more than bins) in seconds of the city, ``trips`` whole numbers."""

    edges: NDArray[np.float64]
    trips: NDArray[np.float64]


def chance(seed: int) -> Random:
    """What decides the numbers of trips: that of the shape with the option ``seed``."""
    return Random(f"trips {seed}")


def draw_counts(rate: float, span_s: float, random: Random) -> Counts:
    """How many trips begin in each minute of the first ``span_s`` seconds of the city. Needs numpy.

    Args:
        rate: mean trips/s over the two days.
        span_s: > 0; the last bin may be shorter than a minute.
        random: one number is drawn from it.
    """
    import numpy as np

    width = max(_MINUTE_S, span_s / _MOST_BINS)
    whole = max(1, math.ceil(span_s / width - 1e-9))
    edges = np.append(np.arange(whole) * width, span_s)
    expected = rate * np.diff(_offered(edges))
    drawn = np.random.default_rng(random.getrandbits(64)).poisson(np.minimum(expected, _LARGE))
    return Counts(edges, np.where(expected < _LARGE, drawn, expected))


def trip_curve(plan: TripPlan) -> Pieces:
    """Records/s over the seconds that are played: a level for each minute of the city. Needs numpy."""
    return _levels(plan, chance(plan.seed))


def experiment_curve(seed: int = 0) -> Pieces:
    """The load of S2's experiment: a million trips of two days, ten times as fast, three records of each.

    288 minutes, 174 records/s on average.
    """
    return trip_curve(TripPlan(seconds=DAYS_S / 10, speed=10.0, copies=3, seed=seed))


def _levels(plan: TripPlan, random: Random) -> Pieces:
    edges, trips = draw_counts(plan.rate, plan.seconds * plan.speed, random)
    times = [*(edges[:-1] / plan.speed).tolist(), plan.seconds]
    points: list[tuple[float, float]] = []
    for (begin, end), number in zip(pairwise(times), trips.tolist(), strict=True):
        rate = number * plan.copies / (end - begin)
        points += [(begin, rate), (end, rate)]
    return Pieces(points)


def _offered(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Trips in [0, t] seconds of the city at a mean of one a second, to the minute; between minutes a straight line."""
    import numpy as np

    cycle = Pieces([(ten * _TEN_MINUTES_S, height) for ten, height in _PROFILE])
    grid = np.arange(0.0, DAYS_S + 1, _MINUTE_S)
    sums = np.array([cycle.cumulative(second) for second in grid.tolist()])
    turns, inside = np.divmod(t, DAYS_S)
    offered: NDArray[np.float64] = DAYS_S * (turns + np.interp(inside, grid, sums / sums[-1]))
    return offered


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
