"""The expected wait: falling behind is seen before records are slow."""

from dataclasses import replace

import pytest

from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.model import Assessment, Objective, ReasonCode

RISING = Assessment(
    at=100.0,
    executors=1,
    requested=1,
    slots_per_executor=1,
    arrival_rate=700.0,
    processed_rate=350.0,
    backlog=4900,
    backlog_excess=0.0,
    lag_s=9.0,
    batch_s=6.0,
    trigger_s=2.0,
    period_s=10.0,
    occupancy=0.6,
    batches=5,
    queries=1,
)


@pytest.mark.parametrize(
    ("change", "code", "target"),
    [
        pytest.param({}, ReasonCode.SLA_VIOLATED, 2, id="14 s of backlog and falling behind"),
        pytest.param({"backlog": 4000}, ReasonCode.SLA_VIOLATED, 2, id="11.4 s of backlog, but twice as much arrives"),
        pytest.param(
            {"backlog": 4000, "arrival_rate": 365.0},
            ReasonCode.CAPACITY_UNKNOWN,
            1,
            id="11.4 s of backlog are within 12 s",
        ),
        pytest.param({"processed_rate": 700.0}, ReasonCode.CAPACITY_UNKNOWN, 1, id="it keeps up"),
        pytest.param({"processed_rate": None}, ReasonCode.CAPACITY_UNKNOWN, 1, id="the speed is unknown"),
        pytest.param(
            {"batch_s": 0.5}, ReasonCode.CAPACITY_UNKNOWN, 1, id="batches of a quarter of the trigger are fast"
        ),
    ],
)
def test_falling_behind_is_a_violation(change, code, target):
    policy = load_policy("reactive", {}, PolicyContext(Objective(20.0), 2.0))
    proposed, _ = policy.recommend(replace(RISING, **change), policy.initial())
    assert (proposed.reason.code, proposed.target) == (code, target)


def test_the_published_policy_does_not_look_at_it():
    policy = load_policy("reactive", {"preset": "faithful"}, PolicyContext(Objective(20.0), 2.0))
    proposed, _ = policy.recommend(RISING, policy.initial())
    assert proposed.reason.code is ReasonCode.CAPACITY_UNKNOWN
