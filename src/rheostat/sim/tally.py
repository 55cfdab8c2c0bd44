"""What the executors of a simulated job have done: waves of equal tasks, and others, counted for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise
from operator import itemgetter

__all__ = ["Begun", "Done", "Equal", "Range", "Tally", "shares", "so_far"]

Done = tuple[tuple[int, ...], tuple[float, ...], tuple[int, ...]]
"""What executors have come to, each at its place: tasks that ended well, their seconds, and how many run now."""

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


Begun = tuple[int, int, float]
"""Waves that have begun: how many tasks a slot has had time for, if it has as many; all tasks; seconds of each."""

Picked = Callable[[Sequence[float]], tuple[float, ...]]
"""Takes the seconds that are its own out of all; the 0 at the front twice, since of one alone it would be no tuple."""

Range = tuple[int, int, int, Picked, tuple[int, ...]]
"""Slots that do as much of several numbers of tasks: those from the first up to the one behind the last.

Then how many tasks of the ended waves each of them has done; which seconds of the ended waves are its own; and how
many tasks it has in each of the waves that have begun.
"""


@lru_cache(maxsize=1024)
def shares(ended: tuple[int, ...], begun: tuple[int, ...], slots: int) -> tuple[Range, ...]:
    """Who does what of so many tasks in ended waves, and of so many in waves that have begun: task j on slot j mod s.

    The ranges together are all slots, in order. What a slot picks of ``[0, seconds of the first number in whole waves,
    seconds of one of its tasks, the same of the second, …]`` is what it was busy.

    >>> found = shares((5, 4), (6,), 4)
    >>> [(first, behind, tasks, counts) for first, behind, tasks, _, counts in found]
    [(0, 1, 3, (2,)), (1, 2, 2, (2,)), (2, 4, 2, (1,))]
    >>> [picked([0.0, 2.0, 2.0, 3.0, 3.0]) for _, _, _, picked, _ in found]
    [(0.0, 0.0, 2.0, 2.0, 3.0), (0.0, 0.0, 2.0, 3.0), (0.0, 0.0, 2.0, 3.0)]
    """
    waves, later = [divmod(count, slots) for count in ended], [divmod(count, slots) for count in begun]
    edges = sorted({0, slots, *[rest for _, rest in (*waves, *later)]})
    found = []
    for first, behind in pairwise(edges):
        own = [[2 * n + 1, 2 * n + 2] if first < rest else [2 * n + 1] for n, (_, rest) in enumerate(waves)]
        picked = itemgetter(0, 0, *chain.from_iterable(own))
        tasks = sum([whole + (first < rest) for whole, rest in waves])
        found.append((first, behind, tasks, picked, tuple([whole + (first < rest) for whole, rest in later])))
    return tuple(found)


def so_far(begun: Sequence[Begun], counts: Sequence[int]) -> tuple[int, float, int]:
    """What a slot with so many tasks in each of some waves has done: ``(tasks, their seconds, how many run now)``.

    >>> so_far([(4, 5, 1.0), (1, 4, 3.0)], (2, 1)), so_far([(1, 5, 1.0)], (2,))
    ((3, 5.0, 0), (1, 1.0, 1))
    """
    ended, busy_s, active = 0, 0.0, 0
    for number, (passed, _, each_s) in enumerate(begun):
        count = counts[number]
        if passed < count:
            count = passed
            active += 1
        ended += count
        busy_s += count * each_s
    return ended, busy_s, active


class Tally:
    """Tasks of finished batches that ended well, and their seconds, by place in the list of registered executors.

    Waves of equal tasks are noted, and counted when somebody asks: nearly all that is ever done is done so, and what is
    added is then the same for all of many executors.

    Attributes:
        one_each: whether waves are on one slot of each executor, in their order.
    """

    def __init__(self, executors: int) -> None:
        self._finished = [0] * executors
        self._busy_s = [0.0] * executors
        self._slots: tuple[int, ...] = ()
        self.one_each = False
        self._counts: list[int] = []
        self._seconds = [0.0]

    def settle(self, slots: tuple[int, ...]) -> None:
        """From now on waves are on these slots: the place of the executor of each."""
        self.counted()
        self._slots = slots
        self.one_each = slots == tuple(range(len(self._finished)))

    def note(self, tasks: Equal) -> None:
        """Such tasks have ended: task j on slot j mod s."""
        count, each_s = tasks.count, tasks.each_s
        self._counts.append(count)
        self._seconds += (count // len(self._slots) * each_s, each_s)
        if len(self._counts) > _MOST:
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
        """Tasks that ended well, and their seconds, of each executor; what is changed in these lists is kept."""
        if self._counts:
            if self.one_each:
                self.told(())
            else:
                self._count_slots()
        return self._finished, self._busy_s

    def told(self, begun: Sequence[Begun]) -> Done:
        """What is ``counted``, with what waves that have begun have done and what runs of them; if ``one_each``."""
        finished, busy_s = self._finished, self._busy_s
        now, now_s = finished[:], busy_s[:]
        active: list[int] = []
        found = shares(tuple(self._counts), tuple([count for _, count, _ in begun]), len(self._slots))
        all_s, self._counts, self._seconds = self._seconds, [], [0.0]
        for first, behind, tasks, picked, counts in found:
            seconds, before_s, sum_s = picked(all_s), -1.0, 0.0
            more, more_s, running = so_far(begun, counts)
            more += tasks
            active += [running] * (behind - first)
            for place in range(first, behind):
                if busy_s[place] != before_s:  # neighbours have often done as much
                    before_s = sum_s = busy_s[place]
                    for each_s in seconds:  # one by one: since Python 3.12 sum rounds otherwise
                        sum_s += each_s
                busy_s[place] = sum_s
                now_s[place] = sum_s + more_s
                now[place] += more
                finished[place] += tasks
        return tuple(now), tuple(now_s), tuple(active)

    def _count_slots(self) -> None:
        """Count waves slot by slot."""
        finished, busy_s = self._finished, self._busy_s
        for number, count in enumerate(self._counts):
            whole, rest = divmod(count, len(self._slots))
            whole_s, each_s = self._seconds[2 * number + 1 : 2 * number + 3]
            for place in self._slots:
                finished[place] += whole
                busy_s[place] += whole_s
            for place in self._slots[:rest]:
                finished[place] += 1
                busy_s[place] += each_s
        self._counts, self._seconds = [], [0.0]
