"""What accuracies are measured by, and promises in other measures than records."""

from __future__ import annotations

import random
from statistics import fmean, pstdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.decide.test_shedding import OBJECTIVE_S, seen

from rheostat.config.shedding import WHOLE, Sink, declare_shedding
from rheostat.decide.accuracy import AggregateError, JoinRecall, Measure, Records, Seen, Weight, measures_of
from rheostat.decide.shedding import SheddingState, Work, plan_shedding
from rheostat.errors import InputError
from rheostat.model import Assessment, EdgeCount, EdgeLoad
from rheostat.plugins import Plugins

VALUES = (0.0, 1.0, 2.0, 10.0, 100.0)
MEASURES = [Records(), JoinRecall(), JoinRecall(3), AggregateError(), AggregateError(0.2, 0.99, 5), Weight()]


@pytest.mark.parametrize("measure", MEASURES, ids=str)
@given(accuracy=st.floats(0.01, 0.99), offered=st.integers(1, 100_000))
def test_the_share_that_is_needed_gives_the_accuracy(measure: Measure, accuracy: float, offered: int):
    known = Seen(offered, VALUES)
    share = measure.needed(accuracy, known)
    assert 0 <= share <= 1
    assert measure.reached(share, known) == pytest.approx(accuracy, abs=1e-6)


@pytest.mark.parametrize("measure", MEASURES, ids=str)
@given(shares=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_more_records_are_never_less_accurate(measure: Measure, shares: tuple[float, float]):
    low, high = sorted(shares)
    known = Seen(1000, VALUES)
    assert measure.reached(low, known) <= measure.reached(high, known) + 1e-9
    assert measure.reached(1.0, known) == pytest.approx(1.0)


def test_the_error_of_a_sum_is_what_dropping_at_random_gives():
    """95 % of the weighted sums of kept records lie within it."""
    chance = random.Random(5)
    values = [chance.expovariate(1.0) for _ in range(2000)]
    exact, share = sum(values), 0.3
    errors = []
    for _ in range(400):
        kept = sum(value for value in values if chance.random() < share) / share
        errors.append(kept / exact - 1)
    error = 1 - AggregateError(pstdev(values) / fmean(values)).reached(share, Seen(len(values)))
    assert sum(abs(each) <= error for each in errors) / len(errors) == pytest.approx(0.95, abs=0.04)


def test_a_promise_in_another_measure_is_kept_by_the_share_that_it_needs():
    sinks = [Sink("pairs", 0, 0.25, "join-recall"), Sink("counts", 0, 0.1)]
    graph = declare_shedding(sinks, {"records": ["pairs", "counts"]})
    edges = tuple(EdgeCount(f"records>{name}", WHOLE // 2, 5000, 2500) for name in graph.sinks)
    state = SheddingState(wanted={"pairs": 0.5, "counts": 0.1}, executors=2, work=(Work(1000, 10.0),))
    plan, _ = plan_shedding(
        seen(edges=edges), state, graph, objective_s=OBJECTIVE_S, may_begin=True, acts=True, measures=measures_of(graph)
    )
    found = {sink.sink: sink for sink in plan.sinks}
    assert [found["pairs"].minimum, found["pairs"].wanted] == pytest.approx([0.5, 0.5])
    assert (found["pairs"].measured, found["pairs"].reached) == (0.5, 0.25)
    assert found["counts"].reached is None


@pytest.mark.parametrize(("needed", "reached"), [(float("nan"), 0.5), (1.5, 0.5), (0.5, "x"), (0.5, -0.1)])
def test_a_measure_has_to_answer_with_shares(needed, reached, monkeypatch):
    class Odd:
        def needed(self, _minimum, _seen):
            return needed

        def reached(self, _share, _seen):
            return reached

    monkeypatch.setattr(Plugins, "load", lambda *_: Odd)
    with pytest.raises(InputError, match="no number from 0 to 1"):
        measures_of(declare_shedding([Sink("a", 0, 0.5, "odd")]))


def test_wrong_measures_are_named_all_at_once():
    wrong: list[dict[str, Any]] = [{"confidence": 95}, {"groups": 0}, {"variation": "2"}]
    sinks = [Sink("a", 0, 0.5, "recall"), Sink("b", 0, 0.5, "join-recall", {"tables": 2})]
    sinks.append(Sink("d", 0, 0.5, measure_options={"tables": 2}))
    sinks += [Sink(f"c{number}", 0, 0.5, "aggregate-error", options) for number, options in enumerate(wrong)]
    with pytest.raises(InputError) as error:
        measures_of(declare_shedding(sinks))
    assert [(fault.field, fault.given) for fault in error.value.faults] == [
        ("measure", "'recall'"),
        ("sinks.b.measure_options", "{'tables': 2}"),
        ("sinks.d.measure_options", "{'tables': 2}"),
        *((f"sinks.c{number}.measure_options", repr(options)) for number, options in enumerate(wrong)),
    ]


def test_a_look_without_batches_or_with_several_queries_changes_no_promise():
    """Two queries read the same records; between looks with batches there are looks without."""
    sinks = [Sink("sums", 0, 0.9, "aggregate-error"), Sink("counts", 0, 0.1)]
    graph = declare_shedding(sinks, {"records": ["sums", "counts"]})
    state = SheddingState(wanted={"sums": 0.9, "counts": 0.1}, executors=2, work=(Work(1000, 10.0),))
    minima = []
    for at, offered in [(100.0, 2000), (102.0, 0), (104.0, 2000)]:
        counts = {name: (EdgeCount(f"records>{name}", WHOLE, offered, offered),) for name in graph.sinks}
        loads = [EdgeLoad(name, edges, 5.0, 500.0, 0.0, 12.0) for name, edges in counts.items() if offered]
        looked = Assessment(at, executors=2, batches=5, edge_loads=tuple(loads))
        plan, state = plan_shedding(
            looked, state, graph, objective_s=OBJECTIVE_S, may_begin=True, acts=True, measures=measures_of(graph)
        )
        minima += [sink.minimum for sink in plan.sinks if sink.sink == "sums"]
    assert minima == [pytest.approx(AggregateError().needed(0.9, Seen(2000)))] * 3
