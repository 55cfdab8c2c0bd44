"""One daemon thread that does one thing after another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

__all__ = ["Background"]


class Background:
    """Work in the order in which it is given. The thread starts with the first piece and never holds up an exit.

    One thread for all of it, as each thread that calls the JVM has a thread of its own there.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def __call__(self, work: Callable[[], None]) -> None:
        """Do it later. ``work`` must not raise; a thread that died all the same is replaced."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put(work)

    def close(self) -> None:
        """End after what was given before. May be called more than once."""
        self._queue.put(None)

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            work()
