"""``rheostat fleet``: many jobs at once, in PySpark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rheostat.cli.common import JsonFlag, console, print_json, processes_of, progress_lines
from rheostat.errors import Fault, InputError, tried

if TYPE_CHECKING:
    from rheostat.fleet.train import JobModel


_MOST_PROCESSES = 1024
_SHOWN = 20
_IN_FILES = ("coefficients", "model")

History = Annotated[Path, typer.Option("--history", help="Folder of the history: Parquet, partitioned by job.")]


fleet = typer.Typer(no_args_is_help=True, help="Many jobs at once, in PySpark.")


@fleet.command("collect")
def collect(
    sources: Annotated[list[Path], typer.Argument(help="Journals, or archives (JOURNAL/samples).")],
    history: History,
    job: Annotated[str | None, typer.Option(help="Name of the job, for a single source.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Collect the samples of journals and archives into a history. A damaged source does not stop the others."""
    from rheostat.fleet.history import collect as collected
    from rheostat.fleet.history import source_faults
    from rheostat.report.html import require_folder
    from rheostat.text import several

    faults = source_faults(sources)
    if job is not None and len(sources) > 1:
        faults.append(Fault("job", job, "with a single source", "several sources have names of their own"))
    tried(require_folder, None, faults, "history", history)
    if faults:
        raise InputError(faults)
    with progress_lines("fleet collect") as watch:
        found = collected(sources, history, job, watch)
    screen = console()
    for each in found:
        damage = "" if each.fault is None else f"; {each.fault}"
        rows = several(each.rows, "sample")
        screen.print(f"{each.source}: {rows} of {each.job}{damage}", markup=False, soft_wrap=True)
    if as_json:
        sources_found = [{**each._asdict(), "source": str(each.source)} for each in found]
        print_json({"schema": "rheostat.history/1", "history": str(history), "sources": sources_found})
    return 0 if any(each.rows for each in found) else 1


@fleet.command("train")
def train(
    history: History,
    out: Annotated[Path, typer.Option("--out", help="Folder for models.parquet and models.json.")],
    job: Annotated[list[str] | None, typer.Option("--job", help="Only this job. Repeatable.")] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="An option of the training, as in resamples=100 or seed=7."),
    ] = None,
    jobs: Annotated[str | None, typer.Option(help="Processes; as many as there are cores unless said.")] = None,
    master: Annotated[str | None, typer.Option(help="Spark master. Default: processes on this machine.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Train a model for each job of a history, in one PySpark pipeline. A job with broken data gets its fault."""
    from rheostat.fleet.train import read_request, session, train_fleet, write_models
    from rheostat.text import several

    place, faults = _place(jobs, master, out)
    what = read_request(history, job or (), change or (), faults)
    with progress_lines("fleet train") as watch:
        watch(0, 0, f"{several(len(what.jobs), 'job')} on {place}")
        with session(place) as spark:
            found = train_fleet(spark, what.jobs, what.options)
    write_models(out, found, asdict(what.options))
    _show(found, out)
    if as_json:
        print_json(_result(found, out))
    return 0 if any(each.fault is None for each in found) else 1


def _place(jobs: str | None, master: str | None, out: Path) -> tuple[str, list[Fault]]:
    """The Spark master to train on, and the faults of the options."""
    from rheostat.fleet.train import pyspark_faults
    from rheostat.host.java import bash_faults
    from rheostat.report.html import require_folder

    faults = pyspark_faults() + bash_faults()
    if jobs is not None and master is not None:
        faults.append(Fault("jobs", jobs, "without --master", "the master says where, and with how many processes"))
    processes = tried(processes_of, 1, faults, jobs, _MOST_PROCESSES)
    tried(_choose_java, None, faults)
    tried(require_folder, None, faults, "out", out)
    return master or f"local[{processes}]", faults


def _choose_java() -> None:
    from rheostat.host.java import find_java

    os.environ.setdefault("JAVA_HOME", str(find_java().home))


def _show(found: Sequence[JobModel], out: Path) -> None:
    from rheostat.text import several

    screen = console()
    faulty = [each for each in found if each.fault is not None]
    stable = sum(bool(each.stable) for each in found)
    models = f"{several(len(found) - len(faulty), 'model')}, {stable} of them stable"
    screen.print(f"{several(len(found), 'job')}: {models}, in {out}", markup=False, soft_wrap=True)
    for each in faulty[:_SHOWN]:
        screen.print(f"  {each.job}: {each.fault}", markup=False, soft_wrap=True)
    if len(faulty) > _SHOWN:
        screen.print(f"  and {len(faulty) - _SHOWN} more without a model", markup=False)


def _result(found: Sequence[JobModel], out: Path) -> dict[str, Any]:
    """The result as JSON, without the models, which are in the files."""
    jobs = [{name: value for name, value in each._asdict().items() if name not in _IN_FILES} for each in found]
    return {"schema": "rheostat.training/1", "out": str(out), "jobs": jobs}
