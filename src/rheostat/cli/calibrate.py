"""``rheostat calibrate``: a job file from the journals of real runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from rheostat.cli.common import JsonFlag, check_file, console, number_of, print_json, unused, write_text
from rheostat.errors import Fault, InputError, tried

if TYPE_CHECKING:
    from rheostat.calibrate.fit import Calibration
    from rheostat.calibrate.measured import RealRun
    from rheostat.calibrate.recorded import CapacityFit, Recording
    from rheostat.calibrate.truth import Errors, Replay
    from rheostat.load.curves import Pieces


def calibrate(
    context: typer.Context,
    journals: Annotated[list[Path] | None, typer.Argument(help="Journals of real runs of one job.")] = None,
    out: Annotated[Path | None, typer.Option(help="Job file to write (*.yaml).")] = None,
    name: Annotated[str, typer.Option(help="Name of the job.")] = "calibrated",
    check: Annotated[
        list[Path] | None,
        typer.Option(help="Journal to replay and validate against; not fitted. Repeatable."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write the validation as one HTML file.")] = None,
    warm_up: Annotated[str, typer.Option(help="Seconds after a run's first batch to skip.")] = "30",
    profiles: Annotated[
        Path | None, typer.Option(help="CSV of measured throughput: scaleOut,avgThr,isBckPres.")
    ] = None,
    recorded: Annotated[
        Path | None, typer.Option(help="CSV of recorded runs: run,second,throughput,consumer_lag,task_managers.")
    ] = None,
    trace: Annotated[Path | None, typer.Option(help="Trace: the input of the recorded runs.")] = None,
    scale: Annotated[str, typer.Option(help="Factor on the rates of the trace.")] = "1",
    fit_to: Annotated[str | None, typer.Option(help="Recorded run to fit. Default: the first.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Fit the simulator to real runs, and show which parameters they identify.

    Journals give a micro-batch job file. --profiles and --recorded compare the record-at-a-time model with a
    measured cluster.
    """
    given = _Given(tuple(journals or ()), tuple(check or ()), out, report, profiles, recorded, trace, fit_to)
    read = _read(given, warm_up, scale, unused(context, given.places()))
    found = _fit(read, name)
    result: dict[str, Any] = {}
    if found.job is not None:
        result |= _show_job(given, found.job, found.checked)
    if found.capacity is not None:
        result["profiles"] = _show_capacity(found.capacity)
    if read.recordings and read.load is not None:
        result["recorded"] = _show_recorded(read.recordings, read.load, fit_to)
    if as_json:
        print_json({"schema": "rheostat.calibration/1", **result})


@dataclass(frozen=True, slots=True)
class _Given:
    """The files of a command line, and the run to fit."""

    journals: tuple[Path, ...]
    check: tuple[Path, ...]
    out: Path | None
    report: Path | None
    profiles: Path | None
    recorded: Path | None
    trace: Path | None
    fit_to: str | None

    def places(self) -> dict[str, str | None]:
        journals = None if self.journals else "with journals"
        return {"name": journals, "warm_up": journals, "scale": None if self.recorded else "with --recorded"}

    def faults(self) -> list[Fault]:
        found = []
        if not (self.journals or self.profiles or self.recorded):
            found.append(
                Fault("journals", "nothing", "journals, --profiles or --recorded", "there is nothing to fit to")
            )
        journals_only = {"out": self.out, "check": self.check, "report": self.report}
        for field, value in journals_only.items():
            if value and not self.journals:
                found.append(Fault(field, str(value), "with journals", "without a journal there is no job file"))
        twice = {path.resolve() for path in self.journals} & {path.resolve() for path in self.check}
        found += [
            Fault("check", str(path), "a journal that is not fitted to", "it tells nothing new") for path in twice
        ]
        for field, paths in (("journals", self.journals), ("check", self.check)):
            seen = Counter(path.resolve() for path in paths)
            again = [str(path) for path, times in seen.items() if times > 1]
            found += [Fault(field, path, "each journal once", "it is named twice") for path in again]
        if self.report is not None and not self.check:
            found.append(Fault("report", str(self.report), "with --check JOURNAL", "there is nothing to show"))
        if (self.recorded is None) != (self.trace is None):
            given = f"{self.recorded or 'nothing'}, {self.trace or 'nothing'}"
            found.append(
                Fault("recorded", given, "--recorded with --trace", "runs cannot be replayed without their input")
            )
        return found


@dataclass(frozen=True, slots=True)
class _Read:
    warm_up_s: float
    runs: tuple[RealRun, ...]
    checks: tuple[RealRun, ...]
    profiles: tuple[tuple[int, float], ...]
    recordings: tuple[Recording, ...]
    load: Pieces | None


def _read(given: _Given, warm_up: str, scale: str, faults: list[Fault]) -> _Read:
    from rheostat.calibrate.measured import read_run
    from rheostat.calibrate.recorded import read_profiles, read_recordings
    from rheostat.load.curves import Scaled
    from rheostat.load.files import read_trace

    faults += given.faults()
    warm_up_s = tried(number_of, 0.0, faults, "warm_up", warm_up, float, 0.0, 1e6)
    factor = tried(number_of, 1.0, faults, "scale", scale, float, 1e-9, 1e6)
    runs, checks = ([tried(read_run, None, faults, path) for path in paths] for paths in (given.journals, given.check))
    profiles = [] if given.profiles is None else tried(read_profiles, [], faults, given.profiles)
    recordings = () if given.recorded is None else tried(read_recordings, (), faults, given.recorded)
    trace = None if given.trace is None else tried(read_trace, None, faults, given.trace)
    names = [run.name for run in recordings]
    if given.fit_to is not None and given.fit_to not in names and (names or given.recorded is None):
        faults.append(Fault("fit_to", given.fit_to, ", ".join(names) or "with --recorded", "there is no such run"))
    tried(check_file, None, faults, "out", given.out, ".yaml", ".yml")
    tried(_check_report, None, faults, given.report)
    if faults:
        raise InputError(faults)
    load = None if trace is None else Scaled(trace, rate_scale=factor).pieces()
    return _Read(warm_up_s, _known(runs), _known(checks), tuple(profiles), recordings, load)


def _known(runs: Iterable[RealRun | None]) -> tuple[RealRun, ...]:
    return tuple(run for run in runs if run is not None)


def _check_report(report: Path | None) -> None:
    from rheostat.report.html import plots_installed

    if report is not None:
        plots_installed()
        check_file("report", report)


@dataclass(frozen=True, slots=True)
class _Fit:
    """A job with its validation runs, and a capacity; None where not asked for."""

    job: Calibration | None
    checked: list[tuple[Replay, Errors]]
    capacity: CapacityFit | None


def _fit(read: _Read, name: str) -> _Fit:
    from rheostat.calibrate.fit import calibrate as fit
    from rheostat.calibrate.recorded import fit_capacity
    from rheostat.calibrate.truth import errors_of, replay, window_of

    faults: list[Fault] = []
    for run in read.checks:
        tried(window_of, None, faults, run, read.warm_up_s)
    job = tried(fit, None, faults, read.runs, name=name, warm_up_s=read.warm_up_s) if read.runs else None
    capacity = tried(fit_capacity, None, faults, read.profiles) if read.profiles else None
    if faults:
        raise InputError(faults)
    replays = [] if job is None else [replay(run, job.job, warm_up_s=read.warm_up_s) for run in read.checks]
    return _Fit(job, [(each, errors_of(each)) for each in replays], capacity)


def _show_job(given: _Given, fitted: Calibration, checked: list[tuple[Replay, Errors]]) -> dict[str, Any]:
    screen = console()
    screen.print(_table(fitted))
    for line in _lines(fitted, checked):
        screen.print(line, markup=False)
    if given.out is not None:
        _write(given.out, fitted)
    if given.report is not None:
        from rheostat.calibrate.truth import write_truth

        write_truth(given.report, fitted, checked)
    runs = [{"journal": run.name, "seconds": run.seconds, **errors.to_json()} for run, errors in checked]
    return {**fitted.to_json(), "checked": runs}


def _show_capacity(fit: CapacityFit) -> dict[str, Any]:
    console().print(
        f"capacity {fit.alpha:.5g} · n^{fit.beta:.3f} records/s; each of {len(fit.points)} numbers of workers "
        f"predicted from the others: off by {fit.mean_error:.1%} on average, {fit.largest_error:.1%} at most",
        markup=False,
    )
    points = [{"workers": n, "measured": measured, "predicted": predicted} for n, measured, predicted in fit.points]
    errors = {"mean_error": fit.mean_error, "largest_error": fit.largest_error}
    return {"alpha": fit.alpha, "beta": fit.beta, **errors, "points": points}


def _show_recorded(recordings: Sequence[Recording], load: Pieces, fit_to: str | None) -> dict[str, Any]:
    from rheostat.calibrate.recorded import fit_recording, measure_errors

    runs = {run.name: run for run in recordings}
    chosen = fit_to or next(iter(runs))
    figures = fit_recording(runs[chosen], load)
    told = [measure_errors(run, load, figures) for run in runs.values()]
    screen = console()
    screen.print(
        f"fitted to {chosen}: {figures.alpha:.5g} records/s a worker, {figures.pause_s:g} s without work at each "
        f"change, books each {figures.commit_s:.2g} s",
        markup=False,
    )
    for each in told:
        screen.print(
            f"{each.name}: throughput off by {each.throughput:.1%} (a constant mean by {each.throughput_mean:.1%}), "
            f"backlog by {each.backlog:.1%} (a constant mean by {each.backlog_mean:.1%})",
            markup=False,
        )
    runs_told = [each.to_json() for each in told]
    return {"fitted_to": chosen, **asdict(figures), "runs": runs_told}


def _table(fitted: Calibration) -> Table:
    from rheostat.calibrate.truth import estimate_rows

    header, *rows = estimate_rows(fitted)
    table = Table(*header, title=f"job {fitted.job.name}")
    for row in rows:
        table.add_row(*row)
    return table


def _lines(fitted: Calibration, checked: list[tuple[Replay, Errors]]) -> list[str]:
    fit = fitted.fit
    lines = [
        f"{fit.points} of {fitted.batches} batches were warm and undisturbed; condition of the regression "
        f"{fit.condition:.1f}; noise of a warm batch {fit.noise:.1%}"
    ]
    for run, errors in checked:
        lines.append(
            f"{run.name}: over {run.seconds:.0f} s the simulator is off by {errors.backlog:.1%} in the backlog (a "
            f"constant mean by {errors.backlog * errors.worse_than_mean:.1%}), {errors.batch:.1%} in the median batch "
            f"time, {errors.lag_p95:.1%} in the lag's 95th percentile"
        )
    return lines


def _write(path: Path, fitted: Calibration) -> None:
    import yaml

    told = [f"#   {each.key}: not identified, {each.why}" for each in fitted.estimates if not each.identified]
    head = ["# Made by rheostat calibrate from the journals of real runs.", *told]
    text = "\n".join(head) + "\n" + yaml.safe_dump(fitted.values, sort_keys=False)
    write_text(path, text, "the job file")
