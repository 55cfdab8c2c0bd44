"""What goes wrong in a loop: told once for each kind, with what to do, and counted."""

from __future__ import annotations

import logging

from rheostat.errors import ActuationError
from rheostat.model import Code, Decision, Outcome, OutcomeStatus, Reason

__all__ = ["Trouble", "refused"]

_log = logging.getLogger("rheostat")
_LONGEST = 300

_WHAT_TO_DO = {
    "observe": "the number of executors stays as it is; look whether the application and its sources answer",
    "analyze": "the number of executors stays as it is; this is a fault of rheostat, please report it with the journal",
    "plan": "the number of executors stays as it is; look at the policy and its options, `rheostat replay` repeats it",
    "journal": "nothing is changed until the journal can be written: look at the free space and the rights there",
    "state": "after a restart the controller will know less: look at the free space and the rights there",
    "execute": "the cluster was not asked; it is tried again after a while: look at the driver and the cluster manager",
    "run": "the loop's thread died and a new one goes on; please report it with the journal if nobody ended it",
    "poll": "what became of the last change is unknown: look at the driver and the cluster manager",
}


class Trouble:
    """Remembers what was told already.

    Attributes:
        count: failures so far.
        last: the last one in words.
        stage: the one that has begun, so that a failure in it can be told.
    """

    def __init__(self) -> None:
        self.count = 0
        self.last: str | None = None
        self.stage = "observe"
        self._told: set[tuple[str, type[BaseException]]] = set()

    def met(self, error: BaseException) -> str:
        """A failure of the present stage; returns it in words. The first of its kind is logged."""
        text = f"{self.stage} failed: {describe(error)}"
        self.count += 1
        self.last = text
        kind = (self.stage, type(error))
        if kind not in self._told:
            self._told.add(kind)
            _log.error("%s; %s (told once)", text, _WHAT_TO_DO[self.stage], exc_info=error)
        return text

    def note(self, text: str) -> None:
        """Something that people should know, without being a failure."""
        _log.warning("%s", text)


def describe(error: BaseException) -> str:
    """An exception in one short line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def refused(decision: Decision, error: Exception) -> Outcome:
    """The outcome of a decision that could not even be asked for."""
    code = Code.REQUEST_REJECTED if isinstance(error, ActuationError) else Code.CYCLE_FAILED
    return Outcome(
        at=decision.at,
        decision_id=decision.decision_id,
        status=OutcomeStatus.FAILED,
        reason=Reason(code, f"the change could not be asked for: {describe(error)}"),
        target=decision.target or 0,
        before=decision.current,
        after=decision.current,
    )
