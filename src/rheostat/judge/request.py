"""The options of ``rheostat simulate``, ``compare`` and ``tune``, checked with every fault at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rheostat.config.faults import has_key
from rheostat.config.loading import read_document, read_pairs
from rheostat.config.models import Settings
from rheostat.decide.policy import policy_names
from rheostat.decide.settings_check import NoEffect
from rheostat.errors import Fault, InputError, attempt
from rheostat.judge.cases import (
    JOB_OWNS,
    UNUSED,
    Case,
    LoadSpec,
    PolicySpec,
    Treatment,
    check_policy_specs,
    idle_settings,
    load_job,
    loads_of,
    parse_policy_specs,
    recent_load,
)
from rheostat.judge.compare import Variant, variants_of
from rheostat.judge.worst_case import Hunt
from rheostat.report.times import parse_duration
from rheostat.sim.jobfile import JobFile

_HUNT_S, _SHORTEST_HUNT_S = 3600.0, 60.0
"""Duration of the loads of ``--worst-case``: by default, and at least."""

_MOST_DIGITS = 100
"""Of a seed. Python refuses to read numbers of thousands of digits."""

DEFAULT_POLICY = "reactive"
"""The policy of a single run unless one is named: the default of the live loop."""


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
        """Jobs × loads × seeds; a job of the matrix with a load of its own has only that."""
        return [
            Case(variant.job, variant.label, load, seed, variant.treatment)
            for variant in self.variants
            for load in (self.loads if variant.load is None else (variant.load,))
            for seed in self.seeds
        ]


def read_request(options: RequestOptions, *, one_run: bool = False) -> Request:
    """Check all options before anything is run.

    ``one_run``: a single policy (by default :data:`DEFAULT_POLICY`), load and seed.

    Raises:
        InputError: with every fault.
    """
    faults: list[Fault] = []
    changes = _read_changes(options, faults)
    rate, seconds = _parse_positive("rate", options.rate, faults), _parse_positive("seconds", options.seconds, faults)
    longest_s = attempt(_parse_longest, 60.0, faults, options.longest)
    treatment = Treatment(longest_s=longest_s, scaled=not options.as_is and options.journal is None)
    seeds: list[int] = attempt(seeds_of, [], faults, options.seed)
    loads: list[LoadSpec] = attempt(_read_loads, [], faults, options, rate, seconds)
    tries = _parse_positive("tries", options.tries, faults) or 1.0
    instead = DEFAULT_POLICY if one_run else ",".join(name for name in policy_names() if name != "schedule")
    named = options.policy or changes.policy or instead
    specs = parse_policy_specs(named, changes.settings, changes.options)
    variants: list[Variant] = attempt(_variants_of, [], faults, options, changes.job, treatment)
    job = variants[0].job if variants else load_job("base")
    faults += check_policy_specs(job, specs)
    if not specs:
        faults.append(Fault("policy", repr(named), ", ".join(policy_names()), "no policy is named"))
    single: dict[str, Sequence[Any]] = {"policy": specs, "trace": loads, "seed": seeds} if one_run else {}
    for name, values in single.items():
        if len(values) > 1:
            faults.append(Fault(name, f"{len(values)} of them", "one", "this is one run: use compare for several"))
    hunt_s = seconds or _HUNT_S
    if options.worst_case and len(seeds) > 1:
        faults.append(Fault("seed", options.seed, "one, with --worst-case", "each policy has one search"))
    if options.worst_case and hunt_s < _SHORTEST_HUNT_S:
        faults.append(Fault("seconds", str(options.seconds), f"≥ {_SHORTEST_HUNT_S:g}", "the loads are too short"))
    if faults:
        raise InputError(faults)
    hunts = [Hunt(job, spec, hunt_s, math.ceil(tries), seeds[0]) for spec in specs]
    return Request(
        specs=tuple(specs),
        variants=tuple(variants),
        loads=tuple(loads),
        seeds=tuple(seeds),
        hunts=tuple(hunts if options.worst_case else ()),
        idle=(*changes.unused, *idle_settings(job, specs)),
    )


def _read_loads(options: RequestOptions, rate: float | None, seconds: float | None) -> list[LoadSpec]:
    given = {"trace": options.trace, "shape": options.shapes}
    if options.worst_case:
        faults = _refuse({**given, "matrix": options.matrix}, "not together with --worst-case", "it searches the loads")
        loads = []
    elif options.journal is not None:
        faults = _refuse(given, "not together with --journal", "the load is that of the journal")
        last_s = parse_duration(options.last)
        if not last_s:
            faults.append(Fault("last", repr(options.last), "a duration > 0, as in 6h or 2d", "it is no duration"))
        load = attempt(recent_load, None, faults, options.journal, last_s or 1.0)
        loads = [] if load is None else [load]
    else:
        return loads_of(options.trace, options.shapes, rate, seconds)
    if faults:
        raise InputError(faults)
    return loads


def _refuse(given: Mapping[str, Any], allowed: str, message: str) -> list[Fault]:
    return [Fault(name, str(value), allowed, message) for name, value in given.items() if value]


def _variants_of(options: RequestOptions, overrides: Mapping[str, Any], treatment: Treatment) -> list[Variant]:
    if options.matrix:
        return variants_of(options.job, overrides, treatment)
    job = load_job(options.job, overrides)
    return [Variant(job.name, job, treatment)]


def _parse_positive(name: str, text: str | None, faults: list[Fault]) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and value > 0:
        return value
    faults.append(Fault(name, repr(text), "a number > 0", "it is out of range, or no number"))
    return 1.0


def _parse_longest(text: str) -> float | None:
    if text == "all":
        return None
    seconds = parse_duration(text)
    if seconds is None or seconds < 60:
        allowed = "a duration of 1m or more, as in 12h or 7d; or: all"
        raise InputError([Fault("longest", repr(text), allowed, "it is too short, or no duration")])
    return seconds


# Settings that differ from the defaults


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

    policy: str | None
    job: Mapping[str, Any]
    options: Mapping[str, Any]
    settings: Mapping[str, Any]
    unused: tuple[NoEffect, ...]


_KINDS: Mapping[str, tuple[type, str]] = {
    "policy": (str, "text"),
    "policy_options": (Mapping, "keys with values"),
    "job": (Mapping, "keys with values, as in job.trigger_s=5"),
}
"""Settings that are read here, before pydantic checks the others."""


def _read_changes(options: RequestOptions, faults: list[Fault]) -> Changes:
    """The settings file, then ``KEY=VALUE`` pairs, then the preset, later ones taking precedence.

    Keys are those of a settings file; ``job.KEY`` is a key of the job file, ``policy_options.KEY`` an option of the
    policy. Objective, bounds and sample period belong to the job. Faulty values join the faults and are left out, so
    that the faults of the others are found too.
    """
    given: dict[str, Any] = {}
    if options.config is not None:
        given, wrong = attempt(read_document, ({}, []), faults, options.config)
        faults += wrong
    # the file may set what a simulation does anyhow
    idle = {key: why for key, why in UNUSED.items() if given.get(key) not in (None, "act", "executors")}
    unused = tuple(NoEffect(key, repr(given[key]), why) for key, why in idle.items())
    pairs = read_pairs(options.sets, faults)
    given, pairs = dict(_without_job_keys(given.items(), faults)), _without_job_keys(pairs, faults)
    for key, value in pairs:
        first, *rest = key.split(".")
        if first in UNUSED:
            faults.append(Fault(key, repr(value), "settings that decide something in a simulation", UNUSED[first]))
        given = _put(given, [first, *rest], value)
    if options.preset is not None:
        given["preset"] = options.preset
    taken: dict[str, Any] = {"policy": None, "policy_options": {}, "job": {}}
    for key, (kind, allowed) in _KINDS.items():
        value = given.pop(key, None)
        if isinstance(value, kind):
            taken[key] = value
        elif value is not None:
            faults.append(Fault(key, repr(value), allowed, "the value is of another kind"))
    owned = {name: given.pop(key) for key, name in JOB_OWNS.items() if key in given}
    return Changes(taken["policy"], {**owned, **taken["job"]}, taken["policy_options"], given, unused)


def _without_job_keys(pairs: Iterable[tuple[str, Any]], faults: list[Fault]) -> list[tuple[str, Any]]:
    """The pairs without keys that belong in the job file; these become faults."""
    kept = []
    for key, value in pairs:
        first = str(key).split(".")[0]
        if first not in _KINDS and first not in Settings.model_fields and has_key(JobFile, str(key)):
            message = f"it is a key of the job file; did you mean 'job.{key}'?"
            faults.append(Fault(str(key), repr(value), f"job.{key}", message))
        else:
            kept.append((key, value))
    return kept


def _put(values: Mapping[str, Any], keys: Sequence[str], value: Any) -> dict[str, Any]:
    """The values with one put into the nested mapping; keys of the job stay dotted, as the job file resolves them."""
    first, *rest = keys
    if not rest:
        return {**values, first: value}
    below = values.get(first)
    inside = dict(below) if isinstance(below, Mapping) else {}
    inner = {**inside, ".".join(rest): value} if first == "job" else _put(inside, rest, value)
    return {**values, first: inner}


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
