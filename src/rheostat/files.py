"""Files that somebody named, read whole: neither for ever, as a device would be, nor without a bound.

And files that are replaced as a whole: whoever reads one sees the old content or the new, never half of one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

__all__ = ["read_bytes", "read_text", "refuse_special", "replace_file"]

_KINDS = (
    (stat.S_ISDIR, errno.EISDIR, "it is a folder"),
    (stat.S_ISFIFO, errno.ESPIPE, "it is a pipe"),
    (stat.S_ISSOCK, errno.ENXIO, "it is a socket"),
    (stat.S_ISCHR, errno.ENXIO, "it is a device"),
    (stat.S_ISBLK, errno.ENXIO, "it is a device"),
)


def refuse_special(path: Path) -> None:
    """Refuse what is no ordinary file, before it is opened: a pipe would wait, a device may never end.

    Raises:
        OSError: there is nothing, or it is a folder, a pipe, a socket or a device; ``strerror`` says which.
    """
    mode = path.stat().st_mode
    for is_kind, number, words in _KINDS:
        if is_kind(mode):
            raise OSError(number, words, str(path))


def read_bytes(path: Path, most: int) -> bytes:
    """What stands in a file of at most ``most`` bytes.

    Raises:
        OSError: it cannot be read, is no ordinary file, or is larger; ``strerror`` says why.
    """
    refuse_special(path)
    with path.open("rb") as file:
        data = file.read(most + 1) if path.stat().st_size <= most else b""
        if len(data) > most or path.stat().st_size > most:
            raise OSError(errno.EFBIG, f"it is larger than {most // 2**20} MiB", str(path))
    return data


def read_text(path: Path, most: int, encoding: str = "utf-8") -> str:
    """Likewise, as text with line feeds.

    Raises:
        OSError: as :func:`read_bytes`.
        UnicodeDecodeError: it is not text.
    """
    return read_bytes(path, most).decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Put a file in the place of another, or where there is none; it is on disk when this returns.

    What a crash leaves of an unfinished one is named ``.NAME-PROCESS``.

    Args:
        path: its folder is made.
        write: writes the whole content.

    Raises:
        OSError: it cannot be written; what was there before still is.
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
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
