"""Options that arrive as text, so that all faults of a command line can be reported at once."""

from __future__ import annotations

import math
import re
from typing import TypeVar

from rheostat.errors import Fault, InputError

__all__ = ["executors_of", "number_of"]

Number = TypeVar("Number", int, float)

_PAIR = re.compile(r"\s*(-?\d+)\s*(?:,|\.\.|-|–)\s*(-?\d+)\s*")


def number_of(field: str, text: str, kind: type[Number]) -> Number | InputError:
    """The number, or the error that says why it is none; not raised, so that others can be found too.

    >>> number_of("rate", "12", int)
    12
    """
    try:
        value = kind(text)
    except ValueError:
        value = kind(0)
    else:
        if math.isfinite(value):
            return value
    allowed = {"int": "an integer"}.get(kind.__name__, "a number")
    return InputError([Fault(field, repr(text), allowed, "it is not a number")])


def executors_of(text: str) -> tuple[int, int] | InputError:
    """Bounds written ``1,20`` or ``1..20``, or the error that says why they are none.

    >>> executors_of("1..20")
    (1, 20)
    """
    match = _PAIR.fullmatch(text)
    if match is None:
        return InputError([Fault("executors", repr(text), "LEAST,GREATEST, as in 1,20", "these are no bounds")])
    return int(match[1]), int(match[2])
