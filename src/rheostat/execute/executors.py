"""The executors of a running application, changed while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from rheostat.errors import ActuationError
from rheostat.execute.background import Background
from rheostat.execute.ground import Ground, Levers, Patience, Result, Superseded
from rheostat.execute.growing import StartUps, grow
from rheostat.execute.shrinking import shrink
from rheostat.model import Code, Decision, Outcome, OutcomeStatus, Reason
from rheostat.ports import Clock

__all__ = ["LiveExecutors", "Patience"]


class Runner(Protocol):
    """Runs work in the background; :class:`~rheostat.execute.background.Background` does."""

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

    def _change(self, ground: Ground, target: int, kept: int | None, first: Sequence[str]) -> Result:
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

    def _ground(self, turn: int) -> Ground:
        return Ground(self._levers, self._clock, self._patience, lambda: turn != self._turn, self._asked)

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
    reason = Reason(Code.REQUEST_REJECTED, words)
    return Outcome(at, decision.decision_id, OutcomeStatus.FAILED, reason, target, decision.current)
