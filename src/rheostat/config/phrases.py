"""What pydantic finds wrong with a value, in our words: a phrase for each type of error that models can give."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from pydantic_core import ErrorDetails

__all__ = ["PHRASES", "given_of", "phrase"]

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
    close = difflib.get_close_matches(given, choices, n=1) if isinstance(given, str) else []
    return f"; did you mean {close[0]!r}?" if close else ""
