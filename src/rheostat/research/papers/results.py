"""Experiments of the papers: each statement of a document, with our figures beside its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rheostat.judge.compare import crew
from rheostat.report.html import PlotFigure, frame, heading, note_list, table, write_page

# ----------------------------------------------------------------------------------- statements and their results

SCHEMA = "rheostat.experiment/1"
_LISTED = ("id", "statement", "ours", "document", "holds", "why")
_REQUIRED_SHARE = 0.8
"""Share of the seeds in which a statement must hold."""


class SeedResult(NamedTuple):
    """Figures of one seed, and whether the statement holds in them."""

    seed: int
    ours: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Result:
    """One statement: our figures and the document's in words, and why they differ or how ours were obtained.

    ``id``: section of the document, and a word. ``by_seed``: empty for a single seed.
    """

    id: str
    statement: str
    ours: str | None
    document: str | None
    holds: bool
    why: str
    by_seed: tuple[SeedResult, ...] = ()


Figures = tuple[float | None, ...]


class Statement(NamedTuple):
    """A statement that is checked in the runs of each seed.

    ``words``: our figures in words, with a place for each, formatted by ``number``. ``check``: takes the runs of one
    seed; whether the statement holds, and the figures (None: there is none).
    """

    id: str
    statement: str
    document: str | None
    why: str
    words: str
    check: Callable[[Any], tuple[bool, Figures]]
    number: Callable[[float | None], object] = lambda value: value

    def judge(self, runs: Mapping[int, Any]) -> Result:
        """Result over all seeds; ``runs``: by seed."""

        def say(figures: Figures) -> str:
            return self.words.format(*map(self.number, figures))

        checked = {seed: self.check(each) for seed, each in runs.items()}
        by_seed = [SeedResult(seed, say(figures), holds) for seed, (holds, figures) in checked.items()]
        means = tuple(map(_mean, zip(*(figures for _, figures in checked.values()), strict=True)))
        result = Result(self.id, self.statement, say(means), self.document, holds=False, why=self.why)
        return judge_seeds(result, by_seed)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def judge_seeds(result: Result, by_seed: Sequence[SeedResult]) -> Result:
    """A statement over one seed or more: it holds if it does in at least four of five; ``result.ours``: the means.

    >>> once = Result("5.3 x", "it is less", "1.5", None, False, "")
    >>> result = judge_seeds(once, [SeedResult(1, "1", True), SeedResult(2, "2", False)])
    >>> result.ours, result.holds
    ('1.5; in 1 of 2 seeds', False)
    """
    if len(by_seed) == 1:
        return replace(result, ours=by_seed[0].ours, holds=by_seed[0].holds)
    held = sum(each.holds for each in by_seed)
    ours = f"{result.ours}; in {held} of {len(by_seed)} seeds"
    return replace(result, ours=ours, holds=held >= _REQUIRED_SHARE * len(by_seed), by_seed=tuple(by_seed))


class Plot(NamedTuple):
    """Plots one above the other: lines as :func:`rheostat.report.html.line` makes them, each with its row, from 1.

    ``limit``: a row, and the value of a line across it.
    """

    titles: Sequence[str]
    lines: Sequence[tuple[int, Mapping[str, Any]]]
    height: int
    limit: tuple[int, float] | None = None


@dataclass(frozen=True)
class Part:
    """One of the document's experiments, with what the report shows beside its statements.

    ``tables``: each with a header row first. ``unready``: what policies never did in the runs of the first seed, and
    what they would have needed.
    """

    title: str
    results: Sequence[Result]
    tables: Sequence[Sequence[Sequence[str]]] = ()
    plots: Sequence[Plot] = ()
    notes: Sequence[str] = ()
    unready: Sequence[str] = ()


def by_seed(results: Sequence[Result]) -> list[list[list[str]]]:
    """A table of our figures with each seed, header first; no table for a single seed."""
    several = [result for result in results if result.by_seed]
    if not several:
        return []
    head = ["", *(f"seed {each.seed}" for each in several[0].by_seed)]
    rows = [[r.id, *(each.ours + ("" if each.holds else " (no)") for each in r.by_seed)] for r in several]
    return [[head, *rows]]


def columns(points: Iterable[tuple[float, float | None]]) -> tuple[list[float], list[float | None]]:
    """Times and values for a plot; five digits are more than it shows."""
    rounded = [(round(at, 1), None if value is None else float(f"{value:.5g}")) for at, value in points]
    return [at for at, _ in rounded], [value for _, value in rounded]


@dataclass(frozen=True)
class Experiment:
    """All parts that were run; the plots show the first seed."""

    name: str
    parts: Sequence[Part]
    seeds: Sequence[int] = (1,)

    @property
    def results(self) -> list[Result]:
        return [result for part in self.parts for result in part.results]

    @property
    def notes(self) -> list[str]:
        """What policies never did in the runs of the first seed."""
        return [f"{part.title}, {each}" for part in self.parts for each in part.unready]

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "name": self.name,
            "results": [{name: getattr(result, name) for name in _LISTED} for result in self.results],
            "seeds": list(self.seeds),
            "by_seed": [{"id": result.id, **seed._asdict()} for result in self.results for seed in result.by_seed],
            "notes": self.notes,
        }


Task = TypeVar("Task")
Done = TypeVar("Done")


def run_tasks(
    work: Callable[[Task], Done], tasks: Sequence[Task], jobs: int, watch: Callable[[int, int, str], None]
) -> list[Done]:
    """Results of ``work`` for each task, in their order, computed in ``jobs`` processes."""
    with crew(work, jobs, len(tasks)) as workers:
        return workers.run(tasks, lambda done, _place, _result: watch(done, len(tasks), "runs"))


# ----------------------------------------------------------------------------------------------------- the report


def write_experiment(path: Path, experiment: Experiment) -> Path:
    """Write the page and return its path. Raises InputError: plotly is not installed, or the file cannot be written."""
    held, seeds = sum(result.holds for result in experiment.results), ", ".join(map(str, experiment.seeds))
    body, has_script = [table(rows_of(experiment)), note_list(experiment.notes)], False
    for part in experiment.parts:
        if part.tables or part.plots:
            body += [heading(part.title), note_list(part.notes), *map(table, part.tables)]
        for plot in part.plots:
            body.append(_draw(plot, with_script=not has_script))
            has_script = True
    verdict = f"{held} of {len(experiment.results)} statements hold. Seeds: {seeds}."
    return write_page(path, frame(f"Rheostat: experiment {experiment.name}", verdict, body))


def rows_of(experiment: Experiment) -> list[list[str]]:
    """The statements as a table, header first."""
    rows = [
        [each.id, each.statement, each.ours or "–", each.document or "–", "yes" if each.holds else "no", each.why]
        for each in experiment.results
    ]
    return [["", "statement", "ours", "the document", "holds", "why"], *rows]


def _draw(plot: Plot, *, with_script: bool) -> str:
    figure = PlotFigure(plot.titles, "seconds since the start of the load", height=plot.height)
    for row, drawn in plot.lines:
        figure.add(row, drawn)
    if plot.limit is not None:
        figure.limit(*plot.limit)
    return figure.html(with_script=with_script)
