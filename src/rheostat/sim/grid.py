"""The clairvoyant problem cut into steps: what each of them brings, and what executors do in one."""

from __future__ import annotations

from math import ceil, floor

import numpy as np

from rheostat.load.curves import Pieces
from rheostat.sim.frontier import Floats, Prices, Step
from rheostat.sim.problem import Problem

__all__ = ["Grid"]

_SAMPLES = 8
_CHUNK = 1024
_ROUNDING = 1e-9
_TINY = 1e-9


class Grid:
    """The problem on its grid.

    Attributes:
        problem: the problem.
        per_decision: steps from one decision to the next, so many that none is longer than L.
        step_s: length of a step.
        loaded: steps until the load is over, the one in which it ends included.
        capacity, long_rate, slack: as in the problem, shape (N, 1); capacity > 0.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.per_decision = max(1, ceil(problem.step_s / problem.objective_s - _ROUNDING))
        self.step_s = problem.step_s / self.per_decision
        self.loaded = max(1, ceil(problem.load.duration / self.step_s - _ROUNDING))
        self.long_rate, self.slack = np.maximum(self._rows(problem.long_rate), _TINY), self._rows(problem.slack)
        self.capacity = np.maximum(self._rows(problem.capacity), _TINY)
        self._arrivals, self._limits, self._ageing = self._tabulated()
        self._chunk, self._tables = -1, tuple[Floats, ...]()

    def step(self, number: int) -> Step:
        """What a step brings; long after the load nothing arrives, and whatever waits is over the objective."""
        number = min(number, len(self._arrivals) - 1)
        if number // _CHUNK != self._chunk:
            self._chunk = number // _CHUNK
            self._tables = self._table(slice(self._chunk * _CHUNK, (self._chunk + 1) * _CHUNK))
        net, allowed, avoid, avoid_from, recover, recover_from = (table[number % _CHUNK] for table in self._tables)
        gain = self.long_rate - self.capacity
        return Step(
            seconds=self.step_s,
            net=net,
            allowed=allowed,
            gain=gain,
            avoid=avoid,
            avoid_from=avoid_from,
            recover=recover,
            recover_from=recover_from,
        )

    def arrivals_of(self, number: int) -> float:
        """Records that arrive in a step."""
        return float(self._arrivals[number]) if number < len(self._arrivals) else 0.0

    def decides(self, number: int) -> bool:
        """Whether a decision is made at the begin of a step."""
        return number % self.per_decision == 0

    def remaining_s(self, number: int) -> float:
        """Seconds of load from the begin of a step on."""
        return max(0.0, self.problem.load.duration - number * self.step_s)

    def quantum_s(self, wanted_s: float) -> float:
        """The largest whole part of a step that is no longer than ``wanted_s``."""
        return self.step_s / ceil(self.step_s / wanted_s - _ROUNDING)

    def prices(self, quantum_s: float) -> Prices:
        """Costs in levels of ``quantum_s`` executor-seconds, rounded down.

        An added executor is charged for the whole decision intervals of its start-up; see
        :mod:`rheostat.sim.optimum`, *start-up*.
        """
        problem = self.problem
        waits_s = floor(problem.start_up_s / problem.step_s + _ROUNDING) * problem.step_s
        return Prices(
            quantum_s=quantum_s,
            per_step=round(self.step_s / quantum_s),
            change=floor(problem.change_s / quantum_s + _ROUNDING),
            start_up=round(waits_s / quantum_s),
            weight=problem.weight / quantum_s,
            n_min=problem.n_min,
            carried=self._rows(problem.carried),
        )

    def _rows(self, values: tuple[float, ...]) -> Floats:
        return np.array(values[self.problem.n_min : self.problem.n_max + 1])[:, None]

    def _tabulated(self) -> tuple[Floats, Floats, Floats]:
        """Of each step: arrivals; the backlog at its begin of which nothing is older than L; the ageing.

        *Ageing*: the records/s that grow older than L. Within a step they are taken to do so evenly: A(t − L) follows
        its chord, lowered to where it lies nowhere above the true curve. So no time over the objective is found that
        is none.
        """
        load, objective_s = self.problem.load, self.problem.objective_s
        times = np.arange(self.loaded + ceil(objective_s / self.step_s) + 2, dtype=np.float64) * self.step_s
        offered, aged = _offered(load, times), _offered(load, times - objective_s)
        shares = np.arange(1, _SAMPLES) / _SAMPLES
        inside = _offered(load, times[:-1, None] + shares * self.step_s - objective_s)
        chord = aged[:-1, None] + shares * np.diff(aged)[:, None]
        lowered = np.maximum(chord - inside, 0.0).max(axis=1)
        return np.diff(offered), offered[:-1] - aged[:-1] + lowered, np.diff(aged) / self.step_s

    def _table(self, steps: slice) -> tuple[Floats, ...]:
        """The arrays of :class:`Step` for many steps, shape (steps, N, 1).

        Before the step g records too many wait (negative: so many fewer than allowed). With c the capacity, r the
        long-batch rate and a the ageing, g + (a − c)·h are too many at its end if nothing is over the objective; a
        second over it processes r − c records more. So

        * from above the limit it takes g ÷ (r − a) seconds to get below;
        * what would be too many at the end takes (g + (a − c)·h) ÷ (max(r, a) − c) seconds to avoid, or lasts as long.
        """
        h, capacity, rate = self.step_s, self.capacity, self.long_rate
        arrivals, limit, ageing = (each[steps, None, None] for each in (self._arrivals, self._limits, self._ageing))
        limit = limit + self.slack
        avoid = 1 / np.maximum(np.maximum(rate, ageing) - capacity, _TINY)
        avoid_from = avoid * ((ageing - capacity) * h - limit)
        surplus = rate - ageing
        recover = np.where(surplus > _TINY, 1 / np.maximum(surplus, _TINY), avoid)
        recover_from = np.where(surplus > _TINY, -recover * limit, avoid_from)
        allowed = limit - np.maximum(ageing - capacity, 0.0) * h
        return arrivals - capacity * h, allowed, avoid, avoid_from, recover, recover_from


def _offered(load: Pieces, seconds: Floats) -> Floats:
    """Records offered by each second: the integral of the load, for an array of any shape."""
    points = np.array(load.points)
    times, rates = points[:, 0], points[:, 1]
    sums = np.concatenate([[0.0], np.cumsum(np.diff(times) * (rates[:-1] + rates[1:]) / 2)])
    at = np.clip(seconds, 0.0, times[-1])
    piece = np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 2)
    width, inside = times[piece + 1] - times[piece], at - times[piece]
    share = np.divide(inside, width, out=np.zeros_like(at), where=width > 0)
    found: Floats = sums[piece] + inside * (2 * rates[piece] + share * (rates[piece + 1] - rates[piece])) / 2
    return found
