"""Equal tasks, or few kinds of them, on executors with one slot each, of which some are cold or come later.

What is equal for many executors is worked out once for all of them: those that begin at the same moment and are as warm
end their tasks at the same moments. It is what placing every task by itself comes to, in the same order: the next task
goes to the slot that is free first, and of several to that of the executor with the lowest number.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heappushpop
from math import inf
from operator import sub

from rheostat.sim.fleet import SimExecutor, number_of
from rheostat.sim.tally import Equal

__all__ = ["Chain", "Chains", "chained", "starts"]

Start = tuple[float, float]
"""When an executor begins, and what its first task takes longer."""

_Next = tuple[float, int, float, Sequence[SimExecutor], list[float]]
"""``(when they are free, lowest number, what the next task takes longer, executors, times so far)``."""


@dataclass(frozen=True, slots=True)
class Chain:
    """What each of some executors does: one task after the other.

    Attributes:
        executors: by number.
        times: when the first task begins, and when each of them ends.
    """

    executors: Sequence[SimExecutor]
    times: Sequence[float]


@dataclass(frozen=True, slots=True)
class Chains:
    """All tasks of some work. Each of them ends well.

    Attributes:
        each: of all executors that have a task.
        took_s: what each of them takes, in the order in which they are placed.
    """

    each: Sequence[Chain]
    took_s: Sequence[float]

    @property
    def end(self) -> float:
        """When the last one ends."""
        return max([chain.times[-1] for chain in self.each], default=-inf)

    def add(
        self, at: float, places: Mapping[SimExecutor, int], ended: list[int], busy_s: list[float], active: list[int]
    ) -> None:
        """Count what has been done by ``at``, and what is running then, with the executors that are at ``places``."""
        for chain in self.each:
            times = chain.times
            begun = bisect_right(times, at)
            if not begun:
                continue
            running, done = begun < len(times), begun - 1
            seconds = [*map(sub, times[1:begun], times)]
            before = after = -inf
            for place in map(places.get, chain.executors):
                if place is None:
                    continue
                if done:
                    ended[place] += done
                    if busy_s[place] != before:
                        before = after = busy_s[place]
                        for each_s in seconds:  # one by one: since Python 3.12 sum rounds otherwise
                            after += each_s
                    busy_s[place] = after
                if running:
                    active[place] += 1


def starts(
    usual: Sequence[SimExecutor], others: Sequence[SimExecutor], begin: float, cold_s: Mapping[int, float]
) -> Mapping[Start, Sequence[SimExecutor]]:
    """Who begins at the same moment and is as warm, all by number.

    Args:
        usual: those that are warm and there at ``begin``.
        others: the rest.
        begin: when the first ones begin.
        cold_s: what the first task takes longer on cold ones, by their number.
    """
    found: dict[Start, list[SimExecutor]] = {}
    for each in others:
        found.setdefault((max(begin, each.ready_at), cold_s.get(each.number, 0.0)), []).append(each)
    if not usual:
        return found
    as_usual = found.pop((begin, 0.0), None)
    return {**found, (begin, 0.0): sorted([*usual, *as_usual], key=number_of) if as_usual else usual}


def chained(kinds: Sequence[Equal], groups: Mapping[Start, Sequence[SimExecutor]]) -> Chains:
    """Place tasks of one kind after the other on such executors; there is one. Time passes in each task."""
    took_s: list[float] = []
    free: list[_Next] = [(at, who[0].number, more_s, who, [at]) for (at, more_s), who in groups.items()]
    heapify(free)
    at, number, more_s, who, times = heappop(free)
    for kind in kinds:
        each_s, left = kind.each_s, kind.count
        while left:
            count, until = len(who), free[0][0] if free else inf
            if until == at:  # others are free at the same moment: those with lower numbers go first
                count = bisect_left(who, free[0][1], key=number_of)
            if left < count:
                count = left
            if count < len(who):
                heappush(free, (at, who[count].number, more_s, who[count:], times[:]))
                who = who[:count]
            end = at + (each_s + more_s)
            took_s += [end - at] * count
            times.append(end)
            left -= count
            while end < until and left >= count:  # they are the next again
                at, end = end, end + each_s
                took_s += [end - at] * count
                times.append(end)
                left -= count
            at, number, more_s, who, times = heappushpop(free, (end, number, 0.0, who, times))
    free.append((at, number, more_s, who, times))
    return Chains([Chain(who, times) for _, _, _, who, times in free if len(times) > 1], took_s)
