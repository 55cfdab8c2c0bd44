"""``rheostat compare``: policies × loads × seeds, ranked by what they cost."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rheostat.cli import common
from rheostat.cli.common import print_json, report, say, show_rows, to_json
from rheostat.errors import Fault, InputError, attempt

if TYPE_CHECKING:
    from rheostat.judge.compare import Comparison
    from rheostat.judge.request import Request, RequestOptions


def compare(
    context: typer.Context,
    *,
    policy: Annotated[
        str | None, typer.Option(help="Policies, comma separated, each NAME or NAME:PRESET. Default: all.")
    ] = None,
    trace: Annotated[
        str | None, typer.Option(help="Trace files (CSV: second,events_per_second) or folders, comma separated.")
    ] = None,
    shapes: common.Shapes = None,
    seed: Annotated[str, typer.Option(help="Random seeds, comma separated.")] = "1",
    jobs: common.Jobs = None,
    matrix: Annotated[
        bool, typer.Option("--matrix", help="Also run on variants of the job that differ in one property.")
    ] = False,
    worst_case: Annotated[
        bool, typer.Option("--worst-case", help="Search the worst load for each policy, instead of given loads.")
    ] = False,
    tries: Annotated[str, typer.Option(help="Loads to try for each policy with --worst-case.")] = "60",
    job: common.Job = "base",
    rate: common.Rate = None,
    seconds: common.Seconds = None,
    preset: common.Preset = None,
    sets: common.Sets = None,
    config: common.Config = None,
    longest: common.Longest = "7d",
    as_is: common.AsIs = False,
    sort: Annotated[str, typer.Option(help="Column to sort the tables by.")] = "cost",
    out: common.Out = None,
    page: Annotated[Path | None, typer.Option(help="Also write the figures to this Markdown page.")] = None,
    as_json: common.JsonFlag = False,
) -> int:
    """Compare policies on a simulated job, with the clairvoyant optimum beside them."""
    from rheostat.judge.report import comparison_json, write_comparison

    options = common.request_options(locals())
    faults = common.unused_load_options(context, options)
    request, processes = _read(options, jobs, sort, out, page, faults)
    common.show_idle(request.idle)
    comparison = _run(request, processes, drawn=out is not None, matrix=matrix)
    _show(comparison, sort)
    result = comparison_json(comparison)
    result["no_effect"] = [asdict(each) for each in request.idle]
    if out is not None:
        say(f"Report: {write_comparison(out / 'report.html', comparison, sort)}")
        (out / "compare.json").write_text(to_json(result) + "\n", encoding="utf-8")
    if page is not None:
        _update(page, comparison)
    report(*(f"invalid: {run}" for run in comparison.invalid))
    report(*(f"✗ {run} {common.UNDERCUT}" for run in comparison.undercuts))
    if as_json:
        print_json(result)
    return 1 if comparison.undercuts else 0


def _read(
    options: RequestOptions, jobs: str | None, sort: str, out: Path | None, page: Path | None, faults: list[Fault]
) -> tuple[Request, int]:
    from rheostat.judge.report import column_named
    from rheostat.judge.request import read_request
    from rheostat.research.bench.harness import require_page

    attempt(column_named, None, faults, sort)
    attempt(common.check_out, None, faults, out)
    if page is not None:
        attempt(require_page, None, faults, page)
    processes = attempt(common.processes_of, 1, faults, jobs)
    request = attempt(read_request, None, faults, options)
    if request is None or faults:
        raise InputError(faults)
    return request, processes


def _run(request: Request, processes: int, *, drawn: bool, matrix: bool) -> Comparison:
    from rheostat.judge.compare import compare, with_matrix
    from rheostat.judge.worst_case import find_worst_cases

    with common.progress_lines("compare") as progress:
        if request.hunts:
            return find_worst_cases(request.hunts, jobs=processes, progress=progress)
        first = (request.variants[0].job, request.seeds[0])
        comparison = compare(
            request.cases,
            request.specs,
            jobs=processes,
            drawn=[each for each in request.cases if (each.job, each.seed) == first] if drawn else (),
            reached=not matrix,
            progress=progress,
        )
    return with_matrix(comparison) if matrix else comparison


def _show(comparison: Comparison, sort: str) -> None:
    from rheostat.judge import report as reports
    from rheostat.report.html import WHERE

    if comparison.defeats is not None:
        show_rows("The worst load for each policy", reports.defeat_rows(comparison.defeats))
        return
    if comparison.cells is None:
        for each in reports.load_tables(comparison, sort):
            common.show_table(each.title, each.table, each.notes)
    else:
        show_rows(reports.MATRIX, reports.matrix_rows(comparison.cells))
        report(*(f"  {note}" for note in reports.unready_notes(comparison.entries)))
    rows = reports.ranking_rows(comparison.rankings)
    if rows:
        show_rows("Rankings", rows)
        show_rows(reports.SHARES, reports.share_rows(comparison))
    report(WHERE, reports.verdict(comparison))


def _update(page: Path, comparison: Comparison) -> None:
    from rheostat.judge.report import portable_command, section
    from rheostat.research.bench.harness import TITLE, machine, with_section

    title = "compare" + (" --matrix" if comparison.cells else "") + (" --worst-case" if comparison.defeats else "")
    text = page.read_text(encoding="utf-8") if page.exists() else TITLE
    made = f"`{portable_command(sys.argv[1:])}`, on: {machine()}."
    fresh = section(title, made, comparison)
    page.write_text(with_section(text, title, fresh), encoding="utf-8")
