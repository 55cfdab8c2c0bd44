"""Fakes behind the ports, for tests: a toy job, a source with a script and an actuator with a script."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from rheostat.model import (
    Batch,
    Cluster,
    Decision,
    Executor,
    Observation,
    Offsets,
    Outcome,
    OutcomeStatus,
    QueryReading,
    Reason,
    ReasonCode,
    RunningBatch,
    SourceInfo,
)
from rheostat.text import executors


@dataclass
class ToyJob:
    """A fluid job of one query, Source and Actuator at once; a batch ends with every observation.

    Attributes:
        rate: arrival rate, records/s.
        capacity: records/s of one executor.
        executors: registered; they follow ``requested`` when the actuator is polled.
        requested: None: never requested.
        room: the most executors that there is room for.
        applied: decisions passed to the actuator.
    """

    rate: float = 100.0
    capacity: float = 120.0
    executors: int = 1
    requested: int | None = None
    room: int = 100
    trigger_s: float = 5.0
    partitions: int = 4
    applied: list[Decision] = field(default_factory=list)
    closed: bool = False
    _at: float | None = None
    _latest: float = 0.0
    _committed: float = 0.0
    _busy_s: float = 0.0
    _batch: int = 0
    _pending: Decision | None = None

    def observe(self, at: float) -> Observation:
        """Advance to this time and observe."""
        passed = 0.0 if self._at is None else at - self._at
        self._at = at
        self._latest += self.rate * passed
        ready = max(self._committed, self._latest - self.rate * self.trigger_s)
        self._committed = min(ready, self._committed + self.executors * self.capacity * passed)
        self._busy_s += self._busy() * passed
        self._batch += 1
        return Observation(at, (self._query(at),), self._cluster(at))

    def apply(self, decision: Decision) -> None:
        self.applied.append(decision)
        self.requested = decision.target
        self._pending = decision

    def poll(self, at: float) -> Outcome | None:
        """Register the executors that there is room for."""
        decision, self._pending = self._pending, None
        if decision is None or decision.target is None:
            return None
        before, self.executors = self.executors, min(decision.target, self.room)
        granted = self.executors == decision.target
        code = ReasonCode.APPLIED if granted else ReasonCode.NO_ROOM
        return Outcome(
            at=at,
            decision_id=decision.decision_id,
            status=OutcomeStatus.APPLIED if granted else OutcomeStatus.NO_ROOM,
            reason=Reason(code, f"{self.executors} of {executors(decision.target)} registered"),
            target=decision.target,
            before=before,
            after=self.executors,
            method="request" if self.executors >= before else "idle",
            redone_tasks=0,
            took_s=at - decision.at,
        )

    def close(self) -> None:
        self.closed = True

    def _query(self, at: float) -> QueryReading:
        parts, processed = range(self.partitions), min(self.rate, self.executors * self.capacity)
        latest = tuple((int(self._latest) + part) // self.partitions for part in parts)
        committed = tuple((int(self._committed) + part) // self.partitions for part in parts)
        return QueryReading(
            query_id="toy",
            run_id="toy-1",
            name="toy",
            trigger_s=self.trigger_s,
            sources=(SourceInfo("toy", "toy", self.partitions),),
            offsets=Offsets(
                at=at,
                topics=("toy",) * self.partitions,
                numbers=tuple(parts),
                latest=latest,
                planned=committed,
                committed=committed,
            ),
            batch=Batch(at, self._batch, self.trigger_s * self._busy(), records=int(processed * self.trigger_s)),
            running=RunningBatch(at, active=False),
        )

    def _busy(self) -> float:
        return min(1.0, self.rate / (self.executors * self.capacity)) if self.executors else 1.0

    def _cluster(self, at: float) -> Cluster:
        executors = tuple(
            Executor(
                executor_id=str(number),
                host=f"host-{number}",
                cores=1,
                active_tasks=0,
                finished_tasks=self._batch,
                busy_s=self._busy_s,
                added_at=0.0,
            )
            for number in range(self.executors)
        )
        return Cluster.of(at, executors, self.requested)


class ScriptedSource:
    """A source that returns the observations of a script in order, and the last one for ever.

    Each gets the time of the call; its sections keep their own times, so that they age if the script repeats them. An
    exception in the script is raised, which a source must not do and a loop must survive. ``asked`` are the times of
    the calls, ``closed`` is the number of calls of ``close``.

    >>> source = ScriptedSource([Observation(0.0)])
    >>> source.observe(7.0).at
    7.0
    """

    def __init__(self, script: Iterable[Observation | Exception]) -> None:
        self._script = tuple(script)
        if not self._script:
            raise ValueError("a script needs at least one observation")
        self.asked: list[float] = []
        self.closed = 0

    def observe(self, at: float) -> Observation:
        item = self._script[min(len(self.asked), len(self._script) - 1)]
        self.asked.append(at)
        if isinstance(item, Exception):
            raise item
        return replace(item, at=at)

    def close(self) -> None:
        self.closed += 1


@dataclass(frozen=True, slots=True)
class Step:
    """Outcome of a decision ``after_s`` seconds later; executors None: the target if it is applied, else as before."""

    after_s: float = 0.0
    status: OutcomeStatus = OutcomeStatus.APPLIED
    code: ReasonCode = ReasonCode.APPLIED
    executors: int | None = None


class FakeActuator:
    """An actuator without a cluster; ``script``: outcomes of the first decisions. Later ones are applied at once."""

    def __init__(self, executors: int = 1, script: Iterable[Step] = ()) -> None:
        self.executors = executors
        self.applied: list[Decision] = []
        self.closed = False
        self._script = iter(script)
        self._pending: tuple[Decision, Step] | None = None

    def apply(self, decision: Decision) -> None:
        self.applied.append(decision)
        self._pending = (decision, next(self._script, Step()))

    def poll(self, at: float) -> Outcome | None:
        if self._pending is None:
            return None
        decision, step = self._pending
        if decision.target is None or at < decision.at + step.after_s:
            return None
        self._pending, before = None, self.executors
        if step.executors is not None:
            self.executors = step.executors
        elif step.status is OutcomeStatus.APPLIED:
            self.executors = decision.target
        return Outcome(
            at=decision.at + step.after_s,
            decision_id=decision.decision_id,
            status=step.status,
            reason=Reason(step.code, f"as the script says: {step.status}"),
            target=decision.target,
            before=before,
            after=self.executors,
            method="request",
            took_s=step.after_s,
        )

    def close(self) -> None:
        self.closed = True
        self._pending = None
