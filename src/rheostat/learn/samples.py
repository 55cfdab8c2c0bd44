"""The rows that are learned from, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import NamedTuple

from rheostat.errors import Fault, InputError

__all__ = ["MOST_EXECUTORS", "MOST_SLOW", "MOST_WORKLOAD", "Sample", "in_order"]

MOST_WORKLOAD = 1e15
"""Records/s of a topic; more is an error of the measurement."""
MOST_SLOW = 1e9
"""Backlog ÷ records of an interval; more is an error of the measurement."""
MOST_EXECUTORS = 1_000_000


class Sample(NamedTuple):
    """One look at a job.

    Attributes:
        at: seconds.
        workload: records/s of each topic, always in the same order; one entry: their sum.
        executors: at work, at least 1.
        slow: share of slow records, at least 0; above 1 when the backlog is more than one interval brings.
    """

    at: float
    workload: tuple[float, ...]
    executors: int
    slow: float


def in_order(samples: Sequence[Sample], least: int) -> list[Sample]:
    """The samples by time; one that is given twice counts once.

    Raises:
        InputError: a value that cannot be, workloads of unequal length, fewer than ``least`` different samples. Each
            fault is told once, with the first row that has it and the number of rows that have it.
    """
    faults = [fault for fault in _value_faults(samples) if fault is not None]
    if faults:
        raise InputError(faults)
    rows = sorted(set(samples))
    if len(rows) < least:
        message = "there is too little to learn from; collect more samples"
        raise InputError([Fault("samples", str(len(rows)), f">= {least} different ones", message)])
    return rows


def _value_faults(samples: Sequence[Sample]) -> Iterator[Fault | None]:
    topics = len(samples[0].workload) if samples else 0
    endless = [(row, s.at) for row, s in enumerate(samples) if not isfinite(s.at)]
    yield _fault("at", "a finite number of seconds", endless)
    unequal = [(row, s.workload) for row, s in enumerate(samples) if not s.workload or len(s.workload) != topics]
    yield _fault("workload", f"as many topics as in row 0 ({topics}), at least one", unequal)
    loads = [(row, w) for row, s in enumerate(samples) for w in s.workload if not 0 <= w <= MOST_WORKLOAD]
    yield _fault("workload", f"0 … {MOST_WORKLOAD:g} records/s", loads)
    numbers = [(row, s.executors) for row, s in enumerate(samples) if not _is_number_of_executors(s.executors)]
    yield _fault("executors", f"a whole number, 1 … {MOST_EXECUTORS}", numbers)
    shares = [(row, s.slow) for row, s in enumerate(samples) if not 0 <= s.slow <= MOST_SLOW]
    yield _fault("slow", f"0 … {MOST_SLOW:g}", shares)


def _is_number_of_executors(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MOST_EXECUTORS


def _fault(name: str, allowed: str, wrong: Sequence[tuple[int, object]]) -> Fault | None:
    if not wrong:
        return None
    row, given = wrong[0]
    rows = len({number for number, _ in wrong})
    return Fault(f"samples[{row}].{name}", str(given), allowed, f"this cannot be learned from; rows like it: {rows}")
