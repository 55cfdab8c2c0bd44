"""Cases: a job under a load with a seed. What is compared is compared case by case."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rheostat.errors import Fault, InputError
from rheostat.judge.simulate import drain_limit_s
from rheostat.load.curves import MOST_RECORDS, Pieces, RateCurve
from rheostat.load.prepare import Prepared, prepare
from rheostat.load.shapes import parse_shape, remarks_on
from rheostat.load.traces import read_trace, trace_files
from rheostat.sim.capacity import capacity_curve, long_batch_rate
from rheostat.sim.jobfile import JobFile

__all__ = ["PEAK_SHARE", "Case", "LoadSpec", "Ready", "Treatment", "loads_of", "ready"]

PEAK_SHARE = 0.8
"""The peak of a load is scaled to this share of what the greatest number of executors carries."""

MUCH = 10.0
"""A load that is played so many times as high or low as it was given is one of another order: this is said."""

BEYOND = 10.0
"""A load of so many times what can be worked off in the longest run is a slip of the keyboard."""

_LEAST_RECORDS, _MOST_SECONDS = 1e-6, 1e10
"""Of a load, before it is scaled; beyond them figures overflow."""


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """Where a load comes from: a trace file, a shape in the language of ``rheostat.load.shapes``, or what a job met.

    Attributes:
        name: what it is called in tables and scores: a file's name without its ending, or the shape itself.
        rate, seconds: of a shape that does not say its own.
        points: ``(second, records/s)`` that a journal tells.
    """

    name: str
    trace: Path | None = None
    shape: str | None = None
    rate: float | None = None
    seconds: float | None = None
    points: tuple[tuple[float, float], ...] | None = None

    @property
    def option(self) -> str:
        """What it was given by: trace, shape or journal."""
        if self.points is not None:
            return "journal"
        return "shape" if self.trace is None else "trace"

    def curve(self, seed: int) -> RateCurve:
        """The load as it was given.

        Raises:
            InputError: the file or the shape is faulty, or offers nothing: every fault.
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
            message = f"{records:.3g} records in {curve.duration:.3g} s are not of this world"
            raise InputError([Fault(self.option, given, allowed, message)])
        return curve


@dataclass(frozen=True, slots=True)
class Treatment:
    """What is done to every load.

    Attributes:
        noise_cv: coefficient of variation of the noise where bins are coarse.
        longest_s: longer loads are cut to the window of that length with the peak; None: any length.
        scaled: whether the peak is scaled to ``PEAK_SHARE`` of what the job can carry.
    """

    noise_cv: float = 0.10
    longest_s: float | None = 7 * 86_400.0
    scaled: bool = True


@dataclass(frozen=True, slots=True)
class Case:
    """A job under a load with a seed. Two cases with equal keys are the same.

    Attributes:
        job_label: what the job is called in tables, as several cases may vary one job file.
    """

    job: JobFile = field(compare=False)
    job_label: str = field(compare=False)
    load: LoadSpec = field(compare=False)
    seed: int = field(compare=False)
    treatment: Treatment = field(default=Treatment(), compare=False)
    key: str = field(init=False)

    def __post_init__(self) -> None:
        told = (self.job.model_dump_json(), self.job_label, self.load, self.seed, self.treatment)
        object.__setattr__(self, "key", hashlib.sha256(repr(told).encode()).hexdigest())

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.load.name} on {self.job_label}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Ready:
    """A case that can be played: the load as the job gets it, and C(0) … C(n_max)."""

    load: Prepared
    capacities: tuple[float, ...]


@lru_cache(maxsize=2)
def ready(case: Case) -> Ready:
    """Prepare a case. The last ones are remembered: the policies of a case follow one another.

    Raises:
        InputError: the load is faulty, offers nothing, or is more than the job can ever work off; or the job carries
            nothing.
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
        longest_s=treatment.longest_s,
    )
    _check_amount(case, load)
    return Ready(replace(load, said=(*load.said, *_remarks(case, load))), capacities)


def _remarks(case: Case, load: Prepared) -> Iterator[str]:
    """What may not have been meant: a part of a period, or rates of another order."""
    spec = case.load
    if spec.shape is not None:
        yield from (f"! {text}" for text in remarks_on(spec.shape, spec.rate, spec.seconds))
    if not 1 / MUCH <= load.scale <= MUCH:
        times = f"{load.scale:,.0f} times as high" if load.scale > 1 else f"{1 / load.scale:,.0f} times as low"
        yield (
            f"! the load is played {times} as it was given, so that its peak is {PEAK_SHARE:.0%} of what "
            f"{case.job.n_max} executors carry; --as-is leaves it as it is"
        )


def _check_amount(case: Case, load: Prepared) -> None:
    """A load far beyond the job would be played for long, and no run of it would count."""
    duration = load.curve.duration
    most = BEYOND * long_batch_rate(case.job, case.job.n_max) * drain_limit_s(duration)
    offered = load.curve.cumulative(duration)
    if offered > most:
        allowed = (
            f"at most {most:.4g} records, {BEYOND:g} × what {case.job.n_max} executors work off in the longest run"
        )
        message = f"{case.load.name} is more than that"
        raise InputError([Fault(case.load.option, f"{offered:.4g} records", allowed, message)])


def loads_of(
    traces: str | None, shapes: Sequence[str], rate: float | None = None, seconds: float | None = None
) -> list[LoadSpec]:
    """The loads that the options ask for, each checked.

    Args:
        traces: files or folders of traces, comma separated; each file is a load of its own.
        shapes: shapes, each a load of its own.
        rate: records/s, for shapes that do not say their own.
        seconds: likewise.

    Raises:
        InputError: every fault of every load, or there is none.
    """
    loads = [LoadSpec(file.stem, trace=file) for file in _files(traces or "")]
    loads += [LoadSpec(shape, shape=shape, rate=rate, seconds=seconds) for shape in shapes]
    faults = [fault for load in loads for fault in _faults(load)] + _same_names(loads)
    if not loads:
        message = "say which load: a trace, or a shape"
        faults.append(Fault("trace", traces or "nothing", "files or folders of traces, or --shape", message))
    if faults:
        raise InputError(faults)
    return loads


def _files(traces: str) -> list[Path]:
    """The named files; of a folder each trace in it, of an empty one the folder itself, which cannot be read."""
    paths = [Path(piece.strip()) for piece in traces.split(",") if piece.strip()]
    return [file for path in paths for file in (trace_files(path) or (path,))]


def _faults(load: LoadSpec) -> Sequence[Fault]:
    try:
        load.curve(seed=0)
    except InputError as error:
        return error.faults
    return ()


def _same_names(loads: Sequence[LoadSpec]) -> list[Fault]:
    places: Mapping[str, list[Any]] = {load.name: [] for load in loads}
    for load in loads:
        places[load.name].append(load.trace or load.shape)
    return [
        Fault("trace", ", ".join(map(str, same)), "names that differ", "two loads would have one name in the tables")
        for same in places.values()
        if len(same) > 1
    ]
