"""``rheostat bench fleet-train``: models for a thousand jobs, in one PySpark pipeline and one after the other."""

from __future__ import annotations

import math
import os
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rheostat.bench.measure import Bench, Metric, Watch, unwatched
from rheostat.bench.stage import load_note
from rheostat.errors import RheostatError
from rheostat.fleet.history import Row, jobs_in, write_rows
from rheostat.fleet.models import JobModel
from rheostat.fleet.train import session, train_fleet, train_job
from rheostat.lab.java import find_java
from rheostat.learn import Sample, TrainingOptions

__all__ = ["apart", "run", "run_jobs", "synthetic_rows"]

_JOBS, _ROWS = 1000, 450
_EVERY_S = 15.0
_WARM_UP = 20
_ROUNDING = 1e-9


def run(watch: Watch = unwatched) -> Bench:
    """Train 1000 jobs of 450 samples both ways, and compare the models."""
    return run_jobs(_JOBS, _ROWS, watch)


def run_jobs(count: int, rows: int, watch: Watch = unwatched) -> Bench:
    """Likewise, with so many jobs of so many samples each."""
    before = os.getloadavg()
    os.environ.setdefault("JAVA_HOME", str(find_java().home))
    with tempfile.TemporaryDirectory(prefix="rheostat-fleet-") as folder:
        history = Path(folder)
        for number in range(count):
            watch(number, count, "writing the history")
            write_rows(history, f"job-{number:04}", "synthetic", synthetic_rows(number, rows))
        return _measured(jobs_in(history), rows, before, watch)


def synthetic_rows(seed: int, count: int) -> list[Row]:
    """A job under a wave of load: executors follow it late, and records are slow beyond what they carry.

    So many executors carry ``each · n^scaling`` records/s; both, the wave and the noise come from the seed.
    """
    chance = random.Random(seed)
    each, scaling = chance.uniform(200, 2000), chance.uniform(0.8, 1.0)
    mean, length, phase = chance.uniform(2, 6), chance.uniform(80, 400), chance.uniform(0, math.tau)
    rows, executors = [], 2
    for number in range(count):
        wave = 1 + 0.5 * math.sin(math.tau * number / length + phase)
        load = mean * each * wave * chance.lognormvariate(0.0, 0.05)
        carried = each * executors**scaling
        late = max(0.0, load / carried - 0.95) * chance.uniform(0.8, 1.2)
        rows.append(Row(Sample(_EVERY_S * number, (load,), executors, min(1.0, late)), min(load, carried)))
        if number % 8 == 7:
            executors = max(1, math.ceil((load / each / 0.9) ** (1 / scaling)) - (number % 24 == 7))
    return rows


def apart(first: Sequence[JobModel], second: Sequence[JobModel]) -> tuple[int, float]:
    """How many jobs have another degree, and the largest difference of a coefficient in the others, as a share.

    The share is of the largest coefficient of the job.
    """
    others, largest = 0, 0.0
    for one, two in zip(first, second, strict=True):
        if one.job != two.job or one.degree != two.degree or one.coefficients is None or two.coefficients is None:
            others += 1
            continue
        most = max(map(abs, one.coefficients)) or 1.0
        difference = max(abs(a - b) for a, b in zip(one.coefficients, two.coefficients, strict=True))
        largest = max(largest, difference / most)
    return others, largest


def _measured(jobs: Mapping[str, Sequence[Path]], rows: int, before: tuple[float, float, float], watch: Watch) -> Bench:
    options, tasks = TrainingOptions(), os.cpu_count() or 1
    for job, files in list(jobs.items())[:_WARM_UP]:
        train_job(job, files, options)
    begun, alone = time.perf_counter(), []
    for number, (job, files) in enumerate(jobs.items()):
        watch(number, len(jobs), "one after the other")
        alone.append(train_job(job, files, options))
    alone_s = time.perf_counter() - begun
    watch(0, 0, f"in one pipeline on local[{tasks}]")
    begun = time.perf_counter()
    with session(f"local[{tasks}]") as spark:
        started_s = time.perf_counter() - begun
        together = train_fleet(spark, jobs, options)
        together_s = time.perf_counter() - begun - started_s
        watch(0, 0, "and once more in the same session")
        again = time.perf_counter()
        train_fleet(spark, jobs, options)
        again_s = time.perf_counter() - again
    _require_models([*alone, *together])
    metrics = [
        *_pace("one_after_the_other", alone_s, len(jobs), rows),
        *_pace("pipeline", together_s, len(jobs), rows),
        *_pace("pipeline_again", again_s, len(jobs), rows),
        Metric("session_start", started_s, "s", 1),
        Metric("speed_up_by_the_pipeline", alone_s / together_s, "times", 1),
        Metric("speed_up_by_the_pipeline_again", alone_s / again_s, "times", 1),
        *_difference(alone, together),
    ]
    return Bench("fleet-train", metrics, (*_notes(len(jobs), rows, options, tasks), load_note(before)))


def _pace(name: str, wall_s: float, jobs: int, rows: int) -> list[Metric]:
    return [
        Metric(f"{name}_wall", wall_s, "s", 1),
        Metric(f"{name}_jobs", jobs / wall_s, "jobs/s", jobs),
        Metric(f"{name}_rows", jobs * rows / wall_s, "rows/s", jobs * rows),
    ]


def _difference(alone: Sequence[JobModel], together: Sequence[JobModel]) -> list[Metric]:
    others, largest = apart(alone, together)
    return [
        Metric("jobs_with_another_degree", float(others), "jobs", len(alone), target=0.0),
        Metric("largest_difference_of_a_coefficient", largest, "of the largest", len(alone), target=_ROUNDING),
    ]


def _require_models(found: Sequence[JobModel]) -> None:
    faults = [f"{each.job}: {each.fault}" for each in found if each.fault is not None]
    if faults:
        message = f"{len(faults)} jobs have no model, the first: {faults[0]}"
        raise RheostatError(message)


def _notes(jobs: int, rows: int, options: TrainingOptions, tasks: int) -> tuple[str, ...]:
    return (
        f"{jobs} synthetic jobs of {rows} samples, a Parquet file each in a temporary folder: a wave of load with "
        "noise, executors that follow it late; seeded.",
        f"Each job: read, train (degrees {options.degrees[0]} to {options.degrees[-1]}), stability at its samples "
        f"(k = {options.resamples}).",
        f"One after the other: in this process, warm. The pipeline: on local[{tasks}] in a fresh session, with the "
        "start of its Python workers. Again: in the same session.",
    )
