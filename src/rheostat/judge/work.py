"""What the processes of a comparison do: the optimum of a case, or one run in it. Everything here can be pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rheostat import __version__
from rheostat.judge import score as scores
from rheostat.judge.cases import Case, Ready, ready
from rheostat.judge.contenders import Contender
from rheostat.judge.journaled import JournaledRecorder
from rheostat.judge.recorder import Act, Held
from rheostat.judge.simulate import Run, simulate, start_executors
from rheostat.judge.tracks import Points, Tracks, lag_line, thinned, thinned_acts
from rheostat.plan.schedule import OPEN_LOOP
from rheostat.report.score import RunFacts
from rheostat.sim.cost import violation_weight
from rheostat.sim.elasticity import demand_steps
from rheostat.sim.optimum import Optimum, optimum, timetable
from rheostat.sim.problem import Problem, problem_of

__all__ = [
    "MARGIN_CAPACITIES",
    "MARGIN_LAG",
    "Bound",
    "Found",
    "Reference",
    "Scene",
    "Task",
    "do",
    "find_reference",
    "judged_case",
    "run_one",
]

MARGIN_LAG = 0.25
"""Share of the objective's lag that a plan with a margin is made for."""

MARGIN_CAPACITIES = (1.0, 0.95)
"""Shares of the capacity that plans with a margin count on."""

_POINTS = 1500
_ACTS = 400


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work.

    Attributes:
        contender: who runs; None: the optimum is sought, and its plans are executed.
        drawn: whether plots are wanted.
        reached: whether plans with a margin are tried too.
        journal: the folder in which the run leaves a journal; None: nowhere.
    """

    case: Case
    contender: Contender | None = None
    drawn: bool = False
    reached: bool = True
    journal: Path | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """What all runs of a case share in the plots: the load and its demand; capacities of 0 … n_max executors."""

    load: Points
    demand: Points
    capacities: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """The clairvoyant optimum of a case: no run can cost less.

    Attributes:
        weight: w, the fewest executors that carry the peak.
        peak: largest 30-second mean of the load, records/s.
        cost: executor-hours all told; the exact optimum lies between it and ``cost + error``.
        mean_executors: of its plan.
        said: what was done to the load, in words.
    """

    weight: int
    peak: float
    cost: float
    error: float
    executor_hours: float
    changes: int
    violation_hours: float
    mean_executors: float
    said: tuple[str, ...]
    scene: Scene | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A run as it comes back: its score, why it does not count, and what is drawn of it.

    Attributes:
        placed: decisions that placed executors on nodes; none where the job has no nodes.
        holds: decisions that changed nothing, by reason code.
        unready: what the policy never did, and what it would have needed; None: it was ready.
    """

    score: Mapping[str, Any]
    faults: tuple[str, ...] = ()
    tracks: Tracks | None = None
    placed: tuple[Act, ...] = ()
    holds: Mapping[str, Held] = field(default_factory=dict)
    unready: str | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """The optimum of a case, and how near to it one comes who knows the load.

    Attributes:
        executed: the optimum's plan, followed open loop in the simulated job.
        reached: the cheapest of the plans with a margin, followed likewise; None: they were not tried.
    """

    bound: Bound
    executed: Found
    reached: Found | None = None


def do(task: Task) -> Reference | Found:
    """Do a task.

    Raises:
        InputError: the load or the policy is faulty.
    """
    if task.contender is None:
        return find_reference(task.case, drawn=task.drawn, reached=task.reached)
    return run_one(task.case, task.contender, drawn=task.drawn, journal=task.journal)


def find_reference(case: Case, *, drawn: bool = False, reached: bool = True) -> Reference:
    """The optimum of a case, and its plans executed.

    The optimum keeps the lag at its very limit, where the sawtooth of real batches is over it half of the time. A plan
    with a margin is the optimum for :data:`MARGIN_LAG` of the lag, without the batch that the bound allows a run to be
    ahead, and for :data:`MARGIN_CAPACITIES` of the capacity. Executed, each increase comes ahead by the median
    start-up: the fluid pays for a start-up and does not wait for it.
    """
    this = ready(case)
    weight = violation_weight(case.job, this.load.peak)
    problem = problem_of(case.job, this.load.curve, start_executors(case.job, this.load), weight)
    best = optimum(problem)
    bound = Bound(
        weight=weight,
        peak=this.load.peak,
        cost=best.cost,
        error=best.error_bound,
        executor_hours=best.executor_hours,
        changes=best.changes,
        violation_hours=best.violation_hours,
        mean_executors=best.mean_executors,
        said=this.load.said,
        scene=_scene(case) if drawn else None,
    )
    margins = [optimum(_with_margin(problem, share)) for share in MARGIN_CAPACITIES] if reached else []
    lead_s = case.job.executor.start_up.median_s
    runs = [run_one(case, as_timetable(plan, lead_s), drawn=drawn) for plan in margins]
    cheapest = min(runs, key=lambda run: float(run.score["total_cost"]), default=None)
    return Reference(bound, run_one(case, as_timetable(best, lead_s), drawn=drawn), cheapest)


def _with_margin(problem: Problem, share: float) -> Problem:
    nothing = (0.0,) * len(problem.slack)
    return replace(
        problem,
        objective_s=MARGIN_LAG * problem.objective_s,
        capacity=tuple(share * rate for rate in problem.capacity),
        long_rate=tuple(share * rate for rate in problem.long_rate),
        carried=nothing,
        slack=nothing,
    )


def run_one(case: Case, contender: Contender, *, drawn: bool = False, journal: Path | None = None) -> Found:
    """One run and its score; the cost of the optimum is filled in by who knows it."""
    this = ready(case)
    run = _simulated(case, this, contender, journal)
    score = scores.judge_score(
        _facts(case, contender), judged_case(case, this), run.history, drained=run.drained, end=run.seconds
    )
    score["valid"] = score["valid"] and not run.faults
    placed = () if case.job.nodes is None else tuple(act for act in run.acts if act.placement is not None)
    tracks = _tracks(run, this.capacities) if drawn else None
    return Found(score=score, faults=run.faults, tracks=tracks, placed=placed, holds=run.holds, unready=run.unready)


def _simulated(case: Case, this: Ready, contender: Contender, journal: Path | None) -> Run:
    if journal is None:
        return simulate(case.job, this.load, contender, seed=case.seed)
    recorder = JournaledRecorder(journal)
    try:
        return simulate(case.job, this.load, contender, seed=case.seed, recorder=recorder, archive=recorder.archive)
    finally:
        recorder.close()


def _facts(case: Case, contender: Contender) -> RunFacts:
    return RunFacts(
        version=__version__,
        engine="sim",
        policy=contender.label,
        objective_s=case.job.objective_s,
        n_max=case.job.n_max,
        job=case.job_label,
        trace=case.load.name,
        seed=case.seed,
    )


def judged_case(case: Case, this: Ready) -> scores.Case:
    """What the runs of a case are scored against."""
    weight = violation_weight(case.job, this.load.peak)
    return scores.Case(case.job, this.load.curve, start_executors(case.job, this.load), float(weight))


def as_timetable(plan: Optimum, lead_s: float = 0.0) -> Contender:
    """The policy that follows a plan open loop, each increase ``lead_s`` earlier; nobody can ask for none."""
    steps = tuple((at, max(1, executors)) for at, executors in timetable(plan, lead_s))
    return Contender("schedule", options={"steps": steps}, settings={"guard": dict(OPEN_LOOP)})


def _scene(case: Case) -> Scene:
    this, job = ready(case), case.job
    load = this.load.curve
    needed = [*demand_steps(load, this.capacities, job.n_min, job.n_max)]
    return Scene(
        thinned(load.points, _POINTS),
        thinned([*needed, (load.duration, needed[-1][1])], _POINTS),
        this.capacities,
    )


def _tracks(run: Run, capacities: tuple[float, ...]) -> Tracks:
    history, end = run.history, run.seconds
    carried = [(at, capacities[min(number, len(capacities) - 1)]) for at, number in history.ready]
    paid = [(at, float(number)) for at, number in history.paid]
    return Tracks(
        capacity=thinned([*carried, (end, carried[-1][1])], _POINTS),
        paid=thinned([*paid, (end, paid[-1][1])], _POINTS),
        lag=thinned(lag_line(history.lag_spans(0.0, end)), _POINTS),
        acts=thinned_acts(run.acts, _ACTS),
    )
