"""What the executors of a simulated job have done in finished batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, repeat
from typing import NamedTuple

from rheostat.values import dataclass

__all__ = ["Equal", "Range", "Tally", "ranges"]

_MOST = 64
"""Waves that are noted before they are counted, if nobody asks before."""


@dataclass(frozen=True, slots=True)
class Equal:
    """Tasks that all take as long: ``count`` of ``each_s`` seconds."""

    count: int
    each_s: float

    def listed(self) -> list[float]:
        """One figure for each task."""
        return [self.each_s] * self.count


class Range(NamedTuple):
    """Slots that do as much of several numbers of tasks: those from ``first`` up to ``behind``.

    Attributes:
        tasks: of each slot.
        shares: the same for each of the numbers: in whole waves, and in the last one (0 or 1).
    """

    first: int
    behind: int
    tasks: int
    shares: tuple[tuple[int, int], ...]


@lru_cache(maxsize=1024)
def ranges(counts: tuple[int, ...], slots: int) -> tuple[Range, ...]:
    """Who does what of so many tasks, j on slot j mod s; all ranges together are all slots, in order.

    >>> for each in ranges((5, 4), 4):
    ...     print(each)
    Range(first=0, behind=1, tasks=3, shares=((1, 1), (1, 0)))
    Range(first=1, behind=4, tasks=2, shares=((1, 0), (1, 0)))
    """
    waves = [divmod(count, slots) for count in counts]
    edges = sorted({0, slots, *[rest for _, rest in waves]})
    found = []
    for first, behind in pairwise(edges):
        shares = tuple([(whole, int(first < rest)) for whole, rest in waves])
        found.append(Range(first, behind, sum(whole + more for whole, more in shares), shares))
    return tuple(found)


class Tally:
    """Tasks of finished batches that ended well, and their seconds, by place in the list of registered executors.

    Waves of equal tasks are noted, and counted when somebody asks: nearly all that is ever done is done so, and each of
    many executors has then one sum for all of them.

    Attributes:
        one_each: whether waves are on one slot of each executor, in their order.
    """

    def __init__(self, executors: int) -> None:
        self._finished = [0] * executors
        self._busy_s = [0.0] * executors
        self._slots: tuple[int, ...] = ()
        self.one_each = False
        self._waves: list[Equal] = []

    def settle(self, slots: tuple[int, ...]) -> None:
        """From now on waves are on these slots: the place of the executor of each."""
        self.counted()
        self._slots = slots
        self.one_each = slots == tuple(range(len(self._finished)))

    def note(self, waves: Sequence[Equal]) -> None:
        """Such tasks have ended: of each, task j on slot j mod s."""
        self._waves += waves
        if len(self._waves) > _MOST:
            self.counted()

    def add(self, place: int, tasks: int, seconds: float) -> None:
        """So many tasks have ended on one executor, so much time together."""
        finished, busy_s = self.counted()
        finished[place] += tasks
        busy_s[place] += seconds

    def join(self) -> None:
        """One more, behind the others."""
        finished, busy_s = self.counted()
        finished.append(0)
        busy_s.append(0.0)

    def leave(self, place: int) -> None:
        """One is gone."""
        finished, busy_s = self.counted()
        finished.pop(place)
        busy_s.pop(place)

    def counted(self) -> tuple[list[int], list[float]]:
        """Tasks that ended well, and their seconds, of each executor."""
        waves, self._waves = self._waves, []
        if waves and self.one_each:
            self._count_alike(waves)
        elif waves:
            self._count_slots(waves)
        return self._finished, self._busy_s

    def _count_alike(self, waves: Sequence[Equal]) -> None:
        """Where each executor has one slot: the same for all that do as much."""
        finished: list[int] = []
        busy_s: list[float] = []
        for first, behind, tasks, shares in ranges(tuple([each.count for each in waves]), len(self._slots)):
            seconds: list[float] = []
            for each, (whole, more) in zip(waves, shares, strict=True):
                seconds.append(whole * each.each_s)
                if more:
                    seconds.append(each.each_s)
            finished += [before + tasks for before in self._finished[first:behind]]
            busy_s += map(sum, repeat(seconds), self._busy_s[first:behind])
        self._finished, self._busy_s = finished, busy_s

    def _count_slots(self, waves: Sequence[Equal]) -> None:
        """The same slot by slot."""
        finished, busy_s = self._finished, self._busy_s
        for each in waves:
            whole, rest = divmod(each.count, len(self._slots))
            for place in self._slots:
                finished[place] += whole
                busy_s[place] += whole * each.each_s
            for place in self._slots[:rest]:
                finished[place] += 1
                busy_s[place] += each.each_s
