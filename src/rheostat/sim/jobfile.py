"""A job as a file: everything the simulated job is made of. See docs/jobs.md, which is made from these models."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from itertools import combinations
from statistics import NormalDist
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import Field, field_validator, model_validator

from rheostat.config.faults import validate
from rheostat.config.models import FrozenModel, check_objective_or_bounds, quantity, raise_faults, tuples_of_lists
from rheostat.decide.placement import choose_nodes_to_add
from rheostat.errors import Fault
from rheostat.model import Bounds, NodeReading, Nodes, Objective, RoundTrip
from rheostat.sim.events import CodeChange, Event, LastingEvent, OfNode

E = TypeVar("E", bound=LastingEvent)

_MS = quantity("ms", ge=0, le=3_600_000)
_HOUR = quantity("s", ge=0, le=3600)
_DAY = quantity("s", ge=0, le=86_400)


_NORMAL = NormalDist()
_Z95 = _NORMAL.inv_cdf(0.95)
_STEPS = 1 << 52


def uniform(seed: int, name: str, number: int) -> float:
    """A uniform number in (0, 1), which depends only on the seed, its name and its number.

    >>> round(uniform(1, "start-up", 0), 6), round(uniform(1, "start-up", 1), 6)
    (0.309641, 0.23392)
    """
    digest = blake2b(f"{seed}:{name}:{number}".encode(), digest_size=8).digest()
    return ((int.from_bytes(digest, "big") >> 12) + 0.5) / _STEPS


def noise(cv: float, u: float) -> float:
    """The u-quantile of a log-normal factor of mean 1 and coefficient of variation ``cv``.

    >>> noise(0.0, 0.3), round(noise(0.2, 0.5), 6)
    (1.0, 0.980581)
    """
    sigma = math.sqrt(math.log(1 + cv * cv))
    return math.exp(sigma * _NORMAL.inv_cdf(u) - sigma * sigma / 2)


class Distribution(FrozenModel):
    """A log-normal duration, by its median and its 95th percentile. Equal figures: it does not vary."""

    median_s: Annotated[float, _DAY]
    """Median. Required: half of the measured values are longer."""
    p95_s: Annotated[float, quantity("s", ge=0)]
    """95th percentile, at least the median. Required: one in twenty of the measured values is longer."""

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if self.p95_s < self.median_s or (self.p95_s > 0 and self.median_s == 0):
            message = "the 95th percentile lies below the median, or varies around 0"
            raise_faults(Fault("p95_s", f"{self.p95_s:g}", f"≥ median_s ({self.median_s:g}) > 0", message))
        return self

    def quantile(self, u: float) -> float:
        """The u-quantile, s: median · (p95 ÷ median)^(z(u) ÷ z(0.95)).

        >>> spread = Distribution(median_s=10.0, p95_s=20.0)
        >>> spread.quantile(0.5), round(spread.quantile(0.95), 6)
        (10.0, 20.0)
        """
        if self.p95_s == self.median_s:
            return self.median_s
        return self.median_s * math.exp(_NORMAL.inv_cdf(u) / _Z95 * math.log(self.p95_s / self.median_s))


class Stage(FrozenModel):
    """A stage of a batch: tasks that share its records, one slot each."""

    name: Annotated[str, Field(min_length=1)]
    """Name; events refer to it. Required: stages must be distinguishable."""
    tasks: Annotated[int | None, quantity("tasks", ge=1, le=100_000)] = None
    """Number of tasks; null: one for each partition with records, as in a stage that reads. Default: most jobs read
    first; after a shuffle, set spark.sql.shuffle.partitions; with Kafka's minPartitions, that number."""
    cost_ms: Annotated[float, _MS]
    """Slot time for one record. Required: it defines the job."""
    task_ms: Annotated[float, _MS] = 20.0
    """Slot time of a task besides its records: scheduling, start, state store, result. Default: 10 to 60 ms on real
    clusters, more where a state store commits to a slow disk."""
    fetch_wait_s: Annotated[float, quantity("s", ge=0, le=60)] = 0.0
    """The longest time that a task of a stage that reads waits for the next record of its partition. Default: Spark's
    Kafka source waits up to fetch.max.wait.ms (0.5 s) where records come slowly."""
    share: Annotated[float, quantity(ge=0, le=10_000)] = 1.0
    """Records that reach the stage ÷ records of the batch. Default: without a filter, all records."""
    skew: Annotated[float, quantity(ge=0, le=10)] = 0.0
    """Exponent z of the tasks' shares, the k-th in proportion to 1 ÷ k^z; 0: equal. Not for a stage that reads, which
    has the skew of the partitions. Default: hashed keys spread evenly until a few of them dominate."""
    barrier: bool = True
    """Whether it waits for the end of the stage before; false: both share the slots. Default: a shuffle is a barrier;
    the two inputs of a join are not."""
    stateful: bool = False
    """Whether its tasks keep state, which moves when executors leave. Default: most stages keep none."""
    reads: Annotated[int, quantity("records", ge=0, le=10**12)] = 0
    """Records of other data than the input that each batch reads anew, in the time of task_ms. Default: most stages
    read none."""


class Driver(FrozenModel):
    """What the driver adds to every batch, however many executors there are."""

    planning_s: Annotated[float, _HOUR] = 0.2
    """Before the first task: offsets, planning, write-ahead log. Default: 0.1 to 0.3 s were measured."""
    commit_s: Annotated[float, _HOUR] = 0.1
    """After the last task: commit of the offsets, bookkeeping. Default: one or two small files."""


class ExecutorCost(FrozenModel):
    """What an executor is, and what a further one costs."""

    cores: Annotated[int, quantity("cores", ge=1, le=1024)] = 1
    """Cores of an executor. Default: one: the finest step of scaling."""
    task_cpus: Annotated[int, quantity("cores", ge=1, le=1024)] = 1
    """Cores that a task takes (spark.task.cpus); an executor has ⌊cores ÷ task_cpus⌋ slots. Default: that of Spark."""
    start_up: Distribution = Distribution(median_s=10.0, p95_s=20.0)
    """From the request to the registration. Default: about that of a pod on a node that has the image."""
    crowding: Annotated[float, quantity(ge=0, le=100)] = 0.0
    """Slow-down of a start-up and of cold first tasks by others at the same time: with k others, × (1 + crowding × k).
    Default: 0 on machines of their own; 0.6 where all share two cores."""
    slows_neighbours: Annotated[float, quantity(ge=0, le=100)] = 0.0
    """Slow-down of running executors by starting ones: with k starting, × (1 + share × k). Default: 0 on machines of
    their own; about 0.25 where all share two cores."""
    cold_task_s: Annotated[float, _HOUR] = 2.0
    """Extra time of the first task in each slot. Default: 2 to 7 s with Python stages, under 1 s without."""

    @model_validator(mode="after")
    def _has_slots(self) -> Self:
        if self.slots < 1:
            message = "a task takes more cores than an executor has"
            raise_faults(Fault("task_cpus", str(self.task_cpus), f"≤ cores ({self.cores})", message))
        return self

    @property
    def slots(self) -> int:
        """Tasks that an executor runs at a time."""
        return self.cores // self.task_cpus


class State(FrozenModel):
    """What state costs."""

    commit_s: Annotated[float, _HOUR] = 0.0
    """Added to every batch after its stages; the commit of each store belongs to task_ms. Default: stores commit within
    their tasks."""
    reload_s: Annotated[float, _DAY] = 0.0
    """Extra time, once, of each task of a stateful stage whose store was on a removed executor. Default: the snapshot
    is read from the checkpoint; seconds with larger state."""


class Rescale(FrozenModel):
    """How the number of executors is changed."""

    mode: Literal["live", "restart"] = "live"
    """live: executors join the running query and leave between two batches; restart: the query is stopped at the end of
    a batch and started again. Default: live is how Rheostat scales Spark; record-at-a-time engines restart."""
    pause: Distribution = Distribution(median_s=25.0, p95_s=32.0)
    """With mode restart: from the stop until the query works again. Default: 20 to 32 s were measured for a new driver,
    2 to 4 s within one."""
    room: Annotated[int | None, quantity("executors", ge=1, le=100_000)] = None
    """Executors that the cluster has room for; null: any number. Default: inject a shortage to test one."""
    no_room_s: Annotated[float | None, quantity("s", gt=0, le=86_400.0)] = None
    """A request is given up this long after the last executor came; null: 3 × the 95th percentile of the start-up, at
    least 15 s. Default: the rule of the live actuator."""
    gap_s: Annotated[float, _DAY] = 10.0
    """How long a decrease waits for a gap between two triggers; after it, the end of any batch will do. Default: that
    of the live actuator."""
    safe_moment_s: Annotated[float, _DAY] = 30.0
    """How long a decrease waits for the end of a batch before it is given up. Default: the live actuator's."""
    listed_s: Annotated[float, _HOUR] = 5.0
    """Time until the outcome of a decrease is known: Spark lists a removed executor that long. Default:
    spark.standalone.executorRemoveDelayOnDisconnection."""


class Sink(FrozenModel):
    """What the batch writes to."""

    records_per_s: Annotated[float | None, quantity("records/s", gt=0, le=1e12)] = None
    """The largest rate of the sink; null: no limit. Default: inject a limit to test one."""
    crowding: Annotated[float, quantity(ge=0, le=100)] = 0.0
    """Slow-down of the sink by further executors that write: n of them get its largest rate ÷ (1 + crowding × (n − 1)).
    Default: most sinks take as much from many connections."""


class Metrics(FrozenModel):
    """How the job is observed."""

    delay_s: Annotated[float, _DAY] = 0.0
    """Age of every reading. Default: Spark's driver answers within milliseconds."""
    work_seen: Annotated[float, quantity("share", ge=0, le=1)] = 1.0
    """Share of the time of a batch's tasks that is known to be its own; 0: none, so it is unknown. Default: jobs carry
    the run of their query; those of threads of a foreachBatch do not."""
    rows_per_offset: Annotated[float, quantity("rows", gt=0, le=100)] = 1.0
    """Rows that a batch reports to have read, by the offsets that it covered: below 1 some are no records (markers of
    transactions), above 1 several actions read them. Default: each offset is a record that is read once."""


class RecordModel(FrozenModel):
    """The capacity of a record-at-a-time job: C(n, ND) = α · n^β − γ · ND, for n > 1; or a table.

    The form of Gesscale (ICCCN 2021), equation 1; ND is the greatest round trip between the nodes in use.
    """

    alpha: Annotated[float, quantity("records/s", gt=0, le=1e12)] = 1000.0
    """α: the capacity of one executor. Default: none is typical: set α or a table."""
    beta: Annotated[float, quantity(gt=0, le=1)] = 1.0
    """β: exponent of the number of executors. Default: twice the executors carry twice as much."""
    gamma: Annotated[float, quantity("records/s", ge=0, le=1e12)] = 0.0
    """γ: loss for each millisecond of round trip. Default: none on one site."""
    round_trip_ms: Annotated[float, quantity("ms", ge=0, le=1e6)] = 0.0
    """ND: greatest round trip between two nodes in use. Default: none on one site."""
    table: tuple[tuple[int, float], ...] | None = None
    """Measured capacities, `[[executors, records/s], …]`, ascending; a straight line between them, the rate for each
    executor of the first and the last one beyond them. null: by the formula. Default: the formula smooths, a table is
    what was measured."""
    commit_every_s: Annotated[float, quantity("s", gt=0, le=3600)] = 2.0
    """Interval at which processed records are committed. Default: shorter is finer and slower to simulate."""

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
            raise_faults(Fault("", str(given), "[[executors ≥ 1, records/s > 0], …], executors ascending", message))
        return given


_MOST_SLOTS = 100_000
"""The largest number of executors of any job."""


class NodeMap(FrozenModel):
    """Nodes with names, slots for executors, and round trips between them; a name is the host of the executors on it.

    With the model record, ND is the greatest round trip between the nodes of the executors in use. With the model
    micro-batch, nodes only say where executors are and do not change the time of a batch. At the start the first
    executor is on `first` and each further one on the nearest free node. An executor that is requested for a node
    starts there or, without room, not at all; one requested without a node starts on the first node with room.
    """

    names: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of the nodes. Required: leave the section out instead."""
    slots: tuple[int, ...] | None = None
    """Executors that each node has room for; null: one each. Default: as on the nodes of Gesscale."""
    round_trips_ms: Annotated[tuple[tuple[float, ...], ...], quantity("ms")]
    """Round trips, one row for each node: symmetric, 0 from a node to itself. Required: they tell nodes apart."""
    first: str | None = None
    """Node of the first executor at the start; null: the first of the names. Default: any node will do."""
    unmeasured: tuple[str, ...] = ()
    """Nodes whose round trips the autoscaler does not know. Default: most maps are complete."""

    _lists = field_validator("names", "slots", "unmeasured", "round_trips_ms", mode="before")(tuples_of_lists)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        raise_faults(*self._name_faults(), *self._slot_faults(), *self._trip_faults())
        return self

    def _name_faults(self) -> Iterator[Fault]:
        for number, name in enumerate(self.names):
            if not name or self.names.index(name) != number:
                yield Fault(f"names.{number}", repr(name), "each name once", "nodes must be distinguishable")
        first = [] if self.first is None else [("first", self.first)]
        for field, name in [*first, *((f"unmeasured.{n}", name) for n, name in enumerate(self.unmeasured))]:
            if name not in self.names:
                yield Fault(field, repr(name), ", ".join(self.names), "there is no such node")

    def _slot_faults(self) -> Iterator[Fault]:
        slots = self.slots
        if slots is not None and (len(slots) != len(self.names) or min(slots) < 1 or max(slots) > _MOST_SLOTS):
            allowed = f"{len(self.names)} integers ≥ 1 and ≤ {_MOST_SLOTS}, one for each node"
            yield Fault("slots", str(list(slots)), allowed, "the slots do not fit the nodes")

    def _trip_faults(self) -> Iterator[Fault]:
        rows, count = self.round_trips_ms, len(self.names)
        if len(rows) != count or any(len(row) != count for row in rows):
            given = f"{len(rows)} rows of {', '.join(sorted({str(len(row)) for row in rows})) or 'no'} numbers"
            yield Fault("round_trips_ms", given, f"{count} rows of {count}", "one row and column for each node")
            return
        for a in range(count):
            if rows[a][a] != 0:
                yield Fault(f"round_trips_ms.{a}.{a}", f"{rows[a][a]:g}", "0", "the way from a node to itself takes 0")
        for a, b in combinations(range(count), 2):
            if rows[a][b] < 0 or rows[a][b] != rows[b][a]:
                given = f"{rows[a][b]:g} there, {rows[b][a]:g} back"
                yield Fault(f"round_trips_ms.{a}.{b}", given, "≥ 0, the same both ways", "a round trip has one length")

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
        return (first, *choose_nodes_to_add((first,), nodes, executors - 1))

    def least_ms(self, executors: int) -> float:
        """A lower bound of ND for so many executors on any nodes, ms.

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
"""As many as there can be partitions; more would have nothing to do."""


class JobFile(FrozenModel):
    """A job. Built by :func:`job_of`, which reports every fault at once."""

    job_schema: Annotated[Literal["rheostat.job/1"], Field(alias="schema")] = JOB_SCHEMA
    """Version of this format. Default: a file without it has the present version."""
    name: Annotated[str, Field(min_length=1, max_length=200)]
    """Name, shown in scores. Required: scores are listed by it."""
    model: Literal["micro-batch", "record"] = "micro-batch"
    """micro-batch: Spark Structured Streaming, by `stages`; record: record at a time, by `record`. Default: Rheostat
    scales Spark's streaming queries."""
    objective: str
    """The service level, `lag < DURATION [for PERCENT%]`. Required: only you know how late a result may be."""
    executors: Annotated[tuple[int, int], quantity("executors")]
    """Least and greatest number of executors, `[least, greatest]`. Required: it limits the cost."""
    start_executors: Annotated[int | None, quantity("executors", ge=1, le=100_000)] = None
    """Executors at the start, warm; null: the command chooses. Default: a comparison starts every policy with what the
    first load needs."""
    decide_every_s: Annotated[float, quantity("s", ge=0.2, le=3600)] = 15.0
    """Time between two decisions. Default: the default of the live loop."""
    trigger_s: Annotated[float, _HOUR] = 10.0
    """Trigger interval; 0: the next batch begins when the last one ends. Default: common with an objective of a
    minute."""
    partitions: Annotated[int, quantity("partitions", ge=1, le=10_000)] = 24
    """Partitions of the source. Default: divisible by 2, 3, 4, 6, 8 and 12."""
    partition_skew: Annotated[float, quantity(ge=0, le=10)] = 0.0
    """Exponent z of the partitions' shares, the k-th in proportion to 1 ÷ k^z; 0: equal. Default: records without a key
    spread evenly."""
    partition_shares: tuple[float, ...] | None = None
    """Share of each partition, in place of partition_skew; any scale. Default: shares are rarely measured."""
    batch_cap: Annotated[int | None, quantity("records", ge=1, le=10**12)] = None
    """Most records in a batch (maxOffsetsPerTrigger), divided among the partitions by what waits in them; null: no
    limit. Default: it depends on the job; without one an overloaded query takes ever longer batches."""
    min_offsets_per_trigger: Annotated[int | None, quantity("records", ge=1, le=10**12)] = None
    """No batch begins with fewer (minOffsetsPerTrigger) before max_trigger_delay_s; null: a batch takes what there is.
    Default: Spark's; few jobs trade lag for larger batches."""
    max_trigger_delay_s: Annotated[float, _DAY] = 900.0
    """Time after the last batch at which one begins with fewer than min_offsets_per_trigger. Default: Spark's (15m)."""
    stages: tuple[Stage, ...] = ()
    """The stages of a batch, in order; for the model micro-batch. Default: see each key below."""
    driver: Driver = Driver()
    """What the driver adds to a batch. Default: see each key below."""
    executor: ExecutorCost = ExecutorCost()
    """What an executor costs. Default: see each key below."""
    state: State = State()
    """What state costs. Default: see each key below."""
    exponent: Annotated[float, quantity(gt=0, le=1)] = 1.0
    """s slots do the work of s^exponent; below 1 they hinder each other. Default: tasks share nothing."""
    batch_noise_cv: Annotated[float, quantity(ge=0, le=2)] = 0.0
    """Coefficient of variation of a batch's work: log-normal, mean 1, one draw for each batch. Default: without noise,
    a capacity is one figure."""
    record: RecordModel | None = None
    """Capacity of the model record. Default: a micro-batch job has stages instead."""
    nodes: NodeMap | None = None
    """The nodes that executors are on; null: ignored. Default: on one site, all nodes are alike."""
    rescale: Rescale = Rescale()
    """How the number is changed. Default: see each key below."""
    sink: Sink = Sink()
    """What a batch writes to. Default: see each key below."""
    metrics: Metrics = Metrics()
    """How the job is observed. Default: see each key below."""
    beside: tuple[Literal["idle", "unmeasured"], ...] = ()
    """Further queries of the application, which use no slots. idle: on an empty topic; unmeasured: of a source of which
    it is not known how many records wait. Default: most applications have one query."""
    events: tuple[Event, ...] = ()
    """What happens meanwhile, each entry with its `kind`. Default: nothing happens unless it is injected."""

    _lists = field_validator("executors", "partition_shares", "stages", "beside", "events", mode="before")(
        tuples_of_lists
    )
    _values = field_validator("objective", "executors")(check_objective_or_bounds)

    @field_validator("executors")
    @classmethod
    def _maximum_is_limited(cls, given: tuple[int, int]) -> tuple[int, int]:
        if given[1] > _MOST_EXECUTORS:
            message = "more than a simulation supports"
            raise_faults(Fault("", str(given[1]), f"at most {_MOST_EXECUTORS} executors", message))
        return given

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        raise_faults(*self._number_faults(), *self._model_faults(), *self._stage_faults(), *self._node_faults())
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
            allowed = f"at most {sum(places.values())}, the slots of its nodes"
            yield Fault("executors", str(list(self.executors)), allowed, "the nodes have too few slots")
        if places and self.record is not None and self.record.round_trip_ms:
            message = "the round trips of the nodes apply"
            yield Fault("record.round_trip_ms", f"{self.record.round_trip_ms:g}", "0, with nodes", message)
        for number, event in enumerate(self.events):
            if isinstance(event, OfNode) and event.node not in places:
                allowed = ", ".join(places) or "a job with nodes"
                yield Fault(f"events.{number}.node", event.node, allowed, "there is no such node")

    def active(self, kind: type[E], at: float) -> list[E]:
        """The events of a kind that last at a time."""
        return [event for event in self.events if isinstance(event, kind) and event.at_s <= at < event.until_s]

    def edges(self, kind: type[LastingEvent]) -> list[float]:
        """Times at which an event of a kind begins or ends, ascending."""
        events = [event for event in self.events if isinstance(event, kind)]
        return sorted({edge for event in events for edge in (event.at_s, event.until_s) if edge < math.inf})

    @property
    def n_min(self) -> int:
        return self.executors[0]

    @property
    def n_max(self) -> int:
        return self.executors[1]

    @property
    def bounds(self) -> Bounds:
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


@lru_cache(maxsize=64)
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
