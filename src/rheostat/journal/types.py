"""Whether a value that was read has the types that its class declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

_PLAIN: Mapping[Any, tuple[tuple[type, ...], str]] = {
    float: ((float, int), "a number"),
    int: ((int,), "a whole number"),
    str: ((str,), "text"),
    bool: ((bool,), "true or false"),
    NoneType: ((NoneType,), "null"),
}
"""Types of a plain value in JSON, and its name."""


class Wrong(NamedTuple):
    """A value of another type than declared. ``path``: of the field, as in ``.batch.duration_s``."""

    path: str
    allowed: str
    given: Any


Check = Callable[[Any], Wrong | None]


def find_wrong(value: Any, hint: Any) -> Wrong | None:
    """The first value inside that has another type than declared; None: all have theirs.

    >>> find_wrong((1.0, "soon"), tuple[float, ...])
    Wrong(path='[1]', allowed='a number', given='soon')
    """
    return _check_of(hint)(value)


@cache
def _check_of(hint: Any) -> Check:
    types, allowed = _plain_types(hint)
    if types:
        return lambda value: None if type(value) in types else Wrong("", allowed, value)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        inner = _check_of(next(each for each in args if each is not NoneType))
        return lambda value: None if value is None else inner(value)
    if origin is tuple:
        return _check_of_tuple(args)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inner = _check_of(args[1])
        return lambda value: (
            _first(((key, each, inner) for key, each in value.items()), ".{}")
            if isinstance(value, Mapping)
            else Wrong("", "keys with values", value)
        )
    if isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields")):
        return _check_of_class(hint)
    return lambda _: None


def _check_of_tuple(args: Sequence[Any]) -> Check:
    if len(args) == 2 and args[1] is Ellipsis:
        inner, (types, _) = _check_of(args[0]), _plain_types(args[0])

        def check_all(value: Any) -> Wrong | None:
            if types and set(map(type, value)).issubset(types):
                return None
            return _first(((place, each, inner) for place, each in enumerate(value)), "[{}]")
    else:
        checks = [_check_of(each) for each in args]

        def check_all(value: Any) -> Wrong | None:
            each = zip(value, checks, strict=False)
            return _first(((place, one, check) for place, (one, check) in enumerate(each)), "[{}]")

    def check(value: Any) -> Wrong | None:
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        return check_all(value) if is_list else Wrong("", "a list", value)

    return check


def _check_of_class(kind: type) -> Check:
    hints = get_type_hints(kind)
    names = getattr(kind, "_fields", None) or list(getattr(kind, "__dataclass_fields__", ()))
    plain = [(name, frozenset(types)) for name in names if (types := _plain_types(hints[name])[0])]
    nested = [(name, attrgetter(name), _check_of(hints[name])) for name in names if not _plain_types(hints[name])[0]]

    def check(value: Any) -> Wrong | None:
        if not isinstance(value, kind):
            return Wrong("", "a list or keys with values", value)
        for name, types in plain:
            if type(getattr(value, name)) not in types:
                return Wrong(f".{name}", _plain_types(hints[name])[1], getattr(value, name))
        return _first(((name, read(value), inner) for name, read, inner in nested), ".{}")

    return check


def _first(parts: Iterable[tuple[Any, Any, Check]], step: str) -> Wrong | None:
    for name, value, check in parts:
        wrong = check(value)
        if wrong is not None:
            return wrong._replace(path=step.format(name) + wrong.path)
    return None


@cache
def _plain_types(hint: Any) -> tuple[tuple[type, ...], str]:
    """The types of a plain value, or of one of several; empty: it is not plain."""
    each = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if not all(part in _PLAIN for part in each):
        return (), ""
    found = [_PLAIN[part] for part in each]
    return tuple(one for types, _ in found for one in types), ", or ".join(words for _, words in found)
