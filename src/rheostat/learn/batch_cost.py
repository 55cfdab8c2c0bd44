"""What a batch costs: its duration on any number of executors, learned from the batches that have ended [ours].

A batch of R records on n executors takes b = F(n) + G(n)·R. Its parts are those of Spark:

* a *stage* has T tasks, which take B = I + c·S^h·R seconds of the S slots together: I is their fixed part, h how much
  slots hinder each other. They run in ⌈T ÷ S⌉ waves, so that the stage takes ⌈T ÷ S⌉ · B ÷ T;
* the *driver* takes p, whatever is left of a batch beside its stages.

I and c are a least-squares line through (R·S^h, B), weighted by relative errors. Batches that are all alike, or differ
by less than they vary by chance, cannot tell I from c, and leave it at 20 ms a task. h is where the line fits best. A
batch without known stages is one stage without waves.

What is remembered are batches, not sums: one for each number of executors and size, the mean of the last ten alike. So
a day at one number does not make the others forgotten, and all of them are read with one and the same line.

Executors that have just joined are slow for half a minute, until the JVM has compiled their code. What the batches up
to the first full one take longer is learned apart, in seconds: see :meth:`BatchCost.cold`. A later one takes 1 + A ·
x times as long; its freshness x is 1 − a ÷ 25 s, a seconds after the last ones joined. All else is learned from
batches less their warm-up, so that a number at which there were only slow ones is not taken for slow. A is the slope
of b ÷ (F + G·R) over x: among batches on the same number of executors, and less surely between numbers.

What the line misses is a *correction* for each number, the mean of b ÷ (F + G·R). A number that no batch has run at
takes most of its nearest neighbour's, and a doubt that grows with the distance: see :meth:`BatchCost.correction`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter, mul
from typing import NamedTuple

_TASK_S = 0.02
_SLOPE_VARIANCE = 0.25
"""Of the cost of a record, relative, before batches of different sizes show it."""
_HINDRANCE = (-0.06, 0.6)
_HINDRANCE_SD, _HINDRANCE_STEP, _HINDRANCE_EVERY = 0.2, 0.02, 4
_LEAST_ERROR = 0.01
_FADE = 0.997
"""Weight of a batch for each one that has ended since."""
_MEMORY = 10
_ALIKE = 0.15
"""|ln| of the ratio of the records of two batches that count as one."""
_MOST_SEEN = 28
_OF_NEAREST = 0.7
_DOUBT = 0.0225
"""Variance of the capacity at a number e times, or 1 ÷ e of, the nearest one known; nothing is known of h then."""
_TELLS = 0.25
"""Time of the records ÷ rest of a batch below which it is too small to tell what records cost."""
_SLOW, _SLOW_S = 1.25, 2.0
_ERROR, _ERROR_GAIN, _WINSOR = 0.0001, 0.05, 9.0
_STRANGE_DEVIATIONS = 3.0
_MOST_MARGIN = 0.4
_STRANGE = 2
"""Batches in a row that are beyond 1.25 times, or 1 ÷ 1.25 of, what was predicted: the job is another one."""
_COLD_S, _COLD_VARIANCE, _LEAST_COLD_S, _COLDS = 4.0, 4.0, 1.0, 8
"""What an executor that joins adds to a batch: before any did, its variance, and at least, s; how many times it is
measured by."""
_WARM_UP_S, _MOST_WARM_UP = 25.0, 3.0
"""How long executors warm up; A at most."""
_WARM_UP_WEIGHT, _NUMBERS_DIFFER = 0.05, 2.25
"""Weight of A = 0, as a sum of x² of batches; variance of b ÷ (F + G·R) between numbers ÷ that of one batch."""


class Batch(NamedTuple):
    """A finished batch, or the mean of several that are alike.

    Attributes:
        tasks, busy_s: of each stage; the seconds of its tasks on all slots together. A stage of 0 tasks is the whole
            batch, where its stages are not known.
        driver_s: of planning and commit; 0: unknown.
        fresh: x, freshness of its executors in its middle.
        weight: batches that it is the mean of; ``number``: the last one of them.
    """

    executors: int
    slots: int
    records: float
    duration_s: float
    tasks: tuple[int, ...]
    busy_s: tuple[float, ...]
    driver_s: float = 0.0
    fresh: float = 0.0
    weight: int = 1
    number: int = 0

    def slower(self, warm_up: float) -> float:
        """How many times as long it took because its executors were warming up; ``warm_up``: A."""
        return 1 + warm_up * self.fresh

    def without(self, warm_up: float) -> Batch:
        """As it would have been on executors that are warm; ``warm_up``: A."""
        slower = self.slower(warm_up)
        return self._replace(
            duration_s=self.duration_s / slower,
            busy_s=tuple([each / slower for each in self.busy_s]),
            driver_s=self.driver_s / slower,
        )

    @property
    def least_s(self) -> tuple[float, ...]:
        """The fixed part of each stage, where batches do not tell it, s."""
        return tuple([_TASK_S * tasks if tasks else self.driver_s * self.slots for tasks in self.tasks])

    def stages_s(self, busy_s: Sequence[float]) -> float:
        """How long stages take that keep slots busy for so long.

        >>> Batch(3, 3, 1e4, 9.0, (4, 8), (4.0, 8.0)).stages_s((4.0, 8.0))
        5.0
        """
        return _dot([_share(tasks, self.slots) for tasks in self.tasks], busy_s)

    @property
    def tells(self) -> bool:
        """Whether its records take at least a quarter as long as the rest of it."""
        records_s = self.stages_s([max(0.0, a - b) for a, b in zip(self.busy_s, self.least_s, strict=True)])
        return records_s >= _TELLS * (self.duration_s - records_s)


class Cold(NamedTuple):
    """What executors that joined cost.

    Attributes:
        joined: how many did.
        extra_s: by how much all batches until the first one at the new number were longer than predicted.
        variance: of that, as far as batches vary and the model is not exact, s².
    """

    joined: int
    extra_s: float = 0.0
    variance: float = 0.0

    def longer(self, duration_s: float, predicted_s: float, error: float) -> Cold:
        """With another batch; ``error``: variance of ln(duration ÷ predicted)."""
        extra_s = self.extra_s + duration_s - predicted_s
        return self._replace(extra_s=extra_s, variance=self.variance + error * predicted_s**2)


def _share(tasks: int, slots: int) -> float:
    """How long a stage of one busy second takes: its waves ÷ its tasks."""
    return math.ceil(tasks / slots) / tasks if tasks else 1 / slots


@dataclass(frozen=True, slots=True)
class BatchCost:
    """The model, and the batches it is of. Without batches nothing is known.

    Attributes:
        seen: batches, the oldest first; ``count``: how many there have been.
        stages: tasks, I, s, and c, s a record, of each stage.
        driver_s: p.
        exponent: h; ``spread``: Σ(ln S − mean)², how much is known of it.
        ratios: corrections, by number of executors.
        cap: most records of a batch; None: no limit.
        strange: batches in a row that were not as predicted.
        is_cold: whether it is of a first batch only, which the next one replaces.
        colds: the last times executors joined.
        cold_is_open: whether that first batch is still to come.
        warm_up: A, by which share a batch is longer on executors that have just joined.
        error: variance of ln(duration ÷ predicted).
    """

    seen: tuple[Batch, ...] = ()
    count: int = 0
    slots: int = 1
    stages: tuple[tuple[int, float, float], ...] = ()
    driver_s: float = 0.0
    exponent: float = 0.0
    spread: float = 0.0
    ratios: tuple[tuple[int, float], ...] = ()
    cap: int | None = None
    strange: int = 0
    is_cold: bool = False
    colds: tuple[Cold, ...] = ()
    cold_is_open: bool = False
    warm_up: float = 0.0
    error: float = _ERROR

    @property
    def deviation(self) -> float:
        """Standard deviation of ln(duration ÷ predicted): batches vary, and the model is not exact."""
        return math.sqrt(self.error)

    @property
    def varies(self) -> float:
        """The same, as far as it is reckoned with."""
        return min(_MOST_MARGIN, self.deviation)

    @property
    def is_known(self) -> bool:
        return bool(self.stages)

    def correction(self, executors: int) -> float:
        """ρ: of a number never seen 70 % of its nearest neighbour's deviation, × (1 + σ · |ln(n ÷ nearest)|).

        σ = √(0.0225 ÷ (1 + spread of ln S)): 15 % for a factor e at first, less once h is known.

        >>> model = BatchCost(ratios=((4, 1.1),))
        >>> model.correction(4), round(model.correction(8), 3), round(model.correction(2), 3)
        (1.1, 1.181, 1.181)
        """
        if not self.ratios:
            return 1.0
        place = bisect_left(self.ratios, executors, key=itemgetter(0))
        near = self.ratios[max(0, place - 1) : place + 1]
        if near[-1][0] == executors:
            return near[-1][1]
        nearest, ratio = min(near, key=lambda each: max(each[0] / executors, executors / each[0]))
        doubt = math.sqrt(_DOUBT / (1 + self.spread))
        return (1 + _OF_NEAREST * (ratio - 1)) * (1 + doubt * abs(math.log(executors / nearest)))

    @property
    def spent_cold_s(self) -> float:
        """What executors that are joining have added to batches so far, s."""
        return max(0.0, self.colds[-1].extra_s) if self.cold_is_open else 0.0

    def cold(self) -> tuple[float, float, float]:
        """What an executor that joins adds to a batch, each other one that joins with it, and the error of both, s.

        A line through the last times that some joined, which count less the less exactly they are known. At first it
        is 4 ± 2 s, and others add nothing.

        >>> [round(each, 2) for each in BatchCost().cold()]
        [4.0, 0.0, 2.0]
        >>> colds = (Cold(1, 6.0), Cold(1, 6.0), Cold(4, 12.0), Cold(4, 12.0))
        >>> [round(each, 2) for each in BatchCost(colds=colds).cold()]
        [5.56, 2.03, 0.96]
        """
        weights = [_COLD_VARIANCE / (_COLD_VARIANCE + each.variance) for each in self.colds]
        others, extras = [each.joined - 1.0 for each in self.colds], [each.extra_s for each in self.colds]
        many, sum_s = 1.0 + math.fsum(weights), _COLD_S + _dot(weights, extras)
        sum_x, sum_xx = _dot(weights, others), 1.0 + _dot(weights, [x * x for x in others])
        sum_xs = _dot(weights, map(mul, others, extras))
        other_s = max(0.0, (many * sum_xs - sum_x * sum_s) / (many * sum_xx - sum_x * sum_x))
        first_s = max(_LEAST_COLD_S, (sum_s - other_s * sum_x) / many)
        misses = [extra_s - first_s - other_s * x for x, extra_s in zip(others, extras, strict=True)]
        squares = _COLD_VARIANCE + _dot(weights, map(mul, misses, misses))
        return first_s, other_s, math.sqrt(squares / many)

    def raw(self, executors: int) -> tuple[float, float]:
        """F, s, and G, s a record, without the correction."""
        slots = executors * self.slots
        fixed_s, record_s, hinders = self.driver_s, 0.0, slots**self.exponent
        for tasks, base_s, cost_s in self.stages:
            share = _share(tasks, slots)
            fixed_s += base_s * (share if tasks else 1.0)
            record_s += cost_s * hinders * share
        return fixed_s, record_s


def freshness(after_s: float) -> float:
    """x, so long after the last executors joined.

    >>> [freshness(after_s) for after_s in (-1.0, 5.0, 10.0, 30.0)]
    [1.0, 0.8, 0.6, 0.0]
    """
    return max(0.0, 1 - max(0.0, after_s) / _WARM_UP_S)


class Costs:
    """F(n) and G(n) of a model, each computed once; ``deviations``: so many standard deviations longer."""

    def __init__(self, model: BatchCost, deviations: float = 0.0) -> None:
        self.cap, self._warm_up = model.cap, model.warm_up
        self._model, self._deviations, self._slower = model, deviations, math.exp(deviations * model.varies)
        self._known: dict[int, tuple[float, float]] = {}

    def batch(self, executors: int) -> tuple[float, float]:
        """F, s, and G, s a record."""
        known = self._known.get(executors)
        if known is None:
            fixed_s, record_s = self._model.raw(executors)
            ratio = self._model.correction(executors) * self._slower
            known = self._known[executors] = (fixed_s * ratio, record_s * ratio)
        return known

    def duration_s(self, executors: int, records: float) -> float:
        """F + G·R, s."""
        fixed_s, record_s = self.batch(executors)
        return fixed_s + record_s * records

    def slower(self, after_s: float) -> float:
        """How many times as long a batch is whose middle is so long after the last executors joined."""
        return 1 + self._warm_up * freshness(after_s) if self._warm_up else 1.0

    @cached_property
    def _cold(self) -> tuple[float, float]:
        """What an executor that joins adds to a batch, and each other one that joins with it, s."""
        first_s, other_s, error_s = self._model.cold()
        return first_s + self._deviations * error_s / 2, other_s

    def cold_s(self, joined: int) -> float:
        """What so many executors that join add to a batch, s."""
        if joined <= 0:
            return 0.0
        first_s, other_s = self._cold
        return first_s + other_s * (joined - 1)

    def capacity(self, executors: int, period_s: float, trigger_s: float) -> float:
        """Records/s that batches of ``period_s`` work off; of full ones, where a full batch is shorter.

        C(n, b) = (b − F) ÷ (G·b), or cap ÷ max(trigger, F + G·cap).
        """
        fixed_s, record_s = self.batch(executors)
        if fixed_s >= period_s:
            return 0.0
        records = (period_s - fixed_s) / record_s
        if self.cap is not None and records > self.cap:
            return self.cap / max(trigger_s, fixed_s + record_s * self.cap)
        return records / period_s


# ---------------------------------------------------------------------------------------------------- learning


def learn_batch(model: BatchCost, batch: Batch, *, is_first: bool) -> BatchCost:
    """The model with one more finished batch; :func:`fit` then reads all that is remembered.

    A batch whose records take less than a quarter of the rest of it teaches nothing. Of the first batches at a number,
    which are cold, one only counts if nothing else is known, or if it is far slower than predicted: a model that is
    wrong must not wait for a second batch. Two batches in a row that are not as predicted are of another job: what was
    before them is forgotten.
    """
    each = batch.slots // batch.executors
    if not model.is_known or model.is_cold or each != model.slots:
        new = BatchCost(
            (batch,), slots=each, cap=model.cap, colds=model.colds, warm_up=model.warm_up, error=model.error
        )
        return replace(fit(new, 0), is_cold=is_first)
    costs = Costs(model)
    predicted_s = costs.duration_s(batch.executors, batch.records)
    if is_first:
        usual_s = _SLOW_S
        if model.cold_is_open:
            cold = model.colds[-1]
            usual_s += costs.cold_s(cold.joined)
            cold = cold.longer(batch.duration_s, predicted_s, model.error)
            cold = cold._replace(extra_s=max(0.0, cold.extra_s))
            model = replace(model, colds=(*model.colds[:-1], cold), cold_is_open=False)
        if batch.duration_s <= _SLOW * predicted_s + usual_s:
            return model
        ratio = (batch.duration_s - usual_s) / predicted_s * model.correction(batch.executors)
        ratios = [pair for pair in model.ratios if pair[0] != batch.executors]
        return replace(model, ratios=tuple(sorted([*ratios, (batch.executors, ratio)])))
    if not batch.tells:
        return model
    missed = math.log(batch.duration_s / batch.slower(model.warm_up) / predicted_s)
    error = model.error + _ERROR_GAIN * (min(missed * missed, _WINSOR * max(model.error, _ERROR)) - model.error)
    is_strange = not batch.fresh and abs(missed) > max(math.log(_SLOW), _STRANGE_DEVIATIONS * model.deviation)
    strange = model.strange + 1 if is_strange else 0
    batch = batch._replace(number=model.count + 1)
    seen = model.seen
    if strange == _STRANGE:
        seen, strange = tuple([each for each in seen if each.number == model.count]), 0
    return replace(model, seen=_remember(seen, batch), count=batch.number, strange=strange, error=error)


def learn_cold(model: BatchCost, batch: Batch, before: int) -> BatchCost:
    """The model with a batch in which executors joined ``before``, half-way on average: what it took longer than that.

    >>> model = BatchCost(stages=((0, 0.0, 0.002),), ratios=((2, 1.0), (3, 1.0)))
    >>> (cold,) = learn_cold(model, Batch(3, 3, 3e3, 6.0, (0,), ()), 2).colds
    >>> cold.joined, round(cold.extra_s, 2)
    (1, 3.5)
    """
    if not model.is_known or model.is_cold:
        return model
    costs = Costs(model)
    halves = [costs.duration_s(number, batch.records) for number in (before, batch.executors)]
    earlier, open_cold = (model.colds[:-1], model.colds[-1]) if model.cold_is_open else (model.colds, Cold(0))
    joined = max(1, batch.executors - before)
    cold = open_cold._replace(joined=joined).longer(batch.duration_s, math.fsum(halves) / 2, model.error)
    return replace(model, colds=(*earlier, cold)[-_COLDS:], cold_is_open=True)


def _remember(seen: tuple[Batch, ...], new: Batch) -> tuple[Batch, ...]:
    """The batches with a new one, which enters the mean of those that are alike."""
    alike = [
        each
        for each in seen
        if (each.executors, each.tasks, each.fresh > 0) == (new.executors, new.tasks, new.fresh > 0)
        and abs(math.log(each.records / new.records)) < _ALIKE
    ]
    if alike:
        old = alike[-1]
        seen = tuple([each for each in seen if each is not old])
        weight = min(old.weight, _MEMORY - 1)

        def mean(before: float, now: float) -> float:
            return (weight * before + now) / (weight + 1)

        new = new._replace(
            records=mean(old.records, new.records),
            duration_s=mean(old.duration_s, new.duration_s),
            busy_s=tuple(map(mean, old.busy_s, new.busy_s)),
            driver_s=mean(old.driver_s, new.driver_s),
            fresh=mean(old.fresh, new.fresh),
            weight=weight + 1,
        )
    return (*seen, new)[-_MOST_SEEN:]


def fit(model: BatchCost, past: int) -> BatchCost:
    """The model of the batches seen; those with other stages than the last one are not looked at.

    h moves by one step each fourth batch at most, to where the squared errors and its distance from 0 are least.
    ``past``: how many batches there had been at the last fit.
    """
    newest = model.seen[-1]
    measured = [each for each in model.seen if _has_same_stages(each, newest)]
    batches = [each.without(model.warm_up) if each.fresh else each for each in measured]
    ages = [each.weight * _FADE ** (newest.number - each.number) for each in batches]
    rows, many = _read_rows(batches, ages, model.error), math.fsum(ages)
    logs = [math.log(each.slots) for each in batches]
    middle = _dot(ages, logs) / many
    spread = _dot(ages, [(log - middle) ** 2 for log in logs])
    lines, error = _fit_stages(rows, model.exponent)
    exponent, noise = model.exponent, max(error / many, _LEAST_ERROR**2)
    best = error / noise + (exponent / _HINDRANCE_SD) ** 2
    is_due = newest.number // _HINDRANCE_EVERY > past // _HINDRANCE_EVERY
    for tried in (model.exponent - _HINDRANCE_STEP, model.exponent + _HINDRANCE_STEP):
        if spread and is_due and _HINDRANCE[0] <= tried <= _HINDRANCE[1]:
            other, error = _fit_stages(rows, tried)
            misfit = error / noise + (tried / _HINDRANCE_SD) ** 2
            if misfit < best:
                best, exponent, lines = misfit, tried, other
    waits_s = _dot(ages, [each.duration_s - each.stages_s(each.busy_s) for each in batches]) / many
    stages = tuple([(tasks, *line) for tasks, line in zip(newest.tasks, lines, strict=True)])
    model = replace(model, stages=stages, exponent=exponent, spread=spread, driver_s=max(0.0, waits_s), ratios=())
    costs = Costs(model)
    warm_up = _find_warm_up(costs, measured, ages)
    return replace(model, warm_up=warm_up, ratios=_find_ratios(costs, batches, ages))


def _has_same_stages(one: Batch, other: Batch) -> bool:
    return len(one.tasks) == len(other.tasks) and (0 in one.tasks) == (0 in other.tasks)


def _dot(one: Iterable[float], other: Iterable[float]) -> float:
    return math.fsum(map(mul, one, other))


def _mean(values: Iterable[float], weights: Sequence[float]) -> float:
    return _dot(values, weights) / math.fsum(weights)


class _Rows(NamedTuple):
    """What a fit reads, a value for each batch.

    Without tasks, the fixed part is in seconds of the batch, not of all slots: busy seconds and records are a slot's.

    Attributes:
        busy_s: of each stage; ``whole_s``: of all stages.
        weights: of squared errors in ``whole_s``.
        least_s: the fixed part of each stage, where batches do not tell it; ``prior_weight``: how much that counts.
    """

    slots: list[int]
    records: list[float]
    busy_s: list[list[float]]
    whole_s: list[float]
    weights: list[float]
    least_s: list[float]
    prior_weight: float


def _read_rows(batches: Sequence[Batch], ages: Sequence[float], error: float) -> _Rows:
    newest, slots = batches[-1], [each.slots for each in batches]
    parts = [1.0 if newest.tasks[0] else 1 / many for many in slots]
    busy_s = [list(map(mul, stage_s, parts)) for stage_s in zip(*[each.busy_s for each in batches], strict=True)]
    whole_s = list(map(math.fsum, zip(*busy_s, strict=True)))
    return _Rows(
        slots=slots,
        records=list(map(mul, [each.records for each in batches], parts)),
        busy_s=busy_s,
        whole_s=whole_s,
        weights=[age / (each_s * each_s) for age, each_s in zip(ages, whole_s, strict=True)],
        least_s=[least_s * parts[-1] for least_s in newest.least_s],
        prior_weight=error / (_SLOPE_VARIANCE * math.fsum(ages)),
    )


def _fit_stages(rows: _Rows, exponent: float) -> tuple[list[tuple[float, float]], float]:
    """I and c of each stage at this h, and the weighted sum of the squared errors of whole batches."""
    x = [records * slots**exponent for records, slots in zip(rows.records, rows.slots, strict=True)]
    lines = _fit_lines(x, rows.busy_s, rows.weights, rows.least_s, rows.prior_weight)
    base_s, cost_s = map(math.fsum, zip(*lines, strict=True))
    misses = [whole_s - base_s - cost_s * a for whole_s, a in zip(rows.whole_s, x, strict=True)]
    return lines, _dot(rows.weights, map(mul, misses, misses))


def _fit_lines(
    x: Sequence[float],
    columns: Sequence[Sequence[float]],
    weights: Sequence[float],
    least: Sequence[float],
    prior_weight: float,
) -> list[tuple[float, float]]:
    """I and c of y = I + c·x for each column y, least squares; ``prior_weight`` says that I is its ``least``.

    >>> [(base_s, cost_s)] = _fit_lines((1e3, 2e3, 3e3), [(2.5, 4.5, 6.5)], (1.0, 1.0, 1.0), [0.08], 0.0004)
    >>> round(base_s, 3), round(cost_s, 3)
    (0.499, 0.002)
    """
    whole = math.fsum(weights)
    x_mean, lines = _dot(weights, x) / whole, list[tuple[float, float]]()
    apart = [weight * (a - x_mean) for weight, a in zip(weights, x, strict=True)]
    spread, ridge = _dot(apart, x) / whole, prior_weight * x_mean * x_mean
    for y, low in zip(columns, least, strict=True):
        y_mean = _dot(weights, y) / whole
        prior = max(y_mean - low, 0.1 * y_mean) / x_mean
        slope = (_dot(apart, y) / whole + ridge * prior) / (spread + ridge)
        slope = min(slope if slope > 0 else prior, y_mean / x_mean)
        lines.append((y_mean - slope * x_mean, slope))
    return lines


def _find_warm_up(costs: Costs, batches: Sequence[Batch], weights: Sequence[float]) -> float:
    """A, by least squares of duration ÷ predicted, in which each number of executors has a random effect of its own.

    ``costs``: without corrections.
    """
    if not any(each.fresh for each in batches):
        return 0.0
    points = dict[int, list[tuple[float, float, float]]]()
    for each, weight in zip(batches, weights, strict=True):
        longer = each.duration_s / costs.duration_s(each.executors, each.records) - 1
        points.setdefault(each.executors, []).append((weight, each.fresh, longer))
    spread, link = _WARM_UP_WEIGHT, 0.0
    for found in points.values():
        own = [weight for weight, _, _ in found]
        fresh, longer = _mean([each for _, each, _ in found], own), _mean([each for _, _, each in found], own)
        between = 1 / (_NUMBERS_DIFFER + 1 / math.fsum(own))
        spread += between * fresh**2 + math.fsum([weight * (x - fresh) ** 2 for weight, x, _ in found])
        link += between * fresh * longer + math.fsum([weight * (x - fresh) * (y - longer) for weight, x, y in found])
    return min(_MOST_WARM_UP, max(0.0, link / spread))


def _find_ratios(costs: Costs, batches: Sequence[Batch], weights: Sequence[float]) -> tuple[tuple[int, float], ...]:
    """ρ of each number that batches have run at; ``costs``: without it."""
    sums: dict[int, tuple[float, float]] = {}
    for each, weight in zip(batches, weights, strict=True):
        ratio = each.duration_s / costs.duration_s(each.executors, each.records)
        whole, of = sums.get(each.executors, (0.0, 0.0))
        sums[each.executors] = whole + weight * ratio, of + weight
    return tuple(sorted((number, whole / of) for number, (whole, of) in sums.items()))
