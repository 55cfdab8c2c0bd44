"""The closing report: one HTML file with everything in it, readable without a network."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rheostat.errors import Fault, InputError
from rheostat.report.series import Change, Series

__all__ = ["Page", "write_report"]

_BLUE, _GREEN, _RED, _GREY, _ORANGE = "#2563eb", "#16a34a", "#dc2626", "#94a3b8", "#ea580c"

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem;color:#1e293b}
h1{font-size:1.6rem;margin-bottom:.2rem} h2{font-size:1.15rem;margin-top:2rem}
.verdict{font-size:1.1rem;background:#f1f5f9;border-left:4px solid #2563eb;padding:.8rem 1rem}
table{border-collapse:collapse;width:100%;font-size:.92rem} th,td{text-align:left;padding:.3rem .6rem;
border-bottom:1px solid #e2e8f0;vertical-align:top} th{background:#f8fafc} td.n{text-align:right;white-space:nowrap}
.note{color:#475569;font-size:.92rem} code{background:#f1f5f9;padding:0 .25rem}
"""


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
    text = _document(page, run, _plots(run, objective_s))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"the report cannot be written: {error.strerror}"
        raise InputError([Fault("out", str(path), "a path that can be written", message)]) from error
    return path


def _document(page: Page, run: Series, plots: str) -> str:
    parts = [
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{html.escape(page.title)}</title>",
        f"<meta name='viewport' content='width=device-width'><style>{_STYLE}</style></head><body>",
        f"<h1>{html.escape(page.title)}</h1><p class='verdict'>{html.escape(page.verdict)}</p>",
        plots,
        "<h2>Every change of executors, and why</h2>",
        _changes(run),
        *(f"<h2>{html.escape(heading)}</h2>{_table(rows)}" for heading, rows in page.tables.items()),
        "<h2>Score</h2>",
        _table([["figure", "value"], *([key, _shown(value)] for key, value in page.score.items())]),
        "<h2>How to read this</h2><ul class='note'>",
        *(f"<li>{html.escape(note)}</li>" for note in page.notes),
        "</ul></body></html>",
    ]
    return "\n".join(parts)


def _plots(run: Series, objective_s: float) -> str:
    try:
        import plotly.graph_objects as go
        from plotly.subplots import make_subplots
    except ImportError as error:
        message = "reports need plotly: pip install 'rheostat[plots]'"
        raise InputError([Fault("out", "no plotly", "plotly >= 5.20", message)]) from error
    titles = ("Load, records/s", "Backlog, records", "Lag against the objective, s", "Executors")
    figure = make_subplots(rows=4, cols=1, shared_xaxes=True, vertical_spacing=0.05, subplot_titles=titles)
    for row, line in _lines(run):
        figure.add_trace(go.Scatter(x=run.at, **line), row=row, col=1)
    figure.add_hline(y=objective_s, line={"color": _RED, "dash": "dash"}, row=3, col=1)
    figure.add_trace(go.Scatter(**_marks(run)), row=4, col=1)
    figure.update_xaxes(title_text="seconds since the first cycle", row=4, col=1)
    figure.update_yaxes(rangemode="tozero")
    figure.update_layout(height=1050, template="plotly_white", hovermode="x", margin={"l": 60, "r": 20, "t": 40})
    return str(figure.to_html(full_html=False, include_plotlyjs=True))


def _lines(run: Series) -> list[tuple[int, dict[str, Any]]]:
    def line(name: str, y: Sequence[float | None], color: str, shape: str = "linear", **more: Any) -> dict[str, Any]:
        return {"name": name, "y": list(y), "mode": "lines", "line": {"color": color, "shape": shape}, **more}

    why = ["<br>".join(textwrap.wrap(html.escape(reason), 90)) for reason in run.reasons]
    return [
        (1, line("arrival", run.arrival, _BLUE)),
        (1, line("processed", run.processed, _GREEN)),
        (2, line("backlog", run.backlog, _ORANGE)),
        (2, line("excess", run.excess, _RED)),
        (3, line("lag", run.lag, _BLUE)),
        (4, line("wanted", run.requested, _GREY, "hv")),
        (4, line("registered", run.registered, _GREEN, "hv", text=why, hovertemplate="%{y}<br>%{text}")),
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
            "color": [_RED if decision.action == "up" else _BLUE for decision in decisions],
            "symbol": ["triangle-up" if decision.action == "up" else "triangle-down" for decision in decisions],
        },
        "text": ["<br>".join(textwrap.wrap(html.escape(decision.reason.text), 90)) for decision in decisions],
        "hovertemplate": "%{text}",
    }


def _changes(run: Series) -> str:
    header = ["second", "executors", "why", "what became of it"]
    return _table([header, *(_change_row(change, run.start) for change in run.changes)])


def _change_row(change: Change, start: float) -> list[str]:
    decided, outcome = change.decision, change.outcome
    became = "not recorded" if outcome is None else f"{outcome.status}: {outcome.reason.text}"
    before = "?" if decided.current is None else str(decided.current)
    why = f"{decided.reason.code}: {decided.reason.text}"
    return [f"{decided.at - start:.1f}", f"{before} → {decided.target}", why, became]


def _table(rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[1:])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shown(value: object) -> str:
    if value is None:
        return "not measured"
    return f"{value:,.3f}" if isinstance(value, float) else str(value)
