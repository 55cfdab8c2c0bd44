"""The latency map as it stands in a settings file: node → node → round trip, ms."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rheostat.config.node_names import is_node_name
from rheostat.errors import Fault

__all__ = ["MOST_MS", "pairs_of", "round_trip_faults"]

MOST_MS = 60_000.0
"""A longer round trip is a slip of the keyboard."""


def round_trip_faults(given: Mapping[Any, Any], names: Collection[str] | None) -> Iterator[Fault]:
    """Everything that is wrong with a map, fields dotted within it.

    Args:
        given: the map as it was read.
        names: what the nodes are called; None: their list is wrong itself.
    """
    for a, row in given.items():
        if names is not None and a not in names:
            yield _unknown(str(a), str(a), names)
        if not isinstance(row, Mapping):
            yield Fault(str(a), repr(row), "nodes with their round trips in ms, as in {far: 300}", "this is no row")
            continue
        for b, ms in row.items():
            yield from _entry_faults(given, a, b, ms, names)


def pairs_of(given: Mapping[str, Mapping[str, float]]) -> dict[tuple[str, str], float]:
    """(a, b) with a < b → round trip, ms, of a map without faults.

    >>> pairs_of({"near": {"mid": 20.0, "far": 300.0}})
    {('mid', 'near'): 20.0, ('far', 'near'): 300.0}
    """
    return {(min(a, b), max(a, b)): float(ms) for a, row in given.items() for b, ms in row.items()}


def _entry_faults(given: Mapping[Any, Any], a: Any, b: Any, ms: Any, names: Collection[str] | None) -> Iterator[Fault]:
    field = f"{a}.{b}"
    if names is not None and b not in names:
        yield _unknown(field, str(b), names)
    if a == b:
        yield Fault(field, str(ms), "two nodes", "executors on one node are not apart: leave this out")
    number = isinstance(ms, int | float) and not isinstance(ms, bool)
    if not number or not 0 <= ms <= MOST_MS:
        yield Fault(field, repr(ms), f"0 to {MOST_MS:g} ms", "this is no round trip")
    back = given[b].get(a) if isinstance(given.get(b), Mapping) else None
    if back is not None and back != ms and str(a) < str(b):
        message = f"a round trip is the same from both ends, and {b}.{a} is {back}"
        yield Fault(field, str(ms), "the same number both ways, or one of them only", message)


def _unknown(field: str, name: str, names: Collection[str]) -> Fault:
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "give it there as NAME=http://HOST:PORT"
    allowed = "one of: " + ", ".join(sorted(names)) if names else "names of nodes"
    message = f"no node in workers.nodes has this name; {hint}" if is_node_name(name) else "this is no name of a node"
    return Fault(field, name, allowed, message)
