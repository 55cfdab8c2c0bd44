"""The parts of a live loop, put together for one session."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rheostat.config import Settings
from rheostat.config.round_trips import pairs_of
from rheostat.config.secrets import read_token
from rheostat.errors import Fault, InputError, RefusedError, tried
from rheostat.execute.dryrun import DryRun
from rheostat.execute.executors import LiveExecutors, Patience
from rheostat.journal import Journal
from rheostat.jvm.levers import SparkLevers
from rheostat.jvm.reading import DriverJvm, SessionFacts
from rheostat.loop import (
    Loop,
    StoppableClock,
    SystemClock,
    build_planner,
    open_archive,
    open_journal,
    open_store,
    supervise,
)
from rheostat.model import Bounds
from rheostat.observe.driver import DriverSource
from rheostat.observe.merge import MergedSource
from rheostat.observe.nodes import NodesWatch, SourceWithNodes
from rheostat.ports import Actuator, Source
from rheostat.refusal import layer_refusals, query_refusals, session_refusals
from rheostat.telemetry import Hearing, OverheardJournal, Served, serve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rheostat.execute.nodes import NodeClient

__all__ = ["Assembly", "assemble"]

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
    planner = build_planner(settings, open_archive(settings))
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
    from rheostat.execute.nodes import NodeClient

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
        from rheostat.execute.job import SparkJob
        from rheostat.execute.workers import LatencyMap, Upkeep, WorkersActuator

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
