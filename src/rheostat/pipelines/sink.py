"""The idempotent sink of the pipelines, and its verification by checksum.

Each batch is written to ``OUT/batch=ID`` in Spark's overwrite mode: a batch that is run again, after a crash between
its writing and its commit, replaces itself. A folder without ``_SUCCESS`` was being written when the query died; it is
not counted, and the restart writes it again.

The click-fraud query runs in update mode: a batch holds the rows that changed, each with its totals so far, and the
newest row of a (kind, key, window) counts (:func:`verify`). The taxi query writes each record once
(:func:`verify_records`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheostat.errors import Fault, InputError
from rheostat.load.payload import IdChecksum

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


_GROUP = ["kind", "key", "window_start"]
_SUMS = ["records", "id_low", "id_high", "mixed_low", "mixed_high"]


def make_writer(out: str) -> Callable[[DataFrame, int], None]:
    def write(rows: DataFrame, batch_id: int) -> None:
        rows.write.mode("overwrite").parquet(f"{out}/batch={batch_id}")

    return write


@dataclass(frozen=True, slots=True)
class SinkTotals:
    """Totals of a click-fraud sink.

    Attributes:
        by_kind: checksum of the record ids, for each kind of row. Each record has a row of each kind.
        batches: complete ones.
        rows: number of different (kind, key, window).
        incomplete: folders of batches that were being written when the query died, and were not written again.
    """

    by_kind: Mapping[str, IdChecksum]
    batches: int
    rows: int
    incomplete: tuple[str, ...] = ()

    @property
    def checksum(self) -> IdChecksum | None:
        """The checksum on which all kinds agree; None if they do not, or without records."""
        different = set(self.by_kind.values())
        return different.pop() if len(different) == 1 else None


def verify(out: str | Path) -> SinkTotals:
    """Sum up a click-fraud sink, without Spark.

    Records later than the watermark are not in it: ``numRowsDroppedByWatermark`` of the query's progress events, summed
    over its batches, is the number of their rows (one for each kind).

    Raises:
        InputError: there is no such folder.
    """
    complete, incomplete = find_batches(out)
    newest: dict[tuple[Any, ...], tuple[int, ...]] = {}
    for table in read_tables(complete, _GROUP + _SUMS):
        keys = zip(*(table.column(name).to_pylist() for name in _GROUP), strict=True)
        totals = zip(*(table.column(name).to_pylist() for name in _SUMS), strict=True)
        newest.update(zip(keys, totals, strict=True))
    sums: dict[str, list[int]] = {}
    for (kind, _, _), row in newest.items():
        so_far = sums.get(kind, [0] * len(_SUMS))
        sums[kind] = [a + b for a, b in zip(so_far, row, strict=True)]
    by_kind = {kind: _join_halves(*totals) for kind, totals in sorted(sums.items())}
    return SinkTotals(by_kind=by_kind, batches=len(complete), rows=len(newest), incomplete=incomplete)


@dataclass(frozen=True, slots=True)
class RecordTotals:
    """Totals of a sink of single records, as in :class:`SinkTotals`; duplicates count in the checksum."""

    checksum: IdChecksum
    batches: int
    incomplete: tuple[str, ...] = ()


def verify_records(out: str | Path) -> RecordTotals:
    """Sum up a sink of records, by their column ``id``, without Spark; see :func:`verify`."""
    complete, incomplete = find_batches(out)
    checksum = IdChecksum()
    for table in read_tables(complete, ["id"]):
        checksum = checksum.add_many(table.column("id").to_numpy())
    return RecordTotals(checksum, len(complete), incomplete)


def find_batches(out: str | Path) -> tuple[list[Path], tuple[str, ...]]:
    """Complete batches in order, and the names of the others."""
    folder = Path(out)
    if not folder.is_dir():
        raise InputError([Fault("out", str(out), "the folder of a sink", "there is no such folder")])
    batches = sorted(folder.glob("batch=*"), key=lambda batch: int(batch.name.removeprefix("batch=")))
    complete = [batch for batch in batches if (batch / "_SUCCESS").exists()]
    return complete, tuple(batch.name for batch in batches if batch not in complete)


def read_tables(batches: list[Path], columns: list[str]) -> Iterator[pa.Table]:
    """The files of these batches."""
    from pyarrow import parquet

    for batch in batches:
        for file in batch.glob("*.parquet"):
            yield parquet.ParquetFile(file).read(columns=columns)


def _join_halves(records: int, id_low: int, id_high: int, mixed_low: int, mixed_high: int) -> IdChecksum:
    mixed = ((mixed_high << 32) + mixed_low) % 2**64
    return IdChecksum(count=records, total=(id_high << 32) + id_low, mixed=mixed)
