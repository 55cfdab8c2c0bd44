"""The micro-batch engine: when batches run, what they take, and the work of each.

As with Spark's processing-time trigger, batches begin at multiples of the interval; a longer batch is followed by the
next one at once. A batch takes the records that have arrived when it begins (the latest offsets), at most the
cap, which is divided among partitions in proportion to their waiting records, as in Spark's Kafka source. Its records
are committed when it ends. Without new records no batch runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, expm1, floor, inf

from rheostat.model import Batch, StageWork
from rheostat.sim.arrivals import Arrivals, Positions
from rheostat.sim.events import FailingTasks, GarbageCollection, SinkLimit, SlowPartition
from rheostat.sim.executors import Fleet, SimExecutor
from rheostat.sim.history import History
from rheostat.sim.jobfile import JobFile, noise, uniform, zipf
from rheostat.sim.tasks import Equal, Placed, Progress, Work, count_progress, credit, place, seconds_of

_ROUNDING = 1e-9
_MOST_BATCHES = 32
"""Batches that are told in one look at most."""
_POLL_S = 1.0
"""How often a source that waits for records is asked, without a trigger interval."""


@dataclass(slots=True)
class _Batch:
    """The running batch.

    Attributes:
        failed: failed attempts of each task, on average.
        garbage: share of the task time in garbage collection.
        members: executors that it was placed on, by number.
        settled: whether the fleet was settled at that time.
    """

    batch_id: int
    start: float
    records: int
    work: list[Work]
    in_use: int
    failed: float = 0.0
    garbage: float = 0.0
    members: list[SimExecutor] = field(default_factory=list)
    settled: bool = False
    placed: Sequence[Placed] = ()
    tasks_end: float = inf
    end: float = inf


class Engine:
    """What both engines share: the committed positions and the last batch.

    Attributes:
        next_at: when the running batch ends, or the next one begins.
        finished: the last finished batch of this run; None: none yet.
        earlier: those of this run that ended before it and were not told yet, the newest ones.
        keep_batches: whether the history lists every batch.
    """

    next_at: float

    def __init__(self, job: JobFile, arrivals: Arrivals, fleet: Fleet, history: History) -> None:
        self._job, self._arrivals, self._fleet, self._history = job, arrivals, fleet, history
        self.keep_batches = False
        self.finished: Batch | None = None
        self.earlier: deque[Batch] = deque(maxlen=_MOST_BATCHES)
        self._told = -1
        self._next_id = 0
        self._committed: Positions = (0,) * job.partitions
        self._oldest = arrivals.oldest(self._committed)
        history.commit(0.0, 0, self._oldest)

    @property
    def nothing_left(self) -> bool:
        """Whether every record that ever arrives is committed."""
        return self._oldest == inf

    def fail(self, at: float) -> None:
        """Break off what is not committed."""

    def note_told(self, batch_id: int) -> None:
        """The batches up to this one were told."""
        self._told = batch_id
        while self.earlier and self.earlier[0].batch_id <= batch_id:
            self.earlier.popleft()

    def _finish(self, batch: Batch) -> None:
        if self.finished is not None and self.finished.batch_id > self._told:
            self.earlier.append(self.finished)
        self.finished = batch

    def _forget_run(self) -> None:
        self.finished, self._told = None, -1
        self.earlier.clear()

    def _commit(self, positions: Positions, begin: float, end: float, executors: int) -> None:
        records = sum(positions) - self._history.records_out
        self._committed, self._oldest = positions, self._arrivals.oldest(positions)
        self._history.commit(end, sum(positions), self._oldest)
        if self.keep_batches:
            self._history.batches.append((begin, end, records, executors))


class MicroBatches(Engine):
    """The state of the query."""

    def __init__(self, job: JobFile, arrivals: Arrivals, fleet: Fleet, seed: int, history: History) -> None:
        super().__init__(job, arrivals, fleet, history)
        self._seed = seed
        self._factors = [1.0] * len(job.stages)
        self._moved = 0.0
        self._planned = self._committed
        self._planned_at: float | None = None
        self._running: _Batch | None = None
        self._again: Positions | None = None
        self.next_at = self._trigger(0.0, on_grid=True)

    # --------------------------------------------------------------------------------------------- events

    @property
    def at_boundary(self) -> bool:
        """Whether no batch is running."""
        return self._running is None

    def step(self, at: float) -> bool:
        """End the running batch (returns True) or begin the next one (False), at ``next_at``."""
        if self._running is None:
            self._begin(at)
            return False
        self._end(self._running, at)
        return True

    def replan(self, at: float) -> None:  # noqa: ARG002 - what was done before now stays as it was
        """Place the running batch again after a change of the executors, unless its placement is still valid.

        It stays valid when an expected executor registers: tasks are already placed on it from then on.
        """
        batch, fleet = self._running, self._fleet
        if batch is None:
            return
        same = batch.members == fleet.used and batch.settled == fleet.settled
        if not (same and fleet.undisturbed):
            self._place(batch)

    def pause(self, at: float, seconds: float) -> None:
        """Stop the query between two batches and start it as a new run after ``seconds``."""
        self._forget_run()
        self._planned_at = None
        self.next_at = self._trigger(at + seconds, on_grid=False)

    def fail(self, at: float) -> None:
        """Break the running batch off: what its tasks did is lost, and the next run does the batch again."""
        batch, self._running = self._running, None
        if batch is not None:
            for executor, done in count_progress(batch.placed, at).items():
                executor.add_work(done.ended, done.busy_s)
            self._again, self._next_id = self._planned, batch.batch_id

    def note_moved(self, share: float) -> None:
        """Note that executors with this share of the state were removed."""
        self._moved = 1 - (1 - self._moved) * (1 - share)

    def change_cost(self, factor: float, stage: str | None) -> None:
        """Multiply the cost of records, from the next batch on; of all stages without ``stage``."""
        for number, each in enumerate(self._job.stages):
            if stage is None or each.name == stage:
                self._factors[number] *= factor

    # ---------------------------------------------------------------------------------------------- looks

    @property
    def in_flight(self) -> tuple[int, float] | None:
        """Id and start of the running batch."""
        return None if self._running is None else (self._running.batch_id, self._running.start)

    def records(self, at: float) -> tuple[Positions, Positions, Positions]:
        """Latest, planned and committed records of each partition."""
        planned = self._committed if self._running is None else self._planned
        return self._arrivals.latest(at), planned, self._committed

    def progress(self, at: float) -> Mapping[SimExecutor, Progress]:
        """Work of the executors in the running batch."""
        return {} if self._running is None else count_progress(self._running.placed, at)

    # ---------------------------------------------------------------------------------------------------

    def _trigger(self, earliest: float, *, on_grid: bool) -> float:
        """When the next batch begins: not before ``earliest``, and only with records; infinite if never."""
        every = self._job.trigger_s
        if self._oldest <= earliest and not (on_grid and every):
            return earliest
        due = max(earliest, self._oldest)
        return due if due == inf or not every else ceil(due / every - _ROUNDING) * every

    def _begin(self, at: float) -> None:
        job, fleet, number = self._job, self._fleet, self._next_id
        if self._again is None and self._waits(at):
            every = job.trigger_s or _POLL_S
            self.next_at = (floor(at / every + _ROUNDING) + 1) * every
            return
        self._planned_at = at
        self._planned = self._again or batch_end(self._committed, self._arrivals.latest(at), job.batch_cap)
        self._again = None
        sizes = [end - start for end, start in zip(self._planned, self._committed, strict=True)]
        fleet.check_settled(at)
        failed, garbage = failed_attempts(job, fleet.in_use, at), garbage_share(job, fleet.in_use, at)
        work = batch_work(
            job,
            sizes,
            fleet.in_use * job.executor.slots,
            factors=self._factors,
            scale=(1 + failed) / (1 - garbage) * noise(job.batch_noise_cv, uniform(self._seed, "batch", number)),
            moved=self._moved,
            rate=self._arrivals.rate(at),
            slow={event.partition % job.partitions: event.factor for event in job.active(SlowPartition, at)},
        )
        self._moved = 0.0
        self._running = _Batch(number, at, sum(sizes), work, fleet.in_use, failed, garbage)
        self._next_id = number + 1
        self._place(self._running)

    def _waits(self, at: float) -> bool:
        """Whether the source waits for more records, as Spark's does: never before the first batch.

        Its longest wait begins anew when it has passed without a record.
        """
        least, longest_s = self._job.min_offsets_per_trigger, self._job.max_trigger_delay_s
        if least is None or self._planned_at is None or longest_s == 0:
            return False
        self._planned_at += max(0.0, (self._oldest - self._planned_at) // longest_s) * longest_s
        waiting = sum(self._arrivals.latest(at)) - sum(self._committed)
        return waiting < least and at - self._planned_at < longest_s

    def _place(self, batch: _Batch) -> None:
        job, begin = self._job, batch.start + self._job.driver.planning_s
        lost = [each for each in batch.members if batch.start < each.gone_at < inf]
        batch.members = sorted([*self._fleet.used, *lost], key=lambda each: each.number)
        batch.settled = self._fleet.settled
        for each in batch.members:
            each.garbage = batch.garbage
        batch.placed = place(batch.work, begin, batch.members, self._fleet)
        batch.tasks_end = max(batch.placed[-1].end, _sink_end(job, begin, batch.records, len(batch.members)))
        batch.end = self.next_at = batch.tasks_end + job.driver.commit_s + job.state.commit_s

    def _end(self, batch: _Batch, at: float) -> None:
        credit(batch.placed, batch.failed)
        self._commit(self._planned, batch.start, at, batch.in_use)
        self._finish(self._report(batch))
        self._running = None
        every = self._job.trigger_s
        grid = (floor(batch.start / every + _ROUNDING) + 1) * every if every else at
        self.next_at = self._trigger(max(at, grid), on_grid=False)

    def _report(self, batch: _Batch) -> Batch:
        planning_s = self._job.driver.planning_s
        duration_s, commit_s = batch.end - batch.start, batch.end - batch.tasks_end
        work_s, seen = batch.placed[-1].end - batch.start - planning_s, self._job.metrics.work_seen
        reads = [stage.reads for stage in self._job.stages]
        report = Batch(
            at=batch.end,
            batch_id=batch.batch_id,
            duration_s=duration_s,
            planning_s=planning_s,
            add_batch_s=duration_s - planning_s - commit_s,
            commit_s=commit_s,
            records=round(batch.records * self._job.metrics.rows_per_offset),
            offsets=(batch.records,),
            work_s=work_s * seen if seen else None,
            stages=tuple(map(_sum_stage, batch.placed)) if seen == 1.0 else (),
        )
        return report.with_reads(reads) if any(reads) else report


def batch_end(committed: Positions, latest: Positions, cap: int | None) -> Positions:
    """End offsets of a batch: ``latest``, or ``cap`` records divided in proportion to the waiting records.

    Spark's Kafka source gives each partition ⌊cap × waiting ÷ all waiting⌋, or one record where that is below 1, so a
    batch may be slightly smaller than the cap.

    >>> batch_end((0, 0), (300, 100), 100), batch_end((0, 0), (30, 10), 100), batch_end((0, 0), (1000, 1), 100)
    ((75, 25), (30, 10), (99, 1))
    """
    total = sum(latest) - sum(committed)
    if cap is None or total <= cap:
        return latest
    waiting = [end - start for end, start in zip(latest, committed, strict=True)]
    return tuple(start + _part(size, cap * size / total) for start, size in zip(committed, waiting, strict=True))


def _part(size: int, share: float) -> int:
    return min(size, ceil(share) if share < 1 else floor(share))


def _sum_stage(placed: Placed) -> StageWork:
    if placed.waves is not None:
        return StageWork(placed.waves.count, placed.waves.count * placed.waves.each_s)
    well = [task.end - task.begin for task in placed.tasks if task.well]
    return StageWork(len(well), sum(well))


def batch_work(
    job: JobFile,
    sizes: Sequence[float],
    slots: int,
    *,
    factors: Sequence[float] | None = None,
    scale: float = 1.0,
    moved: float = 0.0,
    rate: float = inf,
    slow: Mapping[int, float] | None = None,
) -> list[Work]:
    """The work of each group of concurrent stages, in order.

    A task takes ``task_ms + records × cost_ms × slots^(1 − exponent)``; one that reads also waits for the next record.

    Args:
        job: the job.
        sizes: records from each partition.
        slots: slots at the start of the batch.
        factors: cost factor of each stage's records.
        scale: cost factor of the whole batch.
        moved: share of the state that has lost its executor since the last batch.
        rate: arrival rate over all partitions, records/s.
        slow: cost factor of the records of some partitions, in the stages that read.
    """
    hindered = scale * max(1, slots) ** (1 - job.exponent) / 1000
    total, readers, costs = sum(sizes), None if slow else _equal_readers(sizes), sizes
    if slow:
        costs = [size * slow.get(number, 1.0) for number, size in enumerate(sizes)]
    groups: list[list[Work]] = []
    for number, stage in enumerate(job.stages):
        cost_s = stage.cost_ms * stage.share * hindered * (1.0 if factors is None else factors[number])
        task_s = scale * stage.task_ms / 1000
        if stage.fetch_wait_s and stage.tasks is None:
            task_s += next_record_s(rate / len(sizes), stage.fetch_wait_s)
        tasks = stage.tasks or readers
        if tasks is None:
            work: Work = [task_s + size * cost_s for size in costs if size > 0]
        elif stage.skew:
            work = [task_s + total * share * cost_s for share in zipf(tasks, stage.skew)]
        else:
            work = Equal(tasks, task_s + total / tasks * cost_s)
        if stage.stateful and moved and job.state.reload_s:
            seconds = seconds_of(work)
            reloaded = round(moved * len(seconds))
            work = [each + (job.state.reload_s if n < reloaded else 0.0) for n, each in enumerate(seconds)]
        if stage.barrier or not groups:
            groups.append([work])
        else:
            groups[-1].append(work)
    return [group[0] if len(group) == 1 else [s for work in group for s in seconds_of(work)] for group in groups]


def next_record_s(rate: float, longest_s: float) -> float:
    """Mean wait for the next record of a Poisson process, at most W: E[min(W, X)] = (1 − e^(−λW)) ÷ λ; λ in records/s.

    >>> next_record_s(0.0, 0.5), round(next_record_s(2.0, 0.5), 6), next_record_s(inf, 0.5)
    (0.5, 0.31606, 0.0)
    """
    return longest_s if rate * longest_s < 1e-9 else -expm1(-rate * longest_s) / rate


def _equal_readers(sizes: Sequence[float]) -> int | None:
    """Tasks that read, if all have as many records as the others; None: they have not."""
    most = max(sizes)
    if most - min(sizes) > 1:
        return None
    return min(len(sizes), max(1, int(sum(sizes)))) if most <= 1 else len(sizes)


def failed_attempts(job: JobFile, executors: int, at: float) -> float:
    """Attempts of each task that fail before it succeeds, on average: share ÷ (1 − share)."""
    shares = [event.share for event in job.active(FailingTasks, at) if executors > event.above]
    return max((share / (1 - share) for share in shares), default=0.0)


def garbage_share(job: JobFile, executors: int, at: float) -> float:
    """Share of the task time that garbage collection takes on so many executors."""
    events = job.active(GarbageCollection, at)
    return max((each.share * min(1.0, (each.executors or inf) / executors) for each in events), default=0.0)


def _sink_end(job: JobFile, begin: float, records: float, executors: int) -> float:
    """When the sink has taken the records, written from ``begin`` on; ``begin`` without a limit."""
    records *= crowd(job, executors)
    for until in (*(edge for edge in job.edges(SinkLimit) if edge > begin), inf):
        limit = sink_rate(job, begin)
        if limit == inf:
            return begin
        if records <= (until - begin) * limit:
            return begin + records / limit
        records -= (until - begin) * limit
        begin = until
    return begin


def crowd(job: JobFile, executors: int) -> float:
    """How many times as long the sink takes for what so many executors write."""
    return 1 + job.sink.crowding * max(0, executors - 1)


def sink_rate(job: JobFile, at: float) -> float:
    """Records/s that the sink takes at a time; infinite without a limit."""
    always = inf if job.sink.records_per_s is None else job.sink.records_per_s
    return min([always, *(event.records_per_s for event in job.active(SinkLimit, at))])
