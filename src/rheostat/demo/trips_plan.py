"""A live run of the taxi pipeline on several nodes, under two days of trips in some minutes (S2, section V)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rheostat.demo.plan import DemoPlan
from rheostat.load.curves import Pieces, RateCurve, staircase
from rheostat.load.payload import RecordMaker
from rheostat.load.trip_maker import synthetic_trips
from rheostat.load.trip_replay import Arrivals, TripLoad, TripPayloads
from rheostat.load.trips import DAYS_S, TripPlan
from rheostat.pipelines.settings import TaxiSettings

if TYPE_CHECKING:
    from rheostat.demo.ground import NodeServers
    from rheostat.lab.lab import Lab
    from rheostat.pipelines.sink import RecordTotals

__all__ = ["CAP", "NODES", "ROUND_TRIPS_MS", "TripsPlan", "levels"]

NODES = ("core", "near", "far")

ROUND_TRIPS_MS: Mapping[str, Mapping[str, float]] = {"core": {"near": 20.0, "far": 250.0}, "near": {"far": 250.0}}
"""Of each pair."""

CAP = 400
"""Records in a batch at the most."""

_BIN_S = 10.0


def levels(curve: RateCurve) -> Pieces:
    """A load in levels of ten seconds, as the autoscaler averages it: trips come one by one."""
    edges = [_BIN_S * k for k in range(int(curve.duration // _BIN_S) + 1)]
    edges += [curve.duration] if edges[-1] < curve.duration else []
    sums = [0.0, *(curve.cumulative(edge) for edge in edges[1:])]
    spans = zip(pairwise(edges), pairwise(sums), strict=True)
    return staircase([(end - begin, (after - before) / (end - begin)) for (begin, end), (before, after) in spans])


class _Played:
    """The records of trips, due as they are; the rate is that of the ten seconds: its integral agrees at their end."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals, self._levels = arrivals, levels(arrivals)
        self.duration = arrivals.duration

    def rate(self, t: float) -> float:
        return self._levels.rate(t)

    def cumulative(self, t: float) -> float:
        return self._arrivals.cumulative(t)

    def pieces(self) -> Pieces:
        return self._levels


@dataclass(frozen=True, slots=True, kw_only=True)
class TripsPlan(DemoPlan):
    """The demo's broker and driver, with the taxi pipeline on nodes of one executor each.

    Attributes:
        mean_rate: records/s over the two days.
        days_s: seconds in which the two days are played.
        copies: records of each trip.
        nodes: their names.
        round_trips_ms: between them, of each pair; simulated.
        measured: whether the autoscaler is told them, or is to measure them.
        lookup_ms: wait of each record. 18: a slot carries some 55 records/s, as a replica of S2 did.
    """

    program: ClassVar[str] = "taxi_attractions"

    mean_rate: float
    days_s: float
    copies: int = 3
    nodes: tuple[str, ...] = NODES
    round_trips_ms: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: ROUND_TRIPS_MS)
    measured: bool = True
    executors: tuple[int, int] = (1, len(NODES))
    lookup_ms: float = 18.0
    cap: int = CAP
    partitions: int = 6
    base_rate: float = 10.0
    begin_s: float = 45.0

    @property
    def seconds(self) -> float:
        """Length of the load."""
        return self.days_s

    def curve(self) -> RateCurve:
        """The load: when the records of the trips are due."""
        return _Played(self._trips().arrivals)

    def phase(self, second: float | None) -> str:
        """Name of the phase at a second of the load; None: before it."""
        if second is None:
            return "warm-up"
        return ("day 1" if second < self.days_s / 2 else "day 2") if second < self.days_s else "drain"

    def payloads(self) -> RecordMaker:
        """The trips, with those of the warm-up before them: after the last trip the first ones come again."""
        return TripPayloads(_endless(self._trips().bodies), self.copies)

    def ground(self, lab: Lab, folder: Path) -> NodeServers:
        """The node servers."""
        from rheostat.demo.ground import NodeServers

        return NodeServers(lab, folder / "nodes", self.nodes, self.round_trips_ms, measured=self.measured)

    def pipeline(self, folder: Path, bootstrap: str | None, topic: str | None) -> TaxiSettings:
        """The pipeline's settings; for Kafka with a broker, else upon the log in ``folder``."""
        return TaxiSettings(**self.common(folder, bootstrap, topic))

    def counted(self, out: Path) -> RecordTotals:
        """What got through the sink, record by record.

        Raises:
            InputError: there is no such folder.
        """
        from rheostat.pipelines.sink import verify_records

        return verify_records(out)

    def _trips(self) -> TripLoad:
        speed = DAYS_S / self.days_s
        return synthetic_trips(
            TripPlan(self.mean_rate / speed / self.copies, self.days_s, speed, self.copies, self.seed)
        )


def _endless(bodies: Callable[[], Iterator[str]]) -> Iterator[str]:
    while True:
        yield from bodies()
