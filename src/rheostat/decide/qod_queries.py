"""The controller of Stream Economics over the queries of one application [S3].

A query is a task, and what an executor does of it is an instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rheostat.config.shedding import Edge, SheddingGraph
from rheostat.decide.qod import QodController, Readings, available_cores
from rheostat.decide.qod_model import Instance, NodeLoad, Place
from rheostat.model import Processors

_APP = "job"
_ROUNDING = 1e-6
_NEW = 0.3
"""Weight of a look in what is known of the processors: batches and processor time are not of the same seconds."""


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What the processors allow.

    Attributes:
        wanted: accuracy of each sink.
        moves: pairs of nodes: one that lacks time for what was promised, and one that has it.
        text: what limits, for a reason.
    """

    wanted: Mapping[str, float]
    moves: tuple[tuple[str, str], ...]
    text: str


def plan_queries(graph: SheddingGraph, processors: Processors, drain_s: float) -> QueryPlan | None:
    """Share the processors among the sinks.

    None: they allow everything, so something else is what limits; or what the queries are to be given is not known.

    Args:
        graph: what may be dropped, and what was promised.
        processors: who uses how much.
        drain_s: time in which what waits is to be worked off.
    """
    queries = _contract(graph, processors)
    if queries is None:
        return None
    readings = _read(processors, drain_s)
    plan = QodController({_APP: queries}).run(readings)
    wanted = {name: plan.desired[Place(_APP, name)] for name in graph.sinks}
    if min(wanted.values()) > 1.0 - _ROUNDING and not plan.moves and not plan.short:
        return None
    moves = tuple(dict.fromkeys((move.node, move.to) for move in plan.moves))
    free = available_cores(readings)
    shown = ", ".join(f"{free[node.name]:.1f} cores of {node.name}" for node in processors.nodes)
    lacks = ", ".join(f"{cores:.1f} cores more on {node}" for node, cores in sorted(plan.short.items()))
    short = f", and what was promised needs {lacks}" if lacks else ""
    return QueryPlan(wanted, moves, f"the queries have {shown}{short}")


def blend_processors(before: Processors | None, now: Processors | None) -> Processors | None:
    """What is known of the processors after a look; what the look does not tell stays as it was.

    Of an application with the same executors.
    """
    if now is None or before is None:
        return now or before
    tasks = {task.name: task for task in (*before.tasks, *now.tasks)}
    known = {(each.task, each.executor_id): each for each in before.instances}
    told, answered = {each.task for each in now.instances}, {node.name for node in now.nodes}
    instances = [each for each in before.instances if each.task not in told or each.node not in answered]
    for each in now.instances:
        old = known.get((each.task, each.executor_id), each)
        rate, cpu = _mix(old.in_rate, each.in_rate), _mix(old.cpu, each.cpu)
        instances.append(each._replace(in_rate=rate, cpu=cpu))
    busy = {node.name: node.busy for node in before.nodes}
    nodes = {node.name: node for node in before.nodes}
    nodes |= {node.name: node._replace(busy=_mix(busy.get(node.name, node.busy), node.busy)) for node in now.nodes}
    return Processors(tuple(nodes.values()), tuple(tasks.values()), tuple(instances))


def _mix(old: float, new: float) -> float:
    return old + _NEW * (new - old)


def _contract(graph: SheddingGraph, processors: Processors) -> SheddingGraph | None:
    """Sources, the queries that read them, and the sinks that these serve; None: a sink is served by no known query."""
    sources: dict[str, list[str]] = {}
    tasks = dict[str, tuple[str, ...]]()
    for task in processors.tasks:
        served, name = {sink for end in task.sinks for sink in graph.reachable(end)}, _name(task.name)
        tasks[name] = tuple(sorted(served))
        for each in task.sources:
            sources.setdefault(each.source, []).append(name)
    if {sink for served in tasks.values() for sink in served} != set(graph.sinks) or not all(tasks.values()):
        return None
    return SheddingGraph({name: tuple(ends) for name, ends in sources.items()}, tasks, graph.sinks)


def _name(query: str) -> str:
    """A query as a task: it may be called like its sink."""
    return f"query {query}"


def _read(processors: Processors, drain_s: float) -> Readings:
    """An instance of S3 uses one core at most: so each slot of an executor is one, with an equal part of the rate."""
    rates, backlogs = dict[tuple[str, Edge], float](), dict[tuple[str, Edge], float]()
    instances = list[Instance]()
    for task in processors.tasks:
        place = Place(_APP, _name(task.name))
        for source, rate, waits in task.sources:
            edge = _APP, Edge(source, place.name)
            rates[edge], backlogs[edge] = rate, waits or 0.0
        mine = [(each, max(1, each.slots)) for each in processors.instances if each.task == task.name]
        in_rate, whole = sum(each.in_rate for each, _ in mine), sum(slots for _, slots in mine)
        for each, slots in mine:
            instances += [Instance(place, each.node, in_rate / whole, each.cpu / slots, each.executor_id)] * slots
    nodes = [NodeLoad(*node) for node in processors.nodes]
    return Readings(nodes, instances, rates, backlogs, drain_s)
