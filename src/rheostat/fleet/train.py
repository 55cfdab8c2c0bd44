"""Training for many jobs at once: one PySpark pipeline over their history, grouped by job.

The history is partitioned by job, so no sample has to move: a row of the pipeline is a job with the names of its
files, and ``mapInArrow`` reads and trains one job after the other where its task runs. Each is trained by
:func:`rheostat.learn.train` with the options and the seed that a process of its own would take, and gives the same
model. Whatever is wrong with a job's data is told in its row, and stops no other job. The files must be readable where
the tasks run.

Of a job's samples also the capacity of one executor is learned, as the document's Algorithm 1 does (corrected: of
arrival and processed rate the smaller): the mean over the samples that violate the objective::

    w_max = mean(min(Σ workload, processed) ÷ executors)        where slow ≥ objective and processed is known
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from rheostat.errors import InputError
from rheostat.fleet.history import Row, read_rows
from rheostat.fleet.models import COLUMNS, JobModel, batch_of, text_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from rheostat.learn import TrainingOptions

__all__ = ["capacity_of", "session", "train_fleet", "train_job"]

_TASKS_A_SLOT = 4
"""Jobs differ in size: with several tasks for each slot no slot waits long for the last one."""


def train_job(job: str, files: Sequence[Path], options: TrainingOptions) -> JobModel:
    """Read and train one job. Never raises: what is wrong is told in the result.

    Args:
        job: its name.
        files: of its history.
        options: of the training.
    """
    try:
        return _trained(job, read_rows(files), options)
    except InputError as error:
        return JobModel(job, fault=str(error))
    except Exception as error:  # one job must not end the training of all others
        return JobModel(job, fault=f"{type(error).__name__}: {error}")


def train_fleet(spark: SparkSession, jobs: Mapping[str, Sequence[Path]], options: TrainingOptions) -> list[JobModel]:
    """Train every job, on the slots of a Spark session.

    Args:
        spark: any session whose executors have Rheostat installed, and see the files.
        jobs: name → files, see :func:`rheostat.fleet.history.jobs_in`.
        options: of the training, the same for all.

    Returns:
        A model or a fault for each job, by name.
    """
    rows = [(job, [str(path) for path in files]) for job, files in sorted(jobs.items())]
    tasks = min(len(rows), _TASKS_A_SLOT * spark.sparkContext.defaultParallelism)
    listed = spark.createDataFrame(rows, "job string, files array<string>").repartition(tasks)
    found = listed.mapInArrow(_in_task(options), COLUMNS).toArrow()
    return sorted(JobModel(**row) for row in found.to_pylist())


def capacity_of(rows: Iterable[Row], objective: float) -> float | None:
    """Records/s that one executor carries: the mean over the violations; None where none shows it.

    >>> from rheostat.learn import Sample
    >>> slow = [Row(Sample(0.0, (900.0,), 2, 0.5), 800.0), Row(Sample(15.0, (700.0,), 2, 0.5), 800.0)]
    >>> capacity_of([*slow, Row(Sample(30.0, (100.0,), 2, 0.0), 100.0), Row(Sample(45.0, (900.0,), 2, 0.5), None)], 0.1)
    375.0
    """
    shown = [
        min(sum(sample.workload), processed) / sample.executors
        for sample, processed in rows
        if sample.slow >= objective and processed is not None and math.isfinite(processed) and sample.executors > 0
    ]
    positive = [rate for rate in shown if rate > 0]
    return fmean(positive) if positive else None


@contextmanager
def session(master: str) -> Iterator[SparkSession]:
    """A Spark session for a pipeline, without web page and progress bar; ended on leaving."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("rheostat fleet").master(master)
    conf = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    if master.startswith("local"):
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        spark.sparkContext.setLogLevel("ERROR")
        yield spark
    finally:
        spark.stop()


def _in_task(options: TrainingOptions) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does with its jobs."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield batch_of([train_job(row["job"], [Path(path) for path in row["files"]], options)])

    return run


def _trained(job: str, rows: Sequence[Row], options: TrainingOptions) -> JobModel:
    from rheostat.learn import stability, train

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
        model=text_of(trained.model),
    )
