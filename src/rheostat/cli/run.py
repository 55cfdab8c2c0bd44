"""``rheostat run app.py``: an unmodified PySpark script under control."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rheostat.cli.common import JsonFlag, executors_of, print_json
from rheostat.errors import Fault, InputError, RheostatError, tried


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
        "executors": None if executors is None else tried(executors_of, None, faults, executors),
        "policy": policy,
        "mode": mode,
        "journal": journal,
    }
    spark_conf = _pairs(conf or [], faults)
    settings = _settings(config, {key: value for key, value in given.items() if value is not None}, faults)
    spark_script = tried(Script, None, faults, script, arguments or [], spark_conf)
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

    read, wrong = ({}, []) if file is None else tried(read_document, ({}, []), faults, file)
    settings = {**read, **given}
    tried(check_settings, None, faults, settings, wrong)
    return settings
