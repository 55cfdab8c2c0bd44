"""The model of Stream Economics [S3, chapter 3]: what accuracy a task has, and what processor time buys.

Each equation is a function that bears its number; 3.3, 3.15 and 3.16 are in :mod:`rheostat.decide.shedding`.
Accuracies are shares of the offered records, in [0, 1]. Processor time is in cores: 1.0, the document's 100 %, is one
core, which is also the most that one instance of a task can use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rheostat.config.shedding import Edge, SheddingGraph


class Place(NamedTuple):
    """A task or a sink of an application."""

    app: str
    name: str


@dataclass(frozen=True, slots=True)
class Task:
    """A task, or a sink, which is one too.

    Attributes:
        priority: p(t), the greatest of the sinks behind it [3.1].
        minimum: minAc(t), likewise [3.2].
        sinks: Q(t), those that are reached from it.
        up: tasks that lead to it; sources of records are none.
        into: edges that lead to it, those of sources included.
        down: tasks that it leads to.
    """

    place: Place
    priority: int
    minimum: float
    sinks: tuple[Place, ...]
    up: tuple[Place, ...]
    into: tuple[Edge, ...]
    down: tuple[Place, ...]


class Instance(NamedTuple):
    """One instance of a task, as it was measured.

    Attributes:
        in_rate: records/s that it takes in, behind the shedders.
        cpu: cores that it uses, Python workers included.
    """

    task: Place
    node: str
    in_rate: float
    cpu: float


class NodeLoad(NamedTuple):
    """A machine: its cores, and how many of them are busy, with whatever."""

    name: str
    cores: float
    cpu: float


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task as it was measured.

    Attributes:
        accuracy: currAc(t) [3.4].
        cpu: of the instance that takes in the fewest records [3.7].
        least: processor time of an instance for the minimum accuracy [3.10].
    """

    accuracy: float
    cpu: float
    least: float


def tasks_of(graphs: Mapping[str, SheddingGraph]) -> dict[Place, Task]:
    """The tasks of applications, each after those that lead to it [3.1, 3.2]."""
    found = dict[Place, Task]()
    for app, graph in graphs.items():
        into: dict[str, list[Edge]] = {}
        for edge in graph.edges:
            into.setdefault(edge.end, []).append(edge)
        for name in (*graph.tasks, *graph.sinks):
            sinks = [graph.sinks[sink] for sink in sorted(graph.reachable(name))]
            edges = tuple(into.get(name, ()))
            found[Place(app, name)] = Task(
                place=Place(app, name),
                priority=max(sink.priority for sink in sinks),
                minimum=max(sink.minimum_accuracy for sink in sinks),
                sinks=tuple(Place(app, sink.name) for sink in sinks),
                up=tuple(Place(app, edge.start) for edge in edges if edge.start not in graph.sources),
                into=edges,
                down=tuple(Place(app, end) for end in graph.tasks.get(name, ())),
            )
    return found


def current_accuracy(local: float, above: Iterable[float]) -> float:
    """currAc(t) [3.4], from its own and from those of the tasks that lead to it.

    >>> current_accuracy(0.5, [0.8, 0.6]), current_accuracy(0.5, [])
    (0.3, 0.5)
    """
    return local * min(above, default=1.0)


def local_accuracy(in_rates: Sequence[float], out_rate: float) -> float:
    """locAc(t) [3.5]: what its slowest instance takes in of its part of what comes before the shedders.

    At most 1 [ours]: a task that catches up takes in more.

    >>> local_accuracy([40.0, 50.0], 100.0), local_accuracy([90.0], 60.0), local_accuracy([0.0], 0.0)
    (0.8, 1.0, 1.0)
    """
    return min(1.0, min(in_rates) * len(in_rates) / out_rate) if out_rate > 0 else 1.0


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


def measure_tasks(
    tasks: Mapping[Place, Task], instances: Iterable[Instance], out_rates: Mapping[tuple[str, Edge], float]
) -> dict[Place, TaskState]:
    """The state of each task that has an instance [3.4, 3.5, 3.7, 3.10].

    Args:
        tasks: in topological order, as :func:`tasks_of` gives them.
        instances: of all of them.
        out_rates: records/s on each edge of an application, before its shedder; an edge that is not named has none.
    """
    running: dict[Place, list[Instance]] = {}
    for instance in instances:
        running.setdefault(instance.task, []).append(instance)
    states = dict[Place, TaskState]()
    for place, task in tasks.items():
        here = running.get(place)
        if here is None:
            continue
        out_rate = sum([out_rates.get((place.app, edge), 0.0) for edge in task.into])
        local = local_accuracy([each.in_rate for each in here], out_rate)
        accuracy = current_accuracy(local, [states[each].accuracy for each in task.up if each in states])
        cpu = min(here, key=lambda each: each.in_rate).cpu
        states[place] = TaskState(accuracy, cpu, required_cpu(task.minimum, accuracy, cpu))
    return states
