"""``rheostat fleet``: many jobs at once, in PySpark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rheostat.cli.common import JsonFlag, print_json, processes_of, progress_lines, report
from rheostat.errors import Fault, InputError, attempt
from rheostat.text import several

if TYPE_CHECKING:
    from rheostat.fleet.train import JobModel


_MOST_PROCESSES = 1024
_SHOWN = 20
_IN_FILES = ("coefficients", "model")
"""Fields of a model that only the files have."""

History = Annotated[Path, typer.Option("--history", help="Folder of the history: Parquet, partitioned by job.")]


fleet = typer.Typer(no_args_is_help=True, help="Many jobs at once, in PySpark.")


@fleet.command("collect")
def collect(
    sources: Annotated[list[Path], typer.Argument(help="Journals, or sample stores (JOURNAL/samples).")],
    history: History,
    job: Annotated[str | None, typer.Option(help="Name of the job, for a single source.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Collect the samples of journals and sample stores into a history. A damaged source does not stop the others."""
    from rheostat.fleet import history as histories
    from rheostat.report.html import require_folder

    faults = histories.source_faults(sources)
    if job is not None and len(sources) > 1:
        faults.append(Fault("job", job, "with a single source", "several sources have names of their own"))
    attempt(require_folder, None, faults, "history", history)
    if faults:
        raise InputError(faults)
    with progress_lines("fleet collect") as watch:
        results = histories.collect(sources, history, job, watch)
    for each in results:
        damage = "" if each.fault is None else f"; {each.fault}"
        report(f"{each.source}: {several(each.rows, 'sample')} of {each.job}{damage}")
    if as_json:
        rows = [{**each._asdict(), "source": str(each.source)} for each in results]
        print_json({"schema": "rheostat.history/1", "history": str(history), "sources": rows})
    return 0 if any(each.rows for each in results) else 1


@fleet.command("train")
def train(
    history: History,
    out: Annotated[Path, typer.Option("--out", help="Folder for models.parquet and models.json.")],
    job: Annotated[list[str] | None, typer.Option("--job", help="Only this job. Repeatable.")] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="An option of the training, as in resamples=100 or seed=7."),
    ] = None,
    jobs: Annotated[str | None, typer.Option(help="Number of processes. Default: number of cores.")] = None,
    master: Annotated[str | None, typer.Option(help="Spark master. Default: processes on this machine.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Train a model for each job of a history, in one PySpark pipeline. A job with broken data gets its fault."""
    from rheostat.fleet.train import read_request, session, train_fleet, write_models

    place, faults = _find_master(jobs, master, out)
    request = read_request(history, job or (), change or (), faults)
    with progress_lines("fleet train") as watch:
        watch(0, 0, f"{several(len(request.jobs), 'job')} on {place}")
        with session(place) as spark:
            models = train_fleet(spark, request.jobs, request.options)
    write_models(out, models, asdict(request.options))
    _show(models, out)
    if as_json:
        rows = [{name: value for name, value in each._asdict().items() if name not in _IN_FILES} for each in models]
        print_json({"schema": "rheostat.training/1", "out": str(out), "jobs": rows})
    return 0 if any(each.fault is None for each in models) else 1


def _find_master(jobs: str | None, master: str | None, out: Path) -> tuple[str, list[Fault]]:
    """The Spark master to train on, and the faults of the options."""
    from rheostat.fleet.train import pyspark_faults
    from rheostat.host.java import bash_faults, find_java
    from rheostat.report.html import require_folder

    faults = pyspark_faults() + bash_faults()
    if jobs is not None and master is not None:
        faults.append(Fault("jobs", jobs, "without --master", "the master says where, and with how many processes"))
    processes = attempt(processes_of, 1, faults, jobs, _MOST_PROCESSES)
    java = attempt(find_java, None, faults)
    if java is not None:
        os.environ.setdefault("JAVA_HOME", str(java.home))
    attempt(require_folder, None, faults, "out", out)
    return master or f"local[{processes}]", faults


def _show(models: Sequence[JobModel], out: Path) -> None:
    faulty = [each for each in models if each.fault is not None]
    stable = sum(bool(each.stable) for each in models)
    trained = f"{several(len(models) - len(faulty), 'model')}, {stable} of them stable"
    report(f"{several(len(models), 'job')}: {trained}, in {out}")
    report(*(f"  {each.job}: {each.fault}" for each in faulty[:_SHOWN]))
    if len(faulty) > _SHOWN:
        report(f"  and {len(faulty) - _SHOWN} more without a model")
