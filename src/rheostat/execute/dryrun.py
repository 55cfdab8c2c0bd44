"""Decisions that are only recorded: the mode of choice until the user trusts us."""

from __future__ import annotations

from rheostat.model import Code, Decision, Outcome, OutcomeStatus, Reason
from rheostat.plan.words import executors

__all__ = ["DryRun"]


class DryRun:
    """An actuator (``rheostat.ports.Actuator``) that changes nothing."""

    def __init__(self) -> None:
        self._decision: Decision | None = None

    def apply(self, decision: Decision) -> None:
        """Take note of ``decision``."""
        self._decision = decision

    def poll(self, at: float) -> Outcome | None:
        """That it was recorded, once."""
        decision, self._decision = self._decision, None
        if decision is None or decision.target is None:
            return None
        text = f"a dry run: {executors(decision.target)} would have been asked for"
        return Outcome(
            at=at,
            decision_id=decision.decision_id,
            status=OutcomeStatus.RECORDED,
            reason=Reason(Code.DRY_RUN, text),
            target=decision.target,
            before=decision.current,
            after=decision.current,
            method="dry-run",
        )

    def close(self) -> None:
        """Nothing is left to end."""
