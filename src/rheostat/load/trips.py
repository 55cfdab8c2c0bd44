"""Taxi trips in a city: their daily cycle, synthetic trips, trips from CSV files, and their play (S2, section V).

The cycle is two working days from midnight, repeated. The heights are those of a Wednesday and a Thursday in New York
(medians of the data set nyc_taxi of the Numenta Anomaly Benchmark); the times at which they change are those of S2's
experiment, which plays two such days in 288 minutes: strong rises at minutes 30 and 180, strong falls at 120 and 270,
small dips at 100 and 220.

The number of trips that begin within a minute of the city is a Poisson variable, from the seed. The shape ``trips`` and
the generator of records draw the same numbers, so that a simulator plays the load that a cluster would get. Making
trips needs numpy.
"""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
import sqlite3
import tempfile
import weakref
from array import array
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from rheostat.errors import Fault, InputError
from rheostat.files import reason_of, refuse_kinds, refuse_nulls
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


# Trips from CSV files


_PLACES = ("pickup_longitude", "pickup_latitude", "dropoff_longitude", "dropoff_latitude")
_NEEDED = ("pickup_datetime", "dropoff_datetime", *_PLACES, "trip_distance")
_PREFIXES = ("tpep_", "lpep_")
_DEBS = (
    *("medallion", "hack_license", "pickup_datetime", "dropoff_datetime", "trip_time_in_secs", "trip_distance"),
    *(*_PLACES, "payment_type", "fare_amount", "surcharge", "mta_tax", "tip_amount", "tolls_amount", "total_amount"),
)
_MEDALLION = re.compile("[0-9A-Fa-f]{32}")
"""The first field of each line of the DEBS file."""

_MAX_HEADER_CHARACTERS = 10_000


class _BadRowError(Exception):
    """A row is no valid trip; the text is the reason."""


class _Columns(NamedTuple):
    """Positions of the columns by name, and whether the first line is a header."""

    places: Mapping[str, int]
    header: bool


def file_trips(paths: Sequence[Path], speed: float = 1.0, copies: int = 1) -> TripLoad:
    """Read the trips of one or more CSV files, in any order and larger than memory, to be played together.

    Two formats are read; columns that are not needed are ignored:

    - the yellow-cab files of New York's Taxi and Limousine Commission, as long as they had coordinates (2010 to June
      2016), and the data of S2 (Donovan and Work), which have the same names;
    - the file of the DEBS 2015 Grand Challenge, which has no header and no passengers.

    The order of the rows does not matter; a stray date makes a long pause. Of trips that are equal in all fields that
    are read one is kept, as in S2.

    ``speed``: seconds of the city in one that is played, > 0. ``copies``: records of each trip, ≥ 1. Invalid rows are
    left out and counted, see ``left_out``.

    Raises:
        InputError: a file cannot be read or lacks columns (every one that it lacks), or there is no trip in them.
    """
    columns_by_path = _read_headers(paths)
    left_out: Counter[str] = Counter()
    entries = chain.from_iterable(_read_entries(path, columns, left_out) for path, columns in columns_by_path.items())
    try:
        trips = SortedTrips(entries)
        seconds, sums, duplicates = trips.count_by_second()
    except (OSError, sqlite3.Error) as error:
        raise InputError([_fault(paths, "files that can be read and sorted", f"{error}")]) from error
    if not sums:
        counts = (f"{number} {'row' if number == 1 else 'rows'}: {reason}" for reason, number in left_out.items())
        reasons = "; ".join(counts) or "no rows"
        raise InputError([_fault(paths, "at least one trip", f"there is no trip in it: {reasons}")])
    left_out.update({"the same trip again": duplicates} if duplicates else {})
    duration = (seconds[-1] - seconds[0] + 1) / speed
    return TripLoad(Arrivals(seconds, sums, seconds[0], duration, speed, copies), trips.bodies, dict(left_out))


def _read_headers(paths: Sequence[Path]) -> dict[Path, _Columns]:
    columns_by_path: dict[Path, _Columns] = {}
    faults: list[Fault] = []
    for path in paths:
        try:
            columns = columns_by_path[path] = _read_header(path)
        except (OSError, ValueError, csv.Error) as error:
            faults.append(_fault([path], "a CSV file of trips", f"cannot be read: {reason_of(error)}"))
        else:
            faults += [_missing(path, name, columns) for name in _NEEDED if name not in columns.places]
    if faults or not paths:
        raise InputError(faults or [Fault("trips", "nothing", "synthetic, or CSV files", "no file is named")])
    return columns_by_path


def _read_header(path: Path) -> _Columns:
    """From the first line: the names of the columns, or a trip of the DEBS file."""
    refuse_kinds(path)
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
        header = lines.readline(_MAX_HEADER_CHARACTERS)
    refuse_nulls(header)
    first = next(csv.reader([header]), [])
    if len(first) == len(_DEBS) and _MEDALLION.fullmatch(first[0]):
        return _Columns({name: place for place, name in enumerate(_DEBS)}, header=False)
    names = [name.strip().lower() for name in first]
    for prefix in _PREFIXES:
        names = [name.removeprefix(prefix) for name in names]
    return _Columns({name: place for place, name in enumerate(names)}, header=True)


def _missing(path: Path, name: str, columns: _Columns) -> Fault:
    message = f"it has no column {name}"
    if name in _PLACES and "pulocationid" in columns.places:
        message += ": it names zones; files with coordinates end in June 2016"
    return _fault([path], f"the columns {', '.join(_NEEDED)}", message)


def _fault(paths: Sequence[Path], allowed: str, message: str) -> Fault:
    names = ", ".join(map(str, paths))
    return Fault("trips", names, allowed, f"{names}: {message}")


def _read_entries(path: Path, columns: _Columns, left_out: Counter[str]) -> Iterator[tuple[int, str]]:
    """Pickup and body of each trip of a file; counts invalid rows by reason, and skips blank lines."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
        rows = csv.reader(lines)
        if columns.header:
            next(rows, None)
        while True:
            try:
                row = next(rows)
                if row:
                    trip = _parse_trip(row, columns.places)
                    yield trip.pickup, trip.body()
            except StopIteration:
                return
            except csv.Error:
                left_out["it is no CSV"] += 1
            except _BadRowError as error:
                left_out[str(error)] += 1


def _parse_trip(row: Sequence[str], places: Mapping[str, int]) -> Trip:
    try:
        pickup, dropoff = (_parse_time(row[places[name]]) for name in _NEEDED[:2])
        where = [_parse_coordinate(name, row[places[name]]) for name in _PLACES]
        miles = _parse_number(row[places["trip_distance"]])
        aboard = row[places["passenger_count"]] if "passenger_count" in places else ""
        passengers = round(_parse_number(aboard)) if aboard.strip() else None
    except IndexError:
        raise _BadRowError("it has too few fields") from None
    if dropoff < pickup:
        raise _BadRowError("it ends before it begins")
    if not (any(where[:2]) and any(where[2:])):
        raise _BadRowError("its coordinates are 0, 0")
    return Trip._make((pickup, dropoff, *where, passengers, miles))


def _parse_time(text: str) -> int:
    """Local time in seconds since 1970, as if it were UTC."""
    try:
        shown = datetime.fromisoformat(text.strip())
    except ValueError:
        raise _BadRowError("a time cannot be read") from None
    return math.floor((shown if shown.tzinfo else shown.replace(tzinfo=UTC)).timestamp())


def _parse_coordinate(name: str, text: str) -> float:
    value = _parse_number(text)
    if abs(value) > (180 if name.endswith("longitude") else 90):
        raise _BadRowError("its coordinates are not on earth")
    return value


def _parse_number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _BadRowError("a number cannot be read")
    return value


class SortedTrips:
    """Trips in the order of pickup and body, without duplicates, in a temporary database that goes with this object.

    Raises:
        OSError, sqlite3.Error: the temporary folder cannot be written to, or is full.
    """

    def __init__(self, entries: Iterable[tuple[int, str]]) -> None:
        folder = tempfile.mkdtemp(prefix="rheostat-trips-")
        self._database = sqlite3.connect(f"{folder}/trips", check_same_thread=False)
        weakref.finalize(self, _remove_database, self._database, folder)
        self._database.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
        self._database.execute("CREATE TABLE trips (pickup INTEGER, body TEXT)")
        self._database.executemany("INSERT INTO trips VALUES (?, ?)", entries)
        self._database.execute("CREATE INDEX in_order ON trips (pickup, body)")
        self._database.commit()

    def bodies(self) -> Iterator[str]:
        """The bodies of all trips; may be called again."""
        for _, body in self._database.execute("SELECT DISTINCT pickup, body FROM trips ORDER BY pickup, body"):
            yield body

    def count_by_second(self) -> tuple[array[int], array[int], int]:
        """Seconds with pickups, the trips up to and including each, and the number of duplicates."""
        seconds, sums, trips, duplicates = array("q"), array("q"), 0, 0
        query = "SELECT pickup, COUNT(DISTINCT body), COUNT(*) FROM trips GROUP BY pickup ORDER BY pickup"
        for second, different, rows in self._database.execute(query):
            trips, duplicates = trips + different, duplicates + rows - different
            seconds.append(second)
            sums.append(trips)
        return seconds, sums, duplicates


def _remove_database(database: sqlite3.Connection, folder: str) -> None:
    database.close()
    shutil.rmtree(folder, ignore_errors=True)
