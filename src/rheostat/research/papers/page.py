"""The report of an experiment: each statement, and the plots that the document has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rheostat.judge.scoring import Points
from rheostat.report.html import COLORS, GREY, PlotFigure, frame, heading, line, note_list, table, write_page
from rheostat.research.papers.results import Experiment, Look, Part, Result
from rheostat.research.papers.s1 import SLA

_TITLES = ("Load, records/s", "Executors in force", "Slow records, a share", "Residual of the model")


def write_experiment(path: Path, found: Experiment) -> Path:
    """Write the page and return its path.

    Raises:
        InputError: plotly is not installed, or the file cannot be written.
    """
    parts, drawn = list[str](), False
    for part in found.parts:
        parts.append(heading(part.title))
        if any(result.by_seed for result in part.results):
            parts.append(table(by_seed(part.results)))
        if part.trials:
            parts += [note_list([f"Plotted: seed {found.seeds[0]}."]), _plots(part, with_script=not drawn)]
            drawn = True
        if part.shares:
            parts.append(_shares(part))
    return write_found(path, found, "statements of the document hold in ours", parts)


def write_found(path: Path, found: Experiment, holds: str, parts: Sequence[str]) -> Path:
    """Write a page with the statements first; ``holds``: what so many of them do, in words."""
    held, seeds = sum(result.holds for result in found.results), ", ".join(map(str, found.seeds))
    verdict = f"{held} of {len(found.results)} {holds}. Seeds: {seeds}."
    told = [table(rows_of(found)), note_list(found.notes), *parts]
    return write_page(path, frame(f"Rheostat: experiment {found.name}", verdict, told))


def rows_of(found: Experiment) -> list[list[str]]:
    """The statements as a table, header first."""
    rows = [
        [each.id, each.statement, each.ours or "–", each.document or "–", "yes" if each.holds else "no", each.why]
        for each in found.results
    ]
    return [["", "statement", "ours", "the document", "holds", "why"], *rows]


def by_seed(results: Sequence[Result]) -> list[list[str]]:
    """What was seen with each seed, header first; of the statements that tell."""
    several = [result for result in results if result.by_seed]
    seeds = [seen.seed for seen in several[0].by_seed]
    cells = [[each.ours + ("" if each.holds else " (no)") for each in result.by_seed] for result in several]
    head = ["", *(f"seed {seed}" for seed in seeds)]
    return [head, *([result.id, *row] for result, row in zip(several, cells, strict=True))]


def columns(points: Points) -> tuple[list[float], list[float | None]]:
    """Times and values for a plot; five digits are more than it shows."""
    return [round(at, 1) for at, _ in points], [float(f"{value:.5g}") for _, value in points]


def _shares(part: Part) -> str:
    """Figure 36: how many executors the load needs, w ÷ w_max, and how many there are; one plot for each policy."""
    known = [(name, trial, w_max) for name, trial in part.trials.items() if (w_max := trial.w_max)]
    if not known:
        return ""
    titles = [f"w ÷ w_max and executors: {name} (figure 36)" for name, _, _ in known]
    figure = PlotFigure(titles, "seconds since the start of the load", height=280 * len(known))
    for row, (name, trial, w_max) in enumerate(known, 1):
        needed = [(look, None if look.rate is None else look.rate / w_max) for look in trial.looks]
        figure.add(row, line(f"{name}: w ÷ {w_max:.0f}", *_points(needed), GREY))
        there = [(look, look.executors) for look in trial.looks]
        figure.add(row, line(f"{name}: executors", *_points(there), COLORS[row - 1], shape="hv"))
    return figure.html(with_script=False)


def _plots(part: Part, *, with_script: bool) -> str:
    figure = PlotFigure(_TITLES, "seconds since the start of the load", height=1100)
    first = next(iter(part.trials.values()))
    figure.add(1, line("load", *_points([(look, look.rate) for look in first.looks]), GREY))
    for (name, trial), color in zip(part.trials.items(), COLORS, strict=False):
        same: dict[str, Any] = {"legendgroup": name}
        figure.add(2, line(name, *_points([(look, look.executors) for look in trial.looks]), color, shape="hv", **same))
        slow = [(look, look.slow if look.counts else None) for look in trial.looks]
        figure.add(3, line(name, *_points(slow), color, showlegend=False, **same))
        residuals = [(look, look.figures.get("residual")) for look in trial.looks]
        figure.add(4, line(name, *_points(residuals), color, showlegend=False, **same))
    figure.limit(3, SLA)
    return figure.html(with_script=with_script)


def _points(found: Sequence[tuple[Look, float | None]]) -> tuple[list[float], list[float | None]]:
    """Times and values; five digits are more than a plot shows."""
    return [look.at for look, _ in found], [None if value is None else float(f"{value:.5g}") for _, value in found]
