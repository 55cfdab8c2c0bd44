"""The executors of a simulated application: asked for, starting, running, dead, removed."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, prod

from rheostat.sim.draws import duration, uniform
from rheostat.sim.events import LateRequests, NoRoom
from rheostat.sim.history import History, changed
from rheostat.sim.jobfile import JobFile

__all__ = ["Fleet", "SimExecutor"]


class SimExecutor:
    """One executor.

    Attributes:
        joins: whether it joins the running query when it registers; one that is to come with a restart does not.
        in_use: whether the running query works with it.
        gone_at: when it was removed or died.
        warm: of each slot, whether it has run a task.
        slow: windows ``(from, to, factor)`` in which its work takes longer.
        finished, busy_s: tasks of finished batches that ended well on it, and their seconds.
    """

    __slots__ = (
        "busy_s",
        "finished",
        "gone_at",
        "host",
        "in_use",
        "joins",
        "name",
        "number",
        "ready_at",
        "requested_at",
        "slow",
        "warm",
    )

    def __init__(self, number: int, requested_at: float, ready_at: float, cores: int, *, warm: bool = False) -> None:
        self.number = number
        self.name = str(number)
        self.host = f"host-{number}"
        self.requested_at = requested_at
        self.ready_at = ready_at
        self.gone_at = inf
        self.joins = True
        self.in_use = warm
        self.warm = [warm] * cores
        self.slow: list[tuple[float, float, float]] = []
        self.busy_s = 0.0
        self.finished = 0


class Fleet:
    """The executors. Times only ever grow; ``history`` is kept up to date.

    Attributes:
        requested: the number asked for last; None: nobody has asked.
        running: registered executors, the oldest first.
        starting: those on their way, in the order of their requests.
        settled: nothing is on its way, nothing is cold or slow: every slot is like every other.
        slots: while it is settled, the executor of each slot.
    """

    def __init__(self, job: JobFile, seed: int, executors: int, history: History) -> None:
        self._job = job
        self._seed = seed
        self._history = history
        self._started = 0
        self._numbers = executors
        self._unreplaced = 0
        self._wanted = executors
        self._past_starts: list[tuple[float, float]] = []
        cores = job.executor.cores
        self.requested: int | None = None
        self.running = [SimExecutor(number, 0.0, 0.0, cores, warm=True) for number in range(executors)]
        self.starting: list[SimExecutor] = []
        self.settled = False
        self.slots: tuple[SimExecutor, ...] = ()
        self._used: list[SimExecutor] = []
        self._note(0.0)
        changed(history.target, 0.0, executors)

    # -------------------------------------------------------------------------------------------- changes

    @property
    def next_at(self) -> float:
        """When the next one will be registered."""
        return min((each.ready_at for each in self.starting), default=inf)

    def request(self, at: float, total: int) -> None:
        """Ask for so many: more are started as far as there is room, those on their way and too many are called off."""
        self.requested = self._wanted = total
        self._unreplaced = 0
        changed(self._history.target, at, total)
        surplus = len(self.running) + len(self.starting) - total
        for _ in range(min(surplus, len(self.starting))):
            last = self.starting.pop()
            last.gone_at = at
            self._past_starts.append((last.requested_at, at))
        self.fill(at, joins=self._job.rescale.mode == "live")

    def fill(self, at: float, *, joins: bool) -> None:
        """Start what was asked for and is not there, as far as there is room."""
        there = len(self.running) + len(self.starting)
        missing = self._wanted - self._unreplaced - there
        count = max(0, min(missing, self.room(at) - there))
        others = len(self.starting) + count - 1
        for _ in range(count):
            new = self._new(at, others)
            new.joins = joins
            self.starting.append(new)
        self._note(at)

    def register(self, at: float) -> int:
        """Those that are ready by now become registered; how many."""
        came = [each for each in self.starting if each.ready_at <= at]
        if came:
            for each in came:
                each.in_use = each.joins
                self.starting.remove(each)
                self.running.append(each)
                self._past_starts.append((each.requested_at, each.ready_at))
            self._note(at)
        return len(came)

    def remove(self, at: float, target: int) -> int:
        """Take away the newest that are more than ``target``; how many."""
        gone = self.running[target:]
        for each in gone:
            each.gone_at = at
        del self.running[target:]
        self._note(at)
        return len(gone)

    def lose(self, at: float, place: int, *, replaced: bool) -> None:
        """One dies; unless it is ``replaced``, it is missing until somebody asks again."""
        if self.running:
            dead = self.running.pop(place % len(self.running))
            dead.gone_at = at
            self._unreplaced += 1
            self._note(at)
            if replaced:
                self.replace(at)

    def replace(self, at: float) -> None:
        """The cluster starts one in place of a dead one; it joins the query by itself."""
        self._unreplaced = max(0, self._unreplaced - 1)
        self.fill(at, joins=True)

    def room_changed(self, at: float) -> None:
        """There may be room for what was asked for before."""
        self.fill(at, joins=self._job.rescale.mode == "live")

    def slow_down(self, at: float, place: int, until: float, factor: float) -> None:
        """One works slower until then."""
        if self.running:
            self.running[place % len(self.running)].slow.append((at, until, factor))
            self.settled = False

    def cool(self) -> None:
        """Every slot is cold, and all that are registered are in use: the query has been started again."""
        for each in self.running:
            each.in_use = True
            each.warm = [False] * self._job.executor.cores
        self.settled = False

    # ---------------------------------------------------------------------------------------------- looks

    def cold_tasks_s(self, ready: Mapping[int, float]) -> dict[int, float]:
        """What the first task of a slot takes longer on each cold executor, by when it can begin.

        Those hinder each other that begin within so long of each other.
        """
        cost = self._job.executor
        if not cost.crowding:
            return dict.fromkeys(ready, cost.cold_task_s)
        alone_s = cost.cold_task_s
        together = {number: sum(abs(at - other) < alone_s for other in ready.values()) for number, at in ready.items()}
        return {number: alone_s * (1 + cost.crowding * max(0, count - 1)) for number, count in together.items()}

    @property
    def used(self) -> list[SimExecutor]:
        """Those that the query works with, and those that will join it as soon as they are ready."""
        if self.settled:
            return self._used
        return [each for each in self.running if each.in_use] + [each for each in self.starting if each.joins]

    @property
    def in_use(self) -> int:
        """How many the query works with now."""
        return len(self._used) if self.settled else sum([each.in_use for each in self.running])

    @property
    def undisturbed(self) -> bool:
        """Whether nothing changes the speed at which any of them works."""
        return not self._job.executor.slows_neighbours and not any(each.slow for each in self.running)

    def room(self, at: float) -> int:
        """Executors that there is room for."""
        limits = [event.room for event in self._job.events if isinstance(event, NoRoom) and _within(event, at)]
        return min([*limits, 1_000_000 if self._job.rescale.room is None else self._job.rescale.room])

    def look(self, at: float) -> None:
        """Find out whether all is settled."""
        self._past_starts = [(begin, end) for begin, end in self._past_starts if end > at]
        windows = any(until > at for each in self.running for _, until, _ in each.slow)
        cold = not all(all(each.warm) for each in self.running)
        stealing = bool(self._past_starts) and self._job.executor.slows_neighbours > 0
        self.settled = False
        if not (windows or cold or stealing or self.starting):
            self._used = self.used
            self.slots = tuple([each for each in self._used for _ in each.warm])
            self.settled = True

    def finish(self, executor: SimExecutor, begin: float, work: float) -> float:
        """When work that takes ``work`` seconds at full speed ends.

        Speed is 1 ÷ (product of the slow factors × (1 + share × executors that are starting)) from moment to moment.
        """
        share = self._job.executor.slows_neighbours
        if not share and not executor.slow:
            return begin + work
        starts = [(each.requested_at, each.ready_at) for each in self.starting] + self._past_starts if share else []
        edges = {edge for window in (*executor.slow, *starts) for edge in window[:2] if edge > begin}
        at = begin
        for edge in (*sorted(edges), inf):
            slow = prod(factor for start, end, factor in executor.slow if start <= at < end)
            stretch = slow * (1 + share * sum(start <= at < end for start, end in starts))
            if at + work * stretch <= edge:
                return at + work * stretch
            work -= (edge - at) / stretch
            at = edge
        return at

    # ---------------------------------------------------------------------------------------------------

    def _new(self, at: float, others: int) -> SimExecutor:
        cost = self._job.executor
        late = prod(e.factor for e in self._job.events if isinstance(e, LateRequests) and _within(e, at))
        takes = duration(cost.start_up, uniform(self._seed, "start-up", self._started))
        self._started += 1
        self._numbers += 1
        ready_at = at + takes * late * (1 + cost.crowding * others)
        return SimExecutor(self._numbers - 1, at, ready_at, cost.cores)

    def _note(self, at: float) -> None:
        self.settled = False
        changed(self._history.ready, at, len(self.running))
        changed(self._history.paid, at, len(self.running) + len(self.starting))


def _within(event: LateRequests | NoRoom, at: float) -> bool:
    return event.at_s <= at < event.until_s
