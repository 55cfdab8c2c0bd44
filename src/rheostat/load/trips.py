"""Taxi trips in a city: their daily cycle, synthetic trips, and how trips are played as records (S2, section V).

The cycle is two working days from midnight, repeated. The heights are those of a Wednesday and a Thursday in New York
(medians of the data set nyc_taxi of the Numenta Anomaly Benchmark); the times at which they change are those of S2's
experiment, which plays two such days in 288 minutes: strong rises at minutes 30 and 180, strong falls at 120 and 270,
small dips at 100 and 220.

The number of trips that begin within a minute of the city is a Poisson variable, from the seed. The shape ``trips`` and
the generator of records draw the same numbers, so that a simulator plays the load that a cluster would get. Making
trips needs numpy.
"""

from __future__ import annotations

import json
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
from rheostat.load.curves import Pieces, levels, staircase
from rheostat.load.payload import Records

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# The daily cycle

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
"""Minutes of S2's experiment (ten minutes of the city each), and the height then; straight lines between them."""

_TEN_MINUTES_S, _MINUTE_S = 600.0, 60
_MAX_BINS = 50_000
"""Minutes of 34 days; in a longer load the numbers are drawn for longer bins, so that memory stays bounded."""

_LARGE = 1e12
"""Above this expected number the randomness is invisible, and is left out."""


@dataclass(frozen=True, slots=True)
class TripPlan:
    """A load of synthetic trips.

    Attributes:
        rate: mean trips/s of the city over the two days.
        seconds: duration as played, > 0.
        speed: seconds of the city in one that is played, > 0.
        copies: records of each trip, ≥ 1.
    """

    rate: float = MILLION_RATE
    seconds: float = DAYS_S
    speed: float = 1.0
    copies: int = 1
    seed: int = 0


def trip_curve(plan: TripPlan, random: Random | None = None) -> Pieces:
    """Records/s as played: a level for each minute of the city. ``random`` draws in place of the plan's seed."""
    edges, trips = _draw_counts(plan, random)
    times = [*(edges[:-1] / plan.speed).tolist(), plan.seconds]
    rates = [
        number * plan.copies / (end - begin)
        for (begin, end), number in zip(pairwise(times), trips.tolist(), strict=True)
    ]
    return levels(times, rates)


def experiment_curve(seed: int = 0) -> Pieces:
    """The load of S2's experiment: a million trips of two days, ten times as fast, three records of each.

    288 minutes, 174 records/s on average.
    """
    return trip_curve(TripPlan(seconds=DAYS_S / 10, speed=10.0, copies=3, seed=seed))


def _draw_counts(plan: TripPlan, random: Random | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Edges of the bins in seconds of the city, one more than bins, and the number of trips in each bin.

    A bin is a minute; the last one may be shorter. Without ``random`` the numbers are those of the shape ``trips`` with
    the option ``seed``. The integral of the cycle is exact at minutes, linear between them.
    """
    import numpy as np

    span_s = plan.seconds * plan.speed
    width = max(float(_MINUTE_S), span_s / _MAX_BINS)
    whole = max(1, math.ceil(span_s / width - 1e-9))
    edges = np.append(np.arange(whole) * width, span_s)
    cycle = Pieces([(ten * _TEN_MINUTES_S, height) for ten, height in _PROFILE])
    grid = np.arange(0.0, DAYS_S + 1, _MINUTE_S)
    sums = np.array([cycle.cumulative(second) for second in grid.tolist()])
    turns, inside = np.divmod(edges, DAYS_S)
    expected = plan.rate * np.diff(DAYS_S * (turns + np.interp(inside, grid, sums / sums[-1])))
    random = random or Random(f"trips {plan.seed}")
    drawn = np.random.default_rng(random.getrandbits(64)).poisson(np.minimum(expected, _LARGE))
    return edges, np.where(expected < _LARGE, drawn, expected)


# Trips played as records


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
        """The part of its records that is the same in all copies: fields of JSON."""
        return json.dumps(self._asdict(), separators=(",", ":"))[1:-1]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When the records of trips are due: a :class:`~rheostat.load.curves.RateCurve` with steps.

    A trip of second p of the city is due at ``(p − begin) / speed``, with all its copies. The rate is that of the
    city's second: its integral agrees at the end of each second.

    Attributes:
        seconds: pickups, ascending, each second once; at least one.
        trips: the number of trips up to and including each of them.
        begin: the city's second at time 0, not after the first pickup.
        duration: seconds as played; the last pickup lies within them.
        speed, copies: as in :class:`TripPlan`.

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
        if not 0 <= t < self.duration:
            return 0.0
        second = self._city_second(t)
        return (self._trips_until(second) - self._trips_until(second - 1)) * self.copies * self.speed

    def cumulative(self, t: float) -> float:
        return float(self._trips_until(self._city_second(t)) * self.copies) if t >= 0 else 0.0

    def pieces(self) -> Pieces:
        """A level for each minute of the city."""
        span = round(self.duration * self.speed, 6)
        edges = [*range(0, math.ceil(span), _MINUTE_S), span]
        sums = [self._trips_until(self.begin + math.ceil(edge) - 1) for edge in edges]
        numbers = (self.copies * (end - begin) for begin, end in pairwise(sums))
        widths = [(end - begin) / self.speed for begin, end in pairwise(edges)]
        return staircase([(seconds, number / seconds) for seconds, number in zip(widths, numbers, strict=True)])

    def _city_second(self, t: float) -> int:
        return self.begin + math.floor(t * self.speed + 1e-9)

    def _trips_until(self, second: int) -> int:
        index = bisect_right(self.seconds, second)
        return self.trips[index - 1] if index else 0


class TripPayloads:
    """Makes the records of trips: reads the bodies once, in order, and drops those that cannot be asked for again."""

    def __init__(self, bodies: Iterator[str], copies: int = 1, first_id: int = 0) -> None:
        self.first_id = first_id
        self._bodies, self._copies = bodies, copies
        self._buffer: deque[str] = deque()
        self._first_trip = 0

    def make(self, begin: int, count: int, timestamp: float) -> Records:
        """See :class:`~rheostat.load.payload.RecordMaker`. Without keys; there are no records behind the last trip."""
        self._fill_buffer(begin // self._copies, -(-(begin + count) // self._copies))
        end = min(begin + count, (self._first_trip + len(self._buffer)) * self._copies)
        tail = f',"timestamp":{timestamp:.3f}}}'
        values: list[str] = []
        for record in range(begin, end):
            trip, copy = divmod(record, self._copies)
            body = self._buffer[trip - self._first_trip]
            values.append(f'{{"id":{self.first_id + record},"trip":{trip},"copy":{copy},{body}{tail}')
        return Records(self.first_id + begin, values, None)

    def _fill_buffer(self, first: int, end: int) -> None:
        """Hold the trips ``first`` … ``end − 1``."""
        while self._first_trip < first and self._buffer:
            self._buffer.popleft()
            self._first_trip += 1
        self._buffer.extend(islice(self._bodies, max(0, end - self._first_trip - len(self._buffer))))


@dataclass(frozen=True, slots=True)
class TripLoad:
    """A load of trips. ``bodies`` opens :meth:`Trip.body` of each; ``left_out``: invalid rows of a file, by reason."""

    arrivals: Arrivals
    bodies: Callable[[], Iterator[str]]
    left_out: Mapping[str, int] = field(default_factory=dict)

    def payloads(self, first_id: int = 0) -> TripPayloads:
        return TripPayloads(self.bodies(), self.arrivals.copies, first_id)


# Synthetic trips, between places like those of New York

BEGIN = 1_367_366_400
"""Midnight before the first of May 2013, with which S2's data begin."""

_MAX_TRIPS = 20_000_000
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
"""Longitude and latitude in degrees, standard deviation of the pickups around them, and their share."""

_PASSENGERS = (0.70, 0.14, 0.04, 0.02, 0.06, 0.04)
"""Shares of one to six passengers, about as in the city's data."""

_MEDIAN_MILES, _SPREAD = 1.8, 0.75
_STRAIGHT_SHARE = 0.7  # length of the straight line, as a share of the distance driven
_MILES_PER_DEGREE = 69.0
_LONGITUDE_SHARE = 0.757  # length of a degree of longitude in New York, as a share of one of latitude: cos 40.8°
_MILES_PER_S = 11.5 / 3600


def synthetic_trips(plan: TripPlan) -> TripLoad:
    """Make the trips of a plan. The pickups are held in memory, the rest is made when it is due.

    The numbers in each minute of the city are those of :func:`trip_curve`; within a minute every second is as likely.

    Raises:
        InputError: there would be no trips, or more than twenty million.
    """
    import numpy as np

    expected = plan.rate * plan.seconds * plan.speed
    if not expected <= _MAX_TRIPS:
        message = "these are too many: give a smaller rate, or fewer seconds"
        raise InputError([Fault("trips", f"{expected:.4g} trips", f"at most {_MAX_TRIPS} trips", message)])
    edges, counts = _draw_counts(plan)
    number = counts.astype(np.int64)
    if not number.any():
        message = "there are none: give a larger rate, or more seconds"
        raise InputError([Fault("trips", f"{expected:.4g} trips on average", "at least one trip", message)])
    begins, widths = np.repeat(edges[:-1], number), np.repeat(np.diff(edges), number)
    chances = np.random.default_rng([plan.seed, 3]).random(len(begins))
    pickups = BEGIN + np.sort((begins + chances * widths).astype(np.int64))
    seconds, in_second = np.unique(pickups, return_counts=True)
    trips = array("q", np.cumsum(in_second).tolist())
    arrivals = Arrivals(array("q", seconds.tolist()), trips, BEGIN, plan.seconds, plan.speed, plan.copies)
    return TripLoad(arrivals, partial(_make_bodies, pickups, plan.seed))


def _make_bodies(pickups: NDArray[np.int64], seed: int) -> Iterator[str]:
    """Trips in blocks, each from a generator of its own, one for each pickup."""
    import numpy as np

    centres = np.array(_CENTRES)
    for block, first in enumerate(range(0, len(pickups), _BLOCK)):
        random = np.random.default_rng([seed, 2, block])
        near = centres[random.choice(len(centres), _BLOCK, p=centres[:, 3])]
        begin = near[:, :2] + near[:, 2:3] * random.standard_normal((_BLOCK, 2))
        miles = np.clip(_MEDIAN_MILES * np.exp(_SPREAD * random.standard_normal(_BLOCK)), 0.1, 40.0)
        angle = 2 * np.pi * random.random(_BLOCK)
        direction = np.stack([np.cos(angle) / _LONGITUDE_SHARE, np.sin(angle)], axis=1)
        end = begin + direction * (miles * _STRAIGHT_SHARE / _MILES_PER_DEGREE)[:, None]
        durations = np.clip(miles / _MILES_PER_S * random.uniform(0.6, 1.4, _BLOCK), 60, None).astype(np.int64)
        passengers = random.choice(len(_PASSENGERS), _BLOCK, p=_PASSENGERS) + 1
        columns = (durations, np.round(np.hstack([begin, end]), 6), passengers, np.round(miles, 2))
        rows = zip(pickups[first : first + _BLOCK].tolist(), *(column.tolist() for column in columns), strict=False)
        for pickup, seconds, places, aboard, distance in rows:
            yield Trip._make((pickup, pickup + seconds, *places, aboard, distance)).body()
