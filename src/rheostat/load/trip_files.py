"""Real trips from CSV files, in any order, larger than memory.

Two formats are read; columns that are not needed are ignored:

- the yellow-cab files of New York's Taxi and Limousine Commission, as long as they had coordinates (2010 to June 2016),
  and the data of S2 (Donovan and Work), which have the same names;
- the file of the DEBS 2015 Grand Challenge, which has no header and no passengers.

The order of the rows does not matter; a stray date makes a long pause. Of trips that are equal in all fields that are
read one is kept, as in S2.
"""

from __future__ import annotations

import csv
import math
import re
import shutil
import sqlite3
import tempfile
import weakref
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from rheostat.errors import Fault, InputError
from rheostat.files import reason_of, refuse_kinds, refuse_nulls
from rheostat.load.trips import Arrivals, Trip, TripLoad

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
    """Read the trips of one or more files, to be played together.

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
