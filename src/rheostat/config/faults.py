"""Pydantic's errors in our words: one fault for every key that is wrong, with what is allowed and what may be meant.

Works on any tree of documented models: models in models, lists of models, and lists whose items are told apart by a
key (``kind``).
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rheostat.config.phrases import given_of, phrase
from rheostat.config.reference import allowed_of, keys_of, models_in
from rheostat.errors import Fault

__all__ = ["faults_of", "has_key"]


def faults_of(error: ValidationError, root: type[BaseModel]) -> Iterator[Fault]:
    """The faults behind an error of ``root``, each field once, by its dotted key; items of lists by their place."""
    seen = set()
    for details in error.errors(include_url=False):
        for fault in _translated(details, _place(root, details["loc"])):
            if fault.field not in seen:
                seen.add(fault.field)
                yield fault


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an error lies: the innermost model, the way to it, and what of the location is within that model."""

    root: type[BaseModel]
    model: type[BaseModel]
    path: tuple[str, ...]
    rest: tuple[str, ...]

    @property
    def field(self) -> str:
        return ".".join((*self.path, *self.rest))

    @property
    def key(self) -> str:
        """The dotted key that the location belongs to, with the place in a list of any length or a key of a mapping."""
        known = keys_of(self.model).get(self.rest[0]) if self.rest else None
        inside = 0 if known is None else _steps_inside(known.annotation, len(self.rest) - 1)
        return ".".join((*self.path, *self.rest[: 1 + inside])) if known is not None else self.field

    @property
    def is_choice(self) -> bool:
        """Whether the value may be of several types; then each of them has an error, and none says what is wrong."""
        known = keys_of(self.model).get(self.rest[0]) if self.rest else None
        return known is not None and len(self.rest) > 1 and len(_branches(known.annotation)) > 1

    @property
    def allowed(self) -> str:
        known = keys_of(self.model).get(self.rest[0]) if self.rest else None
        return "keys with values" if known is None else allowed_of(known)


def _place(root: type[BaseModel], location: tuple[int | str, ...]) -> _Place:
    model, path, rest = root, list[str](), list(location)
    while len(rest) > 1 and rest[0] in keys_of(model):
        inner = models_in(keys_of(model)[str(rest[0])].annotation)
        if not inner:
            break
        steps = 2 if isinstance(rest[1], int) else 1
        found = inner[0] if len(inner) == 1 else _tagged(inner, rest[steps : steps + 1])
        if found is None:
            break
        path += [str(part) for part in rest[:steps]]
        model, rest = found, rest[steps + (len(inner) > 1) :]
    return _Place(root, model, tuple(path), tuple(str(part) for part in rest))


def _branches(annotation: Any) -> tuple[Any, ...]:
    """The types that a value may have, without null."""
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return (annotation,)
    return tuple(each for each in typing.get_args(annotation) if each is not type(None))


def _steps_inside(annotation: Any, most: int) -> int:
    """How many steps of a location inside a value help to find the fault: one into a long list or a mapping."""
    branches = _branches(annotation)
    arguments = typing.get_args(branches[0])
    fixed = typing.get_origin(branches[0]) is tuple and Ellipsis not in arguments
    return 0 if len(branches) > 1 or not arguments or fixed else min(1, most)


def _tagged(models: tuple[type[BaseModel], ...], tag: list[int | str]) -> type[BaseModel] | None:
    fitting = (each for each in models if tag and tag[0] in _tags(each))
    return next(fitting, None)


def _tags(model: type[BaseModel]) -> tuple[Any, ...]:
    kind = model.model_fields.get("kind")
    return () if kind is None else typing.get_args(kind.annotation)


def _translated(details: ErrorDetails, place: _Place) -> Iterable[Fault]:
    """One of pydantic's errors in our words."""
    given = given_of(details.get("input"))
    match details["type"]:
        case "extra_forbidden":
            return [Fault(place.field, given, *_nearest(place))]
        case "missing" if place.field == place.key:
            return [Fault(place.field, "nothing", place.allowed, "this key is needed")]
        case "faults":
            own: tuple[Fault, ...] = details["ctx"]["faults"]
            return [Fault(_joined(place.field, f.field), f.given, f.allowed, f.message) for f in own]
        case "union_tag_invalid" | "union_tag_not_found":
            return [_unknown_kind(details, place)]
        case "invalid_key":
            return [Fault(place.field, given, "a name", "a key must be a name")]
        case _:
            message, allowed = phrase(details)
            if details["loc"][-1:] == ("[key]",):
                return [Fault(place.key, given, allowed, message)]
            return [Fault(place.key, given, place.allowed, "this is none of these" if place.is_choice else message)]


def _unknown_kind(details: ErrorDetails, place: _Place) -> Fault:
    kinds = [str(tag) for each in models_in(keys_of(place.model)[place.rest[0]].annotation) for tag in _tags(each)]
    given = str(details.get("ctx", {}).get("tag", "nothing"))
    close = difflib.get_close_matches(given, kinds, n=1)
    message = f"no such kind; did you mean {close[0]!r}?" if close else "each entry says of which kind it is"
    return Fault(_joined(place.field, "kind"), given, "one of: " + ", ".join(kinds), message)


def _joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every key of a tree of models: dotted, and its last part."""
    for name, field in keys_of(model).items():
        yield prefix + name, name
        for inner in models_in(field.annotation):
            yield from _keys(inner, f"{prefix}{name}.")


def has_key(root: type[BaseModel], dotted: str) -> bool:
    """Whether a tree of models has this key; places in lists do not count (``stages.0.cost_ms``)."""
    wanted = ".".join(part for part in dotted.split(".") if not part.isdecimal())
    return any(key == wanted for key, _ in _keys(root))


def _nearest(place: _Place) -> tuple[str, str]:
    """What is allowed in place of an unknown key, and the sentence that names the nearest known one."""
    given, fields = place.rest[-1], keys_of(place.model)
    known = dict(_keys(place.root))
    exact = [dotted for dotted, key in known.items() if key == given]
    close = difflib.get_close_matches(given, fields) or difflib.get_close_matches(given, known.values())
    here = [_joined(*place.path, close[0])] if close and close[0] in fields else []
    dotted = exact or here or [full for full, key in known.items() if key in close[:1]]
    message = f"unknown key; did you mean {dotted[0]!r}?" if dotted else "unknown key"
    return "one of: " + ", ".join(_joined(*place.path, key) for key in fields), message
