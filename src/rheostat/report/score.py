"""The score of a run: what it cost, and how well it kept its objective.

A run is a step function of time: a sample holds until the next one. Executors are paid for from the request until they
are gone, ``max(registered, requested)``, and also between two samples that are far apart. Lag is not: after a while
without a sample it is unknown, and unknown time counts neither as kept nor as violated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rheostat.journal.records import DecisionRecord, OutcomeRecord, Record
from rheostat.model import Decision, Outcome, OutcomeStatus

SCORE_SCHEMA = "rheostat.score/1"


@dataclass(frozen=True, slots=True)
class Sample:
    """A moment of a run; None: unknown.

    Attributes:
        executors: registered.
        target: the number requested from now on.
        lag_s: age of the oldest uncommitted record.
    """

    at: float
    executors: int | None
    target: int | None
    lag_s: float | None

    @property
    def paid(self) -> int | None:
        """Executors that cost: registered, or requested and on their way."""
        known = [number for number in (self.executors, self.target) if number is not None]
        return max(known, default=None)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Which run a score is of. ``n_max`` is the greatest number of executors allowed."""

    version: str
    engine: str
    policy: str
    objective_s: float
    n_max: int | None = None
    job: str | None = None
    trace: str | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """Records of the run; None: not counted.

    ``agrees``: whether the checksums of input and output are equal; None: not compared.
    """

    records_in: int | None = None
    records_out: int | None = None
    records_lost: int | None = None
    records_duplicated: int | None = None
    records_shed: int | None = None
    agrees: bool | None = None

    @property
    def valid(self) -> bool | None:
        """Whether nothing was lost or doubled; None: not counted."""
        if self.agrees is False:
            return False
        if self.records_lost is None:
            return None
        return self.records_lost == 0 and not self.records_duplicated


@dataclass(frozen=True, slots=True)
class _Span:
    """A sample, and how long it holds: for executors, and for lag."""

    sample: Sample
    seconds: float
    lag_seconds: float


def score(
    run: RunFacts,
    samples: Sequence[Sample],
    *,
    window: tuple[float, float] | None = None,
    stale_after_s: float = math.inf,
    counts: Counts = Counts(),
) -> dict[str, Any]:
    """The score in the shape of ``rheostat.score/1``; a figure that was not measured is None.

    Args:
        run: which run it is.
        samples: in the order of time.
        window: start and end; by default from the first sample to the last.
        stale_after_s: a lag is unknown this long after its sample.
        counts: records, where they were counted.
    """
    start, end = window or ((samples[0].at, samples[-1].at) if samples else (0.0, 0.0))
    spans = list(_spans(samples, start, end, stale_after_s))
    lags = [(span.sample.lag_s, span.lag_seconds) for span in spans if span.sample.lag_s is not None]
    return {
        "schema": SCORE_SCHEMA,
        "version": run.version,
        "engine": run.engine,
        "policy": run.policy,
        "job": run.job,
        "trace": run.trace,
        "seed": run.seed,
        "seconds": end - start,
        "n_max": run.n_max,
        "objective_s": run.objective_s,
        "records_in": counts.records_in,
        "records_out": counts.records_out,
        "records_lost": counts.records_lost,
        "records_duplicated": counts.records_duplicated,
        "records_shed": counts.records_shed,
        "provisioning_accuracy_o": None,
        "provisioning_accuracy_u": None,
        "timeshare_o": None,
        "timeshare_u": None,
        "excess_time": None,
        "reconfigurations": changes_asked(span.sample for span in spans),
        **_executor_figures(spans, end - start),
        "violation_share": _share_above(lags, run.objective_s),
        "lag_p50_s": time_weighted(lags, 0.50),
        "lag_p95_s": time_weighted(lags, 0.95),
        "lag_max_s": max((lag for lag, _ in lags), default=None),
        "total_cost": None,
        "optimum_cost": None,
        "valid": counts.valid,
    }


def time_weighted(values: Sequence[tuple[float, float]], share: float) -> float | None:
    """The smallest value that is not exceeded for ``share`` of the time; values come with their seconds.

    >>> time_weighted([(1.0, 9.0), (5.0, 1.0)], 0.5), time_weighted([(1.0, 9.0), (5.0, 1.0)], 0.95)
    (1.0, 5.0)
    """
    total = sum(seconds for _, seconds in values)
    passed = 0.0
    for value, seconds in sorted(values):
        passed += seconds
        if passed >= share * total * (1 - 1e-12):
            return value
    return None


def samples_of(records: Iterable[Record]) -> list[Sample]:
    """The samples of a journal. A target that was only recorded (watch, dry run, paused) was not requested."""
    records = list(records)
    recorded = {
        record.outcome.decision_id
        for record in records
        if isinstance(record, OutcomeRecord) and record.outcome.status is OutcomeStatus.RECORDED
    }
    return [_sample_of(record, recorded) for record in records if isinstance(record, DecisionRecord)]


def _sample_of(record: DecisionRecord, recorded: set[int]) -> Sample:
    assessment, decision = record.assessment, record.decision
    asks = decision.acts and record.decision_id not in recorded
    if assessment is None:
        return Sample(record.at, None, decision.target if asks else None, None)
    requested = assessment.executors if assessment.requested is None else assessment.requested
    return Sample(record.at, assessment.executors, decision.target if asks else requested, assessment.lag_s)


def _spans(samples: Sequence[Sample], start: float, end: float, stale_after_s: float) -> Iterator[_Span]:
    """The samples cut to the window; an unknown number of executors is the one before."""
    executors = target = None
    last = Sample(end, None, None, None)
    for sample, after in pairwise([*samples, last]):
        executors = sample.executors if sample.executors is not None else executors
        target = sample.target if sample.target is not None else target
        begins, ends = max(sample.at, start), min(after.at, end)
        if ends < begins:
            continue
        known = Sample(sample.at, executors, target, sample.lag_s)
        yield _Span(known, ends - begins, max(0.0, min(ends, sample.at + stale_after_s) - begins))


def _executor_figures(spans: Sequence[_Span], seconds: float) -> dict[str, Any]:
    paid = [(span.sample.paid, span.seconds) for span in spans if span.sample.paid is not None]
    registered = [span.sample.executors for span in spans if span.sample.executors is not None]
    known = bool(paid)
    return {
        "executor_hours": sum(number * span for number, span in paid) / 3600 if known else None,
        "static_executor_hours": max(number for number, _ in paid) * seconds / 3600 if known else None,
        "executors_max": max(registered, default=None),
        "executors_final": registered[-1] if registered else None,
    }


def changes_asked(samples: Iterable[Sample]) -> int:
    """How often the target changed; the first target is no change."""
    targets = [sample.target for sample in samples if sample.target is not None]
    return sum(before != after for before, after in pairwise(targets))


def _share_above(values: Sequence[tuple[float, float]], limit: float) -> float | None:
    total = sum(seconds for _, seconds in values)
    return sum(seconds for value, seconds in values if value > limit) / total if total else None


# A journal as columns over time, for plots and tables


@dataclass(frozen=True, slots=True)
class Change:
    """A decision that acted, and its outcome; None: none was recorded."""

    decision: Decision
    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class Series:
    """One value a cycle in each column; None where it was not known.

    Attributes:
        at: seconds since ``start``.
        start: time of the first cycle, seconds of the epoch; 0 without a cycle.
        arrival, processed: records/s.
        backlog, excess: records.
        lag: seconds.
        registered, requested: executors.
        reasons: code and sentence of each decision, with the policy's proposal where a guard changed it.
        changes: decisions that acted.
    """

    start: float
    at: list[float]
    arrival: list[float | None]
    processed: list[float | None]
    backlog: list[int | None]
    excess: list[float | None]
    lag: list[float | None]
    registered: list[int | None]
    requested: list[int | None]
    reasons: list[str]
    changes: list[Change]


def series(records: Iterable[Record]) -> Series:
    """Gather the columns; a cycle that saw nothing leaves None in them."""
    outcomes: dict[int, Outcome] = {}
    cycles: list[DecisionRecord] = []
    for record in records:
        if isinstance(record, OutcomeRecord):
            outcomes[record.outcome.decision_id] = record.outcome
        elif isinstance(record, DecisionRecord):
            cycles.append(record)
    start = cycles[0].at if cycles else 0.0
    decisions = [record.decision for record in cycles]

    def column(name: str) -> list[Any]:
        return [None if each.assessment is None else getattr(each.assessment, name) for each in cycles]

    return Series(
        start=start,
        at=[record.at - start for record in cycles],
        arrival=column("arrival_rate"),
        processed=column("processed_rate"),
        backlog=column("backlog"),
        excess=column("backlog_excess"),
        lag=column("lag_s"),
        registered=column("executors"),
        requested=[
            requested if decision.target is None else decision.target
            for requested, decision in zip(column("requested"), decisions, strict=True)
        ],
        reasons=[f"{decision.reason.code}: {decision.why}" for decision in decisions],
        changes=[Change(decision, outcomes.get(decision.decision_id)) for decision in decisions if decision.acts],
    )
