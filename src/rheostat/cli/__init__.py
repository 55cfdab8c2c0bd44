"""The commands. This file registers them and turns every error into an exit code and JSON."""

from __future__ import annotations

import errno
import importlib
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from rheostat import __version__
from rheostat.cli.common import (
    FIGURES_HELP,
    abandon_output,
    forgive_encodings,
    print_error,
    unknown_command,
    wants_json,
)
from rheostat.errors import Fault, InputError, RheostatError

__all__ = [
    "COMMANDS",
    "build",
    "interruptible",
    "main",
]


_USAGE_ERROR: Any = typer.BadParameter.__mro__[1]
"""The parser's base class for usage errors; its package depends on typer's version."""

_INTERRUPTED = 130
"""Exit code after Ctrl-C; newer versions of the parser return it instead of raising."""

_SCRIPTS = "run"
"""The command whose signals and arguments belong to the user's script."""

COMMANDS = {
    "demo": "demo",
    "run": "run",
    "explain": "explain",
    "replay": "explain",
    "simulate": "simulate",
    "compare": "compare",
    "tune": "simulate",
    "calibrate": "calibrate",
    "load": "load",
    "lab": "lab",
    "fleet": "fleet",
    "node": "lab",
    "bench": "research",
    "experiment": "research",
    "config": "config",
}
"""The module of each command; it has a function or a group of commands of that name."""

_WITH_FIGURES = ("demo", "replay", "simulate", "compare")


def build() -> typer.Typer:
    """The command line with every command registered."""
    app = typer.Typer(
        name="rheostat",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        help="An autoscaler for Spark Structured Streaming.",
    )

    @app.callback(invoke_without_command=True)
    def root(
        version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
    ) -> None:
        if version:
            typer.echo(__version__)
            raise typer.Exit

    for command, module in COMMANDS.items():
        found = getattr(importlib.import_module(f"rheostat.cli.{module}"), command)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=command)
        else:
            epilog = FIGURES_HELP if command in _WITH_FIGURES else None
            own_arguments = {"allow_interspersed_args": False} if command == _SCRIPTS else None
            app.command(command, epilog=epilog, context_settings=own_arguments)(found)
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 on success, 1 if the run failed, 2 if the input is wrong, 130 if interrupted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    forgive_encodings()
    as_json = wants_json(arguments)
    try:
        with nullcontext() if arguments[:1] == [_SCRIPTS] else interruptible():
            result = build()(arguments, standalone_mode=False, prog_name="rheostat")
    except _USAGE_ERROR as error:
        return print_error(InputError([_usage_fault(error, arguments)]), as_json=as_json)
    except (typer.Abort, KeyboardInterrupt):
        result = _INTERRUPTED
    except RheostatError as error:
        return print_error(error, as_json=as_json)
    except BrokenPipeError:
        return abandon_output()
    except OSError as error:
        return print_error(_system_error(error), as_json=as_json)
    except Exception as error:
        return print_error(_unexpected(error), as_json=as_json)
    if result == _INTERRUPTED:
        return print_error(RheostatError("interrupted"), as_json=as_json, code=_INTERRUPTED)
    return result if isinstance(result, int) else 0


def _system_error(error: OSError) -> RheostatError:
    """An error of the operating system that no command handles: a full disk, an invalid path."""
    what = error.strerror or str(error)
    if error.errno == errno.ENAMETOOLONG:
        return InputError([Fault("path", str(error.filename), "a path that this system supports", what)])
    return RheostatError(f"{error.filename}: {what}" if error.filename else what)


def _unexpected(error: Exception) -> RheostatError:
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}, line {last.lineno}"
    return RheostatError(f"a fault of Rheostat, please report it: {type(error).__name__}: {error} ({where})")


def _usage_fault(error: Any, arguments: Sequence[str]) -> Fault:
    unknown = unknown_command(error, arguments)
    if unknown is not None:
        return unknown
    param = getattr(error, "param", None)
    named = param.opts[0] if param is not None and param.opts else None
    field = getattr(error, "option_name", None) or named or "command line"
    command = error.ctx.command_path if error.ctx else "rheostat"
    return Fault(field, " ".join(arguments), f"see: {command} --help", error.format_message() or "a command is missing")


# Signals that end a command


_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block as Ctrl-C does. Signals that are handled or ignored (``nohup``) stay so.

    In threads other than the main one, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
