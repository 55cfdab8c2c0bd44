"""Load shedding for jobs that keep Spark's own Kafka source: shares by a schedule of batch ids [ours].

::

    schedule = SheddingSchedule(shedding.graph, "/shared/shedding")
    clicks = schedule.add_limits(spark.readStream.format("kafka").options(**options).load(), "clicks")
    parsed = shedding.shed(clicks, "clicks", "parse")
    ...
    schedule.append(query, {"clicks>parse": 500_000})

Spark's own source takes no orders, so they cannot be part of its offsets. They are looked up by the id of the batch
instead, in a file that only ever gets entries for batches that have not been planned: a batch that runs again after a
crash finds what it found before.

The look-up is a scalar subquery of one row: one task reads the file once for each batch, and Spark puts the limits
into its generated code as constants. No record passes through Python.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rheostat.config.shedding import WHOLE, SheddingGraph
from rheostat.errors import Fault, InputError, RheostatError, UnavailableError, did_you_mean
from rheostat.files import replace_text
from rheostat.spark.keep import ABOVE, DRAW, IDENTITY, signed_limit
from rheostat.spark.orders import is_count, share_faults

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

SCHEDULE_SCHEMA = "rheostat.shedding-schedule/1"
AHEAD = 3
"""An entry holds from this many batches after the last one that has ended: one may run, and the next be planned."""
RETAINED = 1000
"""Batches before the last one that has ended whose entries stay. Spark can run its last 100 again, by default."""

_PLACE = ("topic", "partition", "offset")
_BATCH_ID, _QUERY_ID = "streaming.sql.batchId", "sql.streaming.queryId"
"""Local properties of the tasks of a streaming query."""

_LOG = logging.getLogger(__name__)
_NAMED: set[str] = set()
"""What this process has said in the log."""


class Entry(NamedTuple):
    """What edges keep from a batch on: d × 10⁶; an edge that is not named keeps everything."""

    first_batch: int
    keep: Mapping[str, int]


Entries = tuple[Entry, ...]


class SheddingSchedule:
    """The schedules of queries on Spark's own source: a file for each query, in a folder.

    Args:
        graph: see :func:`~rheostat.config.shedding.declare_shedding`.
        folder: that the driver can write, and executors can read under the same path.
        initial: d × 10⁶ of edges until the first entry of a query; an edge that is not named keeps everything. It is
            part of the query's code: a change of it between a crash and the restart changes the batch that runs again.

    Raises:
        InputError: every fault of ``initial``.
    """

    def __init__(self, graph: SheddingGraph, folder: str | Path, initial: Mapping[str, int] | None = None) -> None:
        self.graph, self._folder, self._initial = graph, str(Path(folder).absolute()), dict(initial or {})
        self._check(self._initial)

    def add_limits(self, rows: DataFrame, source: str) -> DataFrame:
        """The rows with the column ``rheostat``, for :class:`~rheostat.spark.shedding.Shedding`.

        Every edge is then a :meth:`~rheostat.spark.shedding.Shedding.shed`, also the first. Those that drop by value
        drop at random: a schedule has no values.

        Args:
            rows: a stream with the columns topic, partition and offset, before any aggregation.
            source: a declared source.

        Raises:
            InputError: every fault: the source is not declared, columns are missing, the rows are no stream.
        """
        from pyspark.sql import functions as F  # noqa: N812

        faults = list(self._check_rows(rows, source))
        if faults:
            raise InputError(faults)
        edges = [str(edge) for edge in self.graph.edges_from(source)]
        one = rows.sparkSession.range(0, 1, 1, 1)
        limits = one.select(_look_up_udf(self._folder, edges, self._initial)("id")).scalar()
        fields = [F.xxhash64(*_PLACE).alias(DRAW), *(limits[edge].alias(edge) for edge in edges)]
        fields += [F.lit(None).cast("double").alias(f"{edge}{ABOVE}") for edge in edges]
        return rows.withColumn(IDENTITY, F.struct(*fields))

    def append(self, query: StreamingQuery, keep: Mapping[str, int]) -> int:
        """Let edges keep other shares, from a batch on that has not been planned. One process appends to a schedule.

        Args:
            query: that was started on rows of :meth:`add_limits`.
            keep: d × 10⁶ of edges; an edge that is not named keeps everything.

        Returns:
            The first batch for which it holds.

        Raises:
            InputError: every fault: edges that are not declared, shares out of range; or the file is damaged.
            UnavailableError: no batch has ended since the query was started: which are planned is not known yet.
            OSError: the file cannot be read or written.
        """
        self._check(keep)
        path = _path(self._folder, str(query.id))
        entries = _read(path) if path.exists() else ()
        ended = _last_ended(query)
        if entries and entries[-1].keep == keep:
            return entries[-1].first_batch
        first = max(ended + AHEAD, entries[-1].first_batch if entries else 0)
        replace_text(path, _to_text((*_from_batch(entries, ended - RETAINED, first), Entry(first, dict(keep)))))
        if _last_ended(query) + 1 >= first:  # the batch may have begun before the file was there
            _LOG.warning("%s: batch %d may keep other records if it is run again: the entry came too late", path, first)
        return first

    def _check(self, keep: Mapping[str, Any]) -> None:
        known = [str(edge) for edge in self.graph.edges]
        faults = [
            Fault("keep", edge, ", ".join(known), f"this edge is not declared{did_you_mean(edge, known)}")
            for edge in keep
            if edge not in known
        ]
        faults += _check_shares(keep)
        if faults:
            raise InputError(faults)

    def _check_rows(self, rows: DataFrame, source: str) -> Iterator[Fault]:
        if source not in self.graph.sources:
            message = f"this source is not declared{did_you_mean(source, self.graph.sources)}"
            yield Fault("source", source, ", ".join(self.graph.sources), message)
        columns = ", ".join(rows.columns)
        for name in _PLACE:
            if name not in rows.columns:
                message = f"the rows have no column {name}: use them as Spark's Kafka source gives them"
                yield Fault("rows", columns, f"rows with the columns {', '.join(_PLACE)}", message)
        if IDENTITY in rows.columns:
            yield Fault("rows", columns, f"rows without the column {IDENTITY}", "they have their limits already")
        if not rows.isStreaming:
            yield Fault("rows", "no stream", "a stream", "only the batches of a stream have ids")


# The file


def parse_schedule(text: str) -> Entries:
    """Read a schedule.

    Raises:
        InputError: every fault.
    """
    try:
        given = json.loads(text)
        entries = [Entry(first, keep) for first, keep in given["entries"]]
        schema = given["schema"]
    except (ValueError, KeyError, TypeError) as error:
        allowed = '{"schema": …, "entries": [[batch, {"edge": share}], …]}'
        raise InputError([Fault("schedule", text[:80], allowed, f"it is not understood: {error!r}")]) from None
    faults = []
    if schema != SCHEDULE_SCHEMA:
        faults.append(Fault("schedule.schema", repr(schema), SCHEDULE_SCHEMA, "the schedule is of another version"))
    after = 0
    for first, keep in entries:
        if not is_count(first, after):
            allowed = f"an integer ≥ {after}"
            faults.append(Fault("schedule.entries", repr(first), allowed, "entries are in the order of their batches"))
        else:
            after = first + 1
        faults += _check_shares(keep)
    if faults:
        raise InputError(faults)
    return tuple(entries)


def _read(path: Path) -> Entries:
    return parse_schedule(path.read_text(encoding="utf-8", errors="replace"))


def keep_at(entries: Sequence[Entry], batch: int) -> Mapping[str, int] | None:
    """What edges keep in a batch; None: it comes before the first entry.

    >>> schedule = [Entry(5, {"in>out": 500_000}), Entry(9, {})]
    >>> [keep_at(schedule, batch) for batch in (4, 5, 8, 9)]
    [None, {'in>out': 500000}, {'in>out': 500000}, {}]
    """
    return next((entry.keep for entry in reversed(entries) if entry.first_batch <= batch), None)


def _from_batch(entries: Entries, batch: int, end: int) -> Entries:
    """The entries that hold from a batch on, up to another."""
    begins = [number for number, entry in enumerate(entries) if entry.first_batch <= batch]
    return tuple(entry for entry in entries[begins[-1] if begins else 0 :] if entry.first_batch < end)


def _to_text(entries: Entries) -> str:
    return json.dumps({"schema": SCHEDULE_SCHEMA, "entries": entries})


def _path(folder: str, query_id: str) -> Path:
    return Path(folder) / f"{query_id}.json"


def _check_shares(keep: object) -> list[Fault]:
    if not isinstance(keep, Mapping):
        return [Fault("keep", repr(keep), '{"edge": 0 to 1000000, …}', "the shares are not understood")]
    return share_faults("keep", keep)


def _last_ended(query: StreamingQuery) -> int:
    """The last batch that has ended, or the one after it: Spark names the next one where there was nothing to do."""
    progress: Any = query.lastProgress
    if progress is None:
        message = "no batch has ended since the query was started, so it is not known which are planned: try again"
        raise UnavailableError(message)
    return int(progress["batchId"])


# In a Python worker of Spark


def _look_up_udf(folder: str, edges: Sequence[str], initial: Mapping[str, int]) -> Any:
    """A function of Spark for the limits of the batch that runs."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import LongType, StructField, StructType

    def look_up(_: int) -> dict[str, int]:
        return find_limits(folder, edges, initial, *_running_batch())

    return F.udf(look_up, StructType([StructField(edge, LongType()) for edge in edges]), useArrow=False)


def _running_batch() -> tuple[str, int]:
    """The query and the batch of the task.

    Raises:
        RheostatError: it is none of a stream.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    query, batch = (None if context is None else context.getLocalProperty(key) for key in (_QUERY_ID, _BATCH_ID))
    if query is None or batch is None:
        message = "Spark does not tell which batch runs: limits by a schedule are for streaming queries only"
        raise RheostatError(message)
    return query, int(batch)


def find_limits(
    folder: str, edges: Sequence[str], initial: Mapping[str, int], query: str, batch: int
) -> dict[str, int]:
    """The limit of each edge in a batch. Where the schedule is damaged everything is kept, which the log says once."""
    path = _path(folder, query)
    try:
        keep = keep_at(_read(path), batch)
    except FileNotFoundError:
        _name_once(f"{path}: there is no schedule yet")
        keep = None
    except (OSError, InputError) as error:
        _name_once(f"{path}: every record is kept, as the schedule cannot be read: {error}")
        keep = {}
    shares = initial if keep is None else keep
    return {edge: signed_limit(shares.get(edge, WHOLE)) for edge in edges}


def _name_once(message: str) -> None:
    if message not in _NAMED:
        _NAMED.add(message)
        _LOG.warning(message)
