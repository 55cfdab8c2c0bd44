"""The report of S2's experiment: the statements, the tables, and supply against demand for one seed."""

from __future__ import annotations

from pathlib import Path

from rheostat.judge.experiments.page import columns, write_found
from rheostat.judge.experiments.s2 import Nodes, table_rows
from rheostat.judge.experiments.s2_runs import Drawn
from rheostat.report.parts import COLORS, GREY, Figure, heading, line, note_list, table

__all__ = ["write_nodes"]

_NOTE = (
    "Means over the seeds ± half of the 95 % interval; accuracies in nodes, excess as a share of T, cost in minutes."
)


def write_nodes(path: Path, found: Nodes) -> Path:
    """Write the page and return its path.

    Raises:
        InputError: plotly is not installed, or the file cannot be written.
    """
    parts = list[str]()
    for each in found.tables:
        parts += [heading(each.title), note_list([_NOTE]), table(table_rows(each))]
    if found.drawn:
        parts += [heading(f"Supply and demand, seed {found.seeds[0]}")]
        parts += [_plots(name, drawn, first=place == 0) for place, (name, drawn) in enumerate(found.drawn.items())]
    return write_found(path, found, "statements hold in ours", parts)


def _plots(name: str, drawn: Drawn, *, first: bool) -> str:
    figure = Figure((f"{name}: records/s", "Nodes"), "seconds since the start of the load", height=480)
    figure.add(1, line("arrive", *columns(drawn.load), GREY))
    figure.add(1, line("processed", *columns(drawn.throughput), COLORS[0]))
    figure.add(2, line("demand", *columns(drawn.demand), GREY, shape="hv"))
    figure.add(2, line("supply", *columns(drawn.supply), COLORS[0], shape="hv"))
    return figure.html(with_script=first)
