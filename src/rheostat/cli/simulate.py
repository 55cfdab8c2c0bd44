"""``rheostat simulate`` runs one policy on a simulated job; ``rheostat tune`` finds the gains of ``proactive``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from rheostat.cli.common import (
    Jobs,
    JsonFlag,
    Out,
    Played,
    Shapes,
    check_file,
    check_out,
    console,
    number_of,
    print_json,
    processes_of,
    progress_lines,
    show_idle,
    show_rows,
    spread,
    to_json,
    without_effect,
    write_text,
)
from rheostat.errors import Fault, InputError, tried
from rheostat.load.shapes import GRAMMAR

if TYPE_CHECKING:
    from rheostat.judge.compare import Entry, RunResult
    from rheostat.judge.request import Request, RequestOptions
    from rheostat.judge.tune import Candidate, Outcome, Tuning


@spread(Played)
def simulate(
    context: typer.Context,
    *,
    policy: Annotated[str | None, typer.Option(help="Policy, or POLICY:PRESET. Default: reactive.")] = None,
    trace: Annotated[str | None, typer.Option(help="Trace file (CSV: second,events_per_second).")] = None,
    shape: Annotated[str | None, typer.Option(help=f"{escape(GRAMMAR)}.")] = None,
    seed: Annotated[str, typer.Option(help="Random seed.")] = "1",
    played: Played,
    journal: Annotated[
        Path | None,
        typer.Option("--journal", help="New or empty folder for a journal like that of a live job."),
    ] = None,
    out: Out = None,
    as_json: JsonFlag = False,
) -> int:
    """Run one policy on a simulated job, without Spark or Java, through the production loop."""
    from rheostat.judge.compare import compare

    texts = played.texts(None if shape is None else [shape], policy=policy, trace=trace, seed=seed)
    asked = _asked(texts, out, journal, without_effect(context, texts))
    show_idle(asked.idle)
    drawn = asked.cases if out is not None else []
    entry = compare(asked.cases, asked.specs, drawn=drawn, reached=bool(drawn), journal=journal).entries[0]
    _show(entry, out)
    if journal is not None:
        console().print(f"Journal: {journal}", markup=False)
    run = entry.runs[0]
    score = {**run.score, "holds": {code: asdict(held) for code, held in run.holds.items()}, **_placements(run)}
    score["unready"] = run.unready
    score["no_effect"] = [asdict(each) for each in asked.idle]
    if out is not None:
        (out / "score.json").write_text(to_json(score) + "\n", encoding="utf-8")
    if as_json:
        print_json(score)
    return 0 if score["valid"] and not entry.undercut else 1


def _asked(texts: RequestOptions, out: Path | None, journal: Path | None, faults: list[Fault]) -> Request:
    from rheostat.judge.request import read_request
    from rheostat.judge.simulate import require_new

    tried(require_new, None, faults, journal)
    tried(check_out, None, faults, out)
    asked = tried(read_request, None, faults, texts, one_run=True)
    if asked is None or faults:
        raise InputError(faults)
    return asked


def _show(entry: Entry, out: Path | None) -> None:
    from rheostat.judge.report import hold_rows, simulate_verdict, unready_notes, write_simulation
    from rheostat.report.html import WHERE, figure_rows

    screen = console()
    score = entry.runs[0].score
    show_rows(entry.case.name, figure_rows(score))
    screen.print(WHERE, markup=False)
    if rows := _node_rows(entry.runs[0]):
        show_rows("Nodes", [["second", "executors", "added", "given up", "then on"], *rows])
    show_rows("Decisions that changed nothing", [["how many", "code", "the last of them"], *hold_rows(entry.runs[0])])
    for text in (*entry.bound.said, *entry.runs[0].faults, *unready_notes([entry]), simulate_verdict(entry)):
        screen.print(text, markup=False)
    for policy in entry.undercut:
        screen.print(f"[red]✗[/red] {policy} costs less than the optimum: this is a bug of the judge, please report it")
    if out is not None:
        screen.print(f"Report: {write_simulation(out / 'report.html', entry)}", markup=False)


def _placements(run: RunResult) -> dict[str, Any]:
    rows = [
        {"at": act.at, "before": act.before, "after": act.after, **asdict(act.placement)}
        for act in run.placed
        if act.placement is not None
    ]
    return {"placements": rows} if rows else {}


def _node_rows(run: RunResult) -> list[list[str]]:
    from rheostat.text import names

    return [
        [f"{act.at:,.0f}", f"{act.before} → {act.after}", names(placed.add), names(placed.leave), names(placed.use)]
        for act in run.placed
        if (placed := act.placement) is not None
    ]


# tune


_MOST_VALUES = 20


@spread(Played)
def tune(
    context: typer.Context,
    *,
    policy: Annotated[str, typer.Option(help="proactive, or proactive:PRESET.")] = "proactive",
    trace: Annotated[str | None, typer.Option(help="Load: a trace (CSV: second,events_per_second).")] = None,
    shape: Shapes = None,
    journal: Annotated[Path | None, typer.Option(help="Load: that of a live job, from its journal.")] = None,
    last: Annotated[str, typer.Option(help="With --journal: how much of its end to use: 6h, 2d.")] = "24h",
    grid: Annotated[
        str, typer.Option(help="First values of both gains, > 0 and at most 1, comma separated.")
    ] = "0.25,0.5,0.75,1",
    seed: Annotated[str, typer.Option(help="Random seeds, comma separated; costs are summed.")] = "1",
    jobs: Jobs = None,
    played: Played,
    out: Annotated[Path | None, typer.Option(help="Settings file for the gains (*.yaml).")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Find the gains of proactive with the least cost on a load, checked on a held-out part."""
    from rheostat.judge import tune as judged

    texts = played.texts(shape, policy=policy, trace=trace, seed=seed, journal=journal, last=last)
    asked, values, processes = _asked_of_tune(texts, grid, jobs, out, without_effect(context, texts))
    show_idle(asked.idle)
    with progress_lines("tune") as progress:
        found = judged.tune(asked.cases, asked.specs[0], grid=values, jobs=processes, progress=progress)
    _finish(found, out, as_json=as_json)


def _asked_of_tune(
    texts: RequestOptions, grid: str, jobs: str | None, out: Path | None, faults: list[Fault]
) -> tuple[Request, list[float], int]:
    from rheostat.judge.request import read_request

    values: list[float] = tried(_grid_of, [], faults, grid)
    processes = tried(processes_of, 1, faults, jobs)
    tried(check_file, None, faults, "out", out, ".yaml", ".yml")
    asked = tried(read_request, None, faults, texts)
    if asked is not None:
        tried(_check_one, None, faults, asked)
    if asked is None or faults:
        raise InputError(faults)
    return asked, values, processes


def _check_one(asked: Request) -> None:
    """Require one load and one policy, which has gains."""
    from rheostat.judge.tune import gains_of

    faults: list[Fault] = []
    for field, values in (("policy", asked.specs), ("load", asked.loads)):
        if len(values) > 1:
            faults.append(Fault(field, f"{len(values)} of them", "one", "gains are found for one policy and load"))
    for spec in asked.specs:
        tried(gains_of, None, faults, asked.cases[0], spec)
    if faults:
        raise InputError(faults)


def _grid_of(text: str) -> list[float]:
    """Parse the values, without duplicates.

    >>> _grid_of("1, 0.5,1")
    [1.0, 0.5]
    """
    pieces = list(dict.fromkeys(piece.strip() for piece in text.split(",") if piece.strip()))
    values: list[float] = [tried(number_of, -1.0, [], "grid", piece, float) for piece in pieces]
    wrong = [piece for piece, value in zip(pieces, values, strict=True) if not 0 < value <= 1]
    if wrong or not 1 <= len(pieces) <= _MOST_VALUES:
        allowed = f"1 to {_MOST_VALUES} numbers > 0 and ≤ 1, comma separated"
        raise InputError([Fault("grid", ", ".join(wrong) or repr(text), allowed, "these are not gains")])
    return list(dict.fromkeys(values))


def _finish(found: Tuning, out: Path | None, *, as_json: bool) -> None:
    screen = console()
    show_rows(f"{found.spec.label} under {found.cases[0].load.name}", _rows(found))
    screen.print(found.verdict.why, markup=False)
    if out is not None:
        _write(out, found)
        screen.print(f"Settings: {out}", markup=False)
    if as_json:
        print_json(found.to_json())


def _rows(found: Tuning) -> list[list[str]]:
    rows = [["gains", "cost", "over objective", "cost, held out", "over objective, held out", ""]]
    for each in found.candidates:
        searched, held_out = _cells(each.searched), _cells(each.held_out)
        rows.append([str(each.gains), *searched, *held_out, _note(found, each)])
    return rows


def _cells(part: Outcome) -> list[str]:
    return [f"{part.cost:.3f}", f"{part.violation_share:.2%}"]


def _note(found: Tuning, each: Candidate) -> str:
    notes = {
        "present": each.gains == found.present,
        "recommended": each.gains == found.verdict.gains,
        "does not count": bool(each.faults),
    }
    return ", ".join(note for note, applies in notes.items() if applies)


def _write(path: Path, found: Tuning) -> None:
    import yaml

    from rheostat.judge.tune import settings_fragment

    text = yaml.safe_dump(settings_fragment(found), sort_keys=False, allow_unicode=True)
    write_text(path, f"# Made by rheostat tune: {found.verdict.why}\n{text}", "the settings file")
