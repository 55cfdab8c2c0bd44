"""What a node keeps on disk: one file for each Worker, so that a server started again finds them."""

from __future__ import annotations

import fcntl
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from rheostat.errors import Fault, InputError
from rheostat.files import replace_file
from rheostat.lab.process import Identity

__all__ = ["Folder", "Record"]


@dataclass(frozen=True, slots=True)
class Record:
    """One Worker, as it stands in its file. Written before the process is started.

    Attributes:
        id: 1 … n_max.
        name: what the master calls it; never used twice.
        host: address that it is bound to.
        mark: stands in the environment of its process and of all below it, and nowhere else.
        asked_at: when it was asked for, seconds of the epoch.
        pid, created: of its process; None: it was not started when this was written.
        leaving: it is on its way out.
    """

    id: int
    name: str
    host: str
    mark: str
    asked_at: float
    pid: int | None = None
    created: float | None = None
    leaving: bool = False

    @property
    def process(self) -> Identity | None:
        """Its process; None: it has none that is known."""
        return None if self.pid is None or self.created is None else Identity(self.pid, self.created)


class Folder:
    """The folder of one node. One server at a time.

    Args:
        path: ``workers`` has the files, ``logs`` the logs; ``spark`` is for the Workers. Made if it is not there.

    Raises:
        InputError: another server has it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records = path / "workers"
        self.logs = path / "logs"
        for each in (self._records, self.logs):
            each.mkdir(parents=True, exist_ok=True)
        self._lock = self._locked()

    @property
    def spark(self) -> Path:
        """Where the Workers have their folders."""
        return self.path / "spark"

    def log(self, record: Record) -> Path:
        """The log of a Worker; the next one of the same id takes its place."""
        return self.logs / f"worker-{record.id}.log"

    def load(self) -> list[Record]:
        """Every Worker of before, by id.

        Raises:
            InputError: the files that cannot be read, all of them.
        """
        found, faults = [], []
        for file in sorted(self._records.glob("*.json")):
            try:
                found.append(Record(**json.loads(file.read_text(encoding="utf-8"))))
            except (OSError, ValueError, TypeError) as error:
                message = f"it is damaged ({error}): end what it may have left running, and remove it"
                faults.append(Fault("--folder", str(file), "a file that a node server has written", message))
        if faults:
            raise InputError(faults)
        return sorted(found, key=lambda record: record.id)

    def save(self, record: Record) -> None:
        """Keep a Worker; on disk when this returns."""
        self._write(self._records / f"{record.id}.json", asdict(record))

    def forget(self, record: Record) -> None:
        """It has ended: its file and its folder go, its log stays."""
        (self._records / f"{record.id}.json").unlink(missing_ok=True)
        shutil.rmtree(self.spark / "work" / record.name, ignore_errors=True)

    def announce(self, server: dict[str, Any]) -> None:
        """Write where the server listens, for people and scripts: ``server.json``."""
        self._write(self.path / "server.json", server)

    def close(self) -> None:
        """Let another server have it."""
        (self.path / "server.json").unlink(missing_ok=True)
        self._lock.close()

    def _write(self, file: Path, value: dict[str, Any]) -> None:
        text = json.dumps(value)
        replace_file(file, lambda out: out.write(text.encode()))

    def _locked(self) -> TextIO:
        lock = (self.path / ".lock").open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            message = "another node server has it: end that one, or give this one a --name or --folder of its own"
            raise InputError([Fault("--folder", str(self.path), "a folder of its own", message)]) from None
        return lock
