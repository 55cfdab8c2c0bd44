"""One query: its offsets and its batches together."""

from __future__ import annotations

from dataclasses import dataclass

from rheostat.analyze.batches import (
    Finished,
    batch_time,
    capped,
    count_after,
    marked,
    processed_rate,
    read_finished,
    read_running,
)
from rheostat.analyze.checks import known, total
from rheostat.analyze.overload import pressed, read_pressure
from rheostat.analyze.rates import OffsetFigures, read_offsets
from rheostat.analyze.state import AnalysisSettings, BatchMark, OffsetHistory, QueryHistory
from rheostat.model import QueryReading

__all__ = ["QueryFigures", "healthy_backlog", "read_query"]


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """The figures of an assessment, of one query.

    Attributes:
        oldest: the time of its oldest reading that a decision needs; None: there is none.
    """

    offsets: OffsetFigures
    finished: Finished
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


def healthy_backlog(arrival_rate: float, trigger_s: float, batch_s: float, period_s: float) -> float:
    """Records that a job which keeps up may have at most: arrival rate × (trigger + batch time).

    What arrived between two plannings is in flight, and while it is worked on more arrives. Two plannings are a
    trigger interval apart, or a batch time where batches are longer than that (always, with an interval of 0).
    A batch longer than the period τ is not healthy: its time beyond τ excuses nothing, else a batch that swallows
    ever more would excuse its own backlog.

    >>> healthy_backlog(1000.0, trigger_s=2.0, batch_s=1.8, period_s=15.0)
    3800.0
    """
    batch_s = min(batch_s, period_s)
    return arrival_rate * (max(trigger_s, batch_s) + batch_s)


def read_query(
    query: QueryReading,
    past: QueryHistory | None,
    now: float,
    settings: AnalysisSettings,
    *,
    executors_changed: bool,
    invalid: set[str],
) -> tuple[QueryFigures, QueryHistory]:
    """The figures of one query at ``now``, and its history with this reading."""
    offsets, history = read_offsets(query.offsets, past.offsets if past else OffsetHistory(), now, settings, invalid)
    finished, running = read_finished(query.batch, invalid), read_running(query.running, invalid)
    restarted = past is None or past.run_id != query.run_id
    done = offsets.progress + (past.done if past else 0)
    marks = () if restarted or past is None else past.marks[-1:] if executors_changed else past.marks
    if offsets.committed_known:
        marks = marked(marks, finished, done, settings)
    after = count_after(past, finished, running, anew=restarted or executors_changed)
    batch_s, trigger_s = batch_time(finished, running), known(query.trigger_s, "trigger_s", invalid)
    period_s = None if trigger_s is None else max(trigger_s, settings.objective_lag_s / 2)
    excess = _excess(offsets, trigger_s, batch_s, period_s)
    turns = None if restarted or past is None or executors_changed else past.turns
    held = pressed(batch_s, trigger_s, period_s, offsets.backlog, excess, query.batch)
    before = now if past is None else past.seen_at
    pressure, turns = read_pressure(held, turns, before, now, settings.rate_window_s)
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
    figures = QueryFigures(
        offsets=offsets,
        finished=finished,
        running=running.active,
        processed_rate=processed_rate(marks),
        backlog_excess=excess,
        batch_s=batch_s,
        trigger_s=trigger_s,
        period_s=period_s,
        occupancy=None if batch_s is None or period_s is None else batch_s / period_s,
        batches=_batches(finished, after),
        capped=capped(query.sources, finished, offsets, invalid),
        partitions=_partitions(query, offsets, invalid),
        oldest=min([at for at in (offsets.at, running.at) if at is not None], default=None),
        pressure=pressure,
        throughput=_throughput(marks, after) if pressure else None,
    )
    return figures, remembered


def _excess(
    offsets: OffsetFigures, trigger_s: float | None, batch_s: float | None, period_s: float | None
) -> float | None:
    """max(0, backlog − what a job that keeps up may have)."""
    backlog, rate = offsets.backlog, offsets.arrival_rate
    if backlog is None or rate is None or trigger_s is None or batch_s is None or period_s is None:
        return None
    return max(0.0, backlog - healthy_backlog(rate, trigger_s, batch_s, period_s))


def _throughput(marks: tuple[BatchMark, ...], after: int | None) -> float | None:
    """Of the batches that count as finished at the present number: what lies before them overlaps its change."""
    return None if after is None else processed_rate(tuple([mark for mark in marks if mark.batch_id >= after]))


def _batches(finished: Finished, after: int | None) -> int:
    return 0 if finished.batch_id is None or after is None else max(0, finished.batch_id - after)


def _partitions(query: QueryReading, offsets: OffsetFigures, invalid: set[str]) -> int | None:
    """From the offsets where there are some, else from the plan."""
    planned = [known(source.partitions, "source.partitions", invalid) for source in query.sources]
    return total(planned) if offsets.partitions is None else offsets.partitions
