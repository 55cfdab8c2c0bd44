"""Shares by a schedule of batch ids, on Spark's own source and a real Kafka."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from tests.cluster.kafka_support import Collector, kafka_session, make_topic, offsets_of, options, send
from tests.cluster.support import TIMEOUT_S, until

from rheostat.config.shedding import WHOLE, Sink, declare_shedding
from rheostat.lab.lab import Lab
from rheostat.spark.keep import KEEP_ALL, signed_limit
from rheostat.spark.shedding import Shedding
from rheostat.spark.shedding_schedule import SheddingSchedule

pytestmark = pytest.mark.cluster

_NUMBERS = count()


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with kafka_session("shedding-schedule") as session:
        yield session


@pytest.fixture
def topic(field: Lab) -> str:
    return make_topic(field, f"schedule-{next(_NUMBERS)}", 3)


class Fragile(Collector):
    """Fails after it has taken the rows of a batch, if it is told to: between the writing and the commit."""

    fails = False

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        super().__call__(rows, batch_id)
        if self.fails:
            message = "the sink fails after writing"
            raise RuntimeError(message)

    @property
    def newest(self) -> int:
        return max(self.batches, default=-1)


Start = Callable[[DataFrame, Collector], StreamingQuery]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[StreamingQuery] = []

    def run(rows: DataFrame, sink: Collector) -> StreamingQuery:
        writer = rows.writeStream.foreachBatch(sink).trigger(processingTime="100 milliseconds")
        started.append(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start())
        return started[-1]

    yield run
    for query in started:
        query.stop()


class Sender:
    """Sends to a topic while something is waited for."""

    def __init__(self, lab: Lab, topic: str) -> None:
        self._lab, self._topic, self.sent = lab, topic, 0

    def until(self, holds: Callable[[], bool], what: str) -> None:
        def send_more() -> bool:
            send(self._lab, self._topic, 300, first=self.sent)
            self.sent += 300
            return holds()

        until(send_more, what)


def places(rows: list[Row]) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in rows)


def draws_at(spark: SparkSession, lab: Lab, topic: str, edge: str) -> dict[tuple[int, int], int]:
    """The draw of each record of a topic at an edge, by partition and offset."""
    rows = spark.read.format("kafka").options(**options(lab, topic)).load()
    draw = F.xxhash64(F.xxhash64("topic", "partition", "offset"), F.lit(edge)).alias("draw")
    return {(row.partition, row.offset): row.draw for row in rows.select("partition", "offset", draw).collect()}


def offered_in(checkpoint: Path, topic: str, batch: int) -> list[tuple[int, int]]:
    """The records that Spark planned for a batch, by partition and offset."""
    ends = offsets_of(checkpoint, batch)[topic]
    begins = offsets_of(checkpoint, batch - 1)[topic] if batch else dict.fromkeys(ends, 0)
    return [(int(name), offset) for name in sorted(ends) for offset in range(begins[name], ends[name])]


def within_bounds(kept: int, records: int, share: float) -> bool:
    """Within 4.9 standard deviations of a binomial: one miss in a million."""
    return abs(kept - share * records) <= 4.9 * math.sqrt(records * share * (1 - share))


def test_shares_change_while_the_query_runs_and_a_batch_that_runs_again_keeps_its_records(
    spark: SparkSession, field: Lab, topic: str, start: Start, tmp_path: Path
) -> None:
    graph, edge = declare_shedding([Sink("out")], {"in": ["out"]}), "in>out"
    schedule, checkpoint = SheddingSchedule(graph, tmp_path / "schedule"), tmp_path / "checkpoint"
    stream = spark.readStream.format("kafka").options(**options(field, topic, startingOffsets="earliest")).load()
    kept = Shedding(graph).shed(schedule.add_limits(stream, "in"), "in", "out").select("partition", "offset")
    sender, sink, shares = Sender(field, topic), Fragile(), {0: WHOLE}
    query = start(kept, sink)
    sender.until(lambda: query.lastProgress is not None, "a batch that has ended")
    for share in (100_000, WHOLE, 500_000):
        first = schedule.append(query, {edge: share})
        shares[first] = share
        sender.until(lambda: sink.newest >= first + 4, "batches with the new share")  # noqa: B023 (called at once)
    sink.fails = True
    sender.until(lambda: not query.isActive, "the crash")
    crashed = sink.newest
    assert not (checkpoint / "commits" / str(crashed)).exists()

    first = schedule.append(query, {edge: 1_000})
    shares[first] = 1_000
    assert first > crashed
    again = Fragile()
    query = start(kept, again)
    sender.until(lambda: again.newest >= first + 1, "batches after the restart")
    query.stop()
    assert min(again.batches) == crashed
    assert places(again.batches[crashed]) == places(sink.batches[crashed])

    drawn, batches = draws_at(spark, field, topic, edge), sink.batches | again.batches
    counts = {share: [0, 0] for share in shares.values()}
    for batch in sorted(batches):
        share, offered = shares[max(first for first in shares if first <= batch)], offered_in(checkpoint, topic, batch)
        limit = signed_limit(share)
        assert places(batches[batch]) == [place for place in offered if limit == KEEP_ALL or drawn[place] < limit]
        counts[share][0] += len(batches[batch])
        counts[share][1] += len(offered)
    assert all(within_bounds(kept, records, share / WHOLE) for share, (kept, records) in counts.items())
    assert all(records for _, records in counts.values())


def test_later_edges_weights_and_counts_over_an_aggregation_and_values_that_are_not_known(
    spark: SparkSession, field: Lab, topic: str, tmp_path: Path
) -> None:
    send(field, topic, 9000)
    graph = declare_shedding([Sink("a"), Sink("b")], {"in": ["parse"]}, {"parse": ["a", "b"]})
    shedding, path = Shedding(graph), (("in", "parse"), ("parse", "b"))
    schedule = SheddingSchedule(graph, tmp_path / "schedule", {"in>parse": 800_000, "parse>b": 500_000})
    by_value = Shedding(replace(graph, by_value=frozenset([graph.edge(*path[0])])))
    given: dict[str, Any] = options(field, topic, startingOffsets="earliest", maxOffsetsPerTrigger=2500)
    rows = schedule.add_limits(spark.readStream.format("kafka").options(**given).load(), "in")
    rows = by_value.shed(rows, *path[0], value=F.col("offset"))
    rows = shedding.shed(rows, *path[1])
    sums = rows.groupBy("partition").agg(F.count("*").alias("kept"), F.sum(shedding.weight(*path)).alias("weight"))
    newest: dict[int, Row] = {}

    def take(batch: DataFrame, _: int) -> None:
        newest.update({row.partition: row for row in batch.collect()})

    writer = sums.writeStream.outputMode("update").foreachBatch(take).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "sums")).start()
    query.awaitTermination(int(TIMEOUT_S))
    assert sorted(newest) == [0, 1, 2]
    kept = sum(row.kept for row in newest.values())
    assert within_bounds(kept, 9000, 0.4)
    assert sum(row.weight for row in newest.values()) == pytest.approx(kept / 0.4, rel=1e-9)
    counted = [progress["observedMetrics"] for progress in query.recentProgress if progress["numInputRows"]]
    assert len(counted) == 4
    assert sum(each["rheostat:in>parse"]["offered"] for each in counted) == 9000
    assert sum(each["rheostat:parse>b"]["kept"] for each in counted) == kept
