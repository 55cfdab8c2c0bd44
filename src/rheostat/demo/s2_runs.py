"""What a live run of S2's experiment shows, read from its journal. Times are seconds of the load."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import NamedTuple

from rheostat.analyze.regression import Point, line
from rheostat.demo.run import DemoRun
from rheostat.journal import DecisionRecord
from rheostat.judge.experiments.s2_runs import Drawn, Measures, measures
from rheostat.judge.measured import RealBatch, RealRun, run_of
from rheostat.judge.tracks import Points
from rheostat.load.curves import Pieces
from rheostat.model import Nodes
from rheostat.plan.placement import nd_max
from rheostat.report.score import RunFacts, samples_of, score
from rheostat.sim.elasticity import Steps, demand_steps, integral

__all__ = [
    "Apart",
    "Carried",
    "Lag",
    "Moved",
    "NodesRun",
    "carried",
    "chosen",
    "demanded",
    "drawn",
    "measured",
    "nodes_run",
    "without",
]

_FEWEST = 10

Apart = Mapping[tuple[str, str], float]
"""(a, b) with a < b → round trip, ms."""


class Moved(NamedTuple):
    """A change: the node of each executor before it, the nodes of those that came and of those that went, in order."""

    before: tuple[str, ...]
    add: tuple[str, ...]
    leave: tuple[str, ...]


class Lag(NamedTuple):
    """Of the oldest record that is not committed, while the load lasts; None: unknown."""

    over: float | None
    p95_s: float | None
    max_s: float | None


class Carried(NamedTuple):
    """What executors carry, from the batches of the runs: ``batch time = fixed_s + slot_s · records ÷ n``.

    Attributes:
        fixed_s: of each batch.
        slot_s: of a slot, for each record.
        batches: so many were looked at.
    """

    fixed_s: float
    slot_s: float
    batches: int

    def rate(self, executors: int, cap: int) -> float:
        """Records/s in batches of the cap, back to back; 0 of none."""
        return cap / (self.fixed_s + self.slot_s * cap / executors) if executors else 0.0


@dataclass(frozen=True)
class NodesRun:
    """A run.

    Attributes:
        supply: executors registered.
        asked: executors asked for.
        used: the nodes in use.
        distance_ms: mean over the load of the greatest round trip between two of them; None: never known.
        moves: every change with a placement, those before the load too.
        batches: those that ended, with records.
        ended: when the last record was committed.
        lasts: length of the load.
    """

    supply: Steps
    asked: Steps
    used: Sequence[tuple[float, tuple[str, ...]]]
    distance_ms: float | None
    moves: Sequence[Moved]
    batches: Sequence[RealBatch]
    ended: float
    lasts: float
    lag: Lag


def nodes_run(run: DemoRun, name: str) -> NodesRun:
    """Read a run.

    Raises:
        InputError: its journal does not tell of a running query.
    """
    began, lasts = run.load.go_at or run.load.began_at, run.plan.seconds
    real = run_of(name, run.records)
    cycles = [each for each in run.records if isinstance(each, DecisionRecord)]
    batches = [_shifted(each, began) for each in real.batches]
    return NodesRun(
        supply=[(look.at - began, float(look.registered)) for look in real.looks if look.registered is not None],
        asked=_asked(real, began),
        used=[(at - began, nodes.in_use) for at, nodes in _nodes(cycles)],
        distance_ms=_distance_ms([(at - began, nodes) for at, nodes in _nodes(cycles)], lasts),
        moves=list(_moves(cycles)),
        batches=batches,
        ended=max(lasts, batches[-1].end),
        lasts=lasts,
        lag=_lag(run, began),
    )


# -------------------------------------------------------------------------------------------------- placements


def chosen(moves: Sequence[Moved], nodes: Collection[str], apart: Apart, *, come: bool) -> list[bool]:
    """Of each node that came (or went), in order: was it the right one? Only where it made a difference.

    Right is the one after which the greatest round trip between nodes in use is the least. Nodes whose round trips are
    not known do not count.

    Args:
        moves: what was done; one executor a node.
        nodes: all of them.
        apart: their round trips.
        come: whether of those that came.

    >>> apart = {("core", "near"): 20.0, ("core", "far"): 250.0, ("far", "near"): 250.0}
    >>> grown = Moved(("core",), ("near", "far"), ())
    >>> chosen([grown], ("core", "near", "far"), apart, come=True)
    [True]
    """
    found = []
    for move in moves:
        there = set(move.before) & set(nodes)
        for name in move.add if come else move.leave:
            able = set(nodes) - there if come else there
            after = {each: _widest(there ^ {each}, apart) for each in able}
            if len(set(after.values())) > 1:
                found.append(after.get(name) == min(after.values()))
            there = there | {name} if come else there - {name}
    return found


def _widest(names: Collection[str], apart: Apart) -> float:
    return max((apart[pair] for pair in combinations(sorted(names), 2)), default=0.0)


def without(used: Sequence[tuple[float, tuple[str, ...]]], far: str, near: str, lasts: float) -> float:
    """Seconds of the load in which one node was in use and the other was not."""
    return integral([(at, float(far in names and near not in names)) for at, names in used], 0.0, lasts)


def _moves(cycles: Sequence[DecisionRecord]) -> Iterator[Moved]:
    for each in cycles:
        placed, seen = each.decision.placement, each.observation
        if each.decision.acts and placed is not None and seen is not None and seen.nodes is not None:
            yield Moved(seen.nodes.in_use, placed.add, placed.leave)


def _nodes(cycles: Sequence[DecisionRecord]) -> list[tuple[float, Nodes]]:
    seen = [(each.at, each.observation.nodes) for each in cycles if each.observation is not None]
    return [(at, nodes) for at, nodes in seen if nodes is not None]


def _distance_ms(seen: Sequence[tuple[float, Nodes]], lasts: float) -> float | None:
    known = [(at, ms) for at, nodes in seen if (ms := nd_max(nodes.in_use, nodes)) is not None]
    return integral(known, 0.0, lasts) / lasts if known else None


# ----------------------------------------------------------------------------------------------------- metrics


def carried(runs: Sequence[NodesRun]) -> Carried | None:
    """The least-squares line through the batches of all runs; None where they do not tell it.

    Batches count that began at a number of executors that was not new, and kept it.
    """
    kept = [each for run in runs for each in run.batches if each.executors and each.age > 0]
    points = [Point(each.records / (each.executors or 1), each.duration_s) for each in kept]
    points.sort()
    if len(points) < _FEWEST:
        return None
    fit = line(points)
    fixed_s, slot_s = fit.at(0.0), fit.at(1.0) - fit.at(0.0)
    return Carried(fixed_s, slot_s, len(points)) if fixed_s > 0 and slot_s > 0 else None


def measured(run: NodesRun, demand: Steps) -> Measures:
    """S2's seven metrics."""
    return measures(run.supply, demand, run.asked, (run.lasts, run.ended))


def demanded(load: Pieces, found: Carried, bounds: tuple[int, int], cap: int) -> list[tuple[float, float]]:
    """d(t): the fewest executors that carry the load."""
    least, most = bounds
    return demand_steps(load, [found.rate(n, cap) for n in range(most + 1)], least, most)


def drawn(run: NodesRun, load: Pieces, demand: Steps) -> Drawn:
    """What is plotted of a run."""
    rates: Points = [(b.end, b.records / (b.end - a.end)) for a, b in pairwise(run.batches) if b.end > a.end]
    supply = [(at, number) for at, number in run.supply if at >= 0]
    return Drawn(list(load.points), rates, supply, list(demand))


def _asked(real: RealRun, began: float) -> list[tuple[float, float]]:
    steps = [(each.at - began, float(each.target)) for each in real.actions if each.target is not None]
    first = next((each.current for each in real.actions if each.current is not None), None)
    return [(real.began - began, float(first if first is not None else 0)), *steps]


def _shifted(batch: RealBatch, began: float) -> RealBatch:
    return replace(batch, start=batch.start - began, end=batch.end - began)


def _lag(run: DemoRun, began: float) -> Lag:
    facts = RunFacts(run.score["version"], "spark", run.plan.policy, run.plan.objective_s)
    found = score(facts, samples_of(run.records), window=(began, began + run.plan.seconds))
    return Lag(found["violation_share"], found["lag_p95_s"], found["lag_max_s"])
