"""Which Workers a request creates or removes. Pure. S1, section 4.3.3, Algorithms 8 and 9."""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["to_create", "to_remove"]


def to_create(target: int, allocated: Collection[int], n_max: int) -> tuple[int, ...]:
    """Ids of the Workers that a request for ``target`` more creates (Algorithm 8), the least free ones first.

    Beyond the free ids it is clipped; with none free it is ignored. Ids are always in 1 … ``n_max``.

    Args:
        target: how many more are asked for, ≥ 0.
        allocated: ids in use, standby included, and those whose process has not ended yet.
        n_max: how many there can be.

    >>> to_create(2, {1, 3}, 5), to_create(9, {1, 3}, 5), to_create(1, {1, 2}, 2)
    ((2, 4), (2, 4, 5), ())
    """
    free = [number for number in range(1, n_max + 1) if number not in allocated]
    return tuple(free[:target])


def to_remove(allocated: Collection[int], used: Collection[int], free: int) -> tuple[int, ...]:
    """Ids of the Workers that go so that ``free`` idle ones are left (Algorithm 9), the least first; never a used one.

    Args:
        allocated: ids of the Workers that are there and stay unless said otherwise.
        used: ids of those that host an executor.
        free: idle ones to keep, ≥ 0; clipped to the idle ones.

    >>> to_remove({1, 2, 3, 4, 5}, {1, 4}, 2), to_remove({1, 2, 3}, {1}, 7)
    ((2,), ())
    """
    idle = sorted(set(allocated) - set(used))
    return tuple(idle[: max(0, len(idle) - free)])
