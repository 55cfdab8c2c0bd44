"""The nodes that executors can be on, from the node servers: their executors, their room, and their round trips.

Each server is asked in a background thread, once per observation, and an observation takes the answers that are there.
So a slow server makes its figures older, one that is down costs its own entry, and no observation waits for any. Only
the first one waits a little for each: otherwise the first executor would start on the node that answers first.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Protocol

from rheostat.config.models import ELSEWHERE
from rheostat.errors import RheostatError
from rheostat.model import Cluster, Gap, NodeReading, Nodes, Observation, RoundTrip
from rheostat.ports import Source
from rheostat.text import several as count_of

_Spawn = Callable[[Callable[[], None]], None]

STALE_S = 60.0
"""Older measurements of round trips are ignored, s."""

_SAME_PART, _SAME_MS = 0.2, 0.5

_FIRST_S = 5.0
"""How long the first observation waits for servers that have neither answered nor failed, s."""


class NodeWord(Protocol):
    """The state of a node; :class:`~rheostat.execute.node_client.NodeState` implements it."""

    @property
    def name(self) -> str:
        """Name of the node."""
        ...

    @property
    def idle(self) -> int:
        """Workers that stay and host no executor."""
        ...

    @property
    def free(self) -> int:
        """Workers that it could start now."""
        ...

    @property
    def hosts(self) -> Collection[str]:
        """Addresses of its Workers."""
        ...

    @property
    def ways(self) -> Sequence[tuple[str, float, float]]:
        """Peer, round trip in ms, seconds since it was measured."""
        ...


class NodeServer(Protocol):
    """Client of a node server. Every failure is a RheostatError."""

    @property
    def address(self) -> str:
        """``http://host:port``."""
        ...

    def state(self) -> NodeWord:
        """Read its state."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def daemon(work: Callable[[], None]) -> None:
    """Run in a daemon thread, which never delays an exit."""
    threading.Thread(target=work, name="rheostat-look", daemon=True).start()


@dataclass(frozen=True, slots=True)
class _Heard:
    """The last answer of a server, its time, and the error since, if any."""

    at: float
    word: NodeWord
    trouble: str | None = None


class _Listener:
    """One server; there is at most one request to it at a time."""

    def __init__(self, server: NodeServer, now: Callable[[], float], spawn: _Spawn) -> None:
        self.server = server
        self.heard: _Heard | None = None
        self.trouble: str | None = "it has not answered yet"
        self.settled = threading.Event()
        self._now, self._spawn = now, spawn
        self._asking = threading.Lock()

    def ask(self) -> None:
        if self._asking.acquire(blocking=False):
            self._spawn(self._work)

    def _work(self) -> None:
        try:
            word = self.server.state()
            self.heard, self.trouble = _Heard(self._now(), word), None
        except RheostatError as error:
            self.trouble = str(error)[:200]
        except Exception as error:  # the thread's last line
            self.trouble = f"{type(error).__name__}: {error}"[:200]
        finally:
            self._asking.release()
            self.settled.set()


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
        given: Mapping[tuple[str, str], float] | None,
        now: Callable[[], float],
        spawn: _Spawn = daemon,
    ) -> None:
        self._listeners = [_Listener(server, now, spawn) for server in servers]
        self._given, self._now = given, now
        self._told: dict[tuple[str, str], float] = {}
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
        """The round trips of the last section."""
        return self._round_trips

    def told(self, cluster: Cluster | None) -> tuple[Cluster | None, Nodes | None, tuple[Gap, ...]]:
        """The executors with their nodes, the section, and its gaps, from the answers so far.

        ``at`` is the time of the oldest answer used. A node whose server does not answer has no room; it stays in the
        section as long as executors of the application are on it. Executors whose node is unknown are on a node named
        ``elsewhere``, which has no room and no known round trips.
        """
        known = _by_name(self._listeners)
        gaps = [Gap("nodes", f"{one.server.address}: {one.trouble}") for one in self._listeners if one.trouble]
        gaps += [Gap("nodes", text) for text in _doubles(self._listeners)]
        if cluster is None or not known:
            gaps += [Gap("nodes", "which executors there are is not known")] if known else []
            return cluster, None, tuple(gaps)
        where = _where(cluster, known)
        used, lost = Counter(where), where.count(ELSEWHERE)
        del used[ELSEWHERE]
        words = f"{count_of(lost, 'executor is', 'executors are')} on no address that one node alone has"
        gaps += [Gap("nodes", words)] if lost else []
        there = {name: one for name, one in known.items() if used[name] or not one.trouble}
        readings = [_reading(name, used[name], one) for name, one in there.items()]
        readings += [NodeReading(ELSEWHERE, lost, 0)] if lost else []
        self._round_trips, missing = self._trips(there)
        gaps += [Gap("nodes", f"no round trip is known between {a} and {b}") for a, b in missing]
        at = min((one.at for one in there.values()), default=self._now())
        return _named(cluster, where), Nodes(at, tuple(sorted(readings)), self._round_trips), tuple(gaps)

    def close(self) -> None:
        """Close the connections."""
        for listener in self._listeners:
            listener.server.close()

    def _trips(self, there: Mapping[str, _Heard]) -> tuple[tuple[RoundTrip, ...], list[tuple[str, str]]]:
        pairs = list(combinations(sorted(there), 2))
        found = self._given if self._given is not None else self._measured(pairs, there)
        trips = [RoundTrip(*pair, found[pair]) for pair in pairs if pair in found]
        return tuple(trips), [pair for pair in pairs if pair not in found]

    def _measured(self, pairs: list[tuple[str, str]], there: Mapping[str, _Heard]) -> Mapping[tuple[str, str], float]:
        """The greater of the two ends' measurements; a change below a fifth, or half a ms, is ignored."""
        told = {}
        for pair in pairs:
            fresh = [*_fresh(there[pair[0]], pair[1], self._now()), *_fresh(there[pair[1]], pair[0], self._now())]
            if fresh:
                ms, before = round(max(fresh), 1), self._told.get(pair)
                same = before is not None and abs(ms - before) <= max(_SAME_MS, _SAME_PART * before)
                told[pair] = before if same and before is not None else ms
        self._told |= told
        return told


class SourceWithNodes:
    """A :class:`~rheostat.ports.Source` that adds the section ``nodes`` to the observations of another."""

    def __init__(self, source: Source, watch: NodesWatch) -> None:
        self._source, self._watch, self._settled = source, watch, False

    def observe(self, at: float) -> Observation:
        """Observe once. Node servers are asked in the background; only the first time are they waited for."""
        self._watch.ask()
        seen = self._source.observe(at)
        if not self._settled:
            self._watch.settle(_FIRST_S)
            self._settled = True
        cluster, nodes, gaps = self._watch.told(seen.cluster)
        return replace(seen, cluster=cluster, nodes=nodes, gaps=(*seen.gaps, *gaps))

    def close(self) -> None:
        """Close both."""
        self._source.close()
        self._watch.close()


def _by_name(listeners: Sequence[_Listener]) -> dict[str, _Heard]:
    """The last answer of each node; of two nodes with one name, that of the first."""
    known: dict[str, _Heard] = {}
    for one in listeners:
        if one.heard is not None:
            known.setdefault(one.heard.word.name, replace(one.heard, trouble=one.trouble))
    return known


def _doubles(listeners: Sequence[_Listener]) -> Iterator[str]:
    names = Counter(one.heard.word.name for one in listeners if one.heard is not None)
    for name in (name for name, several in names.items() if several > 1):
        yield f"{names[name]} node servers are called {name}, and only the first is counted: give each its own name"


def _where(cluster: Cluster, known: Mapping[str, _Heard]) -> list[str]:
    """The node of each executor; ``elsewhere`` if its address belongs to no node or to several."""
    nodes_of: dict[str, list[str]] = {}
    for name, one in known.items():
        for host in one.word.hosts:
            nodes_of.setdefault(host, []).append(name)
    found = [nodes_of.get(host, []) for host in cluster.roster.hosts]
    return [names[0] if len(names) == 1 else ELSEWHERE for names in found]


def _named(cluster: Cluster, where: Sequence[str]) -> Cluster:
    """The executors with their nodes; None if the node is unknown, or has the executor's address as its name."""
    pairs = zip(cluster.roster.hosts, where, strict=True)
    nodes = tuple([None if node in (host, ELSEWHERE) else node for host, node in pairs])
    return replace(cluster, roster=replace(cluster.roster, nodes=nodes))


def _reading(name: str, used: int, one: _Heard) -> NodeReading:
    return NodeReading(name, used, 0 if one.trouble else one.word.idle + one.word.free)


def _fresh(one: _Heard, peer: str, now: float) -> list[float]:
    return [ms for name, ms, age_s in one.word.ways if name == peer and age_s + now - one.at <= STALE_S]
