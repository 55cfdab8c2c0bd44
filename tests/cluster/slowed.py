"""A query on records in a log on disk, for the tests on health: what it does, and what makes one executor slow."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.cluster.support import Journal

from rheostat.lab.lab import Lab
from rheostat.load.log_writer import LogWriter
from rheostat.model import Assessment
from rheostat.spark.log_source import register

PARTITIONS = 6
TASK_S, SLOW_TASK_S = 0.1, 1.5


@contextmanager
def session(
    lab: Lab, name: str, conf: Mapping[str, str] | None = None, jars: Sequence[Path] = ()
) -> Iterator[SparkSession]:
    """On the master of the lab, which has no Workers yet."""
    with pytest.MonkeyPatch.context() as here:
        for key, value in lab.cluster.driver_environment().items():
            here.setenv(key, value)
        builder = SparkSession.builder.appName(name)
        for key, value in (
            lab.cluster.driver_conf(jars=jars) | {"spark.sql.shuffle.partitions": "4"} | dict(conf or {})
        ).items():
            builder = builder.config(key, value)
        made = builder.getOrCreate()
        made.sparkContext.setLogLevel("OFF")
        register(made)
        try:
            yield made
        finally:
            made.stop()


@contextmanager
def fed(log: Path) -> Iterator[Callable[[], int]]:
    """The log gets 120 records/s, the same in every partition, until this ends, or what it gives is called.

    That says how many there were.
    """
    end = threading.Event()
    with LogWriter(log, PARTITIONS) as writer:

        def feed() -> None:
            while not end.wait(1.0):
                for partition in range(PARTITIONS):
                    writer.append(partition, ["x"] * 20, time.time())

        def halt() -> int:
            end.set()
            thread.join()
            return sum(writer.ends().values())

        thread = threading.Thread(target=feed, daemon=True)
        thread.start()
        try:
            yield halt
        finally:
            halt()


@contextmanager
def streaming(spark: SparkSession, folder: Path, batch: Callable[[DataFrame, int], None]) -> Iterator[StreamingQuery]:
    """A query on all records of the log, whose batches this does."""
    stream = spark.readStream.format("rheostat_log").option("path", str(folder / "log"))
    records = stream.option("startingOffsets", "earliest").load()
    writer = records.writeStream.foreachBatch(batch).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.queryName(folder.name).trigger(processingTime="1 second").start()
    try:
        yield query
    finally:
        query.stop()


def settings(executors: tuple[int, int], folder: Path, **more: Any) -> dict[str, Any]:
    given = {"profile": "demo", "sample_s": 1.0, "rate_window_s": 5.0, "objective": "lag < 8s"}
    return given | {"executors": list(executors), "journal": str(folder / "journal")} | more


def last(journal: Journal) -> Assessment:
    """What the last cycle saw; nothing, before the first one."""
    cycles = journal.cycles()
    seen = cycles[-1].assessment if cycles else None
    return Assessment(0.0) if seen is None else seen


def calm(journal: Journal) -> bool:
    """Whether enough batches have ended at the number that was asked for: none is late, and no executor cold."""
    seen = last(journal)
    return working(journal) and seen.batches >= 8 and seen.backlog_excess == 0 and (seen.lag_s or 99.0) < 4.0


def working(journal: Journal) -> bool:
    """Whether some batches have ended at the number that was asked for, and nothing is unknown."""
    seen = last(journal)
    return journal.answered() and seen.batches >= 3 and not seen.missing


def slowed_by(order: Path) -> Callable[[Any], Any]:
    """What a task does; it takes long in the executor whose JVM is named in the file ``order``."""
    path, usual_s, slow_s = str(order), TASK_S, SLOW_TASK_S

    def work(parts: Any) -> Any:
        daemon = psutil.Process(os.getppid())
        named = Path(path).read_text() if Path(path).exists() else ""
        time.sleep(slow_s if named in {str(daemon.pid), str(daemon.ppid())} else usual_s)
        yield from parts

    return work


def failing_by(order: Path) -> Callable[[Any], Any]:
    """What a task does; it fails in the executor whose JVM is named in the file ``order``."""
    path = str(order)

    def work(parts: Any) -> Any:
        daemon = psutil.Process(os.getppid())
        if Path(path).exists() and Path(path).read_text() in {str(daemon.pid), str(daemon.ppid())}:
            message = "the disk of this executor is full"
            raise OSError(message)
        yield from parts

    return work


def slow_down(lab: Lab, order: Path, executor: str) -> None:
    """Slow this executor down, or let its tasks fail."""
    pids = {_executor_id(pid): pid for pid in lab.executor_pids()}
    order.write_text(str(pids[executor]))


def _executor_id(pid: int) -> str:
    line = psutil.Process(pid).cmdline()
    return line[line.index("--executor-id") + 1]


def every_record(sent: int) -> set[tuple[int, int]]:
    """Partition and offset of so many records, which went to the partitions in turn."""
    return {(partition, offset) for partition in range(PARTITIONS) for offset in range(sent // PARTITIONS)}


def written(out: Path) -> set[tuple[int, int]]:
    """Partition and offset of every record in the batches that are complete."""
    tables = [parquet.read_table(done.parent) for done in out.glob("*/_SUCCESS")]
    rows = [zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True) for table in tables]
    return {pair for pairs in rows for pair in pairs}
