"""The dynamic program run forwards over the grid, and its best way traced back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from rheostat.sim.cost import CostParts
from rheostat.sim.frontier import Frontier, Prices, Step, decide, moved, serve, violations
from rheostat.sim.grid import Grid

__all__ = ["Ending", "Kept", "followed", "forwards", "traced"]

_ROUNDING = 1e-9
_SINGLE = 1e-6


@dataclass(frozen=True, slots=True)
class Ending:
    """A way to end: in this step, after its decision in this state, so long after its begin, at this cost."""

    step: int = 0
    row: int = 0
    level: int = 0
    seconds: float = 0.0
    cost_s: float = inf


@dataclass(slots=True)
class Kept:
    """The frontiers before the decision, every ``apart`` steps: all of them, or as many as ``most`` bytes hold.

    In single precision. They serve to find a plan, whose cost is then worked out anew.
    """

    most: int = 128 * 2**20
    apart: int = 1
    size: int = 0
    frontiers: list[tuple[int, NDArray[np.float32]]] = field(default_factory=list)

    def add(self, number: int, frontier: Frontier) -> None:
        """Keep the frontier of a step, if its turn is."""
        if number % self.apart:
            return
        self.frontiers.append((frontier.base, frontier.least.astype(np.float32)))
        self.size += self.frontiers[-1][1].nbytes
        if self.size > self.most:
            self.apart *= 2
            self.frontiers = self.frontiers[::2]
            self.size = sum(least.nbytes for _, least in self.frontiers)

    def before(self, number: int) -> Frontier:
        """The last frontier that was kept, up to a step."""
        base, least = self.frontiers[number // self.apart]
        return Frontier(base, least.astype(np.float64))


def forwards(grid: Grid, prices: Prices, kept: Kept | None = None) -> tuple[Kept, Ending]:
    """The frontiers, and the cheapest ending. ``kept``: where the frontiers are put."""
    problem, kept = grid.problem, Kept() if kept is None else kept
    least = np.full((problem.n_max - problem.n_min + 1, 1), np.inf)
    least[problem.start - problem.n_min, 0] = 0.0
    frontier, ending, number = Frontier(0, least), Ending(), 0
    while ending.cost_s > frontier.base * prices.quantum_s:
        kept.add(number, frontier)
        after = decide(frontier, prices) if grid.decides(number) else frontier
        if number + 1 >= grid.loaded:
            ending = min(ending, _ending(grid, prices, number, after), key=lambda each: each.cost_s)
        frontier = serve(after, grid.step(number), prices)
        number += 1
    return kept, ending


def _ending(grid: Grid, prices: Prices, number: int, after: Frontier) -> Ending:
    """The cheapest way to have the load over and everything processed within this step."""
    least, step = after.least, grid.step(number)
    over = violations(least, step)
    left = np.maximum(least + grid.arrivals_of(number) - grid.slack, 0.0)
    takes = np.maximum(left / grid.long_rate, (left - step.gain * over) / grid.capacity)
    seconds = np.maximum(takes, grid.remaining_s(number))
    over = np.minimum(over, seconds)
    numbers = prices.n_min + np.arange(len(least))[:, None]
    levels = after.base + np.arange(least.shape[1])
    costs_s = (levels + prices.weight * over) * prices.quantum_s + numbers * seconds
    costs_s = np.where(seconds <= grid.step_s * (1 + _ROUNDING), costs_s, inf)
    row, column = (int(place) for place in np.unravel_index(int(np.argmin(costs_s)), costs_s.shape))
    return Ending(number, row, after.base + column, float(seconds[row, column]), float(costs_s[row, column]))


def traced(grid: Grid, prices: Prices, kept: Kept, ending: Ending) -> list[int]:
    """Executors after the decision in each step of the best way."""
    rows, row, level = [ending.row], ending.row, ending.level
    later: Frontier | None = None
    for number, before in _backwards(grid, prices, kept, ending.step):
        if later is not None:
            same = _without_change(before, later, row, level, grid.step(number), prices)
            if same is not None and grid.decides(number):
                level, later = same, before
                rows.append(row)
                continue
            after = decide(before, prices) if grid.decides(number) else before
            level = _served_from(after, row, level, grid.step(number), prices)
            rows.append(row)
        if grid.decides(number):
            row, level = _decided_from(before, row, level, prices)
        later = before
    return [prices.n_min + each for each in reversed(rows)]


def _backwards(grid: Grid, prices: Prices, kept: Kept, last: int) -> Iterator[tuple[int, Frontier]]:
    """The frontier before each step's decision, from ``last`` to 0; those that were not kept are made again."""
    for place in reversed(range(last // kept.apart + 1)):
        first = place * kept.apart
        made = [kept.before(first)]
        for number in range(first, min(last, first + kept.apart - 1)):
            after = decide(made[-1], prices) if grid.decides(number) else made[-1]
            made.append(serve(after, grid.step(number), prices))
        yield from ((first + more, made[more]) for more in reversed(range(len(made))))


def _without_change(before: Frontier, later: Frontier, row: int, level: int, step: Step, prices: Prices) -> int | None:
    """The level before the step, if this row was reached by staying and inside the objective; None: perhaps not."""
    was = level - (prices.n_min + row) * prices.per_step
    if was < before.base:
        return None
    backlog = before.least[row, min(was - before.base, before.least.shape[1] - 1)]
    left = max(0.0, backlog + step.net[row, 0])
    is_now = later.least[row, min(level - later.base, later.least.shape[1] - 1)]
    return was if backlog <= step.allowed[row, 0] and left <= is_now + _SINGLE * max(1.0, is_now) else None


def _served_from(after: Frontier, row: int, level: int, step: Step, prices: Prices) -> int:
    """The level before a step from which this level, or a lower one, was reached with the least backlog."""
    left, over = moved(after.least[row : row + 1], _only(step, row), prices.weight)
    reached = after.base + np.arange(left.shape[1]) + (prices.n_min + row) * prices.per_step + over[0]
    return after.base + int(np.argmin(np.where(reached <= level, left[0], inf)))


def _decided_from(before: Frontier, row: int, level: int, prices: Prices) -> tuple[int, int]:
    """The state before a decision from which this one was reached."""
    width = before.least.shape[1]
    rows = np.arange(len(before.least))
    price = np.where(rows == row, 0, prices.change + prices.start_up * np.maximum(row - rows, 0))
    places = level - before.base - price
    gained = np.abs(prices.carried[row, 0] - prices.carried[:, 0])
    backlog = np.maximum(before.least[rows, np.clip(places, 0, width - 1)] - gained, 0.0)
    backlog = np.where(places >= 0, backlog, inf)
    best = backlog.min()
    origin = row if backlog[row] <= best + _SINGLE * max(1.0, best) else int(np.argmin(backlog))
    return origin, before.base + min(int(places[origin]), width - 1)


def followed(grid: Grid, prices: Prices, plan: list[int], ending: Ending) -> tuple[CostParts, float]:
    """What the fluid that follows a plan uses, and what it costs without rounding, in executor-seconds."""
    problem, waits_s = grid.problem, prices.start_up * prices.quantum_s
    paid_s = over_s = backlog = 0.0
    changes, before = 0, problem.start
    for number, now in enumerate(plan):
        backlog = max(0.0, backlog - abs(problem.carried[now] - problem.carried[before]))
        row, step = now - problem.n_min, grid.step(number)
        lasts_s = ending.seconds if number == ending.step else grid.step_s
        over = 0.0
        if backlog > step.allowed[row, 0]:
            over = float(violations(np.array([[backlog]]), _only(step, row))[0, 0])
        over_s += min(over, lasts_s)
        paid_s += now * lasts_s + waits_s * max(0, now - before)
        changes += now != before
        backlog = max(0.0, backlog + float(step.net[row, 0]) - float(step.gain[row, 0]) * over)
        before = now
    parts = CostParts(paid_s / 3600, changes, over_s / 3600)
    return parts, paid_s + problem.change_s * changes + problem.weight * over_s


def _only(step: Step, row: int) -> Step:
    """The step for one row."""
    own = {name: getattr(step, name)[row : row + 1] for name in Step.__slots__ if name != "seconds"}
    return replace(step, **own)
