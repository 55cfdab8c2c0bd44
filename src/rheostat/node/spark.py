"""Spark's side of a node: how a Worker is started, and how it is told to leave."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Protocol

from rheostat.config.secrets import TOKEN_VARIABLE
from rheostat.lab.daemons import Daemons, WorkerSize
from rheostat.lab.process import Launch
from rheostat.node.folder import Record
from rheostat.node.master import Master, MasterView

__all__ = ["MARK", "Spark", "StandaloneSpark", "address_of"]

MARK = "RHEOSTAT_NODE_WORKER"
"""Environment variable of a Worker and of all below it, executors and their Python; its value tells Workers apart."""

_BROADCAST = ip_address("127.255.255.255")
_LEAVE = "PWR" if sys.platform == "linux" else "INFO"
"""The signal on which a Worker decommissions itself: Spark's default on Linux; elsewhere there is no such signal."""


class Spark(Protocol):
    """What a node does with Spark."""

    def view(self) -> MasterView:
        """The master's word now.

        Raises:
            UnavailableError: it does not answer.
        """
        ...

    def launch(self, record: Record, master: str) -> Launch:
        """How the process of a Worker is started."""
        ...

    def decommission(self, record: Record) -> None:
        """Ask a Worker to leave: from now on it takes no executor, and tells the master so. May be repeated."""
        ...

    def executors_on(self, web: str) -> int | None:
        """Executors that run on a Worker, by its own word; None: it does not answer."""
        ...


class StandaloneSpark:
    """Workers from the PySpark package.

    A Worker is told to leave by a signal. It then refuses executors itself and tells the master, which marks it
    ``DECOMMISSIONED``. ``POST /workers/kill/`` to the master comes to the same, but names a host, not a Worker, and is
    taken from the master's own machine only. On a plain SIGTERM the master starts executors on a dying Worker.
    """

    def __init__(self, daemons: Daemons, size: WorkerSize, master: Master) -> None:
        self._daemons = daemons
        self._size = size
        self._master = master
        daemons.make_folders()

    def view(self) -> MasterView:
        """See :meth:`Spark.view`."""
        return self._master.ask()

    def launch(self, record: Record, master: str) -> Launch:
        """See :meth:`Spark.launch`.

        The node's token stays here, as an executor's code is another's. Scratch space goes when the Worker is gone.
        """
        options = ("-Dspark.decommission.enabled=true", f"-Dspark.worker.decommission.signal={_LEAVE}")
        launch = self._daemons.worker(record.name, record.host, self._size, master, options)
        environment = {name: value for name, value in launch.environment.items() if name != TOKEN_VARIABLE}
        scratch = self._daemons.folder / "work" / record.name / "scratch"
        own = {MARK: record.mark, "SPARK_LOCAL_DIRS": str(scratch)}
        return Launch(launch.command, {**environment, **own}, launch.folder)

    def decommission(self, record: Record) -> None:
        """See :meth:`Spark.decommission`."""
        process = record.process
        if process is not None and process.running():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.Signals[f"SIG{_LEAVE}"])

    def executors_on(self, web: str) -> int | None:
        """See :meth:`Spark.executors_on`."""
        return self._master.executors_on(web)


def address_of(number: int, addresses: Sequence[str]) -> str:
    """Where the Worker with this id (from 1) listens: an address each, or one for all.

    One loopback address is the first of a series, so that each Worker has its own.

    >>> address_of(3, ["127.0.0.1"]), address_of(3, ["10.0.0.5"]), address_of(2, ["10.0.0.5", "10.0.0.6"])
    ('127.0.0.4', '10.0.0.5', '10.0.0.6')

    Raises:
        ValueError: the series has no such address.
    """
    if len(addresses) > 1:
        return addresses[number - 1]
    (first,) = addresses
    if not first.startswith("127."):
        return first
    found = ip_address(first) + number
    if not found.is_loopback or found == _BROADCAST:
        raise ValueError(first)
    return str(found)
