"""Columns of integers as differences: exact, short, and fast to read.

A column holds one figure for each partition (or executor), in a fixed order. It is written as its difference from
the last known values, in the shortest of these forms::

    7                       every value grew by 7
    [7, 0, 9]               so much each (up to 32 values)
    "5:H:AgAAAA=="          so much each: lowest, width (B, H, I, Q: 1, 2, 4, 8 bytes), little-endian base64 above it
    null                    every value is unknown
    {"other": 0}            every value grew by so much from that of another column
    {"d": …, "none": [1]}   as above, and the values at these places are unknown
    {"=": […]}              the values themselves: they are no integers
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import Any

__all__ = ["Column", "decode", "decode_list", "decode_seconds", "encode", "encode_list", "encode_seconds"]

Column = Any
"""What stands in the JSON for a column."""

_PLAIN = 32
_WIDTHS = {"B": 1, "H": 2, "I": 4, "Q": 8}


def encode(values: Sequence[Any], base: Sequence[int]) -> tuple[Column, list[int]]:
    """The column's code, and the base for the next one: the last known values.

    >>> encode([10, None], [7, 3])
    ({'d': [3, 0], 'none': [1]}, [10, 3])
    """
    if values and all(value is None for value in values):
        return None, list(base)
    if any(value is not None and not isinstance(value, int) for value in values):
        return {"=": list(values)}, list(base)
    known = [last if value is None else value for value, last in zip(values, base, strict=True)]
    deltas = [value - last for value, last in zip(known, base, strict=True)]
    missing = [place for place, value in enumerate(values) if value is None]
    return ({"d": _pack(deltas), "none": missing} if missing else _pack(deltas)), known


def decode(code: Column, base: Sequence[int]) -> tuple[list[Any], list[int]]:
    """The values, and the base for the next column.

    >>> decode({'d': [3, 0], 'none': [1]}, [7, 3])
    ([10, None], [10, 3])

    Raises:
        ValueError, TypeError, KeyError: the code is not one.
    """
    if type(code) is int:
        known = [last + code for last in base] if code else list(base)
        return known, known
    if type(code) is list:
        known = [last + delta for last, delta in zip(base, code, strict=True)]
        return known, known
    if code is None:
        return [None] * len(base), list(base)
    if isinstance(code, str):
        return decode(_unpack(code), base)
    if "=" in code:
        return code["="], list(base)
    known, base = decode(code["d"], base)
    missing = set(code["none"])
    return [None if place in missing else value for place, value in enumerate(known)], base


def encode_seconds(values: Sequence[float | None], base: Sequence[int]) -> tuple[Column, list[int]]:
    """Like :func:`encode`, for seconds: as whole milliseconds where all of them are, else as they stand.

    >>> encode_seconds([1.5], [1000])
    (500, [1500])
    """
    in_ms = [_milliseconds(value) for value in values]
    if any(value is not None and ms is None for value, ms in zip(values, in_ms, strict=True)):
        return {"=": list(values)}, list(base)
    return encode(in_ms, base)


def decode_seconds(code: Column, base: Sequence[int]) -> tuple[list[float | None], list[int]]:
    """The inverse of :func:`encode_seconds`."""
    values, known = decode(code, base)
    if isinstance(code, dict) and "=" in code:
        return values, known
    return [None if value is None else value / 1000 for value in values], known


def encode_either(values: Sequence[Any], base: Sequence[int], other: Sequence[int] | None) -> tuple[Column, list[int]]:
    """Like :func:`encode`, but from another column where every value differs from that by the same number.

    >>> encode_either([4, 8, 7], [1, 1, 1], [3, 7, 6])
    ({'other': 1}, [4, 8, 7])
    """
    code, known = encode(values, base)
    if other is None or type(code) is int:
        return code, known
    from_other, known_then = encode(values, other)
    return ({"other": from_other}, known_then) if type(from_other) is int else (code, known)


def decode_either(code: Column, base: Sequence[int], other: Sequence[int]) -> tuple[list[Any], list[int]]:
    """The inverse of :func:`encode_either`."""
    if type(code) is dict and "other" in code:
        return decode(code["other"], other)
    return decode(code, base)


def encode_list(values: list[int]) -> list[int] | str:
    """A list whose length the reader does not know."""
    return values if len(values) <= _PLAIN else _packed(values)


def decode_list(code: list[int] | str) -> list[int]:
    """The inverse of :func:`encode_list`."""
    return _unpack(code) if isinstance(code, str) else code


def _milliseconds(value: float | None) -> int | None:
    """Whole milliseconds that stand for exactly this value; None if there are none."""
    if value is None or not abs(value) < 1e12:
        return None
    ms = round(value * 1000)
    return ms if ms / 1000 == value else None


def _pack(deltas: list[int]) -> int | list[int] | str:
    if deltas and deltas.count(deltas[0]) == len(deltas):
        return deltas[0]
    return encode_list(deltas)


def _packed(values: list[int]) -> list[int] | str:
    lowest = min(values)
    room = max(values) - lowest
    width = next((code for code, size in _WIDTHS.items() if room < 1 << 8 * size), None)
    if width is None:
        return values
    packed = struct.pack(f"<{len(values)}{width}", *(value - lowest for value in values))
    return f"{lowest}:{width}:{base64.b64encode(packed).decode('ascii')}"


def _unpack(text: str) -> list[int]:
    lowest, width, packed = text.split(":")
    data = base64.b64decode(packed, validate=True)
    least = int(lowest)
    return [least + value for value in struct.unpack(f"<{len(data) // _WIDTHS[width]}{width}", data)]
