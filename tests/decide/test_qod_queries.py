"""The controller of Stream Economics over the queries of a job: what processors allow, and executors that move."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.decide.test_shedding import OBJECTIVE_S, seen
from tests.policies.samples import Fixed, decision_settings, outcome
from tests.policies.samples import seen as healthy

from rheostat.config.shedding import WHOLE, SheddingGraph, Sink, declare_shedding
from rheostat.decide.decide import decide, learn
from rheostat.decide.qod_queries import plan_queries
from rheostat.decide.shedding import SheddingState, Work, plan_shedding
from rheostat.decide.state import GuardState, Moving
from rheostat.model import (
    Action,
    Assessment,
    EdgeCount,
    NodeCpu,
    NodeReading,
    Nodes,
    OutcomeStatus,
    Processors,
    QueryTask,
    ReasonCode,
    SourceLoad,
    TaskInstance,
)

GRAPH = declare_shedding([Sink("cheap", 0, 0.1), Sink("dear", 0, 0.1)], {"s": ["t"]}, {"t": ["cheap", "dear"]})


def processors(*, cores: int = 1, backlog: float = 0.0, **more: Any) -> Processors:
    """One node on which each query gets half of its 100 records/s, with 0.2 and 0.8 cores."""
    given = {
        "nodes": (NodeCpu("a", cores, 1.0),),
        "tasks": (
            QueryTask("one", (SourceLoad("s", 100.0, backlog),), ("cheap",)),
            QueryTask("two", (SourceLoad("s", 100.0, backlog),), ("dear",)),
        ),
        "instances": (TaskInstance("one", "a", 50.0, 0.2, "1"), TaskInstance("two", "a", 50.0, 0.8, "1")),
    }
    return Processors(**{**given, **more})


def test_a_cheap_query_gets_everything_before_a_dear_one_gets_half():
    plan = plan_queries(GRAPH, processors(), drain_s=10.0)
    assert plan is not None
    # 0.4 cores for all records of one, 0.6 for the other, which would need 1.6 but can use one
    assert plan.wanted == {"cheap": pytest.approx(1.0), "dear": pytest.approx(0.375)}
    assert plan.text == "the queries have 1.0 cores of a"


def test_what_waits_leaves_less_for_what_comes():
    plan = plan_queries(GRAPH, processors(backlog=1000.0), drain_s=10.0)
    assert plan is not None
    assert plan.wanted["dear"] < 0.2


SLOTS = (TaskInstance("one", "a", 50.0, 0.2, "1", slots=2), TaskInstance("two", "a", 50.0, 0.8, "1", slots=2))


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"cores": 4, "instances": SLOTS}, id="processors are not what limits"),
        pytest.param(
            {"tasks": (QueryTask("one", (SourceLoad("s", 100.0, None),), ("cheap",)),)},
            id="a sink of which nothing is known",
        ),
        pytest.param({"tasks": ()}, id="no query"),
    ],
)
def test_there_is_no_plan(given):
    few = processors(**given)
    few = replace(few, instances=tuple(each for each in few.instances if each.task in [t.name for t in few.tasks]))
    assert plan_queries(GRAPH, few, drain_s=10.0) is None


def test_one_query_may_serve_several_sinks_by_the_last_task_that_is_counted():
    alone = processors(
        tasks=(QueryTask("one", (SourceLoad("s", 100.0, None),), ("t",)),),
        instances=(TaskInstance("one", "a", 50.0, 1.0, "1"),),
    )
    plan = plan_queries(GRAPH, alone, drain_s=10.0)
    assert plan is not None
    assert plan.wanted == {"cheap": pytest.approx(0.5), "dear": pytest.approx(0.5)}


def test_what_was_promised_moves_where_a_node_has_not_the_time_for_it():
    graph = declare_shedding([Sink("cheap", 0, 0.5), Sink("dear", 1, 0.9)], {"s": ["t"]}, {"t": ["cheap", "dear"]})
    nodes = (NodeCpu("a", 1, 1.0), NodeCpu("b", 1, 0.0))
    plan = plan_queries(graph, processors(nodes=nodes), drain_s=10.0)
    assert plan is not None
    assert plan.moves == (("a", "b"),)
    plan = plan_queries(graph, processors(), drain_s=10.0)
    assert plan is not None
    assert (plan.moves, plan.text) == (
        (),
        "the queries have 1.0 cores of a, and what was promised needs 0.2 cores more on a",
    )


# In the plan of a job

EDGES = (EdgeCount("t>cheap", WHOLE, 500, 500), EdgeCount("t>dear", WHOLE, 500, 500))
KNOWN = SheddingState(wanted={"cheap": 0.5, "dear": 0.5}, executors=2, work=(Work(1000, 10.0),))


def plan(assessment: Assessment, graph: SheddingGraph = GRAPH):
    return plan_shedding(assessment, KNOWN, graph, objective_s=OBJECTIVE_S, may_begin=True, acts=True)


def late(late_s: float) -> Assessment:
    given = seen(edges=EDGES, arrival_rate=400.0, backlog_excess=100.0, late_s=late_s)
    return replace(given, processors=processors())


def test_processors_decide_who_gets_how_much_as_long_as_the_lag_allows():
    found, _ = plan(late(11.0))
    assert {sink.sink: sink.wanted for sink in found.sinks}["cheap"] == pytest.approx(1.0)
    assert "1.0 cores of a" in found.reason.text
    later, _ = plan(late(16.0))
    shares = [sink.wanted for sink in later.sinks]
    assert shares[0] == pytest.approx(shares[1])  # the batches: equals alike
    assert "cores of a" not in later.reason.text


def test_the_reason_tells_what_one_executor_more_would_keep():
    found, _ = plan(replace(late(11.0), processors=None))
    assert "; one executor more would have kept " in found.reason.text


# An executor moves

ON_A = Nodes(1000.0, (NodeReading("a", 2, 0), NodeReading("b", 0, 1)))


def job(at: float, executors: int, nodes: Nodes = ON_A) -> Assessment:
    return healthy(at, executors=executors, requested=executors, nodes=replace(nodes, at=at))


def test_an_executor_leaves_the_node_without_time_and_one_comes_elsewhere():
    settings = decision_settings(Fixed(2), bounds=(2, 2))
    state = replace(settings.initial(), shedding=SheddingState(move=("a", "b")))
    first, state = decide(job(1000.0, 2), state, settings)
    assert (first.action, first.target, first.reason.code) == (Action.DOWN, 1, ReasonCode.NODE_OVERLOADED)
    assert first.placement is not None
    assert first.placement.leave == ("a",)
    asked = replace(state.requests, target=1)
    before_it, _ = decide(job(1002.0, 2), replace(state, requests=asked), settings)
    assert (before_it.target, before_it.reason.code) == (1, ReasonCode.NODE_OVERLOADED)
    state = learn(outcome(OutcomeStatus.APPLIED, 1, 2, 1), replace(state, requests=asked), settings)
    state = replace(state, shedding=SheddingState(move=("a", "b")))
    still, state = decide(replace(job(1010.0, 2), requested=1), state, settings)  # it is not gone yet
    assert (still.action, still.reason.code) == (Action.HOLD, ReasonCode.NODE_OVERLOADED)
    one = Nodes(1000.0, (NodeReading("a", 1, 1), NodeReading("b", 0, 1)))
    second, state = decide(job(1020.0, 1, one), state, settings)
    assert (second.action, second.target, second.reason.code) == (Action.UP, 2, ReasonCode.NODE_OVERLOADED)
    assert second.placement is not None
    assert second.placement.add == ("b",)
    state = learn(outcome(OutcomeStatus.APPLIED, 2, 1, 2), state, settings)
    there = Nodes(1000.0, (NodeReading("a", 1, 1), NodeReading("b", 1, 0)))
    _, state = decide(job(1030.0, 2, there), state, settings)
    assert state.guard.moving is None


@pytest.mark.parametrize(
    ("executors", "nodes", "changed_at"),
    [
        pytest.param(1, ON_A, 0.0, id="it is the only one"),
        pytest.param(2, None, 0.0, id="nodes are not known"),
        pytest.param(2, ON_A, 950.0, id="the last change has just been made"),
    ],
)
def test_none_moves(executors, nodes, changed_at):
    settings = decision_settings(Fixed(executors))
    guard = GuardState(changed_at=changed_at)
    begin = replace(settings.initial(), shedding=SheddingState(move=("a", "b")), guard=guard)
    assessment = replace(job(1000.0, executors), nodes=nodes)
    assert decide(assessment, begin, settings)[0].reason.code is not ReasonCode.NODE_OVERLOADED


def test_a_move_that_takes_too_long_is_given_up():
    settings = decision_settings(Fixed(2), hold_fallback_s=60.0)
    begin = replace(settings.initial(), guard=GuardState(moving=Moving("a", 2, 930.0)))
    decision, state = decide(job(1000.0, 2), begin, settings)
    assert decision.reason.code is not ReasonCode.NODE_OVERLOADED
    assert state.guard.moving is None
