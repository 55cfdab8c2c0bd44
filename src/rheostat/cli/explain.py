"""``rheostat explain``: why it did what it did."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rheostat.cli.output import JsonFlag, console, print_json
from rheostat.errors import Fault, InputError, tried

__all__ = ["register"]

_TIMES = "an ISO time, seconds of the epoch, HH:MM[:SS] (UTC), or a duration before the journal's end as in 10m"


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def explain(
        journal: Annotated[Path, typer.Argument(help="A journal: its folder, or one of its files.")],
        at: Annotated[str | None, typer.Option("--at", help=f"Why at this time: {_TIMES}.")] = None,
        since: Annotated[str | None, typer.Option("--since", help=f"What happened since: {_TIMES}.")] = None,
        decision: Annotated[int | None, typer.Option("--decision", help="Why this decision, by its number.")] = None,
        as_json: JsonFlag = False,
    ) -> None:
        """Say in words what was seen, decided and done, and why. Without options: a summary."""
        result = _explained(journal, at, since, decision)
        if as_json:
            print_json(result)
            return
        for line in result["lines"]:
            typer.echo(line)


def _explained(journal: Path, at: str | None, since: str | None, decision: int | None) -> dict[str, Any]:
    from rheostat.journal import read_journal
    from rheostat.report.explain import Story, explain_decision, explain_since, explain_summary
    from rheostat.report.times import parse_time

    faults: list[Fault] = []
    given = [name for name, value in (("--at", at), ("--since", since), ("--decision", decision)) if value is not None]
    if len(given) > 1:
        faults.append(Fault(given[1], " ".join(given), "one of --at, --since, --decision", "only one at a time"))
    screen = console()
    records = read_journal(journal, report=lambda text: screen.print(text, markup=False))
    story = tried(Story, None, faults, records, str(journal))
    for name, text in (("--at", at), ("--since", since)):
        if text is not None:
            tried(parse_time, 0.0, faults, text, name, story.end if story else 0.0)
    if story is None or faults:
        raise InputError(faults)
    if decision is not None:
        return explain_decision(story.decision(decision))
    if at is not None:
        return explain_decision(story.at(parse_time(at, "--at", story.end), "--at"))
    if since is not None:
        return explain_since(story, story.since(parse_time(since, "--since", story.end), "--since"))
    return explain_summary(story)
