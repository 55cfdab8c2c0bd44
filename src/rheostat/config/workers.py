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

_ADDRESS = "http://HOST:PORT or https://HOST:PORT, each once"
_NAMED = "NAME=http://HOST:PORT, each name and each address once"


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
    def _addresses_are_understood(cls, given: Any) -> Any:
        if not isinstance(given, list | tuple):
            return given
        faults = list(_node_faults(given))
        if faults:
            raise reject(faults)
        return tuple(given)

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


def _node_faults(given: Sequence[Any]) -> Iterator[Fault]:
    """A fault for each node that is none, with all that is wrong with it; fields are places in the list."""
    named = [named_address(each) if isinstance(each, str) else (None, "") for each in given]
    for place, (each, (name, address)) in enumerate(zip(given, named, strict=True)):
        wrong = list(_wrong_with(name, address, named[:place])) if isinstance(each, str) else ["this is no text"]
        if wrong:
            shown = each if isinstance(each, str) else repr(each)
            yield Fault(str(place), shown, _ADDRESS if name is None else _NAMED, "; ".join(wrong))


def _wrong_with(name: str | None, address: str, before: Sequence[tuple[str | None, str]]) -> Iterator[str]:
    """What is wrong with a node; ``before``: the nodes that stand before it."""
    if not is_node_address(address):
        scheme = "" if "://" in address or not is_node_address(f"http://{address}") else "; it lacks http:// before it"
        yield f"this is no address of a node server{scheme}"
    elif address in [each for _, each in before]:
        yield "this address stands there twice"
    if name is not None and not is_node_name(name):
        yield f"{name!r} is no name for a node: letters, digits, - and _, at most 41"
    elif name is not None and name in [each for each, _ in before]:
        yield f"the name {name!r} stands there twice"
