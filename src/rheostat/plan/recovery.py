"""How long a change of the number takes, as measured: until the executors are there, and until the job has recovered.

S1 holds for 240 s after each change: no decision and no sample. Here the job itself shows when it has recovered, and
``hold_s`` is only the end of waiting. *Ready*: as many executors are registered as are in force, and a batch has
finished at that number. *Recovered*: ready, and once without an excess of backlog since.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rheostat.model import Assessment

__all__ = ["Recovery", "followed", "ready", "rescale_s"]

_KEPT = 5


@dataclass(frozen=True, slots=True)
class Recovery:
    """Where the last change stands.

    Attributes:
        executors: the number in force; None: nothing was seen yet.
        since: when it was first seen.
        grew: whether it is more than the one before.
        ready: whether it was ready once.
        recovered: whether the job has recovered from the change, or was waited for long enough.
        took_s: how long the last increases took until they were ready, the latest last; at most five.
    """

    executors: int | None = None
    since: float = 0.0
    grew: bool = False
    ready: bool = False
    recovered: bool = False
    took_s: tuple[float, ...] = ()


def ready(seen: Assessment, executors: int) -> bool:
    """Whether so many are registered, and have finished a batch."""
    return seen.executors == executors and seen.batches >= 1


def followed(seen: Assessment, executors: int, past: Recovery, hold_s: float) -> Recovery:
    """The recovery as this sample finds it.

    Args:
        seen: a complete sample.
        executors: the number in force.
        past: as the sample before found it.
        hold_s: how long a recovery is waited for at most.
    """
    if executors != past.executors:
        grew = past.executors is not None and executors > past.executors
        past = Recovery(executors=executors, since=seen.at, grew=grew, took_s=past.took_s)
    if past.recovered:
        return past
    is_ready = ready(seen, executors)
    if is_ready and not past.ready:
        took_s = (*past.took_s, seen.at - past.since)[-_KEPT:] if past.grew else past.took_s
        past = replace(past, ready=True, took_s=took_s)
    calm = past.ready and is_ready and seen.backlog_excess == 0
    return replace(past, recovered=calm or seen.at - past.since >= hold_s)


def rescale_s(past: Recovery) -> float:
    """The longest of the last increases, s; 0 before the first.

    >>> rescale_s(Recovery(took_s=(15.0, 45.0, 30.0)))
    45.0
    """
    return max(past.took_s, default=0.0)
