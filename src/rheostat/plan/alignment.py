"""A number of executors that the partitions divide evenly among themselves.

Source: the alignment of the Flink Kubernetes operator's autoscaler, apache/flink-kubernetes-operator,
flink-autoscaler/src/main/java/org/apache/flink/autoscaler/JobVertexScaler.java (``scale``).
"""

from __future__ import annotations

from typing import Literal

__all__ = ["Alignment", "aligned"]

Alignment = Literal["evenly-spread", "maximize-utilisation"]


def aligned(current: int, wanted: int, groups: int, mode: Alignment, limits: tuple[int, int | None] = (1, None)) -> int:
    """The number near ``wanted`` on which ``groups`` are spread well; ``current`` where there is none.

    First upwards from ``wanted``, for a decrease up to ``current``: a divisor of ``groups``; with
    ``maximize-utilisation`` also the first number on which an instance has fewer whole groups than on ``wanted``.
    Then downwards: the least number on which it has no more of them than on ``wanted``, or the number just below that
    if it is a divisor (so that 3 on 7 partitions go to 1 where 2 are wanted). What would turn the direction does not
    count.

    Args:
        current: the number in force.
        wanted: the number that the load needs, ≥ 1.
        groups: partitions or key groups, ≥ 1; more instances than groups never come out.
        mode: what "well" is.
        limits: least and most; None: no limit.

    >>> aligned(16, 24, 128, "evenly-spread"), aligned(10, 25, 128, "maximize-utilisation")
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
    found = max(least, _below(wanted, groups))
    return found if found != current and (found > current) == up else current


def _below(wanted: int, groups: int) -> int:
    """The divisor from which on downwards an instance has more whole groups than on ``wanted``, or the next above."""
    for number in range(wanted, 0, -1):
        if groups // number > groups // wanted:
            return number if groups % number == 0 else number + 1
    return 0
