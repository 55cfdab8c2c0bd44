"""On which nodes executors come and go: the last step of a decision.

M is the multiset of the nodes in use, one entry for each executor; ND_max the greatest network round trip among them.
Growing takes the free node with the least latency to M, shrinking gives up the farthest node of M, each repeated on the
set that results, so that several executors come or go in one change. How far a node is from M: first the greatest
round trip to a node of M, which is what ND_max becomes; then the sum over the executors of M; then the name (the first
comes first, the last goes first). A round trip that is not known counts as longer than any that is.

The baselines that know nothing of latency take free places, and executors to give up, at random: each has a number that
depends on the seed, its node and its place there, and the least numbers are taken.

**Slow** executors go before the near and far ones, those on nodes that have vanished alone before them; and a node that
is slow gets an executor only where no other has room. That holds for all policies, and is ours [not in S2].

Source: S2 (Gesscale, ICCCN 2021), section IV: Algorithm 3 (grow), Algorithm 4 (shrink), "Execute" (which nodes); the
correction that ND_max is computed again for each candidate set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from hashlib import blake2b
from itertools import combinations
from typing import NamedTuple

from rheostat.model import Nodes, Placement
from rheostat.text import names

_RoundTrips = Mapping[tuple[str, str], float]


class Placing(StrEnum):
    """How nodes are chosen: by the least latency, or at random."""

    NEAREST = "nearest"
    ANY = "any"


class Choice(NamedTuple):
    """How nodes are chosen, and what is known against some of them.

    Attributes:
        seed: of ``ANY``.
        slow: nodes that get an executor only where no other has room.
        first: the nodes of executors that go before others, one entry for each, in this order.
        never_slow: whether the slow nodes get none at all.
    """

    placing: Placing = Placing.NEAREST
    seed: int = 0
    slow: frozenset[str] = frozenset()
    first: tuple[str, ...] = ()
    never_slow: bool = False


_NEAREST = Choice()


class _Distance(NamedTuple):
    """How far a node is from the executors of M; compared in this order.

    Attributes:
        unknown: executors to which the round trip is not known.
        most_ms, sum_ms: greatest and summed round trip to the others.
    """

    unknown: int
    most_ms: float
    sum_ms: float


def nd_max(used: Collection[str], nodes: Nodes) -> float | None:
    """The greatest round trip among the distinct nodes in use, ms; 0 for one or none; None where one is not known.

    >>> from rheostat.model import RoundTrip
    >>> nodes = Nodes(0.0, (), (RoundTrip("a", "b", 20.0), RoundTrip("b", "c", 35.0)))
    >>> nd_max(["a", "b", "a"], nodes), nd_max(["a"], nodes), nd_max(["a", "b", "c"], nodes)
    (20.0, 0.0, None)
    """
    round_trips = _round_trips(nodes)
    most = 0.0
    for pair in combinations(sorted(set(used)), 2):
        if pair not in round_trips:
            return None
        most = max(most, round_trips[pair])
    return most


def choose_nodes_to_add(used: tuple[str, ...], nodes: Nodes, count: int, choice: Choice = _NEAREST) -> tuple[str, ...]:
    """The nodes to add, in order (Algorithm 3, repeated); fewer than ``count`` where no more are free.

    Nearest first, those without a known round trip last; or any, each free place alike. Slow nodes come after all
    others. ``used`` is the node of each executor; from none, the first node by name is taken.
    """
    slow, never = choice.slow, choice.never_slow
    free = {node.name: node.free for node in nodes.nodes if node.free > 0 and not (never and node.name in slow)}
    if choice.placing is Placing.ANY:
        sound = _draw({name: room for name, room in free.items() if name not in slow}, count, f"{choice.seed}:add")
        rest = {name: room for name, room in free.items() if name in slow}
        return sound + _draw(rest, count - len(sound), f"{choice.seed}:add")
    there, round_trips, added = Counter(used), _round_trips(nodes), list[str]()
    while free and len(added) < count:
        name = min(free, key=lambda name: (name in slow, _distance(name, there, round_trips), name))
        added.append(name)
        there[name] += 1
        free[name] -= 1
        if not free[name]:
            del free[name]
    return tuple(added)


def choose_nodes_to_leave(
    used: tuple[str, ...], nodes: Nodes, count: int, choice: Choice = _NEAREST
) -> tuple[str, ...]:
    """The nodes to give up, in order (as in Algorithm 4): vanished ones, slow ones, then the farthest of what is left.

    With ``ANY``, each executor alike instead of the farthest. All of ``used``, where ``count`` is more.
    """
    lost, kept = _split(used, nodes)
    slow = _intersect(choice.first, kept)
    gone, left, round_trips = [*lost, *slow], Counter(kept) - Counter(slow), _round_trips(nodes)
    if count <= len(gone):
        return tuple(gone[:count])
    if choice.placing is Placing.ANY:
        return (*gone, *_draw(left, count - len(gone), f"{choice.seed}:leave"))
    for _ in range(min(count - len(gone), left.total())):
        name = max(left, key=lambda name: (_distance(name, left, round_trips), name))
        gone.append(name)
        left[name] -= 1
        if not left[name]:
            del left[name]
    return tuple(gone)


def place(nodes: Nodes, used: tuple[str, ...], target: int, choice: Choice = _NEAREST) -> tuple[Placement, str]:
    """Where ``target`` executors are to be, and a sentence for the reason. ``used``: the node of each executor.

    Executors on a node that has vanished leave, and others come in their place. Where too few nodes are free,
    ``Placement.use`` has fewer entries than ``target``.
    """
    lost, kept = _split(used, nodes)
    add = choose_nodes_to_add(kept, nodes, max(0, target - len(kept)), choice)
    leave = choose_nodes_to_leave(used, nodes, max(len(lost), len(used) - target), choice)
    use = tuple(sorted((Counter(kept) - Counter(leave[len(lost) :]) + Counter(add)).elements()))
    placed = Placement(use, add, leave, tuple(sorted(choice.slow)))
    return placed, _describe(nodes, used, target, placed, never_slow=choice.never_slow)


def no_room_text(nodes: Nodes, missing: int, *, never_slow: bool = False) -> str:
    """Why nothing is added, where ``missing`` executors have no room.

    >>> from rheostat.model import NodeReading
    >>> no_room_text(Nodes(0.0, (NodeReading("a", 2, 0),)), 1)
    'no node has room for 1 more, greatest round trip 0 ms'
    """
    return f"{_no_room(missing, never_slow=never_slow)}, greatest round trip {_ms(nd_max(nodes.in_use, nodes))}"


def _no_room(missing: int, *, never_slow: bool) -> str:
    return f"no node{' that is not slow' if never_slow else ''} has room for {missing} more"


def _round_trips(nodes: Nodes) -> dict[tuple[str, str], float]:
    return {(trip.a, trip.b): trip.ms for trip in nodes.round_trips}


def _distance(name: str, there: Mapping[str, int], round_trips: _RoundTrips) -> _Distance:
    unknown, most, summed = 0, 0.0, 0.0
    for other, count in there.items():
        ms = 0.0 if other == name else round_trips.get((name, other) if name < other else (other, name))
        if ms is None:
            unknown += count
        else:
            most, summed = max(most, ms), summed + ms * count
    return _Distance(unknown, most, summed)


def _split(used: Iterable[str], nodes: Nodes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The entries whose node has vanished, and the others; both sorted."""
    there, ordered = {node.name for node in nodes.nodes}, sorted(used)
    return tuple(name for name in ordered if name not in there), tuple(name for name in ordered if name in there)


def _intersect(wanted: Iterable[str], there: Iterable[str]) -> list[str]:
    """The entries of ``wanted`` that are there, each no more often than it is."""
    left, found = Counter(there), list[str]()
    for name in wanted:
        found += [name] if left[name] > 0 else []
        left[name] -= 1
    return found


def _draw(counts: Mapping[str, int], count: int, salt: str) -> tuple[str, ...]:
    """So many of the places, at random; one more leaves the ones before as they are."""
    places = [(name, number) for name, several in counts.items() for number in range(several)]
    places.sort(key=lambda place: (blake2b(f"{salt}:{place[0]}:{place[1]}".encode()).digest(), place))
    return tuple(name for name, _ in places[:count])


def _describe(nodes: Nodes, used: tuple[str, ...], target: int, placed: Placement, *, never_slow: bool) -> str:
    there = {node.name for node in nodes.nodes}
    slow = sorted(set(placed.add) & set(placed.slow))
    vanished = sorted({name for name in placed.leave if name not in there})
    given_up = [name for name in placed.leave if name in there]
    missing = target - len(placed.use)
    parts = [f"{names(vanished)} vanished"] if vanished else []
    parts += [f"added on {names(placed.add)}"] if placed.add else []
    parts += [f"given up on {names(given_up)}"] if given_up else []
    parts += [f"slow nodes are used, as no other has room: {names(slow)}"] if slow else []
    parts += [_no_room(missing, never_slow=never_slow)] if missing > 0 else []
    before, after = _ms(nd_max(used, nodes)), _ms(nd_max(placed.use, nodes))
    parts += [f"greatest round trip {before}" if before == after else f"greatest round trip {before} → {after}"]
    unmeasured = _unmeasured(nodes, used, placed)
    parts += [f"the round trip to {names(unmeasured)} is not known"] if unmeasured else []
    return ", ".join(parts)


def _unmeasured(nodes: Nodes, used: tuple[str, ...], placed: Placement) -> list[str]:
    """The nodes added whose round trip to one that was in use before is not known."""
    round_trips, there, found = _round_trips(nodes), Counter(used) - Counter(placed.leave), list[str]()
    for name in placed.add:
        found += [name] if _distance(name, there, round_trips).unknown and name not in found else []
        there[name] += 1
    return found


def _ms(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g} ms"
