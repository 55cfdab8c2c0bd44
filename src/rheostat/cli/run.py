"""``rheostat run``: an unmodified PySpark script under control; ``rheostat demo``: a live run on this machine."""

from __future__ import annotations

import shlex
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rheostat.cli.common import JsonFlag, console, executors_of, number_of, print_json, program, report, to_json
from rheostat.errors import Fault, InputError, RheostatError, attempt

if TYPE_CHECKING:
    from rheostat.demo.overload import OverloadPlan
    from rheostat.demo.run import DemoRun


def run(
    script: Annotated[Path, typer.Argument(help="A PySpark script; later arguments are passed to it.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments of the script.")] = None,
    objective: Annotated[str | None, typer.Option(help=r"lag < DURATION \[for PERCENT%].")] = None,
    executors: Annotated[str | None, typer.Option(help="Bounds MIN,MAX of the executors. Default: watch only.")] = None,
    policy: Annotated[str | None, typer.Option(help="A policy, or POLICY:PRESET.")] = None,
    mode: Annotated[str | None, typer.Option(help="act, dry-run or watch.")] = None,
    journal: Annotated[str | None, typer.Option(help="Folder of the journal.")] = None,
    config: Annotated[Path | None, typer.Option(help="Settings file. The options here override it.")] = None,
    conf: Annotated[list[str] | None, typer.Option(help="Spark setting KEY=VALUE. Repeatable.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Run an unmodified PySpark script and scale its executors while it runs."""
    from rheostat.runner import Script, run_script

    faults: list[Fault] = []
    given = {
        "objective": objective,
        "executors": None if executors is None else attempt(executors_of, None, faults, executors),
        "policy": policy,
        "mode": mode,
        "journal": journal,
    }
    spark_conf = _pairs(conf or [], faults)
    settings = _settings(config, {key: value for key, value in given.items() if value is not None}, faults)
    spark_script = attempt(Script, None, faults, script, arguments or [], spark_conf)
    if faults:
        raise InputError(faults)
    code = _run(run_script, spark_script, settings)
    if as_json:
        print_json({"schema": "rheostat.run/1", "script": str(script), "exit_code": code, "journal": journal})
    if code:
        raise typer.Exit(code)


def _run(run_script: Callable[..., int], script: Any, settings: Mapping[str, Any]) -> int:
    """The script's exit code. An exception prints its traceback without Rheostat's frames."""
    try:
        return run_script(script, settings)
    except RheostatError:
        raise
    except Exception as error:
        steps = traceback.TracebackException.from_exception(error)
        own = [index for index, step in enumerate(steps.stack) if step.filename == str(script.path)]
        del steps.stack[: own[0] if own else None]
        sys.stderr.writelines(steps.format())
        message = f"{script.path} failed: {type(error).__name__}: {error}"
        raise RheostatError(message) from error


def _pairs(texts: list[str], faults: list[Fault]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if equals and key:
            pairs[key] = value
        else:
            faults.append(Fault("conf", text, "KEY=VALUE", "a Spark setting has a key and a value"))
    return pairs


def _settings(file: Path | None, given: dict[str, Any], faults: list[Fault]) -> dict[str, Any]:
    """The settings of the file, overridden by the options, and checked."""
    from rheostat.config.loading import read_document
    from rheostat.decide.settings_check import check_settings

    read, wrong = ({}, []) if file is None else attempt(read_document, ({}, []), faults, file)
    settings = {**read, **given}
    attempt(check_settings, None, faults, settings, wrong)
    return settings


# rheostat demo


_OPTIONS = {"peak_rate": "rate"}
"""Field of the plan → its option, where they differ."""

_TABLE_WIDTH = 80
"""Narrowest terminal for the table of ratios, columns."""


def demo(
    source: Annotated[
        str | None,
        typer.Option(help="kafka, rheostat-kafka (our source), or log (files). Default: kafka; with --overload ours."),
    ] = None,
    objective: Annotated[str, typer.Option(help=r"lag < DURATION \[for PERCENT%].")] = "lag < 20s",
    executors: Annotated[
        str | None, typer.Option(help="Bounds MIN,MAX of the executors. Default: 1,6; with --overload 1,2.")
    ] = None,
    policy: Annotated[str, typer.Option(help="A policy, or POLICY:PRESET.")] = "reactive",
    rate: Annotated[
        str | None, typer.Option(help="Records/s at the plateau. Default: sized to what this machine carries.")
    ] = None,
    partitions: Annotated[str, typer.Option(help="Partitions of the topic.")] = "12",
    seed: Annotated[str, typer.Option(help="Seed of keys and payloads.")] = "7",
    baseline: Annotated[
        bool, typer.Option("--baseline", help="Also run with the static size, for comparison.")
    ] = False,
    overload: Annotated[
        bool,
        typer.Option("--overload", help="A load beyond the greatest number of executors, without and with shedding."),
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the report, the score and the journal.")] = Path(
        "rheostat-demo"
    ),
    as_json: JsonFlag = False,
) -> None:
    """Run load, pipeline, cluster and autoscaler on this machine; report savings and violations."""
    from rheostat.decide.settings_check import check_settings
    from rheostat.demo.overload import OverloadPlan
    from rheostat.demo.run import DemoPlan

    faults: list[Fault] = []
    given: dict[str, Any] = {
        "source": source,
        "objective": objective,
        "executors": None if executors is None else attempt(executors_of, None, faults, executors),
        "policy": policy,
        "peak_rate": None if rate is None else attempt(number_of, None, faults, "rate", rate, float),
        "partitions": attempt(number_of, None, faults, "partitions", partitions, int),
        "seed": attempt(number_of, None, faults, "seed", seed, int),
    }
    attempt(check_settings, None, faults, {"objective": "lag < 60s", "profile": "demo", "policy": policy})
    wrong: list[Fault] = []
    kind = OverloadPlan if overload else DemoPlan
    plan = attempt(kind, None, wrong, **{name: value for name, value in given.items() if value is not None})
    if overload and baseline:
        faults.append(
            Fault("baseline", "with --overload", "one of the two", "--overload makes two runs to compare already")
        )
    faults += [replace(fault, field=_OPTIONS.get(fault.field, fault.field)) for fault in wrong]
    if faults:
        raise InputError(faults)
    if isinstance(plan, OverloadPlan):
        _run_overload(plan, out.absolute(), as_json=as_json)
    else:
        _run_demo(plan, out.absolute(), with_baseline=baseline, as_json=as_json)


def _run_overload(plan: OverloadPlan, out: Path, *, as_json: bool) -> None:
    """First the run without shedding, which also measures the machine; then the same load with it."""
    from rheostat.demo import overload
    from rheostat.demo import run as demos

    screen = console()
    folder = _new_folder(out)
    with demos.LiveTable(plan, folder / "baseline", screen).open() as table:
        without = demos.run_demo(plan, folder / "baseline", table.say, table.show)
    sheds = overload.shedding_of(without, folder / "orders.json")
    with demos.LiveTable(sheds, folder, screen).open() as table:
        run = demos.run_demo(sheds, folder, table.say, table.show)
    page = overload.write_page(run, without, folder / "report.html")
    lines = [f"Report: {page}"]
    _tell(run, overload.verdict(run, without), overload.result(run, without), lines, folder, as_json=as_json)


def _run_demo(plan: Any, out: Path, *, with_baseline: bool, as_json: bool) -> None:
    from rheostat.demo import run as demos

    screen = console()
    folder = _new_folder(out)
    show_ratios(screen, demos.ratio_rows())
    with demos.LiveTable(plan, folder, screen).open() as table:
        run = demos.run_demo(plan, folder, table.say, table.show)
    static = None
    if with_baseline:
        fixed = run.plan.static(run.score["executors_max"])
        with demos.LiveTable(fixed, folder / "baseline", screen).open() as table:
            static = demos.run_demo(fixed, folder / "baseline", table.say, table.show)
    page = demos.write_page(run, static, folder / "report.html")
    lines = [f"Report: {page}", f"To see why: {program()} explain {shlex.quote(str(folder / 'journal'))}"]
    _tell(run, demos.verdict(run, static), demos.result(run, static), lines, folder, as_json=as_json)


def _tell(
    run: DemoRun, verdict: str, result: Mapping[str, Any], lines: Sequence[str], folder: Path, *, as_json: bool
) -> None:
    """Write the score, print what came out, and fail if records are missing."""
    (folder / "score.json").write_text(to_json(result) + "\n", encoding="utf-8")
    report(verdict)
    for line in lines:
        console().print(line, markup=False, soft_wrap=True)
    if as_json:
        print_json(result)
    if not run.score["valid"]:
        message = f"the sink does not hold the produced records: {run.sink}, expected {run.load.checksum}"
        raise RheostatError(message)
    if not run.drained:
        message = f"the last record was not committed within {run.plan.drain_s:g} s"
        raise RheostatError(message)


def show_ratios(screen: Console, rows: Sequence[Sequence[str]]) -> None:
    """Print rows, header first, as a table, or as a list on a narrow screen."""
    header, *rest = rows
    if screen.width < _TABLE_WIDTH:
        for name, *cells in rest:
            figures = ", ".join(f"{label} {cell}" for label, cell in zip(header[1:], cells, strict=True))
            screen.print(f"{name}\n  {figures}", markup=False)
        return
    table = Table(*header, box=box.SIMPLE, pad_edge=False)
    for row in rest:
        table.add_row(*map(escape, row))
    screen.print(table)


def _new_folder(out: Path) -> Path:
    """Create the folder of this run: ``run-1``, ``run-2`` and so on."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        taken = [int(name) for path in out.glob("run-*") if (name := path.name.removeprefix("run-")).isdecimal()]
        folder = out / f"run-{max(taken, default=0) + 1}"
        folder.mkdir()
    except OSError as error:
        message = f"the folder cannot be created: {error.strerror}"
        raise InputError([Fault("out", str(out), "a folder that can be written", message)]) from error
    return folder
