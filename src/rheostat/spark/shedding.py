"""Load shedding over DataFrames: a declared graph, a source that drops, and filters at the edges after it [S3].

::

    shedding = Shedding(declare_shedding([Sink("alerts", 5, 0.7), Sink("report", 0, 0.2)], {"clicks": ["parse"]},
                                         {"parse": ["alerts", "report"]}))
    clicks = shedding.read(spark, "clicks", {"kafka.bootstrap.servers": "broker:9092", "subscribe": "clicks"})
    parsed = clicks.select("rheostat", from_json(col("value").cast("string"), schema).alias("click"))
    alerts = shedding.shed(parsed, "parse", "alerts")
    report = shedding.shed(parsed, "parse", "report")

The column ``rheostat`` of the source is what a record is known by: its draw, and the limit of each edge in this batch.
It has to be kept by every ``select`` up to the last edge. The edge that leaves the source drops in the reader, before
anything is built; a later one keeps the rows whose hash of draw and edge is below its limit.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import reduce
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, cast

from rheostat.config.shedding import Edge, SheddingGraph
from rheostat.errors import Fault, InputError
from rheostat.spark.kafka_options import FORMAT
from rheostat.spark.keep import ABOVE, COUNTED, DRAW, IDENTITY, KEEP_ALL

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


_QUANTILES = [number / 64 for number in range(65)]
_PRECISION = 1000
_GREATEST_VALUE = 1e300


class Shedding:
    """A declared graph, over the DataFrames of one application.

    Give it to :func:`rheostat.attach`, so that it drops records when there are no more executors to have.

    Args:
        graph: see :func:`~rheostat.config.shedding.declare_shedding`.
        orders: the file by which sources are told what to keep; None: one of its own, which ends with the driver.
    """

    def __init__(self, graph: SheddingGraph, orders: Path | None = None) -> None:
        self.graph = graph
        self._by_reader = set[Edge]()
        if orders is None:
            folder = mkdtemp(prefix="rheostat-orders-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            orders = Path(folder) / "orders.json"
        self.orders = orders

    def settings(self) -> dict[str, Any]:
        """The key ``shedding`` of Rheostat's settings."""
        sinks = [asdict(sink) for sink in self.graph.sinks.values()]
        edges = {name: sorted(map(str, getattr(self.graph, name))) for name in ("by_key", "by_value")}
        orders = str(self.orders)
        return {"sinks": sinks, "sources": self.graph.sources, "tasks": self.graph.tasks, **edges, "orders": orders}

    def read(self, spark: SparkSession, source: str, options: Mapping[str, str], to: str | None = None) -> DataFrame:
        """A stream of an outside source, with the column ``rheostat``.

        Args:
            spark: the session.
            source: a declared source.
            options: of ``rheostat-kafka``.
            to: the only task or sink that this stream is for. Its edge drops in the reader. None: the stream is for
                all that the source leads to; if this is one, its edge drops in the reader; if it is several, each is a
                :meth:`shed`.

        Raises:
            InputError: the source, or the edge, is not declared.
        """
        from rheostat.spark.kafka_source import register

        register(spark)
        return spark.readStream.format(FORMAT).options(**{**self.source_options(source, to), **options}).load()

    def source_options(self, source: str, to: str | None = None) -> dict[str, str]:
        """The options of the source that name its edges and its orders."""
        if source not in self.graph.sources:
            allowed = ", ".join(self.graph.sources)
            raise InputError([Fault("source", source, allowed, "this source is not declared")])
        ends = self.graph.sources[source] if to is None else (self.graph.edge(source, to).end,)
        first = [Edge(source, end) for end in ends]
        after = dict.fromkeys(edge for each in first for edge in self.graph.edges_from(each.end))
        by_reader = len(first) == 1 and not self.graph.drops_itself(first[0])
        limited = list(after) if by_reader else [*first, *after]
        options = {"orders": str(self.orders), "edges": ",".join(map(str, limited))}
        if by_reader:
            options["edge"] = str(first[0])
            self._by_reader.add(first[0])
        valued = [str(edge) for edge in limited if edge in self.graph.by_value]
        return options | ({"valued": ",".join(valued)} if valued else {})

    def shed(
        self, rows: DataFrame, start: str, end: str, by: Sequence[str] = (), value: Column | None = None
    ) -> DataFrame:
        """The rows that the edge keeps.

        Args:
            rows: with the column ``rheostat``, and those of ``by``.
            start: of a declared edge.
            end: likewise.
            by: columns of a key, of an edge that was declared ``by_key``: records with equal values are kept or dropped
                together, with all edges that lead to ``end``. So both inputs of a join keep the same keys, if both
                edges have the same share, and a group is aggregated whole or not at all: the accuracy is then that of
                the number of groups.
            value: a number for each record, of an edge that was declared ``by_value``: records of greater value are
                kept first; null and NaN are the least. Which value is great enough follows from the batches before, so
                the share is met in expectation, not in each batch.

        Raises:
            InputError: the edge is not declared, or not as one that drops that way, or a column is missing. After an
                aggregation, a join or a distinct no row is a record of the source, even if the column is still there:
                drop before it.
        """
        edge = self.graph.edge(start, end)
        faults = [
            Fault("by", name, ", ".join(rows.columns), f"the rows have no column {name}")
            for name in by
            if name not in rows.columns
        ]
        if IDENTITY not in rows.columns:
            faults.append(_no_records())
        faults += self._check_way(edge, by, value)
        if faults:
            raise InputError(faults)
        kept = _kept(edge, by, value)
        return (_observe(rows, edge, kept, value) if rows.isStreaming else rows).where(kept)

    def unite(self, inputs: Sequence[DataFrame]) -> DataFrame:
        """The rows of several sources together, by the names of their columns.

        Their columns ``rheostat`` differ: that of a source has the limits of the edges behind it. An edge that a row
        has not passed kept it, so :meth:`weight` may name the edges of all inputs.

        Raises:
            InputError: the rows of an input lack the column ``rheostat``.
        """
        from pyspark.sql import functions as F  # noqa: N812

        if any(IDENTITY not in rows.columns for rows in inputs):
            raise InputError([_no_records()])
        structs = [cast("StructType", rows.schema[IDENTITY].dataType) for rows in inputs]
        types = {field.name: field.dataType for struct in structs for field in struct.fields}

        def fill(name: str, own: StructType) -> Column:
            if name in own.names:
                return F.col(IDENTITY)[name].alias(name)
            return F.lit(None if name.endswith(ABOVE) else KEEP_ALL).cast(types[name]).alias(name)

        filled = [
            rows.withColumn(IDENTITY, F.struct(*(fill(name, struct) for name in types)))
            for rows, struct in zip(inputs, structs, strict=True)
        ]
        return reduce(lambda one, other: one.unionByName(other), filled)

    def count(self, rows: DataFrame, start: str) -> DataFrame:
        """The same rows, counted for each edge from ``start``: for edges that are a :meth:`shed` in ``foreachBatch``.

        Spark tells what it counted on a stream, and nothing of what a function of ``foreachBatch`` counts. A function
        with several actions has to ``persist`` the batch: each would read and count it again.

        Raises:
            InputError: no edge from there is declared, one drops by key or by value, or the rows lack a column.
        """
        edges = [edge for edge in self.graph.edges if edge.start == start]
        faults = [] if IDENTITY in rows.columns else [_no_records()]
        if not edges:
            allowed = ", ".join([*self.graph.sources, *self.graph.tasks])
            faults.append(Fault("start", start, allowed, "no edge from there is declared"))
        faults += [
            Fault("start", str(edge), "edges that drop at random", "drop before foreachBatch at this edge")
            for edge in edges
            if self.graph.drops_itself(edge)
        ]
        if faults:
            raise InputError(faults)
        for edge in edges:
            rows = _observe(rows, edge, _kept(edge), None)
        return rows

    def _check_way(self, edge: Edge, by: Sequence[str], value: Column | None) -> Iterator[Fault]:
        """Whether the edge drops as it was declared to."""
        if edge in self._by_reader:
            yield Fault("edge", str(edge), "an edge behind it", "the reader has dropped at this edge already")
        for name, given, declared, edges in (
            ("by", bool(by), "by_key", self.graph.by_key),
            ("value", value is not None, "by_value", self.graph.by_value),
        ):
            if given and edge not in edges:
                known = ", ".join(sorted(map(str, edges))) or "none is declared"
                yield Fault(name, str(edge), known, f"declare_shedding has to name this edge, in {declared}")
            if edge in edges and not given:
                yield Fault(name, "nothing", f"{name}=", f"{edge} was declared to drop that way")

    def weight(self, *path: tuple[str, str]) -> Column:
        """How many records a kept row stands for: Π 1 ÷ d over the edges that it has passed, each as (start, end).

        A sum of it is an unbiased count; a sum of it times a value is an unbiased sum.

        Raises:
            InputError: an edge is not declared, or drops by value: what it keeps is no fair sample.
        """
        from pyspark.sql import functions as F  # noqa: N812

        edges = [self.graph.edge(*edge) for edge in path]
        unfair = [str(edge) for edge in edges if edge in self.graph.by_value]
        if unfair:
            allowed = "edges that drop at random"
            raise InputError([Fault("path", ", ".join(unfair), allowed, "what is kept by value has no weight")])
        weight = F.lit(1.0)
        for edge in edges:
            limit = F.col(IDENTITY)[str(edge)]
            share = (limit.cast("double") + F.lit(2.0**63)) / F.lit(2.0**64)
            weight = weight / F.when(limit == F.lit(KEEP_ALL), F.lit(1.0)).otherwise(share)
        return weight


def _no_records() -> Fault:
    message = (
        "the rows are no longer records of the source: keep this column in every select, and drop before an "
        "aggregation, a join or a distinct; by= drops whole keys there"
    )
    return Fault("rows", f"no column {IDENTITY}", f"rows with the column {IDENTITY}", message)


def _kept(edge: Edge, by: Sequence[str] = (), value: Column | None = None) -> Column:
    """Whether the edge keeps a row."""
    from pyspark.sql import functions as F  # noqa: N812

    limit = F.col(IDENTITY)[str(edge)]
    drawn = F.xxhash64(*by, F.lit(edge.end)) if by else F.xxhash64(F.col(IDENTITY)[DRAW], F.lit(str(edge)))
    at_random = (drawn < limit) | (limit == F.lit(KEEP_ALL))
    if value is None:
        return at_random
    above = F.col(IDENTITY)[f"{edge}{ABOVE}"]
    by_value = F.when(_worth(value) == above, drawn < limit).otherwise(_worth(value) > above)
    return F.when((limit == F.lit(KEEP_ALL)) | above.isNull(), at_random).otherwise(by_value)


def _observe(rows: DataFrame, edge: Edge, kept: Column, value: Column | None) -> DataFrame:
    """Let Spark count what comes to the edge and what it keeps."""
    from pyspark.sql import functions as F  # noqa: N812

    counts = [F.count(F.lit(1)).alias("offered"), F.count_if(kept).alias("kept")]
    if value is not None:
        counts.append(F.percentile_approx(_worth(value), _QUANTILES, _PRECISION).alias("values"))
    return rows.observe(f"{COUNTED}{edge}", *counts)


def _worth(value: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    least, greatest = F.lit(-_GREATEST_VALUE), F.lit(_GREATEST_VALUE)
    number = F.nanvl(F.coalesce(value.cast("double"), least), least)
    return F.least(F.greatest(number, least), greatest)
