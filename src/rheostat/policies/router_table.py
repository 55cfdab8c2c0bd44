"""The performance table of ``router``: the capacity by number of executors. S5, Performance Table.

A *row* is a :class:`~rheostat.policies.capacity.Figure`. As published (``rows="saturated"``) it is the processed rate
while lag or utilization was a reason to go up (``"both"``: both were), and replaces the older row of that size. Ours
(``rows="learned"``) is the rate that each batch shows, saturated or not, a mean in which the past weighs at most
``memory`` batches: the speed of the executors, to which the driver's part of a batch is added when the table is looked
up. Before the fixed part of their own is known a row is a lower bound, which the first measurement removes.

The look-up is literal: between two rows n₀ → r₀ and n₁ → r₁ the size for t is ⌈n₀ + (n₁ − n₀)(t − r₀) ÷ (r₁ − r₀)⌉,
above the last ⌈t ÷ (r_last ÷ n_last)⌉. The talk leaves these cases open:

* *no rows*: no size; the caller takes one more executor, and none less. *Below the first row*: the line from the
  origin;
* *contradictory rows*, more executors with no higher rate: the newer one replaces the others. Learned ones may differ
  by a tenth, since waves of tasks make two numbers carry the same; the first that carries t counts;
* *another version* of the job, or *another record size*, which is a cost of a record beyond ``record_change`` times
  what it was, either way: the rows are put *aside*. As published the cost is the slot time of a record when a row is
  written; learned ones need three batches in a row that show it. A short batch of the same records is slow too, as far
  as its fixed part is longer than known: it shows nothing.

Rows aside size an increase while there are no others, since a wrong guess above n + 1 is better than none; they never
justify a decrease.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rheostat.analyze.batches import DRIVEN
from rheostat.model import Assessment
from rheostat.policies.capacity import (
    NOISE,
    Figure,
    Frame,
    Learned,
    driver_part_s,
    follow_frame,
    follow_run,
    learn_healthy,
    learn_overload,
    mean_with,
    weigh_figures,
)

_SHORT = 1.5
"""Batches shorter than so many times their fixed part show too little."""
_STRANGE = 3
"""Batches in a row beyond ``record_change`` that are another record size; one may be a hiccup."""


@dataclass(frozen=True, slots=True)
class Table:
    """The rows, and what they belong to.

    Attributes:
        rows: in their ``figures``, by ascending number of executors.
        aside: rows of an older version or another record size.
        cost: slot seconds of a record when the last row was written.
        strange: batches in a row that do not fit the row of their size.
    """

    rows: Learned = field(default_factory=Learned)
    aside: tuple[Figure, ...] = ()
    version: str = ""
    cost: float | None = None
    costs: BatchCosts = field(default_factory=lambda: BatchCosts())
    strange: int = 0

    def rows_for_increase(self) -> Learned:
        """The rows that size an increase: those aside where there are no others."""
        if self.rows.figures or not self.aside:
            return self.rows.best
        return Learned(figures=self.aside, frame=self.rows.frame)


def make_room(rows: Learned, size: int, rate: float, utilization: float) -> int:
    """The size, or more, so that no more than ``utilization`` of it is used.

    >>> table = Learned(figures=(Figure(4, 10_000.0, 1, 0.0), Figure(10, 20_000.0, 1, 0.0)))
    >>> make_room(table, 4, 9000.0, 0.6)
    7
    """
    return max(size, rows.enough(rate / utilization) or size)


def for_version(table: Table, version: str) -> Table:
    """The table for this version of the job: rows of another one are put aside."""
    return table if version == table.version else replace(_put_aside(table), version=version)


def for_run(table: Table, assessment: Assessment) -> Table:
    """The table with learned rows for the runs of this sample: rows of earlier ones are doubtful."""
    rows = follow_run(table.rows, assessment)
    return table if rows is table.rows else replace(table, rows=rows, costs=BatchCosts(), strange=0)


def _put_aside(table: Table) -> Table:
    return Table(
        Learned(trust=table.rows.trust, frame=table.rows.frame), table.rows.figures or table.aside, table.version
    )


def _is_beyond(ratio: float, factor: float) -> bool:
    return not 1 / factor <= ratio <= factor


def insert_row(rows: Learned, new: Figure, noise: float = 1.0) -> Learned:
    """The rows with a new one in place of the row of its size, without those that contradict it.

    Two rates with a ratio up to ``noise`` are the same; with 1, two rows with the same rate contradict each other.

    >>> insert_row(Learned(figures=(Figure(4, 20_000.0, 1, 0.0),)), Figure(10, 10_000.0, 1, 60.0)).figures
    (Figure(executors=10, rate=10000.0, samples=1, at=60.0),)
    """
    most, least, size = new.rate * noise, new.rate / noise, new.executors
    figures = [each for each in rows.figures if noise > 1 or each.rate != new.rate]
    below = [each for each in figures if each.executors < size and each.rate <= most]
    above = [each for each in figures if each.executors > size and each.rate >= least]
    return replace(rows, figures=(*below, new, *above))


# ---------------------------------------------------------------------------------------------- as published


def write_saturated(table: Table, assessment: Assessment, record_change: float) -> Table:
    """The table with a row of the processed rate; ``assessment.executors`` is the size at the metric's own time."""
    if not assessment.executors or not assessment.processed_rate:
        return table
    cost = record_cost(assessment)
    if cost is not None and table.cost is not None and _is_beyond(cost / table.cost, record_change):
        table = _put_aside(table)
    rows = insert_row(table.rows, Figure(assessment.executors, assessment.processed_rate, 1, assessment.at))
    return replace(table, rows=rows, cost=cost or table.cost)


def record_cost(assessment: Assessment) -> float | None:
    """Slot seconds of a record; None: unknown.

    >>> record_cost(Assessment(0.0, executors=4, slots_per_executor=2, busy_ratio=0.5, processed_rate=1000.0))
    0.004
    """
    n, slots = assessment.executors, assessment.slots_per_executor
    busy, processed = assessment.busy_ratio, assessment.processed_rate
    return busy * n * slots / processed if n and slots and busy and processed else None


# --------------------------------------------------------------------------------------------------- learned


def learn_batch(
    table: Table, assessment: Assessment, memory: int | None, record_change: float, *, saturated: bool
) -> Table:
    """The table with the rate of a batch that has ended since the last sample of a settled job.

    Where the records of the batch are unknown (several queries), it learns as ``reactive`` does.

    Args:
        table: as of the sample before.
        assessment: the sample.
        memory: batches that a row weighs at most; None: all.
        record_change: factor beyond which records cost something else.
        saturated: whether the sample shows significant lag or utilization.
    """
    number, records, batch_s = assessment.last_batch_id, assessment.last_batch_records, assessment.last_batch_s
    if number is None or records is None or not batch_s or not assessment.period_s or not assessment.executors:
        rows = learn_overload(assessment, table.rows, memory) if saturated else learn_healthy(assessment, table.rows)
        return replace(table, rows=rows)
    if number == table.costs.last or records <= 0:
        return table
    frame, part_s = follow_frame(table.rows.frame, assessment), batch_s - driver_part_s(assessment)
    costs = add_batch(table.costs, number, assessment.executors, float(records), part_s)
    table = replace(table, costs=costs, rows=replace(table.rows, frame=frame))
    fixed = fixed_s(table.costs, assessment.executors)
    if fixed is not None and part_s < _SHORT * fixed:
        return table
    rate = records / part_s
    if not assessment.capped:
        rate = speed_in(executors_period_s(frame), float(records), part_s, fixed or 0.0)
    row = Figure(assessment.executors, rate, 0 if fixed is None else 1, assessment.at)
    if fixed is not None:
        is_short = part_s < costs.batch / costs.weight
        return _add_measurement(table, row, memory, record_change, is_short=is_short)
    is_more = rate > (table.rows.trusted.speed(row.executors) or 0.0)
    return replace(table, rows=_insert_bound(table.rows, row)) if is_more else table


def _insert_bound(rows: Learned, row: Figure) -> Learned:
    """The rows with a lower bound; doubtful ones of other numbers wait for a measurement."""
    rows = weigh_figures(rows, row)
    doubtful = [each for each in rows.trust.doubtful(rows.figures) if each.executors != row.executors]
    figures = [*doubtful, *insert_row(rows.trusted, row, NOISE).figures]
    return replace(rows, figures=tuple(sorted(figures, key=lambda each: each.executors)))


def _add_measurement(table: Table, row: Figure, memory: int | None, record_change: float, *, is_short: bool) -> Table:
    """The table with a measurement in the mean of its row; or restarted with it, where records have changed.

    ``is_short``: the batch was shorter than most, so it may be slower by its fixed part alone.
    """
    before = table.rows.trusted.figure(row.executors)
    is_bound = before is not None and not before.samples
    is_strange = before is not None and _is_beyond(row.rate / before.rate, record_change)
    if before is not None and is_short and row.rate < before.rate and (is_bound or is_strange):
        return table
    if before is None or is_bound:
        return replace(table, rows=insert_row(weigh_figures(table.rows.measured, row), row, NOISE), strange=0)
    if is_strange:
        if table.strange + 1 < _STRANGE:
            return replace(table, strange=table.strange + 1)
        table = _put_aside(table)
        return replace(table, rows=insert_row(table.rows, row, NOISE))
    count = before.samples if memory is None else min(before.samples, memory - 1)
    row = replace(row, rate=mean_with(before.rate, before.samples, row.rate, memory), samples=count + 1)
    return replace(table, rows=insert_row(table.rows, row, NOISE), strange=0)


# ------------------------------------------------------- the cost of a batch: capacity before saturation [ours]

_FADE = 0.998
"""Weight of the past at each batch: those of the last two hours, at one each 15 s, are most of it."""
_LEAST_WEIGHT = 12.0
"""Batches, by their weights, before the fit is used."""
_SPREAD = 1e-3
"""Variance ÷ mean² of R ÷ n, or of 1 ÷ n, below which its coefficient is unknown: 3 % of variation."""
_MOST_FIXED = 0.7
_DOUBT = 2.0
"""Standard errors subtracted from the fixed part: a batch then shows too little, never too much."""


class BatchCosts(NamedTuple):
    """Sums for the regression of y on 1, x = 1 ÷ n and z = records ÷ n; the past is weighted by age.

    y is the executors' part of a batch.

    ``last`` is the id of the batch that was added last.
    """

    last: int | None = None
    weight: float = 0.0
    inverse: float = 0.0
    share: float = 0.0
    inverse2: float = 0.0
    cross: float = 0.0
    share2: float = 0.0
    batch: float = 0.0
    inverse_batch: float = 0.0
    share_batch: float = 0.0
    batch2: float = 0.0


def add_batch(costs: BatchCosts, number: int, executors: int, records: float, batch_s: float) -> BatchCosts:
    x, z, y = 1 / executors, records / executors, batch_s
    terms = (1.0, x, z, x * x, x * z, z * z, y, x * y, z * y, y * y)
    return BatchCosts(number, *(_FADE * total + term for total, term in zip(costs[1:], terms, strict=True)))


def fixed_s(costs: BatchCosts, executors: int) -> float | None:
    """The fixed part of y on so many executors, s; None: unknown, and a batch shows a lower bound.

    >>> costs = BatchCosts()
    >>> for number in range(24):
    ...     n, records = 1 + number % 3, 1000.0 * (1 + number % 7)
    ...     costs = add_batch(costs, number, n, records, 0.5 + 3 / n + records / (500 * n))
    >>> round(fixed_s(costs, 3), 3), round(fixed_s(costs, 1), 3)
    (1.5, 3.5)
    """
    w = costs.weight
    if w < _LEAST_WEIGHT:
        return None
    x, z, y = costs.inverse / w, costs.share / w, costs.batch / w
    xx, xz, zz = costs.inverse2 / w - x * x, costs.cross / w - x * z, costs.share2 / w - z * z
    xy, zy = costs.inverse_batch / w - x * y, costs.share_batch / w - z * y
    if zz <= _SPREAD * z * z:
        return None
    bend = xx - xz * xz / zz
    per_inverse = max(0.0, (xy - xz * zy / zz) / bend) if bend > _SPREAD * x * x else 0.0
    per_share = (zy - per_inverse * xz) / zz
    left = max(0.0, costs.batch2 / w - y * y - per_inverse * xy - per_share * zy) * w / (w - 3)
    doubt = _DOUBT * math.sqrt(left / w * (1 + z * z / zz))
    return max(0.0, y - per_inverse * x - per_share * z + per_inverse / executors - doubt)


def executors_period_s(frame: Frame) -> float:
    """The executors' part of a batch that takes τ, s."""
    return max(frame.period_s - frame.driver_s, (1 - DRIVEN) * frame.period_s)


def speed_in(period_s: float, records: float, part_s: float, fixed: float) -> float:
    """The speed of executors that processed a batch, in one whose executors' part takes ``period_s``, records/s.

    >>> speed_in(20.0, records=4000.0, part_s=5.0, fixed=1.0)
    950.0
    """
    fixed = min(fixed, _MOST_FIXED * min(part_s, period_s))
    return records / (part_s - fixed) * (period_s - fixed) / period_s
