"""``rheostat config``: check a settings file or a job file, print the reference of all settings."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.markup import escape

from rheostat.cli.common import JsonFlag, console, print_json, show_idle, write_text
from rheostat.config.faults import models_in
from rheostat.config.models import Settings
from rheostat.config.reference import table
from rheostat.errors import Fault, InputError
from rheostat.judge.cases import load_job, preset_names
from rheostat.sim.events import Event, LastingEvent
from rheostat.sim.jobfile import (
    Distribution,
    Driver,
    ExecutorCost,
    JobFile,
    Metrics,
    NodeMap,
    RecordModel,
    Rescale,
    Sink,
    Stage,
    State,
    job_of,
)

config = typer.Typer(no_args_is_help=True, help="Check a settings file or a job file, print the documented reference.")


@config.command("check")
def check(
    file: Annotated[Path, typer.Argument(help="The YAML file to check.", show_default=False)],
    as_json: JsonFlag = False,
) -> None:
    """List everything that is wrong with a settings file or a job file, and settings without effect."""
    from rheostat.config.loading import read_document
    from rheostat.decide.settings_check import check_settings, no_effect

    values, faults = read_document(file)
    result: dict[str, Any]
    if str(values.get("schema", "")).startswith("rheostat.job/"):
        job = job_of(values, faults)
        use = "rheostat simulate --job FILE runs it"
        console().print(f"[green]✓[/green] a job file: {escape(job.name)}, {escape(job.objective)}; {use}")
        result = {"job": job.model_dump(mode="json", by_alias=True)}
    else:
        settings = check_settings(values, faults)
        idle = no_effect(values, settings)
        console().print(f"[green]✓[/green] {settings.mode}: {escape(_summarize(settings))}")
        show_idle(idle)
        result = {"settings": settings.model_dump(mode="json"), "no_effect": [asdict(each) for each in idle]}
    if as_json:
        print_json({"schema": "rheostat.config/1", **result})


def _summarize(settings: Settings) -> str:
    bounds = "no bounds" if settings.executors is None else "{} to {} executors".format(*settings.executors)
    actuator = [] if settings.mode == "watch" else [f"actuator {settings.actuator}"]
    return ", ".join([str(settings.parsed_objective), bounds, f"policy {settings.policy}", *actuator])


@config.command("reference")
def print_reference(
    out: Annotated[Path | None, typer.Option("--out", help="Write to this file instead of standard output.")] = None,
    jobs: Annotated[bool, typer.Option("--jobs", help="The reference of job files, for the simulator.")] = False,
    figures: Annotated[
        bool, typer.Option("--figures", help="The definitions of every figure that is printed.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Print the reference of all settings, of job files, or of figures, in Markdown."""
    from rheostat.config.reference import reference
    from rheostat.report.html import figures_page

    if jobs and figures:
        raise InputError([Fault("figures", "--jobs --figures", "one of them", "these are two pages")])
    text = job_reference() if jobs else figures_page() if figures else reference()
    if out is not None:
        write_text(out, text, "the page")
    if as_json:
        print_json({"schema": "rheostat.config-reference/1", "out": out and str(out), "markdown": text})
    elif out is None:
        typer.echo(text, nl=False)


# The reference page of job files, made from the models themselves.

_SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("stages[]", Stage),
    ("driver", Driver),
    ("executor", ExecutorCost),
    ("state", State),
    ("record", RecordModel),
    ("nodes", NodeMap),
    ("rescale", Rescale),
    ("sink", Sink),
    ("metrics", Metrics),
)

_HEAD = """# Job files

<!-- Made by `rheostat config reference --jobs --out docs/jobs.md`; do not edit. -->

A job file describes the job that the simulator runs: the costs of a batch and of an executor, how the number of
executors is changed, and injected events. It is YAML; times are in seconds. Unknown keys and duplicate keys are errors.
`rheostat config check FILE` reports all errors at once. Every command that takes a job takes the name of a preset or
the path of a file, and overrides by dotted keys after `job.`: `--set job.executor.start_up.median_s=30`,
`--set job.stages.0.cost_ms=2`.

```yaml
schema: rheostat.job/1
name: orders
objective: lag < 60s for 99%
executors: [1, 12]
trigger_s: 10
partitions: 24
batch_cap: 200000
stages:
  - {name: read, cost_ms: 0.4}
  - {name: aggregate, tasks: 48, cost_ms: 0.2, stateful: true}
events:
  - {kind: dead, at_s: 1800, executor: 0}
```

## How a batch runs

A batch begins on the grid of the trigger, or at once if the one before ended too late for it. It takes what has
arrived, at most the cap. Its time is `driver.planning_s`, the stages in order, `driver.commit_s` and `state.commit_s`.
A task takes `task_ms + its records × cost_ms` and goes to the first free slot, so T equal tasks on s slots take ⌈T ÷ s⌉
waves. Executors that register meanwhile take waiting tasks; the first task in each of their slots is cold. Executors
are removed between two batches. Records are committed when their batch ends, so lag is a sawtooth.

A job of the model `record` has no batches. It looks like a job with a trigger of `commit_every_s` whose batch time is
the share of the interval that its records took, so that batch ÷ trigger is its utilization. Its executors share all
work: a slow one lowers their capacity but is never identified, and `guard.replace_slow` has no effect.
"""


def job_reference() -> str:
    """The page in Markdown."""
    return "\n".join([_HEAD, *_models(), *_events(), *_presets()]) + "\n"


def _models() -> Iterator[str]:
    yield from ["## Job", "", *table(JobFile, "")]
    for name, model in _SECTIONS:
        yield from ["", f"## {name.removesuffix('[]').capitalize()}", "", _description(model), ""]
        yield from table(model, f"{name}.")
    head = "`executor.start_up` and `rescale.pause` have these keys."
    yield from ["", "## Durations", "", head, "", *table(Distribution, "")]


def _events() -> Iterator[str]:
    *others, last = [f"`{_kind(model)}`" for model in models_in(Event) if not issubclass(model, LastingEvent)]
    moments = f"{', '.join(others)} and {last}"
    head = f"Entries of `events`, each with its `kind` and these keys; {moments} are moments without `for_s`."
    yield from ["", "## Events", "", head, "", *table(LastingEvent, "")]
    common = tuple(f"| `{key}`" for key in LastingEvent.model_fields)
    for model in models_in(Event):
        rows = [row for row in table(model, "") if not row.startswith(common)]
        yield from ["", f"### `{_kind(model)}`", "", _description(model), *(["", *rows] if len(rows) > 2 else [])]


def _kind(model: type[BaseModel]) -> str:
    return str(typing.get_args(model.model_fields["kind"].annotation)[0])


def _presets() -> Iterator[str]:
    yield from ["", "## Presets", "", "| preset | model | objective | executors | partitions | trigger, s |"]
    yield "|---|---|---|---|---|---|"
    for name in preset_names():
        job = load_job(name)
        bounds = f"{job.n_min} to {job.n_max}"
        yield f"| `{name}` | {job.model} | {job.objective} | {bounds} | {job.partitions} | {job.trigger_s:g} |"


def _description(model: type[BaseModel]) -> str:
    return " ".join((inspect.getdoc(model) or "").split())
