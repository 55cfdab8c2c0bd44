"""Variation files, as Faban reads them (S1, section 2.8): how many threads drive the load, and for how long.

Each line is ``seconds, level``: the level holds for so many seconds, and is a number of producer threads, so a rate per
thread belongs to it. ``10, 500`` then ``20, 700`` at 2 records/s a thread: 1000 records/s for 10 s, 1400 for 20 s.
Blank lines and what follows a ``#`` are left out. Several files are agents that work at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rheostat.errors import Fault, InputError
from rheostat.load.curves import RateCurve, Together, staircase
from rheostat.load.lines import FaultList, number_pairs, read_lines

__all__ = ["read_variation"]


def read_variation(paths: Sequence[Path], rate_per_level: float) -> RateCurve:
    """The load of one or more agents.

    Args:
        paths: one file for each agent.
        rate_per_level: records/s of one producer thread.

    Raises:
        InputError: with every faulty line of every file.
    """
    agents, faults = [], []
    for path in paths:
        found = FaultList(path, "variation")
        levels = _levels(path, found)
        faults += list(found)
        if levels:
            agents.append(staircase([(seconds, level * rate_per_level) for seconds, level in levels]))
    if faults or not agents:
        raise InputError(faults or [Fault("variation", "", "files, comma separated", "no file is named")])
    return agents[0] if len(agents) == 1 else Together(agents)


def _levels(path: Path, faults: FaultList) -> list[tuple[float, float]]:
    lines = read_lines(path, faults)
    for number, seconds, level in (pairs := number_pairs(lines, "seconds, level", faults)):
        if seconds == 0:
            faults.add(number, f"{seconds:g}", "seconds > 0", "a level must last some time")
        if level != int(level):
            faults.add(number, f"{level:g}", "a whole number ≥ 0", "a level is a number of threads")
    if not lines and not list(faults):
        faults.add(1, "nothing", "lines of: seconds, level", "the file is empty")
    return [(seconds, level) for _, seconds, level in pairs]
