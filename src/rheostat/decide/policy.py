"""What a policy is: it looks at one assessment and its own state, and proposes a number of executors.

Policies are pure: no I/O, no clock, no random numbers. They need not know about bounds, cooldowns, largest steps or
stale metrics: the guard pipeline (:mod:`rheostat.decide.guard`) shapes what they propose, for all alike.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from rheostat.config.faults import faults_of, keys_of
from rheostat.errors import Fault, InputError, did_you_mean
from rheostat.model import Assessment, Objective, Reason, ReasonCode, Recommendation
from rheostat.ports import SampleStore

# What so many executors carry, learned from what was seen: S1 Algorithm 1, as printed and corrected.


def cap_limits(assessment: Assessment) -> bool:
    """Whether the batch cap limits the rate: batches are full, and yet end before the next trigger."""
    return bool(
        assessment.capped
        and assessment.trigger_s
        and assessment.batch_s
        and assessment.batch_s < 0.9 * assessment.trigger_s
    )


S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """What a policy is built for, beside its options.

    Attributes:
        objective: what is to hold.
        sample_s: seconds between two assessments.
        preset: the set of defaults asked for by the settings or their profile. A policy without a preset of that name
            takes its own defaults; the option ``preset`` goes before it.
        archive: where samples go that are too many for the state; None: nowhere.
        rate_window_s: time that arrival rates are means of, up to the sample.
    """

    objective: Objective
    sample_s: float
    preset: str = "default"
    archive: SampleStore | None = None
    rate_window_s: float = 60.0


class Policy(Protocol[S]):
    """Proposes a number of executors.

    Attributes:
        name: as in its entry point.
        self_managed_steps: guard steps that the policy does itself, so that they are skipped; only steps marked
            ``self_manageable``.
        state_type: a frozen dataclass that pydantic's ``TypeAdapter`` turns into JSON and back; never NaN or infinite.

    A policy may also have an attribute ``placing`` (:class:`~rheostat.decide.placement.Placing`): how nodes are taken
    where they are known. Without it the nearest are. And a method ``unready(state)``: what it does not do yet and what
    it still needs for that, in words; None: it works as it is meant to.
    """

    name: ClassVar[str]
    self_managed_steps: ClassVar[frozenset[str]]
    state_type: type[S]

    def initial(self) -> S:
        """The state before anything was seen."""
        ...

    def recommend(self, assessment: Assessment, state: S) -> tuple[Recommendation, S]:
        """Propose.

        ``seen.requested`` is the number in force: the one that was last asked for. ``seen.executors`` is the number
        registered. With ``seen.missing`` or ``seen.invalid`` the sample does not count: no opinion (None), and what
        counts samples in a row starts again. ``seen.missing`` also names reasons for which a sample must not count
        (``"fresh metrics"``, ``"settled job"``).
        """
        ...

    def capacity(self, executors: int, state: S) -> float | None:
        """Records/s that so many executors carry; None without a model."""
        ...


class PolicyFactory(Protocol):
    """What an entry point names, usually the class of the policy.

    Attributes:
        options_type: a frozen pydantic model with ``extra="forbid"``, each field with a description.
        presets: name → values of options that are its defaults; ``"default"`` need not be there.
    """

    options_type: ClassVar[type[BaseModel]]
    presets: ClassVar[Mapping[str, Mapping[str, object]]]

    def __call__(self, options: Any, context: PolicyContext) -> Policy[Any]:
        """Build the policy. ``options`` is an ``options_type``."""
        ...


def in_force(assessment: Assessment) -> int | None:
    """The number of executors that decisions start from: the one asked for last, else the registered ones.

    >>> in_force(Assessment(at=0.0, executors=3, requested=5)), in_force(Assessment(at=0.0, executors=3))
    (5, 3)
    """
    return assessment.executors if assessment.requested is None else assessment.requested


# The one door for policies: entry points of the group ``rheostat.policies``. The built-in ones use it too.


GROUP = "rheostat.policies"

_ELSEWHERE = f"One from a package is found once that is installed, with its entry point in {GROUP}"


def policy_names() -> tuple[str, ...]:
    """Names of the registered policies, sorted."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def load_policy(name: str, options: Mapping[str, Any], context: PolicyContext) -> Policy[Any]:
    """Build the policy of that name.

    Args:
        name: name of an entry point.
        options: its options; ``preset`` names a set of defaults that the other options override.
        context: what it is built for.

    Raises:
        InputError: the policy is unknown or cannot be imported, or options are wrong: every fault of them.
    """
    factory = _factory(name)
    presets = {"default": {}, **factory.presets}
    preset = options.get("preset", context.preset if context.preset in presets else "default")
    given = {key: value for key, value in options.items() if key != "preset"}
    faults = [] if preset in presets else [_unknown("policy_options.preset", str(preset), tuple(presets), "preset")]
    try:
        checked = factory.options_type.model_validate({**presets.get(preset, {}), **given})
    except ValidationError as error:
        raise InputError([*faults, *_faults(error, factory)]) from None
    if faults:
        raise InputError(faults)
    return factory(checked, context)


def _factory(name: str) -> PolicyFactory:
    entry = _entry(name)
    try:
        factory = entry.load()
    except Exception as error:
        package = entry.dist.name if entry.dist is not None else "unknown"
        message = f"the policy of the package {package} cannot be loaded: {type(error).__name__}: {error}"
        raise InputError([Fault("policy", name, f"an importable {entry.value}", message)]) from error
    lacks = lacking(factory, FACTORY_PARTS)
    if lacks:
        message = f"{entry.value} is not a policy: it has no {', no '.join(lacks)}"
        raise InputError([Fault("policy", name, "a class as docs/policies.md describes it", message)])
    checked: PolicyFactory = factory
    return checked


def _entry(name: str) -> EntryPoint:
    found = list(entry_points(group=GROUP, name=name))
    if not found:
        fault = _unknown("policy", name, policy_names(), "policy")
        end = "" if fault.message.endswith("?") else "."
        raise InputError([replace(fault, message=f"{fault.message}{end} {_ELSEWHERE}")])
    if len({entry.value for entry in found}) > 1:
        message = f"several packages register this name: {', '.join(sorted(entry.value for entry in found))}"
        raise InputError([Fault("policy", name, "a name that one package registers", message)])
    return found[0]


def _unknown(field: str, given: str, allowed: tuple[str, ...], kind: str) -> Fault:
    return Fault(field, repr(given), " | ".join(allowed) or "(none)", f"no such {kind}{did_you_mean(given, allowed)}")


def _faults(error: ValidationError, factory: PolicyFactory) -> list[Fault]:
    """What is wrong with the options, each with its meaning."""
    fields, faults = keys_of(factory.options_type), list[Fault]()
    for fault in faults_of(error, factory.options_type):
        key = fault.field.split(".")[0]
        where = f"policy_options.{fault.field}" if fault.field else "policy_options"
        if key and key not in fields:
            faults.append(_unknown(where, key, ("preset", *fields), "option"))
            continue
        meant = fields[key].description if key else None
        faults.append(replace(fault, field=where, message=f"{fault.message}; {meant}" if meant else fault.message))
    return faults


# What a class must have to be a policy, and what its answers must be: all that is wrong at once.


POLICY_PARTS: Mapping[str, str] = MappingProxyType(
    {
        "name": "text, as in its entry point",
        "self_managed_steps": "the guard steps that it does itself, frozenset() for none",
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
    'it has no self_managed_steps: the guard steps that it does itself, frozenset() for none'
    """
    if inspect.isclass(policy):
        return [f"{policy.__name__} is a class, not a policy: it must be built, as in lambda: {policy.__name__}(…)"]
    return [f"it has no {name}: {POLICY_PARTS[name]}" for name in lacking(policy, POLICY_PARTS)] + list(_wrong(policy))


def misanswered(answer: object) -> list[str]:
    """Everything that is wrong with what ``recommend`` has returned, each in a sentence; empty if it is an answer.

    >>> misanswered(3)
    ["it returned 3: it must be (Recommendation, state), as Recommendation(2, Reason(ReasonCode.FIXED, 'why')), state"]
    """
    if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[0], Recommendation):
        meant = "(Recommendation, state), as Recommendation(2, Reason(ReasonCode.FIXED, 'why')), state"
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
        yield f"reason is {reason!r}: it must be a Reason, as in Reason(ReasonCode.FIXED, 'why')"
        return
    code: object = reason.code
    text: object = reason.text
    figures: object = reason.figures
    if not isinstance(code, ReasonCode):
        yield f"reason.code is {code!r}: it must be a rheostat.model.ReasonCode, as in ReasonCode.FIXED"
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
    name, self_managed_steps, state_type = (
        getattr(policy, part, None) for part in ("name", "self_managed_steps", "state_type")
    )
    if name is not None and not (isinstance(name, str) and name):
        yield f"name is {name!r}: it must be text"
    if self_managed_steps is not None and not isinstance(self_managed_steps, frozenset):
        yield f"self_managed_steps is {self_managed_steps!r}: it must be a frozenset of names"
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
