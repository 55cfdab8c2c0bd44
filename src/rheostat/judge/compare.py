"""Policies × loads × seeds, in any number of processes: the result does not depend on it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Generic, TypeVar

from rheostat import __version__
from rheostat.errors import PartFailedError
from rheostat.judge.cases import Case, LoadSpec, PolicySpec, Ready, Treatment, load_job, ready
from rheostat.judge.scoring import (
    LEAST_MEAN_EXECUTORS,
    Bill,
    Points,
    Ranking,
    TimeSeries,
    bills_by_policy,
    judge_score,
    rankings,
    scoring_case,
    thin,
    thin_steps,
    time_series,
)
from rheostat.judge.simulate import Act, Held, Recorder, simulate, start_executors
from rheostat.optimum.dynamic_program import Problem, problem_of
from rheostat.optimum.optimum import Optimum, optimum, timetable
from rheostat.policies.schedule import OPEN_LOOP
from rheostat.report.score import RunFacts
from rheostat.sim.capacity import CostParts, capacity, violation_weight
from rheostat.sim.history import demand_steps
from rheostat.sim.jobfile import JobFile

MARGINS = ((0.25, 1.0), (0.25, 0.95), (0.5, 1.0), (0.5, 0.98))
"""Shares of the objective's lag that plans with a margin are made for, and of the capacity that they count on."""

_POINTS, _ACTS = 1500, 400
"""Points of a line, and marks, that a plot can show."""

_ROUNDING = 1e-9


# The result of a comparison


@dataclass(frozen=True, slots=True)
class Scene:
    """What the plots of a case show beside its runs."""

    load: Points
    demand: Points


@dataclass(frozen=True, slots=True)
class RunResult:
    """What is kept of a :class:`~rheostat.judge.simulate.Run`: its score, why it does not count, and its plots.

    ``placed``: decisions that placed executors on nodes; empty for a job without nodes.
    """

    score: Mapping[str, Any]
    faults: tuple[str, ...] = ()
    series: TimeSeries | None = None
    placed: tuple[Act, ...] = ()
    holds: Mapping[str, Held] = field(default_factory=dict)
    unready: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A case, its optimum, and its runs.

    Attributes:
        weight: w, the fewest executors that carry the peak.
        peak: largest 30-second mean of the load, records/s.
        preparation: how the load was prepared, in sentences.
        executed: the optimum's plan, followed open loop in the simulated job.
        reached: the cheapest of the plans with a margin, followed likewise; None: they were not tried.
        scene: None: nothing is plotted.
        runs: one for each policy.
    """

    case: Case
    weight: int
    peak: float
    preparation: tuple[str, ...]
    optimum: Optimum
    executed: RunResult
    reached: RunResult | None = None
    scene: Scene | None = None
    runs: tuple[RunResult, ...] = ()

    def with_runs(self, runs: Iterable[RunResult]) -> Entry:
        """Add the runs of the policies, with the cost of the optimum in their scores."""
        cost = {"optimum_cost": self.optimum.cost}
        return replace(self, runs=tuple(replace(run, score={**run.score, **cost}) for run in runs))

    @property
    def every_run(self) -> tuple[RunResult, ...]:
        """The runs of the policies, then those of the plans that know the load."""
        return (*self.runs, self.executed, *([] if self.reached is None else [self.reached]))

    @property
    def ranked(self) -> bool:
        """Whether the case counts in rankings: its optimum needs enough executors to leave something to decide.

        An optimum that costs nothing is no measure: events take away all executors that a short load needs.
        """
        decides = self.case.treatment.ranked or self.optimum.mean_executors >= LEAST_MEAN_EXECUTORS
        return decides and self.optimum.cost > 0

    @property
    def undercut(self) -> tuple[str, ...]:
        """Policies that cost less than the optimum: a fault of the simulator or of the optimum.

        Invalid runs are left out: one that is cut off before its last record pays for a part of the work only.
        """
        least = self.optimum.cost * (1 - _ROUNDING)
        scores = [run.score for run in self.every_run if run.score["valid"]]
        return tuple(score["policy"] for score in scores if score["total_cost"] < least)


@dataclass(frozen=True, slots=True)
class Cells:
    """Cost ÷ optimum of each policy, the best first: the geometric means over the loads of each job, then over all.

    None: one of its runs does not count, or no load was ranked there.
    """

    jobs: tuple[str, ...]
    ratios: Mapping[str, tuple[float | None, ...]]


@dataclass(frozen=True, slots=True)
class Defeat:
    """The worst load that was found for a policy, in the language of shapes and not scaled, and the run under it.

    ``ratio``: cost ÷ optimum; None: the run did not count. ``tried``: number of loads.
    """

    policy: str
    shape: str
    ratio: float | None
    tried: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of a comparison, case by case; of a matrix; or of a search for the worst load of each policy."""

    entries: tuple[Entry, ...]
    cells: Cells | None = None
    defeats: tuple[Defeat, ...] | None = None

    @property
    def bills(self) -> list[Bill]:
        """What each run of the ranked cases used."""
        return [_bill_of(entry, run) for entry in self.entries if entry.ranked for run in entry.runs]

    @property
    def rankings(self) -> tuple[Ranking, ...]:
        """At w, 3 w and w/3; none of worst loads, as each policy has a load of its own."""
        return rankings(self.bills) if self.defeats is None else ()

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
    score = run.score
    violation_hours = score["violation_share"] * score["seconds"] / 3600
    return Bill(
        policy=score["policy"],
        case=entry.case.key,
        used=CostParts(score["executor_hours"], score["reconfigurations"], violation_hours),
        violation_share=score["violation_share"],
        weight=float(entry.weight),
        optimum=entry.optimum.cost,
        best=entry.optimum.parts,
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
        reached: whether plans with a margin are tried too, which takes as long as four to six runs.
        journal: folder for the journal; only for one policy in one case.
        progress: called after each task.

    Raises:
        InputError: a load or a policy is faulty.
        PartFailedError: a process was ended from outside.
    """
    names, tasks = [], list[Callable[[], Any]]()
    for case in cases:
        plotted = case in drawn
        tasks.append(partial(find_reference, case, drawn=plotted, reached=reached))
        tasks += [partial(run_one, case, spec, drawn=plotted, journal=journal) for spec in specs]
        names += [f"{name}, {case.name}" for name in ("optimum", *(spec.label for spec in specs))]
    with crew(_call, jobs, len(tasks)) as workers:
        results = workers.run(tasks, lambda done, place, _: progress(done, len(tasks), names[place]))
    width = len(specs) + 1
    starts = range(0, len(results), width)
    return Comparison(tuple(results[at].with_runs(results[at + 1 : at + width]) for at in starts))


def _call(task: Callable[[], Any]) -> Any:
    return task()


def find_reference(case: Case, *, drawn: bool = False, reached: bool = True) -> Entry:
    """Find the optimum of a case, and run its plans.

    The optimum keeps the lag at its very limit, where the sawtooth of real batches exceeds it half of the time. A plan
    with a margin is the optimum for less lag and less capacity (:data:`MARGINS`), without the batch that the bound
    allows a run to be ahead. It is a reference, no limit of the possible: a policy that reacts may be cheaper. In a
    run, each increase comes ahead by the start-up, the median or, with a margin, the 95th percentile: the fluid pays
    for a start-up and does not wait for it.
    """
    prepared = ready(case)
    weight = violation_weight(case.job, prepared.load.peak)
    problem = problem_of(case.job, prepared.load.curve, start_executors(case.job, prepared.load), weight)
    best = optimum(problem)
    start_up = case.job.executor.start_up

    def execute(plan: Optimum, lead_s: float) -> RunResult:
        return run_one(case, _spec_of_plan(plan, lead_s), drawn=drawn, optimum_cost=best.cost)

    problems = [_with_margin(problem, lag, rate) for lag, rate in (MARGINS if reached else ())]
    runs = [execute(optimum(each), start_up.p95_s) for each in problems]
    cheapest = min(runs, key=lambda run: float(run.score["total_cost"]), default=None)
    return Entry(
        case=case,
        weight=weight,
        peak=prepared.load.peak,
        preparation=prepared.load.said,
        optimum=best,
        executed=execute(best, start_up.median_s),
        reached=cheapest,
        scene=_scene_of(case, prepared) if drawn else None,
    )


def _with_margin(problem: Problem, lag_share: float, capacity_share: float) -> Problem:
    nothing = (0.0,) * len(problem.slack)
    return replace(
        problem,
        objective_s=lag_share * problem.objective_s,
        capacity=tuple(capacity_share * rate for rate in problem.capacity),
        long_rate=tuple(capacity_share * rate for rate in problem.long_rate),
        carried=nothing,
        slack=nothing,
    )


def _spec_of_plan(plan: Optimum, lead_s: float) -> PolicySpec:
    """The policy that follows a plan open loop, each increase ``lead_s`` earlier; it never asks for 0 executors."""
    steps = tuple((at, max(1, executors)) for at, executors in timetable(plan, lead_s))
    return PolicySpec("schedule", options={"steps": steps}, settings={"guard": dict(OPEN_LOOP)})


def run_one(
    case: Case,
    spec: PolicySpec,
    *,
    drawn: bool = False,
    journal: Path | None = None,
    optimum_cost: float | None = None,
) -> RunResult:
    """Run a policy in a case; ``optimum_cost`` goes into the score."""
    prepared = ready(case)
    with closing(Recorder(journal=journal)) as recorder:
        run = simulate(case.job, prepared.load, spec, seed=case.seed, recorder=recorder)
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
    scored = scoring_case(case.job, prepared.load)
    score = judge_score(facts, scored, run.history, drained=run.drained, end=run.seconds)
    valid = score["valid"] and not run.faults
    return RunResult(
        score={**score, "optimum_cost": optimum_cost, "valid": valid},
        faults=run.faults,
        series=time_series(run, prepared.capacities, run.seconds, _POINTS, _ACTS) if drawn else None,
        placed=() if case.job.nodes is None else tuple(act for act in run.acts if act.placement is not None),
        holds=run.holds,
        unready=run.unready,
    )


def _scene_of(case: Case, prepared: Ready) -> Scene:
    load = prepared.load.curve
    demand = demand_steps(load, prepared.capacities, case.job.n_min, case.job.n_max)
    return Scene(thin(load.points, _POINTS), thin_steps(demand, load.duration, _POINTS))


# The matrix: the same loads on jobs that differ in one property each, with one setting for every policy

_HEAVY_SHARE = 0.2
"""Share of τ that planning takes longer in the job with the heavier fixed part."""
_AMPLE, _SMALL = 0.9, 0.1
"""Shares of the most executors that jobs with an ample and a small start begin with."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A job of the matrix. ``load``: its own, at its own rates; None: it is played the loads that were given."""

    label: str
    job: JobFile
    treatment: Treatment = field(default_factory=Treatment)
    load: LoadSpec | None = None


def variants_of(text: str, overrides: Mapping[str, Any], treatment: Treatment) -> list[Variant]:
    """The job itself, and the job with one property changed at a time; a property that it has already is left out.

    ``text``: name or path of the job file. ``overrides``: its dotted keys, changed in all variants.

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
        Variant("noise 20 %", base, replace(treatment, noise_cv=0.2, always_noisy=True)),
        *_variants_with_loads(text, overrides, base, replace(treatment, scaled=False, ranked=True)),
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
    uncapped: dict[str, dict[str, Any]] = {} if base.batch_cap is None else {"uncapped": {"batch_cap": None}}
    changes |= {"exponent 0.8": {"exponent": 0.8}, **uncapped, "batch noise 20 %": {"batch_noise_cv": 0.2}}
    for label, share in (("ample start", _AMPLE), ("small start", _SMALL)):
        changes[label] = {"start_executors": max(base.n_min, round(share * base.n_max))}
    return changes


_DRIVER_SHARE = 0.8
"""Share of τ that planning takes in the driver-bound job."""


def _variants_with_loads(
    text: str, overrides: Mapping[str, Any], base: JobFile, treatment: Treatment
) -> Iterator[Variant]:
    """Jobs whose property is their load; rates are shares of what the job carries at its most executors."""
    most, uncapped = capacity(base, base.n_max), load_job(text, {**overrides, "batch_cap": None})
    planning = {"driver.planning_s": _DRIVER_SHARE * base.period_s}
    driver_bound = load_job(text, {**overrides, **planning})
    two_queries = load_job(text, {**overrides, "beside": ["idle"]})
    busy, high = f"constant:{0.28 * most:.6g}@3600", f"constant:{0.6 * most:.6g}@3600"
    for label, job, shape in (
        ("low rate", base, "poisson:1@14400"),
        ("spikes", uncapped, f"pulses:0..{1.75 * most:.6g}@7200,rise=0,on=6,fall=0,off=54"),
        ("idle for hours", base, f"{busy}+constant:0@25200+{busy}"),
        ("two queries, one idle", two_queries, f"{busy}+{high}+{busy}"),
        ("driver-bound", driver_bound, f"constant:{0.3 * capacity(driver_bound, base.n_min):.6g}@7200"),
    ):
        yield Variant(label, job, treatment, LoadSpec(shape, shape=shape))


def with_matrix(comparison: Comparison) -> Comparison:
    """A comparison over several jobs with its matrix."""
    labels = {entry.case.key: entry.case.job_label for entry in comparison.entries}
    jobs = tuple(dict.fromkeys(labels.values()))
    ratios = {
        policy: (
            *(_mean_ratio([bill for bill in bills if labels[bill.case] == job]) for job in jobs),
            _mean_ratio(bills),
        )
        for policy, bills in bills_by_policy(comparison.bills).items()
    }

    def order(policy: str) -> tuple[bool, float, str]:
        overall = ratios[policy][-1]
        return overall is None, overall or 0.0, policy

    cells = Cells(jobs, {policy: ratios[policy] for policy in sorted(ratios, key=order)})
    return replace(comparison, cells=cells)


def _mean_ratio(bills: Sequence[Bill]) -> float | None:
    if not bills or not all(bill.valid for bill in bills):
        return None
    return geometric_mean(bill.cost() / bill.optimum for bill in bills)


# Runs in processes


Progress = Callable[[int, int, str], None]
"""Called after each task with the number done, the total, and the last task in words."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command; a terminal sends them to all of its processes."""

Task = TypeVar("Task")
Result = TypeVar("Result")


class Crew(Generic[Task, Result]):
    """Runs a function on tasks: with one job in this process, else in worker processes, which import the function."""

    def __init__(self, work: Callable[[Task], Result], jobs: int) -> None:
        self._work = work
        context = get_context("spawn")
        self._receiver, self._stop = context.Pipe(duplex=False)
        with _block_signals():  # multiprocessing starts its resource tracker here
            self._pool = None if jobs == 1 else ProcessPoolExecutor(jobs, context, follow_parent, (self._receiver,))

    def run(self, tasks: Sequence[Task], report: Callable[[int, int, Result], None]) -> list[Result]:
        """The results in the order of the tasks; ``report``: called after each with the number done, place, result."""
        results: dict[int, Result] = {}
        for place, result in self.results(tasks):
            results[place] = result
            report(len(results), place, result)
        return [results[place] for place in range(len(tasks))]

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
            for future in as_completed(places):
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
        for end in (self._stop, self._receiver):
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

    It also ends when the other end of ``stop`` is closed.
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
