"""What each option of a decision costs: to wait, to add executors, to remove some [ours].

**Forward.** The next batches are played, to see for how long the lag will be over its limit if nothing, or something,
is done. A batch begins when the one before it has ended, and no earlier than a trigger interval after that began. It
takes what waits, up to the cap, and lasts F(n) + G(n)·R (:mod:`rheostat.learn.batch_cost`). The lag rises with time
until the batch ends, and then falls to the age of its youngest record. So the time over the limit is exact for each
batch. Executors that join within a batch work on the rest of it; their first tasks are cold, which makes the batch
longer by what was measured. Those after the first full one are longer, too, while executors warm up. Executors leave
between two batches.

**Going rate.** What the present load costs per second at best. A number that is too low for it lasts until its batches
have grown as long as the lag allows; a higher one then makes them short again. One such cycle at the cheapest pair of
numbers costs c* executors on average::

    c* = min (lo · T1 + hi · T2 + (hi − lo) · (D + cold) + changes + w · lateness) ÷ (T1 + T2)

T1 is how long ``lo`` lasts, T2 how long ``hi`` is kept, reckoned as two minutes at least; D is the median start-up, and
cold what executors that join add to a batch. Where a load needs 4.3 executors, five all the time may be cheapest, or
four and six by turns.

**Options.** Every option is priced by what it costs beyond c*, in executor-seconds, until it leads into the next cycle:
the relative values of an average-cost decision problem (Howard, 1960). So waiting, going down, and going up by more can
be compared. A second over the objective costs w executors. How many seconds an option would bring is found by playing
forward twice: with the rate and the batches as they are predicted, and with one standard deviation more of either. Both
weigh the same: an executor too early costs about as much as a second too late.

An increase is made only when waiting one more decision would breach the limit, whatever the prices say: until then
nothing is lost, and more is known next time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from rheostat.learn.arrivals import Curve
from rheostat.learn.batch_cost import Costs
from rheostat.learn.start_up import StartUp

# ------------------------------------------------------------------------------- the next batches, played forward

_MOST_BATCHES = 60
_OVERDUE = 0.5

Joins = Sequence[tuple[float, int]]
"""When executors join, s from now, ascending, and how many each time; fewer than 0 leave."""


class Forecast(NamedTuple):
    """What arrives from now on: ``rate`` records/s, growing by ``ramp`` records/s² for ``ramp_s`` seconds.

    >>> rises = Forecast(100.0, 2.0, 10.0)
    >>> rises.total(10.0), rises.total(20.0), rises.last_rate
    (1100.0, 2300.0, 120.0)
    >>> [round(rises.time_of(records), 6) for records in (1100.0, 2300.0)]
    [10.0, 20.0]
    """

    rate: float
    ramp: float = 0.0
    ramp_s: float = 0.0

    @property
    def last_rate(self) -> float:
        return self.rate + self.ramp * self.ramp_s

    def total(self, after_s: float) -> float:
        """Records that have arrived then; fewer than 0 before now."""
        risen_s = min(max(after_s, 0.0), self.ramp_s)
        return self.rate * after_s + self.ramp * risen_s * (after_s - risen_s / 2)

    def time_of(self, records: float) -> float:
        """When so many have arrived, s from now."""
        if not self.ramp or records <= 0:
            return records / self.rate if self.rate > 0 else math.inf
        in_ramp = self.total(self.ramp_s)
        if records > in_ramp:
            return self.ramp_s + (records - in_ramp) / self.last_rate
        return (math.sqrt(self.rate * self.rate + 2 * self.ramp * records) - self.rate) / self.ramp


class Position(NamedTuple):
    """Where the job stands now, which is second 0.

    Attributes:
        executors: registered, less those that are leaving.
        in_flight, waiting: records of the running batch, and not yet planned.
        started_s: when the last batch began, ≤ 0.
        oldest_s: when the oldest uncommitted record arrived, ≤ 0.
        cold_s: what executors that have joined add to the running batch, or to the next one.
        joined_s: when the last ones joined, ≤ 0; None: long ago.
        first_is_over: whether a batch has ended that began with them.
        limit_s: lag beyond which the objective is missed.
        curve, at: the arrivals so far, and what time on it is now.
    """

    executors: int
    in_flight: float
    waiting: float
    started_s: float
    oldest_s: float
    trigger_s: float
    limit_s: float
    curve: Curve
    at: float
    cold_s: float = 0.0
    joined_s: float | None = None
    first_is_over: bool = True


class Outlook(NamedTuple):
    """What is to come: seconds over the limit; the greatest lag of the last batch, and the executors then."""

    over_s: float
    lag_s: float
    executors: int


def play(position: Position, costs: Costs, load: Forecast, joins: Joins, horizon_s: float) -> Outlook:
    """Play batches until one begins after the horizon, with this load.

    10 s of records are 2 s of work for one executor, and those of a batch wait for the trigger before it:

    >>> from rheostat.learn.batch_cost import BatchCost
    >>> model = BatchCost(stages=((1, 0.0, 0.002),))
    >>> start = Position(1, 0, 1000, -10.0, -10.0, 10.0, 11.0, Curve((0.0, 10.0), (0.0, 1000.0)), 10.0)
    >>> play(start, Costs(model), Forecast(100.0), (), 25.0)
    Outlook(over_s=3.0, lag_s=12.0, executors=1)
    """
    curve, limit_s, trigger_s, cap = position.curve, position.limit_s, position.trigger_s, costs.cap or math.inf
    executors, planned, oldest_s, begun_s = position.executors, -position.waiting, position.oldest_s, position.started_s
    upcoming, over_s, last_s, lag_s, joined = list(reversed(joins)), 0.0, 0.0, 0.0, 0
    records, begin_s, cold_s = position.in_flight, position.started_s, position.cold_s
    joined_s, is_later = -math.inf if position.joined_s is None else position.joined_s, position.first_is_over
    for _ in range(_MOST_BATCHES):
        if records <= 0:
            begin_s = max(last_s, begun_s + trigger_s)
            if begin_s > horizon_s:
                break
            while upcoming and upcoming[-1][0] <= begin_s:
                at_s, count = upcoming.pop()
                executors, joined = executors + count, joined + max(0, count)
                joined_s, is_later = (at_s, False) if count > 0 else (joined_s, is_later)
            records = min(load.total(begin_s) - planned, cap)
            if records <= 0:
                break
            planned, begun_s = planned + records, begin_s
        fixed_s, record_s = costs.batch(executors)
        work_s = fixed_s + record_s * records
        if is_later:
            work_s *= costs.slower(begin_s + work_s / 2 - joined_s)
        is_later = is_later or joined_s <= begin_s
        end_s, cold_s = begin_s + work_s + cold_s + costs.cold_s(joined), 0.0
        if end_s < 0:  # it is overdue, and lasts on for half as long as it has been so far
            end_s *= -_OVERDUE
        while upcoming and upcoming[-1][0] < end_s:
            at_s, count = upcoming.pop()
            _, faster_s = costs.batch(executors + count)
            end_s = at_s + (end_s - at_s) * min(1.0, faster_s / record_s)
            if count > 0:  # cold tasks of one batch run side by side
                joined_s, is_later = at_s, False
                end_s += costs.cold_s(joined + count) - costs.cold_s(joined)
                joined += count
            executors, record_s = executors + count, faster_s
        joined = 0
        over_s += max(0.0, end_s - max(last_s, oldest_s + limit_s))
        lag_s, last_s, records = end_s - oldest_s, end_s, 0.0
        oldest_s = load.time_of(planned) if planned >= 0 else curve.time_of(curve.total + planned) - position.at
    return Outlook(over_s, lag_s, executors)


# ----------------------------------------------------------------------------------------- the going rate

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

    # a cycle

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

    # relative values

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


# ---------------------------------------------------------------------------------------------- the options

_RECOVERY_S = 1800.0
_BEYOND_NEED = 3
_FEW = 12
_WORTH = 0.1
"""Executor-seconds that an increase must save for each executor and second that it comes earlier."""
_CHEAPEST = 5
_BRIEF, _LONG = 2, 6
"""Batches of τ that are played beyond the start of executors: to see whether to act, and what comes of it."""


class Option(NamedTuple):
    """A number of executors, its price in executor-seconds, and the seconds over the objective in it."""

    executors: int
    price: float
    over_s: float


class Choice(NamedTuple):
    """The option taken, and the next best one; None: there was no other."""

    best: Option
    other: Option | None


class Weighing:
    """One decision.

    Attributes:
        rate, high_rate: the forecast of when help would have come, and one standard deviation more, records/s;
            ``loads``: of either, from now on; ``costs``: of batches, as they are predicted and one deviation longer.
        need: the least number that carries the higher rate.
    """

    def __init__(
        self,
        position: Position,
        costs: tuple[Costs, Costs],
        prices: GoingRate,
        terms: Terms,
        start_up: StartUp,
        rates: tuple[float, float],
        loads: tuple[Forecast, Forecast],
    ) -> None:
        self.prices, self.terms = prices, terms
        self.rate, self.high_rate = rates
        self.need = prices.least_for(self.high_rate)
        self._position, self._start_up = position, start_up
        self._scenarios = ((loads[1], costs[1]), (loads[0], costs[0]))
        self._under_way = start_up.under_way(position.at)

    @property
    def is_beyond_bounds(self) -> bool:
        """Whether no number that is allowed carries the forecast: prices see no use in more then, but users do."""
        return self.terms.most is not None and self.prices.carries(self.need) < self.rate

    # playing forward

    def _joins(self, more: int, after_s: float) -> Joins:
        """Executors under way, and so many more that are asked for after that time."""
        return sorted([*self._under_way, *self._help(more, max(after_s, self.terms.locked_s))])

    def _help(self, more: int, asked_s: float) -> list[tuple[float, int]]:
        """When so many executors join, asked for as fast as the guard allows; none that come after the play."""
        terms, found = self.terms, list[tuple[float, int]]()
        step, sample_s = terms.step_up or more, terms.sample_s
        pause_s = terms.start_up_s + terms.pause_up_s if terms.pause_up_s else 0.0
        pause_s = sample_s * max(1, math.ceil(pause_s / sample_s))
        until_s = asked_s + sample_s + _LONG * terms.period_s
        while more > 0 and asked_s <= until_s:
            found += self._start_up.arrivals(min(step, more), asked_s)
            more, asked_s = more - step, asked_s + pause_s
        return found

    def _over_after_decrease(self, current: int, number: int) -> float:
        """Those that were asked for last do not come, others leave; and help comes back that is asked for later.

        Unless it is better without: executors that join make a batch longer.
        """
        registered, sample_s = self._position.executors, self.terms.sample_s
        come = self._under_way[: max(0, number - registered)]
        leave = [(sample_s / 2, number - registered)] if number < registered else []
        help_ = self._help(current - number, max(2 * sample_s, self.terms.pause_up_s))
        over_s = self._over_s(sorted([*come, *leave, *help_]), _LONG)
        return min(over_s, self._over_s([*come, *leave], _LONG)) if over_s else 0.0

    def _over_s(self, joins: Joins, batches: int, *, recovers: bool = False) -> float:
        """Mean seconds over the objective of both scenarios; with ``recovers`` also those until it is met again."""
        horizon_s = self.terms.sample_s + self._start_up.late_s + batches * self.terms.period_s
        mean_s = 0.0
        for load, costs in self._scenarios:
            seen, rate = play(self._position, costs, load, joins, horizon_s), load.last_rate
            over_s = seen.over_s
            if recovers and seen.lag_s > self._position.limit_s:
                over_s += self._recovery_s(seen, rate)
            if not over_s:
                break  # the better one breaches no more
            mean_s += over_s / 2
        return mean_s

    def _recovery_s(self, seen: Outlook, rate: float) -> float:
        """How long the lag is over its limit after the play, at that number or after one more increase.

        ``raised_s``: until such an increase works, with what it costs.
        """
        terms, most = self.terms, self.need + _BEYOND_NEED
        raised = most if terms.most is None else min(most, terms.most)
        gain, more = [self.prices.carries(number) - rate for number in (max(1, seen.executors), raised)]
        raised_s = terms.sample_s + self._start_up.late_s + 2 * terms.period_s + self.prices.forced_up / terms.weight
        left = (seen.lag_s - self._position.limit_s) * rate
        after_s = left / gain if gain > 0 else _RECOVERY_S
        if more > 0:
            after_s = min(after_s, raised_s + max(0.0, left - gain * raised_s) / more)
        return min(after_s, _RECOVERY_S)

    def breach_if_waiting(self, current: int) -> float:
        """Seconds over the objective if help is asked for at the next decision and not now."""
        help_ = max(self.prices.high, self.need, current + 1)
        if self.terms.most is not None:
            help_ = max(current, min(help_, self.terms.most))
        return self._over_s(self._joins(help_ - current, self.terms.sample_s), _BRIEF)

    # options

    def increase(self, current: int) -> Choice | None:
        """The number to ask for now; None: to stay is cheapest, or to ask at the next decision costs no more."""
        weight, start_up_s = self.terms.weight, self.terms.start_up_s
        first = current + 1
        if self.need - current > _FEW:
            first = current + (self.need - current) // 2
        last = max(self.need + _BEYOND_NEED * max(1, self.need // _FEW), first + _BEYOND_NEED)
        numbers = [current, *self.prices.numbers_from(first, last)]
        valued = [(self.prices.high_value(number) + (number - current) * start_up_s, number) for number in numbers]
        options = list[Option]()
        for value, number in sorted(valued):
            if len(options) > 1 and value >= sorted(option.price for option in options)[1]:
                break  # two are cheaper, whatever the play says
            over_s = self._over_s(self._joins(number - current, 0.0), _LONG, recovers=True)
            options.append(Option(number, weight * over_s + value, over_s))
        best, *others = sorted(options, key=lambda option: (option.price, option.executors))
        more = best.executors - current
        if more <= 0:
            return None
        later_s = self._over_s(self._joins(more, self.terms.sample_s), _LONG, recovers=True)
        if weight * (later_s - best.over_s) <= _WORTH * self.terms.sample_s * more:
            return None
        return Choice(best, others[0] if others else None)

    def stay_price(self, current: int, batch_s: float) -> float:
        """What it costs to keep the number: until it is forced up, or only until its batches are short again."""
        prices = self.prices
        kept_s = max(prices.drain_s(current, batch_s), self.terms.sample_s)
        drained = (current - prices.cost) * kept_s + CHANGE if math.isfinite(kept_s) else math.inf
        return min(prices.low_value(current, batch_s), drained)

    def decrease(self, current: int, batch_s: float) -> tuple[Option, Choice | None]:
        """What it costs to stay, and the number to go down to; None: to stay is cheapest."""
        prices = self.prices
        stay = Option(current, self.stay_price(current, batch_s), 0.0)
        lowest = max(prices.least, min(prices.first, current) - 4 * max(1, prices.first // _FEW))
        numbers = [number for number in prices.numbers_from(lowest, current - 1) if prices.is_kept(number, batch_s)]
        valued = [(CHANGE + prices.low_value(number, batch_s), number) for number in numbers]
        options = list[Option]()
        for value, number in sorted(valued)[:_CHEAPEST]:
            if value >= min([stay.price, *(option.price for option in options)]):
                break
            over_s = self._over_after_decrease(current, number)
            options.append(Option(number, value + self.terms.weight * over_s, over_s))
        best, *others = sorted([stay, *options], key=lambda option: option.price)
        if best.executors == current:
            return stay, None
        return stay, Choice(best, others[0])
