"""Hot standby: what the cluster layer must have around a change of the job layer. S1 Algorithm 10, corrected.

``n_backup`` Workers are to be registered and unused, so that an executor that is asked for starts on a Worker that is
there. The node servers understand two requests (S1, 4.3.3): POST ``{target}`` *creates* so many Workers more, DELETE
``{used, free}`` removes the idle ones beyond ``free``, and none of the ``used``.

As printed an increase posts n_backup each time, whatever is idle: +1, five times, leaves 2, 3, 4, 5, 6 in standby.
Here it is n_backup − idle. An increase by more than what is idle cannot wait for the refill: what it lacks is created
*before* the job grows, and the refill follows once the job has grown. A decrease frees Workers: `used` is read after
the job has shrunk, or a Worker in use would be deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

from rheostat.errors import Fault, InputError

__all__ = ["Standby", "around", "refill"]


@dataclass(frozen=True, slots=True)
class Standby:
    """What to ask of the cluster layer around one change, in this order; 0 and False: nothing.

    Attributes:
        create_first: POST so many, and wait for them, before the job grows.
        create_after: POST so many once the change of the job is confirmed.
        keep_after: DELETE with ``free`` = this once the job has shrunk, with `used` read then; None: no DELETE.
    """

    create_first: int = 0
    create_after: int = 0
    keep_after: int | None = None


def around(before: int, after: int, idle: int, *, n_backup: int, n_max: int) -> Standby:
    """What the cluster layer must do around ``before`` → ``after``.

    Args:
        before: Workers that the job uses now.
        after: Workers that it shall use; beyond ``n_max`` there are none.
        idle: Workers that are registered, or on their way, and not used.
        n_backup: Workers to be kept in standby.
        n_max: Workers that there can be, standby included.

    Raises:
        InputError: a number is negative, or there are more Workers than there can be.

    >>> around(2, 5, 2, n_backup=2, n_max=12)
    Standby(create_first=1, create_after=2, keep_after=None)
    >>> around(5, 2, 1, n_backup=2, n_max=12)
    Standby(create_first=0, create_after=0, keep_after=2)
    """
    _check(before=before, after=after, idle=idle, n_backup=n_backup, room=n_max - before - idle)
    free = n_max - before - idle
    lacks = min(free, max(0, after - before - idle))
    left = max(0, idle + lacks - (after - before))
    if left > n_backup:
        return Standby(create_first=lacks, keep_after=n_backup)
    return Standby(create_first=lacks, create_after=min(free - lacks, n_backup - left))


def refill(used: int, idle: int, *, n_backup: int, n_max: int) -> int:
    """Workers to POST so that ``n_backup`` are in standby, where the number of executors stays.

    >>> refill(3, 1, n_backup=2, n_max=12), refill(3, 4, n_backup=2, n_max=12), refill(3, 1, n_backup=2, n_max=4)
    (1, 0, 0)
    """
    return around(used, used, idle, n_backup=n_backup, n_max=n_max).create_after


def _check(**given: int) -> None:
    faults = [
        Fault(name, str(value), "≥ 0", "there are more Workers than there can be" if name == "room" else "a count")
        for name, value in given.items()
        if value < 0
    ]
    if faults:
        raise InputError(faults)
