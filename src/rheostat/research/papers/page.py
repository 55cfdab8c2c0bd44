"""The report of an experiment: its statements, and the plots that the document has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rheostat.judge.scoring import Points
from rheostat.report.html import COLORS, GREY, PlotFigure, frame, heading, line, note_list, table, write_page
from rheostat.research.papers.results import Cycle, Experiment, Part, Result, Trial
from rheostat.research.papers.s1 import SLA

_TITLES = ("Load, records/s", "Executors in force", "Slow records, a share", "Residual of the model")
_X_AXIS = "seconds since the start of the load"


def write_experiment(path: Path, experiment: Experiment) -> Path:
    """Write the page and return its path.

    Raises:
        InputError: plotly is not installed, or the file cannot be written.
    """
    parts, plotted = list[str](), False
    for part in experiment.parts:
        parts.append(heading(part.title))
        if any(result.by_seed for result in part.results):
            parts.append(table(by_seed(part.results)))
        if part.trials:
            parts += [note_list([f"Plotted: seed {experiment.seeds[0]}."]), _plots(part, with_script=not plotted)]
            plotted = True
        if part.shares:
            parts.append(_shares(part))
    return write_parts(path, experiment, "statements of the document hold in ours", parts)


def write_parts(path: Path, experiment: Experiment, verdict: str, parts: Sequence[str]) -> Path:
    """Write a page with the statements first; ``verdict`` follows "2 of 5" in the title."""
    held, seeds = sum(result.holds for result in experiment.results), ", ".join(map(str, experiment.seeds))
    subtitle = f"{held} of {len(experiment.results)} {verdict}. Seeds: {seeds}."
    body = [table(rows_of(experiment)), note_list(experiment.notes), *parts]
    return write_page(path, frame(f"Rheostat: experiment {experiment.name}", subtitle, body))


def rows_of(experiment: Experiment) -> list[list[str]]:
    """The statements as a table, header first."""
    rows = [
        [each.id, each.statement, each.ours or "–", each.document or "–", "yes" if each.holds else "no", each.why]
        for each in experiment.results
    ]
    return [["", "statement", "ours", "the document", "holds", "why"], *rows]


def by_seed(results: Sequence[Result]) -> list[list[str]]:
    """Our figures with each seed, header first; for results with several seeds."""
    several = [result for result in results if result.by_seed]
    head = ["", *(f"seed {each.seed}" for each in several[0].by_seed)]
    return [head, *([r.id, *(each.ours + ("" if each.holds else " (no)") for each in r.by_seed)] for r in several)]


def columns(points: Points) -> tuple[list[float], list[float | None]]:
    """Times and values for a plot; five digits are more than it shows."""
    return [round(at, 1) for at, _ in points], [float(f"{value:.5g}") for _, value in points]


def _columns_of(trial: Trial, value_of: Callable[[Cycle], float | None]) -> tuple[list[float], list[float | None]]:
    values = [value_of(cycle) for cycle in trial.cycles]
    at = [cycle.at for cycle in trial.cycles]
    return at, [None if value is None else float(f"{value:.5g}") for value in values]


def _shares(part: Part) -> str:
    """Figure 36: executors that the load needs (w ÷ w_max) and executors there are; one plot for each policy."""
    known = [(name, trial, w_max) for name, trial in part.trials.items() if (w_max := trial.w_max)]
    if not known:
        return ""
    titles = [f"w ÷ w_max and executors: {name} (figure 36)" for name, _, _ in known]
    figure = PlotFigure(titles, _X_AXIS, height=280 * len(known))
    for row, (name, trial, w_max) in enumerate(known, 1):
        needed = [None if cycle.rate is None else float(f"{cycle.rate / w_max:.5g}") for cycle in trial.cycles]
        at, executors = _columns_of(trial, lambda cycle: cycle.executors)
        figure.add(row, line(f"{name}: w ÷ {w_max:.0f}", at, needed, GREY))
        figure.add(row, line(f"{name}: executors", at, executors, COLORS[row - 1], shape="hv"))
    return figure.html(with_script=False)


def _plots(part: Part, *, with_script: bool) -> str:
    figure = PlotFigure(_TITLES, _X_AXIS, height=1100)
    first = next(iter(part.trials.values()))
    figure.add(1, line("load", *_columns_of(first, lambda cycle: cycle.rate), GREY))
    for (name, trial), color in zip(part.trials.items(), COLORS, strict=False):
        executors = _columns_of(trial, lambda cycle: cycle.executors)
        slow = _columns_of(trial, lambda cycle: cycle.slow if cycle.counts else None)
        residuals = _columns_of(trial, lambda cycle: cycle.figures.get("residual"))
        figure.add(2, line(name, *executors, color, shape="hv", legendgroup=name))
        figure.add(3, line(name, *slow, color, showlegend=False, legendgroup=name))
        figure.add(4, line(name, *residuals, color, showlegend=False, legendgroup=name))
    figure.limit(3, SLA)
    return figure.html(with_script=with_script)
