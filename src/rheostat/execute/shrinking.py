"""Fewer executors, without redone work: a ladder of methods, the gentlest first."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from rheostat.errors import ActuationError
from rheostat.execute.ground import Ground, Levers, Patience, Result, Superseded
from rheostat.model import Code, OutcomeStatus
from rheostat.plan.words import executors, several

__all__ = ["Rung", "ladder", "shrink"]

_FORCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Rung:
    """One method of removing executors.

    Attributes:
        method: its name in the outcome.
        how: in words, for "2 executors removed …".
        opens_s: seconds of waiting after which it may be tried.
        attempt: tries once, given the levers and the target; the executors really removed.
    """

    method: str
    how: str
    opens_s: float
    attempt: Callable[[Levers, int], tuple[str, ...]]


def ladder(patience: Patience, first: Sequence[str] = ()) -> tuple[Rung, ...]:
    """The methods in order. A source that can be paused would come first; Spark's own sources cannot.

    Args:
        patience: when each may be tried.
        first: executors that go before any other, in this order.
    """
    rungs = (
        Rung("gap", "between two triggers", 0.0, partial(_between_triggers, first=first)),
        Rung("idle", "while idle and without map output in use", patience.gap_s, _Idle(first)),
        Rung("forced", "by force", patience.safe_moment_s, partial(_forced, first=first)),
    )
    return rungs if patience.allow_redone_work else rungs[:2]


def _victims(levers: Levers, target: int, first: Sequence[str], among: frozenset[str] | None = None) -> tuple[str, ...]:
    """As many as are too many: the ``first`` first, then the newest, which hold the fewest stores, the coldest caches.

    One of the ``first`` that is not ``among`` those who may go is waited for: nobody goes in its place.
    """
    registered = levers.registered()
    number = max(0, len(registered) - target)
    named = [each for each in first if each in registered][:number]
    others = [each for each in reversed(registered) if each not in named]
    eligible = [each for each in others if among is None or each in among][: number - len(named)]
    return (*(each for each in named if among is None or each in among), *eligible)


def _between_triggers(levers: Levers, target: int, first: Sequence[str]) -> tuple[str, ...]:
    """Should a trigger begin meanwhile, Spark refuses to remove the ones that are busy by then."""
    return levers.kill_idle(_victims(levers, target, first)) if levers.between_triggers() else ()


class _Idle:
    """Executors that are idle at two looks in a row, and hold no map output of a running job at the second.

    One look is not enough: the output of a task is registered a moment after its executor has become idle.
    """

    def __init__(self, first: Sequence[str]) -> None:
        self._first = first
        self._before: frozenset[str] = frozenset()

    def __call__(self, levers: Levers, target: int) -> tuple[str, ...]:
        idle = levers.idle()
        twice, self._before = idle & self._before, idle
        free = twice - levers.holding_map_output() if twice else twice
        return levers.kill_idle(_victims(levers, target, self._first, free)) if free else ()


def _forced(levers: Levers, target: int, first: Sequence[str]) -> tuple[str, ...]:
    return levers.kill_forced(_victims(levers, target, first))


@dataclass(slots=True)
class _Removed:
    """What was removed so far, by the least gentle rung that was needed, and how long that was waited for."""

    executors: list[str] = field(default_factory=list)
    rung: int = 0
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Mark:
    """From where on redone tasks are counted: the oldest stage that ran then, and what had been redone by then."""

    stage: int
    redone_before: int

    @classmethod
    def of(cls, levers: Levers) -> _Mark | None:
        """Now; None if Spark does not say."""
        with contextlib.suppress(ActuationError):
            stage = levers.oldest_stage()
            return cls(stage, levers.redone_tasks(stage))
        return None

    def redone(self, levers: Levers) -> int | None:
        """Tasks redone since; None if Spark does not say."""
        with contextlib.suppress(ActuationError):
            return max(0, levers.redone_tasks(self.stage) - self.redone_before)
        return None


def shrink(ground: Ground, target: int, former: int, first: Sequence[str] = ()) -> Result:
    """Lower the request to ``target``, so that nothing is replaced, and remove what is too much at a safe moment.

    Executors that are named in ``first`` go before any other, in that order; then the newest.

    When no safe moment comes, the request is restored to ``former``, or to what is left if some were removed.

    Raises:
        ActuationError: the cluster refused.
        Superseded: a later decision came; what is left of the request is what is there.
    """
    began, before = ground.clock.now(), len(ground.levers.registered())
    rungs, mark = ladder(ground.patience, first), _Mark.of(ground.levers)
    ground.request(target)
    removed = _Removed()
    try:
        _climb(ground, target, rungs, removed)
    except (Superseded, ActuationError):
        with contextlib.suppress(ActuationError):
            ground.request(max(target, len(ground.levers.registered())))
        raise
    after, now = len(ground.levers.registered()), ground.clock.now()
    if after > target:
        ground.request(after if removed.executors else max(former, after))
    redone = _redone(ground, removed.executors, mark)
    if not removed.executors:
        return _nothing_removed(target, before, after, now, waited_s=now - began)
    return _some_removed(target, before, after, now, removed, rungs[removed.rung], redone)


def _climb(ground: Ground, target: int, rungs: tuple[Rung, ...], removed: _Removed) -> None:
    """Try every rung that is open, again and again, until there are no more than ``target`` or time is up."""
    began = ground.clock.now()
    forced_s = _FORCE_S if ground.patience.allow_redone_work else 0.0
    while len(ground.levers.registered()) > target:
        waited_s = ground.clock.now() - began
        if waited_s > ground.patience.safe_moment_s + forced_s:
            return
        for number, rung in enumerate(rungs):
            killed = rung.attempt(ground.levers, target) if waited_s >= rung.opens_s else ()
            if killed:
                removed.executors.extend(killed)
                removed.rung = max(removed.rung, number)
                removed.waited_s = waited_s
        ground.pause()


def _redone(ground: Ground, removed: list[str], mark: _Mark | None) -> int | None:
    """Tasks that had to run again since ``mark``, counted once the removed are out of the list; None: not known.

    Spark tells of lost tasks and lost map output only then. Tasks that failed meanwhile for another reason count too.
    """
    if not removed:
        return 0
    deadline = ground.clock.now() + ground.patience.gone_s
    while set(removed) & set(ground.levers.listed()):
        if ground.clock.now() > deadline:
            return None
        ground.pause()
    return mark.redone(ground.levers) if mark else None


def _nothing_removed(target: int, before: int, after: int, now: float, waited_s: float) -> Result:
    if after <= target:
        text = f"{executors(after)} left without removing any: no more than {target} asked for"
        return Result(OutcomeStatus.APPLIED, Code.APPLIED, text, before, after, now, "request", 0, waited_s)
    text = (
        f"none of {executors(after)} could be removed without redoing work within {waited_s:.1f} s: no gap between two"
        " triggers, and each was busy or held map output in use"
    )
    return Result(OutcomeStatus.HELD, Code.NOTHING_IDLE, text, before, after, now, "none", 0, waited_s)


def _some_removed(
    target: int, before: int, after: int, now: float, removed: _Removed, rung: Rung, redone: int | None
) -> Result:
    tasks = "an unknown number of tasks" if redone is None else several(redone, "task")
    text = f"{len(removed.executors)} removed {rung.how} after waiting {removed.waited_s:.1f} s; {tasks} done again"
    status, code = OutcomeStatus.APPLIED, Code.APPLIED
    if after > target:
        status, code = OutcomeStatus.PARTIAL, Code.NOTHING_IDLE
        text += f"; {after - target} more could not be removed without redoing work"
    return Result(status, code, text, before, after, now, rung.method, redone, removed.waited_s)
