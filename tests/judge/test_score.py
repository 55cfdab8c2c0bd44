from __future__ import annotations

from math import inf

import pytest

from rheostat.judge.scoring import ScoringCase, cost_parts, judge_score
from rheostat.load.curves import constant
from rheostat.report.score import RunFacts, score
from rheostat.sim.history import History
from rheostat.sim.jobfile import job_of

JOB = job_of(
    {
        "name": "plain",
        "objective": "lag < 20s",
        "executors": [1, 8],
        "trigger_s": 2.0,
        "partitions": 8,
        "stages": [{"name": "read", "cost_ms": 5.0, "task_ms": 0.0}],
        "driver": {"planning_s": 0.0, "commit_s": 0.0},
    }
)
"""Eight equal tasks: C = 200, 400, 533 (three waves), 800 …"""

RUN = RunFacts("0.1.0", "sim", "toy", objective_s=20.0, n_max=8, job="plain", trace="flat", seed=3)


def run():
    """Starts with 1, asks for 3 at second 10, has them at 20; asks for 2 at second 50, has them at 60."""
    return History(
        paid=[(0.0, 1), (10.0, 3), (60.0, 2)],
        ready=[(0.0, 1), (20.0, 3), (60.0, 2)],
        target=[(0.0, 1), (10.0, 3), (50.0, 2)],
        commits=[(0.0, 0, 0.0, 0.0), (30.0, 6000, 30.0, 10.0), (60.0, 15000, 40.0, 10.0), (100.0, 24000, 50.0, 0.0)],
        oldest=[0.0, 20.0, 50.0, inf],
        records_in=24000,
        records_out=24000,
    )


CASE = ScoringCase(JOB, constant(300, 80), start=1, weight=2.0)


def test_every_figure_by_hand():
    got = judge_score(RUN, CASE, run())
    # the demand is 2 for 80 s: one short for 20 s, one too many for 40 s
    assert (got["provisioning_accuracy_o"], got["provisioning_accuracy_u"]) == (0.5, 0.25)
    assert (got["timeshare_o"], got["timeshare_u"]) == (0.5, 0.25)
    assert got["seconds"] == 100.0
    assert got["excess_time"] == 0.25
    assert got["reconfigurations"] == 2
    # 1 × 10 s + 3 × 50 s + 2 × 40 s; two for 100 s carry the peak
    assert got["executor_hours"] == pytest.approx(240 / 3600)
    assert got["static_executor_hours"] == pytest.approx(200 / 3600)
    # lag from 0 to 30, from 10 to 40, from 10 to 50: above 20 for 10, 20 and 30 s
    assert got["violation_share"] == pytest.approx(0.6)
    assert (got["lag_p50_s"], got["lag_p95_s"], got["lag_max_s"]) == pytest.approx((70 / 3, 45.0, 50.0))
    assert got["total_cost"] == pytest.approx((240 + 60 * 2 + 2 * 60) / 3600)
    assert got["optimum_cost"] is None
    assert (got["executors_max"], got["executors_final"]) == (3, 2)
    assert (got["records_in"], got["records_out"], got["records_lost"], got["valid"]) == (24000, 24000, 0, True)


def test_the_keys_are_those_of_the_schema_in_its_order():
    assert list(judge_score(RUN, CASE, run())) == list(score(RUN, ()))


def test_a_change_by_the_first_decision_counts():
    history = run()
    history.target = [(0.0, 3), (50.0, 2)]
    assert cost_parts(CASE, history).changes == 2


def test_costs_at_other_weights_have_the_same_parts():
    parts = cost_parts(CASE, run())
    assert parts.cost(6.0) == pytest.approx((240 + 120 + 6 * 60) / 3600)
    assert parts.cost(2 / 3) == pytest.approx((240 + 120 + 2 / 3 * 60) / 3600)


def test_a_run_that_is_given_up_lasts_until_then_and_does_not_count():
    history = run()
    history.commits, history.oldest = history.commits[:-1], history.oldest[:-1]
    history.records_out = 15000
    got = judge_score(RUN, CASE, history, drained=False, end=150.0)
    assert (got["seconds"], got["valid"], got["lag_max_s"]) == (150.0, False, 100.0)
    assert got["executor_hours"] == pytest.approx((10 + 150 + 2 * 90) / 3600)


@pytest.mark.parametrize(("lost", "doubled"), [(1, 0), (0, 1)])
def test_lost_or_duplicated_records_make_a_run_invalid(lost, doubled):
    history = run()
    history.records_lost, history.records_duplicated = lost, doubled
    assert judge_score(RUN, CASE, history)["valid"] is False
