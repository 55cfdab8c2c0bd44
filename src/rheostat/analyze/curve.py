"""A(t), the number of records that have arrived in a partition until t, from samples, and its inverse.

Between two samples A is taken as linear. A⁻¹(d) is the *last* time at which no more than d records had arrived: a
record that came after a pause is taken to have come at the pause's last sample. So the age of a record errs by
at most one sample interval, and where arrivals are uneven it errs to the old side.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["arrival_time", "arrived", "extended", "needed", "thinned"]

Times = tuple[float, ...]
Counts = tuple[int, ...]
Row = TypeVar("Row")


def extended(times: Times, counts: Counts, at: float, count: int) -> tuple[Times, Counts]:
    """The curve with one more sample.

    A count that falls, or a time that runs backwards, starts the curve anew: the topic was recreated, or the
    clock was set. A second reading at the same time replaces nothing.
    """
    if not times or at < times[-1] or count < counts[-1]:
        return (at,), (count,)
    if at == times[-1]:
        return times, counts
    return (*times, at), (*counts, count)


def needed(times: Times, counts: Counts, *, since: float, behind: int) -> int:
    """The first sample that A(since) and A⁻¹(behind) need; −1: one before the first.

    >>> needed((0.0, 10.0, 20.0, 30.0), (0, 10, 20, 30), since=25.0, behind=15)
    1
    """
    return min(bisect_right(times, since), bisect_right(counts, behind)) - 1


def thinned(times: Times, rows: tuple[Row, ...], *, first: int, most: int) -> tuple[Times, tuple[Row, ...]]:
    """The samples from ``first`` on, and never more than ``most``.

    If that is too much, every second sample of the older half goes, so that the past gets coarser and the present
    stays sharp.
    """
    if first > 0:
        times, rows = times[first:], rows[first:]
    while len(times) > most:
        half = len(times) // 2
        times, rows = times[:half:2] + times[half:], rows[:half:2] + rows[half:]
    return times, rows


def arrived(times: Sequence[float], counts: Sequence[int], at: float) -> float:
    """A(at); before the first sample its count, after the last one that one's.

    >>> arrived((0.0, 10.0), (100, 200), 2.5)
    125.0
    """
    after = bisect_right(times, at)
    if after == 0:
        return float(counts[0])
    if after == len(times):
        return float(counts[-1])
    before = after - 1
    share = (at - times[before]) / (times[after] - times[before])
    return counts[before] + share * (counts[after] - counts[before])


def arrival_time(times: Times, counts: Counts, count: int) -> float:
    """A⁻¹(count). Before the first sample: its time, so that an age made from it is a lower bound.

    >>> arrival_time((0.0, 10.0, 20.0), (100, 200, 200), 150)
    5.0
    >>> arrival_time((0.0, 10.0, 20.0, 30.0), (100, 200, 200, 210), 200)
    20.0
    """
    after = bisect_right(counts, count)
    if after == 0:
        return times[0]
    before = after - 1
    if after == len(counts):
        return times[before]
    share = (count - counts[before]) / (counts[after] - counts[before])
    return times[before] + share * (times[after] - times[before])
