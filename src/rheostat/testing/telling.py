"""What differs between two values, and what was decided, in a few words: for the messages of broken laws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from rheostat.model import Decision, Recommendation

__all__ = ["decided", "differences", "proposed"]

_MOST, _LONGEST = 4, 60


def differences(before: object, after: object) -> str:
    """The fields that differ, dotted, with both values; of many the first four.

    >>> differences(Recommendation(3, None), Recommendation(5, None)), differences((1, 2), (1, 2))
    ('target: 3 → 5', 'nothing')
    """
    found = list(_differing(before, after, ""))
    more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return "; ".join(found[:_MOST]) + more if found else "nothing"


def decided(decision: Decision) -> str:
    """A decision: its numbers, its code, its sentence."""
    return f"{decision.current} → {decision.target} ({decision.reason.code}: {_short(decision.reason.text)})"


def proposed(recommendation: Recommendation) -> str:
    """What a policy answered."""
    return f"{recommendation.target} ({recommendation.reason.code}: {_short(recommendation.reason.text)})"


def _differing(before: object, after: object, way: str) -> Iterator[str]:
    if type(before) is type(after) and before == after:
        return
    old, new = _parts(before), _parts(after)
    if type(before) is type(after) and old is not None and new is not None and old.keys() == new.keys():
        for name in old:
            yield from _differing(old[name], new[name], f"{way}.{name}")
        return
    yield f"{way.removeprefix('.') or 'the value'}: {_short(repr(before))} → {_short(repr(after))}"


def _parts(value: object) -> Mapping[str, object] | None:
    """What a value is made of; None: it is of one piece."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): each for key, each in value.items()}
    return {str(place): each for place, each in enumerate(value)} if isinstance(value, list | tuple) else None


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
