"""The nodes of an observation: who is there, with how much room, how far apart, and what is said of the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from rheostat import attachment as assembly
from rheostat.config.loading import load_settings
from rheostat.errors import UnavailableError
from rheostat.execute.node_client import NodeClient, NodeTime
from rheostat.loop.clock import ManualClock
from rheostat.model import Cluster, CpuUse, Executor, Gap, NodeCpu, NodeReading, Nodes, Observation, RoundTrip
from rheostat.observe.cpu import CpuMeter
from rheostat.observe.merge import merge_observations
from rheostat.observe.nodes import NodesWatch, SourceWithNodes


@dataclass
class Server:
    """A node server that answers what it is told to; it is its own answer."""

    name: str
    idle: int = 1
    free: int = 1
    hosts: tuple[str, ...] = ()
    peers: tuple[tuple[str, float, float], ...] = ()
    cpu: NodeTime | None = None
    fails: Exception | None = None
    closed: bool = False
    address: str = field(init=False)

    def __post_init__(self):
        self.address = f"http://{self.name}:8091"
        self.hosts = self.hosts or (f"{self.name}.1", f"{self.name}.2")

    def state(self):
        if self.fails is not None:
            raise self.fails
        return self

    def close(self):
        self.closed = True


class Site:
    """A watch over some servers, on a clock that the test moves."""

    def __init__(self, *servers, given=None):
        self.at = 100.0
        self.servers = servers
        self.waiting: list[Callable[[], None]] = []
        self.watch = NodesWatch(servers, given, lambda: self.at, self.waiting.append)

    def answer(self):
        while self.waiting:
            self.waiting.pop(0)()

    def see(self, *hosts):
        """All servers are asked and answer; executors are on these addresses."""
        self.watch.ask()
        self.answer()
        return self.section(*hosts)

    def section(self, *hosts):
        executors = tuple(Executor(str(number), host, 1, 0) for number, host in enumerate(hosts))
        _, nodes, gaps = self.watch.section(Cluster.of(self.at, executors))
        assert all(gap.section == "nodes" and gap.query_id is None for gap in gaps)
        return nodes, [gap.why for gap in gaps]


def test_executors_are_counted_where_they_are_and_room_is_idle_and_free():
    site = Site(Server("near", idle=1, free=2), Server("far", idle=0, free=0), given={("far", "near"): 300.0})

    nodes, gaps = site.see("near.1", "near.2", "far.1")

    readings = (NodeReading("far", 1, 0), NodeReading("near", 2, 3))
    assert nodes == Nodes(100.0, readings, (RoundTrip("far", "near", 300.0),))
    assert nodes.in_use == ("far", "near", "near")
    assert gaps == []
    assert site.watch.round_trips() == nodes.round_trips


def test_executors_are_told_with_their_nodes_unless_their_host_is_one_or_nobody_knows():
    site = Site(Server("near"), Server("far"))
    executors = tuple(Executor(str(n), host, 1, 0) for n, host in enumerate(["near.1", "far.2", "far", "nowhere"]))

    assert site.watch.section(Cluster.of(100.0, executors))[0] == Cluster.of(100.0, executors)
    site.see()
    site.servers[1].hosts = ("far.2", "far")
    site.see()

    named = site.watch.section(Cluster.of(100.0, executors))[0]
    assert named is not None
    assert named.roster.nodes == ("near", "far", None, None)
    assert named.roster.places == {"0": "near", "1": "far", "2": "far", "3": "nowhere"}
    assert site.watch.section(None)[0] is None


def test_before_an_answer_nothing_is_known_and_no_look_waits():
    site = Site(Server("near"))
    site.watch.ask()

    assert site.section() == (None, ["http://near:8091: it has not answered yet"])
    site.answer()

    assert site.section()[0].nodes == (NodeReading("near", 0, 2),)


def test_a_server_that_has_not_answered_is_not_asked_again():
    site = Site(Server("near"))

    site.watch.ask()
    site.watch.ask()
    assert len(site.waiting) == 1
    site.answer()
    site.watch.ask()

    assert len(site.waiting) == 1


def test_a_slow_server_costs_age():
    site = Site(Server("near"), Server("far"), given={("far", "near"): 1.0})
    site.see()
    site.at = 130.0
    site.watch.ask()
    site.waiting.pop(0)()

    nodes, gaps = site.section()

    assert (nodes.at, [node.name for node in nodes.nodes], gaps) == (100.0, ["far", "near"], [])


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(UnavailableError("ConnectError: refused"), "ConnectError: refused", id="down"),
        pytest.param(RuntimeError("a fault of ours"), "RuntimeError: a fault of ours", id="what nobody foresaw"),
    ],
)
def test_a_node_that_does_not_answer_vanishes_and_is_said(error, words):
    site = Site(Server("near"), Server("far"), given={("far", "near"): 1.0})
    site.see()
    site.servers[1].fails = error

    nodes, gaps = site.see("near.1")

    assert (nodes.nodes, nodes.round_trips) == ((NodeReading("near", 1, 2),), ())
    assert gaps == [f"http://far:8091: {words}"]
    site.servers[1].fails = None
    assert [node.name for node in site.see()[0].nodes] == ["far", "near"]


def test_a_node_that_does_not_answer_stays_without_room_while_executors_are_on_it():
    site = Site(Server("near"), Server("far"), given={("far", "near"): 1.0})
    site.see()
    site.servers[1].fails = UnavailableError("no answer")

    nodes, _ = site.see("near.1", "far.2")

    assert nodes.nodes == (NodeReading("far", 1, 0), NodeReading("near", 1, 2))


def test_executors_that_are_on_no_node_are_said():
    site = Site(Server("near", hosts=("a", "b")), Server("far", hosts=("b",)), given={("far", "near"): 1.0})

    nodes, gaps = site.see("a", "b", "c")

    assert nodes.nodes == (NodeReading("elsewhere", 2, 0), NodeReading("far", 0, 2), NodeReading("near", 1, 2))
    assert gaps == ["2 executors are on no address that one node alone has"]


def test_two_servers_of_one_name_are_said():
    site = Site(Server("node", free=5), Server("node", free=7, hosts=("other",)))

    nodes, gaps = site.see()

    assert nodes.nodes == (NodeReading("node", 0, 6),)
    assert gaps == ["2 node servers are called node, and only the first is counted: give each its own name"]


def test_without_executors_there_are_no_nodes():
    site = Site(Server("near"))
    site.see()

    assert site.watch.section(None)[1:] == (None, (Gap("nodes", "which executors there are is not known"),))


# ------------------------------------------------------------------------------------------- round trips


def test_a_pair_without_an_entry_is_said():
    nodes, gaps = Site(Server("a"), Server("b"), Server("c"), given={("a", "b"): 5.0}).see()

    assert nodes.round_trips == (RoundTrip("a", "b", 5.0),)
    assert gaps == ["no round trip is known between a and c", "no round trip is known between b and c"]


@pytest.mark.parametrize(
    ("there", "back", "expected"),
    [
        pytest.param((("b", 20.04, 1.0),), (("a", 21.07, 2.0),), 21.1, id="the greater of both ends"),
        pytest.param((), (("a", 21.0, 2.0),), 21.0, id="one end only"),
        pytest.param((("b", 90.0, 61.0),), (("a", 21.0, 60.0),), 21.0, id="what is too old does not count"),
        pytest.param((("b", 90.0, 61.0),), (), None, id="all of it too old"),
        pytest.param((("x", 90.0, 1.0),), (), None, id="to somebody else"),
    ],
)
def test_measured_round_trips(there, back, expected):
    nodes, _ = Site(Server("a", peers=there), Server("b", peers=back)).see()

    assert nodes.round_trips == (() if expected is None else (RoundTrip("a", "b", expected),))


def test_a_measurement_ages_while_its_server_is_silent():
    site = Site(Server("a", peers=(("b", 20.0, 30.0),)), Server("b"))
    assert site.see()[0].round_trips == (RoundTrip("a", "b", 20.0),)

    site.at += 31.0

    assert site.section()[0].round_trips == ()


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param(20.0, 24.0, 20.0, id="a fifth more is the same"),
        pytest.param(20.0, 24.1, 24.1, id="more than that is news"),
        pytest.param(20.0, 15.9, 15.9, id="less too"),
        pytest.param(0.4, 0.9, 0.4, id="half a millisecond is noise"),
        pytest.param(0.4, 1.0, 1.0, id="more is not"),
    ],
)
def test_small_changes_of_what_is_measured_are_not_passed_on(first, second, expected):
    site = Site(Server("a"), Server("b"))
    site.servers[0].peers = (("b", first, 1.0),)
    site.see()
    site.servers[0].peers = (("b", second, 1.0),)

    assert site.see()[0].round_trips == (RoundTrip("a", "b", expected),)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, {"trips": None}, id="none: only the processor time is read"),
        pytest.param({"round_trips_ms": "measured"}, {"trips": None}, id="measured"),
        pytest.param({"round_trips_ms": {"near": {"far": 300}}}, {"trips": {("far", "near"): 300.0}}, id="given"),
    ],
)
def test_what_the_settings_make_of_it(given, expected):
    nodes = ["near=http://127.0.1.1:8091", "far=http://127.0.2.1:8091/"]
    job = {"objective": "lag < 30s", "executors": [1, 4], "actuator": "workers"}

    watch = assembly._nodes_watch(load_settings({**job, "workers": {"nodes": nodes} | given}), ManualClock())

    assert (None if watch is None else {"trips": watch._given}) == expected
    if watch is not None:
        servers = [each.server for each in watch._listeners if isinstance(each.server, NodeClient)]
        told = [(each.name, each.address) for each in servers]
        assert told == [("near", "http://127.0.1.1:8091"), ("far", "http://127.0.2.1:8091")]


# --------------------------------------------------------------------------------------------- the source


class Plain:
    """A source of one executor on ``near.1``; it notes when the servers have been asked."""

    def __init__(self, site):
        self.site, self.closed, self.asked = site, False, []

    def observe(self, at):
        self.asked.append(len(self.site.waiting))
        self.site.answer()
        return Observation(at, cluster=Cluster.of(at, (Executor("0", "near.1", 1, 0),)), gaps=(Gap("queries", "none"),))

    def close(self):
        self.closed = True


def test_the_servers_are_asked_while_the_source_looks():
    site = Site(Server("near"), Server("far"), given={})
    plain = Plain(site)

    seen = SourceWithNodes(plain, site.watch, CpuMeter("app-1")).observe(100.0)

    assert plain.asked == [2]
    assert seen.nodes is not None
    assert seen.nodes.in_use == ("near",)
    assert seen.cluster is not None
    assert [each.node for each in seen.cluster.executors] == ["near"]
    why = ["none", *(f"{name}: its server is of a version that tells no processor time" for name in ("far", "near"))]
    assert [gap.why for gap in seen.gaps] == [*why, "no round trip is known between far and near"]


def test_without_round_trips_only_the_processor_time_is_added():
    site = Site(Server("near"), Server("far", fails=UnavailableError("no answer")), Server("near"))
    source = SourceWithNodes(Plain(site), site.watch, CpuMeter("app-1"), placed=False)
    before = source.observe(100.0)

    site.servers[0].cpu = NodeTime(50.0, 2, 15.0)
    source.observe(110.0)
    site.servers[0].cpu = NodeTime(60.0, 2, 30.0)
    seen = source.observe(120.0)

    assert (before.cpu, before.nodes) == (None, None)
    assert (seen.cpu, seen.nodes) == (CpuUse((NodeCpu("near", 2, 1.5),)), None)
    assert [(gap.section, gap.why.partition(",")[0]) for gap in seen.gaps] == [
        ("queries", "none"),
        ("cpu", "http://far:8091: no answer"),
        ("cpu", "2 node servers are called near"),
    ]


def test_the_first_look_waits_until_each_server_has_answered_or_failed():
    """The servers answer once the plain source has looked, one of them with a failure."""
    looked = threading.Event()

    def later(work):
        threading.Thread(target=lambda: (looked.wait(10), work()), daemon=True).start()

    class Looks:
        def observe(self, at):
            looked.set()
            return Observation(at, cluster=Cluster.of(at, (Executor("0", "far.1", 1, 0),)))

        def close(self):
            pass

    servers = Server("near"), Server("far"), Server("down", fails=UnavailableError("no answer"))
    source = SourceWithNodes(Looks(), NodesWatch(servers, {}, lambda: 100.0, later), CpuMeter("app-1"))

    seen = source.observe(100.0)

    assert seen.nodes is not None
    assert [node.name for node in seen.nodes.nodes] == ["far", "near"]
    assert "http://down:8091: no answer" in [gap.why for gap in seen.gaps]


def test_the_end_closes_all():
    site = Site(Server("near"))
    plain = Plain(site)

    SourceWithNodes(plain, site.watch, CpuMeter("app-1")).close()

    assert (plain.closed, site.servers[0].closed) == (True, True)


def test_nodes_that_the_first_source_does_not_see_are_those_of_the_next():
    gap = Gap("nodes", "far: no answer")
    with_nodes = Observation(1.0, nodes=Nodes(1.0, (NodeReading("near", 1, 2),)), gaps=(gap,))

    seen = merge_observations(Observation(1.0), with_nodes)

    assert (seen.nodes, seen.gaps) == (with_nodes.nodes, (gap,))
