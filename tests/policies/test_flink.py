"""The operator's autoscaler: its own tables, and timelines worked out by hand.

The tests named by their file are those of apache/flink-kubernetes-operator, in
flink-autoscaler/src/test/java/org/apache/flink/autoscaler.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from pydantic import TypeAdapter
from tests.policies import options as page
from tests.policies.samples import decision_settings, seen

from rheostat.decide.decide import decide
from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.model import Action, Objective, ReasonCode, Recommendation
from rheostat.policies.flink import (
    Down,
    FlinkPolicy,
    FlinkState,
    Sample,
    Scaling,
    add_decrease,
    add_sample,
    averages,
    is_ineffective,
    target_capacity,
    thresholds,
    true_rate,
)


def policy(preset: str = "faithful", **options: Any) -> FlinkPolicy:
    built = load_policy("flink", options, PolicyContext(Objective(30.0), 15.0, preset))
    assert isinstance(built, FlinkPolicy)
    return built


def at_once(**options: Any) -> FlinkPolicy:
    """Decides on the sample itself from the second one on, whatever the utilization, as the source's tests do."""
    target = options.get("utilization_target", 1.0)
    calm: dict[str, Any] = {
        "utilization_target": target,
        "utilization_max": target,
        "utilization_min": target,
        "stabilization_s": 0.0,
        "metric_window_s": 5.0,
        "scale_down_interval_s": 0.0,
        "catch_up_s": 0.0,
        "max_scale_down_factor": 1.0,
        "alignment": "off",
    }
    return policy(**{**calm, **options})


def load(executors: int, target_rate: float, true_processing_rate: float, **changes: Any) -> dict[str, Any]:
    """Busy all the time, so that what is processed is the true processing rate."""
    figures = {"executors": executors, "arrival_rate": float(target_rate), "busy_ratio": 1.0}
    return {**figures, "processed_rate": float(true_processing_rate), **changes}


def asked(given: FlinkPolicy, *samples: tuple[float, dict[str, Any]]) -> tuple[list[Recommendation], FlinkState]:
    """At those seconds; and before them one sample like the first, so that the window is full."""
    (second, figures), *_ = samples
    _, state = given.recommend(seen(1000.0 + second - 15, **figures), given.initial())
    answers = list[Recommendation]()
    for at, changes in samples:
        answer, state = given.recommend(seen(1000.0 + at, **changes), state)
        answers.append(answer)
    return answers, state


# --------------------------------------------------------------------------- the source's tables: scaling


@pytest.mark.parametrize(
    ("options", "figures", "expected"),
    [
        pytest.param({"utilization_target": 1.0}, (10, 50, 100), 5, id="half the rate"),
        pytest.param({"utilization_target": 0.8}, (10, 50, 100), 7, id="62.5 are needed (the source rounds to 63: 7)"),
        pytest.param({"utilization_target": 0.8}, (10, 80, 100), 10, id="as it is"),
        pytest.param({"utilization_target": 0.8}, (10, 60, 100), 8, id="75 are needed"),
        pytest.param({"utilization_target": 0.8}, (10, 59, 100), 8, id="73.75 are needed"),
        pytest.param({"utilization_target": 0.5}, (2, 100, 40), 10, id="five times as many"),
        pytest.param({"utilization_target": 0.6}, (2, 100, 100), 4, id="166.7 are needed"),
        pytest.param({"max_scale_down_factor": 0.5}, (10, 10, 100), 5, id="half at most"),
        pytest.param({"max_scale_down_factor": 0.6}, (10, 10, 100), 4, id="four tenths remain"),
        pytest.param({"max_scale_up_factor": 0.5}, (10, 200, 10), 15, id="half more at most"),
        pytest.param({"max_scale_up_factor": 0.6}, (10, 200, 10), 16, id="six tenths more"),
    ],
)
def test_parallelism_scaling(options, figures, expected):
    """JobVertexScalerTest.java, testParallelismScaling.

    The second row is 8 in the first revisions of the source, which aligned everything to 720 key groups.
    """
    (answer,), _ = asked(at_once(**options), (0, load(*figures)))
    assert answer.target == expected


def test_ineffective_scaling():
    """JobVertexScalerTest.java, testIneffectiveScalingDetection."""
    first, second = Scaling(0.0, 5, 10, rate=50.0, expected=100.0), Scaling(0.0, 10, 20, rate=90.0, expected=180.0)
    assert not is_ineffective(first, 10, 90.0, 0.1)
    assert is_ineffective(second, 20, 94.0, 0.1)
    assert is_ineffective(second, 20, 98.0, 0.1)
    assert not is_ineffective(second, 20, 100.0, 0.1)
    assert not is_ineffective(second, 10, 90.0, 0.1)  # somebody has changed the number since
    assert not is_ineffective(Scaling(0.0, 20, 10, 0.0, 0.0), 10, 90.0, 0.1)
    assert not is_ineffective(None, 20, 90.0, 0.1)


def test_an_increase_after_a_useless_one_is_stopped():
    """The same rates, each decision on what the one before has led to: 5 → 10 → 20, and no further at 94/s."""
    steps = [(5, 100, 50), (10, 180, 90), (10, 180, 90), (20, 180, 94), (20, 180, 94), (20, 180, 100), (20, 45, 90)]
    timeline = [(15.0 * place, load(*figures)) for place, figures in enumerate(steps)]
    answers, _ = asked(at_once(effectiveness_detection=True), *timeline)
    assert [answer.target for answer in answers] == [10, 10, 20, 20, 20, 36, 10]
    assert answers[4].reason.code is ReasonCode.USELESS_EXECUTORS


def test_the_detection_is_off_unless_asked_for():
    steps = [(10, 180, 90), (20, 180, 90), (20, 180, 90)]
    answers, _ = asked(at_once(), *((15.0 * place, load(*figures)) for place, figures in enumerate(steps)))
    assert [answer.target for answer in answers] == [20, 20, 40]


# ------------------------------------------------------------------------------ the source's tables: rates


@pytest.mark.parametrize(
    ("excess", "catch_up_s", "restart_s", "catching_up", "expected"),
    [
        pytest.param(0, 0, 1, False, (778, 1000), id="the restart is no part of it"),
        pytest.param(350 * 2, 2, 1, False, (1128, 1700), id="a backlog, and a restart"),
        pytest.param(0, 2, 1, False, (778, 1350), id="a restart"),
        pytest.param(350 * 2, 2, 1, True, (1050, inf), id="while a backlog is processed"),
        pytest.param(0, 2, 1, True, (700, inf), id="the same, none is left"),
        pytest.param(350 * 60, 60, 300, False, (1128, 4850), id="a restart of 5 minutes"),
        pytest.param(0, 60, 300, False, (778, 4500), id="the same without a backlog"),
    ],
)
def test_the_boundaries(excess, catch_up_s, restart_s, catching_up, expected):
    """ScalingMetricEvaluatorTest.java, testUtilizationBoundaryComputation and …WithRestartTimesTracking.

    700/s arrive, the utilization is 0.7 to 0.9. The source rounds to whole records.
    """
    found = thresholds(700.0, excess, None if catching_up else (0.7, 0.9), catch_up_s, restart_s)
    assert tuple(each if each == inf else round(each) for each in found) == expected


@pytest.mark.parametrize(
    ("processed", "busy", "observed", "switch", "least", "expected"),
    [
        pytest.param(35, 0.1, (200.0, 400.0), 0.2, 2, 350, id="testObservedTprEvaluation: within the threshold"),
        pytest.param(35, 0.1, (200.0, 400.0), 0.1, 2, 300, id="testObservedTprEvaluation: beyond it"),
        pytest.param(35, 0.1, (200.0, 400.0), 0.1, 3, 350, id="testObservedTprEvaluation: too few"),
        pytest.param(35, 0.1, (), 0.15, 2, 350, id="testMissingObservedTpr"),
        pytest.param(100, 0, (), 0.15, 2, inf, id="testMissingObservedTpr: not busy"),
        pytest.param(0, 0, (), 0.15, 2, inf, id="testMissingObservedTpr: nothing at all"),
        pytest.param(None, None, (), 0.15, 2, None, id="testMissingObservedTpr: unknown"),
        pytest.param(1, None, (200.0, 400.0), 0.15, 2, 300, id="testMissingBusyTimeTpr"),
        pytest.param(0, 1, (), 0.15, 2, inf, id="testZeroValuesForRatesOrBusyness: no rate"),
        pytest.param(0, None, (), 0.15, 2, inf, id="testZeroValuesForRatesOrBusyness: no rate, busy unknown"),
        pytest.param(100, 0, (200.0, 400.0), 0.15, 2, 300, id="by hand: without bound, but observed"),
    ],
)
def test_the_true_processing_rate(processed, busy, observed, switch, least, expected):
    """ScalingMetricEvaluatorTest.java."""
    assert true_rate(processed, busy, observed, switch, least) == expected


@pytest.mark.parametrize(
    ("lag", "holds"), [pytest.param(250 * 300, True, id="375 s"), pytest.param(180 * 300, False, id="270 s")]
)
def test_no_decrease_while_a_backlog_is_processed(lag, holds):
    """ScalingMetricEvaluatorTest.java, testBacklogProcessingEvaluation: 200/s, at most 5 minutes of them."""
    idle = load(10, 20, 200, backlog_excess=float(lag), busy_ratio=0.2)
    (answer,), _ = asked(at_once(backlog_threshold_s=300.0), (0, idle))
    assert answer.target == (10 if holds else 1)


# ------------------------------------------------------------------------ the source's tables: scale-downs


def test_the_maximum_of_a_sliding_window():
    """DelayedScaleDownTest.java, testMaxRecommendedParallelismForSlidingWindow: a window of 3 s, then all."""
    downs: tuple[Down, ...] = ()
    found = []
    for second, target in enumerate([5, 8, 6, 4, 3, 3, 3, 3, 3, 9]):
        downs = add_decrease(downs, Down(float(second), target, outside=True), interval_s=3.0)
        found.append(downs[0].target)
    assert found == [5, 8, 8, 8, 8, 6, 4, 3, 3, 9]


def test_a_lower_one_does_not_count_a_higher_one_does():
    """The same file, testTriggerUpdateAndClean."""
    downs: tuple[Down, ...] = ()
    for second, target in [(0, 5), (5, 3), (10, 8)]:
        downs = add_decrease(downs, Down(float(second), target, outside=True), interval_s=60.0)
    assert downs == (Down(10.0, 8, outside=True),)


WINDOW = [(0, 800), (10, 900), (40, 720), (59, 640), (60, 700)]


@pytest.mark.parametrize(
    ("lower", "expected"),
    [
        pytest.param(0.7, 100, id="1000/s at 900/s arriving is within 0.7 and 1.3: nothing is done"),
        pytest.param(0.95, 90, id="outside a narrower boundary: 90"),
    ],
)
def test_scale_down_after_the_interval(lower, expected):
    """JobVertexScalerTest.java, testScaleDownAfterInterval: the maximum is 90, and within the boundaries."""
    given = at_once(utilization_max=1.3, utilization_min=lower, scale_down_interval_s=60.0)
    answers, _ = asked(given, *((second, load(100, rate, 1000)) for second, rate in WINDOW))
    assert [answer.target for answer in answers] == [100] * 4 + [expected]
    assert {answer.reason.code for answer in answers[:4]} == {ReasonCode.SURPLUS_COUNTING}


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        pytest.param(1700, 170, id="testImmediateScaleUpWithinScaleDownInterval"),
        pytest.param(1000, 100, id="testCancelDelayedScaleDownAfterNewParallelismIsSame"),
    ],
)
def test_what_ends_the_interval(rate, expected):
    """JobVertexScalerTest.java."""
    given = at_once(utilization_min=0.7, scale_down_interval_s=60.0, metric_window_s=1.0)
    timeline = [(0, load(100, 800, 1000)), (10, load(100, 900, 1000)), (12, load(100, rate, 1000))]
    answers, state = asked(given, *timeline)
    assert answers[-1].target == expected
    assert (state.down_since, state.downs) == (None, ())


# ------------------------------------------------------------------------------------------------ by hand


def test_the_defaults_of_the_operator_in_one_sum():
    """700/s at 0.7, 18 000 records in 30 minutes, and 5 minutes of 700/s in 30 minutes: 1000 + 10 + 116.7."""
    assert target_capacity(700.0, 18_000.0, 0.7, 1800.0, 300.0) == pytest.approx(1126.667, abs=1e-3)


@pytest.mark.parametrize("utilization", [0.0, -1.0])
def test_no_utilization_needs_without_bound(utilization):
    assert target_capacity(700.0, 0.0, utilization, 0.0) == inf


@pytest.mark.parametrize(
    ("arrival", "target", "code"),
    [
        pytest.param(410.0, 10, ReasonCode.STEADY, id="0.41: within"),
        pytest.param(1000.0, 10, ReasonCode.STEADY, id="1.0: still within"),
        pytest.param(1010.0, 15, ReasonCode.UNDERSIZED, id="1.01: 1443 are needed"),
        pytest.param(390.0, 6, ReasonCode.OVERSIZED, id="0.39: 557 are needed"),
        pytest.param(100.0, 4, ReasonCode.OVERSIZED, id="0.1: no less than four tenths"),
    ],
)
def test_nothing_is_done_between_the_boundaries(arrival, target, code):
    given = policy(stabilization_s=0.0, metric_window_s=5.0, scale_down_interval_s=0.0, catch_up_s=0.0, alignment="off")
    (answer,), _ = asked(given, (0, load(10, arrival, 1000)))
    assert (answer.target, answer.reason.code) == (target, code)


@pytest.mark.parametrize(
    ("changes", "options", "expected"),
    [
        pytest.param({"partitions": 24}, {"alignment": "evenly-spread"}, 12, id="9 are needed, 12 divide 24"),
        pytest.param({"partitions": 24}, {"alignment": "off"}, 9, id="off"),
        pytest.param({"partitions": None}, {"alignment": "evenly-spread"}, 9, id="partitions unknown"),
        pytest.param({"partitions": 7}, {"alignment": "evenly-spread"}, 7, id="no more than partitions"),
        pytest.param({"partitions": 24}, {"alignment": "evenly-spread", "key_groups": 200}, 10, id="10 divide 200"),
        pytest.param(
            {"partitions": 24, "slots_per_executor": 2}, {"alignment": "evenly-spread"}, 12, id="24 slots for 24"
        ),
        pytest.param({"partitions": 199}, {"alignment": "maximize-utilisation"}, 10, id="19 partitions each, 22 on 9"),
    ],
)
def test_the_number_is_aligned(changes, options, expected):
    """6 executors carry 600/s, 900/s arrive."""
    (answer,), _ = asked(at_once(**options), (0, load(6, 900, 600, **changes)))
    assert answer.target == expected


def test_stabilization_then_a_full_window():
    """Faithful: 5 minutes in which nothing is looked at, 15 until the window is full; anew after each change."""
    given, state, codes = policy(), FlinkState(), dict[int, ReasonCode]()
    for second in range(0, 2700, 15):
        n = 3 if second < 1215 else 6
        answer, state = given.recommend(seen(1000.0 + second, **load(n, 200 * n, 300 * n)), state)
        codes[second] = answer.reason.code
    assert [second for second, code in codes.items() if code is not ReasonCode.STABILIZING] == [
        1200,
        *range(2415, 2700, 15),
    ]


def test_another_number_begins_everything_anew():
    given = policy(stabilization_s=0.0, metric_window_s=30.0, scale_down_interval_s=600.0)
    _, state = asked(given, *((15.0 * place, load(10, 100, 1000)) for place in range(4)))
    assert state.downs
    assert len(state.samples) == 3
    _, state = given.recommend(seen(1060.0, **load(11, 100, 1000)), state)
    assert (len(state.samples), state.downs, state.down_since, state.stable_at) == (1, (), None, 1060.0)


def test_a_long_silence_begins_everything_anew():
    given = at_once(scale_down_interval_s=60.0)
    answers, state = asked(given, (0, load(10, 100, 1000)), (31, load(10, 100, 1000)), (46, load(10, 100, 1000)))
    assert [answer.reason.code for answer in answers] == [
        ReasonCode.SURPLUS_COUNTING,
        ReasonCode.STABILIZING,
        ReasonCode.SURPLUS_COUNTING,
    ]
    assert state.down_since == 1046.0


def test_a_sample_that_does_not_count_leaves_everything():
    given = at_once()
    _, state = asked(given, (0, load(10, 100, 1000)))
    answer, after = given.recommend(seen(1015.0, missing=("lag_s",)), state)
    assert (answer.target, answer.reason.code, after) == (None, ReasonCode.METRICS_MISSING, state)


def test_what_the_guard_left_of_a_proposal_promises_its_part():
    """5 executors carry 50/s; 20 were proposed for 200/s, 8 came: 80/s are promised, so 54/s are useful, 52/s not."""
    given = at_once(effectiveness_detection=True)
    _, state = asked(given, (0, load(5, 200, 50)))
    _, state = given.recommend(seen(1015.0, **load(8, 200, 54)), state)
    assert state.last == Scaling(1000.0, 5, 8, 50.0, 80.0)
    useful, _ = given.recommend(seen(1030.0, **load(8, 200, 54)), state)
    useless, _ = given.recommend(seen(1030.0, **load(8, 200, 52)), state)
    assert (useful.target, useless.target) == (30, 8)


def test_the_observed_rate_of_a_catch_up_replaces_busy_time():
    """Half busy at 300/s would be 600/s, but with 30 s of excess 300/s are all that it can do."""
    behind = load(3, 300, 300, busy_ratio=0.5, backlog_excess=9000.0)
    given = at_once(metric_window_s=30.0, utilization_target=0.5)
    answers, _ = asked(given, (0, behind), (15, behind), (30, behind))
    assert [answer.target for answer in answers] == [3, 6, 6]
    slack = {**behind, "backlog_excess": 8999.0}
    answers, _ = asked(given, (0, slack), (15, slack), (30, slack))
    assert [answer.target for answer in answers] == [3, 3, 3]


def test_means_leave_out_what_is_unknown():
    samples = [
        Sample(0.0, 100.0, None, 0.5, None),
        Sample(1.0, 200.0, 80.0, 0.4, None),
        Sample(2.0, 600.0, 120.0, 0.8, None),
        Sample(3.0, 100.0, 40.0, None, None),
    ]
    arrival, processed, busy = averages(samples)
    assert (arrival, processed) == (250.0, 100.0)
    assert busy == pytest.approx(0.6)
    assert averages(samples[:1]) == (100.0, None, None)


def test_the_state_stays_small_and_goes_through_json():
    """Three hours of samples each 5 s: a window of 60, and no more than 64 decreases held back."""
    given = policy(metric_window_s=600.0, scale_down_interval_s=9_000.0, max_scale_down_factor=1.0, alignment="off")
    state = given.initial()
    for second in range(0, 10_800, 5):
        rate = 1000.0 - second / 15
        _, state = given.recommend(seen(1000.0 + second, **load(1000, rate, 2000)), state)
    assert len(state.samples) == 60
    assert len(state.downs) == 64
    adapter = TypeAdapter(FlinkState)
    assert adapter.validate_json(adapter.dump_json(state)) == state


def test_crowded_decreases_keep_their_maximum():
    downs: tuple[Down, ...] = ()
    for second in range(100):
        downs = add_decrease(downs, Down(float(second), 1000 - second, outside=True), interval_s=3600.0)
    assert [(each.at, each.target) for each in (downs[0], downs[-1])] == [(0.0, 1000), (99.0, 901)]
    targets = [each.target for each in downs]
    assert len(targets) == 64
    assert targets == sorted(targets, reverse=True)


def test_samples_are_taken_at_most_sixty_times_a_window():
    samples: tuple[Sample, ...] = ()
    for tenth in range(1000):
        samples = add_sample(samples, Sample(tenth / 10, 1.0, 1.0, 1.0, None), window_s=60.0)
    assert [each.at for each in samples] == [float(second) for second in range(40, 100)]


def test_the_capacity_is_that_of_the_last_full_window():
    given = at_once()
    _, state = asked(given, (0, load(10, 800, 1000)))
    assert given.capacity(12, state) == 1200.0
    nothing = replace(seen(1015.0), executors=10, arrival_rate=0.0, processed_rate=0.0)
    assert given.capacity(12, given.recommend(nothing, state)[1]) == 1200.0
    assert given.capacity(12, given.initial()) is None


def test_through_the_guard_it_goes_down_to_four_tenths_at_once():
    plans = decision_settings(at_once(max_scale_down_factor=0.6), largest_step_down=1, warm_up_batches=99)
    _, state = decide(seen(1000.0, **load(10, 10, 1000)), plans.initial(), plans)
    decision, _ = decide(seen(1015.0, **load(10, 10, 1000)), state, plans)
    assert (decision.action, decision.target) == (Action.DOWN, 4)


def test_the_sentence():
    (answer,), _ = asked(at_once(), (0, load(10, 1500, 1000)))
    assert answer.reason.text == (
        "10 executors carry 1 000/s while busy, 1 500/s are needed, 1 500/s to 1 500/s would do: 10 → 15"
    )


def test_the_page_has_its_options():
    assert page.documented("flink") == page.expected(FlinkPolicy, "tuned")
