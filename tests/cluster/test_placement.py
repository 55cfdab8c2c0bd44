"""Three node servers at addresses of their own: near executors come first, far ones go first, and nothing is left.

The node servers measure the round trips themselves. The kernels that these tests run on may have no ``netem``, so the
servers answer each other's pings late: what is placed is real, the distance is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.cluster.sites import Site
from tests.cluster.support import EXECUTOR_MB, until
from tests.execute import contract

from rheostat import attachment as assembly
from rheostat.config.loading import load_settings
from rheostat.decide.placement import nd_max, place
from rheostat.execute.workers import WorkersActuator
from rheostat.host.spark_daemons import free_ports
from rheostat.lab.lab import Lab
from rheostat.loop.clock import SystemClock
from rheostat.model import Nodes, Observation, Outcome, OutcomeStatus, Placement
from rheostat.observe.cpu import CpuMeter
from rheostat.observe.driver import DriverSource
from rheostat.observe.nodes import SourceWithNodes

pytestmark = pytest.mark.cluster

NAMES = ("core", "near", "far")
DELAYS = {"core": (), "near": ("core=20",), "far": ("core=250", "near=250")}
"""Round trips of 20 ms between core and near, 250 ms between far and the others."""


class Plant:
    """A session on a master without Workers of its own, three nodes with room for one Worker each, and what acts."""

    def __init__(self, lab: Lab, folder: Path, spark: SparkSession) -> None:
        self.lab, self.spark = lab, spark
        ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
        self.urls = {name: f"http://127.0.{number}.1:{ports[name]}" for number, name in enumerate(NAMES, 1)}
        self.sites = {name: self._site(name, folder) for name in NAMES}
        nodes = [f"{name}={url}" for name, url in self.urls.items()]
        workers = {"nodes": nodes, "backup": 1, "every_s": 1.0, "round_trips_ms": "measured"}
        given = {"objective": "lag < 30s", "executors": [1, 3], "actuator": "workers", "workers": workers}
        settings = load_settings(given)
        clock = SystemClock()
        watch = assembly._nodes_watch(settings, clock)
        assert watch is not None
        actuator = assembly._build_actuator(spark, settings, clock, watch, lambda: False)
        assert isinstance(actuator, WorkersActuator)
        self.both = actuator
        self.source = SourceWithNodes(DriverSource(spark, requested=lambda: actuator.requested), watch, CpuMeter(None))
        self.outcomes: list[Outcome] = []
        self.decisions = 0
        self.seen = Observation(0.0)

    def _site(self, name: str, folder: Path) -> Site:
        host, _, port = self.urls[name].rpartition("//")[2].partition(":")
        options = ["--name", name, "--host", host, "--port", port, "--address", host, "--ping-every", "0.5"]
        options += ["--peer", ",".join(f"{peer}={url}" for peer, url in self.urls.items())]
        options += [part for delay in DELAYS[name] for part in ("--delay", delay)]
        return Site(self.lab, folder / name, 1, options)

    def look(self) -> None:
        """One cycle, without a plan."""
        self.lab.check()
        self.seen = self.source.observe(time.time())
        if (outcome := self.both.poll(time.time())) is not None:
            self.outcomes.append(outcome)

    def until(self, holds: Callable[[Nodes], object], what: str) -> None:
        """Look until it holds."""

        def looked() -> object:
            self.look()
            return self.seen.nodes is not None and holds(self.seen.nodes)

        until(looked, f"{what}: {self.seen.nodes}, {self.seen.gaps}")

    def until_standby(self, *names: str) -> None:
        """Until idle Workers, all of them registered, are on these nodes only."""

        def idle() -> list[str]:
            told = {name: site.tell() for name, site in self.sites.items() if site.node.part.alive()}
            assert all(site.records() is not None for site in self.sites.values())
            if any(one["doing"] for one in told.values()):
                return ["something goes on"]
            return [name for name, one in told.items() for _ in range(one["idle"] or 0)]

        self.until(lambda _: idle() == list(names), f"standby on {names}")

    def change(self, target: int, placement: Placement | None = None) -> Outcome:
        """To so many executors, on the nodes that the plan names unless others are given."""
        nodes = self.seen.nodes
        assert nodes is not None
        placement = placement or place(nodes, nodes.in_use, target)[0]
        self.decisions += 1
        made = contract.decide(target, time.time(), self.decisions, len(nodes.in_use), placement)
        self.both.apply(made)
        self.until(lambda _: self.decisions in {each.decision_id for each in self.outcomes}, f"an outcome: {placement}")
        return self.outcomes[-1]

    def until_used(self, *names: str) -> None:
        """Until the driver and the nodes say that executors are on these nodes, one entry each, sorted."""
        self.until(lambda nodes: nodes.in_use == names, f"executors on {names}")

    def distance_ms(self) -> float:
        """The greatest round trip between nodes in use, when last seen."""
        assert self.seen.nodes is not None
        found = nd_max(self.seen.nodes.in_use, self.seen.nodes)
        assert found is not None
        return found

    def end(self) -> None:
        """In order; no process of a Worker that was ever seen is left."""
        self.both.close()
        self.source.close()
        self.spark.stop()
        for site in self.sites.values():
            if site.node.part.alive():
                site.end()
            assert site.left() == []


@pytest.fixture(scope="module")
def plant(field: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plant]:
    folder = tmp_path_factory.mktemp("nodes")
    with pytest.MonkeyPatch.context() as here:
        for name, value in field.cluster.driver_environment().items():
            here.setenv(name, value)
        builder = SparkSession.builder.appName("test-placement")
        for key, value in field.cluster.driver_conf(executor_memory_mb=EXECUTOR_MB).items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        stream = spark.readStream.format("rate").option("rowsPerSecond", 20).load().writeStream.format("noop")
        stream = stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(processingTime="1 second")
        made = Plant(field, folder, spark)
        made.both._live.ensure(1)
        query = stream.start()
        try:
            yield made
        finally:
            query.stop()
            made.end()


class TestNearFirst:
    """From one executor to three and back, while a query runs."""

    def test_the_round_trips_are_measured(self, plant: Plant) -> None:
        """From both ends: a server delays its answers, so the way is only as long as it is from the other one."""
        least = {("core", "near"): 20.0, ("core", "far"): 250.0, ("far", "near"): 250.0}

        def measured(nodes: Nodes) -> bool:
            trips = {(trip.a, trip.b): trip.ms for trip in nodes.round_trips}
            return trips.keys() == least.keys() and all(trips[pair] >= ms for pair, ms in least.items())

        plant.until(measured, f"round trips of at least {least}")
        assert plant.sites["far"].tell()["delays_ms"] == {"core": 250.0, "near": 250.0}

    def test_the_first_executor_comes_on_the_first_node_and_the_standby_on_the_nearest(self, plant: Plant) -> None:
        plant.until(lambda nodes: nodes.in_use == ("core",), "an executor on core")

        plant.until_standby("near")

    def test_a_placement_is_obeyed_against_the_standby(self, plant: Plant) -> None:
        outcome = plant.change(2, Placement(("core", "far"), add=("far",)))

        assert outcome.status is OutcomeStatus.APPLIED, outcome
        assert "1 idle Worker on other nodes removed first" in outcome.reason.text
        assert "executors started on far" in outcome.reason.text
        assert "as decided" not in outcome.reason.text
        plant.until_used("core", "far")

    def test_what_is_far_is_given_up_again(self, plant: Plant) -> None:
        outcome = plant.change(1)

        assert outcome.status is OutcomeStatus.APPLIED, outcome
        assert "executors removed from far" in outcome.reason.text
        plant.until_used("core")
        plant.until_standby("near")

    def test_growing_takes_the_near_node_first(self, plant: Plant) -> None:
        outcome = plant.change(2)

        assert outcome.status is OutcomeStatus.APPLIED, outcome
        assert "executors started on near" in outcome.reason.text
        plant.until_used("core", "near")
        assert plant.distance_ms() < 250.0
        plant.until_standby("far")

    def test_and_then_the_far_one(self, plant: Plant) -> None:
        outcome = plant.change(3)

        assert outcome.status is OutcomeStatus.APPLIED, outcome
        assert "executors started on far" in outcome.reason.text
        plant.until_used("core", "far", "near")

    def test_shrinking_gives_up_the_far_node_first_though_its_server_was_killed(self, plant: Plant) -> None:
        plant.until_standby()
        far = plant.sites["far"]
        far.kill()
        plant.until(lambda _: any(plant.urls["far"] in gap.why for gap in plant.seen.gaps), "the loss to be said")
        plant.until_used("core", "far", "near")

        outcome = plant.change(2)

        assert outcome.status is OutcomeStatus.APPLIED, outcome
        assert "executors removed from far" in outcome.reason.text
        plant.until_used("core", "near")
        assert plant.seen.nodes is not None
        assert [node.name for node in plant.seen.nodes.nodes] == ["core", "near"]

    def test_then_the_near_one_goes(self, plant: Plant) -> None:
        outcome = plant.change(1)

        assert "executors removed from near" in outcome.reason.text
        plant.until_used("core")

    def test_the_killed_server_comes_back_and_no_worker_is_forgotten(self, plant: Plant) -> None:
        far = plant.sites["far"]
        assert [record.process.running() for record in far.records() if record.process] == [True]

        far.start()

        plant.until(lambda nodes: len(nodes.nodes) == 3, "the node to be back")
        plant.until_standby("near")
        assert far.left() == []
