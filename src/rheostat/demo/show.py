"""The live table of a demo, and its report: verdict, page, JSON."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from rheostat.config.reference import profile_ratios
from rheostat.demo.run import DemoPlan, DemoRun, JournalWatch, Progress
from rheostat.journal.records import DecisionRecord
from rheostat.report.html import Page, write_report
from rheostat.report.score import Series
from rheostat.text import executors, several


def result(run: DemoRun, baseline: DemoRun | None) -> dict[str, Any]:
    """The score, with that of the static run if it was run."""
    return {**run.score, "baseline": dict(baseline.score) if baseline is not None else None}


def verdict(run: DemoRun, baseline: DemoRun | None) -> str:
    """One sentence on savings and violations."""
    got = run.score
    static = baseline.score["executor_hours"] if baseline is not None else got["static_executor_hours"]
    kind = "run" if baseline is not None else "computed"
    used = got["executor_hours"]
    saved = f"{1 - used / static:.0%}" if used is not None and static else "an unknown share"
    most = got["executors_max"] or 0
    size, use = several(most, "static executor"), "uses" if most == 1 else "use"
    records_in, records_out = (
        "an unknown number of" if number is None else f"{number:,}"
        for number in (got["records_in"], got["records_out"])
    )
    return (
        f"{records_in} records went in and {records_out} came out; Rheostat used "
        f"{_seconds(used)} executor-seconds where {size} ({kind}) {use} "
        f"{_seconds(static)}: {saved} saved; lag was over the objective of {got['objective_s']:g} s for "
        f"{_share(got['violation_share'])} of the time (p95 {_figure(got['lag_p95_s'])} s, at most "
        f"{_figure(got['lag_max_s'])} s)."
    )


def ratio_rows() -> list[list[str]]:
    """The demo profile and the published constants, header first."""
    rows = [["setting", "demo", "published", "ratio"]]
    for ratio in profile_ratios("demo"):
        ours = ratio.note if ratio.ours is None else f"{ratio.ours:g} {ratio.unit}".strip()
        published = "none" if ratio.published is None else f"{ratio.published:g} {ratio.unit}".strip()
        shown = "–" if ratio.ratio is None else f"{ratio.ratio:.2f}"
        rows.append([f"{ratio.meaning} ({ratio.key})", ours, published, shown])
    return rows


def write_page(run: DemoRun, baseline: DemoRun | None, path: Path) -> Path:
    late = run.load.lateness.max_s
    lateness = "none was late" if late is None else f"the latest record was sent {late:.2f} s after it was due"
    page = Page(
        title=f"Rheostat demo: {run.plan.policy} on {run.plan.source}",
        verdict=verdict(run, baseline),
        notes=[*run.plan.notes(), f"The load: {several(run.load.records, 'record')} acknowledged, {lateness}."],
        score=run.score,
        tables={
            "The demo profile and the constants of the thesis behind reactive (Chania 2020)": ratio_rows(),
            "Compared with a static run at the peak size": _static_rows(
                run.score, baseline.score if baseline else None
            ),
        },
    )
    return write_report(path, page, Series(run.records), run.plan.objective_s)


def _static_rows(got: Mapping[str, Any], static: Mapping[str, Any] | None) -> list[list[str]]:
    def figures(score: Mapping[str, Any]) -> list[str]:
        lags = (_figure(score["lag_p95_s"]), _figure(score["lag_max_s"]), _share(score["violation_share"]))
        return [_seconds(score["executor_hours"]), *lags]

    most = executors((static or got)["executors_max"] or 0)
    if static is None:
        name, cells = "computed: peak × duration", [_seconds(got["static_executor_hours"]), *["not run"] * 3]
    else:
        name, cells = "run", figures(static)
    header = ["", "executor-seconds", "lag p95, s", "lag max, s", "over the objective"]
    return [header, ["Rheostat", *figures(got)], [f"static, {most} ({name})", *cells]]


def _seconds(hours: float | None) -> str:
    return "unknown" if hours is None else f"{hours * 3600:,.0f}"


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f}"


def _share(value: float | None) -> str:
    return "an unknown share" if value is None else f"{value:.1%}"


# Live table


_PLAIN_EVERY_S = 5.0


class LiveTable:
    """Shows a running demo as a table; without a terminal, as a line every five seconds."""

    def __init__(self, plan: DemoPlan, folder: Path, console: Console) -> None:
        self._plan, self._console = plan, console
        self._watch = JournalWatch(folder / "journal")
        self._live: Live | None = None
        self._shown_at = 0.0

    @contextmanager
    def open(self) -> Iterator[LiveTable]:
        """Show the table until the block ends."""
        if not self._console.is_terminal:
            yield self
            return
        with Live(console=self._console, auto_refresh=False, transient=False) as live:
            self._live = live
            yield self

    def say(self, text: str) -> None:
        self._console.print(text, markup=False)

    def show(self, progress: Progress) -> None:
        cycles = self._watch.cycles()
        last = cycles[-1] if cycles else None
        rows = self._rows(progress, last)
        if self._live is not None:
            acted = next((cycle for cycle in reversed(cycles) if cycle.decision.acts), None)
            table = Table(show_header=False, title="Rheostat demo", min_width=90, expand=False)
            table.add_column(style="bold", no_wrap=True)
            table.add_column()
            for row in [*rows, ("decision", _decision(last)), ("last change", _decision(acted))]:
                table.add_row(*row)
            self._live.update(table, refresh=True)
        elif time.monotonic() - self._shown_at >= _PLAIN_EVERY_S:
            self._shown_at = time.monotonic()
            why = f" · {last.decision.why}" if last else ""
            self.say(" · ".join(f"{name} {value}" for name, value in rows) + why)

    def _rows(self, progress: Progress, last: DecisionRecord | None) -> list[tuple[str, str]]:
        assessment = last.assessment if last else None
        second = "" if progress.second is None else f" {progress.second:.0f} of {self._plan.seconds:.0f} s"
        lag = _row(assessment.lag_s if assessment else None, "s", 1)
        executors = "–" if assessment is None or assessment.executors is None else str(assessment.executors)
        wanted = last.decision.target if last else None
        arrow = f" → {wanted}" if wanted is not None and str(wanted) != executors else ""
        return [
            ("phase", progress.phase + second),
            ("offered", _row(progress.rate, "/s")),
            ("arriving", _row(assessment.arrival_rate if assessment else None, "/s")),
            ("processed", _row(assessment.processed_rate if assessment else None, "/s")),
            ("backlog", _row(assessment.backlog if assessment else None, "")),
            ("lag", f"{lag} (objective < {self._plan.objective_s:g} s)"),
            ("executors", f"{executors}{arrow} (bounds {self._plan.executors[0]}–{self._plan.executors[1]})"),
        ]


def _decision(cycle: DecisionRecord | None) -> str:
    if cycle is None:
        return "none yet"
    decided = cycle.decision
    return f"{decided.action.upper()} {decided.reason.code}: {decided.why}".replace("[", r"\[")


def _row(value: float | None, unit: str, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}{unit and ' ' * (unit[0] != '/')}{unit}"
