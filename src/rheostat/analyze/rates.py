"""What the offsets of one query say: backlog, arrival rate and lag, partition by partition."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rheostat.analyze.checks import known, largest, total
from rheostat.analyze.curve import arrival_time, arrived, extended, needed, thinned
from rheostat.analyze.state import AnalysisSettings, OffsetHistory
from rheostat.analyze.usual import OffsetFigures, read_usual
from rheostat.model import Offsets, PartitionOffsets

__all__ = ["OffsetFigures", "read_offsets"]

Key = tuple[str, int]


class _Curve(NamedTuple):
    """What is known of one partition: when so many records had arrived, and how many were committed last."""

    times: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()
    committed: int | None = None
    absent_since: float | None = None


class _Seen(NamedTuple):
    """One partition. ``progress`` is None where the committed offset is unknown."""

    waiting: int | None
    in_flight: int | None
    backlog: int | None
    rate: float | None
    lag_s: float | None
    progress: int | None


_UNKNOWN = _Seen(None, None, None, None, None, None)


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
    usual = read_usual(offsets, past, when, settings)
    if usual is not None:
        return usual
    before = _curves(past)
    seen: list[_Seen] = []
    curves: dict[Key, _Curve] = {}
    for reading in offsets.partitions:
        key = (reading.topic, reading.partition)
        one, curves[key] = _read_partition(reading, before.pop(key, _Curve()), when, settings, invalid)
        seen.append(one)
    absent = _absent(before, at, settings.rate_window_s)
    by_topic = () if absent else _by_topic(offsets.topics, seen)
    seen += [_UNKNOWN] * len(absent)
    figures = replace(_figures(seen, at, exact=offsets.exact), by_topic=by_topic)
    return figures, _history(curves | absent, at, settings)


def _figures(seen: list[_Seen], at: float, *, exact: bool) -> OffsetFigures:
    waiting, in_flight, backlog, rate, lag_s, progress = zip(*seen, strict=True)
    return OffsetFigures(
        at=at,
        waiting=total(waiting),
        in_flight=total(in_flight),
        backlog=total(backlog),
        arrival_rate=total(rate),
        lag_s=largest(lag_s),
        partitions=len(seen),
        exact=exact,
        committed_known=None not in progress,
        progress=sum(filter(None, progress)),
    )


def _by_topic(topics: Sequence[str], seen: Sequence[_Seen]) -> tuple[tuple[str, float], ...]:
    """The rate of each topic; none where that of a partition is unknown."""
    found: dict[str, float] = {}
    for topic, one in zip(topics, seen, strict=True):
        if one.rate is None:
            return ()
        found[topic] = found.get(topic, 0.0) + one.rate
    return tuple(sorted(found.items()))


def _curves(past: OffsetHistory) -> dict[Key, _Curve]:
    """The columns of a history, each without the looks at which it was not known."""
    curves = {}
    for place, key in enumerate(zip(past.topics, past.numbers, strict=True)):
        known_at = [
            (at, count) for at, row in zip(past.times, past.rows, strict=True) if (count := row[place]) is not None
        ]
        times, counts = zip(*known_at, strict=True) if known_at else ((), ())
        curves[key] = _Curve(times, counts, past.committed[place], past.absent_since[place])
    return curves


def _history(curves: dict[Key, _Curve], at: float, settings: AnalysisSettings) -> OffsetHistory:
    """The curves as columns, from the first sample on that one of them needs."""
    topics, numbers = zip(*curves, strict=True)
    samples = [dict(zip(curve.times, curve.counts, strict=True)) for curve in curves.values()]
    times = tuple(sorted({time for curve in curves.values() for time in curve.times}))
    rows = tuple(tuple(each.get(time) for each in samples) for time in times)
    starts = [_needed_from(curve, at - settings.rate_window_s) for curve in curves.values() if curve.times]
    first = bisect_right(times, min(starts, default=at)) - 1
    times, rows = thinned(times, rows, first=first, most=settings.max_samples)
    committed = tuple(curve.committed for curve in curves.values())
    absent_since = tuple(curve.absent_since for curve in curves.values())
    whole = None not in committed and not any(None in row for row in rows)
    complete = bool(rows) and whole and all(since is None for since in absent_since)
    return OffsetHistory(topics, numbers, times, rows, committed, absent_since, complete)


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
    reading: PartitionOffsets, past: _Curve, when: tuple[float, float], settings: AnalysisSettings, invalid: set[str]
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
    rate = None if latest is None else _rate(times, counts, settings.rate_window_s)
    lag_s = _lag(times, counts, committed, end, now)
    curve = _Curve(times, counts, past.committed if committed is None else committed)
    waiting, in_flight = _split(end, planned, committed)
    backlog = None if end is None or committed is None else end - committed
    return _Seen(waiting, in_flight, backlog, rate, lag_s, _progress(committed, past.committed)), curve


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


def _rate(times: tuple[float, ...], counts: tuple[int, ...], window_s: float) -> float | None:
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
