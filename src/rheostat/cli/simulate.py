"""``rheostat simulate`` runs one policy on a simulated job; ``rheostat tune`` finds the gains of ``proactive``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from rheostat.cli import common
from rheostat.cli.common import print_json, report, say, show_rows, to_json
from rheostat.errors import Fault, InputError, attempt
from rheostat.load.shapes import GRAMMAR
from rheostat.text import names

if TYPE_CHECKING:
    from rheostat.judge.compare import Entry, RunResult
    from rheostat.judge.request import Request
    from rheostat.judge.tune import Tuning


def simulate(
    context: typer.Context,
    *,
    policy: Annotated[str | None, typer.Option(help="Policy, or POLICY:PRESET. Default: reactive.")] = None,
    trace: Annotated[str | None, typer.Option(help="Trace file (CSV: second,events_per_second).")] = None,
    shape: Annotated[str | None, typer.Option(help=f"{escape(GRAMMAR)}.")] = None,
    seed: Annotated[str, typer.Option(help="Random seed.")] = "1",
    job: common.Job = "base",
    rate: common.Rate = None,
    seconds: common.Seconds = None,
    preset: common.Preset = None,
    sets: common.Sets = None,
    config: common.Config = None,
    longest: common.Longest = "7d",
    as_is: common.AsIs = False,
    journal: Annotated[
        Path | None,
        typer.Option("--journal", help="New or empty folder for a journal like that of a live job."),
    ] = None,
    out: common.Out = None,
    as_json: common.JsonFlag = False,
) -> int:
    """Run one policy on a simulated job, without Spark or Java, through the production loop."""
    from rheostat.judge.compare import compare
    from rheostat.judge.request import read_request
    from rheostat.judge.simulate import require_new

    given = {**locals(), "shapes": None if shape is None else [shape], "journal": None}
    options = common.request_options(given)
    faults = common.unused_load_options(context, options)
    attempt(require_new, None, faults, journal)
    attempt(common.check_out, None, faults, out)
    request = attempt(read_request, None, faults, options, one_run=True)
    if request is None or faults:
        raise InputError(faults)
    common.show_idle(request.idle)
    drawn = request.cases if out is not None else []
    entry = compare(request.cases, request.specs, drawn=drawn, reached=bool(drawn), journal=journal).entries[0]
    _show(entry, out)
    if journal is not None:
        say(f"Journal: {journal}")
    score = _score_of(entry.runs[0], request)
    if out is not None:
        (out / "score.json").write_text(to_json(score) + "\n", encoding="utf-8")
    if as_json:
        print_json(score)
    return 0 if score["valid"] and not entry.undercut else 1


def _score_of(run: RunResult, request: Request) -> dict[str, Any]:
    placements = [
        {"at": act.at, "before": act.before, "after": act.after, **asdict(act.placement)}
        for act in run.placed
        if act.placement is not None
    ]
    return {
        **run.score,
        "holds": {code: asdict(held) for code, held in run.holds.items()},
        **({"placements": placements} if placements else {}),
        "unready": run.unready,
        "no_effect": [asdict(each) for each in request.idle],
    }


def _show(entry: Entry, out: Path | None) -> None:
    from rheostat.judge import report as reports
    from rheostat.report.html import WHERE, figure_rows

    run = entry.runs[0]
    show_rows(entry.case.name, figure_rows(run.score))
    report(WHERE)
    placements = [
        [f"{act.at:,.0f}", f"{act.before} → {act.after}", names(nodes.add), names(nodes.leave), names(nodes.use)]
        for act in run.placed
        if (nodes := act.placement) is not None
    ]
    if placements:
        show_rows("Nodes", [["second", "executors", "added", "given up", "then on"], *placements])
    show_rows("Decisions that changed nothing", reports.hold_rows(run))
    report(*entry.preparation, *run.faults, *reports.unready_notes([entry]), reports.simulate_verdict(entry))
    report(*(f"✗ {name} {common.UNDERCUT}" for name in entry.undercut))
    if out is not None:
        say(f"Report: {reports.write_simulation(out / 'report.html', entry)}")


# tune

_MOST_VALUES = 20


def tune(
    context: typer.Context,
    *,
    policy: Annotated[str, typer.Option(help="proactive, or proactive:PRESET.")] = "proactive",
    trace: Annotated[str | None, typer.Option(help="Load: a trace (CSV: second,events_per_second).")] = None,
    shapes: common.Shapes = None,
    journal: Annotated[Path | None, typer.Option(help="Load: that of a live job, from its journal.")] = None,
    last: Annotated[str, typer.Option(help="With --journal: how much of its end to use: 6h, 2d.")] = "24h",
    grid: Annotated[
        str, typer.Option(help="First values of both gains, > 0 and at most 1, comma separated.")
    ] = "0.25,0.5,0.75,1",
    seed: Annotated[str, typer.Option(help="Random seeds, comma separated; costs are summed.")] = "1",
    jobs: common.Jobs = None,
    job: common.Job = "base",
    rate: common.Rate = None,
    seconds: common.Seconds = None,
    preset: common.Preset = None,
    sets: common.Sets = None,
    config: common.Config = None,
    longest: common.Longest = "7d",
    as_is: common.AsIs = False,
    out: Annotated[Path | None, typer.Option(help="Settings file for the gains (*.yaml).")] = None,
    as_json: common.JsonFlag = False,
) -> None:
    """Find the gains of proactive with the least cost on a load, checked on a held-out part."""
    from rheostat.judge import tune as judge
    from rheostat.judge.request import read_request

    options = common.request_options(locals())
    faults = common.unused_load_options(context, options)
    values: list[float] = attempt(_grid_of, [], faults, grid)
    processes = attempt(common.processes_of, 1, faults, jobs)
    attempt(common.check_file, None, faults, "out", out, ".yaml", ".yml")
    request = attempt(read_request, None, faults, options)
    if request is not None:
        faults += _check_tunable(request)
    if request is None or faults:
        raise InputError(faults)
    common.show_idle(request.idle)
    with common.progress_lines("tune") as progress:
        tuning = judge.tune(request.cases, request.specs[0], grid=values, jobs=processes, progress=progress)
    show_rows(f"{tuning.spec.label} under {tuning.cases[0].load.name}", _rows(tuning))
    report(tuning.verdict.why)
    if out is not None:
        _write(out, tuning)
        say(f"Settings: {out}")
    if as_json:
        print_json(tuning.to_json())


def _check_tunable(request: Request) -> list[Fault]:
    """Require one load and one policy, which has gains."""
    from rheostat.judge.tune import gains_of

    faults = [
        Fault(field, f"{len(values)} of them", "one", "gains are found for one policy and load")
        for field, values in (("policy", request.specs), ("load", request.loads))
        if len(values) > 1
    ]
    for spec in request.specs:
        attempt(gains_of, None, faults, request.cases[0], spec)
    return faults


def _grid_of(text: str) -> list[float]:
    """Parse the values, without duplicates.

    >>> _grid_of("1, 0.5,1")
    [1.0, 0.5]
    """
    pieces = list(dict.fromkeys(piece.strip() for piece in text.split(",") if piece.strip()))
    values: list[float] = [attempt(common.number_of, -1.0, [], "grid", piece, float) for piece in pieces]
    wrong = [piece for piece, value in zip(pieces, values, strict=True) if not 0 < value <= 1]
    if wrong or not 1 <= len(pieces) <= _MOST_VALUES:
        allowed = f"1 to {_MOST_VALUES} numbers > 0 and ≤ 1, comma separated"
        raise InputError([Fault("grid", ", ".join(wrong) or repr(text), allowed, "these are not gains")])
    return list(dict.fromkeys(values))


def _rows(tuning: Tuning) -> list[list[str]]:
    rows = [["gains", "cost", "over objective", "cost, held out", "over objective, held out", ""]]
    for each in tuning.candidates:
        notes = {
            "present": each.gains == tuning.present,
            "recommended": each.gains == tuning.verdict.gains,
            "does not count": bool(each.faults),
        }
        row = [str(each.gains)]
        for part in (each.searched, each.held_out):
            row += [f"{part.cost:.3f}", f"{part.violation_share:.2%}"]
        rows.append([*row, ", ".join(note for note, applies in notes.items() if applies)])
    return rows


def _write(path: Path, tuning: Tuning) -> None:
    import yaml

    from rheostat.judge.tune import settings_fragment

    text = yaml.safe_dump(settings_fragment(tuning), sort_keys=False, allow_unicode=True)
    common.write_text(path, f"# Made by rheostat tune: {tuning.verdict.why}\n{text}", "the settings file")
