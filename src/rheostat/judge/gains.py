"""A search for the gains α and β of the hysteresis: a coarse grid, then finer around the best. Deterministic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple

__all__ = ["GRID", "ROUNDS", "Candidate", "Gains", "Outcome", "Verdict", "judged", "ranked", "search"]

GRID = (0.25, 0.5, 0.75, 1.0)
"""Values of α and of β that are tried first, unless others are named."""

ROUNDS = 2
"""How often the grid is refined around the best; each time to half its distance."""

_DIGITS, _EXACT = 4, 9
"""Decimals of gains, and of costs that are told apart."""


class Gains(NamedTuple):
    """α and β, in (0, 1]: shares of the way up and of the way down by one decision."""

    up: float
    down: float

    def __str__(self) -> str:
        return f"α {self.up:g}, β {self.down:g}"


class Outcome(NamedTuple):
    """What runs came to over some time.

    Attributes:
        cost: ``total_cost``, executor-hours.
        violation_hours: of ``hours``, with the lag over the objective.
    """

    cost: float
    violation_hours: float
    hours: float

    @property
    def violation_share(self) -> float:
        """Share of the time over the objective."""
        return self.violation_hours / self.hours if self.hours > 0 else 0.0

    @property
    def rounded(self) -> tuple[float, float]:
        """Cost and hours over the objective without what only the order of a sum makes of them."""
        return round(self.cost, _EXACT), round(self.violation_hours, _EXACT)

    def no_worse_than(self, other: Outcome) -> bool:
        """Whether it costs no more, and is over the objective no longer."""
        return all(mine <= its for mine, its in zip(self.rounded, other.rounded, strict=True))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pair of gains with what its runs came to.

    Attributes:
        searched: over the part of the load that candidates are ranked by.
        held_out: over the rest of it, which only the winner is held against.
        faults: why runs of it do not count.
    """

    gains: Gains
    searched: Outcome
    held_out: Outcome
    faults: tuple[str, ...] = ()


class Verdict(NamedTuple):
    """Which gains to take, and why."""

    gains: Gains
    why: str


Trial = Callable[[Sequence[Gains]], Sequence[Candidate]]
"""Plays pairs of gains; what comes back is in their order."""


def search(play: Trial, present: Gains, grid: Iterable[float] = GRID) -> list[Candidate]:
    """Try pairs of gains, the best first in what comes back.

    All pairs of the grid and the present one; then, :data:`ROUNDS` times, the eight neighbours of the best, at half the
    distance of before. Where all that were tried cost the same, there is nothing to refine.

    Args:
        play: plays candidates.
        present: always among the candidates.
        grid: values of α and β in (0, 1], at least one.
    """
    values = sorted(set(grid))
    first = list(dict.fromkeys([present, *(Gains(up, down) for up, down in product(values, values))]))
    found = list(play(first))
    distance = min((after - before for before, after in pairwise(values)), default=values[0])
    for _ in range(ROUNDS):
        if len(found) > 1 and _alike(found):
            break
        distance /= 2
        known = {each.gains for each in found}
        fresh = [each for each in _around(ranked(found, present)[0].gains, distance) if each not in known]
        found += play(fresh)
    return ranked(found, present)


def ranked(found: Iterable[Candidate], present: Gains) -> list[Candidate]:
    """By cost, then by time over the objective, then the nearest to the present gains; last what does not count."""

    def key(each: Candidate) -> tuple[bool, tuple[float, float], float, Gains]:
        distance = abs(each.gains.up - present.up) + abs(each.gains.down - present.down)
        return bool(each.faults), each.searched.rounded, round(distance, _DIGITS), each.gains

    return sorted(found, key=key)


def judged(candidates: Sequence[Candidate], present: Gains) -> Verdict:
    """The best one, if it is better than the present one, and no worse on what was held out; else the present one.

    Args:
        candidates: ranked; the present one among them.
        present: the gains in use.
    """
    best, now = candidates[0], _by_gains(candidates)[present]
    if now.faults:
        return Verdict(present, f"the present gains stay: their own run does not count ({now.faults[0]})")
    if _alike(candidates):
        return Verdict(present, "the present gains stay: no other pair makes a difference under this load")
    if best.searched.rounded[0] >= now.searched.rounded[0]:
        return Verdict(present, "the present gains stay: nothing that was tried costs less")
    gained = f"{best.gains} cost {best.searched.cost:.4g} instead of {now.searched.cost:.4g} executor-hours"
    held = (
        f"{best.held_out.cost:.4g}, with {best.held_out.violation_share:.2%} of the time over the objective, "
        f"instead of {now.held_out.cost:.4g} with {now.held_out.violation_share:.2%}"
    )
    if best.held_out.no_worse_than(now.held_out):
        return Verdict(best.gains, f"{gained}; on the part that was held out {held}")
    return Verdict(present, f"the present gains stay: {gained}, but on the part that was held out {held}")


def _around(best: Gains, distance: float) -> list[Gains]:
    steps = (-distance, 0.0, distance)
    pairs = ((round(best.up + up, _DIGITS), round(best.down + down, _DIGITS)) for up, down in product(steps, steps))
    return [Gains(up, down) for up, down in pairs if 0 < up <= 1 and 0 < down <= 1]


def _alike(candidates: Iterable[Candidate]) -> bool:
    return len({each.searched.rounded for each in candidates}) == 1


def _by_gains(candidates: Iterable[Candidate]) -> Mapping[Gains, Candidate]:
    return {each.gains: each for each in candidates}
