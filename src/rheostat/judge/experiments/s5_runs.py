"""A run of one policy for S5's experiments: the production loop on the simulated job, and what is kept of it.

It is :func:`rheostat.judge.simulate.simulate` with every decision remembered and with a switch for a region's failover,
which is thrown as it is on a live job.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rheostat.journal import DecisionRecord, OutcomeRecord, States
from rheostat.judge.contenders import Contender, settings_for
from rheostat.judge.recorder import Recorder
from rheostat.judge.score import Case, cost_parts, end_of
from rheostat.judge.simulate import simulate, start_executors
from rheostat.judge.tracks import Points, lag_line, thinned
from rheostat.load.prepare import Prepared
from rheostat.loop import Loop
from rheostat.model import Code
from rheostat.sim.capacity import capacity_curve
from rheostat.sim.cost import violation_weight
from rheostat.sim.history import History
from rheostat.sim.jobfile import JobFile
from rheostat.sim.lag import Lag

__all__ = ["Decided", "Failover", "Played", "play", "round_trips", "value_at"]

_POINTS = 600


class Failover(NamedTuple):
    """When a region's traffic is away, s; the switch ``failover`` is on from ``begin`` to ``end``."""

    begin: float
    end: float


class Decided(NamedTuple):
    """One decision.

    Attributes:
        at: s from the start of the load.
        before, after: executors in force, and decided.
        code: its reason.
        text: the reason in words, with figures.
    """

    at: float
    before: int
    after: int
    code: Code
    text: str


@dataclass(frozen=True)
class Played:
    """A finished run.

    Attributes:
        decided: every decision that knew the number in force, in order.
        executor_hours: paid for until all is committed.
        changes: of the number asked for.
        violation_s: time in which the lag was over the objective.
        lag_max: s.
        cost: in executor-hours, as ``rheostat compare`` has it.
        static: the fewest executors that carry the peak.
        static_hours: of so many.
        cooldown_s: of decreases, by the guard.
        faults: why the run does not count; none should.
        capacity, paid, lag: for plots, thinned.
        seed: of the job's chance.
    """

    decided: tuple[Decided, ...]
    executor_hours: float
    changes: int
    violation_s: float
    lag_max: float
    cost: float
    static: int
    static_hours: float
    cooldown_s: float
    faults: tuple[str, ...]
    capacity: Points
    paid: Points
    lag: Points
    seed: int = 0

    @property
    def acts(self) -> tuple[Decided, ...]:
        """Decisions that change the number."""
        return tuple(each for each in self.decided if each.after != each.before)

    @property
    def round_trips(self) -> int:
        """Decreases within two cooldowns after an increase."""
        return round_trips(self.acts, 2 * self.cooldown_s)

    def between(self, begin: float, end: float) -> tuple[Decided, ...]:
        """Decisions from one time until before another."""
        return tuple(each for each in self.decided if begin <= each.at < end)

    def said(self, code: Code) -> tuple[Decided, ...]:
        """Decisions with this reason."""
        return tuple(each for each in self.decided if each.code is code)


def round_trips(acts: Sequence[Decided], within_s: float) -> int:
    """How many decreases come so soon after an increase.

    >>> up, down = Decided(0.0, 2, 3, Code.UNDERSIZED, ""), Decided(90.0, 3, 2, Code.OVERSIZED, "")
    >>> round_trips([up, down], 120.0), round_trips([up, down], 60.0)
    (1, 0)
    """
    raised_at, found = -within_s, 0
    for act in acts:
        if act.after > act.before:
            raised_at = act.at
        elif act.at - raised_at < within_s:
            found += 1
    return found


class _Witness(Recorder):
    """Keeps every decision that knew the number in force."""

    def __init__(self) -> None:
        super().__init__()
        self.decided: list[Decided] = []

    def record(self, record: DecisionRecord | OutcomeRecord, states: States) -> None:
        """Keep a decision."""
        super().record(record, states)
        if not isinstance(record, DecisionRecord):
            return
        decision = record.decision
        if decision.current is not None and decision.target is not None:
            reason = decision.reason
            self.decided.append(Decided(record.at, decision.current, decision.target, reason.code, reason.text))


def play(job: JobFile, load: Prepared, contender: Contender, seed: int, failover: Failover | None = None) -> Played:
    """Run a policy over the whole load and until all is committed.

    Args:
        job: what is scaled.
        load: what it has to do.
        contender: who decides; ``static`` gets the fewest executors that carry the peak.
        seed: of the job's chance.
        failover: when the switch is on.

    Raises:
        InputError: the policy is unknown, or its options or settings are wrong.
    """
    witness = _Witness()
    thrown = None if failover is None else _thrown(failover)
    run = simulate(job, load, contender, seed=seed, recorder=witness, before_each=thrown)
    weight = violation_weight(job, load.peak)
    case = Case(job, load.curve, start_executors(job, load), weight)
    cooldown_s = settings_for(job, contender.at_size(weight)).guard.cooldown_down_s
    return replace(_played(case, run.history, witness.decided, cooldown_s, run.faults), seed=seed)


def _thrown(failover: Failover) -> Callable[[Loop, float], None]:
    """Throws the switch in time for the next cycle."""
    return lambda loop, later: loop.failover(failover.begin <= later < failover.end)


def _played(
    case: Case, history: History, decided: Sequence[Decided], cooldown_s: float, faults: Sequence[str]
) -> Played:
    end, carried = end_of(case, history), capacity_curve(case.job)
    lag, parts = Lag.of(history, 0.0, end), cost_parts(case, history, end)
    capacity = [(at, carried[count]) for at, count in history.ready]
    return Played(
        decided=tuple(decided),
        executor_hours=parts.executor_hours,
        changes=parts.changes,
        violation_s=3600 * parts.violation_hours,
        lag_max=lag.greatest,
        cost=parts.cost(case.weight),
        static=round(case.weight),
        static_hours=case.weight * end / 3600,
        cooldown_s=cooldown_s,
        faults=tuple(faults),
        capacity=thinned(_to(end, capacity), _POINTS),
        paid=thinned(_to(end, [(at, float(count)) for at, count in history.paid]), _POINTS),
        lag=thinned(lag_line(history.lag_spans(0.0, end)), _POINTS),
    )


def _to(end: float, steps: Points) -> Points:
    """The steps with their last value at the end."""
    return [*steps, (end, steps[-1][1])] if steps and steps[-1][0] < end else steps


def value_at(steps: Points, at: float) -> float:
    """The last value until a time; 0 before the first.

    >>> [value_at([(10.0, 3.0), (20.0, 5.0)], at) for at in (5.0, 10.0, 19.0, 99.0)]
    [0.0, 3.0, 3.0, 5.0]
    """
    place = bisect_right(steps, at, key=lambda step: step[0])
    return steps[place - 1][1] if place else 0.0
