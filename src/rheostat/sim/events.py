"""Events of a simulated job: injected by its job file, or passed to the simulation."""

from __future__ import annotations

from math import inf
from typing import Annotated, Literal

from pydantic import Field, field_validator

from rheostat.config.models import FrozenModel, quantity, tuples_of_lists

Section = Literal["offsets", "batch", "running", "cluster", "queries", "nodes"]

_MOMENT = quantity("s", ge=0, le=1e9)


class TimedEvent(FrozenModel):
    """An event at a moment."""

    at_s: Annotated[float, _MOMENT]
    """When it begins, from the start of the load. Required: an event happens at a given time."""


class LastingEvent(TimedEvent):
    """An event that may end."""

    for_s: Annotated[float | None, quantity("s", gt=0, le=1e9)] = None
    """How long it lasts; null: to the end. Default: most faults do not go away by themselves."""

    @property
    def until_s(self) -> float:
        """When it ends; infinite if it does not."""
        return inf if self.for_s is None else self.at_s + self.for_s


class OfNode(LastingEvent):
    """An event of one node."""

    kind: str
    node: str
    """Name of the node. Required: it defines the event."""


class SlowExecutor(LastingEvent):
    """An executor, or the node under it, becomes slow."""

    kind: Literal["slow"]
    executor: Annotated[int, quantity(ge=0, le=100_000)] = 0
    """Its place, from 0, among the registered executors, oldest first; counted again from 0 beyond the last. Default:
    the oldest is there in every run."""
    factor: Annotated[float, quantity(ge=1, le=1000)] = 3.0
    """Its work takes so many times as long. Default: a node at a third of its speed is common."""


class SlowNode(OfNode):
    """A node becomes slow, with every executor on it, also those that start there later."""

    kind: Literal["slow-node"]
    factor: Annotated[float, quantity(ge=1, le=1000)] = 3.0
    """Work on it takes so many times as long. Default: as for a slow executor."""


class DeadExecutor(TimedEvent):
    """An executor dies. The work of its running tasks is lost and done again elsewhere."""

    kind: Literal["dead"]
    executor: Annotated[int, quantity(ge=0, le=100_000)] = 0
    """Its place, as for a slow one. Default: the oldest is there in every run."""
    replaced_after_s: Annotated[float | None, _MOMENT] = 0.0
    """When the cluster starts another one in its place; null: only at the next request. Default: a cluster manager
    replaces it at once; 2.2 s with the start-up were measured."""


class ExcludedExecutor(LastingEvent):
    """Spark gives an executor no further task, after failures on it or on its host. Its running tasks end well."""

    kind: Literal["excluded"]
    executor: Annotated[int, quantity(ge=0, le=100_000)] = 0
    """Its place, as for a slow one. Default: the oldest is there in every run."""


class RejectedRequests(LastingEvent):
    """The cluster rejects every request."""

    kind: Literal["reject"]


class LateRequests(LastingEvent):
    """Executors that are requested meanwhile start later."""

    kind: Literal["late"]
    factor: Annotated[float, quantity(ge=1, le=10_000)] = 5.0
    """Their start-up takes so many times as long. Default: a node must be started first."""


class NoRoom(LastingEvent):
    """The cluster has room for fewer executors. Running ones stay."""

    kind: Literal["no-room"]
    room: Annotated[int, quantity("executors", ge=1, le=100_000)]
    """Executors that there is room for. Required: it defines the event."""


class MetricFault(LastingEvent):
    """Metrics are late, incomplete, or missing."""

    kind: Literal["metrics"]
    delay_s: Annotated[float, quantity("s", ge=0, le=1e6)] = 0.0
    """Age of every reading. Default: none: only what is missing."""
    frozen: bool = False
    """Whether every reading stays as it was when the event began. Default: a cache that no longer answers."""
    missing: tuple[Section, ...] = ()
    """Missing sections: offsets, batch, running, cluster, queries, nodes. Default: none: only a delay."""

    _lists = field_validator("missing", mode="before")(tuples_of_lists)


class SinkLimit(LastingEvent):
    """The sink accepts no more than so many records/s."""

    kind: Literal["sink"]
    records_per_s: Annotated[float, quantity("records/s", gt=0, le=1e12)]
    """The largest rate that it accepts. Required: it defines the event."""


class StarvedExecutors(LastingEvent):
    """Too few executors share the state: while there are fewer, one after the other dies and is replaced."""

    kind: Literal["starved"]
    fewer_than: Annotated[int, quantity("executors", ge=1, le=100_000)]
    """With at least so many, none dies. Required: it defines the event."""
    every_s: Annotated[float, quantity("s", ge=1, le=86_400)] = 60.0
    """Time between two deaths. Default: a store fills its memory within minutes."""


class FailingTasks(LastingEvent):
    """A share of the tasks fails and is done again, as where more connect to a database than it takes."""

    kind: Literal["failing"]
    share: Annotated[float, quantity(gt=0, le=0.95)]
    """Share of the attempts that fail. Required: it defines the event."""
    above: Annotated[int, quantity("executors", ge=0, le=100_000)] = 0
    """Only with more executors than this. Default: tasks fail whatever their number."""


class GarbageCollection(LastingEvent):
    """Memory is short: garbage collection takes a share of the task time, so tasks take longer."""

    kind: Literal["garbage"]
    share: Annotated[float, quantity(gt=0, le=0.95)]
    """Share of the task time. Required: it defines the event."""
    executors: Annotated[int | None, quantity("executors", ge=1, le=100_000)] = None
    """The share is that of so many executors; twice as many have half of it each, as they share the state. null: it is
    the same on any number. Default: each holds the same, as of a broadcast table."""


class FailingQuery(LastingEvent):
    """The query fails again and again, in the middle of a batch, and is started again as another run."""

    kind: Literal["query-fails"]
    after_s: Annotated[float, quantity("s", gt=0, le=86_400)] = 30.0
    """How long each run lasts. Default: Spark tries a task four times before it gives up."""
    pause_s: Annotated[float, quantity("s", ge=0, le=86_400)] = 20.0
    """From the failure until the query works again. Default: as for new code."""


class SkewChange(LastingEvent):
    """The load is spread differently over the partitions."""

    kind: Literal["skew"]
    skew: Annotated[float, quantity(ge=0, le=10)] = 1.0
    """Exponent of the partitions' shares from now on, as partition_skew. Default: one hot key is enough."""


class SlowPartition(LastingEvent):
    """The records of one partition are read slowly: its broker is slow, or its records are costly."""

    kind: Literal["slow-partition"]
    partition: Annotated[int, quantity(ge=0, le=9_999)] = 0
    """Its number; counted again from 0 beyond the last. Default: every job has it."""
    factor: Annotated[float, quantity(ge=1, le=10_000)] = 10.0
    """Its records take so many times as long in the stages that read. Default: it then takes most of a batch."""


class CodeChange(TimedEvent):
    """New code is deployed: the query is stopped at the end of a batch and started again as another run."""

    kind: Literal["code"]
    factor: Annotated[float, quantity(gt=0, le=1000)]
    """A record costs so many times as much from then on. Required: it defines the event."""
    stage: str | None = None
    """Name of the stage that changes; null: all. Default: mostly one is changed."""
    pause_s: Annotated[float, quantity("s", ge=0, le=86_400)] = 25.0
    """From the stop until the query works again; executors are then cold. Default: 20 to 32 s were measured for a new
    driver."""


class CostDrift(TimedEvent):
    """A record costs more and more, or less and less, as where a table grows. The query goes on as the same run."""

    kind: Literal["drift"]
    factor: Annotated[float, quantity(gt=0, le=1000)]
    """A record costs so many times as much at the end of it. Required: it defines the event."""
    over_s: Annotated[float, quantity("s", ge=60, le=1e9)] = 3600.0
    """How long it takes; then the cost stays. Default: figures of before are old by then."""


class LostNode(OfNode):
    """A node vanishes with the executors on it; when it comes back it is empty."""

    kind: Literal["node-lost"]
    replaced_after_s: Annotated[float | None, _MOMENT] = None
    """When the cluster starts others in their place, on the first nodes with room; null: only at the next request.
    Default: where executors are placed by name, nobody else starts them."""


class FullNode(OfNode):
    """A node has no room for further executors. Running ones stay."""

    kind: Literal["node-full"]


Event = Annotated[
    SlowExecutor
    | SlowNode
    | DeadExecutor
    | ExcludedExecutor
    | RejectedRequests
    | LateRequests
    | NoRoom
    | MetricFault
    | SinkLimit
    | StarvedExecutors
    | FailingTasks
    | GarbageCollection
    | FailingQuery
    | SkewChange
    | SlowPartition
    | CodeChange
    | CostDrift
    | LostNode
    | FullNode,
    Field(discriminator="kind"),
]

BESIDE_WORK = frozenset({"dead", "excluded", "reject", "late", "no-room", "metrics", "node-lost", "node-full"})
"""Kinds of events that make no batch longer."""
