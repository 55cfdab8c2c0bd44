"""Named sets of values that a settings file can start from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["PROFILES", "with_profile"]

_DEMO: Mapping[str, Any] = {
    "sample_s": 2.0,
    "rate_window_s": 10.0,
    "policy": "reactive",
    "policy_options": {"samples_to_shrink": 4},
    "guard": {
        "warm_up_batches": 1,
        "hold_batches": 1,
        "hold_fallback_s": 30.0,
        "largest_step_down": 2,
        "cooldown_up_s": 5.0,
        "cooldown_down_s": 5.0,
        "failure_window_s": 10.0,
        "failover_return_s": 30.0,
        "ineffective_s": 60.0,
        "no_room_backoff_s": 10.0,
        "no_room_backoff_max_s": 60.0,
    },
}

_FAITHFUL: Mapping[str, Any] = {
    "sample_s": 15.0,
    "rate_window_s": 15.0,
    "preset": "faithful",
    "guard": {
        "warm_up_batches": 0,
        "hold_s": 240.0,
        "hold_both": True,
        "largest_step_down": None,
        "cooldown_down_s": 0.0,
        "failure_window_s": 0.0,
        "catching_up": False,
        "batch_cap": False,
        "sick_sink": False,
        "failover_return_s": 0.0,
        "round_trip_cooldowns": 0.0,
        "ineffective_share": None,
        "rescale_catch_up_lags": None,
        "no_room_backoff_s": 0.0,
        "no_room_backoff_max_s": 0.0,
    },
}

PROFILES: Mapping[str, Mapping[str, Any]] = MappingProxyType({"default": {}, "demo": _DEMO, "faithful": _FAITHFUL})
"""What each profile sets, in the shape of a settings file. A key that a profile leaves out has its default."""


def with_profile(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the profile that is named in ``given``, overridden by ``given``.

    Nested mappings are merged key by key. The options that a profile has for its policy hold for no other policy.
    An unknown profile adds nothing: the models name it as a fault.

    >>> with_profile({"profile": "demo", "sample_s": 1.0})["guard"]["cooldown_down_s"]
    5.0
    """
    name = given.get("profile", "default")
    under = PROFILES.get(name, {}) if isinstance(name, str) else {}
    if given.get("policy", under.get("policy")) != under.get("policy"):
        under = {key: value for key, value in under.items() if key != "policy_options"}
    return _merged(under, given)


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        nested = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(below or {}, value) if nested else value
    return merged
