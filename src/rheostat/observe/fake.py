"""A source that says what it was told to say: for tests of whatever looks through the port."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rheostat.model import Observation

__all__ = ["ScriptedSource"]


class ScriptedSource:
    """Gives the observations of a script in their order, and the last one again and again.

    Each is dated to the time of the look; its sections keep their own times, so that they age if the script repeats
    them. An exception in the script is raised: what a source must not do, and a loop must survive.

    Attributes:
        asked: the times at which it was asked.
        closed: how often it was closed.

    >>> source = ScriptedSource([Observation(0.0)])
    >>> source.observe(7.0).at
    7.0
    """

    def __init__(self, script: Iterable[Observation | Exception]) -> None:
        self._script = tuple(script)
        if not self._script:
            message = "a script needs at least one observation"
            raise ValueError(message)
        self.asked: list[float] = []
        self.closed = 0

    def observe(self, at: float) -> Observation:
        """The next observation of the script, dated ``at``."""
        said = self._script[min(len(self.asked), len(self._script) - 1)]
        self.asked.append(at)
        if isinstance(said, Exception):
            raise said
        return replace(said, at=at)

    def close(self) -> None:
        """Counted."""
        self.closed += 1
