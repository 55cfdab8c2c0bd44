"""The real clock, and the times of the cycles."""

from __future__ import annotations

import math
import threading
import time
from typing import Protocol

from rheostat.ports import Clock


class StoppableClock(Clock, Protocol):
    """A clock whose waits can be ended from another thread."""

    def stop(self) -> None:
        """Cut short the present wait and every later one."""


class SystemClock:
    """Seconds of the epoch."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def now(self) -> float:
        return time.time()

    def wait(self, seconds: float) -> bool:
        return self._stopped.wait(max(0.0, seconds))

    def stop(self) -> None:
        self._stopped.set()


class ManualClock:
    """A clock for tests: a wait moves it on at once.

    Attributes:
        waits: what was waited for, in seconds.
    """

    def __init__(self, at: float = 0.0) -> None:
        self.at = at
        self.waits: list[float] = []
        self._stopped = False

    def now(self) -> float:
        return self.at

    def wait(self, seconds: float) -> bool:
        """Move on; True if the clock was stopped."""
        if not self._stopped:
            self.waits.append(seconds)
            self.at += seconds
        return self._stopped

    def stop(self) -> None:
        self._stopped = True


def next_due(due: float, now: float, every_s: float) -> float:
    """When the next cycle begins: on the beat of ``due``, without catching up on cycles that were missed.

    A clock that was set back does not make the loop sleep for longer than one beat.

    >>> next_due(100.0, 103.0, 15.0), next_due(100.0, 131.0, 15.0), next_due(100.0, 40.0, 15.0)
    (115.0, 145.0, 55.0)
    """
    due += every_s * max(1, math.floor((now - due) / every_s) + 1)
    return min(due, now + every_s)
