"""The idempotent sink of the pipelines, and the count of what got through it.

Each batch is written to ``OUT/batch=ID`` in Spark's overwrite mode: a batch that is run again, after a crash between
its writing and its commit, replaces itself. A folder without ``_SUCCESS`` was being written when the query died; it
does not count, and the restart writes it again.

The click-fraud query runs in update mode, so a batch holds the rows that changed, each with its totals so far. The
newest batch therefore has the last word on a (kind, key, window): :func:`verify`. The taxi query writes each record
once: :func:`verify_records`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheostat.errors import Fault, InputError
from rheostat.load.checksum import IdChecksum

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


_GROUP = ["kind", "key", "window_start"]
_SUMS = ["records", "id_low", "id_high", "mixed_low", "mixed_high"]


def writer(out: str) -> Callable[[DataFrame, int], None]:
    """The function for ``foreachBatch``."""

    def write(rows: DataFrame, batch_id: int) -> None:
        rows.write.mode("overwrite").parquet(f"{out}/batch={batch_id}")

    return write


@dataclass(frozen=True, slots=True)
class SinkTotals:
    """What got through a sink.

    Attributes:
        by_kind: the checksum over the record ids, once for each kind of row. Each record has a row of each kind.
        batches: complete batches in the sink.
        rows: different (kind, key, window).
        incomplete: folders of batches that were being written when the query died, and were not written again.
    """

    by_kind: Mapping[str, IdChecksum]
    batches: int
    rows: int
    incomplete: tuple[str, ...] = ()

    @property
    def checksum(self) -> IdChecksum | None:
        """The checksum on which all kinds agree; None if they do not, or if there is no record."""
        different = set(self.by_kind.values())
        return different.pop() if len(different) == 1 else None


def verify(out: str | Path) -> SinkTotals:
    """Count what is in a sink; needs no Spark.

    Records that came later than the watermark allows are not in it: ``numRowsDroppedByWatermark`` of the query's
    progress events, summed over its batches, says how many rows those were (one for each kind).

    Raises:
        InputError: there is no such folder.
    """
    complete, incomplete = _batches(out)
    newest = _newest_rows(complete)
    return SinkTotals(by_kind=_by_kind(newest), batches=len(complete), rows=len(newest), incomplete=incomplete)


@dataclass(frozen=True, slots=True)
class RecordTotals:
    """What got through a sink of single records.

    Attributes:
        checksum: over the record ids; one that is there twice counts twice.
        batches, incomplete: as in :class:`SinkTotals`.
    """

    checksum: IdChecksum
    batches: int
    incomplete: tuple[str, ...] = ()


def verify_records(out: str | Path) -> RecordTotals:
    """Count what is in a sink that holds records, by their column ``id``; needs no Spark.

    Raises:
        InputError: there is no such folder.
    """
    complete, incomplete = _batches(out)
    checksum = IdChecksum()
    for batch in complete:
        for table in _tables(batch, ["id"]):
            checksum = checksum.add_many(table.column("id").to_numpy())
    return RecordTotals(checksum, len(complete), incomplete)


def _batches(out: str | Path) -> tuple[list[Path], tuple[str, ...]]:
    """Complete batches in order, and the names of the others."""
    folder = Path(out)
    if not folder.is_dir():
        raise InputError([Fault("out", str(out), "the folder of a sink", "there is no such folder")])
    found = sorted(folder.glob("batch=*"), key=lambda batch: int(batch.name.removeprefix("batch=")))
    complete = [batch for batch in found if (batch / "_SUCCESS").exists()]
    return complete, tuple(batch.name for batch in found if batch not in complete)


def _newest_rows(batches: list[Path]) -> dict[tuple[Any, ...], tuple[int, ...]]:
    """Totals by (kind, key, window); later batches replace earlier ones."""
    newest: dict[tuple[Any, ...], tuple[int, ...]] = {}
    for batch in batches:
        for table in _tables(batch, _GROUP + _SUMS):
            keys = zip(*(table.column(name).to_pylist() for name in _GROUP), strict=True)
            totals = zip(*(table.column(name).to_pylist() for name in _SUMS), strict=True)
            newest.update(zip(keys, totals, strict=True))
    return newest


def _tables(batch: Path, columns: list[str]) -> Iterator[pa.Table]:
    from pyarrow import parquet

    for file in batch.glob("*.parquet"):
        yield parquet.ParquetFile(file).read(columns=columns)


def _by_kind(rows: Mapping[tuple[Any, ...], tuple[int, ...]]) -> dict[str, IdChecksum]:
    sums: dict[str, list[int]] = {}
    for (kind, _, _), totals in rows.items():
        so_far = sums.setdefault(kind, [0] * len(_SUMS))
        sums[kind] = [a + b for a, b in zip(so_far, totals, strict=True)]
    return {kind: _checksum(*totals) for kind, totals in sorted(sums.items())}


def _checksum(records: int, id_low: int, id_high: int, mixed_low: int, mixed_high: int) -> IdChecksum:
    return IdChecksum(
        count=records,
        total=(id_high << 32) + id_low,
        mixed=((mixed_high << 32) + mixed_low) % 2**64,
    )
