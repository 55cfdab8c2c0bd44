"""An archive in memory: for simulations and tests, and over another one that must stay as it is."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from rheostat.errors import Fault, InputError, JournalError
from rheostat.files import reason_of, refuse_special, replace_file

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rheostat.learn.slow_records import Sample


class MemorySampleStore:
    """Rows in memory, over those of an archive that is only read.

    A replay decides with what the run had written, and writes nothing itself: what it puts goes before what is below.

    Args:
        below: where rows are that were not put here; None: there are none.
    """

    def __init__(self, below: ParquetSampleStore | None = None) -> None:
        self._below = below
        self._rows: dict[int, Sample] = {}

    def put(self, first: int, rows: Sequence[Sample]) -> None:
        """Keep rows ``first``, ``first`` + 1, …; in place of those that were there."""
        self._rows.update(enumerate(rows, first))

    def read(self, count: int, most: int | None = None) -> Sequence[Sample]:
        """The first ``count`` rows, or the newest ``most`` of these, oldest first; without those that are not there."""
        first = 0 if most is None else max(0, count - most)
        below = (None,) * (count - first) if self._below is None else self._below.held(first, count)
        rows = (self._rows.get(number, row) for number, row in enumerate(below, first))
        return [row for row in rows if row is not None]


# The archive of a running job: a folder of Parquet files, each a run of rows in a row.


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


class ParquetSampleStore:
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


# Samples as Parquet, and back. The only file of this room that knows pyarrow, and only once it is called.


_GROUP = 10_000
"""Rows that are read together: whoever wants the last thousand of a million need not read them all."""


def table_of(rows: Sequence[Sample], processed: Sequence[float | None] | None = None) -> pa.Table:
    """A row for each sample; with the column ``processed`` if that is given."""
    import pyarrow as pa

    columns = {
        "at": pa.array([row.at for row in rows], pa.float64()),
        "workload": pa.array([list(row.workload) for row in rows], pa.list_(pa.float64())),
        "executors": pa.array([row.executors for row in rows], pa.int64()),
        "slow": pa.array([row.slow for row in rows], pa.float64()),
    }
    if processed is not None:
        columns["processed"] = pa.array(processed, pa.float64())
    return pa.table(columns)


def write_table(path: Path, table: pa.Table) -> None:
    """Put a table in the place of a file, as a whole, with a checksum for every page.

    Raises:
        OSError: it cannot be written; what was there before still is.
    """
    import pyarrow.parquet as pq

    def write(file: BinaryIO) -> None:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True, row_group_size=_GROUP)

    replace_file(path, write)


def read_table(path: Path, first: int = 0, end: int | None = None) -> pa.Table:
    """Rows ``first`` … ``end`` − 1 of a Parquet file, its checksums verified; as many of them as there are.

    Raises:
        InputError: it cannot be read, is no Parquet, or is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        refuse_special(path)
        with pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
            return _some(file, first, file.metadata.num_rows if end is None else end)
    except (OSError, pa.ArrowException) as error:
        reason = reason_of(error).partition("\n")[0]
        raise InputError([Fault("file", str(path), "a whole Parquet file", f"it cannot be read: {reason}")]) from error


def _some(file: pq.ParquetFile, first: int, end: int) -> pa.Table:
    """Rows of an open file, from the groups that hold them."""
    groups, before, passed = [], 0, 0
    for number in range(file.num_row_groups):
        rows = file.metadata.row_group(number).num_rows
        if passed < end and first < passed + rows:
            groups.append(number)
        elif not groups:
            before += rows
        passed += rows
    found = file.read_row_groups(groups, use_threads=False)  # small files: handing them to threads takes longer
    return found.slice(max(0, first - before), max(0, end - max(first, before)))


def laid_over(below: pa.Table, above: pa.Table, first: int) -> pa.Table:
    """One table in the place of another's rows from ``first`` on; that may be before its first row."""
    import pyarrow as pa

    end = min(below.num_rows, max(0, first + above.num_rows))
    return pa.concat_tables([below.slice(0, max(0, first)), above, below.slice(end)])


def samples_of(table: pa.Table, where: str) -> list[Sample]:
    """The samples in a table. Whether rates and shares are finite is for those to ask who learn from them.

    Args:
        table: with the columns above; others are not looked at.
        where: what it was read from, for messages.

    Raises:
        InputError: columns are missing, hold something else than numbers, or have gaps: all of it.
    """
    import pyarrow as pa

    from rheostat.learn.slow_records import Sample

    faults: list[Fault] = []
    at, slow = (_numbers_in(table, name, pa.float64(), where, faults) for name in ("at", "slow"))
    executors = _numbers_in(table, "executors", pa.int64(), where, faults)
    workload = _workload(table, where, faults)
    if faults:
        raise InputError(faults)
    columns = zip(at, workload, executors, slow, strict=True)
    return [Sample(when, tuple(rates), count, share) for when, rates, count, share in columns]


def processed_in(table: pa.Table) -> list[float | None]:
    """What was processed in each row; None where that is not known, or is no number."""
    import pyarrow as pa

    column = table["processed"] if "processed" in table.column_names else None
    if column is None or not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return [None] * table.num_rows
    rates: list[float | None] = column.cast(pa.float64()).to_pylist()
    return rates


def _numbers_in(table: pa.Table, name: str, kind: pa.DataType, where: str, faults: list[Fault]) -> list[Any]:
    """The values of a column as numbers of a kind; empty, and a fault more, where they are not that."""
    if name not in table.column_names:
        faults.append(_fault(name, f"columns {', '.join(table.column_names) or '(none)'}", where, "it is missing"))
        return []
    column = table[name]
    return column.cast(kind).to_pylist() if _are_numbers(column, name, kind, where, faults) else []


def _are_numbers(column: Any, name: str, kind: pa.DataType, where: str, faults: list[Fault]) -> bool:
    import pyarrow as pa

    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        faults.append(_fault(name, str(column.type), where, "it holds no numbers"))
    elif column.null_count:
        faults.append(_fault(name, f"{column.null_count} of {len(column)} values missing", where, "it has gaps"))
    else:
        try:
            column.cast(kind)
        except pa.ArrowInvalid as error:
            faults.append(_fault(name, str(column.type), where, f"it is not all {kind}: {error}"))
        else:
            return True
    return False


def _workload(table: pa.Table, where: str, faults: list[Fault]) -> list[list[float]]:
    """For each row the rates of its topics."""
    import pyarrow as pa

    column = table["workload"] if "workload" in table.column_names else None
    if column is None or not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        return [[rate] for rate in _numbers_in(table, "workload", pa.float64(), where, faults)]
    lists = column.combine_chunks()
    if lists.null_count:
        given = f"{lists.null_count} of {len(lists)} values missing"
        faults.append(_fault("workload", given, where, "it has gaps"))
    elif _are_numbers(lists.flatten(), "workload", pa.float64(), where, faults):
        rates: list[list[float]] = lists.cast(pa.list_(pa.float64())).to_pylist()
        return rates
    return []


def _fault(column: str, given: str, where: str, message: str) -> Fault:
    allowed = "a whole number in each row" if column == "executors" else "a number in each row"
    return Fault(column, given, allowed, f"{where}: {message}")
