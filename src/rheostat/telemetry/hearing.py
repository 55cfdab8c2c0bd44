"""A journal that is listened to: what was recorded last, and how often what was decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rheostat.journal import DecisionRecord, Header, Journal, OutcomeRecord, States
from rheostat.model import Action, Code

__all__ = ["Heard", "Hearing", "OverheardJournal"]


@dataclass(frozen=True, slots=True)
class Heard:
    """What is known from the records so far.

    Attributes:
        last: the last cycle; None before the first, and where the last record could not be written.
        decisions: how many by action and reason code.
        failed: cycles that came to no decision, also those that could not be recorded.
    """

    last: DecisionRecord | None = None
    decisions: Mapping[tuple[Action, Code], int] = field(default_factory=dict)
    failed: int = 0

    def then(self, record: DecisionRecord) -> Heard:
        """After a record that was written."""
        key = (record.decision.action, record.decision.reason.code)
        counts = {**self.decisions, key: self.decisions.get(key, 0) + 1}
        return Heard(record, counts, self.failed + _failed(record))

    def without(self, record: DecisionRecord | OutcomeRecord) -> Heard:
        """After a record that could not be written."""
        return replace(self, last=None, failed=self.failed + _failed(record))


class Hearing:
    """Where the loop's thread leaves what was heard and other threads find it: one value, replaced as a whole.

    Neither waits for the other.
    """

    def __init__(self) -> None:
        self.heard = Heard()


class OverheardJournal:
    """The journal given, with each record heard."""

    def __init__(self, journal: Journal, hearing: Hearing) -> None:
        self._journal = journal
        self._hearing = hearing
        self.folder = getattr(journal, "folder", None)

    @property
    def last_id(self) -> int:
        """That of the journal."""
        return self._journal.last_id

    def start(self, header: Header, note: str | None = None) -> None:
        """Begin a session in the journal."""
        self._journal.start(header, note)

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:
        """Keep a record in the journal, and only then hear it."""
        try:
            self._journal.record(record, states)
        except BaseException:
            self._hearing.heard = self._hearing.heard.without(record)
            raise
        if isinstance(record, DecisionRecord):
            self._hearing.heard = self._hearing.heard.then(record)

    def close(self) -> None:
        """Give the journal free."""
        self._journal.close()


def _failed(record: DecisionRecord | OutcomeRecord) -> bool:
    return isinstance(record, DecisionRecord) and record.decision.reason.code is Code.CYCLE_FAILED
