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
        return _maker(type(value), tuple(changes))(value, changes)


@cache
def _maker(kind: type, changed: tuple[str, ...]) -> Callable[..., Any]:
    """What makes another value of a kind from one and the new figures of some fields.

    It is written out, as dataclasses writes its methods: of a value with fifty fields, reading them all by name takes
    longer than all the rest.
    """
    names = [field.name for field in dataclasses.fields(kind)]
    if unknown := sorted(set(changed).difference(names)):
        message = f"{kind.__name__} has no field {unknown[0]!r}"
        raise TypeError(message)
    given = ", ".join(f"new[{name!r}]" if name in changed else f"old.{name}" for name in names)
    made: Callable[..., Any] = eval(f"lambda old, new: kind({given})", {"kind": kind})  # noqa: S307
    return made
