"""Where the executors of a simulated job are: on which node the next one starts, and what is seen of the nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from rheostat.model import NodeReading, Nodes, Placement, RoundTrip
from rheostat.sim.events import FullNode, LostNode
from rheostat.sim.jobfile import JobFile
from rheostat.sim.nodes import NodeMap

__all__ = ["Placed", "Places", "leaving"]


class Placed(Protocol):
    """An executor: its own name, and that of its node."""

    name: str
    host: str


def leaving(running: Sequence[Placed], first: Sequence[str]) -> list[int]:
    """In which order executors leave, oldest first given: those of ``first`` in their order, then the newest."""

    def turn(place: int) -> tuple[int, int]:
        name = running[place].name
        return (first.index(name) if name in first else len(first), -place)

    return sorted(range(len(running)), key=turn)


class Places:
    """The nodes of a job as time passes.

    Attributes:
        asked: where the last request wanted executors; None: it did not say.
    """

    def __init__(self, nodes: NodeMap, job: JobFile) -> None:
        self._nodes = nodes
        self._places = nodes.places
        self._lost = [event for event in job.events if isinstance(event, LostNode)]
        self._full = [event for event in job.events if isinstance(event, FullNode)]
        self._distances: dict[frozenset[str], float] = {}
        self._trips: dict[tuple[str, ...], tuple[RoundTrip, ...]] = {}
        self.asked: Placement | None = None

    @classmethod
    def of(cls, job: JobFile) -> Places | None:
        """The places of a job; None where its file has no nodes."""
        return None if job.nodes is None else cls(job.nodes, job)

    def first(self, executors: int) -> tuple[str, ...]:
        """The nodes of the executors at the start."""
        return self._nodes.nearest(executors)

    def there(self, at: float) -> list[str]:
        """The nodes that are there, in the order of the file."""
        lost = {event.node for event in self._lost if event.at_s <= at < event.until_s}
        return [name for name in self._places if name not in lost]

    def free(self, at: float, occupied: Mapping[str, int]) -> dict[str, int]:
        """How many more executors each node could host that is there, in the order of the file."""
        full = {event.node for event in self._full if event.at_s <= at < event.until_s}
        return {
            name: 0 if name in full else max(0, self._places[name] - occupied.get(name, 0)) for name in self.there(at)
        }

    def next(self, at: float, executors: Sequence[Placed], *, anywhere: bool) -> str | None:
        """The node of the next executor; None: there is no room where it may start.

        Args:
            at: now.
            executors: those that are there or starting.
            anywhere: whether another node will do than was asked for.
        """
        occupied = Counter(each.host for each in executors)
        free = self.free(at, occupied)
        asked = self.asked
        if asked is not None:
            wanted = Counter(asked.use) - occupied
            for name in (*asked.add, *asked.use):
                if wanted[name] > 0 and free.get(name, 0) > 0:
                    return name
        if asked is not None and not anywhere:
            return None
        return next((name for name, room in free.items() if room > 0), None)

    def leaving(self, running: Sequence[Placed], count: int, first: Sequence[str] = ()) -> list[int]:
        """Which of the running ones leave: of each node that was asked for, those named in ``first``, then the newest.

        Then, of all that are left, in the same order.
        """
        left = leaving(running, first)
        gone: list[int] = []
        for name in () if self.asked is None else self.asked.leave:
            place = next((number for number in left if running[number].host == name), None)
            if place is not None and len(gone) < count:
                left.remove(place)
                gone.append(place)
        return gone + left[: count - len(gone)]

    def distance_ms(self, executors: Iterable[Placed]) -> float:
        """ND, ms."""
        used = frozenset([each.host for each in executors])
        found = self._distances.get(used)
        if found is None:
            found = self._distances[used] = self._nodes.distance_ms(used)
        return found

    def seen(self, at: float, executors: Sequence[Placed]) -> Nodes:
        """The nodes as the autoscaler sees them; ``executors`` are those that are there or starting."""
        occupied = Counter(each.host for each in executors)
        rows = [NodeReading(name, occupied[name], room) for name, room in sorted(self.free(at, occupied).items())]
        names = tuple(row.name for row in rows if row.name not in self._nodes.unmeasured)
        if names not in self._trips:
            self._trips[names] = self._nodes.trips(names)
        return Nodes(at, tuple(rows), self._trips[names])
