"""Executors on named nodes: carries out the placement of a decision through the Workers of the nodes (S2, "Execute").

The standalone master puts an executor on any free Worker, whatever its node. So before the job grows, idle Workers are
created on the nodes of the new executors and removed everywhere else, and the master must know this before an executor
is requested. An increase therefore takes the time of a decommissioning longer, and the removed standby is started again
afterwards. When the job shrinks, executors are chosen by their node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from rheostat.config.models import ELSEWHERE
from rheostat.decide.placement import Choice, choose_nodes_to_add
from rheostat.execute.node_client import NodeGateways, NodeState
from rheostat.model import NodeReading, Nodes, Placement, RoundTrip
from rheostat.ports import Clock
from rheostat.text import several


class JobView(Protocol):
    """The executors of the application. May raise :class:`~rheostat.errors.ActuationError`."""

    def registered(self) -> tuple[str, ...]:
        """Executors that get tasks, oldest first."""
        ...

    def placed(self) -> Mapping[str, str]:
        """Executor → web page (``host:port``) of its Worker; only the host if Spark does not tell the port."""
        ...


@dataclass(frozen=True, slots=True)
class LatencyMap:
    """What a placement needs besides the nodes.

    Attributes:
        round_trips: returns the present ones.
        clock: when a wait of it is interrupted, waiting ends.
        leave_s: time for the master to learn of removed Workers, s; after it the job grows nevertheless.
        look_s: time between two polls of them, s.
    """

    round_trips: Callable[[], tuple[RoundTrip, ...]]
    clock: Clock
    leave_s: float = 10.0
    look_s: float = 0.1


@dataclass(frozen=True, slots=True)
class Change:
    """A change on named nodes in progress.

    Attributes:
        before: executor → its node before the change, oldest first.
        first: executors to remove, in this order.
        words: what its beginning did, for the outcome.
    """

    placement: Placement
    before: Mapping[str, str]
    first: tuple[str, ...]
    words: list[str] = field(default_factory=list)


class Placed:
    """Executors and Workers on named nodes. Used by one thread at a time."""

    def __init__(self, nodes: NodeGateways, job: JobView, backup: int, known: LatencyMap) -> None:
        self._nodes, self._job, self._backup, self._known = nodes, job, backup, known
        self._node_of: dict[str, str] = {}
        self._slow: frozenset[str] = frozenset()

    def begin(self, at: float, placement: Placement, still: Callable[[], bool], first: Sequence[str] = ()) -> Change:
        """Prepare a change of the job: move the idle Workers, and choose the executors to remove.

        ``first`` are executors to remove before others of their node; ``still``: whether the change is still wanted.
        """
        self._slow = frozenset(placement.slow)
        states = self._nodes.states(at)
        before = self._executors(states)
        change = Change(placement, before, first_to_leave(placement.leave, before, first))
        if placement.add:
            self._make_room(at, states, change, still)
        return change

    def settle(self, at: float, change: Change | None, *, settled: bool) -> list[str]:
        """Move the standby to where the next executors would come, after a change and between changes; describe it."""
        states = self._nodes.states(at)
        executors = self._executors(states)
        words = [] if change is None else [*change.words, *_describe_change(change, executors)]
        used = Counter(node for node in executors.values() if node != ELSEWHERE)
        wanted = standby_moves(used, _stands(states), self._backup, self._present(), settled=settled)
        idle = sum(state.idle for state in states.values())
        created, removed = self._move(at, states, wanted)
        if created or removed:
            more = [f"{created} more requested on {', '.join(wanted.create)}"] if created else []
            more += [f"{removed} removed from {', '.join(wanted.keep)}"] if removed else []
            words.append(f"standby: {several(idle, 'idle Worker')}, {', '.join(more)}")
        elif states and idle < self._backup and not any(state.free for state in states.values()):
            words.append(f"standby: {idle} of {self._backup} idle Workers, as the nodes have no room for more")
        return words

    def _make_room(self, at: float, states: Mapping[int, NodeState], change: Change, still: Callable[[], bool]) -> None:
        add, stands = change.placement.add, _stands(states)
        used = Counter(change.placement.use) - Counter(add)
        taken, lacking, instead = possible(add, used, stands, self._present())
        if lacking:
            for_them = f"{', '.join(instead)} instead" if instead else "no other node has any"
            change.words.append(f"no room on {', '.join(lacking)}, or no answer: {for_them}")
        _, removed = self._move(at, states, moves((*taken, *instead), stands))
        if removed:
            began = self._known.clock.now()
            late = "" if self._await_leaving(began, still) else ", and the master may still place executors on them"
            waited_s = self._known.clock.now() - began
            sent = several(removed, "idle Worker")
            change.words.append(f"{sent} on other nodes removed first, in {waited_s:.1f} s{late}")

    def _move(self, at: float, states: Mapping[int, NodeState], wanted: Moves) -> tuple[int, int]:
        """The numbers of Workers created and removed. The Workers in use are read from the job now."""
        numbers = _numbers(states)
        created = self._nodes.create(at, {numbers[name]: count for name, count in wanted.create.items()})
        if not wanted.keep:
            return created, 0
        keep = {numbers[name]: count for name, count in wanted.keep.items()}
        return created, self._nodes.remove(at, states, keep, self._job.placed().values())

    def _await_leaving(self, began: float, still: Callable[[], bool]) -> bool:
        """Wait until the master places nothing on leaving Workers; False: not in time, or no longer wanted."""
        while still():
            now = self._known.clock.now()
            if not any(state.leaving for state in self._nodes.states(now).values()):
                return True
            if now - began > self._known.leave_s or self._known.clock.wait(self._known.look_s):
                return False
        return False

    def _executors(self, states: Mapping[int, NodeState]) -> dict[str, str]:
        """Executor → its node, oldest first. The nodes of Workers are remembered, as their server may be gone."""
        pages = self._job.placed()
        in_use = {place for page in pages.values() for place in (page, _host(page))}
        self._node_of = {place: node for place, node in self._node_of.items() if place in in_use}
        self._node_of |= {host: state.name for state in states.values() for host in state.hosts}
        self._node_of |= {page: state.name for state in states.values() for page in state.names}
        nodes = {
            executor: self._node_of.get(page) or self._node_of.get(_host(page), ELSEWHERE)
            for executor, page in pages.items()
        }
        return {executor: nodes[executor] for executor in self._job.registered() if executor in nodes}

    def _present(self) -> Known:
        return Known(self._known.round_trips(), self._slow)


def _host(page: str) -> str:
    return page.rpartition(":")[0] or page


def _numbers(states: Mapping[int, NodeState]) -> dict[str, int]:
    """Numbers of the nodes by name; of two with one name, that of the first."""
    found: dict[str, int] = {}
    for number, state in states.items():
        found.setdefault(state.name, number)
    return found


def _stands(states: Mapping[int, NodeState]) -> dict[str, Stand]:
    return {name: Stand(states[number].idle, states[number].free) for name, number in _numbers(states).items()}


def _describe_change(change: Change, now: Mapping[str, str]) -> list[str]:
    started = [node for executor, node in now.items() if executor not in change.before]
    removed = [node for executor, node in change.before.items() if executor not in now]
    parts = _compare("started on", started, change.placement.add)
    parts += _compare("removed from", removed, change.placement.leave)
    return [f"executors {', '.join(parts)}"] if parts else []


def _compare(verb: str, found: Collection[str], wanted: Collection[str]) -> list[str]:
    parts = [f"{verb} {', '.join(sorted(found)) or 'no node'}"] if found or wanted else []
    if missed := Counter(wanted) - Counter(found):
        parts.append(f"not {verb} {', '.join(sorted(missed.elements()))} as decided")
    return parts


# Pure functions: which Workers to create and remove, and which executors to remove first


class Stand(NamedTuple):
    """Workers of a node without an executor, and how many more it can start."""

    idle: int
    free: int


class Known(NamedTuple):
    """The round trips between the nodes, and the slow nodes."""

    round_trips: tuple[RoundTrip, ...] = ()
    slow: frozenset[str] = frozenset()


class Moves(NamedTuple):
    """Requests to the nodes, by name: Workers to create; idle Workers to keep where some are removed."""

    create: dict[str, int]
    keep: dict[str, int]


def possible(
    add: Sequence[str], used: Counter[str], stands: Mapping[str, Stand], known: Known
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The nodes of ``add`` with room, those without room (or without an answer), and the nodes taken instead.

    The nearest node with room is taken instead, slow ones last. ``used``: executors by node, without those of ``add``.

    >>> possible(["far", "far"], Counter(mid=1), {"far": Stand(1, 0), "mid": Stand(0, 2)}, Known())
    (('far',), ('far',), ('mid',))
    """
    room = _room(stands)
    taken, lacking = list[str](), list[str]()
    for name in add:
        (taken if room[name] > 0 else lacking).append(name)
        room[name] -= room[name] > 0
    return tuple(taken), tuple(lacking), _next_nodes(used + Counter(taken), room, len(lacking), known)


def moves(add: Sequence[str], stands: Mapping[str, Stand]) -> Moves:
    """The requests that make executors start on ``add``, given that they start on any idle Worker.

    Each node gets as many idle Workers as new executors, and keeps no more; if all executors start on one node, further
    idle Workers may stay there.

    >>> moves(["near", "mid"], {"near": Stand(2, 0), "mid": Stand(0, 3)})
    Moves(create={'mid': 1}, keep={'near': 1})
    """
    wanted = Counter(add)
    create = {name: wanted[name] - stand.idle for name, stand in stands.items() if wanted[name] > stand.idle}
    surplus = (name for name, stand in stands.items() if stand.idle > wanted[name] and set(add) != {name})
    return Moves(create, {name: wanted[name] for name in surplus})


def standby_moves(
    used: Counter[str], stands: Mapping[str, Stand], backup: int, known: Known, *, settled: bool
) -> Moves:
    """The requests that move the standby to where the next executors would start: near nodes with room, slow ones last.

    Unless the job is ``settled``, idle Workers may be about to be used: none is removed, and no more are created than
    are missing in total.
    """
    goals = _next_nodes(used, _room(stands), backup, known)
    idle = Counter({name: stand.idle for name, stand in stands.items()})
    missing = len(goals) if settled else backup - idle.total()
    create = Counter[str]()
    for name in goals:
        if idle[name] > 0:
            idle[name] -= 1
        elif create.total() < missing:
            create[name] += 1
    wanted = Counter(goals)
    keep = {name: wanted[name] for name, stand in stands.items() if stand.idle > wanted[name]}
    return Moves(dict(create), keep if settled else {})


def first_to_leave(leave: Sequence[str], executors: Mapping[str, str], first: Sequence[str] = ()) -> tuple[str, ...]:
    """The executors to remove for ``leave``: for each node in turn one of ``first``, else the newest one left there.

    ``leave`` has one entry for each executor to remove; ``executors`` are executor → its node, oldest first.

    >>> first_to_leave(["far", "mid", "far"], {"1": "far", "2": "mid", "3": "far", "4": "near"})
    ('3', '2', '1')
    """
    named = [each for each in first if each in executors]
    left = [*named, *(each for each in reversed(list(executors)) if each not in named)]
    found = list[str]()
    for node in leave:
        executor = next((each for each in left if executors[each] == node), None)
        if executor is not None:
            left.remove(executor)
            found.append(executor)
    return tuple(found)


def _room(stands: Mapping[str, Stand]) -> Counter[str]:
    return Counter({name: stand.idle + stand.free for name, stand in stands.items()})


def _next_nodes(used: Counter[str], room: Counter[str], count: int, known: Known) -> tuple[str, ...]:
    """The nodes of the next ``count`` executors."""
    rows = tuple([NodeReading(name, used[name], room[name]) for name in sorted(room)])
    nodes = Nodes(0.0, rows, known.round_trips)
    return choose_nodes_to_add(tuple(sorted(used.elements())), nodes, count, Choice(slow=known.slow))
