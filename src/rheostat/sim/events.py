"""Events of a simulated job: injected by its job file, or passed to the simulation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from rheostat.config.models import FrozenModel, documented, quantity

Section = Literal["offsets", "batch", "running", "cluster", "queries", "nodes"]


def _named() -> Any:
    """The field ``kind``, which every event has: its type is the one name that it takes."""
    return documented("Name of this kind.", "it tells the kinds apart")


def tuples_of_lists(given: Any) -> Any:
    """Turn the lists of a YAML or JSON value into tuples, at any depth of lists."""
    return tuple([tuples_of_lists(item) for item in given]) if isinstance(given, list) else given


class TimedEvent(FrozenModel):
    """What all events have: when it happens."""

    at_s: Annotated[float, quantity("s", ge=0, le=1e9)] = documented(
        "When it begins, counted from the start of the load.",
        "there is no default: nothing happens unless somebody says when",
    )


class _Lasting(TimedEvent):
    for_s: Annotated[float | None, quantity("s", gt=0, le=1e9)] = documented(
        "How long it lasts; null: to the end.", "most faults do not go away by themselves", default=None
    )

    @property
    def until_s(self) -> float:
        """When it ends; infinite if it does not."""
        return float("inf") if self.for_s is None else self.at_s + self.for_s


class SlowExecutor(_Lasting):
    """An executor, or the node under it, becomes slow."""

    kind: Literal["slow"] = _named()
    executor: Annotated[int, quantity(ge=0, le=100_000)] = documented(
        "Which one: its place, from 0, among those registered at that moment, the oldest first; "
        "beyond the last one it begins again.",
        "the oldest is there in every run",
        default=0,
    )
    factor: Annotated[float, quantity(ge=1, le=1000)] = documented(
        "Its work takes so many times as long.", "a node at a third of its speed is a common sight", default=3.0
    )


class SlowNode(_Lasting):
    """A node becomes slow: every executor on it, also one that comes to it meanwhile."""

    kind: Literal["slow-node"] = _named()
    node: str = documented("Its name.", "there is no default: it is the event")
    factor: Annotated[float, quantity(ge=1, le=1000)] = documented(
        "Work on it takes so many times as long.", "as for a slow executor", default=3.0
    )


class DeadExecutor(TimedEvent):
    """An executor dies. What its running tasks did is lost and done again elsewhere."""

    kind: Literal["dead"] = _named()
    executor: Annotated[int, quantity(ge=0, le=100_000)] = documented(
        "Which one, as for a slow one.", "the oldest is there in every run", default=0
    )
    replaced_after_s: Annotated[float | None, quantity("s", ge=0, le=1e9)] = documented(
        "When the cluster starts another one in its place; null: only when it is asked for again.",
        "a cluster manager replaces what was asked for at once; measured: 2.2 s with the start-up",
        default=0.0,
    )


class RejectedRequests(_Lasting):
    """The cluster refuses every request."""

    kind: Literal["reject"] = _named()


class LateRequests(_Lasting):
    """Executors that are asked for meanwhile start later."""

    kind: Literal["late"] = _named()
    factor: Annotated[float, quantity(ge=1, le=10_000)] = documented(
        "Their start-up takes so many times as long.", "a node must be brought up first", default=5.0
    )


class NoRoom(_Lasting):
    """The cluster has room for fewer executors. Those that run stay."""

    kind: Literal["no-room"] = _named()
    room: Annotated[int, quantity("executors", ge=1, le=100_000)] = documented(
        "Executors that there is room for.", "there is no default: it is the event"
    )


class MetricFault(_Lasting):
    """The job is seen late, in part, or not at all."""

    kind: Literal["metrics"] = _named()
    delay_s: Annotated[float, quantity("s", ge=0, le=1e6)] = documented(
        "Age of every reading.", "none: a gap alone", default=0.0
    )
    frozen: bool = documented(
        "Whether every reading stays as it was when the event began.", "a cache that no longer answers", default=False
    )
    missing: tuple[Section, ...] = documented(
        "Sections that are not seen: offsets, batch, running, cluster, queries, nodes.",
        "none: a delay alone",
        default=(),
    )

    _lists = field_validator("missing", mode="before")(tuples_of_lists)


class SinkLimit(_Lasting):
    """The sink takes no more than so many records/s."""

    kind: Literal["sink"] = _named()
    records_per_s: Annotated[float, quantity("records/s", gt=0, le=1e12)] = documented(
        "The most that it takes.", "there is no default: it is the event"
    )


class SkewChange(_Lasting):
    """The load spreads otherwise over the partitions."""

    kind: Literal["skew"] = _named()
    skew: Annotated[float, quantity(ge=0, le=10)] = documented(
        "Exponent of the partitions' shares from now on, as partition_skew.", "one hot key is enough", default=1.0
    )


class CodeChange(TimedEvent):
    """New code is deployed: the query is stopped at a batch's end and started again as another run."""

    kind: Literal["code"] = _named()
    factor: Annotated[float, quantity(gt=0, le=1000)] = documented(
        "A record costs so many times as much from then on.", "there is no default: it is the event"
    )
    stage: str | None = documented(
        "Name of the stage that changes; null: all of them.", "mostly one is changed", default=None
    )
    pause_s: Annotated[float, quantity("s", ge=0, le=86_400)] = documented(
        "From the stop until the query works again; its executors are cold then.",
        "measured: 20 to 32 s for a new driver",
        default=25.0,
    )


class LostNode(_Lasting):
    """A node vanishes, and the executors on it with it; when it comes back it is empty."""

    kind: Literal["node-lost"] = _named()
    node: str = documented("Its name.", "there is no default: it is the event")
    replaced_after_s: Annotated[float | None, quantity("s", ge=0, le=1e9)] = documented(
        "When the cluster starts others in their place, on the first nodes that have room; "
        "null: only when they are asked for again.",
        "where executors are placed by name nobody else starts them",
        default=None,
    )


class FullNode(_Lasting):
    """A node has no room for further executors. Those that run on it stay."""

    kind: Literal["node-full"] = _named()
    node: str = documented("Its name.", "there is no default: it is the event")


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
