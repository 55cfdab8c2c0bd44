from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from tests.policies.samples import HEALTHY, OVERLOAD, reactive, seen

from rheostat.model import Assessment, ReasonCode, Recommendation
from rheostat.policies.capacity import Figure, Learned, slow_records
from rheostat.policies.reactive import ReactivePolicy, ReactiveState


def told(policy: ReactivePolicy, samples: list[Assessment], state: ReactiveState | None = None):
    """Every proposal, and the state at the end."""
    state = policy.initial() if state is None else state
    proposals = list[Recommendation]()
    for sample in samples:
        proposal, state = policy.recommend(sample, state)
        proposals.append(proposal)
    return proposals, state


def settled(each: float | None, executors: int, **more: Any) -> ReactiveState:
    """A state that has been at this number for long, and knows what an executor carries, by either rule."""
    learned = Learned() if each is None else Learned(each, 1, (Figure(1, each, 1, 0.0),))
    return replace(ReactiveState(learned, executors=executors, since=0.0, at=985.0), **more)


def every_15_s(count: int, **changes: Any) -> list[Assessment]:
    return [seen(1000.0 + 15 * i, **changes) for i in range(count)]


@pytest.mark.parametrize(
    ("excess", "rate", "interval_s", "expected"),
    [
        pytest.param(0.0, 1000.0, 15.0, 0.0, id="nothing beyond what a healthy job has"),
        pytest.param(1500.0, 1000.0, 15.0, 0.1, id="a tenth of an interval's records"),
        pytest.param(1500.0, 1000.0, 5.0, 0.3, id="the same at a third of the interval reads three times as high"),
        pytest.param(0.0, 0.0, 15.0, 0.0, id="no load and no backlog"),
        pytest.param(1.0, 0.0, 15.0, float("inf"), id="a backlog without load has no bound"),
    ],
)
def test_slow_records(excess, rate, interval_s, expected):
    assert slow_records(excess, rate, interval_s) == pytest.approx(expected)


def test_a_healthy_job_at_90_percent_occupancy_is_no_violation():
    busy = seen(batch_s=13.5, occupancy=0.9, trigger_s=15.0, backlog_excess=0.0)
    proposals, _ = told(reactive(), [busy], settled(None, 3))
    assert (proposals[0].target, proposals[0].reason.code) == (3, ReasonCode.CAPACITY_UNKNOWN)
    text = "no violation, and the capacity is unknown until one is measured; 90 % of the time used"
    assert proposals[0].reason.text == text


def test_a_use_that_is_unknown_is_told_as_unknown():
    proposals, _ = told(reactive(), [seen(busy_ratio=None, occupancy=None, backlog_excess=0.0)], settled(None, 3))
    text = "no violation, and the capacity is unknown until one is measured; how much of the time is used is unknown"
    assert (proposals[0].reason.code, proposals[0].reason.text) == (ReasonCode.CAPACITY_UNKNOWN, text)


@pytest.mark.parametrize(
    ("changes", "violated"),
    [
        pytest.param({"backlog_excess": 900.0}, True, id="slow records at the limit"),
        pytest.param({"backlog_excess": 899.0}, False, id="slow records just under the limit"),
        pytest.param({"occupancy": 1.0}, True, id="a batch takes the whole period"),
        pytest.param({"occupancy": 0.99}, False, id="a batch takes nearly the period"),
        pytest.param({"arrival_rate": 0.0, "backlog_excess": 5.0}, True, id="a backlog without load"),
        pytest.param({"arrival_rate": 0.0, "processed_rate": 0.0, "occupancy": 1.2}, False, id="no load at all"),
    ],
)
def test_what_a_violation_is(changes, violated):
    sample = seen(**{"processed_rate": None, **changes})
    proposals, _ = told(reactive(), [sample], settled(400.0, 3))
    assert (proposals[0].reason.code is ReasonCode.SLA_VIOLATED) == violated


def test_the_sentence_has_the_figures():
    sample = seen(arrival_rate=812.0, processed_rate=604.0, backlog_excess=3310.0, lag_s=28.0)
    proposals, _ = told(reactive(catch_up_lags=1), [sample], settled(200.0, 3))
    assert proposals[0].reason.text == (
        "slow records 27 % ≥ 10 % at 3 executors (arrival 812/s, processed 604/s, excess 3 310): 3 → 5"
    )


class TestTheExampleOfTheSources:
    """True capacity 1000/s for each executor, load 5000/s, four violations."""

    def run(self, policy: ReactivePolicy) -> ReactiveState:
        state = policy.initial()
        for n in (1, 2, 3, 4):
            sample = replace(
                OVERLOAD, at=1000.0 + 300 * n, executors=n, processed_rate=1000.0 * n, backlog_excess=90_000.0
            )
            _, state = policy.recommend(sample, state)
        return state

    def test_as_printed_it_learns_the_arrival_rate(self):
        policy = reactive("faithful")
        state = self.run(policy)
        assert state.learned.w_max == pytest.approx(2604.17, abs=0.01)
        assert policy.capacity(4, state) == pytest.approx(10416.67, abs=0.01)

    def test_ours_learns_the_capacity(self):
        policy = reactive()
        assert policy.capacity(1, self.run(policy)) == pytest.approx(1000.0)

    def test_as_printed_it_then_goes_down_into_the_next_violation(self):
        policy = reactive("faithful")
        calm = [seen(3000.0 + 15 * i, executors=5, arrival_rate=5000.0) for i in range(10)]
        proposals, _ = told(policy, calm, self.run(policy))
        assert proposals[-1].target == 4


class TestHowManyMore:
    @pytest.mark.parametrize(
        ("options", "changes", "expected"),
        [
            pytest.param({"increase": "one"}, {}, 2, id="option 1: one"),
            pytest.param({"catch_up_lags": None}, {}, 5, id="option 2: what the arrival rate needs"),
            pytest.param({}, {}, 6, id="and what drains the backlog of 60 000 within two lags of 30 s"),
            pytest.param({"catch_up_lags": 1.0}, {}, 7, id="or within one lag"),
            pytest.param(
                {}, {"arrival_rate": 1000.0, "backlog": 30_000, "backlog_excess": 1500.0}, 2, id="at least one more"
            ),
        ],
    )
    def test_of_capacity_1000(self, options, changes, expected):
        sample = replace(OVERLOAD, executors=1, **changes)
        proposals, _ = told(reactive(**options), [sample], settled(1000.0, 1))
        assert proposals[0].target == expected

    def test_one_more_while_the_capacity_is_unknown(self):
        stalled = replace(OVERLOAD, executors=1, processed_rate=None)
        proposals, state = told(reactive(), [stalled], settled(None, 1))
        assert (proposals[0].target, state.learned.w_max) == (2, None)


class TestWhenOneMoreWouldNotHelp:
    @pytest.mark.parametrize(
        ("changes", "target", "code"),
        [
            pytest.param({"batches": 1}, 3, ReasonCode.WARMING_UP, id="one cold batch has finished at this number"),
            pytest.param({"requested": 4, "executors": 3}, 4, ReasonCode.WARMING_UP, id="an executor is on its way"),
            pytest.param(
                {"processed_rate": 1400.0, "backlog_excess": 9000.0}, 3, ReasonCode.CATCHING_UP, id="caught up in 45 s"
            ),
            pytest.param(
                {"processed_rate": 1400.0, "backlog_excess": 15_000.0},
                4,
                ReasonCode.SLA_VIOLATED,
                id="caught up in 75 s",
            ),
            pytest.param(
                {"capped": True, "batch_s": 8.0},
                3,
                ReasonCode.USELESS_EXECUTORS,
                id="full batches end before the trigger",
            ),
            pytest.param(
                {"capped": True, "batch_s": 10.0}, 5, ReasonCode.SLA_VIOLATED, id="full batches take too long"
            ),
        ],
    )
    def test_at_3_executors_of_400(self, changes, target, code):
        sample = replace(OVERLOAD, arrival_rate=1200.0, processed_rate=1100.0, backlog_excess=30_000.0)
        state = settled(400.0, changes.get("requested", 3), since=990.0)
        proposals, _ = told(reactive(), [replace(sample, **changes)], state)
        assert (proposals[0].target, proposals[0].reason.code) == (target, code)

    def test_a_surge_gets_through_before_the_number_has_settled(self):
        surge = replace(OVERLOAD, arrival_rate=3000.0, batches=0)
        proposals, _ = told(reactive(), [surge], settled(400.0, 3, since=990.0))
        assert proposals[0].target == 8

    def test_after_the_objectives_lag_without_a_batch_it_counts_as_settled(self):
        stuck = [replace(OVERLOAD, at=1000.0 + 15 * i, batches=0, processed_rate=None) for i in range(3)]
        proposals, state = told(reactive(), stuck)
        assert [p.target for p in proposals] == [3, 3, 4]
        assert state.learned == Learned()


class TestSurplus:
    def test_fewer_from_the_10th_sample_in_a_row_on(self):
        proposals, _ = told(reactive(), every_15_s(12, arrival_rate=600.0), settled(1000.0, 3))
        assert [p.target for p in proposals] == [3] * 9 + [1] * 3
        assert [p.reason.code for p in proposals[8:10]] == [ReasonCode.SURPLUS_COUNTING, ReasonCode.OVERSIZED]
        assert proposals[8].reason.text.endswith("sample 9 of 10 in a row")

    @pytest.mark.parametrize(
        ("preset", "target"), [pytest.param("default", 2, id="to the need"), pytest.param("faithful", 5, id="by one")]
    )
    def test_how_far(self, preset, target):
        proposals, _ = told(reactive(preset), every_15_s(10, executors=6), settled(400.0, 6))
        assert proposals[-1].target == target

    @pytest.mark.parametrize(
        ("rate", "shrinks"),
        [
            pytest.param(719.0, True, id="two executors would be used to just under 90 percent"),
            pytest.param(721.0, False, id="two executors would be used to more than 90 percent"),
        ],
    )
    def test_the_guard_of_algorithm_2(self, rate, shrinks):
        samples = every_15_s(10, arrival_rate=rate, processed_rate=rate, batch_s=9.9)
        proposals, _ = told(reactive("faithful"), samples, settled(400.0, 3))
        assert proposals[-1].target == (2 if shrinks else 3)

    def test_never_under_one(self):
        proposals, _ = told(reactive(), every_15_s(12, executors=1, arrival_rate=0.0), settled(400.0, 1))
        assert {p.target for p in proposals} == {1}

    @pytest.mark.parametrize(
        "breaks",
        [
            pytest.param({"backlog_excess": 9000.0, "backlog": 40_000}, id="a violation"),
            pytest.param({"missing": ("lag_s",)}, id="a missing sample"),
            pytest.param({"invalid": ("backlog",)}, id="an impossible sample"),
            pytest.param({"requested": 4}, id="a change of the number"),
        ],
    )
    def test_the_count_starts_again_after(self, breaks):
        samples = every_15_s(18, arrival_rate=600.0)
        samples[8] = replace(samples[8], **breaks)
        proposals, _ = told(reactive(memory=1, shrink_on=False), samples, settled(1000.0, 3))
        assert [p.target for p in proposals[9:]] == [3] * 9

    @pytest.mark.parametrize(
        ("shrink_on", "targets"),
        [
            pytest.param(True, [1, 1, 1], id="goes on after a decrease"),
            pytest.param(False, [1, 2, 2], id="begins again"),
        ],
    )
    def test_the_count(self, shrink_on, targets):
        samples = every_15_s(12, arrival_rate=600.0)
        samples[10:] = [replace(sample, executors=2) for sample in samples[10:]]
        proposals, _ = told(reactive(shrink_on=shrink_on), samples, settled(1000.0, 3))
        assert [p.target for p in proposals[9:]] == targets

    @pytest.mark.parametrize("unknown", [{"processed_rate": None}, {"occupancy": None}])
    def test_the_count_waits_while_the_speed_is_unknown(self, unknown):
        samples = every_15_s(12)
        samples[5] = replace(samples[5], **unknown)
        proposals, _ = told(reactive(), samples, settled(1000.0, 3))
        assert [p.target for p in proposals] == [3] * 10 + [1] * 2
        assert proposals[5].reason.text.endswith("the count waits")

    def test_the_count_starts_again_after_a_sample_that_comes_late(self):
        samples = every_15_s(11, arrival_rate=600.0)
        samples[9:] = [replace(sample, at=sample.at + 16) for sample in samples[9:]]
        proposals, state = told(reactive(), samples, settled(1000.0, 3))
        assert ({p.target for p in proposals}, state.streak) == ({3}, 2)


class TestProbe:
    """The capacity is unknown: no batch has shown a rate."""

    def test_ample_from_the_start_it_goes_down(self):
        samples = every_15_s(10, executors=4, batch_s=3.0, occupancy=0.2, busy_ratio=0.35, processed_rate=0.0)
        proposals, _ = told(reactive(), samples)
        assert (proposals[-1].target, proposals[-1].reason.code) == (3, ReasonCode.PROBE_DOWN)

    @pytest.mark.parametrize(
        "changes",
        [
            pytest.param({"batch_s": 9.0, "busy_ratio": None}, id="batches take too much of the trigger interval"),
            pytest.param({"busy_ratio": 0.38}, id="the slots are too busy"),
            pytest.param({"occupancy": 0.38}, id="the occupancy is too high"),
            pytest.param({"trigger_s": 0.0, "busy_ratio": None}, id="only the occupancy is known"),
            pytest.param({"occupancy": None}, id="the occupancy is not known"),
            pytest.param({"executors": 1}, id="there is only one"),
        ],
    )
    def test_it_stays_where(self, changes):
        ample = {"executors": 4, "batch_s": 3.0, "occupancy": 0.2, "busy_ratio": 0.35, "processed_rate": 0.0}
        proposals, _ = told(reactive(), every_15_s(12, **{**ample, **changes}))
        assert {p.target for p in proposals} == {changes.get("executors", 4)}
        assert ReasonCode.SURPLUS_COUNTING not in {p.reason.code for p in proposals}

    def test_batches_as_long_as_the_trigger_do_not_hide_idle_slots(self):
        """40/s on three: a batch takes 1.9 s of a trigger of 2 s, nearly all of it the driver's part."""
        idle = {"arrival_rate": 40.0, "processed_rate": 40.0, "batch_s": 1.9, "trigger_s": 2.0, "period_s": 10.0}
        proposals, _ = told(reactive(), every_15_s(10, occupancy=0.19, busy_ratio=0.15, **idle))
        assert (proposals[-1].target, proposals[-1].reason.code) == (2, ReasonCode.PROBE_DOWN)

    def test_the_paper_does_not_probe(self):
        proposals, _ = told(reactive("faithful"), every_15_s(12, executors=4, batch_s=0.1, occupancy=0.01))
        assert {p.target for p in proposals} == {4}


class TestFiguresThatLowUseContradicts:
    """Learned in a stall: 66/s on three, though they could do hundreds. 70/s arrive, a fifth of the time is used."""

    def last(self, *figures: Figure, **changes: Any) -> Recommendation:
        low: dict[str, Any] = {"arrival_rate": 70.0, "processed_rate": 70.0, "batch_s": 10.0, "occupancy": 0.2}
        samples = every_15_s(10, **{**low, "busy_ratio": 0.2, **changes})
        state = replace(settled(None, 3), learned=Learned(figures=figures))
        last: Recommendation = told(reactive(), samples, state)[0][-1]
        return last

    def test_one_less_is_tried(self):
        proposal = self.last(Figure(3, 66.0, 1, 900.0))
        assert (proposal.target, proposal.reason.code) == (2, ReasonCode.PROBE_DOWN)
        assert proposal.reason.text == (
            "arrival 70/s needs 4 executors at 90 % of 70/s, "
            "yet 20 % of the time used, under 33 %, 10 samples in a row: 3 → 2"
        )

    @pytest.mark.parametrize(
        ("figures", "changes", "target"),
        [
            pytest.param([Figure(3, 66.0, 1, 900.0)], {"busy_ratio": 0.34}, 3, id="not where more is used"),
            pytest.param([Figure(2, 44.0, 1, 900.0)], {}, 3, id="nor where two were too few four minutes ago"),
            pytest.param([Figure(2, 44.0, 1, -800.0)], {}, 2, id="but where that was half an hour ago"),
            pytest.param([Figure(2, 44.0, 0, 900.0)], {}, 2, id="and where it is only a lower bound"),
        ],
    )
    def test_unless(self, figures, changes, target):
        assert self.last(*figures, **changes).target == target


@pytest.mark.parametrize(
    ("batch_s", "target", "measured"),
    [
        pytest.param(60.0, 13, 1, id="of a minute: measured"),
        pytest.param(40.0, 10, 0, id="the first of all is maybe cold: a lower bound"),
    ],
)
def test_an_overload_teaches_also_where_two_batches_never_end_within_the_lag(batch_s, target, measured):
    """Batches longer than a lag of 30 s: from 30 s on the number counts as settled, and its rate is learned."""
    long: dict[str, Any] = {
        "executors": 5,
        "batches": 1,
        "batch_s": batch_s,
        "last_batch_s": batch_s,
        "processed_rate": 1000.0,
        "arrival_rate": 1500.0,
    }
    samples = [replace(OVERLOAD, at=1000.0 + 15 * i, **long) for i in range(3)]
    proposals, state = told(reactive(), samples)
    assert [p.target for p in proposals] == [5, 5, target]
    assert state.learned.figures == (Figure(5, 1000.0, measured, 1030.0),)


def test_by_a_lower_bound_alone_an_increase_at_most_doubles_the_number():
    """Healthy: 600/s in 6 s of 10 on three, so 333/s each or more; then 2500/s arrive, for which eight are enough."""
    calm = every_15_s(3, busy_ratio=0.4)
    surge = seen(1045.0, arrival_rate=2500.0, processed_rate=600.0, backlog_excess=30_000.0, busy_ratio=0.4)
    proposals, state = told(reactive(), [*calm, surge])
    assert (proposals[-1].target, [each.samples for each in state.learned.figures]) == (6, [0])


def test_without_what_it_needs_it_has_no_opinion():
    proposals, _ = told(reactive(), [seen(arrival_rate=None), replace(HEALTHY, executors=None)], settled(400.0, 3))
    assert [(p.target, p.reason.code) for p in proposals] == [(None, ReasonCode.METRICS_MISSING)] * 2


def test_a_larger_load_never_gets_fewer_at_the_edge_between_catching_up_and_overload():
    """What is learned flips there: 800/s processed by two, whose capacity was thought to be 100/s each."""
    targets = []
    for rate in (780.0, 799.0, 800.0, 801.0, 820.0):
        sample = replace(OVERLOAD, executors=2, arrival_rate=rate, processed_rate=800.0, backlog_excess=rate * 60)
        proposals, _ = told(reactive(), [sample], settled(100.0, 2))
        targets.append(proposals[0].target)
    assert all(larger >= smaller for smaller, larger in pairwise(targets))
