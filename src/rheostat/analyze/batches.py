"""Batches of one query: batch time, processed rate, batch cap and backpressure. None: unknown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rheostat.analyze.offsets import OffsetFigures, read_offsets
from rheostat.analyze.state import (
    AnalysisSettings,
    BatchMark,
    OffsetHistory,
    QueryHistory,
    Turns,
    known,
    known_fields,
    thin,
    total,
)
from rheostat.model import Batch, QueryReading, SourceInfo

_FINISHED = ("at", "batch_id", "duration_s", "records")
_RUNNING = ("at", "since", "batch_id")

CAPPED_SHARE = 0.99
"""A batch of this share of the cap counts as capped: caps are divided among partitions and rounded."""
_SIGMAS = 3.0


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """Figures of one query.

    Attributes:
        last_batch_s, last_batch_id, last_batch_records: of the last finished batch.
        oldest: time of its oldest reading that a decision needs.
    """

    offsets: OffsetFigures
    last_batch_s: float | None
    last_batch_id: int | None
    last_batch_records: int | None
    running: bool | None
    processed_rate: float | None
    backlog_excess: float | None
    batch_s: float | None
    trigger_s: float | None
    period_s: float | None
    occupancy: float | None
    batches: int
    capped: bool | None
    partitions: int | None
    oldest: float | None
    pressure: float | None = None
    throughput: float | None = None


def read_query(
    query: QueryReading,
    past: QueryHistory | None,
    now: float,
    settings: AnalysisSettings,
    *,
    executors_changed: bool,
    invalid: set[str],
) -> tuple[QueryFigures, QueryHistory]:
    """Figures of one query at ``now``, and its history with this reading."""
    offsets, history = read_offsets(query.offsets, past.offsets if past else OffsetHistory(), now, settings, invalid)
    ended_at, batch_id, duration_s, records = known_fields(query.batch, "batch", _FINISHED, invalid)
    running_at, since, running_id = known_fields(query.running, "running", _RUNNING, invalid)
    active = None if query.running is None else query.running.active
    restarted = past is None or past.run_id != query.run_id
    anew = restarted or executors_changed
    done = offsets.progress + (past.done if past else 0)
    marks = () if restarted or past is None else past.marks[-1:] if executors_changed else past.marks
    if offsets.committed_known and ended_at is not None and batch_id is not None:
        marks = add_mark(marks, BatchMark(at=ended_at, batch_id=batch_id, done=done), settings)
    after = count_after(past, batch_id, active, running_id, anew=anew)
    batch_s, trigger_s = (
        _batch_time(duration_s, active, since, running_at),
        known(query.trigger_s, "trigger_s", invalid),
    )
    period_s = None if trigger_s is None else max(trigger_s, settings.objective_lag_s / 2)
    excess = _excess(offsets, trigger_s, batch_s, period_s)
    held = has_backpressure(batch_s, trigger_s, period_s, offsets.backlog, excess, query.batch)
    turns, before = (None if past is None or anew else past.turns), (now if past is None else past.seen_at)
    backpressure, turns = update_backpressure(held, turns, before, now, settings.rate_window_s)
    remembered = QueryHistory(
        query_id=query.query_id,
        run_id=query.run_id,
        seen_at=now,
        offsets=history,
        done=done,
        marks=marks,
        count_after=after,
        turns=turns,
    )
    return QueryFigures(
        offsets=offsets,
        last_batch_s=duration_s,
        last_batch_id=batch_id,
        last_batch_records=records,
        running=active,
        processed_rate=processed_rate(marks),
        backlog_excess=excess,
        batch_s=batch_s,
        trigger_s=trigger_s,
        period_s=period_s,
        occupancy=None if batch_s is None or period_s is None else batch_s / period_s,
        batches=0 if batch_id is None or after is None else max(0, batch_id - after),
        capped=is_capped(query.sources, records, offsets, invalid),
        partitions=_count_partitions(query, offsets, invalid),
        oldest=min([at for at in (offsets.at, running_at) if at is not None], default=None),
        pressure=backpressure,
        throughput=_throughput(marks, after) if backpressure else None,
    ), remembered


def _batch_time(duration_s: float | None, active: bool | None, since: float | None, at: float | None) -> float | None:
    """Duration of the last batch, or of the running one if that is already longer."""
    age_s = max(0.0, at - since) if active and at is not None and since is not None else None
    return max([value for value in (duration_s, age_s) if value is not None], default=None)


def add_mark(marks: tuple[BatchMark, ...], mark: BatchMark, settings: AnalysisSettings) -> tuple[BatchMark, ...]:
    """Append the end of the last finished batch; drop those before the rate window."""
    if marks and mark.batch_id == marks[-1].batch_id:
        return marks
    if not marks or mark.batch_id < marks[-1].batch_id or mark.at <= marks[-1].at:
        return (mark,)
    marks = (*marks, mark)
    first = max([i for i, each in enumerate(marks) if each.at <= mark.at - settings.rate_window_s], default=0)
    return thin(marks[first:], settings.max_samples)


def processed_rate(marks: tuple[BatchMark, ...]) -> float | None:
    """Records committed per second from the first batch end kept to the last; None before two."""
    if len(marks) < 2:
        return None
    return (marks[-1].done - marks[0].done) / (marks[-1].at - marks[0].at)


def _throughput(marks: tuple[BatchMark, ...], after: int | None) -> float | None:
    """Processed rate of the batches that count as finished at the present number of executors."""
    return None if after is None else processed_rate(tuple([mark for mark in marks if mark.batch_id >= after]))


def is_capped(
    sources: Sequence[SourceInfo], records: int | None, offsets: OffsetFigures, invalid: set[str]
) -> bool | None:
    """Whether the last batch, of so many records, was as large as the caps of the sources allow, and more was waiting.

    Unknown where only some sources have a cap. ``records`` counts retried tasks twice, so a batch with failures may
    look capped.
    """
    caps = [known(source.batch_cap, "source.batch_cap", invalid) for source in sources]
    if all(source.batch_cap is None for source in sources):
        return False
    cap = total(caps)
    left = offsets.backlog if offsets.waiting is None else offsets.waiting
    if cap is None or records is None or left is None:
        return None
    return records >= CAPPED_SHARE * cap and left > 0


def count_after(
    past: QueryHistory | None, batch_id: int | None, active: bool | None, running_id: int | None, *, anew: bool
) -> int | None:
    """The id after which batches count as finished at the present number of executors, in this run.

    When the count restarts (``anew``), the batch in flight does not count: it began at the number before. If it is
    unknown, one is assumed to be running. None: the first finished batch to be observed is that one.
    """
    if past is not None and not anew and past.count_after is not None:
        return past.count_after
    if anew and active and running_id is not None:
        return running_id
    if batch_id is None:
        return None
    return batch_id + (1 if anew and active is not False else 0)


def _count_partitions(query: QueryReading, offsets: OffsetFigures, invalid: set[str]) -> int | None:
    """From the offsets where they are known, else from the query plan."""
    planned = [known(source.partitions, "source.partitions", invalid) for source in query.sources]
    return total(planned) if offsets.partitions is None else offsets.partitions


def healthy_backlog(arrival_rate: float, trigger_s: float, batch_s: float, period_s: float) -> float:
    """The largest backlog of a job that keeps up, in records: arrival rate × (trigger + batch time).

    Records that arrived between two plannings are in flight, and more arrive while they are processed. Two plannings
    are a trigger interval apart, or a batch time where batches are longer. Batch time counts up to the period τ only:
    otherwise ever longer batches would justify their own backlog.

    >>> healthy_backlog(1000.0, trigger_s=2.0, batch_s=1.8, period_s=15.0)
    3800.0
    """
    batch_s = min(batch_s, period_s)
    return arrival_rate * (max(trigger_s, batch_s) + batch_s)


def count_spread(expected: float) -> float:
    """How far a count may lie above its expected value by chance, in records: 1 + 3 standard deviations of Poisson.

    Without it, one waiting record at a rate of one in 20 s would be many times a healthy backlog.

    >>> count_spread(0.04), round(count_spread(10_000.0))
    (1.6, 301)
    """
    return 1 + _SIGMAS * math.sqrt(expected)


def _excess(
    offsets: OffsetFigures, trigger_s: float | None, batch_s: float | None, period_s: float | None
) -> float | None:
    """max(0, backlog − healthy backlog − what counts vary by)."""
    backlog, rate = offsets.backlog, offsets.arrival_rate
    if backlog is None or rate is None or trigger_s is None or batch_s is None or period_s is None:
        return None
    healthy = healthy_backlog(rate, trigger_s, batch_s, period_s)
    return max(0.0, backlog - healthy - count_spread(healthy))


# Backpressure on micro-batches: whether a query is overloaded, and whether executors would help.

HIGH = 0.5
"""Backpressure above this is high (S2, Algorithm 1: > 0.5)."""

_WORK = 1


def is_overloaded(before: Sequence[float], own: float) -> bool:
    """S2, Algorithm 1: the backpressure of all operators upstream is high, its own is not.

    >>> is_overloaded([0.51], 0.5), is_overloaded([0.5], 0.0), is_overloaded([0.9, 0.2], 0.0), is_overloaded([0.9], 0.6)
    (True, False, False, False)
    """
    return all(each > HIGH for each in before) and own <= HIGH


def find_root(backpressure: float, durations_s: Sequence[float]) -> int | None:
    """Index of the part of a batch that causes the overload; None: there is none.

    Args:
        backpressure: of the query, in [0, 1].
        durations_s: of the parts of its batches, in order.

    >>> find_root(1.0, [0.04, 2.58, 0.01]), find_root(1.0, [3.0, 1.0, 0.1]), find_root(0.4, [0.04, 2.58, 0.01])
    (1, 0, None)
    """
    total_s = left_s = math.fsum(durations_s)
    before = backpressure
    for place, duration_s in enumerate(durations_s):
        left_s -= duration_s
        own = backpressure * left_s / total_s if total_s > 0 else 0.0
        if is_overloaded([before], own):
            return place
        before = own
    return None


def has_backpressure(
    batch_s: float | None,
    trigger_s: float | None,
    period_s: float | None,
    backlog: int | None,
    excess: float | None,
    last: Batch | None,
) -> bool | None:
    """Whether batches run back to back with a backlog that executors would clear; None: unknown.

    Args:
        batch_s: time of the last or the running batch.
        trigger_s: the trigger interval.
        period_s: τ.
        backlog: records that are not committed.
        excess: records beyond a healthy backlog.
        last: the last finished batch, for its parts.
    """
    if batch_s is None or trigger_s is None or period_s is None or backlog is None or excess is None:
        return None
    if batch_s < trigger_s or backlog <= 0 or (excess <= 0 and batch_s < period_s):
        return False
    if last is None or last.planning_s is None or last.add_batch_s is None:
        return True
    return find_root(1.0, (last.planning_s, last.add_batch_s, last.commit_s or 0.0)) == _WORK


def update_backpressure(
    backpressure: bool | None, past: Turns | None, before: float, now: float, window_s: float
) -> tuple[float | None, Turns]:
    """Share of the window, in [0, 1], with backpressure, and its record.

    Args:
        backpressure: whether there is backpressure at this look; it counts since the look ``before``.
        past: the record so far; None: the window begins here.
        before: time of the last look.
        now: time of this look.
        window_s: length of the window.

    >>> share, turns = update_backpressure(True, Turns(0.0), 45.0, 60.0, 60.0)
    >>> share, turns
    (0.25, Turns(since=0.0, times=(45.0,)))
    >>> update_backpressure(False, turns, 60.0, 75.0, 60.0)
    (0.25, Turns(since=0.0, times=(45.0, 60.0)))
    """
    if past is None or backpressure is None or now <= past.since:
        return None, Turns(now)
    if not backpressure and not past.times:
        return 0.0, past
    times = past.times
    if backpressure != bool(len(times) % 2):
        times = (*times, max(before, past.since))
    begin = max(past.since, now - window_s)
    while len(times) > 1 and times[1] <= begin:
        times = times[2:]
    ends = times[1::2] if len(times) % 2 == 0 else (*times[1::2], now)
    held_s = math.fsum(end - max(start, begin) for start, end in zip(times[::2], ends, strict=True))
    return min(1.0, held_s / (now - begin)), Turns(past.since, times)
