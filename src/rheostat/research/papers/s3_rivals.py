"""Rivals of S3's controller, on the same readings: plain random shedding, and the fair shares of THEMIS.

Both know neither priorities nor promises, and move nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rheostat.config.shedding import SheddingGraph
from rheostat.decide.qod import QodPlan, Readings, available_cores
from rheostat.decide.qod_model import Place, edge_shares

_Loads = Mapping[str, Mapping[str, float]]
"""For each machine, the cores that each application needs there to work on every record."""


def shed_at_random(graphs: Mapping[str, SheddingGraph]) -> Callable[[Readings], QodPlan]:
    """Each machine lets every application have the same share of what it needs; the least of its shares counts."""

    def decide(readings: Readings) -> QodPlan:
        loads, available = _full_loads(readings), available_cores(readings)
        shares = {node: min(1.0, available[node] / sum(apps.values())) for node, apps in loads.items()}
        return _plan(graphs, {app: min(shares[node] for node in loads if app in loads[node]) for app in graphs})

    return decide


def balance_sic(graphs: Mapping[str, SheddingGraph]) -> Callable[[Readings], QodPlan]:
    """The source information content of all queries is raised together, as far as machines allow [THEMIS, BALANCE-SIC].

    A query's content is the share of its records that are in its result: here its accuracy. What is left on other
    machines goes to those that can still gain.
    """

    def decide(readings: Readings) -> QodPlan:
        loads, left = _full_loads(readings), available_cores(readings)
        level, growing, accuracy = 0.0, set(graphs), dict.fromkeys(graphs, 1.0)
        while growing and level < 1.0:
            demand = {node: sum(need for app, need in apps.items() if app in growing) for node, apps in loads.items()}
            step = min([1.0 - level, *(left[node] / need for node, need in demand.items() if need)])
            level += step
            left = {node: cores - step * demand.get(node, 0.0) for node, cores in left.items()}
            full = {app for node, apps in loads.items() if left[node] <= 1e-9 for app in apps} & growing
            accuracy |= dict.fromkeys(full, level)
            growing -= full
        return _plan(graphs, accuracy)

    return decide


def _full_loads(readings: Readings) -> _Loads:
    """From what each application uses now, and the share of its offered records that it takes in."""
    taken, offered = dict[str, float](), dict[str, float]()
    for app, edge in readings.backlogs:
        offered[app] = offered.get(app, 0.0) + readings.out_rates[app, edge]
    entered = {(app, edge.end) for app, edge in readings.backlogs}
    for instance in readings.instances:
        if tuple(instance.task) in entered:
            taken[instance.task.app] = taken.get(instance.task.app, 0.0) + instance.in_rate
    loads: dict[str, dict[str, float]] = {}
    for instance in readings.instances:
        app = instance.task.app
        share = min(1.0, taken[app] / offered[app]) if offered.get(app) else 1.0
        on_node = loads.setdefault(instance.node, {})
        on_node[app] = on_node.get(app, 0.0) + (instance.cpu / share if share else 1.0)
    return loads


def _plan(graphs: Mapping[str, SheddingGraph], accuracy: Mapping[str, float]) -> QodPlan:
    desired = {Place(app, sink): accuracy[app] for app, graph in graphs.items() for sink in graph.sinks}
    keep = {app: edge_shares(graph, dict.fromkeys(graph.sinks, accuracy[app])) for app, graph in graphs.items()}
    return QodPlan(desired, keep)


def jain_index(values: Iterable[float]) -> float:
    """Jain's index of fairness: 1 if all are equal, 1 ÷ n if one has all.

    >>> jain_index([0.5, 0.5]), jain_index([1.0, 0.0])
    (1.0, 0.5)
    """
    given = list(values)
    squares = sum(each * each for each in given)
    return sum(given) ** 2 / (len(given) * squares) if squares else 1.0
