"""What edges of a real query keep is counted exactly, also by value and in a query that fans out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from tests.cluster.kafka_support import Collector, kafka_session, make_topic, options, order, send
from tests.cluster.support import TIMEOUT_S, until

from rheostat.config.shedding import WHOLE, Sink, declare_shedding
from rheostat.decide.shedding import Values, find_thresholds, measure_accuracy
from rheostat.lab.lab import Lab
from rheostat.model import EdgeCount, add_counts
from rheostat.observe.parse import parse_progress
from rheostat.spark.keep import is_kept, seed_of
from rheostat.spark.shedding import Shedding

pytestmark = pytest.mark.cluster

GRAPH = declare_shedding([Sink("a", 1, 0.5), Sink("b")], {"in": ["parse"]}, {"parse": ["a", "b"]})
_NUMBERS = count()


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with kafka_session("shedding-counts") as session:
        yield session


@pytest.fixture
def topic(field: Lab) -> str:
    return make_topic(field, f"counts-{next(_NUMBERS)}", 3)


def counted(query: StreamingQuery) -> tuple[EdgeCount, ...]:
    """What the progress events of a query tell, added up."""
    batches = [parse_progress(event.json).batch for event in query.recentProgress]
    return add_counts(edge for batch in batches if batch is not None for edge in batch.edges)


def has_read(query: StreamingQuery, records: int) -> bool:
    return any(each.edge == "in>parse" and each.offered == records for each in counted(query))


def newer(total: tuple[EdgeCount, ...], before: tuple[EdgeCount, ...]) -> list[EdgeCount]:
    """What was counted since."""
    past = {each.edge: each for each in before}
    none = EdgeCount("", 0, 0, 0)
    return [
        each._replace(
            offered=each.offered - past.get(each.edge, none).offered, kept=each.kept - past.get(each.edge, none).kept
        )
        for each in total
    ]


def start(rows: DataFrame, sink: Callable[[DataFrame, int], None], checkpoint: Path, **trigger: Any) -> StreamingQuery:
    writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    return writer.trigger(**(trigger or {"availableNow": True})).start()


def test_each_query_of_a_sink_counts_its_edges(spark: SparkSession, field: Lab, topic: str, tmp_path: Path) -> None:
    send(field, topic, 6000)
    shedding = Shedding(GRAPH)
    order(shedding.orders, 1, keep={"in>parse": 800_000, "parse>b": 500_000})
    source = sum(is_kept(seed_of("in>parse", topic, number % 3), number // 3, 800_000) for number in range(6000))
    for end in ("a", "b"):
        given = options(field, topic, startingOffsets="earliest", maxOffsetsPerTrigger=2500)
        sink = Collector()
        query = start(shedding.shed(shedding.read(spark, "in", given), "parse", end), sink, tmp_path / end)
        query.awaitTermination(int(TIMEOUT_S))
        found = {each.edge: each for each in counted(query)}
        assert (found["in>parse"].offered, found["in>parse"].kept) == (6000, source)
        assert (found[f"parse>{end}"].offered, found[f"parse>{end}"].kept) == (source, len(sink.rows))
        accuracy = measure_accuracy(GRAPH, found.values())
        assert accuracy == pytest.approx({end: len(sink.rows) / 6000})


def test_a_query_that_fans_out_counts_before_it_does(
    spark: SparkSession, field: Lab, topic: str, tmp_path: Path
) -> None:
    send(field, topic, 6000)
    shedding, got = Shedding(GRAPH), dict.fromkeys("ab", 0)
    order(shedding.orders, 1, keep={"parse>a": 900_000, "parse>b": 300_000})

    def write(batch: DataFrame, _: int) -> None:
        batch.persist()
        for end in got:
            got[end] += shedding.shed(batch, "parse", end).count()
        batch.unpersist()

    rows = shedding.read(spark, "in", options(field, topic, startingOffsets="earliest"))
    query = start(shedding.count(rows, "parse"), write, tmp_path / "fan")
    query.awaitTermination(int(TIMEOUT_S))
    found = {each.edge: each for each in counted(query)}
    assert {end: found[f"parse>{end}"].kept for end in got} == got
    assert found["parse>a"].offered == found["parse>b"].offered == found["in>parse"].kept == 6000


def test_records_of_greater_value_are_kept_first_and_the_share_is_met(
    spark: SparkSession, field: Lab, topic: str, tmp_path: Path
) -> None:
    """Values drift from batch to batch, and a third of the records have the same one."""
    graph = declare_shedding(
        [Sink("a", 1, 0.5), Sink("b")], {"in": ["parse"]}, {"parse": ["a", "b"]}, by_value=[("parse", "b")]
    )
    shedding, known, chance = Shedding(graph), dict[str, Values](), Random(3)
    keep, sink = {"parse>b": 300_000}, Collector()
    order(shedding.orders, 1, keep=keep)
    rows = shedding.read(spark, "in", options(field, topic, startingOffsets="earliest"))
    worth = F.col("value").cast("string").cast("double")
    kept = shedding.shed(rows, "parse", "b", value=worth).withColumn("worth", worth)
    query = start(kept, sink, tmp_path / "value", processingTime="100 milliseconds")
    producer = Producer({"bootstrap.servers": field.broker.bootstrap})
    sent, total = dict[int, list[float]](), tuple[EdgeCount, ...]()
    try:
        for number in range(10):
            sent[number] = [5.0 if chance.random() < 0.33 else number + 10 * chance.random() for _ in range(1500)]
            for at, value in enumerate(sent[number]):
                producer.produce(topic, str(value).encode(), partition=at % 3)
            assert producer.flush(TIMEOUT_S) == 0
            until(partial(has_read, query, 1500 * (number + 1)), "the records")
            total, before = counted(query), total
            above, known = find_thresholds(newer(total, before), keep, known)
            order(shedding.orders, number + 2, keep=keep, above=above)
    finally:
        query.stop()
    (edge,) = [each for each in counted(query) if each.edge == "parse>b"]
    assert edge.kept == len(sink.rows)
    assert edge.kept / edge.offered == pytest.approx(0.3, abs=0.06)
    mean = sum(row.worth for row in sink.rows) / len(sink.rows)
    everything = [value for values in sent.values() for value in values]
    assert mean > sum(everything) / len(everything) + 2.0
    assert edge.keep < WHOLE
