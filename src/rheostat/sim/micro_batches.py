"""The micro-batch engine: from batch to batch.

Spark's processing-time trigger: a batch begins on the grid of the interval; one that ends after the next point of the
grid is followed by the next at once. A batch takes what has arrived when it begins (the latest offsets), at most the
cap, shared out over the partitions in proportion to what waits in each, as Spark's Kafka source does. Its records are
committed when it ends, all at once. Without new records no batch runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor, inf
from typing import NamedTuple

from rheostat.model import StageWork
from rheostat.sim.arrivals import Arrivals
from rheostat.sim.batch_work import batch_work, sink_end
from rheostat.sim.draws import noise, uniform
from rheostat.sim.fleet import Fleet, SimExecutor
from rheostat.sim.history import History
from rheostat.sim.jobfile import JobFile
from rheostat.sim.tasks import Placed, Tasks, Work, credit, run, told

__all__ = ["Finished", "MicroBatches", "shared_out"]

_ROUNDING = 1e-9


class Finished(NamedTuple):
    """A finished batch, as its progress event and its stages tell.

    Attributes:
        commit_s: what came after the tasks and the sink.
        work_s: time in which its tasks ran.
        stages: where it has several.
    """

    end: float
    batch_id: int
    duration_s: float
    planning_s: float
    commit_s: float
    records: int
    work_s: float | None = None
    stages: tuple[StageWork, ...] = ()


@dataclass(slots=True)
class _Batch:
    """The running batch.

    Attributes:
        warm: slots that were warm when it began; None: all of them.
        warmed: slots that will be warm when it ends; None: all of them.
        members: executors that it has been placed on.
    """

    batch_id: int
    start: float
    records: int
    work: list[Work]
    in_use: int
    warm: frozenset[tuple[int, int]] | None = None
    warmed: set[tuple[int, int]] | None = None
    members: list[SimExecutor] = field(default_factory=list)
    placed: list[Placed] = field(default_factory=list)
    tasks_end: float = inf
    end: float = inf


class MicroBatches:
    """The state of the query.

    Attributes:
        committed, planned: records of each partition.
        next_at: when the running batch ends, or the next one begins.
        running: the running batch.
        finished: the last finished batch of this run; None: none yet.
    """

    def __init__(self, job: JobFile, arrivals: Arrivals, fleet: Fleet, seed: int, history: History) -> None:
        self._job, self._arrivals, self._fleet, self._seed, self._history = job, arrivals, fleet, seed, history
        self._factors = [1.0] * len(job.stages)
        self._moved = 0.0
        self.keep_batches = False
        self.committed = [0] * job.partitions
        self.planned = self.committed
        self.running: _Batch | None = None
        self.finished: Finished | None = None
        self._next_id = 0
        self._out = 0
        self._oldest = arrivals.oldest(self.committed)
        history.commits.append((0.0, 0, 0.0, 0.0))
        history.oldest.append(self._oldest)
        self.next_at = self._trigger(0.0, on_grid=True)

    # --------------------------------------------------------------------------------------------- events

    @property
    def at_boundary(self) -> bool:
        """Whether no batch is running."""
        return self.running is None

    @property
    def nothing_left(self) -> bool:
        """Whether every record that ever arrives is committed."""
        return self._oldest == inf

    def step(self, at: float) -> bool:
        """What happens at ``next_at``: a batch ends (True) or begins (False)."""
        if self.running is None:
            self._begin(at)
            return False
        self._end(self.running, at)
        return True

    def replan(self, at: float) -> None:  # noqa: ARG002 - what was done before now stays as it was
        """The executors may have changed: place the running batch anew, unless its placement stands."""
        if self.running is not None and not self._stands(self.running):
            self._place(self.running)

    def pause(self, at: float, seconds: float) -> None:
        """Between two batches: the query is stopped and works again after so long, as another run."""
        self.finished = None
        self.next_at = self._trigger(at + seconds, on_grid=False)

    def moved(self, share: float) -> None:
        """Executors with this share of the state have been taken away."""
        self._moved = 1 - (1 - self._moved) * (1 - share)

    def change_cost(self, factor: float, stage: str | None) -> None:
        """From the next batch on a record costs so many times as much."""
        for number, each in enumerate(self._job.stages):
            if stage is None or each.name == stage:
                self._factors[number] *= factor

    # ---------------------------------------------------------------------------------------------- looks

    @property
    def in_flight(self) -> tuple[int, float] | None:
        """Id and start of the running batch."""
        return None if self.running is None else (self.running.batch_id, self.running.start)

    def records(self, at: float) -> tuple[list[int], list[int], list[int]]:
        """Latest, planned and committed records of each partition."""
        return self._arrivals.latest(at), self.planned, self.committed

    def tasks(self, at: float) -> Tasks:
        """What the executors have done in the running batch by now, and what they are doing."""
        return {} if self.running is None else told(self.running.placed, at)

    # ---------------------------------------------------------------------------------------------------

    def _trigger(self, earliest: float, *, on_grid: bool) -> float:
        """When the next batch begins: not before ``earliest``, and when there are records; infinite if never."""
        every = self._job.trigger_s
        if self._oldest <= earliest and not (on_grid and every):
            return earliest
        due = max(earliest, self._oldest)
        return due if due == inf or not every else ceil(due / every - _ROUNDING) * every

    def _begin(self, at: float) -> None:
        job, fleet = self._job, self._fleet
        latest = self._arrivals.latest(at)
        self.planned = shared_out(self.committed, latest, job.batch_cap)
        sizes = [end - start for end, start in zip(self.planned, self.committed, strict=True)]
        scale = noise(job.batch_noise_cv, uniform(self._seed, "batch", self._next_id)) if job.batch_noise_cv else 1.0
        in_use = fleet.in_use
        work = batch_work(
            job,
            sizes,
            in_use * job.executor.cores,
            factors=self._factors,
            scale=scale,
            moved=self._moved,
            rate=self._arrivals.rate(at),
        )
        self._moved = 0.0
        if not fleet.settled:
            fleet.look(at)
        warm = None if fleet.settled else frozenset(_warm_slots(fleet.used))
        self.running = _Batch(self._next_id, at, sum(sizes), work, in_use, warm)
        self._next_id += 1
        self._place(self.running)

    def _place(self, batch: _Batch) -> None:
        begin = batch.start + self._job.driver.planning_s
        if batch.warm is None and not self._fleet.settled:
            batch.warm = frozenset((each.number, core) for each in batch.members for core in range(len(each.warm)))
        batch.members = _members(batch, self._fleet)
        warm = batch.warmed = set(batch.warm or ())
        batch.placed = []
        at = begin
        for work in batch.work:
            placed = run(work, at, batch.members, self._fleet, warm)
            batch.placed.append(placed)
            at = placed.end
            if at == inf:
                break
        batch.tasks_end = max(at, sink_end(self._job, begin, batch.records))
        batch.end = batch.tasks_end + self._job.driver.commit_s + self._job.state.commit_s
        self.next_at = batch.end

    def _stands(self, batch: _Batch) -> bool:
        """Whether a new placement would be the same: one slot by slot, on the executors that are used now.

        Those that have registered since were on their way then and are placed from the time at which they are ready.
        """
        fleet = self._fleet
        return batch.warm is not None and fleet.undisturbed and set(batch.members) == set(fleet.used)

    def _end(self, batch: _Batch, at: float) -> None:
        credit(batch.placed)
        if batch.warm is not None and batch.warmed is not None:
            for each in batch.members:
                each.warm = [(each.number, core) in batch.warmed for core in range(len(each.warm))]
        self._commit(batch, at)
        planning_s = self._job.driver.planning_s
        work_s = batch.placed[-1].end - batch.start - planning_s
        stages = tuple(map(_told, batch.placed)) if len(batch.placed) > 1 else ()
        self.finished = Finished(
            at, batch.batch_id, at - batch.start, planning_s, at - batch.tasks_end, batch.records, work_s, stages
        )
        self.running = None
        every = self._job.trigger_s
        grid = (floor(batch.start / every + _ROUNDING) + 1) * every if every else at
        self.next_at = self._trigger(max(at, grid), on_grid=False)

    def _commit(self, batch: _Batch, at: float) -> None:
        before = at - self._oldest
        self.committed = self.planned
        self._out += batch.records
        self._oldest = self._arrivals.oldest(self.committed)
        history = self._history
        history.commits.append((at, self._out, before, max(0.0, at - self._oldest)))
        history.oldest.append(self._oldest)
        history.records_out = self._out
        if self.keep_batches:
            history.batches.append((batch.start, at, batch.records, batch.in_use))


def shared_out(committed: list[int], latest: list[int], cap: int | None) -> list[int]:
    """Where a batch ends in each partition: at ``latest``, or with ``cap`` records shared out by what waits.

    Spark's Kafka source gives each partition ⌊cap × waiting ÷ all waiting⌋, or one record where that is under 1; so a
    batch may have a few less than the cap.

    >>> shared_out([0, 0], [300, 100], 100), shared_out([0, 0], [30, 10], 100), shared_out([0, 0], [1000, 1], 100)
    ([75, 25], [30, 10], [99, 1])
    """
    if cap is None:
        return latest
    total = sum(latest) - sum(committed)
    if total <= cap:
        return latest
    waiting = [end - start for end, start in zip(latest, committed, strict=True)]
    return [start + _part(size, cap * size / total) for start, size in zip(committed, waiting, strict=True)]


def _part(size: int, share: float) -> int:
    return min(size, ceil(share) if share < 1 else floor(share))


def _told(placed: Placed) -> StageWork:
    if placed.equal is not None:
        return StageWork(placed.equal.count, placed.equal.count * placed.equal.each_s)
    well = [end - begin for begin, end, _, ended_well in placed.tasks if ended_well]
    return StageWork(len(well), sum(well))


def _warm_slots(executors: Sequence[SimExecutor]) -> list[tuple[int, int]]:
    return [(each.number, core) for each in executors for core, warm in enumerate(each.warm) if warm]


def _members(batch: _Batch, fleet: Fleet) -> list[SimExecutor]:
    """Those in use or to come, and those that the batch has lost."""
    gone = [each for each in batch.members if each.gone_at < inf and each.gone_at > batch.start]
    return sorted([*fleet.used, *gone], key=lambda each: each.number) if gone else fleet.used
