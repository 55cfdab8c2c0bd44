"""Settings and the policy that they name, checked together: all that is wrong with both is told at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rheostat.config import Settings, load_settings
from rheostat.config.policy_names import with_preset
from rheostat.config.profiles import with_profile
from rheostat.errors import Fault, InputError, tried
from rheostat.model import Objective
from rheostat.plan.policy import PolicyContext
from rheostat.plan.registry import load_policy

__all__ = ["checked_settings", "policy_faults"]

_SOME_OBJECTIVE = Objective(60.0)
_SOME_PERIOD_S = 15.0
"""Stand in where the settings do not say: no option is right or wrong because of them."""


def checked_settings(values: Mapping[str, Any], before: Iterable[Fault] = ()) -> Settings:
    """Settings whose policy exists and takes its options.

    Args:
        values: in the shape of a settings file.
        before: faults that were found while they were read.

    Raises:
        InputError: every fault of the settings, of the policy and of its options.
    """
    faults = list(before)
    settings = tried(load_settings, None, faults, values)
    faults += [fault for fault in policy_faults(values) if fault not in faults]
    if settings is None or faults:
        raise InputError(faults)
    return settings


def policy_faults(values: Mapping[str, Any]) -> list[Fault]:
    """What is wrong with the policy that ``values`` name and with its options, whatever else is wrong with them.

    >>> [fault.field for fault in policy_faults({"policy": "hpa:quick", "sample_s": -1})]
    ['policy_options.preset']
    """
    given = with_profile(with_preset(values))
    name = given.get("policy", Settings.model_fields["policy"].default)
    options, preset = given.get("policy_options", {}), given.get("preset", "default")
    if not (name and isinstance(name, str) and isinstance(options, Mapping)):
        return []
    faults: list[Fault] = []
    objective = tried(Objective.parse, _SOME_OBJECTIVE, [], given.get("objective"))
    tried(load_policy, None, faults, name, options, PolicyContext(objective, _SOME_PERIOD_S, str(preset)))
    return faults
