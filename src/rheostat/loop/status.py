"""What a loop says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from rheostat.config import Mode
from rheostat.model import Decision

__all__ = ["Status"]


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a loop after its last cycle.

    Attributes:
        mode: act, watch or dry-run.
        paused: decisions are recorded, not executed, until it is resumed.
        decision: the last one; None before the first cycle.
        executors: registered; None: unknown.
        target: the number in force.
        lag_s: age of the oldest uncommitted record; None: unknown.
        cycles, failures: cycles so far; how many of them failed somewhere.
        last_failure: what went wrong last, in words.
        journal: folder of the journal; None: none is written to disk.
    """

    mode: Mode
    policy: str
    paused: bool = False
    decision: Decision | None = None
    executors: int | None = None
    target: int | None = None
    lag_s: float | None = None
    cycles: int = 0
    failures: int = 0
    last_failure: str | None = None
    journal: str | None = None
