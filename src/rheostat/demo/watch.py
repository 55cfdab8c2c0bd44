"""What the demo knows of the run, it knows from the journal."""

from __future__ import annotations

from pathlib import Path

from rheostat.errors import InputError
from rheostat.journal import DecisionRecord, Record, read_journal

__all__ = ["JournalWatch"]


class JournalWatch:
    """A journal that another process writes, read again as it grows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._size = -1
        self._records: tuple[Record, ...] = ()

    def records(self) -> tuple[Record, ...]:
        """All that is written so far."""
        size = sum(file.stat().st_size for file in self._folder.glob("*.jsonl")) if self._folder.is_dir() else 0
        if size and size != self._size:
            try:
                self._records = tuple(read_journal(self._folder))
                self._size = size
            except InputError:
                return self._records
        return self._records

    def cycles(self) -> list[DecisionRecord]:
        """The decisions so far."""
        return [record for record in self.records() if isinstance(record, DecisionRecord)]

    def ran(self, now: float) -> float:
        """Seconds since the first decision; 0 before it."""
        first = next(iter(self.cycles()), None)
        return 0.0 if first is None else now - first.at

    def attached(self) -> bool:
        """Whether the loop has made a decision."""
        return bool(self.cycles())

    def querying(self) -> bool:
        """Whether a query was seen."""
        return any(cycle.observation is not None and cycle.observation.queries for cycle in self.cycles()[-3:])

    def committed(self) -> bool:
        """Whether a batch with records was seen to end."""
        seen = [query for cycle in self.cycles() if cycle.observation for query in cycle.observation.queries]
        return any(query.batch is not None and query.batch.records for query in seen)

    def drained_since(self, at: float) -> bool:
        """Whether an observation after ``at`` found nothing uncommitted."""
        late = [cycle for cycle in self.cycles() if cycle.at > at and cycle.assessment is not None]
        return any(cycle.assessment is not None and cycle.assessment.backlog == 0 for cycle in late)
