"""The record-at-a-time model compared with recorded cluster runs.

Two kinds of recordings, both CSV:

* profiles, ``scaleOut,avgThr,isBckPres``: the throughput of a number of workers; rows with isBckPres = 1 are saturated.
  The capacity C(n) = α · n^β is fitted to them in logarithms, and each number is predicted from the others.
* runs, ``run,second,throughput,consumer_lag,task_managers``: a job under a known input while its number of workers
  changed. α (β is 1), the pause of a change and the commit interval are fitted to one run; the others are replayed with
  them, and throughput and backlog are compared with those of the simulator. ``consumer_lag`` is that of one partition
  (Kafka's records-lag-max), and there are as many partitions as the most workers.
"""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rheostat.calibrate.measured import relative_error
from rheostat.errors import Fault, InputError
from rheostat.files import read_text, reason_of
from rheostat.load.curves import Pieces
from rheostat.model import Action, Decision, Reason, ReasonCode, Recommendation
from rheostat.sim.events import CodeChange
from rheostat.sim.job import SimulatedJob
from rheostat.sim.jobfile import JobFile, job_of

Array = npt.NDArray[np.float64]

_ALPHAS = (0.8, 0.9, 1.0, 1.15, 1.4, 1.8)
_PAUSES_S = (4.0, 8.0, 12.0, 16.0, 22.0, 30.0)
_STABLE = 0.02
_STEP_S = 0.5
_MOST_BYTES = 64 * 2**20


# Profiles


@dataclass(frozen=True, slots=True)
class CapacityFit:
    """C(n) = α · n^β; ``points``: ``(n, measured, predicted from the other numbers)``, records/s."""

    alpha: float
    beta: float
    points: tuple[tuple[int, float, float], ...]

    @property
    def mean_error(self) -> float:
        """Mean of |predicted ÷ measured − 1|."""
        return float(np.mean([abs(predicted / measured - 1) for _, measured, predicted in self.points]))

    @property
    def largest_error(self) -> float:
        """The largest of |predicted ÷ measured − 1|."""
        return max(abs(predicted / measured - 1) for _, measured, predicted in self.points)


def fit_capacity(points: Sequence[tuple[int, float]]) -> CapacityFit:
    """Least squares in logarithms, over all points and without each one.

    Raises:
        InputError: fewer than three different numbers of workers.
    """
    if len({n for n, _ in points}) < 3:
        given = f"{len({n for n, _ in points})} numbers of workers"
        raise InputError([Fault("profiles", given, "at least 3 that were saturated", "too little for a fit")])
    alpha, beta = _power(points)
    left_out = []
    for n, measured in points:
        a, b = _power([point for point in points if point[0] != n])
        left_out.append((n, measured, a * n**b))
    return CapacityFit(alpha, beta, tuple(left_out))


def _power(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    slope, level = np.polyfit(np.log([n for n, _ in points]), np.log([rate for _, rate in points]), 1)
    return float(np.exp(level)), float(slope)


def read_profiles(path: Path) -> list[tuple[int, float]]:
    """``(workers, records/s)`` of the saturated rows, ascending.

    Raises:
        InputError: the file cannot be read, or a row is wrong.
    """
    rows = _read_rows(path, "profiles", ("scaleOut", "avgThr", "isBckPres"))
    full = [(row["scaleOut"], row["avgThr"]) for row in rows if row["isBckPres"] == 1]
    if not full or not all(n >= 1 and rate > 0 for n, rate in full):
        allowed = "rows with isBckPres = 1, scaleOut ≥ 1 and avgThr > 0"
        message = "a saturated row has no such figures" if full else "no row is saturated"
        raise InputError([Fault("profiles", str(path), allowed, message)])
    return sorted((int(n), rate) for n, rate in full)


# Runs


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded run; arrays of one length, NaN where nothing was recorded.

    ``seconds``: begin of each interval. ``throughput``: records/s. ``backlog``: records, in all partitions.
    ``workers``: mean over the interval, so not always whole.
    """

    name: str
    seconds: Array
    throughput: Array
    backlog: Array
    workers: Array


@dataclass(frozen=True, slots=True)
class ModelErrors:
    """Σ|measured − simulated| ÷ Σ measured of a replayed run, and the same for a constant mean."""

    name: str
    throughput: float
    throughput_mean: float
    backlog: float
    backlog_mean: float

    def to_json(self) -> dict[str, float | str]:
        return asdict(self)


def read_recordings(path: Path) -> tuple[Recording, ...]:
    """The runs of a file. Raises InputError: the file cannot be read, or a row is wrong."""
    columns = ("second", "throughput", "consumer_lag", "task_managers")
    runs: dict[str, list[dict[str, float]]] = defaultdict(list)
    for row in _read_rows(path, "recorded", columns, label="run"):
        runs[str(row["run"])].append(row)
    found, faults = [], []
    if not runs:
        faults.append(Fault("recorded", str(path), "runs", "there is none in it"))
    for name, rows in runs.items():
        why = _why_not_replayable(rows)
        if why is not None:
            faults.append(Fault("recorded", f"{path}: run {name}", "a run that can be replayed", why))
            continue
        seconds, throughput, backlog, workers = (np.array([row[column] for row in rows]) for column in columns)
        partitions = max(1, math.ceil(float(np.nanmax(workers)) - _STABLE))
        found.append(Recording(name, seconds, throughput, partitions * backlog, workers))
    if faults:
        raise InputError(faults)
    return tuple(found)


def _why_not_replayable(rows: Sequence[Mapping[str, float]]) -> str | None:
    seconds = [row["second"] for row in rows]
    if len(rows) < 2 or not all(before < after for before, after in pairwise(seconds)):
        return "it needs two rows at least, in the order of their seconds"
    if not any(_is_whole(row["task_managers"]) for row in rows):
        return "no row has a whole number of task managers"
    return None if any(row["throughput"] > 0 for row in rows) else "no row has a throughput"


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a recorded job: records/s of a worker, the pause of a change, and the commit interval."""

    alpha: float
    pause_s: float
    commit_s: float


def fit_recording(run: Recording, load: Pieces) -> Figures:
    """The figures with the smallest error of the backlog.

    α is sought around the 95th percentile of a worker's throughput. The backlog of a calm job is half of the records of
    a commit interval.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        usual = float(np.nanpercentile(run.throughput / np.where(run.workers >= 1, run.workers, np.nan), 95))
    calm_s = 2 * float(np.nanmedian(run.backlog) / np.nanmedian(run.throughput))
    commit_s = min(max(calm_s, _STEP_S), 60.0)
    tried = (Figures(factor * usual, pause_s, commit_s) for factor, pause_s in product(_ALPHAS, _PAUSES_S))
    return min(tried, key=lambda figures: relative_error(run.backlog, _play(run, load, figures)[1]))


def measure_errors(run: Recording, load: Pieces, figures: Figures) -> ModelErrors:
    """Replay a run, and compare the simulated with the measured figures."""
    simulated, measured = _play(run, load, figures), (run.throughput, run.backlog)
    errors = []
    for ours, theirs in zip(simulated, measured, strict=True):
        errors += [relative_error(theirs, ours), relative_error(theirs, np.full_like(theirs, np.nanmean(theirs)))]
    return ModelErrors(run.name, *errors)


def _play(run: Recording, load: Pieces, figures: Figures) -> tuple[Array, Array]:
    """Throughput and backlog of the simulated job in the intervals of the run."""
    restarts = _restarts(run)
    start = round(float(next(w for w in run.workers if _is_whole(w))))
    events = [CodeChange(kind="code", at_s=at, factor=1.0, pause_s=figures.pause_s) for at, _, same in restarts if same]
    sim = SimulatedJob(_job_of(run, figures), load, 1, start, events=events)
    reason = Reason(ReasonCode.FIXED, "as recorded")
    for at, number, same in restarts:
        if not same:
            sim.advance(at)
            sim.apply(Decision(at, 1, Action.UP, None, number, reason, Recommendation(number, reason)))
    end = float(run.seconds[-1]) + float(np.median(np.diff(run.seconds)))
    sim.advance(end)
    return _mean_by_interval(run, load, sim.history.commits, end)


def _mean_by_interval(
    run: Recording, load: Pieces, commits: Sequence[tuple[float, int, float, float]], end: float
) -> tuple[Array, Array]:
    """Means of throughput and backlog over the intervals of the run."""
    at, done = np.array([commit[0] for commit in commits]), np.array([float(commit[1]) for commit in commits])
    edges = np.append(run.seconds, end)
    moments = np.arange(edges[0] + _STEP_S / 2, edges[-1], _STEP_S)
    last = np.maximum(0, np.searchsorted(at, moments, side="right") - 1)
    waiting = np.array([load.cumulative(float(moment)) for moment in moments]) - done[last]
    place = np.searchsorted(run.seconds, moments, side="right") - 1
    counts = np.bincount(place, minlength=len(run.seconds))
    sums = np.bincount(place, weights=waiting, minlength=len(run.seconds))
    return np.diff(np.interp(edges, at, done)) / np.diff(edges), sums / np.maximum(counts, 1)


def _is_whole(workers: float) -> bool:
    return workers >= 1 and abs(workers - round(workers)) < _STABLE


def _restarts(run: Recording) -> list[tuple[float, int, bool]]:
    """``(second, workers from then on, whether they are as many as before)`` of each restart."""
    found: list[tuple[float, int, bool]] = []
    current, since = None, None
    for at, workers in zip(run.seconds.tolist(), run.workers.tolist(), strict=True):
        if _is_whole(workers):
            number = round(workers)
            if current is not None and (since is not None or number != current):
                found.append((at if since is None else since, number, number == current))
            current, since = number, None
        elif current is not None and since is None and not math.isnan(workers):
            since = at
    return found


def _job_of(run: Recording, figures: Figures) -> JobFile:
    most = max(1, math.ceil(float(np.nanmax(run.workers)) - _STABLE))
    still = {"median_s": 0.0, "p95_s": 0.0}
    return job_of(
        {
            "name": run.name,
            "model": "record",
            "objective": "lag < 60s",
            "executors": [1, most],
            "partitions": most,
            "executor": {"start_up": still, "cold_task_s": 0.0},
            "rescale": {"mode": "restart", "pause": {"median_s": figures.pause_s, "p95_s": figures.pause_s}},
            "record": {"alpha": figures.alpha, "beta": 1.0, "commit_every_s": figures.commit_s},
        }
    )


# CSV files


def _read_rows(path: Path, field: str, columns: Sequence[str], label: str | None = None) -> list[dict[str, float]]:
    """The rows with these columns as numbers, NaN where a cell is empty; ``label`` is kept as text."""
    found, faults = list[dict[str, Any]](), list[Fault]()
    wanted = [*columns, *([label] if label else [])]
    try:
        reader = csv.DictReader(io.StringIO(read_text(path, _MOST_BYTES, "utf-8-sig")))
        missing = [name for name in wanted if name not in (reader.fieldnames or ())]
        if missing:
            message = f"columns are missing: {', '.join(missing)}"
            raise InputError([Fault(field, str(path), "a CSV file with these columns", message)])
        for number, row in enumerate(reader, start=2):
            try:
                read: dict[str, Any] = {name: float(row[name]) if row[name] else math.nan for name in columns}
            except (TypeError, ValueError):
                faults.append(Fault(field, f"{path}:{number}", "numbers", "a cell is not a number"))
                continue
            found.append(read if label is None else {**read, label: row[label]})
    except (OSError, ValueError, csv.Error) as error:
        message = f"it cannot be read: {reason_of(error)}"
        raise InputError([Fault(field, str(path), "a CSV file", message)]) from error
    if faults:
        raise InputError(faults)
    return found
