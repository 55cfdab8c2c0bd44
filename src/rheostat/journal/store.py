"""Writing a journal: append-only, on disk before anyone acts on it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from rheostat.errors import Fault, InputError, JournalError
from rheostat.files import read_bytes, reason_of, refuse_kinds
from rheostat.journal.codec import Decoder, Encoder, session_line
from rheostat.journal.records import DecisionRecord, Header, OutcomeRecord, Record, SessionRecord

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


# Reading journals: one file, or a folder of them in the order of their days.


PATTERN = "journal-*.jsonl"
_TAIL = 1 << 20
_MOST_BYTES = 1 << 30
"""A file holds a day: at the shortest sample period and 2 KiB a record it stays under this."""

_DECISION = re.compile(rb'^{"type":"decision",[^\n]*?"decision":{"id":(\d+)', re.MULTILINE)
_log = logging.getLogger("rheostat.journal")


def journal_files(path: str | Path) -> list[Path]:
    """The files of a journal, oldest first.

    Raises:
        InputError: there is no journal at ``path``.
    """
    path = Path(path)
    files = sorted(path.glob(PATTERN)) if path.is_dir() else [path] if path.exists() else []
    if not files:
        raise _fault(path, "there is no journal here")
    return files


def read_journal(path: str | Path, report: Callable[[str], None] = _log.warning) -> Iterator[Record]:
    """The records of a journal, in order.

    A last line that was cut short (the writer was killed while writing it, so it was never acted on) is left out,
    and told to ``report``.

    Raises:
        InputError: there is no journal at ``path``, or a line is damaged: its file, its number and what is wrong. What
            follows a damaged line cannot be read either, as each line builds on those before it.
    """
    for file in journal_files(path):
        yield from _read_file(file, report)


def last_decision_id(folder: Path) -> int:
    """The number of the last decision in a journal; 0 where there is none. Reads the ends of its files only."""
    for file in sorted(folder.glob(PATTERN), reverse=True):
        with file.open("rb") as lines:
            lines.seek(max(0, file.stat().st_size - _TAIL))
            found = _DECISION.findall(lines.read())
        if found:
            return int(found[-1])
    return 0


def _content(file: Path) -> bytes:
    try:
        refuse_kinds(file)
        return read_bytes(file, _MOST_BYTES)
    except (OSError, ValueError) as error:
        raise _fault(file, f"it cannot be read: {reason_of(error)}") from error


def _fault(path: Path, message: str) -> InputError:
    return InputError([Fault("journal", str(path), f"a journal file, or a folder that holds {PATTERN}", message)])


def _lines(data: bytes) -> list[bytes]:
    """Lines with their ends, which are line feeds and nothing else."""
    return re.findall(rb"[^\n]*\n|[^\n]+", data)


def _read_file(file: Path, report: Callable[[str], None]) -> Iterator[Record]:
    decoder = Decoder()
    for number, line in enumerate(_lines(_content(file)), start=1):
        if not line.endswith(b"\n"):
            report(f"{file}:{number}: the last line was cut short; it is left out")
            return
        record = decoder.line(line, f"{file}:{number}")
        if record is not None:
            yield record


# A journal that is kept in memory: for tests, simulations, and jobs that want none on disk.


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


# The state snapshot beside a journal: what a controller must still know after a crash.


STATE_SCHEMA = "rheostat.state/1"


class StateStore:
    """One JSON file, replaced as a whole: a reader sees the old state or the new one, never half of one.

    Attributes:
        path: the file.
        kind: what the state belongs to (policy and its options); a state of another kind is not taken over.
    """

    def __init__(self, path: str | Path, kind: str) -> None:
        self.path = Path(path)
        self.kind = kind

    def save(self, state: Mapping[str, Any]) -> None:
        """Replace the snapshot; it is on disk when this returns.

        Raises:
            JournalError: it could not be written; the old one is still there.
        """
        fresh = self.path.with_name(f".{self.path.name}-{os.getpid()}")
        try:
            text = json.dumps({"schema": STATE_SCHEMA, "kind": self.kind, "state": state}, allow_nan=False)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with fresh.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.path)
        except (OSError, TypeError, ValueError) as error:
            with contextlib.suppress(OSError):
                fresh.unlink()
            message = f"the state {self.path} cannot be written: {error}"
            raise JournalError(message) from error

    def load(self) -> tuple[Mapping[str, Any] | None, str | None]:
        """The snapshot, and why there is none although there is a file (None: there is no file, or all is well)."""
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            if data["schema"] != STATE_SCHEMA:
                return None, f"{self.path} has the schema {data['schema']!r}, not {STATE_SCHEMA!r}"
            if data["kind"] != self.kind:
                return None, f"{self.path} belongs to {data['kind']}, not to {self.kind}"
            state = data["state"]
        except FileNotFoundError:
            return None, None
        except (OSError, ValueError, KeyError, TypeError) as error:
            return None, f"{self.path} cannot be read ({type(error).__name__}: {error})"
        if not isinstance(state, dict):
            return None, f"{self.path} holds no state"
        return state, None
