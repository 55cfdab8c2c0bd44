"""Synthetic trips: so many as the daily cycle says, between places like those of New York.

Pickups crowd around a few centres, most of them in Manhattan; a trip leads some miles away in any direction. Where trip
k leads depends on the seed and on k alone. It is enough for what reads trips one by one: streets are not modelled.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from rheostat.errors import Fault, InputError
from rheostat.load.trip_replay import Arrivals, Trip, TripLoad
from rheostat.load.trips import TripPlan, chance, draw_counts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BEGIN", "synthetic_trips"]

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
