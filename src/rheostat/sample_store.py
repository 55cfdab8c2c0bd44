"""Training samples: numbered rows in memory, and in a folder of Parquet files."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from rheostat.errors import Fault, InputError, JournalError
from rheostat.files import reason_of, refuse_special, replace_file

if TYPE_CHECKING:
    import pyarrow as pa

    from rheostat.learn.slow_records import Sample

_NAME = re.compile(r"rows-(\d{9,})-(\d{9,})-(\d{6,})\.parquet")
_MERGE_RATIO = 2
"""A file of at most so many times the new rows is merged with them."""
_GROUP_ROWS = 10_000
"""Rows of a Parquet row group. To read the last thousand of a million rows, not all are read."""

_log = logging.getLogger("rheostat.sample_store")


class MemorySampleStore:
    """Rows in memory, over those of a store on disk that is only read.

    A replay decides with the samples of the run, but writes nothing: its own rows hide those below.
    """

    def __init__(self, below: ParquetSampleStore | None = None) -> None:
        self._below = below
        self._rows: dict[int, Sample] = {}

    def put(self, first: int, rows: Sequence[Sample]) -> None:
        """Store rows ``first``, ``first`` + 1, …, replacing those that were there."""
        self._rows.update(enumerate(rows, first))

    def read(self, count: int, most: int | None = None) -> Sequence[Sample]:
        """The first ``count`` rows, or the newest ``most`` of these, oldest first; missing rows are skipped."""
        first = 0 if most is None else max(0, count - most)
        below = (None,) * (count - first) if self._below is None else self._below.held(first, count)
        rows = (self._rows.get(number, row) for number, row in enumerate(below, first))
        return [row for row in rows if row is not None]


class _Part(NamedTuple):
    """A file, and the range of rows in its name. Where ranges overlap, the highest serial number wins."""

    serial: int
    first: int
    end: int
    path: Path

    def is_within(self, first: int, end: int) -> bool:
        return first <= self.first and self.end <= end


class ParquetSampleStore:
    """Rows in a folder of Parquet files, each a range of rows. One process writes; others may read.

    A damaged or missing file costs its own rows and no others: they are skipped, and ``report`` is told once.
    The folder belongs to this job alone; it is created with the first rows.
    """

    def __init__(self, folder: str | Path, report: Callable[[str], None] = _log.warning) -> None:
        self.folder = Path(folder)
        self._report = report
        self._reported: set[Path] = set()
        self._is_clean = False

    def put(self, first: int, rows: Sequence[Sample]) -> None:
        """Store rows ``first``, ``first`` + 1, …, replacing those that were there; on disk when this returns.

        Raises:
            JournalError: they are not on disk; what was there before still is.
        """
        try:
            if rows:
                self._remove_leftovers()
                self._put(first, first + len(rows), list(rows))
        except OSError as error:
            message = f"the sample store in {self.folder} cannot be written: {error}"
            raise JournalError(message) from error

    def read(self, count: int, most: int | None = None) -> Sequence[Sample]:
        """The first ``count`` rows, or the newest ``most`` of these, oldest first; lost rows are skipped."""
        first = 0 if most is None else max(0, count - most)
        return [row for row in self.held(first, count) if row is not None]

    def held(self, first: int, end: int) -> list[Sample | None]:
        """Rows ``first`` … ``end`` − 1, each in its place; None for one that is missing or cannot be read."""
        rows: list[Sample | None] = [None] * max(0, end - first)
        for part in self._parts():
            low, high = max(first, part.first), min(end, part.end)
            some = self._read(part, low, high) if low < high else None
            if some is not None:
                rows[low - first : high - first] = some
        return rows

    def end(self) -> int:
        """One more than the highest row number; 0: there are no rows."""
        return max((part.end for part in self._parts()), default=0)

    def _put(self, first: int, end: int, rows: list[Sample]) -> None:
        parts = self._parts()
        if any(part.first < end and first < part.end for part in parts) and self.held(first, end) == rows:
            return
        for part in reversed(parts):
            if part.is_within(first, end):
                continue
            is_adjacent = part.first <= end and first <= part.end
            is_small = part.end - part.first <= _MERGE_RATIO * len(rows)
            below = self._read(part, part.first, part.end) if is_adjacent and is_small else None
            if below is None:
                break
            rows = below[: max(0, first - part.first)] + rows + below[max(0, end - part.first) :]
            first, end = min(first, part.first), max(end, part.end)
        serial = 1 + max((part.serial for part in parts), default=0)
        write_table(self.folder / f"rows-{first:09}-{end:09}-{serial:06}.parquet", table_of(rows))
        for part in parts:
            if part.is_within(first, end):
                part.path.unlink(missing_ok=True)

    def _parts(self) -> list[_Part]:
        """The files, in the order of their serial numbers."""
        names = self.folder.iterdir() if self.folder.is_dir() else ()
        matches = ((path, _NAME.fullmatch(path.name)) for path in names)
        parts = (_Part(int(match[3]), int(match[1]), int(match[2]), path) for path, match in matches if match)
        return sorted(part for part in parts if part.first < part.end)

    def _read(self, part: _Part, first: int, end: int) -> list[Sample] | None:
        """Rows ``first`` … ``end`` − 1 of a file; None if they cannot be read, which is reported once."""
        try:
            rows = samples_of(read_table(part.path, first - part.first, end - part.first), str(part.path))
            if len(rows) == end - first:
                return rows
            problem = f"{part.path}: it holds fewer rows than its name says"
        except InputError as error:
            problem = str(error)
        if part.path not in self._reported:
            self._reported.add(part.path)
            self._report(f"samples {part.first} to {part.end - 1} are left out: {problem}")
        return None

    def _remove_leftovers(self) -> None:
        """Once: remove what a crash has left, torn files and files whose rows a newer one holds."""
        if self._is_clean:
            return
        for torn in self.folder.glob(".rows-*"):
            torn.unlink(missing_ok=True)
        parts = self._parts()
        for place, part in enumerate(parts):
            newer = (other for other in parts[place + 1 :] if part.is_within(other.first, other.end))
            if any(self._read(other, other.first, other.end) is not None for other in newer):
                part.path.unlink(missing_ok=True)
        self._is_clean = True


# Samples as Parquet. pyarrow is an extra: it is imported only when one of these functions is called.


def table_of(rows: Sequence[Sample], processed: Sequence[float | None] | None = None) -> pa.Table:
    """One row per sample; with the column ``processed`` if that is given."""
    import pyarrow as pa

    columns = {
        "at": pa.array([row.at for row in rows], pa.float64()),
        "workload": pa.array([row.workload for row in rows], pa.list_(pa.float64())),
        "executors": pa.array([row.executors for row in rows], pa.int64()),
        "slow": pa.array([row.slow for row in rows], pa.float64()),
    }
    if processed is not None:
        columns["processed"] = pa.array(processed, pa.float64())
    return pa.table(columns)


def write_table(path: Path, table: pa.Table) -> None:
    """Create or replace a Parquet file atomically, with a checksum for every page.

    Raises:
        OSError: it cannot be written; what was there before still is.
    """
    import pyarrow.parquet as pq

    def write(file: BinaryIO) -> None:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True, row_group_size=_GROUP_ROWS)

    replace_file(path, write)


def read_table(path: Path, first: int = 0, end: int | None = None) -> pa.Table:
    """Rows ``first`` … ``end`` − 1 of a Parquet file, as many as there are; checksums are verified.

    Raises:
        InputError: it cannot be read, is not Parquet, or is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        refuse_special(path)
        with pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
            sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
            starts = list(accumulate(sizes, initial=0))
            end = starts[-1] if end is None else end
            groups = [number for number in range(len(sizes)) if starts[number] < end and first < starts[number + 1]]
            table = file.read_row_groups(groups, use_threads=False)  # for small files, starting threads takes longer
            return table.slice(first - starts[groups[0]], end - first) if groups else table
    except (OSError, pa.ArrowException) as error:
        reason = reason_of(error).partition("\n")[0]
        raise InputError([Fault("file", str(path), "a whole Parquet file", f"it cannot be read: {reason}")]) from error


def samples_of(table: pa.Table, where: str) -> list[Sample]:
    """The samples in a table with the columns of :func:`table_of`. Rates may be NaN or infinite; training checks that.

    ``where`` is what it was read from, for messages.

    Raises:
        InputError: columns are missing, are not numeric, or have gaps. All problems are listed.
    """
    from rheostat.learn.slow_records import Sample

    faults: list[Fault] = []
    at, slow, executors, workload = (
        _read_numbers(table, name, where, faults) for name in ("at", "slow", "executors", "workload")
    )
    if faults:
        raise InputError(faults)
    rates = (tuple(rates) if isinstance(rates, list) else (rates,) for rates in workload)
    return list(map(Sample, at, rates, executors, slow))


def _read_numbers(table: pa.Table, name: str, where: str, faults: list[Fault]) -> list[Any]:
    """The values of a column, or their lists in ``workload``; empty, with a fault added, if they are not numbers."""
    import pyarrow as pa

    def fail(given: str, message: str) -> list[Any]:
        allowed = "a whole number in each row" if name == "executors" else "a number in each row"
        faults.append(Fault(name, given, allowed, f"{where}: {message}"))
        return []

    if name not in table.column_names:
        return fail(f"columns {', '.join(table.column_names) or '(none)'}", "it is missing")
    column = flat = table[name].combine_chunks()
    kind = pa.int64() if name == "executors" else pa.float64()
    if name == "workload" and (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        flat, kind = column.flatten(), pa.list_(kind)
    if not (pa.types.is_integer(flat.type) or pa.types.is_floating(flat.type)):
        return fail(str(flat.type), "it holds no numbers")
    for values in (column, flat):
        if values.null_count:
            return fail(f"{values.null_count} of {len(values)} values missing", "it has gaps")
    try:
        return list(column.cast(kind).to_pylist())
    except pa.ArrowInvalid as error:
        return fail(str(flat.type), f"it is not all {kind}: {error}")


def processed_in(table: pa.Table) -> list[float | None]:
    """The column ``processed``; None in every row if it is missing or not numeric."""
    import pyarrow as pa

    column = table["processed"] if "processed" in table.column_names else None
    if column is None or not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return [None] * table.num_rows
    rates: list[float | None] = column.cast(pa.float64()).to_pylist()
    return rates
