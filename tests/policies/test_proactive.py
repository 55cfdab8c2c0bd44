"""Exploration, the check, control, a change point, and exploration again; each rule with figures worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
from pydantic import TypeAdapter
from tests.policies.options import documented, expected
from tests.policies.samples import reactive, seen

from rheostat.decide.policy import PolicyContext, load_policy
from rheostat.errors import InputError
from rheostat.learn.slow_records import Sample, SlowModel, train
from rheostat.model import Assessment, Objective, ReasonCode, Recommendation
from rheostat.policies.capacity import Figure, Learned, Recovery
from rheostat.policies.proactive import Outlook, ProactiveOptions, ProactivePolicy, ProactiveState, TrainingRows
from rheostat.policies.reactive import ReactiveState
from rheostat.policies.trend import DetectorState, LoadPoint
from rheostat.sample_store import MemorySampleStore
from rheostat.testing.policies import check_policy
from rheostat.testing.stories import STORIES, Job

CONTEXT = PolicyContext(Objective(30.0), 15.0, rate_window_s=15.0)
EACH = 400.0
"""Records/s that an executor carries in these tests."""


def proactive(preset: str = "default", sample_s: float = 15.0, **options: Any) -> ProactivePolicy:
    context = replace(CONTEXT, sample_s=sample_s, preset=preset, sample_store=MemorySampleStore())
    policy = load_policy("proactive", options, context)
    assert isinstance(policy, ProactivePolicy)
    return policy


def slow(w: float, n: int) -> float:
    """0.1 where the load meets the capacity, 0.025 more for each 100 records/s more."""
    return max(0.0, 0.1 + (w - EACH * n) / 4000)


def rows() -> list[Sample]:
    """Around the capacity of 1 to 5 executors, 19 loads each; with a little noise."""
    points = [(n, EACH * (n - 1) + 800 * place / 18) for n in range(1, 6) for place in range(19)]
    noise = (0.003, -0.003)
    return [Sample(float(at), (w,), n, max(0.0, slow(w, n) + noise[at % 2])) for at, (n, w) in enumerate(points)]


@lru_cache
def model() -> SlowModel:
    return train(rows(), EACH).model


def in_control(n: int = 3, rates: tuple[float, ...] = (600.0,) * 40, **more: Any) -> ProactiveState:
    """A state in control at 985, settled at n, after those arrival rates each 15 s."""
    first = 1000.0 - 15 * len(rates)
    figures = tuple(Figure(number, EACH * number, 1, 0.0) for number in (1, 8))
    return replace(
        ProactiveState(
            mode="control",
            reactive=ReactiveState(Learned(EACH, 7, figures), executors=n, since=0.0, at=985.0),
            recovery=Recovery(n, 0.0, ready=True, recovered=True),
            series=tuple(LoadPoint(first + 15 * place, (rate,)) for place, rate in enumerate(rates)),
            model=model(),
        ),
        **more,
    )


def told(
    policy: ProactivePolicy, samples: list[Assessment], state: ProactiveState | None = None
) -> tuple[list[Recommendation], ProactiveState]:
    """Every proposal, and the state at the end."""
    state, proposals = policy.initial() if state is None else state, []
    for sample in samples:
        proposal, state = policy.recommend(sample, state)
        proposals.append(proposal)
    return proposals, state


def every(seconds: float, count: int, first: float = 1000.0, **changes: Any) -> list[Assessment]:
    return [seen(first + seconds * number, **changes) for number in range(count)]


# ----------------------------------------------------------------------------------------------- exploration


@pytest.mark.parametrize("preset", ["default", "faithful"])
@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_it_explores_as_reactive_does(preset, story):
    ours, theirs, job = proactive(preset, headroom=0.9), reactive(preset), Job(story)
    state, other = ours.initial(), theirs.initial()
    for step in story.steps:
        sample = job.step(step)
        (mine, state), (wanted, other) = ours.recommend(sample, state), theirs.recommend(sample, other)
        assert (mine.target, mine.reason.code) == (wanted.target, wanted.reason.code)
        if mine.target is not None:
            job.ask(story.bounds.clamp(mine.target))


def with_rows(count: int, start: int = 0) -> ProactiveState:
    """About to take row number ``count`` of those above, in exploration, at 3 executors."""
    found = in_control()
    kept = tuple(row._replace(at=900.0 + row.at) for row in rows()[start : start + count])
    return replace(found, mode="exploration", model=None, data=TrainingRows(kept, unchecked=len(kept)))


class TestTheCheck:
    def test_a_stable_model_begins_control_with_the_next_sample(self):
        policy = proactive(check_every=95, stability_limit=0.05)
        (first,), state = told(policy, [seen(arrival_rate=600.0)], with_rows(94))
        assert (first.target, first.reason.code, state.mode) == (3, ReasonCode.SURPLUS_COUNTING, "control")
        assert first.reason.text.endswith("at most 0.05: control begins")
        assert (state.data.unchecked, len(state.data.rows)) == (0, 95)

    def test_an_unstable_one_is_not_believed_and_the_rows_are_kept(self):
        policy = proactive(check_every=95, stability_limit=1e-9)
        (first,), state = told(policy, [seen()], with_rows(94))
        assert (state.mode, state.model, state.data.unchecked, len(state.data.rows)) == ("exploration", None, 0, 95)
        assert first.reason.text.endswith("more than 1e-09: exploration goes on")

    def test_it_waits_for_the_capacity(self):
        policy = proactive(check_every=95)
        state = with_rows(94)
        state = replace(state, reactive=replace(state.reactive, learned=Learned()))
        _, state = told(policy, [seen(busy_ratio=0.2)], state)
        assert (state.mode, state.data.unchecked) == ("exploration", 95)

    def test_too_few_different_rows_are_no_model(self):
        policy = proactive(check_every=10)
        (first,), state = told(policy, [seen()], with_rows(9))
        assert (state.mode, state.data.unchecked) == ("exploration", 0)
        assert "no model can be trained on 10 samples" in first.reason.text


class TestWhichSamplesCount:
    @pytest.mark.parametrize(
        ("changes", "recovered", "count"),
        [
            pytest.param({}, True, 1, id="settled"),
            pytest.param({"executors": 2, "requested": 3}, True, 0, id="one is on its way"),
            pytest.param({"batches": 0}, True, 0, id="no batch has finished at this number"),
            pytest.param({"backlog_excess": 500.0}, False, 0, id="not recovered from the change"),
            pytest.param({"backlog_excess": 500.0}, True, 1, id="a violation after that"),
            pytest.param({"missing": ("lag_s",)}, True, 0, id="incomplete"),
            pytest.param({"missing": ("settled job",)}, True, 0, id="in the hold of the guards"),
        ],
    )
    def test_rows(self, changes, recovered, count):
        state = in_control(recovery=Recovery(3, 900.0, ready=recovered, recovered=recovered))
        state = replace(state, mode="exploration", model=None)
        _, state = told(proactive(), [seen(**changes)], state)
        assert len(state.data.rows) == count

    def test_the_workload_is_kept_through_the_hold(self):
        _, state = told(proactive(), [seen(missing=("settled job",), arrival_rate=777.0)], in_control())
        assert state.series[-1] == LoadPoint(1000.0, (777.0,))

    def test_one_interval_for_both_modes(self):
        """450 late records of 600/s × 15 s are 5 % slow, whether exploring or in control."""
        late = seen(backlog_excess=450.0)
        _, exploring = told(proactive(), [late], replace(in_control(), mode="exploration", model=None))
        _, controlling = told(proactive(), [late], in_control())
        assert exploring.data.rows[-1].slow == controlling.data.rows[-1].slow == pytest.approx(0.05)

    def test_a_stall_is_learnt_as_no_more_than_all_records(self):
        _, state = told(proactive(), [seen(backlog_excess=1e6)], replace(in_control(), mode="exploration", model=None))
        assert state.data.rows[-1].slow == 1.0


# ------------------------------------------------------------------------------------------------- control


class TestTheTarget:
    """Rates of 15 s windows, so a forecast 60 s ahead is read 67.5 s after the last point."""

    @pytest.mark.parametrize(
        ("rates", "n", "proposed"),
        [
            pytest.param([600.0] * 41, 2, 2, id="600/s: two carry 800"),
            pytest.param([1000.0] * 41, 2, 3, id="1000/s: three carry 1200"),
            pytest.param([400 + 5.0 * t for t in range(41)], 2, 2, id="600/s and rising by 20 a minute: 622"),
            pytest.param([20.0 * t for t in range(41)], 2, 3, id="800/s and rising by 80 a minute: 890"),
            pytest.param([1200 - 10.0 * t for t in range(41)], 3, 3, id="800/s and falling: what is now needs three"),
            pytest.param([600.0] * 41, 6, 4, id="down to two: by 0.4 of the way, 4.4"),
        ],
    )
    def test_the_smallest_that_carries_the_next_minute(self, rates, n, proposed):
        state = in_control(n, tuple(rates[:-1]))
        (first,), _ = told(proactive(), [seen(arrival_rate=rates[-1], executors=n)], state)
        assert (first.target, first.reason.code) == (proposed, ReasonCode.FORECAST)

    def test_without_the_present_rate_a_fall_is_followed_earlier(self):
        """810/s falling by 160 a minute: three carry what is now, two the 777/s of 5 s from now and all after that."""
        rates = [810 + 40.0 * (40 - t) for t in range(41)]
        sample, state = seen(arrival_rate=rates[-1], executors=3), in_control(3, tuple(rates[:-1]))
        (ours,), _ = told(proactive(headroom=1.0), [sample], state)
        (theirs,), _ = told(proactive(headroom=1.0, present=False, gain_down=1.0), [sample], state)
        assert (ours.target, theirs.target) == (3, 2)

    def test_it_looks_as_far_ahead_as_a_change_takes(self):
        """740/s, rising by 40 a minute: 785/s in a minute, 905 in four. Two carry 800, three 1200."""
        rates = [340 + 10.0 * t for t in range(41)]
        sample, state = seen(arrival_rate=rates[-1], executors=2), in_control(2, tuple(rates[:-1]))
        slow = replace(state, recovery=replace(state.recovery, took_s=(240.0,)))
        assert [told(proactive(), [sample], each)[0][0].target for each in (state, slow)] == [2, 3]

    @pytest.mark.parametrize(("samples", "target"), [(1, 9), (0, 3)])
    def test_a_nights_bound_asks_for_no_more_executors_as_a_measurement_does(self, samples, target):
        """3 carry 200/s at least, or at most; 600/s arrive, and the model says that 3 carry them."""
        state = in_control()
        learned = replace(state.reactive.learned, figures=(Figure(3, 200.0, samples, 0.0),))
        state = replace(state, reactive=replace(state.reactive, learned=learned), level=3.0)
        (proposal,), _ = told(proactive(gain_up=1.0), [seen(1000.0)], state)
        assert proposal.target == target, proposal.reason.text

    def test_beyond_all_that_was_seen_the_capacity_decides(self):
        state = in_control(3, (5900.0,) * 40)
        (first,), _ = told(proactive(), [seen(arrival_rate=5900.0, processed_rate=5900.0)], state)
        assert first.target == 14  # 0.9 of the way from 3 to the 15 that carry it

    def test_no_number_is_enough_for_more_than_all_tasks_carry(self):
        state = in_control(3, (1e6,) * 40)
        crowded = seen(arrival_rate=1e6, processed_rate=1e6, useful_executors=30)
        (first,), _ = told(proactive(gain_up=1.0), [crowded], state)
        assert first.target == 30

    def test_headroom_is_asked_for_on_the_way_down_only(self):
        """760/s: two carry 800, but not at 90 %. So two stay, and three stay too."""
        sample = seen(arrival_rate=760.0)
        targets = [
            told(proactive(headroom=0.9), [replace(sample, executors=n)], in_control(n, (760.0,) * 40))[0][0].target
            for n in (2, 3)
        ]
        assert targets == [2, 3]

    def test_it_does_not_go_down_before_the_job_has_recovered(self):
        state = in_control(6, recovery=Recovery(6, 990.0, ready=True))
        (first,), _ = told(proactive(), [seen(executors=6, backlog_excess=1.0)], state)
        assert first.target == 6

    def test_a_violation_is_answered_at_once(self):
        late = seen(backlog_excess=60_000.0, processed_rate=500.0, executors=2)
        (ours,), _ = told(proactive(), [late], in_control(2))
        (theirs,), _ = told(proactive(net=False), [late], in_control(2))
        assert (ours.reason.code, ours.target) == (
            ReasonCode.SLA_VIOLATED,
            4,
        )  # 600/s and 60 000 within two lags of 30 s
        assert (theirs.reason.code, theirs.target) == (ReasonCode.FORECAST, 2)


def test_hysteresis_goes_down_step_by_step_and_arrives():
    policy, state, number, found = proactive(), in_control(8), 8, []
    for sample in every(15.0, 8):
        proposal, state = policy.recommend(replace(sample, executors=number, batches=9), state)
        number = proposal.target or 0
        found.append(number)
    assert found == [6, 4, 3, 3, 2, 2, 2, 2]


class TestThePeriods:
    """The loop cycles every 5 s. Checks each 15 s in exploration; samples each 5 s, decisions each 60 s in control."""

    def test_in_exploration(self):
        state = replace(in_control(), mode="exploration", model=None)
        state = replace(state, reactive=replace(state.reactive, streak=0))
        _, state = told(proactive("faithful", 5.0), every(5.0, 13), state)
        assert [row.at for row in state.data.rows] == [1000.0, 1015.0, 1030.0, 1045.0, 1060.0]
        assert state.reactive.streak == 5

    def test_in_control(self):
        policy, state = proactive("faithful", 5.0), in_control(6)
        decided = set[float]()
        for sample in every(5.0, 25, executors=6):
            _, state = policy.recommend(sample, state)
            decided.add(state.decided_at or 0.0)
        assert sorted(decided) == [1000.0, 1060.0, 1120.0]
        assert len(state.data.rows) == 25

    def test_between_two_decisions_the_number_stays(self):
        proposals, _ = told(proactive("faithful", 5.0), every(5.0, 3, executors=6), in_control(6))
        assert [each.target for each in proposals] == [4, 6, 6]

    def test_a_sample_that_comes_a_little_early_is_due(self):
        state = replace(in_control(), mode="exploration", model=None)
        _, state = told(proactive("faithful", 5.0), every(4.99, 7), state)
        assert len(state.data.rows) == 3


# ------------------------------------------------------------------------------------------- change points


def expecting(rate: float, n: int = 2) -> ProactiveState:
    """In control, with that rate forecast for the next minute."""
    return in_control(n, (rate,) * 40, outlook=Outlook(985.0, 5.0, ((rate,),) * 12))


class TestResiduals:
    def test_a_job_as_predicted_leaves_none(self):
        """600/s at two executors: 5 % slow, as the model says."""
        _, state = told(proactive(), every(15.0, 20, executors=2, backlog_excess=0.05 * 600 * 15), expecting(600.0))
        assert (state.mode, state.watched.misses) == ("control", 0)
        assert max(state.watched.recent) < 0.02

    def test_a_forecast_miss_is_counted_and_nothing_else(self):
        """200/s were expected, 860/s came: at two executors 11.5 % slow, just as the model says of 860/s."""
        late = seen(arrival_rate=860.0, backlog_excess=0.115 * 860 * 15, executors=2)
        _, state = told(proactive(net=False, residuals_in_a_row=1), [late], expecting(200.0))
        assert (state.mode, state.watched.misses) == ("control", 1)
        assert state.watched.recent[0] < 0.08

    def test_a_capacity_miss_is_a_change_point_after_three_in_a_row(self):
        """600/s as expected, of which two executors have 5 % slow; now 20 % are."""
        late = every(15.0, 3, backlog_excess=0.2 * 600 * 15, executors=2)
        proposals, state = told(proactive(net=False), late, expecting(600.0))
        assert [each.reason.code for each in proposals] == [
            ReasonCode.FORECAST,
            ReasonCode.FORECAST,
            ReasonCode.CHANGE_POINT,
        ]
        assert "abruptly" in proposals[-1].reason.text
        assert (state.mode, state.model) == ("exploration", None)

    def test_one_residual_is_enough_for_the_document(self):
        late = seen(backlog_excess=0.14 * 600 * 15, executors=2)
        (first,), state = told(proactive("faithful"), [late], expecting(600.0))
        assert (first.reason.code, state.mode) == (ReasonCode.CHANGE_POINT, "exploration")

    def test_gradual_change_is_found_below_the_limit(self):
        """11.5 % instead of 5: 9 × (0.065 − 0.02) are more than 5 × 0.08."""
        late = every(15.0, 12, backlog_excess=0.115 * 600 * 15, executors=2)
        proposals, _ = told(proactive(net=False), late, expecting(600.0))
        codes = [each.reason.code for each in proposals]
        assert codes.index(ReasonCode.CHANGE_POINT) == 8
        assert "gradually" in proposals[8].reason.text
        faithful, _ = told(proactive("faithful", decide_every_s=None), late, expecting(600.0))
        assert ReasonCode.CHANGE_POINT not in {each.reason.code for each in faithful}

    @pytest.mark.parametrize(
        ("sampled", "n", "rate"),
        [
            pytest.param(range(1000, 3900, 10), 4, 3860.0, id="sampled up to here"),
            pytest.param(range(1000, 3000, 10), 4, 3860.0, id="sampled with less load only"),
            pytest.param(range(1000, 3900, 10), 3, 2950.0, id="sampled on more executors only"),
        ],
    )
    def test_a_healthy_job_near_its_capacity_is_no_change(self, sampled, n, rate):
        """An executor carries 1000/s, so above 900/s each the model expects slow records; there are none."""
        samples = [Sample(float(at), (float(load),), 4, 0.0) for at, load in enumerate(sampled)]
        state = replace(
            in_control(n, (rate,) * 40, outlook=Outlook(985.0, 5.0, ((rate,),) * 12)),
            model=train(samples, 1000.0).model,
            reactive=ReactiveState(Learned(1000.0, 7, (Figure(8, 8000.0, 1, 0.0),)), executors=n, since=0.0, at=985.0),
        )
        healthy = every(15.0, 100, executors=n, arrival_rate=rate, processed_rate=rate, backlog_excess=0.0)
        proposals, after = told(proactive(), healthy, state)
        assert ReasonCode.CHANGE_POINT not in {each.reason.code for each in proposals}
        assert after.watched.total == 0.0

    def test_fewer_slow_records_than_predicted_are_no_change(self):
        """1000/s at two executors: 15 % slow by the model, none measured."""
        healthy = every(15.0, 20, executors=2, arrival_rate=1000.0, backlog_excess=0.0)
        _, state = told(proactive(net=False), healthy, expecting(1000.0))
        assert (state.mode, state.watched.total) == ("control", 0.0)
        printed, _ = told(proactive("faithful"), healthy, expecting(1000.0))
        assert printed[0].reason.code is ReasonCode.CHANGE_POINT

    def test_what_went_well_with_more_load_must_go_well_on_one_executor_more(self):
        """600/s were sampled on up to five executors; on six there is no sample, and no more may be slow."""
        late = every(15.0, 3, executors=6, backlog_excess=0.2 * 600 * 15)
        proposals, _ = told(proactive(net=False), late, expecting(600.0, 6))
        assert proposals[-1].reason.code is ReasonCode.CHANGE_POINT

    @pytest.mark.parametrize(
        "changes",
        [
            pytest.param({"executors": 2, "requested": 3}, id="executors are on their way"),
            pytest.param({"batches": 0}, id="no batch has finished at this number"),
            pytest.param({"missing": ("batch_s",)}, id="incomplete"),
        ],
    )
    def test_a_sample_that_does_not_count_has_no_residual(self, changes):
        late = seen(**{"executors": 2, "backlog_excess": 9000.0, **changes})
        _, state = told(proactive(net=False), [late], expecting(600.0))
        assert state.watched == DetectorState()

    def test_the_prediction_is_that_for_the_number_in_force(self):
        """Whatever was proposed, one executor is in force: 9.9 % slow at 396/s, as the model says of one."""
        late = seen(arrival_rate=396.0, backlog_excess=0.099 * 396 * 15, executors=1)
        _, state = told(proactive(net=False), [late], expecting(396.0, 1))
        assert state.watched.recent[0] < 0.01


def test_what_a_change_point_drops_and_what_it_keeps():
    before = in_control(
        2,
        data=TrainingRows(tuple(rows()), archived=1000, unchecked=7),
        outlook=Outlook(985.0, 5.0, ((600.0,),) * 12),
        level=2.2,
        recovery=Recovery(2, 0.0, ready=True, recovered=True, took_s=(35.0,)),
    )
    before = replace(before, reactive=replace(before.reactive, streak=4))
    late = seen(backlog_excess=0.2 * 600 * 15, executors=2)
    _, after = told(proactive("faithful"), [late], before)
    assert (after.mode, after.model, after.outlook, after.level, after.watched) == (
        "exploration",
        None,
        None,
        None,
        DetectorState(),
    )
    assert after.data == TrainingRows((), archived=1000, since=1000.0)
    assert after.reactive.streak == 0
    assert (after.reactive.learned.w_max, after.reactive.learned.samples) == (EACH, 1)
    assert after.reactive.learned.figures == before.reactive.learned.figures
    assert after.series[:-1] == before.series
    assert after.recovery.took_s == (35.0,)


def test_relearning_in_control_replaces_the_model():
    state = replace(in_control(), data=replace(with_rows(94).data))
    policy = proactive(check_every=95, stability_limit=0.05)
    (first,), after = told(policy, [seen()], state)
    assert after.mode == "control"
    assert first.reason.text.endswith("at most 0.05: it replaces the old one")
    assert after.data.unchecked == 0
    assert after.model not in (None, state.model)
    _, once = told(proactive(check_every=95, stability_limit=0.05, relearn=False), [seen()], state)
    assert once.model is state.model


class TestSeveralTopics:
    def sample(self, at: float, first: float, second: float, **changes: Any) -> Assessment:
        rates = (("a", first), ("b", second))
        return seen(at, arrival_rate=first + second, arrival_rates=rates, **changes)

    def test_the_workload_is_a_vector(self):
        _, state = told(proactive(), [self.sample(1000.0, 400.0, 100.0), self.sample(1015.0, 420.0, 90.0)])
        assert [row.workload for row in state.data.rows] == [(400.0, 100.0), (420.0, 90.0)]
        assert state.series[-1] == LoadPoint(1015.0, (420.0, 90.0))
        assert state.data.topics == ("a", "b")

    def test_the_capacity_of_the_sum_does_not_bound_them(self):
        """A record of b costs nothing beside one of a: 2000/s in all, of which one executor carries 100/s of a."""
        rows = [
            Sample(float(at), (first, second), 1, max(0.0, first / 4000))
            for at, (first, second) in enumerate((f, s) for f in range(0, 800, 50) for s in (0.0, 1000.0, 2000.0))
        ]
        learned = train(rows, None).model
        series = tuple(LoadPoint(400.0 + 15 * place, (100.0, 1900.0)) for place in range(40))
        state = in_control(1, model=learned, series=series, data=TrainingRows(topics=("a", "b")))
        (first,), _ = told(proactive(), [self.sample(1000.0, 100.0, 1900.0, executors=1, processed_rate=2000.0)], state)
        assert (first.target, first.reason.code) == (1, ReasonCode.FORECAST)

    def test_other_topics_begin_exploration_anew(self):
        _, state = told(proactive(), [self.sample(1000.0, 400.0, 100.0)], in_control())
        assert (state.mode, state.data.topics, len(state.series)) == ("exploration", ("a", "b"), 1)

    def test_a_query_without_metrics_does_not(self):
        blind = Assessment(1000.0, missing=("arrival_rate",))
        _, state = told(proactive(), [blind], in_control())
        assert state.mode == "control"


# ------------------------------------------------------------------------------------------ laws and pages


CONTROLLING: dict[str, Any] = {"check_every": 10, "stability_limit": 10.0}
"""So that a model is made, and believed, within a story of conformance."""


@pytest.mark.parametrize("preset", ["default", "faithful"])
def test_the_laws_hold_in_control_too(preset):
    options = {**CONTROLLING, "preset": preset, "relearn": False, "explore_every_s": None}
    stories = [story for story in STORIES if story.name in {"fall", "gaps", "two waves"}]
    assert check_policy(lambda: load_policy("proactive", options, CONTEXT), stories=stories) == {}


def test_the_stories_reach_control():
    policy = proactive(**CONTROLLING)
    modes = set()
    for story in STORIES:
        job, state = Job(story), policy.initial()
        for step in story.steps:
            proposal, state = policy.recommend(job.step(step), state)
            modes.add((story.name, state.mode))
            job.ask(story.bounds.clamp(proposal.target or job.executors))
    assert {name for name, mode in modes if mode == "control"} >= {"rise", "fall", "gaps", "two waves"}


def test_a_crash_at_any_sample_changes_no_decision():
    policy, adapter = proactive(**CONTROLLING), TypeAdapter(ProactiveState)
    job, whole, restored = Job(STORIES[-1]), policy.initial(), policy.initial()
    for step in STORIES[-1].steps:
        sample = job.step(step)
        first, whole = policy.recommend(sample, whole)
        second, restored = policy.recommend(sample, adapter.validate_json(adapter.dump_json(restored)))
        assert (first, whole) == (second, restored)
        job.ask(STORIES[-1].bounds.clamp(first.target or job.executors))
    assert whole.mode == "control"


def test_every_wrong_option_is_named():
    with pytest.raises(InputError) as caught:
        load_policy("proactive", {"alpha": 0.9, "gain_up": 0.0, "degree": 9}, CONTEXT)
    assert sorted(fault.field for fault in caught.value.faults) == [
        "policy_options.alpha",
        "policy_options.degree",
        "policy_options.gain_up",
    ]


def test_the_faithful_preset_has_the_constants_of_the_document():
    options = proactive("faithful").options
    assert (options.sla, options.headroom, options.samples_to_shrink, options.slow_interval_s) == (0.1, 0.9, 10, 15.0)
    assert (options.explore_every_s, options.sample_every_s, options.decide_every_s) == (15.0, 5.0, 60.0)
    assert (options.check_every, options.resamples, options.degree) == (450, 250, 8)
    assert (options.back_s, options.horizon_s, options.step_s) == (600.0, 60.0, 5.0)
    assert (options.gain_up, options.gain_down, options.residual_limit) == (0.9, 0.4, 0.08)
    assert (options.increase, options.learn_from, options.probe, options.net) == ("one", "arrival", False, False)


def test_the_page_has_every_option():
    theirs = reactive().options_type.model_fields
    assert set(ProactiveOptions.model_fields) > set(theirs)
    same = {name for name, field in theirs.items() if field.default == ProactiveOptions.model_fields[name].default}
    rows = expected(ProactivePolicy, "faithful", "demo")
    assert documented("proactive") == [row for row in rows if row[0] not in same]
