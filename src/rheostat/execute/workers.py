"""Executors and the Workers below them, moved together: job layer and cluster layer (S1, Algorithm 10, corrected).

Growing: what the standby lacks is asked of the node servers, the job grows, the standby is filled up. Shrinking: the
job shrinks, which Workers it uses is read afterwards, idle ones beyond the standby go. Whatever is wrong with a node,
the executors are changed all the same, the outcome says what is missing, and it is tried again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol
from urllib.parse import urlsplit

from rheostat.errors import ActuationError, Fault, InputError, RheostatError
from rheostat.execute.live import Background, LiveExecutors, Runner
from rheostat.execute.node_client import Node, NodeGateways, NodeState, StandbyOptions
from rheostat.execute.placed import Change, JobOnNodes, LatencyMap, Placed
from rheostat.model import Decision, Outcome, OutcomeStatus
from rheostat.spark.jvm import host_of
from rheostat.text import several

_log = logging.getLogger("rheostat")
_LONGEST = 300


class JobView(JobOnNodes, Protocol):
    """What the application says of its executors. May raise :class:`~rheostat.errors.ActuationError`."""

    def worker_pages(self) -> tuple[str, ...]:
        """Web pages (``host:port``) of the Workers that they are on; the host alone where Spark does not tell."""
        ...


class WorkersActuator:
    """The actuator of both layers (``rheostat.ports.Actuator``).

    Args:
        live: changes the executors of the application.
        job: what the application says of them.
        nodes: the node servers.
        upkeep: how the standby is kept.
        paused: whether nothing may be changed now.
        runner: where the work with the nodes is done; None: one daemon thread.
        known: round trips between the nodes; None: nodes play no part, and no placement is obeyed.
    """

    def __init__(
        self,
        live: LiveExecutors,
        job: JobView,
        nodes: Sequence[Node],
        upkeep: StandbyOptions | None = None,
        *,
        paused: Callable[[], bool] = lambda: False,
        runner: Runner | None = None,
        known: LatencyMap | None = None,
    ) -> None:
        self._live, self._job, self._paused = live, job, paused
        self._upkeep = upkeep or StandbyOptions()
        self._doors = NodeGateways(nodes, self._upkeep)
        self._placed = None if known is None else Placed(self._doors, job, self._upkeep.backup, known)
        self._change: Change | None = None
        self._disobeyed = ""
        self._runner = runner or Background("rheostat-nodes")
        self._lock = threading.Lock()
        self._turn = 0
        self._decision_id: int | None = None
        self._busy = False
        self._outcome: Outcome | None = None
        self._looked_at: float | None = None
        self._closed = False

    @property
    def requested(self) -> int | None:
        """The number of executors asked for last; None: nobody has asked yet."""
        return self._live.requested

    def apply(self, decision: Decision) -> None:
        """Begin to execute ``decision``; one that is still being executed is superseded."""
        with self._lock:
            self._turn += 1
            turn, self._busy, self._outcome = self._turn, True, None
            self._decision_id = decision.decision_id
        self._runner(lambda: self._begin(decision, turn))

    def poll(self, at: float) -> Outcome | None:
        """The outcome of the last decision, once, when both layers have moved. Keeps the standby meanwhile."""
        ended = self._live.poll(at)
        with self._lock:
            outcome, self._outcome = self._outcome, None
            turn, busy = self._turn, self._busy
        if ended is not None and ended.decision_id == self._decision_id:
            self._runner(lambda: self._finish(ended, at, turn))
        elif outcome is None and not busy and not self._closed and not self._paused() and self._due(at):
            self._looked_at = at
            self._runner(lambda: self._keep(at, turn))
        return outcome

    def close(self) -> None:
        """End. Executors and Workers stay as they are. May be called more than once."""
        with self._lock:
            self._turn += 1
            self._closed, self._busy = True, False
        self._live.close()
        self._runner(self._doors.close)
        self._runner.close()

    # ------------------------------------------------------------------------------- in the background

    def _begin(self, decision: Decision, turn: int) -> None:
        """Before the job changes: what an increase needs beyond the standby. Then the job is changed in any case."""
        if turn != self._turn:
            return
        change, self._disobeyed = None, ""
        try:
            change = self._before(decision, turn)
        except Exception as error:  # nothing that is wrong with a node may keep the job from its executors
            _log.warning("the nodes could not be prepared: %s", error)
            self._disobeyed = f"the nodes could not be prepared: {error}" if decision.placement else ""
        self._change = change
        with self._lock:
            if turn == self._turn:
                self._live.apply(decision, () if change is None else change.first)

    def _before(self, decision: Decision, turn: int) -> Change | None:
        if decision.placement is not None and self._placed is not None:
            return self._placed.begin(decision.at, decision.placement, lambda: turn == self._turn, decision.first)
        if decision.placement is not None:
            self._disobeyed = "the placement is not obeyed, as no round trips are known here"
        if decision.current is not None and decision.target is not None and decision.target > decision.current:
            self._prepare(decision.at, decision.target - decision.current)
        return None

    def _prepare(self, at: float, more: int) -> None:
        states = self._doors.states(at)
        used, idle, n_max = _sums(states)
        wanted = around(used, min(n_max, used + more), idle, n_backup=self._upkeep.backup, n_max=n_max)
        self._create(at, states, wanted.create_first)

    def _finish(self, ended: Outcome, at: float, turn: int) -> None:
        """After the job has changed: the standby; and the outcome of both."""
        try:
            settled = ended.status is OutcomeStatus.APPLIED
            words = self._settle(at, self._change, settled=settled)
        except Exception as error:
            words = f"the standby is not known: {error}"
        text = "; ".join(filter(None, [ended.reason.text, self._disobeyed, words]))
        outcome = replace(ended, reason=replace(ended.reason, text=text))
        with self._lock:
            if turn == self._turn:
                self._busy, self._outcome, self._looked_at = False, outcome, at

    def _keep(self, at: float, turn: int) -> None:
        """Between two changes: Workers that were lost, requests that failed, nodes that are back."""
        if turn != self._turn or self._busy:
            return
        try:
            settled = self._live.requested is not None and len(self._job.registered()) == self._live.requested
            self._settle(at, None, settled=settled)
        except Exception as error:
            _log.warning("the standby could not be looked after: %s", error)

    def _settle(self, at: float, change: Change | None, *, settled: bool) -> str:
        """Bring the standby to its number; what was done and what is wrong, in words.

        Unless the job is ``settled``, with as many executors as were asked for, idle Workers may be about to be used:
        none is removed then.
        """
        if self._placed is not None:
            words = self._placed.settle(at, change, settled=settled)
        else:
            words = self._refill(at, settled=settled)
        return "; ".join([*words, *self._doors.troubles])[: 2 * _LONGEST]

    def _refill(self, at: float, *, settled: bool) -> list[str]:
        """Bring the standby to its number, on whichever nodes."""
        states = self._doors.states(at)
        used, idle, n_max = _sums(states)
        wanted = around(used, used, idle, n_backup=self._upkeep.backup, n_max=n_max)
        if created := self._create(at, states, wanted.create_after):
            return [f"standby: {several(idle, 'idle Worker')}, {created} more asked for"]
        if wanted.keep_after is not None and settled and idle > wanted.keep_after:
            gone = self._remove(at, states, idle - wanted.keep_after)
            return [f"standby: {several(idle, 'idle Worker')}, {gone} of them sent away"]
        if states and idle < self._upkeep.backup and n_max == used + idle:
            return [f"standby: {idle} of {self._upkeep.backup} idle Workers, as the nodes have no room for more"]
        return []

    # ----------------------------------------------------------------------------------------- the nodes

    def _create(self, at: float, states: dict[int, NodeState], wanted: int) -> int:
        """POST to the nodes with the most free ids; how many Workers they take on."""
        shared = shares(wanted, [state.free for state in states.values()])
        return self._doors.create(at, dict(zip(states, shared, strict=True)))

    def _remove(self, at: float, states: dict[int, NodeState], surplus: int) -> int:
        """DELETE where the most are idle; how many Workers are let go. Who is used is read now, from the job."""
        pages = self._job.worker_pages()
        shared = zip(states, shares(surplus, [state.idle for state in states.values()]), strict=True)
        keep = {number: states[number].idle - share for number, share in shared if share}
        return self._doors.remove(at, states, keep, pages)

    def _due(self, at: float) -> bool:
        return self._looked_at is None or not 0 <= at - self._looked_at < self._upkeep.every_s


def _sums(states: dict[int, NodeState]) -> tuple[int, int, int]:
    """Used, idle and possible Workers over all nodes that answered."""
    used = sum(len(state.used) for state in states.values())
    idle = sum(state.idle for state in states.values())
    free = sum(state.free for state in states.values())
    return used, idle, used + idle + free


# How a number of Workers is shared out among nodes. Pure.


def shares(number: int, most: Sequence[int]) -> tuple[int, ...]:
    """How many of ``number`` Workers fall to each node: one after the other to the node that has the most left.

    Args:
        number: Workers to start or to let go; beyond what all nodes have it is clipped.
        most: what each node has: free ids to start one, idle Workers to let one go.

    >>> shares(3, [1, 4]), shares(4, [2, 2]), shares(9, [1, 2])
    ((0, 3), (2, 2), (1, 2))
    """
    left, found = list(most), [0] * len(most)
    for _ in range(min(number, sum(most))):
        place = left.index(max(left))
        left[place] -= 1
        found[place] += 1
    return tuple(found)


# What the application says of its executors, for the cluster layer: how many there are, and on which Workers.


class _Levers(Protocol):
    def registered(self) -> tuple[str, ...]: ...


class _Driver(Protocol):
    def executors(self) -> list[dict[str, Any]]: ...


def page_of(executor: Mapping[str, Any]) -> str:
    """The web page (``host:port``) of the Worker that an executor is on, from the address of its log.

    Args:
        executor: as Spark's REST interface describes it. Without a log its host alone is known.

    >>> page_of({"hostPort": "127.0.0.2:41", "executorLogs": {"stdout": "http://127.0.0.2:8081/logPage/?logType=stdout"}})
    '127.0.0.2:8081'
    >>> page_of({"hostPort": "127.0.0.2:41", "executorLogs": {}}), page_of({"hostPort": "127.0.0.2"})
    ('127.0.0.2', '127.0.0.2')
    """
    page = urlsplit(str(executor.get("executorLogs", {}).get("stdout", ""))).netloc
    return page or host_of(str(executor["hostPort"]))


class SparkJob:
    """The running application (:class:`JobView`).

    Args:
        levers: :class:`~rheostat.spark.levers.SparkLevers`.
        driver: :class:`~rheostat.spark.jvm.DriverJvm`.
    """

    def __init__(self, levers: _Levers, driver: _Driver) -> None:
        self._levers, self._driver = levers, driver

    def registered(self) -> tuple[str, ...]:
        """The executors that get tasks."""
        return self._levers.registered()

    def worker_pages(self) -> tuple[str, ...]:
        """The Workers that they are on, each by its web page.

        Raises:
            ActuationError: the driver does not tell.
        """
        return tuple(sorted({page for _, page in self._pages()}))

    def placed(self) -> dict[str, str]:
        """The executors by their ids, each with the web page of its Worker.

        Raises:
            ActuationError: the driver does not tell.
        """
        return dict(self._pages())

    def _pages(self) -> list[tuple[str, str]]:
        try:
            return [(str(executor["id"]), page_of(executor)) for executor in self._driver.executors()]
        except (RheostatError, KeyError, ValueError) as error:
            message = f"which Workers are used cannot be read: {error}"
            raise ActuationError(message) from error


# Hot standby: what the cluster layer must have around a change of the job layer. S1 Algorithm 10, corrected.


@dataclass(frozen=True, slots=True)
class Standby:
    """What to ask of the cluster layer around one change, in this order; 0 and False: nothing.

    Attributes:
        create_first: POST so many, and wait for them, before the job grows.
        create_after: POST so many once the change of the job is confirmed.
        keep_after: DELETE with ``free`` = this once the job has shrunk, with `used` read then; None: no DELETE.
    """

    create_first: int = 0
    create_after: int = 0
    keep_after: int | None = None


def around(before: int, after: int, idle: int, *, n_backup: int, n_max: int) -> Standby:
    """What the cluster layer must do around ``before`` → ``after``.

    Args:
        before: Workers that the job uses now.
        after: Workers that it shall use; beyond ``n_max`` there are none.
        idle: Workers that are registered, or on their way, and not used.
        n_backup: Workers to be kept in standby.
        n_max: Workers that there can be, standby included.

    Raises:
        InputError: a number is negative, or there are more Workers than there can be.

    >>> around(2, 5, 2, n_backup=2, n_max=12)
    Standby(create_first=1, create_after=2, keep_after=None)
    >>> around(5, 2, 1, n_backup=2, n_max=12)
    Standby(create_first=0, create_after=0, keep_after=2)
    """
    _check(before=before, after=after, idle=idle, n_backup=n_backup, room=n_max - before - idle)
    free = n_max - before - idle
    lacks = min(free, max(0, after - before - idle))
    left = max(0, idle + lacks - (after - before))
    if left > n_backup:
        return Standby(create_first=lacks, keep_after=n_backup)
    return Standby(create_first=lacks, create_after=min(free - lacks, n_backup - left))


def refill(used: int, idle: int, *, n_backup: int, n_max: int) -> int:
    """Workers to POST so that ``n_backup`` are in standby, where the number of executors stays.

    >>> refill(3, 1, n_backup=2, n_max=12), refill(3, 4, n_backup=2, n_max=12), refill(3, 1, n_backup=2, n_max=4)
    (1, 0, 0)
    """
    return around(used, used, idle, n_backup=n_backup, n_max=n_max).create_after


def _check(**given: int) -> None:
    faults = [
        Fault(name, str(value), "≥ 0", "there are more Workers than there can be" if name == "room" else "a count")
        for name, value in given.items()
        if value < 0
    ]
    if faults:
        raise InputError(faults)
