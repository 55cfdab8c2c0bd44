"""``router``: a chain of small rules, short-term prediction and a performance table. S5, the router autoscaler.

Each decision goes through :data:`CHAIN`, a tuple of pure stages from one :class:`~rheostat.plan.router_turn.Turn` to
the next:

1. **collect**: the arrival rate into its time bucket, spikes aside (:mod:`rheostat.plan.router_load`); which size was
   in force when. Figures count for their own time, which is the delay of the metrics ago.
2. **pre-decision**: after task failures, while executors are on their way, before ``settle_batches`` batches have
   finished at the number in force, and while figures are still of the time before the change: no rows are collected,
   and there is no decrease; with ``unsettled="hold"`` no decision at all.
3. **decide**: *up* iff the sink is healthy and there is significant lag, or utilization above the safe threshold, or,
   with ``eager``, a predicted rate beyond what the table has for the present size. *Down* iff there is no lag and no
   anticipated increase. A sick sink is told (``SICK_SINK``): executors would not help it. Rows are written here
   (:mod:`rheostat.plan.router_table`).
4. **size**: the target rate (:mod:`rheostat.plan.router_size`), the literal look-up in the table, then, as a step of
   its own, the utilization that is aimed at. The same for both directions; a decrease must also carry the upper end
   of the prediction interval.
5. **post-decision**: cooldowns, largest step, largest size, limits by partitions. A region failover is a switch of the
   guard pipeline, which shapes what comes out here as it does for every policy.

*Lag* is the time in which the job would process all that is buffered, at the speed of its batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar

from pydantic import BaseModel

from rheostat.model import Assessment, Code, Reason, Recommendation
from rheostat.plan import router_table as tables
from rheostat.plan.policy import PolicyContext, in_force
from rheostat.plan.recovery import followed
from rheostat.plan.router_decide import decide, pre_decision
from rheostat.plan.router_load import collected
from rheostat.plan.router_options import FAITHFUL, RouterOptions
from rheostat.plan.router_size import Times, shaped, target_rate
from rheostat.plan.router_table import look_up, roomy
from rheostat.plan.router_turn import RouterState, Turn
from rheostat.plan.words import executors, per_second, percent, seconds

__all__ = ["CHAIN", "RouterOptions", "RouterPolicy", "RouterState"]

_KEPT_SIZES = 32
"""Changes of the number that are remembered: at one each 15 s, those of eight minutes."""


# ------------------------------------------------------------------------------------------------ 1 collect


def collect(turn: Turn) -> Turn:
    """The sample into its bucket, and the size in force into their history."""
    options, state, window_s = turn.options, turn.state, turn.context.rate_window_s
    middle = turn.own_at - window_s / 2
    sizes = state.sizes
    if not sizes or sizes[-1][1] != turn.n:
        sizes = (*sizes, (turn.seen.at, turn.n))[-_KEPT_SIZES:]
    state = replace(
        state,
        load=collected(state.load, middle, turn.rate, (options.bucket_s, options.window_s), options.spikes),
        table=tables.current(state.table, options.version),
        sizes=sizes,
        recovery=followed(turn.seen, turn.n, state.recovery, math.inf),
    )
    counted_s = window_s if options.rows == "saturated" else 0.0
    return replace(turn, state=state, size_then=size_at(sizes, turn.own_at, counted_s))


def size_at(sizes: tuple[tuple[float, int], ...], own_at: float, window_s: float) -> int | None:
    """The size that was in force from the begin of the window until ``own_at``; None: there were several.

    The first one that is known counts as having been there before.

    >>> sizes = ((0.0, 4), (300.0, 6))
    >>> size_at(sizes, 320.0, 60.0), size_at(sizes, 360.0, 60.0), size_at(sizes, 299.0, 60.0)
    (None, 6, 4)
    """
    place = len(sizes) - 1
    while place > 0 and sizes[place][0] > own_at:
        place -= 1
    since, size = sizes[place]
    return size if place == 0 or since <= own_at - window_s else None


# --------------------------------------------------------------------------------------------------- 4 size


def size(turn: Turn) -> Turn:
    """How many the target rate needs, by the table."""
    if turn.move == "stay":
        return turn
    return _larger(turn) if turn.move == "up" else _smaller(turn)


def _target_rate(turn: Turn, buffered: float) -> float:
    """What must be processed, records/s; the present rate too, which complete buckets may not show yet."""
    options = turn.options
    pause_s = options.pause_up_s if turn.move == "up" else options.pause_down_s
    times = Times(turn.catch_up_s, turn.horizon_at - turn.seen.at, pause_s)
    return max(target_rate(turn.fit, turn.seen.at, buffered, times), turn.rate)


def _larger(turn: Turn) -> Turn:
    """At least n + 1; but no more than the rates need while the job is not settled, or catches up in time anyway."""
    settled = turn.unsettled is None
    patient = not settled or _catches_up(turn)
    rate = _target_rate(turn, 0.0 if patient else _buffered(turn))
    rows = turn.state.table.for_increase()
    found, text = look_up(rows, rate), turn.reason.text
    if found is None:
        target = turn.n + 1 if settled else turn.n
        text = f"{text}; no row in the table: {turn.n} → {target}"
        return replace(turn, target=target).why(turn.reason.code, text, target_rate=rate)
    target = roomy(rows, found, rate, turn.options.utilization_up)
    text = f"{text}; {per_second(rate)} need {executors(target)}"
    target = max(target, turn.n if patient else turn.n + 1)
    if target == turn.n:
        return turn.staying(*_waiting(turn, text), target_rate=rate)
    return replace(turn, target=target).why(turn.reason.code, f"{text}: {turn.n} → {target}", target_rate=rate)


def _waiting(turn: Turn, text: str) -> tuple[Code, str]:
    if turn.unsettled is not None:
        code, why = turn.unsettled
        return code, f"{text}; {why}"
    return Code.CATCHING_UP, f"{text}, and it catches up within {seconds(turn.catch_up_s)}"


def _buffered(turn: Turn) -> float:
    """Records to be caught up: all of them, or what is beyond a healthy backlog."""
    seen = turn.seen
    return float((seen.backlog if turn.options.buffered == "all" else seen.backlog_excess) or 0)


def _catches_up(turn: Turn) -> bool:
    """Whether the excess will be gone within the catch-up time at the present rates."""
    gain = (turn.seen.processed_rate or 0.0) - turn.rate
    return gain > 0 and (turn.seen.backlog_excess or 0.0) <= gain * turn.catch_up_s


def _smaller(turn: Turn) -> Turn:
    """What is enough; below the first row only one executor at a time, as what so few carry is a guess."""
    rows, share, upper = turn.state.table.rows, turn.options.utilization_down, _upper(turn)
    if math.isinf(upper):
        return turn.staying(Code.FORECAST, "too few buckets yet to tell how far the load may rise")
    rate = max(_target_rate(turn, 0.0), upper)
    found = look_up(rows, rate)
    if found is None:
        return turn.staying(Code.CAPACITY_UNKNOWN, "no row in the table yet")
    target = max(roomy(rows, found, rate, share), rows.figures[0].executors - 1)
    text = f"up to {per_second(rate)} need {executors(target)} at {percent(share)}"
    if target >= turn.n:
        return turn.staying(Code.STEADY, f"{text}, {turn.n} in force", target_rate=rate)
    return replace(turn, target=target).why(Code.OVERSIZED, f"{text}: {turn.n} → {target}", target_rate=rate)


def _upper(turn: Turn) -> float:
    """The upper end of the prediction interval at t3, records/s; infinite where it cannot be told."""
    deviations, fit = turn.options.interval, turn.fit
    return 0.0 if deviations is None else fit.at(turn.horizon_at) + fit.half_width(turn.horizon_at, deviations)


# ------------------------------------------------------------------------------------------ 5 post-decision


def post_decision(turn: Turn) -> Turn:
    """What the limits leave of it."""
    state, wanted = turn.state, turn.options.samples_to_shrink
    streak = min(state.streak + 1, wanted) if turn.target < turn.n else 0
    turn = replace(turn, state=replace(state, decided_at=turn.seen.at, streak=streak))
    if turn.target < turn.n and streak < wanted:
        text = f"{turn.reason.text}; {streak} of {wanted} in a row: {turn.n} stays"
        return turn.staying(Code.SURPLUS_COUNTING, text)
    since_s = turn.seen.at - state.sizes[-1][0] if len(state.sizes) > 1 else math.inf
    target, why = shaped(turn.seen, turn.n, turn.target, since_s, turn.options)
    if why is None:
        return turn
    return replace(turn, target=target).why(why.code, f"{turn.reason.text}; {why.text}")


Stage = Callable[[Turn], Turn]

CHAIN: tuple[Stage, ...] = (collect, pre_decision, decide, size, post_decision)
"""The stages, in order."""


class RouterPolicy:
    """The chain as a policy. See the module's description."""

    name: ClassVar[str] = "router"
    brings: ClassVar[frozenset[str]] = frozenset(
        {"task_failures", "warm_up", "hold", "sick_sink", "largest_step", "cooldown_up", "cooldown_down"}
    )
    state_type: type[RouterState] = RouterState
    options_type: ClassVar[type[BaseModel]] = RouterOptions
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = MappingProxyType({"default": {}, "faithful": FAITHFUL})

    def __init__(self, options: RouterOptions, context: PolicyContext) -> None:
        self.options = options
        self.context = context

    def initial(self) -> RouterState:
        """Nothing was seen."""
        return RouterState()

    def recommend(self, seen: Assessment, state: RouterState) -> tuple[Recommendation, RouterState]:
        """Propose by the chain."""
        n = in_force(seen)
        if seen.missing or seen.invalid or not n or seen.arrival_rate is None or seen.backlog_excess is None:
            unknown = seen.missing or seen.invalid or ("arrival_rate or backlog_excess",)
            reason = Reason(Code.METRICS_MISSING, f"this sample does not count without: {', '.join(unknown)}")
            return Recommendation(None, reason), replace(state, streak=0)
        age_s = max(seen.metrics_age_s or 0.0, self.options.metrics_delay_s)
        turn = Turn(
            seen=seen,
            n=n,
            options=self.options,
            context=self.context,
            state=state,
            own_at=seen.at - age_s,
            target=n,
        )
        if not self._due(seen, state):
            text = f"a decision each {seconds(self.options.decide_every_s or 0.0)}"
            turn = collect(turn).why(Code.STEADY, text)
            return Recommendation(n, turn.reason), turn.state
        for stage in CHAIN:
            turn = stage(turn)
        return Recommendation(turn.target, turn.reason), turn.state

    def capacity(self, executors: int, state: RouterState) -> float | None:
        """What the table says."""
        return state.table.rows.carried(executors)

    def _due(self, seen: Assessment, state: RouterState) -> bool:
        """Whether it is time for a decision; half a sample period early is not too early."""
        every, last = self.options.decide_every_s, state.decided_at
        return every is None or last is None or seen.at - last >= every - self.context.sample_s / 2
