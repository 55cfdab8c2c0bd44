"""Backlog, arrival rate and lag of one query, from the offsets of its sources.

Figures are columns: one entry for each partition, None where it is unknown. The curve A(t) of a partition is the number
of records that have arrived in it until t; it is sampled at each look and linear in between.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import inf

from rheostat.analyze.state import AnalysisSettings, OffsetHistory, known, known_column, thin, total
from rheostat.model import JUMPS, Offsets

Key = tuple[str, int]
Times = tuple[float, ...]
Curve = tuple[Times, tuple[int, ...]]
Samples = tuple[int | None, ...]
Column = Sequence[int | None]


@dataclass(frozen=True, slots=True)
class OffsetFigures:
    """Figures of one query, over all its partitions; None where one of them is unknown.

    Attributes:
        at: when the offsets were read.
        committed_known: whether all committed offsets are known, so that ``progress`` is complete.
        progress: records committed since the observation before.
        counted: whether ``progress`` counts what was processed: no position was unknown before, fell, or passed over
            records that had been deleted.
        inexact_because: why offsets are not a count of records.
        by_topic: the arrival rate of each topic, sorted by topic; empty where one is unknown.
        waiting_by_topic: ``waiting`` in each topic, None where it is unknown.
        behind: the partition that has missed the objective, where all others are well.
        waited_s: the least time that the oldest uncommitted record has waited, counted from the look that first saw it
            if it came alone.
        arrived: records that arrived since the look before.
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
    counted: bool = True
    inexact_because: str | None = None
    by_topic: tuple[tuple[str, float], ...] = ()
    waiting_by_topic: tuple[tuple[str, int | None], ...] = ()
    behind: str | None = None
    waited_s: float | None = None
    arrived: int | None = None

    def waiting_in(self, topics: Collection[str]) -> int | None:
        """Records that wait in these topics; of a query that reads no others, its backlog where they are unknown."""
        counts = [waiting for topic, waiting in self.waiting_by_topic if topic in topics]
        if topics and len(counts) < len(self.waiting_by_topic):
            return total(counts)
        return self.backlog if self.waiting is None else self.waiting

    def rate_of(self, topics: Collection[str]) -> float | None:
        """Records/s that arrive in these topics."""
        rates = [rate for topic, rate in self.by_topic if topic in topics]
        return total(rates) if topics and len(rates) < len(self.by_topic) else self.arrival_rate


_EMPTY = OffsetFigures(
    waiting=0,
    in_flight=0,
    backlog=0,
    arrival_rate=0.0,
    lag_s=0.0,
    partitions=0,
    committed_known=True,
    waited_s=0.0,
    arrived=0,
)
_NOTHING_YET: Curve = ((0.0, 1.0), (0, 0))


def read_offsets(
    offsets: Offsets | None, past: OffsetHistory, now: float, settings: AnalysisSettings, invalid: set[str]
) -> tuple[OffsetFigures, OffsetHistory]:
    """The figures at ``now``, and the history with this reading in it.

    Topics come and go, partitions of a topic do not. A topic that is left out of a reading counts as it was, without
    new records; a partition of another one makes the sums unknown. After the rate window, both are gone. What arrives
    in a new partition counts from its second look on. A source without partitions is empty.
    """
    at = known(offsets.at, "offsets.at", invalid) if offsets is not None else None
    if offsets is None or at is None:
        return OffsetFigures(), past
    window_s = settings.rate_window_s
    past_keys = list(zip(past.topics, past.numbers, strict=True))
    read = list(zip(offsets.topics, offsets.numbers, strict=True))
    absent_since = _absent_since(read, past_keys, past.absent_since, at, window_s)
    keys = [*read, *absent_since]
    if not keys:
        return replace(_EMPTY, at=at, exact=offsets.exact), OffsetHistory(times=(at,))
    columns, before = _align(past, past_keys, keys)
    gone, fresh = _compare(keys, {*offsets.topics}, {*past_keys} if past.times else {*keys})
    latest, planned, committed = _positions(offsets, columns, before, gone, invalid)
    ends = _ends(latest, planned, committed, columns, before, invalid)
    reached = [
        None if end is None or plan is None or done is None else max(plan, done)
        for end, plan, done in zip(ends, planned, committed, strict=True)
    ]
    arrived = total(ends)
    times, columns = add_look(past.times, columns, at, latest)
    curves = [known_samples(times, column) for column in columns]
    arrivals = _arrivals(latest, curves, fresh)
    arrival_rate = _rate(arrivals, window_s)
    last_committed = [then if done is None else done for done, then in zip(committed, before, strict=True)]
    gaps = [_difference(end, plan) for end, plan in zip(ends, reached, strict=True)]
    waiting = _waiting(curves, committed, ends, gone)
    lags, waited = (_lags(waiting, max(now, at), fresh, more) for more in (0, 1))
    figures = OffsetFigures(
        at=at,
        waiting=_difference(arrived, total(reached)),
        in_flight=_difference(total(reached), total(committed)),
        backlog=_difference(arrived, total(committed)),
        arrival_rate=arrival_rate,
        lag_s=None if lags is None else max(lags, default=0.0),
        behind=_find_behind(keys, waited, settings.objective_lag_s),
        waited_s=None if waited is None else max(waited, default=0.0),
        partitions=len(keys) - sum(gone),
        exact=offsets.exact,
        committed_known=None not in committed,
        progress=_progress(before, committed),
        counted=offsets.inexact_because not in JUMPS and not (past.topics and _jumps(before, committed)),
        inexact_because=offsets.inexact_because,
        by_topic=_rates_by_topic(keys, arrivals, arrival_rate, window_s),
        waiting_by_topic=_sums_by_topic(keys, gaps),
        arrived=0 if at in past.times else _count_arrived(arrivals),
    )
    first_at = first_needed(curves, at - window_s, last_committed)
    times, rows = keep_looks(times, list(zip(*columns, strict=True)), first_at, settings.max_samples)
    topics, numbers = zip(*keys, strict=True)
    history = OffsetHistory(
        topics=topics,
        numbers=numbers,
        times=times,
        rows=rows,
        committed=tuple(last_committed),
        absent_since=(*[None] * len(read), *absent_since.values()),
        complete=_is_complete(rows, last_committed, absent_since),
    )
    return figures, history


def _absent_since(
    read: Sequence[Key], past: Sequence[Key], since: Sequence[float | None], at: float, patience_s: float
) -> dict[Key, float]:
    """By partition that this reading leaves out, for a while: when it was first left out."""
    there = set(read)
    absent = {key: at if first is None else first for key, first in zip(past, since, strict=True) if key not in there}
    return {key: first for key, first in absent.items() if at - first <= patience_s}


def _align(
    past: OffsetHistory, past_keys: Sequence[Key], keys: Sequence[Key]
) -> tuple[list[Samples], list[int | None]]:
    """The columns of the history and its committed offsets, in the order of ``keys``."""
    columns = dict(zip(past_keys, zip(*past.rows, strict=True), strict=False))
    committed = dict(zip(past_keys, past.committed, strict=True))
    unknown = (None,) * len(past.times)
    return [columns.get(key, unknown) for key in keys], [committed.get(key) for key in keys]


def _compare(keys: Sequence[Key], topics: Set[str], before: Set[Key]) -> tuple[list[bool], list[bool]]:
    """Of each partition, whether its topic is gone, and whether it is new."""
    return [topic not in topics for topic, _ in keys], [key not in before for key in keys]


def _positions(
    offsets: Offsets, columns: Sequence[Samples], before: Column, gone: Sequence[bool], invalid: set[str]
) -> tuple[list[int | None], list[int | None], list[int | None]]:
    """Latest, planned and committed offsets; then those of absent partitions, as they were where a topic is gone."""
    absent = list(zip(columns, before, gone, strict=True))[len(offsets.topics) :]
    ends = [_last_known(column) if away else None for column, _, away in absent]
    done = [then if away else None for _, then, away in absent]
    return (
        [*known_column(offsets.latest, "offsets.latest", invalid), *ends],
        [*known_column(offsets.planned, "offsets.planned", invalid), *done],
        [*known_column(offsets.committed, "offsets.committed", invalid), *done],
    )


def _arrivals(latest: Column, curves: Sequence[Curve], fresh: Sequence[bool]) -> list[Curve | None]:
    """The curve of each partition; None: what arrives is unknown."""
    rows = zip(latest, curves, fresh, strict=True)
    return [_NOTHING_YET if new else None if count is None else curve for count, curve, new in rows]


def _ends(
    latest: Column, planned: Column, committed: Column, columns: Sequence[Samples], before: Column, invalid: set[str]
) -> list[int | None]:
    """How many records are known to have arrived in each partition.

    Positions are not all read at one instant: a batch that was planned or that ended in between reaches beyond
    ``latest``, and what it reaches has arrived. But a committed offset beyond ``latest`` is impossible where it has not
    moved since the last observation, or where ``latest`` fell: it belongs to a topic that was there before.
    """
    ends: list[int | None] = []
    for end, plan, done, column, then in zip(latest, planned, committed, columns, before, strict=True):
        if end is None or done is None:
            ends.append(None)
        elif done > end and (then is None or done <= then or end < (_last_known(column) or 0)):
            invalid.add("offsets.committed")
            ends.append(None)
        else:
            ends.append(max(end, done, plan or 0))
    return ends


def _progress(before: Column, committed: Column) -> int:
    pairs = zip(before, committed, strict=True)
    return sum([done - then for then, done in pairs if then is not None and done is not None and done > then])


def _jumps(before: Column, committed: Column) -> bool:
    """Whether a position fell, or has come that was not known before and is not at the beginning."""
    return any(
        done if then is None else done is not None and done < then for then, done in zip(before, committed, strict=True)
    )


def _is_complete(rows: Sequence[Samples], committed: Column, absent_since: Mapping[Key, float]) -> bool:
    return bool(rows) and not absent_since and None not in committed and not any(None in row for row in rows)


def _difference(end: int | None, start: int | None) -> int | None:
    return None if end is None or start is None else end - start


def _count_arrived(curves: Sequence[Curve | None]) -> int | None:
    """Records between the last two looks; None before two of each partition.

    >>> _count_arrived([((0.0, 15.0), (10, 30)), _NOTHING_YET]), _count_arrived([((15.0,), (30,))])
    (20, None)
    """
    return total([None if curve is None or len(curve[1]) < 2 else curve[1][-1] - curve[1][-2] for curve in curves])


def _rate(curves: Sequence[Curve | None], window_s: float) -> float | None:
    """Records/s that arrive in these partitions; curves with samples of the same times are summed first."""
    by_times: dict[Times, list[tuple[int, ...]]] = {}
    for curve in curves:
        if curve is None:
            return None
        by_times.setdefault(curve[0], []).append(curve[1])
    return total(
        [
            _mean_rate(times, [sum(row) for row in zip(*counts, strict=True)], window_s)
            for times, counts in by_times.items()
        ]
    )


def _rates_by_topic(
    keys: Sequence[Key], curves: Sequence[Curve | None], arrival_rate: float | None, window_s: float
) -> tuple[tuple[str, float], ...]:
    topics = sorted({topic for topic, _ in keys})
    rates = (
        {topics[0]: arrival_rate}
        if len(topics) == 1
        else {
            topic: _rate([curve for key, curve in zip(keys, curves, strict=True) if key[0] == topic], window_s)
            for topic in topics
        }
    )
    known_rates = [(topic, rate) for topic, rate in rates.items() if rate is not None]
    return tuple(known_rates) if len(known_rates) == len(rates) else ()


def _sums_by_topic(keys: Sequence[Key], counts: Column) -> tuple[tuple[str, int | None], ...]:
    by_topic: dict[str, list[int | None]] = {}
    for (topic, _), count in zip(keys, counts, strict=True):
        by_topic.setdefault(topic, []).append(count)
    return tuple([(topic, total(each)) for topic, each in by_topic.items()])


def _mean_rate(times: Times, counts: Sequence[int], window_s: float) -> float | None:
    """(A(t) − A(t − window)) ÷ window at the last sample t, over what there is if the curve is shorter."""
    if len(times) < 2:
        return None
    start = max(times[0], times[-1] - window_s)
    return (counts[-1] - count_at(times, counts, start)) / (times[-1] - start)


def _waiting(
    curves: Sequence[Curve], committed: Column, ends: Column, gone: Sequence[bool]
) -> list[tuple[Curve, int | None, int | None]]:
    """Curve, committed and end of each partition; for records of a topic that is gone nobody waits."""
    rows = zip(curves, committed, ends, gone, strict=True)
    return [(curve, done, done if away else end) for curve, done, end, away in rows]


def _lags(
    rows: Sequence[tuple[Curve, int | None, int | None]], now: float, fresh: Sequence[bool], more: int
) -> list[float] | None:
    """The age now − A⁻¹(committed) of each partition; 0 when nothing is uncommitted; None before two samples of each.

    With one ``more``: how long its first record has waited for certain; one that came alone, since the look after that.

    One is enough for a new partition. Where the committed offset lies before the oldest sample, this is the age of
    that sample: a lower bound.
    """
    lags = []
    for (curve, done, end), new in zip(rows, fresh, strict=True):
        if done is None or end is None or not (new or len(curve[0]) > 1):
            return None
        lags.append(max(0.0, now - arrival_time(curve, done, more)) if end > done else 0.0)
    return lags


def _find_behind(keys: Sequence[Key], lags: Sequence[float] | None, objective_s: float) -> str | None:
    """The partition that has missed the objective, if all others have not and have half of its lag at most.

    Of two that are behind, one may wait for the slot of the other.

    >>> _find_behind([("a", 0), ("a", 1), ("a", 2)], [4.0, 300.0, 5.0], 30.0)
    'partition 1 of a'
    >>> _find_behind([("a", 0), ("a", 1), ("a", 2)], [20.0, 300.0, 25.0], 30.0)
    'partition 1 of a'
    >>> _find_behind([("a", 0), ("a", 1), ("a", 2)], [40.0, 300.0, 5.0], 30.0)
    """
    if lags is None or len(lags) < 2 or max(lags) < objective_s:
        return None
    well = min(objective_s, max(lags) / 2)
    if sum(lag >= well for lag in lags) > 1:
        return None
    topic, number = keys[lags.index(max(lags))]
    return f"partition {number} of {topic}"


def add_look(times: Times, columns: Sequence[Samples], at: float, latest: Column) -> tuple[Times, list[Samples]]:
    """The sampled counts of all partitions with one more look.

    Where a count falls the topic was created anew: what was known of that partition is forgotten. A time that runs
    backwards (the clock was set) begins everything anew. A second look at the same time adds only what was unknown.

    >>> add_look((0.0,), [(10,), (20,)], 1.0, [15, 5])
    ((0.0, 1.0), [(10, 15), (None, 5)])
    """
    if times and at < times[-1]:
        times, columns = (), [()] * len(latest)
    unknown = (None,) * len(times)
    kept = [
        unknown if count is not None and count < (_last_known(column) or 0) else column
        for column, count in zip(columns, latest, strict=True)
    ]
    if times and at == times[-1]:
        return times, [
            (*column[:-1], count if column[-1] is None else column[-1])
            for column, count in zip(kept, latest, strict=True)
        ]
    return (*times, at), [(*column, count) for column, count in zip(kept, latest, strict=True)]


def _last_known(column: Samples) -> int | None:
    for count in reversed(column):
        if count is not None:
            return count
    return None


def known_samples(times: Times, column: Samples) -> Curve:
    """The samples of a partition, without the looks at which its count was unknown."""
    counts = tuple([count for count in column if count is not None])
    if len(counts) < len(times):
        times = tuple([at for at, count in zip(times, column, strict=True) if count is not None])
    return times, counts


def first_needed(curves: Sequence[Curve], since: float, committed: Column) -> float:
    """Time of the first sample that A(since) and A⁻¹(committed) need of any curve; infinite without samples.

    >>> first_needed([((0.0, 10.0, 20.0, 30.0), (0, 10, 20, 30))], since=25.0, committed=[15])
    10.0
    """
    behind = [
        (times, 0 if done is None else bisect_right(counts, done))
        for (times, counts), done in zip(curves, committed, strict=True)
        if times
    ]
    return min([times[max(0, min(bisect_right(times, since), after) - 1)] for times, after in behind], default=inf)


def keep_looks(times: Times, rows: Sequence[Samples], first_at: float, most: int) -> tuple[Times, tuple[Samples, ...]]:
    """The looks at which something is known, from the one at ``first_at`` on, thinned to at most ``most``."""
    unknown = (None,) * len(rows[0])
    looks = [(at, row) for at, row in zip(times, rows, strict=True) if row != unknown]
    first = sum(at <= first_at for at, _ in looks) - 1
    kept = thin(looks[max(0, first) :], most)
    return tuple([at for at, _ in kept]), tuple([row for _, row in kept])


def count_at(times: Times, counts: Sequence[int], at: float) -> float:
    """A(at); before the first sample its count, after the last one that one's.

    >>> count_at((0.0, 10.0), (100, 200), 2.5)
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


def arrival_time(curve: Curve, count: int, more: int = 0) -> float:
    """A⁻¹(count). Before the first sample: its time, so that an age made from it is a lower bound.

    With one ``more``: when the next record had come, at the latest.

    >>> arrival_time(((0.0, 10.0, 20.0), (100, 200, 200)), 150)
    5.0
    >>> arrival_time(((0.0, 10.0, 20.0, 30.0), (100, 200, 200, 210)), 200)
    20.0
    >>> arrival_time(((0.0, 10.0, 20.0, 30.0), (100, 200, 200, 201)), 200, more=1)
    30.0
    """
    times, counts = curve
    after = bisect_right(counts, count)
    if after == 0:
        return times[0]
    before = after - 1
    if after == len(counts):
        return times[before]
    share = (count + more - counts[before]) / (counts[after] - counts[before])
    return times[before] + share * (times[after] - times[before])
