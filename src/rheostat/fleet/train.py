"""Training of many jobs at once: one PySpark pipeline over their history, grouped by job.

The history is partitioned by job, so no sample is shuffled: a row of the pipeline is a job with the names of its
files, and a task of ``mapInArrow`` reads and trains one job after the other, with
:func:`rheostat.learn.slow_records.train`. The options and seed are those of a single training, so the model is the
same. A fault in a job's data is reported in its row and does not stop other jobs. Executors must be able to read the
files.

The capacity of one executor is estimated as in Algorithm 1 of the paper, corrected to use the smaller of arrival and
processed rate: the mean over the samples that violate the objective::

    w_max = mean(min(Σ workload, processed) ÷ executors)        where slow ≥ objective and processed is known
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from rheostat.config.faults import describe, faults_of, keys_of
from rheostat.config.loading import read_pairs
from rheostat.errors import Fault, InputError, attempt, did_you_mean, to_install
from rheostat.files import replace_text
from rheostat.fleet.history import Row, jobs_in, read_rows
from rheostat.sample_store import read_table, write_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from rheostat.learn.slow_records import SlowModel, TrainingOptions


_TASKS_A_SLOT = 4
"""Jobs differ in size; several tasks for each slot balance them."""


def train_job(job: str, files: Sequence[Path], options: TrainingOptions) -> JobModel:
    """Read and train one job. Never raises: errors are in the result."""
    try:
        return _train(job, read_rows(files), options)
    except InputError as error:
        return JobModel(job, fault=str(error))
    except Exception as error:  # one job must not end the training of all others
        return JobModel(job, fault=f"{type(error).__name__}: {error}")


def train_fleet(spark: SparkSession, jobs: Mapping[str, Sequence[Path]], options: TrainingOptions) -> list[JobModel]:
    """Train every job, on the slots of a Spark session whose executors have Rheostat installed, and see the files.

    ``jobs``: name → files, see :func:`rheostat.fleet.history.jobs_in`. Returns a model or a fault for each, by name.
    """
    rows = [(job, [str(path) for path in files]) for job, files in sorted(jobs.items())]
    tasks = min(len(rows), _TASKS_A_SLOT * spark.sparkContext.defaultParallelism)
    listed = spark.createDataFrame(rows, "job string, files array<string>").repartition(tasks)
    models = listed.mapInArrow(_in_task(options), COLUMNS).toArrow()
    return sorted(JobModel(**row) for row in models.to_pylist())


def capacity_of(rows: Iterable[Row], objective: float) -> float | None:
    """Records/s that one executor processes: the mean over the violations; None without violations.

    >>> from rheostat.learn.slow_records import Sample
    >>> slow = [Row(Sample(0.0, (900.0,), 2, 0.5), 800.0), Row(Sample(15.0, (700.0,), 2, 0.5), 800.0)]
    >>> capacity_of([*slow, Row(Sample(30.0, (100.0,), 2, 0.0), 100.0), Row(Sample(45.0, (900.0,), 2, 0.5), None)], 0.1)
    375.0
    """
    rates = [
        min(sum(sample.workload), processed) / sample.executors
        for sample, processed in rows
        if sample.slow >= objective and processed is not None and math.isfinite(processed) and sample.executors > 0
    ]
    positive = [rate for rate in rates if rate > 0]
    return fmean(positive) if positive else None


@contextmanager
def session(master: str) -> Iterator[SparkSession]:
    """A Spark session without web UI and progress bar, stopped on exit."""
    from rheostat.pipelines.running import open_session

    conf = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    if master.startswith("local"):
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    with open_session("rheostat fleet", master, conf) as spark:
        spark.sparkContext.setLogLevel("ERROR")
        yield spark


def _in_task(options: TrainingOptions) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield batch_of([train_job(row["job"], [Path(path) for path in row["files"]], options)])

    return run


def _train(job: str, rows: Sequence[Row], options: TrainingOptions) -> JobModel:
    from rheostat.learn.slow_records import stability, train

    samples = [row.sample for row in rows]
    w_max = capacity_of(rows, options.objective)
    trained = train(samples, w_max, options)
    points = sorted({(sample.workload, sample.executors) for sample in samples})
    spread = stability(samples, trained, points, options)
    error = dict(trained.cv_errors)[trained.degree]
    return JobModel(
        job=job,
        rows=trained.rows,
        outliers=trained.outliers,
        degree=trained.degree,
        cv_error=error if math.isfinite(error) else None,
        spread=spread if math.isfinite(spread) else None,
        stable=spread <= options.stability_limit,
        w_max=w_max,
        coefficients=list(trained.model.polynomial.coefficients),
        model=_adapter().dump_json(trained.model).decode(),
    )


# Result files


SCHEMA = "rheostat.models/1"

COLUMNS = (
    "job string, fault string, rows bigint, outliers bigint, degree bigint, cv_error double, spread double, "
    "stable boolean, w_max double, coefficients array<double>, model string"
)
"""The fields of :class:`JobModel` as Spark declares columns."""


class JobModel(NamedTuple):
    """The model of a job, or a fault.

    Attributes:
        fault: why there is no model; None if there is one.
        rows: distinct samples.
        outliers: number of excluded samples.
        cv_error: root mean square error of blocked cross-validation, a share of slow records.
        spread: mean standard deviation of refits at the samples (Algorithm 4), a share of slow records.
        stable: whether the spread is within the limit.
        w_max: records/s that one executor processes; None if unknown.
        degree, coefficients: of the polynomial.
        model: the :class:`~rheostat.learn.slow_records.SlowModel` as JSON.
    """

    job: str
    fault: str | None = None
    rows: int | None = None
    outliers: int | None = None
    degree: int | None = None
    cv_error: float | None = None
    spread: float | None = None
    stable: bool | None = None
    w_max: float | None = None
    coefficients: list[float] | None = None
    model: str | None = None


def batch_of(models: Sequence[JobModel]) -> pa.RecordBatch:
    """One row for each job, with the columns :data:`COLUMNS`."""
    import pyarrow as pa

    kinds = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "array<double>": pa.list_(pa.float64()),
    }
    columns = [column.split(" ") for column in COLUMNS.split(", ")]
    schema = pa.schema([(name, kinds[kind]) for name, kind in columns])
    return pa.RecordBatch.from_pylist([each._asdict() for each in models], schema)


def write_models(out: Path, models: Sequence[JobModel], options: Mapping[str, Any]) -> None:
    """Write ``models.parquet`` and ``models.json``, each atomically. ``options``: of the training, as JSON."""
    import pyarrow as pa

    ordered = sorted(models)
    write_table(out / "models.parquet", pa.Table.from_batches([batch_of(ordered)]))
    jobs = [{**each._asdict(), "model": each.model and json.loads(each.model)} for each in ordered]
    replace_text(out / "models.json", json.dumps({"schema": SCHEMA, "options": options, "jobs": jobs}, allow_nan=False))


def read_models(out: Path) -> dict[str, SlowModel]:
    """The models of all jobs that have one. Raises InputError if there are none, or they are of another version."""
    path = out / "models.parquet"
    table = read_table(path)
    try:
        rows = table.select(["job", "model"]).to_pylist()
        return {row["job"]: _adapter().validate_json(row["model"]) for row in rows if row["model"] is not None}
    except (KeyError, ValidationError) as error:
        allowed = f"models that this version has trained ({SCHEMA})"
        reason = describe(error) if isinstance(error, ValidationError) else str(error)
        raise InputError([Fault("models", str(path), allowed, f"it cannot be read: {reason}")]) from error


@cache
def _adapter() -> TypeAdapter[SlowModel]:
    from rheostat.learn.slow_records import SlowModel

    return TypeAdapter(SlowModel)


# The request, checked before anything starts


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """Jobs to train, as name → files of the history, and the options for all."""

    jobs: Mapping[str, Sequence[Path]]
    options: TrainingOptions


def read_request(history: Path, only: Sequence[str], changes: Sequence[str], faults: list[Fault]) -> TrainingRequest:
    """Check a training request: jobs by name (none: all), and options of the training as KEY=VALUE.

    Raises:
        InputError: the faults that are given, and all others.
    """
    faults = list(faults)
    options = attempt(training_options, None, faults, changes)
    jobs: dict[str, list[Path]] = attempt(jobs_in, {}, faults, history)
    faults += [_unknown("job", name, tuple(jobs)) for name in only if jobs and name not in jobs]
    if faults or options is None:
        raise InputError(faults)
    return TrainingRequest({name: jobs[name] for name in only} or jobs, options)


def training_options(changes: Sequence[str]) -> TrainingOptions:
    """Parse options of the training from KEY=VALUE. Raises InputError with all faults.

    >>> training_options(["resamples=100", "degrees=[1, 2]"]).degrees
    (1, 2)
    """
    from rheostat.learn.slow_records import TrainingOptions

    faults: list[Fault] = []
    values = dict(read_pairs(changes, faults, "option"))
    known = tuple(keys_of(TrainingOptions))
    faults += [_unknown(name, name, known) for name in values if name not in known]
    options = None
    try:
        options = TypeAdapter(TrainingOptions).validate_python(values)
    except ValidationError as error:
        faults += faults_of(error, TrainingOptions)
    except InputError as error:
        faults += error.faults
    if faults or options is None:
        raise InputError(faults)
    return options


def pyspark_faults() -> list[Fault]:
    """A fault for each of PySpark and pyarrow that is not installed."""
    return [
        Fault("python", f"no {name}", f"with {name}", f"the pipeline needs it; {to_install('spark')}")
        for name in ("pyspark", "pyarrow")
        if importlib.util.find_spec(name) is None
    ]


def _unknown(field: str, name: str, known: Sequence[str]) -> Fault:
    shown = ", ".join(known[:10]) + (f" and {len(known) - 10} more" if len(known) > 10 else "")
    kind = "job" if field == "job" else "option"
    return Fault(field, repr(name), shown, f"there is no such {kind}{did_you_mean(name, known)}")
