"""What a class must have to be a policy, and what its answers must be: all that is wrong at once."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from rheostat.model import Code, Reason, Recommendation

__all__ = ["FACTORY_PARTS", "POLICY_PARTS", "lacking", "misanswered", "mismeasured", "misshapen"]

POLICY_PARTS: Mapping[str, str] = MappingProxyType(
    {
        "name": "text, as in its entry point",
        "brings": "the guard steps that it does itself, frozenset() for none",
        "state_type": "the type of its state",
        "initial": "initial() → the state before anything was seen",
        "recommend": "recommend(seen, state) → (Recommendation, state)",
        "capacity": "capacity(executors, state) → records/s, or None",
    }
)
"""What a policy has, and what it is."""

FACTORY_PARTS: Mapping[str, str] = MappingProxyType(
    {
        "options_type": "a frozen pydantic model of its options",
        "presets": "name → values of options, {} for none",
        **POLICY_PARTS,
    }
)
"""What an entry point names, and what it has."""

_RATE = "a number of records/s, or None"

_TAKES = {"initial": 0, "recommend": 2, "capacity": 2}
"""How many arguments the methods take, beside the policy itself."""


def lacking(given: object, parts: Mapping[str, str]) -> list[str]:
    """Names of the parts that it does not have.

    >>> lacking(dict, {"name": "text", "get": "a method"})
    ['name']
    """
    return [name for name in parts if not hasattr(given, name)]


def misshapen(policy: object) -> list[str]:
    """Everything that is wrong with the structure of a policy, each in a sentence; empty if it can be asked.

    >>> misshapen(object())[1]
    'it has no brings: the guard steps that it does itself, frozenset() for none'
    """
    if inspect.isclass(policy):
        return [f"{policy.__name__} is a class, not a policy: it must be built, as in lambda: {policy.__name__}(…)"]
    return [f"it has no {name}: {POLICY_PARTS[name]}" for name in lacking(policy, POLICY_PARTS)] + list(_wrong(policy))


def misanswered(answer: object) -> list[str]:
    """Everything that is wrong with what ``recommend`` has returned, each in a sentence; empty if it is an answer.

    >>> misanswered(3)
    ["it returned 3: it must be (Recommendation, state), as in Recommendation(2, Reason(Code.FIXED, 'why')), state"]
    """
    if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[0], Recommendation):
        meant = "(Recommendation, state), as in Recommendation(2, Reason(Code.FIXED, 'why')), state"
        return [f"it returned {answer!r}: it must be {meant}"]
    return list(_wrong_in(answer[0]))


def mismeasured(answer: object) -> list[str]:
    """What is wrong with what ``capacity`` has returned; empty if nothing is.

    >>> mismeasured(1000.0), mismeasured(None), mismeasured("1000")
    ([], [], ["it returned '1000': it must be a number of records/s, or None"])
    """
    return [] if answer is None or _is_number(answer) else [f"it returned {answer!r}: it must be {_RATE}"]


def _wrong_in(proposed: Recommendation) -> Iterator[str]:
    target: object = proposed.target
    reason: object = proposed.reason
    if target is not None and (not isinstance(target, int) or isinstance(target, bool)):
        yield f"target is {target!r}: it must be a whole number of executors (int), or None for no opinion"
    if not isinstance(reason, Reason):
        yield f"reason is {reason!r}: it must be a Reason, as in Reason(Code.FIXED, 'why')"
        return
    code: object = reason.code
    text: object = reason.text
    figures: object = reason.figures
    if not isinstance(code, Code):
        yield f"reason.code is {code!r}: it must be a rheostat.model.Code, as in Code.FIXED; codes cannot be added"
    if not isinstance(text, str):
        yield f"reason.text is {text!r}: it must be text"
    if not isinstance(figures, Mapping):
        yield f"reason.figures is {figures!r}: it must be name → number, {{}} for none"
        return
    for name, value in figures.items():
        if not isinstance(name, str) or not (value is None or _is_number(value)):
            yield f"reason.figures has {name!r}: {value!r}: it must be name → number, or None where it is unknown"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wrong(policy: object) -> Iterator[str]:
    """What is there and is no such thing."""
    name, brings, state_type = (getattr(policy, part, None) for part in ("name", "brings", "state_type"))
    if name is not None and not (isinstance(name, str) and name):
        yield f"name is {name!r}: it must be text"
    if brings is not None and not isinstance(brings, frozenset):
        yield f"brings is {brings!r}: it must be a frozenset of names"
    if state_type is not None and isinstance(state_type, str | int | float):
        yield f"state_type is {state_type!r}: it must be a type"
    exempt = getattr(policy, "exempt", {})
    if not isinstance(exempt, Mapping):
        yield f"exempt is {exempt!r}: it must be law → why"
    for method, count in _TAKES.items():
        found = getattr(policy, method, None)
        if found is not None and not _callable_with(found, count):
            yield f"{method} cannot be called with {count} arguments: {POLICY_PARTS[method]}"


def _callable_with(found: object, count: int) -> bool:
    if not callable(found):
        return False
    try:
        inspect.signature(found).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        return True
    return True
