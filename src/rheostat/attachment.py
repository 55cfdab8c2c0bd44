"""Attaching to a running driver: checks the session, builds the loop, runs it in a daemon thread."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rheostat.analyze.state import total
from rheostat.config.loading import read_document
from rheostat.config.models import Settings, pairs_of
from rheostat.decide.settings_check import check_settings, no_effect
from rheostat.errors import Fault, InputError, RefusedError, UnavailableError, attempt
from rheostat.execute.actuator import ActuatorContext, DryRun, build_actuator, load_actuator
from rheostat.journal.store import Journal, StateStore
from rheostat.loop.build import build_decision_settings, open_journal, open_sample_store, open_store
from rheostat.loop.clock import StoppableClock, SystemClock, UnstoppedClock
from rheostat.loop.loop import Loop, Status, supervise
from rheostat.metrics import CountingJournal, JobMetrics, MetricsServer, serve
from rheostat.model import NO_MEASURE, Bounds, Observation, QueryReading, SourceInfo
from rheostat.observe.cpu import CpuMeter
from rheostat.observe.driver import DriverSource, find_uncountable
from rheostat.observe.merge import MergedSource
from rheostat.observe.nodes import NodesWatch, SourceWithNodes
from rheostat.ports import Actuator, Clock, Shedder, Source
from rheostat.spark.jvm import QueryPlan, SessionFacts, session_facts
from rheostat.text import per_second, several

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rheostat.spark.shedding import Shedding

_log = logging.getLogger("rheostat")
_DISABLED = "RHEOSTAT_DISABLED"
_JOIN_S = 10.0

_apps: set[str] = set()
"""Ids of the applications that have an autoscaler."""
_apps_lock = threading.Lock()


class Attachment:
    """A running autoscaler. Leaving it as a context manager stops it; the executors stay as they are.

    Returned by :func:`attach`. With ``RHEOSTAT_DISABLED=1`` it does nothing, and ``status()`` is None.
    """

    def __init__(self, assembly: Assembly | None, app_id: str | None = None, shedding: Shedding | None = None) -> None:
        self.shedding = shedding
        self._loop = None if assembly is None else assembly.loop
        self._app_id = app_id
        self._thread: threading.Thread | None = None
        if assembly is not None:
            self._thread = threading.Thread(target=assembly.run, name="rheostat", daemon=True)
            self._thread.start()

    def status(self) -> Status | None:
        """Its state and last decision; None if it is switched off."""
        return None if self._loop is None else self._loop.status()

    def pause(self) -> None:
        """Keep observing and recording, but change nothing until :meth:`resume`."""
        if self._loop is not None:
            self._loop.pause()

    def resume(self) -> None:
        """Act again."""
        if self._loop is not None:
            self._loop.resume()

    def set_bounds(self, least: int, greatest: int) -> None:
        """Set other bounds, from the next cycle on.

        Raises:
            InputError: they are no bounds.
        """
        bounds = Bounds(least, greatest)
        if self._loop is not None:
            self._loop.set_bounds(bounds)

    def failover(self, on: bool) -> None:
        """Announce a region's failover: while it is on, and until its traffic is back, no executor is removed."""
        if self._loop is not None:
            self._loop.failover(on)

    def stop(self) -> None:
        """Stop, and wait for the end; the executors stay as they are. May be called more than once."""
        if self._loop is not None:
            self._loop.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)
        _unregister(self._app_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def attach(
    spark: SparkSession,
    *,
    objective: str | None = None,
    executors: tuple[int, int] | None = None,
    queries: Sequence[str] | None = None,
    policy: str | None = None,
    mode: str | None = None,
    sources: Sequence[Source] | None = None,
    journal: str | Path | None = None,
    state: str | Path | None = None,
    shedding: Shedding | None = None,
    config: str | Path | Mapping[str, Any] | None = None,
) -> Attachment:
    """Scale the streaming queries of a session, those that run and those that start later.

    Args:
        spark: a classic session, in its driver.
        objective: ``lag < DURATION [for PERCENT%]``.
        executors: least and greatest number; None: watch only.
        queries: names or ids; None: all.
        policy: name of a policy; ``reactive`` by default.
        mode: ``"act"``, ``"dry-run"`` or ``"watch"``.
        sources: of observations, in place of the driver; what the first cannot observe is taken from the next.
        journal: folder of the journal; None: no journal is written.
        state: folder of the state that survives a restart; None: next to the journal.
        shedding: where records may be dropped when there are no more executors to have; None: nowhere.
        config: a settings file or a mapping of its shape, overridden by the other arguments.

    Raises:
        InputError: every fault of the arguments.
        RefusedError: every reason why this session cannot be scaled as asked. With ``mode="watch"`` only
            for Spark Connect, a second autoscaler, or a session that does not answer.
    """
    given = {
        "objective": objective,
        "executors": None if executors is None else tuple(executors),
        "queries": None if queries is None else tuple(queries),
        "policy": policy,
        "mode": mode,
        "journal": None if journal is None else str(journal),
        "state": None if state is None else str(state),
        "shedding": None if shedding is None else shedding.settings(),
    }
    settings = _load_settings(config, {key: value for key, value in given.items() if value is not None})
    if os.environ.get(_DISABLED, "") not in ("", "0"):
        _log.warning("Rheostat is switched off by %s: the executors stay as they are", _DISABLED)
        return Attachment(None)
    facts = session_facts(spark)
    app_id = facts.app_id or f"connect-{id(spark)}"
    _register(app_id)
    try:
        return Attachment(assemble(spark, facts, settings, sources), app_id, shedding)
    except UnavailableError as error:
        _unregister(app_id)
        fault = Fault("spark", "a session that does not answer", "a running session", str(error))
        raise RefusedError([fault]) from error
    except BaseException:
        _unregister(app_id)
        raise


def _load_settings(config: str | Path | Mapping[str, Any] | None, given: Mapping[str, Any]) -> Settings:
    read: Mapping[str, Any] = {}
    faults: Sequence[Fault] = ()
    if isinstance(config, Mapping):
        read = config
    elif config is not None:
        read, faults = read_document(Path(config))
    values = {**read, **given}
    settings = check_settings(values, faults)
    for each in no_effect(values, settings):
        _log.warning("%s", each)
    return settings


def _register(app_id: str) -> None:
    with _apps_lock:
        if app_id in _apps:
            message = "a second autoscaler would undo what the first does: stop() that one first"
            raise RefusedError([Fault("spark", f"application {app_id}", "one without an autoscaler", message)])
        _apps.add(app_id)


def _unregister(app_id: str | None) -> None:
    with _apps_lock:
        _apps.discard(app_id or "")


# Wiring


@dataclass(frozen=True)
class Assembly:
    """A loop and its parts."""

    loop: Loop
    source: Source
    actuator: Actuator
    journal: Journal
    clock: StoppableClock
    served: MetricsServer | None = None
    store: StateStore | None = None
    shedder: Shedder | None = None

    def run(self) -> None:
        """Run the loop until it is stopped, then close everything. A thread of it that dies is replaced."""
        with contextlib.ExitStack() as closing:
            for part in (self.store, self.journal, self.shedder, self.actuator, self.source, self.served):
                if part is not None:
                    closing.callback(part.close)
            supervise(self.loop.run, self.clock)


def assemble(
    spark: SparkSession, facts: SessionFacts, settings: Settings, sources: Sequence[Source] | None
) -> Assembly:
    """Build the loop for a session; nothing runs yet.

    Raises:
        InputError: the policy, the actuator, a source, the journal's folder or the port of the metrics is wrong.
        RefusedError: every reason why it cannot work; never with the mode ``watch``.
        UnavailableError: the session does not answer.
    """
    decision_settings = build_decision_settings(settings, open_sample_store(settings))
    loops: list[Loop] = []
    clock = SystemClock()
    watch = _nodes_watch(settings, clock)
    faults: list[Fault] = []
    metrics = JobMetrics()
    source: Source
    with contextlib.ExitStack() as undoing:
        paused = lambda: bool(loops) and loops[0].status().paused  # noqa: E731
        actuator = _build_actuator(spark, settings, UnstoppedClock(clock), watch, paused)
        undoing.callback(actuator.close)
        requested = partial(getattr, actuator, "requested", None)
        if sources is None:
            by_executor = watch is not None or settings.shedding.graph is not None
            source = DriverSource(spark, settings.queries, requested=requested, by_executor=by_executor)
        else:
            source = MergedSource(sources, requested=requested)
        undoing.callback(source.close)
        served = attempt(serve, None, faults, settings.metrics, metrics)
        if served is not None:
            undoing.callback(served.close)
        refused, remarks = ([], []) if settings.mode == "watch" else _check_session(facts, settings, source, clock)
        if refused:
            raise RefusedError([*refused, *faults])
        for each in remarks:
            _log.warning("%s", each)
        journal = attempt(open_journal, None, faults, settings)
        if journal is not None:
            undoing.callback(journal.close)
        store = open_store(settings)
        if store is not None and journal is not None:
            attempt(store.lock, None, faults)
            undoing.callback(store.close)
        if journal is None or faults:
            raise InputError(faults)
        undoing.pop_all()
    if watch is not None:
        placed = settings.workers.round_trips_ms is not None
        source = SourceWithNodes(source, watch, CpuMeter(facts.app_id), placed=placed)
    journal = journal if served is None else CountingJournal(journal, metrics)
    shedder = _build_shedder(settings)
    loop = Loop(
        source, decision_settings, actuator, journal, clock, settings, store=store, job=facts.app_name, shedder=shedder
    )
    loops.append(loop)
    return Assembly(loop, source, actuator, journal, clock, served, store, shedder)


def _build_shedder(settings: Settings) -> Shedder | None:
    orders = settings.shedding.orders
    if settings.shedding.graph is None or orders is None:
        return None
    from rheostat.execute.shedding import KeepOrders

    return KeepOrders(orders, settings.sample_s)


def _nodes_watch(settings: Settings, clock: Clock) -> NodesWatch | None:
    given = settings.workers.round_trips_ms
    if settings.actuator != "workers":
        return None
    from rheostat.execute.node_client import node_clients

    pairs = pairs_of(given) if isinstance(given, Mapping) else None
    return NodesWatch(node_clients(settings), pairs, clock.now)


def _build_actuator(
    spark: SparkSession, settings: Settings, clock: Clock, watch: NodesWatch | None, paused: Callable[[], bool]
) -> Actuator:
    if settings.mode != "act":
        return DryRun()
    round_trips = None if watch is None or settings.workers.round_trips_ms is None else watch.round_trips
    return build_actuator(settings.actuator, ActuatorContext(spark, settings, clock, paused, round_trips))


# Refusals: why a session cannot be scaled, all reasons at once


_SCALABLE = ("standalone", "yarn", "kubernetes", "local-cluster")
_LEAST_S = 5.0
"""A rate over less time tells nothing."""


def _check_session(
    facts: SessionFacts, settings: Settings, source: Source, clock: Clock
) -> tuple[list[Fault], list[str]]:
    """Why the session cannot be scaled, and what is to be said of it otherwise."""
    bounds = settings.bounds or Bounds(1, 1)
    refusals: Callable[[SessionFacts], list[Fault]] | None
    refusals = getattr(load_actuator(settings.actuator), "refusals", None)
    faults = session_refusals(facts, bounds) + ([] if refusals is None else refusals(facts))
    if not isinstance(source, DriverSource):
        return faults, []
    plans, lag_s = source.plans(), settings.parsed_objective.lag_s
    observation = source.observe(clock.now()) if plans else None
    faults += query_refusals(plans, observation, lag_s)
    if observation is None:
        return faults, []
    refused, warnings = wait_refusals(observation, lag_s)
    return [*faults, *refused], [*partition_remarks(observation, bounds), *warnings]


def session_refusals(facts: SessionFacts, bounds: Bounds) -> list[Fault]:
    """Why the number of executors of a session cannot be changed within ``bounds``."""
    if facts.connect:
        message = "a client cannot reach the driver's JVM: attach in the driver"
        return [Fault("spark", "a Spark Connect session", "a classic session", message)]
    faults = []
    if facts.deploy not in _SCALABLE:
        message = "this master has no executors to add or remove"
        allowed = "a standalone, YARN or Kubernetes cluster, or mode='watch'"
        faults.append(Fault("spark.master", str(facts.master), allowed, message))
    if facts.dynamic_allocation:
        message = "Spark's dynamic allocation would undo Rheostat's changes: switch it off"
        faults.append(Fault("spark.dynamicAllocation.enabled", "true", "false, or mode='watch'", message))
    cores = facts.executor_cores or 1
    if facts.deploy == "standalone" and facts.cores_max is not None and facts.cores_max // cores < bounds.maximum:
        allowed = f"≥ {bounds.maximum * cores} ({bounds.maximum} executors × {cores} cores), or not set"
        message = "it is a hard limit that cannot be changed while the application runs"
        faults.append(Fault("spark.cores.max", str(facts.cores_max), allowed, message))
    return faults


def query_refusals(plans: Sequence[QueryPlan], observation: Observation | None, lag_s: float) -> list[Fault]:
    """Why queries, as they were observed, cannot be scaled with an objective of this lag."""
    found = {} if observation is None else {query.query_id: query.uncountable for query in observation.queries}
    unmeasured = [_why_unmeasured(plan, found.get(plan.run.query_id)) for plan in plans]
    faults = [] if None in unmeasured else [fault for fault in unmeasured if fault is not None]
    for plan in plans:
        if plan.trigger.kind not in NO_MEASURE:
            faults += objective_refusals(plan.name or plan.run.query_id, plan.trigger.interval_s, lag_s)
    return faults


def partition_remarks(observation: Observation, bounds: Bounds) -> list[str]:
    """What becomes of bounds beyond the partitions; how many tasks a batch has shows only when one runs."""
    partitions = [0 if query.offsets is None else len(query.offsets.topics) for query in observation.queries]
    slots = [] if observation.cluster is None else observation.cluster.roster.task_slots
    if not (all(partitions) and 0 < sum(partitions) < bounds.maximum * min(slots, default=1)):
        return []
    read = several(sum(partitions), "partition is", "partitions are")
    return [
        f"executors: up to {bounds.maximum} are allowed and {read} read: executors are added only as far as the tasks "
        "of the batches that were seen keep them busy; after a shuffle or with minPartitions these are more than the "
        "partitions"
    ]


def _why_unmeasured(plan: QueryPlan, uncountable: str | None) -> Fault | None:
    """Why a query can never be measured, as a fault where no other one can; ``uncountable``: as it was observed."""
    kind, name = find_uncountable(plan) or uncountable, f"queries.{plan.name or plan.run.query_id}"
    if kind is None:
        return None
    if kind in NO_MEASURE:
        allowed = "a processing-time trigger, a query with one beside it, or mode='watch'"
        return Fault(f"{name}.trigger", kind, allowed, f"the query {NO_MEASURE[kind]}")
    message = "it cannot be known how many records wait in this source, so neither backlog nor lag"
    return Fault(f"{name}.source", kind, "Kafka, a query of Kafka beside it, or mode='watch'", message)


def wait_refusals(observation: Observation, lag_s: float) -> tuple[list[Fault], list[str]]:
    """Sources that wait for records longer than the objective allows: at the present rate, and at lower rates only.

    The second are warnings: decisions name such a wait when it comes.
    """
    faults, warnings = list[Fault](), list[str]()
    for query, source in ((each, source) for each in observation.queries for source in each.sources):
        if source.min_offsets is None or source.max_delay_s is None or source.max_delay_s < lag_s:
            continue
        rate, enough = _rate_since_planned(query, source), source.min_offsets / lag_s
        what = f"minOffsetsPerTrigger {source.min_offsets}, maxTriggerDelay {source.max_delay_s:g} s"
        message = f"while less than {per_second(enough)} arrive, no number of executors keeps lag < {lag_s:g} s"
        if rate is not None and rate < enough:
            given = f"{what}, at {per_second(rate)}"
            allowed = f"a longer objective, or a maxTriggerDelay below {lag_s:g} s"
            faults.append(Fault(f"queries.{query.name or query.query_id}.{source.name}", given, allowed, message))
        else:
            warnings.append(f"query {query.name or query.query_id} waits for {source.name} ({what}): {message}")
    return faults, warnings


def _rate_since_planned(query: QueryReading, source: SourceInfo) -> float | None:
    """Records/s that have arrived in a source since its last batch was planned."""
    batch, running, offsets = query.batch, query.running, query.offsets
    since = None if batch is None else batch.at - batch.duration_s
    since = running.since if running is not None and running.active else since
    mine = () if offsets is None else [each for each in offsets.partitions if each.topic in source.topics]
    waiting = total(
        None if each.latest is None or each.planned is None else each.latest - each.planned for each in mine
    )
    if offsets is None or since is None or waiting is None or waiting < 0 or offsets.at - since < _LEAST_S:
        return None
    return waiting / (offsets.at - since)


def objective_refusals(name: str, trigger_s: float | None, lag_s: float) -> list[Fault]:
    """Why a query with this trigger (None: unknown) cannot keep this lag."""
    if trigger_s is None or lag_s >= 2 * trigger_s:
        return []
    message = "records wait up to a trigger and then for their batch: no number of executors keeps this objective"
    allowed = f"at least two triggers of the query {name}, {2 * trigger_s:g} s"
    return [Fault("objective", f"lag < {lag_s:g} s", allowed, message)]
