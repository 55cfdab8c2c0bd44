"""The node servers as one: all asked at once, one that fails left alone for a while; and how the standby is kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from rheostat.errors import RheostatError
from rheostat.execute.nodes import NodeState

__all__ = ["Doors", "Node", "Upkeep"]

T = TypeVar("T")

_log = logging.getLogger("rheostat")
_LONGEST = 300


class Node(Protocol):
    """A node server; :class:`~rheostat.execute.nodes.NodeClient` is one. Whatever is wrong is an UnavailableError."""

    @property
    def address(self) -> str:
        """``http://host:port``."""
        ...

    def state(self) -> NodeState:
        """How it stands."""
        ...

    def create(self, target: int) -> int:
        """Ask for so many Workers more; how many it takes on."""
        ...

    def remove(self, used: Sequence[str], free: int) -> int:
        """Ask it to remove idle Workers but ``free``; how many it lets go."""
        ...

    def close(self) -> None:
        """Give back the connection."""
        ...


@dataclass(frozen=True, slots=True)
class Upkeep:
    """How the standby is kept.

    Attributes:
        backup: Workers to be registered and unused.
        every_s: between two looks at the nodes when nothing is changed.
        first_s, longest_s: a node that failed is left alone for so long, twice as long each time, at most.
    """

    backup: int = 2
    every_s: float = 15.0
    first_s: float = 5.0
    longest_s: float = 60.0


class _Door:
    """One node, with what is known of its failures. Used by one thread at a time."""

    def __init__(self, node: Node, upkeep: Upkeep) -> None:
        self.node = node
        self.trouble: str | None = None
        self._upkeep = upkeep
        self._pause_s = upkeep.first_s
        self._again_at = 0.0

    def closed(self, at: float) -> bool:
        """Whether it is to be left alone for now."""
        return self.trouble is not None and at < self._again_at

    def call(self, at: float, ask: Callable[[Node], T]) -> T | None:
        """What it answers; None: it failed, ``trouble`` says how. Logged when it begins and when it is over."""
        try:
            found = ask(self.node)
        except RheostatError as error:
            if self.trouble is None:
                _log.warning("node %s: %s; it is tried again (told once)", self.node.address, error)
            self.trouble = f"node {self.node.address}: {error}"[:_LONGEST]
            self._again_at, self._pause_s = at + self._pause_s, min(2 * self._pause_s, self._upkeep.longest_s)
            return None
        if self.trouble is not None:
            _log.warning("node %s answers again", self.node.address)
        self.trouble, self._pause_s = None, self._upkeep.first_s
        return found


class Doors:
    """The node servers, by number. Used by one thread at a time."""

    def __init__(self, nodes: Sequence[Node], upkeep: Upkeep) -> None:
        self._doors = [_Door(node, upkeep) for node in nodes]

    @property
    def troubles(self) -> list[str]:
        """What is wrong with each that failed last."""
        return [door.trouble for door in self._doors if door.trouble]

    def states(self, at: float) -> dict[int, NodeState]:
        """What the nodes that answer say, all asked at once; one that failed is left alone for a while."""
        open_ = [number for number, door in enumerate(self._doors) if not door.closed(at)]
        if not open_:
            return {}
        with ThreadPoolExecutor(len(open_), thread_name_prefix="rheostat-node") as pool:
            found = pool.map(lambda number: self._doors[number].call(at, _state), open_)
            return {number: state for number, state in zip(open_, found, strict=True) if state is not None}

    def create(self, at: float, wanted: Mapping[int, int]) -> int:
        """POST to each node so many Workers more; how many they take on."""
        asked = ((number, share) for number, share in wanted.items() if share)
        return sum(self._doors[number].call(at, _creating(share)) or 0 for number, share in asked)

    def remove(self, at: float, states: Mapping[int, NodeState], keep: Mapping[int, int], pages: Sequence[str]) -> int:
        """DELETE at each node, so many idle Workers to keep; how many are let go.

        Args:
            at: now.
            states: of the nodes.
            keep: by the numbers of the nodes that are to let some go.
            pages: of the Workers that the job uses, read just now.
        """
        gone = 0
        for number, free in keep.items():
            state = states[number]
            used = {state.names.get(page, page) for page in pages} | set(state.used)
            gone += self._doors[number].call(at, _removing(sorted(used), free)) or 0
        return gone

    def close(self) -> None:
        """Give back the connections."""
        for door in self._doors:
            door.node.close()


def _state(node: Node) -> NodeState:
    return node.state()


def _creating(target: int) -> Callable[[Node], int]:
    return lambda node: node.create(target)


def _removing(used: Sequence[str], free: int) -> Callable[[Node], int]:
    return lambda node: node.remove(used, free)
