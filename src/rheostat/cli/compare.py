"""``rheostat compare``: policies × loads × seeds, ranked by what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rheostat.cli.common import (
    Jobs,
    JsonFlag,
    Out,
    Played,
    Shapes,
    check_out,
    check_page,
    check_sort,
    console,
    print_json,
    processes_of,
    progress_lines,
    show_idle,
    show_rows,
    show_table,
    spread,
    to_json,
    without_effect,
)
from rheostat.errors import Fault, InputError, tried

if TYPE_CHECKING:
    from rheostat.decide.settings_check import NoEffect
    from rheostat.judge.compare import Cells, Comparison
    from rheostat.judge.request import Request, RequestOptions
    from rheostat.judge.worst_case import Defeat


@spread(Played)
def compare(
    context: typer.Context,
    *,
    policy: Annotated[
        str | None, typer.Option(help="Policies, comma separated, each NAME or NAME:PRESET. Default: all.")
    ] = None,
    trace: Annotated[
        str | None, typer.Option(help="Trace files (CSV: second,events_per_second) or folders, comma separated.")
    ] = None,
    shape: Shapes = None,
    seed: Annotated[str, typer.Option(help="Random seeds, comma separated.")] = "1",
    jobs: Jobs = None,
    matrix: Annotated[
        bool, typer.Option("--matrix", help="Also run on variants of the job that differ in one property.")
    ] = False,
    worst_case: Annotated[
        bool, typer.Option("--worst-case", help="Search the worst load for each policy, instead of given loads.")
    ] = False,
    tries: Annotated[str, typer.Option(help="Loads to try for each policy with --worst-case.")] = "60",
    played: Played,
    sort: Annotated[str, typer.Option(help="Column to sort the tables by.")] = "cost",
    out: Out = None,
    page: Annotated[Path | None, typer.Option(help="Also write the figures to this Markdown page.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Compare policies on a simulated job, with the clairvoyant optimum beside them."""
    texts = played.texts(
        shape, policy=policy, trace=trace, seed=seed, matrix=matrix, worst_case=worst_case, tries=tries
    )
    faults = without_effect(context, texts)
    asked, processes = _asked(texts, jobs, sort, out, page, faults)
    show_idle(asked.idle)
    found = replace(_judge(asked, processes, drawn=out is not None, matrix=matrix), idle=asked.idle)
    return _finish(found, sort, out, page, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Judged:
    """The runs; matrix or worst loads, if asked for; settings without effect."""

    comparison: Comparison
    cells: Cells | None = None
    defeats: list[Defeat] | None = None
    idle: Sequence[NoEffect] = ()


def _judge(asked: Request, processes: int, *, drawn: bool, matrix: bool) -> _Judged:
    from rheostat.judge import compare as judged
    from rheostat.judge.compare import cells_of
    from rheostat.judge.worst_case import comparison_of, defeats

    with progress_lines("compare") as progress:
        if asked.hunts:
            found = defeats(asked.hunts, jobs=processes, progress=progress)
            return _Judged(comparison_of(found), defeats=found)
        plotted = [each for each in asked.cases if each.job == asked.variants[0].job and each.seed == asked.seeds[0]]
        comparison = judged.compare(
            asked.cases,
            asked.specs,
            jobs=processes,
            drawn=plotted if drawn else (),
            reached=not matrix,
            progress=progress,
        )
    return _Judged(comparison, cells_of(comparison) if matrix else None)


def _asked(
    texts: RequestOptions, jobs: str | None, sort: str, out: Path | None, page: Path | None, faults: list[Fault]
) -> tuple[Request, int]:
    from rheostat.judge.request import read_request

    tried(check_sort, None, faults, sort)
    tried(check_out, None, faults, out)
    tried(check_page, None, faults, page)
    processes = tried(processes_of, 1, faults, jobs)
    asked = tried(read_request, None, faults, texts)
    if asked is None or faults:
        raise InputError(faults)
    return asked, processes


def _finish(found: _Judged, sort: str, out: Path | None, page: Path | None, *, as_json: bool) -> int:
    from rheostat.judge.report import comparison_json, write_comparison

    screen, comparison = console(), found.comparison
    _show(found, sort)
    result = comparison_json(comparison, found.cells, found.defeats)
    result["no_effect"] = [asdict(each) for each in found.idle]
    if out is not None:
        report = write_comparison(out / "report.html", comparison, found.cells, sort, found.defeats)
        screen.print(f"Report: {report}", markup=False)
        (out / "compare.json").write_text(to_json(result) + "\n", encoding="utf-8")
    if page is not None:
        _update(page, found)
    for text in comparison.invalid:
        screen.print(f"invalid: {text}", markup=False)
    for text in comparison.undercuts:
        screen.print(f"✗ costs less than the optimum, a bug of the judge, please report it: {text}", markup=False)
    if as_json:
        print_json(result)
    return 1 if comparison.undercuts else 0


def _show(found: _Judged, sort: str) -> None:
    from rheostat.judge.report import (
        SHARES,
        defeat_rows,
        load_tables,
        matrix_rows,
        ranking_rows,
        share_rows,
        unready_notes,
        verdict,
    )
    from rheostat.report.html import WHERE

    if found.defeats is not None:
        show_rows("The worst load for each policy", defeat_rows(found.defeats))
        return
    comparison = found.comparison
    if found.cells is None:
        for each in load_tables(comparison, sort):
            show_table(each.title, each.table, each.notes)
    else:
        show_rows("Cost ÷ optimum on each job, one setting a policy", matrix_rows(found.cells))
        for text in unready_notes(comparison.entries):
            console().print(f"  {text}", markup=False)
    rows = ranking_rows(comparison.rankings)
    if rows:
        show_rows("Rankings", rows)
        show_rows(SHARES, share_rows(comparison))
    console().print(WHERE, markup=False)
    console().print(verdict(comparison), markup=False)


def _update(page: Path, found: _Judged) -> None:
    import sys

    from rheostat.judge.report import section, portable_command
    from rheostat.research.bench.harness import TITLE, machine, with_section

    title = "compare" + (" --matrix" if found.cells else "") + (" --worst-case" if found.defeats else "")
    text = page.read_text(encoding="utf-8") if page.exists() else TITLE
    made = f"`{portable_command(sys.argv[1:])}`, on: {machine()}."
    fresh = section(title, made, found.comparison, found.cells, found.defeats)
    page.write_text(with_section(text, title, fresh), encoding="utf-8")
