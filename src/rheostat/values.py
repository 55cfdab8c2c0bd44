"""Frozen dataclasses that cost little: to make, and to make another of with some fields changed.

Python makes a frozen dataclass by a guarded call for each field, which takes five times as long as to make a plain one,
and a cycle of the loop makes dozens of values. So two others hold that nothing changes a value once it is made:

* mypy, for which these two are those of the standard library;
* the tests, which set :data:`GUARDED` before anything else is loaded (``tests/conftest.py``): then a class is frozen
  also when it runs, and whoever changes a field fails.

Without that a value is a plain dataclass that is hashed by its fields, as a frozen one is.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["GUARDED", "dataclass", "replace"]

GUARDED = False
"""Whether a change of a field is an error when it runs, for all classes that are made from now on."""

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass, replace
else:

    def dataclass(*, frozen: bool = False, slots: bool = False) -> Callable[[type], type]:
        """``dataclasses.dataclass``; frozen ones are so while :data:`GUARDED` is set."""
        kept = frozen and GUARDED
        return dataclasses.dataclass(frozen=kept, slots=slots, unsafe_hash=frozen and not kept)

    def replace(value: Any, /, **changes: Any) -> Any:
        """``dataclasses.replace``, for classes whose fields are all given by position.

        Raises:
            TypeError: there is no field of such a name.
        """
        names, figures = _fields(type(value))
        if not names.keys() >= changes.keys():
            message = f"{type(value).__name__} has no field {min(changes.keys() - names.keys())!r}"
            raise TypeError(message)
        return type(value)(*map(changes.get, names, figures(value)))


@cache
def _fields(kind: type) -> tuple[dict[str, None], Callable[[Any], tuple[Any, ...]]]:
    """The names of the fields in their order, and what reads them all."""
    names = dict.fromkeys(field.name for field in dataclasses.fields(kind))
    if len(names) > 1:
        return names, attrgetter(*names)
    return names, lambda value: tuple(getattr(value, name) for name in names)
