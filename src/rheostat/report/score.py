"""The score of a run: what it cost, and how well it kept its objective.

A run is a step function of time: a sample holds until the next one. Executors are paid for from the request until they
are gone, ``max(registered, requested)``, and also between two samples that are far apart. Lag is not: after a while
without a sample it is unknown, and unknown time counts neither as kept nor as violated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from rheostat.decide.policy import current_target
from rheostat.journal.records import DecisionRecord, OutcomeRecord, Record
from rheostat.model import Assessment, EdgeCount, OutcomeStatus, add_counts

SCORE_SCHEMA = "rheostat.score/1"


@dataclass(frozen=True, slots=True)
class Figure:
    """The definition of a figure, its unit, and its column in the tables of ``compare``; empty: it has none."""

    meaning: str
    unit: str = ""
    column: str = ""


EVERY_SCORE: Mapping[str, Figure] = {
    "schema": Figure("name and version of the format"),
    "version": Figure("of Rheostat"),
    "engine": Figure("sim: the simulated job; spark: a real one"),
    "policy": Figure("the policy, as NAME or NAME:PRESET"),
    "job": Figure("name of the job"),
    "trace": Figure("the load: a trace's file without its ending, or a shape; null: not recorded"),
    "seed": Figure("of all random draws"),
    "seconds": Figure(
        "P: from the start of the load, or the first sample, until all is committed, or the last sample", "s"
    ),
    "n_max": Figure("greatest number of executors allowed", "executors"),
    "objective_s": Figure("L: lag that must not be exceeded", "s"),
    "records_in": Figure("offered by the load", "records"),
    "records_out": Figure("committed, or found in the sink", "records"),
    "records_lost": Figure("offered and never committed", "records"),
    "records_duplicated": Figure("committed more than once", "records"),
    "records_shed": Figure(
        "sim: rejected before the query; spark: dropped at an edge of the shedding graph", "records"
    ),
    "provisioning_accuracy_o": Figure(
        "mean of max(0, supply − demand) while the load lasts; supply: executors able to work, demand: the fewest "
        "whose capacity carries the present rate (SPEC RG, S2)",
        "executors",
        "acc. over",
    ),
    "provisioning_accuracy_u": Figure("mean of max(0, demand − supply), likewise", "executors", "acc. under"),
    "timeshare_o": Figure("share of the load's time with too many executors", "1", "time over"),
    "timeshare_u": Figure("share of the load's time with too few", "1", "time under"),
    "excess_time": Figure("(P − T) ÷ T, T the load's duration", "1", "excess time"),
    "reconfigurations": Figure("how often the target changed", "", "changes"),
    "executor_hours": Figure("∫ executors, each from its request until it is gone", "executor-h", "executor-h"),
    "static_executor_hours": Figure(
        "sim: the fewest that carry the peak, all of P; spark: the most that were paid for at once, all of P",
        "executor-h",
    ),
    "executors_max": Figure("most at once: sim: able to work; spark: registered", "executors"),
    "executors_final": Figure("at the end, likewise", "executors"),
    "violation_share": Figure(
        "share of P with lag > L; spark: of the time in which it is known", "1", "over objective"
    ),
    "lag_p50_s": Figure("age of the oldest uncommitted record, not exceeded for half of the time", "s"),
    "lag_p95_s": Figure("the same for 95 % of the time", "s", "lag p95"),
    "lag_max_s": Figure("its greatest value", "s", "lag max"),
    "total_cost": Figure(
        "executor_hours + 60 ÷ 3600 × reconfigurations + w × hours with lag > L, w the fewest executors that carry "
        "the peak",
        "executor-h",
        "cost",
    ),
    "optimum_cost": Figure(
        "what no run of that job under that load can undercut; ÷ optimum: total_cost by it",
        "executor-h",
        "÷ optimum",
    ),
    "valid": Figure("whether the run counts: nothing lost or doubled, all committed in time, no failed cycle"),
}
"""The figures of every score, ``rheostat.score/1``; null where a figure was not measured."""


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


def score(
    run: RunFacts,
    samples: Sequence[Sample],
    *,
    window: tuple[float, float] | None = None,
    stale_after_s: float = math.inf,
    counts: Counts = Counts(),
) -> dict[str, Any]:
    """The score in the shape of ``rheostat.score/1``; a figure that was not measured is None.

    ``samples`` are in the order of time. ``window``: start and end, by default from the first sample to the last. A lag
    is unknown ``stale_after_s`` after its sample.
    """
    start, end = window or ((samples[0].at, samples[-1].at) if samples else (0.0, 0.0))
    spans = list(_cut(samples, start, end))
    lags = [
        (sample.lag_s, max(0.0, min(until, sample.at + stale_after_s) - since))
        for sample, since, until in spans
        if sample.lag_s is not None
    ]
    return {
        **dict.fromkeys(EVERY_SCORE),
        "schema": SCORE_SCHEMA,
        **asdict(run),
        "seconds": end - start,
        **{name: number for name, number in asdict(counts).items() if name != "agrees"},
        "reconfigurations": changes_asked(sample for sample, *_ in spans),
        **_executor_figures(spans, end - start),
        "violation_share": _share_above(lags, run.objective_s),
        "lag_p50_s": time_weighted(lags, 0.50),
        "lag_p95_s": time_weighted(lags, 0.95),
        "lag_max_s": max((lag for lag, _ in lags), default=None),
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
    samples = []
    for record in records:
        if isinstance(record, DecisionRecord):
            assessment = record.assessment or Assessment(record.at)
            asks = record.decision.acts and record.decision_id not in recorded
            target = record.decision.target if asks else current_target(assessment)
            samples.append(Sample(record.at, assessment.executors, target, assessment.lag_s))
    return samples


def count_edges(records: Iterable[Record]) -> tuple[EdgeCount, ...]:
    """The counts of the shedding graph in a whole run: each batch once, also one that was seen by several cycles."""
    batches: dict[tuple[str, int], tuple[EdgeCount, ...]] = {}
    for record in records:
        observation = record.observation if isinstance(record, DecisionRecord) else None
        for query in () if observation is None else observation.queries:
            for batch in (*query.ended, *(() if query.batch is None else (query.batch,))):
                batches[query.query_id, batch.batch_id] = batch.edges
    return add_counts(edge for edges in batches.values() for edge in edges)


def _cut(samples: Sequence[Sample], start: float, end: float) -> Iterator[tuple[Sample, float, float]]:
    """Each sample in the window, with the times between which it holds; an unknown number is the one before."""
    executors = target = None
    for sample, after in pairwise([*samples, Sample(end, None, None, None)]):
        executors = sample.executors if sample.executors is not None else executors
        target = sample.target if sample.target is not None else target
        since, until = max(sample.at, start), min(after.at, end)
        if since <= until:
            yield Sample(sample.at, executors, target, sample.lag_s), since, until


def _executor_figures(spans: Sequence[tuple[Sample, float, float]], seconds: float) -> dict[str, Any]:
    paid = [(sample.paid, until - since) for sample, since, until in spans if sample.paid is not None]
    registered = [sample.executors for sample, *_ in spans if sample.executors is not None]
    return {
        "executor_hours": sum(number * span for number, span in paid) / 3600 if paid else None,
        "static_executor_hours": max(number for number, _ in paid) * seconds / 3600 if paid else None,
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


class Series:
    """A journal over time, for plots and tables.

    Attributes:
        cycles: every record of a decision.
        changes: decisions that acted, each with its outcome; None: none was recorded.
        start: time of the first cycle, seconds of the epoch; 0 without a cycle.
        at: of each cycle, seconds since ``start``.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        records = list(records)
        outcomes = {each.outcome.decision_id: each.outcome for each in records if isinstance(each, OutcomeRecord)}
        self.cycles = [each for each in records if isinstance(each, DecisionRecord)]
        self.changes = [(each.decision, outcomes.get(each.decision_id)) for each in self.cycles if each.decision.acts]
        self.start = self.cycles[0].at if self.cycles else 0.0
        self.at = [record.at - self.start for record in self.cycles]

    def column(self, name: str) -> list[Any]:
        """A field of each cycle's assessment; None where the cycle saw nothing."""
        return [None if each.assessment is None else getattr(each.assessment, name) for each in self.cycles]

    def targets(self) -> list[int | None]:
        numbers = zip(self.column("requested"), self.cycles, strict=True)
        return [each.decision.target if each.decision.target is not None else requested for requested, each in numbers]
