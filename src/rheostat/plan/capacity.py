"""What one executor carries, learned from what was seen: S1 Algorithm 1, corrected.

Two figures are kept, both in records/s for one executor:

``w_max``
    the running mean over overloaded samples. With ``learn_from="arrival"``, the document's rule, of arrival ÷ n: with a
    true capacity of 1000/s and a load of 5000/s it reads 2604 after four violations. With ``learn_from="processed"``
    of min(arrival, processed) ÷ n. ``memory`` limits the weight of the past to so many samples.

``shown``
    the highest rate that an executor has shown since the last overload, that one included. A first sample from a cold
    phase is far too low, and with the mean alone the job would stay too large for ever. Three sources raise it:

    * an overloaded sample sets it to processed ÷ n;
    * a sample above the limit in which more is processed than arrives (the job catches up) shows no lack of capacity:
      it does not enter the mean, it raises ``shown`` to processed ÷ n;
    * of three healthy samples in a row, the least of ``min(arrival, processed) × max(trigger, batch) ÷ batch ÷ n``,
      the records of a busy second. The fixed part of a batch makes this an estimate from below.

The capacity of an executor is max(w_max, shown). Nothing is learned from a job that has not settled at its number,
nor where the batch cap and not the executors limits the rate. Until the first overload the capacity is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rheostat.model import Assessment

__all__ = ["Learned", "cap_limits", "from_arrival", "from_healthy", "from_overload", "needed", "usage"]

_IN_A_ROW = 3
_ROUNDING = 1e-9
_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Learned:
    """What is known about one executor.

    Attributes:
        w_max: mean over overloaded samples, records/s.
        samples: how many entered it.
        shown: highest rate shown since the last overload, records/s.
        recent: estimates of the last healthy samples in a row, at most three.
    """

    w_max: float | None = None
    samples: int = 0
    shown: float | None = None
    recent: tuple[float, ...] = ()

    @property
    def capacity(self) -> float | None:
        """Records/s that one executor carries; None until an overload was seen."""
        return None if self.w_max is None else max(self.w_max, self.shown or 0.0)


def from_arrival(seen: Assessment, learned: Learned, memory: int | None) -> Learned:
    """Algorithm 1 as printed: an overload at arrival w with n executors says w ÷ n."""
    if not seen.arrival_rate or not seen.executors:
        return learned
    return _with_sample(learned, seen.arrival_rate / seen.executors, memory)


def from_overload(seen: Assessment, learned: Learned, memory: int | None) -> Learned:
    """Algorithm 1 corrected: an overload says min(w, processed) ÷ n, unless the job is catching up."""
    learned = replace(learned, recent=())
    if not seen.processed_rate or not seen.executors or seen.arrival_rate is None or cap_limits(seen):
        return learned
    rate = seen.processed_rate / seen.executors
    if seen.processed_rate > seen.arrival_rate:
        return replace(learned, shown=max(rate, learned.shown or 0.0))
    return replace(_with_sample(learned, rate, memory), shown=rate)


def from_healthy(seen: Assessment, learned: Learned) -> Learned:
    """Raise ``shown`` to what three healthy samples in a row agree on."""
    rate = _busy_rate(seen)
    if rate is None:
        return replace(learned, recent=())
    recent = (*learned.recent, rate)[-_IN_A_ROW:]
    if len(recent) < _IN_A_ROW:
        return replace(learned, recent=recent)
    return replace(learned, recent=recent, shown=max(min(recent), learned.shown or 0.0))


def _with_sample(learned: Learned, rate: float, memory: int | None) -> Learned:
    weight = learned.samples if memory is None else min(learned.samples, memory - 1)
    mean = ((learned.w_max or 0.0) * weight + rate) / (weight + 1)
    return replace(learned, w_max=mean, samples=learned.samples + 1)


def _busy_rate(seen: Assessment) -> float | None:
    """Records per busy second and executor: min(arrival, processed) × max(trigger, batch) ÷ batch ÷ n."""
    if not seen.processed_rate or not seen.arrival_rate or not seen.batch_s or not seen.executors:
        return None
    if seen.backlog_excess != 0:
        return None
    busy = seen.batch_s / max(seen.trigger_s or 0.0, seen.batch_s)
    return min(seen.arrival_rate, seen.processed_rate) / busy / seen.executors


def cap_limits(seen: Assessment) -> bool:
    """Whether the batch cap limits the rate: batches are full, and yet end before the next trigger."""
    return bool(seen.capped and seen.trigger_s and seen.batch_s and seen.batch_s < 0.9 * seen.trigger_s)


def usage(seen: Assessment) -> float | None:
    """How much of the job's time is used: the greatest of batch ÷ trigger, busy ratio and occupancy.

    None where only the occupancy is known: with short triggers it stays low under full load.
    """
    by_time = [*_by_trigger(seen), *([] if seen.busy_ratio is None else [seen.busy_ratio])]
    return max([*by_time, seen.occupancy or 0.0]) if by_time else None


def _by_trigger(seen: Assessment) -> Iterator[float]:
    if seen.trigger_s and seen.batch_s is not None:
        yield seen.batch_s / seen.trigger_s


def needed(rate: float, capacity: float) -> int:
    """The smallest n ≥ 1 with n × capacity ≥ rate, up to rounding.

    >>> needed(5000, 1000), needed(5001, 1000), needed(0, 1000)
    (5, 6, 1)
    """
    if rate >= capacity * _MOST:
        return _MOST
    return max(1, math.ceil(rate / capacity - _ROUNDING))
