"""The log on disk, written: Arrow IPC segments that appear whole or not at all. Needs pyarrow.

The layout is described in :mod:`rheostat.spark.log_files`. A segment that is being written has a name that begins with
``.``; its renaming is the acknowledgement. That holds when this process is killed; it is not proof against a loss of
power, since files are not forced to the disk.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TextIO

import pyarrow as pa

from rheostat.errors import Fault, InputError, RheostatError
from rheostat.files import lock_file, replace_text
from rheostat.load.payload import Records
from rheostat.load.producer import Receipt, partition_of
from rheostat.spark.log_files import LOG_SCHEMA, LogFolder

_SCHEMA = pa.schema([("value", pa.string()), ("timestamp", pa.timestamp("us", tz="UTC"))])


class LogWriter:
    """Appends to a log; makes it if it is not there, and otherwise goes on at its end. One writer at a time.

    Args:
        folder: of the log.
        partitions: of a new log; of an existing one the number must be its own. None: 8 for a new one.

    Raises:
        InputError: another number of partitions, a folder that is no log and not empty or cannot be written to, or
            another writer at work.
    """

    def __init__(self, folder: Path, partitions: int | None = None) -> None:
        self.folder = folder
        self._lock = _lock(folder)
        try:
            self.partitions = _describe(folder, partitions)
            self._clean()
            self._ends = LogFolder(str(folder)).latest()
            _segment([""], 0.0)  # pyarrow loads pandas at its first conversion: here, not in the middle of a load
        except BaseException:
            self._lock.close()
            raise

    def ends(self) -> dict[int, int]:
        """Records in each partition."""
        return dict(self._ends)

    def append(self, partition: int, values: Sequence[str], timestamp: float) -> int:
        """Append one segment to a partition.

        Args:
            partition: 0 … partitions − 1.
            values: at least one.
            timestamp: epoch seconds, of all of them.

        Returns:
            The offset of the first.

        Raises:
            RheostatError: it could not be written, as on a full disk. Nothing of it is visible then.
        """
        base = self._ends[partition]
        folder = self.folder / f"partition={partition}"
        name = f"{base:020d}-{len(values):09d}.arrow"
        hidden = folder / f".{name}"
        try:
            hidden.write_bytes(_segment(values, timestamp))
            hidden.rename(folder / name)
        except OSError as error:
            hidden.unlink(missing_ok=True)
            message = f"cannot append to the log {self.folder}: {error}"
            raise RheostatError(message) from error
        self._ends[partition] = base + len(values)
        return base

    def close(self) -> None:
        """Let another writer come. May be called more than once."""
        self._lock.close()

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _clean(self) -> None:
        """Remove what a writer that was killed left half done."""
        for partition in range(self.partitions):
            folder = self.folder / f"partition={partition}"
            folder.mkdir(exist_ok=True)
            for leftover in folder.glob(".*.arrow"):
                leftover.unlink()


class LogSink:
    """A :class:`~rheostat.load.producer.Sink` upon a log. A segment is written twice a second for each busy partition.

    Args:
        writer: closed by :meth:`finish`.
        roll_s: seconds for which records are gathered, at most; they become visible together.
        now: epoch seconds, for the records' append time.
    """

    def __init__(self, writer: LogWriter, roll_s: float = 0.5, now: Callable[[], float] = time.time) -> None:
        self._writer, self._roll_s, self._now = writer, roll_s, now
        self._waiting: dict[int, list[tuple[int, str]]] = {}
        self._rolled_at = now()
        self._finished = False

    def send(self, records: Records) -> int:
        """Gather them all."""
        partitions = self._writer.partitions
        for index, value in enumerate(records.values):
            record_id = records.first_id + index
            partition = (
                record_id % partitions if records.keys is None else partition_of(records.keys[index], partitions)
            )
            self._waiting.setdefault(partition, []).append((record_id, value))
        return len(records)

    def collect(self) -> Receipt:
        """Write segments if it is time; a written segment is acknowledged."""
        return self._roll() if self._now() - self._rolled_at >= self._roll_s else Receipt()

    def finish(self, timeout_s: float) -> Receipt:  # noqa: ARG002 (a disk either takes it or fails)
        """Write what is left, and close the writer."""
        if self._finished:
            return Receipt()
        self._finished = True
        try:
            return self._roll()
        finally:
            self._writer.close()

    def _roll(self) -> Receipt:
        acknowledged: list[int] = []
        size = failed = 0
        error = None
        waiting, self._waiting = self._waiting, {}
        for partition, records in sorted(waiting.items()):
            values = [value for _, value in records]
            try:
                self._writer.append(partition, values, self._now())
            except RheostatError as caught:
                failed, error = failed + len(records), str(caught)
                continue
            acknowledged += [record_id for record_id, _ in records]
            size += sum(map(len, values))
        self._rolled_at = self._now()
        return Receipt(acknowledged, size, failed, error)


def _lock(folder: Path) -> TextIO:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return lock_file(folder / ".writer")
    except BlockingIOError:
        message = "another process is writing to this log: stop it, or take another folder"
        raise InputError([Fault("--log", str(folder), "a log without a writer", message)]) from None
    except OSError as error:
        fault = Fault("--log", str(folder), "a folder that can be written to", f"cannot be used: {error}")
        raise InputError([fault]) from error


def _describe(folder: Path, partitions: int | None) -> int:
    """Read ``log.json``, or write it for a new log; returns the number of partitions."""
    described = folder / "log.json"
    if described.exists():
        own = LogFolder(str(folder)).partitions
        if partitions not in (None, own):
            message = "a log keeps the number of partitions that it was made with"
            raise InputError([Fault("--partitions", str(partitions), str(own), message)])
        return own
    if any(not entry.name.startswith(".") for entry in folder.iterdir()):
        message = "the folder holds other things, and no log"
        raise InputError([Fault("--log", str(folder), "an empty folder or a log", message)])
    number = partitions or 8
    replace_text(described, json.dumps({"schema": LOG_SCHEMA, "partitions": number}) + "\n")
    return number


def _segment(values: Sequence[str], timestamp: float) -> memoryview:
    """An Arrow IPC file of records with the same append time."""
    stamps = pa.array([round(timestamp * 1e6)] * len(values), pa.timestamp("us", tz="UTC"))
    table = pa.record_batch([pa.array(values, pa.string()), stamps], schema=_SCHEMA)
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, _SCHEMA) as segment:
        segment.write_batch(table)
    return memoryview(out.getvalue())
