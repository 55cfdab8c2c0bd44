"""Experiments of S1 and S2, shortened, on a real local Kafka and a real local Spark cluster.

S1 (5.2 and 5.3): two bells of load, one after the other. Under the first the policy explores, under the second it is in
control; ``reactive`` gets the same load, and both are compared under the second bell. A sample is taken each two
seconds instead of each 15, the bells last six minutes instead of five hours, and the guards are those of profile
``demo``.

S2 (section V): the taxi pipeline on three nodes of one executor each, under two days of trips in ten minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rheostat.calibrate.measured import RealBatch, run_of
from rheostat.config.models import pairs_of
from rheostat.decide.placement import nd_max
from rheostat.demo.run import DemoPlan, DemoRun, LiveTable, run_demo
from rheostat.journal.records import DecisionRecord
from rheostat.judge.scoring import Points
from rheostat.load.curves import Pieces, RateCurve, staircase
from rheostat.load.payload import RecordMaker
from rheostat.load.trips import DAYS_S, Arrivals, TripLoad, TripPayloads, TripPlan, synthetic_trips
from rheostat.model import ReasonCode
from rheostat.pipelines.running import TaxiSettings
from rheostat.policies.trend import Point, line
from rheostat.report.score import RunFacts, samples_of, score
from rheostat.research.papers import s1
from rheostat.research.papers.results import Experiment, Result
from rheostat.research.papers.s1 import Trial, cycles_of
from rheostat.research.papers.s2 import (
    ALGORITHMS,
    DOCUMENT,
    GESSCALE,
    Measures,
    NodesExperiment,
    PlotData,
    Table,
    measures_of,
    part_of,
)
from rheostat.sim.history import Steps, demand_steps, integral
from rheostat.text import several

if TYPE_CHECKING:
    from rheostat.demo.run import NodeServers
    from rheostat.lab.lab import Lab
    from rheostat.pipelines.sink import RecordTotals

OpenTable = Callable[[DemoPlan, Path], LiveTable]
"""Makes the live table of a run; its folder is given."""


def _run_all(plans: Mapping[str, DemoPlan], folder: Path, open_table: OpenTable) -> dict[str, DemoRun]:
    """Run plans one after the other, each in a folder of its own."""
    runs = {}
    for name, plan in plans.items():
        with open_table(plan, folder / name).open() as table:
            runs[name] = run_demo(plan, folder / name, table.say, table.show)
    return runs


def _records_result(scores: Mapping[str, Mapping[str, Any]]) -> Result:
    """Whether every record was processed exactly once. ``scores``: by run, in the shape of ``rheostat.score/1``."""

    def say(name: str, score: Mapping[str, Any]) -> str:
        came, went = ("unknown" if score[key] is None else f"{score[key]:,}" for key in ("records_in", "records_out"))
        return f"{name} {came} in, {went} out"

    return Result(
        "records, live",
        "no record is lost or doubled by all the changes",
        "; ".join(say(name, score) for name, score in scores.items()),
        None,
        all(one["valid"] and one["records_in"] == one["records_out"] for one in scores.values()),
        "ids and their checksum at the sink against those that the broker acknowledged",
    )


# ----------------------------------------------------------------------------------------------- S1: two bells

_BELL_S, _LOW, _PEAK = 360.0, 50.0, 450.0
_SLA, _INTERVAL_S = 0.10, 15.0
_EXPLORE: Mapping[str, Any] = {"samples_to_shrink": 4, "increase": "one", "decrease": "one"}
_CONTROL: Mapping[str, Any] = {"check_every": 80, "block": 15, "degree": 3, "back_s": 60.0, "horizon_s": 20.0}


def s1_plans(seed: int) -> dict[str, DemoPlan]:
    """The runs by the name of the policy."""
    bell = f"gaussian:{_LOW:g}..{_PEAK:g}@{_BELL_S:g}"
    common: dict[str, Any] = {"shape": f"{bell}+{bell}", "base_rate": _LOW, "peak_rate": _PEAK, "seed": seed}
    return {
        "proactive": DemoPlan(policy="proactive", policy_options={**_EXPLORE, **_CONTROL}, **common),
        "reactive": DemoPlan(policy="reactive", policy_options=_EXPLORE, **common),
    }


def run_s1(seed: int, folder: Path, open_table: OpenTable) -> Experiment:
    """Run both policies, about twenty-five minutes; ``folder`` gets a folder for each run, with its journal.

    Raises:
        PartFailedError: a part of a run died; with its name and the end of its log.
        RheostatError: records could not be delivered, or a step took too long.
    """
    runs = _run_all(s1_plans(seed), folder, open_table)
    trials = {name: _trial(run) for name, run in runs.items()}
    results = s1_results(trials, {name: run.score for name, run in runs.items()})
    return Experiment("s1", [s1.part_of("5.2 and 5.3, shortened, on a real cluster", results, trials, seed)])


def s1_results(trials: Mapping[str, Trial], scores: Mapping[str, Mapping[str, Any]]) -> list[Result]:
    """The statements. Times of the cycles are seconds of the load; ``scores``: in the shape of ``rheostat.score/1``."""
    proactive, reactive = trials["proactive"], _under_second_bell(trials["reactive"])
    begin = next((cycle.at for cycle in proactive.cycles if cycle.code is ReasonCode.FORECAST), float("inf"))
    ups = [cycle for cycle in proactive.cycles if cycle.at < begin and cycle.target > cycle.executors]
    violated = sum(cycle.code is ReasonCode.SLA_VIOLATED for cycle in ups)
    control = _under_second_bell(proactive)
    bad, reactive_bad = control.violations(_SLA), reactive.violations(_SLA)
    means = [trial.executors_per_sample if trial.counted else None for trial in (control, reactive)]
    ours, theirs = means
    return [
        Result(
            "5.2 steps up, live",
            "in exploration each step up follows a violation of the SLA",
            f"{violated} of {len(ups)} steps up at a violation",
            "each of them",
            0 < violated == len(ups),
            "slow records, or a batch or a wait too long for the objective, as on micro-batches",
        ),
        Result(
            "5.2 switch, live",
            "at the end of the load the model is stable and control begins",
            "not at all" if begin == float("inf") else f"after {begin:.0f} s of {_BELL_S:g}",
            "at the end",
            _BELL_S / 2 < begin < 1.5 * _BELL_S,
            f"a bell of {_BELL_S:g} s, the model is checked each {_CONTROL['check_every']} samples",
        ),
        Result(
            "5.3 violations, live",
            "proactive has no more violations than reactive",
            f"proactive {bad}, reactive {several(reactive_bad, 'sample')}",
            "proactive none, reactive some",
            bad <= reactive_bad,
            "under the second bell; samples in a hold do not count",
        ),
        Result(
            "5.3 executors, live",
            "at no more executors a sample",
            " v ".join("unknown" if mean is None else f"{mean:.2f}" for mean in means),
            "1.81 v 1.84",
            ours is not None and theirs is not None and ours <= theirs,
            "means over the counted samples of the second bell",
        ),
        _records_result(scores),
    ]


def _trial(run: DemoRun) -> Trial:
    """The cycles of a run, in seconds of the load."""
    began = run.load.go_at or run.load.began_at
    cycles = [cycle._replace(at=cycle.at - began) for cycle in cycles_of(run.records, _INTERVAL_S)]
    failures = sum(cycle.code is ReasonCode.CYCLE_FAILED for cycle in cycles)
    return Trial(tuple(cycle for cycle in cycles if cycle.at >= 0), None, (), failures)


def _under_second_bell(trial: Trial) -> Trial:
    return replace(trial, cycles=tuple(cycle for cycle in trial.cycles if _BELL_S <= cycle.at <= 2 * _BELL_S))


# --------------------------------------------------------------------------------------- S2: two days on three nodes

NODES = ("core", "near", "far")
_NEAR, _FAR = NODES[1:]

ROUND_TRIPS_MS: Mapping[str, Mapping[str, float]] = {"core": {"near": 20.0, "far": 250.0}, "near": {"far": 250.0}}
"""Of each pair of nodes; simulated."""

_APART = pairs_of(ROUND_TRIPS_MS)

CAP = 400
"""Most records in a batch."""

RIVAL = "THR-NLUnaware"
_DAYS_S, _MEAN_RATE, _BIN_S = 600.0, 55.0, 10.0


def mean_levels(curve: RateCurve) -> Pieces:
    """A load in levels of ten seconds, as the autoscaler averages it: trips arrive one by one."""
    edges = [_BIN_S * k for k in range(int(curve.duration // _BIN_S) + 1)]
    edges += [curve.duration] if edges[-1] < curve.duration else []
    sums = [0.0, *(curve.cumulative(edge) for edge in edges[1:])]
    spans = zip(pairwise(edges), pairwise(sums), strict=True)
    return staircase([(end - begin, (after - before) / (end - begin)) for (begin, end), (before, after) in spans])


class _TripCurve:
    """The records of trips at their times; the rate is the mean of ten seconds, whose integral agrees at their end."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._levels = mean_levels(arrivals)
        self.duration = arrivals.duration
        self.cumulative, self.rate = arrivals.cumulative, self._levels.rate

    def pieces(self) -> Pieces:
        return self._levels


@dataclass(frozen=True, slots=True, kw_only=True)
class TripsPlan(DemoPlan):
    """The demo's broker and driver, with the taxi pipeline on nodes of one executor each.

    ``mean_rate``: records/s over the two days, which are played in ``days_s``. ``copies``: records of each trip.
    ``measured``: whether the autoscaler must measure the simulated round trips; else they are given to it.
    ``lookup_ms``: wait of each record; with 18 a slot carries some 55 records/s, as a replica of S2 did.
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
        return self.days_s

    def curve(self) -> RateCurve:
        return _TripCurve(self._trips().arrivals)

    def phase(self, second: float | None) -> str:
        """Name of the phase at a second of the load; None: before it."""
        if second is None:
            return "warm-up"
        return ("day 1" if second < self.days_s / 2 else "day 2") if second < self.days_s else "drain"

    def payloads(self) -> RecordMaker:
        """The trips, repeated from the first one after the last, as the warm-up needs more than there are."""
        bodies = self._trips().bodies

        def repeat() -> Iterator[str]:
            while True:
                yield from bodies()

        return TripPayloads(repeat(), self.copies)

    def ground(self, lab: Lab, folder: Path) -> NodeServers:
        from rheostat.demo.run import NodeServers

        return NodeServers(lab, folder / "nodes", self.nodes, self.round_trips_ms, measured=self.measured)

    def pipeline(self, folder: Path, bootstrap: str | None, topic: str | None) -> TaxiSettings:
        """The pipeline's settings; for Kafka with a broker, else for the log in ``folder``."""
        return TaxiSettings(**self.common(folder, bootstrap, topic))

    def counted(self, out: Path) -> RecordTotals:
        """Records at the sink. Raises InputError: there is no such folder."""
        from rheostat.pipelines.sink import verify_records

        return verify_records(out)

    def _trips(self) -> TripLoad:
        speed = DAYS_S / self.days_s
        return synthetic_trips(
            TripPlan(self.mean_rate / speed / self.copies, self.days_s, speed, self.copies, self.seed)
        )


def s2_plans(seed: int) -> dict[str, DemoPlan]:
    """The runs, by the names of the document; both get the same trips."""
    common: dict[str, Any] = {"mean_rate": _MEAN_RATE, "days_s": _DAYS_S, "seed": seed}
    return {name: TripsPlan(policy=ALGORITHMS[name].policy, **common) for name in (GESSCALE, RIVAL)}


def run_s2(seed: int, folder: Path, open_table: OpenTable) -> NodesExperiment:
    """Run both algorithms, about twenty-five minutes; see :func:`run_s1`."""
    done = _run_all(s2_plans(seed), folder, open_table)
    runs = {name: nodes_run(run, str(folder / name)) for name, run in done.items()}
    return judge_runs(runs, {name: run.score for name, run in done.items()}, seed)


def judge_runs(runs: Mapping[str, NodesRun], scores: Mapping[str, Mapping[str, Any]], seed: int) -> NodesExperiment:
    """The experiment from finished runs, by the names of the document; ``scores``: as ``rheostat.score/1``."""
    plan = next(iter(s2_plans(seed).values()))
    load, cost = mean_levels(plan.curve()), fit_batch_cost(list(runs.values()))
    demand: Steps = [] if cost is None else demand_of(load, cost, plan.executors, plan.cap)
    measures = None if cost is None else {name: measure_nodes(run, demand) for name, run in runs.items()}
    title = "Table III, shortened, on a real cluster of three nodes"
    table = None if measures is None else Table(title, {name: {seed: each} for name, each in measures.items()})
    plots = {name: nodes_plot(run, load, demand) for name, run in runs.items()}
    results = s2_results(runs, measures, scores, cost)
    return NodesExperiment("s2", [part_of(title, results, table, plots, seed)], (seed,))


# ------------------------------------------------------------------------------------- a run on nodes, from its journal

_FEWEST = 10

RoundTrips = Mapping[tuple[str, str], float]
"""(a, b) with a < b → round trip, ms."""


class Move(NamedTuple):
    """A change: the node of each executor before it, and the nodes of those added and removed, in order."""

    before: tuple[str, ...]
    add: tuple[str, ...]
    leave: tuple[str, ...]


class LoadLag(NamedTuple):
    """Lag of the oldest uncommitted record while the load lasts, and the share of time over the objective."""

    over: float | None
    p95_s: float | None
    max_s: float | None


class BatchCost(NamedTuple):
    """``batch time = fixed_s + slot_s · records ÷ executors``, fitted to ``batches`` batches."""

    fixed_s: float
    slot_s: float
    batches: int

    def rate(self, executors: int, cap: int) -> float:
        """Records/s in batches of the cap, back to back; 0 of no executors."""
        return cap / (self.fixed_s + self.slot_s * cap / executors) if executors else 0.0


@dataclass(frozen=True)
class NodesRun:
    """A run; times are seconds of the load, which lasts ``lasts``.

    Attributes:
        supply, requested: executors registered, and requested.
        used: nodes in use.
        distance_ms: mean over the load of the greatest round trip between two nodes in use; None: never known.
        moves: every change with a placement, those before the load too.
        ended: when the last record was committed.
    """

    supply: Steps
    requested: Steps
    used: Sequence[tuple[float, tuple[str, ...]]]
    distance_ms: float | None
    moves: Sequence[Move]
    batches: Sequence[RealBatch]
    ended: float
    lasts: float
    lag: LoadLag


def nodes_run(run: DemoRun, name: str) -> NodesRun:
    """Read a run. Raises InputError: its journal does not show a running query."""
    began, lasts = run.load.go_at or run.load.began_at, run.plan.seconds
    real = run_of(name, run.records)
    batches = [replace(each, start=each.start - began, end=each.end - began) for each in real.batches]
    facts = RunFacts(run.score["version"], "spark", run.plan.policy, run.plan.objective_s)
    lag = score(facts, samples_of(run.records), window=(began, began + lasts))
    used, distances, moves = list[tuple[float, tuple[str, ...]]](), list[tuple[float, float]](), list[Move]()
    for each in run.records:
        if not isinstance(each, DecisionRecord) or each.observation is None or each.observation.nodes is None:
            continue
        at, nodes, placement = each.at - began, each.observation.nodes, each.decision.placement
        used.append((at, nodes.in_use))
        if (ms := nd_max(nodes.in_use, nodes)) is not None:
            distances.append((at, ms))
        if each.decision.acts and placement is not None:
            moves.append(Move(nodes.in_use, placement.add, placement.leave))
    first = next((each.current for each in real.actions if each.current is not None), 0)
    targets = [(each.at - began, float(each.target)) for each in real.actions if each.target is not None]
    return NodesRun(
        supply=[
            (snapshot.at - began, float(snapshot.registered))
            for snapshot in real.snapshots
            if snapshot.registered is not None
        ],
        requested=[(real.began - began, float(first)), *targets],
        used=used,
        distance_ms=integral(distances, 0.0, lasts) / lasts if distances else None,
        moves=moves,
        batches=batches,
        ended=max(lasts, batches[-1].end),
        lasts=lasts,
        lag=LoadLag(lag["violation_share"], lag["lag_p95_s"], lag["lag_max_s"]),
    )


def right_choices(moves: Sequence[Move], nodes: Collection[str], apart: RoundTrips, *, added: bool) -> list[bool]:
    """For each node that was added (or else removed), in order: whether it was the right one.

    Right is the one after which the greatest round trip between nodes in use is the least. Choices without a difference
    do not count, nor nodes whose round trips are unknown. ``moves``: of one executor a node; ``nodes``: all of them.

    >>> apart = {("core", "near"): 20.0, ("core", "far"): 250.0, ("far", "near"): 250.0}
    >>> grown = Move(("core",), ("near", "far"), ())
    >>> right_choices([grown], ("core", "near", "far"), apart, added=True)
    [True]
    """

    def widest(names: Collection[str]) -> float:
        return max((apart[pair] for pair in combinations(sorted(names), 2)), default=0.0)

    right = []
    for move in moves:
        used = set(move.before) & set(nodes)
        for name in move.add if added else move.leave:
            after = {each: widest(used ^ {each}) for each in (set(nodes) - used if added else used)}
            if len(set(after.values())) > 1:
                right.append(after.get(name) == min(after.values()))
            used = used | {name} if added else used - {name}
    return right


def seconds_without(used: Sequence[tuple[float, tuple[str, ...]]], far: str, near: str, lasts: float) -> float:
    """Seconds of the load in which one node was in use and the other was not."""
    return integral([(at, float(far in names and near not in names)) for at, names in used], 0.0, lasts)


def fit_batch_cost(runs: Sequence[NodesRun]) -> BatchCost | None:
    """The least-squares line through the batches of all runs; None with too few, or where it has no positive slope.

    Only batches count that began at a number of executors that was not new, and kept it.
    """
    points = sorted(
        Point(batch.records / batch.executors, batch.duration_s)
        for run in runs
        for batch in run.batches
        if batch.executors and batch.age > 0
    )
    if len(points) < _FEWEST:
        return None
    fit = line(points)
    fixed_s, slot_s = fit.at(0.0), fit.at(1.0) - fit.at(0.0)
    return BatchCost(fixed_s, slot_s, len(points)) if fixed_s > 0 and slot_s > 0 else None


def measure_nodes(run: NodesRun, demand: Steps) -> Measures:
    return measures_of(run.supply, demand, run.requested, (run.lasts, run.ended))


def demand_of(load: Pieces, cost: BatchCost, bounds: tuple[int, int], cap: int) -> list[tuple[float, float]]:
    """d(t): the fewest executors that carry the load."""
    least, most = bounds
    return demand_steps(load, [cost.rate(n, cap) for n in range(most + 1)], least, most)


def nodes_plot(run: NodesRun, load: Pieces, demand: Steps) -> PlotData:
    rates: Points = [(b.end, b.records / (b.end - a.end)) for a, b in pairwise(run.batches) if b.end > a.end]
    return PlotData(list(load.points), rates, [(at, number) for at, number in run.supply if at >= 0], list(demand))


# --------------------------------------------------------------------------------------------- S2: the statements

_ALIKE = 1.1


def s2_results(
    runs: Mapping[str, NodesRun],
    measures: Mapping[str, Measures] | None,
    scores: Mapping[str, Mapping[str, Any]],
    cost: BatchCost | None,
) -> list[Result]:
    """The statements, from runs by the names of the document.

    ``measures``: None where it is unknown what executors carry; ``scores``: in the shape of ``rheostat.score/1``.
    """
    return [
        *_nodes_results(runs),
        *([] if measures is None else _measures_results(measures)),
        _capacity_result(runs, cost),
        _objective_result(runs),
        _records_result(scores),
    ]


def _say(values: Mapping[str, Any], word: Callable[[Any], str]) -> str:
    return ", ".join(f"{name} {word(value)}" for name, value in values.items())


def _nodes_results(runs: Mapping[str, NodesRun]) -> list[Result]:
    results = []
    for word, does, added in (
        ("near first", "takes the nearest free node", True),
        ("far goes first", "gives up the farthest node in use", False),
    ):
        right = {name: right_choices(run.moves, NODES, _APART, added=added) for name, run in runs.items()}
        ours = _say(right, lambda each: f"{sum(each)} of {len(each)}")
        holds = bool(right[GESSCALE]) and all(right[GESSCALE])
        why = "choices that make a difference to the greatest round trip in use; the other algorithm takes any node"
        results.append(Result(f"{word}, live", f"Gesscale {does}, each time", ours, "each time", holds, why))
    alone = {name: seconds_without(run.used, _FAR, _NEAR, run.lasts) for name, run in runs.items()}
    far = {name: run.distance_ms for name, run in runs.items()}
    ours_ms, theirs_ms = far[GESSCALE], far[RIVAL]
    return [
        *results,
        Result(
            "in use, live",
            "under Gesscale the far node is in use only beside the near one",
            _say(alone, lambda seconds: f"{seconds:.0f} s alone"),
            None,
            alone[GESSCALE] == 0,
            "where Workers and executors really were, from the node servers and the driver",
        ),
        Result(
            "distance, live",
            "the greatest round trip between nodes in use is shorter under Gesscale, on average",
            _say(far, lambda ms: "unknown" if ms is None else f"{ms:.0f} ms"),
            None,
            ours_ms is not None and theirs_ms is not None and ours_ms < theirs_ms,
            "as measured by the node servers; 0 for one executor",
        ),
    ]


_MEASURES = (
    ("cost", "less cost, replica-minutes", "registered executors, until the last record is committed"),
    ("reconfigurations", "fewer reconfigurations", "changes of the number requested; none stops the job here"),
    ("excess", "less excess time", "from the end of the load to the last commit, ÷ its length: one batch or two"),
    ("accuracy_O", "less accuracy_O", ""),
    ("accuracy_U", "less accuracy_U", "no stop makes supply short here, as executors come while the query runs"),
)
"""Id (the metric), its words, and why."""


def _measures_results(measures: Mapping[str, Measures]) -> list[Result]:
    results = []
    for word, words, why in _MEASURES:
        place = Measures._fields.index(word.lower())
        ours = {name: each[place] for name, each in measures.items()}
        document = {name: DOCUMENT[name][place] for name in measures}
        said, theirs = (_say(each, lambda value: f"{value:.4g}") for each in (ours, document))
        holds = ours[GESSCALE] < ours[RIVAL]
        results.append(Result(f"{word}, live", f"Gesscale has {words}", said, theirs, holds, why))
    return results


def _capacity_result(runs: Mapping[str, NodesRun], cost: BatchCost | None) -> Result:
    """A control: on a shared machine, one run may have had more of it."""
    costs = {name: fit_batch_cost([run]) for name, run in runs.items()}
    twos = [one.rate(2, CAP) for one in costs.values() if one is not None]
    why = "unknown: too few batches"
    if cost is not None:
        formula = f"{cost.fixed_s:.2f} s + {1000 * cost.slot_s:.1f} ms · records ÷ n"
        why = f"the demand is that of both runs together: batch time = {formula}, {cost.batches} batches"

    def rates(one: BatchCost | None) -> str:
        if one is None:
            return "unknown"
        return f"{', '.join(f'{one.rate(n, CAP):.0f}' for n in range(1, len(NODES) + 1))} records/s of 1, 2, 3"

    return Result(
        "capacity, live",
        "a control: two executors carry the same in both runs, to a tenth; else the machine was busier in one of them",
        _say(costs, rates),
        None,
        len(twos) == len(runs) and max(twos) <= _ALIKE * min(twos),
        why,
    )


def _objective_result(runs: Mapping[str, NodesRun]) -> Result:
    lags = {name: run.lag for name, run in runs.items()}
    ours, theirs = lags[GESSCALE].over, lags[RIVAL].over

    def words(lag: LoadLag) -> str:
        p95 = "unknown" if lag.p95_s is None else f"{lag.p95_s:.1f} s"
        return f"{'unknown' if lag.over is None else f'{lag.over:.1%}'} (p95 {p95})"

    return Result(
        "objective, live",
        "Gesscale is over the objective no longer",
        _say(lags, words),
        None,
        ours is not None and theirs is not None and ours <= theirs,
        "share of the load's time; the document has no objective",
    )
