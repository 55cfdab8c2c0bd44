"""Optimal control: the smallest number without a predicted violation. S1 Algorithms 6 and 7, corrected.

A number n *carries* a workload w if the model predicts fewer slow records than the SLA, f(w, n) < sla; with ``bounded``
it must also lie within what n executors were seen to carry [ours]: a model of healthy samples alone says that all is
well, wherever the load goes. The target is the smallest n that carries every point of the forecast, and with
``present`` the rate of now; where none does, the largest that is tried. To go below the number in force, n must carry
it at ``headroom`` of what it was seen to carry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rheostat.analyze.forecast import Rates
from rheostat.learn.model import SlowModel

__all__ = ["Carrier", "Outlook", "Residuals", "residuals", "smallest"]

_BEYOND = 16
"""Numbers that are tried beyond twice the one in force, where nothing says how many are useful."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """A forecast, kept to see what became of it.

    Attributes:
        at: when it was made.
        step_s: between its points; the first is one step after ``at``.
        points: the rates, by topic.
    """

    at: float
    step_s: float
    points: tuple[Rates, ...]

    def told(self, at: float) -> Rates | None:
        """The rates that were forecast for this time, by the nearest point; None: it does not reach so far.

        >>> Outlook(100.0, 5.0, ((10.0,), (20.0,))).told(109.0)
        (20.0,)
        """
        place = round((at - self.at) / self.step_s) - 1
        return self.points[max(0, place)] if at > self.at and place < len(self.points) else None


class Carrier(NamedTuple):
    """What decides whether a number carries a workload.

    Attributes:
        capacity: n → records/s that it was seen to carry; None: that is not looked at, or not known.
    """

    model: SlowModel
    sla: float
    capacity: Callable[[int], float | None]

    def carries(self, executors: int, points: Sequence[Rates], share: float = 1.0) -> bool:
        """Whether so many executors carry every point, at this share of what they were seen to carry."""
        seen = self.capacity(executors)
        if seen is not None and max(map(sum, points)) > share * seen:
            return False
        return all(self.model.predict(point, executors) < self.sla for point in points)


def smallest(carrier: Carrier, points: Sequence[Rates], in_force: int, headroom: float, useful: int | None) -> int:
    """The smallest number that carries the points; below the number in force, with headroom.

    Args:
        carrier: what decides.
        points: forecast rates; of one topic only the greatest matters, f never falls with the workload.
        in_force: the number in force.
        headroom: share of what was seen to be carried that may be used after a decrease.
        useful: the most executors that are of use; None: not known.
    """
    if len(points[0]) == 1:
        points = (max(points),)
    most = useful or 2 * in_force + _BEYOND
    target = _first(carrier, points, 1, most, 1.0)
    if target >= in_force:
        return target
    return min(in_force, _first(carrier, points, target, in_force, headroom))


def _first(carrier: Carrier, points: Sequence[Rates], low: int, high: int, share: float) -> int:
    return next((n for n in range(low, high) if carrier.carries(n, points, share)), max(low, high))


class Residuals(NamedTuple):
    """How wrong a prediction was, as shares of slow records.

    Attributes:
        total: for the workload that was forecast.
        of_model: for the workload that came.
    """

    total: float
    of_model: float


def residuals(model: SlowModel, forecast: Rates, came: Rates, executors: int, slow: float, most: float) -> Residuals:
    """|measured − predicted| at the number in force, both no more than ``most``."""
    expected, known = (min(most, model.predict(rates, executors)) for rates in (forecast, came))
    return Residuals(abs(min(most, slow) - expected), abs(min(most, slow) - known))
