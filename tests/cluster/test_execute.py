"""Executors of a real application, grown and shrunk while its query runs, on a real standalone cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.query import StreamingQuery
from tests.cluster.support import worker
from tests.execute import contract

from rheostat.errors import ActuationError
from rheostat.execute.live import LiveExecutors, Patience
from rheostat.lab.lab import Lab
from rheostat.loop.clock import SystemClock
from rheostat.model import Outcome, OutcomeStatus, ReasonCode
from rheostat.spark.levers import SparkLevers

pytestmark = pytest.mark.cluster

TIMEOUT_S = 60.0
ROWS = 200
ROOM = 3


@pytest.fixture(scope="module")
def spark(field: Lab) -> Iterator[SparkSession]:
    """A session on a cluster with room for three executors; the first was asked for before there was a Worker."""
    with pytest.MonkeyPatch.context() as here:
        for name, value in field.cluster.driver_environment().items():
            here.setenv(name, value)
        builder = SparkSession.builder.appName("test-execute")
        for key, value in (field.cluster.driver_conf() | {"spark.sql.shuffle.partitions": "3"}).items():
            builder = builder.config(key, value)
        made = builder.getOrCreate()
        made.sparkContext.setLogLevel("OFF")
        LiveExecutors(SparkLevers(made), SystemClock()).ensure(1)
        with worker(field, cores=ROOM):
            yield made
            made.stop()


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline, f"waited {TIMEOUT_S:g} s for {what}"
        time.sleep(0.02)


class Stage:
    """The levers and an actuator on the session."""

    def __init__(self, spark: SparkSession, patience: Patience | None = None):
        self.levers = SparkLevers(spark)
        self.live = LiveExecutors(self.levers, SystemClock(), patience)
        self.found: Outcome | None = None
        self.decisions = 0

    def change(self, target: int) -> Outcome:
        self.decisions += 1
        self.live.apply(contract.decide(target, time.time(), self.decisions))
        return self.outcome()

    def outcome(self) -> Outcome:
        def ended() -> bool:
            self.found = self.live.poll(time.time())
            return self.found is not None

        until(ended, "an outcome")
        assert self.found is not None
        return self.found

    def have(self, executors: int) -> None:
        """Whatever was before: so many, all idle, none on its way out."""
        self.levers.request_total(executors)
        self.levers.kill_forced(self.levers.registered()[executors:])
        until(lambda: len(self.levers.idle()) == len(self.levers.listed()) == executors, f"{executors} executors")


@pytest.fixture
def stage(spark: SparkSession) -> Iterator[Callable[..., Stage]]:
    made: list[Stage] = []

    def make(executors: int, patience: Patience | None = None) -> Stage:
        made.append(Stage(spark, patience))
        made[-1].have(executors)
        return made[-1]

    yield make
    for each in made:
        each.live.close()


class Counted:
    """A query that counts and sums what it reads; its records wait, so that tasks take their time."""

    def __init__(self, spark: SparkSession, folder: Path, trigger: str, record_s: float):
        self.totals: dict[int, tuple[int, int]] = {}
        stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 4)
        keyed = slow(stream.load(), record_s).selectExpr("value % 7 AS key", "value").groupBy("key")
        writer = keyed.agg(functions.count("*").alias("count"), functions.sum("value").alias("total")).writeStream
        writer = writer.foreachBatch(self._keep).outputMode("update").trigger(processingTime=trigger)
        self.query: StreamingQuery = writer.option("checkpointLocation", str(folder / "checkpoint")).start()

    def _keep(self, rows: DataFrame, _batch: int) -> None:
        self.totals |= {row["key"]: (row["count"], row["total"]) for row in rows.collect()}

    def batches(self) -> int:
        return int((self.query.lastProgress or {"batchId": -1})["batchId"]) + 1

    def goes_on(self) -> None:
        """Two more batches."""
        reached = self.batches() + 2
        until(lambda: self.batches() >= reached, "two batches")

    def check(self) -> None:
        """Every record was counted once."""
        count = sum(count for count, _ in self.totals.values())
        assert count % ROWS == 0
        assert count >= ROWS * self.batches()
        assert sum(total for _, total in self.totals.values()) == count * (count - 1) // 2


def slow(rows: DataFrame, record_s: float) -> DataFrame:
    def wait(batches):
        import time

        for batch in batches:
            time.sleep(record_s * batch.num_rows)
            yield batch

    return rows.mapInArrow(wait, rows.schema)


@contextmanager
def counted(spark: SparkSession, folder: Path, *, trigger: str, record_s: float) -> Iterator[Counted]:
    made = Counted(spark, folder, trigger, record_s)
    try:
        made.goes_on()
        yield made
    finally:
        made.query.stop()


def kill_process(spark: SparkSession, executor: str) -> None:
    port = f":{spark.conf.get('spark.driver.port')}"
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        ours = "--executor-id" in words and any(port in word for word in words)
        if ours and words[words.index("--executor-id") + 1] == executor and "Backend" in " ".join(words):
            process.kill()


@pytest.mark.parametrize("rule", contract.RULES, ids=lambda rule: rule.__name__.replace("_", " "))
def test_it_keeps_what_every_actuator_keeps(stage, rule):
    here = stage(1)
    found: list[Outcome] = []

    class Polled(LiveExecutors):
        def poll(self, at: float) -> Outcome | None:
            return found.pop() if found else super().poll(at)

    here.live = Polled(here.levers, SystemClock())
    rule(contract.Case(here.live, lambda: found.append(here.outcome())))


def test_from_one_to_three_and_back_in_the_gap_between_two_triggers(spark, stage, tmp_path):
    here = stage(1)
    with counted(spark, tmp_path, trigger="4 seconds", record_s=0.001) as job:
        grown = here.change(3)
        job.goes_on()
        first = here.levers.oldest_stage()
        shrunk = here.change(1)
        job.goes_on()
        left = here.levers.listed()
    job.check()

    assert (grown.status, grown.method, grown.before, grown.after) == (OutcomeStatus.APPLIED, "request", 1, 3)
    assert (shrunk.status, shrunk.method, shrunk.before, shrunk.after) == (OutcomeStatus.APPLIED, "gap", 3, 1)
    assert (shrunk.redone_tasks, here.levers.redone_tasks(first)) == (0, 0)
    assert len(left) == 1, "none of the removed was replaced"


def test_back_to_back_triggers_give_idle_executors_only_or_none(spark, stage, tmp_path):
    here = stage(3, Patience(gap_s=1.0, safe_moment_s=20.0))
    with counted(spark, tmp_path, trigger="0 seconds", record_s=0.002) as job:
        first = here.levers.oldest_stage()
        shrunk = here.change(1)
        job.goes_on()
    job.check()

    assert shrunk.method in ("gap", "idle", "none")
    assert (shrunk.method == "none") == (shrunk.status is OutcomeStatus.HELD)
    assert (shrunk.redone_tasks, here.levers.redone_tasks(first)) == (0, 0)


def test_by_force_exactly_the_redone_tasks_are_told_and_nothing_is_lost(spark, stage, tmp_path):
    """Killed in the first wave of a map stage, each victim has one task, and no map output yet."""
    here = stage(3, Patience(gap_s=0.0, safe_moment_s=0.0, allow_redone_work=True))
    with counted(spark, tmp_path, trigger="0 seconds", record_s=0.08) as job:
        until(lambda: here.levers.idle() and not here.levers.holding_map_output(), "the end of a batch")
        until(lambda: not here.levers.idle() and not here.levers.holding_map_output(), "three tasks of a first wave")
        shrunk = here.change(1)
        job.goes_on()
    job.check()

    assert (shrunk.status, shrunk.method, shrunk.after) == (OutcomeStatus.APPLIED, "forced", 1)
    assert shrunk.redone_tasks == 2


def test_a_request_that_is_never_granted(stage):
    here = stage(ROOM, Patience(start_up_s=2.0, least_no_room_s=6.0))

    outcome = here.change(ROOM + 1)

    assert (outcome.status, outcome.reason.code) == (OutcomeStatus.NO_ROOM, ReasonCode.NO_ROOM)
    assert outcome.took_s is not None
    assert 6.0 <= outcome.took_s < 10.0
    assert here.live.requested == ROOM + 1


def test_a_killed_executor_is_replaced_up_to_what_was_asked_for(spark, stage):
    here = stage(2)
    before = here.levers.registered()

    kill_process(spark, before[1])

    until(lambda: before[1] not in here.levers.registered(), "the loss")
    until(lambda: len(here.levers.registered()) == 2, "a replacement")
    assert here.levers.registered()[0] == before[0]


def test_a_source_that_takes_orders_is_paused_so_that_nothing_is_redone(
    field: Lab, spark: SparkSession, stage: Callable[..., Stage], tmp_path: Path
) -> None:
    """Batches follow one another without a gap until the source is told to begin none."""
    here, numbers = stage(3), list[int]()
    field.broker.create_topic("paused", 4)
    producer = Producer({"bootstrap.servers": field.broker.bootstrap})
    for number in range(8000):
        producer.produce("paused", str(number).encode(), partition=number % 4)
    assert producer.flush(TIMEOUT_S) == 0
    given = {"kafka.bootstrap.servers": field.broker.bootstrap, "subscribe": "paused", "startingOffsets": "earliest"}
    given |= {"maxOffsetsPerTrigger": "200", "orders": str(tmp_path / "orders.json")}
    rows = slow(spark.readStream.format("rheostat-kafka").options(**given).load().select("value"), 0.01)

    def keep(batch: DataFrame, _: int) -> None:
        numbers.extend(int(row.value) for row in batch.collect())

    writer = rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        until(lambda: len(numbers) >= 400, "two batches")
        outcome = here.change(1)
        assert (outcome.status, outcome.method, outcome.redone_tasks) == (OutcomeStatus.APPLIED, "paused", 0)
        assert len(here.levers.registered()) == 1
        reached = len(numbers) + 400
        until(lambda: len(numbers) >= reached, "two batches after the pause")
    finally:
        query.stop()
    assert len(set(numbers)) == len(numbers)


def test_a_session_that_has_ended_is_an_actuation_error(spark):
    """The last test of this file."""
    levers = SparkLevers(spark)
    spark.stop()

    with pytest.raises(ActuationError, match="listing the executors"):
        levers.registered()
