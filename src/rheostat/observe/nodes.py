"""The nodes that executors can be on, from the node servers: their executors, their room, and their round trips.

Each server is asked in a background thread, once per observation, and an observation takes the answers that are there.
So a slow server makes its figures older, one that is down costs its own entry, and no observation waits for any. Only
the first one waits a little for each: otherwise the first executor would start on the node that answers first.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Protocol

from rheostat.config.models import ELSEWHERE
from rheostat.errors import RheostatError
from rheostat.model import Cluster, Gap, NodeReading, Nodes, Observation, RoundTrip
from rheostat.observe.cpu import CpuMeter
from rheostat.ports import Source
from rheostat.text import several

if TYPE_CHECKING:
    from rheostat.execute.node_client import NodeState

_Pair = tuple[str, str]
_Spawn = Callable[[Callable[[], None]], None]

STALE_S = 60.0
"""Older measurements of round trips are ignored, s."""

_SAME_PART, _SAME_MS = 0.2, 0.5

_FIRST_S = 5.0
"""How long the first observation waits for servers that have neither answered nor failed, s."""


class NodeServer(Protocol):
    """Client of a node server; see :class:`~rheostat.execute.node_client.NodeClient`. Failures are RheostatErrors."""

    @property
    def address(self) -> str: ...

    def state(self) -> NodeState: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Known:
    """The last state that a server gave, its time, and the error since, if any."""

    at: float
    state: NodeState
    trouble: str | None = None


class _Listener:
    """One server; there is at most one request to it at a time."""

    def __init__(self, server: NodeServer, now: Callable[[], float], spawn: _Spawn) -> None:
        self.server = server
        self.known: _Known | None = None
        self.trouble: str | None = "it has not answered yet"
        self.settled = threading.Event()
        self._now, self._spawn = now, spawn
        self._asking = threading.Lock()

    def ask(self) -> None:
        if self._asking.acquire(blocking=False):
            self._spawn(self._read)

    def _read(self) -> None:
        try:
            state = self.server.state()
            self.known, self.trouble = _Known(self._now(), state), None
        except RheostatError as error:
            self.trouble = str(error)[:200]
        except Exception as error:  # the thread's last line
            self.trouble = f"{type(error).__name__}: {error}"[:200]
        finally:
            self._asking.release()
            self.settled.set()


def _spawn_daemon(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="rheostat-look", daemon=True).start()


class NodesWatch:
    """The section ``nodes`` of an observation.

    Args:
        servers: of the nodes.
        given: (a, b), a < b → round trip, ms; None: as measured by the servers.
        now: epoch seconds.
        spawn: runs work in the background.
    """

    def __init__(
        self,
        servers: Sequence[NodeServer],
        given: Mapping[_Pair, float] | None,
        now: Callable[[], float],
        spawn: _Spawn = _spawn_daemon,
    ) -> None:
        self._listeners = [_Listener(server, now, spawn) for server in servers]
        self._given, self._now = given, now
        self._measured: dict[_Pair, float] = {}
        self._round_trips: tuple[RoundTrip, ...] = ()

    def ask(self) -> None:
        """Send a request to every server; returns at once."""
        for listener in self._listeners:
            listener.ask()

    def settle(self, most_s: float) -> None:
        """Wait until every server has answered or failed once, at most ``most_s`` seconds."""
        until = time.monotonic() + most_s
        for listener in self._listeners:
            listener.settled.wait(max(0.0, until - time.monotonic()))

    def round_trips(self) -> tuple[RoundTrip, ...]:
        """Of the last section."""
        return self._round_trips

    def troubles(self) -> list[str]:
        """What is wrong with servers: those that do not answer, and those with the name of another."""
        silent = [f"{one.server.address}: {one.trouble}" for one in self._listeners if one.trouble]
        return [*silent, *self._shared_names()]

    def states(self) -> dict[str, NodeState]:
        """The last answer of each node, by its name."""
        return {name: known.state for name, known in self._known_nodes().items()}

    def section(self, cluster: Cluster | None) -> tuple[Cluster | None, Nodes | None, tuple[Gap, ...]]:
        """The executors with their nodes, the section, and its gaps, from the answers so far.

        ``at`` is the time of the oldest answer used. A node whose server does not answer has no room; it stays in the
        section as long as executors of the application are on it. Executors whose node is unknown are on a node named
        ``elsewhere``, which has no room and no known round trips.
        """
        known = self._known_nodes()
        problems = self.troubles()
        if cluster is None or not known:
            problems += ["which executors there are is not known"] if known else []
            return cluster, None, _gaps(problems)
        places = _places(cluster, known)
        used, lost = Counter(places), places.count(ELSEWHERE)
        del used[ELSEWHERE]
        there = {name: one for name, one in known.items() if used[name] or not one.trouble}
        readings = [_reading(name, used[name], one) for name, one in there.items()]
        if lost:
            problems.append(f"{several(lost, 'executor is', 'executors are')} on no address that one node alone has")
            readings.append(NodeReading(ELSEWHERE, lost, 0))
        pairs = list(combinations(sorted(there), 2))
        found = self._measure(pairs, there) if self._given is None else self._given
        self._round_trips = tuple(RoundTrip(*pair, found[pair]) for pair in pairs if pair in found)
        problems += [f"no round trip is known between {a} and {b}" for a, b in pairs if (a, b) not in found]
        at = min((one.at for one in there.values()), default=self._now())
        return _named(cluster, places), Nodes(at, tuple(sorted(readings)), self._round_trips), _gaps(problems)

    def close(self) -> None:
        for listener in self._listeners:
            listener.server.close()

    def _known_nodes(self) -> dict[str, _Known]:
        """The last answer of each node; of two nodes with one name, that of the first."""
        nodes: dict[str, _Known] = {}
        for one in self._listeners:
            if one.known is not None:
                nodes.setdefault(one.known.state.name, replace(one.known, trouble=one.trouble))
        return nodes

    def _shared_names(self) -> Iterator[str]:
        names = Counter(one.known.state.name for one in self._listeners if one.known is not None)
        for name, count in names.items():
            if count > 1:
                yield f"{count} node servers are called {name}, and only the first is counted: give each its own name"

    def _measure(self, pairs: list[_Pair], there: Mapping[str, _Known]) -> Mapping[_Pair, float]:
        """The greater of the two ends' measurements; a change below a fifth, or half a ms, is ignored."""
        found = {}
        for a, b in pairs:
            fresh = [*_fresh(there[a], b, self._now()), *_fresh(there[b], a, self._now())]
            if fresh:
                ms, before = round(max(fresh), 1), self._measured.get((a, b))
                same = before is not None and abs(ms - before) <= max(_SAME_MS, _SAME_PART * before)
                found[a, b] = before if same and before is not None else ms
        self._measured |= found
        return found


class SourceWithNodes:
    """A :class:`~rheostat.ports.Source` that adds the sections ``cpu`` and ``nodes`` to the observations of another.

    ``placed``: whether executors are placed by node; else there is no section ``nodes``.
    """

    def __init__(self, source: Source, watch: NodesWatch, meter: CpuMeter, *, placed: bool = True) -> None:
        self._source, self._watch, self._meter = source, watch, meter
        self._placed, self._settled = placed, not placed

    def observe(self, at: float) -> Observation:
        """Observe once. Node servers are asked in the background; only the first time are they waited for."""
        self._watch.ask()
        observation = self._source.observe(at)
        if not self._settled:
            self._watch.settle(_FIRST_S)
            self._settled = True
        cpu, missing = self._meter.section(self._watch.states())
        observation = replace(observation, cpu=cpu, gaps=(*observation.gaps, *missing))
        if not self._placed:
            troubles = [Gap("cpu", each) for each in self._watch.troubles()]
            return replace(observation, gaps=(*observation.gaps, *troubles))
        cluster, nodes, gaps = self._watch.section(observation.cluster)
        return replace(observation, cluster=cluster, nodes=nodes, gaps=(*observation.gaps, *gaps))

    def close(self) -> None:
        self._source.close()
        self._watch.close()


def _gaps(problems: Sequence[str]) -> tuple[Gap, ...]:
    return tuple(Gap("nodes", problem) for problem in problems)


def _places(cluster: Cluster, known: Mapping[str, _Known]) -> list[str]:
    """The node of each executor; ``elsewhere`` if its address belongs to no node or to several."""
    nodes_of: dict[str, list[str]] = {}
    for name, one in known.items():
        for host in one.state.hosts:
            nodes_of.setdefault(host, []).append(name)
    found = [nodes_of.get(host, []) for host in cluster.roster.hosts]
    return [names[0] if len(names) == 1 else ELSEWHERE for names in found]


def _named(cluster: Cluster, places: Sequence[str]) -> Cluster:
    """The executors with their nodes; None if the node is unknown, or has the executor's address as its name."""
    pairs = zip(cluster.roster.hosts, places, strict=True)
    nodes = tuple([None if node in (host, ELSEWHERE) else node for host, node in pairs])
    return replace(cluster, roster=replace(cluster.roster, nodes=nodes))


def _reading(name: str, used: int, one: _Known) -> NodeReading:
    return NodeReading(name, used, 0 if one.trouble else one.state.idle + one.state.free)


def _fresh(one: _Known, peer: str, now: float) -> list[float]:
    return [ms for name, ms, age_s in one.state.peers if name == peer and age_s + now - one.at <= STALE_S]
