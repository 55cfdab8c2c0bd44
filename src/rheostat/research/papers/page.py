"""The report of an experiment: its statements, then the tables and plots of each part."""

from __future__ import annotations

from pathlib import Path

from rheostat.report.html import PlotFigure, frame, heading, note_list, table, write_page
from rheostat.research.papers.results import Experiment, Plot


def write_experiment(path: Path, experiment: Experiment) -> Path:
    """Write the page and return its path. Raises InputError: plotly is not installed, or the file cannot be written."""
    held, seeds = sum(result.holds for result in experiment.results), ", ".join(map(str, experiment.seeds))
    body, has_script = [table(rows_of(experiment)), note_list(experiment.notes)], False
    for part in experiment.parts:
        if part.tables or part.plots:
            body += [heading(part.title), note_list(part.notes), *map(table, part.tables)]
        for plot in part.plots:
            body.append(_draw(plot, with_script=not has_script))
            has_script = True
    verdict = f"{held} of {len(experiment.results)} statements hold. Seeds: {seeds}."
    return write_page(path, frame(f"Rheostat: experiment {experiment.name}", verdict, body))


def rows_of(experiment: Experiment) -> list[list[str]]:
    """The statements as a table, header first."""
    rows = [
        [each.id, each.statement, each.ours or "–", each.document or "–", "yes" if each.holds else "no", each.why]
        for each in experiment.results
    ]
    return [["", "statement", "ours", "the document", "holds", "why"], *rows]


def _draw(plot: Plot, *, with_script: bool) -> str:
    figure = PlotFigure(plot.titles, "seconds since the start of the load", height=plot.height)
    for row, drawn in plot.lines:
        figure.add(row, drawn)
    if plot.limit is not None:
        figure.limit(*plot.limit)
    return figure.html(with_script=with_script)
