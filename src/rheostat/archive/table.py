"""Samples as Parquet, and back. The only file of this room that knows pyarrow, and only once it is called.

Columns: ``at`` (s of the epoch), ``workload`` (records/s of each topic, a list; a plain number is a list of one),
``executors``, ``slow`` (slow records, a share); and in histories ``processed`` (records/s committed, may have gaps).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rheostat.errors import Fault, InputError
from rheostat.files import reason_of, refuse_special, replace_file

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rheostat.learn import Sample

__all__ = ["laid_over", "processed_in", "read_table", "samples_of", "table_of", "write_table"]

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

    from rheostat.learn import Sample

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
