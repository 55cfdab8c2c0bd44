"""``rheostat experiment``: the experiments of the documents again, their figures beside ours."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rheostat.cli.judging import Jobs, Out, check_out, processes_of, show_rows
from rheostat.cli.options import unused
from rheostat.cli.output import JsonFlag, console, print_json, to_json
from rheostat.cli.progress import progress_lines
from rheostat.errors import Fault, InputError, tried

if TYPE_CHECKING:
    from rheostat.demo.plan import DemoPlan
    from rheostat.judge.experiments.results import Experiment

__all__ = ["NAMES", "register"]

NAMES = ("s1", "s2", "s5")
"""Of the experiments."""

_LIVE = ("s1", "s2")
"""Those with a version on a real cluster."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("experiment")(experiment)


def experiment(
    context: typer.Context,
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
        typer.Option(help="Of all that is random, comma separated; s1, s5: 1 to 5, s2: 1 to 20; --live: the first."),
    ] = None,
    jobs: Jobs = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="s1, s2: a shortened version on a real local Kafka and Spark, some 25 minutes."),
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
    alive = live and name in _LIVE
    if not alive:
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
    faults += unused(context, _places(name, parts, alive=alive))
    if alive and seed is not None and len(seeds) > 1:
        faults.append(Fault("seed", seed, "one, with --live", "it is one run"))
    if faults:
        raise InputError(faults)
    if live:
        _finish(_live(name, seeds[0], out), out, as_json=as_json)
        return
    with progress_lines(f"experiment {name}") as watch:
        if name == "s2":
            found: Experiment = s2.experiment(parts, seeds, profiles, watch, processes)
        elif name == "s5":
            found = s5.experiment(parts, seeds, watch, processes)
        else:
            found = s1.experiment(parts, seeds, trace, watch, processes)
    _finish(found, out, as_json=as_json)


def _places(name: str, parts: Sequence[str], *, alive: bool) -> dict[str, str | None]:
    """Where options mean something that mean nothing here."""
    if name not in NAMES:
        return {}
    alone = "nothing with --live: the run on a cluster has a load of its own" if alive else None
    return {
        "trace": (None if name == "s1" and "5.4" in parts else "with s1, part 5.4") or alone,
        "profiles": (None if name == "s2" and "model" in parts else "with s2, part model") or alone,
        "live": None if name in _LIVE else f"with {' or '.join(_LIVE)}",
        "part": alone,
        "jobs": alone,
    }


def _live(name: str, seed: int, out: Path | None) -> Experiment:
    """On a real cluster; the journals stay in ``out``, if there is one."""
    import tempfile

    from rheostat.demo import s1, s2
    from rheostat.demo.table import LiveTable

    def table(plan: DemoPlan, folder: Path) -> LiveTable:
        return LiveTable(plan, folder, console())

    with tempfile.TemporaryDirectory(prefix=f"rheostat-{name}-") as scratch:
        folder = Path(scratch) if out is None else out.absolute()
        return s2.experiment(seed, folder, table) if name == "s2" else s1.experiment(seed, folder, table)


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
    for text in found.notes:
        console().print(text, markup=False)
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
