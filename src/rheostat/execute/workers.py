"""Executors and the Workers below them, moved together: job layer and cluster layer (S1, Algorithm 10, corrected).

Growing: what the standby lacks is asked of the node servers, the job grows, the standby is filled up. Shrinking: the
job shrinks, which Workers it uses is read afterwards, idle ones beyond the standby go. Whatever is wrong with a node,
the executors are changed all the same, the outcome says what is missing, and it is tried again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from rheostat.errors import RheostatError
from rheostat.execute.background import Background
from rheostat.execute.executors import LiveExecutors, Runner
from rheostat.execute.nodes import NodeState
from rheostat.execute.sharing import shares
from rheostat.model import Decision, Outcome, OutcomeStatus
from rheostat.plan.standby import around

__all__ = ["JobView", "Node", "Upkeep", "WorkersActuator"]

T = TypeVar("T")

_log = logging.getLogger("rheostat")
_LONGEST = 300


class Node(Protocol):
    """A node server; :class:`~rheostat.execute.nodes.NodeClient` is one. Whatever is wrong is an UnavailableError."""

    @property
    def address(self) -> str:
        """``http://host:port``."""
        ...

    def state(self) -> NodeState:
        """How it stands."""
        ...

    def create(self, target: int) -> int:
        """Ask for so many Workers more; how many it takes on."""
        ...

    def remove(self, used: Sequence[str], free: int) -> int:
        """Ask it to remove idle Workers but ``free``; how many it lets go."""
        ...

    def close(self) -> None:
        """Give back the connection."""
        ...


class JobView(Protocol):
    """What the application says of its executors. May raise :class:`~rheostat.errors.ActuationError`."""

    def registered(self) -> tuple[str, ...]:
        """Those that get tasks."""
        ...

    def worker_pages(self) -> tuple[str, ...]:
        """Web pages (``host:port``) of the Workers that they are on; the host alone where Spark does not tell."""
        ...


@dataclass(frozen=True, slots=True)
class Upkeep:
    """How the standby is kept.

    Attributes:
        backup: Workers to be registered and unused.
        every_s: between two looks at the nodes when nothing is changed.
        first_s, longest_s: a node that failed is left alone for so long, twice as long each time, at most.
    """

    backup: int = 2
    every_s: float = 15.0
    first_s: float = 5.0
    longest_s: float = 60.0


class _Door:
    """One node, with what is known of its failures. Used by one thread at a time."""

    def __init__(self, node: Node, upkeep: Upkeep) -> None:
        self.node = node
        self.trouble: str | None = None
        self._upkeep = upkeep
        self._pause_s = upkeep.first_s
        self._again_at = 0.0

    def closed(self, at: float) -> bool:
        """Whether it is to be left alone for now."""
        return self.trouble is not None and at < self._again_at

    def call(self, at: float, ask: Callable[[Node], T]) -> T | None:
        """What it answers; None: it failed, ``trouble`` says how. Logged when it begins and when it is over."""
        try:
            found = ask(self.node)
        except RheostatError as error:
            if self.trouble is None:
                _log.warning("node %s: %s; it is tried again (told once)", self.node.address, error)
            self.trouble = f"node {self.node.address}: {error}"[:_LONGEST]
            self._again_at, self._pause_s = at + self._pause_s, min(2 * self._pause_s, self._upkeep.longest_s)
            return None
        if self.trouble is not None:
            _log.warning("node %s answers again", self.node.address)
        self.trouble, self._pause_s = None, self._upkeep.first_s
        return found


class WorkersActuator:
    """The actuator of both layers (``rheostat.ports.Actuator``).

    Args:
        live: changes the executors of the application.
        job: what the application says of them.
        nodes: the node servers.
        upkeep: how the standby is kept.
        paused: whether nothing may be changed now.
        runner: where the work with the nodes is done; None: one daemon thread.
    """

    def __init__(
        self,
        live: LiveExecutors,
        job: JobView,
        nodes: Sequence[Node],
        upkeep: Upkeep | None = None,
        *,
        paused: Callable[[], bool] = lambda: False,
        runner: Runner | None = None,
    ) -> None:
        self._live, self._job, self._paused = live, job, paused
        self._upkeep = upkeep or Upkeep()
        self._doors = [_Door(node, self._upkeep) for node in nodes]
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
        self._runner(self._hang_up)
        self._runner.close()

    # ------------------------------------------------------------------------------- in the background

    def _begin(self, decision: Decision, turn: int) -> None:
        """Before the job changes: what an increase needs beyond the standby. Then the job is changed in any case."""
        if turn != self._turn:
            return
        try:
            if decision.current is not None and decision.target is not None and decision.target > decision.current:
                self._prepare(decision.at, decision.target - decision.current)
        except Exception as error:  # nothing that is wrong with a node may keep the job from its executors
            _log.warning("the nodes could not be prepared: %s", error)
        with self._lock:
            if turn == self._turn:
                self._live.apply(decision)

    def _prepare(self, at: float, more: int) -> None:
        states = self._states(at)
        used, idle, n_max = _sums(states)
        wanted = around(used, min(n_max, used + more), idle, n_backup=self._upkeep.backup, n_max=n_max)
        self._create(at, states, wanted.create_first)

    def _finish(self, ended: Outcome, at: float, turn: int) -> None:
        """After the job has changed: the standby; and the outcome of both."""
        try:
            settled = ended.status is OutcomeStatus.APPLIED
            words = self._settle(at, settled=settled)
        except Exception as error:
            words = f"the standby is not known: {error}"
        text = f"{ended.reason.text}; {words}" if words else ended.reason.text
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
            self._settle(at, settled=settled)
        except Exception as error:
            _log.warning("the standby could not be looked after: %s", error)

    def _settle(self, at: float, *, settled: bool) -> str:
        """Bring the standby to its number; what was done and what is wrong, in words.

        Unless the job is ``settled``, with as many executors as were asked for, idle Workers may be about to be used:
        none is removed then.
        """
        states = self._states(at)
        used, idle, n_max = _sums(states)
        wanted = around(used, used, idle, n_backup=self._upkeep.backup, n_max=n_max)
        words = []
        if created := self._create(at, states, wanted.create_after):
            words.append(f"standby: {idle} idle Workers, {created} more asked for")
        elif wanted.keep_after is not None and settled and idle > wanted.keep_after:
            gone = self._remove(at, states, idle - wanted.keep_after)
            words.append(f"standby: {idle} idle Workers, {gone} of them sent away")
        elif states and idle < self._upkeep.backup and n_max == used + idle:
            words.append(f"standby: {idle} of {self._upkeep.backup} idle Workers, as the nodes have no room for more")
        return "; ".join([*words, *(door.trouble for door in self._doors if door.trouble)])[: 2 * _LONGEST]

    # ----------------------------------------------------------------------------------------- the nodes

    def _states(self, at: float) -> dict[int, NodeState]:
        """What the nodes that answer say, all asked at once; one that failed is left alone for a while."""
        open_ = [number for number, door in enumerate(self._doors) if not door.closed(at)]
        if not open_:
            return {}
        with ThreadPoolExecutor(len(open_), thread_name_prefix="rheostat-node") as pool:
            found = pool.map(lambda number: self._doors[number].call(at, _state), open_)
            return {number: state for number, state in zip(open_, found, strict=True) if state is not None}

    def _create(self, at: float, states: dict[int, NodeState], wanted: int) -> int:
        """POST to the nodes with the most free ids; how many Workers they take on."""
        numbers = list(states)
        taken = 0
        for number, share in zip(numbers, shares(wanted, [states[each].free for each in numbers]), strict=True):
            if share:
                taken += self._doors[number].call(at, _creating(share)) or 0
        return taken

    def _remove(self, at: float, states: dict[int, NodeState], surplus: int) -> int:
        """DELETE where the most are idle; how many Workers are let go. Who is used is read now, from the job."""
        pages = self._job.worker_pages()
        numbers = list(states)
        gone = 0
        for number, share in zip(numbers, shares(surplus, [states[each].idle for each in numbers]), strict=True):
            if share:
                state = states[number]
                used = {state.names.get(page, page) for page in pages} | set(state.used)
                gone += self._doors[number].call(at, _removing(sorted(used), state.idle - share)) or 0
        return gone

    def _due(self, at: float) -> bool:
        return self._looked_at is None or not 0 <= at - self._looked_at < self._upkeep.every_s

    def _hang_up(self) -> None:
        for door in self._doors:
            door.node.close()


def _state(node: Node) -> NodeState:
    return node.state()


def _creating(target: int) -> Callable[[Node], int]:
    return lambda node: node.create(target)


def _removing(used: Sequence[str], free: int) -> Callable[[Node], int]:
    return lambda node: node.remove(used, free)


def _sums(states: dict[int, NodeState]) -> tuple[int, int, int]:
    """Used, idle and possible Workers over all nodes that answered."""
    used = sum(len(state.used) for state in states.values())
    idle = sum(state.idle for state in states.values())
    free = sum(state.free for state in states.values())
    return used, idle, used + idle + free
