"""Real runs with a known load and timetable of executors: what the simulator is fitted to and held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rheostat.demo.plan import DemoPlan
from rheostat.load.curves import RateCurve
from rheostat.load.shapes import parse_shape

__all__ = ["TimetablePlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimetablePlan(DemoPlan):
    """The demo's cluster and pipeline, under any load, with executors by a timetable in place of a policy.

    Attributes:
        shape: the load, in the language of :mod:`rheostat.load.shapes`.
        steps: ``(second of the load, executors)``, ascending; before the first one there is the least number.
        sample_s: time between two looks: shorter than a batch, so that none is missed.
    """

    shape: str
    steps: tuple[tuple[float, int], ...]
    sample_s: float = 1.0
    policy: str = "schedule"
    begin_s: float = 45.0

    @property
    def seconds(self) -> float:
        """Length of the load."""
        return self.curve().duration

    def curve(self) -> RateCurve:
        """The load."""
        return parse_shape(self.shape, seed=self.seed)

    def phase(self, second: float | None) -> str:
        """Name of the phase at a second of the load; None: before it."""
        if second is None:
            return "warm-up"
        return "load" if second < self.seconds else "drain"

    def settings(self, folder: Path) -> Mapping[str, Any]:
        """The autoscaler's settings: the timetable, which nothing may delay."""
        from rheostat.plan.schedule import OPEN_LOOP

        return {
            "profile": "demo",
            "objective": self.objective,
            "executors": list(self.executors),
            "sample_s": self.sample_s,
            "policy": "schedule",
            "policy_options": {"steps": [[max(0.0, self.begin_s + at), count] for at, count in self.steps]},
            "guard": dict(OPEN_LOOP),
            "journal": str(folder / "journal"),
        }
