from __future__ import annotations

import pytest

from rheostat.journal.records import DecisionRecord, OutcomeRecord
from rheostat.model import (
    Action,
    Assessment,
    Decision,
    Observation,
    Outcome,
    OutcomeStatus,
    Reason,
    ReasonCode,
    Recommendation,
)
from rheostat.report.score import Counts, RunFacts, Sample, samples_of, score

RUN = RunFacts("0.1.0", "spark", "reactive", objective_s=10.0, n_max=4, job="click_fraud")
RISE = [
    Sample(0.0, 1, 1, 2.0),
    Sample(100.0, 1, 4, 20.0),
    Sample(200.0, 4, 4, 8.0),
    Sample(300.0, 4, 2, 4.0),
    Sample(400.0, 2, 2, 4.0),
]


def test_the_score_of_a_rise_and_a_fall():
    got = score(RUN, RISE)
    # 1 × 100 s, then 4 × 300 s: asked for at 100 s, gone at 400 s
    assert got["executor_hours"] == pytest.approx(1300 / 3600)
    assert got["static_executor_hours"] == pytest.approx(1600 / 3600)
    assert got["seconds"] == 400.0
    assert got["reconfigurations"] == 2
    assert (got["executors_max"], got["executors_final"]) == (4, 2)
    assert got["violation_share"] == 0.25
    assert (got["lag_p50_s"], got["lag_p95_s"], got["lag_max_s"]) == (4.0, 20.0, 20.0)
    assert (got["n_max"], got["objective_s"], got["engine"], got["job"]) == (4, 10.0, "spark", "click_fraud")


def test_the_keys_are_those_of_the_schema():
    expected = (
        "schema version engine policy job trace seed seconds n_max objective_s records_in records_out records_lost "
        "records_duplicated records_shed provisioning_accuracy_o provisioning_accuracy_u timeshare_o timeshare_u "
        "excess_time reconfigurations executor_hours static_executor_hours violation_share lag_p50_s lag_p95_s "
        "lag_max_s total_cost optimum_cost valid executors_max executors_final"
    )
    assert set(score(RUN, RISE)) == set(expected.split())


@pytest.mark.parametrize(
    ("window", "hours", "violation", "final"),
    [
        pytest.param((150.0, 350.0), 800 / 3600, 0.25, 4, id="cut at both ends"),
        pytest.param((0.0, 500.0), 1500 / 3600, 0.2, 2, id="the last sample holds until the end"),
    ],
)
def test_a_window_cuts_the_run(window, hours, violation, final):
    got = score(RUN, RISE, window=window)
    assert got["executor_hours"] == pytest.approx(hours)
    assert got["violation_share"] == pytest.approx(violation)
    assert got["executors_final"] == final


def test_an_unknown_lag_is_neither_kept_nor_violated():
    samples = [Sample(0.0, 1, 1, 20.0), Sample(10.0, 1, 1, None), Sample(40.0, 1, 1, 1.0), Sample(70.0, 1, 1, 1.0)]
    assert score(RUN, samples)["violation_share"] == 0.25


def test_a_lag_that_nobody_looked_at_becomes_unknown_while_executors_cost_on():
    samples = [Sample(0.0, 2, 2, 1.0), Sample(3600.0, None, None, 20.0), Sample(3630.0, 2, 2, 1.0)]
    got = score(RUN, samples, stale_after_s=30.0)
    assert got["violation_share"] == 0.5
    assert got["executor_hours"] == pytest.approx(2 * 3630 / 3600)


def test_what_was_not_measured_is_null():
    got = score(RUN, [])
    nulls = {key for key, value in got.items() if value is None}
    assert {"executor_hours", "static_executor_hours", "violation_share", "lag_p95_s", "records_in", "valid"} <= nulls
    assert got["reconfigurations"] == 0


@pytest.mark.parametrize(
    ("counts", "valid"),
    [
        pytest.param(Counts(10, 10, 0, 0), True, id="every record once"),
        pytest.param(Counts(10, 9, 1, 0), False, id="one lost"),
        pytest.param(Counts(10, 11, 0, 1), False, id="one doubled"),
        pytest.param(Counts(10, 10), None, id="not checked"),
    ],
)
def test_lost_or_doubled_records_make_a_run_invalid(counts, valid):
    assert score(RUN, RISE, counts=counts)["valid"] is valid


def cycle(at, number, executors, requested, target):
    action = Action.HOLD if target is None else Action.UP
    reason = Reason(ReasonCode.STEADY, "steady")
    decision = Decision(at, number, action, requested, target or requested, reason, Recommendation(target, reason))
    seen = Assessment(at, executors=executors, requested=requested, lag_s=1.0)
    return DecisionRecord.of(Observation(at), seen, decision)


def test_a_journal_tells_what_was_asked_for_and_what_was_only_recorded():
    recorded = Outcome(20.0, 2, OutcomeStatus.RECORDED, Reason(ReasonCode.DRY_RUN, "a dry run"), 9)
    journal = [
        cycle(0.0, 1, 1, None, 3),
        cycle(10.0, 2, 2, 3, 9),
        OutcomeRecord(20.0, recorded),
        cycle(20.0, 3, 3, 3, None),
    ]
    assert samples_of(journal) == [
        Sample(0.0, 1, 3, 1.0),
        Sample(10.0, 2, 3, 1.0),
        Sample(20.0, 3, 3, 1.0),
    ]
