"""The options of ``rheostat simulate`` and ``rheostat compare``, checked with every fault at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rheostat.config.faults import has_key
from rheostat.config.loading import read_document, read_pairs
from rheostat.config.models import Settings
from rheostat.decide.policy import policy_names
from rheostat.decide.settings_check import NoEffect
from rheostat.errors import Fault, InputError, tried
from rheostat.judge.cases import (
    JOB_OWNS,
    UNUSED,
    Case,
    LoadSpec,
    PolicySpec,
    Treatment,
    check_policy_specs,
    idle_settings,
    loads_of,
    parse_policy_specs,
    recent_load,
)
from rheostat.judge.compare import Variant, variants_of
from rheostat.judge.jobs import load_job
from rheostat.judge.worst_case import Hunt
from rheostat.report.times import parse_duration
from rheostat.sim.jobfile import JobFile

_HUNT_S, _SHORTEST_HUNT_S = 3600.0, 60.0
"""Duration of the loads of ``--worst-case``: by default, and at least."""

_MOST_DIGITS = 100
"""Of a seed. Python refuses to read numbers of thousands of digits."""

DEFAULT_POLICY = "reactive"
"""The policy of a single run where none is named: the default of the live loop."""


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """The options as they were typed; None or empty where nothing was.

    Attributes:
        policy: names, comma separated; by default all that need no options.
        longest: a duration, or ``all``.
        as_is: whether loads are not scaled.
        matrix: whether the job is varied.
        worst_case: whether the worst load is sought; ``tries``: the number of loads for each policy.
        journal: of a job whose load of the last ``last`` is used; it is not scaled.
    """

    policy: str | None = None
    job: str = "base"
    trace: str | None = None
    shapes: Sequence[str] = ()
    rate: str | None = None
    seconds: str | None = None
    seed: str = "1"
    preset: str | None = None
    config: Path | None = None
    sets: Sequence[str] = ()
    longest: str = "7d"
    as_is: bool = False
    matrix: bool = False
    worst_case: bool = False
    tries: str = "60"
    journal: Path | None = None
    last: str = "24h"


@dataclass(frozen=True, slots=True)
class Request:
    """A comparison that can be made. ``idle``: settings that were given and have no effect."""

    specs: tuple[PolicySpec, ...]
    variants: tuple[Variant, ...]
    loads: tuple[LoadSpec, ...]
    seeds: tuple[int, ...]
    hunts: tuple[Hunt, ...] = ()
    idle: tuple[NoEffect, ...] = ()

    @property
    def cases(self) -> list[Case]:
        """Jobs × loads × seeds."""
        return [
            Case(variant.job, variant.label, load, seed, variant.treatment)
            for variant in self.variants
            for load in self.loads
            for seed in self.seeds
        ]


def read_request(texts: RequestOptions, *, one_run: bool = False) -> Request:
    """Check all options before anything is run.

    Args:
        texts: the options.
        one_run: whether there is a single policy, load and seed; the policy is then :data:`DEFAULT_POLICY` by default.

    Raises:
        InputError: with every fault.
    """
    faults: list[Fault] = []
    changes, wrong = _read_changes(texts.config, texts.sets, texts.preset)
    faults += wrong
    rate, seconds = _parse_number("rate", texts.rate, faults), _parse_number("seconds", texts.seconds, faults)
    treatment = Treatment(
        longest_s=_parse_longest(texts.longest, faults), scaled=not texts.as_is and texts.journal is None
    )
    seeds: list[int] = tried(seeds_of, [], faults, texts.seed)
    loads: list[LoadSpec] = []
    if texts.worst_case:
        faults += _check_worst_case(texts)
    else:
        loads = tried(_loads, [], faults, texts, rate, seconds)
    tries = _parse_number("tries", texts.tries, faults) or 1.0
    instead = DEFAULT_POLICY if one_run else ",".join(name for name in policy_names() if name != "schedule")
    named = texts.policy or changes.policy or instead
    specs = parse_policy_specs(named, changes.settings, changes.options)
    variants: list[Variant] = tried(_variants_of, [], faults, texts, changes, treatment)
    job = variants[0].job if variants else load_job("base")
    faults += check_policy_specs(job, specs)
    if not specs:
        faults.append(Fault("policy", repr(named), ", ".join(policy_names()), "no policy is named"))
    if one_run:
        faults += _check_one_run(policy=specs, trace=loads, seed=seeds)
    if texts.worst_case and len(seeds) > 1:
        faults.append(Fault("seed", texts.seed, "one, with --worst-case", "each policy is sought for once"))
    if texts.worst_case and (seconds or _HUNT_S) < _SHORTEST_HUNT_S:
        faults.append(Fault("seconds", str(texts.seconds), f"≥ {_SHORTEST_HUNT_S:g}", "too short to be defeated in"))
    if faults:
        raise InputError(faults)
    hunts = [Hunt(job, who, seconds or _HUNT_S, math.ceil(tries), seeds[0]) for who in specs]
    return Request(
        specs=tuple(specs),
        variants=tuple(variants),
        loads=tuple(loads),
        seeds=tuple(seeds),
        hunts=tuple(hunts if texts.worst_case else ()),
        idle=(*changes.unused, *idle_settings(job, specs)),
    )


def _check_worst_case(texts: RequestOptions) -> list[Fault]:
    given = {"trace": texts.trace, "shape": texts.shapes, "matrix": texts.matrix}
    allowed = "not together with --worst-case"
    return [Fault(name, str(value), allowed, "the loads are sought") for name, value in given.items() if value]


def _loads(texts: RequestOptions, rate: float | None, seconds: float | None) -> list[LoadSpec]:
    if texts.journal is None:
        return loads_of(texts.trace, texts.shapes, rate, seconds)
    faults = [
        Fault(name, str(value), "not together with --journal", "the load is that of the journal")
        for name, value in {"trace": texts.trace, "shape": texts.shapes}.items()
        if value
    ]
    last_s = parse_duration(texts.last)
    if not last_s:
        faults.append(Fault("last", repr(texts.last), "a duration > 0, as in 6h or 2d", "it is no duration"))
    load = tried(recent_load, None, faults, texts.journal, last_s or 1.0)
    if load is None or faults:
        raise InputError(faults)
    return [load]


def _check_one_run(**given: Sequence[object]) -> list[Fault]:
    return [
        Fault(name, f"{len(values)} of them", "one", "this is one run: use compare for several")
        for name, values in given.items()
        if len(values) > 1
    ]


def _variants_of(texts: RequestOptions, changes: Changes, treatment: Treatment) -> list[Variant]:
    if texts.matrix:
        return variants_of(texts.job, changes.job, treatment)
    job = load_job(texts.job, changes.job)
    return [Variant(job.name, job, treatment)]


def _parse_number(field_name: str, text: str | None, faults: list[Fault]) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and value > 0:
        return value
    faults.append(Fault(field_name, repr(text), "a number > 0", "it is out of range, or no number"))
    return 1.0


def _parse_longest(text: str, faults: list[Fault]) -> float | None:
    if text == "all":
        return None
    seconds = parse_duration(text)
    if seconds is None or seconds < 60:
        allowed = "a duration of 1m or more, as in 12h or 7d; or: all"
        faults.append(Fault("longest", repr(text), allowed, "it is too short, or no duration"))
        return 60.0
    return seconds


@dataclass(frozen=True, slots=True)
class Changes:
    """Values that differ from the defaults.

    Attributes:
        policy: from the settings file or a pair; None: neither names one.
        job: dotted keys of the job file.
        options: of every policy.
        settings: of every loop, nested as in a settings file.
        unused: settings of the file that have an effect in live loops only.
    """

    policy: str | None = None
    job: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    unused: tuple[NoEffect, ...] = ()


def _read_changes(config: Path | None, sets: Sequence[str], preset: str | None) -> tuple[Changes, list[Fault]]:
    """The settings file, then ``KEY=VALUE`` pairs, then the preset, later ones taking precedence; and their faults.

    Keys are those of a settings file; ``job.KEY`` is a key of the job file, ``policy_options.KEY`` an option of the
    policy. Objective, bounds and sample period belong to the job. Faulty values are left out, so that the faults of
    the others are found too.
    """
    faults: list[Fault] = []
    given, wrong = ({}, []) if config is None else tried(read_document, ({}, []), faults, config)
    faults += wrong
    # the file may set what a simulation does anyhow
    idle = {key: why for key, why in UNUSED.items() if given.get(key) not in (None, "act", "executors")}
    unused = tuple(NoEffect(key, repr(given[key]), why) for key, why in idle.items())
    pairs = read_pairs(sets, faults)
    given, pairs = dict(_without_job_keys(given.items(), faults)), _without_job_keys(pairs, faults)
    for key, value in pairs:
        first, *rest = key.split(".")
        if first in UNUSED:
            faults.append(Fault(key, repr(value), "settings that decide something in a simulation", UNUSED[first]))
        given = _put(given, [first, *rest], value)
    if preset is not None:
        given["preset"] = preset
    changes, misplaced = _split_changes(given)
    return replace(changes, unused=unused), faults + misplaced


def _without_job_keys(pairs: Iterable[tuple[str, Any]], faults: list[Fault]) -> list[tuple[str, Any]]:
    """The pairs without keys that belong in the job file; these become faults."""
    found = []
    for key, value in pairs:
        first = str(key).split(".")[0]
        if first not in _KINDS and first not in Settings.model_fields and has_key(JobFile, str(key)):
            message = f"it is a key of the job file; did you mean 'job.{key}'?"
            faults.append(Fault(str(key), repr(value), f"job.{key}", message))
        else:
            found.append((key, value))
    return found


_KINDS: Mapping[str, tuple[type, str]] = {
    "policy": (str, "text"),
    "policy_options": (Mapping, "keys with values"),
    "job": (Mapping, "keys with values, as in job.trigger_s=5"),
}
"""Settings that are read here, before pydantic checks the others."""


def _put(values: Mapping[str, Any], keys: Sequence[str], value: Any) -> dict[str, Any]:
    """The values with one put into the nested mapping; keys of the job stay dotted, as the job file resolves them."""
    first, *rest = keys
    if not rest:
        return {**values, first: value}
    below = values.get(first)
    inside = dict(below) if isinstance(below, Mapping) else {}
    inner = {**inside, ".".join(rest): value} if first == "job" else _put(inside, rest, value)
    return {**values, first: inner}


def _split_changes(given: Mapping[str, Any]) -> tuple[Changes, list[Fault]]:
    settings, faults = dict(given), []
    taken: dict[str, Any] = {"policy": None, "policy_options": {}, "job": {}}
    for key, (kind, allowed) in _KINDS.items():
        value = settings.pop(key, None)
        if isinstance(value, kind):
            taken[key] = value
        elif value is not None:
            faults.append(Fault(key, repr(value), allowed, "the value is of another kind"))
    owned = {name: settings.pop(key) for key, name in JOB_OWNS.items() if key in settings}
    return Changes(taken["policy"], {**owned, **taken["job"]}, taken["policy_options"], settings), faults


def seeds_of(text: str) -> list[int]:
    """Seeds from a list like ``1,2,3``, each once.

    >>> seeds_of("7, 1,7")
    [7, 1]

    Raises:
        InputError: there is none, or one is no whole number ≥ 0 of at most a hundred digits.
    """
    pieces = [piece.strip() for piece in text.split(",") if piece.strip()]
    wrong = [piece for piece in pieces if not piece.isdecimal() or len(piece) > _MOST_DIGITS]
    if wrong or not pieces:
        given = ", ".join(wrong) or "nothing"
        raise InputError([Fault("seed", given, "whole numbers ≥ 0, comma separated", "these are no seeds")])
    return list(dict.fromkeys(map(int, pieces)))
