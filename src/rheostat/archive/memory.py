"""An archive in memory: for simulations and tests, and over another one that must stay as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rheostat.archive.parquet import ParquetArchive

if TYPE_CHECKING:
    from rheostat.learn import Sample

__all__ = ["MemoryArchive"]


class MemoryArchive:
    """Rows in memory, over those of an archive that is only read.

    A replay decides with what the run had written, and writes nothing itself: what it puts goes before what is below.

    Args:
        below: where rows are that were not put here; None: there are none.
    """

    def __init__(self, below: ParquetArchive | None = None) -> None:
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
