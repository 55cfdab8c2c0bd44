"""What a batch costs: its duration on any number of executors, learned from the batches that have ended [ours].

A batch of R records on n executors takes b = F(n) + G(n)·R. Its parts are those of Spark:

* a *stage* has T tasks, which take B = I + c·R·S^h seconds of the S slots together: I is their fixed part, h how much
  slots hinder each other. They run in ⌈T ÷ S⌉ waves, so that the stage takes ⌈T ÷ S⌉ · B ÷ T;
* the *driver* takes p, whatever is left of a batch beside its stages.

I and c are a weighted least-squares line through (R·S^h, B), older batches fading by 2 % each; batches that are all
alike cannot tell I from c, and leave it at 20 ms a task. h is the slope of ln(c) over ln(S). A batch without known
stages is one stage without waves.

What is left is a *correction* for each number of executors, a mean of b ÷ (F + G·R). A number that no batch has run at
takes most of its nearest neighbour's, and a doubt that grows with the distance: see :meth:`BatchCost.correction`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rheostat.model import Assessment

_FADE = 0.98
_TASK_S = 0.02
_RIDGE = 0.0004
_HINDRANCE_RIDGE = 0.3
_HINDRANCE = (-0.05, 0.6)
_DRIVER_GAIN = 0.1
_MEMORY = 10.0
_OF_NEAREST = 0.7
_DOUBT = 0.0225
"""Variance of the capacity at a number e times, or 1 ÷ e of, the nearest one known; nothing is known of h then."""
_TELLS = 0.25
"""Records ÷ fixed part of a batch below which it is too small to tell what records cost."""
_SLOW, _SLOW_S = 1.25, 2.0
_LARGER = 1.02
_MOST_NUMBERS = 48


class Work(NamedTuple):
    """A finished batch.

    Attributes:
        stages: tasks and their slot seconds together, of each stage; empty: unknown.
        driver_s: of planning and commit; None: unknown.
        is_first: whether it is the first one at its number of executors: cold.
    """

    executors: int
    slots: int
    records: int
    duration_s: float
    stages: tuple[tuple[int, float], ...] = ()
    driver_s: float | None = None
    capped: bool = False
    is_first: bool = False


def last_work(assessment: Assessment) -> Work | None:
    """The last finished batch; None: unknown, or of another number of executors than is registered now."""
    records, duration_s, executors = assessment.last_batch_records, assessment.last_batch_s, assessment.executors
    if not records or not duration_s or not executors or assessment.batches < 1:
        return None
    rate, stages = assessment.arrival_rate, list[tuple[int, float]]()
    for stage in assessment.stages:
        if stage.demand is None or not rate:
            stages.clear()
            break
        stages.append((stage.tasks, stage.demand * records / rate))
    return Work(
        executors=executors,
        slots=assessment.slots_per_executor or 1,
        records=records,
        duration_s=duration_s,
        stages=tuple(stages),
        driver_s=assessment.driver_s,
        capped=bool(assessment.capped),
        is_first=assessment.batches == 1,
    )


@dataclass(frozen=True, slots=True)
class StageLine:
    """Weighted sums over the batches of a stage: x = R·S^h, y = slot seconds.

    Attributes:
        tasks: T of the last batch; 0: not known, without waves.
        least: the fixed part where the batches do not tell it, s.
    """

    tasks: int
    least: float
    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0

    def add(self, tasks: int, x: float, y: float) -> StageLine:
        return StageLine(
            tasks=tasks,
            least=_TASK_S * tasks if tasks else self.least,
            weight=_FADE * self.weight + 1,
            x=_FADE * self.x + x,
            y=_FADE * self.y + y,
            xx=_FADE * self.xx + x * x,
            xy=_FADE * self.xy + x * y,
        )

    def fit(self) -> tuple[float, float]:
        """I, s, and c, s a record.

        >>> line = StageLine(4, 0.08)
        >>> for records in (1000.0, 2000.0, 3000.0):
        ...     line = line.add(4, records, 0.5 + 0.002 * records)
        >>> [round(each, 3) for each in line.fit()]
        [0.499, 0.002]
        """
        x, y = self.x / self.weight, self.y / self.weight
        prior = max(y - self.least, 0.1 * y) / x
        ridge = _RIDGE * x * x
        slope = (self.xy / self.weight - x * y + ridge * prior) / (max(self.xx / self.weight - x * x, 0.0) + ridge)
        slope = min(slope if slope > 0 else prior, y / x)
        return y - slope * x, slope


class Ratio(NamedTuple):
    """Mean of duration ÷ prediction of the batches at a number of executors, of so much weight."""

    executors: int
    ratio: float
    weight: float


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Weighted sums of ln(S) and of ln(c) over the batches."""

    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0

    def add(self, x: float, y: float) -> Hindrance:
        return Hindrance(
            _FADE * self.weight + 1,
            _FADE * self.x + x,
            _FADE * self.y + y,
            _FADE * self.xx + x * x,
            _FADE * self.xy + x * y,
        )

    @property
    def spread(self) -> float:
        return max(0.0, self.xx - self.x * self.x / self.weight) if self.weight else 0.0

    @property
    def exponent(self) -> float:
        """h.

        >>> seen = Hindrance()
        >>> for slots in (1, 2, 4, 8) * 10:
        ...     seen = seen.add(math.log(slots), math.log(0.001 * slots**0.2))
        >>> round(seen.exponent, 2)
        0.2
        """
        if not self.weight:
            return 0.0
        slope = (self.xy - self.x * self.y / self.weight) / (self.spread + _HINDRANCE_RIDGE)
        return min(max(slope, _HINDRANCE[0]), _HINDRANCE[1])


@dataclass(frozen=True, slots=True)
class BatchCost:
    """The model. Without stages nothing is known.

    Attributes:
        slots: of an executor.
        driver_s: p.
        ratios: corrections, by ascending number of executors.
        cap: records of a full batch; None: none was full.
        is_cold: whether it is of a first batch only, which the next one replaces.
    """

    slots: int = 1
    stages: tuple[StageLine, ...] = ()
    driver_s: float = 0.0
    hindrance: Hindrance = field(default_factory=Hindrance)
    ratios: tuple[Ratio, ...] = ()
    cap: int | None = None
    is_cold: bool = False

    @property
    def is_known(self) -> bool:
        return bool(self.stages)

    def correction(self, executors: int) -> float:
        """ρ: of a number never seen 70 % of its nearest neighbour's deviation, × (1 + σ · |ln(n ÷ nearest)|).

        σ = √(0.0225 ÷ (1 + spread of ln S)): 15 % for a factor e at first, less once h is known.

        >>> model = BatchCost(ratios=(Ratio(4, 1.1, 5.0),))
        >>> model.correction(4), round(model.correction(8), 3), round(model.correction(2), 3)
        (1.1, 1.181, 1.181)
        """
        if not self.ratios:
            return 1.0
        nearest = min(self.ratios, key=lambda each: abs(math.log(each.executors / executors)))
        if nearest.executors == executors:
            return nearest.ratio
        doubt = math.sqrt(_DOUBT / (1 + self.hindrance.spread))
        away = abs(math.log(executors / nearest.executors))
        return (1 + _OF_NEAREST * (nearest.ratio - 1)) * (1 + doubt * away)


class Costs:
    """F(n) and G(n) of a model, each computed once."""

    def __init__(self, model: BatchCost) -> None:
        self.cap = model.cap
        self._model = model
        self._exponent = model.hindrance.exponent
        self._parts = [(line.tasks, *line.fit()) for line in model.stages]
        self._known: dict[int, tuple[float, float]] = {}

    def raw(self, executors: int) -> tuple[float, float]:
        """F, s, and G, s a record, without the correction."""
        slots = executors * self._model.slots
        fixed_s, record_s, hinders = self._model.driver_s, 0.0, slots**self._exponent
        for tasks, base_s, cost_s in self._parts:
            share = math.ceil(tasks / slots) / tasks if tasks else 1 / slots
            fixed_s += base_s * (share if tasks else 1.0)
            record_s += cost_s * hinders * share
        return fixed_s, record_s

    def batch(self, executors: int) -> tuple[float, float]:
        """F, s, and G, s a record."""
        known = self._known.get(executors)
        if known is None:
            fixed_s, record_s = self.raw(executors)
            ratio = self._model.correction(executors)
            known = self._known[executors] = (fixed_s * ratio, record_s * ratio)
        return known

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


def learn_batch(model: BatchCost, work: Work) -> BatchCost:
    """The model with one more finished batch.

    A batch whose records take less than a quarter of its fixed part teaches nothing. Of the first batches at a number,
    which are cold, one only counts if nothing else is known, or if it is far slower than predicted: a model that is
    wrong must not wait for a second batch.
    """
    model = _follow_cap(model, work)
    if work.slots != model.slots:
        model = replace(model, slots=work.slots, hindrance=Hindrance(), ratios=())
    if not model.stages or model.is_cold:
        fresh = _fit_batch(BatchCost(slots=work.slots, cap=model.cap), work)
        return replace(fresh, is_cold=work.is_first)
    fixed_s, record_s = Costs(model).batch(work.executors)
    predicted_s = fixed_s + record_s * work.records
    if work.is_first:
        if work.duration_s <= _SLOW * predicted_s + _SLOW_S:
            return model
        ratio = (work.duration_s - _SLOW_S) / predicted_s * model.correction(work.executors)
        return replace(model, ratios=_with_ratio(model.ratios, Ratio(work.executors, ratio, 1.0)))
    if record_s * work.records < _TELLS * fixed_s:
        return model
    return _correct(_fit_batch(model, work), work)


def _follow_cap(model: BatchCost, work: Work) -> BatchCost:
    if work.capped:
        return replace(model, cap=work.records)
    if model.cap is not None and work.records > _LARGER * model.cap:
        return replace(model, cap=None)
    return model


def _fit_batch(model: BatchCost, work: Work) -> BatchCost:
    """The model whose stages, driver and hindrance know this batch."""
    slots, driver_s = work.executors * work.slots, work.driver_s or 0.0
    stages = work.stages or ((0, work.duration_s * slots),)
    lines = model.stages
    if len(lines) != len(stages):
        lines = tuple([StageLine(tasks, _TASK_S * tasks) for tasks, _ in stages])
    x = work.records * slots**model.hindrance.exponent
    waits_s = 0.0
    if not work.stages:  # one stage without waves, whose fixed part is in seconds of the batch
        x /= slots
        fitted = (replace(lines[0], least=driver_s).add(0, x, work.duration_s),)
    else:
        fitted = tuple([line.add(tasks, x, busy_s) for line, (tasks, busy_s) in zip(lines, stages, strict=True)])
        waits_s = work.duration_s - sum(math.ceil(tasks / slots) / tasks * busy_s for tasks, busy_s in stages if tasks)
    gain = _DRIVER_GAIN if model.stages else 1.0
    driver_s = model.driver_s + gain * (max(0.0, waits_s) - model.driver_s)
    fixed = sum(line.fit()[0] for line in fitted) * (1 if work.stages else slots)
    cost = (sum(busy_s for _, busy_s in stages) - fixed) / work.records
    hindrance = model.hindrance.add(math.log(slots), math.log(cost)) if cost > 0 else model.hindrance
    return replace(model, stages=fitted, driver_s=driver_s, hindrance=hindrance)


def _correct(model: BatchCost, work: Work) -> BatchCost:
    fixed_s, record_s = Costs(model).raw(work.executors)
    ratio = work.duration_s / (fixed_s + record_s * work.records)
    past = next((each for each in model.ratios if each.executors == work.executors), None)
    if past is None:
        past = Ratio(work.executors, 1 + _OF_NEAREST * (model.correction(work.executors) - 1), 0.0)
    weight = min(past.weight + 1, _MEMORY)
    new = Ratio(work.executors, past.ratio + (ratio - past.ratio) / weight, weight)
    return replace(model, ratios=_with_ratio(model.ratios, new))


def _with_ratio(ratios: tuple[Ratio, ...], new: Ratio) -> tuple[Ratio, ...]:
    kept = [each for each in ratios if each.executors != new.executors]
    if len(kept) >= _MOST_NUMBERS:
        kept.remove(min(kept, key=lambda each: abs(math.log(each.executors / new.executors))))
    return tuple(sorted([*kept, new]))
