"""How a change of executors goes on, and how it ends: what the live actuator does, on the simulated application.

Growing: ask, and wait until so many are registered; no room when no further one came in time, then the request is
lowered to what there is. Shrinking: lower the request, and take the newest executors away in the next gap between two
triggers; after a while also at the end of a batch that is followed by the next at once; given up when none comes in
time. With rescale mode restart the query is stopped at a batch's end once all that
were asked for are there, and started again with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Protocol

from rheostat.model import Code, Decision, Outcome, OutcomeStatus, Reason
from rheostat.plan.words import executors, several
from rheostat.sim.fleet import Fleet
from rheostat.sim.jobfile import JobFile

__all__ = ["Change", "Restarts"]

_LEAST_NO_ROOM_S = 15.0


class Restarts(Protocol):
    """What can stop the query and start it again."""

    def restart(self, at: float) -> float:
        """Begin; when the query works again."""
        ...

    def moved(self, share: float) -> None:
        """Executors with this share of the state have been taken away."""
        ...


@dataclass(slots=True)
class Change:
    """One decision on its way.

    Attributes:
        before: registered when it began.
        former: the number asked for before it.
        last_came: when the last executor came, or the change began.
        stopping: mode restart: whether the query is to be stopped at the next batch's end.
        done: the outcome, and when it is known; None: still on its way.
    """

    job: JobFile
    fleet: Fleet
    query: Restarts
    decision: Decision
    target: int
    began: float
    before: int
    former: int
    last_came: float
    stopping: bool = False
    done: tuple[float, Outcome] | None = None

    @classmethod
    def begin(cls, job: JobFile, fleet: Fleet, query: Restarts, decision: Decision, target: int, at: float) -> Change:
        """Ask the cluster."""
        registered = len(fleet.running)
        former = registered if fleet.requested is None else fleet.requested
        change = cls(
            job=job,
            fleet=fleet,
            query=query,
            decision=decision,
            target=target,
            began=at,
            before=registered,
            former=former,
            last_came=at,
        )
        fleet.request(at, target, decision.placement)
        change.came(at)
        return change

    @property
    def shrinks(self) -> bool:
        """Whether there are more executors than are wanted."""
        return self.before > self.target

    @property
    def next_at(self) -> float:
        """When its patience ends; infinite if it is done, or waits for a batch's end only."""
        if self.done is not None or self.stopping:
            return inf
        if self.shrinks:
            return inf if self.job.rescale.mode == "restart" else self.began + self.job.rescale.safe_moment_s
        each_s = self._patience_s
        return min(self.last_came + each_s, self.began + each_s * (self.target - self.before))

    @property
    def waits_for_gap(self) -> bool:
        """Whether something is to be done between two batches."""
        return self.done is None and (self.stopping or self.shrinks)

    def came(self, at: float) -> None:
        """Executors have registered, or may have been there from the start."""
        if self.done is not None or self.shrinks:
            return
        self.last_came = at
        if len(self.fleet.running) >= self.target and not self.stopping:
            if self.job.rescale.mode == "restart" and self.fleet.in_use != self.target:
                self.stopping = True
            else:
                asked = several(self.target, "was", "were")
                text = f"{len(self.fleet.running)} registered {at - self.began:.1f} s after {asked} asked for"
                self._end(at, OutcomeStatus.APPLIED, Code.APPLIED, text, "request")

    def gap(self, at: float, *, wide: bool) -> None:
        """No batch is running: take away what is too much, or stop the query and start it again.

        Args:
            at: now.
            wide: whether the next batch begins later than now. Where it begins at once the gap is shorter than two
                looks at the driver, and executors are idle only while the driver commits and plans.
        """
        if self.job.rescale.mode == "restart":
            self._restart(at)
            return
        waited_s = at - self.began
        if not wide and waited_s < self.job.rescale.gap_s:
            return
        count = self._take_away(at)
        how, method = ("between two triggers", "gap") if wide else ("while idle and without map output in use", "idle")
        text = f"{count} removed {how} after waiting {waited_s:.1f} s; 0 tasks done again"
        later = self.job.rescale.listed_s if count else 0.0
        self._end(at, OutcomeStatus.APPLIED, Code.APPLIED, text, method, waited_s=waited_s, known_at=at + later)

    def give_up(self, at: float) -> None:
        """The patience has ended."""
        waited_s = at - self.began
        after = len(self.fleet.running)
        if self.shrinks:
            self.fleet.request(at, max(self.former, after))
            text = (
                f"none of {executors(after)} could be removed without redoing work within {waited_s:.1f} s: no gap"
                " between two triggers"
            )
            self._end(at, OutcomeStatus.HELD, Code.NOTHING_IDLE, text, "none", waited_s=waited_s)
            return
        kept = max(1, self.former, after)
        self.fleet.request(at, kept)
        text = (
            f"{several(self.target, 'executor was', 'executors were')} asked for, {after} registered after"
            f" {waited_s:.1f} s: no room in the cluster; the request is lowered to {kept}"
        )
        status = OutcomeStatus.PARTIAL if after > self.before else OutcomeStatus.NO_ROOM
        self._end(at, status, Code.NO_ROOM, text, "request")

    @property
    def _patience_s(self) -> float:
        given = self.job.rescale.no_room_s
        return max(3 * self.job.executor.start_up.p95_s, _LEAST_NO_ROOM_S) if given is None else given

    def _take_away(self, at: float) -> int:
        share = max(0, len(self.fleet.running) - self.target) / max(1, len(self.fleet.running))
        count = self.fleet.remove(at, self.target, self.decision.first)
        if count:
            self.query.moved(share)
        return count

    def _restart(self, at: float) -> None:
        self._take_away(at)
        self.fleet.cool()
        works_at = self.query.restart(at)
        waited_s = at - self.began
        text = f"stopped at a batch's end after {waited_s:.1f} s, works again {works_at - at:.1f} s later"
        self._end(works_at, OutcomeStatus.APPLIED, Code.APPLIED, text, "restart", waited_s=waited_s)

    def _end(
        self,
        at: float,
        status: OutcomeStatus,
        code: Code,
        text: str,
        method: str,
        *,
        waited_s: float = 0.0,
        known_at: float | None = None,
    ) -> None:
        after = len(self.fleet.running)
        outcome = Outcome(
            at=at,
            decision_id=self.decision.decision_id,
            status=status,
            reason=Reason(code, text, {"before": float(self.before), "after": float(after)}),
            target=self.target,
            before=self.before,
            after=after,
            method=method,
            redone_tasks=0,
            waited_s=waited_s,
            took_s=at - self.decision.at,
        )
        self.done = (at if known_at is None else known_at, outcome)
