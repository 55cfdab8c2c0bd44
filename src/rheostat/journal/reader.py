"""Reading journals: one file, or a folder of them in the order of their days."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from rheostat.errors import Fault, InputError
from rheostat.files import read_bytes, reason_of, refuse_kinds
from rheostat.journal.decoder import Decoder
from rheostat.journal.records import Record

__all__ = ["PATTERN", "journal_files", "last_decision_id", "read_journal"]

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
