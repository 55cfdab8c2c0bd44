"""What users see of the package by name: the public names with their signatures, and the help of every command."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.golden.commands import run_command

import rheostat.testing

_LONG_DEFAULT = 60

COMMANDS = (
    "",
    "demo",
    "run",
    "explain",
    "replay",
    "simulate",
    "compare",
    "tune",
    "calibrate",
    "load",
    "lab",
    "lab up",
    "lab status",
    "lab down",
    "fleet",
    "fleet collect",
    "fleet train",
    "node",
    "bench",
    "experiment",
    "config",
    "config check",
    "config reference",
)


def public_names() -> dict[str, str]:
    """Each public name with its signature, and those of its public methods."""
    found: dict[str, str] = {}
    for module in (rheostat, rheostat.testing):
        for name in sorted(module.__all__):
            found.update(_described(module, name))
    return found


def help_of(command: str, folder: Path) -> str:
    """The words of its help, at a width at which nothing is broken, without the frames."""
    code, out, _ = run_command([*command.split(), "--help"], folder, columns=1000)
    assert code == 0
    frames = str.maketrans(dict.fromkeys("│─╭╮╰╯", " "))
    lines = [" ".join(line.translate(frames).split()) for line in out.splitlines()]
    return "\n".join(line for line in lines if line)


def _described(module: ModuleType, name: str) -> dict[str, str]:
    value: Any = getattr(module, name)
    where = f"{module.__name__}.{name}"
    if not callable(value):
        return {where: type(value).__name__}
    found = {where: _signature(value)}
    if inspect.isclass(value):
        methods = {method: made for method, made in vars(value).items() if not method.startswith("_")}
        found |= {f"{where}.{method}": _signature(made) for method, made in methods.items() if callable(made)}
    return found


def _signature(value: Any) -> str:
    """Of a callable; in place of a long default stands an ellipsis."""
    signature = inspect.signature(value)
    parameters = [
        each if len(repr(each.default)) <= _LONG_DEFAULT else each.replace(default=...)
        for each in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters))
