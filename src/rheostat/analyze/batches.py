"""What the batches of one query say: how long they take, how fast they commit, whether the batch cap bites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rheostat.analyze.checks import known, total
from rheostat.analyze.rates import OffsetFigures
from rheostat.analyze.state import AnalysisSettings, BatchMark, QueryHistory
from rheostat.model import Batch, RunningBatch, SourceInfo

__all__ = [
    "Finished",
    "Running",
    "batch_time",
    "capped",
    "count_after",
    "marked",
    "processed_rate",
    "read_finished",
    "read_running",
]

CAPPED_SHARE = 0.99
"""A batch of this share of the cap is as large as the cap allows: caps are shared out over partitions and rounded."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The last finished batch; None where unknown or impossible."""

    at: float | None = None
    batch_id: int | None = None
    duration_s: float | None = None
    records: int | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """The running batch. ``active`` None: unknown. ``age_s``: how long it has been seen, at the reading."""

    at: float | None = None
    active: bool | None = None
    batch_id: int | None = None
    age_s: float | None = None


def read_finished(batch: Batch | None, invalid: set[str]) -> Finished:
    """The last finished batch without its impossible figures."""
    if batch is None:
        return Finished()
    return Finished(
        at=known(batch.at, "batch.at", invalid),
        batch_id=known(batch.batch_id, "batch.batch_id", invalid),
        duration_s=known(batch.duration_s, "batch.duration_s", invalid),
        records=known(batch.records, "batch.records", invalid),
    )


def read_running(running: RunningBatch | None, invalid: set[str]) -> Running:
    """The running batch without its impossible figures."""
    if running is None:
        return Running()
    at = known(running.at, "running.at", invalid)
    since = known(running.since, "running.since", invalid)
    batch_id = known(running.batch_id, "running.batch_id", invalid)
    age_s = max(0.0, at - since) if running.active and at is not None and since is not None else None
    return Running(at=at, active=running.active, batch_id=batch_id, age_s=age_s)


def batch_time(finished: Finished, running: Running) -> float | None:
    """Duration of the last batch, or of the running one if that is already longer."""
    durations = [value for value in (finished.duration_s, running.age_s) if value is not None]
    return max(durations) if durations else None


def marked(
    marks: tuple[BatchMark, ...], finished: Finished, done: int, settings: AnalysisSettings
) -> tuple[BatchMark, ...]:
    """The batch ends with a newly seen one; those that the rate window no longer reaches are dropped."""
    if finished.at is None or finished.batch_id is None:
        return marks
    mark = BatchMark(at=finished.at, batch_id=finished.batch_id, done=done)
    if not marks or mark.batch_id < marks[-1].batch_id:
        return (mark,)
    if mark.batch_id == marks[-1].batch_id:
        return marks
    if mark.at <= marks[-1].at:
        return (mark,)
    marks = (*marks, mark)
    first = max((i for i, each in enumerate(marks) if each.at <= mark.at - settings.rate_window_s), default=0)
    marks = marks[first:]
    half = len(marks) // 2
    return marks if len(marks) <= settings.max_samples else marks[:half:2] + marks[half:]


def processed_rate(marks: tuple[BatchMark, ...]) -> float | None:
    """Records committed per second from the first batch end kept to the last; None before two."""
    if len(marks) < 2:
        return None
    return (marks[-1].done - marks[0].done) / (marks[-1].at - marks[0].at)


def capped(sources: Sequence[SourceInfo], finished: Finished, offsets: OffsetFigures, invalid: set[str]) -> bool | None:
    """Whether the last batch was as large as the caps of the sources allow, and more was waiting.

    Where some sources have a cap and others have none it cannot be told. ``records`` counts retried tasks twice,
    so a batch with failures may look capped.
    """
    caps = [known(source.batch_cap, "source.batch_cap", invalid) for source in sources]
    if not sources or all(source.batch_cap is None for source in sources):
        return False
    cap = total(caps)
    left = offsets.backlog if offsets.waiting is None else offsets.waiting
    if cap is None or finished.records is None or left is None:
        return None
    return finished.records >= CAPPED_SHARE * cap and left > 0


def count_after(history: QueryHistory | None, finished: Finished, running: Running, *, anew: bool) -> int | None:
    """The id after which batches count as finished at the present number of executors, in this run.

    When the count begins ``anew``, the batch in flight does not count: it was partly worked on by the number
    before. If nothing is known of it, one is assumed to be. None: the first finished batch to be seen is that one.
    """
    if history is not None and not anew and history.count_after is not None:
        return history.count_after
    if anew and running.active and running.batch_id is not None:
        return running.batch_id
    if finished.batch_id is None:
        return None
    return finished.batch_id + (1 if anew and running.active is not False else 0)
