"""The application KNN of S3's evaluation, in PySpark: the nearest neighbours of each point. One task, source and sink.

Input: JSON records ``{"id", "x", "y", "z"}``, such as the payload ``points`` of a scenario, from a topic of two
partitions. Output: each record with ``neighbours``, the indices of the k nearest among fixed reference points, nearest
first, and their Euclidean ``distances``. The document does not say among what neighbours are sought; a fixed set keeps
the cost of a record constant.

Each record is written once, with its id, for :func:`~rheostat.pipelines.sink.verify_records`. Records without an id or
a coordinate are left out and counted as ``malformed`` in the ``observedMetrics`` of the progress events.

As a program: ``python -m rheostat.pipelines.knn --help``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from rheostat.config.shedding import SheddingGraph, Sink, declare_shedding
from rheostat.pipelines.click_fraud import Stage, make_wait
from rheostat.pipelines.running import KnnSettings, SheddingPipeline, base_conf, read_stream

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from rheostat.spark.shedding import Shedding

PARTITIONS = 2
"""Of the topic, as in S3, whatever the parallelism."""

_AXES = ("x", "y", "z")
_JSON = "id LONG, x DOUBLE, y DOUBLE, z DOUBLE"
_AT_ONCE = 256
"""Points whose distances to all reference points are in memory at the same time."""


def declare(settings: KnnSettings) -> SheddingGraph:
    """Where records may be dropped: by the reader."""
    return declare_shedding([Sink("knn", settings.priority, settings.accuracy)], {"points": ["knn"]})


def reference_points(number: int, seed: int) -> NDArray[np.float64]:
    """Points in the unit cube, number × 3."""
    import numpy as np

    return np.random.default_rng(seed).random((number, 3))


def nearest(points: NDArray[np.float64], references: NDArray[np.float64], k: int) -> tuple[NDArray[np.int64], ...]:
    """Indices of the k nearest references of each point, nearest first, and their distances; both points × k.

    >>> import numpy as np
    >>> found = nearest(np.array([[0.0, 0.0, 0.1]]), np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [9.0, 9.0, 9.0]]), 2)
    >>> [each.tolist() for each in found]
    [[[1, 0]], [[0.1, 0.9]]]
    """
    import numpy as np

    distances = np.sqrt(((points[:, None, :] - references[None, :, :]) ** 2).sum(axis=2))
    indices = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return indices, np.take_along_axis(distances, indices, axis=1)


def make_neighbours(settings: KnnSettings) -> Stage:
    """A stage that adds ``neighbours`` and ``distances``, after ``lookup_ms`` and ``work_us`` for each record."""
    lookup_ms, work_us, k = settings.lookup_ms, settings.work_us, settings.k
    number, seed = settings.references, settings.seed

    def find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        references = reference_points(number, seed)
        for batch in make_wait(lookup_ms, work_us)(batches):
            for begin in range(0, batch.num_rows, _AT_ONCE):
                yield _add_neighbours(batch.slice(begin, _AT_ONCE), references, k)

    return find


def _add_neighbours(batch: pa.RecordBatch, references: NDArray[np.float64], k: int) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa

    found = nearest(np.column_stack([batch.column(axis).to_numpy() for axis in _AXES]), references, k)
    ends = pa.array(range(0, k * batch.num_rows + 1, k), pa.int32())
    lists = [pa.ListArray.from_arrays(ends, pa.array(each.ravel())) for each in found]
    columns = [*batch.columns, *lists]
    return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, "neighbours", "distances"])


def build(settings: KnnSettings, spark: SparkSession, shedding: Shedding | None) -> Mapping[str, DataFrame]:
    """The rows of the sink ``knn``."""
    from pyspark.sql import functions as F  # noqa: N812

    options = None if shedding is None else shedding.source_options("points")
    parsed = read_stream(settings, spark, options).select(F.from_json("value", _JSON).alias("r")).select("r.*")
    whole = F.isnotnull("id") & F.isnotnull("x") & F.isnotnull("y") & F.isnotnull("z")
    observed = parsed.observe("records", F.count(F.lit(1)).alias("records"), F.count_if(~whole).alias("malformed"))
    found = f"{_JSON}, neighbours ARRAY<LONG>, distances ARRAY<DOUBLE>"
    return {"knn": observed.filter(whole).mapInArrow(make_neighbours(settings), found)}


PIPELINE = SheddingPipeline(
    "knn", "Find the nearest neighbours of points.", KnnSettings, lambda _: base_conf(), graph=declare, build=build
)
start_all, run, session, main = PIPELINE.start_all, PIPELINE.run, PIPELINE.session, PIPELINE.main

if __name__ == "__main__":
    sys.exit(main())
