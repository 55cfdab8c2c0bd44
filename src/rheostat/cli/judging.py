"""What ``simulate``, ``compare`` and ``tune`` share: their options, tables and progress bars."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from rheostat.cli.numbers import number_of
from rheostat.cli.options import unused
from rheostat.cli.output import console
from rheostat.errors import Fault, InputError, tried
from rheostat.load.shapes import GRAMMAR, SHAPES, asks_apart

if TYPE_CHECKING:
    from rich.console import Console

    from rheostat.judge.columns import Table
    from rheostat.judge.request import Texts

__all__ = [
    "Jobs",
    "Out",
    "Played",
    "Shapes",
    "check_file",
    "check_out",
    "check_page",
    "check_sort",
    "processes_of",
    "show_rows",
    "show_table",
    "without_effect",
]

Shapes = Annotated[
    list[str] | None, typer.Option("--shape", help=f"{escape(GRAMMAR)}; may be repeated. Shapes: {', '.join(SHAPES)}.")
]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the HTML report and the JSON.")]
Jobs = Annotated[str | None, typer.Option("--jobs", help="Processes; as many as there are cores unless said.")]


@dataclass(frozen=True, slots=True)
class Played:
    """Options of every command that plays loads on a simulated job; see :func:`rheostat.cli.options.spread`."""

    job: Annotated[str, typer.Option("--job", help="A job: the name of a preset, or a YAML file.")] = "base"
    rate: Annotated[str | None, typer.Option("--rate", help="Records/s, for a shape given by its bare name.")] = None
    seconds: Annotated[str | None, typer.Option("--seconds", help="How long a shape lasts that does not say so.")] = (
        None
    )
    preset: Annotated[str | None, typer.Option("--preset", help="Defaults of the policies: default or faithful.")] = (
        None
    )
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Another setting, as in guard.cooldown_down_s=120, policy_options.headroom=0.8 or job.trigger_s=5.",
        ),
    ] = None
    config: Annotated[
        Path | None, typer.Option("--config", help="Settings file; its objective and bounds go before the job's.")
    ] = None
    longest: Annotated[
        str, typer.Option("--longest", help="Cut a longer load to so much around its peak: 12h, 7d; all: never.")
    ] = "7d"
    as_is: Annotated[
        bool,
        typer.Option("--as-is", help="Leave the rates as they are; else the peak is 80 % of what the job can carry."),
    ] = False

    def texts(self, shapes: Sequence[str] | None, **more: Any) -> Texts:
        """All that was asked; ``more``: what the command has beside these."""
        from rheostat.judge.request import Texts

        shared = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "change"}
        return Texts(shapes=shapes or (), sets=self.change or (), **shared, **more)


def without_effect(context: typer.Context, texts: Texts) -> list[Fault]:
    """A fault for each option of a load that was typed and would change nothing."""
    asked = [asks_apart(shape) for shape in texts.shapes]
    sought = "without --worst-case" if texts.worst_case else None
    places = {
        "rate": None if any(rate for rate, _ in asked) else "with a --shape that does not say its rates",
        "seconds": None if texts.worst_case or any(s for _, s in asked) else "with a --shape that does not say its own",
        "last": "with --journal" if texts.journal is None else None,
        "tries": None if texts.worst_case else "with --worst-case",
        **dict.fromkeys(("longest", "as_is", "sort"), sought),
    }
    return unused(context, places)


MOST_PROCESSES = 256
"""More than any machine that this is run on has cores for."""


def check_out(out: Path | None) -> None:
    """Say at the start, not at the end, that a report cannot be made; its folder is made.

    Raises:
        InputError: plotly is not installed, or nothing can be written into the folder.
    """
    if out is not None:
        from rheostat.report.parts import plots_installed, require_folder

        plots_installed()
        require_folder("out", out)


def check_file(field: str, path: Path | None, *suffixes: str) -> None:
    """Say at the start that a file cannot be written; the folder that it lies in is made.

    Raises:
        InputError: its name has another ending, it is a folder, or nothing can be written beside it: all of it.
    """
    if path is None:
        return
    from rheostat.report.parts import require_folder

    faults: list[Fault] = []
    if suffixes and path.suffix not in suffixes:
        allowed = f"a name that ends in {' or '.join(suffixes)}"
        faults.append(Fault(field, str(path), allowed, "its name does not tell what it will be"))
    if path.is_dir():
        faults.append(Fault(field, str(path), "a file", "it is a folder"))
    tried(require_folder, None, faults, field, path.absolute().parent)
    if faults:
        raise InputError(faults)


def check_page(page: Path | None) -> None:
    """Say at the start that a page cannot be written.

    Raises:
        InputError: it cannot.
    """
    if page is not None:
        from rheostat.bench.page import require_page

        require_page(page)


def check_sort(column: str) -> None:
    """Say at the start that there is no such column.

    Raises:
        InputError: there is none.
    """
    from rheostat.judge.columns import column_named

    column_named(column)


def processes_of(jobs: str | None) -> int:
    """How many processes are wanted; as many as there are cores where nothing was said.

    Raises:
        InputError: it is no number, or out of range.
    """
    processes = number_of("jobs", jobs or str(os.cpu_count() or 1), int)
    if isinstance(processes, InputError):
        raise processes
    if not 1 <= processes <= MOST_PROCESSES:
        raise InputError([Fault("jobs", str(processes), f"1 to {MOST_PROCESSES}", "so many processes will not do")])
    return processes


def show_table(title: str, table: Table, notes: Sequence[str]) -> None:
    """A table of figures, the best of each column marked, and what must be known of it.

    On a narrow terminal the last columns are left out.
    """
    texts, best = table.texts(), table.best_cells
    rows = [
        [f"{cell}*" if (row, column) in best else cell for column, cell in enumerate(cells)]
        for row, cells in enumerate(texts[1:])
    ]
    screen = _wide_console()
    fit = _columns_that_fit([texts[0], *rows], screen.width)
    show_rows(title, [cells[:fit] for cells in (texts[0], *rows)])
    left = len(texts[0]) - fit
    columns = "1 more column" if left == 1 else f"{left} more columns"
    for note in (*notes, *([f"{columns} on a wider terminal, in --json and in the report"] if left else [])):
        screen.print(f"  {note}", markup=False)


def show_rows(title: str, rows: Sequence[Sequence[str]]) -> None:
    """A table, header row first, numbers to the right; a figure that ends with a star is the best of its column."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(title=title, title_justify="left", box=box.SIMPLE)
    for place, name in enumerate(rows[0]):
        shown.add_column(name, justify="left" if place == 0 else "right", overflow="fold", min_width=_word(name))
    for row in rows[1:]:
        shown.add_row(*(Text(cell, style="bold green" if cell.endswith("*") else "") for cell in row))
    _wide_console().print(shown)


def _wide_console() -> Console:
    """The screen; what is no terminal has no width to keep to."""
    screen = console()
    if not screen.is_terminal:
        screen.width = 200
    return screen


def _columns_that_fit(rows: Sequence[Sequence[str]], width: int) -> int:
    """How many columns can be shown whole, with two blanks around each."""
    used = fit = 0
    for place, name in enumerate(rows[0]):
        used += 2 + max(_word(name), *(len(row[place]) for row in rows[1:]))
        if used > width:
            break
        fit = place + 1
    return max(2, fit)


def _word(heading: str) -> int:
    """The longest word of a heading: it is broken between words only."""
    return max(map(len, heading.split()), default=1)
