"""The options of one decision, each with its price: to wait, to add executors, to remove some [ours].

A price is in executor-seconds beyond the going rate (:mod:`rheostat.policies.going_rate`). A second over the objective
costs w executors. How many seconds an option would bring is found by playing the next batches forward
(:mod:`rheostat.policies.forward`) twice: with the rate and the batches as they are predicted, and with one standard
deviation more of either. Both weigh the same: an executor too early costs about as much as a second too late.

An increase is made only when waiting one more decision would breach the limit, whatever the prices say: until then
nothing is lost, and more is known next time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from rheostat.learn.batch_cost import Costs
from rheostat.learn.start_up import StartUp
from rheostat.policies.forward import Forecast, Joins, Outlook, Position, play
from rheostat.policies.going_rate import CHANGE, GoingRate, Terms

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

    # ------------------------------------------------------------------------------------- playing forward

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

    # --------------------------------------------------------------------------------------------- options

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
