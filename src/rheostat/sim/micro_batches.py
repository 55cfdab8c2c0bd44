"""The micro-batch engine: from batch to batch.

Spark's processing-time trigger: a batch begins on the grid of the interval; one that ends after the next point of the
grid is followed by the next at once. A batch takes what has arrived when it begins (the latest offsets), at most the
cap, shared out over the partitions in proportion to what waits in each, as Spark's Kafka source does. Its records are
committed when it ends, all at once. Without new records no batch runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from math import ceil, floor, inf
from operator import sub

from rheostat.model import Batch, StageWork
from rheostat.sim.arrivals import Arrivals, Positions
from rheostat.sim.batch_work import BatchWork, Sizes, sink_end, sink_limited
from rheostat.sim.chains import Chains
from rheostat.sim.draws import noise, uniform
from rheostat.sim.fleet import Fleet, SimExecutor, number_of
from rheostat.sim.history import History
from rheostat.sim.jobfile import JobFile
from rheostat.sim.tally import Done, Equal
from rheostat.sim.tasks import Placed, Task, Work, credit, run, told

__all__ = ["MicroBatches", "batch_end", "batch_sizes"]

_ROUNDING = 1e-9


@dataclass(slots=True)
class _Batch:
    """The running batch, or the last one.

    Attributes:
        warm: numbers of the slots that were warm when it began; None: all of them.
        warmed: slots that will be warm when it ends; None: all of them.
        members: executors that it has been placed on, by number.
    """

    batch_id: int
    start: float
    records: int
    work: list[Work]
    in_use: int
    warm: frozenset[int] | None = None
    warmed: set[int] | None = None
    members: list[SimExecutor] = field(default_factory=list)
    placed: Sequence[Placed] = ()
    tasks_end: float = inf
    end: float = inf


class MicroBatches:
    """The state of the query.

    Attributes:
        next_at: when the running batch ends, or the next one begins.
    """

    def __init__(self, job: JobFile, arrivals: Arrivals, fleet: Fleet, seed: int, history: History) -> None:
        self._job, self._arrivals, self._fleet, self._seed, self._history = job, arrivals, fleet, seed, history
        self._work = BatchWork(job)
        self._factors = [1.0] * len(job.stages)
        self._trigger_s, self._cap, self._noise_cv = job.trigger_s, job.batch_cap, job.batch_noise_cv
        self._planning_s, self._commits_s = job.driver.planning_s, (job.driver.commit_s, job.state.commit_s)
        self._cores = job.executor.cores
        self._sink_limited = sink_limited(job)
        self._moved = 0.0
        self.keep_batches = False
        self._committed = self._planned = Positions(0, job.partitions)
        self._running: _Batch | None = None
        self._last: _Batch | None = None
        self._next_id = 0
        self._oldest = arrivals.oldest(self._committed)
        history.commits.append((0.0, 0, 0.0, 0.0))
        history.oldest.append(self._oldest)
        self.next_at = self._trigger(0.0, on_grid=True)

    # --------------------------------------------------------------------------------------------- events

    @property
    def at_boundary(self) -> bool:
        """Whether no batch is running."""
        return self._running is None

    @property
    def nothing_left(self) -> bool:
        """Whether every record that ever arrives is committed."""
        return self._oldest == inf

    def step(self, at: float) -> bool:
        """What happens at ``next_at``: a batch ends (True) or begins (False)."""
        if self._running is None:
            self._begin(at)
            return False
        self._end(self._running, at)
        return True

    def replan(self, at: float) -> None:  # noqa: ARG002 - what was done before now stays as it was
        """The executors may have changed: place the running batch anew, unless its placement stands."""
        batch, used = self._running, self._fleet.used
        if batch is not None and not self._stands(batch, used):
            self._place(batch, _with_lost(used, batch))

    def pause(self, at: float, seconds: float) -> None:
        """Between two batches: the query is stopped and works again after so long, as another run."""
        self._last = None
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
        return None if self._running is None else (self._running.batch_id, self._running.start)

    @property
    def finished(self) -> Batch | None:
        """The last finished batch of this run, as its progress event and its stages tell; None: none yet."""
        return None if self._last is None else _progress(self._last, self._planning_s)

    def records(self, at: float) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Latest, planned and committed records of each partition."""
        committed = self._committed.each()
        planned = committed if self._running is None else self._planned.each()
        return self._arrivals.latest(at).each(), planned, committed

    def tasks(self, at: float) -> Done:
        """What the executors have done by now, and what they are doing."""
        if self._running is not None:
            return told(self._running.placed, at, self._fleet)
        finished, busy_s = self._fleet.tally.counted()
        return tuple(finished), tuple(busy_s), (0,) * len(finished)

    # ---------------------------------------------------------------------------------------------------

    def _trigger(self, earliest: float, *, on_grid: bool) -> float:
        """When the next batch begins: not before ``earliest``, and when there are records; infinite if never."""
        every = self._trigger_s
        if self._oldest <= earliest and not (on_grid and every):
            return earliest
        due = max(earliest, self._oldest)
        return due if due == inf or not every else ceil(due / every - _ROUNDING) * every

    def _begin(self, at: float) -> None:
        fleet, number, before = self._fleet, self._next_id, self._committed
        planned = self._planned = batch_end(before, self._arrivals.latest(at), self._cap)
        if not fleet.settled:
            fleet.look(at)
        in_use = fleet.in_use
        work = self._work.of(
            batch_sizes(before, planned),
            in_use * self._cores,
            self._factors,
            noise(self._noise_cv, uniform(self._seed, "batch", number)) if self._noise_cv else 1.0,
            self._moved,
            self._arrivals.rate(at) / planned.partitions if self._work.waits else inf,
        )
        self._moved = 0.0
        used = fleet.used
        warm = None if fleet.settled else frozenset(_warm_slots(used))
        batch = self._running = _Batch(number, at, planned.total - before.total, work, in_use, warm)
        self._next_id = number + 1
        self._place(batch, used)

    def _place(self, batch: _Batch, members: list[SimExecutor]) -> None:
        fleet, begin = self._fleet, batch.start + self._planning_s
        if batch.warm is None and not fleet.settled:
            batch.warm = frozenset([slot for each in batch.members for slot in each.slots])
        batch.members = members
        warm = batch.warmed = set(batch.warm or ())
        batch.placed = run(batch.work, begin, members, fleet, warm)
        at = batch.placed[-1][1]
        batch.tasks_end = max(at, sink_end(self._job, begin, batch.records)) if self._sink_limited else at
        driver_s, state_s = self._commits_s
        batch.end = self.next_at = batch.tasks_end + driver_s + state_s

    def _stands(self, batch: _Batch, used: list[SimExecutor]) -> bool:
        """Whether a new placement would be the same: one slot by slot, on the executors that are used now.

        Those that have registered since were on their way then and are placed from the time at which they are ready.
        """
        return batch.warm is not None and self._fleet.undisturbed and batch.members == used

    def _end(self, batch: _Batch, at: float) -> None:
        credit(batch.placed, self._fleet)
        if batch.warm is not None and batch.warmed is not None:
            for each in batch.members:
                if False in each.warm:
                    each.warm = [slot in batch.warmed for slot in each.slots]
        self._commit(batch, at)
        self._last, self._running = batch, None
        every = self._trigger_s
        grid = (floor(batch.start / every + _ROUNDING) + 1) * every if every else at
        self.next_at = self._trigger(max(at, grid), on_grid=False)

    def _commit(self, batch: _Batch, at: float) -> None:
        before = at - self._oldest
        committed = self._committed = self._planned
        self._oldest = oldest = self._arrivals.oldest(committed)
        history = self._history
        history.commits.append((at, committed.total, before, at - oldest if oldest < at else 0.0))
        history.oldest.append(oldest)
        history.records_out = committed.total
        if self.keep_batches:
            history.batches.append((batch.start, at, batch.records, batch.in_use))


def batch_end(committed: Positions, latest: Positions, cap: int | None) -> Positions:
    """Where a batch ends: at ``latest``, or with no more than ``cap`` records."""
    if cap is None or latest.total - committed.total <= cap:
        return latest
    return Positions.of(_shared_out(committed.each(), latest.each(), cap))


def batch_sizes(begin: Positions, end: Positions) -> Sizes:
    """The records of a batch."""
    if begin.uneven is None and end.uneven is None:
        return Sizes.even(end.total - begin.total, end.partitions)
    return Sizes.of([*map(sub, end.each(), begin.each())])


def _shared_out(committed: Sequence[int], latest: Sequence[int], cap: int) -> list[int]:
    """Where a batch ends in each partition: with ``cap`` records shared out by what waits, which is more.

    Spark's Kafka source gives each partition ⌊cap × waiting ÷ all waiting⌋, or one record where that is under 1; so a
    batch may have a few less than the cap.

    >>> _shared_out([0, 0], [300, 100], 100), _shared_out([0, 0], [1000, 1], 100)
    ([75, 25], [99, 1])
    """
    total = sum(latest) - sum(committed)
    waiting = [end - start for end, start in zip(latest, committed, strict=True)]
    return [start + _part(size, cap * size / total) for start, size in zip(committed, waiting, strict=True)]


def _part(size: int, share: float) -> int:
    return min(size, ceil(share) if share < 1 else floor(share))


def _progress(batch: _Batch, planning_s: float) -> Batch:
    """What is told of a batch that has ended."""
    duration_s, commit_s = batch.end - batch.start, batch.end - batch.tasks_end
    return Batch(
        batch.end,
        batch.batch_id,
        duration_s,
        planning_s,
        duration_s - planning_s - commit_s,
        commit_s,
        batch.records,
        None,
        None,
        batch.placed[-1][1] - batch.start - planning_s,
        tuple([_stage(tasks) for _, _, tasks in batch.placed]) if len(batch.placed) > 1 else (),
    )


def _stage(tasks: Equal | Chains | Sequence[Task]) -> StageWork:
    if isinstance(tasks, Equal):
        return StageWork(tasks.count, tasks.count * tasks.each_s)
    if isinstance(tasks, Chains):
        return StageWork(len(tasks.took_s), sum(tasks.took_s, 0.0))
    well = [end - begin for begin, end, _, ended_well in tasks if ended_well]
    return StageWork(len(well), sum(well))


def _warm_slots(executors: Sequence[SimExecutor]) -> list[int]:
    return [slot for each in executors for slot in compress(each.slots, each.warm)]


def _with_lost(used: list[SimExecutor], batch: _Batch) -> list[SimExecutor]:
    """Those in use or to come, and those that the batch has lost, by number."""
    gone = [each for each in batch.members if batch.start < each.gone_at < inf]
    return sorted([*used, *gone], key=number_of) if gone else used
