"""Round trips from a node to its peers, measured repeatedly; and artificial delays for trials."""

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
"""Header with the name of the node that pings."""

PING_S = 2.0
"""Timeout of a ping, s."""

_PINGS = 5
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Measurement:
    """The round trip to one peer.

    Attributes:
        ms: median of the last three answered rounds, which ignores one in which a machine was busy; None: none yet.
        at: time of the last of them, of the clock of :class:`PeerRoundTrips`.
        trouble: error of the last attempt.
    """

    peer: str
    url: str
    ms: float | None = None
    at: float | None = None
    trouble: str | None = None


class PeerRoundTrips:
    """Measures the round trips to the peers of a node, in a thread of its own. Thread-safe.

    Args:
        name: of this node.
        peers: name → address, ``http://host:port``.
        delays_ms: caller → delay of the answers to its pings; only for trials.
        every_s: time between two rounds.
        measure: (address, own name) → round trip, ms. May raise.
        clock: seconds; setting the time of the machine does not move it.
    """

    def __init__(
        self,
        name: str = "node",
        peers: Mapping[str, str] | None = None,
        delays_ms: Mapping[str, float] | None = None,
        every_s: float = 10.0,
        *,
        measure: Callable[[str, str], float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.delays_ms = dict(delays_ms or {})
        self._name, self._every_s = name, every_s
        self._measure, self._clock = measure or round_trip_ms, clock
        self._latest = {peer: Measurement(peer, url) for peer, url in sorted((peers or {}).items()) if peer != name}
        self._rounds = {peer: deque[float](maxlen=_ROUNDS) for peer in self._latest}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rheostat-peers", daemon=True)

    def start(self) -> None:
        if self._latest:
            self._thread.start()

    def close(self) -> None:
        """Stop measuring, without waiting for a ping in progress."""
        self._ended.set()

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return tuple(self._latest.values())

    def age_s(self, one: Measurement) -> float | None:
        """The age of a measurement, s; None: there is none."""
        return None if one.at is None else round(self._clock() - one.at, 1)

    def delay_s(self, caller: str | None) -> float:
        """The artificial delay of a ping of this caller, s."""
        return self.delays_ms.get(caller or "", 0.0) / 1000

    def measure_all(self) -> None:
        """Measure each peer once, one after the other, so that pings do not disturb each other."""
        for peer, before in self._latest.items():
            if self._ended.is_set():
                return
            try:
                self._rounds[peer].append(self._measure(before.url, self._name))
                latest = Measurement(peer, before.url, round(median(self._rounds[peer]), 3), self._clock())
            except Exception as error:  # one bad peer must not stop the measurements of the others
                latest = Measurement(peer, before.url, before.ms, before.at, f"{type(error).__name__}: {error}"[:200])
            self._latest[peer] = latest

    def _run(self) -> None:
        while not self._ended.is_set():
            self.measure_all()
            self._ended.wait(self._every_s)


def round_trip_ms(url: str, caller: str, pings: int = _PINGS) -> float:
    """The median time from a ping to its answer over an open connection, ms.

    Raises:
        UnavailableError: there is no answer within ``PING_S``, or its status is not 2xx.
    """
    from rheostat.http_client import Http

    with Http(PING_S, {CALLER: caller}) as http:
        _ping(http, url)
        return median(_ping(http, url) for _ in range(pings)) * 1000


def _ping(http: Http, url: str) -> float:
    began = time.perf_counter()
    http.ask("GET", f"{url}/ping").accepted()
    return time.perf_counter() - began
