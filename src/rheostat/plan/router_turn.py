"""What passes from stage to stage of ``router``, and what it remembers from sample to sample."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from rheostat.analyze.regression import Fit, Point, line
from rheostat.model import Assessment, Code, Reason
from rheostat.plan.policy import PolicyContext
from rheostat.plan.recovery import Recovery, rescale_s
from rheostat.plan.router_load import Load
from rheostat.plan.router_options import RouterOptions
from rheostat.plan.router_table import Table

__all__ = ["RouterState", "Turn"]

_NOTHING = Reason(Code.STEADY, "nothing speaks for a change")


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


@dataclass(frozen=True, slots=True)
class Turn:
    """One decision on its way through the stages.

    Attributes:
        seen: a complete sample.
        n: the number in force.
        options, context: the policy's.
        state: what is remembered.
        own_at: the time at which the figures were true.
        target: how many are wanted so far.
        size_then: the size in force all through the window of the figures; None: there were several.
        unsettled: why there may be no decrease and no row; None: nothing speaks against them.
        expected: what the load follows; None: no bucket is complete yet.
        move: which way it decided.
        reason: why.
    """

    seen: Assessment
    n: int
    options: RouterOptions
    context: PolicyContext
    state: RouterState
    own_at: float
    target: int
    size_then: int | None = None
    unsettled: tuple[Code, str] | None = None
    expected: Fit | None = None
    move: Literal["up", "down", "stay"] = "stay"
    reason: Reason = _NOTHING

    @property
    def rate(self) -> float:
        """The arrival rate, records/s."""
        return self.seen.arrival_rate or 0.0

    @property
    def fit(self) -> Fit:
        """What the load is expected to follow; before the first complete bucket it stays as it is."""
        return self.expected or line((Point(self.own_at, self.rate),))

    @property
    def horizon_at(self) -> float:
        """t3, X from now; X is no shorter than the longest of the last increases took.

        How long they took was seen with the delay of the figures, which is not a part of it.
        """
        took_s = rescale_s(self.state.recovery) - (self.seen.at - self.own_at)
        return self.seen.at + max(self.options.horizon_s, took_s)

    @property
    def catch_up_s(self) -> float:
        """The catch-up time, s."""
        return self.options.catch_up_lags * self.context.objective.lag_s

    @property
    def may_record(self) -> bool:
        """Whether the sample may become a row: a sick sink slows batches down, whatever executors can do."""
        return self.unsettled is None and self.size_then is not None and self.seen.sink is None

    def why(self, code: Code, text: str, **figures: float | None) -> Turn:
        """The same with another reason."""
        known = {"arrival_rate": self.seen.arrival_rate, "executors": float(self.n)}
        return replace(self, reason=Reason(code, text, {**known, **figures}))

    def staying(self, code: Code, text: str, **figures: float | None) -> Turn:
        """The same with the number in force, and why."""
        return replace(self, move="stay", target=self.n).why(code, text, **figures)

    def remembering(self, table: Table) -> Turn:
        """The same with another table."""
        return replace(self, state=replace(self.state, table=table))
