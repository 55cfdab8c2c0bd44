"""``rheostat calibrate``: a job file from the journals of real runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rheostat.cli.common import JsonFlag, check_file, number_of, print_json, report, show_rows, unused, write_text
from rheostat.errors import Fault, InputError, attempt

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
    needs_journals = None if given.journals else "with journals"
    needs_recorded = None if recorded else "with --recorded"
    faults = unused(context, {"name": needs_journals, "warm_up": needs_journals, "scale": needs_recorded})
    inputs = _read(given, warm_up, scale, faults + _wrong_combinations(given))
    result = _fit(given, inputs, name)
    if inputs.recordings and inputs.load is not None:
        result["recorded"] = _fit_recorded(inputs.recordings, inputs.load, fit_to)
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


def _wrong_combinations(given: _Given) -> list[Fault]:
    faults = []
    if not (given.journals or given.profiles or given.recorded):
        allowed = "journals, --profiles or --recorded"
        faults.append(Fault("journals", "nothing", allowed, "there is nothing to fit to"))
    for field, value in {"out": given.out, "check": given.check, "report": given.report}.items():
        if value and not given.journals:
            faults.append(Fault(field, str(value), "with journals", "without a journal there is no job file"))
    fitted, checked = ([path.resolve() for path in paths] for paths in (given.journals, given.check))
    faults += [
        Fault("check", str(path), "a journal that is not fitted to", "it shows nothing new")
        for path in set(fitted) & set(checked)
    ]
    for field, paths in (("journals", fitted), ("check", checked)):
        twice = [str(path) for path, times in Counter(paths).items() if times > 1]
        faults += [Fault(field, path, "each journal once", "it is named twice") for path in twice]
    if given.report is not None and not given.check:
        faults.append(Fault("report", str(given.report), "with --check JOURNAL", "there is nothing to show"))
    if (given.recorded is None) != (given.trace is None):
        pair = f"{given.recorded or 'nothing'}, {given.trace or 'nothing'}"
        message = "runs cannot be replayed without their input"
        faults.append(Fault("recorded", pair, "--recorded with --trace", message))
    return faults


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What the files hold; ``load``: the input of the recorded runs."""

    warm_up_s: float
    runs: tuple[RealRun, ...]
    checks: tuple[RealRun, ...]
    profiles: tuple[tuple[int, float], ...]
    recordings: tuple[Recording, ...]
    load: Pieces | None


def _read(given: _Given, warm_up: str, scale: str, faults: list[Fault]) -> _Inputs:
    from rheostat.calibrate.measured import read_run
    from rheostat.calibrate.recorded import read_profiles, read_recordings
    from rheostat.load.curves import Scaled
    from rheostat.load.files import read_trace
    from rheostat.report.html import plots_installed

    warm_up_s = attempt(number_of, 0.0, faults, "warm_up", warm_up, float, 0.0, 1e6)
    factor = attempt(number_of, 1.0, faults, "scale", scale, float, 1e-9, 1e6)
    runs, checks = (
        [attempt(read_run, None, faults, path) for path in paths] for paths in (given.journals, given.check)
    )
    profiles = [] if given.profiles is None else attempt(read_profiles, [], faults, given.profiles)
    recordings = () if given.recorded is None else attempt(read_recordings, (), faults, given.recorded)
    trace = None if given.trace is None else attempt(read_trace, None, faults, given.trace)
    names = [run.name for run in recordings]
    if given.fit_to is not None and given.fit_to not in names and (names or given.recorded is None):
        faults.append(Fault("fit_to", given.fit_to, ", ".join(names) or "with --recorded", "there is no such run"))
    attempt(check_file, None, faults, "out", given.out, ".yaml", ".yml")
    if given.report is not None:
        attempt(plots_installed, None, faults)
        attempt(check_file, None, faults, "report", given.report)
    if faults:
        raise InputError(faults)
    return _Inputs(
        warm_up_s=warm_up_s,
        runs=tuple(run for run in runs if run is not None),
        checks=tuple(run for run in checks if run is not None),
        profiles=tuple(profiles),
        recordings=recordings,
        load=None if trace is None else Scaled(trace, rate_scale=factor).pieces(),
    )


def _fit(given: _Given, inputs: _Inputs, name: str) -> dict[str, Any]:
    """Fit the job and the capacity, if asked for, and show them; the result as JSON."""
    from rheostat.calibrate.fit import calibrate as fit
    from rheostat.calibrate.recorded import fit_capacity
    from rheostat.calibrate.truth import errors_of, replay, window_of

    faults: list[Fault] = []
    for run in inputs.checks:
        attempt(window_of, None, faults, run, inputs.warm_up_s)
    job = attempt(fit, None, faults, inputs.runs, name=name, warm_up_s=inputs.warm_up_s) if inputs.runs else None
    capacity = attempt(fit_capacity, None, faults, inputs.profiles) if inputs.profiles else None
    if faults:
        raise InputError(faults)
    result: dict[str, Any] = {}
    if job is not None:
        replays = [replay(run, job.job, warm_up_s=inputs.warm_up_s) for run in inputs.checks]
        result |= _show_job(given, job, [(each, errors_of(each)) for each in replays])
    if capacity is not None:
        result["profiles"] = _show_capacity(capacity)
    return result


def _show_job(given: _Given, fitted: Calibration, checked: Sequence[tuple[Replay, Errors]]) -> dict[str, Any]:
    from rheostat.calibrate.truth import estimate_rows, write_truth

    show_rows(f"job {fitted.job.name}", estimate_rows(fitted))
    fit = fitted.fit
    report(
        f"{fit.points} of {fitted.batches} batches were warm and undisturbed; condition of the regression "
        f"{fit.condition:.1f}; noise of a warm batch {fit.noise:.1%}"
    )
    for run, errors in checked:
        report(
            f"{run.name}: over {run.seconds:.0f} s the simulator is off by {errors.backlog:.1%} in the backlog (a "
            f"constant mean by {errors.backlog * errors.worse_than_mean:.1%}), {errors.batch:.1%} in the median batch "
            f"time, {errors.lag_p95:.1%} in the lag's 95th percentile"
        )
    if given.out is not None:
        _write(given.out, fitted)
    if given.report is not None:
        write_truth(given.report, fitted, list(checked))
    runs = [{"journal": run.name, "seconds": run.seconds, **errors.to_json()} for run, errors in checked]
    return {**fitted.to_json(), "checked": runs}


def _show_capacity(fit: CapacityFit) -> dict[str, Any]:
    report(
        f"capacity {fit.alpha:.5g} · n^{fit.beta:.3f} records/s; each of {len(fit.points)} numbers of workers "
        f"predicted from the others: off by {fit.mean_error:.1%} on average, {fit.largest_error:.1%} at most"
    )
    points = [{"workers": n, "measured": measured, "predicted": predicted} for n, measured, predicted in fit.points]
    errors = {"mean_error": fit.mean_error, "largest_error": fit.largest_error}
    return {"alpha": fit.alpha, "beta": fit.beta, **errors, "points": points}


def _fit_recorded(recordings: Sequence[Recording], load: Pieces, fit_to: str | None) -> dict[str, Any]:
    from rheostat.calibrate.recorded import fit_recording, measure_errors

    runs = {run.name: run for run in recordings}
    chosen = fit_to or next(iter(runs))
    figures = fit_recording(runs[chosen], load)
    errors = [measure_errors(run, load, figures) for run in runs.values()]
    report(
        f"fitted to {chosen}: {figures.alpha:.5g} records/s a worker, {figures.pause_s:g} s without work at each "
        f"change, a commit every {figures.commit_s:.2g} s"
    )
    for each in errors:
        report(
            f"{each.name}: throughput off by {each.throughput:.1%} (a constant mean by {each.throughput_mean:.1%}), "
            f"backlog by {each.backlog:.1%} (a constant mean by {each.backlog_mean:.1%})"
        )
    return {"fitted_to": chosen, **asdict(figures), "runs": [each.to_json() for each in errors]}


def _write(path: Path, fitted: Calibration) -> None:
    import yaml

    unknown = [f"#   {each.key}: not identified, {each.why}" for each in fitted.estimates if not each.identified]
    head = ["# Made by rheostat calibrate from the journals of real runs.", *unknown]
    text = "\n".join(head) + "\n" + yaml.safe_dump(fitted.values, sort_keys=False)
    write_text(path, text, "the job file")
