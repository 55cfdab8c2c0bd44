"""A sample as ``proactive`` looks at it (:mod:`rheostat.plan.proactive`), and what is added to a proposal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rheostat.analyze.forecast import Point, Rates
from rheostat.model import Assessment, Code, Reason, Recommendation
from rheostat.plan.recovery import Recovery

__all__ = ["ProactiveSample", "figured", "rates_of", "saying"]


@dataclass(frozen=True, slots=True)
class ProactiveSample:
    """A complete sample: the figures that every rule needs, none of them unknown.

    Attributes:
        total: the sum of the rates.
        series: the arrival rates up to it.
        recovery: where the last change of the number stands with it.
        counts: whether slow records are those of the number in force: it is there, the job has recovered from before.
    """

    seen: Assessment
    at: float
    n: int
    rates: Rates
    total: float
    slow: float
    series: tuple[Point, ...]
    recovery: Recovery
    counts: bool

    def propose(self, target: int, code: Code, text: str, figures: Mapping[str, float]) -> Recommendation:
        """So many executors, with the figures of the sample and these."""
        known = {"slow_records": self.slow, "arrival_rate": self.seen.arrival_rate, "executors": float(self.n)}
        known.update(figures)
        return Recommendation(target, Reason(code, text, known))


def saying(proposal: Recommendation, text: str) -> Recommendation:
    """The same, with more words."""
    return replace(proposal, reason=replace(proposal.reason, text=f"{proposal.reason.text}; {text}"))


def figured(proposal: Recommendation, figures: Mapping[str, float]) -> Recommendation:
    """The same, with more figures."""
    reason = proposal.reason
    return Recommendation(proposal.target, Reason(reason.code, reason.text, {**reason.figures, **figures}))


def rates_of(seen: Assessment) -> Rates | None:
    """Records/s by topic where a query reads several, else in all; None: unknown."""
    if seen.arrival_rate is None:
        return None
    return tuple([rate for _, rate in seen.arrival_rates]) or (seen.arrival_rate,)
