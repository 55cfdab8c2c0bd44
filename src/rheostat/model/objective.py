"""What was asked for: the bounds of the executors, and the limit of the lag."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from rheostat.errors import Fault, InputError

__all__ = ["Bounds", "Objective"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Least and greatest number of executors, both included."""

    minimum: int
    maximum: int

    def __post_init__(self) -> None:
        faults = []
        if self.minimum < 1:
            faults.append(Fault("executors", str(self.minimum), "an integer ≥ 1", "the least number of executors"))
        if self.maximum < self.minimum:
            given = f"({self.minimum}, {self.maximum})"
            faults.append(Fault("executors", given, "minimum ≤ maximum", "the greatest number is under the least"))
        if faults:
            raise InputError(faults)

    def clamp(self, executors: int) -> int:
        """The nearest number within the bounds.

        >>> Bounds(2, 5).clamp(9)
        5
        """
        return max(self.minimum, min(self.maximum, executors))


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_OBJECTIVE = re.compile(
    r"\s*lag\s*<\s*(?P<value>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|min|m|h)(?:\s+for\s+(?P<percent>\d+(?:\.\d+)?)\s*%)?\s*"
)


@dataclass(frozen=True, slots=True)
class Objective:
    """Lag stays under ``lag_s`` seconds for ``percent`` percent of the time.

    >>> Objective.parse("lag < 2 min for 95%")
    Objective(lag_s=120.0, percent=95.0)
    """

    lag_s: float
    percent: float = 99.0

    @classmethod
    def parse(cls, text: object) -> Objective:
        """Read ``lag < DURATION [for PERCENT%]``; DURATION is a number with ms, s, m, min or h.

        Raises:
            InputError: the text is not understood, the duration is 0 or the percentage is not in (0, 100].
        """
        match = _OBJECTIVE.fullmatch(text) if isinstance(text, str) else None
        allowed = "'lag < DURATION [for PERCENT%]' with DURATION > 0 and PERCENT in (0, 100], as in 'lag < 30s for 99%'"
        if match is None:
            raise InputError([Fault("objective", repr(text), allowed, "the objective is not understood")])
        lag_s = float(match["value"]) * _UNITS[match["unit"]]
        percent = float(match["percent"] or 99.0)
        if not (0 < lag_s < math.inf and 0 < percent <= 100):
            raise InputError([Fault("objective", repr(text), allowed, "a figure of the objective is out of range")])
        return cls(lag_s, percent)

    def __str__(self) -> str:
        return f"lag < {self.lag_s:g} s for {self.percent:g}%"
