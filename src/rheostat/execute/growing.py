"""More executors: ask, and confirm by what the driver shows."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from rheostat.execute.ground import Ground, Patience, Result
from rheostat.model import Code, OutcomeStatus
from rheostat.plan.words import several

__all__ = ["StartUps", "grow"]

_REMEMBERED = 20
_ENOUGH = 3


class StartUps:
    """How long executors took to start, learned from our own requests."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._seen: deque[float] = deque(maxlen=_REMEMBERED)

    def learn(self, seconds: float) -> None:
        """One more start-up."""
        self._seen.append(seconds)

    @property
    def p95_s(self) -> float:
        """95th percentile of the last 20; not under the setting before there are three."""
        p95 = sorted(self._seen)[math.ceil(0.95 * len(self._seen)) - 1] if self._seen else 0.0
        return p95 if len(self._seen) >= _ENOUGH else max(p95, self._patience.start_up_s)

    @property
    def patience_s(self) -> float:
        """How long to wait for the next executor: 3 × the 95th percentile, but not under the setting."""
        return max(3 * self.p95_s, self._patience.least_no_room_s)


class _Arrivals:
    """Which executors came, and the longest time without a new one."""

    def __init__(self, at: float, known: Iterable[str]) -> None:
        self.last = at
        self.longest = 0.0
        self._known = set(known)

    def see(self, at: float, executors: Iterable[str]) -> None:
        new = set(executors) - self._known
        if new:
            self.longest = max(self.longest, at - self.last)
            self.last = at
            self._known |= new


def grow(ground: Ground, target: int, former: int, start_ups: StartUps) -> Result:
    """Ask for ``target`` executors and wait until so many are registered.

    There is no room when no further one came within 3 × the 95th percentile of the start-up, or not all within that
    time for each. The request is then lowered to what there is (not under ``former``, the number that stood before, as
    far as that is not over ``target``, and not under 1): a request left standing might be granted at any later time,
    when nobody expects it.

    Raises:
        ActuationError: the cluster refused.
        Superseded: a later decision came.
    """
    began, have = ground.clock.now(), ground.levers.registered()
    before, arrivals = len(have), _Arrivals(began, have)
    patience_s = start_ups.patience_s
    ground.request(target)
    while len(have) < target:
        now = ground.clock.now()
        if now - arrivals.last > patience_s or now - began > patience_s * (target - before):
            return _no_room(ground, target, former, before, waited_s=now - began)
        ground.pause()
        have = ground.levers.registered()
        arrivals.see(ground.clock.now(), have)
    if arrivals.longest:
        start_ups.learn(arrivals.longest)
    now = ground.clock.now()
    text = f"{len(have)} registered {now - began:.1f} s after {several(target, 'was', 'were')} asked for"
    return Result(OutcomeStatus.APPLIED, Code.APPLIED, text, before, len(have), now, "request", 0, 0.0)


def _no_room(ground: Ground, target: int, former: int, before: int, waited_s: float) -> Result:
    after = len(ground.levers.registered())
    kept = max(1, min(former, target), after)
    ground.request(kept)
    text = (
        f"{several(target, 'executor was', 'executors were')} asked for, {after} registered after {waited_s:.1f} s: no"
        f" room in the cluster (free cores, memory, spark.cores.max); the request is lowered to {kept}"
    )
    status = OutcomeStatus.PARTIAL if after > before else OutcomeStatus.NO_ROOM
    return Result(status, Code.NO_ROOM, text, before, after, ground.clock.now(), "request", 0, 0.0)
