"""The gains of ``proactive`` found on the simulator with the recent load (S1, future work).

Every run is one of the production loop over the whole load. What it came to until :data:`SEARCHED` of the load ranks
the gains; what it came to from there on is held out. It is one run because a policy that began anew with the last
quarter would have no model yet; and as no run can foresee the load, its first part is what it is without the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, NamedTuple

from rheostat import __version__
from rheostat.errors import Fault, InputError
from rheostat.judge.cases import Case, PolicySpec, ready, settings_for
from rheostat.judge.compare import Crew, Progress, RunTask, crew, judged_case
from rheostat.judge.scoring import cost_parts, end_of
from rheostat.judge.simulate import simulate
from rheostat.loop.build import build_decision_settings
from rheostat.policies.proactive import ProactiveOptions

# A search for the gains α and β of the hysteresis: a coarse grid, then finer around the best. Deterministic.


GRID = (0.25, 0.5, 0.75, 1.0)
"""Values of α and of β that are tried first, unless others are named."""

ROUNDS = 2
"""How often the grid is refined around the best; each time to half its distance."""

_DIGITS, _EXACT = 4, 9
"""Decimals of gains, and of costs that are told apart."""


class Gains(NamedTuple):
    """α and β, in (0, 1]: shares of the way up and of the way down by one decision."""

    up: float
    down: float

    def __str__(self) -> str:
        return f"α {self.up:g}, β {self.down:g}"


class Outcome(NamedTuple):
    """What runs came to over some time.

    Attributes:
        cost: ``total_cost``, executor-hours.
        violation_hours: of ``hours``, with the lag over the objective.
    """

    cost: float
    violation_hours: float
    hours: float

    @property
    def violation_share(self) -> float:
        """Share of the time over the objective."""
        return self.violation_hours / self.hours if self.hours > 0 else 0.0

    @property
    def rounded(self) -> tuple[float, float]:
        """Cost and hours over the objective without what only the order of a sum makes of them."""
        return round(self.cost, _EXACT), round(self.violation_hours, _EXACT)

    def no_worse_than(self, other: Outcome) -> bool:
        """Whether it costs no more, and is over the objective no longer."""
        return all(mine <= its for mine, its in zip(self.rounded, other.rounded, strict=True))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pair of gains with what its runs came to.

    Attributes:
        searched: over the part of the load that candidates are ranked by.
        held_out: over the rest of it, which only the winner is held against.
        faults: why runs of it do not count.
    """

    gains: Gains
    searched: Outcome
    held_out: Outcome
    faults: tuple[str, ...] = ()


class Verdict(NamedTuple):
    """Which gains to take, and why."""

    gains: Gains
    why: str


Trial = Callable[[Sequence[Gains]], Sequence[Candidate]]
"""Plays pairs of gains; what comes back is in their order."""


def search(play: Trial, present: Gains, grid: Iterable[float] = GRID) -> list[Candidate]:
    """Try pairs of gains, the best first in what comes back.

    All pairs of the grid and the present one; then, :data:`ROUNDS` times, the eight neighbours of the best, at half the
    distance of before. Where all that were tried cost the same, there is nothing to refine.

    Args:
        play: plays candidates.
        present: always among the candidates.
        grid: values of α and β in (0, 1], at least one.
    """
    values = sorted(set(grid))
    first = list(dict.fromkeys([present, *(Gains(up, down) for up, down in product(values, values))]))
    found = list(play(first))
    distance = min((after - before for before, after in pairwise(values)), default=values[0])
    for _ in range(ROUNDS):
        if len(found) > 1 and _alike(found):
            break
        distance /= 2
        known = {each.gains for each in found}
        fresh = [each for each in _around(ranked(found, present)[0].gains, distance) if each not in known]
        found += play(fresh)
    return ranked(found, present)


def ranked(found: Iterable[Candidate], present: Gains) -> list[Candidate]:
    """By cost, then by time over the objective, then the nearest to the present gains; last what does not count."""

    def key(each: Candidate) -> tuple[bool, tuple[float, float], float, Gains]:
        distance = abs(each.gains.up - present.up) + abs(each.gains.down - present.down)
        return bool(each.faults), each.searched.rounded, round(distance, _DIGITS), each.gains

    return sorted(found, key=key)


def judged(candidates: Sequence[Candidate], present: Gains) -> Verdict:
    """The best one, if it is better than the present one, and no worse on what was held out; else the present one.

    Args:
        candidates: ranked; the present one among them.
        present: the gains in use.
    """
    best, now = candidates[0], _by_gains(candidates)[present]
    if now.faults:
        return Verdict(present, f"the present gains stay: their own run does not count ({now.faults[0]})")
    if _alike(candidates):
        return Verdict(present, "the present gains stay: no other pair makes a difference under this load")
    if best.searched.rounded[0] >= now.searched.rounded[0]:
        return Verdict(present, "the present gains stay: nothing that was tried costs less")
    gained = f"{best.gains} cost {best.searched.cost:.4g} instead of {now.searched.cost:.4g} executor-hours"
    held = (
        f"{best.held_out.cost:.4g}, with {best.held_out.violation_share:.2%} of the time over the objective, "
        f"instead of {now.held_out.cost:.4g} with {now.held_out.violation_share:.2%}"
    )
    if best.held_out.no_worse_than(now.held_out):
        return Verdict(best.gains, f"{gained}; on the part that was held out {held}")
    return Verdict(present, f"the present gains stay: {gained}, but on the part that was held out {held}")


def _around(best: Gains, distance: float) -> list[Gains]:
    steps = (-distance, 0.0, distance)
    pairs = ((round(best.up + up, _DIGITS), round(best.down + down, _DIGITS)) for up, down in product(steps, steps))
    return [Gains(up, down) for up, down in pairs if 0 < up <= 1 and 0 < down <= 1]


def _alike(candidates: Iterable[Candidate]) -> bool:
    return len({each.searched.rounded for each in candidates}) == 1


def _by_gains(candidates: Iterable[Candidate]) -> Mapping[Gains, Candidate]:
    return {each.gains: each for each in candidates}


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
    contender: PolicySpec
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
    contender: PolicySpec,
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


def gains_of(case: Case, contender: PolicySpec) -> Gains:
    """The gains with which a policy would run now.

    Raises:
        InputError: it is another policy than ``proactive``, or its options are wrong.
    """
    options = getattr(build_decision_settings(settings_for(case.job, contender)).policy, "options", None)
    if not isinstance(options, ProactiveOptions):
        message = "only this policy has gains"
        raise InputError([Fault("policy", contender.label, "proactive, or proactive:PRESET", message)])
    return Gains(options.gain_up, options.gain_down)


def play(task: RunTask) -> Played:
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
    contender: PolicySpec
    team: Crew[RunTask, Played]
    progress: Progress
    done: int = 0
    begun: int = 0

    def played(self, wanted: Sequence[Gains]) -> list[Candidate]:
        """The candidates, in the order asked for."""
        tasks = [RunTask(case, _with(self.contender, gains)) for gains in wanted for case in self.cases]
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


def _with(contender: PolicySpec, gains: Gains) -> PolicySpec:
    return replace(contender, options={**contender.options, **_gains_json(gains)})


def _gains_json(gains: Gains) -> dict[str, float]:
    return {"gain_up": gains.up, "gain_down": gains.down}


def _outcome_json(outcome: Outcome) -> dict[str, float]:
    return {"total_cost": outcome.cost, "violation_share": outcome.violation_share}
