"""The model of Stream Economics [S3, chapter 3]: what accuracy a task has, and what processor time buys.

Each equation is a function that bears its number; 3.13 and 3.14 are in :mod:`rheostat.decide.qod`.
Accuracies are shares of the offered records, in [0, 1]. Processor time is in cores: 1.0, the document's 100 %, is one
core, which is also the most that one instance of a task can use.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rheostat.config.shedding import WHOLE, Edge, SheddingGraph


class Place(NamedTuple):
    """A task or a sink of an application."""

    app: str
    name: str


@dataclass(frozen=True, slots=True)
class Task:
    """A task, or a sink, which is one too. Tasks have numbers: their places in the result of :func:`tasks_of`.

    Attributes:
        priority: p(t), the greatest of the sinks behind it [3.1].
        minimum: minAc(t), likewise [3.2].
        sinks: Q(t), those that are reached from it.
        up: tasks that lead to it; sources of records are none.
        into: edges that lead to it, those of sources included, each with the application.
    """

    place: Place
    priority: int
    minimum: float
    sinks: tuple[int, ...]
    up: tuple[int, ...]
    into: tuple[tuple[str, Edge], ...]


class Instance(NamedTuple):
    """One instance of a task, as it was measured.

    Attributes:
        in_rate: records/s that it takes in, behind the shedders.
        cpu: cores that it uses, Python workers included.
        id: tells it from other instances of its task, and from one that ran before it.
        warms: it has started, and does not reach its minimum accuracy yet [4.7].
    """

    task: Place
    node: str
    in_rate: float
    cpu: float
    id: str = ""
    warms: bool = False


class NodeLoad(NamedTuple):
    """A machine: its cores, and how many of them are busy, with whatever.

    ``speed``: what one of its cores does in a second, relative to other machines [ours; S3 has machines of one kind].
    """

    name: str
    cores: float
    cpu: float
    speed: float = 1.0


class TaskState(NamedTuple):
    """A task as it was measured.

    Attributes:
        accuracy: currAc(t) [3.4].
        cpu: of the instance that takes in the fewest records [3.7].
        least: processor time of an instance for the minimum accuracy [3.10].
    """

    accuracy: float
    cpu: float
    least: float


def tasks_of(graphs: Mapping[str, SheddingGraph]) -> tuple[Task, ...]:
    """The tasks of applications, each after those that lead to it [3.1, 3.2]."""
    found = list[Task]()
    for app, graph in graphs.items():
        names = [*graph.tasks, *graph.sinks]
        number = {name: len(found) + place for place, name in enumerate(names)}
        into: dict[str, list[Edge]] = {}
        for edge in graph.edges:
            into.setdefault(edge.end, []).append(edge)
        for name in names:
            sinks = [graph.sinks[sink] for sink in sorted(graph.reachable(name))]
            edges = into.get(name, ())
            task = Task(
                place=Place(app, name),
                priority=max(sink.priority for sink in sinks),
                minimum=max(sink.minimum_accuracy for sink in sinks),
                sinks=tuple(number[sink.name] for sink in sinks),
                up=tuple(number[edge.start] for edge in edges if edge.start not in graph.sources),
                into=tuple((app, edge) for edge in edges),
            )
            found.append(task)
    return tuple(found)


def wanted_accuracy(above: Sequence[tuple[float, float]]) -> float:
    """ac(t) [3.3], from the accuracy before each edge that leads to it and the edge's d; of a source of records, 1.

    >>> wanted_accuracy([(0.8, 1.0), (0.8, 0.5)]), wanted_accuracy([])
    (0.6000000000000001, 1.0)
    """
    return sum(accuracy * share for accuracy, share in above) / len(above) if above else 1.0


def current_accuracy(local: float, above: Iterable[float]) -> float:
    """currAc(t) [3.4], from its own and from those of the tasks that lead to it.

    >>> current_accuracy(0.5, [0.8, 0.6]), current_accuracy(0.5, [])
    (0.3, 0.5)
    """
    return local * min(above, default=1.0)


def local_accuracy(least_rate: float, instances: int, out_rate: float) -> float:
    """locAc(t) [3.5]: what the slowest of its instances takes in of its part of what comes before the shedders.

    At most 1 [ours]: a task that catches up takes in more.

    >>> local_accuracy(40.0, 2, 100.0), local_accuracy(90.0, 1, 60.0), local_accuracy(0.0, 1, 0.0)
    (0.8, 1.0, 1.0)
    """
    return min(1.0, least_rate * instances / out_rate) if out_rate > 0 else 1.0


def required_cpu(accuracy: float, current: float, cpu: float) -> float:
    """rCpu(t, a) [3.9]: what an instance needs for an accuracy, by what it uses for the current one.

    >>> required_cpu(0.6, 0.3, 0.2), required_cpu(0.9, 0.3, 0.5)
    (0.4, 1.0)
    >>> required_cpu(0.5, 0.0, 0.2), required_cpu(0.0, 0.0, 0.2)
    (1.0, 0.0)
    """
    if current == 0:
        return 0.0 if accuracy == 0 else 1.0
    return min(accuracy * cpu / current, 1.0)


def obtained_accuracy(given: float, current: float, cpu: float) -> float:
    """obtAc(i, c) [3.12]: the accuracy that an instance reaches with so much processor time.

    >>> obtained_accuracy(0.4, 0.3, 0.2), obtained_accuracy(0.9, 0.5, 0.3)
    (0.6, 1.0)
    >>> obtained_accuracy(0.0, 0.0, 0.2), obtained_accuracy(0.1, 0.0, 0.2)
    (0.0, 1.0)
    >>> obtained_accuracy(0.0, 0.4, 0.0), obtained_accuracy(0.1, 0.4, 0.0)
    (0.4, 1.0)
    """
    if current == 0:
        return 0.0 if given == 0 else 1.0
    if cpu == 0:
        return current if given == 0 else 1.0
    return min(current * given / cpu, 1.0)


IDLE = TaskState(0.0, 0.0, 0.0)
"""A task without an instance."""


def measure_tasks(
    tasks: Sequence[Task], running: Sequence[Sequence[Instance]], out_rates: Mapping[tuple[str, Edge], float]
) -> list[TaskState]:
    """The state of each task [3.4, 3.5, 3.7, 3.10].

    Args:
        tasks: in topological order, as :func:`tasks_of` gives them.
        running: the instances of each. Those that warm up say nothing of their task, unless there are no others.
        out_rates: records/s on each edge of an application, before its shedder; an edge that is not named has none.
    """
    states = list[TaskState]()
    for task, instances in zip(tasks, running, strict=True):
        if not instances:
            states.append(IDLE)
            continue
        warm = [each for each in instances if not each.warms] or instances
        slowest = min(warm, key=lambda each: (each.in_rate, -each.cpu))  # of equals, the one that uses most [ours]
        out_rate = sum([out_rates.get(edge, 0.0) for edge in task.into])
        local = local_accuracy(slowest.in_rate, len(instances), out_rate)
        accuracy = current_accuracy(local, [states[number].accuracy for number in task.up if running[number]])
        states.append(TaskState(accuracy, slowest.cpu, required_cpu(task.minimum, accuracy, slowest.cpu)))
    return states


_ROUNDING = 1e-3


def edge_shares(graph: SheddingGraph, wanted: Mapping[str, float]) -> dict[str, int]:
    """Non-drop probability × 10⁶ of each edge that drops [S3, eq. 3.15 and 3.16; 0 ÷ 0 is 0, ours].

    Rounded up, so that no sink gets less than it was promised. Before an edge that drops by key or by value nothing is
    dropped at random [ours]: keys would be cut, and what is worth most would be among what is dropped.

    >>> from rheostat.config.shedding import Sink, declare_shedding
    >>> graph = declare_shedding([Sink("a"), Sink("b")], {"s": ["t"]}, {"t": ["a", "b"]})
    >>> edge_shares(graph, {"a": 0.8, "b": 0.4})
    {'s>t': 800000, 't>b': 500000}
    """
    desired = dict(wanted)
    for name, ends in reversed([*graph.tasks.items()]):
        desired[name] = max(1.0 if graph.drops_itself(Edge(name, end)) else desired[end] for end in ends)
    shares: dict[str, int] = {}
    for edge in graph.edges:
        above = desired.get(edge.start, 1.0)
        share = desired[edge.end] / above if above else 0.0
        keep = math.ceil(share * WHOLE - _ROUNDING)
        if keep < WHOLE:
            shares[str(edge)] = keep
    return shares
