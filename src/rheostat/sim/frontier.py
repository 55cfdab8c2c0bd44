"""The dynamic program behind the clairvoyant optimum: for each number of executors and each cost, the least backlog.

A frontier is an array X[i, j] ≥ 0: the least backlog (records) with n_min + i executors when (base + j) · quantum
executor-seconds have been paid. Along j it never ascends. A step of the grid is two moves:

* *decide*: stay, or change the number for ``change`` levels, and ``start_up`` levels for each executor added;
* *serve*: pay n executors for the step, add the arrivals, take away what n executors process, pay for the time over the
  objective.

Beyond the column from which on no row has less backlog, a state costs more than another one and is no better: those
columns are cut off. So the width is what distinguishes plans, a few dozen columns, and not what has been paid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Frontier", "Prices", "Step", "decide", "moved", "serve", "violations"]

Floats = NDArray[np.float64]
_Levels = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Prices:
    """What things cost, in levels of ``quantum_s`` executor-seconds.

    Attributes:
        per_step: one executor for one step.
        change, start_up: a change, and each executor added by it.
        weight: a second over the objective.
        n_min: executors of the first row.
        carried: as in :class:`~rheostat.sim.problem.Problem`, records, shape (N, 1).
    """

    quantum_s: float
    per_step: int
    change: int
    start_up: int
    weight: float
    n_min: int
    carried: Floats


@dataclass(frozen=True, slots=True)
class Step:
    """What one step of the grid brings to each number of executors; arrays of shape (N, 1).

    Attributes:
        seconds: its length.
        net: arrivals less what is processed within the objective, records.
        allowed: backlog at its begin up to which nothing in it is over the objective, records.
        gain: what a second over the objective processes more, records/s.
        avoid, avoid_from, recover, recover_from: seconds over the objective are the larger one of
            ``avoid · backlog + avoid_from`` and ``recover · backlog + recover_from``, within [0, seconds].
    """

    seconds: float
    net: Floats
    allowed: Floats
    gain: Floats
    avoid: Floats
    avoid_from: Floats
    recover: Floats
    recover_from: Floats


@dataclass(frozen=True, slots=True)
class Frontier:
    """Least backlogs, and the level of the first column."""

    base: int
    least: Floats

    def cut(self) -> Frontier:
        """Without the columns that no state needs. In the last column every row must be finite."""
        least = self.least
        totals = least.sum(axis=0)
        last = int(np.count_nonzero(totals > totals[-1]))
        first = 0 if least[:, 0].min() < np.inf else int(np.argmax(least.min(axis=0) < np.inf))
        return Frontier(self.base + first, least[:, first : last + 1].copy())


def decide(before: Frontier, prices: Prices) -> Frontier:
    """After the decision: the best of staying and of every change.

    A change from n to n′ gains |c(n′) − c(n)| records, c ascending. ``min over n of X(n) − |c(n′) − c(n)|`` is the
    smaller one of ``min(X + c) − c(n′)`` and ``min(X − c) + c(n′)``, over all n where both directions cost the same.
    """
    old, carried = before.least, prices.carried
    rows, width = old.shape
    wide = width + prices.change + prices.start_up * (rows - 1)
    least = np.empty((rows, wide))
    least[:, :width] = old
    least[:, width:] = old[:, -1:]
    changed = least[:, prices.change :]
    if prices.start_up:
        near = changed[:, :width]
        np.minimum(near, _least_from_above(old - carried) + carried, out=near)
        np.minimum(changed[:, width:], near[:, -1:], out=changed[:, width:])
        np.minimum(changed, _least_from_below(old + carried, prices.start_up) - carried, out=changed)
    else:
        np.minimum(changed, (old + carried).min(axis=0) - carried, out=changed)
        np.minimum(changed, (old - carried).min(axis=0) + carried, out=changed)
    np.maximum(least, 0.0, out=least)
    after = Frontier(before.base, least)
    return after.cut() if prices.start_up else after


def _least_from_above(least: Floats) -> Floats:
    """In each row the least of it and all rows after it. Changes its argument."""
    reach = 1
    while reach < len(least):
        np.minimum(least[:-reach], least[reach:], out=least[:-reach])
        reach *= 2
    return least


def _least_from_below(least: Floats, start_up: int) -> Floats:
    """In each row the least of it and all rows before it, each row moving a state by ``start_up`` columns."""
    rows, width = least.shape
    wide = np.empty((rows, width + start_up * (rows - 1)))
    wide[:, :width] = least
    wide[:, width:] = least[:, -1:]
    for row in range(1, rows):
        own = wide[row, start_up:]
        np.minimum(own, wide[row - 1, :-start_up], out=own)
    return wide


def _room(rows: int, columns: int, by: int, width: int, first: int = 0) -> tuple[Floats, Floats]:
    """An empty array, and a view on it whose row i begins at column ``first + by · i`` and is ``width`` long."""
    flat = np.full(rows * (columns + by) + first, np.inf)
    room = flat[: rows * columns].reshape(rows, columns)
    return room, flat[first : first + rows * (columns + by)].reshape(rows, columns + by)[:, :width]


def violations(least: Floats, step: Step) -> Floats:
    """Seconds of the step over the objective, of each state; see :class:`Step`."""
    seconds = least * step.avoid
    seconds += step.avoid_from
    other = least * step.recover
    other += step.recover_from
    np.maximum(seconds, other, out=seconds)
    np.maximum(seconds, 0.0, out=seconds)
    return np.minimum(seconds, step.seconds, out=seconds)


def moved(least: Floats, step: Step, weight: float) -> tuple[Floats, _Levels]:
    """What is left of each backlog after a step; the levels that its time over the objective costs, rounded down."""
    seconds = violations(least, step)
    left = least + step.net
    left -= step.gain * seconds
    seconds *= weight
    return np.maximum(left, 0.0, out=left), seconds.astype(np.intp)


def serve(after: Frontier, step: Step, prices: Prices) -> Frontier:
    """One step later."""
    least = after.least
    rows, width = least.shape
    over = (least - step.allowed).max(axis=0)
    bad = int(np.count_nonzero(over > 0))
    most = int(prices.weight * step.seconds) + 1 if bad else 0
    later, rest = _room(rows, width + prices.per_step * (rows - 1) + most, prices.per_step, width - bad, bad)
    if bad:
        left, levels = moved(least[:, :bad], step, prices.weight)
        levels += _places(rows, bad, later.shape[1] + prices.per_step)
        np.minimum.at(later.reshape(-1), levels.reshape(-1), left.reshape(-1))
    left = least[:, bad:] + step.net
    np.maximum(left, 0.0, out=left)
    np.minimum(rest, left, out=rest)
    np.minimum.accumulate(later, axis=1, out=later)
    return Frontier(after.base + prices.n_min * prices.per_step, later).cut()


def _places(rows: int, width: int, apart: int) -> _Levels:
    return np.arange(0, rows * apart, apart, dtype=np.intp)[:, None] + np.arange(width, dtype=np.intp)
