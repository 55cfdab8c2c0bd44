"""A journal that is kept in memory: for tests, simulations, and jobs that want none on disk."""

from __future__ import annotations

from collections import deque

from rheostat.errors import JournalError
from rheostat.journal.records import DecisionRecord, Header, OutcomeRecord, Record, SessionRecord
from rheostat.journal.writer import States

__all__ = ["MemoryJournal"]


class MemoryJournal:
    """Keeps its last records.

    Attributes:
        records: what was recorded, at most ``keep`` records if that is given.
        broken: as long as this is set, every write fails with it.
        last_id: it begins empty.
    """

    def __init__(self, keep: int | None = None) -> None:
        self.records: deque[Record] = deque(maxlen=keep)
        self.broken: str | None = None
        self.last_id = 0
        self._session: tuple[Header, str | None] | None = None

    def start(self, header: Header, note: str | None = None) -> None:
        """Begin a session with the next record."""
        self._session = (header, note)

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:
        """Keep a record, unless the journal is broken."""
        if self.broken is not None:
            raise JournalError(self.broken)
        if self._session is not None:
            header, note = self._session
            self.records.append(SessionRecord(record.at, header, states(), note))
            self._session = None
        self.records.append(record)

    def close(self) -> None:
        """Nothing is to be given free."""
