"""Orders to the Kafka source: read as a whole, ignored and named once when they are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rheostat.errors import InputError
from rheostat.spark.orders import ORDERS_SCHEMA, Orders, OrdersFile, Pause, parse_orders, write_orders

NOW = 1_790_000_000_000


def orders(number: int = 1, **more: object) -> Orders:
    return Orders(**{"number": number, "until_ms": NOW + 60_000, **more})  # type: ignore[arg-type]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    asked = orders(7, read_tasks=4, records=500, paused=True, keep={"b": 0, "a": 1_000_000})
    write_orders(tmp_path / "orders.json", asked)
    assert OrdersFile(tmp_path / "orders.json").read(NOW) == asked


def test_without_a_file_there_are_none(tmp_path: Path) -> None:
    assert OrdersFile(tmp_path / "none.json").read(NOW) is None


def test_orders_end_if_they_are_not_renewed(tmp_path: Path) -> None:
    file = OrdersFile(tmp_path / "orders.json")
    write_orders(tmp_path / "orders.json", orders(paused=True))
    assert file.read(NOW + 59_999) is not None
    assert file.read(NOW + 60_000) is None


def test_malformed_and_stale_orders_are_ignored_and_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "orders.json"
    file = OrdersFile(path)
    write_orders(path, orders(5, records=10))
    assert file.read(NOW) == orders(5, records=10)
    for text, words in (("{", "the orders are ignored"), ('{"number": 1.5}', "orders.number")):
        path.write_text(text, encoding="utf-8")
        caplog.clear()
        assert [file.read(NOW) for _ in range(3)] == [orders(5, records=10)] * 3
        assert caplog.text.count(words) == 1
    write_orders(path, orders(4, records=99))
    caplog.clear()
    assert [file.read(NOW) for _ in range(3)] == [orders(5, records=10)] * 3
    assert caplog.text.count("orders 4 are ignored: 5 were seen before") == 1
    write_orders(path, orders(6))
    assert file.read(NOW) == orders(6)


def test_a_pause_leaves_the_orders_as_they_are(tmp_path: Path) -> None:
    paths = [tmp_path / "with.json", tmp_path / "without.json"]
    write_orders(paths[0], orders(3, keep={"a": 5}))
    files, pause = [OrdersFile(path) for path in paths], Pause(paths, 30.0)
    pause.begin(NOW)
    assert [file.is_paused(NOW) for file in files] == [True, True]
    write_orders(paths[0], orders(4, keep={"a": 6}))
    assert files[0].read(NOW) == orders(4, keep={"a": 6})
    pause.end()
    assert [file.is_paused(NOW) for file in files] == [False, False]


def test_a_pause_ends_by_itself(tmp_path: Path) -> None:
    Pause([tmp_path / "orders.json"], 30.0).begin(NOW)
    file = OrdersFile(tmp_path / "orders.json")
    assert file.is_paused(NOW + 29_999)
    assert not file.is_paused(NOW + 30_000)


def test_where_one_file_cannot_be_written_none_is_paused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OSError, match="file"):
        Pause([tmp_path / "orders.json", tmp_path / "file" / "orders.json"], 30.0).begin(NOW)
    assert not OrdersFile(tmp_path / "orders.json").is_paused(NOW)


def test_all_faults_of_orders_are_found_at_once() -> None:
    wrong = {
        "schema": "rheostat.orders/0",
        "number": -1,
        "read_tasks": 0,
        "records": "many",
        "paused": 1,
        "keep": {"a": 1_000_001, "b": 0.5},
        "keeps": {},
    }
    with pytest.raises(InputError) as caught:
        parse_orders(json.dumps(wrong))
    found = {fault.field for fault in caught.value.faults}
    assert found == {
        "orders.keep.a",
        "orders.keep.b",
        "orders.keeps",
        "orders.number",
        "orders.paused",
        "orders.read_tasks",
        "orders.records",
        "orders.schema",
        "orders.until_ms",
    }


@pytest.mark.parametrize("text", ["", "[]", "7", json.dumps({"schema": ORDERS_SCHEMA})])
def test_what_is_no_order_is_a_fault(text: str) -> None:
    with pytest.raises(InputError):
        parse_orders(text)


@pytest.mark.parametrize(
    "wrong", [{"keep": {"a>b": 2_000_000}}, {"read_tasks": 0}, {"until_ms": 1.5}, {"above": {"a>b": (float("nan"), 1)}}]
)
def test_orders_that_a_source_would_ignore_are_not_written(tmp_path, wrong):
    with pytest.raises(InputError):
        write_orders(tmp_path / "orders.json", Orders(**{"number": 1, "until_ms": 5, **wrong}))
    assert not list(tmp_path.iterdir())
