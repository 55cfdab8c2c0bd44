"""``rheostat explain`` and ``rheostat replay``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rheostat.cli.common import JsonFlag, print_json, report, say
from rheostat.errors import Fault, InputError, attempt
from rheostat.text import several

_TIMES = "an ISO time, seconds of the epoch, HH:MM[:SS] (UTC), or a duration before the journal's end as in 10m"
_SHOWN = 20

Journal = Annotated[Path, typer.Argument(help="A journal: its folder, or one of its files.")]


def explain(
    journal: Journal,
    at: Annotated[str | None, typer.Option("--at", help=f"Explain the decision at this time: {_TIMES}.")] = None,
    since: Annotated[str | None, typer.Option("--since", help=f"List what happened since: {_TIMES}.")] = None,
    decision: Annotated[int | None, typer.Option("--decision", help="Explain the decision with this number.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Explain decisions in sentences: observation, decision, action, reason. Default: a summary."""
    result = _explain(journal, at, since, decision)
    if as_json:
        print_json(result)
        return
    for line in result["lines"]:
        typer.echo(line)


def _explain(journal: Path, at: str | None, since: str | None, decision: int | None) -> dict[str, Any]:
    from rheostat.journal.store import read_journal
    from rheostat.report.explain import Story, explain_decision, explain_since, explain_summary
    from rheostat.report.times import parse_time

    faults: list[Fault] = []
    given = [name for name, value in (("--at", at), ("--since", since), ("--decision", decision)) if value is not None]
    if len(given) > 1:
        faults.append(Fault(given[1], " ".join(given), "one of --at, --since, --decision", "only one at a time"))
    story = attempt(Story, None, faults, read_journal(journal, report=say), str(journal))
    end = story.end if story else 0.0
    times = {
        name: attempt(parse_time, 0.0, faults, text, name, end)
        for name, text in (("--at", at), ("--since", since))
        if text is not None
    }
    if story is None or faults:
        raise InputError(faults)
    if decision is not None:
        return explain_decision(story.decision(decision))
    if at is not None:
        return explain_decision(story.at(times["--at"], "--at"))
    if since is not None:
        return explain_since(story, story.since(times["--since"], "--since"))
    return explain_summary(story)


# replay


def replay(
    journal: Journal,
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
    result = _replay(journal, policy, change or [])
    report(*_lines(result))
    if as_json:
        print_json(result)
    return 0 if result["open_loop"] or not result["differences"] else 1


def _replay(journal: Path, policy: str | None, changes: Sequence[str]) -> dict[str, Any]:
    """The score, or every fault of the journal and of the options at once."""
    from rheostat.config.loading import read_pairs
    from rheostat.journal.store import read_journal
    from rheostat.loop.build import sample_store_beside
    from rheostat.report.replay import override_faults, replay_score

    faults: list[Fault] = []
    overrides = {**({} if policy is None else {"policy": policy}), **dict(read_pairs(changes, faults))}
    records = attempt(lambda: list(read_journal(journal, say)), [], faults)
    samples = attempt(sample_store_beside, None, faults, journal, say)
    if faults:
        raise InputError(faults + override_faults(overrides, records))
    return replay_score(records, overrides, samples)


def _lines(result: dict[str, Any]) -> list[str]:
    failed = result["failed_cycles"]
    skipped = f"; {several(failed, 'failed cycle')} skipped" if failed else ""
    lines = [f"identical: {result['identical']} of {result['decisions']}{skipped}"]
    if result["open_loop"]:
        lines.append(
            "open loop: the observations are recorded ones and do not react to these decisions: their cost is unknown"
        )
    hours = result["executor_hours"]
    if hours is not None:
        changes = several(result["reconfigurations"], "change")
        lines.append(f"{result['policy']}: {hours:.4g} executor-hours by target, {changes}")
    differences = result["differences"]
    lines += [
        f"  decision {each['decision']}: recorded {_outcome(each['recorded'])}; now {_outcome(each['replayed'])}"
        for each in differences[:_SHOWN]
    ]
    if len(differences) > _SHOWN:
        lines.append(f"  and {len(differences) - _SHOWN} more")
    return lines


def _outcome(side: dict[str, Any]) -> str:
    return f"{side['current']} → {side['target']} {side['code']}"
