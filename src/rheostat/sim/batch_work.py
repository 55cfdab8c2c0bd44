"""The work of a batch: its records, shared out over the tasks of each stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import expm1, inf

from rheostat.sim.events import SinkLimit
from rheostat.sim.jobfile import JobFile, zipf
from rheostat.sim.parts import Stage
from rheostat.sim.tasks import Equal, Work

__all__ = ["batch_work", "next_record_s", "sink_end", "sink_rate"]

_zipf = lru_cache(maxsize=64)(zipf)


def batch_work(
    job: JobFile,
    sizes: Sequence[float],
    slots: int,
    *,
    factors: Sequence[float] | None = None,
    scale: float = 1.0,
    moved: float = 0.0,
    rate: float = inf,
) -> list[Work]:
    """The work of each group of stages that runs at the same time, in order.

    A task takes ``task_ms + records × cost_ms × slots^(1 − exponent)``; one that reads also waits for the next record.

    Args:
        job: the job.
        sizes: records from each partition.
        slots: slots at the start of the batch.
        factors: of each stage, how many times as much a record costs.
        scale: how many times as much everything costs in this batch.
        moved: share of the state that has lost its executor since the batch before.
        rate: records/s that arrive meanwhile, in all partitions.
    """
    hindered = scale * max(1, slots) ** (1 - job.exponent) / 1000
    groups: list[list[Work]] = []
    for number, stage in enumerate(job.stages):
        cost_s = stage.cost_ms * stage.share * hindered * (1.0 if factors is None else factors[number])
        task_s = scale * stage.task_ms / 1000
        if stage.fetch_wait_s and stage.tasks is None:
            task_s += next_record_s(rate / len(sizes), stage.fetch_wait_s)
        work = _stage_work(stage, sizes, cost_s, task_s)
        if stage.stateful and moved and job.state.reload_s:
            work = _reloading(work, moved, job.state.reload_s)
        if stage.barrier or not groups:
            groups.append([work])
        else:
            groups[-1].append(work)
    return [_together(group) for group in groups]


def next_record_s(rate: float, longest_s: float) -> float:
    """E[min(W, X)] = (1 − e^(−λW)) ÷ λ: how long the next record is waited for, which comes at random.

    Args:
        rate: λ, records/s.
        longest_s: W.

    >>> next_record_s(0.0, 0.5), round(next_record_s(2.0, 0.5), 6), next_record_s(inf, 0.5)
    (0.5, 0.31606, 0.0)
    """
    return longest_s if rate * longest_s < 1e-9 else -expm1(-rate * longest_s) / rate


def _stage_work(stage: Stage, sizes: Sequence[float], cost_s: float, task_s: float) -> Work:
    total = sum(sizes)
    if stage.tasks is None:
        most = max(sizes)
        if most - min(sizes) <= 1:
            count = min(len(sizes), max(1, int(total))) if most <= 1 else len(sizes)
            return Equal(count, task_s + total / count * cost_s)
        return [task_s + size * cost_s for size in sizes if size > 0]
    if stage.skew == 0:
        return Equal(stage.tasks, task_s + total / stage.tasks * cost_s)
    return [task_s + total * share * cost_s for share in _zipf(stage.tasks, stage.skew)]


def _reloading(work: Work, moved: float, reload_s: float) -> Work:
    """The first tasks, as many as have lost their store, read it again."""
    seconds = work.listed() if isinstance(work, Equal) else work
    count = round(moved * len(seconds))
    return [each + reload_s if number < count else each for number, each in enumerate(seconds)]


def _together(group: list[Work]) -> Work:
    if len(group) == 1:
        return group[0]
    return [seconds for work in group for seconds in (work.listed() if isinstance(work, Equal) else work)]


def sink_end(job: JobFile, begin: float, records: float) -> float:
    """When the sink has taken so many records that come from ``begin`` on; ``begin`` if it has no limit."""
    if job.sink.records_per_s is None and not any(isinstance(event, SinkLimit) for event in job.events):
        return begin
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
