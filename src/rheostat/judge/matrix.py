"""The matrix: the same loads on jobs that differ in one thing each, with one setting for every policy.

A policy that was tuned to one job shows here what its setting is worth on another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rheostat.judge.cases import Treatment
from rheostat.judge.compare import Comparison
from rheostat.judge.ranking import Bill, geometric_mean
from rheostat.sim.jobfile import JobFile
from rheostat.sim.loading import load_job

__all__ = ["Cells", "Variant", "cells_of", "variants_of"]

_HEAVY_SHARE = 0.2
"""Share of τ that planning takes longer in the job with the heavier fixed part."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A job of the matrix."""

    label: str
    job: JobFile
    treatment: Treatment = field(default_factory=Treatment)


def variants_of(text: str, overrides: Mapping[str, Any], treatment: Treatment) -> list[Variant]:
    """The job itself, and what it is with one thing changed; but for a lag that it has already.

    Args:
        text: name or path of the job file.
        overrides: what is changed in all of them.
        treatment: of the loads.

    Raises:
        InputError: the job file is faulty.
    """
    base = load_job(text, overrides)
    found = [Variant(base.name, base, treatment)]
    for label, changes in _changes(base).items():
        found.append(Variant(label, load_job(text, {**overrides, **changes}), treatment))
    return [*found, Variant("noise 20 %", base, replace(treatment, noise_cv=0.20))]


def _changes(base: JobFile) -> dict[str, dict[str, Any]]:
    heavy = base.driver.planning_s + _HEAVY_SHARE * base.period_s
    spread = base.executor.start_up.p95_s / base.executor.start_up.median_s if base.executor.start_up.median_s else 1.0
    return {
        "heavier fixed part": {"driver.planning_s": heavy},
        **{f"L {lag} s": _objective(base, lag) for lag in (10, 60) if lag != base.objective_s},
        **{
            f"start-up {median} s": {
                "executor.start_up.median_s": float(median),
                "executor.start_up.p95_s": median * spread,
            }
            for median in (30, 60, 180)
        },
        "exponent 0.8": {"exponent": 0.8},
    }


def _objective(base: JobFile, lag_s: int) -> dict[str, Any]:
    """Another lag; a trigger that is too long for it becomes a quarter of it."""
    changes: dict[str, Any] = {"objective": f"lag < {lag_s} s"}
    if base.trigger_s > lag_s / 4:
        changes["trigger_s"] = lag_s / 4
    return changes


@dataclass(frozen=True, slots=True)
class Cells:
    """Cost ÷ optimum: the geometric mean over the loads of each job, and over all.

    Attributes:
        jobs: labels, in order.
        ratios: policy → one figure a job; None: a run of it does not count, or no load was ranked there.
        overall: policy → geometric mean over all ranked cases; None: a run of it does not count. Best first.
    """

    jobs: tuple[str, ...]
    ratios: Mapping[str, tuple[float | None, ...]]
    overall: Mapping[str, float | None]


def cells_of(comparison: Comparison) -> Cells:
    """The matrix of a comparison over several jobs."""
    labels = {entry.case.key: entry.case.job_label for entry in comparison.entries}
    jobs, bills = tuple(dict.fromkeys(labels.values())), comparison.bills
    policies = tuple(dict.fromkeys(bill.policy for bill in bills))
    mine = {policy: [bill for bill in bills if bill.policy == policy] for policy in policies}
    overall = {policy: _mean(mine[policy]) for policy in policies}
    ratios = {
        policy: tuple(_mean([bill for bill in mine[policy] if labels[bill.case] == job]) for job in jobs)
        for policy in policies
    }
    ordered = sorted(policies, key=lambda policy: (overall[policy] is None, overall[policy] or 0.0, policy))
    return Cells(jobs, ratios, {policy: overall[policy] for policy in ordered})


def _mean(bills: Sequence[Bill]) -> float | None:
    if not bills or not all(bill.valid for bill in bills):
        return None
    return geometric_mean(bill.cost() / bill.optimum for bill in bills)
