"""The simulated job: a Source and an Actuator for the production loop, driven by a manual clock.

It advances from event to event (a batch begins or ends, an executor registers or is lost, a timeout ends); nothing
depends on how often it is observed. It is deterministic for (job, load, seed), independent of decisions: the
start-up time of the k-th executor depends only on the seed and k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import replace
from heapq import heapify, heappop, heappush
from math import inf

from rheostat.errors import ActuationError
from rheostat.load.curves import Pieces
from rheostat.model import (
    Cluster,
    Decision,
    Gap,
    Observation,
    Offsets,
    Outcome,
    OutcomeStatus,
    QueryReading,
    Reason,
    ReasonCode,
    Roster,
    RunningBatch,
    SourceInfo,
)
from rheostat.sim.arrivals import Arrivals
from rheostat.sim.events import (
    CodeChange,
    CostDrift,
    DeadExecutor,
    Event,
    ExcludedExecutor,
    FailingQuery,
    FullNode,
    GarbageCollection,
    LostNode,
    MetricFault,
    NoRoom,
    RejectedRequests,
    SkewChange,
    SlowExecutor,
    StarvedExecutors,
)
from rheostat.sim.executors import Fleet
from rheostat.sim.history import History
from rheostat.sim.jobfile import JobFile, uniform, zipf
from rheostat.sim.micro_batch import MicroBatches
from rheostat.sim.record import RecordAtATime
from rheostat.sim.tasks import Progress
from rheostat.text import executors, several

_NO_BATCH = "no batch of this run has ended yet"
_STARTING = "the query is being started again"
_BROKE = "injected: the query fails"
_NO_ANSWER = "injected: no answer"

_DRIFTS_EVERY_S = 60.0

_REPLACE, _ROOM_CHANGED = -1, 0
"""Entries of the agenda besides events: the cluster replaces a lost executor; the room has changed."""

Query = MicroBatches | RecordAtATime


class SimulatedJob:
    """A job under a load (``rheostat.ports.Source`` and ``rheostat.ports.Actuator``).

    Args:
        job: the job file.
        load: arrivals; second 0 of the load is second 0 of the job.
        seed: of start-up times, pauses and noise.
        start_executors: registered, warm executors at the start.
        keep_batches: whether the history lists every batch.
        events: injected in addition to those of the job file.
        begins_at: start of the first batch; None: by the trigger.
    """

    def __init__(
        self,
        job: JobFile,
        load: Pieces,
        seed: int,
        start_executors: int,
        *,
        keep_batches: bool = False,
        events: Iterable[Event] = (),
        begins_at: float | None = None,
    ) -> None:
        self._job = job = job.model_copy(update={"events": (*job.events, *events)})
        self._source = SourceInfo(
            kind="kafka",
            name=job.name,
            partitions=job.partitions,
            batch_cap=job.batch_cap,
            topics=(job.name,),
            min_offsets=job.min_offsets_per_trigger,
            max_delay_s=None if job.min_offsets_per_trigger is None else job.max_trigger_delay_s,
        )
        self._seed = seed
        self._now = 0.0
        self._history = History()
        self._arrivals = Arrivals(load, _share_changes(job))
        self._fleet = Fleet(job, seed, start_executors, self._history)
        self._query = _build_query(job, self._arrivals, self._fleet, seed, self._history)
        self._query.keep_batches = keep_batches
        if begins_at is not None:
            self._query.next_at = begins_at
        self._change: Change | None = None
        self._rejected: Outcome | None = None
        self._waits_in_vain = 0
        self._run = 0
        self._pauses = 0
        self._works_at = 0.0
        self._fails = False
        self._tells_gc = any(isinstance(event, GarbageCollection) for event in job.events)
        self._code: list[CodeChange] = []
        self._agenda: list[tuple[float, int, Event | int]] = [(e.at_s, n, e) for n, e in enumerate(job.events)]
        heapify(self._agenda)
        self._other_at = 0.0
        self._metrics = _Metrics(job)
        self._metrics.remember(self._look())

    # --------------------------------------------------------------------------------------------- source

    def observe(self, at: float) -> Observation:
        """Advance the job to ``at`` and read it. Raises ValueError: ``at`` is before an earlier observation."""
        self._pass(at)
        self._metrics.remember(self._look())
        shown = self._metrics.show(at)
        told = shown.queries[0].batch if shown.queries else None
        if told is not None:
            self._query.note_told(told.batch_id)
        return shown

    def close(self) -> None:
        """Do nothing: there are no resources to release."""

    # ------------------------------------------------------------------------------------------- actuator

    def apply(self, decision: Decision) -> None:
        """Start changing the executors; a change in progress is superseded.

        Raises:
            ActuationError: the decision has no target.
        """
        target = decision.target
        if target is None:
            message = f"decision {decision.decision_id} names no number of executors"
            raise ActuationError(message)
        self._change = self._rejected = None
        if self._job.active(RejectedRequests, self._now):
            text = f"the cluster did not acknowledge the request for {several(target, 'executor')}"
            self._rejected = Outcome(
                at=self._now,
                decision_id=decision.decision_id,
                status=OutcomeStatus.FAILED,
                reason=Reason(ReasonCode.REQUEST_REJECTED, text),
                target=target,
                before=len(self._fleet.running),
            )
            return
        self._change = Change(
            self._job, self._fleet, self._query, self._restart, decision, target, self._now, self._waits_in_vain
        )
        self._after_change(self._now)

    def poll(self, at: float) -> Outcome | None:
        """Advance the job to ``at``; return the outcome of the last decision once it is known."""
        self._pass(max(at, self._now))
        if self._rejected is not None:
            rejected, self._rejected = self._rejected, None
            return rejected
        if self._change is None or self._change.done is None or self._change.done[0] > at:
            return None
        outcome, self._change = self._change.done[1], None
        if outcome.reason.code is ReasonCode.NO_ROOM:
            self._waits_in_vain += 1
        elif (outcome.after or 0) > (outcome.before or 0):
            self._waits_in_vain = 0
        return outcome

    # --------------------------------------------------------------------------------------------- judges

    @property
    def now(self) -> float:
        return self._now

    @property
    def drained(self) -> bool:
        """Whether the load has ended and every record is committed."""
        return self._now >= self._arrivals.end and self._query.nothing_left

    @property
    def history(self) -> History:
        self._history.records_in = sum(self._arrivals.latest(self._now))
        return self._history

    def advance(self, until: float) -> None:
        """Advance the job. Raises ValueError: time would run backwards."""
        if until < self._now:
            message = f"the job is at second {self._now}: it cannot go back to {until}"
            raise ValueError(message)
        while (at := min(self._other_at, self._query.next_at)) <= until:
            if at == self._other_at:
                self._handle_events(at)
            elif self._query.step(at):
                self._use_gap(at)
        self._now = until

    # -------------------------------------------------------------------------------------------- events

    def _pass(self, until: float) -> None:
        """Advance the job, remembering the observations on the way that delayed metrics will show."""
        for moment in self._metrics.moments(self._now, until):
            self.advance(moment)
            self._metrics.remember(self._look())
        self.advance(until)

    def _handle_events(self, at: float) -> None:
        """Handle everything that happens at ``at`` except batches."""
        while self._agenda and self._agenda[0][0] <= at:
            self._apply_event(at, heappop(self._agenda)[2])
        if self._fleet.register(at) and self._change is not None:
            self._change.check_registered(at)
        if self._change is not None and self._change.next_at <= at:
            self._change.give_up(at)
        self._after_change(at)

    def _after_change(self, at: float) -> None:
        """Update the query and the time of the next event after a change of the executors."""
        if self._query.at_boundary:
            self._use_gap(at)
        self._query.replan(at)
        change_at = inf if self._change is None else self._change.next_at
        event_at = self._agenda[0][0] if self._agenda else inf
        self._other_at = min(self._fleet.next_at, change_at, event_at)

    def _use_gap(self, at: float) -> None:
        """Do what must happen between two batches."""
        if self._change is not None and self._change.waits_for_gap:
            self._change.use_gap(at, wide=self._query.next_at > at)
        while self._code:
            code = self._code.pop()
            self._query.change_cost(code.factor, code.stage)
            self._fleet.cool()
            self._stop(at, code.pause_s)

    def _apply_event(self, at: float, event: Event | int) -> None:
        match event:
            case DeadExecutor():
                lost = self._fleet.lose(at, event.executor)
                if event.replaced_after_s == 0 and lost:
                    self._fleet.replace(at)
                if event.replaced_after_s:
                    self._schedule(at + event.replaced_after_s, _REPLACE)
                if self._job.model == "record":
                    self._restart(at)
            case StarvedExecutors():
                if len(self._fleet.running) < event.fewer_than and self._fleet.lose(at, 0):
                    self._fleet.replace(at)
                self._schedule(at + event.every_s if at + event.every_s < event.until_s else inf, event)
            case SlowExecutor():
                self._fleet.slow_down(at, event.executor, event.until_s, event.factor)
            case ExcludedExecutor():
                self._fleet.exclude(at, event.executor, event.until_s)
                self._schedule(event.until_s, _ROOM_CHANGED)
            case CodeChange():
                self._code.append(event)
            case FailingQuery():
                self._query.fail(at)
                works_at = self._stop(at, event.pause_s)
                self._fails = True
                self._schedule(works_at + event.after_s if works_at + event.after_s < event.until_s else inf, event)
            case CostDrift():
                step_s = event.over_s / (event.over_s // _DRIFTS_EVERY_S)
                self._query.change_cost(event.factor ** (step_s / event.over_s), None)
                goes_on = at + 1.5 * step_s < event.at_s + event.over_s
                self._schedule(at + step_s if goes_on else inf, event)
            case LostNode():
                lost = self._fleet.lose_node(at, event.node)
                if event.replaced_after_s is not None:
                    for _ in range(lost):
                        self._schedule(at + event.replaced_after_s, _REPLACE)
                if lost and self._job.model == "record":
                    self._restart(at)
                self._schedule(event.until_s, _ROOM_CHANGED)
            case NoRoom() | FullNode():
                self._schedule(event.until_s, _ROOM_CHANGED)
            case int() if event == _REPLACE:
                self._fleet.replace(at)
            case int():
                self._fleet.fill(at)

    def _schedule(self, at: float, entry: Event | int) -> None:
        if at < inf:
            events = self._job.events
            place = next((place for place, event in enumerate(events) if event is entry), len(events))
            heappush(self._agenda, (at, place, entry))

    def _restart(self, at: float) -> float:
        """Restart the query; return when it works again."""
        takes = self._job.rescale.pause.quantile(uniform(self._seed, "pause", self._pauses))
        self._pauses += 1
        return self._stop(at, takes)

    def _stop(self, at: float, seconds: float) -> float:
        self._run += 1
        self._fails = False
        self._works_at = max(self._works_at, at + seconds)
        self._query.pause(at, self._works_at - at)
        return self._works_at

    # -------------------------------------------------------------------------------------- observations

    def _look(self) -> Observation:
        at, fleet = self._now, self._fleet
        nodes = None if fleet.places is None else fleet.places.read(at, fleet.running + fleet.starting)
        cluster = self._read_cluster()
        query = self._read_query()
        if at < self._works_at:
            failed = (replace(query, offsets=None, batch=None, running=None, failed_because=_BROKE),)
            starting = Gap("queries", _STARTING)
            return Observation(at, failed if self._fails else (), cluster, (starting,), nodes)
        gaps = () if query.batch is not None else (Gap("batch", _NO_BATCH, query.query_id),)
        others = tuple([_read_beside(kind, number, query) for number, kind in enumerate(self._job.beside)])
        return Observation(at, (query, *others), cluster, gaps, nodes)

    def _read_query(self) -> QueryReading:
        job, at, count = self._job, self._now, self._job.partitions
        latest, planned, committed = self._query.records(at)
        running = self._query.in_flight
        batch_id, since = running or (None, None)
        return QueryReading(
            query_id=job.name,
            run_id=f"run-{self._run}",
            name=job.name,
            trigger_s=job.trigger_s if job.record is None else job.record.commit_every_s,
            sources=(self._source,),
            offsets=Offsets(
                at=at,
                topics=(job.name,) * count,
                numbers=tuple(range(count)),
                latest=latest,
                planned=planned,
                committed=committed,
            ),
            batch=self._query.finished,
            ended=tuple(self._query.earlier),
            running=RunningBatch(at, running is not None, batch_id, since),
            failed_before=_BROKE if self._fails else None,
        )

    def _read_cluster(self) -> Cluster:
        """The registered executors, with their work in finished batches and in the running one."""
        progress, idle, cost = self._query.progress(self._now), Progress(), self._job.executor
        rows = [(each, progress.get(each, idle)) for each in self._fleet.running]
        return Cluster(
            at=self._now,
            roster=Roster(
                ids=tuple([each.name for each, _ in rows]),
                hosts=tuple([each.host for each, _ in rows]),
                cores=(cost.cores,) * len(rows),
                added_at=tuple([each.ready_at for each, _ in rows]),
                nodes=(None,) * len(rows),
                slots=() if cost.slots == cost.cores else (cost.slots,) * len(rows),
            ),
            active_tasks=tuple([running.running for _, running in rows]),
            failed_tasks=tuple([int(each.failed) for each, _ in rows]),
            finished_tasks=tuple([each.finished + int(each.failed) + running.ended for each, running in rows]),
            busy_s=tuple([each.busy_s + running.busy_s for each, running in rows]),
            requested=self._fleet.requested,
            excluded=tuple([each.name for each, _ in rows if each.is_excluded(self._now)]),
            gc_s=tuple([each.gc_s + running.busy_s * each.garbage for each, running in rows]) if self._tells_gc else (),
        )


def _read_beside(kind: str, number: int, like: QueryReading) -> QueryReading:
    """A further query, with the trigger of the job's own one."""
    own = replace(like, query_id=f"{kind}-{number}", name=f"{kind}-{number}", run_id="run-0", ended=())
    at = 0.0 if like.offsets is None else like.offsets.at
    if kind == "idle":
        positions = ((0,),) * 3
        offsets = Offsets(at, ("empty",), (0,), *positions)
        source = SourceInfo("kafka", "empty", 1)
        return replace(own, sources=(source,), offsets=offsets, batch=None, running=RunningBatch(at, active=False))
    return replace(own, sources=(SourceInfo("rate", "rate"),), offsets=None, uncountable="rate")


class _Metrics:
    """Delayed, frozen and missing metrics. Sections keep the time at which they were true."""

    def __init__(self, job: JobFile) -> None:
        self._job = job
        self._delay_s = job.metrics.delay_s
        self._faults = [event for event in job.events if isinstance(event, MetricFault)]
        self._reach_s = self._delay_s + max((fault.delay_s for fault in self._faults), default=0.0)
        self._remembered: list[Observation] = []

    def moments(self, after: float, until: float) -> list[float]:
        """Times between the two that observations from ``until`` on may show, and that must be remembered."""
        starts = [fault.at_s - self._delay_s - (0.0 if fault.frozen else fault.delay_s) for fault in self._faults]
        return sorted(moment for moment in {*starts, self._time_shown(until)} if after < moment < until)

    def remember(self, observation: Observation) -> None:
        """Keep an observation that later ones may show."""
        if self._remembered and self._remembered[-1].at == observation.at:
            self._remembered.pop()
        self._remembered.append(observation)

    def show(self, at: float) -> Observation:
        """What is observed at ``at``, of the remembered observations."""
        shown_at = self._time_shown(at)
        shown = next(each for each in reversed(self._remembered) if each.at <= shown_at)
        frozen = [fault.at_s for fault in self._faults if fault.frozen and at < fault.until_s]
        needed_from = min([at - self._reach_s, *frozen])
        while len(self._remembered) > 1 and self._remembered[1].at <= needed_from:
            self._remembered.pop(0)
        missing = {section for fault in self._job.active(MetricFault, at) for section in fault.missing}
        return _leave_out(replace(shown, at=at), missing)

    def _time_shown(self, at: float) -> float:
        faults = self._job.active(MetricFault, at)
        shown_at = at - self._delay_s - max((fault.delay_s for fault in faults), default=0.0)
        return max(0.0, min([shown_at, *(fault.at_s for fault in faults if fault.frozen)]))


def _leave_out(observation: Observation, sections: Set[str]) -> Observation:
    """The observation without some sections, each with a gap."""
    if not sections:
        return observation
    gaps = [gap for gap in observation.gaps if gap.section not in sections]
    cluster, nodes, queries = observation.cluster, observation.nodes, observation.queries
    if "cluster" in sections or cluster is None:
        cluster = None
        gaps.append(Gap("cluster", _NO_ANSWER))
    if nodes is not None and (cluster is None or "nodes" in sections):
        nodes = None
        gaps.append(Gap("nodes", _NO_ANSWER))
    if "queries" in sections:
        queries = ()
        gaps.append(Gap("queries", _NO_ANSWER))
    lost = sorted(sections & {"offsets", "batch", "running"})
    queries = tuple(replace(query, **dict.fromkeys(lost)) for query in queries)  # type: ignore[arg-type]
    gaps += [Gap(section, _NO_ANSWER, query.query_id) for query in queries for section in lost]
    return replace(observation, queries=queries, cluster=cluster, gaps=tuple(gaps), nodes=nodes)


def _build_query(job: JobFile, arrivals: Arrivals, fleet: Fleet, seed: int, history: History) -> Query:
    if job.model == "record" and job.record is not None:
        return RecordAtATime(job, job.record, arrivals, fleet, history)
    return MicroBatches(job, arrivals, fleet, seed, history)


def _share_changes(job: JobFile) -> list[tuple[float, tuple[float, ...]]]:
    """Times at which the partitions' shares change, and the shares from then on."""
    changes = {0.0: job.shares}
    for edge in job.edges(SkewChange):
        active = job.active(SkewChange, edge)
        changes[edge] = zipf(job.partitions, active[-1].skew) if active else job.shares
    return list(changes.items())


# A change of executors in progress: what the live actuator does, on the simulated job.


_LEAST_NO_ROOM_S, _MOST_NO_ROOM_S = 15.0, 600.0


class Change:
    """A decision that is being executed; the target is requested from the cluster at once.

    Attributes:
        done: when the outcome is known, and the outcome; None: in progress.
    """

    def __init__(
        self,
        job: JobFile,
        fleet: Fleet,
        query: Query,
        restart: Callable[[float], float],
        decision: Decision,
        target: int,
        at: float,
        waits_in_vain: int = 0,
    ) -> None:
        self._rescale, self._fleet, self._query, self._restart = job.rescale, fleet, query, restart
        self._decision, self._target, self._began = decision, target, at
        if target >= len(fleet.running):
            fleet.drop_excluded(at, decision.first)
        self._before = len(fleet.running)
        self._former = self._before if fleet.requested is None else fleet.requested
        no_room_s, start_up = job.rescale.no_room_s, job.executor.start_up
        usual_s = max(3 * start_up.p95_s, _LEAST_NO_ROOM_S) if no_room_s is None else no_room_s
        self._patience_s = max(usual_s, min(usual_s * 2.0 ** min(waits_in_vain, 16), _MOST_NO_ROOM_S))
        self._stopping = False
        self.done: tuple[float, Outcome] | None = None
        fleet.request(at, target, decision.placement)
        self.check_registered(at)

    @property
    def next_at(self) -> float:
        """When it gives up; infinite if it is done, or only waits for the end of a batch."""
        if self.done is not None or self._stopping:
            return inf
        if self._shrinks:
            return inf if self._rescale.mode == "restart" else self._began + self._rescale.safe_moment_s
        longest_s = self._patience_s * (self._target - self._before)
        return min(self._last_came + self._patience_s, self._began + longest_s)

    @property
    def waits_for_gap(self) -> bool:
        """Whether it has something to do between two batches."""
        return self.done is None and (self._stopping or self._shrinks)

    def check_registered(self, at: float) -> None:
        """Check whether enough executors are registered, after one has come."""
        self._last_came = at
        running = len(self._fleet.running)
        if self.done is not None or self._shrinks or self._stopping or running < self._target:
            return
        if self._rescale.mode == "restart" and self._fleet.in_use != self._target:
            self._stopping = True
            return
        asked = several(self._target, "was", "were")
        text = f"{running} registered {at - self._began:.1f} s after {asked} asked for"
        self._end(at, OutcomeStatus.APPLIED, ReasonCode.APPLIED, text, "request")

    def use_gap(self, at: float, *, wide: bool) -> None:
        """Remove executors or restart the query, while no batch is running.

        ``wide``: the next batch begins later than now. If it begins at once, the gap is shorter than two polls of the
        driver, and executors are idle only while the driver commits and plans.
        """
        waited_s = at - self._began
        if self._rescale.mode == "restart":
            self._remove(at)
            self._fleet.cool()
            works_at = self._restart(at)
            text = f"stopped at a batch's end after {waited_s:.1f} s, works again {works_at - at:.1f} s later"
            self._end(works_at, OutcomeStatus.APPLIED, ReasonCode.APPLIED, text, "restart", waited_s=waited_s)
        elif wide or waited_s >= self._rescale.gap_s:
            count = self._remove(at)
            method, how = "gap", "between two triggers"
            if not wide:
                method, how = "idle", "while idle and without map output in use"
            text = f"{count} removed {how} after waiting {waited_s:.1f} s; 0 tasks done again"
            later_s = self._rescale.listed_s if count else 0.0
            self._end(at, OutcomeStatus.APPLIED, ReasonCode.APPLIED, text, method, waited_s=waited_s, later_s=later_s)

    def give_up(self, at: float) -> None:
        """End with what was reached."""
        waited_s, after = at - self._began, len(self._fleet.running)
        if self._shrinks or self._rescale.mode == "restart":
            self._fleet.request(at, max(self._former, after, 0 if self._shrinks else 1))
        if self._shrinks:
            text = (
                f"none of {executors(after)} could be removed without redoing work within {waited_s:.1f} s: no gap"
                " between two triggers"
            )
            self._end(at, OutcomeStatus.HELD, ReasonCode.NOTHING_IDLE, text, "none", waited_s=waited_s)
            return
        text = (
            f"{several(self._target, 'executor was', 'executors were')} asked for, {after} registered after"
            f" {waited_s:.1f} s: no room in the cluster so far; {self._fleet.requested} stay asked for"
        )
        status = OutcomeStatus.PARTIAL if after > self._before else OutcomeStatus.NO_ROOM
        self._end(at, status, ReasonCode.NO_ROOM, text, "request")

    @property
    def _shrinks(self) -> bool:
        return self._before > self._target

    def _remove(self, at: float) -> int:
        running = len(self._fleet.running)
        count = self._fleet.remove(at, self._target, self._decision.first)
        if count:
            self._query.note_moved(max(0, running - self._target) / running)
        return count

    def _end(
        self,
        at: float,
        status: OutcomeStatus,
        code: ReasonCode,
        text: str,
        method: str,
        *,
        waited_s: float = 0.0,
        later_s: float = 0.0,
    ) -> None:
        after = len(self._fleet.running)
        outcome = Outcome(
            at=at,
            decision_id=self._decision.decision_id,
            status=status,
            reason=Reason(code, text, {"before": float(self._before), "after": float(after)}),
            target=self._target,
            before=self._before,
            after=after,
            method=method,
            redone_tasks=0,
            waited_s=waited_s,
            took_s=at - self._decision.at,
        )
        self.done = (at + later_s, outcome)
