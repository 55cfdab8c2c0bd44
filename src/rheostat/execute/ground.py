"""What growing and shrinking stand on: the levers, the clock, and how long they may take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rheostat.errors import ActuationError
from rheostat.model import Code, OutcomeStatus
from rheostat.plan.words import several
from rheostat.ports import Clock

__all__ = ["Ground", "Levers", "Patience", "Result", "Superseded"]


class Levers(Protocol):
    """What can be done to the executors of one application, and seen of them; see ``rheostat.jvm.levers``.

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
    code: Code
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
class Ground:
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
