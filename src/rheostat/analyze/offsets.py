"""What the offsets of one query say: backlog, arrival rate and lag, partition by partition."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from rheostat.analyze.state import AnalysisSettings, OffsetHistory, known, largest, total
from rheostat.model import Offsets, PartitionOffsets

Key = tuple[str, int]


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


class _Curve(NamedTuple):
    """What is known of one partition: when so many records had arrived, and how many were committed last."""

    times: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()
    committed: int | None = None
    absent_since: float | None = None


class _Seen(NamedTuple):
    """One partition. ``progress`` is None where the committed offset is unknown.

    Attributes:
        arrivals: the curve, where its end is known.
    """

    waiting: int | None = None
    in_flight: int | None = None
    backlog: int | None = None
    lag_s: float | None = None
    progress: int | None = None
    arrivals: _Curve | None = None


def read_offsets(
    offsets: Offsets | None, past: OffsetHistory, now: float, settings: AnalysisSettings, invalid: set[str]
) -> tuple[OffsetFigures, OffsetHistory]:
    """The figures at ``now``, and the history with this reading in it.

    A partition that is left out of a reading makes the sums unknown; left out for longer than the rate window,
    it is taken to be gone.
    """
    at = known(offsets.at, "offsets.at", invalid) if offsets is not None else None
    if offsets is None or at is None or not offsets.topics:
        return OffsetFigures(), past
    when = (at, max(now, at))
    before = _curves(past)
    seen: list[_Seen] = []
    curves: dict[Key, _Curve] = {}
    for reading in offsets.partitions:
        key = (reading.topic, reading.partition)
        one, curves[key] = _read_partition(reading, before.pop(key, _Curve()), when, invalid)
        seen.append(one)
    absent = _absent(before, at, settings.rate_window_s)
    by_topic = () if absent else _by_topic(offsets.topics, seen, settings.rate_window_s)
    seen += [_Seen()] * len(absent)
    progress = [each.progress for each in seen]
    figures = OffsetFigures(
        at=at,
        waiting=total(each.waiting for each in seen),
        in_flight=total(each.in_flight for each in seen),
        backlog=total(each.backlog for each in seen),
        arrival_rate=_rate(seen, settings.rate_window_s),
        lag_s=largest(each.lag_s for each in seen),
        partitions=len(seen),
        exact=offsets.exact,
        committed_known=None not in progress,
        progress=sum(filter(None, progress)),
        by_topic=by_topic,
    )
    return figures, _history(curves | absent, at, settings)


def _by_topic(topics: Sequence[str], seen: Sequence[_Seen], window_s: float) -> tuple[tuple[str, float], ...]:
    """The rate of each topic; none where that of a partition is unknown."""
    partitions: dict[str, list[_Seen]] = {}
    for topic, one in zip(topics, seen, strict=True):
        partitions.setdefault(topic, []).append(one)
    rates = {topic: _rate(those, window_s) for topic, those in partitions.items()}
    found = [(topic, rate) for topic, rate in sorted(rates.items()) if rate is not None]
    return tuple(found) if len(found) == len(rates) else ()


def _rate(seen: Iterable[_Seen], window_s: float) -> float | None:
    """Records/s that arrive in some partitions; those that were known at the same looks make one curve together."""
    together: dict[tuple[float, ...], list[tuple[int, ...]]] = {}
    for each in seen:
        if each.arrivals is None:
            return None
        together.setdefault(each.arrivals.times, []).append(each.arrivals.counts)
    return total(
        _rate_of(times, [sum(row) for row in zip(*counts, strict=True)], window_s) for times, counts in together.items()
    )


def _curves(past: OffsetHistory) -> dict[Key, _Curve]:
    """The columns of a history, each without the looks at which it was not known."""
    columns = zip(*past.rows, strict=True) if past.rows else [()] * len(past.topics)
    partitions = zip(past.topics, past.numbers, columns, past.committed, past.absent_since, strict=True)
    curves = {}
    for topic, number, column, committed, absent_since in partitions:
        looks = {at: count for at, count in zip(past.times, column, strict=True) if count is not None}
        curves[topic, number] = _Curve(
            times=tuple(looks), counts=tuple(looks.values()), committed=committed, absent_since=absent_since
        )
    return curves


def _history(curves: dict[Key, _Curve], at: float, settings: AnalysisSettings) -> OffsetHistory:
    """The curves as columns, from the first sample on that one of them needs."""
    topics, numbers = zip(*curves, strict=True)
    times = tuple(sorted(set().union(*[curve.times for curve in curves.values()])))
    columns = [map(dict(zip(curve.times, curve.counts, strict=True)).get, times) for curve in curves.values()]
    rows = tuple(zip(*columns, strict=True))
    starts = [_needed_from(curve, at - settings.rate_window_s) for curve in curves.values() if curve.times]
    first = bisect_right(times, min(starts, default=at)) - 1
    times, rows = thinned(times, rows, first=first, most=settings.max_samples)
    committed = tuple(curve.committed for curve in curves.values())
    absent_since = tuple(curve.absent_since for curve in curves.values())
    whole = None not in committed and not any(None in row for row in rows)
    complete = bool(rows) and whole and all(since is None for since in absent_since)
    return OffsetHistory(
        topics=topics,
        numbers=numbers,
        times=times,
        rows=rows,
        committed=committed,
        absent_since=absent_since,
        complete=complete,
    )


def _needed_from(curve: _Curve, since: float) -> float:
    behind = -1 if curve.committed is None else curve.committed
    return curve.times[max(0, needed(curve.times, curve.counts, since=since, behind=behind))]


def _absent(missing: dict[Key, _Curve], at: float, patience_s: float) -> dict[Key, _Curve]:
    kept = {}
    for key, curve in missing.items():
        since = at if curve.absent_since is None else curve.absent_since
        if at - since <= patience_s:
            kept[key] = curve._replace(absent_since=since)
    return kept


def _read_partition(
    reading: PartitionOffsets, past: _Curve, when: tuple[float, float], invalid: set[str]
) -> tuple[_Seen, _Curve]:
    """One partition; ``when`` is the time of the reading and the time at which its records' age is asked."""
    at, now = when
    latest = known(reading.latest, "offsets.latest", invalid)
    planned = known(reading.planned, "offsets.planned", invalid)
    committed = known(reading.committed, "offsets.committed", invalid)
    end = _end(latest, planned, committed, past, invalid)
    times, counts = past.times, past.counts
    if latest is not None:
        times, counts = extended(times, counts, at, latest)
    lag_s = _lag(times, counts, committed, end, now)
    curve = _Curve(times=times, counts=counts, committed=past.committed if committed is None else committed)
    waiting, in_flight = _split(end, planned, committed)
    backlog = None if end is None or committed is None else end - committed
    seen = _Seen(
        waiting=waiting,
        in_flight=in_flight,
        backlog=backlog,
        lag_s=lag_s,
        progress=_progress(committed, past.committed),
        arrivals=None if latest is None else curve,
    )
    return seen, curve


def _end(latest: int | None, planned: int | None, committed: int | None, past: _Curve, invalid: set[str]) -> int | None:
    """How many records are known to have arrived.

    Positions are not all read at one instant: a batch planned or ended in between reaches beyond ``latest``, and
    what it reaches has arrived. But a committed offset beyond ``latest`` that has not moved since the last
    observation, or a ``latest`` that fell, belongs to another topic than the one that is there now: impossible.
    """
    if latest is None or committed is None:
        return None
    if committed > latest:
        moved = past.committed is not None and committed > past.committed
        if not moved or (past.counts and latest < past.counts[-1]):
            invalid.add("offsets.committed")
            return None
    return max(latest, committed, planned or 0)


def _split(end: int | None, planned: int | None, committed: int | None) -> tuple[int | None, int | None]:
    """Records waiting, and in flight."""
    if end is None or planned is None or committed is None:
        return None, None
    reached = max(planned, committed)
    return end - reached, reached - committed


def _progress(committed: int | None, before: int | None) -> int | None:
    """Records committed since the observation before; a position that fell back counts as none."""
    if committed is None:
        return None
    return 0 if before is None else max(0, committed - before)


def _rate_of(times: Sequence[float], counts: Sequence[int], window_s: float) -> float | None:
    """(A(t) − A(t − window)) ÷ window at the last sample t, over what there is if the curve is shorter."""
    if len(times) < 2:
        return None
    start = max(times[0], times[-1] - window_s)
    return (counts[-1] - arrived(times, counts, start)) / (times[-1] - start)


def _lag(
    times: tuple[float, ...], counts: tuple[int, ...], committed: int | None, end: int | None, now: float
) -> float | None:
    """The age now − A⁻¹(committed); 0 when nothing is uncommitted; None before two samples.

    Where the committed offset lies before the oldest sample, this is the age of that sample: a lower bound.
    """
    if committed is None or end is None or len(times) < 2:
        return None
    return 0.0 if end <= committed else max(0.0, now - arrival_time(times, counts, committed))


# A(t), the number of records that have arrived in a partition until t, from samples, and its inverse.


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
