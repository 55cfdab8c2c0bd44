from typing import Any

import pytest
from tests.policies.options import documented, expected
from tests.policies.samples import decision_settings, seen

from rheostat.decide.decide import decide
from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.errors import InputError
from rheostat.model import Objective, ReasonCode, Recommendation
from rheostat.policies.hpa import (
    DOWN,
    UP,
    HpaOptions,
    HpaPolicy,
    HpaState,
    Pods,
    size_by_average,
    size_by_utilization,
    size_by_value,
)
from rheostat.testing.policies import check_policy

CONTEXT = PolicyContext(Objective(30.0), 15.0)
SOON: dict[str, Any] = {
    "scale_down": {"stabilization_s": 0, "policies": [{"by": "percent", "value": 100, "period_s": 15}]}
}


def hpa(preset: str = "faithful", **options: Any) -> HpaPolicy:
    policy = load_policy("hpa", {"preset": preset, **options}, CONTEXT)
    assert isinstance(policy, HpaPolicy)
    return policy


@pytest.mark.parametrize(
    ("value", "target", "pods", "replicas"),
    [
        pytest.param(0.5, 0.3, Pods(3, 3), 5, id="ScaleUp"),
        pytest.param(0.6, 0.3, Pods(3, 2, pending=1), 4, id="ScaleUpUnreadyLessScale"),
        pytest.param(0.4, 0.3, Pods(3, 1, pending=2), 3, id="ScaleUpUnreadyNoScale"),
        pytest.param(0.6, 0.3, Pods(2, 2), 4, id="ScaleUpIgnoresFailedPods"),
        pytest.param(0.28, 0.5, Pods(5, 5), 3, id="ScaleDown"),
        pytest.param(0.3, 0.5, Pods(5, 3, pending=2), 2, id="ScaleDownExcludeUnreadyPods"),
        pytest.param(0.1, 0.5, Pods(5, 1, pending=4), 1, id="ScaleDownExcludeUnscheduledPods"),
        pytest.param(1.02, 1.0, Pods(3, 3), 3, id="Tolerance"),
        pytest.param(5.875, 1.0, Pods(4, 4), 24, id="SuperfluousMetrics"),
        pytest.param(0.2475, 1.0, Pods(4, 2, missing=2), 3, id="MissingMetrics"),
        pytest.param(1.0, 1.0, Pods(2, 1, missing=1), 2, id="MissingMetricsNoChangeEq"),
        pytest.param(1.9, 1.0, Pods(2, 1, missing=1), 2, id="MissingMetricsNoChangeGt"),
        pytest.param(0.6, 1.0, Pods(2, 1, missing=1), 2, id="MissingMetricsNoChangeLt"),
        pytest.param(0.45, 0.5, Pods(3, 1, pending=1, missing=1), 3, id="MissingMetricsUnreadyChange"),
        pytest.param(2.0, 0.5, Pods(3, 1, pending=1, missing=1), 4, id="MissingMetricsUnreadyScaleUp"),
        pytest.param(0.1, 0.5, Pods(4, 2, pending=1, missing=1), 3, id="MissingMetricsUnreadyScaleDown"),
        pytest.param(0.1, 0.5, Pods(2, 2, missing=1), 2, id="DuringRollingUpdateWithMaxSurge"),
        pytest.param(0.5, 0.56, Pods(10, 10), 9, id="ComputedToleranceAlgImplementation, just beyond"),
        pytest.param(0.5, 0.55, Pods(10, 10), 10, id="ComputedToleranceAlgImplementation, just within"),
    ],
)
def test_utilization_as_the_controller_computes_it(value, target, pods, replicas):
    """Levels are means over the pods with metrics, requests 1.0.

    kubernetes/kubernetes, pkg/controller/podautoscaler/replica_calculator_test.go: TestReplicaCalc….
    """
    assert size_by_utilization(value, target, pods, 0.1) == replicas


@pytest.mark.parametrize(
    ("value", "target", "pods", "replicas"),
    [
        pytest.param(20_000, 15_000, Pods(3, 3), 4, id="ScaleUpCMObject"),
        pytest.param(50_000, 10_000, Pods(3, 1, pending=2), 5, id="ScaleUpCMObjectIgnoresUnreadyPods"),
        pytest.param(8600, 4400, Pods(3, 1, pending=2), 2, id="ScaleUpCMExternalIgnoresUnreadyPods"),
        pytest.param(12_000, 20_000, Pods(5, 5), 3, id="ScaleDownCMObject"),
        pytest.param(8600, 14_334, Pods(5, 5), 3, id="ScaleDownCMExternal"),
        pytest.param(20_666, 20_000, Pods(3, 3), 3, id="ToleranceCMObject"),
        pytest.param(8600, 8888, Pods(3, 3), 3, id="ToleranceCMExternal"),
    ],
)
def test_a_value_as_the_controller_computes_it(value, target, pods, replicas):
    """kubernetes/kubernetes, pkg/controller/podautoscaler/replica_calculator_test.go: TestReplicaCalc…."""
    assert size_by_value(value, target, pods, 0.1) == replicas


@pytest.mark.parametrize(
    ("total", "target", "current", "replicas"),
    [
        pytest.param(8600, 2150, 3, 4, id="ScaleUpPerPodCMExternal"),
        pytest.param(20_000, 5000, 3, 4, id="ScaleUpCMPerPodObject"),
        pytest.param(8600, 2867, 5, 3, id="ScaleDownPerPodCMExternal"),
        pytest.param(6000, 2000, 5, 3, id="ScaleDownPerPodCMObject"),
        pytest.param(8600, 2900, 3, 3, id="TolerancePerPodCMExternal"),
        pytest.param(20_166, 5000, 4, 4, id="TolerancePerPodCMObject"),
    ],
)
def test_an_average_as_the_controller_computes_it(total, target, current, replicas):
    """kubernetes/kubernetes, pkg/controller/podautoscaler/replica_calculator_test.go: TestReplicaCalc…."""
    assert size_by_average(total, target, Pods(current, current), 0.1) == replicas


def test_a_missing_pod_counts_as_a_whole_target_where_that_is_above_100_percent():
    """Two of 0.1 and a missing one at a target of 3: (0.2 + 3) ÷ 3 ÷ 3 = 0.356, × 3 → 2."""
    assert size_by_utilization(0.1, 3.0, Pods(3, 2, missing=1), 0.1) == 2


def asked(policy: HpaPolicy, *samples: dict[str, Any]) -> list[Recommendation]:
    """Each 15 s; nothing is granted unless a sample says so."""
    state, answers = policy.initial(), list[Recommendation]()
    for place, changes in enumerate(samples):
        answer, state = policy.recommend(seen(1000.0 + 15 * place, **changes), state)
        answers.append(answer)
    return answers


@pytest.mark.parametrize(
    ("options", "changes", "target", "code"),
    [
        pytest.param({}, {"busy_ratio": 1.0}, 4, ReasonCode.UNDERSIZED, id="3 × 1.0 ÷ 0.8 = 3.75"),
        pytest.param({}, {"busy_ratio": 0.87}, 3, ReasonCode.STEADY, id="9 % above the target are tolerated"),
        pytest.param({}, {"busy_ratio": 0.89}, 4, ReasonCode.UNDERSIZED, id="11 % are not"),
        pytest.param({}, {"busy_ratio": 0.3}, 3, ReasonCode.STABILIZING, id="fewer only after 300 s"),
        pytest.param(
            SOON, {"busy_ratio": 0.3}, 2, ReasonCode.OVERSIZED, id="at once without a window: 3 × 0.3 ÷ 0.8 = 1.1"
        ),
        pytest.param(
            {"metrics": {"utilization": 0.1}}, {"busy_ratio": 1.0}, 7, ReasonCode.UNDERSIZED, id="3 + 4 at most"
        ),
        pytest.param({}, {"busy_ratio": 0.0}, 3, ReasonCode.STABILIZING, id="never to 0"),
        pytest.param(
            {},
            {"busy_ratio": 1.0, "requested": 4, "executors": 3},
            4,
            ReasonCode.STEADY,
            id="one is on its way: counts as idle",
        ),
        pytest.param(
            {"metrics": {"utilization": 0.4}},
            {"busy_ratio": 1.0, "requested": 4, "executors": 3},
            8,
            ReasonCode.UNDERSIZED,
            id="3 ÷ 4 ÷ 0.4 of 4 are 7.5",
        ),
        pytest.param(
            {}, {"busy_ratio": 0.8, "requested": 2, "executors": 3}, 2, ReasonCode.STEADY, id="one is on its way out"
        ),
        pytest.param(
            {"metrics": {"utilization": 0.8, "occupancy": 0.5}},
            {"busy_ratio": 1.0, "occupancy": 0.9},
            6,
            ReasonCode.UNDERSIZED,
            id="the metric that asks for most wins: 3 × 0.9 ÷ 0.5 = 5.4",
        ),
        pytest.param(
            {"metrics": {"utilization": 0.8, "occupancy": 0.5}},
            {"busy_ratio": 1.0, "occupancy": None},
            4,
            ReasonCode.UNDERSIZED,
            id="one metric unknown: the other may ask for more",
        ),
        pytest.param(
            {"metrics": {"utilization": 0.8, "occupancy": 0.5}},
            {"busy_ratio": 0.1, "occupancy": None},
            None,
            ReasonCode.METRICS_MISSING,
            id="one metric unknown: the other may not ask for fewer",
        ),
        pytest.param({}, {"busy_ratio": None}, None, ReasonCode.METRICS_MISSING, id="no metric"),
        pytest.param({}, {"missing": ("lag_s",)}, None, ReasonCode.METRICS_MISSING, id="a sample that does not count"),
    ],
)
def test_one_look(options, changes, target, code):
    (answer,) = asked(hpa(**options), changes)
    assert (answer.target, answer.reason.code) == (target, code)


def test_down_after_300_s():
    answers = asked(hpa(), *[{"busy_ratio": 0.3}] * 22)
    assert [each.target for each in answers] == [3] * 20 + [2] * 2
    assert answers[-1].reason.code is ReasonCode.OVERSIZED


def test_a_window_of_0_forgets_at_once():
    answers = asked(hpa(**SOON), {"busy_ratio": 0.8}, {"busy_ratio": 0.3})
    assert [each.target for each in answers] == [3, 2]


def test_the_sentences_have_the_figures():
    up, calm, down = asked(hpa(), {"busy_ratio": 1.0}, {"busy_ratio": 0.8}, {"busy_ratio": 0.3})
    assert up.reason.text == "utilization 100 % at a target of 80 % asks for 4 executors: 3 → 4"
    assert calm.reason.text == "utilization 80 % at a target of 80 % asks for 3 executors: 3 stays"
    assert down.reason.text == (
        "utilization 30 % at a target of 80 % asks for 2 executors; "
        "no fewer than 3 because of what was asked for within 300 s: 3 stays"
    )


def test_it_brings_its_own_way_of_going_down():
    """With the default guards, only the catching up and the failures of the house are before it."""
    plans = decision_settings(hpa(**SOON), largest_step_down=1, cooldown_down_s=600.0, warm_up_batches=50)
    _, state = decide(seen(1000.0, executors=9, busy_ratio=0.8), plans.initial(), plans)
    decision, _ = decide(seen(1015.0, executors=9, busy_ratio=0.2, batches=0), state, plans)
    assert (decision.current, decision.target) == (9, 3)


def test_the_faithful_preset_has_the_defaults_of_kubernetes():
    """Controller: tolerance 0.1, downscale stabilization 300 s (config/v1alpha1/defaults.go of the controller).

    Objects: CPU 80 % (pkg/apis/autoscaling/annotations), behavior (pkg/apis/autoscaling/v2/defaults.go).
    """
    options = hpa().options
    assert options == HpaOptions(
        metrics={"utilization": 0.8}, lag_threshold=None, overshoot=1.0, tolerance=0.1, scale_up=UP, scale_down=DOWN
    )
    assert [(pace.by, pace.value, pace.period_s) for pace in UP.policies] == [
        ("percent", 100, 15.0),
        ("executors", 4, 15.0),
    ]
    assert [(pace.by, pace.value, pace.period_s) for pace in DOWN.policies] == [("percent", 100, 15.0)]
    assert (UP.stabilization_s, DOWN.stabilization_s, UP.select, DOWN.select) == (0.0, 300.0, "max", "max")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        pytest.param({"metrics": {"memory": 0.8}}, "metrics.memory", id="an unknown metric"),
        pytest.param({"metrics": {}}, "metrics", id="no metric"),
        pytest.param({"metrics": {"utilization": 0}}, "metrics.utilization", id="a target of 0"),
        pytest.param({"tolerance": 1.0}, "tolerance", id="a tolerance that hides everything"),
        pytest.param({"scale_down": {"stabilization_s": 0}}, "scale_down.policies", id="a behavior without policies"),
    ],
)
def test_what_is_refused(options, field):
    with pytest.raises(InputError) as caught:
        hpa(**options)
    assert any(fault.field.startswith(f"policy_options.{field}") for fault in caught.value.faults)


def test_there_is_no_capacity_model():
    assert hpa().capacity(3, HpaState()) is None


def test_it_conforms_with_several_metrics():
    check_policy(lambda: hpa(metrics={"utilization": 0.7, "occupancy": 0.8}))


def test_the_page_has_its_options():
    assert documented("hpa") == expected(HpaPolicy)
