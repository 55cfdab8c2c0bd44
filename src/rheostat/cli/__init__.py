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
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

from rheostat import __version__
from rheostat.cli import common
from rheostat.errors import Fault, InputError, RheostatError, missing_package

__all__ = ["COMMANDS", "build", "interruptible", "main"]

_USAGE_ERROR: Any = typer.BadParameter.__mro__[1]
"""The parser's base class for usage errors; its package depends on typer's version."""

_INTERRUPTED = 130
"""Exit code after Ctrl-C; newer versions of the parser return it instead of raising."""

_SCRIPTS = "run"
"""The command whose signals and arguments belong to the user's script."""

COMMANDS = {
    "demo": "run",
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

    for name, module in COMMANDS.items():
        command = getattr(importlib.import_module(f"rheostat.cli.{module}"), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            epilog = common.FIGURES_HELP if name in _WITH_FIGURES else None
            own_arguments = {"allow_interspersed_args": False} if name == _SCRIPTS else None
            app.command(name, epilog=epilog, context_settings=own_arguments)(command)
    return app


@cache
def _parser() -> Any:
    """What runs a command line; made once in a process, as that takes longer than most commands do."""
    return get_command(build())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code: 0 success, 1 the run failed, 2 the input is wrong, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    common.forgive_encodings()
    as_json = common.wants_json(arguments)
    common.ONLY_JSON.set(as_json)
    try:
        with nullcontext() if arguments[:1] == [_SCRIPTS] else interruptible():
            result = _parser()(arguments, standalone_mode=False, prog_name="rheostat")
    except BrokenPipeError:
        return common.abandon_output()
    except (typer.Abort, KeyboardInterrupt):
        result = _INTERRUPTED
    except Exception as error:
        return common.print_error(_translate(error, arguments), as_json=as_json)
    if result == _INTERRUPTED:
        return common.print_error(RheostatError("interrupted"), as_json=as_json, code=_INTERRUPTED)
    return result if isinstance(result, int) else 0


def _translate(error: Exception, arguments: Sequence[str]) -> RheostatError:
    """Usage errors; what no command handles: errors of the system such as a full disk, missing packages, our bugs."""
    if isinstance(error, RheostatError):
        return error
    if isinstance(error, _USAGE_ERROR):
        return InputError([common.unknown_command(error, arguments) or _usage_fault(error, arguments)])
    if isinstance(error, OSError):
        what = error.strerror or str(error)
        if error.errno == errno.ENAMETOOLONG:
            return InputError([Fault("path", str(error.filename), "a path that this system supports", what)])
        return RheostatError(f"{error.filename}: {what}" if error.filename else what)
    if isinstance(error, ImportError) and (missing := missing_package(error)):
        return RheostatError(missing)
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}, line {last.lineno}"
    return RheostatError(f"a fault of Rheostat, please report it: {type(error).__name__}: {error} ({where})")


def _usage_fault(error: Any, arguments: Sequence[str]) -> Fault:
    param = getattr(error, "param", None)
    option = param.opts[0] if param is not None and param.opts else None
    field = getattr(error, "option_name", None) or option or "command line"
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
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
