"""Growing and shrinking in every situation: what becomes of a decision, and what is left asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheostat.execute.live import Patience, StartUps
from rheostat.model import OutcomeStatus, ReasonCode

APPLIED, PARTIAL, HELD = OutcomeStatus.APPLIED, OutcomeStatus.PARTIAL, OutcomeStatus.HELD
NO_ROOM, FAILED = OutcomeStatus.NO_ROOM, OutcomeStatus.FAILED


def always(*executors):
    return lambda _at: executors


def summary(outcome):
    return (outcome.status, outcome.reason.code, outcome.method, outcome.before, outcome.after)


# ------------------------------------------------------------------------------------------------ growing


@pytest.mark.parametrize(
    ("executors", "room", "target", "expected", "took_s", "asked"),
    [
        pytest.param(1, 8, 3, (APPLIED, ReasonCode.APPLIED, "request", 1, 3), 2.0, [3], id="room for all"),
        pytest.param(0, 8, 1, (APPLIED, ReasonCode.APPLIED, "request", 0, 1), 2.0, [1], id="the first executor"),
        pytest.param(3, 8, 3, (APPLIED, ReasonCode.APPLIED, "request", 3, 3), 0.0, [3], id="all there already"),
        pytest.param(1, 1, 3, (NO_ROOM, ReasonCode.NO_ROOM, "request", 1, 1), 30.25, [3], id="room for none"),
        pytest.param(1, 2, 4, (PARTIAL, ReasonCode.NO_ROOM, "request", 1, 2), 32.25, [4], id="room for one of three"),
        pytest.param(0, 0, 2, (NO_ROOM, ReasonCode.NO_ROOM, "request", 0, 0), 30.25, [2], id="no room, and none there"),
    ],
)
def test_growing(stage, executors, room, target, expected, took_s, asked):
    here = stage(executors, room)

    outcome = here.change(target)

    assert summary(outcome) == expected
    assert outcome.took_s == took_s
    assert outcome.redone_tasks == 0
    assert here.cluster.asked == asked
    assert here.live.requested == asked[-1]


def test_without_room_the_request_stands(stage):
    here = stage(1, room=3)
    here.change(3)
    here.cluster.room = 2
    here.cluster.lose("2")

    outcome = here.change(4)

    assert summary(outcome) == (NO_ROOM, ReasonCode.NO_ROOM, "request", 2, 2)
    assert here.live.requested == 4
    assert outcome.reason.text.endswith("the request stands, the next wait is up to 60 s for each")


def test_executors_that_keep_coming_and_dying_do_not_make_it_wait_for_ever(stage):
    here = stage(1, start_up_s=4.0, least_no_room_s=12.0)

    here.cluster.room = 2
    here.cluster.events = [(2.5 * n, lambda n=n: here.cluster.lose(str(n))) for n in range(1, 100)]

    outcome = here.change(3)

    assert (outcome.status, outcome.reason.code) == (NO_ROOM, ReasonCode.NO_ROOM)
    assert outcome.took_s == 2 * 12.0 + 0.25


@pytest.mark.parametrize(
    ("seen", "p95_s", "patience_s"),
    [
        pytest.param([], 10.0, 30.0, id="nothing known: the setting"),
        pytest.param([2.0], 10.0, 30.0, id="one fast start proves little"),
        pytest.param([14.0], 14.0, 42.0, id="one slow start counts"),
        pytest.param([6.0, 7.0, 8.0], 8.0, 24.0, id="three: the greatest"),
        pytest.param([2.0, 2.0, 2.5], 2.5, 15.0, id="fast ones: not under the least"),
        pytest.param([60.0] + [2.0] * 19, 2.0, 15.0, id="one slow in twenty is passed over"),
        pytest.param([60.0] * 5 + [6.0] * 20, 6.0, 18.0, id="only the last twenty are remembered"),
    ],
)
def test_how_long_a_request_is_given(seen, p95_s, patience_s):
    start_ups = StartUps(Patience())
    for seconds in seen:
        start_ups.learn(seconds)

    assert (start_ups.p95_s, start_ups.patience_s) == (p95_s, patience_s)


def test_start_up_times_are_learned_from_granted_requests(stage):
    here = stage(1)
    for target in (2, 3, 4):
        here.change(target)

    assert here.live._start_ups.p95_s == 2.0


# ---------------------------------------------------------------------------------------------- shrinking

BUSY = {"busy": always("0", "1", "2"), "triggered": lambda _at: True}
TAIL = {"busy": always("0"), "holding": always("0", "1", "2"), "triggered": lambda _at: True}

SHRINKING = [
    pytest.param({}, {}, (APPLIED, ReasonCode.APPLIED, "gap", 3, 1), 0, 0.0, 1, id="no trigger is active"),
    pytest.param(
        {"busy": lambda at: ("0", "1", "2") if at < 4 else (), "triggered": lambda at: at < 4},
        {},
        (APPLIED, ReasonCode.APPLIED, "gap", 3, 1),
        0,
        4.0,
        1,
        id="a trigger is active for four seconds",
    ),
    pytest.param(
        {"busy": lambda at: ("1",) if at < 1 else (), "triggered": lambda at: 0.75 <= at < 2},
        {},
        (APPLIED, ReasonCode.APPLIED, "gap", 3, 1),
        0,
        2.0,
        1,
        id="one starts a task in the gap: it is taken in the next gap",
    ),
    pytest.param(
        {"busy": always("0"), "holding": always("2"), "triggered": lambda _at: True},
        {},
        (PARTIAL, ReasonCode.NOTHING_IDLE, "idle", 3, 2),
        0,
        10.25,
        2,
        id="back to back, one idle without map output",
    ),
    pytest.param(
        {"busy": lambda at: ("0", "1", "2") if at < 12 else ("0",), "triggered": lambda _at: True},
        {},
        (APPLIED, ReasonCode.APPLIED, "idle", 3, 1),
        0,
        12.25,
        1,
        id="back to back, two idle at two looks in a row",
    ),
    pytest.param(
        {"busy": lambda at: ("1", "2") if at * 4 % 2 else ("0",), "triggered": lambda _at: True},
        {},
        (HELD, ReasonCode.NOTHING_IDLE, "none", 3, 3),
        0,
        30.25,
        3,
        id="never idle at two looks in a row",
    ),
    pytest.param(BUSY, {}, (HELD, ReasonCode.NOTHING_IDLE, "none", 3, 3), 0, 30.25, 3, id="all busy"),
    pytest.param(
        TAIL, {}, (HELD, ReasonCode.NOTHING_IDLE, "none", 3, 3), 0, 30.25, 3, id="idle, but with map output in use"
    ),
    pytest.param(
        BUSY,
        {"allow_redone_work": True},
        (APPLIED, ReasonCode.APPLIED, "forced", 3, 1),
        2,
        30.0,
        1,
        id="all busy, and work may be redone",
    ),
]


@pytest.mark.parametrize(("situation", "patience", "expected", "redone", "waited_s", "left"), SHRINKING)
def test_shrinking_from_three_to_one(stage, situation, patience, expected, redone, waited_s, left):
    here = stage(3, **patience)
    for name, value in situation.items():
        setattr(here.cluster, name, value)

    outcome = here.change(1)

    assert summary(outcome) == expected
    assert outcome.redone_tasks == redone
    assert outcome.waited_s == waited_s
    assert here.cluster.asked[0] == 1, "the request is lowered before anything is removed"
    assert here.live.requested == left


def test_the_newest_are_removed(stage):
    here = stage(4)

    here.change(2)

    assert here.cluster.registered() == ("0", "1")


def test_a_change_is_confirmed_before_the_removed_have_left_the_list_and_told_after(stage):
    here = stage(3)

    outcome = here.change(1)

    assert outcome.took_s == 0.25
    assert here.clock.at == 5.0
    assert here.cluster.listed() == ("0",)


@pytest.mark.parametrize(
    ("broken", "value"),
    [pytest.param("counts", False, id="no figures"), pytest.param("gone_s", 1.0, id="still listed at the end")],
)
def test_redone_tasks_are_unknown_not_zero(stage, broken, value):
    here = stage(3, **({broken: value} if broken == "gone_s" else {}))
    if broken == "counts":
        here.cluster.counts = value

    outcome = here.change(1)

    assert summary(outcome) == (APPLIED, ReasonCode.APPLIED, "gap", 3, 1)
    assert outcome.redone_tasks is None
    assert "an unknown number of tasks" in outcome.reason.text


def test_a_failure_elsewhere_in_the_meantime_is_counted(stage):
    here = stage(3)
    here.cluster.events = [(3.0, lambda: setattr(here.cluster, "redone", 5))]

    assert here.change(1).redone_tasks == 3


def test_an_executor_that_dies_while_a_gap_is_awaited_is_not_replaced_and_not_removed_twice(stage):
    here = stage(2)
    here.cluster.triggered = lambda _at: True
    here.cluster.busy = always("0", "1")
    here.cluster.events = [(3.0, lambda: here.cluster.lose("1"))]

    outcome = here.change(1)

    assert summary(outcome) == (APPLIED, ReasonCode.APPLIED, "request", 2, 1)
    assert here.cluster.registered() == ("0",)


def test_sources_that_take_orders_are_paused_until_the_executors_are_gone(stage):
    here = stage(3)
    here.cluster.triggered = lambda _at: True
    here.cluster.takes_orders = True

    outcome = here.change(1)

    assert summary(outcome) == (APPLIED, ReasonCode.APPLIED, "paused", 3, 1)
    assert "2 removed while the source was paused" in outcome.reason.text
    assert (len(here.cluster.pauses), here.cluster.resumed) == (1, 1)


def test_a_pause_ends_when_the_change_is_superseded(stage):
    here = stage(2)
    here.cluster.takes_orders = True
    here.cluster.busy = always("0", "1")
    here.cluster.events = [(3.0, here.live.close)]

    here.change(1)

    assert (len(here.cluster.pauses), here.cluster.resumed) == (1, 1)


def test_after_shrinking_it_grows_again(stage):
    here = stage(3)
    here.change(1)

    outcome = here.change(3, decision_id=2)

    assert summary(outcome) == (APPLIED, ReasonCode.APPLIED, "request", 1, 3)


# ------------------------------------------------------------------------------- lost, superseded, refused


def test_a_lost_executor_is_replaced_up_to_what_was_asked_for(stage):
    here = stage(1)
    here.change(3)
    here.cluster.lose("1")

    here.live.ensure(3)
    here.clock.wait(2.0)

    assert here.cluster.registered() == ("0", "2", "3")
    assert here.cluster.asked == [3, 3]


def test_a_start_without_executors_asks_for_the_first(stage):
    here = stage(0)

    here.live.ensure(2)
    here.clock.wait(2.0)

    assert here.cluster.registered() == ("0", "1")
    assert here.live.requested == 2


def test_the_executors_that_the_decision_names_go_first(stage, decide):
    here = stage(4)

    here.live.apply(replace(decide(2, current=4), first=("1",)))
    here.runner.run()

    assert here.cluster.registered() == ("0", "2")


def test_ensure_removes_nothing(stage):
    here = stage(3)

    here.live.ensure(1)
    here.clock.wait(60.0)

    assert here.cluster.registered() == ("0", "1", "2")
    assert here.live.requested == 1


def test_ensure_leaves_a_decision_alone_that_is_being_executed(stage, decide):
    here = stage(1)
    here.live.apply(decide(3))

    here.live.ensure(1)
    here.runner.run()

    assert here.cluster.asked == [3]
    assert summary(here.live.poll(here.clock.at)) == (APPLIED, ReasonCode.APPLIED, "request", 1, 3)


@pytest.mark.parametrize(
    ("executors", "first", "second", "expected", "asked"),
    [
        pytest.param(1, 5, 2, (APPLIED, ReasonCode.APPLIED, "request", 1, 2), [5, 2], id="up, then less far up"),
        pytest.param(3, 1, 4, (APPLIED, ReasonCode.APPLIED, "request", 3, 4), [1, 3, 4], id="down, then up"),
        pytest.param(3, 2, 3, (APPLIED, ReasonCode.APPLIED, "request", 3, 3), [2, 3, 3], id="down, then as it was"),
    ],
)
def test_a_later_decision_supersedes(stage, decide, executors, first, second, expected, asked):
    here = stage(executors, room=0)
    here.cluster.triggered = lambda _at: True
    here.cluster.busy = always("0", "1", "2")

    here.cluster.events = [
        (1.0, lambda: here.live.apply(decide(second, 1.0, 2))),
        (1.5, lambda: setattr(here.cluster, "room", 8)),
    ]

    outcome = here.change(first)

    assert outcome.decision_id == 2
    assert summary(outcome) == expected
    assert here.cluster.asked == asked
    assert here.live.poll(here.clock.at) is None


def test_executors_on_their_way_for_a_superseded_request_are_removed_again(stage, decide):
    here = stage(1)
    here.cluster.events = [(1.0, lambda: here.live.apply(decide(2, 1.0, 2)))]

    outcome = here.change(5)

    assert outcome.decision_id == 2
    assert summary(outcome) == (APPLIED, ReasonCode.APPLIED, "gap", 5, 2)
    assert here.live.requested == 2


def test_a_decision_that_is_superseded_before_it_begins_does_nothing(stage, decide):
    here = stage(1)
    here.live.apply(decide(5, decision_id=1))

    outcome = here.change(2, decision_id=2)

    assert here.cluster.asked == [2]
    assert outcome.decision_id == 2


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        pytest.param("acknowledges", "did not acknowledge the request for 3 executors", id="not acknowledged"),
        pytest.param("answers", "no answer", id="the driver's JVM does not answer"),
    ],
)
def test_a_refusal_is_an_outcome(stage, broken, words):
    here = stage(1)
    setattr(here.cluster, broken, False)

    outcome = here.change(3)

    assert (outcome.status, outcome.reason.code) == (FAILED, ReasonCode.REQUEST_REJECTED)
    assert words in outcome.reason.text


def test_a_fault_of_ours_is_an_outcome_too_and_the_next_decision_is_executed(stage):
    here = stage(1)
    here.cluster.events = [(0.0, lambda: 1 / 0)]

    first, second = here.change(3), here.change(3, decision_id=2)

    assert (first.status, first.reason.text) == (FAILED, "ZeroDivisionError: division by zero")
    assert summary(second) == (APPLIED, ReasonCode.APPLIED, "request", 1, 3)


def test_losing_sight_while_shrinking_restores_the_request(stage):
    here = stage(3)
    here.cluster.triggered = lambda at: 1 / (at - 2.0) < 0 if at != 2.0 else blind()

    def blind():
        from rheostat.errors import ActuationError

        raise ActuationError("reading the status of the queries: gone")

    outcome = here.change(1)

    assert outcome.status is FAILED
    assert here.live.requested == 3


def test_the_end_leaves_the_executors_as_they_are(stage, decide):
    here = stage(3)
    here.cluster.triggered = lambda _at: True
    here.cluster.events = [(1.0, here.live.close)]
    here.live.apply(decide(1, current=3))

    here.runner.run()
    here.live.close()

    assert here.live.poll(here.clock.at) is None
    assert here.cluster.registered() == ("0", "1", "2")
    assert here.live.requested == 3
    assert here.runner.closed


def test_others_come_in_the_place_of_those_that_an_increase_names(stage, decide):
    """Of four, two get no tasks. The request stands while they go, so that the cluster replaces them."""
    here = stage(4, room=4)

    here.live.apply(replace(decide(4, current=2), first=("0", "1")))
    here.runner.run()

    assert here.cluster.registered() == ("2", "3", "4", "5")
    outcome = here.live.poll(0.0)
    assert (outcome.status, outcome.before, outcome.after) == (OutcomeStatus.APPLIED, 2, 4)
    assert set(here.cluster.asked) == {4}


def test_one_that_is_still_busy_stays(stage, decide):
    here = stage(4, room=4)
    here.cluster.busy = always("0")

    here.live.apply(replace(decide(4, current=2), first=("0", "1")))
    here.runner.run()

    assert here.cluster.registered() == ("0", "2", "3", "4")
    assert here.live.poll(0.0).status is OutcomeStatus.APPLIED
