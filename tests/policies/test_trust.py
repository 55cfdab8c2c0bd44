"""Figures of an earlier run of the queries: no proof against fewer executors, better than nothing for an increase."""

from dataclasses import replace

import pytest
from pydantic import TypeAdapter
from tests.policies.samples import OVERLOAD, decision_settings, reactive, seen

from rheostat.decide.effectiveness import Cause, Useless
from rheostat.decide.failures import Refused
from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.decide.state import State, observe
from rheostat.decide.trust import Trust
from rheostat.model import Objective, Reason, ReasonCode, Recommendation
from rheostat.policies.capacity import Figure, Learned, follow_run, learn_healthy, learn_overload
from rheostat.policies.reactive import ReactiveState

OLD = tuple([Figure(n, 200.0 * n, 3, 900.0) for n in (2, 3, 4, 6)])
RUN = 1000.0


def doubted() -> Learned:
    return follow_run(Learned(figures=OLD), seen(at=1010.0, run_since=RUN))


def rates(learned: Learned) -> list[tuple[int, float]]:
    return [(each.executors, round(each.rate)) for each in learned.figures]


def test_doubtful_figures_size_an_increase_and_justify_no_decrease():
    learned = doubted()
    assert (learned.trusted.enough(500.0), learned.trusted.limit(4)) == (None, None)
    assert learned.best.enough_above(900.0, 3) == 5
    assert follow_run(learned, seen(at=1100.0, run_since=RUN)) is learned


@pytest.mark.parametrize(
    ("rate", "left"),
    [
        pytest.param(640.0, [(2, 400), (3, 640), (4, 800), (6, 1200)], id="as expected: they count again"),
        pytest.param(1300.0, [(3, 1300)], id="twice as fast: they go"),
        pytest.param(300.0, [(3, 300)], id="half as fast: they go"),
    ],
)
def test_a_measurement_ends_the_doubt(rate, left):
    busy = {"last_batch_records": round(rate * 30), "last_batch_s": 30.0, "batch_s": 30.0, "last_batch_id": 5}
    learned = learn_overload(replace(OVERLOAD, at=1100.0, executors=3, run_since=RUN, **busy), doubted(), 10)
    assert rates(learned) == left
    assert learned.trust == Trust(RUN, None)
    assert follow_run(learned, seen(at=1200.0, run_since=RUN)) is learned


@pytest.mark.parametrize(
    ("rate", "trusted", "kept"),
    [
        pytest.param(500.0, [(3, 500)], 4, id="less: the old ones may be right"),
        pytest.param(800.0, [(3, 800)], 4, id="more, within what varies"),
        pytest.param(1300.0, [(3, 1300)], 1, id="twice as fast: they go"),
    ],
)
def test_a_bound_of_the_new_run_counts_and_ends_the_doubt_upwards_only(rate, trusted, kept):
    learned = doubted()
    for number in (5, 6):
        batch = {"last_batch_records": round(rate * 4), "last_batch_s": 4.0, "last_batch_id": number}
        learned = learn_healthy(seen(at=1100.0, executors=3, run_since=RUN, **batch), learned)
    assert (rates(learned.trusted), len(learned.figures)) == (trusted, kept)


def test_a_controller_that_is_restarted_with_the_job_knows_what_is_of_the_old_run():
    policy, adapter = reactive(), TypeAdapter(ReactiveState)
    state = adapter.validate_json(adapter.dump_json(ReactiveState(learned=Learned(figures=OLD), executors=6)))
    calm = {"executors": 6, "arrival_rate": 500.0, "last_batch_records": 5000, "last_batch_s": 3.0}
    answer = Recommendation(None, Reason(ReasonCode.STEADY, ""))
    for number in range(12):
        answer, state = policy.recommend(
            seen(at=1010.0 + 15 * number, run_since=RUN, last_batch_id=number, **calm), state
        )
        state = adapter.validate_json(adapter.dump_json(state))
    assert answer.target == 2, answer.reason.text  # 5000 in 3 s on 6; the old figures say 3


CALM = {"executors": 6, "requested": 6, "arrival_rate": 500.0, "last_batch_records": 5000, "pressure": 0.0}
IDLE = {"arrival_rate": 0.0, "processed_rate": 0.0, "backlog": 0, "batch_s": 0.0, "idle": True, "occupancy": 0.0}


@pytest.mark.parametrize("name", ["reactive", "router", "mst", "proactive"])
@pytest.mark.parametrize(
    ("changes", "lower"),
    [
        pytest.param({"last_batch_s": 1.0, "batch_s": 1.0}, True, id="faster than it was: fewer are enough"),
        pytest.param({"batches": 0, "last_batch_s": 3.0}, False, id="no batch of the new run yet"),
        pytest.param({**IDLE, "busy_ratio": 0.0, "last_batch_s": 3.0}, True, id="idle from its start on"),
    ],
)
def test_a_policy_that_has_learned_of_an_earlier_run(name, changes, lower):
    """5 executors were measured to carry 1000/s; of 6 that have started anew, 500/s are asked for."""
    policy = load_policy(name, {}, PolicyContext(Objective(30.0), 15.0))
    state, answer = policy.initial(), None
    over = {"arrival_rate": 1000.0, "throughput": 1000.0, "pressure": 0.9, "busy_ratio": 1.0, "backlog_excess": 9e4}
    for number in range(24):
        busy = {"last_batch_records": 12_000, "last_batch_s": 12.0, "batch_s": 12.0, "last_batch_id": number}
        _, state = policy.recommend(seen(at=15.0 * number, executors=5, requested=5, **over, **busy), state)
    for number in range(24):
        sample = seen(at=RUN + 15 * number, run_since=RUN, **{**CALM, "last_batch_id": number, **changes})
        answer, state = policy.recommend(sample, state)
    assert answer is not None
    assert ((answer.target or 0) < 6) == lower, answer.reason.text


def test_what_brought_nothing_or_failed_may_be_tried_again_in_a_new_run_and_is_not_forgotten():
    settings = decision_settings(reactive()).guard
    useless = Useless(4, 8, 500.0, 900.0, 1600.0, 880.0, Cause.BROKER, backoff_s=4000.0)
    refused = Refused(6, 5, 6, -3000.0, 20_000.0, "executors died again and again")
    guard = replace(State(None).guard, useless=useless, refused_down=refused, refused_up=refused._replace(at=900.0))
    guard = observe(seen(at=1010.0, run_since=RUN, executors=8, requested=8), guard, settings)
    assert guard.useless is not None
    assert guard.refused_down is not None
    assert guard.refused_up is not None
    assert (guard.useless.wait_s(1010.0, settings), guard.useless.backoff_s) == (0.0, 4000.0)
    assert (guard.refused_down.until, guard.refused_down.backoff_s) == (1010.0, 20_000.0)
    assert guard.refused_up.until == 20_900.0  # failures that the run before may have ended by
