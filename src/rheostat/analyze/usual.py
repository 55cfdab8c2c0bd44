"""The usual reading of offsets, in a fraction of the time that the general one takes.

Most looks find every partition that was there before, in the same order, with all its positions known and none of them
running backwards. Then passes over whole columns give what :func:`rheostat.analyze.rates.read_offsets` gives: the rate
needs no more than the sums of three rows, and the oldest record that waits lies beyond the last row that the committed
offsets have passed in every partition.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from math import inf
from operator import itemgetter, le
from typing import Any

from rheostat.analyze.curve import thinned
from rheostat.analyze.state import AnalysisSettings, OffsetHistory
from rheostat.model import Offsets

__all__ = ["OffsetFigures", "read_usual"]

Row = tuple[Any, ...]
"""A figure of each partition; in a complete history whole numbers."""


@dataclass(frozen=True, slots=True)
class OffsetFigures:
    """Of one query, over all its partitions; None where one of them is unknown.

    Attributes:
        at: when the offsets were read.
        committed_known: whether all committed offsets are known, so that ``progress`` is complete.
        progress: records committed since the observation before.
        by_topic: the arrival rate of each topic, sorted by topic; empty where one is unknown.
    """

    at: float | None = None
    waiting: int | None = None
    in_flight: int | None = None
    backlog: int | None = None
    arrival_rate: float | None = None
    lag_s: float | None = None
    partitions: int | None = None
    exact: bool = True
    committed_known: bool = False
    progress: int = 0
    by_topic: tuple[tuple[str, float], ...] = ()


def read_usual(
    offsets: Offsets, past: OffsetHistory, when: tuple[float, float], settings: AnalysisSettings
) -> tuple[OffsetFigures, OffsetHistory] | None:
    """The figures and the new history, or None where a reading is of another kind.

    Args:
        offsets: of at least one partition.
        past: the history so far.
        when: the time of the reading, and the time at which its records' age is asked.
        settings: how far back to look.
    """
    at, now = when
    if not _continues(offsets, past) or at <= past.times[-1]:
        return None
    latest: Row = offsets.latest
    planned: Row = offsets.planned
    committed: Row = offsets.committed
    arrived, in_hand, done = sum(latest), sum(planned), sum(committed)
    if not arrived < inf:
        return None
    times, rows = (*past.times, at), (*past.rows, latest)
    since = at - settings.rate_window_s
    first = bisect_right(times, since) - 1
    begin = since if first >= 0 else times[0]
    rate = (arrived - _arrived(times, rows, first, since)) / (at - begin)
    if arrived == done:
        passed, lag_s = first, 0.0
    else:
        passed, arrival = _oldest(times, rows, committed)
        lag_s = max(0.0, now - arrival)
    topics = past.topics
    one = topics[0] == topics[-1]  # they are sorted
    by_topic = ((topics[0], rate),) if one else _by_topic(topics, times, rows, first, since)
    figures = OffsetFigures(
        at,
        arrived - in_hand,
        in_hand - done,
        arrived - done,
        rate,
        lag_s,
        len(latest),
        exact=offsets.exact,
        committed_known=True,
        progress=done - sum(past.committed),  # type: ignore[arg-type] # it is complete
        by_topic=by_topic,
    )
    times, rows = thinned(times, rows, first=min(first, passed), most=settings.max_samples)
    columns = offsets.topics, offsets.numbers, times, rows, committed, past.absent_since, True
    return figures, OffsetHistory._make(columns)


def _by_topic(
    topics: Sequence[str], times: Sequence[float], rows: Sequence[Row], first: int, since: float
) -> tuple[tuple[str, float], ...]:
    """The rate of each topic."""
    span_s, found = times[-1] - (since if first >= 0 else times[0]), []
    for topic in sorted(set(topics)):
        mine = [each == topic for each in topics]
        of = [tuple(compress(row, mine)) for row in rows]
        found.append((topic, (sum(of[-1]) - _arrived(times, of, first, since)) / span_s))
    return tuple(found)


def _continues(offsets: Offsets, past: OffsetHistory) -> bool:
    """Whether all is known of the same partitions, and before ≤ committed ≤ planned ≤ latest ≥ latest before."""
    if not past.complete or offsets.numbers != past.numbers or offsets.topics != past.topics:
        return False
    columns: Any = past.committed, offsets.committed, offsets.planned, offsets.latest, past.rows[-1]
    try:
        for before, committed, planned, latest, last in zip(*columns, strict=True):
            if not before <= committed <= planned <= latest >= last:
                return False
    except TypeError:  # a position is not known
        return False
    return True


def _oldest(times: Sequence[float], rows: Sequence[Row], committed: Row) -> tuple[int, float]:
    """The last row that the committed offsets have reached in every partition, −1 for none; and A⁻¹(committed).

    A⁻¹(committed) is when the oldest record that waits arrived: the least of the partitions that have one. A row that
    is the last for the first partition is so for all, unless another partition has come less far.
    """
    passed = min(bisect_right(rows, committed[0], key=itemgetter(0)), len(rows) - 1) - 1
    share = None if passed < 0 else _share(rows[passed], rows[passed + 1], committed)
    if share is None:
        passed = _passed(rows[: passed + 1], committed)
        share = None if passed < 0 else _share(rows[passed], rows[passed + 1], committed)
    if share is None:
        return -1, times[0]
    return passed, times[passed] + share * (times[passed + 1] - times[passed])


def _share(reached: Row, following: Row, committed: Row) -> float | None:
    """The least share of the way between two rows that a partition has come; None: one has not reached the first.

    Some partition has records that wait at the second row.
    """
    least = inf
    for below, above, done in zip(reached, following, committed, strict=True):
        if done < below:
            return None
        if done < above:
            share = (done - below) / (above - below)
            if share < least:
                least = share
    return least


def _passed(rows: Sequence[Row], committed: Sequence[int]) -> int:
    """The last row that the committed offsets have reached in every partition; −1: none."""
    low, high = -1, len(rows) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if all(map(le, rows[middle], committed)):
            low = middle
        else:
            high = middle - 1
    return low


def _arrived(times: Sequence[float], rows: Sequence[Row], first: int, since: float) -> float:
    """Σ A(since); before the first sample its counts."""
    if first < 0:
        return float(sum(rows[0]))
    below, above = float(sum(rows[first])), float(sum(rows[first + 1]))
    return below + (since - times[first]) / (times[first + 1] - times[first]) * (above - below)
