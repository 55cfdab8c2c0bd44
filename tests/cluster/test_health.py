"""On a real cluster: a sink that slows down gets advice, a slow executor is named, and replaced where allowed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.cluster.slowed import (
    PARTITIONS,
    calm,
    every_record,
    fed,
    last,
    session,
    settings,
    slow_down,
    slowed_by,
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
SICK_S = 6.0
LONG_S = 240.0


@pytest.fixture(scope="module")
def spark(field: Lab) -> Iterator[SparkSession]:
    with session(field, "test-health") as made:
        LiveExecutors(SparkLevers(made), SystemClock()).ensure(1)
        with worker(field, cores=ROOM):
            yield made


def test_a_sink_that_slows_down_gets_advice_and_no_executors(spark: SparkSession, tmp_path: Path) -> None:
    sick, recovered = threading.Event(), threading.Event()

    def write(rows: DataFrame, batch_id: int) -> None:  # noqa: ARG001 (Spark's)
        rows.repartition(4).count()
        if sick.is_set():
            recovered.wait(SICK_S)

    journal = Journal(tmp_path / "journal")
    with fed(tmp_path / "log"), streaming(spark, tmp_path, write), attach(spark, config=settings((1, ROOM), tmp_path)):
        journal.until(lambda: calm(journal), "a calm query")
        slowed_at = time.time()
        sick.set()
        journal.until(lambda: journal.codes(slowed_at).count(ReasonCode.SICK_SINK) >= 5, "advice on the sink")
        late = journal.decisions(slowed_at)
        assert [decision for decision in late if decision.action is Action.UP] == []
        advice = [decision for decision in late if decision.reason.code is ReasonCode.SICK_SINK]
        assert all("the sink is sick" in decision.reason.text for decision in advice)
        sick.clear()
        recovered.set()
        journal.until(lambda: last(journal).sink is None, "a healthy sink")

    seen = [cycle.assessment for cycle in journal.cycles() if cycle.assessment is not None]
    assert any(len(each.stages) > 1 and each.useful_executors == PARTITIONS for each in seen)
    batches = [query.batch for cycle in journal.cycles() if cycle.observation for query in cycle.observation.queries]
    known = [batch for batch in batches if batch is not None and batch.work_s is not None]
    assert known
    assert [batch for batch in known if not 0 < (batch.work_s or 0) < batch.duration_s] == []


@dataclass(frozen=True)
class Slowed:
    """A query whose tasks take long in one executor.

    Attributes:
        order: file that names the executor.
        out: folder of what the query writes.
        halt: ends the input, and says how many records there were.
    """

    order: Path
    out: Path
    halt: Callable[[], int]


@pytest.fixture(scope="class")
def slowed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slowed]:
    folder = tmp_path_factory.mktemp("slowed")
    order, out = folder / "slow", folder / "out"
    work = slowed_by(order)

    def write(rows: DataFrame, batch_id: int) -> None:
        done = rows.mapInArrow(work, rows.schema).select("partition", "offset")
        done.write.mode("overwrite").parquet(str(out / str(batch_id)))

    with fed(folder / "log") as halt, streaming(spark, folder, write):
        yield Slowed(order, out, halt)


@pytest.fixture
def _room_for_one_more(field: Lab) -> Iterator[None]:
    with worker(field, cores=1):
        yield


class TestASlowedExecutor:
    """It is named, then another one comes in its place where that is allowed, and no record is lost."""

    def test_it_is_named(self, field: Lab, spark: SparkSession, slowed: Slowed, tmp_path: Path) -> None:
        journal = Journal(tmp_path / "journal")
        with attach(spark, config=settings((ROOM, ROOM), tmp_path, policy="static", objective="lag < 60s")):
            journal.until(lambda: last(journal).executors == ROOM and working(journal), "three executors at work")
            name = SparkLevers(spark).registered()[1]
            slow_down(field, slowed.order, name)
            journal.until(
                lambda: [each.split()[1] for each in last(journal).slow] == [name], "the slow one to be named"
            )
            told = journal.decisions()[-1].reason.text
            assert f"slow: executor {name} on " in told
            assert last(journal).skew == pytest.approx(1.0, abs=0.3)
            slowed.order.write_text("")
            journal.until(lambda: last(journal).slow == (), "the name to be taken back")

    @pytest.mark.timeout(600)
    @pytest.mark.usefixtures("_room_for_one_more")
    def test_it_is_replaced_and_no_record_is_lost(
        self, field: Lab, spark: SparkSession, slowed: Slowed, tmp_path: Path
    ) -> None:
        """One more comes, the slow one goes and not another, and there are never fewer than before."""
        levers = SparkLevers(spark)
        LiveExecutors(levers, SystemClock()).ensure(ROOM)
        until(lambda: len(levers.registered()) == ROOM, "three executors")
        before = levers.registered()
        name = before[1]
        journal = Journal(tmp_path / "journal")
        guard = {"replace_slow": True}
        allowed = settings((1, ROOM + 1), tmp_path, policy="static", objective="lag < 60s", guard=guard)
        with attach(spark, config=allowed):
            journal.until(lambda: working(journal), "three executors at work", LONG_S)
            slowed_at = time.time()
            slow_down(field, slowed.order, name)
            journal.until(
                lambda: name not in levers.registered() and journal.answered(),
                "one to come, and the slow one to go",
                LONG_S,
            )
            journal.until(
                lambda: last(journal).executors == ROOM and last(journal).slow == (), "three equally fast", LONG_S
            )
            sent = slowed.halt()
            journal.until(lambda: len(written(slowed.out)) >= sent, "every record to be written", LONG_S)

        come, *go = changes(journal.decisions(slowed_at))
        assert (come.action, come.target, come.reason.code) == (Action.UP, ROOM + 1, ReasonCode.SLOW_EXECUTOR)
        assert f"one more comes in the place of executor {name}" in come.reason.text
        assert {(each.action, each.target, each.first) for each in go} == {(Action.DOWN, ROOM, (name,))}
        outcomes = journal.outcomes(slowed_at)
        assert {each.status for each in outcomes} <= {OutcomeStatus.APPLIED, OutcomeStatus.HELD}
        assert [each.redone_tasks for each in outcomes if each.status is OutcomeStatus.APPLIED] == [0, 0], outcomes
        seen = [each.observation.cluster for each in journal.cycles(slowed_at) if each.observation is not None]
        assert min(len(cluster.executors) for cluster in seen if cluster is not None) == ROOM
        assert set(before) - set(levers.registered()) == {name}
        assert len(levers.registered()) == ROOM
        assert written(slowed.out) == every_record(sent)
