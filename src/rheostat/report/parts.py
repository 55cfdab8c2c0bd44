"""What our HTML pages are made of: the frame, tables, plots. The script is in the file: no page needs a network."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from rheostat.errors import Fault, InputError, to_install
from rheostat.files import reason_of

__all__ = [
    "BLUE",
    "COLORS",
    "GREEN",
    "GREY",
    "LIGHT",
    "NO_OUTCOME",
    "ORANGE",
    "RED",
    "Figure",
    "frame",
    "heading",
    "line",
    "note_list",
    "plots_installed",
    "require_folder",
    "shown",
    "table",
    "wrapped",
    "write_page",
]

BLUE, GREEN, RED, GREY, ORANGE = "#2563eb", "#16a34a", "#dc2626", "#94a3b8", "#ea580c"
LIGHT = "#cbd5e1"

COLORS = (BLUE, GREEN, ORANGE, "#9333ea", "#0891b2", "#ca8a04", "#be185d", "#4d7c0f", "#7c2d12", "#475569")
"""For lines that are told apart by nothing else."""

NO_OUTCOME = "no end recorded: a later change or the end of the run came before it"
"""What became of a decision that acted and of which nobody has said how it ended."""

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
    """A heading within the page."""
    return f"<h2>{html.escape(text)}</h2>"


def note_list(notes: Sequence[str]) -> str:
    """What a reader must know to judge the figures; nothing without notes."""
    items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return f"<ul class='note'>{items}</ul>" if items else ""


def table(rows: Sequence[Sequence[str]], best: frozenset[tuple[int, int]] = frozenset()) -> str:
    """A table, header row first. ``best``: cells to mark, by (row without the header, column)."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in rows[0])
    body = "".join(
        "<tr>" + "".join(_cell(cell, marked=(row, column) in best) for column, cell in enumerate(cells)) + "</tr>"
        for row, cells in enumerate(rows[1:])
    )
    return f"<div class='wide'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _cell(text: str, *, marked: bool) -> str:
    return f"<td class='best'>{html.escape(text)}</td>" if marked else f"<td>{html.escape(text)}</td>"


def shown(value: object) -> str:
    """A figure of a score for people."""
    if value is None:
        return "not measured"
    return f"{value:,.3f}" if isinstance(value, float) else str(value)


def wrapped(text: str) -> str:
    """A text that is shown when the pointer is over a mark."""
    return "<br>".join(textwrap.wrap(html.escape(text), 90))


def line(name: str, x: Sequence[float], y: Sequence[float | None], color: str, **more: Any) -> dict[str, Any]:
    """A line for :meth:`Figure.add`; ``shape="hv"`` makes it a step function."""
    style = {"color": color, "shape": more.pop("shape", "linear"), "dash": more.pop("dash", "solid")}
    return {"name": name, "x": list(x), "y": list(y), "mode": "lines", "line": style, **more}


def plots_installed() -> None:
    """Do nothing if plots can be drawn.

    Raises:
        InputError: plotly is not installed.
    """
    try:
        import plotly  # noqa: F401
    except ImportError as error:
        raise InputError([Fault("out", "no plotly", "plotly >= 5.20", _MISSING)]) from error


def require_folder(field: str, folder: Path) -> None:
    """Make the folder, and check that files can be written into it, before anything takes time.

    Raises:
        InputError: it is a file, or cannot be made or written into.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:
        reason = reason_of(error)
        allowed = "a folder, old or new, that can be written into"
        raise InputError([Fault(field, str(folder), allowed, f"nothing can be written there: {reason}")]) from error


class Figure:
    """Plots one above the other, with one time axis.

    Raises:
        InputError: plotly is not installed.
    """

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
        """A dashed line across a plot."""
        self._figure.add_hline(y=value, line={"color": RED, "dash": "dash"}, row=row, col=1)

    def html(self, *, with_script: bool) -> str:
        """The plots; the script is needed once a page."""
        return str(self._figure.to_html(full_html=False, include_plotlyjs=with_script))


def write_page(path: Path, text: str) -> Path:
    """Write a page and return its path.

    Raises:
        InputError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"the report cannot be written: {error.strerror}"
        raise InputError([Fault("out", str(path), "a path that can be written", message)]) from error
    return path
