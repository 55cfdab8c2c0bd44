"""Clients of the node servers (S1, 4.3.3): of one, and of all at once. Requests are bounded in time and size."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from rheostat.config.loading import read_token
from rheostat.config.models import Settings
from rheostat.errors import RheostatError, UnavailableError

if TYPE_CHECKING:
    from rheostat.http_client import Answer, Http


T = TypeVar("T")
_log = logging.getLogger("rheostat")
_MAX_TROUBLE = 300
"""Characters kept of an error message."""

_SCHEMA = "rheostat.node/1"
_STAYING = ("queued", "starting", "ready")
_REFUSES = ("DECOMMISSIONED", "DEAD")
"""States in which the master places no executor on a Worker."""


class PeerTrip(NamedTuple):
    """The round trip from a node to a peer, and how long ago it was measured."""

    peer: str
    ms: float
    age_s: float


@dataclass(frozen=True, slots=True)
class NodeState:
    """The state of a node.

    Attributes:
        n_max: maximum number of Workers, standby included.
        used: addresses of the Workers that host an executor of any application, according to the master.
        idle: Workers that stay and host none, including those that are starting.
        free: ids left for further Workers.
        names: web page of each Worker (``host:port``) → its unique name on the node.
        hosts: addresses of its Workers, including leaving ones.
        leaving: Workers that are leaving and may still get an executor, as the master does not know it yet.
        peers: measured round trips to its peers.
    """

    n_max: int
    used: tuple[str, ...]
    idle: int
    free: int
    names: Mapping[str, str]
    name: str = "node"
    hosts: frozenset[str] = frozenset()
    leaving: int = 0
    peers: tuple[PeerTrip, ...] = ()


def parse_state(answer: Any) -> NodeState:
    """Parse the answer of ``GET /taskmanager``.

    Raises:
        UnavailableError: it is not the state of a node, or the master of the node does not answer.
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
        leaving = sum(one["state"] == "leaving" and one.get("standing") not in _REFUSES for one in workers)
        state = NodeState(
            n_max=int(answer["n_max"]),
            used=used,
            idle=idle,
            free=len(answer["free_ids"]),
            names=names,
            name=str(answer["name"]),
            hosts=frozenset(str(one["host"]) for one in workers),
            leaving=leaving,
            peers=_parse_peers(answer.get("peers", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        message = f"this is not what a node says of itself: {error!r}"
        raise UnavailableError(message) from error
    if state.free < 0 or len(workers) + state.free > max(state.n_max, len(workers)):
        message = f"it says {len(workers)} Workers and {state.free} free ids of {state.n_max}"
        raise UnavailableError(message)
    return state


def _parse_peers(peers: Sequence[Mapping[str, Any]]) -> tuple[PeerTrip, ...]:
    trips = [
        PeerTrip(str(one["name"]), float(one["round_trip_ms"]), float(one["age_s"]))
        for one in peers
        if one["round_trip_ms"] is not None
    ]
    if not all(0 <= number < float("inf") for trip in trips for number in (trip.ms, trip.age_s)):
        message = "a round trip or its age is no number, or negative"
        raise ValueError(message)
    return tuple(trips)


class NodeClient:
    """Client of one node server. Every call ends within ``timeout_s``; every failure is an UnavailableError.

    Args:
        address: ``http://host:port``.
        token: bearer token; None: the node asks for none.
        timeout_s: for a whole request, s.
        name: used instead of the node's own name, if given.
    """

    def __init__(self, address: str, token: str | None, timeout_s: float, name: str | None = None) -> None:
        self.address = address
        self.name = name
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._timeout_s = timeout_s
        self._http: Http | None = None

    def state(self) -> NodeState:
        """Read its state."""
        state = parse_state(self._ask("GET", None))
        return state if self.name is None else replace(state, name=self.name)

    def create(self, target: int) -> int:
        """Ask for ``target`` more Workers; returns how many it creates."""
        return len(self._list(self._ask("POST", {"target": target}), "creating"))

    def remove(self, used: Collection[str], free: int) -> int:
        """Ask it to remove all idle Workers but ``free``; returns how many it removes."""
        return len(self._list(self._ask("DELETE", {"used": sorted(used), "free": free}), "removing"))

    def close(self) -> None:
        """Close the connection. May be called more than once."""
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


def node_clients(settings: Settings) -> list[NodeClient]:
    """Clients of the node servers that the settings name; connections are opened when they are needed.

    Raises:
        InputError: the token cannot be read.
    """
    ours = settings.workers
    token = read_token(ours.token_file, "workers.token_file", os.environ)
    return [NodeClient(address, token, ours.timeout_s, name) for name, address in ours.named_nodes]


class Node(Protocol):
    """The port of a node server; :class:`NodeClient` implements it. Every failure is an UnavailableError."""

    @property
    def address(self) -> str:
        """``http://host:port``."""
        ...

    def state(self) -> NodeState:
        """Read its state."""
        ...

    def create(self, target: int) -> int:
        """Ask for ``target`` more Workers; returns how many it creates."""
        ...

    def remove(self, used: Sequence[str], free: int) -> int:
        """Ask it to remove all idle Workers but ``free``; returns how many it removes."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@dataclass(frozen=True, slots=True)
class StandbyOptions:
    """How standby Workers are kept.

    Attributes:
        backup: registered Workers without an executor.
        every_s: time between two checks of the nodes while nothing changes, s.
        first_s, longest_s: pause after the first failure of a node, s; it doubles with each, up to the longest.
    """

    backup: int = 2
    every_s: float = 15.0
    first_s: float = 5.0
    longest_s: float = 60.0


class _NodeGateway:
    """A node and its failures. Used by one thread at a time."""

    def __init__(self, node: Node, upkeep: StandbyOptions) -> None:
        self.node = node
        self.trouble: str | None = None
        self._upkeep = upkeep
        self._pause_s = upkeep.first_s
        self._again_at = 0.0

    def paused(self, at: float) -> bool:
        return self.trouble is not None and at < self._again_at

    def call(self, at: float, ask: Callable[[Node], T]) -> T | None:
        """Its answer; None if it failed: see ``trouble``. The first failure and the recovery are logged."""
        try:
            answer = ask(self.node)
        except RheostatError as error:
            if self.trouble is None:
                _log.warning("node %s: %s; it is tried again (told once)", self.node.address, error)
            self.trouble = f"node {self.node.address}: {error}"[:_MAX_TROUBLE]
            self._again_at, self._pause_s = at + self._pause_s, min(2 * self._pause_s, self._upkeep.longest_s)
            return None
        if self.trouble is not None:
            _log.warning("node %s answers again", self.node.address)
        self.trouble, self._pause_s = None, self._upkeep.first_s
        return answer


class NodeGateways:
    """All node servers, by number. A node that failed is skipped for a while. Used by one thread at a time."""

    def __init__(self, nodes: Sequence[Node], upkeep: StandbyOptions) -> None:
        self._doors = [_NodeGateway(node, upkeep) for node in nodes]

    @property
    def troubles(self) -> list[str]:
        """The last error of each node whose last call failed."""
        return [door.trouble for door in self._doors if door.trouble]

    def states(self, at: float) -> dict[int, NodeState]:
        """The states of the nodes that answer; all are asked at once."""
        open_ = [number for number, door in enumerate(self._doors) if not door.paused(at)]
        if not open_:
            return {}
        with ThreadPoolExecutor(len(open_), thread_name_prefix="rheostat-node") as pool:
            states = pool.map(lambda number: self._doors[number].call(at, lambda node: node.state()), open_)
            return {number: state for number, state in zip(open_, states, strict=True) if state is not None}

    def create(self, at: float, wanted: Mapping[int, int]) -> int:
        """Ask each node (by number) for so many more Workers; returns how many they create together."""
        return sum(
            self._doors[number].call(at, partial(_create, share=share)) or 0
            for number, share in wanted.items()
            if share
        )

    def remove(self, at: float, states: Mapping[int, NodeState], keep: Mapping[int, int], pages: Sequence[str]) -> int:
        """Ask nodes to remove idle Workers; returns how many they remove together.

        Args:
            at: now.
            states: of the nodes.
            keep: by the numbers of the nodes that shall remove some, the idle Workers that they keep.
            pages: of the Workers that the job uses, read just now.
        """
        gone = 0
        for number, free in keep.items():
            state = states[number]
            used = sorted({state.names.get(page, page) for page in pages} | set(state.used))
            gone += self._doors[number].call(at, partial(_remove, used=used, free=free)) or 0
        return gone

    def close(self) -> None:
        """Close the connections."""
        for door in self._doors:
            door.node.close()


def _create(node: Node, share: int) -> int:
    return node.create(share)


def _remove(node: Node, used: Sequence[str], free: int) -> int:
    return node.remove(used, free)
