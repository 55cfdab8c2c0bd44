"""Several queries, gaps, ages, draining: what is put together from the parts."""

from __future__ import annotations

from math import nan

import pytest

from rheostat.analyze.assess import NEEDED, analysis_settings, analyze
from rheostat.analyze.state import AnalysisSettings, AnalysisState
from rheostat.config.loading import load_settings
from rheostat.model import (
    Assessment,
    Batch,
    Cluster,
    Executor,
    Gap,
    Observation,
    Offsets,
    PartitionOffsets,
    QueryReading,
    RunningBatch,
    SourceInfo,
    Unmeasured,
)

SETTINGS = AnalysisSettings(objective_lag_s=30.0, rate_window_s=20.0)
CLUSTER = (Executor("0", "host", 1, 0),)


def query(name, at, latest, committed, *, batch=None, trigger_s=2.0, **more):
    offsets = Offsets.of(at, (PartitionOffsets("clicks", 0, latest, committed, committed),))
    return QueryReading(name, "run", None, trigger_s, offsets=offsets, batch=batch or Batch(at, 1, 1.0), **more)


def run(*observations: Observation) -> Assessment:
    state, seen = AnalysisState(), Assessment(0.0)
    for observation in observations:
        seen, state = analyze(observation, state, SETTINGS)
    return seen


def test_two_queries_sum_rates_and_backlogs_and_take_the_worst_of_the_rest():
    first = Observation(
        0.0,
        (query("a", 0.0, 0, 0, batch=Batch(0.0, 1, 1.0)), query("b", 0.0, 0, 0, batch=Batch(0.0, 5, 3.0))),
        Cluster.of(0.0, CLUSTER),
    )
    second = Observation(
        10.0,
        (
            query("a", 10.0, 1000, 900, batch=Batch(9.0, 4, 1.0), trigger_s=2.0),
            query("b", 10.0, 500, 0, batch=Batch(9.0, 6, 30.0), trigger_s=60.0),
        ),
        Cluster.of(10.0, CLUSTER),
    )
    seen = run(first, second)
    assert seen.queries == 2
    assert seen.arrival_rate == 150.0
    assert seen.processed_rate == 100.0  # 900 ÷ 9 s, and nothing in 9 s
    assert (seen.waiting, seen.in_flight, seen.backlog) == (600, 0, 600)
    assert seen.backlog_excess == 0.0  # a: 100 of 300; b: 500 of 4500
    assert (seen.last_batch_s, seen.last_batch_id) == (30.0, 4 + 6)
    assert seen.lag_s == 10.0  # b's record 0; a's record 900 is 1 s old
    assert (seen.batch_s, seen.trigger_s, seen.period_s) == (30.0, 60.0, 60.0)
    assert seen.occupancy == 0.5  # b: 30 of 60 s; a: 1 of 15 s
    assert seen.batches == 0  # a: 2 after the one assumed in flight; b: none
    assert seen.partitions == 2


def test_occupancy_is_the_worst_querys_own_even_if_the_longest_batch_is_anothers():
    queries = (
        query("slow", 0.0, 0, 0, batch=Batch(0.0, 1, 20.0), trigger_s=60.0),
        query("late", 0.0, 0, 0, batch=Batch(0.0, 1, 9.0), trigger_s=2.0),
    )
    assert run(Observation(0.0, queries)).occupancy == 0.6


def test_excess_of_one_query_is_not_offset_by_room_in_another():
    first = Observation(0.0, (query("a", 0.0, 0, 0), query("b", 0.0, 0, 0)))
    second = Observation(10.0, (query("a", 10.0, 1000, 0), query("b", 10.0, 1000, 1000)))
    assert run(first, second).backlog_excess == pytest.approx(
        700 - 1 - 3 * 300**0.5
    )  # a: 1000 − 100 × (2 + 1), and what counts vary by


def test_a_failed_query_does_not_count():
    failed = query("b", 10.0, 9000, 0, failed_because="boom")
    seen = run(
        Observation(0.0, (query("a", 0.0, 0, 0),), Cluster.of(0.0, CLUSTER)),
        Observation(10.0, (query("a", 10.0, 1000, 900), failed), Cluster.of(10.0, CLUSTER)),
    )
    assert (seen.queries, seen.backlog, seen.missing) == (1, 100, ())


def test_without_a_query_everything_needed_of_one_is_missing():
    seen = run(Observation(0.0, cluster=Cluster.of(0.0, CLUSTER), gaps=(Gap("queries", "the UI is off"),)))
    assert seen.queries == 0
    assert seen.missing == tuple(name for name in NEEDED if name != "executors")
    assert (seen.backlog, seen.capped, seen.batches) == (None, None, 0)


def test_a_query_without_offsets_is_left_out_and_named():
    blind = QueryReading("b", "run", None, 2.0, batch=Batch(10.0, 1, 1.0))
    seen = run(
        Observation(0.0, (query("a", 0.0, 0, 0), blind)), Observation(10.0, (query("a", 10.0, 1000, 900), blind))
    )
    assert (seen.missing, seen.backlog, seen.arrival_rate, seen.lag_s, seen.backlog_excess) == (
        ("executors",),
        *(100, 100.0, 1.0, 0.0),
    )
    assert seen.queries == 2
    assert [each.query_id for each in seen.by_query] == ["a"]
    assert seen.unmeasured == (Unmeasured("b", 0.0, ("arrival_rate", "backlog", "backlog_excess", "lag_s")),)


def test_an_impossible_figure_of_one_query_leaves_that_one_out():
    seen = run(*(Observation(at, (query("a", at, 100 * at, 0), query("b", at, -1, 0))) for at in (0.0, 10.0)))
    assert (seen.invalid, seen.arrival_rate) == ((), 100.0)
    assert seen.unmeasured == (Unmeasured("b", 0.0, ("offsets.latest",)),)
    seen = run(*(Observation(at, (query("a", at, -1, 0), query("b", at, -1, 0))) for at in (0.0, 10.0)))
    assert (seen.invalid, seen.unmeasured) == (("offsets.latest",), ())


def test_a_query_that_was_unknown_for_a_moment_is_known_again():
    blind = QueryReading("b", "run", None, 2.0, batch=Batch(20.0, 1, 1.0))
    looks = [
        *[Observation(at, (query("a", at, 0, 0), query("b", at, 0, 0))) for at in (0.0, 10.0)],
        Observation(20.0, (query("a", 20.0, 500, 500), blind)),
    ]
    assert [each.since for each in run(*looks).unmeasured] == [20.0]
    seen = run(*looks, Observation(30.0, (query("a", 30.0, 1000, 900), query("b", 30.0, 600, 600))))
    assert (seen.missing, seen.unmeasured, seen.arrival_rate) == (("executors",), (), 80.0)


def test_a_source_that_can_never_be_counted_is_named_also_alone():
    rate = QueryReading("b", "run", "ticks", 2.0, batch=Batch(10.0, 1, 1.0), uncountable="rate")
    seen = run(Observation(0.0, (rate,)), Observation(10.0, (rate,)))
    assert "backlog" in seen.missing
    assert [(each.query, each.source) for each in seen.unmeasured] == [("ticks", "rate")]


def test_a_gap_in_the_offsets_costs_one_cycle_and_no_history():
    blind = QueryReading("a", "run", None, 2.0, batch=Batch(10.0, 1, 1.0))
    looks = [Observation(0.0, (query("a", 0.0, 0, 0),)), Observation(5.0, (blind,))]
    assert run(*looks).arrival_rate is None
    assert run(*looks, Observation(10.0, (query("a", 10.0, 1000, 500),))).arrival_rate == 100.0


@pytest.mark.parametrize(
    ("back_at", "rate"),
    [
        pytest.param(20.0, 50.0, id="within the window: it goes on"),
        pytest.param(60.0, None, id="later: from the start"),
    ],
)
def test_a_query_that_was_away_comes_back(back_at, rate):
    looks = (Observation(0.0, (query("a", 0.0, 0, 0),)), Observation(back_at - 1.0))
    assert run(*looks, Observation(back_at, (query("a", back_at, 1000, 500),))).arrival_rate == rate


@pytest.mark.parametrize(
    ("backlog", "arriving", "processed", "draining", "drain_s"),
    [
        pytest.param(1000, 100, 150, True, 20.0, id="1000 at 50 more than arrive"),
        pytest.param(1000, 100, 100, False, None, id="as much as arrives: never"),
        pytest.param(1000, 150, 100, False, None, id="less than arrives: never"),
        pytest.param(0, 150, 100, False, 0.0, id="nothing to drain"),
        pytest.param(1000, 100, None, None, None, id="processed rate unknown"),
    ],
)
def test_drain(backlog, arriving, processed, draining, drain_s):
    end = 100_000
    start = end - 10 * arriving
    done = end - backlog
    before = None if processed is None else done - 10 * processed
    first = query("a", 0.0, start, before, batch=Batch(0.0, 1, 1.0))
    second = query("a", 10.0, end, done, batch=Batch(10.0, 2, 1.0))
    seen = run(Observation(0.0, (first,)), Observation(10.0, (second,)))
    assert (seen.backlog, seen.draining, seen.drain_s) == (backlog, draining, drain_s)


@pytest.mark.parametrize(
    ("offsets_at", "cluster_at", "running_at", "age_s"),
    [
        pytest.param(100.0, 100.0, 100.0, 0.0, id="all fresh"),
        pytest.param(70.0, 100.0, 100.0, 30.0, id="old offsets"),
        pytest.param(100.0, 60.0, 100.0, 40.0, id="old executors"),
        pytest.param(100.0, 100.0, 95.0, 5.0, id="old look at the running batch"),
        pytest.param(100.0, 100.0, None, 0.0, id="nothing said about a running batch"),
        pytest.param(100.5, 100.4, 100.3, 0.0, id="read just after the observation began"),
        pytest.param(None, None, None, None, id="nothing read"),
        pytest.param(nan, 90.0, None, 10.0, id="an impossible time is not read"),
    ],
)
def test_age_is_that_of_the_oldest_reading_whatever_the_age_of_the_last_batch(
    offsets_at, cluster_at, running_at, age_s
):
    offsets = None if offsets_at is None else Offsets.of(offsets_at, (PartitionOffsets("clicks", 0, 5, 5, 5),))
    running = None if running_at is None else RunningBatch(running_at, active=True, since=1.0)
    reading = QueryReading("a", "run", None, 2.0, offsets=offsets, batch=Batch(1.0, 1, 1.0), running=running)
    cluster = None if cluster_at is None else Cluster.of(cluster_at, CLUSTER)
    assert run(Observation(100.0, (reading,), cluster)).metrics_age_s == age_s


@pytest.mark.parametrize(
    ("capped", "expected"),
    [
        pytest.param((True, None), True, id="one is capped"),
        pytest.param((False, None), None, id="one is unknown"),
        pytest.param((False, False), False, id="none is capped"),
    ],
)
def test_capped_over_two_queries(capped, expected):
    records = {True: 100, False: 10, None: None}
    queries = [
        query(
            str(i),
            0.0,
            500,
            0,
            batch=Batch(0.0, 1, 1.0, records=records[each]),
            sources=(SourceInfo("log", "l", 1, 100),),
        )
        for i, each in enumerate(capped)
    ]
    assert run(Observation(0.0, tuple(queries))).capped is expected


def test_partitions_are_known_from_the_plan_before_there_are_offsets():
    reading = QueryReading("a", "run", None, 2.0, sources=(SourceInfo("kafka", "a", 6), SourceInfo("kafka", "b", 2)))
    assert run(Observation(0.0, (reading,))).partitions == 8


def test_the_settings_of_a_job_give_those_of_the_analysis():
    job = load_settings({"objective": "lag < 20s", "executors": [1, 4], "profile": "demo"})
    assert analysis_settings(job) == AnalysisSettings(objective_lag_s=20.0, rate_window_s=10.0, failure_window_s=10.0)


def test_the_last_batch_is_the_finished_one_however_long_the_running_one():
    running = RunningBatch(50.0, active=True, since=10.0)
    seen = run(Observation(50.0, (query("a", 50.0, 9, 0, batch=Batch(9.0, 4, 1.5), running=running),)))
    assert (seen.batch_s, seen.last_batch_s, seen.last_batch_id) == (40.0, 1.5, 4)
