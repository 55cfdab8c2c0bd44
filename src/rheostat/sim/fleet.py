"""The executors of a simulated application: asked for, starting, running, dead, removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod
from operator import attrgetter

from rheostat.model import Placement
from rheostat.sim.draws import duration, uniform
from rheostat.sim.events import LateRequests, NoRoom, SlowNode
from rheostat.sim.history import History, changed
from rheostat.sim.jobfile import JobFile
from rheostat.sim.places import Places, leaving
from rheostat.sim.tally import Tally

__all__ = ["Fleet", "SimExecutor", "number_of"]

number_of = attrgetter("number")
"""The number of an executor: they are told apart, and come in order, by it."""


class SimExecutor:
    """One executor.

    Attributes:
        host: the name of its node, or a name of its own.
        joins: whether it joins the running query when it registers; one that is to come with a restart does not.
        in_use: whether the running query works with it.
        gone_at: when it was removed or died.
        slots: their numbers, unlike those of all other executors.
        warm: of each slot, whether it has run a task.
        slow: windows ``(from, to, factor)`` in which its work takes longer.
    """

    __slots__ = (
        "gone_at",
        "host",
        "in_use",
        "joins",
        "name",
        "number",
        "ready_at",
        "requested_at",
        "slots",
        "slow",
        "warm",
    )

    def __init__(
        self,
        number: int,
        requested_at: float,
        ready_at: float,
        cores: int,
        *,
        host: str | None = None,
        warm: bool = False,
    ) -> None:
        self.number = number
        self.name = str(number)
        self.host = f"host-{number}" if host is None else host
        self.requested_at = requested_at
        self.ready_at = ready_at
        self.gone_at = inf
        self.joins = True
        self.in_use = warm
        self.slots = range(number * cores, (number + 1) * cores)
        self.warm = [warm] * cores
        self.slow: list[tuple[float, float, float]] = []


class Fleet:
    """The executors. Times only ever grow; ``history`` is kept up to date.

    Attributes:
        requested: the number asked for last; None: nobody has asked.
        running: registered executors, the oldest first.
        tally: what they have done, by their place in ``running``.
        starting: those on their way, in the order of their requests.
        settled: nothing is on its way, nothing is cold or slow: every slot is like every other.
        slots: while it is settled, where in ``running`` the executor of each slot is.
        places: the nodes; None: the job has none.
        one_slot_each: whether an executor has one slot.
    """

    def __init__(self, job: JobFile, seed: int, executors: int, history: History) -> None:
        self._seed = seed
        self._history = history
        self._started = 0
        self._numbers = executors
        self._unreplaced = 0
        self._wanted = executors
        self._past_starts: list[tuple[float, float]] = []
        cost = job.executor
        cores = self._cores = cost.cores
        self.one_slot_each = cores == 1
        self._start_up, self._cold_task_s = cost.start_up, cost.cold_task_s
        self._crowding, self._slows_neighbours = cost.crowding, cost.slows_neighbours
        self._most = 1_000_000 if job.rescale.room is None else job.rescale.room
        self._joins = job.rescale.mode == "live"
        self._rooms = [event for event in job.events if isinstance(event, NoRoom)]
        self._late = [event for event in job.events if isinstance(event, LateRequests)]
        self._slow_nodes = [event for event in job.events if isinstance(event, SlowNode)]
        self.requested: int | None = None
        self.places = Places.of(job)
        hosts: Sequence[str | None] = [None] * executors if self.places is None else self.places.first(executors)
        here = (SimExecutor(n, 0.0, 0.0, cores, host=host, warm=True) for n, host in enumerate(hosts))
        self.running = [self._on_its_node(each) for each in here]
        self.tally = Tally(executors)
        self.starting: list[SimExecutor] = []
        self.settled = False
        self.slots: tuple[int, ...] = ()
        self._used: list[SimExecutor] = []
        self._note(0.0)
        changed(history.target, 0.0, executors)

    # -------------------------------------------------------------------------------------------- changes

    @property
    def next_at(self) -> float:
        """When the next one will be registered."""
        return min((each.ready_at for each in self.starting), default=inf)

    def request(self, at: float, total: int, placed: Placement | None = None) -> None:
        """Ask for so many: more are started as far as there is room, those on their way and too many are called off.

        ``placed`` says on which nodes; without it any will do.
        """
        self.requested = self._wanted = total
        self._unreplaced = 0
        if self.places is not None:
            self.places.asked = placed
        changed(self._history.target, at, total)
        surplus = len(self.running) + len(self.starting) - total
        for _ in range(min(surplus, len(self.starting))):
            self._call_off(self.starting[-1], at)
        self.fill(at, joins=self._joins)

    def fill(self, at: float, *, joins: bool, anywhere: bool = False) -> None:
        """Start what was asked for and is not there, as far as there is room; ``anywhere``: on other nodes, too."""
        there = len(self.running) + len(self.starting)
        missing = self._wanted - self._unreplaced - there
        count = max(0, min(missing, self.room(at) - there))
        others = len(self.starting) + count - 1
        for _ in range(count):
            host = None
            if self.places is not None:
                host = self.places.next(at, self.running + self.starting, anywhere=anywhere)
                if host is None:
                    break
            new = self._new(at, others, host)
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
                self.tally.join()
                self._past_starts.append((each.requested_at, each.ready_at))
            self._note(at)
        return len(came)

    def remove(self, at: float, target: int, first: Sequence[str] = ()) -> int:
        """Take away those that are more than ``target``; how many.

        On the nodes that were asked for, those named in ``first`` before others; then the newest.
        """
        count = max(0, len(self.running) - target)
        places = (
            self.places.leaving(self.running, count, first) if self.places else leaving(self.running, first)[:count]
        )
        self._forget(at, places)
        self._note(at)
        return len(places)

    def lose(self, at: float, place: int, *, replaced: bool) -> None:
        """One dies; unless it is ``replaced``, it is missing until somebody asks again."""
        if self.running:
            self._forget(at, [place % len(self.running)])
            self._unreplaced += 1
            self._note(at)
            if replaced:
                self.replace(at)

    def lose_node(self, at: float, node: str) -> int:
        """All on a node die; they are missing until somebody asks again, or they are replaced. How many they are."""
        lost = [place for place, each in enumerate(self.running) if each.host == node]
        for each in [each for each in self.starting if each.host == node]:
            self._call_off(each, at)
            self._unreplaced += 1
        self._unreplaced += len(lost)
        self._forget(at, lost)
        self._note(at)
        return len(lost)

    def replace(self, at: float) -> None:
        """The cluster starts one in place of a dead one; it joins the query by itself."""
        self._unreplaced = max(0, self._unreplaced - 1)
        self.fill(at, joins=True, anywhere=True)

    def room_changed(self, at: float) -> None:
        """There may be room for what was asked for before."""
        self.fill(at, joins=self._joins)

    def slow_down(self, at: float, place: int, until: float, factor: float) -> None:
        """One works slower until then."""
        if self.running:
            self.running[place % len(self.running)].slow.append((at, until, factor))
            self.settled = False

    def cool(self) -> None:
        """Every slot is cold, and all that are registered are in use: the query has been started again."""
        for each in self.running:
            each.in_use = True
            each.warm = [False] * self._cores
        self.settled = False

    # ---------------------------------------------------------------------------------------------- looks

    def cold_tasks_s(self, ready: Mapping[int, float]) -> dict[int, float]:
        """What the first task of a slot takes longer on each cold executor, by when it can begin.

        Those hinder each other that begin within so long of each other.
        """
        alone_s, crowding = self._cold_task_s, self._crowding
        if not crowding:
            return dict.fromkeys(ready, alone_s)
        together = {number: sum(abs(at - other) < alone_s for other in ready.values()) for number, at in ready.items()}
        return {number: alone_s * (1 + crowding * max(0, count - 1)) for number, count in together.items()}

    @property
    def used(self) -> list[SimExecutor]:
        """Those that the query works with, and those that will join it as soon as they are ready, by number."""
        if self.settled:
            return self._used
        working = [each for each in self.running if each.in_use]
        joining = [each for each in self.starting if each.joins]
        return sorted(working + joining, key=number_of)

    @property
    def in_use(self) -> int:
        """How many the query works with now."""
        return len(self._used) if self.settled else sum([each.in_use for each in self.running])

    @property
    def undisturbed(self) -> bool:
        """Whether nothing changes the speed at which any of them works."""
        return not self._slows_neighbours and not [each for each in self.running if each.slow]

    def room(self, at: float) -> int:
        """Executors that there is room for."""
        return min([self._most, *[event.room for event in self._rooms if _within(event, at)]])

    def look(self, at: float) -> None:
        """Find out whether all is settled."""
        self._past_starts = [(begin, end) for begin, end in self._past_starts if end > at]
        self.settled = False
        if self.starting or self._uneven(at):
            return
        self._used = self.used
        self.slots = tuple([n for n, each in enumerate(self.running) if each.in_use for _ in each.warm])
        self.tally.settle(self.slots)
        self.settled = True

    def _uneven(self, at: float) -> bool:
        """Whether some work slower than others, or may yet."""
        stealing = bool(self._past_starts) and self._slows_neighbours > 0
        if stealing or [each for each in self.running if False in each.warm]:
            return True
        return bool([until for each in self.running if each.slow for _, until, _ in each.slow if until > at])

    def finish(self, executor: SimExecutor, begin: float, work: float) -> float:
        """When work that takes ``work`` seconds at full speed ends.

        Speed is 1 ÷ (product of the slow factors × (1 + share × executors that are starting)) from moment to moment.
        """
        share = self._slows_neighbours
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

    def _call_off(self, starting: SimExecutor, at: float) -> None:
        self.starting.remove(starting)
        starting.gone_at = at
        self._past_starts.append((starting.requested_at, at))

    def _forget(self, at: float, places: Sequence[int]) -> None:
        """The running ones at these places are gone."""
        for place in sorted(places, reverse=True):
            self.running.pop(place).gone_at = at
            self.tally.leave(place)

    def _new(self, at: float, others: int, host: str | None) -> SimExecutor:
        late = prod([event.factor for event in self._late if _within(event, at)])
        takes = duration(self._start_up, uniform(self._seed, "start-up", self._started))
        self._started += 1
        self._numbers += 1
        ready_at = at + takes * late * (1 + self._crowding * others)
        return self._on_its_node(SimExecutor(self._numbers - 1, at, ready_at, self._cores, host=host))

    def _on_its_node(self, executor: SimExecutor) -> SimExecutor:
        """As slow as its node is from time to time."""
        slow = [event for event in self._slow_nodes if event.node == executor.host]
        executor.slow = [(event.at_s, event.until_s, event.factor) for event in slow]
        return executor

    def _note(self, at: float) -> None:
        self.settled = False
        changed(self._history.ready, at, len(self.running))
        changed(self._history.paid, at, len(self.running) + len(self.starting))


def _within(event: LateRequests | NoRoom, at: float) -> bool:
    return event.at_s <= at < event.until_s
