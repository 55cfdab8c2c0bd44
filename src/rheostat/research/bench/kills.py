"""``rheostat bench kills``: driver, executor and broker are killed, again and again, while records are dropped.

A query on ``rheostat-kafka`` drops at one edge, whose non-drop probability changes with every second batch, and writes
what it keeps to files. What was killed is started again. At the end each record of the topic has to be either in the
files, once, or one whose draw says that its batch dropped it: by topic, partition, offset and id. This module is also
the program of the driver.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rheostat.config.shedding import WHOLE, Sink, declare_shedding
from rheostat.errors import PartFailedError
from rheostat.host.processes import Launch, Part, module_command, module_environment
from rheostat.host.spark_daemons import WorkerSize
from rheostat.lab.lab import Lab, LabSpec
from rheostat.load.kafka_sink import ensure_topic
from rheostat.observe.rest import list_batches, read_offsets
from rheostat.pipelines.running import base_conf, finish, open_session
from rheostat.pipelines.sink import find_batches, make_writer, read_tables
from rheostat.research.bench.harness import Bench, Metric, Watch, ignore_progress, lab_and_folder, load_note, until
from rheostat.spark.kafka_offsets import pieces_between, plan_of, positions_of
from rheostat.spark.keep import is_kept, seed_of
from rheostat.spark.orders import Orders, now_ms, write_orders
from rheostat.spark.shedding import Shedding

TOPIC, EDGE = "killed", "clicks>counts"
KINDS = ("driver", "executor", "broker")
SHARES = (0, 1, WHOLE // 10, WHOLE // 2, WHOLE - 1, WHOLE)
_GRAPH = declare_shedding([Sink("counts")], {"clicks": ["counts"]})
_PARTITIONS, _EXECUTORS, _EXECUTOR_MB = 3, 2, 512
_BROKER_AWAY_S = 5.0
_LONGEST_S = 300.0
_LOOK_S = 0.1

Place = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done.

    Attributes:
        seconds: for which something is killed now and then; longer until each kind has been once.
        between_s: least and greatest time between two kills.
        rate: records/s that are written.
    """

    seconds: float = 600.0
    between_s: tuple[float, float] = (8.0, 20.0)
    rate: float = 300.0
    seed: int = 7


def run_kills(watch: Watch = ignore_progress, plan: Plan | None = None) -> Bench:
    """What became of every record.

    Raises:
        PartFailedError: a part does not start again.
        UnavailableError: the query does not reach the end of the topic.
    """
    plan, load = plan or Plan(), os.getloadavg()
    with lab_and_folder(LabSpec(workers=0), watch) as (lab, scratch):
        ensure_topic(lab.broker.bootstrap, TOPIC, _PARTITIONS, create=True)
        lab.cluster.add_worker(WorkerSize(cores=_EXECUTORS, memory_mb=_EXECUTORS * _EXECUTOR_MB))
        stage = _Stage(lab, scratch, plan)
        kills = stage.play(watch)
        topic = _read_topic(lab.broker.bootstrap)
        expected, batches, shares = _expected(scratch / "checkpoint", topic)
        got = list(_read_sink(scratch / "out"))
    figures = _figures(topic, expected, got, batches, shares, kills)
    return Bench("kills", figures, (_note(plan), load_note(load)))


class _Stage:
    """Everything that runs, and what ends it."""

    def __init__(self, lab: Lab, folder: Path, plan: Plan) -> None:
        self._lab, self._folder, self._plan = lab, folder, plan
        self._random = random.Random(plan.seed)
        self._orders, self._checkpoint = folder / "orders.json", folder / "checkpoint"
        self._ended = threading.Event()
        self._starts, self._ordered = 0, -1
        self._driver = self._start_driver()

    def play(self, watch: Watch) -> Counter[str]:
        """Write, kill and start again; returns how often each kind was killed."""
        producing = threading.Thread(target=_produce, args=(self._lab.broker.bootstrap, self._plan.rate, self._ended))
        producing.start()
        try:
            until(lambda: self._tend() and self._commits() >= 2, "the first batches", _LONGEST_S, _LOOK_S)
            kills = self._kill_for_a_while(watch)
        finally:
            self._ended.set()
            producing.join()
        watch(0, 0, "waiting for the end of the topic")
        until(lambda: self._tend() and self._has_read_everything(), "the end of the topic", _LONGEST_S, _LOOK_S)
        self._driver.expect_end()
        os.kill(self._driver.pid, signal.SIGTERM)
        self._driver.wait_exit(_LONGEST_S)
        return kills

    def _kill_for_a_while(self, watch: Watch) -> Counter[str]:
        kills, queue = Counter[str](), list[str]()
        began = time.monotonic()
        due = began + self._random.uniform(*self._plan.between_s)
        while (now := time.monotonic()) < began + self._plan.seconds or len(kills) < len(KINDS):
            self._tend()
            if now >= due:
                queue = queue or self._random.sample(KINDS, len(KINDS))
                watch(round(now - began), round(self._plan.seconds), f"the {queue[-1]} is killed")
                if self._kill(queue[-1]):  # else there is none at the moment
                    kills[queue.pop()] += 1
                    due = time.monotonic() + self._random.uniform(*self._plan.between_s)
            time.sleep(_LOOK_S)
        return kills

    def _kill(self, kind: str) -> bool:
        if kind == "driver":
            self._driver.expect_end()
            self._driver.signal(signal.SIGKILL)
            return True
        if kind == "executor":
            executors = self._lab.executor_pids()
            if executors:
                os.kill(self._random.choice(executors), signal.SIGKILL)
            return bool(executors)
        self._lab.broker.kill()
        time.sleep(self._random.uniform(0.0, _BROKER_AWAY_S))
        self._lab.broker.start()
        return True

    def _tend(self) -> bool:
        """Start the driver if it has ended, and change the orders with every second batch."""
        if not self._driver.alive():
            self._driver.expect_end()
            self._driver = self._start_driver()
        commits = self._commits()
        if commits // 2 != self._ordered:
            self._ordered = commits // 2
            keep = {EDGE: self._random.choice([*SHARES, self._random.randrange(WHOLE)])}
            now = now_ms()
            write_orders(self._orders, Orders(number=now, until_ms=now + 3_600_000, keep=keep))
        return True

    def _start_driver(self) -> Part:
        self._starts += 1
        cluster = self._lab.cluster
        job = {
            "conf": {**base_conf(), **cluster.driver_conf(executor_memory_mb=_EXECUTOR_MB), **_CONF},
            "bootstrap": self._lab.broker.bootstrap,
            "orders": str(self._orders),
            "checkpoint": str(self._checkpoint),
            "out": str(self._folder / "out"),
        }
        path = self._folder / f"job-{self._starts}.json"
        path.write_text(json.dumps(job), encoding="utf-8")
        environment = module_environment() | cluster.driver_environment()
        launch = Launch(module_command(__name__, str(path)), environment, self._folder)
        return self._lab.run_part(f"driver-{self._starts}", launch)

    def _commits(self) -> int:
        return len(list_batches(self._checkpoint / "commits"))

    def _has_read_everything(self) -> bool:
        commits = list_batches(self._checkpoint / "commits")
        reached = positions_of(_offset(self._checkpoint, commits[-1])) if commits else {}
        return {number: end for (_, number), end in reached.items()} == _ends(self._lab.broker.bootstrap)


def _produce(bootstrap: str, rate: float, ended: threading.Event) -> None:
    """Write ids, in turn to each partition; the client sends again what a killed broker did not acknowledge."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "delivery.timeout.ms": 600_000}
    producer, began, number = Producer({**settings, "log_level": 0}), time.monotonic(), 0
    while not ended.wait(0.05):
        while number < (time.monotonic() - began) * rate:
            producer.produce(TOPIC, str(number).encode(), partition=number % _PARTITIONS)
            number += 1
        producer.poll(0)
    if producer.flush(_LONGEST_S):
        message = "records are not acknowledged"
        raise PartFailedError("the producer", message, "")


# What became of the records


def _ends(bootstrap: str) -> dict[int, int]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends", "log_level": 0})
    try:
        parts = [TopicPartition(TOPIC, number) for number in range(_PARTITIONS)]
        return {part.partition: consumer.get_watermark_offsets(part, timeout=30.0)[1] for part in parts}
    finally:
        consumer.close()


def _read_topic(bootstrap: str) -> dict[Place, int]:
    """The id of each record."""
    from confluent_kafka import Consumer, TopicPartition

    left, found = _ends(bootstrap), dict[Place, int]()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "all", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in left])
    until(lambda: _take(consumer, found) == sum(left.values()), "all records of the topic", _LONGEST_S, 0.0)
    consumer.close()
    return found


def _take(consumer: Any, found: dict[Place, int]) -> int:
    for message in consumer.consume(10_000, 1.0):
        if message.error() is None:
            found[message.partition(), message.offset()] = int(message.value())
    return len(found)


def _offset(checkpoint: Path, batch: int) -> dict[str, Any]:
    (end,) = read_offsets(checkpoint / "offsets" / str(batch))
    return dict(end)


def _expected(checkpoint: Path, topic: Mapping[Place, int]) -> tuple[Counter[Place], int, int]:
    """The records that the draws of their batches keep; the number of batches, and of different shares.

    A record that no batch has read is expected too: then it is missing.
    """
    expected, read, shares = Counter[Place](), Counter[Place](), set[int]()
    start = dict[str, Any]()
    batches = list_batches(checkpoint / "commits")
    for batch in batches:
        end = _offset(checkpoint, batch)
        keep = plan_of(end).keep.get(EDGE, WHOLE)
        shares.add(keep)
        for piece in pieces_between(start, end):
            seed = seed_of(EDGE, piece.topic, piece.partition)
            for offset in range(piece.start, piece.end):
                read[piece.partition, offset] += 1
                if is_kept(seed, offset, keep):
                    expected[piece.partition, offset] += 1
        start = end
    for place in topic:
        if read[place] != 1:
            expected[place] += 1 + read[place]  # no sink can be right
    return expected, len(batches), len(shares)


def _read_sink(out: Path) -> Iterator[tuple[Place, int]]:
    """Place and id of each record in the complete batches."""
    columns, (complete, _) = ["partition", "offset", "id"], find_batches(out)
    for table in read_tables(complete, columns):
        rows = zip(*(table.column(name).to_pylist() for name in columns), strict=True)
        yield from (((partition, offset), number) for partition, offset, number in rows)


def _figures(
    topic: Mapping[Place, int],
    expected: Counter[Place],
    got: list[tuple[Place, int]],
    batches: int,
    shares: int,
    kills: Counter[str],
) -> tuple[Metric, ...]:
    places = Counter(place for place, _ in got)
    lost, more = (expected - places).total(), (places - expected).total()
    other = sum(topic.get(place) != number for place, number in got)
    ids = len(set(topic.values()))
    return (
        Metric("records that should be there and are not", lost, "records", len(topic), target=0),
        Metric("records that are there and should not, or twice", more, "records", len(topic), target=0),
        Metric("records with the id of another", other, "records", len(got), target=0),
        Metric("records in the topic", len(topic), "records", ids),
        Metric("records kept", len(got), "records", batches),
        Metric("records shed", len(topic) - len(got), "records", batches),
        Metric("different non-drop probabilities", shares, "", batches),
        *(Metric(f"kills of the {kind}", kills[kind], "", kills.total()) for kind in KINDS),
    )


def _note(plan: Plan) -> str:
    low, high = plan.between_s
    return (
        f"{plan.rate:g} records/s for {plan.seconds:g} s, a kill (SIGKILL) every {low:g} to {high:g} s, the kinds by "
        f"turns, in random order; {_EXECUTORS} executors; the non-drop probability changes with every second batch."
    )


# The driver

_CONF = {"spark.ui.enabled": "false", "spark.sql.streaming.minBatchesToRetain": "1000000"}


def main(argv: list[str]) -> int:
    """Run the query until SIGTERM; a restart goes on where the checkpoint ends."""
    job = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with open_session("kills", job["conf"]["spark.master"], job["conf"]) as spark:
        options = {
            "kafka.bootstrap.servers": job["bootstrap"],
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "5000",
        }
        rows = Shedding(_GRAPH, Path(job["orders"])).read(spark, "clicks", options)
        kept = rows.selectExpr("partition", "offset", "CAST(CAST(value AS STRING) AS LONG) AS id")
        writer = kept.writeStream.foreachBatch(make_writer(job["out"])).trigger(processingTime="500 milliseconds")
        query = writer.option("checkpointLocation", job["checkpoint"]).start()
        while query.isActive and not stop.wait(0.2):
            pass
        finish(query)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
