"""The score of a run: what it cost, and how well it kept its objective.

A run is a step function of time: what a sample says holds until the next one. Executors are paid for from the request
until they are gone, ``max(registered, requested)``, and go on being paid for while nobody looks. Lag is not carried
over: after a while without a sample it is unknown, and unknown time counts neither as kept nor as violated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from rheostat.journal.records import DecisionRecord, OutcomeRecord, Record, SessionRecord
from rheostat.model import Decision, Outcome, OutcomeStatus

SCORE_SCHEMA = "rheostat.score/1"


@dataclass(frozen=True, slots=True)
class Sample:
    """A moment of a run; None: unknown.

    Attributes:
        executors: registered.
        target: the number asked for from now on.
        lag_s: age of the oldest uncommitted record.
    """

    at: float
    executors: int | None
    target: int | None
    lag_s: float | None

    @property
    def paid(self) -> int | None:
        """Executors that cost: registered, or asked for and on their way."""
        known = [number for number in (self.executors, self.target) if number is not None]
        return max(known, default=None)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a score says of the run beside its figures. ``n_max`` is the greatest number allowed."""

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
    """Records that went through; None: not counted.

    ``agrees``: whether the checksums of what went in and what came out are equal; None: not compared.
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
    """The score in the shape of ``rheostat.score/1``; what was not measured is None.

    Args:
        run: what the run was.
        samples: in the order of time.
        window: start and end of what counts; without it from the first sample to the last.
        stale_after_s: a lag is unknown this long after its sample.
        counts: records, where somebody counted them.
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
        **_executors(spans, end - start),
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
    """The run that a journal tells. A target that was only recorded (watch, dry run, paused) was not asked for."""
    records = list(records)
    recorded = {
        record.outcome.decision_id
        for record in records
        if isinstance(record, OutcomeRecord) and record.outcome.status is OutcomeStatus.RECORDED
    }
    return [_sample(record, recorded) for record in records if isinstance(record, DecisionRecord)]


def _sample(record: DecisionRecord, recorded: set[int]) -> Sample:
    seen, decision = record.assessment, record.decision
    asks = decision.acts and record.decision_id not in recorded
    if seen is None:
        return Sample(record.at, None, decision.target if asks else None, None)
    requested = seen.executors if seen.requested is None else seen.requested
    return Sample(record.at, seen.executors, decision.target if asks else requested, seen.lag_s)


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


def _executors(spans: Sequence[_Span], seconds: float) -> dict[str, Any]:
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
    """How often the number that was asked for changed; what was asked for first is no change."""
    targets = [sample.target for sample in samples if sample.target is not None]
    return sum(before != after for before, after in pairwise(targets))


def _share_above(values: Sequence[tuple[float, float]], limit: float) -> float | None:
    total = sum(seconds for _, seconds in values)
    return sum(seconds for value, seconds in values if value > limit) / total if total else None


# A journal as columns over time: what plots and tables draw.


@dataclass(frozen=True, slots=True)
class Change:
    """A decision that acted, and what became of it; None: nothing was recorded of it."""

    decision: Decision
    outcome: Outcome | None


@dataclass(slots=True)
class Series:
    """One value a cycle in each column; None where it was not known.

    Attributes:
        at: seconds since ``start``.
        start: time of the first cycle, seconds of the epoch; 0 without a cycle.
        arrival, processed: records/s.
        backlog, excess: records.
        lag: seconds.
        registered, requested: executors.
        reasons: code and sentence of each decision, with what the policy wanted where a guard changed it.
        changes: decisions that acted.
    """

    start: float = 0.0
    at: list[float] = field(default_factory=list)
    arrival: list[float | None] = field(default_factory=list)
    processed: list[float | None] = field(default_factory=list)
    backlog: list[int | None] = field(default_factory=list)
    excess: list[float | None] = field(default_factory=list)
    lag: list[float | None] = field(default_factory=list)
    registered: list[int | None] = field(default_factory=list)
    requested: list[int | None] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)


def series(records: Iterable[Record]) -> Series:
    """Gather the columns; a cycle that saw nothing leaves None in them."""
    found = Series()
    outcomes: dict[int, Outcome] = {}
    acting: list[Decision] = []
    for record in records:
        match record:
            case SessionRecord():
                continue
            case OutcomeRecord():
                outcomes[record.outcome.decision_id] = record.outcome
            case DecisionRecord():
                _add(found, record)
                if record.decision.acts:
                    acting.append(record.decision)
    found.changes = [Change(decision, outcomes.get(decision.decision_id)) for decision in acting]
    return found


def _add(found: Series, record: DecisionRecord) -> None:
    meant, decided = record.assessment, record.decision
    if not found.at:
        found.start = record.at
    found.at.append(record.at - found.start)
    found.arrival.append(meant.arrival_rate if meant else None)
    found.processed.append(meant.processed_rate if meant else None)
    found.backlog.append(meant.backlog if meant else None)
    found.excess.append(meant.backlog_excess if meant else None)
    found.lag.append(meant.lag_s if meant else None)
    found.registered.append(meant.executors if meant else None)
    found.requested.append(decided.target if decided.target is not None else (meant.requested if meant else None))
    found.reasons.append(f"{decided.reason.code}: {decided.why}")
