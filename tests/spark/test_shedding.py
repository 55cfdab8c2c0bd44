"""Which edge drops where: in the reader, or after it."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from rheostat.config.loading import load_settings
from rheostat.config.shedding import Sink, declare_shedding
from rheostat.errors import InputError
from rheostat.spark.shedding import Shedding

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

GRAPH = declare_shedding(
    [Sink("alerts", 5, 0.7), Sink("report")],
    {"clicks": ["parse"], "users": ["join", "report"]},
    {"parse": ["join", "report"], "join": ["alerts"]},
)


ORDERS = Path("orders.json")
SHEDDING = Shedding(GRAPH, ORDERS)


def test_the_only_edge_of_a_source_drops_in_the_reader():
    assert SHEDDING.source_options("clicks") == {
        "orders": "orders.json",
        "edge": "clicks>parse",
        "edges": "parse>join,parse>report,join>alerts",
    }


def test_of_several_edges_none_drops_in_the_reader_unless_the_stream_is_for_one():
    told = {"orders": "orders.json"}
    assert SHEDDING.source_options("users") == told | {"edges": "users>join,users>report,join>alerts"}
    assert SHEDDING.source_options("users", "join") == told | {"edge": "users>join", "edges": "join>alerts"}
    assert SHEDDING.source_options("users", "report") == told | {"edge": "users>report", "edges": ""}


def test_an_edge_that_drops_by_key_or_value_is_none_of_the_reader():
    graph = declare_shedding(
        [Sink("q"), Sink("r")], {"a": ["q"], "b": ["r"]}, by_key=[("a", "q")], by_value=[("b", "r")]
    )
    shedding = Shedding(graph, ORDERS)
    assert shedding.source_options("a") == {"orders": "orders.json", "edges": "a>q"}
    assert shedding.source_options("b") == {"orders": "orders.json", "edges": "b>r", "valued": "b>r"}
    given = {"objective": "lag < 30s", "executors": [1, 4], "shedding": shedding.settings()}
    assert load_settings(given).shedding.graph == graph


def test_what_is_not_declared_is_refused():
    with pytest.raises(InputError, match="this source is not declared"):
        SHEDDING.source_options("click")
    with pytest.raises(InputError, match="this edge is not declared"):
        SHEDDING.source_options("clicks", "report")


def test_orders_have_a_folder_of_their_own_that_goes_with_the_shedding():
    shedding = Shedding(GRAPH)
    folder = shedding.orders.parent
    assert folder.is_dir()
    del shedding
    gc.collect()
    assert not folder.exists()


def test_its_settings_are_those_of_the_graph():
    given = {"objective": "lag < 30s", "executors": [1, 4], "shedding": SHEDDING.settings()}
    settings = load_settings(given).shedding
    assert (settings.graph, settings.orders) == (GRAPH, ORDERS)


class Rows:
    """Rows of which only the columns are asked for."""

    columns = ("rheostat", "user")


def test_what_an_edge_cannot_do_is_refused_all_at_once():
    shedding, rows = Shedding(GRAPH, ORDERS), cast("DataFrame", Rows())
    shedding.source_options("clicks")
    with pytest.raises(InputError, match="the reader has dropped at this edge already") as caught:
        shedding.shed(rows, "clicks", "parse", by=["user", "name"], value=cast("Column", 1))
    assert [fault.field for fault in caught.value.faults] == ["by", "edge", "by", "value"]
    keyed = Shedding(replace(GRAPH, by_key=frozenset([GRAPH.edge("parse", "join")])), ORDERS)
    with pytest.raises(InputError, match="parse>join was declared to drop that way"):
        keyed.shed(rows, "parse", "join")


def test_edges_that_choose_are_checked_with_the_graph():
    with pytest.raises(InputError) as caught:
        declare_shedding([Sink("q")], by_key=[("source", "q"), ("source", "r")], by_value=[("source", "q")])
    assert [fault.field for fault in caught.value.faults] == ["by_key", "by_value"]
