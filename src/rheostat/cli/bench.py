"""``rheostat bench NAME``: the benchmarks behind every figure that we state."""

from __future__ import annotations

import difflib
import importlib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from rheostat.cli.output import JsonFlag, console, print_json
from rheostat.cli.progress import progress_lines
from rheostat.errors import Fault, InputError, tried

__all__ = ["NAMES", "register"]

NAMES = ("attach", "controller", "decision", "fleet-train", "rescale", "simulate", "standby", "train", "truth")
"""Modules of :mod:`rheostat.bench`, a dash for each underscore; each has ``run(watch)``."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("bench")(bench)


def bench(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(NAMES)}.")],
    page: Annotated[Path | None, typer.Option(help="Also write the figures into this Markdown page.")] = None,
    recorded: Annotated[
        Path | None, typer.Option(help="train: recorded runs (CSV), to check the limit of stability on too.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure, and say which targets are met. A missed target is no failure of the command."""
    from rheostat.bench.page import require_page, update_page

    faults: list[Fault] = []
    if name not in NAMES:
        close = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        faults.append(Fault("name", repr(name), ", ".join(NAMES), f"there is no such benchmark{hint}"))
    if page is not None:
        tried(require_page, None, faults, page)
    more = {} if recorded is None else tried(_recorded, {}, faults, name, recorded)
    if faults:
        raise InputError(faults)
    with progress_lines(f"bench {name}") as watch:
        result = importlib.import_module(f"rheostat.bench.{name.replace('-', '_')}").run(watch, **more)
    _show(result)
    if page is not None:
        update_page(page, result)
    if as_json:
        print_json(result.to_json())


def _recorded(name: str, path: Path) -> dict[str, Any]:
    """What a benchmark gets of recorded runs.

    Raises:
        InputError: it takes none, or the file cannot be read.
    """
    if name != "train":
        raise InputError([Fault("recorded", str(path), "with train only", f"{name} takes no recorded runs")])
    from rheostat.bench.train_data import recorded

    return {"runs": recorded(path)}


def _show(result: Any) -> None:
    screen = console()
    table = Table("figure", "value", "95 % interval", "n", "target", title=f"bench {result.name}")
    for metric in result.metrics:
        value = "not measured" if metric.value is None else f"{metric.value:.4g} {metric.unit}"
        interval = "" if metric.ci95 is None else f"{metric.ci95[0]:.4g} … {metric.ci95[1]:.4g}"
        mark = {None: "", True: " met", False: " MISSED"}[metric.met]
        target = "" if metric.target is None else f"≤ {metric.target:g}{mark}"
        table.add_row(metric.name, value, interval, str(metric.n), target)
    screen.print(table)
    for note in result.notes:
        screen.print(note, markup=False)
