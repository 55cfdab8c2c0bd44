"""Executors of a simulated job, from request to removal, and the nodes that host them."""

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
        host: its node, or a name of its own.
        warm: of each slot, whether it has run a task.
        in_use: whether the running query uses it.
        slow: windows ``(from, to, factor)`` in which its work takes longer.
        joins: whether it joins the running query when it registers; with a restart it does not.
        gone_at: when it was removed or lost.
        finished, busy_s: successful tasks of finished batches, and their seconds.
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
        return str(self.number)

    def add_work(self, tasks: int, seconds: float) -> None:
        self.finished += tasks
        self.busy_s += seconds


class Fleet:
    """The executors. Times must not fall; ``history`` is kept up to date.

    Attributes:
        requested: the number requested last; None: no request yet.
        running: registered executors, the oldest first.
        starting: requested executors, in the order of their requests.
        settled: no executor is starting, cold or slow: all slots are equal.
        slots: the executor of each slot, while settled.
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
        """When the next executor registers."""
        return min((each.ready_at for each in self.starting), default=inf)

    def request(self, at: float, total: int, placed: Placement | None = None) -> None:
        """Request a total: start missing executors while there is room, cancel superfluous ones that are starting.

        ``placed``: on which nodes; None: on any.
        """
        self.requested = self._wanted = total
        self._unreplaced = 0
        if self.places is not None:
            self.places.asked = placed
        changed(self._history.target, at, total)
        surplus = len(self.running) + len(self.starting) - total
        for _ in range(min(surplus, len(self.starting))):
            self._cancel(self.starting[-1], at)
        self.fill(at, joins=self._job.rescale.mode == "live")

    def fill(self, at: float, *, joins: bool, anywhere: bool = False) -> None:
        """Start missing executors while there is room; ``anywhere``: also on nodes that were not requested."""
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
        """Register the executors that are ready; return how many."""
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
        """Remove executors beyond ``target``; return how many.

        On each node those named in ``first``, then the newest.
        """
        count = max(0, len(self.running) - target)
        places = (
            self.places.leaving(self.running, count, first)
            if self.places
            else _order_of_removal(self.running, first)[:count]
        )
        self._drop(at, places)
        self._note(at)
        return len(places)

    def lose(self, at: float, place: int, *, replaced: bool) -> None:
        """Lose one executor; unless ``replaced``, it is missing until the next request."""
        if self.running:
            self._drop(at, [place % len(self.running)])
            self._unreplaced += 1
            self._note(at)
            if replaced:
                self.replace(at)

    def lose_node(self, at: float, node: str) -> int:
        """Lose all executors of a node, until the next request or :meth:`replace`; return how many were running."""
        lost = [place for place, each in enumerate(self.running) if each.host == node]
        for each in [each for each in self.starting if each.host == node]:
            self._cancel(each, at)
            self._unreplaced += 1
        self._unreplaced += len(lost)
        self._drop(at, lost)
        self._note(at)
        return len(lost)

    def replace(self, at: float) -> None:
        """Start an executor in place of a lost one; it joins the running query."""
        self._unreplaced = max(0, self._unreplaced - 1)
        self.fill(at, joins=True, anywhere=True)

    def slow_down(self, at: float, place: int, until: float, factor: float) -> None:
        """Slow down one executor."""
        if self.running:
            self.running[place % len(self.running)].slow.append((at, until, factor))
            self.settled = False

    def cool(self) -> None:
        """Restart the query: all registered executors are in use, with cold slots."""
        for each in self.running:
            each.in_use = True
            each.warm = [False] * self._job.executor.cores
        self.settled = False

    # ---------------------------------------------------------------------------------------------- looks

    def cold_tasks_s(self, ready: Mapping[int, float]) -> dict[int, float]:
        """Extra time of the first task of a slot on each cold executor, from when each can begin (``ready``).

        Executors hinder each other if they begin within ``cold_task_s`` of each other.
        """
        alone_s, crowding = self._job.executor.cold_task_s, self._job.executor.crowding
        if not crowding:
            return dict.fromkeys(ready, alone_s)
        together = {number: sum(abs(at - other) < alone_s for other in ready.values()) for number, at in ready.items()}
        return {number: alone_s * (1 + crowding * max(0, count - 1)) for number, count in together.items()}

    @property
    def used(self) -> list[SimExecutor]:
        """Executors that the query uses, and those that will join it when ready, by number."""
        working = [each for each in self.running if each.in_use]
        joining = [each for each in self.starting if each.joins]
        return sorted(working + joining, key=lambda each: each.number)

    @property
    def in_use(self) -> int:
        """How many executors the query uses."""
        return sum(each.in_use for each in self.running)

    @property
    def undisturbed(self) -> bool:
        """Whether all executors work at full speed."""
        return not self._job.executor.slows_neighbours and not any(each.slow for each in self.running)

    def room(self, at: float) -> int:
        """Number of executors that the cluster has room for."""
        limits = [event.room for event in self._job.active(NoRoom, at)]
        return min([*limits, 1_000_000 if self._job.rescale.room is None else self._job.rescale.room])

    def look(self, at: float) -> None:
        """Update ``settled`` and ``slots``."""
        self._past_starts = [(begin, end) for begin, end in self._past_starts if end > at]
        stealing = bool(self._past_starts) and self._job.executor.slows_neighbours > 0
        cold = not all(all(each.warm) for each in self.running)
        slow = any(until > at for each in self.running for _, until, _ in each.slow)
        self.settled = not (self.starting or stealing or cold or slow)
        self.slots = [each for each in self.running if each.in_use for _ in each.warm] if self.settled else ()

    def finish(self, executor: SimExecutor, begin: float, work: float) -> float:
        """When work of ``work`` seconds at full speed ends.

        The speed at each time is 1 ÷ (product of the slow factors × (1 + share × starting executors)).
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

    def _cancel(self, starting: SimExecutor, at: float) -> None:
        self.starting.remove(starting)
        starting.gone_at = at
        self._past_starts.append((starting.requested_at, at))

    def _drop(self, at: float, places: Sequence[int]) -> None:
        for place in sorted(places, reverse=True):
            self.running.pop(place).gone_at = at

    def _start_up_s(self, at: float, others: int) -> float:
        cost = self._job.executor
        late = self._job.active(LateRequests, at)
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
    """The nodes of a job during a run.

    Attributes:
        asked: placement of the last request, if it had one.
    """

    def __init__(self, nodes: NodeMap, job: JobFile) -> None:
        self._nodes = nodes
        self._job = job
        self.asked: Placement | None = None

    def first(self, executors: int) -> tuple[str, ...]:
        """Nodes of the executors at the start."""
        return self._nodes.nearest(executors)

    def _free(self, at: float, occupied: Mapping[str, int]) -> dict[str, int]:
        """Room on each available node, in the order of the job file."""
        lost = {event.node for event in self._job.active(LostNode, at)}
        full = {event.node for event in self._job.active(FullNode, at)}
        return {
            name: 0 if name in full else max(0, slots - occupied.get(name, 0))
            for name, slots in self._nodes.places.items()
            if name not in lost
        }

    def next(self, at: float, executors: Sequence[SimExecutor], *, anywhere: bool) -> str | None:
        """The node of the next executor; None: no allowed node has room.

        Args:
            at: now.
            executors: running and starting ones.
            anywhere: whether nodes that were not requested are allowed.
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
        """Places of the running executors to remove: of each requested node those named in ``first``, then the newest.

        If more are to be removed, the same order applies to all others.
        """
        left = _order_of_removal(running, first)
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

    def read(self, at: float, executors: Sequence[SimExecutor]) -> Nodes:
        """The nodes as observed; ``executors``: running and starting ones."""
        occupied = Counter(each.host for each in executors)
        free = sorted(self._free(at, occupied).items())
        rows = tuple(NodeReading(name, occupied[name], room) for name, room in free)
        measured = [row.name for row in rows if row.name not in self._nodes.unmeasured]
        return Nodes(at, rows, self._nodes.trips(measured))


def _order_of_removal(running: Sequence[SimExecutor], first: Sequence[str]) -> list[int]:
    """Order of removal: executors named in ``first``, in that order, then the newest."""

    def turn(place: int) -> tuple[int, int]:
        name = running[place].name
        return (first.index(name) if name in first else len(first), -place)

    return sorted(range(len(running)), key=turn)
