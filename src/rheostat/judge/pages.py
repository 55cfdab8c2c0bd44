"""The HTML reports of ``simulate`` and ``compare``: one file each, readable without a network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rheostat.judge.compare import Comparison, Entry
from rheostat.judge.defeat import Defeat
from rheostat.judge.figures import draw
from rheostat.judge.matrix import Cells
from rheostat.judge.recorder import Act
from rheostat.judge.texts import (
    DEFEAT_READING,
    OPTIMUM_RUN,
    REACHED_RUN,
    READING,
    SHARES,
    LoadTable,
    defeat_rows,
    load_tables,
    matrix_rows,
    ranking_rows,
    share_rows,
    simulate_verdict,
    unready_notes,
    verdict,
)
from rheostat.judge.tracks import Tracks
from rheostat.judge.work import Found
from rheostat.report.figures import figure_rows
from rheostat.report.parts import NO_OUTCOME, frame, heading, note_list, table, write_page

__all__ = ["hold_rows", "write_comparison", "write_simulation"]


def write_comparison(
    path: Path, comparison: Comparison, cells: Cells | None, sort: str, found: Sequence[Defeat] | None = None
) -> Path:
    """The report of a comparison, of a matrix, or of a search for the worst loads.

    Raises:
        InputError: plotly is not installed, or the file cannot be written.
    """
    if found is not None:
        parts = [table(defeat_rows(found)), heading("How to read this"), note_list(DEFEAT_READING)]
        return write_page(path, frame("Rheostat: the worst loads", "Every policy can be defeated: by these.", parts))
    parts = [heading("Rankings"), table(ranking_rows(comparison.rankings) or [["policy"]])]
    parts += [heading(SHARES), table(share_rows(comparison) or [["policy"]])]
    if cells is not None:
        parts += [heading("Cost ÷ optimum on each job, one setting a policy"), table(matrix_rows(cells))]
    drawn_before = False
    for each in load_tables(comparison, sort):
        html, drawn_before = _load(each, drawn_before)
        parts.append(html)
    parts += [heading("How to read this"), note_list([*READING, *comparison.invalid, *comparison.undercuts])]
    return write_page(path, frame("Rheostat: policies compared", verdict(comparison), parts))


def _load(each: LoadTable, drawn_before: bool) -> tuple[str, bool]:
    """A load's table and, where it was drawn, its figure; whether the page has the plots' script by now."""
    html = heading(each.title) + table(each.table.texts(), each.table.best_cells) + note_list(each.notes)
    figure = _figure(each.entries[0], with_script=not drawn_before)
    return html + figure, drawn_before or bool(figure)


def _figure(entry: Entry, *, with_script: bool) -> str:
    scene, beside = entry.bound.scene, entry.reached or entry.executed
    runs = [(run.score["policy"], run.tracks) for run in _cheapest_first(entry)]
    drawn: list[tuple[str, Tracks]] = [(name, tracks) for name, tracks in runs if tracks is not None]
    if scene is None or not drawn:
        return ""
    if beside.tracks is not None:
        drawn.insert(1, (REACHED_RUN if entry.reached else OPTIMUM_RUN, beside.tracks))
    return draw(scene, drawn, entry.case.job.objective_s, with_script=with_script)


def _cheapest_first(entry: Entry) -> Sequence[Found]:
    return sorted(entry.runs, key=lambda run: run.score["total_cost"])


def write_simulation(path: Path, entry: Entry) -> Path:
    """The report of one run, the first of the entry.

    Raises:
        InputError: plotly is not installed, or the file cannot be written.
    """
    run = entry.runs[0]
    acts = run.tracks.acts if run.tracks is not None else ()
    rows = [[f"{act.at:,.0f}", f"{act.before} → {act.after}", f"{act.code}: {act.text}", _became(act)] for act in acts]
    parts = [
        _figure(entry, with_script=True),
        heading("Changes of executors, and why"),
        table([["second", "executors", "why", "what became of it"], *rows]),
        heading("Decisions that changed nothing"),
        table([["how many", "code", "the last of them"], *hold_rows(run)]),
        heading("Score"),
        table(figure_rows(run.score, explained=True)),
        heading("How to read this"),
        note_list([*entry.bound.said, *unready_notes([entry]), *READING[:2], *run.faults]),
    ]
    title = f"Rheostat: {run.score['policy']}, {entry.case.name}"
    return write_page(path, frame(title, simulate_verdict(entry), parts))


def hold_rows(run: Found) -> list[list[str]]:
    """The decisions of a run that changed nothing, the most frequent code first."""
    held = sorted(run.holds.items(), key=lambda item: -item[1].count)
    return [[f"{each.count:,}", code, f"second {each.at:,.0f}: {each.text}"] for code, each in held]


def _became(act: Act) -> str:
    return NO_OUTCOME if act.outcome is None else act.outcome.value
