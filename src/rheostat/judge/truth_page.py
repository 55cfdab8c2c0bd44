"""The truth report: a real run and its replay in the simulator, laid over each other, in one HTML file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rheostat.judge.calibrate import Calibration
from rheostat.judge.truth import Errors, Replay
from rheostat.report.parts import (
    BLUE,
    GREY,
    RED,
    Figure,
    frame,
    heading,
    line,
    note_list,
    table,
    write_page,
)

__all__ = ["estimate_rows", "write_truth"]

_TITLES = ("Backlog, records", "Lag, s", "Batch time, s", "Executors")

_NOTES = (
    "Measured: the journal of a real run that the job file was not fitted to. Simulated: the production simulator with "
    "that run's load (its latest offsets), its executors at the start, and its decisions at their times. Start-up "
    "times, cold executors and batch times are the simulator's own; the noise of batch times is left out.",
    "Both are looked at at the same times, and the same analysis makes backlog and lag of what is seen.",
    "Backlog: Σ|measured − simulated| ÷ Σ measured over the looks. A constant mean and zero are held against the "
    "measured backlog in the same way: a simulator that is no better than they are tells nothing.",
)


def write_truth(
    path: Path, fitted: Calibration, runs: Sequence[tuple[Replay, Errors]], notes: Iterable[str] = ()
) -> Path:
    """Write the report and return its path.

    Raises:
        InputError: plotly is not installed, or the file cannot be written.
    """
    parts: list[str] = []
    for number, (run, errors) in enumerate(runs):
        parts += [
            heading(f"{run.name}: {run.seconds:.0f} s"),
            _plots(run, with_script=number == 0),
            table(_rows(errors)),
        ]
    parts += [
        heading("What the job file holds, and how sure it is"),
        table(estimate_rows(fitted)),
        heading("How to read this"),
        note_list([*_NOTES, *notes]),
    ]
    return write_page(path, frame(f"How true the simulator is: {fitted.job.name}", _verdict(runs), parts))


def estimate_rows(fitted: Calibration) -> list[list[str]]:
    """The figures of a job file as a table, header first."""
    rows = [["figure", "value", "95 % interval", "n", "from"]]
    for each in fitted.estimates:
        interval = "" if each.interval is None else f"{each.interval[0]:.4g} … {each.interval[1]:.4g}"
        source = each.why if each.told else f"not identified, left at {each.value:g}: {each.why}"
        rows.append([each.key, f"{each.value:.4g} {each.unit}".strip(), interval, str(each.n), source])
    return rows


def _verdict(runs: Sequence[tuple[Replay, Errors]]) -> str:
    said = [
        f"{run.name}: backlog off by {errors.backlog:.1%}, median batch time by {errors.batch:.1%}, lag p95 by "
        f"{errors.lag_p95:.1%}"
        for run, errors in runs
    ]
    return "; ".join(said) + "."


def _rows(errors: Errors) -> list[list[str]]:
    return [
        ["figure", "value", "wanted"],
        ["backlog, Σ|measured − simulated| ÷ Σ measured", f"{errors.backlog:.3f}", "≤ 0.15"],
        ["median batch time, |simulated ÷ measured − 1|", f"{errors.batch:.1%}", "≤ 15 %"],
        ["lag p95, |simulated ÷ measured − 1|", f"{errors.lag_p95:.1%}", "≤ 20 %"],
        ["error of a constant mean ÷ ours", f"{errors.worse_than_mean:.1f}", "≥ 3"],
        ["error of zero ÷ ours", f"{errors.worse_than_zero:.1f}", "≥ 3"],
    ]


def _plots(run: Replay, *, with_script: bool) -> str:
    figure = Figure(_TITLES, "seconds since the start of the replay", height=1050)
    for name, moments, color, dash in (
        ("measured", run.measured, BLUE, "solid"),
        ("simulated", run.simulated, RED, "dot"),
    ):
        at = [each.at for each in moments]
        style: dict[str, Any] = {"dash": dash, "legendgroup": name}
        figure.add(1, line(name, at, [each.backlog for each in moments], color, **style))
        figure.add(2, line(name, at, [each.lag_s for each in moments], color, showlegend=False, **style))
        steps = [each.executors for each in moments]
        figure.add(4, line(name, at, steps, color, shape="hv", showlegend=False, **style))
    figure.limit(2, run.objective_s)
    figure.add(3, _marks("measured", run.batches, BLUE, "circle"))
    figure.add(3, _marks("simulated", run.sim_batches, RED, "x"))
    return figure.html(with_script=with_script)


def _marks(name: str, batches: Sequence[tuple[float, float, int]], color: str, symbol: str) -> dict[str, Any]:
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
