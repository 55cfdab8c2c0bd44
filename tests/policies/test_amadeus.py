from typing import Any

import pytest
from tests.policies.options import documented, expected
from tests.policies.samples import seen

from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.errors import InputError
from rheostat.model import Bounds, Objective, ReasonCode, Recommendation
from rheostat.policies.amadeus import AmadeusOptions, AmadeusPolicy, AmadeusState


def amadeus(preset: str = "faithful", **options: Any) -> AmadeusPolicy:
    policy = load_policy("amadeus", {"preset": preset, **options}, PolicyContext(Objective(30.0), 15.0))
    assert isinstance(policy, AmadeusPolicy)
    return policy


def batch(number: int, duration_s: float | None, **changes: Any) -> dict[str, Any]:
    return {"last_batch_id": number, "last_batch_s": duration_s, "trigger_s": 10.0, **changes}


def asked(policy: AmadeusPolicy, *samples: dict[str, Any]) -> tuple[list[Recommendation], AmadeusState]:
    state, answers = policy.initial(), list[Recommendation]()
    for place, changes in enumerate(samples):
        answer, state = policy.recommend(seen(1000.0 + 15 * place, **changes), state)
        answers.append(answer)
    return answers, state


@pytest.mark.parametrize(
    ("mean", "executors", "number"),
    [
        pytest.param(0.8, 2, 2, id="no change"),
        pytest.param(1.2, 2, 3, id="add one"),
        pytest.param(2.2, 2, 5, id="add more than one"),
        pytest.param(2.2, 8, 10, id="add and hit threshold high limit"),
        pytest.param(2.2, 10, 10, id="already at threshold high limit"),
        pytest.param(0.6, 3, 2, id="reduce one"),
        pytest.param(0.4, 4, 2, id="reduce more than one"),
        pytest.param(0.4, 3, 2, id="reduce and hit threshold low limit"),
        pytest.param(0.4, 2, 2, id="already at threshold low limit"),
        pytest.param(1.1, 12, 10, id="above threshold high, theoretical increase"),
        pytest.param(0.5, 1, 2, id="below threshold low, theoretical decrease"),
    ],
)
def test_executors_of_its_own_tests(mean, executors, number):
    """With their bounds of 2 and 10. A first batch of 1.6 × mean − 0.6 triggers makes the mean what it is there.

    AmadeusITGroup/Elastic-Scaling, src/test/scala/com/amadeus/elastic_scaling/ElasticScalingTest.scala. Not taken: the
    two cases in which a number outside the bounds stays as it is; here the bounds are an order.
    """
    (answer,), state = asked(amadeus(), batch(1, 10 * (1.6 * mean - 0.6), executors=executors))
    assert state.mean == pytest.approx(mean)
    assert answer.target is not None
    assert Bounds(2, 10).clamp(answer.target) == number


def test_the_mean_by_hand():
    """From 1 ÷ 1: batches of 20, 20 and 5 s of 10 give 2.6 ÷ 1.6, 3.56 ÷ 1.96 and 2.636 ÷ 2.176."""
    policy, means = amadeus(), []
    state = policy.initial()
    for number, duration_s in enumerate((20.0, 20.0, 5.0)):
        _, state = policy.recommend(seen(**batch(number, duration_s)), state)
        means.append(state.mean)
    assert means == pytest.approx([1.625, 1.816327, 1.211397], abs=1e-6)


@pytest.mark.parametrize(
    ("factor", "mean"),
    [pytest.param(0.0, 0.5, id="only the last batch"), pytest.param(1.0, 1.5, id="all alike: (1 + 2 + 2 + 1) ÷ 4")],
)
def test_the_smoothing_factor(factor, mean):
    last = 5.0 if factor == 0 else 10.0
    _, state = asked(amadeus(smoothing_factor=factor), batch(1, 20.0), batch(2, 20.0), batch(3, last))
    assert state.mean == pytest.approx(mean)


def test_a_batch_counts_once():
    answers, state = asked(amadeus(), batch(7, 20.0), batch(7, 20.0), batch(7, 20.0))
    assert [(each.target, each.reason.code) for each in answers] == [
        (5, ReasonCode.UNDERSIZED),
        (3, ReasonCode.STEADY),
        (3, ReasonCode.STEADY),
    ]
    assert state == AmadeusState(2.6, 1.6, 7)


def test_while_executors_are_on_their_way_it_only_averages():
    (answer,), state = asked(amadeus(), batch(7, 40.0, executors=3, requested=4))
    assert (answer.target, answer.reason.code) == (4, ReasonCode.RESCALE_RUNNING)
    assert state.mean == pytest.approx(2.875)


@pytest.mark.parametrize(
    ("changes", "options", "mean"),
    [
        pytest.param({"trigger_s": 0.0, "period_s": 15.0}, {}, 2.6 / 1.6, id="no interval: τ stands in"),
        pytest.param({"trigger_s": 10.0}, {"batch_s": 60.0}, 1.1 / 1.6, id="as it was configured"),
    ],
)
def test_what_a_batch_is_measured_by(changes, options, mean):
    _, state = asked(amadeus(**options), {**batch(1, 30.0), **changes})
    assert state.mean == pytest.approx(mean)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(batch(1, None), id="no batch has finished"),
        pytest.param(batch(1, 20.0, trigger_s=None, period_s=None), id="the trigger is unknown"),
        pytest.param(batch(1, 20.0, missing=("lag_s",)), id="a sample that does not count"),
        pytest.param(batch(1, 20.0, executors=None), id="executors are unknown"),
    ],
)
def test_no_opinion_and_no_memory_where(changes):
    (answer,), state = asked(amadeus(), changes)
    assert (answer.target, answer.reason.code, state) == (None, ReasonCode.METRICS_MISSING, AmadeusState())


def test_the_sentences_have_the_figures():
    (up, same), _ = asked(amadeus(), batch(1, 20.0), batch(1, 20.0))
    assert up.reason.text == "batches take 162 % of the trigger on average, > 100 %: 3 → 5"
    assert same.reason.text == "batches take 162 % of the trigger on average, no batch has ended since: 3 stays"
    (within,), _ = asked(amadeus(), batch(1, 8.4))
    assert within.reason.text == (
        "batches take 90 % of the trigger on average, the last batch took 84 %, within 75 % and 100 %: 3 stays"
    )
    (rounded,), _ = asked(amadeus(), batch(1, 4.0, executors=1))
    assert rounded.reason.text == (
        "batches take 62 % of the trigger on average, the last batch took 40 %, 1 × mean rounds up to 1: 1 stays"
    )


def test_the_faithful_preset_has_the_published_defaults():
    """Published: README.md of AmadeusITGroup/Elastic-Scaling."""
    assert amadeus().options == AmadeusOptions(
        threshold_high=1.0, threshold_low=0.75, smoothing_factor=0.6, batch_s=None
    )


def test_limits_in_the_wrong_order_are_refused():
    with pytest.raises(InputError, match="must be less than the upper one"):
        amadeus(threshold_low=1.2)


def test_there_is_no_capacity_model():
    assert amadeus().capacity(3, AmadeusState()) is None


def test_the_page_has_its_options():
    assert documented("amadeus") == expected(AmadeusPolicy)
