"""What holds for any sequence of observations."""

from __future__ import annotations

from dataclasses import fields, replace
from math import inf, isfinite, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from rheostat.analyze.assess import NEEDED, analyze
from rheostat.analyze.state import AnalysisSettings, AnalysisState
from rheostat.model import (
    Batch,
    Cluster,
    Executor,
    Observation,
    Offsets,
    PartitionOffsets,
    QueryReading,
    RunningBatch,
    SourceInfo,
)

SETTINGS = AnalysisSettings(objective_lag_s=30.0, rate_window_s=20.0, failure_window_s=20.0)
STATES = TypeAdapter(AnalysisState)

COUNTS = st.none() | st.integers(0, 10**6)
WILD: st.SearchStrategy[Any] = st.sampled_from([nan, inf, -inf, -1, -5])
ANY_COUNT: st.SearchStrategy[Any] = COUNTS | WILD
ANY_TIME = st.floats(0, 1e6) | WILD

parts = st.lists(st.tuples(ANY_COUNT, ANY_COUNT, ANY_COUNT), min_size=1, max_size=3).map(
    lambda rows: tuple(PartitionOffsets("t", i, *row) for i, row in enumerate(rows))
)
executors = st.lists(st.tuples(ANY_COUNT, ANY_COUNT, ANY_COUNT, ANY_TIME), max_size=3).map(
    lambda rows: tuple(Executor(str(i), "h", c or 0, a or 0, f or 0, f or 0, b) for i, (c, a, f, b) in enumerate(rows))
)
queries = st.builds(
    QueryReading,
    query_id=st.sampled_from(["a", "b"]),
    run_id=st.sampled_from(["1", "2"]),
    name=st.none(),
    trigger_s=st.none() | ANY_TIME,
    sources=st.just((SourceInfo("kafka", "t", 3, 1000),)),
    offsets=st.none() | st.builds(Offsets.of, at=ANY_TIME, partitions=parts),
    batch=st.none() | st.builds(Batch, at=ANY_TIME, batch_id=st.integers(0, 9), duration_s=ANY_TIME, records=ANY_COUNT),
    running=st.none() | st.builds(RunningBatch, at=ANY_TIME, active=st.booleans(), since=st.none() | ANY_TIME),
)
observations = st.builds(
    Observation,
    at=st.floats(0, 1e6),
    queries=st.lists(queries, max_size=2, unique_by=lambda query: query.query_id).map(tuple),
    cluster=st.none() | st.builds(Cluster.of, at=ANY_TIME, executors=executors, requested=ANY_COUNT),
)


def assessed(looks):
    state = AnalysisState()
    for look in looks:
        seen, state = analyze(look, state, SETTINGS)
        yield seen, state


@given(st.lists(observations, max_size=6))
def test_whatever_is_observed_no_impossible_figure_gets_through(looks):
    for seen, _ in assessed(looks):
        for field in fields(seen):
            value = getattr(seen, field.name)
            if isinstance(value, int | float):
                assert isfinite(value), field.name
                assert value >= 0, field.name
        assert seen.missing == tuple(name for name in NEEDED if getattr(seen, name) is None)
        assert seen.backlog is None or seen.waiting is None or seen.waiting + seen.in_flight == seen.backlog


@given(st.lists(observations, max_size=6))
def test_the_state_goes_through_json_unchanged(looks):
    for _, state in assessed(looks):
        assert STATES.validate_json(STATES.dump_json(state)) == state


steps = st.lists(
    st.tuples(st.integers(1, 200), st.lists(st.integers(0, 5000), min_size=2, max_size=2), st.floats(0, 1)),
    min_size=2,
    max_size=12,
)


def healthy(moves, *, scale=1, shift=0.0):
    """Looks at a source whose partitions grow by the moves and are committed to a share of what there was before.

    Times are multiples of 1/8 s, so that shifting them loses nothing.
    """
    at, latest, committed = 1.0, [0, 0], [0, 0]
    for number, (eighths, arrivals, share) in enumerate(moves):
        at += eighths / 8
        committed = [max(c, int(share * seen)) for c, seen in zip(committed, latest, strict=True)]
        latest = [seen + more for seen, more in zip(latest, arrivals, strict=True)]
        rows = enumerate(zip(latest, committed, strict=True))
        found = tuple(PartitionOffsets("t", i, scale * end, scale * done, scale * done) for i, (end, done) in rows)
        now = at + shift
        query = QueryReading("q", "r", None, 2.0, (), Offsets.of(now, found), Batch(now - 0.5, number, 1.5))
        yield Observation(now, (query,), Cluster.of(now, (Executor("0", "h", 2, 1, 0, number, 1.0 * number),)))


@given(steps, st.integers(2, 1000))
def test_k_times_the_records_are_k_times_the_rates_and_the_same_lag(moves, k):
    pairs = zip(assessed(healthy(moves)), assessed(healthy(moves, scale=k)), strict=True)
    for (one, _), (many, _) in pairs:
        for name in ("lag_s", "occupancy", "batch_s", "busy_ratio", "batches", "draining", "missing"):
            assert getattr(many, name) == pytest.approx(getattr(one, name)), name
        for name in ("arrival_rate", "processed_rate", "backlog", "waiting", "in_flight"):
            single = getattr(one, name)
            expected = None if single is None else pytest.approx(k * single, rel=1e-9, abs=1e-6)
            assert getattr(many, name) == expected, name
        if one.backlog_excess is not None:  # what counts vary by weighs less, the more records there are
            assert many.backlog_excess >= k * one.backlog_excess - 1e-6


@given(steps, st.integers(1, 2**30))
def test_the_same_at_another_time_is_the_same(moves, shift):
    for (here, _), (there, _) in zip(assessed(healthy(moves)), assessed(healthy(moves, shift=shift)), strict=True):
        ended = tuple(replace(batch, at=batch.at - shift) for batch in there.ended)
        moved = replace(there, at=here.at, ended=ended)
        for field in fields(here):
            one, other = getattr(here, field.name), getattr(moved, field.name)
            assert other == (pytest.approx(one, rel=1e-6, abs=1e-6) if isinstance(one, float) else one), field.name


@given(steps, st.data())
def test_a_figure_that_is_left_out_never_becomes_a_known_one(moves, data):
    looks = list(healthy(moves))
    last = looks[-1].queries[0]
    assert last.offsets is not None
    which = data.draw(st.integers(0, 1))
    name = data.draw(st.sampled_from(["latest", "committed"]))
    rows = list(last.offsets.partitions)
    rows[which] = rows[which]._replace(**{name: None})
    blind = replace(looks[-1], queries=(replace(last, offsets=Offsets.of(last.offsets.at, rows)),))
    *_, (seen, _) = assessed([*looks[:-1], blind])
    for figure in ("backlog", "waiting", "in_flight", "backlog_excess", "lag_s"):
        assert getattr(seen, figure) is None, figure
    assert {"backlog", "backlog_excess", "lag_s"} <= set(seen.missing)


@given(st.lists(st.integers(1, 40), min_size=60, max_size=60), st.booleans())
def test_the_state_is_bounded(gaps, stuck):
    moves = [(eighths, [100, 100], 0.0 if stuck else 1.0) for eighths in gaps]
    *_, (_, state) = assessed(healthy(moves))
    (query,) = state.queries
    assert len(query.offsets.times) == len(query.offsets.rows) <= SETTINGS.max_samples
    assert len(query.marks) <= SETTINGS.max_samples
    assert len(state.cluster.intervals) <= SETTINGS.max_samples


@given(steps)
def test_the_order_of_the_executors_says_nothing(moves):
    ordered, turned = AnalysisState(), AnalysisState()
    for number, look in enumerate(healthy(moves)):
        order = 1 if number % 2 else -1
        both = (
            Executor("0", "h", 2, number % 3, 0, number, 1.0 * number, 0.5),
            Executor("1", "h", 1, 0, 0, 3, 2.5, 0.5),
        )
        seen, ordered = analyze(replace(look, cluster=Cluster.of(look.at, both)), ordered, SETTINGS)
        expected, turned = analyze(replace(look, cluster=Cluster.of(look.at, both[::order])), turned, SETTINGS)
        for field in fields(seen):
            one, other = getattr(seen, field.name), getattr(expected, field.name)
            assert one == (pytest.approx(other, rel=1e-9, abs=1e-6) if isinstance(other, float) else other), field.name
