"""A job as a file: everything the simulated job is made of. See docs/jobs.md, which is made from these models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from rheostat.config.fields import FrozenModel, documented, reject
from rheostat.errors import Fault, InputError
from rheostat.model import Bounds, Objective
from rheostat.sim.events import CodeChange, Event, FullNode, LostNode, SlowNode
from rheostat.sim.nodes import NodeMap
from rheostat.sim.parts import Driver, ExecutorCost, Metrics, RecordModel, Rescale, Sink, Stage, State

__all__ = ["JOB_SCHEMA", "JobFile"]

JOB_SCHEMA: Final = "rheostat.job/1"

_MOST_EXECUTORS = 10_000
"""As many as there can be partitions: with more there is nothing for some of them."""


class JobFile(FrozenModel):
    """A job. Built by :func:`rheostat.sim.loading.load_job`, which names every fault at once."""

    job_schema: Literal["rheostat.job/1"] = Field(
        JOB_SCHEMA,
        alias="schema",
        description="Version of this format.",
        json_schema_extra={"unit": "", "why": "a file that says nothing is read as the present version"},
    )
    name: str = documented(
        "Name, for people.", "there is no default: scores are told apart by it", min_length=1, max_length=200
    )
    model: Literal["micro-batch", "record"] = documented(
        "micro-batch: Spark Structured Streaming, by `stages`; record: record at a time, by `record`.",
        "it is Spark's streaming queries that are scaled",
        default="micro-batch",
    )
    objective: str = documented(
        "What is to hold, `lag < DURATION [for PERCENT%]`.", "there is no default: nobody else knows how late is late"
    )
    executors: tuple[int, int] = documented(
        "Least and greatest number of executors, `[least, greatest]`.",
        "there is no default: it is what a run may cost",
        unit="executors",
    )
    start_executors: int | None = documented(
        "Executors at the start, warm; null: whoever runs the job chooses.",
        "a comparison starts every policy at what the first load needs",
        default=None,
        unit="executors",
        ge=1,
        le=100_000,
    )
    decide_every_s: float = documented(
        "Time between two decisions.", "the default of the live loop", default=15.0, unit="s", ge=0.2, le=3600
    )
    trigger_s: float = documented(
        "Interval of the trigger; 0: the next batch begins when the last one has ended.",
        "a common choice where the objective is a minute",
        default=10.0,
        unit="s",
        ge=0,
        le=3600,
    )
    partitions: int = documented(
        "Partitions of the source.",
        "divides among 2, 3, 4, 6, 8 and 12",
        default=24,
        unit="partitions",
        ge=1,
        le=10_000,
    )
    partition_skew: float = documented(
        "Exponent z of the partitions' shares, the k-th in proportion to 1 ÷ k^z; 0: all alike.",
        "producers spread records without a key evenly",
        default=0.0,
        ge=0,
        le=10,
    )
    partition_shares: tuple[float, ...] | None = documented(
        "Share of each partition, in place of partition_skew; any scale.",
        "measured shares are seldom known",
        default=None,
    )
    batch_cap: int | None = documented(
        "Most records in a batch (maxOffsetsPerTrigger), shared out over the partitions by what waits in them; "
        "null: all that waits.",
        "it depends on the job; without one an overloaded query takes ever longer batches",
        default=None,
        unit="records",
        ge=1,
        le=10**12,
    )
    stages: tuple[Stage, ...] = documented(
        "The stages of a batch, in order; for the model micro-batch.", "see each key below", default=()
    )
    driver: Driver = documented("What the driver adds to a batch.", "see each key below", default=Driver())
    executor: ExecutorCost = documented("What an executor costs.", "see each key below", default=ExecutorCost())
    state: State = documented("What state costs.", "see each key below", default=State())
    exponent: float = documented(
        "s slots do the work of s^exponent: below 1 they hinder each other.",
        "tasks that share nothing do not hinder each other",
        default=1.0,
        gt=0,
        le=1,
    )
    batch_noise_cv: float = documented(
        "Coefficient of variation of the work of a batch, mean 1, log-normal, one draw for each batch.",
        "none: a capacity is then a figure and not a distribution",
        default=0.0,
        ge=0,
        le=2,
    )
    record: RecordModel | None = documented(
        "Capacity of the model record.", "a micro-batch job has stages instead", default=None
    )
    nodes: NodeMap | None = documented(
        "The nodes that executors are on; null: they do not matter.",
        "on one site one is as good as another",
        default=None,
    )
    rescale: Rescale = documented("How the number is changed.", "see each key below", default=Rescale())
    sink: Sink = documented("What a batch writes to.", "see each key below", default=Sink())
    metrics: Metrics = documented("How the job is seen.", "see each key below", default=Metrics())
    events: tuple[Event, ...] = documented(
        "What happens meanwhile, each entry with its `kind`.", "nothing happens unless it is injected", default=()
    )

    @field_validator("executors", "partition_shares", "stages", "events", mode="before")
    @classmethod
    def _list_is_a_tuple(cls, given: Any) -> Any:
        return tuple(given) if isinstance(given, list) else given

    @field_validator("objective")
    @classmethod
    def _objective_is_understood(cls, text: str) -> str:
        try:
            Objective.parse(text)
        except InputError as error:
            raise reject([Fault("", f.given, f.allowed, f.message) for f in error.faults]) from None
        return text

    @field_validator("executors")
    @classmethod
    def _bounds_hold(cls, given: tuple[int, int]) -> tuple[int, int]:
        try:
            Bounds(*given)
        except InputError as error:
            raise reject([Fault("", f.given, f.allowed, f.message) for f in error.faults]) from None
        if given[1] > _MOST_EXECUTORS:
            message = "more than anybody simulates"
            raise reject([Fault("", str(given[1]), f"at most {_MOST_EXECUTORS} executors", message)])
        return given

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        faults = [*self._number_faults(), *self._model_faults(), *self._stage_faults(), *self._node_faults()]
        if faults:
            raise reject(faults)
        return self

    def _number_faults(self) -> Iterator[Fault]:
        if self.start_executors is not None and not self.n_min <= self.start_executors <= self.n_max:
            allowed = f"from {self.n_min} to {self.n_max}, the bounds"
            yield Fault("start_executors", str(self.start_executors), allowed, "the start is out of bounds")
        shares = self.partition_shares
        if shares is not None and (len(shares) != self.partitions or min(shares) < 0 or sum(shares) <= 0):
            allowed = f"{self.partitions} numbers ≥ 0, one for each partition, not all 0"
            yield Fault("partition_shares", str(shares), allowed, "the shares do not fit the partitions")
        if self.objective_s < 2 * self.trigger_s:
            allowed = f"at least two triggers, {2 * self.trigger_s:g} s"
            yield Fault("objective", self.objective, allowed, "it is shorter than two batches")

    def _model_faults(self) -> Iterator[Fault]:
        if self.model == "micro-batch" and not self.stages:
            yield Fault("stages", "nothing", "a list of stages", "a micro-batch job needs stages")
        if self.model == "record" and self.record is None:
            yield Fault("record", "nothing", "keys with values", "a record-at-a-time job needs its capacity")
        if self.model == "record" and self.stages:
            yield Fault("stages", f"{len(self.stages)} stages", "none", "a record-at-a-time job has no stages")

    def _stage_faults(self) -> Iterator[Fault]:
        names = [stage.name for stage in self.stages]
        for number, stage in enumerate(self.stages):
            if names.index(stage.name) != number:
                yield Fault(f"stages.{number}.name", stage.name, "each name once", "another stage has this name")
            if stage.tasks is None and stage.skew:
                message = "a stage that reads has the skew of the partitions: set partition_skew"
                yield Fault(f"stages.{number}.skew", f"{stage.skew:g}", "0, or a number of tasks", message)
        for number, event in enumerate(self.events):
            if isinstance(event, CodeChange) and event.stage is not None and event.stage not in names:
                allowed = ", ".join(names) or "null"
                yield Fault(f"events.{number}.stage", event.stage, allowed, "there is no such stage")

    def _node_faults(self) -> Iterator[Fault]:
        places = {} if self.nodes is None else self.nodes.places
        if places and sum(places.values()) < self.n_max:
            allowed = f"at most {sum(places.values())}, the places on its nodes"
            yield Fault("executors", str(list(self.executors)), allowed, "there are too few places for so many")
        if places and self.record is not None and self.record.round_trip_ms:
            message = "the round trips of the nodes say this"
            yield Fault("record.round_trip_ms", f"{self.record.round_trip_ms:g}", "0, with nodes", message)
        for number, event in enumerate(self.events):
            if isinstance(event, LostNode | FullNode | SlowNode) and event.node not in places:
                allowed = ", ".join(places) or "a job with nodes"
                yield Fault(f"events.{number}.node", event.node, allowed, "there is no such node")

    @property
    def n_min(self) -> int:
        """Least number of executors."""
        return self.executors[0]

    @property
    def n_max(self) -> int:
        """Greatest number of executors."""
        return self.executors[1]

    @property
    def bounds(self) -> Bounds:
        """Least and greatest number of executors."""
        return Bounds(*self.executors)

    @property
    def objective_s(self) -> float:
        """L, the lag that must not be exceeded."""
        return Objective.parse(self.objective).lag_s

    @property
    def period_s(self) -> float:
        """τ = max(trigger, L ÷ 2): how long a batch may take."""
        return max(self.trigger_s, self.objective_s / 2)

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of each partition in the load; they sum to 1."""
        return zipf(self.partitions, self.partition_skew) if self.partition_shares is None else _scaled(self)


def _scaled(job: JobFile) -> tuple[float, ...]:
    shares = job.partition_shares or ()
    whole = sum(shares)
    return tuple([share / whole for share in shares])


def zipf(count: int, exponent: float) -> tuple[float, ...]:
    """Shares in proportion to 1 ÷ k^exponent, k = 1 … count; they sum to 1.

    >>> zipf(4, 0.0), zipf(2, 1.0)
    ((0.25, 0.25, 0.25, 0.25), (0.6666666666666666, 0.3333333333333333))
    """
    weights = [k**-exponent for k in range(1, count + 1)]
    whole = sum(weights)
    return tuple([weight / whole for weight in weights])
