"""Cycles that are told of, made by hand."""

from rheostat.journal.records import DecisionRecord
from rheostat.model import (
    Action,
    Assessment,
    Decision,
    Observation,
    Offsets,
    PartitionOffsets,
    QueryReading,
    Reason,
    ReasonCode,
    Recommendation,
)

START = 1_764_280_800.0

WHOLE = Assessment(
    at=START,
    executors=3,
    requested=4,
    arrival_rate=700.0,
    processed_rate=1000.0,
    backlog=12_000,
    backlog_excess=2_000.5,
    lag_s=7.25,
    occupancy=1.5,
    busy_ratio=0.75,
    metrics_age_s=0.5,
)


def decided(number=1, action=Action.UP, code=ReasonCode.UNDERSIZED, target: int | None = 4, at=START):
    reason = Reason(code, "because")
    return Decision(at, number, action, 3, target, reason, Recommendation(target, reason))


def reading(*partitions, name: str | None = "clicks", query_id="q-1"):
    """A query; each partition as (topic, partition, latest, planned, committed)."""
    offsets = Offsets.of(START, tuple(PartitionOffsets(*each) for each in partitions))
    return QueryReading(query_id, "r-1", name, 5.0, offsets=offsets)


def cycle(assessment: Assessment | None = WHOLE, *queries, **given):
    observation = Observation(START, queries) if assessment is not None else None
    return DecisionRecord.of(observation, assessment, decided(**given))
