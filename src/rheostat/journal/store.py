"""Files of a journal: append, rotate, lock and read; and the snapshot of the controller's state beside it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TextIO

from rheostat.errors import Fault, InputError, JournalError
from rheostat.files import lock_file, read_bytes, reason_of, refuse_kinds, replace_text, sync_folder
from rheostat.journal.codec import Decoder, Encoder, session_line
from rheostat.journal.records import DecisionRecord, Header, OutcomeRecord, Record, SessionRecord

States = Callable[[], Mapping[str, Any]]
"""Returns the states of analysis, plan and loop *before* the record being written; called only to start a session."""

PATTERN = "journal-*.jsonl"
STATE_SCHEMA = "rheostat.state/1"
_TAIL_BYTES = 1 << 20
_MAX_BYTES = 1 << 30
"""A file holds one day: at the shortest sample period and 2 KiB a record it stays below this."""

_DECISION = re.compile(rb'^{"type":"decision",[^\n]*?"decision":{"id":(\d+)', re.MULTILINE)
_log = logging.getLogger("rheostat.journal")


class Journal(Protocol):
    """Where a loop records what it does. A call returns when the record is safe, or raises JournalError."""

    @property
    def last_id(self) -> int:
        """The highest decision id in the journal when it was opened; 0: none."""
        ...

    def start(self, header: Header, note: str | None = None) -> None:
        """Begin a session (a run, or other settings); it is written together with the next record."""
        ...

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None: ...

    def close(self) -> None:
        """May be called more than once."""
        ...


class MemoryJournal:
    """A journal in memory, for tests, simulations, and jobs without a journal on disk.

    Attributes:
        records: the last ``keep`` records; all if that is None.
        broken: while it is set, every write fails with this message.
    """

    def __init__(self, keep: int | None = None) -> None:
        self.records: deque[Record] = deque(maxlen=keep)
        self.broken: str | None = None
        self.last_id = 0
        self._session: tuple[Header, str | None] | None = None

    def start(self, header: Header, note: str | None = None) -> None:
        self._session = (header, note)

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:
        if self.broken is not None:
            raise JournalError(self.broken)
        if self._session is not None:
            header, note = self._session
            self.records.append(SessionRecord(at=record.at, header=header, states=states(), note=note))
            self._session = None
        self.records.append(record)

    def close(self) -> None:
        pass


class JournalWriter:
    """A journal in a folder: one file a day (UTC, by the time of the records), each readable without the others.

    The bytes of a failed write are cut off again, at the latest before the next write. A last line that a crash cut
    short is removed too, and the next session record says so. One process at a time owns the folder. Records are
    on disk when :meth:`record` returns unless ``forced`` is False, as in simulated runs.

    Raises:
        InputError: the folder cannot be created or written, or another process owns it.
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
        self._end = 0
        _check_writable(self.folder)
        self._lock: TextIO | None = _lock(self.folder, "journal", ".lock")
        self.last_id = last_decision_id(self.folder)

    def start(self, header: Header, note: str | None = None) -> None:
        self._header = header
        self._starting = True
        if note:
            self._notes.append(note)

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:
        try:
            handle = self._open(_file_of(self.folder, record.at, self._file))
            session = b""
            if self._starting:
                self._encoder = Encoder()
                note = "; ".join(self._notes) or None
                session = session_line(SessionRecord(at=record.at, header=self._header, states=states(), note=note))
            self._append(handle, session + self._encoder.record(record))
        except (OSError, TypeError, ValueError, OverflowError) as error:
            self._encoder = Encoder()
            message = f"the journal in {self.folder} cannot be written: {error}"
            raise JournalError(message) from error
        self._starting = False
        self._notes.clear()

    def close(self) -> None:
        self._close_file()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _open(self, file: Path) -> int:
        """The handle of ``file``, cut off after its last complete record."""
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
        sync_folder(self.folder)
        return handle

    def _append(self, handle: int, data: bytes) -> None:
        try:
            _write_all(handle, data)
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


def _write_all(handle: int, data: bytes) -> None:
    written = os.write(handle, data)
    if written != len(data):
        message = f"only {written} of {len(data)} bytes were written: is the disk full?"
        raise OSError(message)


def _check_writable(folder: Path, what: str = "journal") -> None:
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
        message = f"the {what} cannot be written: {error.strerror}"
        raise InputError([Fault(what, str(folder), "a folder that can be written", message)]) from error


def _lock(folder: Path, what: str, name: str) -> TextIO:
    path = folder / name
    try:
        lock = lock_file(path)
    except BlockingIOError as error:
        owner = path.read_text(encoding="utf-8", errors="replace")[:200].strip() or "another process"
        message = f"{owner} writes this {what}; end it, or give this application a folder of its own"
        raise InputError([Fault(what, str(folder), "a folder without another writer", message)]) from error
    except OSError as error:
        message = f"its {name} cannot be locked against another writer: {error.strerror}"
        raise InputError([Fault(what, str(folder), "a folder on a file system that locks files", message)]) from error
    lock.truncate(0)
    lock.write(f"process {os.getpid()} on {socket.gethostname()}")
    lock.flush()
    return lock


def _file_of(folder: Path, at: float, current: Path | None) -> Path:
    """The file of the day; never an earlier one than the current one, even if the clock is set back."""
    file = folder / f"journal-{datetime.fromtimestamp(at, UTC):%Y-%m-%d}.jsonl"
    return file if current is None else max(file, current)


def _end_of_last_line(handle: int) -> int:
    end = os.fstat(handle).st_size
    while end > 0:
        start = max(0, end - 65536)
        place = os.pread(handle, end - start, start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        end = start
    return 0


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
    """The records of a journal file, or of a folder of them, in order.

    A last line that was cut short is skipped and passed to ``report``: the writer was killed while writing it, so
    nobody has acted on it.

    Raises:
        InputError: there is no journal at ``path``, or a line is damaged: its file, its number and what is wrong. The
            lines after it cannot be read either, as each builds on those before it.
    """
    for file in journal_files(path):
        decoder = Decoder()
        lines = re.findall(rb"[^\n]*\n|[^\n]+", _read_file(file))  # splitlines() would split at carriage returns too
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                report(f"{file}:{number}: the last line was cut short; it is left out")
                break
            record = decoder.line(line, f"{file}:{number}")
            if record is not None:
                yield record


def last_decision_id(folder: Path) -> int:
    """The id of the last decision in a journal; 0 if there is none. Reads only the ends of its files."""
    for file in sorted(folder.glob(PATTERN), reverse=True):
        with file.open("rb") as lines:
            lines.seek(max(0, file.stat().st_size - _TAIL_BYTES))
            ids = _DECISION.findall(lines.read())
        if ids:
            return int(ids[-1])
    return 0


def _read_file(file: Path) -> bytes:
    try:
        refuse_kinds(file)
        return read_bytes(file, _MAX_BYTES)
    except (OSError, ValueError) as error:
        raise _fault(file, f"it cannot be read: {reason_of(error)}") from error


def _fault(path: Path, message: str) -> InputError:
    return InputError([Fault("journal", str(path), f"a journal file, or a folder that holds {PATTERN}", message)])


class StateStore:
    """The snapshot of what a controller must still know after a crash: one JSON file, replaced atomically.

    ``kind`` is what the state belongs to (policy and options); a state of another kind is not loaded.
    """

    def __init__(self, path: str | Path, kind: str) -> None:
        self.path = Path(path)
        self.kind = kind
        self._lock: TextIO | None = None

    def lock(self) -> None:
        """Let no other process write this state until :meth:`close`.

        Raises:
            InputError: another one does, or the folder cannot be written.
        """
        _check_writable(self.path.parent, "state")
        self._lock = _lock(self.path.parent, "state", ".state.lock")

    def close(self) -> None:
        """May be called more than once."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def save(self, state: Mapping[str, Any]) -> None:
        """Replace the snapshot on disk. Raises JournalError if that fails; the old one is still there then."""
        try:
            document = {"schema": STATE_SCHEMA, "kind": self.kind, "state": state}
            replace_text(self.path, json.dumps(document, allow_nan=False))
        except (OSError, TypeError, ValueError) as error:
            message = f"the state {self.path} cannot be written: {error}"
            raise JournalError(message) from error

    def load(self) -> tuple[Mapping[str, Any] | None, str | None]:
        """The snapshot, and why an existing file was not loaded."""
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
            kind = "" if isinstance(error, (OSError, UnicodeDecodeError)) else f"{type(error).__name__}: "
            return None, f"{self.path} cannot be read ({kind}{reason_of(error)})"
        if not isinstance(state, dict):
            return None, f"{self.path} holds no state"
        return state, None
