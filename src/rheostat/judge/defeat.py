"""The load that defeats each policy: a search through loads, each judged by cost ÷ the clairvoyant optimum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rheostat.judge.cases import PEAK_SHARE, Case, LoadSpec, Treatment
from rheostat.judge.compare import Comparison, Entry, Progress
from rheostat.judge.contenders import Contender
from rheostat.judge.processes import crew
from rheostat.judge.score import Case as Judged
from rheostat.judge.score import cost_parts
from rheostat.judge.simulate import simulate, start_executors
from rheostat.judge.work import find_reference, run_one
from rheostat.judge.worst_case import worst_case
from rheostat.load.curves import RateCurve
from rheostat.load.prepare import prepare
from rheostat.plan.words import several
from rheostat.sim.capacity import capacity
from rheostat.sim.cost import violation_weight
from rheostat.sim.jobfile import JobFile
from rheostat.sim.optimum import optimum
from rheostat.sim.problem import problem_of

__all__ = ["LOWEST_SHARE", "Defeat", "Hunt", "comparison_of", "defeat", "defeats"]

LOWEST_SHARE = 0.05
"""The lowest rate of the loads that are tried, as a share of the highest."""


@dataclass(frozen=True, slots=True)
class Hunt:
    """What is sought: the worst load of so many seconds for one policy, among so many."""

    job: JobFile
    contender: Contender
    seconds: float
    tries: int
    seed: int


@dataclass(frozen=True, slots=True)
class Defeat:
    """What was found.

    Attributes:
        shape: the load, in the language of ``rheostat.load.shapes``; it is played as it is, not scaled.
        ratio: cost ÷ optimum; None: the run did not even end.
        tried: loads that were tried.
        entry: the policy's run under that load, with its optimum.
    """

    policy: str
    shape: str
    ratio: float | None
    tried: int
    entry: Entry


def defeats(
    hunts: Sequence[Hunt], *, jobs: int = 1, progress: Progress = lambda _done, _of, _words: None
) -> list[Defeat]:
    """The worst load for each policy, in their order.

    Raises:
        InputError: a policy is faulty, or the loads are too short.
        PartFailedError: a process was ended from outside.
    """
    found: dict[int, Defeat] = {}
    with crew(defeat, jobs, len(hunts)) as team:
        for place, result in team.results(hunts):
            found[place] = result
            progress(len(found), len(hunts), f"{several(result.tried, 'load')} for {result.policy}")
    return [found[place] for place in range(len(hunts))]


def comparison_of(found: Sequence[Defeat]) -> Comparison:
    """The runs under the loads that were found, as a comparison of one run each."""
    return Comparison(tuple(each.entry for each in found))


def defeat(hunt: Hunt) -> Defeat:
    """The worst load for one policy."""
    high = PEAK_SHARE * capacity(hunt.job, hunt.job.n_max)
    worst = worst_case(
        lambda curve: _ratio(hunt, curve),
        seconds=hunt.seconds,
        low=LOWEST_SHARE * high,
        high=high,
        seed=hunt.seed,
        tries=hunt.tries,
    )
    case = Case(hunt.job, hunt.job.name, LoadSpec(worst.shape, shape=worst.shape), hunt.seed, _AS_IT_IS)
    reference, run = find_reference(case, reached=False), run_one(case, hunt.contender)
    entry = Entry.of(case, [reference, run])
    ratio = worst.value if math.isfinite(worst.value) else None
    return Defeat(hunt.contender.label, worst.shape, ratio, worst.tried, entry)


_AS_IT_IS = Treatment(longest_s=None, scaled=False)


def _ratio(hunt: Hunt, curve: RateCurve) -> float:
    """Cost ÷ optimum under a load; infinite where the run does not count, 0 where the optimum costs nothing."""
    job = hunt.job
    load = prepare(curve, name="a load", seed=hunt.seed, peak_rate=None, longest_s=None)
    start, weight = start_executors(job, load), violation_weight(job, load.peak)
    run = simulate(job, load, hunt.contender, seed=hunt.seed)
    if run.faults:
        return math.inf
    parts = cost_parts(Judged(job, load.curve, start, float(weight)), run.history)
    least = optimum(problem_of(job, load.curve, start, weight)).cost
    return parts.cost(weight) / least if least > 0 else 0.0
