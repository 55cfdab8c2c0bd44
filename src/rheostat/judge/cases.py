"""What is compared: cases (a job under a load with a seed), and the policies that run them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

from rheostat.calibrate.measured import Snapshot, read_run
from rheostat.config.loading import load_settings, read_document
from rheostat.config.models import Settings, policy_label, split_policy
from rheostat.decide.settings_check import NoEffect, check_settings, no_effect
from rheostat.errors import Fault, InputError, attempt, did_you_mean
from rheostat.load.curves import MOST_RECORDS, Pieces, RateCurve, staircase
from rheostat.load.files import read_trace, trace_files
from rheostat.load.prepare import Prepared, prepare
from rheostat.load.shapes import parse_shape, remarks_on
from rheostat.sim.capacity import capacity_curve, long_batch_rate
from rheostat.sim.events import BESIDE_WORK
from rheostat.sim.jobfile import JobFile, job_of

_PRESETS = files("rheostat.sim") / "presets"


def preset_names() -> tuple[str, ...]:
    """Names of the jobs that come with the package, sorted."""
    return tuple(sorted(file.name.removesuffix(".yaml") for file in _PRESETS.iterdir() if file.name.endswith(".yaml")))


def load_job(name_or_path: object, overrides: Mapping[str, Any] | None = None) -> JobFile:
    """A job from a preset's name or the path of a YAML file.

    Args:
        name_or_path: a path contains a ``/`` or ends as a YAML file; anything else is a name.
        overrides: values for dotted keys (``{"executor.start_up.median_s": 60.0}``), in place of the file's. Items of
            lists are numbered (``"stages.0.cost_ms"``); a mapping is merged into the present one.

    Raises:
        InputError: all faults, fields as dotted keys.

    >>> load_job("base", {"trigger_s": 5.0}).period_s
    30.0
    """
    values, faults = read_document(_locate(str(name_or_path)))
    return job_of(_override(values, overrides or {}), faults)


def _locate(given: str) -> str:
    if "/" in given or given.endswith((".yaml", ".yml")):
        return given
    names = preset_names()
    if given not in names:
        allowed = f"{', '.join(names)}, or the path of a file (*.yaml)"
        message = f"there is no job of this name{did_you_mean(given, names)}"
        raise InputError([Fault("job", repr(given), allowed, message)])
    return str(_PRESETS / f"{given}.yaml")


def _override(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    changed = dict(values)
    for dotted, value in overrides.items():
        changed = _replace_value(changed, dotted.split("."), value)
    return changed


def _replace_value(inside: Any, keys: list[str], value: Any) -> Any:
    if not keys:
        nested = isinstance(inside, Mapping) and isinstance(value, Mapping)
        return _override(inside, value) if nested else value
    key, *rest = keys
    if isinstance(inside, list) and key.isdecimal() and int(key) < len(inside):
        return [_replace_value(item, rest, value) if n == int(key) else item for n, item in enumerate(inside)]
    below = dict(inside) if isinstance(inside, Mapping) else {}
    return {**below, key: _replace_value(below.get(key), rest, value)}


_LEAST_DRAIN_S = 6 * 3600.0

PEAK_SHARE = 0.8
"""The peak of a load is scaled to this share of what the greatest number of executors carries."""

_MUCH = 10.0
"""Warn when a load is scaled up or down by more than this factor."""

_BEYOND = 10.0
"""Refuse a load that exceeds what the longest run can process by more than this factor: it is a typing error."""

_LEAST_RECORDS, _MOST_SECONDS = 1e-6, 1e10
"""Of a load before it is scaled. Beyond them, figures overflow."""


def drain_limit_s(duration_s: float) -> float:
    """When a run is given up: after the load, as long again as it lasted, at least six hours.

    >>> drain_limit_s(3600.0) / 3600, drain_limit_s(86_400.0) / 3600
    (7.0, 48.0)
    """
    return duration_s + max(_LEAST_DRAIN_S, duration_s)


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """Where a load comes from: a trace file, a shape in the language of ``rheostat.load.shapes``, or a journal.

    Attributes:
        name: in tables and scores: a file's name without its ending, or the shape itself.
        rate, seconds: for a shape without its own.
        points: ``(second, records/s)`` from a journal.
    """

    name: str
    trace: Path | None = None
    shape: str | None = None
    rate: float | None = None
    seconds: float | None = None
    points: tuple[tuple[float, float], ...] | None = None

    @property
    def option(self) -> str:
        """The option it was given by: trace, shape or journal."""
        if self.points is not None:
            return "journal"
        return "shape" if self.trace is None else "trace"

    def curve(self, seed: int) -> RateCurve:
        """The load before it is prepared.

        Raises:
            InputError: with every fault of the file or the shape, or if it offers nothing.
        """
        curve: RateCurve
        if self.points is not None:
            curve = Pieces(self.points)
        elif self.trace is not None:
            curve = read_trace(self.trace)
        else:
            curve = parse_shape(self.shape or "", rate=self.rate, seconds=self.seconds, seed=seed)
        records, given = curve.cumulative(curve.duration), str(self.trace or self.shape or self.name)
        if not records > 0:
            raise InputError([Fault(self.option, given, "a load with records", "it offers nothing at all")])
        if not (_LEAST_RECORDS <= records <= MOST_RECORDS and curve.duration <= _MOST_SECONDS):
            allowed = f"{_LEAST_RECORDS:g} to {MOST_RECORDS:.1e} records in at most {_MOST_SECONDS:g} s"
            message = f"{records:.3g} records in {curve.duration:.3g} s are out of range"
            raise InputError([Fault(self.option, given, allowed, message)])
        return curve


@dataclass(frozen=True, slots=True)
class Treatment:
    """How every load is prepared, see :func:`~rheostat.load.prepare.prepare`; ``scaled``: to :data:`PEAK_SHARE`.

    ``always_noisy``: noise is added to loads with fine bins and to shapes as well.
    ``ranked``: whether the case counts in rankings even where the optimum needs few executors: the fault to find there
    is a policy that takes more.
    """

    noise_cv: float = 0.10
    always_noisy: bool = False
    longest_s: float | None = 7 * 86_400.0
    scaled: bool = True
    ranked: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A job under a load with a seed. Cases with equal keys are equal. ``job_label``: of the job in tables."""

    job: JobFile = field(compare=False)
    job_label: str = field(compare=False)
    load: LoadSpec = field(compare=False)
    seed: int = field(compare=False)
    treatment: Treatment = field(default=Treatment(), compare=False)
    key: str = field(init=False)

    def __post_init__(self) -> None:
        content = (self.job.model_dump_json(), self.job_label, self.load, self.seed, self.treatment)
        object.__setattr__(self, "key", hashlib.sha256(repr(content).encode()).hexdigest())

    @property
    def name(self) -> str:
        return f"{self.load.name} on {self.job_label}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Ready:
    """A case that can be run: the prepared load, and the capacities C(0) … C(n_max), records/s."""

    load: Prepared
    capacities: tuple[float, ...]


@lru_cache(maxsize=2)  # the policies of a case run one after the other
def ready(case: Case) -> Ready:
    """Prepare a case.

    Raises:
        InputError: the load is faulty, offers nothing, or far exceeds the job; or the job carries nothing.
    """
    capacities = capacity_curve(case.job)
    if not capacities[-1] > 0:
        allowed = "a job that carries records at its most executors"
        message = "it carries nothing within its objective: see its driver, state, stages and objective"
        raise InputError([Fault("job", case.job_label, allowed, message)])
    treatment = case.treatment
    load = prepare(
        case.load.curve(case.seed),
        name=case.load.name,
        seed=case.seed,
        peak_rate=PEAK_SHARE * capacities[-1] if treatment.scaled else None,
        noise_cv=treatment.noise_cv,
        always_noisy=treatment.always_noisy,
        longest_s=treatment.longest_s,
    )
    duration = load.curve.duration
    offered, most = load.curve.cumulative(duration), long_batch_rate(case.job, case.job.n_max) * drain_limit_s(duration)
    if offered > _BEYOND * most:
        allowed = f"at most {_BEYOND * most:.4g} records, {_BEYOND:g} × what all executors process in the longest run"
        message = f"{case.load.name} would run for long, and no run of it would count"
        raise InputError([Fault(case.load.option, f"{offered:.4g} records", allowed, message)])
    return Ready(replace(load, said=(*load.said, *_warnings(case, load))), capacities)


def _warnings(case: Case, load: Prepared) -> Iterator[str]:
    """For a load that is only a part of its period, or is scaled by a large factor, and for events."""
    spec = case.load
    if spec.shape is not None:
        yield from (f"! {text}" for text in remarks_on(spec.shape, spec.rate, spec.seconds))
    if not 1 / _MUCH <= load.scale <= _MUCH:
        times = f"{load.scale:,.0f} times as high" if load.scale > 1 else f"{1 / load.scale:,.0f} times as low"
        yield (
            f"! the load is played {times} as it was given, so that its peak is {PEAK_SHARE:.0%} of what "
            f"{case.job.n_max} executors carry; --as-is leaves it as it is"
        )
    slower = sorted({event.kind for event in case.job.events} - BESIDE_WORK)
    if slower:
        yield f"what makes the job slower is left out of the optimum and of the size of static: {', '.join(slower)}"


def loads_of(
    traces: str | None, shapes: Sequence[str], rate: float | None = None, seconds: float | None = None
) -> list[LoadSpec]:
    """The loads of the options, each checked; every trace file and every shape is one load.

    ``traces``: files or folders, comma separated. ``rate`` (records/s) and ``seconds``: for shapes without their own.

    Raises:
        InputError: with every fault of every load, or if there is none.
    """
    paths = [Path(piece.strip()) for piece in (traces or "").split(",") if piece.strip()]
    # an empty folder stays in the list: reading it raises the fault
    files = [file for path in paths for file in (trace_files(path) or (path,))]
    loads = [LoadSpec(file.stem, trace=file) for file in files]
    loads += [LoadSpec(shape, shape=shape, rate=rate, seconds=seconds) for shape in shapes]
    faults: list[Fault] = []
    for load in loads:
        attempt(load.curve, None, faults, seed=0)
    faults += _same_names(loads)
    if not loads:
        message = "give a load: a trace, or a shape"
        faults.append(Fault("trace", traces or "nothing", "files or folders of traces, or --shape", message))
    if faults:
        raise InputError(faults)
    return loads


def _same_names(loads: Sequence[LoadSpec]) -> list[Fault]:
    by_name: dict[str, list[str]] = {}
    for load in loads:
        by_name.setdefault(load.name, []).append(str(load.trace or load.shape))
    message = "two loads would have one name in the tables"
    return [Fault("trace", ", ".join(same), "names that differ", message) for same in by_name.values() if len(same) > 1]


# Policies: with their preset, options and guards, and the settings of their loop on a job

JOB_OWNS: Mapping[str, str] = {"objective": "objective", "executors": "executors", "sample_s": "decide_every_s"}
"""Settings that belong to the job, the same for all policies, and their names in a job file."""

UNUSED: Mapping[str, str] = {
    "actuator": "a simulated job has no Workers",
    "allow_redone_work": "the job file says how executors go: see job.rescale",
    "journal": "rheostat simulate has --journal for it",
    "metrics": "a simulation serves none",
    "shedding": "a simulated job keeps every record",
    "mode": "a simulated job is always scaled",
    "queries": "a simulated job has one query",
    "state": "a simulation keeps none",
    "workers": "a simulated job has no Workers",
}
"""Settings of a live loop that have no effect in a simulation, and why."""


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A policy with its options, and other settings of the loop as in a settings file (guards among them)."""

    policy: str
    preset: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """In tables and scores: ``hpa``, or ``hpa:faithful``."""
        return policy_label(self.policy, self.preset)

    def at_size(self, executors: int) -> PolicySpec:
        """Give ``static`` without ``executors`` this number, which carries the peak; leave other policies unchanged."""
        if self.policy != "static" or "executors" in self.options:
            return self
        return replace(self, options={**self.options, "executors": executors})


def parse_policy_specs(text: str, settings: Mapping[str, Any], options: Mapping[str, Any]) -> list[PolicySpec]:
    """The policies of a list like ``hpa,hpa:faithful,reactive``, each once, with settings and options for all."""
    names = dict.fromkeys(piece.strip() for piece in text.split(",") if piece.strip())
    return [PolicySpec(*split_policy(name), options, settings) for name in names]


def settings_for(job: JobFile, spec: PolicySpec) -> Settings:
    """The settings of the production loop for this policy on this job.

    Raises:
        InputError: with every fault of the policy, its options and the settings.
    """
    return load_settings(_values_for(job, spec))


def _values_for(job: JobFile, spec: PolicySpec) -> dict[str, Any]:
    return {
        **spec.settings,
        **{key: getattr(job, name) for key, name in JOB_OWNS.items()},
        "policy": spec.label,
        "policy_options": spec.options,
        "mode": "act",
        "journal": None,
        "state": None,
    }


def check_policy_specs(job: JobFile, specs: Iterable[PolicySpec]) -> list[Fault]:
    """Faults of the settings, the policies and their options, each once."""
    faults: dict[tuple[str, str], Fault] = {}
    for spec in specs:
        own: list[Fault] = []
        attempt(check_settings, None, own, _values_for(job, spec))
        faults.update({(fault.field, fault.given): fault for fault in own})
    return list(faults.values())


def idle_settings(job: JobFile, specs: Iterable[PolicySpec]) -> list[NoEffect]:
    """Settings that have no effect for some of these policies, each once; without those of UNUSED."""
    idle: dict[NoEffect, None] = {}
    for spec in specs:
        given = {**spec.settings, "policy_options": spec.options}
        idle.update(dict.fromkeys(no_effect(given, settings_for(job, spec))))
    return [each for each in idle if each.field.split(".")[0] not in UNUSED]


# The recent load of a live job, from its journal

STEP_S = 5.0
"""Arrivals are counted over at least this many seconds: over one second they are mostly chance."""


def recent_load(journal: Path, last_s: float) -> LoadSpec:
    """The arrivals of the last ``last_s`` seconds of the journal, or of all of it if it is shorter.

    Raises:
        InputError: there is no journal, it is damaged, or it is not of a run of one query with known arrivals.
    """
    levels = levels_of(read_run(journal).snapshots, last_s)
    if not any(rate > 0 for _, rate in levels):
        message = "no records arrive in that time"
        raise InputError([Fault("journal", str(journal), "a journal with the source's newest offsets", message)])
    return LoadSpec(journal.name or str(journal), points=tuple(staircase(levels).points))


def levels_of(snapshots: Sequence[Snapshot], last_s: float) -> list[tuple[float, float]]:
    """``(seconds, records/s)`` one after the other, by the newest offsets; over a gap, the mean.

    If offsets go back, as those of a topic that was created again, nothing arrives in that time.

    >>> snapshots = [Snapshot(at, latest, 0, None, 1, 1) for at, latest in ((0.0, 0), (3.0, 9), (5.0, 20), (15.0, 120))]
    >>> levels_of(snapshots, 60.0), levels_of(snapshots, 10.0)
    ([(5.0, 4.0), (10.0, 10.0)], [(10.0, 10.0)])
    """
    known = [(each.at, each.latest) for each in snapshots if each.latest is not None]
    spaced: list[tuple[float, int]] = []
    for at, latest in known:
        if at >= known[-1][0] - last_s and (not spaced or at - spaced[-1][0] >= STEP_S):
            spaced.append((at, latest))
    return [
        (after - before, max(0.0, (then - first) / (after - before)))
        for (before, first), (after, then) in pairwise(spaced)
    ]
