"""A simulated run that leaves a journal behind, as a live one does: to explain, to replay, and to learn from."""

from __future__ import annotations

from pathlib import Path

from rheostat.archive import MemoryArchive
from rheostat.errors import Fault, InputError
from rheostat.journal import DecisionRecord, Header, JournalWriter, OutcomeRecord, States
from rheostat.judge.recorder import Recorder
from rheostat.loop import archive_in
from rheostat.ports import Archive
from rheostat.report.parts import require_folder

__all__ = ["JournaledRecorder", "require_new"]


class JournaledRecorder(Recorder):
    """Remembers what every recorder does, and writes the journal; second 0 of the run is the beginning of 1970.

    Attributes:
        folder: of the journal.
        archive: of the samples that are too many for a policy's state, beside it; in memory for want of pyarrow.

    Raises:
        InputError: the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.archive: Archive = archive_in(folder) or MemoryArchive()
        self._journal = JournalWriter(folder, forced=False)

    def start(self, header: Header, note: str | None = None) -> None:
        """Begin a session of the journal."""
        self._journal.start(header, note)

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:
        """Write it, and keep what a reader will ask for."""
        self._journal.record(record, states)
        super().record(record, states)

    def close(self) -> None:
        """Give the journal free."""
        self._journal.close()


def require_new(folder: Path | None) -> None:
    """Say at the start that a journal cannot be written: each run has one of its own. The folder is made.

    Raises:
        InputError: there is something in it, or nothing can be written there.
    """
    if folder is None:
        return
    require_folder("journal", folder)
    if any(folder.iterdir()):
        raise InputError([Fault("journal", str(folder), "a folder, new or empty", "there is something in it already")])
