"""The executors of a running application, changed while it runs."""

from __future__ import annotations

import contextlib
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Protocol

from rheostat.config.models import Settings
from rheostat.errors import ActuationError
from rheostat.execute.actuator import ActuatorContext
from rheostat.model import Decision, Outcome, OutcomeStatus, Reason, ReasonCode
from rheostat.ports import Clock
from rheostat.spark.levers import SparkLevers
from rheostat.text import executors, several


class Levers(Protocol):
    """The executors of one application; see :class:`rheostat.spark.levers.SparkLevers`."""

    def request_total(self, executors: int) -> bool: ...

    def listed(self) -> tuple[str, ...]: ...

    def registered(self) -> tuple[str, ...]: ...

    def idle(self) -> frozenset[str]: ...

    def between_triggers(self) -> bool: ...

    def pause(self, longest_s: float) -> bool: ...

    def resume(self) -> None: ...

    def holding_map_output(self) -> frozenset[str]: ...

    def kill_idle(self, executors: Sequence[str]) -> tuple[str, ...]: ...

    def kill_forced(self, executors: Sequence[str]) -> tuple[str, ...]: ...

    def oldest_stage(self) -> int: ...

    def redone_tasks(self, since: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Patience:
    """How long things may take, in seconds, and what is allowed when they take longer.

    Attributes:
        look_s: between two polls of the driver.
        start_up_s: 95th percentile of the start-up of an executor, until enough of our own are known.
        least_no_room_s: a request is given at least so long, however fast executors have started so far.
        most_no_room_s: the limit of what waits in vain make of that; each doubles it.
        gap_s: how long only a gap between two triggers will do; then idle executors are taken within a trigger too.
        safe_moment_s: how long a safe moment is waited for in total.
        gone_s: how long to wait until a removed executor has left the driver's list (Spark keeps it 5 s) to count what
            was redone because of it.
        allow_redone_work: whether executors may be killed by force when no safe moment came.
    """

    look_s: float = 0.02
    start_up_s: float = 10.0
    least_no_room_s: float = 15.0
    most_no_room_s: float = 600.0
    gap_s: float = 10.0
    safe_moment_s: float = 30.0
    gone_s: float = 15.0
    allow_redone_work: bool = False

    @classmethod
    def of(cls, settings: Settings, least_no_room_s: float = 0.0) -> Patience:
        """As the settings have it; ``least_no_room_s``: what an executor needs in any case."""
        guard = settings.guard
        return cls(
            least_no_room_s=max(least_no_room_s, guard.no_room_patience_s),
            most_no_room_s=guard.no_room_patience_max_s,
            allow_redone_work=settings.allow_redone_work,
        )


class Runner(Protocol):
    """Runs work in the background, in order; see :class:`Background`."""

    def __call__(self, work: Callable[[], None]) -> None: ...

    def close(self) -> None: ...


class LiveExecutors:
    """The actuator of a running application (``rheostat.ports.Actuator``).

    Whether to grow or to shrink follows from what is registered when the work begins, not from the decision. A decision
    that supersedes another takes over at the other's next poll (20 ms), or when its call to the cluster returns; the
    superseded one has no outcome.

    When a wait of the clock is cut short, the work ends. Without a runner, the work is done in a daemon thread.
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
        return cls(SparkLevers(context.spark), context.clock, Patience.of(context.settings))

    @property
    def requested(self) -> int | None:
        """The number requested last; None: none yet."""
        return self._requested

    def apply(self, decision: Decision, first: Sequence[str] = ()) -> None:
        """Start to execute ``decision``; one that is still being executed is superseded.

        Executors leave in this order: ``first`` or else those that the decision names, then the newest.

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
        """End the work at its next poll. May be called more than once."""
        with self._lock:
            self._turn += 1
            self._working = False
        self._runner.close()

    def ensure(self, target: int) -> None:
        """Request ``target`` executors, at the start or after a loss; nothing is waited for and nothing removed.

        Does nothing while a decision is being executed: that requests its own number.

        Raises:
            ActuationError: the cluster refused, or could not be asked.
        """
        with self._lock:
            if self._working:
                return
        self._request(target)
        self._kept = target

    def _execute(self, decision: Decision, target: int, turn: int, first: Sequence[str]) -> None:
        if turn != self._turn:
            return
        kept, self._kept = self._kept, None
        execution = _Execution(
            decision=decision,
            target=target,
            first=first,
            levers=self._levers,
            clock=self._clock,
            patience=self._patience,
            start_ups=self._start_ups,
            request=self._request,
            superseded=lambda: turn != self._turn,
        )
        try:
            outcome = execution.run(kept)
            self._kept = self._requested
        except _SupersededError:
            return
        except Exception as error:  # the thread's last line: whatever happened, the loop must hear that it has ended
            words = str(error) if isinstance(error, ActuationError) else f"{type(error).__name__}: {error}"
            reason, status = Reason(ReasonCode.REQUEST_REJECTED, words), OutcomeStatus.FAILED
            outcome = Outcome(self._clock.now(), decision.decision_id, status, reason, target, decision.current)
        with self._lock:
            if turn == self._turn:
                self._working, self._outcome = False, outcome

    def _request(self, number: int) -> None:
        """Ask the cluster for so many executors; raise ActuationError unless it acknowledges."""
        if not self._levers.request_total(number):
            what = several(number, "executor")
            message = f"the cluster did not acknowledge the request for {what}: is its master there?"
            raise ActuationError(message)
        self._requested = number


_REMEMBERED = 20
_ENOUGH = 3
_MOST_DOUBLED = 2.0**16


class StartUps:
    """How long executors took to start, learned from our own requests."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._known: deque[float] = deque(maxlen=_REMEMBERED)
        self._doubled = 1.0

    def learn(self, seconds: float) -> None:
        self._known.append(seconds)
        self._doubled = 1.0

    def wait_longer(self) -> None:
        """A wait was in vain: the next one is twice as long."""
        self._doubled = min(2 * self._doubled, _MOST_DOUBLED)

    @property
    def p95_s(self) -> float:
        """95th percentile of the last 20; not under the setting before there are three."""
        p95 = sorted(self._known)[math.ceil(0.95 * len(self._known)) - 1] if self._known else 0.0
        return p95 if len(self._known) >= _ENOUGH else max(p95, self._patience.start_up_s)

    @property
    def patience_s(self) -> float:
        """How long to wait for the next executor: 3 × the 95th percentile, but not under the setting.

        Doubled by each wait in vain up to the most, until one is granted.
        """
        usual_s = max(3 * self.p95_s, self._patience.least_no_room_s)
        return max(usual_s, min(self._doubled * usual_s, self._patience.most_no_room_s))


class _SupersededError(Exception):
    """A later decision, or the end, has made this one pointless."""


_FORCE_S = 5.0
"""How long killing by force is tried, s."""

_PAUSED = ("paused", "while the source was paused")
_METHODS = (
    ("gap", "between two triggers"),
    ("idle", "while idle and without map output in use"),
    ("forced", "by force"),
)
"""How executors are removed, the gentlest first: name in the outcome, and in words."""


@dataclass(slots=True)
class _Removed:
    """The executors removed so far, the least gentle method that it took, and how long that was waited for.

    ``paused``: whether the sources were paused meanwhile.
    """

    executors: list[str] = field(default_factory=list)
    method: int = 0
    waited_s: float = 0.0
    paused: bool = False


@dataclass(slots=True)
class _Execution:
    """The execution of one decision. ``first``: executors that leave before any other, in this order."""

    decision: Decision
    target: int
    first: Sequence[str]
    levers: Levers
    clock: Clock
    patience: Patience
    start_ups: StartUps
    request: Callable[[int], None]
    superseded: Callable[[], bool]
    _idle_before: frozenset[str] = frozenset()

    def run(self, kept: int | None) -> Outcome:
        """Change the executors; raises ActuationError or _SupersededError.

        ``kept`` is what a finished change left requested. If it is None, what is registered counts: what a superseded
        change requested was never confirmed, and nobody wants it any more.
        """
        registered = len(self.levers.registered())
        former = registered if kept is None else kept
        if registered > self.target:
            return self._shrink(former)
        outcome = self._grow()
        if outcome.after is not None and outcome.after > self.target:  # of a greater, superseded request
            return self._shrink(self.target)
        return outcome

    def _grow(self) -> Outcome:
        """Request ``target`` executors and wait until so many are registered.

        There is no room for now when no further one came within the patience, or not all within that time for each. The
        request stands: a cluster manager that has not refused it may be starting nodes for it, and would stop.
        Executors that are named get no tasks: they go, and others come in their place.
        """
        if self.first:
            self.request(self.target)
            self._remove_named()
        began, registered = self.clock.now(), self.levers.registered()
        before, known = len(registered), set(registered)
        last_at, longest_s = began, 0.0
        patience_s = self.start_ups.patience_s
        self.request(self.target)
        while len(registered) < self.target:
            now = self.clock.now()
            if now - last_at > patience_s or now - began > patience_s * (self.target - before):
                self.start_ups.wait_longer()
                return self._no_room(before, waited_s=now - began)
            self._pause()
            registered, now = self.levers.registered(), self.clock.now()
            if not known.issuperset(registered):
                longest_s, last_at = max(longest_s, now - last_at), now
                known.update(registered)
        if longest_s:
            self.start_ups.learn(longest_s)
        after, now = len(registered), self.clock.now()
        text = f"{after} registered {now - began:.1f} s after {several(self.target, 'was', 'were')} asked for"
        return self._outcome(OutcomeStatus.APPLIED, ReasonCode.APPLIED, text, before, after, now)

    def _remove_named(self) -> None:
        """Remove the executors that are named, as far as they become idle in the time for a safe moment."""
        began = self.clock.now()
        while leaving := [each for each in self.levers.registered() if each in self.first]:
            free = self._find_free()
            self.levers.kill_idle([each for each in leaving if each in free])
            if self.clock.now() - began > self.patience.safe_moment_s:
                return
            self._pause()

    def _no_room(self, before: int, waited_s: float) -> Outcome:
        after = len(self.levers.registered())
        text = (
            f"{several(self.target, 'executor was', 'executors were')} asked for, {after} registered after"
            f" {waited_s:.1f} s: no room in the cluster so far (free cores, memory, spark.cores.max, nodes that still"
            f" start); the request stands, the next wait is up to {self.start_ups.patience_s:.0f} s for each"
        )
        status = OutcomeStatus.PARTIAL if after > before else OutcomeStatus.NO_ROOM
        return self._outcome(status, ReasonCode.NO_ROOM, text, before, after, self.clock.now())

    def _shrink(self, former: int) -> Outcome:
        """Lower the request to ``target``, so that nothing is replaced, and remove the surplus at a safe moment.

        When no safe moment comes, the request is restored to ``former``, or to what is left if some were removed.
        """
        began, before = self.clock.now(), len(self.levers.registered())
        stage = self._ask_counts(self.levers.oldest_stage)
        redone_before = None if stage is None else self._ask_counts(lambda: self.levers.redone_tasks(stage))
        self.request(self.target)
        try:
            removed = self._remove_surplus()
        except (_SupersededError, ActuationError):
            with contextlib.suppress(ActuationError):
                self.request(max(self.target, len(self.levers.registered())))
            raise
        after, now = len(self.levers.registered()), self.clock.now()
        if after > self.target:
            self.request(after if removed.executors else max(former, after))
        if not removed.executors:
            return self._nothing_removed(before, after, now, waited_s=now - began)
        redone = None
        if self._await_gone(removed.executors) and stage is not None and redone_before is not None:
            redone_now = self._ask_counts(lambda: self.levers.redone_tasks(stage))
            redone = None if redone_now is None else max(0, redone_now - redone_before)
        return self._some_removed(before, after, now, removed, redone)

    def _remove_surplus(self) -> _Removed:
        """Try every method whose time has come, again and again, until the target is reached or time is up.

        Sources that take orders are paused: the gap then comes as soon as the running batch has ended.
        """
        limit_s = self.patience.safe_moment_s + _FORCE_S
        paused = self.levers.pause(limit_s)
        try:
            removed = self._try_methods()
        finally:
            if paused:
                self.levers.resume()
        removed.paused = paused
        return removed

    def _try_methods(self) -> _Removed:
        attempts = [(0.0, self._kill_between_triggers), (self.patience.gap_s, self._kill_idle)]
        limit_s = self.patience.safe_moment_s
        if self.patience.allow_redone_work:
            attempts.append((limit_s, lambda: self.levers.kill_forced(self._victims())))
            limit_s += _FORCE_S
        began, removed = self.clock.now(), _Removed()
        while len(self.levers.registered()) > self.target:
            waited_s = self.clock.now() - began
            if waited_s > limit_s:
                break
            for number, (opens_s, attempt) in enumerate(attempts):
                killed = attempt() if waited_s >= opens_s else ()
                if killed:
                    removed.executors.extend(killed)
                    removed.method, removed.waited_s = max(removed.method, number), waited_s
            self._pause()
        return removed

    def _kill_between_triggers(self) -> tuple[str, ...]:
        """Should a trigger begin meanwhile, Spark refuses to remove the ones that are busy by then."""
        return self.levers.kill_idle(self._victims()) if self.levers.between_triggers() else ()

    def _kill_idle(self) -> tuple[str, ...]:
        free = self._find_free()
        return self.levers.kill_idle(self._victims(free)) if free else ()

    def _find_free(self) -> frozenset[str]:
        """The executors that are idle at two polls in a row, and hold no map output of a running job at the second.

        One poll is not enough: the output of a task is registered a moment after its executor has become idle.
        """
        idle = self.levers.idle()
        twice, self._idle_before = idle & self._idle_before, idle
        return twice - self.levers.holding_map_output() if twice else twice

    def _victims(self, among: frozenset[str] | None = None) -> tuple[str, ...]:
        """The surplus: ``first``, then the newest, which hold the fewest stores and the coldest caches.

        If one of ``first`` may not go now (it is not ``among``), it is waited for: nobody goes in its place.
        """
        registered = self.levers.registered()
        number = max(0, len(registered) - self.target)
        named = [each for each in self.first if each in registered][:number]
        others = [each for each in reversed(registered) if each not in named]
        eligible = [each for each in others if among is None or each in among][: number - len(named)]
        return (*(each for each in named if among is None or each in among), *eligible)

    def _await_gone(self, removed: Sequence[str]) -> bool:
        """Wait until the removed are out of the list: only then does Spark tell of lost tasks and lost map output."""
        deadline = self.clock.now() + self.patience.gone_s
        while set(removed) & set(self.levers.listed()):
            if self.clock.now() > deadline:
                return False
            self._pause()
        return True

    def _ask_counts(self, ask: Callable[[], int]) -> int | None:
        with contextlib.suppress(ActuationError):
            return ask()
        return None

    def _pause(self) -> None:
        if self.superseded() or self.clock.wait(self.patience.look_s):
            raise _SupersededError

    def _nothing_removed(self, before: int, after: int, now: float, waited_s: float) -> Outcome:
        if after <= self.target:
            text = f"{executors(after)} left without removing any: no more than {self.target} asked for"
            return self._outcome(OutcomeStatus.APPLIED, ReasonCode.APPLIED, text, before, after, now, waited_s=waited_s)
        text = (
            f"none of {executors(after)} could be removed without redoing work within {waited_s:.1f} s: no gap between"
            " two triggers, and each was busy or held map output in use"
        )
        status, code = OutcomeStatus.HELD, ReasonCode.NOTHING_IDLE
        return self._outcome(status, code, text, before, after, now, method="none", waited_s=waited_s)

    def _some_removed(self, before: int, after: int, now: float, removed: _Removed, redone: int | None) -> Outcome:
        method, how = _PAUSED if removed.paused and not removed.method else _METHODS[removed.method]
        tasks = "an unknown number of tasks" if redone is None else several(redone, "task")
        text = f"{len(removed.executors)} removed {how} after waiting {removed.waited_s:.1f} s; {tasks} done again"
        status, code = OutcomeStatus.APPLIED, ReasonCode.APPLIED
        if after > self.target:
            status, code = OutcomeStatus.PARTIAL, ReasonCode.NOTHING_IDLE
            text += f"; {after - self.target} more could not be removed without redoing work"
        waited_s = removed.waited_s
        return self._outcome(status, code, text, before, after, now, method=method, redone=redone, waited_s=waited_s)

    def _outcome(
        self,
        status: OutcomeStatus,
        code: ReasonCode,
        text: str,
        before: int,
        after: int,
        at: float,
        *,
        method: str = "request",
        redone: int | None = 0,
        waited_s: float = 0.0,
    ) -> Outcome:
        return Outcome(
            at=at,
            decision_id=self.decision.decision_id,
            status=status,
            reason=Reason(code, text, {"before": float(before), "after": float(after)}),
            target=self.target,
            before=before,
            after=after,
            method=method,
            redone_tasks=redone,
            waited_s=waited_s,
            took_s=at - self.decision.at,
        )


class Background:
    """One daemon thread that does one thing after another. It starts with the first and never holds up an exit.

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
