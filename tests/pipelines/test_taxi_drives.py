"""The pipeline taxi drives without Spark: its graph, its settings, and the processor time that a record costs."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from rheostat.config.shedding import Sink
from rheostat.errors import InputError
from rheostat.pipelines.click_fraud import HALVES, make_lookup
from rheostat.pipelines.running import TaxiDrivesSettings
from rheostat.pipelines.taxi_drives import PIPELINE, declare

LOG: dict[str, Any] = {"source": "log", "log": "l", "checkpoint": "c", "out": "o"}


def test_two_sources_a_union_and_two_sinks() -> None:
    graph = declare(TaxiDrivesSettings(**LOG, priority_2=7, accuracy_1=0.1))
    assert [str(edge) for edge in graph.edges] == [
        *("drives-1>parse-1", "drives-2>parse-2", "parse-1>union", "parse-2>union", "union>sink-1", "union>sink-2")
    ]
    assert list(graph.sinks.values()) == [Sink("sink-1", 0, 0.1), Sink("sink-2", 7, 0.6)]


def test_the_settings_say_all_faults_at_once() -> None:
    wrong = {"orders": "orders.json", "work_us": -1, "light_us": "x", "accuracy_1": 1.5, "accuracy_2": None}
    with pytest.raises(InputError) as caught:
        TaxiDrivesSettings(**(LOG | wrong), shuffle_partitions=0, window_s=0.5, cap=0)
    fields = ["cap", "orders", "work_us", "light_us", "accuracy_1", "accuracy_2", "shuffle_partitions", "window_s"]
    assert [fault.field for fault in caught.value.faults] == fields
    assert caught.value.faults[1].allowed == "none, or source rheostat-kafka"


def test_the_program_has_an_option_for_every_setting() -> None:
    given = ["--master=local[1]", "--source=rheostat-kafka", "--topic=drives", "--bootstrap=a:1", "--checkpoint=kept"]
    given += ["--out=out", "--orders=orders.json", "--work-us=500", "--priority-1=-3", "--accuracy-2=0.5"]
    found = PIPELINE.read_settings(PIPELINE.parser().parse_args(given))
    assert (found.topic, found.orders, found.work_us, found.light_us) == ("drives", "orders.json", 500.0, 0.0)
    assert (found.priority_1, found.priority_2, found.accuracy_1, found.accuracy_2) == (-3, 0, 0.4, 0.5)
    assert (found.query_name, found.lookup_ms, found.shuffle_partitions) == ("taxi_drives", 0.0, 2)


def test_orders_need_a_source_that_takes_them() -> None:
    shedding: Any = object()
    spark: Any = None
    with pytest.raises(InputError, match="by orders, which other sources do not take"):
        PIPELINE.start_all(TaxiDrivesSettings(**LOG), spark, shedding)


def test_each_record_uses_its_processor_time() -> None:
    batch = pa.RecordBatch.from_pydict({"id": list(range(200)), "value": [1.0] * 200})
    begin = time.thread_time()
    (result,) = make_lookup(0.0, 500.0)([batch])
    assert 0.1 <= time.thread_time() - begin < 0.3
    assert result.schema.names == ["value", *HALVES]
