"""Writes the log on disk: Arrow IPC segments that appear whole or not at all. Needs pyarrow.

The layout is described in :mod:`rheostat.spark.log_files`. A segment is written under a name that begins with ``.`` and
acknowledged by renaming it. This survives a kill of the process but not a power failure, since files are not synced.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

import pyarrow as pa

from rheostat.errors import Fault, InputError, RheostatError
from rheostat.files import lock_file, replace_text
from rheostat.load.payload import Records
from rheostat.load.producer import Receipt, partition_of
from rheostat.spark.log_files import LOG_SCHEMA, LogFolder

_SCHEMA = pa.schema([("value", pa.string()), ("timestamp", pa.timestamp("us", tz="UTC"))])


class LogWriter:
    """Appends to a log, which is created if it does not exist. One writer at a time.

    ``partitions``: the number that the log must have or is created with. None: any number; 8 for a new log.

    Raises:
        InputError: another number of partitions, a folder that is no log and not empty or cannot be written to, or
            another writer at work.
    """

    def __init__(self, folder: Path, partitions: int | None = None) -> None:
        self.folder = folder
        self._lock = _open_lock(folder)
        try:
            self.partitions = _read_or_create(folder, partitions)
            for partition in range(self.partitions):
                (folder / f"partition={partition}").mkdir(exist_ok=True)
            for leftover in folder.glob("partition=*/.*.arrow"):  # from a writer that was killed
                leftover.unlink()
            self._ends = LogFolder(str(folder)).latest()
            _encode_segment([""], 0.0)  # pyarrow loads pandas at its first conversion: not in the middle of a load
        except BaseException:
            self._lock.close()
            raise

    def ends(self) -> dict[int, int]:
        return dict(self._ends)

    def append(self, partition: int, values: Sequence[str], timestamp: float) -> int:
        """Append one segment of at least one value, all with one timestamp (epoch seconds); returns the first's offset.

        Raises:
            RheostatError: the disk refused it. Nothing of it is visible then.
        """
        base = self._ends[partition]
        folder = self.folder / f"partition={partition}"
        name = f"{base:020d}-{len(values):09d}.arrow"
        hidden = folder / f".{name}"
        try:
            hidden.write_bytes(_encode_segment(values, timestamp))
            hidden.rename(folder / name)
        except OSError as error:
            hidden.unlink(missing_ok=True)
            message = f"cannot append to the log {self.folder}: {error}"
            raise RheostatError(message) from error
        self._ends[partition] = base + len(values)
        return base

    def close(self) -> None:
        """Release the log for another writer. May be called more than once."""
        self._lock.close()

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LogSink:
    """A :class:`~rheostat.load.producer.Sink` into a log: a segment for each busy partition every ``roll_s`` seconds.

    :meth:`finish` closes the writer. ``now`` returns epoch seconds, for the records' append time.
    """

    def __init__(self, writer: LogWriter, roll_s: float = 0.5, now: Callable[[], float] = time.time) -> None:
        self._writer, self._roll_s, self._now = writer, roll_s, now
        self._waiting: dict[int, list[tuple[int, str]]] = {}
        self._rolled_at = now()
        self._finished = False

    def send(self, records: Records) -> int:
        partitions = self._writer.partitions
        for record_id, value in enumerate(records.values, records.first_id):
            key = None if records.keys is None else records.keys[record_id - records.first_id]
            partition = record_id % partitions if key is None else partition_of(key, partitions)
            self._waiting.setdefault(partition, []).append((record_id, value))
        return len(records)

    def collect(self) -> Receipt:
        return self._write_segments() if self._now() - self._rolled_at >= self._roll_s else Receipt()

    def finish(self, timeout_s: float) -> Receipt:  # noqa: ARG002 (a disk either takes it or fails)
        if self._finished:
            return Receipt()
        self._finished = True
        try:
            return self._write_segments()
        finally:
            self._writer.close()

    def _write_segments(self) -> Receipt:
        acknowledged: list[int] = []
        size, failed, error = 0, 0, None
        waiting, self._waiting = self._waiting, {}
        for partition, records in sorted(waiting.items()):
            values = [value for _, value in records]
            try:
                self._writer.append(partition, values, self._now())
            except RheostatError as caught:
                failed, error = failed + len(records), str(caught)
                continue
            acknowledged += [record_id for record_id, _ in records]
            size += sum(len(value.encode()) for value in values)
        self._rolled_at = self._now()
        return Receipt(acknowledged, size, failed, error)


def _open_lock(folder: Path) -> TextIO:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return lock_file(folder / ".writer")
    except BlockingIOError:
        message = "another process is writing to this log: stop it, or take another folder"
        raise InputError([Fault("--log", str(folder), "a log without a writer", message)]) from None
    except OSError as error:
        fault = Fault("--log", str(folder), "a folder that can be written to", f"cannot be used: {error}")
        raise InputError([fault]) from error


def _read_or_create(folder: Path, partitions: int | None) -> int:
    """Read ``log.json``, or write it for a new log; returns the number of partitions."""
    described = folder / "log.json"
    if described.exists():
        own = LogFolder(str(folder)).partitions
        if partitions not in (None, own):
            message = "the number of partitions of a log cannot be changed"
            raise InputError([Fault("--partitions", str(partitions), str(own), message)])
        return own
    if any(not entry.name.startswith(".") for entry in folder.iterdir()):
        message = "the folder holds other things, and no log"
        raise InputError([Fault("--log", str(folder), "an empty folder or a log", message)])
    number = partitions or 8
    replace_text(described, json.dumps({"schema": LOG_SCHEMA, "partitions": number}) + "\n")
    return number


def _encode_segment(values: Sequence[str], timestamp: float) -> memoryview:
    """An Arrow IPC file of records with the same append time."""
    stamps = pa.array([round(timestamp * 1e6)] * len(values), pa.timestamp("us", tz="UTC"))
    table = pa.record_batch([pa.array(values, pa.string()), stamps], schema=_SCHEMA)
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, _SCHEMA) as segment:
        segment.write_batch(table)
    return memoryview(out.getvalue())
