"""What a policy is: it looks at one assessment and its own state, and recommends a number of executors.

Policies are pure: no I/O, no clock, no random numbers. They need not know about bounds, cooldowns, largest steps or
stale metrics: the guard steps (:mod:`rheostat.decide.guard`) shape what they recommend, for all alike.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from rheostat.config.faults import faults_of, keys_of
from rheostat.config.models import GuardSettings
from rheostat.errors import Fault, InputError
from rheostat.model import Assessment, Objective, QueryLoad, Reason, ReasonCode, Recommendation
from rheostat.plugins import POLICIES, unknown_name
from rheostat.ports import SampleStore

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """What a policy is built for, beside its options.

    Attributes:
        objective: what is to hold.
        sample_s: seconds between two assessments.
        preset: the set of defaults asked for by the settings or their profile. A policy without a preset of that name
            takes its own defaults; the option ``preset`` goes before it.
        sample_store: where samples go that are too many for the state; None: nowhere.
        rate_window_s: time that arrival rates are means of, up to the sample.
        guard: settings of the guard that will shape what is recommended.
    """

    objective: Objective
    sample_s: float
    preset: str = "default"
    sample_store: SampleStore | None = None
    rate_window_s: float = 60.0
    guard: GuardSettings = field(default_factory=GuardSettings)


class Policy(Protocol[S]):
    """Recommends a number of executors.

    Attributes:
        name: as in its entry point.
        self_managed_steps: guard steps that the policy does itself, so that they are skipped; only steps marked
            ``self_manageable``.
        state_type: a frozen dataclass that pydantic's ``TypeAdapter`` turns into JSON and back; never NaN or infinite.

    A policy may also have an attribute ``placing`` (:class:`~rheostat.decide.placement.Placing`): how nodes are taken
    where they are known. Without it the nearest are. A method ``unready(state)``: what it does not do yet and what it
    still needs for that, in words; None: it works as it is meant to. And ``guard_settings``: names of settings of the
    guard that it reads itself, though it does their steps.
    """

    name: ClassVar[str]
    self_managed_steps: ClassVar[frozenset[str]]
    state_type: type[S]

    def initial(self) -> S:
        """The state before anything was seen."""
        ...

    def recommend(self, assessment: Assessment, state: S) -> tuple[Recommendation, S]:
        """Recommend a number.

        ``assessment.requested`` is the current target, ``assessment.executors`` the number registered. With
        ``assessment.missing`` or ``assessment.invalid`` the sample does not count: no opinion (None), and what counts
        samples in a row starts again. ``assessment.missing`` also names reasons for which a sample must not count
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


def current_target(assessment: Assessment) -> int | None:
    """The number of executors that decisions start from: the one asked for last, else the registered ones.

    >>> current_target(Assessment(at=0.0, executors=3, requested=5)), current_target(Assessment(at=0.0, executors=3))
    (5, 3)
    """
    return assessment.executors if assessment.requested is None else assessment.requested


def has_finished(assessment: Assessment, batches: int) -> bool:
    """Whether so many batches have finished at the present number of executors, or none is to be expected.

    >>> has_finished(Assessment(at=0.0, batches=1), 2), has_finished(Assessment(at=0.0, idle=True), 2)
    (False, True)
    """
    return assessment.idle or assessment.batches >= batches


SETTLED = 2
"""Batches after which a number of executors shows what it carries."""
_WARM_S = 60.0
"""Executors that have worked so long are warm, however few batches that were."""


def is_warm(assessment: Assessment, batches: int = SETTLED, done: int | None = None) -> bool:
    """Whether so many batches have finished, or fewer long ones; ``done``: None: those at the present number.

    >>> [is_warm(Assessment(at=0.0, batches=1, last_batch_s=batch_s)) for batch_s in (59.0, 60.0)]
    [False, True]
    """
    done = assessment.batches if done is None else done
    return done >= batches or done * (assessment.last_batch_s or 0.0) >= _WARM_S


def cap_limits(assessment: Assessment) -> bool:
    """Whether batch caps limit the rate: batches are full, and yet end before the next trigger.

    Of several queries, those that are behind decide, each by its own batches.
    """
    loads = assessment.by_query or (assessment,)
    return any(map(_is_limited_by_cap, loads)) and all(
        _is_limited_by_cap(load) for load in loads if load.backlog_excess
    )


def _is_limited_by_cap(load: Assessment | QueryLoad) -> bool:
    return bool(load.capped and load.trigger_s and load.batch_s and load.batch_s < 0.9 * load.trigger_s)


FAILED_SHARE = 0.05
"""Failed tasks of a smaller share neither distort what is measured nor tell of too few or too many executors."""


def tasks_fail(assessment: Assessment) -> bool:
    """Whether more than single tasks fail within the failure window; where their share is unknown, any counts.

    >>> [tasks_fail(Assessment(0.0, failed_tasks=failed, ended_tasks=20)) for failed in (1, 2)]
    [False, True]
    """
    failed, ended = assessment.failed_tasks, assessment.ended_tasks
    return bool(failed) if not failed or not ended else failed > 1 and failed >= FAILED_SHARE * ended


# Policies are found through entry points of the group ``rheostat.policies``. The built-in ones use them too.


def policy_names() -> tuple[str, ...]:
    """Names of the registered policies, sorted."""
    return POLICIES.names()


def load_policy(name: str, options: Mapping[str, Any], context: PolicyContext) -> Policy[Any]:
    """Build the policy of that entry point. The option ``preset`` names defaults that the other options override.

    Raises:
        InputError: the policy is unknown or cannot be imported, or options are wrong: every fault of them.
    """
    factory: PolicyFactory = POLICIES.load(name, (*_FACTORY_PARTS, *POLICY_PARTS))
    presets = {"default": {}, **factory.presets}
    preset = options.get("preset", context.preset if context.preset in presets else "default")
    given = {key: value for key, value in options.items() if key != "preset"}
    faults = [] if preset in presets else [unknown_name("policy_options.preset", str(preset), tuple(presets), "preset")]
    try:
        checked = factory.options_type.model_validate({**presets.get(preset, {}), **given})
    except ValidationError as error:
        raise InputError([*faults, *_option_faults(error, factory)]) from None
    if faults:
        raise InputError(faults)
    return factory(checked, context)


def _option_faults(error: ValidationError, factory: PolicyFactory) -> Iterator[Fault]:
    """What is wrong with the options, each with its meaning."""
    options = keys_of(factory.options_type)
    for fault in faults_of(error, factory.options_type):
        key = fault.field.split(".")[0]
        where = f"policy_options.{fault.field}" if fault.field else "policy_options"
        if key and key not in options:
            yield unknown_name(where, key, ("preset", *options), "option")
            continue
        meaning = options[key].description if key else None
        yield replace(fault, field=where, message=f"{fault.message}; {meaning}" if meaning else fault.message)


# What a class must have to be a policy, and what its answers must be: all that is wrong at once.

POLICY_PARTS: Mapping[str, str] = MappingProxyType(
    {
        "name": "text, as in its entry point",
        "self_managed_steps": "the guard steps that it does itself, frozenset() for none",
        "state_type": "the type of its state",
        "initial": "initial() → the state before anything was seen",
        "recommend": "recommend(assessment, state) → (Recommendation, state)",
        "capacity": "capacity(executors, state) → records/s, or None",
    }
)
"""What a policy has, and what it is."""

_FACTORY_PARTS = ("options_type", "presets")
_ARGUMENTS = {"initial": 0, "recommend": 2, "capacity": 2}
"""How many arguments the methods take, beside the policy itself."""


def find_policy_faults(policy: object) -> list[str]:
    """Everything that is wrong with the structure of a policy, each in a sentence; empty if it can be asked.

    >>> find_policy_faults(object())[1]
    'it has no self_managed_steps: the guard steps that it does itself, frozenset() for none'
    """
    if inspect.isclass(policy):
        return [f"{policy.__name__} is a class, not a policy: it must be built, as in lambda: {policy.__name__}(…)"]
    missing = [f"it has no {part}: {what}" for part, what in POLICY_PARTS.items() if not hasattr(policy, part)]
    return missing + list(_wrong_parts(policy))


def _wrong_parts(policy: object) -> Iterator[str]:
    name, steps, state_type = (getattr(policy, part, None) for part in ("name", "self_managed_steps", "state_type"))
    if name is not None and not (isinstance(name, str) and name):
        yield f"name is {name!r}: it must be text"
    if steps is not None and not isinstance(steps, frozenset):
        yield f"self_managed_steps is {steps!r}: it must be a frozenset of names"
    if state_type is not None and isinstance(state_type, str | int | float):
        yield f"state_type is {state_type!r}: it must be a type"
    exempt = getattr(policy, "exempt", {})
    if not isinstance(exempt, Mapping):
        yield f"exempt is {exempt!r}: it must be law → why"
    for name, count in _ARGUMENTS.items():
        if hasattr(policy, name) and not _can_be_called(getattr(policy, name), count):
            yield f"{name} cannot be called with {count} arguments: {POLICY_PARTS[name]}"


def _can_be_called(method: object, arguments: int) -> bool:
    if not callable(method):
        return False
    try:
        inspect.signature(method).bind(*range(arguments))
    except TypeError:
        return False
    except ValueError:  # it does not tell its parameters
        return True
    return True


def find_answer_faults(answer: object) -> list[str]:
    """Everything that is wrong with what ``recommend`` has returned, each in a sentence; empty if it is an answer.

    >>> find_answer_faults(3)
    ["it returned 3: it must be (Recommendation, state), as Recommendation(2, Reason(ReasonCode.FIXED, 'why')), state"]
    """
    if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[0], Recommendation):
        meant = "(Recommendation, state), as Recommendation(2, Reason(ReasonCode.FIXED, 'why')), state"
        return [f"it returned {answer!r}: it must be {meant}"]
    return list(_wrong_recommendation(answer[0]))


def _wrong_recommendation(recommendation: Recommendation) -> Iterator[str]:
    target: object = recommendation.target
    reason: object = recommendation.reason
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
        if not isinstance(name, str) or not _is_number_or_none(value):
            yield f"reason.figures has {name!r}: {value!r}: it must be name → number, or None where it is unknown"


def find_capacity_faults(answer: object) -> list[str]:
    """What is wrong with what ``capacity`` has returned; empty if nothing is.

    >>> find_capacity_faults(1000.0), find_capacity_faults(None), find_capacity_faults("1000")
    ([], [], ["it returned '1000': it must be a number of records/s, or None"])
    """
    return [] if _is_number_or_none(answer) else [f"it returned {answer!r}: it must be a number of records/s, or None"]


def _is_number_or_none(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
