"""Who is best: costs at three prices of a violation, and how they are put together over several cases. Pure.

A case is a job under a load with a seed; what a run costs is :func:`rheostat.sim.cost.total_cost`. Rankings are made at
weight w (the fewest executors that carry the peak), at 3 w, and at w/3 only among runs that violate for at most 1 % of
the time: where a violation is cheap, a policy that lets records wait would win.
Across cases the ratio to a reference counts, its geometric mean: no case counts more because its numbers are larger.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rheostat.plan.words import several
from rheostat.sim.cost import CostParts, total_cost

__all__ = [
    "FEW_VIOLATIONS",
    "LEAST_MEAN_EXECUTORS",
    "Bill",
    "Rank",
    "Ranking",
    "Share",
    "geometric_mean",
    "rank",
    "rankings",
    "shares",
]

FEW_VIOLATIONS = 0.01
"""Share of the time over the objective up to which a run is ranked at w/3."""

LEAST_MEAN_EXECUTORS = 1.3
"""A load whose optimum needs fewer executors on average leaves a policy nothing to decide."""


_NOTHING = CostParts(0.0, 0, 0.0)


@dataclass(frozen=True, slots=True)
class Bill:
    """What a run used in one case.

    Attributes:
        weight: w of the case, executors.
        optimum: cost of the clairvoyant optimum at w.
        best: what the optimum uses.
        valid: whether the run counts at all.
    """

    policy: str
    case: str
    executor_hours: float
    changes: int
    violation_hours: float
    violation_share: float
    weight: float
    optimum: float
    best: CostParts = _NOTHING
    valid: bool = True

    def cost(self, factor: float = 1.0) -> float:
        """Executor-hours, all told, with violations at ``factor`` times their price."""
        return total_cost(self.executor_hours, self.changes, self.violation_hours, factor * self.weight)


@dataclass(frozen=True, slots=True)
class Rank:
    """A place in a ranking. ``place`` and ``ratio`` None: not ranked, ``why`` says it."""

    policy: str
    place: int | None
    ratio: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Ranking:
    """One ranking: ``name`` is ``"w"``, ``"3w"`` or ``"w/3"``, ``of`` what the ratios refer to."""

    name: str
    of: str
    cases: int
    ranks: tuple[Rank, ...]


def geometric_mean(values: Iterable[float]) -> float:
    """The exponential of the mean of logarithms; values > 0.

    >>> geometric_mean([1.0, 4.0])
    2.0
    """
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs))


@dataclass(frozen=True, slots=True)
class Share:
    """Where a policy's cost above the optimum comes from, in shares of the optimum's cost, means over the cases.

    Attributes:
        executors: executor-hours more than the optimum's; below 0 where it pays for too few.
        changes: the price of its changes beyond the optimum's.
        violations: the price of its time over the objective beyond the optimum's.
    """

    policy: str
    executors: float
    changes: float
    violations: float


def shares(bills: Sequence[Bill]) -> tuple[Share, ...]:
    """What each policy pays for beyond the optimum, in the order in which they first come."""
    policies = dict.fromkeys(bill.policy for bill in bills)
    return tuple(_share(policy, [bill for bill in bills if bill.policy == policy]) for policy in policies)


def _share(policy: str, bills: Sequence[Bill]) -> Share:
    def mean(parts: Iterable[float]) -> float:
        return math.fsum(parts) / len(bills)

    return Share(
        policy,
        mean((bill.executor_hours - bill.best.executor_hours) / bill.optimum for bill in bills),
        mean(total_cost(0.0, bill.changes - bill.best.changes, 0.0, bill.weight) / bill.optimum for bill in bills),
        mean(bill.weight * (bill.violation_hours - bill.best.violation_hours) / bill.optimum for bill in bills),
    )


def rankings(bills: Sequence[Bill]) -> tuple[Ranking, ...]:
    """At w against the optimum; at 3 w and at w/3 against the cheapest run of each case. None without a case."""
    if not bills:
        return ()
    return (
        rank("w", bills, 1.0, of="the optimum"),
        rank("3w", bills, 3.0, of="the cheapest run"),
        rank("w/3", bills, 1 / 3, of="the cheapest run", most_violated=FEW_VIOLATIONS),
    )


def rank(name: str, bills: Sequence[Bill], factor: float, *, of: str, most_violated: float = 1.0) -> Ranking:
    """Policies by the geometric mean of their cost ÷ the reference over all cases; equal ratios share a place.

    A policy with a run that is invalid, or violates for longer than allowed, is listed without a place.
    """
    cases = tuple(dict.fromkeys(bill.case for bill in bills))
    by_policy: dict[str, list[Bill]] = {}
    for bill in bills:
        by_policy.setdefault(bill.policy, []).append(bill)
    why = {policy: _why_not(runs, most_violated) for policy, runs in by_policy.items()}
    allowed = [bill for bill in bills if not why[bill.policy]]
    reference = _references(allowed, factor, of)
    ratios = {
        policy: geometric_mean(bill.cost(factor) / reference[bill.case] for bill in runs)
        for policy, runs in by_policy.items()
        if not why[policy]
    }
    return Ranking(name, of, len(cases), (*_places(ratios), *(_left_out(why))))


def _references(bills: Sequence[Bill], factor: float, of: str) -> Mapping[str, float]:
    if of == "the optimum":
        return {bill.case: bill.optimum for bill in bills}
    least: dict[str, float] = {}
    for bill in bills:
        least[bill.case] = min(bill.cost(factor), least.get(bill.case, math.inf))
    return least


def _why_not(runs: Sequence[Bill], most_violated: float) -> str:
    invalid = sum(not run.valid for run in runs)
    if invalid:
        return f"{invalid} of {several(len(runs), 'run')} invalid"
    over = sum(run.violation_share > most_violated for run in runs)
    return f"over {most_violated:.0%} of the time in {over} of {several(len(runs), 'run')}" if over else ""


def _places(ratios: Mapping[str, float]) -> Iterable[Rank]:
    """From the best on; a place is one more than the number of better ones."""
    for policy, ratio in sorted(ratios.items(), key=lambda item: (item[1], item[0])):
        yield Rank(policy, 1 + sum(other < ratio for other in ratios.values()), ratio)


def _left_out(why: Mapping[str, str]) -> Iterable[Rank]:
    return (Rank(policy, None, None, reason) for policy, reason in sorted(why.items()) if reason)
