"""Who is judged: a policy with its preset, options and guards; and the settings that its loop gets on a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rheostat.config import Settings, load_settings, policy_label, split_policy
from rheostat.errors import Fault, tried
from rheostat.plan import NoEffect, checked_settings, no_effect
from rheostat.sim.jobfile import JobFile

__all__ = ["JOB_OWNS", "UNUSED", "Contender", "check_contenders", "contenders_of", "idle_settings", "settings_for"]

JOB_OWNS: Mapping[str, str] = {"objective": "objective", "executors": "executors", "sample_s": "decide_every_s"}
"""Settings that belong to the job, so that all policies are held to the same, and their names in a job file."""

UNUSED: Mapping[str, str] = {
    "actuator": "a simulated job has no Workers",
    "allow_redone_work": "the job file says how executors go: see job.rescale",
    "journal": "rheostat simulate has --journal for it",
    "metrics": "a simulation serves none",
    "mode": "a simulated job is always scaled",
    "queries": "a simulated job has one query",
    "state": "a simulation keeps none",
    "workers": "a simulated job has no Workers",
}
"""Settings of a live loop that decide nothing in a simulation, and why."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A policy as it is judged.

    Attributes:
        policy: name of a registered policy.
        preset: one of its presets; None: its defaults.
        options: its options.
        settings: other settings of the loop, as in a settings file (guards among them).
    """

    policy: str
    preset: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What it is called in tables and scores: ``hpa``, or ``hpa:faithful``."""
        return policy_label(self.policy, self.preset)

    def at_size(self, executors: int) -> Contender:
        """``static`` without a number of its own gets this one, the size that carries the peak; others stay."""
        if self.policy != "static" or "executors" in self.options:
            return self
        return replace(self, options={**self.options, "executors": executors})


def contenders_of(text: str, settings: Mapping[str, Any], options: Mapping[str, Any]) -> list[Contender]:
    """The policies of a list like ``hpa,hpa:faithful,reactive``, each once.

    Args:
        text: names, comma separated, each with ``:PRESET`` or without.
        settings: for all of them.
        options: for all of them.
    """
    names = dict.fromkeys(piece.strip() for piece in text.split(",") if piece.strip())
    return [Contender(*split_policy(name), options, settings) for name in names]


def settings_for(job: JobFile, contender: Contender) -> Settings:
    """What the production loop is given to run this policy on this job.

    Raises:
        InputError: the policy is unknown, or options or settings are wrong: every fault of them.
    """
    return load_settings(_values_for(job, contender))


def _values_for(job: JobFile, contender: Contender) -> dict[str, Any]:
    return {
        **contender.settings,
        **{key: getattr(job, name) for key, name in JOB_OWNS.items()},
        "policy": contender.label,
        "policy_options": contender.options,
        "mode": "act",
        "journal": None,
        "state": None,
    }


def check_contenders(job: JobFile, contenders: Iterable[Contender]) -> list[Fault]:
    """Everything that is wrong with them, each fault once: of the settings, of the policies and of their options."""
    faults: dict[tuple[str, str], Fault] = {}
    for contender in contenders:
        found: list[Fault] = []
        tried(checked_settings, None, found, _values_for(job, contender))
        faults.update({(fault.field, fault.given): fault for fault in found})
    return list(faults.values())


def idle_settings(job: JobFile, contenders: Iterable[Contender]) -> list[NoEffect]:
    """The settings that were given for all of them and change nothing for some, each once; without those of UNUSED."""
    found: dict[NoEffect, None] = {}
    for contender in contenders:
        given = {**contender.settings, "policy_options": contender.options}
        idle = no_effect(given, settings_for(job, contender))
        found.update(dict.fromkeys(each for each in idle if each.field.split(".")[0] not in UNUSED))
    return list(found)
