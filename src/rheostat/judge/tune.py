"""A search for the gains of ``proactive`` on the simulator with the recent load (S1, future work).

Every run is one of the production loop over the whole load. Its cost until :data:`SEARCHED` of the load ranks the
gains; its cost from there on is held out. It is one run, because a policy that started with the last quarter would have
no model yet; and because no run can foresee the load, its first part is the same without the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, NamedTuple

from rheostat import __version__
from rheostat.errors import Fault, InputError
from rheostat.judge.cases import Case, PolicySpec, ready, settings_for
from rheostat.judge.compare import Progress, crew
from rheostat.judge.scoring import cost_parts, end_of, scoring_case
from rheostat.judge.simulate import simulate
from rheostat.loop.build import build_decision_settings
from rheostat.policies.proactive import ProactiveOptions

SEARCHED = 0.75
"""Share of the load that candidates are ranked by; the rest is held out."""

GRID = (0.25, 0.5, 0.75, 1.0)
"""Values of α and of β that are tried first, unless others are named."""

ROUNDS = 2
"""How often the grid is refined around the best pair; each time to half its distance."""

_DIGITS, _EXACT = 4, 9
"""Decimals of gains, and of costs that count as different."""


class Gains(NamedTuple):
    """α and β, in (0, 1]: shares of the way up and of the way down by one decision."""

    up: float
    down: float

    def __str__(self) -> str:
        return f"α {self.up:g}, β {self.down:g}"

    def to_json(self) -> dict[str, float]:
        return {"gain_up": self.up, "gain_down": self.down}


class Outcome(NamedTuple):
    """``cost`` of runs (``total_cost``, executor-hours) over ``hours``, and the part of these over the objective."""

    cost: float
    violation_hours: float
    hours: float

    @property
    def violation_share(self) -> float:
        return self.violation_hours / self.hours if self.hours > 0 else 0.0

    @property
    def rounded(self) -> tuple[float, float]:
        """Cost and hours over the objective, without differences from the order of a sum."""
        return round(self.cost, _EXACT), round(self.violation_hours, _EXACT)

    def to_json(self) -> dict[str, float]:
        return {"total_cost": self.cost, "violation_share": self.violation_share}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pair of gains with the outcome of its runs over both parts of the load, and why they do not count."""

    gains: Gains
    searched: Outcome
    held_out: Outcome
    faults: tuple[str, ...] = ()


class Verdict(NamedTuple):
    """Which gains to take, and why."""

    gains: Gains
    why: str


# The search: a coarse grid, then finer around the best pair. Deterministic.


def search(
    play: Callable[[Sequence[Gains]], Sequence[Candidate]], present: Gains, grid: Iterable[float] = GRID
) -> list[Candidate]:
    """Try pairs of gains with ``play``, which runs them; the candidates, the best first.

    All pairs of the grid and the present one; then, :data:`ROUNDS` times, the eight neighbours of the best, at half the
    distance of before. If all pairs cost the same, there is nothing to refine.
    """
    values = sorted(set(grid))
    first = dict.fromkeys([present, *(Gains(up, down) for up, down in product(values, values))])
    candidates = list(play(list(first)))
    distance = min((after - before for before, after in pairwise(values)), default=values[0])
    for _ in range(ROUNDS):
        if len(candidates) > 1 and _cost_the_same(candidates):
            break
        distance /= 2
        known = {each.gains for each in candidates}
        best = rank_candidates(candidates, present)[0].gains
        candidates += play([each for each in _neighbours(best, distance) if each not in known])
    return rank_candidates(candidates, present)


def rank_candidates(candidates: Iterable[Candidate], present: Gains) -> list[Candidate]:
    """By cost, then by time over the objective, then the nearest to the present gains; invalid ones last."""

    def key(each: Candidate) -> tuple[bool, tuple[float, float], float, Gains]:
        distance = abs(each.gains.up - present.up) + abs(each.gains.down - present.down)
        return bool(each.faults), each.searched.rounded, round(distance, _DIGITS), each.gains

    return sorted(candidates, key=key)


def choose_gains(candidates: Sequence[Candidate], present: Gains) -> Verdict:
    """The best pair, if it is better than the present one, and no worse on the part held out; else the present one.

    ``candidates``: ranked, the present one among them.
    """
    best, now = candidates[0], next(each for each in candidates if each.gains == present)
    if now.faults:
        return Verdict(present, f"the present gains stay: their own run does not count ({now.faults[0]})")
    if _cost_the_same(candidates):
        return Verdict(present, "the present gains stay: no other pair makes a difference under this load")
    if best.searched.rounded[0] >= now.searched.rounded[0]:
        return Verdict(present, "the present gains stay: no other pair costs less")
    gained = f"{best.gains} cost {best.searched.cost:.4g} instead of {now.searched.cost:.4g} executor-hours"
    held = (
        f"{best.held_out.cost:.4g}, with {best.held_out.violation_share:.2%} of the time over the objective, "
        f"instead of {now.held_out.cost:.4g} with {now.held_out.violation_share:.2%}"
    )
    pairs = zip(best.held_out.rounded, now.held_out.rounded, strict=True)
    if all(of_best <= of_present for of_best, of_present in pairs):
        return Verdict(best.gains, f"{gained}; on the part that was held out {held}")
    return Verdict(present, f"the present gains stay: {gained}, but on the part that was held out {held}")


def _neighbours(best: Gains, distance: float) -> list[Gains]:
    steps = (-distance, 0.0, distance)
    pairs = ((round(best.up + up, _DIGITS), round(best.down + down, _DIGITS)) for up, down in product(steps, steps))
    return [Gains(up, down) for up, down in pairs if 0 < up <= 1 and 0 < down <= 1]


def _cost_the_same(candidates: Iterable[Candidate]) -> bool:
    return len({each.searched.rounded for each in candidates}) == 1


# The search on simulated runs


@dataclass(frozen=True, slots=True)
class Tuning:
    """The result of a search: the policy with the present gains, the load with each seed, the best candidate first."""

    cases: tuple[Case, ...]
    spec: PolicySpec
    seconds: float
    present: Gains
    candidates: tuple[Candidate, ...]
    verdict: Verdict

    def candidate(self, gains: Gains) -> Candidate:
        return next(each for each in self.candidates if each.gains == gains)

    def to_json(self) -> dict[str, Any]:
        present, best = self.candidate(self.present), self.candidates[0]
        return {
            "schema": "rheostat.tune/1",
            "version": __version__,
            "job": self.cases[0].job_label,
            "policy": self.spec.label,
            "load": self.cases[0].load.name,
            "seeds": [case.seed for case in self.cases],
            "present": self.present.to_json(),
            "recommended": self.verdict.gains.to_json(),
            "changes": self.verdict.gains != self.present,
            "candidates": [
                {**each.gains.to_json(), **each.searched.to_json(), "invalid": list(each.faults)}
                for each in self.candidates
            ],
            "held_out": {
                "from_s": SEARCHED * self.seconds,
                "to_s": self.seconds,
                "present": {**present.gains.to_json(), **present.held_out.to_json()},
                "best": {**best.gains.to_json(), **best.held_out.to_json()},
            },
            "why": self.verdict.why,
        }


def tune(
    cases: Sequence[Case],
    spec: PolicySpec,
    *,
    grid: Sequence[float] = GRID,
    jobs: int = 1,
    progress: Progress = lambda _done, _of, _words: None,
) -> Tuning:
    """Search for the gains with which the policy costs least.

    ``cases``: one job and load with each seed; costs are added up. ``grid``: first values of both gains, in (0, 1].

    Raises:
        InputError: the load or the policy is faulty.
        PartFailedError: a process was ended from outside.
    """
    present, width = gains_of(cases[0], spec), len(cases)
    finished = 0
    with crew(play_task, jobs, width * (1 + len(grid) ** 2)) as workers:

        def play(pairs: Sequence[Gains]) -> list[Candidate]:
            nonlocal finished
            tasks = [(case, spec, gains) for gains in pairs for case in cases]
            earlier = finished
            finished += len(tasks)

            def report(done: int, _: int, run: Candidate) -> None:
                progress(earlier + done, finished, str(run.gains))

            runs = workers.run(tasks, report)
            return [_add(runs[at : at + width]) for at in range(0, len(runs), width)]

        candidates = search(play, present, grid)
    return Tuning(
        cases=tuple(cases),
        spec=spec,
        seconds=ready(cases[0]).load.curve.duration,
        present=present,
        candidates=tuple(candidates),
        verdict=choose_gains(candidates, present),
    )


def gains_of(case: Case, spec: PolicySpec) -> Gains:
    """The gains with which a policy would run now.

    Raises:
        InputError: it is another policy than ``proactive``, or its options are wrong.
    """
    options = getattr(build_decision_settings(settings_for(case.job, spec)).policy, "options", None)
    if not isinstance(options, ProactiveOptions):
        message = "only this policy has gains"
        raise InputError([Fault("policy", spec.label, "proactive, or proactive:PRESET", message)])
    return Gains(options.gain_up, options.gain_down)


def play_task(task: tuple[Case, PolicySpec, Gains]) -> Candidate:
    """Run the policy with these gains in the case."""
    case, spec, gains = task
    load = ready(case).load
    run = simulate(case.job, load, _with_gains(spec, gains), seed=case.seed)
    scored, split = scoring_case(case.job, load), SEARCHED * load.curve.duration
    before, whole = cost_parts(scored, run.history, split), cost_parts(scored, run.history)
    searched = Outcome(before.cost(scored.weight), before.violation_hours, split / 3600)
    held_out = Outcome(
        whole.cost(scored.weight) - searched.cost,
        whole.violation_hours - before.violation_hours,
        (end_of(scored, run.history) - split) / 3600,
    )
    return Candidate(gains, searched, held_out, tuple(f"{case.name}: {fault}" for fault in run.faults))


def _add(runs: Sequence[Candidate]) -> Candidate:
    """The runs of one pair of gains with each seed, together."""

    def total(outcomes: Iterable[Outcome]) -> Outcome:
        return Outcome(*map(sum, zip(*outcomes, strict=True)))

    faults = tuple(fault for run in runs for fault in run.faults)
    return Candidate(runs[0].gains, total(run.searched for run in runs), total(run.held_out for run in runs), faults)


def _with_gains(spec: PolicySpec, gains: Gains) -> PolicySpec:
    return replace(spec, options={**spec.options, **gains.to_json()})


def settings_fragment(tuning: Tuning) -> dict[str, Any]:
    """The recommended gains with the job and settings they were found for, in the shape of a settings file."""
    job, spec = tuning.cases[0].job, _with_gains(tuning.spec, tuning.verdict.gains)
    return {
        **spec.settings,
        "objective": job.objective,
        "executors": list(job.executors),
        "sample_s": job.decide_every_s,
        "policy": spec.label,
        "policy_options": dict(spec.options),
    }
