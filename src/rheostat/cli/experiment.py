"""``rheostat experiment``: the experiments of the documents again, their figures beside ours."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rheostat.cli.demo import interruptible
from rheostat.cli.judging import Jobs, Out, check_out, processes_of, show_rows
from rheostat.cli.output import JsonFlag, console, print_json, to_json
from rheostat.cli.progress import progress_lines
from rheostat.errors import Fault, InputError, tried

if TYPE_CHECKING:
    from rheostat.demo.plan import DemoPlan
    from rheostat.judge.experiments.results import Experiment

__all__ = ["NAMES", "register"]

NAMES = ("s1",)
"""Of the experiments."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("experiment")(experiment)


def experiment(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(NAMES)}.")],
    part: Annotated[
        str | None, typer.Option(help="Sections of the document, comma separated; all unless said.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="s1: the load of 5.4 (CSV: second,events_per_second); else a stand-in.")
    ] = None,
    seed: Annotated[str, typer.Option(help="Of all that is random, comma separated; --live: the first.")] = "1,2,3,4,5",
    jobs: Jobs = None,
    live: Annotated[
        bool, typer.Option("--live", help="s1: a shortened version on a real local Kafka and Spark, some 25 minutes.")
    ] = False,
    out: Out = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a document's experiments on a simulated job. A statement that does not hold is no failure of the command."""
    from rheostat.judge.experiments.s1 import PARTS
    from rheostat.judge.experiments.s1 import experiment as run
    from rheostat.judge.request import seeds_of

    faults: list[Fault] = []
    if name not in NAMES:
        faults.append(_unknown("name", name, NAMES))
    parts = list(PARTS) if part is None else [piece.strip() for piece in part.split(",") if piece.strip()]
    faults += [_unknown("part", each, PARTS) for each in parts if each not in PARTS]
    seeds: list[int] = tried(seeds_of, [1], faults, seed)
    processes = tried(processes_of, 1, faults, jobs)
    if not parts:
        faults.append(Fault("part", repr(part), " | ".join(PARTS), "no section is named"))
    tried(check_out, None, faults, out)
    if trace is not None:
        tried(_readable, None, faults, trace)
    if live:
        given = {"part": part, "trace": trace}
        faults += [_not_live(field, str(value)) for field, value in given.items() if value is not None]
    if faults:
        raise InputError(faults)
    if live:
        _finish(_live(seeds[0], out), out, as_json=as_json)
        return
    with progress_lines(f"experiment {name}") as watch:
        found = run(parts, seeds, trace, watch, processes)
    _finish(found, out, as_json=as_json)


def _live(seed: int, out: Path | None) -> Experiment:
    """On a real cluster; the journals stay in ``out``, if there is one."""
    import tempfile

    from rheostat.demo.s1 import experiment as run
    from rheostat.demo.table import LiveTable

    def table(plan: DemoPlan, folder: Path) -> LiveTable:
        return LiveTable(plan, folder, console())

    with interruptible(), tempfile.TemporaryDirectory(prefix="rheostat-s1-") as scratch:
        return run(seed, Path(scratch) if out is None else out.absolute(), table)


def _not_live(field: str, given: str) -> Fault:
    return Fault(field, given, "nothing with --live", "the run on a cluster has a load of its own")


def _readable(trace: Path) -> None:
    from rheostat.load.traces import read_trace

    read_trace(trace)


def _finish(found: Experiment, out: Path | None, *, as_json: bool) -> None:
    from rheostat.judge.experiments.page import rows_of, write_experiment

    show_rows(f"experiment {found.name}", rows_of(found))
    result: dict[str, Any] = found.to_json()
    if out is not None:
        console().print(f"Report: {write_experiment(out / 'report.html', found)}", markup=False)
        (out / "experiment.json").write_text(to_json(result) + "\n", encoding="utf-8")
    if as_json:
        print_json(result)


def _unknown(field: str, given: str, allowed: tuple[str, ...]) -> Fault:
    close = difflib.get_close_matches(given, allowed, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return Fault(field, repr(given), " | ".join(allowed), f"there is no such {field}{hint}")
