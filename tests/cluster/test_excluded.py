"""On a real cluster: executors that Spark excludes or decommissions are no capacity, and others come in their place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.cluster.slowed import (
    every_record,
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


@dataclass(frozen=True)
class Story:
    """A query on three executors under the autoscaler.

    Attributes:
        order: file that names the executor whose tasks fail.
        out: folder of what the query writes.
        halt: ends the input, and says how many records there were.
    """

    journal: Journal
    levers: SparkLevers
    order: Path
    out: Path
    halt: Callable[[], int]

    def until_at_work(self, what: str) -> None:
        self.journal.until(lambda: last(self.journal).executors == ROOM and working(self.journal), what, LONG_S)


@pytest.fixture(scope="class")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder, levers = tmp_path_factory.mktemp("excluded"), SparkLevers(spark)
    order, out = folder / "failing", folder / "out"
    work = failing_by(order)

    def write(rows: DataFrame, batch_id: int) -> None:
        done = rows.mapInArrow(work, rows.schema).select("partition", "offset")
        done.write.mode("overwrite").parquet(str(out / str(batch_id)))

    until(lambda: len(levers.registered()) == ROOM, "three executors")
    guard = {"no_room_patience_s": LONG_S}
    fixed = settings((ROOM, ROOM), folder, policy="static", objective="lag < 60s", guard=guard)
    with fed(folder / "log") as halt, streaming(spark, folder, write), attach(spark, config=fixed):
        made = Story(Journal(folder / "journal"), levers, order, out, halt)
        made.until_at_work("three executors at work")
        yield made


@pytest.mark.timeout(600)
class TestNoCapacity:
    """One executor is excluded and replaced, then another one is decommissioned, and no record is lost."""

    def test_an_excluded_executor_is_no_capacity_and_is_replaced(self, field: Lab, story: Story) -> None:
        """It alone goes, and another one comes within fixed bounds."""
        journal, before = story.journal, story.levers.registered()
        name = before[1]
        failed_at = time.time()
        slow_down(field, story.order, name)
        journal.until(lambda: last(journal).excluded == (name,), "Spark to exclude it", LONG_S)
        assert last(journal).executors == ROOM - 1
        journal.until(lambda: name not in story.levers.registered() and journal.answered(), "it to be replaced", LONG_S)
        story.until_at_work("three at work again")

        replaced = changes(journal.decisions(failed_at))
        assert [(each.action, each.current, each.target, each.first) for each in replaced] == [
            (Action.UP, ROOM - 1, ROOM, (name,))
        ]
        assert replaced[0].reason.code is ReasonCode.REPLACING_LOST
        reason = f"Spark has excluded {name} after failures: others are asked for in their place"
        assert reason in replaced[0].reason.text
        assert {each.status for each in journal.outcomes(failed_at)} == {OutcomeStatus.APPLIED}
        assert set(before) - set(story.levers.registered()) == {name}

    def test_a_decommissioned_executor_is_no_capacity_and_another_one_comes(
        self, spark: SparkSession, story: Story
    ) -> None:
        """As on a node that is drained: it gets no further task, is not listed any more, and goes once it is idle."""
        journal, levers = story.journal, story.levers
        until(lambda: len(levers.registered()) == ROOM, "three executors")
        name = levers.registered()[1]
        story.until_at_work("three executors at work")
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

    def test_no_record_was_lost(self, story: Story) -> None:
        sent = story.halt()
        story.journal.until(lambda: len(written(story.out)) >= sent, "every record to be written", LONG_S)
        assert written(story.out) == every_record(sent)
