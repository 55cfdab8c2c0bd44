"""Clients of the node servers (S1, 4.3.3): of one, and of all at once. Requests are bounded in time and size."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol, TypeVar

from rheostat.config.loading import read_token
from rheostat.config.models import Settings
from rheostat.errors import RheostatError, UnavailableError

if TYPE_CHECKING:
    from rheostat.http_client import Http

P = ParamSpec("P")
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


class ExecutorTime(NamedTuple):
    """CPU seconds of an executor of any application, its Python workers included."""

    app_id: str
    executor_id: str
    cpu_s: float


class NodeTime(NamedTuple):
    """Processor time of a node until ``at``, of a clock of its own.

    ``busy_s``: CPU seconds of all that runs on it. ``speed``: of a CPU, relative to those of other nodes.
    """

    at: float
    cpus: int
    busy_s: float
    executors: tuple[ExecutorTime, ...] = ()
    speed: float = 1.0


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
        cpu: its processor time; None: a server of an earlier version does not tell.
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
    cpu: NodeTime | None = None


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
        leaving = sum(one["state"] == "leaving" and one.get("standing") not in _REFUSES for one in workers)
        state = NodeState(
            n_max=int(answer["n_max"]),
            used=tuple(str(one["name"]) for one in workers if one["used"]),
            idle=sum(not one["used"] for one in workers if one["state"] in _STAYING),
            free=len(answer["free_ids"]),
            names={str(one["web"]): str(one["name"]) for one in workers if one["web"] is not None},
            name=str(answer["name"]),
            hosts=frozenset(str(one["host"]) for one in workers),
            leaving=leaving,
            peers=_parse_peers(answer.get("peers", ())),
            cpu=_parse_cpu(answer["cpu"]) if "cpu" in answer else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        message = f"this is not what a node says of itself: {error!r}"
        raise UnavailableError(message) from error
    if len(workers) + state.free > max(state.n_max, len(workers)):
        message = f"it says {len(workers)} Workers and {state.free} free ids of {state.n_max}"
        raise UnavailableError(message)
    return state


def _parse_peers(peers: Sequence[Mapping[str, Any]]) -> tuple[PeerTrip, ...]:
    measured = [one for one in peers if one["round_trip_ms"] is not None]
    trips = [PeerTrip(str(one["name"]), float(one["round_trip_ms"]), float(one["age_s"])) for one in measured]
    if not all(0 <= number < float("inf") for trip in trips for number in (trip.ms, trip.age_s)):
        raise ValueError("a round trip or its age is no number, or negative")
    return tuple(trips)


def _parse_cpu(cpu: Mapping[str, Any]) -> NodeTime:
    rows = cpu["executors"]
    executors = [ExecutorTime(str(one["app_id"]), str(one["executor_id"]), float(one["cpu_s"])) for one in rows]
    speed = float(cpu.get("speed", 1.0))
    if not 0 < speed < float("inf"):
        raise ValueError("the speed of its CPUs is no positive number")
    found = NodeTime(float(cpu["at"]), int(cpu["cpus"]), float(cpu["busy_s"]), tuple(executors), speed)
    if not all(0 <= number < float("inf") for number in (*found[:3], *(one.cpu_s for one in executors))):
        raise ValueError("a processor time is no number, or negative")
    return found


class Node(Protocol):
    """The port of a node server; see :class:`NodeClient`. Every failure is an UnavailableError."""

    @property
    def address(self) -> str: ...

    def state(self) -> NodeState: ...

    def create(self, target: int) -> int: ...

    def remove(self, used: Sequence[str], free: int) -> int: ...

    def close(self) -> None: ...


class NodeClient:
    """Client of one node server. Every call ends within ``timeout_s``; every failure is an UnavailableError.

    The address is ``http://host:port``; ``name`` replaces the node's own name.
    """

    def __init__(self, address: str, token: str | None, timeout_s: float, name: str | None = None) -> None:
        self.address = address
        self.name = name
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._timeout_s = timeout_s
        self._http: Http | None = None

    def state(self) -> NodeState:
        state = parse_state(self._ask("GET"))
        return state if self.name is None else replace(state, name=self.name)

    def create(self, target: int) -> int:
        """Ask for ``target`` more Workers; returns how many it creates."""
        return self._count("creating", self._ask("POST", {"target": target}))

    def remove(self, used: Collection[str], free: int) -> int:
        """Ask it to remove all idle Workers but ``free``; returns how many it removes."""
        return self._count("removing", self._ask("DELETE", {"used": sorted(used), "free": free}))

    def close(self) -> None:
        """Close the connection. May be called more than once."""
        http, self._http = self._http, None
        if http is not None:
            http.close()

    def _count(self, key: str, answer: Any) -> int:
        found = answer.get(key) if isinstance(answer, dict) else None
        if not isinstance(found, list):
            message = f"this is not what a node answers: no {key}"
            raise UnavailableError(message)
        return len(found)

    def _ask(self, method: str, order: Mapping[str, Any] | None = None) -> Any:
        from rheostat.http_client import Http

        if self._http is None:
            self._http = Http(self._timeout_s, self._headers)
        response = self._http.ask(method, f"{self.address}/taskmanager", order)
        answer = response.json()
        if response.ok:
            return answer
        faults = answer.get("faults") if isinstance(answer, dict) else None
        known = [one for one in faults if isinstance(one, dict)] if isinstance(faults, list) else []
        words = "; ".join(str(one.get("message")) for one in known)
        message = f"it refuses with {response.status}" + (f": {words}" if words else "")
        raise UnavailableError(message)


def node_clients(settings: Settings) -> list[NodeClient]:
    """Clients of the node servers that the settings name; connections are opened when they are needed.

    Raises:
        InputError: the token cannot be read.
    """
    workers = settings.workers
    token = read_token(workers.token_file, "workers.token_file", os.environ)
    return [NodeClient(address, token, workers.timeout_s, name) for name, address in workers.named_nodes]


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

    def __init__(self, node: Node, options: StandbyOptions) -> None:
        self.node = node
        self.trouble: str | None = None
        self._options = options
        self._pause_s = options.first_s
        self._again_at = 0.0

    def paused(self, at: float) -> bool:
        return self.trouble is not None and at < self._again_at

    def call(self, at: float, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The node's answer; None if it failed: see ``trouble``. The first failure and the recovery are logged."""
        try:
            answer = ask(*args, **kwargs)
        except RheostatError as error:
            if self.trouble is None:
                _log.warning("node %s: %s; it is tried again (logged once)", self.node.address, error)
            self.trouble = f"node {self.node.address}: {error}"[:_MAX_TROUBLE]
            self._again_at, self._pause_s = at + self._pause_s, min(2 * self._pause_s, self._options.longest_s)
            return None
        if self.trouble is not None:
            _log.warning("node %s answers again", self.node.address)
        self.trouble, self._pause_s = None, self._options.first_s
        return answer


class NodeGateways:
    """All node servers, by number. A node that failed is skipped for a while. Used by one thread at a time."""

    def __init__(self, nodes: Sequence[Node], options: StandbyOptions) -> None:
        self._gateways = [_NodeGateway(node, options) for node in nodes]

    @property
    def troubles(self) -> list[str]:
        """The last error of each node whose last call failed."""
        return [gateway.trouble for gateway in self._gateways if gateway.trouble]

    def states(self, at: float) -> dict[int, NodeState]:
        """The states of the nodes that answer; all are asked at once."""
        asked = {number: gateway for number, gateway in enumerate(self._gateways) if not gateway.paused(at)}
        if not asked:
            return {}
        with ThreadPoolExecutor(len(asked), thread_name_prefix="rheostat-node") as pool:
            states = pool.map(lambda gateway: gateway.call(at, gateway.node.state), asked.values())
            return {number: state for number, state in zip(asked, states, strict=True) if state is not None}

    def create(self, at: float, wanted: Mapping[int, int]) -> int:
        """Ask each node (by number) for so many more Workers; returns how many they create together."""
        created = 0
        for number, share in wanted.items():
            if share:
                gateway = self._gateways[number]
                created += gateway.call(at, gateway.node.create, share) or 0
        return created

    def remove(
        self, at: float, states: Mapping[int, NodeState], keep: Mapping[int, int], pages: Collection[str]
    ) -> int:
        """Ask nodes to remove idle Workers; returns how many they remove together.

        Args:
            at: now.
            states: of the nodes.
            keep: number of a node that shall remove some → the idle Workers that it keeps.
            pages: of the Workers that the job uses, read just now.
        """
        removed = 0
        for number, free in keep.items():
            state, gateway = states[number], self._gateways[number]
            used = sorted({state.names.get(page, page) for page in pages} | set(state.used))
            removed += gateway.call(at, gateway.node.remove, used, free) or 0
        return removed

    def close(self) -> None:
        """Close the connections."""
        for gateway in self._gateways:
            gateway.node.close()
