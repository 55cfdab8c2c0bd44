"""The embedded log as a streaming source of Spark, for where no broker can be had: format ``rheostat_log``.

::

    register(spark)
    spark.readStream.format("rheostat_log").option("path", "/data/log").option("maxOffsetsPerTrigger", 4000).load()

Rows: value STRING, partition INT, offset LONG, timestamp TIMESTAMP (of appending), topic STRING. One task for each
partition of the log that has records in the batch. Options: :func:`rheostat.spark.log_files.parse_options`.
A batch is a range of offsets and segments never change, so a batch that is run again reads the same records.
Segments are memory-mapped, and only the slice that belongs to the batch leaves the page cache.

Spark 4.2 or later: earlier Python data sources have no admission control. Executors and the driver must see the
folder under the same path, and import this package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from rheostat.errors import RheostatError
from rheostat.spark.log_files import (
    LOG_TOPIC,
    LogFolder,
    LogOptions,
    Piece,
    admit,
    offsets_from_json,
    offsets_to_json,
    parse_options,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


FORMAT = "rheostat_log"
_SCHEMA = "value STRING, partition INT, offset LONG, timestamp TIMESTAMP, topic STRING"
_ROWS_PER_ARROW_BATCH = 16_384


def register(spark: SparkSession) -> None:
    """Make ``rheostat_log`` known to a session. May be called more than once."""
    spark.dataSource.register(LogSource)


class LogSource(DataSource):
    """The data source; Spark makes one for each ``load()`` and pickles it to where it plans and reads."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        """The columns. Called at ``load()``, so bad options and a missing folder are reported here."""
        LogFolder(parse_options({**self.options}).path)
        return _SCHEMA

    def streamReader(self, schema: StructType) -> LogStreamReader:  # noqa: ARG002, N802 (Spark's)
        return LogStreamReader(parse_options({**self.options}))


@dataclass(frozen=True)
class LogInputPartition(InputPartition):
    """What one task reads: pieces of one partition of the log, in order."""

    path: str
    partition: int
    pieces: tuple[Piece, ...]


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in one long-lived process beside the driver, and reads them in the executors.

    Offsets are those of :func:`rheostat.spark.log_files.offsets_to_json`.
    """

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._log = LogFolder(options.path)
        self._end: dict[int, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's)
        """The start of a query without a checkpoint."""
        return offsets_to_json(self._log.latest() if self._options.starting == "latest" else self._log.earliest())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's)
        return ReadAllAvailable() if self._options.cap is None else ReadMaxRows(self._options.cap)

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's)
        """The end of the next batch."""
        cap = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        latest = self._log.latest() if self._end is None else self._end
        return offsets_to_json(admit(self._positions(start), latest, cap))

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's)
        """The end of the log, for ``latestOffset`` in progress events."""
        return offsets_to_json(self._log.latest())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's)
        """Ignore what is appended from now on."""
        self._end = self._log.latest()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """One task for each partition that has records between the offsets."""
        first, last = self._positions(start), self._positions(end)
        return [
            LogInputPartition(self._log.path, index, self._log.pieces(index, first[index], last[index]))
            for index in range(self._log.partitions)
            if last[index] > first[index]
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, LogInputPartition):
            message = f"not a partition of the log: {partition!r}"
            raise TypeError(message)
        for piece in partition.pieces:
            yield from _read_piece(Path(partition.path, piece.file), piece, partition.partition)

    def _positions(self, offset: Mapping[str, Any]) -> dict[int, int]:
        return offsets_from_json(offset, self._log.partitions)


def _read_piece(file: Path, piece: Piece, partition: int) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    with pa.memory_map(str(file)) as mapped:
        segment = pa.ipc.open_file(mapped)
        position = piece.base
        for index in range(segment.num_record_batches):
            batch = segment.get_batch(index)
            low, high = max(piece.start, position), min(piece.end, position + batch.num_rows)
            for first in range(low, high, _ROWS_PER_ARROW_BATCH):
                rows = batch.slice(first - position, min(_ROWS_PER_ARROW_BATCH, high - first))
                yield _as_rows(rows, partition, first)
            position += batch.num_rows
    if position < piece.end:
        message = f"{file} holds {position - piece.base} records, its name promises more"
        raise RheostatError(message)


def _as_rows(batch: pa.RecordBatch, partition: int, first: int) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa

    rows = batch.num_rows
    columns = {
        "value": batch.column("value").cast(pa.string()),
        "partition": pa.array(np.full(rows, partition, dtype=np.int32)),
        "offset": pa.array(np.arange(first, first + rows, dtype=np.int64)),
        "timestamp": batch.column("timestamp").cast(pa.timestamp("us", tz="UTC")),
        "topic": pa.repeat(pa.scalar(LOG_TOPIC), rows),
    }
    return pa.RecordBatch.from_pydict(columns)
