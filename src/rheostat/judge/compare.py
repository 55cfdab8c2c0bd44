"""Policies × loads × seeds, in as many processes as wanted: the same result whatever their number."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any, Generic, TypeVar

from rheostat import __version__
from rheostat.errors import PartFailedError
from rheostat.judge import scoring as scores
from rheostat.judge.cases import Case, PolicySpec, Ready, Treatment, ready
from rheostat.judge.scoring import (
    LEAST_MEAN_EXECUTORS,
    Bill,
    Points,
    Ranking,
    TimeSeries,
    geometric_mean,
    lag_line,
    rankings,
    thinned,
    thinned_acts,
)
from rheostat.judge.simulate import Act, Held, JournaledRecorder, Run, simulate, start_executors
from rheostat.optimum.optimum import Optimum, optimum, timetable
from rheostat.optimum.problem import Problem, problem_of
from rheostat.policies.schedule import OPEN_LOOP
from rheostat.report.score import RunFacts
from rheostat.sim.capacity import CostParts, violation_weight
from rheostat.sim.history import demand_steps
from rheostat.sim.jobfile import JobFile, load_job

# What the processes of a comparison do: the optimum of a case, or one run in it. Everything here can be pickled.


MARGIN_LAG = 0.25
"""Share of the objective's lag that a plan with a margin is made for."""

MARGIN_CAPACITIES = (1.0, 0.95)
"""Shares of the capacity that plans with a margin count on."""

_POINTS = 1500
_ACTS = 400


@dataclass(frozen=True, slots=True)
class RunTask:
    """One piece of work.

    Attributes:
        contender: who runs; None: the optimum is sought, and its plans are executed.
        drawn: whether plots are wanted.
        reached: whether plans with a margin are tried too.
        journal: the folder in which the run leaves a journal; None: nowhere.
    """

    case: Case
    contender: PolicySpec | None = None
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
    tracks: TimeSeries | None = None
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


def do(task: RunTask) -> Reference | Found:
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


def run_one(case: Case, contender: PolicySpec, *, drawn: bool = False, journal: Path | None = None) -> Found:
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


def _simulated(case: Case, this: Ready, contender: PolicySpec, journal: Path | None) -> Run:
    if journal is None:
        return simulate(case.job, this.load, contender, seed=case.seed)
    recorder = JournaledRecorder(journal)
    try:
        return simulate(case.job, this.load, contender, seed=case.seed, recorder=recorder, archive=recorder.archive)
    finally:
        recorder.close()


def _facts(case: Case, contender: PolicySpec) -> RunFacts:
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


def as_timetable(plan: Optimum, lead_s: float = 0.0) -> PolicySpec:
    """The policy that follows a plan open loop, each increase ``lead_s`` earlier; nobody can ask for none."""
    steps = tuple((at, max(1, executors)) for at, executors in timetable(plan, lead_s))
    return PolicySpec("schedule", options={"steps": steps}, settings={"guard": dict(OPEN_LOOP)})


def _scene(case: Case) -> Scene:
    this, job = ready(case), case.job
    load = this.load.curve
    needed = [*demand_steps(load, this.capacities, job.n_min, job.n_max)]
    return Scene(
        thinned(load.points, _POINTS),
        thinned([*needed, (load.duration, needed[-1][1])], _POINTS),
        this.capacities,
    )


def _tracks(run: Run, capacities: tuple[float, ...]) -> TimeSeries:
    history, end = run.history, run.seconds
    carried = [(at, capacities[min(number, len(capacities) - 1)]) for at, number in history.ready]
    paid = [(at, float(number)) for at, number in history.paid]
    return TimeSeries(
        capacity=thinned([*carried, (end, carried[-1][1])], _POINTS),
        paid=thinned([*paid, (end, paid[-1][1])], _POINTS),
        lag=thinned(lag_line(history.lag_spans(0.0, end)), _POINTS),
        acts=thinned_acts(run.acts, _ACTS),
    )


Progress = Callable[[int, int, str], None]
"""Told after each piece of work: how many are done, of how many, and the last one in words."""

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Entry:
    """A case with all that was found of it.

    Attributes:
        runs: one for each contender, in their order.
        executed: the optimum's plan, followed open loop in the simulated job.
        reached: the cheapest of the plans with a margin; None: they were not tried.
    """

    case: Case
    bound: Bound
    runs: tuple[Found, ...]
    executed: Found
    reached: Found | None = None

    @classmethod
    def of(cls, case: Case, results: Sequence[Reference | Found]) -> Entry:
        """A case from what was done for it: its reference first, then the runs."""
        reference, *rest = results
        if not isinstance(reference, Reference):
            raise TypeError(reference)
        bound = reference.bound
        runs = [_costed(run, bound) for run in rest if isinstance(run, Found)]
        reached = None if reference.reached is None else _costed(reference.reached, bound)
        return cls(case, bound, tuple(runs), _costed(reference.executed, bound), reached)

    @property
    def clairvoyant(self) -> tuple[Found, ...]:
        """The runs that knew the load."""
        return (self.executed,) if self.reached is None else (self.executed, self.reached)

    @property
    def ranked(self) -> bool:
        """Whether the case counts in rankings: its optimum needs enough executors to leave something to decide.

        An optimum that costs nothing, where events take away all executors that a short load needs, is no measure.
        """
        return self.bound.mean_executors >= LEAST_MEAN_EXECUTORS and self.bound.cost > 0

    @property
    def undercut(self) -> tuple[str, ...]:
        """Policies that cost less than the optimum: a fault of the simulator or of the optimum.

        A run that does not count is no proof: one that is cut off before its last record pays for a part of the work.
        """
        least = self.bound.cost * (1 - _ROUNDING)
        counting = [run.score for run in (*self.runs, *self.clairvoyant) if run.score["valid"]]
        return tuple(score["policy"] for score in counting if score["total_cost"] < least)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found, case by case."""

    entries: tuple[Entry, ...]

    @property
    def bills(self) -> list[Bill]:
        """What each run of the ranked cases used."""
        return [bill_of(entry, run) for entry in self.entries if entry.ranked for run in entry.runs]

    @property
    def rankings(self) -> tuple[Ranking, ...]:
        """At w, 3 w and w/3."""
        return rankings(self.bills)

    @property
    def undercuts(self) -> list[str]:
        """Which policy costs less than the optimum, and where; empty if all is well."""
        return [f"{policy}, {entry.case.name}" for entry in self.entries for policy in entry.undercut]

    @property
    def invalid(self) -> list[str]:
        """Which runs do not count, and why."""
        return [
            f"{run.score['policy']}, {entry.case.name}: {'; '.join(run.faults)}"
            for entry in self.entries
            for run in (*entry.runs, *entry.clairvoyant)
            if run.faults
        ]


def bill_of(entry: Entry, run: Found) -> Bill:
    """What a run used, for rankings."""
    score = run.score
    return Bill(
        policy=score["policy"],
        case=entry.case.key,
        executor_hours=score["executor_hours"],
        changes=score["reconfigurations"],
        violation_hours=score["violation_share"] * score["seconds"] / 3600,
        violation_share=score["violation_share"],
        weight=float(entry.bound.weight),
        optimum=entry.bound.cost,
        best=CostParts(entry.bound.executor_hours, entry.bound.changes, entry.bound.violation_hours),
        valid=score["valid"],
    )


def compare(
    cases: Sequence[Case],
    contenders: Sequence[PolicySpec],
    *,
    jobs: int = 1,
    drawn: Sequence[Case] = (),
    reached: bool = True,
    journal: Path | None = None,
    progress: Progress = lambda _done, _of, _words: None,
) -> Comparison:
    """Run every contender in every case, find each case's optimum, and run its plan.

    Args:
        cases: in the order in which they are reported.
        contenders: their labels differ.
        jobs: processes, ≥ 1.
        drawn: cases of which plots will be wanted.
        reached: whether plans with a margin are tried too, which takes as long as two or three runs.
        journal: the folder in which the run leaves a journal; for one contender in one case.
        progress: told what is done.

    Raises:
        InputError: a load or a policy is faulty.
        PartFailedError: a process was ended from outside.
    """
    tasks = [RunTask(case, who, case in drawn, reached, journal) for case in cases for who in (None, *contenders)]
    found: dict[int, Reference | Found] = {}
    with crew(do, jobs, len(tasks)) as team:
        for place, result in team.results(tasks):
            found[place] = result
            progress(len(found), len(tasks), _words(tasks[place]))
    width = len(contenders) + 1
    return Comparison(
        tuple(
            Entry.of(case, [found[number * width + place] for place in range(width)])
            for number, case in enumerate(cases)
        )
    )


def _words(task: RunTask) -> str:
    return f"{'optimum' if task.contender is None else task.contender.label}, {task.case.name}"


def _costed(run: Found, bound: Bound) -> Found:
    """The run with the cost of the optimum in its score."""
    return replace(run, score={**run.score, "optimum_cost": bound.cost})


# The matrix: the same loads on jobs that differ in one thing each, with one setting for every policy.


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


# Independent pieces of work in several processes; what comes out does not depend on how many there are.


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends a command, often sent to all of its processes."""

Task = TypeVar("Task")
Result = TypeVar("Result")


class Crew(Generic[Task, Result]):
    """Does tasks with one function, here or in processes of its own.

    Args:
        work: a function of a module, so that another process can find it.
        jobs: how many processes; with 1 everything is done here, when its result is asked for.
    """

    def __init__(self, work: Callable[[Task], Result], jobs: int) -> None:
        self._work = work
        context = get_context("spawn")
        self._heard, self._stop = context.Pipe(duplex=False)
        with _held_back():  # the tracker of what processes share is started here
            self._pool = None if jobs == 1 else ProcessPoolExecutor(jobs, context, follow_parent, (self._heard,))

    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """The results with the places of their tasks, in the order in which they are done.

        Raises:
            PartFailedError: a process was ended from outside, as by the system where memory is short.
        """
        if self._pool is None:
            yield from ((place, self._work(task)) for place, task in enumerate(tasks))
            return
        try:
            with _held_back():
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
        """Begin nothing more, and wait for what is being done; ``at_once``: give that up too."""
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
    """Initializer of a process that works for another: signals are for that one to obey, and this one ends with it.

    Args:
        stop: this one ends too when the other end of it is closed.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        ends = [parent.sentinel, *([] if stop is None else [stop])]
        threading.Thread(target=_end_with, args=(ends,), daemon=True).start()


def _end_with(ends: Sequence[connection.Connection | int]) -> None:
    """Wait for one of the ends, and end this process: what it would find out is asked for by nobody."""
    connection.wait(ends)
    os._exit(1)


@contextmanager
def _held_back() -> Iterator[None]:
    """Signals come afterwards; processes that are started meanwhile get none that can be held back."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
