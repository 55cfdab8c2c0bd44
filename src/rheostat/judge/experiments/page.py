"""The report of an experiment: each statement, and the plots that the document has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rheostat.judge.experiments.results import Experiment, Part
from rheostat.judge.experiments.s1_setting import SLA
from rheostat.judge.experiments.trial import Look
from rheostat.report.parts import COLORS, GREY, Figure, frame, heading, line, table, write_page

__all__ = ["rows_of", "write_experiment"]

_TITLES = ("Load, records/s", "Executors in force", "Slow records, a share", "Residual of the model")


def write_experiment(path: Path, found: Experiment) -> Path:
    """Write the page and return its path.

    Raises:
        InputError: plotly is not installed, or the file cannot be written.
    """
    held = sum(result.holds for result in found.results)
    parts, drawn = [table(rows_of(found))], False
    for part in found.parts:
        parts.append(heading(part.title))
        if part.trials:
            parts.append(_plots(part, with_script=not drawn))
            drawn = True
    verdict = f"{held} of {len(found.results)} statements of the document hold in ours."
    return write_page(path, frame(f"Rheostat: experiment {found.name}", verdict, parts))


def rows_of(found: Experiment) -> list[list[str]]:
    """The statements as a table, header first."""
    rows = [
        [each.id, each.statement, each.ours or "–", each.document or "–", "yes" if each.holds else "no", each.why]
        for each in found.results
    ]
    return [["", "statement", "ours", "the document", "holds", "why"], *rows]


def _plots(part: Part, *, with_script: bool) -> str:
    figure = Figure(_TITLES, "seconds since the start of the load", height=1100)
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


def _points(found: list[tuple[Look, float | None]]) -> tuple[list[float], list[float | None]]:
    """Times and values; five digits are more than a plot shows."""
    return [look.at for look, _ in found], [None if value is None else float(f"{value:.5g}") for _, value in found]
