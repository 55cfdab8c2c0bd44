"""S4: the relative change of the lag, and what ``hpa`` makes of it."""

import pytest
from tests.policies.samples import seen

from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.errors import InputError
from rheostat.model import Objective, ReasonCode
from rheostat.policies.hpa import fit_slope, gate_by_lag, relative_change

CONTEXT = PolicyContext(Objective(30.0), 15.0)


def test_the_slope_is_that_of_the_least_squares():
    assert fit_slope([(0.0, 0.0), (1.0, 3.0), (2.0, 3.0)]) == pytest.approx(1.5)
    assert fit_slope([(7.0, 5.0)]) is None
    assert fit_slope([(7.0, 5.0), (7.0, 6.0)]) is None


def test_the_relative_change_is_arrival_over_consumption():
    assert relative_change(per_second=1500.0 - 1000.0, consumed=1000.0) == 1.5
    assert relative_change(per_second=700.0 - 1000.0, consumed=1000.0) == pytest.approx(0.7)
    assert relative_change(per_second=10.0, consumed=0.0) is None


def test_below_the_threshold_a_fast_growing_lag_is_hidden():
    assert gate_by_lag(3.0, lag=999.0, threshold=1000.0) == -3.0
    assert gate_by_lag(3.0, lag=1000.0, threshold=1000.0) is None


def run(samples, **options):
    """The last recommendation of a run over ``(at, backlog, excess, processed, busy)``, ten executors in force."""
    policy = load_policy("hpa", {"preset": "s4", **options}, CONTEXT)
    state, answer = policy.initial(), None
    for at, backlog, excess, processed, busy in samples:
        one = seen(
            at=at,
            executors=10,
            requested=10,
            backlog=backlog,
            backlog_excess=excess,
            processed_rate=processed,
            busy_ratio=busy,
        )
        answer, state = policy.recommend(one, state)
    return answer


def lags(first, change, excess, processed=1000.0, busy=1.0):
    """Five samples of a minute in which the lag changes by so many records a second."""
    return [(15.0 * i, first + round(15 * change * i), excess, processed, busy) for i in range(5)]


def test_a_growing_lag_asks_for_what_arrives():
    answer = run(lags(100_000, 500.0, 50_000.0, busy=0.8))
    assert (answer.target, answer.reason.code) == (15, ReasonCode.UNDERSIZED)
    assert answer.reason.figures["lag_change"] == pytest.approx(1.5)


def test_it_may_overshoot():
    assert run(lags(100_000, 500.0, 50_000.0, busy=0.8), overshoot=1.2).target == 16


def test_above_the_threshold_utilization_still_votes_while_the_backlog_drains():
    """n = 10, R = 0.7, busy 1.0, target 0.8: the larger of 7 and 13."""
    assert run(lags(100_000, -300.0, 50_000.0)).target == 13


def test_below_the_threshold_utilization_alone_decides():
    """Value 0.4, target 0.8: half, once the five minutes of the downward window are over."""
    quiet = [(15.0 * i, 1000 + 7500 * i, 0.0, 1000.0, 0.4) for i in range(22)]
    assert run(quiet).target == 5
    assert run(quiet, lag_threshold=1e9).target == 5


@pytest.mark.parametrize(
    ("processed", "words"), [(0.0, "nothing is consumed"), (None, "the change of the lag is unknown")]
)
def test_an_unknown_change_is_no_reason_to_go_down(processed, words):
    answer = run([(15.0 * i, 90_000, 50_000.0, processed, 0.1) for i in range(30)])
    assert answer.target is None
    assert words in answer.reason.text


def test_the_lag_alone_is_refused():
    with pytest.raises(InputError, match="never scales down"):
        load_policy("hpa", {"metrics": {"lag_change": 1.0}}, CONTEXT)
