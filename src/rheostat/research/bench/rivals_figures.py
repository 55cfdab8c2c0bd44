"""The figures of ``bench rivals``: of one run from its journal, of pairs of runs, and of the simulator's ranking."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import stats  # type: ignore[import-untyped]

from rheostat import __version__
from rheostat.errors import RheostatError
from rheostat.journal.records import DecisionRecord, Record
from rheostat.journal.store import read_journal
from rheostat.report.score import RunFacts, Sample, score
from rheostat.research.bench.harness import Bench, Metric, bootstrap_interval, metric
from rheostat.research.bench.rivals_plot import Curve, draw_rivals
from rheostat.sim.capacity import SECONDS_PER_CHANGE
from rheostat.text import several

OURS, JUDGED_BY = "rheostat", ("dynamic-allocation", "reactive")


@dataclass(frozen=True, slots=True)
class Figures:
    """Of a run, from the begin of its load until all was committed.

    Attributes:
        executor_s: registered executors over time.
        over: share of the time with the lag over the objective.
        changes: how often the number of executors differed from the look before.
    """

    seconds: float
    executor_s: float
    over: float
    lag_p95_s: float
    changes: int
    executors_max: int

    def cost(self, weight: float) -> float:
        """In executor-seconds, as ``rheostat compare`` has it; ``weight``: price of a second over the objective."""
        return self.executor_s + SECONDS_PER_CHANGE * self.changes + weight * self.over * self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A real run. ``pair``: equal for the runs that are compared with each other; ``busy``: load average before it."""

    load: str
    pair: tuple[str, int, int]
    rival: str
    figures: Figures
    began: float
    journal: Path
    busy: float
    drained: bool


Simulated = Mapping[tuple[str, str], Sequence[Figures]]
"""By load and rival, one for each seed."""


def figures_of(records: Iterable[Record], begin: float, load_end: float, objective_s: float) -> Figures:
    """The figures of a journal; the run ends with the first look after the load at which nothing waited.

    Only what was registered counts, so that an application that scales itself is measured like any other.

    Raises:
        RheostatError: the journal does not show executors and lag between the begin and the end.
    """
    cycles = [each for each in records if isinstance(each, DecisionRecord) and each.assessment is not None]
    drained = (each.at for each in cycles if each.at > load_end and each.assessment and each.assessment.backlog == 0)
    end = next(drained, cycles[-1].at if cycles else load_end)
    samples = [
        Sample(each.at, each.assessment.executors, each.assessment.executors, each.assessment.lag_s)
        for each in cycles
        if each.assessment is not None
    ]
    facts = RunFacts(version=__version__, engine="spark", policy="", objective_s=objective_s)
    scored = score(facts, samples, window=(begin, end))
    names = ("executor_hours", "violation_share", "lag_p95_s", "executors_max")
    if any(scored[name] is None for name in names):
        message = f"nothing is known of {', '.join(name for name in names if scored[name] is None)}"
        raise RheostatError(message)
    return Figures(
        seconds=scored["seconds"],
        executor_s=3600 * scored["executor_hours"],
        over=scored["violation_share"],
        lag_p95_s=scored["lag_p95_s"],
        changes=scored["reconfigurations"],
        executors_max=scored["executors_max"],
    )


def rivals_bench(
    runs: Sequence[Finished], simulated: Simulated | str, shapes: Mapping[str, str], notes: Sequence[str]
) -> Bench:
    """The benchmark of these runs; ``simulated``: why it was not, if it is a text."""
    loads = [load for load in shapes if any(run.load == load for run in runs)]
    metrics = [each for rival in JUDGED_BY for each in compare_with(runs, rival)]
    metrics += compare_with(runs, "static", judged=False)
    sentences = [f"The load {load}: {shape}" for load, shape in shapes.items()]
    late = [f"{run.rival} under {run.load}" for run in runs if not run.drained]
    if late:
        sentences.append(f"Not all was committed two minutes after the load: {', '.join(late)}.")
    if isinstance(simulated, str):
        sentences.append(f"The loads were not simulated: {simulated}")
    else:
        found = compare_rankings(runs, simulated)
        metrics += found.metrics()
        sentences += found.notes()
    loaded = f"Load average (1 min) before each run: {', '.join(f'{run.busy:.1f}' for run in runs)}."
    tables = {f"Means of equal runs under the load {load}": means_table(runs, simulated, load) for load in loads}
    pictures = {"rivals.svg": picture_of(runs, loads[0])} if loads else {}
    return Bench("rivals", metrics, (*notes, *sentences, loaded), tables, pictures)


# Pairs of runs


def pairs_with(runs: Iterable[Finished], rival: str) -> list[tuple[Figures, Figures]]:
    """Ours and the rival's, of each half of a round that has both."""
    by_pair = {(run.pair, run.rival): run.figures for run in runs}
    return [
        (figures, by_pair[pair, rival])
        for (pair, name), figures in by_pair.items()
        if name == OURS and (pair, rival) in by_pair
    ]


def compare_with(runs: Iterable[Finished], rival: str, *, judged: bool = True) -> list[Metric]:
    """The ratio of executor-seconds, and how much more time is over the objective, in points.

    The ratio is judged by the upper end of its interval; without an interval nothing is met.
    """
    pairs = pairs_with(runs, rival)
    logs = np.array([math.log(ours.executor_s / theirs.executor_s) for ours, theirs in pairs])
    more = [100 * (ours.over - theirs.over) for ours, theirs in pairs]

    def ratio(values: npt.NDArray[np.float64]) -> float:
        return math.exp(float(np.mean(values)))

    interval = bootstrap_interval(logs, ratio)
    name = f"executor-seconds, {OURS} ÷ {rival}" + (", judged by the upper end" if judged else "")
    return [
        Metric(
            name,
            ratio(logs) if pairs else None,
            "×",
            len(pairs),
            interval,
            target=1.0 if judged else None,
            judged=math.inf if interval is None else interval[1],
        ),
        metric(
            f"time over the objective, {OURS} − {rival}",
            more,
            "points",
            lambda values: float(np.mean(values)),
            target=0.0 if judged else None,
        ),
    ]


# The simulator's ranking


@dataclass(frozen=True, slots=True)
class Rankings:
    """How the costs of two rivals under a load compare, real and simulated.

    Attributes:
        spread: of the cost of equal real runs, coefficient of variation; None: no two runs were equal.
        equal: runs beyond the first of each kind, which the spread is made of.
        told: pairs ``(load, cheaper, dearer)`` that differ by more than the spread of equal runs explains.
        unknown: number of the other pairs.
        otherwise: those of ``told`` that the simulator ranks the other way round.
    """

    spread: float | None
    equal: int
    told: tuple[tuple[str, str, str], ...]
    unknown: int
    otherwise: tuple[tuple[str, str, str], ...]

    def metrics(self) -> list[Metric]:
        count = float(len(self.otherwise)) if self.told else None
        return [
            Metric("pairs by cost that the simulator ranks otherwise", count, "pairs", len(self.told)),
            Metric("cost of equal runs, coefficient of variation", self.spread, "×", self.equal),
        ]

    def notes(self) -> list[str]:
        wrong = "; ".join(f"{load}: really {better} before {worse}" for load, better, worse in self.otherwise)
        return [
            "Cost: executor-seconds + 60 a change + executors at the peak × seconds over the objective, as in "
            f"compare. {several(len(self.told), 'pair')} of rivals under a load can be told apart by the spread of "
            f"equal runs (95 %, pooled), {self.unknown} cannot. The same loads were simulated with the job that was "
            f"fitted to all these runs, three seeds each. Ranked otherwise there: {wrong or 'none'}."
        ]


def compare_rankings(runs: Sequence[Finished], simulated: Simulated) -> Rankings:
    """Compare the rankings by cost; costs are compared by their logarithms."""
    weight = float(max((run.figures.executors_max for run in runs), default=0))
    real: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        real.setdefault((run.load, run.rival), []).append(math.log(run.figures.cost(weight)))
    logs = {key: statistics.fmean(math.log(each.cost(weight)) for each in found) for key, found in simulated.items()}
    degrees = sum(len(costs) - 1 for costs in real.values())
    squares = sum(statistics.pvariance(costs) * len(costs) for costs in real.values())
    spread = math.sqrt(squares / degrees) if degrees else None
    told, otherwise, unknown = [], [], 0
    for (load, a), (other, b) in combinations(real, 2):
        if load != other or (load, a) not in logs or (load, b) not in logs:
            continue
        difference = statistics.fmean(real[load, a]) - statistics.fmean(real[load, b])
        error = math.inf if spread is None else spread * math.sqrt(1 / len(real[load, a]) + 1 / len(real[load, b]))
        if abs(difference) <= (stats.t.ppf(0.975, degrees) if degrees else math.inf) * error:
            unknown += 1
            continue
        found = (load, a, b) if difference < 0 else (load, b, a)
        told.append(found)
        if (logs[load, a] - logs[load, b]) * difference < 0:
            otherwise.append(found)
    return Rankings(spread, degrees, tuple(told), unknown, tuple(otherwise))


# Table and plot


def means_table(runs: Sequence[Finished], simulated: Simulated | str, load: str) -> list[list[str]]:
    """The means of each rival under a load, header first, in the order of the runs."""
    header = ["", "runs", "executor-seconds", "over the objective", "lag p95", "changes", "simulated: executor-seconds"]
    by_rival: dict[str, list[Figures]] = {}
    for run in runs:
        if run.load == load:
            by_rival.setdefault(run.rival, []).append(run.figures)
    rows = [header]
    for rival, found in by_rival.items():
        sims = [] if isinstance(simulated, str) else [each.executor_s for each in simulated.get((load, rival), ())]
        rows.append(
            [
                rival,
                str(len(found)),
                f"{statistics.fmean(each.executor_s for each in found):,.0f}",
                f"{statistics.fmean(each.over for each in found):.1%}",
                f"{statistics.fmean(each.lag_p95_s for each in found):.1f} s",
                f"{statistics.fmean(each.changes for each in found):.1f}",
                f"{statistics.fmean(sims):,.0f}" if sims else "",
            ]
        )
    return rows


def picture_of(runs: Sequence[Finished], load: str) -> str:
    """Executors and lag over time of the first run of each rival under a load, as SVG."""
    curves: dict[str, Curve] = {}
    for run in runs:
        if run.load == load and run.rival in ("static", *JUDGED_BY, OURS) and run.rival not in curves:
            curves[run.rival] = curve_of(read_journal(run.journal), run.began, run.figures.seconds)
    return draw_rivals(curves, f"The load {load}: executors, and the lag against the objective of 20 s", 20.0)


def curve_of(records: Iterable[Record], began: float, seconds: float) -> Curve:
    """A journal from the begin of its load on."""
    seen = [
        (each.at - began, each.assessment)
        for each in records
        if isinstance(each, DecisionRecord) and each.assessment is not None and 0 <= each.at - began <= seconds
    ]
    return Curve(
        executors=[(at, float(each.executors)) for at, each in seen if each.executors is not None],
        lag=[(at, each.lag_s) for at, each in seen if each.lag_s is not None],
    )
