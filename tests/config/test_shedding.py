"""What may be dropped, declared: the graph of S3, all faults at once."""

from __future__ import annotations

import doctest

import pytest

from rheostat.config import shedding
from rheostat.config.shedding import Edge, Sink, declare_shedding, join_graphs
from rheostat.errors import Fault, InputError


def faults(*args: object, **kwargs: object) -> list[Fault]:
    with pytest.raises(InputError) as caught:
        declare_shedding(*args, **kwargs)  # type: ignore[arg-type]
    return list(caught.value.faults)


def test_examples_in_docstrings():
    assert doctest.testmod(shedding).failed == 0


def test_by_default_one_source_leads_to_all_sinks():
    graph = declare_shedding([Sink("alerts"), Sink("report", 3, 0.5)])
    assert graph.edges == (Edge("source", "alerts"), Edge("source", "report"))
    assert graph.sinks["alerts"] == Sink("alerts", priority=0, minimum_accuracy=0.0)


def test_tasks_stand_in_topological_order_however_they_are_declared():
    graph = declare_shedding([Sink("out")], {"in": ["a"]}, {"c": ["out"], "b": ["c"], "a": ["b", "c"]})
    assert list(graph.tasks) == ["a", "b", "c"]
    assert [str(edge) for edge in graph.edges_from("a")] == ["a>b", "a>c", "b>c", "c>out"]
    assert graph.edges_from("out") == ()


def test_the_sinks_that_a_task_reaches():
    graph = declare_shedding([Sink("x"), Sink("y")], {"s": ["a", "b"]}, {"a": ["x"], "b": ["x", "y"]})
    assert graph.reachable("a") == {"x"}
    assert graph.reachable("b") == graph.reachable("s") == {"x", "y"}
    assert graph.reachable("y") == {"y"}


def test_an_edge_that_is_not_declared_names_the_closest_one():
    graph = declare_shedding([Sink("alerts")], {"clicks": ["parse"]}, {"parse": ["alerts"]})
    assert graph.edge("parse", "alerts") == Edge("parse", "alerts")
    with pytest.raises(InputError, match="did you mean 'parse>alerts'"):
        graph.edge("parse", "alert")


def test_all_faults_are_found_at_once():
    sinks = [Sink("a", 1, 1.2), Sink("a", 0, 0.1), Sink("b", 1.5, "x"), Sink("lonely"), Sink("odd name")]  # type: ignore[arg-type]
    found = faults(sinks, {"in": ["a", "a", "taks"], "dry": []}, {"task": ["b"], "one": ["two"], "two": ["one"]})
    assert {(fault.field, fault.given) for fault in found} == {
        ("lonely", "nothing leads to it"),
        ("name", "'odd name'"),
        ("name", "a"),
        ("odd name", "nothing leads to it"),
        ("sinks.a.minimum_accuracy", "1.2"),
        ("sinks.b.minimum_accuracy", "'x'"),
        ("sinks.b.priority", "1.5"),
        ("sources.dry", "nothing"),
        ("sources.in", "a"),
        ("sources.in", "taks"),
        ("task", "nothing leads to it"),
        ("tasks", "two>one>two"),
    }


@pytest.mark.parametrize(
    ("given", "named", "fields"),
    [
        pytest.param((["a"],), {}, ["sinks"], id="a name is no sink"),
        pytest.param(("a",), {}, ["sinks"], id="nor is it several"),
        pytest.param(([Sink(None)],), {}, ["sinks"], id="a sink without a name"),  # type: ignore[arg-type]
        pytest.param(([Sink("a")], ["clicks"]), {}, ["sources"], id="sources that lead nowhere"),
        pytest.param(([Sink("a")], None, "t"), {}, ["tasks"], id="tasks likewise"),
        pytest.param(([Sink("a")],), {"by_key": [("s", "t", "a")]}, ["by_key"], id="an edge of three"),
        pytest.param(
            ([Sink("a", measure=None, measure_options=None)],),  # type: ignore[arg-type]
            {},
            ["sinks.a.measure", "sinks.a.measure_options"],
            id="no measure",
        ),
    ],
)
def test_what_is_no_graph_at_all_is_refused(given, named, fields):
    with pytest.raises(InputError) as error:
        declare_shedding(*given, **named)
    assert [fault.field for fault in error.value.faults] == fields


def test_a_circle_is_named_without_what_leads_out_of_it():
    (fault,) = faults([Sink("q")], {"s": ["p"]}, {"p": ["x"], "x": ["y"], "y": ["x", "z"], "z": ["q"]})
    assert (fault.field, fault.given) == ("tasks", "y>x>y")


def test_one_edge_is_a_list_of_one():
    assert declare_shedding([Sink("a")], by_key="source>a").by_key == {Edge("source", "a")}


def test_edges_may_be_given_one_by_one():
    assert declare_shedding([Sink("a")], by_key=(edge for edge in ["source>a"])).by_key == {Edge("source", "a")}


def test_something_must_be_declared():
    assert {fault.field for fault in faults([], {})} == {"sinks", "sources"}


@pytest.mark.parametrize("accuracy", [-0.1, 1.0001, float("nan"), "0.5", None])
def test_an_accuracy_is_a_share(accuracy):
    assert [fault.field for fault in faults([Sink("a", 0, accuracy)])] == ["sinks.a.minimum_accuracy"]


@pytest.mark.parametrize("priority", [-7, 0, 2**31 - 1])
def test_a_priority_is_an_integer_of_any_sign(priority):
    assert declare_shedding([Sink("a", priority)]).sinks["a"].priority == priority


def test_a_single_name_and_an_edge_as_text_are_understood():
    graph = declare_shedding([Sink("q")], {"s": "q"}, by_key=["s>q"])
    assert graph == declare_shedding([Sink("q")], {"s": ["q"]}, by_key=[("s", "q")])


def test_graphs_of_one_application_are_joined_and_share_no_names():
    one = declare_shedding([Sink("a", 1, 0.5)], {"in": ["parse"]}, {"parse": ["a"]}, by_key=[("parse", "a")])
    other = declare_shedding([Sink("b")], {"points": ["b"]}, by_value=["points>b"])
    joined = join_graphs([one, other])
    assert [str(edge) for edge in joined.edges] == ["in>parse", "points>b", "parse>a"]
    assert joined.sinks == {"a": Sink("a", 1, 0.5), "b": Sink("b")}
    assert (joined.by_key, joined.by_value) == (one.by_key, other.by_value)
    with pytest.raises(InputError) as caught:
        join_graphs([one, one])
    assert [fault.given for fault in caught.value.faults] == ["in", "parse"]
    with pytest.raises(InputError, match="a is declared 2 times"):
        join_graphs([one, declare_shedding([Sink("a")], {"other": ["a"]})])
