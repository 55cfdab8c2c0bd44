from typing import Any

import pytest
from tests.policies.options import documented, expected
from tests.policies.samples import seen

from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.errors import InputError
from rheostat.model import Objective, ReasonCode
from rheostat.policies.threshold import ThresholdOptions, ThresholdPolicy, ThresholdState


def threshold(preset: str = "faithful", **options: Any) -> ThresholdPolicy:
    policy = load_policy("threshold", {"preset": preset, **options}, PolicyContext(Objective(30.0), 15.0))
    assert isinstance(policy, ThresholdPolicy)
    return policy


@pytest.mark.parametrize(
    ("busy", "executors", "target", "code"),
    [
        pytest.param(0.91, 3, 4, ReasonCode.UNDERSIZED, id="above 90 %: one more"),
        pytest.param(1.0, 3, 4, ReasonCode.UNDERSIZED, id="never more than one"),
        pytest.param(0.90, 3, 3, ReasonCode.STEADY, id="at 90 %"),
        pytest.param(0.70, 3, 3, ReasonCode.STEADY, id="between the limits"),
        pytest.param(0.50, 3, 3, ReasonCode.STEADY, id="at 50 %"),
        pytest.param(0.49, 3, 2, ReasonCode.OVERSIZED, id="below 50 %: one less"),
        pytest.param(0.0, 1, 1, ReasonCode.STEADY, id="the last one stays"),
        pytest.param(None, 3, None, ReasonCode.METRICS_MISSING, id="unknown"),
    ],
)
def test_the_rule_of_s2(busy, executors, target, code):
    answer, _ = threshold().recommend(seen(executors=executors, busy_ratio=busy), ThresholdState())
    assert (answer.target, answer.reason.code) == (target, code)


def test_it_starts_from_the_number_in_force():
    answer, _ = threshold().recommend(seen(executors=3, requested=5, busy_ratio=0.95), ThresholdState())
    assert answer.target == 6


def test_a_sample_that_does_not_count():
    state = ThresholdState(900.0)
    answer, after = threshold().recommend(seen(busy_ratio=0.1, missing=("lag_s",)), state)
    assert (answer.target, after) == (None, state)


@pytest.mark.parametrize(
    ("every_s", "targets"),
    [
        pytest.param(60.0, [4, 3, 3, 3, 4, 3], id="each minute"),
        pytest.param(None, [4, 4, 4, 4, 4, 4], id="each sample"),
    ],
)
def test_when_it_looks(every_s, targets):
    policy, state, seen_at = threshold(check_every_s=every_s), ThresholdState(), []
    for place in range(6):
        answer, state = policy.recommend(seen(1000.0 + 15 * place, busy_ratio=0.95), state)
        seen_at.append(answer.target)
    assert seen_at == targets


def test_the_sentences_have_the_figures():
    policy = threshold()
    texts = [policy.recommend(seen(busy_ratio=busy), ThresholdState())[0].reason.text for busy in (0.95, 0.2, 0.7)]
    assert texts == [
        "slots are 95 % busy > 90 %: 3 → 4",
        "slots are 20 % busy < 50 %: 3 → 2",
        "slots are 70 % busy, limits 50 % and 90 %: 3 stays",
    ]
    waits, _ = policy.recommend(seen(1015.0, busy_ratio=0.95), ThresholdState(1000.0))
    assert waits.reason.text == "slots are 95 % busy; the next check is in 45 s: 3 stays"


def test_the_faithful_preset_has_the_published_constants():
    assert threshold().options == ThresholdOptions(up_above=0.9, down_below=0.5, check_every_s=60.0)


def test_the_default_is_the_tuned_preset():
    assert threshold("default").options == threshold("tuned").options != threshold().options


def test_limits_in_the_wrong_order_are_refused():
    with pytest.raises(InputError, match=r"down_below: .*less than.* \(given: 0.9; allowed: < up_above \(0.5\)\)"):
        threshold(up_above=0.5, down_below=0.9)


def test_there_is_no_capacity_model():
    assert threshold().capacity(3, ThresholdState()) is None


def test_the_page_has_its_options():
    assert documented("threshold") == expected(ThresholdPolicy, "tuned")
