"""What is told of a job: names and units by Prometheus's conventions, and only what is known.

A figure that is unknown has no sample: not 0, not NaN. Every name is stable, as dashboards and alerts depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rheostat.journal import DecisionRecord
from rheostat.model import Assessment, Offsets
from rheostat.telemetry.hearing import Heard

__all__ = ["NAMES", "Series", "series"]


_Samples = dict[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Series:
    """One metric with its samples.

    Attributes:
        labels: names of the labels.
        samples: values of the labels → value; never empty, each finite.
    """

    name: str
    meaning: str
    samples: _Samples
    kind: Literal["gauge", "counter"] = "gauge"
    labels: tuple[str, ...] = ()


class _Gauge(NamedTuple):
    """A figure of the last cycle as a whole."""

    name: str
    meaning: str
    read: Callable[[Assessment], float | None]


def _healthy(seen: Assessment) -> float | None:
    if seen.backlog is None or seen.backlog_excess is None:
        return None
    return seen.backlog - seen.backlog_excess


_SEEN = (
    _Gauge("rheostat_backlog_records", "Records in the sources that are not committed.", lambda seen: seen.backlog),
    _Gauge(
        "rheostat_healthy_backlog_records",
        "The part of the backlog that a job that keeps up has too: what arrives in a trigger and a batch.",
        _healthy,
    ),
    _Gauge("rheostat_lag_seconds", "Age of the oldest record that is not committed.", lambda seen: seen.lag_s),
    _Gauge(
        "rheostat_arrival_records_per_second",
        "Records that reach the sources, over the rate window.",
        lambda seen: seen.arrival_rate,
    ),
    _Gauge(
        "rheostat_processed_records_per_second",
        "Records that are committed, over the rate window.",
        lambda seen: seen.processed_rate,
    ),
    _Gauge("rheostat_busy_ratio", "Share of the time of the slots in tasks.", lambda seen: seen.busy_ratio),
    _Gauge(
        "rheostat_occupancy_ratio",
        "Time of the last batch, or of the running one if that is longer, by the time that it may take.",
        lambda seen: seen.occupancy,
    ),
    _Gauge("rheostat_registered_executors", "Executors that are registered.", lambda seen: seen.executors),
    _Gauge("rheostat_requested_executors", "Executors that were asked for last.", lambda seen: seen.requested),
    _Gauge(
        "rheostat_metrics_age_seconds",
        "Age of the oldest figure that the last decision needed, when it was made.",
        lambda seen: seen.metrics_age_s,
    ),
)

_TARGET = ("rheostat_target_executors", "Executors that the last decision wants.")
_CYCLE = ("rheostat_last_cycle_timestamp_seconds", "When the last decision was made, seconds since the epoch.")
_LATEST = ("rheostat_latest_offset_records", "Records that the partition has got.")
_COMMITTED = ("rheostat_committed_offset_records", "Records of the partition that the query has committed.")
_DECISIONS = ("rheostat_decisions_total", "Decisions, holds included, by what they do and why.")
_FAILED = ("rheostat_failed_cycles_total", "Cycles that failed: they hold.")

NAMES = (
    *(gauge.name for gauge in _SEEN),
    *(name for name, _ in (_TARGET, _CYCLE, _LATEST, _COMMITTED, _DECISIONS, _FAILED)),
)
"""Every metric that there can be."""


def series(heard: Heard) -> Iterator[Series]:
    """What is known now."""
    if heard.last is not None:
        yield from _of_cycle(heard.last)
    if heard.decisions:
        counts: _Samples = {(str(action), str(code)): float(many) for (action, code), many in heard.decisions.items()}
        yield Series(*_DECISIONS, counts, "counter", ("action", "code"))
    yield Series(*_FAILED, {(): float(heard.failed)}, "counter")


def _of_cycle(last: DecisionRecord) -> Iterator[Series]:
    seen = last.assessment
    if seen is not None:
        for name, meaning, read in _SEEN:
            yield from _single(name, meaning, read(seen))
    yield from _single(*_TARGET, last.decision.target)
    yield from _single(*_CYCLE, last.at)
    yield from _positions(*_LATEST, last, lambda found: found.latest)
    yield from _positions(*_COMMITTED, last, lambda found: found.committed)


def _single(name: str, meaning: str, value: float | None) -> Iterator[Series]:
    if value is not None and math.isfinite(value):
        yield Series(name, meaning, {(): float(value)})


def _positions(
    name: str, meaning: str, last: DecisionRecord, read: Callable[[Offsets], Sequence[int | None]]
) -> Iterator[Series]:
    """A position in each partition of each query where it is known."""
    samples: _Samples = {}
    for query in last.observation.queries if last.observation is not None else ():
        if query.offsets is None:
            continue
        rows = zip(query.offsets.topics, query.offsets.numbers, read(query.offsets), strict=True)
        for topic, number, value in rows:
            if value is not None:
                samples[query.name or query.query_id, topic, str(number)] = float(value)
    if samples:
        yield Series(name, meaning, samples, labels=("query", "topic", "partition"))
