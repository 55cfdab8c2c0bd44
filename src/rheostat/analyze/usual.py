"""The usual reading of offsets, in a fraction of the time that the general one takes.

Most looks find every partition that was there before, in the same order, with all its positions known and none of them
running backwards. Then passes over whole columns give what :func:`rheostat.analyze.rates.read_offsets` gives: the rate
needs no more than the sums of three rows, and the oldest record that waits lies beyond the last row that the committed
offsets have passed in every partition.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import compress
from math import inf
from operator import itemgetter, le
from typing import Any, NamedTuple

from rheostat.analyze.curve import thinned
from rheostat.analyze.state import AnalysisSettings, OffsetHistory
from rheostat.model import Offsets

__all__ = ["Sums", "read_usual"]

_first = itemgetter(0)

Row = tuple[Any, ...]
"""A figure of each partition; in a complete history whole numbers."""


class Sums(NamedTuple):
    """Over all partitions; ``lag_s`` is the largest, ``progress`` what was committed since the observation before.

    ``by_topic``: the arrival rate of each topic, sorted by topic.
    """

    waiting: int
    in_flight: int
    backlog: int
    arrival_rate: float
    lag_s: float
    progress: int
    by_topic: tuple[tuple[str, float], ...]


def read_usual(
    offsets: Offsets, past: OffsetHistory, when: tuple[float, float], settings: AnalysisSettings
) -> tuple[Sums, OffsetHistory] | None:
    """The sums and the new history, or None where a reading is of another kind.

    Args:
        offsets: of at least one partition.
        past: the history so far.
        when: the time of the reading, and the time at which its records' age is asked.
        settings: how far back to look.
    """
    at, now = when
    columns = _columns(offsets, past)
    if columns is None or at <= past.times[-1]:
        return None
    latest, planned, committed, before = columns
    times, rows = (*past.times, at), (*past.rows, latest)
    since = at - settings.rate_window_s
    first = bisect_right(times, since) - 1
    arrived, done = sum(latest), sum(committed)
    passed = _passed(rows, committed)
    lag_s = 0.0 if arrived == done else max(0.0, now - _arrival(times, rows, committed, passed))
    planned_all = sum(planned)

    def rate(of: Sequence[Row]) -> float:
        return (sum(of[-1]) - _arrived(times, of, first, since)) / (at - (since if first >= 0 else times[0]))

    whole = rate(rows)
    sums = Sums(
        waiting=arrived - planned_all,
        in_flight=planned_all - done,
        backlog=arrived - done,
        arrival_rate=whole,
        lag_s=lag_s,
        progress=done - sum(before),
        by_topic=_by_topic(past.topics, rows, rate, whole),
    )
    times, rows = thinned(times, rows, first=min(first, passed), most=settings.max_samples)
    named = offsets.topics, offsets.numbers
    return sums, OffsetHistory(*named, times, rows, committed, past.absent_since, complete=True)


def _by_topic(
    topics: Row, rows: Sequence[Row], rate: Callable[[Sequence[Row]], float], whole: float
) -> tuple[tuple[str, float], ...]:
    """The rate of each topic; partitions are sorted by topic, so that one topic shows at the ends."""
    if topics[0] == topics[-1]:
        return ((topics[0], whole),)
    found = []
    for topic in sorted(set(topics)):
        mine = [each == topic for each in topics]
        found.append((topic, rate([tuple(compress(row, mine)) for row in rows])))
    return tuple(found)


def _columns(offsets: Offsets, past: OffsetHistory) -> tuple[Row, Row, Row, Row] | None:
    """Latest, planned, committed, and committed before; None unless 0 ≤ before ≤ committed ≤ planned ≤ latest < ∞."""
    if not past.complete or offsets.numbers != past.numbers or offsets.topics != past.topics:
        return None
    columns: tuple[Row, Row, Row, Row] = offsets.latest, offsets.planned, offsets.committed, past.committed
    try:
        for latest, planned, committed, before, last in zip(*columns, past.rows[-1], strict=True):
            if not before <= committed <= planned <= latest >= last:
                return None
        return columns if sum(offsets.latest) < inf else None  # type: ignore[arg-type] # a None is caught
    except TypeError:  # a position is not known
        return None


def _passed(rows: Sequence[Row], committed: Sequence[int]) -> int:
    """The last row that the committed offsets have reached in every partition; −1: none."""
    low, high = -1, bisect_right(rows, committed[0], key=_first) - 1
    middle = high  # most often they have come as far in the others as in the first partition
    while low < high:
        if all(map(le, rows[middle], committed)):
            low = middle
        else:
            high = middle - 1
        middle = (low + high + 1) // 2
    return low


def _arrival(times: Sequence[float], rows: Sequence[Row], committed: Sequence[int], passed: int) -> float:
    """When the oldest record that waits arrived: the least A⁻¹(committed) of the partitions that have one."""
    if passed < 0:
        return times[0]
    columns = zip(rows[passed], rows[passed + 1], committed, strict=True)
    share: float = min([(done - below) / (above - below) for below, above, done in columns if above > done])
    return times[passed] + share * (times[passed + 1] - times[passed])


def _arrived(times: Sequence[float], rows: Sequence[Row], first: int, since: float) -> float:
    """Σ A(since); before the first sample its counts."""
    if first < 0:
        return float(sum(rows[0]))
    below, above = float(sum(rows[first])), float(sum(rows[first + 1]))
    return below + (since - times[first]) / (times[first + 1] - times[first]) * (above - below)
