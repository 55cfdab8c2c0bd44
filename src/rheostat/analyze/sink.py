"""When a sink is sick: batches are held up after their tasks, where executors cannot help.

A batch is planned, the tasks of its stages run, the sink completes it, its offsets are committed. What the driver does
for the sink (the writer of ``foreachBatch``, the commit of files or of a transaction) is time of the batch in which no
task of it runs. So is the *sink's part* of

* a finished batch: its time − planning − the time in which stages of it ran. It has the commit of the offsets in it.
* the running batch, so far: how long no executor has had a task; less than that is not possible, since an executor that
  was idle at two looks and finished a task in between is idle only since the second. That tells of a batch that runs
  for minutes, and of which no event has come.

The sink is **sick** while its part is more than half of the last finished batch or of the running one, and the query is
*late*: batches run back to back (batch time ≥ trigger), and there is more backlog than a healthy job has, or a batch
takes τ ÷ 2 or longer. More than half is the root of the overload in the sense of :mod:`rheostat.analyze.overload`: the
part that holds up those before it for most of the time, and after which nothing else does.

A sink that the tasks themselves write to makes them longer. From outside that cannot be told from records that cost
more, against which executors do help: there a scale-up shows whether it brings what it promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rheostat.analyze.query import QueryFigures
from rheostat.analyze.state import Counters
from rheostat.model import Batch, QueryReading

__all__ = ["MOST", "read_sink", "sink_part", "tasks_ended"]

MOST = 0.5
"""Share of the batch from which on the sink's part is its largest."""

_LATE = 0.5


def read_sink(queries: Iterable[tuple[QueryReading, QueryFigures]], counters: Counters) -> str | None:
    """Why the sink is sick, in words; of several queries, the first that is held up. ``counters``: of this reading."""
    for reading, figures in queries:
        if _late(figures):
            why = _finished(reading.batch) or _running(reading, counters)
            if why is not None:
                return why
    return None


def sink_part(batch: Batch) -> float | None:
    """Seconds of a finished batch after its tasks; None where it is not known when they ran.

    >>> sink_part(Batch(0.0, 1, 20.0, planning_s=0.5, add_batch_s=19.0, commit_s=0.5, work_s=4.5))
    15.0
    """
    if batch.planning_s is None or batch.work_s is None:
        return None
    return max(0.0, batch.duration_s - batch.planning_s - batch.work_s)


def tasks_ended(idle_since: Sequence[float | None]) -> float | None:
    """Since when no executor has had a task; None: one has, or there is none, or nobody knows.

    >>> tasks_ended([10.0, 25.0]), tasks_ended([10.0, None]), tasks_ended([])
    (25.0, None, None)
    """
    known = [since for since in idle_since if since is not None]
    return max(known) if known and len(known) == len(idle_since) else None


def _late(figures: QueryFigures) -> bool:
    batch_s, trigger_s, period_s, excess = figures.batch_s, figures.trigger_s, figures.period_s, figures.backlog_excess
    if batch_s is None or trigger_s is None or period_s is None:
        return False
    return batch_s >= trigger_s and ((excess or 0.0) > 0 or batch_s >= _LATE * period_s)


def _finished(batch: Batch | None) -> str | None:
    part_s = None if batch is None else sink_part(batch)
    if batch is None or part_s is None or part_s <= MOST * batch.duration_s:
        return None
    committed = "" if batch.commit_s is None else f", {batch.commit_s:.1f} s of them to commit"
    return f"the last batch took {batch.duration_s:.1f} s, {part_s:.1f} s of them after its tasks{committed}"


def _running(query: QueryReading, counters: Counters) -> str | None:
    running, ended = query.running, tasks_ended(counters.idle_since)
    if running is None or not running.active or running.since is None or ended is None:
        return None
    age_s, idle_s = running.at - running.since, running.at - max(ended, running.since)
    planning_s = 0.0 if query.batch is None else query.batch.planning_s or 0.0
    if ended <= running.since + planning_s or idle_s <= MOST * age_s:
        return None
    return f"the batch has been running for {age_s:.1f} s, for {idle_s:.1f} s without a task"
