"""``rheostat experiment`` repeats the experiments of the papers; ``rheostat bench`` runs the benchmarks."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rheostat.cli import common
from rheostat.cli.common import console, print_json, progress_lines, report, say
from rheostat.errors import Fault, InputError, attempt, did_you_mean

if TYPE_CHECKING:
    from rheostat.demo.run import DemoPlan
    from rheostat.research.bench.harness import Bench
    from rheostat.research.papers.results import Experiment


EXPERIMENTS = ("s1", "s2", "s3", "s5")
_LIVE_EXPERIMENTS = ("s1", "s2", "s3")


def experiment(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(EXPERIMENTS)}.")],
    part: Annotated[
        str | None,
        typer.Option(
            help="Parts, comma separated. Default: all. s1: 5.2 to 5.5, alarms; s2: outage, live, model; "
            "s3: 1 to 5, kills, fairness; s5: sine, spikes, day, fleet, incidents."
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
        typer.Option(
            help="Random seeds, comma separated. Default: s1, s3, s5: 1 to 5; s2: 1 to 20; --live: the first."
        ),
    ] = None,
    jobs: common.Jobs = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="s1, s2, s3: a short version on a real local Kafka and Spark, about 25 minutes."),
    ] = False,
    out: common.Out = None,
    as_json: common.JsonFlag = False,
) -> None:
    """Repeat a paper's experiments on a simulated job. A refuted statement is not a failure of the command."""
    from rheostat.judge.request import seeds_of
    from rheostat.load.files import read_trace
    from rheostat.research.papers import s1, s2, s3, s5

    faults: list[Fault] = []
    if name not in EXPERIMENTS:
        faults.append(_unknown("name", name, EXPERIMENTS))
    known = {
        "s1": (s1.PARTS, s1.SEEDS),
        "s2": (s2.PARTS, s2.SEEDS),
        "s3": (s3.PARTS, s3.SEEDS),
        "s5": (s5.PARTS, s5.SEEDS),
    }
    allowed, usual = known.get(name, known["s1"])
    given = allowed if part is None else [piece.strip() for piece in part.split(",") if piece.strip()]
    parts = list(dict.fromkeys(given))
    on_cluster = live and name in _LIVE_EXPERIMENTS
    if not on_cluster:
        faults += [_unknown("part", each, allowed) for each in parts if each not in allowed]
    seeds: list[int] = attempt(seeds_of, [1], faults, usual if seed is None else seed)
    processes = attempt(common.processes_of, 1, faults, jobs)
    if not parts:
        faults.append(Fault("part", repr(part), " | ".join(allowed), "no part is named"))
    attempt(common.check_out, None, faults, out)
    if trace is not None:
        attempt(read_trace, None, faults, trace)
    if profiles is not None:
        attempt(s2.read_profiles, None, faults, profiles)
    faults += common.unused(context, _places(name, parts, on_cluster=on_cluster))
    if on_cluster and seed is not None and len(seeds) > 1:
        faults.append(Fault("seed", seed, "one, with --live", "it is one run"))
    if faults:
        raise InputError(faults)
    result = _run_live(name, seeds[0], out) if live else _run_simulated(name, parts, seeds, processes, trace, profiles)
    _finish(result, out, as_json=as_json)


def _run_simulated(
    name: str, parts: Sequence[str], seeds: Sequence[int], processes: int, trace: Path | None, profiles: Path | None
) -> Experiment:
    from rheostat.research.papers import s1, s2, s3, s5

    with progress_lines(f"experiment {name}") as watch:
        if name == "s2":
            return s2.experiment(parts, seeds, profiles, watch, processes)
        if name == "s3":
            return s3.experiment(parts, seeds, watch, processes)
        if name == "s5":
            return s5.experiment(parts, seeds, watch, processes)
        return s1.experiment(parts, seeds, trace, watch, processes)


def _places(name: str, parts: Sequence[str], *, on_cluster: bool) -> dict[str, str | None]:
    """Options without effect here → where they have one."""
    if name not in EXPERIMENTS:
        return {}
    simulated = "nothing with --live: the run on a cluster has a load of its own" if on_cluster else None
    return {
        "trace": (None if name == "s1" and "5.4" in parts else "with s1, part 5.4") or simulated,
        "profiles": (None if name == "s2" and "model" in parts else "with s2, part model") or simulated,
        "live": None if name in _LIVE_EXPERIMENTS else f"with {', '.join(_LIVE_EXPERIMENTS)}",
        "part": simulated,
        "jobs": simulated,
    }


def _run_live(name: str, seed: int, out: Path | None) -> Experiment:
    """Run on a real cluster; the journals stay in ``out``, if given."""
    import tempfile

    from rheostat.demo.run import LiveTable
    from rheostat.research.papers import live

    def table(plan: DemoPlan, folder: Path) -> LiveTable:
        return LiveTable(plan, folder, console())

    with tempfile.TemporaryDirectory(prefix=f"rheostat-{name}-") as scratch:
        folder = Path(scratch) if out is None else out.absolute()
        if name == "s3":
            from rheostat.research.papers import s3_cluster

            with progress_lines("experiment s3 --live") as watch:
                return s3_cluster.run_live(folder, watch)
        return live.run_s2(seed, folder, table) if name == "s2" else live.run_s1(seed, folder, table)


def _finish(result: Experiment, out: Path | None, *, as_json: bool) -> None:
    from rheostat.research.papers.results import rows_of, write_experiment

    common.show_rows(f"experiment {result.name}", rows_of(result))
    report(*result.notes)
    as_dict: dict[str, Any] = result.to_json()
    if out is not None:
        say(f"Report: {write_experiment(out / 'report.html', result)}")
        (out / "experiment.json").write_text(common.to_json(as_dict) + "\n", encoding="utf-8")
    if as_json:
        print_json(as_dict)


def _unknown(field: str, given: str, allowed: Iterable[str], what: str | None = None) -> Fault:
    message = f"there is no such {what or field}{did_you_mean(given, allowed)}"
    return Fault(field, repr(given), " | ".join(allowed), message)


# bench

BENCHMARKS = {
    "attach": "attach",
    "controller": "attach",
    "decision": "speed",
    "fleet-train": "training",
    "kills": "kills",
    "qod": "qod",
    "rescale": "rescale",
    "rivals": "rivals",
    "shed": "source",
    "simulate": "speed",
    "source": "source",
    "standby": "rescale",
    "train": "training",
    "truth": "truth",
}
"""The module of :mod:`rheostat.research.bench` for each benchmark; it has ``run_BENCHMARK(watch)``."""

_MOST_ROUNDS = 20


def bench(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(BENCHMARKS)}.")],
    page: Annotated[Path | None, typer.Option(help="Also write the figures to this Markdown page.")] = None,
    recorded: Annotated[
        Path | None, typer.Option(help="train: also check the stability limit on recorded runs (CSV).")
    ] = None,
    load: Annotated[
        str | None, typer.Option(help="rivals: loads, comma separated: demo, bursts, day. Default: all.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="rivals: how often the order there and back is run. Default: 1.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="rivals: folder of the runs. Those that it holds are not run again. Default: all are new."),
    ] = None,
    as_json: common.JsonFlag = False,
) -> None:
    """Measure, and show which targets are met. A missed target is not a failure of the command."""
    from rheostat.research.bench.harness import require_page, update_page

    faults: list[Fault] = []
    if name not in BENCHMARKS:
        faults.append(_unknown("name", name, BENCHMARKS, "benchmark"))
    if page is not None:
        attempt(require_page, None, faults, page)
    more: dict[str, Any] = {}
    if recorded is not None and name != "train":
        faults.append(Fault("recorded", str(recorded), "with train only", f"{name} takes no recorded runs"))
    elif recorded is not None:
        from rheostat.research.bench.training import read_recorded

        more = {"runs": attempt(read_recorded, None, faults, recorded)}
    of_rivals = {"load": load, "rounds": rounds, "out": out}
    given = {key: value for key, value in of_rivals.items() if value is not None}
    if name == "rivals":
        more = _read_rivals(load, rounds, out, faults)
    else:
        message = f"{name} takes no such option"
        faults += [Fault(key, str(value), "with rivals only", message) for key, value in given.items()]
    if faults:
        raise InputError(faults)
    with progress_lines(f"bench {name}") as watch:
        result = benchmark(name)(watch, **more)
    _show(result)
    if page is not None:
        update_page(page, result)
    if as_json:
        print_json(result.to_json())


def _read_rivals(load: str | None, rounds: int | None, out: Path | None, faults: list[Fault]) -> dict[str, Any]:
    """The arguments of ``run_rivals`` that were given; what is wrong with them goes into ``faults``."""
    from rheostat.report.html import require_folder
    from rheostat.research.bench.rivals import LOADS

    more: dict[str, Any] = {}
    if load is not None:
        more["loads"] = loads = list(dict.fromkeys(piece.strip() for piece in load.split(",") if piece.strip()))
        faults += [_unknown("load", each, LOADS) for each in loads if each not in LOADS]
        if not loads:
            faults.append(Fault("load", repr(load), " | ".join(LOADS), "no load is named"))
    if rounds is not None:
        more["rounds"] = rounds
        if not 1 <= rounds <= _MOST_ROUNDS:
            allowed = f"from 1 to {_MOST_ROUNDS}"
            faults.append(Fault("rounds", str(rounds), allowed, "a round of all loads takes up to two hours"))
    if out is not None:
        more["out"] = out
        attempt(require_folder, None, faults, "out", out)
    return more


def benchmark(name: str) -> Callable[..., Bench]:
    """The function that runs a benchmark: ``run_NAME(watch)``."""
    module = importlib.import_module(f"rheostat.research.bench.{BENCHMARKS[name]}")
    run: Callable[..., Bench] = getattr(module, f"run_{name.replace('-', '_')}")
    return run


def _show(result: Bench) -> None:
    rows = [["figure", "value", "95 % interval", "n", "target"]]
    for metric in result.metrics:
        value = "not measured" if metric.value is None else f"{metric.value:.4g} {metric.unit}"
        interval = "" if metric.ci95 is None else f"{metric.ci95[0]:.4g} … {metric.ci95[1]:.4g}"
        mark = {None: "", True: " met", False: " MISSED"}[metric.met]
        target = "" if metric.target is None else f"≤ {metric.target:g}{mark}"
        rows.append([metric.name, value, interval, str(metric.n), target])
    common.show_rows(f"bench {result.name}", rows)
    for title, more in result.tables.items():
        common.show_rows(title, more)
    report(*result.notes)
