"""A small deterministic micro-batch job as a source of observations, and a loop around a planner.

Executors share the work of a batch as a fluid; a new one registers after ``startup_s`` and works after a cold phase.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rheostat.analyze import AnalysisSettings, AnalysisState, analyze
from rheostat.model import (
    Assessment,
    Batch,
    Cluster,
    Code,
    Decision,
    Executor,
    Observation,
    Offsets,
    Outcome,
    OutcomeStatus,
    PartitionOffsets,
    QueryReading,
    Reason,
    RunningBatch,
    SourceInfo,
)
from rheostat.plan import Planner

STEP_S = 0.05


@dataclass
class FluidJob:
    """``load``: records/s at a time. The batch in flight is (id, since, records, work left in seconds of overhead)."""

    load: Callable[[float], float]
    executors: int = 1
    partitions: int = 8
    per_executor: float = 400.0
    trigger_s: float = 2.0
    fixed_s: float = 0.3
    cap: int = 6000
    startup_s: float = 4.0
    cold_s: float = 1.5
    now: float = 0.0
    arrived: float = 0.0
    committed: float = 0.0
    wanted: int = 0
    ready_at: list[float] = field(default_factory=list)
    last: Batch | None = None
    running: tuple[int, float] | None = None
    planned: float = 0.0
    left: float = 0.0
    overhead_left: float = 0.0
    next_trigger: float = 0.0
    asked_at: float | None = None
    busy_s: float = 0.0

    def __post_init__(self) -> None:
        self.wanted = self.executors
        self.ready_at = [0.0] * self.executors

    def request(self, executors: int) -> None:
        self.wanted, self.asked_at = executors, self.now

    @property
    def settled(self) -> bool:
        return len(self.ready_at) == self.wanted

    def advance(self, until: float) -> None:
        while self.now < until - 1e-9:
            self._register()
            self._work()
            self.arrived += self.load(self.now) * STEP_S
            self.now = round(self.now + STEP_S, 6)

    def _register(self) -> None:
        if self.asked_at is None or self.settled:
            return
        if self.wanted < len(self.ready_at):
            self.ready_at = self.ready_at[: self.wanted]
        elif self.now - self.asked_at >= self.startup_s:
            self.ready_at += [self.now + self.cold_s] * (self.wanted - len(self.ready_at))

    def _work(self) -> None:
        if self.running is None:
            if self.now >= self.next_trigger and self.arrived - self.committed >= 1:
                self._start()
            return
        workers = sum(ready <= self.now for ready in self.ready_at)
        if self.overhead_left > 0:
            self.overhead_left -= STEP_S
        elif self.left > 0:
            self.left -= workers * self.per_executor * STEP_S
            self.busy_s += STEP_S
        else:
            self._finish()

    def _start(self) -> None:
        batch_id = 0 if self.last is None else self.last.batch_id + 1
        self.planned = min(self.committed + self.cap, float(int(self.arrived)))
        self.left, self.overhead_left = self.planned - self.committed, self.fixed_s
        self.running = (batch_id, self.now)
        self.next_trigger = (self.now // self.trigger_s + 1) * self.trigger_s

    def _finish(self) -> None:
        assert self.running is not None
        batch_id, since = self.running
        records = int(self.planned - self.committed)
        self.last = Batch(self.now, batch_id, self.now - since, records=records)
        self.committed, self.running = self.planned, None

    def observe(self) -> Observation:
        batch_id, since = self.running or (None, None)
        query = QueryReading(
            query_id="q",
            run_id="r",
            name="fluid",
            trigger_s=self.trigger_s,
            sources=(SourceInfo("log", "fluid", self.partitions, self.cap),),
            offsets=Offsets(self.now, tuple(self._partition(k) for k in range(self.partitions))),
            batch=self.last,
            running=RunningBatch(self.now, self.running is not None, batch_id, since),
        )
        executors = tuple(self._executor(i) for i in range(len(self.ready_at)))
        return Observation(self.now, (query,), Cluster(self.now, executors, self.wanted if self.asked_at else None))

    def _partition(self, index: int) -> PartitionOffsets:
        latest, planned, committed = (
            int((count + index) // self.partitions) for count in (self.arrived, self.planned, self.committed)
        )
        return PartitionOffsets("t", index, latest, max(planned, committed), committed)

    def _executor(self, index: int) -> Executor:
        active = int(self.running is not None and self.overhead_left <= 0)
        return Executor(str(index), "host", 1, active, 0, int(self.busy_s * 4), self.busy_s, self.ready_at[index])


@dataclass
class Cycle:
    seen: Assessment
    decision: Decision
    registered: int


def run(job: FluidJob, planner: Planner, seconds: float, settings: AnalysisSettings) -> list[Cycle]:
    """The loop: observe, analyze, plan, execute; an outcome is learned in the first cycle after it happened."""
    analysis, state, cycles = AnalysisState(), planner.initial(), list[Cycle]()
    open_decision: Decision | None = None
    while job.now < seconds:
        job.advance(job.now + planner.sample_s)
        seen, analysis = analyze(job.observe(), analysis, settings)
        if open_decision is not None and job.settled:
            state = planner.learn(_applied(open_decision, job), state)
            open_decision = None
        decision, state = planner.plan(seen, state)
        if decision.acts:
            assert decision.target is not None
            job.request(decision.target)
            open_decision = decision
        cycles.append(Cycle(seen, decision, len(job.ready_at)))
    return cycles


def _applied(decision: Decision, job: FluidJob) -> Outcome:
    assert decision.target is not None
    reason = Reason(Code.APPLIED, "granted")
    return Outcome(
        job.now, decision.decision_id, OutcomeStatus.APPLIED, reason, decision.target, decision.current, job.wanted
    )
