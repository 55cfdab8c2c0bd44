"""``rheostat bench qod``: how long a cycle of the controller of Stream Economics takes [S3, scenario 5]."""

from __future__ import annotations

import os
import random
import time

from rheostat.config.shedding import Edge, SheddingGraph, Sink, declare_shedding
from rheostat.decide.qod import QodController, Readings
from rheostat.decide.qod_model import Instance, NodeLoad, Place
from rheostat.research.bench.harness import Bench, Metric, Watch, ignore_progress, load_note, metric

SIZES = (2_000, 20_000, 100_000)
_CYCLES = {2_000: 50, 20_000: 10, 100_000: 5}
_MOST_MS = {2_000: 5.0, 100_000: 500.0}
_TASKS_OF_APP, _INSTANCES_OF_NODE, _CORES = 4, 16, 4.0
_PERIOD_S = 5.0
_DOCUMENT_MS = 115.0


def run_qod(watch: Watch = ignore_progress) -> Bench:
    """The time of a cycle for growing numbers of tasks, and the share of a core that the controller takes."""
    load, medians, figures = os.getloadavg(), dict[int, float](), list[Metric]()
    for number, tasks in enumerate(SIZES):
        watch(number, len(SIZES), f"{tasks} tasks")
        times_ms = time_cycles(tasks, seed=1)
        figure = metric(f"a cycle over {tasks:,} tasks", times_ms, "ms", target=_MOST_MS.get(tasks))
        figures.append(figure)
        medians[tasks] = figure.value or 0.0
    most, least = max(SIZES), min(SIZES)
    per_task = (medians[most] / most) / (medians[least] / least)
    figures.append(Metric(f"time a task, of {most:,} ÷ of {least:,}", per_task, "", len(SIZES)))
    share = 100 * medians[least] / 1000 / _PERIOD_S
    figures.append(Metric(f"share of a core with {least:,} tasks", share, "%", _CYCLES[least]))
    return Bench("qod", figures, (_note(), load_note(load)))


def time_cycles(tasks: int, seed: int) -> list[float]:
    """How long cycles over so many tasks take, ms."""
    graphs, readings = make_cluster(tasks, seed)
    controller, times_ms = QodController(graphs), list[float]()
    for _ in range(_CYCLES[tasks]):
        began = time.perf_counter()
        controller.run(readings)
        times_ms.append(1000 * (time.perf_counter() - began))
    return times_ms


def make_cluster(tasks: int, seed: int) -> tuple[dict[str, SheddingGraph], Readings]:
    """Applications of four tasks, two of them sinks, spread over nodes, most of which have too little time for all."""
    chance = random.Random(seed)
    apps = tasks // _TASKS_OF_APP
    nodes = [f"node-{number}" for number in range(max(1, tasks // _INSTANCES_OF_NODE))]
    graphs, instances, rates = dict[str, SheddingGraph](), list[Instance](), dict[tuple[str, Edge], float]()
    for number in range(apps):
        app = f"app-{number}"
        graphs[app] = graph = declare_shedding(
            [Sink("alerts", chance.randrange(4), 0.4), Sink("report", chance.randrange(4), 0.1)],
            {"clicks": ["parse"]},
            {"parse": ["count", "alerts"], "count": ["report"]},
        )
        share = chance.uniform(0.3, 1.0)
        for name in (*graph.tasks, *graph.sinks):
            instances.append(Instance(Place(app, name), chance.choice(nodes), 1000 * share, chance.uniform(0.05, 0.3)))
        rates |= {(app, edge): 1000.0 for edge in graph.edges}
    used = dict.fromkeys(nodes, 0.0)
    for instance in instances:
        used[instance.node] += instance.cpu
    loads = [NodeLoad(name, _CORES, min(_CORES, used[name])) for name in nodes]
    return graphs, Readings(loads, instances, rates)


def _note() -> str:
    return (
        f"Applications of {_TASKS_OF_APP} tasks with an instance each, {_INSTANCES_OF_NODE} instances to a node of "
        f"{_CORES:g} cores; four priorities; a cycle every {_PERIOD_S:g} s. The document's cycle over 2,000 tasks took "
        f"less than {_DOCUMENT_MS:g} ms in Java (S3, scenario 5)."
    )
