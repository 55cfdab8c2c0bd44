"""Scenarios of Stream Economics, shortened, for a real Kafka and a real Spark: their plans, and what runs show.

See :mod:`rheostat.research.papers.s3_cluster`, which plays them [S3, chapter 5].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from statistics import correlation, fmean
from typing import Any

from rheostat.analyze.batches import list_ended
from rheostat.analyze.processors import estimate_error
from rheostat.config.shedding import WHOLE, parse_edge
from rheostat.journal.records import DecisionRecord
from rheostat.model import Batch, Offsets, ReasonCode, SheddingPlan
from rheostat.research.papers.results import Result
from rheostat.research.papers.s3_accounts import Account

OBJECTIVE_S, SAMPLE_S = 20.0, 2.0
EXECUTORS = 2
KINDS = ("driver", "node server", "executor", "broker")
"""What fails. The controller is a part of the driver."""
_WITH, _WITHOUT, _PRIORITIES, _RATES = "taxi", "taxi without shedding", "taxi and knn", "knn"
_FAILURES = "taxi and knn with failures"


@dataclass(frozen=True, slots=True)
class LivePlan:
    """One run.

    Attributes:
        rates: for each application, when its load begins, and steps (seconds, records/s of each of its topics).
        settings: of the pipelines, by application.
        workers: on each node, at most.
        joins_s: when the second node server starts; 0: with the first.
        sheds: whether records may be dropped.
        fails_every_s: least and greatest time between two failures, of each kind by turns; None: nothing fails.
    """

    rates: Mapping[str, tuple[float, Sequence[tuple[float, float]]]]
    settings: Mapping[str, Mapping[str, Any]]
    workers: int = EXECUTORS
    joins_s: float | None = 0.0
    sheds: bool = True
    fails_every_s: tuple[float, float] | None = None

    @property
    def topics(self) -> list[str]:
        return [topic for app in self.rates for topic in _TOPICS[app]]

    @property
    def seconds(self) -> float:
        return max(begin + sum(length for length, _ in steps) for begin, steps in self.rates.values())

    def scenario(self) -> dict[str, Any]:
        """As ``rheostat load --scenario`` takes it."""
        found = []
        for name, (begin, steps) in self.rates.items():
            rates, at = [], 0.0
            for length, rate in steps:
                rates.append({"at_s": at, "rate": rate})
                at += length
            payload = "points" if name == "knn" else "trips"
            topics = {topic: {"partitions": 2, "payload": payload, "rates": rates} for topic in _TOPICS[name]}
            found.append({"name": name, "start_s": begin, "stop_s": begin + at, "topics": topics})
        return {"applications": found}


_TOPICS = {"taxi": ("drives-1", "drives-2"), "knn": ("points",)}
_TAXI: Mapping[str, Any] = {"light_us": 1500.0, "work_us": 3000.0}
_RISING = ((60.0, 30.0), (80.0, 100.0), (120.0, 200.0))

PLANS: Mapping[str, LivePlan] = {
    _WITH: LivePlan({"taxi": (0.0, _RISING)}, {"taxi": _TAXI}, joins_s=110.0),
    _WITHOUT: LivePlan({"taxi": (0.0, _RISING[:2])}, {"taxi": _TAXI}, joins_s=None, sheds=False),
    _PRIORITIES: LivePlan(
        {"taxi": (0.0, ((140.0, 30.0), (80.0, 70.0))), "knn": (60.0, ((160.0, 90.0),))},
        {
            "taxi": {**_TAXI, "priority_1": 1, "priority_2": 2, "accuracy_1": 0.2, "accuracy_2": 0.3},
            "knn": {"work_us": 6000.0, "accuracy": 0.2},
        },
        joins_s=None,
    ),
    _RATES: LivePlan(
        {"knn": (0.0, tuple((50.0, rate) for rate in (250.0, 400.0, 550.0, 400.0, 250.0, 500.0)))},
        {"knn": {"work_us": 6000.0, "accuracy": 0.1}},
        workers=1,
    ),
    _FAILURES: LivePlan(
        {"taxi": (0.0, ((300.0, 50.0),)), "knn": (30.0, ((270.0, 150.0),))},
        {
            "taxi": {**_TAXI, "priority_1": 1, "priority_2": 2, "accuracy_1": 0.2, "accuracy_2": 0.3},
            "knn": {"work_us": 6000.0, "accuracy": 0.2},
        },
        workers=1,
        fails_every_s=(20.0, 30.0),
    ),
}


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run.

    Attributes:
        began: when its load did, epoch seconds.
        cycles: what was decided.
        accounts: what became of the records, by sink.
        failures: what failed, and when, epoch seconds; also what nobody ended.
    """

    plan: LivePlan
    began: float
    cycles: Sequence[DecisionRecord]
    accounts: Mapping[str, Account] = field(default_factory=dict)
    failures: Sequence[tuple[float, str]] = ()

    def batches(self) -> dict[str, list[Batch]]:
        """Every batch that was seen, by query, oldest first."""
        found: dict[str, dict[int, Batch]] = {}
        for query in (query for cycle in self.cycles if cycle.observation for query in cycle.observation.queries):
            mine = found.setdefault(query.name or query.query_id, {})
            mine.update({batch.batch_id: batch for batch in list_ended(query, None)})
        return {name: [mine[number] for number in sorted(mine)] for name, mine in found.items()}

    def first_shed(self, sink: str) -> float:
        """When a sink is first to get less than everything, s of the load."""
        for cycle in self.cycles:
            plan = cycle.decision.shedding
            if plan is not None and any(each.sink == sink and each.wanted < _SHEDS for each in plan.sinks):
                return cycle.at - self.began
        return float("inf")

    @property
    def plans(self) -> list[SheddingPlan]:
        return [cycle.decision.shedding for cycle in self.cycles if cycle.decision.shedding is not None]

    @property
    def moved(self) -> list[float]:
        """When an executor was told to move."""
        codes = [(cycle.at - self.began, cycle.decision) for cycle in self.cycles]
        return [at for at, decision in codes if decision.reason.code is ReasonCode.NODE_OVERLOADED and decision.acts]

    @property
    def lags(self) -> list[tuple[float, float]]:
        """Time of the load and the lag, s, without the first minute, in which executors are cold."""
        known = [(cycle.at - self.began, cycle.assessment) for cycle in self.cycles]
        found = [(at, seen.lag_s) for at, seen in known if seen is not None and seen.lag_s is not None]
        return [(at, lag) for at, lag in found if at >= _COLD_S]


_SHEDS, _COLD_S = 0.99, 60.0
_ORDER, _ROUNDING = ("knn", "sink-1", "sink-2"), 1e-6


# What the runs show


def live_results(runs: Mapping[str, LiveRun]) -> list[Result]:
    """The statements for which there is a run."""
    found = list[Result]()
    if _WITH in runs:
        found += _judge_taxi(runs[_WITH], runs.get(_WITHOUT))
    if _PRIORITIES in runs:
        found += _judge_priorities(runs[_PRIORITIES])
    if _RATES in runs:
        found += _judge_rates(runs[_RATES])
    if _FAILURES in runs:
        found += _judge_failures(runs[_FAILURES])
    return found


def _judge_taxi(run: LiveRun, without: LiveRun | None) -> list[Result]:
    shed_at, moved_at = min(run.first_shed(sink) for sink in ("sink-1", "sink-2")), (run.moved or [float("inf")])[0]
    errors = [100 * each for each in _source_errors(run)]
    below, looks = _longest_below(run)
    nodes = [cycle.assessment.nodes for cycle in run.cycles if cycle.assessment and cycle.assessment.nodes]
    on = nodes[-1].in_use if nodes else ()
    found = [
        Result(
            "1 order, live",
            "first records are dropped, then an executor moves to the second node",
            f"dropped from {shed_at:.0f} s on, moved at {moved_at:.0f} s; executors on {', '.join(on)} at the end",
            "shedding first, then moves",
            shed_at < moved_at < float("inf") and "tm2" in on,
            "moves are tried only while records are dropped; a part of every query moves, as Spark pins no tasks",
        ),
        Result(
            "1 accuracy, live",
            "what edges of sources keep differs from what was ordered by 2 points at most",
            f"{fmean(errors):.2f} points in {len(errors)} batches" if errors else "nothing was dropped",
            "0.6 and 0.5 points",
            bool(errors) and fmean(errors) <= _MOST_ERROR,
            "mean over the batches that dropped; in a micro-batch a source does not lag behind its own shedder",
        ),
        Result(
            "1 promises, live",
            "no sink is below 95 % of what it was promised for longer than a minute",
            f"{below:.0f} s at most, in {looks} looks with batches",
            "the minimum accuracy of every sink is met where resources allow",
            below <= _MINUTE_S and looks >= _LEAST_LOOKS,
            "minima of 0.4 and 0.6",
        ),
    ]
    if without is not None:
        grown = [lag for _, lag in without.lags]
        lags = [lag for at, lag in run.lags if at <= without.plan.seconds]
        found.append(
            Result(
                "4 lag, live",
                "lag stays within the objective, and grows to the end without shedding",
                f"{max(lags, default=inf):.1f} s at most, too late {_over(lags):.0%} of the time; "
                f"without {max(grown, default=0.0):.0f} s, {_over(grown):.0%}",
                "almost none; without shedding it grows on",
                bool(lags and grown) and _over(lags) <= _MOST_OVER and grown[-1] > max(*lags, OBJECTIVE_S),
                f"one node, while it can keep its promises; the objective of {OBJECTIVE_S:g} s may be broken for 5 % "
                "of the time; shedding begins at half of it",
            )
        )
    return found


_MOST_ERROR, _MINUTE_S, _MOST_OVER, _LEAST_LOOKS = 2.0, 60.0, 0.05, 3


def _over(lags: Sequence[float]) -> float:
    return sum(lag > OBJECTIVE_S for lag in lags) / max(1, len(lags))


def _source_errors(run: LiveRun) -> list[float]:
    """|currAc − ac| of each batch that dropped at an edge that leaves a source."""
    edges = [edge for batches in run.batches().values() for batch in batches for edge in batch.edges]
    ends = {parse_edge(edge.edge).end for edge in edges}
    return [
        abs(edge.kept / edge.offered - edge.keep / WHOLE)
        for edge in edges
        if edge.offered and edge.keep < WHOLE and parse_edge(edge.edge).start not in ends
    ]


def _longest_below(run: LiveRun) -> tuple[float, int]:
    """The longest time for which a sink got less than it was promised, s, and in how many looks it was measured."""
    longest, since, looks = 0.0, dict[str, float](), 0
    for cycle in run.cycles:
        for sink in cycle.decision.shedding.sinks if cycle.decision.shedding is not None else ():
            if sink.measured is None:
                continue
            looks += 1
            if sink.measured >= _KEPT * sink.minimum:
                since.pop(sink.sink, None)
            else:
                longest = max(longest, cycle.at - since.setdefault(sink.sink, cycle.at))
    return longest, looks


_KEPT = 0.95


def _judge_priorities(run: LiveRun) -> list[Result]:
    looks = [{sink.sink: sink for sink in plan.sinks} for plan in run.plans]
    shed = {name: [look for look in looks if name in look and look[name].wanted < _SHEDS] for name in _ORDER}
    early = sum(
        look[lower].wanted > look[lower].minimum + _ROUNDING
        for lower, higher in pairwise(_ORDER)
        for look in shed[higher]
    )
    counts = ", ".join(f"{name} in {len(shed[name])}" for name in _ORDER)
    return [
        Result(
            "2 order, live",
            "Snk1 sheds only while KNN is at its minimum, and Snk2 only while Snk1 is",
            f"of {len(looks)} looks {counts} shed; {early} times too early",
            "KNN sheds while Snk1 is unchanged, Snk1 before Snk2",
            not early and bool(shed["knn"]) and bool(shed["sink-1"]),
            "priorities 0, 1 and 2",
        ),
        _judge_records("2 records, live", run),
    ]


def _judge_records(name: str, run: LiveRun) -> Result:
    wrong = [sink for sink, account in run.accounts.items() if not account.exact]
    counts = [f"{sink} {each.written:,} of {each.read:,}" for sink, each in sorted(run.accounts.items())]
    return Result(
        name,
        "each record is in its sink once, or the draw of an edge dropped it",
        f"{', '.join(counts)} records; " + (f"wrong: {', '.join(wrong)}" if wrong else "each as drawn"),
        None,
        bool(run.accounts) and not wrong,
        "sums of ids in the sinks against those of the topics that the draws of each batch keep",
    )


def _judge_failures(run: LiveRun) -> list[Result]:
    below, looks = _longest_below(run)
    kinds = Counter(kind for _, kind in run.failures)
    counts = ", ".join(f"{kind} {number}" for kind, number in kinds.items())
    away = max((after.at - before.at for before, after in pairwise(run.cycles)), default=0.0)
    shed = sum(min(sink.wanted for sink in plan.sinks) < _SHEDS for plan in run.plans)
    lags = [lag for _, lag in run.lags]
    return [
        Result(
            "kills promises, live",
            "no sink is below 95 % of what it was promised for longer than a minute",
            f"{below:.0f} s at most, in {looks} looks with batches; {shed} looks shed",
            "the minimum accuracy of every sink is met where resources allow",
            below <= _MINUTE_S and looks >= _LEAST_LOOKS and shed > 0 and set(KINDS) <= set(kinds),
            f"{counts} failed; the controller was away for {away:.0f} s at most",
        ),
        _judge_records("kills records, live", run),
        Result(
            "kills lag, live",
            "the lag is within the objective again at the end",
            f"{lags[-1]:.1f} s at the end, {max(lags):.0f} s at most" if lags else "not measured",
            None,
            bool(lags) and lags[-1] <= OBJECTIVE_S,
            "a driver that starts again has no batch for half a minute, and works off what came meanwhile",
        ),
    ]


def _judge_rates(run: LiveRun) -> list[Result]:
    pairs, errors = list[tuple[float, float]](), list[float]()
    for before, after in pairwise(run.cycles):
        plan, estimate = before.decision.shedding, _estimate(before, after)
        if plan is None or estimate is None or after.at < run.began + _SETTLE_S:
            continue
        pairs.append((plan.sinks[0].wanted, estimate[0]))
        errors.append(100 * estimate[1])
    windows = [pairs[begin : begin + _LOOKS] for begin in range(0, len(pairs) - _LOOKS + 1, _LOOKS)]
    means = [
        (fmean(accuracy for accuracy, _ in window), fmean(rate for _, rate in window))
        for window in windows
        if max(accuracy for accuracy, _ in window) < _SHEDS
    ]
    varies = len({accuracy for accuracy, _ in means}) > 1
    found = correlation([accuracy for accuracy, _ in means], [rate for _, rate in means]) if varies else 0.0
    lags = [lag for _, lag in run.lags]
    return [
        Result(
            "3 correlation, live",
            "while records are dropped, accuracy falls as the estimated input rate rises",
            f"correlation {found:.2f} over {len(means)} means of {_LOOKS * SAMPLE_S:g} s",
            "0.95 in absolute value",
            found <= _LEAST_CORRELATION,
            "a batch takes up to ten seconds; shedding begins by the lag, so it follows a rise by some seconds",
        ),
        Result(
            "3 estimate, live",
            "the mean error of the estimated rate is at most 2 %",
            f"{fmean(errors):+.2f} % over {len(errors)} looks" if errors else "not estimated",
            "0.4 % ± 6.2 %",
            bool(errors) and abs(fmean(errors)) <= _MOST_ERROR,
            "the largest lag of a partition stands for all, as in 4.6; exact: the latest offsets",
        ),
        Result(
            "3 lag, live",
            "lag stays within the objective",
            f"{max(lags, default=inf):.1f} s at most, over it {_over(lags):.0%} of the time",
            "near zero",
            bool(lags) and _over(lags) <= _MOST_OVER,
            f"objective {OBJECTIVE_S:g} s; a batch each 2 s, and shedding begins at half of the objective",
        ),
        _judge_records("3 records, live", run),
    ]


_LEAST_CORRELATION, _SETTLE_S, _LOOKS = -0.9, 30.0, 5


def _estimate(before: DecisionRecord, after: DecisionRecord) -> tuple[float, float] | None:
    """Estimated records/s of KNN's topic, and its relative error; None: unknown."""
    seen = [_offsets(each) for each in (before, after)]
    if seen[0] is None or seen[1] is None:
        return None
    error, took_s = estimate_error(seen[0], seen[1]), seen[1].at - seen[0].at
    arrived = sum(n or 0 for n in seen[1].latest) - sum(n or 0 for n in seen[0].latest)
    return None if error is None else ((1 + error) * arrived / took_s, error)


def _offsets(record: DecisionRecord) -> Offsets | None:
    queries = record.observation.queries if record.observation is not None else ()
    return next((query.offsets for query in queries if query.name == "knn"), None)
