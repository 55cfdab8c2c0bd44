"""A node server as a part of a lab, in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rheostat.execute.nodes import NodeClient
from rheostat.lab.lab import Lab
from rheostat.lab.process import Launch, Part, module_command, module_environment

__all__ = ["StartedNode"]

_READY_S = 60.0


@dataclass(frozen=True, slots=True)
class StartedNode:
    """A node server that answers. It and its Workers end with the lab at the latest. Made by :meth:`start`."""

    address: str
    part: Part
    folder: Path

    def client(self, timeout_s: float = 10.0) -> NodeClient:
        """What asks it."""
        return NodeClient(self.address, None, timeout_s)

    @classmethod
    def start(cls, lab: Lab, folder: Path, *, n_max: int, options: Sequence[str] = ()) -> StartedNode:
        """Run ``rheostat node`` for the lab's master, on a free port.

        Args:
            lab: with a master.
            folder: of the node; what another server left there is found.
            n_max: Workers that there can be.
            options: further ones of the command.

        Raises:
            PartFailedError: it did not come up.
        """
        folder.mkdir(parents=True, exist_ok=True)
        given = ("--master", lab.cluster.web_url, "--folder", str(folder), "--n-max", str(n_max), "--port", "0")
        launch = Launch(module_command("rheostat", "node", *given, *options), module_environment(), folder)
        part = lab.run_part(f"node-{folder.name}", launch)
        found: list[str] = []

        def listens() -> bool:
            found[:] = [url for url in [_address(folder / "server.json", part.pid)] if url]
            return bool(found)

        part.wait_ready(listens, _READY_S)
        return cls(found[0], part, folder)


def _address(file: Path, pid: int) -> str | None:
    """Where the server of this process listens; None: it does not yet."""
    try:
        server = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return str(server["url"]) if server["pid"] == pid else None
