"""The controller of Stream Economics [S3, Algorithms 3.1 to 3.4]: who gets the processor time, and who has to move.

A cycle gives every task what its minimum accuracy needs, on each node. Where a node has not enough, the least important
instances move. What is left goes to the tasks by priority, fairly within one. The accuracies that follow become the
non-drop probabilities of the edges [3.15, 3.16].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heapreplace
from itertools import groupby
from typing import NamedTuple

from rheostat.config.shedding import Edge, SheddingGraph
from rheostat.decide.qod_model import (
    Instance,
    NodeLoad,
    Place,
    Task,
    TaskState,
    edge_shares,
    local_accuracy,
    measure_tasks,
    obtained_accuracy,
    required_cpu,
    tasks_of,
)


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
    short: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Readings:
    """What was measured.

    Attributes:
        out_rates: records/s on each edge of an application, before its shedder.
        backlogs: records that wait in the topic that an edge reads.
        drain_s: time in which they are to be worked off; None: never, as in the document.
    """

    nodes: Sequence[NodeLoad]
    instances: Sequence[Instance]
    out_rates: Mapping[tuple[str, Edge], float]
    backlogs: Mapping[tuple[str, Edge], float] = field(default_factory=dict)
    drain_s: float | None = None

    @property
    def due_rates(self) -> Mapping[tuple[str, Edge], float]:
        """The rates with which what waits is worked off, too [ours]: the document's would let it wait for good."""
        if self.drain_s is None:
            return self.out_rates
        due = {edge: self.out_rates.get(edge, 0.0) + waits / self.drain_s for edge, waits in self.backlogs.items()}
        return {**self.out_rates, **due}


@dataclass(frozen=True, slots=True)
class WarmUps:
    """What is remembered of instances, by application, task and id.

    Attributes:
        since: when each was first seen; None: it is warm.
    """

    since: Mapping[str, float | None] = field(default_factory=dict)


_WARM = 0.9
"""Part of its minimum accuracy from which on an instance counts as warm: rates vary."""


class QodController:
    """Runs cycles over the same applications.

    Args:
        graphs: of the applications, by name.
        literal: as the document has Algorithm 3.4, ``obtAc(i, c) + minAc``; else ``obtAc(i, minReq + c)`` [ours]. They
            are equal but for tasks that are bound by their core, that have no accuracy yet, or that use no time. And
            every instance that warms up holds all back on its node; else only where none of its task is warm [ours].
    """

    def __init__(self, graphs: Mapping[str, SheddingGraph], *, literal: bool = False) -> None:
        self._graphs, self._literal = graphs, literal
        self._tasks = tasks_of(graphs)
        self._numbers = {task.place: number for number, task in enumerate(self._tasks)}

    def mark_warm_ups(
        self, readings: Readings, state: WarmUps, at: float, timeout_s: float
    ) -> tuple[Readings, WarmUps]:
        """Mark the instances that warm up [4.7]: from when they are first seen until they reach the minimum accuracy.

        After ``timeout_s`` an instance counts as warm in any case.
        """
        count = Counter(instance.task for instance in readings.instances)
        marked, since = list[Instance](), dict[str, float | None]()
        for instance in readings.instances:
            key = "/".join((*instance.task, instance.id))
            began = state.since.get(key, at)
            if began is not None:
                task = self._tasks[self._numbers[instance.task]]
                rate = sum([readings.out_rates.get(edge, 0.0) for edge in task.into])
                reached = local_accuracy(instance.in_rate, count[instance.task], rate)
                began = None if reached >= _WARM * task.minimum or at - began >= timeout_s else began
            since[key] = began
            marked.append(instance if began is None else instance._replace(warms=True))
        return replace(readings, instances=marked), WarmUps(since)

    def run(self, readings: Readings) -> QodPlan:
        """One cycle [Algorithm 3.2]."""
        cycle = _Cycle(self._tasks, self._numbers, readings, literal=self._literal)
        moves, short = cycle.make_room()
        cycle.spread_all()
        desired, keep = dict[Place, float](), dict[str, Mapping[str, int]]()
        for app, graph in self._graphs.items():
            wanted = {name: cycle.desired[self._numbers[Place(app, name)]] for name in graph.sinks}
            keep[app] = edge_shares(graph, wanted)
            desired |= {Place(app, name): accuracy for name, accuracy in wanted.items()}
        return QodPlan(desired, keep, tuple(moves), short)


class _Cycle:
    """One cycle. Tasks go by their numbers; an instance, by its task and its node.

    Instances move for the rates that last; what is left is shared by those that also work off what waits.

    Attributes:
        desired: accuracies of the sinks; those of other tasks are not used.
    """

    def __init__(
        self, tasks: Sequence[Task], numbers: Mapping[Place, int], readings: Readings, *, literal: bool
    ) -> None:
        self._tasks, self._literal = tasks, literal
        running: list[list[Instance]] = [[] for _ in tasks]
        self._by_node: dict[str, list[int]] = {node.name: [] for node in readings.nodes}
        warm_up: list[tuple[int, str]] = []
        warm = {instance.task for instance in readings.instances if not instance.warms}
        for instance in readings.instances:
            number = numbers[instance.task]
            running[number].append(instance)
            if instance.warms and (literal or instance.task not in warm):
                warm_up.append((number, instance.node))
            else:  # it will need what the warm ones of its task use
                self._by_node[instance.node].append(number)
        self._states = measure_tasks(tasks, running, readings.out_rates)
        self._due = measure_tasks(tasks, running, readings.due_rates) if readings.drain_s else self._states
        self._available = available_cores(readings)
        self._speeds = {node.name: node.speed for node in readings.nodes}
        self._needed = {node: sum([self._states[n].least for n in there]) for node, there in self._by_node.items()}
        self._left = dict[str, float]()
        self.desired = [1.0] * len(tasks)
        # what was measured of its application is not what that needs, so none of its instances moves [ours]
        self._unsettled = {instance.task.app for instance in readings.instances if instance.warms}
        self._hold_back(warm_up)

    def _hold_back(self, warm_up: Iterable[tuple[int, str]]) -> None:
        """Where such an instance warms up, all run at their minimum, and so does its task elsewhere [4.7]."""
        self._withheld = {node for _, node in warm_up}
        numbers = {number for number, _ in warm_up}.union(*(self._by_node[node] for node in self._withheld))
        for number in numbers:
            self._limit(self._tasks[number], self._tasks[number].minimum)

    def _limit(self, task: Task, accuracy: float) -> None:
        for sink in task.sinks:
            if accuracy < self.desired[sink]:
                self.desired[sink] = accuracy

    def make_room(self) -> tuple[list[Move], dict[str, float]]:
        """Move instances from nodes that have not enough for the minima of all, to nodes that have room for them.

        Undefined in the document [ours]: what no other node has room for stays where it is, and its minimum counts; and
        what an instance needs on a machine of another speed follows from the speeds.
        """
        moves, short, needed, speeds = list[Move](), dict[str, float](), self._needed, self._speeds
        roomiest = [(speeds[node] * (needed[node] - cores), node) for node, cores in self._available.items()]
        heapify(roomiest)
        for node, there in self._by_node.items():
            lacks = needed[node] - self._available[node]
            if lacks <= 0:
                continue
            settled = [number for number in there if self._tasks[number].place.app not in self._unsettled]
            for number in choose_moves(lacks, settled, self._tasks, self._states):
                least = self._states[number].least
                work, (taken, to) = speeds[node] * least, roomiest[0]
                if to == node or -taken < work:
                    continue
                moves.append(Move(self._tasks[number].place, node, to))
                self._limit(self._tasks[number], self._tasks[number].minimum)
                there.remove(number)
                heapreplace(roomiest, (taken + work, to))
                needed[node] -= least
                needed[to] += work / speeds[to]
            if needed[node] > self._available[node]:
                short[node] = needed[node] - self._available[node]
        return moves, short

    def spread_all(self) -> None:
        """Share what the minima leave: by priority, and for one priority the tightest node first."""
        for node, cores in self._available.items():
            more = sum([self._due[number].least - self._states[number].least for number in self._by_node[node]])
            left = 0.0 if node in self._withheld else cores - self._needed[node] - more
            self._left[node] = max(0.0, left)
        groups: dict[int, dict[str, list[int]]] = {}
        for node, there in self._by_node.items():
            for number in there:
                groups.setdefault(self._tasks[number].priority, {}).setdefault(node, []).append(number)
        for _, by_node in sorted(groups.items(), reverse=True):
            slack = {
                node: sum([self._missing(n) for n in by_node[node]]) - self._left[node] for node in by_node
            }  # [3.14]
            for node in sorted(slack, key=lambda name: -slack[name]):
                self._spread(node, by_node[node])

    def _spread(self, node: str, group: Sequence[int]) -> None:
        """Share what is left of a node among the instances of one priority [Algorithm 3.4]."""
        left = self._left[node]
        for done, number in enumerate(sorted(group, key=self._missing)):
            missing = self._missing(number)  # what came before may have lowered it
            share = min(missing, left / (len(group) - done))
            self._limit(self._tasks[number], self._reached(number, share))
            left -= share
        self._left[node] = left

    def _missing(self, number: int) -> float:
        """diffReq(t) [3.13]: processor time for maxAc(t) [3.6, 3.11] beyond that for the minimum [3.10]."""
        accuracy, cpu, least = self._due[number]
        greatest = max([self.desired[sink] for sink in self._tasks[number].sinks])
        return max(0.0, required_cpu(greatest, accuracy, cpu) - least)

    def _reached(self, number: int, share: float) -> float:
        """The accuracy with so much time beyond the minimum's. Never less than what was promised [ours]."""
        (accuracy, cpu, least), minimum = self._due[number], self._tasks[number].minimum
        if self._literal:
            return min(1.0, obtained_accuracy(share, accuracy, cpu) + minimum)
        if cpu == 0:
            return 1.0  # no node's time limits it
        return max(minimum, obtained_accuracy(least + share, accuracy, cpu))


def available_cores(readings: Readings) -> dict[str, float]:
    """aCpu(tm) [Algorithm 3.2, line 2]: cores of each node that no other process uses."""
    used = dict.fromkeys([node.name for node in readings.nodes], 0.0)
    for instance in readings.instances:
        used[instance.node] += instance.cpu
    return {node.name: max(0.0, node.cores - max(0.0, node.cpu - used[node.name])) for node in readings.nodes}


def choose_moves(lacks: float, there: Sequence[int], tasks: Sequence[Task], states: Sequence[TaskState]) -> list[int]:
    """The tasks whose instances release at least so many cores [Algorithm 3.3]: of low priority, few, and small ones.

    First whole priorities from the lowest on, until they release enough; then those stay that are not needed for that,
    the greatest priority and the largest first. ``lacks`` does not change meanwhile (the document lowers it in the
    loop, and its own example would come out otherwise).
    """

    def priority(number: int) -> int:
        return tasks[number].priority

    candidates, released = list[int](), 0.0
    for _, equals in groupby(sorted(there, key=priority), key=priority):
        if released >= lacks:
            break
        whole = list(equals)
        candidates += whole
        released += sum([states[number].least for number in whole])
    chosen = []
    for number in sorted(candidates, key=lambda each: (-priority(each), -states[each].least)):
        least = states[number].least
        if released - least >= lacks - _ROUNDING:
            released -= least
        else:
            chosen.append(number)
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
