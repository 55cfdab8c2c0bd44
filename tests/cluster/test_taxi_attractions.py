"""The taxi pipeline on a real Spark: what is nearest, and that no record is lost or doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyarrow import dataset
from pyspark.sql import SparkSession
from tests.cluster.support import until, worker

from rheostat.host.java import kafka_connector_jars
from rheostat.lab.lab import Lab
from rheostat.load.log_writer import LogWriter
from rheostat.load.payload import IdChecksum
from rheostat.load.trips import Trip
from rheostat.pipelines.running import TaxiSettings
from rheostat.pipelines.sink import verify_records
from rheostat.pipelines.taxi_attractions import ATTRACTIONS, run, session, squared_distance

pytestmark = pytest.mark.cluster

QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
SLOW_S = 200.0
"""A driver and its executors are four JVMs that start on two cores."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    settings = TaxiSettings(source="log", log="-", checkpoint="c", out="o")
    with session(settings, "local[2]", [], QUIET) as made:
        yield made


def rows_of(out: Path) -> list[dict[str, Any]]:
    found = dataset.dataset(out, partitioning="hive", exclude_invalid_files=True).to_table().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def record(number: int, longitude: float, latitude: float) -> str:
    body = Trip(100, 160, longitude, latitude, -73.9, 40.7, None, 1.5).body()
    return f'{{"id":{number},"trip":{number},"copy":0,{body},"timestamp":1.5}}'


@pytest.mark.parametrize("lookup_ms", [0.0, 0.1], ids=["without a wait", "with a wait"])
def test_the_nearest_attraction_and_malformed_records(spark: SparkSession, tmp_path: Path, lookup_ms: float) -> None:
    """From Times Square 0.003° east and 0.004° south are 0.005°; -74, 40.7 is 0.0458° from the Statue of Liberty."""
    good = [record(1, -73.9825, 40.7540), record(2, -74.0, 40.7), record(3, -73.9654, 40.7929)]
    bad = ["", "no JSON", "{}", record(4, -273.9, 40.7), record(2**80, -73.9, 40.7), '{"id":5,"pickup_longitude":1}']
    with LogWriter(tmp_path / "log", 1) as writer:
        writer.append(0, [*good[:1], *bad, *good[1:]], 1.5)
    folders: dict[str, Any] = {name: str(tmp_path / name) for name in ("log", "checkpoint", "out")}
    settings = TaxiSettings(source="log", trigger_s=0.1, lookup_ms=lookup_ms, **folders)

    stop = threading.Event()
    thread = threading.Thread(target=run, args=(settings, spark), kwargs={"stop": stop})
    thread.start()
    committed = tmp_path / "checkpoint" / "commits" / "0"
    try:
        until(lambda: committed.exists() or not thread.is_alive(), "the batch", SLOW_S)
    finally:
        stop.set()
        thread.join(timeout=120)

    assert verify_records(tmp_path / "out").checksum == IdChecksum().add_many([1, 2, 3])
    rows = rows_of(tmp_path / "out")
    assert [row["attraction"] for row in rows] == ["Times Square", "Statue of Liberty", "Central Park"]
    distances = [row["attraction_distance"] for row in rows]
    assert distances == pytest.approx([0.005, (0.0445**2 + 0.0108**2) ** 0.5, 0.01], abs=1e-9)
    names = ("trip", "copy", "pickup", "dropoff", "passengers", "distance", "timestamp")
    assert [rows[0][name] for name in names] == [1, 0, 100, 160, None, 1.5, 1.5]


def program(lab: Lab, folder: Path, options: Sequence[str]) -> subprocess.Popen[bytes]:
    """The pipeline as a program on the lab's cluster, in a process group of its own."""
    conf = lab.cluster.driver_conf(jars=kafka_connector_jars()) | QUIET
    command = [sys.executable, "-m", "rheostat.pipelines.taxi_attractions", f"--master={lab.cluster.url}"]
    command += ["--source=kafka", "--topic=trips", f"--bootstrap={lab.broker.bootstrap}", "--trigger=100ms", *options]
    command += [f"--checkpoint={folder / 'checkpoint'}", f"--out={folder / 'out'}"]
    command += [f"--conf={key}={value}" for key, value in conf.items()]
    environment = os.environ | lab.cluster.driver_environment()
    return subprocess.Popen(command, start_new_session=True, env=environment, stderr=subprocess.DEVNULL)


def end(running: subprocess.Popen[bytes]) -> int:
    """Ask a program to end; its exit code."""
    running.terminate()
    try:
        return running.wait(timeout=60)
    finally:
        running.kill()


def batches(folder: Path, kind: str) -> list[int]:
    """Batch ids in a log of the checkpoint: ``offsets`` are planned, ``commits`` are done."""
    return sorted(int(file.name) for file in (folder / "checkpoint" / kind).glob("[0-9]*"))


def test_three_records_of_each_trip_from_kafka_on_a_cluster_through_a_kill(field: Lab, tmp_path: Path) -> None:
    with worker(field, cores=2):
        load = ["load", "--topic=trips", f"--bootstrap={field.broker.bootstrap}", "--create", "--partitions=2"]
        load += ["--trips=synthetic", "--rate=300", "--seconds=4", "--speed=10", "--copies=3", "--seed=5", "--json"]
        ran = subprocess.run([sys.executable, "-m", "rheostat", *load], capture_output=True, text=True, check=True)
        loaded = json.loads(ran.stdout.splitlines()[-1])
        sent = IdChecksum.from_json(loaded["checksum"])
        assert loaded["records"] == sent.count == 3 * loaded["trips"]["trips"] > 300

        def in_the_middle() -> bool:
            planned, committed = batches(tmp_path, "offsets"), batches(tmp_path, "commits")
            return len(committed) >= 1 and planned[-1] not in committed

        killed = program(field, tmp_path, ["--cap=100", "--lookup-ms=20"])
        try:
            until(lambda: in_the_middle() or killed.poll() is not None, "the second batch to begin", SLOW_S)
        finally:
            os.killpg(killed.pid, signal.SIGKILL)
            killed.wait()
        assert in_the_middle()

        running = program(field, tmp_path, ["--cap=none"])
        out = tmp_path / "out"

        def done() -> bool:
            return verify_records(out).checksum.count >= sent.count or running.poll() is not None

        try:
            until(done, "the records of the topic", SLOW_S)
        finally:
            code = end(running)
    assert code == 0
    assert verify_records(out).checksum == sent

    rows = rows_of(out)
    assert Counter(row["trip"] for row in rows) == dict.fromkeys(range(loaded["trips"]["trips"]), 3)
    for row in rows:
        assert (row["trip"], row["copy"]) == divmod(row["id"], 3)
        place = min(ATTRACTIONS, key=lambda at: squared_distance(row["pickup_longitude"], row["pickup_latitude"], at))
        squared = squared_distance(row["pickup_longitude"], row["pickup_latitude"], place)
        assert (row["attraction"], row["attraction_distance"]) == (place.name, pytest.approx(squared**0.5, abs=1e-12))
