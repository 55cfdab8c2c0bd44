"""Impossible figures are unknown figures: found, named, and never passed on; and sums that do not hide an unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from operator import attrgetter
from typing import Any, TypeVar

from rheostat.model import Observation

__all__ = ["Number", "all_sound", "earlier", "known", "largest", "sweep", "total"]

Number = TypeVar("Number", int, float)

_BATCH = ("planning_s", "add_batch_s", "commit_s", "work_s", "state_rows", "dropped_late")
_NAMES = tuple(f"batch.{field}" for field in _BATCH)
_figures = attrgetter(*_BATCH)


def known(value: Number | None, name: str, invalid: set[str]) -> Number | None:
    """The value if it is a finite number ≥ 0, else None; an impossible one is named in ``invalid``."""
    if value is None or 0 <= value < inf:
        return value
    invalid.add(name)
    return None


def total(values: Iterable[Number | None]) -> Number | None:
    """The sum; None if one of them is unknown or there is none.

    >>> total([1, 2]), total([1, None]), total([])
    (3, None, None)
    """
    found = tuple(values)
    return None if not found or None in found else sum(found)  # type: ignore[arg-type] # there is no None in it


def largest(values: Iterable[Number | None]) -> Number | None:
    """The largest; None if one of them is unknown or there is none."""
    found = tuple(values)
    return None if not found or None in found else max(found)  # type: ignore[type-var] # there is no None in it


def earlier(one: float | None, other: float | None) -> float | None:
    """The earlier of two times that are known; None where none is."""
    return other if one is None or (other is not None and other < one) else one


def all_sound(figures: Sequence[Any]) -> bool:
    """Whether all are known, finite and ≥ 0, of one figure at least: so they are where the least and the sum are."""
    try:
        return min(figures) >= 0 and sum(figures) < inf  # type: ignore[no-any-return] # they are numbers
    except TypeError:  # a figure is not known
        return False


def sweep(observation: Observation, invalid: set[str]) -> None:
    """Name the impossible figures that nothing else here looks at."""
    for query in observation.queries:
        if query.batch is not None:
            for place, figure in enumerate(_figures(query.batch)):
                if figure is not None and not 0.0 <= figure < inf:
                    invalid.add(_NAMES[place])
