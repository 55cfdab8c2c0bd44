"""Which edge drops where: in the reader, or after it."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from rheostat.config.loading import load_settings
from rheostat.config.shedding import Sink, declare_shedding
from rheostat.errors import InputError
from rheostat.spark.shedding import Shedding

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
