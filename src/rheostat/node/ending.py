"""Being told to end, at any time from the beginning on."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["EndSignals"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class EndSignals:
    """While it lasts SIGTERM, SIGINT and SIGHUP do not end the process: what stands in :meth:`on` is called.

    A context manager, for the main thread. A signal that comes too early is remembered; later ones change nothing.

    Attributes:
        asked: whether one has come.
    """

    def __init__(self) -> None:
        self.asked = False
        self._end: Callable[[], None] = lambda: None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._take) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def on(self, end: Callable[[], None]) -> None:
        """Call this from now on; at once if a signal has come already."""
        self._end = end
        if self.asked:
            end()

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        self._end()
