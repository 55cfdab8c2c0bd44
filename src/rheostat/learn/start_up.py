"""How long executors take to start: the distribution of the time from the request to the registration.

Each executor that registers is matched with the oldest request that is open, so a start-up is known to half a sample.
The times are taken for log-normal; the mean and the variance of their logarithms start at a median of 15 s and a
deviation of a half, which count as two executors [ours].
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

_PRIOR = math.log(15.0)
_MEMORY = 40.0
_MOST_OPEN = 256
_TAIL = 1.3
_FEW, _MANY_OPEN = 6, 3
_LONGEST_S = 1800.0

QUANTILES = (-1.28, -0.52, 0.0, 0.52, 1.28)
"""Deviations of the five fifths of a group of executors, the first to come first."""


@dataclass(frozen=True, slots=True)
class StartUp:
    """What start-ups have taken.

    Attributes:
        mean, variance: of ln(seconds).
        weight: executors that they stand for; ``seen``: executors that were timed.
        open: when the executors that have not registered yet were requested, the oldest first.
        waited_s: how long the oldest of them has waited.
        registered: executors at the last look; None: no look yet.
    """

    mean: float = _PRIOR
    variance: float = 0.25
    weight: float = 2.0
    seen: int = 0
    open: tuple[float, ...] = ()
    waited_s: float = 0.0
    registered: int | None = None

    @property
    def deviation(self) -> float:
        return math.sqrt(self.variance)

    @property
    def _is_overdue(self) -> bool:
        """Whether those that are open say more than those that have come."""
        return len(self.open) >= _MANY_OPEN or (bool(self.open) and self.seen < _FEW)

    @property
    def median_s(self) -> float:
        """D. Executors that have not come after the usual time show that it is longer.

        >>> round(StartUp().median_s), round(StartUp(open=(0.0,), waited_s=60.0).median_s)
        (15, 66)
        """
        usual = math.exp(self.mean)
        late = 1.1 * self.waited_s if self._is_overdue and self.waited_s > usual else 0.0
        return min(max(usual, late), _LONGEST_S)

    @property
    def late_s(self) -> float:
        """D⁺: nine of ten have come by then."""
        usual = math.exp(self.mean)
        late = 1.5 * self.waited_s if self._is_overdue and self.waited_s > usual else 0.0
        return min(max(usual * math.exp(_TAIL * self.deviation), late), _LONGEST_S)

    def arrivals(self, count: int, after_s: float = 0.0) -> list[tuple[float, int]]:
        """When executors requested in ``after_s`` seconds join, s from now, and how many: at most five groups.

        >>> [(round(at, 1), count) for at, count in StartUp(variance=0.0).arrivals(7)]
        [(15.0, 1), (15.0, 2), (15.0, 1), (15.0, 2), (15.0, 1)]
        """
        deviation, median, parts = self.deviation, self.median_s, len(QUANTILES)
        groups = [0] * parts
        for place in range(count):
            groups[int(parts * (place + 0.5) / count)] += 1
        return [
            (after_s + median * math.exp(deviation * z), size)
            for z, size in zip(QUANTILES, groups, strict=True)
            if size
        ]

    def under_way(self, at: float) -> list[tuple[float, int]]:
        """When the executors that were requested already join, s from now."""
        count, found = len(self.open), list[tuple[float, int]]()
        for place, requested_at in enumerate(self.open):
            z = QUANTILES[int(len(QUANTILES) * (place + 0.5) / count)]
            left_s = requested_at + self.median_s * math.exp(self.deviation * z) - at
            found.append((max(left_s, 0.2 * self.median_s), 1))
        return sorted(found)


def follow_start_up(past: StartUp, at: float, last_at: float, registered: int, target: int) -> StartUp:
    """The distribution with the executors that registered since the last look, and those asked for at it."""
    before = past.registered if past.registered is not None else registered
    mean, variance, weight, seen, waiting = past.mean, past.variance, past.weight, past.seen, past.open
    for requested_at in waiting[: max(0, registered - before)]:
        log = math.log(max((at + last_at) / 2 - requested_at, 0.5))
        weight = min(weight + 1, _MEMORY)
        mean, variance = mean + (log - mean) / weight, variance + ((log - mean) ** 2 - variance) / weight
        seen += 1
    waiting = waiting[max(0, registered - before) :]
    count = max(0, target - registered)
    waiting = waiting[:count] + (last_at,) * min(count - len(waiting), _MOST_OPEN)
    return replace(
        past,
        mean=mean,
        variance=variance,
        weight=weight,
        seen=seen,
        open=waiting[:_MOST_OPEN],
        waited_s=at - waiting[0] if waiting else 0.0,
        registered=registered,
    )
