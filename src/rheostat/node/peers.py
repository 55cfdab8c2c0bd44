"""Round trips from one node to its peers: measured again and again, told with their age; and delays for trials."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rheostat.http_client import Http


CALLER = "X-Rheostat-Node"
"""The header by which a node that pings says who it is."""

PING_S = 2.0
"""A ping that takes longer is no answer."""

_PINGS = 5
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """The round trip to one peer.

    Attributes:
        ms: the median of the last three rounds that were answered, as one in which a machine was busy says nothing of
            the way; None: there is none yet.
        at: when the last of them was measured, seconds of the epoch.
        trouble: what went wrong at the last try; None: nothing.
    """

    peer: str
    url: str
    ms: float | None = None
    at: float | None = None
    trouble: str | None = None


class PeerRoundTrips:
    """The ways to the peers of a node. One thread of its own measures; safe to ask from others.

    Args:
        name: of this node.
        peers: name → address, ``http://host:port``.
        delays_ms: caller → how long its pings wait for their answer; only for trials.
        every_s: between two rounds.
        measure: (address, our name) → round trip, ms. May raise.
        now: the time, seconds of the epoch.
    """

    def __init__(
        self,
        name: str = "node",
        peers: Mapping[str, str] | None = None,
        delays_ms: Mapping[str, float] | None = None,
        every_s: float = 10.0,
        *,
        measure: Callable[[str, str], float] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.delays_ms = dict(delays_ms or {})
        self._name, self._every_s = name, every_s
        self._measure, self._now = measure or round_trip_ms, now
        self._found = {peer: Measured(peer, url) for peer, url in sorted((peers or {}).items()) if peer != name}
        self._rounds = {peer: deque[float](maxlen=_ROUNDS) for peer in self._found}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rheostat-ways", daemon=True)

    def start(self) -> None:
        """Begin to measure, if there is a peer."""
        if self._found:
            self._thread.start()

    def close(self) -> None:
        """Measure no more. A ping that is under way is not waited for."""
        self._ended.set()

    def measured(self) -> tuple[Measured, ...]:
        """What is known of the way to each peer, by name."""
        return tuple(self._found.values())

    def age_s(self, one: Measured) -> float | None:
        """How old a measurement is, s; None: there is none."""
        return None if one.at is None else max(0.0, round(self._now() - one.at, 1))

    def delay_s(self, caller: str | None) -> float:
        """How long a ping of this caller waits, s."""
        return self.delays_ms.get(caller or "", 0.0) / 1000

    def look(self) -> None:
        """Measure the way to each peer once, one after the other, so that they do not disturb each other."""
        for peer, before in self._found.items():
            if self._ended.is_set():
                return
            try:
                self._rounds[peer].append(self._measure(before.url, self._name))
                found = Measured(peer, before.url, round(median(self._rounds[peer]), 3), self._now())
            except Exception as error:  # whatever a peer is or does, the others are measured
                found = Measured(peer, before.url, before.ms, before.at, f"{type(error).__name__}: {error}"[:200])
            self._found[peer] = found

    def _run(self) -> None:
        while not self._ended.is_set():
            self.look()
            self._ended.wait(self._every_s)


def round_trip_ms(url: str, caller: str, pings: int = _PINGS) -> float:
    """The median time from a ping to its answer over a connection that is open already, ms; nothing is taken off it.

    Raises:
        UnavailableError: there is no answer, or not in ``PING_S``, or a refusal.
    """
    from rheostat.http_client import Http

    with Http(PING_S, {CALLER: caller}) as http:
        _ping(http, url)
        return median(_ping(http, url) for _ in range(pings)) * 1000


def _ping(http: Http, url: str) -> float:
    began = time.perf_counter()
    http.ask("GET", f"{url}/ping").accepted()
    return time.perf_counter() - began
