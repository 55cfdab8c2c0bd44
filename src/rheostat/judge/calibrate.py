"""From the journals of real runs to a job file: what of it the runs tell, with intervals, and what they do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from rheostat.errors import Fault, InputError
from rheostat.judge.estimates import Estimate, median_of, not_told, told
from rheostat.judge.executor_costs import SETTLED, executor_costs, reload_cost
from rheostat.judge.fit import Fit, Point, fit_batches
from rheostat.judge.measured import RealBatch, RealRun
from rheostat.model import Objective
from rheostat.plan.words import several
from rheostat.sim.jobfile import JobFile
from rheostat.sim.loading import job_of

__all__ = ["WARM_UP_S", "Calibration", "calibrate"]

WARM_UP_S = 30.0
"""Batches that begin sooner after the first one of a run are left out: the driver is compiling its own code."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A job file, and how sure its figures are.

    Attributes:
        values: the file, as YAML has it.
        batches: all that the runs told of; ``fit.points`` of them were warm and undisturbed.
    """

    job: JobFile
    values: dict[str, Any]
    estimates: tuple[Estimate, ...]
    fit: Fit
    batches: int

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "schema": "rheostat.calibration/1",
            "job": self.values,
            "estimates": [each.to_json() for each in self.estimates],
            "batches": self.batches,
            "warm_batches": self.fit.points,
            "condition": self.fit.condition,
            "noise_cv": self.fit.noise,
        }


def calibrate(runs: Sequence[RealRun], *, name: str = "calibrated", warm_up_s: float = WARM_UP_S) -> Calibration:
    """Fit a micro-batch job to runs of one pipeline.

    Args:
        runs: they must agree in trigger, partitions, batch cap and cores of an executor.
        name: of the job.
        warm_up_s: see :data:`WARM_UP_S`.

    Raises:
        InputError: they do not agree, or there are fewer than 8 warm batches.
    """
    _one_job(runs)
    pairs = [(run, batch) for run in runs for batch in run.batches if batch.start >= _warm_from(run, warm_up_s)]
    warm = [(run, batch) for run, batch in pairs if _undisturbed(batch)]
    fit = fit_batches([Point.of(run, batch) for run, batch in warm])
    if fit is None:
        message = f"only {several(len(warm), 'batch was', 'batches were')} warm and undisturbed"
        raise InputError([Fault("journal", f"{len(runs)} journals", "at least 8 warm batches", message)])
    estimates = [*_batch_costs(fit), _fetch(runs[0], fit), *_driver(warm), *executor_costs(runs, pairs, fit)]
    estimates += [reload_cost(pairs, fit), _noise(fit)]
    values = _values(runs[0], name, {each.key: each.value for each in estimates})
    return Calibration(job_of(values), values, tuple(estimates), fit, sum(len(run.batches) for run in runs))


# ------------------------------------------------------------------------------------------------ what is used


def _one_job(runs: Sequence[RealRun]) -> None:
    if not runs:
        raise InputError([Fault("journal", "none", "at least one journal", "there is nothing to fit to")])
    faults = []
    for what in ("kind", "longest_wait_s", "trigger_s", "partitions", "batch_cap", "cores"):
        found = {str(getattr(run.setup, what)) for run in runs}
        if len(found) > 1:
            faults.append(Fault("journal", ", ".join(sorted(found)), f"one value of {what}", "the runs differ in it"))
    if faults:
        raise InputError(faults)


def _warm_from(run: RealRun, warm_up_s: float) -> float:
    return run.batches[0].end + warm_up_s


def _undisturbed(batch: RealBatch) -> bool:
    steady = not batch.joined and not batch.cold and not batch.shrunk and batch.starting_s == 0
    return batch.executors is not None and batch.executors > 0 and batch.age >= SETTLED and steady


# ---------------------------------------------------------------------------------------------- warm batches

_COSTS = (
    ("record", "stages.0.cost_ms", "ms", 1000.0),
    ("task", "stages.0.task_ms", "ms", 1000.0),
    ("fixed", "stages.1.task_ms", "ms", 1000.0),
    ("serial", "stages.1.cost_ms", "ms", 1000.0),
)


def _batch_costs(fit: Fit) -> list[Estimate]:
    found = []
    for term, key, unit, scale in _COSTS:
        if term in fit.values:
            low, high = fit.intervals[term]
            why, interval = "regression over the warm batches", (scale * low, scale * high)
            found.append(told(key, scale * fit.values[term], unit, fit.points, why, interval=interval))
        else:
            found.append(not_told(key, 0.0, unit, fit.points, fit.given_up[term]))
    return found


def _fetch(run: RealRun, fit: Fit) -> Estimate:
    """The longest wait for the next record is a setting of the source; the batches tell whether tasks wait."""
    key, longest_s = "stages.0.fetch_wait_s", run.setup.longest_wait_s
    if "fetch" not in fit.values:
        return not_told(key, 0.0, "s", fit.points, fit.given_up["fetch"])
    low, high = fit.intervals["fetch"]
    why = "fetch.max.wait.ms of the source; the batches do not speak against it"
    return told(key, longest_s, "s", fit.points, why, interval=(longest_s * low, longest_s * high))


def _driver(warm: Sequence[tuple[RealRun, RealBatch]]) -> list[Estimate]:
    why = "median of the warm batches"
    planning = [batch.planning_s for _, batch in warm]
    rest = [batch.rest_s for _, batch in warm]
    return [
        median_of("driver.planning_s", planning, "s", why),
        median_of("driver.commit_s", rest, "s", f"{why}: what is neither planning nor jobs"),
    ]


def _noise(fit: Fit) -> Estimate:
    why = "median absolute residual of the warm batches × 1.4826"
    return told("batch_noise_cv", fit.noise, "", fit.points, why)


# ------------------------------------------------------------------------------------------------------ the file


def _values(run: RealRun, name: str, found: dict[str, float]) -> dict[str, Any]:
    """The job file; what the journal tells as it is, and what was fitted."""
    setup, settings = run.setup, run.setup.settings
    bounds = settings.get("executors") or [1, max(1, max(len(run.executors), 1))]
    used = {key: float(f"{value:.6g}") for key, value in found.items()}
    period = max(setup.trigger_s, Objective.parse(settings["objective"]).lag_s / 2)
    return {
        "schema": "rheostat.job/1",
        "name": name,
        "model": "micro-batch",
        "objective": settings["objective"],
        "executors": list(bounds),
        "decide_every_s": min(float(settings["sample_s"]), ceil(period)),
        "trigger_s": setup.trigger_s,
        "partitions": setup.partitions,
        "batch_cap": setup.batch_cap,
        "stages": [
            {
                "name": "read",
                "cost_ms": used["stages.0.cost_ms"],
                "task_ms": used["stages.0.task_ms"],
                "fetch_wait_s": used["stages.0.fetch_wait_s"],
            },
            {
                "name": "rest",
                "tasks": 1,
                "cost_ms": used["stages.1.cost_ms"],
                "task_ms": used["stages.1.task_ms"],
                "stateful": True,
            },
        ],
        "driver": {"planning_s": used["driver.planning_s"], "commit_s": used["driver.commit_s"]},
        "executor": {
            "cores": setup.cores,
            "start_up": {
                "median_s": used["executor.start_up.median_s"],
                "p95_s": used["executor.start_up.p95_s"],
            },
            "crowding": used["executor.crowding"],
            "slows_neighbours": used["executor.slows_neighbours"],
            "cold_task_s": used["executor.cold_task_s"],
        },
        "state": {"reload_s": used["state.reload_s"]},
        "batch_noise_cv": min(2.0, used["batch_noise_cv"]),
    }
