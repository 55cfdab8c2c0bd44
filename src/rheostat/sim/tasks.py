"""Tasks on slots, in Spark's manner: in order, each to the first slot that is free.

A stage of T equal tasks on s equal slots takes ⌈T ÷ s⌉ waves. Otherwise every task is placed by itself (list
scheduling, R. L. Graham, "Bounds on multiprocessing timing anomalies", 1969): a slot of an executor that registers
meanwhile takes the next waiting task, the first task of a cold slot takes longer, and what an executor was running when
it died is done again before anything else.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from heapq import heapify, heappop, heapreplace
from math import inf
from operator import add
from typing import NamedTuple

from rheostat.sim.fleet import Fleet, SimExecutor
from rheostat.values import dataclass

__all__ = ["Equal", "Placed", "Task", "Tasks", "Work", "credit", "makespan", "run", "told"]


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


Tasks = dict[int, tuple[int, float, int]]
"""Of executors by number, what their tasks have come to: ``(ended well, their seconds, running now)``."""


class Placed(NamedTuple):
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


def credit(batch: Sequence[Placed]) -> None:
    """Count all of it as done, with the executors that did it."""
    for placed in batch:
        if placed.equal is not None:
            whole, rest = divmod(placed.equal.count, len(placed.slots))
            each_s = placed.equal.each_s
            for executor in placed.slots if whole else ():
                executor.finished += whole
                executor.busy_s += whole * each_s
            for executor in placed.slots[:rest]:
                executor.finished += 1
                executor.busy_s += each_s
    for executor, ended, busy_s, _ in _listed(batch, inf):
        executor.finished += ended
        executor.busy_s += busy_s


def told(batch: Sequence[Placed], at: float) -> Tasks:
    """What has been done of it by ``at``, and what is running then."""
    tasks: Tasks = {}
    for executor, ended, busy_s, running in (*_in_waves(batch, at), *_listed(batch, at)):
        before = tasks.get(executor.number)
        if before is not None:
            ended, busy_s, running = before[0] + ended, before[1] + busy_s, before[2] + running
        tasks[executor.number] = ended, busy_s, running
    return tasks


_Done = tuple[SimExecutor, int, float, int]
"""``(executor, ended well, their seconds, running now)``; more than once for an executor with several slots."""


def _in_waves(batch: Sequence[Placed], at: float) -> Iterable[_Done]:
    """Of the equal work; one batch places it on the same slots, stage after stage."""
    waves = [_waves(each, each.equal, at) for each in batch if each.equal is not None and each.begin <= at]
    if not waves:
        return ()
    slots = next(each.slots for each in batch if each.equal is not None)
    return zip(slots, *[reduce(_added, column) for column in zip(*waves, strict=True)], strict=True)


def _listed(batch: Sequence[Placed], at: float) -> Iterator[_Done]:
    """Of the tasks that are listed one by one."""
    for placed in batch:
        for begin, end, executor, well in placed.tasks:
            if end > at >= begin:
                yield executor, 0, 0.0, 1
            elif well and end <= at:
                yield executor, 1, end - begin, 0


def _waves(placed: Placed, equal: Equal, at: float) -> tuple[list[int], list[float], list[int]]:
    """Of each slot: tasks that have ended, their seconds, and those that are running."""
    count = len(placed.slots)
    whole, rest = divmod(equal.count, count)
    passed = whole + 1 if at >= placed.end else int((at - placed.begin) / equal.each_s)
    more, less = min(whole + 1, passed), min(whole, passed)
    return (
        [more] * rest + [less] * (count - rest),
        [more * equal.each_s] * rest + [less * equal.each_s] * (count - rest),
        [int(more <= whole)] * rest + [int(less < whole)] * (count - rest),
    )


def _added(first: list[float], second: list[float]) -> list[float]:
    return list(map(add, first, second))


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
    """Place work from ``begin`` on. ``warm``: slots ``(executor, core)`` that have run a task; grows.

    In a settled fleet every slot has.
    """
    if fleet.settled and isinstance(work, Equal) and executors:
        return Placed(begin, begin + makespan(work, len(fleet.slots)), work, fleet.slots)
    if fleet.settled:
        warm.update((each.number, core) for each in executors for core in range(len(each.warm)))
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
    if free and fleet.undisturbed and all(each.gone_at == inf for each in executors):
        return _undisturbed(work, begin, free, cold_s, warm)
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


def _undisturbed(
    work: Sequence[float], begin: float, free: list[_Slot], cold_s: dict[int, float], warm: set[tuple[int, int]]
) -> Placed:
    """The same where no executor is lost and each works at full speed: most batches of a growing fleet."""
    tasks = list[Task]()
    for seconds in work:
        at, number, core, executor = free[0]
        end = at + seconds
        if (number, core) not in warm:
            warm.add((number, core))
            end = at + (seconds + cold_s[number])
        tasks.append((at, end, executor, True))
        heapreplace(free, (end, number, core, executor))
    return Placed(begin, max([begin, *[task[1] for task in tasks]]), tasks=tuple(tasks))
