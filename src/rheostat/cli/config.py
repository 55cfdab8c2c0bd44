"""``rheostat config``: check a settings file, print the reference of all settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.cli.output import JsonFlag, console, print_json
from rheostat.errors import Fault, InputError

__all__ = ["register"]

OutOption = Annotated[Path | None, typer.Option("--out", help="Write to this file instead of standard output.")]

JobsFlag = Annotated[bool, typer.Option("--jobs", help="The reference of job files, for the simulator.")]


def register(app: typer.Typer) -> None:
    """Add ``config check`` and ``config reference``."""
    group = typer.Typer(no_args_is_help=True, help="Check a settings file, print the documented reference.")
    group.command("check")(check)
    group.command("reference")(print_reference)
    app.add_typer(group, name="config")


def check(
    file: Annotated[Path, typer.Argument(help="The YAML file to check.", show_default=False)],
    as_json: JsonFlag = False,
) -> None:
    """Say everything that is wrong with a settings file, or that nothing is."""
    from rheostat.config.documents import read_document
    from rheostat.plan import checked_settings

    settings = checked_settings(*read_document(file))
    console().print(f"[green]✓[/green] {settings.mode}: {settings.parsed_objective}")
    if as_json:
        print_json({"schema": "rheostat.config/1", "settings": settings.model_dump(mode="json")})


def print_reference(out: OutOption = None, jobs: JobsFlag = False, as_json: JsonFlag = False) -> None:
    """Print the reference of all settings, or of job files, in Markdown."""
    from rheostat.config import reference

    text = _job_reference() if jobs else reference()
    if out is not None:
        _write(out, text)
    if as_json:
        print_json({"schema": "rheostat.config-reference/1", "out": out and str(out), "markdown": text})
    elif out is None:
        typer.echo(text, nl=False)


def _job_reference() -> str:
    from rheostat.sim.reference import job_reference

    return job_reference()


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"the page cannot be written: {error.strerror}"
        raise InputError([Fault("out", str(path), "a file in a folder that exists", message)]) from None
