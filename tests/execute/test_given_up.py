"""A request that is not granted in time: the last one stands, whatever was asked for meanwhile."""

import pytest
from tests.execute.test_live import always

from rheostat.model import OutcomeStatus, ReasonCode


@pytest.mark.parametrize(
    ("executors", "room", "first", "second", "asked"),
    [
        pytest.param(1, 1, 5, 3, [5, 3], id="up, then less far up: not the five that nobody wants"),
        pytest.param(1, 2, 5, 3, [5, 3], id="one came"),
        pytest.param(3, 3, 2, 5, [2, 3, 5], id="down, then up"),
    ],
)
def test_without_room_after_superseding_another_the_last_request_stands(
    stage, decide, executors, room, first, second, asked
):
    here = stage(executors, room=room)
    here.cluster.triggered = lambda _at: True
    here.cluster.busy = always("0", "1", "2")
    here.cluster.events = [(1.0, lambda: here.live.apply(decide(second, 1.0, 2)))]

    outcome = here.change(first)

    assert outcome.decision_id == 2
    assert outcome.reason.code is ReasonCode.NO_ROOM
    assert here.cluster.asked == asked
    assert here.live.requested == asked[-1]


def test_without_room_after_a_half_done_decrease_the_last_request_stands(stage, decide):
    here = stage(1, room=5)
    here.change(5)
    here.cluster.room = 4
    here.cluster.triggered = lambda _at: True
    here.cluster.busy = always("0", "1", "2", "3")
    at = here.clock.at
    here.cluster.events = [(at + 11.0, lambda: here.live.apply(decide(5, at + 11.0, 3)))]

    outcome = here.change(2, decision_id=2)

    assert (outcome.decision_id, outcome.reason.code) == (3, ReasonCode.NO_ROOM)
    assert here.cluster.asked == [5, 2, 4, 5]


def test_without_room_for_a_lower_number_than_before_that_is_what_stays_asked_for(stage):
    here = stage(1, room=5)
    here.change(5)
    here.cluster.room = 2
    for lost in ("1", "2", "3", "4"):
        here.cluster.lose(lost)

    outcome = here.change(3, decision_id=2)

    assert outcome.reason.code is ReasonCode.NO_ROOM
    assert here.live.requested == 3


def test_a_wait_in_vain_doubles_the_next_one_until_an_executor_comes(stage):
    """15 s at least, 50 s at most; the executors that were asked for in vain are wanted all the time."""
    here = stage(1, room=1, start_up_s=1.0, most_no_room_s=50.0)
    waits = [here.change(target, decision_id=target).took_s for target in (2, 3, 4)]
    assert waits == [15.25, 30.25, 50.25]
    here.cluster.room = 5
    assert here.change(5, decision_id=5).status is OutcomeStatus.APPLIED
    here.cluster.room = 1
    assert here.change(6, decision_id=6).took_s == 15.25
    assert here.cluster.asked == [2, 3, 4, 5, 6]
