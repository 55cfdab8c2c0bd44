"""HTML reports, one file each and readable without a network; and the definitions of all figures."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from rheostat.errors import Fault, InputError, to_install
from rheostat.files import reason_of
from rheostat.model import SheddingPlan
from rheostat.report.score import EVERY_SCORE, Figure, Series

_TITLES = ("Load, records/s", "Backlog, records", "Lag against the objective, s", "Executors")
_ACCURACY = "Accuracy of the sinks, share of the offered records"


@dataclass(frozen=True, slots=True)
class Page:
    """What a report says beside its plots.

    Attributes:
        verdict: one sentence.
        notes: what a reader must know to judge the figures.
        score: as in the JSON.
        tables: further tables by heading, each with a header row first.
    """

    title: str
    verdict: str
    notes: Sequence[str] = ()
    score: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)


def write_report(
    path: Path, page: Page, run: Series, objective_s: float, beside: tuple[str, Series] | None = None
) -> Path:
    """Write the report and return its path; InputError: plotly is not installed, or the file cannot be written.

    ``beside``: the name and the journal of another run, whose lag is shown beside that of this one.
    """
    changes = [["second", "executors", "why", "what became of it"]]
    for decision, outcome in run.changes:
        before = "?" if decision.current is None else str(decision.current)
        why = f"{decision.reason.code}: {decision.why}"
        became = NO_OUTCOME if outcome is None else f"{outcome.status}: {outcome.reason.text}"
        changes.append([f"{decision.at - run.start:.1f}", f"{before} → {decision.target}", why, became])
    parts = [
        _plots(run, objective_s, beside),
        heading("Every change of executors, and why"),
        table(changes),
        *(heading(title) + table(rows) for title, rows in page.tables.items()),
        heading("Score"),
        table(figure_rows(page.score, explained=True)),
        heading("How to read this"),
        note_list(page.notes),
    ]
    return write_page(path, frame(page.title, page.verdict, parts))


def _plots(run: Series, objective_s: float, beside: tuple[str, Series] | None) -> str:
    plans = [each.decision.shedding for each in run.cycles]
    titles = (*_TITLES, _ACCURACY) if any(plans) else _TITLES
    figure = PlotFigure(titles, "seconds since the first cycle", height=260 * len(titles))
    figure.add(1, line("arrival", run.at, run.column("arrival_rate"), BLUE))
    figure.add(1, line("processed", run.at, run.column("processed_rate"), GREEN))
    figure.add(2, line("backlog", run.at, run.column("backlog"), ORANGE))
    figure.add(2, line("excess", run.at, run.column("backlog_excess"), RED))
    figure.add(3, line("lag", run.at, run.column("lag_s"), BLUE))
    if beside is not None:
        figure.add(3, line(beside[0], beside[1].at, beside[1].column("lag_s"), GREY))
    figure.limit(3, objective_s)
    figure.add(4, line("target", run.at, run.targets(), GREY, shape="hv"))
    reasons = [wrapped(f"{each.decision.reason.code}: {each.decision.why}") for each in run.cycles]
    hover = {"text": reasons, "hovertemplate": "%{y}<br>%{text}"}
    figure.add(4, line("registered", run.at, run.column("executors"), GREEN, shape="hv", **hover))
    decisions = [decision for decision, _ in run.changes]
    marks = {
        "name": "decisions",
        "mode": "markers",
        "x": [decision.at - run.start for decision in decisions],
        "y": [decision.target for decision in decisions],
        "marker": {
            "size": 11,
            "color": [RED if decision.action == "up" else BLUE for decision in decisions],
            "symbol": [f"triangle-{decision.action}" for decision in decisions],
        },
        "text": [wrapped(decision.why) for decision in decisions],
        "hovertemplate": "%{text}",
    }
    figure.add(4, marks)
    names = dict.fromkeys(sink.sink for plan in plans if plan is not None for sink in plan.sinks)
    for name, color in zip(names, cycle(COLORS), strict=False):
        for column in ("wanted", "measured"):
            shares = [_accuracy_of(plan, name, column) for plan in plans]
            figure.add(5, line(f"{name}, {column}", run.at, shares, color if column == "measured" else LIGHT))
    return figure.html(with_script=True)


def _accuracy_of(plan: SheddingPlan | None, sink: str, column: str) -> float | None:
    found = () if plan is None else plan.sinks
    return next((getattr(each, column) for each in found if each.sink == sink), None)


# The parts of a page: frame, tables, plots. The script of the plots is in the file.

BLUE, GREEN, RED, GREY, ORANGE = "#2563eb", "#16a34a", "#dc2626", "#94a3b8", "#ea580c"
LIGHT = "#cbd5e1"

COLORS = (BLUE, GREEN, ORANGE, "#9333ea", "#0891b2", "#ca8a04", "#be185d", "#4d7c0f", "#7c2d12", "#475569")
"""For lines that differ in nothing else."""

NO_OUTCOME = "no end recorded: a later change or the end of the run came before it"
"""Stands for the outcome of a decision that acted and has none."""

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem;color:#1e293b}
h1{font-size:1.6rem;margin-bottom:.2rem} h2{font-size:1.15rem;margin-top:2rem}
.verdict{font-size:1.1rem;background:#f1f5f9;border-left:4px solid #2563eb;padding:.8rem 1rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.92rem} th,td{text-align:left;padding:.3rem .6rem;
border-bottom:1px solid #e2e8f0;vertical-align:top} th{background:#f8fafc} td.n{text-align:right;white-space:nowrap}
td.best{font-weight:700;color:#15803d}
.note{color:#475569;font-size:.92rem} code{background:#f1f5f9;padding:0 .25rem}
"""

_MISSING = f"reports need plotly; {to_install('plots')}"


def frame(title: str, verdict: str, parts: Sequence[str]) -> str:
    """A whole document; the parts are HTML, the other texts are not."""
    return "\n".join(
        [
            f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{html.escape(title)}</title>",
            f"<meta name='viewport' content='width=device-width'><style>{_STYLE}</style></head><body>",
            f"<h1>{html.escape(title)}</h1><p class='verdict'>{html.escape(verdict)}</p>",
            *parts,
            "</body></html>",
        ]
    )


def heading(text: str) -> str:
    return f"<h2>{html.escape(text)}</h2>"


def note_list(notes: Sequence[str]) -> str:
    items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return f"<ul class='note'>{items}</ul>" if items else ""


def table(rows: Sequence[Sequence[str]], best: frozenset[tuple[int, int]] = frozenset()) -> str:
    """A table, header row first. ``best``: cells to mark, by (row without the header, column)."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in rows[0])
    body = ""
    for row, cells in enumerate(rows[1:]):
        marks = [" class='best'" if (row, column) in best else "" for column in range(len(cells))]
        body += "<tr>" + "".join(f"<td{m}>{html.escape(c)}</td>" for m, c in zip(marks, cells, strict=True)) + "</tr>"
    return f"<div class='wide'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown, header row first; none without a row."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [*lines[:1], "|---" * len(rows[0]) + "|", *lines[1:]] if rows else []


def wrapped(text: str) -> str:
    """HTML for the box beside the pointer."""
    return "<br>".join(textwrap.wrap(html.escape(text), 90))


def line(name: str, x: Sequence[float], y: Sequence[float | None], color: str, **more: Any) -> dict[str, Any]:
    """A line for :meth:`PlotFigure.add`; ``shape="hv"`` makes it a step function."""
    style = {"color": color, "shape": more.pop("shape", "linear"), "dash": more.pop("dash", "solid")}
    return {"name": name, "x": list(x), "y": list(y), "mode": "lines", "line": style, **more}


def plots_installed() -> None:
    """Raises InputError where plotly is not installed."""
    try:
        import plotly  # noqa: F401
    except ImportError as error:
        raise InputError([Fault("out", "no plotly", "plotly >= 5.20", _MISSING)]) from error


def require_folder(field: str, folder: Path) -> None:
    """Make the folder, and check that files can be written into it; InputError: it is a file, or they cannot."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:
        reason = reason_of(error)
        allowed = "a folder, old or new, that can be written into"
        raise InputError([Fault(field, str(folder), allowed, f"nothing can be written there: {reason}")]) from error


class PlotFigure:
    """Plots one above the other, with one time axis; InputError: plotly is not installed."""

    def __init__(self, titles: Sequence[str], x_title: str, *, height: int) -> None:
        plots_installed()
        from plotly.subplots import make_subplots

        rows = len(titles)
        self._figure: Any = make_subplots(
            rows=rows, cols=1, shared_xaxes=True, vertical_spacing=0.05, subplot_titles=tuple(titles)
        )
        self._figure.update_xaxes(title_text=x_title, row=rows, col=1)
        self._figure.update_yaxes(rangemode="tozero")
        margin = {"l": 60, "r": 20, "t": 40}
        self._figure.update_layout(height=height, template="plotly_white", hovermode="x", margin=margin)

    def add(self, row: int, drawn: Mapping[str, Any]) -> None:
        """Draw a line or marks, as plotly's ``Scatter`` takes them; rows count from 1."""
        import plotly.graph_objects as go

        self._figure.add_trace(go.Scatter(**drawn), row=row, col=1)

    def limit(self, row: int, value: float) -> None:
        """Draw a dashed line across a plot."""
        self._figure.add_hline(y=value, line={"color": RED, "dash": "dash"}, row=row, col=1)

    def html(self, *, with_script: bool) -> str:
        """The plots; the script is needed once a page."""
        return str(self._figure.to_html(full_html=False, include_plotlyjs=with_script))


def write_page(path: Path, text: str) -> Path:
    """Write a page and return its path; InputError: it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"the report cannot be written: {error.strerror}"
        raise InputError([Fault("out", str(path), "a path that can be written", message)]) from error
    return path


# What ``simulate``, ``compare``, ``replay`` and ``demo`` print beside a score, and the page of all figures


OF_COMMANDS: Mapping[str, Mapping[str, Figure]] = {
    "simulate": {
        "holds": Figure("decisions that changed nothing, by reason code: count, and at (s) and text of the last"),
        "placements": Figure("where executors came and went, for a job with nodes; else left out"),
        "unready": Figure("what the policy never did, and what it would have needed; null: it was ready"),
        "no_effect": Figure("settings that were given and have no effect, and why"),
    },
    "compare": {"unready": Figure("in each run, as of simulate")},
    "replay": {
        "decisions": Figure("cycles that were decided again"),
        "identical": Figure("of those, how many came out as recorded"),
        "failed_cycles": Figure("cycles that had failed and were skipped"),
        "open_loop": Figure("whether other settings decided on the recorded observations: then the lag is unknown"),
        "differences": Figure("each decision that differs: at (s), decision, recorded, replayed"),
    },
    "demo": {"baseline": Figure("the score of the static run; null: it was not run")},
}
"""Further figures of each command."""

FIGURES: Mapping[str, Figure] = {
    **EVERY_SCORE,
    **{name: each for more in reversed(list(OF_COMMANDS.values())) for name, each in more.items()},
}

WHERE = "What each figure is: rheostat config reference --figures"
"""For the end of tables and of the help."""


def figure_rows(score: Mapping[str, Any], *, explained: bool = False) -> list[list[str]]:
    """The figures of a score, header row first: name, value, unit and, explained, the meaning."""
    rows = [["figure", "value", "unit", *(["what it is"] if explained else [])]]
    for name, value in score.items():
        known = FIGURES.get(name, Figure(""))
        text = "not measured" if value is None else f"{value:,.3f}" if isinstance(value, float) else str(value)
        rows.append([name, text, known.unit, *([known.meaning] if explained else [])])
    return rows


def figures_page() -> str:
    lines = [
        "# Figures",
        "",
        "<!-- Made by `rheostat config reference --figures --out docs/figures.md`; do not edit. -->",
        "",
        "What `simulate`, `compare`, `replay` and `demo` print, and write with `--json` and `--out`. A figure that was",
        "not measured is null. Those of a simulated job are exact, from its own history; those of a real one are from",
        "samples. S2: see [sources](policies.md#sources); SPEC RG: the elasticity metrics of the SPEC Research Group.",
        "",
        "## Every score (`rheostat.score/1`)",
        "",
        "| figure | unit | column in `compare` | what it is |",
        "|---|---|---|---|",
        *(f"| `{name}` | {each.unit} | {each.column} | {each.meaning} |" for name, each in EVERY_SCORE.items()),
        "",
        "## Beside it",
        "",
        "| command | figure | what it is |",
        "|---|---|---|",
    ]
    for command, figures in OF_COMMANDS.items():
        lines += [f"| `{command}` | `{name}` | {each.meaning} |" for name, each in figures.items()]
    return "\n".join(lines) + "\n"
