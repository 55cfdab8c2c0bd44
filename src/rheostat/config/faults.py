"""Pydantic's errors in our words: one fault for every key that is wrong, with what is allowed and what may be meant.

Works on any tree of documented models: models in models, lists of models, and lists whose items are told apart by a
key (``kind``).
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rheostat.config.reference import allowed_of, keys_of, models_in
from rheostat.errors import Fault, closest, did_you_mean


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
    hint = did_you_mean(given, kinds)
    message = f"no such kind{hint}" if hint else "each entry says of which kind it is"
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
    close = closest(given, fields) or closest(given, known.values())
    here = [_joined(*place.path, close)] if close in fields else []
    dotted = exact or here or [full for full, key in known.items() if key == close]
    message = f"unknown key; did you mean {dotted[0]!r}?" if dotted else "unknown key"
    return "one of: " + ", ".join(_joined(*place.path, key) for key in fields), message


# What pydantic finds wrong with a value, in our words: a phrase for each type of error that models can give.


_NUMBER = ("this is no number", "a number")
_WHOLE = ("this is no whole number", "an integer")
_LIST = ("this is no list", "a list")
_KEYS = ("this holds no keys with values", "keys with values")
_UNKNOWN = ("unknown key", "a key that is there")
_NEEDED = ("this key is needed", "a value")
_KIND = ("each entry says of which kind it is", "a kind")

PHRASES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "bool_type": ("this is neither true nor false", "true or false"),
        "dataclass_type": _KEYS,
        "dict_type": _KEYS,
        "extra_forbidden": _UNKNOWN,
        "faults": ("{message}", "what it says"),
        "finite_number": ("a number must be finite", "a finite number"),
        "float_parsing": _NUMBER,
        "float_type": _NUMBER,
        "greater_than": ("it is too small", "> {gt}"),
        "greater_than_equal": ("it is too small", "≥ {ge}"),
        "int_from_float": _WHOLE,
        "int_parsing": _WHOLE,
        "int_parsing_size": _WHOLE,
        "int_type": _WHOLE,
        "invalid_key": ("a key must be a name", "a name"),
        "less_than": ("it is too large", "< {lt}"),
        "less_than_equal": ("it is too large", "≤ {le}"),
        "list_type": _LIST,
        "literal_error": ("there is no such choice", "{expected}"),
        "mapping_type": _KEYS,
        "missing": _NEEDED,
        "missing_argument": _NEEDED,
        "model_attributes_type": _KEYS,
        "model_type": _KEYS,
        "path_type": ("this is no path", "a path"),
        "string_too_long": ("the text is too long", "at most {max_length} characters"),
        "string_too_short": ("the text is too short", "at least {min_length} character(s)"),
        "string_type": ("this is no text", "text"),
        "too_long": ("these are too many", "at most {max_length}"),
        "too_short": ("these are too few", "at least {min_length}"),
        "tuple_type": _LIST,
        "unexpected_keyword_argument": _UNKNOWN,
        "union_tag_invalid": _KIND,
        "union_tag_not_found": _KIND,
        "value_error": ("{error}", "what it says"),
    }
)
"""Type of error → what is wrong, and what is allowed; names in braces are those of pydantic's context."""

_MOST = 80
"""Characters of a value that are shown."""


def phrase(details: ErrorDetails) -> tuple[str, str]:
    """What is wrong, and what is allowed. A type of error that no model of ours can give stays in pydantic's words.

    >>> phrase({"type": "greater_than", "loc": ("a",), "msg": "", "input": -1, "ctx": {"gt": 0}})
    ('it is too small', '> 0')
    >>> phrase({"type": "literal_error", "loc": ("a",), "msg": "", "input": "mx", "ctx": {"expected": "'up' or 'max'"}})
    ("there is no such choice; did you mean 'max'?", "'up' or 'max'")
    """
    kind, context = details["type"], details.get("ctx", {})
    if kind not in PHRASES:
        return details["msg"], "what it says"
    message, allowed = (text.format(**context) for text in PHRASES[kind])
    return message + (_meant(details, allowed) if kind == "literal_error" else ""), allowed


def given_of(value: object) -> str:
    """A value as it was given, cut where it is long.

    >>> given_of([1, "a"]), len(given_of("x" * 500))
    ("[1, 'a']", 80)
    """
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= _MOST else text[: _MOST - 3] + "..."


def _meant(details: ErrorDetails, allowed: str) -> str:
    given, choices = details["input"], allowed.split("'")[1::2]
    return did_you_mean(given, choices) if isinstance(given, str) else ""
