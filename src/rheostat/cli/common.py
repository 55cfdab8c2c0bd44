"""Options, tables, output and progress that several commands share."""

from __future__ import annotations

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
from contextvars import ContextVar
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from rheostat.errors import Fault, InputError, PartFailedError, RheostatError, attempt, closest
from rheostat.load.shapes import GRAMMAR, SHAPES, asks_apart

if TYPE_CHECKING:
    from rheostat.judge.report import Table
    from rheostat.judge.request import RequestOptions

# Options of several commands

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line of standard output.")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the HTML report and the JSON.")]
Jobs = Annotated[str | None, typer.Option("--jobs", help="Number of processes. Default: number of cores.")]

Shapes = Annotated[
    list[str] | None, typer.Option("--shape", help=f"{escape(GRAMMAR)}. Repeatable. Shapes: {', '.join(SHAPES)}.")
]
Job = Annotated[str, typer.Option("--job", help="Job: name of a preset, or a YAML file.")]
Rate = Annotated[str | None, typer.Option("--rate", help="Records/s, for a shape without its own rate.")]
Seconds = Annotated[str | None, typer.Option("--seconds", help="Duration in s, for a shape without its own.")]
Preset = Annotated[str | None, typer.Option("--preset", help="Policy defaults: default or faithful.")]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a setting: guard.cooldown_down_s=120, job.trigger_s=5. Repeatable.",
    ),
]
Config = Annotated[
    Path | None, typer.Option("--config", help="Settings file. Its objective and bounds override the job's.")
]
Longest = Annotated[
    str, typer.Option("--longest", help="Cut a longer load to this much around its peak: 12h, 7d; all: never.")
]
AsIs = Annotated[
    bool, typer.Option("--as-is", help="Keep the rates. Default: scale the peak to 80 % of the job's capacity.")
]

UNDERCUT = "costs less than the optimum: this is a bug of the judge, please report it"

FIGURES_HELP = "What each figure is: rheostat config reference --figures (docs/figures.md)."

MOST_PROCESSES = 256


def request_options(parameters: Mapping[str, Any]) -> RequestOptions:
    """The options of a load and a job, from the parameters of a command that have their names."""
    from rheostat.judge.request import RequestOptions

    given = {name: value for name, value in parameters.items() if value is not None}
    return RequestOptions(**{each.name: given[each.name] for each in fields(RequestOptions) if each.name in given})


def unused_load_options(context: typer.Context, options: RequestOptions) -> list[Fault]:
    """A fault for each given option of a load that has no effect."""
    asked = [asks_apart(shape) for shape in options.shapes]
    searched = "without --worst-case" if options.worst_case else None
    needs_seconds = options.worst_case or any(seconds for _, seconds in asked)
    places = {
        "rate": None if any(rate for rate, _ in asked) else "with a --shape that does not say its rates",
        "seconds": None if needs_seconds else "with a --shape that does not say its own",
        "last": "with --journal" if options.journal is None else None,
        "tries": None if options.worst_case else "with --worst-case",
        **dict.fromkeys(("longest", "as_is", "sort"), searched),
    }
    return unused(context, places)


def unused(context: typer.Context, places: Mapping[str, str | None]) -> list[Fault]:
    """A fault for each given option that has no effect.

    ``places``: parameter of the command → where it has an effect, in words; None: here.
    """
    faults = []
    for name, place in places.items():
        source, value = context.get_parameter_source(name), context.params.get(name)
        if place is not None and source is not None and source.name != "DEFAULT":
            given = f"--{name.replace('_', '-')}" if isinstance(value, bool) else str(value)
            faults.append(Fault(name, given, place, "it has no effect here"))
    return faults


# Checks before a run, which raise InputError. Numbers are parsed from text, so that all faults of a command line are
# reported at once.


def check_out(out: Path | None) -> None:
    """Check that a report can be written (plotly, a writable folder), and create its folder."""
    if out is not None:
        from rheostat.report.html import plots_installed, require_folder

        plots_installed()
        require_folder("out", out)


def check_file(field: str, path: Path | None, *suffixes: str) -> None:
    """Check that a file with one of these suffixes can be written, and create its folder."""
    if path is None:
        return
    from rheostat.report.html import require_folder

    faults: list[Fault] = []
    if suffixes and path.suffix not in suffixes:
        allowed = f"a name that ends in {' or '.join(suffixes)}"
        faults.append(Fault(field, str(path), allowed, "the file type is not supported"))
    if path.is_dir():
        faults.append(Fault(field, str(path), "a file", "it is a folder"))
    attempt(require_folder, None, faults, field, path.absolute().parent)
    if faults:
        raise InputError(faults)


def processes_of(jobs: str | None, most: int = MOST_PROCESSES) -> int:
    """The number of processes; the number of cores if ``jobs`` is None."""
    return number_of("jobs", jobs or str(os.cpu_count() or 1), int, 1, most)


Number = TypeVar("Number", int, float)


def number_of(field: str, text: str, kind: type[Number], least: float = -math.inf, most: float = math.inf) -> Number:
    """Parse a number within limits.

    >>> number_of("rate", "12", int)
    12
    """
    value: Number | None = None
    with suppress(ValueError):
        value = kind(text)
    if value is None or not math.isfinite(value):
        allowed = "an integer" if kind.__name__ == "int" else "a number"
        raise InputError([Fault(field, repr(text), allowed, "it is not a number")])
    if not least <= value <= most:
        raise InputError([Fault(field, text, f"{least:g} to {most:.0f}", "it is out of range")])
    return value


_PAIR = re.compile(r"\s*(-?\d+)\s*(?:,|\.\.|-|–)\s*(-?\d+)\s*")


def executors_of(text: str) -> tuple[int, int]:
    """Parse bounds such as ``1,20`` or ``1..20``.

    >>> executors_of("1..20")
    (1, 20)
    """
    match = _PAIR.fullmatch(text)
    if match is None:
        raise InputError([Fault("executors", repr(text), "LEAST,GREATEST, as in 1,20", "these are not bounds")])
    return int(match[1]), int(match[2])


# Output: results on standard output, all else on standard error; with --json the object alone is on standard output


def console() -> Console:
    """Standard error: progress, warnings, where something was written. In a file, lines are long."""
    return _open_console(stderr=True)


ONLY_JSON: ContextVar[bool] = ContextVar("only_json", default=False)
"""Whether standard output is to hold the JSON object alone."""


def results() -> Console:
    """Standard output, for results; standard error with ``--json``."""
    return _open_console(stderr=ONLY_JSON.get())


def _open_console(*, stderr: bool) -> Console:
    screen = Console(stderr=stderr, highlight=False)
    if not screen.is_terminal:
        screen.width = 200
    return screen


def say(*sentences: str) -> None:
    """Print sentences beside the results, as they are; in a file, each is one line."""
    _print(console(), sentences)


def report(*sentences: str) -> None:
    """Print sentences of the results."""
    _print(results(), sentences)


def _print(screen: Console, sentences: Iterable[str]) -> None:
    for sentence in sentences:
        screen.print(sentence, markup=False, soft_wrap=not screen.is_terminal)


def forgive_encodings() -> None:
    """Escape characters that the terminal cannot encode, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def abandon_output() -> int:
    """Stop writing to a closed standard output, as after ``| head``; returns the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether ``--json`` is among the arguments before a ``--``; used before parsing."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in own


def to_json(value: Mapping[str, Any]) -> str:
    """One line of ASCII JSON; NaN and infinities become null.

    >>> to_json({"a": float("nan"), "b": [1, float("inf")]})
    '{"a": null, "b": [1, null]}'
    """
    return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def print_json(value: Mapping[str, Any]) -> None:
    sys.stdout.write(to_json(value) + "\n")
    sys.stdout.flush()


def write_text(path: Path, text: str, what: str) -> None:
    """Write a file that ``--out`` names, and create its folder; ``what`` is its name in the message of a fault."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"{what} cannot be written: {error.strerror}"
        raise InputError([Fault("out", str(path), "a path that can be written", message)]) from error


def program() -> str:
    """The shell command for this program: its name if that is on the PATH, else its path."""
    running = Path(sys.argv[0])
    if running.stem != "rheostat":
        return shlex.join([sys.executable, "-m", "rheostat"])
    found = shutil.which("rheostat")
    same = found is not None and Path(found).resolve() == running.resolve()
    return "rheostat" if same else shlex.quote(str(running.absolute()))


def print_error(error: RheostatError, *, as_json: bool, code: int | None = None) -> int:
    """Print an error for people and, if asked, as JSON; returns the exit code."""
    faults: list[dict[str, str | None]] = []
    if isinstance(error, InputError):
        for fault in error.faults:
            console().print(f"[red]✗[/red] {_plain(str(fault))}")
            faults.append({**asdict(fault), "given": fault.given or "''"})
    else:
        console().print(f"[red]✗[/red] {_plain(str(error))}")
        field = error.part if isinstance(error, PartFailedError) else "run"
        faults.append({"field": field, "given": None, "allowed": None, "message": str(error)})
    if as_json:
        with suppress(OSError):
            print_json({"schema": "rheostat.error/1", "faults": faults})
    return error.exit_code if code is None else code


def show_idle(idle: Iterable[object]) -> None:
    """Print one warning for each setting that has no effect."""
    for each in idle:
        console().print(f"[yellow]![/yellow] {_plain(str(each))}")


def _plain(text: str) -> str:
    return text.replace("[", r"\[")


# Tables


def show_table(title: str, table: Table, notes: Sequence[str]) -> None:
    """Print a table of figures, the best of each column marked. A narrow terminal omits the last columns."""
    header, *texts = table.texts
    rows = [
        [f"{cell}*" if (row, column) in table.best else cell for column, cell in enumerate(cells)]
        for row, cells in enumerate(texts)
    ]
    fit = _columns_that_fit([header, *rows], results().width)
    show_rows(title, [cells[:fit] for cells in (header, *rows)])
    for note in notes:
        report(f"  {note}")
    left = len(header) - fit
    if left:
        columns = "1 more column" if left == 1 else f"{left} more columns"
        report(f"  {columns} on a wider terminal, in --json and in the report")


def show_rows(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print a table, header row first. A figure that ends with a star is the best of its column."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(title=title, title_justify="left", box=box.SIMPLE)
    for place, name in enumerate(rows[0]):
        numbers = all(not row[place] or row[place][0] in "0123456789+-–≤" for row in rows[1:])
        shown.add_column(
            name, justify="right" if numbers and place else "left", overflow="fold", min_width=_word_width(name)
        )
    for row in rows[1:]:
        shown.add_row(*(Text(cell, style="bold green" if cell.endswith("*") else "") for cell in row))
    results().print(shown)


def _columns_that_fit(rows: Sequence[Sequence[str]], width: int) -> int:
    used = fit = 0
    for place, name in enumerate(rows[0]):
        used += 2 + max(_word_width(name), *(len(row[place]) for row in rows[1:]))
        if used > width:
            break
        fit = place + 1
    return max(2, fit)


def _word_width(heading: str) -> int:
    return max(map(len, heading.split()), default=1)


# Progress: a bar on a terminal, else a line now and then

Watch = Callable[[int, int, str], None]


class PlainLines:
    """Prints a line when the words change, and otherwise at most one in ``every_s`` seconds of a monotonic clock."""

    def __init__(self, what: str, screen: Console, clock: Callable[[], float], every_s: float = 30.0) -> None:
        self._what, self._screen, self._clock, self._every_s = what, screen, clock, every_s
        self._words, self._printed_at = "", 0.0

    def __call__(self, done: int, total: int, words: str) -> None:
        """Report ``done`` of ``total`` (0: unknown)."""
        now = self._clock()
        if words == self._words and now - self._printed_at < self._every_s:
            return
        self._words, self._printed_at = words, now
        self._screen.print(_progress_text(self._what, done, total, words), markup=False, soft_wrap=True)


def _progress_text(what: str, done: int, total: int, words: str) -> str:
    return f"{what}: {words}" + (f" {done} of {total}" if total else "")


@contextmanager
def progress_lines(what: str) -> Iterator[Watch]:
    """Yield a function that reports ``(done, total, words)`` on standard error."""
    screen = console()
    if not screen.is_terminal:
        yield PlainLines(what, screen, time.monotonic)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(what, total=None)

        def show(done: int, total: int, words: str) -> None:
            text = _plain(_progress_text(what, done, total, words))
            bar.update(task, completed=done, total=total or None, description=text)

        yield show


# Hints at an unknown command: a command of another group, a misspelt one, or one for the given file

_UNKNOWN = re.compile(r"No such command '(.*)'\.", re.DOTALL)

_OF_FILES = {
    ".yaml": "config check {}",
    ".yml": "config check {}",
    ".py": "run {}",
    ".jsonl": "explain {}",
    ".csv": "simulate --trace {}",
}
"""Suffix of a file → the command for it."""

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
"""Name in other programs → command here."""

_MOST_HINTS = 4


def unknown_command(error: Any, arguments: Sequence[str]) -> Fault | None:
    """The fault of an unknown command, with hints; None for other usage errors."""
    match = _UNKNOWN.match(error.format_message() or "")
    if match is None or error.ctx is None:
        return None
    here = error.ctx.command_path.split()[1:]
    near = commands_meant(match[1], here, commands_in(error.ctx.find_root().command))
    hint = f"; did you mean: {' | '.join(f'rheostat {each}' for each in near)}" if near else ""
    allowed = f"{' | '.join(error.ctx.command.commands)}; see: {error.ctx.command_path} --help"
    return Fault("command line", shlex.join(arguments), allowed, f"there is no command {match[1]!r}{hint}")


def commands_in(group: Any) -> list[str]:
    """Every command of a group and of the groups in it, with its full path."""
    inside: Mapping[str, Any] = getattr(group, "commands", {})
    return [
        f"{name} {below}" if below else name for name, each in inside.items() for below in (commands_in(each) or [""])
    ]


def commands_meant(given: str, here: Sequence[str], commands: Sequence[str]) -> list[str]:
    """At most four of the commands that an unknown word may mean, the likeliest first.

    ``here``: the path of the group that the word was given to.

    >>> commands_meant("check", [], ["config check", "lab start"]), commands_meant("sim", [], ["simulate", "tune"])
    (['config check'], ['simulate'])
    >>> commands_meant("job.yaml", ["config"], ["config check"]), commands_meant("app.py", [], ["run"])
    (['config check job.yaml'], ['run app.py'])
    """
    if given == "help":
        return [" ".join([*here, "--help"])]
    if given in _ALIKE:
        return [_ALIKE[given]]
    file = _command_for_file(given, here)
    if file is not None:
        return [file]
    words = {command: command.split() for command in commands}
    near = [command for command in commands if given in words[command]]
    if len(given) > 1:
        near += [command for command in commands if any(word.startswith(given) for word in words[command])]
    similar = closest(given, sorted({word for path in words.values() for word in path}))
    near += [command for command in commands if similar in words[command]]
    return sorted(dict.fromkeys(near), key=lambda command: words[command][: len(here)] != list(here))[:_MOST_HINTS]


def _command_for_file(given: str, here: Sequence[str]) -> str | None:
    path = Path(given)
    if list(here) == ["config"] and ("." in given or "/" in given or path.exists()):
        return f"config check {shlex.quote(given)}"
    if path.is_dir():
        return f"explain {shlex.quote(given)}"
    command = _OF_FILES.get(path.suffix.lower())
    return None if command is None else command.format(shlex.quote(given))
