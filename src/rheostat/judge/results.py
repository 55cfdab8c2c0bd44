"""A comparison as JSON, ``rheostat.compare/1``, and as a section of a Markdown page."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rheostat import __version__
from rheostat.judge.compare import Comparison, Entry
from rheostat.judge.defeat import Defeat
from rheostat.judge.matrix import Cells
from rheostat.judge.texts import (
    DEFEAT_READING,
    READING,
    SHARES,
    LoadTable,
    defeat_rows,
    load_tables,
    matrix_rows,
    ranking_rows,
    share_rows,
    verdict,
)

__all__ = ["COMPARE_SCHEMA", "comparison_json", "section", "spoken_command"]

COMPARE_SCHEMA = "rheostat.compare/1"


def comparison_json(
    comparison: Comparison, cells: Cells | None = None, found: Sequence[Defeat] | None = None
) -> dict[str, Any]:
    """In the shape of ``rheostat.compare/1``: one score a policy, load and seed; the cases with their optimum.

    Args:
        comparison: the runs.
        cells: of a matrix.
        found: of a search for the worst loads; then policies cannot be ranked, as each has a load of its own.
    """
    return {
        "schema": COMPARE_SCHEMA,
        "version": __version__,
        "runs": [{**run.score, "unready": run.unready} for entry in comparison.entries for run in entry.runs],
        "cases": [_case(entry) for entry in comparison.entries],
        "rankings": [
            {
                "name": ranking.name,
                "of": ranking.of,
                "cases": ranking.cases,
                "ranks": [
                    {"policy": rank.policy, "place": rank.place, "ratio": rank.ratio, "why": rank.why or None}
                    for rank in ranking.ranks
                ],
            }
            for ranking in (comparison.rankings if found is None else ())
        ],
        "matrix": None if cells is None else _matrix(cells),
        "worst_cases": None if found is None else [_defeat(each) for each in found],
        "invalid": comparison.invalid,
        "undercut": comparison.undercuts,
    }


def _case(entry: Entry) -> dict[str, Any]:
    bound = entry.bound
    return {
        "job": entry.case.job_label,
        "trace": entry.case.load.name,
        "seed": entry.case.seed,
        "ranked": entry.ranked,
        "weight": bound.weight,
        "peak": bound.peak,
        "load": list(bound.said),
        "optimum": {
            "cost": bound.cost,
            "error": bound.error,
            "executor_hours": bound.executor_hours,
            "changes": bound.changes,
            "violation_hours": bound.violation_hours,
            "mean_executors": bound.mean_executors,
        },
        "executed": dict(entry.executed.score),
        "reached": None if entry.reached is None else dict(entry.reached.score),
    }


def _defeat(each: Defeat) -> dict[str, Any]:
    return {"policy": each.policy, "shape": each.shape, "ratio": each.ratio, "tried": each.tried}


def _matrix(cells: Cells) -> dict[str, Any]:
    return {
        "jobs": list(cells.jobs),
        "policies": [
            {"policy": policy, "ratios": list(cells.ratios[policy]), "geometric_mean": overall}
            for policy, overall in cells.overall.items()
        ],
    }


def spoken_command(arguments: Sequence[str]) -> str:
    """The command line as others can type it: files by their names, wherever they lay here."""
    return shlex.join(["rheostat", *(",".join(map(_name, argument.split(","))) for argument in arguments)])


def _name(piece: str) -> str:
    return Path(piece).name if piece.startswith(("/", "../", "~")) else piece


def section(
    title: str,
    made: str,
    comparison: Comparison,
    cells: Cells | None = None,
    found: Sequence[Defeat] | None = None,
) -> str:
    """A section of a Markdown page: who made it, the rankings and what explains them, and a table for each load.

    Args:
        title: its heading.
        made: by which command, on which machine.
        comparison: the runs.
        cells: of a matrix: it stands in place of the tables.
        found: of a search for the worst loads: only those are shown.
    """
    lines = [f"## {title}", "", made, ""]
    if found is not None:
        return "\n".join([*lines, *_markdown(defeat_rows(found)), "", *(f"- {text}" for text in DEFEAT_READING)])
    lines += [verdict(comparison), "", *_markdown(ranking_rows(comparison.rankings))]
    lines += ["", f"{SHARES}:", "", *_markdown(share_rows(comparison))]
    if cells is not None:
        lines += ["", "Cost ÷ optimum on each job, one setting a policy:", "", *_markdown(matrix_rows(cells))]
    for each in load_tables(comparison) if cells is None else ():
        lines += ["", f"### {each.title}", "", *_load(each)]
    lines += ["", *(f"- {text}" for text in (*READING, *comparison.invalid))]
    return "\n".join(lines)


def _load(each: LoadTable) -> Iterator[str]:
    marked = [
        [f"**{cell}**" if (row, column) in each.table.best_cells else cell for column, cell in enumerate(cells)]
        for row, cells in enumerate(each.table.texts()[1:])
    ]
    yield from _markdown([each.table.texts()[0], *marked])
    yield ""
    yield from (f"- {note}" for note in each.notes)


def _markdown(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield "| " + " | ".join(row) + " |"
        if number == 0:
            yield "|---" * len(row) + "|"
