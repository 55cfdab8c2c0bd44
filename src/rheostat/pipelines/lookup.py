"""The stage of a pipeline that runs in Python: each record waits for its look-up.

The wait stands for a look-up in a service on the same machine (a list of blocked addresses, say): time passes and
hardly any processor time, so that more executors carry more records even where they share two cores. It is the same
for each record and part of the settings, so what it does to the capacity can be said: one slot carries at most
1000 ÷ ``lookup_ms`` records/s.

In the click-fraud pipeline the stage also works out what the sink needs to prove that no record was lost or doubled.
Everything is in halves of 32 bits, held in 64: sums of them stay exact for 2³¹ records, and Spark's ANSI mode has
nothing to trip over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from rheostat.checksum import splitmix64_array

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

__all__ = ["HALVES", "halves", "looked_up", "waited"]

Stage = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]
"""A function for ``mapInArrow``."""

HALVES = ("id_low", "id_high", "mixed_low", "mixed_high")
"""Columns that the stage adds: id = id_high · 2³² + id_low (id_high is signed), and likewise for its
:func:`~rheostat.checksum.splitmix64`."""


def halves(ids: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.int64]]:
    """The columns :data:`HALVES` for these ids."""
    import numpy as np

    mix = splitmix64_array(ids)
    return {
        "id_low": ids & 0xFFFFFFFF,
        "id_high": ids >> 32,
        "mixed_low": (mix & np.uint64(0xFFFFFFFF)).view(np.int64),
        "mixed_high": (mix >> np.uint64(32)).view(np.int64),
    }


def waited(lookup_ms: float) -> Stage:
    """Waits ``lookup_ms`` for each record, and hands it on as it is."""

    def stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.num_rows * lookup_ms / 1000)
            yield batch

    return stage


def looked_up(lookup_ms: float) -> Stage:
    """Waits ``lookup_ms`` for each record, and adds :data:`HALVES` by ``id``."""

    def stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(_with_halves, waited(lookup_ms)(batches))

    return stage


def _with_halves(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    added = halves(batch.column("id").to_numpy())
    kept = {name: batch.column(name) for name in batch.schema.names if name != "id"}
    return pa.RecordBatch.from_pydict(kept | {name: pa.array(column) for name, column in added.items()})
