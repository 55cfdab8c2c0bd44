"""How large the cluster of ``router`` is to be: target rate, and what the post-decision leaves of a size. S5."""

from __future__ import annotations

import math
from typing import NamedTuple

from rheostat.analyze.regression import Fit
from rheostat.model import Assessment, Code, Reason
from rheostat.plan.router_options import RouterOptions
from rheostat.plan.words import executors, seconds

__all__ = ["Times", "least_size", "most_size", "shaped", "target_rate"]


class Times(NamedTuple):
    """The spans of a size, s: catch-up time; how far ahead t3 lies; how long the change stops processing."""

    catch_up_s: float
    horizon_s: float
    pause_s: float = 0.0


def target_rate(fit: Fit, now: float, buffered: float, times: Times) -> float:
    """What must be processed, records/s: max(recovery rate, r(t3)).

    E = ∫ r dt from now to the catch-up deadline + what is buffered; recovery = E ÷ catch-up time. The deadline lies a
    pause and the catch-up time ahead: what arrives in the pause must be worked off too.

    >>> from rheostat.analyze.regression import Point, line
    >>> level = line([Point(0, 1000.0), Point(60, 1000.0)])
    >>> round(target_rate(level, 60.0, 200_000, Times(catch_up_s=600, horizon_s=600, pause_s=180)))
    1633
    """
    events = fit.integral(now, now + times.pause_s + times.catch_up_s) + buffered
    return max(events / times.catch_up_s, fit.at(now + times.horizon_s), 0.0)


def least_size(seen: Assessment, most_partitions: float | None) -> int:
    """The smallest size by partitions: so that no slot has more than ``most_partitions`` of them, if they are even.

    >>> least_size(Assessment(0.0, partitions=97, slots_per_executor=2), most_partitions=10.0)
    5
    """
    if most_partitions is None or not seen.partitions or not seen.slots_per_executor:
        return 1
    return max(1, math.ceil(seen.partitions / (most_partitions * seen.slots_per_executor)))


def most_size(seen: Assessment, least_partitions: float | None) -> int | None:
    """The largest size by partitions: so that each slot has ``least_partitions`` of them; None: no limit.

    >>> most_size(Assessment(0.0, partitions=31, slots_per_executor=2), least_partitions=1.0)
    16
    """
    if least_partitions is None or not seen.partitions or not seen.slots_per_executor:
        return None
    return max(1, math.ceil(seen.partitions / (least_partitions * seen.slots_per_executor)))


def shaped(seen: Assessment, n: int, target: int, since_s: float, options: RouterOptions) -> tuple[int, Reason | None]:
    """The post-decision: what is left of a target, and why it is another one; None: it stays as it was.

    In order: cooldown, largest step, largest size, limits by partitions. The last ones never turn the
    direction: a decrease ends at n at the least, an increase at n at the most.

    Args:
        seen: the sample.
        n: the number in force.
        target: what is proposed.
        since_s: since the number in force is that, s; infinite: it never changed.
        options: the policy's.
    """
    if target == n:
        return n, None
    blocked = _blocked(n, target, since_s, options)
    if blocked is not None:
        return n, blocked
    stepped = _stepped(n, target, options)
    limited = _limited(seen, n, stepped, options)
    if limited != stepped:
        text = f"partitions or the largest size leave {executors(limited)} of {stepped}"
        return limited, Reason(Code.AT_MAX if limited < stepped else Code.AT_MIN, text)
    if stepped != target:
        return stepped, Reason(
            Code.LARGEST_STEP, f"at most {abs(stepped - n)} at a time: {stepped} instead of {target}"
        )
    return target, None


def _blocked(n: int, target: int, since_s: float, options: RouterOptions) -> Reason | None:
    """Why there may be no change at all."""
    up = target > n
    limit = options.cooldown_up_s if up else options.cooldown_down_s
    if since_s >= limit:
        return None
    text = f"the last change was {seconds(since_s)} ago, the cooldown is {seconds(limit)}: {n} stays"
    return Reason(Code.COOLDOWN_UP if up else Code.COOLDOWN_DOWN, text)


def _stepped(n: int, target: int, options: RouterOptions) -> int:
    step = options.largest_step_up if target > n else options.largest_step_down
    return target if step is None else max(n - step, min(n + step, target))


def _limited(seen: Assessment, n: int, target: int, options: RouterOptions) -> int:
    limits = (options.largest_size, most_size(seen, options.least_partitions))
    most = min((limit for limit in limits if limit is not None), default=math.inf)
    limited = int(min(max(target, least_size(seen, options.most_partitions)), most))
    return max(n, limited) if target > n else min(n, limited)
