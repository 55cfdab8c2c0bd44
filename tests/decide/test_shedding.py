"""How much of the records is kept: the sums of Stream Economics, and the plan from one look to the next."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.decide.test_guard import AT, shaped

from rheostat.config.shedding import WHOLE, SheddingGraph, Sink, declare_shedding
from rheostat.decide.qod_model import edge_shares
from rheostat.decide.shedding import (
    SheddingState,
    Values,
    Work,
    find_threshold,
    find_thresholds,
    measure_accuracy,
    plan_shedding,
    spread_accuracy,
)
from rheostat.decide.state import Pending
from rheostat.model import Assessment, EdgeCount, EdgeLoad, ReasonCode

OBJECTIVE_S = 20.0
ONE = declare_shedding([Sink("counts", minimum_accuracy=0.4)], {"records": ["counts"]})


def seen(
    at: float = 100.0,
    edges: tuple[EdgeCount, ...] = (EdgeCount("records>counts", WHOLE, 5000, 5000),),
    busy_s: float = 10.0,
    **figures: Any,
) -> Assessment:
    """One query that may drop: batches of ten seconds did 5 000 records, and 1 000/s arrive."""
    given = {"arrival_rate": 1000.0, "backlog_excess": 0.0, "late_s": 12.0, **figures}
    load = EdgeLoad("q", edges, busy_s, given["arrival_rate"], given["backlog_excess"], given["late_s"])
    return Assessment(at, executors=given.get("executors", 2), batches=5, edge_loads=(load,))


def plan(assessment: Assessment, state: SheddingState | None = None, graph: SheddingGraph = ONE, *, begin: bool = True):
    given_state = SheddingState() if state is None else state
    return plan_shedding(assessment, given_state, graph, objective_s=OBJECTIVE_S, may_begin=begin, acts=True)


# The sums


@st.composite
def graphs(draw: st.DrawFn) -> SheddingGraph:
    """Sources, up to three layers of tasks, and sinks; every task and sink is led to."""
    counts = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(1, 4)))]
    layers = [[f"n{layer}{number}" for number in range(many)] for layer, many in enumerate(counts)]
    layers.append([f"q{number}" for number in range(draw(st.integers(1, 4)))])
    ends: dict[str, set[str]] = {name: set() for layer in layers[:-1] for name in layer}
    for above, below in pairwise(layers):
        for name in above:
            ends[name].add(draw(st.sampled_from(below)))
        for name in below:
            ends[draw(st.sampled_from(above))].add(name)
    sinks = [Sink(name, draw(st.integers(-2, 2)), draw(st.floats(0, 1))) for name in layers[-1]]
    sources = {name: sorted(ends[name]) for name in layers[0]}
    return declare_shedding(sinks, sources, {name: sorted(to) for name, to in ends.items() if name not in sources})


@given(graphs(), st.floats(0, 1))
def test_each_sink_gets_what_was_promised_and_the_rest_goes_by_priority(graph, mean):
    wanted = spread_accuracy(graph, mean)
    sinks = graph.sinks.values()
    assert all(sink.minimum_accuracy - 1e-9 <= wanted[sink.name] <= 1 for sink in sinks)
    assert sum(wanted.values()) == pytest.approx(
        max(mean * len(wanted), sum(sink.minimum_accuracy for sink in sinks)), abs=1e-6
    )
    for above in sinks:
        for below in sinks:
            raised = wanted[below.name] > below.minimum_accuracy + 1e-6
            assert not (above.priority > below.priority and raised) or wanted[above.name] == pytest.approx(1.0)


@given(graphs(), st.floats(0, 1))
def test_what_reaches_each_task_is_the_most_that_is_wanted_behind_it(graph, mean):
    wanted = spread_accuracy(graph, mean)
    keep = {str(edge): edge_shares(graph, wanted).get(str(edge), WHOLE) for edge in graph.edges}
    assert all(0 <= share < WHOLE for share in edge_shares(graph, wanted).values())
    counts = [EdgeCount(edge, share, WHOLE, share) for edge, share in keep.items()]
    got = measure_accuracy(graph, counts)
    assert got == pytest.approx(wanted, abs=1e-4)
    assert all(got[name] >= sink.minimum_accuracy - 1e-9 for name, sink in graph.sinks.items())


def test_the_figure_3_3_of_the_thesis():
    graph = declare_shedding([Sink("A"), Sink("B")], {"s1": ["t"], "s2": ["t"]}, {"t": ["A", "B"]})
    assert edge_shares(graph, {"A": 0.8, "B": 0.4}) == {"s1>t": 800_000, "s2>t": 800_000, "t>B": 500_000}


def test_a_task_that_nobody_wants_gets_nothing():
    graph = declare_shedding([Sink("a"), Sink("b")], {"s": ["t", "b"]}, {"t": ["a"]})
    assert edge_shares(graph, {"a": 0.0, "b": 1.0}) == {"s>t": 0, "t>a": 0}


def test_an_edge_that_was_not_counted_leaves_its_sink_unknown():
    graph = declare_shedding([Sink("a"), Sink("b")], {"s": ["t"]}, {"t": ["a", "b"]})
    counts = [EdgeCount("s>t", WHOLE, 10, 10), EdgeCount("t>a", 500_000, 10, 6)]
    assert measure_accuracy(graph, counts) == {"a": 0.6}


# The plan


def test_overload_is_answered_by_the_share_that_the_executors_carry():
    shed, state = plan(seen())
    # 500/s are carried, a tenth of it stays free; 1 000/s × 12 s ÷ 10 s are due
    assert shed.keep == {"records>counts": 400_000}
    assert shed.reason.code is ReasonCode.SHEDDING
    assert shed.reason.figures["carried"] == 500.0
    assert "counts gets 40 % (as little as was promised)" in shed.reason.text
    assert state.shed_at == 100.0


@pytest.mark.parametrize(
    ("change", "begin"),
    [
        pytest.param({}, False, id="there are more executors to have"),
        pytest.param({"late_s": 9.0}, True, id="a short burst: less than half of the objective is used up"),
        pytest.param({"busy_s": 3.0}, True, id="the executors carry it"),
    ],
)
def test_everything_is_kept(change, begin):
    shed, state = plan(seen(**change), begin=begin)
    assert (shed.keep, state.wanted, state.shed_at) == ({}, None, None)
    assert shed.sinks[0].wanted == 1.0


def test_what_was_dropped_counts_as_no_work():
    _, state = plan(seen(arrival_rate=700.0))
    half = (EdgeCount("records>counts", 500_000, 10_000, 5000),)
    shed, state = plan(seen(115.0, half, late_s=8.0, arrival_rate=700.0), state, begin=False)
    assert shed.reason.figures["carried"] == pytest.approx(500.0)
    assert shed.keep == {"records>counts": math.ceil(0.9 * 500 / 700 * WHOLE)}
    assert shed.sinks[0].measured == 0.5


def test_shedding_ends_when_everything_can_be_kept():
    _, state = plan(seen())
    shed, state = plan(seen(115.0, arrival_rate=300.0, late_s=4.0), state, begin=False)
    assert (shed.keep, state.wanted) == ({}, None)


def test_a_backlog_is_worked_off_within_half_the_objective():
    shed, _ = plan(seen(late_s=10.5, arrival_rate=400.0, backlog_excess=2000.0))
    assert shed.reason.figures["due"] == pytest.approx((400 + 200) * 1.05)


def test_where_the_lag_leaves_room_more_is_tried():
    """Small batches, most of which is their fixed part, carry no more than arrives."""
    small = {"arrival_rate": 50.0, "late_s": 2.0}
    count = EdgeCount("records>counts", WHOLE, 100, 100)
    _, state = plan(seen(100.0, (count,), 2.5, **{**small, "late_s": 12.0}))
    assert state.share == pytest.approx(0.9 * 40 / 60)
    _, state = plan(seen(102.0, (), 0.0, **small), state)
    assert state.share == pytest.approx(0.9 * 40 / 50), "no batch has shown it yet"
    shown = (count._replace(keep=720_000, kept=72),)
    _, state = plan(seen(104.0, shown, 1.8, **small), state)
    assert state.share == pytest.approx(1.1 * 0.72 + 0.05)


def test_a_sink_that_was_given_nothing_gets_its_records_back():
    graph = declare_shedding([Sink("counts")], {"records": ["counts"]})
    none = EdgeCount("records>counts", 0, 1000, 0)
    state = SheddingState({"counts": 0.0}, 90.0, 2, (Work(0.0, 10.0),))
    for look in range(40):
        keep = edge_shares(graph, state.wanted or {"counts": 1.0}).get("records>counts", WHOLE)
        count = none._replace(keep=keep, kept=keep // 1000)
        _, state = plan(seen(100.0 + look, (count,), 1.0, late_s=0.5), state, graph)
    assert state.wanted is None


@pytest.mark.parametrize("unknown", [{"late_s": None}, {"arrival_rate": None}])
def test_while_figures_are_unknown_the_share_stays(unknown):
    before, state = plan(seen())
    shed, after = plan(seen(115.0, (), 0.0, **unknown), state)
    assert (shed.keep, shed.reason.code) == (before.keep, ReasonCode.METRICS_MISSING)
    assert after.wanted == state.wanted


def test_other_executors_have_to_show_what_they_carry():
    _, state = plan(seen())
    shed, state = plan(seen(115.0, (), 0.0, executors=3), state)
    assert (shed.reason.code, state.work) == (ReasonCode.METRICS_MISSING, ())


def test_until_they_do_only_what_was_promised_is_kept_once_records_are_late():
    _, state = plan(seen())
    shed, _ = plan(seen(115.0, (), 0.0, executors=3, late_s=16.0), state)
    assert (shed.sinks[0].wanted, shed.reason.code) == (0.4, ReasonCode.SHEDDING)
    assert "16 s late, and what the executors carry is not known yet" in shed.reason.text


def test_where_nothing_arrives_nothing_is_dropped_and_no_executor_is_held():
    _, state = plan(seen())
    shed, after = plan(seen(115.0, (), 0.0, arrival_rate=0.0, late_s=0.0, executors=3), state)
    assert (shed.keep, after.wanted, after.shed_at) == ({}, None, 100.0)


def test_only_queries_that_may_drop_count():
    """Beside one that arrives at 9 000/s and is a minute late, and has no edges."""
    alone, _ = plan(seen())
    beside, _ = plan(replace(seen(), arrival_rate=10_000.0, lag_s=60.0))
    assert beside.keep == alone.keep
    none, _ = plan(Assessment(100.0, executors=2, batches=5, arrival_rate=9000.0, lag_s=60.0))
    assert none.keep == {}


def test_each_query_of_a_sink_counts_its_copy_of_the_records():
    graph = declare_shedding([Sink("a"), Sink("b")])
    loads = [EdgeLoad(end, (EdgeCount(f"source>{end}", WHOLE, 5000, 5000),), 10.0, 500.0, 0.0, 12.0) for end in "ab"]
    shed, _ = plan(Assessment(100.0, executors=2, batches=5, edge_loads=tuple(loads)), None, graph)
    assert shed.reason.figures["carried"] == 1000.0
    assert shed.reason.figures["due"] == pytest.approx(1200.0)


def test_a_source_that_is_silent_leaves_the_accuracy_of_the_others():
    graph = declare_shedding([Sink("q")], {"s": ["q"], "silent": ["q"]})
    counts = [EdgeCount("s>q", WHOLE, 10, 8), EdgeCount("silent>q", WHOLE, 0, 0)]
    assert measure_accuracy(graph, counts) == {"q": 0.8}
    assert measure_accuracy(graph, counts[:1]) == {}


def test_before_an_edge_that_drops_by_key_or_value_nothing_is_dropped():
    graph = declare_shedding(
        [Sink("q")], {"a": ["j"], "b": ["c"]}, {"c": ["j"], "j": ["q"]}, by_key=[("a", "j"), ("c", "j")]
    )
    assert edge_shares(graph, {"q": 0.5}) == {"a>j": 500_000, "c>j": 500_000}
    graph = declare_shedding([Sink("q"), Sink("r")], {"s": ["t"]}, {"t": ["q", "r"]}, by_value=[("t", "q")])
    assert edge_shares(graph, {"q": 0.2, "r": 0.6}) == {"t>q": 200_000, "t>r": 600_000}


def test_what_another_graph_was_given_is_forgotten():
    _, state = plan(seen())
    graph = declare_shedding([Sink("other")], {"records": ["other"]})
    shed, after = plan(seen(115.0, (), 0.0), state, graph, begin=False)
    assert (shed.keep, after.wanted, after.shed_at) == ({}, None, 100.0)


def test_it_settles_under_a_steady_overload():
    """A queue with batches back to back: 500/s are carried, a second is fixed, 800/s arrive."""
    at, waiting, state, keep, late = 0.0, 0.0, SheddingState(), WHOLE, list[float]()
    batch_s = 2.0
    for _ in range(60):
        offered = 800.0 * batch_s
        batch_s = max(2.0, 1.0 + offered * keep / WHOLE / 500.0)
        at, waiting = at + batch_s, 800.0 * batch_s
        count = EdgeCount("records>counts", keep, round(offered), round(offered * keep / WHOLE))
        late.append(batch_s * 2)
        figures = {"arrival_rate": 800.0, "late_s": late[-1], "backlog_excess": max(0.0, waiting - 8000)}
        shed, state = plan(seen(at, (count,), batch_s, **figures), state)
        keep = shed.keep.get("records>counts", WHOLE)
    assert max(late[5:]) < OBJECTIVE_S
    assert 0.4 <= keep / WHOLE <= 0.7


# Edges that drop by value


def test_values_decide_what_is_kept_and_what_was_owed_is_paid_back():
    quantiles = tuple(float(number) for number in range(65))
    count = EdgeCount("a>b", WHOLE // 2, 1000, 400, quantiles)
    above, known = find_thresholds([count], {"a>b": WHOLE // 2}, {})
    assert known["a>b"].debt == 100
    # a tenth of the records is owed, a quarter of it is paid back at once: 0.525 are kept
    assert above["a>b"].value == pytest.approx(64 * 0.475)
    assert above["a>b"].tied == 0
    later, known = find_thresholds([], {"a>b": WHOLE // 2}, known)
    assert later == {"a>b": (32.0, 0)}
    assert find_thresholds([count._replace(keep=WHOLE, kept=1000)], {}, known) == ({}, {"a>b": Values(quantiles)})
    # a batch that kept everything is no debt without end, and never takes more than a fifth
    burst = find_thresholds([count._replace(offered=10**6, kept=10**6)], {}, {})[1]
    above, known = find_thresholds([count._replace(kept=500)], {"a>b": WHOLE // 2}, burst)
    assert known["a>b"].debt == -1000
    assert above["a>b"].value == pytest.approx(64 * 0.6)


@given(st.lists(st.integers(0, 20), min_size=65, max_size=65), st.floats(0, 1))
def test_the_share_is_met_however_many_records_have_one_value(values, share):
    quantiles = sorted(map(float, values))
    threshold = find_threshold(quantiles, share)
    kept = 0.0
    for low, high in pairwise(quantiles):
        if low == high == threshold.value:
            kept += threshold.tied / WHOLE
        elif high > threshold.value:
            kept += 1.0 if low >= threshold.value else (high - threshold.value) / (high - low)
    assert kept / 64 == pytest.approx(share, abs=1e-6)
    assert 0 <= threshold.tied <= WHOLE


# The decision


def test_figures_of_batches_that_dropped_records_change_nothing():
    target, reason, _ = shaped(3, shed=SheddingState(shed_at=AT - 60))
    assert (target, reason.code) == (5, ReasonCode.SHEDDING)


def test_executors_that_may_be_had_go_before_shedding():
    state = SheddingState(wanted={"counts": 0.5}, shed_at=AT)
    target, reason, _ = shaped(None, shed=state)
    assert (target, reason.code) == (10, ReasonCode.SHEDDING)
    assert reason.text == "50 % of the records are kept: 5 → 10 keep all of them"


def test_no_more_are_asked_for_while_some_are_coming_nor_for_those_that_are_not_there():
    state = SheddingState(wanted={"counts": 0.5}, shed_at=AT, executors=2)
    pending = Pending(1, AT - 10, 2, 4)
    assert shaped(None, shed=state, current=4, state={"pending": pending})[0] == 4
    assert shaped(None, shed=state, current=4)[0] == 4, "two carry half, so four carry all"
    assert shaped(None, shed=state, current=2)[0] == 4
