"""The doors between the loop and the world. The simulator and the real Spark stand behind the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rheostat.model import Decision, Observation, Outcome

if TYPE_CHECKING:
    from rheostat.learn.slow_records import Sample


class Source(Protocol):
    """Where observations come from."""

    def observe(self, at: float) -> Observation:
        """Look once. Never raises for what could not be seen: that becomes a :class:`~rheostat.model.Gap`."""
        ...

    def close(self) -> None:
        """Give back connections. May be called more than once."""
        ...


class Actuator(Protocol):
    """What changes the number of executors. Works in the background: neither call may block for long."""

    def apply(self, decision: Decision) -> None:
        """Begin to execute a decision that acts. A decision that is still being executed is superseded."""
        ...

    def poll(self, at: float) -> Outcome | None:
        """The outcome of the last decision, once; None while it is still being executed or if there is none."""
        ...

    def close(self) -> None:
        """End background work. Leaves the executors as they are. May be called more than once."""
        ...


class Clock(Protocol):
    """The only way to the time. A manual clock stands in for it in tests and simulations."""

    def now(self) -> float:
        """Seconds; of the epoch where a person will read them."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait; True if it was cut short because the loop is to end."""
        ...


class SampleStore(Protocol):
    """Where samples go that are too many for a policy's state: rows, numbered from 0."""

    def put(self, first: int, rows: Sequence[Sample]) -> None:
        """Keep rows ``first``, ``first`` + 1, …, in place of those that were there. Idempotent.

        Raises:
            JournalError: they could not be kept; what was there before still is.
        """
        ...

    def read(self, count: int, most: int | None = None) -> Sequence[Sample]:
        """The first ``count`` rows, or the newest ``most`` of these, oldest first; without those that were lost."""
        ...
