"""Actuator for executors and the Workers below them: job layer and cluster layer (S1, Algorithm 10, corrected).

To grow, it creates the Workers that the standby lacks, grows the job, and refills the standby. To shrink, it shrinks
the job, reads which Workers are in use, and removes idle ones beyond the standby. When a node fails, the executors are
changed nevertheless, the outcome says what is missing, and the request is repeated later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol
from urllib.parse import urlsplit

from rheostat.errors import ActuationError, Fault, InputError, RheostatError
from rheostat.execute.actuator import ActuatorContext
from rheostat.execute.live import Background, LiveExecutors, Patience, Runner
from rheostat.execute.node_client import Node, NodeGateways, NodeState, StandbyOptions, node_clients
from rheostat.execute.placed import Change, JobView, LatencyMap, Placed
from rheostat.model import Decision, Outcome, OutcomeStatus
from rheostat.spark.jvm import DriverJvm, SessionFacts, host_of
from rheostat.spark.levers import SparkLevers
from rheostat.text import several

_log = logging.getLogger("rheostat")
_MAX_WORDS = 600
_WORKER_START_S = 45.0
"""An executor may have to wait so long for a Worker that is only being started."""


class WorkersActuator:
    """The actuator of both layers (``rheostat.ports.Actuator``).

    Without ``known`` round trips, placements are ignored. Without a runner, requests to nodes run in a daemon thread.
    """

    def __init__(
        self,
        live: LiveExecutors,
        job: JobView,
        nodes: Sequence[Node],
        options: StandbyOptions | None = None,
        *,
        paused: Callable[[], bool] = lambda: False,
        runner: Runner | None = None,
        known: LatencyMap | None = None,
    ) -> None:
        self._live, self._job, self._paused = live, job, paused
        self._options = options or StandbyOptions()
        self._nodes = NodeGateways(nodes, self._options)
        self._placed = None if known is None else Placed(self._nodes, job, self._options.backup, known)
        self._change: Change | None = None
        self._not_obeyed = ""
        self._runner = runner or Background("rheostat-nodes")
        self._lock = threading.Lock()
        self._turn = 0
        self._decision_id: int | None = None
        self._busy = False
        self._outcome: Outcome | None = None
        self._checked_at: float | None = None
        self._closed = False

    @classmethod
    def build(cls, context: ActuatorContext) -> WorkersActuator:
        levers, workers = SparkLevers(context.spark), context.settings.workers
        live = LiveExecutors(levers, context.clock, Patience.of(context.settings, _WORKER_START_S))
        options = StandbyOptions(workers.backup, workers.every_s)
        known = None if context.round_trips is None else LatencyMap(context.round_trips, context.clock)
        job, nodes = SparkJob(levers, DriverJvm(context.spark)), node_clients(context.settings)
        return cls(live, job, nodes, options, paused=context.paused, known=known)

    @staticmethod
    def refusals(facts: SessionFacts) -> list[Fault]:
        """Why the Workers below a session cannot be changed."""
        if facts.deploy == "standalone":
            return []
        message = "node servers start the Workers of a standalone cluster"
        return [Fault("actuator", f"workers, on {facts.master}", "executors, or a spark:// master", message)]

    @property
    def requested(self) -> int | None:
        """The number of executors requested last; None: none yet."""
        return self._live.requested

    def apply(self, decision: Decision) -> None:
        with self._lock:
            self._turn += 1
            turn, self._busy, self._outcome = self._turn, True, None
            self._decision_id = decision.decision_id
        self._runner(lambda: self._begin(decision, turn))

    def poll(self, at: float) -> Outcome | None:
        """The outcome of the last decision, once, after both layers have changed. Also maintains the standby."""
        ended = self._live.poll(at)
        with self._lock:
            outcome, self._outcome = self._outcome, None
            turn, busy = self._turn, self._busy
        due = self._checked_at is None or not 0 <= at - self._checked_at < self._options.every_s
        if ended is not None and ended.decision_id == self._decision_id:
            self._runner(lambda: self._finish(ended, at, turn))
        elif outcome is None and not busy and not self._closed and not self._paused() and due:
            self._checked_at = at
            self._runner(lambda: self._keep(at, turn))
        return outcome

    def close(self) -> None:
        """Stop; executors and Workers stay as they are. May be called more than once."""
        with self._lock:
            self._turn += 1
            self._closed, self._busy = True, False
        self._live.close()
        self._runner(self._nodes.close)
        self._runner.close()

    # Run in the background.

    def _begin(self, decision: Decision, turn: int) -> None:
        """Create the Workers that an increase needs beyond the standby; then change the job in any case."""
        if turn != self._turn:
            return
        change, self._not_obeyed = None, ""
        try:
            change = self._prepare(decision, turn)
        except Exception as error:  # a failing node must not keep the job from its executors
            _log.warning("the nodes could not be prepared: %s", error)
            self._not_obeyed = f"the nodes could not be prepared: {error}" if decision.placement else ""
        self._change = change
        with self._lock:
            if turn == self._turn:
                self._live.apply(decision, () if change is None else change.first)

    def _prepare(self, decision: Decision, turn: int) -> Change | None:
        if decision.placement is not None and self._placed is not None:
            return self._placed.begin(decision.at, decision.placement, lambda: turn == self._turn, decision.first)
        if decision.placement is not None:
            self._not_obeyed = "the placement is not obeyed, as no round trips are known here"
        if decision.current is not None and decision.target is not None and decision.target > decision.current:
            states = self._nodes.states(decision.at)
            used, idle, n_max = _count_workers(states)
            after = min(n_max, used + decision.target - decision.current)
            standby = around(used, after, idle, n_backup=self._options.backup, n_max=n_max)
            self._create(decision.at, states, standby.create_first)
        return None

    def _finish(self, ended: Outcome, at: float, turn: int) -> None:
        """Adjust the standby after the job has changed, and set the outcome of both."""
        try:
            settled = ended.status is OutcomeStatus.APPLIED
            words = self._adjust(at, self._change, settled=settled)
        except Exception as error:
            words = f"the standby is not known: {error}"
        text = "; ".join(filter(None, [ended.reason.text, self._not_obeyed, words]))
        outcome = replace(ended, reason=replace(ended.reason, text=text))
        with self._lock:
            if turn == self._turn:
                self._busy, self._outcome, self._checked_at = False, outcome, at

    def _keep(self, at: float, turn: int) -> None:
        """Adjust the standby between two changes: Workers may be lost, requests may have failed, nodes may be back."""
        if turn != self._turn or self._busy:
            return
        try:
            settled = self._live.requested is not None and len(self._job.registered()) == self._live.requested
            self._adjust(at, None, settled=settled)
        except Exception as error:
            _log.warning("the standby could not be looked after: %s", error)

    def _adjust(self, at: float, change: Change | None, *, settled: bool) -> str:
        """Adjust the size of the standby; describe what was done and what is wrong.

        Unless the job is ``settled``, with as many executors as requested, idle Workers may be about to be used, so
        none is removed.
        """
        if self._placed is not None:
            words = self._placed.settle(at, change, settled=settled)
        else:
            words = self._refill(at, settled=settled)
        return "; ".join([*words, *self._nodes.troubles])[:_MAX_WORDS]

    def _refill(self, at: float, *, settled: bool) -> list[str]:
        states = self._nodes.states(at)
        used, idle, n_max = _count_workers(states)
        standby = around(used, used, idle, n_backup=self._options.backup, n_max=n_max)
        if created := self._create(at, states, standby.create_after):
            return [f"standby: {several(idle, 'idle Worker')}, {created} more requested"]
        if standby.keep_after is not None and settled and idle > standby.keep_after:
            removed = self._remove(at, states, idle - standby.keep_after)
            return [f"standby: {several(idle, 'idle Worker')}, {removed} of them removed"]
        if states and idle < self._options.backup and n_max == used + idle:
            return [f"standby: {idle} of {self._options.backup} idle Workers, as the nodes have no room for more"]
        return []

    def _create(self, at: float, states: dict[int, NodeState], wanted: int) -> int:
        """Create Workers on the nodes with the most free ids; returns how many."""
        shared = shares(wanted, [state.free for state in states.values()])
        return self._nodes.create(at, dict(zip(states, shared, strict=True)))

    def _remove(self, at: float, states: dict[int, NodeState], surplus: int) -> int:
        """Remove idle Workers where most are idle; returns how many. The Workers in use are read from the job now."""
        pages = self._job.placed().values()
        shared = zip(states, shares(surplus, [state.idle for state in states.values()]), strict=True)
        keep = {number: states[number].idle - share for number, share in shared if share}
        return self._nodes.remove(at, states, keep, pages)


def _count_workers(states: dict[int, NodeState]) -> tuple[int, int, int]:
    """Used, idle and possible Workers of all nodes that answered."""
    used = sum(len(state.used) for state in states.values())
    idle = sum(state.idle for state in states.values())
    free = sum(state.free for state in states.values())
    return used, idle, used + idle + free


def shares(number: int, most: Sequence[int]) -> tuple[int, ...]:
    """Share ``number`` Workers (to start or to remove) out among nodes, one by one to the node that has the most left.

    ``most`` are the free ids of each node, or its idle Workers; ``number`` is clipped to their sum.

    >>> shares(3, [1, 4]), shares(4, [2, 2]), shares(9, [1, 2])
    ((0, 3), (2, 2), (1, 2))
    """
    left, found = list(most), [0] * len(most)
    for _ in range(min(number, sum(most))):
        place = left.index(max(left))
        left[place] -= 1
        found[place] += 1
    return tuple(found)


# The executors of the application and their Workers


class _Levers(Protocol):
    def registered(self) -> tuple[str, ...]: ...


class _Driver(Protocol):
    def executors(self) -> list[dict[str, Any]]: ...


class SparkJob:
    """The running application (:class:`~rheostat.execute.placed.JobView`)."""

    def __init__(self, levers: _Levers, driver: _Driver) -> None:
        self._levers, self._driver = levers, driver

    def registered(self) -> tuple[str, ...]:
        return self._levers.registered()

    def placed(self) -> dict[str, str]:
        try:
            return {str(executor["id"]): page_of(executor) for executor in self._driver.executors()}
        except (RheostatError, KeyError, ValueError) as error:
            message = f"which Workers are used cannot be read: {error}"
            raise ActuationError(message) from error


def page_of(executor: Mapping[str, Any]) -> str:
    """The web page (``host:port``) of the Worker of an executor, from the address of its log; without a log its host.

    >>> page_of({"hostPort": "127.0.0.2:41", "executorLogs": {"stdout": "http://127.0.0.2:8081/logPage/?logType=stdout"}})
    '127.0.0.2:8081'
    """
    page = urlsplit(str(executor.get("executorLogs", {}).get("stdout", ""))).netloc
    return page or host_of(str(executor["hostPort"]))


# Hot standby: what the cluster layer does before and after a change of the job layer (S1, Algorithm 10, corrected).


@dataclass(frozen=True, slots=True)
class Standby:
    """Requests to the cluster layer before and after one change.

    Attributes:
        create_first: Workers to create before the job grows.
        create_after: Workers to create after the change of the job is confirmed.
        keep_after: idle Workers to keep after the job has shrunk; None: none is removed.
    """

    create_first: int = 0
    create_after: int = 0
    keep_after: int | None = None


def around(before: int, after: int, idle: int, *, n_backup: int, n_max: int) -> Standby:
    """Requests to the cluster layer before and after a change from ``before`` to ``after`` Workers in use.

    Args:
        before: Workers that the job uses now.
        after: Workers that it shall use, at most ``n_max``.
        idle: unused Workers, registered or starting.
        n_backup: size of the standby.
        n_max: maximum number of Workers, standby included.

    Raises:
        InputError: a number is negative, or there are more Workers than ``n_max``.

    >>> around(2, 5, 2, n_backup=2, n_max=12)
    Standby(create_first=1, create_after=2, keep_after=None)
    """
    free = n_max - before - idle
    counts = {"before": before, "after": after, "idle": idle, "n_backup": n_backup, "room": free}
    faults = [
        Fault(name, str(value), "≥ 0", "there are more Workers than there can be" if name == "room" else "a count")
        for name, value in counts.items()
        if value < 0
    ]
    if faults:
        raise InputError(faults)
    lacks = min(free, max(0, after - before - idle))
    left = max(0, idle + lacks - (after - before))
    if left > n_backup:
        return Standby(create_first=lacks, keep_after=n_backup)
    return Standby(create_first=lacks, create_after=min(free - lacks, n_backup - left))
