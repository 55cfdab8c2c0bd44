"""The time by which a load runs."""

from __future__ import annotations

import threading
import time

__all__ = ["RunClock"]


class RunClock:
    """Epoch seconds that run evenly: set by the wall clock once, then monotonic, so that a load is not set back.

    Attributes:
        stop: set it, from any thread or a signal handler, to end the run.
    """

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.stop = stop or threading.Event()
        self._shift = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds of the epoch."""
        return self._shift + time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Wait; True if the run is to end."""
        return self.stop.wait(seconds)
