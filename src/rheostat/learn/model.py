"""f(workload, n): the share of slow records that is to be expected, sane also where nothing was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite

from rheostat.learn.polynomial import Polynomial
from rheostat.learn.surface import Seen, Surface, surface

__all__ = ["CEILING", "SlowModel"]

CEILING = 1e9
"""No share of slow records is predicted above this."""
_CARRIED = 0.9
"""Up to this share of the capacity nothing is slow (the thesis' guard in Algorithm 2)."""


@dataclass(frozen=True)
class SlowModel:
    """The model of slow records of a job.

    Attributes:
        polynomial: of (load, executors), where load = Σ costs · workload.
        costs: of a record of each topic, relative to the mean record of the samples; one topic: (1.0,).
        seen: (executors, lowest load, highest load) of the samples; one number may have several such ranges.
        w_max: records/s that one executor carries; None: not known.
        top: the largest share among the samples.
        objective: the share at which the objective is violated; n·w_max is the load that reaches it.
    """

    polynomial: Polynomial
    costs: tuple[float, ...]
    seen: tuple[Seen, ...]
    w_max: float | None
    top: float
    objective: float

    def predict(self, workload: Sequence[float], executors: int) -> float:
        """Share of slow records, in [0, 1e9]: non-decreasing in each workload, non-increasing in executors.

        Where samples lie: the polynomial, made monotone. Elsewhere: 0 up to 90 % of the capacity, the objective at the
        capacity, and on along this line; within what easier and harder points that were seen allow. The capacity is
        n·w_max, or the load that was seen to be carried by as many executors or fewer, if that is more.

        Args:
            workload: records/s of each topic, as many as were learned from, at least 0.
            executors: at least 1.

        Raises:
            ValueError: another number of topics, a workload that is negative or not finite, no executor.
        """
        if len(workload) != len(self.costs) or not all(isfinite(w) and w >= 0 for w in workload) or executors < 1:
            message = f"no prediction for workload {tuple(workload)} on {executors} executors"
            raise ValueError(message)
        load = float(sum(cost * w for cost, w in zip(self.costs, workload, strict=True)))
        least, most = self._surface.bounds(load, executors)
        return min(max(self._assumed(load, executors), least), most, CEILING)

    def _assumed(self, load: float, executors: int) -> float:
        capacity = max(executors * (self.w_max or 0.0), self._surface.sound_load(executors))
        if load <= _CARRIED * capacity:
            return 0.0
        if load >= CEILING * capacity:
            return CEILING
        return self.objective * (load / capacity - _CARRIED) / (1 - _CARRIED)

    @cached_property
    def _surface(self) -> Surface:
        return surface(self.polynomial, self.seen, self.top, self.objective)
