"""Taxi drives and nearest neighbours on a real Kafka and Spark: what each edge drops, and every row of every sink."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from tests.cluster.kafka_support import kafka_session, options, order
from tests.cluster.support import TIMEOUT_S, until
from tests.cluster.test_shedding_counts import counted
from tests.load.test_scenario import values_in

from rheostat.config.shedding import WHOLE, Sink, declare_shedding, join_graphs
from rheostat.errors import InputError, RheostatError
from rheostat.host.java import kafka_connector_jars
from rheostat.lab.lab import Lab
from rheostat.load.log_writer import LogWriter
from rheostat.load.payload import IdChecksum
from rheostat.pipelines import knn, taxi_drives
from rheostat.pipelines.running import KnnSettings, SheddingPipeline, TaxiDrivesSettings, finish
from rheostat.pipelines.sink import find_batches, read_tables, verify, verify_records
from rheostat.spark.keep import KEEP_ALL, is_kept, seed_of, signed_limit
from rheostat.spark.shedding import Shedding

pytestmark = pytest.mark.cluster

_NUMBERS = count()
SLOW_S = 200.0
DEGREE = 100
"""Cells in a degree."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with kafka_session("drives-and-knn", **taxi_drives.PIPELINE.conf(drives(source="log", log="l"))) as session:
        yield session


def drives(**more: Any) -> TaxiDrivesSettings:
    return TaxiDrivesSettings(**{"checkpoint": "c", "out": "o", "trigger_s": 0.1, **more})


def points(**more: Any) -> KnnSettings:
    return KnnSettings(**{"checkpoint": "c", "out": "o", "trigger_s": 0.1, "k": 3, "references": 50, "seed": 4, **more})


class Record(NamedTuple):
    """A record of a topic, with its fields."""

    topic: str
    partition: int
    offset: int
    fields: Mapping[str, Any]


def produce(folder: Path, *target: str, drives: str, points: str) -> dict[str, int]:
    """A scenario of one second, by the command; the number of records of each topic."""
    rates = [{"at_s": 0, "rate": 600}, {"at_s": 0.5, "rate": 1800}]
    taxi = {f"{drives}-{number}": {"partitions": 2, "payload": "trips", "rates": rates} for number in (1, 2)}
    applications = [
        {"name": "taxi", "stop_s": 1, "topics": taxi},
        {"name": "knn", "start_s": 0.5, "stop_s": 1, "topics": {points: {"payload": "points", "rates": rates}}},
    ]
    applications[1]["topics"][points]["partitions"] = knn.PARTITIONS  # type: ignore[index]
    path = folder / "scenario.json"
    path.write_text(json.dumps({"applications": applications}))
    command = [sys.executable, "-m", "rheostat", "load", f"--scenario={path}", "--json", *target]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(ran.stdout.splitlines()[-1])
    assert result["totals"]["records"] == 2700
    return {each["topic"]: each["records"] for each in result["topics"]}


def stored(lab: Lab, topic: str, records: int) -> list[Record]:
    consumer = Consumer({"bootstrap.servers": lab.broker.bootstrap, "group.id": "check", "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(2)])
        found: list[Record] = []
        while len(found) < records:
            for message in consumer.consume(1000, timeout=10):
                assert message.error() is None
                place = (message.partition() or 0, message.offset() or 0)
                found.append(Record(topic, *place, json.loads(message.value() or b"")))
    finally:
        consumer.close()
    return found


def has_read(query: StreamingQuery, offered: Mapping[str, int]) -> bool:
    assert query.exception() is None
    counts = {each.edge: each.offered for each in counted(query)}
    return all(counts.get(edge) == number for edge, number in offered.items())


# What has to come out, in plain Python


def expect_cells(trips: Iterable[Record], sink: str) -> dict[tuple[str, int], tuple[int, Any]]:
    """Number and mean by cell and minute."""
    groups: dict[tuple[str, int], list[float]] = defaultdict(list)
    for trip in trips:
        fields = trip.fields
        place = "pickup" if sink == "sink-1" else "dropoff"
        cell = ",".join(str(math.floor(fields[f"{place}_{axis}"] * DEGREE)) for axis in ("longitude", "latitude"))
        duration = fields["dropoff"] - fields["pickup"]
        value = fields["distance"] if sink == "sink-1" else fields["distance"] * 3600 / duration
        groups[cell, int(fields["timestamp"] // 60)].append(value)
    return {key: (len(values), pytest.approx(sum(values) / len(values))) for key, values in groups.items()}


def cells_in(out: Path, sink: str) -> dict[tuple[str, int], tuple[int, float]]:
    """The newest row of each cell and minute."""
    found = {}
    complete, _ = find_batches(out)
    for table in read_tables(complete, ["kind", "key", "window_start", "window_end", "records", "mean"]):
        for row in table.to_pylist():
            assert row["kind"] == sink
            assert (row["window_end"] - row["window_start"]).total_seconds() == 60
            found[row["key"], int(row["window_start"].timestamp() // 60)] = (row["records"], row["mean"])
    return found


def check_sink(out: Path, sink: str, trips: list[Record]) -> None:
    assert cells_in(out, sink) == expect_cells(trips, sink)
    totals = verify(out)
    assert set(totals.by_kind) == {sink}
    assert totals.checksum == IdChecksum().add_many([trip.fields["id"] for trip in trips])


def check_neighbours(out: Path, settings: KnnSettings, records: list[Record]) -> None:
    references = knn.reference_points(settings.references, settings.seed).tolist()
    expected = {}
    for record in records:
        place = [record.fields[axis] for axis in "xyz"]
        near = sorted((math.dist(place, reference), index) for index, reference in enumerate(references))[: settings.k]
        expected[record.fields["id"]] = (*place, [index for _, index in near], pytest.approx([far for far, _ in near]))
    complete, _ = find_batches(out)
    names = ["id", "x", "y", "z", "neighbours", "distances"]
    rows = [row for table in read_tables(complete, names) for row in table.to_pylist()]
    assert len(rows) == len(records)
    assert {row["id"]: tuple(row[name] for name in names[1:]) for row in rows} == expected
    assert verify_records(out).checksum == IdChecksum().add_many(expected)


def hashes_of(spark: SparkSession, lab: Lab, topic: str, orders: Path, edges: list[str]) -> dict[tuple[int, int], Any]:
    """What the later edges compare with their limits, by partition and offset."""
    given = options(lab, topic, edges=",".join(edges), orders=str(orders))
    drawn = [F.xxhash64(F.col("rheostat.draw"), F.lit(edge)).alias(edge) for edge in edges]
    rows = spark.read.format("rheostat-kafka").options(**given).load().select("partition", "offset", *drawn).collect()
    return {(row.partition, row.offset): row for row in rows}


def test_both_in_one_session_drop_what_the_orders_of_one_graph_say(
    spark: SparkSession, field: Lab, tmp_path: Path
) -> None:
    keep = {"drives-1>parse-1": 800_000, "parse-1>union": 900_000, "parse-2>union": 600_000}
    keep |= {"union>sink-1": 500_000, "union>sink-2": 750_000, "points>knn": 300_000}
    number = next(_NUMBERS)
    one, other = f"drives.{number}", f"points.{number}"
    sent = produce(tmp_path, f"--bootstrap={field.broker.bootstrap}", "--create", drives=one, points=other)
    common = {"source": "rheostat-kafka", "bootstrap": field.broker.bootstrap, "cap": 700}
    taxi = drives(topic=one, **common, checkpoint=f"{tmp_path}/c1", out=f"{tmp_path}/o1", work_us=50, light_us=10)
    near = points(topic=other, **common, checkpoint=f"{tmp_path}/c2", out=f"{tmp_path}/o2", work_us=50)
    shedding = Shedding(join_graphs([taxi_drives.declare(taxi), knn.declare(near)]))
    order(shedding.orders, 1, keep=keep)
    light, heavy = taxi_drives.start_all(taxi, spark, shedding)
    (nearest,) = knn.start_all(near, spark, shedding)
    try:
        offered = {f"drives-{source}>parse-{source}": sent[f"{one}-{source}"] for source in (1, 2)}
        until(lambda: has_read(light, offered) and has_read(heavy, offered), "the drives", SLOW_S)
        until(lambda: has_read(nearest, {"points>knn": sent[other]}), "the points", SLOW_S)
    finally:
        for query in (light, heavy, nearest):
            finish(query)
    assert [query.name for query in (light, heavy, nearest)] == ["sink-1", "sink-2", "knn"]

    def keeps(edge: str, record: Record) -> bool:
        return is_kept(seed_of(edge, record.topic, record.partition), record.offset, keep.get(edge, WHOLE))

    united: list[Record] = []
    drawn: dict[tuple[str, int, int], Any] = {}
    counts: dict[str, tuple[int, int]] = {}
    for source in (1, 2):
        first, second = f"drives-{source}>parse-{source}", f"parse-{source}>union"
        edges = [second, "union>sink-1", "union>sink-2"]
        trips = stored(field, f"{one}-{source}", sent[f"{one}-{source}"])
        hashes = hashes_of(spark, field, f"{one}-{source}", shedding.orders, edges)
        drawn |= {(f"{one}-{source}", *place): row for place, row in hashes.items()}
        parsed = [trip for trip in trips if keeps(first, trip)]
        passed = [trip for trip in parsed if drawn[trip[:3]][second] < signed_limit(keep[second])]
        counts |= {first: (len(trips), len(parsed)), second: (len(parsed), len(passed))}
        united += passed
    assert counts["drives-2>parse-2"] == (1200, 1200)
    for query, sink in ((light, "sink-1"), (heavy, "sink-2")):
        edge = f"union>{sink}"
        kept = [trip for trip in united if drawn[trip[:3]][edge] < signed_limit(keep[edge])]
        assert 0 < len(kept) < len(united) < 2400
        told = {each.edge: (each.offered, each.kept) for each in counted(query)}
        assert told == {**counts, edge: (len(united), len(kept))}
        check_sink(tmp_path / "o1" / sink, sink, kept)

    kept = [record for record in stored(field, other, sent[other]) if keeps("points>knn", record)]
    (edge_count,) = counted(nearest)
    assert (edge_count.edge, edge_count.offered, edge_count.kept) == ("points>knn", 300, len(kept))
    check_neighbours(tmp_path / "o2" / "knn", near, kept)


def test_rows_of_two_sources_are_united_with_the_limits_of_both(spark: SparkSession) -> None:
    """An edge that a row has not passed has no part in its weight."""
    graph = declare_shedding([Sink("x")], {"a": ["t"], "b": ["x"]}, {"t": ["x"]}, by_value=[("b", "x")])
    shedding, draws = Shedding(graph), spark.range(2).withColumn("draw", F.col("id") * 7)

    def rows_with(**limits: int | float) -> Any:
        types = {int: "long", float: "double"}
        fields = [F.lit(limit).cast(types[type(limit)]).alias(name) for name, limit in limits.items()]
        return draws.select(F.struct("draw", *fields).alias("rheostat"), "id")

    half = signed_limit(WHOLE // 2)
    one = rows_with(**{"a>t": half, "t>x": signed_limit(WHOLE // 4)})
    other = rows_with(**{"b>x": half, "b>x:above": 1.5}).select("id", "rheostat")
    united = shedding.unite([one, other])
    weight = shedding.weight(("a", "t"), ("t", "x"))
    found = [(row.id, row.rheostat.asDict(), row.weight) for row in united.withColumn("weight", weight).collect()]
    of_one = {"a>t": half, "t>x": signed_limit(WHOLE // 4), "b>x": KEEP_ALL, "b>x:above": None}
    of_other = {"a>t": KEEP_ALL, "t>x": KEEP_ALL, "b>x": half, "b>x:above": 1.5}
    assert found == [
        *((number, {"draw": 7 * number, **of_one}, 8.0) for number in range(2)),
        *((number, {"draw": 7 * number, **of_other}, 1.0) for number in range(2)),
    ]
    with pytest.raises(InputError, match="no longer records of the source"):
        shedding.unite([one, draws])


def test_from_logs_everything_comes_out_but_what_is_malformed(spark: SparkSession, tmp_path: Path) -> None:
    produce(tmp_path, f"--log={tmp_path / 'in'}", drives="drives", points="points")
    bad = ["", "no JSON", "{}", '{"id":5,"x":1,"y":2,"timestamp":1}', '{"id":6,"pickup_longitude":1,"timestamp":1}']
    records: dict[str, list[Record]] = defaultdict(list)
    for name in ("drives-1", "drives-2", "points"):
        records[name] = [Record(name, 0, 0, json.loads(value)) for value in values_in(tmp_path / "in" / name)]
        with LogWriter(tmp_path / "in" / name) as writer:
            writer.append(1, bad, 1.0)
    taxi = drives(source="log", log=f"{tmp_path}/in/drives", checkpoint=f"{tmp_path}/c1", out=f"{tmp_path}/o1")
    near = points(source="log", log=f"{tmp_path}/in/points", checkpoint=f"{tmp_path}/c2", out=f"{tmp_path}/o2")
    stop = threading.Event()
    runs = [
        threading.Thread(target=program.run, args=(settings, spark), kwargs={"stop": stop})
        for program, settings in ((taxi_drives.PIPELINE, taxi), (knn.PIPELINE, near))
    ]
    for run in runs:
        run.start()

    def done() -> bool:
        malformed = [
            sum(told[name]["malformed"] for event in query.recentProgress if name in (told := event["observedMetrics"]))
            for query in spark.streams.active
            for name in (("records",) if query.name == "knn" else ("records-1", "records-2"))
        ]
        return malformed == [len(bad)] * 5

    try:
        until(done, "the last records", SLOW_S)
    finally:
        stop.set()
        for run in runs:
            run.join(TIMEOUT_S)
    for sink in ("sink-1", "sink-2"):
        check_sink(tmp_path / "o1" / sink, sink, records["drives-1"] + records["drives-2"])
    check_neighbours(tmp_path / "o2" / "knn", near, records["points"])


@contextmanager
def running(field: Lab, folder: Path, program: SheddingPipeline[Any], *given: str) -> Iterator[subprocess.Popen[bytes]]:
    """A pipeline as a program, until it is told to end; then it has to end well."""
    command = [sys.executable, "-m", f"rheostat.pipelines.{program.name}", "--master=local[2]", "--trigger=100ms"]
    command += [f"--bootstrap={field.broker.bootstrap}", f"--checkpoint={folder / 'c'}", f"--out={folder / 'o'}"]
    command += ["--conf=spark.ui.enabled=false", f"--jars={','.join(map(str, kafka_connector_jars()))}", *given]
    environment = os.environ | field.cluster.driver_environment()
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        code = process.wait(timeout=60)
    assert code == 0


def test_knn_as_a_program_with_orders(field: Lab, tmp_path: Path) -> None:
    number = next(_NUMBERS)
    topic, edge, keep = f"points.{number}", "points>knn", 250_000
    sent = produce(
        tmp_path, f"--bootstrap={field.broker.bootstrap}", "--create", drives=f"drives.{number}", points=topic
    )
    kept = [
        record.fields["id"]
        for record in stored(field, topic, sent[topic])
        if is_kept(seed_of(edge, topic, record.partition), record.offset, keep)
    ]
    order(tmp_path / "orders.json", 1, keep={edge: keep})
    out, expected = tmp_path / "o" / "knn", IdChecksum().add_many(kept)

    def done() -> bool:
        return out.exists() and verify_records(out).checksum == expected

    given = [f"--topic={topic}", "--source=rheostat-kafka", f"--orders={tmp_path / 'orders.json'}", "--work-us=20"]
    with running(field, tmp_path, knn.PIPELINE, *given) as process:
        until(lambda: done() or process.poll() is not None, "the records", SLOW_S)
    assert done()


def test_taxi_drives_as_a_program_on_sparks_own_source(field: Lab, tmp_path: Path) -> None:
    number = next(_NUMBERS)
    topic = f"drives.{number}"
    sent = produce(
        tmp_path, f"--bootstrap={field.broker.bootstrap}", "--create", drives=topic, points=f"points.{number}"
    )
    trips = [trip for name in (f"{topic}-1", f"{topic}-2") for trip in stored(field, name, sent[name])]
    expected = IdChecksum().add_many([trip.fields["id"] for trip in trips])
    outs = [tmp_path / "o" / sink for sink in ("sink-1", "sink-2")]

    def done() -> bool:
        return all(out.exists() and verify(out).checksum == expected for out in outs)

    with running(field, tmp_path, taxi_drives.PIPELINE, f"--topic={topic}", "--source=kafka") as process:
        until(lambda: done() or process.poll() is not None, "the trips", SLOW_S)
    for out in outs:
        check_sink(out, out.name, trips)


@pytest.mark.parametrize("program", [taxi_drives.PIPELINE, knn.PIPELINE], ids=lambda each: each.name)
def test_a_source_that_cannot_be_read_is_told(spark: SparkSession, tmp_path: Path, program: Any) -> None:
    settings = program.settings(source="log", log=str(tmp_path / "none"), checkpoint="c", out="o")
    with pytest.raises(RheostatError, match=r"cannot start(.|\n)*there is no such folder"):
        program.run(settings, spark)
