"""``rheostat simulate``: one policy on a simulated job, with its score."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from rheostat.cli.judging import Out, Played, check_out, show_rows, without_effect
from rheostat.cli.options import spread
from rheostat.cli.output import FIGURES_HELP, JsonFlag, console, print_json, show_idle, to_json
from rheostat.errors import Fault, InputError, tried
from rheostat.load.shapes import GRAMMAR

if TYPE_CHECKING:
    from rheostat.judge.compare import Entry
    from rheostat.judge.request import Asked, Texts
    from rheostat.judge.work import Found

__all__ = ["register"]


def register(app: typer.Typer) -> None:
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
    entry = compare(asked.cases, asked.contenders, drawn=drawn, reached=bool(drawn), journal=journal).entries[0]
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


def _asked(texts: Texts, out: Path | None, journal: Path | None, faults: list[Fault]) -> Asked:
    """The run that is asked for, or every fault of the options at once."""
    from rheostat.judge.journaled import require_new
    from rheostat.judge.request import read_asked

    tried(require_new, None, faults, journal)
    tried(check_out, None, faults, out)
    asked = tried(read_asked, None, faults, texts, one_run=True)
    if asked is None or faults:
        raise InputError(faults)
    return asked


def _tell(entry: Entry, out: Path | None) -> None:
    from rheostat.judge.pages import hold_rows, write_simulation
    from rheostat.judge.texts import simulate_verdict, unready_notes
    from rheostat.report.figures import WHERE, figure_rows

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


def _placements(run: Found) -> dict[str, Any]:
    """Where executors came and went, for a job with nodes."""
    rows = [
        {"at": act.at, "before": act.before, "after": act.after, **asdict(act.placement)}
        for act in run.placed
        if act.placement is not None
    ]
    return {"placements": rows} if rows else {}


def _node_rows(run: Found) -> list[list[str]]:
    from rheostat.plan.words import names

    return [
        [f"{act.at:,.0f}", f"{act.before} → {act.after}", names(placed.add), names(placed.leave), names(placed.use)]
        for act in run.placed
        if (placed := act.placement) is not None
    ]
