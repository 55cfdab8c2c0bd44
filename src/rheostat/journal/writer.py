"""Writing a journal: append-only, on disk before anyone acts on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from rheostat.errors import Fault, InputError, JournalError
from rheostat.journal.encoder import Encoder, session_line
from rheostat.journal.reader import last_decision_id
from rheostat.journal.records import DecisionRecord, Header, OutcomeRecord, SessionRecord

__all__ = ["Journal", "JournalWriter", "States"]

States = Callable[[], Mapping[str, Any]]
"""Gives the states of analysis, plan and loop *before* the record being written; asked only at a session's start."""


class Journal(Protocol):
    """Where a loop records what it does. Each call returns when the record is safe, or raises JournalError."""

    @property
    def last_id(self) -> int:
        """The greatest number of a decision in it when it was opened; 0: none."""
        ...

    def start(self, header: Header, note: str | None = None) -> None:
        """Begin a session: a run, or other settings. Written together with the next record."""
        ...

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:
        """Keep a record."""
        ...

    def close(self) -> None:
        """Give the journal free. May be called more than once."""
        ...


class JournalWriter:
    """A journal in a folder: one file a day (UTC, by the records' own times), each readable without the others.

    A write that fails leaves no trace: what got to the disk of it is cut off again, at the latest before the next
    write. A last line that a crash cut short is cut off too, and the next session record says so.

    One process at a time owns the folder.

    Args:
        folder: where it is, or will be.
        forced: whether a record is forced to disk before :meth:`record` returns. A simulated run, which acts on nothing
            that is real, does without: some thousand records a second.

    Attributes:
        folder: where it is.
        last_id: the greatest number of a decision that was in it when it was opened; 0: none.

    Raises:
        InputError: the folder cannot be made or written, or another process owns it.
    """

    def __init__(self, folder: str | Path, *, forced: bool = True) -> None:
        self.folder = Path(folder)
        self._forced = forced
        self._encoder = Encoder()
        self._header = Header(version="", settings={})
        self._notes: list[str] = []
        self._starting = True
        self._file: Path | None = None
        self._handle: int | None = None
        self._lock: int | None = None
        self._end = 0
        _check_writable(self.folder)
        self._lock = _own(self.folder)
        self.last_id = last_decision_id(self.folder)

    def start(self, header: Header, note: str | None = None) -> None:
        """Begin a session; its record is written together with the next one."""
        self._header = header
        self._starting = True
        if note:
            self._notes.append(note)

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:
        """Append a record, and force it to disk unless the journal is made otherwise.

        Raises:
            JournalError: it is not written.
        """
        try:
            handle = self._open(_file_of(self.folder, record.at, self._file))
            session = self._session(record.at, states) if self._starting else b""
            self._append(handle, session + self._encoder.record(record))
        except (OSError, TypeError, ValueError, OverflowError) as error:
            self._encoder = Encoder()
            message = f"the journal in {self.folder} cannot be written: {error}"
            raise JournalError(message) from error
        self._starting = False
        self._notes.clear()

    def close(self) -> None:
        """Close the journal for good and give it free. May be called more than once."""
        self._close_file()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _session(self, at: float, states: States) -> bytes:
        self._encoder = Encoder()
        return session_line(SessionRecord(at, self._header, states(), "; ".join(self._notes) or None))

    def _open(self, file: Path) -> int:
        """The handle of ``file``, with nothing in it behind the last whole record."""
        if self._lock is None:
            raise ValueError("it is closed")
        if self._handle is not None and file == self._file and os.fstat(self._handle).st_nlink:
            if os.fstat(self._handle).st_size > self._end:
                os.ftruncate(self._handle, self._end)
            return self._handle
        self._close_file()
        self.folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._handle, self._file, self._starting = handle, file, True
        self._end = _end_of_last_line(handle)
        torn = os.fstat(handle).st_size - self._end
        if torn:
            os.ftruncate(handle, self._end)
            self._notes.append(f"repaired: the last {torn} bytes of {file.name} were a line cut short by a crash")
        _sync_folder(self.folder)
        return handle

    def _append(self, handle: int, data: bytes) -> None:
        try:
            _write_whole(handle, data)
            if self._forced:
                os.fsync(handle)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, self._end)
            raise
        self._end += len(data)

    def _close_file(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _write_whole(handle: int, data: bytes) -> None:
    written = os.write(handle, data)
    if written != len(data):
        message = f"only {written} of {len(data)} bytes were written: is the disk full?"
        raise OSError(message)


def _check_writable(folder: Path) -> None:
    probe = folder / f".probe-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with probe.open("wb") as file:
            file.write(b"\0" * 4096)
            file.flush()
            os.fsync(file.fileno())
        probe.unlink()
    except OSError as error:
        with contextlib.suppress(OSError):
            probe.unlink()
        message = f"the journal cannot be written: {error.strerror}"
        raise InputError([Fault("journal", str(folder), "a folder that can be written", message)]) from error


def _own(folder: Path) -> int:
    """Lock the folder for this process; the lock ends with it, however it ends."""
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.pread(handle, 200, 0).decode(errors="replace").strip() or "another process"
        os.close(handle)
        message = f"{owner} writes this journal; end it, or give this application a folder of its own"
        raise InputError([Fault("journal", str(folder), "a folder without another writer", message)]) from error
    os.ftruncate(handle, 0)
    os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
    return handle


def _file_of(folder: Path, at: float, current: Path | None) -> Path:
    """The file of the day; never one before the current one, should the clock be set back."""
    file = folder / f"journal-{datetime.fromtimestamp(at, UTC):%Y-%m-%d}.jsonl"
    return file if current is None else max(file, current)


def _end_of_last_line(handle: int) -> int:
    """Bytes up to and including the last line end."""
    end = os.fstat(handle).st_size
    while end > 0:
        start = max(0, end - 65536)
        found = os.pread(handle, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
