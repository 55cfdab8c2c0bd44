"""A sample as ``mst`` looks at it (:mod:`rheostat.plan.mst`), and the words for its figures."""

from __future__ import annotations

from dataclasses import dataclass

from rheostat.learn.mst import MstModel
from rheostat.model import Assessment, Code, Reason, Recommendation
from rheostat.plan.mst_learning import Look
from rheostat.plan.mst_sizing import Demand, Reach
from rheostat.plan.words import count, executors, per_second, percent

__all__ = ["MstSample", "dt_words", "rate_words", "warning_far"]


@dataclass(frozen=True, slots=True)
class MstSample:
    """A complete sample, with what each query is known to carry.

    Attributes:
        measured: whether every query was saturated once.
        carried: MST of n where there is one query, records/s.
    """

    seen: Assessment
    n: int
    reached: Reach
    looks: tuple[Look, ...]
    models: tuple[MstModel | None, ...]
    demands: tuple[Demand, ...]
    measured: bool
    carried: float | None

    @property
    def arrivals(self) -> list[float]:
        """Records/s that arrive for each query; 0 where that is unknown."""
        return [look.seen.arrival_rate or 0.0 for look in self.looks]

    @property
    def pressure(self) -> float | None:
        """The greatest of the queries; None where one is unknown."""
        if len(self.looks) == 1:
            return self.looks[0].seen.pressure
        known = [look.seen.pressure for look in self.looks if look.seen.pressure is not None]
        return max(known) if len(known) == len(self.looks) else None

    def mst(self, number: int) -> float | None:
        """MST of so many where there is one query, records/s."""
        model = self.models[0] if len(self.models) == 1 else None
        return None if model is None else model.mst(number, self.reached.distance_ms(number))

    def propose(self, target: int, code: Code, text: str) -> Recommendation:
        """So many executors, with the figures behind it."""
        figures = {
            "arrival_rate": self.seen.arrival_rate,
            "processed_rate": self.seen.processed_rate,
            "pressure": self.pressure,
            "mst": self.carried,
            "distance_ms": self.reached.distance_ms(self.n),
            "executors": float(self.n),
        }
        return Recommendation(target, Reason(code, text, figures))


def rate_words(seen: Assessment) -> str:
    """What arrives and is processed, and the excess of the backlog, in words."""
    excess = f", excess {count(seen.backlog_excess)}" if seen.backlog_excess else ""
    return f"arrival {per_second(seen.arrival_rate)}, processed {per_second(seen.processed_rate)}{excess}"


def dt_words(sample: MstSample) -> str:
    """DT and MST in words, where there is one query."""
    mst = sample.carried
    if not mst:
        return ""
    dt = (mst - (sample.seen.processed_rate or 0.0)) / mst
    return f"; MST of {sample.n} is {per_second(mst)}, {percent(dt)} of it not used"


def warning_far(sample: MstSample, target: int) -> str | None:
    """A warning where the nodes that come lower MST."""
    now, then = sample.carried, sample.mst(target)
    if now is None or then is None or then >= now:
        return None
    distances = f"{sample.reached.distance_ms(sample.n):g} → {sample.reached.distance_ms(target):g} ms"
    return f"warning: {executors(target)} lower MST, {per_second(now)} → {per_second(then)} (round trip {distances})"
