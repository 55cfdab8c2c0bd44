"""The controller of Stream Economics: its worked examples, its branches, and what holds in every cycle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.decide.test_shedding import graphs

from rheostat.config.shedding import WHOLE, Edge, SheddingGraph, Sink, declare_shedding
from rheostat.decide.qod import Move, QodController, QodPlan, Readings, WarmUps, choose_moves, choose_node
from rheostat.decide.qod_model import Instance, NodeLoad, Place, Task, TaskState, measure_tasks, tasks_of
from rheostat.decide.shedding import measure_accuracy
from rheostat.model import EdgeCount

Q = Place("app", "q")


def one_task(priority: int, number: int) -> Task:
    return Task(Place("app", f"t{number}"), priority, 0.5, (number,), (), ())


@pytest.mark.parametrize("rounds", [1.0, 1e-3])
def test_the_example_of_algorithm_3_3(rounds):
    """Release 40 %: all but (20 %, 4) and (40 %, 3) move."""
    given = [(20, 4), (10, 3), (40, 3), (10, 2), (10, 2), (10, 1)]
    tasks = [one_task(priority, number) for number, (_, priority) in enumerate(given)]
    states = [TaskState(1.0, 0.1, percent / 100 * rounds) for percent, _ in given]
    assert sorted(choose_moves(0.4 * rounds, range(6), tasks, states)) == [1, 3, 4, 5]


@pytest.mark.parametrize(
    ("preferred", "estimate", "former", "node"),
    [
        pytest.param(["a"], 0.5, None, "a", id="where it would like to be"),
        pytest.param(["a"], 1.5, None, "b", id="there is no room there: where most is free"),
        pytest.param([], 1.0, None, "b", id="most is free, though not enough for it"),
        pytest.param([], 1.0, "b", "a", id="not where it failed"),
    ],
)
def test_where_an_instance_goes(preferred, estimate, former, node):
    nodes = [NodeLoad("a", 2.0, 1.2), NodeLoad("b", 2.0, 0.5)]
    assert choose_node(estimate, preferred, nodes, {"b": 0.6}, former) == node


def test_an_instance_that_failed_on_the_only_node_has_nowhere_to_go():
    assert choose_node(0.1, [], [NodeLoad("a", 2.0, 0.0)], {}, "a") is None


# One task on one node


def cycle(
    graph: SheddingGraph, cores: float, cpu: float, in_rate: float, offered: float, *, literal: bool = False
) -> QodPlan:
    """An application of one task, which is its sink, with one instance."""
    (edge,) = graph.edges
    place = Place("app", edge.end)
    readings = Readings([NodeLoad("n", cores, cpu)], [Instance(place, "n", in_rate, cpu)], {("app", edge): offered})
    return QodController({"app": graph}, literal=literal).run(readings)


def sink_of(minimum: float) -> SheddingGraph:
    return declare_shedding([Sink("q", 0, minimum)], {"s": ["q"]})


@pytest.mark.parametrize(
    ("minimum", "cores", "cpu", "in_rate", "ours", "theirs"),
    [
        pytest.param(0.2, 1.0, 0.5, 100.0, 1.0, 1.0, id="enough: everything"),
        pytest.param(0.2, 0.4, 0.4, 50.0, 0.5, 0.5, id="the linear branch: both are the same"),
        pytest.param(0.6, 2.0, 1.0, 40.0, 0.6, 0.6, id="bound by its core, and promised more than it reaches"),
        pytest.param(0.0, 1.0, 0.2, 0.0, 1.0, 1.0, id="no accuracy yet: tried with everything"),
        pytest.param(0.5, 1.0, 0.0, 40.0, 1.0, 0.9, id="no time used: it limits nothing; the document counts it twice"),
    ],
)
def test_the_branches_of_algorithm_3_4(minimum, cores, cpu, in_rate, ours, theirs):
    graph = sink_of(minimum)
    assert cycle(graph, cores, cpu, in_rate, 100.0).desired[Q] == pytest.approx(ours)
    assert cycle(graph, cores, cpu, in_rate, 100.0, literal=True).desired[Q] == pytest.approx(theirs)


def test_other_processes_leave_less():
    (edge,) = (graph := sink_of(0.1)).edges
    readings = Readings([NodeLoad("n", 1.0, 0.9)], [Instance(Q, "n", 50.0, 0.5)], {("app", edge): 100.0})
    # half of the records take half a core; 0.6 cores are not used by others
    assert QodController({"app": graph}).run(readings).desired[Q] == pytest.approx(0.6)


def test_the_slowest_instance_decides_and_what_comes_before_limits_what_follows():
    graph = declare_shedding([Sink("q", 0, 0.2)], {"s": ["t"]}, {"t": ["q"]})
    into, on = graph.edges
    two = [Instance(Place("app", "t"), "a", 30.0, 0.9), Instance(Place("app", "t"), "b", 45.0, 0.7)]
    running = [two, [Instance(Q, "a", 37.5, 0.2)]]
    one, other = measure_tasks(tasks_of({"app": graph}), running, {("app", into): 100.0, ("app", on): 75.0})
    assert [one.accuracy, one.cpu, one.least] == pytest.approx([0.6, 0.9, 0.3])
    assert [other.accuracy, other.cpu, other.least] == pytest.approx([0.3, 0.2, 0.2 * 0.2 / 0.3])


def test_a_join_gets_equal_parts_of_both_inputs():
    graph = declare_shedding([Sink("q"), Sink("r")], {"s1": ["t1"], "s2": ["t3"]}, {"t1": ["q", "t3"], "t3": ["r"]})
    places = [Place("app", name) for name in ("t1", "t3", "q", "r")]
    nodes = [NodeLoad(name, cores, cores) for name, cores in zip("abcd", (1.0, 0.4, 1.0, 1.0), strict=True)]
    instances = [Instance(place, node.name, 50.0, node.cpu) for place, node in zip(places, nodes, strict=True)]
    rates = {("app", edge): 100.0 if edge.start.startswith("s") else 50.0 for edge in graph.edges}
    plan = QodController({"app": graph}).run(Readings(nodes, instances, rates))
    reached = accuracies(graph, plan)
    for sink in graph.sinks:
        assert reached[sink] == pytest.approx(plan.desired[Place("app", sink)], abs=1e-5)


def accuracies(graph: SheddingGraph, plan: QodPlan) -> dict[str, float]:
    """ac of each sink, by the shares of the edges."""
    keep = plan.keep["app"]
    return measure_accuracy(graph, [EdgeCount(str(e), 0, WHOLE, keep.get(str(e), WHOLE)) for e in graph.edges])


# What holds in every cycle


@st.composite
def measured(draw: st.DrawFn) -> tuple[SheddingGraph, Readings]:
    graph = draw(graphs())
    nodes = [
        NodeLoad(f"n{n}", draw(st.sampled_from([0.5, 1.0, 2.0, 4.0])), 0.0) for n in range(draw(st.integers(1, 3)))
    ]
    instances = list[Instance]()
    for task in tasks_of({"app": graph}):
        for _ in range(draw(st.integers(1, 2))):
            place = task.place
            node, rate = draw(st.sampled_from(nodes)), draw(st.sampled_from([0.0, 10.0, 60.0, 100.0]))
            instances.append(Instance(place, node.name, rate, draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))))
    used = {node.name: sum(each.cpu for each in instances if each.node == node.name) for node in nodes}
    busy = [node._replace(cpu=min(node.cores, used[node.name] + draw(st.sampled_from([0.0, 0.3])))) for node in nodes]
    rates = {("app", edge): draw(st.sampled_from([0.0, 50.0, 200.0])) for edge in graph.edges}
    return graph, Readings(busy, instances, rates)


@given(measured(), st.booleans())
def test_promises_are_kept_and_what_reaches_a_sink_is_what_it_is_to_get(given_, literal):
    graph, readings = given_
    plan = QodController({"app": graph}, literal=literal).run(readings)
    for name, sink in graph.sinks.items():
        assert sink.minimum_accuracy - 1e-9 <= plan.desired[Place("app", name)] <= 1
    assert all(0 <= share < WHOLE for share in plan.keep["app"].values())
    reached = accuracies(graph, plan)
    assert reached == pytest.approx({name: plan.desired[Place("app", name)] for name in graph.sinks}, abs=1e-4)


@given(measured())
def test_a_cycle_moves_only_from_nodes_that_lack_time_to_nodes_that_have_it(given_):
    graph, readings = given_
    tasks = tasks_of({"app": graph})
    running = [[each for each in readings.instances if each.task == task.place] for task in tasks]
    measured_states = measure_tasks(tasks, running, readings.out_rates)
    states = {task.place: state for task, state in zip(tasks, measured_states, strict=True)}
    plan = QodController({"app": graph}).run(readings)
    own = {node.name: sum(each.cpu for each in readings.instances if each.node == node.name) for node in readings.nodes}
    free = {node.name: node.cores - max(0.0, node.cpu - own[node.name]) for node in readings.nodes}
    needed = {node: sum(states[each.task].least for each in readings.instances if each.node == node) for node in free}
    for move in plan.moves:
        assert needed[move.node] > free[move.node] - 1e-9
        needed[move.node] -= states[move.task].least
        needed[move.to] += states[move.task].least
        assert needed[move.to] <= free[move.to] + 1e-9
    short = {node for node in free if needed[node] > free[node] + 1e-9}
    assert short <= set(plan.short or {})


@given(st.lists(st.tuples(st.integers(-2, 3), st.floats(0, 0.9), st.floats(0.05, 0.5)), min_size=2, max_size=6))
def test_a_greater_priority_is_never_worse_off_on_the_same_node(given_):
    """Tasks of one sink each, alike but for priority, minimum and time; each now gets half of its records."""
    sinks = [Sink(f"q{number}", priority, minimum) for number, (priority, minimum, _) in enumerate(given_)]
    graph = declare_shedding(sinks, {"s": [sink.name for sink in sinks]})
    plan = alike(graph, [cpu for *_, cpu in given_])
    for above, below in product(sinks, sinks):
        raised = plan.desired[Place("app", below.name)] > below.minimum_accuracy + 1e-6
        if above.priority > below.priority and raised:
            assert plan.desired[Place("app", above.name)] == pytest.approx(1.0)


def alike(graph: SheddingGraph, cpus: Sequence[float]) -> QodPlan:
    """Each sink has an instance on one node of two cores, and gets half of its records."""
    places = [Place("app", name) for name in graph.sinks]
    instances = [Instance(place, "n", 50.0, cpu) for place, cpu in zip(places, cpus, strict=True)]
    readings = Readings([NodeLoad("n", 2.0, min(2.0, sum(cpus)))], instances, {("app", e): 100.0 for e in graph.edges})
    return QodController({"app": graph}).run(readings)


def test_equals_share_alike_and_what_one_does_not_need_is_for_the_others():
    graph = declare_shedding([Sink("a"), Sink("b"), Sink("c")], {"s": ["a", "b", "c"]})
    plan = alike(graph, [0.1, 0.9, 0.9])
    # a needs 0.2 for everything; the others share 1.8, where each would need 1
    assert plan.desired == {
        Place("app", "a"): 1.0,
        Place("app", "b"): pytest.approx(0.5),
        Place("app", "c"): pytest.approx(0.5),
    }


@given(st.lists(st.tuples(st.integers(-2, 3), st.floats(0.05, 0.45)), min_size=1, max_size=6))
def test_a_cycle_without_changes_is_a_fixed_point(given_):
    """Each task reaches just what it was to reach, with just the time for that: the next cycle says the same."""
    sinks = [Sink(f"q{number}", priority, 0.05) for number, (priority, _) in enumerate(given_)]
    graph = declare_shedding(sinks, {"s": [sink.name for sink in sinks]})
    full = {Place("app", sink.name): 2 * cpu for sink, (_, cpu) in zip(sinks, given_, strict=True)}
    first = alike(graph, [cpu for _, cpu in given_])
    got = first.desired
    instances = [Instance(place, "n", 100 * got[place], full[place] * got[place]) for place in full]
    used = sum(each.cpu for each in instances)
    readings = Readings([NodeLoad("n", 2.0, used)], instances, {("app", edge): 100.0 for edge in graph.edges})
    again = QodController({"app": graph}).run(readings)
    assert again.desired == pytest.approx(got, abs=1e-6)


# Warm-up, and what waits


def two_apps() -> tuple[QodController, list[Instance], dict[tuple[str, Edge], float]]:
    """Two applications of one task each on one node of one core, which carries half of what comes."""
    graphs = {app: declare_shedding([Sink("q", 0, 0.4)], {"s": ["q"]}) for app in ("old", "new")}
    instances = [Instance(Place("old", "q"), "n", 50.0, 0.5, "1"), Instance(Place("new", "q"), "n", 50.0, 0.5, "2")]
    return QodController(graphs), instances, {(app, Edge("s", "q")): 100.0 for app in graphs}


def test_an_instance_warms_up_from_when_it_is_first_seen_until_it_reaches_its_minimum():
    controller, instances, rates = two_apps()
    state, warm = WarmUps(), []
    for at, rate in [(0.0, 0.0), (5.0, 20.0), (10.0, 39.0), (15.0, 0.0)]:
        readings = Readings([NodeLoad("n", 1.0, 1.0)], [instances[0], instances[1]._replace(in_rate=rate)], rates)
        marked, state = controller.mark_warm_ups(readings, state, at, timeout_s=60.0)
        warm.append([not each.warms for each in marked.instances])
    assert warm == [[True, False], [True, False], [True, True], [True, True]]  # it warms up once


def test_a_warm_up_ends_by_its_time_out_and_begins_anew_with_another_instance():
    controller, (_, cold), rates = two_apps()
    state, warms = WarmUps(), []
    for at, name in [(0.0, "2"), (59.0, "2"), (60.0, "2"), (65.0, "3")]:
        readings = Readings([NodeLoad("n", 1.0, 1.0)], [cold._replace(in_rate=0.0, id=name)], rates)
        marked, state = controller.mark_warm_ups(readings, state, at, timeout_s=60.0)
        warms.append(marked.instances[0].warms)
    assert warms == [True, True, False, True]
    assert list(state.since) == ["new/q/3"]


def test_during_a_warm_up_all_on_the_node_run_at_their_minimum_and_nothing_moves_for_it():
    controller, (old, cold), rates = two_apps()
    starting = cold._replace(in_rate=0.0, cpu=0.0, warms=True)
    nodes = [NodeLoad("n", 0.3, 0.3), NodeLoad("empty", 1.0, 0.0)]
    plan = controller.run(Readings(nodes, [old._replace(cpu=0.3), starting], rates))
    # currAc = 0 would ask for a whole core
    assert plan.desired == {Place("old", "q"): 0.4, Place("new", "q"): 0.4}
    assert plan.moves == ()


@pytest.mark.parametrize(("literal", "wanted"), [(False, 0.75), (True, 0.4)])
def test_an_instance_that_warms_up_beside_warm_ones_needs_what_they_use(literal, wanted):
    """The warm one takes half of its part of the rate with half a core; nodes of 0.75 cores let both take 0.75."""
    graph, rates = sink_of(0.4), {("app", Edge("s", "q")): 200.0}
    instances = [Instance(Q, "n", 50.0, 0.5, "1"), Instance(Q, "m", 0.0, 0.1, "2", warms=True)]
    readings = Readings([NodeLoad("n", 0.75, 0.5), NodeLoad("m", 0.75, 0.1)], instances, rates)
    plan = QodController({"app": graph}, literal=literal).run(readings)
    assert plan.desired == {Q: pytest.approx(wanted)}


def test_nothing_of_an_application_moves_while_a_part_of_it_warms_up():
    graph = declare_shedding([Sink("q", 0, 0.5)], {"s": ["t"]}, {"t": ["q"]})
    t, q = Place("app", "t"), Place("app", "q")
    rates = {("app", edge): 100.0 for edge in graph.edges}
    nodes = [NodeLoad("n", 0.2, 0.2), NodeLoad("m", 1.0, 0.0)]
    busy, other = Instance(t, "n", 50.0, 0.4), Instance(q, "m", 50.0, 0.1)
    controller = QodController({"app": graph})
    assert controller.run(Readings(nodes, [busy, other], rates)).moves == (Move(t, "n", "m"),)
    assert controller.run(Readings(nodes, [busy, other._replace(warms=True)], rates)).moves == ()


def test_what_waits_is_worked_off_by_dropping_more_of_what_comes():
    graph, edge = sink_of(0.1), Edge("s", "q")
    known = Readings([NodeLoad("n", 1.0, 1.0)], [Instance(Q, "n", 50.0, 1.0)], {("app", edge): 100.0})
    late = Readings(known.nodes, known.instances, known.out_rates, {("app", edge): 1000.0}, drain_s=10.0)
    controller = QodController({"app": graph})
    assert controller.run(known).desired[Q] == pytest.approx(0.5)
    assert controller.run(late).desired[Q] == pytest.approx(0.25)  # of 200/s, of which half are those that wait


def test_nothing_moves_to_work_off_what_waits():
    graph, edge = sink_of(0.5), Edge("s", "q")
    nodes = [NodeLoad("n", 0.5, 0.5), NodeLoad("m", 1.0, 0.0)]
    late = Readings(nodes, [Instance(Q, "n", 50.0, 0.5)], {("app", edge): 100.0}, {("app", edge): 9000.0}, drain_s=10.0)
    plan = QodController({"app": graph}).run(late)
    assert (plan.moves, plan.desired[Q]) == ((), 0.5)
