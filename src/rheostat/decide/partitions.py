"""A number of executors that the partitions divide evenly among themselves.

:func:`align` is that of the policy ``flink``. Source: the alignment of the Flink Kubernetes operator's autoscaler,
apache/flink-kubernetes-operator, flink-autoscaler/src/main/java/org/apache/flink/autoscaler/JobVertexScaler.java
(``scale``).

:func:`in_waves` and :func:`spread_evenly` are those of the guard step ``alignment``, in executors with several slots.
Sources: S5, "partition balancing" (8 partitions on 3 nodes × 2 slots; a fourth node takes the most loaded slot from 2
to 1), in Spark waves of ⌈partitions ÷ slots⌉ tasks; S4 (numbers that divide the state's partitions balance the state).
Applied always, balancing would double a job of 100 partitions on 51 slots. So it applies only where it adds at most
a given share, never takes more away than was to go, and never turns an increase or a decrease.
"""

from __future__ import annotations

from typing import Literal

from rheostat.model import Assessment

Alignment = Literal["evenly-spread", "maximize-utilisation"]


def align(current: int, wanted: int, groups: int, mode: Alignment, limits: tuple[int, int | None] = (1, None)) -> int:
    """The number near ``wanted`` on which ``groups`` are spread well; ``current`` where there is none.

    First upwards from ``wanted``, for a decrease up to ``current``: a divisor of ``groups``; with
    ``maximize-utilisation`` also the first number on which an instance has fewer whole groups than on ``wanted``.
    Then downwards: the least number on which it has no more of them than on ``wanted``, or the number just below that
    if it is a divisor (so that 3 on 7 partitions go to 1 where 2 are wanted). What would turn the direction does not
    count, nor what is beyond the limits (least and most; None: no limit). More instances than groups never come out.

    >>> align(16, 24, 128, "evenly-spread"), align(10, 25, 128, "maximize-utilisation")
    (32, 26)
    """
    least, most = limits
    wanted = max(least, wanted if most is None else min(wanted, most))
    wanted = min(wanted, max(current, groups + 1))
    if wanted == current:
        return current
    up = wanted > current
    upper = min(groups, groups if most is None else most, groups if up else current)
    for number in range(wanted, upper + 1):
        fewer = mode == "maximize-utilisation" and groups // number < groups // wanted
        if groups % number == 0 or fewer:
            return number
    below = max(least, _below(wanted, groups))
    return below if below != current and (below > current) == up else current


def _below(wanted: int, groups: int) -> int:
    """The divisor from which on downwards an instance has more whole groups than on ``wanted``, or the next above."""
    for number in range(wanted, 0, -1):
        if groups // number > groups // wanted:
            return number if groups % number == 0 else number + 1
    return 0


def tasks_of_batch(assessment: Assessment) -> int | None:
    """Tasks of the stage with the most work, where they are more than the partitions; else the partitions.

    >>> from rheostat.model import StageLoad
    >>> tasks_of_batch(Assessment(0.0, partitions=4, stages=(StageLoad(4, 0.2), StageLoad(200, 0.8))))
    200
    """
    if assessment.queries > 1 or not assessment.stages:
        return assessment.partitions
    largest = max(assessment.stages, key=lambda stage: stage.share)
    return max(assessment.partitions or 0, largest.tasks)


def waves(partitions: int, slots: int) -> int:
    """Tasks that the most loaded slot works off one after another, ⌈partitions ÷ slots⌉.

    >>> waves(8, 6), waves(8, 8), waves(100, 51)
    (2, 1, 2)
    """
    return -(-partitions // slots)


def in_waves(current: int, wanted: int, partitions: int, slots: int, most: int) -> int:
    """The number near ``wanted``, and at most ``most``, on which the last wave of tasks is full, or fuller.

    More than wanted where that saves a wave; for an increase else the least number with as many waves, as the others
    would only wait in the last wave. ``wanted`` where neither is possible. ``slots``: of one executor.

    >>> in_waves(2, 3, 8, 2, most=4), in_waves(2, 3, 8, 2, most=3), in_waves(40, 51, 100, 1, most=68)
    (4, 3, 50)
    """
    up, now = wanted > current, waves(partitions, wanted * slots)
    if now > 1:
        fewer = waves(partitions, (now - 1) * slots)
        if fewer <= (most if up else min(most, current - 1)):
            return fewer
    least = waves(partitions, now * slots)
    return least if up and current < least < wanted else wanted


def spread_evenly(current: int, wanted: int, groups: int, slots: int, most: int) -> int:
    """The least number from ``wanted`` on whose slots have the same share of ``groups``; ``wanted`` without one.

    Arguments as of :func:`in_waves`.

    >>> spread_evenly(4, 6, 200, 1, most=8), spread_evenly(10, 7, 200, 1, most=9), spread_evenly(4, 6, 200, 3, most=8)
    (8, 8, 6)
    """
    top = min(most if wanted > current else min(most, current - 1), groups // slots)
    return next((number for number in range(wanted, top + 1) if groups % (number * slots) == 0), wanted)
