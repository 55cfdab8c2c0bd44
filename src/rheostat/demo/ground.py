"""What the executors of a run stand on: one Worker with room for all, or node servers that start and stop Workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rheostat.config.round_trips import pairs_of
from rheostat.lab.daemons import WorkerSize
from rheostat.lab.network import free_ports

if TYPE_CHECKING:
    from rheostat.lab.lab import Lab

__all__ = ["EXECUTOR_MB", "Ground", "NodeServers", "OneWorker"]

EXECUTOR_MB = 512
"""Heap of each executor."""

_PING_S, _GRACE_S = 1.0, 20.0

RoundTrips = Mapping[str, Mapping[str, float]]
"""Node → node → ms, as in ``workers.round_trips_ms``."""


class Ground(Protocol):
    """Where executors can be. Used by one thread, in this order: ``start``, ``settings``, ``open``."""

    def start(self) -> None:
        """Before the driver: no Worker may be there yet, as an application takes every core that it finds.

        Raises:
            PartFailedError: it did not come up.
        """
        ...

    def settings(self) -> Mapping[str, Any]:
        """What the autoscaler must know of it, in the shape of a settings file."""
        ...

    def open(self) -> None:
        """After the autoscaler has asked for its least number.

        Raises:
            PartFailedError: it did not come up.
        """
        ...


class OneWorker:
    """One Worker, with so many slots."""

    def __init__(self, lab: Lab, slots: int) -> None:
        self._lab = lab
        self._size = WorkerSize(cores=slots, memory_mb=slots * EXECUTOR_MB)

    def start(self) -> None:
        """Nothing yet."""

    def settings(self) -> Mapping[str, Any]:
        """The executors alone are scaled."""
        return {}

    def open(self) -> None:
        """Start it."""
        self._lab.cluster.add_worker(self._size)


class NodeServers:
    """A node server for each name, with room for one Worker of one slot, on loopback addresses of its own.

    The k-th node is at 127.0.k.1. Distance is simulated: a server answers the pings of another node late. It slows no
    executor down.

    Args:
        lab: with a master.
        folder: gets a folder for each node.
        names: of the nodes, in the order in which equally near ones are taken.
        round_trips: of each pair, once.
        measured: whether the autoscaler is told them, or is to measure them.
    """

    def __init__(
        self, lab: Lab, folder: Path, names: Sequence[str], round_trips: RoundTrips, *, measured: bool
    ) -> None:
        self._lab, self._folder = lab, folder
        self._round_trips, self._measured = round_trips, measured
        pairs = zip(names, free_ports(len(names)), strict=True)
        self._places = {name: (f"127.0.{k}.1", port) for k, (name, port) in enumerate(pairs, 1)}

    def start(self) -> None:
        """All servers; they answer when this returns."""
        from rheostat.node.started import StartedNode

        for name in self._places:
            StartedNode.start(self._lab, self._folder / name, n_max=1, options=self.options(name))

    def settings(self) -> Mapping[str, Any]:
        """Both layers, and the way between the nodes."""
        nodes = [f"{name}={url}" for name, url in self._urls().items()]
        trips: Any = "measured" if self._measured else {a: dict(row) for a, row in self._round_trips.items()}
        return {"actuator": "workers", "workers": {"nodes": nodes, "backup": 1, "round_trips_ms": trips}}

    def open(self) -> None:
        """The autoscaler starts Workers itself."""

    def options(self, name: str) -> list[str]:
        """Of ``rheostat node`` for one of them."""
        host, port = self._places[name]
        peers = ",".join(f"{peer}={url}" for peer, url in self._urls().items())
        options = ["--name", name, "--host", host, "--port", str(port), "--address", host, "--peer", peers]
        options += ["--cores", "1", "--memory", str(EXECUTOR_MB), "--json"]
        options += ["--ping-every", f"{_PING_S:g}", "--grace", f"{_GRACE_S:g}"]
        later = {a: ms for (a, b), ms in self._late().items() if b == name}
        return options + [part for caller, ms in later.items() for part in ("--delay", f"{caller}={ms:g}")]

    def _urls(self) -> dict[str, str]:
        return {name: f"http://{host}:{port}" for name, (host, port) in self._places.items()}

    def _late(self) -> dict[tuple[str, str], float]:
        """(who pings, who answers late) → ms; of each pair the later one in the list of nodes answers late."""
        order = {name: k for k, name in enumerate(self._places)}
        pairs = pairs_of(self._round_trips).items()
        return {((a, b) if order[a] < order[b] else (b, a)): ms for (a, b), ms in pairs}
