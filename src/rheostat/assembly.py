"""The parts of a live loop, put together for one session."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rheostat.config import Settings
from rheostat.errors import RefusedError
from rheostat.execute.dryrun import DryRun
from rheostat.execute.executors import LiveExecutors, Patience
from rheostat.journal import Journal
from rheostat.jvm.levers import SparkLevers
from rheostat.jvm.reading import SessionFacts
from rheostat.loop import Loop, StoppableClock, SystemClock, build_planner, open_journal, open_store, supervise
from rheostat.model import Bounds
from rheostat.observe.driver import DriverSource
from rheostat.observe.merge import MergedSource
from rheostat.ports import Actuator, Source
from rheostat.refusal import query_refusals, session_refusals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Assembly", "assemble"]


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
    planner = build_planner(settings)
    actuator = _actuator(spark, settings)
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
    return Assembly(loop, source, actuator, journal, clock)


def _refuse(facts: SessionFacts, settings: Settings, source: Source) -> None:
    if settings.mode == "watch":
        return
    bounds = settings.bounds or Bounds(1, 1)
    faults = session_refusals(facts, bounds)
    if isinstance(source, DriverSource):
        plans = source.plans()
        seen = source.observe(time.time()) if plans else None
        faults += query_refusals(plans, seen, bounds, settings.parsed_objective.lag_s)
    if faults:
        raise RefusedError(faults)


def _actuator(spark: SparkSession, settings: Settings) -> Actuator:
    if settings.mode != "act":
        return DryRun()
    return LiveExecutors(SparkLevers(spark), SystemClock(), Patience(allow_redone_work=settings.allow_redone_work))


def _source(spark: SparkSession, settings: Settings, actuator: Actuator, sources: Sequence[Source] | None) -> Source:
    def requested() -> int | None:
        return actuator.requested if isinstance(actuator, LiveExecutors) else None

    if sources is not None:
        return MergedSource(sources, requested=requested)
    return DriverSource(spark, settings.queries, requested=requested)
