"""A live run of the taxi pipeline on several nodes, under two days of trips in some minutes (S2, section V)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rheostat.calibrate.measured import RealBatch, RealRun, run_of
from rheostat.config.models import pairs_of
from rheostat.decide.placement import nd_max
from rheostat.demo.run import DemoPlan, DemoRun
from rheostat.journal.records import DecisionRecord
from rheostat.judge.scoring import Points
from rheostat.load.curves import Pieces, RateCurve, staircase
from rheostat.load.payload import RecordMaker
from rheostat.load.trips import DAYS_S, Arrivals, TripLoad, TripPayloads, TripPlan, synthetic_trips
from rheostat.model import Nodes
from rheostat.pipelines.running import TaxiSettings
from rheostat.policies.trend import Point, line
from rheostat.report.score import RunFacts, samples_of, score
from rheostat.research.papers.live import Open, records_result, run_all
from rheostat.research.papers.results import Part, Result
from rheostat.research.papers.s2 import (
    ALGORITHMS,
    DOCUMENT,
    GESSCALE,
    Drawn,
    Measures,
    NodesExperiment,
    Table,
    measures,
)
from rheostat.sim.history import Steps, demand_steps, integral

if TYPE_CHECKING:
    from rheostat.demo.run import NodeServers
    from rheostat.lab.lab import Lab
    from rheostat.pipelines.sink import RecordTotals


NODES = ("core", "near", "far")

ROUND_TRIPS_MS: Mapping[str, Mapping[str, float]] = {"core": {"near": 20.0, "far": 250.0}, "near": {"far": 250.0}}
"""Of each pair."""

CAP = 400
"""Records in a batch at the most."""

_BIN_S = 10.0


def levels(curve: RateCurve) -> Pieces:
    """A load in levels of ten seconds, as the autoscaler averages it: trips come one by one."""
    edges = [_BIN_S * k for k in range(int(curve.duration // _BIN_S) + 1)]
    edges += [curve.duration] if edges[-1] < curve.duration else []
    sums = [0.0, *(curve.cumulative(edge) for edge in edges[1:])]
    spans = zip(pairwise(edges), pairwise(sums), strict=True)
    return staircase([(end - begin, (after - before) / (end - begin)) for (begin, end), (before, after) in spans])


class _Played:
    """The records of trips, due as they are; the rate is that of the ten seconds: its integral agrees at their end."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals, self._levels = arrivals, levels(arrivals)
        self.duration = arrivals.duration

    def rate(self, t: float) -> float:
        return self._levels.rate(t)

    def cumulative(self, t: float) -> float:
        return self._arrivals.cumulative(t)

    def pieces(self) -> Pieces:
        return self._levels


@dataclass(frozen=True, slots=True, kw_only=True)
class TripsPlan(DemoPlan):
    """The demo's broker and driver, with the taxi pipeline on nodes of one executor each.

    Attributes:
        mean_rate: records/s over the two days.
        days_s: seconds in which the two days are played.
        copies: records of each trip.
        nodes: their names.
        round_trips_ms: between them, of each pair; simulated.
        measured: whether the autoscaler is told them, or is to measure them.
        lookup_ms: wait of each record. 18: a slot carries some 55 records/s, as a replica of S2 did.
    """

    program: ClassVar[str] = "taxi_attractions"

    mean_rate: float
    days_s: float
    copies: int = 3
    nodes: tuple[str, ...] = NODES
    round_trips_ms: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: ROUND_TRIPS_MS)
    measured: bool = True
    executors: tuple[int, int] = (1, len(NODES))
    lookup_ms: float = 18.0
    cap: int = CAP
    partitions: int = 6
    base_rate: float = 10.0
    begin_s: float = 45.0

    @property
    def seconds(self) -> float:
        """Length of the load."""
        return self.days_s

    def curve(self) -> RateCurve:
        """The load: when the records of the trips are due."""
        return _Played(self._trips().arrivals)

    def phase(self, second: float | None) -> str:
        """Name of the phase at a second of the load; None: before it."""
        if second is None:
            return "warm-up"
        return ("day 1" if second < self.days_s / 2 else "day 2") if second < self.days_s else "drain"

    def payloads(self) -> RecordMaker:
        """The trips, with those of the warm-up before them: after the last trip the first ones come again."""
        return TripPayloads(_endless(self._trips().bodies), self.copies)

    def ground(self, lab: Lab, folder: Path) -> NodeServers:
        """The node servers."""
        from rheostat.demo.run import NodeServers

        return NodeServers(lab, folder / "nodes", self.nodes, self.round_trips_ms, measured=self.measured)

    def pipeline(self, folder: Path, bootstrap: str | None, topic: str | None) -> TaxiSettings:
        """The pipeline's settings; for Kafka with a broker, else upon the log in ``folder``."""
        return TaxiSettings(**self.common(folder, bootstrap, topic))

    def counted(self, out: Path) -> RecordTotals:
        """What got through the sink, record by record.

        Raises:
            InputError: there is no such folder.
        """
        from rheostat.pipelines.sink import verify_records

        return verify_records(out)

    def _trips(self) -> TripLoad:
        speed = DAYS_S / self.days_s
        return synthetic_trips(
            TripPlan(self.mean_rate / speed / self.copies, self.days_s, speed, self.copies, self.seed)
        )


def _endless(bodies: Callable[[], Iterator[str]]) -> Iterator[str]:
    while True:
        yield from bodies()


# Table III of S2, shortened, on a real local Kafka and a real local Spark cluster.


RIVAL = "THR-NLUnaware"
_NAMES = (GESSCALE, RIVAL)
_DAYS_S, _MEAN_RATE = 600.0, 55.0
_ALIKE = 1.1
_APART = pairs_of(ROUND_TRIPS_MS)
_NEAR, _FAR = NODES[1:]


def plans(seed: int) -> dict[str, DemoPlan]:
    """The runs, by the names of the document; both get the same trips."""
    common: dict[str, Any] = {"mean_rate": _MEAN_RATE, "days_s": _DAYS_S, "seed": seed}
    return {name: TripsPlan(policy=ALGORITHMS[name].policy, **common) for name in _NAMES}


def experiment(seed: int, folder: Path, show: Open) -> NodesExperiment:
    """Run both, about twenty-five minutes.

    Args:
        seed: of the trips.
        folder: gets a folder for each run, with its journal.
        show: makes the live table of a run.

    Raises:
        PartFailedError: a part of a run died; with its name and the end of its log.
        RheostatError: records could not be delivered, or a step took too long.
    """
    done = run_all(plans(seed), folder, show)
    runs = {name: nodes_run(run, str(folder / name)) for name, run in done.items()}
    scores = {name: run.score for name, run in done.items()}
    return judged(runs, scores, seed)


def judged(runs: Mapping[str, NodesRun], scores: Mapping[str, Mapping[str, Any]], seed: int) -> NodesExperiment:
    """What finished runs say.

    Args:
        runs: by the names of the document.
        scores: of the same, in the shape of ``rheostat.score/1``.
        seed: of their trips.
    """
    plan, found = next(iter(plans(seed).values())), carried(list(runs.values()))
    load = levels(plan.curve())
    demand = None if found is None else demanded(load, found, plan.executors, plan.cap)
    table = None if demand is None else {name: measured(run, demand) for name, run in runs.items()}
    said = results(runs, table, scores, found)
    title = "Table III, shortened, on a real cluster of three nodes"
    tables = [] if table is None else [Table(title, {name: {seed: each} for name, each in table.items()})]
    steps: Steps = demand if demand is not None else []
    plots = {name: drawn(run, load, steps) for name, run in runs.items()}
    return NodesExperiment("s2", [Part(title, said)], (seed,), tables, plots)


def results(
    runs: Mapping[str, NodesRun],
    table: Mapping[str, Measures] | None,
    scores: Mapping[str, Mapping[str, Any]],
    found: Carried | None,
) -> list[Result]:
    """The statements.

    Args:
        runs: by the names of the document.
        table: their metrics; None: it is not known what executors carry.
        scores: of the same, in the shape of ``rheostat.score/1``.
        found: what executors carry; None: not known.
    """
    return [
        _chosen(runs, "near first", "takes the nearest free node", come=True),
        _chosen(runs, "far goes first", "gives up the farthest node in use", come=False),
        _obeyed(runs),
        _distance(runs),
        *([] if table is None else _metrics(table)),
        _carried(runs, found),
        _objective(runs),
        records_result(scores),
    ]


# -------------------------------------------------------------------------------------------------------- nodes


def _chosen(runs: Mapping[str, NodesRun], word: str, does: str, *, come: bool) -> Result:
    seen = {name: chosen(run.moves, NODES, _APART, come=come) for name, run in runs.items()}
    told = ", ".join(f"{name} {sum(each)} of {len(each)}" for name, each in seen.items())
    holds = bool(seen[GESSCALE]) and all(seen[GESSCALE])
    why = "choices that make a difference to the greatest round trip in use; the other algorithm takes any node"
    return Result(f"{word}, live", f"Gesscale {does}, each time", told, "each time", holds, why)


def _obeyed(runs: Mapping[str, NodesRun]) -> Result:
    alone = {name: without(run.used, _FAR, _NEAR, run.lasts) for name, run in runs.items()}
    return Result(
        "in use, live",
        "under Gesscale the far node is in use only beside the near one",
        _told(alone, lambda seconds: f"{seconds:.0f} s alone"),
        None,
        alone[GESSCALE] == 0,
        "where Workers and executors really were, as the node servers and the driver tell",
    )


def _distance(runs: Mapping[str, NodesRun]) -> Result:
    far = {name: run.distance_ms for name, run in runs.items()}
    ours, theirs = far[GESSCALE], far[RIVAL]
    return Result(
        "distance, live",
        "the greatest round trip between nodes in use is shorter under Gesscale, on average",
        _told(far, lambda ms: "unknown" if ms is None else f"{ms:.0f} ms"),
        None,
        ours is not None and theirs is not None and ours < theirs,
        "as measured by the node servers; 0 for one executor",
    )


# ------------------------------------------------------------------------------------------------------ metrics

_MEASURES = (
    ("cost", "cost", "less cost, replica-minutes"),
    ("reconfigurations", "reconfigurations", "fewer reconfigurations"),
    ("excess", "excess", "less excess time"),
    ("accuracy_O", "accuracy_o", "less accuracy_O"),
    ("accuracy_U", "accuracy_u", "less accuracy_U"),
)
"""An id, the measure, and its words."""


def _metrics(table: Mapping[str, Measures]) -> list[Result]:
    found = []
    for word, column, words in _MEASURES:
        place = Measures._fields.index(column)
        ours = {name: each[place] for name, each in table.items()}
        document = {name: DOCUMENT[name][place] for name in table}
        holds = ours[GESSCALE] < ours[RIVAL]
        statement = f"Gesscale has {words}"
        said, theirs = _told(ours, _number), _told(document, _number)
        found.append(Result(f"{word}, live", statement, said, theirs, holds, _WHY.get(column, "")))
    return found


_WHY = {
    "cost": "executors registered, until the last record is committed",
    "reconfigurations": "changes of the number asked for; nothing stops for one, as it does in the document",
    "excess": "from the end of the load to the commit of the last record, of the length of the load: one batch or two",
    "accuracy_u": "nothing is short for a stop here, as executors come while the query runs",
}


def _carried(runs: Mapping[str, NodesRun], found: Carried | None) -> Result:
    """The control: on a machine that others use too, one run may have had more of it."""
    each = {name: carried([run]) for name, run in runs.items()}
    twos = [one.rate(2, CAP) for one in each.values() if one is not None]
    why = "unknown: too few batches"
    if found is not None:
        line = f"{found.fixed_s:.2f} s + {1000 * found.slot_s:.1f} ms · records ÷ n"
        why = f"the demand is that of both runs together: batch time = {line}, {found.batches} batches"
    return Result(
        "capacity, live",
        "a control: two executors carry the same in both runs, to a tenth; else the machine was busier in one of them",
        _told(each, lambda one: "unknown" if one is None else f"{_rates(one)} records/s of 1, 2, 3"),
        None,
        len(twos) == len(runs) and max(twos) <= _ALIKE * min(twos),
        why,
    )


def _rates(found: Carried) -> str:
    return ", ".join(f"{found.rate(n, CAP):.0f}" for n in range(1, len(NODES) + 1))


def _objective(runs: Mapping[str, NodesRun]) -> Result:
    over = {name: run.lag.over for name, run in runs.items()}
    ours, theirs = over[GESSCALE], over[RIVAL]
    return Result(
        "objective, live",
        "Gesscale is over the objective no longer",
        _told({name: run.lag for name, run in runs.items()}, lambda lag: f"{_share(lag.over)} (p95 {_s(lag.p95_s)})"),
        None,
        ours is not None and theirs is not None and ours <= theirs,
        "share of the load's time; the document has no objective",
    )


def _told(values: Mapping[str, Any], word: Callable[[Any], str]) -> str:
    return ", ".join(f"{name} {word(value)}" for name, value in values.items())


def _number(value: float) -> str:
    return f"{value:.4g}"


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1%}"


def _s(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f} s"


# What a live run of S2's experiment shows, read from its journal. Times are seconds of the load.


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
