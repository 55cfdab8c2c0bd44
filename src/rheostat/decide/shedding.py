"""How much of the records is kept when there are no more executors to have [S3, for the graph; ours, for the amount].

The executors carry W records/s at full accuracy. If more arrive, every sink gets the accuracy that was promised, and
what W allows beyond that goes to sinks by priority. Shedding begins when the lag has used up half of the objective, so
a short burst loses nothing, and ends when all records can be kept.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple

from rheostat.config.shedding import WHOLE, Edge, SheddingGraph
from rheostat.model import Assessment, EdgeCount, Reason, ReasonCode, SheddingPlan, SinkAccuracy, Threshold
from rheostat.text import executors, per_second, percent, seconds

_ROOM = 0.9
"""Share of what executors carry that is planned with: with all of it, long batches would stay long."""
WARM = 2
"""Batches at a number of executors, from which on they show what the executors carry: the first one may be cold."""
_SMALL_LAG, _TRY_MORE = 0.25, 1.1
"""Lag ÷ the objective's below which more is kept than batches show to be possible, and how much more."""
_MOST_WORK = 4
"""Looks at the work that are remembered."""


class Values(NamedTuple):
    """What is known of the values of an edge that drops by value.

    Attributes:
        quantiles: of the offered records, newest.
        debt: records that should have been kept so far, and were not.
    """

    quantiles: tuple[float, ...]
    debt: float = 0.0


class Work(NamedTuple):
    """What batches did.

    Attributes:
        records: that arrived × the mean accuracy of the sinks: the work in records of full accuracy.
        busy_s: duration of the batches.
    """

    records: float
    busy_s: float


@dataclass(frozen=True, slots=True)
class SheddingState:
    """What is remembered of shedding.

    Attributes:
        wanted: accuracy of each sink; empty: everything is kept.
        shed_at: when records were last dropped.
        executors: number at which ``work`` was done.
        work: newest last.
        by_value: of the edges that drop by value.
    """

    wanted: Mapping[str, float] | None = None
    shed_at: float | None = None
    executors: int | None = None
    work: tuple[Work, ...] = ()
    by_value: Mapping[str, Values] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Mean accuracy of the sinks that is wanted."""
        return sum(self.wanted.values()) / len(self.wanted) if self.wanted else 1.0


def plan_shedding(
    assessment: Assessment,
    state: SheddingState,
    graph: SheddingGraph,
    *,
    objective_s: float,
    may_begin: bool,
    acts: bool,
) -> tuple[SheddingPlan, SheddingState]:
    """Which accuracy each sink gets from the next batch on.

    Args:
        assessment: with the counts of the edges.
        state: of the plan before.
        graph: with what was promised.
        objective_s: the lag that must hold.
        may_begin: whether there are no more executors to have; shedding that has begun goes on in any case.
        acts: whether the plan is carried out; else everything is kept.
    """
    if state.wanted is not None and state.wanted.keys() != graph.sinks.keys():
        state = SheddingState(shed_at=state.shed_at)  # of a run before, with another graph
    measured = measure_accuracy(graph, assessment.edges)
    state = _remember_work(assessment, state, graph, measured)
    ordered = {} if state.wanted is None else edge_shares(graph, state.wanted)
    is_seen = bool(assessment.edges) and all(each.keep == ordered.get(each.edge, WHOLE) for each in assessment.edges)
    begins = may_begin and acts
    share, reason = _find_share(assessment, state, objective_s, may_begin=begins, is_seen=is_seen)
    wanted = spread_accuracy(graph, share)
    keep = edge_shares(graph, wanted)
    sheds = bool(keep)
    above, by_value = find_thresholds(assessment.edges, keep, state.by_value)
    if sheds:
        parts = [f"{name} gets {percent(wanted[name])}" for name in wanted]
        short = " (as little as was promised, and too much for the lag)" if _is_least(graph, wanted) else ""
        reason = replace(reason, text=f"{reason.text}: {', '.join(parts)}{short}")
    dropped = any(each.kept < each.offered for each in assessment.edges)
    shed_at = assessment.at if dropped or sheds else state.shed_at
    sinks = [
        SinkAccuracy(sink.name, sink.minimum_accuracy, wanted[sink.name], measured.get(sink.name))
        for sink in sorted(graph.sinks.values(), key=lambda each: (-each.priority, each.name))
    ]
    state = replace(state, wanted=wanted if sheds and acts else None, shed_at=shed_at, by_value=by_value)
    return SheddingPlan(tuple(sinks), keep, reason, above), state


def _find_share(
    assessment: Assessment, state: SheddingState, objective_s: float, *, may_begin: bool, is_seen: bool
) -> tuple[float, Reason]:
    """The mean accuracy that the executors carry.

    A batch has a fixed part, so small batches carry less than large ones would. Where the lag leaves room, and the
    share that is ordered ``is_seen`` in the batches that have ended, a greater one is tried.
    """
    rate, lag_s, busy_s = assessment.arrival_rate, assessment.lag_s, sum(each.busy_s for each in state.work)
    begun = state.wanted is not None
    if not begun and not (may_begin and lag_s is not None and lag_s > objective_s / 2):
        return 1.0, Reason(ReasonCode.STEADY, "every record is kept")
    if rate is None or lag_s is None or not busy_s:
        text = "what arrives, or what the executors carry, is not known: the share of the records that is kept stays"
        return state.share, Reason(ReasonCode.METRICS_MISSING, text)
    carried = sum(each.records for each in state.work) / busy_s
    due = (rate + (assessment.backlog_excess or 0.0) / (objective_s / 2)) * max(1.0, 2 * lag_s / objective_s)
    share = min(1.0, _ROOM * carried / due) if due else 1.0
    if begun and lag_s < _SMALL_LAG * objective_s:
        share = min(1.0, max(share, state.share * (_TRY_MORE if is_seen else 1.0)))
    figures = {"carried": carried, "due": due, "lag_s": lag_s, "share": share}
    there = "the executors" if assessment.executors is None else executors(assessment.executors)
    text = f"{per_second(rate)} arrive, {there} carry {per_second(carried)}, the lag is {seconds(lag_s)}"
    if share >= 1.0:
        return 1.0, Reason(ReasonCode.STEADY, f"{text}: every record is kept", figures)
    return share, Reason(ReasonCode.SHEDDING, text, figures)


def _is_least(graph: SheddingGraph, wanted: Mapping[str, float]) -> bool:
    return all(wanted[name] <= sink.minimum_accuracy for name, sink in graph.sinks.items())


def _remember_work(
    assessment: Assessment, state: SheddingState, graph: SheddingGraph, measured: Mapping[str, float]
) -> SheddingState:
    """The state with the batches of this look; work at another number of executors is forgotten."""
    if assessment.executors != state.executors:
        state = replace(state, executors=assessment.executors, work=())
    offered = _count_offered(graph, assessment.edges)
    if not offered or not assessment.edges_s or not measured or assessment.batches < WARM:
        return state
    work = Work(offered * sum(measured.values()) / len(measured), assessment.edges_s)
    return replace(state, work=(*state.work, work)[-_MOST_WORK:])


def _count_offered(graph: SheddingGraph, counts: Iterable[EdgeCount]) -> int:
    """Records of the outside sources. Of several edges of a source each is offered all of them."""
    offered = {each.edge: each.offered for each in counts}
    return sum(max([offered.get(str(Edge(name, end)), 0) for end in ends]) for name, ends in graph.sources.items())


# Accuracies


def measure_accuracy(graph: SheddingGraph, counts: Iterable[EdgeCount]) -> dict[str, float]:
    """Accuracy of each sink by kept ÷ offered of the edges; a sink without a count on its way is left out.

    [S3, eq. 3.3], with measured shares in place of d.

    >>> from rheostat.config.shedding import Sink, declare_shedding
    >>> graph = declare_shedding([Sink("a"), Sink("b")], {"s": ["t"]}, {"t": ["a", "b"]})
    >>> counts = [EdgeCount("s>t", WHOLE, 100, 80), EdgeCount("t>a", WHOLE, 80, 80), EdgeCount("t>b", WHOLE, 80, 40)]
    >>> measure_accuracy(graph, counts)
    {'a': 0.8, 'b': 0.4}
    """
    shares = {each.edge: each.kept / each.offered for each in counts if each.offered}
    accuracy: dict[str, float | None] = dict.fromkeys(graph.sources, 1.0)
    for name in (*graph.tasks, *graph.sinks):
        into = [edge for edge in graph.edges if edge.end == name]
        known = [(accuracy[edge.start], shares.get(str(edge))) for edge in into]
        parts = [before * share for before, share in known if before is not None and share is not None]
        accuracy[name] = sum(parts) / len(parts) if parts and len(parts) == len(known) else None
    return {name: found for name in graph.sinks if (found := accuracy[name]) is not None}


def spread_accuracy(graph: SheddingGraph, mean: float) -> dict[str, float]:
    """The accuracies of the sinks, whose mean is ``mean``: first what was promised, then by priority.

    Sinks of one priority are raised together. If the promises need more than ``mean``, each sink gets its promise.

    >>> from rheostat.config.shedding import Sink, declare_shedding
    >>> graph = declare_shedding([Sink("alerts", 5, 0.7), Sink("report", 0, 0.2)])
    >>> spread_accuracy(graph, 0.55), spread_accuracy(graph, 0.3), spread_accuracy(graph, 0.8)["report"]
    ({'alerts': 0.9, 'report': 0.2}, {'alerts': 0.7, 'report': 0.2}, 0.6)
    """
    accuracy = {name: sink.minimum_accuracy for name, sink in graph.sinks.items()}
    left = mean * len(accuracy) - sum(accuracy.values())
    by_priority = sorted(graph.sinks.values(), key=lambda sink: -sink.priority)
    for _, equals in groupby(by_priority, key=lambda sink: sink.priority):
        sinks = [sink.name for sink in equals]
        level = _find_level(sorted(accuracy[name] for name in sinks), left)
        raised = {name: max(accuracy[name], level) for name in sinks}
        left -= sum(raised[name] - accuracy[name] for name in sinks)
        accuracy |= {name: round(value, 9) for name, value in raised.items()}
    return accuracy


def _find_level(levels: Sequence[float], budget: float) -> float:
    """How high the lowest of these ascending levels can be raised for the budget, at most to 1.

    >>> _find_level([0.2, 0.7], 0.3), _find_level([0.25, 0.75], 1.0), _find_level([0.2, 0.7], 5.0)
    (0.5, 1.0, 1.0)
    """
    for number, next_level in enumerate((*levels[1:], 1.0), 1):
        level = (budget + sum(levels[:number])) / number
        if level <= next_level:
            return level
    return 1.0


def edge_shares(graph: SheddingGraph, wanted: Mapping[str, float]) -> dict[str, int]:
    """Non-drop probability × 10⁶ of each edge that drops [S3, eq. 3.15 and 3.16; 0 ÷ 0 is 0, ours].

    Rounded up, so that no sink gets less than it was promised.

    >>> from rheostat.config.shedding import Sink, declare_shedding
    >>> graph = declare_shedding([Sink("a"), Sink("b")], {"s": ["t"]}, {"t": ["a", "b"]})
    >>> edge_shares(graph, {"a": 0.8, "b": 0.4})
    {'s>t': 800000, 't>b': 500000}
    """
    desired = dict(wanted)
    for name, ends in reversed([*graph.tasks.items()]):
        desired[name] = max(desired[end] for end in ends)
    shares: dict[str, int] = {}
    for edge in graph.edges:
        above = desired.get(edge.start, 1.0)
        share = desired[edge.end] / above if above else 0.0
        keep = min(WHOLE, math.ceil(round(share * WHOLE, 3)))
        if keep < WHOLE:
            shares[str(edge)] = keep
    return shares


# Thresholds of edges that drop by value


_PAID_BACK = 0.25
"""Share of the debt that one look pays back."""


def find_thresholds(
    counts: Iterable[EdgeCount], keep: Mapping[str, int], before: Mapping[str, Values]
) -> tuple[dict[str, Threshold], dict[str, Values]]:
    """The thresholds of edges that drop by value, for the shares that are to be kept, and what is known of them.

    Values change between the batch that they are known of and the one that is dropped from. What that keeps too much
    or too little is a debt, which the share of later batches pays back: so the share is met in expectation.
    """
    known = dict(before)
    offered = {}
    for each in counts:
        if each.values:
            wanted, offered[each.edge] = each.offered * each.keep / WHOLE, each.offered
            owed = before[each.edge].debt if each.edge in before else 0.0
            known[each.edge] = Values(each.values, owed + wanted - each.kept if each.keep < WHOLE else 0.0)
    above = {}
    for edge, values in known.items():
        if edge in keep:
            paid = _PAID_BACK * values.debt / offered[edge] if offered.get(edge) else 0.0
            above[edge] = find_threshold(values.quantiles, min(1.0, max(0.0, keep[edge] / WHOLE + paid)))
    return above, known


def find_threshold(quantiles: Sequence[float], share: float) -> Threshold:
    """The value above which this share of the records lies; of a value that many have, only some are kept.

    >>> find_threshold([0.0, 1.0, 2.0, 3.0, 4.0], 0.3), find_threshold([0.0, 5.0, 5.0, 5.0, 9.0], 0.5)
    (Threshold(value=2.8, tied=0), Threshold(value=5.0, tied=500000))
    """
    parts = len(quantiles) - 1
    place = (1.0 - share) * parts
    number = min(int(place), parts - 1)
    low, high = quantiles[number], quantiles[number + 1]
    if low < high:
        return Threshold(round(low + (place - number) * (high - low), 12), 0)
    first, last = bisect_left(quantiles, low), bisect_right(quantiles, low) - 1
    return Threshold(low, round(WHOLE * (last - place) / (last - first)))
