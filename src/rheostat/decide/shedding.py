"""How much of the records is kept when there are no more executors to have [S3, for the graph; ours, for the amount].

The executors carry W records/s at full accuracy. If more arrive, every sink gets the accuracy that was promised, and
what W allows beyond that goes to sinks by priority. Shedding begins when the lag has used up half of the objective, so
a short burst loses nothing, and ends when all records can be kept.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple

from rheostat.analyze.state import largest, total
from rheostat.config.shedding import WHOLE, Edge, SheddingGraph
from rheostat.decide.accuracy import Measure, Seen, in_records
from rheostat.decide.qod_model import edge_shares, wanted_accuracy
from rheostat.decide.qod_queries import QueryPlan, blend_processors, plan_queries
from rheostat.model import Assessment, EdgeCount, Processors, Reason, ReasonCode, SheddingPlan, SinkAccuracy, Threshold
from rheostat.text import executors, per_second, percent, seconds

_ROOM = 0.9
"""Share of what executors carry that is planned with: with all of it, long batches would stay long."""
WARM = 2
"""Batches at a number of executors, from which on they show what the executors carry: the first one may be cold."""
_SMALL_LAG, _TRY_MORE, _TRY_AT_LEAST = 0.25, 1.1, 0.05
"""Lateness ÷ the objective below which more is kept than batches show to be possible, and how much more."""
_BELIEVED = 0.75
"""Lateness ÷ the objective beyond which the batches are believed, not the processors; where batches tell nothing yet,
only what was promised is kept."""
_MOST_WORK = 4
"""Looks at the work of a query that are remembered."""


class Values(NamedTuple):
    """What is known of the values of an edge that drops by value.

    Attributes:
        quantiles: of the offered records, newest.
        debt: records that should have been kept so far, and were not.
    """

    quantiles: tuple[float, ...]
    debt: float = 0.0


class Work(NamedTuple):
    """What batches of one query did.

    Attributes:
        records: that arrived × the mean accuracy of its sinks: the work in records of full accuracy.
        busy_s: duration of the batches.
    """

    records: float
    busy_s: float
    query_id: str = ""


@dataclass(frozen=True, slots=True)
class SheddingState:
    """What is remembered of shedding.

    Attributes:
        wanted: accuracy of each sink; None: everything is kept.
        shed_at: when records were last dropped.
        executors: number at which ``work`` was done.
        work: newest last.
        processors: who used how much of them lately, by looks at this number; ``processors_at``: the last of those.
        seen: what was offered to each sink, in the last look in which something was; empty where all promises are
            shares of the records.
        by_value: of the edges that drop by value.
        move: a node that lacks the time for what was promised, and one that has it; None: nobody need move.
    """

    wanted: Mapping[str, float] | None = None
    shed_at: float | None = None
    executors: int | None = None
    work: tuple[Work, ...] = ()
    by_value: Mapping[str, Values] = field(default_factory=dict)
    processors: Processors | None = None
    processors_at: float | None = None
    seen: Mapping[str, Seen] = field(default_factory=dict)
    move: tuple[str, str] | None = None

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
    measures: Mapping[str, Measure] | None = None,
) -> tuple[SheddingPlan, SheddingState]:
    """Which accuracy each sink gets from the next batch on.

    Args:
        assessment: with the counts of the edges.
        state: of the plan before.
        graph: with what was promised.
        objective_s: the lag that must hold.
        may_begin: whether there are no more executors to have; shedding that has begun goes on in any case.
        acts: whether the plan is carried out; else everything is kept.
        measures: of the accuracy of each sink; None: all are promised shares of the records.
    """
    if state.wanted is not None and state.wanted.keys() != graph.sinks.keys():
        state = SheddingState(shed_at=state.shed_at)  # of a run before, with another graph
    edges = assessment.edges
    measured = measure_accuracy(graph, edges)
    seen = dict[str, Seen]()
    if measures is not None:
        seen = {name: _see(graph, name, assessment, state) for name in graph.sinks}
        graph = in_records(graph, measures, seen)
    offered = sum(_count_offered(graph, load.edges) for load in assessment.edge_loads)
    state = replace(_remember_work(assessment, state, graph, objective_s), seen=seen)
    ordered = {} if state.wanted is None else edge_shares(graph, state.wanted)
    is_seen = bool(edges) and all(each.keep == ordered.get(each.edge, WHOLE) for each in edges)
    begins = may_begin and acts
    share, reason = _find_share(assessment, state, objective_s, may_begin=begins, is_seen=is_seen)
    wanted, move = spread_accuracy(graph, share), None
    if share < 1.0:
        queries = _plan_queries(assessment, state, graph, objective_s)
        if queries is not None:
            wanted = dict(queries.wanted)
            move = next(iter(queries.moves), None) if assessment.batches >= WARM else None
            reason = replace(reason, text=f"{reason.text}; {queries.text}")
        else:
            reason = replace(reason, text=f"{reason.text}{_say_one_more(graph, share, wanted, assessment.executors)}")
    keep = edge_shares(graph, wanted)
    sheds = bool(keep)
    above, by_value = find_thresholds(edges, keep, state.by_value)
    if sheds:
        parts = [f"{name} gets {percent(wanted[name])}" for name in wanted]
        short = " (as little as was promised)" if _is_least(graph, wanted) else ""
        reason = replace(reason, text=f"{reason.text}: {', '.join(parts)}{short}")
    dropped = any(each.kept < each.offered for each in edges)
    shed_at = assessment.at if dropped or (sheds and offered) else state.shed_at
    sinks = [
        SinkAccuracy(sink.name, sink.minimum_accuracy, wanted[sink.name], measured.get(sink.name))
        for sink in graph.by_priority
    ]
    if measures is not None:
        others = {name for name, sink in graph.sinks.items() if sink.measure != "records"}
        sinks = [_reach(each, measures, seen) if each.sink in others else each for each in sinks]
    state = replace(state, wanted=wanted if sheds and acts else None, shed_at=shed_at, by_value=by_value, move=move)
    return SheddingPlan(tuple(sinks), keep, reason, above), state


def _see(graph: SheddingGraph, sink: str, assessment: Assessment, state: SheddingState) -> Seen:
    """The records that would reach a sink if nothing were dropped, and the values of the edge that drops by them.

    Of the queries that read them, the one that has read most; where no batch has ended, as in the look before.
    """
    before = [edge for edge in graph.edges if sink in graph.reachable(edge.end)]
    came, values = 0, tuple[float, ...]()
    for load in assessment.edge_loads:
        known = {each.edge: each for each in load.edges}
        passed = [(edge, known[str(edge)]) for edge in before if str(edge) in known]
        came = max(came, sum(count.offered for edge, count in passed if edge.start in graph.sources))
        values = next((count.values for edge, count in passed if edge in graph.by_value), values)
    return Seen(came, values) if came else state.seen.get(sink, Seen(0))


def _reach(sink: SinkAccuracy, measures: Mapping[str, Measure], seen: Mapping[str, Seen]) -> SinkAccuracy:
    """With the accuracy that was reached, by the sink's own measure."""
    if sink.measured is None:
        return sink
    return replace(sink, reached=measures[sink.sink].reached(sink.measured, seen[sink.sink]))


def _plan_queries(
    assessment: Assessment, state: SheddingState, graph: SheddingGraph, objective_s: float
) -> QueryPlan | None:
    """What the processors allow, where they are known; not where records are so late that it was wrong."""
    late_s = largest(each.late_s for each in assessment.edge_loads)
    if state.processors is None or late_s is None or late_s > _BELIEVED * objective_s:
        return None
    return plan_queries(graph, state.processors, objective_s / 2)


def _say_one_more(graph: SheddingGraph, share: float, wanted: Mapping[str, float], there: int | None) -> str:
    """What one executor more would keep, of the sink that would gain most.

    >>> from rheostat.config.shedding import Sink, declare_shedding
    >>> _say_one_more(declare_shedding([Sink("a"), Sink("b", 1)]), 0.8, {"a": 0.6, "b": 1.0}, 4)
    '; one executor more would have kept 40 % more of a'
    """
    if not there:
        return ""
    more = spread_accuracy(graph, min(1.0, share * (there + 1) / there))
    gains = {name: accuracy - wanted[name] for name, accuracy in more.items()}
    name = max(gains, key=lambda each: gains[each])
    return f"; one executor more would have kept {percent(gains[name])} more of {name}" if gains[name] > 0 else ""


def _find_share(
    assessment: Assessment, state: SheddingState, objective_s: float, *, may_begin: bool, is_seen: bool
) -> tuple[float, Reason]:
    """The mean accuracy that the executors carry, by the queries that may drop.

    A batch has a fixed part, so small batches carry less than large ones would. Where the lag leaves room, and the
    share that is ordered ``is_seen`` in the batches that have ended, a greater one is tried.
    """
    loads, carried = assessment.edge_loads, _find_carried(state.work)
    rate, excess = total(each.arrival_rate for each in loads), total(each.backlog_excess for each in loads)
    late_s, begun = largest(each.late_s for each in loads), state.wanted is not None
    if not begun and not (may_begin and late_s is not None and late_s > objective_s / 2):
        return 1.0, Reason(ReasonCode.STEADY, "every record is kept")
    if rate == 0 and not excess:
        return 1.0, Reason(ReasonCode.STEADY, "nothing arrives: every record is kept")
    if begun and carried is None and late_s is not None and late_s > _BELIEVED * objective_s:
        text = f"records are {seconds(late_s)} late, and what the executors carry is not known yet"
        return 0.0, Reason(ReasonCode.SHEDDING, text, {"late_s": late_s})
    if not loads or rate is None or late_s is None or carried is None:
        text = "what arrives, or what the executors carry, is not known: the share of the records that is kept stays"
        return state.share, Reason(ReasonCode.METRICS_MISSING, text)
    due = (rate + (excess or 0.0) / (objective_s / 2)) * max(1.0, 2 * late_s / objective_s)
    share = min(1.0, _ROOM * carried / due) if due else 1.0
    if begun and late_s < _SMALL_LAG * objective_s:
        more = _TRY_MORE * state.share + _TRY_AT_LEAST if is_seen else state.share
        share = min(1.0, max(share, more))
    figures = {"carried": carried, "due": due, "late_s": late_s, "share": share}
    there = "the executors" if assessment.executors is None else executors(assessment.executors)
    text = f"{per_second(rate)} arrive, {there} carry {per_second(carried)}, records are {seconds(late_s)} late"
    if share >= 1.0:
        return 1.0, Reason(ReasonCode.STEADY, f"{text}: every record is kept", figures)
    return share, Reason(ReasonCode.SHEDDING, text, figures)


def _find_carried(work: Sequence[Work]) -> float | None:
    """Records/s of full accuracy. Queries run side by side, and their batches do not end together.

    >>> _find_carried([Work(100.0, 10.0, "a"), Work(140.0, 10.0, "a"), Work(30.0, 5.0, "b")])
    18.0
    """
    found: dict[str, list[Work]] = {}
    for each in work:
        found.setdefault(each.query_id, []).append(each)
    rates = [sum(each.records for each in mine) / sum(each.busy_s for each in mine) for mine in found.values()]
    return sum(rates) if rates else None


def _is_least(graph: SheddingGraph, wanted: Mapping[str, float]) -> bool:
    return all(wanted[name] <= sink.minimum_accuracy for name, sink in graph.sinks.items())


def _remember_work(
    assessment: Assessment, state: SheddingState, graph: SheddingGraph, objective_s: float
) -> SheddingState:
    """The state with the batches of this look; what is of another number of executors is forgotten.

    So is what the processors told longer ago than the objective.
    """
    at, now = assessment.at, assessment.processors
    if assessment.executors != state.executors:
        state = replace(state, executors=assessment.executors, work=(), processors=None, processors_at=None)
    known_at = at if now is not None else state.processors_at
    known = blend_processors(state.processors, now) if known_at is not None and at - known_at <= objective_s else None
    state = replace(state, processors=known, processors_at=known_at)
    if assessment.batches < WARM:
        return state
    work = list(state.work)
    for load in assessment.edge_loads:
        offered, measured = _count_offered(graph, load.edges), measure_accuracy(graph, load.edges)
        if offered and load.busy_s and measured:
            before = [each for each in work if each.query_id == load.query_id]
            if len(before) >= _MOST_WORK:
                work.remove(before[0])
            work.append(Work(offered * sum(measured.values()) / len(measured), load.busy_s, load.query_id))
    return replace(state, work=tuple(work))


def _count_offered(graph: SheddingGraph, counts: Iterable[EdgeCount]) -> int:
    """Records of the outside sources in one query. Of several edges of a source each is offered all of them."""
    offered = {each.edge: each.offered for each in counts}
    return sum(max([offered.get(str(Edge(name, end)), 0) for end in ends]) for name, ends in graph.sources.items())


# Accuracies


def measure_accuracy(graph: SheddingGraph, counts: Iterable[EdgeCount]) -> dict[str, float]:
    """Accuracy of each sink by kept ÷ offered of the edges [S3, eq. 3.3, with measured shares in place of d].

    An edge that nothing came to plays no part; a sink with an edge on its way that was not counted is left out.

    >>> from rheostat.config.shedding import Sink, declare_shedding
    >>> graph = declare_shedding([Sink("a"), Sink("b")], {"s": ["t"]}, {"t": ["a", "b"]})
    >>> counts = [EdgeCount("s>t", WHOLE, 100, 80), EdgeCount("t>a", WHOLE, 80, 80), EdgeCount("t>b", WHOLE, 80, 40)]
    >>> measure_accuracy(graph, counts)
    {'a': 0.8, 'b': 0.4}
    """
    known = {each.edge: each for each in counts}
    accuracy: dict[str, float | None] = dict.fromkeys(graph.sources, 1.0)
    for name in (*graph.tasks, *graph.sinks):
        into = [(accuracy[edge.start], known.get(str(edge))) for edge in graph.edges if edge.end == name]
        active = [(before, count) for before, count in into if count is None or count.offered]
        parts = [
            (before, count.kept / count.offered) for before, count in active if before is not None and count is not None
        ]
        accuracy[name] = wanted_accuracy(parts) if parts and len(parts) == len(active) else None
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
    for _, equals in groupby(graph.by_priority, key=lambda sink: sink.priority):
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


# Thresholds of edges that drop by value


_PAID_BACK, _LEAST_PAID = 0.25, 0.8
"""Share of the debt that one look pays back, and the least share of what is to be kept that it leaves."""


def find_thresholds(
    counts: Iterable[EdgeCount], keep: Mapping[str, int], before: Mapping[str, Values]
) -> tuple[dict[str, Threshold], dict[str, Values]]:
    """The thresholds of edges that drop by value, for the shares that are to be kept, and what is known of them.

    Values change between the batch that they are known of and the one that is dropped from. What that keeps too much
    or too little is a debt, which the share of later batches pays back: so the share is met in expectation.
    """
    known, offered = dict(before), dict[str, int]()
    for each in counts:
        if each.values and each.offered:
            owed = before[each.edge].debt if each.edge in before else 0.0
            debt = owed + each.offered * each.keep / WHOLE - each.kept if each.keep < WHOLE else 0.0
            known[each.edge] = Values(each.values, min(each.offered, max(-each.offered, debt)))
            offered[each.edge] = each.offered
    above = {}
    for edge, values in known.items():
        if edge in keep:
            share = keep[edge] / WHOLE
            paid = _PAID_BACK * values.debt / offered[edge] if edge in offered else 0.0
            above[edge] = find_threshold(values.quantiles, min(1.0, max(_LEAST_PAID * share, share + paid)))
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
