"""A run as lines for plots, thinned so that a report of many runs stays readable by a browser."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rheostat.judge.recorder import Act

__all__ = ["Points", "Tracks", "lag_line", "thinned", "thinned_acts"]

Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Tracks:
    """What is drawn of a run; seconds since its start, records/s, executors, seconds.

    Attributes:
        capacity: records/s that the executors able to work carry within the objective, a step function.
        paid: executors paid for, a step function.
        lag: the sawtooth of the oldest uncommitted record's age.
        acts: decisions that acted, at most as many as a plot can show.
    """

    capacity: Points
    paid: Points
    lag: Points
    acts: tuple[Act, ...]


def thinned(points: Sequence[tuple[float, float]], most: int) -> Points:
    """No more than ``most`` points, with every extreme that a plot of that width can show.

    The points are cut into ``most // 2`` stretches of equally many; of each the lowest and the highest stay, in the
    order of time.

    >>> thinned([(0, 5.0), (1, 1.0), (2, 9.0), (3, 4.0)], 2)
    [(1, 1.0), (2, 9.0)]
    """
    if len(points) <= most:
        return list(points)
    stretches = max(1, most // 2)
    edges = [len(points) * index // stretches for index in range(stretches + 1)]
    kept: Points = []
    for begin, end in pairwise(edges):
        stretch = range(begin, end)
        low, high = min(stretch, key=lambda i: points[i][1]), max(stretch, key=lambda i: points[i][1])
        kept += [points[index] for index in sorted({low, high})]
    return kept


def thinned_acts(acts: Sequence[Act], most: int) -> tuple[Act, ...]:
    """Every act, or of too many each k-th."""
    return tuple(acts[:: -(-len(acts) // most)]) if acts else ()


def lag_line(spans: Iterable[tuple[float, float, float]]) -> Points:
    """The sawtooth from spans (from, to, lag at from) in which the lag grows by 1 s each second; 0 between them.

    >>> lag_line([(0.0, 10.0, 0.0), (12.0, 20.0, 5.0)])
    [(0.0, 0.0), (10.0, 10.0), (10.0, 0.0), (12.0, 0.0), (12.0, 5.0), (20.0, 13.0)]
    """
    points: Points = []
    for begin, end, lag in spans:
        if points and points[-1][0] < begin:
            points += [(points[-1][0], 0.0), (begin, 0.0)]
        points += [(begin, lag), (end, lag + end - begin)]
    return points
