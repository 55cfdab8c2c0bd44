"""``rheostat experiment``: the experiments of the documents again, their figures beside ours."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
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

NAMES = ("s1", "s2", "s5")
"""Of the experiments."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("experiment")(experiment)


def experiment(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(NAMES)}.")],
    part: Annotated[
        str | None,
        typer.Option(
            help="Parts, comma separated; all unless said. s1: 5.2 to 5.5; s2: outage, live, model; "
            "s5: sine, spikes, day, fleet, incidents."
        ),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="s1: the load of 5.4 (CSV: second,events_per_second); else a stand-in.")
    ] = None,
    profiles: Annotated[
        Path | None, typer.Option(help="s2: measured throughput to predict (CSV: scaleOut,avgThr,isBckPres).")
    ] = None,
    seed: Annotated[
        str | None,
        typer.Option(help="Of all that is random, comma separated; s1, s5: 1 to 5 (--live: the first), s2: 1 to 20."),
    ] = None,
    jobs: Jobs = None,
    live: Annotated[
        bool, typer.Option("--live", help="s1: a shortened version on a real local Kafka and Spark, some 25 minutes.")
    ] = False,
    out: Out = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a document's experiments on a simulated job. A statement that does not hold is no failure of the command."""
    from rheostat.judge.experiments import s1, s2, s5
    from rheostat.judge.request import seeds_of

    faults: list[Fault] = []
    if name not in NAMES:
        faults.append(_unknown("name", name, NAMES))
    known = {"s1": (s1.PARTS, s1.SEEDS), "s2": (s2.PARTS, s2.SEEDS), "s5": (s5.PARTS, s5.SEEDS)}
    allowed, usual = known.get(name, known["s1"])
    parts = list(allowed) if part is None else [piece.strip() for piece in part.split(",") if piece.strip()]
    faults += [_unknown("part", each, allowed) for each in parts if each not in allowed]
    seeds: list[int] = tried(seeds_of, [1], faults, usual if seed is None else seed)
    processes = tried(processes_of, 1, faults, jobs)
    if not parts:
        faults.append(Fault("part", repr(part), " | ".join(allowed), "no section is named"))
    tried(check_out, None, faults, out)
    if trace is not None:
        tried(_readable, None, faults, trace)
    if profiles is not None:
        tried(_profiles, None, faults, profiles)
    faults += _not_of(name, {"s1": {"trace": trace, "live": live or None}, "s2": {"profiles": profiles}})
    if live and name not in {"s2", "s5"}:
        given = {"part": part, "trace": trace}
        faults += [_not_live(field, str(value)) for field, value in given.items() if value is not None]
    if faults:
        raise InputError(faults)
    if live:
        _finish(_live(seeds[0], out), out, as_json=as_json)
        return
    with progress_lines(f"experiment {name}") as watch:
        if name == "s2":
            found: Experiment = s2.experiment(parts, seeds, profiles, watch, processes)
        elif name == "s5":
            found = s5.experiment(parts, seeds, watch, processes)
        else:
            found = s1.experiment(parts, seeds, trace, watch, processes)
    _finish(found, out, as_json=as_json)


def _not_of(name: str, options: Mapping[str, Mapping[str, object]]) -> list[Fault]:
    """The options that were given and belong to another experiment; ``options``: those of each, with their values."""
    return [
        Fault(field, str(value), f"nothing: it belongs to {owner}", f"{name} has no such option")
        for owner, given in options.items()
        for field, value in given.items()
        if value is not None and name in NAMES and name != owner
    ]


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


def _profiles(path: Path) -> None:
    from rheostat.judge.experiments.s2_accuracy import read_profiles

    read_profiles(path)


def _readable(trace: Path) -> None:
    from rheostat.load.traces import read_trace

    read_trace(trace)


def _finish(found: Experiment, out: Path | None, *, as_json: bool) -> None:
    from rheostat.judge.experiments.page import rows_of, write_experiment
    from rheostat.judge.experiments.s2 import Nodes
    from rheostat.judge.experiments.s2_page import write_nodes
    from rheostat.judge.experiments.s5 import Routers
    from rheostat.judge.experiments.s5_page import write_routers

    show_rows(f"experiment {found.name}", rows_of(found))
    result: dict[str, Any] = found.to_json()
    if out is not None:
        page = out / "report.html"
        match found:
            case Nodes():
                written = write_nodes(page, found)
            case Routers():
                written = write_routers(page, found)
            case _:
                written = write_experiment(page, found)
        console().print(f"Report: {written}", markup=False)
        (out / "experiment.json").write_text(to_json(result) + "\n", encoding="utf-8")
    if as_json:
        print_json(result)


def _unknown(field: str, given: str, allowed: tuple[str, ...]) -> Fault:
    close = difflib.get_close_matches(given, allowed, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return Fault(field, repr(given), " | ".join(allowed), f"there is no such {field}{hint}")
