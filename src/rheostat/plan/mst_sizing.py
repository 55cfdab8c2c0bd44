"""How many executors carry what is asked for, and how far apart their nodes are: S2, Algorithms 3 and 4.

Candidates are n' executors: for fewer than there are the farthest nodes are given up, for more the nearest free ones
are added (:mod:`rheostat.plan.placement`), and ND is computed anew for each set. Without nodes ND is 0.

Several queries share the slots of an application. Each has a model of its own, of the executors that it has for
itself, and needs n_q of them; n' are enough if they are no fewer than the sum.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rheostat.learn.mst import MstModel
from rheostat.model import Nodes
from rheostat.plan.placement import Choice, grown, nd_max, shrunk

__all__ = ["Demand", "Reach", "enough_below", "least_above", "reach"]

_ROUNDING = 1e-9
_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Reach:
    """The numbers that can be reached, with their distances.

    Attributes:
        distances: ND of 0, 1, 2 … executors, ms; None: nodes are not known, and play no part.
        unknown: whether a round trip is not known; the longest known one then stands for it.
    """

    distances: tuple[float, ...] | None = None
    unknown: bool = False

    @property
    def most(self) -> int:
        """The greatest number that there is room for."""
        return _MOST if self.distances is None else len(self.distances) - 1

    def distance_ms(self, executors: int) -> float:
        """ND of so many, ms; beyond the room that of the greatest number."""
        if self.distances is None:
            return 0.0
        return self.distances[min(executors, self.most)]


@dataclass(frozen=True, slots=True)
class Demand:
    """What one query asks for.

    Attributes:
        model: None: not known yet, and then it keeps the executors that it has.
        executors: those that it has now, its share of all.
    """

    model: MstModel | None
    executors: float


def reach(nodes: Nodes | None, choice: Choice) -> Reach:
    """The candidate sets around the nodes in use.

    >>> from rheostat.model import NodeReading, RoundTrip
    >>> near = (RoundTrip("a", "b", 20.0), RoundTrip("a", "c", 300.0), RoundTrip("b", "c", 250.0))
    >>> there = (NodeReading("a", 1, 0), NodeReading("b", 0, 1), NodeReading("c", 0, 1))
    >>> reach(Nodes(0.0, there, near), Choice())
    Reach(distances=(0.0, 0.0, 20.0, 300.0), unknown=False)
    """
    if nodes is None:
        return Reach()
    used = nodes.in_use
    down = shrunk(used, nodes, len(used), choice)
    up = grown(used, nodes, sum(node.free for node in nodes.nodes), choice)
    fewer = [tuple((Counter(used) - Counter(down[:count])).elements()) for count in range(len(used), 0, -1)]
    sets = [*fewer, *(used + up[:count] for count in range(len(up) + 1))]
    known = [nd_max(each, nodes) for each in sets]
    worst = max((trip.ms for trip in nodes.round_trips), default=0.0)
    return Reach(tuple(worst if each is None else each for each in known), None in known)


def load_of(demands: Sequence[Demand], asked: Sequence[float], distance_ms: float) -> float:
    """Executors that all queries need together at this distance, a real number."""
    pairs = zip(demands, asked, strict=True)
    return sum(
        demand.executors if demand.model is None else demand.model.needed(rate, distance_ms) for demand, rate in pairs
    )


def carries(demands: Sequence[Demand], asked: Sequence[float], executors: int, reached: Reach) -> bool:
    """Whether so many executors carry the rates that are asked for."""
    need = load_of(demands, asked, reached.distance_ms(executors))
    return need <= executors * (1 + _ROUNDING)


def enough_below(
    demands: Sequence[Demand], asked: Sequence[float], executors: int, reached: Reach, *, in_turn: bool
) -> int:
    """The least number below ``executors`` that carries what is asked for; ``executors`` where none does.

    Args:
        demands: of each query.
        asked: records/s that each is to carry.
        executors: those that there are.
        reached: the candidate sets.
        in_turn: whether to stop at the first number that does not (Algorithm 4); else nearer sets are looked at too.
    """
    best = executors
    for number in range(executors - 1, 0, -1):
        if carries(demands, asked, number, reached):
            best = number
        elif in_turn or reached.distances is None:
            break
    return best


def least_above(demands: Sequence[Demand], asked: Sequence[float], executors: int, reached: Reach) -> tuple[int, bool]:
    """The least number above ``executors`` that carries what is asked for, and whether it does.

    Where none does, that with the greatest share of what is needed; ``executors`` itself where more only make it worse.
    """
    if reached.distances is None:
        need = load_of(demands, asked, 0.0)
        return max(executors + 1, _MOST if need >= _MOST else math.ceil(need * (1 - _ROUNDING))), True

    def share(number: int) -> float:
        need = load_of(demands, asked, reached.distance_ms(number))
        return number / need if need > 0 else math.inf

    for number in range(executors + 1, reached.most + 1):
        if carries(demands, asked, number, reached):
            return number, True
    best = max(range(executors, max(executors, reached.most) + 1), key=lambda number: (share(number), -number))
    return best, False
