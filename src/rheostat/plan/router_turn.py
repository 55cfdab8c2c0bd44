"""What passes from stage to stage of ``router``, and what it remembers from sample to sample."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rheostat.analyze.regression import Fit, Point, line
from rheostat.model import Assessment, Code, Reason
from rheostat.plan.recovery import Recovery, rescale_s
from rheostat.plan.router_load import Load
from rheostat.plan.router_rules import Rules
from rheostat.plan.router_table import Table

__all__ = ["RouterState", "Turn", "horizon"]

_NOTHING = Reason(Code.STEADY, "nothing speaks for a change")
_LEVEL = line((Point(0.0, 0.0),))


@dataclass(frozen=True, slots=True)
class RouterState:
    """What is remembered.

    Attributes:
        load: buckets, baseline, outliers.
        table: the performance table.
        sizes: (since when, number in force), oldest first; the last ones.
        decided_at: the last decision.
        streak: decisions in a row that asked for fewer.
        recovery: how long increases take.
    """

    load: Load = field(default_factory=Load)
    table: Table = field(default_factory=Table)
    sizes: tuple[tuple[float, int], ...] = ()
    decided_at: float | None = None
    streak: int = 0
    recovery: Recovery = field(default_factory=Recovery)


Move = Literal["up", "down", "stay"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One decision on its way through the stages.

    Attributes:
        seen: a complete sample.
        n: the number in force.
        rate: the arrival rate, records/s.
        own_at: the time at which the figures were true.
        rules: the policy's.
        state: what is remembered.
        target: how many are wanted so far.
        horizon_at: t3, as :func:`horizon` tells it.
        size_then: the size in force all through the window of the figures; None: there were several.
        unsettled: why there may be no decrease and no row; None: nothing speaks against them.
        fit: what the load is expected to follow, from the decision on.
        move: which way it decided.
        reason: why.
    """

    seen: Assessment
    n: int
    rate: float
    own_at: float
    rules: Rules
    state: RouterState
    target: int
    horizon_at: float = 0.0
    size_then: int | None = None
    unsettled: tuple[Code, str] | None = None
    fit: Fit = _LEVEL
    move: Move = "stay"
    reason: Reason = _NOTHING

    @property
    def may_record(self) -> bool:
        """Whether the sample may become a row: a sick sink slows batches down, whatever executors can do."""
        return self.unsettled is None and self.size_then is not None and self.seen.sink is None

    def moving(self, move: Move, code: Code, text: str) -> Turn:
        """The same with a direction, and why."""
        return self._told(self.target, move, code, text, None)

    def staying(self, code: Code, text: str, target_rate: float | None = None) -> Turn:
        """The same with the number in force, and why; ``target_rate``: what must be processed, records/s."""
        return self._told(self.n, "stay", code, text, target_rate)

    def going(self, target: int, code: Code, text: str, target_rate: float | None = None) -> Turn:
        """The same with another number, and why."""
        return self._told(target, self.move, code, text, target_rate)

    def remembering(self, state: RouterState) -> Turn:
        """The same with another state."""
        return self._with(state, self.fit, self.target, self.move, self.reason)

    def expecting(self, state: RouterState, fit: Fit, move: Move) -> Turn:
        """The same with what the load is expected to follow, and a direction unless something speaks against it."""
        return self._with(state, fit, self.target, move, self.reason)

    def _told(self, target: int, move: Move, code: Code, text: str, target_rate: float | None) -> Turn:
        figures: dict[str, float | None] = {"arrival_rate": self.seen.arrival_rate, "executors": float(self.n)}
        if target_rate is not None:
            figures["target_rate"] = target_rate
        return self._with(self.state, self.fit, target, move, Reason(code, text, figures))

    def _with(self, state: RouterState, fit: Fit, target: int, move: Move, reason: Reason) -> Turn:
        return Turn(
            self.seen,
            self.n,
            self.rate,
            self.own_at,
            self.rules,
            state,
            target,
            self.horizon_at,
            self.size_then,
            self.unsettled,
            fit,
            move,
            reason,
        )


def horizon(at: float, own_at: float, recovery: Recovery, horizon_s: float) -> float:
    """t3, X from now; X is no shorter than the longest of the last increases took.

    How long they took was seen with the delay of the figures, which is not a part of it.

    Args:
        at: now, s.
        own_at: the time at which the figures were true, s.
        recovery: how long increases take.
        horizon_s: X at the least.
    """
    if not recovery.took_s:
        return at + horizon_s
    return at + max(horizon_s, rescale_s(recovery) - (at - own_at))
