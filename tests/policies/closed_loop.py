"""A simulated job with executors that share the work of a batch finely, and a loop around a decision_settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rheostat.analyze.assess import analyze
from rheostat.analyze.state import AnalysisSettings, AnalysisState
from rheostat.decide.decide import DecisionSettings, decide, learn
from rheostat.load.curves import Pieces
from rheostat.model import Assessment, Decision, Observation
from rheostat.sim.job import SimulatedJob
from rheostat.sim.jobfile import JobFile, job_of

Points = Sequence[tuple[float, float]]


@dataclass
class Cycle:
    assessment: Assessment
    decision: Decision
    registered: int


def job(start_up_s: float = 4.0, cold_s: float = 1.5, fixed_s: float = 0.3, **changes: Any) -> JobFile:
    """400/s for each executor beside the fixed part; 240 tasks, so that waves hardly show."""
    values = {
        "name": "closed loop",
        "objective": "lag < 10s",
        "executors": [1, 16],
        "trigger_s": 2.0,
        "partitions": 8,
        "batch_cap": 6000,
        "stages": [{"name": "all", "tasks": 240, "cost_ms": 2.5, "task_ms": 0.0}],
        "driver": {"planning_s": fixed_s, "commit_s": 0.0},
        "executor": {"cold_task_s": cold_s, "start_up": {"median_s": start_up_s, "p95_s": start_up_s}},
        "rescale": {"listed_s": 0.0},
    }
    return job_of({**values, **changes})


def run(
    job: JobFile,
    load: Points,
    decision_settings: DecisionSettings,
    settings: AnalysisSettings,
    executors: int = 1,
    look: Callable[[Observation], Observation] = replace,
) -> list[Cycle]:
    """The loop: observe, analyze, plan, execute; an outcome is learned in the first cycle after it is known.

    ``look``: what is shown of an observation.
    """
    sim = SimulatedJob(job, Pieces(load), 1, executors)
    analysis, state, cycles = AnalysisState(), decision_settings.initial(), list[Cycle]()
    at = decision_settings.sample_s
    while at <= load[-1][0]:
        outcome = sim.poll(at)
        state = state if outcome is None else learn(outcome, state, decision_settings)
        seen, analysis = analyze(look(sim.observe(at)), analysis, settings)
        decision, state = decide(seen, state, decision_settings)
        if decision.acts:
            sim.apply(decision)
        cycles.append(Cycle(seen, decision, seen.executors or 0))
        at += decision_settings.sample_s
    return cycles
