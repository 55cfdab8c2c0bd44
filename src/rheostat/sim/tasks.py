"""Tasks on slots, in Spark's manner: in order, each to the first slot that is free.

A stage of T equal tasks on s equal slots takes ⌈T ÷ s⌉ waves. Otherwise every task is placed by itself (list
scheduling, R. L. Graham, "Bounds on multiprocessing timing anomalies", 1969): a slot of an executor that registers
meanwhile takes the next waiting task, the first task of a cold slot takes longer, and what an executor was running when
it died is done again before anything else.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from math import inf

from rheostat.sim.fleet import Fleet, SimExecutor

__all__ = ["Equal", "Placed", "Task", "Tasks", "Work", "makespan", "run"]


@dataclass(frozen=True, slots=True)
class Equal:
    """Tasks that all take as long: ``count`` of ``each_s`` seconds."""

    count: int
    each_s: float

    def listed(self) -> list[float]:
        """One figure for each task."""
        return [self.each_s] * self.count


Work = Equal | list[float]
"""The tasks of stages without a barrier between them: seconds each takes on a warm slot at full speed, in order."""

Task = tuple[float, float, SimExecutor, bool]
"""``(begin, end, executor, whether it ended well)``."""


Tasks = dict[int, list[float]]
"""Of executors by number, what their tasks have come to: ``[ended well, their seconds, running now]``."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Work placed on slots. Equal tasks on equal slots are not listed one by one: task j runs on slot j mod s.

    Attributes:
        end: when the last one ends; infinite while there is no slot for it.
        slots: the executors of the slots, for equal tasks.
        tasks: the others, one by one.
    """

    begin: float
    end: float
    equal: Equal | None = None
    slots: tuple[SimExecutor, ...] = ()
    tasks: tuple[Task, ...] = ()

    def credit(self) -> None:
        """Count all of it as done, with the executors that did it."""
        if self.equal is not None:
            whole, rest = divmod(self.equal.count, len(self.slots))
            more_s, each_s = (whole + 1) * self.equal.each_s, whole * self.equal.each_s
            for executor in self.slots[:rest]:
                executor.finished += whole + 1
                executor.busy_s += more_s
            for executor in self.slots[rest:] if whole else ():
                executor.finished += whole
                executor.busy_s += each_s
        for begin, end, executor, well in self.tasks:
            if well:
                executor.finished += 1
                executor.busy_s += end - begin

    def tell(self, at: float, tasks: Tasks) -> None:
        """Add to ``tasks`` what has been done by ``at``, and what is running then."""
        if at < self.begin:
            return
        if self.equal is not None:
            self._tell_waves(self.equal, at, tasks)
        for begin, end, executor, well in self.tasks:
            if begin <= at:
                found = tasks.setdefault(executor.number, [0, 0.0, 0])
                if end > at:
                    found[2] += 1
                elif well:
                    found[0] += 1
                    found[1] += end - begin

    def _tell_waves(self, equal: Equal, at: float, tasks: Tasks) -> None:
        whole, rest = divmod(equal.count, len(self.slots))
        passed = whole + 1 if at >= self.end else int((at - self.begin) / equal.each_s)
        for number, executor in enumerate(self.slots):
            count = whole + 1 if number < rest else whole
            ended = min(count, passed)
            found = tasks.setdefault(executor.number, [0, 0.0, 0])
            found[0] += ended
            found[1] += ended * equal.each_s
            found[2] += ended < count


def makespan(work: Work, slots: int) -> float:
    """How long it takes on so many equal, warm slots, s.

    >>> makespan(Equal(5, 2.0), 2), makespan([3.0, 1.0, 1.0, 1.0], 2), makespan([1.0], 0)
    (6.0, 3.0, inf)
    """
    if slots < 1:
        return inf
    if isinstance(work, Equal):
        return -(-work.count // slots) * work.each_s
    free = [0.0] * slots
    for seconds in work:
        heapreplace(free, free[0] + seconds)
    return max(free)


def run(work: Work, begin: float, executors: Sequence[SimExecutor], fleet: Fleet, warm: set[tuple[int, int]]) -> Placed:
    """Place work from ``begin`` on. ``warm``: slots ``(executor, core)`` that have run a task; grows."""
    if fleet.settled and isinstance(work, Equal) and executors:
        slots = tuple(each for each in executors for _ in each.warm)
        return Placed(begin, begin + makespan(work, len(slots)), work, slots)
    return _one_by_one(work.listed() if isinstance(work, Equal) else work, begin, executors, fleet, warm)


_Slot = tuple[float, int, int, SimExecutor]


def _one_by_one(
    work: Sequence[float], begin: float, executors: Sequence[SimExecutor], fleet: Fleet, warm: set[tuple[int, int]]
) -> Placed:
    free: list[_Slot] = [
        (max(begin, each.ready_at), each.number, core, each) for each in executors for core in range(len(each.warm))
    ]
    heapify(free)
    cold_s = fleet.cold_tasks_s({number: at for at, number, core, _ in free if (number, core) not in warm})
    lost: list[tuple[float, float]] = []
    tasks, position, last = list[Task](), 0, begin
    while position < len(work) or lost:
        if not free:
            return Placed(begin, inf, tasks=tuple(tasks))
        at, number, core, executor = free[0]
        if executor.gone_at <= at:
            heappop(free)
            continue
        if lost and lost[0][0] <= at:
            seconds = lost.pop(0)[1]
        elif position < len(work):
            seconds, position = work[position], position + 1
        else:
            heapreplace(free, (lost[0][0], number, core, executor))
            continue
        end = fleet.finish(executor, at, seconds + (0.0 if (number, core) in warm else cold_s[number]))
        if executor.gone_at < end:
            tasks.append((at, executor.gone_at, executor, False))
            insort(lost, (executor.gone_at, seconds))
            heappop(free)
            continue
        warm.add((number, core))
        tasks.append((at, end, executor, True))
        heapreplace(free, (end, number, core, executor))
        last = max(last, end)
    return Placed(begin, last, tasks=tuple(tasks))
