"""The node servers as an actuator sees them (S1, 4.3.3): one request each, bounded in time and size."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from rheostat.errors import RheostatError, UnavailableError

if TYPE_CHECKING:
    from rheostat.http_client import Answer, Http


_SCHEMA = "rheostat.node/1"
_STAYING = ("queued", "starting", "ready")
_REFUSES = ("DECOMMISSIONED", "DEAD")
"""The master places no executor on a Worker that it calls so."""


class Way(NamedTuple):
    """The round trip from a node to a peer, and how long ago it was measured."""

    peer: str
    ms: float
    age_s: float


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node at one time.

    Attributes:
        n_max: Workers that there can be, standby included.
        used: addresses of the Workers that host an executor of anybody, by the master.
        idle: Workers that stay and host none; those that start are among them.
        free: ids that a request for more would get.
        names: each Worker's web page (``host:port``) → what the node calls it without doubt.
        name: of the node.
        hosts: addresses of its Workers, also of those that leave.
        leaving: Workers that were told to leave and may still get an executor, as the master does not know it yet.
        ways: round trips to its peers, as far as they are measured.
    """

    n_max: int
    used: tuple[str, ...]
    idle: int
    free: int
    names: Mapping[str, str]
    name: str = "node"
    hosts: frozenset[str] = frozenset()
    leaving: int = 0
    ways: tuple[Way, ...] = ()


def parse_state(answer: Any) -> NodeState:
    """What ``GET /taskmanager`` answers.

    Raises:
        UnavailableError: it is not what a node says, or its master does not answer.
    """
    if not isinstance(answer, dict) or answer.get("schema") != _SCHEMA:
        raise UnavailableError("this is not what a node says of itself")
    if answer.get("master") is None:
        raise UnavailableError("its master does not answer: nobody knows which Workers are used")
    try:
        workers: Sequence[Mapping[str, Any]] = answer["workers"]
        used = tuple(str(one["name"]) for one in workers if one["used"])
        idle = sum(not one["used"] for one in workers if one["state"] in _STAYING)
        names = {str(one["web"]): str(one["name"]) for one in workers if one["web"] is not None}
        state = NodeState(int(answer["n_max"]), used, idle, len(answer["free_ids"]), names, str(answer["name"]))
        state = replace(state, hosts=frozenset(str(one["host"]) for one in workers), leaving=_leaving(workers))
        state = replace(state, ways=_ways(answer.get("peers", ())))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        message = f"this is not what a node says of itself: {error!r}"
        raise UnavailableError(message) from error
    if state.free < 0 or len(workers) + state.free > max(state.n_max, len(workers)):
        message = f"it says {len(workers)} Workers and {state.free} free ids of {state.n_max}"
        raise UnavailableError(message)
    return state


def _leaving(workers: Sequence[Mapping[str, Any]]) -> int:
    return sum(one["state"] == "leaving" and one.get("standing") not in _REFUSES for one in workers)


def _ways(peers: Sequence[Mapping[str, Any]]) -> tuple[Way, ...]:
    """What is measured; a number that is none, or negative, is a fault of the whole answer."""
    ways = [
        Way(str(one["name"]), float(one["round_trip_ms"]), float(one["age_s"]))
        for one in peers
        if one["round_trip_ms"] is not None
    ]
    if not all(0 <= number < float("inf") for way in ways for number in (way.ms, way.age_s)):
        message = "a round trip or its age is no number, or negative"
        raise ValueError(message)
    return tuple(ways)


class NodeClient:
    """One node server. Every call ends within ``timeout_s``, and raises UnavailableError for whatever is wrong.

    Args:
        address: ``http://host:port``.
        token: that the node asks for; None: none.
        timeout_s: for a whole request, s.
        name: what it is called here; None: what it calls itself.
    """

    def __init__(self, address: str, token: str | None, timeout_s: float, name: str | None = None) -> None:
        self.address = address
        self.name = name
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._timeout_s = timeout_s
        self._http: Http | None = None

    def state(self) -> NodeState:
        """How it stands."""
        state = parse_state(self._ask("GET", None))
        return state if self.name is None else replace(state, name=self.name)

    def create(self, target: int) -> int:
        """Ask for ``target`` Workers more; how many it takes on."""
        return len(self._list(self._ask("POST", {"target": target}), "creating"))

    def remove(self, used: Collection[str], free: int) -> int:
        """Ask it to remove idle Workers but ``free``; how many it lets go."""
        return len(self._list(self._ask("DELETE", {"used": sorted(used), "free": free}), "removing"))

    def close(self) -> None:
        """Give back the connection. May be called more than once."""
        http, self._http = self._http, None
        if http is not None:
            http.close()

    def _list(self, answer: Any, key: str) -> list[Any]:
        found = answer.get(key) if isinstance(answer, dict) else None
        if not isinstance(found, list):
            message = f"this is not what a node answers: no {key}"
            raise UnavailableError(message)
        return found

    def _ask(self, method: str, order: Mapping[str, Any] | None) -> Any:
        from rheostat.http_client import Http

        if self._http is None:
            self._http = Http(self._timeout_s, self._headers)
        return _answer(self._http.ask(method, f"{self.address}/taskmanager", order))


def _answer(given: Answer) -> Any:
    answer = given.json()
    if given.ok:
        return answer
    faults = answer.get("faults") if isinstance(answer, dict) else None
    told = faults if isinstance(faults, list) else []
    words = "; ".join(str(one.get("message")) for one in told if isinstance(one, dict))
    message = f"it refuses with {given.status}" + (f": {words}" if words else "")
    raise UnavailableError(message)


# The node servers as one: all asked at once, one that fails left alone for a while; and how the standby is kept.


T = TypeVar("T")

_log = logging.getLogger("rheostat")
_LONGEST = 300


class Node(Protocol):
    """A node server; :class:`NodeClient` is one. Whatever is wrong is an UnavailableError."""

    @property
    def address(self) -> str:
        """``http://host:port``."""
        ...

    def state(self) -> NodeState:
        """How it stands."""
        ...

    def create(self, target: int) -> int:
        """Ask for so many Workers more; how many it takes on."""
        ...

    def remove(self, used: Sequence[str], free: int) -> int:
        """Ask it to remove idle Workers but ``free``; how many it lets go."""
        ...

    def close(self) -> None:
        """Give back the connection."""
        ...


@dataclass(frozen=True, slots=True)
class StandbyOptions:
    """How the standby is kept.

    Attributes:
        backup: Workers to be registered and unused.
        every_s: between two looks at the nodes when nothing is changed.
        first_s, longest_s: a node that failed is left alone for so long, twice as long each time, at most.
    """

    backup: int = 2
    every_s: float = 15.0
    first_s: float = 5.0
    longest_s: float = 60.0


class _NodeGateway:
    """One node, with what is known of its failures. Used by one thread at a time."""

    def __init__(self, node: Node, upkeep: StandbyOptions) -> None:
        self.node = node
        self.trouble: str | None = None
        self._upkeep = upkeep
        self._pause_s = upkeep.first_s
        self._again_at = 0.0

    def closed(self, at: float) -> bool:
        """Whether it is to be left alone for now."""
        return self.trouble is not None and at < self._again_at

    def call(self, at: float, ask: Callable[[Node], T]) -> T | None:
        """What it answers; None: it failed, ``trouble`` says how. Logged when it begins and when it is over."""
        try:
            found = ask(self.node)
        except RheostatError as error:
            if self.trouble is None:
                _log.warning("node %s: %s; it is tried again (told once)", self.node.address, error)
            self.trouble = f"node {self.node.address}: {error}"[:_LONGEST]
            self._again_at, self._pause_s = at + self._pause_s, min(2 * self._pause_s, self._upkeep.longest_s)
            return None
        if self.trouble is not None:
            _log.warning("node %s answers again", self.node.address)
        self.trouble, self._pause_s = None, self._upkeep.first_s
        return found


class NodeGateways:
    """The node servers, by number. Used by one thread at a time."""

    def __init__(self, nodes: Sequence[Node], upkeep: StandbyOptions) -> None:
        self._doors = [_NodeGateway(node, upkeep) for node in nodes]

    @property
    def troubles(self) -> list[str]:
        """What is wrong with each that failed last."""
        return [door.trouble for door in self._doors if door.trouble]

    def states(self, at: float) -> dict[int, NodeState]:
        """What the nodes that answer say, all asked at once; one that failed is left alone for a while."""
        open_ = [number for number, door in enumerate(self._doors) if not door.closed(at)]
        if not open_:
            return {}
        with ThreadPoolExecutor(len(open_), thread_name_prefix="rheostat-node") as pool:
            found = pool.map(lambda number: self._doors[number].call(at, _state), open_)
            return {number: state for number, state in zip(open_, found, strict=True) if state is not None}

    def create(self, at: float, wanted: Mapping[int, int]) -> int:
        """POST to each node so many Workers more; how many they take on."""
        asked = ((number, share) for number, share in wanted.items() if share)
        return sum(self._doors[number].call(at, _creating(share)) or 0 for number, share in asked)

    def remove(self, at: float, states: Mapping[int, NodeState], keep: Mapping[int, int], pages: Sequence[str]) -> int:
        """DELETE at each node, so many idle Workers to keep; how many are let go.

        Args:
            at: now.
            states: of the nodes.
            keep: by the numbers of the nodes that are to let some go.
            pages: of the Workers that the job uses, read just now.
        """
        gone = 0
        for number, free in keep.items():
            state = states[number]
            used = {state.names.get(page, page) for page in pages} | set(state.used)
            gone += self._doors[number].call(at, _removing(sorted(used), free)) or 0
        return gone

    def close(self) -> None:
        """Give back the connections."""
        for door in self._doors:
            door.node.close()


def _state(node: Node) -> NodeState:
    return node.state()


def _creating(target: int) -> Callable[[Node], int]:
    return lambda node: node.create(target)


def _removing(used: Sequence[str], free: int) -> Callable[[Node], int]:
    return lambda node: node.remove(used, free)
