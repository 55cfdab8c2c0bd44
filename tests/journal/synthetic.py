"""Synthetic cycles of a busy application, for tests of the journal and of what reads it."""

import random
from collections.abc import Iterator
from pathlib import Path

from rheostat.journal.records import DecisionRecord, Header
from rheostat.journal.store import JournalWriter
from rheostat.model import (
    Action,
    Assessment,
    Decision,
    GuardNote,
    Observation,
    Projection,
    Reason,
    ReasonCode,
    Recommendation,
)
from rheostat.research.bench.speed import START, Shape, observations

__all__ = ["START", "Cycle", "Shape", "cycles", "write_cycles"]

DEFAULT = Shape()
Cycle = tuple[Observation, Assessment, Decision]


def cycles(count: int, shape: Shape = DEFAULT) -> Iterator[Cycle]:
    """``count`` cycles; always the same."""
    chance = random.Random(7)
    for number, observation in enumerate(observations(count, shape), 1):
        (query,) = observation.queries
        assert query.offsets is not None
        backlog = sum(filter(None, query.offsets.latest)) - sum(filter(None, query.offsets.committed))
        assessment = _assessment(observation, backlog, chance)
        yield observation, assessment, _decision(observation.at, number, shape.executors)


def write_cycles(folder: Path, count: int, shape: Shape = DEFAULT) -> None:
    """A journal of ``count`` cycles."""
    writer = JournalWriter(folder)
    writer.start(Header("0", {}))
    for cycle in cycles(count, shape):
        writer.record(DecisionRecord.of(*cycle), dict)
    writer.close()


def _assessment(observation: Observation, backlog: int, chance: random.Random) -> Assessment:
    workers = len(observation.cluster.roster.ids) if observation.cluster else None
    return Assessment(
        at=observation.at,
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
        ReasonCode.SLA_VIOLATED,
        "the backlog of 14 212 records beyond the batch takes 12.2 s to clear, more than 7.5 s",
        figures,
    )
    limited = Reason(
        ReasonCode.LARGEST_STEP, "one step up is at most 1 executor: from 4 to 5 instead of 9", {"largest_step": 1}
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
