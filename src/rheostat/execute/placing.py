"""Which Workers must stand where before executors come to named nodes, and who goes first from them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rheostat.model import NodeReading, Nodes, RoundTrip
from rheostat.plan.placement import Placing, grown

__all__ = ["Moves", "Stand", "first_to_leave", "moves", "possible", "standby_moves"]


class Stand(NamedTuple):
    """The Workers of a node that host no executor, and how many more it can start."""

    idle: int
    free: int


class Moves(NamedTuple):
    """What to ask of the nodes, by name: Workers to create; idle ones to keep, where some are to go."""

    create: dict[str, int]
    keep: dict[str, int]


def possible(
    add: Sequence[str], used: Counter[str], stands: Mapping[str, Stand], round_trips: tuple[RoundTrip, ...]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The nodes of ``add`` that have room, those that have none (or do not answer), and what is taken for these.

    Args:
        add: where executors are to come, in that order.
        used: executors of the application by node, without those of ``add``.
        stands: of the nodes that answer.
        round_trips: between nodes; the nearest one with room is taken instead.

    >>> possible(["far", "far"], Counter(mid=1), {"far": Stand(1, 0), "mid": Stand(0, 2)}, ())
    (('far',), ('far',), ('mid',))
    """
    room = Counter({name: stand.idle + stand.free for name, stand in stands.items()})
    taken, lacking = list[str](), list[str]()
    for name in add:
        (taken if room[name] > 0 else lacking).append(name)
        room[name] -= room[name] > 0
    there = used + Counter(taken)
    nodes = _nodes(there, room, round_trips)
    return tuple(taken), tuple(lacking), grown(_entries(there), nodes, len(lacking), Placing.NEAREST, 0)


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
    used: Counter[str], stands: Mapping[str, Stand], backup: int, round_trips: tuple[RoundTrip, ...], *, settled: bool
) -> Moves:
    """What brings the standby to where the next executors would come: to the nearest nodes with room.

    Unless the job is ``settled``, idle Workers may be about to be used: none is sent away, and only as many are created
    as are missing in all.

    >>> trips = (RoundTrip("far", "near", 300.0),)
    >>> standby_moves(Counter(near=1), {"near": Stand(0, 1), "far": Stand(2, 0)}, 2, trips, settled=True)
    Moves(create={'near': 1}, keep={'far': 1})
    """
    room = Counter({name: stand.idle + stand.free for name, stand in stands.items()})
    goals = grown(_entries(used), _nodes(used, room, round_trips), backup, Placing.NEAREST, 0)
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


def first_to_leave(leave: Sequence[str], executors: Mapping[str, str]) -> tuple[str, ...]:
    """The executors that go for ``leave``: for each of its nodes in turn, the newest that is left there.

    Args:
        leave: nodes, one entry for each executor that is to go.
        executors: executor → its node, oldest first.

    >>> first_to_leave(["far", "mid", "far"], {"1": "far", "2": "mid", "3": "far", "4": "near"})
    ('3', '2', '1')
    """
    left = list(executors)[::-1]
    found = list[str]()
    for node in leave:
        executor = next((each for each in left if executors[each] == node), None)
        if executor is not None:
            left.remove(executor)
            found.append(executor)
    return tuple(found)


def _nodes(used: Counter[str], room: Counter[str], round_trips: tuple[RoundTrip, ...]) -> Nodes:
    return Nodes(0.0, tuple(NodeReading(name, used[name], room[name]) for name in sorted(room)), round_trips)


def _entries(used: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(used.elements()))
