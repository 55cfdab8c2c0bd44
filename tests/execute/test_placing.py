"""Which Workers must stand where, who is taken instead, and who leaves first."""

from __future__ import annotations

from collections import Counter

import pytest

from rheostat.execute.placed import Known, Moves, Stand, first_to_leave, moves, possible, standby_moves
from rheostat.model import RoundTrip

TRIPS = (RoundTrip("far", "mid", 290.0), RoundTrip("far", "near", 300.0), RoundTrip("mid", "near", 20.0))


@pytest.mark.parametrize(
    ("add", "stands", "expected"),
    [
        pytest.param(["near"], {"near": Stand(1, 0), "far": Stand(0, 2)}, Moves({}, {}), id="it stands there"),
        pytest.param(["near"], {"near": Stand(0, 2)}, Moves({"near": 1}, {}), id="one is missing"),
        pytest.param(["near"], {"near": Stand(3, 0)}, Moves({}, {}), id="more on the one node do no harm"),
        pytest.param(
            ["near"],
            {"near": Stand(0, 2), "far": Stand(2, 0)},
            Moves({"near": 1}, {"far": 0}),
            id="idle elsewhere goes",
        ),
        pytest.param(
            ["near", "far"], {"near": Stand(2, 0), "far": Stand(1, 0)}, Moves({}, {"near": 1}), id="not two on near"
        ),
        pytest.param(
            ["near", "near", "far"], {"near": Stand(1, 2), "far": Stand(0, 1)}, Moves({"near": 1, "far": 1}, {}), id="3"
        ),
    ],
)
def test_idle_workers_stand_where_executors_are_to_come_and_nowhere_else(add, stands, expected):
    assert moves(add, stands) == expected


@pytest.mark.parametrize(
    ("add", "used", "stands", "expected"),
    [
        pytest.param(["mid"], {"near": 1}, {"mid": Stand(0, 1)}, (("mid",), (), ()), id="room"),
        pytest.param(
            ["far", "far", "mid"],
            {"near": 1},
            {"far": Stand(1, 0), "mid": Stand(0, 1), "near": Stand(0, 3)},
            (("far", "mid"), ("far",), ("near",)),
            id="full: the nearest that has room instead",
        ),
        pytest.param(["far"], {"near": 1}, {"near": Stand(0, 0)}, ((), ("far",), ()), id="gone, and all are full"),
        pytest.param(
            ["mid", "mid"],
            {"near": 1},
            {"far": Stand(0, 1), "mid": Stand(1, 0)},
            (("mid",), ("mid",), ("far",)),
            id="far",
        ),
    ],
)
def test_what_can_be_had(add, used, stands, expected):
    assert possible(add, Counter(used), stands, Known(TRIPS)) == expected


@pytest.mark.parametrize(
    ("used", "stands", "settled", "expected"),
    [
        pytest.param(
            {"near": 1}, {"near": Stand(0, 1), "mid": Stand(0, 1)}, True, {"near": 1, "mid": 1}, id="near, mid"
        ),
        pytest.param({"near": 1}, {"mid": Stand(2, 0), "far": Stand(0, 2)}, True, {}, id="it stands right"),
        pytest.param({"far": 1}, {"mid": Stand(0, 3), "near": Stand(0, 3)}, True, {"mid": 2}, id="nearest to far"),
        pytest.param(
            {}, {"mid": Stand(0, 1), "near": Stand(0, 9)}, True, {"mid": 1, "near": 1}, id="the first by name"
        ),
    ],
)
def test_the_standby_comes_where_the_next_executors_would(used, stands, settled, expected):
    assert standby_moves(Counter(used), stands, 2, Known(TRIPS), settled=settled) == Moves(expected, {})


def test_what_is_slow_comes_last_for_the_standby_and_in_the_place_of_a_full_node():
    slow, used = Known(TRIPS, frozenset({"mid"})), Counter(near=1)

    stands = {"near": Stand(0, 1), "mid": Stand(2, 0), "far": Stand(0, 1)}
    assert standby_moves(used, stands, 2, slow, settled=True) == Moves({"near": 1, "far": 1}, {"mid": 0})
    assert standby_moves(used, {"mid": Stand(0, 3)}, 2, slow, settled=True) == Moves({"mid": 2}, {})
    assert possible(["near"], used, {"mid": Stand(2, 0), "far": Stand(0, 1)}, slow) == ((), ("near",), ("far",))


def test_standby_that_stands_far_is_moved_once_the_job_has_settled():
    stands = {"near": Stand(0, 2), "far": Stand(3, 0)}

    assert standby_moves(Counter(near=1), stands, 2, Known(TRIPS), settled=True) == Moves({"near": 2}, {"far": 0})
    assert standby_moves(Counter(near=1), stands, 2, Known(TRIPS), settled=False) == Moves({}, {})
    assert standby_moves(Counter(near=1), stands, 4, Known(TRIPS), settled=False) == Moves({"near": 1}, {})


@pytest.mark.parametrize(
    ("leave", "first", "expected"),
    [
        pytest.param(["far"], ["1"], ("1",), id="the named one, though another there is newer"),
        pytest.param(["far", "far"], ["1"], ("1", "4"), id="then the newest"),
        pytest.param(["far"], ["2"], ("4",), id="named on another node"),
        pytest.param(["far", "near"], ["9", "3", "1"], ("1", "3"), id="in the order of the nodes; one has gone"),
        pytest.param(["far", "far"], ["3", "4", "1"], ("4", "1"), id="of one node in the order of the names"),
    ],
)
def test_on_the_nodes_that_are_given_up_the_named_ones_leave_first(leave, first, expected):
    assert first_to_leave(leave, {"1": "far", "2": "near", "3": "near", "4": "far"}, first) == expected


@pytest.mark.parametrize(
    ("leave", "executors", "expected"),
    [
        pytest.param([], {"1": "near"}, (), id="nobody"),
        pytest.param(["far"], {"1": "far", "2": "near", "3": "far", "4": "near"}, ("3",), id="the newest of the node"),
        pytest.param(["far", "mid"], {"1": "mid", "2": "far"}, ("2", "1"), id="in the order of the nodes"),
        pytest.param(["gone", "far"], {"1": "far", "2": "near"}, ("1",), id="a node without executors"),
        pytest.param(["far", "far"], {"1": "far", "2": "near"}, ("1",), id="more than there are"),
    ],
)
def test_who_leaves_first(leave, executors, expected):
    assert first_to_leave(leave, executors) == expected
