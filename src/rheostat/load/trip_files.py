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
import heapq
import math
import re
import shutil
import tempfile
import weakref
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, TextIO

from rheostat.errors import Fault, InputError
from rheostat.files import reason_of, refuse_kinds, refuse_nulls
from rheostat.load.trips import Arrivals, Trip, TripLoad

_NEEDED = (
    *("pickup_datetime", "dropoff_datetime", "pickup_longitude", "pickup_latitude"),
    *("dropoff_longitude", "dropoff_latitude", "trip_distance"),
)
_PLACES = _NEEDED[2:6]
_PREFIXES = ("tpep_", "lpep_")
_DEBS = (
    *("medallion", "hack_license", "pickup_datetime", "dropoff_datetime", "trip_time_in_secs", "trip_distance"),
    *("pickup_longitude", "pickup_latitude", "dropoff_longitude", "dropoff_latitude", "payment_type", "fare_amount"),
    *("surcharge", "mta_tax", "tip_amount", "tolls_amount", "total_amount"),
)
_MEDALLION = re.compile("[0-9A-Fa-f]{32}")
"""The first field of each line of the DEBS file."""

_MAX_HEADER_CHARACTERS = 10_000
_LARGEST = {"longitude": 180.0, "latitude": 90.0}


class _BadRowError(Exception):
    """A row is no valid trip; the text is the reason."""


class _Columns(NamedTuple):
    """Positions of the columns by name, and whether the first line is a header."""

    places: Mapping[str, int]
    header: bool


def file_trips(paths: Sequence[Path], speed: float = 1.0, copies: int = 1) -> TripLoad:
    """Read the trips of one or more files, to be played together.

    Args:
        paths: the files.
        speed: seconds of the city in one that is played, > 0.
        copies: records of each trip, ≥ 1.

    Raises:
        InputError: a file cannot be read or lacks columns (every one that it lacks), or there is no trip in them.
            Invalid rows are left out and counted, see ``left_out``.
    """
    columns_by_path = _read_headers(paths)
    left_out: Counter[str] = Counter()
    entries = chain.from_iterable(_read_entries(path, columns, left_out) for path, columns in columns_by_path.items())
    try:
        trips = SortedTrips(entries)
    except TooManyTripsError:
        raise InputError([_fault(paths, "at most 125 million trips", "there are more")]) from None
    except OSError as error:
        raise InputError([_fault(paths, "files that can be read and sorted", f"{error}")]) from error
    seconds, sums, duplicates = trips.count_by_second()
    if not sums:
        counts = (f"{number} {'row' if number == 1 else 'rows'}: {reason}" for reason, number in left_out.items())
        reasons = "; ".join(counts) or "no rows"
        raise InputError([_fault(paths, "at least one trip", f"there is no trip in it: {reasons}")])
    left_out.update({"the same trip again": duplicates} if duplicates else {})
    arrivals = Arrivals(
        seconds=seconds,
        trips=sums,
        begin=seconds[0],
        duration=(seconds[-1] - seconds[0] + 1) / speed,
        speed=speed,
        copies=copies,
    )
    return TripLoad(arrivals, trips.bodies, dict(left_out))


def _read_headers(paths: Sequence[Path]) -> dict[Path, _Columns]:
    found: dict[Path, _Columns] = {}
    faults: list[Fault] = []
    for path in paths:
        try:
            columns = found[path] = _read_header(path)
        except (OSError, ValueError, csv.Error) as error:
            faults.append(_fault([path], "a CSV file of trips", f"cannot be read: {reason_of(error)}"))
        else:
            faults += [_missing(path, name, columns) for name in _NEEDED if name not in columns.places]
    if faults or not paths:
        raise InputError(faults or [Fault("trips", "nothing", "synthetic, or CSV files", "no file is named")])
    return found


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


def _read_entries(path: Path, columns: _Columns, left_out: Counter[str]) -> Iterator[Entry]:
    """The trips of a file without blank lines; counts invalid rows by reason."""
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
    return Trip(
        pickup=pickup,
        dropoff=dropoff,
        pickup_longitude=where[0],
        pickup_latitude=where[1],
        dropoff_longitude=where[2],
        dropoff_latitude=where[3],
        passengers=passengers,
        distance=miles,
    )


def _parse_time(text: str) -> int:
    """Local time in seconds since 1970, as if it were UTC."""
    try:
        shown = datetime.fromisoformat(text.strip())
    except ValueError:
        raise _BadRowError("a time cannot be read") from None
    return math.floor((shown if shown.tzinfo else shown.replace(tzinfo=UTC)).timestamp())


def _parse_coordinate(name: str, text: str) -> float:
    value = _parse_number(text)
    if abs(value) > _LARGEST[name.partition("_")[2]]:
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


# Sorting more trips than fit into memory: runs on disk, merged while they are read

RUN = 250_000
"""Trips that are sorted in memory at once; twice as many are held."""

MAX_RUNS = 500
"""Files that are open at once while runs are merged."""

Entry = tuple[int, str]
"""The second of a pickup, and the trip's body."""


class TooManyTripsError(Exception):
    """More trips than can be merged."""


class CountsBySecond(NamedTuple):
    """Seconds with pickups, the trips up to and including each, and the number of duplicates left out."""

    seconds: array[int]
    trips: array[int]
    duplicates: int


class SortedTrips:
    """Trips sorted by pickup, then by body, without duplicates.

    The last ``run`` trips or fewer stay in memory. Those before are kept in a temporary folder, which is removed with
    this object.

    Args:
        entries: in any order; consumed here.
        run: trips that are sorted in memory.

    Raises:
        TooManyTripsError: more than 500 runs.
        OSError: the temporary folder cannot be written to.
    """

    def __init__(self, entries: Iterable[Entry], run: int = RUN) -> None:
        rest = iter(entries)
        runs = iter(lambda: sorted(islice(rest, run)), [])
        self._folder: Path | None = None
        self._files: list[Path] = []
        self._memory = next(runs, [])
        for following in runs:
            self._write_run(self._memory)
            self._memory = following

    def bodies(self) -> Iterator[str]:
        """The bodies of all trips; may be called again."""
        for (_, body), _ in groupby(self._merge()):
            yield body

    def count_by_second(self) -> CountsBySecond:
        seconds, sums, trips, duplicates = array("q"), array("q"), 0, 0
        for second, entries in groupby(self._merge(), key=itemgetter(0)):
            bodies = [body for _, body in entries]
            different = len(set(bodies))
            trips, duplicates = trips + different, duplicates + len(bodies) - different
            seconds.append(second)
            sums.append(trips)
        return CountsBySecond(seconds, sums, duplicates)

    def _write_run(self, entries: list[Entry]) -> None:
        if len(self._files) == MAX_RUNS:
            raise TooManyTripsError
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="rheostat-trips-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        file = self._folder / f"{len(self._files)}"
        with file.open("w", encoding="utf-8") as out:
            out.writelines(f"{second}\t{body}\n" for second, body in entries)
        self._files.append(file)

    def _merge(self) -> Iterator[Entry]:
        with ExitStack() as stack:
            runs = [_read_run(stack.enter_context(file.open(encoding="utf-8"))) for file in self._files]
            yield from heapq.merge(self._memory, *runs)


def _read_run(lines: TextIO) -> Iterator[Entry]:
    for line in lines:
        second, _, body = line.rstrip("\n").partition("\t")
        yield int(second), body
