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
from rheostat.decide.qod_queries import blend_processors, plan_queries
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


def test_what_moves_to_a_slower_node_needs_more_of_its_cores():
    """0.2 cores of the fast node are missing for what was promised: more than a core of the slow one."""
    graph = declare_shedding([Sink("cheap", 0, 0.5), Sink("dear", 1, 0.9)], {"s": ["t"]}, {"t": ["cheap", "dear"]})
    for cores, moves in [(1, ()), (2, (("a", "b"),))]:
        nodes = (NodeCpu("a", 1, 1.0, speed=6.0), NodeCpu("b", cores, 0.0, speed=1.0))
        plan = plan_queries(graph, processors(nodes=nodes), drain_s=10.0)
        assert plan is not None
        assert plan.moves == moves


def test_a_node_that_others_keep_busy_is_no_matter_where_nothing_of_ours_runs():
    nodes = (NodeCpu("a", 4, 1.0), NodeCpu("b", 1, 1.01))
    assert plan_queries(GRAPH, processors(nodes=nodes, instances=SLOTS), drain_s=10.0) is None


def test_of_executors_that_read_alike_the_one_that_uses_most_counts_whatever_their_order():
    nodes = (NodeCpu("a", 1, 1.0), NodeCpu("b", 1, 0.5))
    tasks = (QueryTask("one", (SourceLoad("s", 100.0, None),), ("t",)),)
    both = [TaskInstance("one", "a", 25.0, 1.0, "0"), TaskInstance("one", "b", 25.0, 0.5, "1")]
    plans = [plan_queries(GRAPH, Processors(nodes, tasks, tuple(order)), 10.0) for order in (both, both[::-1])]
    assert plans[0] == plans[1]
    assert plans[0] is not None
    assert plans[0].wanted["cheap"] == pytest.approx(0.5)


def test_cores_are_told_as_the_node_has_them():
    nodes = (NodeCpu("a", 1, 1.0, speed=1.0), NodeCpu("b", 1, 0.25, speed=4.0))
    plan = plan_queries(GRAPH, processors(nodes=nodes), drain_s=10.0)
    assert plan is not None
    assert plan.text == "the queries have 1.0 cores of a, 0.8 cores of b"
    assert plan.wanted["dear"] == pytest.approx(0.375)


def test_slots_are_alike_whatever_executors_they_are_on():
    """Each slot uses 0.4 cores for its part of half of the records: everything fits, however the slots are spread."""
    nodes = (NodeCpu("a", 4, 1.6), NodeCpu("b", 4, 1.6))
    tasks = (QueryTask("one", (SourceLoad("s", 100.0, None),), ("t",)),)
    for slots in [(2, 2), (1, 3)]:
        given = [TaskInstance("one", node, 25.0, 0.4 * n, node, n) for node, n in zip("ab", slots, strict=True)]
        assert plan_queries(GRAPH, processors(nodes=nodes, tasks=tasks, instances=tuple(given)), 10.0) is None


def test_looks_are_blended_and_what_one_does_not_tell_stays():
    now = processors(nodes=(NodeCpu("a", 1, 0.5),), tasks=(), instances=(TaskInstance("one", "a", 100.0, 0.4, "1"),))
    known = blend_processors(processors(), now)
    assert known is not None
    assert {each.task: (each.in_rate, each.cpu) for each in known.instances} == {
        "one": (pytest.approx(65.0), pytest.approx(0.26)),
        "two": (50.0, 0.8),
    }
    assert known.nodes[0].busy == pytest.approx(0.85)
    assert len(known.tasks) == 2
    assert blend_processors(known, None) == known


def test_a_node_that_does_not_answer_keeps_its_instances():
    both = processors(
        nodes=(NodeCpu("a", 1, 1.0), NodeCpu("b", 1, 1.0)),
        instances=(TaskInstance("one", "a", 50.0, 0.5, "1"), TaskInstance("one", "b", 50.0, 0.5, "2")),
    )
    now = replace(both, nodes=both.nodes[1:], instances=both.instances[1:])
    known = blend_processors(both, now)
    assert known is not None
    assert sorted(each.node for each in known.instances) == ["a", "b"]


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
FULL = Nodes(1000.0, (NodeReading("a", 2, 0), NodeReading("b", 0, 0)))
LEFT = Nodes(1000.0, (NodeReading("a", 1, 1), NodeReading("b", 0, 1)))
MOVED = Nodes(1000.0, (NodeReading("a", 1, 1), NodeReading("b", 1, 0)))
WANTED = SheddingState(move=("a", "b"))


def job(at: float, executors: int, nodes: Nodes | None = ON_A, requested: int | None = None) -> Assessment:
    asked = executors if requested is None else requested
    placed = None if nodes is None else replace(nodes, at=at)
    return healthy(at, executors=executors, requested=asked, nodes=placed)


def acting(executors: int, bounds: tuple[int, int] = (1, 20), **guard: Any):
    settings = replace(decision_settings(Fixed(executors), bounds=bounds, **guard), mode="act")
    state = settings.initial()
    return settings, replace(state, requests=replace(state.requests, opened=True, target=executors), shedding=WANTED)


def test_an_executor_leaves_the_node_without_time_and_one_comes_elsewhere():
    settings, state = acting(2, bounds=(2, 2))
    first, state = decide(job(1000.0, 2), state, settings)
    assert (first.action, first.target, first.reason.code) == (Action.DOWN, 1, ReasonCode.NODE_OVERLOADED)
    assert first.placement is not None
    assert first.placement.leave == ("a",)
    before_it, state = decide(job(1002.0, 2, requested=1), state, settings)
    assert (before_it.target, before_it.reason.code) == (1, ReasonCode.NODE_OVERLOADED)
    state = learn(outcome(OutcomeStatus.APPLIED, 1, 2, 1), state, settings)
    still, state = decide(job(1010.0, 2, requested=1), state, settings)  # it is not gone yet
    assert (still.action, still.reason.code) == (Action.HOLD, ReasonCode.NODE_OVERLOADED)
    second, state = decide(job(1020.0, 1, LEFT), state, settings)
    assert (second.action, second.target, second.reason.code) == (Action.UP, 2, ReasonCode.NODE_OVERLOADED)
    assert second.placement is not None
    assert second.placement.add == ("b",)
    state = learn(outcome(OutcomeStatus.APPLIED, 2, 1, 2, decision_id=second.decision_id), state, settings)
    _, state = decide(job(1030.0, 2, MOVED), state, settings)
    assert state.guard.moving is None
    again, _ = decide(job(1040.0, 2), replace(state, shedding=WANTED), settings)  # executors are cold
    assert again.reason.code is not ReasonCode.NODE_OVERLOADED


@pytest.mark.parametrize(
    ("executors", "registered", "nodes", "changed_at"),
    [
        pytest.param(1, 1, ON_A, None, id="it is the only one"),
        pytest.param(2, 2, None, None, id="nodes are not known"),
        pytest.param(2, 2, FULL, None, id="there is no room"),
        pytest.param(3, 2, ON_A, None, id="one is missing"),
        pytest.param(2, 2, ON_A, 950.0, id="the last change has just been made"),
    ],
)
def test_none_moves(executors, registered, nodes, changed_at):
    settings, state = acting(executors)
    state = replace(state, guard=GuardState(changed_at=changed_at))
    decision, _ = decide(job(1000.0, registered, nodes, requested=executors), state, settings)
    assert decision.reason.code is not ReasonCode.NODE_OVERLOADED


def test_none_moves_where_nothing_is_executed():
    settings, state = acting(2)
    decision, _ = decide(job(1000.0, 2), state, replace(settings, mode="watch"))
    assert decision.reason.code is not ReasonCode.NODE_OVERLOADED


@pytest.mark.parametrize("status", [OutcomeStatus.HELD, OutcomeStatus.FAILED])
def test_a_move_that_could_not_begin_is_none(status):
    settings, state = acting(2)
    _, state = decide(job(1000.0, 2), state, settings)
    assert state.guard.moving is not None
    assert learn(outcome(status, 1, 2, 2), state, settings).guard.moving is None


def test_a_move_ends_with_the_run():
    settings, state = acting(3)
    _, state = decide(job(1000.0, 3), state, settings)
    state = settings.state_from_json(settings.state_to_json(state))
    assert state.guard.moving == Moving("a", 3, 1000.0, used=2)
    assert state.restarted().guard.moving is None
    assert state.restarted().shedding.move is None


def test_a_move_leads_to_no_more_than_is_allowed_now():
    settings, state = acting(2, bounds=(1, 2))
    state = replace(state, guard=GuardState(moving=Moving("a", 4, 990.0, used=2)))
    decision, _ = decide(job(1000.0, 1, LEFT), replace(state, requests=replace(state.requests, target=1)), settings)
    assert decision.target == 2


def test_a_move_that_takes_too_long_is_given_up():
    settings, state = acting(2, hold_fallback_s=60.0)
    state = replace(state, guard=GuardState(moving=Moving("a", 2, 930.0, used=2)), shedding=SheddingState())
    decision, state = decide(job(1000.0, 2), state, settings)
    assert decision.reason.code is not ReasonCode.NODE_OVERLOADED
    assert state.guard.moving is None
