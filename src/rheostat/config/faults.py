"""Pydantic's errors as faults: one for each wrong key, with its dotted path, the allowed values and the closest key.

Works on any tree of models: models in models, lists of models, and lists whose items a key (``kind``) distinguishes.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from rheostat.errors import Fault, InputError, closest, did_you_mean

M = TypeVar("M", bound=BaseModel)

_LONGEST_VALUE = 80
_MOST_PLACES = 3

_MESSAGES = {
    **dict.fromkeys(
        ("dataclass_type", "dict_type", "mapping_type", "model_attributes_type", "model_type"),
        "input should hold keys with values",
    ),
    **dict.fromkeys(("missing", "missing_argument"), "this key is required"),
    "path_type": "input should be a path",
    "tuple_type": "input should be a valid list",
}
"""Messages in place of pydantic's, which name Python's types there."""


def validate(model: type[M], values: object, faults: Iterable[Fault] = (), context: object = None) -> M:
    """The values as a model; ``faults`` were found while they were read, ``context`` is for the model's validators.

    Raises:
        InputError: these faults and all faults of the values, fields as dotted keys.
    """
    try:
        valid = model.model_validate(values, context=context)
    except ValidationError as error:
        raise InputError([*faults, *faults_of(error, model)]) from None
    if faults:
        raise InputError(faults)
    return valid


def faults_of(error: ValidationError, root: type[Any]) -> Iterator[Fault]:
    """The faults behind an error of ``root``, one for each field, by its dotted key; items of lists by their index."""
    reported = set()
    for details in error.errors(include_url=False):
        for fault in _translate(details, _locate(root, details["loc"]), root):
            if fault.field not in reported:
                reported.add(fault.field)
                yield fault


def describe(error: ValidationError) -> str:
    """What is wrong with a value that no person wrote, such as a stored state: one line, at most three places."""
    found = error.errors(include_url=False)
    words = []
    for details in found[:_MOST_PLACES]:
        where = ".".join(str(part) for part in details["loc"])
        given = "" if details["type"] in ("missing", "missing_argument") else f" (given: {_shorten(details['input'])})"
        words.append(f"{where}: {_message(details)}{given}" if where else f"{_message(details)}{given}")
    more = len(found) - _MOST_PLACES
    return "; ".join(words) + (f"; and {more} more" if more > 0 else "")


def has_key(root: type[BaseModel], dotted: str) -> bool:
    """Whether a tree of models has this key; indices in lists are ignored (``stages.0.cost_ms``)."""
    wanted = ".".join(part for part in dotted.split(".") if not part.isdecimal())
    return any(key == wanted for key, _ in _all_keys(root))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an error lies: the innermost model, the path to it, and the rest of the location within that model."""

    model: type[Any]
    path: tuple[str, ...]
    rest: tuple[str, ...]

    @property
    def info(self) -> FieldInfo | None:
        return keys_of(self.model).get(self.rest[0]) if self.rest else None

    @property
    def field(self) -> str:
        return ".".join((*self.path, *self.rest))

    @property
    def key(self) -> str:
        """The dotted key, with the index or the key of the item where a value is a long list or a mapping."""
        if self.info is None:
            return self.field
        first, arguments = self.types[0], typing.get_args(self.types[0])
        one_value = len(self.types) > 1 or not arguments
        fixed = typing.get_origin(first) is tuple and Ellipsis not in arguments
        return ".".join((*self.path, *self.rest[: 1 if one_value or fixed else 2]))

    @property
    def allowed(self) -> str:
        return "keys with values" if self.info is None else allowed_of(self.info)

    @property
    def types(self) -> tuple[Any, ...]:
        """The types that the value may have, without None."""
        annotation = None if self.info is None else self.info.annotation
        if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
            return (annotation,)
        return tuple(each for each in typing.get_args(annotation) if each is not type(None))


def _locate(root: type[Any], location: tuple[int | str, ...]) -> _Place:
    model, path, rest = root, list[str](), list(location)
    while len(rest) > 1 and rest[0] in keys_of(model):
        annotation = keys_of(model)[str(rest[0])].annotation
        inner = models_in(annotation)
        steps = 2 if isinstance(rest[1], int) or typing.get_origin(annotation) is dict else 1
        tags = int(len(inner) > 1)  # of several models, the location also holds the kind
        if tags:
            inner = tuple(each for each in inner if rest[steps : steps + 1] and rest[steps] in _kinds(each))
        if not inner:
            break
        path += [str(part) for part in rest[:steps]]
        model, rest = inner[0], rest[steps + tags :]
    return _Place(model, tuple(path), tuple(str(part) for part in rest))


def _kinds(model: type[BaseModel]) -> tuple[Any, ...]:
    kind = model.model_fields.get("kind")
    return () if kind is None else typing.get_args(kind.annotation)


def _translate(details: ErrorDetails, place: _Place, root: type[Any]) -> Iterable[Fault]:
    given = _shorten(details.get("input"))
    match details["type"]:
        case "extra_forbidden" | "unexpected_keyword_argument":
            return [_unknown_key(place, given, root)]
        case "missing" | "missing_argument" if place.field == place.key:
            return [Fault(place.field, "nothing", place.allowed, _MESSAGES["missing"])]
        case "faults":
            own: tuple[Fault, ...] = details["ctx"]["faults"]
            return [Fault(_join(place.field, f.field), f.given, f.allowed, f.message) for f in own]
        case "union_tag_invalid" | "union_tag_not_found":
            return [_unknown_kind(details, place)]
        case "invalid_key":
            return [Fault(place.field, given, "a name", "a key must be a name")]
        case _:
            of_key = details["type"] == "literal_error" and details["loc"][-1] == "[key]"
            allowed = details["ctx"]["expected"] if of_key else place.allowed
            # where a value may have several types, each has an error, and none says what is wrong
            choice = len(place.rest) > 1 and len(place.types) > 1
            message = f"input should be {place.allowed}" if choice else _message(details)
            return [Fault(place.key, given, allowed, message)]


def _message(details: ErrorDetails) -> str:
    kind, text = details["type"], details["msg"].removeprefix("Value error, ")
    text = text.split(", unable to")[0].split(" after validation")[0]
    subject, should, what = text.partition(" should ")
    message = _MESSAGES.get(kind, f"input should {what}" if should and " " not in subject else text)
    if kind == "literal_error" and isinstance(details["input"], str):
        message += did_you_mean(details["input"], details["ctx"]["expected"].split("'")[1::2])
    return message


def _unknown_kind(details: ErrorDetails, place: _Place) -> Fault:
    kinds = [str(tag) for each in models_in(place.info and place.info.annotation) for tag in _kinds(each)]
    given = str(details.get("ctx", {}).get("tag", "nothing"))
    hint = did_you_mean(given, kinds)
    message = f"no such kind{hint}" if hint else "each entry needs a key that names its kind"
    return Fault(_join(place.field, "kind"), given, "one of: " + ", ".join(kinds), message)


def _unknown_key(place: _Place, given: str, root: type[Any]) -> Fault:
    name, known, all_known = place.rest[-1], keys_of(place.model), dict(_all_keys(root))
    close = closest(name, known) or closest(name, all_known.values())
    same = [dotted for dotted, key in all_known.items() if key == name]
    here = [_join(*place.path, close)] if close and close in known else []
    meant = same or here or [dotted for dotted, key in all_known.items() if key == close]
    message = f"unknown key; did you mean {meant[0]!r}?" if meant else "unknown key"
    return Fault(place.field, given, "one of: " + ", ".join(_join(*place.path, key) for key in known), message)


def _all_keys(model: type[Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every key of a tree of models: dotted, and its last part."""
    for name, field in keys_of(model).items():
        yield prefix + name, name
        for inner in models_in(field.annotation):
            yield from _all_keys(inner, f"{prefix}{name}.")


def _join(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _shorten(value: object) -> str:
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


# Fields in words, for messages and for the reference pages

_WORDS = {bool: "true or false", int: "integer", float: "number", str: "text", Path: "path", type(None): "null"}
_PLURALS = {bool: "true or false", int: "integers", float: "numbers", str: "text"}
_COUNTS = {1: "one", 2: "two", 3: "three"}
_LIMITS = {
    "ge": "≥ {:g}",
    "gt": "> {:g}",
    "le": "≤ {:g}",
    "lt": "< {:g}",
    "min_length": "of length ≥ {}",
    "max_length": "of length ≤ {}",
}


def keys_of(model: type[Any]) -> dict[str, FieldInfo]:
    """The fields of a model or a dataclass by their keys in a file."""
    if is_dataclass(model):
        return {name: FieldInfo.from_annotation(kind) for name, kind in typing.get_type_hints(model).items()}
    return {field.alias or name: field for name, field in model.model_fields.items()}


def models_in(annotation: Any) -> tuple[type[BaseModel], ...]:
    """The models that values of this type hold: the type itself, or what it is a choice or a list of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    return tuple(model for argument in typing.get_args(annotation) for model in models_in(argument))


def allowed_of(field: FieldInfo) -> str:
    """What a field takes, in words: type, range and unit.

    >>> from rheostat.config.models import Settings
    >>> allowed_of(Settings.model_fields["sample_s"])
    'number ≥ 0.2 and ≤ 3600 (s)'
    """
    given = [(text, getattr(limit, name, None)) for limit in field.metadata for name, text in _LIMITS.items()]
    limits = " and ".join(text.format(value) for text, value in given if value is not None)
    extra = field.json_schema_extra
    unit = extra.get("unit") if isinstance(extra, Mapping) else None
    words = " ".join(filter(None, [_type(field.annotation), limits, f"({unit})" if unit else ""]))
    return words + " or null" if type(None) in typing.get_args(field.annotation) else words


def _type(annotation: Any) -> str:
    """A type in words, without its None."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        values = ", ".join(f"`{value}`" for value in arguments)
        return f"one of {values}" if len(arguments) > 1 else values
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(argument) for argument in arguments if argument is not type(None))
    if origin is tuple:
        count = "" if Ellipsis in arguments else f"{_COUNTS.get(len(arguments), len(arguments))} "
        return f"list of {count}{_plural(arguments[0])}"
    if origin is typing.Annotated:
        return _type(arguments[0])
    return "keys with values" if origin is not None or models_in(annotation) else _WORDS.get(annotation, "a value")


def _plural(annotation: Any) -> str:
    if models_in(annotation):
        return "keys with values"
    if typing.get_origin(annotation) is tuple:
        return "lists of numbers" if Ellipsis in typing.get_args(annotation) else "pairs of numbers"
    return _PLURALS.get(annotation) or _type(annotation)
