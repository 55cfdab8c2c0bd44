"""A job as a file: everything the simulated job is made of. See docs/jobs.md, which is made from these models."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Annotated, Any, Final, Literal, Self

from pydantic import field_validator, model_validator

from rheostat.config.faults import validate
from rheostat.config.models import FrozenModel, documented, quantity, reject
from rheostat.decide.placement import grown
from rheostat.errors import Fault, InputError
from rheostat.model import Bounds, NodeReading, Nodes, Objective, RoundTrip
from rheostat.sim.events import CodeChange, Event, FullNode, LostNode, SlowNode, tuples_of_lists

# Sections of a job file.

_DAY = 86_400.0


class Distribution(FrozenModel):
    """A duration that varies: log-normal, by its median and its 95th percentile. Equal figures do not vary."""

    median_s: Annotated[float, quantity("s", ge=0, le=_DAY)] = documented(
        "Median.", "the middle of what was measured: half of all take longer"
    )
    p95_s: Annotated[float, quantity("s", ge=0)] = documented(
        "95th percentile, at least the median.", "what one in twenty exceeds tells how far it varies"
    )

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if self.p95_s < self.median_s or (self.p95_s > 0 and self.median_s == 0):
            message = "the 95th percentile lies below the median, or varies around 0"
            raise reject([Fault("p95_s", f"{self.p95_s:g}", f"≥ median_s ({self.median_s:g}) > 0", message)])
        return self


class Stage(FrozenModel):
    """A stage of a batch: tasks that share its records, one slot each."""

    name: str = documented(
        "Name, for people and for events that change its cost.",
        "there is no default: two stages must be told apart",
        min_length=1,
    )
    tasks: Annotated[int | None, quantity("tasks", ge=1, le=100_000)] = documented(
        "Number of tasks; null: one for each partition that has records, as a stage that reads has.",
        "the first stage of most jobs reads; after a shuffle it is spark.sql.shuffle.partitions",
        default=None,
    )
    cost_ms: Annotated[float, quantity("ms", ge=0, le=3_600_000)] = documented(
        "Slot time for one record that reaches the stage.", "there is no default: it is what the job is"
    )
    task_ms: Annotated[float, quantity("ms", ge=0, le=3_600_000)] = documented(
        "Slot time of a task besides its records: scheduling, start, state store, result.",
        "10 to 60 ms were seen on real clusters, more where a state store commits to a slow disk",
        default=20.0,
    )
    fetch_wait_s: Annotated[float, quantity("s", ge=0, le=60)] = documented(
        "A task of a stage that reads waits for the next record of its partition, at most so long.",
        "none. Spark's Kafka source has this wait, up to fetch.max.wait.ms (0.5 s), where records come slowly: it asks "
        "for the ends of the log on the connection on which a fetch still waits",
        default=0.0,
    )
    share: Annotated[float, quantity(ge=0, le=10_000)] = documented(
        "Records that reach the stage ÷ records of the batch; above 1 where records multiply.",
        "without a filter every record reaches every stage",
        default=1.0,
    )
    skew: Annotated[float, quantity(ge=0, le=10)] = documented(
        "Exponent z of the tasks' shares, the k-th in proportion to 1 ÷ k^z; 0: all alike. "
        "Not for a stage that reads: there the partitions have their own.",
        "hashed keys spread evenly until a few of them dominate",
        default=0.0,
    )
    barrier: bool = documented(
        "Whether it begins only when the stage before has ended; false: both share the slots at the same time.",
        "a shuffle is a barrier; two inputs of a join are none to each other",
        default=True,
    )
    stateful: bool = documented(
        "Whether its tasks keep state, which moves when executors are taken away.",
        "most stages keep none",
        default=False,
    )


class Driver(FrozenModel):
    """What the driver adds to every batch, whatever the executors do."""

    planning_s: Annotated[float, quantity("s", ge=0, le=3600)] = documented(
        "Before the first task: latest offsets, planning, write-ahead log.",
        "0.1 to 0.3 s on an object store or a local disk",
        default=0.2,
    )
    commit_s: Annotated[float, quantity("s", ge=0, le=3600)] = documented(
        "After the last task: commit of the offsets, bookkeeping.", "one or two small files; about 0.1 s", default=0.1
    )


class ExecutorCost(FrozenModel):
    """What an executor is, and what it costs to have another one."""

    cores: Annotated[int, quantity("slots", ge=1, le=1024)] = documented(
        "Task slots of an executor.", "one: the finest step of scaling", default=1
    )
    start_up: Distribution = documented(
        "From the request until it is registered.",
        "about what a pod takes on a node that has the image",
        default=Distribution(median_s=10.0, p95_s=20.0),
    )
    crowding: Annotated[float, quantity(ge=0, le=100)] = documented(
        "Share of a start-up, and of a cold first task, that each other executor adds which starts, or is cold, at the "
        "same time: with k others, × (1 + crowding × k).",
        "none where each starts on a machine of its own; 0.6 where all share two cores",
        default=0.0,
    )
    slows_neighbours: Annotated[float, quantity(ge=0, le=100)] = documented(
        "Slow-down of the running executors by each one that starts: with k, their work takes × (1 + share × k).",
        "none on machines of their own; about 0.25 where all share two cores",
        default=0.0,
    )
    cold_task_s: Annotated[float, quantity("s", ge=0, le=3600)] = documented(
        "Extra time of the first task in each slot: classes are loaded, Python workers start.",
        "2 to 7 s were seen with Python stages, under 1 s without",
        default=2.0,
    )


class State(FrozenModel):
    """What state costs."""

    commit_s: Annotated[float, quantity("s", ge=0, le=3600)] = documented(
        "Added to every batch after its stages; what each store adds to its own task stands in task_ms.",
        "stores commit within their tasks",
        default=0.0,
    )
    reload_s: Annotated[float, quantity("s", ge=0, le=_DAY)] = documented(
        "Extra time, once, of each task of a stateful stage whose store was on an executor that has been taken away.",
        "the snapshot is read from the checkpoint; seconds with larger state",
        default=0.0,
    )


class Rescale(FrozenModel):
    """How the number of executors is changed."""

    mode: Literal["live", "restart"] = documented(
        "live: executors join the running query and are taken away between two batches; "
        "restart: the query is stopped at a batch's end and started again with the new number.",
        "live is how Rheostat scales Spark; record-at-a-time engines restart",
        default="live",
    )
    pause: Distribution = documented(
        "With mode restart: from the stop until the query works again.",
        "20 to 32 s were measured for a new driver, 2 to 4 s within one",
        default=Distribution(median_s=25.0, p95_s=32.0),
    )
    room: Annotated[int | None, quantity("executors", ge=1, le=100_000)] = documented(
        "Executors that the cluster has room for; null: as many as may be asked for.",
        "a shortage is injected where it is the subject",
        default=None,
    )
    no_room_s: Annotated[float | None, quantity("s", gt=0, le=_DAY)] = documented(
        "A request is given up when no further executor came for so long; "
        "null: 3 × the 95th percentile of the start-up, at least 15 s.",
        "the rule of the live actuator",
        default=None,
    )
    gap_s: Annotated[float, quantity("s", ge=0, le=_DAY)] = documented(
        "How long only a gap between two triggers will do for a decrease; "
        "then also the end of a batch that is followed by the next at once.",
        "the patience of the live actuator",
        default=10.0,
    )
    safe_moment_s: Annotated[float, quantity("s", ge=0, le=_DAY)] = documented(
        "How long a batch's end is waited for before a decrease is given up.",
        "the patience of the live actuator",
        default=30.0,
    )
    listed_s: Annotated[float, quantity("s", ge=0, le=3600)] = documented(
        "The outcome of a decrease is known so long after it: Spark lists a removed executor that long.",
        "spark.standalone.executorRemoveDelayOnDisconnection",
        default=5.0,
    )


class Sink(FrozenModel):
    """What the batch writes to."""

    records_per_s: Annotated[float | None, quantity("records/s", gt=0, le=1e12)] = documented(
        "The most that the sink takes, in records of the batch; null: no limit.",
        "a limit is injected where it is the subject",
        default=None,
    )


class Metrics(FrozenModel):
    """How the job is seen."""

    delay_s: Annotated[float, quantity("s", ge=0, le=_DAY)] = documented(
        "Age of every reading when it is looked at.",
        "Spark's own driver is asked directly, which takes milliseconds",
        default=0.0,
    )


class RecordModel(FrozenModel):
    """The capacity of a record-at-a-time job: C(n, ND) = α · n^β − γ · ND, for n > 1; or a table.

    The form of Gesscale (ICCCN 2021), equation 1; ND is the greatest round trip between the nodes in use.
    """

    alpha: Annotated[float, quantity("records/s", gt=0, le=1e12)] = documented(
        "α: what one executor carries.", "there is no typical one; give a table or α", default=1000.0
    )
    beta: Annotated[float, quantity(gt=0, le=1)] = documented(
        "β: exponent of the number of executors.", "1: twice the executors carry twice as much", default=1.0
    )
    gamma: Annotated[float, quantity("records/s", ge=0, le=1e12)] = documented(
        "γ: loss for each millisecond of round trip.", "none on one site", default=0.0
    )
    round_trip_ms: Annotated[float, quantity("ms", ge=0, le=1e6)] = documented(
        "ND: greatest round trip between two nodes in use.", "none on one site", default=0.0
    )
    table: tuple[tuple[int, float], ...] | None = documented(
        "Measured capacities, `[[executors, records/s], …]`, ascending; between them a straight line, below the first "
        "and beyond the last one its rate for each executor. null: by the formula.",
        "the formula smooths, a table is what was measured",
        default=None,
    )
    commit_every_s: Annotated[float, quantity("s", gt=0, le=3600)] = documented(
        "What has been processed counts as committed at this interval.",
        "a look finds the position at most so old; shorter is finer and slower to simulate",
        default=2.0,
    )

    _lists = field_validator("table", mode="before")(tuples_of_lists)

    @field_validator("table")
    @classmethod
    def _table_ascends(cls, given: tuple[tuple[int, float], ...] | None) -> tuple[tuple[int, float], ...] | None:
        if given is None:
            return None
        numbers = [number for number, _ in given]
        positive = all(number >= 1 and rate > 0 for number, rate in given)
        if not given or not positive or numbers != sorted(set(numbers)):
            message = "the table is empty, does not ascend, or holds a figure that is not positive"
            raise reject([Fault("", str(given), "[[executors ≥ 1, records/s > 0], …], executors ascending", message)])
        return given


# Nodes of a job: how many executors each hosts, and the network round trips between them.

_MOST_SLOTS = 100_000
"""As many as a job may have executors."""


class NodeMap(FrozenModel):
    """Nodes with names, places for executors, and round trips between them; a name is the host of the executors on it.

    With the model record, ND is the greatest round trip between the nodes of the executors in use. With the model
    micro-batch nodes only say where executors are: the time of a batch does not depend on it. At the start the first
    executor is on `first` and each further one on the nearest free node. An executor that is asked for by name starts
    on that node or, while there is no room, not at all; one that nobody places starts on the first node that has room.
    """

    names: tuple[str, ...] = documented(
        "Names of the nodes.", "there is no default: without nodes the section is left out", min_length=1
    )
    slots: tuple[int, ...] | None = documented(
        "Executors that each node has room for; null: one each.", "one, as on the nodes of Gesscale", default=None
    )
    round_trips_ms: Annotated[tuple[tuple[float, ...], ...], quantity("ms")] = documented(
        "Round trips, one row for each node: symmetric, 0 from a node to itself.",
        "there is no default: it is what tells nodes apart",
    )
    first: str | None = documented(
        "Node of the first executor at the start; null: the first of the names.",
        "the first in the list is as good as any",
        default=None,
    )
    unmeasured: tuple[str, ...] = documented(
        "Nodes whose round trips are not told to the autoscaler.", "a map is mostly complete", default=()
    )

    _lists = field_validator("names", "slots", "unmeasured", "round_trips_ms", mode="before")(tuples_of_lists)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        faults = [*self._name_faults(), *self._slot_faults(), *self._trip_faults()]
        if faults:
            raise reject(faults)
        return self

    def _name_faults(self) -> Iterator[Fault]:
        for number, name in enumerate(self.names):
            if not name or self.names.index(name) != number:
                yield Fault(f"names.{number}", repr(name), "each name once", "nodes must be told apart")
        allowed = ", ".join(self.names)
        if self.first is not None and self.first not in self.names:
            yield Fault("first", repr(self.first), allowed, "there is no such node")
        for number, name in enumerate(self.unmeasured):
            if name not in self.names:
                yield Fault(f"unmeasured.{number}", repr(name), allowed, "there is no such node")

    def _slot_faults(self) -> Iterator[Fault]:
        slots = self.slots
        if slots is not None and (len(slots) != len(self.names) or min(slots) < 1 or max(slots) > _MOST_SLOTS):
            allowed = f"{len(self.names)} integers ≥ 1 and ≤ {_MOST_SLOTS}, one for each node"
            yield Fault("slots", str(list(slots)), allowed, "the places do not fit the nodes")

    def _trip_faults(self) -> Iterator[Fault]:
        rows, count = self.round_trips_ms, len(self.names)
        if len(rows) != count or any(len(row) != count for row in rows):
            given = f"{len(rows)} rows of {', '.join(sorted({str(len(row)) for row in rows})) or 'no'} numbers"
            yield Fault("round_trips_ms", given, f"{count} rows of {count}", "one row and column for each node")
            return
        for a in range(count):
            if rows[a][a] != 0:
                yield Fault(f"round_trips_ms.{a}.{a}", f"{rows[a][a]:g}", "0", "a node is no way from itself")
        for a, b in combinations(range(count), 2):
            if rows[a][b] < 0 or rows[a][b] != rows[b][a]:
                given = f"{rows[a][b]:g} there, {rows[b][a]:g} back"
                yield Fault(f"round_trips_ms.{a}.{b}", given, "≥ 0, the same both ways", "a round trip has one length")

    # --------------------------------------------------------------------------------------------- figures

    @property
    def places(self) -> dict[str, int]:
        """Executors that each node has room for, in the order of the file."""
        return dict(zip(self.names, self.slots or [1] * len(self.names), strict=True))

    def distance_ms(self, used: Iterable[str]) -> float:
        """ND: the greatest round trip among nodes in use, ms; 0 for one or none."""
        numbers = sorted({self.names.index(name) for name in used})
        return max((self.round_trips_ms[a][b] for a, b in combinations(numbers, 2)), default=0.0)

    def trips(self, names: Iterable[str]) -> tuple[RoundTrip, ...]:
        """The round trips among these nodes, sorted."""
        of = {name: number for number, name in enumerate(self.names)}
        return tuple([RoundTrip(a, b, self.round_trips_ms[of[a]][of[b]]) for a, b in combinations(sorted(names), 2)])

    def nearest(self, executors: int) -> tuple[str, ...]:
        """The nodes of the first executors: ``first``, then the nearest free one each time (S2, Algorithm 3)."""
        if executors < 1:
            return ()
        first, places = self.first or self.names[0], Counter(self.places)
        free = Counter(places) - Counter([first])
        rows = tuple([NodeReading(name, places[name] - free[name], free[name]) for name in sorted(places)])
        nodes = Nodes(0.0, rows, self.trips(self.names))
        return (first, *grown((first,), nodes, executors - 1))

    def least_ms(self, executors: int) -> float:
        """What ND of so many executors is at least, wherever they are, ms.

        One of them has all others within ND, so ND is no less than the way to the place of that rank next to a node.
        """
        if executors < 2:
            return 0.0
        ranked = [sorted(zip(row, self.places.values(), strict=True)) for row in self.round_trips_ms]
        return min(_trip_to_rank(executors, row) for row in ranked)


def _trip_to_rank(rank: int, ranked: Iterable[tuple[float, int]]) -> float:
    """Round trip to the place of that rank, ms; infinite if there are fewer places.

    >>> _trip_to_rank(3, [(0.0, 2), (20.0, 1)]), _trip_to_rank(4, [(0.0, 2), (20.0, 1)])
    (20.0, inf)
    """
    for ms, slots in ranked:
        rank -= slots
        if rank <= 0:
            return ms
    return math.inf


JOB_SCHEMA: Final = "rheostat.job/1"

_MOST_EXECUTORS = 10_000
"""As many as there can be partitions: with more there is nothing for some of them."""


class JobFile(FrozenModel):
    """A job. Built by :func:`job_of`, which names every fault at once."""

    job_schema: Literal["rheostat.job/1"] = documented(
        "Version of this format.",
        "a file that says nothing is read as the present version",
        default=JOB_SCHEMA,
        alias="schema",
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
    executors: Annotated[tuple[int, int], quantity("executors")] = documented(
        "Least and greatest number of executors, `[least, greatest]`.", "there is no default: it is what a run may cost"
    )
    start_executors: Annotated[int | None, quantity("executors", ge=1, le=100_000)] = documented(
        "Executors at the start, warm; null: whoever runs the job chooses.",
        "a comparison starts every policy at what the first load needs",
        default=None,
    )
    decide_every_s: Annotated[float, quantity("s", ge=0.2, le=3600)] = documented(
        "Time between two decisions.", "the default of the live loop", default=15.0
    )
    trigger_s: Annotated[float, quantity("s", ge=0, le=3600)] = documented(
        "Interval of the trigger; 0: the next batch begins when the last one has ended.",
        "a common choice where the objective is a minute",
        default=10.0,
    )
    partitions: Annotated[int, quantity("partitions", ge=1, le=10_000)] = documented(
        "Partitions of the source.", "divides among 2, 3, 4, 6, 8 and 12", default=24
    )
    partition_skew: Annotated[float, quantity(ge=0, le=10)] = documented(
        "Exponent z of the partitions' shares, the k-th in proportion to 1 ÷ k^z; 0: all alike.",
        "producers spread records without a key evenly",
        default=0.0,
    )
    partition_shares: tuple[float, ...] | None = documented(
        "Share of each partition, in place of partition_skew; any scale.",
        "measured shares are seldom known",
        default=None,
    )
    batch_cap: Annotated[int | None, quantity("records", ge=1, le=10**12)] = documented(
        "Most records in a batch (maxOffsetsPerTrigger), shared out over the partitions by what waits in them; "
        "null: all that waits.",
        "it depends on the job; without one an overloaded query takes ever longer batches",
        default=None,
    )
    stages: tuple[Stage, ...] = documented(
        "The stages of a batch, in order; for the model micro-batch.", "see each key below", default=()
    )
    driver: Driver = documented("What the driver adds to a batch.", "see each key below", default=Driver())
    executor: ExecutorCost = documented("What an executor costs.", "see each key below", default=ExecutorCost())
    state: State = documented("What state costs.", "see each key below", default=State())
    exponent: Annotated[float, quantity(gt=0, le=1)] = documented(
        "s slots do the work of s^exponent: below 1 they hinder each other.",
        "tasks that share nothing do not hinder each other",
        default=1.0,
    )
    batch_noise_cv: Annotated[float, quantity(ge=0, le=2)] = documented(
        "Coefficient of variation of the work of a batch, mean 1, log-normal, one draw for each batch.",
        "none: a capacity is then a figure and not a distribution",
        default=0.0,
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

    _lists = field_validator("executors", "partition_shares", "stages", "events", mode="before")(tuples_of_lists)

    @field_validator("objective", "executors")
    @classmethod
    def _value_is_valid(cls, given: Any) -> Any:
        try:
            Objective.parse(given) if isinstance(given, str) else Bounds(*given)
        except InputError as error:
            raise reject([Fault("", f.given, f.allowed, f.message) for f in error.faults]) from None
        return given

    @field_validator("executors")
    @classmethod
    def _maximum_is_limited(cls, given: tuple[int, int]) -> tuple[int, int]:
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
        if self.partition_shares is None:
            return zipf(self.partitions, self.partition_skew)
        whole = sum(self.partition_shares)
        return tuple([share / whole for share in self.partition_shares])


def zipf(count: int, exponent: float) -> tuple[float, ...]:
    """Shares in proportion to 1 ÷ k^exponent, k = 1 … count; they sum to 1.

    >>> zipf(4, 0.0), zipf(2, 1.0)
    ((0.25, 0.25, 0.25, 0.25), (0.6666666666666666, 0.3333333333333333))
    """
    weights = [k**-exponent for k in range(1, count + 1)]
    whole = sum(weights)
    return tuple([weight / whole for weight in weights])


def job_of(values: Mapping[str, Any], faults: Iterable[Fault] = ()) -> JobFile:
    """A job from the values of a job file; ``faults`` were found while it was read.

    Raises:
        InputError: all faults, fields as dotted keys.
    """
    return validate(JobFile, values, faults)
