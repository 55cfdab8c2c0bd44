"""The experiment of S2 (Gesscale, ICCCN 2021, section V, table III) on a simulated job, and the accuracy of its model.

Four algorithms on eight nodes under two days of taxi trips, with many seeds. A figure is the mean over the seeds, ±
half of its 95 % interval; an order holds if it is that of the means. What is set, and why, stands in
:mod:`rheostat.research.papers.s2`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from pathlib import Path
from random import Random
from statistics import fmean, median, stdev
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls  # type: ignore[import-untyped]

from rheostat.calibrate import recorded
from rheostat.errors import Fault, InputError
from rheostat.judge.cases import PolicySpec
from rheostat.judge.compare import crew
from rheostat.judge.scoring import Points, thinned
from rheostat.judge.simulate import Run, simulate, start_executors
from rheostat.learn.throughput import MstModel, Point, fit
from rheostat.load.curves import Pieces
from rheostat.load.prepare import Prepared, prepare
from rheostat.load.trips import experiment_curve
from rheostat.report.html import COLORS, GREY, PlotFigure, heading, line, note_list, table
from rheostat.research.papers.page import columns, write_found
from rheostat.research.papers.results import Experiment, Part, Result, Seen
from rheostat.sim.capacity import capacity_curve
from rheostat.sim.history import Steps, changes, demand_steps, elasticity, integral
from rheostat.sim.jobfile import JobFile, NodeMap, load_job

# One algorithm under one day of trips, with S2's seven metrics; one process can do one run while others do the rest.


_POINTS = 1500
_THROUGHPUT_S = 60.0


class Measures(NamedTuple):
    """The metrics of a run; replicas, %, a share of T, a number, replica-minutes. And mean s and d while it lasts."""

    accuracy_o: float
    accuracy_u: float
    timeshare_o: float
    timeshare_u: float
    excess: float
    reconfigurations: float
    cost: float
    mean_s: float
    mean_d: float


class Drawn(NamedTuple):
    """What is plotted of a run: records/s that arrive and that are processed, and nodes."""

    load: Points
    throughput: Points
    supply: Points
    demand: Points


class Task(NamedTuple):
    """What one process does.

    Attributes:
        name: of the algorithm.
        live: whether nodes come and go while the job works.
        drawn: whether it is plotted.
    """

    name: str
    seed: int
    live: bool = False
    drawn: bool = False


class Found(NamedTuple):
    """A run: its metrics, why it does not count (empty if it does), and what is plotted."""

    measures: Measures
    faults: tuple[str, ...]
    drawn: Drawn | None = None


def ran(task: Task) -> Found:
    """Do a run."""
    job, load = the_job(live=task.live), prepared(trips(task.seed), task.seed)
    run = simulate(job, load, contender(task.name, live=task.live), seed=task.seed)
    outage_s = 0.0 if task.live else OUTAGE_S
    drawn = _drawn(job, load.curve, run, outage_s) if task.drawn else None
    return Found(measured(job, load, run, outage_s), run.faults, drawn)


def supplied(ready: Steps, asked: Steps, outage_s: float) -> list[tuple[float, float]]:
    """s(t): the nodes that are there; none for ``outage_s`` from each change of the number asked for.

    >>> supplied([(0, 1), (60, 2)], [(0, 1), (60, 2)], 120.0)
    [(0, 1), (60, 0.0), (180.0, 2)]
    """
    stops = [(at, at + outage_s) for (_, before), (at, after) in pairwise(asked) if before != after and outage_s > 0]
    marks = sorted({at for at, _ in ready} | {edge for stop in stops for edge in stop})
    steps: list[tuple[float, float]] = []
    for at in marks:
        value = 0.0 if any(begin <= at < end for begin, end in stops) else _at(ready, at)
        if not steps or steps[-1][1] != value:
            steps.append((at, value))
    return steps


def measured(job: JobFile, load: Prepared, run: Run, outage_s: float) -> Measures:
    """The metrics of a finished run."""
    history, lasts = run.history, load.curve.duration
    asked = [(0.0, start_executors(job, load)), *history.target]
    end = max(lasts, history.commits[-1][0])
    return measures(supplied(history.ready, asked, outage_s), _demand(job, load.curve), asked, (lasts, end))


def measures(supply: Steps, demand: Steps, asked: Steps, ends: tuple[float, float]) -> Measures:
    """The metrics of what was supplied, demanded and asked for; ``ends``: of the load, and of its last record."""
    lasts, end = ends
    fit = elasticity(supply, demand, 0.0, lasts)
    return Measures(
        accuracy_o=fit.accuracy_o,
        accuracy_u=fit.accuracy_u,
        timeshare_o=100 * fit.timeshare_o,
        timeshare_u=100 * fit.timeshare_u,
        excess=(end - lasts) / lasts,
        reconfigurations=changes(asked, 0.0, end),
        cost=integral(supply, 0.0, end) / 60,
        mean_s=integral(supply, 0.0, lasts) / lasts,
        mean_d=integral(demand, 0.0, lasts) / lasts,
    )


def _at(steps: Steps, at: float) -> float:
    return next((value for when, value in reversed(steps) if when <= at), steps[0][1])


def _demand(job: JobFile, load: Pieces) -> list[tuple[float, float]]:
    return demand_steps(load, capacity_curve(job), job.n_min, job.n_max)


def _drawn(job: JobFile, load: Pieces, run: Run, outage_s: float) -> Drawn:
    history, end = run.history, run.seconds
    asked = [(0.0, history.ready[0][1]), *history.target]
    return Drawn(
        thinned(load.points, _POINTS),
        _throughput(history.commits, end),
        supplied(history.ready, asked, outage_s),
        _demand(job, load),
    )


def _throughput(commits: Sequence[tuple[float, int, float, float]], end: float) -> Points:
    """Records/s, a mean of each minute."""
    points: Points = []
    done, place, at = 0, 0, 0.0
    while at < end:
        at += _THROUGHPUT_S
        before = done
        while place < len(commits) and commits[place][0] <= at:
            done, place = commits[place][1], place + 1
        points.append((at - _THROUGHPUT_S / 2, (done - before) / _THROUGHPUT_S))
    return points


# The job, the load and the four algorithms of S2's experiment (Gesscale, ICCCN 2021, section V).


OUTAGE_S = 120.0
"""How long a change stops the job."""

_ALPHA, _GAMMA = 82.0, 0.48
_CPU_S, _PRESSURE_S = 120.0, 60.0
_MINUTE_S = 60.0
_T, _T_LIVE = 55.0, 10.0
_CATCH_UP_LAGS = 2.0
_LIVE: Mapping[str, Any] = MappingProxyType({"rescale.mode": "live"})


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One of those that are compared.

    Attributes:
        policy: whose preset ``faithful`` it is.
        window_s: over which it averages what it looks at.
        options: beside the preset.
        modelled: whether it has a model, and so a T.
    """

    policy: str
    window_s: float
    options: Mapping[str, Any] = field(default_factory=dict)
    modelled: bool = False


GESSCALE, AS_PRINTED = "Gesscale", "Gesscale as printed"

ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {
        "THR-NLUnaware": Algorithm("threshold", _CPU_S),
        "THR-NLAware": Algorithm("threshold-near", _CPU_S),
        "MDL-NLUnaware": Algorithm("mst-alpha", _PRESSURE_S, {"catch_up_lags": _CATCH_UP_LAGS}, modelled=True),
        GESSCALE: Algorithm("mst", _PRESSURE_S, {"catch_up_lags": _CATCH_UP_LAGS}, modelled=True),
        AS_PRINTED: Algorithm("mst", _PRESSURE_S, modelled=True),
    }
)
"""By the names of the document, and Gesscale without the correction of ours."""


def the_job(*, live: bool = False, **changes: Any) -> JobFile:
    """The job; ``live``: executors come and go while it works. ``changes``: of its file, with ``__`` for dots."""
    dotted = {name.replace("__", "."): value for name, value in changes.items()}
    return load_job("gesscale", {"record.alpha": _ALPHA, "record.gamma": _GAMMA, **(_LIVE if live else {}), **dotted})


def contender(name: str, *, live: bool = False) -> PolicySpec:
    """An algorithm as the production loop runs it, with no guard of ours but for the time in which nothing is seen."""
    chosen = ALGORITHMS[name]
    options = dict(chosen.options)
    if chosen.modelled:
        options["dt_threshold"] = _T_LIVE if live else _T
    blind_s = chosen.window_s + (0.0 if live else OUTAGE_S)
    guard = {"warm_up_batches": 0, "hold_s": blind_s, "hold_both": True}
    settings = {"profile": "faithful", "rate_window_s": chosen.window_s, "guard": guard}
    return PolicySpec(chosen.policy, "faithful", options, settings)


def trips(seed: int) -> Pieces:
    """Two days of trips ten times as fast, three records of each, from some second of the first minute on."""
    whole = experiment_curve(seed)
    return whole.between(Random(f"begin {seed}").uniform(0.0, _MINUTE_S), whole.duration)


def prepared(load: Pieces, seed: int) -> Prepared:
    """The load as it is played: as it is."""
    return prepare(load, name="taxi trips", seed=seed, peak_rate=None, noise_cv=0.0, longest_s=None)


PARTS = ("outage", "live", "model")
"""With 120 s of outage for each change; without; the accuracy of the model."""

SEEDS = ",".join(map(str, range(1, 21)))
"""Unless others are named."""

_THR, _NEAR, _MDL = "THR-NLUnaware", "THR-NLAware", "MDL-NLUnaware"
_FOUR = (_THR, _NEAR, _MDL, GESSCALE)

DOCUMENT: Mapping[str, tuple[float, ...]] = {
    _THR: (1.636, 0.742, 51.11, 30.28, 0.163, 25, 1199.5),
    _NEAR: (1.517, 0.640, 46.67, 22.99, 0.115, 19, 1193.75),
    _MDL: (1.713, 0.622, 60.42, 25.00, 0.126, 16, 1270.5),
    GESSCALE: (0.838, 0.499, 49.31, 21.74, 0.042, 12, 999.5),
}
"""Table III."""

_COLUMNS = ("accuracy_O", "accuracy_U", "timeshare_O %", "timeshare_U %", "excess", "reconfigurations", "cost")
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Table:
    """The runs of one part: of each algorithm its measures, by seed."""

    title: str
    runs: Mapping[str, Mapping[int, Measures]]

    def mean(self, name: str, column: str) -> float:
        """Of an algorithm's measure over the seeds."""
        return fmean(getattr(each, column) for each in self.runs[name].values())

    def half_width(self, name: str, column: str) -> float | None:
        """Of the 95 % interval of that mean; None for one seed."""
        return _half_width([getattr(each, column) for each in self.runs[name].values()])


@dataclass(frozen=True)
class NodesExperiment(Experiment):
    """What was found, with the tables.

    Attributes:
        tables: of the parts with runs.
        drawn: what is plotted of the first seed, by algorithm.
    """

    tables: Sequence[Table] = ()
    drawn: Mapping[str, Drawn] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        tables = [{"title": table.title, "rows": table_rows(table)} for table in self.tables]
        return {**super().to_json(), "tables": tables}


def experiment(
    names: Sequence[str],
    seeds: Sequence[int],
    profiles: Path | None,
    watch: Callable[[int, int, str], None],
    jobs: int = 1,
) -> NodesExperiment:
    """Run the parts of that name.

    Args:
        names: some of :data:`PARTS`.
        seeds: of the trips, the random choices and the noise; at least one.
        profiles: throughput that was measured elsewhere, for the part ``model``; None: none.
        watch: is told how many runs are done, of how many, and what is being run.
        jobs: how many processes.

    Raises:
        InputError: the profiles are faulty.
    """
    measured = None if profiles is None or "model" not in names else read_profiles(profiles)
    live = [part == "live" for part in ("outage", "live") if part in names]
    tasks = [
        Task(name, seed, each, drawn=not each and seed == seeds[0])
        for each in live
        for name in (_FOUR if each else ALGORITHMS)
        for seed in seeds
    ]
    found: dict[Task, Found] = {}
    with crew(ran, jobs, len(tasks)) as workers:
        for place, run in workers.results(tasks):
            found[tasks[place]] = run
            watch(len(found), len(tasks), "runs")
    tables = {each: _table(found, seeds, live=each) for each in live}
    parts = [_judged_part(table, _faults(found, live=each), live=each) for each, table in tables.items()]
    if "model" in names:
        parts += [model_part([recovered(rates, seed) for rates in [carried()] for seed in seeds])]
        parts += [] if measured is None else [profile_part(measured)]
    drawn = {task.name: run.drawn for task, run in found.items() if run.drawn is not None}
    ordered = {name: drawn[name] for name in _FOUR if name in drawn}
    return NodesExperiment("s2", parts, tuple(seeds), tuple(tables.values()), ordered)


def _table(found: Mapping[Task, Found], seeds: Sequence[int], *, live: bool) -> Table:
    by_name: dict[str, dict[int, Measures]] = {}
    at = {(task.name, task.seed): run.measures for task, run in found.items() if task.live == live}
    for name in ALGORITHMS:
        if (name, seeds[0]) in at:
            by_name[name] = {seed: at[name, seed] for seed in seeds}
    title = "Nodes come and go while the job works" if live else "Table III: each change stops the job for 120 s"
    return Table(title, by_name)


def _faults(found: Mapping[Task, Found], *, live: bool) -> list[str]:
    named = ((f"{task.name}, seed {task.seed}", run.faults) for task, run in found.items() if task.live == live)
    return [f"{name}: {'; '.join(faults)}" for name, faults in named if faults]


def table_rows(table: Table) -> list[list[str]]:
    """The measures with the document's beside them, header first."""
    rows = [["", *_COLUMNS]]
    for name in table.runs:
        rows.append([name, *(_cell(table, name, column) for column in Measures._fields[: len(_COLUMNS)])])
        if name in DOCUMENT and "Table III" in table.title:
            rows.append([f"{name}: the document", *(f"{value:g}" for value in DOCUMENT[name])])
    return rows


def _cell(table: Table, name: str, column: str) -> str:
    wide = table.half_width(name, column)
    return _number(table.mean(name, column)) + ("" if wide is None else f" ± {_number(wide)}")


# ------------------------------------------------------------------------------------------------- statements


class _Order(NamedTuple):
    """One algorithm is better, or worse, than others by a measure; less is better.

    Attributes:
        lead: the one.
        column: the measure.
        why: what explains it.
        worst: whether it is the worst of all four, not the best.
    """

    id: str
    lead: str
    column: str
    why: str
    worst: bool = False

    @property
    def statement(self) -> str:
        """In words."""
        return f"{self.lead} has the {'most' if self.worst else 'least'} {self.column.replace('_', ' ')} of the four"

    def holds(self, values: Mapping[str, float]) -> bool:
        """Whether it does, in these values."""
        others = [value for name, value in values.items() if name != self.lead]
        return values[self.lead] > max(others) if self.worst else values[self.lead] < min(others)


_ORDERS = (
    _Order("cost", GESSCALE, "cost", "near nodes carry more, and one decision gives up several"),
    _Order("reconfigurations", GESSCALE, "reconfigurations", "the model says when a node can go for good"),
    _Order(
        "excess",
        GESSCALE,
        "excess",
        "far less than in the document for all: what a stop leaves is worked off between two changes here, so only a "
        "change in the last minutes counts. The document's values are close to the share of time that it was stopped",
    ),
    _Order("accuracy_O", GESSCALE, "accuracy_o", "as the cost"),
    _Order("accuracy_U", GESSCALE, "accuracy_u", "nothing is supplied while the job is stopped"),
    _Order("timeshare_O", _NEAR, "timeshare_o", "the exception: it gives nodes up earliest, and too early"),
    _Order(
        "MDL accuracy_O",
        _MDL,
        "accuracy_o",
        "the exception: random nodes, and a margin on what far ones do",
        worst=True,
    ),
    _Order("MDL timeshare_O", _MDL, "timeshare_o", "as above", worst=True),
    _Order("MDL cost", _MDL, "cost", "as above", worst=True),
)

_LIVE_ORDERS = (
    _Order("cost", GESSCALE, "cost", "without stops T is 10 %, the model's error, and nothing is left to catch up"),
    _Order("reconfigurations", GESSCALE, "reconfigurations", "changes cost nothing here, and it still makes fewest"),
    _Order("accuracy_O", GESSCALE, "accuracy_o", "it follows the demand, and so is too low more often than the others"),
    _Order("timeshare_O", GESSCALE, "timeshare_o", "likewise; the threshold algorithms keep a node too many"),
)


def orders(*, live: bool = False) -> Sequence[_Order]:
    """What is looked for in a table."""
    return _LIVE_ORDERS if live else _ORDERS


def judged(order: _Order, table: Table, prefix: str, *, compared: bool) -> Result:
    """One order over all seeds; ``compared``: whether the document has it in its table."""
    means = {name: table.mean(name, order.column) for name in _FOUR}
    by_seed = []
    for seed in table.runs[order.lead]:
        values = {name: float(getattr(table.runs[name][seed], order.column)) for name in _FOUR}
        by_seed.append(Seen(seed, _told(values), order.holds(values)))
    held = sum(seen.holds for seen in by_seed)
    level = _level(order, table)
    ours = f"{_told(means)}; in {held} of {len(by_seed)} seeds" if len(by_seed) > 1 else _told(means)
    why = order.why + (f"; not told apart from {', '.join(level)}" if level else "")
    document = _told(dict(zip(_FOUR, (DOCUMENT[name][_place(order.column)] for name in _FOUR), strict=True)))
    return Result(
        f"{prefix} {order.id}",
        order.statement,
        ours,
        document if compared else None,
        order.holds(means),
        why,
        tuple(by_seed) if len(by_seed) > 1 else (),
    )


def _level(order: _Order, table: Table) -> list[str]:
    """The others from which the 95 % interval of the mean difference, seed by seed, does not tell it apart."""
    found = []
    for name in _FOUR:
        pairs = zip(table.runs[name].values(), table.runs[order.lead].values(), strict=True)
        apart = [getattr(other, order.column) - getattr(lead, order.column) for other, lead in pairs]
        wide = _half_width(apart)
        if name != order.lead and wide is not None and abs(fmean(apart)) <= wide:
            found.append(name)
    return found


def _judged_part(table: Table, faults: Sequence[str], *, live: bool) -> Part:
    prefix = "live" if live else "III"
    results = [judged(order, table, prefix, compared=not live) for order in orders(live=live)]
    results += [_balance(table, prefix), _counts(faults, prefix)]
    results += [] if live else [_percentages(table), _as_printed(table)]
    return Part(table.title, results)


def _balance(table: Table, prefix: str) -> Result:
    """The self-test of the accuracies."""
    off = max(
        abs(each.accuracy_o - each.accuracy_u - each.mean_s + each.mean_d)
        for runs in table.runs.values()
        for each in runs.values()
    )
    demand = table.mean(GESSCALE, "mean_d")
    return Result(
        f"{prefix} self-test",
        "accuracy_O − accuracy_U = mean supply − mean demand, in every run",
        f"off by {off:.1g} at most; mean demand {demand:.2f} nodes",
        "mean demand 3.1 to 3.3 [computed from its cost and accuracy]",
        off < _ROUNDING,
        "one demand for all: the fewest nodes, nearest first, that carry the arrival rate",
    )


def _counts(faults: Sequence[str], prefix: str) -> Result:
    text = "; ".join(faults) if faults else "all"
    return Result(
        f"{prefix} runs", "every run works off every record", text, None, not faults, "none lost, none left, no failure"
    )


def _percentages(table: Table) -> Result:
    """What the document says in its text."""

    def less(column: str, than: str) -> float:
        return 100 * (1 - table.mean(GESSCALE, column) / max(table.mean(than, column), _ROUNDING))

    told = [less("reconfigurations", _THR), less("cost", _THR)]
    near = [less(column, _NEAR) for column in ("reconfigurations", "cost", "excess")]
    return Result(
        "III percentages",
        "against THR-NLUnaware fewer reconfigurations, less cost; against THR-NLAware likewise, and less excess time",
        f"{told[0]:.0f} % and {told[1]:.0f} %; {near[0]:.0f} %, {near[1]:.0f} % and {near[2]:.0f} % less",
        "52 % and 17 %; 37 %, 16 % and 63.5 %",
        min(*told, *near) > 0,
        "each is less; the sizes are those of another job and another load",
    )


def _as_printed(table: Table) -> Result:
    ours, printed = (table.mean(name, "reconfigurations") for name in (GESSCALE, AS_PRINTED))
    costs = [table.mean(name, "cost") for name in (GESSCALE, AS_PRINTED)]
    return Result(
        "III as printed",
        "a control of our own: as printed, the backlog of a stop being an overload, Gesscale changes more often",
        f"{_number(printed)} changes and {_number(costs[1])} replica-minutes v {_number(ours)} and {_number(costs[0])}",
        "12 and 999.5",
        printed > ours,
        "Algorithm 1 cannot tell the backlog that its own change has left from too few nodes, so that each increase is "
        "followed by another",
    )


# ----------------------------------------------------------------------------------------------------- words

_T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10)
"""Student's t for 1, 2, … degrees of freedom, two-sided 95 %; 2.09 down to 1.96 beyond."""


def _half_width(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    t = _T_95[len(values) - 2] if len(values) - 2 < len(_T_95) else 2.09
    return t * stdev(values) / math.sqrt(len(values))


def _place(column: str) -> int:
    return Measures._fields.index(column)


def _told(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {_number(value)}" for name, value in values.items())


def _number(value: float) -> str:
    """Four digits or so.

    >>> [_number(each) for each in (1199.52, 25.0, 51.114, 1.6364, 0.00421)]
    ['1200', '25', '51.1', '1.64', '0.0042']
    """
    if abs(value) >= 100 or value == round(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.4f}"


# How well MST = α·n^β − γ·ND predicts: on throughput measured elsewhere, beside the Universal Scalability Law, and γ.


Profile = Sequence[tuple[int, float]]
"""Executors and the records/s that they carried at their limit, ascending."""

_Curve = Callable[[float], float]
_FIT_TO = 3
_NOISE = 0.02
_SECONDS, _RATE = 300.0, 900.0
_FIRST, _NUMBERS = ("n1", "n3", "n4", "n8"), (1, 2, 3, 4, 5)
_WITHIN = 0.10


def read_profiles(path: Path) -> list[tuple[int, float]]:
    """The saturated rows of a file like ``phoebe_cars_profiles.csv``; of one number of executors their mean.

    Raises:
        InputError: it cannot be read, columns are missing, cells no numbers, or fewer than four numbers are saturated.
    """
    found: dict[int, list[float]] = {}
    for number, rate in recorded.read_profiles(path):
        found.setdefault(number, []).append(rate)
    points = [(number, fmean(rates)) for number, rates in found.items()]
    if len(points) <= _FIT_TO:
        message = "three are fitted, and the others predicted"
        raise InputError([Fault("profiles", str(path), "saturated rows of four numbers or more", message)])
    return points


def usl(points: Profile) -> _Curve:
    """The Universal Scalability Law through three points or more.

    >>> law = usl([(1, 100.0), (2, 160.0), (4, 200.0)])
    >>> [round(law(n)) for n in (1, 2, 4)]
    [100, 160, 200]
    """
    n = np.array([number for number, _ in points], dtype=float)
    each = n / np.array([rate for _, rate in points])
    columns = np.stack([np.ones_like(n), n - 1, n * (n - 1)], axis=1)
    solved = nnls(columns / each[:, None], np.ones_like(n))[0]

    def law(number: float) -> float:
        return float(number / (solved @ [1.0, number - 1, number * (number - 1)]))

    return law


def _power(points: Profile) -> _Curve:
    return fit([Point(float(number), 0.0, rate) for number, rate in points]).mst


class Errors(NamedTuple):
    """Relative errors, shares.

    Attributes:
        whole: mean of a fit to all points.
        best, median, worst: of the means over the other points, of fits to three of them, over all triples.
    """

    whole: float
    best: float
    median: float
    worst: float


def errors(points: Profile, curve: Callable[[Profile], _Curve]) -> Errors:
    """How far a kind of curve is off. ``points``: at least four."""
    others = [
        _mean_error(curve(three), [point for point in points if point not in three])
        for three in combinations(points, _FIT_TO)
    ]
    return Errors(_mean_error(curve(points), points), min(others), median(others), max(others))


def _mean_error(curve: _Curve, points: Profile) -> float:
    return fmean(abs(curve(number) - rate) / rate for number, rate in points)


def profile_part(points: Profile) -> Part:
    """α·n^β and the Universal Scalability Law on measured throughput."""
    power, law = errors(points, _power), errors(points, usl)
    holds = power.whole <= 0.0315 and power.median <= 0.0505 and power.worst <= 0.1885
    why = (
        "fitted by least squares of the relative errors; of the document's « error < 2 % » there is nothing to be "
        f"seen here: the best triple has {_percent(power.best)}. The file has no latencies, so γ = 0"
    )
    better = law.median < power.median
    verdict = "it is better" if better else "it is not better, so it is not offered as another curve"
    return Part(
        "Accuracy of the model on measured throughput",
        [
            Result(
                "model profiles",
                "α·n^β fitted to three numbers predicts the others no worse than plain least squares",
                _accuracy_text(power),
                "all points: 3.1 %; three: best 2.3, median 5.0, worst 18.8 % [plain least squares, ours]",
                holds,
                why,
            ),
            Result(
                "model usl",
                "α·n^β predicts no worse than the Universal Scalability Law, at the median over all triples",
                f"α·n^β {_percent(power.median)}; the law {_accuracy_text(law)}",
                None,
                not better,
                f"{verdict}. With a third parameter and three points it passes through all of them, noise included",
            ),
        ],
    )


def _accuracy_text(found: Errors) -> str:
    three = ", ".join(f"{name} {_percent(getattr(found, name))}" for name in ("best", "median", "worst"))
    return f"all points: {_percent(found.whole)}; three: {three}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def carried() -> list[tuple[int, float, float]]:
    """Nodes, ND and the records/s that the simulated job shows at its limit, at many distances.

    One to five nodes, each time from another node on, so that the same number is at several distances; five minutes of
    more records than it carries.
    """
    asked = [(first, number) for first in _FIRST for number in _NUMBERS]
    return sorted({_carried(first, number) for first, number in asked})


def recovered(measured: Sequence[tuple[int, float, float]], seed: int, noise: float = _NOISE) -> MstModel:
    """The model fitted to them, with ``noise``: the relative standard deviation of a measurement."""
    random = Random(f"recovered {seed}")
    return fit([Point(float(n), ms, rate * (1 + random.gauss(0.0, noise))) for n, ms, rate in measured])


def _carried(first: str, number: int) -> tuple[int, float, float]:
    """So many nodes from this one on, ND, and the records/s that they carry."""
    job = the_job(nodes__first=first, start_executors=number)
    load = prepared(Pieces([(0.0, _RATE), (_SECONDS, _RATE)]), 0)
    run = simulate(job, load, PolicySpec("static", options={"executors": number}), seed=0)
    done = [records for at, records, *_ in run.history.commits if at <= _SECONDS]
    return number, _distance_ms(job.nodes, number), done[-1] / _SECONDS


def _distance_ms(nodes: NodeMap | None, number: int) -> float:
    return 0.0 if nodes is None else nodes.distance_ms(nodes.nearest(number))


def model_part(models: Sequence[MstModel]) -> Part:
    """γ as the model finds it, against that of the simulated job."""
    record = the_job().record
    true = 0.0 if record is None or record.gamma is None else record.gamma
    found = [model.gamma for model in models]
    off = [abs(each - true) / true for each in found]
    alphas, betas = fmean(model.alpha for model in models), fmean(model.beta for model in models)
    result = Result(
        "model gamma",
        "γ is found from throughput at several distances: its mean is within a tenth",
        f"{fmean(found):.3f} (true: {true:g}), a single one off by {_percent(fmean(off))} on average, "
        f"{_percent(max(off))} at most; α {alphas:.1f}, β {betas:.3f}",
        None,
        abs(fmean(found) - true) <= _WITHIN * true,
        f"the document has no such figure. Noise of {_percent(_NOISE)} "
        f"on each measurement, {len(models)} seeds; α, β and γ are fitted together",
    )
    return Part("γ against simulated delays", [result])


# The report of S2's experiment: the statements, the tables, and supply against demand for one seed.


_NOTE = (
    "Means over the seeds ± half of the 95 % interval; accuracies in nodes, excess as a share of T, cost in minutes."
)


def write_nodes(path: Path, found: NodesExperiment) -> Path:
    """Write the page and return its path.

    Raises:
        InputError: plotly is not installed, or the file cannot be written.
    """
    parts = list[str]()
    for each in found.tables:
        parts += [heading(each.title), note_list([_NOTE]), table(table_rows(each))]
    if found.drawn:
        parts += [heading(f"Supply and demand, seed {found.seeds[0]}")]
        parts += [_plots(name, drawn, first=place == 0) for place, (name, drawn) in enumerate(found.drawn.items())]
    return write_found(path, found, "statements hold in ours", parts)


def _plots(name: str, drawn: Drawn, *, first: bool) -> str:
    figure = PlotFigure((f"{name}: records/s", "Nodes"), "seconds since the start of the load", height=480)
    figure.add(1, line("arrive", *columns(drawn.load), GREY))
    figure.add(1, line("processed", *columns(drawn.throughput), COLORS[0]))
    figure.add(2, line("demand", *columns(drawn.demand), GREY, shape="hv"))
    figure.add(2, line("supply", *columns(drawn.supply), COLORS[0], shape="hv"))
    return figure.html(with_script=first)
