"""Sorting more trips than fit into memory: runs on disk, merged while they are read."""

from __future__ import annotations

import heapq
import shutil
import tempfile
import weakref
from array import array
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, TextIO

__all__ = ["Counted", "Entry", "SortedTrips", "TooManyTripsError"]

RUN = 250_000
"""Trips that are sorted in memory at once; twice as many are held."""

MOST_RUNS = 500
"""Files that are open at once while runs are merged."""

Entry = tuple[int, str]
"""The second of a pickup, and the trip's body."""


class TooManyTripsError(Exception):
    """More trips than can be merged."""


class Counted(NamedTuple):
    """Pickups by second: each second once, the trips up to and with it, and how many were left out as told twice."""

    seconds: array[int]
    trips: array[int]
    twice: int


class SortedTrips:
    """Trips in the order of their pickups, those of one second in that of their texts, equal ones once.

    The last ``run`` trips or fewer stay in memory. Those before are kept in a temporary folder, which goes when this
    object does.

    Args:
        entries: in any order; read here, to the end.
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
            self._spill(self._memory)
            self._memory = following

    def bodies(self) -> Iterator[str]:
        """The trips; may be opened again and again."""
        for (_, body), _ in groupby(self._merged()):
            yield body

    def counted(self) -> Counted:
        """How many there are in each second."""
        seconds, sums, trips, twice = array("q"), array("q"), 0, 0
        for second, entries in groupby(self._merged(), key=itemgetter(0)):
            bodies = [body for _, body in entries]
            different = len(set(bodies))
            trips, twice = trips + different, twice + len(bodies) - different
            seconds.append(second)
            sums.append(trips)
        return Counted(seconds, sums, twice)

    def _spill(self, entries: list[Entry]) -> None:
        """Write a run to a file."""
        if len(self._files) == MOST_RUNS:
            raise TooManyTripsError
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="rheostat-trips-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        file = self._folder / f"{len(self._files)}"
        with file.open("w", encoding="utf-8") as out:
            out.writelines(f"{second}\t{body}\n" for second, body in entries)
        self._files.append(file)

    def _merged(self) -> Iterator[Entry]:
        with ExitStack() as stack:
            runs = [_read(stack.enter_context(file.open(encoding="utf-8"))) for file in self._files]
            yield from heapq.merge(self._memory, *runs)


def _read(lines: TextIO) -> Iterator[Entry]:
    for line in lines:
        second, _, body = line.rstrip("\n").partition("\t")
        yield int(second), body
