"""The journal: an append-only record of what was seen, decided and done.

One JSON object a line. A ``session`` record starts every file, with the settings and the states that a replay begins
from; ``decision`` records are on disk before anyone acts on them; ``outcome`` records refer to them.
"""

from __future__ import annotations

from rheostat.journal.memory import MemoryJournal
from rheostat.journal.reader import journal_files, read_journal
from rheostat.journal.records import SCHEMA, DecisionRecord, Header, OutcomeRecord, Record, SessionRecord
from rheostat.journal.state import StateStore
from rheostat.journal.writer import Journal, JournalWriter, States

__all__ = [
    "SCHEMA",
    "DecisionRecord",
    "Header",
    "Journal",
    "JournalWriter",
    "MemoryJournal",
    "OutcomeRecord",
    "Record",
    "SessionRecord",
    "StateStore",
    "States",
    "journal_files",
    "read_journal",
]
