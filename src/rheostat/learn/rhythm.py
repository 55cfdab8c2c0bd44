"""Whether a load rises at regular times, as with jobs that run every hour, and when it will rise next [ours].

The last four rises are remembered, each with the rate four samples later: a burst that is over by then is none. They
are regular if the times between them differ from their median by two samples at most; bursts without memory are so once
in hundreds of times. Nothing is expected of others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from rheostat.learn.arrivals import Level

_RISES = 4
_LEAST_RISE = math.log(1.3)
_SAME_RISE, _OFF_BY = 4, 2
"""Samples that a rise may take, and by which it may be early or late."""
_RARE = 4


class Rise(NamedTuple):
    """When the load had jumped up, and its rate four samples later."""

    at: float
    rate: float


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The last rises, the latest last."""

    rises: tuple[Rise, ...] = ()

    def next_rise(self, at: float, sample_s: float, ahead_s: float) -> Rise | None:
        """The rise within that time, to the least rate of the last ones; None: they are not regular, or it is late.

        Nor is there any where they come so often that one would hardly do anything but wait for the next.

        >>> rhythm = Rhythm(tuple([Rise(3600.0 * hour, 500.0 + hour) for hour in range(4)]))
        >>> rhythm.next_rise(14_000.0, 15.0, 300.0), rhythm.next_rise(14_200.0, 15.0, 300.0)
        (None, Rise(at=14385.0, rate=500.0))
        """
        if len(self.rises) < _RISES:
            return None
        between = sorted([after.at - before.at for before, after in pairwise(self.rises)])
        period_s, allowed_s = between[len(between) // 2], _OFF_BY * sample_s
        if period_s - between[0] > allowed_s or between[-1] - period_s > allowed_s or period_s < _RARE * ahead_s:
            return None
        due = self.rises[-1].at + period_s
        if not due - sample_s - ahead_s <= at <= due + allowed_s:
            return None
        return Rise(due - sample_s, min([rise.rate for rise in self.rises]))


def follow_rhythm(past: Rhythm, before: Level, level: Level, at: float, sample_s: float) -> Rhythm:
    """The rises with one more sample, whose ``level`` this is."""
    last = past.rises[-1] if past.rises else None
    if last is not None and at - last.at <= _SAME_RISE * sample_s:
        return Rhythm((*past.rises[:-1], Rise(last.at, level.rate)))
    if level.log_rate is None or not before.count:
        return past
    if before.log_rate is not None and (level.calm or level.log_rate - before.log_rate < _LEAST_RISE):
        return past
    return Rhythm((*past.rises, Rise(at, level.rate))[-_RISES:])
