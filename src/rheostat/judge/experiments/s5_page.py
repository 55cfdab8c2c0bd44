"""The report of S5's experiments: the statements, a table and plots of each part, and what each seed showed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rheostat.judge.experiments.page import by_seed, columns, write_found
from rheostat.judge.experiments.s5 import Drawn, Routers
from rheostat.report.parts import COLORS, GREY, Figure, heading, line, note_list, table

__all__ = ["write_routers"]

_NOTE = "Means over the seeds, of the fleet summed over its jobs; the largest lag of all. Plotted: seed {}."
_TITLES = ("Load and what the executors carry, records/s", "Executors paid for", "Lag, s")


def write_routers(path: Path, found: Routers) -> Path:
    """Write the page and return its path.

    Raises:
        InputError: plotly is not installed, or the file cannot be written.
    """
    parts, first = list[str](), True
    for part in found.parts:
        parts += [heading(part.title), note_list([_NOTE.format(found.seeds[0])]), table(found.tables[part.title])]
        parts.append(_plots(found.drawn[part.title], with_script=first))
        first = False
    if len(found.seeds) > 1:
        parts += [heading("By seed"), table(by_seed(found.results))]
    return write_found(path, found, "statements hold", parts)


def _plots(drawn: Drawn, *, with_script: bool) -> str:
    figure = Figure(_TITLES, "seconds since the start of the load", height=820)
    if drawn.load:
        figure.add(1, line("load", *columns(drawn.load), GREY))
    for (name, run), color in zip(drawn.runs.items(), COLORS, strict=False):
        same: dict[str, Any] = {"legendgroup": name}
        figure.add(1, line(name, *columns(run.capacity), color, shape="hv", showlegend=False, **same))
        figure.add(2, line(name, *columns(run.paid), color, shape="hv", **same))
        figure.add(3, line(name, *columns(run.lag), color, showlegend=False, **same))
    return figure.html(with_script=with_script)
