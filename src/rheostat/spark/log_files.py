"""The embedded log on disk, and the arithmetic of its offsets. No Spark and no Arrow here.

Layout: ``FOLDER/log.json`` holds ``{"schema": "rheostat.log/1", "partitions": P}``; partition K is the folder
``partition=K`` of immutable Arrow IPC files ``{base:020d}-{count:09d}.arrow``, where *base* is the number of records
before the file and *count* the number in it. Files are written under a name that begins with ``.`` and renamed, so
what has a segment's name is complete. The latest offset of a partition is base + count of its greatest segment.

An offset of the whole log is ``{"log": {"0": 123, "1": 120}}``, in the shape of Spark's Kafka source: for each
partition the number of records before the position.
"""

from __future__ import annotations

import json
import os
import re
import time
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rheostat.errors import Fault, InputError, UnavailableError

LOG_SCHEMA = "rheostat.log/1"
LOG_TOPIC = "log"
"""The name under which the log stands in offsets and in the column ``topic``."""

K = TypeVar("K", bound="int | tuple[str, int]")

_SEGMENT = re.compile(r"(\d{20})-(\d{9})\.arrow")
_SETTLED_NS = 1_000_000_000
_SHORTER = "the log is shorter than the checkpoint says: use the log that the checkpoint was made with"
_OPTIONS = {"path": "path", "maxoffsetspertrigger": "maxOffsetsPerTrigger", "startingoffsets": "startingOffsets"}


class Piece(NamedTuple):
    """The records [start, end) of a partition as they lie in one segment, whose first record is ``base``."""

    file: str
    base: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Options of the source, checked.

    Attributes:
        path: folder of the log.
        cap: ``maxOffsetsPerTrigger``, the largest number of records in one batch; None: no limit.
        starting: ``startingOffsets``, where a query without a checkpoint begins: ``earliest`` or ``latest``.
    """

    path: str
    cap: int | None
    starting: str


def parse_options(options: Mapping[str, str]) -> LogOptions:
    """Check the options of the source; their names are not case-sensitive.

    Raises:
        InputError: every fault: no path, an unknown option, a value that is not allowed.
    """
    given = {key.lower(): value for key, value in options.items()}
    allowed = ", ".join(_OPTIONS.values())
    faults = [
        Fault(key, str(options[key]), allowed, "the log source has no such option")
        for key in options
        if key.lower() not in _OPTIONS
    ]
    path, cap, starting = given.get("path", ""), given.get("maxoffsetspertrigger"), given.get("startingoffsets")
    if not path:
        faults.append(Fault("path", repr(path), "the folder of a log", "say where the log is"))
    if cap is not None and not (cap.strip().isdecimal() and int(cap) > 0):
        message = "the largest number of records in one batch"
        faults.append(Fault("maxOffsetsPerTrigger", cap, "an integer ≥ 1", message))
    if starting not in (None, "earliest", "latest"):
        message = "where a query without a checkpoint begins"
        faults.append(Fault("startingOffsets", str(starting), "earliest, latest", message))
    if faults:
        raise InputError(faults)
    return LogOptions(path, None if cap is None else int(cap), starting or "latest")


def offsets_to_json(offsets: Mapping[int, int]) -> dict[str, dict[str, int]]:
    """Offsets as Spark stores them, in the order of partitions because Spark compares them as text.

    >>> offsets_to_json({1: 5, 0: 7})
    {'log': {'0': 7, '1': 5}}
    """
    return {LOG_TOPIC: {str(partition): offsets[partition] for partition in sorted(offsets)}}


def offsets_from_json(offset: Mapping[str, Any], partitions: int) -> dict[int, int]:
    """The inverse of :func:`offsets_to_json`; a partition that is not named is at 0."""
    given = offset.get(LOG_TOPIC, {})
    return {partition: int(given.get(str(partition), 0)) for partition in range(partitions)}


def shares(waiting: Mapping[K, int], cap: int) -> dict[K, int]:
    """Divide a batch of ``cap`` records over partitions in proportion to what waits in each.

    Whole records, by largest remainder, after one record for each partition with something waiting: none starves.
    The sum is min(Σ waiting, max(cap, partitions with something waiting)), so, as with Spark's Kafka source, it
    exceeds the cap only where the cap is smaller than the number of partitions.

    >>> shares({0: 1000, 1: 3000, 2: 0, 3: 1}, 400)
    {0: 100, 1: 299, 2: 0, 3: 1}
    """
    busy = [partition for partition, records in waiting.items() if records > 0]
    left = min(sum(waiting.values()), max(cap, len(busy))) - len(busy)
    rest = {partition: waiting[partition] - 1 for partition in busy}
    total = max(1, sum(rest.values()))
    given = {partition: left * records // total for partition, records in rest.items()}
    by_remainder = sorted(busy, key=lambda partition: (-(left * rest[partition] % total), partition))
    for partition in by_remainder[: left - sum(given.values())]:
        given[partition] += 1
    return {partition: given[partition] + 1 if partition in given else 0 for partition in waiting}


def admit(start: Mapping[int, int], latest: Mapping[int, int], cap: int | None) -> dict[int, int]:
    """Where a batch from ``start`` ends: at ``latest``, or sooner if more than ``cap`` records wait.

    Raises:
        InputError: a partition ends before ``start``: it is not the log of the checkpoint.
    """
    waiting = {partition: end - start[partition] for partition, end in latest.items()}
    faults = [
        Fault("path", f"partition {partition} ends at {latest[partition]}", f"≥ {start[partition]}", _SHORTER)
        for partition, records in waiting.items()
        if records < 0
    ]
    if faults:
        raise InputError(faults)
    if cap is None or sum(waiting.values()) <= cap:
        return dict(latest)
    return {partition: start[partition] + records for partition, records in shares(waiting, cap).items()}


class LogFolder:
    """A log as its reader sees it. The listing is kept: segments are only ever added.

    Raises:
        InputError: there is no such folder, or no usable ``log.json`` in it.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.partitions = _read_partitions(Path(path))
        self._listings = [_Listing(Path(path, f"partition={index}")) for index in range(self.partitions)]

    def earliest(self) -> dict[int, int]:
        """The offset before the first record of each partition."""
        return dict.fromkeys(range(self.partitions), 0)

    def latest(self) -> dict[int, int]:
        """The offset after the last record of each partition, read now."""
        for listing in self._listings:
            listing.refresh()
        return {index: listing.latest for index, listing in enumerate(self._listings)}

    def pieces(self, partition: int, start: int, end: int) -> tuple[Piece, ...]:
        """Where the records [start, end) of a partition are, in order.

        Raises:
            InputError: some of them are missing.
        """
        listing = self._listings[partition]
        if end > listing.latest:
            listing.refresh()
        found = listing.pieces(start, end)
        position = start
        for piece in found:
            if piece.start != position:
                break
            position = piece.end
        if position < end:
            given = f"{self.path}: records {start} to {end - 1} of partition {partition}, whole up to {position - 1}"
            raise InputError([Fault("path", given, "a log without gaps", "records of the log have been removed")])
        return found


class _Listing:
    """The segments of one partition. Reads the folder again only if its modification time has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last_name = ""
        self._segments: list[Piece] = []
        self._settled_at: int | None = None

    @property
    def latest(self) -> int:
        return self._segments[-1].end if self._segments else 0

    def refresh(self) -> None:
        """Add new segments. A modification time of the last second is not trusted: clocks tick coarsely."""
        try:
            changed_at = self._folder.stat().st_mtime_ns
        except FileNotFoundError:
            return
        if changed_at == self._settled_at:
            return
        last = self._last_name
        for name in sorted(name for name in os.listdir(self._folder) if name > last):  # noqa: PTH208 (names are enough)
            if match := _SEGMENT.fullmatch(name):
                base, count = int(match[1]), int(match[2])
                self._segments.append(Piece(f"{self._folder.name}/{name}", base, base, base + count))
                self._last_name = name
        self._settled_at = changed_at if time.time_ns() - changed_at > _SETTLED_NS else None

    def pieces(self, start: int, end: int) -> tuple[Piece, ...]:
        """The parts of segments within [start, end), which may have gaps."""
        found = []
        first = max(0, bisect_right(self._segments, start, key=lambda segment: segment.base) - 1)
        for segment in self._segments[first:]:
            if segment.base >= end:
                break
            low, high = max(start, segment.start), min(end, segment.end)
            if low < high:
                found.append(segment._replace(start=low, end=high))
        return tuple(found)


def latest_offsets(folder: Path) -> dict[tuple[str, int], int]:
    """Latest offset by (topic, partition), from the names of the files; 0 for a partition without segments.

    Raises:
        UnavailableError: there is no such log, or not one that is understood.
    """
    try:
        partitions = _read_partitions(folder)
        return {(LOG_TOPIC, number): _end(folder / f"partition={number}") for number in range(partitions)}
    except (InputError, OSError) as error:
        message = f"the log in {folder} cannot be read: {error}"
        raise UnavailableError(message) from error


def _end(partition: Path) -> int:
    try:
        with os.scandir(partition) as entries:
            last = max((entry.name for entry in entries if _SEGMENT.fullmatch(entry.name)), default="")
    except FileNotFoundError:
        return 0
    match = _SEGMENT.fullmatch(last)
    return int(match[1]) + int(match[2]) if match else 0


def _read_partitions(folder: Path) -> int:
    file = folder / "log.json"
    if not folder.is_dir():
        raise InputError([Fault("path", str(folder), "the folder of a log", "there is no such folder")])
    try:
        described = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError([Fault("path", str(folder), "a folder with log.json", "the folder holds no log")]) from None
    except ValueError as error:
        raise InputError([Fault("path", str(file), "a JSON object", f"log.json cannot be read: {error}")]) from None
    given = described if isinstance(described, dict) else {}
    schema, partitions = given.get("schema"), given.get("partitions")
    faults = []
    if schema != LOG_SCHEMA:
        faults.append(Fault("log.json: schema", repr(schema), LOG_SCHEMA, f"{file} was written by another version"))
    if not isinstance(partitions, int) or isinstance(partitions, bool) or partitions < 1:
        message = f"{file} does not say how many partitions the log has"
        faults.append(Fault("log.json: partitions", repr(partitions), "an integer ≥ 1", message))
    if faults:
        raise InputError(faults)
    return int(given["partitions"])
