"""Tasks on slots, scheduled as Spark does: in order, each on the first free slot.

A stage of T equal tasks on s equal slots takes ⌈T ÷ s⌉ waves. Otherwise tasks are placed one by one (list scheduling,
R. L. Graham, "Bounds on multiprocessing timing anomalies", 1969): slots of an executor that registers meanwhile take
the next waiting tasks, the first task of a cold slot takes longer, and the tasks of a lost executor run again first.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from math import inf

from rheostat.sim.executors import Fleet, SimExecutor


@dataclass(frozen=True, slots=True)
class Equal:
    """``count`` tasks of ``each_s`` seconds each."""

    count: int
    each_s: float


Work = Equal | list[float]
"""Tasks of stages without a barrier between them: seconds on a warm slot at full speed, in order."""


def seconds_of(work: Work) -> list[float]:
    """The seconds of each task."""
    return [work.each_s] * work.count if isinstance(work, Equal) else work


@dataclass(frozen=True, slots=True)
class Task:
    """A task on one core of an executor. ``well``: it succeeded; else its executor was lost at ``end``."""

    begin: float
    end: float
    executor: SimExecutor
    core: int
    well: bool = True


@dataclass(frozen=True, slots=True)
class Placed:
    """Work placed on slots: equal tasks in waves, task j on slot j mod s; other tasks one by one.

    Attributes:
        end: when the last task ends; infinite while a task has no slot.
        waves: the equal tasks; None: they are listed.
        slots: the executor of each slot, for waves.
        tasks: those that are not in waves, in the order of placement.
    """

    begin: float
    end: float
    waves: Equal | None = None
    slots: Sequence[SimExecutor] = ()
    tasks: Sequence[Task] = ()


@dataclass(slots=True)
class Progress:
    """Work of an executor in a batch: successful tasks, their seconds, and running tasks."""

    ended: int = 0
    busy_s: float = 0.0
    running: int = 0

    def add(self, ended: int, busy_s: float, running: int) -> None:
        self.ended += ended
        self.busy_s += busy_s
        self.running += running


def credit(batch: Sequence[Placed], failed: float = 0.0) -> None:
    """Add the tasks of a finished batch to its executors, and mark their slots as warm.

    ``failed``: attempts of each task that failed, on average.
    """
    for placed in batch:
        if placed.waves is not None:
            whole, rest = divmod(placed.waves.count, len(placed.slots))
            for executor in placed.slots:
                executor.add_work(whole, whole * placed.waves.each_s)
                executor.failed += whole * failed
            for executor in placed.slots[:rest]:
                executor.add_work(1, placed.waves.each_s)
                executor.failed += failed
    for placed in batch:
        for task in placed.tasks:
            if task.well:
                task.executor.add_work(1, task.end - task.begin)
                task.executor.failed += failed
                task.executor.warm[task.core] = True


def count_progress(batch: Sequence[Placed], at: float) -> Mapping[SimExecutor, Progress]:
    """Work of each executor in a batch by ``at``."""
    progress: defaultdict[SimExecutor, Progress] = defaultdict(Progress)
    waves = [(placed, placed.waves) for placed in batch if placed.waves is not None and placed.begin <= at]
    for number, executor in enumerate(waves[0][0].slots if waves else ()):
        ended, busy_s, running = 0, 0.0, 0
        for placed, equal in waves:
            whole, rest = divmod(equal.count, len(placed.slots))
            count = whole + (number < rest)
            done = count if at >= placed.end else min(count, int((at - placed.begin) / equal.each_s))
            ended, busy_s, running = ended + done, busy_s + done * equal.each_s, running + (done < count)
        progress[executor].add(ended, busy_s, running)
    for placed in batch:
        for task in placed.tasks:
            if task.begin <= at < task.end:
                progress[task.executor].add(0, 0.0, 1)
            elif task.end <= at and task.well:
                progress[task.executor].add(1, task.end - task.begin, 0)
    return progress


def makespan(work: Work, slots: int) -> float:
    """Time that work takes on equal, warm slots, s.

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


def place(stages: Sequence[Work], begin: float, members: Sequence[SimExecutor], fleet: Fleet) -> list[Placed]:
    """Place stages one after the other, from ``begin`` on, up to one that never ends.

    ``members``: present, starting and lost executors, by number.
    """
    warm = {(each.number, core) for each in members for core, is_warm in enumerate(each.warm) if is_warm}
    placed: list[Placed] = []
    for work in stages:
        if fleet.settled and members and isinstance(work, Equal):
            end = begin + makespan(work, len(fleet.slots))
            placed.append(Placed(begin, end, waves=work, slots=fleet.slots))
        else:
            placed.append(place_one_by_one(seconds_of(work), begin, members, fleet, warm))
        begin = placed[-1].end
        if begin == inf:
            break
    return placed


def place_one_by_one(
    work: Sequence[float], begin: float, members: Sequence[SimExecutor], fleet: Fleet, warm: set[tuple[int, int]]
) -> Placed:
    """List scheduling. ``warm``: slots ``(executor, core)`` that have run a task; the new ones are added."""
    free = [(max(begin, each.ready_at), each.number, core, each) for each in members for core in range(len(each.warm))]
    heapify(free)
    cold_s = fleet.cold_tasks_s({number: at for at, number, core, _ in free if (number, core) not in warm})
    lost: list[tuple[float, float]] = []
    tasks: list[Task] = []
    position, last = 0, begin
    while position < len(work) or lost:
        if not free:
            return Placed(begin, inf, tasks=tasks)
        at, number, core, executor = free[0]
        if executor.gone_at <= at:
            heappop(free)
            continue
        if executor.excluded and (later := executor.free_from(at)) > at:
            if later < inf:
                heapreplace(free, (later, number, core, executor))
            else:
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
            tasks.append(Task(at, executor.gone_at, executor, core, well=False))
            insort(lost, (executor.gone_at, seconds))
            heappop(free)
            continue
        warm.add((number, core))
        tasks.append(Task(at, end, executor, core))
        heapreplace(free, (end, number, core, executor))
        last = max(last, end)
    return Placed(begin, last, tasks=tasks)
