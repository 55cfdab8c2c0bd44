"""Jobs that real users have and a smooth load never shows: spikes, dumps, long triggers, one partition behind."""

from dataclasses import replace

import pytest
from tests.policies.samples import Fixed, decision_settings, reactive, seen

from rheostat.decide.decide import decide
from rheostat.decide.effectiveness import settled_rate
from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.decide.rates import busy_rate
from rheostat.load.shapes import parse_shape
from rheostat.model import Objective, ReasonCode, StageLoad
from rheostat.policies.capacity import Figure, Learned, expected_wait, learn_healthy

SPIKE = {"arrival_rate": 5000.0, "backlog": 100_000, "backlog_excess": 40_000.0, "lag_s": 8.0, "period_s": 15.0}
BATCH = {"last_batch_records": 100_000, "last_batch_s": 10.0, "batch_s": 10.0, "last_batch_id": 4}


@pytest.mark.parametrize("name", ["reactive", "router", "mst"])
def test_a_spike_that_is_gone_in_time_is_no_violation(name):
    """100 000 records at 10 000/s take 10 s of 30 s, however large a share of what arrives they are."""
    policy = load_policy(name, {}, PolicyContext(Objective(30.0), 15.0))
    answer, _ = policy.recommend(seen(**SPIKE, **BATCH, pressure=0.9), policy.initial())
    assert answer.target is not None
    assert answer.target <= 3, answer.reason.text


def test_samples_count_from_the_first_batch_and_the_second_one_allows_the_decrease():
    policy = reactive()
    state, targets = policy.initial(), list[int | None]()
    for place in range(14):
        batch = {"last_batch_id": place // 12, "last_batch_records": 9000, "last_batch_s": 9.0, "batch_s": 9.0}
        sample = seen(1000.0 + 15 * place, executors=8, batches=1 + place // 12, busy_ratio=0.6, **batch)
        answer, state = policy.recommend(sample, state)
        targets.append(answer.target)
    assert targets == [8] * 12 + [6] * 2


@pytest.mark.parametrize(("silent_s", "least", "most"), [(0.0, 5, 7), (600.0, 1, 1)])
@pytest.mark.parametrize("name", ["reactive", "router", "mst"])
def test_an_ample_start_is_given_back_under_spikes_down_to_what_the_next_one_needs(name, silent_s, least, most):
    """100 000 records every 30 s, each in one batch at 1000/s for each executor: 0.9 x 30 s - 10 s are left for them.

    Half of the samples see a backlog beyond a healthy one. After ten minutes without a spike it is forgotten.
    """
    policy, n, spikes = load_policy(name, {}, PolicyContext(Objective(30.0), 15.0)), 12, 60
    state = policy.initial()
    for place in range(2 * spikes + round(silent_s / 15)):
        waits, batch_s, over = place % 2 == 1, 100.0 / n, place >= 2 * spikes
        figures = {"arrival_rate": 0.0, "processed_rate": 0.0, "backlog": 0} if over else {"arrival_rate": 3333.0}
        if waits and not over:
            figures |= {"backlog": 100_000, "backlog_excess": 50_000.0, "lag_s": 5.0}
        batch = {"last_batch_id": min(place, 2 * spikes) // 2, "last_batch_records": 100_000, "last_batch_s": batch_s}
        own = {"processed_rate": 3333.0, "backlog": 0, "occupancy": batch_s / 15, "batch_s": batch_s, "busy_ratio": 0.3}
        sample = seen(1000.0 + 15 * place, executors=n, pressure=0.0, idle=over, **{**own, **batch, **figures})
        answer, state = policy.recommend(sample, state)
        n = answer.target or n
    assert least <= n <= most


def test_a_wait_goes_by_the_batch_and_not_by_a_window_that_spans_idle_time():
    dump = seen(backlog=12_500, processed_rate=29.2, last_batch_records=100_000, last_batch_s=44.25, batch_s=44.25)
    assert expected_wait(dump) == pytest.approx(5.53, abs=0.01)


def test_a_window_that_spans_idle_time_is_no_speed_of_several_queries_either():
    """Batches ran in 2 % of the window: 30/s ÷ 0.02, where 10 s ÷ 6 s would give 50/s."""
    dump = seen(queries=2, processed_rate=30.0, running_share=0.02, batch_s=6.0, work_s=None)
    assert (busy_rate(dump), settled_rate(dump)) == (1500.0, 1500.0)


def test_one_record_in_a_short_batch_says_nothing_about_a_thousand():
    assert expected_wait(seen(backlog=1000, last_batch_records=1, last_batch_s=0.7, batch_s=0.7)) is None


def test_a_batch_is_learned_from_once():
    learned, sample = Learned(), seen(last_batch_id=7, last_batch_records=6000, last_batch_s=6.0)
    for _ in range(3):
        learned = learn_healthy(sample, learned)
    assert (learned.figures, learned.recent) == ((), (1000.0,))
    learned = learn_healthy(replace(sample, last_batch_id=8), learned)
    assert [(each.executors, each.rate, each.samples) for each in learned.figures] == [(3, 1000.0, 0)]


def test_a_bound_is_enough_for_a_decrease_and_never_says_that_more_are_needed():
    night = Learned(figures=(Figure(1, 5.0, 0, 0.0),))
    assert (night.enough(4.0), night.limit(1), night.enough_above(5000.0, 1)) == (1, None, 2)


@pytest.mark.parametrize(("trigger_s", "lower"), [(10.0, True), (300.0, False)])
def test_many_samples_within_a_trigger_are_one_low_trigger(trigger_s, lower):
    policy = reactive()
    state, targets = policy.initial(), list[int | None]()
    for place in range(12):
        sample = seen(1000.0 + 15 * place, executors=8, trigger_s=trigger_s, period_s=max(15.0, trigger_s))
        answer, state = policy.recommend(sample, state)
        targets.append(answer.target)
    assert (targets[-1] != 8) == lower


@pytest.mark.parametrize(("current", "target"), [(500, 334), (18, 12), (5, 4)])
def test_a_step_down_is_a_share_of_a_large_number(current, target):
    decisions = decision_settings(Fixed(1), (1, 1000), largest_step_down=1)
    sample = seen(executors=current, requested=current, partitions=5000)
    decision, _ = decide(sample, decisions.initial(), decisions)
    assert decision.target == target


@pytest.mark.parametrize("name", ["reactive", "router", "mst"])
def test_a_partition_that_is_behind_is_a_violation_and_named_where_executors_do_not_help(name):
    late = seen(lag_s=300.0, requested=3, pressure=0.0, behind="partition 5 of clicks", backlog_excess=100.0)
    policy = load_policy(name, {}, PolicyContext(Objective(30.0), 15.0))
    assert (policy.recommend(late, policy.initial())[0].target or 0) > 3
    decisions = decision_settings(policy)
    decision, _ = decide(late, decisions.initial(), decisions)
    assert (decision.target, decision.reason.code) == (3, ReasonCode.USELESS_EXECUTORS)
    assert "partition 5 of clicks is 300 s behind and the others are not" in decision.reason.text


@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(
            {"stages": (StageLoad(8, 0.6), StageLoad(200, 0.4)), "partitions": 8}, id="a stage with more tasks"
        ),
        pytest.param({"queries": 2, "busy_ratio": 0.9}, id="another query keeps the slots busy"),
    ],
)
def test_a_partition_that_is_behind_gets_executors_where_they_help(sample):
    late = seen(lag_s=300.0, requested=3, pressure=0.0, behind="partition 5 of clicks", backlog_excess=100.0, **sample)
    decisions = decision_settings(load_policy("reactive", {}, PolicyContext(Objective(30.0), 15.0)))
    decision, _ = decide(late, decisions.initial(), decisions)
    assert (decision.target or 0) > 3


def test_poisson_arrivals_have_their_rate_and_come_one_by_one():
    curve = parse_shape("poisson:0.2@14400,seed=3")
    assert curve.cumulative(14_400) == pytest.approx(2880, rel=0.1)
    assert {round(curve.rate(second + 0.5)) for second in range(600)} <= {0, 1, 2, 3, 4}
