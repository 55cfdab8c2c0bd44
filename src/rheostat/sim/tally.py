"""What the executors of a simulated job have done in finished batches."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain, pairwise, repeat
from operator import itemgetter, mul
from typing import Any, NamedTuple

from rheostat.values import dataclass

__all__ = ["Begun", "Done", "Equal", "Range", "Shares", "Tally", "shares", "so_far"]

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

Range = tuple[int, int, int, tuple[int, ...], "Picked"]
"""Cells whose slots do as much of several numbers of tasks: those from the first up to the one behind the last.

Then how many tasks each slot does: of all numbers together, and of each number. And which of the figures of
:meth:`Shares.seconds` are its own.
"""

Picked = Callable[[Sequence[Any]], tuple[Any, ...]]


class Shares(NamedTuple):
    """Who does what of several numbers of tasks, where task j is on slot j mod s.

    Slots are taken together in cells: those from the edge of the cell before up to its own.

    Attributes:
        edges: of the cells; in each all slots do as much.
        waves: whole ones, of each number.
        ranges: together all cells, in order.
        spread: makes of a figure for each cell a figure for each slot.
    """

    edges: tuple[int, ...]
    waves: tuple[int, ...]
    ranges: tuple[Range, ...]
    spread: Picked

    def seconds(self, each_s: Sequence[float]) -> list[float]:
        """What each number takes a slot in whole waves; then what a task of each takes; then 0."""
        return [*map(mul, self.waves, each_s), *each_s, 0.0]


@lru_cache(maxsize=1024)
def shares(counts: tuple[int, ...], edges: tuple[int, ...]) -> Shares:
    """Who does what of so many tasks; cells are cut where their slots do not do as much.

    >>> found = shares((5, 4), (4,))
    >>> found.edges, [each[:4] for each in found.ranges], found.spread("ab")
    ((1, 4), [(0, 1, 3, (2, 1)), (1, 2, 2, (1, 1))], ('a', 'b', 'b', 'b'))
    >>> [each[4](found.seconds([2.0, 3.0])) for each in found.ranges]
    [(2.0, 2.0, 3.0, 0.0), (2.0, 3.0, 0.0)]
    """
    slots = edges[-1]
    waves = [divmod(count, slots) for count in counts]
    rests = {rest for _, rest in waves if rest}
    cells = sorted(rests.union(edges))
    ranges = []
    for first, behind in pairwise([0, *sorted(rests), slots]):
        each = tuple([whole + (first < rest) for whole, rest in waves])
        own = [[n, n + len(waves)] if first < rest else [n] for n, (_, rest) in enumerate(waves)]
        picked = itemgetter(*chain.from_iterable(own), 2 * len(waves))
        ranges.append((bisect_right(cells, first), bisect_left(cells, behind) + 1, sum(each), each, picked))
    return Shares(tuple(cells), tuple([whole for whole, _ in waves]), tuple(ranges), _spread(cells))


def _spread(cells: Sequence[int]) -> Picked:
    if len(cells) == cells[-1]:
        return tuple
    sizes = [behind - first for first, behind in pairwise([0, *cells])]
    return itemgetter(*[cell for cell, size in enumerate(sizes) for _ in range(size)])


def so_far(waves: Sequence[Begun], ranges: Sequence[Range]) -> list[tuple[int, int, int, float, int]]:
    """What slots have done of waves that have begun: ``(first, behind, tasks, their seconds, how many run now)``.

    >>> so_far([(4, 5, 1.0), (1, 4, 3.0)], shares((5, 4), (4,)).ranges)
    [(0, 1, 3, 5.0, 0), (1, 2, 2, 4.0, 0)]
    >>> so_far([(1, 5, 1.0)], shares((5,), (4,)).ranges)
    [(0, 1, 1, 1.0, 1), (1, 2, 1, 1.0, 0)]
    """
    found = []
    for first, behind, _, counts, _ in ranges:
        ended, busy_s, active = 0, 0.0, 0
        for number, (passed, _, each_s) in enumerate(waves):
            count = counts[number]
            if passed < count:
                count = passed
                active += 1
            ended += count
            busy_s += count * each_s
        found.append((first, behind, ended, busy_s, active))
    return found


class Tally:
    """Tasks of finished batches that ended well, and their seconds, by place in the list of registered executors.

    Waves of equal tasks are noted, and counted when somebody asks: nearly all that is ever done is done so, and each of
    many executors has then one sum for all of them. Neighbours that have done as much are counted as one cell.

    Attributes:
        one_each: whether waves are on one slot of each executor, in their order.
    """

    def __init__(self, executors: int) -> None:
        self._finished = [0] * executors
        self._busy_s = [0.0] * executors
        self._edges: tuple[int, ...] = tuple(range(1, executors + 1))
        self._together = False
        self._slots: tuple[int, ...] = ()
        self.one_each = False
        self._counts: list[int] = []
        self._each_s: list[float] = []

    def settle(self, slots: tuple[int, ...]) -> None:
        """From now on waves are on these slots: the place of the executor of each."""
        executors = len(self.counted()[0])
        self._slots = slots
        self.one_each = executors > 0 and slots == tuple(range(executors))

    def note(self, tasks: Equal) -> None:
        """Such tasks have ended: task j on slot j mod s."""
        self._counts.append(tasks.count)
        self._each_s.append(tasks.each_s)
        if len(self._counts) > _MOST:
            self._count()

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
        self._count()
        if self._together:
            spread = _spread(self._edges)
            self._finished, self._busy_s = [*spread(self._finished)], [*spread(self._busy_s)]
            self._together = False
        return self._finished, self._busy_s

    def told(self, begun: Sequence[Begun]) -> Done:
        """The same with waves that have begun, and what is running of them; where each executor has one slot."""
        self._count()
        found = self._shares(tuple([count for _, count, _ in begun]))
        finished, busy_s = self._finished[:], self._busy_s[:]
        active: list[int] = []
        for first, behind, tasks, seconds, running in so_far(begun, found.ranges):
            if behind - first == 1:
                finished[first] += tasks
                busy_s[first] += seconds
                active.append(running)
            else:
                finished[first:behind] = [each + tasks for each in finished[first:behind]]
                busy_s[first:behind] = [each + seconds for each in busy_s[first:behind]]
                active += [running] * (behind - first)
        return found.spread(finished), found.spread(busy_s), found.spread(active)

    def _count(self) -> None:
        if self._counts:
            counts, self._counts = self._counts, []
            each_s, self._each_s = self._each_s, []
            if self.one_each:
                self._count_alike(tuple(counts), each_s)
            else:
                self._count_slots(counts, each_s)

    def _count_alike(self, counts: tuple[int, ...], each_s: Sequence[float]) -> None:
        """Where each executor has one slot: the same for all that do as much."""
        found = self._shares(counts)
        finished, busy_s, all_s = self._finished, self._busy_s, found.seconds(each_s)
        for first, behind, tasks, _, picked in found.ranges:
            seconds = picked(all_s)
            if behind - first == 1:
                finished[first] += tasks
                busy_s[first] = sum(seconds, busy_s[first])
            else:
                finished[first:behind] = [before + tasks for before in finished[first:behind]]
                busy_s[first:behind] = map(sum, repeat(seconds), busy_s[first:behind])

    def _shares(self, counts: tuple[int, ...]) -> Shares:
        """Of so many tasks. Cells are cut as they are there."""
        if not self._together:
            self._edges = self._take_together()
            self._together = True
        found = shares(counts, self._edges)
        if len(found.edges) > len(self._edges):
            cells = [bisect_left(self._edges, edge) for edge in found.edges]
            self._finished = [self._finished[cell] for cell in cells]
            self._busy_s = [self._busy_s[cell] for cell in cells]
            self._edges = found.edges
        return found

    def _take_together(self) -> tuple[int, ...]:
        """The cells: neighbours that have done as much, if those are at least two on average."""
        finished, busy_s = self._finished, self._busy_s
        last = len(busy_s) - 1
        behind = [n + 1 for n in range(last) if busy_s[n] != busy_s[n + 1] or finished[n] != finished[n + 1]]
        edges = (*behind, last + 1)
        if 2 * len(edges) > last:
            return tuple(range(1, last + 2))
        self._finished, self._busy_s = [finished[n - 1] for n in edges], [busy_s[n - 1] for n in edges]
        return edges

    def _count_slots(self, counts: Sequence[int], each_s: Sequence[float]) -> None:
        """The same slot by slot."""
        finished, busy_s = self.counted()
        for count, seconds in zip(counts, each_s, strict=True):
            whole, rest = divmod(count, len(self._slots))
            for place in self._slots:
                finished[place] += whole
                busy_s[place] += whole * seconds
            for place in self._slots[:rest]:
                finished[place] += 1
                busy_s[place] += seconds
