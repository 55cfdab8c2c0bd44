"""How a number of Workers is shared out among nodes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["shares"]


def shares(number: int, most: Sequence[int]) -> tuple[int, ...]:
    """How many of ``number`` Workers fall to each node: one after the other to the node that has the most left.

    Args:
        number: Workers to start or to let go; beyond what all nodes have it is clipped.
        most: what each node has: free ids to start one, idle Workers to let one go.

    >>> shares(3, [1, 4]), shares(4, [2, 2]), shares(9, [1, 2])
    ((0, 3), (2, 2), (1, 2))
    """
    left, found = list(most), [0] * len(most)
    for _ in range(min(number, sum(most))):
        place = left.index(max(left))
        left[place] -= 1
        found[place] += 1
    return tuple(found)
