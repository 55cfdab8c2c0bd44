"""Executors on named nodes: a decision's placement, obeyed through the Workers that stand there (S2, "Execute").

The standalone master puts an executor on whatever Worker is free, wherever that stands. So before the job grows, idle
Workers are made to stand where executors are to come, and nowhere else; the others are sent away, and the master must
know it before an executor is asked for. That costs the increase the time of a decommissioning, and the standby that was
elsewhere is started anew afterwards. When the job shrinks, executors are chosen by their node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rheostat.config.node_names import ELSEWHERE
from rheostat.execute.doors import Doors
from rheostat.execute.nodes import NodeState
from rheostat.execute.placing import Known, Moves, Stand, first_to_leave, moves, possible, standby_moves
from rheostat.model import Placement, RoundTrip
from rheostat.plan.words import several
from rheostat.ports import Clock

__all__ = ["Change", "JobOnNodes", "LatencyMap", "Placed"]


class JobOnNodes(Protocol):
    """What the application says of its executors. May raise :class:`~rheostat.errors.ActuationError`."""

    def registered(self) -> tuple[str, ...]:
        """Those that get tasks, oldest first."""
        ...

    def placed(self) -> Mapping[str, str]:
        """Executor → web page (``host:port``) of its Worker; the host alone where Spark does not tell."""
        ...


@dataclass(frozen=True, slots=True)
class LatencyMap:
    """What obeying a placement needs beside the nodes.

    Attributes:
        round_trips: as they are known now.
        clock: when its wait is cut short, nothing is waited for any more.
        leave_s: how long Workers that are sent away may take until the master knows; then the job grows all the same.
        look_s: between two looks at them.
    """

    round_trips: Callable[[], tuple[RoundTrip, ...]]
    clock: Clock
    leave_s: float = 10.0
    look_s: float = 0.1


@dataclass(frozen=True, slots=True)
class Change:
    """A change on named nodes that has begun.

    Attributes:
        before: executor → its node, oldest first.
        first: executors that are to leave, in this order.
        words: what is to be said of the beginning.
    """

    placement: Placement
    before: Mapping[str, str]
    first: tuple[str, ...]
    words: list[str] = field(default_factory=list)


class Placed:
    """Both layers on named nodes. Used by one thread at a time."""

    def __init__(self, doors: Doors, job: JobOnNodes, backup: int, known: LatencyMap) -> None:
        self._doors, self._job, self._backup, self._known = doors, job, backup, known
        self._pages: dict[str, str] = {}
        self._slow: frozenset[str] = frozenset()

    def begin(self, at: float, placement: Placement, still: Callable[[], bool], first: Sequence[str] = ()) -> Change:
        """Before the job changes: idle Workers where executors are to come, none elsewhere; who is to leave.

        Args:
            at: when this was decided.
            placement: what to obey.
            still: whether the change is still wanted.
            first: executors that leave before others of their node.
        """
        self._slow = frozenset(placement.slow)
        states = self._doors.states(at)
        before = self._executors(states)
        change = Change(placement, before, first_to_leave(placement.leave, before, first))
        if placement.add:
            self._make_room(at, states, change, still)
        return change

    def settle(self, at: float, change: Change | None, *, settled: bool) -> list[str]:
        """After the job has changed, and between changes: the standby where the next executors would come; in words."""
        states = self._doors.states(at)
        executors = self._executors(states)
        words = [] if change is None else [*change.words, *_told(change, executors)]
        used = Counter(node for node in executors.values() if node != ELSEWHERE)
        wanted = standby_moves(used, _stands(states), self._backup, self._seen(), settled=settled)
        idle = sum(state.idle for state in states.values())
        created, gone = self._move(at, states, wanted)
        if created or gone:
            more = [f"{created} more asked for on {', '.join(wanted.create)}"] if created else []
            more += [f"{gone} sent away from {', '.join(wanted.keep)}"] if gone else []
            words.append(f"standby: {several(idle, 'idle Worker')}, {', '.join(more)}")
        elif states and idle < self._backup and not any(state.free for state in states.values()):
            words.append(f"standby: {idle} of {self._backup} idle Workers, as the nodes have no room for more")
        return words

    def _make_room(self, at: float, states: Mapping[int, NodeState], change: Change, still: Callable[[], bool]) -> None:
        add, stands = change.placement.add, _stands(states)
        used = Counter(change.placement.use) - Counter(add)
        taken, lacking, instead = possible(add, used, stands, self._seen())
        if lacking:
            for_them = f"{', '.join(instead)} instead" if instead else "no other node has any"
            change.words.append(f"no room on {', '.join(lacking)}, or no answer: {for_them}")
        _, gone = self._move(at, states, moves((*taken, *instead), stands))
        if gone:
            began = self._known.clock.now()
            known = self._until_known(began, still)
            waited_s = self._known.clock.now() - began
            late = "" if known else ", and the master may still place executors on them"
            sent = several(gone, "idle Worker")
            change.words.append(f"{sent} on other nodes sent away first, in {waited_s:.1f} s{late}")

    def _move(self, at: float, states: Mapping[int, NodeState], wanted: Moves) -> tuple[int, int]:
        """Workers that are created, and that are let go. Who is used is read now, from the job."""
        numbers = {name: number for number, name in _names(states).items()}
        created = self._doors.create(at, {numbers[name]: count for name, count in wanted.create.items()})
        if not wanted.keep:
            return created, 0
        keep = {numbers[name]: count for name, count in wanted.keep.items()}
        return created, self._doors.remove(at, states, keep, sorted(set(self._job.placed().values())))

    def _until_known(self, began: float, still: Callable[[], bool]) -> bool:
        """Wait until the master places nothing on Workers that leave; False: not in time, or not wanted any more."""
        while still():
            now = self._known.clock.now()
            if not any(state.leaving for state in self._doors.states(now).values()):
                return True
            if now - began > self._known.leave_s or self._known.clock.wait(self._known.look_s):
                return False
        return False

    def _executors(self, states: Mapping[int, NodeState]) -> dict[str, str]:
        """Executor → its node, oldest first. Where Workers are is remembered: their server may be gone by now."""
        fresh = {host: state.name for state in states.values() for host in state.hosts}
        fresh |= {page: state.name for state in states.values() for page in state.names}
        pages = self._job.placed()
        in_use = {place for page in pages.values() for place in (page, _host(page))}
        kept = {place: node for place, node in self._pages.items() if place in in_use}
        self._pages = kept | fresh
        return {each: self._node(pages[each]) for each in self._job.registered() if each in pages}

    def _seen(self) -> Known:
        """The round trips now, and the nodes that were slow when executors were last placed."""
        return Known(self._known.round_trips(), self._slow)

    def _node(self, page: str) -> str:
        return self._pages.get(page) or self._pages.get(_host(page), ELSEWHERE)


def _host(page: str) -> str:
    return page.rpartition(":")[0] or page


def _names(states: Mapping[int, NodeState]) -> dict[int, str]:
    """The nodes by their numbers; of two with one name, the first."""
    found: dict[int, str] = {}
    for number, state in states.items():
        if state.name not in found.values():
            found[number] = state.name
    return found


def _stands(states: Mapping[int, NodeState]) -> dict[str, Stand]:
    return {name: Stand(states[number].idle, states[number].free) for number, name in _names(states).items()}


def _told(change: Change, now: Mapping[str, str]) -> list[str]:
    """Where executors came and went, and what that has in common with what was wanted."""
    came = [node for executor, node in now.items() if executor not in change.before]
    went = [node for executor, node in change.before.items() if executor not in now]
    parts = [*_compared("came on", came, change.placement.add), *_compared("went from", went, change.placement.leave)]
    return [f"executors {', '.join(parts)}"] if parts else []


def _compared(verb: str, found: Collection[str], wanted: Collection[str]) -> list[str]:
    said = [f"{verb} {', '.join(sorted(found)) or 'no node'}"] if found or wanted else []
    missed = Counter(wanted) - Counter(found)
    return [*said, *([f"not, as was wanted, {verb} {', '.join(sorted(missed.elements()))}"] if missed else [])]
