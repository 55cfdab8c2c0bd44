"""What one query teaches ``mst`` of its greatest sustainable throughput: S2, Algorithm 1, lines 7 to 15.

*Saturated*: pressure above 0.5 (:mod:`rheostat.analyze.overload`), which begins anew with each change of the number;
all executors in force registered. MST is then the present throughput, of batches that began at that number: the sample
does not overlap the reconfiguration.

Ours, with the option ``lower_bounds``: slots that are idle for more than half of the time make it no measurement, for a
stall is no lack of executors. And three healthy samples in a row whose throughput in a second with a batch
(:func:`rheostat.plan.capacity.busy_rate`) agrees within a tenth *show* that their configuration sustains at least the
least of them. What was shown enters the fit
only where it lies above the model of the saturated points. Before there are any, MST = α · n with the α of the
configuration that has shown the most for each executor.

**Forgetting.** Residuals of measurements, beyond two standard errors of the model and relative to it, are given to a
detector (:mod:`rheostat.analyze.change`). One above the limit is not believed by itself; at a change point all points
go but the new one. A configuration that is new, while there are fewer than three, has no residual: the model could not
know.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rheostat.analyze.change import Detector, Watched, Worsening
from rheostat.analyze.overload import HIGH
from rheostat.learn.mst import FitOptions, MstModel, Point, Saturated, added, fit
from rheostat.learn.mst_points import configuration
from rheostat.model import Assessment
from rheostat.plan.capacity import busy_rate
from rheostat.plan.mst_options import MstOptions

__all__ = ["Learner", "Look", "QueryModel", "looks"]

_AGREE = 1.1
_IN_A_ROW = 3
_IN_USE = 0.5
_SIGMAS = 2.0
_TOLD = 3


@dataclass(frozen=True, slots=True)
class QueryModel:
    """What is known of one query.

    Attributes:
        query: its id; empty for the only one of an application.
        points: its saturated configurations.
        shown: throughput that healthy samples have shown, as points: lower bounds.
        recent: throughput of the last healthy samples in a row, at most three.
        model: fitted to them; None: nothing is known.
        watched: what the detector remembers.
        forgot_at: time of the last change point.
    """

    query: str = ""
    points: tuple[Point, ...] = ()
    shown: tuple[Point, ...] = ()
    recent: tuple[float, ...] = ()
    model: MstModel | None = None
    watched: Watched = field(default_factory=Watched)
    forgot_at: float | None = None


class Look(NamedTuple):
    """One query at one sample.

    Attributes:
        seen: the assessment with its figures in place of those of all.
        executors: what it has of those in force: its share of the time in which batches run.
        distance_ms: ND of all that are registered.
    """

    query: str
    seen: Assessment
    executors: float
    distance_ms: float


def looks(seen: Assessment, executors: int, distance_ms: float) -> tuple[Look, ...]:
    """Each query by itself; where there is one, it is the application.

    Queries run on the same slots, so each has them in proportion to the time in which its batches run; where that is
    unknown, all alike.
    """
    if not seen.by_query:
        return (Look("", seen, float(executors), distance_ms),)
    runs = [_runs(load.batch_s, load.trigger_s) for load in seen.by_query]
    known = [each for each in runs if each is not None]
    shares = known if len(known) == len(runs) and sum(known) > 0 else [1.0] * len(runs)
    found = []
    for load, share in zip(seen.by_query, shares, strict=True):
        own = {name: value for name, value in load._asdict().items() if name != "query_id"}
        view = replace(seen, last_batch_s=load.batch_s, by_query=(), **own)
        found.append(Look(load.query_id, view, executors * share / sum(shares), distance_ms))
    return tuple(found)


def _runs(batch_s: float | None, trigger_s: float | None) -> float | None:
    """Share of the time in which batches run."""
    if batch_s is None or trigger_s is None:
        return None
    longest = max(batch_s, trigger_s)
    return batch_s / longest if longest > 0 else 1.0


class Learner:
    """Learns from looks; settings only."""

    def __init__(self, options: MstOptions, fitting: FitOptions) -> None:
        self._options = options
        self._fitting = fitting
        limit = options.residual_limit
        self._detector = None if limit is None else Detector(limit, options.residuals_in_a_row, limit / 4)

    def learned(self, look: Look, past: QueryModel, *, settled: bool) -> QueryModel:
        """With what this look teaches; nothing where the number has not settled."""
        if not settled or look.seen.pressure is None:
            return replace(past, recent=())
        if look.seen.pressure > HIGH:
            return self._saturated(look, replace(past, recent=()))
        return self._healthy(look, past) if self._options.lower_bounds else past

    # ------------------------------------------------------------------------------------------- saturated

    def _saturated(self, look: Look, past: QueryModel) -> QueryModel:
        rate = look.seen.throughput
        if not rate or (self._options.lower_bounds and not _in_use(look.seen)):
            return past
        new = Saturated(look.seen.at, look.executors, look.distance_ms, rate)
        worsening, watched = self._watched(new, past)
        if worsening is not None and worsening.changed:
            point = added((), new, self._fitting)
            return self._fitted(QueryModel(past.query, point, forgot_at=look.seen.at))
        if worsening is not None and watched.recent[-1] >= (self._options.residual_limit or math.inf):
            return replace(past, watched=watched)
        shown = tuple(each for each in past.shown if _possible(each, new))
        points = added(past.points, new, self._fitting)
        return self._fitted(replace(past, points=points, shown=shown, watched=watched))

    def _watched(self, new: Saturated, past: QueryModel) -> tuple[Worsening | None, Watched]:
        """What the residual of this measurement says; None where the model had no means to know better."""
        new_to_it = configuration(past.points, new, self._fitting) is None
        if self._detector is None or past.model is None or (new_to_it and len(past.points) < _TOLD):
            return None, past.watched
        expected = past.model.mst(new.executors, new.distance_ms)
        if expected <= 0:
            return None, past.watched
        error = _SIGMAS * past.model.standard_error(new.executors, new.distance_ms)
        off = max(0.0, abs(new.throughput - expected) - error) / expected
        return self._detector.watch(off, past.watched)

    # --------------------------------------------------------------------------------------------- healthy

    def _healthy(self, look: Look, past: QueryModel) -> QueryModel:
        rate = busy_rate(look.seen) if look.seen.backlog_excess == 0 else None
        if not rate:
            return replace(past, recent=())
        recent = (*past.recent, rate)[-_IN_A_ROW:]
        past = replace(past, recent=recent)
        if len(recent) < _IN_A_ROW or max(recent) > _AGREE * min(recent):
            return past
        known = None if past.model is None else past.model.mst(look.executors, look.distance_ms)
        if min(recent) <= (known or 0.0) or (known is None and not _in_use(look.seen)):
            return past
        return self._shown(Saturated(look.seen.at, look.executors, look.distance_ms, min(recent)), past)

    def _shown(self, new: Saturated, past: QueryModel) -> QueryModel:
        """A lower bound above the model: the same configuration is raised to it."""
        measured = configuration(past.points, new, self._fitting)
        if measured is not None:
            raised = replace(measured, throughput=max(measured.throughput, new.throughput), at=new.at)
            points = tuple(raised if each is measured else each for each in past.points)
            return self._fitted(replace(past, points=points))
        old = configuration(past.shown, new, self._fitting)
        shown = added([each for each in past.shown if each is not old and not _under(each, new)], new, self._fitting)
        return self._fitted(replace(past, shown=shown))

    def _fitted(self, past: QueryModel) -> QueryModel:
        """With the model of the saturated points, and of those shown that lie above it; else of the best one shown."""
        if not past.points:
            best = max(past.shown, key=lambda each: each.throughput / each.executors)
            return replace(past, model=fit([best], self._fitting))
        model = fit(past.points, self._fitting)
        above = [each for each in past.shown if each.throughput > model.mst(each.executors, each.distance_ms)]
        return replace(past, model=fit((*past.points, *above), self._fitting) if above else model)


def _in_use(seen: Assessment) -> bool:
    """Whether the slots are in use for half of the time, as far as is known."""
    return seen.busy_ratio is None or seen.busy_ratio >= _IN_USE


def _possible(shown: Point, new: Saturated) -> bool:
    """Whether a lower bound can be true beside a measurement, and says more than it: at equal or greater distance."""
    if shown.executors <= new.executors:
        return shown.throughput <= _AGREE * new.throughput and shown.executors < new.executors
    return shown.throughput > new.throughput


def _under(shown: Point, new: Saturated) -> bool:
    """Whether a new lower bound says more than one for no fewer executors."""
    return shown.executors >= new.executors and shown.throughput <= new.throughput
