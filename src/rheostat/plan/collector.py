"""The rows that the model is learnt from: bounded in the state, the rest in the archive. S1, Data Collector.

The newest rows are in the state. With 1000 of them there, they go to the archive under their numbers, which only grow.
What was archived is found by the count in the state: a state that is older than the archive (after a crash) puts the
same numbers once more, and rows beyond its count are not read. So none is lost, and none is there twice. Without an
archive, and while it takes nothing, the oldest row goes for each new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rheostat.errors import JournalError
from rheostat.learn.samples import Sample
from rheostat.ports import Archive

__all__ = ["MOST_ROWS", "Collected", "added", "dropped", "gathered"]

MOST_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Collected:
    """What was collected.

    Attributes:
        rows: the newest ones, oldest first; at most :data:`MOST_ROWS`.
        archived: how many are in the archive: the number that the first one in ``rows`` will have there.
        since: rows from before this time do not count; None: all do.
        unchecked: rows since the model was last checked.
        lost: rows that the archive did not take in time.
        topics: what the rates in a row are of; empty: of all topics together.
    """

    rows: tuple[Sample, ...] = ()
    archived: int = 0
    since: float | None = None
    unchecked: int = 0
    lost: int = 0
    topics: tuple[str, ...] = ()


def added(row: Sample, data: Collected, archive: Archive | None) -> Collected:
    """The same with one more row."""
    rows = (*data.rows, row)
    data = replace(data, rows=rows, unchecked=data.unchecked + 1)
    if len(rows) < MOST_ROWS:
        return data
    try:
        if archive is not None:
            archive.put(data.archived, rows)
            return replace(data, rows=(), archived=data.archived + len(rows))
    except JournalError:
        data = replace(data, lost=data.lost + 1)
    return replace(data, rows=rows[1:])


def gathered(data: Collected, archive: Archive | None, most: int) -> Sequence[Sample]:
    """The newest rows that count, at most so many, oldest first: those of the archive and those of the state."""
    rows: Sequence[Sample] = data.rows
    if len(rows) < most and archive is not None and data.archived:
        rows = [*archive.read(data.archived, most - len(rows)), *rows]
    if data.since is not None:
        rows = [row for row in rows if row.at >= data.since]
    return rows[-most:]


def dropped(data: Collected, at: float, topics: tuple[str, ...] | None = None) -> Collected:
    """Nothing counts from before ``at``; what is in the archive stays there as history."""
    topics = data.topics if topics is None else topics
    return Collected((), data.archived, at, lost=data.lost, topics=topics)
