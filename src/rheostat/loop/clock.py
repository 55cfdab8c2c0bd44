"""The real clock, and the times of the cycles."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Protocol

from rheostat.ports import Clock


class StoppableClock(Clock, Protocol):
    """A clock whose waits can be ended from another thread, and that can go on where another one has ended."""

    def start_from(self, at: float) -> None:
        """Show at least this time from now on."""

    def wall_ahead_s(self) -> float:
        """Time of the wall clock − time of this clock, s; for people."""

    def stop(self) -> None:
        """Cut short the present wait and every later one."""


class SystemClock:
    """Seconds of the epoch at the start; from then on time passes steadily, also where the wall clock is set."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._start = wall() - steady()
        self._stopped = threading.Event()

    def now(self) -> float:
        return self._start + self._steady()

    def start_from(self, at: float) -> None:
        self._start = max(self._start, at - self._steady())

    def wall_ahead_s(self) -> float:
        return self._wall() - self.now()

    def wait(self, seconds: float) -> bool:
        return self._stopped.wait(max(0.0, seconds))

    def stop(self) -> None:
        self._stopped.set()


class UnstoppedClock:
    """The time of another clock; its waits go on when that one is stopped."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> float:
        return self._clock.now()

    def wait(self, seconds: float) -> bool:
        time.sleep(max(0.0, seconds))
        return False


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

    def start_from(self, at: float) -> None:
        self.at = max(self.at, at)

    def wall_ahead_s(self) -> float:
        return 0.0

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
