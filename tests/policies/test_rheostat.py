"""The policy ``rheostat``: its decisions and their reasons, on samples and on a simulated job."""

from __future__ import annotations

import doctest
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pytest
from tests.policies import closed_loop

from rheostat.analyze.state import AnalysisSettings
from rheostat.config.models import GuardSettings
from rheostat.decide.decide import DecisionSettings
from rheostat.decide.policy import PolicyContext
from rheostat.learn.batch_cost import Batch, BatchCost, fit, learn_batch
from rheostat.model import Assessment, Bounds, Objective, QueryLoad, ReasonCode, StageWork
from rheostat.model import Batch as Ended
from rheostat.policies import prices, rheostat
from rheostat.policies.rheostat import RheostatOptions, RheostatPolicy, RheostatState
from rheostat.testing.policies import check_policy

LAG_S, SAMPLE_S, TRIGGER_S = 60.0, 15.0, 10.0


def policy(lag_s: float = LAG_S, sample_s: float = SAMPLE_S) -> RheostatPolicy:
    return RheostatPolicy(RheostatOptions.model_validate({}), PolicyContext(Objective(lag_s), sample_s))


@pytest.mark.parametrize("module", [prices, rheostat])
def test_examples_in_docstrings(module):
    assert doctest.testmod(module).failed == 0


def test_it_conforms_without_exemption():
    assert check_policy(lambda: policy(30.0)) == {}


def known_cost() -> BatchCost:
    """1 s and 2.5 ms a record and slot: 400 records/s an executor."""
    model = BatchCost()
    for executors in (2, 3, 4, 5, 6, 8):
        for seconds in (6.0, 12.0, 18.0):
            records = 400.0 * executors * seconds
            batch = Batch(executors, executors, records, 1.0 + seconds, (0,), ((1.0 + seconds) * executors,), 1.0)
            model = fit(learn_batch(model, batch, is_first=False), model.count)
    return model


def sample(at: float, rate: float, n: int, **changes: Any) -> Assessment:
    """A healthy sample between two batches, which take what arrives in a trigger interval."""
    records = round(rate * TRIGGER_S)
    figures: dict[str, Any] = {
        "at": at,
        "executors": n,
        "requested": n,
        "slots_per_executor": 1,
        "arrival_rate": rate,
        "arrived": round(rate * SAMPLE_S),
        "processed_rate": rate,
        "waiting": 0,
        "in_flight": records,
        "backlog": records,
        "backlog_excess": 0.0,
        "lag_s": TRIGGER_S,
        "batch_s": 1.0 + rate * TRIGGER_S / (400 * n),
        "last_batch_s": 1.0 + rate * TRIGGER_S / (400 * n),
        "last_batch_records": records,
        "last_batch_id": round(at),
        "trigger_s": TRIGGER_S,
        "period_s": LAG_S / 2,
        "driver_s": 1.0,
        "batches": 5,
        "capped": False,
        "running": True,
        "metrics_age_s": 0.5,
        "queries": 1,
    }
    return Assessment(**{**figures, **changes})


def watch(rates: list[float], n: int) -> RheostatState:
    """The state after samples of these rates at n executors, with a known job."""
    state = replace(RheostatState(), cost=known_cost())
    for place, rate in enumerate(rates):
        _, state = policy().recommend(sample(SAMPLE_S * (place + 1), rate, n), state)
    return state


STEADY = [1500.0] * 30
NOW = SAMPLE_S * 31


def test_a_number_that_carries_the_load_stays():
    answer, _ = policy().recommend(sample(NOW, 1500.0, 4), watch(STEADY, 4))
    assert (answer.target, answer.reason.code) == (4, ReasonCode.STEADY)
    assert "no breach ahead at 1 500/s to" in answer.reason.text


def test_a_jump_asks_for_what_it_needs_at_once_and_says_what_others_would_cost():
    jumped = sample(NOW, (3 * 1500 + 3200) / 4, 5, arrived=48_000, waiting=60_000, backlog=80_000, lag_s=30.0)
    answer, state = policy().recommend(jumped, watch(STEADY, 5))
    assert answer.target is not None
    assert 8 <= answer.target <= 11
    assert answer.reason.code is ReasonCode.UNDERSIZED
    assert "waiting one more cycle would breach for" in answer.reason.text
    assert f"5 → {answer.target}; " in answer.reason.text
    assert answer.reason.text.endswith("executor-seconds dearer")
    assert state.weight >= 8


def test_a_rise_that_the_buffer_carries_is_no_reason_yet():
    rises = sample(NOW, (3 * 1500 + 2100) / 4, 5, arrived=31_500, waiting=9000, backlog=24_000)
    answer, _ = policy().recommend(rises, watch(STEADY, 5))
    assert answer.target == 5


def test_a_dip_of_the_last_samples_is_no_reason_for_a_decrease():
    rates = [1500.0] * 40
    dip = sample(SAMPLE_S * 41, 1300.0, 4, arrived=round(700 * SAMPLE_S), backlog=11_000, in_flight=11_000)
    answer, after = policy().recommend(dip, watch(rates, 4))
    assert after.level.rate < 900
    assert answer.target == 4
    assert answer.reason.figures["forecast"] == pytest.approx(1300.0, rel=0.01)


def test_a_fall_that_makes_many_executors_superfluous_is_believed_at_once():
    """Ten of them cost as much in 12 s as two changes do, one does in two minutes."""
    fall = sample(NOW, (3 * 4500 + 1000) / 4, 14, arrived=round(1000 * SAMPLE_S))
    answer, after = policy().recommend(fall, watch([4500.0] * 30, 14))
    assert answer.target is not None
    assert answer.target <= 4
    assert answer.reason.figures["forecast"] == pytest.approx(after.level.rate)


def test_a_load_that_falls_steadily_is_no_dip():
    falls = [4000.0 * 0.97**place for place in range(60)]
    now = sample(SAMPLE_S * 61, 1.05 * falls[-1], 4, arrived=round(falls[-1] * SAMPLE_S))
    answer, after = policy().recommend(now, watch(falls, 4))
    assert after.curve.rate_since(now.at - 60.0) > after.level.rate
    assert answer.target is not None
    assert answer.target < 4
    assert answer.reason.figures["forecast"] == pytest.approx(after.level.rate)


def test_a_second_over_the_objective_costs_what_all_allowed_executors_cost():
    late = sample(NOW, 1500.0, 4, arrived=30_000, waiting=30_000, backlog=60_000, lag_s=40.0)
    bounded, _ = policy().recommend(replace(late, bounds=Bounds(1, 40)), watch(STEADY, 4))
    free, _ = policy().recommend(late, watch(STEADY, 4))
    assert bounded.target is not None
    assert free.target is not None
    assert bounded.target >= free.target


def test_a_limit_of_the_guard_on_increases_holds_and_is_planned_with():
    """One at a time and a minute apart: the same load is met earlier, and by one executor."""
    limited = RheostatPolicy(
        RheostatOptions.model_validate({}),
        PolicyContext(Objective(LAG_S), SAMPLE_S, guard=GuardSettings(largest_step_up=1, cooldown_up_s=60.0)),
    )
    jumped = sample(NOW, (3 * 1500 + 3200) / 4, 5, arrived=48_000, waiting=60_000, backlog=80_000, lag_s=30.0)
    answer, _ = limited.recommend(jumped, watch(STEADY, 5))
    assert answer.target == 6
    assert answer.reason.text.endswith("at most 1 at a time: 5 → 6")
    rises = sample(NOW, (3 * 1500 + 2700) / 4, 5, arrived=40_500, waiting=9000, backlog=24_000)
    assert policy().recommend(rises, watch(STEADY, 5))[0].target == 5
    early, _ = limited.recommend(rises, watch(STEADY, 5))
    assert early.target == 6
    locked, _ = limited.recommend(rises, replace(watch(STEADY, 5), changed_at=NOW - SAMPLE_S))
    assert locked.target == 5
    came = replace(watch(STEADY, 5), changed_at=NOW - 70.0, joined_at=NOW - 30.0)
    waits, _ = limited.recommend(rises, came)
    assert waits.target == 5
    assert waits.reason.text.endswith("but the next increase is allowed in 30 s: 5 stays")


def test_help_is_planned_no_faster_than_one_step_a_look():
    context = PolicyContext(Objective(LAG_S), SAMPLE_S, guard=GuardSettings(largest_step_up=1))
    jumped = sample(NOW, (3 * 1500 + 3300) / 4, 5, arrived=49_500, waiting=9000, backlog=24_000)
    slow = RheostatPolicy(RheostatOptions.model_validate({}), context)
    assert policy().recommend(jumped, watch(STEADY, 5))[0].target == 5
    assert slow.recommend(jumped, watch(STEADY, 5))[0].target == 6


def test_a_look_that_the_guard_closed_still_teaches():
    before = watch(STEADY, 4)
    answer, after = policy().recommend(sample(NOW, 1500.0, 4, missing=("settled job",)), before)
    assert answer.target is None
    assert (after.at, after.level.count) == (NOW, before.level.count + 1)


def test_fewer_executors_than_a_minimum_within_a_wave_are_no_option():
    batch = Batch(8, 8, records=5000.0, duration_s=2.0, tasks=(8,), busy_s=(9.0,), driver_s=0.5)
    model = learn_batch(BatchCost(), batch, is_first=False)
    state = replace(watch([500.0] * 30, 8), cost=model)
    answer, _ = policy().recommend(sample(NOW, 500.0, 8, bounds=Bounds(5, 8)), state)
    assert answer.target == 5


def test_executors_that_come_back_after_all_were_lost_teach_nothing_of_joining():
    lost = watch(STEADY, 4)
    lost = replace(lost, start_up=replace(lost.start_up, registered=0))
    ended = (Ended(NOW - 1.0, 7, 12.0, planning_s=0.1, commit_s=0.1, offsets=(15_000,)),)
    _, back = policy().recommend(sample(NOW, 1500.0, 4, batches=0, ended=ended), lost)
    assert (back.grew_from, back.cost.colds) == (None, ())


def test_at_the_greatest_number_that_is_allowed_it_says_so():
    late = sample(NOW, 1600.0, 5, arrived=36_000, waiting=20_000, backlog=40_000, lag_s=45.0, bounds=Bounds(1, 5))
    answer, _ = policy().recommend(late, watch([1500.0] * 30, 5))
    assert (answer.target, answer.reason.code) == (5, ReasonCode.STEADY)
    assert "over the limit are ahead, but no more executors are allowed: 5 stays" in answer.reason.text


def test_low_numbers_that_did_not_last_as_promised_are_trusted_less():
    low = sample(NOW, 600.0, 8)
    answer, promised = policy().recommend(low, watch([600.0] * 30, 8))
    assert (answer.target, promised.lowered) == (2, (NOW, 600.0))
    _, kept = policy().recommend(sample(NOW + 600.0, 600.0, 2, arrived=600 * 600), promised)
    _, done = policy().recommend(sample(NOW + SAMPLE_S, 600.0, 2), promised)
    _, broken = policy().recommend(sample(NOW + 60.0, 600.0, 8, arrived=45 * 600), done)
    assert (kept.lowered, kept.kept_share) == (None, 1.0)
    assert broken.kept_share == pytest.approx(1 - 0.2 * 0.9)
    blocked = policy().recommend(sample(NOW + SAMPLE_S, 3000.0, 8), promised)[1]
    assert (blocked.kept_share, blocked.lowered) == (1.0, None), "the guard kept eight"


def test_executors_that_cost_more_than_a_change_go_all_at_once():
    answer, _ = policy().recommend(sample(NOW, 600.0, 8), watch([600.0] * 30, 8))
    assert answer.target is not None
    assert 2 <= answer.target <= 3
    assert answer.reason.code is ReasonCode.OVERSIZED
    assert "8 would be" in answer.reason.text


def test_an_idle_job_keeps_one():
    quiet = sample(NOW, 0.0, 4, in_flight=0, backlog=0, lag_s=0.0, batch_s=0.0, idle=True)
    answer, _ = policy().recommend(quiet, watch([600.0] * 20 + [0.0] * 10, 4))
    assert answer.target == 1


def test_missing_figures_are_no_opinion():
    answer, _ = policy().recommend(sample(NOW, 1500.0, 5, missing=("lag_s",)), watch(STEADY, 5))
    assert (answer.target, answer.reason.code) == (None, ReasonCode.METRICS_MISSING)


def test_old_figures_are_no_fall_of_the_load():
    """A source that answers from its memory: once with the arrivals of a third of the time, then with none."""
    state = watch(STEADY, 4)
    part = sample(NOW, 1500.0, 4, arrived=7500, metrics_age_s=10.5)
    answer, state = policy().recommend(part, state)
    assert answer.target == 4
    assert state.level.rate == pytest.approx(1500.0, rel=0.01)
    again = sample(NOW + SAMPLE_S, 1500.0, 4, arrived=0, metrics_age_s=25.5, lag_s=25.0)
    answer, after = policy().recommend(again, state)
    assert (answer.target, answer.reason.code) == (4, ReasonCode.METRICS_STALE)
    assert "nothing new is known since the last look, the figures are 26 s old: 4 stays" in answer.reason.text
    assert after == state


def test_figures_that_are_always_late_are_new_each_time():
    state, codes = watch(STEADY, 4), list[ReasonCode]()
    for place, arrived in enumerate((0, 15_750, 22_500, 22_500)):  # the first are of 4.5 s before the last look
        late = sample(NOW + place * SAMPLE_S, 1500.0, 4, metrics_age_s=20.0, arrived=arrived)
        answer, state = policy().recommend(late, state)
        codes.append(answer.reason.code)
    assert codes[-1] is ReasonCode.STEADY
    assert state.level.rate == pytest.approx(1500.0, rel=0.01)


def test_after_a_gap_all_that_arrived_in_it_is_no_jump():
    state = watch(STEADY, 4)
    for place in range(20):
        blind = sample(NOW + place * SAMPLE_S, 0.0, 4, arrival_rate=None, backlog=None, arrived=None)
        state = policy().recommend(blind, state)[1]
    seen = sample(NOW + 20 * SAMPLE_S, 1500.0, 4, arrived=21 * 22_500)
    answer, state = policy().recommend(seen, state)
    assert answer.target == 4
    assert state.level.rate == pytest.approx(1500.0, rel=0.01)


def test_unknown_waiting_records_hold():
    answer, _ = policy().recommend(sample(NOW, 600.0, 8, waiting=None), watch([600.0] * 30, 8))
    assert answer.target == 8


def test_a_wrong_model_yields_to_the_measured_throughput():
    """Batches as predicted, an objective missed, a backlog that grows: something that no batch shows is slow."""
    late = {"waiting": 8000, "backlog": 23_000, "lag_s": 75.0, "processed_rate": 1000.0}
    state = replace(watch(STEADY, 5), backlog=20_000)
    subject = policy()
    seen = sample(NOW, 1500.0, 5, **late)
    followed = subject.recommend(seen, state)[1]
    held = subject._doubt_model(rheostat._Sample(seen, 5, followed), state)
    assert held is not None
    assert held[0].target == 8
    assert held[0].reason.code is ReasonCode.SLA_VIOLATED
    assert "measured, 5 executors carry 1 000/s of 1 500/s; 5 → 8" in held[0].reason.text


def test_the_first_batch_need_not_end_before_there_are_more():
    cold = sample(
        NOW, 2000.0, 2, last_batch_s=None, last_batch_records=None, last_batch_id=None, batches=0, driver_s=None
    )
    stuck = replace(cold, batch_s=45.0, in_flight=20_000, waiting=90_000, backlog=110_000, lag_s=50.0)
    answer, _ = policy().recommend(stuck, RheostatState(at=NOW - SAMPLE_S, target=2))
    assert (answer.target, answer.reason.code) == (4, ReasonCode.CAPACITY_UNKNOWN)
    assert "the running batch works off 444/s at most, 2 000/s arrive: 2 → 4" in answer.reason.text


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"driver_s": 0.0}, id="record at a time"),
        pytest.param({"by_query": (QueryLoad("a", 800.0, 800.0), QueryLoad("b", 700.0, 700.0))}, id="two busy queries"),
    ],
)
def test_without_batches_of_one_query_the_measured_throughput_decides(changes):
    answer, state = policy().recommend(sample(NOW, 1500.0, 5, pressure=0.0, **changes), watch(STEADY, 5))
    assert answer.target == 5
    assert state.measured is not None


def test_every_batch_since_the_last_sample_is_learned_from_with_its_stages():
    stages = (StageWork(8, 20.0), StageWork(16, 20.0))
    batches = [ended(number, 1000 * (number + 1), 4.0, stages) for number in range(3)]
    seen = sample(NOW, 1500.0, 3, slots_per_executor=2, ended=tuple(batches), batches=2, last_batch_records=3000)
    assert rheostat.read_batches(seen) == [
        Batch(3, 6, 1000.0 * (number + 1), 4.0, (8, 16), (20.0, 20.0), 0.2) for number in range(3)
    ]
    bare = replace(seen, ended=(ended(0, 1000, 4.0, ()),))
    assert rheostat.read_batches(bare) == [Batch(3, 6, 1000.0, 4.0, (0,), (24.0,), 0.2)]
    assert rheostat.read_batches(replace(seen, last_batch_records=None)) == []
    joined = rheostat.read_batches(seen, batches[0].at - 7.0)
    assert joined[0].fresh == pytest.approx(1 - 5.0 / 25)
    assert joined[0].fresh > joined[1].fresh > joined[2].fresh
    _, state = policy().recommend(seen, RheostatState())
    assert state.cost.is_known
    assert state.started_at == batches[-1].at - 4.0


def ended(number: int, records: int, duration_s: float, stages: tuple[StageWork, ...]) -> Ended:
    at = NOW - 12.0 + 4 * number
    return Ended(at, number, duration_s, planning_s=0.1, commit_s=0.1, offsets=(records,), stages=stages)


def test_the_running_batch_tells_when_it_began():
    _, state = policy().recommend(sample(NOW, 1500.0, 4, running_since=NOW - 7.0), watch(STEADY, 4))
    assert state.started_at == NOW - 7.0


def test_no_number_beyond_the_bounds_is_priced():
    jumped = sample(NOW, 1925.0, 5, arrived=48_000, waiting=60_000, backlog=80_000, lag_s=30.0, bounds=Bounds(5, 6))
    answer, _ = policy().recommend(jumped, watch(STEADY, 5))
    assert answer.target == 6
    answer, _ = policy().recommend(sample(NOW, 600.0, 8, bounds=Bounds(5, 9)), watch([600.0] * 30, 8))
    assert answer.target == 5


def test_an_idle_query_beside_it_changes_nothing():
    queries = (QueryLoad("a", 1500.0, 1500.0), QueryLoad("b", 0.0, 0.0, idle=True))
    _, state = policy().recommend(sample(NOW, 1500.0, 5, by_query=queries), watch(STEADY, 5))
    assert state.measured is None


# ------------------------------------------------------------------------------------------ on a simulated job


@lru_cache
def cost_of(load: tuple[tuple[float, float], ...], lag_s: float = 60.0, factor: float = 1.0) -> tuple[float, float]:
    """Executor-seconds and 60 for each change; and the share of samples beyond the objective."""
    job = closed_loop.job(objective=f"lag < {lag_s:g} s", trigger_s=5.0, batch_cap=None, executors=[1, 24])
    settings = DecisionSettings(policy(lag_s, 10.0), Bounds(1, 24), GuardSettings(), Objective(lag_s), 10.0)
    points = [(at, factor * rate) for at, rate in load]
    cycles = closed_loop.run(job, points, settings, AnalysisSettings(objective_lag_s=lag_s), executors=2)
    spent = sum(10.0 * (each.decision.target or 0) for each in cycles)
    changes = sum(a.decision.target != b.decision.target for a, b in pairwise(cycles))
    late = sum((each.assessment.lag_s or 0.0) > lag_s for each in cycles) / len(cycles)
    return spent + 60 * changes, late


WAVE = ((0.0, 500.0), (900.0, 4500.0), (1500.0, 4500.0), (2400.0, 600.0), (3000.0, 600.0))
STEPS = ((0.0, 600.0), (600.0, 600.0), (601.0, 4000.0), (1500.0, 4000.0), (1501.0, 1000.0), (2700.0, 1000.0))


@pytest.mark.slow
@pytest.mark.parametrize("load", [WAVE, STEPS], ids=["wave", "steps"])
def test_a_looser_objective_is_no_dearer(load):
    assert cost_of(load, 90.0)[0] <= 1.05 * cost_of(load)[0] <= 1.1 * cost_of(load, 30.0)[0]


@pytest.mark.slow
@pytest.mark.parametrize("load", [WAVE, STEPS], ids=["wave", "steps"])
def test_a_smaller_load_is_no_dearer(load):
    assert cost_of(load, factor=0.5)[0] <= 1.05 * cost_of(load, factor=0.75)[0] <= 1.1 * cost_of(load)[0]


@pytest.mark.parametrize("load", [WAVE, STEPS], ids=["wave", "steps"])
def test_the_objective_holds(load):
    assert cost_of(load)[1] <= 0.01
