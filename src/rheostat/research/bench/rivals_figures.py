"""The figures of ``bench rivals``: of one run from its journal, of pairs of runs, and of the same loads simulated.

Its picture is SVG, for pages that show pictures but run no script.
"""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats  # type: ignore[import-untyped]

from rheostat import __version__
from rheostat.calibrate.fit import calibrate
from rheostat.calibrate.measured import read_run
from rheostat.errors import RheostatError
from rheostat.journal.records import DecisionRecord, Record, SessionRecord
from rheostat.journal.store import MemoryJournal, read_journal
from rheostat.judge.cases import PolicySpec, settings_for
from rheostat.judge.simulate import run_loop
from rheostat.load.curves import Pieces
from rheostat.load.shapes import parse_shape
from rheostat.loop.build import build_decision_settings
from rheostat.policies.schedule import OPEN_LOOP
from rheostat.report.html import BLUE, COLORS, GREEN, GREY, LIGHT, ORANGE, RED
from rheostat.report.score import RunFacts, Sample, score
from rheostat.research.bench.harness import Bench, Metric, bootstrap_interval, metric
from rheostat.sample_store import MemorySampleStore
from rheostat.sim.capacity import SECONDS_PER_CHANGE
from rheostat.sim.job import SimulatedJob
from rheostat.sim.jobfile import JobFile
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


# Table and picture


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


# The picture

Points = Sequence[tuple[float, float]]
"""Seconds and values."""

_COLORS = {"static": GREY, "dynamic-allocation": ORANGE, "reactive": BLUE, "rheostat": GREEN}
_WIDTH, _LEFT, _RIGHT, _PANEL, _GAP, _TOP = 860, 52, 12, 190, 46, 58
_HEIGHT = _TOP + 2 * _PANEL + _GAP + 40


@dataclass(frozen=True, slots=True)
class Curve:
    """A run over time: registered executors, and the lag in seconds."""

    executors: Points
    lag: Points


def draw_rivals(curves: Mapping[str, Curve], title: str, objective_s: float) -> str:
    """Two panels one above the other, executors and lag, with a line for each run."""
    seconds = max((at for curve in curves.values() for at, _ in [*curve.executors, *curve.lag]), default=1.0) or 1.0
    upper = _Panel(_TOP, seconds, _most([each.executors for each in curves.values()], 1.0))
    lower = _Panel(_TOP + _PANEL + _GAP, seconds, _most([each.lag for each in curves.values()], 1.2 * objective_s))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="system-ui,sans-serif" '
        'font-size="12" fill="#1e293b">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="15">{html.escape(title)}</text>',
        *upper.frame("executors"),
        *lower.frame("lag, s"),
        lower.path([(0.0, objective_s), (seconds, objective_s)], RED, 'stroke-dasharray="5 4"'),
    ]
    for number, (name, curve) in enumerate(curves.items()):
        color = _COLORS.get(name, COLORS[number % len(COLORS)])
        parts += [upper.path(as_steps(curve.executors), color), lower.path(curve.lag, color)]
        x = _LEFT + 190 * number
        parts.append(f'<path d="M{x} 38h22" stroke="{color}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 28}" y="42">{html.escape(name)}</text>')
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 6}" text-anchor="end">seconds of the load</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def as_steps(points: Points) -> list[tuple[float, float]]:
    """Each value holds until the next one.

    >>> as_steps([(0.0, 1.0), (2.0, 3.0)])
    [(0.0, 1.0), (2.0, 1.0), (2.0, 3.0)]
    """
    corners = [(later, value) for (_, value), (later, _) in pairwise(points)]
    return [each for pair in zip(points, corners, strict=False) for each in pair] + list(points[-1:])


def _most(lines: Sequence[Points], least: float) -> float:
    return max([least, *(value for line in lines for _, value in line)])


@dataclass(frozen=True, slots=True)
class _Panel:
    """A plot from 0 to ``seconds`` and from 0 to ``most``; ``top`` is its upper edge."""

    top: int
    seconds: float
    most: float

    def _place(self, at: float, value: float) -> tuple[float, float]:
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * at / self.seconds
        return round(x, 1), round(self.top + _PANEL * (1 - value / (1.05 * self.most)), 1)

    def path(self, points: Points, color: str, more: str = "") -> str:
        places = (self._place(at, value) for at, value in points)
        line = "L".join(f"{x:g} {y:g}" for x, y in places)
        return f'<path d="M{line}" fill="none" stroke="{color}" stroke-width="1.8" {more}/>' if line else ""

    def frame(self, name: str) -> list[str]:
        parts = []
        for value in _ticks(self.most):
            y = self._place(0.0, value)[1]
            parts.append(f'<path d="M{_LEFT} {y:g}H{_WIDTH - _RIGHT}" stroke="{LIGHT}" stroke-width="0.7"/>')
            parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:g}" text-anchor="end">{value:g}</text>')
        for second in _ticks(self.seconds):
            x = self._place(second, 0.0)[0]
            parts.append(f'<text x="{x:g}" y="{self.top + _PANEL + 15}" text-anchor="middle">{second:g}</text>')
        middle = self.top + _PANEL // 2
        parts.append(f'<text transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">{name}</text>')
        return parts


def _ticks(most: float) -> list[float]:
    """Round numbers from 0 to ``most``, at most eight."""
    step = next(step for power in range(9) for step in (10**power, 2 * 10**power, 5 * 10**power) if most / step <= 7)
    return [float(step * number) for number in range(int(most // step) + 1)]


# The same loads under the same rivals, on the job that is fitted to the real runs

SEEDS = (1, 2, 3)
WARM_UP_S = 15.0
DRAIN_S = 600.0
"""Longest time after the load; a run that needs it all is far over its objective."""

_UNGUARDED: Mapping[str, Any] = {
    **OPEN_LOOP,
    "warm_up_batches": 0,
    "hold_batches": 0,
    "largest_step_down": None,
    "cooldown_down_s": 0.0,
    "failure_window_s": 0.0,
}
"""Spark's dynamic allocation has none of our guards."""

_TAKEN = ("policy", "policy_options", "guard", "mode", "executors")


def simulate_loads(runs: Sequence[Finished], shapes: Mapping[str, str], bounds: tuple[int, int]) -> Simulated | str:
    """Each rival under each load that it really had, with its settings and its executors at the begin of that load.

    A text, if the job could not be fitted: why.
    """
    given = {(run.load, run.rival): run for run in runs}
    curves = {load: parse_shape(shape).pieces() for load, shape in shapes.items()}
    try:
        job = _fit_job(runs, bounds)
        return {
            (load, rival): [_simulate(job, curves[load], _settings_of(run), _start_of(run), seed) for seed in SEEDS]
            for (load, rival), run in given.items()
            if load in curves
        }
    except RheostatError as error:
        return str(error).replace("\n", " ")


def _fit_job(runs: Sequence[Finished], bounds: tuple[int, int]) -> JobFile:
    """The job of all runs; those that Rheostat did not only watch come first, as the first one gives the settings."""
    ordered = sorted(runs, key=lambda run: run.rival.startswith("dynamic"))
    job = calibrate([read_run(run.journal) for run in ordered], name="click_fraud", warm_up_s=WARM_UP_S).job
    return job.model_copy(update={"executors": bounds})


def _settings_of(run: Finished) -> dict[str, Any]:
    sessions = [each for each in read_journal(run.journal) if isinstance(each, SessionRecord)]
    return {key: sessions[-1].header.settings[key] for key in _TAKEN}


def _start_of(run: Finished) -> int:
    """Executors at the begin of the load; dynamic allocation cannot be kept from adding some before it."""
    ((_, executors), *_) = curve_of(read_journal(run.journal), run.began, run.figures.seconds).executors
    return int(executors)


def _simulate(job: JobFile, load: Pieces, given: Mapping[str, Any], start: int, seed: int) -> Figures:
    """One run, with the figures from its journal as from a real one. What only was watched decides on its own here."""
    least, most = given["executors"]
    guard = _UNGUARDED if given["mode"] == "watch" else given["guard"]
    job = job.model_copy(update={"executors": (least, most), "start_executors": start})
    spec = PolicySpec(given["policy"], None, given["policy_options"], {"profile": "demo", "guard": guard})
    settings, end = settings_for(job, spec), load.duration + DRAIN_S
    simulated, journal = SimulatedJob(job, load, seed, start), MemoryJournal()
    run_loop(
        simulated,
        settings,
        build_decision_settings(settings, MemorySampleStore(), seed),
        journal,
        lambda now, _: simulated.drained or now >= end,
        job=job.name,
    )
    return figures_of(journal.records, 0.0, load.duration, job.objective_s)
