"""Jobs to simulate: presets and YAML files, with overrides. The simulator itself reads no files."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from rheostat.config.loading import read_document
from rheostat.errors import Fault, InputError, did_you_mean
from rheostat.sim.jobfile import JobFile, job_of

_PRESETS = files("rheostat.sim") / "presets"


def preset_names() -> tuple[str, ...]:
    """Names of the jobs that come with the package, sorted."""
    return tuple(sorted(file.name.removesuffix(".yaml") for file in _PRESETS.iterdir() if file.name.endswith(".yaml")))


def load_job(name_or_path: object, overrides: Mapping[str, Any] | None = None) -> JobFile:
    """A job from a preset's name or the path of a YAML file.

    Args:
        name_or_path: a path contains a ``/`` or ends as a YAML file; anything else is a name.
        overrides: values for dotted keys (``{"executor.start_up.median_s": 60.0}``), in place of the file's. Items of
            lists are numbered (``"stages.0.cost_ms"``); a mapping is merged into the present one.

    Raises:
        InputError: all faults, fields as dotted keys.

    >>> load_job("base", {"trigger_s": 5.0}).period_s
    30.0
    """
    values, faults = read_document(_locate(str(name_or_path)))
    return job_of(_override(values, overrides or {}), faults)


def _locate(given: str) -> str:
    if "/" in given or given.endswith((".yaml", ".yml")):
        return given
    names = preset_names()
    if given not in names:
        allowed = f"{', '.join(names)}, or the path of a file (*.yaml)"
        message = f"there is no job of this name{did_you_mean(given, names)}"
        raise InputError([Fault("job", repr(given), allowed, message)])
    return str(_PRESETS / f"{given}.yaml")


def _override(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    changed = dict(values)
    for dotted, value in overrides.items():
        changed = _replace_value(changed, dotted.split("."), value)
    return changed


def _replace_value(inside: Any, keys: list[str], value: Any) -> Any:
    if not keys:
        nested = isinstance(inside, Mapping) and isinstance(value, Mapping)
        return _override(inside, value) if nested else value
    key, *rest = keys
    if isinstance(inside, list) and key.isdecimal() and int(key) < len(inside):
        return [_replace_value(item, rest, value) if n == int(key) else item for n, item in enumerate(inside)]
    below = dict(inside) if isinstance(inside, Mapping) else {}
    return {**below, key: _replace_value(below.get(key), rest, value)}
