"""``rheostat config``: check a settings file or a job file, print the reference of all settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from rheostat.cli.output import JsonFlag, console, print_json, show_idle
from rheostat.errors import Fault, InputError

__all__ = ["register"]

OutOption = Annotated[Path | None, typer.Option("--out", help="Write to this file instead of standard output.")]

FiguresFlag = Annotated[bool, typer.Option("--figures", help="The definitions of every figure that is printed.")]

JobsFlag = Annotated[bool, typer.Option("--jobs", help="The reference of job files, for the simulator.")]


def register(app: typer.Typer) -> None:
    """Add ``config check`` and ``config reference``."""
    group = typer.Typer(
        no_args_is_help=True, help="Check a settings file or a job file, print the documented reference."
    )
    group.command("check")(check)
    group.command("reference")(print_reference)
    app.add_typer(group, name="config")


def check(
    file: Annotated[Path, typer.Argument(help="The YAML file to check.", show_default=False)],
    as_json: JsonFlag = False,
) -> None:
    """Say everything that is wrong with a settings file or a job file, or that nothing is; and what has no effect."""
    from rheostat.config.documents import read_document
    from rheostat.plan import checked_settings, no_effect

    values, faults = read_document(file)
    if _is_job(values):
        _check_job(values, faults, as_json)
        return
    settings = checked_settings(values, faults)
    idle = no_effect(values, settings)
    console().print(f"[green]✓[/green] {settings.mode}: {settings.parsed_objective}")
    show_idle(idle)
    if as_json:
        told = {"settings": settings.model_dump(mode="json"), "no_effect": [asdict(each) for each in idle]}
        print_json({"schema": "rheostat.config/1", **told})


def _is_job(values: Mapping[str, Any]) -> bool:
    """Whether a file says that it is a job file. Settings files have no key ``schema``."""
    return str(values.get("schema", "")).startswith("rheostat.job/")


def _check_job(values: Mapping[str, Any], faults: list[Fault], as_json: bool) -> None:
    from rheostat.sim.loading import job_of

    job = job_of(values, faults)
    use = "rheostat simulate --job FILE runs it"
    console().print(f"[green]✓[/green] a job file: {escape(job.name)}, {escape(job.objective)}; {use}")
    if as_json:
        print_json({"schema": "rheostat.config/1", "job": job.model_dump(mode="json", by_alias=True)})


def print_reference(
    out: OutOption = None, jobs: JobsFlag = False, figures: FiguresFlag = False, as_json: JsonFlag = False
) -> None:
    """Print the reference of all settings, of job files, or of figures, in Markdown."""
    from rheostat.config import reference
    from rheostat.report.figures import figures_page

    if jobs and figures:
        raise InputError([Fault("figures", "--jobs --figures", "one of them", "these are two pages")])
    text = _job_reference() if jobs else figures_page() if figures else reference()
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
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"the page cannot be written: {error.strerror}"
        raise InputError([Fault("out", str(path), "a path that can be written", message)]) from None
