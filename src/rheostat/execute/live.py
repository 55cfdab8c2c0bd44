"""The executors of a running application, changed while it runs."""

from __future__ import annotations

import contextlib
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Protocol

from rheostat.errors import ActuationError
from rheostat.execute.actuator import ActuatorContext
from rheostat.model import Decision, Outcome, OutcomeStatus, Reason, ReasonCode
from rheostat.ports import Clock
from rheostat.spark.levers import SparkLevers
from rheostat.text import executors, several


class Runner(Protocol):
    """Runs work in the background; :class:`Background` does."""

    def __call__(self, work: Callable[[], None]) -> None:
        """Take it on."""
        ...

    def close(self) -> None:
        """End."""
        ...


class LiveExecutors:
    """The actuator of a running application (``rheostat.ports.Actuator``).

    Whether to grow or to shrink follows from what is registered when the work begins, not from the decision's word for
    it. A decision that supersedes another takes over at the other's next look (20 ms), or when its call to the cluster
    returns; the superseded one has no outcome.

    Args:
        levers: of the application.
        clock: when its wait is cut short, the work ends.
        patience: how long things may take.
        runner: where the work is done; None: one daemon thread.
    """

    def __init__(
        self, levers: Levers, clock: Clock, patience: Patience | None = None, *, runner: Runner | None = None
    ) -> None:
        self._levers = levers
        self._clock = clock
        self._patience = patience or Patience()
        self._runner = runner or Background("rheostat-execute")
        self._start_ups = StartUps(self._patience)
        self._lock = threading.Lock()
        self._turn = 0
        self._working = False
        self._outcome: Outcome | None = None
        self._requested: int | None = None
        self._kept: int | None = None

    @classmethod
    def build(cls, context: ActuatorContext) -> LiveExecutors:
        """The actuator of a session."""
        patience = Patience(allow_redone_work=context.settings.allow_redone_work)
        return cls(SparkLevers(context.spark), context.clock, patience)

    @property
    def requested(self) -> int | None:
        """The number asked for last; None: nobody has asked yet."""
        return self._requested

    @property
    def start_up_p95_s(self) -> float:
        """95th percentile of the start-up of an executor, as learned so far."""
        return self._start_ups.p95_s

    def apply(self, decision: Decision, first: Sequence[str] = ()) -> None:
        """Begin to execute ``decision``; one that is still being executed is superseded.

        Args:
            decision: with a target.
            first: executors that leave before any other, in this order; without them those of the decision, and
                then the newest.

        Raises:
            ActuationError: the decision has no target.
        """
        target = decision.target
        if target is None:
            message = f"decision {decision.decision_id} names no number of executors"
            raise ActuationError(message)
        with self._lock:
            self._turn += 1
            turn, self._working, self._outcome = self._turn, True, None
        self._runner(lambda: self._execute(decision, target, turn, first or decision.first))

    def poll(self, at: float) -> Outcome | None:  # noqa: ARG002 - the outcome carries its own time
        """The outcome of the last decision, once."""
        with self._lock:
            outcome, self._outcome = self._outcome, None
        return outcome

    def close(self) -> None:
        """End the work at its next look. May be called more than once."""
        with self._lock:
            self._turn += 1
            self._working = False
        self._runner.close()

    def ensure(self, target: int) -> None:
        """Ask for ``target`` executors again; nothing is waited for and nothing removed. May be repeated at will.

        For the start (of an application without executors, or of a driver that forgot what it had asked for) and for
        executors that were lost. Does nothing while a decision is being executed: that asks for its own number.

        Raises:
            ActuationError: the cluster refused, or could not be asked.
        """
        with self._lock:
            if self._working:
                return
        self._ground(self._turn).request(target)
        self._kept = target

    def _execute(self, decision: Decision, target: int, turn: int, first: Sequence[str]) -> None:
        ground = self._ground(turn)
        if ground.superseded():
            return
        former, self._kept = self._kept, None
        try:
            outcome = _outcome(decision, target, self._change(ground, target, former, first))
            self._kept = self._requested
        except Superseded:
            return
        except Exception as error:  # the thread's last line: whatever happened, the loop must hear that it has ended
            outcome = _failure(decision, target, error, self._clock.now())
        with self._lock:
            if turn == self._turn:
                self._working, self._outcome = False, outcome

    def _change(self, ground: ActuationContext, target: int, kept: int | None, first: Sequence[str]) -> Result:
        """``kept``: what a finished change left asked for; None: nothing did, and what is there counts.

        What a superseded change asked for was never confirmed: to fall back to it would ask for executors that nobody
        wants any more.
        """
        registered = len(self._levers.registered())
        former = registered if kept is None else kept
        if registered > target:
            return shrink(ground, target, former, first)
        result = grow(ground, target, former, self._start_ups)
        came_too_many = result.after > target  # of a greater request that this one supersedes: they were on their way
        return shrink(ground, target, target, first) if came_too_many else result

    def _ground(self, turn: int) -> ActuationContext:
        return ActuationContext(self._levers, self._clock, self._patience, lambda: turn != self._turn, self._asked)

    def _asked(self, executors: int) -> None:
        self._requested = executors


def _outcome(decision: Decision, target: int, result: Result) -> Outcome:
    figures = {"before": float(result.before), "after": float(result.after)}
    return Outcome(
        at=result.done_at,
        decision_id=decision.decision_id,
        status=result.status,
        reason=Reason(result.code, result.text, figures),
        target=target,
        before=result.before,
        after=result.after,
        method=result.method,
        redone_tasks=result.redone_tasks,
        waited_s=result.waited_s,
        took_s=result.done_at - decision.at,
    )


def _failure(decision: Decision, target: int, error: Exception, at: float) -> Outcome:
    words = str(error) if isinstance(error, ActuationError) else f"{type(error).__name__}: {error}"
    reason = Reason(ReasonCode.REQUEST_REJECTED, words)
    return Outcome(at, decision.decision_id, OutcomeStatus.FAILED, reason, target, decision.current)


# What growing and shrinking stand on: the levers, the clock, and how long they may take.


class Levers(Protocol):
    """What can be done to the executors of one application, and seen of them; see ``rheostat.spark.levers``.

    Every call may raise :class:`~rheostat.errors.ActuationError`.
    """

    def request_total(self, executors: int) -> bool:
        """Ask for so many; a limit too, but removes nothing. False: not acknowledged."""
        ...

    def listed(self) -> tuple[str, ...]:
        """All in the driver's list, with those on their way out; oldest first."""
        ...

    def registered(self) -> tuple[str, ...]:
        """Those that get tasks; oldest first."""
        ...

    def idle(self) -> frozenset[str]:
        """Those that run no task."""
        ...

    def between_triggers(self) -> bool:
        """Whether no query is within a trigger and no job runs."""
        ...

    def holding_map_output(self) -> frozenset[str]:
        """Those that hold map output which a running job still needs."""
        ...

    def kill_idle(self, executors: Sequence[str]) -> tuple[str, ...]:
        """Remove those of them that run no task; the ones really removed."""
        ...

    def kill_forced(self, executors: Sequence[str]) -> tuple[str, ...]:
        """Remove them whatever they do; the ones really removed."""
        ...

    def oldest_stage(self) -> int:
        """The least id of the stages that run or are still to come."""
        ...

    def redone_tasks(self, since: int) -> int:
        """Tasks that had to run again so far, in the stages from this id on."""
        ...


@dataclass(frozen=True, slots=True)
class Patience:
    """How long things may take, in seconds, and what is allowed when they take longer.

    Attributes:
        look_s: between two looks at the driver.
        start_up_s: 95th percentile of the start-up of an executor, until enough of our own are known.
        least_no_room_s: a request is given at least so long, however fast executors have started so far.
        gap_s: how long only a gap between two triggers will do; then idle executors are taken within a trigger too.
        safe_moment_s: how long a safe moment is waited for, all told.
        gone_s: how long to wait until a removed executor has left the driver's list (Spark keeps it 5 s) to count what
            was redone because of it.
        allow_redone_work: whether executors may be killed by force when no safe moment came.
    """

    look_s: float = 0.02
    start_up_s: float = 10.0
    least_no_room_s: float = 15.0
    gap_s: float = 10.0
    safe_moment_s: float = 30.0
    gone_s: float = 15.0
    allow_redone_work: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """How a change ended; see :class:`~rheostat.model.Outcome`. ``done_at``: when it was confirmed."""

    status: OutcomeStatus
    code: ReasonCode
    text: str
    before: int
    after: int
    done_at: float
    method: str = "none"
    redone_tasks: int | None = None
    waited_s: float | None = None


class Superseded(Exception):  # noqa: N818 - nothing went wrong
    """A later decision, or the end, has made this one pointless."""


@dataclass(frozen=True, slots=True)
class ActuationContext:
    """What one change works with.

    Attributes:
        superseded: whether the change is no longer wanted.
        asked: told each number that the cluster was asked for.
    """

    levers: Levers
    clock: Clock
    patience: Patience
    superseded: Callable[[], bool]
    asked: Callable[[int], None]

    def pause(self) -> None:
        """Wait until the next look.

        Raises:
            Superseded: the change is no longer wanted.
        """
        if self.superseded() or self.clock.wait(self.patience.look_s):
            raise Superseded

    def request(self, executors: int) -> None:
        """Ask the cluster for so many executors.

        Raises:
            ActuationError: it did not acknowledge, or could not be asked.
        """
        if not self.levers.request_total(executors):
            what = several(executors, "executor")
            message = f"the cluster did not acknowledge the request for {what}: is its master there?"
            raise ActuationError(message)
        self.asked(executors)


# More executors: ask, and confirm by what the driver shows.


_REMEMBERED = 20
_ENOUGH = 3


class StartUps:
    """How long executors took to start, learned from our own requests."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._seen: deque[float] = deque(maxlen=_REMEMBERED)

    def learn(self, seconds: float) -> None:
        """One more start-up."""
        self._seen.append(seconds)

    @property
    def p95_s(self) -> float:
        """95th percentile of the last 20; not under the setting before there are three."""
        p95 = sorted(self._seen)[math.ceil(0.95 * len(self._seen)) - 1] if self._seen else 0.0
        return p95 if len(self._seen) >= _ENOUGH else max(p95, self._patience.start_up_s)

    @property
    def patience_s(self) -> float:
        """How long to wait for the next executor: 3 × the 95th percentile, but not under the setting."""
        return max(3 * self.p95_s, self._patience.least_no_room_s)


class _Arrivals:
    """Which executors came, and the longest time without a new one."""

    def __init__(self, at: float, known: Iterable[str]) -> None:
        self.last = at
        self.longest = 0.0
        self._known = set(known)

    def see(self, at: float, executors: Iterable[str]) -> None:
        new = set(executors) - self._known
        if new:
            self.longest = max(self.longest, at - self.last)
            self.last = at
            self._known |= new


def grow(ground: ActuationContext, target: int, former: int, start_ups: StartUps) -> Result:
    """Ask for ``target`` executors and wait until so many are registered.

    There is no room when no further one came within 3 × the 95th percentile of the start-up, or not all within that
    time for each. The request is then lowered to what there is (not under ``former``, the number that stood before, as
    far as that is not over ``target``, and not under 1): a request left standing might be granted at any later time,
    when nobody expects it.

    Raises:
        ActuationError: the cluster refused.
        Superseded: a later decision came.
    """
    began, have = ground.clock.now(), ground.levers.registered()
    before, arrivals = len(have), _Arrivals(began, have)
    patience_s = start_ups.patience_s
    ground.request(target)
    while len(have) < target:
        now = ground.clock.now()
        if now - arrivals.last > patience_s or now - began > patience_s * (target - before):
            return _no_room(ground, target, former, before, waited_s=now - began)
        ground.pause()
        have = ground.levers.registered()
        arrivals.see(ground.clock.now(), have)
    if arrivals.longest:
        start_ups.learn(arrivals.longest)
    now = ground.clock.now()
    text = f"{len(have)} registered {now - began:.1f} s after {several(target, 'was', 'were')} asked for"
    return Result(OutcomeStatus.APPLIED, ReasonCode.APPLIED, text, before, len(have), now, "request", 0, 0.0)


def _no_room(ground: ActuationContext, target: int, former: int, before: int, waited_s: float) -> Result:
    after = len(ground.levers.registered())
    kept = max(1, min(former, target), after)
    ground.request(kept)
    text = (
        f"{several(target, 'executor was', 'executors were')} asked for, {after} registered after {waited_s:.1f} s: no"
        f" room in the cluster (free cores, memory, spark.cores.max); the request is lowered to {kept}"
    )
    status = OutcomeStatus.PARTIAL if after > before else OutcomeStatus.NO_ROOM
    return Result(status, ReasonCode.NO_ROOM, text, before, after, ground.clock.now(), "request", 0, 0.0)


# Fewer executors, without redone work: a ladder of methods, the gentlest first.


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


def shrink(ground: ActuationContext, target: int, former: int, first: Sequence[str] = ()) -> Result:
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


def _climb(ground: ActuationContext, target: int, rungs: tuple[Rung, ...], removed: _Removed) -> None:
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


def _redone(ground: ActuationContext, removed: list[str], mark: _Mark | None) -> int | None:
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
        return Result(OutcomeStatus.APPLIED, ReasonCode.APPLIED, text, before, after, now, "request", 0, waited_s)
    text = (
        f"none of {executors(after)} could be removed without redoing work within {waited_s:.1f} s: no gap between two"
        " triggers, and each was busy or held map output in use"
    )
    return Result(OutcomeStatus.HELD, ReasonCode.NOTHING_IDLE, text, before, after, now, "none", 0, waited_s)


def _some_removed(
    target: int, before: int, after: int, now: float, removed: _Removed, rung: Rung, redone: int | None
) -> Result:
    tasks = "an unknown number of tasks" if redone is None else several(redone, "task")
    text = f"{len(removed.executors)} removed {rung.how} after waiting {removed.waited_s:.1f} s; {tasks} done again"
    status, code = OutcomeStatus.APPLIED, ReasonCode.APPLIED
    if after > target:
        status, code = OutcomeStatus.PARTIAL, ReasonCode.NOTHING_IDLE
        text += f"; {after - target} more could not be removed without redoing work"
    return Result(status, code, text, before, after, now, rung.method, redone, removed.waited_s)


# One daemon thread that does one thing after another.


class Background:
    """Work in the order in which it is given. The thread starts with the first piece and never holds up an exit.

    One thread for all of it, as each thread that calls the JVM has a thread of its own there.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def __call__(self, work: Callable[[], None]) -> None:
        """Do it later. ``work`` must not raise; a thread that died all the same is replaced."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put(work)

    def close(self) -> None:
        """End after what was given before. May be called more than once."""
        self._queue.put(None)

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            work()
