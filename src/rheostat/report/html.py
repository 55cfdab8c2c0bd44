"""The closing report: one HTML file with everything in it, readable without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rheostat.report.figures import figure_rows
from rheostat.report.parts import (
    BLUE,
    GREEN,
    GREY,
    NO_OUTCOME,
    ORANGE,
    RED,
    Figure,
    frame,
    heading,
    line,
    note_list,
    table,
    wrapped,
    write_page,
)
from rheostat.report.series import Change, Series

__all__ = ["Page", "write_report"]

_TITLES = ("Load, records/s", "Backlog, records", "Lag against the objective, s", "Executors")


@dataclass(frozen=True, slots=True)
class Page:
    """What a report says beside its plots.

    Attributes:
        title: its heading.
        verdict: the one sentence.
        notes: what a reader must know to judge the figures.
        score: the score, as in the JSON.
        tables: further tables by heading, each with a header row first.
    """

    title: str
    verdict: str
    notes: Sequence[str] = ()
    score: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)


def write_report(path: Path, page: Page, run: Series, objective_s: float) -> Path:
    """Write the report and return its path.

    Raises:
        InputError: plotly is not installed, or the file cannot be written.
    """
    parts = [
        _plots(run, objective_s),
        heading("Every change of executors, and why"),
        _changes(run),
        *(heading(title) + table(rows) for title, rows in page.tables.items()),
        heading("Score"),
        table(figure_rows(page.score, explained=True)),
        heading("How to read this"),
        note_list(page.notes),
    ]
    return write_page(path, frame(page.title, page.verdict, parts))


def _plots(run: Series, objective_s: float) -> str:
    figure = Figure(_TITLES, "seconds since the first cycle", height=1050)
    for row, drawn in _lines(run):
        figure.add(row, drawn)
    figure.limit(3, objective_s)
    figure.add(4, _marks(run))
    return figure.html(with_script=True)


def _lines(run: Series) -> list[tuple[int, dict[str, Any]]]:
    why = [wrapped(reason) for reason in run.reasons]
    told = {"text": why, "hovertemplate": "%{y}<br>%{text}"}
    return [
        (1, line("arrival", run.at, run.arrival, BLUE)),
        (1, line("processed", run.at, run.processed, GREEN)),
        (2, line("backlog", run.at, run.backlog, ORANGE)),
        (2, line("excess", run.at, run.excess, RED)),
        (3, line("lag", run.at, run.lag, BLUE)),
        (4, line("wanted", run.at, run.requested, GREY, shape="hv")),
        (4, line("registered", run.at, run.registered, GREEN, shape="hv", **told)),
    ]


def _marks(run: Series) -> dict[str, Any]:
    decisions = [change.decision for change in run.changes]
    return {
        "name": "decisions",
        "mode": "markers",
        "x": [decision.at - run.start for decision in decisions],
        "y": [decision.target for decision in decisions],
        "marker": {
            "size": 11,
            "color": [RED if decision.action == "up" else BLUE for decision in decisions],
            "symbol": ["triangle-up" if decision.action == "up" else "triangle-down" for decision in decisions],
        },
        "text": [wrapped(decision.why) for decision in decisions],
        "hovertemplate": "%{text}",
    }


def _changes(run: Series) -> str:
    header = ["second", "executors", "why", "what became of it"]
    return table([header, *(_change_row(change, run.start) for change in run.changes)])


def _change_row(change: Change, start: float) -> list[str]:
    decided, outcome = change.decision, change.outcome
    became = NO_OUTCOME if outcome is None else f"{outcome.status}: {outcome.reason.text}"
    before = "?" if decided.current is None else str(decided.current)
    why = f"{decided.reason.code}: {decided.why}"
    return [f"{decided.at - start:.1f}", f"{before} → {decided.target}", why, became]
