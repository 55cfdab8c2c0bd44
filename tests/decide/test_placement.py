"""On which nodes executors come and go: S2's Algorithms 3 and 4 on five nodes whose round trips are worked by hand.

The nodes stand on a line at 0 (a), 20 (b), 45 (c) and 300 ms (d); e has no entry in the map.
"""

from dataclasses import replace
from itertools import combinations
from typing import Any, ClassVar

import pytest
from tests.policies.samples import Fixed, decision_settings, outcome, seen

from rheostat.decide.decide import decide, learn
from rheostat.decide.placement import Choice, Placing, choose_nodes_to_add, choose_nodes_to_leave, nd_max, place
from rheostat.decide.state import Pending, Replacing
from rheostat.model import Action, NodeReading, Nodes, OutcomeStatus, Placement, ReasonCode, RoundTrip

LINE = {"a": 0.0, "b": 20.0, "c": 45.0, "d": 300.0}
TRIPS = tuple(RoundTrip(x, y, abs(LINE[x] - LINE[y])) for x, y in combinations("abcd", 2))
ANY = Placing.ANY


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
    assert choose_nodes_to_add(tuple(used), free(names), count) == tuple(expected)


def test_growing_prefers_a_place_on_a_node_in_use():
    assert choose_nodes_to_add(("a",), nodes(a=(1, 2), b=(0, 1)), 4) == ("a", "a", "b")


def test_of_equally_near_nodes_the_first_by_name_is_taken():
    trips = (RoundTrip("m", "x", 10.0), RoundTrip("m", "y", 10.0), RoundTrip("x", "y", 5.0))
    assert choose_nodes_to_add(("m",), nodes(trips, x=(0, 1), y=(0, 1)), 2) == ("x", "y")


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
    assert choose_nodes_to_leave(tuple(used), nodes(**there), count) == tuple(expected)


def test_what_has_vanished_is_given_up_first():
    assert choose_nodes_to_leave(("a", "b", "x"), nodes(a=(1, 0), b=(1, 0)), 2) == ("x", "b")
    assert choose_nodes_to_leave(("a", "x"), nodes(a=(1, 0)), 1, Choice(ANY, 3)) == ("x",)


@pytest.mark.parametrize(
    ("slow", "count", "expected"),
    [
        pytest.param("b", 1, "c", id="the nearest that is not slow"),
        pytest.param("b", 3, "cdb", id="the slow one last"),
        pytest.param("bcd", 2, "bc", id="all slow: the nearest"),
    ],
)
@pytest.mark.parametrize("never", [False, True], ids=["last", "never"])
def test_a_slow_node_gets_an_executor_only_where_no_other_has_room(slow, count, expected, never):
    choice = Choice(slow=frozenset(slow), never_slow=never)
    expected = "".join(name for name in expected if not (never and name in slow))
    assert choose_nodes_to_add(("a",), free("bcd"), count, choice) == tuple(expected)


@pytest.mark.parametrize(
    ("used", "first", "count", "expected"),
    [
        pytest.param("abcd", "b", 1, "b", id="before the farthest"),
        pytest.param("abcd", "b", 3, "bdc", id="then the farthest"),
        pytest.param("abbd", "bb", 2, "bb", id="both of one node"),
        pytest.param("abcd", "cb", 1, "c", id="in their order"),
        pytest.param("abd", "bbx", 2, "bd", id="no more than there are"),
        pytest.param("abx", "b", 2, "xb", id="after what has vanished"),
    ],
)
def test_what_is_slow_is_given_up_first(used, first, count, expected):
    there = dict.fromkeys("abcd", (1, 0))
    assert choose_nodes_to_leave(tuple(used), nodes(**there), count, Choice(first=tuple(first))) == tuple(expected)


class TestAny:
    THERE = free("abcdefgh")

    def drawn(self, seed, count=3):
        return choose_nodes_to_add(("a",), self.THERE, count, Choice(ANY, seed))

    def test_is_decided_by_the_seed(self):
        assert self.drawn(5) == self.drawn(5)
        assert len({self.drawn(seed) for seed in range(20)}) > 10

    def test_one_more_leaves_the_others_as_they_are(self):
        assert self.drawn(5, 4)[:3] == self.drawn(5)

    def test_takes_each_node_about_as_often(self):
        firsts = [self.drawn(seed, 1)[0] for seed in range(800)]
        assert all(60 <= firsts.count(name) <= 140 for name in "abcdefgh")

    def test_gives_up_each_executor_about_as_often(self):
        firsts = [
            choose_nodes_to_leave(("a", "a", "b", "c"), self.THERE, 1, Choice(ANY, seed))[0] for seed in range(800)
        ]
        assert [round(firsts.count(name) / 200) for name in "abc"] == [2, 1, 1]

    def test_takes_slow_nodes_last_and_gives_up_slow_executors_first(self):
        slow = Choice(ANY, 5, slow=frozenset("abcd"), first=("b", "c"))
        added = choose_nodes_to_add((), self.THERE, 6, slow)
        assert set(added[:4]) == set("efgh")
        assert set(added[4:]) <= set("abcd")
        assert choose_nodes_to_leave(tuple("abcdefgh"), self.THERE, 3, slow)[:2] == ("b", "c")

    def test_takes_no_more_than_are_free(self):
        assert sorted(choose_nodes_to_add((), free("ab", 2), 9, Choice(ANY, 1))) == ["a", "a", "b", "b"]


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
    placement, said = place(nodes(**rooms), tuple(used), target)
    assert placement == Placement(*map(tuple, expected))
    assert said == text


SICK = {"slow": ("executor 7 on b",), "slow_executors": ("7",), "slow_on": ("b",), "slow_nodes": ("b",)}


@pytest.mark.parametrize(
    ("rooms", "never", "expected", "text"),
    [
        pytest.param(
            {"a": (1, 0), "b": (0, 1)},
            False,
            Placement(("a", "b"), ("b",), (), ("b",)),
            "added on b, slow nodes are used, as no other has room: b, greatest round trip 0 ms → 20 ms",
            id="better than nothing",
        ),
        pytest.param(
            {"a": (1, 0), "b": (0, 1)},
            True,
            Placement(("a",), (), (), ("b",)),
            "no node that is not slow has room for 1 more, greatest round trip 0 ms",
            id="no better than the one that goes",
        ),
        pytest.param(
            {"a": (1, 0), "b": (0, 1), "c": (0, 1)},
            True,
            Placement(("a", "c"), ("c",), (), ("b",)),
            "added on c, greatest round trip 0 ms → 45 ms",
            id="another has room",
        ),
    ],
)
def test_a_placement_with_a_slow_node_says_what_it_does(rooms, never, expected, text):
    assert place(nodes(**rooms), ("a",), 2, Choice(slow=frozenset("b"), never_slow=never)) == (expected, text)


class TestASlowOneIsReplaced:
    """Executor 7 is slow, on b, which is nearer to a than c and has room."""

    ROOMS: ClassVar = {"a": (1, 0), "b": (1, 1), "c": (0, 1)}

    def test_on_another_node_and_then_goes_from_its_own(self):
        plans = decision_settings(Fixed(None), replace_slow=True, round_trip_cooldowns=0.0)
        come, state = decide(seen(1000.0, executors=2, nodes=nodes(**self.ROOMS), **SICK), plans.initial(), plans)
        assert (come.reason.code, come.target, come.first) == (ReasonCode.SLOW_EXECUTOR, 3, ())
        assert come.placement == Placement(("a", "b", "c"), ("c",), (), ("b",))
        state = learn(outcome(OutcomeStatus.APPLIED, 3, 2, 3), state, plans)
        there = nodes(a=(1, 0), b=(1, 1), c=(1, 0))
        go, _ = decide(seen(1015.0, executors=3, requested=3, nodes=there, **SICK), state, plans)
        assert (go.reason.code, go.target, go.first) == (ReasonCode.SLOW_EXECUTOR, 2, ("7",))
        assert go.placement == Placement(("a", "c"), (), ("b",), ("b",))
        assert go.reason.text == (
            "executor 7 has been replaced and goes: 3 → 2; given up on b, greatest round trip 45 ms;"
            " slow: executor 7 on b"
        )

    def test_the_one_that_was_replaced_goes_before_others_that_are_slow(self):
        plans = decision_settings(Fixed(None), replace_slow=True, round_trip_cooldowns=0.0)
        sick = {**SICK, "slow_executors": ("3", "7"), "slow_on": ("c", "b"), "slow_nodes": ("b", "c")}
        state = plans.initial()
        state = replace(state, guard=replace(state.guard, replacing=Replacing("7", 3)))
        there = nodes(a=(2, 0), b=(1, 0), c=(1, 0))
        go, _ = decide(seen(1000.0, executors=4, requested=4, nodes=there, **sick), state, plans)
        assert (go.target, go.first) == (3, ("7", "3"))
        assert go.placement is not None
        assert go.placement.leave == ("b",)

    def test_not_where_slow_nodes_alone_have_room(self):
        plans = decision_settings(Fixed(None), replace_slow=True)
        there = nodes(a=(1, 0), b=(1, 1), c=(0, 0))
        hold, state = decide(seen(1000.0, executors=2, nodes=there, **SICK), plans.initial(), plans)
        assert (hold.action, hold.target, hold.placement) == (Action.HOLD, 2, None)
        assert hold.reason.code is ReasonCode.NO_FREE_NODE
        assert hold.reason.text == (
            "2 → 3: no node that is not slow has room for 1 more, greatest round trip 20 ms; slow: executor 7 on b"
        )
        assert state.guard.replacing is None

    def test_beside_another_on_its_node_where_that_one_is_as_fast_as_the_others(self):
        plans = decision_settings(Fixed(None), replace_slow=True)
        there, sick = nodes(a=(1, 0), b=(2, 1), c=(0, 1)), {**SICK, "slow_nodes": ()}
        come, _ = decide(seen(1000.0, executors=3, nodes=there, **sick), plans.initial(), plans)
        assert come.placement is not None
        assert come.placement.add == ("b",)

    def test_in_any_decrease_it_goes_before_the_farthest(self):
        plans = decision_settings(Fixed(2))
        there = nodes(a=(1, 0), b=(1, 0), d=(1, 0))
        go, _ = decide(seen(1000.0, executors=3, nodes=there, **SICK), plans.initial(), plans)
        assert (go.first, go.placement) == (("7",), Placement(("a", "d"), (), ("b",), ("b",)))

    def test_any_increase_passes_its_node_over(self):
        plans = decision_settings(Fixed(3))
        come, _ = decide(seen(1000.0, executors=2, nodes=nodes(**self.ROOMS), **SICK), plans.initial(), plans)
        assert come.placement is not None
        assert come.placement.add == ("c",)


class TestAnExcludedExecutor:
    """Executor 7 on b gets no task; the only other one is on a."""

    OUT: ClassVar[dict[str, Any]] = {"excluded": ("7",), "excluded_on": ("b",)}

    def test_others_come_in_its_place_on_its_node_last(self):
        plans = decision_settings(Fixed(3))
        there = nodes(a=(1, 0), b=(1, 0), c=(0, 1))
        grow, _ = decide(seen(executors=1, requested=2, nodes=there, **self.OUT), plans.initial(), plans)
        assert (grow.target, grow.first) == (3, ("7",))
        assert grow.placement is not None
        assert (grow.placement.add, grow.placement.leave) == (("c", "b"), ())

    def test_it_goes_first_in_a_decrease(self):
        plans = decision_settings(Fixed(2))
        there = nodes(a=(1, 0), b=(1, 0), d=(1, 0))
        go, _ = decide(seen(executors=2, requested=3, nodes=there, **self.OUT), plans.initial(), plans)
        assert (go.first, go.placement and go.placement.leave) == (("7",), ("b",))


class TestThePlannersLastStep:
    def decided(self, target, rooms, policy=None, seed=None, **changes):
        policy = policy or Fixed(target)
        plans = decision_settings(policy)
        if seed is not None:
            plans = type(plans)(policy, plans.bounds, plans.guard, plans.objective, plans.sample_s, seed)
        sample = seen(nodes=nodes(**rooms), **changes)
        return decide(sample, plans.initial(), plans)

    def test_a_change_is_placed_and_its_reason_says_so(self):
        decision, _ = self.decided(2, {"a": (1, 0), "b": (0, 1), "d": (0, 1)}, executors=1)
        assert decision.placement == Placement(("a", "b"), ("b",), ())
        assert decision.reason.text == "as told; added on b, greatest round trip 0 ms → 20 ms"
        assert (decision.reason.code, decision.notes) == (ReasonCode.FIXED, ())

    def test_several_leave_in_one_change(self):
        decision, _ = self.decided(1, {"a": (1, 0), "b": (1, 0), "d": (1, 0)}, executors=3)
        assert decision.placement == Placement(("a",), (), ("d", "b"))

    def test_a_hold_is_not_placed(self):
        assert self.decided(1, {"a": (1, 0)}, executors=1)[0].placement is None

    def test_without_nodes_nothing_is_placed(self):
        plans = decision_settings(Fixed(5))
        assert decide(seen(executors=3), plans.initial(), plans)[0].placement is None

    def test_an_increase_becomes_what_there_is_room_for(self):
        decision, state = self.decided(5, {"a": (1, 0), "b": (0, 1), "d": (0, 1)}, executors=1)
        assert (decision.action, decision.target) == (Action.UP, 3)
        assert decision.placement == Placement(("a", "b", "d"), ("b", "d"), ())
        [note] = decision.notes
        assert (note.step, note.before, note.after) == ("placement", 5, 3)
        assert note.reason == decision.reason
        assert decision.reason.code is ReasonCode.NO_FREE_NODE
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

    def test_those_lost_are_asked_for_again_where_there_is_room_for_no_more(self):
        rooms = {"a": (1, 0), "b": (1, 0), "c": (0, 2)}
        decision, state = self.decided(
            5, rooms, executors=2, requested=4, batch_s=12.0, backlog_excess=90.0, processed_rate=500.0
        )
        assert (decision.action, decision.current, decision.target) == (Action.UP, 2, 4)
        assert decision.placement == Placement(("a", "b", "c", "c"), ("c", "c"), ())
        assert (decision.reason.code, decision.reason.text) == (
            ReasonCode.REPLACING_LOST,
            "4 → 5, but 2 of 4 executors registered: asked for again; added on c ×2, no node has room for 1 more, "
            "greatest round trip 20 ms → 45 ms",
        )
        [note] = decision.notes
        assert (note.step, note.before, note.after, note.reason) == ("placement", 5, 4, decision.reason)
        assert state.guard.pending == Pending(1, decision.at, 2, 4, None)

    def test_as_many_of_those_lost_as_there_is_room_for(self):
        decision, _ = self.decided(5, {"a": (1, 0), "b": (1, 0), "c": (0, 1)}, executors=2, requested=4)
        assert (decision.action, decision.current, decision.target) == (Action.UP, 2, 3)
        assert decision.placement == Placement(("a", "b", "c"), ("c",), ())

    def test_those_that_are_coming_are_not_asked_for_again_and_a_hold_says_nothing_of_them(self):
        plans = decision_settings(Fixed(5))
        state = plans.initial()
        state = replace(state, guard=replace(state.guard, pending=Pending(7, 990.0, 2, 4)))
        there = nodes(a=(1, 0), b=(1, 0), c=(0, 2))
        hold, _ = decide(seen(1000.0, executors=2, requested=4, nodes=there), state, plans)
        assert (hold.action, hold.current, hold.target, hold.placement) == (Action.HOLD, 4, 4, None)
        assert hold.reason.code is ReasonCode.NO_FREE_NODE
        assert hold.reason.text == "4 → 5: no node has room for 1 more, greatest round trip 20 ms"

    def test_figures_of_before_the_last_change_tell_of_nobody_lost(self):
        plans = decision_settings(Fixed(5), metrics_delay_s=60.0)
        state = plans.initial()
        state = replace(state, guard=replace(state.guard, changed_at=990.0, changed_to=4))
        there = nodes(a=(1, 0), b=(1, 0), c=(0, 2))
        late = seen(1000.0, executors=2, requested=2, nodes=there, metrics_age_s=20.0)
        hold, _ = decide(late, state, plans)
        assert (hold.action, hold.current, hold.target) == (Action.HOLD, 4, 4)
        assert hold.reason.code is ReasonCode.NO_FREE_NODE

    def test_at_random_by_seed_and_number_where_the_policy_says_so(self):
        policy = Fixed(2)
        policy.placing = ANY  # type: ignore[attr-defined]
        rooms = {"a": (1, 0), **dict.fromkeys("bcdefgh", (0, 1))}
        added = [self.decided(2, rooms, policy, seed, executors=1)[0].placement.add for seed in range(12)]
        assert added == [self.decided(2, rooms, policy, seed, executors=1)[0].placement.add for seed in range(12)]
        assert len(set(added)) > 3
