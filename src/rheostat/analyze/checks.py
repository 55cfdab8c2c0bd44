"""Impossible figures are unknown figures: found, named, and never passed on; and sums that do not hide an unknown."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import TypeVar

from rheostat.model import Observation

__all__ = ["Number", "known", "largest", "sweep", "total"]

Number = TypeVar("Number", int, float)

_BATCH = ("planning_s", "add_batch_s", "commit_s", "work_s", "state_rows", "dropped_late")


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


def sweep(observation: Observation, invalid: set[str]) -> None:
    """Name the impossible figures that nothing else here looks at."""
    for query in observation.queries:
        if query.batch is not None:
            for field in _BATCH:
                known(getattr(query.batch, field), f"batch.{field}", invalid)
