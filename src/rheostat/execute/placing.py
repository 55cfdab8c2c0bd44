"""Which Workers must stand where before executors come to named nodes, and who goes first from them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rheostat.model import NodeReading, Nodes, RoundTrip
from rheostat.plan.placement import Choice, grown

__all__ = ["Known", "Moves", "Stand", "first_to_leave", "moves", "possible", "standby_moves"]


class Stand(NamedTuple):
    """The Workers of a node that host no executor, and how many more it can start."""

    idle: int
    free: int


class Known(NamedTuple):
    """What is known of the nodes: the round trips between them, and which are slow."""

    round_trips: tuple[RoundTrip, ...] = ()
    slow: frozenset[str] = frozenset()


class Moves(NamedTuple):
    """What to ask of the nodes, by name: Workers to create; idle ones to keep, where some are to go."""

    create: dict[str, int]
    keep: dict[str, int]


def possible(
    add: Sequence[str], used: Counter[str], stands: Mapping[str, Stand], known: Known
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The nodes of ``add`` that have room, those that have none (or do not answer), and what is taken for these.

    Args:
        add: where executors are to come, in that order.
        used: executors of the application by node, without those of ``add``.
        stands: of the nodes that answer.
        known: of the nodes; the nearest one with room is taken instead, a slow one after all others.

    >>> possible(["far", "far"], Counter(mid=1), {"far": Stand(1, 0), "mid": Stand(0, 2)}, Known())
    (('far',), ('far',), ('mid',))
    """
    room = Counter({name: stand.idle + stand.free for name, stand in stands.items()})
    taken, lacking = list[str](), list[str]()
    for name in add:
        (taken if room[name] > 0 else lacking).append(name)
        room[name] -= room[name] > 0
    there = used + Counter(taken)
    return tuple(taken), tuple(lacking), _next(there, room, len(lacking), known)


def moves(add: Sequence[str], stands: Mapping[str, Stand]) -> Moves:
    """What makes executors come to ``add``, given that they come to any idle Worker.

    Each node gets as many idle Workers as executors are to come there, and no node keeps more; but where all come to
    one node, what is idle there beyond their number may stay.

    >>> moves(["near"], {"near": Stand(2, 0), "far": Stand(1, 0)})
    Moves(create={}, keep={'far': 0})
    >>> moves(["near", "mid"], {"near": Stand(2, 0), "mid": Stand(0, 3)})
    Moves(create={'mid': 1}, keep={'near': 1})
    """
    wanted = Counter(add)
    create = {name: wanted[name] - stand.idle for name, stand in stands.items() if wanted[name] > stand.idle}
    surplus = (name for name, stand in stands.items() if stand.idle > wanted[name] and set(add) != {name})
    return Moves(create, {name: wanted[name] for name in surplus})


def standby_moves(
    used: Counter[str], stands: Mapping[str, Stand], backup: int, known: Known, *, settled: bool
) -> Moves:
    """What brings the standby to where the next executors would come: to the nearest nodes with room, slow ones last.

    Unless the job is ``settled``, idle Workers may be about to be used: none is sent away, and only as many are created
    as are missing in all.

    >>> known = Known((RoundTrip("far", "near", 300.0),))
    >>> standby_moves(Counter(near=1), {"near": Stand(0, 1), "far": Stand(2, 0)}, 2, known, settled=True)
    Moves(create={'near': 1}, keep={'far': 1})
    """
    room = Counter({name: stand.idle + stand.free for name, stand in stands.items()})
    goals = _next(used, room, backup, known)
    missing = len(goals) if settled else backup - sum(stand.idle for stand in stands.values())
    create = Counter[str]()
    idle = Counter({name: stand.idle for name, stand in stands.items()})
    for name in goals:
        if idle[name] > 0:
            idle[name] -= 1
        elif create.total() < missing:
            create[name] += 1
    wanted = Counter(goals)
    keep = {name: wanted[name] for name, stand in stands.items() if stand.idle > wanted[name]}
    return Moves(dict(create), keep if settled else {})


def first_to_leave(leave: Sequence[str], executors: Mapping[str, str], first: Sequence[str] = ()) -> tuple[str, ...]:
    """The executors that go for ``leave``: for each of its nodes in turn, one that is named, or the newest left there.

    Args:
        leave: nodes, one entry for each executor that is to go.
        executors: executor → its node, oldest first.
        first: those that go before others of their node, in this order.

    >>> first_to_leave(["far", "mid", "far"], {"1": "far", "2": "mid", "3": "far", "4": "near"})
    ('3', '2', '1')
    >>> first_to_leave(["far"], {"1": "far", "2": "mid", "3": "far"}, ["2", "1"])
    ('1',)
    """
    named = [each for each in first if each in executors]
    left = [*named, *(each for each in reversed(list(executors)) if each not in named)]
    found = list[str]()
    for node in leave:
        executor = next((each for each in left if executors[each] == node), None)
        if executor is not None:
            left.remove(executor)
            found.append(executor)
    return tuple(found)


def _next(used: Counter[str], room: Counter[str], count: int, known: Known) -> tuple[str, ...]:
    """Where so many more executors would come."""
    rows = tuple([NodeReading(name, used[name], room[name]) for name in sorted(room)])
    nodes = Nodes(0.0, rows, known.round_trips)
    return grown(tuple(sorted(used.elements())), nodes, count, Choice(slow=known.slow))
