"""The controller of Stream Economics [S3, Algorithms 3.1 to 3.4]: who gets the processor time, and who has to move.

A cycle gives every task what its minimum accuracy needs, on each node. Where a node has not enough, the least important
instances move. What is left goes to the tasks by priority, fairly within one. The accuracies that follow become the
non-drop probabilities of the edges [3.15, 3.16, in :func:`rheostat.decide.shedding.edge_shares`].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from rheostat.config.shedding import Edge, SheddingGraph
from rheostat.decide.qod_model import (
    Instance,
    NodeLoad,
    Place,
    Task,
    TaskState,
    measure_tasks,
    obtained_accuracy,
    required_cpu,
    tasks_of,
)
from rheostat.decide.shedding import edge_shares


class Move(NamedTuple):
    """An instance that leaves its node; ``to``: where it has room."""

    task: Place
    node: str
    to: str


@dataclass(frozen=True, slots=True)
class QodPlan:
    """The result of a cycle.

    Attributes:
        desired: accuracy of each sink.
        keep: for each application, the non-drop probability × 10⁶ of each edge that drops.
        moves: in the order in which they were chosen.
        short: cores that a node lacks for the minima of its tasks, and no other node has room for; without those that
            have enough.
    """

    desired: Mapping[Place, float]
    keep: Mapping[str, Mapping[str, int]]
    moves: tuple[Move, ...] = ()
    short: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Readings:
    """What was measured.

    Attributes:
        out_rates: records/s on each edge of an application, before its shedder.
    """

    nodes: Sequence[NodeLoad]
    instances: Sequence[Instance]
    out_rates: Mapping[tuple[str, Edge], float]


class QodController:
    """Runs cycles over the same applications.

    Args:
        graphs: of the applications, by name.
        literal: as the document has Algorithm 3.4, ``obtAc(i, c) + minAc``; else ``obtAc(i, minReq + c)`` [ours]. They
            are equal but for tasks that are bound by their core, that have no accuracy yet, or that use no time.
    """

    def __init__(self, graphs: Mapping[str, SheddingGraph], *, literal: bool = False) -> None:
        self._graphs, self._literal = graphs, literal
        self._tasks = tasks_of(graphs)

    def run(self, readings: Readings) -> QodPlan:
        """One cycle [Algorithm 3.2]."""
        states = measure_tasks(self._tasks, readings.instances, readings.out_rates)
        available = _available(readings)
        by_node: dict[str, list[Instance]] = {name: [] for name in available}
        for instance in readings.instances:
            by_node[instance.node].append(instance)
        needed = {node: sum([states[each.task].least for each in there]) for node, there in by_node.items()}
        moves, short = self._make_room(available, needed, by_node, states)
        moved = {(move.task, move.node) for move in moves}
        left = {node: max(0.0, cores - needed[node]) for node, cores in available.items()}
        desired = {sink: 1.0 for task in self._tasks.values() for sink in task.sinks}
        for group in self._by_priority(readings.instances, left, desired, states, moved):
            self._spread(group, left, desired, states)
        keep = {
            app: edge_shares(graph, {name: desired[Place(app, name)] for name in graph.sinks})
            for app, graph in self._graphs.items()
        }
        return QodPlan(desired, keep, tuple(moves), short)

    def _make_room(
        self,
        available: Mapping[str, float],
        needed: dict[str, float],
        by_node: Mapping[str, list[Instance]],
        states: Mapping[Place, TaskState],
    ) -> tuple[list[Move], dict[str, float]]:
        """Move instances from nodes that have not enough for the minima of all, to nodes that have room for them.

        Undefined in the document [ours]: what no other node has room for stays where it is, and its minimum counts.
        """
        moves, short = list[Move](), dict[str, float]()
        room = {node: cores - needed[node] for node, cores in available.items()}
        for node, there in by_node.items():
            lacks = needed[node] - available[node]
            if lacks <= 0:
                continue
            for instance in choose_moves(lacks, there, self._tasks, states):
                least = states[instance.task].least
                others = {name: cores for name, cores in room.items() if name != node and cores >= least}
                if not others:
                    continue
                to = max(others, key=lambda name: others[name])
                moves.append(Move(instance.task, node, to))
                room[to] -= least
                needed[node] -= least
                needed[to] += least
            if needed[node] > available[node]:
                short[node] = needed[node] - available[node]
        return moves, short

    def _by_priority(
        self,
        instances: Iterable[Instance],
        left: Mapping[str, float],
        desired: Mapping[Place, float],
        states: Mapping[Place, TaskState],
        moved: set[tuple[Place, str]],
    ) -> Iterable[list[Instance]]:
        """The instances of a node and a priority, the greatest priority first; of one, the tightest node first."""
        groups: dict[int, dict[str, list[Instance]]] = {}
        for instance in instances:
            if (instance.task, instance.node) not in moved:
                of_priority = groups.setdefault(self._tasks[instance.task].priority, {})
                of_priority.setdefault(instance.node, []).append(instance)
        for priority in sorted(groups, reverse=True):
            slack = {}
            for node, there in groups[priority].items():
                slack[node] = sum([self._missing(each, desired, states) for each in there]) - left[node]  # [3.14]
            for node in sorted(slack, key=lambda name: -slack[name]):
                yield groups[priority][node]

    def _spread(
        self,
        group: Sequence[Instance],
        left: dict[str, float],
        desired: dict[Place, float],
        states: Mapping[Place, TaskState],
    ) -> None:
        """Share what is left of a node among the instances of one priority [Algorithm 3.4]."""
        ascending = sorted(group, key=lambda each: self._missing(each, desired, states))
        for done, instance in enumerate(ascending):
            task = self._tasks[instance.task]
            missing = self._missing(instance, desired, states)  # what came before may have lowered it
            share = min(missing, left[instance.node] / (len(group) - done))
            accuracy = self._reached(task, states[instance.task], share)
            for sink in task.sinks:
                if accuracy < desired[sink]:
                    desired[sink] = accuracy
            left[instance.node] -= share

    def _missing(self, instance: Instance, desired: Mapping[Place, float], states: Mapping[Place, TaskState]) -> float:
        """diffReq(t) [3.13]: processor time for maxAc(t) [3.6, 3.11] beyond that for the minimum [3.10]."""
        state = states[instance.task]
        greatest = max([desired[sink] for sink in self._tasks[instance.task].sinks])
        return max(0.0, required_cpu(greatest, state.accuracy, state.cpu) - state.least)

    def _reached(self, task: Task, state: TaskState, share: float) -> float:
        """The accuracy with so much time beyond the minimum's. Never less than what was promised [ours]."""
        if self._literal:
            return min(1.0, obtained_accuracy(share, state.accuracy, state.cpu) + task.minimum)
        if state.cpu == 0:
            return 1.0  # no node's time limits it
        return max(task.minimum, obtained_accuracy(state.least + share, state.accuracy, state.cpu))


def _available(readings: Readings) -> dict[str, float]:
    """aCpu(tm) [Algorithm 3.2, line 2]: cores that no other process uses."""
    own = dict.fromkeys([node.name for node in readings.nodes], 0.0)
    for instance in readings.instances:
        own[instance.node] += instance.cpu
    return {node.name: node.cores - max(0.0, node.cpu - own[node.name]) for node in readings.nodes}


def choose_moves(
    lacks: float, instances: Sequence[Instance], tasks: Mapping[Place, Task], states: Mapping[Place, TaskState]
) -> list[Instance]:
    """The instances that release at least so many cores [Algorithm 3.3]: of low priority, few, and small ones.

    First whole priorities from the lowest on, until they release enough; then those stay that are not needed for that,
    the greatest priority and the largest first. ``lacks`` does not change meanwhile (the document lowers it in the
    loop, and its own example would come out otherwise).
    """

    def priority(instance: Instance) -> int:
        return tasks[instance.task].priority

    candidates, released = list[Instance](), 0.0
    for _, equals in groupby(sorted(instances, key=priority), key=priority):
        if released >= lacks:
            break
        whole = list(equals)
        candidates += whole
        released += sum([states[each.task].least for each in whole])
    chosen = []
    for instance in sorted(candidates, key=lambda each: (-priority(each), -states[each.task].least)):
        least = states[instance.task].least
        if released - least >= lacks - _ROUNDING:
            released -= least
        else:
            chosen.append(instance)
    return chosen


_ROUNDING = 1e-9


def choose_node(
    estimate: float,
    preferred: Iterable[str],
    nodes: Sequence[NodeLoad],
    arriving: Mapping[str, float],
    former: str | None = None,
) -> str | None:
    """The node for an instance [Algorithm 3.1]; None: there is none but the one that it failed on.

    Args:
        estimate: cores that it will use, by its history or that of the task's other instances, else 1.
        preferred: nodes by locality.
        nodes: all.
        arriving: cores that instances without metrics are expected to use, by node.
        former: the node that a failed instance leaves; it does not go there again.
    """
    free = {each.name: each.cores - each.cpu - arriving.get(each.name, 0.0) for each in nodes if each.name != former}
    near = [name for name in preferred if name in free and free[name] - estimate >= 0]
    return max(near or free, key=lambda name: free[name], default=None)
