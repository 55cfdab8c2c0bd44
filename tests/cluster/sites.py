"""Node servers for the tests on the real cluster."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
from tests.cluster.support import lives, until

from rheostat.host.guardian import find_by_token
from rheostat.lab.lab import Lab
from rheostat.node.options import StartedNode
from rheostat.node.workers import MARK, Record

SIZE = ("--cores", "1", "--memory", "512", "--grace", "20", "--json")


class Site:
    """A node server of the lab, and what is known of its Workers' processes."""

    def __init__(self, lab: Lab, folder: Path, n_max: int, options: Sequence[str] = ()) -> None:
        self.lab, self.folder, self.n_max, self.options = lab, folder, n_max, options
        self.marks: set[str] = set()
        self.start()

    def start(self, *options: str) -> None:
        """A server on the folder, whether or not there was one before."""
        self.node = StartedNode.start(self.lab, self.folder, n_max=self.n_max, options=(*SIZE, *self.options, *options))

    def create(self, target: int) -> int:
        with closing(self.node.client()) as client:
            return client.create(target)

    def remove(self, used: Collection[str], free: int) -> int:
        with closing(self.node.client()) as client:
            return client.remove(used, free)

    def tell(self) -> dict[str, Any]:
        answer: dict[str, Any] = httpx.get(f"{self.node.address}/taskmanager", trust_env=False).json()
        return answer

    def records(self) -> list[Record]:
        found = [Record(**json.loads(file.read_text())) for file in sorted(self.folder.glob("workers/*.json"))]
        self.marks |= {record.mark for record in found}
        return found

    def ready(self) -> list[int]:
        self.records()
        return [one["id"] for one in self.tell()["workers"] if one["state"] == "ready"]

    def until_ready(self, *ids: int) -> None:
        lives(self.lab, lambda: self.ready() == list(ids), f"Workers {ids} to be ready: {self.tell()}")

    def kill(self) -> None:
        self.node.part.expect_end()
        self.node.part.signal(signal.SIGKILL)
        until(lambda: not self.node.part.alive(), "the server to be gone")

    def end(self) -> None:
        """In order; nothing of it is left."""
        self.records()
        os.kill(self.node.part.pid, signal.SIGTERM)
        self.node.part.wait_exit(60.0)
        assert json.loads(self.node.part.log_tail(1))["workers_left"] == []
        assert self.left() == []

    def left(self) -> list[int]:
        """Processes of any Worker that was seen, executors and their Python included."""
        return [pid for mark in self.marks for pid in find_by_token(mark, MARK)]
