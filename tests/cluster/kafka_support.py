"""Topics for the tests of the Kafka source: how they are made and filled, and what is read of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, Row, SparkSession
from tests.cluster.support import TIMEOUT_S, until

from rheostat.host.java import kafka_connector_jars
from rheostat.lab.broker import quiet_client
from rheostat.lab.lab import Lab
from rheostat.pipelines.running import base_conf, open_session
from rheostat.spark.kafka_source import register
from rheostat.spark.orders import Orders, write_orders

FORMATS = ("kafka", "rheostat-kafka")


@contextmanager
def kafka_session(name: str, **conf: str) -> Iterator[SparkSession]:
    """A session of two slots with both sources."""
    jars = ",".join(str(jar) for jar in kafka_connector_jars())
    conf = {"spark.jars": jars, "spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false", **conf}
    with open_session(name, "local[2]", {**base_conf(), **conf}) as session:
        register(session)
        yield session


def make_topic(lab: Lab, name: str, partitions: int, **config: str) -> str:
    new = NewTopic(name, partitions, 1, config=config)
    admin = quiet_client(lab.broker.bootstrap)  # it has to live until the answer is there
    admin.create_topics([new])[name].result(TIMEOUT_S)
    return name


def delete_topic(lab: Lab, name: str) -> None:
    """Delete it, and wait until it is gone."""
    admin = quiet_client(lab.broker.bootstrap)
    admin.delete_topics([name])[name].result(TIMEOUT_S)
    until(lambda: name not in admin.list_topics(timeout=TIMEOUT_S).topics, "the topic to be gone")


def send(lab: Lab, topic: str, records: int, *, first: int = 0, partitions: int = 3, **config: Any) -> None:
    """Records with their number as value, in turn to each partition."""
    producer = Producer({"bootstrap.servers": lab.broker.bootstrap, **config})
    for number in range(first, first + records):
        key = None if number % 5 == 0 else f"k{number % 7}".encode()
        headers: Any = [("h", str(number).encode()), ("h", None)] if number % 4 == 0 else None
        producer.produce(topic, str(number).encode(), key, partition=number % partitions, headers=headers)
    assert producer.flush(TIMEOUT_S) == 0


def options(lab: Lab, topic: str, **more: Any) -> dict[str, Any]:
    return {"kafka.bootstrap.servers": lab.broker.bootstrap, "subscribe": topic, **more}


def read(spark: SparkSession, name: str, given: dict[str, Any]) -> list[Row]:
    rows = spark.read.format(name).options(**given).load()
    return sorted(rows.collect(), key=lambda row: (row.topic, row.partition, row.offset))


class Collector:
    """A sink that keeps the rows of each batch, on the driver."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Row]] = {}

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = rows.collect()

    @property
    def rows(self) -> list[Row]:
        return [row for batch in self.batches.values() for row in batch]

    def numbers(self) -> list[int]:
        return sorted(int(row.value) for row in self.rows)

    def in_order(self) -> bool:
        """Whether the rows of each partition came in the order of their offsets, each once."""
        last: dict[tuple[str, int], int] = {}
        for row in self.rows:
            if row.offset <= last.get((row.topic, row.partition), -1):
                return False
            last[row.topic, row.partition] = row.offset
        return True


def offsets_of(checkpoint: Path, batch: int) -> dict[str, Any]:
    return dict(json.loads((checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()[-1]))


def order(path: Path, number: int, **more: Any) -> None:
    write_orders(path, Orders(number=number, until_ms=int(time.time() * 1000) + 600_000, **more))
