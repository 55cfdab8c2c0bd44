"""The clairvoyant optimum: the least cost of a run, with the whole load known in advance.

A run costs ``executor-hours + 60 executor-seconds × changes + w × hours with lag > L``. The optimum is the least cost
of a *fluid* relaxation: whatever a run may do, the fluid may do too. It has the run's decision grid, start, bounds and
prices, and must process everything. With A(t) the records offered by second t and D(t) the records processed, it is
over the objective while ``D(t) + slack < A(t − L)``; n executors process C(n) records/s within the objective and the
long-batch rate R(n) ≥ C(n) beyond it. Both are the greatest over m ≤ n: more executors never do less.

Why a run of the simulated job costs no less
--------------------------------------------
*Commits come in jumps, at a batch's end.* A record is counted as done when it is processed, which is earlier.

*A long batch spreads the fixed part.* A batch takes f + r ÷ R seconds. The oldest record of batch i came just after
batch i − 1 began, so within the objective the two of them together take at most L, of which 2 f are lost: over any
time, at most 1 − 2 f ÷ L of it is work, which is C(n) = R·(1 − f ÷ τ) with τ = L ÷ 2. (Where the trigger is longer
than that, batches of τ could not keep L at all.) A pair of batches that takes longer is over the objective for
all of the rest, which counts as R(n). A batch with a cap processes no more in its time than one as large as the cap.

*Slack.* A period may begin and end within a batch, so a run can be ahead of C(n) by the fixed part at either end, 2
f·R records; where a capped batch waits for its trigger, by the batch. The fluid has this slack all the time.

*The number is changed at the right moment within a batch.* Executors are taken away between two batches, and others
may join after the next one's planning: with each pair of changes one fixed part can fall to the smaller number. So a
change from n to n′ gives the fluid ``f·|R(n′) − R(n)| ÷ 2`` records. More frequent changes pay only where f × (n_max
− n_min) exceeds the two prices of 60 executor-seconds; the fluid then does it as well.

*Start-up.* A run pays an executor from its request, and has it after its start-up of at least u seconds (one start in
a thousand is faster). The fluid has an added executor at a decision, and pays for the ⌊u ÷ decision interval⌋
intervals before: the run has paid from one of the earlier decisions on, and has it no sooner. Cold slots, neighbours
that slow down, state that is loaded again, requests that are refused cost the fluid nothing.

*Start and end.* Both begin without backlog, and both pay until the load is over and all is processed; the fluid is
done earlier.

*Executors leave between two decisions*, at a batch's end, while the fluid's leave at a decision. Leaving earlier or
later exchanges cost for work at the going rate; with each departure rounded so that the sum stays within half an
interval, the fluid pays the same, and its backlog is larger by the work of the departed executors in half an interval.
The fluid may be L behind. A run may not: a batch begins with the records that arrived during the one before, and
together the two take L.

*Events.* Faults only slow a run down. Where an event makes the job faster, the fluid has the faster job from the
start; where an executor dies, two changes are free, and one executor fewer than the least number is allowed.

What is not proven: a job whose batches vary by chance keeps C(n) on average only; an exponent below 1 slows the tasks
of a batch by the slots at its begin, so executors that join during it run faster; a number that changes within each
batch can follow stages of different width, for the price of the changes; a load in bursts that fit the batches, with
nothing between them, can leave a run nearly L for each batch instead of L ÷ 2. These effects are small against the
fluid's freedom to stay L behind, and a comparison checks every run (``rheostat.judge.compare``).

How tight it is
---------------
Rounding: see ``error_bound``. The relaxation, in the preset ``base`` under four synthetic loads of two hours with 10 %
noise, two waves and two that jump: the same fluid without slack and with 0.3 L costs 2 and 5 % more. Its plan, each
increase 30 s earlier (see :func:`timetable`), costs 4 and 8 % more than the optimum when it is executed under the
waves, 13 and 16 % where the load jumps. Both margins were chosen on these loads. The plan for all of L, executed, is
over the objective for 29 to 58 % of the time: it keeps the lag at its very limit, which the sawtooth of batches
exceeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from rheostat.optimum.dynamic_program import (
    Grid,
    Problem,
    check_problem,
    drop_useless_numbers,
    follow_plan,
    group_numbers,
    search_forwards,
    trace_plan,
)
from rheostat.sim.capacity import CostParts

_PRECISION, _COARSE_PRECISION = 1e-3, 0.03
"""Of the cost; the second one where numbers are searched in groups."""
_COARSEST_S, _FINEST_S = 15.0, 0.25
"""Executor-seconds of a level."""
_CELLS = 1e8
"""States of all steps that are searched in acceptable time."""
_DIFFERENT_S = 300.0
"""Spread of the costs of a step's states, without start-ups, executor-seconds."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """The least cost, and a plan for it.

    Attributes:
        cost: executor-hours in total; no run of the job costs less.
        plan: executors from each decision on, ``step_s`` apart, the first one at second 0.
        step_s: time between two decisions.
        error_bound: executor-hours by which rounding may have lowered ``cost``; the exact least cost lies between
            ``cost`` and ``cost + error_bound``, the cost of the fluid that follows ``plan``.
        executor_hours, changes, violation_hours: of the fluid that follows ``plan``.
    """

    cost: float
    plan: tuple[int, ...]
    step_s: float
    error_bound: float
    executor_hours: float
    changes: int
    violation_hours: float

    @property
    def parts(self) -> CostParts:
        """What the fluid that follows the plan uses."""
        return CostParts(self.executor_hours, self.changes, self.violation_hours)

    @property
    def mean_executors(self) -> float:
        return sum(self.plan) / len(self.plan)


def optimum(problem: Problem) -> Optimum:
    """The optimum, its ``error_bound`` below 0.1 % of the cost.

    Levels are halved until it is, or until the search would take long: it may be 1 % for a load of minutes, and 3 % for
    more than 400 executors, whose numbers are searched in groups.

    Raises:
        ValueError: the problem is out of range.
    """
    check_problem(problem)
    problem = drop_useless_numbers(problem)
    # about the states of a step, times the executor-seconds of a level
    rows = len(group_numbers(problem))
    precision = _PRECISION if rows > problem.n_max - problem.n_min else _COARSE_PRECISION
    columns_s = rows * (_DIFFERENT_S + problem.start_up_s * (problem.n_max - problem.n_min))
    finest_s = max(_FINEST_S, columns_s * Grid(problem, _COARSEST_S).loaded / _CELLS)
    best = max(rate / n for n, rate in enumerate(problem.long_rate) if n)
    least_s = problem.load.cumulative(problem.load.duration) / best
    level_s = max(finest_s, min(_COARSEST_S, _PRECISION / 4 * least_s))
    while True:
        grid = Grid(problem, level_s)
        found = _solve(grid)
        if found.error_bound <= precision * found.cost or grid.level_s <= finest_s:
            return found
        level_s = grid.level_s / 2


def _solve(grid: Grid) -> Optimum:
    kept, ending = search_forwards(grid)
    plan = trace_plan(grid, kept, ending)
    parts, exact_s = follow_plan(grid, plan, ending)
    free_s = grid.problem.free_changes * grid.problem.change_s
    return Optimum(
        cost=max(0.0, ending.cost_s - free_s) / 3600,
        plan=tuple(plan[:: grid.per_decision]),
        step_s=grid.problem.step_s,
        error_bound=max(0.0, exact_s - ending.cost_s) / 3600,
        executor_hours=parts.executor_hours,
        changes=parts.changes,
        violation_hours=parts.violation_hours,
    )


def timetable(plan: Optimum, lead_s: float = 0.0) -> list[tuple[float, int]]:
    """A plan as ``(second since the first decision, executors)``, changes only; each increase ``lead_s`` earlier.

    >>> timetable(Optimum(1.0, (1, 1, 3, 2), 15.0, 0.0, 1.0, 2, 0.0), lead_s=15.0)
    [(0.0, 1), (15.0, 3), (45.0, 2)]
    """
    ahead = ceil(lead_s / plan.step_s)
    numbers = [max(plan.plan[index : index + ahead + 1]) for index in range(len(plan.plan))]
    changed = [index for index, number in enumerate(numbers) if index == 0 or number != numbers[index - 1]]
    return [(index * plan.step_s, numbers[index]) for index in changed]
