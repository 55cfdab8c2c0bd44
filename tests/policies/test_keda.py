from typing import Any

import pytest
from tests.policies.options import documented, expected
from tests.policies.samples import seen

from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.errors import InputError
from rheostat.model import Objective, ReasonCode, Recommendation
from rheostat.policies.hpa import DOWN, UP
from rheostat.policies.keda import KedaOptions, KedaPolicy, KedaState, bounded_lag, even
from rheostat.testing.policies import check_policy

CONTEXT = PolicyContext(Objective(30.0), 15.0)


def keda(preset: str = "faithful", **options: Any) -> KedaPolicy:
    policy = load_policy("keda", {"preset": preset, **options}, CONTEXT)
    assert isinstance(policy, KedaPolicy)
    return policy


def asked(policy: KedaPolicy, *samples: dict[str, Any]) -> tuple[list[Recommendation], KedaState]:
    """Each 15 s; nothing is granted unless a sample says so."""
    state, answers = policy.initial(), list[Recommendation]()
    for place, changes in enumerate(samples):
        answer, state = policy.recommend(seen(1000.0 + 15 * place, **changes), state)
        answers.append(answer)
    return answers, state


@pytest.mark.parametrize(
    ("replicas", "lag", "partitions", "options", "expected_replicas"),
    [
        pytest.param(1, 2, 3, {}, 2, id="testEarliestPolicy: 2 messages"),
        pytest.param(2, 7, 3, {}, 3, id="testEarliestPolicy: beyond the 3 partitions"),
        pytest.param(1, 2, 6, {}, 2, id="testMultiTopic: one message in each of two topics"),
        pytest.param(1, 5, 10, {"even_partitions": True}, 5, id="testScalingEnsureEvenDistributionOfPartitions: 5"),
        pytest.param(5, 8, 10, {"even_partitions": True}, 10, id="testScalingEnsureEvenDistributionOfPartitions: 8"),
    ],
)
def test_replicas_of_the_end_to_end_tests(replicas, lag, partitions, options, expected_replicas):
    """With their lagThreshold of 1. kedacore/keda, tests/scalers/apache_kafka/apache_kafka_test.go."""
    policy = keda(lag_threshold=1.0, **options)
    (answer,), _ = asked(policy, {"executors": replicas, "backlog": lag, "partitions": partitions})
    assert answer.target == expected_replicas


@pytest.mark.parametrize(
    ("executors", "changes", "options", "target", "code"),
    [
        pytest.param(3, {"backlog": 330}, {}, 3, ReasonCode.STEADY, id="10 % above 3 × 100 are tolerated"),
        pytest.param(3, {"backlog": 331}, {}, 4, ReasonCode.UNDERSIZED, id="more are not"),
        pytest.param(3, {"backlog": 100}, {}, 3, ReasonCode.STABILIZING, id="fewer only after 300 s"),
        pytest.param(
            3, {"backlog": 9000, "partitions": 5}, {}, 5, ReasonCode.UNDERSIZED, id="no more than the partitions"
        ),
        pytest.param(
            3, {"backlog": 599, "partitions": 5}, {}, 6, ReasonCode.UNDERSIZED, id="599 ÷ 100 is not > 5, so 6"
        ),
        pytest.param(
            3,
            {"backlog": 9000, "partitions": 5},
            {"allow_idle_consumers": True},
            7,
            ReasonCode.UNDERSIZED,
            id="3 + 4 at most",
        ),
        pytest.param(
            3,
            {"backlog": 9000, "partitions": 8, "slots_per_executor": 2},
            {},
            4,
            ReasonCode.UNDERSIZED,
            id="8 partitions keep 4 executors of two slots busy",
        ),
        pytest.param(
            3, {"backlog": 9000, "partitions": None}, {}, 7, ReasonCode.UNDERSIZED, id="partitions unknown: no bound"
        ),
        pytest.param(3, {"backlog": None}, {}, None, ReasonCode.METRICS_MISSING, id="lag unknown"),
        pytest.param(
            3, {"invalid": ("backlog",)}, {}, None, ReasonCode.METRICS_MISSING, id="a sample that does not count"
        ),
    ],
)
def test_one_look_at_a_threshold_of_100(executors, changes, options, target, code):
    (answer,), _ = asked(keda(lag_threshold=100.0, **options), {"executors": executors, **changes})
    assert (answer.target, answer.reason.code) == (target, code)


@pytest.mark.parametrize(
    ("consumers", "partitions", "number"),
    [
        pytest.param(0, 10, 1, id="at least one"),
        pytest.param(5, 12, 6, id="five do not divide twelve"),
        pytest.param(6.1, 12, 12, id="more than six are twelve"),
        pytest.param(3, 7, 7, id="a prime"),
    ],
)
def test_even(consumers, partitions, number):
    assert even(consumers, partitions) == number


def test_even_slots_make_whole_executors():
    """700 records at 100 are 7 executors of two slots; 14 slots are 24 partitions' next divisor 24: 12 executors."""
    assert bounded_lag(700.0, 100.0, 24, 2, keda(even_partitions=True).options) == 1200.0


def test_the_published_threshold_asks_for_all_there_is_at_any_load():
    """A job that keeps up has a backlog of 9000: at 10 each 900 executors' worth. 28 of 30 are within the tolerance."""
    policy = keda()
    numbers = [3, 7, 14, 28, 30]
    answers, _ = asked(policy, *[{"executors": n, "backlog": 9000, "partitions": 30} for n in numbers])
    assert [each.target for each in answers] == [7, 14, 28, 28, 30]


class TestTuned:
    """600/s on three executors, batches of 6 s each 10 s: 333/s of a busy second each; × 2.3 × 10 s: 7667."""

    def test_the_threshold_is_measured(self):
        answers, state = asked(keda("tuned"), *[{"backlog": 9000}] * 3)
        assert state.rate == pytest.approx(1000 / 3)
        assert [each.reason.code for each in answers] == [
            ReasonCode.CAPACITY_UNKNOWN,
            ReasonCode.CAPACITY_UNKNOWN,
            ReasonCode.STABILIZING,
        ]
        assert answers[-1].reason.text.startswith("a lag of 9 000 at 7 667 each (an executor carries 333/s) asks for 2")

    @pytest.mark.parametrize(
        ("changes", "threshold"),
        [
            pytest.param({}, 2300.0, id="of the trigger"),
            pytest.param({"trigger_s": 0.0}, 3450.0, id="no interval: of τ"),
        ],
    )
    def test_or_given(self, changes, threshold):
        (answer,), _ = asked(keda("tuned", executor_rate=100.0), {"backlog": 9000, **changes})
        assert answer.reason.figures["threshold"] == pytest.approx(threshold)

    @pytest.mark.parametrize(
        "changes",
        [
            pytest.param({"backlog_excess": 20_000.0}, id="more backlog than a healthy job has"),
            pytest.param({"occupancy": 1.0}, id="batches take τ"),
        ],
    )
    def test_an_overload_says_at_once_what_an_executor_carries(self, changes):
        late = {"backlog": 40_000, "processed_rate": 900.0, "arrival_rate": 1500.0, **changes}
        (answer,), state = asked(keda("tuned"), late)
        assert state.rate == pytest.approx(300.0)
        assert answer.target == 6  # 40 000 ÷ (2.3 × 10 × 300) = 5.8

    def test_the_next_overload_corrects_it(self):
        late = {"backlog_excess": 20_000.0, "processed_rate": 900.0}
        _, state = asked(keda("tuned"), {}, {}, {}, late, {}, {})
        assert state.rate == pytest.approx(300.0)

    def test_a_faster_sample_alone_says_nothing(self):
        _, state = asked(keda("tuned"), {}, {}, {"batch_s": 3.0}, {}, {})
        assert state.rate == pytest.approx(1000 / 3)

    @pytest.mark.parametrize(
        "unsettled",
        [
            pytest.param({"batches": 1}, id="a cold batch"),
            pytest.param({"requested": 4}, id="one is on its way"),
            pytest.param({"missing": ("lag_s",)}, id="a missing sample"),
            pytest.param({"processed_rate": None}, id="nobody knows what was processed"),
            pytest.param({"arrival_rate": 0.0}, id="no load"),
        ],
    )
    def test_nothing_is_measured_while_the_number_settles(self, unsettled):
        _, state = asked(keda("tuned"), {}, {}, unsettled, {}, {})
        assert state.rate is None

    def test_what_is_measured_is_the_capacity(self):
        policy = keda("tuned")
        _, state = asked(policy, *[{}] * 3)
        assert policy.capacity(6, state) == pytest.approx(2000.0)
        assert keda().capacity(6, state) is None


def test_the_faithful_preset_has_the_published_defaults():
    """Published: https://keda.sh/docs/latest/scalers/apache-kafka/, of which lagThreshold is 10."""
    assert keda().options == KedaOptions(
        lag_threshold=10.0,
        threshold_triggers=keda().options.threshold_triggers,
        executor_rate=None,
        allow_idle_consumers=False,
        even_partitions=False,
        tolerance=0.1,
        scale_up=UP,
        scale_down=DOWN,
    )


def test_the_default_is_the_tuned_preset():
    assert keda("default").options == keda("tuned").options != keda().options


def test_what_is_refused():
    with pytest.raises(InputError) as caught:
        keda(lag_threshold=0, executor_rate=-1, threshold_triggers="many")
    assert {fault.field for fault in caught.value.faults} == {
        f"policy_options.{name}" for name in ("lag_threshold", "executor_rate", "threshold_triggers")
    }


def test_it_conforms_with_a_rate_of_its_own_and_even_numbers():
    check_policy(lambda: keda("tuned", executor_rate=300.0, even_partitions=True))


def test_the_page_has_its_options():
    assert documented("keda") == expected(KedaPolicy, "tuned")
