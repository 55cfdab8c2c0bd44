"""The parts of a live loop, put together for one session."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rheostat.config import Settings
from rheostat.config.secrets import read_token
from rheostat.errors import RefusedError
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
from rheostat.ports import Actuator, Source
from rheostat.refusal import layer_refusals, query_refusals, session_refusals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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

    def run(self) -> None:
        """Run the loop until it is stopped, then close everything. A thread of it that dies is replaced."""
        with contextlib.ExitStack() as closing:
            for part in (self.journal, self.actuator, self.source):
                closing.callback(getattr(part, "close", lambda: None))
            supervise(self.loop.run, self.clock)


def assemble(
    spark: SparkSession, facts: SessionFacts, settings: Settings, sources: Sequence[Source] | None
) -> Assembly:
    """Build the loop for a session; nothing runs yet.

    Raises:
        InputError: the policy or the journal's folder is wrong.
        RefusedError: why it cannot work, all causes; never with the mode ``watch``.
        UnavailableError: the session does not answer.
    """
    planner = build_planner(settings, open_archive(settings))
    running: list[Loop] = []
    actuator = _actuator(spark, settings, lambda: bool(running) and running[0].status().paused)
    source = _source(spark, settings, actuator, sources)
    try:
        _refuse(facts, settings, source)
        journal = open_journal(settings)
    except BaseException:
        source.close()
        actuator.close()
        raise
    clock, store = SystemClock(), open_store(settings)
    loop = Loop(source, planner, actuator, journal, clock, settings, store=store, job=facts.app_name)
    running.append(loop)
    return Assembly(loop, source, actuator, journal, clock)


def _refuse(facts: SessionFacts, settings: Settings, source: Source) -> None:
    if settings.mode == "watch":
        return
    bounds = settings.bounds or Bounds(1, 1)
    faults = session_refusals(facts, bounds) + layer_refusals(facts, settings.actuator)
    if isinstance(source, DriverSource):
        plans = source.plans()
        seen = source.observe(time.time()) if plans else None
        faults += query_refusals(plans, seen, bounds, settings.parsed_objective.lag_s)
    if faults:
        raise RefusedError(faults)


def _actuator(spark: SparkSession, settings: Settings, paused: Callable[[], bool]) -> Actuator:
    if settings.mode != "act":
        return DryRun()
    patience = Patience(allow_redone_work=settings.allow_redone_work)
    if settings.actuator == "executors":
        return LiveExecutors(SparkLevers(spark), SystemClock(), patience)
    return _both_layers(spark, settings, replace(patience, least_no_room_s=_WORKER_START_S), paused)


def _both_layers(spark: SparkSession, settings: Settings, patience: Patience, paused: Callable[[], bool]) -> Actuator:
    from rheostat.execute.job import SparkJob
    from rheostat.execute.nodes import NodeClient
    from rheostat.execute.workers import Upkeep, WorkersActuator

    ours, levers = settings.workers, SparkLevers(spark)
    token = read_token(ours.token_file, "workers.token_file", os.environ)
    nodes = [NodeClient(address.rstrip("/"), token, ours.timeout_s) for address in ours.nodes]
    live = LiveExecutors(levers, SystemClock(), patience)
    upkeep = Upkeep(ours.backup, ours.every_s)
    return WorkersActuator(live, SparkJob(levers, DriverJvm(spark)), nodes, upkeep, paused=paused)


def _source(spark: SparkSession, settings: Settings, actuator: Actuator, sources: Sequence[Source] | None) -> Source:
    def requested() -> int | None:
        asked: int | None = getattr(actuator, "requested", None)
        return asked

    if sources is not None:
        return MergedSource(sources, requested=requested)
    return DriverSource(spark, settings.queries, requested=requested)
