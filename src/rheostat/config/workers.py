"""The settings of the cluster layer, for the actuator ``workers``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationInfo, field_validator

from rheostat.config.fields import FrozenModel, documented, reject
from rheostat.config.node_names import is_node_address, is_node_name, named_address
from rheostat.config.round_trips import round_trip_faults
from rheostat.errors import Fault

__all__ = ["WorkersSettings"]


class WorkersSettings(FrozenModel):
    """The cluster layer, for the actuator ``workers``."""

    nodes: tuple[str, ...] = documented(
        "Addresses of the node servers, `http://HOST:PORT` or `NAME=http://HOST:PORT`; a node without a name here has "
        "that of its server. See [node.md](node.md).",
        "nobody knows where your machines are",
        default=(),
    )
    backup: int = documented(
        "Hot standby: Workers that are registered and not used, over all nodes.",
        "the standby of S1; an executor that is asked for starts at once on a Worker that is there",
        default=2,
        unit="Workers",
        ge=0,
        le=1000,
    )
    token_file: Path | None = documented(
        "File with the token that the node servers ask for; null: the variable RHEOSTAT_NODE_TOKEN, if it is set.",
        "a secret does not stand in a settings file, nor in the journal",
        default=None,
        strict=False,
    )
    timeout_s: float = documented(
        "A node server that has not answered by then is left alone for a while.",
        "an answer takes milliseconds, and an increase waits for it at most so long",
        default=2.0,
        unit="s",
        ge=0.1,
        le=60,
    )
    every_s: float = documented(
        "Time between two looks at the standby while the number of executors stays.",
        "a Worker that was lost is missed only at the next increase, and asking costs a request a node",
        default=15.0,
        unit="s",
        ge=1,
        le=3600,
    )

    round_trips_ms: Literal["measured"] | Mapping[str, Mapping[str, float]] | None = documented(
        "Network round trips between the nodes: `measured` by the node servers, or given, as in "
        "`{near: {mid: 20, far: 300}}`, for nodes that are listed with their names. With either, each change says on "
        "which nodes executors come and go: near ones come first, far ones go first. null: nodes play no part.",
        "most clusters stand in one room",
        default=None,
        unit="ms",
    )

    @field_validator("nodes", mode="before")
    @classmethod
    def _list_is_a_tuple(cls, given: Any) -> Any:
        return tuple(given) if isinstance(given, list) else given

    @field_validator("nodes")
    @classmethod
    def _addresses_are_understood(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        named = [named_address(text) for text in given]
        faults = list(_node_faults(given, named))
        if faults:
            raise reject(faults)
        return given

    @field_validator("round_trips_ms", mode="before")
    @classmethod
    def _round_trips_hold(cls, given: Any, info: ValidationInfo) -> Any:
        if not isinstance(given, Mapping):
            return given
        nodes = info.data.get("nodes")
        nameless = [text for text in nodes or () if named_address(text)[0] is None]
        names = None if nodes is None else {name for name, _ in map(named_address, nodes) if name is not None}
        faults = list(round_trip_faults(given, names))
        if nameless:
            message = "the round trips go by names, and these nodes have none in workers.nodes"
            faults.insert(0, Fault("", ", ".join(nameless), "NAME=http://HOST:PORT", message))
        if faults:
            raise reject(faults)
        return given

    @property
    def named_nodes(self) -> tuple[tuple[str | None, str], ...]:
        """Name, None where only the server tells it, and address of each node."""
        return tuple(named_address(text) for text in self.nodes)


def _node_faults(given: Sequence[str], named: Sequence[tuple[str | None, str]]) -> Iterator[Fault]:
    names, addresses = [name for name, _ in named], [address for _, address in named]
    for text, (name, address) in zip(given, named, strict=True):
        if not is_node_address(address) or addresses.count(address) > 1:
            allowed = "http://HOST:PORT or https://HOST:PORT, each once"
            yield Fault("", text, allowed, "this is no address of a node server, or it stands there twice")
        elif name is not None and (not is_node_name(name) or names.count(name) > 1):
            allowed = "letters, digits, - and _, at most 41, each name once"
            yield Fault("", text, allowed, "this is no name for a node, or it stands there twice")
