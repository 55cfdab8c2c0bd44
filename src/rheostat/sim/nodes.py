"""The nodes of a simulated job: how many executors each hosts, and the network round trips between them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any, Self

from pydantic import field_validator, model_validator

from rheostat.config.fields import FrozenModel, documented, reject
from rheostat.errors import Fault
from rheostat.model import NodeReading, Nodes, RoundTrip
from rheostat.plan.placement import grown

__all__ = ["NodeMap"]

_MOST_SLOTS = 100_000
"""As many as a job may have executors."""


class NodeMap(FrozenModel):
    """Nodes with names, places for executors, and round trips between them; a name is the host of the executors on it.

    With the model record, ND is the greatest round trip between the nodes of the executors in use. With the model
    micro-batch nodes only say where executors are: the time of a batch does not depend on it. At the start the first
    executor is on `first` and each further one on the nearest free node. An executor that is asked for by name starts
    on that node or, while there is no room, not at all; one that nobody places starts on the first node that has room.
    """

    names: tuple[str, ...] = documented(
        "Names of the nodes.", "there is no default: without nodes the section is left out", min_length=1
    )
    slots: tuple[int, ...] | None = documented(
        "Executors that each node has room for; null: one each.", "one, as on the nodes of Gesscale", default=None
    )
    round_trips_ms: tuple[tuple[float, ...], ...] = documented(
        "Round trips, one row for each node: symmetric, 0 from a node to itself.",
        "there is no default: it is what tells nodes apart",
        unit="ms",
    )
    first: str | None = documented(
        "Node of the first executor at the start; null: the first of the names.",
        "the first in the list is as good as any",
        default=None,
    )
    unmeasured: tuple[str, ...] = documented(
        "Nodes whose round trips are not told to the autoscaler.", "a map is mostly complete", default=()
    )

    @field_validator("names", "slots", "unmeasured", mode="before")
    @classmethod
    def _list_is_a_tuple(cls, given: Any) -> Any:
        return tuple(given) if isinstance(given, list) else given

    @field_validator("round_trips_ms", mode="before")
    @classmethod
    def _rows_are_tuples(cls, given: Any) -> Any:
        return (
            tuple(tuple(row) if isinstance(row, list) else row for row in given) if isinstance(given, list) else given
        )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        faults = [*self._name_faults(), *self._slot_faults(), *self._trip_faults()]
        if faults:
            raise reject(faults)
        return self

    def _name_faults(self) -> Iterator[Fault]:
        for number, name in enumerate(self.names):
            if not name or self.names.index(name) != number:
                yield Fault(f"names.{number}", repr(name), "each name once", "nodes must be told apart")
        allowed = ", ".join(self.names)
        if self.first is not None and self.first not in self.names:
            yield Fault("first", repr(self.first), allowed, "there is no such node")
        for number, name in enumerate(self.unmeasured):
            if name not in self.names:
                yield Fault(f"unmeasured.{number}", repr(name), allowed, "there is no such node")

    def _slot_faults(self) -> Iterator[Fault]:
        slots = self.slots
        if slots is not None and (len(slots) != len(self.names) or min(slots) < 1 or max(slots) > _MOST_SLOTS):
            allowed = f"{len(self.names)} integers ≥ 1 and ≤ {_MOST_SLOTS}, one for each node"
            yield Fault("slots", str(list(slots)), allowed, "the places do not fit the nodes")

    def _trip_faults(self) -> Iterator[Fault]:
        rows, count = self.round_trips_ms, len(self.names)
        if len(rows) != count or any(len(row) != count for row in rows):
            given = f"{len(rows)} rows of {', '.join(sorted({str(len(row)) for row in rows})) or 'no'} numbers"
            yield Fault("round_trips_ms", given, f"{count} rows of {count}", "one row and column for each node")
            return
        for a in range(count):
            if rows[a][a] != 0:
                yield Fault(f"round_trips_ms.{a}.{a}", f"{rows[a][a]:g}", "0", "a node is no way from itself")
        for a, b in combinations(range(count), 2):
            if rows[a][b] < 0 or rows[a][b] != rows[b][a]:
                given = f"{rows[a][b]:g} there, {rows[b][a]:g} back"
                yield Fault(f"round_trips_ms.{a}.{b}", given, "≥ 0, the same both ways", "a round trip has one length")

    # --------------------------------------------------------------------------------------------- figures

    @property
    def places(self) -> dict[str, int]:
        """Executors that each node has room for, in the order of the file."""
        return dict(zip(self.names, self.slots or [1] * len(self.names), strict=True))

    def distance_ms(self, used: Iterable[str]) -> float:
        """ND: the greatest round trip among nodes in use, ms; 0 for one or none."""
        numbers = sorted({self.names.index(name) for name in used})
        return max((self.round_trips_ms[a][b] for a, b in combinations(numbers, 2)), default=0.0)

    def trips(self, names: Iterable[str]) -> tuple[RoundTrip, ...]:
        """The round trips among these nodes, sorted."""
        of = {name: number for number, name in enumerate(self.names)}
        return tuple([RoundTrip(a, b, self.round_trips_ms[of[a]][of[b]]) for a, b in combinations(sorted(names), 2)])

    def nearest(self, executors: int) -> tuple[str, ...]:
        """The nodes of the first executors: ``first``, then the nearest free one each time (S2, Algorithm 3)."""
        if executors < 1:
            return ()
        first, places = self.first or self.names[0], Counter(self.places)
        free = Counter(places) - Counter([first])
        rows = tuple([NodeReading(name, places[name] - free[name], free[name]) for name in sorted(places)])
        nodes = Nodes(0.0, rows, self.trips(self.names))
        return (first, *grown((first,), nodes, executors - 1))

    def least_ms(self, executors: int) -> float:
        """What ND of so many executors is at least, wherever they are, ms.

        One of them has all others within ND, so ND is no less than the way to the place of that rank next to a node.
        """
        if executors < 2:
            return 0.0
        ranked = [sorted(zip(row, self.places.values(), strict=True)) for row in self.round_trips_ms]
        return min(_way_to(executors, row) for row in ranked)


def _way_to(rank: int, ranked: Iterable[tuple[float, int]]) -> float:
    """The way to the place of that rank, ms; infinite where there are fewer places.

    >>> _way_to(3, [(0.0, 2), (20.0, 1)]), _way_to(4, [(0.0, 2), (20.0, 1)])
    (20.0, inf)
    """
    for ms, slots in ranked:
        rank -= slots
        if rank <= 0:
            return ms
    return math.inf
