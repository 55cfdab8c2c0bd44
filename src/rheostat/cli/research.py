"""``rheostat experiment`` repeats the experiments of the papers; ``rheostat bench`` runs the benchmarks."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from rheostat.cli.common import (
    Jobs,
    JsonFlag,
    Out,
    check_out,
    console,
    print_json,
    processes_of,
    progress_lines,
    show_rows,
    to_json,
    unused,
)
from rheostat.errors import Fault, InputError, did_you_mean, tried

if TYPE_CHECKING:
    from rheostat.demo.run import DemoPlan
    from rheostat.research.bench.harness import Bench
    from rheostat.research.papers.results import Experiment


EXPERIMENTS = ("s1", "s2", "s5")
_LIVE_EXPERIMENTS = ("s1", "s2")


def experiment(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(EXPERIMENTS)}.")],
    part: Annotated[
        str | None,
        typer.Option(
            help="Parts, comma separated. Default: all. s1: 5.2 to 5.5; s2: outage, live, model; "
            "s5: sine, spikes, day, fleet, incidents."
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="s1: load of part 5.4 (CSV: second,events_per_second). Default: a synthetic one."),
    ] = None,
    profiles: Annotated[
        Path | None, typer.Option(help="s2: measured throughput to predict (CSV: scaleOut,avgThr,isBckPres).")
    ] = None,
    seed: Annotated[
        str | None,
        typer.Option(help="Random seeds, comma separated. Default: s1, s5: 1 to 5; s2: 1 to 20; --live: the first."),
    ] = None,
    jobs: Jobs = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="s1, s2: a short version on a real local Kafka and Spark, about 25 minutes."),
    ] = False,
    out: Out = None,
    as_json: JsonFlag = False,
) -> None:
    """Repeat a paper's experiments on a simulated job. A refuted statement is not a failure of the command."""
    from rheostat.judge.request import seeds_of
    from rheostat.research.papers import s1, s2, s5

    faults: list[Fault] = []
    if name not in EXPERIMENTS:
        faults.append(_unknown("name", name, EXPERIMENTS))
    known = {"s1": (s1.PARTS, s1.SEEDS), "s2": (s2.PARTS, s2.SEEDS), "s5": (s5.PARTS, s5.SEEDS)}
    allowed, usual = known.get(name, known["s1"])
    parts = list(allowed) if part is None else [piece.strip() for piece in part.split(",") if piece.strip()]
    alive = live and name in _LIVE_EXPERIMENTS
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
    """Options without effect here → where they have one."""
    if name not in EXPERIMENTS:
        return {}
    alone = "nothing with --live: the run on a cluster has a load of its own" if alive else None
    return {
        "trace": (None if name == "s1" and "5.4" in parts else "with s1, part 5.4") or alone,
        "profiles": (None if name == "s2" and "model" in parts else "with s2, part model") or alone,
        "live": None if name in _LIVE_EXPERIMENTS else f"with {' or '.join(_LIVE_EXPERIMENTS)}",
        "part": alone,
        "jobs": alone,
    }


def _live(name: str, seed: int, out: Path | None) -> Experiment:
    """Run on a real cluster; the journals stay in ``out``, if given."""
    import tempfile

    from rheostat.demo.show import LiveTable
    from rheostat.research.papers import live

    def table(plan: DemoPlan, folder: Path) -> LiveTable:
        return LiveTable(plan, folder, console())

    with tempfile.TemporaryDirectory(prefix=f"rheostat-{name}-") as scratch:
        folder = Path(scratch) if out is None else out.absolute()
        return live.run_s2(seed, folder, table) if name == "s2" else live.run_s1(seed, folder, table)


def _profiles(path: Path) -> None:
    from rheostat.research.papers.s2 import read_profiles

    read_profiles(path)


def _readable(trace: Path) -> None:
    from rheostat.load.files import read_trace

    read_trace(trace)


def _finish(found: Experiment, out: Path | None, *, as_json: bool) -> None:
    from rheostat.research.papers.page import rows_of, write_experiment

    show_rows(f"experiment {found.name}", rows_of(found))
    for text in found.notes:
        console().print(text, markup=False)
    result: dict[str, Any] = found.to_json()
    if out is not None:
        written = write_experiment(out / "report.html", found)
        console().print(f"Report: {written}", markup=False)
        (out / "experiment.json").write_text(to_json(result) + "\n", encoding="utf-8")
    if as_json:
        print_json(result)


def _unknown(field: str, given: str, allowed: tuple[str, ...]) -> Fault:
    message = f"there is no such {field}{did_you_mean(given, allowed)}"
    return Fault(field, repr(given), " | ".join(allowed), message)


# bench


BENCHMARKS = {
    "attach": "attach",
    "controller": "attach",
    "decision": "speed",
    "fleet-train": "training",
    "rescale": "rescale",
    "simulate": "speed",
    "standby": "rescale",
    "train": "training",
    "truth": "truth",
}
"""The module of :mod:`rheostat.research.bench` for each benchmark; it has ``run_BENCHMARK(watch)``."""


def bench(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(BENCHMARKS)}.")],
    page: Annotated[Path | None, typer.Option(help="Also write the figures to this Markdown page.")] = None,
    recorded: Annotated[
        Path | None, typer.Option(help="train: also check the stability limit on recorded runs (CSV).")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure, and show which targets are met. A missed target is not a failure of the command."""
    from rheostat.research.bench.harness import require_page, update_page

    faults: list[Fault] = []
    if name not in BENCHMARKS:
        message = f"there is no such benchmark{did_you_mean(name, BENCHMARKS)}"
        faults.append(Fault("name", repr(name), ", ".join(BENCHMARKS), message))
    if page is not None:
        tried(require_page, None, faults, page)
    more = {} if recorded is None else tried(_recorded, {}, faults, name, recorded)
    if faults:
        raise InputError(faults)
    with progress_lines(f"bench {name}") as watch:
        result = benchmark(name)(watch, **more)
    _show(result)
    if page is not None:
        update_page(page, result)
    if as_json:
        print_json(result.to_json())


def benchmark(name: str) -> Callable[..., Bench]:
    """The function that runs a benchmark: ``run_NAME(watch)``."""
    module = importlib.import_module(f"rheostat.research.bench.{BENCHMARKS[name]}")
    run: Callable[..., Bench] = getattr(module, f"run_{name.replace('-', '_')}")
    return run


def _recorded(name: str, path: Path) -> dict[str, Any]:
    if name != "train":
        raise InputError([Fault("recorded", str(path), "with train only", f"{name} takes no recorded runs")])
    from rheostat.research.bench.training import read_recorded

    return {"runs": read_recorded(path)}


def _show(result: Any) -> None:
    screen = console()
    table = Table("figure", "value", "95 % interval", "n", "target", title=f"bench {result.name}")
    for metric in result.metrics:
        value = "not measured" if metric.value is None else f"{metric.value:.4g} {metric.unit}"
        interval = "" if metric.ci95 is None else f"{metric.ci95[0]:.4g} … {metric.ci95[1]:.4g}"
        mark = {None: "", True: " met", False: " MISSED"}[metric.met]
        target = "" if metric.target is None else f"≤ {metric.target:g}{mark}"
        table.add_row(metric.name, value, interval, str(metric.n), target)
    screen.print(table)
    for note in result.notes:
        screen.print(note, markup=False)
