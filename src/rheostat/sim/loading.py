"""From a preset or a file to a job, with every fault named at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from pydantic import ValidationError

from rheostat.config.documents import read_document
from rheostat.config.faults import faults_of
from rheostat.errors import Fault, InputError
from rheostat.sim.jobfile import JobFile

__all__ = ["job_of", "load_job", "preset_names"]

_SUFFIXES = (".yaml", ".yml")


def preset_names() -> tuple[str, ...]:
    """Names of the jobs that come with the package, sorted."""
    folder = files("rheostat.sim") / "presets"
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")))


def load_job(name_or_path: object, overrides: Mapping[str, Any] | None = None) -> JobFile:
    """A job from a preset's name or the path of a YAML file.

    Args:
        name_or_path: a name is what has neither a ``/`` nor the ending of a YAML file.
        overrides: values for dotted keys (``{"executor.start_up.median_s": 60.0}``), in place of the file's. Items of
            lists are numbered (``"stages.0.cost_ms"``); a value that is a mapping is merged into what is there.

    Raises:
        InputError: one fault for everything that is wrong, fields as dotted keys.

    >>> load_job("base", {"trigger_s": 5.0}).period_s
    30.0
    """
    values, faults = read_document(_found(str(name_or_path)))
    return job_of(_overridden(values, overrides or {}), faults)


def job_of(values: Mapping[str, Any], faults: Iterable[Fault] = ()) -> JobFile:
    """A job from the values of a file; ``faults`` are those that were found while it was read.

    Raises:
        InputError: one fault for everything that is wrong.
    """
    try:
        job = JobFile.model_validate(values)
    except ValidationError as error:
        raise InputError([*faults, *faults_of(error, JobFile)]) from None
    if faults:
        raise InputError(faults)
    return job


def _found(given: str) -> str:
    if "/" in given or given.endswith(_SUFFIXES):
        return given
    names = preset_names()
    if given not in names:
        close = difflib.get_close_matches(given, names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        allowed = f"{', '.join(names)}, or the path of a file (*.yaml)"
        raise InputError([Fault("job", repr(given), allowed, f"there is no job of this name{hint}")])
    return str(files("rheostat.sim") / "presets" / f"{given}.yaml")


def _overridden(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    changed: Any = dict(values)
    for dotted, value in overrides.items():
        changed = _with(changed, dotted.split("."), value)
    found: dict[str, Any] = changed
    return found


def _with(inside: Any, keys: list[str], value: Any) -> Any:
    """``inside`` with another value at the end of the way ``keys``."""
    if not keys:
        nested = isinstance(inside, Mapping) and isinstance(value, Mapping)
        return _overridden(inside, value) if nested else value
    key, *rest = keys
    if isinstance(inside, list) and key.isdecimal() and int(key) < len(inside):
        return [_with(item, rest, value) if n == int(key) else item for n, item in enumerate(inside)]
    below = dict(inside) if isinstance(inside, Mapping) else {}
    return {**below, key: _with(below.get(key), rest, value)}
