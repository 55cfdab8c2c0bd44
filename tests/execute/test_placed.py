"""Executors on named nodes: a placement is obeyed, whatever the master would do, and what is not obeyed is said."""

from __future__ import annotations

from dataclasses import replace

from tests.execute import contract
from tests.execute.conftest import LOOK_S, InMemory, Later

from rheostat.errors import ActuationError, UnavailableError
from rheostat.execute.live import LiveExecutors, Patience
from rheostat.execute.node_client import NodeState, StandbyOptions
from rheostat.execute.placed import LatencyMap
from rheostat.execute.workers import WorkersActuator
from rheostat.loop.clock import ManualClock
from rheostat.model import OutcomeStatus, Placement, RoundTrip

TRIPS = (RoundTrip("far", "mid", 290.0), RoundTrip("far", "near", 300.0), RoundTrip("mid", "near", 20.0))
KNOWN_S = 0.5


class Machine:
    """A node server; the master goes on using its Workers for half a second after they were told to leave."""

    def __init__(self, place, name, n_max, workers):
        self.place, self.name, self.n_max = place, name, n_max
        self.address = f"http://{name}:8091"
        self.here = {f"{name}.{number}" for number in range(1, workers + 1)}
        self.going: dict[str, float] = {}
        self.fails = ""

    @property
    def open(self):
        """Workers on which the master places executors."""
        now = self.place.clock.at
        return sorted(self.here | {worker for worker, at in self.going.items() if now < at + KNOWN_S})

    def idle(self):
        return sorted(self.here - set(self.place.spots.values()))

    def state(self):
        self._answer()
        used = tuple(sorted(self.here & set(self.place.spots.values())))
        names = {f"{worker}:8081": worker for worker in self.open}
        leaving = len(set(self.open) - self.here)
        free = self.n_max - len(self.here)
        return NodeState(self.n_max, used, len(self.idle()), free, names, self.name, frozenset(self.open), leaving)

    def create(self, target):
        self._answer()
        self.place.log.append(f"{self.name}: {target} more")
        free = [f"{self.name}.{number}" for number in range(1, 9) if f"{self.name}.{number}" not in self.here]
        made = free[: min(target, self.n_max - len(self.here))]
        self.here |= set(made)
        return len(made)

    def remove(self, used, free):
        self._answer()
        self.place.log.append(f"{self.name}: keep {free}")
        assert set(used) >= self.here & set(self.place.spots.values())
        gone = self.idle()[: max(0, len(self.idle()) - free)]
        self.here -= set(gone)
        self.going |= dict.fromkeys(gone, self.place.clock.at)
        return len(gone)

    def close(self):
        pass

    def _answer(self):
        if self.fails:
            raise UnavailableError(self.fails)


class OnWorkers(InMemory):
    """Executors start on free Workers only, wherever those are: on the last node first, which is the worst choice."""

    place: Place

    def _launch(self):
        self.place.spots = {each: spot for each, spot in self.place.spots.items() if each in self.alive}
        free = [worker for node in self.place.nodes for worker in node.open if worker not in self.place.spots.values()]
        self.room = len(self.alive) + len(free)
        super()._launch()
        for each in self.alive:
            if each not in self.place.spots:
                self.place.spots[each] = free.pop()


class Place:
    """An application with executors on the Workers of near, mid and far.

    Args:
        used: node → executors on it.
        standby: node → idle Workers.
        n_max: node → Workers that there can be; the others have four.
    """

    def __init__(self, used, standby=(), backup=2, n_max=(), known=True):
        self.clock = ManualClock()
        self.log: list[str] = []
        self.silent = False
        self.spots: dict[str, str] = {}
        used, standby, most = dict(used), dict(standby), {"near": 4, "mid": 4, "far": 4} | dict(n_max)
        self.nodes = [
            Machine(self, name, most[name], used.get(name, 0) + standby.get(name, 0)) for name in ("near", "mid", "far")
        ]
        self.by_name = {node.name: node for node in self.nodes}
        self.cluster = OnWorkers(self.clock, sum(used.values()))
        self.cluster.place = self
        workers = [f"{name}.{number}" for name, count in used.items() for number in range(1, count + 1)]
        self.spots = dict(zip(self.cluster.alive, workers, strict=True))
        self.executing, self.telling = Later(), Later()
        live = LiveExecutors(self.cluster, self.clock, Patience(look_s=LOOK_S, gap_s=5.0), runner=self.executing)
        upkeep, latency = StandbyOptions(backup, every_s=15.0), LatencyMap(lambda: TRIPS, self.clock, leave_s=3.0)
        self.both = WorkersActuator(
            live, self, self.nodes, upkeep, runner=self.telling, known=latency if known else None
        )

    def registered(self):
        return self.cluster.registered()

    def placed(self):
        if self.silent:
            raise ActuationError("the driver is gone")
        return {each: f"{self.spots[each]}:8081" for each in self.cluster.registered()}

    def change(self, target, add=(), leave=(), decision_id=1, first=(), slow=()):
        current = len(self.cluster.registered())
        use = sorted([spot.partition(".")[0] for spot in self.spots.values()] + list(add))
        for name in leave:
            use.remove(name)
        placement = Placement(tuple(use), tuple(add), tuple(leave), tuple(slow))
        decision = contract.decide(target, self.clock.at, decision_id, current, placement)
        self.both.apply(replace(decision, first=tuple(first)))
        for _ in range(3):
            self.telling.run()
            self.executing.run()
            found = self.both.poll(self.clock.at)
            if found is not None:
                return found
        return None

    def used(self):
        """The node of each executor, sorted."""
        return sorted(spot.partition(".")[0] for spot in self.spots.values())

    def standby(self):
        return {node.name: len(node.idle()) for node in self.nodes if node.idle()}


def test_an_executor_comes_where_it_is_to_come_and_the_standby_moves_on():
    place = Place({"near": 1}, {"near": 1}, backup=1, n_max={"near": 2})

    outcome = place.change(2, add=["near"])

    assert outcome.status is OutcomeStatus.APPLIED
    assert place.used() == ["near", "near"]
    assert outcome.reason.text == (
        "2 registered 2.0 s after 2 were asked for; executors started on near; "
        "standby: 0 idle Workers, 1 more requested on mid"
    )
    assert place.standby() == {"mid": 1}


def test_idle_workers_elsewhere_are_sent_away_and_the_master_knows_it_before_the_job_grows():
    place = Place({"near": 1}, {"mid": 1, "far": 1})

    outcome = place.change(2, add=["mid"])

    assert place.used() == ["mid", "near"]
    assert place.log == ["far: keep 0", "mid: 2 more"]
    assert "1 idle Worker on other nodes removed first, in 0.5 s; executors started on mid" in outcome.reason.text


def test_each_node_gets_its_share():
    place = Place({"near": 1}, {"near": 2, "far": 2}, backup=2)

    place.change(4, add=["near", "mid", "far"])

    assert place.used() == ["far", "mid", "near", "near"]
    assert place.log[:3] == ["mid: 1 more", "near: keep 1", "far: keep 1"]


def test_where_all_come_to_one_node_its_own_standby_stays():
    place = Place({"near": 1}, {"near": 2})

    place.change(2, add=["near"])

    assert place.log == ["near: 1 more"]
    assert place.standby() == {"near": 2}


def test_the_executor_on_the_named_node_leaves_though_another_is_newer():
    place = Place({"far": 1, "mid": 1, "near": 1}, backup=0)

    outcome = place.change(2, leave=["far"])

    assert place.used() == ["mid", "near"]
    assert outcome.reason.text.startswith("1 removed between two triggers after waiting 0.0 s")
    assert "executors removed from far" in outcome.reason.text


def test_of_several_each_is_taken_from_its_node():
    place = Place({"far": 2, "mid": 1, "near": 1}, backup=0)

    outcome = place.change(1, leave=["far", "far", "mid"])

    assert place.used() == ["near"]
    assert "executors removed from far, far, mid" in outcome.reason.text


def test_the_slow_executor_leaves_though_another_on_its_node_is_newer():
    place = Place({"far": 2, "near": 1}, backup=0)

    outcome = place.change(2, leave=["far"], first=["0"])

    assert (place.cluster.registered(), place.used()) == (("1", "2"), ["far", "near"])
    assert "executors removed from far" in outcome.reason.text


def test_a_slow_node_is_left_one_comes_elsewhere_and_then_its_own_goes():
    """The standby on mid, which is slow, goes away, and what is started anew stands elsewhere."""
    place = Place({"mid": 1, "near": 1}, {"mid": 1}, backup=1, n_max={"near": 1})

    come = place.change(3, add=["far"], slow=["mid"])
    assert place.used() == ["far", "mid", "near"]
    assert "1 idle Worker on other nodes removed first, in 0.5 s; executors started on far" in come.reason.text
    assert place.standby() == {"far": 1}

    go = place.change(2, leave=["mid"], decision_id=2, first=["0"], slow=["mid"])
    assert (place.cluster.registered(), place.used()) == (("1", "2"), ["far", "near"])
    assert "executors removed from mid" in go.reason.text
    assert place.standby() == {"far": 1}
    assert len(place.by_name["mid"].here) == 0


def test_one_that_is_busy_is_waited_for_and_no_other_goes_in_its_place():
    place = Place({"far": 1, "near": 2}, backup=0)
    place.cluster.triggered = lambda _: True
    place.cluster.busy = lambda at: ["0"] if at < 10.0 else []

    outcome = place.change(2, leave=["far"])

    assert place.used() == ["near", "near"]
    assert outcome.method == "idle"
    assert outcome.waited_s > 10.0


def test_one_that_stays_busy_keeps_its_place_and_this_is_said():
    place = Place({"far": 1, "near": 2}, backup=0)
    place.cluster.triggered = lambda _: True
    place.cluster.busy = lambda _: ["0"]

    outcome = place.change(2, leave=["far"])

    assert outcome.status is OutcomeStatus.HELD
    assert place.used() == ["far", "near", "near"]
    assert "executors removed from no node, not removed from far as decided" in outcome.reason.text


# ------------------------------------------------------------------------------ what cannot be obeyed


def test_a_full_node_is_replaced_by_the_nearest_with_room():
    place = Place({"near": 1}, n_max={"near": 1, "mid": 0}, backup=0)

    outcome = place.change(2, add=["mid"])

    assert place.used() == ["far", "near"]
    assert "no room on mid, or no answer: far instead; executors started on far, not started on mid as decided" in (
        outcome.reason.text
    )


def test_a_node_that_is_gone_is_replaced_and_its_trouble_is_said():
    place = Place({"near": 1}, backup=0)
    place.by_name["near"].fails = "ConnectError: refused"

    outcome = place.change(2, add=["near"])

    assert place.used() == ["mid", "near"]
    assert "no room on near, or no answer: mid instead; executors started on mid, not started on near as decided" in (
        outcome.reason.text
    )
    assert outcome.reason.text.endswith("node http://near:8091: ConnectError: refused")


def test_an_executor_whose_node_server_was_killed_still_leaves_first():
    place = Place({"far": 1, "near": 1}, {"near": 1}, backup=0)
    place.change(3, add=["near"])
    place.by_name["far"].fails = "ConnectError: refused"

    outcome = place.change(2, leave=["far"], decision_id=2)

    assert place.used() == ["near", "near"]
    assert "executors removed from far" in outcome.reason.text


def test_an_executor_on_a_worker_of_nobody_can_be_named_too():
    place = Place({"near": 2}, backup=0)
    place.spots["0"] = "elsewhere.1"
    place.by_name["near"].here.remove("near.1")

    outcome = place.change(1, leave=["elsewhere"])

    assert place.used() == ["near"]
    assert "executors removed from elsewhere" in outcome.reason.text


def test_without_any_room_the_job_is_asked_all_the_same():
    place = Place({"near": 1}, n_max={"near": 1, "mid": 0, "far": 0}, backup=0)

    outcome = place.change(2, add=["mid"])

    assert outcome.status is OutcomeStatus.NO_ROOM
    text = outcome.reason.text
    assert (
        "no room on mid, or no answer: no other node has any; executors started on no node, not started on mid" in text
    )


def test_workers_that_take_too_long_to_leave_are_not_waited_for_any_longer(monkeypatch):
    monkeypatch.setattr("tests.execute.test_placed.KNOWN_S", 100.0)
    place = Place({"near": 1}, {"far": 1}, backup=0)

    outcome = place.change(2, add=["mid"])

    assert place.used() == ["far", "near"]
    assert "removed first, in 3.0 s, and the master may still place executors on them" in outcome.reason.text
    assert "executors started on far, not started on mid as decided" in outcome.reason.text


def test_a_driver_that_does_not_tell_costs_the_placement_and_not_the_change():
    place = Place({"near": 1}, {"near": 1}, backup=1)
    place.silent = True

    outcome = place.change(2, add=["near"])

    assert outcome.status is OutcomeStatus.APPLIED
    assert "the nodes could not be prepared: the driver is gone" in outcome.reason.text


def test_without_a_latency_map_a_placement_is_not_obeyed_and_this_is_said():
    place = Place({"near": 1}, {"near": 1, "far": 1}, backup=2, known=False)

    outcome = place.change(2, add=["near"])

    assert place.used() == ["far", "near"]
    assert "the placement is not obeyed, as no round trips are known here" in outcome.reason.text


def test_a_change_that_is_superseded_while_workers_leave_is_given_up(monkeypatch):
    place = Place({"near": 1}, {"far": 1}, backup=0)
    looked = []

    def wait(_seconds):
        looked.append(place.cluster.asked[:])
        place.both.apply(contract.decide(1, place.clock.at, 2, 1))
        return False

    monkeypatch.setattr(place.clock, "wait", wait)
    place.both.apply(contract.decide(2, 0.0, 1, 1, Placement(("mid", "near"), ("mid",))))
    place.telling.run()
    place.executing.run()

    assert (looked, place.cluster.asked) == ([[]], [1])
