"""``rheostat simulate``: one policy on a simulated job, with its score."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from rheostat.cli.common import (
    FIGURES_HELP,
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
)
from rheostat.errors import Fault, InputError, tried
from rheostat.load.shapes import GRAMMAR

if TYPE_CHECKING:
    from rheostat.judge.compare import Entry, RunResult
    from rheostat.judge.request import Request, RequestOptions
    from rheostat.judge.tune import Candidate, Outcome, Tuning


def register_simulate(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate", epilog=FIGURES_HELP)(simulate)


@spread(Played)
def simulate(
    context: typer.Context,
    *,
    policy: Annotated[str | None, typer.Option(help="A policy, or POLICY:PRESET; reactive unless said.")] = None,
    trace: Annotated[str | None, typer.Option(help="A trace (CSV: second,events_per_second).")] = None,
    shape: Annotated[str | None, typer.Option(help=f"{escape(GRAMMAR)}.")] = None,
    seed: Annotated[str, typer.Option(help="Of all that is random.")] = "1",
    played: Played,
    journal: Annotated[
        Path | None,
        typer.Option("--journal", help="Folder, new or empty, for a journal as a live job writes it."),
    ] = None,
    out: Out = None,
    as_json: JsonFlag = False,
) -> int:
    """Run one policy on a simulated job: no Spark, no Java. The loop is the one that runs in production."""
    from rheostat.judge.compare import compare

    texts = played.texts(None if shape is None else [shape], policy=policy, trace=trace, seed=seed)
    asked = _asked(texts, out, journal, without_effect(context, texts))
    show_idle(asked.idle)
    drawn = asked.cases if out is not None else []
    entry = compare(asked.cases, asked.specs, drawn=drawn, reached=bool(drawn), journal=journal).entries[0]
    _tell(entry, out)
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
    """The run that is asked for, or every fault of the options at once."""
    from rheostat.judge.request import read_request
    from rheostat.judge.simulate import require_new

    tried(require_new, None, faults, journal)
    tried(check_out, None, faults, out)
    asked = tried(read_request, None, faults, texts, one_run=True)
    if asked is None or faults:
        raise InputError(faults)
    return asked


def _tell(entry: Entry, out: Path | None) -> None:
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
        screen.print(f"[red]✗[/red] {policy} costs less than the optimum: a fault of the judge, please report it")
    if out is not None:
        screen.print(f"Report: {write_simulation(out / 'report.html', entry)}", markup=False)


def _placements(run: RunResult) -> dict[str, Any]:
    """Where executors came and went, for a job with nodes."""
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


# ``rheostat tune``: the gains of ``proactive`` found on the simulator, with the recent load.


_MOST_VALUES = 20


def register_tune(app: typer.Typer) -> None:
    """Add the command."""
    app.command("tune")(tune)


@spread(Played)
def tune(
    context: typer.Context,
    *,
    policy: Annotated[str, typer.Option(help="proactive, or proactive:PRESET.")] = "proactive",
    trace: Annotated[str | None, typer.Option(help="The load: a trace (CSV: second,events_per_second).")] = None,
    shape: Shapes = None,
    journal: Annotated[Path | None, typer.Option(help="The load: what a live job met, by its journal.")] = None,
    last: Annotated[str, typer.Option(help="With --journal: so much of it, from its end: 6h, 2d.")] = "24h",
    grid: Annotated[
        str, typer.Option(help="Values of both gains that are tried first, > 0 and at most 1, comma separated.")
    ] = "0.25,0.5,0.75,1",
    seed: Annotated[str, typer.Option(help="Seeds, comma separated; their costs are added up.")] = "1",
    jobs: Jobs = None,
    played: Played,
    out: Annotated[Path | None, typer.Option(help="Write the settings with the gains here (*.yaml).")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Find the gains with which proactive costs least on a load; a part of it is held out to check them."""
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
    """What is to be tuned, with which first values, in how many processes; or every fault of the options at once."""
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
    """One policy, which has gains, and one load.

    Raises:
        InputError: every fault.
    """
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
    """The values, each once.

    >>> _grid_of("1, 0.5,1")
    [1.0, 0.5]

    Raises:
        InputError: there is none, there are too many, or one is no number in (0, 1]: every fault.
    """
    pieces = list(dict.fromkeys(piece.strip() for piece in text.split(",") if piece.strip()))
    values = [number_of("grid", piece, float) for piece in pieces]
    wrong = [piece for piece, value in zip(pieces, values, strict=True) if not _is_gain(value)]
    if wrong or not 1 <= len(pieces) <= _MOST_VALUES:
        allowed = f"1 to {_MOST_VALUES} numbers > 0 and ≤ 1, comma separated"
        raise InputError([Fault("grid", ", ".join(wrong) or repr(text), allowed, "these are no gains to try")])
    return list(dict.fromkeys(value for value in values if not isinstance(value, InputError)))


def _is_gain(value: float | InputError) -> bool:
    return not isinstance(value, InputError) and 0 < value <= 1


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
    try:
        path.write_text(f"# Made by rheostat tune: {found.verdict.why}\n{text}", encoding="utf-8")
    except OSError as error:
        message = f"the settings cannot be written: {error.strerror}"
        raise InputError([Fault("out", str(path), "a path that can be written", message)]) from error
