"""How a policy is written wherever one is taken: ``NAME``, or ``NAME:PRESET``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["policy_label", "split_policy", "with_preset"]


def split_policy(text: str) -> tuple[str, str | None]:
    """The name, and the preset if there is one.

    >>> split_policy("hpa:faithful"), split_policy("hpa")
    (('hpa', 'faithful'), ('hpa', None))
    """
    name, colon, preset = text.strip().partition(":")
    return name, preset if colon else None


def policy_label(name: str, preset: str | None) -> str:
    """The inverse of :func:`split_policy`: what a policy is called in tables and scores."""
    return name if preset is None else f"{name}:{preset}"


def with_preset(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Settings whose policy is a name alone: its preset goes to the options, before one that stands there.

    >>> with_preset({"policy": "hpa:faithful", "policy_options": {"tolerance": 0.2}})
    {'policy': 'hpa', 'policy_options': {'tolerance': 0.2, 'preset': 'faithful'}}
    """
    policy, options = given.get("policy"), given.get("policy_options", {})
    name, preset = split_policy(policy) if isinstance(policy, str) else ("", None)
    if preset is None or not isinstance(options, Mapping):
        return given
    return {**given, "policy": name, "policy_options": {**options, "preset": preset}}
