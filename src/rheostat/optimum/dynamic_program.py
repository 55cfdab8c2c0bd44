"""The dynamic program behind the clairvoyant optimum: for each number of executors and each cost, the least backlog.

:class:`Grid` cuts the problem into steps, :func:`search_forwards` goes through them, :func:`trace_plan` finds the plan.
Arrays have a row for each number of executors, from ``n_min`` on; in a large problem for a few that lie side by side,
which cost what the least of them costs and do what the greatest does. N rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from math import ceil, floor, inf

import numpy as np
from numpy.typing import NDArray

from rheostat.load.curves import Pieces
from rheostat.load.prepare import PiecesArray
from rheostat.sim.capacity import CostParts, batch_s, best_curve, capacity_curve, long_batch_rate
from rheostat.sim.events import CodeChange, CostDrift, DeadExecutor, Event, LostNode, SkewChange
from rheostat.sim.jobfile import JobFile

_LEAST_QUANTILE = 0.001
"""A log-normal duration has no least value; one start in a thousand is faster than this."""

_LEAST_POSITIVE = 1e-9

Curve = Sequence[float]


@dataclass(frozen=True, slots=True)
class Problem:
    """A job and its load, as :func:`~rheostat.optimum.optimum.optimum` sees them.

    Tuples over n have the numbers 0 … n_max; they ascend.

    Attributes:
        load: records/s.
        objective_s: L.
        step_s: from one decision to the next; the first one is at second 0.
        n_min, n_max, start: bounds, and the executors at second 0. Faults may take executors away below the least
            number of the job, so n_min is as many fewer, down to 0.
        capacity: records/s on n executors while the lag is within L.
        long_rate: records/s beyond it, ≥ capacity.
        carried: a change from n to n′ at the right moment within a batch gains up to ``|carried[n′] − carried[n]|``
            records.
        slack: records by which a run may be ahead of ``capacity`` at any time: its one batch.
        weight: executor-hours that an hour over the objective costs.
        change_s: executor-seconds that a change costs.
        start_up_s: seconds an added executor is paid for, at least, before it serves.
        free_changes: changes that cost nothing, since faults make them.
    """

    load: Pieces
    objective_s: float
    step_s: float
    n_min: int
    n_max: int
    start: int
    capacity: tuple[float, ...]
    long_rate: tuple[float, ...]
    carried: tuple[float, ...]
    slack: tuple[float, ...]
    weight: float
    change_s: float = 60.0
    start_up_s: float = 0.0
    free_changes: int = 0


def problem_of(job: JobFile, load: Pieces, start: int, weight: float) -> Problem:
    """The relaxation of a job, of whose events those count that could make it faster.

    See :mod:`rheostat.optimum.optimum` for why each figure is one. ``load`` is in records/s, ``start`` are the
    executors at second 0, ``weight`` is w, executors.
    """
    lost = sum(_lost_executors(job, event) for event in job.events)
    curves = [_upper_envelope(each) for each in zip(*map(_rates, _variants(job)), strict=True)]
    capacity, long_rate, carried, slack = curves
    return Problem(
        load=load,
        objective_s=job.objective_s,
        step_s=job.decide_every_s,
        n_min=max(0, job.n_min - lost),
        n_max=job.n_max,
        start=start,
        capacity=capacity,
        long_rate=long_rate,
        carried=carried,
        slack=slack,
        weight=weight,
        start_up_s=job.executor.start_up.quantile(_LEAST_QUANTILE),
        free_changes=2 * lost,
    )


def _lost_executors(job: JobFile, event: Event) -> int:
    """Executors that an event takes away, at most."""
    if isinstance(event, LostNode):
        return 0 if job.nodes is None else job.nodes.places[event.node]
    return int(isinstance(event, DeadExecutor))


def _rates(job: JobFile) -> tuple[Curve, Curve, Curve, Curve]:
    """``capacity``, ``long_rate``, ``carried`` and ``slack`` of a :class:`Problem`."""
    if job.record is not None and job.model == "record":
        curve = best_curve(job)
        interval = [rate * job.record.commit_every_s + job.partitions for rate in curve]
        return curve, curve, [0.0] * len(curve), interval
    curve = capacity_curve(job)
    long_rates = [long_batch_rate(job, n) for n in range(job.n_max + 1)]
    uncapped = job.model_copy(update={"batch_cap": None})
    idle = [_idle_records(job, n, rate, long_batch_rate(uncapped, n)) for n, rate in enumerate(curve)]
    slack = [_slack_records(job, n, records) for n, records in enumerate(idle)]
    return curve, long_rates, [records / 2 for records in idle], slack


def _idle_records(job: JobFile, executors: int, capacity: float, long_rate: float) -> float:
    """Records that n executors would process in the fixed part of a batch; ``long_rate``: without a cap."""
    if executors < 1 or capacity <= 0:
        return 0.0
    records = min(capacity * job.period_s, inf if job.batch_cap is None else float(job.batch_cap))
    return max(0.0, batch_s(job, records, executors) * long_rate - records)


def _slack_records(job: JobFile, executors: int, idle: float) -> float:
    """Records by which a run may be ahead of C(n): see the module of the optimum, *slack*."""
    cap = 0.0 if job.batch_cap is None or executors < 1 else float(job.batch_cap)
    waits = cap > 0 and batch_s(job, cap, executors) < job.trigger_s
    return (cap if waits else 2 * idle) + job.partitions


def _variants(job: JobFile) -> list[JobFile]:
    """The job with each version of its code, and with each skew of its partitions."""
    codes = [job]
    for event in sorted(job.events, key=lambda each: each.at_s):
        if isinstance(event, CodeChange | CostDrift):
            stage = event.stage if isinstance(event, CodeChange) else None
            codes.append(_change_cost(codes[-1], event.factor, stage))
    skews = [event.skew for event in job.events if isinstance(event, SkewChange)]
    updates = [{"partition_skew": skew, "partition_shares": None} for skew in skews]
    return [code.model_copy(update=update) for code in codes for update in ({}, *updates)]


def _change_cost(job: JobFile, factor: float, stage: str | None) -> JobFile:
    if job.record is not None:
        table = job.record.table and tuple((n, rate / factor) for n, rate in job.record.table)
        slower = {"alpha": job.record.alpha / factor, "gamma": job.record.gamma / factor, "table": table}
        return job.model_copy(update={"record": job.record.model_copy(update=slower)})
    stages = [
        each.model_copy(update={"cost_ms": each.cost_ms * factor}) if stage in {None, each.name} else each
        for each in job.stages
    ]
    return job.model_copy(update={"stages": tuple(stages)})


def _upper_envelope(curves: Sequence[Curve]) -> tuple[float, ...]:
    """For each n, the greatest value of all variants on at most n executors."""
    return tuple(accumulate((max(at_n) for at_n in zip(*curves, strict=True)), max))


def drop_useless_numbers(problem: Problem) -> Problem:
    """The problem without the numbers from which on more executors are no faster.

    A plan that never goes beyond the first of them costs less and does as much.
    """
    names = ("capacity", "long_rate", "carried", "slack")
    curves = {name: getattr(problem, name) for name in names}
    first = max(curve.index(curve[-1]) for curve in curves.values())
    most = max(first, problem.start, problem.n_min)
    if most >= problem.n_max:
        return problem
    return replace(problem, n_max=most, **{name: curve[: most + 1] for name, curve in curves.items()})


def check_problem(problem: Problem) -> None:
    """Raises ValueError where the problem is out of range; callers build it from checked job files and loads."""
    sound = 0 <= problem.n_min <= problem.start <= problem.n_max and 0 < problem.step_s < inf
    if not sound or problem.long_rate[problem.n_max] < _LEAST_POSITIVE:
        message = f"no run can end: executors {problem.n_min} .. {problem.n_max} from {problem.start}"
        raise ValueError(message)


# The dynamic program


_SAMPLES = 8
_ROUNDING = 1e-9
_TINY = 1e-9
_MOST_ROWS, _GROUP = 400, 0.02
"""More numbers of executors than this are searched in groups, each of so large a part of the number."""
_SINGLE = 1e-6
"""Relative error of backlogs that are kept in single precision."""

Floats = NDArray[np.float64]
_Levels = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the grid for each number of executors; arrays of shape (N, 1).

    Attributes:
        seconds: its length.
        gain: records/s that are processed more over the objective than within it.
        net: arrivals less the records that are processed within the objective.
        allowed: backlog at its begin up to which nothing in it is over the objective, records.
        avoid, avoid_from, recover, recover_from: seconds over the objective are the larger one of
            ``avoid · backlog + avoid_from`` and ``recover · backlog + recover_from``, within [0, seconds].
    """

    seconds: float
    gain: Floats
    net: Floats
    allowed: Floats
    avoid: Floats
    avoid_from: Floats
    recover: Floats
    recover_from: Floats

    def row(self, row: int) -> Step:
        own = {each.name: getattr(self, each.name)[row : row + 1] for each in fields(self) if each.name != "seconds"}
        return replace(self, **own)


def group_numbers(problem: Problem) -> list[int]:
    """The least number of each row: every one, and where these are too many, groups of 2 % of the number.

    >>> from rheostat.load.curves import constant
    >>> curve = tuple(map(float, range(2001)))
    >>> large = Problem(constant(1.0, 60.0), 60.0, 15.0, 1, 2000, 1, curve, curve, curve, curve, 1.0)
    >>> rows = group_numbers(large)
    >>> len(rows), rows[98:103], rows[-2:]
    (263, [99, 100, 102, 104, 106], [1932, 1970])
    """
    rows, number = [], problem.n_min
    coarse = problem.n_max - problem.n_min >= _MOST_ROWS
    while number <= problem.n_max:
        rows.append(number)
        number += max(1, int(number * _GROUP)) if coarse else 1
    return rows


class Grid:
    """The problem on its grid, with costs in levels of executor-seconds; grid are rounded down.

    Args:
        level_s: length of a level, executor-seconds, at most; a whole part of a step is taken.

    Attributes:
        numbers, tops: the least and the greatest number of executors of each row.
        per_decision: steps from one decision to the next, so many that none is longer than L.
        step_s, level_s: lengths of a step and of a level.
        loaded: steps until the load is over, the one in which it ends included.
        capacity, long_rate, slack, carried: as in the problem, shape (N, 1); capacity > 0.
        per_step, change, start_up: levels for one executor for one step, for a change, and for each executor added by
            it: the whole decision intervals of its start-up, see :mod:`rheostat.optimum.optimum`, *start-up*.
        weight: levels for a second over the objective, not rounded.
    """

    def __init__(self, problem: Problem, level_s: float) -> None:
        self.problem, self.numbers = problem, np.array(group_numbers(problem))
        self.tops = np.array([*(self.numbers[1:] - 1), problem.n_max])
        self.per_decision = max(1, ceil(problem.step_s / problem.objective_s - _ROUNDING))
        self.step_s = problem.step_s / self.per_decision
        self.loaded = max(1, ceil(problem.load.duration / self.step_s - _ROUNDING))
        self.long_rate, self.slack = np.maximum(self._rows(problem.long_rate), _TINY), self._rows(problem.slack)
        self.capacity, self.carried = np.maximum(self._rows(problem.capacity), _TINY), self._rows(problem.carried)
        self.per_step = ceil(self.step_s / level_s - _ROUNDING)
        self.level_s = self.step_s / self.per_step
        waits_s = floor(problem.start_up_s / problem.step_s + _ROUNDING) * problem.step_s
        self.change = floor(problem.change_s / self.level_s + _ROUNDING)
        self.start_up = round(waits_s / self.level_s)
        self.weight = problem.weight / self.level_s
        self._arrivals, self._limits, self._ageing = self._tabulate()

    def step(self, number: int) -> Step:
        """The arrivals and limits of a step; long after the load nothing arrives, and all backlog is too old.

        Before the step the backlog exceeds the limit by g records (negative: it is below). With c the capacity, r the
        long-batch rate and a the ageing, g + (a − c)·h are too many at its end if nothing is over the objective; a
        second over it processes r − c records more. So

        * from above the limit it takes g ÷ (r − a) seconds to get below;
        * what would be too many at the end takes (g + (a − c)·h) ÷ (max(r, a) − c) seconds to avoid, or lasts as long.
        """
        number = min(number, len(self._arrivals) - 1)
        ageing, limit = self._ageing[number], self._limits[number] + self.slack
        h, capacity, rate = self.step_s, self.capacity, self.long_rate
        avoid = 1 / np.maximum(np.maximum(rate, ageing) - capacity, _TINY)
        avoid_from = avoid * ((ageing - capacity) * h - limit)
        surplus = rate - ageing
        recover = np.where(surplus > _TINY, 1 / np.maximum(surplus, _TINY), avoid)
        return Step(
            seconds=h,
            gain=rate - capacity,
            net=self._arrivals[number] - capacity * h,
            allowed=limit - np.maximum(ageing - capacity, 0.0) * h,
            avoid=avoid,
            avoid_from=avoid_from,
            recover=recover,
            recover_from=np.where(surplus > _TINY, -recover * limit, avoid_from),
        )

    def row_of(self, executors: int) -> int:
        return int(np.searchsorted(self.numbers, executors, side="right")) - 1

    def arrivals_of(self, number: int) -> float:
        return float(self._arrivals[number]) if number < len(self._arrivals) else 0.0

    def decides(self, number: int) -> bool:
        return number % self.per_decision == 0

    def remaining_s(self, number: int) -> float:
        """Seconds of load from the begin of a step on."""
        return max(0.0, self.problem.load.duration - number * self.step_s)

    def _rows(self, values: tuple[float, ...]) -> Floats:
        rows: Floats = np.array(values)[self.tops][:, None]
        return rows

    def _tabulate(self) -> tuple[Floats, Floats, Floats]:
        """Of each step: arrivals; the backlog at its begin of which nothing is older than L; the ageing.

        *Ageing*: the records/s that grow older than L. Within a step they are taken to do so evenly: A(t − L) follows
        its chord, lowered to where it lies nowhere above the true curve. So no time over the objective is found that
        is none.
        """
        load, objective_s = self.problem.load, self.problem.objective_s
        times = np.arange(self.loaded + ceil(objective_s / self.step_s) + 2, dtype=np.float64) * self.step_s
        offer = PiecesArray(load).cumulative
        offered, aged = offer(times), offer(times - objective_s)
        shares = np.arange(1, _SAMPLES) / _SAMPLES
        inside = offer(times[:-1, None] + shares * self.step_s - objective_s)
        chord = aged[:-1, None] + shares * np.diff(aged)[:, None]
        lowered = np.maximum(chord - inside, 0.0).max(axis=1)
        return np.diff(offered), offered[:-1] - aged[:-1] + lowered, np.diff(aged) / self.step_s


# One decision and one step: how they change the frontier


@dataclass(frozen=True, slots=True)
class Frontier:
    """Least backlogs by executors (rows) and cost (columns); ``base`` is the level of the first column."""

    base: int
    least: Floats

    def cut(self) -> Frontier:
        """Remove columns that no state needs. In the last column every row must be finite."""
        least = self.least
        totals = least.sum(axis=0)
        last = int(np.count_nonzero(totals > totals[-1]))
        first = 0 if least[:, 0].min() < np.inf else int(np.argmax(least.min(axis=0) < np.inf))
        return Frontier(self.base + first, least[:, first : last + 1].copy())


def decide(before: Frontier, grid: Grid) -> Frontier:
    """After the decision: the best of staying and of every change.

    A change from n to n′ gains |c(n′) − c(n)| records, c ascending: ``min over n of X(n) − |c(n′) − c(n)|`` is the
    smaller one of ``min(X − c) + c(n′)`` over n ≥ n′ and ``min(X + c) − c(n′)`` over n ≤ n′, where each executor more
    moves a state by ``start_up`` columns.
    """
    old, carried, start_up = before.least, grid.carried, grid.start_up
    width = old.shape[1]
    apart = start_up * np.diff(grid.numbers)
    least = _extend(old, width + grid.change + int(apart.sum()))
    fewer = np.minimum.accumulate((old - carried)[::-1], axis=0)[::-1] + carried
    more = _extend(old + carried, width + int(apart.sum()))
    for row, columns in enumerate(apart, start=1):
        np.minimum(more[row, columns:], more[row - 1, : more.shape[1] - columns], out=more[row, columns:])
    changed = least[:, grid.change :]
    np.minimum(changed, _extend(fewer, more.shape[1]), out=changed)
    np.minimum(changed, more - carried, out=changed)
    return Frontier(before.base, np.maximum(least, 0.0)).cut()


def _extend(least: Floats, width: int) -> Floats:
    """Repeat the last column up to a width."""
    wide = np.empty((len(least), width))
    wide[:, : least.shape[1]] = least
    wide[:, least.shape[1] :] = least[:, -1:]
    return wide


def violations(least: Floats, step: Step) -> Floats:
    """Seconds of the step over the objective, of each state; see :class:`Step`."""
    seconds = np.maximum(least * step.avoid + step.avoid_from, least * step.recover + step.recover_from)
    return np.clip(seconds, 0.0, step.seconds)


def _advance(least: Floats, step: Step, weight: float) -> tuple[Floats, _Levels]:
    """Each backlog after a step, and the levels that its time over the objective costs, rounded down."""
    seconds = violations(least, step)
    left = np.maximum(least + step.net - step.gain * seconds, 0.0)
    return left, (weight * seconds).astype(np.intp)


def serve(after: Frontier, step: Step, grid: Grid) -> Frontier:
    least = after.least
    rows, width = least.shape
    late = int(np.count_nonzero((least - step.allowed).max(axis=0) > 0))
    most = int(grid.weight * step.seconds) + 1 if late else 0
    paid = grid.per_step * (grid.numbers - grid.numbers[0])
    later = np.full((rows, width + int(paid[-1]) + most), inf)
    over, levels = _advance(least[:, :late], step, grid.weight)
    within = np.maximum(least[:, late:] + step.net, 0.0)
    np.minimum.at(later, (np.arange(rows)[:, None], paid[:, None] + np.arange(late) + levels), over)
    for row, first in enumerate(paid):
        own = later[row, first + late : first + width]
        np.minimum(own, within[row], out=own)
    np.minimum.accumulate(later, axis=1, out=later)
    return Frontier(after.base + int(grid.numbers[0]) * grid.per_step, later).cut()


# Forwards over the grid, and back along the best plan


@dataclass(frozen=True, slots=True)
class Ending:
    """An end of the run: the step, the state after its decision, seconds since its begin, and the total cost."""

    step: int = 0
    row: int = 0
    level: int = 0
    seconds: float = 0.0
    cost_s: float = inf


@dataclass(slots=True)
class Kept:
    """The frontiers before the decision, every ``apart`` steps: all of them, or as many as ``most`` bytes hold.

    In single precision: they serve to find a plan, whose cost is then computed from the plan.
    """

    most: int = 128 * 2**20
    apart: int = 1
    size: int = 0
    frontiers: list[tuple[int, NDArray[np.float32]]] = field(default_factory=list)

    def add(self, number: int, frontier: Frontier) -> None:
        """Keep the frontier of every ``apart``-th step."""
        if number % self.apart:
            return
        self.frontiers.append((frontier.base, frontier.least.astype(np.float32)))
        self.size += self.frontiers[-1][1].nbytes
        if self.size > self.most:
            self.apart *= 2
            self.frontiers = self.frontiers[::2]
            self.size = sum(least.nbytes for _, least in self.frontiers)

    def before(self, number: int) -> Frontier:
        """The last frontier that was kept up to a step."""
        base, least = self.frontiers[number // self.apart]
        return Frontier(base, least.astype(np.float64))


def search_forwards(grid: Grid, kept: Kept | None = None) -> tuple[Kept, Ending]:
    """The frontiers, and the cheapest ending."""
    kept = Kept() if kept is None else kept
    least = np.full((len(grid.numbers), 1), np.inf)
    least[grid.row_of(grid.problem.start), 0] = 0.0
    frontier, ending, number = Frontier(0, least), Ending(), 0
    while ending.cost_s > frontier.base * grid.level_s:
        kept.add(number, frontier)
        after = decide(frontier, grid) if grid.decides(number) else frontier
        if number + 1 >= grid.loaded:
            ending = min(ending, _find_ending(grid, number, after), key=lambda each: each.cost_s)
        frontier = serve(after, grid.step(number), grid)
        number += 1
    return kept, ending


def _find_ending(grid: Grid, number: int, after: Frontier) -> Ending:
    """The cheapest way to have the load over and everything processed within this step."""
    least, step = after.least, grid.step(number)
    over = violations(least, step)
    left = np.maximum(least + grid.arrivals_of(number) - grid.slack, 0.0)
    takes = np.maximum(left / grid.long_rate, (left - step.gain * over) / grid.capacity)
    seconds = np.maximum(takes, grid.remaining_s(number))
    ends = seconds <= grid.step_s * (1 + _ROUNDING)
    over = np.minimum(over, seconds)
    numbers = grid.numbers[:, None]
    levels = after.base + np.arange(least.shape[1])
    # A state that cannot be reached takes for ever, and 0 executors × infinity is not a number.
    paid_s = numbers * np.where(ends, seconds, 0.0)
    costs_s = np.where(ends, (levels + grid.weight * over) * grid.level_s + paid_s, inf)
    row, column = (int(place) for place in np.unravel_index(int(np.argmin(costs_s)), costs_s.shape))
    return Ending(number, row, after.base + column, float(seconds[row, column]), float(costs_s[row, column]))


def trace_plan(grid: Grid, kept: Kept, ending: Ending) -> list[int]:
    """Executors after the decision in each step of the best plan: the greatest number of each row, which does it."""
    rows, row, level = [ending.row], ending.row, ending.level
    later: Frontier | None = None
    for number, before in _backwards(grid, kept, ending.step):
        if later is not None:
            same = _level_without_change(before, later, row, level, grid.step(number), grid)
            if same is not None and grid.decides(number):
                level, later = same, before
                rows.append(row)
                continue
            after = decide(before, grid) if grid.decides(number) else before
            level = _state_before_step(after, row, level, grid.step(number), grid)
            rows.append(row)
        if grid.decides(number):
            row, level = _state_before_decision(before, row, level, grid)
        later = before
    return [int(grid.tops[each]) for each in reversed(rows)]


def _backwards(grid: Grid, kept: Kept, last: int) -> Iterator[tuple[int, Frontier]]:
    """The frontier before each step's decision, from ``last`` to 0; those that were not kept are computed again."""
    for place in reversed(range(last // kept.apart + 1)):
        first = place * kept.apart
        made = [kept.before(first)]
        for number in range(first, min(last, first + kept.apart - 1)):
            after = decide(made[-1], grid) if grid.decides(number) else made[-1]
            made.append(serve(after, grid.step(number), grid))
        yield from ((first + more, made[more]) for more in reversed(range(len(made))))


def _level_without_change(
    before: Frontier, later: Frontier, row: int, level: int, step: Step, grid: Grid
) -> int | None:
    """The level before the step, if this row was reached by staying and inside the objective; None: perhaps not."""
    was = level - int(grid.numbers[row]) * grid.per_step
    if was < before.base:
        return None
    backlog = before.least[row, min(was - before.base, before.least.shape[1] - 1)]
    left = max(0.0, backlog + step.net[row, 0])
    is_now = later.least[row, min(level - later.base, later.least.shape[1] - 1)]
    return was if backlog <= step.allowed[row, 0] and left <= is_now + _SINGLE * max(1.0, is_now) else None


def _state_before_step(after: Frontier, row: int, level: int, step: Step, grid: Grid) -> int:
    """The level before a step from which this level, or a lower one, was reached with the least backlog."""
    left, over = _advance(after.least[row : row + 1], step.row(row), grid.weight)
    reached = after.base + np.arange(left.shape[1]) + int(grid.numbers[row]) * grid.per_step + over[0]
    return after.base + int(np.argmin(np.where(reached <= level, left[0], inf)))


def _state_before_decision(before: Frontier, row: int, level: int, grid: Grid) -> tuple[int, int]:
    width = before.least.shape[1]
    rows = np.arange(len(before.least))
    added = np.maximum(grid.numbers[row] - grid.numbers, 0)
    price = np.where(rows == row, 0, grid.change + grid.start_up * added)
    places = level - before.base - price
    gained = np.abs(grid.carried[row, 0] - grid.carried[:, 0])
    backlog = np.maximum(before.least[rows, np.clip(places, 0, width - 1)] - gained, 0.0)
    backlog = np.where(places >= 0, backlog, inf)
    best = backlog.min()
    origin = row if backlog[row] <= best + _SINGLE * max(1.0, best) else int(np.argmin(backlog))
    return origin, before.base + min(int(places[origin]), width - 1)


def follow_plan(grid: Grid, plan: list[int], ending: Ending) -> tuple[CostParts, float]:
    """What the fluid that follows a plan uses, and its cost without rounding, executor-seconds."""
    problem, waits_s = grid.problem, grid.start_up * grid.level_s
    paid_s = over_s = backlog = 0.0
    changes, before = 0, problem.start
    for number, now in enumerate(plan):
        backlog = max(0.0, backlog - abs(problem.carried[now] - problem.carried[before]))
        row, step = grid.row_of(now), grid.step(number)
        lasts_s = ending.seconds if number == ending.step else grid.step_s
        late = backlog > step.allowed[row, 0]
        over = float(violations(np.array([[backlog]]), step.row(row))[0, 0]) if late else 0.0
        over_s += min(over, lasts_s)
        paid_s += now * lasts_s + waits_s * max(0, now - before)
        changes += now != before
        backlog = max(0.0, backlog + float(step.net[row, 0]) - float(step.gain[row, 0]) * over)
        before = now
    parts = CostParts(paid_s / 3600, changes, over_s / 3600)
    return parts, paid_s + problem.change_s * changes + problem.weight * over_s
