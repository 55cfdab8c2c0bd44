"""Where a query stands, read from outside in its checkpoint folder on a local or mounted disk.

``offsets/N`` is written when batch N is planned, ``commits/N`` when it is committed: the greatest of each tell what is
in flight. Before the first commit, Kafka's ``sources/K/0`` tells where the first batch starts.
"""

from __future__ import annotations

import json
from pathlib import Path

from rheostat.errors import UnavailableError
from rheostat.jvm.reading import Position

__all__ = ["offset_log_entry", "position", "query_id"]

_NONE_YET = "-"


def query_id(checkpoint: Path) -> str:
    """The id that the query keeps over restarts.

    Raises:
        UnavailableError: this is no checkpoint, or it cannot be read.
    """
    try:
        return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"no checkpoint of a query can be read in {checkpoint}: {error!r}"
        raise UnavailableError(message) from error


def position(checkpoint: Path) -> Position:
    """Committed and planned offsets.

    Commits are read before offsets, so that a batch that is committed meanwhile counts as in flight a moment longer.

    Raises:
        UnavailableError: nothing has been planned yet, or the checkpoint cannot be read.
        ValueError: its offset log is of a form that is not understood.
    """
    try:
        committed = _greatest(checkpoint / "commits")
        planned = _greatest(checkpoint / "offsets")
        if planned is None:
            message = f"no batch has been planned in {checkpoint}"
            raise UnavailableError(message)
        return _position(checkpoint, committed, planned)
    except OSError as error:
        message = f"the checkpoint {checkpoint} cannot be read: {error}"
        raise UnavailableError(message) from error


def _position(checkpoint: Path, committed: int | None, planned: int) -> Position:
    log = checkpoint / "offsets"
    ends = _entry(log / str(planned))
    if committed == planned:
        return Position(planned, running=False, started_s=None, committed=ends, planned=ends)
    starts = _starts(checkpoint, len(ends)) if committed is None else _entry(log / str(committed))
    planned_at = (log / str(planned)).stat().st_mtime
    return Position(planned, running=True, started_s=planned_at, committed=starts, planned=ends)


def offset_log_entry(text: str) -> tuple[object, ...]:
    """The offsets in a file of the offset log, one for each source; None for one that has none yet.

    Raises:
        ValueError: it is of another version than v1, or damaged.

    >>> offset_log_entry(chr(10).join(["v1", '{"batchWatermarkMs":0}', '{"orders":{"0":5}}']))
    ({'orders': {'0': 5}},)
    """
    version, *lines = text.splitlines()
    if version != "v1" or not lines:
        message = f"an offset log of version {version!r} is not understood, 'v1' is"
        raise ValueError(message)
    return tuple(None if line == _NONE_YET else json.loads(line) for line in lines[1:])


def _entry(file: Path) -> tuple[object, ...]:
    return offset_log_entry(file.read_text(encoding="utf-8"))


def _starts(checkpoint: Path, sources: int) -> tuple[object, ...]:
    return tuple(_start(checkpoint / "sources" / str(number) / "0") for number in range(sources))


def _start(file: Path) -> object:
    """Kafka writes a zero byte, ``v1`` and the offsets; other sources write other things, or nothing."""
    if not file.is_file():
        return None
    version, _, offset = file.read_text(encoding="utf-8").lstrip("\0").partition("\n")
    return json.loads(offset) if version == "v1" and offset.startswith("{") else None


def _greatest(folder: Path) -> int | None:
    if not folder.is_dir():
        return None
    return max((int(file.name) for file in folder.iterdir() if file.name.isdecimal()), default=None)
