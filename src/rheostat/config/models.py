"""The settings, each with its unit, its limits, its meaning and the reason for its default.

Meaning and reason stand in the docstring under each field; the reference page is made from them. All models are frozen
and reject unknown keys.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from rheostat.config.shedding import SheddingGraph, Sink, declare_shedding
from rheostat.errors import Fault, InputError, did_you_mean
from rheostat.model import Bounds, Objective

# Building blocks of models


class FrozenModel(BaseModel):
    """A frozen model without unknown keys and without conversion between types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def quantity(unit: str = "", **limits: Any) -> Any:
    """The unit and the limits (``ge``, ``gt``, ``le``) of a field, for its ``Annotated`` type."""
    return Field(json_schema_extra={"unit": unit}, **limits)


def reject(faults: list[Fault]) -> PydanticCustomError:
    """A pydantic error that carries faults; their fields are relative to the place where it is raised."""
    return PydanticCustomError("faults", "{message}", {"message": faults[0].message, "faults": tuple(faults)})


def raise_faults(*faults: Fault) -> None:
    """Reject what is validated, if there are faults."""
    if faults:
        raise reject(list(faults))


def tuples_of_lists(given: Any) -> Any:
    """Turn the lists of a YAML or JSON value into tuples, at any depth of lists."""
    return tuple([tuples_of_lists(item) for item in given]) if isinstance(given, list) else given


def check_objective_or_bounds(given: str | tuple[int, int] | None) -> Any:
    """Reject a text that is no objective, and numbers that are no bounds."""
    try:
        if given is not None:
            Objective.parse(given) if isinstance(given, str) else Bounds(*given)
    except InputError as error:
        raise_faults(*(replace(fault, field="") for fault in error.faults))
    return given


# Guard

_SECONDS = quantity("s", ge=0, le=86_400)
_BATCHES = quantity("batches", ge=0, le=1000)
_SHARE = quantity("share", ge=0, le=1)
_EXECUTORS = quantity("executors", ge=1, le=100_000)

AlignTo = Literal["nothing", "waves", "partitions", "state"]


class GuardSettings(FrozenModel):
    """Limits on the recommendations of every policy."""

    max_age_cycles: Annotated[float, quantity("sample periods", ge=1, le=1000)] = 2.0
    """Metrics older than this many sample periods are stale: the number of executors is held. Default: one late sample
    is normal, two in a row mean that the job is no longer observed."""
    metrics_delay_s: Annotated[float, quantity("s", ge=0, le=3600)] = 0.0
    """Known delay of all metrics; max_age_cycles counts beyond it. Default: Spark's driver answers directly; metrics
    from a monitoring system may be minutes old."""
    warm_up_s: Annotated[float, _SECONDS] = 0.0
    """No decrease before a query has run for this time. Default: the number of batches shows better than time whether a
    job is warm, see warm_up_batches."""
    warm_up_batches: Annotated[int, _BATCHES] = 2
    """No decrease until this many batches have finished since the query started or the number of executors changed.
    Default: the first batch on new executors is cold and does not show their capacity."""
    hold_s: Annotated[float | None, _SECONDS] = None
    """Hold after a change of executors; null: hold until hold_batches have finished. Default: the job itself shows when
    it has recovered; S1 waits a fixed 240 s."""
    hold_batches: Annotated[int, _BATCHES] = 1
    """With hold_s null: hold until this many batches that started at the new number have finished. Default: one cold
    batch is what a change costs when executors join a running query."""
    hold_fallback_s: Annotated[float, _SECONDS] = 240.0
    """With hold_s null: the hold ends after this time at the latest. Default: the hold of S1, so that it never lasts
    longer than the published one."""
    hold_both: bool = False
    """Whether the hold also blocks increases; else only decreases. Default: a surge needs executors at once; S1 makes
    no decision during its hold."""
    largest_step_up: Annotated[int | None, _EXECUTORS] = None
    """The largest increase by one decision; null: no limit. Default: a surge needs its executors at once, and the
    bounds limit the cost."""
    largest_step_down: Annotated[int | None, _EXECUTORS] = 1
    """The largest decrease by one decision, or a third of the current target where that is more; null: no limit.
    Default: one at a time, as in S1: a wrong decrease costs little before it is noticed."""
    cooldown_up_s: Annotated[float, _SECONDS] = 0.0
    """Least time between a change and the next increase. Default: none, as in S1: waiting under a rising load builds
    backlog."""
    cooldown_down_s: Annotated[float, _SECONDS] = 60.0
    """Least time between a change and the next decrease. Default: four sample periods: the effect of a change is
    visible before an executor is removed."""
    failure_window_s: Annotated[float, _SECONDS] = 60.0
    """No decrease if tasks have failed within this time; 0: failures are ignored. Default: four sample periods: retried
    tasks distort rates and batch times for about as long."""
    catching_up: bool = True
    """Whether decreases are blocked while the backlog exceeds that of a healthy job. Default: the executors are needed
    until the backlog is processed."""
    no_room_patience_s: Annotated[float, _SECONDS] = 15.0
    """Least time that executors are waited for, each, before a request counts as not granted for now (`NO_ROOM`); three
    start-up times where those are longer. The request stands meanwhile and afterwards. Default: an executor on a node
    that is there starts within seconds."""
    no_room_patience_max_s: Annotated[float, _SECONDS] = 600.0
    """Limit of that time, which each wait in vain doubles until a request is granted. Default: a cluster that starts
    nodes takes minutes."""
    no_room_backoff_s: Annotated[float, _SECONDS] = 60.0
    """Time without further increases after a request that the cluster did not grant; doubles with each one in a row.
    Default: a full cluster rarely has room again within seconds."""
    no_room_backoff_max_s: Annotated[float, _SECONDS] = 600.0
    """Upper limit of the doubled no_room_backoff_s. Default: ten minutes: new room is not left unused for longer."""

    failover: bool = False
    """Whether a region's traffic has failed over: no decrease until it is back. Can be switched while the job runs.
    Default: only operators know of a failover; increases continue."""
    failover_return_s: Annotated[float, _SECONDS] = 300.0
    """No decrease for this long after `failover` was switched off. Default: traffic returns over minutes and needs the
    executors."""
    tolerance: Annotated[float, _SHARE] = 0.0
    """Ignore changes of at most this share of the current number; 0: none are ignored. Default: one executor in twenty
    is worth a change; the policy hpa has its own tolerance, 0.1 of its metric."""
    align_to: AlignTo = "nothing"
    """Align the number with waves of tasks over the partitions, with even shares of the partitions, or with even shares
    of the state's partitions. Default: the read stage is not always the bottleneck; try it where it is, or where state
    is large."""
    align_most: Annotated[float, _SHARE] = 0.34
    """Largest increase by alignment, as a share of the desired number; if more is needed, nothing is added. Default: 3
    executors go to 4 where that takes each slot from two partitions to one; 51 never go to 100."""
    state_partitions: Annotated[int, quantity("partitions", ge=1, le=1_000_000)] = 200
    """With align_to state: the number of state partitions, `spark.sql.shuffle.partitions` of the first start. Default:
    the default of Spark."""
    most_partitions: Annotated[float | None, quantity("partitions", gt=0, le=1_000_000)] = None
    """No decrease that leaves a slot with more partitions than this; null: no limit. Default: memory grows with the
    partitions of an executor, by an amount that depends on the job."""
    batch_cap: bool = True
    """Whether increases are blocked while the batch cap (maxOffsetsPerTrigger), not the executors, limits the rate.
    Default: full batches that end before their trigger do not get faster with more executors."""
    sick_sink: bool = True
    """Whether increases are blocked while batches wait for their sink or for the driver. Default: executors that wait
    cost money and do not help."""
    replace_slow: bool = False
    """Whether a slow executor is replaced: one is added, then the slow one is removed. Default: slowness is inferred,
    and with unknown nodes the new executor may start on the same slow node."""
    scale_down_hold_s: Annotated[float, _SECONDS] = 0.0
    """A decrease goes no lower than the largest recommendation within this time; 0: disabled. Default: policies that
    need it have their own; it would delay each decrease of the others."""
    round_trip_cooldowns: Annotated[float, quantity("cooldowns", ge=0, le=1000)] = 2.0
    """Least time between an increase and the next decrease, as a multiple of cooldown_down_s. Default: up and down
    within two cooldowns costs two changes without benefit."""
    most_round_trips: Annotated[int | None, quantity("round trips", ge=1, le=1000)] = 20
    """Most decreases within an hour that follow an increase; null: no limit. Default: a net under policies that price
    changes themselves; none of ours comes near it."""
    quota_cores: Annotated[int | None, quantity("cores", ge=1, le=10_000_000)] = None
    """Largest number of cores of all executors; null: no quota. Default: bounds count executors, a quota counts
    cores."""
    ineffective_share: Annotated[float | None, quantity("share", gt=0, le=1)] = 0.3
    """Least share of the expected rate increase, (after ÷ before − 1) of the rate before. An increase that achieves
    less is undone once, and none follows for ineffective_s; null: disabled. Default: below noise and sublinear scaling:
    something other than executors limits the job."""
    ineffective_s: Annotated[float, quantity("s", ge=0, le=604_800)] = 600.0
    """How long no increase follows an ineffective one, doubled each time in a row. Default: ten minutes: the bottleneck
    may have changed, and trying costs one change."""
    ineffective_max_s: Annotated[float, quantity("s", ge=0, le=604_800)] = 86_400.0
    """The most that this time grows to; it starts again when the limit of the job has changed. Default: a bottleneck
    that is still there is tried once a day."""
    rescale_catch_up_lags: Annotated[float | None, quantity("lags of the objective", gt=0, le=10_000)] = 2.0
    """Time to catch up with the lag that a change itself adds; counts for the size and for whether to wait; null: the
    cost of a change is ignored. Default: as in the policy reactive; has no effect where changes are cheap."""

    @model_validator(mode="after")
    def _back_off_grows(self) -> Self:
        for name, what in (("no_room_backoff", "back-off"), ("no_room_patience", "patience")):
            first, most = getattr(self, f"{name}_s"), getattr(self, f"{name}_max_s")
            if most < first:
                message = f"the {what} would start above its limit"
                raise_faults(Fault(f"{name}_max_s", f"{most:g}", f"≥ {name}_s ({first:g})", message))
        return self


# Workers


RoundTrips = Mapping[str, Mapping[str, float]]
"""Node → node → ms."""

_ADDRESS = "http://HOST:PORT or https://HOST:PORT, each once"
_NAMED = "NAME=http://HOST:PORT, each name and each address once"


class WorkersSettings(FrozenModel):
    """The cluster layer, for the actuator ``workers``."""

    nodes: tuple[str, ...] = ()
    """Addresses of the node servers, `http://HOST:PORT` or `NAME=http://HOST:PORT`; a node without a name here has that
    of its server. See [node.md](node.md). Default: they depend on your cluster."""
    backup: Annotated[int, quantity("Workers", ge=0, le=1000)] = 2
    """Hot standby: registered, unused Workers on all nodes together. Default: the standby of S1; a requested executor
    starts at once on a running Worker."""
    token_file: Annotated[Path | None, Field(strict=False)] = None
    """File with the token for the node servers; null: the variable RHEOSTAT_NODE_TOKEN, if set. Default: a secret does
    not belong in a settings file or the journal."""
    timeout_s: Annotated[float, quantity("s", ge=0.1, le=60)] = 2.0
    """Timeout of a node server; after it, the server is not asked for a while. Default: an answer takes milliseconds,
    and an increase waits for it."""
    every_s: Annotated[float, quantity("s", ge=1, le=3600)] = 15.0
    """Time between two checks of the standby while the number of executors is unchanged. Default: a lost Worker matters
    only at the next increase, and a check costs one request a node."""

    round_trips_ms: Annotated[Literal["measured"] | RoundTrips | None, quantity("ms")] = None
    """Network round trips between the nodes: `measured` by the node servers, or given, as in `{near: {mid: 20, far:
    300}}`, for named nodes. With either, each change chooses the nodes: executors are added on near nodes first and
    removed from far nodes first. null: nodes are ignored. Default: most clusters are in one place."""

    @field_validator("nodes", mode="before")
    @classmethod
    def _addresses_are_valid(cls, given: Any) -> Any:
        if not isinstance(given, list | tuple):
            return given
        raise_faults(*_node_faults(given))
        return tuple(given)

    @field_validator("round_trips_ms", mode="before")
    @classmethod
    def _round_trips_hold(cls, given: Any, info: ValidationInfo) -> Any:
        if not isinstance(given, Mapping):
            return given
        nodes = info.data.get("nodes")
        nameless = [text for text in nodes or () if named_address(text)[0] is None]
        names = None if nodes is None else {name for name, _ in map(named_address, nodes) if name is not None}
        message = "the round trips go by names, and these nodes have none in workers.nodes"
        unnamed = [Fault("", ", ".join(nameless), "NAME=http://HOST:PORT", message)] if nameless else []
        raise_faults(*unnamed, *round_trip_faults(given, names))
        return given

    @property
    def named_nodes(self) -> tuple[tuple[str | None, str], ...]:
        """Name, None if only the server knows it, and address of each node."""
        return tuple(named_address(text) for text in self.nodes)


def _node_faults(given: Sequence[Any]) -> Iterator[Fault]:
    """A fault for each invalid node; fields are indices in the list."""
    named = [named_address(each) if isinstance(each, str) else (None, "") for each in given]
    for place, (each, (name, address)) in enumerate(zip(given, named, strict=True)):
        wrong = list(_wrong_with(name, address, named[:place])) if isinstance(each, str) else ["this is no text"]
        if wrong:
            shown = each if isinstance(each, str) else repr(each)
            yield Fault(str(place), shown, _ADDRESS if name is None else _NAMED, "; ".join(wrong))


def _wrong_with(name: str | None, address: str, before: Sequence[tuple[str | None, str]]) -> Iterator[str]:
    if not is_node_address(address):
        scheme = "" if "://" in address or not is_node_address(f"http://{address}") else "; it lacks http:// before it"
        yield f"this is no address of a node server{scheme}"
    elif address in [each for _, each in before]:
        yield "this address stands there twice"
    if name is not None and not is_node_name(name):
        yield f"{name!r} is no name for a node: letters, digits, - and _, at most 41"
    elif name is not None and name in [each for each, _ in before]:
        yield f"the name {name!r} stands there twice"


# Metrics


class MetricsSettings(FrozenModel):
    """Rheostat's metrics, for Prometheus."""

    port: Annotated[int | None, quantity(ge=1, le=65_535)] = None
    """Port of the driver's metrics endpoint, `/metrics`; null: no endpoint. Needs the extra `metrics`. Default: a port
    is opened only on request."""
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address to listen on; `0.0.0.0` for all. Anyone who can reach it can read the metrics. Default: loopback: the
    metrics are not visible to other machines by default."""

    @field_validator("host")
    @classmethod
    def _host_is_an_address(cls, given: str) -> str:
        if not _is_host(given):
            rest = given.split("://")[-1].split("/")[0]
            port = re.fullmatch(r"\[?(.+?)\]?:(\d+)", rest)
            meant = "" if port is None else f": say host: {port[1]} and port: {port[2]}"
            message = f"this is no address alone{meant}"
            raise_faults(Fault("", given, "an address or a name, without http:// and without a port", message))
        return given


def _is_host(text: str) -> bool:
    """Whether this can be an address to listen on.

    >>> _is_host("0.0.0.0"), _is_host("::1"), _is_host("driver-1.local"), _is_host("localhost:9090")
    (True, True, True, False)
    """
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return re.fullmatch(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?", text) is not None
    return True


# Shedding


class SinkSettings(FrozenModel):
    """A sink of the shedding graph, as in :class:`~rheostat.config.shedding.Sink`."""

    name: str
    priority: int = 0
    minimum_accuracy: Annotated[float, Field(allow_inf_nan=True)] = 0.0  # the graph says what is wrong with it
    measure: str = "records"
    measure_options: Mapping[str, Any] = {}


class SheddingSettings(FrozenModel):
    """Where records may be dropped when there are no more executors to have."""

    sinks: tuple[SinkSettings, ...] = ()
    """Each with its `name`, its `priority` (an integer of any sign, 0), its `minimum_accuracy` (share of the offered
    records that must reach it, 0), and its `measure` with `measure_options` if another accuracy is meant. Default:
    without sinks nothing is dropped."""
    sources: Mapping[str, tuple[str, ...]] | None = None
    """Outside sources, and to which tasks or sinks each leads; null: one, `source`, that leads to every sink. Default:
    most jobs have one topic."""
    tasks: Mapping[str, tuple[str, ...]] = {}
    """Tasks between sources and sinks, likewise. Default: none."""
    by_key: tuple[str, ...] = ()
    """Edges that keep or drop all records of a key together, as `start>end`. Default: none."""
    by_value: tuple[str, ...] = ()
    """Edges that keep the records of greater value first, as `start>end`. Default: none."""
    orders: Annotated[Path | None, Field(strict=False)] = None
    """The file that the source reads its orders from, its option `orders`. Default: `Shedding` names one of its own."""

    @field_validator("sinks", "by_key", "by_value", mode="before")
    @classmethod
    def _lists(cls, given: Any) -> Any:
        return tuples_of_lists(given)

    @field_validator("sources", "tasks", mode="before")
    @classmethod
    def _lists_of_names(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {name: tuples_of_lists(ends) for name, ends in given.items()}

    @model_validator(mode="after")
    def _is_a_graph(self) -> Self:
        given = self.sources is not None or self.tasks or self.by_key or self.by_value or self.orders is not None
        try:
            if self.sinks or given:
                self._declare()
        except InputError as error:
            raise_faults(*error.faults)
        return self

    @property
    def graph(self) -> SheddingGraph | None:
        """The declared graph; None: nothing may be dropped."""
        return self._declare() if self.sinks else None

    def _declare(self) -> SheddingGraph:
        sinks = [Sink(**each.model_dump()) for each in self.sinks]
        return declare_shedding(sinks, self.sources, self.tasks, by_key=self.by_key, by_value=self.by_value)


Mode = Literal["act", "watch", "dry-run"]


class Settings(FrozenModel):
    """Everything that can be set for one job.

    Built by :func:`rheostat.config.loading.load_settings`, which reports every fault at once as an ``InputError``;
    building it directly raises pydantic's ``ValidationError``.
    """

    objective: str
    """The service level: `lag < DURATION [for PERCENT%]`, percent of the time, 99 by default. Required: only you know
    how late a result may be."""
    executors: Annotated[tuple[int, int] | None, quantity("executors")] = None
    """Least and greatest number of executors, `[least, greatest]`; null: watch only. Default: nothing is scaled without
    explicit bounds."""
    mode: Mode = "watch"
    """act: scale; dry-run: decide and record only; watch: observe and assess only. If it is not set: act with bounds in
    `executors`, else watch. Default: bounds are given to be used."""
    profile: Literal["default", "demo", "faithful"] = "default"
    """A named set of values for the other keys, which override it. Default: for production; demo is for runs of
    minutes, faithful has the constants of S1 and no guard."""
    sample_s: Annotated[float, quantity("s", ge=0.2, le=3600)] = 15.0
    """Time between two samples; each sample makes one decision. Default: the check interval of S1 in exploration."""
    rate_window_s: Annotated[float, quantity("s", ge=1, le=86_400)] = 60.0
    """Window over which rates and the busy share are averaged. Default: four sample periods: smooths single batches,
    follows a rise within a minute."""
    policy: Annotated[str, Field(min_length=1)] = "reactive"
    """Name of a registered policy, or `NAME:PRESET`: with the option `preset`, as in `hpa:faithful`. Default: needs no
    history; corrects a surplus or a violation within minutes."""
    policy_options: Mapping[str, Any] = {}
    """Options of that policy, checked by the policy itself. Default: every policy has defaults of its own."""
    preset: Literal["default", "faithful"] = "default"
    """Defaults of the policy: Rheostat's, or those of its paper. Default: the defaults correct the papers; faithful is
    for comparisons."""
    queries: tuple[str, ...] | None = None
    """Names or ids of the streaming queries to control; null: all of the session. Default: the queries of a session
    share its executors."""
    allow_redone_work: bool = False
    """Whether an executor may be removed even if its running tasks or map output are then recomputed. Default: a
    decrease is never urgent enough to discard work."""
    journal: Annotated[Path | None, Field(strict=False)] = None
    """Folder of the journal; null: no journal is written. Default: files are written only on request."""
    state: Annotated[Path | None, Field(strict=False)] = None
    """Folder of the state that survives a restart of the driver, written by one controller at a time; null: next to the
    journal, if there is one. Default: one folder to keep for one job."""
    actuator: Annotated[str, Field(min_length=1)] = "executors"
    """Name of a registered actuator. executors: change the executors of the application; workers: also change the
    Workers of the cluster, through node servers, with some in hot standby. Default: most clusters have fixed ones."""
    workers: WorkersSettings = WorkersSettings()
    """The cluster layer, see below; for the actuator workers. Default: see each key below."""
    metrics: MetricsSettings = MetricsSettings()
    """Rheostat's metrics for Prometheus, see below and [prometheus.md](prometheus.md). Default: see each key below."""
    guard: GuardSettings = GuardSettings()
    """Limits on every recommendation, see below. Default: see each key below."""
    shedding: SheddingSettings = SheddingSettings()
    """Where records may be dropped, see below and [shedding.md](shedding.md). Default: see each key below."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        """The values of the profile, overridden by what was given; then the mode that follows from the bounds."""
        if not isinstance(given, Mapping):
            return given
        values = with_profile(with_preset(given))
        if values.get("mode") is None:
            values["mode"] = "watch" if values.get("executors") is None else "act"
        return values

    _lists = field_validator("executors", "queries", mode="before")(tuples_of_lists)
    _values = field_validator("objective", "executors")(check_objective_or_bounds)

    @field_validator("queries")
    @classmethod
    def _somebody_is_looked_after(cls, given: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if given == ():
            raise_faults(Fault("", "[]", "at least one name or id; or null: all", "no query would be looked after"))
        return given

    @field_validator("journal", "state")
    @classmethod
    def _path_can_exist(cls, given: Path | None) -> Path | None:
        if given is not None and "\0" in str(given):
            raise_faults(Fault("", repr(str(given)), "a path without NUL characters", "no system has such a path"))
        return given

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        faults = []
        if self.executors is None and self.mode != "watch":
            message = f"mode {self.mode} needs bounds"
            faults.append(Fault("executors", "nothing", "[least, greatest], as in [1, 20]", message))
        if self.actuator == "workers" and not self.workers.nodes:
            message = "the actuator workers needs node servers"
            faults.append(Fault("workers.nodes", "none", "[http://HOST:PORT, …]", message))
        raise_faults(*faults)
        return self

    @property
    def parsed_objective(self) -> Objective:
        """The objective as a value."""
        return Objective.parse(self.objective)

    @property
    def bounds(self) -> Bounds | None:
        """The bounds as a value; None: watch only."""
        return None if self.executors is None else Bounds(*self.executors)


# Names and addresses of node servers


ELSEWHERE = "elsewhere"
"""Node of executors whose node is unknown; reserved."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")


def is_node_name(text: str) -> bool:
    """Whether this can be the name of a node: letters, digits, - and _, at most 41, and not ``ELSEWHERE``.

    >>> is_node_name("rack-1"), is_node_name("rack 1"), is_node_name("elsewhere")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None and text != ELSEWHERE


def is_node_address(text: str) -> bool:
    """Whether this is the address of a node server, without a path, a query or a password.

    >>> is_node_address("http://10.0.0.1:8091"), is_node_address("10.0.0.1:8091")
    (True, False)
    """
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return known and not (parts.path.strip("/") or parts.query or parts.fragment or parts.username)


def named_address(text: str) -> tuple[str | None, str]:
    """The name of a node, None if it has none, and its address.

    >>> named_address("near=http://10.0.0.1:8091/"), named_address("http://10.0.0.1:8091")
    (('near', 'http://10.0.0.1:8091'), (None, 'http://10.0.0.1:8091'))
    """
    name, sign, address = text.rpartition("=")
    return (name if sign else None), address.rstrip("/")


# Round trips between nodes: node → node → ms


MOST_MS = 60_000.0
"""Longest accepted round trip, ms."""


def round_trip_faults(given: Mapping[Any, Any], names: Collection[str] | None) -> Iterator[Fault]:
    """All faults of a map of round trips; ``names``: of the nodes, None if their list is invalid."""
    for a, row in given.items():
        if names is not None and a not in names:
            yield _unknown(str(a), str(a), names)
        if not isinstance(row, Mapping):
            yield Fault(str(a), repr(row), "nodes with their round trips in ms, as in {far: 300}", "this is no row")
            continue
        for b, ms in row.items():
            yield from _entry_faults(given, a, b, ms, names)


def pairs_of(given: RoundTrips) -> dict[tuple[str, str], float]:
    """(a, b) with a < b → round trip, ms, of a map without faults.

    >>> pairs_of({"near": {"mid": 20.0, "far": 300.0}})
    {('mid', 'near'): 20.0, ('far', 'near'): 300.0}
    """
    return {(min(a, b), max(a, b)): float(ms) for a, row in given.items() for b, ms in row.items()}


def _entry_faults(given: Mapping[Any, Any], a: Any, b: Any, ms: Any, names: Collection[str] | None) -> Iterator[Fault]:
    field = f"{a}.{b}"
    if names is not None and b not in names:
        yield _unknown(field, str(b), names)
    if a == b:
        yield Fault(field, str(ms), "two nodes", "executors on one node are not apart: leave this out")
    number = isinstance(ms, int | float) and not isinstance(ms, bool)
    if not number or not 0 <= ms <= MOST_MS:
        yield Fault(field, repr(ms), f"0 to {MOST_MS:g} ms", "this is no round trip")
    back = given[b].get(a) if isinstance(given.get(b), Mapping) else None
    if back is not None and back != ms and str(a) < str(b):
        message = f"a round trip is the same from both ends, and {b}.{a} is {back}"
        yield Fault(field, str(ms), "the same number both ways, or one of them only", message)


def _unknown(field: str, name: str, names: Collection[str]) -> Fault:
    hint = did_you_mean(name, names) or "; give it there as NAME=http://HOST:PORT"
    allowed = "one of: " + ", ".join(sorted(names)) if names else "names of nodes"
    message = f"no node in workers.nodes has this name{hint}" if is_node_name(name) else "this is no name of a node"
    return Fault(field, name, allowed, message)


# Policies: ``NAME`` or ``NAME:PRESET``


def split_policy(text: str) -> tuple[str, str | None]:
    """The name, and the preset if there is one.

    >>> split_policy("hpa:faithful"), split_policy("hpa")
    (('hpa', 'faithful'), ('hpa', None))
    """
    name, colon, preset = text.strip().partition(":")
    return name, preset if colon else None


def policy_label(name: str, preset: str | None) -> str:
    """The name of a policy in tables and scores; the inverse of :func:`split_policy`."""
    return name if preset is None else f"{name}:{preset}"


def with_preset(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Move the preset from ``policy`` to the options, where it overrides one.

    >>> with_preset({"policy": "hpa:faithful", "policy_options": {"tolerance": 0.2}})
    {'policy': 'hpa', 'policy_options': {'tolerance': 0.2, 'preset': 'faithful'}}
    """
    policy, options = given.get("policy"), given.get("policy_options", {})
    name, preset = split_policy(policy) if isinstance(policy, str) else ("", None)
    if preset is None or not isinstance(options, Mapping):
        return given
    return {**given, "policy": name, "policy_options": {**options, "preset": preset}}


# Profiles: named sets of values


_DEMO: Mapping[str, Any] = {
    "sample_s": 2.0,
    "rate_window_s": 10.0,
    "policy": "reactive",
    "policy_options": {"samples_to_shrink": 4},
    "guard": {
        "warm_up_batches": 1,
        "hold_batches": 1,
        "hold_fallback_s": 30.0,
        "largest_step_down": 2,
        "cooldown_up_s": 5.0,
        "cooldown_down_s": 5.0,
        "failure_window_s": 10.0,
        "failover_return_s": 30.0,
        "ineffective_s": 60.0,
        "ineffective_max_s": 600.0,
        "no_room_backoff_s": 10.0,
        "no_room_backoff_max_s": 60.0,
    },
}

_FAITHFUL: Mapping[str, Any] = {
    "sample_s": 15.0,
    "rate_window_s": 15.0,
    "preset": "faithful",
    "guard": {
        "warm_up_batches": 0,
        "hold_s": 240.0,
        "hold_both": True,
        "largest_step_down": None,
        "cooldown_down_s": 0.0,
        "failure_window_s": 0.0,
        "catching_up": False,
        "batch_cap": False,
        "sick_sink": False,
        "failover_return_s": 0.0,
        "round_trip_cooldowns": 0.0,
        "most_round_trips": None,
        "ineffective_share": None,
        "rescale_catch_up_lags": None,
        "no_room_backoff_s": 0.0,
        "no_room_backoff_max_s": 0.0,
    },
}

PROFILES: Mapping[str, Mapping[str, Any]] = MappingProxyType({"default": {}, "demo": _DEMO, "faithful": _FAITHFUL})
"""What each profile sets, in the shape of a settings file. A key that a profile leaves out has its default."""

_S1_POLICIES = ("reactive", "proactive")


def with_profile(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the profile that is named in ``given``, overridden by ``given``.

    Nested mappings are merged key by key. The options that a profile has for its policy hold for no other policy, and
    the hold of S1 for no policy that is not from S1. An unknown profile adds nothing: the models name it as a fault.

    >>> with_profile({"profile": "demo", "sample_s": 1.0})["guard"]["cooldown_down_s"]
    5.0
    """
    name = given.get("profile", "default")
    under = PROFILES.get(name, {}) if isinstance(name, str) else {}
    if given.get("policy", under.get("policy")) != under.get("policy"):
        under = {key: value for key, value in under.items() if key != "policy_options"}
    if name == "faithful" and given.get("policy", "reactive") not in _S1_POLICIES:
        under = _merged(under, {"guard": {"hold_s": 0.0, "hold_both": False}})
    return _merged(under, given)


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        nested = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(below or {}, value) if nested else value
    return merged
