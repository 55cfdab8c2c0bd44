"""Attaching to a running driver: checks what can work, builds the loop, runs it in a daemon thread."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rheostat.config.loading import read_token
from rheostat.config.models import Settings, pairs_of
from rheostat.errors import Fault, InputError, RefusedError, UnavailableError, tried
from rheostat.execute.live import DryRun, LiveExecutors, Patience
from rheostat.journal.store import Journal
from rheostat.loop.build import build_decision_settings, open_journal, open_sample_store, open_store
from rheostat.loop.clock import StoppableClock, SystemClock
from rheostat.loop.loop import Loop, supervise
from rheostat.metrics import Hearing, OverheardJournal, Served, serve
from rheostat.model import Bounds, Observation
from rheostat.observe.driver import DriverSource
from rheostat.observe.merge import MergedSource
from rheostat.observe.nodes import NodesWatch, SourceWithNodes
from rheostat.ports import Actuator, Source
from rheostat.spark.jvm import DriverJvm, QueryPlan, SessionFacts
from rheostat.spark.levers import SparkLevers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rheostat.execute.node_client import NodeClient
    from rheostat.loop.loop import Status


_log = logging.getLogger("rheostat")
_DISABLED = "RHEOSTAT_DISABLED"
_JOIN_S = 10.0


class Attachment:
    """A running autoscaler. Leaving it as a context manager stops it; the executors stay as they are.

    Got from :func:`attach`. With ``RHEOSTAT_DISABLED=1`` it does nothing: ``status()`` is None then.
    """

    def __init__(self, assembly: Assembly | None, app_id: str | None = None) -> None:
        self._loop = None if assembly is None else assembly.loop
        self._app_id = app_id
        self._thread: threading.Thread | None = None
        if assembly is not None:
            self._thread = threading.Thread(target=assembly.run, name="rheostat", daemon=True)
            self._thread.start()

    def status(self) -> Status | None:
        """What it does now, and its last decision; None where it is switched off."""
        return None if self._loop is None else self._loop.status()

    def pause(self) -> None:
        """Go on looking and recording, but change nothing until :meth:`resume`."""
        if self._loop is not None:
            self._loop.pause()

    def resume(self) -> None:
        """Act again."""
        if self._loop is not None:
            self._loop.resume()

    def set_bounds(self, least: int, greatest: int) -> None:
        """Other bounds from the next cycle on.

        Raises:
            InputError: they are no bounds.
        """
        bounds = Bounds(least, greatest)
        if self._loop is not None:
            self._loop.set_bounds(bounds)

    def failover(self, on: bool) -> None:
        """Tell of a region's failover: while it is on, and until its traffic is back, no executor is given back."""
        if self._loop is not None:
            self._loop.failover(on)

    def stop(self) -> None:
        """End it, and wait until it has ended. The executors stay as they are. May be called more than once."""
        if self._loop is not None:
            self._loop.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)
        _registry.leave(self._app_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Registry:
    """One autoscaler an application."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._apps: set[str] = set()

    def enter(self, app_id: str) -> None:
        with self._lock:
            if app_id in self._apps:
                message = "a second autoscaler would undo what the first does: stop() that one first"
                raise RefusedError([Fault("spark", f"application {app_id}", "one that has none yet", message)])
            self._apps.add(app_id)

    def leave(self, app_id: str | None) -> None:
        with self._lock:
            self._apps.discard(app_id or "")


_registry = _Registry()


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
    config: str | Path | Mapping[str, Any] | None = None,
) -> Attachment:
    """Scale the streaming queries of a session, those started before and those started later.

    Args:
        spark: a classic session, in its driver.
        objective: ``lag < DURATION [for PERCENT%]``.
        executors: least and greatest number; None: watch only.
        queries: names or ids; None: all.
        policy: name of a policy; ``reactive`` unless said.
        mode: ``"act"``, ``"dry-run"`` or ``"watch"``.
        sources: where observations come from instead of the driver; what the first does not see is taken from the next.
        journal: folder for the journal; None: none is kept.
        state: folder for the state that survives a restart; None: beside the journal.
        config: a settings file, or a mapping of its shape; the arguments here go before it.

    Raises:
        InputError: what is wrong with the arguments, all of it.
        RefusedError: why this session cannot be scaled as asked, all causes. With ``mode="watch"`` only
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
    }
    settings = _settings(config, {key: value for key, value in given.items() if value is not None})
    if os.environ.get(_DISABLED, "") not in ("", "0"):
        _log.warning("Rheostat is switched off by %s: the executors stay as they are", _DISABLED)
        return Attachment(None)
    return _attached(spark, settings, sources)


def _settings(config: str | Path | Mapping[str, Any] | None, given: Mapping[str, Any]) -> Settings:
    """The settings; what was said and has no effect is logged."""
    from rheostat.decide.settings_check import check_settings, no_effect

    read, faults = _read(config)
    values = {**read, **given}
    settings = check_settings(values, faults)
    for each in no_effect(values, settings):
        _log.warning("%s", each)
    return settings


def _read(config: str | Path | Mapping[str, Any] | None) -> tuple[Mapping[str, Any], Sequence[Fault]]:
    if config is None or isinstance(config, Mapping):
        return config or {}, ()
    from rheostat.config.loading import read_document

    return read_document(Path(config))


def _attached(spark: SparkSession, settings: Settings, sources: Sequence[Source] | None) -> Attachment:
    from rheostat.spark.jvm import session_facts

    facts = session_facts(spark)
    app_id = facts.app_id or f"connect-{id(spark)}"
    _registry.enter(app_id)
    try:
        return Attachment(assemble(spark, facts, settings, sources), app_id)
    except UnavailableError as error:
        _registry.leave(app_id)
        raise RefusedError(
            [Fault("spark", "a session that does not answer", "a running session", str(error))]
        ) from error
    except BaseException:
        _registry.leave(app_id)
        raise


# The parts of a live loop, put together for one session.


_WORKER_START_S = 45.0
"""With the actuator workers an executor may have to wait for a Worker that is only being started."""


@dataclass(frozen=True)
class Assembly:
    """A loop and what it works with."""

    loop: Loop
    source: Source
    actuator: Actuator
    journal: Journal
    clock: StoppableClock
    served: Served | None = None

    def run(self) -> None:
        """Run the loop until it is stopped, then close everything. A thread of it that dies is replaced."""
        with contextlib.ExitStack() as closing:
            for part in (self.journal, self.actuator, self.source, self.served):
                closing.callback(getattr(part, "close", lambda: None))
            supervise(self.loop.run, self.clock)


def assemble(
    spark: SparkSession, facts: SessionFacts, settings: Settings, sources: Sequence[Source] | None
) -> Assembly:
    """Build the loop for a session; nothing runs yet.

    Raises:
        InputError: the policy, the journal's folder or the metrics' port is wrong.
        RefusedError: why it cannot work, all causes; never with the mode ``watch``.
        UnavailableError: the session does not answer.
    """
    planner = build_decision_settings(settings, open_sample_store(settings))
    running: list[Loop] = []
    watch = _nodes_watch(settings)
    actuator = _actuator(spark, settings, watch, lambda: bool(running) and running[0].status().paused)
    source = _source(spark, settings, actuator, sources)
    faults: list[Fault] = []
    hearing = Hearing()
    with contextlib.ExitStack() as undoing:
        undoing.callback(actuator.close)
        undoing.callback(source.close)
        served = tried(serve, None, faults, settings.metrics, hearing)
        undoing.callback(getattr(served, "close", lambda: None))
        _refuse(facts, settings, source, faults)
        journal = _journal(settings, faults)
        undoing.pop_all()
    source = source if watch is None else SourceWithNodes(source, watch)
    journal = journal if served is None else OverheardJournal(journal, hearing)
    clock, store = SystemClock(), open_store(settings)
    loop = Loop(source, planner, actuator, journal, clock, settings, store=store, job=facts.app_name)
    running.append(loop)
    return Assembly(loop, source, actuator, journal, clock, served)


def _journal(settings: Settings, faults: list[Fault]) -> Journal:
    """The journal, given free again if something else is wrong already.

    Raises:
        InputError: what is wrong with it, after ``faults``.
    """
    journal = tried(open_journal, None, faults, settings)
    if journal is None or faults:
        if journal is not None:
            journal.close()
        raise InputError(faults)
    return journal


def _refuse(facts: SessionFacts, settings: Settings, source: Source, found: list[Fault]) -> None:
    """Raise all causes, with what was found before."""
    if settings.mode == "watch":
        return
    bounds = settings.bounds or Bounds(1, 1)
    faults = session_refusals(facts, bounds) + layer_refusals(facts, settings.actuator)
    if isinstance(source, DriverSource):
        plans = source.plans()
        seen = source.observe(time.time()) if plans else None
        faults += query_refusals(plans, seen, bounds, settings.parsed_objective.lag_s)
    if faults:
        raise RefusedError([*faults, *found])


def _nodes_watch(settings: Settings) -> NodesWatch | None:
    """What tells the nodes apart; None: they play no part."""
    given = settings.workers.round_trips_ms
    if settings.actuator != "workers" or given is None:
        return None
    return NodesWatch(_clients(settings), None if isinstance(given, str) else pairs_of(given), time.time)


def _clients(settings: Settings) -> list[NodeClient]:
    from rheostat.execute.node_client import NodeClient

    ours = settings.workers
    token = read_token(ours.token_file, "workers.token_file", os.environ)
    return [NodeClient(address, token, ours.timeout_s, name) for name, address in ours.named_nodes]


def _actuator(
    spark: SparkSession, settings: Settings, watch: NodesWatch | None, paused: Callable[[], bool]
) -> Actuator:
    if settings.mode != "act":
        return DryRun()
    patience = Patience(allow_redone_work=settings.allow_redone_work)
    if settings.actuator == "executors":
        return LiveExecutors(SparkLevers(spark), SystemClock(), patience)
    both = _BothLayers(replace(patience, least_no_room_s=_WORKER_START_S), watch, paused)
    return both.actuator(spark, settings)


@dataclass(frozen=True, slots=True)
class _BothLayers:
    """What the actuator of both layers is made of, beside the session and the settings."""

    patience: Patience
    watch: NodesWatch | None
    paused: Callable[[], bool]

    def actuator(self, spark: SparkSession, settings: Settings) -> Actuator:
        from rheostat.execute.node_client import StandbyOptions as Upkeep
        from rheostat.execute.placed import LatencyMap
        from rheostat.execute.workers import SparkJob, WorkersActuator

        levers, clock = SparkLevers(spark), SystemClock()
        live = LiveExecutors(levers, clock, self.patience)
        upkeep = Upkeep(settings.workers.backup, settings.workers.every_s)
        known = None if self.watch is None else LatencyMap(self.watch.round_trips, SystemClock())
        job = SparkJob(levers, DriverJvm(spark))
        return WorkersActuator(live, job, _clients(settings), upkeep, paused=self.paused, known=known)


def _source(spark: SparkSession, settings: Settings, actuator: Actuator, sources: Sequence[Source] | None) -> Source:
    def requested() -> int | None:
        asked: int | None = getattr(actuator, "requested", None)
        return asked

    if sources is not None:
        return MergedSource(sources, requested=requested)
    return DriverSource(spark, settings.queries, requested=requested)


# What cannot work on a session is refused, with all causes at once.


_LEVERS = ("standalone", "yarn", "kubernetes", "local-cluster")
_TRIGGERS = {
    "continuous": "a continuous query has no batches, and its tasks never end",
    "real-time": "a real-time query has no batches to measure",
    "available-now": "the query ends by itself when it has caught up",
    "once": "the query ends by itself after one batch",
}


def session_refusals(facts: SessionFacts, bounds: Bounds) -> list[Fault]:
    """Why the executors of a session cannot be changed within ``bounds``; empty: they can."""
    if facts.connect:
        message = "the driver's levers are out of a client's reach: attach in the driver"
        return [Fault("spark", "a Spark Connect session", "a classic session", message)]
    return [*_master(facts), *_allocation(facts), *_cores(facts, bounds)]


def query_refusals(
    plans: Iterable[QueryPlan], seen: Observation | None, bounds: Bounds | None, lag_s: float
) -> list[Fault]:
    """Why running queries cannot be scaled as asked.

    Args:
        plans: the active queries.
        seen: what was seen of them, for the numbers of partitions.
        bounds: None: watch only, and only the objective is looked at.
        lag_s: the objective.
    """
    faults: list[Fault] = []
    for plan in plans:
        name = plan.name or plan.run.query_id
        faults += _trigger(plan, name, lag_s)
    return faults + ([] if bounds is None or seen is None else list(_partitions(seen, bounds)))


def objective_refusals(name: str, trigger_s: float | None, lag_s: float) -> Iterator[Fault]:
    """Why a query with this trigger (None: not known) cannot keep this lag."""
    if trigger_s is not None and lag_s < 2 * trigger_s:
        message = "records wait up to a trigger and then for their batch: no number of executors keeps this objective"
        allowed = f"at least two triggers of the query {name}, {2 * trigger_s:g} s"
        yield Fault("objective", f"lag < {lag_s:g} s", allowed, message)


def layer_refusals(facts: SessionFacts, actuator: str) -> list[Fault]:
    """Why the Workers below a session cannot be changed, if that is asked for."""
    if actuator != "workers" or facts.deploy == "standalone":
        return []
    message = "node servers start the Workers of a standalone cluster"
    return [Fault("actuator", f"workers, on {facts.master}", "executors, or a spark:// master", message)]


def _master(facts: SessionFacts) -> Iterator[Fault]:
    if facts.deploy not in _LEVERS:
        message = "this master has no executors to add or to give back"
        allowed = "a standalone, YARN or Kubernetes cluster, or mode='watch'"
        yield Fault("spark.master", str(facts.master), allowed, message)


def _allocation(facts: SessionFacts) -> Iterator[Fault]:
    if facts.dynamic_allocation:
        message = "two owners of one number would undo each other: switch Spark's dynamic allocation off"
        yield Fault("spark.dynamicAllocation.enabled", "true", "false, or mode='watch'", message)


def _cores(facts: SessionFacts, bounds: Bounds) -> Iterator[Fault]:
    if facts.deploy != "standalone" or facts.cores_max is None:
        return
    each = facts.executor_cores or 1
    if facts.cores_max // each < bounds.maximum:
        allowed = f"≥ {bounds.maximum * each} ({bounds.maximum} executors × {each} cores), or not set"
        message = "it is a hard cap that cannot be changed while the application runs"
        yield Fault("spark.cores.max", str(facts.cores_max), allowed, message)


def _trigger(plan: QueryPlan, name: str, lag_s: float) -> Iterator[Fault]:
    kind, interval = plan.trigger.kind, plan.trigger.interval_s
    if kind in _TRIGGERS:
        yield Fault(f"queries.{name}.trigger", kind, "a processing-time trigger, or mode='watch'", _TRIGGERS[kind])
    else:
        yield from objective_refusals(name, interval, lag_s)


def _partitions(seen: Observation, bounds: Bounds) -> Iterator[Fault]:
    total = 0
    for query in seen.queries:
        if query.offsets is None or not query.offsets.topics:
            return
        total += len(query.offsets.topics)
    if seen.queries and total < bounds.maximum:
        message = "an executor without a partition has nothing to read: lower the bounds or add partitions"
        yield Fault("executors", f"at most {bounds.maximum}", f"at most {total}, the partitions that are read", message)
