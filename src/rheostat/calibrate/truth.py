"""How true the simulator is: a real run is replayed in it, and both are compared.

The replay gets the load as measured (latest offsets, a straight line between two snapshots), the executors of the run's
start, and the run's decisions at their times; all else is the simulator's. It is observed at the times of the run's
snapshots, and both go through the same analysis. It begins with a batch that the journal holds, at its trigger, with
the records that waited then; and it is the expected run: batch times without noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rheostat.calibrate.fit import WARM_UP_S, Calibration
from rheostat.calibrate.measured import RealBatch, RealRun, Snapshot, assess_all, relative_error
from rheostat.errors import Fault, InputError
from rheostat.load.curves import Pieces
from rheostat.report.html import BLUE, GREY, RED, PlotFigure, frame, heading, line, note_list, table, write_page
from rheostat.sim.job import SimulatedJob
from rheostat.sim.jobfile import JobFile

_ROUNDING_S = 1e-3


class Moment(NamedTuple):
    """One snapshot of a run; seconds since its start; None: not known."""

    at: float
    backlog: float | None
    lag_s: float | None
    executors: int | None


Batches = tuple[tuple[float, float, int], ...]
"""``(second, duration, records)`` of each."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A window of a real run, measured and simulated; ``start``: of the window, on the journal's clock."""

    name: str
    start: float
    seconds: float
    objective_s: float
    measured: tuple[Moment, ...]
    simulated: tuple[Moment, ...]
    batches: Batches
    sim_batches: Batches


@dataclass(frozen=True, slots=True)
class Errors:
    """How far a series of moments and batches is from another.

    Attributes:
        backlog: Σ|m − s| ÷ Σm.
        batch: |median of s ÷ median of m − 1| of the batch times.
        lag_p95: the same for the 95th percentile of the lag.
        worse_than_mean, worse_than_zero: the backlog error of a constant mean of m, and of zero, ÷ ours.
    """

    backlog: float
    batch: float
    lag_p95: float
    worse_than_mean: float
    worse_than_zero: float

    def to_json(self) -> dict[str, float]:
        return asdict(self)


def window_of(run: RealRun, warm_up_s: float = WARM_UP_S) -> tuple[RealBatch, float]:
    """The batch that the window begins with, and its end.

    The first batch after the warm-up that does not lie in a change of executors, and that comes next to one that was
    seen too. The window ends with the last record that arrived, or the last snapshot.

    Raises:
        InputError: there is no such batch.
    """
    for before, batch in pairwise(run.batches):
        changing = batch.joined or batch.cold or batch.shrunk or batch.starting_s or before.joined
        warm = batch.start >= run.batches[0].end + warm_up_s
        if warm and batch.batch_id == before.batch_id + 1 and batch.executors and not changing:
            break
    else:
        message = "no two batches in a row were seen after the warm-up, with all executors warm"
        raise InputError([Fault("journal", run.name, f"a run longer than {warm_up_s:g} s", message)])
    known = [snapshot for snapshot in run.snapshots if snapshot.latest is not None]
    most = max((snapshot.latest or 0 for snapshot in known), default=0)
    return batch, next((snapshot.at for snapshot in known if snapshot.latest == most), run.snapshots[-1].at)


def replay(run: RealRun, job: JobFile, *, warm_up_s: float = WARM_UP_S, seed: int = 1) -> Replay:
    """Replay a run in the simulator. Raises InputError: the run has no window; see :func:`window_of`."""
    first, end = window_of(run, warm_up_s)
    every = max(1.0, run.setup.trigger_s)
    origin = first.start - first.start % every - every
    begin = first.start - origin
    quiet, load = job.model_copy(update={"batch_noise_cv": 0.0}), _load_of(run, origin, first, end)
    sim = SimulatedJob(quiet, load, seed, first.executors or 1, keep_batches=True, begins_at=begin)
    snapshots = [snapshot for snapshot in run.snapshots if first.start <= snapshot.at <= end]
    actions = [each for each in run.actions if each.at >= snapshots[0].at]
    observations = []
    for snapshot in snapshots:
        while actions and actions[0].at <= snapshot.at:
            action = actions.pop(0)
            sim.advance(max(sim.now, action.at - origin))
            sim.apply(action)
        observations.append(sim.observe(snapshot.at - origin))
    simulated = [
        Moment(each.at + origin - first.start, each.backlog, each.lag_s, each.executors)
        for each in assess_all(observations, run.setup.settings)
    ]
    ours = [(at - begin, stop - at, records) for at, stop, records, _ in sim.history.batches if records]
    inside = [batch for batch in ours if 0 <= batch[0] + _ROUNDING_S < end - first.start]
    return _replay_of(run.name, run, job, (first, end), snapshots, simulated, inside)


def _load_of(run: RealRun, origin: float, first: RealBatch, end: float) -> Pieces:
    """From ``origin`` on the records that the first batch found, until it begins; then as measured."""
    at = [first.start, *(k.at for k in run.snapshots if k.latest is not None and first.start < k.at <= end)]
    ahead = max(1e-3, first.start - origin)
    waiting = _waiting_records(run, first) / ahead
    points: list[tuple[float, float]] = [(0.0, waiting), (ahead, waiting)]
    for (begin, until), (less, more) in zip(pairwise(at), pairwise(run.count_arrived(at)), strict=True):
        rate = max(0.0, float(more - less)) / (until - begin) if until > begin else 0.0
        points += [(begin - origin, rate), (until - origin, rate)]
    return Pieces(points)


def _waiting_records(run: RealRun, first: RealBatch) -> float:
    """Records that the first batch found: those since the trigger of the one before, or what a cap had left over."""
    later = [each.committed for each in run.snapshots if each.at >= first.end and each.committed is not None]
    cap = run.setup.batch_cap
    if cap is None or first.records < 0.99 * cap or not later:
        return float(first.records)
    return max(float(first.records), float(run.count_arrived([first.start])[0]) - (later[0] - first.records))


def _replay_of(
    name: str,
    run: RealRun,
    job: JobFile,
    window: tuple[RealBatch, float],
    snapshots: Sequence[Snapshot],
    simulated: Iterable[Moment],
    sim_batches: Iterable[tuple[float, float, int]],
) -> Replay:
    start, end = window[0].start, window[1]
    return Replay(
        name=name,
        start=start,
        seconds=end - start,
        objective_s=job.objective_s,
        measured=tuple(Moment(each.at - start, each.backlog, each.lag_s, each.registered) for each in snapshots),
        simulated=tuple(simulated),
        batches=_batches_inside(run, start, end),
        sim_batches=tuple(sim_batches),
    )


def _batches_inside(run: RealRun, start: float, end: float) -> Batches:
    inside = [batch for batch in run.batches if start <= batch.start < end]
    return tuple((batch.start - start, batch.duration_s, batch.records) for batch in inside)


# How far off the simulator is


def errors_of(run: Replay) -> Errors:
    both = zip(run.measured, run.simulated, strict=True)
    pairs = [(m.backlog, s.backlog) for m, s in both if m.backlog is not None and s.backlog is not None]
    measured, simulated = np.array(pairs, float).reshape(-1, 2).T
    ours = relative_error(measured, simulated)

    def worse(constant: float) -> float:
        return relative_error(measured, np.full_like(measured, constant)) / ours if ours else float("inf")

    return Errors(
        backlog=ours,
        batch=_percentile_error([took for _, took, _ in run.batches], [took for _, took, _ in run.sim_batches], 50),
        lag_p95=_percentile_error([m.lag_s for m in run.measured], [s.lag_s for s in run.simulated], 95),
        worse_than_mean=worse(float(measured.mean())),
        worse_than_zero=worse(0.0),
    )


def _percentile_error(measured: Sequence[float | None], simulated: Sequence[float | None], percent: float) -> float:
    """How far a percentile is off; infinite where one of the two is not known, or 0 was measured."""
    known = [[each for each in side if each is not None] for side in (measured, simulated)]
    if not all(known):
        return float("inf")
    m, s = (float(np.percentile(side, percent)) for side in known)
    return abs(s / m - 1) if m else float("inf")


def overlay(run: RealRun, other: RealRun, job: JobFile, *, warm_up_s: float = WARM_UP_S) -> Replay:
    """Two equal real runs as if the second were a simulation of the first.

    Seconds count from the first decision, as those of a timetable do. Between two snapshots of the second run its
    figures are on a straight line; a batch counts in the seconds of the window.
    """
    first, end = window_of(run, warm_up_s)
    moved = other.began - run.began
    last_at = min(end, other.snapshots[-1].at - moved)
    snapshots = [each for each in run.snapshots if first.start <= each.at <= last_at]

    def interpolate(name: str) -> list[float]:
        known = [(each.at - moved, value) for each in other.snapshots if (value := getattr(each, name)) is not None]
        found: list[float] = np.interp([each.at for each in snapshots], *np.array(known).T).tolist()
        return found

    values = zip(snapshots, interpolate("backlog"), interpolate("lag_s"), strict=True)
    simulated = [Moment(snapshot.at - first.start, backlog, lag_s, None) for snapshot, backlog, lag_s in values]
    batches = _batches_inside(other, first.start + moved, end + moved)
    return _replay_of(other.name, run, job, (first, end), snapshots, simulated, batches)


# The report: each run and its replay in one plot, in one HTML file

_NOTES = (
    "Measured: the journal of a real run that the job file was not fitted to. Simulated: the production simulator with "
    "that run's load (its latest offsets), its executors at the start, and its decisions at their times. Start-up "
    "times, cold executors and batch times are the simulator's own; the noise of batch times is left out.",
    "Both are observed at the same times, and the same analysis computes backlog and lag.",
    "Backlog: Σ|measured − simulated| ÷ Σ measured over the snapshots. A constant mean and zero are compared with the "
    "measured backlog in the same way: a simulator that is no better than they are is of no use.",
)


def write_truth(path: Path, fitted: Calibration, runs: Sequence[tuple[Replay, Errors]]) -> Path:
    """Write the report and return its path.

    Raises:
        InputError: plotly is not installed, or the file cannot be written.
    """
    parts: list[str] = []
    for number, (run, errors) in enumerate(runs):
        plots = _plots(run, with_script=number == 0)
        parts += [heading(f"{run.name}: {run.seconds:.0f} s"), plots, table(_error_rows(errors))]
    parts += [heading("What the job file holds, and how sure it is"), table(estimate_rows(fitted))]
    parts += [heading("How to read this"), note_list(_NOTES)]
    verdict = [
        f"{run.name}: backlog off by {errors.backlog:.1%}, median batch time by {errors.batch:.1%}, lag p95 by "
        f"{errors.lag_p95:.1%}"
        for run, errors in runs
    ]
    return write_page(path, frame(f"How true the simulator is: {fitted.job.name}", "; ".join(verdict) + ".", parts))


def estimate_rows(fitted: Calibration) -> list[list[str]]:
    """The figures of a job file as a table, header first."""
    rows = [["figure", "value", "95 % interval", "n", "from"]]
    for each in fitted.estimates:
        interval = "" if each.interval is None else f"{each.interval[0]:.4g} … {each.interval[1]:.4g}"
        source = each.why if each.identified else f"not identified, left at {each.value:g}: {each.why}"
        rows.append([each.key, f"{each.value:.4g} {each.unit}".strip(), interval, str(each.n), source])
    return rows


def _error_rows(errors: Errors) -> list[list[str]]:
    return [
        ["figure", "value", "required"],
        ["backlog, Σ|measured − simulated| ÷ Σ measured", f"{errors.backlog:.3f}", "≤ 0.15"],
        ["median batch time, |simulated ÷ measured − 1|", f"{errors.batch:.1%}", "≤ 15 %"],
        ["lag p95, |simulated ÷ measured − 1|", f"{errors.lag_p95:.1%}", "≤ 20 %"],
        ["error of a constant mean ÷ ours", f"{errors.worse_than_mean:.1f}", "≥ 3"],
        ["error of zero ÷ ours", f"{errors.worse_than_zero:.1f}", "≥ 3"],
    ]


def _plots(run: Replay, *, with_script: bool) -> str:
    titles = ("Backlog, records", "Lag, s", "Batch time, s", "Executors")
    figure = PlotFigure(titles, "seconds since the start of the replay", height=1050)
    figure.limit(2, run.objective_s)
    for name, moments, batches, color, dash, symbol in (
        ("measured", run.measured, run.batches, BLUE, "solid", "circle"),
        ("simulated", run.simulated, run.sim_batches, RED, "dot", "x"),
    ):
        at = [each.at for each in moments]
        style: dict[str, Any] = {"dash": dash, "legendgroup": name}
        figure.add(1, line(name, at, [each.backlog for each in moments], color, **style))
        figure.add(2, line(name, at, [each.lag_s for each in moments], color, showlegend=False, **style))
        figure.add(3, _marks(name, batches, color, symbol))
        executors = [each.executors for each in moments]
        figure.add(4, line(name, at, executors, color, shape="hv", showlegend=False, **style))
    return figure.html(with_script=with_script)


def _marks(name: str, batches: Batches, color: str, symbol: str) -> dict[str, Any]:
    return {
        "name": name,
        "legendgroup": name,
        "showlegend": False,
        "mode": "markers+lines",
        "x": [at + took for at, took, _ in batches],
        "y": [took for _, took, _ in batches],
        "marker": {"size": 7, "color": color, "symbol": symbol},
        "line": {"color": GREY, "width": 1},
        "text": [f"{records} records" for _, _, records in batches],
        "hovertemplate": "%{y:.2f} s<br>%{text}",
    }
