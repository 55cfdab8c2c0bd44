"""State of the analysis between observations: frozen, bounded and JSON-compatible. What is None is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple, TypeVar


class Turns(NamedTuple):
    """When a query was under backpressure.

    Attributes:
        since: start of this record.
        times: when backpressure began and ended, in turn; with an odd number of times it lasts.
    """

    since: float
    times: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class AnalysisSettings:
    """Settings of the analysis.

    Attributes:
        objective_lag_s: lag of the objective, for the period τ.
        rate_window_s: rates and the busy ratio are averages over it.
        failure_window_s: failed tasks count within it.
        max_samples: limit of each series, at least 8; beyond it the older half is thinned.
    """

    objective_lag_s: float
    rate_window_s: float = 60.0
    failure_window_s: float = 60.0
    max_samples: int = 32


class OffsetHistory(NamedTuple):
    """Samples of latest offsets: a row for each look, a column for each partition.

    Attributes:
        times: of the looks, ascending.
        rows: latest offsets, never falling within a column; None: unknown, or of a deleted topic.
        committed: the last known one of each partition.
        absent_since: when a partition was first left out of a reading; None: it was in the last one.
        complete: nothing is unknown and no partition absent.
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
    duration_s: float | None = None


class Runs(NamedTuple):
    """The runs of a query that broke off.

    Attributes:
        failures: runs in a row that broke off; all but the first did so within their first batches.
        because: the exception that ended the last of them; None: unknown.
        first_id: the first batch of the present run; None: it has begun none.
        last_id: its last one, or the next.
        running_id: the batch that ran at the last look; None: none did.
        since: when the present run was first seen.
        longest_s: how long the longest of those that broke off was seen.
    """

    failures: int = 0
    because: str | None = None
    first_id: int | None = None
    last_id: int | None = None
    running_id: int | None = None
    since: float = 0.0
    longest_s: float = 0.0


@dataclass(frozen=True, slots=True)
class QueryHistory:
    """History of one query.

    Attributes:
        count_after: batches up to this id do not count as finished at the present number of executors.
        turns: its backpressure; None: the window begins with the next look.
        unmeasured_since: since when figures of it have been missing; None: they are known.
        batch_id: the last batch of the present run that was seen to have ended; None: none was.
    """

    query_id: str
    run_id: str
    seen_at: float
    offsets: OffsetHistory = field(default_factory=OffsetHistory)
    done: int = 0
    marks: tuple[BatchMark, ...] = ()
    count_after: int | None = None
    turns: Turns | None = None
    unmeasured_since: float | None = None
    runs: Runs = field(default_factory=Runs)
    batch_id: int | None = None


class Counters(NamedTuple):
    """Counters of the executors at the last reading, as columns.

    Attributes:
        idle_since: since when each has had no task; None: it has one, or unknown.
    """

    ids: tuple[str, ...] = ()
    busy_s: tuple[float | None, ...] = ()
    finished: tuple[int | None, ...] = ()
    failed: tuple[int | None, ...] = ()
    idle_since: tuple[float | None, ...] = ()


class Interval(NamedTuple):
    """Work of the executors between two readings, as sums that can be merged.

    Attributes:
        at: end of the interval.
        span_s: its length.
        slot_s: slot seconds of the executors whose work is known.
        busy_s: task seconds of tasks that ended.
        active_s: slots active at the end × length, an estimate of the slot seconds in use.
        finished: tasks that ended, successfully or not.
        failed: tasks that failed.
    """

    at: float
    span_s: float
    slot_s: float
    busy_s: float | None
    active_s: float
    finished: int | None
    failed: int | None


class SlotsInUse(NamedTuple):
    """The slots when the last batch of a query was first seen.

    Attributes:
        busy_s, slot_s: as in the history then.
        share: of slot time in tasks, since it began; None: no batch was seen before it.
    """

    query_id: str
    batch_id: int
    at: float
    busy_s: float
    slot_s: float
    share: float | None = None


class Garbage(NamedTuple):
    """Garbage collection on the executors.

    Attributes:
        at: start of the present window; None: there is none yet.
        counters: for each executor, its task seconds at that time and those of them in garbage collection.
        shares: the executors where it took much in the last window, each with its share of the task time.
        whole: its share on all of them.
    """

    at: float | None = None
    counters: tuple[tuple[str, float, float], ...] = ()
    shares: tuple[tuple[str, float], ...] = ()
    whole: float = 0.0


@dataclass(frozen=True, slots=True)
class ClusterHistory:
    """History of the executors. ``at`` and ``executors`` are of the last known reading.

    Attributes:
        busy_s, slot_s: task seconds that ended and slot seconds, since the first reading.
        excluded: executors that got no task within the rate window, each with the time when this was last seen.
        counted: the number of executors that finished batches are counted at.
    """

    at: float | None = None
    executors: int | None = None
    counters: Counters = field(default_factory=Counters)
    intervals: tuple[Interval, ...] = ()
    busy_s: float = 0.0
    slot_s: float = 0.0
    batches: tuple[SlotsInUse, ...] = ()
    excluded: tuple[tuple[str, float], ...] = ()
    garbage: Garbage = field(default_factory=Garbage)
    counted: int | None = None


class Slowness(NamedTuple):
    """An executor that was found slow: since when, by which factor then, and when the last time; ``""``: any."""

    name: str
    since: float
    factor: float
    last: float


class Machines(NamedTuple):
    """Slow executors and nodes.

    Attributes:
        at: start of the present window; None: there is none yet.
        counters: at that time.
        suspects: executors that were slow in the last window.
        slow: executors that were slow in the last two windows, but for slower ones.
        factor: task time of the slowest ÷ that of the others.
        skew: of the partitions, when the window began.
        hot: the largest partition, as text, where it is much larger than an even share.
        nodes: slow nodes, each with the time when executors were last seen working slowly on it.
        slower: executors on slower machines: as slow for long, or from the start beside others that are as slow.
        found: those that were found slow lately.
    """

    at: float | None = None
    counters: Counters = Counters()
    suspects: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    factor: float | None = None
    skew: float | None = None
    nodes: tuple[tuple[str, float], ...] = ()
    slower: tuple[str, ...] = ()
    found: tuple[Slowness, ...] = ()
    hot: str | None = None


class PresentRuns(NamedTuple):
    """The runs of all queries.

    Attributes:
        ids: each query and its run, sorted.
        at: when these were first seen; None: they are the first ones.
        since: since when figures of them count, as in the assessment.
    """

    ids: tuple[tuple[str, str], ...] = ()
    at: float | None = None
    since: float | None = None


@dataclass(frozen=True, slots=True)
class AnalysisState:
    """State of the analysis; initially ``AnalysisState()``."""

    queries: tuple[QueryHistory, ...] = ()
    cluster: ClusterHistory = field(default_factory=ClusterHistory)
    machines: Machines = field(default_factory=Machines)
    runs: PresentRuns = field(default_factory=PresentRuns)


# Impossible figures are named and become unknown; a sum with an unknown term is unknown.

Number = TypeVar("Number", int, float)
T = TypeVar("T")


def known(value: Number | None, name: str, invalid: set[str]) -> Number | None:
    """The value if it is a finite number ≥ 0, else None; an impossible one is named in ``invalid``."""
    if value is None or 0 <= value < inf:
        return value
    invalid.add(name)
    return None


def known_fields(reading: object, section: str, names: Sequence[str], invalid: set[str]) -> list[Any]:
    """``known`` for some fields of a reading; without a reading, None for each."""
    return [None if reading is None else known(getattr(reading, name), f"{section}.{name}", invalid) for name in names]


def known_column(values: Sequence[Number | None], name: str, invalid: set[str]) -> list[Number | None]:
    """``known`` for a column of values."""
    return [value if value is None or 0 <= value < inf else known(value, name, invalid) for value in values]


def total(values: Iterable[Number | None]) -> Number | None:
    """The sum; None if one of them is unknown or there is none.

    >>> total([1, 2]), total([1, None]), total([])
    (3, None, None)
    """
    terms = tuple(values)
    return None if not terms or None in terms else sum(terms)  # type: ignore[arg-type] # there is no None in it


def largest(values: Iterable[Number | None]) -> Number | None:
    """The largest; None if one of them is unknown or there is none."""
    terms = tuple(values)
    return None if not terms or None in terms else max(terms)  # type: ignore[type-var] # there is no None in it


def thin(series: Sequence[T], most: int) -> tuple[T, ...]:
    """At most so many of a series: every second one of the older half goes, so that the present stays sharp.

    >>> thin(range(9), 8)
    (0, 2, 4, 5, 6, 7, 8)
    """
    kept = tuple(series)
    while len(kept) > most:
        half = len(kept) // 2
        kept = kept[:half:2] + kept[half:]
    return kept
