"""The score of a simulated run from its exact history, and the rankings of several runs.

:mod:`rheostat.report.html` defines the figures. I, the ideal run of S2's excess time (P − I) ÷ T, ends with the load:
I = T. S2 states its cost as ∫ s dt in minutes: executor_hours × 60, here with the executors on their way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, geometric_mean
from typing import Any

from rheostat.judge.simulate import Act, Run, start_executors
from rheostat.load.curves import Pieces
from rheostat.load.prepare import Prepared
from rheostat.report.score import Counts, RunFacts, score
from rheostat.sim.capacity import CostParts, capacity_curve, total_cost, violation_weight
from rheostat.sim.history import History, Lag, changes, demand_steps, elasticity, integral
from rheostat.sim.jobfile import JobFile
from rheostat.text import several


@dataclass(frozen=True, slots=True)
class ScoringCase:
    """A job and its load; ``start``: executors at second 0; ``weight``: w, the fewest that carry the peak."""

    job: JobFile
    load: Pieces
    start: int
    weight: float


def scoring_case(job: JobFile, load: Prepared) -> ScoringCase:
    return ScoringCase(job, load.curve, start_executors(job, load), float(violation_weight(job, load.peak)))


def judge_score(
    run: RunFacts, case: ScoringCase, history: History, *, drained: bool = True, end: float | None = None
) -> dict[str, Any]:
    """The score in the shape of ``rheostat.score/1``, without the cost of the optimum.

    ``drained``: whether every record was committed; else the run does not count, and ``end`` is when it was given up.
    """
    end = end_of(case, history) if end is None or drained else end
    lag, parts, lasts = Lag.of(history, 0.0, end), cost_parts(case, history, end), case.load.duration
    demand = demand_steps(case.load, capacity_curve(case.job), case.job.n_min, case.job.n_max)
    fit = elasticity(history.ready, demand, 0.0, lasts)
    counts = Counts(
        records_in=history.records_in,
        records_out=history.records_out,
        records_lost=history.records_lost,
        records_duplicated=history.records_duplicated,
        records_shed=history.records_shed,
    )
    return {
        **score(run, (), window=(0.0, end), counts=counts),
        "provisioning_accuracy_o": fit.accuracy_o,
        "provisioning_accuracy_u": fit.accuracy_u,
        "timeshare_o": fit.timeshare_o,
        "timeshare_u": fit.timeshare_u,
        "excess_time": (end - lasts) / lasts,
        "reconfigurations": parts.changes,
        "executor_hours": parts.executor_hours,
        "static_executor_hours": case.weight * end / 3600,
        "executors_max": max(value for _, value in history.ready),
        "executors_final": history.ready[-1][1],
        "violation_share": parts.violation_hours * 3600 / end,
        "lag_p50_s": lag.quantile(0.50),
        "lag_p95_s": lag.quantile(0.95),
        "lag_max_s": lag.greatest,
        "total_cost": parts.cost(case.weight),
        "valid": bool(counts.valid) and drained,
    }


def cost_parts(case: ScoringCase, history: History, end: float | None = None) -> CostParts:
    """What the run used until ``end``; None: until the load was over and all was committed."""
    end = end_of(case, history) if end is None else end
    return CostParts(
        executor_hours=integral(history.paid, 0.0, end) / 3600,
        changes=changes([(0.0, case.start), *history.target], 0.0, end),
        violation_hours=Lag.of(history, 0.0, end).seconds_over(case.job.objective_s) / 3600,
    )


def end_of(case: ScoringCase, history: History) -> float:
    """When the load was over and all was committed, s."""
    return max(case.load.duration, history.commits[-1][0] if history.commits else 0.0)


# Rankings over several cases, at three prices of a violation

FEW_VIOLATIONS = 0.01
"""Share of the time over the objective up to which a run is ranked at w/3."""

LEAST_MEAN_EXECUTORS = 1.3
"""A load whose optimum needs fewer executors on average is not ranked: there is nothing to decide."""


@dataclass(frozen=True, slots=True)
class Bill:
    """What a run ``used`` in one case. ``weight``: w; ``optimum``: cost of the optimum at w, which uses ``best``."""

    policy: str
    case: str
    used: CostParts
    violation_share: float
    weight: float
    optimum: float
    best: CostParts
    valid: bool = True

    def cost(self, factor: float = 1.0) -> float:
        """The total cost in executor-hours, with violations at ``factor`` times their price."""
        return self.used.cost(factor * self.weight)


def bills_by_policy(bills: Iterable[Bill]) -> dict[str, list[Bill]]:
    grouped: dict[str, list[Bill]] = {}
    for bill in bills:
        grouped.setdefault(bill.policy, []).append(bill)
    return grouped


@dataclass(frozen=True, slots=True)
class Rank:
    """A place in a ranking; ``why``: the reason why the policy has no place, else None."""

    policy: str
    place: int | None
    ratio: float | None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Ranking:
    """One ranking: ``name`` is ``"w"``, ``"3w"`` or ``"w/3"``, ``of`` what the ratios refer to."""

    name: str
    of: str
    cases: int
    ranks: tuple[Rank, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """The price of what a policy uses beyond the optimum, in shares of the optimum's cost, means over the cases.

    ``executors`` is below 0 if it pays for fewer than the optimum; ``violations``: its time over the objective.
    """

    policy: str
    executors: float
    changes: float
    violations: float


def shares(bills: Sequence[Bill]) -> tuple[Share, ...]:
    return tuple(
        Share(
            policy,
            fmean((run.used.executor_hours - run.best.executor_hours) / run.optimum for run in runs),
            fmean(total_cost(0.0, run.used.changes - run.best.changes, 0.0, run.weight) / run.optimum for run in runs),
            fmean(run.weight * (run.used.violation_hours - run.best.violation_hours) / run.optimum for run in runs),
        )
        for policy, runs in bills_by_policy(bills).items()
    )


def rankings(bills: Sequence[Bill]) -> tuple[Ranking, ...]:
    """At w against the optimum; at 3 w and at w/3 against the cheapest run of each case. Empty without a case."""
    if not bills:
        return ()
    return (
        rank("w", bills, 1.0, of="the optimum"),
        rank("3w", bills, 3.0, of="the cheapest run"),
        rank("w/3", bills, 1 / 3, of="the cheapest run", most_violated=FEW_VIOLATIONS),
    )


def rank(name: str, bills: Sequence[Bill], factor: float, *, of: str, most_violated: float = 1.0) -> Ranking:
    """Policies by the geometric mean of their cost ÷ the reference over all cases; equal ratios share a place.

    A policy with a run that is invalid, or is over the objective for too long, is listed without a place.
    """
    by_policy = bills_by_policy(bills)
    why = {policy: _why_not_ranked(runs, most_violated) for policy, runs in by_policy.items()}
    reference: dict[str, float] = {}
    for bill in bills:
        if why[bill.policy] is None:
            cost = bill.optimum if of == "the optimum" else bill.cost(factor)
            reference[bill.case] = min(cost, reference.get(bill.case, math.inf))
    ratios = {
        policy: geometric_mean(bill.cost(factor) / reference[bill.case] for bill in runs)
        for policy, runs in by_policy.items()
        if why[policy] is None
    }
    ranks = [
        Rank(policy, 1 + sum(other < ratio for other in ratios.values()), ratio)
        for policy, ratio in sorted(ratios.items(), key=lambda item: (item[1], item[0]))
    ]
    ranks += [Rank(policy, None, None, reason) for policy, reason in sorted(why.items()) if reason is not None]
    return Ranking(name, of, len({bill.case for bill in bills}), tuple(ranks))


def _why_not_ranked(runs: Sequence[Bill], most_violated: float) -> str | None:
    invalid = sum(not run.valid for run in runs)
    if invalid:
        return f"{invalid} of {several(len(runs), 'run')} invalid"
    over = sum(run.violation_share > most_violated for run in runs)
    return f"over {most_violated:.0%} of the time in {over} of {several(len(runs), 'run')}" if over else None


# A run as lines for plots, thinned so that a browser can show a report of many runs

Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """The lines of a run over seconds since its start: two step functions, and a line.

    Attributes:
        capacity: records/s that the executors able to work carry within the objective.
        paid: executors paid for.
        lag: age of the oldest uncommitted record, s.
    """

    capacity: Points
    paid: Points
    lag: Points
    acts: tuple[Act, ...] = ()


def time_series(run: Run, capacities: Sequence[float], end: float, most: int, acts: int = 0) -> TimeSeries:
    """The lines of a run with ``most`` points each, and so many ``acts``; ``capacities``: of 0, 1, … executors."""
    history = run.history
    carried = [(at, capacities[min(number, len(capacities) - 1)]) for at, number in history.ready]
    return TimeSeries(
        capacity=thin_steps(carried, end, most),
        paid=thin_steps([(at, float(number)) for at, number in history.paid], end, most),
        lag=thin(lag_line(history.lag_spans(0.0, end)), most),
        acts=thin_acts(run.acts, acts) if acts else (),
    )


def thin_steps(steps: Points, end: float, most: int) -> Points:
    """The steps as :func:`thin` leaves them, the last one until ``end``."""
    return thin([*steps, (end, steps[-1][1])], most)


def thin(points: Sequence[tuple[float, float]], most: int) -> Points:
    """No more than ``most`` points: the lowest and the highest of each of ``most // 2`` stretches of equally many.

    >>> thin([(0, 5.0), (1, 1.0), (2, 9.0), (3, 4.0)], 2)
    [(1, 1.0), (2, 9.0)]
    """
    if len(points) <= most:
        return list(points)
    stretches = max(1, most // 2)
    edges = [len(points) * index // stretches for index in range(stretches + 1)]
    kept: Points = []
    for begin, end in pairwise(edges):
        stretch = range(begin, end)
        low, high = min(stretch, key=lambda i: points[i][1]), max(stretch, key=lambda i: points[i][1])
        kept += [points[index] for index in sorted({low, high})]
    return kept


def thin_acts(acts: Sequence[Act], most: int) -> tuple[Act, ...]:
    """Every act, or each k-th of too many."""
    return tuple(acts[:: -(-len(acts) // most)]) if acts else ()


def lag_line(spans: Iterable[tuple[float, float, float]]) -> Points:
    """The sawtooth from spans (from, to, lag at from) in which the lag grows by 1 s each second; 0 between them.

    >>> lag_line([(0.0, 10.0, 0.0), (12.0, 20.0, 5.0)])
    [(0.0, 0.0), (10.0, 10.0), (10.0, 0.0), (12.0, 0.0), (12.0, 5.0), (20.0, 13.0)]
    """
    points: Points = []
    for begin, end, lag in spans:
        if points and points[-1][0] < begin:
            points += [(points[-1][0], 0.0), (begin, 0.0)]
        points += [(begin, lag), (end, lag + end - begin)]
    return points
