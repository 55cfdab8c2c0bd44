"""Policies × loads × seeds, in as many processes as wanted: the result does not depend on their number."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any, Generic, TypeVar

from rheostat import __version__
from rheostat.errors import PartFailedError
from rheostat.judge.cases import Case, PolicySpec, Ready, Treatment, ready
from rheostat.judge.jobs import load_job
from rheostat.judge.scoring import (
    LEAST_MEAN_EXECUTORS,
    Bill,
    Points,
    Ranking,
    ScoringCase,
    TimeSeries,
    geometric_mean,
    judge_score,
    lag_line,
    rankings,
    thinned,
    thinned_acts,
)
from rheostat.judge.simulate import Act, Held, Recorder, Run, simulate, start_executors
from rheostat.optimum.optimum import Optimum, optimum, timetable
from rheostat.optimum.problem import Problem, problem_of
from rheostat.policies.schedule import OPEN_LOOP
from rheostat.report.score import RunFacts
from rheostat.sim.capacity import CostParts, violation_weight
from rheostat.sim.history import demand_steps
from rheostat.sim.jobfile import JobFile

MARGIN_LAG = 0.25
"""Share of the objective's lag that a plan with a margin is made for."""

MARGIN_CAPACITIES = (1.0, 0.95)
"""Shares of the capacity that plans with a margin count on."""

_POINTS, _ACTS = 1500, 400
"""Points of a line, and marks, that a plot can show."""

_ROUNDING = 1e-9

Progress = Callable[[int, int, str], None]
"""Called after each task with the number done, the total, and the last task in words."""


# The result of a comparison


@dataclass(frozen=True, slots=True)
class Scene:
    """What all runs of a case share in the plots: the load, its demand, and the capacities of 0 … n_max executors."""

    load: Points
    demand: Points
    capacities: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """The clairvoyant optimum of a case: no run can cost less.

    Attributes:
        weight: w, the fewest executors that carry the peak.
        peak: largest 30-second mean of the load, records/s.
        cost: executor-hours in total; the exact optimum lies between it and ``cost + error``.
        mean_executors: of its plan.
        said: how the load was prepared, in sentences.
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
class RunResult:
    """The score of a run, why it does not count, and what is drawn of it.

    Attributes:
        placed: decisions that placed executors on nodes; empty for a job without nodes.
        holds: decisions that changed nothing, by reason code.
        unready: what the policy never did, and what it would have needed; None: it was ready.
    """

    score: Mapping[str, Any]
    faults: tuple[str, ...] = ()
    tracks: TimeSeries | None = None
    placed: tuple[Act, ...] = ()
    holds: Mapping[str, Held] = field(default_factory=dict)
    unready: str | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """The optimum of a case, and the runs of policies that know the load.

    Attributes:
        executed: the optimum's plan, followed open loop in the simulated job.
        reached: the cheapest of the plans with a margin, followed likewise; None: they were not tried.
    """

    bound: Bound
    executed: RunResult
    reached: RunResult | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A case with its results: ``runs`` has one for each policy, the other fields are those of :class:`Reference`."""

    case: Case
    bound: Bound
    runs: tuple[RunResult, ...]
    executed: RunResult
    reached: RunResult | None = None

    @classmethod
    def of(cls, case: Case, results: Sequence[Reference | RunResult]) -> Entry:
        """A case from the results of its tasks: the reference first, then the runs."""
        reference, *rest = results
        if not isinstance(reference, Reference):
            raise TypeError(reference)

        def add_optimum(run: RunResult) -> RunResult:
            return replace(run, score={**run.score, "optimum_cost": reference.bound.cost})

        return cls(
            case=case,
            bound=reference.bound,
            runs=tuple(add_optimum(run) for run in rest if isinstance(run, RunResult)),
            executed=add_optimum(reference.executed),
            reached=None if reference.reached is None else add_optimum(reference.reached),
        )

    @property
    def every_run(self) -> tuple[RunResult, ...]:
        """The runs of the policies, then those of the plans that know the load."""
        return (*self.runs, self.executed, *([] if self.reached is None else [self.reached]))

    @property
    def ranked(self) -> bool:
        """Whether the case counts in rankings: its optimum needs enough executors to leave something to decide.

        An optimum that costs nothing, where events take away all executors that a short load needs, is no measure.
        """
        return self.bound.mean_executors >= LEAST_MEAN_EXECUTORS and self.bound.cost > 0

    @property
    def undercut(self) -> tuple[str, ...]:
        """Policies that cost less than the optimum: a fault of the simulator or of the optimum.

        Invalid runs are left out: one that is cut off before its last record pays for a part of the work only.
        """
        least = self.bound.cost * (1 - _ROUNDING)
        scores = [run.score for run in self.every_run if run.score["valid"]]
        return tuple(score["policy"] for score in scores if score["total_cost"] < least)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of a comparison, case by case."""

    entries: tuple[Entry, ...]

    @property
    def bills(self) -> list[Bill]:
        """What each run of the ranked cases used."""
        return [_bill_of(entry, run) for entry in self.entries if entry.ranked for run in entry.runs]

    @property
    def rankings(self) -> tuple[Ranking, ...]:
        """At w, 3 w and w/3."""
        return rankings(self.bills)

    @property
    def undercuts(self) -> list[str]:
        """Policy and case of each run that costs less than the optimum; empty if all is well."""
        return [f"{policy}, {entry.case.name}" for entry in self.entries for policy in entry.undercut]

    @property
    def invalid(self) -> list[str]:
        """The runs that do not count, each with its reasons."""
        return [
            f"{run.score['policy']}, {entry.case.name}: {'; '.join(run.faults)}"
            for entry in self.entries
            for run in entry.every_run
            if run.faults
        ]


def _bill_of(entry: Entry, run: RunResult) -> Bill:
    score, bound = run.score, entry.bound
    return Bill(
        policy=score["policy"],
        case=entry.case.key,
        executor_hours=score["executor_hours"],
        changes=score["reconfigurations"],
        violation_hours=score["violation_share"] * score["seconds"] / 3600,
        violation_share=score["violation_share"],
        weight=float(bound.weight),
        optimum=bound.cost,
        best=CostParts(bound.executor_hours, bound.changes, bound.violation_hours),
        valid=score["valid"],
    )


# The comparison and its tasks, which may run in other processes: they and their results can be pickled


def compare(
    cases: Sequence[Case],
    specs: Sequence[PolicySpec],
    *,
    jobs: int = 1,
    drawn: Sequence[Case] = (),
    reached: bool = True,
    journal: Path | None = None,
    progress: Progress = lambda _done, _of, _words: None,
) -> Comparison:
    """Run every policy in every case, find the optimum of each case, and run its plan.

    Args:
        cases: in the order in which they are reported.
        specs: their labels differ.
        jobs: processes, ≥ 1.
        drawn: cases whose time series are kept for plots.
        reached: whether plans with a margin are tried too, which takes as long as two or three runs.
        journal: the folder for the journal of the run; only for one policy in one case.
        progress: called after each task.

    Raises:
        InputError: a load or a policy is faulty.
        PartFailedError: a process was ended from outside.
    """
    tasks = [RunTask(case, spec, case in drawn, reached, journal) for case in cases for spec in (None, *specs)]
    results: dict[int, Reference | RunResult] = {}
    with crew(run_task, jobs, len(tasks)) as team:
        for place, result in team.results(tasks):
            results[place] = result
            last = tasks[place]
            name = "optimum" if last.spec is None else last.spec.label
            progress(len(results), len(tasks), f"{name}, {last.case.name}")
    width = len(specs) + 1
    return Comparison(
        tuple(
            Entry.of(case, [results[number * width + place] for place in range(width)])
            for number, case in enumerate(cases)
        )
    )


@dataclass(frozen=True, slots=True)
class RunTask:
    """One run of a case, or the search for its optimum.

    Attributes:
        spec: who decides; None: the optimum is sought, and its plans are executed.
        drawn: whether time series are kept for plots.
        reached: whether plans with a margin are tried too.
        journal: the folder for the journal of the run; None: no journal.
    """

    case: Case
    spec: PolicySpec | None = None
    drawn: bool = False
    reached: bool = True
    journal: Path | None = None


def run_task(task: RunTask) -> Reference | RunResult:
    """Do a task.

    Raises:
        InputError: the load or the policy is faulty.
    """
    if task.spec is None:
        return find_reference(task.case, drawn=task.drawn, reached=task.reached)
    return run_one(task.case, task.spec, drawn=task.drawn, journal=task.journal)


def find_reference(case: Case, *, drawn: bool = False, reached: bool = True) -> Reference:
    """The optimum of a case, and its plans executed.

    The optimum keeps the lag at its very limit, where the sawtooth of real batches exceeds it half of the time. A plan
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
        scene=_scene_of(case, this) if drawn else None,
    )
    margins = [optimum(_with_margin(problem, share)) for share in MARGIN_CAPACITIES] if reached else []
    lead_s = case.job.executor.start_up.median_s
    runs = [run_one(case, _spec_of_plan(plan, lead_s), drawn=drawn) for plan in margins]
    cheapest = min(runs, key=lambda run: float(run.score["total_cost"]), default=None)
    return Reference(bound, run_one(case, _spec_of_plan(best, lead_s), drawn=drawn), cheapest)


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


def _spec_of_plan(plan: Optimum, lead_s: float) -> PolicySpec:
    """The policy that follows a plan open loop, each increase ``lead_s`` earlier; it never asks for 0 executors."""
    steps = tuple((at, max(1, executors)) for at, executors in timetable(plan, lead_s))
    return PolicySpec("schedule", options={"steps": steps}, settings={"guard": dict(OPEN_LOOP)})


def run_one(case: Case, spec: PolicySpec, *, drawn: bool = False, journal: Path | None = None) -> RunResult:
    """One run and its score, without the cost of the optimum."""
    this = ready(case)
    with closing(Recorder(journal=journal)) as recorder:
        run = simulate(case.job, this.load, spec, seed=case.seed, recorder=recorder)
    facts = RunFacts(
        version=__version__,
        engine="sim",
        policy=spec.label,
        objective_s=case.job.objective_s,
        n_max=case.job.n_max,
        job=case.job_label,
        trace=case.load.name,
        seed=case.seed,
    )
    score = judge_score(facts, scoring_case(case, this), run.history, drained=run.drained, end=run.seconds)
    score["valid"] = score["valid"] and not run.faults
    return RunResult(
        score=score,
        faults=run.faults,
        tracks=_tracks_of(run, this.capacities) if drawn else None,
        placed=() if case.job.nodes is None else tuple(act for act in run.acts if act.placement is not None),
        holds=run.holds,
        unready=run.unready,
    )


def scoring_case(case: Case, this: Ready) -> ScoringCase:
    """What the runs of a case are scored against."""
    weight = violation_weight(case.job, this.load.peak)
    return ScoringCase(case.job, this.load.curve, start_executors(case.job, this.load), float(weight))


def _scene_of(case: Case, this: Ready) -> Scene:
    load, job = this.load.curve, case.job
    needed = [*demand_steps(load, this.capacities, job.n_min, job.n_max)]
    demand = thinned([*needed, (load.duration, needed[-1][1])], _POINTS)
    return Scene(thinned(load.points, _POINTS), demand, this.capacities)


def _tracks_of(run: Run, capacities: tuple[float, ...]) -> TimeSeries:
    history, end = run.history, run.seconds
    carried = [(at, capacities[min(number, len(capacities) - 1)]) for at, number in history.ready]
    paid = [(at, float(number)) for at, number in history.paid]
    return TimeSeries(
        capacity=thinned([*carried, (end, carried[-1][1])], _POINTS),
        paid=thinned([*paid, (end, paid[-1][1])], _POINTS),
        lag=thinned(lag_line(history.lag_spans(0.0, end)), _POINTS),
        acts=thinned_acts(run.acts, _ACTS),
    )


# The matrix: the same loads on jobs that differ in one thing each, with one setting for every policy

_HEAVY_SHARE = 0.2
"""Share of τ that planning takes longer in the job with the heavier fixed part."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A job of the matrix."""

    label: str
    job: JobFile
    treatment: Treatment = field(default_factory=Treatment)


def variants_of(text: str, overrides: Mapping[str, Any], treatment: Treatment) -> list[Variant]:
    """The job itself, and the job with one thing changed at a time; a lag that it has already is left out.

    Args:
        text: name or path of the job file.
        overrides: dotted keys of the job file, changed in all variants.
        treatment: of the loads.

    Raises:
        InputError: the job file is faulty.
    """
    base = load_job(text, overrides)
    changed = [
        Variant(label, load_job(text, {**overrides, **changes}), treatment)
        for label, changes in _changes_by_label(base).items()
    ]
    return [
        Variant(base.name, base, treatment),
        *changed,
        Variant("noise 20 %", base, replace(treatment, noise_cv=0.2)),
    ]


def _changes_by_label(base: JobFile) -> dict[str, dict[str, Any]]:
    start_up = base.executor.start_up
    spread = start_up.p95_s / start_up.median_s if start_up.median_s else 1.0
    changes: dict[str, dict[str, Any]] = {
        "heavier fixed part": {"driver.planning_s": base.driver.planning_s + _HEAVY_SHARE * base.period_s}
    }
    for lag_s in (10, 60):
        if lag_s != base.objective_s:
            # a trigger that is too long for the lag becomes a quarter of it
            trigger = {"trigger_s": lag_s / 4} if base.trigger_s > lag_s / 4 else {}
            changes[f"L {lag_s} s"] = {"objective": f"lag < {lag_s} s", **trigger}
    for median_s in (30.0, 60.0, 180.0):
        times = {"executor.start_up.median_s": median_s, "executor.start_up.p95_s": median_s * spread}
        changes[f"start-up {median_s:g} s"] = times
    return {**changes, "exponent 0.8": {"exponent": 0.8}}


@dataclass(frozen=True, slots=True)
class Cells:
    """Cost ÷ optimum: the geometric mean over the loads of each job, and over all.

    Attributes:
        jobs: labels, in order.
        ratios: policy → one figure a job; None: one of its runs does not count, or no load was ranked there.
        overall: policy → geometric mean over all ranked cases; None: one of its runs does not count. Best first.
    """

    jobs: tuple[str, ...]
    ratios: Mapping[str, tuple[float | None, ...]]
    overall: Mapping[str, float | None]


def cells_of(comparison: Comparison) -> Cells:
    """The matrix of a comparison over several jobs."""
    labels = {entry.case.key: entry.case.job_label for entry in comparison.entries}
    jobs = tuple(dict.fromkeys(labels.values()))
    by_policy: dict[str, list[Bill]] = {}
    for bill in comparison.bills:
        by_policy.setdefault(bill.policy, []).append(bill)
    overall = {policy: _mean_ratio(bills) for policy, bills in by_policy.items()}
    ratios = {
        policy: tuple(_mean_ratio([bill for bill in bills if labels[bill.case] == job]) for job in jobs)
        for policy, bills in by_policy.items()
    }
    ordered = sorted(overall.items(), key=lambda item: (item[1] is None, item[1] or 0.0, item[0]))
    return Cells(jobs, ratios, dict(ordered))


def _mean_ratio(bills: Sequence[Bill]) -> float | None:
    if not bills or not all(bill.valid for bill in bills):
        return None
    return geometric_mean(bill.cost() / bill.optimum for bill in bills)


# Independent tasks in several processes

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command; a terminal sends them to all of its processes."""

Task = TypeVar("Task")
Result = TypeVar("Result")


class Crew(Generic[Task, Result]):
    """Does tasks with one function, in this process or in worker processes.

    Args:
        work: a function of a module, so that another process can import it.
        jobs: how many processes; with 1 each task is done in this one, when its result is asked for.
    """

    def __init__(self, work: Callable[[Task], Result], jobs: int) -> None:
        self._work = work
        context = get_context("spawn")
        self._heard, self._stop = context.Pipe(duplex=False)
        with _block_signals():  # multiprocessing starts its resource tracker here
            self._pool = None if jobs == 1 else ProcessPoolExecutor(jobs, context, follow_parent, (self._heard,))

    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """``(index of the task, its result)``, in the order in which tasks end.

        Raises:
            PartFailedError: a process was ended from outside, as by the system where memory is short.
        """
        if self._pool is None:
            yield from ((place, self._work(task)) for place, task in enumerate(tasks))
            return
        try:
            with _block_signals():
                places = {self._pool.submit(self._work, task): place for place, task in enumerate(tasks)}
            waiting: set[Future[Result]] = set(places)
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield places[future], future.result()
        except BrokenProcessPool as error:
            message = "a process was ended from outside; with less memory use a smaller --jobs"
            raise PartFailedError("simulation", message) from error

    def close(self, *, at_once: bool = False) -> None:
        """Start no further task and wait for the running ones; ``at_once``: end them instead."""
        if at_once:
            self._stop.close()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        for end in (self._stop, self._heard):
            end.close()

    def __enter__(self) -> Crew[Task, Result]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(at_once=kind is not None)


def crew(work: Callable[[Task], Result], jobs: int, tasks: int) -> Crew[Task, Result]:
    """A crew of no more processes than there are tasks."""
    return Crew(work, max(1, min(jobs, tasks)))


def follow_parent(stop: connection.Connection | None = None) -> None:
    """Initializer of a worker process: it ignores signals, which are for the parent, and ends with the parent.

    Args:
        stop: the process also ends when the other end of this connection is closed.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        ends = [parent.sentinel, *([] if stop is None else [stop])]
        threading.Thread(target=_exit_with, args=(ends,), daemon=True).start()


def _exit_with(ends: Sequence[connection.Connection | int]) -> None:
    connection.wait(ends)
    os._exit(1)


@contextmanager
def _block_signals() -> Iterator[None]:
    """Deliver signals afterwards; processes that are started meanwhile inherit the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
