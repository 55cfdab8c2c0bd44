"""Ports of the loop. The simulator and the adapters for Spark implement the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rheostat.model import Decision, Observation, Outcome, SheddingPlan

if TYPE_CHECKING:
    from rheostat.learn.slow_records import Sample


class Source(Protocol):
    """Reads observations."""

    def observe(self, at: float) -> Observation:
        """Read once. What cannot be read becomes a :class:`~rheostat.model.Gap`, never an exception."""
        ...

    def close(self) -> None:
        """Close connections. May be called more than once."""
        ...


class Actuator(Protocol):
    """Changes the number of executors, in the background: no call may block for long."""

    def apply(self, decision: Decision) -> None:
        """Start executing a decision that acts. It supersedes one that is still being executed."""
        ...

    def poll(self, at: float) -> Outcome | None:
        """Return the outcome of the last decision, once; None while it is being executed or if there is none."""
        ...

    def close(self) -> None:
        """Stop background work and leave the executors as they are. May be called more than once."""
        ...


class Shedder(Protocol):
    """Tells the sources which share of the records to keep."""

    def order(self, plan: SheddingPlan | None) -> None:
        """Keep what the plan says from the next batch on; None: everything."""
        ...

    def close(self) -> None:
        """Keep everything again."""
        ...


class Clock(Protocol):
    """The only source of time; tests and simulations use a manual clock."""

    def now(self) -> float:
        """Seconds since the epoch, by the wall clock at the start of the run; they never run back, nor do they jump."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait; return True if the wait was cut short because the loop is to end."""
        ...


class SampleStore(Protocol):
    """Stores training samples, which are too many for a policy's state: rows, numbered from 0."""

    def put(self, first: int, rows: Sequence[Sample]) -> None:
        """Write rows ``first``, ``first`` + 1, …, in place of existing ones. Idempotent.

        Raises:
            JournalError: they could not be written; existing rows are unchanged.
        """
        ...

    def read(self, count: int, most: int | None = None) -> Sequence[Sample]:
        """Read the first ``count`` rows, or the newest ``most`` of these, oldest first, without lost ones."""
        ...
