"""From a file or a mapping to settings, with every fault named at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rheostat.config.models import GuardSettings, Settings
from rheostat.config.reference import allowed_of
from rheostat.errors import Fault, InputError

__all__ = ["load_settings"]

_SECTIONS: Mapping[str, type[BaseModel]] = {"": Settings, "guard": GuardSettings}


def load_settings(given: str | Path | Mapping[str, Any]) -> Settings:
    """Settings from a YAML file (a path) or from a mapping of the same shape.

    Raises:
        InputError: with one fault for everything that is wrong, fields as dotted keys.

    >>> load_settings({"objective": "lag < 30s", "executors": [1, 20]}).mode
    'act'
    """
    values, faults = _values(given)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise InputError([*faults, *_faults(error)]) from None
    if faults:
        raise InputError(faults)
    return settings


def _values(given: str | Path | Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Fault]]:
    if isinstance(given, Mapping):
        return given, []
    from rheostat.config.documents import read_document

    return read_document(Path(given))


def _faults(error: ValidationError) -> Iterator[Fault]:
    seen = set()
    for details in error.errors(include_url=False):
        for fault in _translated(details):
            if fault.field not in seen:
                seen.add(fault.field)
                yield fault


def _translated(details: ErrorDetails) -> Iterable[Fault]:
    """One of pydantic's errors in our words."""
    location = tuple(str(part) for part in details["loc"])
    field = ".".join(location)
    given = _shown(details.get("input"))
    match details["type"]:
        case "extra_forbidden":
            return [Fault(field, given, *_nearest(location))]
        case "missing" if field == _key(location):
            return [Fault(field, "nothing", _allowed(location), "this key is needed")]
        case "faults":
            own: tuple[Fault, ...] = details["ctx"]["faults"]
            return [Fault(_joined(field, f.field), f.given, f.allowed, f.message) for f in own]
        case _:
            return [Fault(_key(location), given, _allowed(location), details["msg"])]


def _joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _section(location: tuple[str, ...]) -> tuple[str, type[BaseModel]]:
    name = location[0] if len(location) > 1 and location[0] in _SECTIONS else ""
    return name, _SECTIONS[name]


def _key(location: tuple[str, ...]) -> str:
    """The dotted key that a location belongs to, without positions and branches inside its value."""
    section, model = _section(location)
    rest = location[1:] if section else location
    return _joined(section, *rest[:1]) if rest and rest[0] in model.model_fields else _joined(*location)


def _allowed(location: tuple[str, ...]) -> str:
    section, model = _section(location)
    name = location[1] if section else (location or ("",))[0]
    return allowed_of(model.model_fields[name]) if name in model.model_fields else "keys with values"


def _nearest(location: tuple[str, ...]) -> tuple[str, str]:
    """What is allowed in place of an unknown key, and the sentence that names the nearest known one."""
    section, model = _section(location)
    known = {_joined(name, key): key for name, of in _SECTIONS.items() for key in of.model_fields}
    exact = [dotted for dotted, key in known.items() if key == location[-1]]
    close = difflib.get_close_matches(location[-1], model.model_fields) or difflib.get_close_matches(
        location[-1], known.values()
    )
    dotted = exact or [full for full, key in known.items() if key in close[:1]]
    message = f"unknown key; did you mean {dotted[0]!r}?" if dotted else "unknown key"
    return "one of: " + ", ".join(_joined(section, key) for key in model.model_fields), message
