"""The executors of a simulated application, and the nodes that they are on.

Executors are asked for, starting, running, dead, removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod

from rheostat.model import NodeReading, Nodes, Placement
from rheostat.sim.events import FullNode, LateRequests, LostNode, NoRoom, SlowNode
from rheostat.sim.history import History, changed
from rheostat.sim.jobfile import JobFile, NodeMap
from rheostat.sim.seeded import duration, uniform


@dataclass(slots=True, eq=False)
class SimExecutor:
    """One executor.

    Attributes:
        host: the name of its node, or a name of its own.
        warm: of each slot, whether it has run a task.
        in_use: whether the running query works with it.
        slow: windows ``(from, to, factor)`` in which its work takes longer.
        joins: whether it joins the running query when it registers; one that is to come with a restart does not.
        gone_at: when it was removed or died.
        finished, busy_s: tasks of finished batches that ended well on it, and their seconds.
    """

    number: int
    host: str
    requested_at: float
    ready_at: float
    warm: list[bool]
    in_use: bool
    slow: list[tuple[float, float, float]]
    joins: bool = True
    gone_at: float = inf
    finished: int = 0
    busy_s: float = 0.0

    @property
    def name(self) -> str:
        """Its number as text."""
        return str(self.number)

    def add_work(self, tasks: int, seconds: float) -> None:
        """Count tasks that have ended well, and their seconds."""
        self.finished += tasks
        self.busy_s += seconds


class Fleet:
    """The executors. Times only ever grow; ``history`` is kept up to date.

    Attributes:
        requested: the number asked for last; None: nobody has asked.
        running: registered executors, the oldest first.
        starting: those on their way, in the order of their requests.
        settled: nothing is on its way, nothing is cold or slow: every slot is like every other.
        slots: while it is settled, the executor of each slot.
        places: the nodes; None: the job has none.
    """

    def __init__(self, job: JobFile, seed: int, executors: int, history: History) -> None:
        self._job = job
        self._seed = seed
        self._history = history
        self._started = 0
        self._numbers = 0
        self._unreplaced = 0
        self._wanted = executors
        self._past_starts: list[tuple[float, float]] = []
        self.requested: int | None = None
        self.places = None if job.nodes is None else Places(job.nodes, job)
        hosts: Sequence[str | None] = [None] * executors if self.places is None else self.places.first(executors)
        self.running = [self._new(host, 0.0, 0.0, warm=True) for host in hosts]
        self.starting: list[SimExecutor] = []
        self.settled = False
        self.slots: Sequence[SimExecutor] = ()
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
        self.fill(at, joins=self._job.rescale.mode == "live")

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
            new = self._new(host, at, at + self._start_up_s(at, others), warm=False)
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

    def remove(self, at: float, target: int, first: Sequence[str] = ()) -> int:
        """Take away those that are more than ``target``; how many.

        On the nodes that were asked for, those named in ``first`` before others; then the newest.
        """
        count = max(0, len(self.running) - target)
        places = (
            self.places.leaving(self.running, count, first) if self.places else _leaving(self.running, first)[:count]
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
        alone_s, crowding = self._job.executor.cold_task_s, self._job.executor.crowding
        if not crowding:
            return dict.fromkeys(ready, alone_s)
        together = {number: sum(abs(at - other) < alone_s for other in ready.values()) for number, at in ready.items()}
        return {number: alone_s * (1 + crowding * max(0, count - 1)) for number, count in together.items()}

    @property
    def used(self) -> list[SimExecutor]:
        """Those that the query works with, and those that will join it as soon as they are ready, by number."""
        working = [each for each in self.running if each.in_use]
        joining = [each for each in self.starting if each.joins]
        return sorted(working + joining, key=lambda each: each.number)

    @property
    def in_use(self) -> int:
        """How many the query works with now."""
        return sum(each.in_use for each in self.running)

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
        stealing = bool(self._past_starts) and self._job.executor.slows_neighbours > 0
        cold = not all(all(each.warm) for each in self.running)
        slow = any(until > at for each in self.running for _, until, _ in each.slow)
        self.settled = not (self.starting or stealing or cold or slow)
        self.slots = [each for each in self.running if each.in_use for _ in each.warm] if self.settled else ()

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

    def _call_off(self, starting: SimExecutor, at: float) -> None:
        self.starting.remove(starting)
        starting.gone_at = at
        self._past_starts.append((starting.requested_at, at))

    def _forget(self, at: float, places: Sequence[int]) -> None:
        """The running ones at these places are gone."""
        for place in sorted(places, reverse=True):
            self.running.pop(place).gone_at = at

    def _start_up_s(self, at: float, others: int) -> float:
        """How long the next one takes to start while ``others`` do."""
        cost = self._job.executor
        late = [event for event in self._job.events if isinstance(event, LateRequests) and _within(event, at)]
        takes = duration(cost.start_up, uniform(self._seed, "start-up", self._started))
        self._started += 1
        return takes * prod(event.factor for event in late) * (1 + cost.crowding * others)

    def _new(self, host: str | None, requested_at: float, ready_at: float, *, warm: bool) -> SimExecutor:
        slow_nodes = [event for event in self._job.events if isinstance(event, SlowNode) and event.node == host]
        self._numbers += 1
        return SimExecutor(
            number=self._numbers - 1,
            host=f"host-{self._numbers - 1}" if host is None else host,
            requested_at=requested_at,
            ready_at=ready_at,
            warm=[warm] * self._job.executor.cores,
            in_use=warm,
            slow=[(event.at_s, event.until_s, event.factor) for event in slow_nodes],
        )

    def _note(self, at: float) -> None:
        self.settled = False
        changed(self._history.ready, at, len(self.running))
        changed(self._history.paid, at, len(self.running) + len(self.starting))


class Places:
    """The nodes of a job as time passes.

    Attributes:
        asked: where the last request wanted executors; None: it did not say.
    """

    def __init__(self, nodes: NodeMap, job: JobFile) -> None:
        self._nodes = nodes
        self._job = job
        self.asked: Placement | None = None

    def first(self, executors: int) -> tuple[str, ...]:
        """The nodes of the executors at the start."""
        return self._nodes.nearest(executors)

    def _free(self, at: float, occupied: Mapping[str, int]) -> dict[str, int]:
        """How many more executors each node could host that is there, in the order of the file."""
        lost = {event.node for event in self._job.events if isinstance(event, LostNode) and _within(event, at)}
        full = {event.node for event in self._job.events if isinstance(event, FullNode) and _within(event, at)}
        return {
            name: 0 if name in full else max(0, slots - occupied.get(name, 0))
            for name, slots in self._nodes.places.items()
            if name not in lost
        }

    def next(self, at: float, executors: Sequence[SimExecutor], *, anywhere: bool) -> str | None:
        """The node of the next executor; None: there is no room where it may start.

        Args:
            at: now.
            executors: those that are there or starting.
            anywhere: whether another node will do than was asked for.
        """
        occupied = Counter(each.host for each in executors)
        free = self._free(at, occupied)
        asked = self.asked
        if asked is not None:
            wanted = Counter(asked.use) - occupied
            for name in (*asked.add, *asked.use):
                if wanted[name] > 0 and free.get(name, 0) > 0:
                    return name
        if asked is not None and not anywhere:
            return None
        return next((name for name, room in free.items() if room > 0), None)

    def leaving(self, running: Sequence[SimExecutor], count: int, first: Sequence[str] = ()) -> list[int]:
        """Which of the running ones leave: of each node that was asked for, those named in ``first``, then the newest.

        Then, of all that are left, in the same order.
        """
        left = _leaving(running, first)
        gone: list[int] = []
        for name in () if self.asked is None else self.asked.leave:
            place = next((number for number in left if running[number].host == name), None)
            if place is not None and len(gone) < count:
                left.remove(place)
                gone.append(place)
        return gone + left[: count - len(gone)]

    def distance_ms(self, executors: Iterable[SimExecutor]) -> float:
        """ND, ms."""
        return self._nodes.distance_ms(each.host for each in executors)

    def seen(self, at: float, executors: Sequence[SimExecutor]) -> Nodes:
        """The nodes as the autoscaler sees them; ``executors`` are those that are there or starting."""
        occupied = Counter(each.host for each in executors)
        free = sorted(self._free(at, occupied).items())
        rows = tuple(NodeReading(name, occupied[name], room) for name, room in free)
        measured = [row.name for row in rows if row.name not in self._nodes.unmeasured]
        return Nodes(at, rows, self._nodes.trips(measured))


def _leaving(running: Sequence[SimExecutor], first: Sequence[str]) -> list[int]:
    """In which order executors leave, oldest first given: those of ``first`` in their order, then the newest."""

    def turn(place: int) -> tuple[int, int]:
        name = running[place].name
        return (first.index(name) if name in first else len(first), -place)

    return sorted(range(len(running)), key=turn)


def _within(event: LateRequests | NoRoom | LostNode | FullNode, at: float) -> bool:
    return event.at_s <= at < event.until_s
