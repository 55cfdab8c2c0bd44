"""The recent load of a live job, from its journal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from rheostat.errors import Fault, InputError
from rheostat.judge.cases import LoadSpec
from rheostat.judge.measured import Look, read_run
from rheostat.load.curves import staircase

__all__ = ["STEP_S", "levels_of", "recent_load"]

STEP_S = 5.0
"""Arrivals are counted over so many seconds at least: between two looks of a second they are mostly chance."""


def recent_load(journal: Path, last_s: float) -> LoadSpec:
    """What arrived in the last ``last_s`` seconds that the journal tells of, or in all of them.

    Raises:
        InputError: there is no journal, it is damaged, does not tell of a run of one query, or not of what arrived.
    """
    levels = levels_of(read_run(journal).looks, last_s)
    if not any(rate > 0 for _, rate in levels):
        message = "in that time no records are seen to arrive"
        raise InputError([Fault("journal", str(journal), "a journal with the source's newest offsets", message)])
    return LoadSpec(journal.name or str(journal), points=tuple(staircase(levels).points))


def levels_of(looks: Sequence[Look], last_s: float) -> list[tuple[float, float]]:
    """``(seconds, records/s)`` one after the other, by the newest offsets; where nothing was seen, the mean.

    Offsets that went back, as of a topic that was made anew, are a time without arrivals.

    >>> seen = [Look(at, latest, 0, None, 1, 1) for at, latest in ((0.0, 0), (3.0, 9), (5.0, 20), (15.0, 120))]
    >>> levels_of(seen, 60.0), levels_of(seen, 10.0)
    ([(5.0, 4.0), (10.0, 10.0)], [(10.0, 10.0)])
    """
    known = [(look.at, look.latest) for look in looks if look.latest is not None]
    if not known:
        return []
    kept = [each for each in known if each[0] >= known[-1][0] - last_s]
    spaced = kept[:1]
    for each in kept[1:]:
        if each[0] - spaced[-1][0] >= STEP_S:
            spaced.append(each)
    return [
        (after - before, max(0.0, (then - first) / (after - before)))
        for (before, first), (after, then) in pairwise(spaced)
    ]
