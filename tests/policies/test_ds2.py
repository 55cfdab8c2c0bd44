"""DS2: the tables of its repository, and a job that it sizes in three steps."""

from __future__ import annotations

from typing import Any

import pytest
from tests.policies import options as page
from tests.policies.samples import decision_settings, seen

from rheostat.decide.decide import decide
from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.model import Action, Assessment, Objective, ReasonCode, Recommendation
from rheostat.policies.capacity import busy_share
from rheostat.policies.ds2 import Ds2Policy, Ds2State, optimum


def policy(preset: str = "faithful", **options: Any) -> Ds2Policy:
    built = load_policy("ds2", options, PolicyContext(Objective(30.0), 15.0, preset))
    assert isinstance(built, Ds2Policy)
    return built


def at_once(**options: Any) -> Ds2Policy:
    return policy(warm_up_intervals=0, **options)


def asked(given: Ds2Policy, *samples: dict[str, Any]) -> tuple[list[Recommendation], Ds2State]:
    """Each 15 s."""
    state, answers = given.initial(), list[Recommendation]()
    for place, changes in enumerate(samples):
        answer, state = given.recommend(seen(1000.0 + 15 * place, **changes), state)
        answers.append(answer)
    return answers, state


# ------------------------------------------------------------------------------------ the source's tables


@pytest.mark.parametrize(
    ("target_rate", "true_rate", "expected"),
    [
        pytest.param(100, 50, 2, id="one source, epoch 0, Op1"),
        pytest.param(2.0 * 400, 100, 8, id="one source, epoch 0, Op2: what 2 Op1 put out"),
        pytest.param(200, 40, 5, id="one source, epoch 1, Op1"),
        pytest.param(5.0 * 700, 99, 36, id="one source, epoch 1, Op2"),
        pytest.param(200, 10, 20, id="one source, epoch 7, Op1"),
        pytest.param(20.0 * 700, 201, 70, id="one source, epoch 7, Op2"),
        pytest.param(100 + 100, 50, 4, id="two sources, epoch 0, Op1"),
        pytest.param(4.0 * 400, 100, 16, id="two sources, epoch 0, Op2"),
        pytest.param(200 + 200, 40, 10, id="two sources, epoch 1, Op1"),
        pytest.param(10.0 * 700, 99, 71, id="two sources, epoch 1, Op2"),
        pytest.param(200 + 200, 10, 40, id="two sources, epoch 7, Op1"),
        pytest.param(40.0 * 700, 201, 140, id="two sources, epoch 7, Op2"),
    ],
)
def test_the_optimum(target_rate, true_rate, expected):
    """strymon-system/ds2, controller/tests/scaling_policy_test.rs; one instance each."""
    assert optimum(target_rate, true_rate, instances=1) == expected


@pytest.mark.parametrize(
    ("before", "best", "changes"),
    [
        pytest.param(5, 6, True, id="one more"),
        pytest.param(5, 5, False, id="the same"),
        pytest.param(5, 4, False, id="one less is not significant"),
        pytest.param(5, 3, True, id="two less"),
    ],
)
def test_what_is_significant(before, best, changes):
    """strymon-system/ds2, controller/src/bin/manager.rs, consider_change."""
    each = 100.0
    (answer,), _ = asked(
        at_once(),
        {"executors": before, "processed_rate": before * each, "busy_ratio": 1.0, "arrival_rate": best * each},
    )
    assert answer.target == (best if changes else before)


# ------------------------------------------------------------------------------------------------ by hand


@pytest.mark.parametrize(
    ("target_rate", "true_rate", "instances", "factor", "expected"),
    [
        pytest.param(800, 300, 3, 0.0, 8, id="the rate of three"),
        pytest.param(801, 300, 3, 0.0, 9, id="a little more"),
        pytest.param(0, 300, 3, 0.0, 1, id="no load: one"),
        pytest.param(800, 300, 3, 0.25, 10, id="a quarter more than the optimum"),
        pytest.param(1e12, 1e-3, 3, 0.0, 1_000_000, id="no bound is left to the guard as a finite number"),
    ],
)
def test_the_optimum_of_more_instances(target_rate, true_rate, instances, factor, expected):
    assert optimum(target_rate, true_rate, instances, factor) == expected


@pytest.mark.parametrize(
    ("changes", "measure", "expected"),
    [
        pytest.param({"busy_ratio": 0.4}, "tasks", 0.4, id="slots in tasks"),
        pytest.param({"busy_ratio": None}, "tasks", None, id="unknown"),
        pytest.param({"batch_s": 6.0, "trigger_s": 10.0}, "batches", 0.6, id="within the trigger"),
        pytest.param({"batch_s": 14.0, "trigger_s": 10.0}, "batches", 1.0, id="longer than the trigger"),
        pytest.param({"batch_s": 3.0, "trigger_s": 0.0}, "batches", 1.0, id="one batch after the other"),
        pytest.param({"batch_s": None}, "batches", None, id="no batch yet"),
    ],
)
def test_the_busy_share(changes, measure, expected):
    assert busy_share(seen(**changes), measure) == expected


@pytest.mark.parametrize(
    ("changes", "options", "target", "code"),
    [
        # 3 executors process 600/s in 60 % of their time: 1000/s, 333.3/s each
        pytest.param({"arrival_rate": 2000.0}, {}, 6, ReasonCode.UNDERSIZED, id="2000 ÷ 333.3"),
        pytest.param({"arrival_rate": 2001.0}, {}, 7, ReasonCode.UNDERSIZED, id="a little more"),
        pytest.param({"arrival_rate": 300.0}, {}, 1, ReasonCode.OVERSIZED, id="one is enough"),
        pytest.param({}, {}, 3, ReasonCode.STEADY, id="two would be enough: not significant"),
        pytest.param({}, {"smallest_decrease": 1}, 2, ReasonCode.OVERSIZED, id="significant if one says so"),
        pytest.param({}, {"scaling_factor": 0.5}, 3, ReasonCode.STEADY, id="600 × 1.5 ÷ 333.3 = 2.7"),
        pytest.param({"busy_ratio": 0.0}, {}, 3, ReasonCode.CAPACITY_UNKNOWN, id="no busy time"),
        pytest.param({"busy_ratio": None}, {}, 3, ReasonCode.CAPACITY_UNKNOWN, id="busy time unknown"),
        pytest.param({"processed_rate": 0.0}, {}, 3, ReasonCode.CAPACITY_UNKNOWN, id="nothing processed"),
        pytest.param(
            {"batch_s": 8.0, "arrival_rate": 2000.0},
            {"useful_time": "batches"},
            8,
            ReasonCode.UNDERSIZED,
            id="2000 ÷ 250",
        ),
        pytest.param({"missing": ("lag_s",)}, {}, None, ReasonCode.METRICS_MISSING, id="does not count"),
    ],
)
def test_what_it_proposes(changes, options, target, code):
    (answer,), _ = asked(at_once(**options), changes)
    assert (answer.target, answer.reason.code) == (target, code)


@pytest.mark.parametrize(
    ("limit", "processed", "target"),
    [
        pytest.param(None, 500.0, 3, id="never"),
        pytest.param(1.1, 500.0, 4, id="arrival ÷ processed 1.2: ⌈1.2 × 3⌉"),
        pytest.param(1.2, 500.0, 3, id="not beyond the limit"),
        pytest.param(1.1, 400.0, 4, id="the optimum asks for more: no adjustment"),
    ],
)
def test_the_final_adjustment(limit, processed, target):
    """3 executors, 600/s arrive. At 500/s in 0.8 of the time 625/s would be processed: 3 would be enough."""
    (answer,), _ = asked(
        at_once(target_rate_ratio=limit), {"arrival_rate": 600.0, "processed_rate": processed, "busy_ratio": 0.8}
    )
    assert answer.target == target


SURGE = {"arrival_rate": 2000.0}


def test_nothing_is_looked_at_while_it_warms_up():
    """Two periods after the start, and two after the change at 1075 s."""
    grown = {**SURGE, "executors": 6, "processed_rate": 900.0, "busy_ratio": 1.0}
    answers, state = asked(policy(), SURGE, SURGE, SURGE, *[grown] * 4)
    assert [answer.reason.code for answer in answers] == [
        ReasonCode.STABILIZING,
        ReasonCode.STABILIZING,
        ReasonCode.UNDERSIZED,
        ReasonCode.STABILIZING,
        ReasonCode.STABILIZING,
        ReasonCode.UNDERSIZED,
        ReasonCode.UNDERSIZED,
    ]
    assert [answer.target for answer in answers] == [3, 3, 6, 6, 6, 14, 14]
    assert (state.since, state.rate) == (1045.0, 150.0)


@pytest.mark.parametrize(
    ("combine", "targets"),
    [
        pytest.param("last", [3, 3, 9, 6], id="last"),
        pytest.param("median", [3, 3, 6, 9], id="median"),
        pytest.param("max", [3, 3, 9, 12], id="max"),
    ],
)
def test_three_evaluations_in_a_row(combine, targets):
    """Optima 3, 6, 9; then 12, or 6 to see that the last one counts."""
    rates = [1000.0, 2000.0, 3000.0, 2000.0 if combine == "last" else 4000.0]
    given = at_once(activation_intervals=3, combine=combine)
    answers, state = asked(given, *({"arrival_rate": rate} for rate in rates))
    assert [answer.target for answer in answers] == targets
    assert len(state.found) == 3


@pytest.mark.parametrize(
    "between",
    [
        pytest.param({"missing": ("lag_s",)}, id="a sample that does not count"),
        pytest.param({"busy_ratio": None}, id="one without a rate"),
    ],
)
def test_evaluations_that_are_not_in_a_row_start_again(between):
    answers, _ = asked(at_once(activation_intervals=2), SURGE, between, SURGE, SURGE)
    assert [answer.target for answer in answers[2:]] == [3, 6]


def test_a_sample_that_comes_late_starts_again():
    given = at_once(activation_intervals=2)
    _, state = given.recommend(seen(1000.0, **SURGE), given.initial())
    late, state = given.recommend(seen(1031.0, **SURGE), state)
    then, _ = given.recommend(seen(1046.0, **SURGE), state)
    assert (late.target, then.target) == (3, 6)


def test_three_steps():
    """Each executor slows the others down: n carry 400 × n^0.8. 2000/s arrive at one executor: 1 → 5 → 7 → 8."""
    given, n, numbers = at_once(), 1, [1]
    state = given.initial()
    for place in range(6):
        carried = 400.0 * n**0.8
        sample: Assessment = seen(
            1000.0 + 15 * place,
            executors=n,
            arrival_rate=2000.0,
            processed_rate=min(2000.0, carried),
            busy_ratio=min(1.0, 2000.0 / carried),
        )
        answer, state = given.recommend(sample, state)
        n = answer.target or n
        numbers.append(n)
    assert numbers == [1, 5, 7, 8, 8, 8, 8]


def test_the_capacity_is_that_of_the_last_evaluation():
    given = at_once()
    _, state = given.recommend(seen(), given.initial())
    assert given.capacity(6, state) == pytest.approx(2000.0)
    assert given.capacity(6, given.initial()) is None


def test_through_the_guard_it_goes_down_in_one_step():
    plans = decision_settings(at_once(), largest_step_down=1, warm_up_batches=99)
    decision, _ = decide(seen(executors=9, arrival_rate=100.0, busy_ratio=0.2), plans.initial(), plans)
    assert (decision.action, decision.target) == (Action.DOWN, 1)


def test_the_sentence():
    (answer,), _ = asked(at_once(), SURGE)
    assert answer.reason.text == (
        "arrival 2 000/s at a true rate of 333/s each, 60 % busy, is best on 6 executors: 3 → 6"
    )


def test_the_page_has_its_options():
    assert page.documented("ds2") == page.expected(Ds2Policy, "tuned")
