"""``rheostat explain`` and ``rheostat replay``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rheostat.cli.common import JsonFlag, console, print_json
from rheostat.errors import Fault, InputError, tried

_TIMES = "an ISO time, seconds of the epoch, HH:MM[:SS] (UTC), or a duration before the journal's end as in 10m"


def explain(
    journal: Annotated[Path, typer.Argument(help="A journal: its folder, or one of its files.")],
    at: Annotated[str | None, typer.Option("--at", help=f"Explain the decision at this time: {_TIMES}.")] = None,
    since: Annotated[str | None, typer.Option("--since", help=f"List what happened since: {_TIMES}.")] = None,
    decision: Annotated[int | None, typer.Option("--decision", help="Explain the decision with this number.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Explain decisions in sentences: observation, decision, action, reason. Default: a summary."""
    result = _explained(journal, at, since, decision)
    if as_json:
        print_json(result)
        return
    for line in result["lines"]:
        typer.echo(line)


def _explained(journal: Path, at: str | None, since: str | None, decision: int | None) -> dict[str, Any]:
    from rheostat.journal.store import read_journal
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


# replay


def replay(
    journal: Annotated[Path, typer.Argument(help="A journal: its folder, or one of its files.")],
    policy: Annotated[
        str | None, typer.Option("--policy", help="Replay with this policy (or POLICY:PRESET) and its defaults.")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Override a setting, as in guard.cooldown_down_s=120. Repeatable."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Decide again from the recorded observations. With the same settings all decisions must be equal."""
    screen = console()
    result = _replayed(journal, policy, change or [])
    for line in _lines(result):
        screen.print(line, markup=False)
    if as_json:
        print_json(result)
    return 0 if result["open_loop"] or not result["differences"] else 1


def _replayed(journal: Path, policy: str | None, changes: Sequence[str]) -> dict[str, Any]:
    """The score, or every fault of the journal and of the options at once."""
    from rheostat.journal.store import read_journal
    from rheostat.loop.build import sample_store_beside as archive_beside
    from rheostat.report.replay import override_faults, replay_score

    faults: list[Fault] = []
    overrides = _overrides(policy, changes, faults)
    report = console()

    def tell(text: str) -> None:
        report.print(text, markup=False)

    records = tried(lambda: list(read_journal(journal, tell)), [], faults)
    kept = tried(archive_beside, None, faults, journal, tell)
    if not faults:
        return replay_score(records, overrides, kept)
    faults += override_faults(overrides, records)
    raise InputError(faults)


def _overrides(policy: str | None, changes: Sequence[str], faults: list[Fault]) -> dict[str, Any]:
    from rheostat.config.loading import read_pairs

    return {**({} if policy is None else {"policy": policy}), **dict(read_pairs(changes, faults))}


def _lines(result: dict[str, Any]) -> list[str]:
    from rheostat.text import several

    decisions, identical = result["decisions"], result["identical"]
    number = result["failed_cycles"]
    failed = f"; {several(number, 'failed cycle', 'failed cycles')} skipped" if number else ""
    lines = [f"identical: {identical} of {decisions}{failed}"]
    if result["open_loop"]:
        lines.append("open loop: the observations are the recorded ones and do not react to these decisions")
    hours = result["executor_hours"]
    if hours is not None:
        changes = several(result["reconfigurations"], "change")
        lines.append(f"{result['policy']}: {hours:.4g} executor-hours by target, {changes}")
    shown = result["differences"][:20]
    lines += [
        f"  decision {each['decision']}: recorded {_outcome(each['recorded'])}; now {_outcome(each['replayed'])}"
        for each in shown
    ]
    if len(result["differences"]) > len(shown):
        lines.append(f"  and {len(result['differences']) - len(shown)} more")
    return lines


def _outcome(side: dict[str, Any]) -> str:
    return f"{side['current']} → {side['target']} {side['code']}"
