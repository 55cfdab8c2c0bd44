"""Applications of record-at-a-time tasks on machines that offer more slots than they have cores [S3, chapter 5].

Records wait in topics, which hold any number of them, and before tasks, whose buffers are short: a task that is full
stops those that lead to it. The cores of a machine are shared equally among the instances that have work, each of which
uses one core at most. Records are amounts, not single ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from rheostat.config.shedding import WHOLE, Edge, SheddingGraph
from rheostat.decide.qod import Readings
from rheostat.decide.qod_model import Instance, NodeLoad, Place
from rheostat.load.curves import RateCurve

_STEP_S = 0.1
_BUFFER_S = 0.2
"""Work that the buffer of an instance holds, in seconds of one core."""
_COLD = 2.0
"""What a record costs a cold instance ÷ what it costs a warm one."""

Key = tuple[str, Edge]
"""An edge of an application."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamApp:
    """An application.

    Attributes:
        cost_s: processor time of a record in each task.
        nodes: of the instances of each task.
        rates: records/s into each topic; time 0 is that of the cluster.
        partitions: of each topic; records go to them in turn.
        begin_s, end_s: when it runs.
    """

    graph: SheddingGraph
    cost_s: Mapping[str, float]
    nodes: Mapping[str, Sequence[str]]
    rates: Mapping[str, RateCurve]
    partitions: int = 2
    begin_s: float = 0.0
    end_s: float = inf


@dataclass(slots=True)
class _Running:
    """An instance: what waits for it, and what it did since the last reading."""

    id: str
    node: str
    cost_s: float
    ready_at: float
    warm_at: float
    waiting: float = 0.0
    done: float = 0.0
    used_s: float = 0.0

    @property
    def space(self) -> float:
        return max(0.0, _BUFFER_S / self.cost_s - self.waiting)


@dataclass(slots=True)
class Flow:
    """What went over an edge since the cluster started: records offered to the shedder, and those that it kept."""

    offered: float = 0.0
    kept: float = 0.0


@dataclass(slots=True)
class _Topic:
    """What one edge reads of a topic: it has read the same share of each partition that one instance reads."""

    waiting: list[float]
    read: list[float] = field(default_factory=list)


class StreamCluster:
    """Machines and applications, played forward.

    Args:
        nodes: cores of each machine.
        others: cores that other processes use on a machine at a time.
        start_up_s: from the order until an instance takes records; ``cold_s``: for which it is cold after that.

    Attributes:
        flows: what went over each edge.
        done: records that each task has worked on.
    """

    def __init__(
        self,
        nodes: Mapping[str, float],
        apps: Mapping[str, StreamApp],
        *,
        others: Mapping[str, Callable[[float], float]] | None = None,
        start_up_s: float = 8.0,
        cold_s: float = 15.0,
    ) -> None:
        self.now = 0.0
        self.nodes = dict(nodes)
        self._others = others or {}
        self._start_up_s, self._cold_s = start_up_s, cold_s
        self._apps = dict(apps)
        self._running: dict[Place, list[_Running]] = {}
        self._topics: dict[Key, _Topic] = {}
        self._keep: Mapping[str, Mapping[str, int]] = {}
        self._count = 0
        self.flows: dict[Key, Flow] = {}
        self.done: dict[Place, float] = {}
        self._looked_at = 0.0
        self._looked: dict[Key, float] = {}
        self._begin_apps()

    # What is ordered

    def order(self, keep: Mapping[str, Mapping[str, int]]) -> None:
        """Non-drop probabilities × 10⁶ of the edges of each application from now on; an edge without one keeps all."""
        self._keep = keep

    def move(self, task: Place, node: str, to: str) -> bool:
        """Start an instance on another machine, which takes over what waits; False: there is none on ``node``."""
        for each in self._running.get(task, ()):
            if each.node == node:
                self._start_again(each, to)
                return True
        return False

    def kill(self, task: Place, number: int, to: str) -> None:
        """An instance of a running task fails; it starts again on a machine, and nothing that waits for it is lost."""
        there = self._running[task]
        self._start_again(there[number % len(there)], to)

    def _start_again(self, instance: _Running, node: str) -> None:
        self._count += 1
        instance.id = str(self._count)
        instance.node = node
        instance.ready_at = self.now + self._start_up_s
        instance.warm_at = instance.ready_at + self._cold_s
        instance.done = instance.used_s = 0.0

    # Playing forward

    def advance(self, until: float) -> None:
        """Play until a time, s."""
        while self.now < until - _STEP_S / 2:
            self._begin_apps()
            self._arrive()
            granted = self._share_cores()
            for place, edges in self._tasks_from_sinks():
                self._process(place, edges, granted)
            self._read_topics()
            self.now = round(self.now + _STEP_S, 6)

    @property
    def apps(self) -> dict[str, StreamApp]:
        """Those that run."""
        return {name: app for name, app in self._apps.items() if app.begin_s <= self.now < app.end_s}

    def _begin_apps(self) -> None:
        for name, app in self.apps.items():
            for task, nodes in app.nodes.items():
                place = Place(name, task)
                if place not in self._running:
                    there = [
                        _Running(f"{name}-{task}-{n}", node, app.cost_s[task], 0, 0) for n, node in enumerate(nodes)
                    ]
                    self._running[place], self.done[place] = there, 0.0
            for edge in app.graph.edges:
                self.flows.setdefault((name, edge), Flow())
                if edge.start in app.graph.sources and (name, edge) not in self._topics:
                    self._topics[name, edge] = _Topic([0.0] * app.partitions, [0.0] * app.partitions)

    def _arrive(self) -> None:
        for (name, edge), topic in self._topics.items():
            if name in self.apps:
                curve = self._apps[name].rates[edge.start]
                came = (curve.cumulative(self.now + _STEP_S) - curve.cumulative(self.now)) / len(topic.waiting)
                topic.waiting = [waits + came for waits in topic.waiting]

    def _share_cores(self) -> dict[str, float]:
        """Processor seconds of this step for each instance: equal parts of its machine, and no more than it can use."""
        wanted: dict[str, dict[str, float]] = {node: {} for node in self.nodes}
        for place, edges in self._tasks_from_sinks():
            space = min([self._space((place.app, edge)) for edge in edges], default=inf)
            for each in self._running[place]:
                if self.now >= each.ready_at and each.waiting:
                    amount = min(each.waiting, space / len(self._running[place]))
                    wanted[each.node][each.id] = min(_STEP_S, amount * self._cost_s(each))
        granted = dict[str, float]()
        for node, cores in self.nodes.items():
            used = self._others[node](self.now) if node in self._others else 0.0
            granted |= share_equally(wanted[node], max(0.0, cores - used) * _STEP_S)
        return granted

    def _cost_s(self, instance: _Running) -> float:
        return instance.cost_s * (_COLD if self.now < instance.warm_at else 1.0)

    def _tasks_from_sinks(self) -> Iterator[tuple[Place, list[Edge]]]:
        for name, app in self.apps.items():
            for task in reversed([*app.graph.tasks, *app.graph.sinks]):
                yield Place(name, task), [Edge(task, end) for end in app.graph.tasks.get(task, ())]

    def _process(self, place: Place, edges: Sequence[Edge], granted: Mapping[str, float]) -> None:
        """Each instance does what its time allows."""
        for each in self._running[place]:
            cost_s = self._cost_s(each)
            amount = min(each.waiting, granted.get(each.id, 0.0) / cost_s)
            each.waiting -= amount
            each.done += amount
            self.done[place] += amount
            each.used_s += amount * cost_s
            for edge in edges:
                self._pass((place.app, edge), amount)

    def _space(self, key: Key) -> float:
        """Records that may be offered to an edge, whose shedder keeps some: each instance gets an equal part.

        Edges that lead to one task share its buffers equally.
        """
        share, there = self._share(key), self._running[Place(key[0], key[1].end)]
        edges = sum(edge.end == key[1].end for edge in self._apps[key[0]].graph.edges)
        return min(each.space for each in there) * len(there) / (share * edges) if share else inf

    def _pass(self, key: Key, amount: float) -> None:
        share, there = self._share(key), self._running[Place(key[0], key[1].end)]
        self.flows[key].offered += amount
        self.flows[key].kept += amount * share
        for each in there:
            each.waiting += amount * share / len(there)

    def _share(self, key: Key) -> float:
        app, edge = key
        return self._keep.get(app, {}).get(str(edge), WHOLE) / WHOLE

    def _read_topics(self) -> None:
        for key, topic in self._topics.items():
            if key[0] not in self.apps:
                continue
            there, share = self._running[Place(key[0], key[1].end)], self._share(key)
            for number, waits in enumerate(topic.waiting):
                reader = there[number % len(there)]
                amount = min(waits, reader.space / share) if share else waits
                topic.waiting[number] -= amount
                topic.read[number] += amount
                reader.waiting += amount * share
                self.flows[key].offered += amount
                self.flows[key].kept += amount * share

    def _instances(self) -> Iterator[tuple[Place, _Running]]:
        for place, there in self._running.items():
            if place.app in self.apps:
                yield from ((place, each) for each in there)

    # What is measured

    def read(self) -> Readings:
        """What happened since the last reading; topics with the rates of what arrived in them."""
        elapsed = max(self.now - self._looked_at, _STEP_S)
        busy = {node: self._others[node](self.now) if node in self._others else 0.0 for node in self.nodes}
        instances, rates = list[Instance](), dict[Key, float]()
        for place, each in self._instances():
            instances.append(Instance(place, each.node, each.done / elapsed, each.used_s / elapsed, each.id))
            busy[each.node] += each.used_s / elapsed
            each.done = each.used_s = 0.0
        for key, flow in self.flows.items():
            came = self.arrived(key) if key in self._topics else flow.offered
            rates[key] = (came - self._looked.get(key, 0.0)) / elapsed
            self._looked[key] = came
        self._looked_at = self.now
        nodes = [NodeLoad(node, cores, busy[node]) for node, cores in self.nodes.items()]
        backlogs = {key: sum(topic.waiting) for key, topic in self._topics.items()}
        return Readings(nodes, instances, rates, backlogs)

    def arrived(self, key: Key) -> float:
        """Records that came into the topic of an edge while its application ran."""
        return sum(self._topics[key].waiting) + sum(self._topics[key].read)

    @property
    def consumed(self) -> dict[Key, list[float]]:
        """Records read so far of each partition, for each edge that reads a topic."""
        return {key: [*topic.read] for key, topic in self._topics.items()}

    @property
    def lags(self) -> dict[Key, list[float]]:
        """Records that wait in each partition, likewise."""
        return {key: [*topic.waiting] for key, topic in self._topics.items()}

    def waiting(self, task: Place) -> float:
        """Records in the buffers of a task."""
        return sum(each.waiting for each in self._running[task])


def share_equally(wanted: Mapping[str, float], amount: float) -> dict[str, float]:
    """Equal parts of an amount, for each at most what it wants; what one does not want is for the others.

    >>> share_equally({"a": 0.2, "b": 1.0, "c": 1.0}, 1.0)
    {'a': 0.2, 'b': 0.4, 'c': 0.4}
    """
    found, left = dict[str, float](), amount
    for done, name in enumerate(sorted(wanted, key=lambda each: wanted[each])):
        found[name] = min(wanted[name], left / (len(wanted) - done))
        left -= found[name]
    return found
