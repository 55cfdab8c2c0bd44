"""Latest offsets of the embedded log, from the names of its files alone.

The folder holds ``log.json`` (``{"schema": "rheostat.log/1", "partitions": P}``) and for each partition K the folder
``partition=K`` with segments ``{base:020d}-{count:09d}.arrow``: the latest offset is base + count of the greatest.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from rheostat.errors import UnavailableError

__all__ = ["TOPIC", "latest_offsets"]

TOPIC = "log"

_SCHEMA = "rheostat.log/1"
_SEGMENT = re.compile(r"(\d{20})-(\d{9})\.arrow")


def latest_offsets(folder: Path) -> dict[tuple[str, int], int]:
    """Latest offset by (topic, partition); 0 for a partition without segments.

    Raises:
        UnavailableError: there is no such log, or not one that we understand.
    """
    try:
        head = json.loads((folder / "log.json").read_text(encoding="utf-8"))
        if head["schema"] != _SCHEMA:
            message = f"{folder} is a log of the form {head['schema']!r}, {_SCHEMA!r} is understood"
            raise UnavailableError(message)
        return {(TOPIC, number): _end(folder / f"partition={number}") for number in range(head["partitions"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"the log in {folder} cannot be read: {error}"
        raise UnavailableError(message) from error


def _end(partition: Path) -> int:
    try:
        with os.scandir(partition) as entries:
            last = max((entry.name for entry in entries if _SEGMENT.fullmatch(entry.name)), default=None)
    except FileNotFoundError:
        return 0
    match = _SEGMENT.fullmatch(last) if last is not None else None
    return int(match[1]) + int(match[2]) if match is not None else 0
