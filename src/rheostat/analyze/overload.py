"""Back pressure on micro-batches: when a query is overloaded, and whether executors would help.

S2, Algorithm 1, calls an operator the root of an overload if all operators before it are under back pressure for more
than half of the time and it is not itself. Back pressure of an operator is the share of time in which it is held up by
those after it. In a micro-batch query nothing queues between stages; the one queue is at the source. So:

* **Whole query.** What stands before it is the backlog of its source. Its pressure is the share of the window in which
  it is *pressed*: batches run back to back (batch time ≥ trigger), and there is more backlog than a healthy job has, or
  the batch takes τ or longer. After it comes the sink, which is part of the batch: nothing holds the query itself up,
  its own back pressure is 0. Another query that reads its output has a source of its own, and is judged by that.
* **Parts of a batch** (planning, work of the executors, commit; or stages) follow one another, so a part is held up
  while those after it run: its back pressure is the query's × the share of the batch time that comes after it.

More executors shorten the stages and nothing else. So a query whose root is the driver's part is not pressed: it is
slow, but executors do not help it.

The window is the rate window, and begins anew with a change of the number of executors, a restart of the query, and a
look at which this is unknown: samples that overlap a reconfiguration do not count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from rheostat.model import Batch

__all__ = ["HIGH", "Turns", "overloaded", "pressed", "read_pressure", "root"]

HIGH = 0.5
"""Share of the time above which back pressure is high (S2, Algorithm 1: > 0.5)."""

_WORK = 1


class Turns(NamedTuple):
    """When a query was pressed.

    Attributes:
        since: begin of what is remembered.
        times: when it began and when it ceased to be pressed, in turn; an odd number of them: it is pressed.
    """

    since: float
    times: tuple[float, ...] = ()


def overloaded(before: Sequence[float], own: float) -> bool:
    """Algorithm 1: all back pressures before an operator are high, its own is not.

    >>> overloaded([0.51], 0.5), overloaded([0.5], 0.0), overloaded([0.9, 0.2], 0.0), overloaded([0.9], 0.6)
    (True, False, False, False)
    """
    return all(each > HIGH for each in before) and own <= HIGH


def root(pressure: float, durations_s: Sequence[float]) -> int | None:
    """The place of the part of a batch that is the root of the overload; None: there is none.

    Args:
        pressure: of the query, in [0, 1].
        durations_s: of its parts, one after another.

    >>> root(1.0, [0.04, 2.58, 0.01]), root(1.0, [3.0, 1.0, 0.1]), root(0.4, [0.04, 2.58, 0.01])
    (1, 0, None)
    """
    total_s = left_s = math.fsum(durations_s)
    before = pressure
    for place, duration_s in enumerate(durations_s):
        left_s -= duration_s
        own = pressure * left_s / total_s if total_s > 0 else 0.0
        if overloaded([before], own):
            return place
        before = own
    return None


def pressed(
    batch_s: float | None,
    trigger_s: float | None,
    period_s: float | None,
    backlog: int | None,
    excess: float | None,
    last: Batch | None,
) -> bool | None:
    """Whether a query works back to back with a backlog that executors would clear; None where unknown.

    Args:
        batch_s: time of the last or the running batch.
        trigger_s: its trigger interval.
        period_s: its τ.
        backlog: records that are not committed.
        excess: those beyond a healthy backlog.
        last: the last finished batch, for its parts.
    """
    if batch_s is None or trigger_s is None or period_s is None or backlog is None or excess is None:
        return None
    if batch_s < trigger_s or backlog <= 0 or (excess <= 0 and batch_s < period_s):
        return False
    if last is None or last.planning_s is None or last.add_batch_s is None:
        return True
    return root(1.0, (last.planning_s, last.add_batch_s, last.commit_s or 0.0)) == _WORK


def read_pressure(
    now_pressed: bool | None, past: Turns | None, before: float, now: float, window_s: float
) -> tuple[float | None, Turns]:
    """The pressure at ``now``, and what is remembered.

    Args:
        now_pressed: whether the query is pressed at this look; this counts since the look before.
        past: what was remembered; None: the window begins here.
        before: time of the look before.
        now: time of this look.
        window_s: length of the window.

    >>> share, turns = read_pressure(True, Turns(0.0), 45.0, 60.0, 60.0)
    >>> share, turns
    (0.25, Turns(since=0.0, times=(45.0,)))
    >>> read_pressure(False, turns, 60.0, 75.0, 60.0)
    (0.25, Turns(since=0.0, times=(45.0, 60.0)))
    """
    if past is None or now_pressed is None or now <= past.since:
        return None, Turns(now)
    if not now_pressed and not past.times:
        return 0.0, past
    times = past.times
    if now_pressed != bool(len(times) % 2):
        times = (*times, max(before, past.since))
    begin = max(past.since, now - window_s)
    while len(times) > 1 and times[1] <= begin:
        times = times[2:]
    ends = times[1::2] if len(times) % 2 == 0 else (*times[1::2], now)
    held_s = math.fsum(end - max(start, begin) for start, end in zip(times[::2], ends, strict=True))
    return min(1.0, held_s / (now - begin)), Turns(past.since, times)
