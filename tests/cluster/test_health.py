"""On a real cluster: a sink that slows down gets advice, an executor that slows down is named."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.cluster.support import Journal, executor_pids, until

from rheostat import attach
from rheostat.execute.executors import LiveExecutors
from rheostat.jvm.levers import SparkLevers
from rheostat.lab import Lab, LabSpec
from rheostat.lab.daemons import WorkerSize
from rheostat.load.log_writer import LogWriter
from rheostat.loop import SystemClock
from rheostat.model import Action, Assessment, Code
from rheostat.spark.log_source import register

pytestmark = pytest.mark.cluster

PARTITIONS = 6
ROOM = 3
TASK_S, SLOW_TASK_S = 0.1, 0.8
SICK_S = 6.0


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(LabSpec(broker=False, workers=0, size=WorkerSize(cores=ROOM))) as made:
        yield made


@pytest.fixture(scope="module")
def spark(lab: Lab) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as here:
        for name, value in lab.cluster.driver_environment().items():
            here.setenv(name, value)
        builder = SparkSession.builder.appName("test-health")
        for key, value in (lab.cluster.driver_conf() | {"spark.sql.shuffle.partitions": "4"}).items():
            builder = builder.config(key, value)
        made = builder.getOrCreate()
        made.sparkContext.setLogLevel("OFF")
        register(made)
        LiveExecutors(SparkLevers(made), SystemClock()).ensure(1)
        lab.cluster.add_worker()
        yield made
        made.stop()


@contextmanager
def fed(log: Path) -> Iterator[None]:
    """The log gets 120 records/s, the same in every partition, until this ends."""
    end = threading.Event()
    with LogWriter(log, PARTITIONS) as writer:

        def feed() -> None:
            while not end.wait(1.0):
                for partition in range(PARTITIONS):
                    writer.append(partition, ["x"] * 20, time.time())

        thread = threading.Thread(target=feed, daemon=True)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()


@contextmanager
def streaming(spark: SparkSession, folder: Path, batch: Callable[[DataFrame, int], None]) -> Iterator[StreamingQuery]:
    stream = spark.readStream.format("rheostat_log").option("path", str(folder / "log")).load()
    writer = stream.writeStream.foreachBatch(batch).option("checkpointLocation", str(folder / "checkpoint"))
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
    """Whether some batches have ended in time at the number that was asked for."""
    seen = last(journal)
    return journal.answered() and seen.batches >= 3 and (seen.lag_s or 99.0) < 4.0 and not seen.missing


def test_a_sink_that_slows_down_gets_advice_and_no_executors(spark: SparkSession, tmp_path: Path) -> None:
    sick, recovered = threading.Event(), threading.Event()

    def write(rows: DataFrame, batch_id: int) -> None:  # noqa: ARG001 (Spark's)
        rows.repartition(4).count()
        if sick.is_set():
            recovered.wait(SICK_S)

    journal = Journal(tmp_path / "journal")
    with fed(tmp_path / "log"), streaming(spark, tmp_path, write), attach(spark, config=settings((1, ROOM), tmp_path)):
        until(lambda: calm(journal), "a calm query")
        slowed_at = time.time()
        sick.set()
        until(lambda: journal.codes(slowed_at).count(Code.SICK_SINK) >= 5, "advice on the sink")
        late = journal.decisions(slowed_at)
        assert [decision for decision in late if decision.action is Action.UP] == []
        advice = [decision for decision in late if decision.reason.code is Code.SICK_SINK]
        assert all("the sink is sick" in decision.reason.text for decision in advice)
        sick.clear()
        recovered.set()
        until(lambda: last(journal).sink is None, "a healthy sink")

    seen = [cycle.assessment for cycle in journal.cycles() if cycle.assessment is not None]
    assert any(len(each.stages) > 1 and each.useful_executors == PARTITIONS for each in seen)
    batches = [query.batch for cycle in journal.cycles() if cycle.observation for query in cycle.observation.queries]
    known = [batch for batch in batches if batch is not None and batch.work_s is not None]
    assert known
    assert all(0 < (batch.work_s or 0) < batch.duration_s for batch in known)


def test_a_slowed_executor_is_named(lab: Lab, spark: SparkSession, tmp_path: Path) -> None:
    order = str(tmp_path / "slow")

    def work(parts: Any) -> Any:
        """One task; it takes long in the executor whose JVM is named in the order."""
        daemon = psutil.Process(os.getppid())
        named = Path(order).read_text() if Path(order).exists() else ""
        time.sleep(SLOW_TASK_S if named in {str(daemon.pid), str(daemon.ppid())} else TASK_S)
        yield from parts

    def write(rows: DataFrame, batch_id: int) -> None:  # noqa: ARG001 (Spark's)
        rows.mapInArrow(work, rows.schema).write.format("noop").mode("overwrite").save()

    journal = Journal(tmp_path / "journal")
    fixed = settings((ROOM, ROOM), tmp_path, policy="static", objective="lag < 60s")
    with fed(tmp_path / "log"), streaming(spark, tmp_path, write), attach(spark, config=fixed):
        until(lambda: last(journal).executors == ROOM and calm(journal), "three executors at work")
        pid = executor_pids(lab)[1]
        line = psutil.Process(pid).cmdline()
        name = line[line.index("--executor-id") + 1]
        Path(order).write_text(str(pid))
        until(lambda: [each.split()[1] for each in last(journal).slow] == [name], "the slow one to be named")
        told = journal.decisions()[-1].reason.text
        assert f"slow: executor {name} on " in told
        assert last(journal).skew == pytest.approx(1.0, abs=0.3)
        Path(order).write_text("")
        until(lambda: last(journal).slow == (), "the name to be taken back")
