"""The live table of a demo: what the journal says now, in the terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from rheostat.demo.plan import DemoPlan
from rheostat.demo.run import Progress
from rheostat.demo.watch import JournalWatch
from rheostat.journal import DecisionRecord

__all__ = ["LiveTable"]

_PLAIN_EVERY_S = 5.0


class LiveTable:
    """Shows a run while it lasts; where there is no terminal, a line every five seconds."""

    def __init__(self, plan: DemoPlan, folder: Path, console: Console) -> None:
        self._plan, self._console = plan, console
        self._watch = JournalWatch(folder / "journal")
        self._live: Live | None = None
        self._shown_at = 0.0

    @contextmanager
    def open(self) -> Iterator[LiveTable]:
        """The table on the screen, until the block ends."""
        if not self._console.is_terminal:
            yield self
            return
        with Live(console=self._console, auto_refresh=False, transient=False) as live:
            self._live = live
            yield self

    def say(self, text: str) -> None:
        """A sentence above the table."""
        self._console.print(text, markup=False)

    def show(self, progress: Progress) -> None:
        """Draw where the run is."""
        cycles = self._watch.cycles()
        last = cycles[-1] if cycles else None
        rows = self._rows(progress, last)
        acted = next((cycle for cycle in reversed(cycles) if cycle.decision.acts), None)
        if self._live is not None:
            self._live.update(_table(rows, last, acted), refresh=True)
        elif time.monotonic() - self._shown_at >= _PLAIN_EVERY_S:
            self._shown_at = time.monotonic()
            why = f" · {last.decision.why}" if last else ""
            self.say(" · ".join(f"{name} {value}" for name, value in rows) + why)

    def _rows(self, progress: Progress, last: DecisionRecord | None) -> list[tuple[str, str]]:
        meant = last.assessment if last else None
        second = "" if progress.second is None else f" {progress.second:.0f} of {self._plan.seconds:.0f} s"
        lag = _figure(meant.lag_s if meant else None, "s", 1)
        executors = "–" if meant is None or meant.executors is None else str(meant.executors)
        wanted = last.decision.target if last else None
        arrow = f" → {wanted}" if wanted is not None and str(wanted) != executors else ""
        return [
            ("phase", progress.phase + second),
            ("offered", _figure(progress.rate, "/s")),
            ("arriving", _figure(meant.arrival_rate if meant else None, "/s")),
            ("processed", _figure(meant.processed_rate if meant else None, "/s")),
            ("backlog", _figure(meant.backlog if meant else None, "")),
            ("lag", f"{lag} (objective < {self._plan.objective_s:g} s)"),
            ("executors", f"{executors}{arrow} (bounds {self._plan.executors[0]}–{self._plan.executors[1]})"),
        ]


def _table(rows: list[tuple[str, str]], last: DecisionRecord | None, acted: DecisionRecord | None) -> Table:
    table = Table(show_header=False, title="Rheostat demo", min_width=90, expand=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for row in rows:
        table.add_row(*row)
    table.add_row("decision", _decision(last))
    table.add_row("last change", _decision(acted))
    return table


def _decision(cycle: DecisionRecord | None) -> str:
    if cycle is None:
        return "none yet"
    decided = cycle.decision
    return f"{decided.action.upper()} {decided.reason.code}: {decided.why}".replace("[", r"\[")


def _figure(value: float | None, unit: str, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}{unit and ' ' * (unit[0] != '/')}{unit}"
