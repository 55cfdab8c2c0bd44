"""Hysteresis: a number of executors goes up at once and down slowly. S1 3.3, corrected.

    S ← S + (α if target > S else β) · (target − S)          n = round(S)

S is a real number. With S an integer, as printed, it stalls one short: 6 → 4 → 3 → 2 → 2 for a target of 1.
"""

from __future__ import annotations

import math

__all__ = ["eased", "rounded"]


def eased(level: float, target: int, in_force: int, gains: tuple[float, float]) -> float:
    """S after one decision.

    What kept the number in force from following S (bounds, cooldowns, a cluster without room) must not let S run
    away from it: it starts from the nearest value that rounds to the number in force [ours].

    Args:
        level: S so far.
        target: the number that is wanted.
        in_force: the number in force.
        gains: α and β, in (0, 1].

    >>> eased(6.0, 1, 6, (0.9, 0.4)), eased(2.0, 5, 2, (0.9, 0.4)), eased(30.0, 4, 8, (0.9, 0.4))
    (4.0, 4.7, 6.7)
    """
    level = min(max(level, in_force - 0.5), in_force + 0.5)
    gain = gains[0] if target > level else gains[1]
    return level + gain * (target - level)


def rounded(level: float) -> int:
    """The nearest whole number; a half goes up, to the safe side.

    >>> rounded(2.5), rounded(2.49)
    (3, 2)
    """
    return math.floor(level + 0.5)
