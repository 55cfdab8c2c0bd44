"""What the analysis remembers from one observation to the next, and how far back.

Everything is frozen and bounded, and goes through JSON and back unchanged: tuples of numbers and no more. What there is
of every partition and every executor is kept in columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, TypeVar

from rheostat.model import Observation

# Back pressure on micro-batches: when a query is overloaded, and whether executors would help.


class Turns(NamedTuple):
    """When a query was pressed.

    Attributes:
        since: begin of what is remembered.
        times: when it began and when it ceased to be pressed, in turn; an odd number of them: it is pressed.
    """

    since: float
    times: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class AnalysisSettings:
    """What the analysis has to know.

    Attributes:
        objective_lag_s: lag of the objective, for the period τ.
        rate_window_s: time over which rates and the busy ratio are averaged.
        failure_window_s: time within which failed tasks count.
        max_samples: most samples kept of anything, at least 8; beyond it the older half is thinned.
    """

    objective_lag_s: float
    rate_window_s: float = 60.0
    failure_window_s: float = 60.0
    max_samples: int = 32


class OffsetHistory(NamedTuple):
    """The sampled curves of latest offsets: a row for each look, in it a column for each partition.

    Attributes:
        topics: of each partition.
        numbers: of each partition in its topic.
        times: of the looks, ascending.
        rows: the latest offsets, in no column falling; None: not known at that look, or of a topic that is gone.
        committed: of each partition, the one known last.
        absent_since: when each was first left out of a reading; None: it was in the last one.
        complete: nothing in it is unknown, and no partition absent.
    """

    topics: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    times: tuple[float, ...] = ()
    rows: tuple[tuple[int | None, ...], ...] = ()
    committed: tuple[int | None, ...] = ()
    absent_since: tuple[float | None, ...] = ()
    complete: bool = False


class BatchMark(NamedTuple):
    """The end of a batch. ``done``: records committed until then, counted from the query's first observation."""

    at: float
    batch_id: int
    done: int


@dataclass(frozen=True, slots=True)
class QueryHistory:
    """One query.

    Attributes:
        count_after: batches up to this id do not count as finished at the present number.
        turns: when it was pressed; None: the window of its pressure begins with the next look.
    """

    query_id: str
    run_id: str
    seen_at: float
    offsets: OffsetHistory = field(default_factory=OffsetHistory)
    done: int = 0
    marks: tuple[BatchMark, ...] = ()
    count_after: int | None = None
    turns: Turns | None = None


class Counters(NamedTuple):
    """The counters of the executors as last seen, a column each; None: unknown.

    Attributes:
        idle_since: since when each has been seen without a task; None: it had one, or nobody knows.
    """

    ids: tuple[str, ...] = ()
    busy_s: tuple[float | None, ...] = ()
    finished: tuple[int | None, ...] = ()
    failed: tuple[int | None, ...] = ()
    idle_since: tuple[float | None, ...] = ()


class Interval(NamedTuple):
    """What the executors did between two readings; sums, so that neighbours can be merged.

    Attributes:
        at: its end.
        span_s: its length.
        slot_s: slot seconds of the executors whose work in it is known.
        busy_s: task seconds of tasks that ended in it; None: not told.
        active_s: slots active at its end × its length, an estimate of the slot seconds in use.
        finished: tasks that ended in it, well or not; None: not told.
        failed: tasks that failed in it; None: not told.
    """

    at: float
    span_s: float
    slot_s: float
    busy_s: float | None
    active_s: float
    finished: int | None
    failed: int | None


@dataclass(frozen=True, slots=True)
class ClusterHistory:
    """The executors. ``at`` and ``executors`` are those of the last known reading."""

    at: float | None = None
    executors: int | None = None
    counters: Counters = field(default_factory=Counters)
    intervals: tuple[Interval, ...] = ()


class Machines(NamedTuple):
    """What is known of slow executors.

    Attributes:
        at: begin of the present window; None: there is none yet.
        counters: as they stood then.
        suspects: those that were slow in the window before.
        slow: those that were slow in the two windows before.
        factor: how many times as long as the others' the tasks of the slowest took.
        skew: of the partitions, when the window began.
        nodes: those that are slow, or were when executors were last seen working on them, each with the time of that.
    """

    at: float | None = None
    counters: Counters = Counters()
    suspects: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    factor: float | None = None
    skew: float | None = None
    nodes: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class AnalysisState:
    """All that is remembered. The initial one is ``AnalysisState()``."""

    queries: tuple[QueryHistory, ...] = ()
    cluster: ClusterHistory = field(default_factory=ClusterHistory)
    machines: Machines = field(default_factory=Machines)


# Impossible figures are unknown figures: found, named, and never passed on; and sums that do not hide an unknown.


Number = TypeVar("Number", int, float)

_BATCH = ("planning_s", "add_batch_s", "commit_s", "work_s", "state_rows", "dropped_late")


def known(value: Number | None, name: str, invalid: set[str]) -> Number | None:
    """The value if it is a finite number ≥ 0, else None; an impossible one is named in ``invalid``."""
    if value is None or 0 <= value < inf:
        return value
    invalid.add(name)
    return None


def known_column(values: Sequence[Number | None], name: str, invalid: set[str]) -> list[Number | None]:
    """The same for a column of values."""
    return [value if value is None or 0 <= value < inf else known(value, name, invalid) for value in values]


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
