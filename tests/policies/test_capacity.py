from dataclasses import replace
from typing import Any

import pytest
from tests.policies.samples import OVERLOAD, reactive, seen

from rheostat.decide.policy import cap_limits
from rheostat.decide.rates import busy_rate
from rheostat.model import QueryLoad
from rheostat.policies.capacity import (
    Figure,
    Frame,
    Learned,
    capacity_shown,
    learn_arrival,
    learn_healthy,
    learn_overload,
    usage,
)
from rheostat.policies.reactive import ReactiveState

AT = OVERLOAD.at


def overload(arrival: float, processed: float | None, executors: int = 1, **more: Any):
    """Batches of 14 s where half of τ is 7.5 s, and all slots busy."""
    return replace(OVERLOAD, arrival_rate=arrival, processed_rate=processed, executors=executors, **more)


def known(*figures: tuple[int, float, int]) -> Learned:
    return Learned(figures=tuple(Figure(n, rate, samples, 0.0) for n, rate, samples in figures))


def read(learned: Learned) -> list[Any]:
    return [(figure.executors, pytest.approx(figure.rate), figure.samples) for figure in learned.figures]


@pytest.mark.parametrize(
    ("before", "sample", "after"),
    [
        pytest.param([], overload(900.0, 400.0), [(1, 400.0, 1)], id="the first overload"),
        pytest.param([(1, 400.0, 1)], overload(900.0, 300.0), [(1, 350.0, 2)], id="a lower one enters the mean"),
        pytest.param([(1, 100.0, 3)], overload(900.0, 400.0), [(1, 400.0, 4)], id="a higher one is believed at once"),
        pytest.param([(1, 400.0, 90)], overload(900.0, 100.0), [(1, 340.0, 91)], id="the past weighs four samples"),
        pytest.param([(1, 400.0, 0)], overload(900.0, 300.0), [(1, 300.0, 1)], id="a lower bound weighs nothing"),
        pytest.param([], overload(900.0, 1400.0, 2), [(2, 1400.0, 1)], id="a job that catches up is at its limit too"),
        pytest.param(
            [(1, 400.0, 2)], overload(900.0, 600.0, 2), [(1, 400.0, 2), (2, 600.0, 1)], id="each number for itself"
        ),
        pytest.param([(1, 300.0, 1)], overload(900.0, None), [(1, 300.0, 1)], id="an unknown rate teaches nothing"),
        pytest.param([(1, 300.0, 1)], overload(900.0, 0.0), [(1, 300.0, 1)], id="a standstill teaches nothing"),
        pytest.param(
            [(1, 300.0, 1)],
            overload(900.0, 100.0, capped=True, batch_s=5.0),
            [(1, 300.0, 1)],
            id="nor does a capped job",
        ),
        pytest.param(
            [(1, 300.0, 1)], overload(900.0, 22.0, busy_ratio=0.4), [(1, 300.0, 1)], id="nor a stall, the slots idle"
        ),
        pytest.param([], overload(900.0, 22.0, busy_ratio=0.4), [], id="also where nothing is known"),
        pytest.param(
            [(1, 300.0, 1)], overload(900.0, 100.0, batch_s=7.4), [(1, 300.0, 1)], id="short batches measure nothing"
        ),
        pytest.param(
            [], overload(900.0, 100.0, batch_s=5.0), [(1, 200.0, 0)], id="but show something where nothing is known"
        ),
        pytest.param(
            [(1, 300.0, 1)],
            overload(900.0, 200.0, batch_s=5.0, capped=True, trigger_s=2.0),
            [(1, 250.0, 2)],
            id="unless they are as large as the cap allows",
        ),
        pytest.param(
            [], overload(900.0, 100.0, batch_s=40.0, last_batch_s=5.0), [(1, 200.0, 0)], id="the last one counts"
        ),
    ],
)
def test_overload(before, sample, after):
    assert read(learn_overload(sample, known(*before), memory=5)) == after


@pytest.mark.parametrize(
    ("before", "sample", "after"),
    [
        pytest.param([(2, 500.0, 2)], overload(900.0, 400.0, 4), [(4, 400.0, 1)], id="two cannot do more than four"),
        pytest.param([(8, 300.0, 2)], overload(900.0, 400.0, 4), [(4, 400.0, 1)], id="eight cannot do less than four"),
        pytest.param(
            [(4, 400.0, 2)],
            overload(2e3, 450.0, 2),
            [(2, 450.0, 1)],
            id="four cannot do less than two: cheaper records",
        ),
        pytest.param(
            [(7, 410.0, 1)], overload(900.0, 400.0, 8), [(7, 410.0, 1), (8, 400.0, 1)], id="a tenth is no difference"
        ),
        pytest.param(
            [(7, 400.0, 1)], overload(900.0, 790.0, 8), [(7, 400.0, 1), (8, 790.0, 1)], id="8 tasks: two waves on seven"
        ),
        pytest.param(
            [(1, 100.0, 1)], overload(9e3, 1600.0, 4), [(4, 1600.0, 1)], id="no waves explain a cold first one"
        ),
        pytest.param([(1, 250.0, 0)], overload(9e3, 1600.0, 4), [(4, 1600.0, 1)], id="a lower bound yields sooner"),
        pytest.param(
            [(1, 420.0, 0)], overload(9e3, 1600.0, 4), [(1, 420.0, 0), (4, 1600.0, 1)], id="unless it is the better one"
        ),
    ],
)
def test_what_a_measurement_contradicts_is_forgotten(before, sample, after):
    assert read(learn_overload(sample, known(*before), memory=5)) == after


@pytest.mark.parametrize(
    ("figures", "executors", "carried"),
    [
        pytest.param([], 3, None, id="nothing is known"),
        pytest.param([(2, 200.0, 1)], 5, 500.0, id="one figure, in proportion"),
        pytest.param([(2, 200.0, 1), (6, 480.0, 1)], 1, 100.0, id="below the first in proportion"),
        pytest.param([(2, 200.0, 1), (6, 480.0, 1)], 2, 200.0, id="at a figure"),
        pytest.param([(2, 200.0, 1), (6, 480.0, 1)], 3, 270.0, id="between two on a straight line"),
        pytest.param([(2, 200.0, 1), (6, 480.0, 1)], 12, 960.0, id="beyond the last in proportion"),
    ],
)
def test_the_curve(figures, executors, carried):
    assert known(*figures).carried(executors) == carried


@pytest.mark.parametrize(
    ("rate", "enough"),
    [
        pytest.param(0.0, 1, id="no load"),
        pytest.param(100.0, 1, id="one"),
        pytest.param(101.0, 2, id="two"),
        pytest.param(200.0, 2, id="just two"),
        pytest.param(271.0, 4, id="between the figures"),
        pytest.param(480.0, 6, id="just six"),
        pytest.param(561.0, 8, id="80/s each beyond six"),
    ],
)
def test_how_many_are_enough(rate, enough):
    assert known((2, 200.0, 1), (6, 480.0, 1)).enough(rate) == enough
    assert Learned().enough(rate) is None


def test_two_of_six_are_not_a_third_of_them():
    """S^0.8: learned at six alone, two read 2 × 70 = 140/s; learned at two as well, what they did."""
    assert known((6, 420.0, 1)).enough(150.0) == 3
    assert known((2, 174.0, 1), (6, 420.0, 1)).enough(150.0) == 2


def test_the_documents_rule_takes_the_arrival_and_never_forgets():
    learned = learn_arrival(overload(900.0, 400.0, 3), Learned(400.0, 3), memory=None)
    assert (learned.w_max, learned.samples, learned.figures) == (375.0, 4, ())


@pytest.mark.parametrize(
    ("sample", "rate"),
    [
        pytest.param(seen(batch_s=6.0, trigger_s=10.0), 1000.0, id="600/s in 6 s of 10"),
        pytest.param(seen(batch_s=9.0, last_batch_s=6.0), 1000.0, id="the last finished batch counts"),
        pytest.param(seen(trigger_s=0.0, batch_s=2.0), 600.0, id="back to back all time is busy"),
        pytest.param(seen(batch_s=12.0), 600.0, id="and so it is where batches outlast the trigger"),
        pytest.param(seen(processed_rate=None), None, id="unknown rate"),
        pytest.param(seen(batch_s=None), None, id="unknown batch"),
    ],
)
def test_busy_rate(sample, rate):
    assert busy_rate(sample) == rate


def healthy(*batches_s: float, before: Learned = known((3, 500.0, 2)), **changes: Any) -> Learned:  # noqa: B008
    """After so many samples of 600/s on three executors with these batch times, of a trigger of 10 s."""
    learned = before
    for batch_s in batches_s:
        learned = learn_healthy(seen(batch_s=batch_s, **changes), learned)
    return learned


@pytest.mark.parametrize(
    ("batches_s", "rate"),
    [
        pytest.param((6.0, 6.0), 500.0, id="two show nothing"),
        pytest.param((6.0, 6.0, 6.0), 1000.0, id="three raise it"),
        pytest.param((6.0, 6.2, 5.8), 6000 / 6.2, id="to the least of them"),
        pytest.param((6.0, 0.5, 6.0), 500.0, id="one outlier ends it"),
        pytest.param((6.0, 6.0, 0.5, 6.0, 6.0), 500.0, id="until three agree again"),
        pytest.param((14.0, 14.0, 14.0), 600.0, id="a part of a capacity"),
        pytest.param((12.0, 12.0, 12.0), 600.0, id="batches beyond the trigger"),
    ],
)
def test_three_healthy_samples_show_what_is_carried(batches_s, rate):
    assert read(healthy(*batches_s)) == [(3, rate, 2)]


def test_what_healthy_samples_show_lowers_nothing():
    assert read(healthy(6.0, 6.0, 6.0, before=known((3, 1500.0, 2)))) == [(3, 1500.0, 2)]


@pytest.mark.parametrize(
    ("busy_ratio", "after"),
    [
        pytest.param(0.6, [(3, 1000.0, 0)], id="in use"),
        pytest.param(0.4, [(3, 1000.0, 0)], id="hardly in use: it carries that much all the same"),
        pytest.param(None, [(3, 1000.0, 0)], id="unknown"),
    ],
)
def test_where_nothing_is_known_they_begin_if_the_slots_are(busy_ratio, after):
    learned = healthy(6.0, 6.0, 6.0, before=Learned(), busy_ratio=busy_ratio)
    assert read(learned) == after


def test_what_one_shows_its_betters_cannot_miss():
    """Learned in a stall: 66/s on four. Three show 1000/s."""
    assert read(healthy(6.0, 6.0, 6.0, before=known((4, 66.0, 1)))) == [(3, 1000.0, 0)]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"processed_rate": None}, id="unknown rate"),
        pytest.param({"batch_s": None}, id="unknown batch"),
        pytest.param({"backlog_excess": 1.0}, id="some excess"),
        pytest.param({"processed_rate": 0.0}, id="nothing processed"),
    ],
)
def test_a_sample_that_shows_nothing_ends_the_row(changes):
    learned = learn_healthy(seen(**changes), replace(known((3, 100.0, 1)), recent=(300.0, 300.0)))
    assert learned == known((3, 100.0, 1))


def test_a_capacity_from_a_cold_phase_does_not_keep_the_job_large_for_ever():
    """Learned 100/s where 400/s is true: 300/s on 4 executors would need 4 for ever."""
    cold = Learned(100.0, 1, (Figure(1, 100.0, 1, 0.0),))
    policy, state = reactive(), ReactiveState(cold, executors=4, since=0.0, at=985.0)
    targets = []
    for i in range(12):
        sample = seen(1000.0 + 15 * i, executors=4, arrival_rate=300.0, processed_rate=300.0, batch_s=2.0)
        proposal, state = policy.recommend(sample, state)
        targets.append(proposal.target)
    assert (targets[8], targets[11]) == (4, 1)
    paper, state = reactive("faithful"), ReactiveState(cold, executors=4, since=0.0, at=985.0)
    assert {
        paper.recommend(seen(1000.0 + 15 * i, executors=4, arrival_rate=300.0), state)[0].target for i in range(12)
    } == {4}


def test_nothing_is_learned_before_the_number_has_settled():
    policy = reactive()
    for changes in ({"batches": 1}, {"requested": 2}):
        _, state = policy.recommend(overload(900.0, 100.0, **changes), policy.initial())
        assert state.learned == Learned()


def test_nothing_is_learned_from_the_batches_that_wait_for_a_lost_executors_replacement():
    """As in a real run: three carry 360/s; one is killed, and the batch that waits for its like takes 10.6 s."""
    policy = reactive()
    state = replace(policy.initial(), learned=known((3, 360.0, 4)), executors=3, since=0.0, whole_since=0.0, at=985.0)
    slow = overload(40.0, 14.0, 3, busy_ratio=0.5, batch_s=10.6)
    for at, registered, batches in ((1000.0, 2, 0), (1015.0, 3, 0), (1030.0, 3, 0), (1045.0, 3, 0)):
        seen_then = replace(slow, at=at, executors=registered, requested=3, batches=batches)
        _, state = policy.recommend(seen_then, state)
        assert read(state.learned) == [(3, 360.0, 4)]

    _, state = policy.recommend(replace(slow, at=1060.0, requested=3, batches=1, processed_rate=300.0), state)
    assert read(state.learned) == [(3, 348.0, 5)]


@pytest.mark.parametrize(
    ("changes", "limits"),
    [
        pytest.param({"capped": True, "batch_s": 8.9}, True, id="full and early"),
        pytest.param({"capped": True, "batch_s": 9.1}, False, id="full and just in time"),
        pytest.param({"capped": False, "batch_s": 1.0}, False, id="not full"),
        pytest.param({"capped": None, "batch_s": 1.0}, False, id="unknown"),
        pytest.param({"capped": True, "batch_s": 1.0, "trigger_s": 0.0}, False, id="back to back"),
    ],
)
def test_the_batch_cap_limits(changes, limits):
    assert cap_limits(seen(**changes)) == limits


FULL = QueryLoad("full", batch_s=1.0, trigger_s=10.0, capped=True, backlog_excess=9.0)
LONG = QueryLoad("long", batch_s=9.9, trigger_s=10.0, capped=False, backlog_excess=0.0)


@pytest.mark.parametrize(
    ("queries", "limits"),
    [
        pytest.param((FULL, LONG), True, id="the other keeps up, with long batches"),
        pytest.param((FULL, LONG._replace(backlog_excess=9.0)), False, id="the other is behind"),
        pytest.param((LONG, LONG), False, id="none is full"),
        pytest.param((FULL, FULL), True, id="both are full"),
    ],
)
def test_the_batch_cap_limits_the_queries_that_are_behind(queries, limits):
    assert cap_limits(seen(capped=True, batch_s=9.9, by_query=queries)) == limits


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, 0.6, id="the busy ratio"),
        pytest.param({"batch_s": 9.9}, 0.6, id="the driver's part of a batch uses no slot"),
        pytest.param({"occupancy": 0.8}, 0.8, id="the occupancy"),
        pytest.param(
            {"busy_ratio": None, "batch_s": 9.0}, 0.9, id="batch over trigger where the busy ratio is unknown"
        ),
        pytest.param({"trigger_s": 0.0, "busy_ratio": None}, None, id="occupancy alone says too little"),
        pytest.param({"occupancy": None}, None, id="and so does the busy ratio alone"),
    ],
)
def test_usage(changes, expected):
    assert usage(seen(**changes)) == expected


def test_the_last_batch_before_idle_hours_teaches_nothing_about_the_number_of_now():
    busy = seen(last_batch_records=80_000, last_batch_s=8.0)
    assert busy_rate(busy) == 10_000
    assert busy_rate(replace(busy, idle=True, executors=1)) is None


HOUR = 3600.0


@pytest.mark.parametrize(
    ("age_s", "rate", "enough"),
    [
        pytest.param(5 * HOUR, 3944.0, 6, id="healed: what was measured hours ago is of another job"),
        pytest.param(5 * HOUR, 2100.0, 9, id="as expected: it still holds"),
        pytest.param(HOUR / 2, 3944.0, 9, id="of now: a wave of tasks may explain the jump"),
        pytest.param(5 * HOUR, 1000.0, 20, id="degraded: at the others, too"),
    ],
)
def test_a_jump_at_one_number_makes_old_figures_at_the_others_doubtful(age_s, rate, enough):
    now = 20 * HOUR
    figures = tuple(Figure(n, 1970.0, 3, now - age_s) for n in (9, 10))
    busy = replace(OVERLOAD, at=now, executors=11, last_batch_records=round(rate * 30), last_batch_s=30.0, batch_s=30.0)
    learned = learn_overload(busy, Learned(figures=figures), 10)
    assert [round(figure.rate) for figure in learned.figures if figure.executors == 11] == [rate]
    assert learned.enough(1800.0) == enough


MIXED = replace(
    OVERLOAD,
    executors=4,
    trigger_s=10.0,
    period_s=30.0,
    batch_s=20.0,
    last_batch_s=20.0,
    last_batch_records=14_000,
    driver_s=6.0,
    busy_ratio=0.7,
)
"""The driver takes 6 s of a batch and its tasks 14 s, on four executors: 1000/s while tasks run."""


@pytest.mark.parametrize(
    ("capped", "carried", "enough"),
    [
        pytest.param(
            True,
            {4: 14_000 / 20, 8: 14_000 / 13, 14: 14_000 / 10, 28: 14_000 / 8},
            {700.0: 4, 14_000 / 13: 8, 14_000 / 9: 19},
            id="full batches: 6 + 14, 6 + 7, 6 + 4, 6 + 2 s",
        ),
        pytest.param(
            False, {4: 800.0, 8: 1600.0}, {800.0: 4, 1600.0: 8, 1000.0: 5}, id="batches of 30 s: 24 s of tasks"
        ),
    ],
)
def test_executors_shorten_only_their_part_of_a_batch(capped, carried, enough):
    learned = learn_overload(replace(MIXED, capped=capped), Learned(), 5)
    assert {n: learned.carried(n) for n in carried} == pytest.approx(carried)
    assert {rate: learned.enough(rate * (1 - 1e-6)) for rate in enough} == enough


@pytest.mark.parametrize(
    ("batch_s", "records"),
    [
        pytest.param(200.0, 194_000, id="a long batch: 970/s, which is no rate of batches of 30 s"),
        pytest.param(15.5, 9500, id="a short one: 613/s"),
    ],
)
def test_a_batch_of_any_length_shows_what_batches_of_the_period_carry(batch_s, records):
    sample = replace(MIXED, batch_s=batch_s, last_batch_s=batch_s, last_batch_records=records)
    assert learn_overload(sample, Learned(), 5).carried(4) == pytest.approx(800.0)
    assert capacity_shown(sample) == pytest.approx(800.0)


def test_no_number_is_asked_for_that_would_only_wait_for_the_driver():
    """35 s of planning, of batches that may take 30 s: beyond four times what arrives speed is of no use."""
    learned = Learned(figures=(Figure(2, 36_000.0, 1, 0.0),), frame=Frame(driver_s=35.0, period_s=30.0))
    assert (learned.enough(1000.0), learned.enough(9000.0), learned.enough(90_000.0)) == (1, 2, 20)
    full = Learned(figures=(Figure(2, 1000.0, 1, 0.0),), frame=Frame(driver_s=6.0, period_s=30.0, cap=14_000))
    assert full.enough(14_000 / 5) == 23


def test_the_drivers_part_is_a_mean_of_batches_and_is_not_counted_where_it_is_unknown():
    """A commit of 20 s each tenth batch, as when a log is compacted."""
    learned = Learned()
    for number, driver_s in enumerate([0.5, 0.5, 0.5, 20.0]):
        learned = learn_overload(replace(MIXED, driver_s=driver_s, last_batch_id=number), learned, 5)
    assert learned.frame.driver_s == pytest.approx(0.8 * 0.5 + 0.2 * 19.6)
    assert learn_overload(replace(MIXED, driver_s=None), Learned(), 5).carried(4) == 700.0


def test_two_batches_that_are_much_faster_than_a_cold_one_replace_its_figure():
    """12 records in 10.8 s, while the machine loads the code: then 543 in 6.5 s, 325 in 5.2 s, one executor."""
    learned = Learned(figures=(Figure(1, 1.1, 1, AT - 60.0),))
    for number, (records, batch_s) in enumerate([(543, 6.5), (325, 5.2)]):
        batch = {"last_batch_records": records, "last_batch_s": batch_s, "last_batch_id": number + 2}
        learned = learn_healthy(seen(at=AT + 10.0 * number, executors=1, **batch), learned)
    assert learned.carried(1) == pytest.approx(62.5)
