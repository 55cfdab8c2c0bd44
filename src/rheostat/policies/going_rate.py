"""What the present load costs per second at best, and what each number of executors is worth beside that [ours].

A number that is too low for the load lasts until its batches have grown as long as the lag allows; a higher one then
makes them short again. One such cycle at the cheapest pair of numbers costs c* executors on average, the *going rate*:

    c* = min (lo · T1 + hi · T2 + (hi − lo) · (D + cold) + changes + w · lateness) ÷ (T1 + T2)

T1 is how long ``lo`` lasts, T2 how long ``hi`` is kept, reckoned as two minutes at least; D is the median start-up, and
cold what executors that join add to a batch.
Where a load needs 4.3 executors, five all the time may be cheapest, or four and six by turns.

Every option is then priced by what it costs beyond c*, in executor-seconds, until it leads into the next cycle: the
relative values of an average-cost decision problem (Howard, 1960). So waiting, going down, and going up by more can be
compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from rheostat.learn.batch_cost import Costs

CHANGE = 60.0
"""Price of a change, executor-seconds: that of docs/judging.md."""
_EXTRA = 60.0
"""What a cycle costs beside its changes: cold batches, buffers half used. Executor-seconds."""
_LONGEST_S = 600.0
"""Beyond that a load is another one."""
_LEAST_KEPT_S, _LONGEST_HIGH_S = 120.0, 3600.0
"""How long a high number is reckoned to be kept: a load that needs it for a moment soon needs it again."""
_NOISES = ((0.0, 0.5), (0.32, 0.25), (1.15, 0.25))
"""Deviations of the load, with weights. A fall is no merit of the low number: at the high one a decrease follows it."""
_BELOW, _ABOVE, _HIGHER = 4, 2, 6
_GRAIN = 16
_MOST_LOOKED = 4096


class Load(NamedTuple):
    """The load that is priced.

    Attributes:
        rate: records/s.
        deviation: of ln(rate), as it is known now.
        wander: of the rate after a second, records/s; grows with the root of time.
        lasts_s: mean time until the load jumps; None: unknown.
        burst: rate that works the next burst off in time, records/s.
        ramp, ramp_s: by how much it grows, records/s², and for how long that is believed, s.
        kept_share: how long low numbers have lasted ÷ how long they should have, ≤ 1.
    """

    rate: float
    deviation: float
    wander: float
    lasts_s: float | None = None
    burst: float = 0.0
    ramp: float = 0.0
    ramp_s: float = 0.0
    kept_share: float = 1.0


class Terms(NamedTuple):
    """What a change takes, and what the objective allows.

    Attributes:
        period_s: τ, the time that a batch may take.
        sample_s: time between two decisions; start_up_s: D.
        weight: w, executors that a second over the objective costs.
        most, fewest: executors that are allowed; ``most`` None: unknown.
        step_up: most executors that one increase may add; None: no limit.
        pause_up_s: least time between two increases; locked_s: until the next one may be.
    """

    period_s: float
    trigger_s: float
    sample_s: float
    start_up_s: float
    weight: float
    most: int | None = None
    fewest: int = 1
    step_up: int | None = None
    pause_up_s: float = 0.0
    locked_s: float = 0.0


class GoingRate:
    """Prices of one decision.

    Attributes:
        least: the number that the next burst needs: fewer are no option.
        first: the least number that carries the load.
        cost: c*, executors; ``low``, ``high``: the pair of numbers of that cycle.
    """

    def __init__(self, costs: Costs, load: Load, terms: Terms) -> None:
        self._costs, self._load, self._terms = costs, load, terms
        self._capacities: dict[int, float] = {}
        self.least = max(terms.fewest, self.least_for(load.burst) if load.burst else 1)
        self.first = max(self.least, self.least_for(load.rate))
        self.cost, self.low, self.high = self._find_cycle()

    def carries(self, executors: int) -> float:
        """Records/s that batches of τ work off."""
        known = self._capacities.get(executors)
        if known is None:
            known = self._capacities[executors] = self.carries_in(executors, self._terms.period_s)
        return known

    def carries_in(self, executors: int, batch_s: float) -> float:
        """Records/s that batches of that length work off."""
        return self._costs.capacity(executors, batch_s, self._terms.trigger_s)

    def least_for(self, rate: float) -> int:
        """The least number that carries a rate; where none does, the least that carries as much as twice as many."""
        most, high = min(self._terms.most or _MOST_LOOKED, _MOST_LOOKED), 1
        while high < most and self.carries(high) < rate:
            more = min(2 * high, most)
            if self.carries(more) <= self.carries(high):
                break
            high = more
        low, rate = 0, min(rate, self.carries(high))
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.carries(middle) >= rate else (middle, high)
        return high

    def helps(self, executors: int) -> bool:
        """Whether so many carry more than one fewer: waves of tasks make some numbers useless."""
        return executors <= max(1, self.least) or self.carries(executors) > self.carries(executors - 1) * (1 + 1e-9)

    def numbers_from(self, first: int, last: int) -> Iterator[int]:
        """Numbers worth a look, ascending: all of a few, of many those that differ by a sixteenth."""
        number = max(1, first)
        while number <= last and (self._terms.most is None or number <= self._terms.most):
            if self.helps(number):
                yield number
                number += max(1, number // _GRAIN)
            else:
                number += 1

    # ------------------------------------------------------------------------------------------- a cycle

    def steady_s(self, executors: int) -> float:
        """Length of the batches that follow one another while so many carry the load; the trigger if they do not."""
        period_s, trigger_s = self._terms.period_s, self._terms.trigger_s
        if self.carries(executors) < self._load.rate:
            return trigger_s
        fixed_s, record_s = self._costs.batch(executors)
        used = self._load.rate * record_s
        length_s = fixed_s / (1 - used) if used < 1 else math.inf
        return max(trigger_s, length_s if length_s < period_s else 0.0)

    def lasts_s(self, executors: int, batch_s: float) -> float:
        """T1: how long so many last, until their batches have grown from ``batch_s`` to τ."""
        period_s, rate = self._terms.period_s, self._load.rate
        room = rate * (period_s - batch_s)
        longest_s = _LONGEST_S if self._load.lasts_s is None else min(_LONGEST_S, self._load.lasts_s)
        if batch_s >= period_s:
            return 0.0
        capacity = self.carries(executors)
        if capacity < rate:
            capacity = (capacity + self.carries_in(executors, 0.65 * period_s)) / 2
        mean_s = 0.0
        for z, weight in _NOISES:
            growth = rate - capacity + z * 0.5 * rate * self._load.deviation
            mean_s += weight * self._passage_s(growth, z * self._load.wander * 2 / 3, room, longest_s)
        return mean_s * self._load.kept_share

    def is_kept(self, executors: int, batch_s: float) -> bool:
        """Whether so many may be gone down to: while the load rises, only if they last two minutes.

        c* is that of a load which stays, so it sets too low a value on a number that will be needed.
        """
        return not self._load.ramp or self.lasts_s(executors, batch_s) >= _LEAST_KEPT_S

    def _passage_s(self, growth: float, widening: float, room: float, longest_s: float) -> float:
        """When the buffer is used up, with the ramp of the load."""
        ramp, ramp_s = self._load.ramp, self._load.ramp_s
        if not ramp:
            return first_passage_s(growth, widening, room, longest_s)
        behind = ramp * ramp_s * ramp_s / 2
        after_s = first_passage_s(growth + ramp * ramp_s, widening, room + behind, longest_s)
        if after_s >= ramp_s:
            return after_s
        return (math.sqrt(growth * growth + 2 * ramp * room) - growth) / ramp

    def kept_s(self, executors: int) -> float:
        """T2: how long so many are kept, until their batches have shrunk from τ."""
        period_s, steady_s = self._terms.period_s, self.steady_s(executors)
        gain = self.carries_in(executors, (period_s + steady_s) / 2) - self._load.rate
        least_s = _LEAST_KEPT_S + self._terms.start_up_s
        if gain <= 0:
            return _LONGEST_HIGH_S
        return min(max(least_s, self._load.rate * (period_s - steady_s) / gain), _LONGEST_HIGH_S)

    def _find_cycle(self) -> tuple[float, int, int]:
        first, terms, best = self.first, self._terms, (math.inf, self.first, self.first)
        step = max(1, first // _GRAIN)
        highs = [(high, self.kept_s(high)) for high in self.numbers_from(first, first + _HIGHER * step)]
        highs = highs or [(first, self.kept_s(first))]
        for low in self.numbers_from(max(self.least, first - _BELOW * step), first + _ABOVE * step):
            if low >= best[0]:  # a cycle costs more than its low number
                break
            lasts_s = self.lasts_s(low, self.steady_s(low))
            late_s = max(0.0, terms.start_up_s + terms.sample_s - lasts_s)
            fixed = low * lasts_s + 2 * CHANGE + _EXTRA + terms.weight * late_s
            for high, kept_s in highs:
                if high >= low:
                    spent = fixed + high * kept_s + self._join_price(high - low)
                    best = min(best, (spent / (lasts_s + kept_s), low, high))
        return best

    def _join_price(self, more: int) -> float:
        """What so many executors cost until they are of use, executor-seconds."""
        return more * (self._terms.start_up_s + self._costs.cold_s(more))

    # ---------------------------------------------------------------------------------- relative values

    @cached_property
    def forced_up(self) -> float:
        """U: what it costs to be forced up at the end of a low number's time, executor-seconds."""
        return 2 * CHANGE + _EXTRA + (self.high - self.cost) * self.kept_s(self.high)

    def low_value(self, executors: int, batch_s: float) -> float:
        """What so many cost beyond c* until they are forced up, batches being so long now, executor-seconds."""
        terms, lasts_s = self._terms, self.lasts_s(executors, batch_s)
        late_s = max(0.0, terms.start_up_s + terms.sample_s - lasts_s)
        joining = self._join_price(max(0, self.high - executors))
        return (executors - self.cost) * lasts_s + self.forced_up + joining + terms.weight * late_s

    def high_value(self, executors: int) -> float:
        """What so many cost beyond c* after an increase to them, executor-seconds."""
        if self.carries(executors) >= self._load.rate:
            return 2 * CHANGE + (executors - self.cost) * self.kept_s(executors)
        lasts_s = self.lasts_s(executors, 0.75 * self._terms.period_s)
        return CHANGE + (executors - self.cost) * lasts_s + self.forced_up

    def drain_s(self, executors: int, batch_s: float) -> float:
        """How long so many take until batches of that length are as short as they get; infinite if they grow."""
        steady_s = self.steady_s(executors)
        if batch_s <= steady_s:
            return 0.0
        gain = self.carries_in(executors, (batch_s + steady_s) / 2) - self._load.rate
        return self._load.rate * (batch_s - steady_s) / gain if gain > 0 else math.inf


def first_passage_s(growth: float, widening: float, room: float, longest_s: float) -> float:
    """T with growth·T + widening·T^1.5 = room, at most ``longest_s``: when a buffer is used up, s.

    ``growth``: records/s that the buffer fills by; ``widening``: records/s^1.5, ≥ 0.

    >>> first_passage_s(10.0, 0.0, 300.0, 600.0), first_passage_s(-1.0, 0.0, 300.0, 600.0)
    (30.0, 600.0)
    >>> round(first_passage_s(0.0, 1.0, 1000.0, 600.0), 6)
    100.0
    """
    if not widening:
        return min(room / growth, longest_s) if growth > 0 else longest_s
    root = math.sqrt(longest_s)
    if (growth + widening * root) * root * root <= room:
        return longest_s
    if growth > 0:
        root = min(root, math.sqrt(room / growth))
    for _ in range(12):  # Newton's method from above: the polynomial is convex there, so it never falls below the root
        square = root * root
        excess = (growth + widening * root) * square - room
        slope = 2 * growth * root + 3 * widening * square
        step = excess / slope
        root -= step
        if step <= 1e-6 * root:
            break
    return root * root
