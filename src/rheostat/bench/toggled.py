"""Two ways of running, by turns in blocks: what the second adds to the time of a batch. Pure.

Neighbouring blocks are compared, one of each kind, in the order ABBA: what drifts over minutes cancels. A pair of
blocks is the unit of the bootstrap, as batches that follow each other are not independent.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rheostat.bench.measure import bootstrap_interval

__all__ = ["Block", "Difference", "abba", "added", "added_at_median", "pairs"]

_RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Block:
    """Batches in a row, with their times in whole milliseconds."""

    attached: bool
    batch_ms: Sequence[int]


@dataclass(frozen=True, slots=True)
class Difference:
    """What attaching adds, in percent of the median batch without; ``ci95``: None where there are too few pairs."""

    percent: float
    ci95: tuple[float, float] | None


def abba(pairs: int) -> list[bool]:
    """Turns for so many pairs of blocks.

    >>> abba(2)
    [False, True, True, False]
    """
    return [attached for number in range(pairs) for attached in ((False, True) if number % 2 == 0 else (True, False))]


def pairs(blocks: Sequence[Block]) -> list[tuple[Block, Block]]:
    """Neighbours, each pair as (without, with).

    Raises:
        ValueError: two neighbours are of one kind.
    """
    found = []
    for one, other in zip(blocks[::2], blocks[1::2], strict=True):
        if one.attached is other.attached:
            message = "the blocks do not go by turns"
            raise ValueError(message)
        found.append((other, one) if one.attached else (one, other))
    return found


def added(blocks: Sequence[Block]) -> Difference:
    """The median, over the pairs, of the difference between the mean batch times of the two blocks.

    Means within a block, since a cycle of the autoscaler falls into one batch of several: the median batch would not
    feel it. Times in whole milliseconds do, as a mean of 20 of them is known to about 0.06 ms.
    """
    both = pairs(blocks)
    usual = statistics.median(time for without, _ in both for time in without.batch_ms)
    shares = [
        100 * (statistics.fmean(attached.batch_ms) - statistics.fmean(without.batch_ms)) / usual
        for without, attached in both
    ]
    return Difference(
        statistics.median(shares), bootstrap_interval(np.asarray(shares), lambda values: float(np.median(values)))
    )


def added_at_median(blocks: Sequence[Block]) -> Difference:
    """The difference of the median batches of the two kinds, with medians between the whole milliseconds."""
    both = pairs(blocks)
    without = [np.asarray(one.batch_ms) for one, _ in both]
    attached = [np.asarray(other.batch_ms) for _, other in both]

    def percent(chosen: npt.NDArray[np.int64]) -> float:
        usual = _median(np.concatenate([without[number] for number in chosen]))
        return 100 * (_median(np.concatenate([attached[number] for number in chosen])) / usual - 1)

    everything = np.arange(len(both))
    if everything.size < 3:
        return Difference(percent(everything), None)
    random = np.random.default_rng(1)
    found = [percent(random.choice(everything, everything.size)) for _ in range(_RESAMPLES)]
    low, high = np.percentile(found, [2.5, 97.5])
    return Difference(percent(everything), (float(low), float(high)))


def _median(values: npt.NDArray[np.int64]) -> float:
    return statistics.median_grouped(values.tolist(), 1)
