"""The archive of a running job: a folder of Parquet files, each a run of rows in a row.

A file is named ``rows-FIRST-END-SERIAL.parquet`` and holds the rows FIRST … END − 1. Where two files hold the same
row, the one with the greater serial counts: that is how rows are put once more, and why a crash at any point leaves
the old rows or the new ones. A file is written under another name, forced to disk and then renamed.

**Few files.** What is put is written together with the newest files as long as these have at most twice as many rows
as what follows them. So each file has more than twice as many as the next: a million rows that came in thousands are
in seven files at most, and a row was written again six times on average.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rheostat.archive.table import laid_over, read_table, samples_of, table_of, write_table
from rheostat.errors import InputError, JournalError

if TYPE_CHECKING:
    import pyarrow as pa

    from rheostat.learn import Sample

__all__ = ["ParquetArchive"]

_NAME = re.compile(r"rows-(\d{9,})-(\d{9,})-(\d{6,})\.parquet")
_TORN = ".rows-*"
_RATIO = 2
_log = logging.getLogger("rheostat.archive")


class _Part(NamedTuple):
    """A file, and the rows that it says it has."""

    serial: int
    first: int
    end: int
    path: Path

    def within(self, first: int, end: int) -> bool:
        return first <= self.first and self.end <= end


class ParquetArchive:
    """Rows in a folder, which is made with the first of them. One process writes; others may read.

    A file that is damaged or was taken away costs its own rows and no others: they are left out, which is told once.

    Args:
        folder: of this job alone.
        report: is told what is wrong with a file.
    """

    def __init__(self, folder: str | Path, report: Callable[[str], None] = _log.warning) -> None:
        self.folder = Path(folder)
        self._report = report
        self._told: set[Path] = set()
        self._tidy = False

    def put(self, first: int, rows: Sequence[Sample]) -> None:
        """Keep rows ``first``, ``first`` + 1, … in place of those that were there; on disk when this returns.

        To put the same rows again changes nothing.

        Raises:
            JournalError: they are not on disk; what was there before still is.
        """
        if not rows:
            return
        try:
            self._put(first, list(rows))
        except OSError as error:
            message = f"the archive in {self.folder} cannot be written: {error}"
            raise JournalError(message) from error

    def read(self, count: int, most: int | None = None) -> Sequence[Sample]:
        """The first ``count`` rows, or the newest ``most`` of these, oldest first; without those that were lost."""
        first = 0 if most is None else max(0, count - most)
        return [row for row in self.held(first, count) if row is not None]

    def held(self, first: int, end: int) -> list[Sample | None]:
        """Rows ``first`` … ``end`` − 1, each in its place; None for one that is not there or cannot be read."""
        rows: list[Sample | None] = [None] * max(0, end - first)
        for part in self._parts():
            low, high = max(first, part.first), min(end, part.end)
            found = self._read(part, low, high) if low < high else None
            if found is not None:
                rows[low - first : high - first] = found
        return rows

    def end(self) -> int:
        """One more than the number of the last row that was put; 0: none was."""
        return max((part.end for part in self._parts()), default=0)

    def _put(self, first: int, rows: list[Sample]) -> None:
        self._clear()
        parts = self._parts()
        end = first + len(rows)
        if any(part.first < end and first < part.end for part in parts) and self.held(first, end) == rows:
            return
        first, table = self._with_newest(parts, first, table_of(rows))
        end, serial = first + table.num_rows, 1 + max((part.serial for part in parts), default=0)
        write_table(self.folder / f"rows-{first:09}-{end:09}-{serial:06}.parquet", table)
        for part in parts:
            if part.within(first, end):
                part.path.unlink(missing_ok=True)

    def _with_newest(self, parts: Sequence[_Part], first: int, rows: pa.Table) -> tuple[int, pa.Table]:
        """The rows together with those of the newest files, as far as these are small and have no gap to them."""
        for part in reversed(parts):
            end = first + rows.num_rows
            if part.within(first, end):
                continue
            near = part.first <= end and first <= part.end
            small = part.end - part.first <= _RATIO * rows.num_rows
            found = self._whole(part) if near and small else None
            if found is None:
                break
            first, rows = min(first, part.first), laid_over(found, rows, first - part.first)
        return first, rows

    def _parts(self) -> list[_Part]:
        """The files, in the order of their serials."""
        if not self.folder.is_dir():
            return []
        named = ((path, _NAME.fullmatch(path.name)) for path in self.folder.iterdir())
        parts = (_Part(int(found[3]), int(found[1]), int(found[2]), path) for path, found in named if found)
        return sorted(part for part in parts if part.first < part.end)

    def _read(self, part: _Part, first: int, end: int) -> list[Sample] | None:
        """Rows ``first`` … ``end`` − 1 of a file; None where they cannot be read, and why is told once."""
        table = self._table(part, first, end)
        try:
            return None if table is None else samples_of(table, str(part.path))
        except InputError as error:
            self._tell(part, str(error))
            return None

    def _whole(self, part: _Part) -> pa.Table | None:
        """A file as it would be written; None where it cannot be read, and why is told once."""
        table = self._table(part, part.first, part.end)
        if table is None or table.schema == table_of(()).schema:
            return table
        self._tell(part, f"{part.path}: its columns are not those of an archive")
        return None

    def _table(self, part: _Part, first: int, end: int) -> pa.Table | None:
        try:
            table = read_table(part.path, first - part.first, end - part.first)
        except InputError as error:
            self._tell(part, str(error))
            return None
        if table.num_rows == end - first:
            return table
        self._tell(part, f"{part.path}: it holds fewer rows than its name says")
        return None

    def _tell(self, part: _Part, what: str) -> None:
        if part.path not in self._told:
            self._told.add(part.path)
            self._report(f"samples {part.first} to {part.end - 1} are left out: {what}")

    def _clear(self) -> None:
        """Once: take away what a crash has left, files cut short and files whose rows a newer one holds."""
        if self._tidy:
            return
        for torn in self.folder.glob(_TORN):
            torn.unlink(missing_ok=True)
        parts = self._parts()
        for place, part in enumerate(parts):
            newer = (other for other in parts[place + 1 :] if part.within(other.first, other.end))
            if any(self._read(other, other.first, other.end) is not None for other in newer):
                part.path.unlink(missing_ok=True)
        self._tidy = True
