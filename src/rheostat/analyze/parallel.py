"""Stages that follow one another in a batch: what each needs, and how many executors the largest keeps busy.

The stages of a batch share the slots, one after another. So the slots that a job needs are the sum of what its stages
need, but those that it can *use* are as many as its largest stage has tasks. A stage with less than ``COUNTS`` of the
task time does not count: to run it faster is worth no executor. Nor does a stage that reads have less than one task for
each partition, however few of them had records in the last batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rheostat.model import StageLoad, StageWork

__all__ = ["COUNTS", "stage_loads", "useful_tasks"]

COUNTS = 0.05
"""Least share of the task time of a batch."""


def stage_loads(stages: Sequence[StageWork], records: int | None, arrival_rate: float | None) -> tuple[StageLoad, ...]:
    """What each stage needs; empty for a batch whose tasks took no time.

    Args:
        stages: of the last batch.
        records: of that batch.
        arrival_rate: records/s.

    >>> stage_loads([StageWork(4, 6.0), StageWork(16, 2.0)], 1000, 500.0)
    (StageLoad(tasks=4, share=0.75, demand=3.0), StageLoad(tasks=16, share=0.25, demand=1.0))
    """
    whole_s = math.fsum(stage.busy_s for stage in stages)
    if whole_s <= 0:
        return ()
    each_s = arrival_rate / records if arrival_rate is not None and records else None
    return tuple(
        [
            StageLoad(stage.tasks, stage.busy_s / whole_s, None if each_s is None else stage.busy_s * each_s)
            for stage in stages
        ]
    )


def useful_tasks(stages: Sequence[StageLoad], partitions: int) -> int:
    """Slots that the largest stage keeps busy.

    >>> useful_tasks([StageLoad(4, 0.75), StageLoad(16, 0.25)], 8), useful_tasks([StageLoad(900, 0.04)], 8)
    (16, 8)
    """
    return max([partitions, *[stage.tasks for stage in stages if stage.share >= COUNTS]])
