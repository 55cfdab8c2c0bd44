"""On which nodes executors come and go: S2's Algorithms 3 and 4 on five nodes whose round trips are worked by hand.

The nodes stand on a line at 0 (a), 20 (b), 45 (c) and 300 ms (d); e has no entry in the map.
"""

from itertools import combinations

import pytest
from tests.plan.samples import Fixed, planner, seen

from rheostat.model import Action, Code, NodeReading, Nodes, Placement, RoundTrip
from rheostat.plan.placement import Placing, grown, nd_max, place, shrunk

LINE = {"a": 0.0, "b": 20.0, "c": 45.0, "d": 300.0}
TRIPS = tuple(RoundTrip(x, y, abs(LINE[x] - LINE[y])) for x, y in combinations("abcd", 2))
NEAREST, ANY = Placing.NEAREST, Placing.ANY


def nodes(trips=TRIPS, **rooms):
    """Nodes with (used, free) by name."""
    return Nodes(1000.0, tuple(NodeReading(name, *rooms[name]) for name in sorted(rooms)), trips)


def free(names, room=1):
    return nodes(**dict.fromkeys(names, (0, room)))


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        pytest.param("", 0.0, id="none"),
        pytest.param("d", 0.0, id="one"),
        pytest.param("dd", 0.0, id="two on one node"),
        pytest.param("abb", 20.0, id="two nodes"),
        pytest.param("bcd", 280.0, id="the far one counts"),
        pytest.param("abe", None, id="without entry"),
    ],
)
def test_nd_max_is_the_greatest_round_trip_among_distinct_nodes(used, expected):
    assert nd_max(tuple(used), nodes()) == expected


@pytest.mark.parametrize(
    ("used", "names", "count", "expected"),
    [
        pytest.param("a", "bcd", 1, "b", id="the nearest"),
        pytest.param("a", "bcd", 3, "bcd", id="one after the other"),
        pytest.param("d", "abc", 2, "cb", id="from the far end"),
        pytest.param("", "dcb", 2, "bc", id="from nothing the first name, then by latency"),
        pytest.param("a", "ecd", 3, "cde", id="without entry last"),
        pytest.param("a", "cd", 5, "cd", id="fewer where no more are free"),
        pytest.param("a", "", 2, "", id="all full"),
        pytest.param("ab", "bcd", 0, "", id="none wanted"),
    ],
)
def test_growing_takes_the_free_node_with_the_least_latency(used, names, count, expected):
    assert grown(tuple(used), free(names), count, NEAREST, 0) == tuple(expected)


def test_growing_prefers_a_place_on_a_node_in_use():
    assert grown(("a",), nodes(a=(1, 2), b=(0, 1)), 4, NEAREST, 0) == ("a", "a", "b")


def test_of_equally_near_nodes_the_first_by_name_is_taken():
    trips = (RoundTrip("m", "x", 10.0), RoundTrip("m", "y", 10.0), RoundTrip("x", "y", 5.0))
    assert grown(("m",), nodes(trips, x=(0, 1), y=(0, 1)), 2, NEAREST, 0) == ("x", "y")


@pytest.mark.parametrize(
    ("used", "count", "expected"),
    [
        pytest.param("abcd", 1, "d", id="the farthest"),
        pytest.param("abcd", 3, "dcb", id="again on what is left"),
        pytest.param("abbdd", 2, "dd", id="a node with two gives up both"),
        pytest.param("bdd", 1, "b", id="the nearer one, where more executors are far"),
        pytest.param("ab", 1, "b", id="of two the last by name"),
        pytest.param("aab", 1, "b", id="the one that is far from more executors"),
        pytest.param("ab", 5, "ba", id="no more than there are"),
        pytest.param("abe", 1, "e", id="without entry first"),
    ],
)
def test_shrinking_gives_up_the_farthest_node(used, count, expected):
    there = dict.fromkeys("abcde", (1, 0))
    assert shrunk(tuple(used), nodes(**there), count, NEAREST, 0) == tuple(expected)


def test_what_has_vanished_is_given_up_first():
    assert shrunk(("a", "b", "x"), nodes(a=(1, 0), b=(1, 0)), 2, NEAREST, 0) == ("x", "b")
    assert shrunk(("a", "x"), nodes(a=(1, 0)), 1, ANY, 3) == ("x",)


class TestAny:
    THERE = free("abcdefgh")

    def drawn(self, seed, count=3):
        return grown(("a",), self.THERE, count, ANY, seed)

    def test_is_decided_by_the_seed(self):
        assert self.drawn(5) == self.drawn(5)
        assert len({self.drawn(seed) for seed in range(20)}) > 10

    def test_one_more_leaves_the_others_as_they_are(self):
        assert self.drawn(5, 4)[:3] == self.drawn(5)

    def test_takes_each_node_about_as_often(self):
        firsts = [self.drawn(seed, 1)[0] for seed in range(800)]
        assert all(60 <= firsts.count(name) <= 140 for name in "abcdefgh")

    def test_gives_up_each_executor_about_as_often(self):
        firsts = [shrunk(("a", "a", "b", "c"), self.THERE, 1, ANY, seed)[0] for seed in range(800)]
        assert [round(firsts.count(name) / 200) for name in "abc"] == [2, 1, 1]

    def test_takes_no_more_than_are_free(self):
        assert sorted(grown((), free("ab", 2), 9, ANY, 1)) == ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("used", "target", "expected", "text"),
    [
        pytest.param("a", 3, ("abc", "bc", ""), "added on b, c, greatest round trip 0 ms → 45 ms", id="grows"),
        pytest.param("abd", 2, ("ab", "", "d"), "given up on d, greatest round trip 300 ms → 20 ms", id="shrinks"),
        pytest.param("ab", 2, ("ab", "", ""), "greatest round trip 20 ms", id="stays"),
        pytest.param(
            "ax", 2, ("ab", "b", "x"), "x vanished, added on b, greatest round trip unknown → 20 ms", id="vanished"
        ),
        pytest.param(
            "abcd",
            6,
            ("abcde", "e", ""),
            "added on e, no node has room for 1 more, greatest round trip 300 ms → unknown, the round trip to e is not"
            " known",
            id="full, and one without entry",
        ),
    ],
)
def test_a_placement_says_what_it_does(used, target, expected, text):
    rooms = {name: (used.count(name), 1 - used.count(name)) for name in "abcde"}
    placement, said = place(nodes(**rooms), tuple(used), target, NEAREST, 0)
    assert placement == Placement(*map(tuple, expected))
    assert said == text


class TestThePlannersLastStep:
    def decided(self, target, rooms, policy=None, seed=None, **changes):
        policy = policy or Fixed(target)
        plans = planner(policy)
        if seed is not None:
            plans = type(plans)(policy, plans.bounds, plans.guard, plans.objective, plans.sample_s, seed)
        sample = seen(nodes=nodes(**rooms), **changes)
        return plans.plan(sample, plans.initial())

    def test_a_change_is_placed_and_its_reason_says_so(self):
        decision, _ = self.decided(2, {"a": (1, 0), "b": (0, 1), "d": (0, 1)}, executors=1)
        assert decision.placement == Placement(("a", "b"), ("b",), ())
        assert decision.reason.text == "as told; added on b, greatest round trip 0 ms → 20 ms"
        assert (decision.reason.code, decision.notes) == (Code.FIXED, ())

    def test_several_leave_in_one_change(self):
        decision, _ = self.decided(1, {"a": (1, 0), "b": (1, 0), "d": (1, 0)}, executors=3)
        assert decision.placement == Placement(("a",), (), ("d", "b"))

    def test_a_hold_is_not_placed(self):
        assert self.decided(1, {"a": (1, 0)}, executors=1)[0].placement is None

    def test_without_nodes_nothing_is_placed(self):
        plans = planner(Fixed(5))
        assert plans.plan(seen(executors=3), plans.initial())[0].placement is None

    def test_an_increase_becomes_what_there_is_room_for(self):
        decision, state = self.decided(5, {"a": (1, 0), "b": (0, 1), "d": (0, 1)}, executors=1)
        assert (decision.action, decision.target) == (Action.UP, 3)
        assert decision.placement == Placement(("a", "b", "d"), ("b", "d"), ())
        [note] = decision.notes
        assert (note.step, note.before, note.after) == ("placement", 5, 3)
        assert note.reason == decision.reason
        assert decision.reason.code is Code.NO_FREE_NODE
        assert "no node has room for 2 more" in decision.reason.text
        assert state.guard.pending is not None
        assert state.guard.pending.target == 3

    def test_without_a_free_node_it_holds_and_says_so(self):
        decision, state = self.decided(2, {"a": (1, 0), "b": (0, 0)}, executors=1)
        assert (decision.action, decision.target, decision.placement) == (Action.HOLD, 1, None)
        assert decision.reason.text == "1 → 2: no node has room for 1 more, greatest round trip 0 ms"
        assert state.guard.pending is None

    def test_those_lost_with_a_node_do_not_turn_an_increase_into_a_decrease(self):
        decision, _ = self.decided(5, {"a": (1, 0), "b": (1, 0)}, executors=2, requested=4)
        assert (decision.action, decision.current, decision.target) == (Action.HOLD, 4, 4)

    def test_at_random_by_seed_and_number_where_the_policy_says_so(self):
        policy = Fixed(2)
        policy.placing = ANY  # type: ignore[attr-defined]
        rooms = {"a": (1, 0), **dict.fromkeys("bcdefgh", (0, 1))}
        added = [self.decided(2, rooms, policy, seed, executors=1)[0].placement.add for seed in range(12)]
        assert added == [self.decided(2, rooms, policy, seed, executors=1)[0].placement.add for seed in range(12)]
        assert len(set(added)) > 3
