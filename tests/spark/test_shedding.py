"""Which edge drops where: in the reader, or after it."""

from __future__ import annotations

import pytest

from rheostat.config.shedding import Sink, declare_shedding
from rheostat.errors import InputError
from rheostat.spark.shedding import Shedding

GRAPH = declare_shedding(
    [Sink("alerts", 5, 0.7), Sink("report")],
    {"clicks": ["parse"], "users": ["join", "report"]},
    {"parse": ["join", "report"], "join": ["alerts"]},
)


def test_the_only_edge_of_a_source_drops_in_the_reader():
    assert Shedding(GRAPH).source_options("clicks") == {
        "edge": "clicks>parse",
        "edges": "parse>join,parse>report,join>alerts",
    }


def test_of_several_edges_none_drops_in_the_reader_unless_the_stream_is_for_one():
    shedding = Shedding(GRAPH)
    assert shedding.source_options("users") == {"edges": "users>join,users>report,join>alerts"}
    assert shedding.source_options("users", "join") == {"edge": "users>join", "edges": "join>alerts"}
    assert shedding.source_options("users", "report") == {"edge": "users>report", "edges": ""}


def test_what_is_not_declared_is_refused():
    with pytest.raises(InputError, match="this source is not declared"):
        Shedding(GRAPH).source_options("click")
    with pytest.raises(InputError, match="this edge is not declared"):
        Shedding(GRAPH).source_options("clicks", "report")
