"""An actuator for tests: it does what it is told to, when it is told to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rheostat.model import Code, Decision, Outcome, OutcomeStatus, Reason

__all__ = ["FakeActuator", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """How one decision ends.

    Attributes:
        after_s: seconds from the decision to its outcome.
        executors: how many there are then; None: the target if it is applied, as many as before if not.
    """

    after_s: float = 0.0
    status: OutcomeStatus = OutcomeStatus.APPLIED
    code: Code = Code.APPLIED
    executors: int | None = None


class FakeActuator:
    """An actuator (``rheostat.ports.Actuator``) without a cluster.

    Args:
        executors: how many there are at the start.
        script: how the decisions end, in order; the ones after that are applied at once.

    Attributes:
        executors: how many there are now.
        applied: every decision that came.
        closed: whether it was closed.
    """

    def __init__(self, executors: int = 1, script: Iterable[Step] = ()) -> None:
        self.executors = executors
        self.applied: list[Decision] = []
        self.closed = False
        self._script = iter(script)
        self._pending: tuple[Decision, Step] | None = None

    def apply(self, decision: Decision) -> None:
        """Begin with the next step of the script."""
        self.applied.append(decision)
        self._pending = (decision, next(self._script, Step()))

    def poll(self, at: float) -> Outcome | None:
        """The outcome, once, when its time has come."""
        if self._pending is None:
            return None
        decision, step = self._pending
        if decision.target is None or at < decision.at + step.after_s:
            return None
        self._pending = None
        return self._ended(decision, decision.target, step)

    def close(self) -> None:
        """Drop what is still being executed."""
        self.closed = True
        self._pending = None

    def _ended(self, decision: Decision, target: int, step: Step) -> Outcome:
        before = self.executors
        reached = target if step.status is OutcomeStatus.APPLIED else before
        self.executors = reached if step.executors is None else step.executors
        return Outcome(
            at=decision.at + step.after_s,
            decision_id=decision.decision_id,
            status=step.status,
            reason=Reason(step.code, f"as the script says: {step.status}"),
            target=target,
            before=before,
            after=self.executors,
            method="request",
            took_s=step.after_s,
        )
