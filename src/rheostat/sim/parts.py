"""The sections of a job file: what a batch costs, what an executor costs, how the number of them is changed."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import field_validator, model_validator

from rheostat.config.fields import FrozenModel, documented, reject
from rheostat.errors import Fault

__all__ = ["Distribution", "Driver", "ExecutorCost", "Metrics", "RecordModel", "Rescale", "Sink", "Stage", "State"]

_DAY = 86_400.0


class Distribution(FrozenModel):
    """A duration that varies: log-normal, by its median and its 95th percentile. Equal figures do not vary."""

    median_s: float = documented(
        "Median.", "the middle of what was measured: half of all take longer", unit="s", ge=0, le=_DAY
    )
    p95_s: float = documented(
        "95th percentile, at least the median.", "what one in twenty exceeds tells how far it varies", unit="s", ge=0
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
    tasks: int | None = documented(
        "Number of tasks; null: one for each partition that has records, as a stage that reads has.",
        "the first stage of most jobs reads; after a shuffle it is spark.sql.shuffle.partitions",
        default=None,
        unit="tasks",
        ge=1,
        le=100_000,
    )
    cost_ms: float = documented(
        "Slot time for one record that reaches the stage.",
        "there is no default: it is what the job is",
        unit="ms",
        ge=0,
        le=3_600_000,
    )
    task_ms: float = documented(
        "Slot time of a task besides its records: scheduling, start, state store, result.",
        "10 to 60 ms were seen on real clusters, more where a state store commits to a slow disk",
        default=20.0,
        unit="ms",
        ge=0,
        le=3_600_000,
    )
    fetch_wait_s: float = documented(
        "A task of a stage that reads waits for the next record of its partition, at most so long.",
        "none. Spark's Kafka source has this wait, up to fetch.max.wait.ms (0.5 s), where records come slowly: it asks "
        "for the ends of the log on the connection on which a fetch still waits",
        default=0.0,
        unit="s",
        ge=0,
        le=60,
    )
    share: float = documented(
        "Records that reach the stage ÷ records of the batch; above 1 where records multiply.",
        "without a filter every record reaches every stage",
        default=1.0,
        ge=0,
        le=10_000,
    )
    skew: float = documented(
        "Exponent z of the tasks' shares, the k-th in proportion to 1 ÷ k^z; 0: all alike. "
        "Not for a stage that reads: there the partitions have their own.",
        "hashed keys spread evenly until a few of them dominate",
        default=0.0,
        ge=0,
        le=10,
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

    planning_s: float = documented(
        "Before the first task: latest offsets, planning, write-ahead log.",
        "0.1 to 0.3 s on an object store or a local disk",
        default=0.2,
        unit="s",
        ge=0,
        le=3600,
    )
    commit_s: float = documented(
        "After the last task: commit of the offsets, bookkeeping.",
        "one or two small files; about 0.1 s",
        default=0.1,
        unit="s",
        ge=0,
        le=3600,
    )


class ExecutorCost(FrozenModel):
    """What an executor is, and what it costs to have another one."""

    cores: int = documented(
        "Task slots of an executor.", "one: the finest step of scaling", default=1, unit="slots", ge=1, le=1024
    )
    start_up: Distribution = documented(
        "From the request until it is registered.",
        "about what a pod takes on a node that has the image",
        default=Distribution(median_s=10.0, p95_s=20.0),
    )
    crowding: float = documented(
        "Share of a start-up, and of a cold first task, that each other executor adds which starts, or is cold, at the "
        "same time: with k others, × (1 + crowding × k).",
        "none where each starts on a machine of its own; 0.6 where all share two cores",
        default=0.0,
        ge=0,
        le=100,
    )
    slows_neighbours: float = documented(
        "Slow-down of the running executors by each one that starts: with k, their work takes × (1 + share × k).",
        "none on machines of their own; about 0.25 where all share two cores",
        default=0.0,
        ge=0,
        le=100,
    )
    cold_task_s: float = documented(
        "Extra time of the first task in each slot: classes are loaded, Python workers start.",
        "2 to 7 s were seen with Python stages, under 1 s without",
        default=2.0,
        unit="s",
        ge=0,
        le=3600,
    )


class State(FrozenModel):
    """What state costs."""

    commit_s: float = documented(
        "Added to every batch after its stages; what each store adds to its own task stands in task_ms.",
        "stores commit within their tasks",
        default=0.0,
        unit="s",
        ge=0,
        le=3600,
    )
    reload_s: float = documented(
        "Extra time, once, of each task of a stateful stage whose store was on an executor that has been taken away.",
        "the snapshot is read from the checkpoint; seconds with larger state",
        default=0.0,
        unit="s",
        ge=0,
        le=_DAY,
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
    room: int | None = documented(
        "Executors that the cluster has room for; null: as many as may be asked for.",
        "a shortage is injected where it is the subject",
        default=None,
        unit="executors",
        ge=1,
        le=100_000,
    )
    no_room_s: float | None = documented(
        "A request is given up when no further executor came for so long; "
        "null: 3 × the 95th percentile of the start-up, at least 15 s.",
        "the rule of the live actuator",
        default=None,
        unit="s",
        gt=0,
        le=_DAY,
    )
    gap_s: float = documented(
        "How long only a gap between two triggers will do for a decrease; "
        "then also the end of a batch that is followed by the next at once.",
        "the patience of the live actuator",
        default=10.0,
        unit="s",
        ge=0,
        le=_DAY,
    )
    safe_moment_s: float = documented(
        "How long a batch's end is waited for before a decrease is given up.",
        "the patience of the live actuator",
        default=30.0,
        unit="s",
        ge=0,
        le=_DAY,
    )
    listed_s: float = documented(
        "The outcome of a decrease is known so long after it: Spark lists a removed executor that long.",
        "spark.standalone.executorRemoveDelayOnDisconnection",
        default=5.0,
        unit="s",
        ge=0,
        le=3600,
    )


class Sink(FrozenModel):
    """What the batch writes to."""

    records_per_s: float | None = documented(
        "The most that the sink takes, in records of the batch; null: no limit.",
        "a limit is injected where it is the subject",
        default=None,
        unit="records/s",
        gt=0,
        le=1e12,
    )


class Metrics(FrozenModel):
    """How the job is seen."""

    delay_s: float = documented(
        "Age of every reading when it is looked at.",
        "Spark's own driver is asked directly, which takes milliseconds",
        default=0.0,
        unit="s",
        ge=0,
        le=_DAY,
    )


class RecordModel(FrozenModel):
    """The capacity of a record-at-a-time job: C(n, ND) = α · n^β − γ · ND, for n > 1; or a table.

    The form of Gesscale (ICCCN 2021), equation 1; ND is the greatest round trip between the nodes in use.
    """

    alpha: float = documented(
        "α: what one executor carries.",
        "there is no typical one; give a table or α",
        default=1000.0,
        unit="records/s",
        gt=0,
        le=1e12,
    )
    beta: float = documented(
        "β: exponent of the number of executors.", "1: twice the executors carry twice as much", default=1.0, gt=0, le=1
    )
    gamma: float = documented(
        "γ: loss for each millisecond of round trip.", "none on one site", default=0.0, unit="records/s", ge=0, le=1e12
    )
    round_trip_ms: float = documented(
        "ND: greatest round trip between two nodes in use.", "none on one site", default=0.0, unit="ms", ge=0, le=1e6
    )
    table: tuple[tuple[int, float], ...] | None = documented(
        "Measured capacities, `[[executors, records/s], …]`, ascending; between them a straight line, below the first "
        "and beyond the last one its rate for each executor. null: by the formula.",
        "the formula smooths, a table is what was measured",
        default=None,
    )
    commit_every_s: float = documented(
        "What has been processed counts as committed at this interval.",
        "a look finds the position at most so old; shorter is finer and slower to simulate",
        default=2.0,
        unit="s",
        gt=0,
        le=3600,
    )

    @field_validator("table", mode="before")
    @classmethod
    def _pairs_are_tuples(cls, given: Any) -> Any:
        return (
            tuple(tuple(pair) if isinstance(pair, list) else pair for pair in given)
            if isinstance(given, list)
            else given
        )

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
