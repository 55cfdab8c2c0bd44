"""Stories that policies are checked on: a small fluid micro-batch job under a load, sample by sample.

Each executor carries 400 records/s. The trigger is 10 s, a batch has a fixed part of 1 s, a sample is taken each 15 s,
and executors register one sample after their request. Metrics follow the formulas of :mod:`rheostat.analyze.assess`;
records and rates scale with ``factor`` exactly (it is a power of two), so that a run at another scale can be compared
decision by decision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rheostat.analyze.batches import has_backpressure, healthy_backlog
from rheostat.model import Assessment, Batch, Bounds

SAMPLE_S = 15.0
OBJECTIVE_S = 30.0
EXECUTOR_RATE = 400.0
TRIGGER_S = 10.0
PERIOD_S = 15.0
FIXED_S = 1.0
GRAIN = 64
"""Backlogs are multiples of it, so that they are integers at ``factor`` 1/64 too."""

_CLEAN = 2
_NOISE = (0.4, -1.1, 0.9, -0.3, 1.4, -0.8, 0.1, -1.5, 0.7, 0.2)
OPTIONAL = (
    "processed_rate",
    "busy_ratio",
    "occupancy",
    "pressure",
    "throughput",
    "last_batch_s",
    "last_batch_records",
    "capped",
    "partitions",
)
"""Metrics that may be unknown in a valid assessment."""


@dataclass(frozen=True, slots=True)
class Step:
    """One sample: arrival rate up to it, records/s; time since the one before; changes to its assessment."""

    rate: float
    passed_s: float = SAMPLE_S
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Story:
    """A load, and the job under it with so many executors at the start and records in a batch; None: no limit."""

    name: str
    steps: tuple[Step, ...]
    start: int = 3
    bounds: Bounds = field(default_factory=lambda: Bounds(1, 8))
    batch_cap: float | None = None


@dataclass
class Job:
    """The job of a story: assesses one sample after another, and follows requests.

    ``factor`` multiplies all records, a power of two ≥ 1/64. ``left``: records that wait beyond those of one trigger.
    """

    story: Story
    factor: float = 1.0
    at: float = 1000.0
    left: float = 0.0
    requested: int | None = None
    batches: int = 5
    number: int = 5

    def __post_init__(self) -> None:
        self.executors = self.story.start

    def ask(self, executors: int) -> None:
        """Request executors; they are there at the next sample but one."""
        self.requested = executors

    def step(self, step: Step) -> Assessment:
        """Advance to this sample, and assess it."""
        self.at += step.passed_s
        self.batches, self.number = self.batches + 1, self.number + 1
        rate, carried = step.rate * self.factor, EXECUTOR_RATE * self.factor * self.executors
        cap = math.inf if self.story.batch_cap is None else self.story.batch_cap * self.factor
        waiting = self.left + rate * step.passed_s
        processed = min(carried, cap / TRIGGER_S, waiting / step.passed_s)
        self.left = waiting - processed * step.passed_s
        assessment = self._assess(rate, processed, carried, cap)
        if self.requested is not None and self.requested != self.executors:
            self.executors, self.batches = self.requested, -1
        return replace(assessment, **step.changes)

    def _assess(self, rate: float, processed: float, carried: float, cap: float) -> Assessment:
        records = min(cap, processed * TRIGGER_S + self.left)
        batch_s = FIXED_S + records / carried
        assessment = Assessment(
            at=self.at,
            executors=self.executors,
            requested=self.requested,
            slots_per_executor=1,
            arrival_rate=rate,
            processed_rate=processed,
            lag_s=TRIGGER_S + batch_s + (self.left / processed if processed else 0.0),
            batch_s=batch_s,
            trigger_s=TRIGGER_S,
            period_s=PERIOD_S,
            last_batch_s=batch_s,
            last_batch_id=self.number,
            last_batch_records=self._whole(records),
            arrived=self._whole(rate * TRIGGER_S),
            running_since=self.at,
            batch_cap=None if math.isinf(cap) else int(cap),
            ended=(Batch(self.at, self.number, batch_s, planning_s=FIXED_S, records=self._whole(records)),),
            occupancy=batch_s / PERIOD_S,
            busy_ratio=min(1.0, processed / carried),
            batches=max(0, self.batches),
            capped=records >= cap and self.left > 0,
            failed_tasks=0,
            partitions=24,
            metrics_age_s=0.5,
            queries=1,
        )
        return with_backlog(assessment, self._whole(self.left + rate * TRIGGER_S), self._whole(min(records, self.left)))

    def _whole(self, records: float) -> int:
        grain = GRAIN * self.factor
        return int(records // grain * grain)


def with_backlog(assessment: Assessment, backlog: int, waiting: int) -> Assessment:
    """The same sample with another backlog, and the metrics that depend on it."""
    rate, processed = assessment.arrival_rate or 0.0, assessment.processed_rate or 0.0
    batch_s, draining = assessment.batch_s or 0.0, processed > rate
    excess = max(0.0, backlog - healthy_backlog(rate, TRIGGER_S, batch_s, PERIOD_S))
    held = bool(has_backpressure(batch_s, TRIGGER_S, PERIOD_S, backlog, excess, None))
    return replace(
        assessment,
        backlog=backlog,
        waiting=waiting,
        in_flight=backlog - waiting,
        backlog_excess=excess,
        pressure=float(held),
        throughput=processed if held and assessment.batches >= _CLEAN else None,
        draining=draining,
        drain_s=backlog / (processed - rate) if draining else None,
    )


def steady_rates(mean: float, count: int, spread: float = 0.08) -> list[float]:
    """Rates around a mean; ``spread``: about their standard deviation ÷ mean.

    >>> steady_rates(100.0, 3)
    [103.2, 91.2, 107.2]
    """
    return [mean * (1 + spread * _NOISE[place % len(_NOISE)]) for place in range(count)]


def _line(first: float, last: float, count: int) -> list[float]:
    return [first + (last - first) * place / (count - 1) for place in range(count)]


def _steps(*rates: list[float], **changes: Any) -> tuple[Step, ...]:
    return tuple(Step(rate, changes=changes) for part in rates for rate in part)


def _with_gaps() -> tuple[Step, ...]:
    """A rise and a fall with missing, impossible or old metrics, unknown executors, and minutes without samples."""
    steps = list(_steps(_line(200, 2400, 18), _line(2400, 100, 22), [100.0] * 18))
    gaps: dict[int, dict[str, Any]] = {
        6: {"arrival_rate": None, "missing": ("arrival_rate",)},
        13: {"executors": None, "requested": None, "missing": ("executors",)},
        20: {"backlog": None, "backlog_excess": None, "invalid": ("offsets.committed",)},
        24: {"metrics_age_s": 90.0},
        33: {"failed_tasks": 2},
        44: {"batch_s": None, "occupancy": None, "missing": ("batch_s",)},
        50: {"queries": 0},
    }
    for place, changes in gaps.items():
        steps[place] = replace(steps[place], changes=changes)
    steps[29] = replace(steps[29], passed_s=300.0)
    return tuple(steps)


def _wave(count: int) -> list[float]:
    return [1300 - 1100 * math.cos(2 * math.pi * place / 80) for place in range(count)]


STORIES: tuple[Story, ...] = (
    Story("steady", _steps(steady_rates(900, 30))),
    Story("rise", _steps(_line(200, 2600, 30), [2600.0] * 6), start=1),
    Story("fall", _steps([2600.0] * 6, _line(2600, 100, 24), [100.0] * 20), start=8),
    Story("overload", _steps([300.0] * 6, [3600.0] * 12, [300.0] * 22), start=2, bounds=Bounds(2, 6)),
    Story("gaps", _with_gaps(), start=1),
    Story("capped batches", _steps([300.0] * 8, [620.0] * 14, [300.0] * 14), start=4, batch_cap=5000.0),
    Story("no load", _steps([0.0] * 14, [200.0] * 10, [0.0] * 14), start=5, bounds=Bounds(3, 5)),
    Story(
        "only what is needed", _steps(_line(200, 2000, 14), _line(2000, 200, 22), **dict.fromkeys(OPTIONAL)), start=1
    ),
    Story("two waves", _steps(_wave(80)), start=2),
)
