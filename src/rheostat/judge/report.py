"""A comparison for people and machines: tables and sentences, JSON, a section in Markdown, and HTML reports."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rheostat import __version__
from rheostat.errors import Fault, InputError, did_you_mean
from rheostat.judge.compare import Cells, Comparison, Defeat, Entry, RunResult
from rheostat.judge.scoring import LEAST_MEAN_EXECUTORS, Points, Ranking, TimeSeries, shares
from rheostat.judge.simulate import Act
from rheostat.report.html import (
    COLORS,
    LIGHT,
    NO_OUTCOME,
    PlotFigure,
    figure_rows,
    frame,
    heading,
    line,
    markdown_table,
    note_list,
    table,
    wrapped,
    write_page,
)
from rheostat.text import several

Score = Mapping[str, Any]

OPTIMUM_RUN, REACHED_RUN = "(optimum's plan)", "(plan with margin)"
"""Names in tables of the optimum's plan, and of the cheapest plan with a margin."""

SHARES = "What is paid for beyond the optimum, in percent of it, means over the ranked cases"
"""The heading of :func:`share_rows`."""

MATRIX = "Cost ÷ optimum on each job, with one setting for each policy"
"""The heading of :func:`matrix_rows`."""

READING = (
    "Cost: executor-hours, each executor from its request until it is gone, plus 60 executor-seconds for every change, "
    "plus w × the hours over the objective; w is the fewest executors that carry the peak. Every run starts with the "
    "executors that carry the first load, lasts until the last record is committed, and pays for that.",
    "Optimum: the least cost with the load known in advance, in a model that can only be cheaper than the simulated "
    f"job. {OPTIMUM_RUN}: its plan followed open loop in the simulated job, increases ahead by the median start-up; it "
    f"keeps the lag at its very limit, which the sawtooth of batches often exceeds. {REACHED_RUN}: the cheaper of two "
    "plans made for a quarter of the lag, with all of the capacity and with 95 % of it, followed likewise: what can be "
    "reached with the load known in advance. No policy is ranked against them.",
    "Rankings: at w by cost ÷ optimum, at 3 w and w/3 by cost ÷ the cheapest run; geometric means over the ranked "
    "cases. At w/3 only policies whose every run is over the objective for at most 1 % of the time.",
    f"A load whose optimum needs fewer than {LEAST_MEAN_EXECUTORS:g} executors on average is shown, not ranked.",
    "acc. over, under: executors above and below demand, averaged over the time; time over, under: the share of the "
    "time; excess time: how much longer than the load the run took, as a share of it. Less is better in every column.",
)
"""How to read a comparison."""

DEFEAT_READING = (
    "Cost ÷ the clairvoyant optimum under the worst load that was found. Loads go from 4 % to 80 % of what all "
    "executors carry. A search finds a lower bound: a policy may lose more under a load that was not tried.",
    "The load is not scaled: `rheostat simulate --as-is --shape '…' --policy …` repeats the run.",
)
"""How to read the worst loads."""


# The table of a load: one row a policy, means over the seeds


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of a run; less is better. ``key``: its name for ``--sort``; ``figure``: in a score, or ``ratio``."""

    key: str
    title: str
    figure: str
    digits: int = 2
    percent: bool = False

    def value(self, score: Score) -> float | None:
        """The figure of one score; None: not measured."""
        if self.figure != "ratio":
            figure: float | None = score[self.figure]
            return figure
        cost, optimum = score["total_cost"], score["optimum_cost"]
        return cost / optimum if cost is not None and optimum else None

    def text(self, value: float | None) -> str:
        if value is None:
            return "–"
        return f"{100 * value:.{self.digits}f}%" if self.percent else f"{value:,.{self.digits}f}"


COLUMNS = (
    Column("cost", "cost, executor-h", "total_cost"),
    Column("ratio", "÷ optimum", "ratio", 3),
    Column("hours", "executor-h", "executor_hours"),
    Column("changes", "changes", "reconfigurations", 0),
    Column("violation", "over objective", "violation_share", 2, percent=True),
    Column("lag_p95", "lag p95, s", "lag_p95_s", 1),
    Column("lag_max", "lag max, s", "lag_max_s", 1),
    Column("accuracy_o", "acc. over", "provisioning_accuracy_o"),
    Column("accuracy_u", "acc. under", "provisioning_accuracy_u"),
    Column("timeshare_o", "time over", "timeshare_o", 1, percent=True),
    Column("timeshare_u", "time under", "timeshare_u", 1, percent=True),
    Column("excess", "excess time", "excess_time", 4),
)
"""In the order in which they are shown."""


def column_named(key: str) -> int:
    """The place of a column. Raises InputError: there is none of that name; with the nearest one."""
    keys = [column.key for column in COLUMNS]
    if key not in keys:
        message = f"there is no such column{did_you_mean(key, keys)}"
        raise InputError([Fault("sort", repr(key), " | ".join(keys), message)])
    return keys.index(key)


class Table(NamedTuple):
    """Rows of text, header row first; ``best``: places ``(row below the header, column)`` of the least figures."""

    texts: list[list[str]]
    best: frozenset[tuple[int, int]]


def table_of(runs: Mapping[str, Sequence[Score]], beside: Mapping[str, Sequence[Score]], sort: str = "cost") -> Table:
    """A sorted table from the scores of each policy, and of runs beside them that are never the best.

    Raises:
        InputError: there is no such column to sort by.
    """
    place = column_named(sort)
    rows = [(name, _means(scores), all(score["valid"] for score in scores)) for name, scores in runs.items()]
    rows += [(name, _means(scores), False) for name, scores in beside.items()]
    rows.sort(key=lambda row: math.inf if row[1][place] is None else row[1][place] or 0.0)
    texts = [["policy", *(column.title for column in COLUMNS)]]
    texts += [
        [name, *(column.text(each) for column, each in zip(COLUMNS, means, strict=True))] for name, means, _ in rows
    ]
    best: set[tuple[int, int]] = set()
    for column in range(len(COLUMNS)):
        known = [(row, means[column]) for row, (_, means, judged) in enumerate(rows) if judged]
        least = min((value for _, value in known if value is not None), default=None)
        best |= {(row, column + 1) for row, value in known if value is not None and value == least}
    return Table(texts, frozenset(best))


def _means(scores: Sequence[Score]) -> tuple[float | None, ...]:
    """The mean of each column; None where a score lacks the figure."""
    means: list[float | None] = []
    for column in COLUMNS:
        known = [value for score in scores if (value := column.value(score)) is not None]
        means.append(math.fsum(known) / len(known) if known and len(known) == len(scores) else None)
    return tuple(means)


@dataclass(frozen=True, slots=True)
class LoadTable:
    """A load on a job, over all seeds."""

    title: str
    notes: tuple[str, ...]
    table: Table
    entries: tuple[Entry, ...]


def load_tables(comparison: Comparison, sort: str = "cost") -> list[LoadTable]:
    """A table for each load and job, means over the seeds. Raises InputError: there is no such column to sort by."""
    groups: dict[str, list[Entry]] = {}
    for entry in comparison.entries:
        groups.setdefault(f"{entry.case.load.name} on {entry.case.job_label}", []).append(entry)
    tables = []
    for title, entries in groups.items():
        beside = {OPTIMUM_RUN: [entry.executed.score for entry in entries]}
        reached = [entry.reached.score for entry in entries if entry.reached is not None]
        if reached:
            beside[REACHED_RUN] = reached
        scores = {policy: [run.score for run in runs] for policy, runs in _runs_by_policy(entries).items()}
        tables.append(LoadTable(title, tuple(_notes(entries)), table_of(scores, beside, sort), tuple(entries)))
    return tables


def _runs_by_policy(entries: Iterable[Entry]) -> dict[str, list[RunResult]]:
    runs: dict[str, list[RunResult]] = {}
    for run in (run for entry in entries for run in entry.runs):
        runs.setdefault(run.score["policy"], []).append(run)
    return runs


def _notes(entries: Sequence[Entry]) -> Iterator[str]:
    first, seeds = entries[0], [entry.case.seed for entry in entries]
    best = first.optimum
    yield from first.preparation
    mean = "; means over seeds " + ", ".join(map(str, seeds)) if len(seeds) > 1 else f"; seed {seeds[0]}"
    exact = f"{best.error_bound / best.cost:.2%}" if best.cost else f"{best.error_bound:,.2f} executor-h"
    yield (
        f"optimum {best.cost:,.2f} executor-h (exact to {exact}): {best.executor_hours:,.2f} "
        f"h, {several(best.changes, 'change')}, {60 * best.violation_hours:,.1f} min over the objective; mean "
        f"{best.mean_executors:.2f} executors; w = {first.weight}{mean}"
    )
    if not all(entry.ranked for entry in entries):
        why = "needs too few executors to leave anything to decide" if best.cost else "costs nothing"
        yield f"not ranked: the optimum {why}"
    yield from unready_notes(entries)


def unready_notes(entries: Iterable[Entry]) -> Iterator[str]:
    """A sentence for each policy that was not ready in some of these runs, with what it would have needed."""
    for policy, runs in _runs_by_policy(entries).items():
        unready = [run.unready for run in runs if run.unready is not None]
        often = f" in {len(unready)} of {len(runs)} runs" if len(runs) > 1 else ""
        if unready:
            yield f"{policy}{often}: {unready[0]}"


# Further tables, header row first, and the one sentence


def ranking_rows(rankings: Sequence[Ranking]) -> list[list[str]]:
    """All rankings side by side, in the order of the first one."""
    if not rankings:
        return []
    titles = [f"{ranking.name}: place, ÷ {ranking.of.removeprefix('the ')}" for ranking in rankings]
    by_policy = [{rank.policy: rank for rank in ranking.ranks} for ranking in rankings]
    rows = [["policy", *titles]]
    for first in rankings[0].ranks:
        ranks = [ranks[first.policy] for ranks in by_policy]
        cells = [f"–  {rank.why}" if rank.ratio is None else f"{rank.place}.  {rank.ratio:.3f}" for rank in ranks]
        rows.append([first.policy, *cells])
    return rows


def share_rows(comparison: Comparison) -> list[list[str]]:
    """Where each policy's cost above the optimum comes from, in percent of the optimum."""
    rows = [["policy", "executors", "changes", "time over the objective", "together"]]
    for each in sorted(shares(comparison.bills), key=lambda each: each.executors + each.changes + each.violations):
        parts = (each.executors, each.changes, each.violations)
        rows.append([each.policy, *(f"{100 * part:+.1f}%" for part in (*parts, sum(parts)))])
    return rows if len(rows) > 1 else []


def defeat_rows(defeats: Sequence[Defeat]) -> list[list[str]]:
    """The worst load of each policy, the policy first that loses least."""
    rows = [["policy", "÷ optimum", "over objective", "loads tried", "the load"]]
    for each in sorted(defeats, key=lambda each: math.inf if each.ratio is None else each.ratio):
        ratio = "did not end" if each.ratio is None else f"{each.ratio:.3f}"
        violated = f"{each.entry.runs[0].score['violation_share']:.1%}"
        rows.append([each.policy, ratio, violated, str(each.tried), each.shape])
    return rows


def matrix_rows(cells: Cells) -> list[list[str]]:
    """Policies × jobs, the geometric mean last, the best policy first."""
    rows = [[policy, *map(_ratio_text, ratios)] for policy, ratios in cells.ratios.items()]
    return [["policy", *cells.jobs, "geometric mean"], *rows]


def verdict(comparison: Comparison) -> str:
    """One sentence: which policy is cheapest, by how much."""
    rankings = comparison.rankings
    placed = [rank for rank in rankings[0].ranks if rank.ratio is not None] if rankings else []
    if not placed:
        return "No policy could be ranked: see below why."
    best, cases = placed[0], rankings[0].cases
    where = "one case" if cases == 1 else f"{cases} cases"
    text = f"{best.policy} is cheapest over {where}, at {_ratio_text(best.ratio)} × the clairvoyant optimum"
    level = [rank.policy for rank in placed[1:] if _ratio_text(rank.ratio) == _ratio_text(best.ratio)]
    rest = placed[1 + len(level) :]
    if level:
        text += f", as {'is' if len(level) == 1 else 'are'} {' and '.join(level)}"
    if rest:
        text += f"; {rest[0].policy} follows at {_ratio_text(rest[0].ratio)}"
    if len(rest) > 1:
        text += f", {rest[-1].policy} is last at {_ratio_text(rest[-1].ratio)}"
    return text + "."


def simulate_verdict(entry: Entry) -> str:
    """One sentence on the first run of a case."""
    run, optimum = entry.runs[0], entry.optimum.cost
    score = run.score
    if not score["valid"]:
        return f"{score['policy']}: the run does not count: {'; '.join(run.faults) or 'records are missing'}."
    used = f"{score['executor_hours']:,.2f} executor-hours with {several(score['reconfigurations'], 'change')}"
    violated = f"over the objective of {score['objective_s']:g} s for {score['violation_share']:.2%} of the time"
    times = f"{score['total_cost'] / optimum:.3f} × the clairvoyant optimum" if optimum else "the optimum is 0"
    return f"{score['policy']} used {used} and was {violated}: a cost of {score['total_cost']:,.2f}, {times}."


def hold_rows(run: RunResult) -> list[list[str]]:
    """The decisions of a run that changed nothing, header row first, then the most frequent code."""
    held = sorted(run.holds.items(), key=lambda item: -item[1].count)
    rows = [[f"{each.count:,}", code, f"second {each.at:,.0f}: {each.text}"] for code, each in held]
    return [["how many", "code", "the last of them"], *rows]


def _ratio_text(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


# JSON, ``rheostat.compare/1``


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """In the shape of ``rheostat.compare/1``: one score a policy, load and seed; the cases with their optimum."""
    cells, defeats = comparison.cells, comparison.defeats
    worst = None if defeats is None else [{name: getattr(each, name) for name in _DEFEAT} for each in defeats]
    return {
        "schema": "rheostat.compare/1",
        "version": __version__,
        "runs": [{**run.score, "unready": run.unready} for entry in comparison.entries for run in entry.runs],
        "cases": [_case_json(entry) for entry in comparison.entries],
        "rankings": [asdict(ranking) for ranking in comparison.rankings],
        "matrix": None if cells is None else _matrix_json(cells),
        "worst_cases": worst,
        "invalid": comparison.invalid,
        "undercut": comparison.undercuts,
    }


_DEFEAT = ("policy", "shape", "ratio", "tried")


def _case_json(entry: Entry) -> dict[str, Any]:
    best = entry.optimum
    figures = {"error": best.error_bound, **asdict(best.parts), "mean_executors": best.mean_executors}
    return {
        "job": entry.case.job_label,
        "trace": entry.case.load.name,
        "seed": entry.case.seed,
        "ranked": entry.ranked,
        "weight": entry.weight,
        "peak": entry.peak,
        "load": list(entry.preparation),
        "optimum": {"cost": best.cost, **figures},
        "executed": dict(entry.executed.score),
        "reached": None if entry.reached is None else dict(entry.reached.score),
    }


def _matrix_json(cells: Cells) -> dict[str, Any]:
    policies = [
        {"policy": policy, "ratios": list(of_jobs), "geometric_mean": overall}
        for policy, (*of_jobs, overall) in cells.ratios.items()
    ]
    return {"jobs": list(cells.jobs), "policies": policies}


# A section of a Markdown page


def section(title: str, made: str, comparison: Comparison) -> str:
    """A section of a Markdown page: ``made`` (by which command, on which machine), rankings, and a table for each load.

    A matrix stands in place of the tables; of a search for the worst loads only those are shown.
    """
    lines, cells = [f"## {title}", "", made, ""], comparison.cells
    if comparison.defeats is not None:
        worst = markdown_table(defeat_rows(comparison.defeats))
        return "\n".join([*lines, *worst, "", *(f"- {text}" for text in DEFEAT_READING)])
    lines += [verdict(comparison), "", *markdown_table(ranking_rows(comparison.rankings))]
    lines += ["", f"{SHARES}:", "", *markdown_table(share_rows(comparison))]
    if cells is not None:
        lines += ["", f"{MATRIX}:", "", *markdown_table(matrix_rows(cells))]
    for each in load_tables(comparison) if cells is None else ():
        header, *rows = each.table.texts
        marked = [
            [f"**{cell}**" if (row, column) in each.table.best else cell for column, cell in enumerate(texts)]
            for row, texts in enumerate(rows)
        ]
        notes = [f"- {note}" for note in each.notes]
        lines += ["", f"### {each.title}", "", *markdown_table([header, *marked]), "", *notes]
    lines += ["", *(f"- {text}" for text in (*READING, *comparison.invalid))]
    return "\n".join(lines)


def portable_command(arguments: Sequence[str]) -> str:
    """The command line as others can type it: files by their names, without the folders of this machine."""

    def shorten(piece: str) -> str:
        return Path(piece).name if piece.startswith(("/", "../", "~")) else piece

    return shlex.join(["rheostat", *(",".join(map(shorten, argument.split(","))) for argument in arguments)])


# The HTML reports of ``simulate`` and ``compare``: one file each, readable without a network


def write_comparison(path: Path, comparison: Comparison, sort: str = "cost") -> Path:
    """The report of a comparison, of a matrix, or of a search for the worst loads.

    Raises:
        InputError: plotly is not installed, or the file cannot be written.
    """
    if comparison.defeats is not None:
        parts = [table(defeat_rows(comparison.defeats)), heading("How to read this"), note_list(DEFEAT_READING)]
        title, subtitle = "Rheostat: the worst loads", "Each policy, with the load under which it loses most."
        return write_page(path, frame(title, subtitle, parts))
    parts = [heading("Rankings"), table(ranking_rows(comparison.rankings) or [["policy"]])]
    parts += [heading(SHARES), table(share_rows(comparison) or [["policy"]])]
    if comparison.cells is not None:
        parts += [heading(MATRIX), table(matrix_rows(comparison.cells))]
    drawn_before = False
    for each in load_tables(comparison, sort):
        figure = _figure(each.entries[0], with_script=not drawn_before)
        drawn_before = drawn_before or bool(figure)
        rows = table(each.table.texts, each.table.best)
        parts.append(heading(each.title) + rows + note_list(each.notes) + figure)
    parts += [heading("How to read this"), note_list([*READING, *comparison.invalid, *comparison.undercuts])]
    return write_page(path, frame("Rheostat: policies compared", verdict(comparison), parts))


def write_simulation(path: Path, entry: Entry) -> Path:
    """The report of one run, the first of the entry.

    Raises:
        InputError: plotly is not installed, or the file cannot be written.
    """
    run = entry.runs[0]
    changes = [["second", "executors", "why", "outcome"]]
    for act in () if run.series is None else run.series.acts:
        outcome = NO_OUTCOME if act.outcome is None else act.outcome.value
        changes.append([f"{act.at:,.0f}", f"{act.before} → {act.after}", f"{act.code}: {act.text}", outcome])
    parts = [
        _figure(entry, with_script=True),
        heading("Changes of executors, and why"),
        table(changes),
        heading("Decisions that changed nothing"),
        table(hold_rows(run)),
        heading("Score"),
        table(figure_rows(run.score, explained=True)),
        heading("How to read this"),
        note_list([*entry.preparation, *unready_notes([entry]), *READING[:2], *run.faults]),
    ]
    title = f"Rheostat: {run.score['policy']}, {entry.case.name}"
    return write_page(path, frame(title, simulate_verdict(entry), parts))


_TITLES = ("Load, and what the ready executors carry, records/s", "Executors", "Lag against the objective, s")


def _figure(entry: Entry, *, with_script: bool) -> str:
    """Load and capacity, executors and demand, lag and objective; empty if no run is drawn.

    The cheapest run and the plan that knows the load are shown, the others when their name is clicked.
    """
    scene, beside = entry.scene, entry.reached or entry.executed
    cheapest_first = sorted(entry.runs, key=lambda run: run.score["total_cost"])
    drawn = [(run.score["policy"], run.series) for run in cheapest_first if run.series is not None]
    if scene is None or not drawn:
        return ""
    if beside.series is not None:
        drawn.insert(1, (REACHED_RUN if entry.reached else OPTIMUM_RUN, beside.series))
    figure = PlotFigure(_TITLES, "seconds since the start of the load", height=950)
    figure.add(1, _line("load", scene.load, LIGHT))
    figure.add(2, _line("demand", scene.demand, LIGHT, shape="hv"))
    for place, (name, series) in enumerate(drawn):
        _draw_run(figure, name, series, COLORS[place % len(COLORS)], shown=place < 2)
    figure.limit(3, entry.case.job.objective_s)
    return figure.html(with_script=with_script)


def _draw_run(figure: PlotFigure, name: str, series: TimeSeries, color: str, *, shown: bool) -> None:
    """The lines of a run, which are shown and hidden together."""
    group: dict[str, Any] = {"legendgroup": name, "visible": True if shown else "legendonly"}
    figure.add(1, _line(name, series.capacity, color, shape="hv", dash="dot", showlegend=False, **group))
    figure.add(2, _line(name, series.paid, color, shape="hv", **group))
    figure.add(2, {**_marks(name, series.acts, color), "showlegend": False, **group})
    figure.add(3, _line(name, series.lag, color, showlegend=False, **group))


def _line(name: str, points: Points, color: str, **more: Any) -> dict[str, Any]:
    """A line with five significant digits, more than a plot shows."""
    return line(name, [round(at, 1) for at, _ in points], [float(f"{value:.5g}") for _, value in points], color, **more)


def _marks(name: str, acts: Sequence[Act], color: str) -> dict[str, Any]:
    rises = [act.before is None or act.after >= act.before for act in acts]
    return {
        "name": name,
        "mode": "markers",
        "x": [round(act.at, 1) for act in acts],
        "y": [act.after for act in acts],
        "marker": {"size": 8, "color": color, "symbol": ["triangle-up" if up else "triangle-down" for up in rises]},
        "text": [wrapped(f"{act.before} → {act.after}, {act.code}: {act.text}") for act in acts],
        "hovertemplate": "%{text}",
    }
