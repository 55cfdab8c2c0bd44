"""What the offsets of one query say: backlog, arrival rate and lag, partition by partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rheostat.analyze.checks import known, largest, total
from rheostat.analyze.curve import arrival_time, arrived, extended, thinned
from rheostat.analyze.state import AnalysisSettings, PartitionHistory
from rheostat.analyze.usual import Sums, read_usual
from rheostat.model import Offsets, PartitionOffsets

__all__ = ["OffsetFigures", "read_offsets"]

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class OffsetFigures:
    """Of one query, over all its partitions; None where one of them is unknown.

    Attributes:
        at: when the offsets were read.
        committed_known: whether all committed offsets are known, so that ``progress`` is complete.
        progress: records committed since the observation before.
    """

    at: float | None = None
    waiting: int | None = None
    in_flight: int | None = None
    backlog: int | None = None
    arrival_rate: float | None = None
    lag_s: float | None = None
    partitions: int | None = None
    exact: bool = True
    committed_known: bool = False
    progress: int = 0


class _Seen(NamedTuple):
    """One partition. ``progress`` is None where the committed offset is unknown."""

    waiting: int | None
    in_flight: int | None
    backlog: int | None
    rate: float | None
    lag_s: float | None
    progress: int | None


_UNKNOWN = _Seen(None, None, None, None, None, None)


def read_offsets(
    offsets: Offsets | None,
    past: tuple[PartitionHistory, ...],
    now: float,
    settings: AnalysisSettings,
    invalid: set[str],
) -> tuple[OffsetFigures, tuple[PartitionHistory, ...]]:
    """The figures at ``now``, and the histories with this reading in them.

    A partition that is left out of a reading makes the sums unknown; left out for longer than the rate window,
    it is taken to be gone.
    """
    at = known(offsets.at, "offsets.at", invalid) if offsets is not None else None
    if offsets is None or at is None or not offsets.partitions:
        return OffsetFigures(), past
    when = (at, max(now, at))
    usual = read_usual(offsets.partitions, past, when, settings)
    if usual is not None:
        return _summed(usual[0], at, len(past), exact=offsets.exact), usual[1]
    before: dict[Key, PartitionHistory] = {(each.topic, each.partition): each for each in past}
    seen, histories = [], []
    for reading in offsets.partitions:
        key = (reading.topic, reading.partition)
        history = before.get(key) or PartitionHistory(*key)
        one, history = _read_partition(reading, history, when, settings, invalid)
        seen.append(one)
        histories.append(history)
    present = {(each.topic, each.partition) for each in histories}
    absent = _absent([each for key, each in before.items() if key not in present], at, settings.rate_window_s)
    seen += [_UNKNOWN] * len(absent)
    return _figures(seen, at, exact=offsets.exact), (*histories, *absent)


def _summed(sums: Sums, at: float, partitions: int, *, exact: bool) -> OffsetFigures:
    return OffsetFigures(
        at=at,
        waiting=sums.waiting,
        in_flight=sums.in_flight,
        backlog=sums.backlog,
        arrival_rate=sums.arrival_rate,
        lag_s=sums.lag_s,
        partitions=partitions,
        exact=exact,
        committed_known=True,
        progress=sums.progress,
    )


def _figures(seen: list[_Seen], at: float, *, exact: bool) -> OffsetFigures:
    waiting, in_flight, backlog, rate, lag_s, progress = zip(*seen, strict=True)
    return OffsetFigures(
        at=at,
        waiting=total(waiting),
        in_flight=total(in_flight),
        backlog=total(backlog),
        arrival_rate=total(rate),
        lag_s=largest(lag_s),
        partitions=len(seen),
        exact=exact,
        committed_known=None not in progress,
        progress=sum(filter(None, progress)),
    )


def _absent(missing: list[PartitionHistory], at: float, patience_s: float) -> list[PartitionHistory]:
    kept = []
    for past in missing:
        since = at if past.absent_since is None else past.absent_since
        if at - since <= patience_s:
            kept.append(PartitionHistory(past.topic, past.partition, past.times, past.latest, past.committed, since))
    return kept


def _read_partition(
    reading: PartitionOffsets,
    past: PartitionHistory,
    when: tuple[float, float],
    settings: AnalysisSettings,
    invalid: set[str],
) -> tuple[_Seen, PartitionHistory]:
    """One partition; ``when`` is the time of the reading and the time at which its records' age is asked."""
    at, now = when
    latest = known(reading.latest, "offsets.latest", invalid)
    planned = known(reading.planned, "offsets.planned", invalid)
    committed = known(reading.committed, "offsets.committed", invalid)
    end = _end(latest, planned, committed, past, invalid)
    times, counts = past.times, past.latest
    if latest is not None:
        times, counts = extended(times, counts, at, latest)
    rate = None if latest is None else _rate(times, counts, settings.rate_window_s)
    lag_s = _lag(times, counts, committed, end, now)
    last = past.committed if committed is None else committed
    if times:
        since, behind = times[-1] - settings.rate_window_s, -1 if last is None else last
        times, counts = thinned(times, counts, since=since, behind=behind, most=settings.max_samples)
    history = PartitionHistory(past.topic, past.partition, times, counts, last)
    waiting, in_flight = _split(end, planned, committed)
    backlog = None if end is None or committed is None else end - committed
    return _Seen(waiting, in_flight, backlog, rate, lag_s, _progress(committed, past.committed)), history


def _end(
    latest: int | None, planned: int | None, committed: int | None, past: PartitionHistory, invalid: set[str]
) -> int | None:
    """How many records are known to have arrived.

    Positions are not all read at one instant: a batch planned or ended in between reaches beyond ``latest``, and
    what it reaches has arrived. But a committed offset beyond ``latest`` that has not moved since the last
    observation, or a ``latest`` that fell, belongs to another topic than the one that is there now: impossible.
    """
    if latest is None or committed is None:
        return None
    if committed > latest:
        moved = past.committed is not None and committed > past.committed
        if not moved or (past.latest and latest < past.latest[-1]):
            invalid.add("offsets.committed")
            return None
    return max(latest, committed, planned or 0)


def _split(end: int | None, planned: int | None, committed: int | None) -> tuple[int | None, int | None]:
    """Records waiting, and in flight."""
    if end is None or planned is None or committed is None:
        return None, None
    reached = max(planned, committed)
    return end - reached, reached - committed


def _progress(committed: int | None, before: int | None) -> int | None:
    """Records committed since the observation before; a position that fell back counts as none."""
    if committed is None:
        return None
    return 0 if before is None else max(0, committed - before)


def _rate(times: tuple[float, ...], counts: tuple[int, ...], window_s: float) -> float | None:
    """(A(t) − A(t − window)) ÷ window at the last sample t, over what there is if the curve is shorter."""
    if len(times) < 2:
        return None
    start = max(times[0], times[-1] - window_s)
    return (counts[-1] - arrived(times, counts, start)) / (times[-1] - start)


def _lag(
    times: tuple[float, ...], counts: tuple[int, ...], committed: int | None, end: int | None, now: float
) -> float | None:
    """The age now − A⁻¹(committed); 0 when nothing is uncommitted; None before two samples.

    Where the committed offset lies before the oldest sample, this is the age of that sample: a lower bound.
    """
    if committed is None or end is None or len(times) < 2:
        return None
    return 0.0 if end <= committed else max(0.0, now - arrival_time(times, counts, committed))
