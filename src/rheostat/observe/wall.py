"""Times of Spark's wall clock as times of the loop, which do not jump where that clock is set."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from rheostat.model import Batch

_SET_S = 1.0
"""A clock is set, not only corrected, where it moves by so much against the steady one."""


class WallTimes:
    """What the wall clock said, placed on the loop's clock when it is first seen; asked about again, it stays there.

    An event of before the clock was set is placed by what the clock was ahead before. ``wall``, ``steady``: the clocks.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._loop_ahead_s = self._wall_ahead_s = 0.0
        self._at: float | None = None
        self._before: tuple[float, float] | None = None
        self._placed: dict[tuple[str, float], float] = {}
        self._recent: dict[tuple[str, float], float] = {}

    def begin(self, at: float) -> None:
        """An observation begins at this time of the loop. What the last one did not ask about is forgotten."""
        steady, former_s = self._steady(), self._wall_ahead_s
        loop_ahead_s, self._wall_ahead_s = at - steady, self._wall() - steady
        if self._at is None or loop_ahead_s - self._loop_ahead_s >= _SET_S:  # the loop's clock starts, or starts anew
            self._loop_ahead_s, self._before, self._recent = loop_ahead_s, None, {}
        elif abs(self._wall_ahead_s - former_s) >= _SET_S:
            self._before = self._at, former_s
        self._loop_ahead_s = max(self._loop_ahead_s, loop_ahead_s)
        self._at, self._placed, self._recent = at, self._recent, {}

    def place(self, wall: float, of: str = "batch") -> float:
        """The time of the loop at a time of the wall clock, which may show a time twice, but not for one thing."""
        placed = self._recent.get((of, wall), self._placed.get((of, wall)))
        if placed is None:
            placed = wall - self._wall_ahead_s + self._loop_ahead_s
            latest = self._steady() + self._loop_ahead_s + _SET_S
            if self._before is not None and not self._before[0] <= placed <= latest:
                placed = wall - self._before[1] + self._loop_ahead_s
        self._recent[of, wall] = round(placed, 6)
        return self._recent[of, wall]

    def place_batch(self, batch: Batch) -> Batch:
        """The batch at its time of the loop. In one during which the clock was set, only the duration is known."""
        began, ended = self.place(batch.at - batch.duration_s), self.place(batch.at)
        if abs(ended - began - batch.duration_s) < _SET_S:
            return replace(batch, at=ended)
        return replace(batch, at=ended, duration_s=ended - began, planning_s=None, add_batch_s=None, commit_s=None)
