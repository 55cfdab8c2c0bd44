"""A request that is given up: what stays asked for is what is there, whatever was asked for meanwhile."""

import pytest
from tests.execute.test_live import always

from rheostat.model import ReasonCode


@pytest.mark.parametrize(
    ("executors", "room", "first", "second", "asked"),
    [
        pytest.param(1, 1, 5, 3, [5, 3, 1], id="up, then less far up: not back to the five that nobody wants"),
        pytest.param(1, 2, 5, 3, [5, 3, 2], id="one came: to what is there"),
        pytest.param(3, 3, 2, 5, [2, 3, 5, 3], id="down, then up: to the three that are still there"),
    ],
)
def test_without_room_after_superseding_another_it_goes_back_to_what_is_there(
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


def test_without_room_after_a_half_done_decrease_it_goes_back_to_what_is_left(stage, decide):
    here = stage(1, room=5)
    here.change(5)
    here.cluster.room = 4
    here.cluster.triggered = lambda _at: True
    here.cluster.busy = always("0", "1", "2", "3")
    at = here.clock.at
    here.cluster.events = [(at + 11.0, lambda: here.live.apply(decide(5, at + 11.0, 3)))]

    outcome = here.change(2, decision_id=2)

    assert (outcome.decision_id, outcome.reason.code) == (3, ReasonCode.NO_ROOM)
    assert here.cluster.asked == [5, 2, 4, 5, 4]


def test_without_room_for_a_lower_number_than_before_no_more_than_that_is_asked_for(stage):
    here = stage(1, room=5)
    here.change(5)
    here.cluster.room = 2
    for lost in ("1", "2", "3", "4"):
        here.cluster.lose(lost)

    outcome = here.change(3, decision_id=2)

    assert outcome.reason.code is ReasonCode.NO_ROOM
    assert here.live.requested == 3
