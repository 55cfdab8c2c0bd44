"""A slow node on a real cluster: the next executor comes to another one, though that is far away, and its own goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.cluster.sites import Site
from tests.cluster.slowed import fed, last, session, settings, slow_down, slowed_by, streaming, working, written
from tests.cluster.support import Journal, changes

from rheostat.attachment import attach
from rheostat.host.spark_daemons import free_ports
from rheostat.lab.lab import Lab
from rheostat.model import Placement, ReasonCode

pytestmark = pytest.mark.cluster

NAMES = ("core", "near", "far")
ROUND_TRIPS = {"core": {"near": 20, "far": 250}, "near": {"far": 250}}
LONG_S = 240.0


@pytest.fixture
def spark(field: Lab) -> Iterator[SparkSession]:
    with session(field, "test-slow-node") as made:
        yield made


@pytest.fixture
def sites(field: Lab, tmp_path: Path) -> Iterator[dict[str, Site]]:
    """Three nodes at addresses of their own: two with room for one executor, and near with room for two."""
    made: dict[str, Site] = {}
    for number, (name, port) in enumerate(zip(NAMES, free_ports(len(NAMES)), strict=True), 1):
        host = f"127.0.{number}.1"
        options = ["--name", name, "--host", host, "--port", str(port), "--address", host]
        made[name] = Site(field, tmp_path / name, 2 if name == "near" else 1, options)
    yield made
    for site in made.values():
        site.end()


@pytest.mark.timeout(600)
def test_a_slow_node_is_left_though_it_is_the_nearest(
    field: Lab, sites: dict[str, Site], spark: SparkSession, tmp_path: Path
) -> None:
    order, out = tmp_path / "slow", tmp_path / "out"
    work = slowed_by(order)

    def write(rows: DataFrame, batch_id: int) -> None:
        done = rows.mapInArrow(work, rows.schema).select("partition", "offset")
        done.write.mode("overwrite").parquet(str(out / str(batch_id)))

    def used() -> tuple[str, ...]:
        nodes = last(journal).nodes
        return () if nodes is None else nodes.in_use

    journal = Journal(tmp_path / "journal")
    nodes = [f"{name}={site.node.address}" for name, site in sites.items()]
    workers = {"nodes": nodes, "backup": 0, "every_s": 1.0, "round_trips_ms": ROUND_TRIPS}
    more = {"actuator": "workers", "workers": workers, "guard": {"replace_slow": True}}
    given = settings((2, 3), tmp_path, policy="static", objective="lag < 60s", **more)
    with fed(tmp_path / "log") as halt, streaming(spark, tmp_path, write), attach(spark, config=given):
        journal.until(
            lambda: used() == ("core", "near") and working(journal), "an executor on core and one on near", LONG_S
        )
        slowed_at = time.time()
        seen = journal.cycles()[-1].observation
        assert seen is not None
        assert seen.cluster is not None
        [name] = [each.executor_id for each in seen.cluster.executors if each.node == "near"]
        slow_down(field, order, name)
        journal.until(lambda: used() == ("core", "far") and journal.answered(), "one on far, and none on near", LONG_S)
        journal.until(lambda: not sites["near"].tell()["workers"], "the Worker on near to go last", LONG_S)
        assert last(journal).slow_nodes == ("near",)
        sent = halt()
        journal.until(lambda: len(written(out)) >= sent, "every record to be written", LONG_S)

    come, *go = changes(journal.decisions(slowed_at))
    assert (come.reason.code, come.placement) == (
        ReasonCode.SLOW_EXECUTOR,
        Placement(("core", "far", "near"), ("far",), (), ("near",)),
    )
    assert {(each.first, each.placement) for each in go} == {
        ((name,), Placement(("core", "far"), (), ("near",), ("near",)))
    }
    counts = [each.assessment.executors for each in journal.cycles(slowed_at) if each.assessment is not None]
    assert min(count for count in counts if count is not None) == 2
    words = [each.reason.text for each in journal.outcomes(slowed_at)]
    assert "executors started on far" in words[0]
    assert "executors removed from near" in words[-1]
