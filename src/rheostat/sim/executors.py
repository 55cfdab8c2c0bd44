"""Executors of a simulated job, from request to removal, and the nodes that host them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, prod

from rheostat.model import NodeReading, Nodes, Placement
from rheostat.sim.events import FullNode, LateRequests, LostNode, NoRoom, SlowNode
from rheostat.sim.history import History, append_step
from rheostat.sim.jobfile import JobFile, NodeMap, uniform

_UNLIMITED = 1_000_000


@dataclass(slots=True, eq=False)
class SimExecutor:
    """One executor.

    Attributes:
        host: its node, or a name of its own.
        warm: of each slot, whether it has run a task.
        in_use: whether the running query uses it.
        slow: windows ``(from, to, factor)`` in which its work takes longer.
        excluded: windows ``(from, to)`` in which it begins no task.
        joins: whether it joins the running query when it registers; with a restart it does not.
        gone_at: when it was removed or lost.
        finished, busy_s: successful tasks of finished batches, and their seconds.
        failed: failed attempts of finished batches.
        garbage: share of the task time in garbage collection, in the running batch.
        gc_s: of ``busy_s``, in garbage collection.
    """

    number: int
    host: str
    requested_at: float
    ready_at: float
    warm: list[bool]
    in_use: bool
    slow: list[tuple[float, float, float]]
    excluded: list[tuple[float, float]] = field(default_factory=list)
    joins: bool = True
    gone_at: float = inf
    finished: int = 0
    busy_s: float = 0.0
    failed: float = 0.0
    garbage: float = 0.0
    gc_s: float = 0.0

    @property
    def name(self) -> str:
        return str(self.number)

    def slowness(self, at: float) -> float:
        """How many times as long its work takes at a time."""
        return prod(factor for begin, end, factor in self.slow if begin <= at < end)

    def is_excluded(self, at: float) -> bool:
        return self.free_from(at) > at

    def free_from(self, at: float) -> float:
        """When it takes a task that would begin at a time; infinite if never."""
        for begin, end in self.excluded:
            at = end if begin <= at < end else at
        return at

    def add_work(self, tasks: int, seconds: float) -> None:
        self.finished += tasks
        self.busy_s += seconds
        self.gc_s += seconds * self.garbage


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
        self._target = executors
        self._past_starts: list[tuple[float, float]] = []
        self.requested: int | None = None
        self.places = None if job.nodes is None else Places(job.nodes, job)
        hosts: Sequence[str | None] = [None] * executors if job.nodes is None else job.nodes.nearest(executors)
        self.running = [self._new(host, 0.0, 0.0, warm=True) for host in hosts]
        self.starting: list[SimExecutor] = []
        self.settled = False
        self.slots: Sequence[SimExecutor] = ()
        self._note(0.0)
        append_step(history.target, 0.0, executors)

    # -------------------------------------------------------------------------------------------- changes

    @property
    def next_at(self) -> float:
        return min((each.ready_at for each in self.starting), default=inf)

    def request(self, at: float, total: int, placed: Placement | None = None) -> None:
        """Request a total: start missing executors while there is room, cancel superfluous ones that are starting.

        ``placed``: on which nodes; None: on any.
        """
        self.requested = self._target = total
        self._unreplaced = 0
        if self.places is not None:
            self.places.requested = placed
        append_step(self._history.target, at, total)
        surplus = len(self.running) + len(self.starting) - total
        for _ in range(min(surplus, len(self.starting))):
            self._cancel(self.starting[-1], at)
        self.fill(at)

    def fill(self, at: float, *, replacing: bool = False) -> None:
        """Start missing executors while there is room.

        ``replacing``: in place of lost ones; they join the running query and start on any node.
        """
        there = len(self.running) + len(self.starting)
        missing = self._target - self._unreplaced - there
        count = max(0, min(missing, self._room(at) - there))
        others = len(self.starting) + count - 1
        for _ in range(count):
            host = None
            if self.places is not None:
                host = self.places.choose(at, self.running + self.starting, anywhere=replacing)
                if host is None:
                    break
            new = self._new(host, at, at + self._start_up_s(at, others), warm=False)
            new.joins = replacing or self._job.rescale.mode == "live"
            self.starting.append(new)
        self._note(at)

    def register(self, at: float) -> int:
        """Register the executors that are ready; return how many."""
        ready = [each for each in self.starting if each.ready_at <= at]
        for each in ready:
            each.in_use = each.joins
            self.starting.remove(each)
            self.running.append(each)
            self._past_starts.append((each.requested_at, each.ready_at))
        if ready:
            self._note(at)
        return len(ready)

    def remove(self, at: float, target: int, first: Sequence[str] = ()) -> int:
        """Remove executors beyond ``target``; return how many.

        On each node those named in ``first``, then the newest.
        """
        order = _order_of_removal(self.running, first)
        if self.places is not None:
            order = self.places.order_of_removal(self.running, order)
        leaving = order[: max(0, len(self.running) - target)]
        self._drop(at, leaving)
        return len(leaving)

    def lose(self, at: float, place: int) -> int:
        """Lose one executor, until the next request or :meth:`replace`; return how many were lost."""
        lost = [place % len(self.running)] if self.running else []
        self._unreplaced += len(lost)
        self._drop(at, lost)
        return len(lost)

    def lose_node(self, at: float, node: str) -> int:
        """Lose all executors of a node, until the next request or :meth:`replace`; return how many were running."""
        lost = [place for place, each in enumerate(self.running) if each.host == node]
        for each in [each for each in self.starting if each.host == node]:
            self._cancel(each, at)
            self._unreplaced += 1
        self._unreplaced += len(lost)
        self._drop(at, lost)
        return len(lost)

    def replace(self, at: float) -> None:
        self._unreplaced = max(0, self._unreplaced - 1)
        self.fill(at, replacing=True)

    def slow_down(self, at: float, place: int, until: float, factor: float) -> None:
        if self.running:
            self.running[place % len(self.running)].slow.append((at, until, factor))
            self.settled = False

    def exclude(self, at: float, place: int, until: float) -> None:
        """Give one executor no further task."""
        if self.running:
            self.running[place % len(self.running)].excluded.append((at, until))
            self.settled = False

    def drop_excluded(self, at: float, names: Sequence[str]) -> None:
        """Remove the excluded executors among those that are named, so that others come in their place."""
        places = [n for n, each in enumerate(self.running) if each.name in names and each.is_excluded(at)]
        self._drop(at, places)

    def cool(self) -> None:
        """Restart the query: all registered executors are in use, with cold slots."""
        for each in self.running:
            each.in_use = True
            each.warm = [False] * self._job.executor.slots
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
        return sum(each.in_use for each in self.running)

    @property
    def undisturbed(self) -> bool:
        """Whether all executors work at full speed."""
        disturbed = any(each.slow or each.excluded for each in self.running)
        return not self._job.executor.slows_neighbours and not disturbed

    def check_settled(self, at: float) -> None:
        """Update ``settled`` and ``slots``."""
        self._past_starts = [(begin, end) for begin, end in self._past_starts if end > at]
        stealing = bool(self._past_starts) and self._job.executor.slows_neighbours > 0
        cold = not all(all(each.warm) for each in self.running)
        slow = any(until > at for each in self.running for _, until, _ in each.slow)
        excluded = any(each.is_excluded(at) for each in self.running)
        self.settled = not (self.starting or stealing or cold or slow or excluded)
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
            stretch = executor.slowness(at) * (1 + share * sum(start <= at < end for start, end in starts))
            if at + work * stretch <= edge:
                return at + work * stretch
            work -= (edge - at) / stretch
            at = edge
        return at

    # ---------------------------------------------------------------------------------------------------

    def _room(self, at: float) -> int:
        room = self._job.rescale.room
        return min([_UNLIMITED if room is None else room, *(event.room for event in self._job.active(NoRoom, at))])

    def _cancel(self, starting: SimExecutor, at: float) -> None:
        self.starting.remove(starting)
        starting.gone_at = at
        self._past_starts.append((starting.requested_at, at))

    def _drop(self, at: float, places: Sequence[int]) -> None:
        for place in sorted(places, reverse=True):
            self.running.pop(place).gone_at = at
        self._note(at)

    def _start_up_s(self, at: float, others: int) -> float:
        cost = self._job.executor
        takes = cost.start_up.quantile(uniform(self._seed, "start-up", self._started))
        self._started += 1
        late = prod(event.factor for event in self._job.active(LateRequests, at))
        return takes * late * (1 + cost.crowding * others)

    def _new(self, host: str | None, requested_at: float, ready_at: float, *, warm: bool) -> SimExecutor:
        slow_nodes = [event for event in self._job.events if isinstance(event, SlowNode) and event.node == host]
        self._numbers += 1
        return SimExecutor(
            number=self._numbers - 1,
            host=f"host-{self._numbers - 1}" if host is None else host,
            requested_at=requested_at,
            ready_at=ready_at,
            warm=[warm] * self._job.executor.slots,
            in_use=warm,
            slow=[(event.at_s, event.until_s, event.factor) for event in slow_nodes],
        )

    def _note(self, at: float) -> None:
        self.settled = False
        append_step(self._history.ready, at, len(self.running))
        append_step(self._history.paid, at, len(self.running) + len(self.starting))


def _order_of_removal(running: Sequence[SimExecutor], first: Sequence[str]) -> list[int]:
    """Places of all executors: those named in ``first``, in that order, then the newest."""

    def turn(place: int) -> tuple[int, int]:
        name = running[place].name
        return (first.index(name) if name in first else len(first), -place)

    return sorted(range(len(running)), key=turn)


class Places:
    """The nodes of a job during a run.

    Attributes:
        requested: placement of the last request, if it had one.
    """

    def __init__(self, nodes: NodeMap, job: JobFile) -> None:
        self._nodes = nodes
        self._job = job
        self.requested: Placement | None = None

    def choose(self, at: float, executors: Sequence[SimExecutor], *, anywhere: bool) -> str | None:
        """The node of the next executor; None: no allowed node has room.

        ``executors``: running and starting ones; ``anywhere``: nodes that were not requested are allowed.
        """
        occupied = Counter(each.host for each in executors)
        free = self._free(at, occupied)
        if self.requested is not None:
            desired = Counter(self.requested.use) - occupied
            for name in (*self.requested.add, *self.requested.use):
                if desired[name] > 0 and free.get(name, 0) > 0:
                    return name
            if not anywhere:
                return None
        return next((name for name, room in free.items() if room > 0), None)

    def order_of_removal(self, running: Sequence[SimExecutor], order: Sequence[int]) -> list[int]:
        """The places in ``order``, but first one executor for each time that a node is to be left."""
        left, leaving = list(order), list[int]()
        for name in () if self.requested is None else self.requested.leave:
            place = next((place for place in left if running[place].host == name), None)
            if place is not None:
                left.remove(place)
                leaving.append(place)
        return leaving + left

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

    def _free(self, at: float, occupied: Mapping[str, int]) -> dict[str, int]:
        """Room on each available node, in the order of the job file."""
        lost = {event.node for event in self._job.active(LostNode, at)}
        full = {event.node for event in self._job.active(FullNode, at)}
        return {
            name: 0 if name in full else max(0, slots - occupied.get(name, 0))
            for name, slots in self._nodes.places.items()
            if name not in lost
        }
