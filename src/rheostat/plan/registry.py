"""The one door for policies: entry points of the group ``rheostat.policies``. The built-in ones use it too."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import ValidationError

from rheostat.config.faults import faults_of
from rheostat.config.reference import keys_of
from rheostat.errors import Fault, InputError
from rheostat.plan.policy import Policy, PolicyContext, PolicyFactory
from rheostat.plan.structure import FACTORY_PARTS, lacking

__all__ = ["GROUP", "load_policy", "policy_names"]

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
    return Fault(field, repr(given), " | ".join(allowed) or "(none)", f"no such {kind}{_hint(given, allowed)}")


def _hint(given: str, allowed: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(given, allowed, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


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
