"""What commands print: one JSON object as the last line of standard output, words for people on standard error."""

from __future__ import annotations

import io
import json
import math
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from rheostat.errors import InputError, PartFailedError, RheostatError

__all__ = [
    "FIGURES_HELP",
    "JsonFlag",
    "abandon_output",
    "console",
    "forgive_encodings",
    "print_error",
    "print_json",
    "program",
    "show_idle",
    "to_json",
    "wants_json",
]

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
