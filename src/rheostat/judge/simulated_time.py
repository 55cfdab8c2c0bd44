"""The clock of a simulated run."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["SimulatedTime"]


class SimulatedTime:
    """Time that passes as soon as it is waited for, until the run is over.

    Args:
        over: whether it is, given the present second and the one that would come next.

    Attributes:
        at: the present second.
    """

    def __init__(self, over: Callable[[float, float], bool]) -> None:
        self.at = 0.0
        self._over, self._stopped = over, False

    def now(self) -> float:
        """The present second."""
        return self.at

    def wait(self, seconds: float) -> bool:
        """Let it pass; True, and it does not, once the run is over."""
        later = self.at + seconds
        if self._stopped or self._over(self.at, later):
            return True
        self.at = later
        return False

    def stop(self) -> None:
        """End the run."""
        self._stopped = True
