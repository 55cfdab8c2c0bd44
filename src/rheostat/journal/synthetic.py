"""Cycles as a busy application shows them, seeded: to measure a journal with, and to test it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rheostat.journal.reader import read_journal
from rheostat.journal.records import DecisionRecord, Header
from rheostat.journal.writer import JournalWriter
from rheostat.model import (
    Action,
    Assessment,
    Batch,
    Cluster,
    Code,
    Decision,
    GuardNote,
    Observation,
    Offsets,
    Projection,
    QueryReading,
    Reason,
    Recommendation,
    Roster,
    RunningBatch,
    SourceInfo,
)

__all__ = ["Shape", "cycles", "measure_load", "write_cycles"]

START = 1_764_280_800.0
Cycle = tuple[Observation, Assessment, Decision]


@dataclass(frozen=True, slots=True)
class Shape:
    """How large the application is. ``rate`` is in records/s and partition; ``every_s`` the time between cycles."""

    partitions: int = 16
    executors: int = 4
    rate: float = 150.0
    every_s: float = 15.0


def cycles(count: int, shape: Shape = Shape()) -> Iterator[Cycle]:
    """``count`` cycles of one query whose batches take two samples each; the same ones every time."""
    chance = random.Random(7)
    latest = [chance.randrange(10**9, 2 * 10**9) for _ in range(shape.partitions)]
    planned, committed = list(latest), list(latest)
    busy = [0] * shape.executors
    for number in range(count):
        at = START + number * shape.every_s + chance.random() / 10
        latest = [value + round(shape.every_s * shape.rate * chance.uniform(0.9, 1.1)) for value in latest]
        if number % 2:
            planned, committed = list(latest), planned
        busy = [value + chance.randrange(9000, 15000) for value in busy]
        seen = _observation(at, number, (latest, planned, committed), busy)
        yield seen, _assessment(seen, sum(latest) - sum(committed), chance), _decision(at, number + 1, shape.executors)


def write_cycles(folder: Path, count: int, shape: Shape = Shape()) -> None:
    """A journal of ``count`` cycles."""
    writer = JournalWriter(folder)
    writer.start(Header("0", {}))
    for seen, meant, decided in cycles(count, shape):
        writer.record(DecisionRecord.of(seen, meant, decided), dict)
    writer.close()


def measure_load(folder: Path) -> tuple[int, float]:
    """Decisions in the journal in ``folder``, and seconds to load them with their decisions made."""
    begun = time.perf_counter()
    loaded = [record.decision for record in read_journal(folder) if isinstance(record, DecisionRecord)]
    return len(loaded), time.perf_counter() - begun


def _observation(at: float, number: int, positions: tuple[list[int], ...], busy: list[int]) -> Observation:
    latest, planned, committed = map(tuple, positions)
    query = QueryReading(
        query_id="6d1f0b1e-8d5e-4c4b-9a53-0d0a3e2f7c11",
        run_id="0b8ad3f6-51f5-4d6a-8a5b-56d51c1f1f6d",
        name="click_fraud",
        trigger_s=5.0,
        sources=(
            SourceInfo(
                kind="kafka",
                name="clicks",
                partitions=len(latest),
                batch_cap=60_000,
                options={"subscribe": "clicks"},
            ),
        ),
        offsets=Offsets(
            at=at - 0.0312,
            topics=("clicks",) * len(latest),
            numbers=tuple(range(len(latest))),
            latest=latest,
            planned=planned,
            committed=committed,
        ),
        batch=Batch(
            at=at - 2.417,
            batch_id=number // 2,
            duration_s=4.212,
            planning_s=0.31,
            add_batch_s=3.612,
            commit_s=0.29,
            records=36_412,
            state_rows=120_331,
            dropped_late=3,
        ),
        running=RunningBatch(at - 0.01, active=True, batch_id=number // 2 + 1, since=at - 2.2),
    )
    places, count = range(len(busy)), len(busy)
    cluster = Cluster(
        at=at - 0.02,
        roster=Roster(
            ids=tuple([str(place) for place in places]),
            hosts=tuple([f"10.0.0.{place}" for place in places]),
            cores=(1,) * count,
            added_at=(START - 60,) * count,
            nodes=(None,) * count,
        ),
        active_tasks=(number % 2,) * count,
        failed_tasks=(0,) * count,
        finished_tasks=tuple([number * 8 + place for place in places]),
        busy_s=tuple([value / 1000 for value in busy]),
        requested=count,
    )
    return Observation(at, (query,), cluster)


def _assessment(seen: Observation, backlog: int, chance: random.Random) -> Assessment:
    workers = len(seen.cluster.ids) if seen.cluster else None
    return Assessment(
        at=seen.at,
        executors=workers,
        requested=workers,
        slots_per_executor=1,
        arrival_rate=chance.uniform(2000, 3000),
        processed_rate=chance.uniform(2000, 3000),
        waiting=backlog // 2,
        in_flight=backlog - backlog // 2,
        backlog=backlog,
        backlog_excess=chance.uniform(10_000, 20_000),
        lag_s=chance.uniform(3, 30),
        drain_s=chance.uniform(3, 30),
        draining=True,
        batch_s=4.212,
        trigger_s=5.0,
        period_s=15.0,
        occupancy=chance.random(),
        busy_ratio=chance.random(),
        batches=3,
        capped=False,
        failed_tasks=0,
        partitions=16,
        metrics_age_s=2.417,
        queries=1,
    )


def _decision(at: float, decision_id: int, executors: int) -> Decision:
    figures = {"backlog_excess": 14_211.8125, "arrival_rate": 2417.333333333, "lag_s": 12.21875}
    proposed = Reason(
        Code.SLA_VIOLATED,
        "the backlog of 14 212 records beyond the batch takes 12.2 s to clear, more than 7.5 s",
        figures,
    )
    limited = Reason(
        Code.LARGEST_STEP, "one step up is at most 1 executor: from 4 to 5 instead of 9", {"largest_step": 1}
    )
    return Decision(
        at=at,
        decision_id=decision_id,
        action=Action.UP,
        current=executors,
        target=executors + 1,
        reason=limited,
        recommendation=Recommendation(executors + 5, proposed),
        notes=(GuardNote("largest step", executors + 5, executors + 1, limited),),
        projections=tuple(
            Projection(n, n * 700.123456789, 2417.33 / (700 * max(n, 1))) for n in range(executors - 1, executors + 2)
        ),
    )
