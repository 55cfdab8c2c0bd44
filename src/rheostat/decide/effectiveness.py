"""Increases that bring less than they promise: found, undone once, and remembered with their cause.

An increase is on *trial* where the number before had settled. That number carries at least the rate at which it
processed, and the increase promises this rate × (after ÷ before − 1) on top. Then warm batches at the new number are
looked at while the job falls further behind, or only catches up with what the number before would catch up with too.
The best of them counts:

* the best rate reached the share of the promise that is asked for, or the job is healthy: the increase did what it was
  for;
* the gain, though small, leads to what arrives: if it went on like this up to the greatest number, that would carry the
  load. Then executors are dear, not useless, and nothing is said yet;
* else something else limits the job. :func:`find_cause` says what, from the most certain to what is left.

An increase during a trial is judged with the one before, against the same settled number: what all promised has to
come. A promise that noise could hide (a sixth of the rate; rates of windows differ by a tenth) is neither kept nor
broken: increases of one from a large number are judged once they promise enough together. Nor is one judged that waves
of tasks explain: on 7 slots 8 partitions take two waves as on 4, and on 8 slots they take one.

What is found useless is not tried again for a time that doubles each time in a row, until the limit has changed.
"""

from __future__ import annotations

from enum import StrEnum
from math import ceil, log
from typing import NamedTuple

from rheostat.analyze.assess import COUNTS, IN_USE, MOST
from rheostat.analyze.batches import DRIVEN, HIGH
from rheostat.config.models import GuardSettings
from rheostat.decide.partitions import tasks_of_batch, waves
from rheostat.decide.policy import SETTLED, cap_limits, is_warm
from rheostat.decide.rates import batch_rate, last_batch_s, window_rate
from rheostat.model import Assessment, Outcome

_SAMPLES = 4
_FEW_SAMPLES = 2
_CLEAR = 0.5
"""A promise of which so much of the rate before is missing is judged on few samples."""
_NOISE = 1 / 6
_ALIKE = 1.25
"""The rate of one batch differs from that of the window by so much; by more where the job has changed."""
_SAME = 1.1
"""Rates whose ratio is at most this count as equal."""
_OTHER = 0.2
"""A rate that differs by more is another one: what limited the job has changed."""
_FULL = 0.9
"""Share of τ that batches may take on the way back: what varies is in the rest."""
_ROUNDING = 1e-9
_WARM = 4
_STEPS = 8
_PATIENCE = 8
"""Batches that a trial may take, where they are long."""


class Cause(StrEnum):
    """What limits a job on which more executors are of no use."""

    CAPPED = "capped batch"
    SINK = "sink"
    PARALLELISM = "useful parallelism reached"
    PARTITION = "one partition"
    DRIVER = "driver"
    BROKER = "broker"
    GARBAGE = "garbage collection"
    REREAD = "data read anew"
    STRAGGLER = "single tasks that take long"


class Trial(NamedTuple):
    """An increase, or several in a row, whose effect is looked at.

    Attributes:
        before: the last number that had settled.
        at: the last increase.
        rate: records/s at the number before; 0: unknown, and only a sick sink or a busy driver says something.
        best: the highest rate since, on warm batches.
        samples: batches looked at.
        batches: how many had finished at the last look.
        early: rates of the last batches that ended while the number was growing, each for the number that it began on.
        warm: rates of the last batches at the number.
        steps: each number so far, and the id of the first batch that began on it.
        batch_id: the last of these batches.
        first: the first number of more executors that was seen at work, and its rate; None: none yet.
    """

    before: int
    after: int
    at: float
    rate: float
    best: float = 0.0
    samples: int = 0
    batches: int = 0
    early: tuple[float, ...] = ()
    warm: tuple[float, ...] = ()
    steps: tuple[tuple[int, int], ...] = ()
    batch_id: int | None = None
    first: tuple[int, float] | None = None


class Useless(NamedTuple):
    """An increase that brought nothing.

    Attributes:
        at: when that was found, or when it was taken back.
        rate: the highest rate that it reached, records/s.
        promised: the rate that it promised.
        undone: whether it has been taken back, or need not be any more.
        back: the number up to which executors helped, to which it is taken back; None: the number before.
        measured: whether ``before_rate`` is that of the job at its limit, after the way back.
        backoff_s: how long no other increase follows; None: as the settings say.
        doubts: batches in a row whose rate says that the limit has changed.
        batches: how many had finished at the last of them.
    """

    before: int
    after: int
    at: float
    rate: float
    promised: float
    before_rate: float
    cause: Cause
    undone: bool = False
    back: int | None = None
    measured: bool = False
    backoff_s: float | None = None
    doubts: int = 0
    batches: int = 0

    @property
    def helped(self) -> int:
        """The number up to which executors helped."""
        return self.before if self.back is None else self.back

    def wait_s(self, at: float, settings: GuardSettings) -> float:
        """How long no increase follows yet, s; 0 or less: one may."""
        return self.at + (settings.ineffective_s if self.backoff_s is None else self.backoff_s) - at

    def taken_back(self, at: float) -> Useless:
        return self._replace(undone=True, at=at)


def settled_rate(assessment: Assessment) -> float | None:
    """Records/s that the registered executors carry at least while their tasks run, once they have settled; else None.

    Over the window where the last batch was about as fast, else that of this batch: the window then reaches back to
    another load, or to records of another cost.
    """
    rates = _rates(assessment)
    if not rates or not is_warm(assessment):
        return None
    return rates[0] if rates[0] / _ALIKE <= rates[-1] <= rates[0] * _ALIKE else rates[-1]


def limited_rate(assessment: Assessment) -> float | None:
    """Records/s while tasks run, over the window, if the job is at its limit and settled; else None."""
    rates = _rates(assessment) if _is_limited(assessment) and is_warm(assessment) else []
    return rates[0] if rates else None


def _rates(assessment: Assessment) -> list[float]:
    """Records/s while tasks run, over the window and in the last batch alone; empty: unknown.

    Where the part of the tasks is not known, the whole batch counts.
    """
    over_window, in_batch, batch_s = window_rate(assessment), batch_rate(assessment), last_batch_s(assessment)
    part_s = batch_s if assessment.queries > 1 or not assessment.work_s else assessment.work_s
    if assessment.missing or assessment.invalid or over_window is None or not batch_s or not part_s:
        return []
    return [rate * batch_s / part_s for rate in (over_window, in_batch) if rate is not None]


def _is_limited(assessment: Assessment) -> bool:
    """Whether records are left over although batches run back to back, or are as large as their cap allows."""
    if assessment.missing or assessment.invalid or not assessment.backlog_excess:
        return False
    batch_s, trigger_s = assessment.batch_s, assessment.trigger_s
    return bool(assessment.capped) or (batch_s is not None and trigger_s is not None and batch_s >= trigger_s)


def start_trial(before: int, after: int, at: float, rate: float | None, share: float | None) -> Trial | None:
    """A trial of this increase; None where nothing could be said of it.

    >>> start_trial(2, 3, 0.0, 800.0, 0.3) == Trial(before=2, after=3, at=0.0, rate=800.0)
    True
    """
    return Trial(before, after, at, rate or 0.0) if share is not None and 0 < before < after else None


def judge_trial(
    trial: Trial, assessment: Assessment, share: float, patience_s: float, most: int | None = None
) -> Trial | Useless | None:
    """What this sample says of a trial: it goes on, the increase is useless, or (None) the trial is over.

    Only samples at ``trial.after`` executors count. ``share``: of the promise that has to be kept, in (0, 1]. A trial
    that takes longer than ``patience_s``, and than eight batches, says nothing. While the sink or the driver delays the
    batches, more records than before are no merit of the executors. ``most``: the greatest number allowed.
    """
    batch_s, missing = assessment.last_batch_s or 0.0, _missing(trial.before, trial.after, share)
    late = assessment.at - trial.at > max(patience_s, _PATIENCE * batch_s) and missing >= _NOISE
    settled = assessment.executors == trial.after and is_warm(assessment)
    if late or (settled and _is_healthy(assessment)):
        return None
    trial = _note_step(trial, assessment)
    rates, elsewhere = _rates(assessment), assessment.sink is not None or assessment.driver is not None
    counts = elsewhere or (_is_limited(assessment) and _would_drain_alike(assessment, trial))
    number = _find_number_shown(trial, assessment, share) if rates and counts else None
    if number is None or (number < trial.after and (elsewhere or len(rates) < 2)):
        return trial
    missing, promised = _missing(trial.before, number, share), number / trial.before - 1
    if number < trial.after:
        trial = trial._replace(early=(*trial.early, rates[-1])[-_SAMPLES:], batch_id=assessment.last_batch_id)
        judged = trial._replace(after=number, best=max(trial.early), samples=len(trial.early))
    else:
        warm = (*trial.warm, rates[-1])[-_SAMPLES:]
        best = max(trial.best, rates[0], rates[-1] if missing >= _CLEAR else 0.0)
        trial = trial._replace(best=best, warm=warm, samples=trial.samples + 1, batches=assessment.batches)
        mean = sum(warm) / _SAMPLES if len(warm) == _SAMPLES else 0.0  # the window may reach back to cold batches
        judged = trial._replace(best=max(best, mean))
    if not trial.rate and not elsewhere:
        return trial
    if trial.first is None:
        trial = trial._replace(first=(number, rates[-1]))
    if not elsewhere and _has_changed(trial, number, judged.best):
        return None
    brought = judged.best / trial.rate - 1 if trial.rate else 0.0
    if brought >= max(share * promised, _NOISE) and not elsewhere:
        return None if number == trial.after else trial
    enough = judged.samples >= (_FEW_SAMPLES if elsewhere or missing >= _CLEAR else _SAMPLES)
    unclear = brought >= share * promised or missing < _NOISE
    back, cause = find_way_back(assessment, judged), find_cause(assessment, judged)
    if not enough or (unclear and not elsewhere) or back >= number or cause is None:
        return trial
    if cause is Cause.BROKER and _may_carry(assessment, judged, most):
        return trial
    return Useless(
        before=trial.before,
        after=number,
        at=assessment.at,
        rate=judged.best,
        promised=trial.rate * (1 + promised),
        before_rate=trial.rate,
        cause=cause,
        back=back,
    )


def _has_changed(trial: Trial, number: int, best: float) -> bool:
    """Whether records cost more than at the number before, while more executors help by half of what they promise.

    >>> trial = Trial(4, 8, 0.0, 6400.0, first=(5, 2950.0))
    >>> _has_changed(trial, 8, 4155.0), _has_changed(trial, 8, 3500.0)
    (True, False)
    """
    if trial.first is None or trial.first[0] >= number or best >= trial.rate * (1 - _NOISE):
        return False
    return best >= trial.first[1] * (1 + max((number / trial.first[0] - 1) / 2, _NOISE))


def _missing(before: int, after: int, share: float) -> float:
    """What may be missing of the rate before, as a share of it, where so much of the promise has to be kept."""
    return (1 - share) * (after / before - 1)


def _note_step(trial: Trial, assessment: Assessment) -> Trial:
    """The trial with its present number, once all are there; the batch that runs then began on fewer."""
    last, known = assessment.last_batch_id, [number for number, _ in trial.steps]
    if last is None or assessment.queries > 1 or assessment.executors != trial.after or trial.after in known:
        return trial
    first = last + (1 if assessment.running is False else 2)
    return trial._replace(steps=(*trial.steps, (trial.after, first))[-_STEPS:])


def _find_number_shown(trial: Trial, assessment: Assessment, share: float) -> int | None:
    """The greatest number of the trial that the last batch shows, warm; None: none that has not been looked at.

    While the number grows from batch to batch, a batch shows at least what the number carries on which it began.
    """
    there, last = assessment.executors or 0, assessment.last_batch_id
    needed = SETTLED if _missing(trial.before, trial.after, share) >= _CLEAR else _WARM
    if there == trial.after and is_warm(assessment, needed):
        return trial.after if assessment.batches > trial.batches else None
    if there < trial.after or last is None or last == trial.batch_id:
        return None
    for number, first in reversed(trial.steps):
        done, needed = last - first + 1, SETTLED if _missing(trial.before, number, share) >= _CLEAR else _WARM
        if number < trial.after and is_warm(assessment, needed, done):
            return number
    return None


def _would_drain_alike(assessment: Assessment, trial: Trial) -> bool:
    """Whether the job falls behind, or less arrives than the number before processes."""
    carried = trial.rate * _share_of_tasks(assessment)
    return assessment.draining is False or (bool(assessment.draining) and (assessment.arrival_rate or 0.0) < carried)


def _share_of_tasks(assessment: Assessment) -> float:
    """Share of the last batch in which tasks run: the rates of a trial are of that part. 1 where it is unknown."""
    work_s, batch_s = assessment.work_s, assessment.last_batch_s
    return min(1.0, work_s / batch_s) if work_s and batch_s and assessment.queries == 1 else 1.0


def _may_carry(assessment: Assessment, trial: Trial, most: int | None) -> bool:
    """Whether what arrives would be carried by the greatest number, if each step brought as much as the last ones.

    The rate is taken to grow as n^b. It is one of the executors' part of a batch, so only that part of the time has it.
    """
    arrival = assessment.arrival_rate
    if most is None or most <= trial.after or not arrival or not trial.rate or trial.best <= trial.rate:
        return False
    power = log(trial.best / trial.rate) / log(trial.after / trial.before)
    reach: float = trial.best * _share_of_tasks(assessment) * (most / trial.after) ** power
    return reach >= arrival


def find_way_back(assessment: Assessment, trial: Trial) -> int:
    """The number up to which executors helped: so many as carry what was reached, were each as good as before.

    Where the sink or the driver delays the batches, so many that tasks take half of the batch, or less where the driver
    leaves less of τ to them.

    >>> find_way_back(Assessment(0.0), Trial(1, 20, 0.0, 1900.0, best=3800.0))
    2
    >>> batch = Assessment(0.0, sink="slow", last_batch_s=30.0, work_s=3.0)
    >>> find_way_back(batch, Trial(1, 20, 0.0, 1900.0, best=3800.0))
    4
    """
    if assessment.sink is not None or assessment.driver is not None:
        work_s, batch_s = assessment.work_s, assessment.last_batch_s
        share = work_s / batch_s if work_s is not None and batch_s else 0.0
        return max(trial.before, ceil(trial.after * share / _share_for_tasks(assessment) * (1 - _ROUNDING)))
    ratio = trial.best / trial.rate
    return trial.before if ratio < 1 + _NOISE else max(trial.before, ceil(trial.before * ratio / _SAME))


def _share_for_tasks(assessment: Assessment) -> float:
    """The share of the batch that tasks may take: half, or what the driver leaves of τ if any number keeps that."""
    driver_s, period_s = assessment.driver_s or 0.0, assessment.period_s or 0.0
    if assessment.driver is None or driver_s >= period_s:
        return MOST
    return min(MOST, max(1 - DRIVEN, 1 - driver_s / (_FULL * period_s)))


def _is_healthy(assessment: Assessment) -> bool:
    """Whether nothing is left over, nor late; with batches longer than τ the backlog comes and goes."""
    late = (assessment.occupancy or 0.0) >= 1 or assessment.sink is not None or assessment.driver is not None
    return assessment.backlog_excess == 0 and not late


def find_cause(assessment: Assessment, trial: Trial) -> Cause | None:
    """What limits the job, from the most certain to what is left; None: a further wave of tasks does, or nobody knows.

    *Capped batch*: batches are full and end before their trigger. *Sink*: it is sick. *Useful parallelism*: the slots
    before had a task each. *One partition*: it is so large that as many slots as helped are as fast as more. *Garbage
    collection*, *data read anew*: it takes most of the time that is missing. *Single tasks that take long*: for most of
    the batch free slots wait for them. *Driver*: its part of the batch, or slots that idle for another reason while
    batches run back to back. *Broker*: the slots are in use, and yet all of them together are no faster: what they
    share limits them, and the sink is healthy.
    """
    slots = assessment.slots_per_executor or 1
    if cap_limits(assessment):
        return Cause.CAPPED
    if assessment.sink is not None:
        return Cause.SINK
    if assessment.driver is not None:
        return Cause.DRIVER
    if assessment.useful_executors is not None and assessment.useful_executors <= trial.before:
        return Cause.PARALLELISM
    tasks, skew = tasks_of_batch(assessment), assessment.skew
    helped = find_way_back(assessment, trial) if trial.rate else trial.before
    if tasks and tasks == assessment.partitions and skew and skew > 1 and tasks / skew <= _SAME * helped * slots:
        return Cause.PARTITION
    if _waves_explain(assessment, trial, slots):
        return None
    kept = trial.before * trial.best / (trial.after * trial.rate) if trial.rate else 1.0
    for share, cause in ((assessment.gc_share, Cause.GARBAGE), (assessment.reread_share, Cause.REREAD)):
        if (share or 0.0) > MOST * (1 - kept) > 0:
            return cause
    if (assessment.straggler_s or 0.0) > MOST * (assessment.last_batch_s or 0.0) > 0:
        return Cause.STRAGGLER
    if assessment.pressure is not None and assessment.pressure <= HIGH:
        return Cause.DRIVER
    if assessment.busy_ratio is None:
        return None
    return Cause.BROKER if assessment.busy_ratio >= IN_USE else Cause.DRIVER


def try_again(executors: int, share: float) -> int:
    """The number that is tried when the time is over: the least that promises more than noise.

    >>> try_again(1, 0.3), try_again(4, 0.3), try_again(20, 0.3)
    (2, 5, 25)
    """
    return ceil(executors * (1 + _NOISE / max(1 - share, _NOISE)))


def _waves_explain(assessment: Assessment, trial: Trial, slots: int) -> bool:
    """Whether every stage that counts takes as many waves on the slots after as on those before."""
    tasks = [stage.tasks for stage in assessment.stages if stage.share >= COUNTS] or [assessment.partitions or 0]
    return any(tasks) and all(waves(each, trial.before * slots) == waves(each, trial.after * slots) for each in tasks)


def update_useless(useless: Useless, assessment: Assessment, current: int, settings: GuardSettings) -> Useless | None:
    """What is remembered of a useless increase at this sample.

    It is forgotten when its cause is gone (a sink that was sick is healthy again with as many executors, batches are no
    longer full, tasks take three quarters of a batch that was the driver's, free slots wait for stragglers no longer
    than for a quarter of it); and when four batches in a row of the job at its limit say that the limit has changed, or
    that the executors were of use after all. Else it is known for a day after its time is over, so that the next time
    is longer.
    """
    wait_s = useless.wait_s(assessment.at, settings)
    if _is_gone(useless, assessment) or wait_s <= -settings.ineffective_max_s:
        return None
    rate = limited_rate(assessment)
    if assessment.executors == current and is_warm(assessment, _WARM) and assessment.batches != useless.batches:
        doubts = 0
        if rate is not None and _differs(useless, rate, current, settings):
            far = rate < (1 - 2 * _OTHER) * min(useless.before_rate, useless.rate)
            doubts = useless.doubts + (_SAMPLES if far else 1)
        useless = useless._replace(doubts=doubts, batches=assessment.batches)
        if doubts >= _SAMPLES:
            return None
        if rate is not None and useless.undone and not (useless.measured or doubts) and current == useless.helped:
            useless = useless._replace(before_rate=rate, measured=True)
    # executors go between batches, and the running one may take longer than the wait
    in_time = wait_s + _PATIENCE * (assessment.batch_s or 0.0) > 0
    if useless.undone or (current > useless.helped and in_time and not _is_healthy(assessment)):
        return useless
    return useless.taken_back(assessment.at)


def _differs(useless: Useless, rate: float, executors: int, settings: GuardSettings) -> bool:
    """Whether this rate of the job at its limit is another one than was found.

    On more executors, where they bring what was promised; on fewer, where it is a fifth less than both rates, or a
    fifth more than both and that of the way back was known.
    """
    if executors > useless.helped:
        promised = (settings.ineffective_share or 0.0) * (executors / useless.helped - 1)
        before_rate = useless.before_rate if useless.measured else useless.rate
        return useless.undone and rate >= before_rate * (1 + max(promised, _NOISE))
    known = (useless.before_rate, useless.rate)
    return rate < (1 - _OTHER) * min(known) or (useless.measured and rate > (1 + _OTHER) * max(known))


def _is_gone(useless: Useless, assessment: Assessment) -> bool:
    if useless.cause is Cause.DRIVER:
        work_s, batch_s, busy = assessment.work_s, assessment.last_batch_s, assessment.busy_ratio or 0.0
        if assessment.missing or assessment.driver is not None or work_s is None or batch_s is None:
            return False
        return (assessment.executors or 0) <= useless.helped and work_s > DRIVEN * batch_s and busy >= IN_USE
    if useless.cause is Cause.STRAGGLER:
        straggler_s, batch_s = assessment.straggler_s, assessment.last_batch_s
        if straggler_s is None or batch_s is None:
            return False
        return is_warm(assessment) and straggler_s <= (1 - DRIVEN) * batch_s
    if useless.cause is Cause.SINK:
        as_many = (assessment.executors or 0) >= useless.after and is_warm(assessment)
        return as_many and assessment.sink is None and not assessment.missing
    return useless.cause is Cause.CAPPED and assessment.capped is False


# What a change of the number of executors costs: measured, and its part in the size and in the choice to wait.


_MEMORY = 8
_THIRD = 3


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
    if assessment.batches < _THIRD:
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
