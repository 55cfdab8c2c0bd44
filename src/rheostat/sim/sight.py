"""Seeing the job late, in part, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rheostat.model import Observation
from rheostat.sim.events import MetricFault
from rheostat.sim.jobfile import JobFile
from rheostat.sim.view import without

__all__ = ["Sight"]

_NO_ANSWER = "injected: no answer"


class Sight:
    """What of the job is seen at a time. Sections keep the time at which they were true."""

    def __init__(self, job: JobFile) -> None:
        self._delay_s = job.metrics.delay_s
        self._faults = [event for event in job.events if isinstance(event, MetricFault)]
        self._reach_s = self._delay_s + max((fault.delay_s for fault in self._faults), default=0.0)
        self._remembered: list[Observation] = []

    def moments(self, after: float, until: float) -> list[float]:
        """The moments in between that looks from ``until`` on may show: each must be remembered when it has come."""
        starts = [fault.at_s - self._delay_s - (0.0 if fault.frozen else fault.delay_s) for fault in self._faults]
        return sorted(moment for moment in {*starts, self._shows(until)} if after < moment < until)

    def _shows(self, at: float) -> float:
        """Which moment a look at ``at`` shows."""
        faults = list(self._now(at))
        shown = at - self._delay_s - max((fault.delay_s for fault in faults), default=0.0)
        return max(0.0, min([shown, *(fault.at_s for fault in faults if fault.frozen)]))

    def remember(self, seen: Observation) -> None:
        """Keep a look for later ones that will show it."""
        if self._remembered and self._remembered[-1].at == seen.at:
            self._remembered.pop()
        self._remembered.append(seen)

    def seen(self, at: float, look: Observation) -> Observation:
        """What is seen at ``at``, where ``look`` is the truth."""
        self.remember(look)
        shown = self._shows(at)
        found = next(each for each in reversed(self._remembered) if each.at <= shown)
        self._forget(at)
        missing = frozenset(section for fault in self._now(at) for section in fault.missing)
        found = replace(found, at=at)
        return without(found, missing, _NO_ANSWER) if missing else found

    def _now(self, at: float) -> Iterator[MetricFault]:
        return (fault for fault in self._faults if fault.at_s <= at < fault.until_s)

    def _forget(self, at: float) -> None:
        """What no later look can show: older than the longest delay, and than what is or will be frozen."""
        frozen = [fault.at_s for fault in self._faults if fault.frozen and at < fault.until_s]
        horizon = min([at - self._reach_s, *frozen])
        while len(self._remembered) > 1 and self._remembered[1].at <= horizon:
            self._remembered.pop(0)
