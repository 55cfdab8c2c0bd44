"""On a real cluster: executors that Spark excludes or decommissions are no capacity, and others come in their place."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.cluster.slowed import (
    PARTITIONS,
    failing_by,
    fed,
    last,
    session,
    settings,
    slow_down,
    streaming,
    working,
    written,
)
from tests.cluster.support import Journal, changes, until, worker

from rheostat.attachment import attach
from rheostat.execute.live import LiveExecutors
from rheostat.lab.lab import Lab
from rheostat.loop.clock import SystemClock
from rheostat.model import Action, OutcomeStatus, ReasonCode
from rheostat.spark.levers import SparkLevers

pytestmark = pytest.mark.cluster

ROOM = 3
LONG_S = 240.0
CONF = {
    "spark.excludeOnFailure.enabled": "true",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "1s",
}


@pytest.fixture(scope="module")
def spark(field: Lab) -> Iterator[SparkSession]:
    with session(field, "test-excluded", CONF) as made:
        LiveExecutors(SparkLevers(made), SystemClock()).ensure(ROOM)
        with worker(field, cores=ROOM):
            yield made


@pytest.mark.timeout(600)
def test_an_excluded_executor_is_no_capacity_and_is_replaced(field: Lab, spark: SparkSession, tmp_path: Path) -> None:
    """It alone goes, another one comes within fixed bounds, and no record is lost."""
    order, out, levers = tmp_path / "failing", tmp_path / "out", SparkLevers(spark)
    work = failing_by(order)

    def write(rows: DataFrame, batch_id: int) -> None:
        done = rows.mapInArrow(work, rows.schema).select("partition", "offset")
        done.write.mode("overwrite").parquet(str(out / str(batch_id)))

    until(lambda: len(levers.registered()) == ROOM, "three executors")
    before = levers.registered()
    name = before[1]
    journal = Journal(tmp_path / "journal")
    guard = {"no_room_patience_s": LONG_S}
    fixed = settings((ROOM, ROOM), tmp_path, policy="static", objective="lag < 60s", guard=guard)
    with fed(tmp_path / "log") as halt, streaming(spark, tmp_path, write), attach(spark, config=fixed):
        journal.until(lambda: last(journal).executors == ROOM and working(journal), "three executors at work", LONG_S)
        failed_at = time.time()
        slow_down(field, order, name)
        journal.until(lambda: last(journal).excluded == (name,), "Spark to exclude it", LONG_S)
        assert last(journal).executors == ROOM - 1
        journal.until(lambda: name not in levers.registered() and journal.answered(), "it to be replaced", LONG_S)
        journal.until(lambda: last(journal).executors == ROOM and working(journal), "three at work again", LONG_S)
        sent = halt()
        journal.until(lambda: len(written(out)) >= sent, "every record to be written", LONG_S)

    replaced = changes(journal.decisions(failed_at))
    assert [(each.action, each.current, each.target, each.first) for each in replaced] == [
        (Action.UP, ROOM - 1, ROOM, (name,))
    ]
    assert replaced[0].reason.code is ReasonCode.REPLACING_LOST
    assert f"Spark has excluded {name} after failures: others are asked for in their place" in replaced[0].reason.text
    assert {each.status for each in journal.outcomes(failed_at)} == {OutcomeStatus.APPLIED}
    assert set(before) - set(levers.registered()) == {name}
    assert written(out) == {
        (partition, offset) for partition in range(PARTITIONS) for offset in range(sent // PARTITIONS)
    }


@pytest.mark.timeout(600)
def test_a_decommissioned_executor_is_no_capacity_and_another_one_comes(spark: SparkSession, tmp_path: Path) -> None:
    """As on a node that is drained: it gets no further task, is not listed any more, and goes once it is idle."""
    levers = SparkLevers(spark)

    def write(rows: DataFrame, batch_id: int) -> None:  # noqa: ARG001 (Spark's)
        rows.write.format("noop").mode("overwrite").save()

    until(lambda: len(levers.registered()) == ROOM, "three executors")
    name = levers.registered()[1]
    journal = Journal(tmp_path / "journal")
    fixed = settings((ROOM, ROOM), tmp_path, policy="static", objective="lag < 60s")
    with fed(tmp_path / "log"), streaming(spark, tmp_path, write), attach(spark, config=fixed):
        journal.until(lambda: last(journal).executors == ROOM and working(journal), "three executors at work", LONG_S)
        drained_at = time.time()
        scala = spark._jvm.org.apache.spark  # type: ignore[union-attr]
        info = scala.scheduler.ExecutorDecommissionInfo("the node is drained", spark._jvm.scala.Option.empty())  # type: ignore[union-attr]
        backend = spark.sparkContext._jsc.sc().schedulerBackend()
        adjust_target, by_executor = False, False
        assert backend.decommissionExecutor(name, info, adjust_target, by_executor)
        journal.until(lambda: last(journal).executors == ROOM - 1, "it to be no capacity", LONG_S)
        journal.until(
            lambda: last(journal).executors == ROOM and name not in levers.listed(), "another in its place", LONG_S
        )
    counts = [each.assessment.executors for each in journal.cycles(drained_at) if each.assessment is not None]
    assert set(counts) == {ROOM - 1, ROOM}
    assert [each for each in journal.decisions(drained_at) if each.action is Action.DOWN] == []
