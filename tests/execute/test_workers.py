"""Both layers together: what is asked of the nodes before and after the job changes, and what happens without them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from tests.execute import contract
from tests.execute.conftest import LOOK_S, InMemory, Later

from rheostat.errors import ActuationError, UnavailableError
from rheostat.execute.live import LiveExecutors, Patience
from rheostat.execute.node_client import NodeState, StandbyOptions
from rheostat.execute.workers import WorkersActuator, shares
from rheostat.loop.clock import ManualClock
from rheostat.model import OutcomeStatus, ReasonCode
from rheostat.node.workers import to_create, to_remove


class Machine:
    """A node server with Workers of one core that are there as soon as they are asked for."""

    def __init__(self, place, number, n_max, workers):
        self.place, self.n_max = place, n_max
        self.address = f"http://node-{number}:8091"
        self.here = {f"{number}.{each}": each for each in range(1, workers + 1)}
        self.number = number
        self.fails = self.refuses = ""
        self.asked_at = []

    def state(self):
        self._answer()
        used = tuple(sorted(name for name in self.here if name in self.place.used()))
        names = {f"{name}:8081": name for name in self.here}
        return NodeState(self.n_max, used, len(self.here) - len(used), self.n_max - len(self.here), names)

    def create(self, target):
        self._answer()
        self.place.log.append(f"node {self.number}: {target} more")
        ids = to_create(target, self.here.values(), self.n_max)
        self.here |= {f"{self.number}.{each}": each for each in ids}
        self.place.make_room()
        return len(ids)

    def remove(self, used, free):
        self._answer()
        if self.refuses:
            raise UnavailableError(self.refuses)
        self.place.log.append(f"node {self.number}: used {' '.join(used)}, keep {free}")
        assert set(used) >= {name for name in self.here if name in self.place.used()}
        gone = to_remove(self.here.values(), [self.here[name] for name in used if name in self.here], free)
        self.here = {name: each for name, each in self.here.items() if each not in gone}
        self.place.make_room()
        return len(gone)

    def close(self):
        self.place.log.append(f"node {self.number}: closed")

    def _answer(self):
        self.asked_at.append(self.place.clock.at)
        if self.fails:
            raise UnavailableError(self.fails)


class Noted(list[int]):
    """What the cluster is asked for, noted among the rest."""

    def __init__(self, log):
        super().__init__()
        self._log = log

    def append(self, executors):
        self._log.append(f"job: {executors}")


class Place:
    """An application on a cluster whose Workers are those of the nodes."""

    def __init__(self, executors, standby, n_max, backup, nodes=1, **patience):
        self.clock = ManualClock()
        self.log: list[str] = []
        self.paused = self.silent = False
        self.cluster = InMemory(self.clock, executors)
        self.cluster.asked = Noted(self.log)
        self.spots = {}
        self.nodes = [Machine(self, 1, n_max, executors + standby)]
        self.nodes += [Machine(self, number, n_max, 0) for number in range(2, nodes + 1)]
        self.make_room()
        self.used()
        self.executing, self.telling = Later(), Later()
        live = LiveExecutors(self.cluster, self.clock, Patience(look_s=LOOK_S, **patience), runner=self.executing)
        upkeep = StandbyOptions(backup, every_s=15.0, first_s=5.0, longest_s=20.0)
        self.both = WorkersActuator(live, self, self.nodes, upkeep, paused=lambda: self.paused, runner=self.telling)

    def make_room(self):
        self.cluster.room = sum(len(node.here) for node in self.nodes)

    def used(self):
        """Executors stay on their Workers; a new one takes the first free one."""
        self.spots = {each: spot for each, spot in self.spots.items() if each in self.cluster.alive}
        for each in self.cluster.alive:
            if each not in self.spots:
                free = [name for node in self.nodes for name in node.here if name not in self.spots.values()]
                self.spots[each] = free[0]
        return set(self.spots.values())

    def registered(self):
        return self.cluster.registered()

    def placed(self):
        if self.silent:
            raise ActuationError("the driver is gone")
        self.used()
        return {each: f"{self.spots[each]}:8081" for each in self.cluster.registered()}

    def change(self, target, decision_id=1):
        current = len(self.cluster.registered())
        self.both.apply(contract.decide(target, self.clock.at, decision_id, current))
        return self.outcome()

    def outcome(self):
        for _ in range(3):
            self.telling.run()
            self.executing.run()
            found = self.both.poll(self.clock.at)
            if found is not None:
                return found
        return None

    def keep(self, seconds=15.0):
        """Time passes, and the loop looks."""
        self.clock.at += seconds
        assert self.both.poll(self.clock.at) is None
        self.telling.run()

    def standby(self):
        return sum(len(node.here) for node in self.nodes) - len(self.used())


# ------------------------------------------------------------------------- Algorithm 10, worked by hand

CHANGES = [
    pytest.param(1, 2, 2, ["job: 2", "node 1: 1 more"], id="one up: the standby is filled up by one, not by two"),
    pytest.param(1, 2, 3, ["job: 3", "node 1: 2 more"], id="two up: both standby Workers, and two for them"),
    pytest.param(
        1, 2, 5, ["node 1: 2 more", "job: 5", "node 1: 2 more"], id="four up: what is missing before the job grows"
    ),
    pytest.param(1, 0, 2, ["node 1: 1 more", "job: 2", "node 1: 2 more"], id="no standby yet"),
    pytest.param(1, 5, 2, ["job: 2", "node 1: used 1.1 1.2, keep 2"], id="too much standby: the surplus goes"),
    pytest.param(5, 2, 12, ["node 1: 5 more", "job: 12"], id="up to all there can be: no standby is left"),
    pytest.param(3, 2, 2, ["job: 2", "node 1: used 1.1 1.2, keep 2"], id="one down: who is used is read afterwards"),
    pytest.param(5, 1, 2, ["job: 2", "node 1: used 1.1 1.2, keep 2"], id="three down: two of four idle ones stay"),
    pytest.param(2, 0, 1, ["job: 1", "node 1: 1 more"], id="one down, and still too little standby"),
    pytest.param(2, 1, 1, ["job: 1"], id="one down gives the standby that was missing"),
]


def test_the_executor_that_the_decision_names_leaves_before_its_worker_is_sent_away():
    place = Place(executors=3, standby=0, n_max=8, backup=0)

    place.both.apply(replace(contract.decide(2, 0.0, 1, 3), first=("1",)))
    place.telling.run()
    place.executing.run()
    assert (place.cluster.registered(), place.log) == (("0", "2"), ["job: 2"])

    place.both.poll(place.clock.at)
    place.telling.run()
    assert place.log == ["job: 2", "node 1: used 1.1 1.3, keep 0"]
    assert sorted(place.nodes[0].here) == ["1.1", "1.3"]


@pytest.mark.parametrize(("executors", "standby", "target", "expected"), CHANGES)
def test_what_is_asked_of_both_layers_and_in_which_order(executors, standby, target, expected):
    place = Place(executors, standby, n_max=12, backup=2)

    outcome = place.change(target)

    assert (outcome.status, outcome.after) == (OutcomeStatus.APPLIED, target)
    assert place.log == expected
    assert place.standby() == (0 if target == 12 else 2)


def test_five_steps_up_and_five_down_keep_two_in_standby():
    place = Place(1, 2, n_max=12, backup=2)
    seen = []
    for number, target in enumerate([2, 3, 4, 5, 6, 5, 4, 3, 2, 1], 1):
        place.change(target, decision_id=number)
        seen.append((len(place.used()), place.standby()))

    assert seen == [(2, 2), (3, 2), (4, 2), (5, 2), (6, 2), (5, 2), (4, 2), (3, 2), (2, 2), (1, 2)]


def test_without_a_wish_for_standby_there_is_none():
    place = Place(1, 0, n_max=4, backup=0)

    place.change(3)
    assert (place.log, place.standby()) == (["node 1: 2 more", "job: 3"], 0)
    place.change(1, decision_id=2)

    assert (place.log[2:], place.standby()) == (["job: 1", "node 1: used 1.1, keep 0"], 0)


def test_the_outcome_tells_of_both_layers():
    place = Place(1, 2, n_max=12, backup=2)

    outcome = place.change(2)

    assert outcome.reason.code is ReasonCode.APPLIED
    assert outcome.reason.text == "2 registered 2.0 s after 2 were asked for; standby: 1 idle Worker, 1 more requested"
    assert (outcome.decision_id, outcome.target, outcome.before, outcome.method) == (1, 2, 1, "request")


def test_without_room_for_the_standby_the_outcome_says_so():
    outcome = Place(1, 1, n_max=2, backup=2).change(2)

    assert outcome.status is OutcomeStatus.APPLIED
    assert outcome.reason.text.endswith("standby: 0 of 2 idle Workers, as the nodes have no room for more")


def test_several_nodes_share():
    place = Place(1, 2, n_max=4, backup=2, nodes=2)

    place.change(5)
    assert place.log == ["node 2: 2 more", "job: 5", "node 1: 1 more", "node 2: 1 more"]
    place.change(2, decision_id=2)

    assert [len(node.here) for node in place.nodes] == [3, 1]
    assert place.standby() == 2


@pytest.mark.parametrize(
    ("number", "most", "expected"),
    [
        pytest.param(0, [3], (0,), id="none"),
        pytest.param(2, [], (), id="no node"),
        pytest.param(3, [2, 2, 2], (1, 1, 1), id="evenly"),
        pytest.param(3, [0, 1, 5], (0, 0, 3), id="where the most is"),
        pytest.param(10, [2, 3], (2, 3), id="clipped"),
    ],
)
def test_shares(number, most, expected):
    assert shares(number, most) == expected


# --------------------------------------------------------------------------------- when something fails


def test_a_node_that_is_down_does_not_keep_the_job_from_its_standby():
    place = Place(1, 2, n_max=12, backup=2)
    place.nodes[0].fails = "ConnectError: refused"

    outcome = place.change(3)

    assert (outcome.status, outcome.after, place.log) == (OutcomeStatus.APPLIED, 3, ["job: 3"])
    assert outcome.reason.text.endswith("node http://node-1:8091: ConnectError: refused")


def test_what_failed_is_tried_again_until_it_works_and_not_all_the_time():
    place = Place(1, 2, n_max=12, backup=2)
    place.nodes[0].fails = "ConnectError: refused"
    place.change(2)
    before = len(place.nodes[0].asked_at)
    for _ in range(60):
        place.keep(seconds=1.0)
    gaps = {round(later - earlier) for earlier, later in pairwise(place.nodes[0].asked_at[before:])}
    assert gaps == {15, 30}

    place.nodes[0].fails = ""
    place.keep(seconds=30.0)

    assert place.log == ["job: 2", "node 1: 1 more"]
    assert place.standby() == 2


def test_the_other_nodes_go_on_without_one():
    place = Place(1, 2, n_max=4, backup=2, nodes=2)
    place.nodes[0].fails = "it answers too slowly"

    outcome = place.change(2)

    assert place.log == ["node 2: 1 more", "job: 2", "node 2: 1 more"]
    assert "node http://node-1:8091: it answers too slowly" in outcome.reason.text


def test_a_refusal_to_remove_is_told_and_tried_again():
    place = Place(3, 2, n_max=12, backup=2)
    place.nodes[0].refuses = "it refuses with 409"

    outcome = place.change(2)
    assert outcome.reason.text.endswith("node http://node-1:8091: it refuses with 409")
    place.nodes[0].refuses = ""
    place.keep(seconds=20.0)

    assert place.standby() == 2


def test_workers_are_not_removed_while_nobody_knows_who_is_used():
    place = Place(3, 2, n_max=12, backup=2)
    place.silent = True

    outcome = place.change(2)

    assert (outcome.status, place.log) == (OutcomeStatus.APPLIED, ["job: 2"])
    assert outcome.reason.text.endswith("the standby is not known: the driver is gone")


def test_an_increase_without_room_leaves_idle_workers_alone():
    place = Place(1, 5, n_max=12, backup=2, least_no_room_s=1.0)
    place.cluster.room = 1

    outcome = place.change(3)

    assert outcome.status is OutcomeStatus.NO_ROOM
    assert [entry for entry in place.log if "keep" in entry] == []


# ----------------------------------------------------------------------------- between two changes


def test_a_lost_standby_worker_is_replaced():
    place = Place(2, 2, n_max=12, backup=2)
    place.change(2)
    del place.nodes[0].here["1.4"]
    place.make_room()

    place.keep(seconds=14.0)
    assert place.standby() == 1
    place.keep(seconds=2.0)

    assert place.standby() == 2


def test_surplus_workers_stay_while_executors_are_still_expected():
    place = Place(2, 2, n_max=12, backup=2)
    place.change(2)
    place.cluster.room = 1
    place.cluster.lose("1")

    place.keep(seconds=20.0)

    assert place.log == ["job: 2"]


def test_nothing_is_changed_while_paused():
    place = Place(1, 0, n_max=12, backup=2)
    place.paused = True
    place.keep(seconds=20.0)
    assert place.log == []

    place.paused = False
    place.keep(seconds=1.0)

    assert place.log == ["node 1: 2 more"]


# ---------------------------------------------------------------------------------- the port's rules


@pytest.mark.parametrize("rule", contract.RULES, ids=lambda rule: rule.__name__.replace("_", " "))
def test_it_keeps(rule):
    place = Place(1, 2, n_max=12, backup=2)

    def finish():
        for _ in range(2):
            place.telling.run()
            place.executing.run()
            if place.both._live._outcome is not None:
                assert place.both.poll(contract.LATER) is None
        place.telling.run()

    rule(contract.Case(place.both, finish))


def test_an_outcome_of_a_superseded_change_is_nobodys():
    place = Place(1, 2, n_max=12, backup=2)
    place.both.apply(contract.decide(2, decision_id=1))
    place.telling.run()
    place.executing.run()
    place.both.apply(contract.decide(3, decision_id=2))

    assert place.outcome().decision_id == 2


def test_the_end_closes_the_connections_and_leaves_the_workers():
    place = Place(1, 2, n_max=12, backup=2)
    place.both.close()
    place.telling.run()

    assert place.log == ["node 1: closed"]
    assert (place.executing.closed, place.telling.closed) == (True, True)
    place.keep(seconds=100.0)
    assert place.standby() == 2
