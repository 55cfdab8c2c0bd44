"""Bounded reads of files that users name, atomic replacement, and file locks."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TextIO

_KINDS = (
    (stat.S_ISDIR, errno.EISDIR, "it is a folder"),
    (stat.S_ISFIFO, errno.ESPIPE, "it is a pipe"),
    (stat.S_ISSOCK, errno.ENXIO, "it is a socket"),
    (stat.S_ISCHR, errno.ENXIO, "it is a device"),
    (stat.S_ISBLK, errno.ENXIO, "it is a device"),
)

_STARTS = (
    (b"\x1f\x8b", "it is compressed (gzip): unpack it first"),
    (b"\x28\xb5\x2f\xfd", "it is compressed (zstd): unpack it first"),
    (b"BZh91AY", "it is compressed (bzip2): unpack it first"),
    (b"\xfd7zXZ\x00", "it is compressed (xz): unpack it first"),
    (b"\x04\x22\x4d\x18", "it is compressed (lz4): unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "it is an archive (7z): unpack it first"),
    (b"PK\x03\x04", "it is an archive (zip): unpack it first"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "it is an Office document, as Excel writes (xls): save it as CSV in UTF-8"),
    (b"PAR1", "it is Parquet"),
    (b"ARROW1", "it is Arrow"),
    (b"Obj\x01", "it is Avro"),
    (b"\x89HDF", "it is HDF5"),
    (b"\x93NUMPY", "it is an array of NumPy"),
    (b"SQLite format 3\x00", "it is an SQLite database"),
    (b"%PDF-", "it is a PDF"),
    (b"\x89PNG", "it is a picture (PNG)"),
    (b"\x7fELF", "it is a program"),
    (b"\xff\xfe\x00\x00", "it is UTF-32: save it as UTF-8"),
    (b"\x00\x00\xfe\xff", "it is UTF-32: save it as UTF-8"),
    (b"\xff\xfe", "it is UTF-16: save it as UTF-8"),
    (b"\xfe\xff", "it is UTF-16: save it as UTF-8"),
)
"""First bytes of files that are not plain text; a longer signature precedes its own prefix."""

_SHEET = "it is a workbook or another Office document (in a zip): save it as CSV in UTF-8"
_SHEETS = (b"[Content_Types].xml", b"application/vnd.oasis.opendocument")
_PAGE = "it is a web page"
_PAGES = (b"<!doctype html", b"<html")
_LOOK = 4096


class NotTextError(ValueError):
    """A file is not plain text in UTF-8; the message says what it seems to be and what to do."""


def kind_of(start: bytes) -> str | None:
    """Describe a binary file by its first bytes, and say what to do with it; None: it may be text.

    >>> kind_of(b"PAR1....")
    'it is Parquet'
    """
    if start.startswith(b"PK\x03\x04") and any(mark in start for mark in _SHEETS):
        return _SHEET
    if start.removeprefix(b"\xef\xbb\xbf").lstrip()[:20].lower().startswith(_PAGES):
        return _PAGE
    return next((words for beginning, words in _STARTS if start.startswith(beginning)), None)


def refuse_kinds(path: Path) -> None:
    """Refuse a special file, and one whose first bytes show that it is not text.

    Raises:
        OSError: see :func:`refuse_special`; or it cannot be read.
        NotTextError: it is compressed, a workbook, Parquet, in UTF-16, …
    """
    refuse_special(path)
    with path.open("rb") as file:
        words = kind_of(file.read(_LOOK))
    if words is not None:
        raise NotTextError(words)


def refuse_nulls(text: str) -> None:
    """Raise NotTextError if there is a null character in the text."""
    if "\0" in text:
        message = "it holds null characters: it is UTF-16, to be saved as UTF-8, or no text"
        raise NotTextError(message)


def reason_of(error: Exception) -> str:
    """The message of an error of reading, decoding or writing, without its number and path."""
    if isinstance(error, UnicodeDecodeError):
        return f"it is no text in UTF-8 (byte 0x{error.object[error.start]:02x} at {error.start}): save it as UTF-8"
    return getattr(error, "strerror", None) or str(error)


def refuse_special(path: Path) -> None:
    """Refuse a special file before it is opened: a pipe would block, a device may never end.

    Raises:
        OSError: it does not exist, or is a folder, a pipe, a socket or a device; ``strerror`` says which.
    """
    mode = path.stat().st_mode
    for is_kind, number, words in _KINDS:
        if is_kind(mode):
            raise OSError(number, words, str(path))


def read_bytes(path: Path, most: int) -> bytes:
    """Read a file of at most ``most`` bytes.

    Raises:
        OSError: it cannot be read, is a special file, or is larger; ``strerror`` says why.
    """
    refuse_special(path)
    with path.open("rb") as file:
        data = file.read(most + 1) if path.stat().st_size <= most else b""
        if len(data) > most or path.stat().st_size > most:
            raise OSError(errno.EFBIG, f"it is larger than {most // 2**20} MiB", str(path))
    return data


def read_text(path: Path, most: int, encoding: str = "utf-8") -> str:
    """Read a text file of at most ``most`` bytes; line ends become line feeds.

    The encoding ``utf-8-sig`` skips a byte-order mark, which spreadsheets write.

    Raises:
        OSError: see :func:`read_bytes`.
        NotTextError: it is not text in UTF-8.
    """
    refuse_kinds(path)
    try:
        text = read_bytes(path, most).decode(encoding)
    except UnicodeDecodeError as error:
        raise NotTextError(reason_of(error)) from error
    refuse_nulls(text)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Create or replace a file atomically: readers see the old content or the new. It is on disk on return.

    The folder is created if needed. A crash may leave a temporary file ``.NAME-PROCESS`` behind.

    Raises:
        OSError: it cannot be written; the old file is unchanged.
    """
    fresh = path.with_name(f".{path.name}-{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with fresh.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
    sync_folder(path.parent)


def replace_text(path: Path, text: str) -> None:
    """Create or replace a text file in UTF-8; see :func:`replace_file`."""
    replace_file(path, lambda file: file.write(text.encode()))


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock_file(path: Path, *, wait: bool = False) -> TextIO:
    """Open a file, creating it if needed, and lock it until it is closed or this process ends.

    Raises:
        BlockingIOError: another holder has the lock, and ``wait`` is False.
        OSError: the file cannot be opened.
    """
    file = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        file.close()
        raise
    return file
