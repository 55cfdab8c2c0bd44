"""The gains of ``proactive`` found on the simulator with the recent load (S1, future work).

Every run is one of the production loop over the whole load. What it came to until :data:`SEARCHED` of the load ranks
the gains; what it came to from there on is held out. It is one run because a policy that began anew with the last
quarter would have no model yet; and as no run can foresee the load, its first part is what it is without the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from rheostat import __version__
from rheostat.errors import Fault, InputError
from rheostat.judge.cases import Case, ready
from rheostat.judge.compare import Progress
from rheostat.judge.contenders import Contender, settings_for
from rheostat.judge.gains import GRID, Candidate, Gains, Outcome, Verdict, judged, search
from rheostat.judge.processes import Crew, crew
from rheostat.judge.score import cost_parts, end_of
from rheostat.judge.simulate import simulate
from rheostat.judge.work import Task, judged_case
from rheostat.loop import build_planner
from rheostat.plan.proactive_options import ProactiveOptions

__all__ = ["SEARCHED", "TUNE_SCHEMA", "Tuning", "gains_of", "play", "settings_fragment", "tune"]

TUNE_SCHEMA = "rheostat.tune/1"

SEARCHED = 0.75
"""Share of the load that candidates are ranked by; the rest is held out."""


class Played(NamedTuple):
    """What one run came to before and after the split, and why it does not count."""

    searched: Outcome
    held_out: Outcome
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was found.

    Attributes:
        cases: the load with each seed.
        contender: the policy with the present gains.
        seconds: of the load.
        candidates: the best first.
    """

    cases: tuple[Case, ...]
    contender: Contender
    seconds: float
    present: Gains
    candidates: tuple[Candidate, ...]
    verdict: Verdict

    def candidate(self, gains: Gains) -> Candidate:
        """The candidate of these gains."""
        return next(each for each in self.candidates if each.gains == gains)

    def to_json(self) -> dict[str, Any]:
        """In the shape of ``rheostat.tune/1``."""
        present, best = self.candidate(self.present), self.candidates[0]
        return {
            "schema": TUNE_SCHEMA,
            "version": __version__,
            "job": self.cases[0].job_label,
            "policy": self.contender.label,
            "load": self.cases[0].load.name,
            "seeds": [case.seed for case in self.cases],
            "present": _gains_json(self.present),
            "recommended": _gains_json(self.verdict.gains),
            "changes": self.verdict.gains != self.present,
            "candidates": [
                {**_gains_json(each.gains), **_outcome_json(each.searched), "invalid": list(each.faults)}
                for each in self.candidates
            ],
            "held_out": {
                "from_s": SEARCHED * self.seconds,
                "to_s": self.seconds,
                "present": {**_gains_json(present.gains), **_outcome_json(present.held_out)},
                "best": {**_gains_json(best.gains), **_outcome_json(best.held_out)},
            },
            "why": self.verdict.why,
        }


def tune(
    cases: Sequence[Case],
    contender: Contender,
    *,
    grid: Sequence[float] = GRID,
    jobs: int = 1,
    progress: Progress = lambda _done, _of, _words: None,
) -> Tuning:
    """Search for the gains with which the policy costs least.

    Args:
        cases: one job and load with each seed; costs are added up.
        contender: the policy, with the present gains among its options or by default.
        grid: first values of both, in (0, 1].
        jobs: processes, ≥ 1; the result does not depend on it.
        progress: told what is done.

    Raises:
        InputError: the load or the policy is faulty.
        PartFailedError: a process was ended from outside.
    """
    present = gains_of(cases[0], contender)
    load = ready(cases[0]).load
    with crew(play, jobs, len(cases) * (1 + len(grid) ** 2)) as team:
        bench = _Bench(cases, contender, team, progress)
        candidates = search(bench.played, present, grid)
    verdict = judged(candidates, present)
    return Tuning(
        cases=tuple(cases),
        contender=contender,
        seconds=load.curve.duration,
        present=present,
        candidates=tuple(candidates),
        verdict=verdict,
    )


def gains_of(case: Case, contender: Contender) -> Gains:
    """The gains with which a policy would run now.

    Raises:
        InputError: it is another policy than ``proactive``, or its options are wrong.
    """
    options = getattr(build_planner(settings_for(case.job, contender)).policy, "options", None)
    if not isinstance(options, ProactiveOptions):
        message = "only this policy has gains"
        raise InputError([Fault("policy", contender.label, "proactive, or proactive:PRESET", message)])
    return Gains(options.gain_up, options.gain_down)


def play(task: Task) -> Played:
    """One run, and what it came to on both sides of the split.

    Raises:
        InputError: the load is faulty.
        ValueError: the task is to find an optimum.
    """
    case = task.case
    if task.contender is None:
        message = "there is nobody to run"
        raise ValueError(message)
    this = ready(case)
    run = simulate(case.job, this.load, task.contender, seed=case.seed)
    scored, split = judged_case(case, this), SEARCHED * this.load.curve.duration
    before, whole = cost_parts(scored, run.history, split), cost_parts(scored, run.history)
    end = end_of(scored, run.history)
    searched = Outcome(before.cost(scored.weight), before.violation_hours, split / 3600)
    held_out = Outcome(
        whole.cost(scored.weight) - searched.cost,
        whole.violation_hours - before.violation_hours,
        (end - split) / 3600,
    )
    return Played(searched, held_out, tuple(f"{case.name}: {fault}" for fault in run.faults))


def settings_fragment(tuning: Tuning) -> dict[str, Any]:
    """The recommended gains with what they were found for, in the shape of a settings file."""
    job, contender = tuning.cases[0].job, tuning.contender
    return {
        **contender.settings,
        "objective": job.objective,
        "executors": list(job.executors),
        "sample_s": job.decide_every_s,
        "policy": contender.label,
        "policy_options": {**contender.options, **_gains_json(tuning.verdict.gains)},
    }


@dataclass(slots=True)
class _Bench:
    """Plays candidates in a crew, each with all seeds."""

    cases: Sequence[Case]
    contender: Contender
    team: Crew[Task, Played]
    progress: Progress
    done: int = 0
    begun: int = 0

    def played(self, wanted: Sequence[Gains]) -> list[Candidate]:
        """The candidates, in the order asked for."""
        tasks = [Task(case, _with(self.contender, gains)) for gains in wanted for case in self.cases]
        self.begun += len(tasks)
        runs: dict[int, Played] = {}
        for place, run in self.team.results(tasks):
            runs[place], self.done = run, self.done + 1
            self.progress(self.done, self.begun, str(wanted[place // len(self.cases)]))
        width = len(self.cases)
        return [
            _candidate(gains, [runs[number * width + place] for place in range(width)])
            for number, gains in enumerate(wanted)
        ]


def _candidate(gains: Gains, runs: Sequence[Played]) -> Candidate:
    faults = tuple(fault for run in runs for fault in run.faults)
    return Candidate(gains, _sum([run.searched for run in runs]), _sum([run.held_out for run in runs]), faults)


def _sum(outcomes: Sequence[Outcome]) -> Outcome:
    return Outcome(*map(sum, zip(*outcomes, strict=True)))


def _with(contender: Contender, gains: Gains) -> Contender:
    return replace(contender, options={**contender.options, **_gains_json(gains)})


def _gains_json(gains: Gains) -> dict[str, float]:
    return {"gain_up": gains.up, "gain_down": gains.down}


def _outcome_json(outcome: Outcome) -> dict[str, float]:
    return {"total_cost": outcome.cost, "violation_share": outcome.violation_share}
