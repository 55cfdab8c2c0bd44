"""Tasks on slots, in Spark's manner: in order, each to the first slot that is free.

A stage of T equal tasks on s equal slots takes ⌈T ÷ s⌉ waves. Otherwise every task is placed by itself (list
scheduling, R. L. Graham, "Bounds on multiprocessing timing anomalies", 1969): a slot of an executor that registers
meanwhile takes the next waiting task, the first task of a cold slot takes longer, and what an executor was running when
it died is done again before anything else.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from math import inf
from operator import add

from rheostat.sim.chains import Chains, chained, starts
from rheostat.sim.fleet import Fleet, SimExecutor
from rheostat.sim.tally import Begun, Done, Equal, shares, so_far

__all__ = ["Placed", "Task", "Work", "credit", "makespan", "run", "told"]


Work = Equal | list[float]
"""The tasks of stages without a barrier between them: seconds each takes on a warm slot at full speed, in order."""

Task = tuple[float, float, SimExecutor, bool]
"""``(begin, end, executor, whether it ended well)``."""

_Other = Chains | Sequence[Task]
"""Placed tasks that are not in waves."""

Placed = tuple[float, float, Equal | _Other]
"""Work placed on slots: ``(begin, end, tasks)``; the end is infinite while there is no slot for one of them.

Equal tasks are in waves on the slots of the settled fleet, which is as it was when they were placed: task j runs on
slot j mod s; or in chains. Others are listed one by one.
"""


def credit(batch: Sequence[Placed], fleet: Fleet) -> None:
    """Count all of it as done, with the executors that did it."""
    others: list[_Other] = []
    for _, _, tasks in batch:
        if isinstance(tasks, Equal):
            fleet.tally.note(tasks)
        else:
            others.append(tasks)
    if others:
        _listed(others, inf, fleet, (*fleet.tally.counted(), [0] * len(fleet.running)))


def told(batch: Sequence[Placed], at: float, fleet: Fleet) -> Done:
    """What the executors have done by ``at``, in finished batches and in this one, and what is running then."""
    begun: list[Begun] = []
    others: list[_Other] = []
    for begin, end, tasks in batch:
        if not isinstance(tasks, Equal):
            others.append(tasks)
        elif begin <= at:
            each_s = tasks.each_s
            begun.append((tasks.count if at >= end else int((at - begin) / each_s), tasks.count, each_s))
    if fleet.tally.one_each and not others:
        return fleet.tally.told(begun)
    ended, busy_s, active = done = _on_slots(begun, fleet)
    _listed(others, at, fleet, done)
    before, before_s = fleet.tally.counted()
    return tuple(map(add, before, ended)), tuple(map(add, before_s, busy_s)), tuple(active)


def _on_slots(begun: Sequence[Begun], fleet: Fleet) -> tuple[list[int], list[float], list[int]]:
    """What has been done of waves, added up for each executor slot by slot."""
    count = len(fleet.running)
    ended, busy_s, active = [0] * count, [0.0] * count, [0] * count
    if not begun:
        return ended, busy_s, active
    for first, behind, _, _, counts in shares((), tuple([tasks for _, tasks, _ in begun]), len(fleet.slots)):
        tasks, seconds, running = so_far(begun, counts)
        for place in fleet.slots[first:behind]:
            ended[place] += tasks
            busy_s[place] += seconds
            active[place] += running
    return ended, busy_s, active


def _listed(work: Sequence[_Other], at: float, fleet: Fleet, done: tuple[list[int], list[float], list[int]]) -> None:
    """Add tasks that are not in waves."""
    ended, busy_s, active = done
    places = dict(zip(fleet.running, range(len(fleet.running)), strict=True))
    for tasks in work:
        if isinstance(tasks, Chains):
            tasks.add(at, places, ended, busy_s, active)
            continue
        for begin, end, executor, well in tasks:
            place = places.get(executor)
            if place is None or begin > at:
                continue
            if end > at:
                active[place] += 1
            elif well:
                ended[place] += 1
                busy_s[place] += end - begin


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


class _Crew:
    """Executors that a batch is placed on.

    Attributes:
        members: those that are there or on their way, and those that the batch has lost, by number.
        warm: numbers of the slots that have run a task; grows.
        steady: whether none of them is lost and each works at full speed: as for most batches of a growing fleet.
        usual: where executors have one slot each, which has their number: those that are warm and there from the start.
        others: the rest of them.
    """

    __slots__ = ("fleet", "members", "others", "steady", "usual", "warm")

    def __init__(self, fleet: Fleet, members: Sequence[SimExecutor], warm: set[int], begin: float) -> None:
        self.fleet = fleet
        self.members = members
        self.warm = warm
        if fleet.settled:
            warm.update([slot for each in members for slot in each.slots])
        self.steady = fleet.undisturbed and not [each for each in members if each.gone_at < inf]
        self.usual = members
        self.others = [each for each in members if each.number not in warm or each.ready_at > begin]
        if self.others:
            self.usual = [each for each in members if each.number in warm and each.ready_at <= begin]


def run(
    stages: Sequence[Work], begin: float, members: Sequence[SimExecutor], fleet: Fleet, warm: set[int]
) -> list[Placed]:
    """Place stages one after the other, from ``begin`` on; up to the one that does not end, if there is one.

    Args:
        stages: what is to be done in each.
        begin: when the first one begins.
        members: executors, by number.
        fleet: theirs.
        warm: numbers of the slots that have run a task; grows. In a settled fleet every slot has.
    """
    crew: _Crew | None = None
    placed: list[Placed] = []
    for work in stages:
        if fleet.settled and members and isinstance(work, Equal):
            end = begin + makespan(work, len(fleet.slots))
            placed.append((begin, end, work))
        else:
            crew = crew or _Crew(fleet, members, warm, begin)
            placed.append(_run(work, begin, crew))
            end = placed[-1][1]
        if end == inf:
            break
        begin = end
    return placed


def _run(work: Work, begin: float, crew: _Crew) -> Placed:
    kinds = _kinds(work)
    passing = kinds and begin + min([kind.each_s for kind in kinds]) > begin
    if passing and crew.steady and crew.members and crew.fleet.one_slot_each:
        return _chained(kinds, begin, crew)
    return _one_by_one(work.listed() if isinstance(work, Equal) else work, begin, crew)


def _kinds(work: Work) -> Sequence[Equal]:
    """The tasks as equal ones, followed by others that are; empty: they are more different, or there are none.

    >>> _kinds([2.5, 2.5, 2.0]), _kinds([2.5, 2.0, 2.5])
    ((Equal(count=2, each_s=2.5), Equal(count=1, each_s=2.0)), ())
    """
    if isinstance(work, Equal):
        return (work,)
    first = work.count(work[0]) if work else 0
    rest = work[first:]
    if not rest:
        return (Equal(first, work[0]),) if work else ()
    alike = rest[0] != work[0] and rest.count(rest[0]) == len(rest)
    return (Equal(first, work[0]), Equal(len(rest), rest[0])) if alike else ()


def _chained(kinds: Sequence[Equal], begin: float, crew: _Crew) -> Placed:
    """Where executors have one slot each."""
    warm = crew.warm
    cold = {each.number: max(begin, each.ready_at) for each in crew.others if each.number not in warm}
    cold_s = crew.fleet.cold_tasks_s(cold) if cold else {}
    chains = chained(kinds, starts(crew.usual, crew.others, begin, cold_s))
    if cold:
        warm.update([each.number for chain in chains.each for each in chain.executors])
    return begin, chains.end, chains


_Slot = tuple[float, int, SimExecutor]
"""When it is free, its number, its executor."""


def _one_by_one(work: Sequence[float], begin: float, crew: _Crew) -> Placed:
    fleet, warm = crew.fleet, crew.warm
    free: list[_Slot] = [(max(begin, each.ready_at), slot, each) for each in crew.members for slot in each.slots]
    heapify(free)
    cold_s = fleet.cold_tasks_s({each.number: at for at, slot, each in free if slot not in warm})
    if free and crew.steady:
        return _straight(work, begin, free, cold_s, warm)
    lost: list[tuple[float, float]] = []
    tasks: list[Task] = []
    position, last = 0, begin
    while position < len(work) or lost:
        if not free:
            return begin, inf, tasks
        at, slot, executor = free[0]
        if executor.gone_at <= at:
            heappop(free)
            continue
        if lost and lost[0][0] <= at:
            seconds = lost.pop(0)[1]
        elif position < len(work):
            seconds, position = work[position], position + 1
        else:
            heapreplace(free, (lost[0][0], slot, executor))
            continue
        end = fleet.finish(executor, at, seconds + (0.0 if slot in warm else cold_s[executor.number]))
        if executor.gone_at < end:
            tasks.append((at, executor.gone_at, executor, False))
            insort(lost, (executor.gone_at, seconds))
            heappop(free)
            continue
        warm.add(slot)
        tasks.append((at, end, executor, True))
        heapreplace(free, (end, slot, executor))
        last = max(last, end)
    return begin, last, tasks


def _straight(
    work: Sequence[float], begin: float, free: list[_Slot], cold_s: dict[int, float], warm: set[int]
) -> Placed:
    """The same where nothing is lost and nothing slow."""
    tasks: list[Task] = []
    for seconds in work:
        at, slot, executor = free[0]
        end = at + seconds
        if slot not in warm:
            warm.add(slot)
            end = at + (seconds + cold_s[executor.number])
        tasks.append((at, end, executor, True))
        heapreplace(free, (end, slot, executor))
    return begin, max([begin, *[task[1] for task in tasks]]), tasks
