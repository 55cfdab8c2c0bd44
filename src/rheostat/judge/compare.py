"""Policies × loads × seeds, in as many processes as wanted: the same result whatever their number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rheostat.judge.cases import Case
from rheostat.judge.contenders import Contender
from rheostat.judge.processes import crew
from rheostat.judge.ranking import LEAST_MEAN_EXECUTORS, Bill, Ranking, rankings
from rheostat.judge.work import Bound, Found, Reference, Task, do
from rheostat.sim.cost import CostParts

__all__ = ["Comparison", "Entry", "Progress", "compare"]

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
    contenders: Sequence[Contender],
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
    tasks = [Task(case, who, case in drawn, reached, journal) for case in cases for who in (None, *contenders)]
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


def _words(task: Task) -> str:
    return f"{'optimum' if task.contender is None else task.contender.label}, {task.case.name}"


def _costed(run: Found, bound: Bound) -> Found:
    """The run with the cost of the optimum in its score."""
    return replace(run, score={**run.score, "optimum_cost": bound.cost})
