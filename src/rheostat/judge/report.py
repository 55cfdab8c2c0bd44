"""The columns of a comparison's tables: one row a policy, means over the seeds, the best of each column known. Pure."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rheostat import __version__
from rheostat.errors import Fault, InputError, did_you_mean
from rheostat.judge.compare import Cells, Comparison, Entry, Found, Scene
from rheostat.judge.scoring import LEAST_MEAN_EXECUTORS, Points, Ranking, TimeSeries, shares
from rheostat.judge.simulate import Act
from rheostat.judge.worst_case import Defeat
from rheostat.report.html import (
    COLORS,
    LIGHT,
    NO_OUTCOME,
    PlotFigure,
    figure_rows,
    frame,
    heading,
    line,
    note_list,
    table,
    wrapped,
    write_page,
)
from rheostat.text import several

Score = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of a run; less of it is better.

    Attributes:
        key: its name for ``--sort``.
        title: with the unit, for people.
        value: of one score; None: not measured.
        digits: after the point.
        percent: whether it is a share that is shown in percent.
    """

    key: str
    title: str
    value: Callable[[Score], float | None]
    digits: int = 2
    percent: bool = False

    def shown(self, value: float | None) -> str:
        """The figure for people; a dash where it was not measured."""
        if value is None:
            return "–"
        return f"{100 * value:.{self.digits}f}%" if self.percent else f"{value:,.{self.digits}f}"


def _key(name: str) -> Callable[[Score], float | None]:
    return lambda score: score[name]


def _ratio(score: Score) -> float | None:
    cost, optimum = score["total_cost"], score["optimum_cost"]
    return cost / optimum if cost is not None and optimum else None


COLUMNS = (
    Column("cost", "cost, executor-h", _key("total_cost")),
    Column("ratio", "÷ optimum", _ratio, 3),
    Column("hours", "executor-h", _key("executor_hours")),
    Column("changes", "changes", _key("reconfigurations"), 0),
    Column("violation", "over objective", _key("violation_share"), 2, percent=True),
    Column("lag_p95", "lag p95, s", _key("lag_p95_s"), 1),
    Column("lag_max", "lag max, s", _key("lag_max_s"), 1),
    Column("accuracy_o", "acc. over", _key("provisioning_accuracy_o")),
    Column("accuracy_u", "acc. under", _key("provisioning_accuracy_u")),
    Column("timeshare_o", "time over", _key("timeshare_o"), 1, percent=True),
    Column("timeshare_u", "time under", _key("timeshare_u"), 1, percent=True),
    Column("excess", "excess time", _key("excess_time"), 4),
)
"""In the order in which they are shown."""


def column_named(key: str) -> Column:
    """The column of that name.

    Raises:
        InputError: there is none; with the nearest name.
    """
    known = {column.key: column for column in COLUMNS}
    if key in known:
        return known[key]
    message = f"there is no such column{did_you_mean(key, known)}"
    raise InputError([Fault("sort", repr(key), " | ".join(known), message)])


@dataclass(frozen=True, slots=True)
class Row:
    """A policy: its figures in the order of the columns. ``judged`` False: only shown, never the best."""

    name: str
    values: tuple[float | None, ...]
    judged: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """The rows, sorted; ``best``: the cells (row, column) with the least figure among the judged rows."""

    rows: tuple[Row, ...]
    best: frozenset[tuple[int, int]]

    def texts(self) -> list[list[str]]:
        """As text, header row first."""
        shown = [[column.shown(value) for column, value in zip(COLUMNS, row.values, strict=True)] for row in self.rows]
        return [["policy", *(column.title for column in COLUMNS)]] + [
            [row.name, *cells] for row, cells in zip(self.rows, shown, strict=True)
        ]

    @property
    def best_cells(self) -> frozenset[tuple[int, int]]:
        """The best ones as places in :meth:`texts`, without the header row and with the column of names."""
        return frozenset((row, column + 1) for row, column in self.best)


def table_of(runs: Mapping[str, Sequence[Score]], beside: Mapping[str, Sequence[Score]], sort: str = "cost") -> Table:
    """A table from the scores of each policy, and of what is shown beside them without being judged.

    Raises:
        InputError: there is no such column to sort by.
    """
    place = COLUMNS.index(column_named(sort))
    rows = [Row(name, _means(scores), all(score["valid"] for score in scores)) for name, scores in runs.items()]
    rows += [Row(name, _means(scores), judged=False) for name, scores in beside.items()]
    rows.sort(key=lambda row: math.inf if row.values[place] is None else row.values[place] or 0.0)
    return Table(tuple(rows), frozenset(_best(rows)))


def _means(scores: Sequence[Score]) -> tuple[float | None, ...]:
    return tuple(_mean([column.value(score) for score in scores]) for column in COLUMNS)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def _best(rows: Sequence[Row]) -> list[tuple[int, int]]:
    cells = []
    for column in range(len(COLUMNS)):
        values = [(row.values[column], place) for place, row in enumerate(rows) if row.judged]
        known = [(value, place) for value, place in values if value is not None]
        least = min((value for value, _ in known), default=None)
        cells += [(place, column) for value, place in known if value == least]
    return cells


# A comparison in words and tables, for terminals and pages alike. Pure.


OPTIMUM_RUN = "(optimum's plan)"
"""The name of the optimum's plan in tables."""

REACHED_RUN = "(plan with margin)"
"""The name of the cheapest plan with a margin."""

SHARES = "What is paid for beyond the optimum, in percent of it, means over the ranked cases"
"""The heading of :func:`share_rows`."""

READING = (
    "Cost: executor-hours from request until gone, plus 60 executor-seconds for every change, plus w × the hours over "
    "the objective; w is the fewest executors that carry the peak. Every run starts at the number that carries the "
    "first load, goes on until the last record is committed, and pays for that.",
    "Optimum: what one would pay who knows the load, in a model that can only be cheaper than the simulated "
    f"job. {OPTIMUM_RUN}: its plan followed open loop in the simulated job, increases ahead by the median start-up; it "
    f"keeps the lag at its very limit, where the sawtooth of batches is often over it. {REACHED_RUN}: the cheaper of "
    "two plans made for a quarter of the lag, with all of the capacity and with 95 % of it, followed likewise: what "
    "one can reach who knows the load. No policy is judged by them.",
    "Rankings: at w by cost ÷ optimum, at 3 w and w/3 by cost ÷ the cheapest run; geometric means over the ranked "
    "cases. At w/3 only policies whose every run is over the objective for at most 1 % of the time.",
    f"A load whose optimum needs fewer than {LEAST_MEAN_EXECUTORS:g} executors on average is shown, not ranked.",
    "acc. over, under: executors above and below demand, averaged over the time; time over, under: the share of the "
    "time; excess time: how much longer than the load the run took, as a share of it. Less is better in every column.",
)


DEFEAT_READING = (
    "Cost ÷ the clairvoyant optimum under the worst load that was found. Loads go from 4 % to 80 % of what all "
    "executors carry. A search finds a lower bound: a policy may lose more under a load that was not tried.",
    "The load is played as it is: `rheostat simulate --as-is --shape '…' --policy …` repeats the run.",
)
"""How to read the worst loads."""


@dataclass(frozen=True, slots=True)
class LoadTable:
    """A load on a job, over all seeds."""

    title: str
    notes: tuple[str, ...]
    table: Table
    entries: tuple[Entry, ...]


def load_tables(comparison: Comparison, sort: str = "cost") -> list[LoadTable]:
    """A table for each load and job, means over the seeds.

    Raises:
        InputError: there is no such column to sort by.
    """
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in comparison.entries:
        groups.setdefault((entry.case.job_label, entry.case.load.name), []).append(entry)
    return [_load_table(job, load, entries, sort) for (job, load), entries in groups.items()]


def _load_table(job: str, load: str, entries: Sequence[Entry], sort: str) -> LoadTable:
    runs: dict[str, list[Found]] = {}
    for entry in entries:
        for run in entry.runs:
            runs.setdefault(run.score["policy"], []).append(run)
    beside = {OPTIMUM_RUN: [entry.executed.score for entry in entries]}
    reached = [entry.reached.score for entry in entries if entry.reached is not None]
    if reached:
        beside[REACHED_RUN] = reached
    scores = {policy: [run.score for run in found] for policy, found in runs.items()}
    table = table_of(scores, beside, sort)
    return LoadTable(f"{load} on {job}", tuple(_notes(entries)), table, tuple(entries))


def _notes(entries: Sequence[Entry]) -> Iterator[str]:
    bound, seeds = entries[0].bound, [entry.case.seed for entry in entries]
    yield from bound.said
    mean = "; means over seeds " + ", ".join(map(str, seeds)) if len(seeds) > 1 else f"; seed {seeds[0]}"
    exact = f"{bound.error / bound.cost:.2%}" if bound.cost else f"{bound.error:,.2f} executor-h"
    yield (
        f"optimum {bound.cost:,.2f} executor-h (exact to {exact}): {bound.executor_hours:,.2f} "
        f"h, {several(bound.changes, 'change')}, {60 * bound.violation_hours:,.1f} min over the objective; mean "
        f"{bound.mean_executors:.2f} executors; w = {bound.weight}{mean}"
    )
    if not all(entry.ranked for entry in entries):
        why = "needs too few executors to leave anything to decide" if bound.cost else "costs nothing"
        yield f"not ranked: the optimum {why}"
    yield from unready_notes(entries)


def unready_notes(entries: Sequence[Entry]) -> Iterator[str]:
    """What policies never did in these runs, and what they would have needed: a sentence for each policy."""
    runs: dict[str, list[Found]] = {}
    for run in (run for entry in entries for run in entry.runs):
        runs.setdefault(run.score["policy"], []).append(run)
    for policy, every in runs.items():
        said = [run.unready for run in every if run.unready is not None]
        often = f" in {len(said)} of {len(every)} runs" if len(every) > 1 else ""
        if said:
            yield f"{policy}{often}: {said[0]}"


def ranking_rows(rankings: Sequence[Ranking]) -> list[list[str]]:
    """All rankings side by side, header row first, in the order of the first one."""
    if not rankings:
        return []
    titles = [f"{ranking.name}: place, ÷ {ranking.of.removeprefix('the ')}" for ranking in rankings]
    policies = [rank.policy for rank in rankings[0].ranks]
    told = [{rank.policy: rank for rank in ranking.ranks} for ranking in rankings]
    rows = [["policy", *titles]]
    for policy in policies:
        ranks = [ranks[policy] for ranks in told]
        cells = [f"{rank.place}.  {rank.ratio:.3f}" if rank.ratio is not None else f"–  {rank.why}" for rank in ranks]
        rows.append([policy, *cells])
    return rows


def share_rows(comparison: Comparison) -> list[list[str]]:
    """Where each policy's cost above the optimum comes from, in percent of the optimum, header row first."""
    found = sorted(shares(comparison.bills), key=lambda each: each.executors + each.changes + each.violations)
    rows = [["policy", "executors", "changes", "time over the objective", "together"]]
    for each in found:
        parts = (each.executors, each.changes, each.violations)
        rows.append([each.policy, *(f"{100 * part:+.1f}%" for part in (*parts, sum(parts)))])
    return rows if found else []


def defeat_rows(found: Sequence[Defeat]) -> list[list[str]]:
    """The worst load of each policy, header row first, the policy first that loses least."""
    rows = [["policy", "÷ optimum", "over objective", "loads tried", "the load"]]
    for each in sorted(found, key=lambda each: math.inf if each.ratio is None else each.ratio):
        ratio = "did not end" if each.ratio is None else f"{each.ratio:.3f}"
        violated = f"{each.entry.runs[0].score['violation_share']:.1%}"
        rows.append([each.policy, ratio, violated, str(each.tried), each.shape])
    return rows


def matrix_rows(cells: Cells) -> list[list[str]]:
    """Policies × jobs, header row first, the geometric mean last, the best policy first."""
    rows = [["policy", *cells.jobs, "geometric mean"]]
    for policy, overall in cells.overall.items():
        rows.append([policy, *map(_ratio_text, cells.ratios[policy]), _ratio_text(overall)])
    return rows


def verdict(comparison: Comparison) -> str:
    """One sentence: who is cheapest, by how much."""
    rankings = comparison.rankings
    placed = [rank for rank in rankings[0].ranks if rank.ratio is not None] if rankings else []
    if not placed:
        return "No policy could be ranked: see below why."
    best, cases = placed[0], rankings[0].cases
    where = "one case" if cases == 1 else f"{cases} cases"
    text = f"{best.policy} is cheapest over {where}, at {best.ratio:.3f} × the clairvoyant optimum"
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
    run, bound = entry.runs[0], entry.bound
    score = run.score
    if not score["valid"]:
        return f"{score['policy']}: the run does not count: {'; '.join(run.faults) or 'records are missing'}."
    used = f"{score['executor_hours']:,.2f} executor-hours with {several(score['reconfigurations'], 'change')}"
    violated = f"over the objective of {score['objective_s']:g} s for {score['violation_share']:.2%} of the time"
    times = f"{score['total_cost'] / bound.cost:.3f} × the clairvoyant optimum" if bound.cost else "the optimum is 0"
    return f"{score['policy']} used {used} and was {violated}: a cost of {score['total_cost']:,.2f}, {times}."


def _ratio_text(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


# A comparison as JSON, ``rheostat.compare/1``, and as a section of a Markdown page.


COMPARE_SCHEMA = "rheostat.compare/1"


def comparison_json(
    comparison: Comparison, cells: Cells | None = None, found: Sequence[Defeat] | None = None
) -> dict[str, Any]:
    """In the shape of ``rheostat.compare/1``: one score a policy, load and seed; the cases with their optimum.

    Args:
        comparison: the runs.
        cells: of a matrix.
        found: of a search for the worst loads; then policies cannot be ranked, as each has a load of its own.
    """
    return {
        "schema": COMPARE_SCHEMA,
        "version": __version__,
        "runs": [{**run.score, "unready": run.unready} for entry in comparison.entries for run in entry.runs],
        "cases": [_case(entry) for entry in comparison.entries],
        "rankings": [
            {
                "name": ranking.name,
                "of": ranking.of,
                "cases": ranking.cases,
                "ranks": [
                    {"policy": rank.policy, "place": rank.place, "ratio": rank.ratio, "why": rank.why or None}
                    for rank in ranking.ranks
                ],
            }
            for ranking in (comparison.rankings if found is None else ())
        ],
        "matrix": None if cells is None else _matrix(cells),
        "worst_cases": None if found is None else [_defeat(each) for each in found],
        "invalid": comparison.invalid,
        "undercut": comparison.undercuts,
    }


def _case(entry: Entry) -> dict[str, Any]:
    bound = entry.bound
    return {
        "job": entry.case.job_label,
        "trace": entry.case.load.name,
        "seed": entry.case.seed,
        "ranked": entry.ranked,
        "weight": bound.weight,
        "peak": bound.peak,
        "load": list(bound.said),
        "optimum": {
            "cost": bound.cost,
            "error": bound.error,
            "executor_hours": bound.executor_hours,
            "changes": bound.changes,
            "violation_hours": bound.violation_hours,
            "mean_executors": bound.mean_executors,
        },
        "executed": dict(entry.executed.score),
        "reached": None if entry.reached is None else dict(entry.reached.score),
    }


def _defeat(each: Defeat) -> dict[str, Any]:
    return {"policy": each.policy, "shape": each.shape, "ratio": each.ratio, "tried": each.tried}


def _matrix(cells: Cells) -> dict[str, Any]:
    return {
        "jobs": list(cells.jobs),
        "policies": [
            {"policy": policy, "ratios": list(cells.ratios[policy]), "geometric_mean": overall}
            for policy, overall in cells.overall.items()
        ],
    }


def spoken_command(arguments: Sequence[str]) -> str:
    """The command line as others can type it: files by their names, wherever they lay here."""
    return shlex.join(["rheostat", *(",".join(map(_name, argument.split(","))) for argument in arguments)])


def _name(piece: str) -> str:
    return Path(piece).name if piece.startswith(("/", "../", "~")) else piece


def section(
    title: str,
    made: str,
    comparison: Comparison,
    cells: Cells | None = None,
    found: Sequence[Defeat] | None = None,
) -> str:
    """A section of a Markdown page: who made it, the rankings and what explains them, and a table for each load.

    Args:
        title: its heading.
        made: by which command, on which machine.
        comparison: the runs.
        cells: of a matrix: it stands in place of the tables.
        found: of a search for the worst loads: only those are shown.
    """
    lines = [f"## {title}", "", made, ""]
    if found is not None:
        return "\n".join([*lines, *_markdown(defeat_rows(found)), "", *(f"- {text}" for text in DEFEAT_READING)])
    lines += [verdict(comparison), "", *_markdown(ranking_rows(comparison.rankings))]
    lines += ["", f"{SHARES}:", "", *_markdown(share_rows(comparison))]
    if cells is not None:
        lines += ["", "Cost ÷ optimum on each job, one setting a policy:", "", *_markdown(matrix_rows(cells))]
    for each in load_tables(comparison) if cells is None else ():
        lines += ["", f"### {each.title}", "", *_load_json(each)]
    lines += ["", *(f"- {text}" for text in (*READING, *comparison.invalid))]
    return "\n".join(lines)


def _load_json(each: LoadTable) -> Iterator[str]:
    marked = [
        [f"**{cell}**" if (row, column) in each.table.best_cells else cell for column, cell in enumerate(cells)]
        for row, cells in enumerate(each.table.texts()[1:])
    ]
    yield from _markdown([each.table.texts()[0], *marked])
    yield ""
    yield from (f"- {note}" for note in each.notes)


def _markdown(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield "| " + " | ".join(row) + " |"
        if number == 0:
            yield "|---" * len(row) + "|"


# The HTML reports of ``simulate`` and ``compare``: one file each, readable without a network.


def write_comparison(
    path: Path, comparison: Comparison, cells: Cells | None, sort: str, found: Sequence[Defeat] | None = None
) -> Path:
    """The report of a comparison, of a matrix, or of a search for the worst loads.

    Raises:
        InputError: plotly is not installed, or the file cannot be written.
    """
    if found is not None:
        parts = [table(defeat_rows(found)), heading("How to read this"), note_list(DEFEAT_READING)]
        return write_page(path, frame("Rheostat: the worst loads", "Every policy can be defeated: by these.", parts))
    parts = [heading("Rankings"), table(ranking_rows(comparison.rankings) or [["policy"]])]
    parts += [heading(SHARES), table(share_rows(comparison) or [["policy"]])]
    if cells is not None:
        parts += [heading("Cost ÷ optimum on each job, one setting a policy"), table(matrix_rows(cells))]
    drawn_before = False
    for each in load_tables(comparison, sort):
        html, drawn_before = _load(each, drawn_before)
        parts.append(html)
    parts += [heading("How to read this"), note_list([*READING, *comparison.invalid, *comparison.undercuts])]
    return write_page(path, frame("Rheostat: policies compared", verdict(comparison), parts))


def _load(each: LoadTable, drawn_before: bool) -> tuple[str, bool]:
    """A load's table and, where it was drawn, its figure; whether the page has the plots' script by now."""
    html = heading(each.title) + table(each.table.texts(), each.table.best_cells) + note_list(each.notes)
    figure = _figure(each.entries[0], with_script=not drawn_before)
    return html + figure, drawn_before or bool(figure)


def _figure(entry: Entry, *, with_script: bool) -> str:
    scene, beside = entry.bound.scene, entry.reached or entry.executed
    runs = [(run.score["policy"], run.tracks) for run in _cheapest_first(entry)]
    drawn: list[tuple[str, TimeSeries]] = [(name, tracks) for name, tracks in runs if tracks is not None]
    if scene is None or not drawn:
        return ""
    if beside.tracks is not None:
        drawn.insert(1, (REACHED_RUN if entry.reached else OPTIMUM_RUN, beside.tracks))
    return draw(scene, drawn, entry.case.job.objective_s, with_script=with_script)


def _cheapest_first(entry: Entry) -> Sequence[Found]:
    return sorted(entry.runs, key=lambda run: run.score["total_cost"])


def write_simulation(path: Path, entry: Entry) -> Path:
    """The report of one run, the first of the entry.

    Raises:
        InputError: plotly is not installed, or the file cannot be written.
    """
    run = entry.runs[0]
    acts = run.tracks.acts if run.tracks is not None else ()
    rows = [[f"{act.at:,.0f}", f"{act.before} → {act.after}", f"{act.code}: {act.text}", _became(act)] for act in acts]
    parts = [
        _figure(entry, with_script=True),
        heading("Changes of executors, and why"),
        table([["second", "executors", "why", "what became of it"], *rows]),
        heading("Decisions that changed nothing"),
        table([["how many", "code", "the last of them"], *hold_rows(run)]),
        heading("Score"),
        table(figure_rows(run.score, explained=True)),
        heading("How to read this"),
        note_list([*entry.bound.said, *unready_notes([entry]), *READING[:2], *run.faults]),
    ]
    title = f"Rheostat: {run.score['policy']}, {entry.case.name}"
    return write_page(path, frame(title, simulate_verdict(entry), parts))


def hold_rows(run: Found) -> list[list[str]]:
    """The decisions of a run that changed nothing, the most frequent code first."""
    held = sorted(run.holds.items(), key=lambda item: -item[1].count)
    return [[f"{each.count:,}", code, f"second {each.at:,.0f}: {each.text}"] for code, each in held]


def _became(act: Act) -> str:
    return NO_OUTCOME if act.outcome is None else act.outcome.value


# The plots of judged runs: load and capacity, executors and demand, lag and objective; why, under the pointer.


_TITLES = ("Load, and what the ready executors carry, records/s", "Executors", "Lag against the objective, s")
_UP, _DOWN = "triangle-up", "triangle-down"


def draw(scene: Scene, runs: Sequence[tuple[str, TimeSeries]], objective_s: float, *, with_script: bool) -> str:
    """One figure for the runs of a case; all but the first two are hidden until their name is clicked.

    Raises:
        InputError: plotly is not installed.
    """
    figure = PlotFigure(_TITLES, "seconds since the start of the load", height=950)
    figure.add(1, _line("load", scene.load, LIGHT))
    figure.add(2, _line("demand", scene.demand, LIGHT, shape="hv"))
    for place, (name, tracks) in enumerate(runs):
        for row, drawn in _run(name, tracks, COLORS[place % len(COLORS)], shown=place < 2):
            figure.add(row, drawn)
    figure.limit(3, objective_s)
    return figure.html(with_script=with_script)


def _run(name: str, tracks: TimeSeries, color: str, *, shown: bool) -> list[tuple[int, dict[str, Any]]]:
    """The lines of a run; they are shown and hidden together."""
    group: dict[str, Any] = {"legendgroup": name, "visible": True if shown else "legendonly"}
    return [
        (1, _line(name, tracks.capacity, color, shape="hv", dash="dot", showlegend=False, **group)),
        (2, _line(name, tracks.paid, color, shape="hv", **group)),
        (2, {**_marks(name, tracks.acts, color), "showlegend": False, **group}),
        (3, _line(name, tracks.lag, color, showlegend=False, **group)),
    ]


def _line(name: str, points: Points, color: str, **more: Any) -> dict[str, Any]:
    return line(name, [round(at, 1) for at, _ in points], [_short(value) for _, value in points], color, **more)


def _marks(name: str, acts: Sequence[Act], color: str) -> dict[str, Any]:
    return {
        "name": name,
        "mode": "markers",
        "x": [round(act.at, 1) for act in acts],
        "y": [act.after for act in acts],
        "marker": {"size": 8, "color": color, "symbol": [_UP if _rises(act) else _DOWN for act in acts]},
        "text": [wrapped(f"{act.before} → {act.after}, {act.code}: {act.text}") for act in acts],
        "hovertemplate": "%{text}",
    }


def _rises(act: Act) -> bool:
    return act.before is None or act.after >= act.before


def _short(value: float) -> float:
    """Five digits are more than a plot shows."""
    return float(f"{value:.5g}")
