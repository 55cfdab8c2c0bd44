"""How far a long command is: a bar on a terminal, elsewhere a plain line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from rheostat.cli.output import console

__all__ = ["PlainLines", "progress_lines"]

Watch = Callable[[int, int, str], None]


class PlainLines:
    """Prints a line when the words change, and otherwise at most one in ``every_s`` seconds.

    Args:
        what: before each line.
        screen: where to.
        clock: seconds that only grow.
        every_s: ≥ 0.
    """

    def __init__(self, what: str, screen: Console, clock: Callable[[], float], every_s: float = 30.0) -> None:
        self._what, self._screen, self._clock, self._every_s = what, screen, clock, every_s
        self._words, self._said_at = "", 0.0

    def __call__(self, done: int, total: int, words: str) -> None:
        """Tell ``done`` of ``total`` (0: not known)."""
        now = self._clock()
        if words == self._words and now - self._said_at < self._every_s:
            return
        self._words, self._said_at = words, now
        share = f" {done} of {total}" if total else ""
        self._screen.print(f"{self._what}: {words}{share}", markup=False, soft_wrap=True)


@contextmanager
def progress_lines(what: str) -> Iterator[Watch]:
    """Give a function to be told ``(done, total, words)``; all of it goes to standard error."""
    screen = console()
    if not screen.is_terminal:
        yield PlainLines(what, screen, time.monotonic)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(what, total=None)

        def show(done: int, total: int, words: str) -> None:
            share = f" {done} of {total}" if total else ""
            text = f"{what}: {words}{share}".replace("[", r"\[")
            bar.update(task, completed=done, total=total or None, description=text)

        yield show
