"""Batches of one query: batch time, processed rate, batch cap and backpressure. None: unknown."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from rheostat.analyze.offsets import OffsetFigures, read_offsets
from rheostat.analyze.state import (
    AnalysisSettings,
    BatchMark,
    OffsetHistory,
    QueryHistory,
    Runs,
    Turns,
    known,
    known_column,
    known_fields,
    largest,
    thin,
    total,
)
from rheostat.model import Batch, QueryReading, SourceInfo

_FINISHED = ("at", "batch_id", "duration_s", "records")
_RUNNING = ("at", "since", "batch_id")

CAPPED_SHARE = 0.99
"""A batch of this share of the cap counts as capped: caps are divided among partitions and rounded."""
_SIGMAS = 3.0


_DENSITY = 0.45
"""Records ÷ offsets of a batch under which it teaches no rate; transactions of one record have 0.5."""
_DENSITY_OF_COMPACTED = 0.9
"""The same in a compacted topic, where records that arrive lie denser than those that were left."""


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """Figures of one query.

    Attributes:
        last_batch_s, last_batch_id, last_batch_records: of the last finished batch.
        oldest: time of its oldest reading that a decision needs.
        idle: nothing arrives, nothing waits and no batch has run for a while, so none is to be expected.
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
    idle: bool = False
    wait_s: float | None = None
    running_share: float | None = None
    running_since: float | None = None
    batch_cap: int | None = None
    ended: tuple[Batch, ...] = ()


def read_query(
    query: QueryReading,
    past: QueryHistory | None,
    now: float,
    settings: AnalysisSettings,
    *,
    executors_changed: bool,
    invalid: set[str],
    slots_idle: bool = False,
) -> tuple[QueryFigures, QueryHistory]:
    """Figures of one query at ``now``, and its history with this reading. ``slots_idle``: most of the time, maybe."""
    offsets, history = read_offsets(query.offsets, past.offsets if past else OffsetHistory(), now, settings, invalid)
    ended_at, batch_id, duration_s, records = known_fields(query.batch, "batch", _FINISHED, invalid)
    running_at, since, running_id = known_fields(query.running, "running", _RUNNING, invalid)
    active = None if query.running is None else query.running.active
    restarted = past is None or past.run_id != query.run_id
    anew = restarted or executors_changed
    done = offsets.progress + (past.done if past else 0)
    marks = () if restarted or past is None else past.marks[-1:] if executors_changed else past.marks
    runs = follow_runs(query, past, now, None if active is False else running_id, batch_id)
    records, teaches = count_records(query.batch, records, offsets, invalid)
    teaches = teaches and runs.failures < AGAIN
    given_s = known(query.trigger_s, "trigger_s", invalid) or 0.0
    idle = _is_idle(offsets, active, ended_at, now - max(settings.rate_window_s, 2 * given_s))
    if idle or not teaches:
        marks = ()
    elif offsets.committed_known and ended_at is not None and batch_id is not None:
        marks = add_mark(marks, BatchMark(ended_at, batch_id, done, duration_s), settings)
    after = count_after(past, batch_id, active, running_id, anew=anew)
    batch_s = 0.0 if idle else _batch_time(duration_s, active, since, running_at)
    rhythm = _read_rhythm(query, offsets, batch_s, settings.objective_lag_s, invalid)
    busy_s = _occupied_s(batch_s, duration_s, rhythm.period_s, query.batch, marks if slots_idle else None)
    held = has_backpressure(batch_s, rhythm.trigger_s, rhythm.period_s, offsets.backlog, rhythm.excess, query.batch)
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
        runs=runs,
        batch_id=batch_id if batch_id is not None or restarted or past is None else past.batch_id,
    )
    return QueryFigures(
        offsets=offsets,
        last_batch_s=duration_s,
        last_batch_id=batch_id,
        last_batch_records=records if teaches else None,
        running=active,
        processed_rate=0.0 if idle else processed_rate(marks),
        backlog_excess=rhythm.excess,
        batch_s=batch_s,
        trigger_s=rhythm.trigger_s,
        period_s=rhythm.period_s,
        occupancy=None if busy_s is None or rhythm.period_s is None else busy_s / rhythm.period_s,
        batches=0 if batch_id is None or after is None else max(0, batch_id - after),
        capped=is_capped(query, offsets, invalid),
        partitions=_count_partitions(query, offsets, invalid),
        oldest=min([at for at in (offsets.at, running_at) if at is not None], default=None),
        pressure=backpressure,
        throughput=_throughput(marks, after) if backpressure else None,
        idle=idle,
        wait_s=rhythm.wait_s,
        running_share=running_share(marks),
        running_since=since if active else None,
        batch_cap=_most_records(query),
        ended=list_ended(query, None if restarted or past is None else past.batch_id),
    ), remembered


class _Rhythm(NamedTuple):
    """When batches begin, what a batch may take, how long sources wait for records, and what waits beyond that."""

    trigger_s: float | None
    period_s: float | None
    wait_s: float | None
    excess: float | None


def _read_rhythm(
    query: QueryReading, offsets: OffsetFigures, batch_s: float | None, objective_s: float, invalid: set[str]
) -> _Rhythm:
    trigger_s = known(query.trigger_s, "trigger_s", invalid)
    waits = [find_wait(source, offsets, invalid) for source in query.sources]
    waits_s = [wait.ends_s(trigger_s) for wait in waits]
    period_s = None if trigger_s is None else max(trigger_s, _batch_may_take(objective_s, waits_s))
    trigger_s = None if trigger_s is None else _batch_every(waits, trigger_s)
    return _Rhythm(trigger_s, period_s, largest(waits_s), _excess(offsets, trigger_s, batch_s, period_s, waits))


def list_ended(query: QueryReading, last_id: int | None) -> tuple[Batch, ...]:
    """Every batch that ended after the one with this id, oldest first, as far as they are known; None: all.

    >>> batches = [Batch(at, number, 4.0) for number, at in enumerate((5.0, 10.0, 15.0))]
    >>> query = QueryReading("q", "run", None, 5.0, batch=batches[2], ended=tuple(batches[:2]))
    >>> [batch.batch_id for batch in list_ended(query, 0)], list_ended(query, 2)
    ([1, 2], ())
    """
    batches = [*query.ended, *([] if query.batch is None else [query.batch])]
    return tuple([batch for batch in batches if last_id is None or batch.batch_id > last_id])


def _most_records(query: QueryReading) -> int | None:
    """Of a batch, from all sources; None: one of them has no limit."""
    return total([source.batch_cap for source in query.sources])


AGAIN = 2
"""Runs in a row that break off, from which on a query counts as failing: a deployment may go wrong once."""

FIRST_BATCHES = 5
"""A run with more batches has got over what ended the ones before, as has one that lasts twice as long as they did."""

_LEAST_RUN_S = 60.0


def follow_runs(
    query: QueryReading, past: QueryHistory | None, now: float, running_id: int | None, batch_id: int | None
) -> Runs:
    """The runs that broke off: an exception is known, or the batch that ran then is run again.

    What a run repeats is done once more for nothing, and says nothing of what the executors carry.
    """
    before = Runs(since=now) if past is None else past.runs
    runs, broke = before, False
    now_id = running_id if running_id is not None or batch_id is None else batch_id + 1
    if past is not None and past.run_id != query.run_id:
        lasted_s = past.seen_at - before.since
        kept = before if _is_short(before, past.seen_at) else Runs()
        longest_s = max(kept.longest_s, lasted_s) if kept.failures else 0.0
        runs = Runs(kept.failures, kept.because, since=now, longest_s=longest_s)
        broke = query.failed_before is not None
    if runs.first_id is None and now_id is not None:
        broke = broke or (past is not None and running_id is not None and before.running_id == running_id)
        runs = runs._replace(first_id=now_id)
    if broke:
        runs = runs._replace(failures=runs.failures + 1, because=query.failed_before)
    ran = running_id if broke or runs.first_id is not None else before.running_id
    runs = runs._replace(last_id=runs.last_id if now_id is None else now_id, running_id=ran)
    return runs if _is_short(runs, now) else runs._replace(failures=0)


def _is_short(runs: Runs, at: float) -> bool:
    """Whether a run was, or is so far, no longer than those that broke off, in batches and in time."""
    few = runs.first_id is None or (runs.last_id or 0) - runs.first_id < FIRST_BATCHES
    return few and (runs.failures == 0 or at - runs.since <= max(_LEAST_RUN_S, 2 * runs.longest_s))


def describe_failures(runs: Runs) -> str | None:
    """How a query fails and starts again; None: it does not.

    >>> describe_failures(Runs(3, "boom", 7, 7))
    'has failed 3 times in a row, in one of its first 5 batches (boom), and started again'
    """
    if runs.failures < AGAIN:
        return None
    because = f"batch {runs.first_id} is run again" if runs.because is None else runs.because
    return (
        f"has failed {runs.failures} times in a row, in one of its first {FIRST_BATCHES} batches ({because}), "
        "and started again"
    )


def _is_idle(offsets: OffsetFigures, active: bool | None, ended_at: float | None, since: float) -> bool:
    """Whether Spark has no reason to run a batch, and has run none since then: some run without input, for a state."""
    if offsets.backlog != 0 or offsets.arrival_rate != 0 or active:
        return False
    return ended_at is None or ended_at <= since


def _batch_time(duration_s: float | None, active: bool | None, since: float | None, at: float | None) -> float | None:
    """Duration of the last batch, or of the running one if that is already longer."""
    age_s = max(0.0, at - since) if active and at is not None and since is not None else None
    return max([value for value in (duration_s, age_s) if value is not None], default=None)


DRIVEN = 0.75
"""Share of the batch beside its tasks from which on executors cannot shorten it much: twice as many, by an eighth."""


def is_driver_bound(batch: Batch) -> bool:
    """Whether a finished batch passed while the driver planned or committed it.

    >>> is_driver_bound(Batch(0.0, 1, 36.0, planning_s=20.0, commit_s=15.0))
    True
    """
    return (batch.planning_s or 0.0) + (batch.commit_s or 0.0) > DRIVEN * batch.duration_s > 0


def driver_part(batch: Batch) -> float | None:
    """The part of a batch in which the driver plans and commits it, s; None: unknown."""
    return None if batch.planning_s is None else batch.planning_s + (batch.commit_s or 0.0)


def executors_part(batch: Batch) -> float | None:
    """The part of a batch that executors can shorten, s: its tasks, else all that the driver leaves; None: unknown."""
    if batch.work_s is not None or batch.planning_s is None:
        return batch.work_s
    return max(0.0, batch.duration_s - batch.planning_s - (batch.commit_s or 0.0))


def _occupied_s(
    batch_s: float | None,
    last_s: float | None,
    period_s: float | None,
    last: Batch | None,
    marks: tuple[BatchMark, ...] | None,
) -> float | None:
    """The batch time that counts as occupancy. ``marks``: where slots may idle: one long batch says nothing there."""
    if marks is not None and (batch_s or 0) >= (period_s or inf):
        batch_s = _repeated(batch_s, last_s, marks, None if last is None else last.batch_id)
    return _part_to_shorten(batch_s, last)


def _repeated(
    batch_s: float | None, last_s: float | None, marks: tuple[BatchMark, ...], batch_id: int | None
) -> float | None:
    """The batch time that two of the last batches reached, the running one included; None: one is known."""
    before = [mark.duration_s for mark in marks if mark.batch_id != batch_id][-1:]
    known_s = sorted([each for each in (batch_s if batch_s != last_s else None, last_s, *before) if each is not None])
    return known_s[-2] if len(known_s) > 1 else None


def _part_to_shorten(batch_s: float | None, last: Batch | None) -> float | None:
    """The batch time that counts as occupancy: only the executors' part, where the driver takes most of the batch."""
    part_s = None if last is None else executors_part(last)
    if batch_s is None or last is None or part_s is None or not is_driver_bound(last):
        return batch_s
    return batch_s * part_s / last.duration_s


def add_mark(marks: tuple[BatchMark, ...], mark: BatchMark, settings: AnalysisSettings) -> tuple[BatchMark, ...]:
    """Append the end of the last finished batch; drop those before the rate window."""
    if marks and mark.batch_id == marks[-1].batch_id:
        return marks
    if not marks or mark.batch_id < marks[-1].batch_id or mark.at <= marks[-1].at:
        return (mark,)
    marks = (*marks, mark)
    first = max([i for i, each in enumerate(marks) if each.at <= mark.at - settings.rate_window_s], default=0)
    return thin(marks[first:], settings.max_samples)


def count_records(
    batch: Batch | None, rows: int | None, offsets: OffsetFigures, invalid: set[str]
) -> tuple[int | None, bool]:
    """Records of the last finished batch, in the unit of the arrival rate, and whether they are a measure of its work.

    They are counted by offsets where a source tells them: ``rows`` has each row once for every action that reads it.
    Offsets are no measure where the batch passed over many that are no records: deleted, compacted or aborted ones.
    """
    covered = () if batch is None else known_column(batch.offsets, "batch.offsets", invalid)
    size = total(covered)
    compacted = offsets.inexact_because == "compaction"
    least = _DENSITY_OF_COMPACTED if compacted else _DENSITY
    dense = not compacted if size is None or rows is None else rows >= least * size
    return size if covered else rows, offsets.counted and dense


def processed_rate(marks: tuple[BatchMark, ...]) -> float | None:
    """Records committed per second from the first batch end kept to the last; None before two."""
    if len(marks) < 2:
        return None
    return (marks[-1].done - marks[0].done) / (marks[-1].at - marks[0].at)


def running_share(marks: tuple[BatchMark, ...]) -> float | None:
    """Share of the time between the first batch end kept and the last in which batches ran, at most 1; None: unknown.

    A batch between two looks, which was not seen, counts like the next one.

    >>> running_share((BatchMark(10.0, 1, 0, 2.0), BatchMark(20.0, 2, 50, 3.0), BatchMark(50.0, 4, 90, 3.0)))
    0.225
    """
    durations_s = [
        None if mark.duration_s is None else mark.duration_s * (mark.batch_id - before.batch_id)
        for before, mark in itertools.pairwise(marks)
    ]
    ran_s = total(durations_s)
    return min(1.0, ran_s / (marks[-1].at - marks[0].at)) if ran_s else None


def _throughput(marks: tuple[BatchMark, ...], after: int | None) -> float | None:
    """Processed rate of the batches that count as finished at the present number of executors."""
    return None if after is None else processed_rate(tuple([mark for mark in marks if mark.batch_id >= after]))


def is_capped(query: QueryReading, offsets: OffsetFigures, invalid: set[str]) -> bool | None:
    """Whether the last batch was as large as the cap of a source allows, and more was waiting in that source.

    The cap counts offsets, so the batch is measured by offsets; by its rows where those are not told, and there is but
    one source.
    """
    sizes: Sequence[int | None] = () if query.batch is None else query.batch.offsets
    if not sizes and query.batch is not None and len(query.sources) == 1:
        sizes = (query.batch.records,)
    if len(sizes) != len(query.sources):
        sizes = (None,) * len(query.sources)
    full = [
        _is_full(source, known(size, "batch.offsets", invalid), offsets, invalid)
        for source, size in zip(query.sources, sizes, strict=True)
    ]
    return True if True in full else None if None in full else False


def _is_full(source: SourceInfo, size: int | None, offsets: OffsetFigures, invalid: set[str]) -> bool | None:
    if source.batch_cap is None:
        return False
    cap, left = known(source.batch_cap, "source.batch_cap", invalid), offsets.waiting_in(source.topics)
    if cap is None or size is None or left is None:
        return None
    rounded = cap - (source.partitions or 0) if cap > 2 * (source.partitions or 0) else cap
    return size >= min(CAPPED_SHARE * cap, rounded) and left > 0


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


class Wait(NamedTuple):
    """What a source waits for on purpose before a batch.

    Attributes:
        rate: records/s that arrive in it.
        records: so many end the wait; 0: it does not wait.
        longest_s: so does this time.
    """

    rate: float | None
    records: int = 0
    longest_s: float = 0.0

    @property
    def seconds(self) -> float | None:
        """min(longest, records ÷ rate); None: unknown.

        >>> Wait(150.0, 100_000, 900.0).seconds, Wait(10.0, 100_000, 900.0).seconds, Wait(10.0).seconds
        (666.6666666666666, 900.0, 0.0)
        """
        if not self.records:
            return 0.0
        if self.rate is None:
            return None
        return self.longest_s if self.rate * self.longest_s <= self.records else self.records / self.rate

    def ends_s(self, trigger_s: float | None) -> float | None:
        """How long records wait at most: until the trigger after.

        >>> Wait(10.0, 100_000, 900.0).ends_s(10.0), Wait(150.0, 100_000, 900.0).ends_s(300.0), Wait(9.0).ends_s(2.0)
        (910.0, 900.0, 0.0)
        """
        wait_s = self.seconds
        return (wait_s // trigger_s + 1) * trigger_s if wait_s and trigger_s else wait_s


def find_wait(source: SourceInfo, offsets: OffsetFigures, invalid: set[str]) -> Wait:
    """What a source waits for at the present rate."""
    rate = offsets.rate_of(source.topics)
    least = known(source.min_offsets, "source.min_offsets", invalid)
    longest_s = known(source.max_delay_s, "source.max_delay_s", invalid)
    return Wait(rate) if least is None or longest_s is None else Wait(rate, least, longest_s)


def _batch_every(waits: Sequence[Wait], trigger_s: float) -> float:
    """The wait after which a batch begins, at the next trigger: the first source that waits no more brings it about."""
    wait_s = min([wait.seconds or 0.0 for wait in waits], default=0.0)
    return wait_s + trigger_s if wait_s > trigger_s else trigger_s


def _batch_may_take(objective_s: float, waits_s: Sequence[float | None]) -> float:
    """Half of the objective, or what the longest wait leaves of it if that is less; as long as the wait if nothing."""
    wait_s = max([each or 0.0 for each in waits_s], default=0.0)
    return min(objective_s / 2, objective_s - wait_s) if wait_s < objective_s else wait_s


def _excess(
    offsets: OffsetFigures,
    trigger_s: float | None,
    batch_s: float | None,
    period_s: float | None,
    waits: Sequence[Wait],
) -> float | None:
    """max(0, backlog − healthy backlog − records that wait on purpose beyond it − what counts vary by)."""
    backlog, rate = offsets.backlog, offsets.arrival_rate
    if backlog == 0:
        return 0.0
    if backlog is None or rate is None or trigger_s is None or batch_s is None or period_s is None:
        return None
    healthy = healthy_backlog(rate, trigger_s, batch_s, period_s)
    every_s = max(trigger_s, min(batch_s, period_s))
    for wait in waits:
        in_time = offsets.lag_s is not None and offsets.lag_s <= wait.longest_s + trigger_s + min(batch_s, period_s)
        held = wait.records if in_time else (wait.rate or 0.0) * (wait.seconds or 0.0)
        healthy += max(0.0, held - (wait.rate or 0.0) * every_s)
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
