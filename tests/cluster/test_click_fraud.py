"""The click-fraud pipeline on a real Spark: its results, and that no record is lost or doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyarrow import dataset
from pyspark.sql import SparkSession

from rheostat.errors import RheostatError
from rheostat.host.java import kafka_connector_jars
from rheostat.lab.lab import Lab
from rheostat.load.kafka_sink import KafkaSink
from rheostat.load.log_writer import LogWriter
from rheostat.load.payload import IdChecksum, Payloads, PayloadSpec
from rheostat.pipelines.click_fraud import run, session
from rheostat.pipelines.running import ClickFraudSettings
from rheostat.pipelines.sink import verify

pytestmark = pytest.mark.cluster

NOW = 1_700_000_000.0
QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    settings = ClickFraudSettings(source="log", log="-", checkpoint="c", out="o")
    with session(settings, "local[2]", [], QUIET) as made:
        yield made


def settings(tmp_path: Path, **changes: Any) -> ClickFraudSettings:
    folders = {name: str(tmp_path / name) for name in ("log", "checkpoint", "out")}
    quick: dict[str, Any] = {"source": "log", "cap": 400, "trigger_s": 0.1, "lookup_ms": 0.0}
    return ClickFraudSettings(**(folders | quick | changes))


def fill(log: Path, begin: int, count: int) -> None:
    """Append records with the ids begin … begin + count − 1 to two partitions."""
    payloads = Payloads(PayloadSpec(users=50, ips=20))
    with LogWriter(log, 2) as writer:
        for partition in (0, 1):
            half = count // 2
            writer.append(partition, list(payloads.make(begin + partition * half, half, NOW).values), NOW)


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 120.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s for: {what}"
        time.sleep(0.05)


def run_until(spark: SparkSession, wanted: ClickFraudSettings, done: Callable[[], bool]) -> None:
    """Run the pipeline in a thread until ``done``, and end it as a program would."""
    stop, failures = threading.Event(), []

    def work() -> None:
        try:
            run(wanted, spark, stop=stop)
        except RheostatError as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        wait_until(lambda: done() or not thread.is_alive(), "the pipeline to be done")
    finally:
        stop.set()
        thread.join(timeout=120)
    assert failures == []


def counted(out: Path, records: int) -> Callable[[], bool]:
    """Whether the sink has that many records."""
    return lambda: out.is_dir() and [sums.count for sums in verify(out).by_kind.values()] == [records, records]


def batches(checkpoint: Path, kind: str) -> list[int]:
    """Batch ids in a log of the checkpoint: ``offsets`` are planned, ``commits`` are done."""
    folder = checkpoint / kind
    return sorted(int(file.name) for file in folder.glob("[0-9]*")) if folder.is_dir() else []


def newest_rows(out: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows that count, with all their columns, by kind, key and window."""
    rows = dataset.dataset(out, partitioning="hive", exclude_invalid_files=True).to_table().to_pylist()
    newest = {}
    for row in sorted(rows, key=lambda row: row["batch"]):
        del row["batch"]
        newest[row["kind"], row["key"], row["window_start"]] = row
    return newest


def test_results_and_malformed_records(spark: SparkSession, tmp_path: Path) -> None:
    def event(number: int, ip: str, user: str, kind: str) -> str:
        return json.dumps({"id": number, "ip": ip, "userID": user, "timestamp": NOW, "eventType": kind})

    good = [
        event(1, "10.0.0.1", "ann", "display"),
        event(2, "10.0.0.1", "bob", "display"),
        event(3, "10.0.0.2", "ann", "display"),
        event(4, "10.0.0.1", "ann", "click"),
        event(5, "10.0.0.3", "cid", "click"),
    ]
    bad = ["", "no JSON", "{}", event(6, "10.0.0.1", "ann", "view"), event(2**80, "10.0.0.1", "ann", "click")]
    with LogWriter(tmp_path / "log", 1) as writer:
        writer.append(0, [*good[:2], *bad, *good[2:]], NOW)

    run_until(spark, settings(tmp_path), counted(tmp_path / "out", 5))

    assert verify(tmp_path / "out").checksum == IdChecksum().add_many([1, 2, 3, 4, 5])
    found = {
        (kind, key): (row["others"], row["displays"], row["clicks"], row["click_through_rate"])
        for (kind, key, _), row in newest_rows(tmp_path / "out").items()
    }
    assert found == {
        ("ip", "10.0.0.1"): (2, 2, 1, 0.5),
        ("ip", "10.0.0.2"): (1, 1, 0, 0.0),
        ("ip", "10.0.0.3"): (1, 0, 1, None),
        ("user", "ann"): (2, 2, 1, 0.5),
        ("user", "bob"): (1, 1, 0, 0.0),
        ("user", "cid"): (1, 0, 1, None),
    }


def test_exact_over_several_batches_and_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    fill(tmp_path / "log", 0, 1000)
    run_until(spark, settings(tmp_path), counted(tmp_path / "out", 1000))
    first = verify(tmp_path / "out")
    fill(tmp_path / "log", 1000, 600)
    run_until(spark, settings(tmp_path), counted(tmp_path / "out", 1600))

    totals = verify(tmp_path / "out")
    assert (first.batches, totals.batches) == (3, 5)
    assert totals.checksum == IdChecksum().add_many(range(1600))
    checkpoint = tmp_path / "checkpoint"
    assert batches(checkpoint, "offsets") == batches(checkpoint, "commits") == [0, 1, 2, 3, 4]


def program(wanted: ClickFraudSettings, jars: Sequence[Path] = ()) -> subprocess.Popen[bytes]:
    """The pipeline as a program, in a process group of its own, so that driver and JVM can be killed together."""
    source = {"log": wanted.log} if wanted.source == "log" else {"bootstrap": wanted.bootstrap, "topic": wanted.topic}
    options = source | {
        "master": "local[2]",
        "source": wanted.source,
        "checkpoint": wanted.checkpoint,
        "out": wanted.out,
        "cap": wanted.cap,
        "lookup-ms": wanted.lookup_ms,
        "trigger": "100ms",
        "jars": ",".join(map(str, jars)),
    }
    command = [sys.executable, "-m", "rheostat.pipelines.click_fraud"]
    command += [f"--{name}={value}" for name, value in options.items()]
    command += [f"--conf={key}={value}" for key, value in QUIET.items()]
    return subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)


def end(running: subprocess.Popen[bytes]) -> int:
    """Ask a program to end; its exit code."""
    running.terminate()
    try:
        return running.wait(timeout=60)
    finally:
        running.kill()


def in_the_middle(checkpoint: Path, batch: int) -> bool:
    """Whether a batch from that one on is planned, and not done."""
    planned, done = batches(checkpoint, "offsets"), batches(checkpoint, "commits")
    return bool(planned) and planned[-1] >= batch and planned[-1] not in done


def test_killed_in_the_middle_of_a_batch_then_ended_politely_then_finished(spark: SparkSession, tmp_path: Path) -> None:
    fill(tmp_path / "log", 0, 4000)
    slow, checkpoint = settings(tmp_path, lookup_ms=5.0), tmp_path / "checkpoint"

    killed = program(slow)
    try:
        wait_until(lambda: in_the_middle(checkpoint, 1), "the second batch to begin")
    finally:
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
    assert in_the_middle(checkpoint, 1)
    begun = batches(checkpoint, "offsets")[-1]

    ended = program(slow)
    try:
        wait_until(lambda: in_the_middle(checkpoint, begun + 1), "the batch after it to begin")
    finally:
        code = end(ended)
    assert code == 0
    assert begun + 1 in batches(checkpoint, "commits"), "the running batch was to be finished"
    assert batches(checkpoint, "commits")[-1] < 9, "the story is over too early to mean anything"

    run_until(spark, settings(tmp_path), counted(tmp_path / "out", 4000))
    assert verify(tmp_path / "out").checksum == IdChecksum().add_many(range(4000))
    assert batches(checkpoint, "commits") == list(range(10))


def test_from_kafka(field: Lab, tmp_path: Path) -> None:
    field.broker.create_topic("clicks", partitions=2)
    producer = KafkaSink(field.broker.bootstrap, "clicks")
    assert producer.send(Payloads(PayloadSpec(users=50, ips=20)).make(0, 1000, NOW)) == 1000
    assert len(producer.finish(30).acknowledged) == 1000
    wanted = settings(tmp_path, source="kafka", bootstrap=field.broker.bootstrap, topic="clicks")
    running = program(wanted, kafka_connector_jars())
    try:
        done = counted(tmp_path / "out", 1000)
        wait_until(lambda: done() or running.poll() is not None, "the records of the topic")
    finally:
        code = end(running)
    assert code == 0
    assert verify(tmp_path / "out").checksum == IdChecksum().add_many(range(1000))


def test_our_kafka_source_gives_the_rows_of_sparks_own(spark: SparkSession, field: Lab, tmp_path: Path) -> None:
    field.broker.create_topic("clicks-of-both", partitions=2)
    producer, payloads = KafkaSink(field.broker.bootstrap, "clicks-of-both"), Payloads(PayloadSpec(users=50, ips=20))
    for begin in range(0, 6000, 1000):
        assert producer.send(payloads.make(begin, 1000, NOW + begin / 40)) == 1000
    assert len(producer.finish(30).acknowledged) == 6000

    found = {}
    for source in ("kafka", "rheostat-kafka"):
        wanted = {"source": source, "bootstrap": field.broker.bootstrap, "topic": "clicks-of-both", "cap": 1700}
        out = tmp_path / source / "out"
        run_until(spark, settings(tmp_path / source, **wanted), counted(out, 6000))
        assert verify(out).checksum == IdChecksum().add_many(range(6000))
        found[source] = newest_rows(out)
    assert len({window for _, _, window in found["kafka"]}) > 1
    assert found["rheostat-kafka"] == found["kafka"], "row by row, the approximate counts included"


def test_a_source_that_cannot_be_read_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(RheostatError, match=r"cannot start(.|\n)*there is no such folder"):
        run(settings(tmp_path, log=str(tmp_path / "nowhere")), spark)


def test_a_query_that_fails_is_told(spark: SparkSession, tmp_path: Path) -> None:
    fill(tmp_path / "log", 0, 10)
    (tmp_path / "out").write_text("a file where the sink's folder should be")
    with pytest.raises(RheostatError, match="out"):
        run(settings(tmp_path), spark)
