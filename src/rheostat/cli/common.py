"""What ``simulate``, ``compare`` and ``tune`` share: their options, tables and progress bars."""

from __future__ import annotations

import difflib
import inspect
import io
import json
import math
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from rheostat.errors import Fault, InputError, PartFailedError, RheostatError, tried
from rheostat.load.shapes import GRAMMAR, SHAPES, asks_apart

if TYPE_CHECKING:
    from rheostat.judge.report import Table
    from rheostat.judge.request import RequestOptions


Shapes = Annotated[
    list[str] | None, typer.Option("--shape", help=f"{escape(GRAMMAR)}; may be repeated. Shapes: {', '.join(SHAPES)}.")
]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the HTML report and the JSON.")]
Jobs = Annotated[str | None, typer.Option("--jobs", help="Processes; as many as there are cores unless said.")]


@dataclass(frozen=True, slots=True)
class Played:
    """Options of every command that plays loads on a simulated job; see :func:`spread`."""

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

    def texts(self, shapes: Sequence[str] | None, **more: Any) -> RequestOptions:
        """All that was asked; ``more``: what the command has beside these."""
        from rheostat.judge.request import RequestOptions

        shared = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "change"}
        return RequestOptions(shapes=shapes or (), sets=self.change or (), **shared, **more)


def without_effect(context: typer.Context, texts: RequestOptions) -> list[Fault]:
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
        from rheostat.report.html import plots_installed, require_folder

        plots_installed()
        require_folder("out", out)


def check_file(field: str, path: Path | None, *suffixes: str) -> None:
    """Say at the start that a file cannot be written; the folder that it lies in is made.

    Raises:
        InputError: its name has another ending, it is a folder, or nothing can be written beside it: all of it.
    """
    if path is None:
        return
    from rheostat.report.html import require_folder

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
        from rheostat.research.bench.harness import require_page

        require_page(page)


def check_sort(column: str) -> None:
    """Say at the start that there is no such column.

    Raises:
        InputError: there is none.
    """
    from rheostat.judge.report import column_named

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


# Options that several commands have, and options that mean nothing beside others.


Result = TypeVar("Result")


def spread(group: type[Any]) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """A command whose parameter of this kind is the fields of a dataclass, each an option.

    Args:
        group: a dataclass; its fields are annotated as options are, and have defaults.
    """

    def decorate(command: Callable[..., Result]) -> Callable[..., Result]:
        listed = inspect.signature(command, eval_str=True).parameters.values()
        taker = next(each for each in listed if each.annotation is group)
        hints = get_type_hints(group, include_extras=True)
        shared = [taker.replace(name=f.name, default=f.default, annotation=hints[f.name]) for f in fields(group)]
        spread_out = [each for one in listed for each in (shared if one is taker else [one])]
        ordered = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in spread_out]

        @wraps(command)
        def called(**given: Any) -> Result:
            whole = group(**{field.name: given.pop(field.name) for field in fields(group)})
            return command(**{taker.name: whole}, **given)

        called.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
        called.__annotations__ = {each.name: each.annotation for each in ordered}
        return called

    return decorate


def unused(context: typer.Context, places: Mapping[str, str | None]) -> list[Fault]:
    """A fault for each option that was typed and would change nothing.

    Args:
        context: of the command.
        places: parameter → where it means something, in words; None: it does here.
    """
    return [
        Fault(name, _given(context, name), place, "it would change nothing here")
        for name, place in places.items()
        if place is not None and _typed(context, name)
    ]


def _typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _given(context: typer.Context, name: str) -> str:
    value = context.params[name]
    return f"--{name.replace('_', '-')}" if isinstance(value, bool) else str(value)


# What commands print: one JSON object as the last line of standard output, words for people on standard error.


JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line of standard output.")]
"""The ``--json`` option, spelled alike everywhere."""

FIGURES_HELP = "What each figure is: rheostat config reference --figures (docs/figures.md)."
"""At the end of the help of every command that prints figures."""


def console() -> Console:
    """Where people read: standard error, so that standard output stays for machines."""
    return Console(stderr=True, highlight=False)


def forgive_encodings() -> None:
    """From now on a character that a terminal cannot show is escaped instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def abandon_output() -> int:
    """Nobody reads standard output any more, as after ``| head``: say nothing more; returns the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether ``--json`` stands among the arguments before a ``--``; asked before they are parsed."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in own


def to_json(value: Mapping[str, Any]) -> str:
    """One line of JSON, in ASCII as nobody knows where it is read; NaN and infinities become null.

    >>> to_json({"a": float("nan"), "b": [1, float("inf")]})
    '{"a": null, "b": [1, null]}'
    """
    return json.dumps(_finite(value), allow_nan=False)


def print_json(value: Mapping[str, Any]) -> None:
    """Print a result for machines."""
    sys.stdout.write(to_json(value) + "\n")
    sys.stdout.flush()


def program() -> str:
    """How a shell starts this program: by its name where that finds the one that runs, else by its path."""
    running = Path(sys.argv[0])
    if running.stem != "rheostat":
        return shlex.join([sys.executable, "-m", "rheostat"])
    found = shutil.which("rheostat")
    same = found is not None and Path(found).resolve() == running.resolve()
    return "rheostat" if same else shlex.quote(str(running.absolute()))


def print_error(error: RheostatError, *, as_json: bool, code: int | None = None) -> int:
    """Tell people, and machines if asked, what went wrong; returns the exit code."""
    out = console()
    faults: list[dict[str, str | None]] = []
    if isinstance(error, InputError):
        for fault in error.faults:
            out.print(f"[red]✗[/red] {_plain(str(fault))}")
            faults.append({**asdict(fault), "given": fault.given or "''"})
    else:
        out.print(f"[red]✗[/red] {_plain(str(error))}")
        field = error.part if isinstance(error, PartFailedError) else "run"
        faults.append({"field": field, "given": None, "allowed": None, "message": str(error)})
    if as_json:
        with suppress(OSError):
            print_json({"schema": "rheostat.error/1", "faults": faults})
    return error.exit_code if code is None else code


def show_idle(idle: Iterable[object]) -> None:
    """Settings that were given and change nothing, each in its own sentence."""
    for each in idle:
        console().print(f"[yellow]![/yellow] {_plain(str(each))}")


def _plain(text: str) -> str:
    return text.replace("[", r"\[")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


# Options that arrive as text, so that all faults of a command line can be reported at once.


Number = TypeVar("Number", int, float)

_PAIR = re.compile(r"\s*(-?\d+)\s*(?:,|\.\.|-|–)\s*(-?\d+)\s*")


def number_of(field: str, text: str, kind: type[Number]) -> Number | InputError:
    """The number, or the error that says why it is none; not raised, so that others can be found too.

    >>> number_of("rate", "12", int)
    12
    """
    try:
        value = kind(text)
    except ValueError:
        value = kind(0)
    else:
        if math.isfinite(value):
            return value
    allowed = {"int": "an integer"}.get(kind.__name__, "a number")
    return InputError([Fault(field, repr(text), allowed, "it is not a number")])


def executors_of(text: str) -> tuple[int, int] | InputError:
    """Bounds written ``1,20`` or ``1..20``, or the error that says why they are none.

    >>> executors_of("1..20")
    (1, 20)
    """
    match = _PAIR.fullmatch(text)
    if match is None:
        return InputError([Fault("executors", repr(text), "LEAST,GREATEST, as in 1,20", "these are no bounds")])
    return int(match[1]), int(match[2])


# How far a long command is: a bar on a terminal, elsewhere a plain line now and then.


Watch = Callable[[int, int, str], None]


class PlainLines:
    """Prints a line when the words change, and otherwise at most one in ``every_s`` seconds.

    Args:
        what: before each line.
        screen: where to.
        clock: seconds that only grow.
        every_s: ≥ 0.
    """

    def __init__(self, what: str, screen: Console, clock: Callable[[], float], every_s: float = 30.0) -> None:
        self._what, self._screen, self._clock, self._every_s = what, screen, clock, every_s
        self._words, self._said_at = "", 0.0

    def __call__(self, done: int, total: int, words: str) -> None:
        """Tell ``done`` of ``total`` (0: not known)."""
        now = self._clock()
        if words == self._words and now - self._said_at < self._every_s:
            return
        self._words, self._said_at = words, now
        share = f" {done} of {total}" if total else ""
        self._screen.print(f"{self._what}: {words}{share}", markup=False, soft_wrap=True)


@contextmanager
def progress_lines(what: str) -> Iterator[Watch]:
    """Give a function to be told ``(done, total, words)``; all of it goes to standard error."""
    screen = console()
    if not screen.is_terminal:
        yield PlainLines(what, screen, time.monotonic)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(what, total=None)

        def show(done: int, total: int, words: str) -> None:
            share = f" {done} of {total}" if total else ""
            text = f"{what}: {words}{share}".replace("[", r"\[")
            bar.update(task, completed=done, total=total or None, description=text)

        yield show


# What may have been meant by a command that there is not: another group's, a mistyped one, or a file.


_UNKNOWN = re.compile(r"No such command '(.*)'\.", re.DOTALL)

_OF_FILES = {
    ".yaml": "config check {}",
    ".yml": "config check {}",
    ".py": "run {}",
    ".jsonl": "explain {}",
    ".csv": "simulate --trace {}",
}
"""What is done with a file by the ending of its name."""

_ALIKE = {
    "version": "--version",
    "start": "lab up",
    "stop": "lab down",
    "validate": "config check",
    "verify": "config check",
    "lint": "config check",
    "settings": "config reference",
    "why": "explain",
    "journal": "explain",
}
"""What other programs call it, and what it is here."""

_MOST = 4


def unknown_command(error: Any, arguments: Sequence[str]) -> Fault | None:
    """The fault of a usage error that is an unknown command, with what may be meant; None: it is another error."""
    found = _UNKNOWN.match(error.format_message() or "")
    if found is None or error.ctx is None:
        return None
    here = error.ctx.command_path.split()[1:]
    near = meant(found[1], here, commands_in(error.ctx.find_root().command))
    hint = f"; did you mean: {' | '.join(f'rheostat {each}' for each in near)}" if near else ""
    allowed = f"{' | '.join(error.ctx.command.commands)}; see: {error.ctx.command_path} --help"
    return Fault("command line", shlex.join(arguments), allowed, f"there is no command {found[1]!r}{hint}")


def commands_in(group: Any) -> list[str]:
    """Every command of a group and of the groups in it, with the way to it."""
    inside: Mapping[str, Any] = getattr(group, "commands", {})
    return [
        f"{name} {below}" if below else name for name, each in inside.items() for below in (commands_in(each) or [""])
    ]


def meant(given: str, here: Sequence[str], commands: Sequence[str]) -> list[str]:
    """What may be meant, the likeliest first, at most four.

    Args:
        given: what is no command.
        here: the group in which it was looked for.
        commands: all there are.

    >>> meant("check", [], ["config check", "lab start"]), meant("sim", [], ["simulate", "tune"])
    (['config check'], ['simulate'])
    >>> meant("job.yaml", ["config"], ["config check"]), meant("app.py", [], ["run"])
    (['config check job.yaml'], ['run app.py'])
    """
    if given == "help":
        return [" ".join([*here, "--help"])]
    if given in _ALIKE:
        return [_ALIKE[given]]
    file = _with_file(given, here)
    if file is not None:
        return [file]
    near = dict.fromkeys(_close(given, commands))
    return sorted(near, key=lambda command: command.split()[: len(here)] != list(here))[:_MOST]


def _with_file(given: str, here: Sequence[str]) -> str | None:
    """The command for a file; None: it is none."""
    path = Path(given)
    if list(here) == ["config"] and ("." in given or "/" in given or path.exists()):
        return f"config check {shlex.quote(given)}"
    if path.is_dir():
        return f"explain {shlex.quote(given)}"
    done = _OF_FILES.get(path.suffix.lower())
    return None if done is None else done.format(shlex.quote(given))


def _close(given: str, commands: Sequence[str]) -> Iterator[str]:
    """Commands of which a word is it, then begins with it, then is like it."""
    words = {command: command.split() for command in commands}
    yield from (command for command in commands if given in words[command])
    if len(given) > 1:
        yield from (command for command in commands if any(word.startswith(given) for word in words[command]))
    every = {word for several in words.values() for word in several}
    for close in difflib.get_close_matches(given, sorted(every), n=2):
        yield from (command for command in commands if close in words[command])
