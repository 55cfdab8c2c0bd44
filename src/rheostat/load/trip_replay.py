"""Trips played by their timestamps: when each record is due, and what it says.

One record is a line of JSON::

    {"id":51,"trip":17,"copy":0,"pickup":1367366412,"dropoff":1367366999,
     "pickup_longitude":-73.991859,"pickup_latitude":40.72591,"dropoff_longitude":-73.998909,
     "dropoff_latitude":40.74218,"passengers":1,"distance":1.64,"timestamp":1700000000.123}

Trips are numbered from 0 in the order of their pickups. With c copies trip k is the records k·c … k·c + c − 1, told
apart by ``id`` and ``copy``. ``pickup`` and ``dropoff`` are the city's: what its clocks showed, in seconds since 1970
as if that were UTC. ``distance`` is in miles, as the city's data have it; ``timestamp`` is the wall time of the
record's production, as in every load here. Passengers may be unknown (null).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import NamedTuple

from rheostat.load.curves import Pieces, staircase
from rheostat.load.payload import Records

__all__ = ["Arrivals", "Trip", "TripLoad", "TripPayloads"]

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
