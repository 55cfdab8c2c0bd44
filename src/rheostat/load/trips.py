"""The daily cycle of taxi trips in a city, and the shape ``trips`` that follows it (S2, section V).

Two working days from midnight, over and over. The heights are those of a Wednesday and a Thursday in New York (medians
of the data set nyc_taxi of the Numenta Anomaly Benchmark); when they change is taken from S2's experiment, which plays
two such days in 288 minutes: strong rises at minutes 30 and 180, strong falls at 120 and 270, small dips at 100 and
220.

How many trips begin within a minute of the city is a Poisson variable, from the seed. The shape and the generator
 draw the same numbers, so that a simulator plays what a cluster would get.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from rheostat.errors import Fault, InputError
from rheostat.load.curves import Pieces, staircase
from rheostat.load.payload import Records

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
_DAY_MINUTE_S = 60.0
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

    width = max(_DAY_MINUTE_S, span_s / _MOST_BINS)
    whole = max(1, math.ceil(span_s / width - 1e-9))
    edges = np.append(np.arange(whole) * width, span_s)
    expected = rate * np.diff(_offered(edges))
    drawn = np.random.default_rng(random.getrandbits(64)).poisson(np.minimum(expected, _LARGE))
    return Counts(edges, np.where(expected < _LARGE, drawn, expected))


def trip_curve(plan: TripPlan) -> Pieces:
    """Records/s over the seconds that are played: a level for each minute of the city. Needs numpy."""
    return trip_levels(plan, chance(plan.seed))


def experiment_curve(seed: int = 0) -> Pieces:
    """The load of S2's experiment: a million trips of two days, ten times as fast, three records of each.

    288 minutes, 174 records/s on average.
    """
    return trip_curve(TripPlan(seconds=DAYS_S / 10, speed=10.0, copies=3, seed=seed))


def trip_levels(plan: TripPlan, random: Random) -> Pieces:
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
    grid = np.arange(0.0, DAYS_S + 1, _DAY_MINUTE_S)
    sums = np.array([cycle.cumulative(second) for second in grid.tolist()])
    turns, inside = np.divmod(t, DAYS_S)
    offered: NDArray[np.float64] = DAYS_S * (turns + np.interp(inside, grid, sums / sums[-1]))
    return offered


# Synthetic trips: so many as the daily cycle says, between places like those of New York.


BEGIN = 1_367_366_400
"""Midnight before the first of May 2013, with which S2's data begin."""

_MOST_TRIPS = 20_000_000
_BLOCK = 4_096

_CENTRES = (
    (-73.985, 40.755, 0.010, 0.40),  # Midtown
    (-74.003, 40.730, 0.010, 0.24),  # Village and Downtown
    (-73.963, 40.772, 0.008, 0.16),  # Upper East Side
    (-73.977, 40.785, 0.007, 0.10),  # Upper West Side
    (-73.957, 40.690, 0.020, 0.05),  # Brooklyn
    (-73.873, 40.774, 0.003, 0.03),  # LaGuardia
    (-73.782, 40.645, 0.003, 0.02),  # Kennedy
)
"""Longitude and latitude in degrees, how far pickups spread around them (standard deviation), and their share."""

_PASSENGERS = (0.70, 0.14, 0.04, 0.02, 0.06, 0.04)
"""Shares of one to six passengers, about as in the city's data."""

_MEDIAN_MILES, _SPREAD = 1.8, 0.75
_CROW = 0.7
"""The straight line is so much of the way."""

_MILES_PER_DEGREE = 69.0
_NARROW = 0.757
"""A degree of longitude in New York is so much of one of latitude: cos 40.8°."""

_MILES_PER_S = 11.5 / 3600


def synthetic_trips(plan: TripPlan) -> TripLoad:
    """The trips of a plan. Needs numpy; the pickups are held in memory, the rest is made when it is due.

    Their numbers by minute of the city are those of :func:`~rheostat.load.trips.trip_curve`; within a minute every
    second is as likely.

    Raises:
        InputError: there would be no trips, or more than twenty million.
    """
    expected = plan.rate * plan.seconds * plan.speed
    if not expected <= _MOST_TRIPS:
        message = "these are too many: give a smaller rate, or fewer seconds"
        raise InputError([Fault("trips", f"{expected:.4g} trips", f"at most {_MOST_TRIPS} trips", message)])
    pickups = _pickups(plan)
    if not len(pickups):
        message = "there are none: give a larger rate, or more seconds"
        raise InputError([Fault("trips", f"{expected:.4g} trips on average", "at least one trip", message)])
    arrivals = _arrivals(pickups, plan)
    return TripLoad(arrivals, partial(_bodies, pickups, plan.seed))


def _pickups(plan: TripPlan) -> NDArray[np.int64]:
    """Seconds of the pickups since the beginning, in order."""
    import numpy as np

    edges, counts = draw_counts(plan.rate, plan.seconds * plan.speed, chance(plan.seed))
    number = counts.astype(np.int64)
    begins, widths = np.repeat(edges[:-1], number), np.repeat(np.diff(edges), number)
    chances = np.random.default_rng([plan.seed, 3]).random(len(begins))
    return np.sort((begins + chances * widths).astype(np.int64))


def _arrivals(pickups: NDArray[np.int64], plan: TripPlan) -> Arrivals:
    import numpy as np

    seconds, counts = np.unique(pickups, return_counts=True)
    sums = array("q", np.cumsum(counts).tolist())
    begins = array("q", (seconds + BEGIN).tolist())
    return Arrivals(
        seconds=begins, trips=sums, begin=BEGIN, duration=plan.seconds, speed=plan.speed, copies=plan.copies
    )


def _bodies(pickups: NDArray[np.int64], seed: int) -> Iterator[str]:
    for block, begin in enumerate(range(0, len(pickups), _BLOCK)):
        yield from (trip.body() for trip in _block(pickups[begin : begin + _BLOCK], seed, block))


def _block(pickups: NDArray[np.int64], seed: int, block: int) -> Iterator[Trip]:
    """Trips of consecutive numbers, one for each pickup."""
    import numpy as np

    random = np.random.default_rng([seed, 2, block])
    centres = np.array(_CENTRES)
    near = centres[random.choice(len(centres), _BLOCK, p=centres[:, 3])]
    begin = near[:, :2] + near[:, 2:3] * random.standard_normal((_BLOCK, 2))
    miles = np.clip(_MEDIAN_MILES * np.exp(_SPREAD * random.standard_normal(_BLOCK)), 0.1, 40.0)
    angle = 2 * np.pi * random.random(_BLOCK)
    away = np.stack([np.cos(angle) / _NARROW, np.sin(angle)], axis=1) * (miles * _CROW / _MILES_PER_DEGREE)[:, None]
    lasts = np.clip(miles / _MILES_PER_S * random.uniform(0.6, 1.4, _BLOCK), 60, None).astype(np.int64)
    passengers = random.choice(len(_PASSENGERS), _BLOCK, p=_PASSENGERS) + 1
    places = np.round(np.hstack([begin, begin + away]), 6).tolist()
    told = zip((pickups + BEGIN).tolist(), lasts, places, passengers, np.round(miles, 2), strict=False)
    for pickup, seconds, (from_x, from_y, to_x, to_y), aboard, far in told:
        yield Trip(
            pickup=pickup,
            dropoff=pickup + int(seconds),
            pickup_longitude=from_x,
            pickup_latitude=from_y,
            dropoff_longitude=to_x,
            dropoff_latitude=to_y,
            passengers=int(aboard),
            distance=float(far),
        )


# Trips played by their timestamps: when each record is due, and what it says.


_ROUNDING = 1e-9
_MINUTE_S = 60


class Trip(NamedTuple):
    """One trip; times in whole seconds, coordinates in degrees, the distance in miles."""

    pickup: int
    dropoff: int
    pickup_longitude: float
    pickup_latitude: float
    dropoff_longitude: float
    dropoff_latitude: float
    passengers: int | None
    distance: float

    def body(self) -> str:
        """The part of its records that is the same in all of them."""
        return (
            f'"pickup":{self.pickup},"dropoff":{self.dropoff},'
            f'"pickup_longitude":{self.pickup_longitude},"pickup_latitude":{self.pickup_latitude},'
            f'"dropoff_longitude":{self.dropoff_longitude},"dropoff_latitude":{self.dropoff_latitude},'
            f'"passengers":{"null" if self.passengers is None else self.passengers},"distance":{self.distance}'
        )


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When the records of trips are due: a :class:`~rheostat.load.curves.RateCurve` with steps.

    A trip of second p of the city is due at ``(p − begin) / speed``, all its copies at once. The rate is that of the
    city's second: its integral agrees at the end of each.

    Attributes:
        seconds: pickups, ascending, each second once; at least one.
        trips: so many up to and with each of them.
        begin: the city's second at time 0, not after the first pickup.
        duration: seconds as played; the last pickup lies within them.
        speed: seconds of the city in one that is played, > 0.
        copies: records of each trip, ≥ 1.

    >>> arrivals = Arrivals([100, 103], [2, 3], begin=100, duration=0.4, speed=10, copies=3)
    >>> [arrivals.cumulative(t) for t in (-0.1, 0.0, 0.29, 0.3)]
    [0.0, 6.0, 6.0, 9.0]
    """

    seconds: Sequence[int]
    trips: Sequence[int]
    begin: int
    duration: float
    speed: float = 1.0
    copies: int = 1

    def rate(self, t: float) -> float:
        """Records/s as played, within the city's second."""
        if not 0 <= t < self.duration:
            return 0.0
        second = self._second(t)
        return (self._until(second) - self._until(second - 1)) * self.copies * self.speed

    def cumulative(self, t: float) -> float:
        """Records due by ``t``."""
        return float(self._until(self._second(t)) * self.copies) if t >= 0 else 0.0

    def pieces(self) -> Pieces:
        """A level for each minute of the city."""
        span = round(self.duration * self.speed, 6)
        edges = [*range(0, math.ceil(span), _MINUTE_S), span]
        sums = [self._until(self.begin + math.ceil(edge) - 1) for edge in edges]
        numbers = (self.copies * (end - begin) for begin, end in pairwise(sums))
        lasts = [(end - begin) / self.speed for begin, end in pairwise(edges)]
        return staircase([(seconds, number / seconds) for seconds, number in zip(lasts, numbers, strict=True)])

    def _second(self, t: float) -> int:
        return self.begin + math.floor(t * self.speed + _ROUNDING)

    def _until(self, second: int) -> int:
        """Trips up to and with a second of the city."""
        index = bisect_right(self.seconds, second)
        return self.trips[index - 1] if index else 0


class TripPayloads:
    """Makes the records of trips, which are read once, in order, and kept only as long as they may be asked for again.

    Args:
        bodies: :meth:`Trip.body` of each trip.
        copies: records of each.
        first_id: id of record 0.
    """

    def __init__(self, bodies: Iterator[str], copies: int = 1, first_id: int = 0) -> None:
        self.first_id = first_id
        self._bodies, self._copies = bodies, copies
        self._kept: deque[str] = deque()
        self._first = 0

    def make(self, begin: int, count: int, timestamp: float) -> Records:
        """Records ``begin`` … ``begin + count − 1``, counted from 0, produced at ``timestamp``; without keys.

        ``begin`` never goes back. Records behind the last trip are left out.
        """
        self._keep(begin // self._copies, -(-(begin + count) // self._copies))
        end = min(begin + count, (self._first + len(self._kept)) * self._copies)
        tail = f',"timestamp":{timestamp:.3f}}}'
        values: list[str] = []
        for record in range(begin, end):
            trip, copy = divmod(record, self._copies)
            body = self._kept[trip - self._first]
            values.append(f'{{"id":{self.first_id + record},"trip":{trip},"copy":{copy},{body}{tail}')
        return Records(self.first_id + begin, values, None)

    def _keep(self, first: int, end: int) -> None:
        """Have the trips ``first`` … ``end − 1``, and forget those before."""
        while self._first < first and self._kept:
            self._kept.popleft()
            self._first += 1
        self._kept.extend(islice(self._bodies, max(0, end - self._first - len(self._kept))))


@dataclass(frozen=True, slots=True)
class TripLoad:
    """A load of trips that can be played.

    Attributes:
        arrivals: when its records are due.
        bodies: opens the trips, in the order of their pickups.
        left_out: rows of a file that are no trip, by what is wrong with them.
    """

    arrivals: Arrivals
    bodies: Callable[[], Iterator[str]]
    left_out: Mapping[str, int] = field(default_factory=dict)

    def payloads(self, first_id: int = 0) -> TripPayloads:
        """What the records say, from the first trip on."""
        return TripPayloads(self.bodies(), self.arrivals.copies, first_id)
