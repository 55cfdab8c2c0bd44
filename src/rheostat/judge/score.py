"""The score of a simulated run, from its exact history.

What each figure is stands in :mod:`rheostat.report.figures`. I, the ideal run of S2's excess time (P − I) ÷ T, ends
with the load: I = T.

S2 states its cost as ∫ s dt in minutes: executor_hours × 60, here with the executors on their way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rheostat.load.curves import Pieces
from rheostat.report.score import Counts, RunFacts, score
from rheostat.sim.capacity import capacity_curve
from rheostat.sim.cost import CostParts
from rheostat.sim.elasticity import changes, demand_steps, elasticity, integral
from rheostat.sim.history import History
from rheostat.sim.jobfile import JobFile
from rheostat.sim.lag import Lag
from rheostat.sim.optimum import Optimum

__all__ = ["Case", "cost_parts", "end_of", "judge_score"]


@dataclass(frozen=True, slots=True)
class Case:
    """What is the same for every run of a job under a load.

    Attributes:
        start: executors at second 0.
        weight: w, the fewest executors that carry the peak.
        optimum: the clairvoyant optimum; None: it was not sought.
    """

    job: JobFile
    load: Pieces
    start: int
    weight: float
    optimum: Optimum | None = None


def judge_score(
    run: RunFacts, case: Case, history: History, *, drained: bool = True, end: float | None = None
) -> dict[str, Any]:
    """The score in the shape of ``rheostat.score/1``.

    Args:
        run: what the run was.
        case: the job and its load.
        history: what happened.
        drained: whether every record was committed; a run that was given up does not count.
        end: when it was given up; None: when the load was over and all was committed.
    """
    end = end_of(case, history) if end is None or drained else end
    lag, parts = Lag.of(history, 0.0, end), cost_parts(case, history, end)
    lasts = case.load.duration
    fit = elasticity(history.ready, _demand(case), 0.0, lasts)
    exact = {
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
        "optimum_cost": None if case.optimum is None else case.optimum.cost,
    }
    counts = Counts(
        records_in=history.records_in,
        records_out=history.records_out,
        records_lost=history.records_lost,
        records_duplicated=history.records_duplicated,
        records_shed=history.records_shed,
    )
    return {**score(run, (), window=(0.0, end), counts=counts), **exact, "valid": bool(counts.valid) and drained}


def cost_parts(case: Case, history: History, end: float | None = None) -> CostParts:
    """What the run used until ``end``; without it until the load was over and all was committed."""
    end = end_of(case, history) if end is None else end
    return CostParts(
        executor_hours=integral(history.paid, 0.0, end) / 3600,
        changes=changes([(0.0, case.start), *history.target], 0.0, end),
        violation_hours=Lag.of(history, 0.0, end).seconds_over(case.job.objective_s) / 3600,
    )


def end_of(case: Case, history: History) -> float:
    """When the load was over and all was committed, s."""
    return max(case.load.duration, history.commits[-1][0] if history.commits else 0.0)


def _demand(case: Case) -> list[tuple[float, float]]:
    return demand_steps(case.load, capacity_curve(case.job), case.job.n_min, case.job.n_max)
