"""The work of a batch: its records, shared out over the tasks of each stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import expm1, inf

from rheostat.sim.events import SinkLimit
from rheostat.sim.jobfile import JobFile, zipf
from rheostat.sim.parts import Stage
from rheostat.sim.tally import Equal
from rheostat.sim.tasks import Work

__all__ = ["BatchWork", "Sizes", "next_record_s", "sink_end", "sink_limited", "sink_rate"]

_zipf = lru_cache(maxsize=64)(zipf)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The records of a batch.

    Attributes:
        total: all of them.
        readers: partitions that have some, where none has over one more than another.
        uneven: those from each partition, where that is not so; else None.
    """

    total: float
    readers: int
    uneven: Sequence[float] | None = None

    @classmethod
    def of(cls, each: Sequence[float]) -> Sizes:
        """From these of each partition.

        >>> Sizes.of([1, 0, 1]), Sizes.of([4, 5]), Sizes.of([3, 5])
        (Sizes(total=2, readers=2, uneven=None), Sizes(total=9, readers=2, uneven=None), Sizes(total=8, readers=2, \
uneven=[3, 5]))
        """
        total, most = sum(each), max(each)
        readers = min(len(each), max(1, int(total))) if most <= 1 else len(each)
        return cls(total, readers, each if most - min(each) > 1 else None)

    @classmethod
    def even(cls, total: int, partitions: int) -> Sizes:
        """So many, spread over the partitions as evenly as can be."""
        return cls(total, partitions if total >= partitions else max(1, total))


@dataclass(frozen=True, slots=True)
class _StageCost:
    """What the job file says of a stage, ready for use.

    Attributes:
        cost_ms: of a record of the batch, whether or not it reaches the stage.
        wait_s: longest wait for the next record; 0: none.
        shares: of the tasks, where they are not alike.
        reload_s: time in which a task reads its state again; 0: it has none.
        apart: whether it begins only when the stage before has ended.
    """

    tasks: int | None
    cost_ms: float
    task_ms: float
    wait_s: float
    shares: tuple[float, ...] | None
    reload_s: float
    apart: bool

    @classmethod
    def of(cls, stage: Stage, reload_s: float) -> _StageCost:
        tasks = stage.tasks
        return cls(
            tasks,
            stage.cost_ms * stage.share,
            stage.task_ms,
            stage.fetch_wait_s if tasks is None else 0.0,
            _zipf(tasks, stage.skew) if tasks is not None and stage.skew else None,
            reload_s if stage.stateful else 0.0,
            stage.barrier,
        )

    def work(self, sizes: Sizes, cost_s: float, task_s: float) -> Work:
        """Where a record costs so much, and a task so much besides its records."""
        total = sizes.total
        if self.tasks is None:
            if sizes.uneven is None:
                return Equal(sizes.readers, task_s + total / sizes.readers * cost_s)
            return [task_s + size * cost_s for size in sizes.uneven if size > 0]
        if self.shares is None:
            return Equal(self.tasks, task_s + total / self.tasks * cost_s)
        return [task_s + total * share * cost_s for share in self.shares]


class BatchWork:
    """The work of the batches of a job. Immutable.

    A task takes ``task_ms + records × cost_ms × slots^(1 − exponent)``; one that reads also waits for the next record.

    Attributes:
        waits: whether it matters how fast records arrive meanwhile.
    """

    def __init__(self, job: JobFile) -> None:
        self._hindrance = 1 - job.exponent
        self._stages = tuple([_StageCost.of(stage, job.state.reload_s) for stage in job.stages])
        self.waits = any(stage.wait_s for stage in self._stages)

    def of(
        self,
        sizes: Sizes,
        slots: int,
        factors: Sequence[float] | None = None,
        scale: float = 1.0,
        moved: float = 0.0,
        rate: float = inf,
    ) -> list[Work]:
        """The work of each group of stages that runs at the same time, in order.

        Args:
            sizes: the records.
            slots: slots at the start of the batch.
            factors: of each stage, how many times as much a record costs.
            scale: how many times as much everything costs in this batch.
            moved: share of the state that has lost its executor since the batch before.
            rate: records/s that arrive meanwhile in each partition.
        """
        hindered = (scale * slots**self._hindrance if slots > 1 and self._hindrance else scale) / 1000
        groups: list[Work] = []
        for number, stage in enumerate(self._stages):
            cost_s = stage.cost_ms * hindered * (1.0 if factors is None else factors[number])
            task_s = scale * stage.task_ms / 1000
            if stage.wait_s:
                task_s += next_record_s(rate, stage.wait_s)
            work = stage.work(sizes, cost_s, task_s)
            if moved and stage.reload_s:
                work = _reloading(work, moved, stage.reload_s)
            if stage.apart or not groups:
                groups.append(work)
            else:
                groups[-1] = [*_listed(groups[-1]), *_listed(work)]
        return groups


def next_record_s(rate: float, longest_s: float) -> float:
    """E[min(W, X)] = (1 − e^(−λW)) ÷ λ: how long the next record is waited for, which comes at random.

    Args:
        rate: λ, records/s.
        longest_s: W.

    >>> next_record_s(0.0, 0.5), round(next_record_s(2.0, 0.5), 6), next_record_s(inf, 0.5)
    (0.5, 0.31606, 0.0)
    """
    return longest_s if rate * longest_s < 1e-9 else -expm1(-rate * longest_s) / rate


def _reloading(work: Work, moved: float, reload_s: float) -> Work:
    """The first tasks, as many as have lost their store, read it again."""
    seconds = _listed(work)
    count = round(moved * len(seconds))
    return [each + reload_s if number < count else each for number, each in enumerate(seconds)]


def _listed(work: Work) -> list[float]:
    return work.listed() if isinstance(work, Equal) else work


def sink_limited(job: JobFile) -> bool:
    """Whether the sink ever has a limit."""
    return job.sink.records_per_s is not None or any(isinstance(event, SinkLimit) for event in job.events)


def sink_end(job: JobFile, begin: float, records: float) -> float:
    """When the sink has taken so many records that come from ``begin`` on; ``begin`` if it has no limit."""
    for until, limit in _sink_limits(job, begin):
        if limit == inf:
            return begin
        if records <= (until - begin) * limit:
            return begin + records / limit
        records -= (until - begin) * limit
        begin = until
    return begin


def sink_rate(job: JobFile, at: float) -> float:
    """Records/s that the sink takes at a moment; infinite without a limit."""
    always = inf if job.sink.records_per_s is None else job.sink.records_per_s
    limits = (event for event in job.events if isinstance(event, SinkLimit))
    return min([always, *(event.records_per_s for event in limits if event.at_s <= at < event.until_s)])


def _sink_limits(job: JobFile, begin: float) -> Iterator[tuple[float, float]]:
    """``(until, records/s)`` from ``begin`` on; the last one has no end."""
    limits = [event for event in job.events if isinstance(event, SinkLimit)]
    edges = sorted({edge for event in limits for edge in (event.at_s, event.until_s) if begin < edge < inf})
    for until in (*edges, inf):
        yield until, sink_rate(job, begin)
        begin = until
