"""A node whose Workers are real processes that sleep, with a master in memory, on a clock that the test moves."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rheostat.errors import UnavailableError
from rheostat.host.processes import Launch
from rheostat.node.workers import ALIVE, DECOMMISSIONED, MARK, Folder, MasterView, Patience, Rules, Standing, Workers


class InMemory:
    """A master that tests speak for. Workers register when they are told to; told to leave, they do so at once."""

    def __init__(self):
        self.answers = True
        self.registers = True
        self.obeys = True
        self.command = ["sleep", "300"]
        self.standing: dict[str, Standing] = {}
        self.executors: dict[str, int | None] = {}
        self.told: list[str] = []

    def view(self):
        if not self.answers:
            raise UnavailableError("http://master does not answer: refused")
        return MasterView("spark://master:7077", dict(self.standing))

    def launch(self, record, master):
        assert master == "spark://master:7077"
        if self.registers:
            self.register(record)
        return Launch(self.command, {**os.environ, MARK: record.mark}, Path("/"))

    def register(self, record):
        self.standing[record.name] = Standing(ALIVE, used=False, host=record.host, web=f"{record.host}:8081")

    def decommission(self, record):
        self.told.append(record.name)
        if self.obeys:
            self.change(record, state=DECOMMISSIONED)

    def executors_on(self, web):
        return self.executors.get(web, 0)

    def change(self, record, **values):
        self.standing[record.name] = replace(self.standing[record.name], **values)


class Node:
    """The Workers of one node, one look at a time."""

    def __init__(self, path, n_max=5):
        self.path, self.n_max = path, n_max
        self.spark = InMemory()
        self.at = 1000.0
        self.set_forward_s = 0.0  # the time of the machine, against that of its clock
        self.children = []
        self.open()

    def open(self):
        """A server on the folder; what another one left is found."""
        self.folder = Folder(self.path)
        rules = Rules("n", self.n_max, ["127.0.0.1"], Patience(look_s=0.005))
        self.workers = Workers(
            self.spark, self.folder, rules, clock=lambda: self.at, now=lambda: self.at + self.set_forward_s
        )

    def crash(self):
        """The server is gone without an end; the lock goes with it."""
        self.folder.close()
        self.children += self.workers._children.values()

    def look(self, seconds=0.1, times=1):
        for _ in range(times):
            self.at += seconds
            self.workers.poll()

    def have(self, number):
        """That many Workers, registered."""
        self.workers.create(number)
        self.look(times=2)
        assert self.states() == dict.fromkeys(range(1, number + 1), "ready")

    def states(self):
        return {worker.record.id: str(worker.state) for worker in self.workers.known}

    def record(self, number):
        return next(worker.record for worker in self.workers.known if worker.record.id == number)

    def use(self, *numbers):
        """An executor is placed on them."""
        for number in numbers:
            self.spark.change(self.record(number), used=True)

    def until_gone(self, *numbers):
        self.until(lambda: not set(numbers) & set(self.states()))

    def until(self, condition):
        """Look again and again, on a clock that hardly moves."""
        deadline = time.monotonic() + 10.0
        while not condition():
            assert time.monotonic() < deadline, f"it did not happen: {self.states()}"
            self.look(seconds=0.0001)
            time.sleep(0.002)


@pytest.fixture
def node(tmp_path):
    made = Node(tmp_path)
    yield made
    made.spark.answers = False
    made.workers.close(keep=False, grace_s=5.0)
    for child in made.children:
        child.wait(5.0)
