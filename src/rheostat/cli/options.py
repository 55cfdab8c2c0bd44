"""Options that several commands have, and options that mean nothing beside others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar, get_type_hints

import typer

from rheostat.errors import Fault

__all__ = ["spread", "unused"]

Result = TypeVar("Result")


def spread(group: type[Any]) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """A command whose parameter of this kind is the fields of a dataclass, each an option.

    Args:
        group: a dataclass; its fields are annotated as options are, and have defaults.
    """

    def decorate(command: Callable[..., Result]) -> Callable[..., Result]:
        listed = inspect.signature(command, eval_str=True).parameters.values()
        taker = next(each for each in listed if each.annotation is group)
        hints = get_type_hints(group, include_extras=True)
        shared = [taker.replace(name=f.name, default=f.default, annotation=hints[f.name]) for f in fields(group)]
        spread_out = [each for one in listed for each in (shared if one is taker else [one])]
        ordered = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in spread_out]

        @wraps(command)
        def called(**given: Any) -> Result:
            whole = group(**{field.name: given.pop(field.name) for field in fields(group)})
            return command(**{taker.name: whole}, **given)

        called.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
        called.__annotations__ = {each.name: each.annotation for each in ordered}
        return called

    return decorate


def unused(context: typer.Context, places: Mapping[str, str | None]) -> list[Fault]:
    """A fault for each option that was typed and would change nothing.

    Args:
        context: of the command.
        places: parameter → where it means something, in words; None: it does here.
    """
    return [
        Fault(name, _given(context, name), place, "it would change nothing here")
        for name, place in places.items()
        if place is not None and _typed(context, name)
    ]


def _typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _given(context: typer.Context, name: str) -> str:
    value = context.params[name]
    return f"--{name.replace('_', '-')}" if isinstance(value, bool) else str(value)
