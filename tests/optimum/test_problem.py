"""A job reduced to what no run of it can exceed, by hand."""

from __future__ import annotations

import pytest
from tests.sim.jobs import PLAIN, plain, stage

from rheostat.load.curves import constant
from rheostat.optimum.dynamic_program import problem_of
from rheostat.sim.events import CodeChange, CostDrift, DeadExecutor, SkewChange, SlowExecutor
from rheostat.sim.jobfile import job_of

LOAD = constant(100, 600)
FIXED = {"driver": {"planning_s": 0.6, "commit_s": 0.4}, "partitions": 4, "executors": [1, 4]}
"""A second of each batch is lost, τ is 10 s: C(1) = 9 s ÷ 5 ms ÷ 10 s = 180, R(1) = 200 records/s."""


def seen(job):
    return problem_of(job, LOAD, 1, 4.0)


def test_a_fixed_part():
    got = seen(plain(**FIXED))
    assert got.capacity == pytest.approx((0, 180, 360, 360, 720))
    assert got.long_rate == pytest.approx((0, 200, 400, 400, 800))
    # half of what is processed in a second; twice of it, and a record that each partition may be behind
    assert got.carried == pytest.approx((0, 100, 200, 200, 400), rel=1e-6)
    assert got.slack[1:] == pytest.approx((404, 804, 804, 1604), rel=1e-6)
    assert (got.objective_s, got.step_s, got.n_min, got.n_max, got.start, got.weight) == (20.0, 15.0, 1, 4, 1, 4.0)


def test_a_cap_of_half_a_batch_is_paid_for_with_two_fixed_parts():
    # 900 records take 1 + 4.5 s on one executor, and are not ended sooner on two than the next trigger
    got = seen(plain(**FIXED, batch_cap=900))
    assert got.capacity[1] == got.long_rate[1] == pytest.approx(900 / 5.5)
    assert got.slack[1] == pytest.approx(404, rel=1e-6)


def test_a_capped_batch_that_waits_for_its_trigger_may_come_whole():
    got = seen(plain(**FIXED, batch_cap=900, trigger_s=8.0))
    assert got.capacity[1:] == pytest.approx((112.5, 112.5, 112.5, 112.5))
    assert got.slack[1:] == pytest.approx((904, 904, 904, 904))


def test_a_record_at_a_time_job_has_no_batches():
    record = {"alpha": 100.0, "beta": 1.0, "commit_every_s": 2.0}
    got = seen(job_of({**PLAIN, "model": "record", "stages": [], "record": record, "executors": [1, 3]}))
    assert got.capacity == got.long_rate == (0.0, 100.0, 200.0, 300.0)
    assert got.carried == (0.0, 0.0, 0.0, 0.0)
    assert got.slack[1:] == (201.0, 401.0, 601.0)


@pytest.mark.parametrize(
    ("events", "best", "free"),
    [
        pytest.param([], 200.0, 0, id="none"),
        pytest.param([CodeChange(kind="code", at_s=9, factor=0.5)], 400.0, 0, id="faster code"),
        pytest.param([CodeChange(kind="code", at_s=9, factor=2.0)], 200.0, 0, id="slower code"),
        pytest.param([CostDrift(kind="drift", at_s=9, factor=0.5)], 400.0, 0, id="faster and faster"),
        pytest.param([SlowExecutor(kind="slow", at_s=9)], 200.0, 0, id="a slow executor"),
        pytest.param([DeadExecutor(kind="dead", at_s=9)], 200.0, 2, id="a dead executor, and the change back"),
    ],
)
def test_events_count_where_they_make_a_run_cheaper(events, best, free):
    job = plain().model_copy(update={"events": tuple(events)})
    got = seen(job)
    assert (got.capacity[1], got.free_changes) == (pytest.approx(best), free)


def test_the_most_even_partitions_count():
    job = plain(partitions=2, partition_skew=1.0, executors=[1, 2])
    even = job.model_copy(update={"events": (SkewChange(kind="skew", at_s=9, skew=0.0),)})
    # with shares of 2/3 and 1/3 the second executor waits for the first
    assert seen(job).capacity == pytest.approx((0, 200, 300))
    assert seen(even).capacity == pytest.approx((0, 200, 400))


@pytest.mark.parametrize(
    ("start_up", "least"),
    [
        pytest.param({"median_s": 30.0, "p95_s": 30.0}, 30.0, id="it does not vary"),
        pytest.param({"median_s": 10.0, "p95_s": 20.0}, 10 * 2 ** (-3.0902 / 1.6449), id="one in a thousand is faster"),
    ],
)
def test_the_least_start_up(start_up, least):
    assert seen(plain(executor={"start_up": start_up})).start_up_s == pytest.approx(least, rel=1e-4)


def test_more_executors_never_do_less():
    got = seen(plain(stages=stage(5.0), partitions=1, exponent=0.5))
    assert list(got.capacity) == sorted(got.capacity)
    assert got.capacity[8] == pytest.approx(200.0)
