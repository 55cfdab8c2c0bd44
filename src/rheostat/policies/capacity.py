"""What so many executors carry, learned from what was seen: S1 Algorithm 1, as printed and corrected.

As printed (``learn_from="arrival"``) one figure is kept, ``w_max``: the running mean of arrival ÷ n over overloaded
samples. With a true capacity of 1000/s and a load of 5000/s it reads 2604 after four violations.

Corrected (``learn_from="processed"``), what is learned is the *busy rate*, the records of a second in which a batch
runs (:func:`busy_rate`). A batch has a fixed part, so this is a lower bound of the capacity while batches are shorter
than τ, and close to it once they are long. It is kept *for each number* of executors: two of them carry more than two
sixths of what six carry. And a figure that a later one contradicts is *forgotten*.

* A sample above the limit *measures* the number in force if the batch is long (τ ÷ 2 or more, or as large as the batch
  cap allows) and the slots are in use (busy ratio 0.5 or more, or unknown): a stall is no lack of executors. Whether
  the job falls behind or catches up is no matter. A higher rate is believed at once, a lower one enters the mean, in
  which the past weighs at most ``memory`` samples.
* Three healthy samples in a row that agree within a tenth *show* that the number in force carries at least the least of
  them. This raises what is known, and never lowers it. Where nothing is known it begins the figures, if the slots are
  in use; so does any sample above the limit. Until there are figures, increases go by the highest busy rate that one
  executor has shown (``shown``).
* Beside a new figure C at n, those at n' are kept that can be true: with n' > n from C to 2 C × n' ÷ n, with n' < n
  from C × n' ÷ n ÷ 2 to C (waves of tasks explain a factor of two). A lower bound for n' < n must be C × n' ÷ n, for
  else C says more of n' than itself. A new lower bound forgets only what is too low.

Between two figures the capacity is a straight line, beyond them it is in proportion to n. Nothing is learned from a
number that has not settled, nor where the batch cap and not the executors limits the rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from rheostat.decide.policy import cap_limits
from rheostat.model import Assessment

Measure = Literal["tasks", "batches"]

_IN_A_ROW = 3
_IN_USE = 0.5
_LONG = 0.5
_WAVES = 2.0
_NOISE = 1.1
"""Rates whose ratio is up to this are the same."""
_ROUNDING = 1e-9
_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Figure:
    """What a number of executors carries.

    Attributes:
        rate: records/s of all of them together.
        samples: how many measurements are in it; 0: it is a lower bound.
        at: when it was last learned.
    """

    executors: int
    rate: float
    samples: int
    at: float


@dataclass(frozen=True, slots=True)
class Learned:
    """What is known of the capacity.

    Attributes:
        w_max: mean of arrival ÷ n over overloaded samples, records/s; as printed, else unused.
        samples: how many entered it.
        figures: what was learned, by ascending number of executors; empty: the capacity is unknown.
        shown: highest busy rate ÷ n so far, records/s for one executor: a lower bound.
        recent: busy rates of the last healthy samples in a row, at most three.
    """

    w_max: float | None = None
    samples: int = 0
    figures: tuple[Figure, ...] = ()
    shown: float | None = None
    recent: tuple[float, ...] = ()

    def carried(self, executors: int) -> float | None:
        """Records/s that so many carry, on the line through the figures; None without any.

        >>> Learned(figures=(Figure(2, 200.0, 1, 0.0), Figure(6, 480.0, 1, 0.0))).carried(4)
        340.0
        """
        below = (0, 0.0)
        for figure in self.figures:
            if executors <= figure.executors:
                return _between(below, (figure.executors, figure.rate), executors)
            below = (figure.executors, figure.rate)
        return below[1] * executors / below[0] if self.figures else None

    def enough(self, rate: float) -> int | None:
        """The smallest n ≥ 1 that carries ``rate``; None without any figure.

        >>> Learned(figures=(Figure(2, 200.0, 1, 0.0), Figure(6, 480.0, 1, 0.0))).enough(340.0)
        4
        """
        if not self.figures or rate <= 0:
            return 1 if self.figures else None
        below = (0, 0.0)
        for figure in self.figures:
            if below[1] < rate <= figure.rate:
                share = (rate - below[1]) / (figure.rate - below[1])
                return max(1, math.ceil(below[0] + share * (figure.executors - below[0]) - _ROUNDING))
            below = (figure.executors, figure.rate)
        return max(below[0], needed(rate, below[1] / below[0]))

    def figure(self, executors: int) -> Figure | None:
        """What was learned at exactly this number."""
        return next((each for each in self.figures if each.executors == executors), None)


def from_arrival(assessment: Assessment, learned: Learned, memory: int | None) -> Learned:
    """Algorithm 1 as printed: an overload at arrival w with n executors says w ÷ n."""
    if not assessment.arrival_rate or not assessment.executors:
        return learned
    mean = _mean(learned.w_max or 0.0, learned.samples, assessment.arrival_rate / assessment.executors, memory)
    return replace(learned, w_max=mean, samples=learned.samples + 1)


def from_overload(assessment: Assessment, learned: Learned, memory: int | None) -> Learned:
    """Algorithm 1 corrected: what a sample above the limit measures, or shows where nothing is known."""
    learned, rate, n = replace(learned, recent=()), busy_rate(assessment), assessment.executors
    if not rate or not n or cap_limits(assessment):
        return learned
    if not (_in_use(assessment) and _long(assessment)):
        return learned if learned.figures else _raised(learned, n, rate, assessment)
    before = learned.figure(n)
    count = 0 if before is None else before.samples
    mean = rate if before is None or rate >= before.rate else _mean(before.rate, count, rate, memory)
    return _with(learned, Figure(n, mean, count + 1, assessment.at))


def from_healthy(assessment: Assessment, learned: Learned) -> Learned:
    """What three healthy samples in a row show, if they agree."""
    rate = busy_rate(assessment) if assessment.backlog_excess == 0 else None
    if not rate or not assessment.executors:
        return replace(learned, recent=())
    recent = (*learned.recent, rate)[-_IN_A_ROW:]
    learned = replace(learned, recent=recent)
    if len(recent) < _IN_A_ROW or max(recent) > _NOISE * min(recent):
        return learned
    return _raised(learned, assessment.executors, min(recent), assessment)


def busy_rate(assessment: Assessment) -> float | None:
    """Records of a second in which a batch runs: processed × max(trigger, batch) ÷ batch; None where unknown.

    The rate is a mean over a window, the batch is the last one, so it misleads while either changes.

    >>> busy_rate(Assessment(at=0.0, processed_rate=600.0, batch_s=4.0, trigger_s=10.0))
    1500.0
    """
    batch_s = _batch_s(assessment)
    if not assessment.processed_rate or not batch_s:
        return None
    return assessment.processed_rate * max(assessment.trigger_s or 0.0, batch_s) / batch_s


def _batch_s(assessment: Assessment) -> float | None:
    """Duration of the last finished batch; where that is unknown, of the one that ``batch_s`` means."""
    return assessment.batch_s if assessment.last_batch_s is None else assessment.last_batch_s


def _in_use(assessment: Assessment) -> bool:
    """Whether the slots are in use, so that the fixed part of a batch is the lesser part."""
    return assessment.busy_ratio is None or assessment.busy_ratio >= _IN_USE


def _long(assessment: Assessment) -> bool:
    """Whether the last batch is so long, or as large as the cap allows, that its rate is the capacity."""
    batch_s = _batch_s(assessment)
    return bool(assessment.capped) or (batch_s is not None and batch_s >= _LONG * (assessment.period_s or math.inf))


def _raised(learned: Learned, executors: int, rate: float, assessment: Assessment) -> Learned:
    """The same with a lower bound: a figure that lies under it is raised to it."""
    learned = replace(learned, shown=max(rate / executors, learned.shown or 0.0))
    known, before = learned.carried(executors), learned.figure(executors)
    if rate <= (known or 0.0) or (known is None and not _in_use(assessment)):
        return learned
    return _with(learned, Figure(executors, rate, 0 if before is None else before.samples, assessment.at))


def _with(learned: Learned, new: Figure) -> Learned:
    """The same with a new figure, without those that cannot be true beside it."""
    kept = [each for each in learned.figures if _compatible(each, new)]
    return replace(learned, figures=tuple(sorted([*kept, new], key=lambda each: each.executors)))


def _compatible(other: Figure, new: Figure) -> bool:
    """Whether both can be true.

    More executors carry no less, and each of them no more, up to waves of tasks; a lower bound yields to a better one.
    """
    share, ratio = other.executors / new.executors, other.rate / new.rate
    if share == 1:
        return False
    waves = _WAVES if other.samples else 1.0
    least, most = (1 / _NOISE, share * _WAVES) if share > 1 else (share / waves, _NOISE)
    return ratio >= least and (ratio <= most or not new.samples)


def _mean(mean: float, samples: int, new: float, memory: int | None) -> float:
    weight = samples if memory is None else min(samples, memory - 1)
    return (mean * weight + new) / (weight + 1)


def _between(low: tuple[int, float], high: tuple[int, float], executors: int) -> float:
    return low[1] + (high[1] - low[1]) * (executors - low[0]) / (high[0] - low[0])


def usage(assessment: Assessment) -> float | None:
    """How much of the job is used: the greater of the occupancy and the busy ratio.

    Where the busy ratio is unknown, batch ÷ trigger stands for it: slots are busy only while a batch runs. None where
    neither is known, or the occupancy is not: with short triggers it alone stays low under full load.
    """
    slots = assessment.busy_ratio
    if slots is None and assessment.trigger_s and assessment.batch_s is not None:
        slots = assessment.batch_s / assessment.trigger_s
    return None if slots is None or assessment.occupancy is None else max(slots, assessment.occupancy)


def needed(rate: float, capacity: float) -> int:
    """The smallest n ≥ 1 with n × capacity ≥ rate, up to rounding.

    >>> needed(5000, 1000), needed(5001, 1000), needed(0, 1000)
    (5, 6, 1)
    """
    if rate >= capacity * _MOST:
        return _MOST
    return max(1, math.ceil(rate / capacity - _ROUNDING))


def slow_records(excess: float, arrival_rate: float, interval_s: float) -> float:
    """Late records as a share of those that arrive in T: excess ÷ (arrival rate × T).

    >>> slow_records(300, 200, 15), slow_records(0, 0, 15), slow_records(1, 0, 15)
    (0.1, 0.0, inf)
    """
    if excess <= 0:
        return 0.0
    arrived = arrival_rate * interval_s
    return excess / arrived if arrived > 0 else math.inf


def expected_wait(assessment: Assessment) -> float | None:
    """How long the backlog takes at the speed of the last batches, s; None where that is unknown.

    >>> expected_wait(Assessment(at=0.0, backlog=3000, processed_rate=200.0, batch_s=1.0, trigger_s=2.0))
    7.5
    """
    if assessment.backlog is None or not assessment.processed_rate or not assessment.batch_s:
        return None
    speed = assessment.processed_rate * max(assessment.trigger_s or 0.0, assessment.batch_s) / assessment.batch_s
    return assessment.backlog / speed


def busy_share(assessment: Assessment, measure: Measure) -> float | None:
    """Busy time ÷ time, in [0, 1]; None where it is unknown.

    ``tasks``
        the share of slot time in tasks, over the rate window: what an engine that processes record by record calls
        busy. A micro-batch job does not reach 1: while the driver plans and commits, or a last wave is thin, slots
        are free that no record could use.
    ``batches``
        batch ÷ max(trigger, batch), of the last batch: the share of time in which a batch is worked on. 1 is where
        the next batch cannot start in time.

    >>> seen = Assessment(at=0.0, busy_ratio=0.5, batch_s=6.0, trigger_s=10.0)
    >>> busy_share(seen, "tasks"), busy_share(seen, "batches")
    (0.5, 0.6)
    """
    if measure == "tasks":
        return assessment.busy_ratio
    if not assessment.batch_s:
        return None
    return assessment.batch_s / max(assessment.trigger_s or 0.0, assessment.batch_s)


# How long a change of the number takes, as measured: until the executors are there, and until the job has recovered.


_KEPT = 5


@dataclass(frozen=True, slots=True)
class Recovery:
    """Where the last change stands.

    Attributes:
        executors: the number in force; None: nothing was seen yet.
        since: when it was first seen.
        grew: whether it is more than the one before.
        ready: whether it was ready once.
        recovered: whether the job has recovered from the change, or was waited for long enough.
        took_s: how long the last increases took until they were ready, the latest last; at most five.
    """

    executors: int | None = None
    since: float = 0.0
    grew: bool = False
    ready: bool = False
    recovered: bool = False
    took_s: tuple[float, ...] = ()


def ready(assessment: Assessment, executors: int) -> bool:
    """Whether so many are registered, and have finished a batch."""
    return assessment.executors == executors and assessment.batches >= 1


def followed(assessment: Assessment, executors: int, past: Recovery, hold_s: float) -> Recovery:
    """The recovery as this sample finds it.

    Args:
        assessment: a complete sample.
        executors: the number in force.
        past: as the sample before found it.
        hold_s: how long a recovery is waited for at most.
    """
    if executors != past.executors:
        grew = past.executors is not None and executors > past.executors
        past = Recovery(executors=executors, since=assessment.at, grew=grew, took_s=past.took_s)
    if past.recovered:
        return past
    is_ready = ready(assessment, executors)
    if is_ready and not past.ready:
        took_s = (*past.took_s, assessment.at - past.since)[-_KEPT:] if past.grew else past.took_s
        past = replace(past, ready=True, took_s=took_s)
    calm = past.ready and is_ready and assessment.backlog_excess == 0
    return replace(past, recovered=calm or assessment.at - past.since >= hold_s)


def rescale_s(past: Recovery) -> float:
    """The longest of the last increases, s; 0 before the first.

    >>> rescale_s(Recovery(took_s=(15.0, 45.0, 30.0)))
    45.0
    """
    return max(past.took_s, default=0.0)
