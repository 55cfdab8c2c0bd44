"""Events of a simulated job: injected by its job file, or passed to the simulation."""

from __future__ import annotations

from math import inf
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from rheostat.config.models import FrozenModel, documented, quantity, tuples_of_lists

Section = Literal["offsets", "batch", "running", "cluster", "queries", "nodes"]

_MOMENT = quantity("s", ge=0, le=1e9)


def _name_of_kind() -> Any:
    return documented("Name of this kind.", "required: it tells the kinds apart")


class TimedEvent(FrozenModel):
    """An event at a moment."""

    at_s: Annotated[float, _MOMENT] = documented(
        "When it begins, from the start of the load.", "required: an event happens at a given time"
    )


class LastingEvent(TimedEvent):
    """An event that may end."""

    for_s: Annotated[float | None, quantity("s", gt=0, le=1e9)] = documented(
        "How long it lasts; null: to the end.", "most faults do not go away by themselves", default=None
    )

    @property
    def until_s(self) -> float:
        """When it ends; infinite if it does not."""
        return inf if self.for_s is None else self.at_s + self.for_s


class OfNode(LastingEvent):
    """An event of one node."""

    node: str = documented("Name of the node.", "required: it defines the event")


class SlowExecutor(LastingEvent):
    """An executor, or the node under it, becomes slow."""

    kind: Literal["slow"] = _name_of_kind()
    executor: Annotated[int, quantity(ge=0, le=100_000)] = documented(
        "Its place, from 0, among the registered executors, oldest first; counted again from 0 beyond the last.",
        "the oldest is there in every run",
        default=0,
    )
    factor: Annotated[float, quantity(ge=1, le=1000)] = documented(
        "Its work takes so many times as long.", "a node at a third of its speed is common", default=3.0
    )


class SlowNode(OfNode):
    """A node becomes slow, with every executor on it, also those that start there later."""

    kind: Literal["slow-node"] = _name_of_kind()
    factor: Annotated[float, quantity(ge=1, le=1000)] = documented(
        "Work on it takes so many times as long.", "as for a slow executor", default=3.0
    )


class DeadExecutor(TimedEvent):
    """An executor dies. The work of its running tasks is lost and done again elsewhere."""

    kind: Literal["dead"] = _name_of_kind()
    executor: Annotated[int, quantity(ge=0, le=100_000)] = documented(
        "Its place, as for a slow one.", "the oldest is there in every run", default=0
    )
    replaced_after_s: Annotated[float | None, _MOMENT] = documented(
        "When the cluster starts another one in its place; null: only at the next request.",
        "a cluster manager replaces it at once; 2.2 s with the start-up were measured",
        default=0.0,
    )


class RejectedRequests(LastingEvent):
    """The cluster rejects every request."""

    kind: Literal["reject"] = _name_of_kind()


class LateRequests(LastingEvent):
    """Executors that are requested meanwhile start later."""

    kind: Literal["late"] = _name_of_kind()
    factor: Annotated[float, quantity(ge=1, le=10_000)] = documented(
        "Their start-up takes so many times as long.", "a node must be started first", default=5.0
    )


class NoRoom(LastingEvent):
    """The cluster has room for fewer executors. Running ones stay."""

    kind: Literal["no-room"] = _name_of_kind()
    room: Annotated[int, quantity("executors", ge=1, le=100_000)] = documented(
        "Executors that there is room for.", "required: it defines the event"
    )


class MetricFault(LastingEvent):
    """Metrics are late, incomplete, or missing."""

    kind: Literal["metrics"] = _name_of_kind()
    delay_s: Annotated[float, quantity("s", ge=0, le=1e6)] = documented(
        "Age of every reading.", "none: only what is missing", default=0.0
    )
    frozen: bool = documented(
        "Whether every reading stays as it was when the event began.", "a cache that no longer answers", default=False
    )
    missing: tuple[Section, ...] = documented(
        "Missing sections: offsets, batch, running, cluster, queries, nodes.", "none: only a delay", default=()
    )

    _lists = field_validator("missing", mode="before")(tuples_of_lists)


class SinkLimit(LastingEvent):
    """The sink accepts no more than so many records/s."""

    kind: Literal["sink"] = _name_of_kind()
    records_per_s: Annotated[float, quantity("records/s", gt=0, le=1e12)] = documented(
        "The largest rate that it accepts.", "required: it defines the event"
    )


class SkewChange(LastingEvent):
    """The load is spread differently over the partitions."""

    kind: Literal["skew"] = _name_of_kind()
    skew: Annotated[float, quantity(ge=0, le=10)] = documented(
        "Exponent of the partitions' shares from now on, as partition_skew.", "one hot key is enough", default=1.0
    )


class CodeChange(TimedEvent):
    """New code is deployed: the query is stopped at the end of a batch and started again as another run."""

    kind: Literal["code"] = _name_of_kind()
    factor: Annotated[float, quantity(gt=0, le=1000)] = documented(
        "A record costs so many times as much from then on.", "required: it defines the event"
    )
    stage: str | None = documented("Name of the stage that changes; null: all.", "mostly one is changed", default=None)
    pause_s: Annotated[float, quantity("s", ge=0, le=86_400)] = documented(
        "From the stop until the query works again; executors are then cold.",
        "20 to 32 s were measured for a new driver",
        default=25.0,
    )


class LostNode(OfNode):
    """A node vanishes with the executors on it; when it comes back it is empty."""

    kind: Literal["node-lost"] = _name_of_kind()
    replaced_after_s: Annotated[float | None, _MOMENT] = documented(
        "When the cluster starts others in their place, on the first nodes with room; null: only at the next request.",
        "where executors are placed by name, nobody else starts them",
        default=None,
    )


class FullNode(OfNode):
    """A node has no room for further executors. Running ones stay."""

    kind: Literal["node-full"] = _name_of_kind()


Event = Annotated[
    SlowExecutor
    | SlowNode
    | DeadExecutor
    | RejectedRequests
    | LateRequests
    | NoRoom
    | MetricFault
    | SinkLimit
    | SkewChange
    | CodeChange
    | LostNode
    | FullNode,
    Field(discriminator="kind"),
]
