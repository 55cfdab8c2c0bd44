"""What happened in a simulated run, exactly: the scores are made from this and from nothing sampled."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["History", "Steps"]

Steps = list[tuple[float, int]]
"""Change points ``(second, value)``, ascending; a value holds until the next one."""


@dataclass(slots=True)
class History:
    """All times are seconds from the start of the load.

    Attributes:
        paid: executors paid for, each from its request until it is gone.
        ready: executors able to run tasks.
        target: the number asked for.
        commits: ``(at, committed records, lag just before, lag just after)``, from ``(0, 0, 0, 0)`` on, one for each
            batch. Lag: the age of the oldest record that is not committed; 0 where none is.
        oldest: beside each commit, when the oldest record arrived that it left uncommitted. In the future if nothing
            was left: then the lag stays 0 until that time. Infinite if no record is to come any more.
        batches: ``(start, end, records, executors at the start)``, where they are kept.
        records_in, records_out: arrived; committed.
        records_lost, records_duplicated, records_shed: this job loses, doubles and sheds none.
    """

    paid: Steps = field(default_factory=list)
    ready: Steps = field(default_factory=list)
    target: Steps = field(default_factory=list)
    commits: list[tuple[float, int, float, float]] = field(default_factory=list)
    oldest: list[float] = field(default_factory=list)
    batches: list[tuple[float, float, int, int]] = field(default_factory=list)
    records_in: int = 0
    records_out: int = 0
    records_lost: int = 0
    records_duplicated: int = 0
    records_shed: int = 0

    def lag_at(self, at: float) -> float:
        """The lag at a time, s; at a commit, just after it."""
        number = bisect_right(self.commits, at, key=lambda commit: commit[0]) - 1
        return max(0.0, at - self.oldest[number]) if number >= 0 else 0.0

    def lag_spans(self, start: float, end: float) -> Iterator[tuple[float, float, float]]:
        """The lag from ``start`` to ``end`` as ``(from, to, lag at from)``; within a span it grows by 1 s each second.

        Where nothing is uncommitted there is no span.
        """
        first = max(0, bisect_right(self.commits, start, key=lambda commit: commit[0]) - 1)
        for number in range(first, len(self.commits)):
            begin, after = self.commits[number][0], number + 1
            if begin >= end:
                return
            until = min(end, self.commits[after][0] if after < len(self.commits) else end)
            since = self.oldest[number]
            begin = max(begin, start, since)
            if begin < until:
                yield begin, until, begin - since


def changed(steps: Steps, at: float, value: int) -> None:
    """Note a value from ``at`` on; one that was noted for the same second is replaced."""
    if steps and steps[-1][0] == at:
        steps.pop()
    if not steps or steps[-1][1] != value:
        steps.append((at, value))
