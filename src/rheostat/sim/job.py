"""The simulated job: a Source and an Actuator for the production loop, driven by a manual clock.

It advances from event to event (a batch begins or ends, an executor registers or is lost, a timeout ends); nothing
depends on how often it is observed. It is deterministic for (job, load, seed), independent of decisions: the
start-up time of the k-th executor depends only on the seed and k.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from math import inf
from typing import Protocol

from rheostat.errors import ActuationError
from rheostat.load.curves import Pieces
from rheostat.model import (
    Batch,
    Cluster,
    Decision,
    Gap,
    Nodes,
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
from rheostat.sim.arrivals import Arrivals, Positions
from rheostat.sim.events import (
    CodeChange,
    DeadExecutor,
    Event,
    FullNode,
    LostNode,
    MetricFault,
    NoRoom,
    RejectedRequests,
    SkewChange,
    SlowExecutor,
)
from rheostat.sim.executors import Fleet, SimExecutor
from rheostat.sim.history import History
from rheostat.sim.jobfile import JobFile, zipf
from rheostat.sim.micro_batch import MicroBatches
from rheostat.sim.record import RecordAtATime
from rheostat.sim.seeded import duration, uniform
from rheostat.sim.tasks import Progress
from rheostat.text import executors, several

_NO_BATCH = "no batch of this run has ended yet"
_STARTING = "the query is being started again"
_NO_ANSWER = "injected: no answer"


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
        self._seed = seed
        self._now = 0.0
        self._history = History()
        self._arrivals = Arrivals(load, _shares(job))
        self._fleet = Fleet(job, seed, start_executors, self._history)
        self._query = _build_engine(job, self._arrivals, self._fleet, seed, self._history)
        self._query.keep_batches = keep_batches
        if begins_at is not None:
            self._query.next_at = begins_at
        self._view = _Viewer(job)
        self._change: Change | None = None
        self._refused: Outcome | None = None
        self._run = 0
        self._pauses = 0
        self._works_at = 0.0
        self._code: list[CodeChange] = []
        self._agenda: list[tuple[float, int, Event | int]] = [(e.at_s, n, e) for n, e in enumerate(job.events)]
        heapify(self._agenda)
        self._other_at = 0.0
        self._sight = _Sight(job)
        self._sight.remember(self._look())

    # --------------------------------------------------------------------------------------------- source

    def observe(self, at: float) -> Observation:
        """Advance the job to ``at`` and read it.

        Raises:
            ValueError: ``at`` is before an earlier observation.
        """
        self._pass(at)
        return self._sight.show(at, self._look())

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
        self._change = self._refused = None
        if self._rejects():
            self._refused = _reject(decision, target, len(self._fleet.running), self._now)
            return
        self._change = Change.begin(self._job, self._fleet, self, decision, target, self._now)
        self._after_change(self._now)

    def poll(self, at: float) -> Outcome | None:
        """Advance the job to ``at``; return the outcome of the last decision once it is known."""
        self._pass(max(at, self._now))
        if self._refused is not None:
            refused, self._refused = self._refused, None
            return refused
        if self._change is None or self._change.done is None or self._change.done[0] > at:
            return None
        outcome, self._change = self._change.done[1], None
        return outcome

    # --------------------------------------------------------------------------------------------- judges

    @property
    def now(self) -> float:
        """Time of the job."""
        return self._now

    @property
    def drained(self) -> bool:
        """Whether the load has ended and every record is committed."""
        return self._now >= self._arrivals.end and self._query.nothing_left

    @property
    def history(self) -> History:
        """History so far."""
        self._history.records_in = sum(self._arrivals.latest(self._now))
        return self._history

    def advance(self, until: float) -> None:
        """Advance the job.

        Raises:
            ValueError: time would run backwards.
        """
        if until < self._now:
            message = f"the job is at second {self._now}: it cannot go back to {until}"
            raise ValueError(message)
        while (at := min(self._other_at, self._query.next_at)) <= until:
            if at == self._other_at:
                self._handle_events(at)
            elif self._query.step(at):
                self._gap(at)
        self._now = until

    # -------------------------------------------------------------------------- what a change asks the query

    def restart(self, at: float) -> float:
        """Restart the query; return when it works again."""
        takes = duration(self._job.rescale.pause, uniform(self._seed, "pause", self._pauses))
        self._pauses += 1
        return self._stop(at, takes)

    def moved(self, share: float) -> None:
        """Note that executors with this share of the state were removed."""
        self._query.moved(share)

    # ---------------------------------------------------------------------------------------------------

    def _pass(self, until: float) -> None:
        """Advance the job, remembering the observations on the way that delayed metrics will show."""
        for moment in self._sight.moments(self._now, until):
            self.advance(moment)
            self._sight.remember(self._look())
        self.advance(until)

    def _stop(self, at: float, seconds: float) -> float:
        self._run += 1
        self._works_at = max(self._works_at, at + seconds)
        self._query.pause(at, self._works_at - at)
        return self._works_at

    def _handle_events(self, at: float) -> None:
        """Handle everything that happens at ``at`` except batches."""
        while self._agenda and self._agenda[0][0] <= at:
            self._apply_event(at, heappop(self._agenda)[2])
        if self._fleet.register(at) and self._change is not None:
            self._change.came(at)
        if self._change is not None and self._change.next_at <= at:
            self._change.give_up(at)
        self._after_change(at)

    def _after_change(self, at: float) -> None:
        """Update the query and the time of the next event after a change of the executors."""
        if self._query.at_boundary:
            self._gap(at)
        self._query.replan(at)
        change_at = inf if self._change is None else self._change.next_at
        event_at = self._agenda[0][0] if self._agenda else inf
        self._other_at = min(self._fleet.next_at, change_at, event_at)

    def _gap(self, at: float) -> None:
        """Do what must happen between two batches."""
        if self._change is not None and self._change.waits_for_gap:
            self._change.gap(at, wide=self._query.next_at > at)
        while self._code:
            code = self._code.pop()
            self._query.change_cost(code.factor, code.stage)
            self._fleet.cool()
            self._stop(at, code.pause_s)

    def _apply_event(self, at: float, event: Event | int) -> None:
        match event:
            case DeadExecutor(executor=place, replaced_after_s=after):
                self._fleet.lose(at, place, replaced=after == 0)
                if after:
                    heappush(self._agenda, (at + after, len(self._job.events), -1))
                if self._job.model == "record":
                    self.restart(at)
            case SlowExecutor():
                self._fleet.slow_down(at, event.executor, event.until_s, event.factor)
            case CodeChange():
                self._code.append(event)
            case LostNode(node=node, replaced_after_s=after):
                self._node_lost(at, node, after)
                if event.until_s < inf:
                    heappush(self._agenda, (event.until_s, len(self._job.events), 0))
            case NoRoom() | FullNode():
                if event.until_s < inf:
                    heappush(self._agenda, (event.until_s, len(self._job.events), 0))
            case -1:
                self._fleet.replace(at)
            case 0:
                self._fleet.room_changed(at)
            case _:
                pass

    def _node_lost(self, at: float, node: str, replaced_after_s: float | None) -> None:
        lost = self._fleet.lose_node(at, node)
        for _ in range(0 if replaced_after_s is None else lost):
            heappush(self._agenda, (at + (replaced_after_s or 0.0), len(self._job.events), -1))
        if lost and self._job.model == "record":
            self.restart(at)

    def _rejects(self) -> bool:
        rejecting = (event for event in self._job.events if isinstance(event, RejectedRequests))
        return any(event.at_s <= self._now < event.until_s for event in rejecting)

    def _look(self) -> Observation:
        at, query = self._now, self._query
        fleet = self._fleet
        cluster = self._view.cluster(at, fleet, query.progress(at))
        nodes = None if fleet.places is None else fleet.places.seen(at, fleet.running + fleet.starting)
        if at < self._works_at:
            return self._view.observation(at, None, cluster, nodes)
        offsets = self._view.offsets(at, query.records(at))
        reading = self._view.query(at, self._run, offsets, query.finished, query.in_flight)
        return self._view.observation(at, reading, cluster, nodes)


class _Viewer:
    """Builds the sections of an observation."""

    def __init__(self, job: JobFile) -> None:
        self._job = job
        self._sources = (SourceInfo("kafka", job.name, job.partitions, job.batch_cap),)
        self._trigger_s = job.trigger_s if job.record is None else job.record.commit_every_s

    def offsets(self, at: float, records: tuple[Positions, Positions, Positions]) -> Offsets:
        """Offsets from the latest, planned and committed positions."""
        latest, planned, committed = records
        count = self._job.partitions
        return Offsets(
            at=at,
            topics=(self._job.name,) * count,
            numbers=tuple(range(count)),
            latest=latest,
            planned=planned,
            committed=committed,
        )

    def query(
        self, at: float, run: int, offsets: Offsets, finished: Batch | None, running: tuple[int, float] | None
    ) -> QueryReading:
        """Reading of the query. ``running``: id and start of the running batch."""
        batch_id, since = running or (None, None)
        return QueryReading(
            query_id=self._job.name,
            run_id=f"run-{run}",
            name=self._job.name,
            trigger_s=self._trigger_s,
            sources=self._sources,
            offsets=offsets,
            batch=finished,
            running=RunningBatch(at, running is not None, batch_id, since),
        )

    def cluster(self, at: float, fleet: Fleet, progress: Mapping[SimExecutor, Progress]) -> Cluster:
        """The registered executors, with their work in finished batches and in the running one."""
        there, count, idle = fleet.running, len(fleet.running), Progress()
        now = [progress.get(each, idle) for each in there]
        return Cluster(
            at=at,
            roster=Roster(
                ids=tuple(each.name for each in there),
                hosts=tuple(each.host for each in there),
                cores=(self._job.executor.cores,) * count,
                added_at=tuple(each.ready_at for each in there),
                nodes=(None,) * count,
            ),
            active_tasks=tuple(each.running for each in now),
            failed_tasks=(0,) * count,
            finished_tasks=tuple(one.finished + more.ended for one, more in zip(there, now, strict=True)),
            busy_s=tuple(one.busy_s + more.busy_s for one, more in zip(there, now, strict=True)),
            requested=fleet.requested,
        )

    def observation(self, at: float, query: QueryReading | None, cluster: Cluster, nodes: Nodes | None) -> Observation:
        """The observation. ``query`` None: it is being restarted."""
        if query is None:
            return Observation(at, (), cluster, (Gap("queries", _STARTING),), nodes)
        gaps = () if query.batch is not None else (Gap("batch", _NO_BATCH, query.query_id),)
        return Observation(at, (query,), cluster, gaps, nodes)


class _Sight:
    """Applies delayed, frozen and missing metrics. Sections keep the time at which they were true."""

    def __init__(self, job: JobFile) -> None:
        self._delay_s = job.metrics.delay_s
        self._faults = [event for event in job.events if isinstance(event, MetricFault)]
        self._reach_s = self._delay_s + max((fault.delay_s for fault in self._faults), default=0.0)
        self._remembered: list[Observation] = []

    def moments(self, after: float, until: float) -> list[float]:
        """Times between the two that observations from ``until`` on may show, and that must be remembered."""
        starts = [fault.at_s - self._delay_s - (0.0 if fault.frozen else fault.delay_s) for fault in self._faults]
        return sorted(moment for moment in {*starts, self._shows(until)} if after < moment < until)

    def _shows(self, at: float) -> float:
        """Time that an observation at ``at`` shows."""
        faults = list(self._now(at))
        shown = at - self._delay_s - max((fault.delay_s for fault in faults), default=0.0)
        return max(0.0, min([shown, *(fault.at_s for fault in faults if fault.frozen)]))

    def remember(self, seen: Observation) -> None:
        """Keep an observation that later ones may show."""
        if self._remembered and self._remembered[-1].at == seen.at:
            self._remembered.pop()
        self._remembered.append(seen)

    def show(self, at: float, look: Observation) -> Observation:
        """The observation at ``at``, where ``look`` is the truth."""
        self.remember(look)
        shown = self._shows(at)
        found = next(each for each in reversed(self._remembered) if each.at <= shown)
        self._forget(at)
        missing = frozenset(section for fault in self._now(at) for section in fault.missing)
        found = replace(found, at=at)
        return _leave_out(found, missing, _NO_ANSWER) if missing else found

    def _now(self, at: float) -> Iterator[MetricFault]:
        return (fault for fault in self._faults if fault.at_s <= at < fault.until_s)

    def _forget(self, at: float) -> None:
        """Drop observations that cannot be shown any more."""
        frozen = [fault.at_s for fault in self._faults if fault.frozen and at < fault.until_s]
        horizon = min([at - self._reach_s, *frozen])
        while len(self._remembered) > 1 and self._remembered[1].at <= horizon:
            self._remembered.pop(0)


def _leave_out(seen: Observation, sections: frozenset[str], why: str) -> Observation:
    """The observation without some sections, each with a gap."""
    gaps = [gap for gap in seen.gaps if gap.section not in sections]
    cluster = None if "cluster" in sections else seen.cluster
    gaps += [Gap("cluster", why)] if cluster is None else []
    nodes = None if "nodes" in sections or cluster is None else seen.nodes
    gaps += [Gap("nodes", why)] if nodes is None and seen.nodes is not None else []
    if "queries" in sections:
        return replace(seen, queries=(), cluster=cluster, gaps=(*gaps, Gap("queries", why)), nodes=nodes)
    lost = sorted(sections & {"offsets", "batch", "running"})
    changes = dict.fromkeys(lost)
    queries = tuple(replace(query, **changes) for query in seen.queries)  # type: ignore[arg-type]
    gaps += [Gap(section, why, query.query_id) for query in queries for section in lost]
    return replace(seen, queries=queries, cluster=cluster, gaps=tuple(gaps), nodes=nodes)


def _build_engine(
    job: JobFile, arrivals: Arrivals, fleet: Fleet, seed: int, history: History
) -> MicroBatches | RecordAtATime:
    if job.model == "record" and job.record is not None:
        return RecordAtATime(job, job.record, arrivals, fleet, history)
    return MicroBatches(job, arrivals, fleet, seed, history)


def _shares(job: JobFile) -> list[tuple[float, tuple[float, ...]]]:
    """Times at which the partitions' shares change, and the shares from then on."""
    changes = [(0.0, job.shares)]
    events = [event for event in job.events if isinstance(event, SkewChange)]
    edges = sorted({edge for event in events for edge in (event.at_s, event.until_s) if edge < inf})
    for edge in edges:
        now = [event for event in events if event.at_s <= edge < event.until_s]
        shares = zipf(job.partitions, now[-1].skew) if now else job.shares
        changes = [(0.0, shares)] if edge == 0 else [*changes, (edge, shares)]
    return changes


def _reject(decision: Decision, target: int, executors: int, at: float) -> Outcome:
    words = f"the cluster did not acknowledge the request for {several(target, 'executor')}"
    reason = Reason(ReasonCode.REQUEST_REJECTED, words)
    return Outcome(
        at=at,
        decision_id=decision.decision_id,
        status=OutcomeStatus.FAILED,
        reason=reason,
        target=target,
        before=executors,
    )


# A change of executors in progress: what the live actuator does, on the simulated job.


_LEAST_NO_ROOM_S = 15.0


class Restarts(Protocol):
    """Restarts the query."""

    def restart(self, at: float) -> float:
        """Start a restart; return when the query works again."""
        ...

    def moved(self, share: float) -> None:
        """Note that executors with this share of the state were removed."""
        ...


@dataclass(slots=True)
class Change:
    """A decision that is being executed.

    Attributes:
        before: registered executors when it began.
        former: the number requested before.
        last_came: when the last executor registered, or the change began.
        stopping: mode restart: whether the query is to be stopped at the end of the batch.
        done: when the outcome is known, and the outcome; None: in progress.
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
        """Request the target from the cluster."""
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
        """Whether executors are to be removed."""
        return self.before > self.target

    @property
    def next_at(self) -> float:
        """When it gives up; infinite if it is done, or only waits for the end of a batch."""
        if self.done is not None or self.stopping:
            return inf
        if self.shrinks:
            return inf if self.job.rescale.mode == "restart" else self.began + self.job.rescale.safe_moment_s
        each_s = self._patience_s
        return min(self.last_came + each_s, self.began + each_s * (self.target - self.before))

    @property
    def waits_for_gap(self) -> bool:
        """Whether it has something to do between two batches."""
        return self.done is None and (self.stopping or self.shrinks)

    def came(self, at: float) -> None:
        """Check whether enough executors are registered."""
        if self.done is not None or self.shrinks:
            return
        self.last_came = at
        if len(self.fleet.running) >= self.target and not self.stopping:
            if self.job.rescale.mode == "restart" and self.fleet.in_use != self.target:
                self.stopping = True
            else:
                asked = several(self.target, "was", "were")
                text = f"{len(self.fleet.running)} registered {at - self.began:.1f} s after {asked} asked for"
                self._end(at, OutcomeStatus.APPLIED, ReasonCode.APPLIED, text, "request")

    def gap(self, at: float, *, wide: bool) -> None:
        """Remove executors or restart the query, while no batch is running.

        Args:
            at: now.
            wide: whether the next batch begins later than now. If it begins at once, the gap is shorter than two polls
                of the driver, and executors are idle only while the driver commits and plans.
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
        self._end(at, OutcomeStatus.APPLIED, ReasonCode.APPLIED, text, method, waited_s=waited_s, known_at=at + later)

    def give_up(self, at: float) -> None:
        """Give up: end with what was reached."""
        waited_s = at - self.began
        after = len(self.fleet.running)
        if self.shrinks:
            self.fleet.request(at, max(self.former, after))
            text = (
                f"none of {executors(after)} could be removed without redoing work within {waited_s:.1f} s: no gap"
                " between two triggers"
            )
            self._end(at, OutcomeStatus.HELD, ReasonCode.NOTHING_IDLE, text, "none", waited_s=waited_s)
            return
        kept = max(1, self.former, after)
        self.fleet.request(at, kept)
        text = (
            f"{several(self.target, 'executor was', 'executors were')} asked for, {after} registered after"
            f" {waited_s:.1f} s: no room in the cluster; the request is lowered to {kept}"
        )
        status = OutcomeStatus.PARTIAL if after > self.before else OutcomeStatus.NO_ROOM
        self._end(at, status, ReasonCode.NO_ROOM, text, "request")

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
        self._end(works_at, OutcomeStatus.APPLIED, ReasonCode.APPLIED, text, "restart", waited_s=waited_s)

    def _end(
        self,
        at: float,
        status: OutcomeStatus,
        code: ReasonCode,
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
