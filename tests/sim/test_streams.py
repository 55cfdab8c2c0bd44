"""Record-at-a-time applications on shared machines: nothing is lost, cores are shared, full tasks stop those before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rheostat.config.shedding import Edge, Sink, declare_shedding
from rheostat.decide.qod_model import Place
from rheostat.load.curves import constant
from rheostat.sim.streams import StreamApp, StreamCluster

GRAPH = declare_shedding([Sink("q"), Sink("r")], {"s": ["t"]}, {"t": ["q", "r"]})
TOPIC, TO_Q = ("app", Edge("s", "t")), ("app", Edge("t", "q"))


def app_of(rate: float, *, cost_s: Mapping[str, float] | None = None, **more: Any) -> StreamApp:
    return StreamApp(
        graph=GRAPH,
        cost_s=cost_s or {"t": 0.001, "q": 0.002, "r": 0.001},
        nodes={"t": ["a"], "q": ["a", "a"], "r": ["a"]},
        rates={"s": constant(rate, 1000.0)},
        **more,
    )


def cluster_of(rate: float, **more: Any) -> StreamCluster:
    return StreamCluster({"a": 1.0, "b": 1.0}, {"app": app_of(rate, **more)})


def unaccounted(cluster: StreamCluster) -> float:
    """Records that were kept by edges, and neither were worked on nor wait."""
    kept = sum(flow.kept for flow in cluster.flows.values())
    return kept - sum(done + cluster.waiting(task) for task, done in cluster.done.items())


def test_what_the_cores_carry_is_worked_on_at_once():
    cluster = cluster_of(200.0)
    cluster.advance(60.0)
    readings = cluster.read()
    assert readings.backlogs[TOPIC] < 1.0
    assert readings.nodes[0].cpu == pytest.approx(0.8, abs=0.02)  # 200/s × 4 ms
    assert readings.out_rates[TOPIC] == pytest.approx(200.0)


def test_beyond_it_records_wait_in_the_topic():
    cluster = cluster_of(400.0)
    cluster.advance(60.0)
    assert cluster.read().backlogs[TOPIC] == pytest.approx(150.0 * 60, rel=0.05)  # a core carries 250/s
    assert cluster.arrived(TOPIC) == pytest.approx(400.0 * 60)


def test_a_record_is_dropped_or_worked_on_or_waits():
    cluster = cluster_of(400.0)
    cluster.order({"app": {"s>t": 500_000, "t>q": 250_000}})
    cluster.advance(30.0)
    cluster.move(Place("app", "q"), "a", "b")
    cluster.advance(60.0)
    assert unaccounted(cluster) == pytest.approx(0.0, abs=1e-6)
    topic, to_q = cluster.flows[TOPIC], cluster.flows[TO_Q]
    assert topic.kept == pytest.approx(topic.offered / 2)
    assert to_q.kept == pytest.approx(to_q.offered / 4)
    assert topic.offered + sum(cluster.lags[TOPIC]) == pytest.approx(cluster.arrived(TOPIC))


def test_a_slow_sink_stops_the_task_before_it_and_with_it_the_other_sink():
    cluster = cluster_of(200.0, cost_s={"t": 0.001, "q": 0.05, "r": 0.001})  # both q, on what is left of a: 20/s
    cluster.advance(60.0)
    cluster.read()
    cluster.advance(90.0)
    rates = cluster.read().out_rates
    assert rates[TO_Q] < 30.0
    assert rates["app", Edge("t", "r")] == pytest.approx(rates[TO_Q])


def test_an_instance_that_moves_takes_no_records_until_it_has_started_and_is_cold_after_that():
    cluster = cluster_of(100.0)
    cluster.advance(10.0)
    assert cluster.move(Place("app", "r"), "a", "b")
    assert not cluster.move(Place("app", "r"), "a", "b")  # it is there no longer
    cluster.read()
    cluster.advance(14.0)
    (moved,) = (each for each in cluster.read().instances if each.task.name == "r")
    assert (moved.node, moved.in_rate) == ("b", 0.0)
    cluster.advance(25.0)
    cluster.read()
    cluster.advance(30.0)
    (cold,) = (each for each in cluster.read().instances if each.task.name == "r")
    cluster.advance(60.0)
    cluster.read()
    cluster.advance(70.0)
    (warm,) = (each for each in cluster.read().instances if each.task.name == "r")
    assert warm.in_rate == pytest.approx(100.0, rel=0.02)
    assert cold.cpu / cold.in_rate == pytest.approx(2 * warm.cpu / warm.in_rate, rel=0.05)


def test_other_processes_take_cores():
    cluster = StreamCluster({"a": 1.0}, {"app": app_of(400.0)}, others={"a": lambda _: 0.5})
    cluster.advance(30.0)
    (node,) = cluster.read().nodes
    assert node.cpu == pytest.approx(1.0, abs=0.02)
    assert sum(each for task, each in cluster.done.items() if task.name == "r") == pytest.approx(125.0 * 30, rel=0.1)


def test_an_application_runs_when_it_is_to():
    cluster = cluster_of(100.0, begin_s=10.0, end_s=20.0)
    cluster.advance(9.0)
    assert not cluster.read().instances
    cluster.advance(40.0)
    assert cluster.arrived(TOPIC) == pytest.approx(1000.0)
    assert not cluster.read().instances
