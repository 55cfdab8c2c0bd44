from dataclasses import replace
from typing import Any

import pytest
from tests.plan.samples import OVERLOAD, reactive, seen

from rheostat.plan.capacity import Learned, cap_limits, from_arrival, from_healthy, from_overload, usage
from rheostat.plan.reactive import ReactiveState


def overload(arrival: float, processed: float | None, executors: int = 1, **more: Any):
    return replace(OVERLOAD, arrival_rate=arrival, processed_rate=processed, executors=executors, **more)


@pytest.mark.parametrize(
    ("before", "sample", "w_max", "shown"),
    [
        pytest.param(Learned(), overload(900.0, 400.0), 400.0, 400.0, id="the first overload"),
        pytest.param(Learned(400.0, 1, 400.0), overload(900.0, 600.0, 2), 350.0, 300.0, id="the mean of two"),
        pytest.param(Learned(100.0, 1), overload(900.0, 400.0), 250.0, 400.0, id="a cold first one is not believed"),
        pytest.param(Learned(400.0, 1, 500.0), overload(900.0, 300.0), 350.0, 300.0, id="overload ends what was shown"),
        pytest.param(Learned(300.0, 1), overload(900.0, 1400.0, 2), 300.0, 700.0, id="catching up is no overload"),
        pytest.param(Learned(300.0, 1, 800.0), overload(900.0, 1400.0, 2), 300.0, 800.0, id="catching up never lowers"),
        pytest.param(Learned(300.0, 1), overload(900.0, None), 300.0, None, id="an unknown rate teaches nothing"),
        pytest.param(Learned(300.0, 1), overload(900.0, 0.0), 300.0, None, id="a standstill teaches nothing"),
        pytest.param(
            Learned(300.0, 1), overload(900.0, 100.0, capped=True, batch_s=5.0), 300.0, None, id="nor does a capped job"
        ),
        pytest.param(Learned(400.0, 90), overload(900.0, 100.0), 340.0, 100.0, id="the past weighs four samples"),
    ],
)
def test_overload(before, sample, w_max, shown):
    learned = from_overload(sample, before, memory=5)
    assert learned.w_max == pytest.approx(w_max)
    assert learned.shown == shown


def test_the_documents_rule_takes_the_arrival_and_never_forgets():
    learned = from_arrival(overload(900.0, 400.0, 3), Learned(400.0, 3), memory=None)
    assert (learned.w_max, learned.samples, learned.shown) == (375.0, 4, None)


@pytest.mark.parametrize(
    ("sample", "rate"),
    [
        pytest.param(seen(batch_s=6.0, trigger_s=10.0, executors=3), 1000 / 3, id="600/s in 6 s of 10"),
        pytest.param(seen(arrival_rate=500.0, batch_s=10.0), 500 / 3, id="the lesser of arrival and processed"),
        pytest.param(seen(trigger_s=0.0, batch_s=2.0), 200.0, id="back to back all time is busy"),
    ],
)
def test_three_healthy_samples_show_what_an_executor_carries(sample, rate):
    learned = Learned(100.0, 1, 100.0)
    for _ in range(2):
        learned = from_healthy(sample, learned)
    assert learned.shown == 100.0
    assert from_healthy(sample, learned).shown == pytest.approx(rate)


def test_one_outlier_shows_nothing():
    learned = Learned(100.0, 1, 100.0)
    for batch_s in (6.0, 6.0, 0.5, 6.0, 6.0):
        learned = from_healthy(seen(batch_s=batch_s), learned)
    assert learned.shown == pytest.approx(1000 / 3)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"processed_rate": None}, id="unknown rate"),
        pytest.param({"batch_s": None}, id="unknown batch"),
        pytest.param({"backlog_excess": 1.0}, id="some excess"),
        pytest.param({"arrival_rate": 0.0}, id="no load"),
    ],
)
def test_a_sample_that_shows_nothing_ends_the_row(changes):
    learned = from_healthy(seen(**changes), Learned(100.0, 1, 100.0, (300.0, 300.0)))
    assert learned == Learned(100.0, 1, 100.0, ())


def test_a_capacity_from_a_cold_phase_does_not_keep_the_job_large_for_ever():
    """Learned 100/s where 400/s is true: 300/s on 4 executors would need 4 for ever."""
    policy, state = reactive(), ReactiveState(Learned(100.0, 1, 100.0), executors=4, since=0.0, at=985.0)
    targets = []
    for i in range(12):
        sample = seen(1000.0 + 15 * i, executors=4, arrival_rate=300.0, processed_rate=300.0, batch_s=2.0)
        proposal, state = policy.recommend(sample, state)
        targets.append(proposal.target)
    assert (targets[8], targets[11]) == (4, 1)
    paper, state = reactive("faithful"), ReactiveState(Learned(100.0, 1), executors=4, since=0.0, at=985.0)
    assert {
        paper.recommend(seen(1000.0 + 15 * i, executors=4, arrival_rate=300.0), state)[0].target for i in range(12)
    } == {4}


def test_nothing_is_learned_before_the_number_has_settled():
    policy = reactive()
    for changes in ({"batches": 1}, {"requested": 2}):
        _, state = policy.recommend(overload(900.0, 100.0, **changes), policy.initial())
        assert state.learned == Learned()


@pytest.mark.parametrize(
    ("changes", "limits"),
    [
        pytest.param({"capped": True, "batch_s": 8.9}, True, id="full and early"),
        pytest.param({"capped": True, "batch_s": 9.1}, False, id="full and just in time"),
        pytest.param({"capped": False, "batch_s": 1.0}, False, id="not full"),
        pytest.param({"capped": None, "batch_s": 1.0}, False, id="unknown"),
        pytest.param({"capped": True, "batch_s": 1.0, "trigger_s": 0.0}, False, id="back to back"),
    ],
)
def test_the_batch_cap_limits(changes, limits):
    assert cap_limits(seen(**changes)) == limits


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, 0.6, id="batch over trigger"),
        pytest.param({"busy_ratio": 0.7}, 0.7, id="busy ratio"),
        pytest.param({"occupancy": 0.8}, 0.8, id="occupancy"),
        pytest.param({"trigger_s": 0.0, "busy_ratio": None}, None, id="occupancy alone says too little"),
    ],
)
def test_usage_is_the_greatest_that_is_known(changes, expected):
    assert usage(seen(**changes)) == expected
