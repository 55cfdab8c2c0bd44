"""Increases that bring less than they promise: found, undone once, and remembered with their cause.

An increase is on *trial* where the number before was at its limit: records were left over, batches ran back to back or
were as large as their cap allows, and the rate was measured on warm batches. It promises the rate before × (after ÷
before − 1) on top. Then warm batches at the new number are looked at, four of them at least, and the best counts:

* nothing is left over, or the job catches up, or the best rate reached the share of the promise that is asked for: the
  increase did what it was for;
* else something else limits the job. :func:`find_cause` says what, from the most certain to what is left.

An increase during a trial goes on trial together with the one before: what both promised has to come.

A promise that noise could hide (a sixth of the rate; rates of windows differ by a tenth) is not looked at, nor one
that waves of tasks explain: on 7 slots 8 partitions take two waves as on 4, and on 8 slots they take one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from rheostat.analyze.batches import HIGH
from rheostat.decide.partitions import tasks_of_batch, waves
from rheostat.decide.policy import cap_limits
from rheostat.model import Assessment, Outcome

_SAMPLES = 4
_NOISE = 1 / 6
_OTHER = 0.2
"""A rate that differs by more is another one: what limited the job has changed."""
_SETTLED = 2
_WARM = 3
_IN_USE = 0.5


class Cause(StrEnum):
    """What limits a job on which more executors are of no use."""

    CAPPED = "capped batch"
    SINK = "sink"
    PARALLELISM = "useful parallelism reached"
    PARTITION = "one partition"
    DRIVER = "driver"
    BROKER = "broker"


class Trial(NamedTuple):
    """An increase whose effect is looked at.

    Attributes:
        rate: records/s before.
        best: the highest rate since, on warm batches.
        samples: batches looked at.
        batches: how many had finished at the last look.
    """

    before: int
    after: int
    at: float
    rate: float
    best: float = 0.0
    samples: int = 0
    batches: int = 0


class Useless(NamedTuple):
    """An increase that brought nothing.

    Attributes:
        at: when that was found.
        rate: the highest rate that it reached, records/s.
        promised: the rate that it promised.
        undone: whether it has been taken back, or need not be any more.
    """

    before: int
    after: int
    at: float
    rate: float
    promised: float
    before_rate: float
    cause: Cause
    undone: bool = False


def limited_rate(assessment: Assessment) -> float | None:
    """The processed rate, if the job is at its limit and warm; else None."""
    return assessment.processed_rate if _is_limited(assessment) and assessment.batches >= _SETTLED else None


def _is_limited(assessment: Assessment) -> bool:
    """Whether records are left over although batches run back to back, or are as large as their cap allows."""
    if assessment.missing or assessment.invalid or not assessment.backlog_excess:
        return False
    batch_s, trigger_s = assessment.batch_s, assessment.trigger_s
    return bool(assessment.capped) or (batch_s is not None and trigger_s is not None and batch_s >= trigger_s)


def start_trial(before: int, after: int, at: float, rate: float | None, share: float | None) -> Trial | None:
    """A trial of this increase; None where nothing could be said of it.

    >>> start_trial(2, 3, 0.0, 800.0, 0.3)
    Trial(before=2, after=3, at=0.0, rate=800.0, best=0.0, samples=0, batches=0)
    >>> start_trial(6, 7, 0.0, 800.0, 0.3) is None
    True
    """
    if share is None or not rate or not 0 < before < after:
        return None
    missing_share = (1 - share) * (after / before - 1)
    return Trial(before, after, at, rate) if missing_share >= _NOISE else None


def judge_trial(trial: Trial, assessment: Assessment, share: float, patience_s: float) -> Trial | Useless | None:
    """What this sample says of a trial: it goes on, the increase is useless, or (None) the trial is over.

    Only samples at ``trial.after`` executors count. ``share``: of the promise that has to be kept, in (0, 1]. A trial
    that takes longer than ``patience_s`` says nothing.
    """
    if assessment.at - trial.at > patience_s or assessment.backlog_excess == 0:
        return None
    rate, falls_behind = assessment.processed_rate, _is_limited(assessment) and assessment.draining is False
    if rate is None or not falls_behind or assessment.executors != trial.after:
        return trial
    if assessment.batches <= max(_WARM, trial.batches):
        return trial
    trial = trial._replace(best=max(trial.best, rate), samples=trial.samples + 1, batches=assessment.batches)
    promised = trial.rate * (trial.after / trial.before - 1)
    if trial.best >= trial.rate + share * promised:
        return None
    if trial.samples < _SAMPLES:
        return trial
    cause = find_cause(assessment, trial)
    if cause is None:
        return None
    return Useless(
        before=trial.before,
        after=trial.after,
        at=assessment.at,
        rate=trial.best,
        promised=trial.rate + promised,
        before_rate=trial.rate,
        cause=cause,
    )


def find_cause(assessment: Assessment, trial: Trial) -> Cause | None:
    """What limits the job, from the most certain to what is left; None: a further wave of tasks does, or nobody knows.

    *Capped batch*: batches are full and end before their trigger. *Sink*: it is sick. *Useful parallelism*: the slots
    before had a task each. *One partition*: the largest is so large that this many slots are as fast as more. *Driver*:
    its part of the batch, or slots that idle while batches run back to back. *Broker*: the slots are in use, and yet
    all of them together are no faster: what they share limits them, and the sink is healthy.
    """
    slots = assessment.slots_per_executor or 1
    if cap_limits(assessment):
        return Cause.CAPPED
    if assessment.sink is not None:
        return Cause.SINK
    if assessment.useful_executors is not None and assessment.useful_executors <= trial.before:
        return Cause.PARALLELISM
    tasks, skew = tasks_of_batch(assessment), assessment.skew
    if tasks and tasks == assessment.partitions and skew and skew > 1 and tasks / skew <= trial.before * slots:
        return Cause.PARTITION
    if tasks and waves(tasks, trial.before * slots) == waves(tasks, trial.after * slots):
        return None
    if assessment.pressure is not None and assessment.pressure <= HIGH:
        return Cause.DRIVER
    if assessment.busy_ratio is None:
        return None
    return Cause.BROKER if assessment.busy_ratio >= _IN_USE else Cause.DRIVER


def update_useless(useless: Useless, assessment: Assessment, current: int, memory_s: float) -> Useless | None:
    """What is remembered of a useless increase at this sample.

    It is forgotten after ``memory_s``; when its cause is gone (a sink that was sick is healthy again, batches are no
    longer full); and when the rate of a job at its limit differs by more than a fifth from what it was, in either
    direction: less, and the executors were of use after all; more, and the limit has risen.
    """
    if assessment.at - useless.at >= memory_s or _is_gone(useless.cause, assessment):
        return None
    if assessment.executors == current and _differs(useless, assessment):
        return None
    if useless.undone or (current == useless.after and assessment.backlog_excess != 0):
        return useless
    return useless._replace(undone=True)


def _differs(useless: Useless, assessment: Assessment) -> bool:
    rate, known = limited_rate(assessment), (useless.before_rate, useless.rate)
    if rate is None or assessment.batches <= _WARM:
        return False
    return rate > (1 + _OTHER) * max(known) or rate < (1 - _OTHER) * min(known)


def _is_gone(cause: Cause, assessment: Assessment) -> bool:
    if cause is Cause.SINK:
        return assessment.sink is None and not assessment.missing
    return cause is Cause.CAPPED and assessment.capped is False


# What a change of the number of executors costs: measured, and its part in the size and in the choice to wait.


_MEMORY = 8


class Cost(NamedTuple):
    """Means over the last eight changes or so, s.

    Attributes:
        changes: how many are in it, at most eight.
        cold_s: None: not measured yet.
    """

    changes: int
    delay_s: float
    pause_s: float
    cold_s: float | None = None

    @property
    def blocked_s(self) -> float:
        """Time in which nothing is processed, pause and cold batch together."""
        return self.pause_s + (self.cold_s or 0.0)


class Cold(NamedTuple):
    """A change whose first batches are looked at.

    Attributes:
        first_s: duration of the first batch; None: it has not ended.
    """

    up: bool
    first_s: float | None = None


def lag_after(lag: float, arriving: float, processed: float, delay_s: float, blocked_s: float) -> float:
    """lag₁: records that wait when the change is done.

    >>> lag_after(100_000, arriving=1000, processed=800, delay_s=30, blocked_s=60)
    166000
    """
    return max(0.0, lag + (arriving - processed) * delay_s) + arriving * blocked_s


def required_rate(arriving: float, lag: float, threshold: float, catch_up_s: float) -> float:
    """Records/s that bring the lag under the threshold within the catch-up time, never less than what arrives.

    >>> required_rate(1000, lag=166_000, threshold=30_000, catch_up_s=170)
    1800.0
    """
    return arriving + max(0.0, lag - threshold) / catch_up_s


def update_cost(cost: Cost | None, outcome: Outcome) -> Cost | None:
    """The means with one more change, from its outcome; the same where it does not tell how long it took."""
    if outcome.took_s is None:
        return cost
    waited_s = min(outcome.waited_s or 0.0, outcome.took_s)
    delay_s, pause_s = (waited_s, outcome.took_s - waited_s) if outcome.method == "restart" else (outcome.took_s, 0.0)
    if cost is None:
        return Cost(1, delay_s, pause_s)
    changes = min(cost.changes + 1, _MEMORY)
    return Cost(changes, _mean(cost.delay_s, delay_s, changes), _mean(cost.pause_s, pause_s, changes), cost.cold_s)


def update_cold(cold: Cold, cost: Cost | None, assessment: Assessment) -> tuple[Cold | None, Cost | None]:
    """What this sample says of the first batches after a change: what is looked at further, and the means.

    A first batch that was not seen, because the next one ended before the sample, says nothing.
    """
    if cost is None or assessment.last_batch_s is None or assessment.missing:
        return cold, cost
    if cold.first_s is None:
        if assessment.batches == 0:
            return cold, cost
        return (cold._replace(first_s=assessment.last_batch_s) if assessment.batches == 1 else None), cost
    if assessment.batches < _WARM:
        return cold, cost
    longer_s = max(0.0, cold.first_s - assessment.last_batch_s)
    mean = longer_s if cost.cold_s is None else _mean(cost.cold_s, longer_s, cost.changes)
    return None, cost._replace(cold_s=mean)


def describe_cost(cost: Cost) -> str:
    """The cost in words.

    >>> describe_cost(Cost(3, 4.0, 0.0, 2.5))
    'a change takes 4.0 s to come, then 2.5 s of work'
    """
    return f"a change takes {cost.delay_s:.1f} s to come, then {cost.blocked_s:.1f} s of work"


def _mean(mean: float, new: float, count: int) -> float:
    return mean + (new - mean) / count
